//! What the world refuses is no attempt (D12): an atom that could not be started is pending again, an iteration in which
//! nothing could be started is taken back, work that could not be landed is kept, and the loop is parked. How long it
//! waits is a rule.

use super::flight::{Attempt, Replan, Stage};
use super::protocol::{Effect, JobId, Lack, Obstacle, Usage};
use super::{Coordinator, Dispatch, OnRefusedStart};
use crate::rules::Change;
use crate::rules::backoff::{self, Waits};
use crate::rules::converge::{self, Stop};
use crate::rules::memory::Infeasible;
use crate::rules::plan::ReplanReason;
use crate::state::{AtomId, Span};

/// The stop that a lack of an agent leads to.
pub(super) fn unable(lack: Lack, reason: &str, atoms: Vec<AtomId>) -> Stop {
    match lack {
        Lack::Login => converge::not_logged_in(reason),
        Lack::Program => converge::no_program(reason, atoms),
    }
}

impl Coordinator {
    /// Parks the loop. What is refused while it is parked belongs to the same wait.
    pub(super) fn park(&mut self, waits: Waits, reason: &str, retry_after: Option<Span>) {
        let before = match self.is_waiting() {
            true => self.refused_starts.saturating_sub(1),
            false => self.refused_starts,
        };
        backoff::park(&mut self.ledger, waits, before, reason, retry_after);
        self.refused_starts = before + 1;
        // Waiting costs time only; the file says how much, so that it survives a crash.
        self.spending.unwritten = true;
    }

    fn is_waiting(&self) -> bool {
        let now = self.ledger.now();
        self.state().control.parked_until.as_ref().is_some_and(|until| now < until.at())
    }

    /// Waits until what was refused may start. A host decides by itself when it asks again.
    pub(super) fn wait_for_start(&mut self, obstacle: &Obstacle, reason: &str) {
        if self.settings.dispatch == Dispatch::OnRequest {
            return;
        }
        match (obstacle, self.settings.on_refused_start) {
            (Obstacle::Setup { output }, _) if self.setup_failed_before(reason) => {
                self.require_stop(converge::setup_fails(reason, output));
            }
            (Obstacle::World | Obstacle::Setup { .. }, OnRefusedStart::Park) => {
                self.park(Waits::World, reason, None);
            }
            (Obstacle::World, OnRefusedStart::Stop) => self.require_stop(converge::world_refuses(reason)),
            (Obstacle::Setup { output }, OnRefusedStart::Stop) => {
                self.require_stop(converge::setup_fails(reason, output));
            }
        }
    }

    /// Whether it failed in the same way before the last wait. Trees that are prepared at once fail together, once.
    fn setup_failed_before(&mut self, reason: &str) -> bool {
        let before = self.failed_setup.replace(reason.to_owned());
        !self.is_waiting() && before.as_deref() == Some(reason)
    }

    pub(super) fn note_begun(&mut self, job: &JobId) {
        self.begun_in = self.begun_in.max(Some(job.attempt));
        self.failed_setup = None;
    }

    /// An attempt whose probe has run, or runs beside others, keeps what is known and waits for its second half.
    pub(super) fn not_started(&mut self, at: usize, obstacle: &Obstacle, reason: &str) {
        if !self.take_back_attempt(at, reason) {
            self.flight.attempts[at].parked = true;
        }
        self.wait_for_start(obstacle, reason);
    }

    /// Takes an attempt back that has not begun: no agent run, and no iteration if nothing else began in it. Returns whether
    /// it did; one whose probe has run, or runs beside others, has begun.
    pub(super) fn take_back_attempt(&mut self, at: usize, reason: &str) -> bool {
        let attempt = &self.flight.attempts[at];
        let is_second_half = attempt.stage == Stage::Working && attempt.probed;
        if is_second_half || !attempt.parallel_probes.is_empty() {
            return false;
        }
        let Attempt { atom, number, .. } = self.flight.attempts[at].clone();
        self.uncount_run(&self.flight.attempts[at].job());
        self.end_attempt(at);
        self.ledger.record(Change::AtomNotStarted { atom, reason: reason.to_owned() });
        self.take_back_iteration(number);
        true
    }

    /// An agent lacks what only a person can give. That costs nothing, unless it had begun.
    pub(super) fn unable_to_work(&mut self, at: usize, lack: Lack, reason: &str, usage: Usage) {
        let stop = unable(lack, reason, vec![self.flight.attempts[at].atom.clone()]);
        match usage.agent_runs == 0 && self.take_back_attempt(at, reason) {
            true => self.require_stop(stop),
            false => self.stop_attempt(at, stop, reason),
        }
    }

    pub(super) fn unable_to_replan(&mut self, replan: &Replan, lack: Lack, reason: &str) {
        if self.take_back_iteration(replan.number) {
            self.uncount_run(&replan.job());
        }
        self.require_stop(unable(lack, reason, Vec::new()));
    }

    /// A replan beside other starts keeps its place in their iteration.
    pub(super) fn replan_not_started(&mut self, mut replan: Replan, obstacle: &Obstacle, reason: &str) {
        let (job, number) = (replan.job(), replan.number);
        let is_kept = !self.take_back_iteration(number);
        if is_kept {
            replan.parked = true;
            self.flight.replan = Some(replan);
        } else {
            self.uncount_run(&job);
            for why in replan.why {
                if let ReplanReason::Infeasible { atom, findings } = why {
                    self.memory.entry(&atom).infeasible = Some(Infeasible::ToBeTold(findings));
                }
            }
        }
        self.wait_for_start(obstacle, reason);
    }

    /// The work stays as it is, and its landing is asked for again. One that asked judges is not: they would be asked
    /// once more for each try, and the bound counts them once (D8).
    pub(super) fn not_landed(&mut self, job: JobId, reason: String, usage: Usage) {
        let at = self.flight.find(&job).filter(|at| self.flight.attempts[*at].stage == Stage::Landing);
        let Some(at) = at else { return };
        if usage.agent_runs > 0 {
            self.effects.push(Effect::Kill(job.clone()));
            return self.conflict(job, reason);
        }
        match self.settings.dispatch {
            // The host is told, and hands its work in again.
            Dispatch::OnRequest => self.flight.attempts[at].stage = Stage::Working,
            Dispatch::Rolling => {
                self.flight.attempts[at].parked = true;
                self.wait_for_start(&Obstacle::World, &reason);
            }
        }
    }

    /// Takes the open iteration back if nothing has begun in it. Returns whether it did.
    fn take_back_iteration(&mut self, number: u32) -> bool {
        let control = &self.state().control;
        let Some(open) = control.open.as_ref().filter(|_| control.iteration == number) else { return false };
        let has_starts = !open.started.is_empty() || !self.probed_in_iteration().is_empty();
        let in_flight = self.flight.attempts.iter().any(|attempt| attempt.number == number)
            || self.flight.replan.as_ref().is_some_and(|replan| replan.number == number);
        let counts = has_starts || in_flight || open.results > 0 || open.moved;
        if counts || self.begun_in >= Some(number) {
            return false;
        }
        self.ledger.record(Change::IterationTakenBack);
        true
    }
}
