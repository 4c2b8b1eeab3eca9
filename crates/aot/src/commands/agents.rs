//! `aot agents`: which agents can be asked, as far as that is known without asking them; `--try` asks them. `aot agents use`
//! chooses one.

use std::collections::BTreeMap;
use std::time::Duration;

use aot_core::state::State;
use aot_runner::agents::detect::{self, AgentStatus, LoginState};
use aot_runner::agents::trial::{self, AgentTrial, TrialVerdict};
use aot_runner::agents::{Agent, AgentLauncher, AgentOutcome, ROLES, Team, find_agent};
use aot_runner::process::cage;
use aot_runner::process::{Guard, Switch};
use aot_runner::settings;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::workspace::{Workspace, bad_settings, no_such_agent};
use super::{Invocation, Verb};
use crate::failure::Failure;
use crate::print::Answer;
use crate::screens::ink::{Ink, Paint};
use crate::terminal::{Stream, page_columns};
use crate::text;
use crate::{place, screens};

/// How long a program may take to print its version.
const PATIENCE: Duration = Duration::from_secs(10);

/// List the agents: found, version, logged in, how they answer, how they are caged
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AgentsArgs {
    /// Let each agent that is logged in, or those that are named, do one small real task in its cage; exits with 1 if one
    /// cannot
    #[arg(long = "try", value_name = "NAME", num_args = 0..)]
    to_try: Option<Vec<String>>,
    #[command(subcommand)]
    command: Option<AgentsCommand>,
}

#[derive(Debug, Subcommand)]
enum AgentsCommand {
    Use(UseArgs),
}

/// Choose the default agent; writes aot.toml
#[derive(Debug, Args)]
pub struct UseArgs {
    /// Its name: claude, codex, gemini, opencode, or one of your own
    name: String,
}

impl Verb for UseArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        invocation.by_person()?;
        let workspace = Workspace::here(invocation.path().ok().as_deref())?;
        let found = find_agent(&self.name, workspace.chosen(), &place::program);
        found.map_err(no_such_agent)?;
        let path = settings::choose_agent(&workspace.project.root, &self.name).map_err(bad_settings)?;
        let (name, shown) = (&self.name, path.display());
        let json = json!({"success": true, "agent": name, "path": path});
        Ok(Answer::new(format!("{name} is the default agent now: {shown}"), json))
    }
}

impl Verb for AgentsArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        if let Some(AgentsCommand::Use(verb)) = &self.command {
            return verb.run(invocation);
        }
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
        let trials = match &self.to_try {
            Some(named) => tried(&workspace, launcher.clone(), &found, named)?,
            None => BTreeMap::new(),
        };
        let state = invocation.store().ok().and_then(|mut store| {
            store.load::<aot_core::rules::Refusal>().ok().map(|(_, state)| state.clone())
        });
        let team = state.as_ref().map(|state: &State| workspace.team(&[], state, true));
        let ink = Ink::of(Stream::Out);
        let mut lines: Vec<String> =
            found.iter().flat_map(|found| described(found, launcher.cage, ink)).collect();
        if self.to_try.is_some() {
            lines = trials.iter().flat_map(|(name, trial)| outcome_lines(name, trial, &found, ink)).collect();
            if trials.is_empty() {
                lines.push("no agent is tried: none is found and logged in (aot agents)".into());
            }
        } else if !found.iter().any(|found| found.program.is_some()) {
            lines.push("no agent is found: install one, or name your own in aot.toml as [agent.NAME]".into());
        }
        match &team {
            Some(Ok(team)) if !team.is_empty() => {
                let why = team.choice().map(|why| format!(", {why}")).unwrap_or_default();
                lines.push(format!("a run here would ask {}{why}", screens::run::team(team)));
            }
            Some(Err(failure)) => {
                lines.push(format!("a run here: {}; {}", failure.message(), failure.hint()));
            }
            Some(Ok(_)) | None => {}
        }
        let agents: Vec<Value> = found
            .iter()
            .map(|found| {
                let mut object = object(found, launcher.cage);
                object["tried"] = json!(trials.get(&found.name).map(|trial| trial_object(trial, found)));
                object
            })
            .collect();
        let json = json!({
            "agents": agents,
            "roles": team.as_ref().and_then(|team| team.as_ref().ok()).map(roles),
        });
        let works = !trials.is_empty() && trials.values().all(|trial| trial.verdict == TrialVerdict::Works);
        let exit = u8::from(self.to_try.is_some() && !works);
        Ok(Answer::new(lines.join("\n"), json).with_exit(exit))
    }
}

