//! A host: takes signed orders of drivers that it knows, attaches to a job that it has begun already, and replies when
//! nothing of it is left. What an engine brings twice is done once. Decides nothing of the loop.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aot_core::coordinator::{Answer, CheckOutcome, JobId, JobOutcome, Obstacle, Task};
use jiff::{SignedDuration, Timestamp};

use super::engine::{Host, OrderWaiting};
use super::hosted::{Configure, HostedLoop, JobNews, LoopOnHost, locked};
use super::keys::{self, MachineIdentity, PublicKey, SignedAs};
use super::texts;
use super::wire::{
    HostAnswer, HostQuestion, JobEnding, JobOrder, JobProgress, JobRequest, Left, Reply, VERSION,
    WantedAgents,
};
use crate::crew::{HandOver, HandOverPlace};
use crate::process::Guard;

/// So long a reply is kept for an engine that comes again.
const REPLIES_KEPT: Duration = Duration::from_secs(24 * 3600);

/// An older order is not taken, and neither is a question from another time.
const OLDEST_ORDER: SignedDuration = SignedDuration::from_hours(24);
const OLDEST_QUESTION: SignedDuration = SignedDuration::from_mins(10);

/// A job that the driver does not name in its questions is not wanted any more, unless it began a moment ago.
const UNNAMED: Duration = Duration::from_secs(10);

/// Nobody has asked for a job for so long, so nobody will: its driver is gone, or the engine between them.
const UNASKED: Duration = Duration::from_secs(10 * 60);
const UNASKED_EVERY: Duration = Duration::from_secs(5);

/// So many clones there are at most, one for each loop that works here at the same time.
const CLONES: usize = 8;

/// So many of the things that a job told are kept for the driver.
const TOLD_KEPT: usize = 100;

/// What a host is and has.
pub struct HostConfig {
    pub name: String,
    pub slots: u32,
    /// What atoms may ask for.
    pub offers: Vec<String>,
    /// Whose limits its agents use up.
    pub account: String,
    /// The repository that it clones.
    pub source: String,
    /// Where the clones are.
    pub folder: PathBuf,
    pub guard: Guard,
    pub identity: MachineIdentity,
    /// Whose orders it takes.
    pub knows: Box<dyn Fn(&PublicKey) -> bool + Send + Sync>,
    /// What a run in a clone needs.
    pub configure: Box<Configure>,
    /// A line for whoever looks at the host.
    pub tell: Box<dyn Fn(String) + Send + Sync>,
}

impl std::fmt::Debug for HostConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostConfig").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
pub struct WorkerHost(Arc<HostInner>);

#[derive(Debug)]
struct HostInner {
    config: HostConfig,
    jobs: Mutex<HashMap<String, HostJob>>,
    loops: Mutex<Vec<Arc<HostedLoop>>>,
    waiters: AtomicU64,
    is_ending: AtomicBool,
}

type Ended = Box<dyn FnOnce(Vec<u8>) + Send>;

struct HostJob {
    by: PublicKey,
    loop_id: String,
    began: Instant,
    /// When it was given, by the driver's clock.
    given: Timestamp,
    /// When its driver last named it.
    asked: Instant,
    progress: JobProgress,
    state: JobState,
    waiters: Vec<(u64, Ended)>,
    is_cancelled: bool,
}

enum JobState {
    /// The clone is made, or the base is fetched.
    Preparing,
    Working {
        on: Arc<HostedLoop>,
        id: JobId,
    },
    Over {
        reply: Vec<u8>,
        at: Instant,
    },
}

impl std::fmt::Debug for HostJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostJob").field("loop_id", &self.loop_id).finish_non_exhaustive()
    }
}

impl WorkerHost {
    pub fn new(config: HostConfig) -> WorkerHost {
        WorkerHost(Arc::new(HostInner {
            config,
            jobs: Mutex::default(),
            loops: Mutex::default(),
            waiters: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
        }))
    }

    /// Ends jobs that nobody asks for any more, from now on.
    pub fn watch(&self) -> std::io::Result<()> {
        let inner = Arc::downgrade(&self.0);
        std::thread::Builder::new().name("unasked".into()).spawn(move || {
            while let Some(inner) = inner.upgrade() {
                inner.end_unasked(UNASKED);
                drop(inner);
                std::thread::sleep(UNASKED_EVERY);
            }
        })?;
        Ok(())
    }

