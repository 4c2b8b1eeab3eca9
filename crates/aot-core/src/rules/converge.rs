//! Judgement: when an iteration closes, whether it brought something, and when the loop stops (D7, D9, D11, D13, D14).
//! Rules are read from top to bottom; the first that speaks decides.

use super::certificate::{Budget, RedCheck, Verdict};
use super::plan::{self, DispatchInputs, Presence};
use super::{Change, Ledger, backtrack};
use crate::state::{AtomId, Constraints, Spent, Target, VerifyWhen};

/// What the judgement must know besides the state.
#[derive(Clone, Debug)]
pub struct JudgementInputs<'s> {
    pub inputs: DispatchInputs<'s>,
    /// Jobs in flight, a replan among them.
    pub running: usize,
    /// What is wrong with the fingerprint, if anything.
    pub tampered: Option<&'s str>,
    /// What only a person, or time, can mend.
    pub blocked: Option<&'s Stop>,
    /// How the base case stands, if it was evaluated since something last landed.
    pub base_case: Option<&'s BaseCase>,
    /// What the last replan for a red base case came to.
    pub plan: PlanFor,
    pub seconds_spent: u64,
}

/// How the base case stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaseCase {
    Holds,
    Red(Vec<RedCheck>),
    /// It cannot be decided without a person.
    Open(Vec<RedCheck>),
}

/// Whether there was a plan against a red base case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanFor {
    Unasked,
    Empty,
}

/// A stop: why, and what becomes of what runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Stop {
    pub verdict: Verdict,
    pub reason: String,
    pub running: Running,
}

/// What becomes of what runs when the loop stops (D13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    Finish,
    Kill,
}

/// Whether the open iteration is over: `m` results are in, or nothing runs (D7).
pub fn is_over(ledger: &Ledger, running: usize) -> bool {
    let parallel = ledger.state().constraints().max_parallel_agents;
    ledger.state().control.open.as_ref().is_some_and(|open| running == 0 || open.results >= parallel)
}

/// Closes the open iteration and judges it (D9).
pub fn close(ledger: &mut Ledger) {
    ledger.record_count_shift();
    let unresolved = ledger.frontier().unresolved();
    let control = &ledger.state().control;
    let first = control.prev_pending_count < 0;
    let moved = control.open.as_ref().is_some_and(|open| open.moved);
    let progress = (unresolved as i64) < control.prev_pending_count;
    let stall_count = if first || moved || progress { 0 } else { control.stall_count + 1 };
    ledger.record(Change::IterationClosed { unresolved: count(unresolved), stall_count });
}

/// Ends the open iteration, if there is one, without judging it: a redirect (D16).
pub fn break_off(ledger: &mut Ledger) {
    ledger.record_count_shift();
    if ledger.state().control.open.is_some() {
        let unresolved = count(ledger.frontier().unresolved());
        ledger.record(Change::IterationClosed { unresolved, stall_count: 0 });
    }
}

/// Something was resolved: at the stall limit that brings the loop back (D11).
pub fn resolved(ledger: &mut Ledger) {
    let state = ledger.state();
    if state.control.stall_count >= state.constraints().max_stall_count {
        ledger.record(Change::StallCleared);
    }
}

/// Whether the base case is evaluated at every close.
pub fn verifies_each(ledger: &Ledger) -> bool {
    ledger.state().objective.verify == Some(VerifyWhen::EachIteration)
}

/// Counts a failed evaluation with nothing unresolved: fruitless unless fewer checks are red than ever before (D14).
pub fn count_red(ledger: &mut Ledger, red: usize) {
    let control = &ledger.state().control;
    let red = count(red);
    let better = control.fewest_red.is_none_or(|fewest| red < fewest);
    let fruitless = if better { 0 } else { control.fruitless.unwrap_or(0) + 1 };
    let fewest_red = control.fewest_red.map_or(red, |fewest| fewest.min(red));
    ledger.record(Change::Verified { fruitless, fewest_red: Some(fewest_red) });
}

/// The stops that do not wait for an evaluation under way.
pub fn urgent_stop(ledger: &Ledger, standing: &JudgementInputs<'_>) -> Option<Stop> {
    let control = &ledger.state().control;
    if control.stop_requested {
        let reason = control.stop_reason.clone().unwrap_or_else(|| "stopped by hand".into());
        let running = if control.stop_now { Running::Kill } else { Running::Finish };
        return Some(Stop { verdict: Verdict::StoppedByHand, reason, running });
    }
    if let Some(what) = standing.tampered {
        return Some(Stop { verdict: Verdict::Tampered, reason: what.to_owned(), running: Running::Kill });
    }
    None
}

