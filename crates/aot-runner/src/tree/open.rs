//! What kind of ground a project is, and what keeps it from being one. Looks; the repair of what a dead run left is
//! asked of the rooms that know how.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use aot_core::state::IsolationMode;
use jiff::Timestamp;

use super::checkout::Checkout;
use super::error::GroundError;
use super::git::{Git, records, text};
use super::history::commit_of;
use super::kept::drop_old;
use super::landing::checked_out;
use super::setup::{Provision, shared};
use super::shadow::Shadow;
use super::slots;
use super::taking::Layout;
use super::worktrees::{Follows, Loans, Slots, Worktrees};
use super::{Entry, Inner, Project, Wanted};
use crate::process::Guard;

/// The first git that merges trees without a checkout.
const OLDEST: (u32, u32) = (2, 38);

/// Files in a git folder that show an unfinished operation, and what it is called.
const OPERATIONS: [(&str, &str); 5] = [
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
];

/// What git knows of the project's folder.
enum Found {
    Outside,
    Repository(Repository),
}

struct Repository {
    top: PathBuf,
    prefix: Vec<u8>,
    git_dir: PathBuf,
    common_dir: PathBuf,
}

pub(super) fn open(
    project: &Project,
    wanted: Wanted,
    guard: &Guard,
    shell: &Path,
    entry: Entry,
) -> Result<Inner, GroundError> {
    if wanted.mode == Some(IsolationMode::None) {
        return Ok(Inner::Unisolated { root: project.root.clone() });
    }
    let root = project.root.canonicalize().map_err(GroundError::io("find", &project.root))?;
    let project = &Project { root, ..project.clone() };
    check_version(&Git::at(&project.root))?;
    fs::create_dir_all(&project.sidecar).map_err(GroundError::io("make the folder", &project.sidecar))?;
    let in_place = |repository: Option<&Repository>| {
        let around = repository.map(|repository| repository.top.as_path());
        let shadow = Shadow::open(project, &wanted.loop_id, around, entry)?;
        Ok(Inner::InPlace(Box::new(shadow)))
    };
    let repository = match (wanted.mode, discover(&project.root)) {
        (Some(IsolationMode::None), _) => unreachable!("it was answered above"),
        (Some(IsolationMode::InPlace), found) => {
            return match found {
                Ok(Found::Repository(repository)) => in_place(Some(&repository)),
                // Whatever git has against it: in place we do not ask the user's repository for anything.
                Ok(Found::Outside) | Err(_) => in_place(None),
            };
        }
        (None, Ok(Found::Outside)) => return in_place(None),
        (Some(IsolationMode::Worktree), Ok(Found::Outside)) => {
            return Err(GroundError::NotARepository { root: project.root.clone() });
        }
        (None | Some(IsolationMode::Worktree), Err(error)) => return Err(error),
        (None | Some(IsolationMode::Worktree), Ok(Found::Repository(repository))) => repository,
    };
    if is_ignored(&project.root, &repository)? {
        return match wanted.mode {
            Some(IsolationMode::Worktree) => Err(GroundError::Ignored { root: project.root.clone() }),
            Some(IsolationMode::InPlace | IsolationMode::None) | None => in_place(None),
        };
    }
    worktrees(project, wanted, guard, shell, repository, entry).map(|trees| Inner::Worktrees(Box::new(trees)))
}

fn worktrees(
    project: &Project,
    wanted: Wanted,
    guard: &Guard,
    shell: &Path,
    repository: Repository,
    entry: Entry,
) -> Result<Worktrees, GroundError> {
    let Repository { top, prefix, git_dir, common_dir } = repository;
    let git = Git::pinned(&git_dir, &top).with_identity()?;
    let checkout = Checkout { git, git_dir, layout: Layout::of(project, &top, &prefix) };
    let provision = Provision {
        root: project.root.clone(),
        share: shared(&wanted.share)?,
        setup: wanted.setup,
        guard: guard.clone(),
        shell: shell.to_path_buf(),
    };
    let mut trees = Worktrees {
        checkout,
        common_dir,
        reference: String::new(),
        follows: Follows::Checkout,
        trees: match entry {
            Entry::Run => project.sidecar.join("trees"),
            Entry::Session | Entry::Again => project.lent(),
        },
        kept_loans: project.sidecar.join("loans"),
        note: project.sidecar.join("landing.json"),
        loop_id: wanted.loop_id,
        provision,
        slots: Mutex::new(Slots::default()),
        loans: match entry {
            Entry::Run => Loans::OfTheRun,
            Entry::Session | Entry::Again => Loans::OfTheWork,
        },
        verifying: Mutex::new(None),
        landing: Mutex::new(()),
    };
    let Some(head) = commit_of(&trees.checkout.git, "HEAD")? else {
        return Err(GroundError::NoCommits { top });
    };
    // Before anything is judged: what a dead run left is not the user's fault. Who comes again is in the middle of it.
    if entry != Entry::Again {
        trees.recover()?;
        // Whoever had it before may have been of the other kind.
        slots::clear(&trees.common_dir, &project.sidecar.join("trees"))?;
        slots::clear_lent(&trees.common_dir, &project.lent(), &trees.kept_loans)?;
    }
    match wanted.branch {
        Some(name) => {
            trees.follows = Follows::Nobody;
            trees.reference = named_branch(&trees.checkout.git, &name, &head)?;
        }
        None => {
            trees.reference = own_branch(&trees.checkout, entry)?;
        }
    }
    let has_submodules = trees.checkout.git.ask(["cat-file", "-e", "HEAD:.gitmodules"])?.code == 0;
    if has_submodules && trees.provision.setup.is_none() {
        return Err(GroundError::Submodules { top });
    }
    drop_old(&trees.checkout.git, Timestamp::now())?;
    Ok(trees)
}

