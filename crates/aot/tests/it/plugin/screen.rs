//! What a person sees: the real client in a real terminal, in both versions. A line of tmux is a line of the screen.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use scripted_model::{Rule, Script, Step};
use serde_json::{Value, json};

use super::kit::{
    Scene, atom, both_versions, call_coordinator, call_worker, coordinator, file, is_there, main_on, plugin,
    run, solves, unsolved, worker,
};
use crate::repo::{LONG, Plan, Repo};

/// Whether tmux is here. If not, that is said; where everything has to be tested, it is a failure.
pub fn tmux_is_here() -> bool {
    let found = Command::new("tmux").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return true;
    }
    assert!(std::env::var_os("CI").is_none_or(|value| value != "true"), "tmux is not installed");
    eprintln!("!!! NOT TESTED IN A TERMINAL: tmux is not here !!!");
    false
}

/// A session of the client at a terminal.
pub struct Screen<'s> {
    scene: &'s Scene,
    socket: PathBuf,
}

impl<'s> Screen<'s> {
    pub fn open(scene: &'s Scene) -> Screen<'s> {
        let home = scene.repo.path("../home/.claude");
        let project = scene.repo.path(".").canonicalize().expect("it is there");
        std::fs::create_dir_all(&home).expect("a folder");
        // A user who has used the client here before.
        let known = json!({
            "hasCompletedOnboarding": true, "theme": "dark", "bypassPermissionsModeAccepted": true,
            "customApiKeyResponses": {"approved": ["x"], "rejected": []},
            "projects": {project.to_str().expect("plain"): {"hasTrustDialogAccepted": true}},
        });
        std::fs::write(home.join(".claude.json"), known.to_string()).expect("a file");
        let line = format!("{} statusline", plugin().join("bin/aot").display());
        let settings = json!({"statusLine": {"type": "command", "command": line, "refreshInterval": 1}});
        std::fs::write(home.join("settings.json"), settings.to_string()).expect("a file");
        let words =
            ["--plugin-dir", plugin().to_str().expect("plain"), "--permission-mode", "bypassPermissions"];
        let client = scene.client(&words);
        let mut line =
            vec!["exec".to_owned(), "env".to_owned(), "-i".to_owned(), "TERM=xterm-256color".into()];
        line.extend(
            client.get_envs().filter_map(|(name, value)| {
                Some(quoted(&format!("{}={}", name.to_str()?, value?.to_str()?)))
            }),
        );
        line.push(quoted(client.get_program().to_str().expect("plain")));
        line.extend(client.get_args().map(|word| quoted(word.to_str().expect("plain"))));
        // A server that is about to end would take a new session with it, so each screen has its own.
        static OPENED: AtomicUsize = AtomicUsize::new(0);
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        let screen = Screen { scene, socket: scene.repo.path(&format!("../tmux-{number}")) };
        let size = ["-x", "150", "-y", "100"];
        let command = line.join(" ");
        screen.tmux(
            &[
                &["new-session", "-d", "-s", "s"][..],
                &size,
                &["-c", project.to_str().expect("plain"), &command],
            ]
            .concat(),
        );
        screen.see("bypass permissions on");
        screen
    }

    fn tmux(&self, words: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(words).env_remove("TMUX");
        let output = command.output().expect("it starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", "s", "-S", "-500"])
    }

    /// Types a line, and waits until it stands there before it is sent.
    pub fn say(&self, line: &str) {
        self.tmux(&["send-keys", "-t", "s", "-l", line]);
        self.see(line);
        self.tmux(&["send-keys", "-t", "s", "Enter"]);
    }

    /// The client is gone from one moment to the next, without a word to its hooks.
    pub fn crash(self) {
        let pid = self.tmux(&["display-message", "-p", "-t", "s", "#{pane_pid}"]);
        let killed = Command::new("kill").args(["-9", pid.trim()]).status();
        assert!(killed.is_ok_and(|status| status.success()), "{pid}");
    }

