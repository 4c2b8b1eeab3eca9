//! Judgement: when an iteration closes, whether it brought something, and when the loop stops (D7, D9, D11, D13, D14).
//! Rules are read from top to bottom; the first that speaks decides.

use indexmap::IndexSet;

use super::certificate::{Budget, RedCheck, StopKind};
use super::evaluate::{BaseCase, Blocker, PlanState};
use super::memory::Memory;
use super::plan::{self, Agents, DispatchInputs, Presence, Slots};
use super::{Change, Ledger, backtrack};
use crate::state::{AtomId, CheckKind, Constraints, Spent, Target};

/// What the judgement must know besides the state.
#[derive(Clone, Debug)]
pub struct JudgementInputs<'s> {
    pub dispatch: DispatchInputs<'s>,
    /// A reason to stop that does not go away by itself.
    pub must_stop: Option<&'s Stop>,
    pub base_case: &'s BaseCase,
    pub seconds_spent: u64,
}

/// A stop: why, and what becomes of what runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Stop {
    pub verdict: StopKind,
    pub reason: String,
    pub running: Running,
    /// What a person is asked to do, if the base case waits for that.
    pub needs: Vec<Need>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    Confirm(String),
    /// Only a judge decides it, and there is none.
    NameJudge,
    /// It cannot run.
    RepairCheck,
    CommitWork,
}

impl Stop {
    fn new(verdict: StopKind, reason: String, running: Running) -> Stop {
        Stop { verdict, reason, running, needs: Vec::new() }
    }

    /// A lost redirect comes before tampering, tampering before the rest (D13).
    pub fn urgency(&self) -> u8 {
        match self.verdict {
            StopKind::RedirectInterrupted => 2,
            StopKind::Tampered => 1,
            StopKind::Completed
            | StopKind::StoppedByHand
            | StopKind::Exhausted { .. }
            | StopKind::Stalled
            | StopKind::IterationLimit
            | StopKind::Budget { .. }
            | StopKind::Deadlock { .. }
            | StopKind::NeedsPerson
            | StopKind::NoAgent { .. } => 0,
        }
    }
}

/// What becomes of what runs when the loop stops (D13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    Finish,
    Kill,
}

/// Whether the loop waits until something can be started again (D12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parking {
    Free,
    Parked,
}

