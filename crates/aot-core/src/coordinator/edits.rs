//! The state came from outside: somebody edited the file, or a redirect was made. What is in flight is compared with
//! it, and what was remembered is forgotten.

use super::protocol::Effect;
use super::{Coordinator, Phase};
use crate::rules::converge::PlanFor;
use crate::rules::{Change, Ledger, backtrack, gate, redirect};
use crate::state::{LoopStatus, State};

impl Coordinator {
    pub(super) fn edited(&mut self, state: State) {
        let tampered = redirect::tampering(self.state(), &state);
        let corrections = redirect::by_hand(self.state(), &state);
        let before = self.ledger.frontier().unresolved();
        self.replace(state);
        if let Some(what) = tampered {
            self.tampered = Some(what);
        }
        for change in corrections {
            self.ledger.record(change);
        }
        let by = self.ledger.frontier().unresolved() as i64 - before as i64;
        if by != 0 {
            self.ledger.record(Change::CountMoved { by });
        }
        backtrack::repair(&mut self.ledger);
        if !self.state().control.redirect_requested {
            self.end_stale_parallel_probes();
        }
    }

    pub(super) fn redirected(&mut self, state: State) {
        self.replace(state);
        if self.state().control.redirect_requested {
            self.ledger.record(Change::RedirectEnded);
        }
        self.tampered = None;
        if self.phase == Phase::AwaitingRedirect {
            self.take_up();
        }
        backtrack::repair(&mut self.ledger);
    }

    /// The state is another one now: what it no longer shows is gone, and what was remembered may not hold.
    fn replace(&mut self, state: State) {
        for (atom, binding) in &self.state().bindings.clone() {
            let kept = state.bindings.get(atom).is_some_and(|kept| kept.commit == binding.commit);
            if let (false, Some(commit)) = (kept, &binding.commit) {
                self.effects.push(Effect::Revert { atom: atom.clone(), commit: commit.clone() });
            }
        }
        let missing = gate::missing(&state);
        if !missing.is_empty() {
            self.tampered = Some(format!("tampered: the alignment has lost {}", missing.join(", ")));
        }
        let now = self.ledger.now();
        self.ledger = Ledger::open(state, now);
        self.replaced = true;
        self.drop_stale_attempts();
        let flying = self.flight.atoms();
        let orphan = |index: &usize| !flying.contains(&self.ledger.atom(*index).id);
        let orphans: Vec<usize> = self.ledger.frontier().in_progress().filter(orphan).collect();
        self.ledger.reset_all(orphans);
        if self.phase == Phase::Running && self.state().control.status != LoopStatus::Running {
            self.restore_status();
        }
        self.base_case = None;
        self.plan = PlanFor::Unasked;
        self.judges = None;
        self.awaiting_person.clear();
        self.findings.clear();
        self.check_errors.clear();
    }

    /// A status typed in by hand is a wish at most: `completed` is not believed, `stopped` is a stop.
    fn restore_status(&mut self) {
        match self.state().control.status {
            LoopStatus::Stopped => self.ledger.record(Change::StopRequested { reason: None, now: false }),
            LoopStatus::Completed | LoopStatus::Pending | LoopStatus::Running => {
                self.ledger.record(Change::StatusRestored);
                self.evaluation_due = true;
            }
        }
    }
}
