//! One git command: started without what the environment says of other repositories, read to its end, and its refusal
//! told in git's own words. Knows no atoms, and which commands make sense.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a lock that somebody else holds is waited for, and how often it is tried.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// What points git at another repository than the one that was named. `git rev-parse --local-env-vars` lists them; the
/// configuration that a user gives by the environment stays.
const ELSEWHERE: [&str; 18] = [
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

/// For whoever has told git no name: commits need one.
const NOBODY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "aot"),
    ("GIT_AUTHOR_EMAIL", "aot@localhost"),
    ("GIT_COMMITTER_NAME", "aot"),
    ("GIT_COMMITTER_EMAIL", "aot@localhost"),
];

/// What our own commands must not do: run hooks, ask for a signature, clean up in the background, go into submodules,
/// or refuse a file for its line ends.
const QUIET: [&str; 10] = [
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
    #[error("somebody else holds a lock of the repository: {words}")]
    Locked { words: String },
    #[error("`git {command}` in {folder} ended with {code}: {words}")]
    Refused { command: String, folder: PathBuf, code: i32, words: String },
}

/// A repository, or a folder of which git is to find out.
#[derive(Clone, Debug)]
pub(super) struct Git {
    folder: PathBuf,
    /// The git folder and the work tree, where git must not find them by itself.
    pinned: Option<(PathBuf, PathBuf)>,
    index: Option<PathBuf>,
    identity: Identity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    Own,
    /// Nobody told git a name here.
    Nobody,
}

/// What a command said, whatever its exit code.
#[derive(Debug)]
pub(super) struct Said {
    pub code: i32,
    pub out: Vec<u8>,
    pub err: String,
}

#[derive(Clone, Copy)]
enum Locks {
    /// A question must not wait for, or hinder, whoever works in the repository.
    None,
    Needed,
}

impl Git {
    /// Git finds the repository of this folder.
    pub fn at(folder: &Path) -> Git {
        Git { folder: folder.to_path_buf(), pinned: None, index: None, identity: Identity::Own }
    }

    /// Exactly this git folder and this work tree. A tree whose `.git` was removed must not lead to the repository
    /// around it.
    pub fn pinned(git_dir: &Path, work_tree: &Path) -> Git {
        let pinned = Some((git_dir.to_path_buf(), work_tree.to_path_buf()));
        Git { folder: work_tree.to_path_buf(), pinned, index: None, identity: Identity::Own }
    }

    pub fn with_index(&self, index: &Path) -> Git {
        Git { index: Some(index.to_path_buf()), ..self.clone() }
    }

    /// With a name for commits, if git knows none.
    pub fn with_identity(self) -> Result<Git, GitError> {
        let known = |which| Ok::<bool, GitError>(self.ask(["var", which])?.code == 0);
        let identity = match known("GIT_AUTHOR_IDENT")? && known("GIT_COMMITTER_IDENT")? {
            true => Identity::Own,
            false => Identity::Nobody,
        };
        Ok(Git { identity, ..self })
    }

    pub fn identified_as(self, other: &Git) -> Git {
        Git { identity: other.identity, ..self }
    }

    /// A question, whatever the answer's code.
    pub fn ask<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Result<Said, GitError> {
        self.patiently(&own(words), &[], Locks::None)
    }

    /// A question that has an answer.
    pub fn look<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Result<Vec<u8>, GitError> {
        self.successful(&own(words), &[], Locks::None)
    }

    pub fn look_with<S: AsRef<OsStr>>(
        &self,
        words: impl IntoIterator<Item = S>,
        input: &[u8],
    ) -> Result<Vec<u8>, GitError> {
        self.successful(&own(words), input, Locks::None)
    }

    /// An answer that is one line of text.
    pub fn line<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Result<String, GitError> {
        Ok(text(&self.look(words)?))
    }

    /// A command that changes something.
    pub fn change<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Result<Vec<u8>, GitError> {
        self.successful(&own(words), &[], Locks::Needed)
    }

    pub fn change_with<S: AsRef<OsStr>>(
        &self,
        words: impl IntoIterator<Item = S>,
        input: &[u8],
    ) -> Result<Vec<u8>, GitError> {
        self.successful(&own(words), input, Locks::Needed)
    }

    /// A command that changes something, whatever its code.
    pub fn attempt<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Result<Said, GitError> {
        self.patiently(&own(words), &[], Locks::Needed)
    }

    fn successful(&self, words: &[OsString], input: &[u8], locks: Locks) -> Result<Vec<u8>, GitError> {
        let said = self.patiently(words, input, locks)?;
        match said.code {
            0 => Ok(said.out),
            code => Err(self.refused(words, code, said.err)),
        }
    }

    pub fn refused(&self, words: &[OsString], code: i32, err: String) -> GitError {
        let command = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        GitError::Refused { command, folder: self.folder.clone(), code, words: err }
    }

    fn patiently(&self, words: &[OsString], input: &[u8], locks: Locks) -> Result<Said, GitError> {
        let began = Instant::now();
        loop {
            let said = self.once(words, input, locks)?;
            if said.code == 0 || !is_locked(&said.err) {
                return Ok(said);
            }
            if began.elapsed() > LOCK_PATIENCE {
                return Err(GitError::Locked { words: said.err });
            }
            std::thread::sleep(LOCK_PAUSE);
        }
    }

    fn once(&self, words: &[OsString], input: &[u8], locks: Locks) -> Result<Said, GitError> {
        let mut command = bare(&self.folder);
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
                command.args(QUIET.iter().flat_map(|setting| ["-c", setting]));
            }
        }
        match self.identity {
            Identity::Own => {}
            Identity::Nobody => {
                command.envs(NOBODY);
            }
        }
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
        // Ctrl-C is for us: a landing that has begun is brought to its end.
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if self.folder.is_dir() => GitError::Missing,
            _ => GitError::NotStarted(error),
        })?;
        let output = std::thread::scope(|scope| {
            if let Some(mut stdin) = child.stdin.take() {
                // If git does not read all of it, its code says why.
                scope.spawn(move || drop(stdin.write_all(input)));
            }
            child.wait_with_output().map_err(GitError::NotStarted)
        })?;
        Ok(Said {
            // Without a code it was killed.
            code: output.status.code().unwrap_or(-1),
            out: output.stdout,
            err: text(&output.stderr),
        })
    }
}

/// A command that only looks, for those who read it by themselves.
pub(super) fn looking(folder: &Path) -> Command {
    let mut command = bare(folder);
    command.env("GIT_OPTIONAL_LOCKS", "0");
    command
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

/// What `-z` separates.
pub(super) fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == 0).filter(|record| !record.is_empty())
}

fn bare(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0");
    ELSEWHERE.iter().for_each(|name| {
        command.env_remove(name);
    });
    command
}

fn own<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Vec<OsString> {
    words.into_iter().map(|word| word.as_ref().to_owned()).collect()
}

/// `Unable to create '….lock': File exists` is what git says of every lock, of the index and of refs.
fn is_locked(words: &str) -> bool {
    // A worktree that another git is just registering cannot be read for a moment.
    let half_made = words.contains("failed to read") && words.contains("/worktrees/");
    words.contains(".lock': File exists") || half_made
}