    /// Ends all jobs and clears the trees. Whatever the engine brings meanwhile is not begun.
    pub fn end(&self) {
        self.0.is_ending.store(true, Ordering::Release);
        let loops = std::mem::take(&mut *locked(&self.0.loops));
        for on in loops {
            on.close().into_iter().for_each(|problem| (self.0.config.tell)(problem));
        }
    }
}

impl Host for WorkerHost {
    fn take(&self, order: &[u8], ended: Ended) -> Box<dyn OrderWaiting> {
        let number = self.0.waiters.fetch_add(1, Ordering::Relaxed);
        let (by, order) = match self.0.read(order) {
            Ok(order) => order,
            Err(reason) => {
                (self.0.config.tell)(format!("an order was refused: {reason}"));
                ended(self.0.refused(String::new(), reason));
                return Box::new(NotTaken);
            }
        };
        let key = order.key.clone();
        let mut jobs = locked(&self.0.jobs);
        jobs.retain(|_, job| !job.is_old());
        let running = jobs.values().filter(|job| !job.is_over()).count();
        match jobs.get_mut(&key) {
            Some(job) if job.by != by => {
                drop(jobs);
                ended(self.0.refused(key, "another driver has a job with this key".into()));
                return Box::new(NotTaken);
            }
            Some(HostJob { state: JobState::Over { reply, .. }, .. }) => {
                let reply = reply.clone();
                drop(jobs);
                ended(reply);
            }
            Some(job) => job.waiters.push((number, ended)),
            None if self.0.is_ending.load(Ordering::Acquire) => {
                drop(jobs);
                // The engine comes again when this host does.
                return Box::new(NotTaken);
            }
            None if running >= self.0.config.slots as usize => {
                drop(jobs);
                ended(self.0.answer(key, JobEnding::Busy));
                return Box::new(NotTaken);
            }
            None => {
                jobs.insert(
                    key.clone(),
                    HostJob {
                        by,
                        loop_id: order.loop_id.clone(),
                        began: Instant::now(),
                        given: order.at,
                        asked: Instant::now(),
                        progress: JobProgress::default(),
                        state: JobState::Preparing,
                        waiters: vec![(number, ended)],
                        is_cancelled: false,
                    },
                );
                drop(jobs);
                let inner = Arc::clone(&self.0);
                let started =
                    std::thread::Builder::new().name("job".into()).spawn(move || inner.work(&order));
                if let Err(error) = started {
                    self.0.reply(&key, not_started(&key, format!("no thread can be started: {error}")));
                }
            }
        }
        Box::new(Waiter { inner: Arc::clone(&self.0), key, number })
    }

    fn look(&self, request: &[u8]) -> Vec<u8> {
        let config = &self.0.config;
        let asked = keys::open(request, SignedAs::Question, |key| (config.knows)(key));
        let asked = asked.map_err(|error| error.to_string()).and_then(|(by, text)| {
            let question: HostQuestion = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            let is_for_us = question.host == config.name && is_recent(question.at, OLDEST_QUESTION);
            is_for_us.then_some((by, question)).ok_or_else(|| "it is for another host or time".to_owned())
        });
        let (by, question) = match asked {
            Ok(asked) => asked,
            Err(reason) => {
                (config.tell)(format!("a question was refused: {reason}"));
                return Vec::new();
            }
        };
        self.0.end_unnamed(&by, &question);
        let mut jobs = locked(&self.0.jobs);
        for key in &question.jobs {
            jobs.get_mut(key)
                .filter(|job| job.by == by)
                .into_iter()
                .for_each(|job| job.asked = Instant::now());
        }
        let is_other = |(key, job): (&String, &HostJob)| {
            let is_known = question.jobs.contains(key) || job.given > question.at;
            let is_its = job.by == by && is_known;
            !job.is_over() && !is_its
        };
        let others = u32::try_from(jobs.iter().filter(|job| is_other(*job)).count()).unwrap_or(u32::MAX);
        let known = question.jobs.iter().filter_map(|key| Some((key, jobs.get(key)?)));
        let known = known.filter(|(_, job)| job.by == by);
        let secrets = texts::secrets();
        let progress = |job: &HostJob| texts::redacted(&secrets, job.progress.clone());
        let jobs: BTreeMap<String, JobProgress> =
            known.map(|(key, job)| (key.clone(), progress(job))).collect();
        let answer = HostAnswer {
            version: VERSION,
            nonce: question.nonce,
            slots: config.slots,
            others,
            offers: config.offers.clone(),
            account: config.account.clone(),
            jobs,
        };
        config.identity.sign(SignedAs::Answer, json(&answer))
    }
}

