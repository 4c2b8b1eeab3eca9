//! All loops of a user, a few lines each: the state and where, the goal, how far and what is left. Asks nothing.

use std::path::{Path, PathBuf};

use aot_core::view::View;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::clock;
use super::ink::{Ink, Paint};
use crate::text;

/// Where the project stands behind the longest state.
const INDENT: usize = 14;

/// Before the lines below.
const BELOW: &str = "  ";

/// What is known of a loop.
#[derive(Debug)]
pub struct LoopRow {
    pub state_file: PathBuf,
    pub project: PathBuf,
    pub state: LoopState,
    /// Absent if the state file cannot be read.
    pub view: Option<Box<View>>,
    pub driver: Option<String>,
    pub since: Option<Timestamp>,
}

/// What goes on with a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopState {
    Running {
        pid: Option<u32>,
    },
    Parked {
        pid: Option<u32>,
        until: Timestamp,
        why: String,
    },
    /// A session of a host drives it.
    InSession,
    /// It has stopped, or a landing of it waits for edits.
    NeedsPerson {
        pid: Option<u32>,
        why: String,
    },
    /// Its driver is gone, and it has not halted.
    Left,
    Stopped {
        why: String,
    },
    Unreadable {
        why: String,
    },
    Pending,
    Completed,
}

impl LoopState {
    /// By what a person wants to see first.
    pub fn rank(&self) -> usize {
        match self {
            LoopState::Running { .. } | LoopState::Parked { .. } | LoopState::InSession => 0,
            LoopState::NeedsPerson { .. } => 1,
            LoopState::Left | LoopState::Unreadable { .. } => 2,
            LoopState::Stopped { .. } => 3,
            LoopState::Pending => 4,
            LoopState::Completed => 5,
        }
    }

    /// The name by which scripts know it.
    pub fn word(&self) -> &'static str {
        match self {
            LoopState::Running { .. } => "running",
            LoopState::Parked { .. } => "parked",
            LoopState::InSession => "in_session",
            LoopState::NeedsPerson { .. } => "needs_person",
            LoopState::Left => "no_driver",
            LoopState::Stopped { .. } => "stopped",
            LoopState::Unreadable { .. } => "unreadable",
            LoopState::Pending => "pending",
            LoopState::Completed => "completed",
        }
    }

    pub fn why(&self) -> Option<&str> {
        match self {
            LoopState::Parked { why, .. }
            | LoopState::NeedsPerson { why, .. }
            | LoopState::Stopped { why }
            | LoopState::Unreadable { why } => Some(why),
            LoopState::Running { .. }
            | LoopState::InSession
            | LoopState::Left
            | LoopState::Pending
            | LoopState::Completed => None,
        }
    }

    pub fn pid(&self) -> Option<u32> {
        match self {
            LoopState::Running { pid }
            | LoopState::Parked { pid, .. }
            | LoopState::NeedsPerson { pid, .. } => *pid,
            LoopState::InSession
            | LoopState::Left
            | LoopState::Stopped { .. }
            | LoopState::Unreadable { .. }
            | LoopState::Pending
            | LoopState::Completed => None,
        }
    }

    pub fn until(&self) -> Option<Timestamp> {
        let LoopState::Parked { until, .. } = self else { return None };
        Some(*until)
    }

    fn label(&self) -> (&'static str, Paint) {
        match self {
            LoopState::Running { .. } => ("running", Paint::Cyan),
            LoopState::Parked { .. } => ("parked", Paint::Yellow),
            LoopState::InSession => ("in a session", Paint::Cyan),
            LoopState::NeedsPerson { .. } => ("needs you", Paint::Yellow),
            LoopState::Left => ("no driver", Paint::Yellow),
            LoopState::Stopped { .. } => ("stopped", Paint::Red),
            LoopState::Unreadable { .. } => ("unreadable", Paint::Red),
            LoopState::Pending => ("pending", Paint::Plain),
            LoopState::Completed => ("completed", Paint::Green),
        }
    }
}

pub fn draw(rows: &[LoopRow], home: Option<&Path>, now: Timestamp, ink: Ink) -> String {
    let drawn = rows.iter().map(|row| lines(row, home, now, ink).join("\n"));
    drawn.collect::<Vec<_>>().join("\n\n")
}

fn lines(row: &LoopRow, home: Option<&Path>, now: Timestamp, ink: Ink) -> Vec<String> {
    let (label, paint) = row.state.label();
    let at = short_path(&row.project, home);
    // Its end tells projects apart.
    let at = ink.shown(&fit_end(&text::plain(&at), ink.columns.saturating_sub(INDENT)));
    let mut lines = vec![format!("{}{:gap$}{at}", ink.paint(paint, label), "", gap = INDENT - label.len())];
    let room = ink.columns.saturating_sub(BELOW.len());
    let mut below = |text: &str| {
        let wrapped = text::wrapped(&ink.shown(&text::plain(text)), room);
        lines.extend(wrapped.iter().map(|line| format!("{BELOW}{line}")));
    };
    if let Some(view) = &row.view {
        below(&ink.fit(&view.goal, room));
    }
    if let Some(why) = row.state.why().filter(|why| !why.is_empty()) {
        below(&ink.fit(why, room * 2));
    }
    let mut facts = Vec::new();
    facts.extend(row.state.pid().map(|pid| format!("driven by pid {pid}")));
    facts.extend(row.state.until().map(|until| format!("until {}", clock::time(until, &TimeZone::system()))));
    facts.extend(row.since.map(|since| match row.driver {
        Some(_) => format!("for {}", clock::since(since, now)),
        None => format!("{} ago", clock::since(since, now)),
    }));
    if let Some(view) = &row.view {
        let (resolved, all) = view.counts.progress();
        facts.push(format!("iteration {} of {}", view.iteration, view.max_iterations));
        facts.push(format!("{resolved} of {all} resolved"));
        if row.state != LoopState::Completed {
            let runs = match view.bound.agent_runs {
                0 => "no agent run".to_owned(),
                count => text::counted(count, "agent run"),
            };
            facts.push(format!("left at most {runs}, {}", clock::span(view.bound.seconds)));
        }
    }
    below(&facts.join(", "));
    lines
}

fn short_path(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

/// The end of a text that is too wide.
fn fit_end(text: &str, columns: usize) -> String {
    if text::width(text) <= columns {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars().rev() {
        if text::width(&kept) + text::width(c.encode_utf8(&mut [0; 4])) + 1 > columns {
            break;
        }
        kept.insert(0, c);
    }
    format!("…{kept}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_keeps_its_end() {
        assert_eq!(fit_end("~/src/app", 20), "~/src/app");
        assert_eq!(fit_end("~/src/long/app", 8), "…ong/app");
        assert_eq!(short_path(Path::new("/home/ada"), Some(Path::new("/home/ada"))), "~");
        assert_eq!(short_path(Path::new("/home/ada/src"), Some(Path::new("/home/ada"))), "~/src");
        assert_eq!(short_path(Path::new("/home/adam"), Some(Path::new("/home/ada"))), "/home/adam");
    }
}
