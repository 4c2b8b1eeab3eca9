//! A redirect while the loop runs: everything stops, what was killed leaves no trace, and the loop goes on.

use std::time::{Duration, Instant};

use crate::repo::{LONG, Plan, Repo, STATE, atom};

/// Workers that wait for a file, and one that is there already.
fn busy(workers: usize) -> (Repo, std::path::PathBuf) {
    let repo = Repo::with(&Plan::default());
    let go = repo.path("../go");
    let shown = go.to_str().expect("a text").to_owned();
    let atoms: String = (1..=workers)
        .map(|n| {
            let run =
                format!("echo early > {n}; while [ ! -e {shown} ]; do sleep 0.02; done; echo late > {n}");
            atom(&format!("A{n}"), "", &run)
        })
        .collect();
    let all: String = (1..=workers)
        .map(|n| format!("      - {{item: \"{n}\", check: {{type: command, value: \"test -s {n}\"}}}}\n"))
        .collect();
    repo.plan(&Plan {
        atoms: &atoms,
        base_case: &all,
        constraints: "max_iterations: 20, max_parallel_agents: 8, max_stall_count: 3",
        ..Plan::default()
    });
    (repo, go)
}

#[test]
fn eight_busy_workers_stop_and_the_loop_completes_on_its_new_way() {
    let (repo, go) = busy(8);
    let mut live = repo.start(&["run", "--json"]);
    for _ in 0..8 {
        live.hear("\"type\":\"started\"");
    }
    let began = Instant::now();
    while repo.processes().iter().filter(|(_, words)| words.contains("sleep 0.02")).count() < 8 {
        assert!(began.elapsed() < LONG, "{:?}", repo.processes());
        std::thread::yield_now();
    }
    let asked = Instant::now();
    let said = repo.aot(&[
        "redirect",
        "--remove",
        "A8",
        "--add",
        "{\"description\": \"Nine\", \"run\": \"echo 9 > 8\"}",
        "--json",
    ]);
    let whole = asked.elapsed();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let told: serde_json::Value = serde_json::from_str(&said.out).expect("one object");
    assert_eq!(told["interrupted"]["killed"], 8, "{told}");
    eprintln!(
        "eight workers: all stopped after {} ms, the whole redirect took {} ms",
        told["interrupted"]["milliseconds"],
        whole.as_millis()
    );
    for n in 1..=8 {
        live.hear("\"type\":\"killed\"");
        let _ = n;
    }
    live.hear("\"type\":\"started\"");
    std::fs::write(&go, "").expect("a file");
    let ran = live.end();
    assert_eq!(ran.exit, 0, "{}{}", ran.out, ran.err);
    // Nothing of the killed appears: seven landed once each, on their second attempt, and the eighth is gone.
    let mut landed: Vec<String> = repo.landed("main").split(' ').map(str::to_owned).collect();
    landed.sort();
    assert_eq!(landed.join(" "), "A1 A2 A3 A4 A5 A6 A7 A9");
    for n in 1..=7 {
        assert_eq!(repo.read(&n.to_string()), "late\n");
    }
    assert_eq!(repo.read("8"), "9\n");
    assert_eq!(repo.leftovers(), Vec::<String>::new());
    assert_eq!(repo.state()["corrections"].as_array().map(Vec::len), Some(2));
}

