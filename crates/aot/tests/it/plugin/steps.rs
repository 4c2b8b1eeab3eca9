//! The steps of a session, without a client: a tree and a brief at the start, a check and a landing at the end.

use std::fs;

use serde_json::Value;

use super::kit::{atom, file, is_there, reason};
use crate::repo::{Plan, Repo};

fn plan<'p>(atoms: &'p str, base_case: &'p str) -> Plan<'p> {
    Plan { atoms, base_case, ..Plan::default() }
}

fn begun(atoms: &str, base_case: &str) -> Repo {
    let repo = Repo::with(&plan(atoms, base_case));
    let said = repo.step(&["run", "--session"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    repo
}

fn write(repo: &Repo, tree: &str, path: &str) {
    fs::write(repo.tree(tree).join(path), path).expect("a file");
}

#[test]
fn a_step_has_a_tree_a_brief_a_check_and_a_landing() {
    let repo = begun(
        &(atom("A1", "", &file("a")) + &atom("A2", "A1", &file("b"))),
        &(is_there("a") + &is_there("b")),
    );
    assert_eq!(repo.state()["control"]["session"], "session-1");
    let said = repo.step(&["atom", "start", "A1", "--json"]);
    let started: Value = serde_json::from_str(&said.out).expect("JSON");
    let tree = started["tree"].as_str().expect("a folder");
    assert_eq!(tree, repo.tree("A1-1").to_str().expect("plain"));
    assert!(started["brief"].as_str().is_some_and(|brief| brief.contains("solve A1")), "{started}");
    assert!(repo.step(&["atom", "brief", "A1"]).out.contains("solve A1"));
    // A word resolves nothing: the file is not there.
    let refused = repo.step(&["atom", "resolve", "A1", "--summary", "a is made"]);
    assert_eq!(refused.exit, 1, "{}", refused.out);
    assert!(refused.err.contains("2 left"), "{}", refused.err);
    assert_eq!(repo.atoms(), "A1:in_progress A2:pending");
    write(&repo, "A1-1", "a");
    assert!(!repo.path("a").exists(), "nothing is in the project before it lands");
    let said = repo.step(&["atom", "resolve", "A1", "--summary", "a is made"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(repo.path("a").exists());
    assert_eq!(repo.landed("main"), "A1");
    assert_eq!(repo.atoms(), "A1:resolved A2:pending");
    // The turn ends: the loop goes on, and says how.
    let answer = repo.turn("c1");
    assert_eq!(answer["decision"], "block");
    assert!(
        reason(&answer).contains("A2: Make A2") && reason(&answer).contains("builds on A1: a is made"),
        "{answer}"
    );
    repo.step(&["atom", "start", "A2"]);
    write(&repo, "A2-2", "b");
    repo.step(&["atom", "resolve", "A2", "--summary", "b is made"]);
    assert_eq!(repo.turn("c1"), Value::Null, "it may go");
    let told = repo.told_at_the_end();
    assert!(told.contains("COMPLETED"), "{told}");
    assert_eq!(repo.told_at_the_end(), "", "once");
    assert_eq!(repo.state()["control"]["status"], "completed");
    assert_eq!(repo.leftovers(), [""; 0]);
}

#[test]
fn steps_at_the_same_time_do_not_collide() {
    let atoms: String = (1..=3).map(|n| atom(&format!("A{n}"), "", &file(&format!("f{n}")))).collect();
    let base: String = (1..=3).map(|n| is_there(&format!("f{n}"))).collect();
    let repo = begun(&atoms, &base);
    let all = |verb: &'static str| {
        std::thread::scope(|scope| {
            let done: Vec<_> = (1..=3)
                .map(|n| {
                    let repo = &repo;
                    scope.spawn(move || {
                        let id = format!("A{n}");
                        let mut words = vec!["atom", verb, &id];
                        if verb == "resolve" {
                            words.extend(["--summary", "made"]);
                        }
                        repo.step(&words)
                    })
                })
                .collect();
            for said in done {
                let said = said.join().expect("no panic");
                assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
            }
        });
    };
    all("start");
    let control = repo.state()["control"].clone();
    assert_eq!(control["iteration"], 1);
    assert_eq!(control["open"]["started"].as_array().map(Vec::len), Some(3), "{control}");
    (1..=3).for_each(|n| write(&repo, &format!("A{n}-1"), &format!("f{n}")));
    all("resolve");
    assert_eq!(repo.atoms(), "A1:resolved A2:resolved A3:resolved");
    assert_eq!(repo.landed("main").split(' ').count(), 3);
    repo.turn("c1");
    assert_eq!(repo.state()["control"]["status"], "completed");
    assert_eq!(repo.leftovers(), [""; 0]);
}

#[test]
fn a_failure_is_discarded_and_the_group_goes_on() {
    let ways = "  - {id: A1, description: \"One way\", status: pending, depends_on: [], or_group: way}\n  \
                - {id: A2, description: \"Another\", status: pending, depends_on: [], or_group: way}\n";
    let base = is_there("b");
    let plan = Plan {
        atoms: ways,
        or_groups: "  way: {choices: [A1, A2], selected: A1, failed: []}",
        base_case: &base,
        ..Plan::default()
    };
    let repo = Repo::with(&plan);
    repo.step(&["run", "--session"]);
    repo.step(&["atom", "start", "A1"]);
    write(&repo, "A1-1", "wrong");
    let said = repo.step(&["atom", "fail", "A1", "--reason", "it leads nowhere"]);
    assert!(said.out.contains("way switches to A2"), "{}{}", said.out, said.err);
    assert!(!repo.tree("A1-1").exists() && !repo.path("wrong").exists());
    assert!(repo.aot(&["log"]).out.contains("refs/aot/kept/"), "its work is kept");
    let said = repo.step(&["atom", "start", "A2"]);
    assert!(said.out.contains("it leads nowhere"), "the next way knows: {}{}", said.out, said.err);
    repo.step(&["atom", "fail", "A2", "--reason", "nor does this"]);
    assert_eq!(repo.turn("c1"), Value::Null);
    let told = repo.told_at_the_end();
    assert!(told.contains("exhausted"), "{told}");
    assert_eq!(repo.state()["control"]["status"], "stopped");
}

#[test]
fn a_result_that_stays_unproven_is_a_failure() {
    let repo = begun(&atom("A1", "", &file("a")), &is_there("a"));
    repo.step(&["atom", "start", "A1"]);
    let resolve = || repo.step(&["atom", "resolve", "A1", "--summary", "it is surely there"]);
    assert!(resolve().err.contains("2 left"));
    assert!(resolve().err.contains("1 left"));
    let last = resolve();
    assert_eq!(last.exit, 1);
    assert!(last.err.contains("pending again"), "{}", last.err);
    assert_eq!(repo.atoms(), "A1:pending");
    assert_eq!(repo.state()["trail"][0]["type"], "failure");
}

#[test]
fn protected_files_do_not_land() {
    let atoms = atom("A1", "", "");
    let base = is_there("a");
    let repo = Repo::with(&Plan { objective: "  protected: [\"tests/**\"]", ..plan(&atoms, &base) });
    repo.step(&["run", "--session"]);
    repo.step(&["atom", "start", "A1"]);
    fs::create_dir_all(repo.tree("A1-1").join("tests")).expect("a folder");
    write(&repo, "A1-1", "tests/t");
    let said = repo.step(&["atom", "resolve", "A1", "--summary", "tests are green now"]);
    assert_eq!(said.exit, 1);
    assert!(said.err.contains("protected: tests/t"), "{}", said.err);
    assert!(!repo.path("tests").exists());
}

#[test]
fn what_collides_is_pending_again() {
    let repo = begun(&(atom("A1", "", "") + &atom("A2", "", "")), &is_there("a"));
    repo.step(&["atom", "start", "A1"]);
    repo.step(&["atom", "start", "A2"]);
    fs::write(repo.tree("A1-1").join("README"), "one").expect("a file");
    fs::write(repo.tree("A2-1").join("README"), "two").expect("a file");
    assert_eq!(repo.step(&["atom", "resolve", "A1", "--summary", "one"]).exit, 0);
    let said = repo.step(&["atom", "resolve", "A2", "--summary", "two"]);
    assert_eq!(said.exit, 1);
    assert!(said.err.contains("README"), "{}", said.err);
    assert_eq!(repo.atoms(), "A1:resolved A2:pending");
    assert_eq!(repo.read("README"), "one");
}

#[test]
fn commands_are_run_where_they_are_started() {
    let atoms = crate::repo::atom("A1", "", "echo one > one; echo made") + &atom("A2", "A1", "");
    let repo = begun(&atoms, &is_there("two"));
    let said = repo.step(&["atom", "start", "A1"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("resolved A1"), "{}", said.out);
    assert_eq!(repo.read("one"), "one\n");
}

#[test]
fn in_place_there_is_one_at_a_time_and_a_failure_is_rolled_back() {
    let atoms = atom("A1", "", "") + &atom("A2", "", "");
    let base = is_there("a");
    let repo = Repo::with(&Plan { objective: "  isolation: {mode: in_place}", ..plan(&atoms, &base) });
    repo.step(&["run", "--session"]);
    repo.step(&["atom", "start", "A1"]);
    let second = repo.step(&["atom", "start", "A2"]);
    assert_eq!(second.exit, 1, "{}{}", second.out, second.err);
    repo.write("wrong", "x");
    repo.step(&["atom", "fail", "A1", "--reason", "no"]);
    assert!(!repo.path("wrong").exists(), "it was rolled back");
    repo.step(&["atom", "start", "A2"]);
    repo.write("a", "x");
    assert_eq!(repo.step(&["atom", "resolve", "A2", "--summary", "made"]).exit, 0);
    assert!(repo.path("a").exists());
}

#[test]
fn a_loop_belongs_to_one_session() {
    let repo = begun(&atom("A1", "", ""), &is_there("a"));
    for words in
        [&["atom", "start", "A1"][..], &["run", "--session"], &["atom", "fail", "A1", "--reason", "x"]]
    {
        let said = repo.step_in("another", words);
        assert_eq!(said.exit, 1, "{words:?}: {}", said.out);
        assert!(said.err.contains("belongs to the session session-1"), "{}", said.err);
    }
    assert!(repo.aot(&["run"]).err.contains("--take-over"));
    // It begins anew where the other one left, and what was in progress is nobody's.
    repo.step(&["atom", "start", "A1"]);
    write(&repo, "A1-1", "half");
    let said = repo.step_in("another", &["run", "--session", "--take-over"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(repo.atoms(), "A1:pending");
    assert!(!repo.tree("A1-1").exists());
    assert_eq!(repo.state()["control"]["session"], "another");
    assert!(repo.step(&["atom", "start", "A1"]).err.contains("belongs to the session another"));
}

#[test]
fn a_stop_lets_what_runs_be_handed_in() {
    let repo = begun(&(atom("A1", "", "") + &atom("A2", "", "")), &is_there("a"));
    repo.step(&["atom", "start", "A1"]);
    repo.step(&["stop", "it is late"]);
    assert!(repo.step(&["atom", "start", "A2"]).err.contains("a stop is requested"));
    write(&repo, "A1-1", "a");
    let said = repo.step(&["atom", "resolve", "A1", "--summary", "made"]);
    assert!(said.out.contains("it is late"), "{}{}", said.out, said.err);
    assert_eq!(repo.state()["control"]["status"], "stopped");
    assert_eq!(repo.state()["control"]["stop_reason"], "it is late");
    assert_eq!(repo.turn("c1"), Value::Null, "what has stopped is left alone");
    assert!(repo.step(&["atom", "start", "A2"]).err.contains("is not running"));
    // Taken up again, it completes: all checks pass.
    let said = repo.step(&["run", "--session"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
}

#[test]
fn a_stop_at_once_discards() {
    let repo = begun(&atom("A1", "", ""), &is_there("a"));
    repo.step(&["atom", "start", "A1"]);
    write(&repo, "A1-1", "a");
    let said = repo.step(&["stop", "--now"]);
    assert!(said.out.contains("stopped"), "{}{}", said.out, said.err);
    assert_eq!(repo.atoms(), "A1:pending");
    assert_eq!(repo.leftovers(), [""; 0]);
}

#[test]
fn without_a_session_the_verbs_are_as_they_were() {
    let repo = Repo::with(&plan(&atom("A1", "", ""), &is_there("a")));
    let said = repo.aot(&["atom", "start", "A1"]);
    assert_eq!(said.out.trim(), "A1 is in progress");
    assert!(!repo.tree("A1-0").exists());
    assert_eq!(repo.aot(&["run", "--session"]).exit, 2, "there is no session here");
}
