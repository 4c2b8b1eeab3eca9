//! Killed with -9 at any moment, the loop goes on: nothing is done twice, nothing is lost, nothing is left.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::repo::{LONG, Plan, Repo, atom, check};

/// How often the driver is killed; more on demand.
fn kills() -> u64 {
    std::env::var("AOT_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(12)
}

/// Thirty atoms in layers, each of which writes a file out of what it depends on.
fn thirty() -> String {
    let mut atoms = String::new();
    for n in 1..=30_u32 {
        let before: Vec<String> = match n {
            1..=4 => Vec::new(),
            _ => [n - 4, n - 3].iter().map(|n| format!("A{n}")).collect(),
        };
        let sources: String = before.iter().map(|id| format!(" {id}.txt")).collect();
        let run = format!("cat /dev/null{sources} > A{n}.txt; echo {n} >> A{n}.txt; sleep 0.0{}", n % 5);
        atoms += &format!(
            "  - {{id: A{n}, description: \"Number {n}\", status: pending, depends_on: [{}], run: \"{run}\"}}\n",
            before.join(", ")
        );
    }
    atoms
}

/// Asks for all of them: a loop that finds its base case satisfied leaves out what is not needed.
fn all_are_there() -> String {
    let there = |n: u32| format!("      - {{item: \"{n}\", check: {{type: file, value: A{n}.txt}}}}");
    (1..=30).map(there).collect::<Vec<_>>().join("\n")
}

fn plan<'p>(atoms: &'p str, base_case: &'p str) -> Plan<'p> {
    Plan {
        atoms,
        base_case,
        constraints: "max_iterations: 500, max_parallel_agents: 4, max_stall_count: 100",
        ..Plan::default()
    }
}

#[test]
fn after_kills_at_random_moments_the_result_is_the_same() {
    let (atoms, base_case) = (thirty(), all_are_there());
    let undisturbed = Repo::with(&plan(&atoms, &base_case));
    let began = Instant::now();
    let said = undisturbed.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let whole = began.elapsed();
    let tree = undisturbed.git(&["rev-parse", "HEAD^{tree}"]);

    let seed = std::env::var("AOT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        now.as_nanos() as u64
    });
    eprintln!("AOT_SEED={seed}");
    let mut random = seed | 1;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut left = kills();
    while left > 0 {
        let repo = Repo::with(&plan(&atoms, &base_case));
        let mut killed = 0;
        let finished = loop {
            let mut live = repo.start(&["run", "--json"]);
            if left == 0 {
                break live.end();
            }
            let moment = Duration::from_micros(next() % (whole.as_micros() as u64 * 6 / 10));
            let began = Instant::now();
            while began.elapsed() < moment && live.child.try_wait().expect("it can be waited for").is_none() {
                std::thread::sleep(Duration::from_micros(200));
            }
            if live.child.try_wait().expect("it can be waited for").is_some() {
                break live.end();
            }
            live.child.kill().expect("it is killed");
            let _ = live.end();
            killed += 1;
            left -= 1;
        };
        let told = || format!("seed {seed}, after {killed} kills: {}{}", finished.out, finished.err);
        assert_eq!(finished.exit, 0, "{}", told());
        assert_eq!(repo.git(&["rev-parse", "HEAD^{tree}"]), tree, "another tree: {}", told());
        let landed = repo.landed("main");
        let mut landed: Vec<&str> = landed.split(' ').collect();
        let all = landed.len();
        landed.sort_unstable();
        landed.dedup();
        assert_eq!((all, landed.len()), (30, 30), "landed twice or never: {}", told());
        let left = leftovers(&repo);
        assert_eq!(left, Vec::<String>::new(), "{}", told());
        eprintln!("{killed} kills, the same tree, thirty atoms landed once");
    }
}

/// Orphans of a killed driver are given a moment to be gone: their guards are at it.
fn leftovers(repo: &Repo) -> Vec<String> {
    let began = Instant::now();
    loop {
        let found = repo.leftovers();
        if found.is_empty() || began.elapsed() > Duration::from_secs(10) {
            return found;
        }
    }
}

