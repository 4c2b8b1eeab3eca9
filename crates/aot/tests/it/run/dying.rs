//! Git dies, fails or waits at a chosen moment, and somebody else acts meanwhile: nothing is done twice, and no word is lost.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::repo::{LONG, Live, Plan, Repo, STATE, atom, check};

/// A git before the real one on the PATH. What its plan says, in words of a shell, comes first.
struct FaultyGit<'r> {
    repo: &'r Repo,
    folder: PathBuf,
}

impl FaultyGit<'_> {
    fn new(repo: &Repo) -> FaultyGit<'_> {
        let real = std::env::split_paths(&std::env::var_os("PATH").expect("a PATH"))
            .map(|folder| folder.join("git"))
            .find(|path| path.is_file())
            .expect("git is here");
        let folder = repo.path("../bin");
        let plan = folder.join("plan");
        let (real, plan) = (real.display(), plan.display());
        repo.write("../bin/git", &format!("#!/bin/sh\n[ -e {plan} ] && . {plan}\nexec {real} \"$@\"\n"));
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.join("git"), mode).expect("it can be started");
        FaultyGit { repo, folder }
    }

    fn plan(&self, words: &str) {
        self.repo.write("../bin/plan", words);
    }

    fn heal(&self) {
        std::fs::remove_file(self.folder.join("plan")).expect("there is a plan");
    }

    fn start(&self, words: &[&str]) -> Live {
        let path = std::env::var_os("PATH").expect("a PATH");
        let path = std::iter::once(self.folder.clone()).chain(std::env::split_paths(&path));
        let path = std::env::join_paths(path.collect::<Vec<PathBuf>>()).expect("no colon in it");
        self.repo.start_dressed(words, |command| {
            command.env("PATH", path);
        })
    }
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LONG, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn in_place<'p>(atoms: &'p str, base_case: &'p str) -> Plan<'p> {
    Plan {
        atoms,
        base_case,
        objective: "  isolation: {mode: in_place}",
        constraints: "max_iterations: 20, max_parallel_agents: 3, max_stall_count: 3, max_wall_time: 100s",
        ..Plan::default()
    }
}

/// A git that died was taken for "there is none": the half attempt of a killed run stayed, and the next ran on top of it.
#[test]
fn a_git_that_dies_is_no_answer() {
    let atoms = atom("A1", "", "echo begin >> log; [ -e ../go ] || { echo > ../ready; sleep 1000; }");
    let holds = check("test \"$(cat log)\" = begin");
    let repo = Repo::with(&in_place(&atoms, &holds));
    let git = FaultyGit::new(&repo);
    let mut live = git.start(&["run", "--json"]);
    wait_until("the worker is at work", || repo.path("../ready").exists());
    live.child.kill().expect("it is killed");
    live.child.wait().expect("it is gone");
    wait_until("nobody is left", || repo.processes().is_empty());
    assert_eq!(repo.read("log"), "begin\n");
    repo.write("../go", "");
    git.plan("for word; do [ \"$word\" = --verify ] && kill -9 $$; done\n");
    let said = git.start(&["run", "--json"]).end();
    assert_ne!(said.exit, 0, "{}", said.out);
    assert_eq!(repo.read("log"), "begin\n", "nothing runs on top of half an attempt: {}", said.out);
    git.heal();
    let said = git.start(&["run", "--json"]).end();
    assert_eq!((said.exit, repo.read("log").as_str()), (0, "begin\n"), "{}{}", said.out, said.err);
}

/// A rollback that failed kept the project lent for ever.
#[test]
fn what_could_not_be_given_back_in_place_is_given_back_before_the_next_attempt() {
    let atoms = atom(
        "A1",
        "",
        "echo half >> log; [ -e ../second ] && echo one > one || { echo > ../second; echo > ../bin/dies; exit 1; }",
    );
    let holds = check("test -e one");
    let repo = Repo::with(&in_place(&atoms, &holds));
    let git = FaultyGit::new(&repo);
    let dies = git.folder.join("dies");
    let dies = dies.display();
    git.plan(&format!("if [ -e {dies} ]; then rm {dies}; kill -9 $$; fi\n"));
    let said = git.start(&["run", "--json"]).end();
    assert_eq!((said.exit, repo.read("log").as_str()), (0, "half\n"), "{}{}", said.out, said.err);
    assert!(!Path::new(&dies.to_string()).exists(), "git never died");
}

/// The lock that it left was taken for somebody else's as soon as the landing was tried again.
#[test]
fn a_git_that_dies_with_the_branch_locked_stops_neither_this_landing_nor_the_next_run() {
    let plan = Plan {
        constraints: "max_iterations: 20, max_parallel_agents: 3, max_stall_count: 3, max_wall_time: 100s",
        ..Plan::default()
    };
    let repo = Repo::with(&plan);
    let git = FaultyGit::new(&repo);
    let (lock, once) = (repo.path(".git/refs/heads/main.lock"), git.folder.join("once"));
    let (lock, once) = (lock.display(), once.display());
    git.plan(&format!(
        "case \"$*\" in *update-ref*refs/heads/main*) if mkdir {once} 2> /dev/null; then : > {lock}; kill -9 $$; fi;; esac\n"
    ));
    let said = git.start(&["run", "--json"]).end();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(git.folder.join("once").exists(), "git never died");
    assert_eq!(repo.landed("main"), "A1");
    assert_eq!(repo.leftovers(), Vec::<String>::new());
}

/// Git stands still once, after the loop was read and before the run has written anything; meanwhile somebody acts.
fn while_it_begins(repo: &Repo, act: impl FnOnce()) -> crate::repo::Said {
    let git = FaultyGit::new(repo);
    let (state, folder) = (repo.path(STATE), git.folder.clone());
    let (state, folder) = (state.display(), folder.display());
    git.plan(&format!(
        "if grep -q '^  loop:' {state} && mkdir {folder}/once 2> /dev/null; then\n  : > {folder}/waits\n  while [ ! -e {folder}/go ]; do sleep 0.02; done\nfi\n"
    ));
    let live = git.start(&["run", "--json"]);
    wait_until("git stands still", || git.folder.join("waits").exists());
    assert!(repo.read(STATE).contains("status: pending"), "the run has not begun");
    act();
    repo.write("../bin/go", "");
    live.end()
}

/// Taking a loop up cleared the flags that others had set since it was read.
#[test]
fn a_stop_that_comes_while_a_run_begins_is_not_lost() {
    let repo = Repo::with(&Plan::default());
    let said = while_it_begins(&repo, || assert_eq!(repo.aot(&["stop", "not now"]).exit, 0));
    assert_eq!(said.exit, 10, "{}{}", said.out, said.err);
    assert_eq!(said.halted()["reason"], "not now");
    let said = repo.run();
    assert_eq!(said.exit, 0, "an old stop is over: {}{}", said.out, said.err);
}

/// The same for a redirect, which then waited for a driver that knew nothing of it.
#[test]
fn a_redirect_that_comes_while_a_run_begins_is_not_lost() {
    let repo = Repo::with(&Plan::default());
    let redirect = std::cell::RefCell::new(None);
    let said = while_it_begins(&repo, || {
        let words = ["redirect", "--intent", "Other numbers", "--no-agent", "--json"];
        *redirect.borrow_mut() = Some(repo.start(&words));
        wait_until("the redirect is asked for", || repo.read(STATE).contains("redirect_requested: true"));
    });
    let redirected = redirect.into_inner().expect("it was started").end();
    assert_eq!(redirected.exit, 0, "{}{}", redirected.out, redirected.err);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(repo.read(STATE).contains("Other numbers"));
}
