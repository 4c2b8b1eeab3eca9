//! Failure, and the way to another branch: what fails a choice, which comes next, what is undone (D2, D4, D10, D31).

use super::{Change, Ledger, Refusal, advance};
use crate::state::{Atom, AtomId, AtomStatus, GroupName, State, TrailEntry};

/// An atom below a choice fails that choice at this many failures of its own.
pub const FAILURES_BELOW_A_CHOICE: usize = 2;

/// What a failure came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fallout {
    /// Pending again, to be tried once more.
    Retry,
    /// A group went to its next choice.
    Switched { group: GroupName, to: AtomId },
    /// No choice is left, and nothing encloses the group: the loop has stopped.
    Exhausted { group: GroupName },
}

/// A worker's own failure or a red check.
pub fn fail(ledger: &mut Ledger, id: &AtomId, reason: &str) -> Result<Fallout, Refusal> {
    let place = ledger.place(id)?;
    if ledger.graph().is_decomposed(place) {
        return Err(Refusal::IsDecomposed(id.clone()));
    }
    ledger.wants_status(place, AtomStatus::InProgress)?;
    ledger.enter(Change::AtomReset { atom: id.clone() });
    let Some((choice, group)) = ledger.graph().enclosing_choice(place) else {
        ledger.enter(Change::FailureNoted { atom: id.clone(), reason: reason.to_owned() });
        return Ok(Fallout::Retry);
    };
    if choice == place {
        return Ok(fail_choice(ledger, choice, group, reason));
    }
    ledger.enter(Change::FailureNoted { atom: id.clone(), reason: reason.to_owned() });
    let name = ledger.group_at(group).0.clone();
    if failures_since_selection(ledger.state(), id, &name) < FAILURES_BELOW_A_CHOICE {
        return Ok(Fallout::Retry);
    }
    Ok(fail_choice(ledger, choice, group, reason))
}

/// Burns a choice: the group goes to its next one in the written order; an exhausted group fails the choice that
/// encloses it; with none, the loop stops.
pub fn fail_choice(ledger: &mut Ledger, choice: usize, group: usize, reason: &str) -> Fallout {
    let (mut choice, mut group) = (choice, group);
    loop {
        let id = ledger.id(choice);
        let name = ledger.group_at(group).0.clone();
        ledger.enter(Change::ChoiceFailed { group: name.clone(), choice: id.clone() });
        if ledger.group_at(group).1.selected != id {
            // A rival of a race that fails leaves the others running.
            ledger.reset_all([choice]);
            if live_rival(ledger, group) {
                ledger.enter(Change::FailureNoted { atom: id, reason: reason.to_owned() });
                return Fallout::Retry;
            }
        }
        if let Some(next) = next_choice(ledger, group) {
            let why = format!("Auto-backtrack: {id} failed ({reason})");
            select(ledger, group, &next, &why, reason);
            return Fallout::Switched { group: name, to: next };
        }
        let under = ledger.graph().subtree(choice);
        ledger.reset_all(under);
        ledger.enter(Change::FailureNoted { atom: id, reason: reason.to_owned() });
        match ledger.graph().choice_around(group) {
            Some((above, around)) => (choice, group) = (above, around),
            None => {
                ledger.enter(Change::Stopped { reason: format!("OR group exhausted: {name}") });
                return Fallout::Exhausted { group: name };
            }
        }
    }
}

/// Selects a choice by hand: takes it, and all groups below it, out of `failed`; what ran or was done under the old
/// choice is undone, and so is what rested on it.
pub fn switch(ledger: &mut Ledger, name: &GroupName, choice: &AtomId, reason: &str) -> Result<(), Refusal> {
    let group = ledger.group(name)?;
    let entry = ledger.group_at(group).1;
    if !entry.choices.contains(choice) {
        return Err(Refusal::NotAChoice { group: name.clone(), choice: choice.clone() });
    }
    if entry.selected == *choice && !entry.failed.contains(choice) {
        return Err(Refusal::SelectedAlready { group: name.clone(), choice: choice.clone() });
    }
    forgive(ledger, name, choice);
    select(ledger, group, choice, reason, "it was given up by hand");
    ledger.check_shape()
}

