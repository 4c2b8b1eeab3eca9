//! Inputs that are too long or too many, and a system that gives nothing more: an error with a name, in a moment.

use std::time::{Duration, Instant};

use crate::repo::{Plan, Repo, STATE, check};

/// Far more than any of these takes, and far less than what is not linear takes.
const MOMENT: Duration = Duration::from_secs(20);

#[test]
fn a_system_without_threads_is_no_bug_of_ours() {
    let repo = Repo::with(&Plan { base_case: &check("true"), ..Plan::default() });
    for words in [&["verify", "--json"][..], &["run", "--json"], &["agents", "--json"]] {
        // A thread of this size cannot be had; a limit on processes ends in the same error, but root is free of it.
        let mut command = repo.command(words);
        let output = command.env("RUST_MIN_STACK", (1_u64 << 46).to_string()).output().expect("it starts");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(!err.contains("bug") && !out.contains("bug"), "{words:?}: {out}{err}");
        assert!(!matches!(output.status.code(), None | Some(0 | 70)), "{words:?}: {out}{err}");
    }
}

#[test]
fn many_findings_in_one_long_line_are_drawn_in_a_moment() {
    let repo = Repo::with(&Plan::default());
    let groups: Vec<String> = (0..2_500).map(|number| format!("k{number}: {{}}")).collect();
    let text = repo.read(STATE).replace("or_groups: {}", &format!("or_groups: {{{}}}", groups.join(", ")));
    repo.write(STATE, &text);
    let began = Instant::now();
    let said = repo.aot(&["validate"]);
    assert_eq!(said.exit, 1);
    assert!(began.elapsed() < MOMENT, "{:?}", began.elapsed());
    assert!(said.err.contains("OR group `k0` has no `choices`"), "{}", said.err);
}

#[test]
fn many_unknown_keys_cost_a_moment() {
    let repo = Repo::with(&Plan::default());
    // Near a known key, so that each is compared with it; about 500 kB.
    let keys: String = (0..25_000).map(|number| format!("  statu{number}: {number}\n")).collect();
    let text = repo.read(STATE).replace("  iteration: 0\n", &format!("  iteration: 0\n{keys}"));
    repo.write(STATE, &text);
    for words in [&["status", "--json"][..], &["hook", "pre-tool-use"]] {
        let began = Instant::now();
        repo.aot(words);
        assert!(began.elapsed() < MOMENT, "{words:?}: {:?}", began.elapsed());
    }
}

#[test]
fn settings_that_are_too_long_or_no_file_are_named() {
    let repo = Repo::with(&Plan::default());
    repo.write("aot.toml", &"#".repeat((1 << 20) + 1));
    let said = repo.aot(&["agents"]);
    assert!(said.exit == 2 && said.err.contains("more than 1048576 bytes"), "{said:?}");
    std::fs::remove_file(repo.path("aot.toml")).expect("removed");
    assert!(
        std::process::Command::new("mkfifo").arg(repo.path("aot.toml")).status().expect("mkfifo").success()
    );
    let said = repo.aot(&["agents"]);
    assert!(said.exit == 2 && said.err.contains("a device, a pipe or a socket"), "{said:?}");
    std::fs::remove_file(repo.path("aot.toml")).expect("removed");
    repo.write("../secret.toml", "[judge]\ncommand = \"x\"\n");
    std::os::unix::fs::symlink("../secret.toml", repo.path("aot.toml")).expect("a link");
    let said = repo.aot(&["agents"]);
    assert!(said.exit == 2 && said.err.contains("leads out of the project"), "{said:?}");
}
