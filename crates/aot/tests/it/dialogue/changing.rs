//! `aot redirect` by flags on a loop that has stopped: each kind of change, what it does to the file, and what is refused.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::repo::{Plan, Repo, STATE, atom, check as check_of};

/// A loop that has stopped midway: two ways of one thing, one of which failed, and results that others rest on.
pub fn stopped() -> Repo {
    let repo = Repo::with(&Plan::default());
    repo.write(STATE, STOPPED);
    repo
}

pub const STOPPED: &str = r#"---
objective:
  goal: "Let people log in"   # agreed on Monday
  base_case:
    checklist:
      - {item: "One is there", check: {type: file, value: one}}
  background_intent: "Existing users need accounts"
  deliverables: "A login API"
  definition_of_done: "The login tests are green"
  constraints: {max_iterations: 20, max_parallel_agents: 3, max_stall_count: 3}
  protected: ["README"]
control:
  status: stopped
  iteration: 4
  stall_count: 1
  prev_pending_count: 4
  stop_requested: true
  stop_reason: "late"
  redirect_requested: false
atoms:
  - {id: A1, description: "The user model", status: resolved, depends_on: []}
  - {id: A2, description: "Tokens by JWT", status: pending, depends_on: [A1], or_group: tokens}
  - {id: A3, description: "Tokens by sessions", status: resolved, depends_on: [A1], or_group: tokens}   # the old way
  - {id: A4, description: "The route", status: resolved, depends_on: [A3]}
  - {id: A5, description: "The page", status: pending, depends_on: [A4]}
  - {id: A6, description: "A rate limiter", status: pending, depends_on: [A4]}
  - {id: A7, description: "Docs", status: resolved, depends_on: []}
decompositions: []
or_groups:
  tokens: {choices: [A2, A3], selected: A3, failed: [A2]}
bindings:
  A1: {summary: "a model", artifacts: [model.rs]}
  A3: {summary: "sessions in a table", artifacts: []}
  A4: {summary: "POST /login", artifacts: []}
  A7: {summary: "a page", artifacts: []}
trail:
  - {or_group: tokens, selected: A3, reason: "Auto-backtrack: A2 failed (no library)", cause: {kind: failed, atom: A2, reason: no library}, timestamp: "2026-01-15T10:30:00Z"}
  - {type: failure, atom: A5, reason: "no styles", timestamp: "2026-01-15T11:30:00Z"}
corrections: []
budget: mine
---

# Original Prompt

Please let people log in.
"#;

/// All places at which two values differ: `objective.goal`, `atoms.A2`, `trail`.
fn differences(before: &Value, after: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let keyed = |value: &Value| -> Vec<(String, Value)> {
        match value {
            Value::Object(entries) => {
                entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
            }
            Value::Array(items) if items.iter().all(|item| item["id"].is_string()) => {
                let id = |item: &Value| item["id"].as_str().unwrap_or_default().to_owned();
                items.iter().map(|item| (id(item), item.clone())).collect()
            }
            _ => Vec::new(),
        }
    };
    for section in ["objective", "control", "atoms", "or_groups", "bindings"] {
        let (before, after) = (keyed(&before[section]), keyed(&after[section]));
        for (key, value) in &after {
            if before.iter().all(|(other, same)| other != key || same != value) {
                found.insert(format!("{section}.{key}"));
            }
        }
        for (key, _) in &before {
            if after.iter().all(|(other, _)| other != key) {
                found.insert(format!("{section}.{key} gone"));
            }
        }
    }
    for section in ["decompositions", "budget", "body"] {
        if before[section] != after[section] {
            found.insert(section.into());
        }
    }
    found
}

