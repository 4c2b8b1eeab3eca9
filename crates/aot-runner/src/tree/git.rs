//! Runs one git command, without the variables that would point it at another repository, and returns its output or its
//! own error message. Knows nothing of atoms, nor which commands make sense.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long to wait for a lock that another process holds, and the pause between two tries.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Variables that would point git at another repository, as `git rev-parse --local-env-vars` lists them. Configuration
/// that the user gives by the environment stays.
const REPOSITORY_VARIABLES: [&str; 18] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE",
    "GIT_SHALLOW_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_QUARANTINE_PATH",
    "GIT_LITERAL_PATHSPECS",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
];

/// The author of commits where git is configured without one.
const FALLBACK_IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "aot"),
    ("GIT_AUTHOR_EMAIL", "aot@localhost"),
    ("GIT_COMMITTER_NAME", "aot"),
    ("GIT_COMMITTER_EMAIL", "aot@localhost"),
];

/// Keeps commands that write from running hooks, asking for a signature, cleaning up in the background, going into
/// submodules, or refusing a file for its line ends.
const OWN_SETTINGS: [&str; 10] = [
    "core.hooksPath=/dev/null",
    "commit.gpgsign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "core.safecrlf=false",
    "i18n.commitEncoding=UTF-8",
    "advice.addEmbeddedRepo=false",
    // A branch that survives a power cut must not name what did not.
    "core.fsync=objects,reference",
    "core.fsyncMethod=batch",
];

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git is not installed, or not on the PATH")]
    Missing,
    #[error("git cannot be started")]
    NotStarted(#[source] io::Error),
    #[error("another process holds a lock of the repository: {message}")]
    Locked { message: String },
    #[error("`git {command}` in {folder} ended with {code}: {message}")]
    Refused { command: String, folder: PathBuf, code: i32, message: String },
}

/// A repository, or a folder whose repository git finds by itself.
#[derive(Clone, Debug)]
pub(super) struct Git {
    folder: PathBuf,
    /// The git folder and the work tree, where git must not look for them.
    pinned: Option<(PathBuf, PathBuf)>,
    index: Option<PathBuf>,
    identity: Identity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    Configured,
    /// Git has no name and address here, and a commit needs them.
    Fallback,
}

/// What a command printed, whatever its exit code.
#[derive(Debug)]
pub(super) struct GitOutput {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

#[derive(Clone, Copy)]
enum Locks {
    /// A read neither waits for other git processes in the repository nor blocks them.
    None,
    Needed,
}

impl Git {
    /// Git finds the repository of this folder.
    pub fn at(folder: &Path) -> Git {
        Git { folder: folder.to_path_buf(), pinned: None, index: None, identity: Identity::Configured }
    }

    /// Exactly this git folder and this work tree. A tree whose `.git` was removed must not lead to the repository
    /// around it.
    pub fn pinned(git_dir: &Path, work_tree: &Path) -> Git {
        let pinned = Some((git_dir.to_path_buf(), work_tree.to_path_buf()));
        Git { folder: work_tree.to_path_buf(), pinned, index: None, identity: Identity::Configured }
    }

    pub fn with_index(&self, index: &Path) -> Git {
        Git { index: Some(index.to_path_buf()), ..self.clone() }
    }

    /// With a name for commits, if git knows none.
    pub fn with_identity(self) -> Result<Git, GitError> {
        let known = |which| Ok::<bool, GitError>(self.query(["var", which])?.code == 0);
        let identity = match known("GIT_AUTHOR_IDENT")? && known("GIT_COMMITTER_IDENT")? {
            true => Identity::Configured,
            false => Identity::Fallback,
        };
        Ok(Git { identity, ..self })
    }

    pub fn identified_as(self, other: &Git) -> Git {
        Git { identity: other.identity, ..self }
    }

    /// Runs a command that reads; its exit code is part of the answer.
    pub fn query<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Result<GitOutput, GitError> {
        self.run_when_unlocked(&owned(args), &[], Locks::None)
    }

    /// Runs a command that reads and must succeed.
    pub fn read<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Result<Vec<u8>, GitError> {
        self.run_checked(&owned(args), &[], Locks::None)
    }

