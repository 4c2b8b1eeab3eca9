//! `aot hook EVENT`: what Claude Code asks before a tool is used and after a turn has ended. Translates; who may do what
//! and whether the loop goes on is decided elsewhere.
//!
//! Without a state file, with one that belongs to another session, or for an event that is none of our business, it says
//! nothing and exits with 0. It never allows what it does not know, and it does not stop the host if it fails itself.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use aot_core::coordinator::StopMode;
use aot_core::hook::{
    self, Call, Known, Place, REASKS, Role, Ruling, Standing, before_tool, misshapen, settles_on,
    starts_one_of_ours,
};
use aot_core::rules::{Ledger, Refusal};
use aot_core::state::{AtomStatus, LoopStatus, State};
use aot_runner::checks::files::Pattern;
use aot_runner::session::{self, SessionMemory, StepReport};
use aot_runner::store::{Store, StoreError, Unreadable};
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use super::workspace::project_of;
use super::{Invocation, session as step};
use crate::failure::{self, Failure};
use crate::print::OutputFormat;
use crate::{place, print};

/// What the host tells is longer only if somebody plays with us.
const MAX_INPUT: u64 = 64 << 20;

/// After so many turns a coordinator's memory is full of what is over, and it is let go.
const ROUNDS: u32 = 5;

/// The host ends a turn after eight refusals in a row; the loop is stopped before that, and with the usual limits its own
/// rules stop it first.
const IDLE_STOPS: u32 = 6;

#[derive(Debug, Args)]
pub struct HookArgs {
    /// session-start, session-end, user-prompt-submit, pre-tool-use, subagent-start, subagent-stop or stop
    event: String,
}

/// What the host says. What we do not need is not looked at.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Heard {
    session_id: String,
    agent_id: Option<String>,
    agent_type: Option<String>,
    cwd: Option<String>,
    tool_name: String,
    tool_input: Value,
    last_assistant_message: Option<String>,
    background_tasks: Vec<Background>,
    prompt: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Background {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    status: String,
    agent_type: Option<String>,
}

impl Background {
    /// Whether the host will come back to it. A server that somebody left running says nothing about the loop.
    fn works(&self) -> bool {
        self.status == "running" && !["shell", "monitor"].contains(&self.kind.as_str())
    }
}

/// Whether this process is asked by a host. It is looked at before anything else, since it is asked before every tool.
pub fn is_called(words: &[OsString]) -> bool {
    words.len() == 3 && words[1] == "hook" && words[2].to_str().is_some_and(|event| !event.starts_with('-'))
}

pub fn run(words: &[OsString]) -> ExitCode {
    let event = words[2].to_string_lossy().into_owned();
    // A host takes any other code for an error of the hook, or for a refusal.
    let answered = std::panic::catch_unwind(|| answer(&event));
    if answered.is_err() {
        failure::complain("aot: the hook has a bug, and was left out");
    }
    ExitCode::SUCCESS
}

pub fn by_name(args: &HookArgs) -> Result<(), Failure> {
    answer(&args.event);
    Ok(())
}

fn answer(event: &str) {
    let mut text = Vec::new();
    // Read in any case: a host may not like a hook that does not listen.
    let read = std::io::stdin().lock().take(MAX_INPUT).read_to_end(&mut text);
    // An agent that `aot run` started is no session of a person.
    if read.is_err() || place::is_in_job() {
        return;
    }
    let Ok(path) = place::state_file(None) else { return };
    let Some(heard) = heard(&text) else { return };
    if heard.session_id.is_empty() {
        return;
    }
    let invocation = Invocation { state: Some(path), format: OutputFormat::Json };
    let Ok(mut store) = invocation.store() else { return };
    let standing = match store.standing::<Refusal>() {
        Ok(standing) => standing,
        Err(StoreError::Unreadable(unreadable)) => return tell_broken(event, &heard, &store, &unreadable),
        Err(_) => return,
    };
    match event {
        "pre-tool-use" => pre_tool_use(&standing, &heard, &store),
        "session-start" => session_start(&heard, store),
        "session-end" if standing.belongs_to(&heard.session_id) => session_end(&heard, &mut store),
        "user-prompt-submit" if standing.belongs_to(&heard.session_id) => user_prompt_submit(&heard, store),
        "subagent-start" if standing.belongs_to(&heard.session_id) => subagent_start(&heard, &store),
        "subagent-stop" if standing.belongs_to(&heard.session_id) => {
            subagent_stop(&invocation, &standing, &heard, store)
        }
        "stop" if standing.belongs_to(&heard.session_id) => stop(&invocation, &standing, &heard, store),
        _ => {}
    }
}

