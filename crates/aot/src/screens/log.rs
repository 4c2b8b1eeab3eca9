//! The journal as lines for people: by moment, or the attempts on one atom. Reads no journal and has no clock.

use aot_core::rules::Change;
use aot_core::state::{AtomId, headline};
use aot_runner::store::journal::{self, Before, JournalEntry, Newest};
use aot_runner::tree::KeptWork;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::clock;
use super::ink::{Ink, Paint};
use super::words::{concerns, sentence};
use crate::text;

const INDENT: usize = 18;

/// Of one text so many lines are shown.
const LINES_SHOWN: usize = 3;

/// Whether people are told anything of it.
pub fn is_shown(entry: &JournalEntry<Change>) -> bool {
    entry.changes.iter().any(|change| sentence(change, &entry.changes).is_some())
}

/// Whether it says anything about an atom.
pub fn is_about(entry: &JournalEntry<Change>, atom: &AtomId) -> bool {
    entry.changes.iter().any(|change| concerns(change, &entry.changes).contains(&atom))
}

/// What happened, oldest first.
pub fn draw(newest: &Newest<Change>, zone: &TimeZone, ink: Ink) -> String {
    let mut page = LogPage { text: String::new(), ink, zone, day: None };
    page.before(newest.before);
    let mut last: Option<u64> = None;
    for entry in &newest.entries {
        if let Some(last) = last.filter(|last| entry.revision > last + 1) {
            page.gap(last + 1, entry.revision - 1);
        }
        last = Some(entry.revision);
        page.told(entry);
    }
    page.unreadable(newest.unreadable);
    page.text
}

/// The same of entries that come after a page was drawn; `day` is the one that stands above them already.
pub fn draw_more(
    entries: &[JournalEntry<Change>],
    day: &mut Option<String>,
    zone: &TimeZone,
    ink: Ink,
) -> String {
    let mut page = LogPage { text: String::new(), ink, zone, day: day.take() };
    entries.iter().for_each(|entry| page.told(entry));
    *day = page.day;
    page.text
}

/// What happened to one atom: what was said about it, and each try with its end. `most` of the newest entries are shown;
/// tries are counted from the first.
pub fn draw_atom(newest: &Newest<Change>, atom: &AtomId, most: usize, zone: &TimeZone, ink: Ink) -> String {
    let mut page = LogPage { text: String::new(), ink, zone, day: None };
    let mut parts = parts(&newest.entries, atom);
    let all: usize = parts.iter().map(|part| part.lines.len()).sum();
    let mut hidden = all.saturating_sub(most);
    page.before(if hidden > 0 { Before::More } else { newest.before });
    for part in &mut parts {
        let passed_over = hidden.min(part.lines.len());
        part.lines.drain(..passed_over);
        hidden -= passed_over;
    }
    for (place, part) in parts.iter().filter(|part| !part.lines.is_empty()).enumerate() {
        if place > 0 {
            page.line("");
        }
        page.part(part);
    }
    page.unreadable(newest.unreadable);
    page.text
}

/// Where in the journal the loop of today begins: with the newest agreement. What stands before it is another loop's.
pub fn beginning(entries: &[JournalEntry<Change>]) -> Option<usize> {
    let agrees = |entry: &JournalEntry<Change>| {
        let has = |wanted: fn(&Change) -> bool| entry.changes.iter().any(wanted);
        has(|change| matches!(change, Change::LoopNamed { .. }))
            && has(|change| matches!(change, Change::FingerprintTaken { .. }))
    };
    entries.iter().rposition(agrees)
}

/// The newest work that did not land, and how to look at it.
pub fn draw_kept(kept: &[KeptWork], most: usize, ink: Ink) -> String {
    let Some(last) = kept.last() else { return String::new() };
    let mut text = String::from("\nwork that did not land, kept for a week:\n");
    for work in kept.iter().skip(kept.len().saturating_sub(most)) {
        let line = format!("  {} in iteration {}: {}", work.atom, work.attempt, headline(&work.reason));
        text += &format!("{}\n    {}\n", ink.fit(&line, ink.columns), ink.paint(Paint::Dim, &work.reference));
    }
    text + &format!("look at it: {}\n", last.command())
}

