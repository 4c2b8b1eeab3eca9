//! The hosts as the driver sees them: who is there, which slots are free, whose agents are limited, who fails too often.
//! Each host is asked once a second how its jobs are; one that does not answer for a while is away, and whoever waits for
//! it is told. Decides which host takes a job, and nothing of the loop.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aot_core::coordinator::JobId;
use jiff::Timestamp;

use super::engine::{EngineError, OrderEngine, Registered, Waited};
use super::hosted::locked;
use super::keys::{self, MachineIdentity, Peers, PublicKey, SignedAs};
use super::wire::{HostAnswer, HostQuestion, JobProgress, MOST_SLOTS, VERSION};
use crate::live::{HostJobNow, HostNow, HostsNow};
use crate::message::{Message, Notice};
use crate::process::Switch;

/// How often the engine is asked for its hosts, and a host how it is.
const HOSTS_EVERY: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often screens are told what has changed.
const SHOWN_EVERY: Duration = Duration::from_secs(1);

/// So long a job waits for a host that could take it, when none of those that are there can.
const NO_HOST_WAIT: Duration = Duration::from_secs(30);

/// Hosts that have just been found have not answered yet; after this it is told what is missing.
const NO_HOST_TOLD: Duration = Duration::from_secs(3);

/// A wait for a slot looks at its switch so often.
const POLL: Duration = Duration::from_millis(100);

/// A host that fails so many jobs in a row is left out.
const FAILURES: u32 = 3;

/// A limit whose end the agent does not report, and the longest that is believed.
const LIMIT: Duration = Duration::from_secs(60);
const LONGEST_LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// What a job hears while it waits.
#[derive(Debug)]
pub(super) enum JobSignal {
    Waited(Waited),
    /// It is to be ended.
    Off,
    Progress(Box<JobProgress>),
    HostAway,
}

/// What a job asks of its host.
#[derive(Clone, Debug, Default)]
pub(super) struct Wants {
    pub needs: Vec<String>,
    /// It uses an agent, and with it an account.
    pub agent: bool,
    /// It was there already; others come first.
    pub avoid: BTreeSet<String>,
}

/// A slot for a job, until it is freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostSlot {
    pub host: String,
    pub slot: u32,
}

/// Why no host takes a job.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoHost {
    Killed,
    /// All accounts are limited for so long.
    Limited(Duration),
    Nobody(String),
    /// Slots are held for jobs of an earlier driver that nobody asks for.
    Held,
}

#[derive(Debug)]
pub(super) struct HostPool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    engine: Arc<dyn OrderEngine>,
    identity: MachineIdentity,
    /// Where this user's keys are: a host that is trusted while the loop runs gets jobs from then on.
    settings: PathBuf,
    known: Mutex<Vec<(String, PublicKey)>>,
    loop_id: String,
    /// A host that does not answer for so long is away.
    timeout: Duration,
    note: Mutex<Sender<Message>>,
    table: Mutex<Table>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    is_over: bool,
    hosts: BTreeMap<String, HostEntry>,
    /// By key.
    jobs: HashMap<String, JobEntry>,
    /// Keys that a driver before us has sent.
    earlier: BTreeSet<String>,
    limits: HashMap<String, Instant>,
    waiting: u32,
    is_engine_away: bool,
}

#[derive(Debug)]
struct HostEntry {
    registration: String,
    state: HostState,
    slots: Vec<Option<String>>,
    /// How many slots have jobs that are not of this run.
    others: usize,
    offers: Vec<String>,
    account: String,
    failures: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostState {
    /// It has not answered yet.
    New,
    Up {
        heard: Instant,
    },
    Away,
    /// Its key is not known here.
    Unknown,
    /// It answers with another key, or not to us.
    Stranger,
    LeftOut {
        why: String,
    },
}

#[derive(Debug)]
struct JobEntry {
    id: JobId,
    slot: HostSlot,
    signals: Sender<JobSignal>,
    began: Timestamp,
}

/// Hosts that were found before.
#[derive(Debug, Default)]
struct KnownHosts {
    looked_at: BTreeSet<String>,
    /// Those that are not trusted are named once.
    told: BTreeSet<String>,
}

pub(super) struct HostsConfig {
    pub engine: Arc<dyn OrderEngine>,
    pub identity: MachineIdentity,
    pub settings: PathBuf,
    pub loop_id: String,
    pub timeout: Duration,
    pub note: Sender<Message>,
}

impl HostPool {
    /// Looks for hosts from now on. `earlier` are the jobs of a driver before us, and where they are.
    pub fn begin(config: HostsConfig, earlier: &[(String, HostSlot)]) -> std::io::Result<HostPool> {
        let HostsConfig { engine, identity, settings, loop_id, timeout, note } = config;
        let mut table = Table::default();
        for (key, slot) in earlier {
            table.earlier.insert(key.clone());
            table.host(&slot.host).hold(slot.slot, key);
        }
        let shared = Arc::new(Shared {
            engine,
            identity,
            known: Mutex::new(keys::known(&settings, Peers::Hosts)),
            settings,
            loop_id,
            timeout,
            note: Mutex::new(note),
            table: Mutex::new(table),
            changed: Condvar::new(),
        });
        let looking = Arc::clone(&shared);
        std::thread::Builder::new().name("hosts".into()).spawn(move || looking.find_hosts())?;
        Ok(HostPool { shared })
    }

