//! Where the driver and its hosts hand work over: a repository that all of them can reach. The driver makes a reference for
//! a job, at the commit that the job begins at; the host moves it to its result, if it is still there and nobody has moved
//! it. A reference that the driver has taken away takes no result: what comes late cannot land.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::error::GroundError;
use super::git::{Git, GitError, text};
use super::history::commit_of;
use super::{Ground, Inner, Project};
use crate::plain_file;
use crate::process::Guard;

/// Below this name are the references of jobs, by loop.
const PREFIX: &str = "refs/aot";

/// The folder in the user's cache for repositories of our own.
const FOLDER: &str = "exchange";

/// No commit: what git takes for "is not there".
const NOTHING: &str = "0000000000000000000000000000000000000000";

/// What goes over the wire is checked, and no address runs a program.
const SETTINGS: [&str; 6] = [
    "-c",
    "protocol.ext.allow=never",
    "-c",
    "transfer.fsckObjects=true",
    "-c",
    "fetch.writeCommitGraph=false",
];

/// Which repository it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExchangePlace {
    /// One of our own beside the project, and how hosts reach this machine: the beginning of an address, such as
    /// `ssh://me@driver`. Without it hosts are on this machine, too.
    Own { reached_by: Option<String> },
    /// A remote of the project's repository, or an address.
    Named(String),
}

/// The driver's end.
#[derive(Debug)]
pub struct Exchange {
    /// The project's repository.
    git: Git,
    place: Place,
    /// The address that hosts are told.
    address: String,
    loop_id: String,
}

#[derive(Debug)]
enum Place {
    Own { hub: Git, folder: PathBuf },
    Named(String),
}

/// What a host handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handed {
    /// The job changed nothing.
    Nothing,
    Commit(String),
    /// The reference says something else than the host, or is gone.
    NotThere,
}

