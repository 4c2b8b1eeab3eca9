//! The verbs in a host's session: the same as elsewhere, with a tree, a check and a landing behind them. Decides nothing.

use aot_core::brief::Role;
use aot_core::coordinator::{CheckOutcome, JobOutcome, OnRefusedStart, StopMode};
use aot_core::rules::{Change, Refusal, bound};
use aot_core::state::{AtomId, Binding, LoopStatus, State};
use aot_core::verdict::Jobs;
use aot_runner::crew::{RunConfig, ScoreSource};
use aot_runner::driver;
use aot_runner::session::{self, SessionMemory, Started, StepReport};
use aot_runner::store::Store;
use serde_json::{Value, json};

use super::hook::text;
use super::workspace::{Workspace, project_of};
use super::{Invocation, not_aligned};
use crate::failure::{self, Failure, FailureKind};
use crate::print::Answer;
use crate::{place, screens};

/// Whether the loop is driven by a host's session, step by step.
pub fn has_one(state: &State) -> bool {
    state.control.session.is_some() && state.control.status == LoopStatus::Running
}

/// Whether this is a step of a session; refused if it is another session's loop.
pub fn owns(invocation: &Invocation) -> Result<bool, Failure> {
    invocation.by_person()?;
    let mut store = invocation.store()?;
    let state = store.load()?.1;
    if !has_one(state) {
        // A session that goes on with a loop that has ended would work without a limit.
        let own = state.control.session.is_some() && state.control.session == place::session();
        return if own { Err(not_running()) } else { Ok(false) };
    }
    let owner = state.control.session.clone().unwrap_or_default();
    if let Some(holder) = driver::holder(store.file().home()) {
        return Err(failure::driven(&holder));
    }
    match place::session() {
        Some(here) if here != owner => Err(owned(&owner)),
        Some(_) | None => Ok(true),
    }
}

/// Refuses a loop that belongs to a session.
pub fn check_free(state: &State) -> Result<(), Failure> {
    match &state.control.session {
        Some(session) if has_one(state) => Err(owned(session)),
        Some(_) | None => Ok(()),
    }
}

/// Lets `aot run` drive a loop that a session had.
pub fn release(store: &mut Store, take_over: bool) -> Result<(), Failure> {
    let state = store.load()?.1;
    if !take_over {
        check_free(state)?;
    }
    if state.control.session.is_none() {
        return Ok(());
    }
    store.change("take the loop from a session", jiff::Timestamp::now(), |ledger| {
        ledger.record(Change::SessionTaken { session: None });
        Ok::<(), Refusal>(())
    })?;
    Ok(())
}

/// Takes the loop for a session.
pub fn begin(invocation: &Invocation, named: &str, take_over: bool) -> Result<Answer, Failure> {
    let here = Some(named.to_owned()).filter(|named| !named.is_empty()).or_else(place::session);
    let Some(here) = here else {
        return Err(Failure::new(FailureKind::Usage, "no_session", "there is no session of a host here")
            .with_hint("name it: `aot run --session ID`"));
    };
    let mut store = invocation.store()?;
    let state = store.load()?.1.clone();
    if let Some(holder) = driver::holder(store.file().home()) {
        return Err(failure::driven(&holder));
    }
    let owner = state.control.session.clone().filter(|owner| *owner != here && has_one(&state));
    if let Some(session) = owner.filter(|_| !take_over) {
        return Err(owned(&session));
    }
    if let Err(lacking) = aot_core::rules::gate::gate(state.clone()) {
        return Ok(not_aligned(&lacking.missing, json!({"success": false})));
    }
    let run_config = run_config(invocation, &state)?;
    let bound = bound::hosted(&state);
    let sidecar = store.file().home().sidecar().to_path_buf();
    let judged = state.objective.base_case.as_ref().is_some_and(|checks| checks.quality_items() > 0);
    let has_judge = run_config.judge.is_some() || run_config.team.member(Role::Judge, None).is_some();
    let mut report = session::begin(store, run_config, &here)?;
    let limits = state.constraints();
    if limits.max_cost_usd.is_some() || limits.max_tokens.is_some() {
        let text =
            "the host alone knows what its agents cost: `max_cost_usd` and `max_tokens` do not bind them";
        report.seen.notes.push(text.into());
    }
    let uncommitted = (!report.uncommitted.is_empty()).then(|| text::uncommitted(&report.uncommitted));
    report.seen.notes.extend(uncommitted.clone());
    let line = format!("the loop is this session's: {}", screens::run::bound(&bound));
    let checks = state.objective.base_case.as_ref().map_or(0, |checks| checks.leaves().count());
    let looked = report.looked.then_some((&report.seen, checks));
    let shown = text::entered(&screens::run::bound(&bound), looked);
    let unjudged = (judged && !has_judge).then(|| text::NO_JUDGE.to_owned());
    report.seen.notes.extend(unjudged.clone());
    SessionMemory::change(&sidecar, &here, |memory| {
        memory.lines.push(shown);
        memory.lines.extend(unjudged.into_iter().chain(uncommitted).map(|text| format!("aot: {text}")));
    });
    Ok(answer(&report, &line, json!({"session": here, "bound": bound})))
}

