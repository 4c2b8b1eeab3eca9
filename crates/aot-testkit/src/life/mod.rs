//! One loop from its beginning to its last halt, all of it drawn from a seed: agents that fail, hang, get lost or
//! answer after they were killed; base cases that are wrong; people who stop, redirect and edit; crashes between any two
//! effects. The rules that must hold are in `audit`.

mod host;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use aot_core::coordinator::{
    Agents, Answer, Dispatch, Effect, Evaluation, Event, Job, JobId, JobOutcome, OnRefusedStart, Presence,
    RedirectLock, Settings, StopMode, Task, Trees, Usage,
};
use aot_core::rules::bound;
use aot_core::rules::certificate::StopKind;
use aot_core::state::State;
use jiff::Timestamp;

use crate::audit::Violation;
use crate::behaviour::{Behaviour, judges, on_the_way, unresolved};
use crate::edits;
use crate::past::{self, PastAttempt};
use crate::plans;
use crate::random::Random;
use crate::simulation::{Crash, HOST_AGENTS, Simulation, Tracing};
use crate::world::{Phase, World, is_agent};

/// People interfere, and processes die, at most so often in a life.
const MAX_INTERFERENCES: u32 = 8;
const MAX_CRASHES: u32 = 6;
/// A stopped loop is taken up again at most so often.
const MAX_RUNS: u32 = 4;

/// What a life came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub events: u64,
    pub agent_runs: u64,
    pub iterations: u32,
    pub crashes: u32,
    /// Groups that probes have put in order.
    pub orders: u64,
    pub verdicts: Vec<StopKind>,
    pub dispatch: Dispatch,
    /// Requests of a host that were refused.
    pub refusals: u64,
}

/// A life in which a rule did not hold.
#[derive(Clone, Debug)]
pub struct FailedLife {
    pub seed: u64,
    pub violation: Violation,
    pub trace: Vec<String>,
}

impl FailedLife {
    /// All that is needed to see it again.
    pub fn report(&self) -> String {
        format!(
            "{}\n\nseed {}: {}\nreplay: AOT_SEED={} cargo test -p aot-testkit --test it simulation -- --nocapture",
            self.trace.join("\n"),
            self.seed,
            self.violation,
            self.seed
        )
    }
}

/// Whether the coordinators of a life have learnt how long atoms last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    Unknown,
    /// Of most of the first atoms, by chance.
    Known,
}

/// Lives the life of a seed. A broken one is lived again with a trace.
pub fn live(seed: u64, past: Past) -> Result<Summary, Box<FailedLife>> {
    match Life::new(seed, Tracing::Off).knowing(past).run() {
        Ok(summary) => Ok(summary),
        Err(violation) => {
            let mut again = Life::new(seed, Tracing::On).knowing(past);
            // The same seed breaks the same rule; only the trace is wanted.
            let _ = again.run();
            Err(Box::new(FailedLife { seed, violation, trace: again.simulation.trace().to_vec() }))
        }
    }
}

/// The trace of a seed's life, broken or not.
pub fn trace(seed: u64) -> (Result<Summary, Violation>, Vec<String>) {
    let mut life = Life::new(seed, Tracing::On);
    let result = life.run();
    let trace = life.simulation.trace().to_vec();
    (result, trace)
}

/// Something that is going to happen. Ordered by its moment, then by when it was foreseen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Queued {
    at: Timestamp,
    number: u64,
}

#[derive(Clone, Debug)]
enum Occurrence {
    Job(JobId, JobOutcome),
    Replan(JobId),
    /// A job reports what it has used so far; if it was killed meanwhile, that was used all the same.
    Spent,
    Landing(JobId),
    /// With so many items for judges.
    Verification(u32, usize),
    /// A killed job ends after all.
    Late(JobId),
    /// A killed landing has come through.
    Unwanted(JobId),
}

struct Life {
    random: Random,
    behaviour: Behaviour,
    simulation: Simulation,
    queue: BinaryHeap<Reverse<Queued>>,
    occurrences: Vec<Occurrence>,
    /// All that was ever asked to land.
    landing: HashSet<JobId>,
    interferences: u32,
    crashes: u32,
    runs: u32,
    whole_evaluations: u32,
    /// Events that the loop did not bring about itself: they are not limited by its rules.
    external: u64,
    /// Each follows a refused start, or the end of the time.
    wakes: u64,
    /// The most that the rules allow, summed over the constraints that were in force.
    allowed: u64,
    verdicts: Vec<StopKind>,
    dispatch: Dispatch,
    refusals: u64,
    /// Turns that a host has ended, and the most that the rules allow.
    turns: u64,
    turns_allowed: u64,
}

