//! The tip of a branch, for whoever asks often. Knows no worktrees.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::git::{Git, GitError};
use super::history::commit_of;

/// What git last said that the branch is, if the branch's own file said the same.
#[derive(Debug, Default)]
pub(super) struct KnownTip(Mutex<Option<String>>);

impl KnownTip {
    /// The commit of this branch. Git is asked unless the file of the branch, which counts before all else that git may know
    /// of it, says what git said before. A repository that keeps its branches elsewhere has no such file.
    pub fn of(&self, git: &Git, common_dir: &Path, reference: &str) -> Result<Option<String>, GitError> {
        let written = fs::read_to_string(common_dir.join(reference)).ok();
        let written = written.as_deref().map(str::trim_end);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if written.is_some() && written == known.as_deref() {
            return Ok(known.clone());
        }
        let found = commit_of(git, reference)?;
        *known = found.clone().filter(|found| written == Some(found.as_str()));
        Ok(found)
    }
}
