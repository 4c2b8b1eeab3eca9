//! One worktree on disk: makes it, resets it to a commit, reads it and removes it. Knows no attempts.
//!
//! Every git command here names the git folder. A worker may have removed the `.git` file, and git would then find the
//! repository around the tree, which is the user's own.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::content::KnownRepository;
use super::error::GroundError;
use super::git::{Git, records};
use super::history::{Difference, differences};
use super::refs;
use super::snapshot::{Layout, NotWork, Snapshot, has_plain_parents, pattern, restore, submodules, take};
use super::walk::{Pipes, fingerprint, remove_pipes};
use crate::atomic_file::{self, Durability};
use crate::plain_file;

/// How long to retry removing a folder while a dying process still writes into it.
const REMOVING: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// Trees in which nobody worked for so long are removed.
pub(super) const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// No `.git` file of a worktree is longer.
const MOST_POINTER: u64 = 64 << 10;

/// Our copy of the index, so that what a worker does to its own does not matter.
const INDEX: &str = "aot-index";

/// Folders that an interrupted git command of a worker leaves in a git folder.
const UNFINISHED: [&str; 3] = ["rebase-merge", "rebase-apply", "sequencer"];

#[derive(Debug)]
pub(super) struct Slot {
    /// No two trees of a run have the same.
    pub number: u32,
    pub top: PathBuf,
    git_dir: PathBuf,
    common_dir: PathBuf,
    /// The content of its `.git` file.
    pointer: Vec<u8>,
    git: Git,
    pub not_work: NotWork,
    /// Ignored files that `setup` made.
    made: Option<SetupOutput>,
    /// `setup` ran in it, and nothing has ended that since.
    pub is_set_up: bool,
}

/// What `setup` made of ignored paths. As long as nobody touched it, the next attempt can use it.
#[derive(Debug)]
struct SetupOutput {
    paths: Vec<Vec<u8>>,
    fingerprint: String,
}

/// Whether `setup` has to run in a tree that was renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetupState {
    Needed,
    StillThere,
}

/// The record of a tree that outlives the process that made it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SlotRecord {
    #[serde(default)]
    pub number: u32,
    git_dir: PathBuf,
    pointer: Vec<u8>,
    not_work: NotWork,
}

static REGISTERING: Mutex<()> = Mutex::new(());

impl Slot {
    /// Adds a worktree at this path, removing what is there.
    pub fn make(
        repository: &Git,
        common_dir: &Path,
        (top, number): (&Path, u32),
        commit: &str,
    ) -> Result<Slot, GroundError> {
        remove_folder(top)?;
        let folder = top.parent().unwrap_or(top);
        fs::create_dir_all(folder).map_err(GroundError::io("make the folder", folder))?;
        // Two `git worktree add` at once read each other's half-written entries.
        let registering = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
        repository.write([
            "worktree".as_ref(),
            "add".as_ref(),
            "-q".as_ref(),
            "--force".as_ref(),
            "--detach".as_ref(),
            top.as_os_str(),
            commit.as_ref(),
        ])?;
        drop(registering);
        let pointed = top.join(".git");
        let pointer = fs::read(&pointed).map_err(GroundError::io("read", &pointed))?;
        let git_dir = pointed_at(&pointer, top)
            .ok_or_else(|| GroundError::io("read", &pointed)(io::ErrorKind::InvalidData.into()))?;
        let git = Git::pinned(&git_dir, top, repository.guard()).like(repository);
        Ok(Slot {
            number,
            top: top.to_path_buf(),
            git_dir,
            common_dir: common_dir.to_path_buf(),
            pointer,
            git,
            not_work: NotWork::default(),
            made: None,
            is_set_up: false,
        })
    }

    /// Takes over the tree of an earlier run, if it is one. A worker may have written its `.git` file: it counts only if it
    /// leads to the git folder that is known to belong to this tree.
    fn adopted(repository: &Git, common_dir: &Path, top: &Path, git_dir: PathBuf) -> Option<Slot> {
        let pointed = top.join(".git");
        let is_file = fs::symlink_metadata(&pointed).is_ok_and(|meta| meta.is_file());
        let pointer = plain_file::read(&pointed, MOST_POINTER).ok().filter(|_| is_file)?;
        if pointed_at(&pointer, top)? != git_dir.canonicalize().ok()? {
            return None;
        }
        Some(Slot {
            number: top.file_name()?.to_str()?.parse().ok()?,
            top: top.to_path_buf(),
            git: Git::pinned(&git_dir, top, repository.guard()).like(repository),
            git_dir,
            common_dir: common_dir.to_path_buf(),
            pointer,
            not_work: NotWork::default(),
            made: None,
            is_set_up: false,
        })
    }

