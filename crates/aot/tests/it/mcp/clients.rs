//! Real clients, told of the server exactly as the guide says, with a model that follows a script: a loop is taken, worked
//! on and completed by tool calls.

use std::path::Path;
use std::process::{Command, Stdio};

use scripted_model::{Rule, Script, ScriptedModel, Step};
use serde_json::{Value, json};

use crate::repo::{Plan, Repo, Said, atom as run_atom};
use crate::scene::{Scene, atom, file, is_here, is_there, solved};

/// No session of a test takes so long, in seconds.
const PATIENCE: &str = "110";

const PROMPT: &str = "Run the loop in this session.";

/// What a client is called with, and how it calls our tools.
struct Host {
    program: &'static str,
    /// With what it needs to edit files.
    words: &'static [&'static str],
    /// With those that it has by itself.
    plain: &'static [&'static str],
    call: fn(&str, Value) -> Step,
    /// Its own tool for resources.
    reader: &'static str,
}

/// By a name that begins like this.
fn named(prefix: &str, tool: &str, input: Value) -> Step {
    Step::Call { tool: format!("{prefix}{tool}"), input }
}

const CLAUDE: Host = Host {
    program: "claude",
    words: &["-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits"],
    plain: &["-p", "--output-format", "stream-json", "--verbose"],
    call: |tool, input| named("mcp__aot__", tool, input),
    reader: "ReadMcpResourceTool",
};

const CODEX: Host = Host {
    program: "codex",
    words: &["exec", "--json", "--dangerously-bypass-approvals-and-sandbox"],
    plain: &["exec", "--json"],
    // It lets the model write a program in which the tools are functions.
    call: |tool, input| {
        let program = format!("text(JSON.stringify(await tools.mcp__aot__{tool}({input})))");
        Step::Call { tool: "exec".into(), input: json!(program) }
    },
    reader: "read_mcp_resource",
};

const GEMINI: Host = Host {
    program: "gemini",
    words: &["-o", "stream-json", "-e", "none", "--approval-mode", "yolo", "-p"],
    plain: &["-o", "stream-json", "-e", "none", "-p"],
    call: |tool, input| named("mcp_aot_", tool, input),
    reader: "read_mcp_resource",
};

const OPENCODE: Host = Host {
    program: "opencode",
    words: &["run", "--format", "json", "--pure", "--title", "t"],
    plain: &["run", "--format", "json", "--pure", "--title", "t"],
    call: |tool, input| named("aot_", tool, input),
    reader: "read_mcp_resource",
};

