//! The rows of the panes: what agents do, the checks, the log. Each is painted for its width.

use aot_core::verdict::Outcome;
use aot_core::view::DisplayStatus;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Watched;
use crate::screens::clock;
use crate::screens::ink::{Ink, Paint};
use crate::screens::status::LastSeen;
use crate::text;

/// An agent at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRow {
    /// An atom, or what stands in its place where the whole is asked about.
    pub about: String,
    /// What it is there for.
    task: String,
    /// For how long, and how often it was asked to mend its work.
    aside: String,
    /// What it does now.
    doing: Option<String>,
}

/// The agents at work. Without a live record, the atoms in progress.
pub fn agents(watched: &Watched, now: Timestamp) -> Vec<AgentRow> {
    let live = &watched.beside.live;
    let description = |atom: &str| watched.state.atoms.get(atom).map_or("", |atom| atom.description.as_str());
    let of_jobs = live.jobs.iter().map(|job| {
        let about = job.atom.clone().unwrap_or_else(|| job.task.clone());
        let since = job.since.as_deref().and_then(|since| since.parse::<Timestamp>().ok());
        let since = since.map(|since| clock::since(since, now)).unwrap_or_default();
        let task = match job.task.as_str() {
            "probe" => format!("is probed first: {}", description(&about)),
            "check" => format!("is checked: {}", description(&about)),
            "replan" => "looks for another plan".to_owned(),
            _ => description(&about).to_owned(),
        };
        let mended = match job.mends {
            0 => String::new(),
            mends => format!("mended {}, ", text::times(mends as usize)),
        };
        let host = live.hosts.as_ref().and_then(|hosts| hosts.host_of(job));
        let host = host.map(|host| format!("on {host}, ")).unwrap_or_default();
        let aside = format!("{host}{mended}{since}");
        let waits = job.waiting.as_ref().map(|waiting| format!("waits to land: {waiting}"));
        AgentRow { about, task, aside, doing: waits.or_else(|| job.line.clone()) }
    });
    if !live.jobs.is_empty() {
        return of_jobs.collect();
    }
    let at_work = watched.view.at_work.iter().map(|at_work| {
        let since = watched.beside.since.get(&at_work.atom).map(|since| clock::since(*since, now));
        AgentRow {
            about: at_work.atom.to_string(),
            task: at_work.description.clone(),
            aside: since.unwrap_or_default(),
            doing: None,
        }
    });
    at_work.collect()
}

/// Without a driver, what is in progress waits for one.
pub fn agents_title(watched: &Watched) -> &'static str {
    let is_driven = watched.beside.driver.is_some() || watched.view.session.is_some();
    if is_driven || watched.view.at_work.is_empty() {
        "agents at work"
    } else {
        "in progress, without a driver"
    }
}

/// Whether an agent is at work on this.
pub fn is_at_work(watched: &Watched, about: &str) -> bool {
    watched.beside.live.jobs.iter().any(|job| job.atom.as_deref().unwrap_or(&job.task) == about)
}

/// A line for each: what it does now, or else what it is there for.
pub fn agent_line(row: &AgentRow, ink: Ink) -> String {
    drawn(row, row.doing.as_ref().unwrap_or(&row.task), ink)
}

/// Two lines for each, where there is room.
pub fn agent_lines(row: &AgentRow, ink: Ink) -> [String; 2] {
    let doing = row.doing.as_deref().unwrap_or_default();
    let doing = ink.paint(Paint::Dim, &ink.fit(doing, ink.columns.saturating_sub(4)));
    [drawn(row, &row.task, ink), format!("    {doing}")]
}

fn drawn(row: &AgentRow, what: &str, ink: Ink) -> String {
    let name = ink.fit(&row.about, ink.columns / 3);
    let room = ink.columns.saturating_sub(2 + text::width(&name) + 2 + text::width(&row.aside) + 2);
    let what = ink.fit(what, room);
    let gap = room.saturating_sub(text::width(&what));
    let (mark, name) = (ink.mark(DisplayStatus::Running), ink.paint(Paint::Bold, &name));
    format!("{mark} {name}  {what}{:gap$}  {}", "", ink.paint(Paint::Dim, &row.aside))
}

