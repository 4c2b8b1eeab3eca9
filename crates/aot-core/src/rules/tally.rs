//! How often atoms have failed, counted once and kept in step with the trail. The trail is the truth: [`Tally::new`]
//! is the definition, and a tally that followed the changes must equal it.

use std::collections::{BTreeSet, HashMap};

use super::Change;
use crate::state::{AtomId, AtomStatus, State, TrailEntry};

/// From so many failures on, an atom's plan is to change (D11).
pub const FAILURES_FOR_A_REPLAN: usize = 3;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    failures: HashMap<AtomId, usize>,
    needs_replan: BTreeSet<AtomId>,
}

impl Tally {
    pub fn new(state: &State) -> Tally {
        let mut tally = Tally::default();
        for entry in &state.trail {
            match entry {
                TrailEntry::Failure { atom, .. } => *tally.failures.entry(atom.clone()).or_default() += 1,
                TrailEntry::Replan { atom, .. } => {
                    tally.failures.remove(atom);
                }
                TrailEntry::Selection { .. } | TrailEntry::UserCorrection { .. } => {}
            }
        }
        let needs_replan: Vec<AtomId> = tally.failures.keys().cloned().collect();
        needs_replan.iter().for_each(|atom| tally.judge(state, atom));
        tally
    }

    /// Failures of an atom since its plan last changed.
    pub fn failures(&self, atom: &AtomId) -> usize {
        self.failures.get(atom).copied().unwrap_or(0)
    }

    /// Whether the plan of an unresolved atom is to change.
    pub fn is_replan_due(&self, atom: &AtomId) -> bool {
        self.needs_replan.contains(atom)
    }

    /// Atoms with any failure since their plan last changed.
    pub fn failed(&self) -> impl Iterator<Item = &AtomId> {
        self.failures.keys()
    }

    pub(super) fn follow(&mut self, state: &State, change: &Change) {
        if let Change::FailureNoted { atom, .. } = change {
            *self.failures.entry(atom.clone()).or_default() += 1;
            self.judge(state, atom);
        } else if let Change::ReplanNoted { atom, .. } = change {
            self.failures.remove(atom);
            self.needs_replan.remove(atom);
        } else if let Change::AtomResolved { atom, .. }
        | Change::AtomReset { atom }
        | Change::AtomRemoved { atom } = change
        {
            self.judge(state, atom);
        } else if let Change::AtomAdded { atom } = change {
            self.judge(state, &atom.id);
        } else if let Change::TrailCleared | Change::TrailPruned { .. } = change {
            *self = Tally::new(state);
        }
    }

    fn judge(&mut self, state: &State, atom: &AtomId) {
        let open = state.atoms.get(atom).is_some_and(|atom| atom.status != AtomStatus::Resolved);
        if open && self.failures(atom) >= FAILURES_FOR_A_REPLAN {
            self.needs_replan.insert(atom.clone());
        } else {
            self.needs_replan.remove(atom);
        }
    }
}
