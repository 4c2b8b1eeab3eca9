//! What confines a command: workers, and whatever else runs what workers wrote (checks, `isolation.setup`, the command of
//! a judge). The one place that says which cage and which variables such a command gets. Starts nothing.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::process::Environment;
use crate::process::cage::{Cage, Kind, Network};
use crate::scratch;
use crate::settings;
use crate::store::home::Home;
use crate::tree::Project;

/// What confines workers, what else they may write, and what they may not read.
#[derive(Clone, Debug)]
pub struct Caging {
    pub kind: Kind,
    pub writable: Vec<PathBuf>,
    pub hidden: Vec<PathBuf>,
    pub network: Network,
}

impl Caging {
    /// The cage of a job that may write these folders of its own, besides what the settings name.
    pub fn cage(&self, own: Vec<PathBuf>, read_only: Vec<PathBuf>) -> Option<Cage> {
        let Caging { kind, writable, hidden, network } = self;
        match (kind, network) {
            (Kind::None, Network::On) => None,
            (kind, network) => {
                let writable = own.into_iter().chain(writable.iter().cloned()).collect();
                let (hidden, network) = (hidden.clone(), network.clone());
                Some(Cage { kind: *kind, writable, read_only, hidden, covered: Vec::new(), network })
            }
        }
    }

    /// Whether a worker that may write in this folder is kept from a repository there. Landlock by itself cannot spare a
    /// part of what it opens: a worker could change hooks and configuration, or delete the repository. Where there is no
    /// cage at all, that was said.
    pub fn spares_git_in(&self, folder: &Path) -> bool {
        let is_open = self.kind == Kind::Landlock && !self.kind.has_own_view();
        !(is_open && folder.join(".git").symlink_metadata().is_ok())
    }
}

/// How checks, `setup` and judges' commands are confined.
#[derive(Clone, Debug)]
pub enum Confinement {
    /// Like workers: in their cage, with their variables and those that `[checks] environment` adds.
    AsWorkers { caging: Caging, variables: Vec<(OsString, OsString)> },
    /// A person chose it: no cage, and every variable.
    None,
}

/// Whether checks are confined, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckCage {
    #[default]
    AsWorkers,
    None,
}

/// Where a command works.
#[derive(Clone, Copy, Debug)]
pub enum Area<'a> {
    /// A tree that belongs to one attempt: all of it can be written.
    Tree(&'a Path),
    /// The project's own folder, beside which workers have trees: neither its repository nor what belongs to the loop
    /// can be written.
    Checkout,
    /// The project's own folder, in which the workers work, too. Without a view of its own the landlock cage opens all of
    /// it, unless there is a repository.
    InPlace,
    /// Nowhere: it gets its input and gives its output.
    Nowhere,
}

/// The cage and the variables of one command, or of several that run at the same time. Dropped, their folder for
/// temporary files is gone.
#[derive(Debug)]
pub struct Confined {
    cage: Option<Cage>,
    variables: Option<Vec<(OsString, OsString)>>,
    /// Variables that tell where it works, whatever confines it.
    own: Vec<(OsString, OsString)>,
    _scratch: Option<TempDir>,
    /// Folders that were made for what the commands build, removed if nothing is in them.
    made: Vec<PathBuf>,
}

