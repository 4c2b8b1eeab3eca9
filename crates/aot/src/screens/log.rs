//! The journal as lines for people: by moment, or the attempts on one atom. Reads no journal and has no clock.

use aot_core::rules::Change;
use aot_core::state::AtomId;
use aot_runner::store::journal::{Before, JournalEntry, Newest};
use aot_runner::tree::KeptWork;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::clock;
use super::ink::{Ink, Paint};
use super::words::{concerns, told};
use crate::text::{self, COLUMNS};

const INDENT: usize = 18;
const ROOM: usize = COLUMNS - INDENT;

/// Of one text so many lines are shown.
const LINES_SHOWN: usize = 3;

/// Whether people are told anything of it.
pub fn is_told(entry: &JournalEntry<Change>) -> bool {
    entry.changes.iter().any(|change| told(change, &entry.changes).is_some())
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
        let lines: Vec<String> =
            entry.changes.iter().filter_map(|change| told(change, &entry.changes)).collect();
        page.entry(entry, &lines);
    }
    page.unreadable(newest.unreadable);
    page.text
}

/// What happened to one atom: what was said about it, and each attempt with its end.
pub fn draw_atom(newest: &Newest<Change>, atom: &AtomId, zone: &TimeZone, ink: Ink) -> String {
    let mut page = LogPage { text: String::new(), ink, zone, day: None };
    page.before(newest.before);
    for (place, part) in parts(&newest.entries, atom).iter().enumerate() {
        if place > 0 {
            page.line("");
        }
        page.part(part);
    }
    page.unreadable(newest.unreadable);
    page.text
}

/// The newest work that did not land, and how to look at it.
pub fn draw_kept(kept: &[KeptWork], most: usize, ink: Ink) -> String {
    let Some(last) = kept.last() else { return String::new() };
    let mut text = String::from("\nwork that did not land, kept for a week:\n");
    for work in kept.iter().skip(kept.len().saturating_sub(most)) {
        let line = format!("  {} attempt {}: {}", work.atom, work.attempt, work.reason);
        text += &format!("{}\n    {}\n", ink.fit(&line, COLUMNS), ink.paint(Paint::Dim, &work.reference));
    }
    text + &format!("look at it: git show {}\n", last.reference)
}

/// A stretch of an atom's life.
struct LogPart<'e> {
    kind: Kind,
    lines: Vec<(&'e JournalEntry<Change>, Vec<String>)>,
}

enum Kind {
    /// Between attempts.
    Aside,
    /// From a start to whatever ended it.
    Attempt { number: usize, ended: Ended },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Yes,
    NotYet,
}

fn parts<'e>(entries: &'e [JournalEntry<Change>], atom: &AtomId) -> Vec<LogPart<'e>> {
    let mut parts: Vec<LogPart<'e>> = Vec::new();
    let mut attempts = 0;
    for entry in entries {
        let about = |change: &&Change| concerns(change, &entry.changes).contains(&atom);
        let changes: Vec<&Change> = entry.changes.iter().filter(about).collect();
        if changes.is_empty() {
            continue;
        }
        let lines = changes.iter().filter_map(|change| told(change, &entry.changes)).collect();
        let begins = changes.iter().any(|change| matches!(change, Change::AtomStarted { .. }));
        let ends = changes.iter().any(|change| {
            matches!(
                change,
                Change::AtomResolved { .. }
                    | Change::AtomReset { .. }
                    | Change::AtomReturned { .. }
                    | Change::AtomNotStarted { .. }
            )
        });
        let ended = if ends { Ended::Yes } else { Ended::NotYet };
        if begins {
            attempts += 1;
            let kind = Kind::Attempt { number: attempts, ended: Ended::NotYet };
            parts.push(LogPart { kind, lines: vec![(entry, lines)] });
            continue;
        }
        match parts.last_mut() {
            Some(LogPart { kind: Kind::Attempt { ended: open @ Ended::NotYet, .. }, lines: theirs }) => {
                *open = ended;
                theirs.push((entry, lines));
            }
            Some(LogPart { kind: Kind::Aside, lines: theirs }) => theirs.push((entry, lines)),
            Some(LogPart { kind: Kind::Attempt { ended: Ended::Yes, .. }, .. }) | None => {
                parts.push(LogPart { kind: Kind::Aside, lines: vec![(entry, lines)] });
            }
        }
    }
    parts
}

struct LogPage<'p> {
    text: String,
    ink: Ink,
    zone: &'p TimeZone,
    day: Option<String>,
}

impl LogPage<'_> {
    /// An attempt, or what lies between two of them. What was kept of an attempt's work belongs below its last line.
    fn part(&mut self, part: &LogPart<'_>) {
        if let Kind::Attempt { number, ended } = &part.kind {
            let moment =
                |(entry, _): &(&JournalEntry<Change>, Vec<String>)| entry.at.parse::<Timestamp>().ok();
            let (from, to) = (part.lines.first().and_then(moment), part.lines.last().and_then(moment));
            let took = match (ended, from, to) {
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

    /// The moment and the revision once, and a line for each thing that happened.
    fn entry(&mut self, entry: &JournalEntry<Change>, lines: &[String]) {
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
            let plain = text::plain(line);
            let wrapped = text::wrapped(&plain, ROOM);
            let cut = wrapped.len() > LINES_SHOWN;
            for (place, part) in wrapped.iter().take(LINES_SHOWN).enumerate() {
                let more = if cut && place + 1 == LINES_SHOWN { self.ink.sign(" …", " ~") } else { "" };
                let head = std::mem::replace(&mut head, " ".repeat(INDENT));
                let part = self.ink.fit(part, ROOM - 2);
                self.line(&format!("{}{part}{more}", self.ink.paint(Paint::Dim, &head)));
            }
        }
    }

    fn before(&mut self, before: Before) {
        match before {
            Before::More => self.aside("earlier ones with a larger -n"),
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
        let line = format!("{:INDENT$}({text})", "");
        self.line(&self.ink.paint(Paint::Dim, &line));
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}
