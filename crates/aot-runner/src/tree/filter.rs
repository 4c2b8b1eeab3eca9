//! The process that git starts in the place of one of the user's filters: it runs the filter in the workers' cage and passes
//! on what goes in and comes out. Knows nothing of what a filter does.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::drivers::FilterRunner;
use super::error::GroundError;
use super::intents;
use crate::process::cage::Cage;
use crate::process::{Environment, Feed, Guard, How, Job, Limits, Stream, Streams};
use crate::scratch;
use crate::shell;

/// The first word on the command line of a filter.
pub(super) const WORD: &str = "__filter";

/// How long one filter may run, which may be for all files of a command, and its grace period after that.
const FILTER_LIMIT: Duration = Duration::from_secs(30 * 60);
const GRACE: Duration = Duration::from_secs(1);

/// What git tells a filter of the repository.
const TOLD_BY_GIT: [&str; 4] = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"];

/// How the filters of a repository run, on disk. Paths and variables may be any bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FilterOrder {
    guard: Vec<u8>,
    scratch: Vec<u8>,
    /// Where git-lfs keeps the files that it takes out of the repository.
    storage: Vec<u8>,
    cage: Option<Vec<u8>>,
    /// All of the filter's variables, or ours if nothing is said. One without a value has the value that it has for us, so
    /// that no secret comes to lie on disk.
    variables: Option<Vec<StoredVariable>>,
    /// The user's commands, by the names of their settings.
    commands: BTreeMap<String, String>,
}

/// Its name, and its value if that is not ours.
type StoredVariable = (Vec<u8>, Option<Vec<u8>>);

/// Becomes a filter if the words say so.
pub fn is_called(words: &[OsString]) -> bool {
    words.get(1).is_some_and(|word| word == WORD)
}

/// `__filter ORDER SETTING [PATH]`, started by git with the content on standard input.
pub fn run(words: &[OsString]) -> ExitCode {
    let [_, _, file, name, path @ ..] = words else { return ExitCode::from(2) };
    let order = intents::read::<FilterOrder>(Path::new(file)).map_err(io::Error::other);
    let ran = order.and_then(|order| {
        let order = order.ok_or_else(|| io::Error::other("nothing says how the filter is to run"))?;
        order.run(&name.to_string_lossy(), path.first().map(OsString::as_os_str))
    });
    match ran {
        Ok(How::Exited(code)) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Ok(how) => complain(&format!("the filter ended: {how:?}")),
        Err(error) => complain(&error.to_string()),
    }
}

/// Git passes it on.
fn complain(problem: &str) -> ExitCode {
    // Without a reader there is nobody to tell.
    let _ = writeln!(io::stderr(), "aot: {problem}");
    ExitCode::FAILURE
}

impl FilterOrder {
    pub fn new(
        runner: &FilterRunner<'_>,
        storage: PathBuf,
        commands: BTreeMap<String, String>,
    ) -> Result<FilterOrder, GroundError> {
        let FilterRunner { guard, confined, sidecar, .. } = runner;
        let scratch = scratch::parent(sidecar);
        fs::create_dir_all(&scratch).map_err(GroundError::io("make the folder", &scratch))?;
        let cage = confined.cage().map(Cage::encoded).transpose();
        let cage = cage.map_err(|error| GroundError::io("write", sidecar)(io::Error::other(error)))?;
        let variables = match confined.environment(Vec::new()) {
            Environment::OursAnd(_) => None,
            Environment::Only(variables) => {
                let stored = |(name, value): (OsString, OsString)| {
                    let own = Some(value).filter(|value| std::env::var_os(&name).as_ref() != Some(value));
                    (name.into_vec(), own.map(OsString::into_vec))
                };
                Some(variables.into_iter().map(stored).collect())
            }
        };
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        Ok(FilterOrder {
            guard: bytes(guard.program()),
            scratch: bytes(&scratch),
            storage: bytes(&storage),
            cage,
            variables,
            commands,
        })
    }

