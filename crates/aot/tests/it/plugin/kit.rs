//! A repository with a loop, a host that asks its hooks, and the real host with a model that follows a script.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use scripted_model::{Rule, Script, ScriptedModel, Step};
use serde_json::{Value, json};

use crate::repo::{LONG, Plan, Repo, Said};
pub use crate::scene::{atom, file, is_there};
use crate::scene::{clients, is_here};

/// A session of a host that is only played.
pub const SESSION: &str = "session-1";

impl Repo {
    /// A verb, typed in a session.
    pub fn step(&self, words: &[&str]) -> Said {
        self.step_in(SESSION, words)
    }

    pub fn step_in(&self, session: &str, words: &[&str]) -> Said {
        let output = self.command(words).env("CLAUDE_CODE_SESSION_ID", session).output().expect("it starts");
        Said {
            exit: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// What a hook answers; `Null` if it says nothing. It always exits with 0.
    pub fn hook(&self, event: &str, mut said: Value) -> Value {
        if said["session_id"].is_null() {
            said["session_id"] = json!(SESSION);
        }
        let mut command = self.command(&["hook", event]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let text = said.to_string();
        child.stdin.take().expect("it was asked for").write_all(text.as_bytes()).expect("it listens");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.is_empty() { Value::Null } else { serde_json::from_str(&text).expect("JSON") }
    }

    /// The coordinator's turn has ended.
    pub fn turn(&self, agent: &str) -> Value {
        self.hook("subagent-stop", json!({"agent_type": "aot:aot-coordinator", "agent_id": agent}))
    }

    /// What the user and the model are told when the session's turn ends.
    pub fn told_at_the_end(&self) -> String {
        let answer = self.hook("stop", json!({}));
        assert!(answer["decision"].is_null() && !asks_for_coordinator(&answer), "{answer}");
        assert_eq!(context(&answer).is_empty(), shown(&answer).is_empty(), "both are told: {answer}");
        format!("{}{}", shown(&answer), context(&answer))
    }

    /// What a coordinator reads when it begins.
    pub fn told_at_the_start(&self, agent: &str) -> String {
        let said = json!({"agent_type": "aot:aot-coordinator", "agent_id": agent});
        context(&self.hook("subagent-start", said)).to_owned()
    }

    /// What is decided before a tool is used: `deny`, `allow`, `ask`, or nothing.
    pub fn ruled(&self, agent: &str, role: &str, tool: &str, input: Value) -> String {
        let mut said = json!({"tool_name": tool, "tool_input": input, "cwd": self.path(".")});
        if !role.is_empty() {
            said["agent_id"] = json!(agent);
            said["agent_type"] = json!(format!("aot:aot-{role}"));
        }
        let answer = self.hook("pre-tool-use", said);
        answer["hookSpecificOutput"]["permissionDecision"].as_str().unwrap_or_default().to_owned()
    }

    /// The folder that an atom's worker works in.
    pub fn tree(&self, name: &str) -> PathBuf {
        self.path(".aot/trees").join(name)
    }
}

pub fn reason(answer: &Value) -> &str {
    answer["reason"].as_str().unwrap_or_default()
}

/// What a hook adds to what the model reads.
pub fn context(answer: &Value) -> &str {
    answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default()
}

/// What a hook shows to the user.
pub fn shown(answer: &Value) -> &str {
    answer["systemMessage"].as_str().unwrap_or_default()
}

/// Whether a session that ends its turn is sent back for another coordinator.
pub fn asks_for_coordinator(answer: &Value) -> bool {
    context(answer).contains("Start a fresh coordinator")
}

/// Whether the real client is here.
pub fn claude_is_here() -> bool {
    is_here("claude")
}

/// The client in the newest version, which starts agents in the background, and in the one that many users still have,
/// which waits for them. Those that are not here are left out.
pub fn both_versions() -> impl Iterator<Item = &'static str> {
    ["claude", "claude-197"].into_iter().filter(|program| is_here(program))
}

/// The plugin as the program writes it, once for all tests of a process.
pub fn plugin() -> &'static Path {
    static PLUGIN: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, folder) = PLUGIN.get_or_init(|| {
        let place = tempfile::tempdir().expect("a temporary folder");
        let mut command = Command::new(env!("CARGO_BIN_EXE_aot"));
        let output =
            command.args(["plugin", "path"]).env("XDG_DATA_HOME", place.path()).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        (place, folder)
    });
    folder
}

