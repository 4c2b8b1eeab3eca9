//! The steps of a session, without a client: a tree and a brief at the start, a check and a landing at the end.

use std::fs;

use serde_json::{Value, json};

use super::kit::{atom, context, file, is_there, reason, shown};
use crate::repo::{Plan, Repo, STATE};

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

/// Marks an atom as resolved with an editor.
fn type_resolved(repo: &Repo, id: &str, status: &str) {
    let text = repo.read(STATE);
    let (from, to) = (format!("\"Make {id}\", status: {status}"), format!("\"Make {id}\", status: resolved"));
    assert!(text.contains(&from), "{text}");
    repo.write(STATE, &text.replace(&from, &to));
}

#[test]
fn a_result_that_was_typed_is_not_believed() {
    let repo = begun(
        &(atom("A1", "", &file("a")) + &atom("A2", "", "") + &atom("A3", "", "")),
        &(is_there("a") + &is_there("b")),
    );
    repo.step(&["atom", "start", "A1"]);
    // The next step takes it back, whether a check proves the atom or not, and says so.
    type_resolved(&repo, "A1", "in_progress");
    type_resolved(&repo, "A2", "pending");
    let said = repo.step(&["atom", "start", "A3"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(repo.atoms(), "A1:in_progress A2:pending A3:in_progress");
    assert!(repo.aot(&["log"]).out.contains("A1 was typed into the file as resolved"), "the journal tells");
    // A verb beside the session does not launder it, and the attempt that was under way can still be handed in.
    type_resolved(&repo, "A1", "in_progress");
    let said = repo.step(&["atom", "add", "More"]);
    assert!(said.err.contains("A1: `resolved` was typed into the state file"), "{}{}", said.out, said.err);
    write(&repo, "A1-1", "a");
    let said = repo.step(&["atom", "resolve", "A1", "--summary", "a is made"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    // At the end of a turn, too: the loop does not end with work that only a file says is done.
    repo.step(&["atom", "fail", "A3", "--reason", "no"]);
    type_resolved(&repo, "A2", "pending");
    let answer = repo.turn("c1");
    assert!(reason(&answer).contains("A2: `resolved` was typed"), "{answer}");
    assert_eq!(repo.atoms(), "A1:resolved A2:pending A3:pending A4:pending");
}

#[test]
fn only_what_an_atom_touches_has_to_be_clean() {
    let atoms = atom("A1", "", "") + &atom("A2", "", "");
    let repo = Repo::with(&plan(&atoms, &is_there("a")));
    repo.write("README", "My own words.\n");
    let said = repo.step(&["run", "--session"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let told = "uncommitted changes in README: work that touches them cannot land";
    assert!(said.err.contains(told), "{}{}", said.out, said.err);
    let bash = || repo.hook("post-tool-use", json!({"tool_name": "Bash", "tool_input": {"command": "aot"}}));
    assert!(shown(&bash()).contains(told), "the user reads it");
    ["A1", "A2"].iter().for_each(|id| assert_eq!(repo.step(&["atom", "start", id]).exit, 0));
    write(&repo, "A1-1", "a");
    write(&repo, "A2-1", "README");
    let said = repo.step(&["atom", "resolve", "A1", "--summary", "a is made"]);
    assert_eq!(said.exit, 0, "it touches nothing of the user's: {}{}", said.out, said.err);
    let said = repo.step(&["atom", "resolve", "A2", "--summary", "another README"]);
    assert_eq!(said.exit, 1, "{}{}", said.out, said.err);
    assert!(said.err.contains("it cannot land: uncommitted work is in the way: README"), "{}", said.err);
    let answer = bash();
    assert!(shown(&answer).contains("A2 is done and cannot land"), "the user reads it: {answer}");
    assert_eq!(
        (repo.atoms().as_str(), repo.read("README").as_str()),
        ("A1:resolved A2:in_progress", "My own words.\n")
    );
    repo.git(&["checkout", "-q", "README"]);
    let said = repo.step(&["atom", "resolve", "A2", "--summary", "another README"]);
    assert_eq!(said.exit, 0, "the same work lands: {}{}", said.out, said.err);
    // Edits that are left prevent the completion, and the end says so.
    repo.write("README", "My own words.\n");
    repo.turn("c1");
    let told = repo.told_at_the_end();
    assert!(told.contains("commit or undo") && told.contains("README"), "{told}");
    assert_eq!(repo.state()["control"]["status"], "stopped");
    repo.git(&["commit", "-qam", "My own"]);
    repo.step(&["run", "--session"]);
    assert_eq!(repo.state()["control"]["status"], "completed");
}

#[test]
fn a_verifier_judges_and_hands_its_scores_in() {
    let good =
        "      - item: It is good\n        check: {type: quality, criteria: Short, pass_threshold: 4}\n";
    let quality = "check: {type: quality, criteria: Neat, pass_threshold: 3}";
    let repo = begun(&(atom("A1", "", "") + &atom("A2", "", quality)), &(is_there("a") + good));
    let bash = || repo.hook("post-tool-use", json!({"tool_name": "Bash", "tool_input": {"command": "aot"}}));
    assert!(shown(&bash()).contains("there is no judge: aot-verifier scores it"), "it is said at entry");
    let scores = |score: u8| {
        let one =
            json!({"criterion": "overall", "score": score, "reason": "so it is", "evidence": ["a:1 a"]});
        json!({"scores": [one]}).to_string()
    };
    // The check of an atom is judged in its tree.
    ["A1", "A2"].iter().for_each(|id| assert_eq!(repo.step(&["atom", "start", id]).exit, 0));
    write(&repo, "A1-1", "a");
    write(&repo, "A2-1", "b");
    let said = repo.step(&["atom", "resolve", "A2", "--summary", "b is made"]);
    assert!(said.err.contains("not judged yet") && said.err.contains("`aot judge`"), "{}", said.err);
    assert_eq!(repo.step(&["judge"]).out, "It is good\nA2: Neat\n");
    assert_eq!(repo.step(&["judge", "A2: Neat", "--scores", &scores(3)]).exit, 0);
    assert_eq!(repo.step(&["atom", "resolve", "A2", "--summary", "b is made"]).exit, 0);
    assert_eq!(repo.step(&["atom", "resolve", "A1", "--summary", "a is made"]).exit, 0);
    // The machine's checks come first; then whoever coordinates is asked for a judge.
    let answer = repo.turn("c1");
    assert!(reason(&answer).contains("aot judge \"It is good\""), "{answer}");
    assert!(!reason(&answer).contains("aot atom add"), "no other work is asked for: {answer}");
    let brief = repo.step(&["judge", "It is good"]).out;
    assert!(brief.contains("Short") && brief.contains("aot judge \"It is good\" --scores"), "{brief}");
    // As strict as with any judge.
    for (wrong, told) in [
        (scores(6), "one of 1, 2, 3, 4, 5"),
        ("I like it".into(), "no JSON object"),
        (scores(4).replace("[\"a:1 a\"]", "[]"), "at least one place"),
        (scores(4).replace("overall", "taste"), "overall"),
    ] {
        let said = repo.step(&["judge", "It is good", "--scores", &wrong]);
        assert_eq!(said.exit, 1, "{wrong}: {}", said.out);
        assert!(said.err.contains("these scores do not count") && said.err.contains(told), "{}", said.err);
    }
    // Only the verifier judges.
    let command = json!({"command": format!("aot judge \"It is good\" --scores '{}'", scores(5))});
    for (role, ruled) in
        [("verifier", "allow"), ("worker", "deny"), ("coordinator", "deny"), ("probe", "deny")]
    {
        assert_eq!(repo.ruled("x", role, "Bash", command.clone()), ruled, "{role}");
    }
    // Scores that do not pass leave the loop open, and count for the files as they were.
    let said = repo.step(&["judge", "It is good", "--scores", &scores(3)]);
    assert!(said.out.contains("scored 3.00, below 4"), "{}{}", said.out, said.err);
    let answer = repo.turn("c1");
    assert!(reason(&answer).contains("It is good: scored 3.00, below 4"), "{answer}");
    assert_eq!(repo.step(&["judge", "It is good", "--scores", &scores(5)]).exit, 0);
    repo.write("a", "another");
    repo.git(&["commit", "-qam", "By hand"]);
    let answer = repo.turn("c1");
    assert!(reason(&answer).contains("not judged yet on these files"), "{answer}");
    assert_eq!(repo.step(&["judge", "It is good", "--scores", &scores(5)]).exit, 0);
    assert_eq!(repo.turn("c1"), Value::Null);
    assert_eq!(repo.state()["control"]["status"], "completed");
}

#[test]
fn what_only_this_folder_has_is_named_at_the_end() {
    let repo = begun(&atom("A1", "", ""), &(is_there("a") + &is_there("b")));
    repo.step(&["atom", "start", "A1"]);
    write(&repo, "A1-1", "a");
    assert_eq!(repo.step(&["atom", "resolve", "A1", "--summary", "a is made"]).exit, 0);
    // Half of it exists only as files that nobody has committed; what git ignores is not worth a word.
    repo.write("b", "made beside the loop");
    repo.write("more/c", "c");
    repo.write("ignored/d", "d");
    assert_eq!(repo.turn("c1"), Value::Null);
    assert_eq!(repo.state()["control"]["status"], "completed");
    let answer = repo.hook("post-tool-use", json!({"tool_name": "Agent"}));
    let told =
        "no commit has these files, and the checks could see them: b, more/. Commit what belongs to it";
    assert!(shown(&answer).contains(told) && context(&answer).contains(told), "{answer}");
    // A run says the same.
    let repo = Repo::with(&plan(&atom("A1", "", ""), &is_there("b")));
    repo.write("b", "made beside the loop");
    let said = repo.aot(&["run"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!((said.out + &said.err).contains("the checks could see files that no commit has: b"));
}

#[test]
fn what_nobody_has_looked_at_is_not_called_green() {
    let repo = begun(&atom("A1", "", ""), &is_there("a"));
    let bash = || repo.hook("post-tool-use", json!({"tool_name": "Bash", "tool_input": {"command": "aot"}}));
    assert!(shown(&bash()).contains("red now: a is there"));
    assert_eq!(repo.step(&["redirect", "--hold"]).exit, 0);
    assert_eq!(repo.step(&["redirect", "--done", "a is there, and small"]).exit, 0);
    // The loop goes on without a look at its checks.
    assert_eq!(repo.step(&["run", "--session"]).exit, 0);
    let answer = bash();
    assert!(shown(&answer).contains("at most ") && !shown(&answer).contains("red"), "{answer}");
}

#[test]
fn growth_and_its_withdrawal_are_told() {
    let repo = begun(&(atom("A1", "", "") + &atom("A2", "", "")), &is_there("a"));
    repo.step(&["atom", "start", "A2"]);
    for words in [
        &["atom", "decompose", "A1", "--child", "One half", "--child", "The other"][..],
        &["atom", "withdraw", "A1"],
        &["atom", "decompose", "A1", "--child", "All of it"],
        &["atom", "add", "More"],
    ] {
        let command = json!({"command": format!("aot {}", words.join(" "))});
        let is_quoted = words.len() > 4;
        assert!(is_quoted || repo.ruled("c1", "coordinator", "Bash", command) == "allow", "{words:?}");
        let said = repo.step(words);
        assert_eq!(said.exit, 0, "{words:?}: {}{}", said.out, said.err);
    }
    assert_eq!(repo.atoms(), "A1:pending A2:in_progress A3:pending A4:pending");
    let said = repo.step(&["atom", "withdraw", "A2"]);
    assert!(said.exit == 1 && said.err.contains("A2"), "nothing to withdraw: {}", said.err);
    write(&repo, "A2-1", "b");
    assert_eq!(repo.step(&["atom", "resolve", "A2", "--summary", "b is made"]).exit, 0);
    repo.turn("c1");
    let answer = repo.hook("post-tool-use", json!({"tool_name": "Agent"}));
    for part in
        ["A2 resolved", "A1 decomposed into A3, A4", "A1 is whole again", "A1 decomposed into A3", "A4 added"]
    {
        assert!(shown(&answer).contains(part), "{part}: {answer}");
    }
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
