//! A host's session takes the loop step by step: one process for each event, the same coordinator, the same ground and
//! the same eyes as in a run. In flight is what stands in progress; its trees outlive the process that lent them.
//! Decides nothing, has no terminal.

mod memory;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use aot_core::brief::{self, AttemptContext};
use aot_core::coordinator::{
    Agents, CheckOutcome, Coordinator, Dispatch, Effect, Evaluation, Event, Job, JobId, OnRefusedStart,
    Outcome, Presence, RedirectLock, Settings, StopMode, Task, Trees, Usage,
};
use aot_core::hook::{Instruction, TurnReport, tree_of};
use aot_core::rules::certificate::{Certificate, RedCheck};
use aot_core::rules::gate::gate;
use aot_core::rules::{Change, Refusal};
use aot_core::state::{AtomId, AtomStatus, Binding, LoopStatus, State, Verdict};
use jiff::Timestamp;

pub use memory::SessionMemory;

use crate::checks::seal::{Altered, Seal};
use crate::crew::{Assignment, Crew, Message, RunConfig, Said, WhenBlocked, excerpt, tampered, weighed};
use crate::driver;
use crate::shell::RunError;
use crate::store::hold;
use crate::store::lock::{Held, Lock};
use crate::store::{Foreign, Store, StoreError};
use crate::tree::{End, Entry, Ground, Kind, Lent, Project, Work};

/// A step waits so long for another one of the same session, which may run a check.
const STEP_WAIT: Duration = Duration::from_secs(30 * 60);

/// So often it is looked whether somebody else wrote.
const LOOK: Duration = Duration::from_millis(200);

const UNWANTED: &str = "it is not wanted any more";

/// A landing that waits for a person's edits gives up after so long.
const LANDING_PATIENCE: Duration = Duration::from_secs(30);

/// A result is refused so often before it counts as what it is: a failure, or a check that cannot run.
pub const REFUSALS: u32 = 3;

/// A worker of the host may begin.
#[derive(Clone, Debug)]
pub struct Started {
    pub atom: AtomId,
    pub attempt: u32,
    /// The project's folder in the tree that it works in.
    pub folder: std::path::PathBuf,
    pub brief: String,
}

/// What a step came to.
#[derive(Debug, Default)]
pub struct StepReport {
    pub changes: Vec<Change>,
    pub started: Option<Started>,
    /// The rules said no; nothing was changed.
    pub refused: Option<Refusal>,
    /// The result was not taken: its check did not pass.
    pub unproven: Option<Unproven>,
    pub halted: Option<Certificate>,
    pub seen: TurnReport,
    pub altered: Vec<Altered>,
    /// What the coordinator does next, if the loop goes on.
    pub next: Option<Instruction>,
}

/// A result that the program did not see proven.
#[derive(Clone, Debug)]
pub struct Unproven {
    pub check: CheckOutcome,
    /// How often it may still be handed in; with none left it was taken for what it is.
    pub left: u32,
}

/// One process of a session, with the loop in its hands.
pub struct Step {
    store: Store,
    project: Project,
    crew: Crew,
    inbox: Receiver<Message>,
    /// Whose step it is.
    session: String,
    came: StepReport,
    /// A command that solves what was started.
    command: Option<Assignment>,
    turn: Option<Held>,
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step").field("project", &self.project).finish_non_exhaustive()
    }
}

