//! What must hold at every step of every life, each rule with the decision it guards. Reads the state file, the
//! effects and the world only, by the plain definitions of `state::Graph`: never at a coordinator's own indexes.

mod bounds;
pub mod derived;
mod halts;
mod iterations;
mod probes;
mod results;
mod starts;
mod unstarted;

use std::collections::{HashMap, HashSet};
use std::fmt;

use aot_core::coordinator::{
    Answer, CheckOutcome, Coordinator, Dispatch, Effect, Evaluation, Event, JobId, JobOutcome, Lack,
    OnRefusedStart, Presence, Settings, Task, Trees, Usage,
};
use aot_core::rules::Change;
use aot_core::rules::certificate::{Budget, StopKind};
use aot_core::state::{AtomId, Graph, State, Target, TrailEntry};

use crate::describe;
use crate::world::World;
use halts::goes_on;
use iterations::{after_a_red_evaluation, opens_within_the_limit};
use probes::ProbeAudit;
use results::{is_without_fault, kills_all};

/// A rule that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: &'static str,
    /// The decision that the rule guards.
    pub guards: &'static str,
    pub detail: String,
}

impl Violation {
    pub fn new(rule: &'static str, guards: &'static str, detail: impl Into<String>) -> Violation {
        Violation { rule, guards, detail: detail.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken: {} ({}): {}", self.rule, self.guards, self.detail)
    }
}

pub(crate) type Checked = Result<(), Violation>;

pub(crate) fn ensure(
    holds: bool,
    rule: &'static str,
    guards: &'static str,
    detail: impl FnOnce() -> String,
) -> Checked {
    if holds { Ok(()) } else { Err(Violation::new(rule, guards, detail())) }
}

/// Whose word an event is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrival {
    /// Of something that is awaited.
    #[default]
    Expected,
    /// Of a job that was killed.
    Late,
}

/// What happened in the iteration that was opened last.
#[derive(Clone, Debug, Default)]
struct Iteration {
    /// The most agents that were allowed while it was open: an edit can change it.
    parallel: u32,
    /// On atoms: a probe, the work, or a probe and then the work; or the check of a parent.
    attempts: u32,
    replans: u32,
    started: Vec<AtomId>,
    /// Choices probed beside the selected one: each is a start.
    probed_beside: Vec<AtomId>,
    /// A group went to another choice: the iteration is no stall.
    moved: bool,
}

/// What one event has brought so far.
#[derive(Clone, Debug, Default)]
struct CurrentEvent {
    arrival: Arrival,
    acted: Vec<AtomId>,
    undone: Vec<AtomId>,
    commits_undone: Vec<(AtomId, String)>,
    reverted: Vec<(AtomId, String)>,
    failures_noted: Vec<AtomId>,
    selections: Vec<String>,
    backtracked: bool,
    reshaped: bool,
    opened: bool,
    /// Somebody new was asked: an attempt by an agent, or a replan.
    asked: bool,
    /// The results that were in when the iteration closed.
    closed_with: Option<u32>,
    /// Something was written.
    recorded: bool,
    /// A host's request was refused.
    refused: bool,
    /// Atoms that could not be started, and the most by which the bound may rise again for it.
    unstarted: Vec<AtomId>,
    given_back: u64,
}

#[derive(Clone, Debug)]
pub struct Audit {
    graph: Graph,
    dispatch: Dispatch,
    /// Workers share a tree, or there is none: slots stay free.
    one_tree: bool,
    on_refused_start: OnRefusedStart,
    /// Every job that was started, and how many agent runs it counted.
    jobs: HashMap<JobId, u64>,
    /// Jobs whose start was refused: they may come again.
    refused: HashSet<JobId>,
    iteration: Iteration,
    probes: ProbeAudit,
    current: CurrentEvent,
    /// Attempts in flight and results of the open iteration, after the last event.
    running: Vec<(AtomId, u32)>,
    results: Option<u32>,
    /// What ran when somebody lowered `m`, as far as it still runs.
    above: usize,
    /// The last evaluation passed, and nothing has moved the branch since.
    passed: bool,
    /// Something landed or was edited since the base case was last looked at.
    unseen: bool,
    /// The base case is looked at now.
    looking: bool,
    /// Somebody changed what nobody may, and no redirect has accepted it.
    tampered: bool,
    /// What this process was told first of agents that cannot be asked.
    blocked: Option<StopKind>,
    runs: u64,
    bound: u64,
    bound_at_opening: u64,
    /// The same of the iteration before, for one that is taken back.
    bound_at_last_opening: u64,
    /// The most agent runs that may ever happen: the first bound, and what people have added since.
    ceiling: Option<u64>,
}

