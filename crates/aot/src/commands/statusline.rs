//! `aot statusline`: where the loop stands in one line, for the status line of Claude Code.

use std::io::Read;

use aot_core::rules::Refusal;
use aot_core::state::LoopStatus;
use aot_core::view::View;
use clap::Args;
use serde_json::json;

use super::{Invocation, Verb};
use crate::failure::Failure;
use crate::place;
use crate::print::Answer;

/// No client sends as much.
const MAX_INPUT: u64 = 1 << 20;

/// Print where the loop stands in one short line, for Claude Code's status line
///
/// Reads and ignores what the client sends on standard input. Without a loop here it prints nothing; it never fails.
#[derive(Debug, Args)]
pub struct StatuslineArgs {}

impl Verb for StatuslineArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        // The client may fail to write to a closed pipe.
        let _ = std::io::stdin().lock().take(MAX_INPUT).read_to_end(&mut Vec::new());
        let line = line(invocation).unwrap_or_default();
        let object = json!({"line": line});
        Ok(if line.is_empty() { Answer::printed() } else { Answer::new(line, object) })
    }
}

fn line(invocation: &Invocation) -> Option<String> {
    place::state_file(invocation.state.as_deref()).ok()?;
    let view = invocation.store().ok()?.answers::<Refusal>().ok()?.view?;
    Some(draw(&view))
}

fn draw(view: &View) -> String {
    let counts = view.counts;
    let all = counts.pending + counts.in_progress + counts.resolved;
    let mut parts = vec![match view.status {
        LoopStatus::Pending => "aot: agreed, not begun".to_owned(),
        LoopStatus::Completed => "aot: completed".to_owned(),
        LoopStatus::Stopped => "aot: stopped, not completed".to_owned(),
        LoopStatus::Running if view.redirect_requested => "aot: held for a redirect".to_owned(),
        LoopStatus::Running if view.stop_requested => "aot: stopping".to_owned(),
        LoopStatus::Running => format!("aot: iteration {}/{}", view.iteration, view.max_iterations),
    }];
    parts.push(format!("{}/{all} resolved", counts.resolved));
    if view.status == LoopStatus::Running {
        if !view.running.is_empty() {
            let running: Vec<&str> = view.running.iter().take(3).map(|atom| atom.as_str()).collect();
            let more = if view.running.len() > running.len() { " …" } else { "" };
            parts.push(format!("{}{more} at work", running.join(" ")));
        }
        if view.stall_count > 0 {
            parts.push(format!("no progress {}/{}", view.stall_count, view.max_stall_count));
        }
        parts.push(format!("≤{} agent runs left", view.bound.agent_runs));
    }
    parts.join(" · ")
}
