//! Every reason to halt, with its exit code.

use serde_json::{Value, json};

use crate::repo::{Plan, Repo, STATE, atom, check};
use crate::scene;

/// A plan, how it halts, and how the atoms stand then.
fn ends(plan: &Plan<'_>, exit: i32, reason: &str, atoms: &str) {
    let repo = Repo::with(plan);
    let said = repo.run();
    let halted = said.halted();
    assert_eq!(said.exit, exit, "{}\n{}", said.out, said.err);
    assert_eq!(halted["type"], "halted", "{halted}");
    assert_eq!(halted["exit"], exit, "{halted}");
    let told = halted["reason"].as_str().unwrap_or_default();
    assert!(told.contains(reason), "{told:?} does not say {reason:?}");
    assert_eq!(repo.atoms(), atoms);
    assert_eq!(repo.leftovers(), Vec::<String>::new(), "{}", said.out);
}

#[test]
fn completed() {
    ends(&Plan::default(), 0, "all checks pass", "A1:resolved");
}

#[test]
fn already_true() {
    let plan = Plan { base_case: &check("true"), ..Plan::default() };
    ends(&plan, 0, "all checks pass", "A1:pending");
}

#[test]
fn parallel_atoms_a_decomposition_a_failing_choice_and_a_race() {
    let atoms = [
        atom("A1", "", "echo 1 > a1"),
        atom("A2", "", "echo 2 > a2"),
        "  - {id: A3, description: \"A parent\", status: pending, depends_on: [A1]}\n".to_owned(),
        atom("A4", "A1", "cat a1 && echo 4 > a4"),
        atom("A5", "A1, A4", "cat a4 && echo 5 > a5"),
        "  - {id: A6, description: \"Bad\", status: pending, depends_on: [A2], or_group: way, run: \"exit 3\"}\n"
            .to_owned(),
        "  - {id: A7, description: \"Good\", status: pending, depends_on: [A2], or_group: way, run: \"echo 7 > a7\"}\n"
            .to_owned(),
        "  - {id: A8, description: \"Slow\", status: pending, depends_on: [], or_group: race, run: \"sleep 60; echo 8 > r\"}\n"
            .to_owned(),
        "  - {id: A9, description: \"Fast\", status: pending, depends_on: [], or_group: race, run: \"echo 9 > r\"}\n"
            .to_owned(),
        atom("A10", "A3, A6, A8", "cat a5 a7 r > all"),
    ]
    .concat();
    let plan = Plan {
        atoms: &atoms,
        or_groups: "  way: {choices: [A6, A7], selected: A6, failed: []}\n  race: {choices: [A8, A9], selected: A8, failed: [], speculative: true}",
        decompositions: "  - {parent: A3, children: [A4, A5], reason: \"two steps\"}",
        base_case: &check("test \"$(cat all | tr '\\n' ' ')\" = '5 7 9 '"),
        ..Plan::default()
    };
    ends(
        &plan,
        0,
        "all checks pass",
        "A1:resolved A2:resolved A3:resolved A4:resolved A5:resolved A6:pending A7:resolved A8:pending A9:resolved A10:resolved",
    );
}

#[test]
fn stalled_when_everything_is_done_and_the_base_case_is_red() {
    let plan = Plan { base_case: &check("false"), ..Plan::default() };
    ends(&plan, 11, "stalled", "A1:resolved");
}

#[test]
fn stalled_when_an_atom_never_succeeds() {
    let plan = Plan { atoms: &atom("A1", "", "exit 1"), ..Plan::default() };
    ends(&plan, 11, "stalled", "A1:pending");
}

#[test]
fn iteration_limit() {
    let plan = Plan {
        atoms: &(atom("A1", "", "echo one > one") + &atom("A2", "A1", "echo two > two")),
        base_case: &check("test -e two"),
        constraints: "max_iterations: 1, max_parallel_agents: 1, max_stall_count: 3",
        ..Plan::default()
    };
    ends(&plan, 12, "iteration limit", "A1:resolved A2:pending");
}