impl Audit {
    pub fn new(state: &State, settings: &Settings) -> Audit {
        let one_tree = settings.trees == Trees::Shared || settings.agents.worker == Presence::Absent;
        Audit {
            graph: Graph::new(state),
            dispatch: settings.dispatch,
            one_tree,
            on_refused_start: settings.on_refused_start,
            jobs: HashMap::new(),
            refused: HashSet::new(),
            iteration: Iteration::default(),
            probes: ProbeAudit::default(),
            current: CurrentEvent::default(),
            running: Vec::new(),
            results: None,
            above: 0,
            passed: false,
            unseen: true,
            looking: false,
            tampered: false,
            blocked: None,
            runs: 0,
            bound: u64::MAX,
            bound_at_opening: u64::MAX,
            bound_at_last_opening: u64::MAX,
            ceiling: None,
        }
    }

    /// Agent runs so far, judges included.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Groups that probes have put in order.
    pub fn orders(&self) -> u64 {
        self.probes.orders()
    }

    /// What later judgements depend on, beside the file and the world.
    pub fn memory(&self) -> impl fmt::Debug {
        let mut iteration = self.iteration.clone();
        iteration.started.sort();
        let left = self.ceiling.map(|ceiling| ceiling.saturating_sub(self.runs));
        (
            iteration,
            self.probes.memory(),
            self.results,
            self.above,
            (self.passed, self.unseen, self.looking),
            self.blocked.clone(),
            self.bound,
            (self.bound_at_opening, self.bound_at_last_opening),
            left,
        )
    }

    /// Before an event is told: `state` is the file at this moment, an edit in it included.
    pub fn before_event(&mut self, state: &State, event: &Event, arrival: Arrival) {
        self.current = CurrentEvent { arrival, ..CurrentEvent::default() };
        self.probes.before_event(event, arrival);
        match event {
            Event::Edited { .. } | Event::Redirected { .. } => {
                self.graph = Graph::new(state);
                self.iteration.moved |= state.control.open.as_ref().is_some_and(|open| open.moved);
            }
            // A start that was refused is no agent run (decision D12): it comes again, and counts once.
            Event::Ended { outcome: JobOutcome::Refused { .. }, job, .. }
            | Event::Replanned { answer: Answer::Refused { .. }, job, .. } => {
                if arrival == Arrival::Expected {
                    self.refused.insert(job.clone());
                    if self.on_refused_start == OnRefusedStart::Stop {
                        self.blocked.get_or_insert(StopKind::Budget { what: Budget::Allowance });
                    }
                }
            }
            Event::Ended { job, outcome: JobOutcome::Unable { lack, .. }, .. }
            | Event::Replanned { job, answer: Answer::Unable { lack, .. }, .. } => {
                if arrival == Arrival::Expected {
                    self.refused.insert(job.clone());
                    let atoms = job.task.atom().into_iter().cloned().collect();
                    self.blocked.get_or_insert(match lack {
                        Lack::Login => StopKind::NeedsPerson,
                        Lack::Program => StopKind::NoAgent { atoms },
                    });
                }
            }
            Event::Ended { outcome: JobOutcome::NotStarted { .. }, job, .. }
            | Event::Replanned { answer: Answer::NotStarted { .. }, job, .. }
                if arrival == Arrival::Expected =>
            {
                self.refused.insert(job.clone());
                self.world_refuses();
            }
            Event::NotLanded { usage, .. } if arrival == Arrival::Expected && usage.agent_runs == 0 => {
                self.world_refuses();
            }
            Event::Begun { .. }
            | Event::Ended { .. }
            | Event::Landed { .. }
            | Event::Conflict { .. }
            | Event::NotLanded { .. }
            | Event::Verified { .. }
            | Event::Replanned { .. }
            | Event::Spent { .. }
            | Event::AgentRan { .. }
            | Event::Tampered { .. }
            | Event::StopAsked { .. }
            | Event::RedirectAsked
            | Event::RedirectAbandoned
            | Event::Woke
            | Event::StartAsked { .. }
            | Event::TurnEnded => {}
        }
        let judges = usage_of(event).map_or(0, |usage| usage.agent_runs);
        self.runs += judges;
        if matches!((event, arrival), (Event::Verified { .. }, Arrival::Late)) {
            // An evaluation that a person cut off: its judges were shown before, and are nobody's any more.
            self.ceiling = self.ceiling.map(|ceiling| ceiling + judges);
        }
        self.tampered = match event {
            Event::Tampered { .. } => true,
            Event::Begun { .. } | Event::Redirected { .. } => false,
            Event::Ended { .. }
            | Event::Landed { .. }
            | Event::Conflict { .. }
            | Event::NotLanded { .. }
            | Event::Verified { .. }
            | Event::Replanned { .. }
            | Event::Spent { .. }
            | Event::AgentRan { .. }
            | Event::Edited { .. }
            | Event::StopAsked { .. }
            | Event::RedirectAsked
            | Event::RedirectAbandoned
            | Event::Woke
            | Event::StartAsked { .. }
            | Event::TurnEnded => self.tampered,
        };
        if matches!(event, Event::Begun { .. } | Event::Verified { .. } | Event::Redirected { .. }) {
            self.looking = false;
        }
        if matches!(event, Event::Redirected { .. }) {
            // A person may have said who works now.
            self.blocked.take_if(|blocked| matches!(blocked, StopKind::NoAgent { .. }));
        }
        self.unseen = match event {
            Event::Begun { .. } | Event::Redirected { .. } => true,
            // An edit of the file changes nothing that the look under way would see.
            Event::Edited { .. } => self.unseen || !self.looking,
            Event::Landed { .. } => self.unseen || arrival == Arrival::Expected,
            // It could not be looked at.
            Event::Verified { evaluation: Evaluation::Lost { .. }, .. } => false,
            _ => self.unseen,
        };
        self.passed = match event {
            Event::Verified { evaluation, .. } => {
                arrival == Arrival::Expected && matches!(evaluation, Evaluation::Passed)
            }
            Event::Begun { .. } | Event::Landed { .. } | Event::Edited { .. } | Event::Redirected { .. } => {
                false
            }
            Event::Ended { .. }
            | Event::Conflict { .. }
            | Event::NotLanded { .. }
            | Event::Replanned { .. }
            | Event::Spent { .. }
            | Event::AgentRan { .. }
            | Event::Tampered { .. }
            | Event::StopAsked { .. }
            | Event::RedirectAsked
            | Event::RedirectAbandoned
            | Event::Woke
            | Event::StartAsked { .. }
            | Event::TurnEnded => self.passed,
        };
    }

