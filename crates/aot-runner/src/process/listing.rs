//! Which processes there are, as `/proc` tells. Where there is none, the list is empty. Knows nothing of jobs.

use std::collections::{HashMap, HashSet};
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

/// The children that the first thread of a process has made or was given; nothing if the kernel does not tell. Looking at
/// its other threads leaves entries behind that the kernel has to remove one by one when the process ends, while they end.
pub(super) fn children_of_main_thread(parent: i32) -> Option<Vec<i32>> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    Some(children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}

/// Those who live and descend from the roots, parents before their children; the roots are not among them. Where the kernel
/// tells the children of a process, only these are looked at: a hundred guards that end at once would otherwise each read
/// the whole system's list, again and again. Who ends or is born meanwhile may be missing.
pub(super) fn below(roots: &[i32]) -> Vec<Pid> {
    match roots.iter().find_map(|root| children_of(*root)) {
        Some(_) => below_by_children(roots),
        None => below_by_parents(roots),
    }
}

/// The children of a process, zombies too; nothing if it is gone or the kernel does not tell.
pub(super) fn children_of(parent: i32) -> Option<Vec<i32>> {
    // A child belongs to the thread that made it.
    let threads = fs::read_dir(format!("/proc/{parent}/task")).ok()?;
    let mut told = None;
    for thread in threads.flatten() {
        let Ok(children) = fs::read_to_string(thread.path().join("children")) else { continue };
        let children = children.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok());
        told.get_or_insert_with(Vec::new).extend(children);
    }
    told
}

/// The same where the kernel tells the children of a process; elsewhere nobody.
pub(super) fn below_by_children(roots: &[i32]) -> Vec<Pid> {
    let mut found = Vec::new();
    let mut seen: HashSet<i32> = roots.iter().copied().collect();
    let mut open: Vec<i32> = roots.to_vec();
    while let Some(parent) = open.pop() {
        for pid in children_of(parent).unwrap_or_default() {
            if seen.insert(pid) && look_at(pid).is_some_and(|process| !process.is_zombie) {
                open.push(pid);
                found.extend(Pid::from_raw(pid));
            }
        }
    }
    found
}

fn below_by_parents(roots: &[i32]) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in living() {
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

/// One process, if it is there.
pub(super) fn of(pid: i32) -> Option<Process> {
    look_at(pid)
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

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Both ways of looking find the same: a shell's children and grandchildren, of any session.
    #[test]
    fn both_ways_find_those_below() {
        let script = "(sleep 60 & exec sleep 60) & setsid sleep 60 & echo there; wait";
        let mut shell =
            Command::new("/bin/sh").args(["-c", script]).stdout(Stdio::piped()).spawn().expect("a shell");
        let root = [shell.id().cast_signed()];
        let listed = |found: Vec<Pid>| {
            let mut listed: Vec<i32> = found.iter().map(|pid| pid.as_raw_nonzero().get()).collect();
            listed.sort_unstable();
            listed
        };
        let began = std::time::Instant::now();
        let found = loop {
            let found = listed(below_by_parents(&root));
            if found.len() >= 3 || began.elapsed().as_secs() > 20 {
                break found;
            }
            std::thread::yield_now();
        };
        assert_eq!(found.len(), 3, "{found:?}");
        if children_of(root[0]).is_some() {
            assert_eq!(listed(below_by_children(&root)), found);
        }
        for pid in below(&root) {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
        }
        shell.wait().expect("it ends");
    }
}