impl Life {
    fn knowing(mut self, known: Past) -> Life {
        if known == Past::Unknown {
            return self;
        }
        // Other numbers than those that decide the rest of the life.
        let mut random = Random::new(self.random.clone().next_u64());
        let state = self.simulation.world.recorded();
        let mut attempts = Vec::new();
        for atom in state.atoms.keys() {
            if random.percent(80) {
                let (took, failed) = ((1_000.0 * random.pareto(1.0)) as u64, random.percent(20));
                attempts.push(PastAttempt { atom, agent: "some", took, failed });
            }
        }
        let durations = past::run(state, &attempts);
        self.simulation.expect(durations);
        self
    }

    fn new(seed: u64, tracing: Tracing) -> Life {
        let mut random = Random::new(seed);
        let state = plans::draw(&mut random);
        let behaviour = Behaviour::draw(&mut random);
        let seat = |taken| if taken { Presence::Available } else { Presence::Absent };
        let mut agents = Agents {
            worker: seat(random.percent(98)),
            probe: seat(random.percent(70)),
            coordinator: seat(random.percent(70)),
        };
        let trees = if random.percent(90) { Trees::Separate } else { Trees::Shared };
        let on_refused_start = if random.percent(85) { OnRefusedStart::Park } else { OnRefusedStart::Stop };
        // Every second life goes through the host's door, with the agents that a session has.
        let dispatch = if seed.is_multiple_of(2) { Dispatch::Rolling } else { Dispatch::OnRequest };
        if dispatch == Dispatch::OnRequest {
            agents = HOST_AGENTS;
        }
        let settings = Settings { agents, dispatch, trees, on_refused_start };
        let (allowed, turns_allowed) = (steps_allowed(&state), turns_allowed(&state));
        let simulation = Simulation::new(state, settings, start_of_time(), tracing);
        Life {
            random,
            behaviour,
            simulation,
            queue: BinaryHeap::new(),
            occurrences: Vec::new(),
            landing: HashSet::new(),
            interferences: 0,
            crashes: 0,
            runs: 0,
            whole_evaluations: 0,
            external: 0,
            wakes: 0,
            allowed,
            verdicts: Vec::new(),
            dispatch,
            refusals: 0,
            turns: 0,
            turns_allowed,
        }
    }

    fn run(&mut self) -> Result<Summary, Violation> {
        self.begin()?;
        loop {
            if let Some(certificate) = self.simulation.world.halted() {
                let verdict = certificate.verdict.clone();
                self.verdicts.push(verdict);
                if !self.take_up_again()? {
                    break;
                }
                continue;
            }
            self.halts_in_time()?;
            match self.dispatch {
                Dispatch::Rolling => self.step()?,
                Dispatch::OnRequest => self.host_step()?,
            }
        }
        let used = self.simulation.world.recorded().control.iteration;
        let undisturbed = self.interferences == 0 && self.crashes == 0;
        // The end of the time may kill what has just been asked for.
        let most = self.runs;
        if self.behaviour.full && undisturbed && self.dispatch == Dispatch::Rolling && used > most {
            return Err(Violation::new("a full disk uses up no iteration", "D12", format!("{used}")));
        }
        Ok(Summary {
            events: self.simulation.events(),
            agent_runs: self.simulation.audit().runs(),
            iterations: self.simulation.world.recorded().control.iteration,
            crashes: self.crashes,
            orders: self.simulation.audit().orders(),
            verdicts: std::mem::take(&mut self.verdicts),
            dispatch: self.dispatch,
            refusals: self.refusals,
        })
    }

    fn begin(&mut self) -> Result<(), Violation> {
        self.runs += 1;
        self.external += 1;
        let requested = self.simulation.world.recorded().control.redirect_requested;
        let hold = if requested && self.random.percent(50) { RedirectLock::Held } else { RedirectLock::Free };
        let crash = self.draw_crash();
        let effects = self.simulation.begin(hold, crash)?;
        self.schedule(&effects);
        self.after(crash)
    }