    /// Whoever does not wait for room stops; a host decides by itself.
    fn world_refuses(&mut self) {
        if self.on_refused_start == OnRefusedStart::Stop && self.dispatch == Dispatch::Rolling {
            self.blocked.get_or_insert(StopKind::NeedsPerson);
        }
    }

    /// Before a change is written: `state` is the file without it.
    pub fn before_change(&mut self, state: &State, change: &Change, event: &Event) -> Checked {
        self.current.recorded = true;
        if let Change::AtomResolved { atom, .. }
        | Change::AtomReset { atom }
        | Change::AtomReturned { atom, .. }
        | Change::AtomNotStarted { atom, .. }
        | Change::FailureNoted { atom, .. } = change
        {
            self.current.acted.push(atom.clone());
        }
        self.probes.before_change(change, event)?;
        match change {
            Change::AtomStarted { atom, attempt } => self.starts_only_what_is_ready(state, atom, *attempt)?,
            Change::AtomResolved { atom, .. } => self.resolves_what_was_seen(state, atom, event)?,
            Change::AtomReset { atom } => self.notes_what_is_undone(state, atom),
            Change::AtomNotStarted { atom, .. } => self.counts_no_attempt(state, atom, event)?,
            Change::IterationTakenBack => self.takes_back_what_is_empty(state, event)?,
            Change::FailureNoted { atom, .. } => self.current.failures_noted.push(atom.clone()),
            Change::ChoiceSelected { reason, .. } => {
                self.current.selections.push(reason.clone());
                self.current.backtracked = true;
                self.iteration.moved |= state.control.open.is_some();
            }
            Change::ChoiceFailed { choice, .. } => {
                self.current.backtracked = true;
                let blameless =
                    self.current.closed_with.is_none() && !self.current.opened && is_without_fault(event);
                ensure(!blameless, "what is nobody's fault burns no choice", "D10", || {
                    format!("{choice} at {}", describe::event_line(event))
                })?;
            }
            Change::IterationOpened => {
                opens_within_the_limit(state)?;
                self.current.opened = true;
                self.iteration =
                    Iteration { parallel: state.constraints().max_parallel_agents, ..Iteration::default() };
            }
            Change::IterationClosed { unresolved, stall_count } => {
                self.closes_by_the_count(state, *unresolved, *stall_count, event)?;
                self.current.closed_with = state.control.open.as_ref().map(|open| open.results);
            }
            Change::Verified { fruitless, fewest_red } => {
                let (expected, fewest) = after_a_red_evaluation(state, event);
                let right = *fruitless == expected && *fewest_red == Some(fewest);
                ensure(right, "an evaluation is fruitless unless fewer are red than ever", "D14", || {
                    format!("{fruitless}, {fewest_red:?}, not {expected}, {fewest}")
                })?;
            }
            Change::Completed => {
                let is_open =
                    |id: &AtomId| index(state, id).is_ok_and(|index| self.graph.is_unresolved(state, index));
                let wanted = state.control.wanted.iter().find(|id| is_open(id));
                ensure(
                    wanted.is_none(),
                    "what a person asked for is done before it completes",
                    "D14",
                    || format!("{wanted:?}"),
                )?;
                ensure(self.passed, "completed is written after a pass only", "D14, D20", || {
                    describe::event_line(event)
                })?
            }
            _ => {}
        }
        if change.reshapes() {
            self.current.reshaped = true;
        }
        Ok(())
    }

