//! One step of a host's session: a process for each event, on the same engine and the same ground as a run. In flight is
//! what the state shows in progress; its trees outlive the process that lent them. Decides nothing, has no terminal.

mod memory;
mod turn;

use std::cell::RefCell;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use aot_core::brief::{self, AttemptContext, JudgeAnswer};
use aot_core::coordinator::{
    Agents, CheckOutcome, Coordinator, Dispatch, Event, JobId, JobOutcome, OnRefusedStart, Presence,
    Settings, StopMode, Task, Trees, Usage,
};
use aot_core::hook::{Instruction, TurnReport, tree_of};
use aot_core::rules::certificate::Certificate;
use aot_core::rules::gate::gate;
use aot_core::rules::{Change, Refusal, bound};
use aot_core::state::{AtomId, AtomStatus, Binding, Graph, LoopStatus, Quality, State, StopKind};
use jiff::Timestamp;

pub use crate::engine::Started;
pub use memory::{IterationNews, SentWorker, SessionMemory};

use crate::checks::handed_in;
use crate::checks::seal::{self, Altered};
use crate::checks::steered::{Steered, steered};
use crate::crew::{Assignment, Crew, RunConfig};
use crate::engine::{self, Clock, Engine, Mode, Opening, Owner, RunError};
use crate::message::{Message, Notice};
use crate::store::hold;
use crate::store::lock::{Held, Lock};
use crate::store::{Foreign, Note, Store, StoreError};
use crate::tree::{End, Ground, OpenedFor, Project, Tree, Work};

/// A step waits so long for another one of the same session, which may be landing or evaluating.
const TURN_WAIT: Duration = Duration::from_secs(30 * 60);

/// How often a step that waits for an attempt looks whether the loop still wants it.
const WANTED_POLL: Duration = Duration::from_millis(200);

/// A landing that is blocked by a person's edits gives up after so long; the host is told, and hands it in again.
const LANDING_WAIT: Duration = Duration::from_secs(3);

/// A result is refused so often before it counts as what it is: a failure, or a check that cannot run.
pub const REFUSALS: u32 = 3;

/// What a step came to.
#[derive(Debug, Default)]
pub struct StepReport {
    pub changes: Vec<Change>,
    pub started: Option<Started>,
    /// The rules refused the request; nothing was changed.
    pub refused: Option<Refusal>,
    /// The result was not accepted: its check did not pass.
    pub unproven: Option<Unproven>,
    /// Why a result that was accepted is not on the branch; it can be handed in again.
    pub blocked: Option<String>,
    /// Files with edits that are in no commit, when the session takes the loop.
    pub uncommitted: Vec<String>,
    /// Files that the checks of a loop that is done could see and no commit has.
    pub untracked: Vec<String>,
    pub halted: Option<Certificate>,
    pub seen: TurnReport,
    /// Whether the base case was evaluated.
    pub looked: bool,
    pub altered: Vec<Altered>,
    /// Unprotected files that steer the checks and were changed, if the loop is done.
    pub steered: Vec<Steered>,
    /// What the coordinating agent does next, if the loop goes on.
    pub next: Option<Instruction>,
}

/// A result whose check the program did not see pass.
#[derive(Clone, Debug)]
pub struct Unproven {
    pub check: CheckOutcome,
    /// How often it may still be handed in; with none left it counted as what it is.
    pub left: u32,
}

/// Takes the loop for a session, from the beginning, after a stop or from a session that is gone.
pub fn begin(mut store: Store, config: RunConfig, session: &str) -> Result<StepReport, RunError> {
    let control = &store.load::<Refusal>()?.1.control;
    let own = control.session.as_deref() == Some(session) && control.status == LoopStatus::Running;
    if own && SessionMemory::of(&config.project.sidecar, session).begun {
        return go_on(store, config);
    }
    let turn = take_turn(&store)?;
    let edits = engine::claim(&mut store, Owner::Session(session))?;
    let state = store.load::<Refusal>()?.1.clone();
    // The unfinished work of a session that is gone is kept for a week.
    if let Ok(left) = engine::ground(&config, &state, OpenedFor::Again) {
        for lent in left.lent_besides(&[]) {
            // A change that cannot be kept is cleared all the same.
            let _ = left.give_back(lent, End::Failed { reason: "its session is gone".into() });
        }
    }
    let Opening { ground, begun, altered, notes, .. } = Opening::of(&mut store, &config, OpenedFor::Session)?;
    let status = state.control.status;
    SessionMemory::change(&config.project.sidecar, session, |memory| memory.begin(session, status));
    step(store, config, ground, Some(turn), |step| {
        step.note_all(&edits);
        notes.into_iter().for_each(|note| step.engine.note(note));
        let uncommitted = step.engine.crew.ground().uncommitted()?;
        step.report.borrow_mut().uncommitted = uncommitted;
        step.engine.output.altered = altered;
        step.engine.run_until_quiet(begun)?;
        step.keep_what_was_seen();
        Ok(())
    })
}

