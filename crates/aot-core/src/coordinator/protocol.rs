//! What the world tells the coordinator, and what the coordinator asks of the world.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::rules::certificate::{Certificate, RedCheck};
use crate::rules::order::Cost;
pub use crate::rules::order::Feasibility;
use crate::rules::plan::ReplanReason;
use crate::rules::replan::PlanChange;
use crate::rules::{Change, Refusal};
use crate::state::{AgentRun, AtomId, Binding, Fingerprint, Span, State};

/// A fact. The coordinator's state changes by nothing else.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A run begins: the first event of a process that dispatches. What stands in progress is an orphan, unless its
    /// commit was found.
    Begun {
        unrecorded: Vec<UnrecordedLanding>,
        fingerprint: Option<Fingerprint>,
        /// What is not as it was agreed on, for people, if the fingerprint is another one and that can be told.
        altered: Option<String>,
        redirect: RedirectLock,
    },
    /// A job has ended by itself. Late answers of killed jobs are ignored.
    Ended {
        job: JobId,
        outcome: JobOutcome,
        usage: Usage,
    },
    /// What [`Effect::Land`] asked for is on the branch.
    Landed {
        job: JobId,
        binding: Binding,
        usage: Usage,
    },
    /// It could not be: the change did not merge, or its check was not green on the merged tree.
    Conflict {
        job: JobId,
        reason: String,
        usage: Usage,
    },
    /// The world refused the landing: a full disk, a branch that is gone. The work is kept, and landed later (D12).
    NotLanded {
        job: JobId,
        reason: String,
        usage: Usage,
    },
    /// The base case was evaluated, as [`Effect::Verify`] asked.
    Verified {
        number: u32,
        evaluation: Evaluation,
        usage: Usage,
    },
    /// The coordinator agent has answered.
    Replanned {
        job: JobId,
        answer: Answer,
        usage: Usage,
    },
    /// A running agent has used this much since the last `Spent`. The rest is reported when it ends, and so are its judges.
    /// Each one is written into the file, so the sender limits how often it comes.
    Spent {
        usage: Usage,
    },
    /// An agent has ended. It comes before the event with its result, and nothing is charged for it: the journal keeps who
    /// used what.
    AgentRan {
        run: AgentRun,
    },
    /// Somebody else edited the file, and the store merged it.
    Edited {
        state: Box<State>,
    },
    /// The base case's or the protected files' fingerprint is another one (D21).
    Tampered {
        what: String,
    },
    StopAsked {
        how: StopMode,
        reason: Option<String>,
    },
    /// A person wants to redirect: everything is interrupted until [`Event::Redirected`].
    RedirectAsked,
    /// The redirect is made (or was cancelled), and this is the state now.
    Redirected {
        state: Box<State>,
    },
    /// Nobody holds the redirect any more (D16).
    RedirectAbandoned,
    /// A moment asked for by [`Effect::WakeAt`] has come, or nothing happened for a while.
    Woke,
    /// A host that dispatches by itself wants to work on an atom ([`Dispatch::OnRequest`](super::Dispatch)).
    StartAsked {
        atom: AtomId,
    },
    /// A host's coordinator agent has ended its turn: the iteration closes, an empty one too.
    TurnEnded,
}

/// A commit of this loop for an atom that stood in progress: it landed, but the record was lost (D23).
#[derive(Clone, Debug, PartialEq)]
pub struct UnrecordedLanding {
    pub atom: AtomId,
    pub attempt: u32,
    pub binding: Binding,
}

/// Whether somebody holds the redirect that the state shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectLock {
    Free,
    Held,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// Nothing new starts; what runs finishes and lands.
    Finish,
    /// What runs is killed.
    Now,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum JobOutcome {
    /// A worker or a command says that it is done (or a parent's check was run). `check` is what the program itself
    /// saw of the atom's check, on the worker's own tree.
    Done { summary: String, artifacts: Vec<String>, check: CheckOutcome },
    /// The worker's own failure: it said so, ran out of its time, touched what is protected, or gave no answer.
    Failed { reason: String },
    /// The worker calls the atom too large for one go: a failure, and a replan is due.
    TooLarge { reason: String },
    /// A probe's answer.
    Probed { feasible: Feasibility, findings: String, cost: Option<Cost> },
    /// The start was refused by a rate limit, or the network is down: no agent run, the loop is parked (D12).
    Refused { reason: String, retry_after: Option<Span> },
    /// Whoever was asked lacks something that only a person can give, and the loop stops (D12).
    Unable { lack: Lack, reason: String },
    /// What it needs is not to be had (a tree, disk space, a process): no attempt and no agent run. The loop is parked, and
    /// an iteration in which nothing could be started is taken back (D12).
    NotStarted { obstacle: Obstacle, reason: String },
    /// Lost without a failure of its own: killed from outside, the machine slept.
    Lost { reason: String },
}