#[test]
fn exhausted() {
    let atoms = "  - {id: A1, description: \"Bad\", status: pending, depends_on: [], or_group: way, run: \"exit 3\"}\n  - {id: A2, description: \"Worse\", status: pending, depends_on: [], or_group: way, run: \"exit 4\"}";
    let plan =
        Plan { atoms, or_groups: "  way: {choices: [A1, A2], selected: A1, failed: []}", ..Plan::default() };
    ends(&plan, 13, "way", "A1:pending A2:pending");
}

#[test]
fn deadlock() {
    // The second choice waits for what waits for it: seen when the first has failed (D5).
    let atoms = "  - {id: A1, description: \"Bad\", status: pending, depends_on: [], or_group: way, run: \"exit 3\"}\n  - {id: A2, description: \"In a circle\", status: pending, depends_on: [A3], or_group: way, run: \"true\"}\n  - {id: A3, description: \"After the way\", status: pending, depends_on: [A1], run: \"true\"}";
    let plan =
        Plan { atoms, or_groups: "  way: {choices: [A1, A2], selected: A1, failed: []}", ..Plan::default() };
    ends(&plan, 14, "deadlock", "A1:pending A2:pending A3:pending");
}

#[test]
fn out_of_time() {
    let plan = Plan {
        atoms: &atom("A1", "", "sleep 60"),
        constraints: "max_iterations: 20, max_parallel_agents: 3, max_stall_count: 3, max_wall_time: 1s",
        ..Plan::default()
    };
    ends(&plan, 15, "time is up", "A1:pending");
}

#[test]
fn tampered_with_a_protected_file() {
    let plan = Plan { objective: "  protected: [\"tests/**\"]", ..Plan::default() };
    let repo = Repo::with(&plan);
    repo.write("tests/one", "as agreed\n");
    repo.git(&["add", "tests"]);
    repo.git(&["commit", "-qm", "Tests"]);
    assert_eq!(repo.run().exit, 0);
    repo.write("tests/one", "as wished\n");
    repo.git(&["commit", "-qam", "Other tests"]);
    let said = repo.run();
    assert_eq!(said.exit, 16, "{}{}", said.out, said.err);
    let halted = said.halted();
    assert_eq!(halted["reason"], "tampered: tests/one was changed", "{halted}");
    assert_eq!(halted["changed"][0]["what"], "tests/one", "{halted}");
    // A person who meant it says so.
    assert_eq!(repo.aot(&["redirect", "--accept"]).exit, 0);
    assert_eq!(repo.run().exit, 0);
}

#[test]
fn a_worker_that_changes_a_protected_file_has_failed_and_nothing_of_it_lands() {
    let plan = Plan {
        atoms: &atom("A1", "", "echo one > one; echo weak > tests/one"),
        objective: "  protected: [\"tests/**\"]",
        ..Plan::default()
    };
    let repo = Repo::with(&plan);
    repo.write("tests/one", "strong\n");
    repo.git(&["add", "tests"]);
    repo.git(&["commit", "-qm", "Tests"]);
    let said = repo.run();
    assert_eq!(said.exit, 11, "{}{}", said.out, said.err);
    assert!(said.out.contains("protected: tests/one"), "{}", said.out);
    assert_eq!(repo.read("tests/one"), "strong\n");
    assert_eq!(repo.landed("main"), "");
}

#[test]
fn tampered_with_the_base_case_while_it_runs() {
    let plan = Plan { atoms: &atom("A1", "", "sleep 60"), ..Plan::default() };
    let repo = Repo::with(&plan);
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    let text = repo.read(STATE).replace("value: one}", "value: README}");
    repo.write(STATE, &text);
    let said = live.end();
    assert_eq!(said.exit, 16, "{}{}", said.out, said.err);
    assert!(said.out.contains("the check \\\"One is there\\\" was changed"), "{}", said.out);
    assert_eq!(repo.atoms(), "A1:pending");
    assert_eq!(repo.leftovers(), Vec::<String>::new());
}

