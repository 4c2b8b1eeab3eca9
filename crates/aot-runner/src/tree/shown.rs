//! What a commit changed, as a text for a person to read. Runs no program that the repository names, and reads no more than a
//! person would.

use std::time::Duration;

use super::git::{Git, GitError, text};
use super::history::commit_of;
use super::kept::repositories;
use super::{GroundError, Project};
use crate::process::{CallError, CallLimits, Guard};

/// A longer difference is only counted.
const LIMITS: CallLimits = CallLimits { wall: Duration::from_secs(20), output: 2 << 20 };

/// The commit that a name or a reference means, with what it says and what it changed; `None` if there is none.
pub fn shown(project: &Project, name: &str, guard: &Guard) -> Result<Option<String>, GroundError> {
    for (git, _) in repositories(project, guard) {
        let git = git.within(LIMITS);
        if git.query(["rev-parse", "--git-dir"])?.code == 0
            && let Some(commit) = commit_of(&git, name)?
        {
            return Ok(Some(drawn(&git, &commit)?));
        }
    }
    Ok(None)
}

fn drawn(git: &Git, commit: &str) -> Result<String, GitError> {
    let head = text(&git.read(["log", "-1", "--no-color", "--format=commit %H%n%n%B", commit])?);
    // What is kept of several tries stands on all of them; the first parent is what it began at.
    let parent = commit_of(git, &format!("{commit}^"))?;
    let changes = |form: &[&str]| {
        let common =
            ["diff-tree", "-r", "--root", "--no-commit-id", "--no-ext-diff", "--no-textconv", "--no-color"];
        let between = parent.as_deref().into_iter().chain([commit]);
        git.read(common.into_iter().chain(form.iter().copied()).chain(between))
    };
    let changed = match changes(&["--patch-with-stat", "--stat=72"]) {
        Err(GitError::Unanswered { cause: CallError::TooMuch(_), .. }) => {
            let counted = text(&changes(&["--stat=72"])?);
            format!("{counted}\n\nThe difference is too long for here: git show {commit}")
        }
        changed => text(&changed?),
    };
    Ok(format!("{head}\n\n{changed}"))
}
