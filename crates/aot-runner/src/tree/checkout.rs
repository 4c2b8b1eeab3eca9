//! The user's own checkout, which follows what lands on its branch: finds what is in the way, moves it from one commit to
//! the next, and reconciles it after a crash or a race. Never overwrites content that exists only there.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::error::GroundError;
use super::git::{Git, GitError, records, text};
use super::history::{Difference, FileVersion, GITLINK, differences};
use super::refs::{self, Head};
use super::snapshot::{Layout, set};

/// Of more paths than these git is not asked by name.
const MOST_NAMED: usize = 1_000;

/// How deep a folder in the way is searched.
const DEEPEST: usize = 64;

#[derive(Debug)]
pub(super) struct Checkout {
    pub git: Git,
    pub git_dir: PathBuf,
    pub layout: Layout,
}

#[derive(Debug)]
pub(super) enum FollowOutcome {
    Followed,
    /// Git refused with this message; nothing was touched.
    Refused(String),
}

impl Checkout {
    /// The branch that is checked out.
    pub fn branch(&self) -> Result<Option<String>, GitError> {
        match refs::head(&self.git_dir) {
            Some(Head::Branch(branch)) => Ok(Some(branch)),
            Some(Head::Commit(_)) => Ok(None),
            None => Ok(self.git.find(["symbolic-ref", "-q", "HEAD"])?.map(|found| text(&found))),
        }
    }

    /// Tracked files with uncommitted edits, ours excepted.
    pub fn uncommitted(&self) -> Result<Vec<Vec<u8>>, GroundError> {
        let status = self.git.read([
            "status",
            "--porcelain=v2",
            "-z",
            "--untracked-files=no",
            "--no-renames",
            "--ignore-submodules=dirty",
        ])?;
        let path = |record: &[u8]| {
            let fields = match record.first() {
                Some(b'1') => 9,
                Some(b'u') => 11,
                Some(_) | None => return None,
            };
            record.splitn(fields, |byte| *byte == b' ').nth(fields - 1).map(<[u8]>::to_vec)
        };
        Ok(records(&status).filter_map(path).filter(|path| !self.layout.is_ours(path)).collect())
    }

    /// Whether the index is that of the commit. Looks at no file.
    pub fn has_nothing_staged(&self) -> Result<bool, GitError> {
        let words = ["diff-index", "--cached", "--quiet", "--ignore-submodules=none", "HEAD", "--"];
        Ok(self.git.find(words)?.is_some())
    }

    /// Files that git neither tracks nor ignores, ours excepted. A folder of them is one entry.
    pub fn untracked(&self) -> Result<Vec<Vec<u8>>, GroundError> {
        let words =
            ["ls-files", "-z", "--others", "--exclude-standard", "--directory", "--no-empty-directory"];
        let listed = self.git.read(words)?;
        let is_ours = |path: &[u8]| self.layout.is_ours(path.strip_suffix(b"/").unwrap_or(path));
        Ok(records(&listed).filter(|path| !is_ours(path)).map(<[u8]>::to_vec).collect())
    }

    /// Whether the user is rebasing the branch, so that it must not move.
    pub fn is_rebasing(&self, reference: &str) -> bool {
        ["rebase-merge/head-name", "rebase-apply/head-name"].iter().any(|file| {
            fs::read_to_string(self.git_dir.join(file)).is_ok_and(|name| name.trim() == reference)
        })
    }

