//! Agents: a brief becomes a running agent, and what it prints becomes a report. Does not retry what failed, does not
//! judge, and knows nothing of the graph.

mod acp;
mod command;
pub mod detect;
mod errors;
mod events;
mod headless;
mod launcher;
mod lines;
mod private;
mod process;
pub mod profile;
mod progress;
mod question;
pub mod redact;
pub mod submit;
mod team;
mod transcript;

use std::path::PathBuf;

pub use launcher::AgentLauncher;
use profile::Profile;
pub use question::{AgentEvent, AgentOutcome, AgentUsage, Question, REPEATS, Report, ask_again};
pub use team::{AgentFlag, AgentSettings, DETECTED, ROLES, Team, TeamError, find_agent};
pub use transcript::{SavedTranscript, clear as clear_transcripts, of_atom as transcripts_of};

/// An agent that is installed, with its profile.
#[derive(Clone, Debug)]
pub struct Agent {
    pub name: String,
    pub profile: Profile,
    pub program: PathBuf,
    /// Arguments that come before those of the profile.
    pub before: Vec<String>,
    pub model: Option<String>,
}

impl Agent {
    /// Why there is no valid answer, for people.
    pub fn explain(&self, outcome: &AgentOutcome) -> String {
        let name = &self.name;
        match outcome {
            AgentOutcome::Answer(_) => format!("{name} answered"),
            AgentOutcome::InvalidAnswer { reason } => format!("{name} gave no valid answer: {reason}"),
            AgentOutcome::Unreachable { reason } => format!("{name} cannot reach its model: {reason}"),
            AgentOutcome::Unauthenticated { reason } => match self.profile.login.hint.as_str() {
                "" => format!("{name} is not logged in ({reason})"),
                hint => format!("{name} is not logged in ({reason}); {hint}"),
            },
            AgentOutcome::RateLimited { reason, .. }
            | AgentOutcome::Failed { reason }
            | AgentOutcome::Lost { reason }
            | AgentOutcome::TimedOut { reason } => format!("{name}: {reason}"),
            AgentOutcome::Unusable { reason } => {
                let program = self.program.display();
                format!("{name} ({program}) cannot be used: {reason}; `aot agents` lists those that can")
            }
            AgentOutcome::Killed => format!("{name} was ended"),
            AgentOutcome::NotStarted { reason } => format!("{name} was not started: {reason}"),
        }
    }
}
