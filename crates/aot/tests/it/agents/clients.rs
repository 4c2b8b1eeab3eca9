//! Each real agent, headless and over the Agent Client Protocol: it works, it looks without being able to write, it is
//! asked again, its work is mended, it is killed, and it is given up when its model never answers.

use std::process::Command;
use std::time::Duration;

use scripted_model::{Moment, Rule, Script};

use crate::repo::Plan;
use crate::scene::{Scene, atom, clients, feasible, file, is_here, is_there, solved, wait_until};

/// What a worker tries besides: to read a key, and to leave settings that the user's next session would follow.
const ATTACK: &str = "cat ~/.ssh/id_ed25519 ~/.aws/credentials ~/config/gh/hosts.yml > found.txt; \
    for f in .claude/settings.json .claude.json .codex/config.toml .gemini/settings.json config/opencode/opencode.json; \
    do mkdir -p ~/$(dirname $f); echo EVIL > ~/$f; done; true";

/// The probe writes with its tools and through a shell, in its tree and in the project itself, and nothing of it stays. Then
/// the worker solves the atom, with what the probe found in its brief.
fn works(agent: &str, cage: &str) {
    let atoms = atom("A1", "", &format!("probe: true, {}", file("a.txt")));
    let plan = Plan { atoms: &atoms, base_case: &is_there("a.txt"), ..Plan::default() };
    let scene = Scene::new(&plan, Script::new());
    let outside = scene.repo.path("../sneaky").display().to_string();
    let inside = scene.repo.path("sneaky").display().to_string();
    let script = Script::new()
        .rule(
            Rule::on("can A1 be done")
                .write("sneaky", "no")
                .run(&format!("touch sneaky {inside} {outside}; echo $?"))
                .answer(feasible("it is easy")),
        )
        .rule(
            Rule::on("solve A1")
                .and("it is easy")
                .write("a.txt", "made")
                .run(&format!("cat a.txt; {ATTACK}"))
                .answer(solved("a.txt is made", &["a.txt"])),
        );
    let scene = Scene { model: scripted_model::ScriptedModel::start(script).expect("a model"), ..scene };
    scene.at(&scene.model.url());
    scene.settings(&format!("[cage]\nkind = \"{cage}\"\n"));
    for key in [".ssh/id_ed25519", ".aws/credentials", "config/gh/hosts.yml"] {
        scene.repo.write(&format!("../{key}"), "A-PRIVATE-KEY");
    }
    let said = scene.run(agent);
    assert_eq!(said.exit, 0, "{}{}\n{}", said.out, said.err, scene.transcripts());
    assert_eq!(scene.repo.atoms(), "A1:resolved");
    assert_eq!(scene.repo.landed("main"), "A1");
    assert_eq!(scene.repo.read("a.txt").trim_end(), "made");
    for path in ["sneaky", "../sneaky"] {
        assert!(!scene.repo.path(path).exists(), "the probe wrote {path}");
    }
    assert!(!said.out.contains("although it may only read"), "{}", said.out);
    assert_eq!(scene.repo.read("found.txt"), "", "it read a key");
    for settings in [
        ".claude/settings.json",
        ".claude.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        "config/opencode/opencode.json",
    ] {
        let text = std::fs::read_to_string(scene.repo.path(&format!("../{settings}"))).unwrap_or_default();
        assert!(!text.contains("EVIL"), "it left {settings}");
    }
    let runs = Scene::agent_runs(&said);
    assert_eq!(runs.len(), 2, "{runs:?}");
    for run in &runs {
        assert_eq!(run["agent"], agent);
        assert!(run["tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{runs:?}");
    }
    let told = scene.aot(&["log", "A1"]);
    assert!(told.out.contains("a.txt is made"), "{}", told.out);
    for secret in ["nobody-may-see", "A-PRIVATE-KEY"] {
        assert!(!scene.transcripts().contains(secret));
    }
    assert_eq!(scene.repo.leftovers(), [""; 0]);
}

/// Its first answer is none, or not valid.
fn is_asked_again(agent: &str) {
    let bad = serde_json::json!({"success": "perhaps"});
    let right = solved("made at last", &["a.txt"]);
    let mut script = Script::new();
    // In the same conversation; clients differ in how many messages an answer takes.
    for turn in 2..9 {
        let again = || Rule::on("solve A1").and("Asked again").from_turn(turn);
        script = script.rule(again().after("Received").say("Done.")).rule(again().answer(right.clone()));
    }
    let first = Rule::on("solve A1").without("Asked again").write("a.txt", "made");
    let script = script.rule(first.answer(bad).say("That was all."));
    let atoms = atom("A1", "", &file("a.txt"));
    let scene = Scene::new(&Plan { atoms: &atoms, base_case: &is_there("a.txt"), ..Plan::default() }, script);
    let said = scene.run(agent);
    assert_eq!(said.exit, 0, "{}{}\n{}", said.out, said.err, scene.transcripts());
    let state = scene.repo.state();
    assert_eq!(state["bindings"]["A1"]["summary"], "made at last", "{state}");
    assert_eq!(state["control"]["spent"]["agent_runs"], 2);
    assert_eq!(scene.repo.landed("main"), "A1");
}

/// Its first result is red; it goes on in the same conversation, where it is told what the check said, and lands.
fn is_mended(agent: &str, cage: &str) {
    let mut script = Script::new();
    // Clients differ in how many messages an answer takes. Gemini does not find its own conversations over the protocol,
    // so that a new one begins in the same tree.
    let first = if agent == "gemini-acp" { 0 } else { 2 };
    for turn in first..9 {
        let mends = || Rule::on("solve A1").and("Not done yet").and("the word is wrong").from_turn(turn);
        script = script
            .rule(mends().after("Received").say("Done."))
            .rule(mends().after("MENDED").answer(solved("the right word", &["a.txt"])))
            .rule(mends().run("echo right > a.txt; echo MENDED"));
    }
    let wrong = Rule::on("solve A1").without("Not done yet").write("a.txt", "wrong\n");
    let script = script.rule(wrong.answer(solved("a word", &["a.txt"])));
    let check = "check: {type: command, value: \"grep right a.txt || { echo the word is wrong; exit 1; }\"}";
    let atoms = atom("A1", "", check);
    let scene = Scene::new(&Plan { atoms: &atoms, base_case: &is_there("a.txt"), ..Plan::default() }, script);
    scene.settings(&format!("[cage]\nkind = \"{cage}\"\n"));
    let said = scene.run(agent);
    assert_eq!(said.exit, 0, "{}{}\n{}", said.out, said.err, scene.transcripts());
    let state = scene.repo.state();
    assert_eq!(state["bindings"]["A1"]["summary"], "the right word", "{state}");
    let spent = &state["control"]["spent"];
    assert_eq!((&spent["agent_runs"], &spent["mends"]), (&2.into(), &1.into()), "{state}");
    assert_eq!(state["control"]["iteration"], 1, "{state}");
    let reasons: Vec<_> = said.objects().into_iter().filter(|object| object["type"] == "mends").collect();
    assert!(reasons.len() == 1 && reasons[0]["reason"].to_string().contains("exit 1"), "{reasons:?}");
    assert_eq!(scene.repo.landed("main"), "A1");
    assert_eq!(scene.repo.read("a.txt").trim_end(), "right");
    assert_eq!(scene.repo.leftovers(), [""; 0]);
}

/// It is killed while a tool of its own runs, which has left for a session of its own.
fn is_killed(agent: &str) {
    let script = Script::new().rule(
        Rule::on("solve A1")
            .run("setsid -f sleep 4711; touch begun; sleep 4711")
            .answer(solved("never", &[])),
    );
    let atoms = atom("A1", "", &file("a.txt"));
    let scene = Scene::new(&Plan { atoms: &atoms, base_case: &is_there("a.txt"), ..Plan::default() }, script);
    let live = scene.start(&["run", "--json", "--agent", agent]);
    wait_until("a tool runs", || {
        scene.repo.processes().iter().filter(|(_, words)| words.contains("sleep 4711")).count() >= 2
    });
    let stopped = scene.aot(&["stop", "--now"]);
    assert_eq!(stopped.exit, 0, "{}", stopped.err);
    let said = live.end();
    assert_eq!(said.exit, 10, "{}{}", said.out, said.err);
    assert_eq!(scene.repo.processes(), []);
    assert_eq!(scene.repo.atoms(), "A1:pending");
    assert_eq!(scene.repo.leftovers(), [""; 0]);
}

/// It must have come so far as to ask its model, and on a busy machine some take long to start: it is given more time
/// until it has asked.
fn is_given_up(agent: &str, seconds: u32) {
    let asked = [seconds, 3 * seconds, 6 * seconds].into_iter().any(|seconds| asked_in_vain(agent, seconds));
    assert!(asked, "it never asked its model");
}

/// Whether the agent has asked its model, which never answers, before its time was over.
fn asked_in_vain(agent: &str, seconds: u32) -> bool {
    let script = Script::new().rule(Rule::always().with_or_without_tools().hang(Moment::Start));
    let atoms = atom("A1", "", &file("a.txt"));
    let constraints = "max_iterations: 1, max_parallel_agents: 1, max_stall_count: 3, agent_timeout: ";
    let constraints = &format!("{constraints}{seconds}s");
    let plan = Plan { atoms: &atoms, base_case: &is_there("a.txt"), constraints, ..Plan::default() };
    let scene = Scene::new(&plan, script);
    let said = scene.run(agent);
    assert_eq!(said.exit, 12, "{}{}", said.out, said.err);
    let tried = &said.halted()["tried"][0];
    assert!(tried["reasons"][0].as_str().is_some_and(|reason| reason.contains("time was over")), "{tried}");
    assert_eq!(scene.repo.processes(), []);
    scene.model.wait_for(Duration::ZERO, |_| true).is_some()
}

/// What root does in a cage says little of anybody else: the agent that starts soonest works as an ordinary user, too.
#[test]
fn works_for_an_ordinary_user() {
    const NOBODY: u32 = 65534;
    if !is_here("codex") || !rustix::process::geteuid().is_root() {
        return;
    }
    let home = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::chown(home.path(), Some(NOBODY), Some(NOBODY)).expect("we are root");
    let as_nobody = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]);
        command.args(words).env("HOME", home.path()).env("TMPDIR", home.path()).output().expect("it starts")
    };
    let itself = std::env::current_exe().expect("this test");
    let itself = itself.to_str().expect("plain");
    let needed = format!(
        "test -x {itself} && test -x {} && test -r {}",
        env!("CARGO_BIN_EXE_aot"),
        clients().display()
    );
    if !as_nobody(&["sh", "-c", &needed]).status.success() {
        eprintln!("!!! NOT TESTED AS AN ORDINARY USER, who cannot read {itself} !!!");
        return;
    }
    let cases = ["probes_without_writing_and_works", "probes_and_works_in_the_kernels_cage"];
    let cases = cases.map(|case| format!("agents::clients::codex::{case}"));
    let done = as_nobody(&[itself, "--exact", &cases[0], &cases[1]]);
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("2 passed"), "{said}");
}

