//! What a halt says: the verdict, what is red, what was tried, which branches remain, what to do next (D13).

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::backtrack::AUTO_BACKTRACK;
use super::{Ledger, converge};
use crate::state::{AtomId, AtomStatus, GroupName, State, TrailEntry};

/// Why a loop halted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// A confirmation, a check that cannot run (D14), or an agent that is not logged in (D12).
    NeedsPerson,
    /// These need an agent, and there is none (D27).
    NoAgent {
        atoms: Vec<AtomId>,
    },
}

/// What has run out (D12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    Money,
    Tokens,
    Time,
    /// What an agent's provider grants, for now.
    Allowance,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    #[serde(flatten)]
    pub verdict: Verdict,
    /// One line; `control.stop_reason` of a stopped loop.
    pub reason: String,
    pub exit: u8,
    /// Checks of the base case that did not pass when it was last evaluated.
    pub red: Vec<RedCheck>,
    /// The unresolved atoms that were tried, and how each try ended.
    pub tried: Vec<Tried>,
    /// Choices that nobody has tried yet.
    pub branches: Vec<Branch>,
    /// What to type next, most promising first.
    pub next: Vec<String>,
    pub iterations: u32,
    pub agent_runs: u64,
}

/// What stands in the way of a base case that holds on uncommitted work only (D20).
pub const WORKING_TREE: &str = "the working tree";

/// A check that does not pass, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedCheck {
    pub item: String,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    pub atom: AtomId,
    pub attempts: usize,
    pub reasons: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    pub group: GroupName,
    pub choices: Vec<AtomId>,
}

/// Writes the certificate of a halt.
pub fn certify(ledger: &Ledger, verdict: Verdict, reason: String, red: Vec<RedCheck>) -> Certificate {
    let state = ledger.state();
    let branches = branches(state);
    // A person who is needed is asked about the checks only if they are why.
    let asked = if reason == converge::needs_person(&red) { red.as_slice() } else { &[] };
    Certificate {
        next: next(&verdict, &branches, asked, state.constraints().max_iterations),
        exit: verdict.exit(),
        verdict,
        reason,
        red,
        tried: tried(state),
        branches,
        iterations: state.control.iteration,
        agent_runs: state.control.spent.as_ref().map_or(0, |spent| spent.agent_runs),
    }
}

/// Every failure of what is still unresolved, and of choices that were given up.
pub fn tried(state: &State) -> Vec<Tried> {
    let mut found: IndexMap<AtomId, Vec<String>> = IndexMap::new();
    for entry in &state.trail {
        match entry {
            TrailEntry::Failure { atom, reason, .. } => {
                found.entry(atom.clone()).or_default().push(reason.clone());
            }
            TrailEntry::Selection { reason, .. } => {
                let told = reason.strip_prefix(AUTO_BACKTRACK).and_then(|told| told.split_once(' '));
                if let Some((atom, how)) = told {
                    found.entry(AtomId::new(atom)).or_default().push(how.to_owned());
                }
            }
            TrailEntry::Replan { .. } | TrailEntry::UserCorrection { .. } => {}
        }
    }
    let open = |id: &AtomId| state.atoms.get(id).is_some_and(|a| a.status != AtomStatus::Resolved);
    found
        .into_iter()
        .filter(|(id, _)| open(id))
        .map(|(atom, reasons)| Tried { atom, attempts: reasons.len(), reasons })
        .collect()
}

fn branches(state: &State) -> Vec<Branch> {
    let groups = state.or_groups.iter();
    groups
        .map(|(name, entry)| {
            let untried = |choice: &&AtomId| **choice != entry.selected && !entry.failed.contains(choice);
            Branch { group: name.clone(), choices: entry.choices.iter().filter(untried).cloned().collect() }
        })
        .filter(|branch| !branch.choices.is_empty())
        .collect()
}

/// What to type next, as far as the state alone tells: the verdict of a stop is read from its reason, whose first words
/// are the rules' own.
pub fn next_steps(state: &State) -> Vec<String> {
    let verdict = verdict_of(state.control.stop_reason.as_deref().unwrap_or_default());
    let mut steps = next(&verdict, &branches(state), &[], state.constraints().max_iterations);
    if verdict == Verdict::NeedsPerson {
        steps.insert(0, "aot verify".into());
    }
    steps
}

fn verdict_of(reason: &str) -> Verdict {
    let (kind, rest) = reason.split_once(':').map_or((reason, ""), |(kind, rest)| (kind, rest.trim()));
    let first = rest.split([' ', ',']).next().unwrap_or_default();
    match kind {
        "OR group exhausted" => Verdict::Exhausted { group: GroupName::new(rest) },
        "stalled" => Verdict::Stalled,
        "iteration limit reached" => Verdict::IterationLimit,
        "budget spent" if rest.ends_with("USD") => Verdict::Budget { what: Budget::Money },
        "budget spent" => Verdict::Budget { what: Budget::Tokens },
        "limited" => Verdict::Budget { what: Budget::Allowance },
        "time is up" => Verdict::Budget { what: Budget::Time },
        "deadlock" => Verdict::Deadlock { atoms: vec![AtomId::new(first)] },
        "needs a person" => Verdict::NeedsPerson,
        "tampered" => Verdict::Tampered,
        _ if reason.starts_with("no agent for ") => Verdict::NoAgent { atoms: Vec::new() },
        // A person's own words, or an interrupted redirect: the loop is simply taken up again.
        _ => Verdict::StoppedByHand,
    }
}

fn next(verdict: &Verdict, branches: &[Branch], asked: &[RedCheck], max_iterations: u32) -> Vec<String> {
    let mut next: Vec<String> = Vec::new();
    match verdict {
        Verdict::Completed => {}
        Verdict::StoppedByHand | Verdict::RedirectInterrupted => next.push("aot run".into()),
        Verdict::Tampered => {
            next.push("undo the change, then aot run".into());
            next.push("aot redirect --accept".into());
        }
        Verdict::Exhausted { group } => {
            next.push(format!("aot redirect --add-choice {group} \"…\""));
            next.push(format!("aot or switch {group} … --reason …"));
        }
        Verdict::Stalled => {
            for branch in branches {
                next.push(format!("aot or switch {} {} --reason …", branch.group, branch.choices[0]));
            }
            next.push("aot redirect".into());
            next.push("aot run".into());
        }
        Verdict::IterationLimit => {
            next.push(format!("aot redirect --set max_iterations={}", max_iterations.saturating_mul(2)));
        }
        Verdict::Budget { what } => {
            let limit = match what {
                Budget::Money => Some("max_cost_usd"),
                Budget::Tokens => Some("max_tokens"),
                Budget::Time => Some("max_wall_time"),
                Budget::Allowance => None,
            };
            next.extend(limit.map(|limit| format!("aot redirect --set {limit}=…")));
            if limit.is_none() {
                next.push("aot run, when the limit has lifted".into());
            }
        }
        Verdict::Deadlock { atoms } => {
            let first = atoms.first().map_or("…", |atom| atom.as_str());
            next.push(format!("aot redirect --remove {first}"));
            next.push("aot graph".into());
        }
        Verdict::NeedsPerson => {
            next.extend(asked.iter().map(|asked| match asked.item == WORKING_TREE {
                true => "commit or undo what is uncommitted".into(),
                false => format!("aot confirm \"{}\"", asked.item),
            }));
            next.push("aot run".into());
        }
        Verdict::NoAgent { .. } => next.push("aot run --agent NAME".into()),
    }
    next
}
