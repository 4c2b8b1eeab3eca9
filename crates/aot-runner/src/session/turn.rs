//! The end of a turn from which nothing follows but that the loop goes on: it is judged in the state file alone. Starts no
//! process, reads no settings.

use aot_core::coordinator::{Coordinator, Effect, Event, Trees};
use aot_core::hook::{Instruction, TurnReport};
use aot_core::rules::{Change, bound};
use aot_core::state::{LoopStatus, State};
use jiff::Timestamp;

use super::{SessionMemory, StepReport, counts_time, resume, take_turn};
use crate::checks::seal;
use crate::engine::RunError;
use crate::store::Store;
use crate::tree::Project;

/// A turn that was judged: the loop after it, and what that changes.
struct Judged {
    coordinator: Coordinator,
    changes: Vec<Change>,
}

/// Why a turn is not judged here: something is to be done in the world.
struct NeedsWorld;

/// Judges a turn that has ended. `None` if more is to be done than to write: what runs is to be given up, the base case to be
/// evaluated, the loop to be ended, or something is wrong. Then nothing was changed.
pub(super) fn judge_in_file(store: &mut Store, project: &Project) -> Result<Option<StepReport>, RunError> {
    let _turn = take_turn(store)?;
    let now = Timestamp::now();
    let judged = store.change("judge a turn", now, |ledger| {
        let judged = judge(ledger.state(), project, now).ok_or(NeedsWorld)?;
        judged.changes.iter().for_each(|change| ledger.record(change.clone()));
        Ok::<Judged, NeedsWorld>(judged)
    });
    // A file that cannot be read or written is met again, and told, by the step that has the world.
    let Ok(recorded) = judged else { return Ok(None) };
    let Judged { coordinator, changes } = recorded.value;
    let notes = recorded.notes.iter().map(ToString::to_string).collect();
    let seen = TurnReport { notes, ..TurnReport::default() };
    let state = coordinator.state();
    let (iteration, left) = (state.control.iteration, bound::hosted(state).agent_runs);
    let session = state.control.session.clone().unwrap_or_default();
    SessionMemory::change(&project.sidecar, &session, |memory| {
        if changes.iter().any(counts_time) {
            memory.counted = Some(now);
        }
        memory.turn_ended();
        memory.seen = seen.clone();
        memory.running = true;
        memory.note_changes(&changes, iteration, left);
    });
    let next = Some(Instruction::of(coordinator.ledger(), &seen));
    Ok(Some(StepReport { changes, seen, next, ..StepReport::default() }))
}

/// What the rules make of it, if nothing runs and nothing is to be started, landed, evaluated or ended.
fn judge(state: &State, project: &Project, now: Timestamp) -> Option<Judged> {
    let control = &state.control;
    if control.status != LoopStatus::Running || control.redirect_requested {
        return None;
    }
    let agreed = control.fingerprint.as_ref();
    if agreed.is_some_and(|agreed| seal::altered_base_case(&state.objective, agreed, project).is_some()) {
        return None;
    }
    let memory = SessionMemory::of(&project.sidecar, control.session.as_deref().unwrap_or_default());
    // With nothing under way it makes no difference how many may work at a time.
    let (mut coordinator, typed) = resume(state, &memory, Trees::Separate).ok()?;
    if typed.is_some() || !coordinator.running().is_empty() {
        return None;
    }
    let mut changes = Vec::new();
    for effect in coordinator.on(Event::TurnEnded, now) {
        match effect {
            Effect::Record(recorded) => changes = recorded,
            // The next process of the session looks at the clock.
            Effect::WakeAt(_) => {}
            Effect::Start(_)
            | Effect::Kill(_)
            | Effect::Land(_)
            | Effect::Verify { .. }
            | Effect::Revert { .. }
            | Effect::Refuse(_)
            | Effect::Halt(_) => return None,
        }
    }
    Some(Judged { coordinator, changes })
}
