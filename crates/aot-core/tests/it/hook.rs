//! What hooks rule, as tables: who, with which action, on what.

use aot_core::hook::{
    Action, Caller, CallerMemory, Denial, HostRole, Instruction, LoopFacts, ProjectPaths, Ruling, ToolCall,
    TurnReport, assigned_tree, claimed_tree, rule, speaks_for_person, tree_of,
};
use aot_core::rules::Ledger;
use aot_core::rules::certificate::RedCheck;
use aot_core::rules::plan::ReplanReason;
use aot_core::state::{AtomStatus, LoopStatus, MAX_PARALLEL_AGENTS, State};

const PATHS: ProjectPaths<'_> = ProjectPaths {
    root: "/p",
    state: "/p/.claude/aot-loop-state.md",
    sidecar: "/p/.claude/aot",
    trees: "/p/.aot/trees",
    program: "/plugin/bin/aot",
};

fn facts() -> LoopFacts {
    LoopFacts {
        session: Some("s".into()),
        status: LoopStatus::Running,
        redirecting: false,
        protected: vec!["tests/**".into()],
        checks: vec!["npm test".into()],
        in_progress: vec![("A1".into(), 1), ("A3".into(), 2)],
        agents_per_turn: 12,
        separate_trees: true,
        seconds_spent: 0,
        max_seconds: 3600,
        attempt_seconds: 600,
    }
}

fn role(name: &str) -> Option<HostRole> {
    use HostRole::{Coordinator, Probe, Verifier, Worker};
    [Coordinator, Probe, Worker, Verifier].into_iter().find(|role| role.word() == name)
}

fn caller(who: &str) -> Caller {
    match who {
        "main" => Caller::Session,
        "other" => Caller::OtherAgent,
        _ => Caller::Agent(role(who).expect("a role")),
    }
}

fn action<'a>(what: &str, on: &'a str) -> Action<'a> {
    match what {
        "write" => Action::WriteFile(on),
        "run" => Action::RunCommand(on),
        "start" => {
            let (kind, prompt) = on.split_once(' ').unwrap_or((on, ""));
            Action::StartAgent { role: role(kind), prompt }
        }
        "verb" => Action::CallVerb(on),
        "skill" => Action::LoadSkill,
        "read" => Action::Read,
        "use" => Action::UseOtherTool,
        _ => panic!("there is no action {what}"),
    }
}

fn ruling(facts: &LoopFacts, session: &str, row: (&str, &str, &str), memory: &CallerMemory) -> Ruling {
    let (who, what, on) = row;
    let call = ToolCall { session, caller: caller(who), action: action(what, on), memory };
    rule(facts, &PATHS, &call, &|path| path.starts_with("tests/"))
}

fn ruled(facts: &LoopFacts, session: &str, row: (&str, &str, &str), memory: &CallerMemory) -> &'static str {
    match ruling(facts, session, row, memory) {
        Ruling::Defer => "defer",
        Ruling::Allow => "allow",
        Ruling::AskPerson => "ask",
        Ruling::Deny(_) => "deny",
    }
}

/// Who, action, what it is used on, what is ruled.
type Row = (&'static str, &'static str, &'static str, &'static str);

