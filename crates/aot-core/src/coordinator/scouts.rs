//! Looks at the choices that are left of a stuck group, beside the probe of the selected one (D10). A scout belongs to
//! that attempt: it ends with it, and what it saw is weighed when all have answered. Which choices are looked at, and
//! what follows from what was seen, are rules.

use super::flight::{Scout, Stage, blank_job};
use super::talk::{Effect, Outcome};
use super::{Coordinator, Patience};
use crate::rules::order::{self, ProbeFinding};
use crate::rules::{Ledger, converge};
use crate::state::AtomId;

/// The choices that were looked at in one iteration. A crash ends the iteration, so it is enough to remember them.
#[derive(Clone, Debug, Default)]
pub(super) struct Looks {
    iteration: u32,
    atoms: Vec<AtomId>,
}

impl Looks {
    pub(super) fn of(&self, iteration: u32) -> &[AtomId] {
        if self.iteration == iteration { &self.atoms } else { &[] }
    }

    fn note(&mut self, iteration: u32, atom: AtomId) {
        if self.iteration != iteration {
            *self = Looks { iteration, atoms: Vec::new() };
        }
        self.atoms.push(atom);
    }
}

impl Coordinator {
    /// The attempt that was begun last probes: whoever stands beside it is looked at as well, as far as slots and the
    /// starts of the iteration allow.
    pub(super) fn send_scouts(&mut self) {
        let at = self.flight.attempts.len() - 1;
        let (atom, number) = (self.flight.attempts[at].atom.clone(), self.flight.attempts[at].number);
        let index = self.ledger.index(&atom).expect("what is in flight stands in the graph");
        for choice in order::beside(&self.ledger, &self.floor(&[]), index) {
            if !self.has_slot() {
                return;
            }
            let scout = Scout::sent(choice.clone());
            let mut job = blank_job(scout.job(number));
            job.returned = self.returned.get(&choice).cloned();
            self.count_run(&job.id);
            self.effects.push(Effect::Start(job));
            self.looks.note(number, choice);
            self.flight.attempts[at].scouts.push(scout);
        }
    }

    /// A scout's last word. Without an answer its choice stays unknown: it is not sent again.
    pub(super) fn scouted(&mut self, at: usize, scout: usize, outcome: Outcome) {
        match &outcome {
            Outcome::Refused { reason, retry_after } => match self.settings.patience {
                Patience::Park => self.park(*retry_after),
                Patience::Stop => {
                    self.blocked.get_or_insert(converge::limited(reason));
                }
            },
            Outcome::Unable { reason } => {
                self.blocked.get_or_insert(converge::unable(reason));
            }
            Outcome::Probed { .. }
            | Outcome::Done { .. }
            | Outcome::Failed { .. }
            | Outcome::TooLarge { .. }
            | Outcome::Lost { .. } => self.refused = 0,
        }
        self.flight.attempts[at].scouts[scout].answer(sighting(outcome));
        self.weigh(at);
    }

    /// The probe of the selected choice has ended, and there are scouts.
    pub(super) fn probed_beside(&mut self, at: usize, outcome: Outcome) {
        let attempt = &mut self.flight.attempts[at];
        attempt.stage = Stage::Weighing;
        attempt.saw = sighting(outcome);
        self.weigh(at);
    }

    /// When the last has answered: what is left is put in order, and the best goes on.
    fn weigh(&mut self, at: usize) {
        let attempt = &self.flight.attempts[at];
        if attempt.stage != Stage::Weighing || attempt.scouts_out().next().is_some() {
            return;
        }
        let atom = attempt.atom.clone();
        let findings = attempt.saw.as_ref().map(|saw| saw.findings.clone());
        self.seen.extend(attempt.seen());
        let index = self.ledger.index(&atom).expect("what is in flight stands in the graph");
        if order::arrange(&mut self.ledger, index, &self.seen).is_some() {
            self.take_off(at);
            self.count_result();
            return;
        }
        self.go_to_work(at, findings);
    }

    /// Somebody else changed the plan: who looks at what is no choice any more is called back.
    pub(super) fn recheck_scouts(&mut self) {
        self.call_back(|ledger, selected, choice| !order::is_beside(ledger, selected, choice));
    }

    /// A loop that is stopping waits for no look; what was seen so far is weighed all the same.
    pub(super) fn call_scouts_back(&mut self) {
        self.call_back(|_, _, _| true);
    }

    /// Ends looks; their choices stay unknown.
    fn call_back(&mut self, in_vain: impl Fn(&Ledger, &AtomId, &AtomId) -> bool) {
        for at in (0..self.flight.attempts.len()).rev() {
            let attempt = &mut self.flight.attempts[at];
            let (selected, number) = (&attempt.atom, attempt.number);
            for scout in attempt.scouts.iter_mut().filter(|scout| scout.is_out()) {
                if in_vain(&self.ledger, selected, &scout.atom) {
                    self.effects.push(Effect::Kill(scout.job(number)));
                    scout.answer(None);
                }
            }
            self.weigh(at);
        }
    }
}

fn sighting(outcome: Outcome) -> Option<ProbeFinding> {
    match outcome {
        Outcome::Probed { feasible, findings, cost } => Some(ProbeFinding { feasible, cost, findings }),
        Outcome::Done { .. }
        | Outcome::Failed { .. }
        | Outcome::TooLarge { .. }
        | Outcome::Refused { .. }
        | Outcome::Unable { .. }
        | Outcome::Lost { .. } => None,
    }
}
