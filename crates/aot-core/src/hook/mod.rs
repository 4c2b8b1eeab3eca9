//! What the hooks of a host are answered: a state and the host's event in, the answer out. Prints nothing, reads no
//! file, and has no rule of the loop of its own: whether it goes on is the coordinator's judgement.
//!
//! A host's session owns a loop (`control.session`). Whatever other sessions do is none of our business.

mod command;
mod form;
mod told;
mod tool;
mod verbs;

pub use form::{REASKS, misshapen};
pub use told::{Seen, fresh_coordinator, halted, next, standing_line, welcome};
pub use tool::{Call, Known, Place, Ruling, before_tool, settles_on, starts_one_of_ours};

use serde::{Deserialize, Serialize};

use crate::rules::bound;
use crate::state::{AtomId, AtomStatus, Check, Checks, IsolationMode, LoopStatus, State};

/// The agents of the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Coordinator,
    Probe,
    Worker,
    Verifier,
}

impl Role {
    /// `PLUGIN:AGENT` as the host calls an agent; none for agents that are not ours.
    pub fn of(agent_type: &str) -> Option<Role> {
        let name = agent_type.rsplit(':').next().unwrap_or(agent_type);
        match name {
            "aot-coordinator" => Some(Role::Coordinator),
            "aot-probe" => Some(Role::Probe),
            "aot-worker" => Some(Role::Worker),
            "aot-verifier" => Some(Role::Verifier),
            _ => None,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Role::Coordinator => "coordinator",
            Role::Probe => "probe",
            Role::Worker => "worker",
            Role::Verifier => "verifier",
        }
    }
}

/// Of a state what the quick hooks ask. Small whatever the graph, so that it can be kept beside the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    pub session: Option<String>,
    pub status: LoopStatus,
    pub redirecting: bool,
    /// Globs that nobody may change.
    pub protected: Vec<String>,
    /// Commands of the base case.
    pub checks: Vec<String>,
    /// What is in progress, each with the number of its attempt.
    pub in_progress: Vec<(AtomId, u32)>,
    /// So many agents of ours may be started in one turn of a session (D8).
    pub agents: u64,
    /// Whether each worker has a tree of its own, as far as the state says.
    pub trees: bool,
}

/// So many atoms in progress are kept; no loop has more.
const IN_PROGRESS_KEPT: usize = 64;

impl Standing {
    pub fn of(state: &State) -> Standing {
        let mode = state.objective.isolation.as_ref().and_then(|isolation| isolation.mode);
        let in_progress = state.atoms.values().filter(|atom| atom.status == AtomStatus::InProgress);
        Standing {
            session: state.control.session.clone(),
            status: state.control.status,
            redirecting: state.control.redirect_requested,
            protected: state.objective.protected.clone(),
            checks: state.objective.base_case.as_ref().map(commands).unwrap_or_default(),
            in_progress: in_progress
                .take(IN_PROGRESS_KEPT)
                .map(|atom| (atom.id.clone(), state.control.attempts.get(&atom.id).copied().unwrap_or(0)))
                .collect(),
            agents: bound::turn(state),
            trees: match mode {
                Some(IsolationMode::InPlace | IsolationMode::None) => false,
                Some(IsolationMode::Worktree) | None => true,
            },
        }
    }

    pub fn belongs_to(&self, session: &str) -> bool {
        self.session.as_deref() == Some(session)
    }

    pub fn is_running(&self) -> bool {
        self.status == LoopStatus::Running
    }

    /// Whether a tree of this name is lent to somebody.
    fn lends(&self, tree: &str) -> bool {
        self.in_progress.iter().any(|(atom, attempt)| tree == tree_of(atom, *attempt))
    }
}

/// What the tree of an attempt is called.
pub fn tree_of(atom: &AtomId, attempt: u32) -> String {
    format!("{atom}-{attempt}")
}

/// Every command that a set of checks runs.
fn commands(checks: &Checks) -> Vec<String> {
    let one = |check: &Check| match check {
        Check::Command { value } | Check::NotCommand { value } => Some(value.clone()),
        Check::File { .. } | Check::NotFile { .. } | Check::Assertion { .. } | Check::Quality(_) => None,
    };
    checks.leaves().filter_map(one).collect()
}
