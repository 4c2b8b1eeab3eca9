//! A life through the host's door: a session that asks for starts, wanted or not, hands results in, ends its turns,
//! redirects and is taken over, each in a command of its own, while people and other processes write the file.

use aot_core::coordinator::{Dispatch, Effect, Evaluation, Event, JobOutcome, StopMode, Task};
use aot_core::rules::certificate::RedCheck;
use aot_core::state::{AtomId, Graph, LoopStatus};

use super::{Life, MAX_CRASHES, MAX_INTERFERENCES, Occurrence};
use crate::audit::Violation;
use crate::edits;
use crate::simulation::{Command, Crash};
use crate::world::Phase;

impl Life {
    /// The process of the last command goes on, or the host gives another command.
    pub(super) fn host_step(&mut self) -> Result<(), Violation> {
        let seconds = self.random.between(1, 200);
        self.simulation.world.pass(seconds);
        if self.crashes < MAX_CRASHES && self.random.percent(self.behaviour.crash / 3) {
            return self.crash();
        }
        if self.simulation.is_busy() {
            return self.go_on();
        }
        let control = &self.simulation.world.recorded().control;
        let redirecting = control.redirect_requested;
        match control.status {
            // Commands are refused until a session has begun.
            LoopStatus::Pending | LoopStatus::Stopped if redirecting => return self.end_redirect(),
            LoopStatus::Pending | LoopStatus::Stopped => return self.restart(),
            LoopStatus::Running | LoopStatus::Completed if redirecting => return self.amid_redirect(),
            LoopStatus::Running | LoopStatus::Completed => {}
        }
        if self.interferences < MAX_INTERFERENCES && self.random.percent(self.behaviour.interfere) {
            self.interferences += 1;
            return self.interfere_between_commands();
        }
        self.host_works()
    }

    /// The host's agents: they ask for starts, hand in what they have, and end the turn.
    fn host_works(&mut self) -> Result<(), Violation> {
        let state = self.simulation.world.recorded();
        let graph = Graph::new(state);
        let due = (0..state.atoms.len()).filter(|index| graph.is_due(state, *index));
        let startable: Vec<AtomId> =
            graph.ready(state).into_iter().chain(due).map(|index| state.atoms[index].id.clone()).collect();
        let any = state.atoms[self.random.below(state.atoms.len())].id.clone();
        let working: Vec<_> = self
            .simulation
            .world
            .flights()
            .iter()
            .filter(|flight| flight.phase == Phase::Working)
            .map(|flight| flight.job.clone())
            .collect();
        match self.random.below(20) {
            0 => self.command(Command::Start(any)),
            1..=9 if !startable.is_empty() => {
                let atom = self.random.pick(&startable).clone();
                self.command(Command::Start(atom))
            }
            1..=16 if !working.is_empty() => {
                let job = self.random.pick(&working).clone();
                let state = self.simulation.world.recorded();
                let (outcome, _) = self.behaviour.outcome(&mut self.random, state, &job);
                let usage = self.usage_of(&job.id);
                self.command(Command::HandIn(job.id, as_a_host_tells(outcome), usage))
            }
            _ => {
                self.turns += 1;
                self.command(Command::EndTurn)
            }
        }
    }

    /// A command's process lands, checks or evaluates; another process may write meanwhile.
    fn go_on(&mut self) -> Result<(), Violation> {
        if self.interferences < MAX_INTERFERENCES && self.random.percent(self.behaviour.interfere) {
            self.interferences += 1;
            let world = &self.simulation.world;
            let mut state = edits::edit(world.recorded(), &mut self.random, world.now);
            if self.random.percent(30) {
                state.control.redirect_requested = true;
            }
            self.allow_more(&state);
            return self.send(Event::Edited { state: Box::new(state) });
        }
        let mut next = Vec::new();
        for flight in self.simulation.world.flights().to_vec() {
            let id = flight.job.id.clone();
            match (flight.phase, &id.task) {
                (Phase::Landing, _) => next.push(Occurrence::Landing(id)),
                (Phase::Working, Task::Check(_)) => {
                    let state = self.simulation.world.recorded();
                    let (outcome, _) = self.behaviour.outcome(&mut self.random, state, &flight.job);
                    next.push(Occurrence::Job(id, outcome));
                }
                (Phase::Working | Phase::Reported | Phase::Parked | Phase::Orphaned, _) => {}
            }
        }
        if let Some(number) = self.simulation.world.verifying() {
            if self.random.percent(1) {
                return self.send(Event::Tampered { what: "tests/a.rs".into() });
            }
            let base_case = &self.simulation.world.recorded().objective.base_case;
            let items = base_case.as_ref().map_or(0, |checks| checks.quality_items());
            next.push(Occurrence::Verification(number, items));
        }
        let index = self.random.below(next.len());
        self.occur(next.swap_remove(index))
    }

