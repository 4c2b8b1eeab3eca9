//! A project in a temporary home, the built program that works in it, and the processes that belong to it. Knows nothing of
//! what is tried there.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::fixtures::NewLoop;

pub const STATE: &str = ".claude/aot-loop-state.md";

/// How long the killed may take to be gone.
const GONE: Duration = Duration::from_secs(5);

/// The project's home is the mark of its processes: every program that is started for it sees this variable.
#[derive(Debug)]
pub struct Project {
    folder: tempfile::TempDir,
    home: PathBuf,
    /// What the campaign writes down lies beside the home, so that it has room when the home has none.
    notes: tempfile::TempDir,
    aot: PathBuf,
}

/// The program beside the example that runs: `target/debug/aot` for `target/debug/examples/faults`. `AOT_BIN` names another.
pub fn built() -> PathBuf {
    let beside = || Some(std::env::current_exe().ok()?.parent()?.parent()?.join("aot"));
    let aot = std::env::var_os("AOT_BIN").map(PathBuf::from).or_else(beside).unwrap_or_default();
    assert!(aot.is_file(), "{} is not built: cargo build", aot.display());
    // It is started in other folders.
    std::path::absolute(&aot).expect("there is a folder to be in")
}

/// What a process is to the campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessKind {
    Driver,
    Guard,
    Reaper,
    Git,
    Worker,
    /// The program that injects faults into system calls.
    Tracer,
}

impl ProcessKind {
    /// Whether the program itself runs in it.
    pub fn is_ours(self) -> bool {
        matches!(self, ProcessKind::Driver | ProcessKind::Guard | ProcessKind::Reaper)
    }
}

impl Project {
    /// An empty project, with the settings of the user as given.
    pub fn new(aot: &Path, settings: &str) -> Project {
        Project::new_in(&std::env::temp_dir(), aot, settings)
    }

    pub fn new_in(place: &Path, aot: &Path, settings: &str) -> Project {
        let folder = tempfile::Builder::new().prefix("aot-").tempdir_in(place).expect("a temporary folder");
        let home = folder.path().canonicalize().expect("it exists");
        // Another user may have to work in it.
        fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).expect("it is ours");
        let notes = tempfile::Builder::new().prefix("aot-notes-").tempdir().expect("a temporary folder");
        let project = Project { folder, home, notes, aot: aot.to_path_buf() };
        fs::create_dir_all(project.root()).expect("a folder");
        project.write("../.config/aot/aot.toml", settings);
        project
    }

    /// Keeps the folder, for somebody to look into, and returns where it is.
    pub fn keep(mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.notes.disable_cleanup(true);
        self.home.clone()
    }

    /// Where the campaign writes down what it did and heard.
    pub fn note(&self, name: &str) -> PathBuf {
        self.notes.path().join(name)
    }

    pub fn read_note(&self, name: &str) -> String {
        fs::read(self.note(name))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    pub fn root(&self) -> PathBuf {
        self.home.join("project")
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        let full = self.path(path);
        fs::create_dir_all(full.parent().expect("it has one")).expect("folders");
        fs::write(full, text).expect("a file");
    }

    pub fn write_program(&self, path: &str, text: &str) {
        self.write(path, text);
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(0o755)).expect("it is ours");
    }

    pub fn read(&self, path: &str) -> String {
        fs::read(self.path(path))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// A repository with one commit of all that is there, save what is ours.
    pub fn init(&self) {
        self.write(".gitignore", ".claude/\n.aot/\n");
        self.git(&["init", "-q", "-b", "main"]).expect("a repository");
        self.git(&["add", "-A"]).expect("files");
        self.git(&["commit", "-qm", "Begin"]).expect("a commit");
    }

    pub fn git(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new("git");
        self.dress(&mut command);
        let done = command.args(words).output().expect("git is here");
        match done.status.success() {
            true => Ok(String::from_utf8_lossy(&done.stdout).trim_end().to_owned()),
            false => Err(format!("git {words:?}: {}", String::from_utf8_lossy(&done.stderr))),
        }
    }

    pub fn aot(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("the program starts")
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.aot);
        self.dress(&mut command);
        command.args(words);
        command
    }

    /// The environment of this project, and nothing of ours.
    pub fn dress(&self, command: &mut Command) {
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env_clear()
            .env("PATH", format!("{}:{path}", self.home.join("bin").display()))
            .env("HOME", &self.home)
            .env("SHELL", "/bin/sh")
            .env("USER", "grace")
            // The person who is played here has seen what the project asks for.
            .env("AOT_TRUST", "/")
            .env("LC_ALL", "C.UTF-8")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "Ada")
            .env("GIT_AUTHOR_EMAIL", "ada@example.org")
            .env("GIT_COMMITTER_NAME", "Ada")
            .env("GIT_COMMITTER_EMAIL", "ada@example.org")
            .current_dir(self.root())
            .stdin(Stdio::null());
    }

    /// The atoms of the commits on the branch, oldest first.
    pub fn landed(&self) -> Vec<String> {
        let format = "--format=%(trailers:key=Aot-Atom,valueonly,separator=%x2C)";
        let log = self.git(&["log", "--reverse", format, "main"]).unwrap_or_default();
        log.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Every file of the project with its content; what is git's or ours is left out.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        collect(&self.root(), "", &mut found).expect("the project can be read");
        found
    }

    /// Everybody who has this home, without zombies.
    pub fn processes(&self) -> Vec<(Pid, ProcessKind)> {
        processes_of(&self.home)
    }

    /// Everybody who is there, and where the threads of each stand if a debugger is here: what somebody needs who looks at
    /// a wait without end.
    pub fn describe_processes(&self) -> String {
        let mut told = String::new();
        for (pid, part) in self.processes() {
            let number = pid.as_raw_nonzero().get();
            let words = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            told += &format!("{number} {part:?}: {words}\n");
            let number = number.to_string();
            let debugger = Command::new("gdb")
                .args(["-p", &number, "-batch", "-ex", "thread apply all bt"])
                .stdin(Stdio::null())
                .output();
            let stacks = debugger.map(|output| output.stdout).unwrap_or_default();
            let stacks = String::from_utf8_lossy(&stacks).into_owned();
            let frames = stacks.lines().filter(|line| line.starts_with('#') || line.starts_with("Thread"));
            told.extend(frames.map(|line| format!("  {line}\n")));
        }
        told
    }

    /// Kills one, if it is still there.
    pub fn kill(pid: Pid) -> bool {
        kill_process(pid, Signal::KILL).is_ok()
    }

    /// Whoever is still there when everybody should be gone.
    pub fn survivors(&self) -> Vec<(Pid, ProcessKind)> {
        let began = Instant::now();
        loop {
            let left = self.processes();
            if left.is_empty() || began.elapsed() > GONE {
                return left;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Names of lock files in the repository.
    pub fn locks(&self) -> Vec<String> {
        let mut folders = vec![self.path(".git")];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir()
                    && !path.is_symlink()
                    // Trees stay for the next run, which removes their locks when it lends them.
                    && path.file_name().is_none_or(|name| name != "objects" && name != "worktrees")
                {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "lock") {
                    found.push(path.display().to_string());
                }
            }
        }
        found
    }
}