    /// When a worker last began in it, as far as git's files tell.
    fn age(&self) -> Duration {
        let used = fs::metadata(self.git_dir.join("HEAD")).and_then(|meta| meta.modified());
        used.ok().and_then(|used| used.elapsed().ok()).unwrap_or_default()
    }

    /// Reopens a tree that another process made, if it still exists.
    pub fn again(repository: &Git, common_dir: &Path, top: &Path, kept: SlotRecord) -> Option<Slot> {
        let SlotRecord { number, git_dir, pointer, not_work } = kept;
        if !top.is_dir() || !git_dir.is_dir() {
            return None;
        }
        Some(Slot {
            number,
            top: top.to_path_buf(),
            git: Git::pinned(&git_dir, top, repository.guard()).like(repository),
            git_dir,
            common_dir: common_dir.to_path_buf(),
            pointer,
            not_work,
            made: None,
            is_set_up: true,
        })
    }

    /// What another process needs to reopen it. Nothing of it is read from the tree, because a worker writes there.
    pub fn keep(&self) -> SlotRecord {
        let (git_dir, pointer, not_work) =
            (self.git_dir.clone(), self.pointer.clone(), self.not_work.clone());
        SlotRecord { number: self.number, git_dir, pointer, not_work }
    }

    /// Makes it a clean tree of this commit, whatever a worker left there. Ignored files are left over from other work
    /// and could make a check pass, so they go too; what `setup` made stays if nobody has touched it.
    pub fn renew(&mut self, commit: &str) -> Result<SetupState, GroundError> {
        let pointed = self.top.join(".git");
        let is_file = fs::symlink_metadata(&pointed).is_ok_and(|meta| meta.is_file());
        if !is_file || fs::read(&pointed).map_err(GroundError::io("read", &pointed))? != self.pointer {
            return Err(GroundError::io("trust", &pointed)(io::ErrorKind::InvalidData.into()));
        }
        self.clear_unfinished()?;
        remove_pipes(&self.top, Pipes::All);
        self.git.write(["checkout", "-q", "--force", "--detach", "--no-guess", commit])?;
        // Git leaves whatever lies in the folder of a submodule.
        for (path, _) in &self.not_work.submodules {
            let full = self.top.join(OsStr::from_bytes(path));
            if has_plain_parents(&self.top, &full) {
                remove_folder(&full)?;
            }
        }
        let is_whole = self.not_work.left_by_setup.is_empty() && self.not_work.submodules.is_empty();
        let untouched = |made: &SetupOutput| made.fingerprint == fingerprint(&self.top, slices(&made.paths));
        self.made = self.made.take().filter(|made| is_whole && untouched(made));
        let mut words: Vec<OsString> = vec!["clean".into(), "-ffdqx".into()];
        for path in self.made.iter().flat_map(|made| &made.paths) {
            let rule = pattern(path);
            words.push("-e".into());
            words.push(OsString::from_vec(rule.strip_suffix(b"\n").unwrap_or(&rule).to_vec()));
        }
        self.git.write(&words)?;
        Ok(if self.made.is_some() { SetupState::StillThere } else { SetupState::Needed })
    }

    /// Remembers what is in the tree before the work begins.
    pub fn prepared(&mut self, commit: &str, layout: &Layout, setup: SetupState) -> Result<(), GroundError> {
        let submodules = submodules(&self.git, commit)?;
        let with_content = |path: Vec<u8>| (fingerprint(&self.top, [path.as_slice()]), path);
        self.not_work.submodules =
            submodules.into_iter().map(with_content).map(|(content, path)| (path, content)).collect();
        if setup == SetupState::Needed {
            self.not_work.left_by_setup = self.take(commit, layout)?.differences;
            let paths = self.ignored()?;
            let fingerprint = fingerprint(&self.top, slices(&paths));
            self.made = Some(SetupOutput { paths, fingerprint });
        }
        Ok(())
    }

    /// Ignored files that the work left, which no commit carries.
    pub fn left_ignored(&self, layout: &Layout) -> Result<Vec<String>, GroundError> {
        let is_known = |path: &Vec<u8>| {
            let made = self.made.iter().flat_map(|made| &made.paths);
            layout.is_ours(path) || made.chain(&self.not_work.shared).any(|known| known == path)
        };
        let paths = self.ignored()?;
        Ok(layout.all_seen(paths.iter().filter(|path| !is_known(path)).map(Vec::as_slice)))
    }

    fn ignored(&self) -> Result<Vec<Vec<u8>>, GroundError> {
        let words = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
        let listed = self.git.read(words)?;
        Ok(records(&listed).map(|path| path.strip_suffix(b"/").unwrap_or(path).to_vec()).collect())
    }