/// The first block of this language below a heading of the guide.
fn guide(heading: &str, language: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/mcp.md");
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
            repo.write("../.claude/settings.json", &guide("Claude Code", "json"));
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

/// Where clients are found, and our own program.
fn path(scene: &Scene) -> String {
    let ours = Path::new(env!("CARGO_BIN_EXE_aot")).parent().expect("a folder");
    let path = scene.variables().into_iter().find(|(name, _)| *name == "PATH").map(|(_, path)| path);
    format!("{}:{}", ours.display(), path.unwrap_or_default())
}

fn run(scene: &Scene, words: &[&str]) -> Said {
    let repo = &scene.repo;
    let home = repo.path("..").canonicalize().expect("it exists");
    // A client may keep our variables from the server, so the project is trusted by the person beforehand.
    let trusted = repo.command(&["trust", "--yes"]).env_remove("AOT_TRUST").status().expect("it starts");
    assert!(trusted.success());
    let mut command = Command::new("timeout");
    command.args(["-k", "5", PATIENCE, "env"]).args(words).env_clear().envs(scene.variables());
    command
        .env("PATH", path(scene))
        .env("HOME", &home)
        .env("AOT_TRUST", "/")
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

/// A loop, a model that does this in it, and the client that was told as the guide says.
fn staged(host: &Host, plan: &Plan<'_>, script: impl FnOnce(&Repo) -> Rule) -> Scene {
    let scene = Scene::new(plan, Script::new());
    let script = Script::new().rule(script(&scene.repo));
    let scene = Scene { model: ScriptedModel::start(script).expect("a model"), ..scene };
    scene.at(&scene.model.url());
    configure(&scene, host);
    scene
}

/// What was said and seen, for whoever wonders.
fn told(scene: &Scene, said: &Said) -> String {
    let offered = scene.model.requests().into_iter().map(|record| record.tools).max_by_key(Vec::len);
    format!("{}{}\n{offered:?}\n{:#?}", said.out, said.err, results(scene))
}

/// The model sees these, one after the other.
fn saw(scene: &Scene, wanted: &[&str]) -> bool {
    let seen = results(scene);
    let places = wanted.iter().map(|text| seen.iter().position(|result| result.contains(text)));
    let places: Vec<Option<usize>> = places.collect();
    places.is_sorted() && places.iter().all(Option::is_some)
}

/// It takes the loop, says that an atom is done, is refused, does it, hands it in, and ends its turn.
fn completes(host: &Host) {
    let atoms = atom("A1", "", &file("a.txt"));
    let plan = Plan { atoms: &atoms, base_case: &is_there("a.txt"), ..Plan::default() };
    let scene = staged(host, &plan, |repo| {
        let tree = repo.path(".aot/trees/A1-1/a.txt").display().to_string();
        let resolve = |summary: &str| (host.call)("atom_resolve", json!({"atom": "A1", "summary": summary}));
        Rule::on(PROMPT)
            .step((host.call)("enter", json!({})))
            .step((host.call)("atom_start", json!({"atom": "A1"})))
            .step(resolve("I say that it is made"))
            .write(&tree, "made")
            .step(resolve("--a.txt is made"))
            .step((host.call)("turn", json!({})))
            .say("The program says that it is completed.")
    });
    let said = run(&scene, &[&[host.program], host.words, &[PROMPT]].concat());
    let about = told(&scene, &said);
    let state = scene.repo.state();
    assert_eq!(state["control"]["status"], "completed", "{about}");
    assert_eq!(state["bindings"]["A1"]["summary"], "--a.txt is made");
    assert_eq!(scene.repo.landed("main"), "A1");
    assert_eq!(scene.repo.read("a.txt").trim_end(), "made");
    let steps = ["call `turn`", "solve A1", "its check failed", "atom_resolved", "COMPLETED"];
    assert!(saw(&scene, &steps), "{about}");
    assert_eq!(said.exit, 0, "{about}");
    assert_eq!(scene.repo.processes(), [], "nobody is left");
}

/// With no more permissions than the guide gives for our tools.
fn needs_no_more_than_the_guide_allows(host: &Host) {
    let atoms = run_atom("A1", "", "echo one > one");
    let scene = staged(host, &Plan { atoms: &atoms, ..Plan::default() }, |_| {
        Rule::on(PROMPT)
            .step((host.call)("status", json!({})))
            .step((host.call)("enter", json!({})))
            .step((host.call)("atom_start", json!({"atom": "A1"})))
            .step((host.call)("turn", json!({})))
            .say("The program says that it is completed.")
    });
    let repo = &scene.repo;
    if host.program == "gemini" {
        let settings = repo.read(".gemini/settings.json");
        repo.write(".gemini/settings.json", &settings.replace("1800000", "1800000, \"trust\": true"));
    }
    let said = run(&scene, &[&[host.program], host.plain, &[PROMPT]].concat());
    let about = told(&scene, &said);
    assert_eq!(repo.state()["control"]["status"], "completed", "{about}");
    assert!(saw(&scene, &["pending", "call `turn`", "atom_resolved", "COMPLETED"]), "{about}");
    assert_eq!(repo.landed("main"), "A1");
}

/// The graph as a resource, by the client's own tool.
fn reads_the_graph(host: &Host) {
    let atoms = atom("A1", "", &file("a.txt"));
    let scene = staged(host, &Plan { atoms: &atoms, ..Plan::default() }, |_| {
        Rule::on("Read the graph.")
            .call(host.reader, json!({"server": "aot", "uri": "aot://graph"}))
            .say("Read.")
    });
    let said = run(&scene, &[&[host.program], host.words, &["Read the graph."]].concat());
    assert!(saw(&scene, &["Make A1"]), "{}", told(&scene, &said));
}

/// Our prompts are its commands.
#[test]
fn claude_code_knows_the_commands() {
    if !is_here("claude") {
        return;
    }
    let scene = staged(&CLAUDE, &Plan::default(), |_| {
        Rule::on("The user said: enough").and("Call `stop` with the reason").say("Nothing to stop.")
    });
    let said = run(&scene, &[&["claude"], CLAUDE.words, &["/mcp__aot__exit-recursion enough"]].concat());
    assert!(said.out.contains("Nothing to stop."), "{}", told(&scene, &said));
}

/// A project that has told its clients of the server, and is run by one of them as an agent all the same.
fn works_as_an_agent(host: &Host, agent: &str) {
    let atoms = atom("A1", "", &file("a.txt"));
    let plan = Plan { atoms: &atoms, base_case: &is_there("a.txt"), ..Plan::default() };
    let scene = staged(host, &plan, |_| {
        Rule::on("solve A1").write("a.txt", "made").answer(solved("a.txt is made", &["a.txt"]))
    });
    let repo = &scene.repo;
    repo.git(&["add", "-A"]);
    repo.git(&["commit", "-q", "--allow-empty", "-m", "Tell the clients"]);
    let mut command = repo.command(&["run", "--json", "--agent", agent]);
    let output = command.envs(scene.variables()).env("PATH", path(&scene)).output().expect("it starts");
    let said = Said {
        exit: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    assert_eq!(said.exit, 0, "{}\n{}", told(&scene, &said), scene.transcripts());
    assert_eq!(repo.landed("main"), "A1");
    assert_eq!(repo.state()["bindings"]["A1"]["summary"], "a.txt is made");
}

macro_rules! for_each_client {
    ($($name:ident: $host:ident, $acp:literal, $adapter:literal;)*) => { $(
        mod $name {
            use super::is_here;

            #[test]
            fn takes_a_loop_to_its_end() {
                if is_here(super::$host.program) {
                    super::completes(&super::$host);
                }
            }

            #[test]
            fn reads_the_graph() {
                if is_here(super::$host.program) {
                    super::reads_the_graph(&super::$host);
                }
            }

            #[test]
            fn works_as_an_agent_all_the_same() {
                if is_here(super::$host.program) {
                    super::works_as_an_agent(&super::$host, super::$host.program);
                }
            }

            #[test]
            fn works_as_an_agent_over_the_other_protocol() {
                if is_here(super::$host.program) && is_here($adapter) {
                    super::works_as_an_agent(&super::$host, $acp);
                }
            }

            #[test]
            fn needs_no_more_than_the_guide_allows() {
                if is_here(super::$host.program) {
                    super::needs_no_more_than_the_guide_allows(&super::$host);
                }
            }
        }
    )* };
}

for_each_client! {
    claude_code: CLAUDE, "claude-acp", "claude-agent-acp";
    codex: CODEX, "codex-acp", "codex-acp";
    gemini: GEMINI, "gemini-acp", "gemini";
    opencode: OPENCODE, "opencode-acp", "opencode";
}
