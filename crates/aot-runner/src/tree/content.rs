//! The content of a project as one hash: tracked files, and untracked ones that are not ignored. Reads git and changes
//! nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::drivers::Drivers;
use super::error::GroundError;
use super::git::{Git, GitError, text};
use super::walk::{Pipes, remove_pipes};
use crate::process::Guard;

/// A larger file counts by its size and modification time instead of its content.
pub const WHOLE_UP_TO: u64 = 64 << 20;

/// Outside of git, at most this much is read in total; the rest counts by size and time.
pub const READ_IN_ALL: u64 = 2 << 30;

/// Deeper folders are not read.
const DEEPEST: usize = 128;

/// The hash is cut to this many characters, which are 128 bits.
const HASH_LENGTH: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    hash: String,
    /// Mode and content id of each path.
    entries: BTreeMap<Vec<u8>, String>,
    /// Of a repository: files that git knows, as they are in its index or not.
    tracked: TrackedFiles,
    /// Of a repository: files that git neither tracks nor ignores.
    untracked: BTreeSet<Vec<u8>>,
}

/// How the files that git tracks compare with the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrackedFiles {
    AsInIndex,
    Edited,
}

/// The project's root, and aot's own paths in it (the state file and its sidecar folder), which never count.
#[derive(Clone, Debug)]
pub struct Project {
    pub root: PathBuf,
    pub state: PathBuf,
    pub sidecar: PathBuf,
    /// The user's folder for caches of the program; without it everything lies in the sidecar.
    pub cache: Option<PathBuf>,
    pub repository: ProjectRepository,
}

/// Where git finds what it knows of a project.
#[derive(Clone, Debug, Default)]
pub enum ProjectRepository {
    /// Git looks for it. Only for a project in which no worker is at work: a `.git` that one made would be believed.
    #[default]
    Searched,
    /// It was found before the first worker was started.
    Known(KnownRepository),
    /// There was none, whatever lies there now.
    Outside,
}

/// No filter runs when it is asked.
#[derive(Clone, Debug)]
pub struct KnownRepository(pub(super) Git);

/// The folder for trees of a host's session. Hosts forbid their agents to write below `.claude`, where aot's other
/// files are, but let them write in the project.
pub(super) const LENT: &str = ".aot";

impl Project {
    /// The folder for trees of a host's session.
    pub fn lent(&self) -> PathBuf {
        let folder = self.root.join(LENT);
        match self.sidecar == self.root.join(".claude").join("aot") {
            true => folder.join("trees"),
            // Each state file of a project has a folder of its own.
            false => folder.join(self.key()),
        }
    }

    /// A short name for the folder of this loop, which no other loop of the repository has.
    pub fn key(&self) -> String {
        blake3::hash(self.sidecar.as_os_str().as_bytes()).to_hex()[..8].to_owned()
    }
}

/// The paths below the root that never count.
struct OwnPaths {
    files: [Option<Vec<u8>>; 2],
    folders: [Option<Vec<u8>>; 2],
}

impl OwnPaths {
    fn of(project: &Project) -> OwnPaths {
        let below = |path: &Path| {
            path.strip_prefix(&project.root).ok().map(|path| path.as_os_str().as_bytes().to_vec())
        };
        let ignore = project.state.parent().map(|folder| folder.join("aot").join(".gitignore"));
        OwnPaths {
            files: [below(&project.state), ignore.as_deref().and_then(below)],
            folders: [below(&project.sidecar), Some(LENT.as_bytes().to_vec())],
        }
    }

