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
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("aot.toml"), settings).expect("a file");
        let (exit, out) = doctor_with(folder.path(), &[], &[("PATH", "/usr/bin:/bin")]);
        assert_eq!(exit, 0, "{out}");
        for line in out.lines() {
            assert!(line.chars().count() <= 80, "{line:?} is too long");
        }
        for part in [
            "✓ git",
            &*format!("In the {kind} cage"),
            "✓ make a file outside",
            "Nothing essential is missing, except an agent",
        ] {
            assert!(out.contains(part), "no {part:?} in {out}");
        }
        assert!(!out.contains('\x1b') && !out.contains('✗'), "{out}");
    }
}

/// A folder with a program of this name, which is a script.
fn with_program(folder: &Path, name: &str, script: &str) -> String {
    let programs = folder.join(".programs");
    fs::create_dir_all(&programs).expect("a folder");
    let program = programs.join(name);
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a file");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
    format!("{}:/usr/bin:/bin", programs.display())
}

/// What is said of one thing, and the exit code and the whole object.
fn said_of(folder: &Path, variables: &[(&str, &str)], what: &str) -> (String, String, Value) {
    let (_, out) = doctor_with(folder, &["--json"], variables);
    let object: Value = serde_json::from_str(&out).expect("one object");
    let said = finding(&object, what);
    let word = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
    assert_eq!(word("hint").is_empty(), word("status") == "good", "{said}");
    (word("status"), word("message"), object)
}

#[test]
fn it_says_whether_an_agent_can_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let none = [("PATH", "/usr/bin:/bin")];
    let (status, said, object) = said_of(folder.path(), &none, "agent");
    assert_eq!((status.as_str(), said.as_str()), ("note", "none is found on the search path"));
    assert_eq!((&object["agent_ready"], &object["healthy"]), (&Value::from(false), &Value::from(true)));
    // A program inside of the project is not started only to look: it may have come with a clone.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let path = with_program(elsewhere.path(), "claude", "echo 9.8.7 \\(Claude Code\\)");
    let (status, said, object) =
        said_of(folder.path(), &[("PATH", &path), ("ANTHROPIC_API_KEY", "")], "agent");
    assert_eq!((status.as_str(), said.as_str()), ("note", "claude: 9.8.7 (Claude Code), not logged in"));
    assert_eq!(object["agent_ready"], false);
    let (_, text) = doctor_with(folder.path(), &[], &[("PATH", &path), ("ANTHROPIC_API_KEY", "")]);
    assert!(text.contains("except an agent"), "{text}");
    let with_key = [("PATH", path.as_str()), ("ANTHROPIC_API_KEY", "k")];
    let (status, said, object) = said_of(folder.path(), &with_key, "agent");
    assert_eq!((status.as_str(), said.as_str()), ("good", "claude: 9.8.7 (Claude Code), logged in"));
    assert_eq!(object["agent_ready"], true);
    let (_, text) = doctor_with(folder.path(), &[], &with_key);
    assert!(text.ends_with("\nNothing essential is missing.\n"), "{text}");
}

#[test]
fn an_old_git_is_named_with_the_version_that_is_needed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = with_program(folder.path(), "git", "echo git version 2.30.2");
    let (status, said, object) = said_of(folder.path(), &[("PATH", &path)], "git");
    assert_eq!((status.as_str(), said.as_str()), ("problem", "2.30.2 is too old"));
    assert_eq!(object["healthy"], false);
}