/// Whoever was asked is not logged in: only a person can help (D12).
pub fn not_logged_in(reason: &str) -> Stop {
    let reason = format!("needs a person: {reason}");
    Stop { verdict: Verdict::NeedsPerson, reason, running: Running::Finish }
}

/// A limit, and nobody wants to wait until it lifts (D12).
pub fn rate_limited(reason: &str) -> Stop {
    let reason = format!("limited: {reason}");
    Stop { verdict: Verdict::Budget { what: Budget::Allowance }, reason, running: Running::Finish }
}

/// At the stall limit a host did not even try what it still may (D11).
pub fn stall_limit_reached(limit: u32) -> Stop {
    Stop { verdict: Verdict::Stalled, reason: stalled(limit), running: Running::Finish }
}

/// Whether one more agent fits into what is left of the budget, if it and each of those that run need as much as one
/// did on average so far (D12). With nobody running there is nobody to wait for.
pub fn affords(constraints: &Constraints, spent: &Spent, running: usize) -> bool {
    let ended = spent.agent_runs.saturating_sub(running as u64);
    if running == 0 || ended == 0 {
        return true;
    }
    let after = |spent: f64| spent + spent / ended as f64 * (running as f64 + 1.0);
    constraints.max_cost_usd.is_none_or(|limit| after(spent.cost_usd) <= limit)
        && constraints.max_tokens.is_none_or(|limit| after(spent.tokens as f64) <= limit as f64)
}

/// The stop conditions in the order of D13, from the base case on.
pub fn stop(ledger: &Ledger, standing: &JudgementInputs<'_>) -> Option<Stop> {
    let (state, frontier) = (ledger.state(), ledger.frontier());
    let (control, constraints) = (&state.control, state.constraints());
    let unresolved = frontier.unresolved();
    let idle = standing.running == 0;
    let finishes = |verdict, reason: String| Some(Stop { verdict, reason, running: Running::Finish });

    // Base case (D14).
    match standing.base_case {
        Some(BaseCase::Holds) => return finishes(Verdict::Completed, "the base case holds".into()),
        Some(BaseCase::Open(items)) if unresolved == 0 && idle => {
            return finishes(Verdict::NeedsPerson, needs_person(items));
        }
        Some(BaseCase::Open(_) | BaseCase::Red(_)) | None => {}
    }
    // Nobody can be asked (D12).
    if let Some(stop) = standing.blocked {
        return Some(stop.clone());
    }
    // OR group exhausted (D10).
    if let Some(group) = frontier.exhausted(ledger.graph(), state) {
        let group = ledger.group_at(group).0.clone();
        let reason = backtrack::exhausted(&group);
        return finishes(Verdict::Exhausted { group }, reason);
    }
    // Stall (D11, D14).
    let limit = constraints.max_stall_count;
    if unresolved == 0 && idle && matches!(standing.base_case, Some(BaseCase::Red(_))) {
        if control.fruitless.unwrap_or(0) >= limit {
            let reason =
                format!("stalled: {limit} evaluations in a row brought nothing, the base case stays red");
            return finishes(Verdict::Stalled, reason);
        }
        if standing.inputs.agents.coordinator == Presence::Absent {
            let reason =
                "stalled: all atoms are resolved, the base case is red, and nobody can change the plan";
            return finishes(Verdict::Stalled, reason.into());
        }
        if standing.plan == PlanFor::Empty {
            let reason =
                "stalled: all atoms are resolved, the base case is red, and the plan came back empty";
            return finishes(Verdict::Stalled, reason.into());
        }
        if control.stall_count >= limit {
            return finishes(Verdict::Stalled, stalled(limit));
        }
    }
    let dead = || idle && unresolved > 0 && !plan::anything(ledger, &standing.inputs);
    if control.stall_count >= limit && dead() {
        return finishes(Verdict::Stalled, stalled(limit));
    }
    // Iteration limit.
    if idle && control.open.is_none() && control.iteration >= constraints.max_iterations {
        let reason = format!("iteration limit reached: {}", constraints.max_iterations);
        return finishes(Verdict::IterationLimit, reason);
    }
    // Budget (D12).
    if let Some((what, reason)) = overspent(ledger, standing.seconds_spent) {
        return Some(Stop { verdict: Verdict::Budget { what }, reason, running: Running::Kill });
    }
    // Nothing can go on: deadlock, or somebody is missing.
    if dead() {
        return Some(dead_end(ledger, standing));
    }
    None
}

