//! What verification costs, as ratios within one run: eight sleeping checks against eight shells side by side, the hash of
//! a large tree against `git status`, and many instant checks against as many shells. Prints; judges nothing.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;
const FILES: usize = 20_000;

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let project = folder.path();
    git(project, &["init", "-q"]);
    let command = "sleep 0.2";
    state(project, command, 8);
    let shells = median(|| {
        let started: Vec<Child> = (0..8).map(|_| shell(command)).collect();
        started.into_iter().for_each(|mut child| {
            child.wait().expect("it ends");
        });
    });
    let checks = median(|| verify(project));
    row("eight `sleep 0.2`, eight shells", shells, shells);
    row("eight `sleep 0.2`, `aot verify --fresh`", checks, shells);

    state(project, "true", 100);
    let shells = median(|| {
        for _ in 0..100 {
            shell("true").wait().expect("it ends");
        }
    });
    let checks = median(|| verify(project));
    row("100 `true`, one shell after the other", shells, shells);
    row("100 `true`, `aot verify --fresh`", checks, shells);

    for place in 0..FILES {
        let path = project.join(format!("src/{}/{place}.txt", place % 100));
        fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
        fs::write(path, format!("file {place}")).expect("a file");
    }
    git(project, &["add", "-A"]);
    git(project, &["-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x"]);
    state(project, "true", 1);
    let status = median(|| git(project, &["status", "--porcelain"]));
    let checks = median(|| verify(project));
    row("20 000 files, `git status`", status, status);
    row("20 000 files, one `true`, `aot verify --fresh`", checks, status);
}

fn row(name: &str, time: Duration, against: Duration) {
    let ratio = time.as_secs_f64() / against.as_secs_f64();
    println!("{name:<50} {:>9.1} ms  {ratio:>5.2} x", time.as_secs_f64() * 1_000.0);
}

fn shell(command: &str) -> Child {
    Command::new("/bin/sh").args(["-c", command]).stdin(Stdio::null()).spawn().expect("a shell")
}

fn verify(project: &Path) {
    let done = Command::new(env!("CARGO_BIN_EXE_aot"))
        .args(["verify", "--fresh"])
        .current_dir(project)
        .env("SHELL", "/bin/sh")
        .env("AOT_TRUST", "/")
        .env_remove("CLAUDE_PROJECT_DIR")
        .stdout(Stdio::null())
        .stdin(Stdio::null())
        .status()
        .expect("the program starts");
    assert!(done.success());
}

fn git(project: &Path, words: &[&str]) {
    let done = Command::new("git").arg("-C").arg(project).args(words).stdout(Stdio::null()).status();
    assert!(done.expect("git is here").success(), "{words:?}");
}

fn state(project: &Path, command: &str, count: usize) {
    let items: Vec<String> = (0..count)
        .map(|place| format!("      - {{item: c{place}, check: {{type: command, value: \"{command}\"}}}}"))
        .collect();
    let text = aot_testkit::fixtures::INITIAL_LEGACY;
    let (before, after) = text.split_once("  base_case:").expect("it has one");
    let (_, after) = after.split_once("  background_intent").expect("it has one");
    let text =
        format!("{before}  base_case:\n    checklist:\n{}\n  background_intent{after}", items.join("\n"));
    fs::create_dir_all(project.join(".claude")).expect("a folder");
    fs::write(project.join(".claude/aot-loop-state.md"), text).expect("a file");
}

fn median(mut run: impl FnMut()) -> Duration {
    let mut seen: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            run();
            began.elapsed()
        })
        .collect();
    seen.sort();
    seen[seen.len() / 2]
}
