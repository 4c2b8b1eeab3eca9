//! When an agent of a session, or the session itself, wants to end: whether it is sent back, with what, or let go. Whether
//! the loop goes on is the coordinator's decision.

use aot_core::coordinator::StopMode;
use aot_core::hook::{HostRole, Instruction, LoopFacts, TurnReport};
use aot_core::rules::{Ledger, Refusal};
use aot_core::state::{AtomStatus, LoopStatus, State};
use aot_runner::session::{self, SessionMemory, StepReport};
use aot_runner::store::Store;

use super::client::{self, HookInput};
use super::text;
use crate::commands::{Invocation, session as step};
use crate::failure::Failure;

/// A coordinator is let go after so many turns, because its memory is full of what is over.
const MAX_COORDINATOR_TURNS: u32 = 5;

/// The client ends a turn after eight refusals in a row, so the loop stops before that. With the default limits its own
/// rules stop it first.
const MAX_IDLE_STOPS: u32 = 6;

/// How often an agent is asked again for an answer in the right form; then it is let go.
const MAX_REASKS: u32 = 2;

/// The newest coordinator replaces the others.
pub fn agent_started(input: &HookInput, store: &Store) {
    if input.role() == Some(HostRole::Coordinator) && input.agent_id.is_some() {
        step::remember(store, &input.session_id, |note| note.set_coordinator(Some(input.agent())));
    }
}

pub fn agent_ended(invocation: &Invocation, facts: &LoopFacts, input: &HookInput, store: Store) {
    match input.role() {
        None => {}
        Some(HostRole::Coordinator) => coordinator_ended(invocation, facts, input, store),
        Some(role) => check_answer(facts, input, role, &store),
    }
}

fn check_answer(facts: &LoopFacts, input: &HookInput, role: HostRole, store: &Store) {
    if !facts.is_running() || facts.redirecting {
        return;
    }
    let message = input.last_assistant_message.as_deref().unwrap_or_default();
    let Err(fault) = role.check_answer(message) else { return };
    let asked = step::remember(store, &input.session_id, |note| {
        SessionMemory::count(&mut note.reasked, input.agent())
    });
    if asked <= MAX_REASKS {
        client::send_back(&text::wrong_form(role, &fault));
    }
}

fn coordinator_ended(invocation: &Invocation, facts: &LoopFacts, input: &HookInput, mut store: Store) {
    let replaced = step::memory_of(&store, &input.session_id).is_replaced(input.agent());
    if input.waits_for_agents() || replaced || !is_unfinished(facts, &store) {
        return;
    }
    if let Some(reminder) = reminder(&mut store, input) {
        return client::send_back(&reminder);
    }
    let sidecar = store.file().home().sidecar().to_path_buf();
    let came = match end_turn(invocation, store) {
        Ok(came) => came,
        Err(failure) => return show_failure(&failure),
    };
    // The user does not see what is said to an agent, so the end is shown when the session's own turn ends.
    let Some(next) = came.next.filter(|_| came.halted.is_none()) else { return };
    let goes_on = SessionMemory::change(&sidecar, &input.session_id, |note| {
        note.idle = 0;
        let goes_on = SessionMemory::count(&mut note.rounds, input.agent()) < MAX_COORDINATOR_TURNS;
        if !goes_on {
            note.set_coordinator(None);
        }
        goes_on
    });
    if goes_on {
        client::send_back(&text::instruction(&next));
    }
}

pub fn session_ends_turn(invocation: &Invocation, facts: &LoopFacts, input: &HookInput, mut store: Store) {
    if input.has_running_task() {
        return;
    }
    if !is_unfinished(facts, &store) {
        return show_end(input, &store);
    }
    if let Some(reminder) = reminder(&mut store, input) {
        return client::send_back(&text::start_coordinator(&reminder));
    }
    let Ok((_, state)) = store.load::<Refusal>() else { return };
    let state = state.clone();
    let note = step::memory_of(&store, &input.session_id);
    // A session that was sent back and ended again, or that coordinated by itself, has had a turn.
    let had_turn = note.sent_back || must_be_judged(&state);
    let idle = if note.sent_back { note.idle + 1 } else { 0 };
    let came = match (had_turn, idle >= MAX_IDLE_STOPS) {
        (_, true) => stop_idle_session(invocation, store, idle).map(Some),
        (true, false) => end_turn(invocation, store).map(Some),
        (false, false) => Ok(None),
    };
    let next = match came {
        Err(failure) => return show_failure(&failure),
        Ok(None) => instruction(state),
        Ok(Some(StepReport { halted: None, next: Some(next), .. })) => next,
        Ok(Some(_)) => {
            let Ok(store) = invocation.store() else { return };
            return show_end(input, &store);
        }
    };
    let Ok(store) = invocation.store() else { return };
    step::remember(&store, &input.session_id, |note| {
        note.sent_back = true;
        note.idle = idle;
    });
    client::send_back(&text::start_coordinator(&text::instruction(&next)));
}

/// Whether the loop runs as far as the program knows: a `completed` that was typed into the file does not end it.
fn is_unfinished(facts: &LoopFacts, store: &Store) -> bool {
    let typed = facts.status == LoopStatus::Completed
        && step::memory_of(store, facts.session.as_deref().unwrap_or_default()).left_running();
    facts.is_running() || typed
}

/// What is still in progress when a turn is about to be judged. It is said once in each iteration, so that no finished
/// work is thrown away.
fn reminder(store: &mut Store, input: &HookInput) -> Option<String> {
    let state = store.load::<Refusal>().ok()?.1.clone();
    let control = &state.control;
    let open = state.atoms.values().any(|atom| atom.status == AtomStatus::InProgress);
    if !open || control.status != LoopStatus::Running || control.redirect_requested {
        return None;
    }
    let iteration = control.iteration;
    let before = step::remember(store, &input.session_id, |note| note.reminded.replace(iteration));
    (before != Some(iteration)).then(|| text::instruction(&instruction(state)))
}

/// What is next, as the file alone says.
fn instruction(state: State) -> Instruction {
    Instruction::of(&Ledger::open(state, jiff::Timestamp::now()), &TurnReport::default())
}

fn must_be_judged(state: &State) -> bool {
    let control = &state.control;
    control.open.is_some()
        || control.stop_requested
        || control.redirect_requested
        || control.status == LoopStatus::Completed
}

fn stop_idle_session(invocation: &Invocation, mut store: Store, idle: u32) -> Result<StepReport, Failure> {
    let run_config = step::run_config(invocation, store.load()?.1)?;
    let reason = format!("stopped: the session ended its turn {idle} times without doing anything");
    Ok(session::stop(store, run_config, StopMode::Now, Some(reason))?)
}

fn end_turn(invocation: &Invocation, mut store: Store) -> Result<StepReport, Failure> {
    let state = store.load()?.1.clone();
    let mut came = session::turn_ended(store, step::run_config(invocation, &state)?)?;
    if state.control.redirect_requested {
        // A person is in a dialogue about the loop, so no agent is sent back to work.
        came.next = None;
    }
    Ok(came)
}

/// Shows once how the loop ended.
fn show_end(input: &HookInput, store: &Store) {
    if let Some(end) = step::remember(store, &input.session_id, |note| note.end_to_show.take()) {
        client::show_user(&format!("aot: {}", text::halted(&end)));
    }
}

fn show_failure(failure: &Failure) {
    client::show_user(&format!("aot: {}. {}", failure.message(), failure.hint()));
}
