//! Learns how long attempts take while a driver is at work, so that the order of starts and later runs profit from it.

use std::sync::Arc;
use std::time::Instant;

use aot_core::coordinator::{Evaluation, Event};
use aot_core::rules::Change;
use jiff::Timestamp;

use super::Engine;
use crate::durations::Learnt;

#[derive(Debug)]
pub(crate) struct Learning {
    learnt: Learnt,
    /// The agent of atoms that name none.
    worker: Option<String>,
    /// With so many known attempts the order is made anew. The number doubles, because that looks at every atom.
    anew_at: usize,
    /// So many were known when the run began.
    known_before: usize,
    /// When the evaluation under way began.
    evaluating: Option<Instant>,
}

impl Learning {
    pub fn on(learnt: Learnt, worker: Option<String>) -> Learning {
        let known_before = learnt.len();
        Learning { learnt, worker, anew_at: known_before + 1, known_before, evaluating: None }
    }
}

impl Engine<'_> {
    /// From now on the order of starts follows what is learnt.
    pub(crate) fn learn_with(&mut self, learning: Learning) {
        let durations = learning.learnt.durations(learning.worker.as_deref());
        self.coordinator.expect(Arc::new(durations));
        self.learning = Some(learning);
    }

    /// What was recorded.
    pub(super) fn learn(&mut self, changes: &[Change], now: Timestamp) {
        let Some(learning) = &mut self.learning else { return };
        learning.learnt.follow(self.coordinator.state(), self.coordinator.graph(), changes, now);
        let known = learning.learnt.len();
        if known < learning.anew_at {
            return;
        }
        learning.anew_at = known + (known - learning.known_before).max(1);
        let durations = learning.learnt.durations(learning.worker.as_deref());
        self.coordinator.expect(Arc::new(durations));
        self.keep_learnt();
    }

    pub(super) fn evaluation_begins(&mut self) {
        if let Some(learning) = &mut self.learning {
            learning.evaluating = Some(Instant::now());
        }
    }

    pub(super) fn learn_from_event(&mut self, event: &Event) {
        let Some(learning) = &mut self.learning else { return };
        if let Event::Verified { evaluation, .. } = event
            && let Some(began) = learning.evaluating.take()
            && let Evaluation::Passed | Evaluation::Failed { .. } = evaluation
        {
            learning.learnt.evaluated(self.coordinator.state(), began.elapsed().as_secs_f64());
        }
    }

    /// Keeps what is learnt for later runs, and for whoever looks meanwhile.
    pub(crate) fn keep_learnt(&mut self) {
        if let Some(learning) = &mut self.learning {
            learning.learnt.keep(self.store.file().home());
        }
    }
}
