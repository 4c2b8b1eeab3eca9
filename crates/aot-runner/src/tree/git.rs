//! Runs one git command, without the variables that would point it at another repository, and returns its output or its
//! own error message. Knows nothing of atoms, nor which commands make sense.
//!
//! Git is told its git folder and its work tree. It may look for them itself only where no worker has been: a `.git` that
//! a worker made would bring a configuration, and a configuration names programs.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::drivers::{Configured, Drivers};
use crate::process::{Call, CallError, CallLimits, Guard};

/// How long to wait for a lock that another process holds, and the pause between two tries.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// How long one command may take: a first checkout of a large repository through filters takes minutes, and what takes
/// longer than this hangs.
const COMMAND_LIMIT: Duration = Duration::from_secs(10 * 60);

/// How much one command may print: the list of a million files is a tenth of it.
const OUTPUT_LIMIT: usize = 1 << 30;

/// Variables that would point git at another repository, as `git rev-parse --local-env-vars` lists them. Configuration
/// that the user gives by the environment stays.
const REPOSITORY_VARIABLES: [&str; 20] = [
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
    "GIT_ATTR_SOURCE",
    "GIT_EXTERNAL_DIFF",
];

/// The author of commits where git is configured without one.
const FALLBACK_IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "aot"),
    ("GIT_AUTHOR_EMAIL", "aot@localhost"),
    ("GIT_COMMITTER_NAME", "aot"),
    ("GIT_COMMITTER_EMAIL", "aot@localhost"),
];

/// Keeps git from running hooks, monitors and other programs, asking for a signature, cleaning up in the background,
/// going into submodules, or refusing a file for its line ends.
const OWN_SETTINGS: [&str; 12] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "log.showSignature=false",
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
    #[error("git cannot be started: {0}")]
    NotStarted(io::Error),
    #[error("`git {command}` in {folder} has no answer: {cause}")]
    Unanswered { command: String, folder: PathBuf, cause: CallError },
    #[error("another process holds a lock of the repository: {message}")]
    Locked { message: String },
    #[error("`git {command}` in {folder} ended with {code}: {message}")]
    Refused { command: String, folder: PathBuf, code: i32, message: String },
}

impl GitError {
    /// Whether git was ended by a signal, so that it could not clean up.
    pub(super) fn is_death(&self) -> bool {
        matches!(self, GitError::Refused { code, .. } if *code < 0)
    }
}

/// A repository: where it lies, and what of the user's settings is overridden.
#[derive(Clone, Debug)]
pub(super) struct Git {
    /// Starts it, and ends it with us.
    guard: Guard,
    folder: PathBuf,
    place: RepositoryLocation,
    index: Option<PathBuf>,
    identity: Identity,
    drivers: Arc<Drivers>,
    filters: Filters,
    limits: CallLimits,
}

/// What becomes of the user's filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filters {
    Caged,
    Off,
}

#[derive(Clone, Debug)]
enum RepositoryLocation {
    /// Git looks for it, from the folder upwards.
    Searched,
    Named {
        git_dir: PathBuf,
        work_tree: PathBuf,
    },
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
    /// Git looks for the repository of this folder, which only people have written in.
    pub fn searched(folder: &Path, guard: &Guard) -> Git {
        Git {
            guard: guard.clone(),
            folder: folder.to_path_buf(),
            place: RepositoryLocation::Searched,
            index: None,
            identity: Identity::Configured,
            drivers: Arc::default(),
            filters: Filters::Caged,
            limits: CallLimits { wall: COMMAND_LIMIT, output: OUTPUT_LIMIT },
        }
    }

    /// Exactly this git folder and this work tree, whatever lies at `.git` in it.
    pub fn pinned(git_dir: &Path, work_tree: &Path, guard: &Guard) -> Git {
        let place =
            RepositoryLocation::Named { git_dir: git_dir.to_path_buf(), work_tree: work_tree.to_path_buf() };
        Git { place, ..Git::searched(work_tree, guard) }
    }

    /// What starts it.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The same repository, with commands run in a folder of its work tree: what they print is relative to it.
    pub fn in_folder(&self, folder: &Path) -> Git {
        Git { folder: folder.to_path_buf(), ..self.clone() }
    }

    /// With programs of the user's configuration replaced by these settings.
    pub fn with_drivers(&self, drivers: Drivers) -> Git {
        Git { drivers: Arc::new(drivers), ..self.clone() }
    }

    /// The same, and no filter runs: for whoever looks at files. What a filter would change counts as it is on disk.
    pub fn without_filters(&self) -> Git {
        Git { filters: Filters::Off, ..self.clone() }
    }

    /// The same with other limits for each command.
    pub fn within(&self, limits: CallLimits) -> Git {
        Git { limits, ..self.clone() }
    }

    pub fn with_index(&self, index: &Path) -> Git {
        Git { index: Some(index.to_path_buf()), ..self.clone() }
    }

