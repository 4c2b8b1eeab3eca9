//! Whether a verdict is true of the state, and whether a loop that goes on waits for something (D12, D13).

use aot_core::rules::certificate::{Budget, Certificate, StopKind};
use aot_core::state::{AtomId, Closes, LoopStatus, State, TrailEntry};

use super::{Audit, Checked, ensure, index, is_spent};
use crate::world::World;

impl Audit {
    pub(super) fn halts(&self, world: &World, certificate: &Certificate) -> Checked {
        let state = world.recorded();
        let control = &state.control;
        let say = || format!("{:?} in {:?}", certificate.verdict, control);
        ensure(world.flights().is_empty(), "nothing runs at a halt", "D13", || {
            format!("{:?}", world.flights().iter().map(|flight| &flight.job.id).collect::<Vec<_>>())
        })?;
        let exit = certificate.exit == certificate.verdict.exit();
        ensure(
            exit && certificate.iterations == control.iteration,
            "a certificate fits the state",
            "D13",
            say,
        )?;
        let completed = certificate.verdict == StopKind::Completed;
        let status = if completed { LoopStatus::Completed } else { LoopStatus::Stopped };
        // A loop without an agent is refused before it starts, and stays as it is (D27).
        let refused = matches!(certificate.verdict, StopKind::NoAgent { .. });
        ensure(refused || control.status == status, "a halt is written", "D13", say)?;
        let reason = refused || completed || control.stop_reason.as_deref() == Some(&*certificate.reason);
        ensure(reason, "the certificate's reason is the file's", "D13", say)?;
        let has_time = control
            .spent
            .as_ref()
            .is_none_or(|spent| spent.seconds < state.constraints().max_wall_time().seconds());
        let looked = !self.unseen || !has_time || !decides_itself(&certificate.verdict);
        ensure(looked, "the loop looks before it halts", "D14", say)?;
        let holds = match &certificate.verdict {
            StopKind::Exhausted { group } => state
                .or_groups
                .get(group)
                .is_some_and(|group| group.choices.iter().all(|choice| group.failed.contains(choice))),
            StopKind::IterationLimit => control.iteration >= state.constraints().max_iterations,
            StopKind::Deadlock { atoms } => {
                !atoms.is_empty()
                    && self.graph.cycles(state).iter().any(|cycle| cycle.closes != Closes::OnSwitch)
                    && self.graph.ready(state).is_empty()
                    && atoms.iter().all(|atom| {
                        index(state, atom).is_ok_and(|index| self.graph.is_unresolved(state, index))
                    })
            }
            StopKind::Stalled => {
                let limit = state.constraints().max_stall_count;
                control.stall_count >= limit
                    || control.fruitless.unwrap_or(0) >= limit
                    || self.graph.unresolved(state) == 0
                    || self
                        .graph
                        .ready(state)
                        .iter()
                        .all(|ready| fails_the_same(state, &state.atoms[*ready].id))
            }
            StopKind::RedirectInterrupted => !control.redirect_requested,
            StopKind::Budget { what: Budget::Allowance } => {
                self.blocked.as_ref() == Some(&certificate.verdict)
            }
            StopKind::Budget { what: Budget::Money | Budget::Tokens | Budget::Time } => is_spent(state),
            StopKind::Completed
            | StopKind::StoppedByHand
            | StopKind::Tampered
            | StopKind::NeedsPerson
            | StopKind::NoAgent { .. } => true,
        };
        // Whoever cannot be asked ends the loop, unless somebody else ended it, or the base case did.
        let told = match (&self.blocked, &certificate.verdict) {
            (None, _) | (_, StopKind::Completed | StopKind::StoppedByHand | StopKind::Tampered) => true,
            (_, StopKind::RedirectInterrupted) => true,
            // With nothing unresolved, what waits for a person in the base case comes first.
            (Some(blocked), verdict) => blocked == verdict || *verdict == StopKind::NeedsPerson,
        };
        ensure(told, "whoever cannot be asked ends the loop", "D12, D13", say)?;
        ensure(holds, "the verdict is true of the state", "D13", say)
    }
}

/// Whether the last two failures of an atom since its plan changed tell the same (D34).
pub(super) fn fails_the_same(state: &State, id: &AtomId) -> bool {
    let mut reasons: Vec<&str> = Vec::new();
    for entry in &state.trail {
        match entry {
            TrailEntry::Failure { atom, reason, .. } if atom == id => reasons.push(reason),
            TrailEntry::Replan { atom, .. } if atom == id => reasons.clear(),
            _ => {}
        }
    }
    matches!(&reasons[..], [.., before, last] if before == last)
}

/// Somebody will tell the coordinator something: nothing sleeps for ever.
pub(super) fn goes_on(world: &World) -> Checked {
    let awaited = world.halted().is_some()
        || !world.flights().is_empty()
        || world.verifying().is_some()
        || world.wake().is_some()
        || world.recorded().control.redirect_requested;
    ensure(awaited, "a loop that has not halted waits for something", "D12, D13", || {
        format!("{:?}", world.recorded().control)
    })
}

/// Whether the loop itself decided to halt, and had the time to look at the base case before.
fn decides_itself(verdict: &StopKind) -> bool {
    match verdict {
        StopKind::Exhausted { .. }
        | StopKind::Stalled
        | StopKind::IterationLimit
        | StopKind::Deadlock { .. }
        | StopKind::NeedsPerson
        | StopKind::NoAgent { .. }
        | StopKind::Budget { what: Budget::Money | Budget::Tokens | Budget::Allowance } => true,
        StopKind::Completed
        | StopKind::StoppedByHand
        | StopKind::RedirectInterrupted
        | StopKind::Tampered
        | StopKind::Budget { what: Budget::Time } => false,
    }
}
