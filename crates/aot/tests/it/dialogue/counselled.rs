//! Dialogues with an agent: a command that follows a script stands for it, and is asked as any other agent is.

use serde_json::{Value, json};

use super::aligning::unaligned;
use super::changing::stopped;
use crate::repo::{Repo, STATE};
use crate::terminal::{Terminal, plain};

/// Gives these answers, one for each time it is asked; what it was told is kept beside them.
fn script(repo: &Repo, answers: &[Value]) {
    let folder = repo.path("../script");
    std::fs::create_dir_all(&folder).expect("a folder");
    for (number, answer) in answers.iter().enumerate() {
        repo.write(&format!("../script/answer-{}", number + 1), &answer.to_string());
    }
    let folder = folder.display();
    let agent = format!(
        "#!/bin/sh\nn=$(ls {folder} | grep -c brief-)\nn=$((n+1))\ncat > {folder}/brief-$n\ncat {folder}/answer-$n\n"
    );
    repo.write("../script/agent", &agent);
    let path = repo.path("../script/agent");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
    let settings = format!(
        "[cage]\nkind = \"none\"\n[agent.scripted]\nprogram = \"{}\"\ninput = \"prompt\"\nanswer = \"output\"\n",
        path.display()
    );
    repo.write("../config/aot/aot.toml", &settings);
}

fn brief(repo: &Repo, number: usize) -> String {
    repo.read(&format!("../script/brief-{number}"))
}

fn asked(questions: Value) -> Value {
    json!({"questions": questions, "agreement": []})
}

fn proposal(goal: &str) -> Value {
    json!({"questions": [], "agreement": [{
        "goal": goal, "background_intent": "b", "deliverables": "d", "definition_of_done": "x",
        "checks": [
            {"item": "One", "type": "file", "value": "one", "any_of": null},
            {"item": "Read me", "type": "file", "value": "README", "any_of": null}
        ],
        "protected": ["README"], "included": [], "excluded": ["Two"],
        "atoms": [
            {"id": "A1", "description": "One", "depends_on": [], "or_group": null, "check": null, "run": "echo one > one"},
            {"id": "A2", "description": "This way", "depends_on": ["A1"], "or_group": "ways", "check": null, "run": "true"},
            {"id": "A3", "description": "That way", "depends_on": ["A1"], "or_group": "ways", "check": null, "run": "true"}
        ],
        "max_iterations": null, "max_parallel_agents": null
    }]})
}

#[test]
fn questions_then_a_proposal_then_words_then_yes() {
    let repo = unaligned();
    repo.write("Makefile", "test:\n\ttrue\n");
    let mut cyclic = proposal("Round and round");
    cyclic["agreement"][0]["atoms"][0]["depends_on"] = json!(["A2"]);
    script(
        &repo,
        &[
            asked(json!([
                {"question": "Which one?", "suggested": ["The first", "The second"]},
                {"question": "For whom?", "suggested": []}
            ])),
            cyclic,
            proposal("One number"),
            proposal("One larger number"),
        ],
    );
    let mut terminal = Terminal::open(&repo, &["align", "--agent", "scripted", "numbers, please"]);
    terminal.see("1 of 2  Which one?");
    terminal.press(b"2\r");
    terminal.answer("2 of 2  For whom?", "Everybody");
    terminal.see("One number");
    terminal.see("1 of 2 checks is red now, 1 passes already");
    terminal.press(b"change\r");
    terminal.answer("What should be different?", "larger");
    terminal.see("One larger number");
    terminal.press(b"yes\r");
    let (code, seen) = terminal.end();
    let text = plain(&seen);
    assert_eq!(code, Some(0), "{text}");
    let state = repo.state();
    assert_eq!(state["objective"]["goal"], "One larger number");
    assert_eq!(
        state["clarifications"],
        json!([{"question": "Which one?", "answer": "The second"}, {"question": "For whom?", "answer": "Everybody"}])
    );
    assert_eq!(state["scope"]["excluded"][0], "Two");
    assert_eq!(state["or_groups"]["ways"]["choices"], json!(["A2", "A3"]));
    assert!(repo.read(STATE).ends_with("numbers, please\n"), "{}", repo.read(STATE));
    // What it was told, each time.
    assert!(
        brief(&repo, 1).contains("> numbers, please") && brief(&repo, 1).contains("make test"),
        "{}",
        brief(&repo, 1)
    );
    assert!(brief(&repo, 2).contains("> The second"), "{}", brief(&repo, 2));
    assert!(brief(&repo, 3).contains("could not be taken"), "{}", brief(&repo, 3));
    assert!(
        brief(&repo, 4).contains("> larger") && brief(&repo, 4).contains("One number"),
        "{}",
        brief(&repo, 4)
    );
    let ran = repo.run();
    assert_eq!(ran.exit, 0, "{}{}", ran.out, ran.err);
}

#[test]
fn an_agent_that_fails_leaves_the_prompts() {
    let repo = unaligned();
    script(&repo, &[]);
    let mut terminal = Terminal::open(&repo, &["align", "--agent", "scripted", "numbers, please"]);
    terminal.see("Continuing with prompts");
    terminal.answer("Enter: numbers, please\n> ", "");
    terminal.see("Why do you want it?");
    terminal.press(b"\x03");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(130), "{}", plain(&seen));
    assert!(!repo.path(".claude").exists());
    let said = repo.aot(&["align", "--agent", "nobody", "--yes", "x"]);
    assert_eq!(said.exit, 3, "{}", said.err);
}

