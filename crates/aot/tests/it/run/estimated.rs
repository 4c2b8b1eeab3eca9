//! What attempts took is learnt: it orders the starts of the next loop, and says how long the rest may take.

use serde_json::{Value, json};

use crate::repo::{Plan, Repo, atom};

const ONE_AT_A_TIME: &str = "max_iterations: 20, max_parallel_agents: 1, max_stall_count: 3";

fn plan<'p>(atoms: &'p str, base_case: &'p str) -> Plan<'p> {
    Plan { atoms, base_case, constraints: ONE_AT_A_TIME, ..Plan::default() }
}

fn command(id: &str, run: &str) -> String {
    json!({"id": id, "description": format!("Do {id}"), "run": run}).to_string()
}

#[test]
fn a_loop_teaches_the_next_one() {
    let there = tempfile::tempdir().expect("a folder");
    let order = there.path().join("order").display().to_string();
    let quick = format!("echo quick >> {order}; echo 1 > one");
    let slow = format!("echo slow >> {order}; sleep 4; echo 2 > two");
    let atoms = atom("A1", "", &quick) + &atom("A2", "", "echo 0 > zero") + &atom("A3", "", &slow);
    let repo = Repo::with(&plan(&atoms, "      - {item: \"Two is there\", check: {type: file, value: two}}"));

    // Nothing is known, and nothing is said.
    let said = repo.aot(&["run", "--dry-run"]);
    assert!(said.out.contains("bound ") && !said.out.contains("estimate"), "{}", said.out);
    assert_eq!(repo.aot(&["status", "--json"]).halted()["estimate"], Value::Null);
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(repo.aot(&["status", "--json"]).halted()["estimate"], Value::Null, "nothing is left");

    // Other names and another loop, but one of the commands is the same.
    let agreed = [
        ["align", "There are three", "--intent", "for the test"].as_slice(),
        &["--deliverable", "three", "--done", "three is there", "--file", "three"],
        &["--atom", &command("B1", &format!("echo new >> {order}; echo 3 > three"))],
        &["--atom", &command("B2", &slow), "--max-parallel-agents", "1", "--yes", "--force"],
    ];
    let said = repo.aot(&agreed.concat());
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let said = repo.aot(&["run", "--dry-run"]);
    assert!(said.out.contains("estimate about "), "{}", said.out);
    let ahead = repo.aot(&["run", "--dry-run", "--json"]).halted();
    let status = repo.aot(&["status", "--json"]).halted();
    for estimate in [&ahead["estimate"], &status["estimate"]] {
        let [seconds, low, high] =
            ["seconds", "low", "high"].map(|key| estimate[key].as_u64().expect("it is there"));
        assert!((1..=90).contains(&seconds) && low <= seconds && seconds <= high, "{estimate}");
        let basis = &estimate["rests_on"];
        assert_eq!(
            (basis["same_work"].as_u64(), basis["same_kind"].as_u64()),
            (Some(1), Some(1)),
            "{estimate}"
        );
    }
    let said = repo.aot(&["status"]);
    assert!(said.out.contains("left at most") && said.out.contains("estimate      about "), "{}", said.out);

    // What is known to take long starts first; without that it would be the first of the file.
    std::fs::remove_file(&order).expect("it was written");
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let started = std::fs::read_to_string(&order).expect("it was written again");
    assert!(started.starts_with("slow\n"), "{started}");

    // It can be lost without harm.
    std::fs::remove_file(repo.path(".claude/aot/durations.json")).expect("it is kept");
    assert_eq!(repo.aot(&["status"]).exit, 0);
}
