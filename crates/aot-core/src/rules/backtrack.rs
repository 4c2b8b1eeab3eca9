//! Failure, and the way to another branch: what fails a choice, which comes next, what is undone (D2, D4, D10, D31).

use super::{Change, Ledger, Refusal, advance};
use crate::state::{
    Atom, AtomId, AtomStatus, Closes, Cycle, GroupName, SelectionCause, State, StopKind, Target, TrailEntry,
    headline, is_same_failure,
};

/// An atom below a choice fails that choice at this many failures of its own.
pub const FAILURES_BELOW_A_CHOICE: usize = 2;

/// What a failure came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureOutcome {
    /// Pending again, to be tried once more.
    Retry,
    /// A group went to its next choice.
    Switched { group: GroupName, to: AtomId },
    /// No choice is left, and nothing encloses the group.
    Exhausted { group: GroupName },
}

/// A worker's own failure or a red check, told by hand or by a host: an exhausted group stops the loop, at once if
/// nothing is in progress that has to finish first.
pub fn fail(ledger: &mut Ledger, id: &AtomId, reason: &str) -> Result<FailureOutcome, Refusal> {
    let outcome = failed(ledger, id, reason)?;
    if let FailureOutcome::Exhausted { group } = &outcome
        && ledger.frontier().in_progress().len() == 0
    {
        let verdict = Some(StopKind::Exhausted { group: group.clone() });
        ledger.record(Change::Stopped { reason: exhausted(group), verdict });
    }
    Ok(outcome)
}

/// The same within the loop, which judges by itself when to stop.
pub fn failed(ledger: &mut Ledger, id: &AtomId, reason: &str) -> Result<FailureOutcome, Refusal> {
    let index = ledger.index(id)?;
    // A parent is in progress only while its own check runs; that can be red.
    if ledger.graph().is_decomposed(index) && ledger.atom(index).status != AtomStatus::InProgress {
        return Err(Refusal::IsDecomposed(id.clone()));
    }
    ledger.wants_status(index, AtomStatus::InProgress)?;
    ledger.record(Change::AtomReset { atom: id.clone() });
    let enclosing = ledger.graph().enclosing_choice(index);
    if let Some((choice, group)) = enclosing.filter(|(choice, _)| *choice == index) {
        return Ok(fail_choice(ledger, choice, group, reason));
    }
    ledger.record(Change::FailureNoted { atom: id.clone(), reason: reason.to_owned() });
    match enclosing {
        Some((choice, group)) if ledger.tally().failures(id) >= FAILURES_BELOW_A_CHOICE => {
            Ok(fail_choice(ledger, choice, group, reason))
        }
        Some(_) | None => Ok(FailureOutcome::Retry),
    }
}

/// Burns a choice: the group goes to its next one in the written order; an exhausted group fails the choice that
/// encloses it; with none, the loop has to stop.
pub fn fail_choice(ledger: &mut Ledger, choice: usize, group: usize, reason: &str) -> FailureOutcome {
    let (mut choice, mut group) = (choice, group);
    loop {
        let id = ledger.id(choice);
        let name = ledger.group_at(group).0.clone();
        ledger.record(Change::ChoiceFailed { group: name.clone(), choice: id.clone() });
        if ledger.group_at(group).1.selected != id {
            // A rival of a race that fails leaves the others running.
            ledger.reset_all([choice]);
            if live_rival(ledger, group) {
                ledger.record(Change::FailureNoted { atom: id, reason: reason.to_owned() });
                return FailureOutcome::Retry;
            }
        }
        if let Some(next) = next_choice(ledger, group) {
            let cause = SelectionCause::Failed { atom: id, reason: Some(headline(reason).to_owned()) };
            select(ledger, group, &next, cause, reason);
            return FailureOutcome::Switched { group: name, to: next };
        }
        let under = ledger.graph().subtree(choice);
        ledger.reset_all(under);
        ledger.record(Change::FailureNoted { atom: id, reason: reason.to_owned() });
        match ledger.graph().choice_around(group) {
            Some((above, around)) => (choice, group) = (above, around),
            None => return FailureOutcome::Exhausted { group: name },
        }
    }
}

/// The stop reason of a group without a choice left.
pub fn exhausted(group: &GroupName) -> String {
    format!("OR group exhausted: {group}")
}

/// What the ladder's third step is without a coordinator agent: the latest choice in the trail that the atom rests on
/// goes to its next branch, and what rested on the old one is reset (D11). Groups that were never moved come last.
pub fn abandon_earlier_choice(ledger: &mut Ledger, id: &AtomId) -> Option<FailureOutcome> {
    let group = earlier_choice(ledger, id)?;
    let reason = format!("{id} rests on it and keeps failing");
    let outcome = abandon(ledger, group, &reason)?;
    ledger.record(Change::ReplanNoted { atom: id.clone(), reason: "an earlier choice was given up".into() });
    Some(outcome)
}

