//! Hands a branch to a code host: pushes it, and lets the user's own program ask for a draft pull request. Git runs here with all
//! that the user has set up, hooks and credential helpers too, because it is the user who pushes. Knows no loop.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::checks::quoted;
use crate::plain_text;
use crate::process::{Call, CallError, CallLimits, Called, Guard};
use crate::tree::git_environment;

/// Whatever a push or a program of a host prints is short.
const OUTPUT_LIMIT: usize = 1 << 20;

/// So many lines of what a program complains are told.
const LINES_TOLD: usize = 12;

#[derive(Debug, thiserror::Error)]
pub enum HostingError {
    #[error("{0} is not installed, or not on the PATH")]
    Missing(String),
    #[error("`{command}` has no answer: {cause}")]
    Unanswered { command: String, cause: CallError },
    #[error("`{command}` did not do it:\n{said}")]
    Failed { command: String, said: String },
    #[error("there is no remote to push to")]
    NoRemote,
    #[error("there is no remote `{0}`")]
    UnknownRemote(String),
    #[error("there are several remotes: {}", .0.join(", "))]
    SeveralRemotes(Vec<String>),
}

impl HostingError {
    pub fn hint(&self) -> &'static str {
        match self {
            HostingError::Missing(_) => "install it",
            HostingError::Unanswered { .. } => {
                "try the command by hand: a hook, a credential helper or the network may hang; `--timeout` gives it longer"
            }
            HostingError::Failed { .. } => "see its words above, and repeat",
            HostingError::NoRemote => "add one: git remote add origin URL",
            HostingError::UnknownRemote(_) => "`git remote -v` lists them",
            HostingError::SeveralRemotes(_) => "say which: --remote NAME",
        }
    }
}

/// Where a branch goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushTarget {
    pub remote: String,
    pub address: String,
    /// The branch that others begin at there; nothing where the remote has none yet.
    pub default_branch: Option<String>,
}

/// A program of a code host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostProgram {
    Gh,
    Glab,
}

impl HostProgram {
    pub fn name(self) -> &'static str {
        match self {
            HostProgram::Gh => "gh",
            HostProgram::Glab => "glab",
        }
    }

    /// What the host calls it.
    pub fn request(self) -> &'static str {
        match self {
            HostProgram::Gh => "pull request",
            HostProgram::Glab => "merge request",
        }
    }

    /// What a person types to make one of a branch that is pushed.
    pub fn to_type(self, branch: &str, body: &str) -> String {
        let (branch, body) = (quoted(branch), quoted(body));
        match self {
            HostProgram::Gh => format!("gh pr create --draft --head {branch} --body-file {body}"),
            HostProgram::Glab => {
                format!("glab mr create --draft --source-branch {branch} --description \"$(cat {body})\"")
            }
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'d> {
    pub branch: &'d str,
    /// The branch that it is to go into; the host's own choice without one.
    pub base: Option<&'d str>,
    pub title: &'d str,
    pub body: &'d str,
    /// A file with the body.
    pub body_file: &'d Path,
}

/// What came of asking for a draft: its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenedDraft {
    New(String),
    /// There was one for this branch, which has the new commits now.
    BeforeAlready(String),
}

/// The user's programs in one folder, all of which have to be done by one moment.
#[derive(Debug)]
pub struct Hosting<'h> {
    guard: &'h Guard,
    folder: &'h Path,
    limit: Duration,
    ends: Instant,
}

