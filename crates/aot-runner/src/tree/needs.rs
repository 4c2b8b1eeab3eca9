//! What the checks of a project need and a worktree does not have: files that git ignores, and submodules. Looks at names and
//! at a few well-known files, runs nothing but git, and believes none of it: what is found is a suggestion.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use aot_core::shell_command::simple_commands;

use super::Project;
use super::git::{Git, records};
use super::ignored::uncommitted;
use crate::process::Guard;

/// So many paths are suggested.
const MOST: usize = 40;

/// So many entries of one folder are looked at, and so much of one file.
const MOST_ENTRIES: usize = 2_000;
const MOST_BYTES: u64 = 64 << 10;

/// Folders that package managers fill and tools read.
const DEPENDENCIES: [&str; 6] = ["node_modules", ".venv", "venv", "vendor", ".bundle", "bower_components"];

/// Folders that a check fills itself: shared, they could not be written.
const OUTPUTS: [&str; 12] = [
    "target",
    "build",
    "dist",
    "out",
    "coverage",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".tox",
    ".nox",
    ".next",
];

/// The file that names further ignored files which every worktree is to have.
pub(super) const INCLUDE: &str = ".worktreeinclude";

/// What every tree should get, as paths below the project's root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeNeeds {
    pub share: Vec<String>,
    pub copy: Vec<String>,
    /// What a person should know of it.
    pub notes: Vec<String>,
}

/// Looks at a project for what these commands need.
pub fn needs(root: &Path, commands: &[&str], guard: &Guard) -> TreeNeeds {
    let mut found = TreeNeeds::default();
    let git = Git::searched(root, guard);
    let Some(ignored) = ignored(&git) else { return found };
    let words = words(commands);
    for path in submodules(&git).into_iter().filter(|path| is_filled(&root.join(path))) {
        found.notes.push(format!("{path} is a submodule: workers read it, and no change in it can land"));
        found.share.push(path);
    }
    for path in ignored {
        let name = path.rsplit('/').next().unwrap_or(&path);
        let full = root.join(&path);
        let Ok(meta) = fs::symlink_metadata(&full) else { continue };
        let is_named = words.iter().any(|word| is_at_or_below(word, &path));
        let is_folder = full.is_dir();
        if is_folder && (DEPENDENCIES.contains(&name) || is_named && !OUTPUTS.contains(&name)) {
            found.notes.extend(leads_back(root, &path));
            found.share.push(path);
        } else if meta.is_file() && (is_named || name == ".env" || name.starts_with(".env.")) {
            found.copy.push(path);
        }
    }
    found.share.truncate(MOST);
    found.copy.truncate(MOST);
    found
}

/// What lies in the project, and what a worktree would not have of it: ignored and untracked paths, but for what builds make and
/// these. Nothing where tracked files are edited, which a worktree would not have either, and outside of a repository.
pub fn not_in_trees(project: &Project, provided: &[String], guard: &Guard) -> Vec<String> {
    let git = Git::searched(&project.root, guard);
    let Some(ignored) = ignored(&git) else { return Vec::new() };
    if !uncommitted(project, guard).is_ok_and(|edited| edited.is_empty()) {
        return Vec::new();
    }
    let untracked = others(&git, &["--directory", "--no-empty-directory"]).unwrap_or_default();
    let state = project.state.strip_prefix(&project.root).ok().and_then(Path::to_str);
    let is_output = |path: &str| path.split('/').any(|part| OUTPUTS.contains(&part));
    let mut found: Vec<String> = untracked.into_iter().chain(ignored).collect();
    found.retain(|path| {
        !is_output(path)
            && state != Some(path.as_str())
            && !provided.iter().any(|given| is_at_or_below(path, given.trim_end_matches('/')))
    });
    found.truncate(MOST);
    found
}

/// What git ignores below the project's root; a folder stands for all that is in it. Nothing outside of a repository.
fn ignored(git: &Git) -> Option<Vec<String>> {
    others(git, &["--ignored", "--directory"])
}