    /// Waits for a free slot of a host that can do it; the one with most free slots. Slots that are held for an earlier
    /// driver's jobs are told after this time.
    pub fn claim(
        &self,
        key: &str,
        wants: &Wants,
        switch: &Switch,
        held: Duration,
    ) -> Result<HostSlot, NoHost> {
        let began = Instant::now();
        let mut told = None;
        let mut table = self.shared.table();
        table.waiting += 1;
        let claimed = loop {
            if switch.is_off() {
                break Err(NoHost::Killed);
            }
            match table.choose_again(wants) {
                HostChoice::Free(host) => {
                    let entry = table.hosts.get_mut(&host).expect("it was chosen from these");
                    let slot = entry.free_slot().expect("it was chosen because it has one");
                    entry.hold(slot, key);
                    break Ok(HostSlot { host, slot });
                }
                HostChoice::Busy if !table.earlier.is_empty() && began.elapsed() > held => {
                    break Err(NoHost::Held);
                }
                HostChoice::Busy => {}
                HostChoice::Limited(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    break Err(NoHost::Limited(left.max(Duration::from_secs(1))));
                }
                HostChoice::Nobody(why) if began.elapsed() > NO_HOST_WAIT => break Err(NoHost::Nobody(why)),
                HostChoice::Nobody(why) if began.elapsed() > NO_HOST_TOLD && told.as_ref() != Some(&why) => {
                    self.shared.note(format!("{} waits: {why}", short(key)));
                    told = Some(why);
                }
                HostChoice::Nobody(_) => {}
            }
            let waited = self.shared.changed.wait_timeout(table, POLL);
            table = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        table.waiting -= 1;
        claimed
    }

    /// Whether another host could take it now or later.
    pub fn has_other(&self, wants: &Wants) -> bool {
        matches!(self.shared.table().choose(wants), HostChoice::Free(_) | HostChoice::Busy)
    }

    /// From now on the signals of this job are sent here.
    pub fn listen(&self, key: &str, id: &JobId, slot: &HostSlot, signals: Sender<JobSignal>) {
        let mut table = self.shared.table();
        table.earlier.remove(key);
        let entry = JobEntry { id: id.clone(), slot: slot.clone(), signals, began: Timestamp::now() };
        table.jobs.insert(key.to_owned(), entry);
    }

    pub fn free(&self, key: &str, slot: &HostSlot) {
        let mut table = self.shared.table();
        table.jobs.remove(key);
        table.earlier.remove(key);
        if let Some(entry) = table.hosts.get_mut(&slot.host) {
            entry.slots.iter_mut().filter(|held| held.as_deref() == Some(key)).for_each(|held| *held = None);
        }
        drop(table);
        self.shared.changed.notify_all();
    }

    /// It had no slot for a job. Nothing more goes there before it has answered again.
    pub fn is_full(&self, host: &str) {
        if let Some(entry) = self.shared.table().hosts.get_mut(host) {
            entry.others = entry.slots.len();
        }
    }

    /// The key by which a host's replies are known.
    pub fn key_of(&self, host: &str) -> Option<PublicKey> {
        self.shared.key_of(host)
    }

    /// Its agents are limited, and so are those of all hosts with the same account.
    pub fn limit(&self, host: &str, after: Option<Duration>) {
        let mut table = self.shared.table();
        let Some(account) = table.hosts.get(host).map(|entry| entry.account.clone()) else { return };
        table.limits.insert(account, Instant::now() + after.unwrap_or(LIMIT).min(LONGEST_LIMIT));
    }

    pub fn worked(&self, host: &str) {
        if let Some(entry) = self.shared.table().hosts.get_mut(host) {
            entry.failures = 0;
        }
    }

    /// Counts a job that failed through no fault of its worker.
    pub fn failed(&self, host: &str, why: &str) {
        let mut table = self.shared.table();
        let Some(entry) = table.hosts.get_mut(host) else { return };
        entry.failures += 1;
        if entry.failures == FAILURES {
            drop(table);
            self.leave_out(
                host,
                &format!("{FAILURES} jobs in a row failed there, the last: {}", first_line(why)),
            );
        }
    }

    /// Gives it no more jobs, until it comes back as another registration.
    pub fn leave_out(&self, host: &str, why: &str) {
        let mut table = self.shared.table();
        let Some(entry) = table.hosts.get_mut(host) else { return };
        if !matches!(entry.state, HostState::LeftOut { .. }) {
            entry.state = HostState::LeftOut { why: why.to_owned() };
            drop(table);
            self.shared.note(format!("{host} is left out: {why}"));
        }
    }

    pub fn end(&self) {
        self.shared.table().is_over = true;
        self.shared.changed.notify_all();
    }
}

/// What can be done with a job now.
#[derive(Debug, PartialEq, Eq)]
enum HostChoice {
    Free(String),
    Busy,
    Limited(Instant),
    Nobody(String),
}

impl Table {
    fn host(&mut self, name: &str) -> &mut HostEntry {
        self.hosts.entry(name.to_owned()).or_insert_with(HostEntry::new)
    }

