//! Mistakes that a loop inside of a host is prone to, each of which has happened to somebody: spellings of the file that
//! scripts stumble over, values that are run, gates that are satisfied by nothing.

use super::kit::{atom, file, is_there, reason};
use crate::repo::{Plan, Repo, STATE};

fn loop_of(atoms: &str, base_case: &str) -> Repo {
    Repo::with(&Plan { atoms, base_case, ..Plan::default() })
}

/// One atom from its start to its landing.
fn solve(repo: &Repo, summary: &str) {
    for words in [vec!["run", "--session"], vec!["atom", "start", "A1"]] {
        let said = repo.step(&words);
        assert_eq!(said.exit, 0, "{words:?}: {}{}", said.out, said.err);
    }
    std::fs::write(repo.tree("A1-1").join("a"), "a").expect("a file");
    let said = repo.step(&["atom", "resolve", "A1", "--summary", summary]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
}

#[test]
fn spellings_of_the_file_make_no_difference() {
    let plain = loop_of(&atom("A1", "", &file("a")), &is_there("a")).read(STATE);
    let lists = plain.replace("depends_on: []}", "depends_on: [ # nothing\n      ]}");
    let spellings = [
        ("line ends of another system", plain.replace('\n', "\r\n")),
        ("a byte order mark", format!("\u{feff}{plain}")),
        ("a comment behind a value", plain.replace("iteration: 0", "iteration: 0   # none yet")),
        ("a list without indentation", plain.replace("\n  - {id", "\n- {id")),
        ("a list over several lines", lists),
        ("words in quotes", plain.replace("status: pending\n", "status: 'pending'\n")),
    ];
    for (name, text) in spellings {
        let repo = loop_of(&atom("A1", "", &file("a")), &is_there("a"));
        repo.write(STATE, &text);
        solve(&repo, "it's \"made\": yes # really\n- and more");
        assert_eq!(
            repo.state()["bindings"]["A1"]["summary"],
            "it's \"made\": yes # really\n- and more",
            "{name}"
        );
        let after = repo.read(STATE);
        assert_eq!(after.contains("\r\n"), text.contains("\r\n"), "{name}");
        assert_eq!(after.starts_with('\u{feff}'), text.starts_with('\u{feff}'), "{name}");
        assert!(after.contains("Numbers, please."), "{name}");
        repo.turn("c1");
        assert_eq!(repo.state()["control"]["status"], "completed", "{name}");
    }
}

#[test]
fn what_is_cut_or_not_chosen_is_not_worked_on() {
    let atoms = [
        atom("A1", "", ""),
        atom("A2", "", ""),
        "  - {id: A3, description: \"One way\", status: pending, depends_on: [], or_group: way}\n".to_owned(),
        "  - {id: A4, description: \"Another\", status: pending, depends_on: [], or_group: way}\n".to_owned(),
    ]
    .concat();
    let base = is_there("a");
    let plan = Plan {
        atoms: &atoms,
        base_case: &base,
        decompositions: "  - {parent: A1, children: [A2], reason: \"too much\"}",
        or_groups: "  way: {choices: [A3, A4], selected: A3, failed: []}",
        ..Plan::default()
    };
    let repo = Repo::with(&plan);
    repo.step(&["run", "--session"]);
    for id in ["A1", "A4"] {
        let said = repo.step(&["atom", "start", id]);
        assert_eq!(said.exit, 1, "{id}: {}", said.out);
    }
    assert_eq!(repo.step(&["atom", "start", "A2"]).exit, 0);
    assert_eq!(repo.step(&["atom", "start", "A3"]).exit, 0);
}

#[test]
fn nothing_is_proven_by_nothing() {
    // Nothing in it, a missing program that "does not succeed", somebody's opinion: none of them completes a loop.
    let missing = "      - {item: \"It is not there\", check: {type: not_command, value: \"no-such-program-anywhere\"}}\n";
    let opinion = "      - item: \"It is good\"\n        check:\n          type: quality\n          criteria: \"good\"\n          \
                   rubric:\n            - {criterion: good, description: \"good\", weight: 1}\n          pass_threshold: 4\n";
    for (base_case, exit) in [("      []", 3), (missing, 0), (opinion, 0)] {
        let repo = loop_of(&atom("A1", "", &file("a")), base_case);
        let said = repo.step(&["run", "--session"]);
        assert_eq!(said.exit, exit, "{base_case}: {}{}", said.out, said.err);
        if exit == 0 {
            repo.step(&["atom", "start", "A1"]);
            std::fs::write(repo.tree("A1-1").join("a"), "a").expect("a file");
            repo.step(&["atom", "resolve", "A1", "--summary", "made"]);
            repo.turn("c1");
        }
        assert_ne!(repo.state()["control"]["status"], "completed", "{base_case}");
        if base_case == opinion {
            // Nobody can confirm what a judge has to score.
            let told = repo.told_at_the_start("c2");
            assert!(told.contains("aot judge"), "{told}");
            assert!(
                said.out.contains("there is no judge") || said.err.contains("there is no judge"),
                "{}",
                said.err
            );
            let steps = repo.aot(&["status"]).out;
            assert!(!told.contains("aot confirm") && !steps.contains("aot confirm"), "{told}\n{steps}");
        }
    }
}

#[test]
fn what_stands_in_the_text_below_is_no_agreement() {
    let repo = loop_of(&atom("A1", "", ""), &is_there("a"));
    let text = repo.read(STATE).replace("  background_intent: \"It is needed\"\n", "");
    repo.write(STATE, &format!("{text}\nbackground_intent: \"it stands here\"\n"));
    let said = repo.step(&["run", "--session"]);
    assert_eq!(said.exit, 3, "{}{}", said.out, said.err);
    assert!(said.out.contains("background_intent"), "{}", said.out);
}

#[test]
fn workers_that_end_are_no_stall() {
    let repo = loop_of(&atom("A1", "", &file("a")), &is_there("a"));
    repo.step(&["run", "--session"]);
    repo.step(&["atom", "start", "A1"]);
    for n in 0..6 {
        let said = serde_json::json!({
            "agent_type": "aot:aot-worker", "agent_id": format!("w{n}"), "last_assistant_message": "Done!",
        });
        repo.hook("subagent-stop", said);
    }
    let control = repo.state()["control"].clone();
    assert_eq!((&control["iteration"], &control["stall_count"]), (&1.into(), &0.into()), "{control}");
    assert_eq!(repo.atoms(), "A1:in_progress");
    let answer = repo.turn("c1");
    assert!(reason(&answer).contains("In progress: A1."), "{answer}");
}
