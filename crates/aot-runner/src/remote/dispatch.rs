//! One job on a host, from the slot that it is given to the commit that it brings. A host that goes away loses its jobs to
//! others: what it still brings is refused where work is handed over. Jobs of a driver that was killed are found again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use aot_core::coordinator::{Answer, CheckOutcome, JobId, JobOutcome, Obstacle, Task};
use aot_core::state::Span;
use jiff::Timestamp;

use super::engine::{EngineError, OrderEngine, Sent, Waited};
use super::hosted::locked;
use super::hosts::{HostPool, HostSlot, HostsConfig, JobSignal, NoHost, Wants};
use super::keys::{self, MachineIdentity, SignedAs};
use super::records::{Found, Records, SentJob, ToldSpent, digest};
use super::texts;
use super::wire::{
    JobEnding, JobOrder, JobProgress, JobRequest, JobTold, Left, Reply, Spent, VERSION, WantedAgents,
};
use crate::message::{Message, Notice};
use crate::process::Switch;
use crate::tree::{Exchange, ExchangePlace, Ground, Handed, Project};

/// How long a host has to end what is taken back.
const ENDING: Duration = Duration::from_secs(20);

/// An engine that does not take an order, or its taking back, is asked again after this.
const AGAIN: Duration = Duration::from_millis(300);

/// So long after the first job is asked for, jobs of a driver before us wait to be asked for again. After a crash all of
/// them are asked for at once.
const EARLIER: Duration = Duration::from_secs(5);

/// At the end of a run, an engine that is away is waited for so long, to have its last jobs taken back.
const LAST_TRY: Duration = Duration::from_secs(5);

/// What a driver needs to give jobs to hosts.
#[derive(Debug)]
pub struct RemoteConfig {
    pub engine: Arc<dyn OrderEngine>,
    pub identity: MachineIdentity,
    /// Where this user's keys are, and so which hosts get jobs.
    pub settings: PathBuf,
    pub agents: WantedAgents,
    /// Where work is handed over.
    pub place: ExchangePlace,
    /// A host that does not answer for so long is away.
    pub host_timeout: Duration,
}

/// What is heard of a job while it runs.
#[derive(Debug)]
pub(crate) enum RemoteNews {
    Spent(Spent),
    Doing(String),
    Told(JobTold),
}

/// How a job ended, and what it brought.
#[derive(Debug)]
pub(crate) struct RemoteEnd {
    pub ending: JobEnding,
    /// The commit that it began at, and what it made of that; none if it changed nothing.
    pub base: String,
    pub left: Left,
    /// What it has cost and was not heard yet.
    pub spent: Spent,
}

#[derive(Debug)]
pub(crate) struct Dispatcher {
    engine: Arc<dyn OrderEngine>,
    identity: MachineIdentity,
    agents: WantedAgents,
    exchange: Exchange,
    hosts: HostPool,
    records: Records,
    /// Sent by a driver before us; each is waited for by the first job that asks the same.
    earlier: Mutex<HashMap<String, SentJob>>,
    /// Keys that were sent: the engine takes the same key for the same order, even after it has ended.
    used: Mutex<HashSet<String>>,
    /// When the first job was asked for.
    began: OnceLock<Instant>,
    /// Finished work that has not landed yet.
    unsettled: Mutex<HashMap<JobId, SentJob>>,
    loop_id: String,
    sidecar: PathBuf,
    note: Mutex<Sender<Message>>,
}

/// How waiting for a job ended.
enum Wait {
    Reply(Box<Reply>),
    /// The host is away; the job is not its any more.
    Away,
    /// Its slots are taken.
    Busy,
    Killed,
    /// The host or the engine gave it up.
    GivenUp(String),
}

