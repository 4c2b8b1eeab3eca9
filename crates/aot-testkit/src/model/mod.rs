//! Everything that can happen: from each state of a loop, every result of every job, every crash and every redirect,
//! until the loop has halted or the state is known. The rules of `audit` hold at every step, and a measure falls at
//! every step: so every loop halts. Time stands still, except while the loop is parked: that leaves out timeouts.

mod host;
pub mod parts;

use std::collections::HashSet;
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hasher};

use aot_core::brief::Cost;
use aot_core::coordinator::{
    Agents, Answer, CheckOutcome, Dispatch, Evaluation, Event, Feasibility, Job, JobId, JobOutcome, Lack,
    Obstacle, OnRefusedStart, Presence, RedirectLock, ReplanReason, Settings, StopMode, Task, Trees, Usage,
};
use aot_core::rules::Ledger;
use aot_core::rules::certificate::RedCheck;
use aot_core::rules::redirect::{CorrectionRequest, redirect};
use aot_core::rules::replan::{Alternative, NewDecomposition, PlanChange};
use aot_core::rules::reshape::NewAtom;
use aot_core::state::{LoopStatus, State};
use jiff::Timestamp;

use crate::audit::Violation;
use crate::behaviour::unresolved;
use crate::plans;
use crate::shapes::{Groups, ParentChecks, Shape};
use crate::simulation::{Command, Crash, HOST_AGENTS, Simulation, Tracing};
use crate::world::{Commit, Phase, is_agent};

/// One way to run every graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    pub dispatch: Dispatch,
    pub parallel: u32,
    pub iterations: u32,
    pub stalls: u32,
    pub coordinator: Presence,
    pub checks: ParentChecks,
    pub groups: Groups,
    pub disturbances: Disturbances,
}

/// How often the loop may still be disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Disturbances {
    pub crashes: u8,
    pub redirects: u8,
    pub stops: u8,
    /// Landings that do not merge.
    pub conflicts: u8,
    /// Agents that are not logged in.
    pub logouts: u8,
    /// Starts and landings that the world refuses.
    pub refusals: u8,
    /// Atoms that a person adds by hand.
    pub edits: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub graphs: u64,
    pub states: u64,
    pub transitions: u64,
    /// Transitions that end in a halt.
    pub halts: u64,
    /// The longest way that was gone.
    pub depth: usize,
}

impl Counts {
    pub fn add(&mut self, other: Counts) {
        self.graphs += other.graphs;
        self.states += other.states;
        self.transitions += other.transitions;
        self.halts += other.halts;
        self.depth = self.depth.max(other.depth);
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} graphs, {} states, {} transitions, {} halts, longest way {}",
            self.graphs, self.states, self.transitions, self.halts, self.depth
        )
    }
}

/// A way on which a rule did not hold.
#[derive(Clone, Debug)]
pub struct Counterexample {
    pub violation: Violation,
    pub setting: Setting,
    pub trace: Vec<String>,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}\n{}\n{}", self.setting, self.trace.join("\n"), self.violation)
    }
}

/// Something that can happen next, and whether the process survives it.
#[derive(Clone, Debug)]
enum Move {
    Send(Box<Event>, Crash),
    /// The change comes onto the branch, and the event reports it.
    Land(JobId, Crash),
    Crash(RedirectLock),
    /// The time for which the loop is parked is over.
    Wake,
    /// Of a host, in a process of its own.
    Command(Command, Crash),
    /// `aot redirect --hold` beside a host.
    HoldRedirect,
    /// Another process or a person writes the file beside a host.
    Write(Box<State>),
}

struct Node {
    simulation: Simulation,
    left: Disturbances,
    /// The numbers of the moves that led here.
    path: Vec<u16>,
}