    /// A host where the job was already is better than none: it may only have been away for a while.
    fn choose_again(&self, wants: &Wants) -> HostChoice {
        match self.choose(wants) {
            HostChoice::Nobody(_) if !wants.avoid.is_empty() => {
                self.choose(&Wants { avoid: BTreeSet::new(), ..wants.clone() })
            }
            choice => choice,
        }
    }

    fn choose(&self, wants: &Wants) -> HostChoice {
        let up = |entry: &HostEntry| matches!(entry.state, HostState::Up { .. });
        let able: Vec<(&String, &HostEntry)> = self
            .hosts
            .iter()
            .filter(|(name, entry)| {
                up(entry)
                    && !wants.avoid.contains(*name)
                    && wants.needs.iter().all(|need| entry.offers.contains(need))
            })
            .collect();
        if able.is_empty() {
            return HostChoice::Nobody(self.why_nobody(wants));
        }
        let now = Instant::now();
        let until = |entry: &HostEntry| {
            self.limits.get(&entry.account).copied().filter(|until| wants.agent && *until > now)
        };
        let free = able.iter().filter(|(_, entry)| until(entry).is_none());
        let mut free = free.peekable();
        if free.peek().is_none() {
            let first = able.iter().filter_map(|(_, entry)| until(entry)).min();
            return first.map_or(HostChoice::Busy, HostChoice::Limited);
        }
        // Of equals the first by name: the same run is placed in the same way.
        let most = free.max_by_key(|(name, entry)| (entry.free(), std::cmp::Reverse(*name)));
        match most {
            Some((name, entry)) if entry.free() > 0 => HostChoice::Free((*name).clone()),
            _ => HostChoice::Busy,
        }
    }

    fn why_nobody(&self, wants: &Wants) -> String {
        let named: Vec<String> =
            self.hosts.iter().map(|(name, entry)| format!("{name} ({})", entry.word())).collect();
        match (self.is_engine_away, &named[..], &wants.needs[..]) {
            (true, ..) => "the engine does not answer".into(),
            (false, [], _) => "no host is registered at the engine; `aot worker` starts one".into(),
            (false, all, []) => format!("no host can take it: {}", all.join(", ")),
            (false, all, needs) => format!("no host offers {}: {}", needs.join(" and "), all.join(", ")),
        }
    }
}

impl HostEntry {
    fn new() -> HostEntry {
        HostEntry {
            registration: String::new(),
            state: HostState::New,
            slots: Vec::new(),
            others: 0,
            offers: Vec::new(),
            account: String::new(),
            failures: 0,
        }
    }

    fn hold(&mut self, slot: u32, key: &str) {
        let at = slot as usize;
        if self.slots.len() <= at {
            self.slots.resize(at + 1, None);
        }
        self.slots[at] = Some(key.to_owned());
    }

    fn free(&self) -> usize {
        self.slots.iter().filter(|held| held.is_none()).count().saturating_sub(self.others)
    }

    fn free_slot(&self) -> Option<u32> {
        let at = self.slots.iter().position(Option::is_none)?;
        u32::try_from(at).ok()
    }