/// Takes the loop for a session, from the beginning, after a stop or from a session that is gone.
pub fn begin(mut store: Store, config: RunConfig, session: &str) -> Result<StepReport, RunError> {
    let state = store.load::<Refusal>()?.1;
    let own = state.control.session.as_deref() == Some(session);
    if own
        && state.control.status == LoopStatus::Running
        && SessionMemory::of(&config.project.sidecar, session).begun
    {
        return go_on(store, config);
    }
    let turn = take_turn(&store)?;
    let loop_id = driver::name(&mut store, &driver::Asked::default())?;
    let taken = store.change("take the loop for a session", Timestamp::now(), |ledger| {
        if ledger.state().control.session.as_deref() != Some(session) {
            ledger.record(Change::SessionTaken { session: Some(session.to_owned()) });
        }
        Ok::<(), Refusal>(())
    });
    taken.map_err(|error: StoreError<Refusal>| RunError::Store(error))?;
    let state = store.load::<Refusal>()?.1.clone();
    let wanted = || driver::wanted(&state, &loop_id);
    // What a session that is gone had under its hands is kept for a week.
    if let Ok(left) = Ground::enter(&config.project, wanted(), &config.guard, &config.shell, Entry::Again) {
        for lent in left.lent_besides(&[]) {
            // What cannot be kept is cleared all the same.
            let _ = left.give_back(lent, End::Failed { reason: "its session is gone".into() });
        }
    }
    let ground = Ground::enter(&config.project, wanted(), &config.guard, &config.shell, Entry::Session)?;
    let found = driver::found(&ground, &state)?;
    let seal = Seal::of(&state.objective, &ground.verify_root()?)
        .map_err(|error| RunError::World(format!("the protected files cannot be read: {error}")))?;
    if state.control.fingerprint.is_none() {
        seal.keep(&config.project).map_err(|error| {
            RunError::World(format!("the list of protected files could not be kept: {error}"))
        })?;
    }
    let redirect = match hold::holder(store.file().home()) {
        Some(_) => RedirectLock::Held,
        None => RedirectLock::Free,
    };
    let was_running = state.control.status == LoopStatus::Running;
    SessionMemory::change(&config.project.sidecar, session, |note| {
        note.seat(None);
        // What was started counts on as long as the same turn does.
        let started = if was_running && note.running { note.started } else { 0 };
        let (replaced, trees) = (std::mem::take(&mut note.replaced), std::mem::take(&mut note.trees));
        *note = SessionMemory {
            session: session.to_owned(),
            begun: true,
            replaced,
            trees,
            started,
            ..SessionMemory::default()
        };
    });
    let mut step = Step::with(store, config, ground, loop_id, session.to_owned(), Some(turn));
    let mut coordinator = Coordinator::resume(gate(state)?, step.settings(), Timestamp::now());
    step.play(
        &mut coordinator,
        Event::Begun { unrecorded: found, fingerprint: Some(seal.fingerprint()), redirect },
    )?;
    step.end(&coordinator)
}

/// The session has it already: nothing begins anew, and what is in progress stays so. Trees that a redirect took away are
/// given back.
fn go_on(store: Store, config: RunConfig) -> Result<StepReport, RunError> {
    let mut step = Step::enter(store, config)?;
    let coordinator = step.coordinator()?;
    let work = |job: JobId| Some(Work { atom: job.task.atom()?.clone(), attempt: job.attempt });
    let wanted: Vec<Work> = coordinator.running().into_iter().filter_map(work).collect();
    for lent in step.crew.ground().lent_besides(&wanted) {
        step.give_back(lent, UNWANTED);
    }
    step.remember(|note| note.seat(None));
    step.end(&coordinator)
}

/// Somebody wants to work on an atom.
pub fn start(store: Store, config: RunConfig, atom: &AtomId) -> Result<StepReport, RunError> {
    let mut step = Step::enter(store, config)?;
    let mut coordinator = step.coordinator()?;
    step.play(&mut coordinator, Event::StartAsked { atom: atom.clone() })?;
    let Some(assignment) = step.command.take() else { return step.end(&coordinator) };
    // What is solved by a command is solved here, and others need not wait for it.
    let job = assignment.job.clone();
    step.turn = None;
    step.crew.start(assignment);
    let (outcome, usage) = step.ended(&job);
    step.take_in(&job, outcome, usage)
}

/// Somebody says that an atom is done. It is looked at before the others have to wait.
pub fn resolve(
    mut store: Store,
    config: RunConfig,
    atom: &AtomId,
    binding: Binding,
) -> Result<StepReport, RunError> {
    let state = store.load::<Refusal>()?.1.clone();
    let assignment = match order(&state, atom) {
        Ok(assignment) => assignment,
        Err(refusal) => return Ok(StepReport { refused: Some(refusal), ..StepReport::default() }),
    };
    let job = assignment.job.clone();
    let work = Work { atom: atom.clone(), attempt: job.attempt };
    let mut step = Step::at(store, config, Entry::Again)?;
    let (outcome, usage) = match step.crew.ground().lent_before(&work) {
        Some(lent) => {
            step.crew.hand_in(assignment, lent, binding);
            step.ended(&job)
        }
        None => (Outcome::Lost { reason: "its tree is gone".into() }, Usage::default()),
    };
    let unproven = match &outcome {
        Outcome::Done { check: CheckOutcome::None | CheckOutcome::Pass, .. } => None,
        Outcome::Done { check, .. } => Some(check.clone()),
        _ => None,
    };
    if let Some(check) = unproven {
        let name = tree_of(atom, job.attempt);
        let count = step.remember(|note| SessionMemory::count(&mut note.refused, &name));
        let left = REFUSALS.saturating_sub(count);
        step.came.unproven = Some(Unproven { check, left });
        if left > 0 && step.is_wanted(&job) {
            step.take_turn()?;
            let coordinator = step.coordinator()?;
            return step.end(&coordinator);
        }
    }
    step.take_in(&job, outcome, usage)
}

