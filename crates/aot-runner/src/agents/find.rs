//! Which agents are here, which version, and whether somebody is logged in, as far as that can be told without asking a
//! model.

use std::path::PathBuf;
use std::time::Duration;

use super::Agent;
use super::launcher::AgentLauncher;
use super::profile::{self, Channel, Kind, Profile};
use super::team::{Chosen, hire};
use crate::environment;
use crate::process::{Environment, Guard, How, Input, Job, Limits, Streams};

/// Of what a program prints about itself so much is read.
const KEPT: usize = 16 << 10;

#[derive(Clone, Debug)]
pub struct Found {
    pub name: String,
    /// Absent if it is not installed.
    pub program: Option<PathBuf>,
    pub version: Option<String>,
    pub login: Login,
    /// How its answer comes.
    pub channel: &'static str,
    /// What to do to be logged in.
    pub hint: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    Yes,
    No,
    Unknown,
}

/// Those that come with the program, and the user's own.
pub fn all(
    chosen: &Chosen,
    launcher: &AgentLauncher,
    guard: &Guard,
    patience: Duration,
    find: &dyn Fn(&str) -> Option<PathBuf>,
) -> Vec<Found> {
    let own =
        chosen.own.keys().map(String::as_str).filter(|name| profile::built_in().all(|known| known != *name));
    let mut names: Vec<&str> = profile::built_in().collect();
    names.extend(own);
    let agents: Vec<(&str, Option<Agent>)> =
        names.into_iter().map(|name| (name, hire(name, chosen, find).ok())).collect();
    std::thread::scope(|scope| {
        let looking: Vec<_> = agents
            .iter()
            .map(|(name, agent)| {
                scope.spawn(move || look(name, agent.as_ref(), chosen, launcher, guard, patience))
            })
            .collect();
        looking.into_iter().filter_map(|looking| looking.join().ok()).collect()
    })
}

fn look(
    name: &str,
    agent: Option<&Agent>,
    chosen: &Chosen,
    launcher: &AgentLauncher,
    guard: &Guard,
    patience: Duration,
) -> Found {
    let Some(agent) = agent else {
        let profile = Profile::named(name, chosen.own.get(name)).and_then(Result::ok);
        let channel = profile.as_ref().map_or("", channel);
        return Found {
            name: name.to_owned(),
            program: None,
            version: None,
            login: Login::Unknown,
            channel,
            hint: String::new(),
        };
    };
    let profile = &agent.profile;
    Found {
        name: name.to_owned(),
        program: Some(agent.program.clone()),
        version: version(agent, launcher, guard, patience),
        login: login(profile, launcher),
        channel: channel(profile),
        hint: profile.login.hint.clone(),
    }
}

fn channel(profile: &Profile) -> &'static str {
    match (profile.kind, profile.answer) {
        (Kind::Acp, _) => "submit_result over ACP",
        (Kind::Command, Channel::Tool) => "submit_result",
        (Kind::Command, Channel::Event | Channel::File) => "its own schema",
        (Kind::Command, Channel::Output) => "its output",
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
        limits: Limits { wall: patience, idle: None, grace: Duration::ZERO, head: KEPT, tail: 0 },
        cage: None,
    });
    let ended = ended.ok().filter(|ended| ended.how == How::Exited(0))?;
    let (head, _) = ended.output.parts();
    let text = String::from_utf8_lossy(&head).into_owned();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(super::events::in_one_line(line))
}

/// A key in the environment or a file with a login says yes; if the profile knows where to look and nothing is there, no.
fn login(profile: &Profile, launcher: &AgentLauncher) -> Login {
    let variable = |name: &str| {
        let found = launcher.variables.iter().find(|(known, value)| known == name && !value.is_empty());
        found.map(|(_, value)| PathBuf::from(value))
    };
    let by_key = profile.login.variables.iter().any(|name| variable(name).is_some());
    let files = profile::places(&profile.login.files, launcher.home.as_deref(), &variable);
    let by_file = files.iter().any(|file| file.exists());
    match (by_key || by_file, profile.login.variables.is_empty() && profile.login.files.is_empty()) {
        (true, _) => Login::Yes,
        (false, false) => Login::No,
        (false, true) => Login::Unknown,
    }
}
