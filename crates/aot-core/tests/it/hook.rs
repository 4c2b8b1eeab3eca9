//! What hooks are answered, as tables: who, with which tool, on what.

use aot_core::hook::{
    Call, Known, Place, Role, Ruling, Seen, Standing, before_tool, misshapen, next, settles_on, welcome,
};
use aot_core::rules::Ledger;
use aot_core::rules::certificate::RedCheck;
use aot_core::state::{LoopStatus, State};
use serde_json::{Value, json};

const PLACE: Place<'_> = Place {
    root: "/p",
    state: "/p/.claude/aot-loop-state.md",
    sidecar: "/p/.claude/aot",
    trees: "/p/.aot/trees",
    program: "/plugin/bin/aot",
};

fn standing() -> Standing {
    Standing {
        session: Some("s".into()),
        status: LoopStatus::Running,
        redirecting: false,
        protected: vec!["tests/**".into()],
        checks: vec!["npm test".into()],
        in_progress: vec![("A1".into(), 1), ("A3".into(), 2)],
        agents: 12,
        trees: true,
    }
}

fn ruled(standing: &Standing, session: &str, who: &str, tool: &str, input: &Value) -> String {
    ruled_of(standing, session, who, tool, input, &Known::default())
}

fn ruled_of(
    standing: &Standing,
    session: &str,
    who: &str,
    tool: &str,
    input: &Value,
    known: &Known,
) -> String {
    let target = match tool {
        "Write" | "Edit" | "MultiEdit" => input["file_path"].as_str(),
        _ => None,
    };
    let agent = format!("aot:aot-{who}");
    let agent_type = match who {
        "main" => None,
        "other" => Some("general-purpose"),
        _ => Some(agent.as_str()),
    };
    let call = Call { session, agent_type, tool, input, target, known };
    match before_tool(standing, &PLACE, &call, &|path| path.starts_with("tests/")) {
        Ruling::Silent => "silent".into(),
        Ruling::Allow => "allow".into(),
        Ruling::Ask(_) => "ask".into(),
        Ruling::Deny(_) => "deny".into(),
    }
}

/// Who, tool, what it is used on, what is ruled.
type Row = (&'static str, &'static str, &'static str, &'static str);

