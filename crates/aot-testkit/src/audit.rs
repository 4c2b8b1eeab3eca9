//! What must hold at every step of every life, each rule with the decision it guards. Looks at the state file, the
//! effects and the world only, by the plain definitions of `state::Graph`: never at a coordinator's own indexes.

use std::collections::HashSet;
use std::fmt;

use aot_core::coordinator::{
    Answer, CheckOutcome, Coordinator, Effect, Evaluation, Event, Job, JobId, OnRefusedStart, Outcome,
    Presence, Settings, StopMode, Task, Trees, UnrecordedLanding, Usage,
};
use aot_core::rules::Change;
use aot_core::rules::certificate::{Budget, Certificate, Verdict};
use aot_core::state::{AtomId, AtomStatus, Closes, Graph, LoopStatus, State, Target, TrailEntry};

use crate::looks::{Kind, Looks};
use crate::words::of_event;
use crate::world::{Flight, Phase, World, is_agent};

/// A rule that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    pub rule: &'static str,
    /// The decision that the rule guards.
    pub guards: &'static str,
    pub detail: String,
}

impl Breach {
    pub fn new(rule: &'static str, guards: &'static str, detail: impl Into<String>) -> Breach {
        Breach { rule, guards, detail: detail.into() }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken: {} ({}): {}", self.rule, self.guards, self.detail)
    }
}

pub(crate) type Held = Result<(), Breach>;

pub(crate) fn hold(
    holds: bool,
    rule: &'static str,
    guards: &'static str,
    detail: impl FnOnce() -> String,
) -> Held {
    if holds { Ok(()) } else { Err(Breach::new(rule, guards, detail())) }
}

/// Whose word an event is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Word {
    /// Of something that is awaited.
    #[default]
    Awaited,
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
    /// Looks beside a probe: each is a start.
    looked: Vec<AtomId>,
    /// A group went to another choice: the iteration is no stall.
    moved: bool,
}

/// What one event has brought so far.
#[derive(Clone, Debug, Default)]
struct Step {
    word: Word,
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
}

#[derive(Clone, Debug)]
pub struct Audit {
    graph: Graph,
    /// Workers share a tree, or there is none: slots stay free.
    one_tree: bool,
    on_refused_start: OnRefusedStart,
    jobs: HashSet<JobId>,
    /// Jobs whose start was refused: they may come again.
    refused: HashSet<JobId>,
    iteration: Iteration,
    looks: Looks,
    step: Step,
    /// Attempts in flight and results of the open iteration, after the last event.
    flying: Vec<(AtomId, u32)>,
    results: Option<u32>,
    /// What ran when somebody lowered `m`, as far as it still runs.
    above: usize,
    /// The last evaluation passed, and nothing has moved the branch since.
    passed: bool,
    /// Somebody changed what nobody may, and no redirect has accepted it.
    tampered: bool,
    /// What this process was told first of agents that cannot be asked.
    blocked: Option<Verdict>,
    runs: u64,
    bound: u64,
    bound_at_opening: u64,
    /// The most agent runs that may ever happen: the first bound, and what people have added since.
    ceiling: Option<u64>,
}

impl Audit {
    pub fn new(state: &State, settings: &Settings) -> Audit {
        let one_tree = settings.trees == Trees::Shared || settings.agents.worker == Presence::Absent;
        Audit {
            graph: Graph::new(state),
            one_tree,
            on_refused_start: settings.on_refused_start,
            jobs: HashSet::new(),
            refused: HashSet::new(),
            iteration: Iteration::default(),
            looks: Looks::default(),
            step: Step::default(),
            flying: Vec::new(),
            results: None,
            above: 0,
            passed: false,
            tampered: false,
            blocked: None,
            runs: 0,
            bound: u64::MAX,
            bound_at_opening: u64::MAX,
            ceiling: None,
        }
    }

    /// Agent runs so far, judges included.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Groups that probes have put in order.
    pub fn orders(&self) -> u64 {
        self.looks.orders()
    }

    /// What later judgements depend on, beside the file and the world.
    pub fn memory(&self) -> impl fmt::Debug {
        let iteration = self.iteration.clone();
        (
            iteration,
            self.looks.memory(),
            self.results,
            self.above,
            self.passed,
            self.blocked.clone(),
            self.runs,
            self.bound,
            self.bound_at_opening,
            self.ceiling,
        )
    }

