//! The content of a work tree as a git tree: tracked files and untracked ones that are not ignored, without aot's own.
//! Knows neither who changed it nor what it is for.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::content::LENT;
use super::error::{GroundError, named};
use super::git::{Git, GitError, records, text};
use super::history::{Difference, FileVersion, GITLINK, read_raw, tree_of};
use super::walk::fingerprint;
use super::{FoundCommit, Project};

/// Where the project lies in its work tree, and which paths are never part of the work.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// The folder that the work tree begins at.
    pub top: PathBuf,
    /// The project's folder below it: empty, or with a slash at its end.
    pub prefix: Vec<u8>,
    /// The state file, its sidecar folder, the latter's ignore file, and the trees of a host's session.
    ours: Vec<Vec<u8>>,
}

/// The content of a work tree, compared with a git tree.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub tree: String,
    pub differences: Vec<Difference>,
    /// Nested repositories, which a commit cannot contain.
    pub nested: Vec<Vec<u8>>,
    /// Submodules in which something was changed, which a commit of this repository cannot contain either.
    pub submodules: Vec<Vec<u8>>,
    pub ignored: IgnoredFiles,
}

/// What was seen of files that git ignores, ours excepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IgnoredFiles {
    None,
    Unknown,
}

impl Snapshot {
    /// Why it cannot land, with paths as they are seen from the project's folder.
    pub fn cannot_land(&self, layout: &Layout) -> Option<String> {
        let named = |paths: &[Vec<u8>]| named(&layout.all_seen(paths.iter().map(Vec::as_slice)));
        if !self.nested.is_empty() {
            return Some(format!(
                "a commit cannot hold repositories within the project: {}; remove their `.git`, or ignore them",
                named(&self.nested)
            ));
        }
        (!self.submodules.is_empty()).then(|| {
            format!(
                "it changed files in a submodule, which cannot be landed from here: {}; a change there is made in the \
                 submodule's own repository",
                named(&self.submodules)
            )
        })
    }

    /// Everything that was changed, whether it can land or not, as it is seen from the project's folder.
    pub fn changed(&self, layout: &Layout) -> Vec<String> {
        let paths = self.differences.iter().map(|one| &one.path).chain(&self.nested).chain(&self.submodules);
        let mut paths = layout.all_seen(paths.map(Vec::as_slice));
        paths.sort();
        paths
    }
}

/// What was in the tree before the work began; it is not part of the work unless it changes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct NotWork {
    /// Links to what the project shares.
    pub shared: Vec<Vec<u8>>,
    /// What `setup` left behind.
    pub left_by_setup: Vec<Difference>,
    /// Submodules, and the fingerprint of what is in their folders. Git must not be led into them: what a worker put
    /// there has a configuration of its own.
    #[serde(default)]
    pub submodules: Vec<(Vec<u8>, String)>,
}

impl Layout {
    pub fn of(project: &Project, top: &Path, prefix: &[u8]) -> Layout {
        let real = |path: &Path| match (
            path.parent().and_then(|folder| folder.canonicalize().ok()),
            path.file_name(),
        ) {
            (Some(folder), Some(name)) => folder.join(name),
            (None, _) | (_, None) => path.to_path_buf(),
        };
        let ignore = project.state.parent().map(|folder| folder.join("aot").join(".gitignore"));
        let lent = project.root.join(LENT);
        let ours = [Some(project.state.clone()), Some(project.sidecar.clone()), Some(lent), ignore];
        let below = |path: PathBuf| {
            real(&path).strip_prefix(top).ok().map(|path| path.as_os_str().as_bytes().to_vec())
        };
        Layout {
            top: top.to_path_buf(),
            prefix: prefix.to_vec(),
            ours: ours.into_iter().flatten().filter_map(below).filter(|path| !path.is_empty()).collect(),
        }
    }

    pub fn is_ours(&self, path: &[u8]) -> bool {
        self.ours.iter().any(|ours| is_at_or_below(path, ours))
    }

    /// Whether our own paths lie below this one.
    pub fn holds_ours(&self, path: &[u8]) -> bool {
        self.ours.iter().any(|ours| is_at_or_below(ours, path))
    }

    pub fn ours(&self) -> &[Vec<u8>] {
        &self.ours
    }

