//! `aot agents`: who can be asked, as far as it can be told without asking.

use std::time::Duration;

use aot_core::state::State;
use aot_runner::agents::detect::{self, AgentStatus, LoginState};
use aot_runner::agents::{ROLES, Team};
use aot_runner::process::Guard;
use aot_runner::process::cage;
use serde_json::{Value, json};

use super::Invocation;
use super::workspace::Workspace;
use crate::failure::Failure;
use crate::print::OutputFormat;
use crate::print::{self, Stream};
use crate::screens::ink::{Ink, Paint};
use crate::{place, screens};

/// So long a program may take to tell its version.
const PATIENCE: Duration = Duration::from_secs(10);

pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let workspace = Workspace::here(invocation.path().ok().as_deref())?;
    let guard = Guard::new(place::this_program()?);
    let launcher = workspace.launcher()?;
    let found = detect::all(workspace.chosen(), &launcher, &guard, PATIENCE, &place::program);
    let state = invocation
        .store()
        .ok()
        .and_then(|mut store| store.load::<aot_core::rules::Refusal>().ok().map(|(_, state)| state.clone()));
    let team = state.as_ref().map(|state: &State| workspace.team(&[], state, true));
    match invocation.format {
        OutputFormat::Json => print::json(&json!({
            "agents": found.iter().map(|found| object(found, launcher.cage)).collect::<Vec<Value>>(),
            "roles": team.as_ref().and_then(|team| team.as_ref().ok()).map(roles),
        })),
        OutputFormat::Text => {
            let ink = Ink::of(Stream::Out);
            for found in &found {
                tell(found, launcher.cage, ink);
            }
            if !found.iter().any(|found| found.program.is_some()) {
                print::line("no agent is found: install one, or name your own in aot.toml as [agent.NAME]");
            }
            match &team {
                Some(Ok(team)) if !team.is_empty() => {
                    print::line(&format!("a run here would ask {}", screens::run::team(team)));
                }
                Some(Err(failure)) => {
                    print::line(&format!("a run here: {}; {}", failure.message(), failure.hint()))
                }
                Some(Ok(_)) | None => {}
            }
        }
    }
    Ok(())
}

fn tell(found: &AgentStatus, cage: cage::Kind, ink: Ink) {
    let Some(program) = &found.program else {
        let text = format!("{:<13} not found", found.name);
        print::line(&ink.paint(Paint::Dim, &text));
        return;
    };
    let login = match found.login {
        LoginState::Yes => "logged in",
        LoginState::No => "not logged in",
        LoginState::Unknown => "login unknown",
    };
    let version = found.version.as_deref().unwrap_or("version unknown");
    print::line(&format!("{:<13} {version}, {login}", found.name));
    print::line(&format!("{:<13} answers by {}, cage {cage}, {}", "", found.channel, program.display()));
    if found.login == LoginState::No && !found.hint.is_empty() {
        print::line(&format!("{:<13} {}", "", found.hint));
    }
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