/// The session has the loop already: what is in progress stays so. Trees of attempts that a redirect ended are cleared.
fn go_on(store: Store, config: RunConfig) -> Result<StepReport, RunError> {
    step_in_turn(store, config, |step| {
        let work = |job: JobId| Some(Work { atom: job.task.atom()?.clone(), attempt: job.attempt });
        let wanted: Vec<Work> = step.engine.coordinator.running().into_iter().filter_map(work).collect();
        step.engine.crew.discard_besides(&wanted);
        step.remember(|memory| memory.set_coordinator(None));
        Ok(())
    })
}

/// The host wants to work on an atom.
pub fn start(store: Store, config: RunConfig, atom: &AtomId) -> Result<StepReport, RunError> {
    step_in_turn(store, config, |step| {
        step.engine.run_until_quiet(Event::StartAsked { atom: atom.clone() })?;
        if let Some(started) = &step.engine.output.started {
            let (tree, now) = (tree_of(&started.atom, started.attempt), Timestamp::now());
            step.remember(|memory| memory.began.insert(tree, now));
        }
        let Some(command) = step.engine.output.command.take() else { return Ok(()) };
        // A command is run by this process. Other steps need not wait for it.
        step.turn = None;
        let job = command.job.clone();
        step.engine.crew.start(command);
        let (outcome, usage) = step.outcome_of(&job);
        step.finish_attempt(job, outcome, usage)
    })
}

/// A worker of the host says that an atom is done. Its check runs before other steps have to wait.
pub fn resolve(
    mut store: Store,
    config: RunConfig,
    atom: &AtomId,
    binding: Binding,
) -> Result<StepReport, RunError> {
    let edits = take_in_edits(&mut store)?;
    let state = store.load::<Refusal>()?.1.clone();
    let assignment = match in_progress(&state, atom) {
        Ok(assignment) => assignment,
        Err(refusal) => return Ok(StepReport { refused: Some(refusal), ..StepReport::default() }),
    };
    let ground = engine::ground(&config, &state, OpenedFor::Again)?;
    step(store, config, ground, None, |step| {
        step.note_all(&edits);
        let job = assignment.job.clone();
        let work = Work { atom: atom.clone(), attempt: job.attempt };
        let (outcome, usage) = match step.engine.crew.ground().lent_before(&work) {
            Some(lent) => {
                step.engine.crew.examine(assignment, lent, binding);
                step.outcome_of(&job)
            }
            None => (JobOutcome::Lost { reason: "its tree is gone".into() }, Usage::default()),
        };
        if let JobOutcome::Done { check, .. } = &outcome
            && !matches!(check, CheckOutcome::None | CheckOutcome::Pass)
        {
            let name = tree_of(atom, job.attempt);
            let count = step.remember(|memory| SessionMemory::count(&mut memory.refused, &name));
            let left = REFUSALS.saturating_sub(count);
            step.report.borrow_mut().unproven = Some(Unproven { check: check.clone(), left });
            if left > 0 && step.is_wanted(&job) {
                return step.take_turn();
            }
        }
        step.finish_attempt(job, outcome, usage)
    })
}

/// A worker of the host gives an atom up: what was done is discarded, and the loop goes another way.
pub fn fail(
    store: Store,
    config: RunConfig,
    atom: &AtomId,
    outcome: JobOutcome,
) -> Result<StepReport, RunError> {
    step_in_turn(store, config, |step| match in_progress(step.engine.coordinator.state(), atom) {
        Ok(assignment) => step.give_up(assignment.job, outcome),
        Err(refusal) => {
            step.engine.output.refused = Some(refusal);
            Ok(())
        }
    })
}