    /// The project's folder in a tree of the repository.
    pub fn root_in(&self, tree: &Path) -> PathBuf {
        match self.prefix.is_empty() {
            true => tree.to_path_buf(),
            false => tree.join(OsStr::from_bytes(self.prefix.strip_suffix(b"/").unwrap_or(&self.prefix))),
        }
    }

    /// A path of the repository, as seen from the project's folder.
    pub fn seen(&self, path: &[u8]) -> String {
        let mut folder = self.prefix.as_slice();
        let mut rest = path;
        // Drops the folders that both have in common.
        while let Some(end) = folder.iter().position(|byte| *byte == b'/') {
            match rest.strip_prefix(&folder[..=end]) {
                Some(within) => (folder, rest) = (&folder[end + 1..], within),
                None => break,
            }
        }
        let up = folder.iter().filter(|byte| **byte == b'/').count();
        format!("{}{}", "../".repeat(up), String::from_utf8_lossy(rest))
    }

    pub fn all_seen<'a>(&self, paths: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        paths.into_iter().map(|path| self.seen(path)).collect()
    }
}

pub(super) fn is_at_or_below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

impl FoundCommit {
    pub(super) fn seen(self, layout: &Layout) -> FoundCommit {
        let paths = self.paths.iter().map(|path| layout.seen(path.as_bytes())).collect();
        FoundCommit { paths, ..self }
    }
}

/// Puts the content of `git`'s work tree, which begins at `top`, into its index and compares it with `base`. Paths that are not part of the work
/// get the version of `base`.
pub(super) fn take(
    git: &Git,
    top: &Path,
    base: &str,
    layout: &Layout,
    not_work: &NotWork,
) -> Result<Snapshot, GroundError> {
    let seen = Status::of(git, layout)?;
    if not_work.submodules.is_empty() && not_work.left_by_setup.is_empty() && seen.is_all_at(base) {
        let (tree, ignored) = (tree_of(git, base)?, seen.ignored);
        let (differences, nested, submodules) = (Vec::new(), Vec::new(), Vec::new());
        return Ok(Snapshot { tree, differences, nested, submodules, ignored });
    }
    let is_submodule = |path: &[u8]| not_work.submodules.iter().any(|(submodule, _)| submodule == path);
    let (mut nested, mut edited) = (seen.nested, seen.edited);
    nested.retain(|path| !is_submodule(path));
    edited.retain(|path| !is_submodule(path));
    let changed = |(path, before): &&(Vec<u8>, String)| fingerprint(top, [path.as_slice()]) != *before;
    let submodules = not_work.submodules.iter().filter(changed).map(|(path, _)| path.clone()).collect();
    let beside = nested.iter().chain(not_work.submodules.iter().map(|(path, _)| path));
    add(git, &edited, &beside.map(Vec::as_slice).collect::<Vec<_>>())?;
    let raw =
        git.read(["diff-index", "--cached", "--raw", "-z", "--full-index", "--no-renames", base, "--"])?;
    let is_repository = |held: &Option<FileVersion>| held.as_ref().is_some_and(|held| held.mode == GITLINK);
    let (mut differences, mut back) = (Vec::new(), Vec::new());
    for difference in read_raw(&raw) {
        let path = &difference.path;
        let is_shared = not_work.shared.iter().any(|shared| is_at_or_below(path, shared));
        if is_repository(&difference.new) && !is_repository(&difference.old) {
            nested.push(path.clone());
            back.push(difference);
        } else if difference.new.is_some() && layout.holds_ours(path) && !layout.is_ours(path) {
            // Our own paths cannot be in the index beside a file in their folder's place. A landing refuses it.
            back.push(difference.clone());
            differences.push(difference);
        } else if layout.is_ours(path) || is_shared || not_work.left_by_setup.contains(&difference) {
            back.push(difference);
        } else {
            differences.push(difference);
        }
    }
    let back = back.iter().map(|difference| (difference.path.as_slice(), difference.old.as_ref()));
    set(git, back, base.len())?;
    nested.sort();
    nested.dedup();
    let tree = text(&git.write(["write-tree"])?);
    Ok(Snapshot { tree, differences, nested, submodules, ignored: seen.ignored })
}