    /// Paths whose only copy these differences from what is checked out would overwrite: edits, and files that git does not
    /// track, ignored or not.
    pub fn in_the_way(&self, differences: &[Difference]) -> Result<Vec<Vec<u8>>, GroundError> {
        let edited = self.edited(differences)?;
        let mut found: BTreeSet<Vec<u8>> = edited.iter().map(|path| path.to_vec()).collect();
        let removed: HashSet<&[u8]> =
            differences.iter().filter(|one| one.new.is_none()).map(|one| one.path.as_slice()).collect();
        for added in
            differences.iter().filter(|one| one.old.is_none() && !edited.contains(one.path.as_slice()))
        {
            let path = added.path.as_slice();
            let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(place, _)| place);
            for folder in slashes.map(|end| &path[..end]) {
                let blocks = fs::symlink_metadata(self.full(folder)).is_ok_and(|meta| !meta.is_dir());
                if blocks && !removed.contains(folder) {
                    found.insert(folder.to_vec());
                }
            }
            match fs::symlink_metadata(self.full(path)) {
                Ok(meta) if meta.is_dir() => {
                    files_below(&self.layout.top, &self.full(path), &mut found, &removed, 0);
                }
                Ok(_) => {
                    found.insert(path.to_vec());
                }
                Err(_) => {}
            }
        }
        Ok(found.into_iter().collect())
    }

    /// Those of these paths that the user has edited, staged or not; also with `assume-unchanged` or `skip-worktree`, which
    /// `git status` does not show. Git looks at no other files.
    fn edited<'d>(&self, differences: &'d [Difference]) -> Result<HashSet<&'d [u8]>, GroundError> {
        let words = ["ls-files", "-z", "-v", "--stage", "--modified", "--deleted", "--"].map(OsString::from);
        let path = |one: &Difference| OsString::from_vec([b":(top,literal)", one.path.as_slice()].concat());
        let named = if differences.len() > MOST_NAMED { &[] } else { differences };
        let listed = self.git.read(words.into_iter().chain(named.iter().map(path)))?;
        let mut staged: HashMap<&[u8], FileVersion> = HashMap::new();
        let (mut edited, mut hidden) = (HashSet::new(), HashSet::new());
        for record in records(&listed) {
            let Some(tab) = record.iter().position(|byte| *byte == b'\t') else { continue };
            let path = &record[tab + 1..];
            match (record[0], record.get(2..).and_then(staged_version)) {
                (b'H', Some(entry)) => drop(staged.insert(path, entry)),
                (b'h' | b'S' | b's', Some(entry)) => {
                    staged.insert(path, entry);
                    hidden.insert(path);
                }
                // Modified, deleted, unmerged.
                (_, _) => drop(edited.insert(path)),
            }
        }
        let mut found = HashSet::new();
        for one in differences {
            let path = one.path.as_slice();
            let is_hidden = hidden.contains(path);
            if staged.get(path) != one.old.as_ref() || (edited.contains(path) && !is_hidden) {
                found.insert(path);
            } else if is_hidden {
                match self.on_disk(path)? {
                    // A sparse checkout does not have the file.
                    OnDisk::Nothing => {}
                    on_disk if on_disk.is(one.old.as_ref()) => {}
                    OnDisk::Version(_) | OnDisk::Other => drop(found.insert(path)),
                }
            }
        }
        Ok(found)
    }

    /// Brings index and files from one commit to another, all or nothing as far as git can see.
    pub fn follow(&self, old: &str, new: &str) -> Result<FollowOutcome, GroundError> {
        let words = ["read-tree", "-m", "-u", old, new];
        if self.git.try_write(words)?.code == 0 {
            return Ok(FollowOutcome::Followed);
        }
        // A file that was only touched counts as changed until git compares it; the second try uses the result.
        self.git.try_write(["update-index", "-q", "--really-refresh"])?;
        let output = self.git.try_write(words)?;
        Ok(match output.code {
            0 => FollowOutcome::Followed,
            _ => FollowOutcome::Refused(output.stderr),
        })
    }

    /// Whether the index has all that a landing brings.
    pub fn has_arrived(&self, differences: &[Difference]) -> Result<bool, GroundError> {
        let index = self.index()?;
        Ok(differences.iter().all(|one| index.get(&one.path) == one.new.as_ref()))
    }

    /// Gives every path in which `old` and `new` differ the version of `target`, if it still has that of `old` or `new`;
    /// later edits stay. Repeating it is harmless.
    pub fn settle(&self, old: &str, new: &str, target: &str) -> Result<(), GroundError> {
        let between = differences(&self.git, old, new)?;
        let moved: HashMap<Vec<u8>, Option<FileVersion>> =
            differences(&self.git, old, target)?.into_iter().map(|one| (one.path, one.new)).collect();
        let index = self.index()?;
        let (mut entries, mut write, mut remove) = (Vec::new(), Vec::new(), Vec::new());
        for one in &between {
            let wanted = match moved.get(&one.path) {
                Some(moved) => moved.as_ref(),
                None => one.old.as_ref(),
            };
            let staged = index.get(&one.path);
            if staged != wanted && (staged == one.old.as_ref() || staged == one.new.as_ref()) {
                entries.push((one.path.as_slice(), wanted));
            }
            let is_repository = [&one.old, &one.new].into_iter().flatten().any(|held| held.mode == GITLINK);
            let on_disk = self.on_disk(&one.path)?;
            // Git removes a file before it writes the next version, which takes as long as its filter does.
            let is_missing = matches!(on_disk, OnDisk::Nothing);
            let is_known = is_missing || on_disk.is(one.old.as_ref()) || on_disk.is(one.new.as_ref());
            if is_repository || on_disk.is(wanted) || !(is_known || self.is_half_written(one)?) {
                continue;
            }
            match wanted {
                Some(wanted) => write.push((one.path.as_slice(), wanted)),
                None => remove.push(one.path.as_slice()),
            }
        }
        set(&self.git, entries.into_iter(), old.len())?;
        for path in remove {
            self.remove(path)?;
        }
        // Only where the index has the wanted version, because the user may have staged another, and only where no
        // file of the user is in the way.
        let index = self.index()?;
        let is_due =
            |(path, wanted): &(&[u8], &FileVersion)| index.get(*path) == Some(*wanted) && self.is_free(path);
        let due = write.into_iter().filter(is_due);
        let lines: Vec<u8> = due.flat_map(|(path, _)| [path, b"\0"].concat()).collect();
        if !lines.is_empty() {
            self.git.write_with_input(["checkout-index", "-f", "-u", "-z", "--stdin"], &lines)?;
        }
        // Updates the file times in the index. Files that still differ are the user's edits.
        self.git.try_write(["update-index", "-q", "--really-refresh"])?;
        Ok(())
    }

    fn index(&self) -> Result<HashMap<Vec<u8>, FileVersion>, GroundError> {
        let staged = self.git.read(["ls-files", "-s", "-z"])?;
        let entry = |record: &[u8]| {
            let tab = record.iter().position(|byte| *byte == b'\t')?;
            Some((record[tab + 1..].to_vec(), staged_version(record)?))
        };
        Ok(records(&staged).filter_map(entry).collect())
    }

    fn on_disk(&self, path: &[u8]) -> Result<OnDisk, GroundError> {
        let full = self.full(path);
        let meta = match fs::symlink_metadata(&full) {
            Ok(meta) => meta,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(OnDisk::Nothing);
            }
            Err(error) => return Err(GroundError::io("look at", &full)(error)),
        };
        let held =
            |mode: &str, id: Vec<u8>| OnDisk::Version(FileVersion { mode: mode.to_owned(), id: text(&id) });
        if meta.is_symlink() {
            let target = fs::read_link(&full).map_err(GroundError::io("read", &full))?;
            let id = self.git.read_with_input(["hash-object", "--stdin"], target.as_os_str().as_bytes())?;
            Ok(held("120000", id))
        } else if meta.is_file() {
            let mode = if meta.permissions().mode() & 0o100 == 0 { "100644" } else { "100755" };
            Ok(held(
                mode,
                self.git.read([OsStr::new("hash-object"), OsStr::new("--"), OsStr::from_bytes(path)])?,
            ))
        } else {
            Ok(OnDisk::Other)
        }
    }

    /// Whether the file is the beginning of the new version as git writes it, because the power failed or git was killed
    /// while writing.
    fn is_half_written(&self, one: &Difference) -> Result<bool, GroundError> {
        let Some(new) = one.new.as_ref().filter(|new| new.mode != GITLINK) else { return Ok(false) };
        let full = self.full(&one.path);
        // Whoever opens a FIFO waits for its writer.
        if !fs::symlink_metadata(&full).is_ok_and(|meta| meta.is_file()) {
            return Ok(false);
        }
        let Ok(on_disk) = fs::read(&full) else { return Ok(false) };
        let path = OsString::from_vec([b"--path=", one.path.as_slice()].concat());
        let words = [OsStr::new("cat-file"), OsStr::new("--filters"), &path, OsStr::new(&new.id)];
        Ok(self.git.read(words)?.starts_with(&on_disk))
    }

    /// Whether a file can be written at this path: its parents are folders, and it is not a folder itself.
    fn is_free(&self, path: &[u8]) -> bool {
        let full = self.full(path);
        // An empty folder is removed; one with content stays.
        let is_folder = |path: &Path| fs::symlink_metadata(path).map(|meta| meta.is_dir());
        if is_folder(&full).unwrap_or(false) && fs::remove_dir(&full).is_err() {
            return false;
        }
        let mut folders = full.ancestors().skip(1).take_while(|folder| *folder != self.layout.top);
        folders.all(|folder| is_folder(folder).unwrap_or(true))
    }

    fn remove(&self, path: &[u8]) -> Result<(), GroundError> {
        let full = self.full(path);
        match fs::remove_file(&full) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(GroundError::io("remove", &full)(error));
            }
            Ok(()) | Err(_) => {}
        }
        // Removes parents that are empty now, as git does.
        let folders = full.ancestors().skip(1).take_while(|folder| *folder != self.layout.top);
        for folder in folders {
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn full(&self, path: &[u8]) -> PathBuf {
        self.layout.top.join(OsStr::from_bytes(path))
    }
}

