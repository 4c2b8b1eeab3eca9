//! Errors of trees, landings and rollbacks. A message names the thing and the place, `hint` the remedy.

use std::io;
use std::path::{Path, PathBuf};

use aot_core::state::AtomId;

use super::git::GitError;

/// How many paths a message names; the rest is counted.
const NAMED: usize = 5;

#[derive(Debug, thiserror::Error)]
pub enum GroundError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("git {found} is too old: {needed} is the first that can merge without a checkout")]
    TooOld { found: String, needed: String },
    #[error("{root} is not in a git repository")]
    NotARepository { root: PathBuf },
    #[error("{root} is in a repository that git does not open: {}", first_line(.words))]
    Unopened { root: PathBuf, words: String },
    #[error("{root} has no files of a repository: it is bare, or inside of `.git`")]
    NoWorkTree { root: PathBuf },
    #[error("the repository at {top} has no commit yet")]
    NoCommits { top: PathBuf },
    #[error("no branch is checked out in {top}, so there is none to land on")]
    Detached { top: PathBuf },
    #[error("a {operation} is in progress in {top}")]
    InProgress { top: PathBuf, operation: &'static str },
    #[error("{top} has uncommitted changes: {}", named(.paths))]
    Dirty { top: PathBuf, paths: Vec<String> },
    #[error("the repository at {top} has submodules, whose folders are empty in a worktree: {}", named(.paths))]
    Submodules { top: PathBuf, paths: Vec<String> },
    #[error("{atom} writes only in the submodule {path}, where nothing can land from here")]
    OnlyInSubmodule { atom: AtomId, path: String },
    #[error("{root} is in a folder that its repository ignores, so a worktree would not have it")]
    Ignored { root: PathBuf },
    #[error("`{name}` cannot be the name of a branch: {words}")]
    BadBranch { name: String, words: String },
    #[error("the branch `{name}` is checked out in {at}")]
    CheckedOut { name: String, at: PathBuf },
    #[error("the branch `{name}`, on which this run lands, is gone")]
    BranchGone { name: String },
    #[error("`{path}` in `isolation.{key}` is not a path below the project")]
    BadPath { key: &'static str, path: String },
    #[error("`{address}` cannot be the address of a repository")]
    BadAddress { address: String },
    #[error("`isolation.{key}` {how}: {command}\n{tail}")]
    Setup { key: &'static str, command: String, how: String, tail: String },
    #[error("{root} holds repositories of its own, which a snapshot cannot hold: {}", named(.paths))]
    Nested { root: PathBuf, paths: Vec<String> },
    #[error("the landlock cage cannot keep a worker that works in {root} itself from its `.git`")]
    OpenRepository { root: PathBuf },
    #[error("{root} is lent to {holder} already, and without worktrees there is one worker at a time")]
    Lent { root: PathBuf, holder: String },
    #[error("`{name}` in the configuration of git has a name that cannot be given on a command line")]
    OddDriver { name: String },
    #[error("the configuration of git includes {path}, which lies where workers write")]
    Included { path: PathBuf },
    #[error("a landing was interrupted, and {lock} is still held")]
    StillLocked { lock: PathBuf },
    #[error(
        "the work of this loop was done in {root} itself, and nothing was recorded from which it could be taken back"
    )]
    WorkedInPlace { root: PathBuf },
    #[error("nothing that this loop did is left to take back in {root}")]
    NothingInPlace { root: PathBuf },
    #[error("what {atom} did cannot be taken back: it was changed since, in {}", named(.paths))]
    ChangedSince { atom: String, paths: Vec<String>, git_dir: PathBuf },
    #[error("there is no commit of this loop to take back on {}", .branches.join(" or "))]
    NothingLanded { branches: Vec<String> },
    #[error("commit {} ({subject}) cannot be taken back: what came later stands on it, in {}", &.commit[..7], named(.paths))]
    UndoConflict { commit: String, subject: String, paths: Vec<String> },
    #[error("the work cannot be taken back: {reason}")]
    NotUndone { reason: String },
    #[error("cannot {doing} {path}")]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
}