    /// After changes were written that alter the graph's shape.
    pub fn reshaped(&mut self, state: &State) {
        self.graph = Graph::new(state);
    }

    /// Before an effect is performed.
    pub fn before_effect(&mut self, world: &World, effect: &Effect) -> Checked {
        match effect {
            Effect::Start(job) => self.starts(world, job),
            Effect::Revert { atom, commit } => {
                self.passed = false;
                self.current.reverted.push((atom.clone(), commit.clone()));
                Ok(())
            }
            Effect::Halt(certificate) => self.halts(world, certificate),
            Effect::Land(job) => self.lands_one_of_a_race(world, job),
            Effect::Kill(job) => {
                self.probes.killed(job);
                Ok(())
            }
            Effect::Refuse(_) => {
                self.current.refused = true;
                Ok(())
            }
            Effect::Verify { .. } => {
                self.unseen = false;
                self.looking = true;
                Ok(())
            }
            Effect::Record(_) | Effect::WakeAt(_) => Ok(()),
        }
    }

    /// After all effects of an event are performed.
    pub fn after_event(&mut self, world: &World, coordinator: &mut Coordinator, event: &Event) -> Checked {
        let state = world.recorded();
        records_what_it_holds(world, coordinator)?;
        derived::derived_figures_are_right(coordinator.ledger())?;
        knows_what_runs(world, coordinator)?;
        self.runs_at_most_the_allowed(world, event)?;
        self.keeps_the_budget(world)?;
        self.probes.after_event(world, &self.graph, self.has_room(world))?;
        self.in_progress_is_what_runs(world)?;
        self.resolves_parents_with_their_children(state, event)?;
        self.has_no_cycle(state)?;
        self.undoes_with_a_reason(event)?;
        self.reverts_what_is_undone(event)?;
        self.writes_the_trail(world, event)?;
        self.ignores_killed_jobs(world, event)?;
        kills_all(world, event)?;
        self.recognises_what_landed(world, event)?;
        self.counts_results(world)?;
        self.closes_when_over(world, event)?;
        self.keeps_no_empty_iteration(world, event)?;
        match self.dispatch {
            Dispatch::Rolling => {
                self.fills_its_slots(world, coordinator)?;
                self.bound_falls(world, coordinator, event)?;
                goes_on(world)
            }
            Dispatch::OnRequest => {
                self.refuses_without_a_trace(world, event)?;
                self.written_bound_falls(world, event)
            }
        }
    }

    /// A person changed the file while nothing ran: a new bound is shown.
    pub fn edited(&mut self) {
        self.ceiling = None;
        self.bound = u64::MAX;
        self.bound_at_opening = u64::MAX;
        self.bound_at_last_opening = u64::MAX;
    }

    /// Another process changed the file between two commands of a host.
    pub fn written_elsewhere(&mut self, state: &State) {
        self.graph = Graph::new(state);
        self.iteration.moved |= state.control.open.as_ref().is_some_and(|open| open.moved);
        self.running.clear();
        self.results = None;
        self.above = self.above.max(state.atoms.len());
        self.edited();
    }

    /// A refused request changes nothing: no byte of the file, no iteration, no stall. A stop that was asked for before
    /// may end the loop meanwhile, and a redirect that is under way interrupts what runs at the first event that comes.
    fn refuses_without_a_trace(&self, world: &World, event: &Event) -> Checked {
        let ended = world.halted().is_some() || world.recorded().control.redirect_requested;
        let unchanged = !self.current.refused || !self.current.recorded || ended;
        ensure(unchanged, "a refusal changes nothing", "D7, D9", || describe::event_line(event))
    }

    /// A process has died, and with it what it remembered.
    pub fn crashed(&mut self, state: &State) {
        self.graph = Graph::new(state);
        self.current = CurrentEvent::default();
        self.running.clear();
        self.results = None;
        self.blocked = None;
        self.looking = false;
        self.probes.crashed();
    }

