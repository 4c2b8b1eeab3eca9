//! A project with a state file, and the binary run in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub struct Project {
    folder: TempDir,
}

/// What a run of the binary came to.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Project {
    /// With this state file.
    pub fn with(text: &str) -> Project {
        let project = Project::empty();
        fs::create_dir_all(project.root().join(".claude")).expect("a folder can be made");
        project.write(text);
        project
    }

    pub fn empty() -> Project {
        Project { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn state(&self) -> PathBuf {
        self.root().join(".claude/aot-loop-state.md")
    }

    pub fn write(&self, text: &str) {
        fs::write(self.state(), text).expect("the state file can be written");
    }

    pub fn text(&self) -> String {
        fs::read_to_string(self.state()).expect("the state file can be read")
    }

    /// The binary, ready to start in the project's root, with nothing of this environment.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aot"));
        command.args(words).current_dir(self.root()).env_clear().env("AOT_TRUST", "/").stdin(Stdio::null());
        command
    }

    pub fn run(&self, words: &[&str]) -> Ran {
        Ran::of(self.command(words).output().expect("the binary can be started"))
    }

    /// Runs, wants success, and reads the object.
    pub fn json(&self, words: &[&str]) -> Value {
        let ran = self.run(&[words, &["--json"]].concat());
        assert_eq!(ran.code, 0, "{words:?}: {}", ran.err);
        ran.object()
    }

    /// Runs, wants a refusal with this code, and that the file is untouched.
    pub fn refused(&self, words: &[&str], exit: i32, code: &str) {
        let before = self.text();
        let ran = self.run(&[words, &["--json"]].concat());
        let error = &ran.object()["error"];
        assert_eq!((ran.code, error["code"].as_str()), (exit, Some(code)), "{words:?}: {}", ran.err);
        assert!(!error["message"].as_str().unwrap_or_default().is_empty());
        assert!(!error["hint"].as_str().unwrap_or_default().is_empty());
        assert_eq!(ran.err, "", "{words:?}: the object alone tells");
        assert_eq!(self.text(), before, "{words:?} must not touch the file");
        let plain = self.run(words);
        assert_eq!(plain.code, exit);
        assert!(plain.out.is_empty() && plain.err.contains("error: "), "{words:?}: {}", plain.err);
        assert!(!plain.err.contains("panicked") && !plain.err.contains("stack backtrace"));
    }
}

impl Ran {
    fn of(output: Output) -> Ran {
        let text = |bytes| String::from_utf8(bytes).expect("the program speaks UTF-8");
        Ran {
            code: output.status.code().expect("not killed"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// The one object on standard output.
    pub fn object(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "one object and nothing else: {}{}", self.out, self.err);
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}