/// How often an atom has failed since its plan last changed (decision D11).
pub fn failures(state: &State, atom: &AtomId) -> usize {
    let since = state.trail.iter().rev().take_while(
        |entry| !matches!(entry, TrailEntry::Replan { atom: replanned, .. } if replanned == atom),
    );
    count_failures(since, atom)
}

fn failures_since_selection(state: &State, atom: &AtomId, group: &GroupName) -> usize {
    let since =
        state.trail.iter().rev().take_while(
            |entry| !matches!(entry, TrailEntry::Selection { or_group, .. } if or_group == group),
        );
    count_failures(since, atom)
}

fn count_failures<'t>(entries: impl Iterator<Item = &'t TrailEntry>, atom: &AtomId) -> usize {
    entries
        .filter(|entry| matches!(entry, TrailEntry::Failure { atom: failed, .. } if failed == atom))
        .count()
}

fn live_rival(ledger: &Ledger, group: usize) -> bool {
    let graph = ledger.graph();
    graph
        .choices(group)
        .iter()
        .any(|rival| !graph.is_dormant(ledger.state(), *rival) && !graph.is_burnt(ledger.state(), *rival))
}

fn next_choice(ledger: &Ledger, group: usize) -> Option<AtomId> {
    ledger.group_at(group).1.next_choice().cloned()
}

fn select(ledger: &mut Ledger, group: usize, choice: &AtomId, reason: &str, failure: &str) {
    let (name, entry) = ledger.group_at(group);
    let (name, old) = (name.clone(), entry.selected.clone());
    ledger.enter(Change::ChoiceSelected {
        group: name.clone(),
        choice: choice.clone(),
        reason: reason.to_owned(),
    });
    if let Some(old) = ledger.state().atoms.get_index_of(&old).filter(|_| old != *choice) {
        let under = ledger.graph().subtree(old);
        let mut undone = ledger.graph().resting_on(&under);
        undone.extend(under);
        ledger.reset_all(undone);
    }
    if !ledger.state().atoms.contains_key(choice) {
        create_choice(ledger, &name, choice, &old, failure);
    }
    let place = ledger.place(choice).expect("the choice was there, or has just been made");
    advance::resolve_parents(ledger, place);
}

/// A choice that was listed without an atom gets one when it is selected: same parent, dependencies and group (D4).
fn create_choice(ledger: &mut Ledger, group: &GroupName, choice: &AtomId, old: &AtomId, failure: &str) {
    let model = ledger.state().atoms.get(old);
    let what = model.map_or_else(String::new, |model| format!(" ({})", model.description));
    let mut atom = Atom::new(choice.clone(), format!("Alternative to {old}{what}: {failure}"));
    atom.depends_on = model.map(|model| model.depends_on.clone()).unwrap_or_default();
    atom.or_group = Some(group.clone());
    let listed_under = ledger.state().decompositions.iter().find(|d| d.children.contains(old));
    let parent = listed_under.map(|decomposition| decomposition.parent.clone());
    ledger.enter(Change::AtomAdded { atom: Box::new(atom) });
    if let Some(parent) = parent {
        ledger.enter(Change::ChildAdded { parent, child: choice.clone() });
    }
}

fn forgive(ledger: &mut Ledger, group: &GroupName, choice: &AtomId) {
    let below = match ledger.state().atoms.get_index_of(choice) {
        Some(place) => ledger.graph().subtree(place),
        None => Vec::new(),
    };
    let mut pardons = vec![(group.clone(), choice.clone())];
    for place in below {
        if let Some(inner) = ledger.graph().group_of(place) {
            pardons.push((ledger.group_at(inner).0.clone(), ledger.id(place)));
        }
    }
    for (group, choice) in pardons {
        if ledger.state().or_groups[&group].failed.contains(&choice) {
            ledger.enter(Change::ChoiceForgiven { group, choice });
        }
    }
}
