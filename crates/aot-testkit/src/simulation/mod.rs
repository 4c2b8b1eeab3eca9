//! A coordinator in its world, under audit: sends events, performs effects, crashes at any point between them and
//! resumes from the state file alone. Draws nothing: its drivers do.

mod host;

pub use host::{Command, HOST_AGENTS};

use std::sync::Arc;

use aot_core::coordinator::{
    Answer, Coordinator, Dispatch, Effect, Event, JobId, JobOutcome, RedirectLock, Settings, Task,
};
use aot_core::rules::Change;
use aot_core::rules::durations::Durations;
use aot_core::rules::gate::gate;
use aot_core::state::State;
use jiff::Timestamp;

use crate::audit::{Arrival, Audit, Violation};
use crate::describe;
use crate::world::{Phase, World};

/// How much of an event's answer is performed before the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// It does not die.
    Never,
    /// So many effects are performed.
    After(usize),
}

/// Whether the events and effects are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracing {
    Off,
    On,
}

#[derive(Clone, Debug)]
pub struct Simulation {
    coordinator: Coordinator,
    pub world: World,
    audit: Audit,
    settings: Settings,
    durations: Arc<Durations>,
    tracing: Tracing,
    trace: Vec<String>,
    events: u64,
    /// The moment up to which the file counts the time; a host's session keeps it between its commands.
    counted: Timestamp,
}

impl Simulation {
    /// A coordinator without any event yet: [`Simulation::begin`] comes next.
    pub fn new(state: State, settings: Settings, now: Timestamp, tracing: Tracing) -> Simulation {
        let coordinator = resumed(&state, &settings, now);
        let audit = Audit::new(&state, &settings);
        let world = World::new(state, now);
        let mut simulation = Simulation {
            coordinator,
            world,
            audit,
            settings,
            durations: Arc::default(),
            tracing,
            trace: Vec::new(),
            events: 0,
            counted: now,
        };
        if tracing == Tracing::On {
            let plan = describe::plan_text(simulation.world.recorded());
            simulation.trace.push(plan);
        }
        simulation
    }

    pub fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    /// This coordinator, and those after a crash, know this of how long atoms last.
    pub fn expect(&mut self, durations: Durations) {
        self.durations = Arc::new(durations);
        self.coordinator.expect(self.durations.clone());
    }

    pub fn dispatch(&self) -> Dispatch {
        self.settings.dispatch
    }

    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    pub fn trace(&self) -> &[String] {
        &self.trace
    }