/// Nothing is in progress while the base case is evaluated; a redirect in that moment is no edit by hand.
#[test]
fn a_redirect_during_an_evaluation_is_no_tampering() {
    let repo = Repo::with(&Plan::default());
    let go = repo.path("../go");
    let waits =
        format!("touch {0}.asked; while [ ! -e {0} ]; do sleep 0.02; done; test -f one", go.display());
    repo.plan(&Plan { base_case: &crate::repo::check(&waits), ..Plan::default() });
    let mut live = repo.start(&["run", "--json"]);
    let began = Instant::now();
    while !repo.path("../go.asked").exists() {
        assert!(began.elapsed() < LONG);
        std::thread::yield_now();
    }
    repo.write("../other.yml", "type: command\nvalue: test -s one\n");
    let said = repo.aot(&["redirect", "--base-case", "../other.yml", "--json"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    live.hear("redirect_requested");
    let ran = live.end();
    assert_eq!(ran.exit, 0, "{}{}", ran.out, ran.err);
    assert!(!ran.out.contains("tampered"), "{}", ran.out);
    assert_eq!(repo.leftovers(), Vec::<String>::new());
}

#[test]
fn one_redirect_after_the_other_is_seen() {
    let (repo, go) = busy(2);
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    for round in 0..12 {
        let value = format!("type: command\nvalue: test {round} -ge 0 -a -s 1\n");
        repo.write("../other.yml", &value);
        let said = repo.aot(&["redirect", "--base-case", "../other.yml", "--max-iterations", "90"]);
        assert_eq!(said.exit, 0, "{round}: {}{}", said.out, said.err);
        assert!(said.out.contains("the loop goes on"), "{round}: {}", said.out);
    }
    std::fs::write(&go, "").expect("a file");
    let ran = live.end();
    assert_eq!(ran.exit, 0, "{}{}", ran.out, ran.err);
    assert_eq!(repo.state()["corrections"].as_array().map(Vec::len), Some(24));
}

#[test]
fn what_is_refused_kills_nobody() {
    let (repo, go) = busy(2);
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    live.hear("\"type\":\"started\"");
    let before = repo.read(STATE);
    for words in
        [&["redirect", "--remove", "A9"][..], &["redirect", "--redo", "A1"], &["redirect", "--select", "x=y"]]
    {
        assert_eq!(repo.aot(words).exit, 1, "{words:?}");
    }
    assert_eq!(repo.read(STATE), before);
    std::fs::write(&go, "").expect("a file");
    let ran = live.end();
    assert_eq!(ran.exit, 0, "{}{}", ran.out, ran.err);
    assert!(!ran.out.contains("killed"), "{}", ran.out);
}

#[test]
fn a_host_holds_a_loop_over_several_commands() {
    let (repo, go) = busy(2);
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    let said = repo.aot(&["redirect", "--hold", "--session", "s-1", "--json"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let told: serde_json::Value = serde_json::from_str(&said.out).expect("one object");
    assert_eq!(told["held"], true);
    assert_eq!(told["state"]["redirect_requested"], true, "{told}");
    live.hear("\"type\":\"killed\"");
    assert_eq!(repo.atoms(), "A1:pending A2:pending");
    // The driver waits for as long as it is held; it looks ten times a second.
    let held = Instant::now();
    while held.elapsed().as_millis() < 400 {
        assert_eq!(repo.state()["control"]["status"], "running");
    }
    let start = repo.aot(&["atom", "start", "A1"]);
    assert_eq!((start.exit, start.err.contains("redirect is under way")), (1, true), "{}", start.err);
    // The next word makes the change and lets the loop go on.
    let said = repo.aot(&["redirect", "--set", "max_iterations=30"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    live.hear("\"type\":\"started\"");
    // And one that is cancelled goes on as it was.
    assert_eq!(repo.aot(&["redirect", "--hold"]).exit, 0);
    let said = repo.aot(&["redirect", "--cancel"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("goes on as it was"), "{}", said.out);
    std::fs::write(&go, "").expect("a file");
    let ran = live.end();
    assert_eq!(ran.exit, 0, "{}{}", ran.out, ran.err);
    assert_eq!(repo.state()["corrections"].as_array().map(Vec::len), Some(1));
    let said = repo.aot(&["redirect", "--cancel", "--json"]);
    assert!(said.out.contains("\"cancelled\":false"), "{}", said.out);
}

#[test]
fn a_host_without_a_driver_is_held_by_the_flag() {
    let (repo, go) = busy(2);
    assert_eq!(repo.aot(&["run", "--session", "s-1"]).exit, 0);
    let live = repo.start(&["atom", "start", "A1"]);
    let began = Instant::now();
    while repo.atoms() != "A1:in_progress A2:pending" {
        assert!(began.elapsed() < LONG, "it never starts");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(repo.aot(&["redirect", "--hold"]).exit, 0);
    assert_eq!(repo.atoms(), "A1:pending A2:pending");
    // Its command is ended, and what its worker says now comes too late.
    assert_eq!(live.end().exit, 1);
    assert_eq!(repo.aot(&["atom", "resolve", "A1", "--summary", "done"]).exit, 1);
    assert_eq!(repo.aot(&["redirect", "--remove", "A2"]).exit, 0);
    assert_eq!(repo.state()["control"]["redirect_requested"], false);
    std::fs::write(&go, "").expect("a file");
    let said = repo.aot(&["atom", "start", "A1"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(repo.atoms(), "A1:resolved");
}

#[test]
fn a_hold_that_is_deleted_is_an_interrupted_redirect() {
    let (repo, go) = busy(2);
    let mut live = repo.start(&["run"]);
    live.hear("starts");
    assert_eq!(repo.aot(&["redirect", "--hold"]).exit, 0);
    std::fs::remove_file(repo.path(".claude/aot/redirect.held")).expect("it was held");
    let ran = live.end();
    assert_eq!(ran.exit, 10, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("redirect interrupted") && ran.out.contains("aot run"), "{}", ran.out);
    assert_eq!(repo.state()["control"]["redirect_requested"], false);
    std::fs::write(&go, "").expect("a file");
    assert_eq!(repo.run().exit, 0);
}
