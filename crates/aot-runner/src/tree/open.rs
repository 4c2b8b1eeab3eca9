//! Decides which kind of workspace a project gets, and refuses what cannot work. Recovery after a killed run is done by
//! the modules that know how.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use aot_core::state::IsolationMode;
use jiff::Timestamp;

use super::checkout::Checkout;
use super::drivers::{Configured, Drivers, FilterRunner};
use super::error::GroundError;
use super::git::{Git, records, text};
use super::history::commit_of;
use super::intents;
use super::kept::{KEPT, drop_old};
use super::landing::checked_out;
use super::look;
use super::needs::INCLUDE;
use super::refs;
use super::setup::{TreeSetup, paths};
use super::shadow::{self, Shadow};
use super::slots;
use super::snapshot::{Layout, submodules};
use super::tree_folder::{self, TreeFolder};
use super::undo::UndoGround;
use super::unisolated::Unisolated;
use super::worktrees::{CheckoutPolicy, LeaseLifetime, SlotPool, Worktrees, locked};
use super::{Inner, IsolationRequest, KnownRepository, OpenedFor, Project, ProjectRepository};
use crate::confinement::Area;
use crate::plain_file;
use crate::ports::Ports;
use crate::process::Guard;

/// The first version of git that merges without a checkout.
const OLDEST: (u32, u32) = (2, 38);

/// Settings that name further files of settings.
const INCLUDES: &str = r"^include(if\..*)?\.path$";

/// Files in a git folder that show an unfinished operation, and its name.
const OPERATIONS: [(&str, &str); 5] = [
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
];

/// Whether the project's folder is in a repository.
pub(super) enum Surroundings {
    Outside,
    Repository(Repository),
}

pub(super) struct Repository {
    pub top: PathBuf,
    pub prefix: Vec<u8>,
    pub git_dir: PathBuf,
    common_dir: PathBuf,
}

impl Repository {
    pub fn git(&self, guard: &Guard) -> Git {
        Git::pinned(&self.git_dir, &self.top, guard)
    }

    /// As whoever works in place knows it.
    fn known(&self, guard: &Guard) -> Result<KnownRepository, GroundError> {
        let configured = self.configured(guard)?;
        Ok(KnownRepository(self.git(guard).with_drivers(configured.drivers_off()).without_filters()))
    }

    /// Its settings. Refuses a configuration that includes files of the work tree: a worker can change them, or make those
    /// that are not there yet, and a configuration names programs.
    fn configured(&self, guard: &Guard) -> Result<Configured, GroundError> {
        let configured = Configured::read(&self.git(guard))?;
        if configured.has_includes {
            self.check_includes(guard)?;
        }
        Ok(configured)
    }

    fn check_includes(&self, guard: &Guard) -> Result<(), GroundError> {
        let words = ["config", "-z", "--show-origin", "--type=path", "--get-regexp", INCLUDES];
        let listed = self.git(guard).query(words)?.stdout;
        let mut records = records(&listed);
        while let (Some(origin), Some(entry)) = (records.next(), records.next()) {
            let value = entry.iter().position(|byte| *byte == b'\n').map_or(&b""[..], |at| &entry[at + 1..]);
            let origin = Path::new(OsStr::from_bytes(origin.strip_prefix(b"file:").unwrap_or_default()));
            let folder = self.top.join(origin).parent().unwrap_or(&self.top).to_path_buf();
            let path = without_dots(&folder.join(OsStr::from_bytes(value)));
            let is_open = |path: &Path| {
                let mut closed = [&self.git_dir, &self.common_dir].into_iter();
                path.starts_with(&self.top) && !closed.any(|folder| path.starts_with(folder))
            };
            let real = path.parent().and_then(|folder| folder.canonicalize().ok());
            if is_open(&path) || real.is_some_and(|folder| is_open(&folder)) {
                return Err(GroundError::Included { path });
            }
        }
        Ok(())
    }
}

/// Whether a folder is in no repository at all. One that git does not open is one.
pub fn is_outside_git(root: &Path, guard: &Guard) -> bool {
    matches!(discover(root, guard), Ok(Surroundings::Outside))
}

