//! Who may use a tool of the host on what. Roles come from the host, which may not run a hook at all, so nothing rests
//! on these rulings alone: what lands is checked again.

use super::verbs::{self, Verb};
use super::{HostRole, LoopFacts, read_only};
use crate::state::LoopStatus;

/// Where a project's things lie, as absolute paths without links.
#[derive(Clone, Copy, Debug)]
pub struct ProjectPaths<'p> {
    pub root: &'p str,
    pub state: &'p str,
    /// The folder beside the state file.
    pub sidecar: &'p str,
    /// The folder of the workers' trees.
    pub trees: &'p str,
    /// The file of this program.
    pub program: &'p str,
}

/// Who uses a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The session itself, outside of any agent.
    Session,
    Agent(HostRole),
    /// An agent that has no role in the loop.
    OtherAgent,
}

/// What a session remembers of a caller between two calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerMemory {
    /// The tree that this worker has claimed.
    pub tree: Option<String>,
    /// Another coordinator has taken this one's place.
    pub replaced: bool,
    /// How many of the loop's agents were started in this turn.
    pub started: u64,
    /// The trees that a worker works in.
    pub busy: Vec<String>,
}

/// What a tool is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'c> {
    /// Write this file; the path is absolute and without links.
    WriteFile(&'c str),
    RunCommand(&'c str),
    /// Start an agent; `None` if it has no role in the loop.
    StartAgent {
        role: Option<HostRole>,
        prompt: &'c str,
    },
    /// Call a verb of this program over a protocol, by its tool name.
    CallVerb(&'c str),
    /// Load what the plugin teaches its agents.
    LoadSkill,
    /// Read, search or plan.
    Read,
    /// Use a tool of which nothing is known.
    UseOtherTool,
}

#[derive(Clone, Copy, Debug)]
pub struct ToolCall<'c> {
    pub session: &'c str,
    pub caller: Caller,
    pub action: Action<'c>,
    pub memory: &'c CallerMemory,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ruling {
    /// The user's own permissions decide.
    Defer,
    Allow,
    /// The call confirms something in a person's name, so a person is asked.
    AskPerson,
    Deny(Denial),
}

/// Why a call is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    Redirecting,
    /// The loop has stopped, so nothing is left to coordinate.
    LoopStopped,
    CoordinatorReplaced,
    /// The attempt that this tree belonged to has ended.
    AttemptEnded {
        tree: String,
    },
    /// Only this program writes the state file and what lies beside it.
    StateFile,
    Protected {
        path: String,
    },
    /// No attempt uses this tree.
    UnusedTree {
        tree: String,
    },
    OtherWorkersTree,
    OutsideTree {
        trees: String,
    },
    ToolNotForRole(HostRole),
    WritesNoFiles(HostRole),
    OnlyReads(HostRole),
    /// Only the coordinator and the session change the loop.
    ChangesNoLoop(HostRole),
    /// The coordinator neither interrupts the loop nor takes it up.
    NotCoordinatorsDecision,
    /// The coordinator brings no commands to run and redirects nothing.
    CoordinatorRestricted,
    CoordinatorUsesVerbs,
    VerifierRunsChecks,
    OnlyVerifierJudges(HostRole),
    NeedsPerson(HostRole),
    StartsNoAgents(HostRole),
    StartsNoLoopAgents(HostRole),
    CoordinatorStartsLoopAgents,
    TurnLimit {
        agents: u64,
    },
    /// The prompt of a worker names no atom in progress.
    NoAtomInProgress,
    /// One worker works in a tree at a time, and so no more of them than `max_parallel_agents`.
    TreeBusy {
        tree: String,
    },
}

/// Rules on one call. `is_protected` tells of a path of the project whether no agent may change it.
pub fn rule(
    facts: &LoopFacts,
    paths: &ProjectPaths<'_>,
    call: &ToolCall<'_>,
    is_protected: &dyn Fn(&str) -> bool,
) -> Ruling {
    if !facts.belongs_to(call.session) {
        return Ruling::Defer;
    }
    if let Some(denial) = must_end(facts, call) {
        return Ruling::Deny(denial);
    }
    let ruled = match call.action {
        Action::WriteFile(path) => write_file(facts, paths, call, path, is_protected),
        Action::RunCommand(text) => run_command(facts, paths, call, text),
        Action::StartAgent { role, prompt } => start_agent(facts, paths, call, role, prompt),
        Action::CallVerb(tool) => call_verb(call.caller, tool),
        Action::LoadSkill => load_skill(call.caller),
        Action::Read => Ok(Ruling::Defer),
        Action::UseOtherTool => use_other_tool(call.caller),
    };
    ruled.unwrap_or_else(Ruling::Deny)
}