    fn interfere_between_commands(&mut self) -> Result<(), Violation> {
        match self.random.below(10) {
            0 => self.command(Command::Stop(StopMode::Finish)),
            1 => self.command(Command::Stop(StopMode::Now)),
            2 => {
                let mut state = self.simulation.world.recorded().clone();
                state.control.status = LoopStatus::Completed;
                self.simulation.write_elsewhere(state);
                Ok(())
            }
            3..=5 => {
                let world = &self.simulation.world;
                let state = edits::edit(world.recorded(), &mut self.random, world.now);
                self.allow_more(&state);
                self.simulation.write_elsewhere(state);
                Ok(())
            }
            // Another session takes the loop over, or the same one enters again.
            6 => self.restart(),
            _ => {
                self.simulation.hold_redirect();
                Ok(())
            }
        }
    }

    /// Whatever the host says meanwhile comes too late, until the redirect is made, cancelled or abandoned.
    fn amid_redirect(&mut self) -> Result<(), Violation> {
        let state = self.simulation.world.recorded();
        match self.random.below(10) {
            0 => {
                let atom = state.atoms[self.random.below(state.atoms.len())].id.clone();
                self.command(Command::Start(atom))
            }
            1 => self.command(Command::Wake),
            2 => self.command(Command::AbandonRedirect),
            _ => self.end_redirect(),
        }
    }

    /// Another process makes the redirect, or cancels it.
    fn end_redirect(&mut self) -> Result<(), Violation> {
        let world = &self.simulation.world;
        let redirected = edits::redirect(world.recorded(), &mut self.random, world.now);
        self.allow_more(&redirected);
        self.simulation.write_elsewhere(redirected);
        Ok(())
    }

    fn command(&mut self, command: Command) -> Result<(), Violation> {
        let crash = self.draw_crash();
        let effects = self.simulation.command(command, crash)?;
        self.refusals += effects.iter().filter(|effect| matches!(effect, Effect::Refuse(_))).count() as u64;
        match crash {
            Crash::Never => Ok(()),
            Crash::After(_) => self.crash(),
        }
    }

    /// A host that ends its turns ends the loop: each closes an iteration (D8).
    pub(super) fn host_halts_in_time(&self) -> Result<(), Violation> {
        if self.turns <= self.turns_allowed + u64::from(self.crashes) {
            return Ok(());
        }
        let detail = format!("{} turns, {} allowed", self.turns, self.turns_allowed);
        Err(Violation::new("a host's loop halts within a computed number of turns", "D8", detail))
    }

    /// A command does not ask for a lost evaluation again: its check could not be run.
    pub(super) fn as_the_door_sees(&self, evaluation: Evaluation) -> Evaluation {
        match (self.dispatch, evaluation) {
            (Dispatch::OnRequest, Evaluation::Lost { reason }) => Evaluation::Error {
                items: vec![RedCheck { item: "the evaluation".into(), kind: None, reason }],
            },
            (Dispatch::OnRequest | Dispatch::Rolling, evaluation) => evaluation,
        }
    }
}

/// A host knows done, failed, too large, lost and, of its start, that there was no tree.
fn as_a_host_tells(outcome: JobOutcome) -> JobOutcome {
    match outcome {
        JobOutcome::Refused { reason, .. } | JobOutcome::Unable { reason, .. } => {
            JobOutcome::Failed { reason }
        }
        JobOutcome::Done { .. }
        | JobOutcome::Failed { .. }
        | JobOutcome::TooLarge { .. }
        | JobOutcome::Probed { .. }
        | JobOutcome::NotStarted { .. }
        | JobOutcome::Lost { .. } => outcome,
    }
}