pub(super) fn open(
    project: &Project,
    wanted: IsolationRequest,
    guard: &Guard,
    ports: &Ports,
    entry: OpenedFor,
) -> Result<Inner, GroundError> {
    if wanted.mode == Some(IsolationMode::None) {
        let watch = Unisolated::watch(project, entry)?;
        let repository = match discover(&project.root, guard) {
            Ok(Surroundings::Repository(repository)) => ProjectRepository::Known(repository.known(guard)?),
            Ok(Surroundings::Outside) | Err(_) => ProjectRepository::Outside,
        };
        return Ok(Inner::Unisolated(Box::new(Unisolated::new(project, watch, repository))));
    }
    let root = project.root.canonicalize().map_err(GroundError::io("find", &project.root))?;
    let project = &Project { root, ..project.clone() };
    let is_outside = shadow::is_outside(project)?;
    let check = || check_version(&Git::searched(&project.root, guard));
    let (version, found) = side_by_side(&check, || (!is_outside).then(|| discover(&project.root, guard)));
    version?;
    fs::create_dir_all(&project.sidecar).map_err(GroundError::io("make the folder", &project.sidecar))?;
    let in_place = |repository: Option<&Repository>| {
        let known = repository.map(|repository| repository.known(guard)).transpose()?;
        let shadow = Shadow::open(project, &wanted.loop_id, known, guard, entry)?;
        Ok(Inner::InPlace(Box::new(shadow)))
    };
    // A `.git` that a worker made is not asked what it says of itself.
    let found = match found {
        None if entry == OpenedFor::Again => return in_place(None),
        None => {
            in_place(None)?;
            discover(&project.root, guard)
        }
        Some(found) => found,
    };
    let repository = match (wanted.mode, found) {
        (Some(IsolationMode::None), _) => unreachable!("it was answered above"),
        (Some(IsolationMode::InPlace), found) => {
            return match found {
                Ok(Surroundings::Repository(repository)) => in_place(Some(&repository)),
                // In place, the user's repository is not needed, so its errors do not matter.
                Ok(Surroundings::Outside) | Err(_) => in_place(None),
            };
        }
        (None, Ok(Surroundings::Outside)) => return in_place(None),
        (Some(IsolationMode::Worktree), Ok(Surroundings::Outside)) => {
            return Err(GroundError::NotARepository { root: project.root.clone() });
        }
        (None | Some(IsolationMode::Worktree), Err(error)) => return Err(error),
        (None | Some(IsolationMode::Worktree), Ok(Surroundings::Repository(repository))) => repository,
    };
    if is_ignored(&project.root, &repository, guard)? {
        return match wanted.mode {
            Some(IsolationMode::Worktree) => Err(GroundError::Ignored { root: project.root.clone() }),
            Some(IsolationMode::InPlace | IsolationMode::None) | None => in_place(None),
        };
    }
    worktrees(project, wanted, guard, ports, repository, entry).map(|trees| Inner::Worktrees(Box::new(trees)))
}

/// Does two things at a time; one after the other where the system starts no more threads.
fn side_by_side<A: Send, B>(aside: &(dyn Fn() -> A + Sync), here: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| match std::thread::Builder::new().spawn_scoped(scope, aside) {
        Ok(thread) => {
            let here = here();
            (thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), here)
        }
        Err(_) => (aside(), here()),
    })
}

/// The repository of a project that lands on a branch other than the one that is checked out, and the branch.
pub(super) struct BranchElsewhere {
    repository: Repository,
    reference: String,
}

/// The branch that a loop lands on, if it exists and is not what the project's own folder shows.
pub(super) fn branch_elsewhere(
    project: &Project,
    wanted: &IsolationRequest,
    guard: &Guard,
) -> Result<Option<BranchElsewhere>, GroundError> {
    let Some(name) = &wanted.branch else { return Ok(None) };
    match wanted.mode {
        Some(IsolationMode::InPlace | IsolationMode::None) => return Ok(None),
        Some(IsolationMode::Worktree) | None => {}
    }
    if shadow::is_outside(project)? {
        return Ok(None);
    }
    let Surroundings::Repository(repository) = discover(&project.root, guard)? else { return Ok(None) };
    if is_ignored(&project.root, &repository, guard)? {
        return Ok(None);
    }
    let git = repository.git(guard);
    let reference = format!("refs/heads/{name}");
    let is_here = git.find(["symbolic-ref", "-q", "HEAD"])?.is_some_and(|head| text(&head) == reference);
    let is_there = commit_of(&git, &reference)?.is_some();
    Ok((is_there && !is_here).then_some(BranchElsewhere { repository, reference }))
}