    /// Before an event is told: `state` is the file at this moment, an edit in it included.
    pub fn hear(&mut self, state: &State, event: &Event, word: Word) {
        self.step = Step { word, ..Step::default() };
        self.looks.hear(event, word);
        match event {
            Event::Edited { .. } | Event::Redirected { .. } => {
                self.graph = Graph::new(state);
                self.iteration.moved |= state.control.open.as_ref().is_some_and(|open| open.moved);
            }
            // A start that was refused is no agent run (decision D12): it comes again, and counts once.
            Event::Ended { outcome: Outcome::Refused { .. }, job, .. }
            | Event::Replanned { answer: Answer::Refused { .. }, job, .. } => {
                if word == Word::Awaited {
                    self.refused.insert(job.clone());
                    if self.on_refused_start == OnRefusedStart::Stop {
                        self.blocked.get_or_insert(Verdict::Budget { what: Budget::Allowance });
                    }
                }
            }
            Event::Ended { outcome: Outcome::NotLoggedIn { .. }, .. }
            | Event::Replanned { answer: Answer::NotLoggedIn { .. }, .. } => {
                if word == Word::Awaited {
                    self.blocked.get_or_insert(Verdict::NeedsPerson);
                }
            }
            Event::Begun { .. }
            | Event::Ended { .. }
            | Event::Landed { .. }
            | Event::Conflict { .. }
            | Event::Verified { .. }
            | Event::Replanned { .. }
            | Event::Spent { .. }
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
        if matches!((event, word), (Event::Verified { .. }, Word::Late)) {
            // An evaluation that a person cut off: its judges were shown before, and are nobody's any more.
            self.ceiling = self.ceiling.map(|ceiling| ceiling + judges);
        }
        self.tampered = match event {
            Event::Tampered { .. } => true,
            Event::Begun { .. } | Event::Redirected { .. } => false,
            Event::Ended { .. }
            | Event::Landed { .. }
            | Event::Conflict { .. }
            | Event::Verified { .. }
            | Event::Replanned { .. }
            | Event::Spent { .. }
            | Event::Edited { .. }
            | Event::StopAsked { .. }
            | Event::RedirectAsked
            | Event::RedirectAbandoned
            | Event::Woke
            | Event::StartAsked { .. }
            | Event::TurnEnded => self.tampered,
        };
        self.passed = match event {
            Event::Verified { evaluation, .. } => {
                word == Word::Awaited && matches!(evaluation, Evaluation::Passed)
            }
            Event::Begun { .. } | Event::Landed { .. } | Event::Edited { .. } | Event::Redirected { .. } => {
                false
            }
            Event::Ended { .. }
            | Event::Conflict { .. }
            | Event::Replanned { .. }
            | Event::Spent { .. }
            | Event::Tampered { .. }
            | Event::StopAsked { .. }
            | Event::RedirectAsked
            | Event::RedirectAbandoned
            | Event::Woke
            | Event::StartAsked { .. }
            | Event::TurnEnded => self.passed,
        };
    }

    /// Before a change is written: `state` is the file without it.
    pub fn change(&mut self, state: &State, change: &Change, event: &Event) -> Held {
        if let Change::AtomResolved { atom, .. }
        | Change::AtomReset { atom }
        | Change::AtomReturned { atom, .. }
        | Change::FailureNoted { atom, .. } = change
        {
            self.step.acted.push(atom.clone());
        }
        self.looks.change(change, event)?;
        match change {
            Change::AtomStarted { atom, attempt } => self.starts_what_is_ready(state, atom, *attempt)?,
            Change::AtomResolved { atom, .. } => self.resolves_what_was_seen(state, atom, event)?,
            Change::AtomReset { atom } => self.notes_what_is_undone(state, atom),
            Change::FailureNoted { atom, .. } => self.step.failures_noted.push(atom.clone()),
            Change::ChoiceSelected { reason, .. } => {
                self.step.selections.push(reason.clone());
                self.step.backtracked = true;
                self.iteration.moved |= state.control.open.is_some();
            }
            Change::ChoiceFailed { choice, .. } => {
                self.step.backtracked = true;
                let blameless =
                    self.step.closed_with.is_none() && !self.step.opened && is_nobodys_fault(event);
                hold(!blameless, "what is nobody's fault burns no choice", "D10", || {
                    format!("{choice} at {}", of_event(event))
                })?;
            }
            Change::IterationOpened => {
                opens_within_the_limit(state)?;
                self.step.opened = true;
                self.iteration =
                    Iteration { parallel: state.constraints().max_parallel_agents, ..Iteration::default() };
            }
            Change::IterationClosed { unresolved, stall_count } => {
                self.closes_by_the_count(state, *unresolved, *stall_count, event)?;
                self.step.closed_with = state.control.open.as_ref().map(|open| open.results);
            }
            Change::Verified { fruitless, fewest_red } => {
                let (expected, fewest) = after_a_red_evaluation(state, event);
                let right = *fruitless == expected && *fewest_red == Some(fewest);
                hold(right, "an evaluation is fruitless unless fewer are red than ever", "D14", || {
                    format!("{fruitless}, {fewest_red:?}, not {expected}, {fewest}")
                })?;
            }
            Change::Completed => {
                hold(self.passed, "completed is written after a pass only", "D14, D20", || of_event(event))?
            }
            _ => {}
        }
        if change.reshapes() {
            self.step.reshaped = true;
        }
        Ok(())
    }

    /// After changes were written that alter the graph's shape.
    pub fn reshape(&mut self, state: &State) {
        self.graph = Graph::new(state);
    }

    /// Before an effect is performed.
    pub fn effect(&mut self, world: &World, effect: &Effect) -> Held {
        match effect {
            Effect::Start(job) => self.starts(world, job),
            Effect::Revert { atom, commit } => {
                self.passed = false;
                self.step.reverted.push((atom.clone(), commit.clone()));
                Ok(())
            }
            Effect::Halt(certificate) => self.halts(world, certificate),
            Effect::Land(job) => self.lands_one_of_a_race(world, job),
            Effect::Kill(job) => {
                self.looks.killed(job);
                Ok(())
            }
            Effect::Record(_) | Effect::Verify { .. } | Effect::WakeAt(_) | Effect::Refuse(_) => Ok(()),
        }
    }

    /// After all effects of an event are performed.
    pub fn settled(&mut self, world: &World, coordinator: &mut Coordinator, event: &Event) -> Held {
        let state = world.recorded();
        records_what_it_holds(world, coordinator)?;
        flies_what_it_asked_for(world, coordinator)?;
        self.runs_at_most_the_allowed(world, event)?;
        self.keeps_the_budget(world)?;
        self.looks.settled(world, &self.graph, self.has_room(world))?;
        self.marks_what_flies(world)?;
        self.resolves_parents_with_their_children(state)?;
        self.has_no_cycle(state)?;
        self.undoes_with_a_reason(event)?;
        self.reverts_what_is_undone(event)?;
        self.writes_the_trail(world, event)?;
        self.ignores_the_dead(world, event)?;
        kills_all(world, event)?;
        self.recognises_what_landed(world, event)?;
        self.counts_results(world)?;
        self.closes_when_over(world, event)?;
        self.fills_its_slots(world, coordinator)?;
        self.bound_falls(coordinator, event)?;
        goes_on(world)
    }

    /// A person changed the file while nothing ran: a new bound is shown.
    pub fn edited(&mut self) {
        self.ceiling = None;
        self.bound = u64::MAX;
        self.bound_at_opening = u64::MAX;
    }

    /// A new process has taken the state up: the open iteration is over.
    pub fn crashed(&mut self, state: &State) {
        self.graph = Graph::new(state);
        self.step = Step::default();
        self.flying.clear();
        self.results = None;
        self.blocked = None;
        self.looks.crashed();
    }

    /// The process died before it recorded an event: the judges that the event told of are known to nobody. A crash
    /// in the middle of an evaluation loses them in the same way; the bound speaks of runs that were recorded.
    pub fn forget_unrecorded(&mut self, event: &Event, performed: &[Effect]) {
        let recorded = performed.iter().any(|effect| matches!(effect, Effect::Record(_)));
        if !recorded {
            self.runs -= usage_of(event).map_or(0, |usage| usage.agent_runs);
        }
        if matches!(event, Event::Edited { .. } | Event::Redirected { .. }) {
            self.edited();
        }
    }

    fn starts_what_is_ready(&mut self, state: &State, atom: &AtomId, attempt: Option<u32>) -> Held {
        let index = index(state, atom)?;
        let parent_check = self.graph.is_decomposed(index);
        let ready = if parent_check {
            children_resolved(&self.graph, state, index) && state.atoms[index].status != AtomStatus::Resolved
        } else {
            self.graph.is_ready(state, index)
        };
        hold(ready, "nothing starts before what it needs, nor dormant, cut or burnt", "D1, D2, D3", || {
            format!("{atom}")
        })?;
        let control = &state.control;
        hold(!control.redirect_requested, "nothing starts in a redirect", "D16", || format!("{atom}"))?;
        hold(control.open.is_some(), "what starts, starts in an iteration", "D7", || format!("{atom}"))?;
        hold(attempt == Some(control.iteration), "an attempt has the iteration's number", "D7", || {
            format!("{atom} {attempt:?} in {}", control.iteration)
        })?;
        let again = self.iteration.started.contains(atom);
        hold(!again, "an atom starts at most once in an iteration", "D8", || format!("{atom}"))?;
        self.iteration.started.push(atom.clone());
        let at_the_limit = control.stall_count >= state.constraints().max_stall_count;
        hold(
            !at_the_limit || failures(state, atom) < 2,
            "at the stall limit, only the hopeful are tried",
            "D11",
            || format!("{atom}"),
        )
    }

    fn resolves_what_was_seen(&self, state: &State, atom: &AtomId, event: &Event) -> Held {
        let index = index(state, atom)?;
        let seen = match event {
            Event::Landed { job, .. } => job.task == Task::Work(atom.clone()),
            Event::Begun { unrecorded: found, .. } => found.iter().any(|found| found.atom == *atom),
            Event::Ended { job, outcome: Outcome::Done { check: CheckOutcome::Pass, .. }, .. } => {
                job.task == Task::Check(atom.clone())
            }
            _ => false,
        };
        if !self.graph.is_decomposed(index) {
            return hold(seen, "an atom resolves when its work has landed", "D23", || format!("{atom}"));
        }
        let children = children_resolved(&self.graph, state, index);
        hold(children, "a parent resolves after its children", "D3", || format!("{atom}"))?;
        let checked = state.atoms[index].check.is_none() || seen;
        hold(checked, "a parent's check is seen to pass", "D3, D22", || format!("{atom}"))
    }

    fn notes_what_is_undone(&mut self, state: &State, atom: &AtomId) {
        if state.atoms.get(atom).is_some_and(|atom| atom.status == AtomStatus::Resolved) {
            self.step.undone.push(atom.clone());
            if let Some(commit) = state.bindings.get(atom).and_then(|binding| binding.commit.clone()) {
                self.step.commits_undone.push((atom.clone(), commit));
            }
        }
    }

    fn closes_by_the_count(&self, state: &State, unresolved: u32, stalls: u32, event: &Event) -> Held {
        let counted = self.graph.unresolved(state) as u32;
        hold(unresolved == counted, "the close counts what is unresolved", "D9", || {
            format!("{unresolved}, not {counted}")
        })?;
        let before = &state.control;
        let progress = before.prev_pending_count < 0
            || i64::from(unresolved) < before.prev_pending_count
            || self.iteration.moved;
        let redirected =
            !self.step.opened && matches!(event, Event::RedirectAsked | Event::Redirected { .. });
        let expected = match (progress, redirected) {
            (true, _) => 0,
            (false, true) => before.stall_count,
            (false, false) => before.stall_count + 1,
        };
        // A redirect judges nothing, and an edit may have moved the count; both leave or clear the stalls.
        let allowed = stalls == expected || (redirected && stalls <= before.stall_count);
        hold(allowed, "a stall is a close without progress", "D9", || {
            format!("{stalls}, not {expected}; {unresolved} unresolved after {}", before.prev_pending_count)
        })
    }

    fn starts(&mut self, world: &World, job: &Job) -> Held {
        let state = world.recorded();
        let id = &job.id;
        let name = || format!("{id:?}");
        let control = &state.control;
        let allowed = control.status == LoopStatus::Running && !control.redirect_requested;
        hold(allowed && !control.stop_requested, "nothing starts after a stop", "D13", name)?;
        hold(self.blocked.is_none(), "nobody is asked after one could not be", "D12", name)?;
        let again = self.refused.remove(id);
        hold(self.jobs.insert(id.clone()) || again, "a job never comes again", "D7, D8", name)?;
        if again {
            return Ok(());
        }
        let by_agent = is_agent(state, &id.task);
        self.runs += u64::from(by_agent);
        if let Task::Work(atom) = &id.task {
            self.runs_alone(world, atom)?;
            self.works_on_what_is_needed(state, atom)?;
        }
        let kind = self.looks.starts(state, &self.graph, job)?;
        if kind == Kind::Second {
            // The second half of an attempt belongs to the iteration in which it began.
            return Ok(());
        }
        self.step.asked |= by_agent;
        hold(id.attempt == control.iteration, "an attempt has the iteration's number", "D7", name)?;
        hold(control.open.is_some(), "what starts, starts in an iteration", "D7", name)?;
        self.iteration.parallel = self.iteration.parallel.max(state.constraints().max_parallel_agents);
        let most = 2 * self.iteration.parallel - 1;
        match &id.task {
            Task::Work(atom) => {
                self.iteration.attempts += 1;
                hold(self.iteration.attempts <= most, "at most 2m-1 attempts in an iteration", "D8", name)?;
                let landed = world
                    .branch()
                    .iter()
                    .any(|commit| commit.atom == *atom && state.bindings.get(atom) == Some(&commit.binding));
                hold(!landed, "nothing verified is redone", "D23", name)
            }
            Task::Probe(atom) => {
                self.iteration.attempts += 1;
                if kind == Kind::Scout {
                    let again = self.iteration.started.contains(atom) || self.iteration.looked.contains(atom);
                    hold(!again, "an atom starts at most once in an iteration", "D8", name)?;
                    self.iteration.looked.push(atom.clone());
                }
                hold(self.iteration.attempts <= most, "at most 2m-1 attempts in an iteration", "D8", name)
            }
            Task::Check(atom) => {
                let index = index(state, atom)?;
                self.iteration.attempts += 1;
                hold(self.iteration.attempts <= most, "at most 2m-1 attempts in an iteration", "D8", name)?;
                let due = self.graph.is_decomposed(index) && children_resolved(&self.graph, state, index);
                hold(due, "a parent is checked after its children", "D3", name)
            }
            Task::Replan => {
                self.iteration.replans += 1;
                let at_the_limit = control.stall_count >= state.constraints().max_stall_count;
                hold(!at_the_limit, "no replan at the stall limit", "D11", name)?;
                hold(self.iteration.replans <= 1, "at most one replan in an iteration", "D8", name)?;
                hold(self.iteration.attempts == 0, "a replan is at the opening", "D8", name)
            }
        }
    }

    /// Whoever lowers `m` does not end what runs; but nothing new begins above it.
    fn runs_at_most_the_allowed(&mut self, world: &World, event: &Event) -> Held {
        let running = world.flights().iter().filter(|flight| match flight.job.id.task {
            Task::Work(_) | Task::Probe(_) | Task::Replan => true,
            Task::Check(_) => false,
        });
        let (running, most) = (running.count(), world.recorded().constraints().max_parallel_agents as usize);
        if matches!(event, Event::Edited { .. } | Event::Redirected { .. }) {
            self.above = self.above.max(running);
        }
        self.above = self.above.min(running);
        hold(running <= most.max(self.above), "at most m run", "D7, D8", || format!("{running} of {most}"))
    }

    /// Out of money or tokens, all that runs is killed; and before that, nobody is asked beside others whose share would
    /// go beyond the limit.
    fn keeps_the_budget(&self, world: &World) -> Held {
        let state = world.recorded();
        let left = world.flights().iter().find(|flight| flight.phase != Phase::Landing);
        hold(!is_spent(state) || left.is_none(), "what has run out ends all that runs", "D12", || {
            format!("{:?}", left.map(|flight| &flight.job.id))
        })?;
        let running = agents(world);
        let fits = !self.step.asked || running == 1 || fit(state, running, running);
        hold(fits, "nobody is asked whose share is not there", "D12", || {
            format!("{running} run after {:?}", state.control.spent)
        })
    }

    fn lands_one_of_a_race(&self, world: &World, job: &JobId) -> Held {
        let state = world.recorded();
        let group = |id: &JobId| {
            let index = state.atoms.get_index_of(id.task.atom()?)?;
            self.graph.group_of(index)
        };
        let mut landing = world.flights().iter().filter(|flight| flight.phase == Phase::Landing);
        let rival = group(job).and_then(|mine| landing.find(|flight| group(&flight.job.id) == Some(mine)));
        hold(rival.is_none(), "one of a race lands at a time", "D25", || format!("{job:?}"))
    }

    /// What landed before a crash is not done again; what is not wanted any more is taken back.
    fn recognises_what_landed(&self, world: &World, event: &Event) -> Held {
        let Event::Begun { unrecorded: found, .. } = event else { return Ok(()) };
        let state = world.recorded();
        for UnrecordedLanding { atom, binding, .. } in found {
            let Some(index) = state.atoms.get_index_of(atom) else { continue };
            if state.atoms[index].status == AtomStatus::Resolved {
                continue;
            }
            let unwanted = self.graph.is_dormant(state, index)
                || self.graph.under_failed_choice(state, index)
                || self.graph.is_decomposed(index)
                || self.graph.waits_on(state, index).is_some();
            hold(unwanted, "what landed before a crash is not done again", "D23", || format!("{atom}"))?;
            let kept = world.branch().iter().any(|commit| commit.binding == *binding);
            hold(!kept, "nothing stays landed that is not wanted", "D23", || format!("{atom}"))?;
        }
        Ok(())
    }

    /// Whatever ends an attempt is a result: success, failure, return, the death of a rival.
    fn counts_results(&mut self, world: &World) -> Held {
        let flights = world.flights().iter().map(|flight| &flight.job.id);
        let attempts = flights.filter(|id| !self.looks.is_scout(id));
        let mut flying: Vec<(AtomId, u32)> = attempts
            .filter_map(|id| Some((id.task.atom()?.clone(), id.attempt)))
            .chain(self.looks.awaited())
            .collect();
        flying.sort();
        flying.dedup();
        let gone = self.flying.iter().filter(|attempt| !flying.contains(attempt)).count() as u32;
        let results = world.recorded().control.open.as_ref().map(|open| open.results);
        let (before, undisturbed) = (self.results, !self.step.opened && self.step.closed_with.is_none());
        self.flying = flying;
        self.results = results;
        match (before, results) {
            (Some(before), Some(after)) if undisturbed => {
                hold(after == before + gone, "whatever ends an attempt is a result", "D7", || {
                    format!("{before} results and {gone} more are not {after}")
                })
            }
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// A barrier for judgement: `m` results are in, or nothing runs but what the next iteration has begun.
    fn closes_when_over(&self, world: &World, event: &Event) -> Held {
        let Some(results) = self.step.closed_with else { return Ok(()) };
        let state = world.recorded();
        let by_a_person =
            matches!(event, Event::RedirectAsked | Event::Redirected { .. } | Event::Edited { .. });
        let begun = |id: &JobId| self.step.opened && id.attempt == state.control.iteration;
        let over = results >= state.constraints().max_parallel_agents
            || world.flights().iter().all(|flight| begun(&flight.job.id));
        hold(over || by_a_person, "an iteration closes when m results are in or nothing runs", "D7", || {
            format!("{results} results at {}", of_event(event))
        })
    }

    /// While nothing speaks against it, whatever is ready runs. Conflicts, waiting checks, stalls and replans all may
    /// speak against it; a loop without them leaves no slot free.
    fn fills_its_slots(&self, world: &World, coordinator: &Coordinator) -> Held {
        let state = world.recorded();
        let control = &state.control;
        let Some(open) = &control.open else { return Ok(()) };
        let hindered = world.halted().is_some()
            || control.status != LoopStatus::Running
            || control.stop_requested
            || control.redirect_requested
            || control.parked_until.is_some()
            || control.stall_count >= state.constraints().max_stall_count
            || self.passed
            || self.tampered
            || self.blocked.is_some()
            || is_spent(state)
            || !self.affords_one_more(world)
            || coordinator.verifying().is_some()
            || !coordinator.awaiting_person().is_empty()
            || world.flights().iter().any(|flight| flight.job.id.task == Task::Replan)
            || state
                .or_groups
                .values()
                .any(|group| group.next_choice().is_none() && !group.failed.is_empty())
            || state.atoms.values().any(|atom| !atom.writes.is_empty() || atom.resource.is_some());
        if hindered || self.one_tree || !self.has_slot(world) {
            return Ok(());
        }
        let ready = self.graph.ready(state);
        let had_its_turn = |id: &AtomId| open.started.contains(id) || self.iteration.looked.contains(id);
        let idle = ready.iter().map(|index| &state.atoms[*index].id).find(|id| !had_its_turn(id));
        hold(idle.is_none(), "no slot stays free while something is ready", "D7", || format!("{idle:?}"))
    }

    fn affords_one_more(&self, world: &World) -> bool {
        let running = agents(world);
        running == 0 || fit(world.recorded(), running + 1, running)
    }

    /// Whether one more can start in the open iteration. Who waits for looks beside it keeps its slot.
    fn has_slot(&self, world: &World) -> bool {
        let state = world.recorded();
        let m = state.constraints().max_parallel_agents as usize;
        let probing = |atom: &AtomId, attempt: u32| {
            world.flight(&JobId { task: Task::Probe(atom.clone()), attempt }).is_some()
        };
        let waiting = self.looks.awaited().filter(|(atom, attempt)| !probing(atom, *attempt)).count();
        let started = state.control.open.as_ref().map_or(0, |open| open.started.len());
        world.flights().len() + waiting < m && started + self.iteration.looked.len() < 2 * m - 1
    }

    /// Whether one more look would fit.
    fn has_room(&self, world: &World) -> bool {
        let running = world.recorded().control.open.is_some() && world.halted().is_none();
        running && !self.one_tree && self.has_slot(world) && self.affords_one_more(world)
    }

    fn works_on_what_is_needed(&self, state: &State, atom: &AtomId) -> Held {
        let index = index(state, atom)?;
        let graph = &self.graph;
        let fit = state.atoms[index].status == AtomStatus::InProgress
            && !graph.is_decomposed(index)
            && !graph.is_dormant(state, index)
            && !graph.under_failed_choice(state, index)
            && graph.waits_on(state, index).is_none();
        hold(fit, "work is done on what is ready", "D1, D2, D3", || format!("{atom}"))
    }

    fn runs_alone(&self, world: &World, atom: &AtomId) -> Held {
        let state = world.recorded();
        let mine = &state.atoms[atom];
        for flight in world.flights() {
            let Task::Work(other) = &flight.job.id.task else { continue };
            let Some(theirs) = state.atoms.get(other).filter(|theirs| theirs.id != mine.id) else { continue };
            let same = mine.resource.is_some() && mine.resource == theirs.resource;
            let overlap = mine.writes.iter().any(|a| theirs.writes.iter().any(|b| overlap(a, b)));
            hold(!same && !overlap, "what would collide does not run together", "D26", || {
                format!("{atom} beside {other}")
            })?;
        }
        Ok(())
    }

    /// In progress is what flies, or waits for looks beside it, and nothing else.
    fn marks_what_flies(&self, world: &World) -> Held {
        let state = world.recorded();
        for atom in state.atoms.values().filter(|atom| atom.status == AtomStatus::InProgress) {
            let flies = world.flights().iter().any(|flight| flight.job.id.task.atom() == Some(&atom.id))
                || self.looks.awaited().any(|(awaited, _)| awaited == atom.id);
            hold(flies, "what is in progress runs", "D7", || format!("{}", atom.id))?;
        }
        for flight in world.flights() {
            let id = &flight.job.id;
            let Some(atom) = id.task.atom().filter(|_| !self.looks.is_scout(id)) else { continue };
            let marked = state.atoms.get(atom).is_some_and(|atom| atom.status == AtomStatus::InProgress);
            hold(marked, "what runs is in progress", "D7", || format!("{atom}"))?;
        }
        Ok(())
    }

    fn resolves_parents_with_their_children(&self, state: &State) -> Held {
        let resolved =
            state.atoms.values().enumerate().filter(|(_, atom)| atom.status == AtomStatus::Resolved);
        for (index, atom) in resolved {
            let whole = !self.graph.is_decomposed(index) || children_resolved(&self.graph, state, index);
            hold(whole, "undoing a child undoes the parent", "D3", || format!("{}", atom.id))?;
        }
        let waits_for_nothing = |index: &usize| {
            state.atoms[*index].status == AtomStatus::Pending
                && state.atoms[*index].check.is_none()
                && self.graph.is_decomposed(*index)
                && children_resolved(&self.graph, state, *index)
                && !self.graph.is_dormant(state, *index)
                && !self.graph.under_failed_choice(state, *index)
        };
        // While a redirect is made, and after a refusal to go on, nothing is brought in order.
        let at_work = state.control.status == LoopStatus::Running && !state.control.redirect_requested;
        let left = (0..state.atoms.len()).filter(|_| at_work).find(waits_for_nothing);
        hold(left.is_none(), "a parent resolves with its last child", "D3", || {
            format!("{:?}", left.map(|index| &state.atoms[index].id))
        })
    }

    /// Backtracking may select a cycle, which is a deadlock then; nothing else makes one.
    fn has_no_cycle(&self, state: &State) -> Held {
        if !self.step.reshaped || self.step.backtracked {
            return Ok(());
        }
        let cycle = self.graph.cycles(state).into_iter().find(|cycle| cycle.closes == Closes::Now);
        hold(cycle.is_none(), "no change of plan makes a cycle", "D5", || format!("{cycle:?}"))
    }

    fn undoes_with_a_reason(&self, event: &Event) -> Held {
        let by_a_person = matches!(event, Event::Edited { .. } | Event::Redirected { .. });
        let allowed = self.step.undone.is_empty() || self.step.backtracked || by_a_person;
        hold(allowed, "nothing verified is undone without a backtrack or a redirect", "D2, D31", || {
            format!("{:?} at {}", self.step.undone, of_event(event))
        })
    }

    fn reverts_what_is_undone(&self, event: &Event) -> Held {
        if matches!(event, Event::Edited { .. } | Event::Redirected { .. }) {
            return Ok(());
        }
        let missing = self.step.commits_undone.iter().find(|undone| !self.step.reverted.contains(undone));
        hold(missing.is_none(), "what is undone is reverted", "D23", || format!("{missing:?}"))
    }

    fn writes_the_trail(&self, world: &World, event: &Event) -> Held {
        let Some(atom) = failed_atom(event) else { return Ok(()) };
        if self.step.word == Word::Late || !world.recorded().atoms.contains_key(atom) {
            return Ok(());
        }
        let noted = self.step.failures_noted.contains(atom)
            || self.step.selections.iter().any(|reason| reason.contains(atom.as_str()));
        hold(noted, "each failure stands in the trail", "D30", || format!("{atom} at {}", of_event(event)))
    }

    /// What a killed job says changes nothing, and what it landed is taken back.
    fn ignores_the_dead(&self, world: &World, event: &Event) -> Held {
        let job = match (self.step.word, event) {
            (Word::Late, Event::Ended { job, .. } | Event::Landed { job, .. }) => job,
            (Word::Late | Word::Awaited, _) => return Ok(()),
        };
        let acted = job.task.atom().is_some_and(|atom| self.step.acted.contains(atom));
        hold(!acted || world.halted().is_some(), "the word of a killed job is ignored", "D7", || {
            of_event(event)
        })?;
        let landed = matches!(event, Event::Landed { .. })
            && world
                .branch()
                .iter()
                .any(|commit| job.task == Task::Work(commit.atom.clone()) && commit.attempt == job.attempt);
        hold(!landed, "nothing stays landed that is not wanted", "D23", || of_event(event))
    }

    fn bound_falls(&mut self, coordinator: &mut Coordinator, event: &Event) -> Held {
        let bound = coordinator.bound().agent_runs;
        let ceiling = match (self.ceiling, event) {
            (None, _) => {
                let most = promised(coordinator.state());
                hold(bound <= most, "the bound shown is the one promised", "D8", || {
                    format!("{bound}, {most}")
                })?;
                self.runs + bound
            }
            (Some(ceiling), Event::Edited { .. } | Event::Redirected { .. }) => {
                self.bound_at_opening = u64::MAX;
                ceiling.max(self.runs + bound)
            }
            // What was broken off is evaluated again.
            (Some(ceiling), Event::Begun { .. } | Event::RedirectAsked) => {
                let more = bound.saturating_sub(self.bound);
                hold(
                    more <= evaluation(coordinator.state()),
                    "a new process or a redirect adds one evaluation at most",
                    "D8",
                    || format!("{} to {bound}", self.bound),
                )?;
                ceiling + evaluation(coordinator.state())
            }
            (Some(ceiling), _) => {
                hold(bound <= self.bound, "the bound never rises", "D8", || {
                    format!("{} to {bound} at {}", self.bound, of_event(event))
                })?;
                ceiling
            }
        };
        self.ceiling = Some(ceiling);
        hold(self.runs + bound <= ceiling, "agent runs stay within the bound shown", "D8", || {
            format!("{} done and {bound} to come, {ceiling} shown, at {}", self.runs, of_event(event))
        })?;
        if self.step.opened {
            hold(bound < self.bound_at_opening, "the bound falls with every iteration", "D8", || {
                format!("{} to {bound}", self.bound_at_opening)
            })?;
            self.bound_at_opening = bound;
        }
        self.bound = bound;
        Ok(())
    }

    fn halts(&self, world: &World, certificate: &Certificate) -> Held {
        let state = world.recorded();
        let control = &state.control;
        let say = || format!("{:?} in {:?}", certificate.verdict, control);
        hold(world.flights().is_empty(), "nothing runs at a halt", "D13", || {
            format!("{:?}", world.flights().iter().map(|flight| &flight.job.id).collect::<Vec<_>>())
        })?;
        let exit = certificate.exit == certificate.verdict.exit();
        hold(
            exit && certificate.iterations == control.iteration,
            "a certificate fits the state",
            "D13",
            say,
        )?;
        let completed = certificate.verdict == Verdict::Completed;
        let status = if completed { LoopStatus::Completed } else { LoopStatus::Stopped };
        // A loop without an agent is refused before it starts, and stays as it is (D27).
        let refused = matches!(certificate.verdict, Verdict::NoAgent { .. });
        hold(refused || control.status == status, "a halt is written", "D13", say)?;
        let reason = refused || completed || control.stop_reason.as_deref() == Some(&*certificate.reason);
        hold(reason, "the certificate's reason is the file's", "D13", say)?;
        let holds = match &certificate.verdict {
            Verdict::Exhausted { group } => state
                .or_groups
                .get(group)
                .is_some_and(|group| group.choices.iter().all(|choice| group.failed.contains(choice))),
            Verdict::IterationLimit => control.iteration >= state.constraints().max_iterations,
            Verdict::Deadlock { atoms } => {
                !atoms.is_empty()
                    && self.graph.cycles(state).iter().any(|cycle| cycle.closes != Closes::OnSwitch)
                    && self.graph.ready(state).is_empty()
                    && atoms.iter().all(|atom| {
                        index(state, atom).is_ok_and(|index| self.graph.is_unresolved(state, index))
                    })
            }
            Verdict::Stalled => {
                let limit = state.constraints().max_stall_count;
                control.stall_count >= limit
                    || control.fruitless.unwrap_or(0) >= limit
                    || self.graph.unresolved(state) == 0
            }
            Verdict::RedirectInterrupted => !control.redirect_requested,
            Verdict::Budget { what: Budget::Allowance } => {
                self.blocked.as_ref() == Some(&certificate.verdict)
            }
            Verdict::Budget { what: Budget::Money | Budget::Tokens | Budget::Time } => is_spent(state),
            Verdict::Completed
            | Verdict::StoppedByHand
            | Verdict::Tampered
            | Verdict::NeedsPerson
            | Verdict::NoAgent { .. } => true,
        };
        // Whoever cannot be asked ends the loop, unless somebody else ended it, or the base case did.
        let told = match (&self.blocked, &certificate.verdict) {
            (None, _) | (_, Verdict::Completed | Verdict::StoppedByHand | Verdict::Tampered) => true,
            (_, Verdict::RedirectInterrupted) => true,
            // With nothing unresolved, what waits for a person in the base case comes first.
            (Some(blocked), verdict) => blocked == verdict || *verdict == Verdict::NeedsPerson,
        };
        hold(told, "whoever cannot be asked ends the loop", "D12, D13", say)?;
        hold(holds, "the verdict is true of the state", "D13", say)
    }
}

fn opens_within_the_limit(state: &State) -> Held {
    let control = &state.control;
    hold(control.open.is_none(), "one iteration is open at a time", "D7", || format!("{control:?}"))?;
    let most = state.constraints().max_iterations;
    hold(control.iteration < most, "no iteration beyond the limit", "D8", || format!("{control:?}"))
}

fn records_what_it_holds(world: &World, coordinator: &Coordinator) -> Held {
    hold(coordinator.state() == world.recorded(), "the coordinator holds what it recorded", "§4", || {
        let (held, recorded) = (format!("{:#?}", coordinator.state()), format!("{:#?}", world.recorded()));
        let differ = held.lines().zip(recorded.lines()).find(|(held, recorded)| held != recorded);
        format!("{differ:?}")
    })
}

fn flies_what_it_asked_for(world: &World, coordinator: &Coordinator) -> Held {
    let mut held = coordinator.running();
    let mut real: Vec<JobId> = world.flights().iter().map(|flight| flight.job.id.clone()).collect();
    held.sort_by_key(|id| format!("{id:?}"));
    real.sort_by_key(|id| format!("{id:?}"));
    hold(held == real, "the coordinator knows what runs", "§4", || format!("{held:?}, not {real:?}"))
}

fn kills_all(world: &World, event: &Event) -> Held {
    let all = match event {
        Event::RedirectAsked | Event::Tampered { .. } | Event::StopAsked { how: StopMode::Now, .. } => true,
        Event::StopAsked { how: StopMode::Finish, .. } => false,
        Event::Begun { .. }
        | Event::Ended { .. }
        | Event::Landed { .. }
        | Event::Conflict { .. }
        | Event::Verified { .. }
        | Event::Replanned { .. }
        | Event::Spent { .. }
        | Event::Edited { .. }
        | Event::Redirected { .. }
        | Event::RedirectAbandoned
        | Event::Woke
        | Event::StartAsked { .. }
        | Event::TurnEnded => false,
    };
    let left = world.flights().iter().find(|flight| flight.phase != Phase::Landing);
    hold(!all || left.is_none(), "all that runs is killed", "D13, D16", || {
        format!("{:?} at {}", left.map(|flight| &flight.job.id), of_event(event))
    })
}

/// Somebody will tell the coordinator something: nothing sleeps for ever.
fn goes_on(world: &World) -> Held {
    let awaited = world.halted().is_some()
        || !world.flights().is_empty()
        || world.verifying().is_some()
        || world.wake().is_some()
        || world.recorded().control.redirect_requested;
    hold(awaited, "a loop that has not halted waits for something", "D12, D13", || {
        format!("{:?}", world.recorded().control)
    })
}

/// The most judges of one evaluation of the base case.
fn evaluation(state: &State) -> u64 {
    state.objective.base_case.as_ref().map_or(0, |checks| 2 * checks.quality_items() as u64)
}

/// The figure before the first start: `2Q + N((2m-1)(2+2q) + 1 + 2Q)`.
fn promised(state: &State) -> u64 {
    let limits = state.constraints();
    let checks = state.atoms.values().filter_map(|atom| atom.check.as_ref());
    let judges = checks.map(|check| check.quality_items() as u64).max().unwrap_or(0);
    let attempts = 2 * u64::from(limits.max_parallel_agents) - 1;
    let iteration = attempts * (2 + 2 * judges) + 1 + evaluation(state);
    evaluation(state) + u64::from(limits.max_iterations) * iteration
}

/// Whether money, tokens or time have run out.
fn is_spent(state: &State) -> bool {
    let (limits, spent) = (state.constraints(), state.control.spent.clone().unwrap_or_default());
    limits.max_cost_usd.is_some_and(|limit| spent.cost_usd >= limit)
        || limits.max_tokens.is_some_and(|limit| spent.tokens >= limit)
        || spent.seconds >= limits.max_wall_time().seconds()
}

/// The agents that run, those among them whose start was refused.
fn agents(world: &World) -> usize {
    let runs = |flight: &&Flight| {
        matches!(flight.phase, Phase::Working | Phase::Parked)
            && is_agent(world.recorded(), &flight.job.id.task)
    };
    world.flights().iter().filter(runs).count()
}

/// Whether so many agents fit beside what is spent, if each needs what one did on average; `running` are not through.
fn fit(state: &State, agents: usize, running: usize) -> bool {
    let (limits, spent) = (state.constraints(), state.control.spent.clone().unwrap_or_default());
    let ended = spent.agent_runs - running as u64;
    let fits = |limit: Option<f64>, spent: f64| {
        limit.is_none_or(|limit| spent + spent * agents as f64 / ended as f64 <= limit + 1e-6)
    };
    ended == 0
        || (fits(limits.max_cost_usd, spent.cost_usd)
            && fits(limits.max_tokens.map(|limit| limit as f64), spent.tokens as f64))
}

fn children_resolved(graph: &Graph, state: &State, parent: usize) -> bool {
    graph.child_targets(parent).all(|target: Target| graph.is_resolved(state, target))
}

fn index(state: &State, atom: &AtomId) -> Result<usize, Breach> {
    let index = state.atoms.get_index_of(atom);
    index.ok_or_else(|| Breach::new("what is named exists", "D5", format!("{atom}")))
}

/// The atom whose own failure an event tells.
pub(crate) fn failed_atom(event: &Event) -> Option<&AtomId> {
    let Event::Ended { job, outcome, .. } = event else { return None };
    let failed = match outcome {
        Outcome::Failed { .. } | Outcome::TooLarge { .. } => true,
        Outcome::Done { check, .. } => matches!(check, CheckOutcome::Fail { .. }),
        Outcome::Probed { .. }
        | Outcome::Refused { .. }
        | Outcome::NotLoggedIn { .. }
        | Outcome::Lost { .. } => false,
    };
    match &job.task {
        Task::Work(atom) | Task::Check(atom) => failed.then_some(atom),
        Task::Probe(_) | Task::Replan => None,
    }
}

/// How many evaluations in a row brought nothing, and the fewest that were red, after one more.
fn after_a_red_evaluation(state: &State, event: &Event) -> (u32, u32) {
    let red = match event {
        Event::Verified { evaluation: Evaluation::Failed { red }, .. } => red.len() as u32,
        _ => return (u32::MAX, u32::MAX),
    };
    let control = &state.control;
    match control.fewest_red {
        Some(fewest) if red >= fewest => (control.fruitless.unwrap_or(0) + 1, fewest),
        Some(_) | None => (0, red),
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

/// Whether an attempt came back through nobody's fault.
fn is_nobodys_fault(event: &Event) -> bool {
    match event {
        Event::Conflict { .. } => true,
        Event::Ended { outcome, .. } => match outcome {
            Outcome::Lost { .. } | Outcome::Refused { .. } | Outcome::NotLoggedIn { .. } => true,
            Outcome::Done { check, .. } => {
                matches!(check, CheckOutcome::Error { .. } | CheckOutcome::Pending { .. })
            }
            Outcome::Failed { .. } | Outcome::TooLarge { .. } | Outcome::Probed { .. } => false,
        },
        Event::Begun { .. }
        | Event::Landed { .. }
        | Event::Verified { .. }
        | Event::Replanned { .. }
        | Event::Spent { .. }
        | Event::Edited { .. }
        | Event::Tampered { .. }
        | Event::StopAsked { .. }
        | Event::RedirectAsked
        | Event::Redirected { .. }
        | Event::RedirectAbandoned
        | Event::Woke
        | Event::StartAsked { .. }
        | Event::TurnEnded => false,
    }
}

/// Whether two of the globs that `plans` draws can name one path: one's fixed beginning begins the other's.
fn overlap(a: &str, b: &str) -> bool {
    let fixed = |glob: &str| glob.split('*').next().unwrap_or_default().to_owned();
    let (a, b) = (fixed(a), fixed(b));
    a.starts_with(&b) || b.starts_with(&a)
}

fn usage_of(event: &Event) -> Option<&Usage> {
    match event {
        Event::Ended { usage, .. }
        | Event::Landed { usage, .. }
        | Event::Conflict { usage, .. }
        | Event::Verified { usage, .. }
        | Event::Replanned { usage, .. }
        | Event::Spent { usage } => Some(usage),
        Event::Begun { .. }
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
