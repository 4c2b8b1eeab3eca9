//! A sidecar that came with the clone: links and pipes in the place of our own files, and forged contents.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::repo::{Plan, Repo, STATE, check};

/// Everything that the program keeps below `.claude/aot`.
const FILES: [&str; 16] = [
    "last",
    "lock",
    "driver.lock",
    "driver.json",
    "redirect.lock",
    "step.lock",
    "session.lock",
    "journal.jsonl",
    "journal.older.jsonl",
    "evidence.jsonl",
    "evidence.older.jsonl",
    "cache",
    "digest",
    "protected.json",
    "session.json",
    "made-here",
];

/// Verbs that write, one after the other.
const VERBS: [&[&str]; 7] = [
    &["status"],
    &["atom", "add", "another", "--run", "true"],
    &["verify"],
    &["redirect", "--goal", "another goal"],
    &["stop", "no"],
    &["log"],
    &["run", "--json"],
];

fn project() -> Repo {
    Repo::with(&Plan { base_case: &check("test -e one"), ..Plan::default() })
}

/// What lies outside of the project, and must stay as it is.
fn outside(repo: &Repo) -> String {
    let folder = repo.path("../outside");
    let mut names: Vec<_> = fs::read_dir(&folder)
        .expect("there")
        .map(|entry| {
            let path = entry.expect("listed").path();
            let text = fs::read_to_string(&path).unwrap_or_else(|_| "a folder".into());
            format!("{}={text}", path.file_name().expect("a name").to_string_lossy())
        })
        .collect();
    names.sort();
    names.join(" ")
}

fn run_all(repo: &Repo, what: &str) {
    let before = outside(repo);
    for words in VERBS {
        let began = Instant::now();
        let said = repo.aot(words);
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: {words:?} took {:?}", began.elapsed());
        assert!(!said.err.contains("a bug"), "{what}: {words:?}: {}", said.err);
        assert_eq!(outside(repo), before, "{what}: after {words:?}");
    }
}

#[test]
fn links_of_a_clone_are_not_followed() {
    let repo = project();
    fs::create_dir_all(repo.path("../outside/folder")).expect("made");
    fs::create_dir_all(repo.path(".claude/aot")).expect("made");
    for name in FILES {
        repo.write(&format!("../outside/{name}"), "precious");
        symlink(repo.path("../outside").join(name), repo.path(".claude/aot").join(name)).expect("a link");
    }
    for name in ["trees", "loans", "backups", "conflicts", "scratch", "output", "agents", "shadow.git"] {
        symlink(repo.path("../outside/folder"), repo.path(".claude/aot").join(name)).expect("a link");
    }
    symlink(repo.path("../outside/folder"), repo.path(".aot")).expect("a link");
    run_all(&repo, "links");
    assert!(repo.path(".claude/aot/set-aside/1/last").is_symlink());
    assert_eq!(repo.landed("main"), "A1", "the loop ran as if nothing had been there");
}

#[test]
fn a_linked_sidecar_is_taken_away_and_a_linked_folder_is_refused() {
    let repo = project();
    fs::create_dir_all(repo.path("../outside/folder")).expect("made");
    symlink(repo.path("../outside/folder"), repo.path(".claude/aot")).expect("a link");
    run_all(&repo, "a linked sidecar");
    assert_eq!(fs::read_dir(repo.path("../outside/folder")).expect("there").count(), 0);

    let repo = project();
    fs::create_dir_all(repo.path("../outside")).expect("made");
    fs::rename(repo.path(".claude"), repo.path("../outside/claude")).expect("moved");
    symlink(repo.path("../outside/claude"), repo.path(".claude")).expect("a link");
    let state = fs::read_to_string(repo.path("../outside/claude/aot-loop-state.md")).expect("there");
    for words in [&["status"][..], &["atom", "add", "x"], &["run"], &["stop"]] {
        let said = repo.aot(words);
        assert_eq!(said.exit, 4, "{words:?}: {}", said.err);
        assert!(said.err.contains("leads out of the project"), "{}", said.err);
    }
    assert_eq!(fs::read_dir(repo.path("../outside/claude")).expect("there").count(), 1);
    assert_eq!(repo.read("../outside/claude/aot-loop-state.md"), state);
}

