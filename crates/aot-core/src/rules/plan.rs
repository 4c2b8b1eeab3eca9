//! What to start next: the order of the ready atoms, free slots, conflicts and reservations, when to probe before
//! working, and when the plan itself is to change (D7, D8, D10, D11, D26). Starts nothing, and knows no process.

use super::certificate::RedCheck;
use super::memory::Memory;
use super::overlap::{conflict, may_conflict};
use super::{Ledger, Refusal, advance, backtrack, converge, order};
use crate::state::{AtomId, AtomStatus, Spent, Target};

/// Which roles have an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agents {
    pub worker: Presence,
    pub probe: Presence,
    pub coordinator: Presence,
}

impl Agents {
    /// As far as is known, there is one for each role.
    pub const ALL: Agents =
        Agents { worker: Presence::Available, probe: Presence::Available, coordinator: Presence::Available };

    /// Only commands can be run.
    pub const NONE: Agents =
        Agents { worker: Presence::Absent, probe: Presence::Absent, coordinator: Presence::Absent };
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
    pub memory: &'f Memory,
    /// Choices that were probed in the open iteration, beside the selected one (D10).
    pub probed: &'f [AtomId],
    pub agents: Agents,
    pub slots: Slots,
    pub spent: &'f Spent,
}

/// How many may run at once, and how many do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    pub parallel: u32,
    pub taken: usize,
    /// The agents among them: a command, a check or a landing is none. Counted only where there is a budget.
    pub agents: usize,
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

/// Why the coordinator agent is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplanReason {
    /// It has failed too often since its plan last changed (D11).
    Failing { atom: AtomId },
    /// A worker calls it too large for one go.
    TooLarge { atom: AtomId, reason: String },
    /// A probe calls it infeasible as it is described.
    Infeasible { atom: AtomId, findings: String },
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

/// Whether one more job fits into the slots, the iteration and the budget (D7, D8, D12).
pub fn has_room(ledger: &Ledger, inputs: &DispatchInputs<'_>) -> Result<(), Refusal> {
    let (control, constraints) = (&ledger.state().control, ledger.state().constraints());
    let slots = &inputs.slots;
    if slots.taken >= slots.parallel as usize {
        return Err(Refusal::SlotsFull(slots.parallel));
    }
    let starts = starts_per_iteration(constraints.max_parallel_agents);
    match &control.open {
        None if control.iteration >= constraints.max_iterations => {
            return Err(Refusal::IterationLimit(constraints.max_iterations));
        }
        Some(open) if open.started.len() + inputs.probed.len() >= starts => {
            return Err(Refusal::IterationFull(starts));
        }
        None | Some(_) => {}
    }
    if !converge::affords(constraints, inputs.spent, slots.agents) {
        return Err(Refusal::BudgetReserved);
    }
    Ok(())
}

/// Whether this atom may be started now, and with which step: a host asks for one atom at a time.
pub fn may_start(
    ledger: &Ledger,
    inputs: &DispatchInputs<'_>,
    seconds_spent: u64,
    atom: AtomId,
) -> Result<Pick, Refusal> {
    let index = ledger.index(&atom)?;
    if ledger.frontier().is_due(index) {
        advance::is_going_on(ledger)?;
    } else {
        advance::may_start(ledger, index)?;
    }
    if let Some((_, reason)) = converge::overspent(ledger, seconds_spent) {
        return Err(Refusal::BudgetSpent(reason));
    }
    if let Some(refusal) = refused_now(ledger, inputs, index) {
        return Err(refusal);
    }
    has_room(ledger, inputs)?;
    Ok(pick(ledger, inputs, atom))
}

