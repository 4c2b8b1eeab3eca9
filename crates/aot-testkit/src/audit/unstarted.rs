//! What the world refuses is no attempt: it counts nowhere, and an iteration in which nothing began is none (D12).

use aot_core::coordinator::{Answer, Event, JobId, JobOutcome, Task};
use aot_core::state::{AtomId, State};

use super::bounds::{attempt, iteration};
use super::{Audit, Checked, ensure};
use crate::describe;
use crate::world::World;

impl Audit {
    pub(super) fn counts_no_attempt(&mut self, state: &State, atom: &AtomId, event: &Event) -> Checked {
        let job = match event {
            Event::Ended {
                job, outcome: JobOutcome::NotStarted { .. } | JobOutcome::Unable { .. }, ..
            } => Some(job),
            _ => None,
        };
        let job = job.filter(|job| job.task.atom() == Some(atom) && self.refused.remove(job));
        let Some(job) = job else {
            return ensure(false, "only what could not be started was not", "D12", || {
                format!("{atom} at {}", describe::event_line(event))
            });
        };
        self.forget_run(job);
        self.iteration.started.retain(|started| started != atom);
        self.iteration.attempts = self.iteration.attempts.saturating_sub(1);
        self.current.unstarted.push(atom.clone());
        self.current.given_back += attempt(state);
        Ok(())
    }

    pub(super) fn takes_back_what_is_empty(&mut self, state: &State, event: &Event) -> Checked {
        if let Event::Replanned { job, answer: Answer::NotStarted { .. } | Answer::Unable { .. }, .. } = event
            && self.refused.remove(job)
        {
            self.forget_run(job);
            self.iteration.replans = self.iteration.replans.saturating_sub(1);
        }
        let empty = state.control.open.as_ref().is_some_and(|open| {
            open.started.is_empty() && open.results == 0 && !open.moved && self.iteration.replans == 0
        });
        self.current.given_back += iteration(state);
        self.bound_at_opening = self.bound_at_last_opening;
        ensure(empty, "only an iteration in which nothing began is taken back", "D8, D12", || {
            format!("{:?} at {}", state.control.open, describe::event_line(event))
        })
    }

    /// It counts no agent run, whatever a person has made of its atom since it was asked for.
    fn forget_run(&mut self, job: &JobId) {
        self.runs -= self.jobs.remove(job).unwrap_or(0);
    }

    /// The iterations are for work, and not for the weather.
    pub(super) fn keeps_no_empty_iteration(&self, world: &World, event: &Event) -> Checked {
        let control = &world.recorded().control;
        let Some(open) = control.open.as_ref().filter(|_| !self.current.unstarted.is_empty()) else {
            return Ok(());
        };
        let runs = |id: &JobId| id.attempt == control.iteration || id.task == Task::Replan;
        let begun = !open.started.is_empty()
            || open.results > 0
            || open.moved
            || self.iteration.replans > 0
            || self.iteration.attempts > 0
            || world.flights().iter().any(|flight| runs(&flight.job.id));
        ensure(begun, "an iteration in which nothing began is taken back", "D12", || {
            describe::event_line(event)
        })
    }
}