/// What git does not track below the project's root, but for our own files.
fn others(git: &Git, words: &[&str]) -> Option<Vec<String>> {
    let words = ["ls-files", "-z", "--others", "--exclude-standard"].iter().chain(words);
    let listed = git.query(words).ok().filter(|output| output.code == 0)?.stdout;
    let path = |path: &[u8]| String::from_utf8(path.strip_suffix(b"/").unwrap_or(path).to_vec()).ok();
    let ours = |path: &String| path == ".claude" || path.starts_with(".claude/") || path.starts_with(".aot");
    Some(records(&listed).filter_map(path).filter(|path| !ours(path)).collect())
}

fn submodules(git: &Git) -> Vec<String> {
    let Ok(listed) = git.read(["ls-files", "-z", "--stage"]) else { return Vec::new() };
    let paths = records(&listed).filter(|entry| entry.starts_with(b"160000 "));
    let path = |entry: &[u8]| {
        let at = entry.iter().position(|byte| *byte == b'\t')?;
        String::from_utf8(entry[at + 1..].to_vec()).ok()
    };
    paths.filter_map(path).collect()
}

fn is_filled(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// The words of all commands that could be paths, as they are seen from the root.
fn words(commands: &[&str]) -> Vec<String> {
    let mut words = Vec::new();
    for simple in commands.iter().flat_map(|command| simple_commands(command)) {
        for word in &simple.words {
            let word = word.trim_start_matches("./").trim_end_matches('/');
            words.push(match &simple.folder {
                Some(folder) => format!("{folder}/{word}"),
                None => word.to_owned(),
            });
        }
    }
    words
}

fn is_at_or_below(word: &str, path: &str) -> bool {
    word.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A folder of dependencies may lead back to the project: to the checkout, whichever tree it is linked from. Then a check
/// in a tree would look at the checkout's code.
fn leads_back(root: &Path, path: &str) -> Option<String> {
    let full = root.join(path);
    let name = path.rsplit('/').next().unwrap_or(path);
    let to = match name {
        "node_modules" => linked_package(root, &full)?,
        ".venv" | "venv" => installed_in_place(root, &full)?,
        _ => return None,
    };
    Some(format!(
        "{path} leads back to {to} of the checkout: a check in a tree would test that; prefer `--setup` to fill {path} there"
    ))
}

/// A package of the project itself, which a package manager linked.
fn linked_package(root: &Path, modules: &Path) -> Option<String> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_ENTRIES);
    let scoped = entries(modules).filter(|entry| entry.file_name().as_bytes().starts_with(b"@"));
    let all = entries(modules).chain(scoped.flat_map(|scope| entries(&scope.path()).collect::<Vec<_>>()));
    let mut links = all.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    links.find_map(|link| {
        let to = link.path().canonicalize().ok()?;
        let is_stored = to.components().any(|part| part.as_os_str() == "node_modules");
        let below = to.strip_prefix(root).ok().filter(|_| !is_stored)?;
        Some(below.display().to_string())
    })
}

/// A project that was installed as a link to its sources.
fn installed_in_place(root: &Path, environment: &Path) -> Option<String> {
    let lib = fs::read_dir(environment.join("lib")).ok()?.flatten().take(MOST_ENTRIES);
    let root = root.to_str()?;
    for site in lib.map(|entry| entry.path().join("site-packages")) {
        for entry in fs::read_dir(site).into_iter().flatten().flatten().take(MOST_ENTRIES) {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let tells = name.ends_with(".pth")
                || name.ends_with(".egg-link")
                || name.starts_with("__editable__") && name.ends_with(".py");
            if !tells || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
                continue;
            }
            let mut text = Vec::new();
            let Ok(file) = File::open(entry.path()) else { continue };
            if file.take(MOST_BYTES).read_to_end(&mut text).is_err() {
                continue;
            }
            let text = String::from_utf8_lossy(&text);
            let inside = text.match_indices(root).find_map(|(at, _)| {
                let rest = &text[at + root.len()..];
                let end = rest.find(['\'', '"', '\n', '\r']).unwrap_or(rest.len());
                let path = rest[..end].trim();
                let is_whole = path.is_empty() || path.starts_with('/');
                let path = path.trim_start_matches('/');
                let is_own = path.starts_with(".venv") || path.starts_with("venv");
                (is_whole && !is_own).then(|| if path.is_empty() { ".".to_owned() } else { path.to_owned() })
            });
            if inside.is_some() {
                return inside;
            }
        }
    }
    None
}
