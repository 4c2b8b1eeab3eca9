//! What resolves, lands, is undone and is reverted, and what stands in the trail (D2, D3, D5, D23, D25, D30).

use aot_core::coordinator::{
    CheckOutcome, Dispatch, Event, JobId, JobOutcome, StopMode, Task, UnrecordedLanding,
};
use aot_core::state::{AtomId, AtomStatus, Closes, LoopStatus, State};

use super::{Arrival, Audit, Checked, children_resolved, ensure, failed_atom, index};
use crate::describe;
use crate::world::{Phase, World};

impl Audit {
    pub(super) fn resolves_what_was_seen(&self, state: &State, atom: &AtomId, event: &Event) -> Checked {
        let index = index(state, atom)?;
        let seen = match event {
            Event::Landed { job, .. } => job.task == Task::Work(atom.clone()),
            Event::Begun { unrecorded: found, .. } => found.iter().any(|found| found.atom == *atom),
            Event::Ended { job, outcome: JobOutcome::Done { check: CheckOutcome::Pass, .. }, .. } => {
                job.task == Task::Check(atom.clone())
            }
            _ => false,
        };
        if !self.graph.is_decomposed(index) {
            return ensure(seen, "an atom resolves when its work has landed", "D23", || format!("{atom}"));
        }
        let children = children_resolved(&self.graph, state, index);
        ensure(children, "a parent resolves after its children", "D3", || format!("{atom}"))?;
        let checked = state.atoms[index].check.is_none() || seen;
        ensure(checked, "a parent's check is seen to pass", "D3, D22", || format!("{atom}"))
    }

    pub(super) fn notes_what_is_undone(&mut self, state: &State, atom: &AtomId) {
        if state.atoms.get(atom).is_some_and(|atom| atom.status == AtomStatus::Resolved) {
            // What only an agent claimed, without any change, was not verified; its parents go with it (D33).
            let is_unchanged = state.bindings.get(atom).is_some_and(|binding| binding.unchanged);
            let is_claim = state.atoms.get(atom).is_some_and(|entry| {
                let by_agent = is_unchanged && entry.run.is_none();
                entry.check.is_none() && (by_agent || state.decomposition_of(atom).is_some())
            });
            if !is_claim {
                self.current.undone.push(atom.clone());
            }
            if let Some(commit) = state.bindings.get(atom).and_then(|binding| binding.commit.clone()) {
                self.current.commits_undone.push((atom.clone(), commit));
            }
        }
    }

    pub(super) fn lands_one_of_a_race(&self, world: &World, job: &JobId) -> Checked {
        let state = world.recorded();
        let group = |id: &JobId| {
            let index = state.atoms.get_index_of(id.task.atom()?)?;
            self.graph.group_of(index)
        };
        let mut landing = world.flights().iter().filter(|flight| flight.phase == Phase::Landing);
        let rival = group(job).and_then(|mine| landing.find(|flight| group(&flight.job.id) == Some(mine)));
        ensure(rival.is_none(), "one of a race lands at a time", "D25", || format!("{job:?}"))
    }

    /// What landed before a crash is not done again; what is not wanted any more is taken back.
    pub(super) fn recognises_what_landed(&self, world: &World, event: &Event) -> Checked {
        let Event::Begun { unrecorded: found, .. } = event else { return Ok(()) };
        let state = world.recorded();
        for UnrecordedLanding { atom, binding, .. } in found {
            let Some(index) = state.atoms.get_index_of(atom) else { continue };
            if state.atoms[index].status == AtomStatus::Resolved {
                continue;
            }
            let unwanted = self.graph.is_dormant(state, index)
                || self.graph.under_failed_choice(state, index)
                || self.graph.is_decomposed(index)
                || self.graph.waits_on(state, index).is_some();
            ensure(unwanted, "what landed before a crash is not done again", "D23", || format!("{atom}"))?;
            let kept = world.branch().iter().any(|commit| commit.binding == *binding);
            ensure(!kept, "nothing stays landed that is not wanted", "D23", || format!("{atom}"))?;
        }
        Ok(())
    }

