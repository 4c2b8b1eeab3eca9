//! When an agent of a session, or the session itself, wants to end: whether it is sent back, with what, or let go. Whether
//! the loop goes on is the coordinator's decision.

use aot_core::coordinator::StopMode;
use aot_core::hook::{HostRole, Instruction, LoopFacts, TurnReport};
use aot_core::rules::{Ledger, Refusal};
use aot_core::state::{AtomStatus, LoopStatus, State};
use aot_runner::session::{self, SessionMemory, StepReport};
use aot_runner::store::{Store, hold};

use super::client::{self, HookInput, Words};
use super::{Untold, text};
use crate::commands::{Invocation, session as step};
use crate::failure::Failure;

/// A coordinator is let go after so many turns, because its memory is full of what is over.
const MAX_COORDINATOR_TURNS: u32 = 5;

/// The client ends a turn after eight refusals in a row, so the loop stops before that. With the default limits its own
/// rules stop it first.
const MAX_IDLE_STOPS: u32 = 6;

/// How often an agent is asked again for an answer in the right form; then it is let go.
const MAX_REASKS: u32 = 2;

/// The newest coordinator replaces the others. It alone reads what is next; the user and the session need not.
pub fn agent_started(facts: &LoopFacts, input: &HookInput, mut store: Store) {
    if input.role() != Some(HostRole::Coordinator) || input.agent_id.is_none() {
        return;
    }
    let seen = step::remember(&store, &input.session_id, |note| {
        note.set_coordinator(Some(input.agent()));
        note.seen.clone()
    });
    if !facts.is_running() || facts.redirecting {
        return;
    }
    let Ok((_, state)) = store.load::<Refusal>() else { return };
    client::add_context("SubagentStart", &text::instruction(&instruction(state.clone(), &seen)));
}

pub fn agent_ended(invocation: &Invocation, facts: &LoopFacts, input: &HookInput, store: Store) {
    match input.role() {
        None => {}
        Some(HostRole::Coordinator) => coordinator_ended(invocation, facts, input, store),
        Some(role) => {
            let answered = check_answer(facts, input, role, &store);
            if answered == Answered::LetGo && role == HostRole::Worker {
                step::remember(&store, &input.session_id, |note| note.worker_ended(input.agent()));
            }
        }
    }
}

#[derive(PartialEq, Eq)]
enum Answered {
    LetGo,
    AskedAgain,
}

fn check_answer(facts: &LoopFacts, input: &HookInput, role: HostRole, store: &Store) -> Answered {
    // Nobody waits for the answer of an attempt that was taken away.
    let discarded = is_discarded(facts, &step::memory_of(store, &input.session_id), input.agent());
    if !facts.is_running() || facts.redirecting || discarded {
        return Answered::LetGo;
    }
    let message = input.last_assistant_message.as_deref().unwrap_or_default();
    let Err(fault) = role.check_answer(message) else { return Answered::LetGo };
    let asked = step::remember(store, &input.session_id, |note| {
        SessionMemory::count(&mut note.reasked, input.agent())
    });
    if asked > MAX_REASKS {
        return Answered::LetGo;
    }
    client::send_back(&text::wrong_form(role, &fault));
    Answered::AskedAgain
}

/// Whether an agent works on what nobody wants any more: in a tree whose attempt has ended, or as a coordinator that was
/// replaced. The session does not wait for it.
fn is_discarded(facts: &LoopFacts, note: &SessionMemory, agent: &str) -> bool {
    note.is_replaced_coordinator(agent) || note.tree_of(agent).is_some_and(|tree| !facts.has_tree(tree))
}

fn coordinator_ended(invocation: &Invocation, facts: &LoopFacts, input: &HookInput, mut store: Store) {
    let note = step::memory_of(&store, &input.session_id);
    let waits = input.waits_for_agents(&|task| is_discarded(facts, &note, task.id()));
    if waits || note.is_replaced(input.agent()) || !is_unfinished(facts, &store) {
        return;
    }
    if let Some(reminder) = reminder(&mut store, input) {
        return client::send_back(&text::instruction(&reminder));
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
    let note = step::memory_of(&store, &input.session_id);
    let waits = input.has_running_task(&|task| is_discarded(facts, &note, task.id()));
    if waits || !is_unfinished(facts, &store) {
        return tell(input, &store);
    }
    if facts.redirecting && hold::holder(store.file().home()).is_some() {
        return client::show_user(text::HELD);
    }
    if let Some(reminder) = reminder(&mut store, input) {
        step::remember(&store, &input.session_id, |note| note.seen.notes.clear());
        return send_session_back(&store, input, &reminder);
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
        Ok(None) => instruction(state, &note.seen),
        Ok(Some(StepReport { halted: None, next: Some(next), .. })) => next,
        Ok(Some(_)) => {
            let Ok(store) = invocation.store() else { return };
            return tell(input, &store);
        }
    };
    let Ok(store) = invocation.store() else { return };
    step::remember(&store, &input.session_id, |note| {
        note.sent_back = true;
        note.idle = idle;
    });
    send_session_back(&store, input, &next);
}

/// The session goes on. What the coordinator has to know, it learns when it begins; the person reads one sentence.
fn send_session_back(store: &Store, input: &HookInput, next: &Instruction) {
    let user = Untold::take(store, input).for_user();
    client::say("Stop", &Words { model: Some(text::start_coordinator(next)), user });
}

/// Whether the loop runs as far as the program knows: a `completed` that was typed into the file does not end it.
fn is_unfinished(facts: &LoopFacts, store: &Store) -> bool {
    let typed = facts.status == LoopStatus::Completed
        && step::memory_of(store, facts.session.as_deref().unwrap_or_default()).left_running();
    facts.is_running() || typed
}

/// What is still in progress when a turn is about to be judged. It is said once in each iteration, so that no finished
/// work is thrown away.
fn reminder(store: &mut Store, input: &HookInput) -> Option<Instruction> {
    let state = store.load::<Refusal>().ok()?.1.clone();
    let control = &state.control;
    let seen = step::memory_of(store, &input.session_id).seen;
    let open = state.atoms.values().any(|atom| atom.status == AtomStatus::InProgress);
    if !open || control.status != LoopStatus::Running || control.redirect_requested {
        return None;
    }
    let iteration = control.iteration;
    let before = step::remember(store, &input.session_id, |note| note.reminded.replace(iteration));
    (before != Some(iteration)).then(|| instruction(state, &seen))
}

/// What is next, as the file and the last judgement say.
fn instruction(state: State, seen: &TurnReport) -> Instruction {
    Instruction::of(&Ledger::open(state, jiff::Timestamp::now()), seen)
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
    let mut came = step::end_turn(invocation, store)?;
    if state.control.redirect_requested {
        // A person is in a dialogue about the loop, so no agent is sent back to work.
        came.next = None;
    }
    Ok(came)
}

/// Tells once how the loop ended. The model hears it too, and speaks again if it has spoken already; the client shows the
/// user what the model is told here, so that is one sentence.
fn tell(input: &HookInput, store: &Store) {
    let untold = Untold::take(store, input);
    let model = untold.end.as_ref().map(text::tell_user);
    client::say("Stop", &Words { model, user: untold.for_user() });
}

fn show_failure(failure: &Failure) {
    client::show_user(&format!("aot: {}. {}", failure.message(), failure.hint()));
}