/// Somebody gives an atom up: what was done is discarded, and the loop goes another way.
pub fn fail(
    store: Store,
    config: RunConfig,
    atom: &AtomId,
    outcome: Outcome,
) -> Result<StepReport, RunError> {
    let mut step = Step::enter(store, config)?;
    let mut coordinator = step.coordinator()?;
    let assignment = match order(coordinator.state(), atom) {
        Ok(assignment) => assignment,
        Err(refusal) => {
            step.came.refused = Some(refusal);
            return step.end(&coordinator);
        }
    };
    let work = Work { atom: atom.clone(), attempt: assignment.job.attempt };
    let reason = reason_of(&outcome).unwrap_or_default();
    step.play(&mut coordinator, Event::Ended { job: assignment.job, outcome, usage: Usage::default() })?;
    step.discard(&work, &reason);
    step.end(&coordinator)
}

/// Whoever coordinated has ended the turn: what is still in progress is nobody's, the iteration is closed and judged.
pub fn turn_ended(store: Store, config: RunConfig) -> Result<StepReport, RunError> {
    let mut step = Step::enter(store, config)?;
    let mut coordinator = step.coordinator()?;
    if coordinator.state().control.redirect_requested {
        // Everything is interrupted, and nothing is judged; what nobody holds ends the loop (D16).
        let held = hold::holder(step.store.file().home()).is_some();
        step.play(&mut coordinator, if held { Event::Woke } else { Event::RedirectAbandoned })?;
        return step.end(&coordinator);
    }
    for job in coordinator.running() {
        let reason = "its worker's turn ended without a result".to_owned();
        let atom = job.task.atom().cloned();
        let attempt = job.attempt;
        let outcome = Outcome::Lost { reason: reason.clone() };
        step.play(&mut coordinator, Event::Ended { job, outcome, usage: Usage::default() })?;
        if let Some(atom) = atom {
            step.discard(&Work { atom, attempt }, &reason);
        }
    }
    step.play(&mut coordinator, Event::TurnEnded)?;
    step.remember(|note| {
        note.started = 0;
        note.sent_back = false;
    });
    step.end(&coordinator)
}

/// The loop is to stop.
pub fn stop(
    store: Store,
    config: RunConfig,
    how: StopMode,
    reason: Option<String>,
) -> Result<StepReport, RunError> {
    let mut step = Step::enter(store, config)?;
    let mut coordinator = step.coordinator()?;
    step.play(&mut coordinator, Event::StopAsked { how, reason })?;
    step.end(&coordinator)
}

/// The session is over: the loop is nobody's, and a redirect that it held is abandoned (D16).
pub fn leave(store: &mut Store, session: &str) -> Result<(), StoreError<Refusal>> {
    let home = store.file().home().clone();
    store.change("leave the loop", Timestamp::now(), |ledger| {
        let control = &ledger.state().control;
        if control.session.as_deref() != Some(session) {
            return Ok(());
        }
        let redirecting = control.redirect_requested;
        let running = control.status == LoopStatus::Running;
        ledger.record(Change::SessionTaken { session: None });
        if redirecting {
            ledger.record(Change::RedirectEnded);
            if running {
                let verdict = Some(Verdict::RedirectInterrupted);
                ledger.record(Change::Stopped { reason: "redirect interrupted".into(), verdict });
            }
        }
        Ok::<(), Refusal>(())
    })?;
    hold::forget(&home)?;
    Ok(())
}

