//! Tells the user what a loop comes to while nobody looks: it is done, it halted, it needs a person, it is parked. Reads the
//! engine's notices, remembers what was told, and leaves the telling to a process of its own. Decides nothing about the
//! loop, and the loop waits for none of it.

mod facts;
mod messenger;
mod told;
mod webhook;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aot_core::coordinator::JobId;
use aot_core::rules::Change;
use aot_core::rules::certificate::Certificate;
use aot_core::state::{LoopStatus, State, StopKind};
use jiff::{SignedDuration, Timestamp};

use crate::message::{Message, Notice};
use facts::Facts;
use messenger::{Errand, Errands, Problem};
use told::Told;

pub use messenger::{is_called, run};
pub use webhook::Webhook;

/// What carries a webhook's message.
pub const CURL: &str = "curl";

/// What shows a message on a desktop.
pub const DESKTOP: &str = if cfg!(target_os = "macos") { "osascript" } else { "notify-send" };

/// After its end the run waits so long for what tells of it.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// A shorter wait is soon over, and is not told.
const SHORTEST_PARKING: SignedDuration = SignedDuration::from_secs(10);

/// The exit code after an interrupt.
const INTERRUPTED: u8 = 130;

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NotifyEvent {
    /// The goal is proven done.
    Done,
    /// The loop ended in any other way that needs no person.
    Halt,
    /// A person is needed.
    Person,
    /// It waits for a limit or a network.
    Parked,
}

impl NotifyEvent {
    pub const ALL: [NotifyEvent; 4] =
        [NotifyEvent::Done, NotifyEvent::Halt, NotifyEvent::Person, NotifyEvent::Parked];

    pub fn word(self) -> &'static str {
        match self {
            NotifyEvent::Done => "done",
            NotifyEvent::Halt => "halt",
            NotifyEvent::Person => "person",
            NotifyEvent::Parked => "parked",
        }
    }

    /// The key in `aot.toml` of its command.
    pub fn key(self) -> &'static str {
        match self {
            NotifyEvent::Done => "on_done",
            NotifyEvent::Halt => "on_halt",
            NotifyEvent::Person => "on_person",
            NotifyEvent::Parked => "on_parked",
        }
    }

    fn of_halt(verdict: &StopKind) -> NotifyEvent {
        match verdict {
            StopKind::Completed => NotifyEvent::Done,
            StopKind::NeedsPerson => NotifyEvent::Person,
            StopKind::StoppedByHand
            | StopKind::RedirectInterrupted
            | StopKind::Tampered
            | StopKind::Exhausted { .. }
            | StopKind::Stalled
            | StopKind::IterationLimit
            | StopKind::Budget { .. }
            | StopKind::Deadlock { .. }
            | StopKind::NoAgent { .. } => NotifyEvent::Halt,
        }
    }
}

/// Who is told, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotifySettings {
    pub commands: BTreeMap<NotifyEvent, String>,
    pub webhook: Option<Webhook>,
    pub desktop: bool,
    pub bell: bool,
}

/// Where the loop is.
#[derive(Clone, Debug)]
pub struct NotifyPlace {
    /// This program.
    pub program: PathBuf,
    pub root: PathBuf,
    pub state: PathBuf,
    pub sidecar: PathBuf,
}

/// Tells of one run.
#[derive(Debug)]
pub struct Notifier {
    settings: NotifySettings,
    place: NotifyPlace,
    told: Told,
    goal: String,
    status: LoopStatus,
    iteration: u32,
    /// How often each blocked landing was reported.
    blocked: HashMap<JobId, u32>,
    problems: Arc<Mutex<Problems>>,
    under_way: usize,
    /// Hears of each messenger that has ended.
    ended: (Sender<()>, Receiver<()>),
}

/// Where it is said that something could not be told.
#[derive(Debug)]
struct Problems {
    /// Each way is complained of once in a run.
    known: HashSet<String>,
    /// The run that can say it, until it has halted.
    listening: Option<Sender<Message>>,
    late: Vec<String>,
}

impl Notifier {
    pub fn new(settings: NotifySettings, place: NotifyPlace, messages: Sender<Message>) -> Notifier {
        let told =
            if settings == NotifySettings::default() { Told::default() } else { Told::read(&place.sidecar) };
        let problems = Problems { known: HashSet::new(), listening: Some(messages), late: Vec::new() };
        Notifier {
            settings,
            place,
            told,
            goal: String::new(),
            status: LoopStatus::Pending,
            iteration: 0,
            blocked: HashMap::new(),
            problems: Arc::new(Mutex::new(problems)),
            under_way: 0,
            ended: channel(),
        }
    }