/// The tree that a worker claims by this call, if it has claimed none: the one whose brief it reads, or the first one
/// that it writes in or names.
pub fn claimed_tree(facts: &LoopFacts, paths: &ProjectPaths<'_>, call: &ToolCall<'_>) -> Option<String> {
    if call.caller != Caller::Agent(HostRole::Worker) || call.memory.tree.is_some() {
        return None;
    }
    let mut trees = facts.trees();
    let claimed = match call.action {
        Action::WriteFile(path) => {
            let (name, _) = below(path, paths.trees)?.split_once('/')?;
            trees.find(|(_, tree)| tree == name)
        }
        Action::RunCommand(text) => match verbs::briefed_atom(paths.program, text) {
            Some(id) => trees.find(|(atom, _)| atom.as_str() == id),
            None => trees.find(|(_, tree)| names_tree(paths, text, tree)),
        },
        Action::StartAgent { .. }
        | Action::CallVerb(_)
        | Action::LoadSkill
        | Action::Read
        | Action::UseOtherTool => None,
    };
    claimed.map(|(_, tree)| tree)
}

/// The tree that a worker is sent to by this call: a free one that its prompt names, by its folder or by its atom.
pub fn assigned_tree(facts: &LoopFacts, paths: &ProjectPaths<'_>, call: &ToolCall<'_>) -> Option<String> {
    let Action::StartAgent { role: Some(HostRole::Worker), prompt } = call.action else { return None };
    free_tree(facts, paths, call.memory, prompt).ok()
}

fn free_tree(
    facts: &LoopFacts,
    paths: &ProjectPaths<'_>,
    memory: &CallerMemory,
    prompt: &str,
) -> Result<String, Denial> {
    let by_folder: Vec<String> =
        facts.trees().filter(|(_, tree)| names_tree(paths, prompt, tree)).map(|(_, tree)| tree).collect();
    let by_atom =
        || facts.trees().filter(|(atom, _)| mentions(prompt, atom.as_str())).map(|(_, tree)| tree).collect();
    let named: Vec<String> = if by_folder.is_empty() { by_atom() } else { by_folder };
    match named.iter().find(|tree| !memory.busy.contains(tree)) {
        Some(free) => Ok(free.clone()),
        None => {
            Err(named.into_iter().next().map_or(Denial::NoAtomInProgress, |tree| Denial::TreeBusy { tree }))
        }
    }
}

/// Why a caller has nothing left to do, whatever it wants.
fn must_end(facts: &LoopFacts, call: &ToolCall<'_>) -> Option<Denial> {
    let Caller::Agent(role) = call.caller else { return None };
    if facts.redirecting && role != HostRole::Coordinator {
        return Some(Denial::Redirecting);
    }
    if role == HostRole::Coordinator && facts.status == LoopStatus::Stopped {
        return Some(Denial::LoopStopped);
    }
    if role == HostRole::Coordinator && call.memory.replaced {
        return Some(Denial::CoordinatorReplaced);
    }
    let tree = call.memory.tree.as_ref().filter(|tree| facts.separate_trees && !facts.has_tree(tree))?;
    Some(Denial::AttemptEnded { tree: tree.clone() })
}

fn write_file(
    facts: &LoopFacts,
    paths: &ProjectPaths<'_>,
    call: &ToolCall<'_>,
    path: &str,
    is_protected: &dyn Fn(&str) -> bool,
) -> Result<Ruling, Denial> {
    let in_tree = below(path, paths.trees).and_then(|rest| rest.split_once('/'));
    if path == paths.state || (below(path, paths.sidecar).is_some() && in_tree.is_none()) {
        return Err(Denial::StateFile);
    }
    if facts.is_running() {
        let within = in_tree.map(|(_, path)| path).or_else(|| below(path, paths.root));
        if let Some(path) = within.filter(|path| is_protected(path)) {
            return Err(Denial::Protected { path: path.to_owned() });
        }
        if let Some((tree, _)) = in_tree.filter(|(tree, _)| facts.separate_trees && !facts.has_tree(tree)) {
            return Err(Denial::UnusedTree { tree: tree.to_owned() });
        }
    }
    match call.caller {
        Caller::Agent(role @ (HostRole::Probe | HostRole::Verifier | HostRole::Coordinator)) => {
            Err(Denial::WritesNoFiles(role))
        }
        Caller::Agent(HostRole::Worker) if facts.is_running() => match in_tree {
            Some((tree, _)) if has_claimed_another(call.memory, tree) => Err(Denial::OtherWorkersTree),
            None if facts.separate_trees && below(path, paths.root).is_some() => {
                Err(Denial::OutsideTree { trees: paths.trees.to_owned() })
            }
            Some(_) | None => Ok(Ruling::Defer),
        },
        Caller::Agent(HostRole::Worker) | Caller::Session | Caller::OtherAgent => Ok(Ruling::Defer),
    }
}

