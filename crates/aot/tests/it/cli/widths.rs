//! The main screens as a person sees them in windows of 80, 60 and 40 columns (`snapshots`), and the same in a pipe and
//! without colour.

use std::process::Command;

use super::project::Project;
use super::screens::{running, stopped, with_journal};
use crate::repo::{Plan, Repo, atom, check};
use crate::terminal::{Terminal, screen};

const WIDTHS: [u16; 3] = [80, 60, 40];

fn window(command: &Command, environment: &[(&str, &str)], columns: u16) -> (String, Vec<u8>) {
    let (_, seen) = Terminal::running(command, environment, columns).end();
    (masked(&screen(&seen)), seen)
}

/// Times and commits differ from run to run.
fn masked(text: &str) -> String {
    let word = |word: &str| {
        let inner = word.trim_matches(|c: char| "[](),:;".contains(c));
        let is_time = inner.ends_with('s')
            && inner.trim_end_matches('s').split('.').all(|part| part.parse::<u32>().is_ok())
            && inner.contains('.');
        let is_commit =
            word.starts_with('[') && inner.len() == 7 && inner.chars().all(|c| c.is_ascii_hexdigit());
        match (is_time, is_commit) {
            (true, _) => word.replace(inner, "0.0s"),
            (_, true) => word.replace(inner, "1234567"),
            (false, false) => word.to_owned(),
        }
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ").trim_end().to_owned();
    text.trim().lines().map(line).collect::<Vec<_>>().join("\n")
}

fn has_colour(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.split("\x1b[")
        .skip(1)
        .any(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m'))
}

/// All that is known of a screen: in each window no line is wider than it, and 80 columns are what a pipe has.
fn seen(command: &dyn Fn() -> Command) -> String {
    let mut all = String::new();
    for columns in WIDTHS {
        let (text, _) = window(&command(), &[], columns);
        for line in text.lines() {
            assert!(line.chars().count() <= columns.into(), "wider than {columns} columns: {line}");
        }
        all += &format!("--- {columns} columns\n{text}\n");
    }
    let wide = window(&command(), &[], 80).0;
    let (plain, bytes) = window(&command(), &[("NO_COLOR", "1")], 80);
    assert_eq!(plain, wide);
    assert!(!has_colour(&bytes), "{:?}", String::from_utf8_lossy(&bytes));
    let piped = command().output().expect("it starts");
    assert!(!piped.stdout.contains(&0x1b), "{:?}", String::from_utf8_lossy(&piped.stdout));
    assert_eq!(masked(&String::from_utf8_lossy(&piped.stdout)), wide);
    all
}

fn of(project: Project, words: &'static [&'static str]) -> impl Fn() -> Command {
    move || {
        let mut command = project.command(words);
        command.env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        command
    }
}

/// A fresh repository for each time.
fn fresh(plan: &'static dyn Fn() -> Repo, words: &'static [&'static str]) -> impl Fn() -> Command {
    let repos = std::cell::RefCell::new(Vec::new());
    move || {
        let repo = plan();
        let command = repo.command(words);
        repos.borrow_mut().push(repo);
        command
    }
}

fn unaligned() -> Repo {
    let repo = Repo::with(&Plan::default());
    std::fs::remove_dir_all(repo.path(".claude")).expect("it was there");
    repo
}

/// An atom that lands, and one that fails until the loop stalls.
fn stalling() -> Repo {
    let atoms =
        [atom("A1", "", "echo 42 > answer; echo 42"), atom("A2", "A1", "echo the disk is full; exit 3")];
    let constraints = "max_iterations: 20, max_parallel_agents: 1, max_stall_count: 1";
    Repo::with(&Plan {
        atoms: &atoms.concat(),
        base_case: &check("test -f two"),
        constraints,
        // Otherwise it depends on the time that it took whether the checks are looked at.
        objective: "  verify: at_end",
        ..Plan::default()
    })
}

const PAGE: [&str; 12] = [
    "run",
    "Let people log in, stay logged in over a restart of the server, and log out everywhere at once",
    "--check",
    "test -f login && test -f logout && grep -q session login",
    "--file",
    "docs/login.md",
    "--atom",
    r#"{"description": "The login route", "run": "true"}"#,
    "--protect",
    "README",
    "--yes",
    "--dry-run",
];

#[test]
fn status_in_every_window() {
    insta::assert_snapshot!(seen(&of(running(), &["status"])));
}

#[test]
fn status_of_a_stopped_loop_in_every_window() {
    let reason = "stalled: 3 iterations in a row without progress";
    insta::assert_snapshot!(seen(&of(stopped("stalled", reason), &["status"])));
}

#[test]
fn graph_in_every_window() {
    insta::assert_snapshot!(seen(&of(running(), &["graph"])));
}

#[test]
fn log_in_every_window() {
    insta::assert_snapshot!(seen(&of(with_journal(), &["log"])));
}

/// Loops in each state that needs no live process, two days after their last run.
#[test]
fn loops_in_every_window() {
    let repo = Repo::bare(&Plan::default());
    // Half an hour is left for the test.
    let before = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(50 * 60 + 30);
    let entry = |name: &str, from: &str, to: &str| {
        let path = format!("../{name}/.claude/aot-loop-state.md");
        let (to, reason) = to.split_once('|').unwrap_or((to, "null"));
        let text = repo.read(crate::repo::STATE).replacen(from, to, 1);
        repo.write(&path, &text.replace("stop_reason: null", &format!("stop_reason: {reason}")));
        let entry = format!("{{\"state\": {:?}, \"driven\": \"{before}\"}}", repo.path(&path));
        repo.write(&format!("../.local/share/aot/loops/{}.json", name.replace('/', "-")), &entry);
    };
    let stopped =
        |verdict: &str, reason: &str| format!("status: stopped\n  verdict: {{kind: {verdict}}}|{reason:?}");
    entry("done", "status: pending", "status: completed");
    entry(
        "src/company/services/a-service-with-a-long-name",
        "status: pending",
        &stopped("needs_person", "It looks right on a phone"),
    );
    entry(
        "stalled",
        "status: pending",
        &stopped(
            "stalled",
            "stalled: 3 iterations in a row without progress; the check of the base case that is red says: 4 tests failed",
        ),
    );
    entry("crashed", "status: pending", "status: running");
    entry(
        "fresh",
        "Let the numbers be there",
        "Let people log in, stay logged in over a restart of the server, and log out everywhere",
    );
    insta::assert_snapshot!(seen(&|| {
        let mut command = repo.command(&["loops"]);
        command.env("TZ", "UTC");
        command
    }));
}

#[test]
fn help_in_every_window() {
    let (first, verb) = (of(Project::empty(), &["--help"]), of(Project::empty(), &["undo", "--help"]));
    for columns in WIDTHS {
        for command in [first(), verb()] {
            let (text, _) = window(&command, &[], columns);
            let wide = text.lines().find(|line| line.chars().count() > usize::from(columns));
            // The line to type is one line.
            assert!(wide.is_none_or(|line| line.contains("npm test")), "{columns}: {wide:?}");
        }
    }
    insta::assert_snapshot!(window(&first(), &[], 80).0);
}

#[test]
fn the_page_of_a_new_loop_in_every_window() {
    insta::assert_snapshot!(seen(&fresh(&unaligned, &PAGE)));
}

#[test]
fn a_halt_in_every_window() {
    insta::assert_snapshot!(seen(&fresh(&stalling, &["run"])));
}

#[test]
fn completion_in_every_window() {
    insta::assert_snapshot!(seen(&fresh(&|| Repo::with(&Plan::default()), &["run"])));
}

/// What the machine has differs, so that only the form is looked at.
#[test]
fn the_doctor_fits_every_window() {
    let command = fresh(&stalling, &["doctor"]);
    for columns in WIDTHS {
        let (text, _) = window(&command(), &[], columns);
        assert!(text.contains("git"), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= columns.into(), "wider than {columns} columns: {line}");
        }
    }
}
