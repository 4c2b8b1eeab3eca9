//! A repository in a temporary folder, a loop in it, and the program that drives it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use aot_testkit::fixtures::NewLoop;
use serde_json::Value;

/// Nothing here takes this long unless it hangs.
pub const LONG: Duration = Duration::from_secs(120);

pub const STATE: &str = ".claude/aot-loop-state.md";

/// What differs between the loops of the tests.
#[derive(Clone, Debug)]
pub struct Plan<'p> {
    /// Lines below `atoms:`, as YAML.
    pub atoms: &'p str,
    /// Lines below `or_groups:`; empty for none.
    pub or_groups: &'p str,
    pub decompositions: &'p str,
    /// Lines below `checklist:`.
    pub base_case: &'p str,
    pub constraints: &'p str,
    /// Further lines of the objective.
    pub objective: &'p str,
}

impl Default for Plan<'_> {
    fn default() -> Self {
        Plan {
            atoms: "  - {id: A1, description: \"One\", status: pending, depends_on: [], run: \"echo one > one\"}",
            or_groups: "",
            decompositions: "",
            base_case: "      - {item: \"One is there\", check: {type: file, value: one}}",
            constraints: "max_iterations: 20, max_parallel_agents: 3, max_stall_count: 3",
            objective: "",
        }
    }
}

impl Plan<'_> {
    fn text(&self) -> String {
        let Plan { atoms, or_groups, decompositions, base_case, constraints, objective } = *self;
        let base_case = &format!("    checklist:\n{base_case}");
        let (goal, request, control) = ("Let the numbers be there", "Numbers, please.", "");
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

/// An atom that runs a command.
pub fn atom(id: &str, after: &str, run: &str) -> String {
    format!(
        "  - {{id: {id}, description: \"Do {id}\", status: pending, depends_on: [{after}], run: {run:?}}}\n"
    )
}

/// A check of the base case that runs a command.
pub fn check(command: &str) -> String {
    format!("      - {{item: \"It holds\", check: {{type: command, value: {command:?}}}}}\n")
}

pub struct Repo {
    folder: tempfile::TempDir,
    root: PathBuf,
}

#[derive(Debug)]
pub struct Said {
    pub exit: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    /// The last line, if it was asked for JSON.
    pub fn halted(&self) -> Value {
        let last = self.out.lines().last().unwrap_or_default();
        serde_json::from_str(last).unwrap_or_else(|_| panic!("no JSON: {}\n{}", self.out, self.err))
    }

    pub fn objects(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }
}

impl Repo {
    /// A repository with one commit, and this loop in it.
    pub fn with(plan: &Plan<'_>) -> Repo {
        let repo = Repo::bare(plan);
        repo.git(&["init", "-q", "-b", "main"]);
        repo.write("README", "A project.\n");
        repo.write(".gitignore", ".claude/\nignored/\n");
        repo.git(&["add", "README", ".gitignore"]);
        repo.git(&["commit", "-qm", "Begin"]);
        repo
    }

    /// A folder that is no repository.
    pub fn bare(plan: &Plan<'_>) -> Repo {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path().canonicalize().expect("it exists").join("project");
        fs::create_dir_all(&root).expect("a folder");
        let repo = Repo { folder, root };
        repo.write(STATE, &plan.text());
        // Speed of cages is not what these tests are about; cages have tests of their own.
        repo.write("../config/aot/aot.toml", "[cage]\nkind = \"none\"\n");
        repo
    }

    /// The same repository, seen from another folder.
    pub fn at(mut self, root: &str) -> Repo {
        self.root = self.root.join(root);
        fs::create_dir_all(&self.root).expect("a folder");
        self
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        let full = self.path(path);
        fs::create_dir_all(full.parent().expect("it has one")).expect("folders");
        fs::write(full, text).expect("a file");
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    pub fn plan(&self, plan: &Plan<'_>) {
        self.write(STATE, &plan.text());
    }

    fn hermetic(&self, command: &mut Command) {
        let home = self.folder.path();
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("SHELL", "/bin/sh")
            .env("USER", "grace")
            // What the tests write by hand is trusted, except where trust is what is tested.
            .env("AOT_TRUST", "/")
            .env("LC_ALL", "C.UTF-8")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "Ada")
            .env("GIT_AUTHOR_EMAIL", "ada@example.org")
            .env("GIT_COMMITTER_NAME", "Ada")
            .env("GIT_COMMITTER_EMAIL", "ada@example.org")
            .stdin(Stdio::null());
    }

    pub fn git(&self, words: &[&str]) -> String {
        let mut command = Command::new("git");
        self.hermetic(&mut command);
        let done = command.arg("-C").arg(&self.root).args(words).output().expect("git is here");
        assert!(done.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).trim_end().to_owned()
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aot"));
        self.hermetic(&mut command);
        command.args(words).current_dir(&self.root);
        command
    }

    pub fn aot(&self, words: &[&str]) -> Said {
        let output = self.command(words).output().expect("it starts");
        said(output)
    }

    /// Runs the loop to its halt, with JSON lines.
    pub fn run(&self) -> Said {
        self.aot(&["run", "--json"])
    }

    /// Starts it, and hears what it says line by line.
    pub fn start(&self, words: &[&str]) -> Live {
        self.start_dressed(words, |_| {})
    }

    /// The same, with something more around it.
    pub fn start_dressed(&self, words: &[&str], dress: impl FnOnce(&mut Command)) -> Live {
        let mut command = self.command(words);
        dress(&mut command);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let (sender, lines) = channel();
        let out = child.stdout.take().expect("it was asked for");
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Live { child, lines, heard: Vec::new() }
    }

    /// The state, as `aot show --json` has it.
    pub fn state(&self) -> Value {
        let said = self.aot(&["show", "--json"]);
        serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}{}", said.out, said.err))
    }

    /// `A1:resolved A2:pending`.
    pub fn atoms(&self) -> String {
        let state = self.state();
        let atoms = state["atoms"].as_array().expect("atoms").iter();
        let told = atoms.map(|atom| {
            let word = |key: &str| atom[key].as_str().unwrap_or_default().to_owned();
            format!("{}:{}", word("id"), word("status"))
        });
        told.collect::<Vec<_>>().join(" ")
    }

    /// The atoms of the commits on a branch, oldest first; reverts with a minus.
    pub fn landed(&self, branch: &str) -> String {
        let format = "--format=%(trailers:key=Aot-Atom,valueonly,separator=%x2C)|%(trailers:key=Aot-Reverts,valueonly,separator=%x2C)";
        let log = self.git(&["log", "--reverse", format, branch]);
        let told = log.lines().filter_map(|line| {
            let (atom, reverts) = line.split_once('|')?;
            match (atom, reverts) {
                ("", _) => None,
                (atom, "") => Some(atom.to_owned()),
                (atom, _) => Some(format!("-{atom}")),
            }
        });
        told.collect::<Vec<_>>().join(" ")
    }

    /// What a run may not leave behind, and did.
    pub fn leftovers(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.path(".git").exists() {
            let trees = self.git(&["worktree", "list", "--porcelain"]);
            let trees = trees.lines().filter(|line| line.starts_with("worktree ")).skip(1);
            // The trees of a run stay for the next one.
            let trees = trees.filter(|line| !line.contains("/.cache/aot/trees/"));
            found.extend(trees.map(str::to_owned));
            let refs = self.git(&["for-each-ref", "--format=%(refname)", "refs/aot/"]);
            found.extend(refs.lines().filter(|name| !name.starts_with("refs/aot/kept/")).map(str::to_owned));
            let status = self.git(&["status", "--porcelain", "--untracked-files=all"]);
            found.extend(status.lines().map(|line| format!("status {line}")));
            if self.path(".git/index.lock").exists() {
                found.push("index.lock".into());
            }
        }
        for folder in [".claude/aot/scratch", ".aot"] {
            let inside = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
            found.extend(inside.map(|entry| entry.path().display().to_string()));
        }
        found.extend(self.processes().iter().map(|(pid, words)| format!("process {pid} {words}")));
        found
    }

    /// Processes that work below this folder.
    pub fn processes(&self) -> Vec<(i32, String)> {
        let ours = self.folder.path().canonicalize().expect("it exists");
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter_map(|pid| {
            let folder = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
            let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            (folder.starts_with(&ours) && !words.is_empty()).then_some((pid, words))
        })
        .collect()
    }
}