/// What is null was not said.
fn heard(text: &[u8]) -> Option<Heard> {
    let mut said: Value = serde_json::from_slice(text).ok()?;
    let all = said.as_object_mut()?;
    all.retain(|_, value| !value.is_null());
    for task in all.get_mut("background_tasks").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(task) = task.as_object_mut() {
            task.retain(|_, value| !value.is_null());
        }
    }
    serde_json::from_value(said).ok()
}

/// Whether the loop that a command would find from there is this one.
fn is_found_from(cwd: Option<&str>, state: &Path) -> bool {
    let Some(cwd) = cwd else { return true };
    place::state_file_from(Path::new(cwd))
        .is_none_or(|found| found.canonicalize().is_ok_and(|found| found == state))
}

fn pre_tool_use(standing: &Standing, heard: &Heard, store: &Store) {
    if !standing.belongs_to(&heard.session_id) {
        return;
    }
    let home = store.file().home();
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let project = project_of(home, place::project_root(home.state()));
    let (root, trees) = (text(&project.root), text(&project.lent()));
    let (state, sidecar) = (text(home.state()), text(home.sidecar()));
    let program = place::program_file().map(|path| text(&path)).unwrap_or_default();
    let place = Place { root: &root, state: &state, sidecar: &sidecar, trees: &trees, program: &program };
    let target = target(heard);
    let known = known(heard, store);
    let call = Call {
        session: &heard.session_id,
        agent_type: heard.agent_type.as_deref(),
        tool: &heard.tool_name,
        input: &heard.tool_input,
        target: target.as_deref(),
        known: &known,
    };
    let protected = |path: &str| {
        let mut patterns = standing.protected.iter().filter_map(|pattern| Pattern::read(pattern).ok());
        patterns.any(|pattern| pattern.matches(path))
    };
    let mut ruling = before_tool(standing, &place, &call, &protected);
    if matches!(ruling, Ruling::Silent | Ruling::Allow) {
        if let Some(tree) = settles_on(standing, &place, &call) {
            let agent = heard.agent_id.as_deref().unwrap_or_default();
            step::remember(store, &heard.session_id, |note| note.settle(agent, tree));
        }
        if starts_one_of_ours(&call) {
            // Others are asked about at the same moment: what counts is how many there are now.
            let known = step::remember(store, &heard.session_id, |note| {
                note.started += 1;
                Known { started: note.started - 1, ..known.clone() }
            });
            ruling = before_tool(standing, &place, &Call { known: &known, ..call }, &protected);
        }
    }
    if ruling == Ruling::Allow && !is_found_from(heard.cwd.as_deref(), home.state()) {
        // Another loop lies nearer to where it would be typed, and that one is none of our business.
        ruling = Ruling::Silent;
    }
    let (decision, reason) = match ruling {
        Ruling::Silent => return,
        Ruling::Allow => ("allow", "aot: it is a step of the loop".to_owned()),
        Ruling::Ask(reason) => ("ask", reason),
        Ruling::Deny(reason) => ("deny", format!("aot: {reason}")),
    };
    print::json(&json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason,
    }}));
}

/// What is remembered of whoever is about to use a tool.
fn known(heard: &Heard, store: &Store) -> Known {
    let starts = matches!(heard.tool_name.as_str(), "Agent" | "Task");
    if !starts && heard.agent_type.as_deref().and_then(Role::of).is_none() {
        return Known::default();
    }
    let note = step::note(store, &heard.session_id);
    let agent = heard.agent_id.as_deref().unwrap_or_default();
    Known { tree: note.trees.get(agent).cloned(), replaced: note.is_replaced(agent), started: note.started }
}

/// The file that a tool is about to write, without links and detours.
fn target(heard: &Heard) -> Option<String> {
    let name = match heard.tool_name.as_str() {
        "Write" | "Edit" | "MultiEdit" => "file_path",
        "NotebookEdit" => "notebook_path",
        _ => return None,
    };
    let path = PathBuf::from(heard.tool_input[name].as_str()?);
    let path = match (&heard.cwd, path.is_absolute()) {
        (Some(cwd), false) => Path::new(cwd).join(path),
        (_, _) => path,
    };
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    // The deepest folder that exists may be reached through a link.
    let real = plain.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let real = real.map(|(above, real)| match plain.strip_prefix(above) {
        Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
        Ok(_) | Err(_) => real,
    });
    Some(real.unwrap_or(plain).to_string_lossy().into_owned())
}

