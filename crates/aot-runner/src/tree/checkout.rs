//! The user's own checkout, which follows what lands on its branch: what is in the way, how it is brought from one
//! commit to the next, and how it is settled after a crash or a race. Never overwrites what nobody else has.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::error::GroundError;
use super::git::{Git, GitError, records, text};
use super::history::{Difference, GITLINK, Held, differences};
use super::taking::{Layout, set};

/// A folder in the way is looked into this far.
const DEEPEST: usize = 64;

#[derive(Debug)]
pub(super) struct Checkout {
    pub git: Git,
    pub git_dir: PathBuf,
    pub layout: Layout,
}

#[derive(Debug)]
pub(super) enum Followed {
    Yes,
    /// Git refused, in its words; nothing was touched.
    No(String),
}

impl Checkout {
    /// The branch that is checked out.
    pub fn branch(&self) -> Result<Option<String>, GitError> {
        let said = self.git.ask(["symbolic-ref", "-q", "HEAD"])?;
        Ok((said.code == 0).then(|| text(&said.out)))
    }

    /// Tracked files with uncommitted edits, ours excepted.
    pub fn uncommitted(&self) -> Result<Vec<Vec<u8>>, GroundError> {
        let status = self.git.look([
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

    /// What a user has in a rebase is no branch to move.
    pub fn is_rebasing(&self, reference: &str) -> bool {
        ["rebase-merge/head-name", "rebase-apply/head-name"].iter().any(|file| {
            fs::read_to_string(self.git_dir.join(file)).is_ok_and(|name| name.trim() == reference)
        })
    }

    /// Paths that these differences would overwrite and that nobody else has: edits, and files that git does not
    /// track, ignored or not.
    pub fn in_the_way(&self, differences: &[Difference]) -> Result<Vec<Vec<u8>>, GroundError> {
        let mut found: BTreeSet<Vec<u8>> = BTreeSet::new();
        let edited: HashSet<Vec<u8>> = self.uncommitted()?.into_iter().collect();
        found.extend(differences.iter().filter(|one| edited.contains(&one.path)).map(|one| one.path.clone()));
        found.extend(self.edited_in_hiding(differences)?);
        let removed: HashSet<&[u8]> =
            differences.iter().filter(|one| one.new.is_none()).map(|one| one.path.as_slice()).collect();
        for added in differences.iter().filter(|one| one.old.is_none() && !edited.contains(&one.path)) {
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

    /// Edits of files that the user told git not to look at.
    fn edited_in_hiding(&self, differences: &[Difference]) -> Result<Vec<Vec<u8>>, GroundError> {
        let touched: HashMap<&[u8], &Difference> =
            differences.iter().map(|one| (one.path.as_slice(), one)).collect();
        let listed = self.git.look(["ls-files", "-v", "-z"])?;
        let hidden = records(&listed)
            .filter(|record| record.len() > 2 && record[0] != b'H')
            .filter_map(|record| touched.get(&record[2..]).copied());
        let mut found = Vec::new();
        for difference in hidden {
            match self.lying(&difference.path)? {
                // A sparse checkout has nothing there.
                Lying::Nothing => {}
                lying if lying.is(difference.old.as_ref()) => {}
                Lying::Held(_) | Lying::Other => found.push(difference.path.clone()),
            }
        }
        Ok(found)
    }

    /// Brings index and files from one commit to another, all or nothing as far as git can see.
    pub fn follow(&self, old: &str, new: &str) -> Result<Followed, GroundError> {
        let words = ["read-tree", "-m", "-u", old, new];
        if self.git.attempt(words)?.code == 0 {
            return Ok(Followed::Yes);
        }
        // A file that was only touched counts as changed until it was compared. Its answer is in the next try.
        self.git.attempt(["update-index", "-q", "--really-refresh"])?;
        let said = self.git.attempt(words)?;
        Ok(match said.code {
            0 => Followed::Yes,
            _ => Followed::No(said.err),
        })
    }

    /// Whether the index has all that a landing brings.
    pub fn has_arrived(&self, differences: &[Difference]) -> Result<bool, GroundError> {
        let index = self.index()?;
        Ok(differences.iter().all(|one| index.get(&one.path) == one.new.as_ref()))
    }

    /// Makes every path in which `old` and `new` differ what `target` has, wherever it still is as one of the two has
    /// it; what somebody edited since stays. May be done again at any point.
    pub fn settle(&self, old: &str, new: &str, target: &str) -> Result<(), GroundError> {
        let between = differences(&self.git, old, new)?;
        let moved: HashMap<Vec<u8>, Option<Held>> =
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
            let lying = self.lying(&one.path)?;
            let is_known = lying.is(one.old.as_ref()) || lying.is(one.new.as_ref());
            if is_repository || lying.is(wanted) || !(is_known || self.is_half_written(one)?) {
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
        // Only what the index has as wanted, since the user may have staged something else; and only where nothing
        // of the user's would have to make room.
        let index = self.index()?;
        let is_due =
            |(path, wanted): &(&[u8], &Held)| index.get(*path) == Some(*wanted) && self.is_free(path);
        let due = write.into_iter().filter(is_due);
        let lines: Vec<u8> = due.flat_map(|(path, _)| [path, b"\0"].concat()).collect();
        if !lines.is_empty() {
            self.git.change_with(["checkout-index", "-f", "-u", "-z", "--stdin"], &lines)?;
        }
        // So that git sees without reading that nothing differs. What does differ is the user's.
        self.git.attempt(["update-index", "-q", "--really-refresh"])?;
        Ok(())
    }

    fn index(&self) -> Result<HashMap<Vec<u8>, Held>, GroundError> {
        let staged = self.git.look(["ls-files", "-s", "-z"])?;
        let entry = |record: &[u8]| {
            let tab = record.iter().position(|byte| *byte == b'\t')?;
            let head = String::from_utf8_lossy(&record[..tab]).into_owned();
            let mut fields = head.split(' ').map(str::to_owned);
            let held = Held { mode: fields.next()?, id: fields.next()? };
            (fields.next()? == "0").then(|| (record[tab + 1..].to_vec(), held))
        };
        Ok(records(&staged).filter_map(entry).collect())
    }

    fn lying(&self, path: &[u8]) -> Result<Lying, GroundError> {
        let full = self.full(path);
        let meta = match fs::symlink_metadata(&full) {
            Ok(meta) => meta,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Lying::Nothing);
            }
            Err(error) => return Err(GroundError::io("look at", &full)(error)),
        };
        let held = |mode: &str, id: Vec<u8>| Lying::Held(Held { mode: mode.to_owned(), id: text(&id) });
        if meta.is_symlink() {
            let target = fs::read_link(&full).map_err(GroundError::io("read", &full))?;
            let id = self.git.look_with(["hash-object", "--stdin"], target.as_os_str().as_bytes())?;
            Ok(held("120000", id))
        } else if meta.is_file() {
            let mode = if meta.permissions().mode() & 0o100 == 0 { "100644" } else { "100755" };
            Ok(held(
                mode,
                self.git.look([OsStr::new("hash-object"), OsStr::new("--"), OsStr::from_bytes(path)])?,
            ))
        } else {
            Ok(Lying::Other)
        }
    }

    /// Whether it is the beginning of what was to be written there: the power went off, or git was killed.
    fn is_half_written(&self, one: &Difference) -> Result<bool, GroundError> {
        let Some(new) = one.new.as_ref().filter(|new| new.mode != GITLINK) else { return Ok(false) };
        let Ok(lying) = fs::read(self.full(&one.path)) else { return Ok(false) };
        let is_link = fs::symlink_metadata(self.full(&one.path)).is_ok_and(|meta| meta.is_symlink());
        Ok(!is_link && self.git.look(["cat-file", "blob", &new.id])?.starts_with(&lying))
    }

    /// Whether a file can be written here: its folders are folders, and it is not one itself.
    fn is_free(&self, path: &[u8]) -> bool {
        let full = self.full(path);
        // An empty one makes room; one that is not stays.
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
        // Folders that are empty now go with it, as git does; the first that is not stops it.
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

/// What lies at a path.
enum Lying {
    Nothing,
    Held(Held),
    /// A folder, a socket.
    Other,
}

impl Lying {
    fn is(&self, held: Option<&Held>) -> bool {
        match (self, held) {
            // A folder is no file: for git nothing is at its path.
            (Lying::Nothing | Lying::Other, None) => true,
            (Lying::Held(lying), Some(held)) => lying == held,
            (Lying::Nothing | Lying::Other, Some(_)) | (Lying::Held(_), None) => false,
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
