//! Real clients, told of the server exactly as the guide says, with a model that follows a script: a loop is taken, worked
//! on and completed by tool calls.

use std::path::Path;
use std::process::{Command, Stdio};

use aot_testkit::scripted_model::{Rule, Script, ScriptedModel};
use serde_json::{Value, json};

use crate::agents::{Scene, atom, file, is_here, is_there};
use crate::repo::{Plan, Said};

/// No session of a test takes so long, in seconds.
const PATIENCE: &str = "110";

const PROMPT: &str = "Run the loop in this session.";

/// What a client is called with, and how it calls our tools.
struct Host {
    program: &'static str,
    words: &'static [&'static str],
    prefix: &'static str,
}

const CLAUDE: Host = Host {
    program: "claude",
    words: &["-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions"],
    prefix: "mcp__aot__",
};

const CODEX: Host = Host {
    program: "codex",
    words: &["exec", "--json", "--dangerously-bypass-approvals-and-sandbox"],
    prefix: "",
};

const GEMINI: Host = Host {
    program: "gemini",
    words: &["-o", "stream-json", "-e", "none", "--approval-mode", "yolo", "-p"],
    prefix: "mcp_aot_",
};

const OPENCODE: Host = Host {
    program: "opencode",
    words: &["run", "--format", "json", "--pure", "--title", "t"],
    prefix: "aot_",
};

/// The first block of this language below a heading of the guide.
fn guide(heading: &str, language: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/mcp.md");
    let text = std::fs::read_to_string(path).expect("the guide");
    let (_, below) = text.split_once(&format!("\n## {heading}\n")).expect("the heading");
    let (_, block) = below.split_once(&format!("\n```{language}\n")).expect("a block");
    block.split_once("\n```").expect("its end").0.to_owned() + "\n"
}

/// What the guide says, done.
fn configure(scene: &Scene, host: &Host) {
    let repo = &scene.repo;
    match host.program {
        "claude" => {
            let command = guide("Claude Code", "console");
            let words: Vec<&str> = command.trim().trim_start_matches("$ ").split(' ').collect();
            let said = run(scene, &words);
            assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
        }
        "codex" => {
            let before = repo.read("../.codex/config.toml");
            repo.write("../.codex/config.toml", &(before + "\n" + &guide("Codex", "toml")));
        }
        "gemini" => {
            repo.write(".gemini/settings.json", &guide("Gemini", "json"));
            let user = json!({
                "security": {"auth": {"selectedType": "gemini-api-key"}}, "telemetry": {"enabled": false},
                "privacy": {"usageStatisticsEnabled": false}, "general": {"enableAutoUpdate": false},
            });
            repo.write("../.gemini/settings.json", &user.to_string());
            // What a person says when asked, at the first start in a folder.
            let trusted = json!({(repo.path(".").canonicalize().expect("it exists").display().to_string()): "TRUST_FOLDER"});
            repo.write("../.gemini/trustedFolders.json", &trusted.to_string());
        }
        "opencode" => repo.write("opencode.json", &guide("opencode", "json")),
        other => panic!("the guide does not know {other}"),
    }
}

