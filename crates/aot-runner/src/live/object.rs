//! A notice as JSON objects, for `aot run --json` and the live record. Words nothing.

use aot_core::coordinator::{Answer, Event, Feasibility, JobId, JobOutcome};
use aot_core::rules::bound::Bound;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::confinement::CheckCage;
use crate::message::Notice;
use crate::tree::TreeKind;

/// A notice as JSON lines. A change has its own name for a type.
pub fn objects(notice: &Notice<'_>) -> Vec<Value> {
    let mut all: Vec<Value> = match notice {
        Notice::Recorded { changes, .. } => changes.iter().map(|change| json!(change)).collect(),
        Notice::Ground { kind, branch, cage, checks } => {
            let kind = match kind {
                TreeKind::Worktrees => "worktree",
                TreeKind::InPlace => "in_place",
                TreeKind::Unisolated => "none",
            };
            let checks = match checks {
                CheckCage::AsWorkers => cage.to_string(),
                CheckCage::None => "none".to_owned(),
            };
            vec![json!({
                "type": "ground", "isolation": kind, "branch": branch, "cage": cage.to_string(),
                "checks_cage": checks,
            })]
        }
        Notice::Edited { state } => {
            let control = &state.control;
            vec![json!({
                "type": "edited",
                "stop_requested": control.stop_requested,
                "stop_reason": control.stop_reason,
                "redirect_requested": control.redirect_requested,
            })]
        }
        Notice::Started { job: id, .. } => vec![job("started", id)],
        Notice::Killed { job: id } => vec![job("killed", id)],
        Notice::Doing { job: id, line } => {
            let mut object = job("doing", id);
            object["line"] = json!(line);
            vec![object]
        }
        Notice::Mends { job: id, reason } => {
            let mut object = job("mends", id);
            object["reason"] = json!(reason);
            vec![object]
        }
        Notice::AgentEnded { job: id, agent, used, took } => {
            let mut object = match id {
                Some(id) => job("agent_run", id),
                None => json!({"type": "agent_run", "task": "judge"}),
            };
            object["agent"] = json!(agent);
            object["tokens"] = json!(used.tokens);
            object["cost_usd"] = json!(used.cost_usd);
            object["milliseconds"] = json!(took.as_millis() as u64);
            vec![object]
        }
        Notice::Verifying { number } => vec![json!({"type": "verifying", "number": number})],
        Notice::Checked { item, outcome } => {
            vec![json!({"type": "checked", "item": item, "outcome": outcome})]
        }
        Notice::Verified { verdict, red, untracked, took, .. } => {
            let milliseconds = took.as_millis() as u64;
            vec![json!({
                "type": "evaluated", "verdict": verdict, "red": red, "untracked": untracked,
                "milliseconds": milliseconds,
            })]
        }
        Notice::Tampered { altered } => vec![json!({"type": "tampered", "changed": altered})],
        Notice::Waiting { job: id, waiting } => {
            let mut object = job("waiting", id);
            object["paths"] = json!(waiting.paths);
            object["reason"] = json!(waiting.reason);
            vec![object]
        }
        Notice::Hosts { hosts } => {
            let mut object = json!(hosts);
            object["type"] = json!("hosts");
            vec![object]
        }
        Notice::Note { text } => vec![json!({"type": "note", "text": text})],
        Notice::Bound { bound } => vec![bound_object(bound)],
        Notice::ToolFailed { job: id, agent, line } => {
            let mut object = job("tool_failed", id);
            object["agent"] = json!(agent);
            object["line"] = json!(line);
            vec![object]
        }
        Notice::Event { event } => event_objects(event),
        Notice::Notified { event, .. } => vec![json!({"type": "notified", "event": event.word()})],
        // The last line tells of a halt, with what is known when everything has ended.
        Notice::Halted { .. } | Notice::Tick => Vec::new(),
    };
    let now = Timestamp::now().to_string();
    all.iter_mut().for_each(|object| object["at"] = json!(now));
    all
}

/// What the crew sends is told as far as no change tells it: that a job has ended, and what a probe found.
fn event_objects(event: &Event) -> Vec<Value> {
    match event {
        Event::Ended { job: id, outcome: JobOutcome::Probed { feasible, findings, cost }, .. } => {
            let mut object = job("probed", id);
            object["feasible"] = json!(*feasible == Feasibility::Feasible);
            object["findings"] = json!(findings);
            object["cost"] = json!(cost);
            vec![object, job("ended", id)]
        }
        Event::Replanned { job: id, answer: Answer::Failed { reason }, .. } => {
            let mut object = job("replan_failed", id);
            object["reason"] = json!(reason);
            vec![object, job("ended", id)]
        }
        Event::Ended { job: id, .. } | Event::Replanned { job: id, .. } => vec![job("ended", id)],
        // A landing that waited is a job again until it is through.
        Event::Landed { job: id, .. }
        | Event::Conflict { job: id, .. }
        | Event::NotLanded { job: id, .. } => {
            vec![job("ended", id)]
        }
        Event::Begun { .. }
        | Event::Verified { .. }
        | Event::Spent { .. }
        | Event::Edited { .. }
        | Event::Tampered { .. }
        | Event::StopAsked { .. }
        | Event::RedirectAsked
        | Event::Redirected { .. }
        | Event::RedirectAbandoned
        | Event::Woke
        | Event::StartAsked { .. }
        | Event::AgentRan { .. }
        | Event::TurnEnded => Vec::new(),
    }
}

/// An object about a job.
fn job(kind: &str, job: &JobId) -> Value {
    json!({"type": kind, "task": job.task.word(), "atom": job.task.atom(), "attempt": job.attempt})
}

pub fn bound_object(bound: &Bound) -> Value {
    json!({
        "type": "bound",
        "agent_runs": bound.agent_runs,
        "seconds": bound.seconds,
        "cost_usd": bound.cost_usd,
        "tokens": bound.tokens,
    })
}
