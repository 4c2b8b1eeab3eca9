//! Facts behind the sentences that the program writes: why a loop stopped, and why a group went to another choice. Rules
//! and screens read these; the sentences are for people.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{AtomId, GroupName};

/// Why a loop halted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StopKind {
    /// The base case was seen to hold.
    Completed,
    /// `aot stop`, or a host's stop.
    StoppedByHand,
    /// The process that redirected is gone (D16).
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
    /// A confirmation, a check that cannot run (D14), or an agent that is not logged in (D12).
    NeedsPerson,
    /// These need an agent, and there is none (D27).
    NoAgent {
        atoms: Vec<AtomId>,
    },
}

/// What has run out (D12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    Money,
    Tokens,
    Time,
    /// What an agent's provider grants, for now.
    Allowance,
}

impl StopKind {
    /// The exit code that belongs to it.
    pub fn exit(&self) -> u8 {
        match self {
            StopKind::Completed => 0,
            StopKind::NoAgent { .. } => 3,
            StopKind::StoppedByHand | StopKind::RedirectInterrupted => 10,
            StopKind::Stalled => 11,
            StopKind::IterationLimit => 12,
            StopKind::Exhausted { .. } => 13,
            StopKind::Deadlock { .. } => 14,
            StopKind::Budget { .. } => 15,
            StopKind::Tampered => 16,
            StopKind::NeedsPerson => 17,
        }
    }
}

impl StopKind {
    /// The words with which the reason of such a stop may begin. A screen that has said them in its headline leaves them
    /// out.
    fn lead(&self) -> &'static str {
        match self {
            StopKind::Stalled => "stalled: ",
            StopKind::Tampered => "tampered: ",
            StopKind::NeedsPerson => "needs a person: ",
            StopKind::Deadlock { .. } => "deadlock: ",
            StopKind::Budget { .. } => "budget spent: ",
            StopKind::NoAgent { .. } => "no agent: ",
            StopKind::Completed
            | StopKind::StoppedByHand
            | StopKind::RedirectInterrupted
            | StopKind::Exhausted { .. }
            | StopKind::IterationLimit => "",
        }
    }

    /// The reason, below a headline that names the kind.
    pub fn below_headline<'r>(&self, reason: &'r str) -> &'r str {
        reason.strip_prefix(self.lead()).unwrap_or(reason)
    }
}

/// Why a group went to another choice. Entries of an older program, or of another one, have none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SelectionCause {
    /// The choice before it failed.
    Failed {
        atom: AtomId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The choice before it was given up, because something that rests on it kept failing.
    Abandoned {
        atom: AtomId,
        reason: String,
    },
    /// A probe found the choice before it infeasible.
    ProbedInfeasible,
    /// Several probes put the choices that are left in order.
    ProbeOrder,
    /// It was the first of a race to pass.
    RaceWon,
    ByHand,
    /// The choice before it was removed.
    Removed,
}

impl SelectionCause {
    /// The choice that failed or was given up, and how, if that is why.
    pub fn failure(&self) -> Option<Failed<'_>> {
        match self {
            SelectionCause::Failed { atom, reason } => {
                Some(Failed { atom, how: "failed", reason: reason.as_deref() })
            }
            SelectionCause::Abandoned { atom, reason } => {
                Some(Failed { atom, how: "was given up", reason: Some(reason) })
            }
            SelectionCause::ProbedInfeasible
            | SelectionCause::ProbeOrder
            | SelectionCause::RaceWon
            | SelectionCause::ByHand
            | SelectionCause::Removed => None,
        }
    }
}

/// What happened, without the end of the output that may stand below it.
pub fn headline(reason: &str) -> &str {
    reason.lines().next().unwrap_or_default()
}

/// Whether two failures tell the same, but for times and addresses, which differ from run to run.
pub fn is_same_failure(one: &str, other: &str) -> bool {
    one == other || without_noise(one) == without_noise(other)
}

/// Numbers that a unit of time follows, clock times and addresses are left out.
fn without_noise(text: &str) -> String {
    const UNITS: [&str; 8] = ["s", "ms", "us", "µs", "ns", "sec", "secs", "seconds"];
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == 'µ';
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        if word == 0 {
            kept.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':').unwrap_or(rest.len());
        let after = rest[number..].trim_start_matches(' ');
        let unit = &after[..after.find(|c| !is_word(c)).unwrap_or(after.len())];
        let length = if rest[..word].starts_with("0x") {
            word
        } else if c.is_ascii_digit() && UNITS.contains(&unit) {
            rest.len() - after.len() + unit.len()
        } else if c.is_ascii_digit() && rest[..number].matches(':').count() == 2 {
            number
        } else {
            kept.push_str(&rest[..word]);
            rest = &rest[word..];
            continue;
        };
        kept.push('#');
        rest = &rest[length..];
    }
    kept
}

/// A choice that failed or was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed<'s> {
    pub atom: &'s AtomId,
    pub how: &'static str,
    pub reason: Option<&'s str>,
}

/// `A4 failed (why)`.
impl std::fmt::Display for Failed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.atom, self.how)?;
        self.reason.map_or(Ok(()), |reason| write!(f, " ({reason})"))
    }
}

/// Reads a fact; one of a kind that only a newer program knows is none.
pub(super) fn fact<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let value = Option::<Value>::deserialize(deserializer)?;
    Ok(value.and_then(|value| serde_json::from_value(value).ok()))
}
