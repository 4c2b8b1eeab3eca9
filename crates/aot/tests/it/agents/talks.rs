//! A real agent in a dialogue: it proposes what is agreed on, solves it, and turns a person's words into corrections while
//! others work.

use scripted_model::{Rule, Script};
use serde_json::{Value, json};

use crate::repo::Plan;
use crate::scene::{Scene, is_here, solved, wait_until};
use crate::terminal::{Terminal, plain};

fn proposal() -> Value {
    let atom = |id: &str, description: &str, check: &str| json!({"id": id, "description": description, "depends_on": [], "or_group": null, "check": check, "no_check": null, "run": null, "probe": null});
    json!({"questions": [], "agreement": [{
        "goal": "One number", "background_intent": "b", "deliverables": "d", "definition_of_done": "x",
        "checks": [
            {"item": "One", "type": "file", "value": "one.txt", "pass_threshold": null, "any_of": null, "group": null},
            {"item": "Read me", "type": "file", "value": "README", "pass_threshold": null, "any_of": null, "group": null}
        ],
        "protected": ["README"], "included": [], "excluded": [],
        "atoms": [atom("A1", "The first number", "test -f one.txt"), atom("A2", "The slow number", "test -f two.txt")],
        "speculative": null, "max_iterations": null, "max_parallel_agents": null
    }]})
}

fn correction() -> Value {
    json!({
        "questions": [], "goal": null, "background_intent": null, "deliverables": null, "definition_of_done": null,
        "base_case": [], "limits": [], "add": [], "remove": ["A2"], "select": [], "depends": [], "rebind": [], "redo": [],
        "protect": [], "unprotect": []
    })
}

#[test]
fn a_real_agent_proposes_works_and_corrects() {
    if !is_here("claude") {
        return;
    }
    let questions = json!({"questions": [{"question": "Which one?", "suggested": ["The first", "The last"]}], "agreement": []});
    let script = Script::new()
        .rule(Rule::on("solve A1").write("one.txt", "1").answer(solved("one is made", &["one.txt"])))
        .rule(Rule::on("solve A2").run("touch begun; sleep 4712").answer(solved("never", &[])))
        .rule(Rule::on("> never mind the slow one").read("README").answer(correction()))
        .rule(Rule::on("> a number, please").and("> The last").read("README").answer(proposal()))
        .rule(Rule::on("> a number, please").write("sneaky", "x").answer(questions));
    let scene = Scene::new(&Plan::default(), script);
    std::fs::remove_dir_all(scene.repo.path(".claude")).expect("it was there");
    let variables = scene.variables();
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut terminal =
        Terminal::with(&scene.repo, &["align", "--agent", "claude", "a number, please"], &variables);
    terminal.see("Which one?");
    terminal.press(b"2\r");
    terminal.see("One number");
    terminal.see("1 of 2 checks is red now, 1 passes already");
    terminal.press(b"yes\r");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{}", plain(&seen));
    assert_eq!(scene.repo.atoms(), "A1:pending A2:pending");
    assert!(!scene.repo.path("sneaky").exists(), "whoever proposes has written");
    let live = scene.start(&["run", "--json", "--agent", "claude"]);
    wait_until("one of two is slow", || {
        scene.repo.processes().iter().any(|(_, words)| words.contains("sleep 4712"))
    });
    let words = ["redirect", "--agent", "claude", "never mind the slow one"];
    let mut terminal = Terminal::with(&scene.repo, &words, &variables);
    terminal.see("- A2");
    terminal.answer("[yes/edit/cancel] ", "yes");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{}", plain(&seen));
    let said = live.end();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(scene.repo.atoms(), "A1:resolved");
    assert_eq!(scene.repo.landed("main"), "A1");
    assert_eq!(scene.repo.leftovers(), [""; 0]);
}