/// A driver at work.
pub struct Live {
    pub child: Child,
    lines: Receiver<String>,
    pub heard: Vec<String>,
}

impl Live {
    /// Waits until it says this.
    pub fn hear(&mut self, what: &str) {
        let began = Instant::now();
        while began.elapsed() < LONG {
            match self.lines.recv_timeout(LONG) {
                Ok(line) => {
                    let found = line.contains(what);
                    self.heard.push(line);
                    if found {
                        return;
                    }
                }
                Err(_) => break,
            }
        }
        panic!("it never said {what:?}: {:#?}", self.heard);
    }

    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let done = Command::new("kill").args([signal, &pid]).status().expect("kill is here");
        assert!(done.success());
    }

    /// Its exit code, and all that it said.
    pub fn end(mut self) -> Said {
        let began = Instant::now();
        let exit = loop {
            match self.child.try_wait().expect("it can be waited for") {
                Some(status) => break status.code().unwrap_or(-1),
                None if began.elapsed() > LONG => {
                    let _ = self.child.kill();
                    panic!("it does not end: {:#?}", self.heard);
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        self.heard.extend(self.lines.iter());
        let mut err = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut stderr, &mut err);
        }
        Said { exit, out: self.heard.join("\n"), err }
    }
}

fn said(output: Output) -> Said {
    Said {
        exit: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
