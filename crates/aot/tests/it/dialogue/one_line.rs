//! `aot run GOAL --check COMMAND`: a new loop in one line.

use super::aligning::unaligned;
use crate::repo::{Repo, STATE};
use crate::terminal::{Terminal, plain};

const ATOM: &str = r#"{"description": "Write the answer", "run": "echo 42 > answer"}"#;
const RUN: [&str; 6] = ["run", "The answer is there", "--check", "test -e answer", "--atom", ATOM];

fn run(repo: &Repo, more: &[&str]) -> crate::repo::Said {
    repo.aot(&[&RUN[..], more].concat())
}

#[test]
fn a_goal_and_a_check_are_enough() {
    let repo = unaligned();
    let said = run(&repo, &["--yes"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    for line in [
        "goal       The answer is there",
        "now        red        test -e answer: exit 1",
        "note       using defaults for: why, result, done when, the time limit\n",
        "branch     main, which is checked out (--branch NAME for another)",
        "DONE",
    ] {
        assert!(said.out.contains(line), "{line}: {}", said.out);
    }
    let state = repo.state();
    assert_eq!(state["objective"]["definition_of_done"], "All checks pass.");
    assert_eq!(state["objective"]["constraints"]["max_wall_time"], "2h");
    assert_eq!(repo.landed("main"), "A1");
    assert!(repo.read(STATE).ends_with("# Original Prompt\n\nThe answer is there\n"));
}

#[test]
fn a_lone_goal_is_its_own_atom() {
    let repo = unaligned();
    let said = repo.aot(&["align", "Fix it", "--check", "test -e fixed", "--yes"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("goal is one atom)"), "{}", said.out);
    assert_eq!(repo.state()["atoms"][0]["description"], "Fix it");
}

#[test]
fn a_dry_run_of_a_new_loop_writes_nothing() {
    let repo = unaligned();
    let said = run(&repo, &["--yes", "--dry-run"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(
        said.out.contains("goal       The answer is there") && said.out.contains("bound    "),
        "{}",
        said.out
    );
    assert!(!repo.path(STATE).exists());
}

#[test]
fn a_completed_loop_makes_room_and_another_does_not() {
    let repo = unaligned();
    assert_eq!(run(&repo, &["--yes"]).exit, 0);
    let said = repo.aot(&[
        "run",
        "More",
        "--check",
        "test -e more",
        "--atom",
        "{\"description\": \"No\", \"run\": \"false\"}",
        "--yes",
    ]);
    assert_eq!(said.exit, 11, "{}{}", said.out, said.err);
    let said = run(&repo, &["--yes"]);
    assert_eq!(said.exit, 4, "{}{}", said.out, said.err);
    assert!(
        said.err.contains("`--force` begins another loop and keeps this one as a backup"),
        "{}",
        said.err
    );
    assert_eq!(run(&repo, &["--yes", "--force"]).exit, 0);
    // Nothing was done for want of an agent, so that the next line may say it better.
    let repo = unaligned();
    assert_eq!(repo.aot(&["run", "The answer", "--check", "test -e answer", "--yes"]).exit, 3);
    assert_eq!(run(&repo, &["--yes"]).exit, 0);
}

#[test]
fn flags_of_a_new_loop_need_a_goal() {
    let repo = unaligned();
    assert_eq!(run(&repo, &["--yes"]).exit, 0);
    let said = repo.aot(&["run", "--max-iterations", "3"]);
    assert_eq!(said.exit, 2, "{}{}", said.out, said.err);
    assert!(said.err.contains("aot redirect --set max_iterations=30"), "{}", said.err);
}

#[test]
fn a_file_says_a_part_and_flags_say_the_rest() {
    let repo = unaligned();
    repo.write("loop.yml", "goal: The answer is there\nbase_case:\n  checklist:\n    - {item: It is there, check: {type: file, value: answer}}\n");
    let said = repo.aot(&[
        "run",
        "--from",
        "loop.yml",
        "--atom",
        ATOM,
        "--check",
        "grep 42 answer",
        "--max-iterations",
        "4",
        "--yes",
    ]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let state = repo.state();
    assert_eq!(state["objective"]["base_case"]["checklist"].as_array().map(Vec::len), Some(2), "{state}");
    assert_eq!(state["objective"]["constraints"]["max_iterations"], 4);
    assert_eq!(repo.atoms(), "A1:resolved");
}

#[test]
fn without_a_state_file_every_verb_says_how_to_start() {
    let repo = unaligned();
    for verb in ["run", "status", "graph", "log", "stop", "verify", "redirect", "ready", "validate", "lint"] {
        let said = repo.aot(&[verb]);
        assert_eq!(said.exit, 4, "{verb}: {}{}", said.out, said.err);
        let hint = "start with: aot run \"GOAL\" --check \"COMMAND\" (or `aot align`)";
        assert!(said.err.contains(hint), "{verb}: {}", said.err);
    }
}

#[test]
fn without_a_terminal_a_yes_is_needed() {
    let repo = unaligned();
    let said = run(&repo, &[]);
    assert_eq!(said.exit, 2, "{}{}", said.out, said.err);
    assert!(said.err.contains("needs confirmation") && said.err.contains("--yes"), "{}", said.err);
    assert!(!repo.path(STATE).exists());
}

#[test]
fn at_a_terminal_enter_starts_it_and_no_leaves_nothing() {
    let repo = unaligned();
    let mut terminal = Terminal::open(&repo, &RUN);
    terminal.answer("Start? [Y/n] ", "n");
    terminal.see("nothing was agreed on, and nothing was written");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(1), "{}", plain(&seen));
    assert!(!repo.path(STATE).exists());
    let mut terminal = Terminal::open(&repo, &RUN);
    terminal.answer("Start? [Y/n] ", "");
    terminal.see("DONE");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{}", plain(&seen));
    assert_eq!(repo.landed("main"), "A1");
}
