//! A project in a temporary folder, and the program at work in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use aot_testkit::fixtures::NewLoop;
use serde_json::Value;

/// Nothing here takes this long unless it hangs.
pub const LONG: Duration = Duration::from_secs(120);

/// The user's folder for data, outside of the projects, because their files are counted.
pub const USER_DATA: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/user-data");

pub struct Project {
    folder: tempfile::TempDir,
}

pub struct Said {
    pub exit: i32,
    pub out: String,
    pub err: String,
}

impl Project {
    /// With this base case, written as YAML below `base_case:`, indented by four.
    pub fn with(base_case: &str) -> Project {
        let project = Project { folder: tempfile::tempdir().expect("a temporary folder") };
        project.state(base_case, "[]", "");
        project
    }

    /// A repository of its own, too.
    pub fn in_git(base_case: &str) -> Project {
        let project = Project::with(base_case);
        project.git(&["init", "-q"]);
        project.git(&["config", "user.name", "Ada"]);
        project.git(&["config", "user.email", "ada@example.org"]);
        project
    }

    pub fn state(&self, base_case: &str, protected: &str, more_control: &str) {
        let text = NewLoop {
            goal: "Let people log in",
            base_case,
            constraints: "max_iterations: 20, max_parallel_agents: 3, max_stall_count: 3, check_timeout: 60s",
            objective: &format!("  protected: {protected}"),
            control: more_control,
            atoms: "  - {id: A1, description: \"The user model\", no_check: \"A table\", status: pending, depends_on: []}",
            decompositions: "",
            or_groups: "",
            request: "Please let people log in.",
        };
        self.write(".claude/aot-loop-state.md", &text.text());
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().expect("it exists")
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        let full = self.path(path);
        fs::create_dir_all(full.parent().expect("it has one")).expect("folders");
        fs::write(full, text).expect("a file");
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    pub fn git(&self, words: &[&str]) {
        let done = Command::new("git").arg("-C").arg(self.root()).args(words).output().expect("git is here");
        assert!(done.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// The program with these words, in an environment that is the same everywhere.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aot"));
        command
            .args(words)
            .current_dir(self.root())
            .env("SHELL", "/bin/sh")
            .env("HOME", self.root())
            .env("XDG_DATA_HOME", USER_DATA)
            .env("AOT_TRUST", "/")
            .env("USER", "grace")
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        for name in
            ["CLAUDE_PROJECT_DIR", "AOT_CHECKING", "AOT_JOB", "XDG_CONFIG_HOME", "NO_COLOR", "GIT_DIR"]
        {
            command.env_remove(name);
        }
        command
    }

    pub fn aot(&self, words: &[&str]) -> Said {
        said(&self.command(words).output().expect("the program starts"))
    }

    pub fn json(&self, words: &[&str]) -> (i32, Value) {
        let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
        let said = self.aot(&words);
        let object = serde_json::from_str(&said.out);
        (said.exit, object.unwrap_or_else(|error| panic!("{error} in {:?} and {:?}", said.out, said.err)))
    }

    pub fn start(&self, words: &[&str]) -> Child {
        self.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts")
    }
}

fn said(output: &Output) -> Said {
    Said {
        exit: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A text without what differs from run to run: times and folders.
pub fn settled(text: &str, project: &Project) -> String {
    let text = text.replace(&project.root().display().to_string(), "ROOT");
    let mut settled = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find(" s") {
        let number = rest[..at].trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        let is_time = number.len() < at && rest[at + 2..].chars().next().is_none_or(char::is_whitespace);
        let digits = &rest[number.len()..at];
        settled.push_str(number);
        settled.push_str(&if is_time { "_".repeat(digits.len()) } else { digits.to_owned() });
        settled.push_str(" s");
        rest = &rest[at + 2..];
    }
    settled + rest
}

/// Calls on another thread, so that what hangs fails instead.
pub fn in_time<T: Send + 'static>(what: &str, call: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        // Nobody waits any more if this comes too late.
        let _ = sender.send(call());
    });
    receiver.recv_timeout(LONG).unwrap_or_else(|_| panic!("{what} took longer than {LONG:?}"))
}

/// Every living process whose environment holds this mark.
pub fn alive(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("this is Linux").flatten() {
        let folder = entry.path();
        let Ok(environment) = fs::read(folder.join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
            let words = fs::read(folder.join("cmdline")).unwrap_or_default();
            found.push(format!(
                "{}: {}",
                folder.display(),
                String::from_utf8_lossy(&words).replace('\0', " ")
            ));
        }
    }
    found
}

pub fn make_fifo(path: &Path) {
    let done = Command::new("mkfifo").arg(path).status().expect("mkfifo is here");
    assert!(done.success());
}
