//! Time that is used up in a session: no process of ours waits there, so the next hook that fires looks at the clock. What
//! follows from it is decided elsewhere.

use aot_core::coordinator::JobOutcome;
use aot_core::hook::{LoopFacts, tree_of};
use aot_core::rules::Refusal;
use aot_core::state::AtomId;
use aot_runner::session;
use aot_runner::store::Store;
use jiff::Timestamp;

use super::client::HookInput;
use crate::commands::{Invocation, session as step};
use crate::failure::{self, Failure};
use crate::screens::clock;

/// Stops the loop if its time is used up, and fails attempts whose time is. Returns the loop as it is then, if anything
/// was due. Only agents of the loop are looked at: a person who talks with the session is not interrupted.
pub fn end_what_is_due(
    invocation: &Invocation,
    facts: &LoopFacts,
    input: &HookInput,
    store: &Store,
) -> Option<(LoopFacts, Store)> {
    if !facts.is_running() || input.role().is_none() {
        return None;
    }
    let note = step::memory_of(store, &input.session_id);
    let now = Timestamp::now();
    let seconds_since = |then: Timestamp| u64::try_from(now.duration_since(then).as_secs()).unwrap_or(0);
    let spent = facts.seconds_spent.saturating_add(note.counted.map_or(0, seconds_since));
    let overdue = |(atom, attempt): &&(AtomId, u32)| {
        let began = note.began.get(&tree_of(atom, *attempt));
        began.is_some_and(|began| seconds_since(*began) >= facts.attempt_seconds)
    };
    let overdue: Vec<&AtomId> = facts.in_progress.iter().filter(overdue).map(|(atom, _)| atom).collect();
    if spent < facts.max_seconds && overdue.is_empty() {
        return None;
    }
    // What cannot be done now is due at the next hook.
    if let Err(failure) = end(invocation, facts, spent, &overdue) {
        failure::complain(&format!("aot: {}", failure.message()));
    }
    let mut store = invocation.store().ok()?;
    let facts = store.loop_facts::<Refusal>().ok()?;
    Some((facts, store))
}

fn end(invocation: &Invocation, facts: &LoopFacts, spent: u64, overdue: &[&AtomId]) -> Result<(), Failure> {
    if spent >= facts.max_seconds {
        let (store, run_config) = step::open(invocation)?;
        session::wake(store, run_config)?;
        return Ok(());
    }
    for atom in overdue {
        let (store, run_config) = step::open(invocation)?;
        let reason = format!("its time is used up: {}", clock::span(facts.attempt_seconds));
        session::fail(store, run_config, atom, JobOutcome::Failed { reason })?;
    }
    Ok(())
}
