//! What a halt says: the verdict, what is red, what was tried, which branches remain, what to do next (D13).

use serde::Serialize;

use crate::state::{AtomId, GroupName};

/// Why a loop halted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// The base case was seen to hold.
    Completed,
    /// `aot stop`, or a host's stop.
    StoppedByHand,
    /// A redirect was begun that nobody holds any more (D16).
    RedirectInterrupted,
    /// The base case or a protected file was changed outside of a redirect (D21).
    Tampered,
    Exhausted {
        group: GroupName,
    },
    Stalled,
    IterationLimit,
    Budget {
        what: Budget,
    },
    /// Nothing runs, nothing is ready, and these wait for ever.
    Deadlock {
        atoms: Vec<AtomId>,
    },
    /// A confirmation, or a check that cannot run (D14).
    NeedsPerson,
    /// These need an agent, and there is none (D27).
    NoAgent {
        atoms: Vec<AtomId>,
    },
}

/// What has run out (D12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    Money,
    Tokens,
    Time,
}

impl Verdict {
    /// The exit code that belongs to it.
    pub fn exit(&self) -> u8 {
        match self {
            Verdict::Completed => 0,
            Verdict::NoAgent { .. } => 3,
            Verdict::StoppedByHand | Verdict::RedirectInterrupted => 10,
            Verdict::Stalled => 11,
            Verdict::IterationLimit => 12,
            Verdict::Exhausted { .. } => 13,
            Verdict::Deadlock { .. } => 14,
            Verdict::Budget { .. } => 15,
            Verdict::Tampered => 16,
            Verdict::NeedsPerson => 17,
        }
    }
}

/// Why the loop halted, with all that a person needs to go on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Certificate {
    #[serde(flatten)]
    pub verdict: Verdict,
    /// One line; `control.stop_reason` of a stopped loop.
    pub reason: String,
    pub exit: u8,
    /// Checks of the base case that did not pass when it was last evaluated.
    pub red: Vec<Red>,
    /// The unresolved atoms that were tried, and how each try ended.
    pub tried: Vec<Tried>,
    /// Choices that nobody has tried yet.
    pub branches: Vec<Branch>,
    /// What to type next, most promising first.
    pub next: Vec<String>,
    pub iterations: u32,
    pub agent_runs: u64,
}

/// A check that does not pass, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Red {
    pub item: String,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tried {
    pub atom: AtomId,
    pub attempts: usize,
    pub reasons: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Branch {
    pub group: GroupName,
    pub choices: Vec<AtomId>,
}
