//! The coordinator agent that a dialogue asks for proposals: it reads the project in a cage in which it writes nothing,
//! and answers a brief. The dialogue itself sees only [`Ask`].

use std::path::PathBuf;
use std::time::Duration;

use aot_core::brief::{self, Brief, Role};
use aot_core::state::{DEFAULT_AGENT_TIMEOUT, State};
use aot_runner::agents::{Agent, AgentEvent, AgentFlag, AgentLauncher, AgentOutcome, Question, TeamError};
use aot_runner::process::Switch;
use clap::Args;
use serde_json::Value;

use super::workspace::Workspace;
use crate::dialogue::Dialogue;
use crate::failure::Failure;
use crate::place::Scratch;
use crate::terminal;
use crate::text;

/// Answers a brief, or says why not; takes as long as it takes.
pub type Ask<'a> = &'a dyn Fn(&Brief) -> Result<Value, String>;

#[derive(Clone, Debug, Default, Args)]
pub struct DialogueAgentArgs {
    /// The agent that makes a proposal, as in `aot run`: claude, codex, gemini, opencode, a name from aot.toml
    #[arg(long, value_name = "NAME", value_parser = AgentFlag::read)]
    agent: Vec<AgentFlag>,
    /// Use prompts instead of an agent
    #[arg(long, conflicts_with = "agent")]
    no_agent: bool,
}

#[derive(Debug)]
pub struct DialogueAgent {
    agent: Agent,
    launcher: AgentLauncher,
    folder: PathBuf,
    wall: Duration,
    idle: Duration,
    /// Transcripts of a loop that does not exist yet go with the dialogue.
    _scratch: Option<Scratch>,
}

impl DialogueAgentArgs {
    pub fn is_named(&self) -> bool {
        !self.agent.is_empty()
    }
}

impl DialogueAgent {
    /// The agent that was named, chosen in the settings, or found alone. With several and none named, no agent is asked.
    pub fn find(
        args: &DialogueAgentArgs,
        workspace: &Workspace,
        state: &State,
        dialogue: Option<&Dialogue>,
    ) -> Result<Option<DialogueAgent>, Failure> {
        if args.no_agent {
            return Ok(None);
        }
        let team = match workspace.team(&args.agent, state, true) {
            Ok(team) => team,
            Err(failure) if args.agent.is_empty() && failure.error::<TeamError>().is_some() => {
                if let Some(dialogue) = dialogue {
                    let (problem, hint) = (failure.message(), failure.hint());
                    dialogue.tell(&format!("No agent is asked: {problem} ({hint})."));
                }
                return Ok(None);
            }
            Err(failure) => return Err(failure),
        };
        let Some(agent) = team.member(Role::Coordinator, None).cloned() else { return Ok(None) };
        let mut launcher = workspace.launcher()?;
        let scratch = if launcher.sidecar.is_dir() { None } else { Some(Scratch::make()?) };
        if let Some(scratch) = &scratch {
            launcher.sidecar = scratch.path().to_path_buf();
        }
        let seconds = state.constraints().agent_timeout.unwrap_or(DEFAULT_AGENT_TIMEOUT).seconds();
        let (folder, wall) = (workspace.project.root.clone(), Duration::from_secs(seconds));
        let idle = workspace.agent_idle();
        Ok(Some(DialogueAgent { agent, launcher, folder, wall, idle, _scratch: scratch }))
    }

    pub fn ask(&self, brief: &Brief) -> Result<Value, String> {
        let read = |value: &Value| {
            brief::validate(Some(brief.role), &brief.schema, value).map(drop).map_err(|wrong| wrong.reason)
        };
        let watched = terminal::draws_live();
        let listener = |event: AgentEvent<'_>| {
            if let (AgentEvent::Activity(line), true) = (event, watched) {
                terminal::live(&[text::fit(
                    &format!("{}: {line}", self.agent.name),
                    terminal::live_columns(),
                )]);
            }
        };
        if watched {
            terminal::live(&[format!("asking {} ...", self.agent.name)]);
        }
        let switch = Switch::default();
        let (report, not_kept) = self.launcher.ask(&Question {
            transcript: format!("dialogue-{}.coordinator", jiff::Timestamp::now().as_millisecond()),
            listener: &listener,
            idle: Some(self.idle),
            ..Question::new(&self.agent, brief, &read, &self.folder, self.wall, &switch)
        });
        if watched {
            terminal::live(&[]);
        }
        if let Some(problem) = not_kept {
            crate::failure::complain(&format!("warning: {problem}"));
        }
        match report.outcome {
            AgentOutcome::Answer(value) => Ok(value),
            AgentOutcome::InvalidAnswer { reason }
            | AgentOutcome::RateLimited { reason, .. }
            | AgentOutcome::Unauthenticated { reason }
            | AgentOutcome::Unreachable { reason }
            | AgentOutcome::Failed { reason }
            | AgentOutcome::TimedOut { reason }
            | AgentOutcome::Lost { reason }
            | AgentOutcome::Unusable { reason }
            | AgentOutcome::NotStarted { reason } => {
                Err(format!("{} gave no answer: {reason}", self.agent.name))
            }
            AgentOutcome::Killed => Err(format!("{} was ended", self.agent.name)),
        }
    }
}
