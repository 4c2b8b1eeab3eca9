//! What `aot verify` shows, and what it answers.

use std::path::Path;

use serde_json::json;

use super::kit::{Project, USER_DATA, settled};

const GREEN: &str = r#"    checklist:
      - item: "It works"
        group:
          - {item: "Unit tests", check: {type: command, value: "echo fine"}}
          - {item: "No debris", check: {type: not_file, value: "**/*.orig"}}
      - item: "It is packaged"
        any_of:
          - {item: "As a bundle", check: {type: file, value: "dist/*.js"}}
          - {item: "As source", check: {type: file, value: "exists: ./src"}}
          - {item: "As a wheel", check: {type: file, value: "*.whl"}}
      - {item: "No TODO is left", check: {type: not_command, value: "grep -rq TODO src"}}"#;

const RED: &str = r#"    checklist:
      - item: "It works"
        group:
          - {item: "Unit tests", check: {type: command, value: "echo fine"}}
          - {item: "Login tests", check: {type: command, value: "i=0; while [ $i -lt 20 ]; do i=$((i+1)); echo \"test $i of 20\"; done; echo 'expected 200, got 404'; exit 3"}}
          - {item: "Type checker", check: {type: command, value: "no-such-tool --strict src"}}
          - {item: "Own script", check: {type: command, value: "./scripts/check.sh"}}
      - {item: "The bundle is there", check: {type: file, value: "dist/*.js"}}
      - {item: "It answers", check: {type: not_command, value: "true"}}
      - {item: "Bad pattern", check: {type: file, value: "src/["}}
      - {item: "The page looks right", check: {type: assertion, value: "The login page looks right on a phone"}}
      - {item: "It reads well", check: {type: quality, criteria: "Short functions", pass_threshold: 3}}"#;