/// Goes through all that can happen to one graph.
pub fn check(shape: &Shape, setting: Setting) -> Result<Counts, Box<Counterexample>> {
    let mut counts = Counts { graphs: 1, ..Counts::default() };
    let mut known: HashSet<u64> = HashSet::new();
    let begun =
        begin(shape, setting, Tracing::Off).map_err(|violation| explain(shape, setting, &[], violation))?;
    let mut text = String::new();
    known.insert(fingerprint(&begun, &mut text));
    let mut open = vec![begun];
    while let Some(node) = open.pop() {
        counts.states += 1;
        counts.depth = counts.depth.max(node.path.len() + 1);
        let before = measure(&node);
        for (number, next) in moves(&node, setting).into_iter().enumerate() {
            counts.transitions += 1;
            let mut path = node.path.clone();
            path.push(number as u16);
            let mut after = Node { simulation: node.simulation.clone(), left: node.left, path };
            take(&mut after, next)
                .and_then(|done| falls(&before, &measure(&after), done, &after))
                .map_err(|violation| explain(shape, setting, &after.path, violation))?;
            if setting.dispatch == Dispatch::OnRequest {
                after.simulation.end_command();
            }
            if is_over(&after) {
                counts.halts += 1;
            } else if known.insert(fingerprint(&after, &mut text)) {
                open.push(after);
            }
        }
    }
    Ok(counts)
}

fn begin(shape: &Shape, setting: Setting, tracing: Tracing) -> Result<Node, Violation> {
    let constraints = plans::limits(setting.parallel, setting.iterations, setting.stalls);
    let state = shape.state(constraints, setting.checks, setting.groups);
    let agents = match setting.dispatch {
        Dispatch::Rolling => Agents {
            worker: Presence::Available,
            probe: Presence::Available,
            coordinator: setting.coordinator,
        },
        Dispatch::OnRequest => HOST_AGENTS,
    };
    let settings = Settings {
        agents,
        dispatch: setting.dispatch,
        trees: Trees::Separate,
        on_refused_start: OnRefusedStart::Park,
    };
    let mut simulation = Simulation::new(state, settings, Timestamp::UNIX_EPOCH, tracing);
    simulation.begin(RedirectLock::Free, Crash::Never)?;
    Ok(Node { simulation, left: setting.disturbances, path: Vec::new() })
}

/// Goes a way again and writes it down.
fn explain(shape: &Shape, setting: Setting, path: &[u16], violation: Violation) -> Box<Counterexample> {
    let mut trace = Vec::new();
    if let Ok(mut node) = begin(shape, setting, Tracing::On) {
        for number in path {
            let next = moves(&node, setting).swap_remove(usize::from(*number));
            if take(&mut node, next).is_err() {
                break;
            }
        }
        trace = node.simulation.trace().to_vec();
    }
    Box::new(Counterexample { violation, setting, trace })
}

/// All that can happen next.
fn moves(node: &Node, setting: Setting) -> Vec<Move> {
    match setting.dispatch {
        Dispatch::Rolling => rolling_moves(node, setting.groups),
        Dispatch::OnRequest if node.simulation.is_busy() => host::process_moves(node, setting.groups),
        Dispatch::OnRequest => host::command_moves(node),
    }
}

fn rolling_moves(node: &Node, groups: Groups) -> Vec<Move> {
    let world = &node.simulation.world;
    let mut moves = job_moves(node, groups);
    if node.left.crashes > 0 {
        moves.push(Move::Crash(RedirectLock::Free));
    }
    let send = |event| Move::Send(Box::new(event), Crash::Never);
    if world.recorded().control.redirect_requested {
        moves.extend(
            redirected(world.recorded()).map(|state| send(Event::Redirected { state: Box::new(state) })),
        );
        moves.push(send(Event::RedirectAbandoned));
    } else if node.left.redirects > 0 {
        moves.push(send(Event::RedirectAsked));
    }
    if is_parked(node) {
        moves.push(Move::Wake);
    }
    if node.left.stops > 0 {
        moves.push(send(Event::StopAsked { how: StopMode::Finish, reason: None }));
        moves.push(send(Event::StopAsked { how: StopMode::Now, reason: None }));
    }
    moves
}