impl HostInner {
    /// The order, if a driver that we know gave it, to us, and not long ago.
    fn read(&self, order: &[u8]) -> Result<(PublicKey, JobOrder), String> {
        let config = &self.config;
        let (by, text) = keys::open(order, SignedAs::Order, |key| (config.knows)(key))
            .map_err(|error| error.to_string())?;
        let order: JobOrder = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        match () {
            () if order.version != VERSION => Err(format!(
                "the driver speaks version {}, this host version {VERSION}: update the older of them",
                order.version
            )),
            () if order.host != config.name => Err(format!("it is for {}", order.host)),
            () if !is_recent(order.at, OLDEST_ORDER) => Err("it is too old, or a clock is wrong".into()),
            () => match order.problem() {
                Some(problem) => Err(problem.to_owned()),
                None => Ok((by, order)),
            },
        }
    }

    /// Nobody ends a job whose driver is gone for good, or cannot be reached, but the host.
    fn end_unasked(&self, since: Duration) {
        let jobs = locked(&self.jobs);
        let unasked =
            jobs.iter().filter(|(_, job)| job.asked.elapsed() > since && !job.is_cancelled && !job.is_over());
        let unasked: Vec<String> = unasked.map(|(key, _)| key.clone()).collect();
        drop(jobs);
        for key in unasked {
            (self.config.tell)(format!(
                "{key} is ended: no driver has asked about it for {} s",
                since.as_secs()
            ));
            self.cancel(&key);
        }
    }

    /// A driver's jobs of this loop that it does not name were forgotten while it could not reach us. A question that was
    /// asked before a job was given, and comes late, says nothing of it.
    fn end_unnamed(&self, by: &PublicKey, question: &HostQuestion) {
        let Some(loop_id) = question.loop_id.as_deref() else { return };
        let jobs = locked(&self.jobs);
        let unnamed = jobs.iter().filter(|(key, job)| {
            job.by == *by
                && job.loop_id == loop_id
                && job.began.elapsed() > UNNAMED
                && question.at > job.given
                && !job.is_cancelled
                && !job.is_over()
                && !question.jobs.contains(key)
        });
        let unnamed: Vec<String> = unnamed.map(|(key, _)| key.clone()).collect();
        drop(jobs);
        for key in unnamed {
            (self.config.tell)(format!("{key} is ended: its driver does not wait for it any more"));
            self.cancel(&key);
        }
    }

    fn cancel(&self, key: &str) {
        let mut jobs = locked(&self.jobs);
        let Some(job) = jobs.get_mut(key) else { return };
        job.is_cancelled = true;
        if let JobState::Working { on, id } = &job.state {
            on.kill(id);
        }
    }

