//! The folder in which the trees of a loop's runs lie: in the user's cache, outside of the project, so that nothing that
//! searches the project finds them (D38). Where the cache cannot be used they lie in the sidecar. Knows no git.
//!
//! Each loop has a folder of its own, `trees/KEY`, and beside it a file `KEY.loop` that says whose it is. A run holds a lock
//! on that file: a folder that somebody else has is not used, and not removed.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Seek, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::Project;
use super::slots::{KEPT_FOR, remove_folder};
use crate::plain_file;
use crate::store::home::real;
use crate::survey::room;

const TREES: &str = "trees";

/// The ending of the file beside a loop's folder.
const LOOP: &str = "loop";

/// No such file is longer.
const MOST_NOTED: u64 = 64 << 10;

/// Folders are told apart by so many characters of a hash.
const KEY_LENGTH: usize = 16;

/// On a disk with less room than this, in bytes, trees lie only if the project's disk has even less.
const LITTLE_ROOM: u64 = 1 << 30;

/// A lock file that others keep removing is given up after so many tries.
const TRIES: usize = 10;

#[derive(Debug)]
pub(super) struct TreeFolder {
    pub path: PathBuf,
    /// The folder of all loops, if this one lies in the cache.
    all: Option<PathBuf>,
    /// Held as long as the trees are used.
    _lock: Option<File>,
}

impl TreeFolder {
    /// The folder for the trees of a run, and what a person should know of it. No tree lies where every worker may write.
    pub fn hold(project: &Project, writable: &[PathBuf]) -> (TreeFolder, Option<String>) {
        match in_cache(project, writable) {
            Ok(folder) => (folder, None),
            Err(why) => {
                let path = in_sidecar(project);
                let note = told(&path, &why);
                (TreeFolder { path, all: None, _lock: None }, Some(note))
            }
        }
    }

    /// Whether it lies in the cache.
    pub fn is_outside(&self) -> bool {
        self.all.is_some()
    }

    /// Removes the folders of loops that are gone, or that nobody has run for long. Returns the folder of all loops' trees.
    pub fn sweep(&self) -> Option<&Path> {
        let all = self.all.as_deref()?;
        for entry in fs::read_dir(all).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_other =
                path.extension().is_some_and(|ending| ending == LOOP) && path.with_extension("") != self.path;
            if is_other && is_left(&path) {
                // What cannot be removed now is removed by another run.
                let _ = remove(all, &path);
            }
        }
        Some(all)
    }
}

/// What a person should know where trees lie in the project.
pub(super) fn told(path: &Path, why: &str) -> String {
    format!(
        "the workers' trees lie in the project ({}), where test runners that search it may find them: {why}",
        path.display()
    )
}

/// Where the trees lie if the cache cannot be used, and where an earlier version had them.
pub(super) fn in_sidecar(project: &Project) -> PathBuf {
    project.sidecar.join(TREES)
}

/// Where the trees lie if the cache can be used. Makes nothing.
pub(super) fn expected(project: &Project) -> PathBuf {
    let cached = project.cache.as_ref().map(|cache| real(&cache.join(TREES)).join(key(project)));
    cached.unwrap_or_else(|| in_sidecar(project))
}

/// The folder that this project has in the cache, and its lock, unless somebody else has it.
pub(super) fn of_own(project: &Project) -> Option<(PathBuf, File)> {
    let path = expected(project);
    let noted = path.with_extension(LOOP);
    let is_there = project.cache.is_some() && noted.symlink_metadata().is_ok();
    let lock = if is_there { lock(&noted).ok()?? } else { return None };
    Some((path, lock))
}

/// Takes away the file beside a folder that is gone.
pub(super) fn forget(path: &Path) {
    // One that stays does no harm.
    let _ = fs::remove_file(path.with_extension(LOOP));
}

/// A folder in the cache for a tree that is only tried, if the cache can be used. What a killed process leaves there is removed by
/// the next run of the loop.
pub(super) fn for_trial(project: &Project) -> Option<PathBuf> {
    let cache = real(project.cache.as_ref()?);
    let all = cache.join(TREES);
    let is_own =
        !cache.starts_with(&project.root) && [&cache, &all].iter().all(|folder| make_own(folder).is_ok());
    is_own.then(|| all.join(key(project)).join(format!("trial-{}", std::process::id())))
}

/// The state file of the loop that lent the tree in which somebody is.
pub fn lender(cache: &Path, here: &Path) -> Option<PathBuf> {
    let all = real(&cache.join(TREES));
    let within = here.canonicalize().ok()?;
    let name = within.strip_prefix(&all).ok()?.components().next()?;
    noted(&all.join(name).with_extension(LOOP)).map(|(_, _, state)| state)
}