    /// Halting is a theorem (decisions D8, D12): a life has a computed number of steps.
    fn halts_in_time(&self) -> Result<(), Violation> {
        if self.dispatch == Dispatch::OnRequest {
            return self.host_halts_in_time();
        }
        let steps = self.simulation.events() - self.external - self.wakes;
        if steps <= self.allowed && self.wakes <= 20 + self.external {
            return Ok(());
        }
        Err(Violation::new(
            "a loop halts within a computed number of steps",
            "D8",
            format!("{}", self.allowed),
        ))
    }

    fn take_up_again(&mut self) -> Result<bool, Violation> {
        if self.runs >= MAX_RUNS || !self.random.percent(30) {
            return Ok(false);
        }
        if self.random.percent(30) {
            let state =
                edits::edit(self.simulation.world.recorded(), &mut self.random, self.simulation.world.now);
            self.simulation.edited_while_stopped(state);
        }
        self.allow_more(&self.simulation.world.recorded().clone());
        self.restart()?;
        Ok(true)
    }

    /// A person has changed the limits, perhaps, or takes a stopped loop up again.
    fn allow_more(&mut self, state: &State) {
        self.allowed += steps_allowed(state);
        self.turns_allowed += turns_allowed(state);
    }

    fn restart(&mut self) -> Result<(), Violation> {
        self.queue.clear();
        self.simulation.restart();
        self.begin()
    }

    /// A person interferes, the process crashes, or the next occurrence comes.
    fn step(&mut self) -> Result<(), Violation> {
        let redirecting = self.simulation.world.recorded().control.redirect_requested;
        let next = self.next_moment();
        if redirecting && (next.is_none() || self.random.percent(50)) {
            return self.answer_redirect();
        }
        if self.interferences < MAX_INTERFERENCES && self.random.percent(self.behaviour.interfere) {
            self.interferences += 1;
            return self.interfere();
        }
        if self.crashes < MAX_CRASHES && self.random.percent(self.behaviour.crash / 3) {
            return self.crash();
        }
        let Some(at) = next else {
            return Err(Violation::new("something happens until the halt", "D12", "nothing is queued"));
        };
        self.simulation.world.now = self.simulation.world.now.max(at);
        match self.queue.peek() {
            Some(Reverse(first)) if first.at <= at => {
                let number = self.queue.pop().expect("it was there").0.number;
                let occurrence = self.occurrences[number as usize].clone();
                self.occur(occurrence)
            }
            Some(_) | None => {
                self.wakes += 1;
                self.send(Event::Woke)
            }
        }
    }

    /// The moment of the next occurrence; those that became stale are dropped.
    fn next_moment(&mut self) -> Option<Timestamp> {
        while let Some(Reverse(first)) = self.queue.peek() {
            if self.is_current(&self.occurrences[first.number as usize]) {
                break;
            }
            self.queue.pop();
        }
        let queued = self.queue.peek().map(|Reverse(first)| first.at);
        match (queued, self.simulation.world.wake()) {
            (Some(queued), Some(wake)) => Some(queued.min(wake)),
            (queued, wake) => queued.or(wake),
        }
    }

    fn is_current(&self, occurrence: &Occurrence) -> bool {
        let phase = |id| self.simulation.world.flight(id).map(|flight| flight.phase);
        match occurrence {
            Occurrence::Job(id, _) | Occurrence::Replan(id) => phase(id) == Some(Phase::Working),
            Occurrence::Landing(id) => phase(id) == Some(Phase::Landing),
            Occurrence::Verification(number, _) => self.simulation.world.verifying() == Some(*number),
            Occurrence::Spent | Occurrence::Late(_) | Occurrence::Unwanted(_) => true,
        }
    }