fn table(facts: &LoopFacts, rows: &[Row]) {
    let new = CallerMemory::default();
    let mut wrong = Vec::new();
    for (who, what, on, expected) in rows {
        let actual = ruled(facts, "s", (who, what, on), &new);
        if actual != *expected {
            wrong.push(format!("{who} {what} {on}: expected {expected}, ruled {actual}"));
        }
        let other = ruled(facts, "t", (who, what, on), &new);
        if other != "defer" {
            wrong.push(format!("another session: {who} {what} {on}: ruled {other}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_are_written_by_whom_they_may_be() {
    let tree = "/p/.aot/trees/A1-1/src/a.rs";
    table(
        &facts(),
        &[
            ("worker", "write", tree, "defer"),
            ("worker", "write", "/p/.aot/trees/A1-1/tests/a.rs", "deny"),
            ("worker", "write", "/p/src/a.rs", "deny"),
            ("worker", "write", "/p/.aot/trees/A1-2/src/a.rs", "deny"),
            ("main", "write", "/p/.aot/trees/A2-1/src/a.rs", "deny"),
            ("worker", "write", "/elsewhere/a", "defer"),
            ("worker", "write", "/p/.claude/aot-loop-state.md", "deny"),
            ("worker", "write", "/p/.claude/aot/session.json", "deny"),
            ("worker", "write", "/p/.claude/aot/loans/A1-1.json", "deny"),
            ("worker", "run", "rm -r .claude/aot/loans", "deny"),
            ("main", "write", "/p/.claude/aot-loop-state.md", "deny"),
            ("main", "write", "/p/.claude/aot/journal", "deny"),
            ("main", "write", "/p/tests/a.rs", "deny"),
            ("main", "write", "/p/src/a.rs", "defer"),
            ("main", "write", "/p/.claude/settings.json", "defer"),
            ("other", "write", "/p/.claude/aot-loop-state.md", "deny"),
            ("other", "write", "/p/src/a.rs", "defer"),
            ("probe", "write", tree, "deny"),
            ("probe", "write", "/elsewhere/a", "deny"),
            ("verifier", "write", tree, "deny"),
            ("coordinator", "write", tree, "deny"),
        ],
    );
}

#[test]
fn commands_are_run_by_whom_they_may_be() {
    table(
        &facts(),
        &[
            // Our own verbs, and nothing that only looks like them.
            ("main", "run", "aot status", "allow"),
            ("main", "run", "aot atom start A1", "allow"),
            ("main", "run", "aot run --session", "defer"),
            ("coordinator", "run", "aot run --session", "deny"),
            ("coordinator", "run", "aot run --session other --take-over", "deny"),
            ("coordinator", "run", "aot turn", "deny"),
            ("main", "run", "aot redirect --hold", "allow"),
            ("coordinator", "run", "aot redirect --hold", "deny"),
            ("main", "run", "aot redirect --base-case x.yml -- --hold", "defer"),
            ("coordinator", "run", "aot redirect --base-case x.yml -- --hold", "deny"),
            ("main", "run", "aot agents", "defer"),
            ("probe", "run", "aot agents", "deny"),
            ("other", "run", "aot status", "allow"),
            ("other", "run", "aot stop --now", "defer"),
            ("other", "run", "aot atom resolve A1 --summary x", "defer"),
            ("main", "run", "aot run", "defer"),
            ("main", "run", "aot status; rm -rf /", "defer"),
            ("main", "run", "aot status && rm -rf /", "defer"),
            ("main", "run", "aot status $(rm -rf /)", "defer"),
            ("main", "run", "aot atom add x --run 'rm -rf /'", "defer"),
            ("main", "run", "rm -rf /", "defer"),
            ("main", "run", "ls", "defer"),
            ("main", "run", "aot confirm 'It is good'", "ask"),
            ("main", "run", "aot redirect --accept", "ask"),
            ("main", "run", "aot redirect --goal x", "defer"),
            ("main", "run", "sed -i s/running/completed/ .claude/aot-loop-state.md", "deny"),
            ("main", "run", "echo x >> .claude/aot/journal", "deny"),
            ("main", "run", "cat .claude/aot-loop-state.md", "defer"),
            ("main", "run", "cd .aot/trees/A1-1 && make", "defer"),
            // The coordinator has verbs, and eyes.
            ("coordinator", "run", "aot atom resolve A1 --summary 'done; well'", "allow"),
            ("coordinator", "run", "aot atom add 'More' --check 'npm test'", "allow"),
            ("coordinator", "run", "aot atom add 'More' --check 'test -f a'", "defer"),
            ("coordinator", "run", "aot atom add 'More' --check 'rm -rf /'", "defer"),
            ("main", "run", "aot atom add 'More' --check='rm -rf /'", "defer"),
            ("worker", "run", "aot atom add 'More' --check 'npm test'", "deny"),
            ("main", "run", "/plugin/bin/aot status", "allow"),
            ("main", "run", "/tmp/aot status", "defer"),
            ("worker", "run", "./aot status", "defer"),
            ("coordinator", "run", "aot atom add x --run 'make'", "deny"),
            ("coordinator", "run", "aot confirm x", "deny"),
            ("coordinator", "run", "ls -la", "defer"),
            ("coordinator", "run", "make", "deny"),
            // A worker works, and leaves the loop alone.
            ("worker", "run", "make", "defer"),
            ("worker", "run", "aot atom brief A1", "allow"),
            ("worker", "run", "aot atom resolve A1 --summary x", "deny"),
            ("worker", "run", "cd x && aot atom resolve A1 --summary x", "deny"),
            ("worker", "run", "aot stop", "deny"),
            ("worker", "run", "aot confirm x", "deny"),
            ("worker", "run", "printf x > .claude/aot-loop-state.md", "deny"),
            // A probe reads.
            ("probe", "run", "grep -rn x src | head", "defer"),
            ("probe", "run", "echo x > a", "deny"),
            ("probe", "run", "make", "deny"),
            ("probe", "run", "aot show", "allow"),
            ("probe", "run", "aot verify", "deny"),
            ("probe", "run", "find . -del\\\nete", "deny"),
            ("probe", "run", "aot atom fail A1 --reason x", "deny"),
            // A verifier runs checks.
            ("verifier", "run", "aot verify --json", "allow"),
            ("verifier", "run", "npm test", "defer"),
            ("verifier", "run", "npm test; rm x", "deny"),
            ("verifier", "run", "npm install", "deny"),
        ],
    );
}

#[test]
fn a_command_that_speaks_for_a_person_is_known() {
    for (text, speaks) in [
        ("aot confirm 'It is good'", true),
        ("/plugin/bin/aot redirect --accept", true),
        ("aot status", false),
        ("/elsewhere/aot confirm x", false),
        ("make", false),
    ] {
        assert_eq!(speaks_for_person(PATHS.program, text), speaks, "{text}");
    }
}

#[test]
fn workers_are_started_for_what_was_started() {
    table(
        &facts(),
        &[
            ("coordinator", "start", "worker Solve A1 in /p", "defer"),
            ("coordinator", "start", "worker Solve A1.", "defer"),
            ("coordinator", "start", "worker Solve A2 in /p", "deny"),
            ("coordinator", "start", "worker Solve A11", "deny"),
            ("coordinator", "start", "probe Look at A2", "defer"),
            ("coordinator", "start", "general-purpose Do it", "deny"),
            ("probe", "start", "worker Solve A1", "deny"),
            ("main", "start", "coordinator Go on", "defer"),
            ("main", "start", "general-purpose Something else", "defer"),
            ("worker", "start", "Explore Look", "defer"),
            ("worker", "start", "worker Solve A1", "deny"),
        ],
    );
    table(
        &facts(),
        &[
            ("probe", "use", "x", "deny"),
            ("probe", "read", "", "defer"),
            ("worker", "use", "x", "defer"),
            ("worker", "verb", "atom_resolve", "deny"),
            ("worker", "verb", "status", "defer"),
            ("main", "verb", "atom_resolve", "defer"),
        ],
    );
}

#[test]
fn a_worker_keeps_to_the_tree_it_claimed() {
    let (own, other) = ("/p/.aot/trees/A1-1/a", "/p/.aot/trees/A3-2/a");
    let claimed = CallerMemory { tree: Some("A1-1".into()), ..CallerMemory::default() };
    for (what, on, expected) in [
        ("write", own, "defer"),
        ("write", other, "deny"),
        ("run", "cd /p/.aot/trees/A1-1 && make", "defer"),
        ("run", "cd /p/.aot/trees/A3-2 && make", "deny"),
        ("run", "cat .aot/trees/A3-2/a", "defer"),
        ("run", "cp x .aot/trees/A3-2", "deny"),
        ("run", "cp x .aot/trees/A3-22", "defer"),
        ("run", "cp x .aot/trees/A3-2_", "defer"),
    ] {
        assert_eq!(ruled(&facts(), "s", ("worker", what, on), &claimed), expected, "{what} {on}");
    }
    let ended = CallerMemory { tree: Some("A1-2".into()), ..CallerMemory::default() };
    let ruling_of = |facts: &LoopFacts| ruling(facts, "s", ("worker", "run", "ls"), &ended);
    assert_eq!(ruling_of(&facts()), Ruling::Deny(Denial::AttemptEnded { tree: "A1-2".into() }));
    assert_eq!(ruling_of(&LoopFacts { separate_trees: false, ..facts() }), Ruling::Defer);
    let claims = |who: &str, what: &str, on: &str, memory: &CallerMemory| {
        let call = ToolCall { session: "s", caller: caller(who), action: action(what, on), memory };
        claimed_tree(&facts(), &PATHS, &call)
    };
    let new = CallerMemory::default();
    assert_eq!(claims("worker", "run", "aot atom brief A3", &new).as_deref(), Some("A3-2"));
    assert_eq!(claims("worker", "run", "aot atom brief A9", &new), None);
    assert_eq!(claims("worker", "write", own, &new).as_deref(), Some("A1-1"));
    assert_eq!(claims("worker", "write", "/p/.aot/trees/A9-1/a", &new), None);
    assert_eq!(claims("worker", "write", "/p/src/a", &new), None);
    assert_eq!(claims("worker", "run", "cd .aot/trees/A3-2 && ls", &new).as_deref(), Some("A3-2"));
    assert_eq!(claims("worker", "run", "make", &new), None);
    assert_eq!(claims("worker", "use", "", &new), None);
    assert_eq!(claims("worker", "run", "aot atom brief A3", &claimed), None, "once, and for all");
    assert_eq!(claims("probe", "run", "aot atom brief A3", &new), None);
}

#[test]
fn agents_of_a_turn_are_counted_and_one_coordinates() {
    for (started, replaced, who, what, on, expected) in [
        (11, false, "coordinator", "start", "worker Solve A1", "defer"),
        (12, false, "coordinator", "start", "worker Solve A1", "deny"),
        (12, false, "main", "start", "coordinator Go on", "deny"),
        (12, false, "main", "start", "Explore", "defer"),
        (0, true, "coordinator", "start", "worker Solve A1", "deny"),
        (0, true, "coordinator", "run", "aot atom start A2", "deny"),
        (0, true, "worker", "run", "make", "defer"),
        (0, true, "main", "run", "make", "defer"),
    ] {
        let memory = CallerMemory { started, replaced, ..CallerMemory::default() };
        let actual = ruled(&facts(), "s", (who, what, on), &memory);
        assert_eq!(actual, expected, "{who} {what} {on} {memory:?}");
    }
}

#[test]
fn a_worker_is_sent_to_a_free_tree() {
    let assigned = |prompt: &str, busy: &[&str]| {
        let busy = busy.iter().map(|tree| (*tree).to_owned()).collect();
        let memory = CallerMemory { busy, ..CallerMemory::default() };
        let action = Action::StartAgent { role: Some(HostRole::Worker), prompt };
        let caller = Caller::Agent(HostRole::Coordinator);
        assigned_tree(&facts(), &PATHS, &ToolCall { session: "s", caller, action, memory: &memory })
    };
    for (prompt, busy, expected) in [
        ("Solve A1.", &[][..], Some("A1-1")),
        ("Solve A1.", &["A1-1"], None),
        ("Solve A1.", &["A3-2"], Some("A1-1")),
        ("Solve A3 in /p/.aot/trees/A3-2; it builds on A1", &[], Some("A3-2")),
        ("Solve A3 in /p/.aot/trees/A3-2; it builds on A1", &["A3-2"], None),
        ("Solve A3, which builds on A1", &["A1-1"], Some("A3-2")),
        ("Solve A9", &[], None),
    ] {
        assert_eq!(assigned(prompt, busy).as_deref(), expected, "{prompt} {busy:?}");
    }
}

#[test]
fn a_redirect_stops_agents_and_a_stopped_loop_binds_less() {
    let redirecting = LoopFacts { redirecting: true, ..facts() };
    table(
        &redirecting,
        &[
            ("worker", "run", "make", "deny"),
            ("worker", "write", "/p/.aot/trees/A1-1/a", "deny"),
            ("coordinator", "run", "aot status", "allow"),
            ("main", "run", "make", "defer"),
        ],
    );
    let stopped = LoopFacts { status: LoopStatus::Stopped, ..facts() };
    table(
        &stopped,
        &[
            ("main", "write", "/p/tests/a.rs", "defer"),
            ("main", "write", "/p/.claude/aot-loop-state.md", "deny"),
            ("worker", "write", "/p/src/a.rs", "defer"),
            ("worker", "write", "/p/.aot/trees/A9-1/a", "defer"),
            ("probe", "write", "/p/src/a.rs", "deny"),
            ("coordinator", "start", "worker Solve A9", "deny"),
            ("coordinator", "run", "aot status", "deny"),
        ],
    );
    let unowned = LoopFacts { session: None, ..facts() };
    assert_eq!(ruled(&unowned, "s", ("main", "run", "aot status"), &CallerMemory::default()), "defer");
    let in_place = LoopFacts { separate_trees: false, ..facts() };
    table(
        &in_place,
        &[
            ("worker", "write", "/p/src/a.rs", "defer"),
            ("worker", "write", "/p/tests/a", "deny"),
            ("worker", "write", "/p/.aot/trees/A9-1/a", "defer"),
        ],
    );
}

/// The reason of each denial: who, action, on what.
#[test]
fn a_denial_says_why() {
    let trees = || PATHS.trees.to_owned();
    let new = CallerMemory::default();
    let claimed = CallerMemory { tree: Some("A1-1".into()), ..CallerMemory::default() };
    let replaced = CallerMemory { replaced: true, ..CallerMemory::default() };
    let busy = CallerMemory { started: 12, ..CallerMemory::default() };
    let at_work = CallerMemory { busy: vec!["A1-1".into()], ..CallerMemory::default() };
    use Denial::*;
    use HostRole::{Coordinator, Probe, Verifier, Worker};
    for (row, memory, denial) in [
        (("coordinator", "read", ""), &replaced, CoordinatorReplaced),
        (("coordinator", "start", "coordinator Go on"), &new, CoordinatorStartsLoopAgents),
        (("coordinator", "start", "worker Solve A1"), &at_work, TreeBusy { tree: "A1-1".into() }),
        (("probe", "skill", ""), &new, ToolNotForRole(Probe)),
        (("worker", "write", "/p/.claude/aot-loop-state.md"), &new, StateFile),
        (("main", "run", "rm .claude/aot-loop-state.md"), &new, StateFile),
        (("main", "write", "/p/tests/a"), &new, Protected { path: "tests/a".into() }),
        (("worker", "write", "/p/.aot/trees/A1-1/tests/a"), &new, Protected { path: "tests/a".into() }),
        (("main", "write", "/p/.aot/trees/A9-1/a"), &new, UnusedTree { tree: "A9-1".into() }),
        (("worker", "write", "/p/.aot/trees/A3-2/a"), &claimed, OtherWorkersTree),
        (("worker", "run", "touch .aot/trees/A3-2/a"), &claimed, OtherWorkersTree),
        (("worker", "write", "/p/a"), &new, OutsideTree { trees: trees() }),
        (("verifier", "use", ""), &new, ToolNotForRole(Verifier)),
        (("probe", "verb", "status"), &new, ToolNotForRole(Probe)),
        (("coordinator", "write", "/elsewhere/a"), &new, WritesNoFiles(Coordinator)),
        (("probe", "run", "make"), &new, OnlyReads(Probe)),
        (("probe", "run", "aot verify"), &new, OnlyReads(Probe)),
        (("worker", "verb", "turn"), &new, ChangesNoLoop(Worker)),
        (("worker", "run", "cd x; aot stop"), &new, ChangesNoLoop(Worker)),
        (("verifier", "run", "aot atom start A1"), &new, ChangesNoLoop(Verifier)),
        (("probe", "run", "aot redirect --hold"), &new, ChangesNoLoop(Probe)),
        (("worker", "run", "aot turn"), &new, ChangesNoLoop(Worker)),
        (("worker", "run", "aot run"), &new, ChangesNoLoop(Worker)),
        (("coordinator", "run", "aot turn"), &new, NotCoordinatorsDecision),
        (("coordinator", "run", "aot redirect --cancel"), &new, NotCoordinatorsDecision),
        (("coordinator", "run", "aot run"), &new, CoordinatorRestricted),
        (("coordinator", "run", "make"), &new, CoordinatorUsesVerbs),
        (("verifier", "run", "make"), &new, VerifierRunsChecks),
        (("worker", "run", "aot confirm x"), &new, NeedsPerson(Worker)),
        (("probe", "start", "Explore x"), &new, StartsNoAgents(Probe)),
        (("verifier", "start", "worker A1"), &new, StartsNoAgents(Verifier)),
        (("worker", "start", "probe A1"), &new, StartsNoLoopAgents(Worker)),
        (("coordinator", "start", "Explore x"), &new, CoordinatorStartsLoopAgents),
        (("coordinator", "start", "worker A1"), &busy, TurnLimit { agents: 12 }),
        (("coordinator", "start", "worker A2"), &new, NoAtomInProgress),
    ] {
        assert_eq!(ruling(&facts(), "s", row, memory), Ruling::Deny(denial), "{row:?}");
    }
    let redirecting = LoopFacts { redirecting: true, ..facts() };
    assert_eq!(ruling(&redirecting, "s", ("probe", "read", ""), &new), Ruling::Deny(Redirecting));
}

#[test]
fn answers_have_a_form() {
    let good = r#"{"success": true, "summary": "done", "artifacts": [], "reason": null, "too_large": false}"#;
    for (role, message, fits) in [
        (HostRole::Worker, good, true),
        (HostRole::Worker, "It is done.", false),
        (HostRole::Worker, r#"{"success": true}"#, false),
        (HostRole::Probe, r#"{"feasible": true, "findings": "easy", "cost_estimate": "small"}"#, true),
        (HostRole::Probe, good, false),
        (HostRole::Verifier, r#"{"passed": true, "evidence": "ran it", "failures": []}"#, true),
        (HostRole::Verifier, r#"{"passed": true, "evidence": "ran it", "failures": ["a"]}"#, false),
        (HostRole::Coordinator, "whatever", true),
    ] {
        assert_eq!(role.check_answer(message).is_ok(), fits, "{message}");
    }
}

fn state(text: &str) -> State {
    let read = aot_core::contract::read(text.as_bytes().to_vec()).expect("it is YAML");
    read.state.unwrap_or_else(|| panic!("{:?}", read.findings))
}

fn instruction(text: &str, report: &TurnReport) -> Instruction {
    let now = "2025-01-15T11:00:00Z".parse().expect("a moment");
    Instruction::of(&Ledger::open(state(text), now), report)
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
  - {id: A2, description: "Second", status: pending, depends_on: [A1, A4], check: {type: command, value: "make second"}}
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
  - {type: failure, atom: A3, reason: "not this one", timestamp: "2025-01-15T10:00:00Z"}
corrections: []
---
"#;

#[test]
fn hooks_keep_as_much_as_a_loop_may_start() {
    let mut state = state(LOOP);
    let template = aot_core::state::Atom::clone(&state.atoms["A2"]);
    for n in 0..MAX_PARALLEL_AGENTS {
        let id = format!("B{n}");
        state.add(aot_core::state::Atom {
            id: id.as_str().into(),
            status: AtomStatus::InProgress,
            ..template.clone()
        });
        state.control.attempts.insert(id.as_str().into(), n);
    }
    let facts = LoopFacts::of(&state);
    assert_eq!(facts.in_progress.len(), MAX_PARALLEL_AGENTS as usize);
    assert_eq!(facts.in_progress.last().map(|(atom, n)| tree_of(atom, *n)).as_deref(), Some("B1023-1023"));
    assert_eq!(facts.checks, ["true"]);
    assert!(facts.belongs_to("s") && facts.is_running() && facts.separate_trees && !facts.redirecting);
}

#[test]
fn an_instruction_has_what_is_needed() {
    let next = instruction(LOOP, &TurnReport::default());
    assert_eq!((next.unresolved, next.atoms), (2, 4), "a dormant choice takes no part");
    assert_eq!((next.iteration, next.max_iterations, next.stall_count, next.max_stall_count), (2, 9, 2, 3));
    let failing = |atom: &str| ReplanReason::Failing { atom: atom.into() };
    assert_eq!(next.replan, [failing("A2"), failing("A3"), ReplanReason::Stalling]);
    assert_eq!((next.ready.len(), next.ready_count), (1, 1), "A3 is not ready");
    let ready = &next.ready[0];
    assert_eq!((ready.id.as_str(), ready.failures, ready.probe_first), ("A2", 2, true));
    assert_eq!(ready.last_failure.as_deref(), Some("it broke again"));
    let way = ("A4".into(), "it goes this way".to_owned());
    assert_eq!(ready.builds_on, [("A1".into(), "the first is there".to_owned()), way]);
    assert!(ready.check.is_some() && !ready.runs_command && !ready.decomposed);
    assert!(!next.stop_requested && next.in_progress.is_empty());
}

#[test]
fn a_probe_goes_first_where_it_is_asked_for_or_work_failed_twice() {
    for (trail, probe, first) in [
        ("", "false", false),
        ("", "true", true),
        ("f", "true", false),
        ("ff", "false", true),
        ("ffr", "false", false),
    ] {
        let entries = trail.chars().map(|kind| {
            let kind = if kind == 'f' { "failure" } else { "replan" };
            format!("  - {{type: {kind}, atom: A2, reason: \"r\", timestamp: \"2025-01-15T10:00:00Z\"}}\n")
        });
        let (head, end) = (LOOP.find("trail:").expect("there"), LOOP.find("corrections:").expect("there"));
        let list =
            if trail.is_empty() { " []\n".to_owned() } else { format!("\n{}", entries.collect::<String>()) };
        let text = format!("{}trail:{list}{}", &LOOP[..head], &LOOP[end..]);
        let text =
            text.replace("description: \"Second\"", &format!("description: \"Second\", probe: {probe}"));
        let next = instruction(&text, &TurnReport::default());
        assert_eq!(next.ready[0].probe_first, first, "{trail:?} {probe}");
        assert_eq!(next.ready[0].last_failure.is_some(), trail.ends_with('f'), "{trail:?}");
    }
}

#[test]
fn red_checks_count_when_nothing_is_unresolved() {
    let report = TurnReport {
        red: vec![RedCheck { item: "It holds".into(), kind: None, reason: "exit 1".into() }],
        notes: vec!["a note".into()],
        ..TurnReport::default()
    };
    let next = instruction(LOOP, &report);
    assert!(next.red.is_empty(), "{next:?}");
    let text = LOOP.replace("status: pending, depends_on: [A1", "status: resolved, depends_on: [A1");
    let text = text.replace("status: pending, depends_on: [A2]", "status: resolved, depends_on: [A2]");
    let next = instruction(&text, &report);
    assert_eq!(next.red, report.red);
    assert_eq!(next.notes, report.notes);
    assert!(next.replan.contains(&ReplanReason::Red { checks: report.red.clone() }), "{next:?}");
}
