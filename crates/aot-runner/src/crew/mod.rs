//! Starts and kills many: each attempt on a thread of its own, with a tree, a cage, a scratch folder and limits. Knows
//! nothing of the graph, and does not judge what it sees.

mod asking;
mod attempt;
mod judging;
mod message;
mod meter;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aot_core::brief::Brief;
use aot_core::coordinator::{CheckOutcome, JobId, OnRefusedStart, Task, Usage};
use aot_core::state::{AtomId, Binding, State};
use aot_core::verdict::Jobs;
use jiff::Timestamp;

use crate::agents::{AgentLauncher, Team};
use crate::checks::seal::Seal;
use crate::checks::{Checker, Occasion, Progress, Whose};
use crate::process::cage::{self, Cage, Network};
use crate::process::{Guard, Switch};
use crate::tree::{CommitMessage, End, Ground, GroundError, Kind, Landing, Lent, Project, Reverted, Waiting};

use meter::Meter;

pub use attempt::{Assignment, clear_outputs, excerpt};
pub use message::{Message, Said, tampered, weighed};

/// A landing with something in its way looks again after so long, at first and at most.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// So long somebody else may take to land.
const SOMEBODY_LANDS: Duration = Duration::from_secs(2);

/// What every job needs from the world.
#[derive(Debug)]
pub struct RunConfig {
    pub project: Project,
    pub guard: Guard,
    pub shell: PathBuf,
    pub judge: Option<JudgeCommand>,
    /// Who is asked in which role, and what their runs need.
    pub team: Team,
    pub launcher: AgentLauncher,
    /// Whether a limit is waited for.
    pub on_refused_start: OnRefusedStart,
    pub cage: Caging,
    /// The variables that workers see, besides those of the job.
    pub environment: Vec<(OsString, OsString)>,
    /// How long a worker may print nothing.
    pub idle: Option<Duration>,
}

#[derive(Clone, Debug)]
pub struct JudgeCommand {
    pub command: String,
    pub time: Option<Duration>,
}

/// What holds workers in, and what else they may write.
#[derive(Clone, Debug)]
pub struct Caging {
    pub kind: cage::Kind,
    pub writable: Vec<PathBuf>,
    pub network: Network,
}

/// Everybody at work.
#[derive(Debug)]
pub struct Crew {
    workers: Arc<Workers>,
    attempts: HashMap<JobId, Arc<Attempt>>,
    verifying: Option<(u32, Switch)>,
}

/// What the threads share.
#[derive(Debug)]
struct Workers {
    config: RunConfig,
    ground: Ground,
    loop_id: String,
    messages: Sender<Message>,
    /// Held by whoever changes the branch or looks at it as a whole: one landing or one evaluation at a time (D20).
    branch_lock: Mutex<()>,
    /// Where there is one tree for all, whoever works in it holds this.
    shared_tree: Mutex<()>,
    /// Landings that wait for a person's edits give up.
    give_up_blocked: AtomicBool,
    scratches: AtomicU64,
    /// Threads that have not ended yet.
    busy: AtomicU64,
}

/// One attempt: what ends it, and the tree that waits to be landed.
#[derive(Debug)]
struct Attempt {
    switch: Switch,
    done: Mutex<Option<ReadyToLand>>,
}

/// Work that its check has passed, and that nobody has asked to land yet.
#[derive(Debug)]
struct ReadyToLand {
    lent: Lent,
    assignment: Assignment,
    summary: String,
    artifacts: Vec<String>,
}

impl Crew {
    pub fn new(config: RunConfig, ground: Ground, loop_id: String, messages: Sender<Message>) -> Crew {
        let workers = Workers {
            config,
            ground,
            loop_id,
            messages,
            branch_lock: Mutex::new(()),
            shared_tree: Mutex::new(()),
            give_up_blocked: AtomicBool::new(false),
            scratches: AtomicU64::new(0),
            busy: AtomicU64::new(0),
        };
        Crew { workers: Arc::new(workers), attempts: HashMap::new(), verifying: None }
    }

