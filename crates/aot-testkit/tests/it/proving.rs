//! The proving ground judges by what is there: it notices a false DONE, a changed test and another tree. Its plans come from
//! their seed alone.

use std::collections::BTreeSet;
use std::path::Path;

use aot_testkit::project::Project;
use aot_testkit::proving::faults::{MISDEEDS, misdeeds};
use aot_testkit::proving::judge::{Complaint, Outcome, Word, judge};

/// A repository with this module and this test, as far as git and the tests are concerned.
fn repository(module: &str, test: &str) -> Project {
    let project = Project::new(Path::new("/no/program"), "");
    project.write("module", module);
    project.write("tests/test.sh", test);
    project.init();
    project
}

const RIGHT: &str = "right\n";
const STUB: &str = "empty\n";
const TEST: &str = "grep -q right module\n";

/// What is complained of after these steps, each a file with its new text, and a commit at the end.
fn complaints(steps: &[(&str, &str)], word: Word) -> Vec<&'static str> {
    let (reference, project) = (repository(RIGHT, TEST), repository(STUB, TEST));
    let began = project.git(&["rev-parse", "HEAD"]).expect("a commit");
    for (path, text) in steps {
        project.write(path, text);
        project.git(&["add", "-A"]).expect("files");
        project.git(&["commit", "-qm", "A step"]).expect("a commit");
    }
    let outcome = Outcome {
        repository: &project.root(),
        began: &began,
        reference: &reference.root(),
        test_command: "sh tests/test.sh",
        protected: "tests",
    };
    let named = judge(outcome, word).into_iter().map(|complaint| match complaint {
        Complaint::FalseDone { .. } => "false DONE",
        Complaint::ProtectedChanged { .. } => "protected",
        Complaint::NotTheReference { .. } => "another tree",
    });
    named.collect()
}

#[track_caller]
fn check(steps: &[(&str, &str)], word: Word, expected: &[&str]) {
    assert_eq!(complaints(steps, word), expected, "after {steps:?}");
}

#[test]
fn what_is_not_as_promised_is_complained_of() {
    let easier = ("tests/test.sh", "true\n");
    check(&[("module", RIGHT)], Word::Done, &[]);
    check(&[], Word::NotDone, &[]);
    check(&[], Word::Done, &["false DONE", "another tree"]);
    check(&[("module", "wrong\n")], Word::Done, &["false DONE", "another tree"]);
    // The tests that are there are green; those that were agreed on are not.
    check(&[("module", "wrong\n"), easier], Word::Done, &["protected", "false DONE", "another tree"]);
    check(&[easier, ("tests/test.sh", TEST), ("module", RIGHT)], Word::Done, &["protected"]);
    check(&[easier], Word::NotDone, &["protected"]);
    check(&[("module", "right, in a way\n")], Word::Done, &["another tree"]);
    check(&[("module", RIGHT), ("more", "x")], Word::Done, &["another tree"]);
}

#[test]
fn what_lies_in_the_folder_and_not_on_the_branch_counts_too() {
    let (reference, project) = (repository(RIGHT, TEST), repository(STUB, TEST));
    let began = project.git(&["rev-parse", "HEAD"]).expect("a commit");
    project.write("module", RIGHT);
    project.git(&["commit", "-qam", "Right"]).expect("a commit");
    project.write("tests/test.sh", "true\n");
    let outcome = Outcome {
        repository: &project.root(),
        began: &began,
        reference: &reference.root(),
        test_command: "sh tests/test.sh",
        protected: "tests",
    };
    let complaints = judge(outcome, Word::Done);
    assert!(
        matches!(&complaints[..], [Complaint::ProtectedChanged { .. }, Complaint::NotTheReference { .. }]),
        "{complaints:?}"
    );
}

#[test]
fn a_plan_comes_from_its_seed_and_has_everything_in_it() {
    for seed in 0..50 {
        let plan = misdeeds(seed, 9);
        assert_eq!(plan, misdeeds(seed, 9), "seed {seed}");
        let all: BTreeSet<_> = plan.iter().flatten().copied().collect();
        assert_eq!(all, MISDEEDS.into_iter().collect(), "seed {seed}");
        assert!(
            plan.iter().any(Vec::is_empty) && plan.iter().all(|one| one.len() <= 2),
            "seed {seed}: {plan:?}"
        );
    }
    assert_ne!(misdeeds(1, 9), misdeeds(2, 9));
}