    fn word(&self) -> &'static str {
        match self.state {
            HostState::New => "new",
            HostState::Up { .. } => "up",
            HostState::Away => "away",
            HostState::Unknown | HostState::Stranger => "not trusted",
            HostState::LeftOut { .. } => "left out",
        }
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        locked(&self.table)
    }

    fn note(&self, text: String) {
        // Without a receiver the run is over.
        let _ = locked(&self.note).send(Message::Notice(Notice::note(text)));
    }

    fn key_of(&self, host: &str) -> Option<PublicKey> {
        locked(&self.known).iter().find(|(name, _)| name == host).map(|(_, key)| *key)
    }

    /// Waits; `false` if the run is over.
    fn rest(&self, span: Duration) -> bool {
        let table = self.table();
        let waited = self.changed.wait_timeout_while(table, span, |table| !table.is_over);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }

    fn find_hosts(self: &Arc<Shared>) {
        let mut known = KnownHosts::default();
        let mut shown = HostsNow::default();
        let mut asked: Option<Instant> = None;
        loop {
            if asked.is_none_or(|asked| asked.elapsed() >= HOSTS_EVERY) {
                asked = Some(Instant::now());
                self.ask_for_hosts(&mut known);
            }
            self.show(&mut shown);
            if !self.rest(SHOWN_EVERY) {
                return;
            }
        }
    }

    fn ask_for_hosts(self: &Arc<Shared>, found_before: &mut KnownHosts) {
        *locked(&self.known) = keys::known(&self.settings, Peers::Hosts);
        let found = self.engine.hosts();
        self.engine_is_away(found.is_err());
        for Registered { name, registration } in found.into_iter().flatten() {
            let is_trusted = self.key_of(&name).is_some();
            {
                let mut table = self.table();
                let entry = table.host(&name);
                let is_new = entry.registration != registration;
                if is_new || (is_trusted && entry.state == HostState::Unknown) {
                    // It begins anew, whatever it was before.
                    entry.registration = registration;
                    entry.failures = 0;
                    if !matches!(entry.state, HostState::Up { .. }) {
                        entry.state = if is_trusted { HostState::New } else { HostState::Unknown };
                    }
                }
            }
            if !is_trusted && found_before.told.insert(name.clone()) {
                self.note(format!("{name} is not trusted, and gets no jobs: `aot hosts --trust {name}=KEY`, with the key that `aot worker` prints there"));
            }
            if is_trusted && found_before.looked_at.insert(name.clone()) {
                let shared = Arc::clone(self);
                let looks = std::thread::Builder::new().name("look".into());
                if looks.spawn(move || shared.keep_looking(&name)).is_err() {
                    self.note("no more hosts can be looked at: the system starts no more threads".into());
                }
            }
        }
    }

    fn engine_is_away(&self, is_away: bool) {
        let mut table = self.table();
        if table.is_engine_away != is_away {
            table.is_engine_away = is_away;
            drop(table);
            self.note(match is_away {
                true => "the engine does not answer; what runs on hosts goes on".into(),
                false => "the engine answers again".into(),
            });
        }
    }

    fn keep_looking(&self, host: &str) {
        let mut heard = Instant::now();
        loop {
            match self.look(host) {
                Ok(answer) => {
                    heard = Instant::now();
                    self.take_answer(host, answer);
                }
                // That says nothing of the host.
                Err(EngineError::Unreachable { .. }) => heard = Instant::now(),
                Err(EngineError::Refused { .. } | EngineError::HostAway { .. }) => {}
            }
            if heard.elapsed() > self.timeout {
                self.is_away(host);
            }
            if !self.rest(LOOK_EVERY) {
                return;
            }
        }
    }

