//! The loop in the world: messages become [`Event`]s, the coordinator answers with [`Effect`]s, and these are performed;
//! what is to be recorded comes first, in one write. Serves `aot run`, which drives a loop until it halts, and a host's
//! session, which takes one step in each process and runs until nothing is under way. Contains no rule, has no terminal.

mod clock;
mod learn;
mod open;
mod record;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use aot_core::brief::{self, AttemptContext, Brief, Leftover, ReplanRequest};
use aot_core::coordinator::{
    Coordinator, Effect, Evaluation, Event, Job, JobId, JobOutcome, Obstacle, StopMode, Task, Usage,
};
use aot_core::rules::Refusal;
use aot_core::rules::bound::Bound;
use aot_core::rules::certificate::{Certificate, RedCheck};
use aot_core::rules::gate::NotAligned;
use aot_core::state::AtomId;
use jiff::Timestamp;

use crate::checks::seal::Altered;
use crate::crew::{Assignment, Crew, PlanQuestion, WhenBlocked, without_graph};
use crate::message::{Message, Notice};
use crate::store::error::FileError;
use crate::store::hold;
use crate::store::home::Home;
use crate::store::lock::{Held, Lock};
use crate::store::{Store, StoreError};
use crate::tree::GroundError;

pub(crate) use clock::Clock;
pub(crate) use learn::Learning;
pub use open::new_id;
pub(crate) use open::{Opening, Owner, claim, ground, made_at, trees};

/// How often a held redirect is checked for still being held.
const REDIRECT_POLL: Duration = Duration::from_millis(100);
/// How often the state file is read where it is not watched.
const FILE_POLL: Duration = Duration::from_secs(1);
/// A write waits at most so long for further results.
const LONGEST_GATHERING: Duration = Duration::from_millis(25);
/// Killed threads are waited for so long before a run ends without them.
const CLEARING: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    NotAligned(#[from] NotAligned),
    #[error(transparent)]
    Store(#[from] StoreError<Refusal>),
    #[error("the state file was changed in a way that leaves no room for what happened: {0}")]
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

/// Who works on what is started, and how long the engine waits for the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// This process starts the workers. A state file that cannot be read is waited for.
    Drive,
    /// The host's agents work: a start is answered with a tree and a brief. A state file that cannot be read, or an
    /// evaluation that got lost, ends the step.
    Step,
}

/// What was asked of this process and is not in the state file.
#[derive(Debug, Default)]
pub struct Output {
    pub halted: Option<Certificate>,
    /// The rules refused the request; nothing has changed.
    pub refused: Option<Refusal>,
    pub started: Option<Started>,
    /// In [`Mode::Step`]: a command that solves the atom that was started.
    pub command: Option<Assignment>,
    pub altered: Vec<Altered>,
    /// A person at the keyboard ended it.
    pub interrupted: bool,
}

/// A worker of the host may begin.
#[derive(Clone, Debug)]
pub struct Started {
    pub atom: AtomId,
    pub attempt: u32,
    /// The project's folder in the tree that it works in.
    pub folder: PathBuf,
    pub brief: String,
}

pub struct Engine<'e> {
    pub(crate) store: Store,
    pub(crate) coordinator: Coordinator,
    pub(crate) crew: Crew,
    pub(crate) inbox: Receiver<Message>,
    /// Messages that are to be handled before those in the inbox.
    backlog: VecDeque<Message>,
    notify: &'e mut dyn FnMut(Notice<'_>),
    pub(crate) output: Output,
    mode: Mode,
    clock: Clock,
    /// How often [`Notice::Tick`] is wanted.
    ticks: Option<Duration>,
    wake: Option<Timestamp>,
    /// How often the state file is read because it is not watched.
    file_poll: Option<Duration>,
    bound: Bound,
    last_write: Option<LastWrite>,
    leftovers: Vec<Leftover>,
    /// In [`Mode::Drive`]: how long attempts take.
    learning: Option<Learning>,
    /// Held while everything is interrupted for a redirect, so that the redirecting process sees it.
    standing: Option<Held>,
}