fn run_command(
    facts: &LoopFacts,
    paths: &ProjectPaths<'_>,
    call: &ToolCall<'_>,
    text: &str,
) -> Result<Ruling, Denial> {
    if let Some(verb) = verbs::verb(paths.program, text) {
        return match call.caller {
            Caller::Session => Ok(session_verb(facts, verb)),
            Caller::Agent(role) => agent_verb(facts, role, verb),
            // An agent without a role is not the session that owns the loop.
            Caller::OtherAgent if verb == Verb::ReadOnly => Ok(Ruling::Allow),
            Caller::OtherAgent => Ok(Ruling::Defer),
        };
    }
    if read_only::only_reads(text) {
        return Ok(Ruling::Defer);
    }
    if names_state(paths, text) {
        return Err(Denial::StateFile);
    }
    match call.caller {
        Caller::Session | Caller::OtherAgent => Ok(Ruling::Defer),
        Caller::Agent(role @ HostRole::Worker) if verbs::seems_to_change_loop(text) => {
            Err(Denial::ChangesNoLoop(role))
        }
        Caller::Agent(HostRole::Worker) => {
            let names_another =
                |tree: &str| has_claimed_another(call.memory, tree) && names_tree(paths, text, tree);
            if facts.trees().any(|(_, tree)| names_another(&tree)) {
                Err(Denial::OtherWorkersTree)
            } else {
                Ok(Ruling::Defer)
            }
        }
        Caller::Agent(HostRole::Verifier) if facts.is_check(text) => Ok(Ruling::Defer),
        Caller::Agent(HostRole::Verifier) => Err(Denial::VerifierRunsChecks),
        Caller::Agent(role @ HostRole::Probe) => Err(Denial::OnlyReads(role)),
        Caller::Agent(HostRole::Coordinator) => Err(Denial::CoordinatorUsesVerbs),
    }
}

fn session_verb(facts: &LoopFacts, verb: Verb) -> Ruling {
    match verb {
        Verb::ReadOnly | Verb::RunsChecks | Verb::LoopStep | Verb::HoldRedirect => Ruling::Allow,
        Verb::AddsChecks(checks) => added_checks(facts, &checks),
        Verb::NeedsPerson => Ruling::AskPerson,
        Verb::Lifecycle | Verb::Restricted | Verb::HandsInScores => Ruling::Defer,
    }
}

fn agent_verb(facts: &LoopFacts, role: HostRole, verb: Verb) -> Result<Ruling, Denial> {
    match (verb, role) {
        (Verb::ReadOnly, _) => Ok(Ruling::Allow),
        (Verb::RunsChecks, HostRole::Probe) => Err(Denial::OnlyReads(role)),
        (Verb::RunsChecks, _) => Ok(Ruling::Allow),
        (Verb::NeedsPerson, _) => Err(Denial::NeedsPerson(role)),
        // Nobody judges their own work, and whoever coordinates has an interest in the end (D21).
        (Verb::HandsInScores, HostRole::Verifier) => Ok(Ruling::Allow),
        (Verb::HandsInScores, _) => Err(Denial::OnlyVerifierJudges(role)),
        (Verb::LoopStep, HostRole::Coordinator) => Ok(Ruling::Allow),
        (Verb::AddsChecks(checks), HostRole::Coordinator) => Ok(added_checks(facts, &checks)),
        (Verb::HoldRedirect | Verb::Lifecycle, HostRole::Coordinator) => Err(Denial::NotCoordinatorsDecision),
        (Verb::Restricted, HostRole::Coordinator) => Err(Denial::CoordinatorRestricted),
        (
            Verb::LoopStep | Verb::HoldRedirect | Verb::Lifecycle | Verb::AddsChecks(_) | Verb::Restricted,
            HostRole::Probe | HostRole::Worker | HostRole::Verifier,
        ) => Err(Denial::ChangesNoLoop(role)),
    }
}