/// The next attempt to begin, if any: parents' checks first, then what is reserved, then the longest remaining path.
/// An untried atom that has to wait for a conflict is reserved: what conflicts with it waits until it was started.
pub fn next(ledger: &Ledger, inputs: &DispatchInputs<'_>, reserved: &mut Vec<AtomId>) -> Option<Pick> {
    let frontier = ledger.frontier();
    if let Some(parent) = frontier.due().find(|parent| refused_now(ledger, inputs, *parent).is_none()) {
        return Some(Pick { atom: ledger.id(parent), step: Step::Check });
    }
    // Only a conflict keeps a reservation: whatever else refuses an atom may refuse it for good.
    let refusal = |id: &AtomId| {
        let index = ledger.index(id).ok().filter(|index| frontier.is_ready(*index));
        index.map(|index| refused_now(ledger, inputs, index))
    };
    reserved.retain(|id| matches!(refusal(id), Some(None | Some(Refusal::InTheWay { .. }))));
    if let Some(at) = reserved.iter().position(|id| refusal(id) == Some(None)) {
        let atom = reserved.remove(at);
        return Some(pick(ledger, inputs, atom));
    }
    for index in frontier.ready() {
        let atom = ledger.atom(index);
        if let Some(refusal) = refused_now(ledger, inputs, index) {
            let untried = ledger.tally().failures(&atom.id) == 0;
            if matches!(refusal, Refusal::InTheWay { .. }) && untried && !reserved.contains(&atom.id) {
                reserved.push(atom.id.clone());
            }
            continue;
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
    frontier.due().chain(frontier.ready()).any(|index| refused_for_good(ledger, inputs, index).is_none())
}

/// The first rule that keeps a ready atom from starting now.
fn refused_now(ledger: &Ledger, inputs: &DispatchInputs<'_>, index: usize) -> Option<Refusal> {
    let atom = ledger.atom(index);
    if was_started_or_probed(ledger, inputs, &atom.id) {
        return Some(Refusal::StartedAlready(atom.id.clone()));
    }
    if inputs.replanned.contains(&atom.id) {
        return Some(Refusal::BeingReplanned(atom.id.clone()));
    }
    if let Some(refusal) = refused_for_good(ledger, inputs, index) {
        return Some(refusal);
    }
    if ledger.graph().is_decomposed(index) || !may_conflict(atom) {
        return None;
    }
    let atoms = &ledger.state().atoms;
    let with = inputs.running.iter().find(|id| atoms.get(*id).is_some_and(|other| conflict(atom, other)))?;
    Some(Refusal::InTheWay { atom: atom.id.clone(), with: with.clone() })
}

/// Whether an atom was started in the open iteration, or probed without an answer. What a probe found leads to the
/// work, and to no second probe.
pub fn was_started_or_probed(ledger: &Ledger, inputs: &DispatchInputs<'_>, id: &AtomId) -> bool {
    let open = ledger.state().control.open.as_ref();
    open.is_some_and(|open| open.started.contains(id))
        || (inputs.probed.contains(id) && inputs.memory.finding(id).is_none())
}

fn refused_for_good(ledger: &Ledger, inputs: &DispatchInputs<'_>, index: usize) -> Option<Refusal> {
    let atom = ledger.atom(index);
    let control = &ledger.state().control;
    if inputs.memory.awaiting_person(&atom.id).is_some() {
        return Some(Refusal::AwaitingPerson(atom.id.clone()));
    }
    if needs_agent(ledger, index) && inputs.agents.worker == Presence::Absent {
        return Some(Refusal::NoAgent(atom.id.clone()));
    }
    if control.stall_count >= ledger.state().constraints().max_stall_count
        && ledger.tally().failures(&atom.id) >= FAILURES_FOR_A_PROBE
    {
        return Some(Refusal::GivenUp(atom.id.clone()));
    }
    if fails_the_same(ledger, inputs.memory, &atom.id) && !can_climb(ledger, inputs, index) {
        return Some(Refusal::GivenUp(atom.id.clone()));
    }
    None
}

/// Whether the last two failures of an atom since its plan changed told the same (D34).
pub fn fails_the_same(ledger: &Ledger, memory: &Memory, id: &AtomId) -> bool {
    ledger.tally().failures(id) > 1 && memory.of(id).is_some_and(|memory| memory.fails_the_same)
}

/// Whether something else than another try of the same kind is left for an atom that fails (D11): a probe before the work,
/// another plan, an earlier choice to give up.
fn can_climb(ledger: &Ledger, inputs: &DispatchInputs<'_>, index: usize) -> bool {
    let atom = ledger.atom(index);
    let was_probed = ledger.tally().failures(&atom.id) > FAILURES_FOR_A_PROBE;
    inputs.agents.coordinator == Presence::Available
        || (inputs.agents.probe == Presence::Available && atom.run.is_none() && !was_probed)
        || backtrack::earlier_choice(ledger, &atom.id).is_some()
}

/// Whether only an agent can solve an atom (D27).
pub fn needs_agent(ledger: &Ledger, index: usize) -> bool {
    ledger.atom(index).run.is_none() && !ledger.graph().is_decomposed(index)
}

/// Atoms that cannot be solved: they need an agent, and there is none (D27). A choice that is not selected is not among
/// them: the loop may come to its end without it.
pub fn lacking(ledger: &Ledger, agents: Agents) -> Vec<AtomId> {
    let (state, graph) = (ledger.state(), ledger.graph());
    let is_awake = |id: &AtomId| ledger.index(id).is_ok_and(|index| !graph.is_dormant(state, index));
    lacking_ever(ledger, agents).into_iter().filter(is_awake).collect()
}

/// The same with those under choices that may still be selected.
pub fn lacking_ever(ledger: &Ledger, agents: Agents) -> Vec<AtomId> {
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
    if atom.run.is_some() || inputs.memory.found_by_probe(&atom.id).is_some() {
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
pub fn replan_reasons(ledger: &Ledger, memory: &Memory, red: Option<&[RedCheck]>) -> Vec<ReplanReason> {
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
    let is_due = |id: &&AtomId| ledger.tally().is_replan_due(id) || fails_the_same(ledger, memory, id);
    let mut failing: Vec<&AtomId> = ledger.tally().failed().filter(|id| waits(id)).filter(is_due).collect();
    if stalling {
        failing = ledger.tally().failed().filter(|id| waits(id)).collect();
    }
    failing.sort_by_key(|id| ledger.index(id).ok());
    due.extend(failing.into_iter().map(|atom| ReplanReason::Failing { atom: atom.clone() }));
    for (atom, reason) in memory.too_large().filter(|(id, _)| waits(id)) {
        due.push(ReplanReason::TooLarge { atom: atom.clone(), reason: reason.to_owned() });
    }
    for (atom, findings) in memory.infeasible().filter(|(id, _)| waits(id)) {
        due.push(ReplanReason::Infeasible { atom: atom.clone(), findings: findings.to_owned() });
    }
    if stalling && (control.stall_count > 0 || !due.is_empty()) {
        due.push(ReplanReason::Stalling);
    }
    due
}

/// Whether a probe's "not feasible" goes to whoever can change the plan before anybody works on the atom. A choice has its
/// group for that, and what was told once is tried (D11).
pub fn replans_before_work(ledger: &Ledger, inputs: &DispatchInputs<'_>, index: usize) -> bool {
    let control = &ledger.state().control;
    let memory = inputs.memory.of(&ledger.atom(index).id);
    inputs.agents.coordinator == Presence::Available
        && ledger.graph().group_of(index).is_none()
        && memory.is_none_or(|memory| memory.infeasible.is_none())
        && control.stall_count < ledger.state().constraints().max_stall_count
        && control.iteration < ledger.state().constraints().max_iterations
}

/// The atoms that a replan is about.
pub fn atoms_to_replan(why: &[ReplanReason]) -> Vec<AtomId> {
    let mut atoms: Vec<AtomId> = Vec::new();
    for why in why {
        match why {
            ReplanReason::Failing { atom }
            | ReplanReason::TooLarge { atom, .. }
            | ReplanReason::Infeasible { atom, .. } => {
                if !atoms.contains(atom) {
                    atoms.push(atom.clone());
                }
            }
            ReplanReason::Stalling | ReplanReason::Red { .. } => {}
        }
    }
    atoms
}
