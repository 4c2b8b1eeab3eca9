//! Folders for what is needed only while something runs. Each has the number of the process that made it in its name, so
//! that what a crash left is told from what another process works with.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

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

/// Folders that are lent to one after the other: many a file system takes the longer to make a folder the more were just
/// removed. They are gone when this is dropped.
#[derive(Debug, Default)]
pub struct ScratchFolders(Mutex<Vec<ScratchFolder>>);

#[derive(Debug)]
struct ScratchFolder {
    folder: TempDir,
    made: FolderIdentity,
}

/// Which folder it is, and who may do what with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FolderIdentity {
    device: u64,
    number: u64,
    mode: u32,
    owner: (u32, u32),
}

/// A folder for one user. It is removed when this is dropped, unless it is as it was made.
#[derive(Debug)]
pub struct LentScratch<'s> {
    from: &'s ScratchFolders,
    folder: Option<ScratchFolder>,
}

impl ScratchFolders {
    pub fn lend(&self, sidecar: &Path, what: &str) -> io::Result<LentScratch<'_>> {
        let kept = self.kept().pop();
        let folder = match kept.filter(ScratchFolder::is_as_made) {
            Some(folder) => folder,
            None => {
                let folder = make(sidecar, what)?;
                let made = FolderIdentity::of(folder.path())?;
                ScratchFolder { folder, made }
            }
        };
        Ok(LentScratch { from: self, folder: Some(folder) })
    }

    /// A thread that panicked in between has left nothing half done.
    fn kept(&self) -> MutexGuard<'_, Vec<ScratchFolder>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LentScratch<'_> {
    pub fn path(&self) -> &Path {
        self.folder.as_ref().expect("it is there until the drop").folder.path()
    }
}

impl Drop for LentScratch<'_> {
    fn drop(&mut self) {
        self.from.kept().extend(self.folder.take().filter(ScratchFolder::is_as_made));
    }
}

impl ScratchFolder {
    fn is_as_made(&self) -> bool {
        let path = self.folder.path();
        FolderIdentity::of(path).is_ok_and(|now| now == self.made)
            && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
    }
}

impl FolderIdentity {
    fn of(path: &Path) -> io::Result<FolderIdentity> {
        let meta = fs::symlink_metadata(path)?;
        let (owner, mode) = ((meta.uid(), meta.gid()), meta.mode());
        Ok(FolderIdentity { device: meta.dev(), number: meta.ino(), mode, owner })
    }
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
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_a_folder_that_is_as_it_was_made_is_lent_again() {
        let sidecar = tempfile::tempdir().expect("a folder");
        let folders = ScratchFolders::default();
        type Spoil = fn(&Path);
        let spoils: [(Spoil, bool); 6] = [
            (|_| (), true),
            (
                |path| {
                    drop(fs::write(path.join("file"), "").and_then(|()| fs::remove_file(path.join("file"))))
                },
                true,
            ),
            (|path| fs::write(path.join(".file"), "").expect("written"), false),
            (|path| fs::set_permissions(path, fs::Permissions::from_mode(0o711)).expect("changed"), false),
            (|path| fs::remove_dir(path).and_then(|()| symlink("/", path)).expect("replaced"), false),
            (|path| fs::remove_dir(path).expect("removed"), false),
        ];
        for (place, (spoil, again)) in spoils.into_iter().enumerate() {
            let lent = folders.lend(sidecar.path(), "work").expect("a folder");
            let other = folders.lend(sidecar.path(), "work").expect("another");
            assert_ne!(lent.path(), other.path(), "{place}");
            let path = lent.path().to_path_buf();
            spoil(&path);
            drop(other);
            drop(lent);
            let next = folders.lend(sidecar.path(), "work").expect("a folder");
            assert_eq!(next.path() == path, again, "{place}");
            assert_eq!(fs::read_dir(next.path()).expect("it is there").count(), 0, "{place}");
        }
        drop(folders);
        assert_eq!(fs::read_dir(parent(sidecar.path())).expect("it is there").count(), 0);
    }

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
