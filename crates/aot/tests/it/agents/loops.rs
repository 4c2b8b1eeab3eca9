//! Whole loops with real agents.

use scripted_model::{Rule, Script, Usage};
use serde_json::json;

use crate::repo::Plan;
use crate::scene::{Scene, atom, file, is_here, is_there, solved, unsolved};

fn everything() -> Script {
    let scores = json!({"scores": [
        {"criterion": "clarity", "score": 5, "reason": "plain words", "evidence": ["a.txt:1 says a"]},
    ]});
    Script::new()
        .rule(Rule::on("solve A1").write("a.txt", "a").answer(solved("a is made", &["a.txt"])))
        .rule(Rule::on("solve A2").write("b.txt", "b").answer(solved("b is made", &["b.txt"])))
        .rule(Rule::on("solve A3").run("echo no > wrong.txt").answer(unsolved("this way leads nowhere")))
        .rule(
            Rule::on("solve A4")
                .and("leads nowhere")
                .write("c.txt", "c")
                .answer(solved("c is made", &["c.txt"])),
        )
        .rule(
            Rule::on("solve A5")
                .and("c is made")
                .run("cat a.txt c.txt > d.txt")
                .answer(solved("d", &["d.txt"])),
        )
        .rule(Rule::on("Judge").read("a.txt").answer(scores))
}

const ATOMS_OF_TWO_WAYS: &str = "  - {id: A3, description: \"Make A3\", status: pending, depends_on: [], or_group: way}\n  \
                                 - {id: A4, description: \"Make A4\", status: pending, depends_on: [], or_group: way}\n";

const WAYS: &str = "  way: {choices: [A3, A4], selected: A3, failed: []}";

fn quality() -> String {
    "      - item: \"It is clear\"\n        check:\n          type: quality\n          criteria: \"clear to read\"\n          \
     rubric:\n            - {criterion: clarity, description: \"plain\", weight: 1}\n          pass_threshold: 4\n"
        .to_owned()
}

fn plan_of(agents: [&str; 2]) -> (String, String) {
    let own = |agent: &str| if agent.is_empty() { String::new() } else { format!(", agent: {agent}") };
    let atoms = [
        atom("A1", "", &format!("{}{}", file("a.txt"), own(agents[0]))),
        atom("A2", "", &format!("{}{}", file("b.txt"), own(agents[1]))),
        ATOMS_OF_TWO_WAYS.to_owned(),
        atom("A5", "A1, A3", &file("d.txt")),
    ];
    let base = ["a.txt", "b.txt", "c.txt", "d.txt"].map(is_there).concat() + &quality();
    (atoms.concat(), base)
}