fn session_start(heard: &Heard, mut store: Store) {
    let Ok((_, state)) = store.load::<Refusal>() else { return };
    if let Some(text) = hook::welcome(state, &heard.session_id) {
        add_context("SessionStart", &text);
    }
}

fn session_end(heard: &Heard, store: &mut Store) {
    // If it cannot be written now, the next session has to take it over.
    let _ = session::leave(store, &heard.session_id);
}

/// An agent of the session has ended, and says something about the loop: this is how it really stands.
fn user_prompt_submit(heard: &Heard, mut store: Store) {
    if !heard.prompt.trim_start().starts_with("<task-notification>") {
        return;
    }
    let Ok((_, state)) = store.load::<Refusal>() else { return };
    add_context("UserPromptSubmit", &format!("aot: {}", hook::standing_line(state)));
}

fn add_context(event: &str, text: &str) {
    print::json(&json!({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}));
}

/// The newest coordinator is the one that coordinates.
fn subagent_start(heard: &Heard, store: &Store) {
    let role = heard.agent_type.as_deref().and_then(Role::of);
    if let (Some(Role::Coordinator), Some(agent)) = (role, &heard.agent_id) {
        step::remember(store, &heard.session_id, |note| note.seat(Some(agent)));
    }
}

fn subagent_stop(invocation: &Invocation, standing: &Standing, heard: &Heard, mut store: Store) {
    let Some(role) = heard.agent_type.as_deref().and_then(Role::of) else { return };
    let agent = heard.agent_id.clone().unwrap_or_default();
    if role != Role::Coordinator {
        return ask_for_form(standing, heard, role, &agent, &store);
    }
    let others = heard.background_tasks.iter().any(|task| {
        let role = task.agent_type.as_deref().and_then(Role::of);
        task.status == "running" && task.id != agent && role.is_some_and(|role| role != Role::Coordinator)
    });
    // The host wakes it again when those whom it sent have ended; and one that was replaced has no turn.
    let replaced = step::note(&store, &heard.session_id).is_replaced(&agent);
    if others || replaced || !is_going_on(standing, &store) {
        return;
    }
    if let Some(reminder) = reminder(&mut store, heard) {
        return send_back(&reminder);
    }
    let sidecar = store.file().home().sidecar().to_path_buf();
    let came = match turn_ended(invocation, store) {
        Ok(came) => came,
        Err(failure) => return tell_user(&format!("aot: {}. {}", failure.message(), failure.hint())),
    };
    // How it ended is told at the end of the session's turn: what is said here, nobody sees.
    if came.halted.is_some() || came.next.is_empty() {
        return;
    }
    let goes_on = SessionMemory::change(&sidecar, &heard.session_id, |note| {
        note.idle = 0;
        let goes_on = SessionMemory::count(&mut note.rounds, &agent) < ROUNDS;
        if !goes_on {
            note.seat(None);
        }
        goes_on
    });
    if goes_on {
        send_back(&came.next);
    }
}

/// What is to be handed in before a turn is judged: once in each iteration, so that no finished work is thrown away.
fn reminder(store: &mut Store, heard: &Heard) -> Option<String> {
    let state = store.load::<Refusal>().ok()?.1.clone();
    let control = &state.control;
    let open = state.atoms.values().any(|atom| atom.status == AtomStatus::InProgress);
    if !open || control.status != LoopStatus::Running || control.redirect_requested {
        return None;
    }
    let iteration = control.iteration;
    let before = step::remember(store, &heard.session_id, |note| note.reminded.replace(iteration));
    if before == Some(iteration) {
        return None;
    }
    Some(instruction(state))
}

/// What is next, as the file alone tells.
fn instruction(state: State) -> String {
    hook::next(&Ledger::open(state, jiff::Timestamp::now()), &hook::Seen::default())
}

/// Whether the loop runs, as far as the program is concerned: a `completed` that somebody typed does not end it.
fn is_going_on(standing: &Standing, store: &Store) -> bool {
    let typed = standing.status == LoopStatus::Completed
        && step::note(store, standing.session.as_deref().unwrap_or_default()).left_running();
    standing.is_running() || typed
}