    fn has(&self, path: &[u8]) -> bool {
        let within = |folder: &Vec<u8>| {
            path.strip_prefix(folder.as_slice()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        self.files.iter().flatten().any(|file| file == path) || self.folders.iter().flatten().any(within)
    }
}

impl Tree {
    pub fn of(project: &Project, guard: &Guard) -> io::Result<Tree> {
        let (entries, tracked, untracked) = match in_git(project, guard)? {
            // Git lists nothing in a folder that it ignores, so its files are read here.
            Some(found) if !found.0.is_empty() => found,
            Some(_) | None => (by_hand(project)?, TrackedFiles::AsInIndex, BTreeSet::new()),
        };
        let mut hasher = blake3::Hasher::new();
        for (path, id) in &entries {
            hasher.update(&(path.len() as u64).to_le_bytes());
            hasher.update(path);
            hasher.update(&(id.len() as u64).to_le_bytes());
            hasher.update(id.as_bytes());
        }
        let hash = hasher.finalize().to_hex()[..HASH_LENGTH].to_owned();
        Ok(Tree { hash, entries, tracked, untracked })
    }

    pub(super) fn tracked(&self) -> TrackedFiles {
        self.tracked
    }

    /// Files that git neither tracks nor ignores. A folder in which it tracks nothing is one entry.
    pub(super) fn untracked(&self) -> Vec<String> {
        let mut is_tracked: HashMap<&[u8], bool> = HashMap::new();
        let mut found: Vec<&[u8]> = Vec::new();
        for path in &self.untracked {
            if found.last().is_some_and(|last| last.ends_with(b"/") && path.starts_with(last)) {
                continue;
            }
            let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1);
            let mut folders = ends.map(|end| &path[..end]);
            let whole = folders
                .find(|folder| !*is_tracked.entry(*folder).or_insert_with(|| self.tracks_below(folder)));
            found.push(whole.unwrap_or(path));
        }
        found.into_iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
    }

    fn tracks_below(&self, folder: &[u8]) -> bool {
        let below = self.entries.range(folder.to_vec()..).map(|(path, _)| path);
        below.take_while(|path| path.starts_with(folder)).any(|path| !self.untracked.contains(path))
    }

    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// All paths, sorted; those that are no text are left out.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().filter_map(|path| std::str::from_utf8(path).ok())
    }

    /// Paths that differ, sorted.
    pub fn changed(&self, later: &Tree) -> Vec<String> {
        let gone = self.entries.keys().filter(|path| !later.entries.contains_key(*path));
        let other = later.entries.iter().filter(|(path, id)| self.entries.get(*path) != Some(id));
        let mut paths: Vec<String> = gone
            .chain(other.map(|(path, _)| path))
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect();
        paths.sort();
        paths
    }
}

/// What a repository has: mode and content id of each path, and what git says of them.
type Listed = (BTreeMap<Vec<u8>, String>, TrackedFiles, BTreeSet<Vec<u8>>);

/// What git has recorded, corrected by what is on disk; `None` outside of a repository.
fn in_git(project: &Project, guard: &Guard) -> io::Result<Option<Listed>> {
    let git = match &project.repository {
        ProjectRepository::Searched => {
            let git = Git::searched(&project.root, guard);
            let drivers = match Drivers::off(&git) {
                Ok(drivers) => drivers,
                Err(GroundError::Git(GitError::Missing)) => return Ok(None),
                Err(error) => return Err(io::Error::other(error)),
            };
            git.with_drivers(drivers).without_filters()
        }
        ProjectRepository::Known(KnownRepository(git)) => {
            remove_pipes(&project.root, Pipes::ReadByGit);
            git.in_folder(&project.root)
        }
        ProjectRepository::Outside => return Ok(None),
    };
    let listed = git.query([
        "ls-files",
        "-z",
        "-t",
        "--stage",
        "--modified",
        "--deleted",
        "--others",
        "--exclude-standard",
    ]);
    let listed = match listed {
        Ok(listed) if listed.code == 0 => listed.stdout,
        Ok(_) | Err(GitError::Missing) => return Ok(None),
        Err(error) => return Err(io::Error::other(error)),
    };
    let ours = OwnPaths::of(project);
    let mut entries = BTreeMap::new();
    let (mut tracked, mut untracked) = (TrackedFiles::AsInIndex, BTreeSet::new());
    let mut to_hash: Vec<Vec<u8>> = Vec::new();
    let mut gone: Vec<Vec<u8>> = Vec::new();
    for line in listed.split(|byte| *byte == 0).filter(|line| line.len() > 2) {
        let (tag, rest) = (line[0], &line[2..]);
        let tab = rest.iter().position(|byte| *byte == b'\t');
        let (stage, path) = match (tag, tab) {
            (b'?', _) | (_, None) => (&b""[..], rest),
            (_, Some(tab)) => (&rest[..tab], &rest[tab + 1..]),
        };
        if ours.has(path) {
            continue;
        }
        match tag {
            b'H' | b'S' => {
                entries.insert(path.to_vec(), String::from_utf8_lossy(stage).into_owned());
            }
            b'R' => gone.push(path.to_vec()),
            // Modified, unmerged or untracked: the content on disk counts.
            _ => to_hash.push(path.to_vec()),
        }
        match tag {
            b'H' | b'S' => {}
            b'?' => drop(untracked.insert(path.to_vec())),
            _ => tracked = TrackedFiles::Edited,
        }
    }
    to_hash.sort();
    to_hash.dedup();
    for (path, id) in hashed(project, &git, to_hash)? {
        match id {
            Some(id) => entries.insert(path, id),
            None => entries.remove(&path),
        };
    }
    gone.iter().for_each(|path| {
        entries.remove(path);
    });
    Ok(Some((entries, tracked, untracked)))
}

