//! Nobody marks their own work: what was agreed on is compared (D21).

use aot_core::contract::Document;
use aot_core::contract::{Limits, Reading};
use aot_runner::checks::seal::Seal;
use serde_json::json;

use super::kit::{Project, USER_DATA, in_time, make_fifo};

const BASE_CASE: &str = "    {type: command, value: \"sh tests/run.sh\"}";

fn seal(project: &Project) -> Seal {
    let text = project.read(".claude/aot-loop-state.md").into_bytes();
    let document = Document::from_bytes(text, &Limits::default()).expect("YAML");
    let state = Reading::of(document).state.expect("a state");
    Seal::of(&state.objective, &project.root()).expect("files can be read")
}

/// A project whose alignment was sealed.
fn sealed() -> Project {
    let project = Project::with(BASE_CASE);
    project.write("tests/run.sh", "true");
    project.write("tests/more/x.sh", "true");
    project.write("src/x", "true");
    project.state(BASE_CASE, "[\"tests/**\"]", "");
    let seal = seal(&project);
    let paths = aot_runner::tree::Project {
        root: project.root(),
        state: project.path(".claude/aot-loop-state.md"),
        sidecar: project.path(".claude/aot"),
        cache: None,
        repository: aot_runner::tree::ProjectRepository::Searched,
    };
    aot_runner::machine::keep_in(std::path::Path::new(USER_DATA).join("aot"));
    seal.keep(&paths).expect("it can be kept");
    project.state(BASE_CASE, "[\"tests/**\"]", &line(&seal));
    project
}

fn line(seal: &Seal) -> String {
    format!("  fingerprint: {{base_case: \"{}\", protected: \"{}\"}}", seal.base_case, seal.protected)
}

fn changed(project: &Project) -> (i32, Vec<String>) {
    let (exit, object) = project.json(&["verify"]);
    let list = object["error"]["changed"].as_array().cloned().unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    (
        exit,
        list.iter().map(|altered| format!("{} {}", text(&altered["what"]), text(&altered["how"]))).collect(),
    )
}

#[test]
fn what_was_agreed_on_may_not_change() {
    let project = sealed();
    assert_eq!(changed(&project), (0, vec![]));
    project.write("src/x", "other");
    assert_eq!(changed(&project), (0, vec![]));
    project.write("tests/run.sh", "exit 0");
    assert_eq!(changed(&project), (16, vec!["tests/run.sh was changed".into()]));
    let said = project.aot(&["verify"]);
    assert!(
        said.err.contains("tests/run.sh was changed (20") && said.err.contains("aot redirect --accept"),
        "{}",
        said.err
    );
    project.write("tests/run.sh", "true");
    assert_eq!(changed(&project), (0, vec![]));
    project.write("tests/new.sh", "");
    std::fs::remove_file(project.path("tests/more/x.sh")).expect("it is there");
    assert_eq!(changed(&project), (16, vec!["tests/new.sh is new".into(), "tests/more/x.sh is gone".into()]));
    std::fs::remove_dir_all(project.path(".claude/aot")).expect("it is there");
    let (exit, told) = changed(&project);
    assert_eq!((exit, told.len()), (16, 1), "{told:?}");
}

#[test]
fn the_base_case_and_the_list_of_what_is_protected_may_not_change_either() {
    let project = sealed();
    let state = project.read(".claude/aot-loop-state.md");
    project.write(".claude/aot-loop-state.md", &state.replace("sh tests/run.sh", "true"));
    assert_eq!(changed(&project), (16, vec!["the check was changed".into()]));
    project.write(".claude/aot-loop-state.md", &state.replace("[\"tests/**\"]", "[]"));
    assert_eq!(changed(&project).0, 16);
    // Another spelling of the same is the same.
    let spelt = state.replace(BASE_CASE, "    type: command\n    value: 'sh tests/run.sh'   # by hand");
    assert_ne!(spelt, state);
    project.write(".claude/aot-loop-state.md", &spelt);
    assert_eq!(changed(&project), (0, vec![]));
    // Nobody confirms on a base case that was changed.
    project.write(".claude/aot-loop-state.md", &state.replace(BASE_CASE, "    {type: assertion, value: x}"));
    assert_eq!(project.json(&["confirm", "x"]).1["error"]["code"], json!("tampered"));
}

/// Nothing waits for a pipe that nobody writes to: not the seal, not the tree, not the scope of a judge.
#[test]
fn pipes_are_not_opened() {
    let project =
        Project::with("    {type: quality, criteria: Short, pass_threshold: 3, scope: \"tests/**\"}");
    project.write("aot.toml", "[judge]\ncommand = 'false'\n");
    project.write("tests/a", "");
    make_fifo(&project.path("tests/pipe"));
    project.state("    {type: quality, criteria: Short, pass_threshold: 3}", "[\"tests/**\"]", "");
    let sealed = seal(&project);
    project.state(
        "    {type: quality, criteria: Short, pass_threshold: 3}",
        "[\"tests/**\"]",
        &line(&sealed),
    );
    let (exit, object) = in_time("a pipe", move || project.json(&["verify"]));
    assert_eq!(exit, 17, "{object}");
}

#[test]
fn looking_writes_no_fingerprint() {
    let project = Project::with("    {type: command, value: \"true\"}");
    let before = project.read(".claude/aot-loop-state.md");
    assert_eq!(project.aot(&["verify"]).exit, 0);
    assert_eq!(project.read(".claude/aot-loop-state.md"), before);
}

#[test]
fn a_person_who_meant_it_accepts_what_was_changed() {
    let project = sealed();
    project.write("tests/run.sh", "exit 0");
    assert_eq!(changed(&project).0, 16);
    let (exit, object) = project.json(&["redirect", "--accept"]);
    assert_eq!((exit, &object["success"]), (0, &json!(true)), "{object}");
    assert_eq!(changed(&project), (0, vec![]));
    let state = project.json(&["show"]).1;
    assert_eq!(state["corrections"][0]["type"], json!("constraint_change"));
    assert_eq!(state["corrections"][0]["trail_cleared"], json!(false));
    // Without anything to accept nothing is asked of the user but words.
    assert_eq!(project.json(&["redirect"]).0, 2);
}

/// What is written stands, so that nobody is told that nothing was changed.
#[test]
fn an_agreement_stands_although_the_list_of_files_cannot_be_kept() {
    let project = sealed();
    let list = project.path(".claude/aot/protected.json");
    std::fs::remove_file(&list).expect("it was kept");
    std::fs::create_dir(&list).expect("a folder in its place");
    project.write("tests/run.sh", "exit 0");
    let agree = |words: &[&str]| {
        let said = project.aot(words);
        assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
        assert!(
            said.err.contains("warning: the list of protected files could not be kept: "),
            "{}",
            said.err
        );
        assert!(!said.err.contains("nothing was changed"), "{}", said.err);
    };
    agree(&["redirect", "--accept"]);
    assert_eq!(changed(&project), (0, vec![]), "it was accepted");
    let words = ["--goal", "g", "--intent", "i", "--deliverable", "d", "--done", "w", "--atom", "a"];
    let protect = ["--protect", "tests/**", "--check", "sh tests/run.sh", "--no-run", "--yes", "--force"];
    agree(&[&["align"][..], &words, &protect].concat());
    project.write("tests/run.sh", "exit 1");
    assert_eq!(changed(&project).0, 16, "the new agreement is sealed");
}
