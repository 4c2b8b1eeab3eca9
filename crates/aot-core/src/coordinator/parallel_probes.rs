//! Looks at the choices that are left of a stuck group, beside the probe of the selected one (D10). A scout belongs to
//! that attempt: it ends with it, and what it saw is weighed when all have answered. Which choices are looked at, and
//! what follows from what was seen, are rules.

use super::flight::{ParallelProbe, Stage, blank_job};
use super::protocol::{Effect, Outcome};
use super::{Coordinator, OnRefusedStart};
use crate::rules::order::{self, ProbeFinding};
use crate::rules::{Ledger, converge};
use crate::state::AtomId;

/// The choices that were looked at in one iteration. A crash ends the iteration, so it is enough to remember them.
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
    /// The attempt that was begun last probes: whoever stands beside it is looked at as well, as far as slots and the
    /// starts of the iteration allow.
    pub(super) fn start_parallel_probes(&mut self) {
        let at = self.flight.attempts.len() - 1;
        let (atom, number) = (self.flight.attempts[at].atom.clone(), self.flight.attempts[at].number);
        let index = self.ledger.index(&atom).expect("what is in flight stands in the graph");
        for choice in order::beside(&self.ledger, &self.inputs(&[]), index) {
            if !self.has_slot() {
                return;
            }
            let probe = ParallelProbe::sent(choice.clone());
            let mut job = blank_job(probe.job(number));
            job.return_reason = self.return_reason.get(&choice).cloned();
            self.count_run(&job.id);
            self.effects.push(Effect::Start(job));
            self.probed_choices.note(number, choice);
            self.flight.attempts[at].parallel_probes.push(probe);
        }
    }

    /// A scout's last word. Without an answer its choice stays unknown: it is not sent again.
    pub(super) fn parallel_probe_ended(&mut self, at: usize, probe: usize, outcome: Outcome) {
        match &outcome {
            Outcome::Refused { reason, retry_after } => match self.settings.on_refused_start {
                OnRefusedStart::Park => self.park(*retry_after),
                OnRefusedStart::Stop => {
                    self.blocked.get_or_insert(converge::rate_limited(reason));
                }
            },
            Outcome::NotLoggedIn { reason } => {
                self.blocked.get_or_insert(converge::not_logged_in(reason));
            }
            Outcome::Probed { .. }
            | Outcome::Done { .. }
            | Outcome::Failed { .. }
            | Outcome::TooLarge { .. }
            | Outcome::Lost { .. } => self.refused = 0,
        }
        self.flight.attempts[at].parallel_probes[probe].answer(finding(outcome));
        self.weigh(at);
    }

    /// The probe of the selected choice has ended, and there are scouts.
    pub(super) fn probed_beside(&mut self, at: usize, outcome: Outcome) {
        let attempt = &mut self.flight.attempts[at];
        attempt.stage = Stage::AwaitingProbes;
        attempt.saw = finding(outcome);
        self.weigh(at);
    }

    /// When the last has answered: what is left is put in order, and the best goes on.
    fn weigh(&mut self, at: usize) {
        let attempt = &self.flight.attempts[at];
        if attempt.stage != Stage::AwaitingProbes || attempt.running_parallel_probes().next().is_some() {
            return;
        }
        let atom = attempt.atom.clone();
        let findings = attempt.saw.as_ref().map(|saw| saw.findings.clone());
        self.findings.extend(attempt.seen());
        let index = self.ledger.index(&atom).expect("what is in flight stands in the graph");
        if order::arrange(&mut self.ledger, index, &self.findings).is_some() {
            self.end_attempt(at);
            self.count_result();
            return;
        }
        self.go_to_work(at, findings);
    }

    /// Somebody else changed the plan: who looks at what is no choice any more is called back.
    pub(super) fn end_stale_parallel_probes(&mut self) {
        self.end_parallel_probes_if(|ledger, selected, choice| !order::is_beside(ledger, selected, choice));
    }

    /// A loop that is stopping waits for no look; what was seen so far is weighed all the same.
    pub(super) fn end_parallel_probes(&mut self) {
        self.end_parallel_probes_if(|_, _, _| true);
    }

    /// Ends looks; their choices stay unknown.
    fn end_parallel_probes_if(&mut self, in_vain: impl Fn(&Ledger, &AtomId, &AtomId) -> bool) {
        for at in (0..self.flight.attempts.len()).rev() {
            let attempt = &mut self.flight.attempts[at];
            let (selected, number) = (&attempt.atom, attempt.number);
            for probe in attempt.parallel_probes.iter_mut().filter(|probe| probe.is_running()) {
                if in_vain(&self.ledger, selected, &probe.atom) {
                    self.effects.push(Effect::Kill(probe.job(number)));
                    probe.answer(None);
                }
            }
            self.weigh(at);
        }
    }
}

fn finding(outcome: Outcome) -> Option<ProbeFinding> {
    match outcome {
        Outcome::Probed { feasible, findings, cost } => Some(ProbeFinding { feasible, cost, findings }),
        Outcome::Done { .. }
        | Outcome::Failed { .. }
        | Outcome::TooLarge { .. }
        | Outcome::Refused { .. }
        | Outcome::NotLoggedIn { .. }
        | Outcome::Lost { .. } => None,
    }
}
