//! What a command or a webhook is told of an event: as variables, and as one JSON object. Texts of agents and commands are
//! made plain and kept short. Knows no processes.

use aot_core::state::{LoopStatus, State, StopKind};
use aot_core::view::Counts;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::{NotifyEvent, Variables};
use crate::plain_text;

/// So many characters of a goal or a reason are told.
const TEXT_KEPT: usize = 1_000;

/// So many of them fit on a desktop.
const LINE_KEPT: usize = 200;

#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    pub event: &'static str,
    pub goal: String,
    pub reason: String,
    pub status: LoopStatus,
    /// Absent while the loop goes on.
    pub exit: Option<u8>,
    pub verdict: Option<String>,
    pub until: Option<String>,
    pub iteration: u32,
    pub resolved: Option<usize>,
    pub atoms: Option<usize>,
    pub state: String,
    pub project: String,
    pub at: String,
}

impl Facts {
    pub fn new(event: NotifyEvent, goal: &str, reason: &str) -> Facts {
        Facts {
            event: event.word(),
            goal: short(goal, TEXT_KEPT),
            reason: short(reason, TEXT_KEPT),
            status: LoopStatus::Running,
            exit: None,
            verdict: None,
            until: None,
            iteration: 0,
            resolved: None,
            atoms: None,
            state: String::new(),
            project: String::new(),
            at: Timestamp::now().to_string(),
        }
    }

    pub fn set_verdict(&mut self, verdict: &StopKind, exit: u8) {
        let kind = serde_json::to_value(verdict)
            .ok()
            .and_then(|verdict| verdict["kind"].as_str().map(str::to_owned));
        (self.verdict, self.exit) = (kind, Some(exit));
    }

    pub fn count(&mut self, state: &State) {
        let (resolved, atoms) = Counts::of(state).progress();
        (self.resolved, self.atoms) = (Some(resolved), Some(atoms));
    }

    /// The goal and the reason, for a small window.
    pub fn line(&self) -> String {
        let whole = if self.reason.is_empty() {
            self.goal.clone()
        } else {
            format!("{}: {}", self.goal, self.reason)
        };
        short(&whole.replace('\n', " "), LINE_KEPT)
    }

    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// `AOT_EVENT` and so on, each fact under its own name; empty for what is not known.
    pub fn variables(&self) -> Variables {
        let facts = serde_json::to_value(self).unwrap_or_default();
        let named = facts.as_object().into_iter().flatten().map(|(name, value)| {
            let text = match value {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            (format!("AOT_{}", name.to_ascii_uppercase()), text)
        });
        named.collect()
    }
}

/// Without what a terminal obeys, and cut.
fn short(text: &str, most: usize) -> String {
    let text = plain_text::text(text.trim());
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_are_plain_and_short() {
        let reason = format!("\x1b[31mred\x1b[0m\0 $(touch x)\n{}", "y".repeat(5_000));
        let facts = Facts::new(NotifyEvent::Halt, "Goal\u{202e}", &reason);
        assert!(
            facts.reason.starts_with("red $(touch x)\nyyy") && facts.reason.ends_with('…'),
            "{}",
            facts.reason
        );
        assert_eq!(facts.reason.chars().count(), TEXT_KEPT + 1);
        assert!(facts.line().starts_with("Goal: red $(touch x) yyy"), "{}", facts.line());
        let variables = facts.variables();
        let of =
            |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        assert_eq!(
            (of("AOT_EVENT"), of("AOT_EXIT"), of("AOT_ITERATION")),
            (Some("halt"), Some(""), Some("0"))
        );
        assert_eq!((of("AOT_GOAL"), of("AOT_STATUS")), (Some("Goal"), Some("running")));
        assert!(!facts.json().contains('\n'), "one line: {}", facts.json());
    }
}
