//! What a halt says: the verdict, what is red, what was tried, which branches remain, what to do next (D13).

use std::collections::HashMap;

use indexmap::IndexMap;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Ledger;
use super::converge::{self, Need, Stop};
use super::plan::{Agents, Presence};
use crate::state::{AtomId, AtomStatus, CheckKind, GroupName, State, TrailEntry};

pub use crate::state::{Budget, StopKind};

/// Why the loop halted, with all that a person needs to go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    #[serde(flatten, with = "tagged_verdict")]
    pub verdict: StopKind,
    /// One line; `control.stop_reason` of a stopped loop.
    pub reason: String,
    pub exit: u8,
    /// Checks of the base case that did not pass when it was last evaluated.
    pub red: Vec<RedCheck>,
    /// What was left undone by a loop that is completed: the base case did not need it (D14).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_needed: Vec<AtomId>,
    /// The unresolved atoms that were tried, and how each try ended.
    pub tried: Vec<Tried>,
    /// Choices that were not tried yet.
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
    /// Absent if it is no check of the base case, such as [`WORKING_TREE`], or if an older program wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<CheckKind>,
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

/// The JSON of a halt calls the kind of a verdict `verdict`.
pub(crate) mod tagged_verdict {
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};
    use serde_json::{Map, Value};

    use crate::state::StopKind;

    pub fn serialize<S: Serializer>(verdict: &StopKind, serializer: S) -> Result<S::Ok, S::Error> {
        let value = serde_json::to_value(verdict).map_err(S::Error::custom)?;
        let fields = value.as_object().into_iter().flatten();
        serializer
            .collect_map(fields.map(|(key, value)| (if key == "kind" { "verdict" } else { key }, value)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StopKind, D::Error> {
        let mut fields = Map::<String, Value>::deserialize(deserializer)?;
        if let Some(kind) = fields.remove("verdict") {
            fields.insert("kind".into(), kind);
        }
        serde_json::from_value(Value::Object(fields)).map_err(D::Error::custom)
    }
}

/// Writes the certificate of a halt.
pub fn certify(ledger: &Ledger, stop: Stop, red: Vec<RedCheck>) -> Certificate {
    let state = ledger.state();
    let branches = branches(state);
    let Stop { verdict, mut reason, needs, running: _ } = stop;
    let not_needed = if verdict == StopKind::Completed { ledger.unresolved() } else { Vec::new() };
    if !not_needed.is_empty() {
        let names: Vec<&str> = not_needed.iter().map(AtomId::as_str).collect();
        reason = format!("{reason}; not needed: {}", names.join(", "));
    }
    Certificate {
        not_needed,
        next: next(&verdict, state, &branches, &needs),
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
    let mut selected: HashMap<&GroupName, &AtomId> = HashMap::new();
    for entry in &state.trail {
        match entry {
            TrailEntry::Failure { atom, reason, .. } => {
                found.entry(atom.clone()).or_default().push(reason.clone());
            }
            TrailEntry::Selection { cause: Some(cause), reason: whole, .. } => {
                if let Some(failed) = cause.failure() {
                    let reason = failed.reason.map_or_else(String::new, |reason| format!(" ({reason})"));
                    let output =
                        whole.split_once('\n').map_or_else(String::new, |(_, output)| format!("\n{output}"));
                    found
                        .entry(failed.atom.clone())
                        .or_default()
                        .push(format!("{}{reason}{output}", failed.how));
                }
            }
            // An older program noted no cause: the choice before it failed if the group says so.
            TrailEntry::Selection { or_group, reason, cause: None, .. } => {
                let failed_before = state.or_groups.get(or_group).and_then(|entry| {
                    let before = selected.get(or_group).copied().or(entry.choices.first());
                    before.filter(|before| entry.failed.contains(before))
                });
                if let Some(before) = failed_before {
                    found.entry(before.clone()).or_default().push(reason.clone());
                }
            }
            TrailEntry::Replan { .. } | TrailEntry::UserCorrection { .. } => {}
        }
        if let TrailEntry::Selection { or_group, selected: choice, .. } = entry {
            selected.insert(or_group, choice);
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

/// What to type next, as far as the state alone tells.
pub fn next_steps(state: &State) -> Vec<String> {
    let verdict = state.control.verdict.clone().unwrap_or_else(|| derived_verdict(state));
    let mut steps = next(&verdict, state, &branches(state), &[]);
    if verdict == StopKind::NeedsPerson {
        steps.insert(0, "aot verify".into());
    }
    steps
}

/// An older program noted no verdict. What holds until a redirect shows in the graph; anything else can be taken up.
fn derived_verdict(state: &State) -> StopKind {
    let (worker, probe, coordinator) = (Presence::Available, Presence::Absent, Presence::Absent);
    let ledger = Ledger::open(state.clone(), Timestamp::UNIX_EPOCH);
    let stop = converge::lasting_stop(&ledger, Agents { worker, probe, coordinator });
    stop.map_or(StopKind::StoppedByHand, |stop| stop.verdict)
}

/// The first that was tried and can be tried again: no choice that was given up.
fn to_redo(state: &State) -> Option<AtomId> {
    let given_up = |id: &AtomId| state.or_groups.values().any(|group| group.failed.contains(id));
    tried(state).into_iter().map(|tried| tried.atom).find(|id| !given_up(id))
}

/// What to type so that atoms no longer wait for one another: the first that waits for itself waits for less.
fn untied(state: &State, stuck: &[AtomId]) -> Option<String> {
    let is_open = |id: &&AtomId| state.atoms.get(*id).is_none_or(|atom| atom.status != AtomStatus::Resolved);
    // Whoever depends on a choice waits for the one that is selected.
    let selected = |id: &AtomId| {
        let group = state.atoms.get(id).and_then(|atom| state.or_groups.get(atom.or_group.as_ref()?));
        group.map_or_else(|| id.clone(), |group| group.selected.clone())
    };
    let waits_for = |id: &AtomId| state.atoms.get(id)?.depends_on.iter().find(is_open).map(&selected);
    let mut seen = vec![stuck.first()?.clone()];
    while let Some(next) = waits_for(seen.last()?) {
        if !seen.contains(&next) {
            seen.push(next);
            continue;
        }
        let kept = state.atoms.get(&next)?.depends_on.iter().filter(|id| !is_open(id));
        let kept: Vec<&str> = kept.map(AtomId::as_str).collect();
        return Some(format!(
            "aot redirect --depends \"{}\"",
            format!("{next} <- {}", kept.join(",")).trim_end()
        ));
    }
    None
}

fn next(verdict: &StopKind, state: &State, branches: &[Branch], needs: &[Need]) -> Vec<String> {
    let mut next: Vec<String> = Vec::new();
    match verdict {
        StopKind::Completed => {}
        StopKind::StoppedByHand | StopKind::RedirectInterrupted => next.push("aot run".into()),
        StopKind::Tampered => {
            next.push("undo the change, then aot run".into());
            next.push("aot redirect --accept".into());
        }
        StopKind::Exhausted { group } => {
            next.push(format!("aot redirect --add-choice {group} \"DESCRIPTION\""));
            let first = state.or_groups.get(group).and_then(|entry| entry.choices.first());
            let first = first.map_or("ATOM", AtomId::as_str);
            next.push(format!("aot or switch {group} {first} --reason \"WHY\""));
        }
        StopKind::Stalled => {
            for branch in branches {
                next.push(format!("aot or switch {} {} --reason \"WHY\"", branch.group, branch.choices[0]));
            }
            match to_redo(state) {
                // The same command would fail in the same way, whatever a hint says.
                Some(atom) if state.atoms.get(&atom).is_some_and(|atom| atom.run.is_some()) => {
                    next.push(format!("aot log {atom}"));
                    next.push(format!("change `run` of {atom} in the state file, or what it needs"));
                }
                Some(atom) => next.push(format!("aot redirect --redo {atom} \"HINT\"")),
                None => next.push("aot redirect --add \"DESCRIPTION\"".into()),
            }
            next.push("aot run".into());
        }
        StopKind::IterationLimit => {
            let twice = state.constraints().max_iterations.saturating_mul(2);
            next.push(format!("aot redirect --set max_iterations={twice}"));
        }
        StopKind::Budget { what } => {
            let limit = match what {
                Budget::Money => Some("max_cost_usd"),
                Budget::Tokens => Some("max_tokens"),
                Budget::Time => Some("max_wall_time"),
                Budget::Allowance => None,
            };
            next.extend(limit.map(|limit| format!("aot redirect --set {limit}=LIMIT")));
            if limit.is_none() {
                next.push("aot run, when the limit has lifted".into());
            }
        }
        StopKind::Deadlock { atoms } => {
            next.push("aot graph".into());
            next.extend(untied(state, atoms));
        }
        StopKind::NeedsPerson => {
            next.extend(needs.iter().map(|need| match need {
                Need::Confirm(item) => format!("aot confirm \"{item}\""),
                Need::NameJudge => "name an agent as `judge` in aot.toml".into(),
                Need::RepairCheck => "aot verify".into(),
                Need::CommitWork => "commit or undo what is uncommitted".into(),
            }));
            next.push("aot run".into());
        }
        StopKind::NoAgent { .. } => {
            next.push("aot agents".into());
            next.push("aot run --agent NAME".into());
        }
    }
    next
}