/// A check of the base case may be run, because it was agreed on; any other command is the user's to allow.
fn added_checks(facts: &LoopFacts, checks: &[String]) -> Ruling {
    if checks.iter().all(|check| facts.is_check(check)) { Ruling::Allow } else { Ruling::Defer }
}

fn start_agent(
    facts: &LoopFacts,
    paths: &ProjectPaths<'_>,
    call: &ToolCall<'_>,
    started: Option<HostRole>,
    prompt: &str,
) -> Result<Ruling, Denial> {
    match (call.caller, started) {
        (Caller::Agent(role @ (HostRole::Probe | HostRole::Verifier)), _) => {
            return Err(Denial::StartsNoAgents(role));
        }
        (Caller::Agent(role @ HostRole::Worker), Some(_)) => return Err(Denial::StartsNoLoopAgents(role)),
        (Caller::Agent(HostRole::Coordinator), None | Some(HostRole::Coordinator)) => {
            return Err(Denial::CoordinatorStartsLoopAgents);
        }
        (
            Caller::Agent(HostRole::Worker | HostRole::Coordinator) | Caller::Session | Caller::OtherAgent,
            _,
        ) => {}
    }
    let Some(started) = started.filter(|_| facts.is_running()) else { return Ok(Ruling::Defer) };
    if call.memory.started >= facts.agents_per_turn {
        return Err(Denial::TurnLimit { agents: facts.agents_per_turn });
    }
    match started {
        HostRole::Worker => free_tree(facts, paths, call.memory, prompt).map(|_| Ruling::Defer),
        HostRole::Coordinator | HostRole::Probe | HostRole::Verifier => Ok(Ruling::Defer),
    }
}

fn call_verb(caller: Caller, tool: &str) -> Result<Ruling, Denial> {
    match caller {
        Caller::Agent(role @ HostRole::Worker) if verbs::tool_changes_loop(tool) => {
            Err(Denial::ChangesNoLoop(role))
        }
        Caller::Agent(_) | Caller::Session | Caller::OtherAgent => use_other_tool(caller),
    }
}

/// What the plugin teaches is for the agent that coordinates, which has no person to ask.
fn load_skill(caller: Caller) -> Result<Ruling, Denial> {
    match caller {
        Caller::Agent(HostRole::Coordinator) => Ok(Ruling::Allow),
        Caller::Agent(_) | Caller::Session | Caller::OtherAgent => use_other_tool(caller),
    }
}

fn use_other_tool(caller: Caller) -> Result<Ruling, Denial> {
    match caller {
        Caller::Agent(role @ (HostRole::Probe | HostRole::Verifier | HostRole::Coordinator)) => {
            Err(Denial::ToolNotForRole(role))
        }
        Caller::Agent(HostRole::Worker) | Caller::Session | Caller::OtherAgent => Ok(Ruling::Defer),
    }
}

fn has_claimed_another(memory: &CallerMemory, tree: &str) -> bool {
    memory.tree.as_deref().is_some_and(|own| own != tree)
}

fn names_tree(paths: &ProjectPaths<'_>, text: &str, tree: &str) -> bool {
    mentions_path(text, &format!("{}/{tree}", file_name(paths.trees)))
}

/// Whether a command mentions the state file, or what lies beside it.
fn names_state(paths: &ProjectPaths<'_>, text: &str) -> bool {
    let sidecar = below(paths.sidecar, paths.root).unwrap_or(paths.sidecar);
    text.contains(file_name(paths.state)) || mentions_path(text, sidecar)
}

/// Whether a text holds this path, and not only the beginning of a longer name.
fn mentions_path(text: &str, path: &str) -> bool {
    text.match_indices(path).any(|(at, _)| {
        let next = text[at + path.len()..].chars().next();
        next.is_none_or(|c| !(c.is_alphanumeric() || "-_.".contains(c)))
    })
}

/// Whether a text names an atom; a full stop may follow it.
fn mentions(text: &str, id: &str) -> bool {
    let mut words = text.split(|c: char| !(c.is_alphanumeric() || "_-.".contains(c)));
    words.any(|word| word == id || word.trim_end_matches('.') == id)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The rest of a path inside a folder.
fn below<'t>(path: &'t str, folder: &str) -> Option<&'t str> {
    path.strip_prefix(folder)?.strip_prefix('/').filter(|rest| !rest.is_empty())
}