/// How what runs can end, land and be evaluated, with a crash around each.
fn job_moves(node: &Node, groups: Groups) -> Vec<Move> {
    let world = &node.simulation.world;
    let mut events: Vec<Event> = Vec::new();
    let mut landings: Vec<JobId> = Vec::new();
    let usage = Usage::default();
    for flight in world.flights() {
        let job = &flight.job.id;
        match flight.phase {
            Phase::Working => {
                events.extend(ends_of(world.recorded(), &flight.job, groups));
                if node.left.logouts > 0 && is_agent(world.recorded(), &job.task) {
                    events.push(unable(job));
                }
                if node.left.refusals > 0 {
                    events.push(not_started(job));
                }
            }
            Phase::Landing => {
                landings.push(job.clone());
                if node.left.conflicts > 0 {
                    let reason = "it did not merge".to_owned();
                    events.push(Event::Conflict { job: job.clone(), reason, usage });
                }
                if node.left.refusals > 0 {
                    let reason = "no space left on device".to_owned();
                    events.push(Event::NotLanded { job: job.clone(), reason, usage });
                }
            }
            Phase::Reported | Phase::Parked | Phase::Orphaned => {}
        }
    }
    if let Some(number) = node.simulation.coordinator().verifying() {
        for evaluation in evaluations() {
            events.push(Event::Verified { number, evaluation, usage });
        }
    }
    let mut crashes = vec![Crash::Never];
    if node.left.crashes > 0 {
        // Between the record and the rest, and before both. Later deaths leave the same file and the same branch
        // as one after the last effect.
        crashes.extend([Crash::After(0), Crash::After(1)]);
    }
    let mut moves: Vec<Move> = Vec::new();
    for event in events {
        moves.extend(crashes.iter().map(|crash| Move::Send(Box::new(event.clone()), *crash)));
    }
    for job in landings {
        moves.extend(crashes.iter().map(|crash| Move::Land(job.clone(), *crash)));
    }
    moves
}

/// Whether a move changed anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Made,
    /// A host's request was refused.
    Refused,
}

fn take(node: &mut Node, next: Move) -> Result<Progress, Violation> {
    match next {
        Move::Crash(lock) => {
            node.left.crashes -= 1;
            node.simulation.restart();
            node.simulation.begin(lock, Crash::Never)?;
            Ok(Progress::Made)
        }
        Move::Wake => {
            let wake = node.simulation.world.wake();
            node.simulation.world.now =
                wake.map_or(node.simulation.world.now, |at| at.max(node.simulation.world.now));
            send(node, Event::Woke, Crash::Never)
        }
        Move::Command(command, crash) => host::command(node, command, crash),
        Move::HoldRedirect => {
            node.left.redirects -= 1;
            node.simulation.hold_redirect();
            Ok(Progress::Made)
        }
        Move::Write(state) => {
            let redirecting = node.simulation.world.recorded().control.redirect_requested;
            node.left.edits -= u8::from(!redirecting);
            node.simulation.write_elsewhere(*state);
            Ok(Progress::Made)
        }
        Move::Land(job, crash) => {
            let binding = node.simulation.world.commit(&job);
            send(node, Event::Landed { job, binding, usage: Usage::default() }, crash)
        }
        Move::Send(event, crash) => {
            match &*event {
                Event::RedirectAsked => node.left.redirects -= 1,
                Event::StopAsked { .. } => node.left.stops -= 1,
                Event::Conflict { .. } => node.left.conflicts -= 1,
                Event::Ended { outcome: JobOutcome::Unable { .. }, .. }
                | Event::Replanned { answer: Answer::Unable { .. }, .. } => node.left.logouts -= 1,
                Event::Ended { outcome: JobOutcome::NotStarted { .. }, .. }
                | Event::Replanned { answer: Answer::NotStarted { .. }, .. }
                | Event::NotLanded { .. } => node.left.refusals -= 1,
                Event::Begun { .. }
                | Event::Ended { .. }
                | Event::Landed { .. }
                | Event::Verified { .. }
                | Event::Replanned { .. }
                | Event::Spent { .. }
                | Event::AgentRan { .. }
                | Event::Edited { .. }
                | Event::Tampered { .. }
                | Event::Redirected { .. }
                | Event::RedirectAbandoned
                | Event::Woke
                | Event::StartAsked { .. }
                | Event::TurnEnded => {}
            }
            send(node, *event, crash)
        }
    }
}

fn send(node: &mut Node, event: Event, crash: Crash) -> Result<Progress, Violation> {
    node.simulation.send(event, crash)?;
    match (crash, node.simulation.dispatch()) {
        (Crash::Never, _) => Ok(Progress::Made),
        (Crash::After(_), Dispatch::Rolling) => take(node, Move::Crash(RedirectLock::Free)),
        (Crash::After(_), Dispatch::OnRequest) => Ok(host::command_dies(node)),
    }
}

fn unable(job: &JobId) -> Event {
    let (job, reason, usage) = (job.clone(), "nobody is logged in".to_owned(), Usage::default());
    match job.task {
        Task::Replan => Event::Replanned { job, answer: Answer::Unable { lack: Lack::Login, reason }, usage },
        Task::Probe(_) | Task::Work(_) | Task::Check(_) => {
            Event::Ended { job, outcome: JobOutcome::Unable { lack: Lack::Login, reason }, usage }
        }
    }
}