    /// A run begins on this state. Returns what is told of the run before it, if that one was killed between its halt and the
    /// telling. A stop by hand is known to whoever made it.
    pub fn begin(&mut self, state: &State) -> Option<Notice<'static>> {
        self.look(state);
        if self.is_silent() {
            return None;
        }
        let control = &state.control;
        let halted = match control.status {
            LoopStatus::Completed => Some(StopKind::Completed),
            LoopStatus::Stopped => {
                control.verdict.clone().filter(|verdict| *verdict != StopKind::StoppedByHand)
            }
            LoopStatus::Pending | LoopStatus::Running => None,
        };
        let is_same_loop = self.told.loop_id == control.loop_id;
        let missed = halted.filter(|verdict| {
            is_same_loop && self.told.under_way && !self.told.has_told(&told::halt_of(verdict, state))
        });
        if !is_same_loop {
            self.told = Told { loop_id: control.loop_id.clone(), ..Told::default() };
        }
        self.told.under_way = true;
        let notice = missed.and_then(|verdict| {
            self.told.halt = Some(told::halt_of(&verdict, state));
            self.keep();
            let reason = control.stop_reason.clone().unwrap_or_default();
            self.halted(&verdict, &reason, verdict.exit(), state)
        });
        self.keep();
        notice
    }

    /// What a notice of the engine's is worth.
    pub fn hear(&mut self, notice: &Notice<'_>) -> Option<Notice<'static>> {
        if self.is_silent() {
            return None;
        }
        match notice {
            Notice::Recorded { changes, state } => {
                self.look(state);
                self.recorded(changes, state)
            }
            Notice::Edited { state } => {
                self.look(state);
                None
            }
            Notice::Halted { certificate, state, interrupted } => {
                self.look(state);
                let Certificate { verdict, reason, exit, .. } = certificate;
                let halt = told::halt_of(verdict, state);
                let is_known = self.told.has_told(&halt);
                (self.told.halt, self.told.under_way) = (Some(halt), false);
                // Before anything is started: whoever is killed in between has told it.
                self.keep();
                let exit = if *interrupted { INTERRUPTED } else { *exit };
                (!is_known).then(|| self.halted(verdict, reason, exit, state)).flatten()
            }
            Notice::Waiting { job, waiting } => {
                let times = self.blocked.entry(job.clone()).or_default();
                *times += 1;
                // A lock of another program is gone in a moment, and is told when it still stands at the second report.
                let wanted = if waiting.paths.is_empty() { 2 } else { 1 };
                if *times != wanted {
                    return None;
                }
                let who = job.task.atom().map_or_else(String::new, |atom| format!("{atom} "));
                let reason = match &waiting.paths[..] {
                    [] => format!("{who}is done, and waits to land: {}", waiting.reason),
                    paths => {
                        format!("{who}is done, and lands when you commit or undo {}", paths.join(", "))
                    }
                };
                let facts = self.facts(NotifyEvent::Person, &reason);
                self.tell(NotifyEvent::Person, facts)
            }
            Notice::Ground { .. }
            | Notice::Started { .. }
            | Notice::Killed { .. }
            | Notice::Event { .. }
            | Notice::Doing { .. }
            | Notice::ToolFailed { .. }
            | Notice::Mends { .. }
            | Notice::AgentEnded { .. }
            | Notice::Verifying { .. }
            | Notice::Checked { .. }
            | Notice::Verified { .. }
            | Notice::Tampered { .. }
            | Notice::Note { .. }
            | Notice::Hosts { .. }
            | Notice::Bound { .. }
            | Notice::Notified { .. }
            | Notice::Tick => None,
        }
    }

    /// The run ended without a halt.
    pub fn broken(&mut self, problem: &str) -> Option<Notice<'static>> {
        if self.is_silent() {
            return None;
        }
        self.told.under_way = false;
        self.keep();
        let facts = self.facts(NotifyEvent::Halt, problem);
        self.tell(NotifyEvent::Halt, facts)
    }

    /// Waits a moment for what is under way, and leaves it to itself if it takes longer. Returns what went wrong.
    pub fn finish(&mut self) -> Vec<String> {
        let until = Instant::now() + LAST_WAIT;
        while self.under_way > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if self.ended.1.recv_timeout(left).is_err() {
                break;
            }
            self.under_way -= 1;
        }
        let mut problems = locked(&self.problems);
        problems.listening = None;
        std::mem::take(&mut problems.late)
    }

    fn is_silent(&self) -> bool {
        self.settings == NotifySettings::default()
    }

    fn look(&mut self, state: &State) {
        if self.goal != state.objective.goal {
            self.goal.clone_from(&state.objective.goal);
        }
        (self.status, self.iteration) = (state.control.status, state.control.iteration);
    }

    /// A parking is told once, however often it is made longer, until something has worked again.
    fn recorded(&mut self, changes: &[Change], state: &State) -> Option<Notice<'static>> {
        let works = |change: &Change| {
            matches!(
                change,
                Change::ResultCounted
                    | Change::AtomResolved { .. }
                    | Change::FailureNoted { .. }
                    | Change::Verified { .. }
            )
        };
        let parked = changes.iter().rev().find_map(|change| {
            let Change::Parked { until, reason } = change else { return None };
            Some((until.at(), reason.clone()))
        });
        match parked {
            Some((until, reason)) if !self.told.parked => {
                if Timestamp::now().duration_until(until) < SHORTEST_PARKING {
                    return None;
                }
                self.told.parked = true;
                self.keep();
                let mut facts = self.facts(NotifyEvent::Parked, &reason.unwrap_or_default());
                facts.until = Some(until.to_string());
                facts.count(state);
                self.tell(NotifyEvent::Parked, facts)
            }
            Some(_) => None,
            None => {
                if self.told.parked && state.control.parked_until.is_none() && changes.iter().any(works) {
                    self.told.parked = false;
                    self.keep();
                }
                None
            }
        }
    }

    fn halted(
        &mut self,
        verdict: &StopKind,
        reason: &str,
        exit: u8,
        state: &State,
    ) -> Option<Notice<'static>> {
        let event = NotifyEvent::of_halt(verdict);
        let mut facts = self.facts(event, reason);
        facts.set_verdict(verdict, exit);
        facts.count(state);
        self.tell(event, facts)
    }

    fn facts(&self, event: NotifyEvent, reason: &str) -> Facts {
        let mut facts = Facts::new(event, &self.goal, reason);
        facts.status = self.status;
        facts.iteration = self.iteration;
        facts.state = self.place.state.display().to_string();
        facts.project = self.place.root.display().to_string();
        facts
    }

    /// Without the mark, which is on a full disk, it may be told once more.
    fn keep(&self) {
        let _ = self.told.write(&self.place.sidecar);
    }

    /// Starts what tells it, and goes on.
    fn tell(&mut self, event: NotifyEvent, facts: Facts) -> Option<Notice<'static>> {
        let command = self.settings.commands.get(&event);
        let command =
            command.map(|command| Errand::Command { key: event.key().into(), command: command.clone() });
        let webhook = self.settings.webhook.clone().map(|webhook| Errand::Webhook { webhook });
        let desktop = self
            .settings
            .desktop
            .then(|| Errand::Desktop { title: format!("aot: {}", event.word()), text: facts.line() });
        let errands: Vec<Errand> = [command, webhook, desktop].into_iter().flatten().collect();
        if errands.is_empty() && !self.settings.bell {
            return None;
        }
        if !errands.is_empty() {
            let environment = facts.variables();
            let message = facts.json();
            let all = Errands {
                program: self.place.program.clone(),
                folder: self.place.root.clone(),
                environment,
                message,
                errands,
            };
            self.send(&all);
        }
        Some(Notice::Notified { event, rings: self.settings.bell })
    }

    fn send(&mut self, errands: &Errands) {
        let (problems, ended) = (Arc::clone(&self.problems), self.ended.0.clone());
        let hear = move |problem: Problem| locked(&problems).add(&problem.way, problem.said);
        let started = messenger::start(errands, hear, move || {
            // Nobody waits for it any more.
            let _ = ended.send(());
        });
        match started {
            Ok(()) => self.under_way += 1,
            Err(error) => locked(&self.problems).add("all", format!("no notification can be sent: {error}")),
        }
    }
}

impl Problems {
    fn add(&mut self, way: &str, said: String) {
        if !self.known.insert(way.to_owned()) {
            return;
        }
        let message = Message::Notice(Notice::Note { text: said.clone() });
        if self.listening.as_ref().is_none_or(|run| run.send(message).is_err()) {
            self.late.push(said);
        }
    }
}

/// A thread that panicked in between has left nothing half done.
fn locked(problems: &Mutex<Problems>) -> std::sync::MutexGuard<'_, Problems> {
    problems.lock().unwrap_or_else(PoisonError::into_inner)
}

type Variables = Vec<(String, String)>;

/// The variables that a command sees: all of ours, and the facts.
fn environment(facts: &Variables) -> Vec<(OsString, OsString)> {
    std::env::vars_os().chain(facts.iter().map(|(name, value)| (name.into(), value.into()))).collect()
}