    fn occur(&mut self, occurrence: Occurrence) -> Result<(), Violation> {
        match occurrence {
            Occurrence::Job(job, outcome) => {
                let refused = matches!(outcome, JobOutcome::Refused { .. } | JobOutcome::NotStarted { .. });
                self.external += u64::from(refused);
                let unstarted = refused || matches!(outcome, JobOutcome::Unable { .. });
                let mut usage = if unstarted { Usage::default() } else { self.usage_of(&job) };
                let by_agent = is_agent(self.simulation.world.recorded(), &job.task);
                if !unstarted && by_agent && matches!(job.task, Task::Work(_)) {
                    // Each mend is followed by its check, and that by its judges.
                    let mends = self.random.between(0, bound::MENDS);
                    for _ in 0..mends {
                        usage.agent_runs += 1 + self.usage_of(&job).agent_runs;
                    }
                    usage.mends = mends;
                }
                self.send(Event::Ended { job, outcome, usage })
            }
            Occurrence::Replan(id) => {
                let job = &self.simulation.world.flight(&id).expect("only current jobs end").job;
                let answer = self.behaviour.answer(&mut self.random, self.simulation.world.recorded(), job);
                let unstarted = matches!(answer, Answer::Refused { .. } | Answer::NotStarted { .. });
                self.external += u64::from(unstarted);
                self.send(Event::Replanned { job: id, answer, usage: Usage::default() })
            }
            Occurrence::Spent => {
                self.external += 1;
                let usage = on_the_way(&mut self.random);
                self.send(Event::Spent { usage })
            }
            Occurrence::Landing(job) => {
                let usage = self.usage_of(&job);
                if self.random.percent(self.behaviour.no_room) {
                    self.external += 1;
                    self.send(Event::NotLanded { job, reason: "the branch is gone".into(), usage })
                } else if self.random.percent(self.behaviour.conflict) {
                    self.send(Event::Conflict { job, reason: "it did not merge".into(), usage })
                } else {
                    let binding = match self.random.percent(self.behaviour.unchanged) {
                        true => World::land_unchanged(&job),
                        false => self.simulation.world.commit(&job),
                    };
                    self.send(Event::Landed { job, binding, usage })
                }
            }
            Occurrence::Verification(number, items) => {
                let state = self.simulation.world.recorded();
                let left = unresolved(state);
                self.whole_evaluations += u32::from(left == 0);
                let drawn = self.behaviour.evaluation(&mut self.random, left, self.whole_evaluations);
                let evaluation = self.as_the_door_sees(drawn);
                self.external += u64::from(matches!(evaluation, Evaluation::Lost { .. }));
                // The judges of an evaluation that got lost are not reported.
                let items = if matches!(evaluation, Evaluation::Lost { .. }) { 0 } else { items };
                let usage = judges(&mut self.random, items, 2);
                self.send(Event::Verified { number, evaluation, usage })
            }
            Occurrence::Unwanted(job) => {
                self.external += 1;
                let binding = self.simulation.world.commit(&job);
                self.send(Event::Landed { job, binding, usage: Usage::default() })
            }
            Occurrence::Late(job) => {
                self.external += 1;
                let ghost = Job {
                    id: job.clone(),
                    findings: None,
                    return_reason: None,
                    why: Vec::new(),
                    refusals: Vec::new(),
                };
                let state = self.simulation.world.recorded();
                let (outcome, _) = self.behaviour.outcome(&mut self.random, state, &ghost);
                self.send(Event::Ended { job, outcome, usage: Usage::default() })
            }
        }
    }

    fn usage_of(&mut self, job: &JobId) -> Usage {
        let state = self.simulation.world.recorded();
        let atom = job.task.atom().and_then(|atom| state.atoms.get(atom));
        let items = match &job.task {
            Task::Work(_) | Task::Check(_) => {
                atom.and_then(|atom| atom.check.as_ref()).map_or(0, |checks| checks.quality_items())
            }
            Task::Probe(_) | Task::Replan => 0,
        };
        judges(&mut self.random, items, 1)
    }

    fn interfere(&mut self) -> Result<(), Violation> {
        self.external += 1;
        match self.random.below(10) {
            0 => self.send(Event::StopAsked { how: StopMode::Finish, reason: None }),
            1 => self.send(Event::StopAsked { how: StopMode::Now, reason: Some("enough".into()) }),
            2 => self.send(Event::Tampered { what: "tests/a.rs".into() }),
            3..=5 => {
                let world = &self.simulation.world;
                let state = edits::edit(world.recorded(), &mut self.random, world.now);
                self.allow_more(&state);
                self.send(Event::Edited { state: Box::new(state) })
            }
            6 => self.send(Event::Woke),
            _ => self.send(Event::RedirectAsked),
        }
    }

    fn answer_redirect(&mut self) -> Result<(), Violation> {
        self.external += 1;
        if self.random.percent(20) {
            return self.send(Event::RedirectAbandoned);
        }
        let world = &self.simulation.world;
        let state = edits::redirect(world.recorded(), &mut self.random, world.now);
        self.allow_more(&state);
        self.send(Event::Redirected { state: Box::new(state) })
    }

