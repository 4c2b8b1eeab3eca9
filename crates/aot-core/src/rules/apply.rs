//! Performs a change on a state: the only place where a `State` is altered. Decides nothing, and refuses only what
//! does not fit the state it meets, which happens when somebody else edited the file meanwhile.

use jiff::Timestamp;

use super::Change;
use crate::state::{
    Atom, AtomId, AtomStatus, Correction, Decomposition, GroupName, LoopStatus, OpenIteration, OrGroup,
    Stamp, State, TrailEntry,
};

/// Why a change cannot be made on this state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    #[error("atom `{0}` is not in the graph")]
    NoAtom(AtomId),
    #[error("atom `{0}` is in the graph already")]
    AtomExists(AtomId),
    #[error("OR group `{0}` does not exist")]
    NoGroup(GroupName),
    #[error("OR group `{0}` exists already")]
    GroupExists(GroupName),
    #[error("`{choice}` is not a choice of OR group `{group}`")]
    NoChoice { group: GroupName, choice: AtomId },
    #[error("atom `{0}` has no decomposition")]
    NotDecomposed(AtomId),
    #[error("atom `{0}` is decomposed already")]
    Decomposed(AtomId),
}

pub fn apply(state: &mut State, change: &Change, now: Timestamp) -> Result<(), ApplyError> {
    match change {
        Change::LoopNamed { id } => state.control.loop_id = Some(id.clone()),
        Change::LoopStarted => {
            let control = &mut state.control;
            control.status = LoopStatus::Running;
            control.stall_count = 0;
            control.prev_pending_count = -1;
            control.verdict = None;
            control.open = None;
            // Flags stay: another process may have set them since the loop was read.
            if !control.stop_requested {
                control.stop_reason = None;
            }
        }
        Change::StopWithdrawn => {
            let control = &mut state.control;
            control.stop_requested = false;
            control.stop_now = false;
            control.stop_reason = None;
        }
        Change::StatusRestored => state.control.status = LoopStatus::Running,
        Change::SessionTaken { session } => state.control.session = session.clone(),
        Change::BranchChosen { branch } => state.control.branch = Some(branch.clone()),
        Change::StopRequested { reason, now } => {
            state.control.stop_requested = true;
            state.control.stop_now |= now;
            if reason.is_some() {
                state.control.stop_reason = reason.clone();
            }
        }
        Change::RedirectRequested => state.control.redirect_requested = true,
        Change::RedirectEnded => state.control.redirect_requested = false,
        Change::Stopped { reason, verdict } => {
            state.control.status = LoopStatus::Stopped;
            state.control.stop_reason = Some(reason.clone());
            state.control.verdict = verdict.clone();
            state.control.open = None;
            // A person who takes the loop up again wants it to be tried at once.
            state.control.parked_until = None;
            state.control.parked_reason = None;
        }
        Change::Completed => {
            state.control.status = LoopStatus::Completed;
            state.control.stop_reason = None;
            state.control.verdict = None;
            state.control.open = None;
            state.control.wanted.clear();
        }
        Change::WorkWanted { atoms } => state.control.wanted = atoms.clone(),
        // The refused plan changes nothing; whoever follows the loop is told.
        Change::PlanRefused { .. } => {}
        Change::Parked { until, reason } => {
            state.control.parked_until = Some(until.clone());
            state.control.parked_reason = reason.clone();
        }
        Change::Unparked => {
            state.control.parked_until = None;
            state.control.parked_reason = None;
        }
        Change::SpentSoFar { spent, .. } => state.control.spent = Some(spent.clone()),

        Change::IterationOpened => {
            state.control.iteration += 1;
            state.control.open = Some(OpenIteration::default());
        }
        Change::ResultCounted => {
            if let Some(open) = &mut state.control.open {
                open.results += 1;
            }
        }
        Change::IterationClosed { unresolved, stall_count } => {
            state.control.prev_pending_count = i64::from(*unresolved);
            state.control.stall_count = *stall_count;
            state.control.open = None;
        }
        Change::IterationTakenBack => {
            state.control.iteration = state.control.iteration.saturating_sub(1);
            state.control.open = None;
        }
        Change::StallCleared => state.control.stall_count = 0,
        Change::CountMoved { by } => {
            let mark = &mut state.control.prev_pending_count;
            if *mark >= 0 {
                *mark = mark.saturating_add(*by).max(0);
            }
        }

        Change::AtomAdded { atom: added } => {
            if state.atoms.contains_key(&added.id) {
                return Err(ApplyError::AtomExists(added.id.clone()));
            }
            state.add((**added).clone());
        }
        Change::AtomRemoved { atom: id } => {
            state.atoms.shift_remove(id).ok_or_else(|| ApplyError::NoAtom(id.clone()))?;
            state.bindings.shift_remove(id);
            state.control.attempts.shift_remove(id);
        }
        Change::AtomStarted { atom: id, attempt } => {
            atom(state, id)?.status = AtomStatus::InProgress;
            if let Some(attempt) = attempt {
                state.control.attempts.insert(id.clone(), *attempt);
            }
            if let Some(open) = &mut state.control.open {
                open.started.push(id.clone());
            }
        }
        Change::AtomResolved { atom: id, binding } => {
            atom(state, id)?.status = AtomStatus::Resolved;
            state.control.attempts.shift_remove(id);
            state.bindings.insert(id.clone(), binding.clone());
        }
        Change::AtomReset { atom: id } => {
            atom(state, id)?.status = AtomStatus::Pending;
            state.control.attempts.shift_remove(id);
            state.bindings.shift_remove(id);
        }
        Change::ResultNotBelieved { atom: id, status } => {
            atom(state, id)?.status = *status;
            state.bindings.shift_remove(id);
        }
        Change::AtomReturned { atom: id, reason: _ } => {
            atom(state, id)?.status = AtomStatus::Pending;
            state.control.attempts.shift_remove(id);
        }
        Change::AtomNotStarted { atom: id, reason: _ } => {
            atom(state, id)?.status = AtomStatus::Pending;
            state.control.attempts.shift_remove(id);
            if let Some(open) = &mut state.control.open {
                open.started.retain(|started| started != id);
            }
        }
        Change::DependenciesSet { atom: id, depends_on } => atom(state, id)?.depends_on = depends_on.clone(),
        Change::BindingSet { atom: id, binding } => {
            atom(state, id)?;
            state.bindings.insert(id.clone(), binding.clone());
        }
        Change::FailureNoted { atom, reason } => state.trail.push(TrailEntry::Failure {
            atom: atom.clone(),
            reason: reason.clone(),
            timestamp: Stamp::from(now),
        }),
        Change::ReplanNoted { atom, reason } => state.trail.push(TrailEntry::Replan {
            atom: atom.clone(),
            reason: reason.clone(),
            timestamp: Stamp::from(now),
        }),

        Change::Decomposed { parent, children, reason } => {
            atom(state, parent)?;
            if state.decomposition_of(parent).is_some() {
                return Err(ApplyError::Decomposed(parent.clone()));
            }
            state.decompositions.push(Decomposition {
                parent: parent.clone(),
                children: children.clone(),
                reason: reason.clone(),
            });
        }
        Change::ChildAdded { parent, child } => decomposition(state, parent)?.children.push(child.clone()),
        Change::ChildRemoved { parent, child } => {
            decomposition(state, parent)?.children.retain(|kept| kept != child);
        }
        Change::DecompositionWithdrawn { parent } => {
            decomposition(state, parent)?;
            state.decompositions.retain(|kept| kept.parent != *parent);
        }

        Change::GroupAdded { group: name, entry } => {
            if state.or_groups.contains_key(name) {
                return Err(ApplyError::GroupExists(name.clone()));
            }
            state.or_groups.insert(name.clone(), entry.clone());
            for choice in &entry.choices {
                if let Some(atom) = state.atom_mut(choice) {
                    atom.or_group = Some(name.clone());
                }
            }
        }
        Change::GroupRemoved { group: name } => {
            let entry =
                state.or_groups.shift_remove(name).ok_or_else(|| ApplyError::NoGroup(name.clone()))?;
            for choice in &entry.choices {
                if let Some(atom) = state.atom_mut(choice) {
                    atom.or_group = None;
                }
            }
        }
        Change::ChoiceAdded { group: name, choice } => {
            let entry = group(state, name)?;
            if !entry.choices.contains(choice) {
                entry.choices.push(choice.clone());
            }
            if let Some(atom) = state.atom_mut(choice) {
                atom.or_group = Some(name.clone());
            }
        }
        Change::ChoiceRemoved { group: name, choice } => {
            let entry = group(state, name)?;
            entry.choices.retain(|kept| kept != choice);
            entry.failed.retain(|kept| kept != choice);
            if let Some(atom) = state.atom_mut(choice) {
                atom.or_group = None;
            }
        }
        Change::SpeculationSet { group: name, speculative } => {
            group(state, name)?.speculative = speculative.then_some(true);
        }
        Change::ChoicesOrdered { group: name, choices } => group(state, name)?.choices = choices.clone(),
        Change::ChoiceFailed { group: name, choice } => {
            let entry = group_with(state, name, choice)?;
            if !entry.failed.contains(choice) {
                entry.failed.push(choice.clone());
            }
        }
        Change::ChoiceForgiven { group: name, choice } => {
            group_with(state, name, choice)?.failed.retain(|kept| kept != choice);
        }
        Change::ChoiceSelected { group: name, choice, reason, cause } => {
            group_with(state, name, choice)?;
            state.trail.push(TrailEntry::Selection {
                or_group: name.clone(),
                selected: choice.clone(),
                reason: reason.clone(),
                cause: cause.clone(),
                timestamp: Stamp::from(now),
            });
            group(state, name)?.selected = choice.clone();
            if let Some(open) = &mut state.control.open {
                open.moved = true;
            }
        }

        Change::GoalSet { goal } => state.objective.goal = goal.clone(),
        Change::BaseCaseSet { base_case } => {
            if state.objective.base_case.as_ref() != Some(base_case) {
                // What was confirmed may mean something else now.
                state.control.confirmed.clear();
            }
            state.objective.base_case = Some(base_case.clone());
        }
        Change::BackgroundIntentSet { background_intent } => {
            state.objective.background_intent = background_intent.clone();
        }
        Change::DeliverablesSet { deliverables } => state.objective.deliverables = deliverables.clone(),
        Change::DefinitionOfDoneSet { definition_of_done } => {
            state.objective.definition_of_done = definition_of_done.clone();
        }
        Change::ProtectedSet { protected } => state.objective.protected = protected.clone(),
        Change::IsolationSet { isolation } => state.objective.isolation = isolation.clone(),
        Change::ConstraintsSet { constraints } => state.objective.constraints = constraints.clone(),
        Change::TrailCleared => state.trail.clear(),
        Change::TrailPruned { groups } => state.trail.retain(|entry| match entry {
            TrailEntry::Selection { or_group, .. } => !groups.contains(or_group),
            TrailEntry::Failure { .. } | TrailEntry::Replan { .. } | TrailEntry::UserCorrection { .. } => {
                true
            }
        }),
        Change::UserCorrected { description } => state.trail.push(TrailEntry::UserCorrection {
            description: description.clone(),
            timestamp: Stamp::from(now),
        }),
        Change::CorrectionNoted { kind, description, trail_cleared } => state.corrections.push(Correction {
            timestamp: Stamp::from(now),
            kind: *kind,
            description: description.clone(),
            trail_cleared: *trail_cleared,
        }),

        Change::Verified { fruitless, fewest_red } => {
            state.control.fruitless = Some(*fruitless);
            state.control.fewest_red = *fewest_red;
        }
        Change::FingerprintTaken { fingerprint } => state.control.fingerprint = Some(fingerprint.clone()),
        Change::ItemConfirmed { confirmation } => {
            state.control.confirmed.retain(|kept| kept.item != confirmation.item);
            state.control.confirmed.push(confirmation.clone());
        }
        Change::ConfirmationWithdrawn { item } => state.control.confirmed.retain(|kept| kept.item != *item),
    }
    Ok(())
}

fn atom<'s>(state: &'s mut State, id: &AtomId) -> Result<&'s mut Atom, ApplyError> {
    state.atom_mut(id).ok_or_else(|| ApplyError::NoAtom(id.clone()))
}

fn decomposition<'s>(state: &'s mut State, parent: &AtomId) -> Result<&'s mut Decomposition, ApplyError> {
    let found = state.decompositions.iter_mut().find(|decomposition| decomposition.parent == *parent);
    found.ok_or_else(|| ApplyError::NotDecomposed(parent.clone()))
}

fn group<'s>(state: &'s mut State, name: &GroupName) -> Result<&'s mut OrGroup, ApplyError> {
    state.or_groups.get_mut(name).ok_or_else(|| ApplyError::NoGroup(name.clone()))
}

fn group_with<'s>(
    state: &'s mut State,
    name: &GroupName,
    choice: &AtomId,
) -> Result<&'s mut OrGroup, ApplyError> {
    let entry = group(state, name)?;
    if entry.choices.contains(choice) {
        return Ok(entry);
    }
    Err(ApplyError::NoChoice { group: name.clone(), choice: choice.clone() })
}
