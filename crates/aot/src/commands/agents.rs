//! `aot agents`: which agents can be asked, as far as that is known without asking them.

use std::time::Duration;

use aot_core::state::State;
use aot_runner::agents::detect::{self, AgentStatus, LoginState};
use aot_runner::agents::{ROLES, Team};
use aot_runner::process::Guard;
use aot_runner::process::cage;
use clap::Args;
use serde_json::{Value, json};

use super::workspace::Workspace;
use super::{Invocation, Verb};
use crate::failure::Failure;
use crate::print::Answer;
use crate::screens::ink::{Ink, Paint};
use crate::terminal::Stream;
use crate::{place, screens};

/// How long a program may take to print its version.
const PATIENCE: Duration = Duration::from_secs(10);

/// List the agents that can be asked: found, version, logged in, how they answer, how they are caged
#[derive(Debug, Args)]
pub struct AgentsArgs {}

impl Verb for AgentsArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let workspace = Workspace::here(invocation.path().ok().as_deref())?;
        let guard = Guard::new(place::this_program()?);
        let launcher = workspace.launcher()?;
        let found = detect::all(
            &workspace.project.root,
            workspace.chosen(),
            &launcher,
            &guard,
            PATIENCE,
            &place::program,
        );
        let state = invocation.store().ok().and_then(|mut store| {
            store.load::<aot_core::rules::Refusal>().ok().map(|(_, state)| state.clone())
        });
        let team = state.as_ref().map(|state: &State| workspace.team(&[], state, true));
        let ink = Ink::of(Stream::Out);
        let mut lines: Vec<String> =
            found.iter().flat_map(|found| described(found, launcher.cage, ink)).collect();
        if !found.iter().any(|found| found.program.is_some()) {
            lines.push("no agent is found: install one, or name your own in aot.toml as [agent.NAME]".into());
        }
        match &team {
            Some(Ok(team)) if !team.is_empty() => {
                lines.push(format!("a run here would ask {}", screens::run::team(team)));
            }
            Some(Err(failure)) => {
                lines.push(format!("a run here: {}; {}", failure.message(), failure.hint()));
            }
            Some(Ok(_)) | None => {}
        }
        let json = json!({
            "agents": found.iter().map(|found| object(found, launcher.cage)).collect::<Vec<Value>>(),
            "roles": team.as_ref().and_then(|team| team.as_ref().ok()).map(roles),
        });
        Ok(Answer::new(lines.join("\n"), json))
    }
}

fn described(found: &AgentStatus, cage: cage::Kind, ink: Ink) -> Vec<String> {
    let Some(program) = &found.program else {
        return vec![ink.paint(Paint::Dim, &format!("{:<13} not found", found.name))];
    };
    let login = match found.login {
        LoginState::Yes => "logged in",
        LoginState::No => "not logged in",
        LoginState::Unknown => "login unknown",
    };
    let version = found.version.as_deref().unwrap_or("version unknown");
    let mut lines = vec![
        format!("{:<13} {version}, {login}", found.name),
        format!("{:<13} answers by {}, cage {cage}, {}", "", found.channel, program.display()),
    ];
    if found.login == LoginState::No && !found.hint.is_empty() {
        lines.push(format!("{:<13} {}", "", found.hint));
    }
    lines
}

fn object(found: &AgentStatus, cage: cage::Kind) -> Value {
    json!({
        "name": found.name,
        "program": found.program,
        "version": found.version,
        "logged_in": match found.login {
            LoginState::Yes => Some(true),
            LoginState::No => Some(false),
            LoginState::Unknown => None,
        },
        "answer": found.channel,
        "cage": cage.to_string(),
        "hint": found.hint,
    })
}

fn roles(team: &Team) -> Value {
    let role = |role: aot_core::brief::Role| {
        (role.word().to_owned(), json!(team.member(role, None).map(|agent| &agent.name)))
    };
    Value::Object(ROLES.into_iter().map(role).collect())
}