#[test]
fn it_sees_uncommitted_edits_and_what_git_makes_of_the_state_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(root).args(["-c", "user.name=Ada", "-c", "user.email=a@b"]).args(words);
        let output = command.output().expect("git is here");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let check = |what: &str, status: &str, part: &str| {
        let (found, said, object) = said_of(root, &[], what);
        assert_eq!(found, status, "{said}");
        assert!(said.contains(part), "{said:?} without {part:?}");
        assert_eq!(object["healthy"], true, "nothing of it is essential");
    };
    check("repository", "good", "not a git repository");
    // One that git refuses to open is none that is missing.
    fs::create_dir(root.join(".git")).expect("a folder");
    fs::write(root.join(".git/HEAD"), "nonsense").expect("a file");
    let (status, said, _) = said_of(root, &[], "repository");
    assert_eq!(status, "problem", "{said}");
    assert!(said.contains("git does not open: fatal: "), "{said}");
    fs::remove_dir_all(root.join(".git")).expect("it was there");
    git(&["init", "-q", "-b", "main"]);
    let other = [("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")];
    let (status, said, object) = said_of(root, &other, "repository");
    assert_eq!(status, "problem", "{said}");
    assert!(said.contains("dubious ownership"), "{said}");
    let hint = finding(&object, "repository")["hint"].as_str().unwrap_or_default().to_owned();
    assert!(hint.contains("git config --global --add safe.directory '"), "{hint}");
    fs::write(root.join("one"), "1").expect("a file");
    git(&["add", "one"]);
    git(&["commit", "-qm", "Begin"]);
    check("repository", "good", "no uncommitted edits");
    fs::write(root.join("one"), "2").expect("a file");
    check("repository", "note", "uncommitted edits (1): one");
    fs::create_dir(root.join(".claude")).expect("a folder");
    fs::write(root.join(STATE), aot_testkit::fixtures::COMPLETE).expect("a file");
    check("tracked", "note", "`git add -A` would commit it");
    fs::write(root.join(".git/info/exclude"), format!("/{STATE}\n")).expect("a file");
    check("tracked", "good", "git ignores the state file");
    git(&["add", "-f", STATE]);
    check("tracked", "note", "git tracks the state file");
    git(&["commit", "-qm", "Share"]);
    let more = format!("{}\nmore\n", aot_testkit::fixtures::COMPLETE);
    fs::write(root.join(STATE), more).expect("a file");
    check("repository", "note", "uncommitted edits (1): one");
}

#[test]
fn it_finds_a_plugin_of_another_version_and_hooks_that_do_not_fire() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let host = root.join("host");
    let data = root.join("data");
    let variables = [
        ("CLAUDE_CONFIG_DIR", host.to_str().expect("plain")),
        ("XDG_DATA_HOME", data.to_str().expect("plain")),
    ];
    let check = |what: &str, status: &str, part: &str| {
        let (found, said, object) = said_of(root, &variables, what);
        assert_eq!(found, status, "{said}");
        assert!(said.contains(part), "{said:?} without {part:?}");
        assert_eq!(object["healthy"], status != "problem", "{object}");
    };
    check("plugin", "good", "not installed");
    let mut install = Command::new(env!("CARGO_BIN_EXE_aot"));
    install.args(["plugin", "install"]).current_dir(root).envs(variables);
    assert!(install.status().expect("it starts").success());
    check("plugin", "good", "of this version");
    check("hooks", "good", "hooks answer");
    let installed = host.join("skills/aot");
    let manifest = installed.join(".claude-plugin/plugin.json");
    let text = fs::read(&manifest).expect("it is there");
    fs::write(&manifest, "{}").expect("a file");
    check("plugin", "note", "plugin.json is not of this version");
    fs::write(&manifest, text).expect("a file");
    for settings in [host.join("settings.json"), root.join(".claude/settings.local.json")] {
        fs::create_dir_all(settings.parent().expect("a folder")).expect("a folder");
        fs::write(&settings, r#"{"disableAllHooks": true}"#).expect("a file");
        check("hooks", "problem", "disableAllHooks");
        fs::remove_file(&settings).expect("it was there");
    }
    let program = installed.join("bin/aot");
    fs::write(&program, "#!/bin/sh\necho aot 0.0.9\n").expect("a file");
    check("plugin", "note", "has aot 0.0.9, and this is aot ");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).expect("it is ours");
    check("hooks", "problem", "does not answer");
    fs::remove_file(&program).expect("it was there");
    check("plugin", "problem", "does not start");
}
