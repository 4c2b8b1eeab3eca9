//! Agents that print without end: the driver reads them at its own pace and stays small.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::repo::{LONG, Plan, Repo};
use crate::scene::{atom, is_there};

/// The driver's own size is about 30 MiB.
const MOST_MEMORY_KIB: u64 = 128 << 10;

/// The most memory that the driver has ever used, in KiB.
fn peak(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Lets an agent that runs this command print for two seconds.
fn check(what: &str, command: &str) {
    let (atoms, base_case) = (atom("A1", "", ""), is_there("a.txt"));
    let constraints = "max_iterations: 1, max_parallel_agents: 1, max_stall_count: 3, agent_timeout: 2s";
    let repo = Repo::with(&Plan { atoms: &atoms, base_case: &base_case, constraints, ..Plan::default() });
    let profile = "program = \"sh\"\nanswer = \"output\"\nevents = [{ doing = [\"d\"], said = \"s\", tokens = [\"n\"] }]";
    let settings =
        format!("[cage]\nkind = \"none\"\n[agent.flood]\n{profile}\narguments = [\"-c\", {command:?}]\n");
    repo.write("../config/aot/aot.toml", &settings);
    let mut driver = repo
        .command(&["run", "--json", "--agent", "flood", "--agent", "coordinator=none"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let (began, mut most) = (Instant::now(), 0);
    while driver.try_wait().expect("it is our child").is_none() {
        most = peak(driver.id()).unwrap_or(most).max(most);
        if most > MOST_MEMORY_KIB || began.elapsed() > LONG {
            driver.kill().expect("it can be killed");
            driver.wait().expect("it ends");
            panic!("{what}: {most} KiB after {} ms", began.elapsed().as_millis());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    eprintln!("{what}: {most} KiB at most");
    let transcript = std::fs::read_dir(repo.path(".claude/aot/agents")).expect("transcripts").count();
    assert!(transcript > 0 && most > 0, "{what}: the agent ran");
}

#[test]
fn an_agent_that_prints_one_line_without_end_costs_no_memory() {
    check("one line", "exec tr '\\0' x < /dev/zero");
}

#[test]
fn an_agent_that_complains_without_end_costs_no_memory() {
    check("standard error", "exec yes trouble >&2");
}

#[test]
fn an_agent_that_prints_events_without_end_costs_no_memory() {
    check("events", r#"exec yes '{"d":"something to do","s":"something to say","n":1}'"#);
}
