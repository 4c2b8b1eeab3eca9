//! Verbs that change the state: what they answer, and what stands in the file afterwards.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use aot_testkit::fixtures::{COMPLETE, INITIAL_LEGACY, with_graph};
use serde_json::json;

use super::project::Project;
use crate::documents::{commands, root, said};

#[test]
fn an_atom_goes_its_way_and_the_parent_with_it() {
    let project = Project::with(COMPLETE);
    let object = project.json(&[
        "atom",
        "resolve",
        "A4",
        "--summary",
        "Tokens are made: \"JWT\" # really",
        "--artifact",
        "src/a.ts",
        "--artifact",
        "src/b c.ts",
    ]);
    assert_eq!(object["success"], json!(true));
    assert_eq!(object["resolved"], json!(["A4", "A2"]));
    let state = project.json(&["show"]);
    assert_eq!(state["bindings"]["A4"]["summary"], "Tokens are made: \"JWT\" # really");
    assert_eq!(state["bindings"]["A4"]["artifacts"], json!(["src/a.ts", "src/b c.ts"]));
    assert_eq!(state["bindings"]["A2"]["summary"], "Completed via A3, A4 resolution");
    assert_eq!(project.json(&["ready"]), json!({"atoms": ["A5"]}));
    assert_eq!(project.run(&["atom", "start", "A5"]).out, "A5 is in progress\n");
    assert!(project.text().contains("# only where there are alternatives"));
    assert!(project.text().ends_with("Please let people log in.\n"));
}

#[test]
fn failing_backtracks_and_exhaustion_stops() {
    let project = Project::with(COMPLETE);
    let object = project.json(&["atom", "fail", "A4", "--reason", "no library"]);
    assert_eq!((&object["fallout"], &object["selected"]), (&json!("switched"), &json!("A4_alt")));
    project.json(&["atom", "start", "A4_alt"]);
    let object = project.json(&["atom", "fail", "A4_alt", "--reason", "no store"]);
    assert_eq!(object["fallout"], "exhausted");
    let state = project.json(&["show"]);
    assert_eq!(state["control"]["status"], "stopped");
    assert_eq!(state["control"]["stop_reason"], "OR group exhausted: token_method");
    assert_eq!(state["or_groups"]["token_method"]["failed"], json!(["A4", "A4_alt"]));
    assert_eq!(state["trail"][1]["selected"], "A4_alt");
    assert_eq!(state["trail"][2]["type"], "failure");
    let object = project.json(&["or", "switch", "token_method", "A4", "--reason", "the library is back"]);
    assert_eq!(object["selected"], "A4");
}

#[test]
fn atoms_and_choices_come_and_go() {
    let project = Project::with(INITIAL_LEGACY);
    assert_eq!(
        project.json(&[
            "atom",
            "add",
            "Second",
            "--depends-on",
            "A1",
            "--check",
            "make check",
            "--run",
            "make"
        ])["id"],
        "A2"
    );
    assert_eq!(project.json(&["atom", "add", "Other first", "--id", "first_alt"])["id"], "first_alt");
    assert_eq!(project.json(&["or", "add", "way", "--choices", "A1,first_alt"])["selected"], "A1");
    assert_eq!(project.json(&["atom", "add", "Third way", "--or-group", "way"])["id"], "A3");
    let state = project.json(&["show"]);
    assert_eq!(state["or_groups"]["way"]["choices"], json!(["A1", "first_alt", "A3"]));
    assert_eq!(state["atoms"][1]["check"], json!({"type": "command", "value": "make check"}));
    assert_eq!(project.json(&["atom", "remove", "A3"])["removed"], "A3");
    project.refused(&["atom", "remove", "A1"], 1, "needed");
    let object = project.json(&[
        "atom",
        "decompose",
        "A2",
        "--child",
        "Left",
        "--child",
        "Right",
        "--reason",
        "two halves",
    ]);
    assert_eq!(object["children"], json!(["A3", "A4"]));
    let state = project.json(&["show"]);
    assert_eq!(
        state["decompositions"][0],
        json!({"parent": "A2", "children": ["A3", "A4"], "reason": "two halves"})
    );
    assert_eq!(state["atoms"][3]["depends_on"], json!(["A1"]));
    assert_eq!(project.run(&["validate"]).code, 0);
}