/// An agent's corrections: nothing but these.
fn with(changes: Value) -> Value {
    let mut answer = json!({
        "questions": [], "goal": null, "background_intent": null, "deliverables": null, "definition_of_done": null,
        "base_case": [], "limits": [], "add": [], "remove": [], "select": [], "depends": [], "rebind": [], "redo": [],
        "protect": [], "unprotect": []
    });
    for (key, value) in changes.as_object().expect("an object") {
        answer[key] = value.clone();
    }
    answer
}

#[test]
fn words_become_corrections_without_a_terminal() {
    let repo = stopped();
    let question = json!([{"question": "Skip it for good?", "suggested": ["Yes", "For now"]}]);
    script(
        &repo,
        &[
            with(json!({"questions": question})),
            with(json!({"remove": ["A4"]})),
            with(json!({"remove": ["A6"]})),
        ],
    );
    let words = ["redirect", "--agent", "scripted", "skip the rate limiter"];
    let before = repo.read(STATE);
    let said = repo.aot(&words);
    assert_eq!((said.exit, repo.read(STATE)), (2, before.clone()), "{}{}", said.out, said.err);
    assert!(said.err.contains("needs confirmation") && said.err.contains("--yes"), "{}", said.err);
    let said = repo.aot(&[&words[..], &["--yes"]].concat());
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("changed: removed A6\nNext: aot run"), "{}", said.out);
    assert!(brief(&repo, 2).contains("> Yes"), "{}", brief(&repo, 2));
    assert!(brief(&repo, 3).contains("could not be made"), "{}", brief(&repo, 3));
    // Why not, where there is no proposal or no agent.
    let repo = stopped();
    script(&repo, &[json!("nothing"), json!("nothing"), json!("nothing")]);
    for (words, told) in [
        (&["--agent", "scripted"][..], "`aot redirect --help` lists them"),
        (&["--agent", "nobody"], "agent `nobody` is not known"),
        (&["--no-agent"], "no agent is named that could read the words"),
    ] {
        let said = repo.aot(&[&["redirect", "skip the rate limiter", "--yes"], words].concat());
        assert_eq!((said.exit, repo.read(STATE)), (3, before.clone()), "{}{}", said.out, said.err);
        assert!(said.err.contains(told), "{words:?}: {}", said.err);
    }
}

#[test]
fn words_become_corrections_that_are_shown_first() {
    let repo = stopped();
    let turned = json!([{"group": "tokens", "atom": "A2", "reason": "the person said so"}]);
    script(
        &repo,
        &[
            with(json!({"questions": [{"question": "Skip it for good?", "suggested": ["Yes", "For now"]}]})),
            with(json!({"select": turned, "remove": ["A4"]})),
            with(json!({"select": turned, "remove": ["A6"]})),
            with(json!({"select": turned})),
        ],
    );
    let words = ["redirect", "--agent", "scripted", "use JWT after all, and skip the rate limiter"];
    let mut terminal = Terminal::open(&repo, &words);
    terminal.answer("Skip it for good?", "1");
    terminal.see("[yes/edit/cancel] ");
    let text = terminal.text();
    for part in [
        "tokens: A3 -> A2",
        "- A6  A rate limiter",
        "A3, A4 will be done again",
        "the history stays, and gets 3 entries",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    terminal.press(b"edit\r");
    terminal.answer("What should be different about it?", "keep the limiter");
    terminal.answer("[yes/edit/cancel] ", "yes");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{}", plain(&seen));
    let state = repo.state();
    assert_eq!(state["or_groups"]["tokens"]["selected"], "A2");
    assert_eq!(state["atoms"].as_array().map(Vec::len), Some(7));
    assert!(brief(&repo, 1).contains("> use JWT after all"), "{}", brief(&repo, 1));
    assert!(brief(&repo, 2).contains("> Yes"), "{}", brief(&repo, 2));
    assert!(brief(&repo, 3).contains("could not be made"), "{}", brief(&repo, 3));
    assert!(brief(&repo, 4).contains("> keep the limiter"), "{}", brief(&repo, 4));
}

#[test]
fn without_a_terminal_the_agent_s_own_suggestions_answer_its_questions() {
    let repo = unaligned();
    let question = json!([{"question": "Which one?", "suggested": ["The first", "The second"]}]);
    script(&repo, &[asked(question), proposal("One")]);
    let said = repo.aot(&["align", "Make one", "--agent", "scripted", "--yes"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(repo.state()["objective"]["goal"], "One");
    assert_eq!(repo.state()["clarifications"][0]["answer"], "The first");
    // An agent that has no proposal is no agreement.
    script(&repo, &[json!("nothing"), json!("nothing"), json!("nothing")]);
    std::fs::remove_file(repo.path("../script/brief-1")).expect("it was asked");
    std::fs::remove_file(repo.path("../script/brief-2")).expect("it was asked");
    let said = repo.aot(&["align", "Make one", "--agent", "scripted", "--yes", "--force"]);
    assert_eq!(said.exit, 3, "{}{}", said.out, said.err);
    assert!(said.err.contains("aot align GOAL --check COMMAND --yes"), "{}", said.err);
}