/// The brief of an atom in progress, and where its worker works.
pub fn brief_of(
    store: &mut Store,
    config: RunConfig,
    atom: &AtomId,
) -> Result<Result<Started, Refusal>, RunError> {
    let state = store.load::<Refusal>()?.1.clone();
    let assignment = match order(&state, atom) {
        Ok(assignment) => assignment,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let loop_id = state.control.loop_id.clone().unwrap_or_default();
    let wanted = driver::wanted(&state, &loop_id);
    let ground = Ground::enter(&config.project, wanted, &config.guard, &config.shell, Entry::Again)?;
    let work = Work { atom: atom.clone(), attempt: assignment.job.attempt };
    let Some(lent) = ground.lent_before(&work) else {
        return Err(RunError::World(format!(
            "the tree of {atom} is gone; `aot atom fail {atom}` gives it up"
        )));
    };
    let graph = aot_core::state::Graph::new(&state);
    let brief = match brief::worker(&state, &graph, atom, AttemptContext::default()) {
        Ok(brief) => brief.text,
        Err(refusal) => return Ok(Err(refusal)),
    };
    Ok(Ok(Started { atom: atom.clone(), attempt: work.attempt, folder: lent.root().to_path_buf(), brief }))
}

/// The job of an atom in progress.
fn order(state: &State, atom: &AtomId) -> Result<Assignment, Refusal> {
    let found = state.atoms.get(atom).ok_or_else(|| Refusal::UnknownAtom(atom.clone()))?;
    if found.status != AtomStatus::InProgress {
        let (is, wanted) = (found.status, AtomStatus::InProgress);
        return Err(Refusal::WrongStatus { atom: atom.clone(), is, wanted });
    }
    let attempt = state.control.attempts.get(atom).copied().unwrap_or(0);
    Ok(Assignment::of(JobId { task: Task::Work(atom.clone()), attempt }, found, state, None))
}

fn reason_of(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Done { check: CheckOutcome::None | CheckOutcome::Pass, .. } | Outcome::Probed { .. } => None,
        Outcome::Done {
            check:
                CheckOutcome::Fail { reason } | CheckOutcome::Error { reason } | CheckOutcome::Pending { reason },
            ..
        }
        | Outcome::Failed { reason }
        | Outcome::TooLarge { reason }
        | Outcome::Refused { reason, .. }
        | Outcome::NotLoggedIn { reason }
        | Outcome::Lost { reason } => Some(reason.clone()),
    }
}

fn take_turn(store: &Store) -> Result<Held, RunError> {
    Ok(Held::take_the(Lock::Stepping, store.file().home(), "takes a step of a session", STEP_WAIT)?)
}

impl Step {
    /// With the loop in hand: nobody else takes a step meanwhile.
    fn enter(store: Store, config: RunConfig) -> Result<Step, RunError> {
        let mut step = Step::at(store, config, Entry::Again)?;
        step.take_turn()?;
        Ok(step)
    }

    fn at(mut store: Store, config: RunConfig, entry: Entry) -> Result<Step, RunError> {
        let state = store.load::<Refusal>()?.1.clone();
        let loop_id = state.control.loop_id.clone().unwrap_or_default();
        let wanted = driver::wanted(&state, &loop_id);
        let ground = Ground::enter(&config.project, wanted, &config.guard, &config.shell, entry)?;
        let session = state.control.session.clone().unwrap_or_default();
        Ok(Step::with(store, config, ground, loop_id, session, None))
    }

    fn with(
        store: Store,
        config: RunConfig,
        ground: Ground,
        loop_id: String,
        session: String,
        turn: Option<Held>,
    ) -> Step {
        let project = config.project.clone();
        let (words, inbox) = channel();
        let crew = Crew::new(config, ground, loop_id, words);
        Step { store, project, crew, inbox, session, came: StepReport::default(), command: None, turn }
    }

    fn take_turn(&mut self) -> Result<(), RunError> {
        self.turn = Some(take_turn(&self.store)?);
        Ok(())
    }

    fn remember<T>(&self, change: impl FnOnce(&mut SessionMemory) -> T) -> T {
        SessionMemory::change(&self.project.sidecar, &self.session, change)
    }

