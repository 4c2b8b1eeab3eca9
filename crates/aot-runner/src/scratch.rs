//! Folders for what is needed only while something runs. Each has the number of the process that made it in its name, so
//! that what a crash left is told from what another process works with.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};
use tempfile::TempDir;

use crate::plain_file;

/// Where they lie in the sidecar.
pub fn parent(sidecar: &Path) -> PathBuf {
    sidecar.join("scratch")
}

/// A folder that is gone when it is dropped. `what` tells people whose it is.
pub fn make(sidecar: &Path, what: &str) -> io::Result<TempDir> {
    let parent = parent(sidecar);
    plain_file::folder(sidecar, &parent)?;
    make_in(&parent, what)
}

/// The same in a folder that is there.
pub fn make_in(parent: &Path, what: &str) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(&format!("{}-{what}-", std::process::id())).tempdir_in(parent)
}

/// Removes what processes left that are gone. Others may be at work: `aot redirect` asks an agent, `aot verify` looks.
pub fn clear(sidecar: &Path) {
    for entry in fs::read_dir(parent(sidecar)).into_iter().flatten().flatten() {
        if !is_owned(&entry.file_name().to_string_lossy()) {
            // What cannot be removed now is removed by the next run.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether the process that made a folder of this name lives. A number that another process has by now keeps it for a
/// while longer.
fn is_owned(name: &str) -> bool {
    let pid = name.split('-').next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    pid.is_some_and(|pid| match test_kill_process(pid) {
        Ok(()) => true,
        Err(error) => error != rustix::io::Errno::SRCH,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_works_with_stays() {
        let sidecar = tempfile::tempdir().expect("a folder");
        let own = make(sidecar.path(), "agent").expect("a folder");
        let mut dead = std::process::Command::new("true").spawn().expect("it starts");
        let number = dead.id();
        dead.wait().expect("it ends");
        let left = ["check-x1y2".to_owned(), format!("{number}-agent-x")];
        for name in &left {
            fs::create_dir_all(parent(sidecar.path()).join(name).join("deep")).expect("folders");
        }
        clear(sidecar.path());
        assert!(own.path().is_dir());
        assert_eq!(fs::read_dir(parent(sidecar.path())).expect("it is there").count(), 1);
    }
}