/// Lets agents do a small task, side by side.
fn tried(
    workspace: &Workspace,
    mut launcher: AgentLauncher,
    found: &[AgentStatus],
    named: &[String],
) -> Result<BTreeMap<String, AgentTrial>, Failure> {
    // A run that begins meanwhile clears the scratch folders of the loop.
    let scratch = place::Scratch::make()?;
    launcher.sidecar = scratch.path().to_path_buf();
    let find = |name: &str| find_agent(name, workspace.chosen(), &place::program);
    let agents: Vec<Agent> = match named {
        [] => {
            let ready = found.iter().filter(|found| found.program.is_some() && found.login != LoginState::No);
            ready.filter_map(|found| find(&found.name).ok()).collect()
        }
        named => {
            let wanted = named.iter().map(|name| find(name)).collect::<Result<_, _>>();
            wanted.map_err(no_such_agent)?
        }
    };
    let switch = Switch::default();
    let (launcher, switch, idle) = (&launcher, &switch, workspace.agent_idle());
    Ok(std::thread::scope(|scope| {
        let trials: Vec<_> = agents
            .iter()
            .map(|agent| (agent, scope.spawn(move || trial::run(launcher, agent, idle, switch))))
            .collect();
        let ended = trials.into_iter().filter_map(|(agent, trial)| Some((agent, trial.join().ok()?)));
        ended
            .map(|(agent, trial)| {
                if trial.verdict == TrialVerdict::Works {
                    trial::remember(launcher, agent);
                }
                (agent.name.clone(), trial)
            })
            .collect()
    }))
}

/// How a trial went, and what to do.
fn outcome_lines(name: &str, trial: &AgentTrial, found: &[AgentStatus], ink: Ink) -> Vec<String> {
    let version = found.iter().find(|found| found.name == name).and_then(|found| found.version.as_deref());
    let took = screens::run::short(trial.took);
    let cost = trial.used.cost_usd.map(|cost| format!(", {cost:.4} USD")).unwrap_or_default();
    let used =
        format!("{}, {took}, {} tokens{cost}", version.unwrap_or("version unknown"), trial.used.tokens);
    let hint = found.iter().find(|found| found.name == name).map_or("", |found| found.hint.as_str());
    let Some(why) = why(trial) else {
        return vec![format!("{name:<13} {} ({used})", ink.paint(Paint::Green, "works"))];
    };
    let indent = format!("{:<13} ", "");
    let said = text::wrapped(&text::plain(&why), page_columns() - indent.len());
    let todo = text::wrapped(&format!("hint: {}", remedy(trial, hint)), page_columns() - indent.len());
    let head = format!("{name:<13} {} ({used})", ink.paint(Paint::Red, "does not work"));
    std::iter::once(head).chain(said.into_iter().chain(todo).map(|line| format!("{indent}{line}"))).collect()
}

fn why(trial: &AgentTrial) -> Option<String> {
    match &trial.verdict {
        TrialVerdict::Works => None,
        TrialVerdict::ToolsFail { why } => Some(format!("its tools do not work in the cage: {why}")),
        TrialVerdict::NoAnswer(outcome) => Some(match outcome {
            AgentOutcome::Answer(_) => "it answered".into(),
            AgentOutcome::InvalidAnswer { reason } => format!("it gave no valid answer: {reason}"),
            AgentOutcome::RateLimited { reason, .. } => format!("it is refused by a limit: {reason}"),
            AgentOutcome::Unauthenticated { reason } => format!("it is not logged in: {reason}"),
            AgentOutcome::Unreachable { reason } => format!("it cannot reach its model: {reason}"),
            AgentOutcome::Failed { reason } => format!("it failed: {reason}"),
            AgentOutcome::TimedOut { reason } => format!("it took too long: {reason}"),
            AgentOutcome::Killed => "it was ended".into(),
            AgentOutcome::Unusable { reason } => format!("it cannot be used: {reason}"),
            AgentOutcome::NotStarted { reason } => format!("it was not started: {reason}"),
            AgentOutcome::Lost { reason } => format!("it was lost: {reason}"),
        }),
    }
}

fn remedy(trial: &AgentTrial, login: &str) -> String {
    match &trial.verdict {
        TrialVerdict::Works => String::new(),
        TrialVerdict::ToolsFail { .. } => {
            "`aot doctor` shows what its cage forbids; `[cage] writable` in aot.toml opens a folder".into()
        }
        TrialVerdict::NoAnswer(AgentOutcome::Unauthenticated { .. }) if !login.is_empty() => login.to_owned(),
        TrialVerdict::NoAnswer(AgentOutcome::RateLimited { .. }) => {
            "wait until the limit lifts, or use another agent".into()
        }
        TrialVerdict::NoAnswer(AgentOutcome::Unreachable { .. }) => {
            "look at the network, and at `[cage] network` in aot.toml".into()
        }
        TrialVerdict::NoAnswer(AgentOutcome::Unusable { .. } | AgentOutcome::NotStarted { .. }) => {
            "install it anew, or name its program in aot.toml".into()
        }
        TrialVerdict::NoAnswer(_) => "start it yourself once, and look at what it says".into(),
    }
}

fn trial_object(trial: &AgentTrial, found: &AgentStatus) -> Value {
    let why = why(trial);
    json!({
        "works": why.is_none(),
        "hint": why.is_some().then(|| remedy(trial, &found.hint)),
        "why": why,
        "milliseconds": trial.took.as_millis() as u64,
        "tokens": trial.used.tokens,
        "cost_usd": trial.used.cost_usd,
    })
}

fn described(found: &AgentStatus, cage: cage::Kind, ink: Ink) -> Vec<String> {
    let Some(program) = &found.program else {
        if let Some(file) = place::not_executable(&found.looked_for) {
            let file = file.display();
            return vec![format!("{:<13} not executable: chmod +x {file}", found.name)];
        }
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