    /// In progress is what flies, or waits for looks beside it, and nothing else.
    pub(super) fn in_progress_is_what_runs(&self, world: &World) -> Checked {
        let state = world.recorded();
        for atom in state.atoms.values().filter(|atom| atom.status == AtomStatus::InProgress) {
            let flies = world.flights().iter().any(|flight| flight.job.id.task.atom() == Some(&atom.id))
                || self.probes.awaited().any(|(awaited, _)| awaited == atom.id);
            ensure(flies, "what is in progress runs", "D7", || format!("{}", atom.id))?;
        }
        for flight in world.flights() {
            let id = &flight.job.id;
            let Some(atom) = id.task.atom().filter(|_| !self.probes.is_parallel(id)) else { continue };
            let marked = state.atoms.get(atom).is_some_and(|atom| atom.status == AtomStatus::InProgress);
            ensure(marked, "what runs is in progress", "D7", || format!("{atom}"))?;
        }
        Ok(())
    }

    pub(super) fn resolves_parents_with_their_children(&self, state: &State, event: &Event) -> Checked {
        let resolved =
            state.atoms.values().enumerate().filter(|(_, atom)| atom.status == AtomStatus::Resolved);
        for (index, atom) in resolved {
            let whole = !self.graph.is_decomposed(index) || children_resolved(&self.graph, state, index);
            ensure(whole, "undoing a child undoes the parent", "D3", || format!("{}", atom.id))?;
        }
        let waits_for_nothing = |index: &usize| {
            state.atoms[*index].status == AtomStatus::Pending
                && state.atoms[*index].check.is_none()
                && self.graph.is_decomposed(*index)
                && children_resolved(&self.graph, state, *index)
                && !self.graph.is_dormant(state, *index)
                && !self.graph.under_failed_choice(state, *index)
        };
        // While a redirect is made, and after a refusal to go on, nothing is brought in order.
        // What another process wrote beside a host is brought in order when the turn ends.
        let due = self.dispatch == Dispatch::Rolling || matches!(event, Event::TurnEnded);
        let at_work = due && state.control.status == LoopStatus::Running && !state.control.redirect_requested;
        let left = (0..state.atoms.len()).filter(|_| at_work).find(waits_for_nothing);
        ensure(left.is_none(), "a parent resolves with its last child", "D3", || {
            format!("{:?}", left.map(|index| &state.atoms[index].id))
        })
    }

    /// Backtracking may select a cycle, which is a deadlock then; nothing else makes one.
    pub(super) fn has_no_cycle(&self, state: &State) -> Checked {
        if !self.current.reshaped || self.current.backtracked {
            return Ok(());
        }
        let cycle = self.graph.cycles(state).into_iter().find(|cycle| cycle.closes == Closes::Now);
        ensure(cycle.is_none(), "no change of plan makes a cycle", "D5", || format!("{cycle:?}"))
    }

    pub(super) fn undoes_with_a_reason(&self, event: &Event) -> Checked {
        let by_a_person = matches!(event, Event::Edited { .. } | Event::Redirected { .. });
        let allowed = self.current.undone.is_empty() || self.current.backtracked || by_a_person;
        ensure(allowed, "nothing verified is undone without a backtrack or a redirect", "D2, D31", || {
            format!("{:?} at {}", self.current.undone, describe::event_line(event))
        })
    }

    pub(super) fn reverts_what_is_undone(&self, event: &Event) -> Checked {
        if matches!(event, Event::Edited { .. } | Event::Redirected { .. }) {
            return Ok(());
        }
        let missing =
            self.current.commits_undone.iter().find(|undone| !self.current.reverted.contains(undone));
        ensure(missing.is_none(), "what is undone is reverted", "D23", || format!("{missing:?}"))
    }

