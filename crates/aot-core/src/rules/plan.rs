//! What to start next: the order of the ready atoms, free slots, conflicts and reservations, when to look before
//! working, and when the plan itself is to change (D7, D8, D10, D11, D26). Starts nothing, and knows no process.

use std::collections::BTreeMap;

use super::Ledger;
use super::certificate::RedCheck;
use super::order::{self, ProbeFinding};
use super::overlap::conflict;
use crate::state::{AtomId, AtomStatus, Target};

/// Which roles have an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agents {
    pub worker: Presence,
    pub probe: Presence,
    pub coordinator: Presence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Available,
    Absent,
}

/// What the planner must know besides the state.
#[derive(Clone, Copy, Debug)]
pub struct DispatchInputs<'f> {
    /// Atoms with an attempt in flight.
    pub running: &'f [AtomId],
    /// Atoms that a replan under way is about.
    pub replanned: &'f [AtomId],
    /// Atoms that wait for a person, and why.
    pub awaiting_person: &'f BTreeMap<AtomId, String>,
    /// Choices that were looked at in the open iteration, beside the selected one (D10).
    pub probed: &'f [AtomId],
    /// What was seen of choices when they were put in order: they need no other probe.
    pub findings: &'f BTreeMap<AtomId, ProbeFinding>,
    pub agents: Agents,
}

/// An attempt to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pick {
    pub atom: AtomId,
    pub step: Step,
}

/// What an attempt begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Probe,
    Work,
    /// A parent's own check.
    Check,
}

/// Why an atom that is ready is not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bar {
    /// At most once in an iteration (D8).
    StartedAlready,
    /// A replan about it is under way (D8).
    BeingReplanned,
    /// It waits for a person (D17).
    AwaitingPerson,
    /// It needs an agent, and there is none (D27).
    NoAgent,
    /// At the stall limit only what has failed less than twice is tried (D11).
    StallLimit,
    /// It would get in the way of this one (D26).
    Conflict(AtomId),
}

/// Why the coordinator agent is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplanReason {
    /// It has failed too often since its plan last changed (D11).
    Failing { atom: AtomId },
    /// A worker calls it too large for one go.
    TooLarge { atom: AtomId, reason: String },
    /// One more iteration without progress and replans end (D11).
    Stalling,
    /// Nothing is unresolved, and yet the base case does not hold (D14).
    Red { checks: Vec<RedCheck> },
}

/// At the stall limit atoms with so many failures are given up (D11); before it they are probed before the work.
pub const FAILURES_FOR_A_PROBE: usize = 2;

/// How many attempts may begin in one iteration (D8).
pub fn starts_per_iteration(parallel: u32) -> usize {
    2 * parallel.max(1) as usize - 1
}

/// The next attempt to begin, if any: parents' checks first, then what is reserved, then the longest remaining path.
/// An untried atom that has to wait for a conflict is reserved: what conflicts with it waits until it had its turn.
pub fn next(ledger: &Ledger, inputs: &DispatchInputs<'_>, reserved: &mut Vec<AtomId>) -> Option<Pick> {
    let frontier = ledger.frontier();
    if let Some(parent) = frontier.due().find(|parent| barred(ledger, inputs, *parent).is_none()) {
        return Some(Pick { atom: ledger.id(parent), step: Step::Check });
    }
    // Only a conflict keeps a reservation: whatever else bars an atom may bar it for good.
    let bars = |id: &AtomId| {
        let index = ledger.index(id).ok().filter(|index| frontier.is_ready(*index));
        index.map(|index| barred(ledger, inputs, index))
    };
    reserved.retain(|id| matches!(bars(id), Some(None | Some(Bar::Conflict(_)))));
    if let Some(at) = reserved.iter().position(|id| bars(id) == Some(None)) {
        let atom = reserved.remove(at);
        return Some(pick(ledger, inputs, atom));
    }
    for index in frontier.ready() {
        let atom = ledger.atom(index);
        match barred(ledger, inputs, index) {
            None => {}
            Some(Bar::Conflict(_)) => {
                if ledger.tally().failures(&atom.id) == 0 && !reserved.contains(&atom.id) {
                    reserved.push(atom.id.clone());
                }
                continue;
            }
            Some(
                Bar::StartedAlready
                | Bar::BeingReplanned
                | Bar::AwaitingPerson
                | Bar::NoAgent
                | Bar::StallLimit,
            ) => {
                continue;
            }
        }
        let in_the_way = |id: &AtomId| *id != atom.id && conflict(atom, &ledger.state().atoms[id]);
        if !reserved.iter().any(in_the_way) {
            return Some(pick(ledger, inputs, atom.id.clone()));
        }
    }
    None
}

/// Whether anything at all could be started, were nothing running and the iteration new.
pub fn anything(ledger: &Ledger, inputs: &DispatchInputs<'_>) -> bool {
    let frontier = ledger.frontier();
    frontier.due().chain(frontier.ready()).any(|index| barred_for_good(ledger, inputs, index).is_none())
}

/// The first rule that keeps a ready atom from starting now.
pub fn barred(ledger: &Ledger, inputs: &DispatchInputs<'_>, index: usize) -> Option<Bar> {
    let atom = ledger.atom(index);
    if was_started_or_probed(ledger, inputs, &atom.id) {
        return Some(Bar::StartedAlready);
    }
    if inputs.replanned.contains(&atom.id) {
        return Some(Bar::BeingReplanned);
    }
    if let Some(bar) = barred_for_good(ledger, inputs, index) {
        return Some(bar);
    }
    if ledger.graph().is_decomposed(index) {
        return None;
    }
    let other =
        inputs.running.iter().find(|id| ledger.state().atoms.get(*id).is_some_and(|b| conflict(atom, b)));
    other.map(|other| Bar::Conflict(other.clone()))
}

