//! Makes a folder a repository whose first commit has all that is in it.

use std::path::Path;

use super::GroundError;
use super::drivers::Configured;
use super::git::Git;
use crate::process::Guard;

pub fn begin(folder: &Path, message: &str, guard: &Guard) -> Result<(), GroundError> {
    let git = Git::searched(folder, guard);
    git.write(["init", "-q", "-b", "main"])?;
    let configured = Configured::read(&git)?;
    let git = git.with_identity(&configured)?;
    git.write(["add", "-A"])?;
    git.write(["commit", "-q", "-m", message])?;
    Ok(())
}
