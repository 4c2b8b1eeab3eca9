//! Which agents are installed, in which version, and whether they are logged in, as far as can be told without asking a
//! model.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Agent;
use super::launcher::AgentLauncher;
use super::profile::{self, AnswerChannel, Profile, Transport};
use super::team::{AgentSettings, find_agent};
use crate::environment;
use crate::process::{Environment, Guard, How, Input, Job, Limits, Streams};

/// Bytes read of what a program prints about itself.
const VERSION_KEPT: usize = 16 << 10;

/// The most letters of a version.
const VERSION_SHOWN: usize = 60;

#[derive(Clone, Debug)]
pub struct AgentStatus {
    pub name: String,
    /// Absent if it is not installed.
    pub program: Option<PathBuf>,
    /// The name or path under which it is looked for.
    pub looked_for: String,
    pub version: Option<String>,
    pub login: LoginState,
    /// How its answer comes.
    pub channel: &'static str,
    /// What to do to be logged in.
    pub hint: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginState {
    Yes,
    No,
    Unknown,
}

/// Those that come with the program, and the user's own. Only a program of the former is asked for its version, and none
/// that lies inside of `project`: it may have come with a clone. What else may do anything when it is started.
pub fn all(
    project: &Path,
    chosen: &AgentSettings,
    launcher: &AgentLauncher,
    guard: &Guard,
    patience: Duration,
    find: &dyn Fn(&str) -> Option<PathBuf>,
) -> Vec<AgentStatus> {
    let own =
        chosen.own.keys().map(String::as_str).filter(|name| profile::built_in().all(|known| known != *name));
    let mut names: Vec<&str> = profile::built_in().collect();
    names.extend(own);
    let agents: Vec<(&str, Option<Agent>)> =
        names.into_iter().map(|name| (name, find_agent(name, chosen, find).ok())).collect();
    std::thread::scope(|scope| {
        let checks: Vec<_> = agents
            .iter()
            .map(|(name, agent)| {
                scope.spawn(move || status(project, name, agent.as_ref(), chosen, launcher, guard, patience))
            })
            .collect();
        checks.into_iter().filter_map(|checks| checks.join().ok()).collect()
    })
}

fn status(
    project: &Path,
    name: &str,
    agent: Option<&Agent>,
    chosen: &AgentSettings,
    launcher: &AgentLauncher,
    guard: &Guard,
    patience: Duration,
) -> AgentStatus {
    let Some(agent) = agent else {
        let profile = Profile::named(name, chosen.own.get(name)).and_then(Result::ok);
        let channel = profile.as_ref().map_or("", channel);
        return AgentStatus {
            name: name.to_owned(),
            program: None,
            looked_for: profile.map(|profile| profile.program).unwrap_or_default(),
            version: None,
            login: LoginState::Unknown,
            channel,
            hint: String::new(),
        };
    };
    let profile = &agent.profile;
    AgentStatus {
        name: name.to_owned(),
        program: Some(agent.program.clone()),
        looked_for: profile.program.clone(),
        version: match asks_version(name, chosen) && !is_inside(&agent.program, project) {
            true => version(agent, launcher, guard, patience),
            false => None,
        },
        login: login(profile, &launcher.variables, launcher.home.as_deref()),
        channel: channel(profile),
        hint: profile.login.hint.clone(),
    }
}

/// Whether its program is known to do nothing but print its version, or its profile says how to ask.
fn asks_version(name: &str, chosen: &AgentSettings) -> bool {
    chosen.own.get(name).is_none_or(|own| own.contains_key("version") || !own.contains_key("program"))
}

fn is_inside(program: &Path, project: &Path) -> bool {
    program.starts_with(project) || program.canonicalize().is_ok_and(|real| real.starts_with(project))
}

fn channel(profile: &Profile) -> &'static str {
    match (profile.transport, profile.answer) {
        (Transport::Acp, _) => "submit_result over ACP",
        (Transport::Command, AnswerChannel::Tool) => "submit_result",
        (Transport::Command, AnswerChannel::Event | AnswerChannel::File) => "its own schema",
        (Transport::Command, AnswerChannel::Output) => "its output",
    }
}

/// The first line that it prints, without its own name before the number.
fn version(agent: &Agent, launcher: &AgentLauncher, guard: &Guard, patience: Duration) -> Option<String> {
    if agent.profile.version.is_empty() {
        return None;
    }
    let further: Vec<String> = launcher.further.iter().chain(&agent.profile.variables).cloned().collect();
    let ended = guard.run(&Job {
        program: agent.program.clone().into_os_string(),
        arguments: agent.profile.version.iter().map(Into::into).collect(),
        folder: PathBuf::from("/"),
        environment: Environment::Only(environment::allowed(launcher.variables.iter().cloned(), &further)),
        input: Input::None,
        streams: Streams::Apart,
        limits: Limits { wall: patience, idle: None, grace: Duration::ZERO, head: VERSION_KEPT, tail: 0 },
        cage: None,
    });
    let ended = ended.ok().filter(|ended| ended.how == How::Exited(0))?;
    let (head, _) = ended.output.parts();
    let text = String::from_utf8_lossy(&head).into_owned();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let line: String = super::events::in_one_line(line).chars().take(VERSION_SHOWN).collect();
    Some(line)
}

/// A key in the environment or a file with a login says yes; if the profile knows where to look and nothing is there, no.
pub fn login(profile: &Profile, variables: &[(OsString, OsString)], home: Option<&Path>) -> LoginState {
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, value)| known == name && !value.is_empty());
        found.map(|(_, value)| PathBuf::from(value))
    };
    let by_key = profile.login.variables.iter().any(|name| variable(name).is_some());
    let files = profile::places(&profile.login.files, home, &variable);
    let by_file = files.iter().any(|file| file.exists());
    match (by_key || by_file, profile.login.variables.is_empty() && profile.login.files.is_empty()) {
        (true, _) => LoginState::Yes,
        (false, false) => LoginState::No,
        (false, true) => LoginState::Unknown,
    }
}