/// The real client, a loop, and the model.
pub struct Scene {
    pub repo: Repo,
    pub model: ScriptedModel,
    /// The version of the client, by the name of its program.
    pub program: &'static str,
}

impl Scene {
    /// The script may name folders of the repository.
    pub fn new(plan: &Plan<'_>, script: impl FnOnce(&Repo) -> Script) -> Scene {
        let repo = Repo::with(plan);
        let model = ScriptedModel::start(script(&repo)).expect("a model");
        Scene { repo, model, program: "claude" }
    }

    /// With another version of the client.
    pub fn on(self, program: &'static str) -> Scene {
        Scene { program, ..self }
    }

    /// Claude Code, hermetic and offline.
    pub fn client(&self, words: &[&str]) -> Command {
        let mut command = Command::new(clients().join(self.program));
        let home = self.repo.path("../home");
        std::fs::create_dir_all(&home).expect("a folder");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(clients()).chain(std::env::split_paths(&path)));
        command
            .env_clear()
            .env("PATH", path.expect("no colon in it"))
            .env("HOME", &home)
            .env("AOT_TRUST", "/")
            .env("XDG_CONFIG_HOME", self.repo.path("../config"))
            .env("CLAUDE_CONFIG_DIR", home.join(".claude"))
            .env("ANTHROPIC_BASE_URL", self.model.url())
            .env("ANTHROPIC_API_KEY", "x")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .env("DISABLE_TELEMETRY", "1")
            .env("DISABLE_ERROR_REPORTING", "1")
            .env("IS_SANDBOX", "1")
            .env("SHELL", "/bin/sh")
            .env("GIT_AUTHOR_NAME", "Ada")
            .env("GIT_AUTHOR_EMAIL", "ada@example.org")
            .env("GIT_COMMITTER_NAME", "Ada")
            .env("GIT_COMMITTER_EMAIL", "ada@example.org")
            .args(words)
            .current_dir(self.repo.path("."))
            .stdin(Stdio::null());
        command
    }

    fn words<'w>(prompt: &'w str, mode: &'w str) -> Vec<&'w str> {
        let plugin = plugin().to_str().expect("a plain path");
        vec![
            "-p",
            prompt,
            "--output-format",
            "stream-json",
            "--verbose",
            "--plugin-dir",
            plugin,
            "--permission-mode",
            mode,
        ]
    }

    /// One prompt, to the end of the session, with every permission given by the user.
    pub fn say(&self, prompt: &str) -> Said {
        self.say_with(prompt, "bypassPermissions")
    }

    pub fn say_with(&self, prompt: &str, mode: &str) -> Said {
        let output = self.client(&Scene::words(prompt, mode)).output().expect("it starts");
        Said {
            exit: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// A session that takes prompts one by one.
    pub fn open(&self) -> Chat {
        let plugin = plugin().to_str().expect("a plain path");
        let words = [
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
            "--plugin-dir",
            plugin,
            "--permission-mode",
            "bypassPermissions",
        ];
        let log = std::fs::File::create(self.repo.path("../chat.log")).expect("a file");
        let mut command = self.client(&words);
        let child =
            command.stdin(Stdio::piped()).stdout(log).stderr(Stdio::null()).spawn().expect("it starts");
        Chat { child }
    }

    /// What every request of the model's clients held, for whoever wonders.
    pub fn told(&self) -> String {
        let records = self.model.requests();
        let told = records.iter().map(|record| {
            let text = serde_json::to_string(&record.body["messages"]).unwrap_or_default();
            let from = text.len().saturating_sub(600);
            let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            format!("[{:?} {} turn {}] …{}", record.rule, record.got, record.turn, &text[from..])
        });
        told.collect::<Vec<_>>().join("\n")
    }

    /// Waits for something that comes soon; if it does not, what the model was told may say why.
    pub fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let began = std::time::Instant::now();
        while !is_so() {
            let late = began.elapsed() > LONG;
            assert!(!late, "it never came: {what}\n{}\n{}", self.repo.state()["control"], self.told());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// Whether somebody was told this.
    pub fn was_told(&self, text: &str) -> bool {
        let quoted = serde_json::to_string(text).expect("a text");
        let quoted = quoted.trim_matches('"');
        self.model.requests().iter().any(|record| record.body.to_string().contains(quoted))
    }
}

/// A session at work.
pub struct Chat {
    pub child: Child,
}

impl Chat {
    pub fn say(&mut self, prompt: &str) {
        let message = json!({"type": "user", "message": {"role": "user", "content": prompt}});
        let stdin = self.child.stdin.as_mut().expect("it was asked for");
        writeln!(stdin, "{message}").and_then(|()| stdin.flush()).expect("it listens");
    }

    /// No more prompts: it ends when it is done.
    pub fn end(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().expect("it ends");
    }

    /// It is gone from one moment to the next.
    pub fn crash(mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("it is gone");
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        // A test that failed leaves no client behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Rules for each of the plugin's roles, told by their system prompts.
pub fn coordinator() -> Rule {
    Rule::always().system("You coordinate a loop whose rules")
}

pub fn worker(id: &str) -> Rule {
    Rule::on(&format!("Solve {id} in")).system("You solve one atom")
}

pub fn probe() -> Rule {
    Rule::always().system("You look before others work")
}

/// The session itself, after this command.
pub fn main_on(prompt: &str) -> Rule {
    Rule::on(prompt)
        .not_system("You coordinate a loop whose rules")
        .not_system("You solve one atom")
        .not_system("You look before others work")
}

pub fn call_coordinator() -> Step {
    Step::Call {
        tool: "Agent".into(),
        input: json!({
            "description": "the loop", "subagent_type": "aot:aot-coordinator", "prompt": "Go on with the loop.",
            "run_in_background": true,
        }),
    }
}

pub fn call_worker(repo: &Repo, id: &str, attempt: u32) -> Step {
    let folder = repo.tree(&format!("{id}-{attempt}"));
    let prompt = format!("Solve {id} in {}; `aot atom brief {id}` is your brief.", folder.display());
    Step::Call {
        tool: "Agent".into(),
        input: json!({
            "description": id, "subagent_type": "aot:aot-worker", "prompt": prompt, "run_in_background": false,
        }),
    }
}

pub fn run(command: &str) -> Step {
    Step::Run(command.into())
}

/// `aot run --session`, a coordinator, and a last word.
pub fn enters() -> Rule {
    main_on("The user asked for")
        .run("aot run --session")
        .step(call_coordinator())
        .say("It runs.")
        .say("It has ended.")
        .say("It has ended.")
        .say("It has ended.")
}

/// A worker that writes a file in its tree.
pub fn solves(repo: &Repo, id: &str, attempt: u32, path: &str) -> Rule {
    let target = repo.tree(&format!("{id}-{attempt}")).join(path);
    worker(id)
        .run(&format!("aot atom brief {id}"))
        .write(&target.display().to_string(), id)
        .say(&solved(&format!("{path} is made")))
}

pub fn solved(summary: &str) -> String {
    crate::scene::solved(summary, &[]).to_string()
}

pub fn unsolved(reason: &str) -> String {
    crate::scene::unsolved(reason).to_string()
}
