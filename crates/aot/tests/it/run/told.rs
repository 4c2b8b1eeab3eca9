//! What several screens say of the same thing is the same.

use crate::repo::{Plan, Repo, atom, check};

/// A choice that failed is dormant, and need not be resolved; a lone atom is red for a while.
#[test]
fn counts_units_and_reasons_are_the_same_everywhere() {
    let choice = |id: &str, run: &str| {
        format!(
            "  - {{id: {id}, description: \"Way {id}\", status: pending, depends_on: [], or_group: way, run: {run:?}}}\n"
        )
    };
    let atoms = [
        atom("A1", "", "echo 1 > a1"),
        choice("A2", "echo no; exit 3"),
        choice("A3", "echo 3 > a3"),
        choice("A4", "echo 4 > a4"),
    ]
    .concat();
    let or_groups = "  way: {choices: [A2, A3, A4], selected: A2, failed: []}";
    let repo = Repo::with(&Plan { atoms: &atoms, or_groups, base_case: &check("false"), ..Plan::default() });
    let ran = repo.aot(&["run"]);
    assert_eq!(ran.exit, 11, "{}{}", ran.out, ran.err);
    let status = repo.aot(&["status"]).out;
    for screen in [&ran.out, &status] {
        assert!(screen.contains("2 of 2 atoms resolved"), "{screen}");
    }
    assert!(ran.out.contains("\nSTALLED  all atoms are resolved, the checks are red"), "{}", ran.out);
    assert!(status.contains("stalled: all atoms are resolved"), "{status}");
    assert!(ran.out.contains(" A2    failed: exit 3: no"), "{}", ran.out);
    assert!(ran.out.contains(" 1d\n"), "{}", ran.out);
    let log = repo.aot(&["log", "A2"]).out;
    assert!(log.contains("A2 starts in iteration 1") && log.contains("A2 failed: exit 3: no"), "{log}");
    assert!(!log.contains("still open"), "{log}");
}

/// What was tried in the loop before is not counted for the next one.
#[test]
fn a_new_loop_begins_its_log_anew() {
    let repo = Repo::with(&Plan {
        atoms: &atom("A1", "", "exit 4"),
        base_case: &check("test -f b"),
        ..Plan::default()
    });
    let constraints = ["--set", "max_iterations=2"];
    assert_eq!(repo.aot(&[&["redirect"][..], &constraints].concat()).exit, 0);
    assert_eq!(repo.run().exit, 12);
    assert!(repo.aot(&["log", "A1"]).out.contains("try 2, took"), "{}", repo.aot(&["log", "A1"]).out);
    let agreed = repo.aot(&[
        "align",
        "Let b be there",
        "--force",
        "--yes",
        "--no-agent",
        "--intent",
        "It is needed",
        "--deliverable",
        "b",
        "--done",
        "b is there",
        "--check",
        "test -f b",
        "--atom",
        "Make b",
    ]);
    assert_eq!(agreed.exit, 0, "{}{}", agreed.out, agreed.err);
    let log = repo.aot(&["log", "A1"]).out;
    assert!(!log.contains("try") && !log.contains("exit 4"), "{log}");
}

#[test]
fn the_doctor_names_the_driver() {
    let repo = Repo::with(&Plan {
        atoms: &atom("A1", "", "sleep 600"),
        base_case: &check("test -f b"),
        ..Plan::default()
    });
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"started\"");
    let told = repo.aot(&["doctor"]).out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains(&format!("driven by pid {} (drives the loop since", live.child.id())), "{told}");
    assert_eq!(repo.aot(&["stop", "--now"]).exit, 0);
    assert_eq!(live.end().exit, 10);
}
