//! The loop in the world: what happens becomes an `Event`, the coordinator answers with `Effect`s, and these are
//! performed: what is to be recorded first, in one write. Does not branch on the domain, has no terminal.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use aot_core::brief::{self, AttemptContext, Leftover, ReplanRequest};
use aot_core::coordinator::{
    Coordinator, Effect, Evaluation as Seen, Event, Job, JobId, Settings, StopMode, Task, Usage,
};
use aot_core::rules::bound::Bound;
use aot_core::rules::certificate::{Certificate, RedCheck};
use aot_core::rules::gate::{Aligned, NotAligned};
use aot_core::rules::{ApplyError, Change, Refusal};
use aot_core::state::State;
use aot_core::verdict::{Outcome, Verdict};
use jiff::Timestamp;

use crate::agents::AgentUsage;
use crate::checks::seal::Altered;
use crate::crew::{Assignment, Crew, Message, Said, WhenBlocked, excerpt, tampered, weighed};
use crate::process::cage;
use crate::store::error::FileError;
use crate::store::hold;
use crate::store::home::Home;
use crate::store::lock::{Held, Lock};
use crate::store::{Foreign, Store, StoreError, Unreadable};
use crate::tree::{GroundError, Kind, Waiting};

/// While a redirect is held, so often somebody looks whether it still is.
const REDIRECT_LOOK: Duration = Duration::from_millis(100);
/// Without a watch the file is looked at so often.
const BLIND_LOOK: Duration = Duration::from_secs(1);
/// A state file that cannot be read or written is tried again so often.
const TROUBLE_LOOK: Duration = Duration::from_secs(1);
/// A state file that is gone is waited for so long: some programs take it away for a moment when they save.
const GONE_WAIT: Duration = Duration::from_secs(5);
/// The next write waits for others at most so long.
const LONGEST_GATHERING: Duration = Duration::from_millis(25);
/// Killed threads are waited for so long before a run ends without them.
const CLEARING: Duration = Duration::from_secs(60);
/// A landing that waits is told again so often.
const WAITING_TOLD: Duration = Duration::from_secs(30);

/// What happens during a run, for whoever shows it.
#[derive(Debug)]
pub enum Notice<'n> {
    /// Where the work happens, where it lands, and what holds workers in.
    Ground {
        kind: Kind,
        branch: Option<&'n str>,
        cage: cage::Kind,
    },
    /// Written into the state file.
    Recorded {
        changes: &'n [Change],
        state: &'n State,
    },
    /// Somebody else wrote the state file, and this is what it says now.
    Edited {
        state: &'n State,
    },
    Started {
        job: &'n JobId,
        state: &'n State,
    },
    Killed {
        job: &'n JobId,
    },
    /// What an agent does now.
    Doing {
        job: &'n JobId,
        line: &'n str,
    },
    /// An agent has ended; without a job it is a judge of the base case or of a check.
    Asked {
        job: Option<&'n JobId>,
        agent: &'n str,
        used: AgentUsage,
        took: Duration,
    },
    Verifying {
        number: u32,
    },
    Checked {
        item: &'n str,
        outcome: Outcome,
    },
    Verified {
        verdict: Verdict,
        red: &'n [RedCheck],
        took: Duration,
    },
    Tampered {
        altered: &'n [Altered],
    },
    /// A landing waits: uncommitted edits are in its way, or somebody else is at work in the repository.
    Waiting {
        job: &'n JobId,
        waiting: &'n Waiting,
    },
    Note {
        text: &'n str,
    },
    /// The most that can still happen.
    Bound {
        bound: &'n Bound,
    },
    /// Nothing has happened for a moment; only if ticks were asked for.
    Tick,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ran {
    pub certificate: Certificate,
    /// A person at the keyboard ended it.
    pub interrupted: bool,
    pub altered: Vec<Altered>,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    NotAligned(#[from] NotAligned),
    #[error(transparent)]
    Store(#[from] StoreError<Refusal>),
    #[error("the state file was changed so that what happened cannot be written into it: {0}")]
    NotWritten(String),
    #[error(transparent)]
    Ground(#[from] GroundError),
    #[error("{0}")]
    World(String),
}

impl From<FileError> for RunError {
    fn from(error: FileError) -> RunError {
        RunError::Store(StoreError::File(error))
    }
}

/// What the loop is given to begin with.
#[derive(Debug)]
pub struct Beginning {
    pub aligned: Aligned,
    pub settings: Settings,
    pub begun: Event,
    /// How often [`Notice::Tick`] is wanted.
    pub ticks: Option<Duration>,
}

pub struct Shell<'s> {
    store: Store,
    home: Home,
    coordinator: Coordinator,
    crew: Crew,
    inbox: Receiver<Message>,
    /// Words that came while somebody waited for another one.
    backlog: VecDeque<Message>,
    tell: &'s mut dyn FnMut(Notice<'_>),
    ticks: Option<Duration>,
    wake: Option<Timestamp>,
    blind: bool,
    bound: Bound,
    /// When the last write ended, and how long it took.
    last_write: Option<(Instant, Duration)>,
    interrupted: bool,
    altered: Vec<Altered>,
    waiting_told: Option<Instant>,
    /// Commits of given-up work that could not be taken back.
    left: Vec<Leftover>,
    /// Held while everything is interrupted for a redirect, so that whoever redirects sees it.
    standing: Option<Held>,
    halted: Option<Certificate>,
}

impl std::fmt::Debug for Shell<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shell").field("home", &self.home).finish_non_exhaustive()
    }
}

