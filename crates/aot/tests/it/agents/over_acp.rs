//! Real agents over the Agent Client Protocol, where that differs from a command: who keeps them from writing, and how
//! their troubles are told.

use aot_runner::process::cage::Kind;
use scripted_model::{HttpError, Rule, Script, ScriptedModel};
use serde_json::json;

use crate::repo::Plan;
use crate::scene::{Scene, atom, feasible, file, is_here, is_there, limit, solved};

/// Their names, and the programs that have to be here.
const AGENTS: [(&str, &str); 4] = [
    ("claude-acp", "claude-agent-acp"),
    ("codex-acp", "codex-acp"),
    ("gemini-acp", "gemini"),
    ("opencode-acp", "opencode"),
];

fn agents() -> impl Iterator<Item = &'static str> {
    AGENTS.into_iter().filter(|(_, program)| is_here(program)).map(|(name, _)| name)
}

fn scene(script: Script) -> Scene {
    let atoms = atom("A1", "", &file("a.txt"));
    Scene::new(&Plan { atoms: &atoms, base_case: &is_there("a.txt"), ..Plan::default() }, script)
}

/// A probe in a mode in which it asks nobody. Its shell does try to write, and what it tries says why it cannot.
fn is_kept_by_the_cage(agent: &str, bold: &str, cage: &str, refusal: &str) {
    let atoms = atom("A1", "", &format!("probe: true, {}", file("a.txt")));
    let script = Script::new()
        .rule(
            Rule::on("can A1 be done").run("echo tried > sneaky || echo kept").answer(feasible("it is easy")),
        )
        .rule(Rule::on("solve A1").write("a.txt", "made").answer(solved("made", &["a.txt"])));
    let plan = Plan { atoms: &atoms, base_case: &is_there("a.txt"), ..Plan::default() };
    let scene = Scene::new(&plan, script);
    scene.settings(&format!("[cage]\nkind = \"{cage}\"\n[agent.{agent}.roles]\n{bold}\n"));
    let said = scene.run(agent);
    assert_eq!(said.exit, 0, "{agent} in {cage}: {}{}\n{}", said.out, said.err, scene.transcripts());
    assert!(!scene.repo.path("sneaky").exists(), "{agent} in {cage}");
    let requests = scene.model.requests();
    let tried = requests.iter().find(|request| request.results.contains(refusal));
    let results: Vec<&str> = requests.iter().map(|request| request.results.as_str()).collect();
    assert!(tried.is_some_and(|tried| tried.results.contains("kept")), "{agent} in {cage}: {results:?}");
}

#[test]
fn the_cage_alone_keeps_a_probe_from_writing() {
    let open =
        "arguments = [\"-c\", 'sandbox_mode=\"danger-full-access\"', \"-c\", 'approval_policy=\"never\"']";
    for (agent, program, bold) in [
        (
            "claude-acp",
            "claude-agent-acp",
            "probe = { arguments = [], mode = \"bypassPermissions\" }".to_owned(),
        ),
        ("codex-acp", "codex-acp", format!("probe = {{ {open}, mode = \"full-access\" }}")),
        ("gemini-acp", "gemini", "probe = { arguments = [], mode = \"yolo\" }".to_owned()),
    ] {
        if is_here(program) {
            is_kept_by_the_cage(agent, &bold, "bwrap", "Read-only file system");
            // The superuser's has read-only mounts besides.
            let refusal =
                if Kind::Landlock.has_own_view() { "Read-only file system" } else { "Permission denied" };
            is_kept_by_the_cage(agent, &bold, "landlock", refusal);
        }
    }
}

#[test]
fn a_limit_is_nobodys_failure() {
    for agent in agents() {
        let scene = scene(Script::new().rule(Rule::always().with_or_without_tools().error(limit(agent))));
        let said = scene.aot(&["run", "--json", "--agent", agent, "--no-park"]);
        assert_eq!(said.exit, 15, "{agent}: {}{}\n{}", said.out, said.err, scene.transcripts());
        assert_eq!(said.halted()["what"], "allowance", "{agent}: {}", said.halted());
        assert_eq!(scene.repo.state()["trail"], json!([]), "{agent}");
    }
}

#[test]
fn nobody_who_is_not_logged_in_is_asked_twice() {
    for agent in agents() {
        let refused = Rule::always().with_or_without_tools().error(HttpError::status(401));
        let scene = scene(Script::new().rule(refused));
        let said = scene.run(agent);
        assert_eq!(said.exit, 17, "{agent}: {}{}\n{}", said.out, said.err, scene.transcripts());
        let reason = said.halted()["reason"].as_str().unwrap_or_default().to_owned();
        assert!(reason.contains(&format!("{agent} is not logged in")), "{reason}");
        assert_eq!(Scene::agent_runs(&said).len(), 1, "{agent}");
    }
}

#[test]
fn a_network_that_is_down_is_nobodys_failure() {
    if !is_here("claude-agent-acp") {
        return;
    }
    let scene = scene(Script::new());
    let nobody = ScriptedModel::start(Script::new()).expect("a model").url();
    scene.at(&nobody);
    let said = scene.aot(&["run", "--json", "--agent", "claude-acp", "--no-park"]);
    assert_eq!(said.exit, 15, "{}{}\n{}", said.out, said.err, scene.transcripts());
    assert_eq!(scene.repo.state()["trail"], json!([]));
}

/// A command that the user names is all that is needed.
#[test]
fn any_command_that_speaks_the_protocol_can_work() {
    for (command, program) in [("acp:codex-acp", "codex-acp"), ("acp:gemini --acp --skip-trust", "gemini")] {
        if !is_here(program) {
            continue;
        }
        let scene = scene(
            Script::new()
                .rule(Rule::on("solve A1").write("a.txt", "made").answer(solved("made", &["a.txt"]))),
        );
        let said = scene.run(command);
        assert_eq!(said.exit, 0, "{command}: {}{}\n{}", said.out, said.err, scene.transcripts());
        assert_eq!(scene.repo.landed("main"), "A1", "{command}");
    }
}