    /// Works on an order to its end.
    fn work(self: Arc<HostInner>, order: &JobOrder) {
        (self.config.tell)(format!("{} begins", order.key));
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.worked(order)));
        let (ending, left) = match worked {
            Ok(Ok(ended)) => ended,
            Ok(Err(reason)) => (unstarted(&order.request, reason), Left::default()),
            Err(_) => (
                lost(&order.request, "aot has a bug; the host's standard error tells where"),
                Left::default(),
            ),
        };
        (self.config.tell)(format!("{}: {}", order.key, texts::word(&ending)));
        let sidecar = self.folder_of(&order.loop_id).map(|root| root.join(".claude/aot"));
        let secrets = texts::secrets();
        let kept =
            sidecar.map(|sidecar| texts::of_job(&sidecar, &order.request, &secrets)).unwrap_or_default();
        let progress = locked(&self.jobs).get(&order.key).map(|job| job.progress.clone()).unwrap_or_default();
        // A plan is no output, and has to come as it is.
        let ending = match ending {
            JobEnding::Attempt(_) => texts::redacted(&secrets, ending),
            JobEnding::Replan(_) | JobEnding::Refused { .. } | JobEnding::Busy => ending,
        };
        let progress = texts::redacted(&secrets, progress);
        let reply = Reply { version: VERSION, key: order.key.clone(), ending, left, progress, texts: kept };
        self.reply(&order.key, reply);
    }

    fn worked(self: &Arc<HostInner>, order: &JobOrder) -> Result<(JobEnding, Left), String> {
        let on = self.hosted(order)?;
        let _user = User(Arc::clone(&on));
        let mut place =
            HandOverPlace { address: &order.address, reference: &order.reference, base: &order.base, at: "" };
        let ground = on.ground().ok_or("this host is ending")?;
        // An order that was given up, or that somebody sends a second time, has no reference.
        let Some(at) = ground.bring(&place).map_err(|error| error.to_string())? else {
            return Ok((lost(&order.request, "its driver does not want it any more"), Left::default()));
        };
        place.at = &at;
        let id = order.request.job().clone();
        let ended = {
            let mut jobs = locked(&self.jobs);
            let job = jobs.get_mut(&order.key).ok_or("the job is gone")?;
            if job.is_cancelled {
                return Ok((lost(&order.request, "it was killed"), Left::default()));
            }
            job.state = JobState::Working { on: Arc::clone(&on), id: id.clone() };
            on.start(&order.key, &order.request, &order.base).ok_or("this host is ending")?
        };
        let ending = ended.recv().map_err(|_| "the crew is gone".to_owned())?;
        let lands = matches!(
            (&ending, &id.task),
            (
                JobEnding::Attempt(JobOutcome::Done { check: CheckOutcome::None | CheckOutcome::Pass, .. }),
                Task::Work(_)
            )
        );
        if !lands {
            return Ok((ending, Left::default()));
        }
        let Some(work) = on.finished(&id) else {
            return Ok((lost(&order.request, "it was killed"), Left::default()));
        };
        let message = format!("{}\n", order.key);
        match ground.hand_over(work, &place, &message) {
            Ok(HandOver::Nothing { ignored }) => Ok((ending, Left { commit: None, ignored })),
            Ok(HandOver::Commit { commit, ignored }) => Ok((ending, Left { commit: Some(commit), ignored })),
            Ok(HandOver::TooLate) => Ok((lost(&order.request, "its result came too late"), Left::default())),
            Err(error) => {
                let reason = format!("its result could not be handed over: {error}");
                Ok((lost(&order.request, &reason), Left::default()))
            }
        }
    }

    /// The clone for this loop, opened when its first job comes. One of a loop that has no jobs any more is used again.
    fn hosted(self: &Arc<HostInner>, order: &JobOrder) -> Result<Arc<HostedLoop>, String> {
        let state = order.request.state();
        let of = LoopOnHost {
            loop_id: order.loop_id.clone(),
            agents: order.agents.clone(),
            isolation: state.objective.isolation.clone(),
        };
        let mut loops = locked(&self.loops);
        if self.is_ending.load(Ordering::Acquire) {
            return Err("this host is ending".into());
        }
        if let Some(on) = loops.iter().find(|on| on.of == of) {
            on.users.fetch_add(1, Ordering::AcqRel);
            return Ok(Arc::clone(on));
        }
        let free = (1..=CLONES).map(|number| self.config.folder.join(number.to_string()).join("repository"));
        let mut free = free.filter(|folder| !loops.iter().any(|on| on.folder == *folder));
        let folder = match loops.iter().position(|on| on.is_idle()) {
            Some(at) => {
                let idle = loops.swap_remove(at);
                idle.close().into_iter().for_each(|problem| (self.config.tell)(problem));
                idle.folder.clone()
            }
            None => free.next().ok_or_else(|| format!("{CLONES} loops are at work here already"))?,
        };
        let (hearing, telling) = (Arc::downgrade(self), Arc::downgrade(self));
        let on = HostedLoop::open(
            of,
            (&self.config.source, folder),
            (&self.config.guard, &*self.config.configure),
            state,
            Arc::new(move |key: &str, news| {
                if let Some(inner) = hearing.upgrade() {
                    inner.hear(key, news);
                }
            }),
            move |text| {
                if let Some(inner) = telling.upgrade() {
                    (inner.config.tell)(text);
                }
            },
        )?;
        on.users.fetch_add(1, Ordering::AcqRel);
        let on = Arc::new(on);
        loops.push(Arc::clone(&on));
        Ok(on)
    }

    fn folder_of(&self, loop_id: &str) -> Option<PathBuf> {
        locked(&self.loops).iter().find(|on| on.of.loop_id == loop_id).map(|on| on.folder.clone())
    }

    fn hear(&self, key: &str, news: JobNews) {
        let mut jobs = locked(&self.jobs);
        let Some(job) = jobs.get_mut(key) else { return };
        let progress = &mut job.progress;
        match news {
            JobNews::Spent(usage) => {
                let sum = &mut progress.spent.usage;
                sum.agent_runs += usage.agent_runs;
                sum.mends += usage.mends;
                sum.tokens += usage.tokens;
                sum.cost_usd += usage.cost_usd;
            }
            JobNews::Ran(run) => progress.spent.runs.push(run),
            JobNews::Doing(line) => progress.doing = Some(line),
            JobNews::Told(told) => {
                progress.told.push(told);
                if progress.told.len() > TOLD_KEPT {
                    progress.told.remove(0);
                    progress.first_told += 1;
                }
            }
        }
    }

    /// Tells all who wait, and keeps the reply for those who come again.
    fn reply(&self, key: &str, reply: Reply) {
        let reply = self.config.identity.sign(SignedAs::Reply, json(&reply));
        let waiters = {
            let mut jobs = locked(&self.jobs);
            let Some(job) = jobs.get_mut(key) else { return };
            job.state = JobState::Over { reply: reply.clone(), at: Instant::now() };
            job.progress.told.clear();
            std::mem::take(&mut job.waiters)
        };
        waiters.into_iter().for_each(|(_, ended)| ended(reply.clone()));
    }

    fn refused(&self, key: String, reason: String) -> Vec<u8> {
        self.answer(key, JobEnding::Refused { reason })
    }

    /// A reply of which nothing is kept.
    fn answer(&self, key: String, ending: JobEnding) -> Vec<u8> {
        let reply = Reply {
            version: VERSION,
            key,
            ending,
            left: Left::default(),
            progress: JobProgress::default(),
            texts: Vec::new(),
        };
        self.config.identity.sign(SignedAs::Reply, json(&reply))
    }
}

