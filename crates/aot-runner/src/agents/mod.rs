//! Agents: a brief becomes a running agent, and what it prints becomes a report. Does not retry what failed, does not
//! judge, and knows nothing of the graph.

mod acp;
mod command;
pub mod detect;
mod errors;
mod events;
mod headless;
mod instructions;
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
pub mod trial;

use std::path::PathBuf;
use std::time::Duration;

use jiff::Zoned;

pub use launcher::{AgentLauncher, Session};
use profile::Profile;
pub use question::{AgentEvent, AgentOutcome, AgentUsage, Question, REPEATS, Report, ask_again};
pub use team::{AgentFlag, AgentSettings, DETECTED, Installed, ROLES, Team, TeamError, find_agent};
pub use transcript::{SavedTranscript, clear as clear_transcripts, of_atom as transcripts_of};

/// The end of a shorter limit is here before it is read.
const WORTH_TELLING: Duration = Duration::from_secs(60);

/// The time of day after this span, as clocks here show it; with the day, if that is another one.
fn local_time_in(span: Duration) -> String {
    let now = Zoned::now();
    let Ok(then) = now.checked_add(span) else { return "a far day".to_owned() };
    let format = if then.date() == now.date() { "%H:%M" } else { "%b %-d, %H:%M" };
    then.strftime(format).to_string()
}

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
            AgentOutcome::RateLimited { reason, retry_after: Some(after) } if *after >= WORTH_TELLING => {
                format!("{name}: {reason} (until {})", local_time_in(*after))
            }
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