#[test]
fn a_person_is_needed_and_then_not_any_more() {
    let base_case = "      - {item: \"One is there\", check: {type: file, value: one}}\n      - {item: \"It is pretty\", check: {type: assertion, value: \"The one is pretty\"}}";
    let repo = Repo::with(&Plan { base_case, ..Plan::default() });
    let said = repo.run();
    assert_eq!(said.exit, 17, "{}{}", said.out, said.err);
    assert!(said.halted()["next"].to_string().contains("aot confirm"), "{}", said.out);
    let next = || {
        serde_json::from_str::<Value>(&repo.aot(&["status", "--json"]).out).expect("JSON")["next_steps"]
            .clone()
    };
    assert_eq!(next(), json!(["aot confirm \"It is pretty\"", "aot run"]));
    assert_eq!(repo.aot(&["confirm", "It is pretty"]).exit, 0);
    assert_eq!(next(), json!(["aot run"]));
    assert_eq!(repo.run().exit, 0);
}

#[test]
fn a_check_that_cannot_run_needs_a_person() {
    let plan = Plan { base_case: &check("no-such-program-anywhere"), ..Plan::default() };
    ends(&plan, 17, "It holds", "A1:resolved");
}

#[test]
fn no_agent_and_not_aligned() {
    let plan = Plan {
        atoms: "  - {id: A1, description: \"Think\", status: pending, depends_on: []}",
        ..Plan::default()
    };
    ends(&plan, 3, "A1", "A1:pending");
    let repo = Repo::with(&Plan::default());
    let text = repo.read(STATE).replace("deliverables: \"What the goal names\"", "deliverables: \"\"");
    repo.write(STATE, &text);
    let said = repo.run();
    assert_eq!(said.exit, 3, "{}{}", said.out, said.err);
    assert!(said.out.contains("objective.deliverables"), "{}", said.out);
}

/// Waiting mends neither: an interpreter that is gone, a file that is no program.
#[test]
fn an_agent_that_cannot_be_started_ends_the_loop_at_once() {
    for (text, why) in [
        ("#!/nowhere/sh\n", "its first line (`#!`) names is not there"),
        ("echo hello\n", "needs a first line like `#!/bin/sh`"),
    ] {
        let plan = Plan {
            atoms: "  - {id: A1, description: \"Think\", status: pending, depends_on: []}",
            ..Plan::default()
        };
        let repo = Repo::with(&plan);
        repo.write("../fake", text);
        let fake = repo.path("../fake").canonicalize().expect("it is there");
        std::fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
        let settings = format!(
            "[cage]\nkind = \"none\"\n[agent.fake]\nlike = \"claude\"\nprogram = {fake:?}\n[agents]\ndefault = \"fake\"\n"
        );
        repo.write("../config/aot/aot.toml", &settings);
        let said = repo.run();
        assert_eq!(said.exit, 3, "{}{}", said.out, said.err);
        let halted = said.halted();
        let reason = halted["reason"].as_str().expect("a reason");
        assert!(reason.contains("fake") && reason.contains(why), "{reason}");
        assert_eq!(halted["next"][0], "aot agents", "{halted}");
        assert_eq!(repo.atoms(), "A1:pending");
    }
}

/// It is nobody's attempt: no iteration is used up, and a person sees what it printed.
#[test]
fn a_setup_that_fails_again_needs_a_person() {
    let plan = Plan {
        objective: "  isolation: {setup: \"echo x >> ../../../../../tries; echo no such package; exit 7\"}",
        constraints: "max_iterations: 1, max_parallel_agents: 3, max_stall_count: 3",
        ..Plan::default()
    };
    let repo = Repo::with(&plan);
    let said = repo.run();
    assert_eq!(said.exit, 17, "{}{}", said.out, said.err);
    let halted = said.halted();
    let reason = halted["reason"].as_str().expect("a reason");
    assert!(reason.contains("ended with 7") && reason.ends_with("\nno such package"), "{reason}");
    assert_eq!((&halted["iterations"], &halted["tried"]), (&0.into(), &serde_json::json!([])), "{halted}");
    assert_eq!(repo.read("../tries"), "x\nx\n", "it is tried again once");
    repo.write(STATE, &repo.read(STATE).replace("exit 7", "true"));
    let said = repo.run();
    assert_eq!(said.exit, 0, "it goes on when that is mended: {}{}", said.out, said.err);
}