impl HostJob {
    fn is_over(&self) -> bool {
        matches!(self.state, JobState::Over { .. })
    }

    fn is_old(&self) -> bool {
        matches!(&self.state, JobState::Over { at, .. } if at.elapsed() > REPLIES_KEPT)
    }
}

/// Somebody waits for a job.
struct Waiter {
    inner: Arc<HostInner>,
    key: String,
    number: u64,
}

impl OrderWaiting for Waiter {
    fn cancel(&self) {
        self.inner.cancel(&self.key);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(job) = locked(&self.inner.jobs).get_mut(&self.key) {
            job.waiters.retain(|(number, _)| *number != self.number);
        }
    }
}

/// An order that was not taken has nothing to wait for.
struct NotTaken;

impl OrderWaiting for NotTaken {
    fn cancel(&self) {}
}

/// A job at work in a clone.
struct User(Arc<HostedLoop>);

impl Drop for User {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::AcqRel);
    }
}

fn is_recent(at: Timestamp, oldest: SignedDuration) -> bool {
    Timestamp::now().duration_since(at).abs() <= oldest
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("it can be written as JSON")
}

fn not_started(key: &str, reason: String) -> Reply {
    Reply {
        version: VERSION,
        key: key.to_owned(),
        ending: JobEnding::Refused { reason },
        left: Left::default(),
        progress: JobProgress::default(),
        texts: Vec::new(),
    }
}

fn unstarted(request: &JobRequest, reason: String) -> JobEnding {
    let obstacle = Obstacle::World;
    match request {
        JobRequest::Attempt(_) => JobEnding::Attempt(JobOutcome::NotStarted { obstacle, reason }),
        JobRequest::Replan(_) => JobEnding::Replan(Answer::NotStarted { obstacle, reason }),
    }
}

