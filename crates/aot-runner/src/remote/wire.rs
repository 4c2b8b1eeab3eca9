//! What a driver and its hosts say to each other, as JSON within signed envelopes. An older and a newer version read each
//! other's words: what is missing has a default, what is not known is left out. Does nothing.

use std::collections::BTreeMap;

use aot_core::coordinator::{Answer, JobOutcome, Usage};
use aot_core::state::AgentRun;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::crew::{Assignment, PlanQuestion};

/// Changes when an older side would misunderstand a newer one.
pub const VERSION: u32 = 1;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum JobRequest {
    Attempt(Box<Assignment>),
    Replan(Box<PlanQuestion>),
}

/// Which agents the driver wants: names that the host looks up in its own settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedAgents {
    /// `claude`, or `ROLE=NAME`.
    pub roles: Vec<String>,
    /// Those that atoms name.
    pub named: Vec<String>,
}

/// One job for one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobOrder {
    pub version: u32,
    pub loop_id: String,
    /// Nobody else takes it.
    pub host: String,
    /// Of this job on this host; it never comes again.
    pub key: String,
    pub at: Timestamp,
    pub agents: WantedAgents,
    pub request: JobRequest,
    /// The commit that it begins at.
    pub base: String,
    /// The repository where the work is handed over, and its reference there.
    pub address: String,
    pub reference: String,
}

/// What a job has cost since it began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    pub usage: Usage,
    pub runs: Vec<AgentRun>,
}

/// What a job told beside its cost, by number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum JobTold {
    ToolFailed { agent: String, line: String },
    Mends { reason: String },
    AgentEnded { agent: String, tokens: u64, cost_usd: Option<f64>, seconds: u64 },
    Note { text: String },
}

/// How far a job is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobProgress {
    pub spent: Spent,
    /// What its agent does now.
    pub doing: Option<String>,
    /// The number of the first of these.
    pub first_told: u64,
    pub told: Vec<JobTold>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum JobEnding {
    Attempt(JobOutcome),
    Replan(Answer),
    /// The host did not take the order.
    Refused {
        reason: String,
    },
}

/// What a worker left that is to land.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Absent if it changed nothing.
    pub commit: Option<String>,
    pub ignored: Vec<String>,
}

/// A transcript or an output, by its name in the sidecar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptText {
    pub name: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    pub version: u32,
    pub key: String,
    pub ending: JobEnding,
    pub left: Left,
    pub progress: JobProgress,
    pub texts: Vec<KeptText>,
}

/// How is it going? Asked every second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostQuestion {
    pub version: u32,
    pub host: String,
    /// Made for this question, so that an answer cannot be an old one.
    pub nonce: String,
    pub at: Timestamp,
    /// Whose jobs these are; without it nothing is known of jobs yet.
    pub loop_id: Option<String>,
    /// The jobs of which the asker wants to know.
    pub jobs: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostAnswer {
    pub version: u32,
    pub nonce: String,
    pub slots: u32,
    pub offers: Vec<String>,
    /// Whose limits its agents use up: hosts that name the same account are limited together.
    pub account: String,
    pub jobs: BTreeMap<String, JobProgress>,
}