impl Exchange {
    /// For a loop that works in worktrees; in place there are no commits to hand over.
    pub fn open(
        ground: &Ground,
        project: &Project,
        loop_id: &str,
        place: &ExchangePlace,
    ) -> Result<Exchange, GroundError> {
        let Inner::Worktrees(trees) = &ground.inner else {
            return Err(GroundError::NotARepository { root: project.root.clone() });
        };
        let git = trees.checkout.git.clone();
        let (place, address) = match place {
            ExchangePlace::Own { reached_by } => {
                let cache = project.cache.clone().unwrap_or_else(|| project.sidecar.clone());
                let folder = cache.join(FOLDER).join(format!("{}.git", project.key()));
                let hub = make_hub(&git, &trees.common_dir, &folder)?;
                let shown = folder.to_string_lossy().into_owned();
                let address = match reached_by {
                    Some(begins) => format!("{}{shown}", begins.trim_end_matches('/')),
                    None => shown,
                };
                (Place::Own { hub, folder }, address)
            }
            ExchangePlace::Named(name) => {
                check_address(name)?;
                let found = git.query(["remote", "get-url", "--", name])?;
                let address = if found.code == 0 { text(&found.stdout) } else { name.clone() };
                check_address(&address)?;
                (Place::Named(name.clone()), address)
            }
        };
        Ok(Exchange { git, place, address, loop_id: loop_id.to_owned() })
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// The reference of a job, by what it is told apart by.
    pub fn reference(&self, job: &str) -> String {
        reference(&format!("{}/{job}", self.loop_id))
    }

    /// Makes the reference of a job, unless it is there already.
    pub fn claim(&self, reference: &str, base: &str) -> Result<(), GroundError> {
        match &self.place {
            Place::Own { hub, .. } => {
                let made = hub.try_write(["update-ref", "--create-reflog", reference, base, NOTHING])?;
                if made.code != 0 && commit_of(hub, reference)?.is_none() {
                    return Err(refused(hub, "update-ref", made.code, made.stderr));
                }
            }
            Place::Named(name) => {
                let lease = format!("--force-with-lease={reference}:");
                let pair = format!("{base}:{reference}");
                let made =
                    self.git.try_write(over_the_wire(&["push", "--quiet", &lease, "--", name, &pair]))?;
                if made.code != 0 && self.remote_commit(name, reference)?.is_none() {
                    return Err(refused(&self.git, "push", made.code, made.stderr));
                }
            }
        }
        Ok(())
    }

    /// Takes in what a host says that it handed over: one commit on top of the base, and the reference names it.
    pub fn take(&self, reference: &str, base: &str, commit: Option<&str>) -> Result<Handed, GroundError> {
        let Some(commit) = commit else {
            return Ok(match self.is_claimed(reference)? {
                true => Handed::Nothing,
                false => Handed::NotThere,
            });
        };
        if !is_commit(commit) {
            return Ok(Handed::NotThere);
        }
        let (source, found) = match &self.place {
            Place::Own { hub, folder } => (folder.to_string_lossy().into_owned(), commit_of(hub, reference)?),
            Place::Named(name) => (name.clone(), self.remote_commit(name, reference)?),
        };
        if found.as_deref() != Some(commit) {
            return Ok(Handed::NotThere);
        }
        let fetch =
            ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--"];
        self.git.write(over_the_wire(&[&fetch[..], &[&source, reference]].concat()))?;
        let parents = self.git.read_line(["rev-list", "--parents", "-n", "1", commit, "--"])?;
        Ok(match parents == format!("{commit} {base}") {
            true => Handed::Commit(commit.to_owned()),
            false => Handed::NotThere,
        })
    }

    fn is_claimed(&self, reference: &str) -> Result<bool, GroundError> {
        Ok(match &self.place {
            Place::Own { hub, .. } => commit_of(hub, reference)?.is_some(),
            // The reply was signed for this job; where nothing is taken there is nothing to fence.
            Place::Named(_) => true,
        })
    }

    /// Takes the reference of a job away: from now on nothing can be handed over for it.
    pub fn release(&self, reference: &str) -> Result<(), GroundError> {
        let (git, output) = match &self.place {
            Place::Own { hub, .. } => (hub, hub.try_write(["update-ref", "-d", reference])?),
            Place::Named(name) => {
                let gone = format!(":{reference}");
                let words = over_the_wire(&["push", "--quiet", "--", name, &gone]);
                let output = self.git.try_write(words)?;
                if output.code != 0 && self.remote_commit(name, reference)?.is_none() {
                    return Ok(());
                }
                (&self.git, output)
            }
        };
        match output.code {
            0 => Ok(()),
            code => Err(refused(git, "update-ref", code, output.stderr)),
        }
    }

    /// Takes away all references of the loop but these: those of jobs that a killed driver had.
    pub fn release_besides(&self, wanted: &[String]) -> Result<(), GroundError> {
        let all = format!("{PREFIX}/{}/", self.loop_id);
        let listed = match &self.place {
            Place::Own { hub, .. } => text(&hub.read(["for-each-ref", "--format=%(refname)", &all])?),
            Place::Named(name) => {
                let pattern = format!("{all}*");
                text(&self.git.read(over_the_wire(&["ls-remote", "--quiet", "--", name, &pattern]))?)
            }
        };
        let names = listed.lines().filter_map(|line| line.split_whitespace().next_back());
        names
            .filter(|name| !wanted.iter().any(|wanted| wanted == name))
            .try_for_each(|name| self.release(name))
    }

    /// Takes all references of the loop away, when the run is over.
    pub fn clear(&self) -> Result<(), GroundError> {
        self.release_besides(&[])
    }

    fn remote_commit(&self, name: &str, reference: &str) -> Result<Option<String>, GroundError> {
        listed_commit(&self.git, name, reference)
    }
}

/// The reference of a job, by the loop and what the job is told apart by: `LOOP/A3/7`.
pub fn reference(key: &str) -> String {
    format!("{PREFIX}/{key}")
}

/// What a remote or an address says where this reference is.
fn listed_commit(git: &Git, address: &str, reference: &str) -> Result<Option<String>, GroundError> {
    let listed = git.read(over_the_wire(&["ls-remote", "--quiet", "--", address, reference]))?;
    let listed = text(&listed);
    let mut lines = listed.lines().filter_map(|line| line.split_once('\t'));
    Ok(lines.find(|(_, name)| *name == reference).map(|(commit, _)| commit.to_owned()))
}

impl Ground {
    /// Makes a commit that a driver names available here: from the repository where work is handed over, if need be.
    /// Tells where the job's reference is now; none if the driver has taken it away.
    pub fn bring(&self, address: &str, reference: &str, commit: &str) -> Result<Option<String>, GroundError> {
        let Inner::Worktrees(trees) = &self.inner else { return Ok(None) };
        let git = &trees.checkout.git;
        check_address(address)?;
        // A repository of a driver's on this machine is asked without a second process.
        let folder = Path::new(address);
        let found = match folder.is_absolute() && folder.join("HEAD").is_file() {
            true => commit_of(&Git::pinned(folder, folder, git.guard()).like(git), reference)?,
            false => listed_commit(git, address, reference)?,
        };
        let Some(at) = found else { return Ok(None) };
        let is_here = || {
            Ok::<bool, GitError>(git.query(["cat-file", "-e", &format!("{commit}^{{commit}}")])?.code == 0)
        };
        if is_commit(commit) && is_here()? {
            return Ok(Some(at));
        }
        let fetch =
            ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--"];
        git.write(over_the_wire(&[&fetch[..], &[address, reference]].concat()))?;
        match is_here()? {
            true => Ok(Some(at)),
            false => Err(refused(git, "fetch", 1, format!("{reference} does not bring {commit}"))),
        }
    }

