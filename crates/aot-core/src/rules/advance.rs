//! An atom's way forward: pending, in progress, resolved; and the parent that resolves with its last child.

use indexmap::IndexSet;

use super::{Change, Ledger, Refusal};
use crate::state::{AtomId, AtomStatus, Binding, SelectionCause, Target};

/// What the program knows of an atom's own check when the atom is to be resolved (decision D22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The program ran it and saw it pass.
    Seen,
    /// Nobody ran it: enough only for an atom that has none.
    None,
}

/// Which attempt a start belongs to, if the loop counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptNumber {
    Uncounted,
    Number(u32),
}

pub fn start(ledger: &mut Ledger, id: &AtomId, attempt: AttemptNumber) -> Result<(), Refusal> {
    let index = ledger.index(id)?;
    may_start(ledger, index)?;
    let attempt = match attempt {
        AttemptNumber::Uncounted => None,
        AttemptNumber::Number(number) => Some(number),
    };
    ledger.record(Change::AtomStarted { atom: id.clone(), attempt });
    Ok(())
}

/// Whether an atom can be started as the state is.
pub fn may_start(ledger: &Ledger, index: usize) -> Result<(), Refusal> {
    is_going_on(ledger)?;
    ledger.wants_status(index, AtomStatus::Pending)?;
    is_executable(ledger, index)
}

/// Nothing starts while a redirect or a stop is under way.
pub fn is_going_on(ledger: &Ledger) -> Result<(), Refusal> {
    let control = &ledger.state().control;
    if control.redirect_requested {
        return Err(Refusal::RedirectRequested);
    }
    if control.stop_requested {
        return Err(Refusal::StopRequested);
    }
    Ok(())
}

pub fn resolve(ledger: &mut Ledger, id: &AtomId, binding: Binding, proof: Proof) -> Result<(), Refusal> {
    let index = ledger.index(id)?;
    if proof == Proof::Seen && children_resolved(ledger, index) {
        is_wanted(ledger, index)?;
        // A parent's binding is made of its children's (D3).
        resolve_parent(ledger, index);
        resolve_parents(ledger, index);
        return Ok(());
    }
    is_executable(ledger, index)?;
    ledger.wants_status(index, AtomStatus::InProgress)?;
    if proof == Proof::None && ledger.atom(index).check.is_some() {
        return Err(Refusal::CheckNotSeen(id.clone()));
    }
    end_race(ledger, index);
    ledger.record(Change::AtomResolved { atom: id.clone(), binding });
    resolve_parents(ledger, index);
    Ok(())
}

/// Resolves parents whose children are all resolved, upward. A parent with a check of its own waits for the check
/// (decision D3).
pub fn resolve_parents(ledger: &mut Ledger, child: usize) {
    let mut at = child;
    while let Some(parent) = ledger.graph().parent(at) {
        if !children_resolved(ledger, parent) || ledger.atom(parent).check.is_some() {
            return;
        }
        resolve_parent(ledger, parent);
        at = parent;
    }
}

/// The parent that now waits for nothing but its own check, now that this atom is resolved.
pub fn waits_for_check(ledger: &Ledger, child: &AtomId) -> Option<AtomId> {
    let index = ledger.index(child).ok()?;
    let above = ledger
        .graph()
        .line(index)
        .skip(1)
        .find(|above| ledger.atom(*above).status != AtomStatus::Resolved)?;
    (children_resolved(ledger, above) && ledger.atom(above).check.is_some()).then(|| ledger.id(above))
}

/// Whether an unresolved parent could resolve now, its own check aside.
pub fn children_resolved(ledger: &Ledger, parent: usize) -> bool {
    ledger.atom(parent).status != AtomStatus::Resolved
        && ledger.graph().is_decomposed(parent)
        && ledger.frontier().children_done(parent)
}

/// Binds a parent: its binding names the children and refers to their artifacts.
pub fn resolve_parent(ledger: &mut Ledger, parent: usize) {
    end_race(ledger, parent);
    let (state, graph) = (ledger.state(), ledger.graph());
    let children: Vec<AtomId> = graph
        .child_targets(parent)
        .map(|target| match target {
            Target::Atom(child) => state.atoms[child].id.clone(),
            Target::Group(group) => state.or_groups[group].selected.clone(),
        })
        .collect();
    let bound = children.iter().filter_map(|child| state.bindings.get(child));
    let artifacts: IndexSet<String> = bound.flat_map(|binding| binding.artifacts.iter().cloned()).collect();
    let artifacts = artifacts.into_iter().collect();
    let names = children.iter().map(AtomId::as_str).collect::<Vec<_>>().join(", ");
    let summary = format!("Completed via {names} resolution");
    let binding = Binding { summary, artifacts, ..Binding::default() };
    let atom = ledger.id(parent);
    ledger.record(Change::AtomResolved { atom, binding });
}

/// Runs the check of a parent whose children are all resolved: its attempt begins.
pub fn start_check(ledger: &mut Ledger, parent: usize, attempt: u32) {
    let atom = ledger.id(parent);
    ledger.record(Change::AtomStarted { atom, attempt: Some(attempt) });
}

/// The first of a racing group's choices to pass is the selected one; its rivals, and what lies below them, go back
/// to pending, unfailed (D25).
fn end_race(ledger: &mut Ledger, winner: usize) {
    let Some(group) = ledger.graph().group_of(winner) else { return };
    if !ledger.graph().is_racing(ledger.state(), group) {
        return;
    }
    let (name, entry) = ledger.group_at(group);
    let name = name.clone();
    if entry.selected != ledger.atom(winner).id {
        let choice = ledger.id(winner);
        let reason = format!("{choice} was the first of the race to pass");
        let cause = Some(SelectionCause::RaceWon);
        ledger.record(Change::ChoiceSelected { group: name, choice, reason, cause });
    }
    let graph = ledger.graph();
    let rivals = graph.choices(group).iter().copied().filter(|choice| *choice != winner);
    let rivals: Vec<usize> = rivals.flat_map(|rival| graph.subtree(rival)).collect();
    ledger.reset_all(rivals);
}

fn is_executable(ledger: &Ledger, index: usize) -> Result<(), Refusal> {
    if ledger.graph().is_decomposed(index) {
        return Err(Refusal::IsDecomposed(ledger.id(index)));
    }
    is_wanted(ledger, index)
}

/// No choice above it is dormant or failed, and what it needs is resolved.
fn is_wanted(ledger: &Ledger, index: usize) -> Result<(), Refusal> {
    let (state, graph) = (ledger.state(), ledger.graph());
    let atom = ledger.id(index);
    for above in graph.line(index) {
        let Some(group) = graph.group_of(above) else { continue };
        let (group, entry) = ledger.group_at(group);
        let (group, choice) = (group.clone(), ledger.id(above));
        if entry.failed.contains(&choice) {
            return Err(Refusal::ChoiceFailed { atom, choice, group });
        }
        if entry.selected != choice && graph.is_dormant(state, above) {
            return Err(Refusal::Dormant { atom, choice, group });
        }
    }
    let mut on: Vec<String> = Vec::new();
    for target in graph.line(index).flat_map(|above| graph.depends(above)) {
        if !graph.is_resolved(state, *target) {
            let name = graph.name_of(state, *target);
            if !on.contains(&name) {
                on.push(name);
            }
        }
    }
    if on.is_empty() { Ok(()) } else { Err(Refusal::Waiting { atom, on }) }
}
