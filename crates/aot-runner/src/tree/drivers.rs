//! Programs that the user's own configuration of git names and attributes choose: filters (git-lfs, git-crypt, a
//! formatter) and merge drivers. A worker writes attributes and content, and may have written the program itself. So git
//! gets settings that take the place of these: a filter runs in a cage, by this same binary (`filter.rs`), or not at all
//! where only the names of files are asked for; a merge is git's own.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::GroundError;
use super::filter::{FilterOrder, WORD, quoted};
use super::git::{Git, records};
use super::intents;
use crate::confinement::Confined;
use crate::process::{Environment, Guard};

/// Merges as git does without a driver.
const PLAIN_MERGE: &str = "git merge-file -q --marker-size=%L %A %O %B";

/// What `filter.NAME.` is followed by, if a program comes after it.
const COMMANDS: [&str; 3] = ["clean", "smudge", "process"];

/// All settings that are asked for when a repository is opened.
const SETTINGS: &str =
    r"^(include(if\..*)?\.path$|(filter|merge)\..*\.|(user|author|committer)\.(name|email)$)";

/// The file that says how filters run, in a folder that no worker with a tree of its own can write.
const ORDER: &str = "filters.json";

/// Settings, as `name=value`.
#[derive(Debug, Default)]
pub(super) struct Drivers {
    /// With these a filter runs in its cage.
    pub caged: Vec<String>,
    /// With these none runs.
    pub off: Vec<String>,
}

/// What the configuration says of programs, of files that belong to it, and of the author: asked for in one go.
#[derive(Debug, Default)]
pub(super) struct Configured {
    /// By the names of their settings.
    commands: BTreeMap<String, String>,
    filters: BTreeSet<String>,
    merges: Vec<String>,
    /// Whether it names further files of settings.
    pub has_includes: bool,
    author: Author,
}

/// The name and the address for commits, as far as they are plain to see.
#[derive(Debug, Default)]
struct Author {
    name: String,
    email: String,
    /// There is one for authors or committers only, which git weighs.
    is_special: bool,
}

/// Who runs the filters of a repository.
#[derive(Debug)]
pub(super) struct FilterRunner<'f> {
    pub guard: &'f Guard,
    pub confined: &'f Confined,
    pub common_dir: &'f Path,
    pub sidecar: &'f Path,
}

impl Drivers {
    /// For whoever looks at files and needs no filter.
    pub fn off(git: &Git) -> Result<Drivers, GroundError> {
        Ok(Configured::read(git)?.drivers_off())
    }

    pub fn caged(
        git: &Git,
        configured: &Configured,
        runner: &FilterRunner<'_>,
    ) -> Result<Drivers, GroundError> {
        Ok(Drivers { caged: runner.settings(git, configured)?, off: configured.off() })
    }
}

impl Configured {
    pub fn read(git: &Git) -> Result<Configured, GroundError> {
        let output = git.query(["config", "-z", "--get-regexp", SETTINGS])?;
        let mut found = Configured::default();
        for record in records(&output.stdout) {
            let text = String::from_utf8_lossy(record);
            let (name, value) = text.split_once('\n').unwrap_or((&text, ""));
            // Git takes the first `=` of a setting for the end of its name.
            let is_odd = name.contains('=') || matches!(text, std::borrow::Cow::Owned(_));
            let Some((section, last)) = name.rsplit_once('.') else { continue };
            match (section, last) {
                ("user", "name") => found.author.name = value.to_owned(),
                ("user", "email") => found.author.email = value.to_owned(),
                ("author" | "committer", _) => found.author.is_special = true,
                (_, "path") if section == "include" || section.starts_with("includeif.") => {
                    found.has_includes = true;
                }
                (_, _) => {}
            }
            let (is_filter, is_merge) = (section.starts_with("filter."), section.starts_with("merge."));
            if is_odd && (is_filter || last == "driver") {
                return Err(GroundError::OddDriver { name: name.to_owned() });
            }
            if is_merge && last == "driver" {
                found.merges.push(format!("{name}={PLAIN_MERGE}"));
            } else if is_filter {
                found.filters.insert(section.to_owned());
                if COMMANDS.contains(&last) && !value.is_empty() {
                    found.commands.insert(name.to_owned(), value.to_owned());
                }
            }
        }
        Ok(found)
    }

    /// For whoever looks at files and needs no filter.
    pub fn drivers_off(&self) -> Drivers {
        let off = self.off();
        Drivers { caged: off.clone(), off }
    }

    /// Whether git surely has a name and an address for the author and the committer.
    pub fn has_identity(&self) -> bool {
        // Of some characters git makes nothing.
        let is_plain = |text: &str| text.chars().any(char::is_alphanumeric);
        let is_known = |(variable, configured): (&str, &str)| match std::env::var_os(variable) {
            Some(given) => given.to_str().is_some_and(is_plain),
            None => !self.author.is_special && is_plain(configured),
        };
        let Author { name, email, .. } = &self.author;
        let wanted = [
            ("GIT_AUTHOR_NAME", name.as_str()),
            ("GIT_AUTHOR_EMAIL", email),
            ("GIT_COMMITTER_NAME", name),
            ("GIT_COMMITTER_EMAIL", email),
        ];
        wanted.into_iter().all(is_known)
    }

    fn off(&self) -> Vec<String> {
        let nothing = |section: &String| {
            let commands = COMMANDS.iter().map(move |last| format!("{section}.{last}="));
            commands.chain([format!("{section}.required=false")]).collect::<Vec<_>>()
        };
        self.merges.iter().cloned().chain(self.filters.iter().flat_map(nothing)).collect()
    }
}

impl FilterRunner<'_> {
    /// Settings that put this binary in the place of every filter.
    fn settings(&self, git: &Git, configured: &Configured) -> Result<Vec<String>, GroundError> {
        let mut settings = configured.merges.clone();
        let is_free = self.confined.cage().is_none()
            && matches!(self.confined.environment(Vec::new()), Environment::OursAnd(_));
        if configured.commands.is_empty() || is_free {
            return Ok(settings);
        }
        let file = self.sidecar.join(ORDER);
        for name in configured.commands.keys() {
            let words = [&program(self.guard), Path::new(WORD), &file, Path::new(name)];
            let words = words.map(|word| quoted(word.as_os_str()).to_string_lossy().into_owned()).join(" ");
            settings.push(match name.ends_with(".process") {
                // Only the other two are expanded by git.
                true => format!("{name}={words}"),
                false => format!("{name}={} %f", words.replace('%', "%%")),
            });
        }
        let order = FilterOrder::new(self, self.storage(git)?, configured.commands.clone())?;
        intents::write(&file, &order)?;
        Ok(settings)
    }

    /// Where git-lfs keeps the files that it takes out of the repository.
    fn storage(&self, git: &Git) -> Result<PathBuf, GroundError> {
        let configured = git.query(["config", "--type=path", "lfs.storage"])?.stdout;
        let storage = configured.strip_suffix(b"\n").unwrap_or(&configured);
        Ok(self.common_dir.join(OsStr::from_bytes(if storage.is_empty() { b"lfs" } else { storage })))
    }
}

/// The binary by a name that means the same to git: it may have been replaced or deleted since we were started.
fn program(guard: &Guard) -> PathBuf {
    match guard.program().strip_prefix("/proc/self") {
        Ok(rest) => Path::new("/proc").join(std::process::id().to_string()).join(rest),
        Err(_) => guard.program().to_path_buf(),
    }
}
