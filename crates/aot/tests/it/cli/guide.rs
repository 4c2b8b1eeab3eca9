//! The pages of the guide that say so work as written: every command of their console blocks, in order, in one shell.

use std::fs;

use crate::documents::{commands, root, said};

/// Runs the commands of a page in an empty home, and wants these parts among what they print.
fn check(page: &str, expected: &[&str]) {
    let home = tempfile::tempdir().expect("a folder");
    let text = fs::read_to_string(root().join("docs/guide").join(page)).expect("a page");
    let said = said(&commands(&text), home.path(), home.path());
    for expected in expected {
        assert!(said.contains(expected), "{page}: `{expected}` is missing:\n{said}");
    }
}

#[test]
fn checks() {
    check(
        "checks.md",
        &["1 of 2 checks is red now", "already_true", "the linter has something", "PASSED  2 passed"],
    );
}

#[test]
fn alternatives() {
    check(
        "alternatives.md",
        &["sorting switches to plain", "quick was the first of the race", "slow  killed"],
    );
}

#[test]
fn protecting() {
    check(
        "protecting.md",
        &["it changed what is protected: tests/run.sh", "how   switches to A2", "\nDONE  "],
    );
}

#[test]
fn halts() {
    check("halts.md", &["\nSTALLED  ", "exit 11", "A1 failed: exit 1: no data"]);
}

#[test]
fn handing_over() {
    check(
        "handing-over.md",
        &[
            "report.html: DONE, 1 of 1 check passed",
            "## The page is final",
            "pushed aot/the-page-is-final to origin",
        ],
    );
}

#[test]
fn budgets() {
    check("budgets.md", &["at most 5 iterations", "at most 30m", "\nDONE  ", "\"bound\":{"]);
}

#[test]
fn trees() {
    check("trees.md", &["git ignores it from now on", "\nDONE  "]);
}

#[test]
fn ports() {
    check("ports.md", &["\nDONE  ", "slot 1, ports from "]);
}

#[test]
fn secrets() {
    check("secrets.md", &["repository", "In the ", "~/notes"]);
}

#[test]
fn folders() {
    check("folders.md", &["how   switches to A2", "\nDONE  ", "bread\nmilk\n"]);
}

#[test]
fn ci() {
    check("ci.md", &["\"type\":\"halted\"", "exit 0"]);
}

/// A page that says that its commands are run has its test here.
#[test]
fn every_page_that_promises_it_is_run() {
    let tests = include_str!("guide.rs");
    for entry in fs::read_dir(root().join("docs/guide")).expect("a folder").flatten() {
        let name = entry.file_name().into_string().expect("a plain name");
        let text = fs::read_to_string(entry.path()).expect("a page").replace('\n', " ");
        let promises = text.contains("A test runs every command of this page.");
        assert_eq!(promises, tests.contains(&format!("\"{name}\"")), "{name}");
    }
}