    /// The process died before it recorded an event: the judges that the event told of are known to nobody. A crash
    /// in the middle of an evaluation loses them in the same way; the bound speaks of runs that were recorded.
    pub fn forget_unrecorded(&mut self, event: &Event, performed: &[Effect]) {
        let recorded = performed.iter().any(|effect| matches!(effect, Effect::Record(_)));
        if !recorded {
            self.runs -= usage_of(event).map_or(0, |usage| usage.agent_runs);
        }
        self.bound = self.bound.saturating_add(self.current.given_back);
        if matches!(event, Event::Edited { .. } | Event::Redirected { .. }) {
            self.edited();
        }
    }
}

fn records_what_it_holds(world: &World, coordinator: &Coordinator) -> Checked {
    ensure(coordinator.state() == world.recorded(), "the coordinator holds what it recorded", "§4", || {
        let (held, recorded) = (format!("{:#?}", coordinator.state()), format!("{:#?}", world.recorded()));
        let differ = held.lines().zip(recorded.lines()).find(|(held, recorded)| held != recorded);
        format!("{differ:?}")
    })
}

fn knows_what_runs(world: &World, coordinator: &Coordinator) -> Checked {
    let mut held = coordinator.running();
    let mut real: Vec<JobId> = world.flights().iter().map(|flight| flight.job.id.clone()).collect();
    held.sort_by_key(|id| format!("{id:?}"));
    real.sort_by_key(|id| format!("{id:?}"));
    ensure(held == real, "the coordinator knows what runs", "§4", || format!("{held:?}, not {real:?}"))
}

/// Whether money, tokens or time have run out.
fn is_spent(state: &State) -> bool {
    let (limits, spent) = (state.constraints(), state.control.spent.clone().unwrap_or_default());
    limits.max_cost_usd.is_some_and(|limit| spent.cost_usd >= limit)
        || limits.max_tokens.is_some_and(|limit| spent.tokens >= limit)
        || spent.seconds >= limits.max_wall_time().seconds()
}

fn children_resolved(graph: &Graph, state: &State, parent: usize) -> bool {
    graph.child_targets(parent).all(|target: Target| graph.is_resolved(state, target))
}

fn index(state: &State, atom: &AtomId) -> Result<usize, Violation> {
    let index = state.atoms.get_index_of(atom);
    index.ok_or_else(|| Violation::new("what is named exists", "D5", format!("{atom}")))
}

/// The atom whose own failure an event tells.
pub(crate) fn failed_atom(event: &Event) -> Option<&AtomId> {
    let Event::Ended { job, outcome, .. } = event else { return None };
    let failed = match outcome {
        JobOutcome::Failed { .. } | JobOutcome::TooLarge { .. } => true,
        JobOutcome::Done { check, .. } => matches!(check, CheckOutcome::Fail { .. }),
        JobOutcome::Probed { .. }
        | JobOutcome::Refused { .. }
        | JobOutcome::Unable { .. }
        | JobOutcome::NotStarted { .. }
        | JobOutcome::Lost { .. } => false,
    };
    match &job.task {
        Task::Work(atom) | Task::Check(atom) => failed.then_some(atom),
        Task::Probe(_) | Task::Replan => None,
    }
}

/// How often an atom has failed since its plan last changed, by the trail.
pub(crate) fn failures(state: &State, atom: &AtomId) -> usize {
    let since = state.trail.iter().rev().take_while(|entry| match entry {
        TrailEntry::Replan { atom: replanned, .. } => replanned != atom,
        TrailEntry::Selection { .. } | TrailEntry::Failure { .. } | TrailEntry::UserCorrection { .. } => true,
    });
    since.filter(|entry| matches!(entry, TrailEntry::Failure { atom: failed, .. } if failed == atom)).count()
}

fn usage_of(event: &Event) -> Option<&Usage> {
    match event {
        Event::Ended { usage, .. }
        | Event::Landed { usage, .. }
        | Event::Conflict { usage, .. }
        | Event::NotLanded { usage, .. }
        | Event::Verified { usage, .. }
        | Event::Replanned { usage, .. }
        | Event::Spent { usage } => Some(usage),
        Event::Begun { .. }
        | Event::AgentRan { .. }
        | Event::Edited { .. }
        | Event::Redirected { .. }
        | Event::Tampered { .. }
        | Event::StopAsked { .. }
        | Event::RedirectAsked
        | Event::RedirectAbandoned
        | Event::Woke
        | Event::StartAsked { .. }
        | Event::TurnEnded => None,
    }
}
