//! `aot hook EVENT`: answers what Claude Code asks before a tool is used and when a turn ends. Translates: who may do what
//! and whether the loop goes on is decided elsewhere.
//!
//! Without a state file, with a loop of another session, and for any other event it prints nothing and exits with 0. It
//! never allows what it does not know, and if it fails itself, the client goes on without it.

mod client;
pub mod text;
mod times;
mod turn;

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use aot_core::hook::{
    Action, CallerMemory, LoopFacts, ProjectPaths, Ruling, ToolCall, assigned_tree, claimed_tree, rule,
    speaks_for_person,
};
use aot_core::rules::Refusal;
use aot_core::rules::certificate::Certificate;
use aot_runner::checks::files::Pattern;
use aot_runner::session::{self, SentWorker, SessionMemory};
use aot_runner::store::{Store, StoreError, Unreadable};
use clap::Args;

use super::workspace::project_of;
use super::{Invocation, Verb, session as step};
use crate::failure::{self, Failure};
use crate::place;
use crate::print::{Answer, OutputFormat};
use client::{HookInput, Words};

/// No client sends as much, so the rest of a longer input is not read.
const MAX_INPUT: u64 = 64 << 20;

#[derive(Debug, Args)]
pub struct HookArgs {
    /// session-start, session-end, user-prompt-submit, pre-tool-use, post-tool-use, subagent-start, subagent-stop or
    /// stop
    event: String,
}

/// Whether a client called this process as a hook. `main` asks before it reads the command line, because a hook runs
/// before every tool and must start fast.
pub fn is_called(words: &[OsString]) -> bool {
    words.len() == 3 && words[1] == "hook" && words[2].to_str().is_some_and(|event| !event.starts_with('-'))
}

pub fn run(words: &[OsString]) -> ExitCode {
    let event = words[2].to_string_lossy().into_owned();
    // The client takes any other exit code for an error of the hook, or for a refusal.
    let answered = std::panic::catch_unwind(|| answer(&event));
    if answered.is_err() {
        failure::complain("aot: the hook has a bug, and was left out");
    }
    ExitCode::SUCCESS
}

impl Verb for HookArgs {
    fn run(&self, _: &Invocation) -> Result<Answer, Failure> {
        answer(&self.event);
        Ok(Answer::printed())
    }
}

fn answer(event: &str) {
    let mut text = Vec::new();
    // The input is read even if it is not needed, because a client may fail to write to a closed pipe.
    let read = std::io::stdin().lock().take(MAX_INPUT).read_to_end(&mut text);
    // An agent that `aot run` started belongs to no person's session.
    if read.is_err() || place::is_in_job() {
        return;
    }
    let Ok(path) = place::state_file(None) else { return };
    let Some(input) = HookInput::read(&text).filter(|input| !input.session_id.is_empty()) else { return };
    let invocation = Invocation { state: Some(path), format: OutputFormat::Json };
    let Ok(mut store) = invocation.store() else { return };
    let facts = match store.loop_facts::<Refusal>() {
        Ok(facts) => facts,
        Err(StoreError::Unreadable(unreadable)) => return show_broken(event, &input, &store, &unreadable),
        Err(_) => return,
    };
    match event {
        "session-start" => session_start(&input, store),
        "pre-tool-use" if !facts.belongs_to(&input.session_id) => ask_who_speaks_for_person(&input),
        _ if !facts.belongs_to(&input.session_id) => {}
        "pre-tool-use" => pre_tool_use(&invocation, facts, &input, store),
        "post-tool-use" => post_tool_use(&input, &store),
        "session-end" => session_end(&input, &mut store),
        "user-prompt-submit" => user_prompt_submit(&input, store),
        "subagent-start" => turn::agent_started(&facts, &input, store),
        "subagent-stop" => turn::agent_ended(&invocation, &facts, &input, store),
        "stop" => turn::session_ends_turn(&invocation, &facts, &input, store),
        _ => {}
    }
}