impl Dispatcher {
    pub fn begin(
        config: RemoteConfig,
        ground: &Ground,
        project: &Project,
        loop_id: &str,
        note: Sender<Message>,
    ) -> Result<Dispatcher, String> {
        let RemoteConfig { engine, identity, settings, agents, place, host_timeout } = config;
        let exchange = Exchange::open(ground, project, loop_id, &place)
            .map_err(|error| format!("{error}; {}", error.hint()))?;
        let kept = |error: std::io::Error| format!("what is sent cannot be written down: {error}");
        let records = Records::open(&project.sidecar).map_err(kept)?;
        let mut ours = Vec::new();
        for job in records.all() {
            match job.examine(&identity, Timestamp::now()) {
                Found::Usable if job.loop_id == loop_id => ours.push(job),
                // The references of the old ones are released with all that nobody waits for.
                Found::Usable | Found::Old | Found::Foreign => records.remove(&job.key),
            }
        }
        let wanted: Vec<String> = ours.iter().map(|job| job.reference.clone()).collect();
        exchange.release_besides(&wanted).map_err(|error| error.to_string())?;
        let earlier: Vec<(String, HostSlot)> = ours.iter().map(|job| (job.key.clone(), job.slot())).collect();
        let hosts_config = HostsConfig {
            engine: Arc::clone(&engine),
            identity: identity.clone(),
            settings,
            loop_id: loop_id.to_owned(),
            timeout: host_timeout,
            note: note.clone(),
        };
        let hosts = HostPool::begin(hosts_config, &earlier)
            .map_err(|error| format!("the system starts no more threads: {error}"))?;
        if !ours.is_empty() {
            let text = format!("jobs that were sent before: {}; they are waited for", ours.len());
            let _ = note.send(Message::Notice(Notice::note(text)));
        }
        let used = ours.iter().map(|job| short(&job.key).to_owned()).collect();
        Ok(Dispatcher {
            engine,
            identity,
            agents,
            exchange,
            hosts,
            records,
            earlier: Mutex::new(ours.into_iter().map(|job| (digest(&job.request), job)).collect()),
            used: Mutex::new(used),
            began: OnceLock::new(),
            unsettled: Mutex::default(),
            loop_id: loop_id.to_owned(),
            sidecar: project.sidecar.clone(),
            note: Mutex::new(note),
        })
    }

    /// Has a job done. Returns when it is over and nothing of it is left, or when it is another's.
    pub fn run(
        &self,
        request: &JobRequest,
        base: &str,
        switch: &Switch,
        hear: &dyn Fn(RemoteNews),
    ) -> RemoteEnd {
        let began = self.began.get_or_init(Instant::now);
        let mut earlier = locked(&self.earlier).remove(&digest(request));
        if earlier.is_none() && began.elapsed() > EARLIER {
            self.give_up_earlier();
        }
        let mut wants = self.wants(request);
        loop {
            let sent = match earlier.take() {
                Some(sent) => {
                    self.note(format!("{} is found again on {}", short(&sent.key), sent.host));
                    sent
                }
                None => match self.place(request, base, &wants, switch) {
                    Ok(sent) => sent,
                    Err(ending) => return over(*ending, base),
                },
            };
            let mut told = self.records.told(&sent.key);
            let waited = self.wait(&sent, switch, &mut told, hear);
            self.hosts.free(&sent.key, &sent.slot());
            let host = sent.host.clone();
            match waited {
                Wait::Reply(reply) => {
                    // Texts are for people; the job is as done without them.
                    if let Err(error) = texts::keep(&self.sidecar, &sent.request, &reply.texts) {
                        self.note(format!("what {} printed cannot be kept: {error}", short(&sent.key)));
                    }
                    let spent = told.rest(&reply.progress.spent);
                    if let Some(why) = self.is_for_another(&reply.ending, &host, &wants) {
                        hear(RemoteNews::Spent(spent));
                        self.settle(&sent);
                        wants.avoid.insert(host);
                        self.note(format!("{} was not done on {}: {why}", short(&sent.key), sent.host));
                        continue;
                    }
                    let end = self.take(request, sent, *reply, spent);
                    return end;
                }
                Wait::Away | Wait::GivenUp(_) | Wait::Busy if switch.is_off() => {
                    self.settle(&sent);
                    return over(killed(request), base);
                }
                Wait::Away => {
                    self.settle(&sent);
                    wants.avoid.insert(host);
                }
                Wait::Busy => {
                    self.hosts.is_full(&host);
                    self.settle(&sent);
                }
                Wait::GivenUp(why) => {
                    self.hosts.failed(&host, &why);
                    self.settle(&sent);
                    wants.avoid.insert(host.clone());
                    self.note(format!("{} is lost on {host}: {why}", short(&sent.key)));
                }
                Wait::Killed => {
                    self.settle(&sent);
                    return over(killed(request), base);
                }
            }
        }
    }