/// Everybody whose home this is, without zombies.
pub fn processes_of(home: &Path) -> Vec<(Pid, ProcessKind)> {
    let mark = format!("HOME={}", home.display());
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let is_ours = environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes());
        let words = fs::read(format!("/proc/{pid}/cmdline")).ok().filter(|_| is_ours)?;
        Some((Pid::from_raw(pid)?, part(&words)))
    })
    .collect()
}

fn part(words: &[u8]) -> ProcessKind {
    let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
    let program = words.first().copied().unwrap_or_default();
    let name = program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    match (name, words.get(1).copied().unwrap_or_default()) {
        (b"strace", _) => ProcessKind::Tracer,
        (_, b"__guard") => ProcessKind::Guard,
        (_, b"__reaper") => ProcessKind::Reaper,
        (b"aot", _) => ProcessKind::Driver,
        (b"git", _) => ProcessKind::Git,
        _ => ProcessKind::Worker,
    }
}

fn collect(folder: &Path, prefix: &str, found: &mut BTreeMap<String, Vec<u8>>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if matches!(name.as_str(), ".git" | ".claude" | ".aot") {
            continue;
        }
        match entry.file_type()? {
            kind if kind.is_dir() => collect(&entry.path(), &format!("{name}/"), found)?,
            kind if kind.is_file() => {
                found.insert(name, fs::read(entry.path())?);
            }
            _ => {
                found.insert(name, b"no file".to_vec());
            }
        }
    }
    Ok(())
}

/// The state file of a loop that is agreed on.
#[derive(Clone, Debug)]
pub struct Loop<'l> {
    /// Lines below `checklist:`.
    pub base_case: &'l str,
    pub constraints: &'l str,
    /// Further lines of the objective.
    pub objective: &'l str,
    /// Lines below `atoms:`.
    pub atoms: &'l str,
    /// Lines below `or_groups:`; empty for none.
    pub or_groups: &'l str,
}

impl Loop<'_> {
    pub fn text(&self) -> String {
        let Loop { base_case, constraints, objective, atoms, or_groups } = *self;
        let base_case = &format!("    checklist:\n{base_case}");
        let (goal, request) = ("Let the files be there", "Files, please.");
        let (control, decompositions) = ("", "");
        NewLoop {
            goal,
            base_case,
            constraints,
            objective,
            control,
            atoms,
            decompositions,
            or_groups,
            request,
        }
        .text()
    }
}
