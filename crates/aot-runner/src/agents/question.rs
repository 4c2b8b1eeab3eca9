//! What is asked of an agent, and what comes back. Names no vendor and starts nothing.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aot_core::brief::{Brief, Role};
use serde_json::Value;

use super::Agent;
use crate::process::Switch;

/// How often an answer that cannot be read is asked for again, with the reason, where no loop counts agent runs.
pub const REPEATS: u32 = 2;

/// One question to one agent. It is made once and passed down by reference to whatever runs the agent.
#[derive(Clone)]
pub struct Question<'q> {
    pub agent: &'q Agent,
    pub brief: &'q Brief,
    /// The strict reader of the answer; its error is the reason to ask again.
    pub read: &'q (dyn Fn(&Value) -> Result<(), String> + Sync),
    /// The agent's working directory.
    pub folder: &'q Path,
    /// What the agent may write besides its scratch folder and its own state: a worker's tree, for other roles nothing.
    pub writable: Vec<PathBuf>,
    /// Paths below `writable` that stay read-only.
    pub read_only: Vec<PathBuf>,
    /// Environment variables of the job.
    pub variables: Vec<(OsString, OsString)>,
    /// Time for the question and its repetitions together.
    pub wall: Duration,
    /// How long the agent may print nothing.
    pub idle: Option<Duration>,
    /// How often the agent is asked again while its answer is not valid.
    pub repeats: u32,
    /// What it is told besides the brief, because it was asked before and something is still missing.
    pub again: Option<String>,
    /// What was missing, in a line, for whoever reads what happened.
    pub mends: Option<String>,
    pub switch: &'q Switch,
    /// The name of the transcript, without its extension.
    pub transcript: String,
    pub listener: Listener<'q>,
}

/// Called with each event while the agent runs.
pub type Listener<'l> = &'l (dyn Fn(AgentEvent<'_>) + Sync);

impl<'q> Question<'q> {
    /// A question to an agent that may write nothing, under these limits. The other fields have defaults.
    pub fn new(
        agent: &'q Agent,
        brief: &'q Brief,
        read: &'q (dyn Fn(&Value) -> Result<(), String> + Sync),
        folder: &'q Path,
        wall: Duration,
        switch: &'q Switch,
    ) -> Question<'q> {
        Question {
            agent,
            brief,
            read,
            folder,
            writable: Vec::new(),
            read_only: Vec::new(),
            variables: Vec::new(),
            wall,
            idle: None,
            repeats: REPEATS,
            again: None,
            mends: None,
            switch,
            transcript: brief.role.word().to_owned(),
            listener: &|_| {},
        }
    }

    pub fn role(&self) -> Role {
        self.brief.role
    }

    /// The prompt: the brief and how the answer is to be given, then what was missing before. A conversation that goes on
    /// is told only the latter.
    pub(super) fn prompt(&self, answers_by_tool: bool, again: Option<&str>, goes_on: bool) -> String {
        let again = again.unwrap_or_default();
        if goes_on {
            return again.trim_start().to_owned();
        }
        let mut text = self.brief.text.clone();
        if answers_by_tool {
            text.push_str(
                "\nGive this object by calling the tool `submit_result` with its fields; what you write otherwise is not \
                 read. If the tool says that something is wrong with it, correct that and call it again. Then end.\n",
            );
        }
        text.push_str(again);
        text
    }
}

/// What is added to a prompt, or sent in the same session, when the answer was refused.
pub fn ask_again(reason: &str) -> String {
    format!(
        "\n## Asked again\n\nYou were asked this before, and your answer was refused: {reason}\n\nWhat was done to the \
         files then is still there: do not begin anew, look at it, finish what is missing, and answer.\n"
    )
}

/// What is sent in the same session to an agent that crashed or fell silent.
pub fn go_on(reason: &str) -> String {
    format!(
        "\n## Interrupted\n\nYou were interrupted before you answered: {reason}\n\nThe files are as you left them, and one may \
         be half written. Look at it, finish what is missing, and answer in the form that was asked for.\n"
    )
}

impl fmt::Debug for Question<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question")
            .field("agent", &self.agent.name)
            .field("transcript", &self.transcript)
            .finish_non_exhaustive()
    }
}

/// What an agent reports while it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AgentEvent<'e> {
    /// What it does now, in one line.
    Activity(&'e str),
    /// A piece of text for the transcript, as it came.
    Text(&'e str),
    /// One of its tools could not do its work, in one line. The agent may go on.
    ToolError(&'e str),
    /// What it has used so far in this question, all repetitions together.
    Usage(AgentUsage),
}

/// What one question has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AgentUsage {
    pub tokens: u64,
    /// Absent where the agent does not report it and has no price.
    pub cost_usd: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Report {
    pub outcome: AgentOutcome,
    pub used: AgentUsage,
    /// How often the agent was asked.
    pub asked: u32,
}

impl Report {
    /// The agent cannot be used here until a person changes something.
    pub(super) fn unusable(reason: String) -> Report {
        Report { outcome: AgentOutcome::Unusable { reason }, used: AgentUsage::default(), asked: 0 }
    }

    /// The agent did not run.
    pub fn not_started(reason: String) -> Report {
        Report { outcome: AgentOutcome::NotStarted { reason }, used: AgentUsage::default(), asked: 0 }
    }
}

/// How a question ended.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentOutcome {
    /// It was read by the question's reader, and is valid.
    Answer(Value),
    /// There was no valid answer, although the agent was asked again.
    InvalidAnswer {
        reason: String,
    },
    /// A rate limit or a usage limit.
    RateLimited {
        reason: String,
        retry_after: Option<Duration>,
    },
    Unauthenticated {
        reason: String,
    },
    /// Its model cannot be reached.
    Unreachable {
        reason: String,
    },
    /// It crashed, or gave up.
    Failed {
        reason: String,
    },
    /// It took too long, or printed nothing for too long.
    TimedOut {
        reason: String,
    },
    /// The question's switch was turned off.
    Killed,
    /// It cannot be used until a person mends it: its program is missing, or it lacks the model that was named.
    Unusable {
        reason: String,
    },
    /// It could not even be started.
    NotStarted {
        reason: String,
    },
    /// Somebody else ended it.
    Lost {
        reason: String,
    },
}