    /// What a job left has landed, or was given back.
    pub fn settled(&self, job: &JobId) {
        let sent = locked(&self.unsettled).remove(job);
        sent.into_iter().for_each(|sent| self.settle(&sent));
    }

    /// Ends what nobody waits for: jobs of a driver before us that were not asked for again.
    pub fn end(&self) {
        let unsettled: Vec<SentJob> = locked(&self.unsettled).drain().map(|(_, sent)| sent).collect();
        unsettled.iter().for_each(|sent| self.settle(sent));
        let earlier: Vec<SentJob> = locked(&self.earlier).drain().map(|(_, sent)| sent).collect();
        let began = Instant::now();
        while let Err(error) = self.take_back_all() {
            if began.elapsed() > LAST_TRY {
                self.note(format!(
                    "jobs on hosts may go on for ten minutes, because they could not be taken back: {error}"
                ));
                break;
            }
            std::thread::sleep(AGAIN);
        }
        earlier.iter().for_each(|sent| self.settle(sent));
        self.hosts.end();
        self.records.clear();
        if let Err(error) = self.exchange.clear() {
            self.note(format!("where work was handed over, something stays: {error}"));
        }
    }

    fn take_back_all(&self) -> Result<(), EngineError> {
        let left = self.engine.under_way(&format!("{}/", self.loop_id))?;
        left.iter().try_for_each(|order| self.engine.cancel(&order.id))
    }

    /// Takes back what a driver before us had sent and nobody has asked for again, so that its slots are free.
    fn give_up_earlier(&self) {
        let earlier: Vec<SentJob> = locked(&self.earlier).drain().map(|(_, sent)| sent).collect();
        if earlier.is_empty() {
            return;
        }
        let wanted: BTreeSet<&str> = earlier.iter().map(|sent| sent.key.as_str()).collect();
        let under_way = self.engine.under_way(&format!("{}/", self.loop_id)).unwrap_or_default();
        for order in under_way.iter().filter(|order| wanted.contains(order.key.as_str())) {
            // Without an answer its host ends it: from now on no question names it.
            let _ = self.engine.cancel(&order.id);
        }
        for sent in &earlier {
            self.note(format!("{} was sent before and is not wanted any more", short(&sent.key)));
            self.hosts.free(&sent.key, &sent.slot());
            self.settle(sent);
        }
    }

    fn note(&self, text: String) {
        // Without a receiver the run is over.
        let _ = locked(&self.note).send(Message::Notice(Notice::note(text)));
    }

    fn wants(&self, request: &JobRequest) -> Wants {
        let (needs, agent) = match request {
            JobRequest::Attempt(assignment) => {
                let is_command =
                    assignment.atom.run.is_some() || matches!(assignment.job.task, Task::Check(_));
                (assignment.atom.needs.clone(), !is_command)
            }
            JobRequest::Replan(_) => (Vec::new(), true),
        };
        Wants { needs, agent, avoid: BTreeSet::new() }
    }

