//! Ends what outlived all of us. Whoever kills the driver, its reaper and the guards in one instant leaves nobody who could
//! end a program that no cage of namespaces holds; the next run does. Knows only processes.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};

use super::guard::MARK;
use super::listing::{self, Process};

/// How long the killed are waited for.
const GONE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

/// Kills every program whose driver is dead and which worked for this loop or works in this folder. Returns how many.
pub fn end_left_behind(loop_variable: &[u8], folder: &Path) -> usize {
    let began = Instant::now();
    let mut ended = 0;
    loop {
        // Somebody may be born while we look, so that one look is not enough.
        let left = left_behind(loop_variable, folder);
        if left.is_empty() || began.elapsed() > GONE {
            return ended;
        }
        ended += left.iter().filter(|pid| kill_process(**pid, Signal::KILL).is_ok()).count();
        std::thread::sleep(PAUSE);
    }
}

fn left_behind(loop_variable: &[u8], folder: &Path) -> Vec<Pid> {
    let Ok(ours) = fs::read_link("/proc/self/ns/pid") else { return Vec::new() };
    let own = ancestors();
    let is_left = |process: &Process| {
        let place = format!("/proc/{}", process.pid);
        // In another namespace the number of a driver means another process.
        let is_near = fs::read_link(format!("{place}/ns/pid")).is_ok_and(|other| other == ours);
        if own.contains(&process.pid) || !is_near {
            return false;
        }
        let environment = fs::read(format!("{place}/environ")).unwrap_or_default();
        let variables = || environment.split(|byte| *byte == 0);
        let Some(driver) = variables().find_map(driver_of) else { return false };
        let works_here = || fs::read_link(format!("{place}/cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
        let is_of_loop = || variables().any(|variable| variable == loop_variable);
        !Path::new(&format!("/proc/{driver}")).exists() && (is_of_loop() || works_here())
    };
    listing::living().filter(is_left).filter_map(|process| Pid::from_raw(process.pid)).collect()
}

/// Us and those who started us: a person may type in a shell that a worker left.
fn ancestors() -> Vec<i32> {
    let all: Vec<Process> = listing::all().collect();
    let mut found = vec![getpid().as_raw_nonzero().get()];
    while let Some(process) = all.iter().find(|process| Some(&process.pid) == found.last())
        && process.parent > 0
    {
        found.push(process.parent);
    }
    found
}

/// The number of the driver in the mark of its programs.
fn driver_of(variable: &[u8]) -> Option<u32> {
    let mark = variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"=")?;
    std::str::from_utf8(mark).ok()?.split('-').next()?.parse().ok()
}
