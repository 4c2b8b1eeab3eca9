//! Agents that begin: on a fresh machine, not logged in, misspelt, silent; and what is told of them while they work.

use std::process::Command;

use scripted_model::{Rule, Script};
use serde_json::{Value, json};

use crate::repo::{Plan, Repo, Said};
use crate::scene::{Scene, atom, clients, file, is_here, is_there, solved};

const TASK: &str = "Try whether your tools work";

fn plan(atoms: &str) -> Repo {
    Repo::with(&Plan { atoms, base_case: &is_there("a.txt"), ..Plan::default() })
}

fn said(mut command: Command) -> Said {
    let output = command.output().expect("it starts");
    Said {
        exit: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A machine on which nothing was ever logged in or set up, and a key in the environment.
fn works_on_a_fresh_machine(agent: &str, cage: &str) {
    if !is_here(agent) {
        return;
    }
    let script = Script::new()
        .rule(Rule::on(TASK).run("echo works > tried.txt").answer(solved("works", &[])))
        .rule(Rule::on("solve A1").run("echo made > a.txt").answer(solved("made", &["a.txt"])));
    let atoms = atom("A1", "", &file("a.txt"));
    let scene = Scene::new(&Plan { atoms: &atoms, base_case: &is_there("a.txt"), ..Plan::default() }, script);
    let url = scene.model.url();
    let home = tempfile::tempdir().expect("a folder");
    // Where the model is, is no part of an agent's own state.
    let codex = format!(
        "[agent.codex.roles.worker]\narguments = [\"--dangerously-bypass-approvals-and-sandbox\", \"-c\", 'openai_base_url=\"{url}/v1\"']\n"
    );
    scene.repo.write("aot.toml", &format!("[cage]\nkind = \"{cage}\"\n{codex}"));
    let opencode =
        std::fs::read_to_string(scene.repo.path("../config/opencode/opencode.json")).expect("it is there");
    let run = || {
        let mut command = scene.repo.command(&["run", "--json", "--agent", agent]);
        command.envs(scene.variables()).env("HOME", home.path()).env_remove("XDG_CONFIG_HOME");
        command.env("OPENCODE_CONFIG_CONTENT", &opencode);
        said(command)
    };
    let first = run();
    assert_eq!(first.exit, 0, "{}{}\n{}", first.out, first.err, scene.transcripts());
    assert_eq!(scene.repo.read("a.txt").trim_end(), "made");
    assert!(first.out.contains("works here"), "it was tried first: {}", first.out);
    assert_eq!(scene.repo.state()["control"]["spent"]["agent_runs"], 1);
    let tried = || scene.model.requests().iter().filter(|request| request.prompt.contains(TASK)).count();
    let before = tried();
    assert!(before > 0);
    scene.repo.plan(&Plan { atoms: &atoms, base_case: &is_there("b.txt"), ..Plan::default() });
    let second = run();
    assert!(second.out.contains("agent_run"), "{}{}", second.out, second.err);
    assert_eq!(tried(), before, "it is remembered");
}

#[test]
fn claude_works_on_a_fresh_machine() {
    works_on_a_fresh_machine("claude", "auto");
}

#[test]
fn claude_works_on_a_fresh_machine_in_the_kernels_cage() {
    works_on_a_fresh_machine("claude", "landlock");
}

#[test]
fn codex_works_on_a_fresh_machine() {
    works_on_a_fresh_machine("codex", "auto");
}

#[test]
fn gemini_works_on_a_fresh_machine() {
    works_on_a_fresh_machine("gemini", "auto");
}

#[test]
fn opencode_works_on_a_fresh_machine() {
    works_on_a_fresh_machine("opencode", "auto");
}

/// All that are here, at once, each in its cage.
#[test]
fn each_agent_is_tried_when_a_person_asks() {
    if !["claude", "codex", "gemini", "opencode"].into_iter().all(is_here) {
        return;
    }
    let script =
        Script::new().rule(Rule::on(TASK).run("echo works > tried.txt").answer(solved("works", &[])));
    let scene = Scene::new(&Plan::default(), script);
    let names = ["claude", "codex", "gemini", "opencode"];
    let said = scene.aot(&[&["agents", "--json", "--try"][..], &names].concat());
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let object: Value = serde_json::from_str(&said.out).expect("JSON");
    for name in names {
        let agents = object["agents"].as_array().expect("a list");
        let agent = agents.iter().find(|agent| agent["name"] == name).expect("it is listed");
        assert_eq!(agent["tried"]["works"], true, "{agent}");
        assert!(agent["tried"]["tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{agent}");
    }
    assert_eq!(scene.repo.leftovers(), [""; 0]);
}

/// An agent of our own: a shell script that gets the brief and prints lines of JSON.
fn scripted(repo: &Repo, script: &str, more: &str) {
    repo.write("../agent.sh", script);
    let program = repo.path("../agent.sh").display().to_string();
    let settings = format!(
        "[cage]\nkind = \"none\"\n[agent.mine]\nprogram = \"/bin/sh\"\narguments = [{program:?}]\ninput = \"prompt\"\n\
         answer = \"event\"\ntry_first = true\n{more}\n\
         [[agent.mine.events]]\nwhen = {{ t = \"end\" }}\nanswer = \"v\"\n\
         [[agent.mine.events]]\nwhen = {{ t = \"tool\" }}\ntool_error = \"v\"\n\
         [[agent.mine.events]]\nwhen = {{ t = \"error\" }}\nerror = \"v\"\n"
    );
    repo.write("../config/aot/aot.toml", &settings);
}

fn end(answer: &Value) -> String {
    format!("echo '{}'\n", json!({"t": "end", "v": answer}))
}

const DOES_THE_TASK: &str =
    "brief=$(cat)\ncase \"$brief\" in *'Try whether your tools work'*) echo works > tried.txt;; esac\n";

#[test]
fn an_agent_that_works_is_tried_once() {
    let repo = plan(&atom("A1", "", &file("a.txt")));
    let script = format!("{DOES_THE_TASK}echo made > a.txt\n{}", end(&solved("made", &[])));
    scripted(&repo, &script, "");
    let tried = repo.aot(&["agents", "--try", "mine"]);
    assert_eq!(tried.exit, 0, "{}{}", tried.out, tried.err);
    assert!(tried.out.starts_with("mine          works ("), "{}", tried.out);
    let said = repo.aot(&["run", "--agent", "mine"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(!said.out.contains("small task"), "{}", said.out);
}

/// Whatever it is, it may do anything when it is started.
#[test]
fn an_agent_of_ones_own_is_not_started_to_be_listed() {
    use std::os::unix::fs::PermissionsExt;
    let repo = plan(&atom("A1", "", &file("a.txt")));
    repo.write("../agent.sh", "#!/bin/sh\ntouch \"$0.started\"\necho 1.2.3; yes | head -c 100000\n");
    let script = repo.path("../agent.sh").canonicalize().expect("it is there");
    let table = format!("[agent.mine]\nprogram = {script:?}\nanswer = \"output\"\n");
    repo.write("../config/aot/aot.toml", &format!("[cage]\nkind = \"none\"\n{table}"));
    let mode = |mode| std::fs::set_permissions(&script, std::fs::Permissions::from_mode(mode)).expect("ours");
    mode(0o644);
    let said = repo.aot(&["agents"]);
    assert!(said.out.contains("mine          not executable: chmod +x "), "{}", said.out);
    let said = repo.aot(&["run", "--agent", "mine"]);
    assert_eq!(said.exit, 3, "{}{}", said.out, said.err);
    assert!(said.err.contains("agent.sh is not executable\nhint: type `chmod +x "), "{}", said.err);
    mode(0o755);
    assert!(repo.aot(&["agents"]).out.contains("mine          version unknown, login unknown\n"));
    assert!(!repo.path("../agent.sh.started").exists());
    // Its profile may say how to ask.
    let asked = format!("[cage]\nkind = \"none\"\n{table}version = [\"-v\"]\n");
    repo.write("../config/aot/aot.toml", &asked);
    assert!(repo.aot(&["agents"]).out.contains("mine          1.2.3, login unknown\n"));
    repo.write("../agent.sh", "#!/bin/sh\nyes x | tr -d '\\n' | head -c 9000\n");
    let listed = repo.aot(&["agents"]).out;
    assert!(listed.lines().all(|line| line.len() < 200), "{listed}");
}

/// Four attempts would have been paid for, each with the same end.
#[test]
fn an_agent_whose_tools_do_not_work_costs_no_iteration() {
    let repo = plan(&atom("A1", "", &file("a.txt")));
    let unsolved = json!({"success": false, "summary": "", "artifacts": [], "reason": "mkdir failed", "too_large": false});
    let script = format!(
        "cat > /dev/null\necho '{}'\n{}",
        json!({"t": "tool", "v": "EROFS: read-only file system, mkdir '/root/.mine'"}),
        end(&unsolved)
    );
    scripted(&repo, &script, "");
    let said = repo.aot(&["run", "--agent", "mine"]);
    assert_eq!(said.exit, 3, "{}{}", said.out, said.err);
    let told = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in [
        "mine is new here, and does one small task in its cage first",
        "its tools do not work in the cage: EROFS: read-only file system",
        "and once on this machine a small task to try mine",
    ] {
        assert!(told.contains(line), "{line}: {}", said.out);
    }
    let control = &repo.state()["control"];
    assert_eq!((&control["iteration"], &control["spent"]["agent_runs"]), (&json!(0), &json!(0)), "{control}");
    let tried = repo.aot(&["agents", "--try", "mine", "--json"]);
    assert_eq!(tried.exit, 1, "{}{}", tried.out, tried.err);
    let object: Value = serde_json::from_str(&tried.out).expect("JSON");
    let agents = object["agents"].as_array().expect("a list");
    let mine = agents.iter().find(|agent| agent["name"] == "mine").expect("it is listed");
    assert_eq!(mine["tried"]["works"], false);
    assert!(mine["tried"]["why"].as_str().is_some_and(|why| why.contains("EROFS")), "{mine}");
    assert!(mine["tried"]["hint"].as_str().is_some_and(|hint| hint.contains("aot doctor")), "{mine}");
}

#[test]
fn not_logged_in_costs_no_iteration_and_no_agent_run() {
    for try_first in ["true", "false"] {
        let repo = plan(&atom("A1", "", &file("a.txt")));
        let script =
            format!("cat > /dev/null\necho '{}'\nexit 1\n", json!({"t": "error", "v": "please log in"}));
        let more = "trouble.unauthenticated = ['please log in']\nlogin.hint = \"run `mine login`\"";
        scripted(&repo, &script, more);
        let settings = repo.read("../config/aot/aot.toml");
        let settings = settings.replace("try_first = true", &format!("try_first = {try_first}"));
        repo.write("../config/aot/aot.toml", &settings);
        let said = repo.aot(&["run", "--json", "--agent", "mine"]);
        assert_eq!(said.exit, 17, "{}{}", said.out, said.err);
        let halted = said.halted();
        let reason = halted["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("mine is not logged in (please log in); run `mine login`"), "{reason}");
        assert_eq!((&halted["iterations"], &halted["agent_runs"]), (&json!(0), &json!(0)), "{halted}");
        assert_eq!(repo.atoms(), "A1:pending");
        assert_eq!(repo.state()["control"]["iteration"], 0);
    }
}

#[test]
fn of_several_agents_the_one_that_is_logged_in_is_taken_and_said() {
    if !is_here("claude") || !is_here("codex") {
        return;
    }
    let repo = plan(&atom("A1", "", &file("a.txt")));
    let path = std::env::join_paths([clients(), "/usr/bin".into(), "/bin".into()]).expect("a path");
    let told = |key: &str| {
        let mut command = repo.command(&["agents"]);
        command.env("PATH", &path);
        if !key.is_empty() {
            command.env(key, "x");
        }
        said(command).out
    };
    let expected = "a run here would ask codex in every role, the only one of claude, codex, gemini, opencode that is logged in";
    assert!(told("CODEX_API_KEY").contains(expected), "{}", told("CODEX_API_KEY"));
    assert!(told("").contains("none of them is logged in: claude, codex"), "{}", told(""));
}

#[test]
fn a_slip_in_a_name_is_seen_and_a_choice_is_written_down() {
    let repo = plan(&atom("A1", "", &file("a.txt")));
    let slip = repo.aot(&["run", "--agent", "claud"]);
    assert_eq!(slip.exit, 3, "{}{}", slip.out, slip.err);
    assert!(
        slip.err.contains("agent `claud` is not known") && slip.err.contains("did you mean `claude`?"),
        "{}",
        slip.err
    );
    scripted(&repo, "", "");
    repo.write("aot.toml", "# ours\n[agents] # who\nprobe = \"none\"\n");
    let chosen = repo.aot(&["agents", "use", "mine"]);
    assert_eq!(chosen.exit, 0, "{}{}", chosen.out, chosen.err);
    assert_eq!(repo.read("aot.toml"), "# ours\n[agents] # who\ndefault = \"mine\"\nprobe = \"none\"\n");
    assert!(
        repo.aot(&["agents"]).out.contains("worker mine, probe no agent"),
        "{}",
        repo.aot(&["agents"]).out
    );
    let unknown = repo.aot(&["agents", "use", "mne"]);
    assert_eq!(unknown.exit, 3, "{}", unknown.err);
    assert!(unknown.err.contains("did you mean `mine`?"), "{}", unknown.err);
}

#[test]
fn an_agent_that_says_nothing_is_ended() {
    let constraints = "max_iterations: 1, max_parallel_agents: 1, max_stall_count: 3";
    let atoms = atom("A1", "", &file("a.txt"));
    let repo =
        Repo::with(&Plan { atoms: &atoms, base_case: &is_there("a.txt"), constraints, ..Plan::default() });
    scripted(&repo, "sleep 600\n", "");
    let settings = repo.read("../config/aot/aot.toml").replace("try_first = true", "try_first = false");
    repo.write("../config/aot/aot.toml", &format!("[work]\nidle_timeout = \"1s\"\n{settings}"));
    let said = repo.aot(&["run", "--json", "--agent", "mine"]);
    assert_eq!(said.exit, 12, "{}{}", said.out, said.err);
    assert_eq!(said.halted()["tried"][0]["reasons"][0], "mine: it said nothing for 1s");
    let told = repo.aot(&["doctor"]).out;
    assert!(told.contains("an agent that prints nothing for 1s is ended"), "{told}");
    repo.write("../config/aot/aot.toml", "");
    let told = repo.aot(&["doctor"]).out;
    assert!(told.contains("an agent that prints nothing for 15m is ended"), "{told}");
}

/// A plan that the rules refuse is nobody's failure, and would otherwise be seen in no place.
#[test]
fn a_refused_plan_is_told() {
    let atoms = atom("A1", "", &file("a.txt"));
    let base_case = is_there("a.txt") + &is_there("b.txt");
    let repo = Repo::with(&Plan { atoms: &atoms, base_case: &base_case, ..Plan::default() });
    let plan = end(&json!({
        "reason": "A2 is missing", "withdrawals": [], "decompositions": [], "atoms": [], "alternatives": [],
        "abandon": [{"group": "token_method", "reason": "slow"}], "dependencies": [],
    }));
    let work = end(&solved("made", &["a.txt"]));
    let script = format!(
        "brief=$(cat)\ncase \"$brief\" in\n*'change the plan'*)\n{plan};;\n*)\necho made > a.txt\n{work};;\nesac\n"
    );
    scripted(&repo, &script, "");
    let settings = repo.read("../config/aot/aot.toml").replace("try_first = true", "try_first = false");
    repo.write("../config/aot/aot.toml", &settings);
    let told = repo.aot(&["run", "--agent", "mine"]);
    assert_eq!(told.exit, 11, "{}{}", told.out, told.err);
    assert!(told.out.contains("plan  refused: OR group `token_method` does not exist"), "{}", told.out);
    let log = repo.aot(&["log"]).out;
    assert!(log.contains("another plan was refused: OR group `token_method`"), "{log}");
}

/// What happened to an agent is told when it happens, for people and for programs.
#[test]
fn tools_that_fail_verdicts_and_missing_plans_are_told() {
    let atoms = atom("A1", "", &format!("probe: true, {}", file("a.txt")));
    let base_case = is_there("a.txt") + &is_there("b.txt");
    let repo = Repo::with(&Plan { atoms: &atoms, base_case: &base_case, ..Plan::default() });
    let says = |value: Value| format!("echo '{value}'\n");
    let probe = end(&json!({"feasible": false, "findings": "no compiler is here", "cost_estimate": null}));
    let tools = says(json!({"t": "tool", "v": "EACCES: mkdir"})).repeat(5)
        + &says(json!({"t": "tool", "v": "Exit code 1"}));
    let work = end(&solved("made", &["a.txt"]));
    let script = format!(
        "brief=$(cat)\ncase \"$brief\" in\n*'can A1 be done'*)\n{probe};;\n*'change the plan'*) exit 7;;\n\
         *)\n{tools}echo made > a.txt\n{work};;\nesac\n"
    );
    scripted(&repo, &script, "trouble.everyday = ['^Exit code']");
    let settings = repo.read("../config/aot/aot.toml").replace("try_first = true", "try_first = false");
    repo.write("../config/aot/aot.toml", &settings);
    let told = repo.aot(&["run", "--agent", "mine"]);
    assert_eq!(told.exit, 11, "{}{}", told.out, told.err);
    let lines = |words: &str| told.out.lines().filter(|line| line.contains(words)).count();
    // The plan stays, and so does what the probe found.
    assert_eq!(lines("A1?   is not feasible as described: no compiler is here"), 1, "{}", told.out);
    assert_eq!(lines("A1    a tool of mine failed: EACCES: mkdir"), 3, "{}", told.out);
    assert_eq!(lines("Exit code"), 0, "{}", told.out);
    assert!(lines("plan  no new plan: mine: it ended with exit code 7") >= 1, "{}", told.out);
    let log = repo.aot(&["log", "A1"]).out;
    assert_eq!(log.matches("a tool failed: EACCES: mkdir").count(), 5, "{log}");
    repo.git(&["rm", "-q", "a.txt"]);
    repo.git(&["commit", "-qm", "Again"]);
    repo.plan(&Plan { atoms: &atoms, base_case: &base_case, ..Plan::default() });
    let objects = repo.aot(&["run", "--json", "--agent", "mine"]).objects();
    let of = |kind: &str| objects.iter().find(|object| object["type"] == kind).unwrap_or(&Value::Null);
    assert_eq!(
        (&of("probed")["feasible"], &of("probed")["findings"]),
        (&json!(false), &json!("no compiler is here"))
    );
    assert_eq!(of("tool_failed")["line"], "EACCES: mkdir");
    assert!(of("replan_failed")["reason"].as_str().is_some_and(|reason| reason.contains("exit code 7")));
}

/// Its answer to the question is what is kept.
#[test]
fn a_claim_without_a_change_is_asked_once_what_it_did() {
    let atoms = atom("A1", "", "");
    let base_case = is_there("b.txt");
    let repo = Repo::with(&Plan { atoms: &atoms, base_case: &base_case, ..Plan::default() });
    let (claim, explained) = (end(&solved("done", &[])), end(&solved("it was there before", &[])));
    let script = format!(
        "brief=$(cat)\ncase \"$brief\" in\n*'change the plan'*) exit 7;;\n\
         *'Nothing was changed'*)\n{explained};;\n*)\n{claim};;\nesac\n"
    );
    scripted(&repo, &script, "");
    let settings = repo.read("../config/aot/aot.toml").replace("try_first = true", "try_first = false");
    repo.write("../config/aot/aot.toml", &settings);
    let told = repo.aot(&["run", "--agent", "mine"]);
    assert_eq!(told.exit, 11, "{}{}", told.out, told.err);
    let binding = &repo.state()["bindings"]["A1"];
    assert_eq!((&binding["summary"], &binding["unchanged"]), (&json!("it was there before"), &json!(true)));
    assert_eq!(repo.state()["control"]["spent"]["mends"], 1);
    assert!(told.out.contains("~ A1    it was there before (no file changed)"), "{}", told.out);
}

/// Codex says when its limit ends as a clock on the wall does.
#[test]
fn the_end_of_a_limit_is_read_and_told_in_local_time() {
    let repo = plan(&atom("A1", "", &file("a.txt")));
    let in_two_hours = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(2);
    let zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(-5));
    let there = in_two_hours.to_zoned(zone);
    let words = format!("You've hit your usage limit. Try again at {}.", there.strftime("%-I:%M %p"));
    let script = format!(
        "cat > /dev/null\necho '{}'\nexit 1\n",
        json!({"t": "error", "v": words}).to_string().replace('\'', "'\\''")
    );
    scripted(&repo, &script, "trouble.limited = ['(?i)try again at (?<clock>[^\\n]{1,40})']");
    let mut command = repo.command(&["run", "--agent", "mine", "--no-park"]);
    command.env("TZ", "EST5");
    let told = said(command);
    assert_eq!(told.exit, 15, "{}{}", told.out, told.err);
    let expected = format!("(until {})", there.strftime("%H:%M"));
    let other_day = format!("(until {})", there.strftime("%b %-d, %H:%M"));
    assert!(told.out.contains("mine: You've hit your usage limit"), "{}", told.out);
    assert!(told.out.contains(&expected) || told.out.contains(&other_day), "{expected}: {}", told.out);
}