macro_rules! for_each_agent {
    ($($name:ident: $agent:literal, $program:literal, $patience:literal;)*) => { $(
        mod $name {
            use super::is_here;

            #[test]
            fn probes_without_writing_and_works() {
                if is_here($program) {
                    super::works($agent, "auto");
                }
            }

            #[test]
            fn probes_and_works_in_the_kernels_cage() {
                if is_here($program) {
                    super::works($agent, "landlock");
                }
            }

            #[test]
            fn is_asked_again_when_its_answer_is_wrong() {
                if is_here($program) {
                    super::is_asked_again($agent);
                }
            }

            #[test]
            fn is_mended_in_the_same_conversation() {
                if is_here($program) {
                    super::is_mended($agent, "auto");
                }
            }

            #[test]
            fn is_killed_with_all_its_tools() {
                if is_here($program) {
                    super::is_killed($agent);
                }
            }

            #[test]
            fn is_given_up_when_its_model_never_answers() {
                if is_here($program) {
                    super::is_given_up($agent, $patience);
                }
            }
        }
    )* };
}

for_each_agent! {
    claude: "claude", "claude", 12;
    codex: "codex", "codex", 12;
    gemini: "gemini", "gemini", 15;
    opencode: "opencode", "opencode", 25;
    claude_acp: "claude-acp", "claude-agent-acp", 20;
    codex_acp: "codex-acp", "codex-acp", 12;
    gemini_acp: "gemini-acp", "gemini", 20;
    opencode_acp: "opencode-acp", "opencode", 40;
}