/// A row for each check of the base case.
pub fn checks(watched: &Watched, now: Timestamp, ink: Ink) -> Vec<String> {
    order(watched).into_iter().map(|(check, stands)| check_row(check, stands, now, ink)).collect()
}

/// The checks as they stand now, the green ones last.
pub fn order(watched: &Watched) -> Vec<(&LastSeen, CheckNow)> {
    let live = &watched.beside.live;
    let stands = |check: &LastSeen| {
        let outcome =
            live.checks.iter().rev().find(|now| now.item == check.item).map(|now| now.outcome.as_str());
        let known =
            |word| Outcome::ALL.into_iter().find(|outcome| outcome.word() == word).map(CheckNow::Seen);
        match live.verifying {
            false if check.outcome.is_none() && unasked(watched).any(|asked| asked.item == check.item) => {
                CheckNow::Unasked
            }
            true => outcome.and_then(known).unwrap_or(CheckNow::Runs),
            false => check.outcome.map_or(CheckNow::Never, CheckNow::Seen),
        }
    };
    let mut order: Vec<_> = watched.beside.base_case.iter().map(|check| (check, stands(check))).collect();
    order.sort_by_key(|(_, stands)| *stands == CheckNow::Seen(Outcome::Pass));
    order
}

/// Assertions of which no person has said whether they hold.
pub fn unasked(watched: &Watched) -> impl Iterator<Item = &LastSeen> {
    let checks = watched.view.base_case.iter().zip(&watched.beside.base_case);
    let unasked = checks.filter(|(check, _)| check.kind == "assertion" && check.confirmed.is_none());
    unasked.map(|(_, seen)| seen)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckNow {
    Runs,
    Never,
    /// A person has to say whether it holds.
    Unasked,
    Seen(Outcome),
}

fn check_row(check: &LastSeen, stands: CheckNow, now: Timestamp, ink: Ink) -> String {
    let ago = check.at.as_ref().map(|at| format!("{} ago", clock::since(at.at(), now))).unwrap_or_default();
    let (mark, why) = match stands {
        CheckNow::Runs => (ink.mark(DisplayStatus::Running), "runs now".to_owned()),
        CheckNow::Never => (ink.mark(DisplayStatus::Pending), "not seen yet".to_owned()),
        CheckNow::Unasked => (ink.paint(Paint::Yellow, "?"), "a person has to confirm it".to_owned()),
        CheckNow::Seen(Outcome::Pass) => (ink.mark(DisplayStatus::Resolved), ago),
        CheckNow::Seen(Outcome::Fail) => (ink.mark(DisplayStatus::Failed), check.why.clone()),
        CheckNow::Seen(Outcome::Error) => (ink.paint(Paint::Red, "!"), check.why.clone()),
        CheckNow::Seen(Outcome::Pending) => (ink.paint(Paint::Yellow, "?"), check.why.clone()),
    };
    let item = ink.fit(&check.item, ink.columns.saturating_sub(2));
    let room = ink.columns.saturating_sub(2 + text::width(&item) + 2);
    let why = if room < 4 { String::new() } else { ink.fit(&why, room) };
    format!("{mark} {item}  {}", ink.paint(Paint::Dim, &why)).trim_end().to_owned()
}

/// How many checks are green, and whether they run now.
pub fn checks_title(watched: &Watched) -> String {
    let all = watched.beside.base_case.len();
    let green = watched.beside.base_case.iter().filter(|seen| seen.outcome == Some(Outcome::Pass)).count();
    let seen = watched.beside.base_case.iter().any(|seen| seen.outcome.is_some());
    match (watched.beside.live.verifying, seen) {
        (true, _) => "checks: they run now".to_owned(),
        (false, true) => format!("checks: {green} of {all} green"),
        (false, false) => "checks".to_owned(),
    }
}

/// A sentence of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSentence {
    pub at: Option<Timestamp>,
    pub text: String,
}

pub fn log_line(sentence: &LogSentence, zone: &TimeZone, ink: Ink) -> String {
    let at = sentence.at.map_or_else(|| "?".to_owned(), |at| clock::time(at, zone));
    let room = ink.columns.saturating_sub(10);
    format!("{}  {}", ink.paint(Paint::Dim, &format!("{at:<8}")), ink.fit(&text::plain(&sentence.text), room))
}
