//! Repositories that a worker or a check made in the project's own folder, moved out of the way of everybody's git for a
//! week. A repository has a configuration, and a configuration names programs. Knows neither git nor attempts.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use jiff::Timestamp;

use super::error::GroundError;
use super::kept::A_WEEK;
use super::slots::remove_folder;
use super::worktrees::locked;

/// The folder that they go to, in the sidecar.
const FOLDER: &str = "set-aside";

/// Watches the project's own folder for a repository that was not there before.
#[derive(Debug)]
pub(super) struct RepositoryWatch {
    git: PathBuf,
    sidecar: PathBuf,
    before: BeforeWork,
    notes: Mutex<Vec<String>>,
}

/// What the folder had before the first worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BeforeWork {
    Repository,
    Nothing,
}

impl RepositoryWatch {
    pub fn new(root: &Path, sidecar: &Path, before: BeforeWork) -> RepositoryWatch {
        let (git, sidecar) = (root.join(".git"), sidecar.to_path_buf());
        RepositoryWatch { git, sidecar, before, notes: Mutex::new(Vec::new()) }
    }

    pub fn take_away(&self, who: &str) -> Result<(), GroundError> {
        if self.before == BeforeWork::Nothing && fs::symlink_metadata(&self.git).is_ok() {
            let aside = set_aside(&self.sidecar, &self.git, &format!("{who}-.git"))?;
            locked(&self.notes).extend(aside.map(|aside| told(who, ".git", &aside)));
        }
        Ok(())
    }

    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.notes))
    }
}

impl BeforeWork {
    pub fn of(root: &Path) -> BeforeWork {
        match fs::symlink_metadata(root.join(".git")).is_ok() {
            true => BeforeWork::Repository,
            false => BeforeWork::Nothing,
        }
    }
}

/// What a person is told of a repository that was moved.
pub(super) fn told(who: &str, path: &str, aside: &Path) -> String {
    format!("{who} made a repository at {path}; it was moved to {} for a week", aside.display())
}

/// Moves what is at this path to the sidecar and says where it is now; what cannot be moved is removed.
pub(super) fn set_aside(sidecar: &Path, path: &Path, name: &str) -> Result<Option<PathBuf>, GroundError> {
    let folder = sidecar.join(FOLDER);
    fs::create_dir_all(&folder).map_err(GroundError::io("make the folder", &folder))?;
    let flat: String = name.chars().map(|c| if c == '/' { '_' } else { c }).collect();
    let aside = folder.join(flat);
    remove_folder(&aside)?;
    match fs::rename(path, &aside) {
        Ok(()) => Ok(Some(aside)),
        Err(_) => remove_folder(path).map(|()| None),
    }
}

/// Removes what has been there for longer than a week.
pub(super) fn drop_old(sidecar: &Path) {
    let now = Timestamp::now().as_second();
    for entry in fs::read_dir(sidecar.join(FOLDER)).into_iter().flatten().flatten() {
        let moved = entry.metadata().map(|meta| meta.ctime());
        if moved.is_ok_and(|moved| now - moved > A_WEEK) {
            // The next run tries again.
            let _ = remove_folder(&entry.path());
        }
    }
}