/// What is checked out, if workers would get trees of it.
pub(super) fn head_elsewhere(
    project: &Project,
    wanted: &IsolationRequest,
    guard: &Guard,
) -> Result<Option<BranchElsewhere>, GroundError> {
    match wanted.mode {
        Some(IsolationMode::InPlace | IsolationMode::None) => return Ok(None),
        Some(IsolationMode::Worktree) | None => {}
    }
    let Surroundings::Repository(repository) = discover(&project.root, guard)? else { return Ok(None) };
    if is_ignored(&project.root, &repository, guard)? || commit_of(&repository.git(guard), "HEAD")?.is_none()
    {
        return Ok(None);
    }
    Ok(Some(BranchElsewhere { repository, reference: "HEAD".to_owned() }))
}

/// The repository of a project, for whoever reads it and starts none of the user's programs; nothing where work is done in
/// place.
pub(super) fn to_read(project: &Project, guard: &Guard) -> Result<Option<Git>, GroundError> {
    if shadow::is_outside(project)? || is_outside_git(&project.root, guard) {
        return Ok(None);
    }
    let Surroundings::Repository(repository) = discover(&project.root, guard)? else { return Ok(None) };
    let KnownRepository(git) = repository.known(guard)?;
    Ok(Some(git))
}

/// Where a loop worked whose work is to be taken back, with what a killed run left finished or undone. Worktrees know no
/// branch yet.
pub(super) fn for_undo(
    project: &Project,
    wanted: IsolationRequest,
    guard: &Guard,
) -> Result<UndoGround, GroundError> {
    let root = project.root.canonicalize().map_err(GroundError::io("find", &project.root))?;
    let project = &Project { root, ..project.clone() };
    let is_recorded = shadow::repository(project).is_dir();
    let in_place = |repository: Option<&Repository>| {
        if wanted.mode == Some(IsolationMode::None) || !is_recorded {
            return Err(GroundError::WorkedInPlace { root: project.root.clone() });
        }
        let known = repository.map(|repository| repository.known(guard));
        let shadow = Shadow::open(project, &wanted.loop_id, known.transpose()?, guard, OpenedFor::Run)?;
        Ok(UndoGround::InPlace(Box::new(shadow)))
    };
    if shadow::is_outside(project)? {
        return in_place(None);
    }
    check_version(&Git::searched(&project.root, guard))?;
    let repository = match (wanted.mode, discover(&project.root, guard)) {
        (Some(IsolationMode::InPlace | IsolationMode::None), Ok(Surroundings::Repository(repository))) => {
            return in_place(Some(&repository));
        }
        (Some(IsolationMode::InPlace | IsolationMode::None), Ok(Surroundings::Outside) | Err(_))
        | (Some(IsolationMode::Worktree) | None, Ok(Surroundings::Outside)) => return in_place(None),
        (Some(IsolationMode::Worktree) | None, found) => match found? {
            Surroundings::Repository(repository) => repository,
            Surroundings::Outside => return in_place(None),
        },
    };
    if is_ignored(&project.root, &repository, guard)? {
        return in_place(None);
    }
    let ports = Ports::of(&project.key());
    let folder = (tree_folder::expected(project), LeaseLifetime::Run);
    let trees = prepared(project, wanted, guard, &ports, repository, folder)?;
    intents::remove_locks(&trees.common_dir.join("refs/aot"))?;
    trees.recover()?;
    Ok(UndoGround::Branch(Box::new(trees)))
}

/// The worktrees of whoever only looks, in this folder.
pub(super) fn look(
    project: &Project,
    wanted: IsolationRequest,
    guard: &Guard,
    landing: BranchElsewhere,
    folder: PathBuf,
) -> Result<Worktrees, GroundError> {
    let root = project.root.canonicalize().map_err(GroundError::io("find", &project.root))?;
    let project = &Project { root, ..project.clone() };
    check_version(&Git::searched(&project.root, guard))?;
    let BranchElsewhere { repository, reference } = landing;
    let ports = Ports::of(&project.key());
    let mut trees = prepared(project, wanted, guard, &ports, repository, (folder, LeaseLifetime::Run))?;
    trees.reference = reference;
    trees.checkout_policy = CheckoutPolicy::LeaveAlone;
    know_submodules(&mut trees, "HEAD")?;
    Ok(trees)
}

