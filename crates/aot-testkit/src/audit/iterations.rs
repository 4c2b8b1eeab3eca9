//! Opening and closing of iterations, results and stalls (D7, D8, D9, D14).

use aot_core::coordinator::{Evaluation, Event, JobId};
use aot_core::state::{AtomId, State};

use super::{Audit, Checked, ensure};
use crate::describe;
use crate::world::World;

impl Audit {
    pub(super) fn closes_by_the_count(
        &self,
        state: &State,
        unresolved: u32,
        stalls: u32,
        event: &Event,
    ) -> Checked {
        let counted = self.graph.unresolved(state) as u32;
        ensure(unresolved == counted, "the close counts what is unresolved", "D9", || {
            format!("{unresolved}, not {counted}")
        })?;
        let before = &state.control;
        let progress = before.prev_pending_count < 0
            || i64::from(unresolved) < before.prev_pending_count
            || self.iteration.moved;
        let interrupted = match event {
            Event::RedirectAsked | Event::Redirected { .. } => true,
            Event::Edited { .. } => before.redirect_requested,
            _ => false,
        };
        let redirected = !self.current.opened && interrupted;
        let expected = match (progress, redirected) {
            (true, _) => 0,
            (false, true) => before.stall_count,
            (false, false) => before.stall_count + 1,
        };
        // A redirect judges nothing, and an edit may have moved the count; both leave or clear the stalls.
        let allowed = stalls == expected || (redirected && stalls <= before.stall_count);
        ensure(allowed, "a stall is a close without progress", "D9", || {
            format!("{stalls}, not {expected}; {unresolved} unresolved after {}", before.prev_pending_count)
        })
    }

    /// Whatever ends an attempt is a result: success, failure, return, the death of a rival.
    pub(super) fn counts_results(&mut self, world: &World) -> Checked {
        let flights = world.flights().iter().map(|flight| &flight.job.id);
        let attempts = flights.filter(|id| !self.probes.is_parallel(id));
        let mut running: Vec<(AtomId, u32)> = attempts
            .filter_map(|id| Some((id.task.atom()?.clone(), id.attempt)))
            .chain(self.probes.awaited())
            .collect();
        running.sort();
        running.dedup();
        // What could not be started was no attempt.
        let was_one = |attempt: &&(AtomId, u32)| !self.current.unstarted.contains(&attempt.0);
        let gone =
            self.running.iter().filter(was_one).filter(|attempt| !running.contains(attempt)).count() as u32;
        let results = world.recorded().control.open.as_ref().map(|open| open.results);
        let (before, undisturbed) =
            (self.results, !self.current.opened && self.current.closed_with.is_none());
        self.running = running;
        self.results = results;
        match (before, results) {
            (Some(before), Some(after)) if undisturbed => {
                ensure(after == before + gone, "whatever ends an attempt is a result", "D7", || {
                    format!("{before} results and {gone} more are not {after}")
                })
            }
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// A barrier for judgement: `m` results are in, or nothing runs but what the next iteration has begun.
    pub(super) fn closes_when_over(&self, world: &World, event: &Event) -> Checked {
        let Some(results) = self.current.closed_with else { return Ok(()) };
        let state = world.recorded();
        let by_a_person =
            matches!(event, Event::RedirectAsked | Event::Redirected { .. } | Event::Edited { .. });
        let begun = |id: &JobId| self.current.opened && id.attempt == state.control.iteration;
        let over = results >= state.constraints().max_parallel_agents
            || world.flights().iter().all(|flight| begun(&flight.job.id));
        ensure(over || by_a_person, "an iteration closes when m results are in or nothing runs", "D7", || {
            format!("{results} results at {}", describe::event_line(event))
        })
    }
}

pub(super) fn opens_within_the_limit(state: &State) -> Checked {
    let control = &state.control;
    ensure(control.open.is_none(), "one iteration is open at a time", "D7", || format!("{control:?}"))?;
    let most = state.constraints().max_iterations;
    ensure(control.iteration < most, "no iteration beyond the limit", "D8", || format!("{control:?}"))
}

/// How many evaluations in a row brought nothing, and the fewest that were red, after one more.
pub(super) fn after_a_red_evaluation(state: &State, event: &Event) -> (u32, u32) {
    let red = match event {
        Event::Verified { evaluation: Evaluation::Failed { red }, .. } => red.len() as u32,
        _ => return (u32::MAX, u32::MAX),
    };
    let control = &state.control;
    match control.fewest_red {
        Some(fewest) if red >= fewest => (control.fruitless.unwrap_or(0) + 1, fewest),
        Some(_) | None => (0, red),
    }
}
