//! A repository, a loop in it, a real agent, and a model that follows a script.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use scripted_model::{HttpError, Script, ScriptedModel};
use serde_json::{Value, json};

pub use crate::repo::{LONG, Repo};
use crate::repo::{Live, Plan, Said};

/// The agents that are driven headless.
pub const HEADLESS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

/// Where `clients/install.sh` puts them.
pub fn clients() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    target.join("clients/bin")
}

/// Whether a real agent is here. If not, that is said; where everything has to be tested, it is a failure.
pub fn is_here(program: &str) -> bool {
    if clients().join(program).exists() {
        return true;
    }
    assert!(
        std::env::var_os("CI").is_none_or(|value| value != "true"),
        "{program} is not installed: run clients/install.sh"
    );
    eprintln!("!!! NOT TESTED WITH {program}: clients/install.sh installs it !!!");
    false
}

/// A loop with real agents.
pub struct Scene {
    pub repo: Repo,
    pub model: ScriptedModel,
}

impl Scene {
    pub fn new(plan: &Plan<'_>, script: Script) -> Scene {
        let scene = Scene { repo: Repo::with(plan), model: ScriptedModel::start(script).expect("a model") };
        scene.settings("");
        scene.at(&scene.model.url());
        scene.has_tried_agents();
        scene
    }

    /// Agents that are new to a machine do a small task first. These are not.
    fn has_tried_agents(&self) {
        let programs = std::fs::read_dir(clients()).into_iter().flatten().flatten();
        let programs = programs.filter_map(|program| program.path().canonicalize().ok());
        let lines = programs.flat_map(|program| {
            let found = program.metadata().expect("it is there");
            let changed = found.modified().expect("it has a time");
            let changed = changed.duration_since(std::time::UNIX_EPOCH).expect("it is later").as_secs();
            ["bwrap", "landlock", "none"]
                .map(|cage| format!("{cage} {} {changed} {}\n", found.len(), program.display()))
        });
        self.repo.write("../.local/share/aot/tried-agents", &lines.collect::<String>());
    }

    /// The user's own `aot.toml`.
    pub fn settings(&self, text: &str) {
        self.repo.write("../config/aot/aot.toml", text);
    }

    /// Where the agents look for their model.
    pub fn at(&self, url: &str) {
        self.repo.write("../.codex/config.toml", &format!("openai_base_url = \"{url}/v1\"\n"));
        let provider = json!({
            "npm": "@ai-sdk/openai-compatible",
            "name": "aot",
            "options": {"baseURL": format!("{url}/v1"), "apiKey": "x"},
            "models": {"m": {"name": "m", "limit": {"context": 100_000, "output": 8_000}}},
        });
        let opencode = json!({"model": "aot/m", "small_model": "aot/m", "provider": {"aot": provider}});
        self.repo.write("../config/opencode/opencode.json", &opencode.to_string());
        self.repo.write("../url", url);
    }

    /// What the agents need to be found, and to find their model.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(clients()).chain(std::env::split_paths(&path)));
        let path = path.expect("no colon in it").to_string_lossy().into_owned();
        let (url, key) = (self.repo.read("../url"), "a-key-that-nobody-may-see".to_owned());
        vec![
            ("PATH", path),
            ("ANTHROPIC_BASE_URL", url.clone()),
            ("ANTHROPIC_API_KEY", key.clone()),
            ("CODEX_API_KEY", key.clone()),
            ("GEMINI_API_KEY", key),
            ("GOOGLE_GEMINI_BASE_URL", url),
        ]
    }

    fn dress<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.envs(self.variables())
    }

    pub fn aot(&self, words: &[&str]) -> Said {
        let output = self.dress(&mut self.repo.command(words)).output().expect("it starts");
        Said {
            exit: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub fn run(&self, agent: &str) -> Said {
        self.aot(&["run", "--json", "--agent", agent])
    }

    pub fn start(&self, words: &[&str]) -> Live {
        self.repo.start_dressed(words, |command| {
            self.dress(command);
        })
    }

    /// The same, where clocks show the time of this zone.
    pub fn start_in_zone(&self, zone: &str, words: &[&str]) -> Live {
        self.repo.start_dressed(words, |command| {
            self.dress(command).env("TZ", zone);
        })
    }

    /// The runs of agents, as they were told: who, for what, how many tokens.
    pub fn agent_runs(said: &Said) -> Vec<Value> {
        said.objects().into_iter().filter(|object| object["type"] == "agent_run").collect()
    }

    /// All transcripts in one text.
    pub fn transcripts(&self) -> String {
        let folder = self.repo.path(".claude/aot/agents");
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files.map(|file| std::fs::read_to_string(file.path()).expect("a transcript")).collect()
    }
}

/// Waits for something that comes soon.
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LONG, "it never came: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// An atom for an agent.
pub fn atom(id: &str, after: &str, more: &str) -> String {
    let more = if more.is_empty() { String::new() } else { format!(", {more}") };
    format!("  - {{id: {id}, description: \"Make {id}\", status: pending, depends_on: [{after}]{more}}}\n")
}

/// The check of an atom, or of the base case: a file.
pub fn file(path: &str) -> String {
    format!("check: {{type: file, value: {path}}}")
}

pub fn is_there(path: &str) -> String {
    format!("      - {{item: \"{path} is there\", check: {{type: file, value: {path}}}}}\n")
}

/// A worker's answer.
pub fn solved(summary: &str, artifacts: &[&str]) -> Value {
    json!({"success": true, "summary": summary, "artifacts": artifacts, "reason": null, "too_large": false})
}

pub fn unsolved(reason: &str) -> Value {
    json!({"success": false, "summary": "", "artifacts": [], "reason": reason, "too_large": false})
}

pub fn feasible(findings: &str) -> Value {
    json!({"feasible": true, "findings": findings, "cost_estimate": "tiny"})
}

/// A limit that the client does not wait out by itself.
pub fn limit(agent: &str) -> HttpError {
    let reset = (jiff::Timestamp::now().as_second() + 2).to_string();
    match agent.trim_end_matches("-acp") {
        "claude" => HttpError::status(429)
            .header("anthropic-ratelimit-unified-status", "rejected")
            .header("anthropic-ratelimit-unified-reset", &reset),
        "codex" => HttpError::status(429).body(json!({"error": {
            "type": "usage_limit_reached", "message": "usage limit", "resets_in_seconds": 2, "plan_type": "plus"}})),
        "gemini" => HttpError::status(429).body(json!({"error": {
            "code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED",
            "details": [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [
                {"quotaMetric": "m", "quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}})),
        _ => HttpError::status(429).header("retry-after", "1"),
    }
}