/// A stretch of an atom's life.
struct LogPart<'e> {
    kind: Kind,
    /// When it began and when its last line was written; lines may be left out.
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    lines: Vec<(&'e JournalEntry<Change>, Vec<LogLine>)>,
}

/// A line as it is drawn.
enum LogLine {
    /// What happened, in plain words.
    Told(String),
    /// A line of the output that showed a failure.
    Output(String),
}

enum Kind {
    /// Between tries.
    Aside,
    /// From a start to whatever ended it.
    Try { number: usize, ended: Ended },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Yes,
    NotYet,
}

fn parts<'e>(entries: &'e [JournalEntry<Change>], atom: &AtomId) -> Vec<LogPart<'e>> {
    let mut parts: Vec<LogPart<'e>> = Vec::new();
    let mut tries = 0;
    for entry in entries {
        let about = |change: &&Change| concerns(change, &entry.changes).contains(&atom);
        let changes: Vec<&Change> = entry.changes.iter().filter(about).collect();
        // One step may end a try and begin the next.
        let is_start = |change: &Change| matches!(change, Change::AtomStarted { .. });
        let starts = changes.iter().position(|change| is_start(change)).unwrap_or(changes.len());
        let (before, from_start) = changes.split_at(starts);
        for changes in [before, from_start] {
            let Some(first) = changes.first() else { continue };
            let at = entry.at.parse::<Timestamp>().ok();
            let lines = changes.iter().flat_map(|change| lines_of(change, &entry.changes, atom)).collect();
            let is_open = parts.last().is_some_and(|part| !part.is_over());
            if is_start(first) {
                tries += 1;
                let kind = Kind::Try { number: tries, ended: Ended::NotYet };
                parts.push(LogPart { kind, from: at, to: at, lines: vec![(entry, lines)] });
            } else if is_open && let Some(part) = parts.last_mut() {
                part.lines.push((entry, lines));
                part.to = at;
                if let Kind::Try { ended, .. } = &mut part.kind
                    && changes.iter().any(|change| ends_try(change))
                {
                    *ended = Ended::Yes;
                }
            } else {
                parts.push(LogPart { kind: Kind::Aside, from: at, to: at, lines: vec![(entry, lines)] });
            }
        }
    }
    parts
}

impl LogPart<'_> {
    /// Whether what follows belongs to another part.
    fn is_over(&self) -> bool {
        match self.kind {
            Kind::Try { ended: Ended::Yes, .. } => true,
            Kind::Try { ended: Ended::NotYet, .. } | Kind::Aside => false,
        }
    }
}

fn ends_try(change: &Change) -> bool {
    matches!(
        change,
        Change::AtomResolved { .. }
            | Change::AtomReset { .. }
            | Change::AtomReturned { .. }
            | Change::AtomNotStarted { .. }
            | Change::AtomRemoved { .. }
            | Change::FailureNoted { .. }
            | Change::ChoiceFailed { .. }
    )
}

fn lines_of(change: &Change, beside: &[Change], atom: &AtomId) -> Vec<LogLine> {
    let evidence = match change {
        Change::FailureNoted { atom: failed, reason } if failed == atom => reason.as_str(),
        Change::ChoiceSelected { reason, cause: Some(cause), .. }
            if cause.failure().is_some_and(|failed| failed.atom == atom) =>
        {
            reason.as_str()
        }
        _ => "",
    };
    let output = evidence.lines().skip(1).map(|line| LogLine::Output(line.to_owned()));
    sentence(change, beside).map(LogLine::Told).into_iter().chain(output).collect()
}