/// The end of an output that showed a failure is told: in the trail, at the end and in JSON, without what a terminal obeys.
#[test]
fn the_output_of_a_failure_is_told() {
    let noisy = "printf 'line 1\\n\\033[31mexpected 4, found 5\\033[0m\\nsee above\\n'; exit 1";
    let checked = format!(
        "  - {{id: A1, description: \"One\", status: pending, depends_on: [], run: \"echo one > one\", check: {{type: command, value: \"{}\"}}}}",
        noisy.replace('\\', "\\\\")
    );
    let failing = atom("A1", "", noisy);
    for (name, atoms) in [("its check", checked), ("its command", failing)] {
        let repo = Repo::with(&Plan { atoms: &atoms, ..Plan::default() });
        let said = repo.run();
        let halted = said.halted();
        assert_eq!(said.exit, 11, "{name}: {}{}", said.out, said.err);
        let told = halted["tried"][0]["reasons"][0].as_str().unwrap_or_default();
        assert!(told.contains("\nexpected 4, found 5\nsee above"), "{name}: {halted}");
        assert!(repo.read(STATE).contains("expected 4, found 5"), "{name}: {}", repo.read(STATE));
        let shown = repo.aot(&["run"]);
        assert!(shown.out.contains("| expected 4, found 5"), "{name}: {}", shown.out);
    }
    let base_case = check(noisy);
    let repo = Repo::with(&Plan { base_case: &base_case, ..Plan::default() });
    let halted = repo.run().halted();
    let red = halted["red"][0]["reason"].as_str().unwrap_or_default();
    assert!(red.starts_with("exit 1\n") && red.contains("expected 4, found 5"), "{halted}");
}

#[test]
fn unreadable() {
    let repo = Repo::with(&Plan::default());
    repo.write(STATE, "---\nobjective: [\n---\n");
    assert_eq!(repo.run().exit, 4);
}

#[test]
fn a_completed_typed_in_by_hand_is_not_believed() {
    let repo = Repo::with(&Plan::default());
    let text = repo.read(STATE).replace("status: pending\n  iteration", "status: completed\n  iteration");
    repo.write(STATE, &text);
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(repo.atoms(), "A1:resolved");
}

#[test]
fn the_bound_comes_first_and_only_falls() {
    let plan = Plan {
        atoms: &(atom("A1", "", "echo one > one") + &atom("A2", "A1", "echo two > two")),
        base_case: &check("test -e two"),
        ..Plan::default()
    };
    let repo = Repo::with(&plan);
    let said = repo.run();
    let objects = said.objects();
    assert_eq!(objects[0]["type"], "bound", "{}", said.out);
    // Commands cost no agent run.
    assert_eq!(objects[0]["agent_runs"], 0);
    let bounds: Vec<i64> = objects
        .iter()
        .filter(|object| object["type"] == "bound")
        .map(|object| object["agent_runs"].as_i64().expect("a number"))
        .collect();
    assert!(bounds.is_sorted_by(|a, b| a >= b), "{bounds:?}");
}

#[test]
fn a_dry_run_shows_the_order_and_starts_nothing() {
    let atoms = atom("A1", "", "echo 1 > one") + &atom("A2", "A1", "true") + &atom("A3", "A1", "true");
    let repo = Repo::with(&Plan { atoms: &(atoms + &atom("A4", "A2, A3", "true")), ..Plan::default() });
    let said = repo.aot(&["run", "--dry-run", "--json"]);
    assert_eq!(said.exit, 0, "{}", said.err);
    let plan = said.halted();
    assert_eq!(plan["steps"].to_string(), r#"[["A1"],["A2","A3"],["A4"]]"#);
    assert_eq!((plan["parallel"].as_u64(), plan["widest"].as_u64()), (Some(3), Some(2)));
    assert_eq!((&plan["agent_runs"], &plan["least_agent_runs"]), (&0.into(), &0.into()));
    assert!(!repo.path("one").exists());
    let said = repo.aot(&["run", "--dry-run"]);
    assert!(said.out.contains("bound    no agent run, at most 1d"), "{}", said.out);
    // In each of 20 iterations five attempts, each a probe, the work and two mends, and a replan.
    let atoms = scene::atom("A1", "", "") + &scene::atom("A2", "A1", "");
    let repo = Repo::with(&Plan { atoms: &atoms, ..Plan::default() });
    let said = repo.aot(&["run", "--dry-run"]);
    assert!(said.out.contains("bound    at least 2, at most 420 agent runs, 1d"), "{}{}", said.out, said.err);
}
