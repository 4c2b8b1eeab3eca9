//! Whether anything that a screen shows was written since the last look. Compares files from outside and reads none of them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::store::home::Home;

/// How often the files are looked at; a look costs a few microseconds.
const POLL: Duration = Duration::from_millis(40);

/// Looks at the state file, its journal, the evidence and the live record.
#[derive(Debug)]
pub struct ChangePoll {
    paths: Vec<PathBuf>,
    seen: Vec<Option<FileMark>>,
}

/// A file is another one, or has another content, if any of these differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileMark {
    inode: u64,
    size: u64,
    written: (i64, i64),
}

impl ChangePoll {
    /// Everything counts as new at the first look.
    pub fn of(home: &Home) -> ChangePoll {
        let inside = |name: &str| home.sidecar().join(name);
        let paths = vec![
            home.state().to_path_buf(),
            inside("journal.jsonl"),
            inside("evidence.jsonl"),
            inside(super::NAME),
        ];
        ChangePoll { seen: Vec::new(), paths }
    }

    /// Whether something was written since the last call.
    pub fn has_changed(&mut self) -> bool {
        let marks: Vec<Option<FileMark>> = self.paths.iter().map(|path| mark(path)).collect();
        let changed = marks != self.seen;
        self.seen = marks;
        changed
    }

    /// Waits until something was written, but not longer than this.
    pub fn wait(&mut self, longest: Duration) -> bool {
        let began = Instant::now();
        loop {
            if self.has_changed() {
                return true;
            }
            let left = longest.saturating_sub(began.elapsed());
            if left.is_zero() {
                return false;
            }
            thread::sleep(POLL.min(left));
        }
    }
}

fn mark(path: &Path) -> Option<FileMark> {
    let found = fs::symlink_metadata(path).ok()?;
    Some(FileMark { inode: found.ino(), size: found.len(), written: (found.mtime(), found.mtime_nsec()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_replaced_or_removed_is_a_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("aot-loop-state.md");
        fs::write(&state, "one").expect("written");
        let home = Home::of(&state).expect("a home");
        let mut poll = ChangePoll::of(&home);
        assert!(poll.has_changed(), "the first look");
        assert!(!poll.has_changed());
        assert!(!poll.wait(Duration::ZERO));
        fs::write(&state, "three").expect("written");
        assert!(poll.wait(Duration::from_secs(9)));
        fs::create_dir_all(home.sidecar()).expect("made");
        fs::write(home.sidecar().join("journal.jsonl"), "x").expect("written");
        assert!(poll.has_changed());
        fs::remove_file(&state).expect("removed");
        assert!(poll.has_changed());
        assert!(!poll.has_changed());
    }
}