    /// With a name for commits, if git knows none.
    pub fn with_identity(self, configured: &Configured) -> Result<Git, GitError> {
        if configured.has_identity() {
            return Ok(self);
        }
        let known = |which| Ok::<bool, GitError>(self.query(["var", which])?.code == 0);
        let identity = match known("GIT_AUTHOR_IDENT")? && known("GIT_COMMITTER_IDENT")? {
            true => Identity::Configured,
            false => Identity::Fallback,
        };
        Ok(Git { identity, ..self })
    }

    /// With the name and the drivers of another one.
    pub fn like(self, other: &Git) -> Git {
        Git { identity: other.identity, drivers: Arc::clone(&other.drivers), ..self }
    }

    /// Runs a command that reads; its exit code is part of the answer. One that was ended by a signal has none.
    pub fn query<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Result<GitOutput, GitError> {
        self.run_when_unlocked(&owned(args), &[], Locks::None)
    }

    /// The same for a command that reads standard input.
    pub fn query_with_input<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        input: &[u8],
    ) -> Result<GitOutput, GitError> {
        self.run_when_unlocked(&owned(args), input, Locks::None)
    }

    /// Asks for something that may not be there: what was found, or nothing if git says no with exit code 1. A git that dies,
    /// or cannot read, is no answer: taken for a no, it would let a recovery believe that nothing had been begun.
    pub fn find<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Option<Vec<u8>>, GitError> {
        let args = owned(args);
        let output = self.run_when_unlocked(&args, &[], Locks::None)?;
        match output.code {
            0 => Ok(Some(output.stdout)),
            1 => Ok(None),
            code => Err(self.refused(&args, code, output.stderr)),
        }
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
        let command = name_of(args);
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
            if output.code < 0 {
                // Taken for a no, it would go unnoticed that it may have left locks.
                return Err(self.refused(args, output.code, output.stderr));
            }
            if output.code == 0 || !is_locked(&output.stderr) {
                return Ok(output);
            }
            if began.elapsed() > LOCK_PATIENCE || self.guard.interrupt().is_asked() {
                return Err(GitError::Locked { message: output.stderr });
            }
            std::thread::sleep(LOCK_PAUSE);
        }
    }

    fn run_once(&self, args: &[OsString], input: &[u8], locks: Locks) -> Result<GitOutput, GitError> {
        let mut own = Vec::new();
        match &self.place {
            RepositoryLocation::Searched => {}
            RepositoryLocation::Named { git_dir, work_tree } => {
                own.push(("GIT_DIR", git_dir.as_os_str()));
                own.push(("GIT_WORK_TREE", work_tree.as_os_str()));
            }
        }
        if let Some(index) = &self.index {
            own.push(("GIT_INDEX_FILE", index.as_os_str()));
        }
        let mut words: Vec<OsString> = vec!["-C".into(), self.folder.clone().into()];
        match locks {
            Locks::None => own.push(("GIT_OPTIONAL_LOCKS", OsStr::new("0"))),
            Locks::Needed => {}
        }
        let drivers = match self.filters {
            Filters::Caged => &self.drivers.caged,
            Filters::Off => &self.drivers.off,
        };
        let settings = OWN_SETTINGS.into_iter().chain(drivers.iter().map(String::as_str));
        words.extend(settings.flat_map(|setting| ["-c", setting]).map(OsString::from));
        match self.identity {
            Identity::Configured => {}
            Identity::Fallback => {
                own.extend(FALLBACK_IDENTITY.iter().map(|(name, value)| (*name, OsStr::new(value))));
            }
        }
        words.extend_from_slice(args);
        let called = self.guard.call(&Call {
            program: OsStr::new("git"),
            arguments: &words,
            // A tree that is gone is for git to complain of.
            folder: Path::new("/"),
            environment: environment(&own),
            input,
            limits: self.limits,
        });
        match called {
            Ok(called) => Ok(GitOutput {
                // A process without an exit code was killed by a signal.
                code: called.code.unwrap_or(-1),
                stdout: called.output,
                stderr: text(&called.errors),
            }),
            Err(CallError::NotStarted(error)) => Err(match error.kind() {
                io::ErrorKind::NotFound => GitError::Missing,
                _ => GitError::NotStarted(error),
            }),
            Err(cause) => {
                let command = name_of(args);
                Err(GitError::Unanswered { command, folder: self.folder.clone(), cause })
            }
        }
    }
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

/// The records that `-z` separates.
pub(super) fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == 0).filter(|record| !record.is_empty())
}

/// Our own variables without those that would point git elsewhere, and these.
pub(crate) fn environment(own: &[(&str, &OsStr)]) -> Vec<(OsString, OsString)> {
    let ours = std::env::vars_os()
        .filter(|(name, _)| !REPOSITORY_VARIABLES.iter().any(|removed| OsStr::new(removed) == name));
    let always = [("LC_ALL", OsStr::new("C")), ("GIT_TERMINAL_PROMPT", OsStr::new("0"))];
    let own = always.iter().chain(own).map(|(name, value)| (OsString::from(name), OsString::from(value)));
    ours.chain(own).collect()
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

/// The command, behind the settings that it is given.
fn name_of(args: &[OsString]) -> String {
    let mut words = args.iter();
    while let Some(word) = words.next() {
        if word != "-c" {
            return word.to_string_lossy().into_owned();
        }
        words.next();
    }
    String::new()
}
