//! A host that dispatches by itself: the coordinator allows or refuses each start, and the iteration is judged when
//! the host's turn ends. The rules are those of the loop that fills its own slots.

use super::protocol::Effect;
use super::{Coordinator, Dispatch, Trees};
use crate::rules::plan::{self, Bar};
use crate::rules::{Change, Refusal, converge};
use crate::state::AtomId;

impl Coordinator {
    pub(super) fn start_asked(&mut self, atom: AtomId) {
        let results = self.state().control.open.as_ref().map_or(0, |open| open.results);
        if results >= self.state().constraints().max_parallel_agents {
            converge::close(&mut self.ledger);
        }
        match self.allowed(&atom) {
            Ok(()) => {
                let pick = plan::pick(&self.ledger, &self.inputs(&[]), atom);
                self.begin(pick);
            }
            Err(refusal) => self.effects.push(Effect::Refuse(refusal)),
        }
    }

    fn allowed(&self, atom: &AtomId) -> Result<(), Refusal> {
        let state = self.state();
        let constraints = state.constraints();
        let index = self.ledger.index(atom)?;
        if !self.ledger.frontier().is_due(index) {
            crate::rules::advance::may_start(&self.ledger, index)?;
        }
        let bar = plan::barred(&self.ledger, &self.inputs(&self.flight.atoms()), index);
        match bar {
            None => {}
            Some(Bar::StartedAlready) => return Err(Refusal::StartedAlready(atom.clone())),
            Some(Bar::BeingReplanned) => return Err(Refusal::BeingReplanned(atom.clone())),
            Some(Bar::AwaitingPerson) => return Err(Refusal::AwaitingPerson(atom.clone())),
            Some(Bar::NoAgent) => return Err(Refusal::NoAgent(atom.clone())),
            Some(Bar::StallLimit) => return Err(Refusal::GivenUp(atom.clone())),
            Some(Bar::Conflict(with)) => return Err(Refusal::InTheWay { atom: atom.clone(), with }),
        }
        let parallel = match self.settings.trees {
            Trees::Separate => constraints.max_parallel_agents,
            Trees::Shared => 1,
        };
        if self.flight.len() >= parallel as usize {
            return Err(Refusal::SlotsFull(parallel));
        }
        let starts = plan::starts_per_iteration(constraints.max_parallel_agents);
        match &state.control.open {
            None if state.control.iteration >= constraints.max_iterations => {
                return Err(Refusal::IterationLimit(constraints.max_iterations));
            }
            Some(open) if open.started.len() >= starts => return Err(Refusal::IterationFull(starts)),
            None | Some(_) => {}
        }
        Ok(())
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
        // At the stall limit what may still be tried is tried, or the loop is over (D11).
        let limit = self.state().constraints().max_stall_count;
        let idle = control.open.as_ref().is_none_or(|open| open.started.is_empty());
        let opens = control.open.is_none() && control.iteration < self.state().constraints().max_iterations;
        if control.stall_count >= limit && idle && self.ledger.frontier().unresolved() > 0 {
            self.blocked.get_or_insert(converge::stall_limit_reached(limit));
        }
        if opens {
            self.ledger.record(Change::IterationOpened);
        }
        if self.state().control.open.is_some() {
            converge::close(&mut self.ledger);
            self.evaluation_due |= converge::verifies_each(&self.ledger);
        }
        self.turn_is_over = true;
    }
}