    /// Events sent so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    pub fn begin(&mut self, hold: RedirectLock, crash: Crash) -> Result<Vec<Effect>, Violation> {
        let event =
            Event::Begun { unrecorded: self.world.found(), fingerprint: None, altered: None, redirect: hold };
        self.send(event, crash)
    }

    /// A new process takes the state file up; what the old one ran is gone.
    pub fn restart(&mut self) {
        self.world.crash();
        self.audit.crashed(self.world.recorded());
        self.counted = self.world.now;
        self.resume();
    }

    fn resume(&mut self) {
        self.coordinator = resumed(self.world.recorded(), &self.settings, self.counted);
        self.coordinator.expect(self.durations.clone());
        self.note(|| "~~ a new process".into());
    }

    /// A person edits the file while no process runs.
    pub fn edited_while_stopped(&mut self, state: State) {
        self.world.replace(state);
        self.audit.edited();
    }

    /// Sends an event, and performs the effects until the process dies, if it does. Returns those performed.
    pub fn send(&mut self, event: Event, crash: Crash) -> Result<Vec<Effect>, Violation> {
        self.events += 1;
        self.note(|| format!("<- {}", describe::event_line(&event)));
        let arrival = self.arrival(&event);
        self.apply_to_world(&event);
        self.audit.before_event(self.world.recorded(), &event, arrival);
        let mut effects = self.coordinator.on(event.clone(), self.world.now);
        self.drop_finished(&effects);
        let performed = match crash {
            Crash::Never => effects.len(),
            Crash::After(count) => count.min(effects.len()),
        };
        for effect in &effects[..performed] {
            self.note(|| format!("   -> {}", describe::effect_line(effect)));
            self.audit.before_effect(&self.world, effect)?;
            match effect {
                Effect::Record(changes) => self.record(changes, &event)?,
                Effect::Start(_)
                | Effect::Kill(_)
                | Effect::Land(_)
                | Effect::Verify { .. }
                | Effect::Revert { .. }
                | Effect::WakeAt(_)
                | Effect::Refuse(_)
                | Effect::Halt(_) => self.world.perform(effect)?,
            }
        }
        effects.truncate(performed);
        match crash {
            Crash::Never => self.audit.after_event(&self.world, &mut self.coordinator, &event)?,
            Crash::After(count) => {
                self.note(|| format!("!! the process dies after {count} effects"));
                self.audit.forget_unrecorded(&event, &effects);
            }
        }
        Ok(effects)
    }

    fn record(&mut self, changes: &[Change], event: &Event) -> Result<(), Violation> {
        if changes.iter().any(|change| matches!(change, Change::SpentSoFar { .. } | Change::LoopStarted)) {
            self.counted = self.world.now;
        }
        for change in changes {
            self.audit.before_change(self.world.recorded(), change, event)?;
            self.world.write(change)?;
            if change.reshapes() {
                self.audit.reshaped(self.world.recorded());
            }
        }
        Ok(())
    }

    fn arrival(&self, event: &Event) -> Arrival {
        if let Event::Verified { number, .. } = event {
            return if self.coordinator.verifying() == Some(*number) {
                Arrival::Expected
            } else {
                Arrival::Late
            };
        }
        let job = match event {
            Event::Ended { job, .. }
            | Event::Landed { job, .. }
            | Event::Conflict { job, .. }
            | Event::NotLanded { job, .. }
            | Event::Replanned { job, .. } => job,
            Event::Begun { .. }
            | Event::Verified { .. }
            | Event::Spent { .. }
            | Event::AgentRan { .. }
            | Event::Edited { .. }
            | Event::Tampered { .. }
            | Event::StopAsked { .. }
            | Event::RedirectAsked
            | Event::Redirected { .. }
            | Event::RedirectAbandoned
            | Event::Woke
            | Event::StartAsked { .. }
            | Event::TurnEnded => return Arrival::Expected,
        };
        if self.world.flight(job).is_some() { Arrival::Expected } else { Arrival::Late }
    }

    /// Makes what an event says true of the world.
    fn apply_to_world(&mut self, event: &Event) {
        match event {
            Event::Ended { job, outcome, .. } => match (outcome, &job.task) {
                (JobOutcome::Done { .. }, Task::Work(_)) => self.world.report(job),
                (JobOutcome::Refused { .. } | JobOutcome::NotStarted { .. }, _) => self.world.park(job),
                (
                    JobOutcome::Done { .. }
                    | JobOutcome::Failed { .. }
                    | JobOutcome::TooLarge { .. }
                    | JobOutcome::Probed { .. }
                    | JobOutcome::Unable { .. }
                    | JobOutcome::Lost { .. },
                    Task::Probe(_) | Task::Work(_) | Task::Check(_) | Task::Replan,
                ) => self.world.end(job),
            },
            Event::Replanned { job, answer: Answer::Refused { .. } | Answer::NotStarted { .. }, .. } => {
                self.world.park(job)
            }
            Event::NotLanded { job, .. } => match self.settings.dispatch {
                Dispatch::Rolling => self.world.report(job),
                // The host has its tree still.
                Dispatch::OnRequest => self.world.hand_back(job),
            },
            Event::Landed { job, .. } | Event::Conflict { job, .. } | Event::Replanned { job, .. } => {
                self.world.end(job);
            }
            Event::Verified { .. } => self.world.verified(),
            Event::Woke => self.world.woke(),
            Event::Edited { state } | Event::Redirected { state } => self.world.replace((**state).clone()),
            Event::Begun { .. }
            | Event::Spent { .. }
            | Event::AgentRan { .. }
            | Event::Tampered { .. }
            | Event::StopAsked { .. }
            | Event::RedirectAsked
            | Event::RedirectAbandoned
            | Event::StartAsked { .. }
            | Event::TurnEnded => {}
        }
    }

    /// A result that the coordinator did not want is discarded with its tree; a refused start is forgotten.
    fn drop_finished(&mut self, effects: &[Effect]) {
        let mut kept = self.coordinator.running();
        kept.extend(effects.iter().filter_map(|effect| match effect {
            Effect::Kill(id) => Some(id.clone()),
            Effect::Record(_)
            | Effect::Start(_)
            | Effect::Land(_)
            | Effect::Verify { .. }
            | Effect::Revert { .. }
            | Effect::WakeAt(_)
            | Effect::Refuse(_)
            | Effect::Halt(_) => None,
        }));
        let over = |phase| matches!(phase, Phase::Reported | Phase::Parked);
        let gone: Vec<JobId> = self
            .world
            .flights()
            .iter()
            .filter(|flight| over(flight.phase) && !kept.contains(&flight.job.id))
            .map(|flight| flight.job.id.clone())
            .collect();
        gone.iter().for_each(|id| self.world.end(id));
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if self.tracing == Tracing::On {
            let line = format!("{} {}", self.clock(), line());
            self.trace.push(line);
        }
    }

    fn clock(&self) -> String {
        format!("{:>6}s", self.world.now.as_second())
    }
}

fn resumed(state: &State, settings: &Settings, now: Timestamp) -> Coordinator {
    let aligned = gate(state.clone()).expect("drawn states are aligned");
    Coordinator::resume(aligned, *settings, now)
}