impl GroundError {
    /// Whether git found no room on the disk.
    pub(super) fn is_full_disk(&self) -> bool {
        let words = ["No space left on device", "Disk quota exceeded"];
        if let GroundError::Git(GitError::Refused { message, .. }) = self {
            return words.iter().any(|words| message.contains(words));
        }
        let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        matches!(self, GroundError::Io { source, .. } if kinds.contains(&source.kind()))
    }

    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> GroundError {
        let path = path.to_path_buf();
        move |source| GroundError::Io { doing, path, source }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> String {
        match self {
            GroundError::Git(GitError::Missing) => {
                "install git, or set `isolation: {mode: none}` to work without trees, commits and rollbacks"
                    .into()
            }
            GroundError::Git(GitError::NotStarted(_)) => "see the cause, and repeat".into(),
            GroundError::Git(GitError::Unanswered { .. }) => {
                "try the command by hand: a filter, a credential helper or a disk may hang".into()
            }
            GroundError::Git(GitError::Locked { .. }) => {
                "close the program that works in the repository, or remove the lock file if there is none"
                    .into()
            }
            GroundError::Git(GitError::Refused { .. }) => "see git's words above, and repeat".into(),
            GroundError::TooOld { needed, .. } => {
                format!("install git {needed} or later, or set `isolation: {{mode: none}}`")
            }
            GroundError::NotARepository { .. } => {
                "type `git init && git add -A && git commit -m start`, or leave `isolation.mode` out".into()
            }
            GroundError::Unopened { root, words } if words.contains("dubious ownership") => {
                format!(
                    "it belongs to another user; if you trust it, type `git config --global --add safe.directory '{}'`",
                    root.display()
                )
            }
            GroundError::Unopened { .. } => {
                "`git status` says the same there; repair the repository, or set `isolation: {mode: in_place}` to do \
                 without it"
                    .into()
            }
            GroundError::NoWorkTree { .. } => "run it in a checkout of the repository".into(),
            GroundError::NoCommits { .. } => "type `git add -A && git commit -m start`".into(),
            GroundError::Detached { .. } => {
                "type `git switch -c NAME`, or name a branch with `--branch NAME`".into()
            }
            GroundError::InProgress { operation, .. } => {
                format!(
                    "finish it, or type `git {operation} --abort`, or land elsewhere with `--branch NAME`"
                )
            }
            GroundError::Dirty { .. } => {
                "commit them, type `git stash`, or leave them alone and land elsewhere with `--branch NAME`"
                    .into()
            }
            GroundError::Submodules { paths, .. } => format!(
                "set `isolation: {{share: [{}]}}` to let workers read them; edits in a submodule never land",
                paths.join(", ")
            ),
            GroundError::OnlyInSubmodule { atom, path } => format!(
                "run a loop in {path} itself, or give {atom} other paths in `writes`; a commit there is a pointer here"
            ),
            GroundError::Ignored { .. } => {
                "leave `isolation.mode` out to work in place, or move the project".into()
            }
            GroundError::BadBranch { .. } => "name another with `--branch NAME`".into(),
            GroundError::CheckedOut { .. } => {
                "name another with `--branch NAME`, or run there without `--branch`".into()
            }
            GroundError::BranchGone { name } => {
                format!("make it again with `git branch {name} COMMIT`, and repeat")
            }
            GroundError::BadAddress { .. } => {
                "name a remote of the repository, or an address like `ssh://me@host/path/to/repository`".into()
            }
            GroundError::BadPath { .. } => "name a file or folder of the project, like `node_modules`".into(),
            GroundError::Setup { .. } => "try the command in a fresh `git worktree` of the project".into(),
            GroundError::Nested { .. } => {
                "run in one of them, list them in a `.gitignore`, or set `isolation: {mode: none}`".into()
            }
            GroundError::OpenRepository { .. } => {
                "leave `isolation.mode` out, so that each worker has a worktree, or install bubblewrap".into()
            }
            GroundError::OddDriver { .. } => "give it a name without `=`".into(),
            GroundError::Included { .. } => {
                "move it out of the project, and type `git config include.path PATH`".into()
            }
            GroundError::Lent { .. } => "wait for it, or work in a git repository".into(),
            GroundError::StillLocked { lock } => {
                format!(
                    "wait for the git command that runs there; if there is none, remove {}",
                    lock.display()
                )
            }
            GroundError::WorkedInPlace { .. } => {
                "restore the files from a backup; a loop in a git repository lands commits".into()
            }
            GroundError::NothingInPlace { .. } => "`aot log` shows what it did".into(),
            GroundError::ChangedSince { git_dir, .. } => format!(
                "nothing was changed; make these files again as the loop left them, and repeat: \
                 `git --git-dir={} log -p -- PATH` shows them",
                git_dir.display()
            ),
            GroundError::NothingLanded { .. } => {
                "name the branch that has its commits: `aot undo --branch NAME`".into()
            }
            GroundError::UndoConflict { commit, .. } => format!(
                "nothing was changed; type `git revert {}` and solve the conflict, then repeat",
                &commit[..7]
            ),
            GroundError::NotUndone { .. } => {
                "nothing was changed; commit or stash your edits, or free the branch, and repeat".into()
            }
            GroundError::Io { .. } => "see the cause, and repeat".into(),
        }
    }
}

/// What git says, without its advice.
fn first_line(words: &str) -> &str {
    words.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

/// The first paths, and how many more there are.
pub(super) fn named(paths: &[String]) -> String {
    let first = paths.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match paths.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