    pub fn see(&self, what: &str) {
        let began = Instant::now();
        while !self.text().contains(what) {
            let (text, told) = (self.text(), self.scene.told());
            assert!(
                began.elapsed() < LONG,
                "{}: it never showed {what:?}:\n{text}\n{told}",
                self.scene.program
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn start(id: &str) -> Step {
    run(&format!("aot atom start {id}"))
}

fn resolve(id: &str) -> Step {
    run(&format!("aot atom resolve {id} --summary 'it is made'"))
}

/// A coordinator that the session waits for.
fn call_coordinator_in_the_foreground() -> Step {
    match call_coordinator() {
        Step::Call { tool, mut input } => {
            input["run_in_background"] = json!(false);
            Step::Call { tool, input }
        }
        other => other,
    }
}

fn two_ways(id: &str) -> String {
    format!("  - {{id: {id}, description: \"Make {id}\", status: pending, depends_on: [], or_group: way}}\n")
}

/// A worker is sent. Where it runs behind the coordinator, that one ends its turn and is woken by the answer.
fn sends(rule: Rule, repo: &Repo, program: &str, id: &str, attempt: u32) -> Rule {
    let rule = rule.step(start(id)).step(call_worker(repo, id, attempt));
    if program == "claude" { rule.say("I wait for it.") } else { rule }
}

/// A worker that solves its atom, one that fails, and the other way in the next iteration.
fn two_iterations(repo: &Repo, program: &str) -> Script {
    let enters = main_on("The user asked for").run("aot run --session").step(call_coordinator());
    let rule = coordinator().call("Skill", json!({"skill": "aot:aot-dag"}));
    let rule = sends(rule, repo, program, "A1", 1).step(resolve("A1"));
    let rule = sends(rule, repo, program, "A3", 1).run("aot atom fail A3 --reason 'this way leads nowhere'");
    let rule = sends(rule.say("The first turn is over."), repo, program, "A4", 2).step(resolve("A4"));
    Script::new()
        .rule(rule.say("Good news: all is made."))
        .rule(solves(repo, "A1", 1, "a"))
        .rule(worker("A3").say(&unsolved("this way leads nowhere")))
        .rule(solves(repo, "A4", 2, "c"))
        .rule((0..6).fold(enters, |rule, n| rule.say(&format!("The session speaks, {n}."))))
}

#[test]
fn a_person_sees_the_bound_each_iteration_and_the_end() {
    if !tmux_is_here() {
        return;
    }
    for program in both_versions() {
        let atoms = [atom("A1", "", &file("a")), two_ways("A3"), two_ways("A4")].concat();
        let base = ["a", "c"].map(is_there).concat();
        let or_groups = "  way: {choices: [A3, A4], selected: A3, failed: []}";
        let plan = Plan { atoms: &atoms, base_case: &base, or_groups, ..Plan::default() };
        let scene = Scene::new(&plan, |repo| two_iterations(repo, program)).on(program);
        let screen = Screen::open(&scene);
        screen.see("aot: agreed, not begun · 0/2 resolved");
        screen.say("/aot:enter-recursion");
        screen.see("says: aot: at most 240 agent runs, 1d; red now: a is there, c is there");
        screen.see(
            "aot: iteration 1: A1 resolved; A3 failed; way switches to A4; 1 left, at most 228 agent runs",
        );
        screen.see("aot: iteration 2: A4 resolved; 0 left, at most 216 agent runs");
        screen.see("aot: The loop is COMPLETED: the program ran the checks, and all pass.");
        screen.see("aot: completed · 2/2 resolved");
        let text = screen.text();
        assert!(!text.contains("hook error"), "{program}:\n{text}");
        let seen =
            |what: &str| text.find(what).unwrap_or_else(|| panic!("{program}: {what:?} is not in\n{text}"));
        assert!(seen("red now:") < seen("aot:aot-coordinator("), "before the first agent:\n{text}");
        assert!(
            scene.was_told("Launching skill: aot:aot-dag") || scene.was_told("# The graph"),
            "{}",
            scene.told()
        );
        assert_eq!(scene.repo.atoms(), "A1:resolved A3:pending A4:resolved");
    }
}

#[test]
fn a_session_that_waits_for_its_coordinator_hears_the_verdict_before_it_speaks() {
    if !tmux_is_here() {
        return;
    }
    for program in both_versions() {
        let (atoms, base) = (atom("A1", "", ""), is_there("a"));
        let scene = Scene::new(&Plan { atoms: &atoms, base_case: &base, ..Plan::default() }, |_| {
            let lies = (0..6).fold(coordinator(), |rule, _| rule.say("Good news: the loop is completed."));
            let enters = main_on("The user asked for")
                .run("aot run --session")
                .step(call_coordinator_in_the_foreground());
            Script::new().rule(lies).rule((0..6).fold(enters, |rule, n| rule.say(&format!("It ended, {n}."))))
        })
        .on(program);
        let screen = Screen::open(&scene);
        screen.say("/aot:enter-recursion");
        screen.see("is not completed: stalled: 3 iterations in a row without progress.");
        screen.see("Next: /aot:redirect");
        screen.see("aot: stopped, not completed");
        let told = "The loop has STOPPED, and is not completed: stalled";
        scene.wait_until("the model is told", || scene.was_told(told));
        if program == "claude-197" {
            screen.see("It ended, 0.");
        }
        let text = screen.text();
        assert!(!text.contains("hook error") && !text.contains("Next: aot "), "{program}:\n{text}");
        if program == "claude-197" {
            // The answer of the coordinator came with the verdict: nothing was said before it.
            let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what:?} is not in\n{text}"));
            assert!(at("STOPPED, and is not completed") < at("It ended, 0."), "{text}");
        }
    }
}

#[test]
fn the_menu_shows_commands_and_no_skills() {
    for program in both_versions() {
        let scene = Scene::new(&Plan::default(), |_| Script::new()).on(program);
        let said = scene.say("Hello");
        let events = said.out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let begun = events.into_iter().find(|event| event["subtype"] == "init").expect("it begins");
        let listed = begun["slash_commands"].as_array().expect("a list").iter().filter_map(Value::as_str);
        let mut own: Vec<&str> = listed.filter_map(|name| name.strip_prefix("aot:")).collect();
        own.sort_unstable();
        let commands = ["align-goal", "enter-recursion", "exit-recursion", "help", "redirect", "status"];
        assert_eq!(own, commands, "{program}");
        for skill in ["aot-dag", "convergence", "parallel-exec", "state-contract"] {
            assert!(!begun["slash_commands"].to_string().contains(skill), "{program}: {begun}");
        }
    }
}
