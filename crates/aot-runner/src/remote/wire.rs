//! What a driver and its hosts say to each other, as JSON within signed envelopes. An older and a newer version read each
//! other's words: what is missing has a default, what is not known is left out. Does nothing.

use std::collections::BTreeMap;

use aot_core::coordinator::{Answer, JobOutcome, Usage};
use aot_core::state::{AgentRun, AtomId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::crew::{Assignment, PlanQuestion};
use crate::tree::{is_commit, reference};

/// Changes when an older side would misunderstand a newer one.
pub const VERSION: u32 = 1;

/// Most slots of one host.
pub const MOST_SLOTS: u32 = 1024;

/// The longest key of a job, and the longest name of its reference.
const MOST_CHARACTERS: usize = 200;

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

impl JobOrder {
    /// What of it cannot be used. Its names become words of git's command line and names of folders.
    pub fn problem(&self) -> Option<&'static str> {
        let is_plain = |text: &str| {
            let plain = |one: char| one.is_alphanumeric() || "-_./".contains(one);
            !text.is_empty()
                && text.chars().count() <= MOST_CHARACTERS
                && text.chars().all(plain)
                && !text.contains("..")
                && !text.contains("//")
                && !text.starts_with(['-', '/', '.'])
                && !text.ends_with(['/', '.'])
        };
        let atom = self.request.job().task.atom();
        let is_its_atom = match &self.request {
            JobRequest::Attempt(assignment) => Some(&assignment.atom.id) == atom,
            JobRequest::Replan(_) => atom.is_none(),
        };
        match () {
            () if !is_plain(&self.loop_id) || self.loop_id.contains('/') => Some("it has no usable loop"),
            () if !is_plain(&self.key) || !self.key.starts_with(&format!("{}/", self.loop_id)) => {
                Some("it has no usable key")
            }
            () if !is_plain(&self.reference) || self.reference != reference(&self.key) => {
                Some("its reference is not that of its job")
            }
            () if !is_commit(&self.base) => Some("it begins at no commit"),
            () if !is_its_atom || atom.is_some_and(|atom| !AtomId::is_usable(atom.as_str())) => {
                Some("its atom has no usable name")
            }
            () => None,
        }
    }
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
    /// All slots of the host are taken, by jobs of other loops or by some that are just ended.
    Busy,
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
    /// How many of them have jobs that the question does not name.
    #[serde(default)]
    pub others: u32,
    pub offers: Vec<String>,
    /// Whose limits its agents use up: hosts that name the same account are limited together.
    pub account: String,
    pub jobs: BTreeMap<String, JobProgress>,
}

#[cfg(test)]
pub(super) mod tests {
    use aot_core::coordinator::{JobId, Task};
    use aot_core::state::{Atom, Control, Objective, State};

    use super::*;

    pub fn order() -> JobOrder {
        let atom = AtomId::new("A1");
        let state = State {
            objective: Objective::default(),
            control: Control::fresh(),
            atoms: Default::default(),
            decompositions: Vec::new(),
            or_groups: Default::default(),
            bindings: Default::default(),
            trail: Vec::new(),
            corrections: Vec::new(),
            background: Default::default(),
        };
        let assignment = Assignment {
            job: JobId { task: Task::Work(atom.clone()), attempt: 7 },
            atom: Atom::new(atom, String::new()),
            state,
            brief: None,
            base: None,
        };
        JobOrder {
            version: VERSION,
            loop_id: "01loop".into(),
            host: "one".into(),
            key: "01loop/A1/7.2".into(),
            at: Timestamp::now(),
            agents: WantedAgents::default(),
            request: JobRequest::Attempt(Box::new(assignment)),
            base: "0123456789012345678901234567890123456789".into(),
            address: "ssh://me@driver/p".into(),
            reference: "refs/aot/01loop/A1/7.2".into(),
        }
    }

    #[test]
    fn names_in_an_order_are_words_and_nothing_else() {
        assert_eq!(order().problem(), None);
        type Spoil = fn(&mut JobOrder);
        let spoilt: [Spoil; 9] = [
            |order| order.reference = "refs/heads/main".into(),
            |order| order.reference = "refs/aot/01loop/../../heads/main".into(),
            |order| order.reference = "refs/aot/01loop/A1/8".into(),
            |order| order.key = "02loop/A1/7".into(),
            |order| order.key = "01loop/A1:x/7".into(),
            |order| order.loop_id = "..".into(),
            |order| order.base = "--upload-pack=touch".into(),
            |order| order.base = "HEAD".into(),
            |order| {
                let JobRequest::Attempt(assignment) = &mut order.request else { return };
                assignment.atom.id = AtomId::new("../../x");
                assignment.job.task = Task::Work(AtomId::new("../../x"));
            },
        ];
        for (number, spoil) in spoilt.into_iter().enumerate() {
            let mut order = order();
            spoil(&mut order);
            assert_ne!(order.problem(), None, "{number}: {order:?}");
        }
    }
}