/// The same ids that git would give, so that a commit of the same content is the same tree; but for files that a filter
/// would change.
fn hashed(project: &Project, git: &Git, paths: Vec<Vec<u8>>) -> io::Result<Vec<(Vec<u8>, Option<String>)>> {
    let mut found = Vec::new();
    let mut for_git: Vec<(Vec<u8>, &'static str)> = Vec::new();
    let mut budget = READ_IN_ALL;
    for path in paths {
        let full = project.root.join(std::ffi::OsStr::from_bytes(&path));
        let Ok(meta) = fs::symlink_metadata(&full) else {
            found.push((path, None));
            continue;
        };
        if meta.is_file() && meta.len() <= WHOLE_UP_TO && !path.contains(&b'\n') {
            for_git.push((path, mode(&meta)));
        } else if meta.is_dir() {
            // A nested repository: git lists its folder and nothing below it.
            let mut inner = BTreeMap::new();
            walk(project, &OwnPaths::of(project), &full, &mut inner, &mut budget, 0)?;
            found.extend(inner.into_iter().map(|(path, id)| (path, Some(id))));
        } else if meta.is_symlink() {
            let target = fs::read_link(&full)?;
            let id = blob(git, target.as_os_str().as_bytes())?;
            found.push((path, Some(format!("120000 {id} 0"))));
        } else {
            found.push((path, Some(by_content(&full, &meta, &mut budget)?)));
        }
    }
    if for_git.is_empty() {
        return Ok(found);
    }
    let mut names = Vec::new();
    for (path, _) in &for_git {
        names.extend_from_slice(path);
        names.push(b'\n');
    }
    let ids = match git.read_with_input(["hash-object", "--stdin-paths"], &names) {
        Ok(ids) => text(&ids),
        Err(GitError::Refused { .. }) => String::new(),
        Err(error) => return Err(io::Error::other(error)),
    };
    let ids: Vec<&str> = ids.lines().collect();
    for (place, (path, mode)) in for_git.iter().enumerate() {
        let id = match ids.get(place).filter(|_| ids.len() == for_git.len()) {
            Some(id) => Some(format!("{mode} {id} 0")),
            // One of the files vanished meanwhile, and git gave up on all of them.
            None => {
                let full = project.root.join(std::ffi::OsStr::from_bytes(path));
                match fs::symlink_metadata(&full) {
                    Ok(meta) => Some(by_content(&full, &meta, &mut budget)?),
                    Err(_) => None,
                }
            }
        };
        found.push((path.clone(), id));
    }
    Ok(found)
}

fn mode(meta: &Metadata) -> &'static str {
    if meta.permissions().mode() & 0o100 == 0 { "100644" } else { "100755" }
}

fn blob(git: &Git, content: &[u8]) -> io::Result<String> {
    let id = git.read_with_input(["hash-object", "--stdin"], content).map_err(io::Error::other)?;
    Ok(text(&id))
}

/// The branch that is checked out, by its short name.
pub fn checked_out(root: &Path, guard: &Guard) -> Option<String> {
    let output = Git::searched(root, guard).query(["symbolic-ref", "-q", "--short", "HEAD"]).ok()?;
    Some(text(&output.stdout)).filter(|name| output.code == 0 && !name.is_empty())
}

/// The branch that others begin at: as the remote says, or else the name that git gives a first branch here, `main` or `master`.
pub fn default_branch(root: &Path, guard: &Guard) -> Option<String> {
    let git = Git::searched(root, guard);
    let ask = |words: &[&str]| {
        let output = git.query(words).ok()?;
        Some(text(&output.stdout)).filter(|line| output.code == 0 && !line.is_empty())
    };
    if let Some(remote) = ask(&["symbolic-ref", "-q", "--short", "refs/remotes/origin/HEAD"]) {
        return remote.strip_prefix("origin/").map(str::to_owned);
    }
    let first = ask(&["config", "init.defaultBranch"]).into_iter();
    let mut names = first.chain(["main", "master"].map(str::to_owned));
    names.find(|name| ask(&["rev-parse", "-q", "--verify", &format!("refs/heads/{name}")]).is_some())
}

/// Whether git takes this for the name of a branch.
pub fn is_branch_name(root: &Path, name: &str, guard: &Guard) -> bool {
    let checked = Git::searched(root, guard).query(["check-ref-format", "--branch", name]);
    checked.is_ok_and(|checked| checked.code == 0 && text(&checked.stdout) == name)
}

/// Hooks that git runs when a person commits.
const COMMIT_HOOKS: [&str; 4] = ["pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"];

