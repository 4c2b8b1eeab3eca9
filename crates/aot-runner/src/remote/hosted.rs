//! One loop on this host: a clone of its repository, and a crew that works there. What the crew tells goes to the job that
//! it is about. Knows nothing of orders and engines.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aot_core::coordinator::{Event, JobId};
use aot_core::state::State;

use super::wire::{JobEnding, JobRequest, JobTold, WantedAgents};
use crate::crew::{Crew, FinishedWork, RunConfig, SharedGround};
use crate::engine;
use crate::message::{Message, Notice};
use crate::process::{Guard, end_left_behind};
use crate::scratch;
use crate::tree::{OpenedFor, TreeKind, clone_for_work};

/// What the run of a loop in this clone needs, from the settings of this machine's user.
pub type Configure = dyn Fn(&Path, &WantedAgents) -> Result<RunConfig, String> + Send + Sync;

/// A landing is never made here.
const NO_LANDING: Duration = Duration::ZERO;

/// What makes two orders be worked on in the same clone.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LoopOnHost {
    pub loop_id: String,
    pub agents: WantedAgents,
    pub isolation: Option<aot_core::state::Isolation>,
}

/// What a job tells while it runs.
#[derive(Debug)]
pub(super) enum JobNews {
    Spent(aot_core::coordinator::Usage),
    Ran(aot_core::state::AgentRun),
    Doing(String),
    Told(JobTold),
}

/// Hears the news of jobs by their keys.
pub(super) type Hear = dyn Fn(&str, JobNews) + Send + Sync;

pub(super) struct HostedLoop {
    pub of: LoopOnHost,
    pub folder: PathBuf,
    crew: Mutex<Option<Crew>>,
    running: Arc<Mutex<HashMap<JobId, RunningJob>>>,
    /// Jobs that are at work here.
    pub users: AtomicUsize,
}

#[derive(Debug)]
struct RunningJob {
    key: String,
    ended: Sender<JobEnding>,
}

impl HostedLoop {
    /// Clones the repository unless that was done before, and opens the ground.
    pub fn open(
        of: LoopOnHost,
        (source, folder): (&str, PathBuf),
        (guard, configure): (&Guard, &Configure),
        state: &State,
        hear: Arc<Hear>,
        tell: impl Fn(String) + Send + 'static,
    ) -> Result<HostedLoop, String> {
        clone_for_work(source, &folder, guard).map_err(|error| format!("{error}; {}", error.hint()))?;
        let config = configure(&folder, &of.agents)?;
        scratch::clear(&config.project.sidecar);
        // This folder is ours alone, so whatever works here was left by a host that was killed.
        end_left_behind(format!("AOT_LOOP={}", of.loop_id).as_bytes(), &config.project.root);
        let ground = engine::ground(&config, state, OpenedFor::Host).map_err(|error| error.to_string())?;
        if ground.trees() != TreeKind::Worktrees {
            return Err("a loop without worktrees runs on one machine only: `isolation.mode`".into());
        }
        let (sender, inbox) = channel();
        let crew = Crew::new(config, ground, state, sender, NO_LANDING);
        let running = Arc::<Mutex<HashMap<JobId, RunningJob>>>::default();
        let known = Arc::clone(&running);
        std::thread::Builder::new()
            .name("loop".into())
            .spawn(move || pass_on(&inbox, &known, &*hear, tell))
            .map_err(|error| format!("no thread can be started: {error}"))?;
        Ok(HostedLoop { of, folder, crew: Mutex::new(Some(crew)), running, users: AtomicUsize::new(0) })
    }

    /// Starts a job. What it comes to is received from the channel.
    pub fn start(&self, key: &str, request: &JobRequest, base: &str) -> Option<Receiver<JobEnding>> {
        let (sender, ended) = channel();
        let mut crew = self.crew();
        let crew = crew.as_mut()?;
        let running = |job: &JobId| {
            let one = RunningJob { key: key.to_owned(), ended: sender.clone() };
            locked(&self.running).insert(job.clone(), one);
        };
        match request {
            JobRequest::Attempt(assignment) => {
                running(&assignment.job);
                let mut assignment = (**assignment).clone();
                assignment.base = Some(base.to_owned());
                crew.start(assignment);
            }
            JobRequest::Replan(asked) => {
                running(&asked.job);
                let mut asked = (**asked).clone();
                asked.base = Some(base.to_owned());
                crew.replan(asked);
            }
        }
        Some(ended)
    }