    /// Hands a commit over: moves the reference there, if it is still where it was. `false` if somebody took it away.
    pub fn hand_over(
        &self,
        address: &str,
        reference: &str,
        from: &str,
        commit: &str,
    ) -> Result<bool, GroundError> {
        let Inner::Worktrees(trees) = &self.inner else { return Ok(false) };
        let git = &trees.checkout.git;
        check_address(address)?;
        let lease = format!("--force-with-lease={reference}:{from}");
        let pair = format!("{commit}:{reference}");
        let words = ["push", "--quiet", "--no-verify", &lease, "--", address, &pair];
        let pushed = git.try_write(over_the_wire(&words))?;
        let is_fenced = pushed.stderr.contains("stale info")
            || pushed.stderr.contains("[rejected]")
            || pushed.stderr.contains("failed to update ref");
        match pushed.code {
            0 => Ok(true),
            _ if is_fenced => Ok(false),
            code => Err(refused(git, "push", code, pushed.stderr)),
        }
    }
}

/// Whether there is a repository at this address, which this user can read.
pub fn check_source(address: &str, guard: &Guard) -> Result<(), GroundError> {
    check_address(address)?;
    let git = Git::searched(Path::new("/"), guard);
    git.read(over_the_wire(&["ls-remote", "--quiet", "--", address, "HEAD"])).map(drop)?;
    Ok(())
}

/// A clone for a host that was given an address, made once.
pub fn clone_for_work(address: &str, folder: &Path, guard: &Guard) -> Result<(), GroundError> {
    check_address(address)?;
    if folder.join(".git").exists() {
        return Ok(());
    }
    let parent = folder.parent().unwrap_or(folder);
    make_private(parent)?;
    let git = Git::searched(parent, guard);
    let half = folder.with_extension("half");
    if half.exists() {
        fs::remove_dir_all(&half).map_err(GroundError::io("remove", &half))?;
    }
    let mut words = over_the_wire(&["clone", "--quiet", "--no-tags", "--", address]);
    words.push(half.clone().into());
    git.write(words)?;
    fs::rename(&half, folder).map_err(GroundError::io("rename", &half))
}

/// A bare repository with the objects of the project's.
fn make_hub(git: &Git, common_dir: &Path, folder: &Path) -> Result<Git, GroundError> {
    let hub = Git::pinned(folder, folder, git.guard()).like(git);
    if !folder.join("HEAD").exists() {
        let parent = folder.parent().unwrap_or(folder);
        make_private(parent)?;
        let words = ["init", "--quiet", "--bare", "--template="].map(OsString::from);
        Git::searched(parent, git.guard()).write(words.into_iter().chain([folder.as_os_str().to_owned()]))?;
    }
    let objects = folder.join("objects/info");
    fs::create_dir_all(&objects).map_err(GroundError::io("make the folder", &objects))?;
    let listed = objects.join("alternates");
    let mut line = common_dir.join("objects").into_os_string();
    line.push("\n");
    plain_file::write(&listed, line.as_encoded_bytes()).map_err(GroundError::io("write", &listed))?;
    Ok(hub)
}

fn make_private(folder: &Path) -> Result<(), GroundError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(GroundError::io("make the folder", folder))
}

/// Refuses what git would take for an option, or for a program to run.
fn check_address(address: &str) -> Result<(), GroundError> {
    let is_odd = address.is_empty()
        || address.starts_with('-')
        || address.contains("::")
        || address.chars().any(|letter| letter.is_control());
    match is_odd {
        true => Err(GroundError::BadAddress { address: address.chars().take(200).collect() }),
        false => Ok(()),
    }
}

/// Whether it is the whole name of a commit.
pub fn is_commit(commit: &str) -> bool {
    matches!(commit.len(), 40 | 64) && commit.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn over_the_wire(words: &[&str]) -> Vec<OsString> {
    SETTINGS.iter().chain(words).map(|word| OsStr::new(word).to_owned()).collect()
}

fn refused(git: &Git, command: &str, code: i32, words: String) -> GroundError {
    GroundError::Git(git.refused(&[command.into()], code, words))
}