impl<'s> Shell<'s> {
    /// Drives the loop to a halt. The caller holds the driver's lock.
    pub fn run(
        store: Store,
        crew: Crew,
        inbox: Receiver<Message>,
        beginning: Beginning,
        tell: &'s mut dyn FnMut(Notice<'_>),
    ) -> Result<Ran, RunError> {
        let Beginning { aligned, settings, begun, ticks } = beginning;
        let mut coordinator = Coordinator::resume(aligned, settings, Timestamp::now());
        let bound = coordinator.bound();
        let home = store.file().home().clone();
        let mut shell = Shell {
            store,
            home,
            coordinator,
            crew,
            inbox,
            backlog: VecDeque::new(),
            tell,
            ticks,
            wake: None,
            blind: false,
            bound,
            last_write: None,
            interrupted: false,
            altered: Vec::new(),
            waiting_told: None,
            left: Vec::new(),
            standing: None,
            halted: None,
        };
        (shell.tell)(Notice::Bound { bound: &shell.bound });
        let (ground, cage) = (shell.crew.ground(), shell.crew.cage());
        (shell.tell)(Notice::Ground { kind: ground.trees(), branch: ground.branch(), cage });
        let ended = shell.drive(begun);
        shell.clear();
        let Shell { crew, tell, interrupted, altered, halted, .. } = shell;
        if let Err(error) = crew.close() {
            tell(Notice::Note { text: &format!("the trees could not be cleared: {error}") });
        }
        ended?;
        let certificate = halted.expect("a loop is driven until it halts");
        Ok(Ran { certificate, interrupted, altered })
    }

    fn drive(&mut self, begun: Event) -> Result<(), RunError> {
        self.turn(vec![begun])?;
        while self.halted.is_none() {
            self.stand_or_move();
            let mut events = Vec::new();
            if let Some(word) = self.next() {
                self.hear(word, &mut events)?;
                self.hear_more(&mut events)?;
            } else {
                self.look_around(&mut events)?;
            }
            self.turn(events)?;
        }
        Ok(())
    }

    /// Stands still while a redirect is under way and nobody of the crew is left; moves when it is over.
    fn stand_or_move(&mut self) {
        if !self.coordinator.state().control.redirect_requested {
            self.standing = None;
            return;
        }
        let idle = self.coordinator.running().is_empty() && !self.crew.is_busy();
        if idle && self.standing.is_none() {
            // Where locks fail, whoever redirects is told that this driver hangs.
            self.standing = Held::take_the(Lock::Standing, &self.home, "stands still", REDIRECT_LOOK).ok();
        }
    }

    /// Whatever still runs is killed, and waited for.
    fn clear(&mut self) {
        self.crew.kill_all();
        let began = Instant::now();
        while self.crew.is_busy() && began.elapsed() < CLEARING {
            let word = self.inbox.recv_timeout(CLEARING);
            match word {
                Ok(Message::Note(text)) => (self.tell)(Notice::Note { text: &text }),
                Ok(Message::Landed { job, binding, .. }) => {
                    // The record says otherwise; the next run takes it back, or finds it.
                    let commit = binding.commit.unwrap_or_default();
                    let text = format!("{:?} landed late: {commit}", job.task);
                    (self.tell)(Notice::Note { text: &text });
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }

    /// The next word; `None` when it is time to look around.
    fn next(&mut self) -> Option<Message> {
        if let Some(word) = self.backlog.pop_front() {
            return Some(word);
        }
        let until_wake = self.wake.map(|wake| {
            let left = Timestamp::now().duration_until(wake);
            Duration::try_from(left).unwrap_or(Duration::ZERO)
        });
        let redirecting = self.coordinator.state().control.redirect_requested.then_some(REDIRECT_LOOK);
        let blind = self.blind.then_some(BLIND_LOOK);
        let wait = [until_wake, redirecting, blind, self.ticks].into_iter().flatten().min();
        let word = match wait {
            Some(wait) => self.inbox.recv_timeout(wait),
            None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        word.ok()
    }

    /// Nothing came: is it time to wake the coordinator, is a redirect still held, is the file the same?
    fn look_around(&mut self, events: &mut Vec<Event>) -> Result<(), RunError> {
        (self.tell)(Notice::Tick);
        if self.wake.is_some_and(|wake| wake <= Timestamp::now()) {
            self.wake = None;
            events.push(Event::Woke);
        }
        let redirecting = self.coordinator.state().control.redirect_requested;
        if redirecting || self.blind {
            // In this order, so that a redirect that was just made is not taken for an abandoned one.
            let held = hold::holder(&self.home).is_some();
            self.look_at_file(events)?;
            let still = events.is_empty() && redirecting;
            if still && !held {
                events.push(Event::RedirectAbandoned);
            }
        }
        Ok(())
    }

    /// One word of the world as events.
    fn hear(&mut self, word: Message, events: &mut Vec<Event>) -> Result<(), RunError> {
        match word {
            Message::Ended { job, outcome, usage } => events.push(Event::Ended { job, outcome, usage }),
            Message::Landed { job, binding, usage } => {
                self.waiting_told = None;
                events.push(Event::Landed { job, binding, usage });
            }
            Message::Conflict { job, reason, usage } => {
                self.waiting_told = None;
                events.push(Event::Conflict { job, reason, usage });
            }
            Message::Replanned { job, answer, usage } => {
                events.push(Event::Replanned { job, answer, usage });
            }
            Message::Spent { usage } => events.push(Event::Spent { usage }),
            Message::Doing { job, line } => (self.tell)(Notice::Doing { job: &job, line: &line }),
            Message::Asked { job, agent, used, took } => {
                (self.tell)(Notice::Asked { job: Some(&job), agent: &agent, used, took });
            }
            Message::Judged { agent, used, took } => {
                (self.tell)(Notice::Asked { job: None, agent: &agent, used, took });
            }
            Message::Stays { atom, commit } => self.left.push(Leftover { commit, atom }),
            Message::Waiting { job, waiting } => {
                if self.waiting_told.is_none_or(|told| told.elapsed() > WAITING_TOLD) {
                    self.waiting_told = Some(Instant::now());
                    (self.tell)(Notice::Waiting { job: &job, waiting: &waiting });
                }
            }
            Message::Verified { number, said } => self.verified(number, said, events),
            Message::Checked { number, item, outcome } => {
                if self.coordinator.verifying() == Some(number) {
                    (self.tell)(Notice::Checked { item: &item, outcome });
                }
            }
            Message::Note(text) => (self.tell)(Notice::Note { text: &text }),
            Message::Left => {}
            Message::FileChanged => self.look_at_file(events)?,
            Message::Blind(reason) => {
                self.blind = true;
                let text = format!("{reason}; it is looked at every second instead");
                (self.tell)(Notice::Note { text: &text });
            }
            Message::Interrupt => {
                self.interrupted = true;
                let reason = Some("interrupted".to_owned());
                events.push(Event::StopAsked { how: StopMode::Now, reason });
            }
        }
        Ok(())
    }

    fn verified(&mut self, number: u32, said: Said, events: &mut Vec<Event>) {
        if self.coordinator.verifying() != Some(number) {
            return;
        }
        let (evaluation, usage) = match said {
            Said::Lost(reason) => {
                let text = format!("the evaluation got lost: {reason}");
                (self.tell)(Notice::Note { text: &text });
                (Seen::Lost { reason }, Usage::default())
            }
            Said::Tampered(altered) => {
                (self.tell)(Notice::Tampered { altered: &altered });
                events.push(Event::Tampered { what: tampered(&altered) });
                self.altered = altered;
                return;
            }
            Said::Seen { evaluation, uncommitted, usage } => {
                let red = evaluation.in_the_way();
                let verdict = evaluation.verdict;
                (self.tell)(Notice::Verified { verdict, red: &red, took: evaluation.took });
                (weighed(&evaluation, &uncommitted), usage)
            }
        };
        events.push(Event::Verified { number, evaluation, usage });
    }

    /// All results at hand are taken in at once, and written in one go (D7).
    fn hear_more(&mut self, events: &mut Vec<Event>) -> Result<(), RunError> {
        while let Some(word) = self.backlog.pop_front().or_else(|| self.inbox.try_recv().ok()) {
            self.hear(word, events)?;
        }
        Ok(())
    }

    /// Takes events in and performs what follows, until nothing follows any more.
    fn turn(&mut self, mut events: Vec<Event>) -> Result<(), RunError> {
        while !events.is_empty() {
            let mut effects = Vec::new();
            let mut recorded = false;
            while !events.is_empty() {
                let mut pressing = false;
                for event in events.drain(..) {
                    pressing |= matches!(event, Event::StopAsked { .. } | Event::Edited { .. });
                    recorded |= self.take_in(event, &mut effects);
                }
                if recorded && !pressing {
                    self.gather(&mut events)?;
                }
            }
            if recorded {
                let began = Instant::now();
                self.record(&mut events)?;
                self.last_write = Some((Instant::now(), began.elapsed()));
            }
            self.crew.when_blocked(self.hurry());
            self.crew.keep_verifying(self.coordinator.verifying());
            for wish in effects {
                self.perform(wish);
            }
            self.tell_bound();
        }
        Ok(())
    }

    /// One event, and what is to be done when it is written down. Tells whether there is something to write.
    fn take_in(&mut self, event: Event, effects: &mut Vec<Effect>) -> bool {
        let now = Timestamp::now();
        let mut recorded = false;
        for effect in self.coordinator.on(event, now) {
            match effect {
                Effect::Record(changes) => {
                    let state = self.coordinator.state();
                    (self.tell)(Notice::Recorded { changes: &changes, state });
                    self.store.queue(now, changes);
                    recorded = true;
                }
                // A landing that nothing had to be written for need not wait for what others have to write.
                Effect::Land(job) if !recorded => self.crew.land(&job),
                wish => effects.push(wish),
            }
        }
        recorded
    }

    /// While one write follows the other, the next one waits for those who are about to end, so that it carries more.
    fn gather(&mut self, events: &mut Vec<Event>) -> Result<(), RunError> {
        let Some((ended, took)) = self.last_write else { return Ok(()) };
        let until = ended + (took * 2).min(LONGEST_GATHERING);
        while events.is_empty() && self.crew.is_busy() {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return Ok(()) };
            match self.inbox.recv_timeout(left) {
                Ok(word) => self.hear(word, events)?,
                Err(_) => return Ok(()),
            }
        }
        self.hear_more(events)
    }

    /// A landing that waits for a person holds up neither a stop nor a redirect.
    fn hurry(&self) -> WhenBlocked {
        let state = self.coordinator.state();
        let limit = state.constraints().max_wall_time().seconds();
        let spent = state.control.spent.as_ref().map_or(0, |spent| spent.seconds);
        let control = &state.control;
        match control.redirect_requested || control.stop_requested || spent >= limit {
            true => WhenBlocked::GiveUp,
            false => WhenBlocked::Wait,
        }
    }

    fn perform(&mut self, wish: Effect) {
        match wish {
            Effect::Record(_) => unreachable!("what is recorded comes first"),
            Effect::Start(job) => self.start(&job),
            Effect::Kill(job) => {
                self.crew.kill(&job);
                (self.tell)(Notice::Killed { job: &job });
            }
            Effect::Land(job) => self.crew.land(&job),
            Effect::Verify { number } => {
                (self.tell)(Notice::Verifying { number });
                self.crew.verify(number, excerpt(self.coordinator.state()));
            }
            Effect::Revert { atom, commit } => self.crew.revert(atom, commit),
            Effect::WakeAt(at) => self.wake = Some(at),
            Effect::Refuse(refusal) => {
                (self.tell)(Notice::Note { text: &refusal.to_string() });
            }
            Effect::Halt(certificate) => self.halted = Some(*certificate),
        }
    }

    /// Writes the brief, since only the whole state has what belongs into it, and hands the job to the crew.
    fn start(&mut self, job: &Job) {
        let (state, graph) = (self.coordinator.state(), self.coordinator.graph());
        (self.tell)(Notice::Started { job: &job.id, state });
        let id = job.id.clone();
        let given = AttemptContext {
            findings: job.findings.as_deref(),
            returned: job.return_reason.as_deref(),
            left: &self.left,
        };
        let (atom, brief) = match &job.id.task {
            Task::Replan => {
                let asked = ReplanRequest { why: job.why.clone(), refusals: job.refusals.clone() };
                let brief = brief::coordinator(state, graph, &asked);
                return self.crew.replan(id, brief, excerpt(state));
            }
            Task::Probe(atom) => (atom, brief::probe(state, graph, atom, given).ok()),
            Task::Work(atom) => (atom, brief::worker(state, graph, atom, given).ok()),
            Task::Check(atom) => (atom, None),
        };
        let atom = state.atoms.get(atom).expect("only what stands in the state is started");
        self.crew.start(Assignment::of(id, atom, state, brief.filter(|_| atom.run.is_none())));
    }

    fn tell_bound(&mut self) {
        let bound = self.coordinator.bound();
        if bound.agent_runs != self.bound.agent_runs {
            self.bound = bound;
            (self.tell)(Notice::Bound { bound: &self.bound });
        }
    }

    /// Writes what happened. What others wrote meanwhile comes back as an event.
    fn record(&mut self, events: &mut Vec<Event>) -> Result<(), RunError> {
        let mut trouble: Option<(Instant, String)> = None;
        loop {
            let forgotten = self.store.state().is_none();
            match self.store.flush(Timestamp::now()) {
                Ok(recorded) => {
                    for note in &recorded.notes {
                        (self.tell)(Notice::Note { text: &note.to_string() });
                    }
                    if recorded.foreign == Foreign::Edited || forgotten {
                        self.edited(events);
                    } else {
                        self.debug_compare();
                    }
                    return Ok(());
                }
                Err(StoreError::Conflict { why, kept }) => {
                    let text = format!(
                        "the state file was changed by two sides: {why}; both texts are kept in {}",
                        kept.display()
                    );
                    (self.tell)(Notice::Note { text: &text });
                    self.store.load::<Refusal>()?;
                    self.edited(events);
                    let reason = Some(format!("conflict: {why}"));
                    events.push(Event::StopAsked { how: StopMode::Finish, reason });
                    return Ok(());
                }
                Err(StoreError::NotWritten(why)) => return Err(RunError::NotWritten(why.to_string())),
                Err(StoreError::Refused(misfit)) => return Err(RunError::NotWritten(misfit.to_string())),
                Err(StoreError::File(error)) => self.bear(StoreError::File(error), &mut trouble)?,
                Err(StoreError::Unreadable(text)) => self.bear(StoreError::Unreadable(text), &mut trouble)?,
            }
        }
    }

    /// The file cannot be read or written just now. It is told once, and tried again.
    fn bear(
        &mut self,
        error: StoreError<ApplyError>,
        trouble: &mut Option<(Instant, String)>,
    ) -> Result<(), RunError> {
        let gone = matches!(error, StoreError::File(FileError::Missing { .. }));
        let told = match &error {
            StoreError::Unreadable(unreadable) => wrong_with(unreadable),
            other => other.to_string(),
        };
        let since = match trouble {
            Some((since, before)) if *before == told => *since,
            _ => {
                let text = format!("{told}; nothing new starts until that is mended");
                (self.tell)(Notice::Note { text: &text });
                let since = trouble.as_ref().map_or_else(Instant::now, |(since, _)| *since);
                *trouble = Some((since, told));
                since
            }
        };
        let limit = self.coordinator.state().constraints().max_wall_time().seconds();
        let limit = if gone { GONE_WAIT } else { Duration::from_secs(limit) };
        let give_up = since.elapsed() > limit || self.interrupted_meanwhile();
        if give_up {
            return Err(RunError::Store(match error {
                StoreError::File(error) => StoreError::File(error),
                StoreError::Unreadable(unreadable) => StoreError::Unreadable(unreadable),
                other => return Err(RunError::NotWritten(other.to_string())),
            }));
        }
        Ok(())
    }

    /// Waits a moment, keeping what is said for later; tells whether it was a wish to end.
    fn interrupted_meanwhile(&mut self) -> bool {
        let until = Instant::now() + TROUBLE_LOOK;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            match self.inbox.recv_timeout(left) {
                Ok(Message::Interrupt) => {
                    self.interrupted = true;
                    return true;
                }
                Ok(Message::FileChanged) => return false,
                Ok(word) => self.backlog.push_back(word),
                Err(_) => return false,
            }
        }
        false
    }

    /// Looks whether somebody else wrote, and takes it in.
    fn look_at_file(&mut self, events: &mut Vec<Event>) -> Result<(), RunError> {
        match self.store.look::<Refusal>() {
            Ok(Foreign::None) => Ok(()),
            // Whether it can be read is told when it is.
            Ok(Foreign::Edited) | Err(_) => self.record(events),
        }
    }

    /// The state is another one than the coordinator's, by somebody else's hand.
    fn edited(&mut self, events: &mut Vec<Event>) {
        let Some(state) = self.store.state() else { return };
        (self.tell)(Notice::Edited { state });
        let state = Box::new(state.clone());
        let was = self.coordinator.state().control.redirect_requested;
        let is = state.control.redirect_requested;
        if was && !is {
            events.push(Event::Redirected { state });
            return;
        }
        events.push(Event::Edited { state });
        if is && hold::holder(&self.home).is_none() {
            events.push(Event::RedirectAbandoned);
        }
    }

    /// In tests, what the store wrote and what the coordinator believes are the same.
    fn debug_compare(&self) {
        if cfg!(debug_assertions)
            && let Some(written) = self.store.state()
        {
            let mut believed = self.coordinator.state().clone();
            believed.control.revision = written.control.revision;
            debug_assert_eq!(
                *written, believed,
                "the file says something else than the coordinator believes"
            );
        }
    }
}

fn wrong_with(unreadable: &Unreadable) -> String {
    match unreadable.findings.first() {
        Some(first) => format!(
            "the state file cannot be read: {} (line {}, column {})",
            first.message, first.place.line, first.place.column
        ),
        None => "the state file cannot be read".into(),
    }
}
