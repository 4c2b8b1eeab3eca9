//! What the crew's threads say to the shell.

use std::time::Duration;

use aot_core::coordinator::{self, Answer, JobId, Outcome, Usage};
use aot_core::state::{AtomId, Binding};
use aot_core::verdict;

use crate::agents::AgentUsage;
use crate::checks::Evaluation;
use crate::checks::seal::Altered;
use crate::tree::Waiting;

#[derive(Clone, Debug)]
pub enum Message {
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
        used: AgentUsage,
        took: Duration,
    },
    /// The same of a judge.
    Judged {
        agent: String,
        used: AgentUsage,
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

impl Message {
    pub(super) fn lost(job: JobId) -> Option<Message> {
        Some(Message::Ended { job, outcome: Outcome::Lost { reason: BUG.into() }, usage: Usage::default() })
    }

    pub(super) fn unplanned(job: JobId) -> Option<Message> {
        let answer = Answer::Failed { reason: BUG.into() };
        Some(Message::Replanned { job, answer, usage: Usage::default() })
    }

    pub(super) fn unlanded(job: JobId) -> Option<Message> {
        Some(Message::Conflict { job, reason: BUG.into(), usage: Usage::default() })
    }

    pub(super) fn unverified(number: u32) -> Option<Message> {
        Some(Message::Verified { number, said: Said::Lost(BUG.into()) })
    }
}

/// What an evaluation means for the loop. It holds only on what is committed.
pub fn weighed(evaluation: &Evaluation, uncommitted: &[String]) -> coordinator::Evaluation {
    use aot_core::verdict::Verdict;
    use coordinator::Evaluation as Seen;

    let red = evaluation.in_the_way();
    match evaluation.verdict {
        Verdict::Passed if !uncommitted.is_empty() => {
            let named = uncommitted.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
            let reason = format!("the base case holds, but not on what is committed: commit or undo {named}");
            Seen::Prevented { reason }
        }
        Verdict::Passed => Seen::Passed,
        Verdict::Failed => Seen::Failed { red },
        Verdict::Pending => Seen::Pending { items: red },
        Verdict::Error => Seen::Error { items: red },
    }
}

/// What somebody changed that nobody may, in words.
pub fn tampered(altered: &[Altered]) -> String {
    let named: Vec<String> =
        altered.iter().take(3).map(|altered| format!("{} {}", altered.what, altered.how)).collect();
    let more = altered.len().saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("tampered: {}{more}", named.join(", "))
}
