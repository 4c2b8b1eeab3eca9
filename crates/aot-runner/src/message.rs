//! What the engine is told, and what it tells screens. The crew's threads, the watch of the state file and the signal
//! handler send a [`Message`]; a screen or a session's report is shown a [`Notice`].

use std::time::Duration;

use aot_core::brief::Leftover;
use aot_core::coordinator::{Event, JobId, Usage};
use aot_core::rules::Change;
use aot_core::rules::bound::Bound;
use aot_core::rules::certificate::{Certificate, RedCheck};
use aot_core::state::{AgentRun, State};
use aot_core::verdict::{Outcome, Verdict};

use crate::agents::AgentUsage;
use crate::checks::seal::Altered;
use crate::confinement::CheckCage;
use crate::live::HostsNow;
use crate::notify::NotifyEvent;
use crate::process::cage;
use crate::tree::{TreeKind, Waiting};

#[derive(Clone, Debug)]
pub enum Message {
    /// A fact for the coordinator.
    Event(Event),
    /// For screens only.
    Notice(Notice<'static>),
    /// A running agent has used this much since the last time; without a job it judges the base case.
    Spent { job: Option<JobId>, usage: Usage },
    /// An agent has ended.
    AgentRan { job: Option<JobId>, run: AgentRun },
    /// From the evaluation with this number. It is dropped if the coordinator no longer waits for that one.
    Evaluation { number: u32, notice: Notice<'static>, event: Option<Event> },
    /// The commit of an atom that is open again could not be reverted; later briefs name it.
    CommitStays(Leftover),
    /// A thread of the crew has ended.
    ThreadEnded,
    /// The state file may have changed.
    FileChanged,
    /// The state file can no longer be watched, for this reason.
    Unwatched(String),
    /// A person at the keyboard wants the run to end now.
    Interrupt,
}

#[derive(Clone, Debug)]
pub enum Notice<'n> {
    /// Where the work happens, where it lands, and what confines workers and checks.
    Ground {
        kind: TreeKind,
        branch: Option<&'n str>,
        cage: cage::Kind,
        checks: CheckCage,
    },
    /// These changes are about to be written into the state file.
    Recorded {
        changes: &'n [Change],
        state: &'n State,
    },
    /// Another program wrote the state file, and this is what it says now.
    Edited {
        state: &'n State,
    },
    Started {
        job: &'n JobId,
        state: &'n State,
    },
    Killed {
        job: &'n JobId,
    },
    /// The crew sent this event, and the coordinator is about to handle it.
    Event {
        event: &'n Event,
    },
    /// What an agent does now.
    Doing {
        job: JobId,
        line: String,
    },
    /// A tool of an agent could not do its work.
    ToolFailed {
        job: JobId,
        agent: String,
        line: String,
    },
    /// A worker goes on in the same tree, because something is missing.
    Mends {
        job: JobId,
        reason: String,
    },
    /// An agent has ended; without a job it is a judge of the base case or of a check.
    AgentEnded {
        job: Option<JobId>,
        agent: String,
        used: AgentUsage,
        took: Duration,
    },
    Verifying {
        number: u32,
    },
    /// A check of the base case has ended.
    Checked {
        item: String,
        outcome: Outcome,
    },
    Verified {
        verdict: Verdict,
        red: Vec<RedCheck>,
        /// Quality checks for which an agent of the host's session has to hand scores in.
        unjudged: Vec<String>,
        /// Of one that passed: files that the checks could see and no commit has.
        untracked: Vec<String>,
        took: Duration,
    },
    Tampered {
        altered: Vec<Altered>,
    },
    /// A landing is blocked by uncommitted edits, or by another program at work in the repository.
    Waiting {
        job: JobId,
        waiting: Waiting,
    },
    Note {
        text: String,
    },
    /// How the hosts are that do the jobs.
    Hosts {
        hosts: HostsNow,
    },
    /// The most that can still happen.
    Bound {
        bound: &'n Bound,
    },
    /// The loop has halted, and its state file says so. What still runs is ended now.
    Halted {
        certificate: &'n Certificate,
        state: &'n State,
        /// A person at the keyboard ended it.
        interrupted: bool,
    },
    /// The user is told of this, in the ways that the settings name.
    Notified {
        event: NotifyEvent,
        /// The terminal's bell is wanted, too.
        rings: bool,
    },
    /// Nothing has happened for a moment.
    Tick,
}

impl Notice<'_> {
    pub fn note(text: impl Into<String>) -> Notice<'static> {
        Notice::Note { text: text.into() }
    }
}