    pub fn ground(&self) -> &Ground {
        &self.workers.ground
    }

    pub fn cage(&self) -> cage::Kind {
        self.workers.config.cage.kind
    }

    pub fn start(&mut self, assignment: Assignment) {
        let attempt = Arc::new(Attempt { switch: Switch::default(), done: Mutex::new(None) });
        self.attempts.insert(assignment.job.clone(), Arc::clone(&attempt));
        let job = assignment.job.clone();
        self.thread(&name_of(&job), Message::lost(job), move |workers| workers.attempt(&attempt, assignment));
    }

    /// What somebody else did in this tree is looked at as if a worker of ours had ended: what it changed, its check.
    pub fn hand_in(&mut self, assignment: Assignment, lent: Lent, binding: Binding) {
        let attempt = Arc::new(Attempt { switch: Switch::default(), done: Mutex::new(None) });
        self.attempts.insert(assignment.job.clone(), Arc::clone(&attempt));
        let job = assignment.job.clone();
        let name = name_of(&job);
        self.thread(&name, Message::lost(job), move |workers| {
            workers.take_in(&attempt, assignment, lent, binding)
        });
    }

    /// Asks the coordinator agent.
    pub fn replan(&mut self, job: JobId, brief: Brief, state: State) {
        let attempt = Arc::new(Attempt { switch: Switch::default(), done: Mutex::new(None) });
        self.attempts.insert(job.clone(), Arc::clone(&attempt));
        let otherwise = Message::unplanned(job.clone());
        self.thread(&name_of(&job), otherwise, move |workers| workers.replan(&attempt, &job, &brief, &state));
    }

    /// The tree of processes is killed and the work discarded. Whatever it still says will be ignored.
    pub fn kill(&mut self, job: &JobId) {
        let Some(attempt) = self.attempts.remove(job) else { return };
        attempt.switch.turn_off();
        // Where it runs, its own thread clears up; where it waits to be landed, nobody else would.
        if let Some(done) = attempt.take() {
            self.thread("discard", None, move |workers| {
                workers.give_back(done.lent, End::Discarded { reason: "it is not wanted any more".into() });
            });
        }
    }

    pub fn land(&mut self, job: &JobId) {
        let Some(attempt) = self.attempts.remove(job) else {
            let reason = "its tree is gone".to_owned();
            self.send(Message::Conflict { job: job.clone(), reason, usage: Usage::default() });
            return;
        };
        let Some(done) = attempt.take() else { return };
        self.thread("landing", Message::unlanded(job.clone()), move |workers| workers.land(&attempt, done));
    }

    /// Takes a commit back, when that is clean.
    pub fn revert(&mut self, atom: AtomId, commit: String) {
        self.thread("revert", None, move |workers| workers.revert(&atom, &commit));
    }

    /// Evaluates the base case of this state, freshly.
    pub fn verify(&mut self, number: u32, state: State) {
        let switch = Switch::default();
        self.verifying = Some((number, switch.clone()));
        self.thread("verify", Message::unverified(number), move |workers| {
            workers.verify(number, &state, &switch)
        });
    }

    /// Breaks the evaluation off, unless it is this one.
    pub fn keep_verifying(&mut self, wanted: Option<u32>) {
        if let Some((number, switch)) = &self.verifying
            && wanted != Some(*number)
        {
            switch.turn_off();
            self.verifying = None;
        }
    }

    /// Landings that wait for a person give up from now on, or wait again.
    pub fn when_blocked(&self, when: WhenBlocked) {
        self.workers.give_up_blocked.store(when == WhenBlocked::GiveUp, Ordering::Release);
    }

    /// Whether threads are still at work, killed ones included.
    pub fn is_busy(&self) -> bool {
        self.workers.busy.load(Ordering::Acquire) > 0
    }

    pub fn kill_all(&mut self) {
        let jobs: Vec<JobId> = self.attempts.keys().cloned().collect();
        jobs.iter().for_each(|job| self.kill(job));
        self.keep_verifying(None);
        self.when_blocked(WhenBlocked::GiveUp);
    }