    fn crash(&mut self) -> Result<(), Violation> {
        self.crashes += 1;
        // A landing may have come through before the process died: only the record is lost then.
        let landing: Vec<JobId> = self
            .simulation
            .world
            .flights()
            .iter()
            .filter(|flight| flight.phase == Phase::Landing)
            .map(|flight| flight.job.id.clone())
            .collect();
        for id in landing {
            if self.random.percent(50) {
                let _ = self.simulation.world.commit(&id);
            }
        }
        match self.dispatch {
            Dispatch::Rolling => self.restart(),
            Dispatch::OnRequest => {
                self.simulation.command_died();
                Ok(())
            }
        }
    }

    fn send(&mut self, event: Event) -> Result<(), Violation> {
        let crash = self.draw_crash();
        let effects = self.simulation.send(event, crash)?;
        self.schedule(&effects);
        self.after(crash)
    }

    fn draw_crash(&mut self) -> Crash {
        if self.crashes < MAX_CRASHES && self.random.percent(self.behaviour.crash) {
            Crash::After(self.random.below(5))
        } else {
            Crash::Never
        }
    }

    fn after(&mut self, crash: Crash) -> Result<(), Violation> {
        match crash {
            Crash::Never => Ok(()),
            Crash::After(_) => self.crash(),
        }
    }

    fn schedule(&mut self, effects: &[Effect]) {
        if self.dispatch == Dispatch::OnRequest {
            // A host hands results in when it wants, and a command does its own work at once.
            return;
        }
        for effect in effects {
            match effect {
                Effect::Start(job) => {
                    let state = self.simulation.world.recorded();
                    match job.id.task {
                        Task::Replan => {
                            let after = self.random.between(10, 200);
                            self.plan(after, Occurrence::Replan(job.id.clone()));
                        }
                        Task::Probe(_) | Task::Work(_) | Task::Check(_) => {
                            let (outcome, after) = self.behaviour.outcome(&mut self.random, state, job);
                            let runs = !matches!(outcome, JobOutcome::NotStarted { .. });
                            let tells = runs && is_agent(state, &job.id.task);
                            if tells && self.random.percent(self.behaviour.tells) {
                                let sooner = self.random.between(0, after);
                                self.plan(sooner, Occurrence::Spent);
                            }
                            self.plan(after, Occurrence::Job(job.id.clone(), outcome));
                        }
                    }
                }
                Effect::Land(id) => {
                    self.landing.insert(id.clone());
                    let after = self.random.between(0, 20);
                    self.plan(after, Occurrence::Landing(id.clone()));
                }
                Effect::Verify { number } => {
                    let base_case = &self.simulation.world.recorded().objective.base_case;
                    let items = base_case.as_ref().map_or(0, |checks| checks.quality_items());
                    let after = self.random.between(1, 300);
                    self.plan(after, Occurrence::Verification(*number, items));
                }
                Effect::Kill(id) if self.landing.contains(id) => {
                    // A landing that is killed may be through already.
                    if self.random.percent(50) {
                        let after = self.random.between(0, 20);
                        self.plan(after, Occurrence::Unwanted(id.clone()));
                    }
                }
                Effect::Kill(id) => {
                    if id.task != Task::Replan && self.random.percent(self.behaviour.late) {
                        let after = self.random.between(0, 900);
                        self.plan(after, Occurrence::Late(id.clone()));
                    }
                }
                Effect::Record(_)
                | Effect::Revert { .. }
                | Effect::WakeAt(_)
                | Effect::Refuse(_)
                | Effect::Halt(_) => {}
            }
        }
    }

    fn plan(&mut self, after: u64, occurrence: Occurrence) {
        let at = self.simulation.world.now.as_second() + after as i64;
        let at = Timestamp::from_second(at).expect("lives are shorter than calendars");
        self.queue.push(Reverse(Queued { at, number: self.occurrences.len() as u64 }));
        self.occurrences.push(occurrence);
    }
}

/// The most events that a loop with these limits can bring about by itself: in each iteration every worker is probed,
/// ends and lands, there is a replan, an evaluation, and a check of every parent.
fn steps_allowed(state: &State) -> u64 {
    let limits = state.constraints();
    let workers = 2 * u64::from(limits.max_parallel_agents) - 1;
    let per_iteration = 3 * workers + 4 + state.atoms.len() as u64;
    40 + u64::from(limits.max_iterations) * per_iteration
}

/// A turn of a host closes an iteration, or ends the loop.
fn turns_allowed(state: &State) -> u64 {
    u64::from(state.constraints().max_iterations) + 1
}

fn start_of_time() -> Timestamp {
    Timestamp::UNIX_EPOCH
}
