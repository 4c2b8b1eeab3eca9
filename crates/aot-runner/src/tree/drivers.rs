//! The user's own merge drivers: programs that the user's configuration names and attributes choose. A worker writes
//! attributes, and may have written the program, so none of them is run.

use super::git::{Git, GitError, records};

/// Merges as git does without a driver.
const PLAIN_MERGE: &str = "git merge-file -q --marker-size=%L %A %O %B";

/// What keeps git from running them.
pub(super) fn settings(git: &Git) -> Result<Vec<String>, GitError> {
    let configured = git.query(["config", "-z", "--name-only", "--get-regexp", r"^merge\..*\.driver$"])?;
    let names = records(&configured.stdout).map(|name| String::from_utf8_lossy(name).into_owned());
    Ok(names.map(|name| format!("{name}={PLAIN_MERGE}")).collect())
}