fn pre_tool_use(invocation: &Invocation, mut facts: LoopFacts, input: &HookInput, mut store: Store) {
    if let Some(after) = times::end_what_is_due(invocation, &facts, input, &store) {
        (facts, store) = after;
    }
    let home = store.file().home();
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let project = project_of(home, place::project_root(home.state()));
    let (root, trees) = (text(&project.root), text(&project.lent()));
    let (state, sidecar) = (text(home.state()), text(home.sidecar()));
    let program = place::program_file().map(|path| text(&path)).unwrap_or_default();
    let paths =
        ProjectPaths { root: &root, state: &state, sidecar: &sidecar, trees: &trees, program: &program };
    let target = input.target();
    let action = input.action(target.as_deref());
    let memory = caller_memory(input, action, &store);
    let call = ToolCall { session: &input.session_id, caller: input.caller(), action, memory: &memory };
    let is_protected = |path: &str| {
        let mut patterns = facts.protected.iter().filter_map(|pattern| Pattern::read(pattern).ok());
        patterns.any(|pattern| pattern.matches(path))
    };
    let mut ruling = rule(&facts, &paths, &call, &is_protected);
    if matches!(ruling, Ruling::Defer | Ruling::Allow) {
        if let Some(tree) = claimed_tree(&facts, &paths, &call) {
            step::remember(&store, &input.session_id, |note| note.set_tree(input.agent(), tree));
        }
        if matches!(action, Action::StartAgent { role: Some(_), .. }) {
            // Hooks of parallel starts run at the same time, so this one is counted first and then ruled on again.
            ruling = step::remember(&store, &input.session_id, |note| {
                note.started += 1;
                let started = note.started - 1;
                let memory = CallerMemory { started, busy: busy_trees(note), ..memory.clone() };
                let call = ToolCall { memory: &memory, ..call };
                let ruling = rule(&facts, &paths, &call, &is_protected);
                let tree = assigned_tree(&facts, &paths, &call);
                if let (Ruling::Defer | Ruling::Allow, Some(tree)) = (&ruling, tree) {
                    let sent = SentWorker { call: input.tool_use_id.clone(), agent: None };
                    note.workers.insert(tree, sent);
                }
                ruling
            });
        }
    }
    match ruling {
        // A command that is typed nearer to another loop would change that one.
        Ruling::Allow if !is_found_from(input.cwd.as_deref(), home.state()) => {}
        Ruling::Defer => {}
        Ruling::Allow => client::permit("allow", text::ALLOWED),
        Ruling::AskPerson => client::permit("ask", text::ASK_PERSON),
        Ruling::Deny(denial) => client::permit("deny", &format!("aot: {}", text::denial(&denial))),
    }
}

/// In a session that does not own the loop one thing is asked all the same: nobody confirms in a person's name, whatever a
/// slash command allows.
fn ask_who_speaks_for_person(input: &HookInput) {
    let program = place::program_file().unwrap_or_default();
    if let Action::RunCommand(text) = input.action(None)
        && speaks_for_person(&program.to_string_lossy(), text)
    {
        client::permit("ask", text::ASK_PERSON);
    }
}

/// A worker that was sent has answered or was launched. In the session's own thread this is where the user and the model
/// are told what an agent or a command of the loop came to.
fn post_tool_use(input: &HookInput, store: &Store) {
    if matches!(input.tool_name.as_str(), "Agent" | "Task") {
        step::remember(store, &input.session_id, |note| {
            note.call_returned(&input.tool_use_id, input.still_running());
        });
    }
    if input.agent_type.is_none() {
        let mut untold = Untold::take(store, input);
        if input.has_entered()
            && input.asks_before_edits()
            && !untold.lines.is_empty()
            && untold.end.is_none()
        {
            untold.lines.push(text::EDITS_ASK.into());
        }
        client::say("PostToolUse", &untold.whole());
    }
}

/// What the user and the session's model have not been told yet.
#[derive(Default)]
struct Untold {
    lines: Vec<String>,
    end: Option<Certificate>,
    /// What is to be said of files that no commit has.
    untracked: Option<String>,
}