#[test]
fn a_green_base_case() {
    let project = Project::in_git(GREEN);
    project.write("src/a.txt", "fine");
    let said = project.aot(&["verify"]);
    assert_eq!((said.exit, said.err.as_str()), (0, ""), "{}", said.out);
    insta::assert_snapshot!(settled(&said.out, &project), @r#"
    pass     It works                                                         all of
    pass       Unit tests                                                      ___ s
    pass       No debris
    pass     It is packaged                                                   one of
    no         As a bundle
                 nothing is at `dist/*.js`
    pass       As source
    skip       As a wheel
                 not needed: another alternative passed
    pass     No TODO is left                                                   ___ s

    PASSED  4 passed in ___ s
    "#);
    let again = project.aot(&["verify"]);
    insta::assert_snapshot!(settled(&again.out, &project), @r#"
    pass     It works                                                         all of
    pass       Unit tests                                                seen before
    pass       No debris
    pass     It is packaged                                                   one of
    no         As a bundle
                 nothing is at `dist/*.js`
    pass       As source
    skip       As a wheel
                 not needed: another alternative passed
    pass     No TODO is left                                             seen before

    PASSED  4 passed in ___ s
    "#);
}

#[test]
fn a_red_base_case() {
    let project = Project::in_git(RED);
    let said = project.aot(&["verify"]);
    assert_eq!((said.exit, said.err.as_str()), (1, ""), "{}", said.out);
    insta::assert_snapshot!(settled(&said.out, &project), @r#"
    FAIL     It works                                                         all of
    pass       Unit tests                                                      ___ s
    FAIL       Login tests                                                     ___ s
                 exit 3, also when run again alone
                 $ i=0; while [ $i -lt 20 ]; do i=$((i+1)); echo "test $i of 20"; d…
                 | … the last lines of 293 bytes
                 | test 16 of 20
                 | test 17 of 20
                 | test 18 of 20
                 | test 19 of 20
                 | test 20 of 20
                 | expected 200, got 404
    ERROR      Type checker                                                    ___ s
                 `no-such-tool` was not found (exit 127)
                 $ no-such-tool --strict src
                 | /bin/sh: 1: no-such-tool: not found
                 hint: install it, correct its name, or see PATH
    FAIL       Own script                                                      ___ s
                 `./scripts/check.sh` of this project was not found (exit 127), also
                 when run again alone
                 $ ./scripts/check.sh
                 | /bin/sh: 1: ./scripts/check.sh: not found
    FAIL     The bundle is there
               nothing is at `dist/*.js`
    FAIL     It answers                                                        ___ s
               exit 0, and another one is wanted
               $ true
               hint: `not_command` passes when the command runs and exits with other
               than 0
    ERROR    Bad pattern
               `src/[` cannot be looked for: unclosed character class; missing ']'
               hint: correct the pattern; it is relative to the project's root
    waits    The page looks right
               a person has to confirm it
               "The login page looks right on a phone"
               hint: look at it, then type `aot confirm "The page looks right"`
    skip     It reads well
               a judge is asked when the other checks pass

    FAILED  1 passed, 4 failed, 2 could not be run, 1 waiting in ___ s
    "#);
    let wide = said.out.lines().map(|line| line.chars().count()).max();
    assert!(wide <= Some(80), "{wide:?} columns");
}

#[test]
fn the_json_is_complete() {
    let project = Project::in_git(RED);
    let (exit, object) = project.json(&["verify"]);
    assert_eq!((exit, &object["passed"], &object["verdict"]), (1, &json!(false), &json!("failed")));
    let outcomes: Vec<String> = object["checks"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|check| {
            for key in
                ["ran", "folder", "tree", "at", "exit", "milliseconds", "runs", "why", "hint", "source"]
            {
                assert!(check["evidence"].get(key).is_some(), "{key} in {check}");
            }
            let text = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
            format!("{} {} {} {}", text("item"), text("type"), text("outcome"), check["evidence"]["exit"])
        })
        .collect();
    insta::assert_snapshot!(outcomes.join("\n"), @r#"
    Unit tests command pass 0
    Login tests command fail 3
    Type checker command error 127
    Own script command fail 127
    The bundle is there file fail null
    It answers not_command fail 0
    Bad pattern file error null
    The page looks right assertion pending null
    It reads well quality pending null
    "#);
    let evidence = &object["checks"][1]["evidence"];
    assert_eq!(evidence["folder"], json!(project.root()));
    assert_eq!(evidence["tree"], object["tree"]);
    assert!(evidence["output"]["head"].as_str().expect("a text").contains("expected 200, got 404"));
    assert_eq!(object["items"]["group"][0]["outcome"], "fail");
    // The same stands in the journal of evidence.
    let journal = project.read(".claude/aot/evidence.jsonl");
    assert!(journal.lines().count() >= 7, "{journal}");
    assert!(journal.contains("expected 200, got 404"));
}

#[test]
fn a_single_check_of_the_older_form() {
    let check = |base_case: &str, exit: i32, verdict: &str| {
        let project = Project::with(base_case);
        project.write("there.txt", "");
        let (got, object) = project.json(&["verify"]);
        assert_eq!((got, &object["verdict"]), (exit, &json!(verdict)), "{base_case}: {object}");
    };
    check("    {type: command, value: \"true\"}", 0, "passed");
    check("    {type: command, value: \"false\"}", 1, "failed");
    check("    {type: command, value: \"kill -9 $$\"}", 17, "error");
    // A crash is the program's own end, and shows that it does not work; seen by the system or by the shell.
    for signal in ["SEGV", "ABRT", "BUS", "FPE", "ILL"] {
        check(&format!("    {{type: command, value: \"kill -{signal} $$\"}}"), 1, "failed");
        let in_shell = format!("    {{type: command, value: \"sh -c 'kill -{signal} $$'; exit $?\"}}");
        check(&in_shell, 1, "failed");
        check(&format!("    {{type: not_command, value: \"kill -{signal} $$\"}}"), 1, "failed");
    }
    check("    {type: not_command, value: \"kill -9 $$\"}", 17, "error");
    check("    {type: not_command, value: \"no-such-tool\"}", 17, "error");
    check("    {type: not_command, value: \"./no-such-script\"}", 17, "error");
    check("    {type: command, value: \"./no-such-script\"}", 1, "failed");
    check("    {type: file, value: there.txt}", 0, "passed");
    check("    {type: file, exists: there.txt}", 0, "passed");
    check("    {type: file, value: \"exists: there.txt\"}", 0, "passed");
    check("    {type: file, value: \"*.txt\"}", 0, "passed");
    check("    {type: not_file, value: \"*.txt\"}", 1, "failed");
    check("    {type: assertion, value: \"It is so\"}", 17, "pending");
    check("    {type: quality, criteria: \"Short\", pass_threshold: 3}", 17, "pending");
}

#[test]
fn what_cannot_be_verified_is_refused() {
    for base_case in ["    checklist: []", "    checklist: [{item: x, group: []}]", "    {}"] {
        let project = Project::with(base_case);
        let (exit, object) = project.json(&["verify"]);
        assert_eq!((exit, &object["error"]["code"]), (3, &json!("no_base_case")), "{base_case}");
    }
    let project = Project::with("    {type: command, value: \"true\"}");
    assert_eq!(project.aot(&["verify", "--jobs", "0"]).exit, 2);
    assert_eq!(project.aot(&["verify", "--jobs", "many"]).exit, 2);
}

/// One check builds what the other looks for, written before it: green only because it is looked at again, alone.
#[test]
fn what_fails_among_others_counts_only_alone() {
    let base_case = r#"    checklist:
      - {item: uses, check: {type: command, value: "test -e built"}}
      - {item: builds, check: {type: command, value: "sleep 0.2; touch built"}}"#;
    let project = Project::with(base_case);
    let (exit, object) = project.json(&["verify"]);
    assert_eq!(exit, 0, "{object}");
    assert_eq!(object["checks"][0]["evidence"]["runs"], 2);
    assert_eq!(object["changed"], json!(["built"]));
    // One after the other, in the written order, each counts at once.
    let project = Project::with(base_case);
    let (exit, object) = project.json(&["verify", "--jobs", "1"]);
    assert_eq!((exit, &object["checks"][0]["evidence"]["runs"]), (1, &json!(1)), "{object}");
}

#[test]
fn a_pass_is_reused_on_an_identical_tree_only() {
    let runs = tempfile::NamedTempFile::new().expect("a temporary file");
    let count = || std::fs::read_to_string(runs.path()).expect("it is there").len();
    let command = format!("printf x >> {}", runs.path().display());
    let project = Project::in_git(&format!("    {{type: command, value: {command:?}}}"));
    project.write("src.txt", "one");
    // It counts outside of the project, where only what is named can be written.
    project.write("aot.toml", &format!("[cage]\nwritable = [{:?}]\n", runs.path()));
    let verify = |words: &[&str]| {
        let (exit, object) = project.json(words);
        assert_eq!(exit, 0, "{object}");
        object["checks"][0]["evidence"]["source"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!((verify(&["verify"]).as_str(), count()), ("fresh", 1));
    assert_eq!((verify(&["verify"]).as_str(), count()), ("reused", 1));
    assert_eq!((verify(&["verify", "--fresh"]).as_str(), count()), ("fresh", 2));
    project.write("src.txt", "two");
    assert_eq!((verify(&["verify"]).as_str(), count()), ("fresh", 3));
    project.write("src.txt", "one");
    assert_eq!((verify(&["verify"]).as_str(), count()), ("reused", 3));
    // A commit of the same content is the same tree.
    project.git(&["add", "src.txt"]);
    project.git(&["commit", "-qm", "x"]);
    assert_eq!((verify(&["verify"]).as_str(), count()), ("reused", 3));
    std::fs::remove_dir_all(project.path(".claude/aot")).expect("it is there");
    assert_eq!((verify(&["verify"]).as_str(), count()), ("fresh", 4));
}

#[test]
fn a_check_cannot_ask_for_itself() {
    let program = env!("CARGO_BIN_EXE_aot");
    let project = Project::with(&format!("    {{type: command, value: \"{program} verify\"}}"));
    let (exit, object) = project.json(&["verify"]);
    assert_eq!(exit, 1);
    let said = object["checks"][0]["evidence"]["output"]["head"].as_str().unwrap_or_default();
    assert!(said.contains("cannot ask for itself"), "{said}");
}

/// What is kept of the evidence has a limit.
#[test]
fn evidence_does_not_grow_for_ever() {
    let project = Project::with("    {type: command, value: \"true\"}");
    let paths = aot_runner::tree::Project {
        root: project.root(),
        state: project.path(".claude/aot-loop-state.md"),
        sidecar: project.path(".claude/aot"),
        cache: None,
        repository: aot_runner::tree::ProjectRepository::Searched,
    };
    assert_eq!(project.aot(&["verify"]).exit, 0);
    aot_runner::machine::keep_in(Path::new(USER_DATA).join("aot"));
    let kept = aot_runner::checks::kept::Kept::of(&paths);
    let mut line = kept.lines().pop().expect("one was kept");
    line.evidence.why = "x".repeat(100_000);
    for _ in 0..200 {
        kept.add(std::slice::from_ref(&line)).expect("it can be written");
    }
    let size = |name: &str| project.path(".claude/aot").join(name).metadata().map_or(0, |meta| meta.len());
    let (now, older) = (size("evidence.jsonl"), size("evidence.older.jsonl"));
    let limit = aot_runner::checks::kept::ROTATED_AT;
    assert!(now <= limit && older <= limit && older > limit / 2, "{now} and {older}");
}

/// The root is the folder above `.claude`, or the state file's own; from a folder below it is the same.
#[test]
fn checks_run_in_the_root() {
    let project = Project::in_git("    {type: command, value: \"pwd; test -e here\"}");
    project.write("here", "");
    project.write("deep/er/x", "");
    let said = project.command(&["verify"]).current_dir(project.path("deep/er")).output().expect("it starts");
    assert_eq!(said.status.code(), Some(0), "{}", String::from_utf8_lossy(&said.stdout));
    project.write("deep/own.md", &project.read(".claude/aot-loop-state.md"));
    project.write("deep/here", "");
    std::fs::remove_file(project.path("here")).expect("it is there");
    for _ in 0..2 {
        let (exit, object) = project.json(&["verify", "--state", "deep/own.md"]);
        assert_eq!(exit, 0, "{object}");
    }
    let (_, object) = project.json(&["verify", "--state", "deep/own.md"]);
    assert_eq!(object["checks"][0]["evidence"]["source"], "reused", "{object}");
}

#[test]
fn colour_is_for_terminals() {
    let project = Project::with("    {type: command, value: \"false\"}");
    assert!(!project.aot(&["verify"]).out.contains('\x1b'));
    let aot = env!("CARGO_BIN_EXE_aot");
    let on_terminal = |name: &str, value: &str| {
        let mut command = std::process::Command::new("script");
        command.args(["-qec", &format!("{aot} verify"), "/dev/null"]).current_dir(project.root());
        command
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm")
            .env("XDG_DATA_HOME", USER_DATA)
            .env("AOT_TRUST", "/")
            .env_remove("NO_COLOR")
            .env_remove("AOT_CHECKING");
        command.env_remove("CLAUDE_PROJECT_DIR").env(name, value).stdin(std::process::Stdio::null());
        String::from_utf8_lossy(&command.output().expect("script is here").stdout).into_owned()
    };
    let plain = on_terminal("NO_COLOR", "1");
    assert!(plain.contains("FAIL ") && !plain.contains("\x1b[1;31m"), "{plain:?}");
    let coloured = on_terminal("X", "");
    assert!(coloured.contains("\x1b[1;31mFAIL"), "{coloured:?}");
    assert!(coloured.contains("running: false"), "{coloured:?}");
}

/// All that was kept, of what passed too; what a terminal would obey is gone, and no line is cut.
#[test]
fn the_whole_output_is_shown_when_it_is_asked_for() {
    let long = "x".repeat(200);
    let project = Project::with(&format!(
        "    checklist:\n      - {{item: \"Good\", check: {{type: command, value: \"seq 1 9\"}}}}\n      \
         - {{item: \"Bad\", check: {{type: command, value: \"seq 1 9; printf '\\\\033[31mred\\\\033[0m {long}'; exit 3\"}}}}"
    ));
    let brief = project.aot(&["verify"]);
    assert_eq!(brief.exit, 1, "{}{}", brief.out, brief.err);
    assert!(!brief.out.contains("| 1\n"), "{}", brief.out);
    let whole = project.aot(&["verify", "-v"]);
    assert_eq!(whole.exit, 1);
    assert_eq!(whole.out.matches("| 1\n").count(), 2, "{}", whole.out);
    assert!(whole.out.contains(&format!("| red {long}\n")), "{}", whole.out);
    assert!(!whole.out.contains('\u{1b}'), "{}", whole.out);
}
