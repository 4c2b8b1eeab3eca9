//! An atom with a check of its own is resolved only when the program saw it pass (D22).

use serde_json::json;

use super::kit::Project;

#[test]
fn the_check_decides() {
    let project = Project::with("    {type: command, value: \"true\"}");
    assert_eq!(project.aot(&["atom", "add", "Write it", "--check", "echo looking; test -e it"]).exit, 0);
    let resolve = ["atom", "resolve", "A2", "--summary", "Written"];
    // What is refused in any case is refused before anything is run.
    let (exit, object) = project.json(&resolve);
    assert_eq!((exit, &object["error"]["code"]), (1, &json!("wrong_status")), "{object}");
    assert_eq!(project.aot(&["atom", "start", "A2"]).exit, 0);
    let before = project.read(".claude/aot-loop-state.md");
    let (exit, object) = project.json(&resolve);
    assert_eq!((exit, &object["error"]["code"]), (1, &json!("check_failed")), "{object}");
    assert_eq!(object["error"]["evidence"]["checks"][0]["evidence"]["output"]["head"], "looking\n");
    let said = project.aot(&resolve);
    assert!(
        said.err.contains("| looking") && said.err.contains("so the atom is not resolved"),
        "{}",
        said.err
    );
    assert_eq!(project.read(".claude/aot-loop-state.md"), before);
    project.write("it", "");
    let (exit, object) = project.json(&resolve);
    assert_eq!((exit, &object["status"]), (0, &json!("resolved")), "{object}");
}

#[test]
fn an_assertion_of_an_atom_can_be_confirmed() {
    let project = Project::with("    {type: command, value: \"true\"}");
    let state = project.read(".claude/aot-loop-state.md");
    let with =
        state.replace("depends_on: []}", "depends_on: [], check: {type: assertion, value: \"It is so\"}}");
    project.write(".claude/aot-loop-state.md", &with);
    assert_eq!(project.aot(&["atom", "start", "A1"]).exit, 0);
    let resolve = ["atom", "resolve", "A1", "--summary", "Done"];
    let said = project.aot(&resolve);
    assert_eq!(said.exit, 1);
    assert!(said.err.contains("aot confirm \"A1: It is so\""), "{}", said.err);
    assert_eq!(project.aot(&["confirm", "A1: It is so"]).exit, 0);
    assert_eq!(project.aot(&resolve).exit, 0);
}

#[test]
fn a_parent_is_resolved_with_its_last_child_if_its_own_check_passes() {
    let project = Project::with("    {type: command, value: \"true\"}");
    assert_eq!(project.aot(&["atom", "add", "All of it", "--check", "test -e whole"]).exit, 0);
    assert_eq!(project.aot(&["atom", "decompose", "A2", "--child", "One", "--child", "Two"]).exit, 0);
    let resolve = |id: &str| {
        assert_eq!(project.aot(&["atom", "start", id]).exit, 0);
        project.json(&["atom", "resolve", id, "--summary", "Done"])
    };
    assert_eq!(resolve("A3").1["resolved"], json!(["A3"]));
    let (exit, object) = resolve("A4");
    assert_eq!((exit, &object["resolved"]), (0, &json!(["A4"])), "{object}");
    assert_eq!(object["waits"], json!({"atom": "A2", "verdict": "failed"}));
    // The parent itself can be asked for later, and is refused for as long as its check is red.
    let parent = ["atom", "resolve", "A2", "--summary", "Whole"];
    assert_eq!(project.json(&parent).1["error"]["code"], json!("check_failed"));
    project.write("whole", "");
    let (exit, object) = project.json(&parent);
    assert_eq!((exit, &object["resolved"]), (0, &json!(["A2"])), "{object}");
    let (_, state) = project.json(&["show"]);
    assert_eq!(state["bindings"]["A2"]["summary"], "Completed via A3, A4 resolution");
}
