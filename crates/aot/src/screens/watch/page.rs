//! What is opened on the whole screen: an atom, a group, a check, a difference, the log, the keys. Texts that are scrolled;
//! what they are made of is read elsewhere.

use aot_core::rules::Change;
use aot_core::state::{AtomId, GroupName, State, TrailEntry, headline};
use aot_core::view::{BaseCaseCheck, DisplayStatus};
use aot_runner::agents::SavedTranscript;
use aot_runner::checks::kept::EvidenceLine;
use aot_runner::store::journal::Newest;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Watched;
use super::panes::LogSentence;
use super::rows::{DrawnRow, RowName};
use crate::screens::clock;
use crate::screens::ink::{Ink, Paint};
use crate::screens::log::draw_atom;
use crate::text;

/// So many lines of an agent's transcript are shown: the last.
const TRANSCRIPT_LINES: usize = 200;

/// So many lines of a log are shown.
const LOG_LINES: usize = 500;

/// So many lines of what a check printed are shown: the last.
const OUTPUT_LINES: usize = 100;

/// What is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An atom, or `replan` and `base-case` for what was asked about the whole.
    Atom(String),
    Group(GroupName),
    Check(String),
    /// What an atom changed.
    Difference(AtomId),
    Log,
    Keys,
}

/// Where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagePosition {
    Top,
    /// What is added is shown.
    End,
}

#[derive(Clone, Debug)]
pub struct OpenPage {
    pub subject: Subject,
    pub title: String,
    pub lines: Vec<String>,
    pub top: usize,
    pub follows: bool,
    /// How many lines were shown at last.
    pub height: usize,
}

impl OpenPage {
    pub fn new(subject: Subject, title: String, lines: Vec<String>, place: PagePosition) -> OpenPage {
        OpenPage { subject, title, lines, top: 0, follows: place == PagePosition::End, height: 0 }
    }

    /// The lines for a window of this height.
    pub fn shown(&mut self, height: usize) -> &[String] {
        self.height = height;
        let last = self.lines.len().saturating_sub(height);
        self.top = if self.follows { last } else { self.top.min(last) };
        &self.lines[self.top..self.lines.len().min(self.top + height)]
    }

    /// Goes on by so many lines; at the end, what is added is shown.
    pub fn scroll(&mut self, by: isize) {
        let last = self.lines.len().saturating_sub(self.height);
        self.top = self.top.saturating_add_signed(by).min(last);
        self.follows = self.top == last && by > 0;
    }
}

/// What is known of an atom besides the state.
#[derive(Debug)]
pub struct AtomHistory {
    pub newest: Newest<Change>,
    pub transcripts: Vec<SavedTranscript>,
    /// What its agents did lately, as it happened.
    pub doings: Vec<(Option<Timestamp>, String)>,
    pub is_at_work: bool,
}

pub fn atom(
    watched: &Watched,
    name: &str,
    rows: &[DrawnRow],
    history: &AtomHistory,
    ink: Ink,
) -> Vec<String> {
    let (state, zone) = (&watched.state, &watched.zone);
    let mut lines = Vec::new();
    let id = AtomId::new(name);
    if let Some(atom) = state.atoms.get(&id) {
        lines.extend(wrapped(&atom.description, ink));
        let standing = standing_of(&id, rows);
        let mut facts = vec![standing_word(standing).to_owned()];
        facts.extend(atom.or_group.as_ref().map(|group| format!("one way of {group}")));
        if !atom.depends_on.is_empty() {
            facts.push(format!("after {}", names(&atom.depends_on)));
        }
        facts.extend(atom.run.as_ref().map(|run| format!("runs `{run}`")));
        lines.push(format!(
            "{} {}",
            ink.mark(standing),
            ink.fit(&facts.join(", "), ink.columns.saturating_sub(2))
        ));
    }
    if let Some(binding) = state.bindings.get(&id) {
        lines.push(String::new());
        lines.extend(wrapped(&binding.summary, ink));
        if !binding.artifacts.is_empty() {
            lines.push(dim(&format!("files: {}", binding.artifacts.join(", ")), ink));
        }
        if let Some(commit) = &binding.commit {
            lines.push(dim(&format!("commit {commit} (d shows what it changed)"), ink));
        }
    }
    lines.push(String::new());
    let tries = draw_atom(&history.newest, &id, LOG_LINES, zone, ink);
    lines.extend(tries.trim_end().lines().map(str::to_owned));
    if let Some(transcript) = history.transcripts.last() {
        heading(&mut lines, &transcript.title, ink);
        let told: Vec<&str> = transcript.run.lines().collect();
        let left_out = told.len().saturating_sub(TRANSCRIPT_LINES);
        if left_out > 0 {
            lines.push(dim(
                &format!("({} before: aot log {name})", text::counted(left_out as u64, "line")),
                ink,
            ));
        }
        told[left_out..].iter().for_each(|line| lines.extend(wrapped(line, ink)));
    }
    if history.is_at_work {
        heading(&mut lines, "now", ink);
        for (at, doing) in &history.doings {
            let at = at.map(|at| clock::time(at, zone)).unwrap_or_default();
            let doing = ink.fit(&text::plain(doing), ink.columns.saturating_sub(10));
            lines.push(format!("{}  {doing}", ink.paint(Paint::Dim, &format!("{at:<8}"))));
        }
        if history.doings.is_empty() {
            lines.push(dim("its agent has said nothing yet", ink));
        }
    }
    lines
}

