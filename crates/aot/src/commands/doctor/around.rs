//! What a loop meets besides the machine itself: the repository, the agents, the plugin in Claude Code.

use std::path::{Path, PathBuf};
use std::time::Duration;

use aot_runner::agents::AgentLauncher;
use aot_runner::agents::detect::{self, LoginState};
use aot_runner::host;
use aot_runner::process::Guard;
use aot_runner::process::cage::Kind;
use aot_runner::settings::Settings;
use aot_runner::tree::{self, StateInGit};
use serde_json::{Value, json};

use super::{Finding, good, note, problem};
use crate::commands::workspace::project;
use crate::commands::{VERSION, plugin};
use crate::failure::Failure;
use crate::place;

/// How long an agent may take to print its version.
const PATIENCE: Duration = Duration::from_secs(10);

/// So many files with uncommitted edits are named.
const NAMED: usize = 3;

/// What is not committed, and what git makes of the state file.
pub(super) fn repository(state: Option<&Path>, root: &Path, guard: &Guard) -> Result<Vec<Finding>, Failure> {
    let without = root.join(place::STATE_FILE);
    let project = project(state.unwrap_or(&without))?;
    let mut found = Vec::new();
    if let Some(error) = tree::why_unopened(root, guard) {
        return Ok(vec![problem("repository", error.to_string(), &error.hint())]);
    }
    let in_git = match tree::state_in_git(&project, guard) {
        Ok(in_git) => in_git,
        Err(error) => return Ok(vec![note("repository", error.to_string(), "see the cause")]),
    };
    if in_git == StateInGit::NoRepository {
        let said = "not a git repository: workers take turns in the folder itself";
        return Ok(vec![good("repository", said)]);
    }
    found.push(match tree::uncommitted(&project, guard) {
        Ok(paths) if paths.is_empty() => good("repository", "no uncommitted edits"),
        Ok(paths) => {
            let named = paths.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = if paths.len() > NAMED { ", …" } else { "" };
            let said = format!("uncommitted edits ({}): {named}{more}", paths.len());
            let remedy = "commit them, type `git stash`, or land elsewhere: `aot run --branch NAME`";
            note("repository", said, remedy)
        }
        Err(error) => note("repository", error.to_string(), "see the cause"),
    });
    if state.is_some() {
        found.push(match in_git {
            StateInGit::Tracked => {
                let said = "git tracks the state file: each step of a loop is an uncommitted edit of it";
                note("tracked", said, "keep it so to share the loop; else `git rm --cached` it")
            }
            StateInGit::Untracked => {
                let said = "git shows the state file as untracked, and `git add -A` would commit it";
                note("tracked", said, "add its path to .git/info/exclude, or commit it to share the loop")
            }
            StateInGit::Ignored | StateInGit::NoRepository => good("tracked", "git ignores the state file"),
        });
    }
    Ok(found)
}

/// The agents that are here, and whether one of them can work.
pub(super) struct Agents {
    pub found: Vec<Finding>,
    pub is_one_ready: bool,
}

pub(super) fn agents(
    settings: &Settings,
    cage: Kind,
    root: &Path,
    scratch: &Path,
    guard: &Guard,
) -> Result<Agents, Failure> {
    let launcher = AgentLauncher {
        itself: place::program_file()?,
        guard: guard.clone(),
        cage,
        writable: Vec::new(),
        hidden: Vec::new(),
        network: settings.cage.network.clone(),
        variables: std::env::vars_os().collect(),
        further: settings.work.environment.clone(),
        home: place::home(),
        sidecar: scratch.to_path_buf(),
        project: root.to_path_buf(),
    };
    let mut all = detect::all(root, &settings.agents, &launcher, guard, PATIENCE, &place::program);
    all.retain(|agent| agent.program.is_some());
    let is_one_ready = all.iter().any(|agent| agent.login != LoginState::No);
    let mut found: Vec<Finding> = all
        .iter()
        .map(|agent| {
            let version = agent.version.as_deref().unwrap_or("version unknown");
            let name = &agent.name;
            match agent.login {
                LoginState::Yes => good("agent", format!("{name}: {version}, logged in")),
                LoginState::Unknown => good("agent", format!("{name}: {version}, login unknown")),
                LoginState::No => note("agent", format!("{name}: {version}, not logged in"), &agent.hint),
            }
        })
        .collect();
    if found.is_empty() {
        let remedy = "install Claude Code, Codex, Gemini or opencode, or name your own in aot.toml";
        found.push(note("agent", "none is found on the search path", remedy));
    }
    Ok(Agents { found, is_one_ready })
}

/// The plugin, wherever it is installed: of this version, and its hooks answer.
pub(super) fn plugins(root: &Path, scratch: &Path, guard: &Guard) -> Vec<Finding> {
    let folders = plugin::installed();
    if folders.is_empty() {
        return vec![good("plugin", "not installed; only sessions of Claude Code need it")];
    }
    let mut found: Vec<Finding> = folders.iter().map(|folder| version(folder, scratch, guard)).collect();
    found.extend(folders.iter().map(|folder| hooks(folder, root, scratch, guard)));
    found
}

const INSTALL: &str = "type `aot plugin install`, and begin a new session";

fn version(folder: &Path, scratch: &Path, guard: &Guard) -> Finding {
    let (shown, program) = (folder.display(), plugin::program_in(folder));
    match host::hear(guard, &program, &["--version"], scratch, &[]) {
        Err(why) => problem("plugin", format!("the program in {shown} does not start: {why}"), INSTALL),
        Ok(said) if said.trim() != format!("aot {VERSION}") => {
            let said = format!("{shown} has {}, and this is aot {VERSION}", said.trim());
            note("plugin", said, INSTALL)
        }
        Ok(_) => match plugin::outdated(folder) {
            Some(path) => note("plugin", format!("{shown}: {path} is not of this version"), INSTALL),
            None => good("plugin", format!("{shown}, of this version")),
        },
    }
}

/// Hooks that do not fire stop nothing and say nothing, so that this is the only place to find out.
fn hooks(folder: &Path, root: &Path, scratch: &Path, guard: &Guard) -> Finding {
    if let Some(file) = switched_off(root) {
        let said =
            format!("{} switches all hooks off (disableAllHooks): a session keeps no rule", file.display());
        return problem("hooks", said, "take `disableAllHooks` out of it");
    }
    let event = json!({
        "hook_event_name": "SessionStart", "session_id": "doctor", "cwd": scratch, "source": "startup",
    });
    let program = plugin::program_in(folder);
    match host::hear(guard, &program, &["hook", "session-start"], scratch, event.to_string().as_bytes()) {
        Ok(_) => good("hooks", "the plugin's hooks answer, and no settings of Claude Code switch them off"),
        Err(why) => problem("hooks", format!("{} does not answer: {why}", program.display()), INSTALL),
    }
}

/// The settings of Claude Code that switch hooks off for sessions here.
fn switched_off(root: &Path) -> Option<PathBuf> {
    let own = place::host_config().map(|folder| folder.join("settings.json"));
    let project = ["settings.json", "settings.local.json"].map(|name| root.join(".claude").join(name));
    own.into_iter().chain(project).find(|file| {
        let settings = std::fs::read(file).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        settings.is_some_and(|settings| settings["disableAllHooks"] == true)
    })
}
