//! `aot turn`: the end of a turn for hosts without hooks.

use std::fs;

use serde_json::Value;

use crate::repo::{Plan, Repo, STATE, Said};
use crate::scene::{atom, file, is_there};

fn repo() -> Repo {
    Repo::with(&Plan { atoms: &atom("A1", "", &file("a")), base_case: &is_there("a"), ..Plan::default() })
}

fn step(repo: &Repo, session: &str, words: &[&str]) -> Said {
    let output = repo.command(words).env("AOT_SESSION", session).output().expect("it starts");
    Said {
        exit: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn a_turn_says_what_is_next_or_how_it_ended() {
    let repo = repo();
    assert_eq!(step(&repo, "s", &["turn"]).exit, 1, "no loop runs");
    assert_eq!(step(&repo, "s", &["run", "--session"]).exit, 0);
    let said = step(&repo, "other", &["turn"]);
    assert_eq!(said.exit, 1);
    assert!(said.err.contains("belongs to the session s"), "{}", said.err);
    assert_eq!(step(&repo, "s", &["atom", "start", "A1"]).exit, 0);
    // What is in progress when a turn ends is nobody's.
    let said = step(&repo, "s", &["turn"]);
    assert_eq!(said.exit, 0, "{}", said.err);
    assert!(said.out.contains("The loop is not done: 1 of 1 atom unresolved"), "{}", said.out);
    assert_eq!(repo.atoms(), "A1:pending");
    let said = step(&repo, "s", &["atom", "start", "A1", "--json"]);
    let started: Value = serde_json::from_str(&said.out).expect("JSON");
    fs::write(format!("{}/a", started["tree"].as_str().expect("a folder")), "a").expect("a file");
    assert_eq!(step(&repo, "s", &["atom", "resolve", "A1", "--summary", "made"]).exit, 0);
    let said = step(&repo, "s", &["turn"]);
    assert_eq!(said.exit, 0, "{}", said.err);
    assert!(said.out.contains("The loop is COMPLETED"), "{}", said.out);
    assert_eq!(repo.state()["control"]["status"], "completed");
    let said = step(&repo, "s", &["turn"]);
    assert_eq!(said.exit, 1);
    assert!(said.err.contains("not running"), "{}", said.err);
}

#[test]
fn turns_without_progress_end_the_loop() {
    let repo = repo();
    step(&repo, "s", &["run", "--session"]);
    let mut said = step(&repo, "s", &["turn", "--json"]);
    for _ in 0..10 {
        if !said.halted()["halted"].is_null() {
            break;
        }
        said = step(&repo, "s", &["turn", "--json"]);
    }
    assert_eq!(said.exit, 0, "the verb did what it should");
    let told = said.halted();
    assert_eq!(told["halted"]["exit"], 11, "{told}");
    assert!(told["told"].as_str().is_some_and(|told| told.contains("STOPPED")), "{told}");
}

#[test]
fn a_completed_that_was_typed_is_not_believed() {
    let repo = repo();
    step(&repo, "s", &["run", "--session"]);
    repo.write(STATE, &repo.read(STATE).replace("status: running", "status: completed"));
    let said = step(&repo, "s", &["turn"]);
    assert_eq!(said.exit, 0, "{}", said.err);
    assert!(said.out.contains("The loop is not done"), "{}", said.out);
    assert_eq!(repo.state()["control"]["status"], "running");
}
