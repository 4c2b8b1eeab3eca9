//! What only a person can say.

use serde_json::json;

use super::kit::Project;

const ASSERTED: &str = r#"    checklist:
      - {item: "Tests", check: {type: command, value: "true"}}
      - {item: "The page looks right", check: {type: assertion, value: "It looks right on a phone"}}"#;

#[test]
fn an_assertion_waits_for_a_person_and_for_each_new_tree_again() {
    let project = Project::in_git(ASSERTED);
    project.write("page.html", "one");
    let verdict = || {
        let (exit, object) = project.json(&["verify"]);
        (exit, object["verdict"].as_str().unwrap_or_default().to_owned(), object["to_confirm"].clone())
    };
    let waits = (17, "pending".to_owned(), json!(["The page looks right"]));
    assert_eq!(verdict(), waits);
    assert!(project.aot(&["verify"]).out.ends_with("Next: aot confirm \"The page looks right\"\n"));
    let (exit, object) = project.json(&["confirm", "The page looks right"]);
    assert_eq!((exit, &object["success"], &object["by"]), (0, &json!(true), &json!("Ada")), "{object}");
    let state = project.read(".claude/aot-loop-state.md");
    assert!(state.contains("confirmed:") && state.contains("by: Ada") && state.contains("at: "), "{state}");
    assert_eq!(verdict(), (0, "passed".into(), json!([])));
    // Our own files do not count as the tree.
    assert_eq!(project.aot(&["atom", "start", "A1"]).exit, 0);
    assert_eq!(verdict(), (0, "passed".into(), json!([])));
    project.write("page.html", "two");
    assert_eq!(verdict(), waits);
    let (_, object) = project.json(&["verify"]);
    let why = object["checks"][1]["evidence"]["why"].as_str().unwrap_or_default().to_owned();
    assert!(why.starts_with("the files have changed since Ada answered at 20"), "{why}");
    // No is an answer, too, and it may be taken back.
    assert_eq!(project.aot(&["confirm", "the page", "--no", "--by", "Grace"]).exit, 0);
    assert_eq!(verdict(), (1, "failed".into(), json!([])));
    assert!(project.aot(&["verify"]).out.contains("denied by Grace at 20"));
    assert_eq!(project.aot(&["confirm", "The page looks right"]).exit, 0);
    assert_eq!(verdict(), (0, "passed".into(), json!([])));
    assert_eq!(project.aot(&["validate"]).exit, 0);
}

#[test]
fn what_cannot_be_confirmed_is_refused() {
    let project = Project::with(ASSERTED);
    let before = project.read(".claude/aot-loop-state.md");
    for (item, problem) in [
        ("Tests", "is no assertion; the program looks for itself"),
        ("Nonsense", "is no assertion of this state file"),
    ] {
        let said = project.aot(&["confirm", item]);
        assert_eq!(said.exit, 1);
        assert!(said.err.contains(problem) && said.err.contains("\"The page looks right\""), "{}", said.err);
    }
    assert_eq!(project.aot(&["confirm"]).exit, 2);
    assert_eq!(project.read(".claude/aot-loop-state.md"), before);
    let plain = Project::with("    {type: command, value: \"true\"}");
    assert!(plain.aot(&["confirm", "x"]).err.contains("there is no `assertion`"));
}

#[test]
fn names_that_are_used_twice_are_told_apart() {
    let project = Project::with(
        r#"    checklist:
      - {item: Phone, group: [{item: Looks right, check: {type: assertion, value: a}}]}
      - {item: Desk, group: [{item: Looks right, check: {type: assertion, value: b}}]}"#,
    );
    assert_eq!(project.aot(&["confirm", "Looks right"]).exit, 1);
    assert_eq!(project.aot(&["confirm", "Phone / Looks right"]).exit, 0);
    let (exit, object) = project.json(&["verify"]);
    assert_eq!((exit, &object["to_confirm"]), (17, &json!(["Desk / Looks right"])));
}

#[test]
fn an_alternative_that_passed_needs_no_person() {
    let project = Project::with(
        r#"    checklist:
      - item: One of
        any_of:
          - {item: Seen, check: {type: assertion, value: a}}
          - {item: Measured, check: {type: command, value: "true"}}"#,
    );
    let (exit, object) = project.json(&["verify"]);
    assert_eq!((exit, &object["to_confirm"]), (0, &json!([])), "{object}");
}

#[test]
fn what_aot_started_is_no_person() {
    let other = Project::with(ASSERTED);
    let state = other.path(".claude/aot-loop-state.md");
    let confirm = format!("{} --state {} confirm 'The page'", env!("CARGO_BIN_EXE_aot"), state.display());
    let project = Project::with(&format!("    {{type: command, value: {confirm:?}}}"));
    let (exit, object) = project.json(&["verify"]);
    assert_eq!(exit, 1);
    let said = object["checks"][0]["evidence"]["output"]["head"].as_str().unwrap_or_default();
    assert!(said.contains("may look, but not write the state"), "{said}");
    assert!(!other.read(".claude/aot-loop-state.md").contains("confirmed"));
}
