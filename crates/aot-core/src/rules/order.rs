//! Probes and the choices that are left of a stuck group: when they are wanted, who is looked at beside the selected
//! choice, and which goes first by what was seen (D10). What a probe says is never a failure of a choice. Knows no agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::backtrack::{FailureOutcome, Selection, make_selection, next_choice};
use super::memory::Memory;
use super::plan::{self, DispatchInputs};
use super::{Change, Ledger};
use crate::state::{AtomId, GroupName, OrGroup, SelectionCause, State, TrailEntry};

/// After so many failed choices probes order the rest.
pub const FAILURES_BEFORE_PROBES: usize = 2;

/// Of what a probe found, so many characters stand in the trail.
const FINDINGS_IN_THE_TRAIL: usize = 200;

/// Ordered, so that the cheapest feasible choice can go first (D10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cost {
    Tiny,
    Small,
    Medium,
    Large,
    Huge,
}

/// Whether something can be done, as far as a probe could see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Feasibility {
    Feasible,
    Infeasible,
}

/// What a probe saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeFinding {
    pub feasible: Feasibility,
    pub cost: Option<Cost>,
    pub findings: String,
}

/// Where a choice stands among those that are left, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Feasible(Cost),
    FeasibleAtSomeCost,
    /// Not probed, or the probe gave no answer.
    Unknown,
    /// It is listed, and has no atom to look at (D4).
    WithoutAtom,
    NotFeasible,
}

/// Whether probes are to order what is left of a group: two have failed, at least two others are left, and the
/// group came to the selected one by a failure. One that a person took, or that probes put first, is simply tried.
pub fn is_wanted(state: &State, name: &GroupName) -> bool {
    let entry = &state.or_groups[name];
    let by_failure = |cause: Option<&SelectionCause>| match cause {
        Some(
            SelectionCause::Failed { .. }
            | SelectionCause::Abandoned { .. }
            | SelectionCause::ProbedInfeasible,
        ) => true,
        Some(
            SelectionCause::ProbeOrder
            | SelectionCause::RaceWon
            | SelectionCause::ByHand
            | SelectionCause::Removed,
        ) => false,
        // An older program noted no cause; two choices have failed, so a failure is the likely one.
        None => true,
    };
    entry.failed.len() >= FAILURES_BEFORE_PROBES
        && !entry.is_speculative()
        && may_be_put_off(state, name)
        && selections(state, name).next().is_none_or(by_failure)
}

/// The choices to look at while the selected one is probed, in the written order: those that an agent would execute,
/// that wait for nothing and for nobody, and that nobody has seen yet.
pub fn beside(ledger: &Ledger, inputs: &DispatchInputs<'_>, selected: usize) -> Vec<AtomId> {
    let (state, graph) = (ledger.state(), ledger.graph());
    let stuck = graph.group_of(selected).filter(|group| is_wanted(state, ledger.group_at(*group).0));
    let Some(group) = stuck else { return Vec::new() };
    let worth_a_look = |id: &&AtomId| {
        state.atoms.get_index_of(*id).is_some_and(|index| {
            index != selected
                && plan::needs_agent(ledger, index)
                && graph.waits_on(state, index).is_none()
                && inputs.memory.awaiting_person(id).is_none()
                && inputs.memory.finding(id).is_none()
                && !plan::was_started_or_probed(ledger, inputs, id)
        })
    };
    left(ledger.group_at(group).1).filter(worth_a_look).cloned().collect()
}

/// Whether a choice is still left beside the selected one.
pub fn is_beside(ledger: &Ledger, selected: &AtomId, choice: &AtomId) -> bool {
    let group = ledger.index(selected).ok().and_then(|index| ledger.graph().group_of(index));
    group.is_some_and(|group| {
        let entry = ledger.group_at(group).1;
        entry.selected == *selected
            && ledger.state().atoms.contains_key(choice)
            && left(entry).any(|left| left == choice)
    })
}

