//! The examples work as their pages say: every command of each README, from the root of the repository, in an empty home.

use std::fs;

use crate::documents::{commands, root, said};

/// Runs what the README of an example says, and wants these lines among what is printed.
fn check(name: &str, expected: &[&str]) {
    let home = tempfile::tempdir().expect("a folder");
    let page = fs::read_to_string(root().join("examples").join(name).join("README.md")).expect("a README");
    let said = said(&commands(&page), &root(), home.path());
    for expected in expected.iter().chain(&["\nDONE  "]) {
        assert!(said.contains(expected), "`{expected}` is missing:\n{said}");
    }
}

#[test]
fn a_failing_test_suite() {
    check(
        "failing-tests",
        &[
            "red, as it should be before any work",
            "A1    mends it: A1: sh tests/run.sh: exit 1",
            "2 agent runs (1 of them mends)",
            "ok      the discount begins at 10000",
        ],
    );
}

#[test]
fn a_refactoring_with_alternatives() {
    check(
        "refactoring",
        &["rename switches to careless", "rename switches to words", "note  cap is called capitalised"],
    );
}

#[test]
fn documentation_with_a_rubric() {
    check("documentation", &["manual switches to thorough", "scored 5.00, at least 4", "## count FILE"]);
}

#[test]
fn data_outside_of_git() {
    check("data", &["it changed what is protected: readings.csv", "north,5.0", "the raw data is untouched"]);
}

#[test]
fn a_monorepo_with_parallel_atoms() {
    check("monorepo", &["ok packages/shared", "Move the web page to version 2"]);
}

#[test]
fn every_example_is_tested_and_listed() {
    let listed = fs::read_to_string(root().join("examples/README.md")).expect("a list");
    let tests = include_str!("examples.rs");
    for entry in fs::read_dir(root().join("examples")).expect("a folder").flatten() {
        let name = entry.file_name().into_string().expect("a plain name");
        if entry.path().is_dir() {
            assert!(listed.contains(&format!("({name}/README.md)")), "{name} is not listed");
            assert!(tests.contains(&format!("\"{name}\"")), "{name} is not tested");
        }
    }
}