fn not_started(job: &JobId) -> Event {
    let (job, reason, usage) = (job.clone(), "no space left on device".to_owned(), Usage::default());
    match job.task {
        Task::Replan => {
            Event::Replanned { job, answer: Answer::NotStarted { obstacle: Obstacle::World, reason }, usage }
        }
        Task::Probe(_) | Task::Work(_) | Task::Check(_) => {
            Event::Ended { job, outcome: JobOutcome::NotStarted { obstacle: Obstacle::World, reason }, usage }
        }
    }
}

/// How a job can end.
fn ends_of(state: &State, job: &Job, groups: Groups) -> Vec<Event> {
    let id = &job.id;
    let usage = Usage::default();
    let ended = |outcome| Event::Ended { job: id.clone(), outcome, usage };
    let done = |check| JobOutcome::Done { summary: "done".into(), artifacts: Vec::new(), check };
    match &id.task {
        Task::Work(_) => {
            // Two attempts in a row tell the same, and two do not (D34).
            let reason = format!("could not: {}", id.attempt / 2);
            vec![ended(done(CheckOutcome::None)), ended(JobOutcome::Failed { reason })]
        }
        Task::Check(_) => {
            let red = CheckOutcome::Fail { reason: "red".into() };
            vec![ended(done(CheckOutcome::Pass)), ended(done(red))]
        }
        Task::Probe(_) => {
            let probed =
                |feasible, cost| ended(JobOutcome::Probed { feasible, findings: String::new(), cost });
            let mut ends = vec![probed(Feasibility::Feasible, None), probed(Feasibility::Infeasible, None)];
            if groups == Groups::Stuck {
                // There is something to compare.
                ends.push(probed(Feasibility::Feasible, Some(Cost::Tiny)));
                ends.push(ended(JobOutcome::Lost { reason: "lost".into() }));
            }
            ends
        }
        Task::Replan => answers(state, job)
            .into_iter()
            .map(|answer| Event::Replanned { job: id.clone(), answer, usage })
            .collect(),
    }
}

/// What a coordinator agent can answer: nothing, a decomposition of the first atom asked about, or another way to do it.
fn answers(state: &State, job: &Job) -> Vec<Answer> {
    let new = |what: &str| NewAtom { description: what.into(), ..NewAtom::default() };
    let mut plans = vec![PlanChange::default()];
    let stuck = job.why.iter().find_map(|why| match why {
        ReplanReason::Failing { atom }
        | ReplanReason::TooLarge { atom, .. }
        | ReplanReason::Infeasible { atom, .. } => Some(atom),
        ReplanReason::Stalling | ReplanReason::Red { .. } => None,
    });
    if let Some(atom) = stuck {
        plans.push(PlanChange {
            decompositions: vec![NewDecomposition {
                parent: atom.clone(),
                children: vec![new("a part")],
                reason: String::new(),
            }],
            ..PlanChange::default()
        });
        plans.push(PlanChange {
            alternatives: vec![Alternative { to: atom.clone(), group: None, atom: new("another way") }],
            ..PlanChange::default()
        });
    }
    if unresolved(state) == 0 {
        plans.push(PlanChange { atoms: vec![new("repair")], ..PlanChange::default() });
    }
    plans.into_iter().map(Answer::Plan).collect()
}

/// Green or red, whatever is unresolved: the plan need not be what the base case wants.
fn evaluations() -> [Evaluation; 2] {
    let red =
        Evaluation::Failed { red: vec![RedCheck { item: "check".into(), kind: None, reason: "red".into() }] };
    [Evaluation::Passed, red]
}

/// A redirect that is cancelled, one that forces another choice, and one that wants a result again.
fn redirected(state: &State) -> impl Iterator<Item = State> {
    let mut cancelled = state.clone();
    cancelled.control.redirect_requested = false;
    let mut effects: Vec<CorrectionRequest> = Vec::new();
    if let Some((group, entry)) = state.or_groups.first()
        && let Some(choice) = entry.choices.iter().find(|choice| **choice != entry.selected)
    {
        let (group, choice) = (group.clone(), choice.clone());
        effects.push(CorrectionRequest::ForceChoice { group, choice, reason: "by hand".into() });
    }
    if let Some(atom) = state.bindings.keys().next() {
        effects.push(CorrectionRequest::Redo { atom: atom.clone(), hint: String::new() });
    }
    let made: Vec<State> = effects
        .into_iter()
        .filter_map(|wish| {
            let mut ledger = Ledger::open(cancelled.clone(), Timestamp::UNIX_EPOCH);
            redirect(&mut ledger, vec![wish]).ok().map(|()| ledger.close().0)
        })
        .collect();
    std::iter::once(cancelled).chain(made)
}