    fn settings(&self) -> Settings {
        Settings {
            // The host's agents are there; when to look before working is whoever coordinates told, not made.
            agents: Agents {
                worker: Presence::Available,
                probe: Presence::Absent,
                coordinator: Presence::Available,
            },
            dispatch: Dispatch::OnRequest,
            trees: match self.crew.ground().trees() {
                Kind::Worktrees | Kind::Unisolated => Trees::Separate,
                Kind::InPlace => Trees::Shared,
            },
            on_refused_start: OnRefusedStart::Park,
        }
    }

    /// The loop as the file shows it now.
    fn coordinator(&mut self) -> Result<Coordinator, RunError> {
        let state = self.store.load::<Refusal>()?.1.clone();
        let now = Timestamp::now();
        let note = SessionMemory::of(&self.project.sidecar, &self.session);
        let counted = note.counted.filter(|counted| *counted <= now).unwrap_or(now);
        let typed = note.left_running() && state.control.status == LoopStatus::Completed;
        if !typed {
            return Ok(Coordinator::resume(gate(state)?, self.settings(), counted));
        }
        // Only the program completes a loop, and it did not: somebody typed it, and it is not believed.
        let mut before = state.clone();
        before.control.status = LoopStatus::Running;
        let mut coordinator = Coordinator::resume(gate(before)?, self.settings(), counted);
        self.came.seen.notes.push("`completed` was typed into the state file; it is not believed".into());
        self.play(&mut coordinator, Event::Edited { state: Box::new(state) })?;
        Ok(coordinator)
    }

    /// How an attempt ended, told to the loop as it stands now.
    fn take_in(mut self, job: &JobId, outcome: Outcome, usage: Usage) -> Result<StepReport, RunError> {
        self.take_turn()?;
        let mut coordinator = self.coordinator()?;
        let Some(atom) = job.task.atom() else { return self.end(&coordinator) };
        let work = Work { atom: atom.clone(), attempt: job.attempt };
        if !coordinator.running().contains(job) {
            // Somebody took it away meanwhile: a redirect, a stop, a switch.
            self.discard(&work, UNWANTED);
            let is = coordinator.state().atoms.get(atom).map_or(AtomStatus::Pending, |atom| atom.status);
            let wanted = AtomStatus::InProgress;
            self.came.refused = Some(Refusal::WrongStatus { atom: atom.clone(), is, wanted });
            return self.end(&coordinator);
        }
        let reason = reason_of(&outcome);
        if let Some(reason) = &reason {
            self.came.seen.notes.push(format!("{atom}: {reason}"));
        }
        self.play(&mut coordinator, Event::Ended { job: job.clone(), outcome, usage })?;
        if let Some(reason) = reason {
            self.discard(&work, &reason);
        }
        self.end(&coordinator)
    }

    /// Takes an event in and performs what follows, until nothing follows any more.
    fn play(&mut self, coordinator: &mut Coordinator, event: Event) -> Result<(), RunError> {
        let mut events = VecDeque::from([event]);
        loop {
            while let Some(event) = events.pop_front() {
                let now = Timestamp::now();
                for effect in coordinator.on(event, now) {
                    events.extend(self.perform(coordinator, effect, now)?);
                }
            }
            let Some(event) = self.hear(coordinator) else { return Ok(()) };
            // What somebody wrote meanwhile comes first: a redirect does not wait for a check.
            events.extend(self.edited(coordinator)?);
            events.push_back(event);
        }
    }

    /// The state, if it is another one than the coordinator's by somebody else's hand.
    fn edited(&mut self, coordinator: &Coordinator) -> Result<Option<Event>, RunError> {
        if matches!(self.store.look::<Refusal>(), Ok(Foreign::None)) {
            return Ok(None);
        }
        let state = Box::new(self.store.load::<Refusal>()?.1.clone());
        let was = coordinator.state().control.redirect_requested;
        Ok(Some(match was && !state.control.redirect_requested {
            true => Event::Redirected { state },
            false => Event::Edited { state },
        }))
    }

    /// Whether an attempt is still one that the loop waits for.
    fn is_wanted(&mut self, job: &JobId) -> bool {
        let Ok((_, state)) = self.store.load::<Refusal>() else { return true };
        let redirecting = state.control.redirect_requested;
        let found = job.task.atom().and_then(|atom| order(state, atom).ok());
        !redirecting && found.is_some_and(|assignment| assignment.job == *job)
    }