struct LogPage<'p> {
    text: String,
    ink: Ink,
    zone: &'p TimeZone,
    day: Option<String>,
}

impl LogPage<'_> {
    /// A try, or what lies between two of them.
    fn part(&mut self, part: &LogPart<'_>) {
        if let Kind::Try { number, ended } = &part.kind {
            let took = match (ended, part.from, part.to) {
                (Ended::Yes, Some(from), Some(to)) => format!(", took {}", clock::since(from, to)),
                (Ended::Yes, _, _) => String::new(),
                (Ended::NotYet, _, _) => ", still open".to_owned(),
            };
            self.line(&self.ink.paint(Paint::Bold, &format!("try {number}{took}")));
        }
        for (entry, lines) in &part.lines {
            self.entry(entry, lines);
        }
    }

    fn told(&mut self, entry: &JournalEntry<Change>) {
        let told = entry.changes.iter().filter_map(|change| sentence(change, &entry.changes));
        self.entry(entry, &told.map(LogLine::Told).collect::<Vec<_>>());
    }

    /// The moment and the revision once, and a line for each thing that happened.
    fn entry(&mut self, entry: &JournalEntry<Change>, lines: &[LogLine]) {
        if lines.is_empty() {
            return;
        }
        let at = entry.at.parse::<Timestamp>().ok();
        if let Some(day) = at.map(|at| clock::day(at, self.zone)).filter(|day| self.day.as_ref() != Some(day))
        {
            self.line(&self.ink.paint(Paint::Dim, &day));
            self.day = Some(day);
        }
        let time = at.map_or_else(|| "?".to_owned(), |at| clock::time(at, self.zone));
        let head = format!("{time:<8}  {:<6}", format!("r{}", entry.revision));
        let mut head = format!("{head:<INDENT$}");
        for line in lines {
            match line {
                LogLine::Told(told) => self.sentence(told, &mut head),
                LogLine::Output(line) => {
                    let line = self.ink.fit(&format!("| {}", text::plain(line)), self.ink.columns - INDENT);
                    let line = format!("{:INDENT$}{line}", "");
                    self.line(&self.ink.paint(Paint::Dim, &line));
                }
            }
        }
    }

    fn sentence(&mut self, told: &str, head: &mut String) {
        let plain = text::plain(told);
        let wrapped = text::wrapped(&plain, self.ink.columns - INDENT - 2);
        let cut = wrapped.len() > LINES_SHOWN;
        for (place, part) in wrapped.iter().take(LINES_SHOWN).enumerate() {
            let more = if cut && place + 1 == LINES_SHOWN { self.ink.sign(" …", " ~") } else { "" };
            let head = std::mem::replace(head, " ".repeat(INDENT));
            let part = self.ink.fit(part, self.ink.columns - INDENT - 2);
            self.line(&format!("{}{part}{more}", self.ink.paint(Paint::Dim, &head)));
        }
    }

    fn before(&mut self, before: Before) {
        match before {
            Before::More => self.aside("earlier ones with a larger -n"),
            Before::Forgotten => {
                let most = (2 * journal::ROTATED_AT) >> 20;
                self.aside(&format!("what came before is forgotten: the journal has at most {most} MiB"));
            }
            Before::Nothing => {}
        }
    }

    fn gap(&mut self, from: u64, to: u64) {
        let what =
            if from == to { format!("revision {from} is") } else { format!("revisions {from} to {to} are") };
        self.aside(&format!("{what} not in the journal"));
    }

    fn unreadable(&mut self, count: usize) {
        match count {
            0 => {}
            1 => self.aside("1 line of the journal cannot be read by this aot"),
            many => self.aside(&format!("{many} lines of the journal cannot be read by this aot")),
        }
    }

    fn aside(&mut self, text: &str) {
        for line in text::beside("", INDENT, &format!("({text})"), self.ink.columns) {
            self.line(&self.ink.paint(Paint::Dim, &line));
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}
