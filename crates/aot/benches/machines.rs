//! What several machines cost and bring, with a real Restate server on loopback: `cargo bench -p aot --features restate --bench
//! machines`. Figures of one run; nothing is asserted here. `AOT_BIN` names another binary than the one that was just built.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use aot_testkit::machines::{Machines, server_program};
use aot_testkit::project::{Loop, Project, STATE};

const NO_CAGE: &str = "[cage]\nkind = \"none\"\n";

/// One after the other, so that each waits for the one before.
const CHAIN: usize = 60;

const SLEEPERS: usize = 200;
const SLEEP: u64 = 4;

/// Slots of each host: all sleepers need twenty waves on one, and seven on three.
const SLOTS: usize = 10;

fn main() {
    let aot =
        std::env::var_os("AOT_BIN").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_aot")), PathBuf::from);
    let Some(server) = server_program(&aot).or_else(|| server_program(Path::new(env!("CARGO_BIN_EXE_aot"))))
    else {
        println!("restate-server is not here: clients/install.sh installs it");
        return;
    };
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word));
    if is_wanted("noop") {
        noops(&aot, &server);
    }
    if is_wanted("sleepers") {
        sleepers(&aot, &server);
    }
    if is_wanted("cancel") {
        cancels(&aot, &server);
    }
    if is_wanted("sizing") {
        sizing(&aot, &server);
    }
}

/// A loop of these commands; the last one makes the file that ends it.
fn project(aot: &Path, count: usize, run: &str, order: Order, parallel: usize) -> Project {
    let project = Project::new(aot, NO_CAGE);
    project.write("README", "A project.\n");
    project.init();
    let mut atoms = String::new();
    for n in 1..=count {
        let after = match order {
            Order::Chained if n > 1 => format!("A{}", n - 1),
            Order::Chained | Order::Free => String::new(),
        };
        let run = if n == count { format!("{run}; echo > done") } else { run.to_owned() };
        atoms += &format!(
            "  - {{id: A{n}, description: d, status: pending, depends_on: [{after}], run: {run:?}}}\n"
        );
    }
    let base_case = "      - {item: i, check: {type: file, value: done}}";
    let constraints = format!(
        "max_iterations: 10000, max_parallel_agents: {parallel}, max_stall_count: 50, max_wall_time: 1h"
    );
    let text =
        Loop { base_case, constraints: &constraints, objective: "", atoms: &atoms, or_groups: "" }.text();
    project.write(STATE, &text);
    project
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    Chained,
    Free,
}

fn timed(mut command: std::process::Command) -> Duration {
    let began = Instant::now();
    let said = command.output().expect("it starts");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
    began.elapsed()
}

fn noops(aot: &Path, server: &Path) {
    let mut both = [Vec::new(), Vec::new()];
    for _ in 0..3 {
        let here = project(aot, CHAIN, "true", Order::Chained, 1);
        both[0].push(timed(here.command(&["run", "--json"])) / CHAIN as u32);
        let mut machines =
            Machines::new(aot, server, project(aot, CHAIN, "true", Order::Chained, 1), NO_CAGE);
        machines.add("one", &["--slots", "1"]);
        both[1].push(timed(machines.run(&[])) / CHAIN as u32);
    }
    let [here, there] = both.map(|mut times| {
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1000.0
    });
    println!(
        "a no-op atom in a worktree, each waits for the one before: here {here:.1} ms, on a host {there:.1} ms, {:.1} ms more",
        there - here
    );
}

fn sleepers(aot: &Path, server: &Path) {
    let on = |hosts: usize| {
        let project = project(aot, SLEEPERS, &format!("sleep {SLEEP}"), Order::Free, SLEEPERS);
        let mut machines = Machines::new(aot, server, project, NO_CAGE);
        for host in 0..hosts {
            machines.add(&format!("host{host}"), &["--slots", &SLOTS.to_string()]);
        }
        timed(machines.run(&[]))
    };
    let (one, three) = (on(1), on(3));
    println!(
        "{SLEEPERS} jobs of {SLEEP} s, {SLOTS} slots each: one host {:.1} s, three {:.1} s, {:.2} times as fast",
        one.as_secs_f64(),
        three.as_secs_f64(),
        one.as_secs_f64() / three.as_secs_f64()
    );
}

