//! What the contract asks of certain fields beyond their type. A field that is not named here is required, or optional
//! if its type has a default.

use std::fmt::Display;

use super::super::document::Node;
use super::super::finding::{Findings, Severity};
use super::super::read::{Requirement, is_near};
use crate::state::{Constraints, MAX_PARALLEL_AGENTS};

/// What it means if the field is missing or empty.
pub(super) fn requirement(owner: &str, key: &str, mapping: Option<Node<'_>>) -> Option<Requirement> {
    match (owner, key) {
        ("Objective", "goal" | "base_case" | "background_intent" | "deliverables" | "definition_of_done") => {
            Some(Requirement::Agreed)
        }
        ("Decomposition", "reason") | ("Binding", "summary") | ("Correction", "description") => {
            Some(Requirement::History)
        }
        ("TrailForm", _) => match (TrailType::of(mapping), key) {
            (TrailType::Selection, "or_group" | "selected") => Some(Requirement::Required),
            (TrailType::Selection, "reason") => Some(Requirement::History),
            (TrailType::AboutAtom | TrailType::Unknown, "atom") => Some(Requirement::Required),
            (TrailType::Unknown, "type") | (_, "timestamp") => Some(Requirement::Required),
            _ => None,
        },
        _ => None,
    }
}

/// The least value of a number.
pub(super) fn least(owner: &str, key: &str) -> i64 {
    match (owner, key) {
        ("Constraints", "max_iterations" | "max_parallel_agents" | "max_stall_count") => 1,
        ("Control", "prev_pending_count") => -1,
        _ => 0,
    }
}

/// The greatest value of a counter.
pub(super) fn most(owner: &str, key: &str) -> u32 {
    if (owner, key) == ("Constraints", "max_parallel_agents") { MAX_PARALLEL_AGENTS } else { u32::MAX }
}

/// What the elements of a collection are called, if they are mappings or have names.
pub(super) fn noun(key: &str) -> Option<&'static str> {
    Some(match key {
        "atoms" => "atom",
        "decompositions" => "decomposition",
        "or_groups" => "OR group",
        "bindings" => "the binding of",
        "trail" => "trail entry",
        "corrections" => "correction",
        "confirmed" => "confirmation",
        "attempts" => "the attempt of",
        _ => return None,
    })
}

/// Which fields a trail entry has depends on its `type`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TrailType {
    Selection,
    AboutAtom,
    ByUser,
    Unknown,
}

impl TrailType {
    pub(super) fn of(entry: Option<Node<'_>>) -> TrailType {
        let Some(node) = entry.and_then(|entry| entry.get("type")) else { return TrailType::Selection };
        match node.scalar_str() {
            Some("failure" | "replan") => TrailType::AboutAtom,
            Some("user_correction") => TrailType::ByUser,
            Some(_) | None => TrailType::Unknown,
        }
    }

    /// Fields of the other types are keys of one's own here, and may say anything.
    pub(super) fn ignores(self, key: &str) -> bool {
        match self {
            TrailType::Selection => matches!(key, "atom" | "description"),
            TrailType::AboutAtom | TrailType::Unknown => {
                matches!(key, "or_group" | "selected" | "description")
            }
            TrailType::ByUser => matches!(key, "or_group" | "selected" | "atom" | "reason"),
        }
    }
}

/// Notes the defaults that are taken with a warning.
pub(super) fn note_defaults(owner: &str, node: Node<'_>, name: &dyn Display, findings: &mut Findings) {
    let is_absent = |key: &str| node.get(key).is_none_or(|value| value.is_null());
    let mut note = |message: String, hint: String| {
        findings.note(Severity::Warning, "default_taken", node.offset(), message, hint);
    };
    let defaults = Constraints::default();
    let limits = [
        ("max_iterations", defaults.max_iterations),
        ("max_parallel_agents", defaults.max_parallel_agents),
        ("max_stall_count", defaults.max_stall_count),
    ];
    match owner {
        "Objective" if is_absent("constraints") => {
            let listed = limits.map(|(key, limit)| format!("{key}: {limit}")).join(", ");
            let message = format!("{name} has no `constraints`; the defaults are taken");
            note(message, format!("write `constraints: {{{listed}}}`"));
        }
        "Constraints" => {
            for (key, limit) in limits.into_iter().filter(|(key, _)| is_absent(key)) {
                let message = format!("{name} has no `{key}`; the default {limit} is taken");
                note(message, format!("write `{key}: {limit}`"));
            }
        }
        "OrGroup" if node.get("failed").is_none() => {
            let message = format!("{name} has no `failed`; none is taken as failed");
            note(message, "write `failed: []`".to_owned());
        }
        "State" | "Control" => note_absent_counters(owner, node, name, findings),
        _ => {}
    }
}

/// What the program itself writes, by where it stands.
pub fn owned_by_program(owner: &str) -> &'static [&'static str] {
    match owner {
        "State" => &["control", "bindings", "trail", "corrections"],
        "Control" => &[
            "status",
            "iteration",
            "stall_count",
            "prev_pending_count",
            "stop_requested",
            "redirect_requested",
        ],
        _ => &[],
    }
}

/// A person who writes a file need not know what the program keeps in it (D39). Once the loop has begun, or where the key
/// only has a slip in it, filling it in would forget what happened.
fn note_absent_counters(owner: &str, node: Node<'_>, name: &dyn Display, findings: &mut Findings) {
    let control = if owner == "State" { node.get("control") } else { Some(node) };
    let status = control.and_then(|control| control.get("status")).and_then(|status| status.scalar_str());
    let has_begun = status.is_some_and(|status| status != "pending");
    let keys: Vec<&str> = node.entries().filter_map(|(key, _)| key.scalar_str()).collect();
    let absent = owned_by_program(owner).iter().copied().filter(|key| !keys.contains(key));
    let (lost, filled): (Vec<&str>, Vec<&str>) =
        absent.partition(|key| has_begun || keys.iter().any(|given| is_near(key, given)));
    for key in lost {
        let message = format!("{name} has no `{key}`");
        findings.note(Severity::Error, "missing", node.offset(), message, format!("add `{key}: VALUE`"));
    }
    if !filled.is_empty() {
        let message = format!("{name} has no `{}`; the program fills that in", filled.join("`, `"));
        let hint = "nothing to do: it is written when the loop begins";
        findings.note(Severity::Warning, "default_taken", node.offset(), message, hint);
    }
}