    /// Gives the ground back, when nobody works on it any more.
    pub fn close(self) -> Result<(), GroundError> {
        match Arc::into_inner(self.workers) {
            Some(workers) => workers.ground.close(),
            None => Ok(()),
        }
    }

    fn send(&self, message: Message) {
        // The receiver lives as long as the crew.
        let _ = self.workers.messages.send(message);
    }

    /// Work on a thread of its own; if that dies of a bug of ours, `if_it_panics` is what the others hear.
    fn thread(
        &self,
        name: &str,
        if_it_panics: Option<Message>,
        work: impl FnOnce(&Workers) + Send + 'static,
    ) {
        let workers = Arc::clone(&self.workers);
        workers.busy.fetch_add(1, Ordering::AcqRel);
        let otherwise = if_it_panics.clone();
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&workers)));
            let messages = workers.messages.clone();
            workers.busy.fetch_sub(1, Ordering::AcqRel);
            drop(workers);
            if worked.is_err()
                && let Some(message) = if_it_panics
            {
                let _ = messages.send(message);
            }
            let _ = messages.send(Message::Left);
        });
        if started.is_err() {
            self.workers.busy.fetch_sub(1, Ordering::AcqRel);
            otherwise.into_iter().for_each(|message| self.send(message));
        }
    }
}

/// What a landing does while uncommitted edits are in its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenBlocked {
    Wait,
    GiveUp,
}

fn name_of(job: &JobId) -> String {
    match &job.task {
        Task::Probe(atom) => format!("probe-{atom}"),
        Task::Work(atom) => atom.to_string(),
        Task::Check(atom) => format!("check-{atom}"),
        Task::Replan => "replan".into(),
    }
}

impl Attempt {
    fn take(&self) -> Option<ReadyToLand> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, done: ReadyToLand) {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
    }
}

impl Workers {
    fn send(&self, message: Message) {
        // If nobody listens any more, the run is over.
        let _ = self.messages.send(message);
    }

    fn note(&self, text: String) {
        self.send(Message::Note(text));
    }

