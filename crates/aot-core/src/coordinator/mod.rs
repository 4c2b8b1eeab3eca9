//! The loop as a function: an [`Event`] in, [`Effect`]s out. Holds the state and what is in flight, and contains no
//! rule: those are in `rules`. Knows no process, no clock and no vendor.

mod talk;

pub use talk::{
    Answer, CheckSeen, Effect, Evaluation, Event, Feasible, Found, Hold, Job, JobId, Outcome, StopHow, Task,
    Usage, Why,
};

use jiff::Timestamp;

use crate::rules::bound::Bound;
use crate::rules::gate::Aligned;
use crate::state::State;

/// What the coordinator has to know of the world, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub crew: Crew,
    pub dispatch: Dispatch,
}

/// Which roles have an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crew {
    pub worker: Seat,
    pub probe: Seat,
    pub coordinator: Seat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    Taken,
    Empty,
}

/// Who decides when an atom is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// The coordinator fills free slots.
    Rolling,
    /// A host asks; the coordinator allows or refuses.
    OnRequest,
}

/// The loop: a state, and what is in flight.
#[derive(Clone, Debug)]
pub struct Coordinator {
    state: State,
}

impl Coordinator {
    /// Takes a loop up from its state alone: in flight is what stands in progress.
    pub fn resume(aligned: Aligned, settings: Settings, now: Timestamp) -> Coordinator {
        let (_, _) = (settings, now);
        Coordinator { state: aligned.into_state() }
    }

    /// Takes an event in, and says what is to be done. After [`Effect::Halt`] nothing more is answered.
    #[must_use]
    pub fn on(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        let (_, _) = (event, now);
        Vec::new()
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// The most that can still happen; falls with every event, unless a person redirects or edits.
    pub fn bound(&self) -> Bound {
        Bound { agent_runs: 0, seconds: 0, cost_usd: None, tokens: None }
    }

    /// The jobs in flight, those that are landing among them.
    pub fn running(&self) -> Vec<JobId> {
        Vec::new()
    }
}