/// The branch that is checked out, if it can be landed on.
fn own_branch(checkout: &Checkout, entry: Entry) -> Result<String, GroundError> {
    let top = checkout.layout.top.clone();
    if let Some((_, operation)) = OPERATIONS.iter().find(|(file, _)| checkout.git_dir.join(file).exists()) {
        return Err(GroundError::InProgress { top, operation });
    }
    let Some(reference) = checkout.branch()? else { return Err(GroundError::Detached { top }) };
    let paths = if entry == Entry::Again { Vec::new() } else { checkout.uncommitted()? };
    if !paths.is_empty() {
        let paths = checkout.layout.all_seen(paths.iter().map(Vec::as_slice));
        return Err(GroundError::Dirty { top, paths });
    }
    Ok(reference)
}

/// The branch that was asked for; made if it is new.
fn named_branch(git: &Git, name: &str, head: &str) -> Result<String, GroundError> {
    let reference = format!("refs/heads/{name}");
    let checked = git.ask(["check-ref-format", "--branch", name])?;
    if checked.code != 0 || text(&checked.out) != name {
        return Err(GroundError::BadBranch { name: name.to_owned(), words: checked.err });
    }
    let others = checked_out(&git.look(["worktree", "list", "--porcelain", "-z"])?);
    if let Some(at) = others.get(&reference) {
        return Err(GroundError::CheckedOut { name: name.to_owned(), at: at.clone() });
    }
    if commit_of(git, &reference)?.is_none() {
        // The empty word: it must still not be there.
        git.change(["update-ref", "-m", "aot: branch", &reference, head, ""])?;
    }
    Ok(reference)
}

fn check_version(git: &Git) -> Result<(), GroundError> {
    let said = git.line(["version"])?;
    let found = said.strip_prefix("git version ").unwrap_or(&said).to_owned();
    let mut numbers = found.split('.').map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < OLDEST {
        return Err(GroundError::TooOld { found, needed: format!("{}.{}", OLDEST.0, OLDEST.1) });
    }
    Ok(())
}

fn discover(root: &Path) -> Result<Found, GroundError> {
    let git = Git::at(root);
    let said = git.ask(["rev-parse", "--is-inside-work-tree"])?;
    if said.code != 0 {
        // Whatever else git has to say is about a repository that is there: a broken one, or somebody else's.
        let is_outside = said.err.contains("not a git repository (or any")
            && !root.ancestors().any(|folder| fs::symlink_metadata(folder.join(".git")).is_ok());
        return match is_outside {
            true => Ok(Found::Outside),
            false => Err(GroundError::Unopened { root: root.to_path_buf(), words: said.err }),
        };
    }
    if text(&said.out) != "true" {
        return Err(GroundError::NoWorkTree { root: root.to_path_buf() });
    }
    let path = |words: &[&str]| {
        git.look([&["rev-parse", "--path-format=absolute"], words].concat()).map(|out| path_of(&out))
    };
    let prefix = git.look(["rev-parse", "--show-prefix"])?;
    Ok(Found::Repository(Repository {
        top: path(&["--show-toplevel"])?,
        prefix: prefix.strip_suffix(b"\n").unwrap_or(&prefix).to_vec(),
        git_dir: path(&["--git-dir"])?,
        common_dir: path(&["--git-common-dir"])?,
    }))
}

fn path_of(out: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(out.strip_suffix(b"\n").unwrap_or(out)))
}

/// Whether the repository does not want to know of the project: it ignores its folder, and tracks nothing in it.
fn is_ignored(root: &Path, repository: &Repository) -> Result<bool, GroundError> {
    if repository.prefix.is_empty() {
        return Ok(false);
    }
    let git = Git::at(root);
    let is_ignored = git.ask(["check-ignore", "-q", "."])?.code == 0;
    Ok(is_ignored && records(&git.look(["ls-files", "-z"])?).next().is_none())
}
