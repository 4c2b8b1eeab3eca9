//! The state came from outside: a person edited the file, or a redirect was made. What is in flight is compared with
//! it, and what was remembered is forgotten.

use super::protocol::Effect;
use super::{Coordinator, Phase};
use crate::rules::certificate::StopKind;
use crate::rules::memory::Forget;
use crate::rules::{Change, Ledger, backtrack, converge, gate, redirect};
use crate::state::{LoopStatus, State};

impl Coordinator {
    pub(super) fn edited(&mut self, state: State) {
        let tampered = redirect::tampering(self.state(), &state);
        let corrections = redirect::by_hand(self.state(), &state);
        let before = self.ledger.frontier().unresolved();
        let counted = self.state().control.prev_pending_count;
        self.replace(state);
        // A verb in another process has moved the count with its change; an editor has not.
        let moved = self.state().control.prev_pending_count - counted;
        self.base_case.edited();
        // A stall that waits for an evaluation is over if a person has raised the limit meanwhile.
        let may_go_on = self.state().control.stall_count < self.state().constraints().max_stall_count;
        self.must_stop.take_if(|stop| may_go_on && stop.verdict == StopKind::Stalled);
        if let Some(what) = tampered {
            self.require_stop(converge::tampered(what));
        }
        for change in corrections {
            self.ledger.record(change);
        }
        let by = self.ledger.frontier().unresolved() as i64 - before as i64 - moved;
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
        self.base_case.interrupted(&self.ledger);
        if self.state().control.redirect_requested {
            self.ledger.record(Change::RedirectEnded);
        }
        self.must_stop.take_if(|stop| matches!(stop.verdict, StopKind::Tampered | StopKind::NoAgent { .. }));
        self.require_agents();
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
            let what = format!("tampered: the alignment has lost {}", missing.join(", "));
            self.require_stop(converge::tampered(what));
        }
        let now = self.ledger.now();
        let durations = self.ledger.durations().clone();
        self.ledger = Ledger::open(state, now);
        self.ledger.expect(durations);
        self.drop_attempts_not_in_state();
        let flying = self.flight.atoms();
        let orphan = |index: &usize| !flying.contains(&self.ledger.atom(*index).id);
        let orphans: Vec<usize> = self.ledger.frontier().in_progress().filter(orphan).collect();
        self.ledger.reset_all(orphans);
        if self.is_under_way() && self.state().control.status != LoopStatus::Running {
            self.restore_status();
        }
        self.rates = None;
        self.memory.forget(Forget::StateReplaced);
        self.forget_evaluations();
        // The file says nothing that an evaluation under way would see otherwise.
        self.evaluations.outdated |= self.verifying().is_none();
    }

    /// A status that a person typed is checked: `completed` is evaluated, `stopped` is taken as a request to stop.
    fn restore_status(&mut self) {
        match self.state().control.status {
            LoopStatus::Stopped => self.ledger.record(Change::StopRequested { reason: None, now: false }),
            LoopStatus::Completed | LoopStatus::Pending | LoopStatus::Running => {
                self.ledger.record(Change::StatusRestored);
                self.base_case.ask();
            }
        }
    }
}