pub fn group(state: &State, name: &GroupName, rows: &[DrawnRow], ink: Ink) -> Vec<String> {
    let Some(group) = state.or_groups.get(name) else { return vec![dim("it is no longer there", ink)] };
    let mut lines = vec![format!("one of these is enough; {} is selected", group.selected), String::new()];
    for choice in &group.choices {
        let standing = standing_of(choice, rows);
        let description =
            state.atoms.get(choice).map_or("made when the group goes to it", |atom| &atom.description);
        let word = standing_word(standing);
        let line = ink.fit(&format!("{choice}  {description} ({word})"), ink.columns.saturating_sub(2));
        let paint = if standing == DisplayStatus::Failed { Paint::Struck } else { Paint::Plain };
        lines.push(format!("{} {}", ink.mark(standing), ink.paint(paint, &line)));
    }
    heading(&mut lines, "how it came to that", ink);
    for entry in &state.trail {
        if let TrailEntry::Selection { or_group, selected, reason, .. } = entry
            && or_group == name
        {
            lines.extend(wrapped(&format!("{selected} was selected: {}", headline(reason)), ink));
        }
    }
    lines
}

pub fn check(asked: Option<&BaseCaseCheck>, seen: &[EvidenceLine], now: Timestamp, ink: Ink) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(asked) = asked {
        let runs = asked.runs.as_ref().map(|runs| format!(": {runs}")).unwrap_or_default();
        lines.extend(wrapped(&format!("{}{runs}", asked.kind), ink));
        if let Some((holds, at)) = &asked.confirmed {
            let word = if *holds { "confirmed" } else { "denied" };
            lines.push(format!("{word} by a person, {} ago", clock::since(at.at(), now)));
        }
    }
    if seen.is_empty() {
        lines.push(String::new());
        lines.push(dim("it was not looked at yet", ink));
    }
    for line in seen.iter().rev() {
        let evidence = &line.evidence;
        heading(
            &mut lines,
            &format!("{}, {} ago", line.outcome.word(), clock::since(evidence.at.at(), now)),
            ink,
        );
        lines.extend(wrapped(&evidence.why, ink));
        if !evidence.hint.is_empty() {
            lines.extend(wrapped(&evidence.hint, ink));
        }
        lines.push(dim(&format!("{} in {}", evidence.ran, evidence.folder), ink));
        if let Some(output) = &evidence.output {
            let told = output.last_lines(OUTPUT_LINES);
            told.iter().for_each(|line| lines.extend(wrapped(&format!("| {line}"), ink)));
        }
    }
    lines
}