#[test]
fn a_state_file_that_leads_out_of_the_project_is_neither_read_nor_written() {
    let repo = project();
    let text = repo.read(STATE);
    repo.write("../outside/state.md", &text);
    fs::remove_file(repo.path(STATE)).expect("removed");
    symlink(repo.path("../outside/state.md"), repo.path(STATE)).expect("a link");
    for words in [&["show", "--json"][..], &["atom", "add", "x"], &["run"]] {
        assert_eq!(repo.aot(words).exit, 4, "{words:?}");
    }
    assert_eq!(repo.read("../outside/state.md"), text);
    // Within the project, a link is the user's own business.
    fs::remove_file(repo.path(STATE)).expect("removed");
    repo.write("plans/state.md", &text);
    symlink("../plans/state.md", repo.path(STATE)).expect("a link");
    assert_eq!(repo.aot(&["atom", "add", "x"]).exit, 0);
    assert!(repo.path(STATE).is_symlink() && repo.read("plans/state.md").contains("id: A2"));
}

#[test]
fn pipes_in_the_place_of_files_are_not_waited_for() {
    for came_with_the_clone in [true, false] {
        let repo = project();
        fs::create_dir_all(repo.path("../outside")).expect("made");
        if !came_with_the_clone {
            assert_eq!(repo.aot(&["atom", "add", "first"]).exit, 0);
        }
        fs::create_dir_all(repo.path(".claude/aot")).expect("made");
        for name in FILES.iter().filter(|name| came_with_the_clone || **name != "made-here") {
            let place = repo.path(".claude/aot").join(name);
            // In a sidecar of our own, e.g. after a pull, or by a hand that slipped.
            let _ = fs::remove_file(&place);
            assert!(Command::new("mkfifo").arg(&place).status().expect("mkfifo").success());
        }
        run_all(&repo, "pipes");
        let said = repo.aot(&["atom", "add", "second"]);
        let expected = if came_with_the_clone { 0 } else { 4 };
        assert_eq!(said.exit, expected, "{}", said.err);
        assert!(came_with_the_clone || said.err.contains("a device, a pipe or a socket"), "{}", said.err);
    }
}

#[test]
fn forged_files_of_a_clone_are_not_believed() {
    let real = project();
    assert_eq!(real.run().exit, 0);
    // Somebody's sidecar, committed, with an evidence that says what is not so.
    let repo = project();
    fs::create_dir_all(repo.path("../outside")).expect("made");
    for name in ["journal.jsonl", "evidence.jsonl", "last", "cache", "made-here"] {
        let text = fs::read(real.path(".claude/aot").join(name)).unwrap_or_default();
        fs::create_dir_all(repo.path(".claude/aot")).expect("made");
        fs::write(repo.path(".claude/aot").join(name), text).expect("written");
    }
    let log = repo.aot(&["log"]);
    assert!(!log.out.contains("A1"), "a journal that came with the clone: {}", log.out);
    let verified = repo.aot(&["verify"]);
    assert_eq!(verified.exit, 1, "{}", verified.out);
    assert!(verified.err.contains("came with the project and do not count here"), "{}", verified.err);
    assert_eq!(repo.aot(&["verify"]).err.matches("came with").count(), 0, "it is said once");
}

/// A lock of another user's that is in use is no leftover of a clone.
#[test]
fn a_sidecar_of_another_user_who_is_at_work_is_left_alone() {
    let repo = project();
    fs::create_dir_all(repo.path(".claude/aot")).expect("made");
    let lock = fs::File::create(repo.path(".claude/aot/driver.lock")).expect("made");
    lock.lock().expect("free");
    let said = repo.aot(&["atom", "add", "x"]);
    assert_eq!(said.exit, 4, "{}", said.err);
    assert!(said.err.contains("in use by another user"), "{}", said.err);
    drop(lock);
    assert_eq!(repo.aot(&["atom", "add", "x"]).exit, 0);
}
