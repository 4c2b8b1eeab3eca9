//! Says to everything that a run has under way that the run is to end or to stand still, until it goes on. Knows nothing
//! of why.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Switch;

/// What has begun may take so long after a run was interrupted: long enough for a git that works, and no more.
const PATIENCE: Duration = Duration::from_secs(1);

/// The same, after one of them has used up its time.
const LEAST_PATIENCE: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Mutex<InterruptState>>);

#[derive(Debug, Default)]
struct InterruptState {
    since: Option<Instant>,
    /// Something had to be killed since.
    hangs: bool,
    /// Turned off by the next interrupt.
    switch: Switch,
}

impl Interrupt {
    pub fn ask(&self) {
        let mut state = self.state();
        if state.since.is_none() {
            state.since = Some(Instant::now());
            state.switch.turn_off();
        }
    }

    /// The run goes on.
    pub fn clear(&self) {
        let mut state = self.state();
        if state.since.is_some() {
            *state = InterruptState::default();
        }
    }

    pub fn is_asked(&self) -> bool {
        self.state().since.is_some()
    }

    /// Ends jobs at once when the run is interrupted.
    pub fn switch(&self) -> Switch {
        self.state().switch.clone()
    }

    /// Until when something that began at this moment may take; `None` while the run is not interrupted.
    pub(super) fn ends(&self, began: Instant) -> Option<Instant> {
        let state = self.state();
        let patience = if state.hangs { LEAST_PATIENCE } else { PATIENCE };
        state.since.map(|since| since.max(began) + patience)
    }

    pub(super) fn found_one_that_hangs(&self) {
        let mut state = self.state();
        state.hangs = state.since.is_some();
    }

    /// A thread that panicked in between has left nothing half done.
    fn state(&self) -> MutexGuard<'_, InterruptState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
