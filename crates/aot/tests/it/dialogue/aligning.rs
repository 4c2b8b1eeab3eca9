//! `aot align` in scripts: flags, files, backups, refusals.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use crate::repo::{Plan, Repo, STATE, Said};

/// A repository without any agreement.
pub fn unaligned() -> Repo {
    let repo = Repo::with(&Plan::default());
    fs::remove_dir_all(repo.path(".claude")).expect("it was there");
    repo
}

pub const WHOLE: [&str; 15] = [
    "align",
    "Numbers, please.",
    "--intent",
    "Numbers are needed",
    "--deliverable",
    "Files with numbers",
    "--done",
    "All files are there",
    "--file",
    "one",
    "--check",
    "test -f README",
    "--atom",
    r#"{"description": "One", "run": "echo one > one"}"#,
    "--yes",
];

/// The same without a yes, and with a goal.
pub const SAID: [&str; 16] = [
    WHOLE[0],
    WHOLE[1],
    WHOLE[2],
    WHOLE[3],
    WHOLE[4],
    WHOLE[5],
    WHOLE[6],
    WHOLE[7],
    WHOLE[8],
    WHOLE[9],
    WHOLE[10],
    WHOLE[11],
    WHOLE[12],
    WHOLE[13],
    "--goal",
    "Numbers, please.",
];

