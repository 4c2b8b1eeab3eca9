//! The loop looks at the base case before it halts, and when it is taken up: a goal that is reached is DONE, whatever is
//! left undone.

use crate::repo::{Plan, Repo, STATE, atom, check};

/// A1 makes the base case true only for whoever looks after it; what else there is never succeeds.
fn check_done(name: &str, plan: &Plan<'_>, not_needed: &[&str]) {
    let base_case = check("test -s out.txt");
    let plan = Plan { base_case: &base_case, objective: "  verify: at_end", ..plan.clone() };
    let repo = Repo::with(&plan);
    let said = repo.run();
    let halted = said.halted();
    assert_eq!(said.exit, 0, "{name}: {}{}", said.out, said.err);
    assert_eq!(halted["not_needed"], serde_json::json!(not_needed), "{name}: {halted}");
    assert_eq!(repo.landed("main"), "A1", "{name}");
    let shown = repo.aot(&["status"]);
    assert!(shown.out.contains("completed"), "{name}: {}", shown.out);
    let again = repo.run();
    assert_eq!(again.exit, 0, "{name}: {}", again.out);
    assert_eq!(again.halted()["agent_runs"], halted["agent_runs"], "{name}: nothing more was tried");
}

#[test]
fn a_reached_goal_is_done_although_other_atoms_fail() {
    let one = atom("A1", "", "echo 1 > out.txt");
    let stalls = one.clone() + &atom("A2", "", "exit 1");
    let few = "max_iterations: 20, max_parallel_agents: 1, max_stall_count: 1";
    check_done("stalled", &Plan { atoms: &stalls, constraints: few, ..Plan::default() }, &["A2"]);
    let limit = "max_iterations: 1, max_parallel_agents: 1, max_stall_count: 3";
    check_done("iteration limit", &Plan { atoms: &stalls, constraints: limit, ..Plan::default() }, &["A2"]);
    let ways = one
        + "  - {id: A2, description: \"Bad\", status: pending, depends_on: [], or_group: way, run: \"exit 3\"}\n"
        + "  - {id: A3, description: \"Bad too\", status: pending, depends_on: [], or_group: way, run: \"exit 3\"}\n";
    let or_groups = "  way: {choices: [A2, A3], selected: A2, failed: []}";
    let plan = Plan { atoms: &ways, or_groups, ..Plan::default() };
    check_done("exhausted", &plan, &["A3"]);
}

#[test]
fn an_edit_by_hand_that_makes_it_true_is_seen_by_the_next_run() {
    let plan = Plan { atoms: &atom("A1", "", "exit 1"), ..Plan::default() };
    let repo = Repo::with(&plan);
    assert_eq!(repo.run().exit, 11);
    repo.write("one", "by hand\n");
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(repo.atoms(), "A1:pending");
    assert_eq!(said.halted()["not_needed"], serde_json::json!(["A1"]));
}

/// What a command proves, a person does not write.
#[test]
fn a_result_that_was_typed_is_done_by_the_run() {
    let repo = Repo::with(&Plan::default());
    assert_eq!(repo.aot(&["atom", "add", "Another", "--run", "echo two > two"]).exit, 0);
    let text = repo.read(STATE);
    repo.write(STATE, &text.replacen("\"One\", status: pending", "\"One\", status: resolved", 1));
    assert_eq!(repo.atoms(), "A1:resolved A2:pending");
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("A1: `resolved` was typed into the state file"), "{}", said.out);
    assert_eq!(repo.read("one"), "one\n");
}

#[test]
fn a_goal_that_is_reached_needs_no_agent() {
    let atoms = "  - {id: A1, description: \"Think\", status: pending, depends_on: []}";
    let plan = Plan { atoms, ..Plan::default() };
    let repo = Repo::with(&plan);
    assert_eq!(repo.run().exit, 3);
    repo.write("one", "by hand\n");
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    // `completed` with work left and no agent.
    assert_eq!(repo.run().exit, 0);
}

/// By default the loop looks when that is cheap beside the work.
#[test]
fn a_cheap_look_ends_the_loop_as_soon_as_the_goal_is_reached() {
    let atoms = atom("A1", "", "sleep 2; echo one > one") + &atom("A2", "A1", "sleep 100");
    let plan = Plan { atoms: &atoms, ..Plan::default() };
    let repo = Repo::with(&plan);
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(repo.atoms(), "A1:resolved A2:pending");
}

#[test]
fn another_goal_lets_every_choice_be_tried_again() {
    let ways = "  - {id: A1, description: \"Bad\", status: pending, depends_on: [], or_group: way, run: \"test -e helps && echo 1 > one\"}\n";
    let plan = Plan {
        atoms: ways,
        or_groups: "  way: {choices: [A1], selected: A1, failed: []}",
        ..Plan::default()
    };
    let repo = Repo::with(&plan);
    assert_eq!(repo.run().exit, 13);
    repo.write("helps", "");
    repo.git(&["add", "helps"]);
    repo.git(&["commit", "-qm", "help"]);
    let said = repo.aot(&["redirect", "--goal", "Let one be there, with help"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(repo.read(STATE).contains("failed: []"), "{}", repo.read(STATE));
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
}

#[test]
fn new_work_for_a_completed_loop_is_done_although_no_check_demands_it() {
    let repo = Repo::with(&Plan::default());
    assert_eq!(repo.run().exit, 0);
    let said = repo.aot(&["redirect", "--add", r#"{"description": "Two", "run": "echo two > two"}"#]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("A2 will be done, although the checks may pass already"), "{}", said.out);
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!((repo.landed("main").as_str(), repo.read("two").as_str()), ("A1 A2", "two\n"));
    assert!(repo.state()["control"]["wanted"].is_null());
    // Another goal by itself is no work, and that is said.
    let said = repo.aot(&["redirect", "--goal", "Three"]);
    assert!(said.err.contains("no check and no atom asks for it"), "{}{}", said.out, said.err);
    assert_eq!(repo.run().exit, 0);
    // What nobody could do is no success.
    let said = repo.aot(&["redirect", "--add", r#"{"description": "Three", "run": "exit 3"}"#]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let said = repo.run();
    assert_eq!(
        (said.exit, repo.atoms().as_str()),
        (11, "A1:resolved A2:resolved A3:pending"),
        "{}",
        said.out
    );
    assert_eq!(said.halted()["red"], serde_json::json!([]));
}
