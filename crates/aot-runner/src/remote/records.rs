//! What a driver has sent, on disk until it is settled: whoever drives the loop next finds the jobs that still run, and the
//! replies that came meanwhile. Knows neither hosts nor engines.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use aot_core::coordinator::Usage;
use aot_core::state::State;
use serde::{Deserialize, Serialize};

use super::hosts::HostSlot;
use super::wire::{JobRequest, Spent};
use crate::atomic_file::{self, Durability};
use crate::plain_file;

/// In the sidecar.
const FOLDER: &str = "remote";

/// A longer record is none.
const RECORD_BYTES: u64 = 64 << 20;

/// Beside each record: what its job had told of its cost.
const SPENT: &str = "spent";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SentJob {
    pub key: String,
    pub loop_id: String,
    pub host: String,
    pub slot: u32,
    pub base: String,
    pub reference: String,
    /// What was asked, whatever the number of the attempt is.
    pub digest: String,
    pub request: JobRequest,
    /// The signed order.
    pub order: String,
}

/// What of a job's cost was told to the engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ToldSpent {
    pub usage: Usage,
    pub runs: usize,
}

#[derive(Debug)]
pub(super) struct Records {
    folder: PathBuf,
}

impl SentJob {
    pub fn slot(&self) -> HostSlot {
        HostSlot { host: self.host.clone(), slot: self.slot }
    }
}

impl Records {
    pub fn open(sidecar: &Path) -> io::Result<Records> {
        let folder = sidecar.join(FOLDER);
        plain_file::folder(sidecar, &folder)?;
        Ok(Records { folder })
    }

    /// All that earlier drivers have left.
    pub fn all(&self) -> Vec<SentJob> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let read = |path: PathBuf| {
            let is_record = path.extension().is_some_and(|ending| ending == "json");
            let text = is_record.then(|| plain_file::read(&path, RECORD_BYTES).ok()).flatten()?;
            // One of another version is left where it is, until the end of the run.
            serde_json::from_slice::<SentJob>(&text).ok()
        };
        let mut found: Vec<SentJob> = entries.filter_map(|entry| read(entry.path())).collect();
        found.sort_by(|one, other| one.key.cmp(&other.key));
        found
    }

    pub fn keep(&self, job: &SentJob) -> io::Result<()> {
        let text = serde_json::to_vec(job).expect("it can be written as JSON");
        atomic_file::write(&self.path(&job.key, "json"), &[&text], Durability::Synced)
    }

    pub fn told(&self, key: &str) -> ToldSpent {
        let text = plain_file::read(&self.path(key, SPENT), RECORD_BYTES).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    pub fn keep_told(&self, key: &str, told: &ToldSpent) {
        let text = serde_json::to_vec(told).expect("it can be written as JSON");
        // Without it a later driver counts the same cost again, which only makes the loop stop earlier.
        let _ = atomic_file::write(&self.path(key, SPENT), &[&text], Durability::Unsynced);
    }

    pub fn remove(&self, key: &str) {
        for ending in ["json", SPENT] {
            // What stays is found by the next run, which finds nothing that it could belong to.
            let _ = fs::remove_file(self.path(key, ending));
        }
    }

    pub fn clear(&self) {
        let _ = fs::remove_dir_all(&self.folder);
    }

    fn path(&self, key: &str, ending: &str) -> PathBuf {
        self.folder.join(format!("{}.{ending}", key.replace('/', "~")))
    }
}

impl ToldSpent {
    /// What was not told yet; from now on it was.
    pub fn rest(&mut self, spent: &Spent) -> Spent {
        let (now, told) = (spent.usage, self.usage);
        let usage = Usage {
            agent_runs: now.agent_runs.saturating_sub(told.agent_runs),
            mends: now.mends.saturating_sub(told.mends),
            tokens: now.tokens.saturating_sub(told.tokens),
            cost_usd: (now.cost_usd - told.cost_usd).max(0.0),
        };
        let runs = spent.runs.get(self.runs..).unwrap_or_default().to_vec();
        *self = ToldSpent { usage: now, runs: self.runs.max(spent.runs.len()) };
        Spent { usage, runs }
    }
}

/// What tells requests apart: all but the number of the attempt and what the loop counts.
pub(super) fn digest(request: &JobRequest) -> String {
    let plain = |state: &State| State { control: aot_core::state::Control::fresh(), ..state.clone() };
    let mut request = request.clone();
    match &mut request {
        JobRequest::Attempt(assignment) => {
            assignment.job.attempt = 0;
            assignment.atom.status = aot_core::state::AtomStatus::Pending;
            assignment.state = plain(&assignment.state);
        }
        JobRequest::Replan(asked) => {
            asked.job.attempt = 0;
            asked.state = plain(&asked.state);
        }
    }
    let text = serde_json::to_vec(&request).expect("it can be written as JSON");
    blake3::hash(&text).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_told_once() {
        let spent = |tokens, runs| Spent {
            usage: Usage { tokens, ..Usage::default() },
            runs: vec![aot_core::state::AgentRun::default(); runs],
        };
        let mut told = ToldSpent::default();
        assert_eq!(told.rest(&spent(100, 1)), spent(100, 1));
        assert_eq!(told.rest(&spent(150, 1)), spent(50, 0));
        assert_eq!(told.rest(&spent(150, 3)), spent(0, 2));
        // A host that has begun anew counts from the beginning.
        assert_eq!(told.rest(&spent(20, 1)), spent(0, 0));
    }
}
