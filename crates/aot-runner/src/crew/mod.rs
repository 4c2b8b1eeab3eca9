//! Starts and kills attempts: each on a thread of its own, with a tree, a cage, a scratch folder and limits. The engine
//! calls the methods of [`Crew`] and hears back through its inbox. Knows nothing of the graph, and does not judge.

mod asking;
mod attempt;
#[cfg(feature = "remote")]
mod elsewhere;
mod evaluation;
mod executor;
#[cfg(feature = "remote")]
mod handing_over;
mod judging;
mod landing;
mod mending;
mod meter;
mod trying;
mod workers;

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aot_core::brief::Brief;
use aot_core::coordinator::{Answer, Event, JobId, JobOutcome, Obstacle, OnRefusedStart, Task, Usage};
use aot_core::state::{AtomId, Binding, State};
use serde::{Deserialize, Serialize};

use crate::agents::{AgentLauncher, Team};
use crate::confinement::{Caging, CheckCage, Confinement};
use crate::message::Message;
use crate::process::cage;
use crate::process::{Guard, Switch};
#[cfg(feature = "remote")]
use crate::remote::dispatch::{Dispatcher, RemoteConfig};
use crate::tree::{End, Ground, GroundError, Lent, Project, Work};

pub use attempt::{Assignment, clear_outputs, without_graph};
#[cfg(feature = "remote")]
pub use handing_over::{FinishedWork, HandOver, HandOverPlace, SharedGround};
pub use judging::LookingJudge;

#[cfg(feature = "remote")]
use elsewhere::Elsewhere;
use executor::{Executor, Here};

use workers::Workers;

/// What every job needs from the world.
#[derive(Debug)]
pub struct RunConfig {
    pub project: Project,
    pub guard: Guard,
    pub judge: Option<JudgeCommand>,
    /// Where scores come from if there is no judge.
    pub scores: ScoreSource,
    /// Which agent is asked in which role, and what their runs need.
    pub team: Team,
    pub launcher: AgentLauncher,
    pub on_refused_start: OnRefusedStart,
    pub cage: Caging,
    /// What confines checks, `setup` and judges' commands.
    pub confinement: Confinement,
    /// The variables that workers see, besides those of the job.
    pub environment: Vec<(OsString, OsString)>,
    /// How long the command of an atom may print nothing.
    pub idle: Option<Duration>,
    /// How long an agent may print nothing.
    pub agent_idle: Duration,
}

#[derive(Clone, Debug)]
pub struct JudgeCommand {
    pub command: String,
    pub time: Option<Duration>,
}

/// Where scores come from if there is neither a judge's command nor an agent that judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreSource {
    Nowhere,
    /// An agent of the host's session hands them in.
    HandedIn,
}

/// What a landing does while uncommitted edits are in its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenBlocked {
    Wait,
    GiveUp,
}

#[derive(Debug)]
pub struct Crew {
    workers: Arc<Workers>,
    attempts: HashMap<JobId, Arc<Attempt>>,
    /// With so many attempts it is looked which of them are over.
    forget_at: usize,
    verifying: Option<(u32, Switch)>,
    /// Threads that have not ended yet.
    busy: Arc<AtomicU64>,
}

/// One attempt of this process: what kills it, and its tree when the work in it is done.
#[derive(Debug, Default)]
struct Attempt {
    switch: Switch,
    done: Mutex<Option<DoneWork>>,
}

/// Work in a tree that waits until the engine lands or discards it.
#[derive(Debug)]
struct DoneWork {
    lent: Lent,
    assignment: Assignment,
    summary: String,
    artifacts: Vec<String>,
    /// Ignored files in the tree, which are not part of the work.
    ignored: Vec<String>,
    is_unchanged: bool,
}

/// What a coordinator agent is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanQuestion {
    pub job: JobId,
    pub brief: Brief,
    /// The state without the graph.
    pub state: State,
    /// The commit that it looks at, if that is not the branch's last one.
    pub base: Option<String>,
}

/// So many attempts that are over may be remembered beside as many as run.
const ATTEMPTS_REMEMBERED: usize = 64;

/// The number of the evaluation with which a run begins.
const FIRST_EVALUATION: u32 = 1;

const BUG: &str = "aot has a bug; standard error tells where";
const NO_THREAD: &str = "the system starts no more threads";

impl Crew {
    /// A landing that is blocked gives up after `landing_wait`, or earlier when the engine says so.
    pub fn new(
        config: RunConfig,
        ground: Ground,
        state: &State,
        messages: Sender<Message>,
        landing_wait: Duration,
    ) -> Crew {
        Crew::with_executor(config, ground, state, messages, landing_wait, Box::new(Here))
    }

    /// The same, with jobs on other hosts.
    #[cfg(feature = "remote")]
    pub fn on_hosts(
        config: RunConfig,
        ground: Ground,
        state: &State,
        messages: Sender<Message>,
        remote: RemoteConfig,
    ) -> Result<Crew, String> {
        let loop_id = state.control.loop_id.clone().unwrap_or_default();
        let project = ground.known(&config.project);
        let dispatcher = Dispatcher::begin(remote, &ground, &project, &loop_id, messages.clone())?;
        let executor = Box::new(Elsewhere(dispatcher));
        Ok(Crew::with_executor(config, ground, state, messages, Duration::MAX, executor))
    }