fn ask_for_form(standing: &Standing, heard: &Heard, role: Role, agent: &str, store: &Store) {
    if !standing.is_running() || standing.redirecting {
        return;
    }
    let said = heard.last_assistant_message.as_deref().unwrap_or_default();
    let Some(fault) = misshapen(role, said) else { return };
    let asked =
        step::remember(store, &heard.session_id, |note| SessionMemory::count(&mut note.reasked, agent));
    if asked <= REASKS {
        send_back(&fault);
    }
}

fn stop(invocation: &Invocation, standing: &Standing, heard: &Heard, mut store: Store) {
    if heard.background_tasks.iter().any(Background::works) {
        return;
    }
    if !is_going_on(standing, &store) {
        return tell_end(heard, &store);
    }
    if let Some(reminder) = reminder(&mut store, heard) {
        return send_back(&hook::fresh_coordinator(&reminder));
    }
    let Ok((_, state)) = store.load::<Refusal>() else { return };
    let state = state.clone();
    let note = step::note(&store, &heard.session_id);
    // The session coordinated by itself, or was asked before and let nobody coordinate: that was a turn, and it is judged.
    let judged = note.sent_back || must_be_judged(&state);
    let idle = if note.sent_back { note.idle + 1 } else { 0 };
    let came = match (judged, idle >= IDLE_STOPS) {
        (_, true) => stopped_for_idling(invocation, store, idle),
        (true, false) => turn_ended(invocation, store).map(Some),
        (false, false) => Ok(None),
    };
    let came = match came {
        Ok(came) => came,
        Err(failure) => return tell_user(&format!("aot: {}. {}", failure.message(), failure.hint())),
    };
    if let Some(came) = &came
        && (came.halted.is_some() || came.next.is_empty())
    {
        let Ok(store) = invocation.store() else { return };
        return tell_end(heard, &store);
    }
    let Ok(mut store) = invocation.store() else { return };
    let Ok((_, state)) = store.load::<Refusal>() else { return };
    let next = match came {
        Some(came) => came.next,
        None => instruction(state.clone()),
    };
    step::remember(&store, &heard.session_id, |note| {
        note.sent_back = true;
        note.idle = idle;
    });
    send_back(&hook::fresh_coordinator(&next));
}

fn must_be_judged(state: &State) -> bool {
    let control = &state.control;
    control.open.is_some()
        || control.stop_requested
        || control.redirect_requested
        || control.status == LoopStatus::Completed
}

fn stopped_for_idling(
    invocation: &Invocation,
    mut store: Store,
    idle: u32,
) -> Result<Option<StepReport>, Failure> {
    let run_config = step::run_config(invocation, store.load()?.1)?;
    let reason = format!("stopped: the session ended its turn {idle} times without doing anything");
    Ok(Some(session::stop(store, run_config, StopMode::Now, Some(reason))?))
}

fn turn_ended(invocation: &Invocation, mut store: Store) -> Result<StepReport, Failure> {
    let state = store.load()?.1.clone();
    let mut came = session::turn_ended(store, step::run_config(invocation, &state)?)?;
    if state.control.redirect_requested {
        // A person is being talked with: nobody is sent back to work.
        came.next.clear();
    }
    Ok(came)
}

fn send_back(reason: &str) {
    print::json(&json!({"decision": "block", "reason": reason}));
}

/// How the loop ended, once.
fn tell_end(heard: &Heard, store: &Store) {
    if let Some(end) = step::remember(store, &heard.session_id, |note| note.untold.take()) {
        tell_user(&format!("aot: {end}"));
    }
}

fn tell_user(text: &str) {
    print::json(&json!({"systemMessage": text}));
}

/// A broken state is told once, to the session whose it was.
fn tell_broken(event: &str, heard: &Heard, store: &Store, unreadable: &Unreadable) {
    let note = step::note(store, &heard.session_id);
    let what = unreadable
        .findings
        .first()
        .map(|first| format!("{} (line {}, column {})", first.message, first.place.line, first.place.column));
    let what = what.unwrap_or_else(|| "it cannot be read".into());
    if !note.running || event == "pre-tool-use" || note.told_broken.as_ref() == Some(&what) {
        return;
    }
    step::remember(store, &heard.session_id, |note| note.told_broken = Some(what.clone()));
    tell_user(&format!("aot: the state file is broken: {what}. `aot validate` shows every mistake."));
}