/// `MODE ID STAGE TAB PATH`, as `git ls-files --stage` prints it; nothing of what is unmerged.
fn staged_version(record: &[u8]) -> Option<FileVersion> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let head = String::from_utf8_lossy(&record[..tab]).into_owned();
    let mut fields = head.split(' ').map(str::to_owned);
    let held = FileVersion { mode: fields.next()?, id: fields.next()? };
    (fields.next()? == "0").then_some(held)
}

/// What is on disk at a path.
enum OnDisk {
    Nothing,
    Version(FileVersion),
    /// A folder, a socket.
    Other,
}

impl OnDisk {
    fn is(&self, held: Option<&FileVersion>) -> bool {
        match (self, held) {
            // To git, a folder is not a file at its path.
            (OnDisk::Nothing | OnDisk::Other, None) => true,
            (OnDisk::Version(on_disk), Some(held)) => on_disk == held,
            (OnDisk::Nothing | OnDisk::Other, Some(_)) | (OnDisk::Version(_), None) => false,
        }
    }
}

fn files_below(
    top: &Path,
    folder: &Path,
    found: &mut BTreeSet<Vec<u8>>,
    removed: &HashSet<&[u8]>,
    depth: usize,
) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir());
        if is_folder && depth < DEEPEST {
            files_below(top, &path, found, removed, depth + 1);
            continue;
        }
        let Ok(relative) = path.strip_prefix(top) else { continue };
        let relative = relative.as_os_str().as_bytes();
        if !removed.contains(relative) {
            found.insert(relative.to_vec());
        }
    }
}