    fn run(self, name: &str, path: Option<&OsStr>) -> io::Result<How> {
        let command = self.commands.get(name).ok_or_else(|| io::Error::other("there is no such filter"))?;
        let of = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let scratch = scratch::make_in(&of(&self.scratch), "filter")?;
        let cage = match &self.cage {
            None => None,
            Some(bytes) => {
                let cage = Cage::decoded(bytes);
                let mut cage = cage.ok_or_else(|| io::Error::other("the filter's cage cannot be read"))?;
                // The folder for temporary files that this cage came with is gone by now.
                cage.writable.retain(|path| path.exists());
                cage.writable.push(scratch.path().to_path_buf());
                if is_large_files(command) {
                    fs::create_dir_all(of(&self.storage))?;
                    cage.writable.push(of(&self.storage));
                }
                Some(cage)
            }
        };
        let told = TOLD_BY_GIT.map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
        let temporary = ["TMPDIR", "TMP", "TEMP"].map(|name| (name.into(), scratch.path().into()));
        let own = told.into_iter().flatten().chain(temporary);
        let environment = match &self.variables {
            None => Environment::OursAnd(own.collect()),
            Some(variables) => {
                let known = variables.iter().filter_map(|(name, value)| {
                    let name = OsString::from_vec(name.clone());
                    let value = value.clone().map(OsString::from_vec).or_else(|| std::env::var_os(&name))?;
                    Some((name, value))
                });
                Environment::Only(known.chain(own).collect())
            }
        };
        let feed = Feed::make(&scratch.path().join("content"))?;
        let job = Job {
            program: shell::program(None, command),
            arguments: vec!["-c".into(), expanded(command, path)],
            folder: std::env::current_dir()?,
            environment,
            input: feed.input(),
            streams: Streams::Apart,
            limits: Limits { wall: FILTER_LIMIT, idle: None, grace: GRACE, head: 0, tail: 0 },
            cage,
        };
        let name = feed.pour(io::stdin())?;
        let tap = |stream: Stream, bytes: &[u8]| {
            // If git has stopped listening it has ended, and so do we.
            let _ = match stream {
                Stream::Output => io::stdout().write_all(bytes).and_then(|()| io::stdout().flush()),
                Stream::Errors => io::stderr().write_all(bytes),
            };
        };
        let ended = Guard::new(of(&self.guard)).run_heard(&job, Arc::new(tap));
        drop(name);
        Ok(ended?.how)
    }
}

/// Whether it is git-lfs, the one filter that keeps something of its own.
fn is_large_files(command: &str) -> bool {
    let mut words = command.split_whitespace();
    match words.next() {
        Some("git-lfs") => true,
        Some("git") => words.next() == Some("lfs"),
        Some(_) | None => false,
    }
}

/// As git expands the command of a filter.
fn expanded(command: &str, path: Option<&OsStr>) -> OsString {
    let mut words = OsString::new();
    let mut rest = command;
    while let Some((before, after)) = rest.split_once('%') {
        words.push(before);
        rest = match (after.strip_prefix('f'), after.strip_prefix('%'), path) {
            (Some(rest), _, Some(path)) => {
                words.push(quoted(path));
                rest
            }
            (_, Some(rest), Some(_)) => {
                words.push("%");
                rest
            }
            (..) => {
                words.push("%");
                after
            }
        };
    }
    words.push(rest);
    words
}

/// As a shell takes it for one word.
pub(super) fn quoted(word: &OsStr) -> OsString {
    let mut bytes = vec![b'\''];
    for byte in word.as_bytes() {
        match byte {
            b'\'' => bytes.extend(b"'\\''"),
            byte => bytes.push(*byte),
        }
    }
    bytes.push(b'\'');
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_expanded_as_git_does() {
        let check = |command: &str, path: Option<&str>, expected: &str| {
            assert_eq!(expanded(command, path.map(OsStr::new)), OsString::from(expected));
        };
        check("git-lfs clean -- %f", Some("a b"), "git-lfs clean -- 'a b'");
        check("x %f %f", Some("it's"), r"x 'it'\''s' 'it'\''s'");
        check("x 100%% %s %", Some("a"), "x 100% %s %");
        // A filter for many files is told their names otherwise, and git leaves its command as it is.
        check("x %f %%", None, "x %f %%");
    }
}