    /// Removes locks of a killed git. No process works in the tree when this is called.
    fn clear_unfinished(&self) -> Result<(), GroundError> {
        for path in fs::read_dir(&self.git_dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.extension().is_some_and(|extension| extension == "lock") {
                fs::remove_file(&path).map_err(GroundError::io("remove", &path))?;
            }
        }
        UNFINISHED.iter().try_for_each(|name| remove_folder(&self.git_dir.join(name)))
    }

    /// Its content, compared with a commit.
    pub fn take(&self, base: &str, layout: &Layout) -> Result<Snapshot, GroundError> {
        remove_pipes(&self.top, Pipes::All);
        let index = self.git_dir.join(INDEX);
        let git = self.git.with_index(&index);
        // The copy has the file times of the checkout, and files that a worker added by force.
        if copy(&self.git_dir.join("index"), &index).is_ok()
            && let Ok(snapshot) = take(&git, &self.top, base, layout, &self.not_work)
        {
            return Ok(snapshot);
        }
        // The worker may have broken its index, or what it has checked out.
        remove_file(&index)?;
        git.write(["read-tree", base])?;
        git.write(["update-ref", "--no-deref", "HEAD", base])?;
        take(&git, &self.top, base, layout, &self.not_work)
    }

    /// Takes back what was changed since this snapshot, and says what that was.
    pub fn undo_since(
        &self,
        snapshot: &Snapshot,
        base: &str,
        layout: &Layout,
    ) -> Result<Vec<Difference>, GroundError> {
        let now = self.take(base, layout)?;
        let since = differences(&self.git, &snapshot.tree, &now.tree)?;
        self.put_back(&since)?;
        Ok(since)
    }

    /// Gives the paths of these differences the content that they had before.
    pub fn put_back(&self, differences: &[Difference]) -> Result<(), GroundError> {
        restore(&self.git.with_index(&self.git_dir.join(INDEX)), &self.top, differences)
    }

    pub fn repository(&self) -> KnownRepository {
        KnownRepository(self.git.without_filters())
    }

    /// Replaces the content by another tree, as uncommitted work on this commit.
    pub fn show(&self, tree: &str, commit: &str) -> Result<(), GroundError> {
        let index = self.git_dir.join(INDEX);
        self.git.with_index(&index).write(["read-tree", "--reset", "-u", tree])?;
        self.clear_unfinished()?;
        match refs::head(&self.git_dir) {
            Some(_) => {
                let head = self.git_dir.join("HEAD");
                atomic_file::write(&head, &[commit.as_bytes(), b"\n"], Durability::Unsynced)
                    .map_err(GroundError::io("write", &head))?;
            }
            None => drop(self.git.write(["update-ref", "--no-deref", "HEAD", commit])?),
        }
        let own = self.git_dir.join("index");
        copy(&index, &own).map_err(GroundError::io("write", &own))
    }

    /// The folders of submodules. Where they are links to what is shared, that cannot be written anyway.
    pub fn submodules(&self) -> Vec<PathBuf> {
        let folders = self.not_work.submodules.iter().map(|(path, _)| self.top.join(OsStr::from_bytes(path)));
        folders.filter(|folder| fs::symlink_metadata(folder).is_ok_and(|meta| meta.is_dir())).collect()
    }

    pub fn git_dirs(&self) -> Vec<PathBuf> {
        vec![self.git_dir.clone(), self.common_dir.clone()]
    }

    pub fn remove(self) -> Result<(), GroundError> {
        remove_folder(&self.top)?;
        remove_folder(&self.git_dir)
    }
}

/// The trees of earlier runs: those that the next attempts can have, and those that are old. What is no tree is removed.
pub(super) fn adopt(repository: &Git, common_dir: &Path, trees: &Path) -> Result<KeptTrees, GroundError> {
    let mut kept = KeptTrees::default();
    for (top, git_dir) in known(common_dir, trees) {
        match Slot::adopted(repository, common_dir, &top, git_dir.clone()) {
            Some(slot) if slot.age() > KEPT_FOR => kept.old.push(slot),
            Some(slot) => kept.young.push(slot),
            None => {
                remove_folder(&top)?;
                remove_folder(&git_dir)?;
            }
        }
    }
    let is_known = |path: &Path| kept.young.iter().chain(&kept.old).any(|slot| slot.top == path);
    let folders = fs::read_dir(trees).into_iter().flatten().flatten().map(|entry| entry.path());
    folders.filter(|path| !is_known(path)).try_for_each(|path| remove_folder(&path))?;
    // The pool takes them from the end.
    kept.young.sort_by_key(|slot| std::cmp::Reverse(slot.number));
    Ok(kept)
}