    /// Finds a slot, makes the reference, and writes the order down. It is not sent yet.
    fn place(
        &self,
        request: &JobRequest,
        base: &str,
        wants: &Wants,
        switch: &Switch,
    ) -> Result<SentJob, Box<JobEnding>> {
        let job = request.job();
        let whose = match &job.task {
            Task::Work(atom) => format!("{atom}/{}", job.attempt),
            Task::Probe(atom) => format!("{atom}/{}.probe", job.attempt),
            Task::Check(atom) => format!("{atom}/{}.check", job.attempt),
            Task::Replan => format!("replan/{}", job.attempt),
        };
        let whose = self.unused(whose);
        let key = format!("{}/{whose}", self.loop_id);
        let claimed = loop {
            match self.hosts.claim(&key, wants, switch, EARLIER) {
                Err(NoHost::Held) => self.give_up_earlier(),
                claimed => break claimed,
            }
        };
        let slot = claimed.map_err(|nobody| {
            Box::new(match nobody {
                NoHost::Killed => killed(request),
                NoHost::Limited(after) => limited(request, after),
                NoHost::Nobody(why) => not_started(request, why),
                NoHost::Held => unreachable!("it is asked again"),
            })
        })?;
        let reference = self.exchange.reference(&whose);
        let order = JobOrder {
            version: VERSION,
            loop_id: self.loop_id.clone(),
            host: slot.host.clone(),
            key: key.clone(),
            at: Timestamp::now(),
            agents: self.agents.clone(),
            request: request.clone(),
            base: base.to_owned(),
            address: self.exchange.address().to_owned(),
            reference: reference.clone(),
        };
        let text = serde_json::to_string(&order).expect("it can be written as JSON");
        let signed = self.identity.sign(SignedAs::Order, text);
        let sent = SentJob {
            key,
            loop_id: self.loop_id.clone(),
            host: slot.host.clone(),
            slot: slot.slot,
            base: base.to_owned(),
            reference,
            request: request.clone(),
            order: String::from_utf8(signed).expect("an envelope is text"),
        };
        let prepared = self
            .exchange
            .claim(&sent.reference, base)
            .map_err(|error| error.to_string())
            .and_then(|()| self.records.keep(&sent).map_err(|error| error.to_string()));
        prepared.map_err(|why| {
            self.hosts.free(&sent.key, &slot);
            Box::new(not_started(request, why))
        })?;
        Ok(sent)
    }

    /// The second host that is asked must not be mistaken for the first, which may only be late, and neither must one that is
    /// asked again.
    fn unused(&self, whose: String) -> String {
        let mut used = locked(&self.used);
        let numbered = (2..).map(|number| format!("{whose}.{number}"));
        let mut names = std::iter::once(whose.clone()).chain(numbered);
        names.find(|name| used.insert(name.clone())).expect("there are more numbers than orders")
    }

    /// Sends the order, or finds it sent, and waits for its end.
    fn wait(&self, sent: &SentJob, switch: &Switch, told: &mut ToldSpent, hear: &dyn Fn(RemoteNews)) -> Wait {
        let (signals, received) = channel();
        self.hosts.listen(&sent.key, sent.request.job(), &sent.slot(), signals.clone());
        let off = signals.clone();
        let _wire = switch.connect(move || {
            // The receiver lives as long as the wire.
            let _ = off.send(JobSignal::Off);
        });
        let order = match self.send(sent, &received) {
            Ok(order) => order,
            Err(wait) => return wait,
        };
        let replies = signals;
        self.engine.wait(
            &order,
            Box::new(move |waited| {
                // Nobody may wait for it any more.
                let _ = replies.send(JobSignal::Waited(waited));
            }),
        );
        let mut heard_of = 0;
        loop {
            match received.recv() {
                Ok(JobSignal::Waited(waited)) => {
                    let ended = self.ended(sent, waited);
                    if let Wait::Reply(reply) = &ended {
                        // A short job was never asked how it goes.
                        tell_new(&reply.progress, &mut heard_of, hear);
                    }
                    return ended;
                }
                Ok(JobSignal::Progress(progress)) => self.hear(sent, *progress, told, &mut heard_of, hear),
                Ok(JobSignal::HostAway) => {
                    self.forget(&order);
                    return Wait::Away;
                }
                Ok(JobSignal::Off) => return self.take_back(sent, &order, &received),
                Err(_) => return Wait::GivenUp("nobody tells of it any more".into()),
            }
        }
    }

    /// As long as the engine is away it is tried again.
    fn send(&self, sent: &SentJob, received: &Receiver<JobSignal>) -> Result<Sent, Wait> {
        loop {
            match self.engine.send(&sent.host, sent.slot, &sent.key, sent.order.clone().into_bytes()) {
                Ok(order) => return Ok(order),
                Err(EngineError::Unreachable { .. }) => {}
                Err(error) => return Err(Wait::GivenUp(error.to_string())),
            }
            match received.recv_timeout(AGAIN) {
                Ok(JobSignal::Off) => return Err(Wait::Killed),
                Ok(JobSignal::HostAway) => return Err(Wait::Away),
                Ok(JobSignal::Waited(_) | JobSignal::Progress(_)) | Err(_) => {}
            }
        }
    }