    /// Ends what runs for the job; its end is told all the same.
    pub fn kill(&self, job: &JobId) {
        if let Some(crew) = self.crew().as_mut() {
            crew.kill(job, "the driver does not want it any more");
        }
    }

    pub fn ground(&self) -> Option<SharedGround> {
        self.crew().as_ref().map(Crew::shared_ground)
    }

    pub fn finished(&self, job: &JobId) -> Option<FinishedWork> {
        self.crew().as_mut().and_then(|crew| crew.finished(job))
    }

    pub fn is_idle(&self) -> bool {
        self.users.load(Ordering::Acquire) == 0
    }

    /// Ends what runs, and clears the trees. Returns what went wrong.
    pub fn close(&self) -> Option<String> {
        let mut crew = self.crew().take()?;
        crew.kill_all();
        while crew.is_busy() {
            std::thread::sleep(Duration::from_millis(10));
        }
        crew.close().err().map(|error| error.to_string())
    }

    fn crew(&self) -> MutexGuard<'_, Option<Crew>> {
        locked(&self.crew)
    }
}

/// Sorts what the crew tells by job, until the crew is gone.
fn pass_on(
    inbox: &Receiver<Message>,
    running: &Mutex<HashMap<JobId, RunningJob>>,
    hear: &Hear,
    tell: impl Fn(String),
) {
    let news = |job: &JobId, news: JobNews| {
        let key = locked(running).get(job).map(|one| one.key.clone());
        if let Some(key) = key {
            hear(&key, news);
        }
    };
    // It is over when the crew and all of its threads are gone.
    for message in inbox {
        match message {
            Message::Event(Event::Ended { job, outcome, usage }) => {
                end(running, hear, &job, usage, JobEnding::Attempt(outcome));
            }
            Message::Event(Event::Replanned { job, answer, usage }) => {
                end(running, hear, &job, usage, JobEnding::Replan(answer));
            }
            Message::Spent { job: Some(job), usage } => news(&job, JobNews::Spent(usage)),
            Message::AgentRan { job: Some(job), run } => news(&job, JobNews::Ran(run)),
            Message::Notice(Notice::Doing { job, line }) => news(&job, JobNews::Doing(line)),
            Message::Notice(Notice::ToolFailed { job, agent, line }) => {
                news(&job, JobNews::Told(JobTold::ToolFailed { agent, line }));
            }
            Message::Notice(Notice::Mends { job, reason }) => {
                news(&job, JobNews::Told(JobTold::Mends { reason }));
            }
            Message::Notice(Notice::AgentEnded { job: Some(job), agent, used, took }) => {
                let (tokens, cost_usd, seconds) = (used.tokens, used.cost_usd, took.as_secs());
                news(&job, JobNews::Told(JobTold::AgentEnded { agent, tokens, cost_usd, seconds }));
            }
            Message::Notice(Notice::Note { text }) => tell(text),
            Message::Event(_)
            | Message::Notice(_)
            | Message::Spent { job: None, .. }
            | Message::AgentRan { job: None, .. }
            | Message::Evaluation { .. }
            | Message::CommitStays(_)
            | Message::ThreadEnded
            | Message::FileChanged
            | Message::Unwatched(_)
            | Message::Interrupt => {}
        }
    }
}

fn end(
    running: &Mutex<HashMap<JobId, RunningJob>>,
    hear: &Hear,
    job: &JobId,
    usage: aot_core::coordinator::Usage,
    ending: JobEnding,
) {
    let Some(one) = locked(running).remove(job) else { return };
    hear(&one.key, JobNews::Spent(usage));
    // Without a receiver nobody waits for it.
    let _ = one.ended.send(ending);
}

/// A thread that panicked in between has left nothing half done.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for HostedLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostedLoop")
            .field("of", &self.of.loop_id)
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}