/// The group that [`abandon_earlier_choice`] would move.
pub fn earlier_choice(ledger: &Ledger, id: &AtomId) -> Option<usize> {
    let index = ledger.index(id).ok()?;
    if ledger.state().or_groups.is_empty() {
        return None;
    }
    let rests_on = ledger.graph().groups_under(ledger.state(), index);
    let trail = ledger.state().trail.iter().rev().filter_map(|entry| match entry {
        TrailEntry::Selection { or_group, .. } => ledger.state().or_groups.get_index_of(or_group),
        TrailEntry::Failure { .. } | TrailEntry::Replan { .. } | TrailEntry::UserCorrection { .. } => None,
    });
    trail
        .chain(rests_on.iter().rev().copied())
        .find(|group| rests_on.contains(group) && next_choice(ledger, *group).is_some())
}

/// Gives the selected choice of a group up for its next one, if there is one.
pub fn abandon(ledger: &mut Ledger, group: usize, reason: &str) -> Option<FailureOutcome> {
    let next = next_choice(ledger, group)?;
    let (name, entry) = ledger.group_at(group);
    let (name, choice) = (name.clone(), entry.selected.clone());
    ledger.record(Change::ChoiceFailed { group: name.clone(), choice: choice.clone() });
    select(
        ledger,
        group,
        &next,
        SelectionCause::Abandoned { atom: choice, reason: reason.to_owned() },
        reason,
    );
    Some(FailureOutcome::Switched { group: name, to: next })
}

