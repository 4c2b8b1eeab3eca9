//! One loop over one emptied project: the repository, the state file, the agent's plan and profile, the run of the built
//! program, and what its agents wrote down. Judges nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::agent::{AgentArguments, Patience};
use super::corpus::{EmptiedModule, Prepared, TESTS};
use super::faults::Misdeed;
use crate::fixtures::NewLoop;
use crate::project::{Project, STATE};

/// An agent that says nothing for so long is ended.
pub const IDLE_SECONDS: u64 = 8;

/// How many agents work at a time in the campaign.
pub const PARALLEL: usize = 3;

/// What the agents of one run did, as they wrote it down.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// Turns in which a model was asked; what an agent declined is not among them.
    pub runs: u64,
    pub declined: u64,
    pub conversations: u64,
    /// Tokens by atom.
    pub tokens: BTreeMap<String, Tokens>,
    /// How often each thing was done.
    pub did: BTreeMap<String, u64>,
    /// Turns of agents that had been wrong and were not told of the red test.
    pub blind: u64,
    /// Edits of tests that the cage did not let happen.
    pub prevented: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// What a model read for the first time in a conversation.
    pub new: u64,
    /// What it was sent again with each further request.
    pub cached: u64,
    pub output: u64,
}

impl Tokens {
    pub fn all(self) -> u64 {
        self.new + self.cached + self.output
    }

    /// Without what came from the cache.
    pub fn fresh(self) -> u64 {
        self.new + self.output
    }

    pub fn plus(self, other: Tokens) -> Tokens {
        Tokens {
            new: self.new + other.new,
            cached: self.cached + other.cached,
            output: self.output + other.output,
        }
    }
}

impl Work {
    pub fn total(&self) -> Tokens {
        self.tokens.values().fold(Tokens::default(), |sum, tokens| sum.plus(*tokens))
    }

    pub fn read(memory: &Path) -> Work {
        let text = fs::read_to_string(memory.join("log.jsonl")).unwrap_or_default();
        let mut work = Work::default();
        let mut conversations = BTreeSet::new();
        for entry in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let atom = entry["atom"].as_str().unwrap_or_default().to_owned();
            conversations.insert(entry["conversation"].as_str().unwrap_or_default().to_owned());
            let number = |name: &str| entry[name].as_u64().unwrap_or_default();
            let tokens = Tokens { new: number("new"), cached: number("cached"), output: number("output") };
            let sum = work.tokens.entry(atom).or_default();
            *sum = sum.plus(tokens);
            if let Some(did) = entry["did"].as_str() {
                work.runs += 1;
                work.blind += u64::from(entry["blind"] == true);
                *work.did.entry(did.to_owned()).or_default() += 1;
            }
            work.declined += u64::from(entry["declines"] == true);
            work.prevented += u64::from(entry["prevented"] == true);
        }
        work.conversations = conversations.len() as u64;
        work
    }
}

/// The name of the atom of a module.
pub fn atom(modules: &[EmptiedModule], path: &str) -> String {
    let place = modules.iter().position(|module| module.path == path).expect("it is one of them");
    format!("A{}", place + 1)
}

/// The published project as a repository, to compare with.
pub fn reference(aot: &Path, prepared: &Prepared) -> Project {
    let project = Project::new(aot, "");
    lay_out(&project.root(), prepared);
    project.init();
    project
}

fn lay_out(folder: &Path, prepared: &Prepared) {
    let status =
        Command::new("cp").arg("-R").arg(format!("{}/.", prepared.reference.display())).arg(folder).status();
    assert!(status.is_ok_and(|status| status.success()), "the project cannot be copied");
}

/// The project in this folder, with its modules emptied.
pub fn lay_out_empty(folder: &Path, prepared: &Prepared) {
    lay_out(folder, prepared);
    for module in &prepared.modules {
        fs::write(folder.join(&module.path), prepared.stub(&module.path)).expect("it can be written");
    }
}

/// What the agents know and are going to do wrong, and where they remember.
#[derive(Debug)]
pub struct Minds {
    folder: tempfile::TempDir,
    pub arguments: AgentArguments,
    /// How many of them work at a time.
    pub parallel: usize,
}

impl Minds {
    pub fn new(prepared: &Prepared, misdeeds: &[Vec<Misdeed>], patience: Patience, pace: Duration) -> Minds {
        let folder = tempfile::Builder::new().prefix("aot-minds-").tempdir().expect("a temporary folder");
        let (knowledge, memory) = (folder.path().join("knowledge"), folder.path().join("memory"));
        for path in [&knowledge, &memory] {
            fs::create_dir_all(path).expect("a folder");
        }
        std::os::unix::fs::symlink(&prepared.reference, knowledge.join("reference")).expect("a link");
        std::os::unix::fs::symlink(prepared.texts.join("spoiled"), knowledge.join("spoiled"))
            .expect("a link");
        let mut plan = serde_json::Map::new();
        for (module, misdeeds) in prepared.modules.iter().zip(misdeeds) {
            let files: BTreeSet<&str> =
                module.tests.iter().filter_map(|test| test.split("::").next()).collect();
            let reads: Vec<&str> = [module.path.as_str()]
                .into_iter()
                .chain(module.depends_on.iter().map(String::as_str))
                .chain(files.iter().copied())
                .collect();
            let names: Vec<&str> = misdeeds.iter().map(|misdeed| misdeed.name()).collect();
            let known =
                json!({"path": module.path, "reads": reads, "test": files.first(), "misdeeds": names});
            plan.insert(atom(&prepared.modules, &module.path), known);
        }
        fs::write(knowledge.join("plan.json"), Value::from(plan).to_string()).expect("a file");
        Minds {
            arguments: AgentArguments { knowledge, memory, patience, pace, resume: None },
            folder,
            parallel: PARALLEL,
        }
    }