    fn with_executor(
        config: RunConfig,
        ground: Ground,
        state: &State,
        messages: Sender<Message>,
        landing_wait: Duration,
        executor: Box<dyn Executor>,
    ) -> Crew {
        let loop_id = state.control.loop_id.clone().unwrap_or_default();
        Crew {
            workers: Arc::new(Workers::new(config, ground, loop_id, (messages, landing_wait), executor)),
            attempts: HashMap::new(),
            forget_at: ATTEMPTS_REMEMBERED,
            verifying: None,
            busy: Arc::default(),
        }
    }

    pub fn project(&self) -> &Project {
        &self.workers.config.project
    }

    pub fn ground(&self) -> &Ground {
        &self.workers.ground
    }

    pub fn cage(&self) -> cage::Kind {
        self.workers.config.cage.kind
    }

    pub fn check_cage(&self) -> CheckCage {
        self.workers.config.confinement.kind()
    }

    pub fn start(&mut self, assignment: Assignment) {
        let job = assignment.job.clone();
        let attempt = self.register(&job);
        let end = Fallback::of_attempt(job.clone());
        self.thread(&name_of(&job), end, move |workers| workers.attempt(&attempt, assignment));
    }

    /// Examines what a host's worker did in this tree as if a worker of this process had ended: its changes, its check.
    pub fn examine(&mut self, assignment: Assignment, lent: Lent, binding: Binding) {
        let job = assignment.job.clone();
        let attempt = self.register(&job);
        let end = Fallback::of_attempt(job.clone());
        self.thread(&name_of(&job), end, move |workers| {
            workers.examine(&attempt, assignment, lent, binding);
        });
    }

    /// Asks the coordinator agent for another plan.
    pub fn replan(&mut self, asked: PlanQuestion) {
        let job = asked.job.clone();
        let attempt = self.register(&job);
        let replanned = |answer| Event::Replanned { job: job.clone(), answer, usage: Usage::default() };
        let end = Fallback {
            on_panic: Some(Message::Event(replanned(Answer::Failed { reason: BUG.into() }))),
            on_refusal: Some(Message::Event(replanned(Answer::NotStarted {
                obstacle: Obstacle::World,
                reason: NO_THREAD.into(),
            }))),
        };
        self.thread(&name_of(&job), end, move |workers| workers.replan(&attempt, asked));
    }

    /// Lends a tree to a worker of the host; it outlives this process. Returns the project's folder in it.
    pub fn lend(&self, job: &JobId) -> Result<PathBuf, GroundError> {
        let work = work_of(job).expect("a host is lent trees for atoms only");
        Ok(self.workers.ground.lend(&work)?.root().to_path_buf())
    }

    /// Kills the tree of processes and discards the work. Late messages of the attempt are ignored by their number.
    pub fn kill(&mut self, job: &JobId, reason: &str) {
        let end = End::Failed { reason: reason.to_owned() };
        let Some(attempt) = self.attempts.remove(job) else {
            // A host's worker has a tree that an earlier process lent, and nothing that runs here.
            let lent = work_of(job).and_then(|work| self.workers.ground.lent_before(&work));
            lent.into_iter().for_each(|lent| self.workers.give_back(lent, end.clone()));
            return;
        };
        attempt.switch.turn_off();
        // A thread that still runs gives its tree back itself.
        if let Some(done) = attempt.take() {
            self.thread("discard", Fallback::default(), move |workers| {
                let _tree = workers.lock_shared_tree();
                let job = done.assignment.job.clone();
                workers.give_back(done.lent, end);
                workers.executor.settled(&job);
            });
        }
    }

    /// Discards all that earlier processes of the session were lent, besides this work.
    pub fn discard_besides(&self, wanted: &[Work]) {
        for lent in self.workers.ground.lent_besides(wanted) {
            self.workers.give_back(lent, End::Failed { reason: "it is not wanted any more".into() });
        }
    }

    pub fn land(&mut self, job: &JobId) {
        let Some(attempt) = self.attempts.get(job).map(Arc::clone) else {
            let reason = "its tree is gone".to_owned();
            self.workers.event(Event::Conflict { job: job.clone(), reason, usage: Usage::default() });
            return;
        };
        let (job, usage) = (job.clone(), Usage::default());
        let panics = Event::Conflict { job: job.clone(), reason: BUG.into(), usage };
        let refused = Event::NotLanded { job, reason: NO_THREAD.into(), usage };
        let end =
            Fallback { on_panic: Some(Message::Event(panics)), on_refusal: Some(Message::Event(refused)) };
        self.thread("landing", end, move |workers| workers.land(&attempt));
    }

    /// Reverts a commit, when that is clean.
    pub fn revert(&mut self, atom: AtomId, commit: String) {
        self.thread("revert", Fallback::default(), move |workers| workers.revert(&atom, &commit));
    }

