//! Stopping, from here and from elsewhere; one driver at a time; nobody is left behind.

use std::time::Instant;

use crate::repo::{Plan, Repo, STATE, check};

fn sleeper() -> Plan<'static> {
    Plan {
        atoms: "  - {id: A1, description: \"Short\", status: pending, depends_on: [], run: \"while [ ! -e \\\"$GO\\\" ]; do sleep 0.02; done; echo one > one\"}\n  - {id: A2, description: \"Next\", status: pending, depends_on: [A1], run: \"echo two > two\"}",
        base_case: "      - {item: \"Two is there\", check: {type: file, value: two}}",
        ..Plan::default()
    }
}

/// The worker waits for a file outside of its tree.
fn waiting() -> (Repo, std::path::PathBuf) {
    let repo = Repo::with(&sleeper());
    let go = repo.path("../go");
    let text = repo.read(STATE).replace("$GO", go.to_str().expect("a text"));
    repo.write(STATE, &text);
    (repo, go)
}

#[test]
fn a_stop_lets_what_runs_finish_and_land() {
    let (repo, go) = waiting();
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    let stop = repo.aot(&["stop", "it", "is", "late", "--json"]);
    assert_eq!(stop.exit, 0, "{}{}", stop.out, stop.err);
    live.hear("stop_requested");
    std::fs::write(go, "").expect("a file");
    let said = live.end();
    assert_eq!(said.exit, 10, "{}{}", said.out, said.err);
    assert_eq!(said.halted()["reason"], "it is late");
    assert_eq!(repo.atoms(), "A1:resolved A2:pending");
    assert_eq!(repo.landed("main"), "A1");
    assert_eq!(repo.leftovers(), Vec::<String>::new());
    // And it is taken up again.
    assert_eq!(repo.run().exit, 0);
    assert_eq!(repo.landed("main"), "A1 A2");
}

#[test]
fn a_stop_now_kills_what_runs() {
    let (repo, _) = waiting();
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    assert_eq!(repo.aot(&["stop", "--now"]).exit, 0);
    let said = live.end();
    assert_eq!(said.exit, 10, "{}{}", said.out, said.err);
    assert_eq!(repo.atoms(), "A1:pending A2:pending");
    assert_eq!(repo.leftovers(), Vec::<String>::new());
}

#[test]
fn an_interrupt_stops_now_and_keeps_the_state() {
    for signal in ["-INT", "-TERM"] {
        let (repo, go) = waiting();
        let mut live = repo.start(&["run", "--json"]);
        live.hear("\"type\":\"started\"");
        live.signal(signal);
        let said = live.end();
        assert_eq!(said.exit, 130, "{}{}", said.out, said.err);
        assert_eq!(said.halted()["exit"], 130);
        assert_eq!(repo.atoms(), "A1:pending A2:pending");
        assert_eq!(repo.leftovers(), Vec::<String>::new());
        std::fs::write(go, "").expect("a file");
        assert_eq!(repo.run().exit, 0);
    }
}

#[test]
fn a_second_driver_is_told_who_drives_and_a_dead_one_is_taken_over() {
    let (repo, go) = waiting();
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    let second = repo.aot(&["run"]);
    assert_eq!(second.exit, 1, "{}{}", second.out, second.err);
    assert!(second.err.contains(&format!("pid {}", live.child.id())), "{}", second.err);
    live.child.kill().expect("it is killed");
    let _ = live.end();
    std::fs::write(go, "").expect("a file");
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(repo.landed("main"), "A1 A2");
    assert_eq!(repo.leftovers(), Vec::<String>::new());
}

#[test]
fn stopping_what_does_not_run_is_told() {
    let repo = Repo::with(&Plan::default());
    let said = repo.aot(&["stop"]);
    assert_eq!(said.exit, 0, "{}", said.err);
    assert!(said.out.contains("nothing to stop"), "{}", said.out);
}

