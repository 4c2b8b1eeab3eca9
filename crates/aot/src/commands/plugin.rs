//! `aot plugin …`: the plugin for Claude Code, which travels inside of this program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use aot_runner::host;
use aot_runner::process::Guard;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::{Invocation, Verb};
use crate::failure::Failure;
use crate::place;
use crate::print::Answer;

/// The name that the host knows it by.
const NAME: &str = "aot";

/// The list of projects that use the marketplace, in its folder.
const USERS: &str = "projects.json";

/// How often the status line is drawn anew.
const REFRESH_SECONDS: u32 = 5;

/// Every file of the plugin.
const FILES: [(&str, &[u8]); 17] = [
    (".claude-plugin/plugin.json", include_bytes!("../../../../plugin/.claude-plugin/plugin.json")),
    (".claude-plugin/icon.png", include_bytes!("../../../../plugin/.claude-plugin/icon.png")),
    ("agents/aot-coordinator.md", include_bytes!("../../../../plugin/agents/aot-coordinator.md")),
    ("agents/aot-probe.md", include_bytes!("../../../../plugin/agents/aot-probe.md")),
    ("agents/aot-verifier.md", include_bytes!("../../../../plugin/agents/aot-verifier.md")),
    ("agents/aot-worker.md", include_bytes!("../../../../plugin/agents/aot-worker.md")),
    ("commands/align-goal.md", include_bytes!("../../../../plugin/commands/align-goal.md")),
    ("commands/enter-recursion.md", include_bytes!("../../../../plugin/commands/enter-recursion.md")),
    ("commands/exit-recursion.md", include_bytes!("../../../../plugin/commands/exit-recursion.md")),
    ("commands/help.md", include_bytes!("../../../../plugin/commands/help.md")),
    ("commands/redirect.md", include_bytes!("../../../../plugin/commands/redirect.md")),
    ("commands/status.md", include_bytes!("../../../../plugin/commands/status.md")),
    ("hooks/hooks.json", include_bytes!("../../../../plugin/hooks/hooks.json")),
    ("skills/aot-dag/SKILL.md", include_bytes!("../../../../plugin/skills/aot-dag/SKILL.md")),
    ("skills/convergence/SKILL.md", include_bytes!("../../../../plugin/skills/convergence/SKILL.md")),
    ("skills/parallel-exec/SKILL.md", include_bytes!("../../../../plugin/skills/parallel-exec/SKILL.md")),
    ("skills/state-contract/SKILL.md", include_bytes!("../../../../plugin/skills/state-contract/SKILL.md")),
];

#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Write the plugin where Claude Code finds it, with this program in it
    Install(InstallArgs),
    /// Take it away again
    Uninstall(PluginScope),
    /// Write the plugin into the user's data folder and print that folder, for `claude --plugin-dir`
    Path,
}

#[derive(Debug, Args)]
pub struct PluginScope {
    /// For all projects of this user (the default)
    #[arg(long, conflicts_with = "project")]
    user: bool,
    /// For this project only; whoever else works on it installs it too. Asks the program `claude` to register it
    #[arg(long)]
    project: bool,
}

#[derive(Debug, Args)]
pub struct InstallArgs {
    #[command(flatten)]
    scope: PluginScope,
    /// Show the loop in Claude Code's status line, for all projects of this user; one of your own is left as it is
    #[arg(long)]
    statusline: bool,
}