#[test]
fn an_atom_that_had_landed_is_not_done_again() {
    // It counts how often it was run, outside of its tree.
    let atoms = "  - {id: A1, description: \"Once\", status: pending, depends_on: [], run: \"echo x >> $COUNT; echo one > one\"}\n  - {id: A2, description: \"Then\", status: pending, depends_on: [A1], run: \"echo two > two\"}";
    let holds = check("test -e two");
    let repo = Repo::with(&Plan { atoms, base_case: &holds, ..Plan::default() });
    let count = repo.path("../count");
    let text = repo.read(crate::repo::STATE).replace("$COUNT", count.to_str().expect("a text"));
    repo.write(crate::repo::STATE, &text);
    let before = repo.read(crate::repo::STATE);
    assert_eq!(repo.run().exit, 0);
    // As if the driver had died after the landing of A1 and before the record of it.
    let state = repo.state();
    let loop_id = state["control"]["loop"].as_str().expect("a name").to_owned();
    let first = repo.git(&["log", "--reverse", "--format=%H", "main"]).lines().nth(1).expect("A1").to_owned();
    repo.git(&["reset", "-q", "--hard", &first]);
    let running = before
        .replace("status: pending\n  iteration: 0", "status: running\n  iteration: 1")
        .replace("redirect_requested: false", &format!("redirect_requested: false\n  loop: {loop_id}\n  attempts: {{A1: 1}}\n  open: {{started: [A1], results: 0}}"))
        .replace("description: \"Once\", status: pending", "description: \"Once\", status: in_progress");
    std::fs::remove_dir_all(repo.path(".claude/aot")).expect("the sidecar may be deleted between runs");
    repo.write(crate::repo::STATE, &running);
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(std::fs::read_to_string(&count).expect("it was run"), "x\n");
    assert_eq!(repo.landed("main"), "A1 A2");
}

/// Nobody is left who could end the worker at once, where no cage of namespaces holds it.
#[test]
fn what_outlives_all_of_us_ends_with_the_next_run() {
    let run = "[ -e ../go ] || { setsid sleep 1000 & (cd /; exec setsid sleep 1001) & echo > ../ready; sleep 1002; }; echo one > one";
    let atoms = atom("A1", "", run);
    let in_place = Plan { atoms: &atoms, objective: "  isolation: {mode: in_place}", ..Plan::default() };
    let repo = Repo::with(&in_place);
    let mut live = repo.start(&["run", "--json"]);
    let sleepers = || {
        let all = named("sleep 100").into_iter();
        all.filter(|pid| environment(*pid).contains(&repo.path("").display().to_string())).collect::<Vec<_>>()
    };
    let began = Instant::now();
    while !repo.path("../ready").exists() || sleepers().len() < 3 {
        assert!(began.elapsed() < LONG, "the worker never began");
        std::thread::sleep(Duration::from_millis(10));
    }
    let driver = i32::try_from(live.child.id()).expect("a number");
    let reaper = children(driver);
    let guards: Vec<i32> = reaper.iter().flat_map(|pid| children(*pid)).collect();
    let ours: Vec<i32> = guards.into_iter().chain(reaper).chain([driver]).collect();
    // Stopped first, so that none of them sees another one die.
    for signal in ["-STOP", "-KILL"] {
        let pids = ours.iter().map(i32::to_string);
        assert!(Command::new("kill").arg(signal).args(pids).status().expect("kill is here").success());
    }
    live.child.wait().expect("it is gone");
    assert_eq!(sleepers().len(), 3, "nobody can end them");
    repo.write("../go", "");
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("outlived the last run"), "{}", said.out);
    assert_eq!(sleepers(), Vec::<i32>::new());
    assert_eq!(repo.leftovers(), ["status ?? one"]);
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn children(parent: i32) -> Vec<i32> {
    let line = format!("PPid:\t{parent}");
    let status = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    pids().filter(|pid| status(pid).lines().any(|found| found == line)).collect()
}

fn named(beginning: &str) -> Vec<i32> {
    let words = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    pids().filter(|pid| words(pid).replace('\0', " ").starts_with(beginning)).collect()
}

fn environment(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap_or_default()
}