impl<'h> Hosting<'h> {
    pub fn new(guard: &'h Guard, folder: &'h Path, limit: Duration) -> Hosting<'h> {
        Hosting { guard, folder, limit, ends: Instant::now() + limit }
    }

    /// The same folder with all of its time again: a person has been asked meanwhile.
    pub fn afresh(&self) -> Hosting<'h> {
        Hosting::new(self.guard, self.folder, self.limit)
    }

    /// The remote that was named, or that one of these branches follows, or the only one.
    pub fn target(&self, named: Option<&str>, branches: &[&str]) -> Result<PushTarget, HostingError> {
        let listed = self.git(&["remote"])?;
        let remotes: Vec<&str> = listed.lines().collect();
        let followed = || {
            branches.iter().find_map(|branch| {
                let setting = format!("branch.{branch}.remote");
                let remote = self.git(&["config", "--get", &setting]).ok()?;
                remotes.iter().find(|known| **known == remote.trim()).copied()
            })
        };
        let remote = match named {
            Some(named) => remotes
                .iter()
                .find(|known| **known == named)
                .copied()
                .ok_or_else(|| HostingError::UnknownRemote(named.to_owned()))?,
            None => match (followed(), remotes.as_slice()) {
                (Some(remote), _) => remote,
                (None, [remote]) => *remote,
                (None, []) => return Err(HostingError::NoRemote),
                (None, several) => {
                    return Err(HostingError::SeveralRemotes(
                        several.iter().map(ToString::to_string).collect(),
                    ));
                }
            },
        };
        let heads = self.git(&["ls-remote", "--symref", remote, "HEAD"])?;
        let head = heads.lines().find_map(|line| line.strip_prefix("ref: refs/heads/"));
        Ok(PushTarget {
            address: without_login(self.git(&["remote", "get-url", remote])?.trim()),
            default_branch: head.and_then(|head| head.split('\t').next()).map(str::to_owned),
            remote: remote.to_owned(),
        })
    }

    /// Pushes a branch under its own name. What the remote has besides stays: a branch that went another way is refused.
    pub fn push(&self, target: &PushTarget, branch: &str) -> Result<(), HostingError> {
        let reference = format!("refs/heads/{branch}:refs/heads/{branch}");
        let words =
            ["push", "--no-force", "--no-follow-tags", "--recurse-submodules=no", &target.remote, &reference];
        self.git(&words).map(drop)
    }

    /// The program that can ask this remote's host, if one is here and logged in.
    pub fn program(&self, target: &PushTarget) -> Option<HostProgram> {
        let is_logged_in = |program: &HostProgram| {
            let mut words = vec!["auth", "status"];
            let host = host_of(&target.address);
            words.extend(host.iter().flat_map(|host| ["--hostname", host]));
            self.run(program.name(), &words).is_ok()
        };
        let order = match target.address.contains("gitlab") {
            true => [HostProgram::Glab, HostProgram::Gh],
            false => [HostProgram::Gh, HostProgram::Glab],
        };
        order.into_iter().find(is_logged_in)
    }

    /// Asks for a draft, unless there is a request for the branch.
    pub fn draft(&self, program: HostProgram, draft: &Draft<'_>) -> Result<OpenedDraft, HostingError> {
        let Draft { branch, base, title, body, body_file } = *draft;
        if let Some(address) = self.existing(program, branch) {
            return Ok(OpenedDraft::BeforeAlready(address));
        }
        let (title, file) = (format!("--title={title}"), format!("--body-file={}", body_file.display()));
        let (head, source) = (format!("--head={branch}"), format!("--source-branch={branch}"));
        let (into, target) =
            (base.map(|base| format!("--base={base}")), base.map(|base| format!("--target-branch={base}")));
        let description = format!("--description={body}");
        let mut words = match program {
            HostProgram::Gh => vec!["pr", "create", "--draft", &title, &file, &head],
            HostProgram::Glab => vec!["mr", "create", "--draft", "--yes", &title, &description, &source],
        };
        words.extend(match program {
            HostProgram::Gh => into.as_deref(),
            HostProgram::Glab => target.as_deref(),
        });
        let said = self.run(program.name(), &words)?;
        let address = said.split_whitespace().rev().find(|word| word.starts_with("http"));
        Ok(OpenedDraft::New(plain_text::line(address.unwrap_or(said.lines().last().unwrap_or_default()))))
    }

    /// The open request for a branch, if the program can tell.
    fn existing(&self, program: HostProgram, branch: &str) -> Option<String> {
        let head = format!("--head={branch}");
        let words = match program {
            HostProgram::Gh => ["pr", "list", "--state=open", &head, "--json=url", "--jq=.[].url"],
            HostProgram::Glab => return None,
        };
        let said = self.run(program.name(), &words).ok()?;
        said.lines().find(|line| line.starts_with("http")).map(plain_text::line)
    }

    fn git(&self, words: &[&str]) -> Result<String, HostingError> {
        self.run("git", words)
    }

    /// What a program prints, if it succeeds. It has no terminal, so that it asks nobody.
    fn run(&self, program: &str, words: &[&str]) -> Result<String, HostingError> {
        let arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
        let own = ["GH_PROMPT_DISABLED", "GH_NO_UPDATE_NOTIFIER"].map(|name| (name, OsStr::new("1")));
        let wall = self.ends.saturating_duration_since(Instant::now());
        let called = self.guard.call(&Call {
            program: OsStr::new(program),
            arguments: &arguments,
            folder: self.folder,
            environment: environment(&own),
            input: &[],
            limits: CallLimits { wall, output: OUTPUT_LIMIT },
        });
        let command = || {
            let named = words.iter().filter(|word| !word.starts_with('-')).take(2);
            std::iter::once(&program).chain(named).copied().collect::<Vec<&str>>().join(" ")
        };
        match called {
            Ok(Called { code: Some(0), output, .. }) => Ok(String::from_utf8_lossy(&output).into_owned()),
            Ok(Called { output, errors, .. }) => {
                Err(HostingError::Failed { command: command(), said: complaint(&[errors, output].concat()) })
            }
            Err(CallError::NotStarted(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(HostingError::Missing(program.to_owned()))
            }
            Err(CallError::OutOfTime(_)) => {
                let cause = CallError::OutOfTime(self.limit);
                Err(HostingError::Unanswered { command: command(), cause })
            }
            Err(cause) => Err(HostingError::Unanswered { command: command(), cause }),
        }
    }
}

