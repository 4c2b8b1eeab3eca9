//! Whether a run could begin here, for whoever asks before there is a loop. Makes nothing, recovers nothing, and asks git
//! only for names: what a run finds out besides is refused by `open`.

use std::path::Path;

use aot_core::state::IsolationMode;

use super::checkout::Checkout;
use super::drivers::Drivers;
use super::error::GroundError;
use super::git::Git;
use super::history::commit_of;
use super::open::{
    Surroundings, check_operations, check_version, discover, is_ignored, own_branch, usable_branch,
};
use super::shadow;
use super::snapshot::Layout;
use super::{OpenedFor, Project};
use crate::process::Guard;

/// Why git does not open the repository that a folder is in: it is broken, or belongs to another user.
pub fn why_unopened(root: &Path, guard: &Guard) -> Option<GroundError> {
    discover(root, guard).err().filter(|error| matches!(error, GroundError::Unopened { .. }))
}

/// Refuses what a run would refuse: a repository without a commit, no branch to land on, edits that are not committed.
pub fn check_start(
    project: &Project,
    mode: Option<IsolationMode>,
    branch: Option<&str>,
    guard: &Guard,
) -> Result<(), GroundError> {
    match mode {
        Some(IsolationMode::InPlace | IsolationMode::None) => return Ok(()),
        Some(IsolationMode::Worktree) | None => {}
    }
    let root = project.root.canonicalize().map_err(GroundError::io("find", &project.root))?;
    let project = &Project { root, ..project.clone() };
    check_version(&Git::searched(&project.root, guard))?;
    if shadow::is_outside(project)? {
        return Ok(());
    }
    let repository = match (discover(&project.root, guard)?, mode) {
        (Surroundings::Repository(repository), _) => repository,
        (Surroundings::Outside, Some(_)) => {
            return Err(GroundError::NotARepository { root: project.root.clone() });
        }
        (Surroundings::Outside, None) => return Ok(()),
    };
    if is_ignored(&project.root, &repository, guard)? {
        return match mode {
            Some(_) => Err(GroundError::Ignored { root: project.root.clone() }),
            None => Ok(()),
        };
    }
    let git = repository.git(guard);
    let drivers = Drivers::off(&git)?;
    let has_filters = !drivers.off.is_empty();
    let git = git.with_drivers(drivers).without_filters();
    let layout = Layout::of(project, &repository.top, &repository.prefix);
    if commit_of(&git, "HEAD")?.is_none() {
        return Err(GroundError::NoCommits { top: layout.top });
    }
    if let Some(name) = branch {
        return usable_branch(&git, name).map(drop);
    }
    // What a killed run left looks like an edit until the next run has put it right, and so does what a filter makes.
    let records = format!("refs/aot/landing/{}", project.key());
    let is_sure = !has_filters && git.read(["for-each-ref", "--count=1", &records])?.is_empty();
    let entry = if is_sure { OpenedFor::Run } else { OpenedFor::Session };
    let checkout = Checkout { git, git_dir: repository.git_dir, layout };
    check_operations(&checkout)?;
    own_branch(&checkout, entry).map(drop)
}