fn in_cache(project: &Project, writable: &[PathBuf]) -> Result<TreeFolder, String> {
    let Some(cache) = &project.cache else {
        return Err("there is no folder for caches, because HOME is not set".to_owned());
    };
    let cache = real(cache);
    let shown = cache.display();
    if cache.starts_with(&project.root) {
        return Err(format!("{shown} lies in the project"));
    }
    let open = writable.iter().filter_map(|path| path.canonicalize().ok());
    if let Some(open) = open.into_iter().find(|open| cache.starts_with(open) || open.starts_with(&cache)) {
        return Err(format!("workers may write {}", open.display()));
    }
    let all = cache.join(TREES);
    for folder in [&cache, &all] {
        make_own(folder).map_err(|why| format!("{} cannot be used: {why}", folder.display()))?;
    }
    if let Some(left) = little_room(&all, &project.sidecar) {
        return Err(format!("{shown} has only {} MiB left", left >> 20));
    }
    let path = all.join(key(project));
    let noted = path.with_extension(LOOP);
    let unusable = |error: io::Error| format!("{} cannot be used: {error}", noted.display());
    let Some(mut lock) = lock(&noted).map_err(unusable)? else {
        return Err(format!("{} is in use", path.display()));
    };
    note(&mut lock, project).map_err(unusable)?;
    Ok(TreeFolder { path, all: Some(all), _lock: Some(lock) })
}

/// Makes a folder that nobody else can write or read.
fn make_own(folder: &Path) -> Result<(), String> {
    let told = |error: io::Error| error.to_string();
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(told)?;
    let found = fs::symlink_metadata(folder).map_err(told)?;
    if !found.is_dir() {
        return Err("it is a link".to_owned());
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err("it belongs to another user".to_owned());
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(told)?;
    }
    Ok(())
}

/// What is left on the cache's disk, if that is little, and less than the project's disk has.
fn little_room(cache: &Path, sidecar: &Path) -> Option<u64> {
    let (here, there) = (room(cache).ok()?, room(sidecar).ok()?);
    let disk = |path: &Path| fs::metadata(path).ok().map(|found| found.dev());
    (here < LITTLE_ROOM && here < there && disk(cache) != disk(sidecar)).then_some(here)
}

/// A name that no other loop of this user has. Two machines may share a home, and have different projects under one path.
fn key(project: &Project) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&host()).update(&[0]).update(project.sidecar.as_os_str().as_bytes());
    hasher.finalize().to_hex()[..KEY_LENGTH].to_owned()
}

/// The name of this machine, as far as it has one.
fn host() -> Vec<u8> {
    fs::read("/proc/sys/kernel/hostname").unwrap_or_default().trim_ascii().to_vec()
}

/// The lock of a loop's folder, unless somebody else has it.
fn lock(path: &Path) -> io::Result<Option<File>> {
    for _ in 0..TRIES {
        let file = plain_file::open(path, File::options().read(true).write(true).create(true))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Whoever had it may have removed it, and a lock on what is removed keeps nobody out.
        if fs::symlink_metadata(path).is_ok_and(|found| Some(found.ino()) == inode(&file)) {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

fn inode(file: &File) -> Option<u64> {
    file.metadata().ok().map(|meta| meta.ino())
}

/// Writes whose folder it is. The time of the file is that of the last run.
fn note(file: &mut File, project: &Project) -> io::Result<()> {
    let words = [&host()[..], project.sidecar.as_os_str().as_bytes(), project.state.as_os_str().as_bytes()];
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(&words.join(&0))
}

/// The machine, the sidecar and the state file of a loop.
fn noted(path: &Path) -> Option<(Vec<u8>, PathBuf, PathBuf)> {
    let bytes = plain_file::read(path, MOST_NOTED).ok()?;
    let mut words = bytes.split(|byte| *byte == 0);
    let mut next = || Some(words.next()?.to_vec());
    let path = |bytes: Vec<u8>| PathBuf::from(std::ffi::OsString::from_vec(bytes));
    Some((next()?, path(next()?), path(next()?)))
}

/// Whether nobody misses the folder beside this file.
fn is_left(path: &Path) -> bool {
    let is_gone =
        |(machine, sidecar, _): &(Vec<u8>, PathBuf, PathBuf)| *machine == host() && !sidecar.is_dir();
    let used = fs::symlink_metadata(path).and_then(|meta| meta.modified());
    let is_old =
        used.is_ok_and(|used| SystemTime::now().duration_since(used).is_ok_and(|since| since > KEPT_FOR));
    is_old || noted(path).as_ref().is_some_and(is_gone)
}

fn remove(all: &Path, noted: &Path) -> io::Result<()> {
    let Some(_held) = lock(noted)? else { return Ok(()) };
    // A run may have begun meanwhile.
    if !is_left(noted) {
        return Ok(());
    }
    let folder = noted.with_extension("");
    if folder.parent() == Some(all) {
        remove_folder(&folder).map_err(io::Error::other)?;
    }
    fs::remove_file(noted)
}