/// Brings in order what a hand or an older program left behind: a selected choice that has failed hands over to the
/// next, one without an atom gets it (D4), and a parent that waits for nothing any more resolves (D3).
pub fn repair(ledger: &mut Ledger) {
    for group in 0..ledger.state().or_groups.len() {
        let (name, entry) = ledger.group_at(group);
        let (name, selected) = (name.clone(), entry.selected.clone());
        if entry.failed.contains(&selected)
            && !ledger.graph().is_resolved(ledger.state(), Target::Group(group))
        {
            if let Some(next) = next_choice(ledger, group) {
                let cause = SelectionCause::Failed { atom: selected, reason: None };
                select(ledger, group, &next, cause, "it failed");
            }
        } else if !ledger.state().atoms.contains_key(&selected) {
            let model = entry.choices.iter().find(|choice| ledger.state().atoms.contains_key(*choice));
            if let Some(model) = model.cloned() {
                create_choice(ledger, &name, &selected, &model, "it was chosen instead");
            }
        }
    }
    for parent in 0..ledger.state().atoms.len() {
        let live = !ledger.graph().is_dormant(ledger.state(), parent)
            && !ledger.graph().under_failed_choice(ledger.state(), parent);
        if live && ledger.atom(parent).check.is_none() && advance::children_resolved(ledger, parent) {
            advance::resolve_parent(ledger, parent);
            advance::resolve_parents(ledger, parent);
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
    let selection = Selection { choice, reason: reason.to_owned(), cause: SelectionCause::ByHand };
    make_selection(ledger, group, selection, "it was given up by hand");
    // A choice that a person forces is tried anew: earlier failures below it do not count (D31).
    let index = ledger.index(choice)?;
    for below in ledger.graph().subtree(index) {
        let atom = ledger.id(below);
        if ledger.tally().failures(&atom) > 0 {
            ledger.record(Change::ReplanNoted { atom, reason: format!("{choice} was chosen by hand") });
        }
    }
    ledger.check_shape()?;
    // By hand nobody is sent into a deadlock; only backtracking may end in one, and says so (D13).
    let cycles = ledger.graph().cycles(ledger.state());
    let here = |cycle: &Cycle| cycle.names.iter().any(|there| there == name.as_str());
    let cycle = cycles.into_iter().find(|cycle| cycle.closes == Closes::SinceBacktrack && here(cycle));
    cycle.map_or(Ok(()), |cycle| Err(Refusal::Cycle(cycle.names)))
}

/// How often an atom has failed since its plan last changed (decision D11).
pub fn failures(state: &State, atom: &AtomId) -> usize {
    let since = state.trail.iter().rev().take_while(
        |entry| !matches!(entry, TrailEntry::Replan { atom: replanned, .. } if replanned == atom),
    );
    since.filter(|entry| matches!(entry, TrailEntry::Failure { atom: failed, .. } if failed == atom)).count()
}

/// Whether an atom's last failure told the same as this one. Whether its plan has changed between them is asked where it
/// counts, in `plan::fails_the_same` (D34).
pub fn is_same_as_before(ledger: &Ledger, id: &AtomId, reason: &str) -> bool {
    let last = ledger.tally().last_failure(id).map(|place| &ledger.state().trail[place]);
    let last = last.and_then(|entry| match entry {
        TrailEntry::Failure { reason, .. } => Some(reason),
        TrailEntry::Replan { .. } | TrailEntry::Selection { .. } | TrailEntry::UserCorrection { .. } => None,
    });
    last.is_some_and(|before| is_same_failure(before, reason))
}

/// Atoms that are resolved on an agent's word although no file was changed for them, and that nothing rests on but parents
/// without a check: if the base case is red without anything left to do, these are done again, once (D33).
pub fn doubtful_claims(ledger: &Ledger) -> Vec<usize> {
    let (state, graph) = (ledger.state(), ledger.graph());
    let is_unchecked_parent = |above: usize| graph.is_decomposed(above) && ledger.atom(above).check.is_none();
    let is_doubtful = |index: &usize| {
        let atom = ledger.atom(*index);
        atom.status == AtomStatus::Resolved
            && state.bindings.get(&atom.id).is_some_and(|binding| binding.unchanged)
            && !atom.is_proven_when_resolved()
            && !graph.is_decomposed(*index)
            && !graph.is_dormant(state, *index)
            && ledger.tally().failures(&atom.id) == 0
            && graph.resting_on(state, &[*index]).iter().all(|above| is_unchecked_parent(*above))
    };
    (0..state.atoms.len()).filter(is_doubtful).collect()
}

/// Opens these again, and the parents that they belong to.
pub fn redo(ledger: &mut Ledger, claims: &[usize]) {
    for claim in claims {
        let parents = ledger.graph().resting_on(ledger.state(), &[*claim]);
        ledger.reset_all(parents.into_iter().chain([*claim]));
        let atom = ledger.id(*claim);
        let reason = "it changed nothing, and the checks are red with nothing left to do".to_owned();
        ledger.record(Change::FailureNoted { atom, reason });
    }
}

fn live_rival(ledger: &Ledger, group: usize) -> bool {
    let graph = ledger.graph();
    graph.choices(group).iter().any(|rival| {
        !graph.is_dormant(ledger.state(), *rival) && !graph.under_failed_choice(ledger.state(), *rival)
    })
}

pub(super) fn next_choice(ledger: &Ledger, group: usize) -> Option<AtomId> {
    ledger.group_at(group).1.next_choice().cloned()
}

/// A choice to select: the sentence for the trail, and the fact behind it.
pub(super) struct Selection<'c> {
    pub choice: &'c AtomId,
    pub reason: String,
    pub cause: SelectionCause,
}

/// Goes to another choice because the one before failed or was given up.
fn select(ledger: &mut Ledger, group: usize, choice: &AtomId, cause: SelectionCause, failure: &str) {
    let failed = cause.failure().map(|failed| failed.to_string()).unwrap_or_default();
    let reason = format!("Auto-backtrack: {failed}");
    make_selection(ledger, group, Selection { choice, reason, cause }, failure);
}

/// Selects a choice; what was done or runs under the old one is undone. A choice without an atom gets one, whose
/// description names the failure.
pub(super) fn make_selection(ledger: &mut Ledger, group: usize, selection: Selection<'_>, failure: &str) {
    let Selection { choice, reason, cause } = selection;
    let (name, entry) = ledger.group_at(group);
    let (name, old) = (name.clone(), entry.selected.clone());
    // Only what was resolved can have something resting on it; the walk over the whole graph is saved otherwise.
    let was_resolved = ledger.graph().is_resolved(ledger.state(), Target::Group(group));
    ledger.record(Change::ChoiceSelected {
        group: name.clone(),
        choice: choice.clone(),
        reason,
        cause: Some(cause),
    });
    if let Some(old) = ledger.state().atoms.get_index_of(&old).filter(|_| old != *choice) {
        let under = ledger.graph().subtree(old);
        let resting =
            if was_resolved { ledger.graph().resting_on(ledger.state(), &under) } else { Vec::new() };
        ledger.reset_all(under.into_iter().chain(resting));
    }
    if !ledger.state().atoms.contains_key(choice) {
        create_choice(ledger, &name, choice, &old, failure);
    }
    let index = ledger.index(choice).expect("the choice was there, or has just been made");
    advance::resolve_parents(ledger, index);
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
    ledger.record(Change::AtomAdded { atom: Box::new(atom) });
    if let Some(parent) = parent {
        ledger.record(Change::ChildAdded { parent, child: choice.clone() });
    }
}

fn forgive(ledger: &mut Ledger, group: &GroupName, choice: &AtomId) {
    let below = match ledger.state().atoms.get_index_of(choice) {
        Some(index) => ledger.graph().subtree(index),
        None => Vec::new(),
    };
    let mut pardons = vec![(group.clone(), choice.clone())];
    for index in below {
        if let Some(inner) = ledger.graph().group_of(index) {
            pardons.push((ledger.group_at(inner).0.clone(), ledger.id(index)));
        }
    }
    for (group, choice) in pardons {
        if ledger.state().or_groups[&group].failed.contains(&choice) {
            ledger.record(Change::ChoiceForgiven { group, choice });
        }
    }
}