    pub fn read_with_input<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        input: &[u8],
    ) -> Result<Vec<u8>, GitError> {
        self.run_checked(&owned(args), input, Locks::None)
    }

    /// The same for an answer of one line.
    pub fn read_line<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Result<String, GitError> {
        Ok(text(&self.read(args)?))
    }

    /// Runs a command that changes something and must succeed.
    pub fn write<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Result<Vec<u8>, GitError> {
        self.run_checked(&owned(args), &[], Locks::Needed)
    }

    pub fn write_with_input<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        input: &[u8],
    ) -> Result<Vec<u8>, GitError> {
        self.run_checked(&owned(args), input, Locks::Needed)
    }

    /// Runs a command that changes something; its exit code is part of the answer.
    pub fn try_write<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Result<GitOutput, GitError> {
        self.run_when_unlocked(&owned(args), &[], Locks::Needed)
    }

    fn run_checked(&self, args: &[OsString], input: &[u8], locks: Locks) -> Result<Vec<u8>, GitError> {
        let output = self.run_when_unlocked(args, input, locks)?;
        match output.code {
            0 => Ok(output.stdout),
            code => Err(self.refused(args, code, output.stderr)),
        }
    }

    pub fn refused(&self, args: &[OsString], code: i32, stderr: String) -> GitError {
        let command = args.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        GitError::Refused { command, folder: self.folder.clone(), code, message: stderr }
    }

    fn run_when_unlocked(
        &self,
        args: &[OsString],
        input: &[u8],
        locks: Locks,
    ) -> Result<GitOutput, GitError> {
        let began = Instant::now();
        loop {
            let output = self.run_once(args, input, locks)?;
            if output.code == 0 || !is_locked(&output.stderr) {
                return Ok(output);
            }
            if began.elapsed() > LOCK_PATIENCE {
                return Err(GitError::Locked { message: output.stderr });
            }
            std::thread::sleep(LOCK_PAUSE);
        }
    }

    fn run_once(&self, args: &[OsString], input: &[u8], locks: Locks) -> Result<GitOutput, GitError> {
        let mut command = command_in(&self.folder);
        if let Some((git_dir, work_tree)) = &self.pinned {
            command.env("GIT_DIR", git_dir).env("GIT_WORK_TREE", work_tree);
        }
        if let Some(index) = &self.index {
            command.env("GIT_INDEX_FILE", index);
        }
        match locks {
            Locks::None => {
                command.env("GIT_OPTIONAL_LOCKS", "0");
            }
            Locks::Needed => {
                command.args(OWN_SETTINGS.iter().flat_map(|setting| ["-c", setting]));
            }
        }
        match self.identity {
            Identity::Configured => {}
            Identity::Fallback => {
                command.envs(FALLBACK_IDENTITY);
            }
        }
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
        // A process group of its own: Ctrl-C must not interrupt a landing that has begun.
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if self.folder.is_dir() => GitError::Missing,
            _ => GitError::NotStarted(error),
        })?;
        let output = std::thread::scope(|scope| {
            if let Some(mut stdin) = child.stdin.take() {
                // If git stops reading early, its exit code says why.
                scope.spawn(move || drop(stdin.write_all(input)));
            }
            child.wait_with_output().map_err(GitError::NotStarted)
        })?;
        Ok(GitOutput {
            // A process without an exit code was killed by a signal.
            code: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr: text(&output.stderr),
        })
    }
}

/// A command that reads, for callers that stream its output.
pub(super) fn command(folder: &Path) -> Command {
    let mut command = command_in(folder);
    command.env("GIT_OPTIONAL_LOCKS", "0");
    command
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

/// The records that `-z` separates.
pub(super) fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == 0).filter(|record| !record.is_empty())
}

fn command_in(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0");
    REPOSITORY_VARIABLES.iter().for_each(|name| {
        command.env_remove(name);
    });
    command
}

fn owned<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Vec<OsString> {
    args.into_iter().map(|word| word.as_ref().to_owned()).collect()
}

/// `Unable to create '….lock': File exists` is what git says of every lock, of the index and of refs.
fn is_locked(args: &str) -> bool {
    // A worktree that another git is just registering cannot be read for a moment.
    let half_made = args.contains("failed to read") && args.contains("/worktrees/");
    args.contains(".lock': File exists") || half_made
}