/// One row: the words, the kind of each correction, what becomes of the trail, and all that differs in the file.
fn check(words: &[&str], kinds: &[&str], trail: Trail, differs: &[&str]) -> Value {
    let repo = stopped();
    repo.write(
        "checks.yml",
        "checklist:\n  - {item: Both, check: {type: command, value: \"test -f one -a -f two\"}}\n",
    );
    let before = repo.state();
    let said = repo.aot(&[&["redirect"], words, &["--json"]].concat());
    assert_eq!(said.exit, 0, "{words:?}: {}{}", said.out, said.err);
    let told: Value = serde_json::from_str(&said.out).expect("one object");
    let after = repo.state();
    let made: Vec<&str> = after["corrections"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|c| c["type"].as_str().unwrap_or(""))
        .collect();
    assert_eq!(made, kinds, "{words:?}");
    assert_eq!(told["corrections"], after["corrections"], "{words:?}");
    let cleared = after["corrections"][0]["trail_cleared"].as_bool();
    let entries = |state: &Value| state["trail"].as_array().cloned().unwrap_or_default();
    let (old, new) = (entries(&before), entries(&after));
    match trail {
        Trail::Cleared => assert_eq!((new.len(), cleared), (0, Some(true)), "{words:?}"),
        Trail::Kept => assert_eq!((&new, cleared), (&old, Some(false)), "{words:?}"),
        Trail::Appended(more) => {
            assert_eq!(new[..old.len()], old[..], "{words:?}");
            assert_eq!((new.len() - old.len(), cleared), (more, Some(false)), "{words:?}: {new:?}");
            assert_eq!(new.last().map(|entry| &entry["type"]), Some(&json!("user_correction")), "{words:?}");
        }
        Trail::Pruned(left) => assert_eq!((new.len(), cleared), (left, Some(true)), "{words:?}: {new:?}"),
    }
    let mut expected: BTreeSet<String> = differs.iter().map(|place| (*place).to_owned()).collect();
    expected.insert("control.revision".into());
    assert_eq!(differences(&before, &after), expected, "{words:?}");
    let text = repo.read(STATE);
    for kept in ["# agreed on Monday", "# the old way", "budget: mine", "Please let people log in."] {
        assert!(text.contains(kept), "{words:?} lost {kept}\n{text}");
    }
    assert_eq!(repo.aot(&["validate"]).exit, 0, "{words:?}");
    after
}

#[derive(Clone, Copy)]
enum Trail {
    Cleared,
    Kept,
    Appended(usize),
    /// Something left it, and so many entries are there now.
    Pruned(usize),
}

#[test]
fn alignment_changes_clear_the_trail() {
    let kind = &["objective_change"];
    let after = check(&["--goal", "Another"], kind, Trail::Cleared, &["objective.goal", "or_groups.tokens"]);
    assert_eq!(after["objective"]["goal"], "Another");
    check(
        &["--intent", "Another"],
        kind,
        Trail::Cleared,
        &["objective.background_intent", "or_groups.tokens"],
    );
    check(
        &["--deliverables", "Another"],
        kind,
        Trail::Cleared,
        &["objective.deliverables", "or_groups.tokens"],
    );
    check(
        &["--done", "Another"],
        kind,
        Trail::Cleared,
        &["objective.definition_of_done", "or_groups.tokens"],
    );
    let after = check(
        &["--base-case", "checks.yml"],
        kind,
        Trail::Cleared,
        &["objective.base_case", "or_groups.tokens"],
    );
    assert_eq!(after["objective"]["base_case"]["checklist"][0]["item"], "Both");
}

#[test]
fn constraints_keep_the_trail() {
    let kind = &["constraint_change"];
    let differs = &["objective.constraints"];
    let after = check(&["--set", "max_iterations=30"], kind, Trail::Kept, differs);
    assert_eq!(after["objective"]["constraints"]["max_iterations"], 30);
    let after = check(&["--max-iterations", "30"], kind, Trail::Kept, differs);
    assert_eq!(after["corrections"][0]["description"], "max_iterations: 20 -> 30");
    check(&["--max-wall-time", "8h"], kind, Trail::Kept, differs);
    check(&["--max-cost-usd", "5"], kind, Trail::Kept, differs);
    check(&["--max-tokens", "1000"], kind, Trail::Kept, differs);
    let after = check(&["--protect", "tests/**"], kind, Trail::Kept, &["objective.protected"]);
    assert_eq!(after["objective"]["protected"], json!(["README", "tests/**"]));
    check(&["--unprotect", "README"], kind, Trail::Kept, &["objective.protected gone"]);
    let after = check(&["--copy", ".env", "--share", "lib"], kind, Trail::Kept, &["objective.isolation"]);
    assert_eq!(after["objective"]["isolation"], json!({"share": ["lib"], "copy": [".env"]}));
    assert_eq!(after["corrections"][0]["description"], "trees share lib, and copy .env");
}