fn worktrees(
    project: &Project,
    wanted: IsolationRequest,
    guard: &Guard,
    ports: &Ports,
    repository: Repository,
    entry: OpenedFor,
) -> Result<Worktrees, GroundError> {
    let branch = wanted.branch.clone();
    let (folder, lifetime, note) = match entry {
        OpenedFor::Run | OpenedFor::Host => {
            let (folder, note) = TreeFolder::hold(project, &wanted.writable);
            (Some(folder), LeaseLifetime::Run, note)
        }
        OpenedFor::Session | OpenedFor::Again => (None, LeaseLifetime::Attempt, None),
    };
    let path = folder.as_ref().map_or_else(|| project.lent(), |folder| folder.path.clone());
    let mut trees = prepared(project, wanted, guard, ports, repository, (path, lifetime))?;
    trees.folder = folder;
    locked(&trees.notes).extend(note);
    let Some(head) = trees.commit_of("HEAD")? else {
        return Err(GroundError::NoCommits { top: trees.checkout.layout.top });
    };
    // Recovery comes before the checks below, which would blame the user for what a killed run left. A later step of a
    // session must not recover: its own work is still under way.
    if entry != OpenedFor::Again {
        // Nobody else has references there, and whoever wrote them for a killed run is dead with it.
        intents::remove_locks(&trees.common_dir.join("refs/aot"))?;
        trees.recover()?;
        slots::clear_lent(&trees.common_dir, &project.lent(), &trees.lease_records)?;
    }
    if lifetime == LeaseLifetime::Run {
        // Those of an earlier version, or of a run that could not use the cache.
        if trees.folder.as_ref().is_some_and(TreeFolder::is_outside) {
            slots::clear(&trees.common_dir, &tree_folder::in_sidecar(project))?;
        }
        let slots::KeptTrees { young, old } =
            slots::adopt(&trees.checkout.git, &trees.common_dir, &trees.trees)?;
        let made = young.iter().chain(&old).map(|slot| slot.number).max().unwrap_or(0);
        trees.slots = Mutex::new(SlotPool { free: young, old, made });
    }
    match branch {
        _ if entry == OpenedFor::Host => {
            trees.checkout_policy = CheckoutPolicy::LeaveAlone;
            trees.reference = "HEAD".to_owned();
        }
        Some(name) => {
            trees.checkout_policy = CheckoutPolicy::LeaveAlone;
            trees.reference = named_branch(&trees.checkout.git, &name, &head)?;
        }
        None => {
            // A look at all files, and a list of them: each is long in a large project.
            let known = || submodules(&trees.checkout.git, &head).map(drop);
            let (known, reference) = side_by_side(&known, || own_branch(&trees.checkout, entry));
            trees.reference = reference?;
            known?;
        }
    }
    know_submodules(&mut trees, &head)?;
    if !refs::are_none_below(&trees.common_dir, KEPT) {
        drop_old(&trees.checkout.git, Timestamp::now())?;
    }
    Ok(trees)
}

/// Refuses submodules whose folders would be empty in every tree.
fn know_submodules(trees: &mut Worktrees, commit: &str) -> Result<(), GroundError> {
    let layout = &trees.checkout.layout;
    let submodules = submodules(&trees.checkout.git, commit)?;
    trees.submodules = layout.all_seen(submodules.iter().map(Vec::as_slice));
    let mut empty = trees.submodules.clone();
    empty.retain(|path| !trees.provision.share.iter().any(|shared| shared.as_os_str() == path.as_str()));
    if !empty.is_empty() && trees.provision.setup.is_none() {
        return Err(GroundError::Submodules { top: layout.top.clone(), paths: empty });
    }
    Ok(())
}