pub fn start(invocation: &Invocation, id: &AtomId) -> Result<Answer, Failure> {
    let (store, run_config) = open(invocation)?;
    let report = session::start(store, run_config, id)?;
    if let Some(refusal) = report.refused {
        return Err(refusal.into());
    }
    match &report.started {
        Some(started) => Ok(started_answer(started, &report.changes)),
        None => ended(id, &report),
    }
}

pub fn brief(invocation: &Invocation, id: &AtomId) -> Result<Answer, Failure> {
    let (mut store, run_config) = open(invocation)?;
    match session::brief_of(&mut store, &run_config, id)? {
        Ok(started) => Ok(started_answer(&started, &[])),
        Err(refusal) => Err(refusal.into()),
    }
}

pub fn resolve(invocation: &Invocation, id: &AtomId, binding: Binding) -> Result<Answer, Failure> {
    let (store, run_config) = open(invocation)?;
    let report = session::resolve(store, run_config, id, binding)?;
    if let Some(refusal) = report.refused {
        return Err(refusal.into());
    }
    if let Some(unproven) = report.unproven.as_ref().filter(|unproven| unproven.left > 0) {
        let (reason, left) = (why(&unproven.check), unproven.left);
        let message = format!("{id} is not resolved: {reason}");
        let mend = match &unproven.check {
            CheckOutcome::Pending { .. } => "have it judged (`aot judge` lists what waits)",
            CheckOutcome::None
            | CheckOutcome::Pass
            | CheckOutcome::Fail { .. }
            | CheckOutcome::Error { .. } => "let the worker mend it",
        };
        return Err(Failure::refused("check_failed", message).with_hint(format!(
            "its tree is as it was: {mend} and resolve it again ({left} left), or give it up with `aot atom fail {id} \
             --reason WHY`"
        )));
    }
    if let Some(reason) = &report.blocked {
        return Err(blocked(invocation, id, reason));
    }
    ended(id, &report)
}

/// Only the user can make room for the result: they are told, too.
fn blocked(invocation: &Invocation, id: &AtomId, reason: &str) -> Failure {
    if let (Ok(store), Some(session)) = (invocation.store(), place::session()) {
        let line = text::blocked(id, reason);
        remember(&store, &session, |memory| {
            if !memory.lines.contains(&line) {
                memory.lines.push(line);
            }
        });
    }
    Failure::refused("blocked", format!("{id} is done and its check passes, but it cannot land: {reason}"))
        .with_hint(format!(
            "its tree is as it was: go on with other atoms, and resolve {id} again when the user has committed or \
             undone that; nothing else is to be done about it"
        ))
}

pub fn fail(
    invocation: &Invocation,
    id: &AtomId,
    reason: String,
    too_large: bool,
) -> Result<Answer, Failure> {
    let (store, run_config) = open(invocation)?;
    let outcome = if too_large { JobOutcome::TooLarge { reason } } else { JobOutcome::Failed { reason } };
    let report = session::fail(store, run_config, id, outcome)?;
    if let Some(refusal) = report.refused {
        return Err(refusal.into());
    }
    let mut object = json!({"atom": id, "status": "pending"});
    let switched = report.changes.iter().find_map(|change| match change {
        Change::ChoiceSelected { group, choice, .. } => Some((group, choice)),
        _ => None,
    });
    let line = match switched {
        Some((group, to)) => {
            object["fallout"] = json!("switched");
            object["group"] = json!(group);
            object["selected"] = json!(to);
            format!("{id} failed; {group} switches to {to}")
        }
        None => {
            object["fallout"] = json!("retry");
            format!("{id} failed and is pending again; its work is kept, `aot log {id}` tells where")
        }
    };
    Ok(answer(&report, &line, object))
}

pub fn stop(invocation: &Invocation, now: bool, reason: Option<String>) -> Result<Answer, Failure> {
    let (store, run_config) = open(invocation)?;
    let how = if now { StopMode::Now } else { StopMode::Finish };
    let report = session::stop(store, run_config, how, reason.clone())?;
    let line = match &report.halted {
        Some(_) => "stopped",
        None => {
            "asked the session to stop: what is in progress may be resolved or failed, nothing new starts"
        }
    };
    Ok(answer(&report, line, json!({"stopping": true, "now": now, "reason": reason})))
}

/// The turn of whoever coordinates is over.
pub fn end_turn(invocation: &Invocation, store: Store) -> Result<StepReport, Failure> {
    let home = store.file().home();
    let project = project_of(home, place::project_root(home.state()));
    session::turn_ended(store, &project, |state| run_config(invocation, state))
}

