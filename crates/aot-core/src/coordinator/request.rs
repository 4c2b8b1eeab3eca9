//! A host that dispatches by itself: the coordinator allows or refuses each start, and the iteration is judged when
//! the host's turn ends. The rules are those of the loop that fills its own slots.

use super::protocol::Effect;
use super::{Coordinator, Dispatch, Phase};
use crate::rules::converge::Parking;
use crate::rules::plan;
use crate::rules::{Change, Ledger, backtrack, converge};
use crate::state::AtomId;

impl Coordinator {
    /// A refused start changes nothing (D8): the iteration that it would close is closed on a copy first.
    pub(super) fn start_asked(&mut self, atom: AtomId) {
        let mut closed = None::<Ledger>;
        if converge::is_over(&self.ledger, 1, Parking::Free) {
            converge::close(closed.insert(self.ledger.clone()));
        }
        let running = self.flight.atoms();
        let ledger = closed.as_ref().unwrap_or(&self.ledger);
        match plan::may_start(ledger, &self.dispatch_inputs(&running), self.seconds_spent(), atom) {
            Ok(pick) => {
                if let Some(closed) = closed {
                    self.ledger = closed;
                }
                self.begin(pick);
            }
            Err(refusal) => self.effects.push(Effect::Refuse(refusal)),
        }
    }

    /// The host's coordinator agent has ended: what is open closes; if nothing was begun, that is a stall.
    pub(super) fn turn_ended(&mut self) {
        if self.settings.dispatch != Dispatch::OnRequest {
            return;
        }
        let control = &self.state().control;
        if control.stop_requested || control.redirect_requested {
            return;
        }
        // A redirect or a verb beside the session may have left a parent without work.
        backtrack::repair(&mut self.ledger);
        let untried = converge::left_untried(&self.ledger);
        let control = &self.state().control;
        if control.open.is_none() && control.iteration < self.state().constraints().max_iterations {
            self.ledger.record(Change::IterationOpened);
        }
        if self.state().control.open.is_some() {
            self.close();
        }
        // The close may have seen progress that a person brought.
        if untried && converge::left_untried(&self.ledger) {
            self.require_stop(converge::stall_limit_reached(&self.ledger));
        }
        self.phase = Phase::Running;
    }

    /// A host's turn that outlasts the wall time is judged like any other moment: the loop stops (D12).
    pub(super) fn end_host_turn_if_out_of_time(&mut self) {
        if self.phase == Phase::HostTurn && self.is_out_of_time() {
            self.phase = Phase::Running;
        }
    }
}