/// What has run out, if anything (D12).
pub fn overspent(ledger: &Ledger, seconds: u64) -> Option<(Budget, String)> {
    let constraints = ledger.state().constraints();
    let spent = ledger.state().control.spent.clone().unwrap_or_default();
    if let Some(limit) = constraints.max_cost_usd.filter(|limit| spent.cost_usd >= *limit) {
        return Some((Budget::Money, format!("budget spent: {:.2} of {limit:.2} USD", spent.cost_usd)));
    }
    if let Some(limit) = constraints.max_tokens.filter(|limit| spent.tokens >= *limit) {
        return Some((Budget::Tokens, format!("budget spent: {} of {limit} tokens", spent.tokens)));
    }
    let limit = constraints.max_wall_time();
    if seconds >= limit.seconds() {
        return Some((Budget::Time, format!("time is up: {limit} of wall time")));
    }
    None
}

/// Stops that hold until a redirect changes them, asked before a stopped loop is taken up again (D15).
pub fn lasting_stop(ledger: &Ledger, inputs: &DispatchInputs<'_>) -> Option<Stop> {
    if ledger.frontier().unresolved() == 0 {
        return None;
    }
    let standing = JudgementInputs {
        inputs: *inputs,
        running: 0,
        tampered: None,
        blocked: None,
        base_case: None,
        plan: PlanFor::Unasked,
        seconds_spent: 0,
    };
    stop(ledger, &standing).filter(|stop| match stop.verdict {
        Verdict::Exhausted { .. } | Verdict::IterationLimit | Verdict::Deadlock { .. } => true,
        Verdict::Completed
        | Verdict::StoppedByHand
        | Verdict::RedirectInterrupted
        | Verdict::Tampered
        | Verdict::Stalled
        | Verdict::Budget { .. }
        | Verdict::NeedsPerson
        | Verdict::NoAgent { .. } => false,
    })
}

/// Why nothing can go on: a person or an agent is missing, or all wait for one another.
pub fn dead_end(ledger: &Ledger, standing: &JudgementInputs<'_>) -> Stop {
    let stop = |verdict, reason| Stop { verdict, reason, running: Running::Finish };
    let (state, frontier) = (ledger.state(), ledger.frontier());
    let ready: Vec<usize> = frontier.due().chain(frontier.ready()).collect();
    let awaiting_person: Vec<String> = ready
        .iter()
        .filter_map(|index| standing.inputs.awaiting_person.get(&ledger.atom(*index).id))
        .cloned()
        .collect();
    if !awaiting_person.is_empty() {
        return stop(Verdict::NeedsPerson, format!("needs a person: {}", awaiting_person.join("; ")));
    }
    if !ready.is_empty() {
        return no_agent(ready.iter().map(|index| ledger.id(*index)).collect());
    }
    let stuck: Vec<usize> = (0..state.atoms.len()).filter(|index| frontier.counts(*index)).collect();
    let reasons: Vec<String> = stuck.iter().take(NAMED).map(|index| waiting(ledger, *index)).collect();
    let atoms = stuck.iter().map(|index| ledger.id(*index)).collect();
    stop(Verdict::Deadlock { atoms }, format!("deadlock: {}", reasons.join("; ")))
}

/// These need an agent, and there is none (D27).
pub fn no_agent(atoms: Vec<AtomId>) -> Stop {
    let names: Vec<&str> = atoms.iter().map(|id| id.as_str()).collect();
    let reason = format!("no agent for {}", names.join(", "));
    Stop { verdict: Verdict::NoAgent { atoms }, reason, running: Running::Finish }
}

/// So many of the atoms in a deadlock are explained.
const NAMED: usize = 5;

fn waiting(ledger: &Ledger, index: usize) -> String {
    let (state, graph) = (ledger.state(), ledger.graph());
    let id = ledger.id(index);
    let unresolved = |target: &Target| !graph.is_resolved(state, *target);
    let on = graph.waits_on(state, index).or_else(|| graph.child_targets(index).find(unresolved));
    match on {
        Some(target) => format!("{id} waits for {}", graph.name_of(state, target)),
        None => format!("{id} lies under a choice that has failed"),
    }
}

pub(super) fn needs_person(items: &[RedCheck]) -> String {
    let items: Vec<String> = items.iter().map(|red| format!("{} ({})", red.item, red.reason)).collect();
    format!("needs a person: {}", items.join("; "))
}

fn stalled(limit: u32) -> String {
    format!("stalled: {limit} iterations in a row without progress")
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