/// The coordinating agent has ended its turn: what is still in progress is lost, the iteration is closed and judged. Settings
/// are read and git is started only if something follows from that outside of the state file.
pub fn turn_ended<E: From<RunError>>(
    mut store: Store,
    project: &Project,
    config: impl FnOnce(&State) -> Result<RunConfig, E>,
) -> Result<StepReport, E> {
    if let Some(report) = turn::judge_in_file(&mut store, project)? {
        return Ok(report);
    }
    let state = store.load::<Refusal>().map_err(RunError::from)?.1;
    let config = config(state)?;
    Ok(step_in_turn(store, config, |step| {
        if step.engine.coordinator.state().control.redirect_requested {
            // Nothing is judged during a redirect; one that no process holds any more ends the loop (D16).
            let held = hold::holder(step.engine.store.file().home()).is_some();
            return step.engine.run_until_quiet(if held { Event::Woke } else { Event::RedirectAbandoned });
        }
        for job in step.engine.coordinator.running() {
            let reason = "its worker's turn ended without a result".to_owned();
            step.give_up(job, JobOutcome::Lost { reason })?;
        }
        step.engine.run_until_quiet(Event::TurnEnded)?;
        step.remember(SessionMemory::turn_ended);
        step.keep_what_was_seen();
        Ok(())
    })?)
}

/// Time has passed: if it is all used up, the loop stops (D12).
pub fn wake(store: Store, config: RunConfig) -> Result<StepReport, RunError> {
    step_in_turn(store, config, |step| step.engine.run_until_quiet(Event::Woke))
}

pub fn stop(
    store: Store,
    config: RunConfig,
    how: StopMode,
    reason: Option<String>,
) -> Result<StepReport, RunError> {
    step_in_turn(store, config, |step| step.engine.run_until_quiet(Event::StopAsked { how, reason }))
}

/// The session is over: it no longer owns the loop, and a redirect that it held is abandoned (D16).
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
                let verdict = Some(StopKind::RedirectInterrupted);
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
    config: &RunConfig,
    atom: &AtomId,
) -> Result<Result<Started, Refusal>, RunError> {
    let state = store.load::<Refusal>()?.1.clone();
    let attempt = match in_progress(&state, atom) {
        Ok(assignment) => assignment.job.attempt,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let ground = engine::ground(config, &state, OpenedFor::Again)?;
    let Some(lent) = ground.lent_before(&Work { atom: atom.clone(), attempt }) else {
        return Err(RunError::World(format!(
            "the tree of {atom} is gone; `aot atom fail {atom}` gives it up"
        )));
    };
    let given = AttemptContext { submodules: ground.submodules(), ..AttemptContext::default() };
    let brief = brief::worker(&state, &Graph::new(&state), atom, given);
    let folder = lent.root().to_path_buf();
    Ok(brief.map(|brief| Started { atom: atom.clone(), attempt, folder, brief: brief.text }))
}

/// Scores that an agent of the session gives to a quality check of the base case, or of an atom in progress, for the files
/// as they are now.
pub fn hand_in_scores(
    store: &mut Store,
    config: &RunConfig,
    atom: Option<&AtomId>,
    check: (&str, &Quality),
    answer: &JudgeAnswer,
) -> Result<(), RunError> {
    let state = store.load::<Refusal>()?.1.clone();
    let ground = engine::ground(config, &state, OpenedFor::Again)?;
    let project = match atom {
        None => ground.verify_in(&config.project)?,
        Some(atom) => {
            let attempt = state.control.attempts.get(atom).copied().unwrap_or(0);
            let lent = ground.lent_before(&Work { atom: atom.clone(), attempt });
            let lent = lent.ok_or_else(|| RunError::World(format!("the tree of {atom} is gone")))?;
            ground.project_in(&lent, &config.project)
        }
    };
    let tree = Tree::of(&project, &config.guard);
    let tree = tree.map_err(|error| RunError::World(format!("the files cannot be looked at: {error}")))?;
    handed_in::keep(&project, &tree, check, answer)
        .map_err(|error| RunError::World(format!("the scores cannot be kept: {error}")))
}

/// The assignment of an atom that the state shows in progress.
fn in_progress(state: &State, atom: &AtomId) -> Result<Assignment, Refusal> {
    let found = state.atoms.get(atom).ok_or_else(|| Refusal::UnknownAtom(atom.clone()))?;
    if found.status != AtomStatus::InProgress {
        let (is, wanted) = (found.status, AtomStatus::InProgress);
        return Err(Refusal::WrongStatus { atom: atom.clone(), is, wanted });
    }
    let attempt = state.control.attempts.get(atom).copied().unwrap_or(0);
    Ok(Assignment::of(JobId { task: Task::Work(atom.clone()), attempt }, found, state, None))
}

fn reason_of(outcome: &JobOutcome) -> Option<&str> {
    match outcome {
        JobOutcome::Done { check: CheckOutcome::None | CheckOutcome::Pass, .. }
        | JobOutcome::Probed { .. } => None,
        JobOutcome::Done {
            check:
                CheckOutcome::Fail { reason } | CheckOutcome::Error { reason } | CheckOutcome::Pending { reason },
            ..
        }
        | JobOutcome::Failed { reason }
        | JobOutcome::TooLarge { reason }
        | JobOutcome::Refused { reason, .. }
        | JobOutcome::Unable { reason, .. }
        | JobOutcome::NotStarted { reason, .. }
        | JobOutcome::Lost { reason } => Some(reason),
    }
}

/// One process of a session.
struct Step<'s> {
    engine: Engine<'s>,
    report: &'s RefCell<StepReport>,
    sidecar: &'s Path,
    session: &'s str,
    /// Held while no other step may change the loop.
    turn: Option<Held>,
}