fn run(scene: &Scene, words: &[&str]) -> Said {
    let repo = &scene.repo;
    let home = repo.path("..").canonicalize().expect("it exists");
    let ours = Path::new(env!("CARGO_BIN_EXE_aot")).parent().expect("a folder");
    let mut command = Command::new("timeout");
    command.args(["-k", "5", PATIENCE, "env"]).args(words).env_clear().envs(scene.variables());
    let path = scene.variables().into_iter().find(|(name, _)| *name == "PATH").map(|(_, path)| path);
    command
        .env("PATH", format!("{}:{}", ours.display(), path.unwrap_or_default()))
        .env("HOME", &home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env("SHELL", "/bin/sh")
        .env("LC_ALL", "C.UTF-8")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_NAME", "Ada")
        .env("GIT_AUTHOR_EMAIL", "ada@example.org")
        .env("GIT_COMMITTER_NAME", "Ada")
        .env("GIT_COMMITTER_EMAIL", "ada@example.org")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_AUTOUPDATER", "1")
        .env("DISABLE_TELEMETRY", "1")
        .env("DISABLE_ERROR_REPORTING", "1")
        .env("IS_SANDBOX", "1")
        .env("GEMINI_CLI_NO_RELAUNCH", "true")
        .env("OPENCODE_DISABLE_AUTOUPDATE", "1")
        .env("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1")
        .env("OPENCODE_DISABLE_LSP_DOWNLOAD", "1")
        .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
        .current_dir(repo.path("."))
        .stdin(Stdio::null());
    let output = command.output().expect("it starts");
    Said {
        exit: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// What the tools returned, one after the other, as the model saw it.
fn results(scene: &Scene) -> Vec<String> {
    let asked = scene.model.requests();
    asked.into_iter().filter(|record| record.rule == Some(0)).map(|record| record.results).collect()
}

fn completes(host: &Host) {
    let atoms = atom("A1", "", &file("a.txt"));
    let plan = Plan { atoms: &atoms, base_case: &is_there("a.txt"), ..Plan::default() };
    let scene = Scene::new(&plan, Script::new());
    let tree = scene.repo.path(".claude/aot/trees/A1-1/a.txt").display().to_string();
    let resolve = |summary: &str| json!({"atom": "A1", "summary": summary});
    let call = |rule: Rule, tool: &str, input: Value| rule.call(&format!("{}{tool}", host.prefix), input);
    let rule = call(Rule::on(PROMPT), "enter", json!({}));
    let rule = call(rule, "atom_start", json!({"atom": "A1"}));
    let rule = call(rule, "atom_resolve", resolve("I say that it is made"));
    let rule = call(rule.write(&tree, "made"), "atom_resolve", resolve("--a.txt is made"));
    let rule = call(rule, "turn", json!({})).say("The program says that it is completed.");
    let scene = Scene { model: ScriptedModel::start(Script::new().rule(rule)).expect("a model"), ..scene };
    scene.at(&scene.model.url());
    configure(&scene, host);
    let words: Vec<&str> = [&[host.program], host.words, &[PROMPT]].concat();
    let said = run(&scene, &words);
    let requests = scene.model.requests();
    if let Ok(path) = std::env::var("AOT_DUMP") {
        let bodies: Vec<&Value> = requests.iter().map(|record| &record.body).collect();
        std::fs::write(path, serde_json::to_string(&bodies).unwrap()).unwrap();
    }
    let tools = requests.iter().map(|record| record.tools.len()).max();
    let offered: Vec<&String> = requests.iter().flat_map(|record| &record.tools).collect();
    let about = format!("{}{}\n{tools:?} {offered:?}\n{:#?}", said.out, said.err, results(&scene));
    let state = scene.repo.state();
    assert_eq!(state["control"]["status"], "completed", "{about}");
    assert_eq!(state["bindings"]["A1"]["summary"], "--a.txt is made");
    assert_eq!(scene.repo.landed("main"), "A1");
    assert_eq!(scene.repo.read("a.txt").trim_end(), "made");
    let seen = results(&scene);
    let saw = |text: &str| seen.iter().position(|result| result.contains(text));
    let steps = ["call `turn`", "solve A1", "its check failed", "atom_resolved", "COMPLETED"].map(saw);
    assert!(steps.is_sorted() && steps.iter().all(Option::is_some), "{steps:?} {about}");
    assert_eq!(said.exit, 0, "{about}");
    assert_eq!(scene.repo.processes(), [], "nobody is left");
    println!("SESSION {} {}", host.program, state["control"]["session"]);
}

#[test]
fn claude_code_takes_a_loop_to_its_end() {
    if is_here("claude") {
        completes(&CLAUDE);
    }
}

#[test]
fn codex_takes_a_loop_to_its_end() {
    if is_here("codex") {
        completes(&CODEX);
    }
}

#[test]
fn gemini_takes_a_loop_to_its_end() {
    if is_here("gemini") {
        completes(&GEMINI);
    }
}

#[test]
fn opencode_takes_a_loop_to_its_end() {
    if is_here("opencode") {
        completes(&OPENCODE);
    }
}
