//! What a driver has sent, on disk until it is settled: whoever drives the loop next finds the jobs that still run, and the
//! replies that came meanwhile. A record is believed as far as the order in it, which this machine has signed. Knows neither
//! hosts nor engines.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use aot_core::coordinator::{Task, Usage};
use aot_core::state::{Atom, AtomStatus, Objective};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::hosts::HostSlot;
use super::keys::{self, MachineIdentity, SignedAs};
use super::wire::{JobOrder, JobRequest, MOST_SLOTS, Spent};
use crate::atomic_file::{self, Durability};
use crate::plain_file;

/// In the sidecar.
const FOLDER: &str = "remote";

/// A longer record is none.
const RECORD_BYTES: u64 = 64 << 20;

/// An order that has not ended after so long is not waited for: a host takes none that is a day old.
const OLDEST_RECORD: SignedDuration = SignedDuration::from_hours(12);

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
    pub request: JobRequest,
    /// The signed order.
    pub order: String,
}

/// What becomes of a record of an earlier driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Usable,
    /// It is ours, and nothing can come of it any more.
    Old,
    /// Somebody else wrote it.
    Foreign,
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

    /// The folder can be written by others than this program: what is not in the signed order as well is not believed.
    pub fn examine(&self, us: &MachineIdentity, now: Timestamp) -> Found {
        let opened = keys::open(self.order.as_bytes(), SignedAs::Order, |by| *by == us.public());
        let order = opened.ok().and_then(|(_, text)| serde_json::from_str::<JobOrder>(&text).ok());
        let Some(order) = order else { return Found::Foreign };
        let is_the_same = order.key == self.key
            && order.loop_id == self.loop_id
            && order.host == self.host
            && order.base == self.base
            && order.reference == self.reference
            && order.request == self.request
            && self.slot < MOST_SLOTS
            && order.problem().is_none();
        match is_the_same {
            true if now.duration_since(order.at) < OLDEST_RECORD => Found::Usable,
            true => Found::Old,
            false => Found::Foreign,
        }
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
    /// What was not told yet of a job that goes on. Agents that it started besides itself are counted with its end.
    pub fn so_far(&mut self, spent: &Spent) -> Spent {
        let usage = Usage { agent_runs: self.usage.agent_runs, ..spent.usage };
        self.rest(&Spent { usage, runs: spent.runs.clone() })
    }

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

/// What a job is known by after its driver was killed: its task, its atom and what was agreed. What its brief tells of checks
/// and failures is left out, because it is never twice the same to the letter.
#[derive(Serialize)]
struct Sameness<'r> {
    task: &'r Task,
    atom: Option<Atom>,
    objective: &'r Objective,
}

pub(super) fn digest(request: &JobRequest) -> String {
    let atom = match request {
        JobRequest::Attempt(assignment) => {
            Some(Atom { status: AtomStatus::Pending, ..assignment.atom.clone() })
        }
        JobRequest::Replan(_) => None,
    };
    let sameness = Sameness { task: &request.job().task, atom, objective: &request.state().objective };
    let text = serde_json::to_vec(&sameness).expect("it can be written as JSON");
    blake3::hash(&text).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::super::wire::tests::order;
    use super::*;

    fn sent(us: &MachineIdentity, order: &JobOrder) -> SentJob {
        let text = serde_json::to_string(order).expect("JSON");
        SentJob {
            key: order.key.clone(),
            loop_id: order.loop_id.clone(),
            host: order.host.clone(),
            slot: 3,
            base: order.base.clone(),
            reference: order.reference.clone(),
            request: order.request.clone(),
            order: String::from_utf8(us.sign(SignedAs::Order, text)).expect("text"),
        }
    }

    #[test]
    fn a_record_is_believed_as_far_as_its_signed_order() {
        let (us, other) = (MachineIdentity::new().expect("a key"), MachineIdentity::new().expect("a key"));
        let now = Timestamp::now();
        let ours = sent(&us, &order());
        assert_eq!(ours.examine(&us, now), Found::Usable);
        assert_eq!(ours.examine(&us, now + SignedDuration::from_hours(13)), Found::Old);
        assert_eq!(sent(&other, &order()).examine(&us, now), Found::Foreign);
        let planted = JobOrder { reference: "refs/heads/main".into(), ..order() };
        assert_eq!(sent(&us, &planted).examine(&us, now), Found::Foreign);
        for changed in [
            SentJob { reference: "refs/heads/main".into(), ..ours.clone() },
            SentJob { slot: u32::MAX, ..ours.clone() },
            SentJob { host: "another".into(), ..ours.clone() },
            SentJob { key: "01loop/A2/1".into(), ..ours.clone() },
        ] {
            assert_eq!(changed.examine(&us, now), Found::Foreign, "{changed:?}");
        }
    }

    #[test]
    fn a_job_is_the_same_whatever_its_brief_and_its_attempt() {
        let asked = order().request;
        let mut again = asked.clone();
        let JobRequest::Attempt(assignment) = &mut again else { unreachable!("it is an attempt") };
        assignment.job.attempt = 9;
        assignment.atom.status = AtomStatus::InProgress;
        assert_eq!(digest(&asked), digest(&again));
        let JobRequest::Attempt(assignment) = &mut again else { unreachable!("it is an attempt") };
        assignment.atom.description = "Something else".into();
        assert_ne!(digest(&asked), digest(&again));
    }

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
        // What the loop counts with the end of a job is left for it.
        let runs = |agent_runs| Spent { usage: Usage { agent_runs, ..spent(150, 3).usage }, ..spent(150, 3) };
        assert_eq!(told.so_far(&runs(2)), spent(0, 0));
        assert_eq!(told.rest(&runs(2)).usage.agent_runs, 2);
        assert_eq!(told.rest(&runs(2)).usage.agent_runs, 0);
        // A host that has begun anew counts from the beginning.
        assert_eq!(told.rest(&spent(20, 1)), spent(0, 0));
    }
}