#[test]
fn children_come_from_a_json_list() {
    let project = Project::with(INITIAL_LEGACY);
    let mut child = project
        .command(&["atom", "decompose", "A1", "--from", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let list = r#"[{"description": "Left", "id": "L"},
        {"description": "Right", "id": "R", "depends_on": ["L"], "check": {"type": "command", "value": "true"}}]"#;
    child.stdin.take().expect("piped").write_all(list.as_bytes()).expect("it reads");
    assert!(child.wait_with_output().expect("it ends").status.success());
    let state = project.json(&["show"]);
    assert_eq!(state["atoms"][2]["depends_on"], json!(["L"]));
    let file = project.root().join("children.json");
    for bad in ["[{\"describtion\": \"x\"}]", "{}", "[", "[{\"description\": 3}]"] {
        std::fs::write(&file, bad).expect("a file can be written");
        project.refused(&["atom", "decompose", "L", "--from", "children.json"], 2, "input");
    }
    project.refused(&["atom", "decompose", "L", "--from", "nowhere.json"], 2, "input");
}

#[test]
fn every_illegal_transition_is_refused_and_the_file_stays() {
    let project = Project::with(COMPLETE);
    project.refused(&["atom", "start", "A1"], 1, "wrong_status");
    project.refused(&["atom", "start", "A9"], 1, "unknown_atom");
    project.refused(&["atom", "start", "A2"], 1, "decomposed");
    project.refused(&["atom", "start", "A5"], 1, "waiting");
    project.refused(&["atom", "resolve", "A5", "--summary", "s"], 1, "waiting");
    project.refused(&["atom", "resolve", "A4", "--summary", " "], 2, "input");
    project.refused(&["atom", "fail", "A4", "--reason", ""], 2, "input");
    project.refused(&["or", "switch", "token_method", "A4_alt", "--reason", " "], 2, "input");
    project.refused(&["atom", "decompose", "A5", "--child", "x", "--reason", ""], 2, "input");
    project.refused(&["or", "add", "", "--choices", "A1"], 1, "bad_id");
    project.refused(&["or", "add", "g", "--choices", "A1,A1"], 1, "given_twice");
    project.refused(&["atom", "fail", "A5", "--reason", "r"], 1, "wrong_status");
    project.refused(&["atom", "add", "d", "--depends-on", "A9"], 1, "unknown_atom");
    project.refused(&["atom", "add", "d", "--id", "A1"], 1, "id_taken");
    project.refused(&["atom", "decompose", "A1", "--child", "x"], 1, "wrong_status");
    project.refused(&["atom", "remove", "A3"], 1, "wrong_status");
    project.refused(&["or", "switch", "nothing", "A4", "--reason", "r"], 1, "unknown_group");
    project.refused(&["or", "switch", "token_method", "A5", "--reason", "r"], 1, "not_a_choice");
    project.refused(&["or", "add", "g", "--choices", "A4"], 1, "in_group");
    let ring = Project::with(&with_graph(
        "atoms:\n- {id: A, description: d, status: pending, depends_on: []}\n\
         - {id: B, description: d, status: pending, depends_on: [A]}\n",
    ));
    std::fs::write(ring.root().join("c.json"), r#"[{"description": "x", "id": "X", "depends_on": ["B"]}]"#)
        .expect("a file can be written");
    ring.refused(&["atom", "decompose", "A", "--from", "c.json"], 1, "cycle");
}

#[test]
fn the_demo_runs_to_its_end_and_leaves_nothing() {
    let project = Project::empty();
    let temporary = project.root().join("tmp");
    std::fs::create_dir(&temporary).expect("a folder can be made");
    let output = project.command(&["demo"]).env("TMPDIR", &temporary).output().expect("it can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for happened in
        ["sorting switches to A6", "A8 was the first of the race to pass", "A2    A3 and A4 finished"]
    {
        assert!(said.contains(happened), "{said}");
    }
    assert_eq!(std::fs::read_dir(&temporary).expect("it is there").count(), 0);
}

/// The picture in the README shows what the program says, but for times, commits, and the order of what is done side by side.
#[test]
fn the_readmes_picture_is_true() {
    let picture = fs::read_to_string(root().join("docs/img/demo.svg")).expect("a picture");
    let rows = picture.lines().filter(|line| line.starts_with("<text"));
    let shown: Vec<String> = rows.map(|row| timeless(&text_of(row))).collect();
    assert!(shown.len() > 20 && shown[0] == "$ aot run", "{shown:#?}");
    let project = Project::empty();
    let output = project.command(&["demo"]).env("LC_ALL", "C.UTF-8").output().expect("it can be started");
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    let said: Vec<String> = said.lines().map(timeless).collect();
    // The cage, the words of the shell, what is seen between two atoms and when iterations close depend on the machine.
    let varies = |line: &str| {
        ["work ", "iteration ", "○ checks", "✗ A5", "7 of 7"].iter().any(|part| line.starts_with(part))
    };
    for line in shown.iter().filter(|line| !varies(line)) {
        assert!(
            said.contains(line),
            "the demo does not say `{line}`; draw it anew: docs/img/demo.py. {said:#?}"
        );
    }
}

/// A row of the picture as a terminal shows it.
fn text_of(row: &str) -> String {
    let mut text = String::new();
    let mut rest = row;
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(before);
        rest = after.split_once('>').map_or("", |(_, after)| after);
    }
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#x27;", "'"), ("&amp;", "&")]
        .iter()
        .fold(text, |text, (entity, letter)| text.replace(entity, letter))
}

#[test]
fn every_command_of_the_readme_works() {
    let readme = fs::read_to_string(root().join("README.md")).expect("the README");
    let home = tempfile::tempdir().expect("a folder");
    let said = said(&commands(&readme), home.path(), home.path());
    for expected in [
        "the end: not because somebody says so",
        "In the ",
        "the check is red now",
        "installed for this user",
    ] {
        assert!(said.contains(expected), "`{expected}` is missing:\n{said}");
    }
    assert_eq!(said.matches("\nDONE  ").count(), 2, "the demo, and the project:\n{said}");
    // Verbs in tables, text and blocks that need an agent exist, with the flags that they are shown with.
    let quoted = readme.split('`').skip(1).step_by(2).filter(|quoted| quoted.starts_with("aot "));
    let typed =
        readme.lines().filter_map(|line| line.strip_prefix("$ ")).filter(|line| line.starts_with("aot "));
    for quoted in quoted.chain(typed) {
        let words = quoted.split(" # ").next().unwrap_or_default();
        let words: Vec<&str> = words.split_whitespace().skip(1).collect();
        let project = Project::empty();
        let help = project.run(&[words[0], "--help"]);
        assert_eq!(help.code, 0, "{quoted}");
        for flag in words.iter().filter(|word| word.starts_with("--")) {
            assert!(help.out.contains(flag), "{quoted}: no {flag}");
        }
    }
}

/// A line without its moment, without how long something took, without the name of a commit.
fn timeless(line: &str) -> String {
    let words = line.split(' ').filter(|word| {
        let word = word.trim_matches(['(', ')', ',', '[', ']']);
        let is_time = word.strip_suffix('s').is_some_and(|number| number.parse::<f64>().is_ok());
        let is_commit = word.len() == 7 && word.chars().all(|c| c.is_ascii_hexdigit());
        !is_time && !is_commit && !word.is_empty()
    });
    words.collect::<Vec<_>>().join(" ")
}