    fn look(&self, host: &str) -> Result<HostAnswer, EngineError> {
        let jobs = {
            let table = self.table();
            let ours = table.jobs.iter().filter(|(_, job)| job.slot.host == host).map(|(key, _)| key);
            ours.chain(&table.earlier).cloned().collect()
        };
        let nonce = format!("{}-{}", std::process::id(), Timestamp::now().as_nanosecond());
        let question = HostQuestion {
            version: VERSION,
            host: host.to_owned(),
            nonce: nonce.clone(),
            at: Timestamp::now(),
            loop_id: Some(self.loop_id.clone()),
            jobs,
        };
        let text = serde_json::to_string(&question).expect("it can be written as JSON");
        let answer = self.engine.look(host, self.identity.sign(SignedAs::Question, text))?;
        let refused = |why: String| EngineError::Refused {
            address: self.engine.page(),
            what: format!("a question to {host}"),
            why,
        };
        if answer.is_empty() {
            let key = self.identity.public();
            let why = format!(
                "it takes no questions of this machine: start it with `aot worker --driver NAME={key}`, and compare the clocks"
            );
            self.is_stranger(host, &why);
            return Err(refused(why));
        }
        let key = self.key_of(host);
        let opened = keys::open(&answer, SignedAs::Answer, |by| Some(*by) == key);
        let text = match opened {
            Ok((_, text)) => text,
            Err(error) => {
                self.is_stranger(host, &error.to_string());
                return Err(refused(error.to_string()));
            }
        };
        let answer: HostAnswer = serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
        match answer.nonce == nonce {
            true => Ok(answer),
            false => Err(refused("it is the answer to another question".into())),
        }
    }

    fn take_answer(&self, host: &str, answer: HostAnswer) {
        let HostAnswer { slots, others, offers, account, jobs, .. } = answer;
        let slots = slots.min(MOST_SLOTS);
        let mut table = self.table();
        let entry = table.host(host);
        let is_back = entry.state == HostState::Away;
        if !matches!(entry.state, HostState::LeftOut { .. }) {
            entry.state = HostState::Up { heard: Instant::now() };
        }
        entry.slots.resize(
            (slots as usize).max(entry.slots.iter().rposition(Option::is_some).map_or(0, |at| at + 1)),
            None,
        );
        entry.others = others as usize;
        (entry.offers, entry.account) = (offers, account);
        for (key, progress) in jobs {
            if let Some(job) = table.jobs.get(&key) {
                // Without a receiver the job is over.
                let _ = job.signals.send(JobSignal::Progress(Box::new(progress)));
            }
        }
        drop(table);
        self.changed.notify_all();
        if is_back {
            self.note(format!("{host} answers again"));
        }
    }

    fn is_stranger(&self, host: &str, why: &str) {
        let mut table = self.table();
        let entry = table.host(host);
        if entry.state != HostState::Stranger {
            entry.state = HostState::Stranger;
            drop(table);
            self.note(format!("{host} gets no jobs: {why}"));
        }
    }

    fn is_away(&self, host: &str) {
        let mut table = self.table();
        let entry = table.host(host);
        if matches!(entry.state, HostState::Up { .. } | HostState::New) {
            entry.state = HostState::Away;
            let seconds = self.timeout.as_secs();
            self.note(format!("{host} has not answered for {seconds} s: its jobs go to other hosts"));
        }
        // Those of a driver before us as well: whoever takes them over begins to listen now.
        for job in table.jobs.values().filter(|job| job.slot.host == host) {
            let _ = job.signals.send(JobSignal::HostAway);
        }
    }

    /// Tells screens how the hosts are, if they do not know it yet.
    fn show(&self, shown: &mut HostsNow) {
        let now = self.now();
        if *shown != now {
            *shown = now.clone();
            // Without a receiver the run is over.
            let _ = locked(&self.note).send(Message::Notice(Notice::Hosts { hosts: now }));
        }
    }

    fn now(&self) -> HostsNow {
        let table = self.table();
        let host = |(name, entry): (&String, &HostEntry)| {
            let jobs = table.jobs.iter().filter(|(_, job)| job.slot.host == *name);
            let mut jobs: Vec<HostJobNow> = jobs
                .map(|(key, job)| HostJobNow {
                    job: short(key),
                    task: job.id.task.word().to_owned(),
                    atom: job.id.task.atom().map(ToString::to_string),
                    attempt: job.id.attempt.into(),
                    slot: job.slot.slot,
                    since: job.began,
                })
                .collect();
            jobs.sort_by_key(|job| job.slot);
            HostNow {
                name: name.clone(),
                state: entry.word().to_owned(),
                why: match &entry.state {
                    HostState::LeftOut { why } => Some(why.clone()),
                    _ => None,
                },
                slots: u32::try_from(entry.slots.len()).unwrap_or(u32::MAX),
                offers: entry.offers.clone(),
                account: entry.account.clone(),
                jobs,
            }
        };
        HostsNow {
            engine: self.engine.page(),
            engine_away: table.is_engine_away,
            waiting: table.waiting,
            hosts: table.hosts.iter().map(host).collect(),
        }
    }
}

/// The key without its loop, for people.
fn short(key: &str) -> String {
    key.split_once('/').map_or(key, |(_, rest)| rest).to_owned()
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