    pub fn so_many(self, parallel: usize) -> Minds {
        Minds { parallel, ..self }
    }

    pub fn work(&self) -> Work {
        Work::read(&self.arguments.memory)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// A run of the built program.
#[derive(Debug)]
pub struct LoopRun {
    pub project: Project,
    /// The commit before it.
    pub began: String,
    pub exit: Option<i32>,
    pub took: Duration,
    /// Its last line.
    pub halted: Value,
    pub work: Work,
    /// What it counted itself.
    pub tokens_told: u64,
    pub said: String,
}

/// Who works.
#[derive(Clone, Debug)]
pub enum Workforce {
    Scripted,
    /// A real client, and where its model is.
    Client {
        program: PathBuf,
        model: String,
    },
}

pub fn run_loop(aot: &Path, prepared: &Prepared, minds: &Minds, workforce: &Workforce) -> LoopRun {
    let settings = match workforce {
        Workforce::Scripted => settings(&minds.arguments),
        Workforce::Client { program, .. } => client_settings(program),
    };
    let project = Project::new(aot, &settings);
    lay_out_empty(&project.root(), prepared);
    project.init();
    let began = project.git(&["rev-parse", "HEAD"]).expect("there is a commit");
    project.write(STATE, &state(prepared, minds.parallel));
    let clock = Instant::now();
    let mut command = project.command(&["run", "--json"]);
    if let Workforce::Client { model, .. } = workforce {
        command.env("ANTHROPIC_BASE_URL", model).env("ANTHROPIC_API_KEY", "none");
    }
    let done = command.output().expect("the program starts");
    let took = clock.elapsed();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    let last = String::from_utf8_lossy(&done.stdout).lines().last().unwrap_or_default().to_owned();
    let status = project.aot(&["show", "--json"]);
    let shown: Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
    LoopRun {
        began,
        exit: done.status.code(),
        took,
        halted: serde_json::from_str(&last).unwrap_or_default(),
        work: minds.work(),
        tokens_told: shown["control"]["spent"]["tokens"].as_u64().unwrap_or_default(),
        said,
        project,
    }
}

fn client_settings(program: &Path) -> String {
    let program = json!(program.display().to_string());
    format!(
        r#"
[agents]
default = "claude"
coordinator = "none"
probe = "none"

[agent.claude]
program = {program}
try_first = false
"#
    )
}

fn settings(arguments: &AgentArguments) -> String {
    let program = std::env::current_exe().expect("it runs");
    let words: Vec<Value> =
        arguments.words().into_iter().map(Value::from).chain([json!("{session_arguments}")]).collect();
    format!(
        r#"
[work]
idle_timeout = "{IDLE_SECONDS}s"

[agents]
default = "scripted"
coordinator = "none"
probe = "none"

[agent.scripted]
program = {program}
arguments = {words}
input = "prompt"
answer = "event"
state = [{memory}]
session = {{ resume = ["--resume", "{{session}}"] }}

[[agent.scripted.events]]
when = {{ type = "begin" }}
session = "conversation"

[[agent.scripted.events]]
when = {{ type = "request" }}
doing = ["doing"]
input_tokens = ["new", "cached"]
output_tokens = ["output"]

[[agent.scripted.events]]
when = {{ type = "end" }}
answer = "answer"
"#,
        program = json!(program.display().to_string()),
        words = Value::from(words),
        memory = json!(format!("{}/", arguments.memory.display())),
    )
}

fn state(prepared: &Prepared, parallel: usize) -> String {
    let mut atoms = String::new();
    for module in &prepared.modules {
        let id = atom(&prepared.modules, &module.path);
        let needs: Vec<String> = module.depends_on.iter().map(|path| atom(&prepared.modules, path)).collect();
        let check = prepared.test_command(&module.tests);
        atoms += &format!(
            "  - {{id: {id}, description: {}, status: pending, depends_on: [{}], check: {{type: command, value: {}}}}}\n",
            json!(task(module)),
            needs.join(", "),
            json!(check)
        );
    }
    let name = &prepared.project.name;
    NewLoop {
        goal: &format!("{name} passes its tests again"),
        base_case: &format!(
            "    checklist:\n      - {{item: \"All tests\", check: {{type: command, value: {}}}}}",
            json!(prepared.test_command(&[]))
        ),
        constraints: &format!(
            "max_iterations: 60, max_stall_count: 6, max_parallel_agents: {parallel}, agent_timeout: 2m, check_timeout: 2m"
        ),
        objective: &format!("  protected: [\"{TESTS}/**\"]"),
        control: "",
        atoms: &atoms,
        decompositions: "",
        or_groups: "",
        request: "Bring the modules back.",
    }
    .text()
}

/// What an agent is asked to do, in a loop or without one.
pub fn task(module: &EmptiedModule) -> String {
    format!(
        "Write the functions of {} whose bodies are missing, as their names and documentation say",
        module.path
    )
}
