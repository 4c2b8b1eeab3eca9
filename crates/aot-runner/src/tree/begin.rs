//! A repository from nothing, with all that lies in a folder as its first commit.

use std::path::Path;

use super::GroundError;
use super::git::Git;

pub fn begin(folder: &Path, message: &str) -> Result<(), GroundError> {
    let git = Git::at(folder);
    git.change(["init", "-q", "-b", "main"])?;
    let git = git.with_identity()?;
    git.change(["add", "-A"])?;
    git.change(["commit", "-q", "-m", message])?;
    Ok(())
}