/// Twenty workers, each with a child in a session of its own that ignores the wish to end.
#[test]
fn nobody_of_twenty_outlives_a_stop_or_the_death_of_the_driver() {
    let stubborn = "trap '' TERM; (setsid sh -c 'trap \\\"\\\" TERM HUP; exec >/dev/null 2>&1; while :; do sleep 1; done' &) ; while :; do sleep 1; done";
    let atoms: String = (1..=20)
        .map(|n| {
            format!("  - {{id: A{n}, description: \"Stubborn\", status: pending, depends_on: [], run: \"{stubborn}\"}}\n")
        })
        .collect();
    let plan = Plan {
        atoms: &atoms,
        constraints: "max_iterations: 20, max_parallel_agents: 20, max_stall_count: 3",
        objective: "  isolation: {mode: none}",
        ..Plan::default()
    };
    let repo = Repo::with(&plan);
    for end in ["stop", "kill"] {
        let mut live = repo.start(&["run", "--json"]);
        for _ in 0..20 {
            live.hear("\"type\":\"started\"");
        }
        // All of them are there, and their children.
        let began = Instant::now();
        while repo.processes().iter().filter(|(_, words)| words.contains("sleep 1")).count() < 20 {
            assert!(began.elapsed() < crate::repo::LONG, "{:?}", repo.processes());
            std::thread::yield_now();
        }
        let asked = Instant::now();
        match end {
            "stop" => assert_eq!(repo.aot(&["stop", "--now"]).exit, 0),
            _ => live.child.kill().expect("it is killed"),
        }
        let driver = live.child.id() as i32;
        while repo.processes().iter().any(|(pid, _)| *pid != driver) {
            assert!(asked.elapsed() < crate::repo::LONG, "{end}: {:?}", repo.processes());
        }
        eprintln!("{end}: all of twenty were gone after {} ms", asked.elapsed().as_millis());
        let said = live.end();
        assert_eq!(said.exit, if end == "stop" { 10 } else { -1 }, "{}{}", said.out, said.err);
    }
}

#[test]
fn a_redirect_that_nobody_holds_stops_the_loop() {
    let (repo, _) = waiting();
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    let text = repo.read(STATE).replace("redirect_requested: false", "redirect_requested: true");
    repo.write(STATE, &text);
    let said = live.end();
    assert_eq!(said.exit, 10, "{}{}", said.out, said.err);
    assert_eq!(said.halted()["reason"], "redirect interrupted");
    assert_eq!(repo.leftovers(), Vec::<String>::new());
}

#[test]
fn an_edit_by_hand_is_taken_in_while_it_runs() {
    let (repo, go) = waiting();
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    let text = repo.read(STATE);
    let added = "decompositions:\n".to_owned();
    let new = "  - {id: A3, description: \"By hand\", status: pending, depends_on: [A2], run: \"echo 3 > three\"}\n";
    let text = text.replacen("decompositions:", &format!("{new}{}", added.trim_end()), 1);
    repo.write(STATE, &text);
    live.hear("correction_noted");
    std::fs::write(go, "").expect("a file");
    let said = live.end();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(repo.atoms().starts_with("A1:resolved A2:resolved A3:"), "{}", repo.atoms());
}

#[test]
fn a_broken_file_holds_the_loop_until_it_is_mended() {
    let (repo, go) = waiting();
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    let whole = repo.read(STATE);
    repo.write(STATE, "---\nobjective: [\n---\n");
    live.hear("cannot be read");
    std::fs::write(go, "").expect("a file");
    repo.write(STATE, &whole);
    let said = live.end();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(repo.landed("main"), "A1 A2");
}

#[test]
fn a_worker_cannot_write_the_state_through_the_program() {
    let aot = env!("CARGO_BIN_EXE_aot");
    let state = "\\\"$STATE\\\"";
    let atoms = format!(
        "  - {{id: A1, description: \"Cheat\", status: pending, depends_on: [], run: \"{aot} --state {state} atom add cheat 2> why; echo $? > code\"}}"
    );
    let plan = Plan {
        atoms: &atoms,
        base_case: &check("test \"$(cat code)\" = 1 && grep -q 'may look, but not write' why"),
        ..Plan::default()
    };
    let repo = Repo::with(&plan);
    let place = repo.path(STATE);
    let text = repo.read(STATE).replace("$STATE", place.to_str().expect("a text"));
    repo.write(STATE, &text);
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}\n{}", said.out, said.err, repo.read("why"));
    assert_eq!(repo.atoms(), "A1:resolved");
}

#[test]
fn a_redirect_interrupts_everything_and_the_loop_goes_on() {
    let (repo, go) = waiting();
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    let said = repo.aot(&["redirect", "--accept", "--json"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    live.hear("\"type\":\"killed\"");
    live.hear("\"type\":\"started\"");
    std::fs::write(go, "").expect("a file");
    let said = live.end();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("interrupted by a redirect"), "{}", said.out);
    assert_eq!(repo.landed("main"), "A1 A2");
    assert_eq!(repo.leftovers(), Vec::<String>::new());
}
