//! Agents: a brief becomes a running agent, and what it prints becomes a report. Does not retry what failed, does not
//! judge, and knows nothing of the graph.

mod acp;
pub mod find;
mod headless;
pub mod judge;
mod listen;
mod narrator;
mod prepared;
pub mod profile;
pub mod redact;
mod station;
pub mod submit;
mod talk;
mod team;
mod transcript;
mod trouble;

use std::path::PathBuf;

use profile::Profile;
pub use station::{AgentLauncher, Question};
pub use talk::{ASKED_AGAIN, Ask, Heard, Report, Said, Used};
pub use team::{Chosen, LOOKED_FOR, ROLES, Team, TeamError, Wish, hire};
pub use transcript::{Kept, clear as clear_transcripts, of_atom as transcripts_of};

/// Somebody who can be asked.
#[derive(Clone, Debug)]
pub struct Agent {
    pub name: String,
    pub profile: Profile,
    pub program: PathBuf,
    /// What stands before the arguments of the profile.
    pub before: Vec<String>,
    pub model: Option<String>,
}

impl Agent {
    fn ask(&self, ask: &Ask<'_>) -> Report {
        match self.profile.kind {
            profile::Kind::Command => headless::ask(self, ask),
            profile::Kind::Acp => acp::ask(self, ask),
        }
    }
}

/// The brief as it is said: how the answer is given, and why the one before was refused.
fn in_words(ask: &Ask<'_>, by_tool: bool, refused: Option<&str>) -> String {
    let mut text = ask.text.to_owned();
    if by_tool {
        text.push_str(
            "\nGive this object by calling the tool `submit_result` with its fields; what you write otherwise is not \
             read. If the tool says that something is wrong with it, correct that and call it again. Then end.\n",
        );
    }
    if let Some(reason) = refused {
        text.push_str(&ask_again(reason));
    }
    text
}

fn ask_again(reason: &str) -> String {
    format!(
        "\n## Asked again\n\nYou were asked this before, and your answer was refused: {reason}\n\nWhat was done to the \
         files then is still there: do not begin anew, look at it, finish what is missing, and answer.\n"
    )
}