/// What git sees at one look at a work tree. It looks into no repository within: a worker can have made one.
#[derive(Debug)]
struct Status {
    /// The commit that is checked out.
    commit: Vec<u8>,
    /// Whether neither the index nor any file differs from that commit.
    is_clean: bool,
    /// Paths whose content is not what the index has.
    edited: Vec<Vec<u8>>,
    /// Nested repositories that are neither tracked nor ignored.
    nested: Vec<Vec<u8>>,
    ignored: IgnoredFiles,
}

impl Status {
    fn of(git: &Git, layout: &Layout) -> Result<Status, GroundError> {
        let look = git.read([
            // What a worker's index says of untracked files is not believed.
            "-c",
            "core.untrackedCache=false",
            "status",
            "--porcelain=v2",
            "-z",
            "--branch",
            "--no-ahead-behind",
            "--untracked-files=all",
            "--ignored=matching",
            "--ignore-submodules=dirty",
            "--no-renames",
        ])?;
        let mut seen = Status {
            commit: Vec::new(),
            is_clean: true,
            edited: Vec::new(),
            nested: Vec::new(),
            ignored: IgnoredFiles::None,
        };
        for record in records(&look) {
            let field = |at: usize| record.splitn(at + 1, |byte| *byte == b' ').nth(at);
            let (is_edited, path) = match record[0] {
                b'#' => {
                    if let Some(commit) = record.strip_prefix(b"# branch.oid ") {
                        seen.commit = commit.to_vec();
                    }
                    continue;
                }
                b'!' => {
                    let path = record.get(2..).unwrap_or_default();
                    if !layout.is_ours(path.strip_suffix(b"/").unwrap_or(path)) {
                        seen.ignored = IgnoredFiles::Unknown;
                    }
                    continue;
                }
                // `1 XY …`: X is what the index changes, Y what the file changes of that.
                b'1' => (record.get(3) != Some(&b'.'), field(8)),
                b'u' => (true, field(10)),
                _ => (true, record.get(2..)),
            };
            seen.is_clean = false;
            let path = path.unwrap_or_default();
            match path.strip_suffix(b"/") {
                Some(nested) => seen.nested.push(nested.to_vec()),
                None if is_edited => seen.edited.push(path.to_vec()),
                None => {}
            }
        }
        Ok(seen)
    }

    fn is_all_at(&self, commit: &str) -> bool {
        self.is_clean && self.commit == commit.as_bytes()
    }
}

/// Puts these files into the index as they are. Those that are beside them are left out.
fn add(git: &Git, edited: &[Vec<u8>], beside: &[&[u8]]) -> Result<(), GroundError> {
    if edited.is_empty() {
        return Ok(());
    }
    let named = |magic: &str, path: &[u8]| [b":(top,", magic.as_bytes(), b"literal)", path].concat();
    let lines = |paths: Vec<Vec<u8>>| paths.join(&b"\0"[..]);
    // In a sparse checkout a worker may well write what lies outside of its cone.
    let words = ["add", "-A", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul"];
    let only = lines(edited.iter().map(|path| named("", path)).collect());
    match git.write_with_input(words, &only) {
        // Git names no file below what has become a link, or none that has gone since. It looks at all files instead.
        Err(error @ GitError::Refused { .. }) if !error.is_death() => {
            let all = [b":/".to_vec()].into_iter();
            let all = lines(all.chain(beside.iter().map(|path| named("exclude,", path))).collect());
            git.write_with_input(words, &all)?;
        }
        added => drop(added?),
    }
    Ok(())
}

/// Puts these entries into the index. `digits` is the length of ids in this repository.
pub(super) fn set<'a>(
    git: &Git,
    entries: impl Iterator<Item = (&'a [u8], Option<&'a FileVersion>)>,
    digits: usize,
) -> Result<(), GroundError> {
    let mut lines = Vec::new();
    for (path, held) in entries {
        match held {
            Some(held) => lines.extend_from_slice(format!("{} {} 0\t", held.mode, held.id).as_bytes()),
            None => lines.extend_from_slice(format!("0 {} 0\t", "0".repeat(digits)).as_bytes()),
        }
        lines.extend_from_slice(path);
        lines.push(0);
    }
    if !lines.is_empty() {
        git.write_with_input(["update-index", "-z", "--index-info"], &lines)?;
    }
    Ok(())
}

