//! A past run, told to the shipping stopwatch: what a coordinator may know of how long atoms last.

use aot_core::rules::Change;
use aot_core::rules::durations::{AttemptTime, Durations, Stopwatch};
use aot_core::state::{AgentRun, AtomId, Binding, Graph, Spent, State};
use jiff::Timestamp;

/// One attempt of the past: its atom, its agent, its milliseconds, and whether it failed.
#[derive(Clone, Debug)]
pub struct PastAttempt<'p> {
    pub atom: &'p AtomId,
    pub agent: &'p str,
    pub took: u64,
    pub failed: bool,
}

pub fn times(state: &State, past: &[PastAttempt<'_>]) -> Vec<AttemptTime> {
    let (graph, mut stopwatch) = (Graph::new(state), Stopwatch::default());
    let at = |now: u64| Timestamp::from_millisecond(now as i64).expect("a short life");
    for PastAttempt { atom, agent, took, failed } in past {
        let atom = (*atom).clone();
        let run = AgentRun {
            atom: Some(atom.clone()),
            role: "worker".into(),
            agent: (*agent).to_owned(),
            ..AgentRun::default()
        };
        let ran = Change::SpentSoFar { spent: Spent::default(), runs: vec![run] };
        let started = Change::AtomStarted { atom: atom.clone(), attempt: Some(1) };
        stopwatch.follow(state, &graph, &[started], at(0));
        let ended = match failed {
            true => vec![
                Change::AtomReset { atom: atom.clone() },
                Change::FailureNoted { atom, reason: "not done".into() },
            ],
            false => vec![Change::AtomResolved { atom, binding: Binding::default() }],
        };
        stopwatch.follow(state, &graph, &[ended, vec![ran]].concat(), at(*took));
    }
    stopwatch.over
}

pub fn run(state: &State, past: &[PastAttempt<'_>]) -> Durations {
    Durations::of(&times(state, past), None)
}
