//! What is not the worker's fault: limits, networks, logins. And what is: an agent that changes what it must not.

use scripted_model::{HttpError, Rule, Script, ScriptedModel};
use serde_json::json;

use crate::repo::Plan;
use crate::scene::{HEADLESS, Scene, atom, feasible, file, is_here, is_there, limit, solved};

fn scene(script: Script) -> Scene {
    let atoms = atom("A1", "", &file("a.txt"));
    Scene::new(&Plan { atoms: &atoms, base_case: &is_there("a.txt"), ..Plan::default() }, script)
}

fn work() -> Rule {
    Rule::on("solve A1").write("a.txt", "made").answer(solved("made", &["a.txt"]))
}

#[test]
fn a_limit_stops_the_loop_if_nobody_wants_to_wait() {
    for agent in HEADLESS.into_iter().filter(|agent| is_here(agent)) {
        let scene = scene(Script::new().rule(Rule::always().with_or_without_tools().error(limit(agent))));
        let said = scene.aot(&["run", "--json", "--agent", agent, "--no-park"]);
        assert_eq!(said.exit, 15, "{agent}: {}{}\n{}", said.out, said.err, scene.transcripts());
        let halted = said.halted();
        assert_eq!(halted["what"], "allowance", "{agent}: {halted}");
        assert_eq!(scene.repo.atoms(), "A1:pending");
        assert_eq!(scene.repo.state()["trail"], json!([]), "{agent}: a limit is nobody's failure");
    }
}

/// The limit lifts while the loop is parked. The client itself tries six times before it gives up.
#[test]
fn a_parked_loop_goes_on_when_the_limit_lifts() {
    if !is_here("opencode") {
        return;
    }
    let script = Script::new().rule(Rule::on("solve A1").error(limit("opencode")).times(6)).rule(work());
    let scene = scene(script);
    let said = scene.run("opencode");
    assert_eq!(said.exit, 0, "{}{}\n{}", said.out, said.err, scene.transcripts());
    let parked = said.objects().iter().filter(|object| object["type"] == "parked").count();
    assert_eq!(parked, 1, "{}", said.out);
    let halted = said.halted();
    assert_eq!((&halted["iterations"], &halted["agent_runs"]), (&json!(1), &json!(1)));
}

#[test]
fn nobody_who_is_not_logged_in_is_asked_twice() {
    for agent in HEADLESS.into_iter().filter(|agent| is_here(agent)) {
        let scene =
            scene(Script::new().rule(Rule::always().with_or_without_tools().error(HttpError::status(401))));
        let said = scene.run(agent);
        assert_eq!(said.exit, 17, "{agent}: {}{}\n{}", said.out, said.err, scene.transcripts());
        let reason = said.halted()["reason"].as_str().unwrap_or_default().to_owned();
        assert!(reason.contains(&format!("{agent} is not logged in")), "{reason}");
        assert_eq!(Scene::agent_runs(&said).len(), 1, "{agent}");
        let halted = said.halted();
        assert_eq!(
            (&halted["iterations"], &halted["agent_runs"]),
            (&json!(0), &json!(0)),
            "{agent}: {halted}"
        );
    }
}

/// What keeps a tool from its work is told; a command that fails belongs to the work.
#[test]
fn tools_that_fail_are_told() {
    for (agent, expected) in [
        ("claude", "ENOENT: no such file or directory, open"),
        ("opencode", "NotFound: FileSystem.writeFile"),
    ] {
        if !is_here(agent) {
            continue;
        }
        let script = Script::new().rule(
            Rule::on("solve A1")
                .run("echo bad; exit 3")
                .read("nope.txt")
                .write("/proc/nope", "x")
                .run(if agent == "codex" { "touch /nope" } else { "true" })
                .run("echo made > a.txt")
                .answer(solved("made", &["a.txt"])),
        );
        let scene = scene(script);
        let said = scene.run(agent);
        assert_eq!(said.exit, 0, "{agent}: {}{}\n{}", said.out, said.err, scene.transcripts());
        let told: Vec<_> =
            said.objects().into_iter().filter(|object| object["type"] == "tool_failed").collect();
        assert_eq!(told.len(), 1, "{agent}: {told:?}");
        assert!(told[0]["line"].as_str().is_some_and(|line| line.contains(expected)), "{agent}: {told:?}");
    }
}

/// Codex tells the end of a limit as a clock on the wall does, and so do we.
#[test]
fn the_end_of_a_limit_of_codex_is_told() {
    if !is_here("codex") {
        return;
    }
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(2);
    let limit = HttpError::status(429).body(json!({"error": {
        "type": "usage_limit_reached", "message": "usage limit", "resets_at": end.as_second(), "plan_type": "plus"}}));
    let scene = scene(Script::new().rule(Rule::always().with_or_without_tools().error(limit)));
    let live = scene.start_in_zone("UTC", &["run", "--json", "--agent", "codex", "--no-park"]);
    let said = live.end();
    assert_eq!(said.exit, 15, "{}{}\n{}", said.out, said.err, scene.transcripts());
    let reason = said.halted()["reason"].as_str().unwrap_or_default().to_owned();
    let there = end.to_zoned(jiff::tz::TimeZone::UTC);
    let expected =
        [there.strftime("(until %H:%M)").to_string(), there.strftime("(until %b %-d, %H:%M)").to_string()];
    assert!(reason.contains("codex: ") && expected.iter().any(|end| reason.contains(end)), "{reason}");
}