    fn perform(
        &mut self,
        coordinator: &Coordinator,
        effect: Effect,
        now: Timestamp,
    ) -> Result<Option<Event>, RunError> {
        match effect {
            Effect::Record(changes) => self.record(changes, now)?,
            Effect::Start(job) => return Ok(self.start(coordinator, &job)),
            Effect::Kill(job) => {
                if let Some(atom) = job.task.atom() {
                    self.discard(&Work { atom: atom.clone(), attempt: job.attempt }, UNWANTED);
                }
            }
            Effect::Land(job) => self.crew.land(&job),
            Effect::Verify { number } => self.crew.verify(number, excerpt(coordinator.state())),
            Effect::Revert { atom, commit } => self.crew.revert(atom, commit),
            // The next event comes when the host wants; time is looked at then.
            Effect::WakeAt(_) => {}
            Effect::Refuse(refusal) => self.came.refused = Some(refusal),
            Effect::Halt(certificate) => self.came.halted = Some(*certificate),
        }
        Ok(None)
    }

    fn record(&mut self, changes: Vec<Change>, now: Timestamp) -> Result<(), RunError> {
        if changes.iter().any(|change| matches!(change, Change::SpentSoFar { .. } | Change::LoopStarted)) {
            self.remember(|note| note.counted = Some(now));
        }
        self.store.queue(now, changes.clone());
        let recorded = self.store.flush(now).map_err(|error| match error {
            StoreError::File(error) => RunError::from(error),
            StoreError::Unreadable(unreadable) => RunError::Store(StoreError::Unreadable(unreadable)),
            StoreError::Conflict { why, kept } => RunError::Store(StoreError::Conflict { why, kept }),
            other => RunError::NotWritten(other.to_string()),
        })?;
        self.came.seen.notes.extend(recorded.notes.iter().map(ToString::to_string));
        self.came.changes.extend(changes);
        Ok(())
    }

    /// An agent's work is handed to the host, with a tree; a command or a check is done here and now.
    fn start(&mut self, coordinator: &Coordinator, job: &Job) -> Option<Event> {
        let (state, graph) = (coordinator.state(), coordinator.graph());
        let id = job.id.task.atom()?;
        let atom = state.atoms.get(id)?;
        if atom.run.is_some() && matches!(job.id.task, Task::Work(_)) {
            self.command = Some(Assignment::of(job.id.clone(), atom, state, None));
            return None;
        }
        if matches!(job.id.task, Task::Check(_)) {
            self.crew.start(Assignment::of(job.id.clone(), atom, state, None));
            return None;
        }
        let work = Work { atom: id.clone(), attempt: job.id.attempt };
        let given = AttemptContext { findings: None, returned: job.return_reason.as_deref(), left: &[] };
        let lent = self.crew.ground().lend(&work).map_err(|error| error.to_string());
        let brief = brief::worker(state, graph, id, given).map_err(|refusal| refusal.to_string());
        match (lent, brief) {
            (Ok(lent), Ok(brief)) => {
                let folder = lent.root().to_path_buf();
                let (atom, attempt) = (id.clone(), job.id.attempt);
                self.came.started = Some(Started { atom, attempt, folder, brief: brief.text });
                None
            }
            (Err(reason), _) | (_, Err(reason)) => {
                self.came.seen.notes.push(format!("{id} could not be started: {reason}"));
                let outcome = Outcome::Lost { reason };
                Some(Event::Ended { job: job.id.clone(), outcome, usage: Usage::default() })
            }
        }
    }

