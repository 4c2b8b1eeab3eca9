//! Verbs that only ask: validate, gate, show, ready, schema; and how every verb answers trouble.

use std::fs;

use aot_testkit::fixtures::{COMPLETE, INITIAL_CHECKLIST, INITIAL_LEGACY};
use serde_json::{Value, json};

use super::project::Project;
use crate::schemas::check;

#[test]
fn validate_lists_every_mistake_with_its_place() {
    let project = Project::with(
        &COMPLETE.replace("[A3, A4]  ", "[A3, A9]  ").replace("max_iterations: 20", "max_iterations: -4"),
    );
    let ran = project.run(&["validate", "--json"]);
    assert_eq!(ran.code, 1);
    let object = ran.object();
    assert_eq!(object["valid"], json!(false));
    let places: Vec<(&str, u64, u64)> = object["errors"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|e| {
            (
                e["code"].as_str().expect("a code"),
                e["line"].as_u64().expect("a line"),
                e["column"].as_u64().expect("a column"),
            )
        })
        .collect();
    assert_eq!(places, [("negative", 53, 21), ("unknown_dependency", 93, 22)]);
    assert_eq!(object["warnings"][0]["code"], "choice_without_atom");
    let plain = project.run(&["validate"]);
    insta::assert_snapshot!(plain.err.replace(&project.root().display().to_string(), "PROJECT"), @r"
    error: `max_iterations` of `constraints` is -4
      --> PROJECT/.claude/aot-loop-state.md:53:21
       |
    53 |     max_iterations: -4
       |                     ^^
       |
    hint: give at least 1

    error: atom `A5` depends on `A9`, which is not in the graph
      --> PROJECT/.claude/aot-loop-state.md:93:22
       |
    93 |     depends_on: [A3, A9]                    # both of them
       |                      ^^
       |
    hint: add `A9`, or remove it from `depends_on`

    warning: choice `A4_alt` of OR group `token_method` has no atom yet
       --> PROJECT/.claude/aot-loop-state.md:104:19
        |
    104 |     choices: [A4, A4_alt]
        |                   ^^^^^^
        |
    hint: it is made when the group goes to it
    ");
}

#[test]
fn the_gate_names_what_is_missing() {
    let aligned = Project::with(INITIAL_CHECKLIST);
    let object = aligned.json(&["gate"]);
    assert_eq!(object["ready"], json!(true));
    assert_eq!(object["missing"], json!([]));
    assert_eq!(object["status"], json!("pending"));
    // The linter has its say at the gate, and does not close it.
    assert_eq!(object["findings"][0]["code"], "inverted");
    let open = INITIAL_LEGACY
        .replace("goal: \"Ship it\"", "goal: \"\"")
        .replace("  deliverables: \"A release\"\n", "")
        .replace("    type: command\n    value: \"true\"\n", "    checklist: []\n");
    let project = Project::with(&open);
    let ran = project.run(&["gate", "--json"]);
    assert_eq!(ran.code, 3);
    let object = ran.object();
    assert_eq!((&object["ready"], &object["status"]), (&json!(false), &json!("pending")));
    assert_eq!(object["missing"], json!(["objective.goal", "objective.base_case", "objective.deliverables"]));
    // The file says it, not its body.
    let in_body = INITIAL_LEGACY.replace("  goal: \"Ship it\"\n", "") + "\nobjective:\n  goal: \"Ship it\"\n";
    let project = Project::with(&in_body);
    assert_eq!(project.run(&["gate"]).code, 3);
    let nothing = Project::empty();
    assert_eq!(nothing.run(&["gate", "--json"]).code, 3);
    assert_eq!(nothing.run(&["gate", "--state", "nowhere.md"]).code, 3);
    let hollow = COMPLETE
        .replace("    or_group: token_method  ", "    check: {checklist: []}\n    or_group: token_method  ");
    let ran = Project::with(&hollow).run(&["gate", "--json"]);
    assert_eq!((ran.code, &ran.object()["missing"]), (3, &json!(["atoms.A4.check"])));
}

#[test]
fn show_holds_everything_that_stands_in_the_file() {
    let text = COMPLETE.replace("  goal:", "  clarifications: [{q: who, a: people}]\n  goal:");
    let project = Project::with(&text);
    let object = project.json(&["show"]);
    assert_eq!(object["objective"]["clarifications"][0]["a"], "people");
    assert_eq!(object["atoms"][4]["depends_on"], json!(["A3", "A4"]));
    assert_eq!(
        object["objective"]["base_case"]["checklist"][2]["check"]["rubric"][0]["levels"]["1"],
        "A riddle"
    );
    assert_eq!(object["body"], "\n# Original Prompt\n\nPlease let people log in.\n");
    let keys: Vec<&str> =
        ["objective", "control", "atoms", "decompositions", "or_groups", "bindings", "trail", "corrections"]
            .into();
    assert!(keys.iter().all(|key| !object[*key].is_null()));
    // Defaults that were taken are there too.
    let bare = Project::with(
        &COMPLETE.replace("    max_stall_count: 3\n", "").replace("    failed: [] ", "    note: x # "),
    );
    let object = bare.json(&["show"]);
    assert_eq!(object["objective"]["constraints"]["max_stall_count"], json!(3));
    assert_eq!(object["or_groups"]["token_method"]["failed"], json!([]));
    insta::assert_snapshot!(bare.run(&["show"]).out, @r"
    goal     Let people log in
    loop     running, iteration 5 of 20, stalled 0 of 3

      A1  resolved  The user model
      A2  pending   The login logic  = A3 + A4  <- A1
      A3  resolved  Hashing of passwords  <- A1
      A4  running   Making of tokens  <- A1
      A5  pending   The login route  <- A3, A4

      token_method: A4 (selected) | A4_alt
    ");
}

#[test]
fn ready_follows_the_longest_remaining_path() {
    let graph = "atoms:\n\
        - {id: A, description: a, status: pending, depends_on: []}\n\
        - {id: B, description: b, status: pending, depends_on: []}\n\
        - {id: C, description: c, status: pending, depends_on: [B]}\n\
        - {id: D, description: d, status: pending, depends_on: [C]}\n\
        - {id: E, description: e, status: pending, depends_on: [A]}\n";
    let project = Project::with(&aot_testkit::fixtures::with_graph(graph));
    assert_eq!(project.json(&["ready"]), json!({"atoms": ["B", "A"]}));
    assert_eq!(project.run(&["ready"]).out, "B        b\nA        a\n");
    // Warm or cold, the answer is the same.
    fs::remove_dir_all(project.root().join(".claude/aot")).expect("the sidecar folder is there");
    assert_eq!(project.json(&["ready"]), json!({"atoms": ["B", "A"]}));
}

#[test]
fn a_harmed_cache_changes_nothing() {
    let project = Project::with(COMPLETE);
    let fresh: Vec<Value> = ["show", "ready", "validate", "gate"].map(|verb| project.json(&[verb])).into();
    let cache = project.root().join(".claude/aot/cache");
    let kept = fs::read(&cache).expect("something was kept");
    for harm in 0..kept.len().min(400) {
        let mut harmed = kept.clone();
        let place = harm * kept.len() / 400;
        harmed[place] ^= 0x55;
        fs::write(&cache, &harmed).expect("it can be harmed");
        if harm % 50 == 0 {
            let answers: Vec<Value> =
                ["show", "ready", "validate", "gate"].map(|verb| project.json(&[verb])).into();
            assert_eq!(answers, fresh, "byte {place} was harmed");
        }
    }
    fs::write(&cache, &kept[..kept.len() / 2]).expect("it can be cut");
    assert_eq!(project.json(&["ready"]), fresh[1]);
    fs::remove_file(&cache).expect("it can be removed");
    fs::create_dir(&cache).expect("a folder can stand in its place");
    assert_eq!(project.json(&["ready"]), fresh[1]);
}

#[test]
fn the_file_is_found_from_any_subfolder_and_the_hosts_project_comes_first() {
    let project = Project::with(INITIAL_LEGACY);
    let deep = project.root().join("src/deep/er");
    fs::create_dir_all(&deep).expect("folders can be made");
    let asked = |command: &mut std::process::Command| {
        let output = command.output().expect("it can be started");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let from_deep = asked(project.command(&["ready", "--json"]).current_dir(&deep));
    assert_eq!(from_deep, (Some(0), "{\"atoms\":[\"A1\"]}\n".into()));
    let other = Project::with(&INITIAL_LEGACY.replace("A1", "B1"));
    let hosted = asked(project.command(&["ready", "--json"]).env("CLAUDE_PROJECT_DIR", other.root()));
    assert_eq!(hosted, (Some(0), "{\"atoms\":[\"B1\"]}\n".into()));
    let elsewhere = Project::empty();
    let state = other.state();
    let named = elsewhere.json(&["--state", state.to_str().expect("UTF-8"), "ready"]);
    assert_eq!(named, json!({"atoms": ["B1"]}));
    let lost = elsewhere.run(&["ready"]);
    assert_eq!(lost.code, 4);
    assert!(lost.err.contains("hint: "), "{}", lost.err);
}

#[test]
fn hostile_input_is_an_error_with_its_place_and_the_file_stays() {
    let deep = format!("---\na: {}{}\n---\n", "[".repeat(50_000), "]".repeat(50_000));
    let bomb = "---\na: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n---\n";
    for text in [
        "",
        "---\n",
        "---\n---\n",
        "---\nobjective: [\n---\n",
        "\u{feff}",
        deep.as_str(),
        bomb,
        "---\n\u{0}\n---\n",
    ] {
        let project = Project::with(text);
        for verb in [
            &["validate"][..],
            &["show"],
            &["status"],
            &["graph"],
            &["ready"],
            &["gate"],
            &["atom", "start", "A1"],
        ] {
            let ran = project.run(verb);
            let wanted = if verb == ["validate"] { 1 } else { 4 };
            assert_eq!(ran.code, wanted, "{verb:?} on {text:.20?}: {}", ran.err);
            assert!(!ran.err.contains("panicked"), "{}", ran.err);
            assert!(
                ran.err.contains("aot-loop-state.md:"),
                "{verb:?} on {text:.20?} tells no place: {}",
                ran.err
            );
            assert_eq!(project.text(), text);
        }
    }
    let project = Project::with("");
    fs::write(project.state(), b"---\ngoal: \xff\xfe\n---\n").expect("bytes can be written");
    let ran = project.run(&["validate", "--json"]);
    assert_eq!((ran.code, ran.object()["errors"][0]["code"].as_str()), (1, Some("not_utf8")));
}

#[test]
fn wrong_words_are_a_usage_error() {
    let project = Project::with(INITIAL_LEGACY);
    for words in [&["atom", "start"][..], &["atm"], &["or", "switch", "G"], &["show", "--jsn"]] {
        let ran = project.run(words);
        assert_eq!(ran.code, 2, "{words:?}");
        assert!(ran.out.is_empty() && ran.err.starts_with("error: "), "{words:?}: {}", ran.err);
        let ran = project.run(&[words, &["--json"]].concat());
        assert_eq!((ran.code, ran.object()["error"]["code"].as_str()), (2, Some("usage")), "{words:?}");
        assert_eq!(ran.err, "", "{words:?}");
    }
    let ran = project.run(&["atom", "start", "--json"]);
    assert_eq!(ran.object()["error"]["message"], "the following required arguments were not provided: <ID>");
    assert_eq!(project.run(&["--help"]).code, 0);
}

#[test]
fn the_schema_describes_the_contracts_own_examples() {
    let schema = serde_json::from_str::<Value>(&Project::empty().run(&["schema"]).out).expect("JSON");
    for text in [COMPLETE, INITIAL_LEGACY, INITIAL_CHECKLIST] {
        let mut state = Project::with(text).json(&["show"]);
        state.as_object_mut().expect("an object").remove("body");
        assert_eq!(check(&state, &schema, &schema), Ok(()));
        let selection = json!([{"or_group": "g", "reason": "r", "timestamp": "2026-01-15T10:00:00Z"}]);
        for (section, wrong) in [
            ("atoms", json!([])),
            ("control", json!({"iteration": "five"})),
            ("bindings", json!(3)),
            ("trail", selection),
        ] {
            let mut spoilt = state.clone();
            spoilt[section] = wrong;
            assert!(check(&spoilt, &schema, &schema).is_err(), "{section} is wrong");
        }
        let mut spoilt = state.clone();
        spoilt["objective"]["base_case"] = json!({"checklist": [{"item": "no check"}]});
        assert!(check(&spoilt, &schema, &schema).is_err(), "an item checks something");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_trouble() {
    let project = Project::with(&aot_testkit::fixtures::of_size(2_000));
    let mut child = project
        .command(&["show"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it can be started");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}