/// What an agent lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lack {
    Login,
    /// Its program is not there, or cannot be executed.
    Program,
}

/// What keeps a start from happening.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Obstacle {
    /// The world may have room later.
    World,
    /// The command that prepares a tree failed. Waiting seldom mends a command: the loop stops when it fails again in the
    /// same way, and shows the end of its output.
    Setup { output: String },
}

/// What became of an atom's own check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckOutcome {
    /// The atom has none.
    None,
    Pass,
    Fail {
        reason: String,
    },
    /// It could not run: never a pass, and not charged to the worker (D17).
    Error {
        reason: String,
    },
    /// It waits for a person.
    Pending {
        reason: String,
    },
}

/// What a coordinator agent came back with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    Plan(PlanChange),
    /// No usable answer: failed, timed out, unreadable.
    Failed {
        reason: String,
    },
    /// Could not be started: the loop is parked.
    Refused {
        reason: String,
        retry_after: Option<Span>,
    },
    /// As [`JobOutcome::Unable`].
    Unable {
        lack: Lack,
        reason: String,
    },
    /// As [`JobOutcome::NotStarted`].
    NotStarted {
        obstacle: Obstacle,
        reason: String,
    },
}

/// What an evaluation of the base case came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluation {
    Passed,
    Failed {
        red: Vec<RedCheck>,
    },
    /// Machine checks pass, and a person has to confirm the rest.
    Pending {
        items: Vec<RedCheck>,
    },
    /// A check cannot run.
    Error {
        items: Vec<RedCheck>,
    },
    /// It holds, but `completed` may not be written on this tree (D20).
    Prevented {
        reason: String,
    },
    /// The evaluation itself got lost: it is asked for again.
    Lost {
        reason: String,
    },
}

/// What a job has cost. `agent_runs` counts agents that the program started besides the job itself: judges, and mends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    pub agent_runs: u64,
    /// Those of them in which the same agent went on: its answer could not be read, or its check was red (D34).
    pub mends: u64,
    pub cost_usd: f64,
    pub tokens: u64,
}

/// Who is meant. The attempt is the number of the iteration in which the job was started; an atom starts at most
/// once in an iteration, so the pair never comes again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobId {
    pub task: Task,
    pub attempt: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Task {
    /// Look before working, or at a choice beside the one that is probed (D10); cannot write.
    Probe(AtomId),
    /// Solve the atom, by an agent or by its `run` command.
    Work(AtomId),
    /// Run the check of a parent whose children are all resolved (D3): no agent, nothing to land.
    Check(AtomId),
    /// Ask the coordinator agent for a change of plan.
    Replan,
}

impl Task {
    /// What is done, in a word of the live record.
    pub fn word(&self) -> &'static str {
        match self {
            Task::Probe(_) => "probe",
            Task::Work(_) => "work",
            Task::Check(_) => "check",
            Task::Replan => "replan",
        }
    }

    pub fn atom(&self) -> Option<&AtomId> {
        match self {
            Task::Probe(atom) | Task::Work(atom) | Task::Check(atom) => Some(atom),
            Task::Replan => None,
        }
    }
}

/// A job to start, with what the state does not say and its brief should.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub id: JobId,
    /// What a probe found, before the work.
    pub findings: Option<String>,
    /// Why the last attempt came back without being a failure: a conflict, a check that could not run.
    pub return_reason: Option<String>,
    /// Why a replan is asked for; empty for all other tasks.
    pub why: Vec<ReplanReason>,
    /// Why earlier changes of the plan were refused, the latest first.
    pub refusals: Vec<String>,
}

/// A wish. They are performed in the order given; what is recorded comes first.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Write these into the state file, in one write. The coordinator has applied them to its own state.
    Record(Vec<Change>),
    Start(Job),
    /// End the job and discard its tree; whatever it still says is ignored. If it is a landing and is through
    /// already, its `Landed` is answered with `Revert`.
    Kill(JobId),
    /// Merge, check again if the branch moved, compare and swap: answered by `Landed`, `Conflict` or `NotLanded`.
    Land(JobId),
    /// Evaluate the base case in the project's root, freshly.
    Verify {
        number: u32,
    },
    /// Take the commit of an atom that is no longer resolved back, if that is clean (D23).
    Revert {
        atom: AtomId,
        commit: String,
    },
    /// Send [`Event::Woke`] then, at the latest. The newest replaces the one before.
    WakeAt(Timestamp),
    /// The request was refused, nothing has changed ([`Event::StartAsked`]).
    Refuse(Refusal),
    /// The last effect of a run.
    Halt(Box<Certificate>),
}