fn take_turn(store: &Store) -> Result<Held, RunError> {
    Ok(Held::take_the(Lock::Stepping, store.file().home(), "takes a step of a session", TURN_WAIT)?)
}

/// A step during which no other one changes the loop.
fn step_in_turn(
    mut store: Store,
    config: RunConfig,
    work: impl FnOnce(&mut Step<'_>) -> Result<(), RunError>,
) -> Result<StepReport, RunError> {
    let turn = take_turn(&store)?;
    let edits = take_in_edits(&mut store)?;
    let ground = engine::ground(&config, store.load::<Refusal>()?.1, OpenedFor::Again)?;
    // The next step finds nothing of this one at work, even if this process is killed.
    config
        .guard
        .hold(turn.file())
        .map_err(|error| RunError::World(format!("nothing can be started: {error}")))?;
    step(store, config, ground, Some(turn), |step| {
        step.note_all(&edits);
        work(step)
    })
}

/// What was typed into the file becomes part of the loop, as far as it is believed.
fn take_in_edits(store: &mut Store) -> Result<Vec<Note>, RunError> {
    let taken = store.change("take in edits", Timestamp::now(), |_| Ok::<(), Refusal>(()))?;
    Ok(taken.notes)
}

fn step(
    mut store: Store,
    config: RunConfig,
    ground: Ground,
    turn: Option<Held>,
    work: impl FnOnce(&mut Step<'_>) -> Result<(), RunError>,
) -> Result<StepReport, RunError> {
    let state = store.load::<Refusal>()?.1.clone();
    let session = state.control.session.clone().unwrap_or_default();
    let sidecar = config.project.sidecar.clone();
    let report = RefCell::new(StepReport::default());
    let mut notify = |notice: Notice<'_>| collect(notice, &report, &sidecar, &session);
    let memory = SessionMemory::of(&sidecar, &session);
    let (sender, inbox) = channel();
    let (coordinator, typed) = resume(&state, &memory, engine::trees(&ground))?;
    let crew = Crew::new(config, ground, &state, sender, LANDING_WAIT);
    let engine = Engine::new(store, coordinator, crew, inbox, (Mode::Step, Clock::start()), &mut notify);
    let mut step = Step { engine, report: &report, sidecar: &sidecar, session: &session, turn };
    if step.turn.is_some() {
        step.disbelieve(typed)?;
        step.look_at_base_case()?;
    }
    work(&mut step)?;
    step.end()?;
    Ok(report.into_inner())
}

/// The loop as the state shows it. Only the program completes a loop: a `completed` that it did not write itself is
/// returned as an edit of a running loop.
fn resume(
    state: &State,
    memory: &SessionMemory,
    trees: Trees,
) -> Result<(Coordinator, Option<Event>), RunError> {
    let settings = Settings {
        // The host decides when one of its agents probes.
        agents: Agents {
            worker: Presence::Available,
            probe: Presence::Absent,
            coordinator: Presence::Available,
        },
        dispatch: Dispatch::OnRequest,
        trees,
        on_refused_start: OnRefusedStart::Park,
    };
    let now = Timestamp::now();
    let counted = memory.counted.filter(|counted| *counted <= now).unwrap_or(now);
    let typed = memory.left_running() && state.control.status == LoopStatus::Completed;
    let mut before = state.clone();
    if typed {
        before.control.status = LoopStatus::Running;
    }
    let coordinator = Coordinator::resume(gate(before)?, settings, counted);
    Ok((coordinator, typed.then(|| Event::Edited { state: Box::new(state.clone()) })))
}

fn collect(notice: Notice<'_>, report: &RefCell<StepReport>, sidecar: &Path, session: &str) {
    let mut report = report.borrow_mut();
    match notice {
        Notice::Recorded { changes, .. } => {
            if changes.iter().any(counts_time) {
                let now = Timestamp::now();
                SessionMemory::change(sidecar, session, |memory| memory.counted = Some(now));
            }
            report.changes.extend_from_slice(changes);
        }
        Notice::Event { event: Event::Ended { job, outcome, .. } } => {
            report.seen.notes.extend(reason_of(outcome).map(|reason| format!("{}: {reason}", name_of(job))));
        }
        Notice::Event { event: Event::Conflict { job, reason, .. } } => {
            let atom = name_of(job);
            report.seen.notes.push(format!("{atom} did not land and is pending again: {reason}"));
        }
        Notice::Event { event: Event::NotLanded { job, reason, .. } } => {
            let atom = name_of(job);
            report.seen.notes.push(format!("{atom} could not be landed: {reason}; resolve it again later"));
            report.blocked = Some(reason.clone());
        }
        Notice::Verified { red, unjudged, untracked, .. } => {
            report.looked = true;
            report.untracked = untracked;
            report.seen.red = red;
            report.seen.to_judge = unjudged;
        }
        Notice::Note { text } => report.seen.notes.push(text),
        Notice::Event { .. }
        | Notice::Ground { .. }
        | Notice::Edited { .. }
        | Notice::Started { .. }
        | Notice::Killed { .. }
        | Notice::Doing { .. }
        | Notice::ToolFailed { .. }
        | Notice::Mends { .. }
        | Notice::AgentEnded { .. }
        | Notice::Verifying { .. }
        | Notice::Checked { .. }
        | Notice::Tampered { .. }
        | Notice::Waiting { .. }
        | Notice::Hosts { .. }
        | Notice::Bound { .. }
        | Notice::Halted { .. }
        | Notice::Notified { .. }
        | Notice::Tick => {}
    }
}

/// Whether the time that was spent is in the state with this change.
fn counts_time(change: &Change) -> bool {
    matches!(change, Change::SpentSoFar { .. } | Change::LoopStarted)
}

fn name_of(job: &JobId) -> &str {
    job.task.atom().map_or("it", AtomId::as_str)
}

impl Step<'_> {
    fn note_all(&mut self, notes: &[Note]) {
        notes.iter().for_each(|note| self.engine.note(note.to_string()));
    }

    fn remember<T>(&self, change: impl FnOnce(&mut SessionMemory) -> T) -> T {
        SessionMemory::change(self.sidecar, self.session, change)
    }

    fn keep_what_was_seen(&self) {
        let seen = self.report.borrow().seen.clone();
        self.remember(|memory| memory.seen = seen);
    }

    /// Waits for other steps, and sees the loop as they left it.
    fn take_turn(&mut self) -> Result<(), RunError> {
        self.turn = Some(take_turn(&self.engine.store)?);
        let trees = engine::trees(self.engine.crew.ground());
        let state = self.engine.store.load::<Refusal>()?.1;
        let (coordinator, typed) = resume(state, &SessionMemory::of(self.sidecar, self.session), trees)?;
        self.engine.coordinator = coordinator;
        self.disbelieve(typed)
    }

    fn disbelieve(&mut self, typed: Option<Event>) -> Result<(), RunError> {
        let Some(edited) = typed else { return Ok(()) };
        self.engine.note("`completed` was typed into the state file; it is not believed");
        self.engine.run_until_quiet(edited)
    }

    /// A base case that is not the one that was agreed on is found by the next step, not only by an evaluation (D21).
    fn look_at_base_case(&mut self) -> Result<(), RunError> {
        let (state, project) = (self.engine.coordinator.state(), self.engine.crew.project());
        let running = state.control.status == LoopStatus::Running && !state.control.redirect_requested;
        let Some(agreed) = state.control.fingerprint.as_ref().filter(|_| running) else { return Ok(()) };
        let Some(altered) = seal::altered_base_case(&state.objective, agreed, project) else { return Ok(()) };
        let tampered = Event::Tampered { what: seal::describe(&altered) };
        self.engine.output.altered = altered;
        self.engine.run_until_quiet(tampered)
    }

    /// How an attempt ended, for the loop as it is by now.
    fn finish_attempt(&mut self, job: JobId, outcome: JobOutcome, usage: Usage) -> Result<(), RunError> {
        self.take_turn()?;
        if !self.engine.coordinator.running().contains(&job) {
            // A redirect, a stop or a switch has ended the attempt meanwhile.
            self.engine.crew.kill(&job, "it is not wanted any more");
            let Some(atom) = job.task.atom() else { return Ok(()) };
            let atoms = &self.engine.coordinator.state().atoms;
            let is = atoms.get(atom).map_or(AtomStatus::Pending, |atom| atom.status);
            let refusal = Refusal::WrongStatus { atom: atom.clone(), is, wanted: AtomStatus::InProgress };
            self.engine.output.refused = Some(refusal);
            return Ok(());
        }
        let reason = reason_of(&outcome).map(str::to_owned);
        let ended = Event::Ended { job: job.clone(), outcome, usage };
        self.engine.show(Notice::Event { event: &ended });
        self.engine.run_until_quiet(ended)?;
        if let Some(reason) = reason {
            self.engine.crew.kill(&job, &reason);
        }
        Ok(())
    }

    /// An attempt ends without a result, and its tree is cleared; a change is kept for a week.
    fn give_up(&mut self, job: JobId, outcome: JobOutcome) -> Result<(), RunError> {
        let reason = reason_of(&outcome).unwrap_or_default().to_owned();
        self.engine.run_until_quiet(Event::Ended { job: job.clone(), outcome, usage: Usage::default() })?;
        self.engine.crew.kill(&job, &reason);
        self.engine.wait_until_quiet()
    }

    /// Waits for the one attempt of this process, and kills it when the loop does not want it any more.
    fn outcome_of(&mut self, job: &JobId) -> (JobOutcome, Usage) {
        let mut wanted = true;
        loop {
            match self.engine.inbox.recv_timeout(WANTED_POLL) {
                Ok(Message::Event(Event::Ended { job: ended, outcome, usage })) if ended == *job => {
                    return (outcome, usage);
                }
                Ok(Message::Notice(notice)) => self.engine.show(notice),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    let edited = !matches!(self.engine.store.look::<Refusal>(), Ok(Foreign::None));
                    if wanted && edited && !self.is_wanted(job) {
                        wanted = false;
                        self.engine.crew.kill(job, "it is not wanted any more");
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return (JobOutcome::Lost { reason: "its thread is gone".into() }, Usage::default());
                }
            }
        }
    }

    /// Whether the loop still waits for this attempt.
    fn is_wanted(&mut self, job: &JobId) -> bool {
        let Ok((_, state)) = self.engine.store.load::<Refusal>() else { return true };
        let redirecting = state.control.redirect_requested;
        let found = job.task.atom().and_then(|atom| in_progress(state, atom).ok());
        !redirecting && found.is_some_and(|assignment| assignment.job == *job)
    }

    fn end(mut self) -> Result<(), RunError> {
        self.engine.wait_until_quiet()?;
        let running = self.engine.coordinator.state().control.status == LoopStatus::Running;
        let end = self.engine.output.halted.clone();
        let state = self.engine.coordinator.state();
        let (iteration, left) = (state.control.iteration, bound::hosted(state).agent_runs);
        self.remember(|memory| {
            memory.running = running;
            memory.note_changes(&self.report.borrow().changes, iteration, left);
            if end.is_some() {
                memory.untracked = self.report.borrow().untracked.clone();
            }
            memory.end_to_show = end.or(memory.end_to_show.take());
        });
        let next = Instruction::of(self.engine.coordinator.ledger(), &self.report.borrow().seen);
        let is_done =
            self.engine.output.halted.as_ref().is_some_and(|end| end.verdict == StopKind::Completed);
        let steered = if is_done { steered(self.engine.coordinator.state()) } else { Vec::new() };
        let output = match self.engine.output.halted {
            Some(_) => self.engine.close_trees(),
            None => self.engine.output,
        };
        let mut report = self.report.borrow_mut();
        report.started = output.started;
        report.refused = output.refused;
        report.halted = output.halted;
        report.altered = output.altered;
        report.steered = steered;
        report.next = Some(next);
        Ok(())
    }
}
