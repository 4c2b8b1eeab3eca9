//! A project in a temporary folder, and what tests say of it.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use aot_core::state::{AtomId, IsolationMode};
use aot_runner::confinement::Confinement;
use aot_runner::process::Guard;
use aot_runner::tree::{
    CommitMessage, Ground, GroundError, IsolationRequest, Landing, Lent, Project, ProjectRepository, Waiting,
    Work,
};

pub const LOOP: &str = "01loop";

pub struct Place {
    /// Removed with it; not for a project that is somebody else's.
    _folder: Option<tempfile::TempDir>,
    /// The folder that the repository is in.
    pub top: PathBuf,
    /// The project's folder in it.
    pub root: PathBuf,
    pub wanted: IsolationRequest,
}

impl Place {
    /// A folder that is no repository.
    pub fn plain(files: &[(&str, &str)]) -> Place {
        Place::below("", files)
    }

    fn below(folder: &str, files: &[(&str, &str)]) -> Place {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let top = temporary.path().canonicalize().expect("it is there").join("p");
        let root = if folder.is_empty() { top.clone() } else { top.join(folder) };
        let place = Place { _folder: Some(temporary), top, root, wanted: wanted() };
        fs::create_dir_all(place.root.join(".claude/aot")).expect("folders");
        place.write(".claude/aot-loop-state.md", "state 0\n");
        place.write(".claude/aot/.gitignore", "*\n");
        for (path, text) in files {
            place.write(path, text);
        }
        place
    }

    /// A project that is there already.
    pub fn at(root: &Path) -> Place {
        Place { _folder: None, top: root.to_path_buf(), root: root.to_path_buf(), wanted: wanted() }
    }

    /// A repository with these files in its first commit, on `main`.
    pub fn with(files: &[(&str, &str)]) -> Place {
        Place::in_folder("", files)
    }

    /// A repository with the project in a folder of it.
    pub fn in_folder(folder: &str, files: &[(&str, &str)]) -> Place {
        let place = Place::below(folder, files);
        place.git(&["init", "-q", "-b", "main"]);
        place.git(&["config", "user.name", "Ann"]);
        place.git(&["config", "user.email", "ann@example.com"]);
        place.git(&["add", "-A"]);
        place.git(&["commit", "-q", "-m", "start"]);
        place
    }

    pub fn wanting(mut self, change: impl FnOnce(&mut IsolationRequest)) -> Place {
        change(&mut self.wanted);
        self
    }

    pub fn in_place(self) -> Place {
        self.wanting(|wanted| wanted.mode = Some(IsolationMode::InPlace))
    }

    pub fn project(&self) -> Project {
        Project {
            root: self.root.clone(),
            state: self.root.join(".claude/aot-loop-state.md"),
            sidecar: self.root.join(".claude/aot"),
            cache: self.top.parent().map(|folder| folder.join("cache")),
            repository: ProjectRepository::Searched,
        }
    }

    pub fn open(&self) -> Result<Ground, GroundError> {
        self.open_with(&guard())
    }

    pub fn open_with(&self, guard: &Guard) -> Result<Ground, GroundError> {
        Ground::open(&self.project(), self.wanted.clone(), guard)
    }

    pub fn ground(&self) -> Ground {
        self.open().unwrap_or_else(|error| panic!("no ground: {error}"))
    }

    pub fn write(&self, path: &str, text: &str) {
        write(&self.root, path, text);
    }

    pub fn read(&self, path: &str) -> String {
        read(&self.root, path)
    }

    pub fn git(&self, words: &[&str]) -> String {
        git(&self.top, words)
    }

    pub fn tip(&self, name: &str) -> String {
        self.git(&["rev-parse", name])
    }

    /// The worktrees of the repository that are no trees of a loop, its own included.
    pub fn own_worktrees(&self) -> usize {
        let listed = self.git(&["worktree", "list"]);
        listed.lines().filter(|line| !line.contains("/cache/trees/")).count()
    }

    /// `git status` in short, with what nobody tracks.
    pub fn status(&self) -> String {
        self.git(&["status", "--porcelain"])
    }
}

/// This very program becomes the guard.
pub fn guard() -> Guard {
    Guard::new(std::env::current_exe().expect("a test knows itself"))
}

fn wanted() -> IsolationRequest {
    IsolationRequest {
        mode: None,
        share: Vec::new(),
        copy: Vec::new(),
        setup: None,
        teardown: None,
        shell: None,
        branch: None,
        loop_id: LOOP.to_owned(),
        confinement: Confinement::None,
        writable: Vec::new(),
    }
}

pub fn git(folder: &Path, words: &[&str]) -> String {
    let output = try_git(folder, words);
    assert!(
        output.status.success(),
        "git {words:?} in {}: {}",
        folder.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

pub fn try_git(folder: &Path, words: &[&str]) -> Output {
    Command::new("git").arg("-C").arg(folder).args(words).output().expect("git runs")
}

pub fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("folders");
    fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

pub fn read(folder: &Path, path: &str) -> String {
    fs::read_to_string(folder.join(path)).unwrap_or_else(|_| "(nothing)".to_owned())
}

pub fn atom(name: &str) -> AtomId {
    AtomId::new(name)
}

pub fn work(name: &str, attempt: u32) -> Work {
    Work { atom: atom(name), attempt }
}

pub fn message(name: &str, attempt: u32) -> CommitMessage {
    let (subject, summary) = (format!("What {name} is"), format!("{name} was done"));
    CommitMessage { subject, summary, loop_id: LOOP.to_owned(), atom: atom(name), attempt }
}

/// A landing that finds nothing in its way and whose checks pass.
pub fn land(ground: &Ground, lent: &mut Lent) -> Landing {
    let message = message(lent.work().atom.as_str(), lent.work().attempt);
    ground.land(lent, &message, &mut |_, _| Ok(()), &mut no_wait).unwrap_or_else(|error| panic!("{error}"))
}

/// Lends, writes, lands and gives back.
pub fn landed(ground: &Ground, name: &str, files: &[(&str, &str)]) -> String {
    let mut lent = ground.lend(&work(name, 1)).unwrap_or_else(|error| panic!("{error}"));
    for (path, text) in files {
        write(lent.root(), path, text);
    }
    let landing = land(ground, &mut lent);
    ground.give_back(lent, aot_runner::tree::End::Landed).expect("given back");
    commit_of(landing)
}

pub fn commit_of(landing: Landing) -> String {
    match landing {
        Landing::Landed { commit: Some(commit), .. } => commit,
        other => panic!("it did not land: {other:?}"),
    }
}

pub fn no_wait(waiting: &Waiting) -> ControlFlow<()> {
    panic!("something is in the way: {waiting:?}")
}

pub fn give_up(_: &Waiting) -> ControlFlow<()> {
    ControlFlow::Break(())
}

/// Everything below a folder but git's and ours: permissions, and content or the link's target.
pub fn contents(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(inside) = open.pop() {
        for path in fs::read_dir(&inside).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            let name = path.strip_prefix(folder).expect("it lies below").display().to_string();
            let meta = fs::symlink_metadata(&path).expect("it is there");
            if name == ".git" || name == ".claude" {
                continue;
            } else if meta.is_dir() {
                open.push(path);
            } else if meta.is_symlink() {
                found.insert(name, format!("-> {}", fs::read_link(&path).expect("a link").display()));
            } else {
                let mode = meta.permissions().mode() & 0o7777;
                let text = fs::read(&path).expect("a file");
                found.insert(name, format!("{mode:o} {}", String::from_utf8_lossy(&text)));
            }
        }
    }
    found
}