/// What falls with every step, the first difference deciding: disturbances that are left, iterations that can still be
/// opened, starts that are left in the open one and its close, what is in flight, an evaluation that is awaited.
type Measure = [u64; 5];

fn measure(node: &Node) -> Measure {
    let state = node.simulation.world.recorded();
    let control = &state.control;
    let limits = state.constraints();
    let left = &node.left;
    let outside = u64::from(left.crashes)
        + 2 * u64::from(left.redirects)
        + u64::from(left.stops)
        + u64::from(left.conflicts)
        + u64::from(left.logouts)
        + 2 * u64::from(left.refusals)
        + u64::from(left.edits)
        + u64::from(control.redirect_requested)
        + u64::from(is_parked(node));
    let iterations = u64::from(limits.max_iterations.saturating_sub(control.iteration));
    let verifying = node.simulation.coordinator().verifying().is_some();
    // After the last iteration there is one evaluation more, and then the halt.
    let last = iterations == 0 && control.open.is_none() && verifying;
    let attempts = control.open.as_ref().map_or(0, |open| {
        1 + (2 * limits.max_parallel_agents as usize - 1).saturating_sub(open.started.len()) as u64
    });
    let flights =
        node.simulation.world.flights().iter().map(|flight| match (&flight.job.id.task, flight.phase) {
            (Task::Probe(_), _) => 4,
            (Task::Work(_), Phase::Working | Phase::Parked | Phase::Orphaned) => 3,
            (Task::Work(_), Phase::Reported) => 2,
            (Task::Work(_), Phase::Landing) | (Task::Check(_) | Task::Replan, _) => 1,
        });
    [outside, iterations + u64::from(!last), attempts, flights.sum(), u64::from(verifying)]
}

/// Whether the loop waits for a moment that has not come.
fn is_parked(node: &Node) -> bool {
    let world = &node.simulation.world;
    world.recorded().control.parked_until.as_ref().is_some_and(|until| world.now < until.at())
}

/// A command that dies after it has written the end leaves a stopped loop, which no other command goes on with.
fn is_over(node: &Node) -> bool {
    let world = &node.simulation.world;
    let hosted = node.simulation.dispatch() == Dispatch::OnRequest;
    world.halted().is_some() || (hosted && world.recorded().control.status != LoopStatus::Running)
}

fn falls(before: &Measure, after: &Measure, progress: Progress, node: &Node) -> Result<(), Violation> {
    if after < before || (progress == Progress::Refused && after == before) || is_over(node) {
        return Ok(());
    }
    let detail = format!("{before:?} to {after:?}");
    Err(Violation::new("a measure falls with every step", "D8", detail))
}

/// All that can matter later: the coordinator with what it remembers, the world, what the audit counts, and which
/// disturbances are left. `text` is a buffer to write into.
fn fingerprint(node: &Node, text: &mut String) -> u64 {
    let world = &node.simulation.world;
    text.clear();
    let written = match node.simulation.dispatch() {
        // Between two commands only the file remembers; how many agents have run is in no rule without a budget.
        Dispatch::OnRequest if !node.simulation.is_busy() => {
            let mut state = world.recorded().clone();
            state.control.spent = None;
            let mut branch: Vec<&Commit> = world.branch().iter().collect();
            branch.sort_by_key(|commit| (&commit.atom, commit.attempt));
            write!(text, "{state:?}{branch:?}")
        }
        Dispatch::Rolling | Dispatch::OnRequest => {
            let (flights, branch) = (world.flights(), world.branch());
            write!(text, "{:?}{flights:?}{branch:?}{:?}", node.simulation.coordinator(), world.verifying())
        }
    };
    let audited = write!(text, "{:?}{:?}", node.simulation.audit().memory(), node.left);
    written.and(audited).expect("writing into a string cannot fail");
    let mut hash = DefaultHasher::new();
    hash.write(text.as_bytes());
    hash.finish()
}