/// Puts what is left in order: what is feasible first, the cheapest of it first, then what nobody knows, then what is
/// not feasible. Among equals the selected one comes first, the others as they are written. If another one is the best,
/// the group goes to it.
pub fn arrange(ledger: &mut Ledger, selected: usize, memory: &Memory) -> Option<FailureOutcome> {
    let group = ledger.graph().group_of(selected)?;
    let (name, entry) = ledger.group_at(group);
    let (name, id) = (name.clone(), ledger.id(selected));
    if entry.selected != id || entry.is_speculative() {
        return None;
    }
    let mut ranked: Vec<AtomId> = left(entry).cloned().collect();
    ranked.sort_by_key(|choice| (rank(ledger.state(), choice, memory), *choice != id));
    // Those that have failed stay where they are.
    let mut next = ranked.iter();
    let choices: Vec<AtomId> = entry
        .choices
        .iter()
        .filter_map(|choice| if entry.failed.contains(choice) { Some(choice) } else { next.next() })
        .cloned()
        .collect();
    if choices != entry.choices {
        ledger.record(Change::ChoicesOrdered { group: name.clone(), choices });
    }
    let best = ranked.first().filter(|best| **best != id)?;
    let described: Vec<String> = ranked.iter().map(|choice| described(choice, memory)).collect();
    let failure = memory.finding(&id).map_or("it was put off", |finding| finding.findings.as_str());
    ledger.reset_all([selected]);
    let reason = format!("Probes: {}", described.join("; "));
    let selection = Selection { choice: best, reason, cause: SelectionCause::ProbeOrder };
    make_selection(ledger, group, selection, failure);
    Some(FailureOutcome::Switched { group: name, to: best.clone() })
}

/// The probe of the selected choice calls it infeasible: the choice moves to the end of `choices` without having failed,
/// and the group selects the next. Nothing happens when all others that are left were put off in a row already: then one
/// must be tried.
pub fn put_off(ledger: &mut Ledger, choice: usize, findings: &str) -> Option<FailureOutcome> {
    let group = ledger.graph().group_of(choice)?;
    let (name, entry) = ledger.group_at(group);
    let id = ledger.id(choice);
    if entry.selected != id || entry.is_speculative() || !may_be_put_off(ledger.state(), name) {
        return None;
    }
    let name = name.clone();
    let mut choices: Vec<AtomId> = entry.choices.iter().filter(|kept| **kept != id).cloned().collect();
    choices.push(id.clone());
    let next = next_choice(ledger, group)?;
    ledger.reset_all([choice]);
    ledger.record(Change::ChoicesOrdered { group: name.clone(), choices });
    let reason = format!("Probe: {id} is not feasible ({findings})");
    let selection = Selection { choice: &next, reason, cause: SelectionCause::ProbedInfeasible };
    make_selection(ledger, group, selection, findings);
    Some(FailureOutcome::Switched { group: name, to: next })
}

/// Of `k` choices left, `k - 1` can be put off in a row.
fn may_be_put_off(state: &State, name: &GroupName) -> bool {
    let left = left(&state.or_groups[name]).count();
    let put_off =
        selections(state, name).take_while(|cause| *cause == Some(&SelectionCause::ProbedInfeasible));
    left >= 2 && put_off.count() + 1 < left
}

/// The causes of a group's selections, the latest first.
fn selections<'s>(state: &'s State, name: &'s GroupName) -> impl Iterator<Item = Option<&'s SelectionCause>> {
    state.trail.iter().rev().filter_map(move |entry| match entry {
        TrailEntry::Selection { or_group, cause, .. } if or_group == name => Some(cause.as_ref()),
        TrailEntry::Selection { .. }
        | TrailEntry::Failure { .. }
        | TrailEntry::Replan { .. }
        | TrailEntry::UserCorrection { .. } => None,
    })
}

fn left(entry: &OrGroup) -> impl Iterator<Item = &AtomId> {
    entry.choices.iter().filter(|choice| !entry.failed.contains(choice))
}

fn rank(state: &State, choice: &AtomId, memory: &Memory) -> Rank {
    match memory.finding(choice) {
        Some(ProbeFinding { feasible: Feasibility::Feasible, cost: Some(cost), .. }) => Rank::Feasible(*cost),
        Some(ProbeFinding { feasible: Feasibility::Feasible, cost: None, .. }) => Rank::FeasibleAtSomeCost,
        Some(ProbeFinding { feasible: Feasibility::Infeasible, .. }) => Rank::NotFeasible,
        None if state.atoms.contains_key(choice) => Rank::Unknown,
        None => Rank::WithoutAtom,
    }
}

fn described(choice: &AtomId, memory: &Memory) -> String {
    let Some(ProbeFinding { feasible, cost, findings }) = memory.finding(choice) else {
        return format!("{choice} is unknown");
    };
    let findings = in_short(findings);
    match (feasible, cost) {
        (Feasibility::Infeasible, _) => format!("{choice} is not feasible ({findings})"),
        (Feasibility::Feasible, None) => format!("{choice} is feasible ({findings})"),
        (Feasibility::Feasible, Some(cost)) => format!("{choice} is feasible, {} ({findings})", word(*cost)),
    }
}

fn word(cost: Cost) -> &'static str {
    match cost {
        Cost::Tiny => "tiny",
        Cost::Small => "small",
        Cost::Medium => "medium",
        Cost::Large => "large",
        Cost::Huge => "huge",
    }
}

fn in_short(findings: &str) -> String {
    let line = findings.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(FINDINGS_IN_THE_TRAIL) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