    pub(super) fn writes_the_trail(&self, world: &World, event: &Event) -> Checked {
        let Some(atom) = failed_atom(event) else { return Ok(()) };
        if self.current.arrival == Arrival::Late || !world.recorded().atoms.contains_key(atom) {
            return Ok(());
        }
        let noted = self.current.failures_noted.contains(atom)
            || self.current.selections.iter().any(|reason| reason.contains(atom.as_str()));
        ensure(noted, "each failure stands in the trail", "D30", || {
            format!("{atom} at {}", describe::event_line(event))
        })
    }

    /// What a killed job says changes nothing, and what it landed is taken back.
    pub(super) fn ignores_killed_jobs(&self, world: &World, event: &Event) -> Checked {
        let job = match (self.current.arrival, event) {
            (Arrival::Late, Event::Ended { job, .. } | Event::Landed { job, .. }) => job,
            (Arrival::Late | Arrival::Expected, _) => return Ok(()),
        };
        let acted = job.task.atom().is_some_and(|atom| self.current.acted.contains(atom));
        ensure(!acted || world.halted().is_some(), "the word of a killed job is ignored", "D7", || {
            describe::event_line(event)
        })?;
        let landed = matches!(event, Event::Landed { .. })
            && world
                .branch()
                .iter()
                .any(|commit| job.task == Task::Work(commit.atom.clone()) && commit.attempt == job.attempt);
        ensure(!landed, "nothing stays landed that is not wanted", "D23", || describe::event_line(event))
    }
}

pub(super) fn kills_all(world: &World, event: &Event) -> Checked {
    let all = match event {
        Event::RedirectAsked | Event::Tampered { .. } | Event::StopAsked { how: StopMode::Now, .. } => true,
        Event::StopAsked { how: StopMode::Finish, .. } => false,
        Event::Begun { .. }
        | Event::Ended { .. }
        | Event::Landed { .. }
        | Event::Conflict { .. }
        | Event::NotLanded { .. }
        | Event::Verified { .. }
        | Event::Replanned { .. }
        | Event::Spent { .. }
        | Event::AgentRan { .. }
        | Event::Edited { .. }
        | Event::Redirected { .. }
        | Event::RedirectAbandoned
        | Event::Woke
        | Event::StartAsked { .. }
        | Event::TurnEnded => false,
    };
    let left = world.flights().iter().find(|flight| flight.phase != Phase::Landing);
    ensure(!all || left.is_none(), "all that runs is killed", "D13, D16", || {
        format!("{:?} at {}", left.map(|flight| &flight.job.id), describe::event_line(event))
    })
}

/// Whether an attempt came back through nobody's fault.
pub(super) fn is_without_fault(event: &Event) -> bool {
    match event {
        Event::Conflict { .. } | Event::NotLanded { .. } => true,
        Event::Ended { outcome, .. } => match outcome {
            JobOutcome::Lost { .. }
            | JobOutcome::Refused { .. }
            | JobOutcome::Unable { .. }
            | JobOutcome::NotStarted { .. } => true,
            JobOutcome::Done { check, .. } => {
                matches!(check, CheckOutcome::Error { .. } | CheckOutcome::Pending { .. })
            }
            JobOutcome::Failed { .. } | JobOutcome::TooLarge { .. } | JobOutcome::Probed { .. } => false,
        },
        Event::Begun { .. }
        | Event::Landed { .. }
        | Event::Verified { .. }
        | Event::Replanned { .. }
        | Event::Spent { .. }
        | Event::AgentRan { .. }
        | Event::Edited { .. }
        | Event::Tampered { .. }
        | Event::StopAsked { .. }
        | Event::RedirectAsked
        | Event::Redirected { .. }
        | Event::RedirectAbandoned
        | Event::Woke
        | Event::StartAsked { .. }
        | Event::TurnEnded => false,
    }
}
