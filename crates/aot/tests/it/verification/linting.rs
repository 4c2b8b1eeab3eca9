//! The linter, as a user meets it. What it says of which check is a table in the core's tests.

use serde_json::json;

use super::kit::Project;

fn codes(project: &Project, words: &[&str]) -> (i32, Vec<String>) {
    let (exit, object) = project.json(words);
    let findings = object["findings"].as_array().expect("a list").iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let codes = findings.map(|finding| {
        assert!(finding["hint"].is_string() && finding["message"].is_string());
        format!("{} {}", text(&finding["code"]), text(&finding["item"])).trim().to_owned()
    });
    (exit, codes.collect())
}

#[test]
fn the_world_is_asked() {
    let project = Project::in_git(
        r#"    checklist:
      - {item: already, check: {type: command, value: "true"}}
      - {item: writes, check: {type: command, value: "echo x >> made.txt; false"}}
      - {item: missing, check: {type: command, value: "no-such-tool"}}
      - {item: script, check: {type: command, value: "./scripts/check.sh && false"}}
      - {item: tests, check: {type: command, value: "sh -c false tests/a.sh"}}
      - {item: under a file, check: {type: file, value: "readme.txt/*.js"}}
      - {item: Says hello, check: {type: not_command, value: "grep -q hello readme.txt"}}"#,
    );
    project.write("scripts/check.sh", "exit 1");
    project.write("tests/a.sh", "");
    project.write("readme.txt", "");
    let (exit, found) = codes(&project, &["lint"]);
    assert_eq!(exit, 1);
    insta::assert_snapshot!(found.join("\n"), @r#"
    already_true already
    writes_tree writes
    missing_program missing
    unprotected script
    unprotected tests
    never_matches under a file
    inverted Says hello
    already_true Says hello
    "#);
    let (_, still) = codes(&project, &["lint", "--no-run"]);
    assert!(
        !still.iter().any(|code| code.starts_with("already_true") || code.starts_with("writes_tree")),
        "{still:?}"
    );
}

#[test]
fn a_judge_that_a_worker_could_replace_is_named() {
    let project = Project::with("    {type: quality, criteria: Short, pass_threshold: 3}");
    assert_eq!(codes(&project, &["lint"]), (0, vec![]));
    project.write("aot.toml", "[judge]\ncommand = 'cat answer'\n");
    assert_eq!(codes(&project, &["lint"]), (1, vec!["unprotected Short".to_owned()]));
    project.state("    {type: quality, criteria: Short, pass_threshold: 3}", "[\"aot.toml\"]", "");
    assert_eq!(codes(&project, &["lint"]), (0, vec![]));
}

#[test]
fn a_sound_base_case_has_no_findings() {
    let project = Project::with("    checklist: [{item: Built, check: {type: file, value: \"dist/*.js\"}}]");
    let said = project.aot(&["lint"]);
    assert_eq!((said.exit, said.out.as_str()), (0, "no findings\n"));
    assert_eq!(project.json(&["lint"]).1, json!({"findings": []}));
}

#[test]
fn atoms_without_a_check_are_named() {
    let project = Project::with("    checklist: [{item: Built, check: {type: file, value: \"dist/*.js\"}}]");
    let added = project.aot(&["atom", "add", "The login route"]);
    assert_eq!(added.exit, 0, "{}", added.err);
    assert_eq!(codes(&project, &["lint"]), (1, vec!["no_check".to_owned()]));
    let (exit, object) = project.json(&["gate"]);
    let named = object["findings"][0]["message"].as_str().unwrap_or_default();
    assert!(exit == 0 && named.starts_with("`A2` has no check"), "{object}");
    for words in [["--check", "make route"], ["--no-check", "a document"], ["--run", "make docs"]] {
        let added = project.aot(&["atom", "add", "Another", words[0], words[1]]);
        assert_eq!(added.exit, 0, "{}", added.err);
    }
    let (_, object) = project.json(&["lint"]);
    assert_eq!(object["findings"][0]["message"].as_str(), Some(named), "{object}");
}

#[test]
fn an_empty_base_case_is_named() {
    let project = Project::with("    checklist: [{item: Nothing, group: []}]");
    assert_eq!(codes(&project, &["lint"]), (1, vec!["empty Nothing".to_owned()]));
}

#[test]
fn a_gate_that_is_open_tells_what_the_linter_sees_without_running_anything() {
    let project = Project::with("    {type: command, value: \"touch made; no-such-tool\"}");
    let (exit, object) = project.json(&["gate"]);
    assert_eq!((exit, &object["ready"]), (0, &json!(true)));
    assert_eq!(object["findings"][0]["code"], "missing_program", "{object}");
    assert!(!project.path("made").exists());
}

/// Told before anything is spent on it: by the alignment's trial, by the linter, at the gate, and by the first look.
#[test]
fn a_check_that_uses_up_its_time_before_any_work_is_named() {
    let project = Project::with("    {type: command, value: \"true\"}");
    std::fs::remove_file(project.path(".claude/aot-loop-state.md")).expect("it is there");
    let slow = "sleep 30";
    let aligned = [
        "align",
        "Log in",
        "--yes",
        "--check",
        slow,
        "--check-timeout",
        "1s",
        "--intent",
        "w",
        "--deliverable",
        "d",
        "--done",
        "it is",
        "--atom",
        r#"{"description": "The work", "run": "true"}"#,
    ];
    let (exit, object) = project.json(&aligned);
    assert_eq!(exit, 0, "{object}");
    let is_named = |object: &serde_json::Value| {
        let findings = object["findings"].as_array().expect("a list").iter();
        let named: Vec<&serde_json::Value> = findings.filter(|found| found["code"] == "times_out").collect();
        named.len() == 1 && named[0]["hint"].as_str().is_some_and(|hint| hint.contains("--check-timeout"))
    };
    assert!(is_named(&object), "{object}");
    let (exit, object) = project.json(&["gate"]);
    assert!(exit == 0 && is_named(&object), "{object}");
    let (_, object) = project.json(&["lint"]);
    assert!(is_named(&object), "{object}");
    let (exit, object) = project.json(&["verify"]);
    assert_eq!((exit, &object["checks"][0]["outcome"]), (1, &json!("fail")), "{object}");
    assert_eq!(object["checks"][0]["evidence"]["out_of_time"], true);
    let said = project.aot(&["run"]);
    assert!(said.out.contains("used up its time before any work was done"), "{}{}", said.out, said.err);
}