impl Drop for Confined {
    fn drop(&mut self) {
        for folder in &self.made {
            // One that holds something stays.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Caches that a tool cannot do without, or is slow without, and the variables that move them. They lie in the loop's own
/// folder: those in the home are read-only in a cage.
const CACHES: [(&str, &str); 8] = [
    ("GOCACHE", "go-build"),
    ("npm_config_cache", "npm"),
    ("YARN_CACHE_FOLDER", "yarn"),
    ("PIP_CACHE_DIR", "pip"),
    ("UV_CACHE_DIR", "uv"),
    ("COMPOSER_CACHE_DIR", "composer"),
    ("CCACHE_DIR", "ccache"),
    ("SCCACHE_DIR", "sccache"),
];

impl Confinement {
    pub fn kind(&self) -> CheckCage {
        match self {
            Confinement::AsWorkers { .. } => CheckCage::AsWorkers,
            Confinement::None => CheckCage::None,
        }
    }

    /// What a command gets that works here.
    pub fn confine(&self, project: &Project, area: Area<'_>) -> io::Result<Confined> {
        let Confinement::AsWorkers { caging, variables } = self else {
            return Ok(Confined::open());
        };
        let area = match area {
            Area::InPlace if !caging.spares_git_in(&project.root) => Area::Checkout,
            area => area,
        };
        let scratch = scratch(project)?;
        let caches = caches(project, scratch.path());
        let own = own_paths(project);
        let made = match (area, caging.kind) {
            (Area::Checkout, Kind::Landlock) => make_outputs(&project.root),
            (Area::Tree(_) | Area::Checkout | Area::InPlace | Area::Nowhere, _) => Vec::new(),
        };
        let (mut writable, read_only) = match (area, caging.kind) {
            (Area::Nowhere, _) => (Vec::new(), Vec::new()),
            (Area::Tree(top), _) => (vec![top.to_path_buf()], Vec::new()),
            (Area::Checkout, Kind::Landlock) if !caging.kind.has_own_view() => {
                (besides(&project.root, &own)?, Vec::new())
            }
            (Area::Checkout | Area::InPlace, _) => (vec![project.root.clone()], own),
        };
        writable.extend([scratch.path().to_path_buf(), caches.clone()]);
        let temporary = ["TMPDIR", "TMP", "TEMP"].map(|name| (name.into(), scratch.path().into()));
        // Python would leave its compiled files among the protected tests, and believe those that landed code left there.
        let compiled = ("PYTHONPYCACHEPREFIX".into(), scratch.path().join("pycache").into());
        let cages = CACHES.iter().map(|(name, folder)| (OsString::from(name), caches.join(folder).into()));
        // A cache that the user has opened for workers stays where it is.
        let is_open = |name: &OsString| {
            let value = variables.iter().find(|(known, _)| known == name);
            value.is_some_and(|(_, value)| {
                caging.writable.iter().any(|open| Path::new(value).starts_with(open))
            })
        };
        let moved = cages.filter(|(name, _)| !is_open(name));
        let variables = variables.iter().cloned().chain(temporary).chain([compiled]).chain(moved).collect();
        let covered = match area {
            Area::Checkout => trees_in(project),
            Area::Tree(_) | Area::InPlace | Area::Nowhere => Vec::new(),
        };
        let cage = caging.cage(writable, read_only).map(|cage| Cage { covered, ..cage });
        let (variables, scratch) = (Some(variables), Some(scratch));
        Ok(Confined { cage, variables, own: Vec::new(), _scratch: scratch, made })
    }
}

impl Confined {
    /// For what starts no command.
    pub fn open() -> Confined {
        Confined { cage: None, variables: None, own: Vec::new(), _scratch: None, made: Vec::new() }
    }

    /// The same, with these variables for each command.
    pub fn with_variables(mut self, own: impl IntoIterator<Item = (OsString, OsString)>) -> Confined {
        self.own.extend(own);
        self
    }

    pub fn cage(&self) -> Option<&Cage> {
        self.cage.as_ref()
    }

    /// The variables of the command, with these of its own.
    pub fn environment(&self, own: Vec<(OsString, OsString)>) -> Environment {
        let own = self.own.iter().cloned().chain(own);
        match &self.variables {
            Some(variables) => Environment::Only(variables.iter().cloned().chain(own).collect()),
            None => Environment::OursAnd(own.collect()),
        }
    }

    /// The home that the command knows of.
    pub fn home(&self) -> Option<&Path> {
        let variables = self.variables.as_ref()?;
        variables.iter().find(|(name, _)| name == "HOME").map(|(_, home)| Path::new(home))
    }

    /// What must be the same for what was seen to be believed again.
    pub fn key(&self) -> String {
        match (&self.cage, &self.variables) {
            (Some(cage), _) => cage.kind.to_string(),
            (None, Some(_)) => Kind::None.to_string(),
            (None, None) => "open".to_owned(),
        }
    }
}

/// What lies in the project's own folder and is nobody's work: the repository, the host's settings, the loop's files, the
/// trees of a session, and the settings that confine workers.
pub fn own_paths(project: &Project) -> Vec<PathBuf> {
    let Project { root, state, sidecar, .. } = project;
    let folder = state.parent().filter(|folder| *folder != root);
    let loops = folder.unwrap_or(state).to_path_buf();
    let mut own = vec![root.join(".git"), root.join(".claude"), root.join(settings::FILE), project.lent()];
    own.extend([loops, sidecar.clone()].into_iter().filter(|path| !path.starts_with(root.join(".claude"))));
    own
}

/// Where trees lie in the project's own folder. A check that searches the folder for tests would find theirs.
fn trees_in(project: &Project) -> Vec<PathBuf> {
    ["trees", "looks"].map(|name| project.sidecar.join(name)).into_iter().chain([project.lent()]).collect()
}

/// Whether the project lies in a repository, so that workers get trees of their own.
pub fn is_in_repository(root: &Path) -> bool {
    root.ancestors().any(|folder| folder.join(".git").symlink_metadata().is_ok())
}

/// Everything in a folder but these. Links are left out: they would open what they lead to.
fn besides(root: &Path, own: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let path = entry.path();
        let kind = entry.file_type()?;
        let is_spared = own.iter().any(|own| own.starts_with(&path));
        if !is_spared && (kind.is_dir() || kind.is_file()) {
            found.push(path);
        }
    }
    Ok(found)
}

/// Makes the folders directly in the root that git ignores and builds write to, because a check in the landlock cage
/// cannot make them. Whatever else a worker writes into `.gitignore` makes an empty folder for a moment.
fn make_outputs(root: &Path) -> Vec<PathBuf> {
    let text = fs::read(root.join(".gitignore")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut made = Vec::new();
    for line in text.lines().map(str::trim).take(MOST_IGNORED) {
        let name = line.trim_start_matches('/').trim_end_matches('/');
        let is_plain =
            !name.is_empty() && !name.starts_with(['#', '!']) && !name.contains(['/', '*', '?', '[', '\\']);
        let is_folder = line.ends_with('/') || OUTPUTS.contains(&name);
        let is_ours = [".", "..", ".git", ".claude", ".aot"].contains(&name);
        if is_plain && is_folder && !is_ours && fs::create_dir(root.join(name)).is_ok() {
            made.push(root.join(name));
        }
    }
    made
}

/// So many lines of a `.gitignore` are read.
const MOST_IGNORED: usize = 1000;

/// Folders that builds and tests write to, by their usual names.
const OUTPUTS: [&str; 16] = [
    "target",
    "build",
    "dist",
    "out",
    "coverage",
    "node_modules",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".tox",
    ".nox",
    ".venv",
    ".gradle",
    ".next",
    "tmp",
];

/// A folder for temporary files, in the loop's own folder or, if that cannot be written, among the system's.
fn scratch(project: &Project) -> io::Result<TempDir> {
    let elsewhere = || scratch::make_in(&std::env::temp_dir(), "aot-check");
    match Home::of(&project.state).and_then(|home| home.ready()) {
        Ok(()) => scratch::make(&project.sidecar, "check").or_else(|_| elsewhere()),
        Err(_) => elsewhere(),
    }
}

/// The folder of the checks' caches. Workers have none of it: what they could put there, a check would believe.
fn caches(project: &Project, scratch: &Path) -> PathBuf {
    let folder = project.sidecar.join("caches/checks");
    match fs::create_dir_all(&folder) {
        Ok(()) => folder,
        Err(_) => scratch.to_path_buf(),
    }
}