fn cancels(aot: &Path, server: &Path) {
    let run = "trap '' TERM; (setsid sleep 301 &); sleep 302";
    let mut times = Vec::new();
    for _ in 0..5 {
        let mut machines = Machines::new(aot, server, project(aot, 6, run, Order::Free, 6), NO_CAGE);
        for host in ["one", "two", "three"] {
            machines.add(host, &["--slots", "2"]);
        }
        let mut driver = drive(&machines);
        let count =
            |machines: &Machines| machines.hosts.iter().map(|host| host.sleepers().len()).sum::<usize>();
        while count(&machines) < 12 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let asked = Instant::now();
        assert!(machines.project.aot(&["stop", "--now"]).status.success());
        while count(&machines) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        times.push(asked.elapsed());
        let _ = driver.wait();
    }
    times.sort();
    println!(
        "twelve processes on three hosts, `aot stop --now` to the last death: median {} ms, most {} ms",
        times[2].as_millis(),
        times[4].as_millis()
    );
}

/// What a driver and its hosts need while two hundred jobs sleep.
fn sizing(aot: &Path, server: &Path) {
    let mut machines =
        Machines::new(aot, server, project(aot, SLEEPERS, "sleep 305", Order::Free, SLEEPERS), NO_CAGE);
    for host in ["one", "two", "three"] {
        machines.add(host, &["--slots", "67"]);
    }
    let mut driver = drive(&machines);
    let began = Instant::now();
    let count = |machines: &Machines| machines.hosts.iter().map(|host| host.sleepers().len()).sum::<usize>();
    while count(&machines) < SLEEPERS {
        assert!(began.elapsed() < Duration::from_secs(300), "they do not start: {}", count(&machines));
        std::thread::sleep(Duration::from_millis(20));
    }
    println!(
        "{SLEEPERS} jobs were at work after {:.1} s, {:.0} ms each",
        began.elapsed().as_secs_f64(),
        began.elapsed().as_secs_f64() * 1000.0 / SLEEPERS as f64
    );
    let mut pids = vec![("the driver", driver.id())];
    let hosts = machines.hosts.iter().filter_map(|host| host.pid());
    pids.extend(hosts.map(|pid| ("a host", pid.as_raw_nonzero().get() as u32)));
    pids.extend(machines.server.pid().map(|pid| ("the server", pid)));
    let before: Vec<Duration> = pids.iter().map(|(_, pid)| cpu(*pid)).collect();
    let span = Duration::from_secs(20);
    std::thread::sleep(span);
    for ((name, pid), before) in pids.iter().zip(before) {
        let share = (cpu(*pid) - before).as_secs_f64() / span.as_secs_f64() * 100.0;
        println!("  {name}: {share:.2} % of a core, {:.1} MB, {} threads", memory(*pid), threads(*pid));
    }
    let asked = Instant::now();
    assert!(machines.project.aot(&["stop", "--now"]).status.success());
    while count(&machines) > 0 {
        std::thread::sleep(Duration::from_millis(2));
    }
    println!("  all of them were dead {} ms after the stop", asked.elapsed().as_millis());
    let _ = driver.wait();
}

fn drive(machines: &Machines) -> Child {
    machines.run(&[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

fn cpu(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        after.split_ascii_whitespace().skip(11).take(2).filter_map(|text| text.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn status_line(pid: u32, name: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    line.split_ascii_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn memory(pid: u32) -> f64 {
    status_line(pid, "VmRSS") / 1024.0
}

fn threads(pid: u32) -> f64 {
    status_line(pid, "Threads")
}
