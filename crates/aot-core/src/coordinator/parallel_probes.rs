//! Probes of the choices that are left of a stuck group, beside the probe of the selected one (D10). They belong to that
//! attempt: they end with it, and the choices are put in order when all have answered. Which choices are probed, and
//! what follows from the findings, are rules.

use super::flight::{ParallelProbe, Stage, blank_job};
use super::protocol::{Effect, JobOutcome};
use super::unstarted::unable;
use super::{Coordinator, OnRefusedStart};
use crate::rules::order::{self, ProbeFinding};
use crate::rules::{Ledger, backoff, converge, plan};
use crate::state::AtomId;

/// The choices that were probed in one iteration. A crash ends the iteration, so the file does not need to say it.
#[derive(Clone, Debug, Default)]
pub(super) struct ProbedChoices {
    iteration: u32,
    atoms: Vec<AtomId>,
}

impl ProbedChoices {
    pub(super) fn of(&self, iteration: u32) -> &[AtomId] {
        if self.iteration == iteration { &self.atoms } else { &[] }
    }

    fn note(&mut self, iteration: u32, atom: AtomId) {
        if self.iteration != iteration {
            *self = ProbedChoices { iteration, atoms: Vec::new() };
        }
        self.atoms.push(atom);
    }
}

impl Coordinator {
    /// Probes the other choices of the attempt that was begun last, as far as there is room.
    pub(super) fn start_parallel_probes(&mut self) {
        let at = self.flight.attempts.len() - 1;
        let (atom, number) = (self.flight.attempts[at].atom.clone(), self.flight.attempts[at].number);
        let index = self.ledger.index(&atom).expect("what is in flight stands in the graph");
        for choice in order::beside(&self.ledger, &self.dispatch_inputs(&[]), index) {
            if plan::has_room(&self.ledger, &self.dispatch_inputs(&[])).is_err() {
                return;
            }
            let probe = ParallelProbe::new(choice.clone());
            let mut job = blank_job(probe.job(number));
            job.return_reason = self.memory.of(&choice).and_then(|memory| memory.return_reason.clone());
            self.count_run(&job.id);
            self.effects.push(Effect::Start(job));
            self.probed_choices.note(number, choice);
            self.flight.attempts[at].parallel_probes.push(probe);
        }
    }

    /// A parallel probe has ended. A choice whose probe gave no answer keeps the rank `Unknown`, and is not probed again in
    /// this iteration.
    pub(super) fn parallel_probe_ended(&mut self, at: usize, probe: usize, outcome: JobOutcome) {
        match &outcome {
            JobOutcome::Refused { reason, retry_after } => match self.settings.on_refused_start {
                OnRefusedStart::Park => self.park(backoff::Waits::Provider, reason, *retry_after),
                OnRefusedStart::Stop => self.require_stop(converge::rate_limited(reason)),
            },
            JobOutcome::Unable { lack, reason } => {
                let atom = self.flight.attempts[at].parallel_probes[probe].atom.clone();
                self.require_stop(unable(*lack, reason, vec![atom]));
            }
            JobOutcome::NotStarted { obstacle, reason } => self.wait_for_start(obstacle, reason),
            JobOutcome::Probed { .. }
            | JobOutcome::Done { .. }
            | JobOutcome::Failed { .. }
            | JobOutcome::TooLarge { .. }
            | JobOutcome::Lost { .. } => self.refused_starts = 0,
        }
        self.flight.attempts[at].parallel_probes[probe].end(finding(outcome));
        self.order_choices(at);
    }

    /// The probe of the selected choice has ended, and other choices are probed beside it.
    pub(super) fn selected_choice_probed(&mut self, at: usize, outcome: JobOutcome) {
        let attempt = &mut self.flight.attempts[at];
        attempt.stage = Stage::AwaitingProbes;
        attempt.finding = finding(outcome);
        self.order_choices(at);
    }

    /// Puts the choices in order when the last probe has answered, and goes on with the best.
    fn order_choices(&mut self, at: usize) {
        let attempt = &self.flight.attempts[at];
        if attempt.stage != Stage::AwaitingProbes || attempt.running_parallel_probes().next().is_some() {
            return;
        }
        let atom = attempt.atom.clone();
        let findings = attempt.finding.as_ref().map(|finding| finding.findings.clone());
        for (choice, finding) in attempt.probe_findings() {
            self.memory.entry(&choice).finding = Some(finding);
        }
        let index = self.ledger.index(&atom).expect("what is in flight stands in the graph");
        if order::arrange(&mut self.ledger, index, &self.memory).is_some() {
            self.end_attempt(at);
            self.count_result();
            return;
        }
        self.go_to_work(at, findings);
    }

    /// An edit may have removed choices: probes of what is no choice any more end.
    pub(super) fn end_stale_parallel_probes(&mut self) {
        self.end_parallel_probes_if(|ledger, selected, choice| !order::is_beside(ledger, selected, choice));
    }

    /// A loop that is stopping waits for no probe; what was found so far still orders the choices.
    pub(super) fn end_parallel_probes(&mut self) {
        self.end_parallel_probes_if(|_, _, _| true);
    }

    fn end_parallel_probes_if(&mut self, is_stale: impl Fn(&Ledger, &AtomId, &AtomId) -> bool) {
        for at in (0..self.flight.attempts.len()).rev() {
            let attempt = &mut self.flight.attempts[at];
            let (selected, number) = (&attempt.atom, attempt.number);
            for probe in attempt.parallel_probes.iter_mut().filter(|probe| probe.is_running()) {
                if is_stale(&self.ledger, selected, &probe.atom) {
                    self.effects.push(Effect::Kill(probe.job(number)));
                    probe.end(None);
                }
            }
            self.order_choices(at);
        }
    }
}

fn finding(outcome: JobOutcome) -> Option<ProbeFinding> {
    match outcome {
        JobOutcome::Probed { feasible, findings, cost } => Some(ProbeFinding { feasible, cost, findings }),
        JobOutcome::Done { .. }
        | JobOutcome::Failed { .. }
        | JobOutcome::TooLarge { .. }
        | JobOutcome::Refused { .. }
        | JobOutcome::Unable { .. }
        | JobOutcome::NotStarted { .. }
        | JobOutcome::Lost { .. } => None,
    }
}
