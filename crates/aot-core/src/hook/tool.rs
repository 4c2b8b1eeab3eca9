//! Before a tool of the host is used: who may use it on what. Roles are told by the type of the agent. A hook that does
//! not run stops nobody, so this is the nearest fence and not the last: what lands is looked at again.

use serde_json::Value;

use super::verbs::{self, Verb};
use super::{Role, Standing, command, tree_of};

/// Where things lie, as absolute paths without links.
#[derive(Clone, Copy, Debug)]
pub struct Place<'p> {
    pub root: &'p str,
    pub state: &'p str,
    /// The folder beside the state file.
    pub sidecar: &'p str,
    /// The folder of the workers' trees.
    pub trees: &'p str,
    /// This very program.
    pub program: &'p str,
}

/// What is remembered of whoever uses a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The tree that this worker has settled on.
    pub tree: Option<String>,
    /// Another one coordinates in the place of this one.
    pub replaced: bool,
    /// So many agents of ours were started in this turn.
    pub started: u64,
}

/// A tool that somebody is about to use.
#[derive(Clone, Copy, Debug)]
pub struct Call<'c> {
    pub session: &'c str,
    /// None for the session itself.
    pub agent_type: Option<&'c str>,
    pub tool: &'c str,
    pub input: &'c Value,
    /// The file that is to be written, absolute and without links, if the tool writes one.
    pub target: Option<&'c str>,
    pub known: &'c Known,
}

