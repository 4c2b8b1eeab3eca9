//! What the hooks of a host's session need to know: who may use which tool on what, and what comes next in the loop.
//! Answers with facts. Knows no client, writes no sentences, prints nothing, reads no file, and has no rule of the loop:
//! whether a loop goes on is the coordinator's decision.
//!
//! A session owns a loop (`control.session`). Other sessions get no ruling at all.

mod instruction;
mod read_only;
mod ruling;
mod verbs;

pub use instruction::{Instruction, ReadyAtom, TurnReport};
pub use ruling::{
    Action, Caller, CallerMemory, Denial, ProjectPaths, Ruling, ToolCall, assigned_tree, claimed_tree, rule,
};

pub use verbs::speaks_for_person;

use serde::{Deserialize, Serialize};

use crate::brief::{ProbeAnswer, Unreadable, VerifierAnswer, WorkerAnswer};
use crate::rules::bound;
use crate::state::{
    AtomId, AtomStatus, Check, Checks, IsolationMode, LoopStatus, MAX_PARALLEL_AGENTS, State,
};

/// The agents that a host's session runs for a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostRole {
    Coordinator,
    Probe,
    Worker,
    Verifier,
}

impl HostRole {
    pub fn word(self) -> &'static str {
        match self {
            HostRole::Coordinator => "coordinator",
            HostRole::Probe => "probe",
            HostRole::Worker => "worker",
            HostRole::Verifier => "verifier",
        }
    }

    /// Whether the role's last message has the form that its answer must have. The program looks elsewhere whether the
    /// answer is true.
    pub fn check_answer(self, last_message: &str) -> Result<(), Unreadable> {
        match self {
            HostRole::Coordinator => Ok(()),
            HostRole::Probe => ProbeAnswer::read(last_message).map(drop),
            HostRole::Worker => WorkerAnswer::read(last_message).map(drop),
            HostRole::Verifier => VerifierAnswer::read(last_message).map(drop),
        }
    }
}

/// What hooks read of a state. It is small whatever the graph, because it is cached beside the file and read before
/// every use of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopFacts {
    pub session: Option<String>,
    pub status: LoopStatus,
    pub redirecting: bool,
    /// Globs that no agent may change.
    pub protected: Vec<String>,
    /// Commands of the base case.
    pub checks: Vec<String>,
    /// Atoms in progress, each with the number of its attempt.
    pub in_progress: Vec<(AtomId, u32)>,
    /// How many agents a session may start in one turn (D8).
    pub agents_per_turn: u64,
    /// Whether the state gives each worker a tree of its own.
    pub separate_trees: bool,
    /// Seconds of wall time that were counted so far, and the most that there may be (D12).
    pub seconds_spent: u64,
    pub max_seconds: u64,
    /// The most seconds for one attempt.
    pub attempt_seconds: u64,
}

impl LoopFacts {
    pub fn of(state: &State) -> LoopFacts {
        let mode = state.objective.isolation.as_ref().and_then(|isolation| isolation.mode);
        let in_progress = state.atoms.values().filter(|atom| atom.status == AtomStatus::InProgress);
        LoopFacts {
            session: state.control.session.clone(),
            status: state.control.status,
            redirecting: state.control.redirect_requested,
            protected: state.objective.protected.clone(),
            checks: state.objective.base_case.as_ref().map(commands).unwrap_or_default(),
            in_progress: in_progress
                .take(MAX_PARALLEL_AGENTS as usize)
                .map(|atom| (atom.id.clone(), state.control.attempts.get(&atom.id).copied().unwrap_or(0)))
                .collect(),
            agents_per_turn: bound::turn(state),
            separate_trees: match mode {
                Some(IsolationMode::InPlace | IsolationMode::None) => false,
                Some(IsolationMode::Worktree) | None => true,
            },
            seconds_spent: state.control.spent.as_ref().map_or(0, |spent| spent.seconds),
            max_seconds: state.constraints().max_wall_time().seconds(),
            attempt_seconds: state.constraints().agent_timeout().seconds(),
        }
    }

    pub fn belongs_to(&self, session: &str) -> bool {
        self.session.as_deref() == Some(session)
    }

    pub fn is_running(&self) -> bool {
        self.status == LoopStatus::Running
    }

    /// The atoms in progress, each with the name of its tree.
    fn trees(&self) -> impl Iterator<Item = (&AtomId, String)> {
        self.in_progress.iter().map(|(atom, attempt)| (atom, tree_of(atom, *attempt)))
    }

    /// Whether an attempt in progress has this tree.
    pub fn has_tree(&self, name: &str) -> bool {
        self.trees().any(|(_, tree)| tree == name)
    }

    fn is_check(&self, command: &str) -> bool {
        self.checks.iter().any(|check| check.trim() == command.trim())
    }
}

/// The name of an attempt's tree.
pub fn tree_of(atom: &AtomId, attempt: u32) -> String {
    format!("{atom}-{attempt}")
}

/// Every command that a set of checks runs.
fn commands(checks: &Checks) -> Vec<String> {
    let command = |check: &Check| match check {
        Check::Command { value } | Check::NotCommand { value } => Some(value.clone()),
        Check::File { .. } | Check::NotFile { .. } | Check::Assertion { .. } | Check::Quality(_) => None,
    };
    checks.leaves().filter_map(command).collect()
}
