//! What the crew's threads say to the shell.

use aot_core::coordinator::{JobId, Outcome};
use aot_core::state::Binding;
use aot_core::verdict;

use crate::checks::Evaluation;
use crate::checks::seal::Altered;
use crate::tree::Waiting;

#[derive(Clone, Debug)]
pub enum Word {
    /// A job has ended by itself.
    Ended {
        job: JobId,
        outcome: Outcome,
        judges: u64,
    },
    Landed {
        job: JobId,
        binding: Binding,
        judges: u64,
    },
    Conflict {
        job: JobId,
        reason: String,
        judges: u64,
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
        judges: u64,
    },
    Tampered(Vec<Altered>),
    Lost(String),
}

const BUG: &str = "aot has a bug; standard error tells where";

impl Word {
    pub(super) fn lost(job: JobId) -> Option<Word> {
        Some(Word::Ended { job, outcome: Outcome::Lost { reason: BUG.into() }, judges: 0 })
    }

    pub(super) fn unlanded(job: JobId) -> Option<Word> {
        Some(Word::Conflict { job, reason: BUG.into(), judges: 0 })
    }

    pub(super) fn unverified(number: u32) -> Option<Word> {
        Some(Word::Verified { number, said: Said::Lost(BUG.into()) })
    }
}