/// Those of them that the project has, and that do not run on the commits of a loop.
pub fn commit_hooks(root: &Path, guard: &Guard) -> Vec<&'static str> {
    let Some(folder) = hooks_folder(root, guard) else { return Vec::new() };
    let is_hook = |name: &&str| {
        let file = fs::metadata(folder.join(name));
        file.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    COMMIT_HOOKS.into_iter().filter(is_hook).collect()
}

fn hooks_folder(root: &Path, guard: &Guard) -> Option<PathBuf> {
    let git = Git::searched(root, guard);
    let top = PathBuf::from(git.read_line(["rev-parse", "--show-toplevel"]).ok()?);
    let named = git.query(["config", "--type=path", "--get-all", "core.hooksPath"]).ok()?;
    // The last value is our own, which turns hooks off.
    let mut named: Vec<String> = text(&named.stdout).lines().map(str::to_owned).collect();
    named.pop();
    match named.pop() {
        Some(folder) => Some(top.join(folder)),
        None => Some(root.join(git.read_line(["rev-parse", "--git-common-dir"]).ok()?).join("hooks")),
    }
}

/// The user's name, as configured in git.
pub fn author(root: &Path, guard: &Guard) -> Option<String> {
    let output = Git::searched(root, guard).query(["config", "user.name"]).ok()?;
    Some(text(&output.stdout)).filter(|name| output.code == 0 && !name.is_empty())
}

fn by_hand(project: &Project) -> io::Result<BTreeMap<Vec<u8>, String>> {
    let mut entries = BTreeMap::new();
    let mut budget = READ_IN_ALL;
    walk(project, &OwnPaths::of(project), &project.root, &mut entries, &mut budget, 0)?;
    Ok(entries)
}

fn walk(
    project: &Project,
    ours: &OwnPaths,
    folder: &Path,
    entries: &mut BTreeMap<Vec<u8>, String>,
    budget: &mut u64,
    depth: usize,
) -> io::Result<()> {
    let mut inside: Vec<PathBuf> = match fs::read_dir(folder) {
        Ok(inside) => inside.flatten().map(|entry| entry.path()).collect(),
        // Our checks cannot read what we cannot read.
        Err(_) => return Ok(()),
    };
    // Sorted, so that the budget is always spent on the same files.
    inside.sort();
    for path in inside {
        let Ok(relative) = path.strip_prefix(&project.root) else { continue };
        let relative = relative.as_os_str().as_bytes().to_vec();
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if ours.has(&relative) || path.file_name().is_some_and(|name| name == ".git") {
            continue;
        }
        if meta.is_dir() {
            if depth < DEEPEST {
                walk(project, ours, &path, entries, budget, depth + 1)?;
            }
            continue;
        }
        entries.insert(relative, by_content(&path, &meta, budget)?);
    }
    Ok(())
}

fn by_content(path: &Path, meta: &Metadata, budget: &mut u64) -> io::Result<String> {
    if meta.is_symlink() {
        return Ok(format!("link {}", fs::read_link(path)?.display()));
    }
    let by_time = || format!("{} {} {}.{}", mode(meta), meta.len(), meta.mtime(), meta.mtime_nsec());
    if !meta.is_file() || meta.len() > WHOLE_UP_TO || meta.len() > *budget {
        return Ok(by_time());
    }
    *budget -= meta.len();
    let mut hasher = blake3::Hasher::new();
    let Ok(mut file) = fs::File::open(path) else { return Ok(by_time()) };
    let mut chunk = vec![0; 64 << 10];
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            count => hasher.update(&chunk[..count]),
        };
    }
    Ok(format!("{} {}", mode(meta), hasher.finalize().to_hex()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_which_nothing_is_tracked_is_one_entry() {
        let check = |tracked: &[&str], untracked: &[&str], found: &[&str]| {
            let bytes = |path: &&str| path.as_bytes().to_vec();
            let entries = tracked.iter().chain(untracked).map(|path| (bytes(path), String::new())).collect();
            let untracked = untracked.iter().map(bytes).collect();
            let tree = Tree { hash: String::new(), entries, tracked: TrackedFiles::AsInIndex, untracked };
            assert_eq!(tree.untracked(), found, "{tracked:?}");
        };
        check(&["a"], &[], &[]);
        check(&["a"], &["b"], &["b"]);
        check(&["a/b"], &["a/c", "a.c"], &["a.c", "a/c"]);
        check(&["a"], &["b/c/d", "b/e", "bc"], &["b/", "bc"]);
        check(&["a/b/c"], &["a/b/d/e", "a/b/d/f/g", "a/h/i"], &["a/b/d/", "a/h/"]);
        // A repository within.
        check(&["a"], &["b/"], &["b/"]);
    }
}