/// Whether an atom was started in the open iteration, or looked at without an answer. What was seen of it leads to the
/// work, and to no second look.
pub fn was_started_or_probed(ledger: &Ledger, inputs: &DispatchInputs<'_>, id: &AtomId) -> bool {
    let open = ledger.state().control.open.as_ref();
    open.is_some_and(|open| open.started.contains(id))
        || (inputs.probed.contains(id) && !inputs.findings.contains_key(id))
}

fn barred_for_good(ledger: &Ledger, inputs: &DispatchInputs<'_>, index: usize) -> Option<Bar> {
    let atom = ledger.atom(index);
    let control = &ledger.state().control;
    if inputs.awaiting_person.contains_key(&atom.id) {
        return Some(Bar::AwaitingPerson);
    }
    if needs_agent(ledger, index) && inputs.agents.worker == Presence::Absent {
        return Some(Bar::NoAgent);
    }
    if control.stall_count >= ledger.state().constraints().max_stall_count
        && ledger.tally().failures(&atom.id) >= FAILURES_FOR_A_PROBE
    {
        return Some(Bar::StallLimit);
    }
    None
}

/// Whether only an agent can solve an atom (D27).
pub fn needs_agent(ledger: &Ledger, index: usize) -> bool {
    ledger.atom(index).run.is_none() && !ledger.graph().is_decomposed(index)
}

/// Atoms that nobody could solve: they need an agent, and there is none (D27). Choices that may still be selected are
/// among them.
pub fn lacking(ledger: &Ledger, agents: Agents) -> Vec<AtomId> {
    if agents.worker == Presence::Available {
        return Vec::new();
    }
    let (state, graph) = (ledger.state(), ledger.graph());
    let may_be_needed = |index: &usize| {
        state.atoms[*index].status != AtomStatus::Resolved
            && needs_agent(ledger, *index)
            && !graph.under_failed_choice(state, *index)
            && graph.line(*index).all(|above| {
                graph.group_of(above).is_none_or(|group| !graph.is_resolved(state, Target::Group(group)))
            })
    };
    (0..state.atoms.len()).filter(may_be_needed).map(|index| ledger.id(index)).collect()
}

/// What an attempt on a ready atom, or on a parent that is due, begins with.
pub fn pick(ledger: &Ledger, inputs: &DispatchInputs<'_>, atom: AtomId) -> Pick {
    let index = ledger.index(&atom).expect("only what is in the graph is picked");
    let step = if ledger.graph().is_decomposed(index) {
        Step::Check
    } else if inputs.agents.probe == Presence::Available && wants_probe(ledger, inputs, index) {
        Step::Probe
    } else {
        Step::Work
    };
    Pick { atom, step }
}

fn wants_probe(ledger: &Ledger, inputs: &DispatchInputs<'_>, index: usize) -> bool {
    let atom = ledger.atom(index);
    if atom.run.is_some() || inputs.findings.contains_key(&atom.id) {
        return false;
    }
    let failures = ledger.tally().failures(&atom.id);
    if failures >= FAILURES_FOR_A_PROBE || (atom.probe == Some(true) && failures == 0) {
        return true;
    }
    let group = ledger.graph().group_of(index).map(|group| ledger.group_at(group).0);
    group.is_some_and(|group| order::is_wanted(ledger.state(), group))
}

/// Why the plan is to change at the opening of the next iteration; empty if it is not (D8, D11, D14).
pub fn replan_reasons(
    ledger: &Ledger,
    too_large: &BTreeMap<AtomId, String>,
    red: Option<&[RedCheck]>,
) -> Vec<ReplanReason> {
    let (control, limit) = (&ledger.state().control, ledger.state().constraints().max_stall_count);
    if control.stall_count >= limit {
        return Vec::new();
    }
    let stalling = control.stall_count + 1 == limit;
    if let Some(checks) = red {
        let stalling = (stalling && control.stall_count > 0).then_some(ReplanReason::Stalling);
        return std::iter::once(ReplanReason::Red { checks: checks.to_vec() }).chain(stalling).collect();
    }
    let waits = |id: &AtomId| {
        ledger.index(id).is_ok_and(|index| {
            ledger.frontier().counts(index) && ledger.atom(index).status == AtomStatus::Pending
        })
    };
    let mut due: Vec<ReplanReason> = Vec::new();
    let mut failing: Vec<&AtomId> = ledger.tally().needs_replan().filter(|id| waits(id)).collect();
    if stalling {
        failing = ledger.tally().failed().filter(|id| waits(id)).collect();
    }
    failing.sort_by_key(|id| ledger.index(id).ok());
    due.extend(failing.into_iter().map(|atom| ReplanReason::Failing { atom: atom.clone() }));
    for (atom, reason) in too_large.iter().filter(|(id, _)| waits(id)) {
        due.push(ReplanReason::TooLarge { atom: atom.clone(), reason: reason.clone() });
    }
    if stalling && (control.stall_count > 0 || !due.is_empty()) {
        due.push(ReplanReason::Stalling);
    }
    due
}

/// The atoms that a replan is about.
pub fn atoms_to_replan(why: &[ReplanReason]) -> Vec<AtomId> {
    let mut atoms: Vec<AtomId> = Vec::new();
    for why in why {
        match why {
            ReplanReason::Failing { atom } | ReplanReason::TooLarge { atom, .. } => {
                if !atoms.contains(atom) {
                    atoms.push(atom.clone());
                }
            }
            ReplanReason::Stalling | ReplanReason::Red { .. } => {}
        }
    }
    atoms
}