/// The port is closed: nobody is there.
#[test]
fn a_network_that_is_down_is_nobodys_failure() {
    if !is_here("claude") {
        return;
    }
    let scene = scene(Script::new().rule(work()));
    let nobody = ScriptedModel::start(Script::new()).expect("a model").url();
    scene.at(&nobody);
    let said = scene.aot(&["run", "--json", "--agent", "claude", "--no-park"]);
    assert_eq!(said.exit, 15, "{}{}\n{}", said.out, said.err, scene.transcripts());
    assert_eq!(scene.repo.state()["trail"], json!([]));
    assert_eq!(scene.repo.atoms(), "A1:pending");
}

/// A cage and a promise are two things: without a cage a probe that writes is found out.
#[test]
fn a_probe_that_writes_without_a_cage_is_found_out() {
    if !is_here("claude") {
        return;
    }
    let atoms = atom("A1", "", &format!("probe: true, {}", file("a.txt")));
    let plan = Plan { atoms: &atoms, base_case: &is_there("a.txt"), ..Plan::default() };
    let script =
        Script::new().rule(Rule::on("can A1 be done").run("touch sneaky").answer(feasible("trust me"))).rule(
            Rule::on("solve A1")
                .without("trust me")
                .write("a.txt", "made")
                .answer(solved("made", &["a.txt"])),
        );
    let scene = Scene::new(&plan, script);
    // Its own flags are opened as far as they go.
    let open = "[cage]\nkind = \"none\"\n[agent.claude.roles.probe]\narguments = [\"--permission-mode\", \"bypassPermissions\"]\n";
    scene.settings(open);
    let said = scene.run("claude");
    assert_eq!(said.exit, 0, "{}{}\n{}", said.out, said.err, scene.transcripts());
    assert!(!scene.repo.path("sneaky").exists());
    let worker = scene.aot(&["log", "A1", "--briefs"]).out;
    assert!(!worker.contains("What a probe found"), "the answer of a probe that wrote was used: {worker}");
}

/// The program puts the protected file back, tells the agent in the same conversation, and keeps the rest of its work.
#[test]
fn whoever_touches_what_is_protected_goes_on_without_it() {
    if !is_here("claude") {
        return;
    }
    let mut script = Script::new();
    // In the same conversation; an answer takes several messages.
    for turn in 2..9 {
        let told = || {
            Rule::on("solve A1")
                .and("it changed what is protected: tests/t.txt")
                .and("These files are as they were before")
                .from_turn(turn)
        };
        script = script
            .rule(told().after("Received").say("Done."))
            .rule(told().answer(solved("made", &["a.txt"])));
    }
    let cheats =
        Rule::on("solve A1").without("Not accepted").write("tests/t.txt", "easy").write("a.txt", "x");
    let script = script.rule(cheats.answer(solved("cheated", &["a.txt"])));
    let atoms = atom("A1", "", &file("a.txt"));
    let plan = Plan {
        atoms: &atoms,
        base_case: &is_there("a.txt"),
        objective: "  protected: [\"tests/**\"]",
        ..Plan::default()
    };
    let scene = Scene::new(&plan, script);
    let said = scene.run("claude");
    assert_eq!(said.exit, 0, "{}{}\n{}", said.out, said.err, scene.transcripts());
    assert!(!scene.repo.path("tests/t.txt").exists());
    assert_eq!(std::fs::read_to_string(scene.repo.path("a.txt")).expect("it landed"), "x");
    let state = scene.repo.state();
    assert_eq!(state["bindings"]["A1"]["summary"], "made");
    assert_eq!(state["trail"], json!([]));
    assert_eq!(state["control"]["spent"]["agent_runs"], 2);
    assert_eq!(state["control"]["spent"]["mends"], 1);
}

/// The agents that are found, as a person and as a script sees them.
#[test]
fn agents_are_listed() {
    if !is_here("claude") {
        return;
    }
    let scene = scene(Script::new());
    let said = scene.aot(&["agents", "--json"]);
    assert_eq!(said.exit, 0, "{}", said.err);
    let listed: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    let claude = listed["agents"].as_array().expect("a list").iter().find(|agent| agent["name"] == "claude");
    let claude = claude.expect("it is found");
    assert!(claude["version"].as_str().is_some_and(|version| version.contains("2.1.")), "{claude}");
    assert_eq!(claude["logged_in"], true);
    assert_eq!(claude["answer"], "its own schema");
    assert!(scene.aot(&["agents"]).out.contains("logged in"));
    let several = scene.aot(&["run", "--json"]);
    if HEADLESS.iter().filter(|agent| is_here(agent)).count() > 1 {
        assert_eq!(several.exit, 3);
        assert!(several.out.contains("several agents are found"), "{}", several.out);
    }
}