impl Stop {
    /// Whether the loop decides this halt itself, and has the time to look at the base case before it (D14).
    pub fn wants_look(&self) -> bool {
        match &self.verdict {
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
}

/// Whether the open iteration is over: `m` results are in, or nothing runs (D7). A parked loop has more to start.
pub fn is_over(ledger: &Ledger, running: usize, parking: Parking) -> bool {
    let parallel = ledger.state().constraints().max_parallel_agents;
    let idle = running == 0 && parking == Parking::Free;
    ledger.state().control.open.as_ref().is_some_and(|open| idle || open.results >= parallel)
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

/// The stops that do not wait for an evaluation under way.
pub fn urgent_stop(ledger: &Ledger, inputs: &JudgementInputs<'_>) -> Option<Stop> {
    let control = &ledger.state().control;
    let must_stop = |verdict| inputs.must_stop.filter(|stop| stop.verdict == verdict).cloned();
    if let Some(stop) = must_stop(StopKind::RedirectInterrupted) {
        return Some(stop);
    }
    if control.stop_requested {
        let reason = control.stop_reason.clone().unwrap_or_else(|| "stopped by hand".into());
        let running = if control.stop_now { Running::Kill } else { Running::Finish };
        return Some(Stop::new(StopKind::StoppedByHand, reason, running));
    }
    must_stop(StopKind::Tampered)
}

pub fn tampered(what: String) -> Stop {
    Stop::new(StopKind::Tampered, what, Running::Kill)
}

/// The process that redirected is gone, and left its flag behind (D16).
pub fn redirect_lost() -> Stop {
    Stop::new(StopKind::RedirectInterrupted, "redirect interrupted".into(), Running::Kill)
}

/// An agent is not logged in: only a person can help (D12).
pub fn not_logged_in(reason: &str) -> Stop {
    Stop::new(StopKind::NeedsPerson, format!("needs a person: {reason}"), Running::Finish)
}

/// An agent is named whose program cannot be started (D12).
pub fn no_program(reason: &str, atoms: Vec<AtomId>) -> Stop {
    Stop::new(StopKind::NoAgent { atoms }, format!("no agent: {reason}"), Running::Finish)
}

/// Trees cannot be prepared: the next one would fail in the same way (D12).
pub fn setup_fails(reason: &str, output: &str) -> Stop {
    let output = if output.is_empty() { String::new() } else { format!("\n{output}") };
    Stop::new(StopKind::NeedsPerson, format!("needs a person: {reason}{output}"), Running::Finish)
}

/// A provider's limit that the loop is not to wait for (D12).
pub fn rate_limited(reason: &str) -> Stop {
    let verdict = StopKind::Budget { what: Budget::Allowance };
    Stop::new(verdict, format!("limited: {reason}"), Running::Finish)
}

/// Nothing can be started here, and the loop is not to wait until that has changed (D12).
pub fn world_refuses(reason: &str) -> Stop {
    Stop::new(StopKind::NeedsPerson, format!("needs a person: nothing can start: {reason}"), Running::Finish)
}

/// Whether a host's turn ends at the stall limit without a try of what may still be tried (D11).
pub fn left_untried(ledger: &Ledger) -> bool {
    let control = &ledger.state().control;
    control.stall_count >= ledger.state().constraints().max_stall_count
        && control.open.as_ref().is_none_or(|open| open.started.is_empty())
        && ledger.frontier().unresolved() > 0
}

pub fn stall_limit_reached(ledger: &Ledger) -> Stop {
    let reason = stalled(ledger.state().constraints().max_stall_count);
    Stop::new(StopKind::Stalled, reason, Running::Finish)
}

/// Sums of money are off by their last digits.
const ROUNDING_USD: f64 = 1e-6;

/// Whether one more agent fits into what is left of the budget, if it and each of those that run need as much as one
/// did on average so far (D12). With no agent running there is none to wait for.
pub fn affords(constraints: &Constraints, spent: &Spent, running: usize) -> bool {
    let ended = spent.agent_runs.saturating_sub(running as u64);
    if running == 0 || ended == 0 {
        return true;
    }
    let after = |spent: f64| spent + spent / ended as f64 * (running as f64 + 1.0);
    constraints.max_cost_usd.is_none_or(|limit| after(spent.cost_usd) <= limit + ROUNDING_USD)
        && constraints.max_tokens.is_none_or(|limit| after(spent.tokens as f64) <= limit as f64)
}

/// The stop conditions in the order of D13, from the base case on.
pub fn stop(ledger: &Ledger, inputs: &JudgementInputs<'_>) -> Option<Stop> {
    let (state, frontier) = (ledger.state(), ledger.frontier());
    let (control, constraints) = (&state.control, state.constraints());
    let unresolved = frontier.unresolved();
    let idle = inputs.dispatch.slots.taken == 0;
    let finishes = |verdict, reason: String| Some(Stop::new(verdict, reason, Running::Finish));

    // Base case (D14).
    match inputs.base_case {
        BaseCase::Holds => return finishes(StopKind::Completed, "all checks pass".into()),
        BaseCase::Waiting { items, blocked_by } if unresolved == 0 && idle => {
            return Some(needs_person(items, *blocked_by));
        }
        BaseCase::Unevaluable { reason } => {
            let reason = format!("needs a person: the base case could not be evaluated: {reason}");
            return finishes(StopKind::NeedsPerson, reason);
        }
        BaseCase::Waiting { .. }
        | BaseCase::Red { .. }
        | BaseCase::Unknown
        | BaseCase::Due
        | BaseCase::Evaluating { .. }
        | BaseCase::Stale => {}
    }
    // No agent can be started (D12).
    if let Some(stop) = inputs.must_stop {
        return Some(stop.clone());
    }
    // OR group exhausted (D10).
    if let Some(group) = frontier.exhausted(ledger.graph(), state) {
        let group = ledger.group_at(group).0.clone();
        let reason = backtrack::exhausted(&group);
        return finishes(StopKind::Exhausted { group }, reason);
    }
    // Stall (D11, D14).
    let limit = constraints.max_stall_count;
    if let BaseCase::Red { plan, .. } = inputs.base_case
        && unresolved == 0
        && idle
    {
        if control.fruitless.unwrap_or(0) >= limit {
            let reason =
                format!("stalled: {limit} evaluations in a row brought nothing, the checks stay red");
            return finishes(StopKind::Stalled, reason);
        }
        let agents = inputs.dispatch.agents;
        let redoes = agents.worker == Presence::Available && !backtrack::doubtful_claims(ledger).is_empty();
        if agents.coordinator == Presence::Absent && !redoes {
            let reason = "stalled: all atoms are resolved, the checks are red, and there is no coordinator to change the plan";
            return finishes(StopKind::Stalled, reason.into());
        }
        if *plan == PlanState::CameBackEmpty {
            let reason = "stalled: all atoms are resolved, the checks are red, and the plan came back empty";
            return finishes(StopKind::Stalled, reason.into());
        }
        if control.stall_count >= limit {
            return finishes(StopKind::Stalled, stalled(limit));
        }
    }
    let dead = || idle && unresolved > 0 && !plan::anything(ledger, &inputs.dispatch);
    if control.stall_count >= limit && dead() {
        return finishes(StopKind::Stalled, stalled(limit));
    }
    // Iteration limit.
    if idle && control.open.is_none() && control.iteration >= constraints.max_iterations {
        let reason = format!("iteration limit reached: {}", constraints.max_iterations);
        return finishes(StopKind::IterationLimit, reason);
    }
    // Budget (D12).
    if let Some((what, reason)) = overspent(ledger, inputs.seconds_spent) {
        let waited = control.parked_reason.as_ref().map(|why| format!("; nothing could start: {why}"));
        let reason = reason + &waited.unwrap_or_default();
        return Some(Stop::new(StopKind::Budget { what }, reason, Running::Kill));
    }
    // Nothing can go on: a deadlock, or a person or an agent is missing.
    if dead() {
        return Some(dead_end(ledger, inputs));
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
    is_out_of_time(ledger, seconds)
        .then(|| (Budget::Time, format!("time is up: {} of wall time", constraints.max_wall_time())))
}

/// Whether the wall time is over, whatever else is used up.
pub fn is_out_of_time(ledger: &Ledger, seconds: u64) -> bool {
    seconds >= ledger.state().constraints().max_wall_time().seconds()
}

/// Stops that hold until a redirect changes them, asked before a stopped loop is taken up again (D15).
pub fn lasting_stop(ledger: &Ledger, agents: Agents) -> Option<Stop> {
    if ledger.frontier().unresolved() == 0 {
        return None;
    }
    let (memory, spent) = (Memory::default(), Spent::default());
    let slots = Slots { parallel: ledger.state().constraints().max_parallel_agents, taken: 0, agents: 0 };
    let dispatch = DispatchInputs {
        running: &[],
        replanned: &[],
        memory: &memory,
        probed: &[],
        agents,
        slots,
        spent: &spent,
    };
    let inputs =
        JudgementInputs { dispatch, must_stop: None, base_case: &BaseCase::Unknown, seconds_spent: 0 };
    stop(ledger, &inputs).filter(|stop| match stop.verdict {
        StopKind::Exhausted { .. } | StopKind::IterationLimit | StopKind::Deadlock { .. } => true,
        StopKind::Completed
        | StopKind::StoppedByHand
        | StopKind::RedirectInterrupted
        | StopKind::Tampered
        | StopKind::Stalled
        | StopKind::Budget { .. }
        | StopKind::NeedsPerson
        | StopKind::NoAgent { .. } => false,
    })
}

/// Why nothing can go on: a person or an agent is missing, or all wait for one another.
pub fn dead_end(ledger: &Ledger, inputs: &JudgementInputs<'_>) -> Stop {
    let stop = |verdict, reason| Stop::new(verdict, reason, Running::Finish);
    let (state, frontier) = (ledger.state(), ledger.frontier());
    let ready: Vec<usize> = frontier.due().chain(frontier.ready()).collect();
    let awaiting_person: Vec<&str> = ready
        .iter()
        .filter_map(|index| inputs.dispatch.memory.awaiting_person(&ledger.atom(*index).id))
        .collect();
    if !awaiting_person.is_empty() {
        return stop(StopKind::NeedsPerson, format!("needs a person: {}", awaiting_person.join("; ")));
    }
    let same: Vec<String> = ready
        .iter()
        .map(|index| ledger.id(*index))
        .filter(|id| plan::fails_the_same(ledger, inputs.dispatch.memory, id))
        .map(|id| id.to_string())
        .collect();
    if !same.is_empty() {
        let reason = format!(
            "stalled: {} failed twice in the same way, and nothing else is left to try",
            same.join(", ")
        );
        return stop(StopKind::Stalled, reason);
    }
    if !ready.is_empty() {
        return no_agent(ready.iter().map(|index| ledger.id(*index)).collect());
    }
    let stuck: Vec<usize> = (0..state.atoms.len()).filter(|index| frontier.counts(*index)).collect();
    let reasons: Vec<String> = stuck.iter().take(NAMED).map(|index| waiting(ledger, *index)).collect();
    let atoms = stuck.iter().map(|index| ledger.id(*index)).collect();
    stop(StopKind::Deadlock { atoms }, format!("deadlock: {}", reasons.join("; ")))
}

/// These need an agent, and there is none (D27).
pub fn no_agent(atoms: Vec<AtomId>) -> Stop {
    let names: Vec<&str> = atoms.iter().map(|id| id.as_str()).collect();
    let reason = format!("no agent for {}", names.join(", "));
    Stop::new(StopKind::NoAgent { atoms }, reason, Running::Finish)
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

fn needs_person(items: &[RedCheck], blocked_by: Blocker) -> Stop {
    let named: Vec<String> = items.iter().map(|red| format!("{} ({})", red.item, red.reason)).collect();
    let reason = format!("needs a person: {}", named.join("; "));
    let needs = match blocked_by {
        Blocker::Checks => {
            let needs: IndexSet<Need> = items.iter().map(need).collect();
            needs.into_iter().collect()
        }
        Blocker::UncommittedWork => vec![Need::CommitWork],
    };
    Stop { needs, ..Stop::new(StopKind::NeedsPerson, reason, Running::Finish) }
}

fn need(red: &RedCheck) -> Need {
    match red.kind {
        Some(CheckKind::Assertion) => Need::Confirm(red.item.clone()),
        Some(CheckKind::Quality) => Need::NameJudge,
        Some(CheckKind::Command | CheckKind::NotCommand | CheckKind::File | CheckKind::NotFile) | None => {
            Need::RepairCheck
        }
    }
}

fn stalled(limit: u32) -> String {
    match limit {
        1 => "stalled: 1 iteration without progress".to_owned(),
        many => format!("stalled: {many} iterations in a row without progress"),
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