    /// The next event of what was begun here; `None` when nothing is under way any more.
    fn hear(&mut self, coordinator: &Coordinator) -> Option<Event> {
        let began = Instant::now();
        loop {
            let word = match self.inbox.try_recv() {
                Ok(word) => word,
                Err(_) if !self.crew.is_busy() => self.inbox.try_recv().ok()?,
                Err(_) => match self.inbox.recv_timeout(LOOK) {
                    Ok(word) => word,
                    Err(RecvTimeoutError::Timeout) => {
                        if began.elapsed() > LANDING_PATIENCE {
                            self.crew.when_blocked(WhenBlocked::GiveUp);
                        }
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => return None,
                },
            };
            if let Some(event) = self.event(coordinator, word) {
                return Some(event);
            }
        }
    }

    fn event(&mut self, coordinator: &Coordinator, word: Message) -> Option<Event> {
        match word {
            Message::Ended { job, outcome, usage } => {
                if let Some(reason) = reason_of(&outcome) {
                    let atom = job.task.atom().map_or("it", AtomId::as_str);
                    self.came.seen.notes.push(format!("{atom}: {reason}"));
                }
                Some(Event::Ended { job, outcome, usage })
            }
            Message::Landed { job, binding, usage } => Some(Event::Landed { job, binding, usage }),
            Message::Conflict { job, reason, usage } => {
                let atom = job.task.atom().map_or("it", AtomId::as_str);
                self.came.seen.notes.push(format!("{atom} did not land and is pending again: {reason}"));
                Some(Event::Conflict { job, reason, usage })
            }
            Message::Replanned { job, answer, usage } => Some(Event::Replanned { job, answer, usage }),
            Message::Spent { usage } => Some(Event::Spent { usage }),
            Message::Verified { number, said } if coordinator.verifying() == Some(number) => {
                Some(self.verified(number, said))
            }
            Message::Stays { atom, commit } => {
                self.came
                    .seen
                    .notes
                    .push(format!("the commit {commit} of {atom}, which is open again, stays"));
                None
            }
            Message::Note(text) => {
                self.came.seen.notes.push(text);
                None
            }
            Message::Verified { .. }
            | Message::Doing { .. }
            | Message::Asked { .. }
            | Message::Judged { .. }
            | Message::Waiting { .. }
            | Message::Checked { .. }
            | Message::Left
            | Message::FileChanged
            | Message::Blind(_)
            | Message::Interrupt => None,
        }
    }

    fn verified(&mut self, number: u32, said: Said) -> Event {
        let (evaluation, usage) = match said {
            Said::Lost(reason) => {
                // Asked for again at once it would be lost again: the check cannot be run.
                let items = vec![RedCheck { item: "the evaluation".into(), reason }];
                (Evaluation::Error { items }, Usage::default())
            }
            Said::Tampered(altered) => {
                let what = tampered(&altered);
                self.came.altered = altered;
                return Event::Tampered { what };
            }
            Said::Seen { evaluation, uncommitted, usage } => {
                self.came.seen.red = evaluation.in_the_way();
                (weighed(&evaluation, &uncommitted), usage)
            }
        };
        Event::Verified { number, evaluation, usage }
    }

    /// What the crew saw of the one job that it has. It is given up when the loop does not want it any more.
    fn ended(&mut self, job: &JobId) -> (Outcome, Usage) {
        let mut wanted = true;
        loop {
            match self.inbox.recv_timeout(LOOK) {
                Ok(Message::Ended { outcome, usage, .. }) => return (outcome, usage),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    let touched = !matches!(self.store.look::<Refusal>(), Ok(Foreign::None));
                    if wanted && touched && !self.is_wanted(job) {
                        wanted = false;
                        self.crew.kill(job);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return (Outcome::Lost { reason: "nobody looked at it".into() }, Usage::default());
                }
            }
        }
    }

    /// What was done in a tree is given up; a change is kept for a week.
    fn discard(&mut self, work: &Work, reason: &str) {
        if let Some(lent) = self.crew.ground().lent_before(work) {
            self.give_back(lent, reason);
        }
    }

    fn give_back(&mut self, lent: Lent, reason: &str) {
        let atom = lent.work().atom.clone();
        if let Err(error) = self.crew.ground().give_back(lent, End::Failed { reason: reason.to_owned() }) {
            self.came.seen.notes.push(format!("the tree of {atom} could not be given back: {error}"));
        }
    }

    fn end(mut self, coordinator: &Coordinator) -> Result<StepReport, RunError> {
        let running = coordinator.state().control.status == LoopStatus::Running;
        let end = self.came.halted.clone();
        self.remember(|note| {
            note.running = running;
            note.end_to_show = end.or(note.end_to_show.take());
        });
        self.came.next = Some(Instruction::of(coordinator.ledger(), &self.came.seen));
        if self.came.halted.is_some()
            && let Err(error) = self.crew.close()
        {
            self.came.seen.notes.push(format!("the trees could not be cleared: {error}"));
        }
        Ok(self.came)
    }
}
