//! What the crew's threads say to the shell.

use std::time::Duration;

use aot_core::coordinator::{Answer, JobId, Outcome, Usage};
use aot_core::state::{AtomId, Binding};
use aot_core::verdict;

use crate::agents::Used;
use crate::checks::Evaluation;
use crate::checks::seal::Altered;
use crate::tree::Waiting;

#[derive(Clone, Debug)]
pub enum Word {
    /// A job has ended by itself.
    Ended {
        job: JobId,
        outcome: Outcome,
        usage: Usage,
    },
    Landed {
        job: JobId,
        binding: Binding,
        usage: Usage,
    },
    Conflict {
        job: JobId,
        reason: String,
        usage: Usage,
    },
    /// The coordinator agent has answered.
    Replanned {
        job: JobId,
        answer: Answer,
        usage: Usage,
    },
    /// An agent under way has used so much more.
    Spent {
        usage: Usage,
    },
    /// What an agent does now.
    Doing {
        job: JobId,
        line: String,
    },
    /// An agent has ended, whatever it said.
    Asked {
        job: JobId,
        agent: String,
        used: Used,
        took: Duration,
    },
    /// The same of a judge.
    Judged {
        agent: String,
        used: Used,
        took: Duration,
    },
    /// The commit of an atom that is open again stays on the branch.
    Stays {
        atom: AtomId,
        commit: String,
    },
    /// A landing waits.
    Waiting {
        job: JobId,
        waiting: Waiting,
    },
    Verified {
        number: u32,
        said: Said,
    },
    /// A check of the base case has ended.
    Checked {
        number: u32,
        item: String,
        outcome: verdict::Outcome,
    },
    /// Something that a person should know.
    Note(String),
    /// A thread has ended.
    Left,
    /// The state file may be another one.
    FileChanged,
    /// It can no longer be watched, for this reason.
    Blind(String),
    /// A person at the keyboard wants it to end, now.
    Interrupt,
}

/// What became of an evaluation.
#[derive(Clone, Debug)]
pub enum Said {
    Seen {
        evaluation: Box<Evaluation>,
        /// Edits of tracked files that were there before.
        uncommitted: Vec<String>,
        usage: Usage,
    },
    Tampered(Vec<Altered>),
    Lost(String),
}

const BUG: &str = "aot has a bug; standard error tells where";

impl Word {
    pub(super) fn lost(job: JobId) -> Option<Word> {
        Some(Word::Ended { job, outcome: Outcome::Lost { reason: BUG.into() }, usage: Usage::default() })
    }

    pub(super) fn unplanned(job: JobId) -> Option<Word> {
        let answer = Answer::Failed { reason: BUG.into() };
        Some(Word::Replanned { job, answer, usage: Usage::default() })
    }

    pub(super) fn unlanded(job: JobId) -> Option<Word> {
        Some(Word::Conflict { job, reason: BUG.into(), usage: Usage::default() })
    }

    pub(super) fn unverified(number: u32) -> Option<Word> {
        Some(Word::Verified { number, said: Said::Lost(BUG.into()) })
    }
}
