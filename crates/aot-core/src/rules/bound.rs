//! How much can still happen, at most (D8). Computed from the state and what is in flight; it only falls, unless a
//! person redirects or edits.

use serde::{Deserialize, Serialize};

use super::plan::starts_per_iteration;
use crate::state::{AtomStatus, State};

/// The most that a loop can still cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    pub agent_runs: u64,
    /// Of wall time.
    pub seconds: u64,
    /// Without `max_cost_usd` there is no figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

/// How often a worker whose answer cannot be read is asked again. Each time is an agent run.
pub const REPEATS: u64 = 2;

/// What is in flight, as far as it can still lead to agent runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunsInFlight {
    /// [`REPEATS`], or none where a host asks its own agents.
    pub repeats: u64,
    /// [`judges`] of the state; it takes a walk over all atoms, so whoever asks often keeps it.
    pub judges: usize,
    /// Probes of other choices that were starts of the open iteration (D10).
    pub probed_choices: usize,
    /// Runs that attempts in flight may still begin: the work after a probe, repetitions, and judges.
    pub attempts: u64,
    /// Evaluations of the base case that are due or under way outside of an open iteration.
    pub evaluations: u64,
}

/// The figure before the first start: `2Q + N((2m-1)(2+R+2q) + 1 + 2Q)`.
pub fn total(state: &State) -> Bound {
    with_repeats(state, REPEATS)
}

fn with_repeats(state: &State, repeats: u64) -> Bound {
    let iteration = iteration(state, judges(state), repeats);
    let runs = evaluation(state)
        .saturating_add(u64::from(state.constraints().max_iterations).saturating_mul(iteration));
    Bound {
        agent_runs: runs,
        seconds: state.constraints().max_wall_time().seconds(),
        cost_usd: state.constraints().max_cost_usd,
        tokens: state.constraints().max_tokens,
    }
}

/// The figure where a host's session drives: each turn may have one more agent, who looks at the checks. What its agents
/// cost is known to the host alone.
pub fn hosted(state: &State) -> Bound {
    let all = with_repeats(state, 0);
    let turns = u64::from(state.constraints().max_iterations);
    Bound { agent_runs: all.agent_runs.saturating_add(turns), cost_usd: None, tokens: None, ..all }
}

/// The most agents that a host may start between two ends of a turn: for each attempt one that looks and one that works
/// (or one that works and one that mends), one that coordinates and one that looks at the checks.
pub fn turn(state: &State) -> u64 {
    let starts = starts_per_iteration(state.constraints().max_parallel_agents) as u64;
    starts.saturating_mul(attempt(0, 0)).saturating_add(2)
}

/// What is left of it.
pub fn left(state: &State, flight: RunsInFlight, seconds_spent: u64) -> Bound {
    let constraints = state.constraints();
    let spent = state.control.spent.clone().unwrap_or_default();
    let later = u64::from(constraints.max_iterations.saturating_sub(state.control.iteration));
    let mut runs = later.saturating_mul(iteration(state, flight.judges, flight.repeats));
    runs = runs.saturating_add(flight.evaluations.saturating_mul(evaluation(state)));
    if let Some(open) = &state.control.open {
        let started = open.started.len() + flight.probed_choices;
        let starts = starts_per_iteration(constraints.max_parallel_agents).saturating_sub(started);
        runs = runs
            .saturating_add((starts as u64).saturating_mul(attempt(flight.judges, flight.repeats)))
            .saturating_add(evaluation(state));
    }
    Bound {
        agent_runs: runs.saturating_add(flight.attempts),
        seconds: constraints.max_wall_time().seconds().saturating_sub(seconds_spent),
        cost_usd: constraints.max_cost_usd.map(|limit| (limit - spent.cost_usd).max(0.0)),
        tokens: constraints.max_tokens.map(|limit| limit.saturating_sub(spent.tokens)),
    }
}

/// What is left as far as the file alone tells: how far along an attempt is, and whether an evaluation is still due, is
/// known only to whoever drives the loop, so the most is taken. What was started by hand has no probe before it.
pub fn written(state: &State) -> Bound {
    let judges = judges(state);
    let repeats = if state.control.session.is_some() { 0 } else { REPEATS };
    let running = state.atoms.values().filter(|atom| atom.status == AtomStatus::InProgress);
    let attempts = running
        .map(|atom| repeats + judgements(judges) + u64::from(state.control.attempts.contains_key(&atom.id)))
        .fold(0, u64::saturating_add);
    let flight = RunsInFlight {
        repeats,
        judges,
        probed_choices: 0,
        attempts,
        evaluations: u64::from(state.control.open.is_none()),
    };
    left(state, flight, state.control.spent.as_ref().map_or(0, |spent| spent.seconds))
}

/// An attempt: a probe, the work and its repetitions, and twice as many judges as any atom's check asks for.
fn attempt(judges: usize, repeats: u64) -> u64 {
    2 + repeats + judgements(judges)
}

/// The judges of one attempt: each item is asked once more if its answer is unusable.
pub fn judgements(judges: usize) -> u64 {
    2 * judges as u64
}

/// The most quality items in any atom's check: `q`.
pub fn judges(state: &State) -> usize {
    let checks = state.atoms.values().filter_map(|atom| atom.check.as_ref());
    checks.map(|check| check.quality_items()).max().unwrap_or(0)
}

/// The judges of one evaluation of the base case: `2Q`.
fn evaluation(state: &State) -> u64 {
    state.objective.base_case.as_ref().map_or(0, |checks| 2 * checks.quality_items() as u64)
}

/// The most agent runs that belong to one iteration: its starts, one replan, one evaluation at its close.
fn iteration(state: &State, judges: usize, repeats: u64) -> u64 {
    let starts = starts_per_iteration(state.constraints().max_parallel_agents) as u64;
    starts.saturating_mul(attempt(judges, repeats)).saturating_add(1).saturating_add(evaluation(state))
}

/// Whether more atoms are unresolved than can be worked off in the iterations left; the gate warns then.
pub fn too_tight(state: &State, unresolved: usize) -> bool {
    let constraints = state.constraints();
    let left = constraints.max_iterations.saturating_sub(state.control.iteration) as usize;
    unresolved > left.saturating_mul(constraints.max_parallel_agents as usize)
}