#[test]
fn adding_and_removing_append_to_the_trail() {
    let kind = &["dag_adjustment"];
    let grown = ["atoms.A8", "control.prev_pending_count"];
    let after = check(&["--add", "Roles <- A1"], kind, Trail::Appended(1), &grown);
    assert_eq!(after["atoms"][7]["depends_on"], json!(["A1"]));
    let after =
        check(&["--add", r#"{"description": "Roles", "run": "true"}"#], kind, Trail::Appended(1), &grown);
    assert_eq!(after["atoms"][7]["run"], "true");
    let gone = ["atoms.A6 gone", "control.prev_pending_count"];
    check(&["--remove", "A6"], kind, Trail::Appended(1), &gone);
    check(&["--depends", "A5 <- A1"], kind, Trail::Appended(1), &["atoms.A5"]);
    let grown = ["atoms.A8", "or_groups.tokens"];
    check(&["--add-choice", "tokens", "Tokens by mail <- A1"], kind, Trail::Appended(1), &grown);
}

#[test]
fn forcing_a_choice_appends_to_the_trail() {
    let differs = [
        "or_groups.tokens",
        "atoms.A3",
        "atoms.A4",
        "bindings.A3 gone",
        "bindings.A4 gone",
        "control.prev_pending_count",
    ];
    let words = ["--select", "tokens=A2", "the library is there now"];
    let after = check(&words, &["dag_adjustment"], Trail::Appended(2), &differs);
    assert_eq!(after["or_groups"]["tokens"]["selected"], "A2");
    assert_eq!(after["or_groups"]["tokens"]["failed"], json!([]));
    assert_eq!(after["trail"][2]["reason"], "the library is there now");
}

#[test]
fn bindings_clear_only_what_rests_on_them() {
    let kind = &["bindings_override"];
    // The group lies wholly inside what is redone: its selection goes, the failure elsewhere stays.
    let differs = [
        "bindings.A1",
        "bindings.A3 gone",
        "bindings.A4 gone",
        "atoms.A3",
        "atoms.A4",
        "control.prev_pending_count",
    ];
    let after = check(&["--rebind", "A1", "a model with roles"], kind, Trail::Pruned(1), &differs);
    assert_eq!(after["bindings"]["A1"], json!({"summary": "a model with roles", "artifacts": ["model.rs"]}));
    check(&["--rebind", "A7", "two pages"], kind, Trail::Kept, &["bindings.A7"]);
    let differs = ["atoms.A4", "bindings.A4 gone", "control.prev_pending_count"];
    check(&["--redo", "A4"], kind, Trail::Kept, &differs);
    let after = check(&["--redo", "A4", "use the other route"], kind, Trail::Kept, &differs);
    assert_eq!(after["corrections"][0]["description"], "A4 will be done again: use the other route");
    // What is not resolved needs no reset, and is told.
    check(&["--redo", "A5", "use the styles of A7"], &["dag_adjustment"], Trail::Appended(1), &[]);
}

#[test]
fn several_are_one_transaction_and_an_entry_each() {
    let after = check(
        &[
            "--goal",
            "Another",
            "--add",
            "Roles",
            "--remove",
            "A6",
            "--set",
            "max_iterations=30",
            "--redo",
            "A7",
        ],
        &["objective_change", "constraint_change", "dag_adjustment", "bindings_override", "dag_adjustment"],
        Trail::Pruned(2),
        &[
            "objective.goal",
            "or_groups.tokens",
            "objective.constraints",
            "atoms.A8",
            "atoms.A6 gone",
            "atoms.A7",
            "bindings.A7 gone",
            "control.prev_pending_count",
        ],
    );
    assert_eq!(after["control"]["revision"], 1, "one write");
}

#[test]
fn what_cannot_be_is_refused_and_the_file_is_as_it_was() {
    let repo = stopped();
    repo.write("broken.yml", "checklist: []\n");
    let before = repo.read(STATE);
    for (words, exit, told) in [
        (vec!["--remove", "A6", "--depends", "A5 <- A6"], 1, "`A6`"),
        (vec!["--select", "tokens=A2", "--remove", "A2"], 1, "exclude each other"),
        (vec!["--rebind", "A1", "x", "--redo", "A1"], 1, "exclude each other over `A1`"),
        (vec!["--rebind", "A4", "x", "--redo", "A1"], 1, "exclude each other over `A4`"),
        (vec!["--max-iterations", "5", "--set", "max_iterations=6"], 1, "`max_iterations` is given twice"),
        (vec!["--add", "Fine", "--remove", "A9"], 1, "`A9` is not in the graph"),
        (vec!["--remove", "A4"], 1, "resolved"),
        (vec!["--remove", "A1"], 1, "A1"),
        (vec!["--goal", "  "], 1, "must not be empty"),
        (vec!["--select", "tokens"], 2, "no `=`"),
        (vec!["--select", "methods=A2"], 1, "`methods` does not exist"),
        (vec!["--select", "tokens=A3"], 1, "already"),
        (vec!["--depends", "A5"], 2, "no `<-`"),
        (vec!["--depends", "A1 <- A4"], 1, "A1"),
        (vec!["--add", "Loop <- A99"], 1, "A99"),
        (vec!["--add-choice", "ways", "x"], 1, "`ways`"),
        (vec!["--rebind", "A5", "x"], 1, "pending"),
        (vec!["--redo", "A5"], 1, "pending"),
        (vec!["--base-case", "broken.yml"], 2, "empty list"),
        (vec!["--base-case", "nowhere.yml"], 2, "nowhere.yml"),
        (vec!["--set", "speed=9"], 2, "no limit"),
        (vec![], 2, "nothing to change"),
        (vec!["--hold", "--goal", "x"], 2, "--goal"),
    ] {
        for extra in [&[][..], &["--json"]] {
            let said = repo.aot(&[&["redirect"], &words[..], extra].concat());
            assert_eq!(said.exit, exit, "{words:?}: {}{}", said.out, said.err);
            let (error, other) = if extra.is_empty() { (said.err, said.out) } else { (said.out, said.err) };
            assert!(error.contains(told), "{words:?} does not tell {told}: {error}");
            assert_eq!(other, "", "{words:?}: an error stands in one place");
            assert_eq!(repo.read(STATE), before, "{words:?}");
        }
    }
}

#[test]
fn another_base_case_is_agreed_on_and_no_tampering() {
    let repo = Repo::with(&Plan { objective: "  protected: [README]", ..Plan::default() });
    repo.write("two.yml", "type: file\nvalue: two\n");
    assert_eq!(repo.run().exit, 0);
    let said = repo.aot(&[
        "redirect",
        "--base-case",
        "two.yml",
        "--add",
        r#"{"description": "Two", "run": "echo 2 > two"}"#,
    ]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("Next: aot run"), "{}", said.out);
    let ran = repo.run();
    assert_eq!(ran.exit, 0, "{}{}", ran.out, ran.err);
    assert_eq!(repo.read("two"), "2\n");
    // What somebody did to a protected file is not hidden by another list, nor by another base case.
    repo.write("README", "Another project.\n");
    let said = repo.aot(&["redirect", "--protect", "two"]);
    assert_eq!(said.exit, 16, "{}{}", said.out, said.err);
    assert!(said.err.contains("README was changed"), "{}", said.err);
    assert_eq!(repo.aot(&["redirect", "--base-case", "two.yml"]).exit, 0);
    assert_eq!(repo.aot(&["verify"]).exit, 16);
    assert_eq!(repo.aot(&["redirect", "--accept", "--protect", "two"]).exit, 0);
    assert_eq!(repo.aot(&["verify"]).exit, 0);
}

#[test]
fn the_hints_of_halts_are_commands_that_work() {
    // Out of iterations.
    let endless = Repo::with(&Plan {
        atoms: "  - {id: A1, description: \"Never\", status: pending, depends_on: [], run: \"test -f go && echo one > one\"}",
        constraints: "max_iterations: 1, max_parallel_agents: 1, max_stall_count: 9",
        ..Plan::default()
    });
    let halted = endless.run();
    assert_eq!(halted.exit, 12, "{}{}", halted.out, halted.err);
    let next = halted.halted()["next"][0].as_str().expect("a step").to_owned();
    assert_eq!(next, "aot redirect --set max_iterations=2");
    let words: Vec<&str> = next.split(' ').skip(1).collect();
    assert_eq!(endless.aot(&words).exit, 0);
    endless.write("go", "");
    endless.git(&["add", "go"]);
    endless.git(&["commit", "-qm", "Go"]);
    assert_eq!(endless.run().exit, 0);
    // No way left.
    let exhausted = Repo::with(&Plan {
        atoms: "  - {id: A1, description: \"No way\", status: pending, depends_on: [], or_group: ways, run: \"false\"}",
        or_groups: "  ways: {choices: [A1], selected: A1, failed: []}",
        ..Plan::default()
    });
    let halted = exhausted.run();
    assert_eq!(halted.exit, 13, "{}{}", halted.out, halted.err);
    assert_eq!(halted.halted()["next"][0], "aot redirect --add-choice ways \"DESCRIPTION\"");
    let way = r#"{"description": "A way", "run": "echo one > one"}"#;
    let said = exhausted.aot(&["redirect", "--add-choice", "ways", way]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(exhausted.run().exit, 0);
    // Stalled over an atom that keeps failing.
    let stalled =
        Repo::with(&Plan { atoms: &atom("A1", "", "test -f go && echo one > one"), ..Plan::default() });
    let halted = stalled.run();
    assert_eq!(halted.exit, 11, "{}{}", halted.out, halted.err);
    assert_eq!(halted.halted()["next"][0], "aot log A1");
    let said = stalled.aot(&["redirect", "--redo", "A1", "make go first"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("changed: a hint for A1: make go first\nNext: aot run"), "{}", said.out);
    stalled.write("go", "");
    stalled.git(&["add", "go"]);
    stalled.git(&["commit", "-qm", "Go"]);
    assert_eq!(stalled.run().exit, 0);
    // Each waits for the other.
    let atoms = "  - {id: A1, description: \"Bad\", status: pending, depends_on: [], or_group: way, run: \"false\"}\n  - {id: A2, description: \"Good\", status: pending, depends_on: [A3], or_group: way, run: \"echo one > one\"}\n  - {id: A3, description: \"After\", status: pending, depends_on: [A1], run: \"true\"}";
    let or_groups = "  way: {choices: [A1, A2], selected: A1, failed: []}";
    let tied = Repo::with(&Plan { atoms, or_groups, ..Plan::default() });
    let halted = tied.run();
    assert_eq!(halted.exit, 14, "{}{}", halted.out, halted.err);
    assert_eq!(halted.halted()["next"][1], "aot redirect --depends \"A2 <-\"");
    assert_eq!(tied.aot(&["redirect", "--depends", "A2 <-"]).exit, 0);
    assert_eq!(tied.run().exit, 0);
    // Stalled with nothing left to do.
    let idle = Repo::with(&Plan { base_case: &check_of("test -f two"), ..Plan::default() });
    let halted = idle.run();
    assert_eq!(halted.exit, 11, "{}{}", halted.out, halted.err);
    assert_eq!(halted.halted()["next"][0], "aot redirect --add \"DESCRIPTION\"");
}