static LAST_SUBMODULES: Mutex<Option<(String, Vec<Vec<u8>>)>> = Mutex::new(None);

/// A commit that differs so from another has the same submodules, unless one is among the differences.
pub(super) fn carry_submodules(old: &str, new: &str, between: &[Difference]) {
    let is_link = |one: &FileVersion| one.mode == GITLINK;
    if between.iter().any(|one| one.old.iter().chain(&one.new).any(is_link)) {
        return;
    }
    let mut last = LAST_SUBMODULES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((commit, _)) = last.as_mut().filter(|(commit, _)| commit == old) {
        *commit = new.to_owned();
    }
}

/// The submodules of a commit. Those of the last one are remembered: many trees are made of one commit.
pub(super) fn submodules(git: &Git, commit: &str) -> Result<Vec<Vec<u8>>, GroundError> {
    let last = || LAST_SUBMODULES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, known)) = last().as_ref().filter(|(known, _)| known == commit) {
        return Ok(known.clone());
    }
    let listed = git.read(["ls-tree", "-r", "-z", "--full-tree", commit])?;
    let path = |record: &[u8]| {
        let tab = record.iter().position(|byte| *byte == b'\t')?;
        record.starts_with(GITLINK.as_bytes()).then(|| record[tab + 1..].to_vec())
    };
    let found: Vec<Vec<u8>> = records(&listed).filter_map(path).collect();
    *last() = Some((commit.to_owned(), found.clone()));
    Ok(found)
}

/// Gives these paths the version that they have on the left side, in the index and in the work tree at `top`.
pub(super) fn restore(git: &Git, top: &Path, differences: &[Difference]) -> Result<(), GroundError> {
    for one in differences.iter().filter(|one| one.old.is_none()) {
        remove_below(top, &one.path)?;
    }
    let digits = differences.iter().flat_map(|one| [&one.old, &one.new]).flatten().map(|held| held.id.len());
    let entries = differences.iter().map(|one| (one.path.as_slice(), one.old.as_ref()));
    set(git, entries, digits.max().unwrap_or_default())?;
    let back = differences.iter().filter(|one| one.old.as_ref().is_some_and(|held| held.mode != GITLINK));
    let lines: Vec<u8> = back.flat_map(|one| [one.path.as_slice(), b"\0"].concat()).collect();
    if !lines.is_empty() {
        git.write_with_input(["checkout-index", "-f", "-u", "-z", "--stdin"], &lines)?;
    }
    Ok(())
}

/// Removes a file, and its folders if they are empty then; never through a link.
fn remove_below(top: &Path, path: &[u8]) -> Result<(), GroundError> {
    let full = top.join(OsStr::from_bytes(path));
    if !has_plain_parents(top, &full) {
        return Ok(());
    }
    match fs::remove_file(&full) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(GroundError::io("remove", &full)(error));
        }
        Ok(()) | Err(_) => {}
    }
    for folder in full.ancestors().skip(1).take_while(|folder| *folder != top) {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
    Ok(())
}

/// Whether no link lies between `top` and what is at this path.
pub(super) fn has_plain_parents(top: &Path, full: &Path) -> bool {
    let mut folders = full.ancestors().skip(1).take_while(|folder| *folder != top);
    folders.all(|folder| fs::symlink_metadata(folder).is_ok_and(|meta| meta.is_dir()))
}

/// An ignore rule that matches exactly this path.
pub(super) fn pattern(path: &[u8]) -> Vec<u8> {
    let mut line = vec![b'/'];
    for byte in path {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\' | b' ' | b'!' | b'#') {
            line.push(b'\\');
        }
        line.push(*byte);
    }
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_seen_from_the_projects_folder() {
        let check = |prefix: &str, path: &str, seen: &str| {
            let layout =
                Layout { top: PathBuf::from("/r"), prefix: prefix.as_bytes().to_vec(), ours: Vec::new() };
            assert_eq!(layout.seen(path.as_bytes()), seen, "{path} from {prefix}");
        };
        check("", "a/b", "a/b");
        check("a/", "a/b", "b");
        check("a/", "b", "../b");
        check("a/b/", "a/c", "../c");
        check("a/b/", "a/b/c/d", "c/d");
        check("a/b/", "ab/c", "../../ab/c");
    }
}