fn lost(request: &JobRequest, reason: &str) -> JobEnding {
    let reason = reason.to_owned();
    match request {
        JobRequest::Attempt(_) => JobEnding::Attempt(JobOutcome::Lost { reason }),
        JobRequest::Replan(_) => JobEnding::Replan(Answer::Failed { reason }),
    }
}

impl JobRequest {
    pub fn job(&self) -> &JobId {
        match self {
            JobRequest::Attempt(assignment) => &assignment.job,
            JobRequest::Replan(asked) => &asked.job,
        }
    }

    pub fn state(&self) -> &aot_core::state::State {
        match self {
            JobRequest::Attempt(assignment) => &assignment.state,
            JobRequest::Replan(asked) => &asked.state,
        }
    }
}

impl WantedAgents {
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.named.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::tests::order;
    use super::*;

    fn host(folder: &std::path::Path) -> WorkerHost {
        WorkerHost::new(HostConfig {
            name: "one".into(),
            slots: 2,
            offers: Vec::new(),
            account: "shared".into(),
            source: String::new(),
            folder: folder.to_path_buf(),
            guard: Guard::new("/bin/false".into()),
            identity: MachineIdentity::new().expect("a key"),
            knows: Box::new(|_| true),
            configure: Box::new(|_, _| Err("nothing runs here".into())),
            tell: Box::new(|_| ()),
        })
    }

    /// A job that waits for its clone.
    fn begin(host: &WorkerHost, by: PublicKey, key: &str, given: Timestamp) {
        let before = Instant::now() - UNNAMED - UNNAMED;
        let job = HostJob {
            by,
            loop_id: order().loop_id,
            began: before,
            given,
            asked: before,
            progress: JobProgress::default(),
            state: JobState::Preparing,
            waiters: Vec::new(),
            is_cancelled: false,
        };
        locked(&host.0.jobs).insert(key.into(), job);
    }

    fn ask(host: &WorkerHost, by: &MachineIdentity, at: Timestamp, jobs: &[&str]) -> HostAnswer {
        let question = HostQuestion {
            version: VERSION,
            host: "one".into(),
            nonce: "1".into(),
            at,
            loop_id: Some(order().loop_id),
            jobs: jobs.iter().map(|key| (*key).to_owned()).collect(),
        };
        let answer = host.look(&by.sign(SignedAs::Question, json(&question)));
        let (_, text) = keys::open(&answer, SignedAs::Answer, |_| true).expect("it is signed");
        serde_json::from_str(&text).expect("JSON")
    }

    fn ended(host: &WorkerHost) -> Vec<String> {
        let jobs = locked(&host.0.jobs);
        jobs.iter().filter(|(_, job)| job.is_cancelled).map(|(key, _)| key.clone()).collect()
    }

    #[test]
    fn a_job_that_nobody_asks_for_is_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let host = host(folder.path());
        let driver = MachineIdentity::new().expect("a key");
        begin(&host, driver.public(), "01loop/A1/1", Timestamp::now());
        begin(&host, driver.public(), "01loop/A2/1", Timestamp::now());
        ask(&host, &driver, Timestamp::now() - SignedDuration::from_secs(60), &["01loop/A1/1"]);
        host.0.end_unasked(UNNAMED);
        assert_eq!(ended(&host), ["01loop/A2/1"]);
    }

    #[test]
    fn a_question_ends_what_it_does_not_name_if_it_was_asked_later() {
        let folder = tempfile::tempdir().expect("a folder");
        let host = host(folder.path());
        let driver = MachineIdentity::new().expect("a key");
        let now = Timestamp::now();
        begin(&host, driver.public(), "01loop/A1/1", now);
        let other = MachineIdentity::new().expect("a key");
        begin(&host, other.public(), "01loop/A2/1", now);
        let late = ask(&host, &driver, now - SignedDuration::from_secs(5), &[]);
        assert_eq!((late.others, ended(&host)), (1, Vec::new()));
        let fresh = ask(&host, &driver, now + SignedDuration::from_secs(5), &[]);
        assert_eq!((fresh.others, ended(&host)), (2, vec!["01loop/A1/1".to_owned()]));
    }
}
