//! What several screens say of the same thing is the same.

use serde_json::json;

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

/// What a person wants to know when it is over: what landed where, how large it is, and how to take it back.
#[test]
fn a_halt_says_what_landed() {
    let atoms = [
        atom("A1", "", "printf '1\\n2\\n' > a; echo no > README"),
        atom("A2", "A1", "echo 3 >> a"),
        atom("A3", "A2", "test -f go && echo 4 > b"),
    ];
    let plan = Plan { atoms: &atoms.concat(), base_case: &check("test -f b"), ..Plan::default() };
    let repo = Repo::with(&plan);
    let ran = repo.run();
    assert_eq!(ran.exit, 11, "{}{}", ran.out, ran.err);
    let halted = ran.halted();
    assert_eq!(
        halted["landed"],
        json!({"branch": "main", "commits": 2, "files": 2, "insertions": 4, "deletions": 1})
    );
    assert_eq!(
        (&halted["undo"], &halted["proven"], &halted["claimed"]),
        (&json!("aot undo"), &json!(2), &json!(0))
    );
    repo.git(&["commit", "-q", "--allow-empty", "-m", "Somebody else's"]);
    let again = repo.aot(&["run"]);
    assert_eq!(again.exit, 11, "{}{}", again.out, again.err);
    assert!(again.out.contains("2 of 3 atoms resolved (2 proven), "), "{}", again.out);
    let line = "landed   2 commits on main: 2 files, +4 -1 lines; aot undo takes it all back\n";
    assert!(again.out.contains(line), "{}", again.out);
    // Nothing landed, and nothing is said of it.
    let repo = Repo::with(&Plan { base_case: &check("true"), ..Plan::default() });
    let ran = repo.aot(&["run"]);
    assert!(ran.exit == 0 && !ran.out.contains("landed   "), "{}{}", ran.out, ran.err);
    // Without git there is no branch, and it can be taken back all the same.
    let repo = Repo::bare(&Plan::default());
    let ran = repo.run();
    assert_eq!((ran.exit, &ran.halted()["undo"]), (0, &json!("aot undo")), "{}{}", ran.out, ran.err);
    assert_eq!(ran.halted()["landed"]["insertions"], 1, "{}", ran.out);
    // Elsewhere, it is said how to get it.
    let repo = Repo::with(&Plan::default());
    let ran = repo.aot(&["run", "--branch", "night"]);
    assert!(ran.out.contains("landed   1 commit on night: 1 file, +1 -0 lines; aot undo"), "{}", ran.out);
    assert!(ran.out.contains("\nmerge    git merge night\n"), "{}", ran.out);
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
fn work_that_was_kept_can_be_looked_at_without_a_repository() {
    let repo = Repo::bare(&Plan { atoms: &atom("A1", "", "echo lost > lost; exit 4"), ..Plan::default() });
    assert_eq!(repo.run().exit, 11);
    let log = repo.aot(&["log", "A1"]).out;
    let command = log.lines().find_map(|line| line.strip_prefix("look at it: ")).expect("a command");
    let shown = std::process::Command::new("sh").args(["-c", command]).current_dir(repo.path(".")).output();
    let shown = String::from_utf8_lossy(&shown.expect("it starts").stdout).into_owned();
    assert!(shown.contains("+lost"), "{command}: {shown}");
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