/// A difference as git draws it, with its lines painted.
pub fn difference(told: &str, ink: Ink) -> Vec<String> {
    let paint = |line: &str| {
        let plain = ink.fit(&text::plain(&line.replace('\t', "    ")), ink.columns);
        let paint = match line.as_bytes() {
            [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => Paint::Bold,
            [b'+', ..] => Paint::Green,
            [b'-', ..] => Paint::Red,
            [b'@', b'@', ..] => Paint::Cyan,
            _ if line.starts_with("diff ") || line.starts_with("commit ") => Paint::Bold,
            _ => Paint::Plain,
        };
        ink.paint(paint, &plain)
    };
    told.lines().map(paint).collect()
}

pub fn log(sentences: &[LogSentence], zone: &TimeZone, ink: Ink) -> Vec<String> {
    let mut day = None;
    let mut lines = Vec::new();
    for sentence in sentences {
        let today = sentence.at.map(|at| clock::day(at, zone));
        if today != day {
            lines.extend(today.iter().map(|day| dim(day, ink)));
            day = today;
        }
        let at = sentence.at.map_or_else(|| "?".to_owned(), |at| clock::time(at, zone));
        let told = text::wrapped(&text::plain(&sentence.text), ink.columns.saturating_sub(10));
        for (place, part) in told.iter().enumerate() {
            let at = if place == 0 { at.as_str() } else { "" };
            lines.push(format!("{}  {part}", ink.paint(Paint::Dim, &format!("{at:<8}"))));
        }
    }
    lines
}

const KEYS: [(&str, &str); 15] = [
    ("Up, Down, j, k", "move"),
    ("PageUp, PageDown", "move by a page; also space and b"),
    ("Home, End, g, G", "to the first, to the last"),
    ("Tab", "to the next pane: graph, agents, checks, log"),
    ("Enter", "open what is selected: an atom with its tries and its agent, a check with its evidence"),
    ("Esc", "close what is open; in the graph, follow what runs"),
    ("d", "what the selected atom changed: its commit, or its work that is kept"),
    ("l", "the whole log"),
    ("c", "confirm or deny what waits for your word"),
    ("r", "redirect: everything is interrupted, and you say what should be different"),
    ("s", "stop the loop: what runs finishes, nothing new starts"),
    ("S", "stop it now: what runs is killed"),
    ("Ctrl-L", "draw the screen anew"),
    ("Ctrl-Z", "suspend; `fg` comes back"),
    ("q, Ctrl-C", "leave; the loop goes on"),
];

pub fn keys(ink: Ink) -> Vec<String> {
    let widest = KEYS.iter().map(|(key, _)| key.len()).max().unwrap_or(0).min(ink.columns / 2);
    let mut lines = Vec::new();
    for (key, what) in KEYS {
        for (place, part) in text::wrapped(what, ink.columns.saturating_sub(widest + 2)).iter().enumerate() {
            let key = if place == 0 { key } else { "" };
            lines.push(format!("{}  {part}", ink.paint(Paint::Bold, &format!("{key:<widest$}"))));
        }
    }
    heading(&mut lines, "signs", ink);
    for (standing, what) in [
        (DisplayStatus::Resolved, "resolved, and seen by the program"),
        (DisplayStatus::Claimed, "resolved, as an agent says"),
        (DisplayStatus::Running, "running"),
        (DisplayStatus::Pending, "pending"),
        (DisplayStatus::Dormant, "dormant: another way is tried"),
        (DisplayStatus::Failed, "failed"),
    ] {
        lines.push(format!("{} {what}", ink.mark(standing)));
    }
    lines.push(format!("{} on the longest path left", ink.paint(Paint::Yellow, ink.sign("▸", "!"))));
    lines
}

fn heading(lines: &mut Vec<String>, title: &str, ink: Ink) {
    lines.push(String::new());
    lines.push(ink.paint(Paint::Bold, &ink.fit(&text::plain(title), ink.columns)));
}

fn dim(line: &str, ink: Ink) -> String {
    ink.paint(Paint::Dim, &ink.fit(line, ink.columns))
}

fn wrapped(line: &str, ink: Ink) -> Vec<String> {
    text::wrapped(&text::plain(line), ink.columns)
}

fn names(ids: &[AtomId]) -> String {
    ids.iter().map(AtomId::as_str).collect::<Vec<_>>().join(", ")
}

/// The status of an atom; one that is not drawn is not made yet.
fn standing_of(atom: &AtomId, rows: &[DrawnRow]) -> DisplayStatus {
    let is_it = |row: &&DrawnRow| matches!(&row.name, RowName::Atom(drawn) if drawn == atom);
    rows.iter().find(is_it).map_or(DisplayStatus::Dormant, |row| row.standing)
}

fn standing_word(standing: DisplayStatus) -> &'static str {
    match standing {
        DisplayStatus::Resolved => "resolved",
        DisplayStatus::Claimed => "resolved, as its agent says",
        DisplayStatus::Running => "running",
        DisplayStatus::Ready => "ready",
        DisplayStatus::Pending => "pending",
        DisplayStatus::Dormant => "dormant",
        DisplayStatus::Failed => "failed",
    }
}
