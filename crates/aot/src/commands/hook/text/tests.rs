use aot_core::hook::{Instruction, TurnReport};
use aot_core::rules::Ledger;
use aot_core::rules::certificate::RedCheck;
use aot_core::state::State;

use super::{instruction, status_line, welcome};

fn state(text: &str) -> State {
    let read = aot_core::contract::read(text.as_bytes().to_vec()).expect("it is YAML");
    read.state.unwrap_or_else(|| panic!("{:?}", read.findings))
}

fn next(text: &str, report: &TurnReport) -> String {
    let now = "2025-01-15T11:00:00Z".parse().expect("a moment");
    instruction(&Instruction::of(&Ledger::open(state(text), now), report))
}

const LOOP: &str = r#"---
objective:
  goal: "Let it be"
  base_case: {checklist: [{item: "It holds", check: {type: command, value: "true"}}]}
  background_intent: "why"
  deliverables: "what"
  definition_of_done: "when"
  constraints: {max_iterations: 9, max_parallel_agents: 2, max_stall_count: 3}
control: {status: running, iteration: 2, stall_count: 2, prev_pending_count: 2, stop_requested: false, stop_reason: null, redirect_requested: false, session: "s"}
atoms:
  - {id: A1, description: "First", status: resolved, depends_on: []}
  - {id: A2, description: "Second", status: pending, depends_on: [A1], check: {type: command, value: "make second"}}
  - {id: A3, description: "Third", status: pending, depends_on: [A2]}
  - {id: A4, description: "One way", status: resolved, depends_on: [], or_group: way}
  - {id: A5, description: "Another way", status: pending, depends_on: [], or_group: way}
or_groups: {way: {choices: [A4, A5], selected: A4, failed: []}}
bindings:
  A1: {summary: "the first is there", artifacts: []}
  A4: {summary: "it goes this way", artifacts: []}
trail:
  - {type: failure, atom: A2, reason: "it broke", timestamp: "2025-01-15T10:00:00Z"}
  - {type: failure, atom: A2, reason: "it broke again", timestamp: "2025-01-15T10:00:00Z"}
corrections: []
---
"#;

#[test]
fn the_next_instruction_has_all_that_is_needed() {
    let text = next(LOOP, &TurnReport::default());
    for part in [
        "2 of 4 atoms unresolved, iteration 2 of 9",
        "STALLED: no progress for 2 of at most 3",
        "Goal: Let it be",
        "A2: Second",
        "proven by: `make second`",
        "builds on A1: the first is there",
        "failed 2 times, last: it broke again",
        "send aot-probe first",
        "A2 keeps failing: change its plan",
        "aot atom start ID",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert!(!text.contains("A3: Third"), "what is not ready is not listed:\n{text}");
}

#[test]
fn a_red_base_case_is_shown_with_its_checks() {
    let text = LOOP.replace("status: pending, depends_on: [A1]", "status: resolved, depends_on: [A1]");
    let text = text.replace("status: pending, depends_on: [A2]", "status: resolved, depends_on: [A2]");
    let red = vec![RedCheck { item: "It holds".into(), kind: None, reason: "exit 1".into() }];
    let text = next(&text, &TurnReport { red, ..TurnReport::default() });
    assert!(text.contains("It holds: exit 1") && text.contains("aot atom add"), "{text}");
}

#[test]
fn a_dormant_atom_is_not_unresolved() {
    let line = status_line(&state(LOOP));
    assert!(line.contains("2 atoms not resolved"), "{line}");
}

#[test]
fn a_session_is_welcomed_by_what_it_needs() {
    let check = |session: &str, status: &str, here: &str, expected: Option<&str>| {
        let text = LOOP.replace("session: \"s\"", &format!("session: {session}"));
        let text = text.replace("status: running", &format!("status: {status}"));
        let shown = welcome(&state(&text), here);
        match (expected, &shown) {
            (None, None) => {}
            (Some(part), Some(shown)) if shown.contains(part) => {}
            _ => panic!("{session} {status} {here}: {shown:?}"),
        }
    };
    check("\"s\"", "running", "s", Some("This session drives"));
    check("\"s\"", "running", "t", Some("take over"));
    check("null", "running", "t", Some("No session drives it"));
    check("null", "stopped", "t", Some("/aot:enter-recursion"));
    check("\"s\"", "completed", "t", None);
    check("\"s\"", "stopped", "s", None);
}