fn listing(repo: &Repo) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![repo.path(".")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            if entry.file_name() == ".git" {
                continue;
            }
            found.push(entry.path().display().to_string());
            if entry.path().is_dir() {
                open.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// Otherwise a worker that changes nothing and says that it is done would be believed.
#[test]
fn a_lone_atom_takes_the_checks_of_the_base_case() {
    let flags = |atoms: &[&'static str]| {
        let mut words = WHOLE[..12].to_vec();
        words.extend(["--assert", "It reads well", "--json", "--yes"]);
        words.extend(atoms.iter().flat_map(|atom| ["--atom", *atom]));
        words
    };
    let check_of = |repo: &Repo| {
        let state = repo.state();
        let items = state["atoms"][0]["check"]["checklist"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["check"]["value"].to_string()).collect::<Vec<_>>().join(" ")
    };
    let repo = unaligned();
    let said = repo.aot(&flags(&["Write the numbers"]));
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(check_of(&repo), "\"test -f README\" \"one\"");
    let note = "A1 has no check of its own, so it takes the checks of the loop";
    assert_eq!(said.halted()["notes"], serde_json::json!(["using defaults for: the time limit", note]));
    assert_eq!(said.halted()["findings"].as_array().map(Vec::len), Some(1), "{}", said.out);
    // From a file; people read it on the page.
    let text = repo.read(STATE);
    let (begin, atoms) = text.split_once("atoms:").expect("it has atoms");
    let (_, rest) = atoms.split_once("decompositions:").expect("they end");
    repo.write("plan.md", &format!("{begin}atoms: [Write the numbers]\ndecompositions:{rest}"));
    let said = repo.aot(&["align", "--from", "plan.md", "--yes", "--force", "--no-run"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(check_of(&repo), "\"test -f README\" \"one\"");
    assert!(said.out.contains("Write the numbers, with a check") && said.out.contains(note), "{}", said.out);
    // What has a check, a command or a reason keeps it, and of several none is meant.
    for atoms in [
        &[r#"{"description": "x", "check": "true"}"#][..],
        &[r#"{"description": "x", "run": "true"}"#],
        &[r#"{"description": "x", "no_check": "a document"}"#],
        &["x", "y"],
    ] {
        let repo = unaligned();
        let said = repo.aot(&flags(atoms));
        assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
        assert_eq!(
            (check_of(&repo), &said.halted()["notes"]),
            (String::new(), &serde_json::json!(["using defaults for: the time limit"])),
            "{atoms:?}"
        );
    }
}

#[test]
fn flags_make_an_agreement_that_a_loop_completes() {
    let repo = unaligned();
    let said = repo.aot(&WHOLE);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("1 of 2 checks is red now, 1 passes already"), "{}", said.out);
    assert!(said.out.contains("already_true"), "{}", said.out);
    assert!(said.out.lines().all(|line| line.chars().count() <= 80), "{}", said.out);
    let state = repo.state();
    assert_eq!(state["objective"]["goal"], "Numbers, please.");
    assert_eq!(state["control"]["revision"], 1);
    assert_eq!(state["control"]["loop"].as_str().map(str::len), Some(26));
    assert!(state["control"]["fingerprint"]["base_case"].is_string(), "{state}");
    assert!(repo.read(STATE).ends_with("# Original Prompt\n\nNumbers, please.\n"), "{}", repo.read(STATE));
    let gate = repo.aot(&["gate"]);
    assert_eq!(gate.exit, 0, "{}", gate.out);
    let ran = repo.run();
    assert_eq!(ran.exit, 0, "{}{}", ran.out, ran.err);
    assert!(!ran.out.contains("fingerprinted"), "{}", ran.out);
    assert_eq!(repo.state()["control"]["loop"], state["control"]["loop"]);
}

#[test]
fn every_flag_is_in_the_file() {
    let repo = unaligned();
    let said = repo.aot(&[
        "align-goal",
        "--goal",
        "G",
        "--intent",
        "I",
        "--deliverable",
        "D1",
        "--deliverable",
        "D2",
        "--done",
        "E",
        "--check",
        "true",
        "--not-check",
        "false",
        "--file",
        "a",
        "--not-file",
        "b",
        "--assert",
        "It is nice",
        "--atom",
        "First",
        "--atom",
        "Second <- A1",
        "--protect",
        "tests/**",
        "--include",
        "docs",
        "--exclude",
        "speed",
        "--max-iterations",
        "7",
        "--set",
        "agent_timeout=5m",
        "--max-cost-usd",
        "2.5",
        "--no-run",
        "--yes",
        "--json",
    ]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let told: serde_json::Value = serde_json::from_str(&said.out).expect("one object");
    assert_eq!(told["success"], true);
    assert_eq!(told["standing"], serde_json::Value::Null);
    let state = repo.state();
    let objective = &state["objective"];
    assert_eq!(objective["deliverables"], "D1\nD2");
    let kinds = objective["base_case"]["checklist"].as_array().expect("a list").iter();
    let kinds: Vec<&str> = kinds.map(|item| item["check"]["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds, ["command", "not_command", "file", "not_file", "assertion"]);
    assert_eq!(objective["constraints"]["max_iterations"], 7);
    assert_eq!(objective["constraints"]["agent_timeout"], "5m");
    assert_eq!(objective["constraints"]["max_cost_usd"], 2.5);
    assert_eq!(objective["protected"][0], "tests/**");
    assert_eq!(state["scope"]["excluded"][0], "speed");
    assert_eq!(state["atoms"][1]["depends_on"][0], "A1");
}

fn piped(repo: &Repo, words: &[&str], input: &[u8]) -> Said {
    let mut child = repo
        .command(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("a pipe").write_all(input).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    Said {
        exit: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

const YAML: &str = "goal: Let there be one
background_intent: Numbers are needed
deliverables: A file
definition_of_done: It is there
base_case: {checklist: [{item: One, check: {type: file, value: one}}]}
clarifications: [{question: \"Which?\", answer: \"The first\"}]
atoms:
  - {description: One, run: \"echo one > one\"}   # the only one
request: Numbers!
";

#[test]
fn a_file_or_a_pipe_makes_an_agreement() {
    let repo = unaligned();
    let said = piped(&repo, &["align", "--from", "-", "--yes", "--max-iterations", "5"], YAML.as_bytes());
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let text = repo.read(STATE);
    for kept in ["# the only one", "Which?", "Numbers!", "max_iterations: 5"] {
        assert!(text.contains(kept), "{kept}\n{text}");
    }
    // The whole file of that loop begins another one, and the first is kept.
    assert_eq!(repo.run().exit, 0);
    repo.write("again.md", &repo.read(STATE));
    let done = repo.state();
    let said = repo.aot(&["align", "--from", "again.md", "--yes"]);
    assert_eq!((said.exit, said.err.contains("--force")), (4, true), "{}", said.err);
    assert_eq!(repo.state(), done);
    let said = repo.aot(&["align", "--from", "again.md", "--yes", "--force"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(said.err.contains("work done"), "{}", said.err);
    let anew = repo.state();
    assert_eq!(anew["control"]["status"], "pending");
    assert_eq!(anew["bindings"], serde_json::json!({}));
    assert_ne!(anew["control"]["loop"], done["control"]["loop"]);
    assert!(anew["control"]["revision"].as_u64() > done["control"]["revision"].as_u64());
    assert_eq!(repo.read(".claude/aot/backups/1.md"), repo.read("again.md"));
}

#[test]
fn backups_are_numbered_and_never_written_over() {
    let repo = unaligned();
    let mut texts = Vec::new();
    for goal in ["one", "two", "three"] {
        let said = repo.aot(&[&WHOLE[..], &["--goal", goal, "--force", "--no-run"]].concat());
        assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
        texts.push(repo.read(STATE));
    }
    // What cannot be read is kept as it is, too.
    repo.write(STATE, "not a state file");
    let said = repo.aot(&[&WHOLE[..], &["--force", "--no-run", "--json"]].concat());
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let told: serde_json::Value = serde_json::from_str(&said.out).expect("one object");
    assert!(told["backup"].as_str().is_some_and(|path| path.ends_with("backups/3.md")), "{told}");
    assert_eq!(repo.read(".claude/aot/backups/1.md"), texts[0]);
    assert_eq!(repo.read(".claude/aot/backups/2.md"), texts[1]);
    assert_eq!(repo.read(".claude/aot/backups/3.md"), "not a state file");
    assert_eq!(repo.aot(&["validate"]).exit, 0);
    assert_eq!(repo.aot(&["log"]).exit, 0);
}

#[test]
fn what_is_refused_leaves_nothing_behind() {
    let repo = unaligned();
    repo.write("broken.yml", "goal: [\n");
    repo.write("cyclic.yml", &YAML.replace("{description: One,", "{description: One, depends_on: [A1],"));
    repo.write("slip.yml", &YAML.replace("type: file", "type: flie"));
    fs::write(repo.path("bytes.yml"), [0xff, 0xfe, 0x00]).expect("a file");
    let before = listing(&repo);
    let without = |flag: &str| {
        let mut words = WHOLE.to_vec();
        let at = words.iter().position(|word| *word == flag).expect("a flag");
        words.drain(at..at + if flag == "--yes" { 1 } else { 2 });
        words
    };
    let lacking: Vec<(Vec<&str>, i32, &str)> = vec![
        (vec!["align", "Numbers, please.", "--yes"], 3, "objective.base_case (--check, --file or --assert)"),
        (vec!["align", "--check", "true", "--yes"], 3, "objective.goal (--goal)"),
        (without("--yes"), 2, "--yes"),
        (vec!["align"], 3, "objective.goal"),
        (vec!["align", "--from", "broken.yml", "--yes"], 2, "broken.yml:1"),
        (vec!["align", "--from", "cyclic.yml", "--yes"], 2, "A1"),
        (vec!["align", "--from", "slip.yml", "--yes"], 2, "flie"),
        (vec!["align", "--from", "bytes.yml", "--yes"], 2, "UTF-8"),
        (vec!["align", "--from", "nowhere.yml", "--yes"], 2, "nowhere.yml"),
        (vec!["align", "--from", "-", "--yes"], 2, "standard input"),
        ([&WHOLE[..], &["--max-iterations", "0"]].concat(), 2, "from 1"),
        ([&WHOLE[..], &["--set", "speed=9"]].concat(), 2, "no limit `speed`"),
        ([&WHOLE[..], &["--atom", "{\"x\": 1}"]].concat(), 2, "--atom"),
        ([&WHOLE[..], &["--atom", "Two <- A9"]].concat(), 2, "A9"),
    ];
    for (words, exit, told) in lacking {
        let said = repo.aot(&words);
        assert_eq!(said.exit, exit, "{words:?}: {}{}", said.out, said.err);
        assert!(said.err.contains(told), "{words:?} does not tell {told}: {}", said.err);
        assert_eq!(listing(&repo), before, "{words:?}");
        // The same as an object.
        let said = repo.aot(&[&words[..], &["--json"]].concat());
        assert_eq!(said.exit, exit, "{words:?}: {}{}", said.out, said.err);
        let object: serde_json::Value = serde_json::from_str(&said.out).expect("one object");
        assert!(object["error"]["message"].is_string(), "{object}");
        assert_eq!(said.err, "", "{words:?}");
    }
}

#[test]
fn a_loop_that_is_driven_is_not_replaced() {
    let repo = Repo::with(&Plan {
        atoms: "  - {id: A1, description: \"Long\", status: pending, depends_on: [], run: \"sleep 600\"}",
        ..Plan::default()
    });
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    let before = repo.read(STATE);
    let said = repo.aot(&[&WHOLE[..], &["--force"]].concat());
    assert_eq!(said.exit, 1, "{}{}", said.out, said.err);
    assert!(said.err.contains("driven already"), "{}", said.err);
    assert_eq!(repo.read(STATE), before);
    assert_eq!(repo.aot(&["stop", "--now"]).exit, 0);
    assert_eq!(live.end().exit, 10);
}

#[test]
fn a_worker_does_not_align() {
    let repo = unaligned();
    let said = repo.command(&WHOLE).env(aot_runner::process::MARK, "x").output().expect("it starts");
    assert_eq!(said.status.code(), Some(1), "{}", String::from_utf8_lossy(&said.stderr));
    assert!(String::from_utf8_lossy(&said.stderr).contains("may look, but not write"));
    assert!(!repo.path(STATE).exists());
}

/// Git is told once to ignore the state file, in the user's own list, and never where the project has decided already.
#[test]
fn git_is_told_to_ignore_the_state_file() {
    let align = |repo: &Repo| {
        let said = repo.aot(&[&WHOLE[..], &["--force"]].concat());
        assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
        said.out
    };
    let list = ".git/info/exclude";
    let told = "git ignores it from now on";
    let repo = unaligned();
    assert!(!align(&repo).contains(told), "its .gitignore has `.claude/` already");
    repo.write(".gitignore", "ignored/\n");
    repo.git(&["commit", "-qam", "Ignore less"]);
    repo.write(list, "# mine\n*.log");
    assert!(align(&repo).contains(told));
    assert_eq!(repo.read(list), format!("# mine\n*.log\n/{STATE}\n"));
    assert_eq!(repo.git(&["status", "--porcelain"]), "");
    assert!(!align(&repo).contains(told), "it is said once");
    assert_eq!(repo.read(".gitignore"), "ignored/\n", "a file that is shared stays as it is");
    repo.write(list, "");
    repo.git(&["add", "-f", STATE]);
    repo.git(&["commit", "-qm", "Share the loop"]);
    assert!(!align(&repo).contains(told), "what is tracked is shared on purpose");
    assert_eq!(repo.read(list), "");
    // In a worktree, and in a subfolder of one.
    let repo = unaligned();
    repo.write(".gitignore", "");
    repo.git(&["commit", "-qam", "Ignore nothing"]);
    repo.git(&["worktree", "add", "-q", "../other"]);
    let other = repo.at("../other/below");
    fs::write(other.path("README"), "").expect("a file");
    let state = other.path(STATE);
    let words = [&WHOLE[..], &["--state", state.to_str().expect("plain")]].concat();
    let said = other.aot(&words);
    assert!(said.exit == 0 && said.out.contains(told), "{}{}", said.out, said.err);
    assert_eq!(other.git(&["status", "--porcelain", "--untracked-files=all"]), "?? below/README");
    assert_eq!(
        other.read("../../project/.git/info/exclude").lines().last(),
        Some(&*format!("/below/{STATE}"))
    );
}

/// Outside of a repository there is nobody to tell.
#[test]
fn without_git_nothing_is_said_of_it() {
    let repo = Repo::bare(&Plan::default());
    fs::remove_dir_all(repo.path(".claude")).expect("it was there");
    repo.write("README", "");
    let said = repo.aot(&WHOLE);
    assert!(said.exit == 0 && !said.out.contains("git ignores"), "{}{}", said.out, said.err);
}

#[test]
fn flags_ask_for_judges_groups_races_and_probes() {
    let repo = unaligned();
    let group = r#"{"item": "It works", "group": [{"item": "README", "check": {"type": "file", "value": "README"}}]}"#;
    let quality = r#"{"type": "quality", "criteria": "It reads well", "pass_threshold": 4}"#;
    let atom =
        |id: &str| format!(r#"{{"id": "{id}", "description": "{id}", "or_group": "way", "probe": true}}"#);
    let (one, other) = (atom("A1"), atom("A2"));
    let words =
        ["align", "Words", "--check", group, "--check", quality, "--check", "{ test -f one; }", "--yes"];
    let more = ["--atom", &one, "--atom", &other, "--speculative", "way"];
    let said = repo.aot(&[&words[..], &more].concat());
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let state = repo.state();
    let checks = &state["objective"]["base_case"]["checklist"];
    assert_eq!(checks[0]["group"][0]["check"]["value"], "README", "{checks}");
    assert_eq!(
        (&checks[1]["item"], &checks[1]["check"]["type"]),
        (&json!("It reads well"), &json!("quality"))
    );
    assert_eq!(checks[2]["check"]["value"], "{ test -f one; }", "braces of the shell are a command");
    assert_eq!(state["or_groups"]["way"]["speculative"], true);
    assert_eq!(state["atoms"][0]["probe"], true);
    let file = repo.read(STATE);
    for (words, told) in [
        (&["--speculative", "elsewhere"][..], "elsewhere"),
        (&["--check", r#"{"type": "quality", "criteria": "x"}"#], "pass_threshold"),
        (&["--check", r#"{"type": "wish"}"#], "wish"),
        (&["--check", r#"{"item": "#], "--check"),
    ] {
        let said = repo.aot(&[&["align", "Words", "--check", "true", "--force", "--yes"], words].concat());
        assert!(said.exit != 0 && said.err.contains(told), "{words:?}: {}{}", said.out, said.err);
        assert_eq!(repo.read(STATE), file, "{words:?}");
    }
    // The verbs do the same in a loop that exists.
    for (words, told) in [
        (&["or", "add", "way", "--speculative=false"][..], "way: A1, A2; A1 is selected"),
        (&["atom", "add", "A third", "--or-group", "way", "--probe"], "added A3"),
        (&["or", "add", "way", "--speculative"], "way: A1, A2, A3; all are tried at once"),
    ] {
        assert_eq!(repo.aot(words).out.trim(), told, "{words:?}");
    }
    assert_eq!(repo.aot(&["or", "add", "way"]).exit, 2, "nothing to do");
    let state = repo.state();
    assert_eq!(
        (&state["or_groups"]["way"]["speculative"], &state["atoms"][2]["probe"]),
        (&json!(true), &json!(true))
    );
}
