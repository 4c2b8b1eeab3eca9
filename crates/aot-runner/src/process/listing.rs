//! Which processes there are, as `/proc` tells. Where there is none, the list is empty. Knows nothing of jobs.

use std::collections::HashMap;
use std::fs;

use rustix::process::Pid;

#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub pid: i32,
    pub parent: i32,
    pub session: i32,
    /// It has ended, and its parent has not asked how.
    pub is_zombie: bool,
}

impl Process {
    pub fn has_mark(&self, mark: &[u8]) -> bool {
        let environment = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark)
    }
}

/// Everybody, zombies too.
pub(super) fn all() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| look_at(entry.file_name().to_str()?.parse().ok()?))
}

/// Everybody who lives; zombies do not.
pub(super) fn living() -> impl Iterator<Item = Process> {
    all().filter(|process| !process.is_zombie)
}

/// Those of these processes that descend from the roots, parents before their children; the roots are not among them.
pub(super) fn below(processes: impl Iterator<Item = Process>, roots: &[i32]) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in processes {
        children.entry(process.parent).or_default().push(process.pid);
    }
    let mut found = Vec::new();
    let mut open: Vec<i32> =
        roots.iter().flat_map(|root| children.remove(root).unwrap_or_default()).collect();
    while let Some(pid) = open.pop() {
        open.extend(children.remove(&pid).unwrap_or_default());
        found.extend(Pid::from_raw(pid));
    }
    found
}

/// The name in the middle of the line may hold anything, parentheses too.
fn look_at(pid: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after = stat.iter().rposition(|byte| *byte == b')')?;
    let mut rest = std::str::from_utf8(&stat[after + 1..]).ok()?.split_ascii_whitespace();
    let state = rest.next()?;
    let parent = rest.next()?.parse().ok()?;
    let session = rest.nth(1)?.parse().ok()?;
    Some(Process { pid, parent, session, is_zombie: matches!(state, "Z" | "X") })
}