    fn ended(&self, sent: &SentJob, waited: Waited) -> Wait {
        let reply = match waited {
            Waited::Reply(reply) => reply,
            Waited::Cancelled => return Wait::GivenUp("it was taken back at the engine".into()),
            Waited::Failed(why) => return Wait::GivenUp(why),
        };
        let key = self.hosts.key_of(&sent.host);
        let opened = keys::open(&reply, SignedAs::Reply, |by| Some(*by) == key);
        let reply = opened.map_err(|error| error.to_string()).and_then(|(_, text)| {
            serde_json::from_str::<Reply>(&text).map_err(|error| format!("its reply cannot be read: {error}"))
        });
        match reply {
            Ok(Reply { ending: JobEnding::Busy, .. }) => Wait::Busy,
            Ok(reply) if reply.key == sent.key || matches!(reply.ending, JobEnding::Refused { .. }) => {
                Wait::Reply(Box::new(reply))
            }
            Ok(_) => Wait::GivenUp("its reply is about another job".into()),
            Err(why) => Wait::GivenUp(why),
        }
    }

    /// Has the job ended at its host, and waits until it is.
    fn take_back(&self, sent: &SentJob, order: &Sent, received: &Receiver<JobSignal>) -> Wait {
        let began = Instant::now();
        let mut is_asked = self.engine.cancel(&order.id).is_ok();
        while let Some(left) = ENDING.checked_sub(began.elapsed()) {
            match received.recv_timeout(if is_asked { left } else { AGAIN }) {
                Ok(JobSignal::Waited(_)) => return Wait::Killed,
                Ok(JobSignal::HostAway) => break,
                Ok(JobSignal::Off | JobSignal::Progress(_)) => {}
                Err(RecvTimeoutError::Timeout) if is_asked => break,
                Err(RecvTimeoutError::Timeout) => is_asked = self.engine.cancel(&order.id).is_ok(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let silent = if is_asked { sent.host.as_str() } else { "the engine" };
        self.note(format!("{} may go on for a while: {silent} does not answer", short(&sent.key)));
        self.forget(order);
        Wait::Killed
    }

    fn forget(&self, order: &Sent) {
        if let Err(error) = self.engine.forget(&order.id) {
            // What it still brings is refused all the same.
            self.note(format!("the engine still tries to bring an order to a host that is away: {error}"));
        }
    }

    fn hear(
        &self,
        sent: &SentJob,
        progress: JobProgress,
        told: &mut ToldSpent,
        heard_of: &mut u64,
        hear: &dyn Fn(RemoteNews),
    ) {
        let rest = told.so_far(&progress.spent);
        if rest != Spent::default() {
            self.records.keep_told(&sent.key, told);
            hear(RemoteNews::Spent(rest));
        }
        tell_new(&progress, heard_of, hear);
        progress.doing.into_iter().for_each(|line| hear(RemoteNews::Doing(line)));
    }

    /// Why this ending is the host's and not the job's, if another host could do better.
    fn is_for_another(&self, ending: &JobEnding, host: &str, wants: &Wants) -> Option<String> {
        let others = || {
            let mut wants = wants.clone();
            wants.avoid.insert(host.to_owned());
            self.hosts.has_other(&wants)
        };
        match ending {
            JobEnding::Refused { reason } => {
                self.hosts.failed(host, reason);
                Some(reason.clone())
            }
            JobEnding::Busy => None,
            JobEnding::Attempt(JobOutcome::Refused { reason, retry_after })
            | JobEnding::Replan(Answer::Refused { reason, retry_after }) => {
                self.hosts.limit(host, retry_after.map(|after| Duration::from_secs(after.seconds())));
                others().then(|| reason.clone())
            }
            JobEnding::Attempt(JobOutcome::Unable { reason, .. })
            | JobEnding::Replan(Answer::Unable { reason, .. }) => others().then(|| {
                self.hosts.leave_out(host, reason);
                reason.clone()
            }),
            JobEnding::Attempt(
                JobOutcome::NotStarted { obstacle: Obstacle::World, reason } | JobOutcome::Lost { reason },
            )
            | JobEnding::Replan(Answer::NotStarted { obstacle: Obstacle::World, reason }) => {
                self.hosts.failed(host, reason);
                others().then(|| reason.clone())
            }
            JobEnding::Attempt(
                JobOutcome::Done { .. }
                | JobOutcome::Failed { .. }
                | JobOutcome::TooLarge { .. }
                | JobOutcome::Probed { .. }
                | JobOutcome::NotStarted { .. },
            )
            | JobEnding::Replan(Answer::Plan(_) | Answer::Failed { .. } | Answer::NotStarted { .. }) => {
                self.hosts.worked(host);
                None
            }
        }
    }

    /// Takes in what the job brought.
    fn take(&self, request: &JobRequest, sent: SentJob, reply: Reply, spent: Spent) -> RemoteEnd {
        let Reply { ending, mut left, .. } = reply;
        let handed = self.exchange.take(&sent.reference, &sent.base, left.commit.as_deref());
        let lost = |reason: String| match request {
            JobRequest::Attempt(_) => JobEnding::Attempt(JobOutcome::Lost { reason }),
            JobRequest::Replan(_) => JobEnding::Replan(Answer::Failed { reason }),
        };
        let base = sent.base.clone();
        let is_work = |ending: &JobEnding| {
            matches!(
                ending,
                JobEnding::Attempt(JobOutcome::Done { check: CheckOutcome::None | CheckOutcome::Pass, .. })
            ) && matches!(request.job().task, Task::Work(_))
        };
        let ending = match handed {
            _ if !is_work(&ending) => ending,
            Ok(Handed::Nothing) => ending,
            Ok(Handed::Commit(commit)) => {
                left.commit = Some(commit);
                ending
            }
            Ok(Handed::NotThere) => lost(format!("what {} says that it made is not there", sent.host)),
            Err(error) => lost(format!("what {} made cannot be taken in: {error}", sent.host)),
        };
        match is_work(&ending) {
            true => {
                locked(&self.unsettled).insert(request.job().clone(), sent);
            }
            false => self.settle(&sent),
        }
        RemoteEnd { ending, base, left, spent }
    }

    /// The job is nobody's any more: whatever still comes of it is refused.
    fn settle(&self, sent: &SentJob) {
        if let Err(error) = self.exchange.release(&sent.reference) {
            self.note(format!("{} stays: {error}", sent.reference));
        }
        self.records.remove(&sent.key);
    }
}

/// What a job told that was not heard yet.
fn tell_new(progress: &JobProgress, heard_of: &mut u64, hear: &dyn Fn(RemoteNews)) {
    for (at, one) in (0..).zip(&progress.told) {
        let number = progress.first_told.saturating_add(at);
        if number >= *heard_of {
            hear(RemoteNews::Told(one.clone()));
            *heard_of = number.saturating_add(1);
        }
    }
}

fn over(ending: JobEnding, base: &str) -> RemoteEnd {
    RemoteEnd { ending, base: base.to_owned(), left: Left::default(), spent: Spent::default() }
}

fn killed(request: &JobRequest) -> JobEnding {
    let reason = "it was killed".to_owned();
    match request {
        JobRequest::Attempt(_) => JobEnding::Attempt(JobOutcome::Lost { reason }),
        JobRequest::Replan(_) => JobEnding::Replan(Answer::Failed { reason }),
    }
}

fn not_started(request: &JobRequest, reason: String) -> JobEnding {
    let obstacle = Obstacle::World;
    match request {
        JobRequest::Attempt(_) => JobEnding::Attempt(JobOutcome::NotStarted { obstacle, reason }),
        JobRequest::Replan(_) => JobEnding::Replan(Answer::NotStarted { obstacle, reason }),
    }
}

fn limited(request: &JobRequest, after: Duration) -> JobEnding {
    let reason = "the accounts of all hosts are limited".to_owned();
    let retry_after = Some(Span::from_seconds(after.as_secs().max(1)));
    match request {
        JobRequest::Attempt(_) => JobEnding::Attempt(JobOutcome::Refused { reason, retry_after }),
        JobRequest::Replan(_) => JobEnding::Replan(Answer::Refused { reason, retry_after }),
    }
}

/// The key without its loop, for people.
fn short(key: &str) -> &str {
    key.split_once('/').map_or(key, |(_, rest)| rest)
}