/// Worktrees that know no branch yet, in a folder of their own.
fn prepared(
    project: &Project,
    wanted: IsolationRequest,
    guard: &Guard,
    ports: &Ports,
    repository: Repository,
    (folder, lifetime): (PathBuf, LeaseLifetime),
) -> Result<Worktrees, GroundError> {
    let configured = repository.configured(guard)?;
    let git = repository.git(guard).with_identity(&configured)?;
    let Repository { top, prefix, git_dir, common_dir } = repository;
    let confined = wanted.confinement.confine(project, Area::Nowhere);
    let confined =
        &confined.map_err(GroundError::io("make a folder for temporary files in", &project.sidecar))?;
    let runner = FilterRunner { guard, confined, common_dir: &common_dir, sidecar: &project.sidecar };
    let git = git.with_drivers(Drivers::caged(&git, &configured, &runner)?);
    let checkout = Checkout { git, git_dir, layout: Layout::of(project, &top, &prefix) };
    let share = paths("share", &wanted.share)?;
    let prefix = Path::new(OsStr::from_bytes(&prefix)).to_path_buf();
    let mut copy: Vec<PathBuf> =
        paths("copy", &wanted.copy)?.into_iter().map(|path| prefix.join(path)).collect();
    let named = share.iter().map(|path| ("share", prefix.join(path)));
    let named = named.chain(copy.iter().map(|path| ("copy", path.clone())));
    let missing = named.filter(|(_, path)| fs::symlink_metadata(top.join(path)).is_err());
    let missing = missing.map(|(key, path)| {
        format!("`isolation.{key}` names {}, which does not exist: no tree has it", path.display())
    });
    let notes: Vec<String> = missing.collect();
    copy.extend(included(&checkout.git, &top)?);
    let provision = TreeSetup {
        root: project.root.clone(),
        share,
        copy,
        setup: wanted.setup,
        teardown: wanted.teardown,
        guard: guard.clone(),
        shell: wanted.shell,
        ports: ports.clone(),
        confinement: wanted.confinement,
        project: project.clone(),
    };
    Ok(Worktrees {
        checkout,
        common_dir,
        reference: String::new(),
        checkout_policy: CheckoutPolicy::Follow,
        trees: folder,
        spare: tree_folder::in_sidecar(project),
        folder: None,
        is_full_told: AtomicBool::new(false),
        lease_records: project.sidecar.join("loans"),
        landings: format!("refs/aot/landing/{}", project.key()),
        loop_id: wanted.loop_id,
        submodules: Vec::new(),
        provision,
        slots: Mutex::new(SlotPool::default()),
        ahead: Mutex::new(None),
        notes: Mutex::new(notes),
        lifetime,
        verifying: Mutex::new(None),
        landing: Mutex::new(()),
    })
}

/// What `.worktreeinclude` in the top folder names: files and folders that git ignores and every worktree is to have. Of
/// what git does not ignore, a tree has what the branch has.
fn included(git: &Git, top: &Path) -> Result<Vec<PathBuf>, GroundError> {
    let file = top.join(INCLUDE);
    if plain_file::open_to_read(&file).is_err() {
        return Ok(Vec::new());
    }
    let words = ["ls-files", "-z", "--others", "--ignored", "--directory", "--exclude-from"].map(OsStr::new);
    let listed = git.read(words.into_iter().chain([file.as_os_str()]))?;
    if listed.is_empty() {
        return Ok(Vec::new());
    }
    let output = git.query_with_input(["check-ignore", "-z", "--stdin"], &listed)?;
    let path = |path: &[u8]| PathBuf::from(OsStr::from_bytes(path.strip_suffix(b"/").unwrap_or(path)));
    Ok(records(&output.stdout).take(MOST_INCLUDED).map(path).collect())
}

/// So many paths of `.worktreeinclude` are copied.
const MOST_INCLUDED: usize = 1000;

/// Removes the trees that runs keep for the next one. Those of a session stay: there may be work in them.
pub fn clean(project: &Project, guard: &Guard) -> Result<usize, GroundError> {
    let Surroundings::Repository(repository) = discover(&project.root, guard)? else { return Ok(0) };
    let common_dir = &repository.common_dir;
    look::clear_left(common_dir, project)?;
    let mut removed = slots::clear(common_dir, &tree_folder::in_sidecar(project))?;
    if let Some((path, _lock)) = tree_folder::of_own(project) {
        removed += slots::clear(common_dir, &path)?;
        tree_folder::forget(&path);
    }
    Ok(removed)
}

/// The branch that is checked out, if it can be landed on.
pub(super) fn own_branch(checkout: &Checkout, entry: OpenedFor) -> Result<String, GroundError> {
    check_operations(checkout)?;
    let top = checkout.layout.top.clone();
    let Some(reference) = checkout.branch()? else { return Err(GroundError::Detached { top }) };
    // Whoever sits in a session has edits most of the time: there a landing that would touch them waits, and says so.
    let paths = if entry == OpenedFor::Run { checkout.uncommitted()? } else { Vec::new() };
    if !paths.is_empty() {
        let paths = checkout.layout.all_seen(paths.iter().map(Vec::as_slice));
        return Err(GroundError::Dirty { top, paths });
    }
    Ok(reference)
}

