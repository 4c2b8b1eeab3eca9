//! The hosts of a loop that has its jobs done on several machines, as its driver sees them. Knows neither engines nor keys.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::now::LiveJob;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostsNow {
    /// The engine's own page.
    pub engine: String,
    #[serde(default)]
    pub engine_away: bool,
    /// Jobs that wait for a slot.
    #[serde(default)]
    pub waiting: u32,
    pub hosts: Vec<HostNow>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostNow {
    pub name: String,
    /// `up`, `new`, `away`, `not trusted` or `left out`.
    pub state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    pub slots: u32,
    #[serde(default)]
    pub offers: Vec<String>,
    #[serde(default)]
    pub account: String,
    #[serde(default)]
    pub jobs: Vec<HostJobNow>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostJobNow {
    /// Its name among the jobs of the loop.
    pub job: String,
    #[serde(default)]
    pub task: String,
    #[serde(default)]
    pub atom: Option<String>,
    #[serde(default)]
    pub attempt: u64,
    pub slot: u32,
    pub since: Timestamp,
}

impl HostsNow {
    /// The host on which this job is.
    pub fn host_of(&self, job: &LiveJob) -> Option<&str> {
        let is_there = |there: &HostJobNow| {
            (&there.task, &there.atom, there.attempt) == (&job.task, &job.atom, job.attempt)
        };
        self.hosts.iter().find(|host| host.jobs.iter().any(is_there)).map(|host| host.name.as_str())
    }
}