    /// Evaluates the base case of this state, freshly.
    pub fn verify(&mut self, number: u32, state: State) {
        let switch = Switch::default();
        self.verifying = Some((number, switch.clone()));
        if number == FIRST_EVALUATION {
            // Most loops are not done when they begin, and the first attempt need not wait for its tree.
            self.thread("tree", Fallback::default(), |workers| workers.ground.renew_ahead());
        }
        let lost = |reason: &str| Some(evaluation::lost(number, reason.into()));
        let end = Fallback { on_panic: lost(BUG), on_refusal: lost(NO_THREAD) };
        self.thread("verify", end, move |workers| workers.verify(number, &state, &switch));
    }

    /// Kills the evaluation, unless it is this one.
    pub fn keep_verifying(&mut self, wanted: Option<u32>) {
        if let Some((number, switch)) = &self.verifying
            && wanted != Some(*number)
        {
            switch.turn_off();
            self.verifying = None;
        }
    }

    pub fn when_blocked(&self, when: WhenBlocked) {
        self.workers.give_up_blocked.store(when == WhenBlocked::GiveUp, Ordering::Release);
    }

    /// Makes git and what prepares trees come to an end, or lets them take their time again.
    pub fn interrupt(&self, is_interrupted: bool) {
        let interrupt = self.workers.config.guard.interrupt();
        if is_interrupted { interrupt.ask() } else { interrupt.clear() }
    }

    /// Whether threads are still at work, killed ones included.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire) > 0
    }

    pub fn kill_all(&mut self) {
        let jobs: Vec<JobId> = self.attempts.keys().cloned().collect();
        jobs.iter().for_each(|job| self.kill(job, "it is not wanted any more"));
        self.keep_verifying(None);
        self.when_blocked(WhenBlocked::GiveUp);
        self.workers.executor.end();
    }

    /// Closes the ground, unless a thread still works on it.
    pub fn close(self) -> Result<(), GroundError> {
        match Arc::into_inner(self.workers) {
            Some(workers) => workers.ground.close(),
            None => Ok(()),
        }
    }

    fn register(&mut self, job: &JobId) -> Arc<Attempt> {
        let attempt = Arc::<Attempt>::default();
        self.attempts.insert(job.clone(), Arc::clone(&attempt));
        attempt
    }

    /// Forgets the attempts that are over, when there are many of them: nothing of them is left to kill or to land.
    pub fn forget_ended(&mut self, running: impl FnOnce() -> Vec<JobId>) {
        if self.attempts.len() < self.forget_at {
            return;
        }
        let running: HashSet<JobId> = running().into_iter().collect();
        self.attempts.retain(|job, attempt| {
            running.contains(job) || Arc::strong_count(attempt) > 1 || attempt.has_done()
        });
        self.forget_at = 2 * self.attempts.len() + ATTEMPTS_REMEMBERED;
    }

    /// Works on a thread of its own.
    fn thread(&self, name: &str, end: Fallback, work: impl FnOnce(&Workers) + Send + 'static) {
        let (workers, busy) = (Arc::clone(&self.workers), Arc::clone(&self.busy));
        busy.fetch_add(1, Ordering::AcqRel);
        let Fallback { on_panic, on_refusal } = end;
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&workers)));
            if worked.is_err() {
                on_panic.into_iter().for_each(|message| workers.send(message));
            }
            let messages = workers.messages.clone();
            // The ground can be closed as soon as no thread is counted any more.
            drop(workers);
            busy.fetch_sub(1, Ordering::AcqRel);
            // Without a receiver the run is over.
            let _ = messages.send(Message::ThreadEnded);
        });
        if started.is_err() {
            self.busy.fetch_sub(1, Ordering::AcqRel);
            on_refusal.into_iter().for_each(|message| self.workers.send(message));
        }
    }
}

/// What is sent if the work of a thread has no end of its own.
#[derive(Debug, Default)]
struct Fallback {
    on_panic: Option<Message>,
    /// The system starts no more threads.
    on_refusal: Option<Message>,
}

impl Fallback {
    fn of_attempt(job: JobId) -> Fallback {
        let ended = |job, outcome| Message::Event(Event::Ended { job, outcome, usage: Usage::default() });
        Fallback {
            on_panic: Some(ended(job.clone(), JobOutcome::Lost { reason: BUG.into() })),
            on_refusal: Some(ended(job, attempt::not_started(NO_THREAD.into()))),
        }
    }
}

fn name_of(job: &JobId) -> String {
    match &job.task {
        Task::Probe(atom) => format!("probe-{atom}"),
        Task::Work(atom) => atom.to_string(),
        Task::Check(atom) => format!("check-{atom}"),
        Task::Replan => "replan".into(),
    }
}

fn work_of(job: &JobId) -> Option<Work> {
    Some(Work { atom: job.task.atom()?.clone(), attempt: job.attempt })
}

impl Attempt {
    fn take(&self) -> Option<DoneWork> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn has_done(&self) -> bool {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn put(&self, done: DoneWork) {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
    }
}