#[test]
fn a_goal_is_solved_in_parallel_with_a_way_back_and_a_judge() {
    if !is_here("claude") {
        return;
    }
    let (atoms, base_case) = plan_of(["", ""]);
    let plan = Plan { atoms: &atoms, or_groups: WAYS, base_case: &base_case, ..Plan::default() };
    let scene = Scene::new(&plan, everything());
    let said = scene.run("claude");
    assert_eq!(said.exit, 0, "{}{}\n{}", said.out, said.err, scene.transcripts());
    assert_eq!(scene.repo.atoms(), "A1:resolved A2:resolved A3:pending A4:resolved A5:resolved");
    assert_eq!(scene.repo.read("d.txt").replace('\n', ""), "ac");
    assert!(!scene.repo.path("wrong.txt").exists(), "what failed has landed");
    let runs = Scene::agent_runs(&said);
    let tasks: Vec<&str> = runs.iter().filter_map(|run| run["task"].as_str()).collect();
    assert_eq!(tasks.iter().filter(|task| **task == "work").count(), 5, "{tasks:?}");
    assert_eq!(tasks.iter().filter(|task| **task == "judge").count(), 1, "{tasks:?}");
    // Three at once: the first three were started before the first of them ended.
    let objects = said.objects();
    let ended = objects.iter().position(|object| object["type"] == "agent_run").expect("one ended");
    let started = objects[..ended].iter().filter(|object| object["type"] == "started").count();
    assert_eq!(started, 3);
    let spent = &scene.repo.state()["control"]["spent"];
    assert_eq!(spent["agent_runs"], 6);
    assert!(spent["tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{spent}");
    assert!(spent["cost_usd"].as_f64().is_some_and(|cost| cost > 0.0), "{spent}");
    assert_eq!(scene.repo.leftovers(), [""; 0]);
}

#[test]
fn two_agents_work_in_one_loop() {
    if !is_here("claude") || !is_here("codex") {
        return;
    }
    let (atoms, base_case) = plan_of(["codex", ""]);
    let plan = Plan { atoms: &atoms, or_groups: WAYS, base_case: &base_case, ..Plan::default() };
    let scene = Scene::new(&plan, everything());
    let said = scene.run("claude");
    assert_eq!(said.exit, 0, "{}{}\n{}", said.out, said.err, scene.transcripts());
    let runs = Scene::agent_runs(&said);
    let by = |agent: &str| runs.iter().filter(|run| run["agent"] == agent).count();
    assert_eq!((by("codex"), by("claude")), (1, 5), "{runs:?}");
}

#[test]
fn a_coordinator_mends_a_plan_that_is_too_small() {
    if !is_here("claude") {
        return;
    }
    let change = json!({
        "reason": "b.txt is missing", "withdrawals": [], "decompositions": [], "alternatives": [], "dependencies": [],
        "abandon": [],
        "atoms": [{"id": null, "description": "Make the missing b.txt", "depends_on": [], "check": "test -f b.txt", "no_check": null, "probe": null}],
    });
    let script = Script::new()
        .rule(Rule::on("solve A1").write("a.txt", "a").answer(solved("a is made", &["a.txt"])))
        .rule(Rule::on("change the plan").and("b.txt is there").answer(change))
        .rule(Rule::on("Make the missing b.txt").write("b.txt", "b").answer(solved("b is made", &["b.txt"])));
    let atoms = atom("A1", "", &file("a.txt"));
    let base_case = ["a.txt", "b.txt"].map(is_there).concat();
    let scene = Scene::new(&Plan { atoms: &atoms, base_case: &base_case, ..Plan::default() }, script);
    let said = scene.run("claude");
    assert_eq!(said.exit, 0, "{}{}\n{}", said.out, said.err, scene.transcripts());
    assert_eq!(scene.repo.atoms(), "A1:resolved A2:resolved");
    let tasks: Vec<String> = Scene::agent_runs(&said)
        .iter()
        .map(|run| run["task"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(tasks, ["work", "replan", "work"]);
    assert!(scene.aot(&["log", "replan"]).out.contains("b.txt is missing"));
}

#[test]
fn what_is_too_large_is_cut() {
    if !is_here("claude") {
        return;
    }
    let large = json!({"success": false, "summary": "", "artifacts": [], "reason": "two things in one", "too_large": true});
    let child = |description: &str, check: &str| json!({"id": null, "description": description, "depends_on": [], "check": check, "no_check": null, "probe": null});
    let change = json!({
        "reason": "two files", "withdrawals": [], "atoms": [], "alternatives": [], "dependencies": [], "abandon": [],
        "decompositions": [{"parent": "A1", "reason": "two files", "children": [
            child("The first half", "test -f a.txt"), child("The second half", "test -f b.txt")]}],
    });
    let script = Script::new()
        .rule(Rule::on("solve A1").answer(large))
        .rule(Rule::on("change the plan").and("two things in one").answer(change))
        .rule(Rule::on("The first half").write("a.txt", "a").answer(solved("a", &["a.txt"])))
        .rule(Rule::on("The second half").write("b.txt", "b").answer(solved("b", &["b.txt"])));
    let base_case = ["a.txt", "b.txt"].map(is_there).concat();
    let scene =
        Scene::new(&Plan { atoms: &atom("A1", "", ""), base_case: &base_case, ..Plan::default() }, script);
    let said = scene.run("claude");
    assert_eq!(said.exit, 0, "{}{}\n{}", said.out, said.err, scene.transcripts());
    assert_eq!(scene.repo.atoms(), "A1:resolved A2:resolved A3:resolved");
}

#[test]
fn money_runs_out() {
    if !is_here("claude") {
        return;
    }
    let dear = Usage { input: 400_000, cached: 0, output: 40_000 };
    let script = Script::new()
        .rule(Rule::on("solve A1").write("a.txt", "a").answer(solved("a", &["a.txt"])).usage(dear))
        .rule(Rule::on("solve A2").write("b.txt", "b").answer(solved("b", &["b.txt"])).usage(dear));
    let atoms = atom("A1", "", &file("a.txt")) + &atom("A2", "A1", &file("b.txt"));
    let constraints = "max_iterations: 9, max_parallel_agents: 2, max_stall_count: 3, max_cost_usd: 0.5";
    let base_case = ["a.txt", "b.txt"].map(is_there).concat();
    let plan = Plan { atoms: &atoms, base_case: &base_case, constraints, ..Plan::default() };
    let scene = Scene::new(&plan, script);
    let said = scene.run("claude");
    assert_eq!(said.exit, 15, "{}{}", said.out, said.err);
    assert!(
        said.halted()["reason"].as_str().is_some_and(|reason| reason.contains("USD")),
        "{}",
        said.halted()
    );
    assert!(!scene.repo.path("b.txt").exists());
    if is_here("codex") {
        let refused = scene.run("codex");
        assert_eq!(refused.exit, 3, "{}{}", refused.out, refused.err);
        assert!(refused.out.contains("does not tell what it costs"), "{}", refused.out);
        assert!(refused.out.contains("[agent.codex.price]"), "{}", refused.out);
    }
}