/// Refuses a checkout in which the user is in the middle of something.
pub(super) fn check_operations(checkout: &Checkout) -> Result<(), GroundError> {
    match OPERATIONS.iter().find(|(file, _)| checkout.git_dir.join(file).exists()) {
        Some((_, operation)) => Err(GroundError::InProgress { top: checkout.layout.top.clone(), operation }),
        None => Ok(()),
    }
}

/// The branch that was asked for; made if it is new.
fn named_branch(git: &Git, name: &str, head: &str) -> Result<String, GroundError> {
    let reference = usable_branch(git, name)?;
    if commit_of(git, &reference)?.is_none() {
        // The empty old value makes git refuse if the branch exists by now.
        git.write(["update-ref", "-m", "aot: branch", &reference, head, ""])?;
    }
    Ok(reference)
}

/// The reference of a branch that was asked for, if it can be landed on.
pub(super) fn usable_branch(git: &Git, name: &str) -> Result<String, GroundError> {
    let reference = format!("refs/heads/{name}");
    let checked = git.query(["check-ref-format", "--branch", name])?;
    if checked.code != 0 || text(&checked.stdout) != name {
        return Err(GroundError::BadBranch { name: name.to_owned(), words: checked.stderr });
    }
    let others = checked_out(&git.read(["worktree", "list", "--porcelain", "-z"])?);
    if let Some(at) = others.get(&reference) {
        return Err(GroundError::CheckedOut { name: name.to_owned(), at: at.clone() });
    }
    Ok(reference)
}

pub(super) fn check_version(git: &Git) -> Result<(), GroundError> {
    let output = git.read_line(["version"])?;
    let found = output.strip_prefix("git version ").unwrap_or(&output).to_owned();
    let mut numbers = found.split('.').map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < OLDEST {
        return Err(GroundError::TooOld { found, needed: format!("{}.{}", OLDEST.0, OLDEST.1) });
    }
    Ok(())
}

/// What a repository is known by, as `git rev-parse` is asked for it.
const PLACES: [&str; 4] = ["--show-prefix", "--git-dir", "--git-common-dir", "--show-toplevel"];

pub(super) fn discover(root: &Path, guard: &Guard) -> Result<Surroundings, GroundError> {
    let git = Git::searched(root, guard);
    // All in one command: this is asked whenever a loop is opened. What is not in a work tree has no top.
    let asked = [&["rev-parse", "--path-format=absolute", "--is-inside-work-tree"], &PLACES[..]].concat();
    let output = git.query(asked)?;
    if output.stdout.starts_with(b"false\n") {
        return Err(GroundError::NoWorkTree { root: root.to_path_buf() });
    }
    let Some(answers) = output.stdout.strip_prefix(b"true\n").filter(|_| output.code == 0) else {
        // Any other message is about a repository that exists: it is broken, or belongs to another user.
        let is_outside = output.stderr.contains("not a git repository (or any")
            && !root.ancestors().any(|folder| fs::symlink_metadata(folder.join(".git")).is_ok());
        return match is_outside {
            true => Ok(Surroundings::Outside),
            false => Err(GroundError::Unopened { root: root.to_path_buf(), words: output.stderr }),
        };
    };
    let lines: Vec<&[u8]> = answers.split_inclusive(|byte| *byte == b'\n').collect();
    let ask = |place: &str| git.read(["rev-parse", "--path-format=absolute", place]);
    let found: [Vec<u8>; 4] = match <[&[u8]; 4]>::try_from(lines) {
        Ok(lines) => lines.map(<[u8]>::to_vec),
        // A path has a line break in its name.
        Err(_) => [ask(PLACES[0])?, ask(PLACES[1])?, ask(PLACES[2])?, ask(PLACES[3])?],
    };
    let [prefix, git_dir, common_dir, top] = found.map(|line| path_of(&line));
    let prefix = prefix.into_os_string().into_vec();
    Ok(Surroundings::Repository(Repository { top, prefix, git_dir, common_dir }))
}

/// The same path without `..`, whether it exists or not.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}

fn path_of(out: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(out.strip_suffix(b"\n").unwrap_or(out)))
}

/// Whether the repository ignores the project's folder and tracks nothing in it.
pub(super) fn is_ignored(root: &Path, repository: &Repository, guard: &Guard) -> Result<bool, GroundError> {
    if repository.prefix.is_empty() {
        return Ok(false);
    }
    let git = Git::searched(root, guard);
    let is_ignored = git.query(["check-ignore", "-q", "."])?.code == 0;
    Ok(is_ignored && records(&git.read(["ls-files", "-z"])?).next().is_none())
}
