//! What git makes of the state file, and telling it not to show it: in the user's own list, `info/exclude`, never in a file
//! that is shared. Also what in the checkout is not committed, for whoever only looks.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::content::Project;
use super::drivers::Drivers;
use super::error::GroundError;
use super::git::{Git, GitError, records, text};
use crate::plain_file;
use crate::process::Guard;

/// What git says of the state file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateInGit {
    NoRepository,
    Tracked,
    Ignored,
    /// It is shown among the untracked files, and `git add -A` would take it.
    Untracked,
}

pub fn state_in_git(project: &Project, guard: &Guard) -> Result<StateInGit, GitError> {
    let git = Git::searched(&project.root, guard);
    if git.query(["rev-parse", "--is-inside-work-tree"])?.stdout.trim_ascii() != b"true" {
        return Ok(StateInGit::NoRepository);
    }
    let state = project.state.as_os_str();
    let is = |words: [&str; 3]| Ok(git.query(words.map(AsRef::as_ref).into_iter().chain([state]))?.code == 0);
    if is(["ls-files", "--error-unmatch", "--"])? {
        return Ok(StateInGit::Tracked);
    }
    Ok(if is(["check-ignore", "-q", "--"])? { StateInGit::Ignored } else { StateInGit::Untracked })
}

/// Tells git not to show the state file, if it would. The answer is the list in which that stands now, or nothing where it
/// was not needed.
pub fn ignore_state(project: &Project, guard: &Guard) -> Result<Option<PathBuf>, String> {
    match state_in_git(project, guard).map_err(|error| error.to_string())? {
        StateInGit::NoRepository | StateInGit::Tracked | StateInGit::Ignored => return Ok(None),
        StateInGit::Untracked => {}
    }
    let git = Git::searched(&project.root, guard);
    let line = |words: &[&str]| git.read_line(words).map_err(|error| error.to_string());
    let list = project.root.join(line(&["rev-parse", "--git-path", "info/exclude"])?);
    let top = PathBuf::from(line(&["rev-parse", "--show-toplevel"])?);
    let Some(path) = below(&top, &project.state) else { return Ok(None) };
    add_line(&list, &format!("/{path}")).map_err(|error| format!("{}: {error}", list.display()))?;
    Ok(Some(list))
}

/// A path as a line of the list names it; without one that the list cannot say plainly.
fn below(top: &Path, state: &Path) -> Option<String> {
    let state = state.canonicalize().ok()?;
    let path = state.strip_prefix(top.canonicalize().ok()?).ok()?.to_str()?;
    let is_plain = |c: char| !c.is_control() && !"*?[]\\".contains(c);
    (path.chars().all(is_plain) && path.trim() == path).then(|| path.to_owned())
}

fn add_line(list: &Path, line: &str) -> io::Result<()> {
    if let Some(folder) = list.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let there = match plain_file::read(list, LONGEST_LIST) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        there => there?,
    };
    let end = if there.is_empty() || there.ends_with(b"\n") { "" } else { "\n" };
    let mut file = plain_file::open(list, File::options().append(true).create(true))?;
    file.write_all(format!("{end}{line}\n").as_bytes())
}

/// A list of ignored files that is longer, in bytes, is left alone.
const LONGEST_LIST: u64 = 1 << 20;

/// Tracked files with uncommitted edits, but for the state file; nothing outside of a repository.
pub fn uncommitted(project: &Project, guard: &Guard) -> Result<Vec<String>, GroundError> {
    let git = Git::searched(&project.root, guard);
    // Comparing files would run the filters that a clone configures.
    let git = git.with_drivers(Drivers::off(&git)?).without_filters();
    if git.query(["rev-parse", "--is-inside-work-tree"])?.stdout.trim_ascii() != b"true" {
        return Ok(Vec::new());
    }
    let words = ["status", "--porcelain", "-z", "--untracked-files=no", "--no-renames"];
    let status = git.read(words.into_iter().chain(["--ignore-submodules=dirty"]))?;
    let name = project.state.file_name().unwrap_or_default().as_encoded_bytes();
    let paths = records(&status).filter_map(|record| record.get(3..));
    Ok(paths.filter(|path| !path.ends_with(name)).map(text).collect())
}
