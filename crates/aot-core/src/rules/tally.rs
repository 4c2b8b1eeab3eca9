//! How often atoms have failed, counted once and kept in step with the trail. The trail is the truth: [`Tally::new`]
//! is the definition, and a tally that followed the changes must equal it.

use std::collections::{BTreeSet, HashMap};

use super::Change;
use crate::state::{AtomId, AtomStatus, State, TrailEntry};

/// From so many failures on, an atom's plan is to change (D11).
pub const FAILURES_FOR_A_REPLAN: usize = 3;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    failures: HashMap<AtomId, Failures>,
    /// Unresolved atoms that have failed since their plan last changed: what is resolved again may be most of `failures`.
    open: BTreeSet<AtomId>,
}

/// The failures of an atom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Failures {
    /// Since its plan last changed.
    count: usize,
    /// Where the trail has the last one.
    last: usize,
}

impl Tally {
    pub fn new(state: &State) -> Tally {
        let mut tally = Tally::default();
        for (place, entry) in state.trail.iter().enumerate() {
            match entry {
                TrailEntry::Failure { atom, .. } => tally.note_failure(atom, place),
                TrailEntry::Replan { atom, .. } => tally.note_replan(atom),
                TrailEntry::Selection { .. } | TrailEntry::UserCorrection { .. } => {}
            }
        }
        let failed: Vec<AtomId> = tally.failures.keys().cloned().collect();
        failed.iter().for_each(|atom| tally.judge(state, atom));
        tally
    }

    /// Failures of an atom since its plan last changed.
    pub fn failures(&self, atom: &AtomId) -> usize {
        self.failures.get(atom).map_or(0, |failures| failures.count)
    }

    /// Where the trail has the last failure of an atom, whatever became of its plan since.
    pub fn last_failure(&self, atom: &AtomId) -> Option<usize> {
        self.failures.get(atom).map(|failures| failures.last)
    }

    /// Whether the plan of an unresolved atom is to change.
    pub fn is_replan_due(&self, atom: &AtomId) -> bool {
        self.failures(atom) >= FAILURES_FOR_A_REPLAN && self.open.contains(atom)
    }

    /// Unresolved atoms with any failure since their plan last changed.
    pub fn failed(&self) -> impl Iterator<Item = &AtomId> {
        self.open.iter()
    }

    pub(super) fn follow(&mut self, state: &State, change: &Change) {
        if let Change::FailureNoted { atom, .. } = change {
            self.note_failure(atom, state.trail.len() - 1);
            self.judge(state, atom);
        } else if let Change::ReplanNoted { atom, .. } = change {
            self.note_replan(atom);
            self.judge(state, atom);
        } else if let Change::AtomResolved { atom, .. }
        | Change::AtomReset { atom }
        | Change::ResultNotBelieved { atom, .. }
        | Change::AtomRemoved { atom } = change
        {
            self.judge(state, atom);
        } else if let Change::AtomAdded { atom } = change {
            self.judge(state, &atom.id);
        } else if let Change::TrailCleared | Change::TrailPruned { .. } = change {
            *self = Tally::new(state);
        }
    }

    fn note_failure(&mut self, atom: &AtomId, place: usize) {
        let failures = self.failures.entry(atom.clone()).or_default();
        *failures = Failures { count: failures.count + 1, last: place };
    }

    fn note_replan(&mut self, atom: &AtomId) {
        if let Some(failures) = self.failures.get_mut(atom) {
            failures.count = 0;
        }
    }

    fn judge(&mut self, state: &State, atom: &AtomId) {
        if self.failures.is_empty() {
            return;
        }
        let is_open = state.atoms.get(atom).is_some_and(|atom| atom.status != AtomStatus::Resolved);
        if is_open && self.failures(atom) > 0 {
            self.open.insert(atom.clone());
        } else {
            self.open.remove(atom);
        }
    }
}
