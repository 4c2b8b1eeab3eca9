//! The evidence of one check, as the journal and `--json` show it.

use serde::{Deserialize, Serialize};

use super::{Outcome, Score};
use crate::state::Stamp;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The command, the pattern, the assertion, or the command of the judge.
    pub ran: String,
    pub folder: String,
    /// The hash of the tree that it was seen on.
    pub tree: String,
    pub at: Stamp,
    #[serde(default)]
    pub exit: Option<i32>,
    #[serde(default)]
    pub signal: Option<i32>,
    /// It used up its time.
    #[serde(default)]
    pub out_of_time: bool,
    /// What the cage kept it from writing, as far as its output tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<CageRefusal>,
    pub milliseconds: u64,
    /// How often it was run: what does not pass among others is run once more alone.
    pub runs: u32,
    /// Why the outcome is what it is, in a sentence.
    pub why: String,
    /// What a person can do about it; empty if nothing.
    #[serde(default)]
    pub hint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Excerpt>,
    /// The files that a pattern found, or a judge was given; the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<Judged>,
    /// How many processes it left running; they were killed.
    #[serde(default)]
    pub left_running: usize,
    pub source: Source,
}

/// Something outside of its tree that a check wanted to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CageRefusal {
    pub path: String,
    /// What to type to let it.
    pub remedy: String,
}

/// Where the evidence comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The program looked just now.
    Fresh,
    /// A pass on an identical tree.
    Reused,
    /// It was not looked at: another alternative passed, or something else has to pass first.
    NotRun,
}

/// The beginning and the end of an output, and how much there was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    pub head: String,
    /// Empty if `head` holds everything.
    pub tail: String,
    pub bytes: u64,
    /// Bytes between the two that were not kept.
    pub omitted: u64,
}

impl Excerpt {
    /// The last lines that say something. What npm adds to every failure is passed over, unless there is nothing else.
    pub fn last_lines(&self, count: usize) -> Vec<&str> {
        let mut lines: Vec<&str> = self.tail.lines().rev().filter(|line| !line.trim().is_empty()).collect();
        if self.omitted == 0 {
            lines.extend(self.head.lines().rev().filter(|line| !line.trim().is_empty()));
        }
        if lines.iter().any(|line| !is_of_npm(line)) {
            lines.retain(|line| !is_of_npm(line));
        }
        lines.truncate(count);
        lines.reverse();
        lines
    }
}

/// How lines of npm go on that tell nothing about the failure.
const NPM_ERRORS: [&str; 11] = [
    "A complete log of this run",
    "Lifecycle script `",
    "Test failed.",
    "code ",
    "command ",
    "errno ",
    "location ",
    "path ",
    "syscall ",
    "workspace ",
    "/",
];

/// Whether npm says this of itself, and not of what it ran: notices, warnings, where its log is.
fn is_of_npm(line: &str) -> bool {
    let Some(rest) = line.trim().strip_prefix("npm ") else { return false };
    if ["notice", "warn", "WARN"].iter().any(|kind| rest.starts_with(kind)) {
        return true;
    }
    let error = ["error", "ERR!"].iter().find_map(|kind| rest.strip_prefix(kind)).map(str::trim);
    error.is_some_and(|error| error.is_empty() || NPM_ERRORS.iter().any(|begin| error.starts_with(begin)))
}

/// What a judge said, and what it comes to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    pub average: f64,
    pub threshold: f64,
    pub scores: Vec<Score>,
}

impl Evidence {
    /// Of a check that was not looked at.
    pub fn not_run(ran: &str, folder: &str, tree: &str, at: Stamp, why: &str) -> Evidence {
        Evidence {
            ran: ran.to_owned(),
            folder: folder.to_owned(),
            tree: tree.to_owned(),
            at,
            exit: None,
            signal: None,
            out_of_time: false,
            refused: Vec::new(),
            milliseconds: 0,
            runs: 0,
            why: why.to_owned(),
            hint: String::new(),
            output: None,
            files: Vec::new(),
            judged: None,
            left_running: 0,
            source: Source::NotRun,
        }
    }

    pub fn is_reusable(&self, outcome: Outcome) -> bool {
        outcome == Outcome::Pass && self.source != Source::NotRun
    }
}