fn table(standing: &Standing, rows: &[Row]) {
    let mut wrong = Vec::new();
    for (who, tool, on, expected) in rows {
        let input = match *tool {
            "Bash" => json!({"command": on}),
            "Agent" => {
                let (kind, prompt) = on.split_once(' ').unwrap_or((on, ""));
                json!({"subagent_type": kind, "prompt": prompt})
            }
            _ => json!({"file_path": on}),
        };
        let actual = ruled(standing, "s", who, tool, &input);
        if actual != *expected {
            wrong.push(format!("{who} {tool} {on}: expected {expected}, ruled {actual}"));
        }
        // Whatever it is: to another session we say nothing.
        let other = ruled(standing, "t", who, tool, &input);
        if other != "silent" {
            wrong.push(format!("another session: {who} {tool} {on}: ruled {other}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_are_written_by_whom_they_may_be() {
    let tree = "/p/.aot/trees/A1-1/src/a.rs";
    table(
        &standing(),
        &[
            ("worker", "Write", tree, "silent"),
            ("worker", "Edit", "/p/.aot/trees/A1-1/tests/a.rs", "deny"),
            ("worker", "Write", "/p/src/a.rs", "deny"),
            ("worker", "Write", "/p/.aot/trees/A1-2/src/a.rs", "deny"),
            ("main", "Write", "/p/.aot/trees/A2-1/src/a.rs", "deny"),
            ("worker", "Write", "/elsewhere/a", "silent"),
            ("worker", "Write", "/p/.claude/aot-loop-state.md", "deny"),
            ("worker", "Write", "/p/.claude/aot/session.json", "deny"),
            ("worker", "Write", "/p/.claude/aot/loans/A1-1.json", "deny"),
            ("worker", "Bash", "rm -r .claude/aot/loans", "deny"),
            ("main", "Write", "/p/.claude/aot-loop-state.md", "deny"),
            ("main", "Edit", "/p/.claude/aot/journal", "deny"),
            ("main", "Write", "/p/tests/a.rs", "deny"),
            ("main", "Write", "/p/src/a.rs", "silent"),
            ("main", "Write", "/p/.claude/settings.json", "silent"),
            ("other", "Write", "/p/.claude/aot-loop-state.md", "deny"),
            ("other", "Write", "/p/src/a.rs", "silent"),
            ("probe", "Write", tree, "deny"),
            ("probe", "Edit", "/elsewhere/a", "deny"),
            ("verifier", "Write", tree, "deny"),
            ("coordinator", "Write", tree, "deny"),
        ],
    );
}

#[test]
fn commands_are_run_by_whom_they_may_be() {
    table(
        &standing(),
        &[
            // Our own verbs, and nothing that only looks like them.
            ("main", "Bash", "aot status", "allow"),
            ("main", "Bash", "aot atom start A1", "allow"),
            ("main", "Bash", "aot run --session", "silent"),
            ("coordinator", "Bash", "aot run --session", "deny"),
            ("coordinator", "Bash", "aot run --session other --take-over", "deny"),
            ("coordinator", "Bash", "aot turn", "deny"),
            ("main", "Bash", "aot redirect --hold", "allow"),
            ("coordinator", "Bash", "aot redirect --hold", "deny"),
            ("main", "Bash", "aot redirect --base-case x.yml -- --hold", "silent"),
            ("coordinator", "Bash", "aot redirect --base-case x.yml -- --hold", "deny"),
            ("main", "Bash", "aot agents", "silent"),
            ("probe", "Bash", "aot agents", "deny"),
            ("other", "Bash", "aot status", "allow"),
            ("other", "Bash", "aot stop --now", "silent"),
            ("other", "Bash", "aot atom resolve A1 --summary x", "silent"),
            ("main", "Bash", "aot run", "silent"),
            ("main", "Bash", "aot status; rm -rf /", "silent"),
            ("main", "Bash", "aot status && rm -rf /", "silent"),
            ("main", "Bash", "aot status $(rm -rf /)", "silent"),
            ("main", "Bash", "aot atom add x --run 'rm -rf /'", "silent"),
            ("main", "Bash", "rm -rf /", "silent"),
            ("main", "Bash", "ls", "silent"),
            ("main", "Bash", "aot confirm 'It is good'", "ask"),
            ("main", "Bash", "aot redirect --accept", "ask"),
            ("main", "Bash", "aot redirect --goal x", "silent"),
            ("main", "Bash", "sed -i s/running/completed/ .claude/aot-loop-state.md", "deny"),
            ("main", "Bash", "echo x >> .claude/aot/journal", "deny"),
            ("main", "Bash", "cat .claude/aot-loop-state.md", "silent"),
            ("main", "Bash", "cd .aot/trees/A1-1 && make", "silent"),
            // The coordinator has verbs, and eyes.
            ("coordinator", "Bash", "aot atom resolve A1 --summary 'done; well'", "allow"),
            ("coordinator", "Bash", "aot atom add 'More' --check 'npm test'", "allow"),
            ("coordinator", "Bash", "aot atom add 'More' --check 'test -f a'", "silent"),
            ("coordinator", "Bash", "aot atom add 'More' --check 'rm -rf /'", "silent"),
            ("main", "Bash", "aot atom add 'More' --check='rm -rf /'", "silent"),
            ("worker", "Bash", "aot atom add 'More' --check 'npm test'", "deny"),
            ("main", "Bash", "/plugin/bin/aot status", "allow"),
            ("main", "Bash", "/tmp/aot status", "silent"),
            ("worker", "Bash", "./aot status", "silent"),
            ("coordinator", "Bash", "aot atom add x --run 'make'", "deny"),
            ("coordinator", "Bash", "aot confirm x", "deny"),
            ("coordinator", "Bash", "ls -la", "silent"),
            ("coordinator", "Bash", "make", "deny"),
            // A worker works, and leaves the loop alone.
            ("worker", "Bash", "make", "silent"),
            ("worker", "Bash", "aot atom brief A1", "allow"),
            ("worker", "Bash", "aot atom resolve A1 --summary x", "deny"),
            ("worker", "Bash", "cd x && aot atom resolve A1 --summary x", "deny"),
            ("worker", "Bash", "aot stop", "deny"),
            ("worker", "Bash", "aot confirm x", "deny"),
            ("worker", "Bash", "printf x > .claude/aot-loop-state.md", "deny"),
            // A probe reads.
            ("probe", "Bash", "grep -rn x src | head", "silent"),
            ("probe", "Bash", "echo x > a", "deny"),
            ("probe", "Bash", "make", "deny"),
            ("probe", "Bash", "aot show", "allow"),
            ("probe", "Bash", "aot verify", "deny"),
            ("probe", "Bash", "find . -del\\\nete", "deny"),
            ("probe", "Bash", "aot atom fail A1 --reason x", "deny"),
            // A verifier runs checks.
            ("verifier", "Bash", "aot verify --json", "allow"),
            ("verifier", "Bash", "npm test", "silent"),
            ("verifier", "Bash", "npm test; rm x", "deny"),
            ("verifier", "Bash", "npm install", "deny"),
        ],
    );
}

#[test]
fn workers_are_started_for_what_was_started() {
    table(
        &standing(),
        &[
            ("coordinator", "Agent", "aot:aot-worker Solve A1 in /p", "silent"),
            ("coordinator", "Agent", "aot:aot-worker Solve A1.", "silent"),
            ("coordinator", "Agent", "aot:aot-worker Solve A2 in /p", "deny"),
            ("coordinator", "Agent", "aot:aot-worker Solve A11", "deny"),
            ("coordinator", "Agent", "aot:aot-probe Look at A2", "silent"),
            ("coordinator", "Agent", "general-purpose Do it", "deny"),
            ("probe", "Agent", "aot:aot-worker Solve A1", "deny"),
            ("main", "Agent", "aot:aot-coordinator Go on", "silent"),
            ("main", "Agent", "general-purpose Something else", "silent"),
            ("worker", "Agent", "Explore Look", "silent"),
            ("worker", "Agent", "aot:aot-worker Solve A1", "deny"),
        ],
    );
    table(
        &standing(),
        &[
            ("probe", "mcp__db__write", "x", "deny"),
            ("probe", "Read", "/p/a", "silent"),
            ("worker", "mcp__db__write", "x", "silent"),
            ("worker", "mcp__aot__atom_resolve", "x", "deny"),
            ("worker", "mcp__aot__status", "x", "silent"),
            ("main", "mcp__aot__atom_resolve", "x", "silent"),
        ],
    );
}

#[test]
fn a_worker_keeps_to_the_tree_it_settled_on() {
    let ask = |known: &Known, tool: &str, on: &str| {
        let input = if tool == "Bash" { json!({"command": on}) } else { json!({"file_path": on}) };
        ruled_of(&standing(), "s", "worker", tool, &input, known)
    };
    let (own, other) = ("/p/.aot/trees/A1-1/a", "/p/.aot/trees/A3-2/a");
    let settled = Known { tree: Some("A1-1".into()), ..Known::default() };
    for (tool, on, expected) in [
        ("Write", own, "silent"),
        ("Write", other, "deny"),
        ("Bash", "cd /p/.aot/trees/A1-1 && make", "silent"),
        ("Bash", "cd /p/.aot/trees/A3-2 && make", "deny"),
        ("Bash", "cat .aot/trees/A3-2/a", "silent"),
        ("Bash", "cp x .aot/trees/A3-2", "deny"),
        ("Bash", "cp x .aot/trees/A3-22", "silent"),
    ] {
        assert_eq!(ask(&settled, tool, on), expected, "{tool} {on}");
    }
    let taken = Known { tree: Some("A1-2".into()), ..Known::default() };
    assert_eq!(ask(&taken, "Bash", "ls"), "deny", "its attempt is over: it has nothing to do any more");
    let settles = |who: &str, tool: &str, on: &str, known: &Known| {
        let input = if tool == "Bash" { json!({"command": on}) } else { json!({"file_path": on}) };
        let agent = format!("aot:aot-{who}");
        let target = (tool == "Write").then_some(on);
        let agent_type = Some(agent.as_str());
        let call = Call { session: "s", agent_type, tool, input: &input, target, known };
        settles_on(&standing(), &PLACE, &call)
    };
    let new = Known::default();
    assert_eq!(settles("worker", "Bash", "aot atom brief A3", &new).as_deref(), Some("A3-2"));
    assert_eq!(settles("worker", "Bash", "aot atom brief A9", &new), None);
    assert_eq!(settles("worker", "Write", own, &new).as_deref(), Some("A1-1"));
    assert_eq!(settles("worker", "Bash", "cd .aot/trees/A3-2 && ls", &new).as_deref(), Some("A3-2"));
    assert_eq!(settles("worker", "Bash", "aot atom brief A3", &settled), None, "once, and for all");
    assert_eq!(settles("probe", "Bash", "aot atom brief A3", &new), None);
}

#[test]
fn agents_of_a_turn_are_counted_and_one_coordinates() {
    let worker = json!({"subagent_type": "aot:aot-worker", "prompt": "Solve A1"});
    let coordinator = json!({"subagent_type": "aot:aot-coordinator", "prompt": "Go on"});
    for (started, replaced, who, tool, input, expected) in [
        (11, false, "coordinator", "Agent", &worker, "silent"),
        (12, false, "coordinator", "Agent", &worker, "deny"),
        (12, false, "main", "Agent", &coordinator, "deny"),
        (12, false, "main", "Agent", &json!({"subagent_type": "Explore"}), "silent"),
        (0, true, "coordinator", "Agent", &worker, "deny"),
        (0, true, "coordinator", "Bash", &json!({"command": "aot atom start A2"}), "deny"),
        (0, true, "worker", "Bash", &json!({"command": "make"}), "silent"),
    ] {
        let known = Known { started, replaced, tree: None };
        let actual = ruled_of(&standing(), "s", who, tool, input, &known);
        assert_eq!(actual, expected, "{who} {tool} {input} {known:?}");
    }
}

#[test]
fn a_redirect_stops_hands_and_a_loop_at_rest_binds_less() {
    let redirecting = Standing { redirecting: true, ..standing() };
    table(
        &redirecting,
        &[
            ("worker", "Bash", "make", "deny"),
            ("worker", "Write", "/p/.aot/trees/A1-1/a", "deny"),
            ("coordinator", "Bash", "aot status", "allow"),
            ("main", "Bash", "make", "silent"),
        ],
    );
    let stopped = Standing { status: LoopStatus::Stopped, ..standing() };
    table(
        &stopped,
        &[
            ("main", "Write", "/p/tests/a.rs", "silent"),
            ("main", "Write", "/p/.claude/aot-loop-state.md", "deny"),
            ("worker", "Write", "/p/src/a.rs", "silent"),
            ("probe", "Write", "/p/src/a.rs", "deny"),
        ],
    );
    let nobody = Standing { session: None, ..standing() };
    assert_eq!(ruled(&nobody, "s", "main", "Bash", &json!({"command": "aot status"})), "silent");
    let in_place = Standing { trees: false, ..standing() };
    table(
        &in_place,
        &[("worker", "Write", "/p/src/a.rs", "silent"), ("worker", "Write", "/p/tests/a", "deny")],
    );
}

#[test]
fn agents_are_known_by_their_type() {
    for (name, role) in [
        ("aot:aot-coordinator", Some(Role::Coordinator)),
        ("aot-worker", Some(Role::Worker)),
        ("aot:aot-probe", Some(Role::Probe)),
        ("other:aot-verifier", Some(Role::Verifier)),
        ("aot-workers", None),
        ("general-purpose", None),
        ("", None),
    ] {
        assert_eq!(Role::of(name), role, "{name}");
    }
}

#[test]
fn answers_have_a_form() {
    let good = r#"{"success": true, "summary": "done", "artifacts": [], "reason": null, "too_large": false}"#;
    for (role, said, fits) in [
        (Role::Worker, good, true),
        (Role::Worker, "It is done.", false),
        (Role::Worker, r#"{"success": true}"#, false),
        (Role::Probe, r#"{"feasible": true, "findings": "easy", "cost_estimate": "small"}"#, true),
        (Role::Probe, good, false),
        (Role::Verifier, r#"{"passed": true, "evidence": "ran it", "failures": []}"#, true),
        (Role::Verifier, r#"{"passed": true, "evidence": "ran it", "failures": ["a"]}"#, false),
        (Role::Coordinator, "whatever", true),
    ] {
        assert_eq!(misshapen(role, said).is_none(), fits, "{said}");
    }
}

fn state(text: &str) -> State {
    let read = aot_core::contract::read(text.as_bytes().to_vec()).expect("it is YAML");
    read.state.unwrap_or_else(|| panic!("{:?}", read.findings))
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
bindings:
  A1: {summary: "the first is there", artifacts: []}
trail:
  - {type: failure, atom: A2, reason: "it broke", timestamp: "2025-01-15T10:00:00Z"}
  - {type: failure, atom: A2, reason: "it broke again", timestamp: "2025-01-15T10:00:00Z"}
corrections: []
---
"#;

#[test]
fn the_next_instruction_has_all_that_is_needed() {
    let state = state(LOOP);
    let ledger = Ledger::open(state.clone(), "2025-01-15T11:00:00Z".parse().expect("a moment"));
    let text = next(&ledger, &Seen::default());
    for part in [
        "2 of 3 atoms unresolved, iteration 2 of 9",
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
    assert!(!text.contains("A3: Third"), "what is not ready is not told:\n{text}");
}

#[test]
fn a_red_base_case_is_told_with_its_checks() {
    let text = LOOP.replace("status: pending, depends_on: [A1]", "status: resolved, depends_on: [A1]");
    let text = text.replace("status: pending, depends_on: [A2]", "status: resolved, depends_on: [A2]");
    let ledger = Ledger::open(state(&text), "2025-01-15T11:00:00Z".parse().expect("a moment"));
    let red = vec![RedCheck { item: "It holds".into(), reason: "exit 1".into() }];
    let told = next(&ledger, &Seen { red, notes: Vec::new() });
    assert!(told.contains("It holds: exit 1") && told.contains("aot atom add"), "{told}");
}

#[test]
fn a_session_is_welcomed_by_what_it_needs() {
    let check = |session: &str, status: &str, here: &str, expected: Option<&str>| {
        let text = LOOP.replace("session: \"s\"", &format!("session: {session}"));
        let text = text.replace("status: running", &format!("status: {status}"));
        let told = welcome(&state(&text), here);
        match (expected, &told) {
            (None, None) => {}
            (Some(part), Some(told)) if told.contains(part) => {}
            _ => panic!("{session} {status} {here}: {told:?}"),
        }
    };
    check("\"s\"", "running", "s", Some("This session drives"));
    check("\"s\"", "running", "t", Some("take over"));
    check("null", "running", "t", Some("Nobody drives it"));
    check("null", "stopped", "t", Some("/aot:enter-recursion"));
    check("\"s\"", "completed", "t", None);
    check("\"s\"", "stopped", "s", None);
}