    fn branch_lock(&self) -> MutexGuard<'_, ()> {
        self.branch_lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, lent: Lent, end: End) {
        if let Err(error) = self.ground.give_back(lent, end) {
            self.note(format!("a tree could not be given back: {error}"));
        }
    }

    fn land(&self, attempt: &Attempt, done: ReadyToLand) {
        let ReadyToLand { mut lent, assignment, summary, artifacts } = done;
        let job = assignment.job.clone();
        let message = CommitMessage {
            subject: assignment.atom.description.clone(),
            summary: summary.clone(),
            loop_id: self.loop_id.clone(),
            atom: assignment.atom.id.clone(),
            attempt: job.attempt,
        };
        let meter = Meter::default();
        let mut pause = SHORTEST_PAUSE;
        let landing = loop {
            let landing = {
                let _branch = self.branch_lock();
                let mut recheck = |lent: &Lent| self.recheck(&assignment, lent, &attempt.switch, &meter);
                let mut wait = |waiting: &Waiting| {
                    self.send(Message::Waiting { job: job.clone(), waiting: waiting.clone() });
                    ControlFlow::Break(())
                };
                self.ground.land(&mut lent, &message, &mut recheck, &mut wait)
            };
            // Whoever has something in the way lets the others land meanwhile.
            match landing {
                Ok(Landing::GivenUp) if self.may_wait(&mut pause) => {}
                landing => break landing,
            }
        };
        let usage = meter.take();
        let (message, end) = match landing {
            Ok(Landing::Landed { commit, paths }) => {
                let artifacts = if artifacts.is_empty() { first_artifacts(paths) } else { artifacts };
                let binding = Binding { summary, artifacts, commit };
                (Message::Landed { job, binding, usage }, End::Landed)
            }
            Ok(Landing::Conflict { reason }) => {
                let end = End::Failed { reason: reason.clone() };
                (Message::Conflict { job, reason, usage }, end)
            }
            Ok(Landing::GivenUp) => {
                let reason = "the landing waited for uncommitted edits, and the loop went on".to_owned();
                (Message::Conflict { job, reason: reason.clone(), usage }, End::Discarded { reason })
            }
            Err(error) => {
                let reason = error.to_string();
                (Message::Conflict { job, reason: reason.clone(), usage }, End::Failed { reason })
            }
        };
        self.give_back(lent, end);
        self.send(message);
    }

    /// Waits a moment, each time longer; `false` if there is no time for it.
    fn may_wait(&self, pause: &mut Duration) -> bool {
        let began = Instant::now();
        while began.elapsed() < *pause {
            if self.give_up_blocked.load(Ordering::Acquire) {
                return false;
            }
            std::thread::sleep(SHORTEST_PAUSE);
        }
        *pause = (*pause * 2).min(LONGEST_PAUSE);
        !self.give_up_blocked.load(Ordering::Acquire)
    }

    /// The atom's check on the merged tree.
    fn recheck(
        &self,
        assignment: &Assignment,
        lent: &Lent,
        switch: &Switch,
        meter: &Meter,
    ) -> Result<(), String> {
        match attempt::seen(self, assignment, lent, switch, meter) {
            CheckOutcome::None | CheckOutcome::Pass => Ok(()),
            CheckOutcome::Fail { reason }
            | CheckOutcome::Error { reason }
            | CheckOutcome::Pending { reason } => Err(format!("on top of what landed meanwhile, {reason}")),
        }
    }

    fn revert(&self, atom: &AtomId, commit: &str) {
        let short = &commit[..commit.len().min(10)];
        let mut pause = SHORTEST_PAUSE;
        let mut told = false;
        let reverted = loop {
            let reverted = {
                let _branch = self.branch_lock();
                let mut wait = |waiting: &Waiting| {
                    if !std::mem::replace(&mut told, true) {
                        let reason = &waiting.reason;
                        self.note(format!("the commit of {atom} is to be taken back, and waits: {reason}"));
                    }
                    ControlFlow::Break(())
                };
                self.ground.revert(atom, commit, &mut wait)
            };
            match reverted {
                Ok(Reverted::GivenUp) if self.may_wait(&mut pause) => {}
                reverted => break reverted,
            }
        };
        match reverted {
            Ok(Reverted::Reverted { commit: by }) => {
                let by = &by[..by.len().min(10)];
                self.note(format!("{atom} is open again: its commit {short} was taken back by {by}"));
            }
            Ok(Reverted::NotClean { paths }) => {
                self.send(Message::Stays { atom: atom.clone(), commit: short.to_owned() });
                let paths = paths.join(", ");
                self.note(format!(
                    "{atom} is open again, but its commit {short} stays: later work changed {paths}"
                ));
            }
            Ok(Reverted::NotThere) => {}
            Ok(Reverted::GivenUp) => {
                self.note(format!("the commit {short} of {atom} stays: uncommitted edits are in its way"));
            }
            Err(error) => self.note(format!("the commit {short} of {atom} stays: {error}")),
        }
    }

    fn verify(&self, number: u32, state: &State, switch: &Switch) {
        let _branch = self.branch_lock();
        let _tree = self.lock_shared_tree();
        let said = self.evaluate(number, state, switch);
        self.send(Message::Verified { number, said });
    }

    fn evaluate(&self, number: u32, state: &State, switch: &Switch) -> Said {
        let root = match self.ground.verify_root() {
            Ok(root) => root,
            Err(error) => return Said::Lost(error.to_string()),
        };
        let project = Project { root, ..self.config.project.clone() };
        match Seal::of(&state.objective, &project.root) {
            Ok(seal) => {
                let agreed = state.control.fingerprint.as_ref();
                let altered = agreed.map(|agreed| seal.altered(agreed, &project)).unwrap_or_default();
                if !altered.is_empty() {
                    return Said::Tampered(altered);
                }
            }
            Err(error) => return Said::Lost(format!("the protected files cannot be read: {error}")),
        }
        let uncommitted = match self.uncommitted(switch) {
            Ok(paths) => paths,
            Err(error) => return Said::Lost(error.to_string()),
        };
        let Some(checks) = &state.objective.base_case else {
            return Said::Lost("there is no base case".into());
        };
        let guard = self.config.guard.under(switch);
        let meter = Meter::default();
        let mut on = |progress: Progress<'_>| {
            if let Progress::Ended { leaf, outcome, .. } = progress {
                self.send(Message::Checked { number, item: leaf.name.clone(), outcome });
            }
        };
        let wall = Duration::from_secs(state.constraints().agent_timeout().seconds().max(1));
        let name = format!("base-case-{number}");
        let seen = self.with_judge(switch, &meter, name, wall, |judge| {
            let checker = Checker {
                project: &project,
                guard: &guard,
                shell: self.config.shell.clone(),
                judge,
                jobs: Jobs::default(),
                cage: None,
            };
            checker.evaluate(state, checks, Whose::BaseCase, Occasion::Decide, Timestamp::now(), &mut on)
        });
        if switch.is_off() {
            return Said::Lost("it was broken off".into());
        }
        match seen {
            Ok(evaluation) => {
                Said::Seen { usage: meter.take(), evaluation: Box::new(evaluation), uncommitted }
            }
            Err(error) => Said::Lost(format!("the project's files cannot be looked at: {error}")),
        }
    }

    /// Edits that stay. Another loop that is landing in the same checkout is through in a moment.
    fn uncommitted(&self, switch: &Switch) -> Result<Vec<String>, GroundError> {
        let began = Instant::now();
        loop {
            let paths = self.ground.uncommitted()?;
            if paths.is_empty() || began.elapsed() > SOMEBODY_LANDS || switch.is_off() {
                return Ok(paths);
            }
            std::thread::sleep(SHORTEST_PAUSE);
        }
    }

    /// Where all work in one place, one at a time does.
    fn lock_shared_tree(&self) -> Option<MutexGuard<'_, ()>> {
        match self.ground.trees() {
            Kind::InPlace => Some(self.shared_tree.lock().unwrap_or_else(PoisonError::into_inner)),
            Kind::Worktrees | Kind::Unisolated => None,
        }
    }

    /// What holds a worker in: its tree, its scratch folder and nothing else can be written.
    fn cage(&self, lent: &Lent, scratch: &Scratch) -> Option<Cage> {
        let Caging { kind, writable, network } = &self.config.cage;
        let own = [lent.top().to_path_buf(), scratch.folder.clone()];
        let writable = own.into_iter().chain(writable.iter().cloned()).collect();
        match (kind, network) {
            (cage::Kind::None, Network::On) => None,
            (kind, network) => {
                Some(Cage { kind: *kind, writable, read_only: self.read_only(), network: *network })
            }
        }
    }

    /// Where workers work in the project's own folder, the state, all that is beside it, and the repository are
    /// read-only.
    fn read_only(&self) -> Vec<PathBuf> {
        let Project { root, state, sidecar } = &self.config.project;
        let folder = state.parent().filter(|folder| *folder != root);
        match self.ground.trees() {
            Kind::Worktrees => Vec::new(),
            Kind::InPlace | Kind::Unisolated => {
                vec![folder.unwrap_or(state).to_path_buf(), sidecar.clone(), root.join(".git")]
            }
        }
    }

    fn scratch(&self) -> std::io::Result<Scratch> {
        let number = self.scratches.fetch_add(1, Ordering::Relaxed);
        let folder =
            self.config.project.sidecar.join("scratch").join(format!("{}-{number}", std::process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Scratch { folder })
    }
}

/// A folder for what a job needs only while it runs.
#[derive(Debug)]
struct Scratch {
    folder: PathBuf,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next run.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes what crashed runs left; only for whoever drives.
pub fn clear_scratch(project: &Project) {
    let _ = fs::remove_dir_all(project.sidecar.join("scratch"));
}

/// So many paths are kept as the artifacts of a command.
const MOST_ARTIFACTS: usize = 50;

fn first_artifacts(mut paths: Vec<String>) -> Vec<String> {
    paths.truncate(MOST_ARTIFACTS);
    paths
}
