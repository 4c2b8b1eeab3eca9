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