/// The user's variables. A relative folder on the PATH would find what the project brings.
fn environment(own: &[(&str, &OsStr)]) -> Vec<(OsString, OsString)> {
    let mut variables = git_environment(own);
    for (_, value) in variables.iter_mut().filter(|(name, _)| name == "PATH") {
        let folders = std::env::split_paths(value).filter(|folder| folder.is_absolute());
        if let Ok(absolute) = std::env::join_paths(folders.collect::<Vec<_>>()) {
            *value = absolute;
        }
    }
    variables
}

/// The last lines of what a program said.
fn complaint(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let lines: Vec<String> =
        text.lines().map(plain_text::line).filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LINES_TOLD)..];
    if last.is_empty() { "it said nothing".to_owned() } else { last.join("\n") }
}

/// An address without the name and the token that may stand in it.
fn without_login(address: &str) -> String {
    let address = plain_text::line(address);
    match address.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            let host = host.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}/{path}")
        }
        None => address,
    }
}

/// The host of an address; a folder has none.
fn host_of(address: &str) -> Option<&str> {
    let rest = match address.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.split('/').next()?,
        // `git@host:path`
        None => address.split_once(':').filter(|(host, _)| !host.contains('/'))?.0,
    };
    let host = rest.rsplit('@').next()?;
    Some(host.split(':').next()?).filter(|host| !host.is_empty() && !host.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_an_address() {
        for (address, host, shown) in [
            ("https://github.com/a/b.git", Some("github.com"), "https://github.com/a/b.git"),
            (
                "https://me:token@gitlab.example.org:8443/a/b",
                Some("gitlab.example.org"),
                "https://gitlab.example.org:8443/a/b",
            ),
            ("git@github.com:a/b.git", Some("github.com"), "git@github.com:a/b.git"),
            ("ssh://git@host:22/a", Some("host"), "ssh://host:22/a"),
            ("/srv/git/a.git", None, "/srv/git/a.git"),
            ("../a.git", None, "../a.git"),
            ("file:///srv/a.git", None, "file:///srv/a.git"),
            ("./odd:name", None, "./odd:name"),
        ] {
            assert_eq!((host_of(address), without_login(address).as_str()), (host, shown), "{address}");
        }
    }

    #[test]
    fn a_complaint_is_its_last_lines_and_plain() {
        let said: String = (0..50).map(|number| format!("\u{1b}[31mline {number}\u{1b}[0m\n\n")).collect();
        let told = complaint(said.as_bytes());
        assert_eq!((told.lines().count(), told.lines().last()), (LINES_TOLD, Some("line 49")));
        assert_eq!(complaint(b" \n"), "it said nothing");
    }
}