impl Verb for PluginCommand {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        invocation.by_person()?;
        let (text, folder) = match self {
            PluginCommand::Path => {
                let folder = data()?;
                write(&folder)?;
                (folder.display().to_string(), folder)
            }
            PluginCommand::Install(InstallArgs { scope, .. }) if scope.project => {
                let market = market()?;
                let folder = market.join(NAME);
                write(&folder)?;
                let listed = json!({
                    "name": NAME, "description": "The aot loop", "owner": {"name": "the aot authors"},
                    "plugins": [{"name": NAME, "source": format!("./{NAME}"), "description": "The aot loop"}],
                });
                put(&market.join(".claude-plugin/marketplace.json"), listed.to_string().as_bytes())?;
                let path = market.display().to_string();
                ask(&["plugin", "marketplace", "add", &path, "--scope", "project"])?;
                ask(&["plugin", "install", "aot@aot", "--scope", "project"])?;
                let here = place::here()?;
                keep_users(&market, users(&market).into_iter().chain([here]).collect())?;
                ("installed for this project: `/aot:help` in a new session".to_owned(), folder)
            }
            PluginCommand::Install(_) => {
                let folder = user()?;
                write(&folder)?;
                ("installed for this user: `/aot:help` in a new session".to_owned(), folder)
            }
            PluginCommand::Uninstall(scope) if scope.project => {
                let (market, here) = (market()?, place::here()?);
                ask(&["plugin", "uninstall", "aot@aot", "--scope", "project"])?;
                let others: BTreeSet<PathBuf> =
                    users(&market).into_iter().filter(|user| *user != here && user.is_dir()).collect();
                if others.is_empty() {
                    ask(&["plugin", "marketplace", "remove", NAME, "--scope", "project"])?;
                    remove(&market)?;
                    remove(&host_config()?.join("plugins/cache").join(NAME))?;
                } else {
                    // The host knows a marketplace once for all projects: asked to remove it, it takes it from others too.
                    keep_users(&market, others)?;
                }
                forget(&here.join(".claude/settings.json"))?;
                ("uninstalled from this project".to_owned(), market)
            }
            PluginCommand::Uninstall(_) => {
                let folder = user()?;
                remove(&folder)?;
                remove(&data()?)?;
                forget_status_line(&host_config()?.join("settings.json"))?;
                ("uninstalled".to_owned(), folder)
            }
        };
        let status_line = match self {
            PluginCommand::Install(InstallArgs { statusline: true, .. }) => Some(offer_status_line(&folder)?),
            PluginCommand::Install(_) | PluginCommand::Uninstall(_) | PluginCommand::Path => None,
        };
        let text = status_line.iter().fold(text, |text, line| format!("{text}\n{line}"));
        Ok(Answer::new(text, json!({"success": true, "path": folder})))
    }
}

/// The folders in which a plugin of ours is installed.
pub fn installed() -> Vec<PathBuf> {
    let market = market().map(|market| market.join(NAME));
    let folders = [user(), market].into_iter().flatten();
    folders.filter(|folder| folder.join(".claude-plugin").is_dir()).collect()
}

/// The program in an installed plugin, which its hooks start.
pub fn program_in(folder: &Path) -> PathBuf {
    folder.join("bin").join("aot")
}

/// A file of an installed plugin that is not the one of this program.
pub fn outdated(folder: &Path) -> Option<&'static str> {
    let differs =
        |(path, content): &&(&str, &[u8])| fs::read(folder.join(path)).ok().as_deref() != Some(*content);
    FILES.iter().find(differs).map(|(path, _)| *path)
}

/// Where a user's own plugins are found without being registered.
fn user() -> Result<PathBuf, Failure> {
    Ok(host_config()?.join("skills").join(NAME))
}

fn host_config() -> Result<PathBuf, Failure> {
    place::host_config()
        .ok_or_else(|| Failure::world("find the folder of Claude Code", "there is no home folder"))
}

fn data() -> Result<PathBuf, Failure> {
    let folder = place::user_data()
        .ok_or_else(|| Failure::world("find the user's data", "there is no home folder"))?;
    Ok(folder.join("plugin"))
}

fn market() -> Result<PathBuf, Failure> {
    let folder = place::user_data()
        .ok_or_else(|| Failure::world("find the user's data", "there is no home folder"))?;
    Ok(folder.join("market"))
}