impl Untold {
    /// Each line and each end is told once, so whoever takes it tells it.
    fn take(store: &Store, input: &HookInput) -> Untold {
        let note = step::memory_of(store, &input.session_id);
        if note.end_to_show.is_none() && note.lines.is_empty() && note.news.is_empty() {
            return Untold::default();
        }
        let (mut lines, news, end, untracked) = step::remember(store, &input.session_id, |note| {
            let (lines, news) = (std::mem::take(&mut note.lines), std::mem::take(&mut note.news));
            (lines, news, note.end_to_show.take(), std::mem::take(&mut note.untracked))
        });
        lines.extend(news.iter().map(text::iteration));
        lines.extend(end.as_ref().map(|end| format!("aot: {}", text::halted(end))));
        let untracked = (!untracked.is_empty() && end.as_ref().is_some_and(|end| end.exit == 0))
            .then(|| format!("aot: {}", text::untracked(&untracked)));
        lines.extend(untracked.clone());
        Untold { lines, end, untracked }
    }

    fn for_user(&self) -> Option<String> {
        (!self.lines.is_empty()).then(|| self.lines.join("\n"))
    }

    /// For a hook that the user does not see.
    fn whole(&self) -> Words {
        let model = self.end.as_ref().map(|end| {
            let untracked = self.untracked.as_ref().map(|text| format!("\n{text}"));
            format!("aot: {}{}", text::halted(end), untracked.unwrap_or_default())
        });
        Words { model, user: self.for_user() }
    }
}

/// Whether a command that is typed there would find this loop.
fn is_found_from(cwd: Option<&str>, state: &Path) -> bool {
    let Some(cwd) = cwd else { return true };
    place::state_file_from(Path::new(cwd))
        .is_none_or(|found| found.canonicalize().is_ok_and(|found| found == state))
}

/// What the session remembers of the caller; read only if a ruling can depend on it.
fn caller_memory(input: &HookInput, action: Action<'_>, store: &Store) -> CallerMemory {
    if !matches!(action, Action::StartAgent { .. }) && input.role().is_none() {
        return CallerMemory::default();
    }
    let note = step::memory_of(store, &input.session_id);
    let agent = input.agent();
    CallerMemory {
        tree: note.trees.get(agent).cloned(),
        replaced: note.is_replaced(agent),
        started: note.started,
        busy: busy_trees(&note),
    }
}

fn busy_trees(note: &SessionMemory) -> Vec<String> {
    note.workers.keys().cloned().collect()
}

fn session_start(input: &HookInput, mut store: Store) {
    let Ok((_, state)) = store.load::<Refusal>() else { return };
    if let Some(text) = text::welcome(state, &input.session_id) {
        client::add_context("SessionStart", &text);
    }
}

fn session_end(input: &HookInput, store: &mut Store) {
    // If the loop cannot be released now, the next session has to take it over.
    let _ = session::leave(store, &input.session_id);
}

/// What happened meanwhile is told with the next prompt. An agent of the session that has ended says something about the
/// loop; the session also learns what the file says.
fn user_prompt_submit(input: &HookInput, mut store: Store) {
    let mut words = Untold::take(&store, input).whole();
    if words.model.is_none()
        && input.is_task_notification()
        && let Ok((_, state)) = store.load::<Refusal>()
    {
        words.model = Some(format!("aot: {}", text::status_line(state)));
    }
    client::say("UserPromptSubmit", &words);
}

/// Shows a broken state file once, in the session that owned it.
fn show_broken(event: &str, input: &HookInput, store: &Store, unreadable: &Unreadable) {
    let note = step::memory_of(store, &input.session_id);
    let what = unreadable
        .findings
        .first()
        .map(|first| format!("{} (line {}, column {})", first.message, first.place.line, first.place.column));
    let what = what.unwrap_or_else(|| "it cannot be read".into());
    if !note.running || event == "pre-tool-use" || note.told_broken.as_ref() == Some(&what) {
        return;
    }
    step::remember(store, &input.session_id, |note| note.told_broken = Some(what.clone()));
    client::show_user(&format!("aot: the state file is broken: {what}. `aot validate` shows every mistake."));
}
