//! A look at the branch that a loop lands on, by whoever does not drive the loop: a tree of its own, beside those of a run
//! that may be going on. Makes no branch and recovers nothing.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::error::GroundError;
use super::worktrees::Worktrees;
use super::{IsolationRequest, Project, ProjectRepository, open, slots, tree_folder};
use crate::plain_file;
use crate::process::Guard;

/// So many looks at the same time.
const MOST_LOOKS: u32 = 64;

/// A tree of the branch, as the evaluation of a run has one. It is gone when it is closed.
#[derive(Debug)]
pub struct BranchTree {
    trees: Worktrees,
    project: Project,
    /// Held as long as the tree is used. One that only this process knows needs none.
    _number: Option<File>,
}

impl BranchTree {
    /// `None` where the project's own folder is what there is to see: the loop lands there, or the branch is gone (it was
    /// merged, and a run would begin it at the checkout again) or is checked out there.
    pub fn open(
        project: &Project,
        wanted: IsolationRequest,
        guard: &Guard,
    ) -> Result<Option<BranchTree>, GroundError> {
        let Some(landing) = open::branch_elsewhere(project, &wanted, guard)? else { return Ok(None) };
        let (folder, number) = free_folder(&folder(project))?;
        let trees = open::look(project, wanted, guard, landing, folder)?;
        BranchTree::of(trees, project, Some(number)).map(Some)
    }

    /// A tree of the commit that is checked out, as the first worker of the loop `of` would get it, for checks that keep their
    /// evidence elsewhere; `None` where workers have no trees, or where there is no place for one.
    pub fn of_head(
        of: &Project,
        checked: &Project,
        wanted: IsolationRequest,
        guard: &Guard,
    ) -> Result<Option<BranchTree>, GroundError> {
        let Some(head) = open::head_elsewhere(checked, &wanted, guard)? else { return Ok(None) };
        let Some(folder) = tree_folder::for_trial(of) else { return Ok(None) };
        let trees = open::look(checked, wanted, guard, head, folder)?;
        BranchTree::of(trees, checked, None).map(Some)
    }

    fn of(trees: Worktrees, project: &Project, number: Option<File>) -> Result<BranchTree, GroundError> {
        let made = trees.verify_root();
        if made.is_err() && number.is_none() {
            // The first error is the one to report.
            let _ = slots::clear(&trees.common_dir, &trees.trees);
        }
        let (root, repository) = made?;
        let repository = ProjectRepository::Known(repository);
        let project = Project { root, repository, ..project.clone() };
        Ok(BranchTree { trees, project, _number: number })
    }

    /// The project as it is on the branch.
    pub fn project(&self) -> &Project {
        &self.project
    }

    pub fn branch(&self) -> &str {
        self.trees.branch()
    }

    /// Ends what `setup` began, and removes the tree.
    pub fn close(self) -> Result<(), GroundError> {
        let ended = self.trees.close();
        slots::clear(&self.trees.common_dir, &self.trees.trees)?;
        if let Some(folder) = self.trees.trees.parent() {
            // It stays if it holds something.
            let _ = fs::remove_dir(folder);
        }
        ended
    }
}

/// The folder of all looks.
pub(super) fn folder(project: &Project) -> PathBuf {
    project.sidecar.join("looks")
}

/// Removes what killed looks left.
pub(super) fn clear_left(common_dir: &Path, project: &Project) -> Result<(), GroundError> {
    let looks = folder(project);
    for number in (1..=MOST_LOOKS).filter(|number| looks.join(number.to_string()).exists()) {
        if let Some(_held) = lock(&looks, number)? {
            slots::clear(common_dir, &looks.join(number.to_string()))?;
        }
    }
    Ok(())
}

/// A folder in which nobody else looks. What a killed look left there is replaced.
fn free_folder(looks: &Path) -> Result<(PathBuf, File), GroundError> {
    fs::create_dir_all(looks).map_err(GroundError::io("make the folder", looks))?;
    for number in 1..=MOST_LOOKS {
        if let Some(held) = lock(looks, number)? {
            return Ok((looks.join(number.to_string()), held));
        }
    }
    Err(GroundError::io("lock a tree in", looks)(io::ErrorKind::WouldBlock.into()))
}

/// The lock of a numbered folder, unless a look that is going on has it.
fn lock(looks: &Path, number: u32) -> Result<Option<File>, GroundError> {
    let path = looks.join(format!("{number}.lock"));
    let mut options = File::options();
    options.create(true).append(true);
    let file = plain_file::open(&path, &mut options).map_err(GroundError::io("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(GroundError::io("lock", &path)(error)),
    }
}