/// All files, and this very program beside them.
fn write(folder: &Path) -> Result<(), Failure> {
    // This very program may run from the old folder, which is therefore removed only when the new one is whole.
    let aside = folder.with_extension(format!("{}.new", std::process::id()));
    remove(&aside)?;
    for (path, content) in FILES {
        put(&aside.join(path), content)?;
    }
    let program = program_in(&aside);
    let written = fs::create_dir_all(aside.join("bin"))
        // A copy lives on when the program is updated or moved; the next `install` brings it up to date.
        .and_then(|()| fs::copy(place::program_file().unwrap_or_default(), &program).map(drop));
    let swapped = written.and_then(|()| match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => fs::rename(&aside, folder),
    });
    swapped.map_err(|error| {
        let _ = fs::remove_dir_all(&aside);
        Failure::world("write the plugin", error)
    })
}

fn put(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, content))
        .map_err(|error| Failure::world("write the plugin", error))
}

fn remove(folder: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::world("remove the plugin", error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The projects that use the marketplace. Without the list there are none that are known.
fn users(market: &Path) -> BTreeSet<PathBuf> {
    fs::read(market.join(USERS)).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

fn keep_users(market: &Path, users: BTreeSet<PathBuf>) -> Result<(), Failure> {
    put(&market.join(USERS), json!(users).to_string().as_bytes())
}

/// The host leaves empty tables in the settings of the project, and the marketplace where others still use it. A file with
/// nothing else in it is taken away.
fn forget(settings: &Path) -> Result<(), Failure> {
    change_settings(settings, |table| {
        if let Some(Value::Object(known)) = table.get_mut("extraKnownMarketplaces") {
            known.shift_remove(NAME);
        }
        table.retain(|name, value| {
            !(["enabledPlugins", "extraKnownMarketplaces"].contains(&name.as_str())
                && value.as_object().is_some_and(serde_json::Map::is_empty))
        });
    })
}

/// Puts the loop into the status line, if the user has none.
fn offer_status_line(plugin: &Path) -> Result<String, Failure> {
    let settings = host_config()?.join("settings.json");
    let command = format!("'{}' statusline", plugin.join("bin/aot").display());
    let ours = json!({"type": "command", "command": command, "refreshInterval": REFRESH_SECONDS});
    let mut kept = None;
    change_settings(&settings, |table| {
        let found = table.entry("statusLine").or_insert_with(|| ours.clone());
        kept = found["command"].as_str().filter(|found| *found != command).map(str::to_owned);
    })?;
    Ok(match kept {
        Some(_) => format!(
            "you have a status line already, which stays; `{command}` prints the loop's for yours to show"
        ),
        None => format!("the status line shows the loop; it stands in {}", settings.display()),
    })
}

fn forget_status_line(settings: &Path) -> Result<(), Failure> {
    let is_ours =
        |line: &Value| line["command"].as_str().is_some_and(|line| line.ends_with("/bin/aot' statusline"));
    change_settings(settings, |table| table.retain(|name, line| !(name == "statusLine" && is_ours(line))))
}

/// Changes the settings of the host. What cannot be read is not touched; a file with nothing in it is taken away.
fn change_settings(path: &Path, change: impl FnOnce(&mut Map<String, Value>)) -> Result<(), Failure> {
    let mut table = match fs::read(path) {
        Err(_) => Map::new(),
        Ok(text) => match serde_json::from_slice(&text) {
            Ok(Value::Object(table)) => table,
            Ok(_) | Err(_) => return Ok(()),
        },
    };
    let before = table.clone();
    change(&mut table);
    if table == before {
        return Ok(());
    }
    let written = match table.is_empty() {
        true => fs::remove_file(path),
        false => fs::create_dir_all(path.parent().unwrap_or(path))
            .and_then(|()| fs::write(path, format!("{:#}\n", Value::Object(table)))),
    };
    written.map_err(|error| Failure::world("change the settings of Claude Code", error))
}

/// Asks the host's own program to register what was written.
fn ask(words: &[&str]) -> Result<(), Failure> {
    let Some(program) = place::program("claude") else {
        let hint = "install it first; or use `claude --plugin-dir $(aot plugin path)`";
        return Err(Failure::input("claude", "Claude Code is not found", hint));
    };
    let guard = Guard::new(place::this_program()?);
    host::ask(&guard, &program, words).map_err(|problem| Failure::world("register the plugin", problem))
}