/// What a step needs from the world.
pub fn run_config(invocation: &Invocation, state: &State) -> Result<RunConfig, Failure> {
    let workspace = Workspace::open(&invocation.path()?, Jobs::default())?;
    // The workers are the host's. Only a judge that was named may be an agent of ours; otherwise the host's verifier judges.
    let team = workspace.team(&[], state, false).unwrap_or_default();
    let run_config = workspace.run_config(team, OnRefusedStart::Stop)?;
    Ok(RunConfig { scores: ScoreSource::HandedIn, ..run_config })
}

/// The loop, and what a step needs from the world.
pub fn open(invocation: &Invocation) -> Result<(Store, RunConfig), Failure> {
    let mut store = invocation.store()?;
    let state = store.load()?.1.clone();
    let run_config = run_config(invocation, &state)?;
    Ok((store, run_config))
}

/// How an atom's attempt ended, if it ended here.
fn ended(id: &AtomId, report: &StepReport) -> Result<Answer, Failure> {
    let resolved: Vec<&str> = report
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::AtomResolved { atom, .. } => Some(atom.as_str()),
            _ => None,
        })
        .collect();
    if resolved.is_empty() {
        let message = match (&report.unproven, report.seen.notes.last()) {
            (Some(unproven), _) => format!("{id} is not resolved: {}", why(&unproven.check)),
            // A note begins with its atom.
            (None, Some(note)) => format!("not resolved: {note}"),
            (None, None) => format!("{id} is not resolved"),
        };
        return Err(Failure::refused("not_landed", message)
            .with_hint(format!("it is pending again; its work is kept, `aot log {id}` tells where")));
    }
    let line = format!("resolved {}", resolved.join(", and with it "));
    Ok(answer(report, &line, json!({"atom": id, "status": "resolved", "resolved": resolved})))
}

fn why(check: &CheckOutcome) -> String {
    match check {
        CheckOutcome::None | CheckOutcome::Pass => String::new(),
        CheckOutcome::Fail { reason } => format!("its check failed: {reason}"),
        CheckOutcome::Error { reason } => format!("its check cannot be run: {reason}"),
        CheckOutcome::Pending { reason } => format!("its check waits for a judge or a person: {reason}"),
    }
}

fn started_answer(started: &Started, changes: &[Change]) -> Answer {
    let Started { atom, attempt, folder, brief } = started;
    let json = json!({
        "success": true, "atom": atom, "status": "in_progress", "attempt": attempt, "tree": folder,
        "brief": brief, "changes": changes,
    });
    let folder = folder.display();
    let text = format!(
        "{atom} is in progress since iteration {attempt}, in {folder}\nIts worker needs this prompt: \"Solve {atom} in \
         {folder}; `aot atom brief {atom}` is your brief.\"\n\n{brief}"
    );
    Answer::new(text, json)
}

fn answer(report: &StepReport, line: &str, mut object: Value) -> Answer {
    object["success"] = json!(true);
    object["changes"] = json!(report.changes);
    object["notes"] = json!(report.seen.notes);
    object["halted"] = json!(report.halted);
    object["steered"] = json!(report.steered);
    object["untracked"] = json!(report.untracked);
    let next = match &report.halted {
        Some(certificate) => {
            let steered = report.steered.iter().map(|one| one.describe());
            let is_done = certificate.exit == 0 && !report.untracked.is_empty();
            let untracked = is_done.then(|| text::untracked(&report.untracked));
            let notes = steered.chain(untracked).map(|note| format!("\nnote: {note}"));
            format!("{}{}", text::halted(certificate), notes.collect::<String>())
        }
        None => {
            let next = report.next.as_ref().map(text::instruction);
            if let Some(next) = &next {
                object["next"] = json!(next);
            }
            next.unwrap_or_default()
        }
    };
    let notes = report.seen.notes.iter().map(|note| format!("note: {note}")).collect();
    Answer::new(format!("{line}\n{next}"), object).with_warnings(notes)
}

/// The loop belongs to a session of a host.
fn owned(session: &str) -> Failure {
    Failure::refused("owned", format!("this loop belongs to the session {session} of a host")).with_hint(
        "leave it to that session; if it is gone: `/aot:enter-recursion take over` in a new one, or \
         `aot run --take-over` here",
    )
}

/// The loop of this session does not run.
pub fn not_running() -> Failure {
    Failure::refused("at_rest", "the loop of this session is not running")
        .with_hint("`aot status` says why; `aot run --session` takes it up again")
}

/// A verb beside the steps has changed the loop of a session: the iteration's line tells it.
pub fn note_changes(store: &Store, changes: &[Change]) {
    let Some(state) = store.state().filter(|state| has_one(state)) else { return };
    let session = state.control.session.clone().unwrap_or_default();
    let (iteration, left) = (state.control.iteration, bound::hosted(state).agent_runs);
    remember(store, &session, |memory| memory.note_changes(changes, iteration, left));
}

/// What is remembered of a session.
pub fn memory_of(store: &Store, session: &str) -> SessionMemory {
    SessionMemory::of(store.file().home().sidecar(), session)
}

pub fn remember<T>(store: &Store, session: &str, change: impl FnOnce(&mut SessionMemory) -> T) -> T {
    SessionMemory::change(store.file().home().sidecar(), session, change)
}
