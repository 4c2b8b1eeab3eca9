//! `aot doctor`, as a user meets it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use aot_runner::process::cage::Kind;
use serde_json::Value;

use super::kit::{alive, kinds};

const STATE: &str = ".claude/aot-loop-state.md";

/// In a folder with these files.
fn doctor(files: &[(&str, &str)], words: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let before = ["aot.toml", STATE];
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("folders");
        fs::write(path, text).expect("a file");
    }
    let (exit, out) = doctor_in(folder.path(), words);
    let left = fs::read_dir(folder.path()).expect("it is there").flatten();
    let left = left.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let left: Vec<String> =
        left.filter(|name| !before.iter().any(|path| path.starts_with(name.as_str()))).collect();
    assert_eq!(left, Vec::<String>::new(), "it leaves nothing");
    (exit, out)
}

fn doctor_in(folder: &Path, words: &[&str]) -> (i32, String) {
    doctor_with(folder, words, &[])
}

fn doctor_with(folder: &Path, words: &[&str], variables: &[(&str, &str)]) -> (i32, String) {
    let mark = format!("AOT_TEST_DOCTOR={}-{}", std::process::id(), folder.display());
    let (name, value) = mark.split_once('=').expect("it has one");
    let mut command = Command::new(env!("CARGO_BIN_EXE_aot"));
    command.arg("doctor").args(words).current_dir(folder).stdin(Stdio::null());
    command.env("XDG_DATA_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/user-data")).env("AOT_TRUST", "/");
    command.env("HOME", folder).env("SHELL", "/bin/sh").env("LC_ALL", "C").env(name, value);
    for name in ["CLAUDE_PROJECT_DIR", "AOT_CHECKING", "AOT_JOB", "XDG_CONFIG_HOME"] {
        command.env_remove(name);
    }
    let said = command.envs(variables.iter().copied()).output().expect("the program starts");
    assert_eq!(alive(&mark), Vec::<String>::new(), "nobody is left");
    assert_eq!(String::from_utf8_lossy(&said.stderr), "");
    (said.status.code().unwrap_or(-1), String::from_utf8(said.stdout).expect("a text"))
}

fn finding<'v>(object: &'v Value, what: &str) -> &'v Value {
    let all = object["findings"].as_array().expect("a list");
    all.iter().rfind(|finding| finding["what"] == what).unwrap_or_else(|| panic!("no {what} in {object}"))
}

/// The status of one finding, a part of what is said of it, and the exit code.
fn check(files: &[(&str, &str)], what: &str, status: &str, part: &str, exit: i32) {
    let (code, out) = doctor(files, &["--json"]);
    let object: Value = serde_json::from_str(&out).expect("one object");
    let finding = finding(&object, what);
    assert_eq!(finding["status"], status, "{finding}");
    assert!(
        finding["message"].as_str().is_some_and(|said| said.contains(part)),
        "{finding} without {part:?}"
    );
    assert_eq!((code, object["healthy"] == true), (exit, exit == 0), "{object}");
    assert_eq!(finding["hint"].is_null(), status == "good", "{finding}: a remedy for whatever is not good");
}

#[test]
fn what_is_missing_is_told_with_its_remedy() {
    check(&[], "git", "good", "2.", 0);
    check(&[], "processes", "good", "dies with it", 0);
    check(&[], "state file", "note", "there is no", 0);
    check(&[], "settings", "good", "no aot.toml", 0);
    check(&[(STATE, "---\nobjective: 3\n---\n")], "state file", "problem", "mistake", 1);
    check(&[("aot.toml", "[cage]\nbars = 1")], "settings", "note", "`cage.bars` is not known", 0);
    check(&[("aot.toml", "[cage]\nkind = 1")], "settings", "problem", "aot.toml:2:8", 1);
    check(
        &[("aot.toml", "cage.writable = [\"gone\"]")],
        "settings",
        "problem",
        "gone, which is not there",
        1,
    );
    check(&[("aot.toml", "cage.kind = \"none\"")], "cage", "note", "none, as the settings say", 0);
    check(&[("aot.toml", "cage.kind = \"landlock\"")], "cage", "good", "landlock", 0);
    let neither = "[cage]\nkind = \"none\"\nnetwork = \"off\"";
    check(&[("aot.toml", neither)], "network", "note", "the network is on, although it was not to be", 0);
    let off = |kind: &str| format!("[cage]\nkind = \"{kind}\"\nnetwork = \"off\"");
    check(&[("aot.toml", &off("landlock"))], "network", "note", "off; no agent is started", 0);
    check(&[], "network", "good", "on: a worker reaches", 0);
    let list = |kind: &str| format!("[cage]\nkind = \"{kind}\"\nnetwork = [\"a.b\", \"*.c.d:1\"]");
    check(&[("aot.toml", &list("landlock"))], "network", "problem", "landlock knows ports, not hosts", 1);
    if kinds()[0] == Kind::Bwrap {
        check(&[("aot.toml", "cage.kind = \"bwrap\"")], "cage", "good", "bwrap", 0);
        let listed = "only these hosts: a.b, *.c.d:1; and each agent those of its models";
        check(&[("aot.toml", &list("bwrap"))], "network", "good", listed, 0);
        let models = "off; each agent reaches its models and nothing else";
        check(&[("aot.toml", &off("bwrap"))], "network", "good", models, 0);
    }
}

/// What it asks has limits; a git that prints without end shows it soonest.
#[test]
fn a_git_that_never_ends_is_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let git = folder.path().join("git");
    fs::write(&git, "#!/bin/sh\nexec yes\n").expect("a file");
    fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let (exit, out) = doctor_with(folder.path(), &["--json"], &[("PATH", &path)]);
    let object: Value = serde_json::from_str(&out).expect("one object");
    let said = finding(&object, "git");
    assert_eq!((exit, &said["status"]), (1, &Value::from("problem")), "{said}");
    assert!(said["message"].as_str().is_some_and(|said| said.contains("it printed more than")), "{said}");
}

#[test]
fn it_fits_a_terminal_and_names_every_trial() {
    for &kind in kinds() {
        let settings = format!("cage.kind = \"{kind}\"");
        let (exit, out) = doctor(&[("aot.toml", &settings)], &[]);
        assert_eq!(exit, 0, "{out}");
        for line in out.lines() {
            assert!(line.chars().count() <= 80, "{line:?} is too long");
        }
        for part in [
            "✓ git",
            &*format!("In the {kind} cage"),
            "✓ make a file outside",
            "Nothing essential is missing.",
        ] {
            assert!(out.contains(part), "no {part:?} in {out}");
        }
        assert!(!out.contains('\x1b') && !out.contains('✗'), "{out}");
    }
}