#[derive(Clone, Copy, Debug)]
struct LastWrite {
    ended: Instant,
    took: Duration,
}

impl std::fmt::Debug for Engine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl<'e> Engine<'e> {
    pub(crate) fn new(
        store: Store,
        mut coordinator: Coordinator,
        crew: Crew,
        inbox: Receiver<Message>,
        (mode, clock): (Mode, Clock),
        notify: &'e mut dyn FnMut(Notice<'_>),
    ) -> Engine<'e> {
        let bound = coordinator.bound();
        Engine {
            store,
            coordinator,
            crew,
            inbox,
            backlog: VecDeque::new(),
            notify,
            output: Output::default(),
            mode,
            clock,
            ticks: None,
            wake: None,
            file_poll: match mode {
                Mode::Drive => None,
                Mode::Step => Some(FILE_POLL),
            },
            bound,
            last_write: None,
            leftovers: Vec::new(),
            learning: None,
            standing: None,
        }
    }

    /// Drives the loop to its halt. The caller holds the driver's lock.
    pub(crate) fn run_until_halted(
        &mut self,
        begun: Event,
        ticks: Option<Duration>,
    ) -> Result<Certificate, RunError> {
        self.ticks = ticks;
        (self.notify)(Notice::Bound { bound: &self.bound });
        let (ground, cage, checks) = (self.crew.ground(), self.crew.cage(), self.crew.check_cage());
        (self.notify)(Notice::Ground { kind: ground.trees(), branch: ground.branch(), cage, checks });
        self.handle(vec![begun])?;
        loop {
            if let Some(certificate) = self.output.halted.take() {
                return Ok(certificate);
            }
            self.update_standing_lock();
            let events = self.next_events()?;
            self.handle(events)?;
        }
    }

    /// Handles the event and all that follows from it, until no thread of the crew is left.
    pub(crate) fn run_until_quiet(&mut self, event: Event) -> Result<(), RunError> {
        self.handle(vec![event])?;
        self.wait_until_quiet()
    }

    pub(crate) fn wait_until_quiet(&mut self) -> Result<(), RunError> {
        while !self.is_quiet() {
            let events = self.next_events()?;
            self.handle(events)?;
        }
        Ok(())
    }

    fn is_quiet(&mut self) -> bool {
        // In this order: a thread sends before it ends.
        let busy = self.crew.is_busy();
        self.backlog.extend(self.inbox.try_iter());
        !busy && self.backlog.is_empty()
    }

    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.show(Notice::note(text));
    }

    pub(crate) fn show(&mut self, notice: Notice<'_>) {
        (self.notify)(notice);
    }

    /// Kills what still runs and waits for it. What it worked with is still to be closed.
    pub(crate) fn end(mut self) -> (Output, Crew) {
        self.crew.kill_all();
        let began = Instant::now();
        while self.crew.is_busy() && began.elapsed() < CLEARING {
            match self.inbox.recv_timeout(CLEARING) {
                Ok(Message::Notice(notice @ Notice::Note { .. })) => (self.notify)(notice),
                Ok(Message::Event(Event::Landed { job, binding, .. })) => {
                    // The record says otherwise; the next run reverts the commit, or finds it.
                    let commit = binding.commit.unwrap_or_default();
                    self.note(format!("{:?} landed late: {commit}", job.task));
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        for message in self.inbox.try_iter() {
            if let Message::Notice(notice @ Notice::Note { .. }) = message {
                (self.notify)(notice);
            }
        }
        (self.output, self.crew)
    }

    pub(crate) fn close_trees(self) -> Output {
        let Engine { crew, notify, output, .. } = self;
        if let Err(error) = crew.close() {
            notify(Notice::note(format!("the trees could not be cleared: {error}")));
        }
        output
    }

    fn home(&self) -> &Home {
        self.store.file().home()
    }

    fn is_redirecting(&self) -> bool {
        self.coordinator.state().control.redirect_requested
    }

    /// Holds the standing lock while a redirect is under way and nothing of the crew runs.
    fn update_standing_lock(&mut self) {
        if !self.is_redirecting() {
            self.standing = None;
            return;
        }
        let idle = self.coordinator.running().is_empty() && !self.crew.is_busy();
        if idle && self.standing.is_none() {
            // Where locks fail, the redirecting process reports that this driver hangs.
            self.standing = Held::take_the(Lock::Standing, self.home(), "stands still", REDIRECT_POLL).ok();
        }
    }

    /// All events at hand, so that they are written in one go (D7); waits for the first.
    fn next_events(&mut self) -> Result<Vec<Event>, RunError> {
        let mut events = Vec::new();
        match self.next_message() {
            Some(message) => {
                if self.file_poll.is_some() {
                    self.read_file(&mut events)?;
                }
                self.receive(message, &mut events)?;
                self.receive_queued(&mut events)?;
            }
            None => self.idle(&mut events)?,
        }
        Ok(events)
    }

    /// The next message; `None` when it is time to look at the clock, the redirect and the file.
    fn next_message(&mut self) -> Option<Message> {
        if let Some(message) = self.backlog.pop_front() {
            return Some(message);
        }
        let until_wake = self.wake.map(|wake| self.clock.until(wake));
        let redirect_poll = self.is_redirecting().then_some(REDIRECT_POLL);
        let wait = [until_wake, redirect_poll, self.file_poll, self.ticks].into_iter().flatten().min();
        let message = match wait {
            Some(wait) => self.inbox.recv_timeout(wait),
            None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        message.ok()
    }

    fn idle(&mut self, events: &mut Vec<Event>) -> Result<(), RunError> {
        (self.notify)(Notice::Tick);
        if self.wake.is_some_and(|wake| wake <= self.clock.now()) {
            self.wake = None;
            events.push(Event::Woke);
        }
        let redirecting = self.is_redirecting();
        if redirecting || self.file_poll.is_some() {
            // In this order, so that a redirect that was just made is not taken for an abandoned one.
            let held = hold::holder(self.home()).is_some();
            self.read_file(events)?;
            if redirecting && !held && events.is_empty() {
                events.push(Event::RedirectAbandoned);
            }
        }
        Ok(())
    }

    fn receive(&mut self, message: Message, events: &mut Vec<Event>) -> Result<(), RunError> {
        match message {
            Message::Event(event) => {
                (self.notify)(Notice::Event { event: &event });
                events.push(event);
            }
            Message::Spent { usage, .. } => events.push(Event::Spent { usage }),
            Message::AgentRan { run, .. } => events.push(Event::AgentRan { run }),
            Message::Notice(notice) => (self.notify)(notice),
            Message::Evaluation { number, notice, event } => {
                if self.coordinator.verifying() == Some(number) {
                    if let Notice::Tampered { altered } = &notice {
                        self.output.altered = altered.clone();
                    }
                    (self.notify)(notice);
                    events.extend(event.map(|event| self.of_evaluation(event)));
                }
            }
            Message::CommitStays(leftover) => self.leftovers.push(leftover),
            Message::ThreadEnded => {}
            Message::FileChanged => self.read_file(events)?,
            Message::Unwatched(reason) => {
                self.file_poll = Some(FILE_POLL);
                self.note(format!("{reason}; it is looked at every second instead"));
            }
            Message::Interrupt => {
                self.output.interrupted = true;
                let reason = Some("interrupted".to_owned());
                events.push(Event::StopAsked { how: StopMode::Now, reason });
            }
        }
        Ok(())
    }

    fn receive_queued(&mut self, events: &mut Vec<Event>) -> Result<(), RunError> {
        while let Some(message) = self.backlog.pop_front().or_else(|| self.inbox.try_recv().ok()) {
            self.receive(message, events)?;
        }
        Ok(())
    }

    /// A step does not wait until a lost evaluation may be repeated: its checks cannot be run.
    fn of_evaluation(&self, event: Event) -> Event {
        match (self.mode, event) {
            (Mode::Step, Event::Verified { number, evaluation: Evaluation::Lost { reason }, usage }) => {
                let items = vec![RedCheck { item: "the evaluation".into(), kind: None, reason }];
                Event::Verified { number, evaluation: Evaluation::Error { items }, usage }
            }
            (Mode::Drive | Mode::Step, event) => event,
        }
    }

    /// Handles events and performs what follows, until nothing follows any more.
    fn handle(&mut self, mut events: Vec<Event>) -> Result<(), RunError> {
        while !events.is_empty() {
            let mut effects = Vec::new();
            let mut to_write = false;
            while !events.is_empty() {
                let urgent = events
                    .iter()
                    .any(|event| matches!(event, Event::StopAsked { .. } | Event::Edited { .. }));
                for event in events.drain(..) {
                    to_write |= self.handle_event(event, &mut effects);
                }
                if to_write && !urgent {
                    self.gather(&mut events)?;
                }
            }
            if to_write {
                let began = Instant::now();
                self.record(&mut events)?;
                self.last_write = Some(LastWrite { ended: Instant::now(), took: began.elapsed() });
            }
            self.crew.when_blocked(self.when_blocked());
            self.crew.interrupt(self.is_interrupted());
            self.crew.keep_verifying(self.coordinator.verifying());
            for effect in effects {
                self.perform(effect);
            }
            let coordinator = &self.coordinator;
            self.crew.forget_ended(|| coordinator.running());
            self.show_bound();
        }
        Ok(())
    }

    /// Collects the effects that wait for the write. Returns whether there is something to write.
    fn handle_event(&mut self, event: Event, effects: &mut Vec<Effect>) -> bool {
        let now = self.clock.now();
        self.learn_from_event(&event);
        let mut to_write = false;
        for effect in self.coordinator.on(event, now) {
            match effect {
                Effect::Record(changes) => {
                    (self.notify)(Notice::Recorded { changes: &changes, state: self.coordinator.state() });
                    self.learn(&changes, now);
                    self.store.queue(now, changes);
                    to_write = true;
                }
                // A landing for which nothing has to be written need not wait for the other events' writes.
                Effect::Land(job) if !to_write => self.crew.land(&job),
                effect => effects.push(effect),
            }
        }
        to_write
    }

    /// While one write follows the other, the next one waits for attempts that are about to end, so that it carries more.
    fn gather(&mut self, events: &mut Vec<Event>) -> Result<(), RunError> {
        let Some(LastWrite { ended, took }) = self.last_write else { return Ok(()) };
        let until = ended + (took * 2).min(LONGEST_GATHERING);
        while events.is_empty() && self.crew.is_busy() {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return Ok(()) };
            match self.inbox.recv_timeout(left) {
                Ok(message) => self.receive(message, events)?,
                Err(_) => return Ok(()),
            }
        }
        self.receive_queued(events)
    }

    /// A landing that waits for a person holds up neither a stop nor a redirect.
    fn when_blocked(&self) -> WhenBlocked {
        let control = &self.coordinator.state().control;
        match control.redirect_requested || control.stop_requested || self.coordinator.is_overspent() {
            true => WhenBlocked::GiveUp,
            false => WhenBlocked::Wait,
        }
    }

    /// Whether what runs is to end at once (D13). What is short is let through all the same, a landing above all.
    fn is_interrupted(&self) -> bool {
        let control = &self.coordinator.state().control;
        let stops_now = control.stop_requested && control.stop_now;
        control.redirect_requested || stops_now || self.coordinator.is_overspent()
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Record(_) => unreachable!("what is recorded comes first"),
            Effect::Start(job) => self.start(&job),
            Effect::Kill(job) => {
                self.crew.kill(&job, "it is not wanted any more");
                (self.notify)(Notice::Killed { job: &job });
            }
            Effect::Land(job) => self.crew.land(&job),
            Effect::Verify { number } => {
                (self.notify)(Notice::Verifying { number });
                self.evaluation_begins();
                self.crew.verify(number, without_graph(self.coordinator.state()));
            }
            Effect::Revert { atom, commit } => self.crew.revert(atom, commit),
            Effect::WakeAt(at) => self.wake = Some(at),
            Effect::Refuse(refusal) => self.output.refused = Some(refusal),
            Effect::Halt(certificate) => {
                let (state, interrupted) = (self.coordinator.state(), self.output.interrupted);
                (self.notify)(Notice::Halted { certificate: &certificate, state, interrupted });
                self.output.halted = Some(*certificate);
            }
        }
    }

    /// Writes the brief, since only the whole state has what belongs into it, and hands the job to its worker.
    fn start(&mut self, job: &Job) {
        let (state, graph) = (self.coordinator.state(), self.coordinator.graph());
        (self.notify)(Notice::Started { job: &job.id, state });
        let id = job.id.clone();
        let given = AttemptContext {
            findings: job.findings.as_deref(),
            returned: job.return_reason.as_deref(),
            left: &self.leftovers,
            submodules: self.crew.ground().submodules(),
            red: self.coordinator.red(),
        };
        let is_command = |atom: &AtomId| state.atoms.get(atom).is_some_and(|atom| atom.run.is_some());
        let (atom, brief) = match &id.task {
            Task::Replan => {
                let asked = ReplanRequest { why: job.why.clone(), refusals: job.refusals.clone() };
                let brief = brief::coordinator(state, graph, &asked);
                let state = without_graph(state);
                return self.crew.replan(PlanQuestion { job: id, brief, state, base: None });
            }
            // A command reads no brief.
            Task::Work(atom) | Task::Probe(atom) if is_command(atom) => (atom, Ok(None)),
            Task::Probe(atom) => (atom, brief::probe(state, graph, atom, given).map(Some)),
            Task::Work(atom) => (atom, brief::worker(state, graph, atom, given).map(Some)),
            Task::Check(atom) => (atom, Ok(None)),
        };
        let brief = match brief {
            Ok(brief) => brief,
            Err(refusal) => {
                let reason = format!("it could not be briefed: {refusal}");
                return self.ended_unstarted(id, JobOutcome::Lost { reason });
            }
        };
        let atom = state.atoms.get(atom).expect("only atoms of the state are started");
        let assignment = Assignment::of(id, atom, state, brief);
        match (self.mode, &assignment.job.task) {
            (Mode::Drive, _) | (Mode::Step, Task::Check(_)) => self.crew.start(assignment),
            (Mode::Step, _) => match assignment.brief {
                Some(brief) => self.hand_out(assignment.job, brief),
                None => self.output.command = Some(assignment),
            },
        }
    }

    /// Gives the host a tree and the brief for its worker.
    fn hand_out(&mut self, job: JobId, brief: Brief) {
        let Some(atom) = job.task.atom().cloned() else { return };
        match self.crew.lend(&job) {
            Ok(folder) => {
                let attempt = job.attempt;
                self.output.started = Some(Started { atom, attempt, folder, brief: brief.text });
            }
            Err(error) => {
                let outcome = JobOutcome::NotStarted { obstacle: Obstacle::World, reason: error.to_string() };
                self.ended_unstarted(job, outcome);
            }
        }
    }

    fn ended_unstarted(&mut self, job: JobId, outcome: JobOutcome) {
        let ended = Event::Ended { job, outcome, usage: Usage::default() };
        self.backlog.push_back(Message::Event(ended));
    }

    fn show_bound(&mut self) {
        let bound = self.coordinator.bound();
        if bound.agent_runs != self.bound.agent_runs {
            self.bound = bound;
            (self.notify)(Notice::Bound { bound: &self.bound });
        }
    }
}