#[derive(Debug, Default)]
pub(super) struct KeptTrees {
    pub young: Vec<Slot>,
    pub old: Vec<Slot>,
}

/// The worktrees of the repository that lie in this folder, each with its git folder.
fn known(common_dir: &Path, trees: &Path) -> Vec<(PathBuf, PathBuf)> {
    let real = trees.canonicalize().unwrap_or_else(|_| trees.to_path_buf());
    let entries = fs::read_dir(common_dir.join("worktrees")).into_iter().flatten().flatten();
    let found = entries.map(|entry| entry.path()).filter_map(|git_dir| {
        let named = fs::read_to_string(git_dir.join("gitdir")).ok()?;
        let pointed = git_dir.join(named.trim_end());
        let top = pointed.parent()?;
        let below = top.strip_prefix(&real).or_else(|_| top.strip_prefix(trees)).ok()?;
        Some((trees.join(below), git_dir))
    });
    found.collect()
}

/// Forgets the worktrees of the repository that lay somewhere below this folder and are gone.
pub(super) fn forget_gone(common_dir: &Path, below: &Path) -> Result<(), GroundError> {
    let gone = known(common_dir, below).into_iter().filter(|(top, _)| !top.exists());
    // One that git is just making is locked by it.
    let mut gone = gone.filter(|(_, git_dir)| !git_dir.join("locked").exists());
    gone.try_for_each(|(_, git_dir)| remove_folder(&git_dir))
}

/// Removes all worktrees of the repository that lie in this folder, and the folder. Returns how many there were.
pub(super) fn clear(common_dir: &Path, trees: &Path) -> Result<usize, GroundError> {
    let all = known(common_dir, trees);
    for (top, git_dir) in &all {
        remove_folder(top)?;
        remove_folder(git_dir)?;
    }
    remove_folder(trees)?;
    Ok(all.len())
}

/// The same for trees of a host's session and their records. Their folder is removed when it is empty.
pub(super) fn clear_lent(common_dir: &Path, lent: &Path, notes: &Path) -> Result<(), GroundError> {
    clear(common_dir, lent)?;
    remove_folder(notes)?;
    if let Some(folder) = lent.parent().filter(|folder| folder.is_dir()) {
        let others = fs::read_dir(folder).into_iter().flatten().flatten();
        if others.map(|entry| entry.file_name()).all(|name| name == IGNORE) {
            remove_folder(folder)?;
        }
    }
    Ok(())
}

/// Makes the folder for trees of a host's session, and lets git ignore it.
pub(super) fn make_lent(lent: &Path) -> Result<(), GroundError> {
    let whole = lent.parent().unwrap_or(lent);
    plain_file::folder(whole.parent().unwrap_or(whole), lent)
        .map_err(GroundError::io("make the folder", lent))?;
    let ignore = whole.join(IGNORE);
    plain_file::write(&ignore, b"*\n").map_err(GroundError::io("write", &ignore))
}

const IGNORE: &str = ".gitignore";

/// `gitdir: PATH`, relative to the tree if git was told to write it so.
fn pointed_at(pointer: &[u8], top: &Path) -> Option<PathBuf> {
    let text = std::str::from_utf8(pointer).ok()?;
    top.join(text.strip_prefix("gitdir: ")?.trim_end_matches('\n')).canonicalize().ok()
}

/// Copies with the modification time, by which git decides which files it must compare.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let modified = fs::metadata(from)?.modified()?;
    fs::copy(from, to)?;
    File::options().write(true).open(to)?.set_modified(modified)
}

fn slices(paths: &[Vec<u8>]) -> impl Iterator<Item = &[u8]> {
    paths.iter().map(Vec::as_slice)
}

fn remove_file(path: &Path) -> Result<(), GroundError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(GroundError::io("remove", path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes a folder, also a write-protected one, and one into which a dying process still writes; or whatever else is
/// there.
pub(super) fn remove_folder(path: &Path) -> Result<(), GroundError> {
    if fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_dir()) {
        return remove_file(path);
    }
    let began = Instant::now();
    loop {
        let error = match fs::remove_dir_all(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
                return Ok(());
            }
            Err(error) => error,
        };
        if began.elapsed() > REMOVING {
            return Err(GroundError::io("remove", path)(error));
        }
        unlock(path);
        std::thread::sleep(PAUSE);
    }
}

/// Makes these folders writable so that their content can be removed.
fn unlock(folder: &Path) {
    let Ok(meta) = fs::symlink_metadata(folder) else { return };
    if !meta.is_dir() {
        return;
    }
    // The next try shows whether it helped.
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(meta.permissions().mode() | 0o700));
    fs::read_dir(folder).into_iter().flatten().flatten().for_each(|entry| unlock(&entry.path()));
}
