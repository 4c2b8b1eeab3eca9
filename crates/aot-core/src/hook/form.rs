//! Whether an agent of the host has ended with the answer that its role owes. Whether the answer is true is seen
//! elsewhere, by the program.

use super::Role;
use crate::brief::{ProbeAnswer, Unreadable, VerifierAnswer, WorkerAnswer};

/// An agent is asked again so often; then it is let go as it is.
pub const REASKS: u32 = 2;

/// What is wrong with the form of an answer, as words for the agent; `None` if nothing is.
pub fn misshapen(role: Role, last_message: &str) -> Option<String> {
    let read = |fault: Result<(), Unreadable>| fault.err().map(|unreadable| unreadable.reason);
    let (fault, fields) = match role {
        Role::Coordinator => return None,
        Role::Probe => {
            (read(ProbeAnswer::read(last_message).map(drop)), "`feasible`, `findings`, `cost_estimate`")
        }
        Role::Worker => (
            read(WorkerAnswer::read(last_message).map(drop)),
            "`success`, `summary`, `artifacts`, `reason`, `too_large`",
        ),
        Role::Verifier => {
            (read(VerifierAnswer::read(last_message).map(drop)), "`passed`, `evidence`, `failures`")
        }
    };
    let fault = fault?;
    Some(format!(
        "End with exactly one JSON object with {fields}, and nothing else. What was wrong:\n{fault}"
    ))
}