impl Call<'_> {
    fn role(&self) -> Option<Role> {
        self.agent_type.and_then(Role::of)
    }

    fn command(&self) -> Option<&str> {
        (self.tool == "Bash").then(|| self.input["command"].as_str().unwrap_or_default())
    }

    /// Which of our agents is to be started.
    fn called(&self) -> Option<Role> {
        let starts = matches!(self.tool, "Agent" | "Task");
        starts.then(|| self.input["subagent_type"].as_str().and_then(Role::of)).flatten()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ruling {
    /// The user's permissions decide.
    Silent,
    Allow,
    Ask(String),
    Deny(String),
}

/// Tools that only look, or only think.
const LOOKS: [&str; 9] =
    ["Read", "Glob", "Grep", "LS", "NotebookRead", "WebFetch", "WebSearch", "TodoWrite", "ToolSearch"];

const NO_STEPS: &str = "does not change the loop: end with your answer, the coordinator does the rest";

/// What may be done with a tool. `protected` says whether a path of the project may not be changed by anybody.
pub fn before_tool(
    standing: &Standing,
    place: &Place<'_>,
    call: &Call<'_>,
    protected: &dyn Fn(&str) -> bool,
) -> Ruling {
    if !standing.belongs_to(call.session) {
        return Ruling::Silent;
    }
    let role = call.role();
    if standing.redirecting && role.is_some_and(|role| role != Role::Coordinator) {
        return Ruling::Deny("the loop is being redirected: end now, what you did is discarded".into());
    }
    if role == Some(Role::Coordinator) && call.known.replaced {
        return deny(role, "has been replaced by another one: end now");
    }
    if let Some(tree) = call.known.tree.as_deref().filter(|tree| standing.trees && !standing.lends(tree)) {
        return Ruling::Deny(format!("{tree} was taken from you: end now, what you did there is discarded"));
    }
    if let Some(target) = call.target {
        return writing(standing, place, call, target, protected);
    }
    if let Some(text) = call.command() {
        return running(standing, place, call, text);
    }
    match call.tool {
        "Agent" | "Task" => calling(standing, call),
        tool => match role {
            Some(Role::Probe | Role::Verifier | Role::Coordinator) if !LOOKS.contains(&tool) => {
                deny(role, "may not use this tool")
            }
            Some(Role::Worker) if verbs::is_step_over_protocol(tool) => deny(role, NO_STEPS),
            Some(Role::Probe | Role::Verifier | Role::Coordinator | Role::Worker) | None => Ruling::Silent,
        },
    }
}

/// A file is to be written with the host's own tool.
fn writing(
    standing: &Standing,
    place: &Place<'_>,
    call: &Call<'_>,
    target: &str,
    protected: &dyn Fn(&str) -> bool,
) -> Ruling {
    let role = call.role();
    let in_tree = below(target, place.trees).and_then(|rest| rest.split_once('/'));
    if target == place.state || (below(target, place.sidecar).is_some() && in_tree.is_none()) {
        let verbs = "`aot atom …`, `aot or …`, `aot redirect …`";
        return Ruling::Deny(format!(
            "only the program writes the state of the loop; use its verbs: {verbs}"
        ));
    }
    if !standing.is_running() {
        return match role {
            Some(Role::Probe | Role::Verifier | Role::Coordinator) => deny(role, "writes no files"),
            Some(Role::Worker) | None => Ruling::Silent,
        };
    }
    let within = in_tree.map(|(_, path)| path).or_else(|| below(target, place.root));
    if let Some(path) = within.filter(|path| protected(path)) {
        return Ruling::Deny(format!("`{path}` is protected: it was agreed on, and nobody may change it"));
    }
    if let Some((tree, _)) = in_tree.filter(|(tree, _)| standing.trees && !standing.lends(tree)) {
        return Ruling::Deny(format!(
            "the tree {tree} is lent to nobody any more: what is written there is lost"
        ));
    }
    match role {
        Some(Role::Probe | Role::Verifier | Role::Coordinator) => deny(role, "writes no files"),
        Some(Role::Worker) if in_tree.is_some_and(|(tree, _)| is_not_own(call.known, tree)) => others_tree(),
        Some(Role::Worker) if standing.trees && in_tree.is_none() && below(target, place.root).is_some() => {
            Ruling::Deny(format!("work in the tree that your brief names, below {}", place.trees))
        }
        Some(Role::Worker) | None => Ruling::Silent,
    }
}

/// A shell command is to be run.
fn running(standing: &Standing, place: &Place<'_>, call: &Call<'_>, text: &str) -> Ruling {
    let role = call.role();
    if let Some(verb) = verbs::verb(place.program, text) {
        // An agent that is none of ours is not the session that the loop belongs to.
        let stranger = role.is_none() && call.agent_type.is_some();
        return match (verb, role) {
            (Verb::Looks, _) => Ruling::Allow,
            (_, None) if stranger => Ruling::Silent,
            (Verb::Steps, None | Some(Role::Coordinator)) | (Verb::Talks, None) => Ruling::Allow,
            (Verb::Begins, None) => Ruling::Silent,
            (Verb::Talks | Verb::Begins, Some(Role::Coordinator)) => {
                deny(role, "neither interrupts the loop nor takes it up: end your turn")
            }
            (Verb::Checks, Some(Role::Probe)) => deny(role, "only reads"),
            (Verb::Checks, _) => Ruling::Allow,
            // What was agreed on may be run; any other command is the user's to allow.
            (Verb::Brings(checks), None | Some(Role::Coordinator)) => {
                let agreed = checks.iter().all(|check| is_check(standing, check));
                if agreed { Ruling::Allow } else { Ruling::Silent }
            }
            (Verb::Speaks, None) => Ruling::Ask("this speaks for a person".into()),
            (Verb::Speaks, Some(_)) => deny(role, "does not speak for a person: end and say what is needed"),
            (Verb::Reaches, None) => Ruling::Silent,
            (Verb::Reaches, Some(Role::Coordinator)) => {
                deny(role, "may not bring commands to run, or redirect; say what is needed")
            }
            (
                Verb::Steps | Verb::Talks | Verb::Begins | Verb::Brings(_) | Verb::Reaches,
                Some(Role::Probe | Role::Worker | Role::Verifier),
            ) => deny(role, NO_STEPS),
        };
    }
    if command::only_reads(text) {
        return Ruling::Silent;
    }
    if names_state(place, text) {
        return Ruling::Deny("only the program writes the state of the loop; use the verbs of `aot`".into());
    }
    match role {
        None => Ruling::Silent,
        Some(Role::Worker) if verbs::seems_to_step(text) => deny(role, NO_STEPS),
        Some(Role::Worker) => {
            let mut trees = standing.in_progress.iter().map(|(atom, attempt)| tree_of(atom, *attempt));
            let other = trees.any(|tree| is_not_own(call.known, &tree) && names_tree(place, text, &tree));
            if other { others_tree() } else { Ruling::Silent }
        }
        Some(Role::Verifier) if is_check(standing, text) => Ruling::Silent,
        Some(Role::Verifier) => {
            deny(role, "runs the checks of the base case and reads; `aot verify` runs them all")
        }
        Some(Role::Probe) => deny(role, "only reads"),
        Some(Role::Coordinator) => {
            deny(role, "uses the verbs of `aot`, one for each command, and leaves the work to workers")
        }
    }
}

/// An agent is to be started: a worker only for what was started.
fn calling(standing: &Standing, call: &Call<'_>) -> Ruling {
    let (role, called) = (call.role(), call.called());
    match role {
        Some(Role::Probe | Role::Verifier) => return deny(role, "starts nobody"),
        Some(Role::Worker) if called.is_some() => return deny(role, "starts no agents of the loop"),
        Some(Role::Coordinator) if called.is_none() => {
            return deny(role, "starts aot-worker, aot-probe, aot-verifier");
        }
        Some(Role::Coordinator | Role::Worker) | None => {}
    }
    if !standing.is_running() {
        return Ruling::Silent;
    }
    if called.is_some() && call.known.started >= standing.agents {
        let most = standing.agents;
        return Ruling::Deny(format!(
            "{most} agents were started in this turn, and no more may be: end your turn"
        ));
    }
    if called != Some(Role::Worker) {
        return Ruling::Silent;
    }
    let prompt = call.input["prompt"].as_str().unwrap_or_default();
    let named = |id: &str| {
        prompt
            .split(|c: char| !(c.is_alphanumeric() || "_-.".contains(c)))
            .any(|word| word == id || word.trim_end_matches('.') == id)
    };
    if standing.in_progress.iter().any(|(atom, _)| named(atom.as_str())) {
        return Ruling::Silent;
    }
    Ruling::Deny("the prompt of a worker names an atom that is in progress: `aot atom start ID` first".into())
}

/// Whether a tool starts an agent of ours, which is counted.
pub fn starts_one_of_ours(call: &Call<'_>) -> bool {
    call.called().is_some()
}

/// The tree that a worker settles on with this call, if it has none yet: the one whose brief it reads, or the first one
/// that it writes in or names.
pub fn settles_on(standing: &Standing, place: &Place<'_>, call: &Call<'_>) -> Option<String> {
    if call.role() != Some(Role::Worker) || call.known.tree.is_some() {
        return None;
    }
    let mut lent = standing.in_progress.iter().map(|(atom, attempt)| (atom, tree_of(atom, *attempt)));
    if let Some(target) = call.target {
        let (named, _) = below(target, place.trees)?.split_once('/')?;
        return lent.map(|(_, tree)| tree).find(|tree| tree == named);
    }
    let text = call.command()?;
    let briefed = verbs::briefed(place.program, text);
    let found = match &briefed {
        Some(id) => lent.find(|(atom, _)| atom.as_str() == id),
        None => lent.find(|(_, tree)| names_tree(place, text, tree)),
    };
    found.map(|(_, tree)| tree)
}

fn is_check(standing: &Standing, text: &str) -> bool {
    standing.checks.iter().any(|check| check.trim() == text.trim())
}

fn is_not_own(known: &Known, tree: &str) -> bool {
    known.tree.as_deref().is_some_and(|own| own != tree)
}

fn others_tree() -> Ruling {
    Ruling::Deny("that is the tree of another worker: work in your own".into())
}

/// Whether a command mentions this tree.
fn names_tree(place: &Place<'_>, text: &str, tree: &str) -> bool {
    let folder = place.trees.rsplit('/').next().unwrap_or(place.trees);
    let path = format!("{folder}/{tree}");
    text.match_indices(&path).any(|(at, _)| {
        let next = text[at + path.len()..].chars().next();
        next.is_none_or(|c| !(c.is_alphanumeric() || "-_.".contains(c)))
    })
}

/// Whether a command mentions the state file, or what lies beside it.
fn names_state(place: &Place<'_>, text: &str) -> bool {
    let name = place.state.rsplit('/').next().unwrap_or(place.state);
    let short = |path: &str| path.strip_prefix(place.root).unwrap_or(path).trim_start_matches('/').to_owned();
    let sidecar = short(place.sidecar);
    let beside = text.match_indices(&sidecar).any(|(at, _)| {
        let ends = text[at + sidecar.len()..].chars().next();
        ends.is_none_or(|c| !(c.is_alphanumeric() || "-_.".contains(c)))
    });
    text.contains(name) || beside
}

fn deny(role: Option<Role>, what: &str) -> Ruling {
    Ruling::Deny(format!("the {} {what}", role.map_or("session", Role::word)))
}

/// What lies behind a folder in a path.
fn below<'t>(path: &'t str, folder: &str) -> Option<&'t str> {
    path.strip_prefix(folder)?.strip_prefix('/').filter(|rest| !rest.is_empty())
}
