//! What hooks answer, as a host asks them: silence wherever it is none of our business.

use serde_json::{Value, json};

use super::kit::{SESSION, asks_for_coordinator, atom, context, is_there, reason, shown};
use crate::repo::{Plan, Repo, STATE};

const EVENTS: [&str; 9] = [
    "session-start",
    "session-end",
    "user-prompt-submit",
    "pre-tool-use",
    "post-tool-use",
    "subagent-start",
    "subagent-stop",
    "stop",
    "whatever",
];

fn begun(atoms: &str) -> Repo {
    let base = is_there("a");
    let repo = Repo::with(&Plan { atoms, base_case: &base, ..Plan::default() });
    let said = repo.step(&["run", "--session"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    repo
}

/// A loop that stalls for long before its rules end it.
fn patient() -> Repo {
    let base = is_there("a");
    let constraints = "max_iterations: 50, max_parallel_agents: 3, max_stall_count: 40";
    let repo =
        Repo::with(&Plan { atoms: &atom("A1", "", ""), base_case: &base, constraints, ..Plan::default() });
    repo.step(&["run", "--session"]);
    repo
}

fn coordinator(more: Value) -> Value {
    let mut said = json!({"agent_type": "aot:aot-coordinator", "agent_id": "c1"});
    for (name, value) in more.as_object().into_iter().flatten() {
        said[name] = value.clone();
    }
    said
}

#[test]
fn without_a_loop_there_is_silence() {
    let repo = begun(&atom("A1", "", ""));
    std::fs::remove_dir_all(repo.path(".claude")).expect("it is there");
    for event in EVENTS {
        assert_eq!(
            repo.hook(event, coordinator(json!({"tool_name": "Bash", "tool_input": {}}))),
            Value::Null,
            "{event}"
        );
    }
    assert!(!repo.path(".claude").exists(), "a hook makes nothing");
}

#[test]
fn another_session_is_left_alone() {
    let repo = begun(&atom("A1", "", ""));
    let before = repo.read(STATE);
    let said = json!({
        "session_id": "another", "agent_type": "aot:aot-coordinator", "agent_id": "c1", "tool_name": "Write",
        "tool_input": {"file_path": repo.path(STATE)}, "prompt": "<task-notification>",
    });
    for event in EVENTS.into_iter().filter(|event| *event != "session-start") {
        assert_eq!(repo.hook(event, said.clone()), Value::Null, "{event}");
    }
    let accept = json!({"session_id": "another", "tool_name": "Bash", "tool_input": {"command": "aot redirect --accept"}});
    let answer = repo.hook("pre-tool-use", accept);
    assert_eq!(
        answer["hookSpecificOutput"]["permissionDecision"], "ask",
        "nobody speaks for a person: {answer}"
    );
    let told = repo.hook("session-start", said);
    let context = told["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default();
    assert!(context.contains("take over") && context.contains("leave it alone"), "{told}");
    assert_eq!(repo.read(STATE), before);
}

#[test]
fn what_is_no_sense_is_met_with_silence() {
    let repo = begun(&atom("A1", "", ""));
    for text in ["", "[]", "{}", "{\"session_id\": 3}", "null", "\u{0}"] {
        let said: Value = serde_json::from_str(text).unwrap_or(Value::String(text.into()));
        let mut command = repo.command(&["hook", "stop"]);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let _ = std::io::Write::write_all(
            &mut child.stdin.take().expect("asked for"),
            said.to_string().as_bytes(),
        );
        let output = child.wait_with_output().expect("it ends");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0), "{text:?}");
    }
}

#[test]
fn a_broken_state_is_told_once_to_its_own_session() {
    let repo = begun(&atom("A1", "", ""));
    let whole = repo.read(STATE);
    repo.write(STATE, &whole.replace("status: running", "status: [running"));
    std::thread::sleep(std::time::Duration::from_millis(1));
    assert_eq!(
        repo.hook("pre-tool-use", json!({"tool_name": "Bash", "tool_input": {"command": "ls"}})),
        Value::Null
    );
    assert_eq!(repo.hook("stop", json!({"session_id": "another"})), Value::Null);
    let told = repo.hook("stop", json!({}));
    assert!(told["systemMessage"].as_str().is_some_and(|text| text.contains("line")), "{told}");
    assert!(told["decision"].is_null(), "nobody is held by it");
    assert_eq!(repo.hook("stop", json!({})), Value::Null, "once");
    repo.write(STATE, &whole);
    assert!(asks_for_coordinator(&repo.hook("stop", json!({}))), "mended, it goes on");
}

#[test]
fn workers_are_held_to_the_form_and_never_counted() {
    let repo = begun(&atom("A1", "", ""));
    repo.step(&["atom", "start", "A1"]);
    let before = repo.read(STATE);
    let ended = |said: &str| {
        let said = json!({"agent_type": "aot:aot-worker", "agent_id": "w1", "last_assistant_message": said});
        repo.hook("subagent-stop", said)
    };
    assert!(reason(&ended("It is done.")).contains("one JSON object"));
    assert_eq!(ended("It is done!")["decision"], "block");
    assert_eq!(ended("It is done!!"), Value::Null, "after two it is let go");
    let good = json!({"success": true, "summary": "s", "artifacts": [], "reason": null, "too_large": false});
    assert_eq!(ended(&good.to_string()), Value::Null);
    assert_eq!(repo.read(STATE), before, "a worker's end is no iteration");
}

#[test]
fn a_coordinator_is_let_go_after_five_turns_and_the_session_asked_for_another() {
    let repo = patient();
    for round in 1..=4 {
        assert_eq!(repo.turn("c1")["decision"], "block", "round {round}");
    }
    assert_eq!(repo.turn("c1"), Value::Null);
    let answer = repo.hook("stop", json!({}));
    assert!(asks_for_coordinator(&answer), "{answer}");
    assert!(
        !context(&answer).contains('\n') && !context(&answer).contains("Make A1"),
        "one sentence: {answer}"
    );
    assert!(shown(&answer).contains("aot: iteration 5: no progress (4 in a row)"), "{answer}");
    let told = repo.told_at_the_start("c2");
    assert!(told.contains("A1: Make A1") && told.contains("STALLED"), "the coordinator has the rest: {told}");
    assert_eq!(repo.turn("c2")["decision"], "block", "a fresh one has turns of its own");
}

#[test]
fn a_session_that_does_nothing_ends_the_loop_before_the_host_ends_the_turn() {
    let repo = patient();
    let mut blocks = 0;
    while asks_for_coordinator(&repo.hook("stop", json!({}))) {
        blocks += 1;
        assert!(blocks < 8, "the host would have ended it");
    }
    assert_eq!(repo.state()["control"]["status"], "stopped");
    assert!(
        repo.state()["control"]["stop_reason"]
            .as_str()
            .is_some_and(|why| why.contains("without doing anything"))
    );
}

#[test]
fn stalls_end_the_loop_by_its_rules() {
    let repo = begun(&atom("A1", "", ""));
    let mut last = Value::Null;
    for _ in 0..8 {
        last = repo.hook("stop", json!({}));
        if !asks_for_coordinator(&last) {
            break;
        }
    }
    // The first ask is no turn, the first turn never a stall; three in a row are the limit, and at the limit nobody tried
    // what still could be tried.
    let control = repo.state()["control"].clone();
    assert_eq!(control["status"], "stopped", "{control}");
    assert_eq!(control["stop_reason"], "stalled: 3 iterations in a row without progress");
    assert!(context(&last).contains("is not completed"), "{last}");
    assert_eq!(repo.told_at_the_end(), "", "once");
    assert_eq!(control["spent"]["agent_runs"], 0);
}

#[test]
fn nobody_is_asked_while_agents_run_or_a_person_is_talked_with() {
    let repo = begun(&atom("A1", "", ""));
    let busy =
        json!([{"id": "c1", "type": "subagent", "status": "running", "agent_type": "aot:aot-coordinator"}]);
    let answer = repo.hook("stop", json!({"background_tasks": busy}));
    assert!(context(&answer).is_empty() && shown(&answer).contains("red now"), "{answer}");
    assert_eq!(repo.hook("stop", json!({"background_tasks": busy})), Value::Null);
    let server = json!([{"id": "b1", "type": "shell", "status": "running", "command": "npm run dev"}]);
    assert!(asks_for_coordinator(&repo.hook("stop", json!({"background_tasks": server}))));
    let workers = json!([
        {"id": "c1", "type": "subagent", "status": "running", "agent_type": "aot:aot-coordinator"},
        {"id": "w1", "type": "subagent", "status": "running", "agent_type": "aot:aot-worker"},
    ]);
    assert_eq!(repo.hook("subagent-stop", coordinator(json!({"background_tasks": workers}))), Value::Null);
    let own =
        json!([{"id": "c1", "type": "subagent", "status": "running", "agent_type": "aot:aot-coordinator"}]);
    assert_eq!(
        repo.hook("subagent-stop", coordinator(json!({"background_tasks": own})))["decision"],
        "block"
    );
    repo.step(&["atom", "start", "A1"]);
    let held = repo.step(&["redirect", "--hold"]);
    assert_eq!(held.exit, 0, "{}{}", held.out, held.err);
    assert_eq!(repo.atoms(), "A1:pending", "what ran was interrupted");
    let answer = repo.hook("stop", json!({}));
    assert!(context(&answer).is_empty() && shown(&answer).contains("/aot:redirect cancel"), "{answer}");
    let made = repo.step(&["redirect", "--add", "One more"]);
    assert_eq!(made.exit, 0, "{}{}", made.out, made.err);
    assert!(asks_for_coordinator(&repo.hook("stop", json!({}))));
    assert!(repo.told_at_the_start("c2").contains("A2: One more"));
}

#[test]
fn a_redirect_that_nobody_holds_ends_the_loop() {
    let repo = begun(&atom("A1", "", ""));
    repo.step(&["atom", "start", "A1"]);
    let text = repo.read(STATE);
    repo.write(STATE, &text.replace("redirect_requested: false", "redirect_requested: true"));
    let told = repo.hook("stop", json!({}));
    assert!(context(&told).contains("redirect interrupted"), "{told}");
    assert_eq!(repo.atoms(), "A1:pending");
    assert_eq!(repo.leftovers(), [""; 0]);
    assert_eq!(repo.state()["control"]["status"], "stopped");
}

#[test]
fn completed_typed_by_hand_is_not_believed() {
    let repo = begun(&atom("A1", "", ""));
    let text = repo.read(STATE);
    repo.write(STATE, &text.replace("status: running", "status: completed"));
    let answer = repo.turn("c1");
    assert_eq!(answer["decision"], "block", "{answer}");
    assert!(reason(&answer).contains("not believed"), "{answer}");
    assert_eq!(repo.state()["control"]["status"], "running");
}

#[test]
fn an_iteration_that_is_a_command_is_no_number() {
    let repo = begun(&atom("A1", "", ""));
    let text = repo.read(STATE);
    repo.write(STATE, &text.replace("iteration: 0", "iteration: \"X[$(touch owned)]\""));
    for event in EVENTS {
        repo.hook(event, coordinator(json!({})));
    }
    assert!(!repo.path("owned").exists());
}

#[test]
fn a_session_that_ends_leaves_the_loop_to_others() {
    let repo = begun(&atom("A1", "", ""));
    repo.hook("session-end", json!({"reason": "other"}));
    assert!(repo.state()["control"]["session"].is_null());
    let told = repo.hook("session-start", json!({"session_id": "another"}));
    assert!(told.to_string().contains("No session drives it"), "{told}");
    assert_eq!(repo.step_in("another", &["run", "--session"]).exit, 0, "no take-over is needed");
}

#[test]
fn links_and_detours_lead_to_the_same_file() {
    let repo = begun(&atom("A1", "", ""));
    std::os::unix::fs::symlink(repo.path(".claude"), repo.path("innocent")).expect("a link");
    for path in
        [".claude/aot-loop-state.md", "src/../.claude/aot-loop-state.md", "innocent/aot-loop-state.md"]
    {
        let said = json!({"tool_name": "Write", "tool_input": {"file_path": path}, "cwd": repo.path(".")});
        let answer = repo.hook("pre-tool-use", said);
        assert_eq!(answer["hookSpecificOutput"]["permissionDecision"], "deny", "{path}: {answer}");
    }
}

#[test]
fn a_notification_about_the_loop_is_set_right() {
    let repo = begun(&atom("A1", "", ""));
    let told = repo.hook("user-prompt-submit", json!({"prompt": "<task-notification>\nall is completed"}));
    assert!(told.to_string().contains("running and not completed"), "{told}");
    let told = repo.hook("user-prompt-submit", json!({"prompt": "hello"}));
    assert!(context(&told).is_empty(), "a person who speaks is not interrupted: {told}");
    assert_eq!(repo.hook("user-prompt-submit", json!({"prompt": "hello"})), Value::Null);
}

#[test]
fn the_session_in_these_tests_is_the_one_that_owns_the_loop() {
    let repo = begun(&atom("A1", "", ""));
    assert_eq!(repo.state()["control"]["session"], SESSION);
}

#[test]
fn a_coordinator_that_was_replaced_has_no_say() {
    let repo = begun(&atom("A1", "", ""));
    let starts = |agent: &str| {
        let said = json!({"agent_type": "aot:aot-coordinator", "agent_id": agent});
        repo.hook("subagent-start", said);
    };
    let asks = |agent: &str| {
        repo.ruled(agent, "coordinator", "Bash", json!({"command": "aot atom fail A1 --reason x"}))
    };
    starts("c1");
    assert_eq!(asks("c1"), "allow");
    // The direction is changed, and a fresh one goes on.
    repo.step(&["redirect", "--add", "One more"]);
    repo.step(&["run", "--session"]);
    assert_eq!(asks("c1"), "deny", "the fresh one has not begun yet");
    starts("c2");
    repo.step(&["atom", "start", "A1"]);
    let before = repo.read(STATE);
    assert_eq!((asks("c1"), asks("c2")), ("deny".into(), "allow".into()));
    assert_eq!(repo.turn("c1"), Value::Null, "it is let go");
    assert_eq!(repo.read(STATE), before, "and what the other one has in hand stays there");
    assert_eq!(repo.turn("c2")["decision"], "block");
}

#[test]
fn so_many_agents_may_be_started_in_a_turn() {
    let base = is_there("a");
    let constraints = "max_iterations: 9, max_parallel_agents: 1, max_stall_count: 5";
    let repo =
        Repo::with(&Plan { atoms: &atom("A1", "", ""), base_case: &base, constraints, ..Plan::default() });
    let said = repo.step(&["run", "--session", "--json"]);
    let begun: Value = serde_json::from_str(&said.out).expect("JSON");
    // Each iteration: one attempt of two agents, one that coordinates, one that looks at the checks.
    assert_eq!(begun["bound"]["agent_runs"], 9 * 4, "{begun}");
    let ask = || {
        let input = json!({"subagent_type": "aot:aot-probe", "prompt": "Look."});
        repo.ruled("c1", "coordinator", "Agent", input)
    };
    let ruled: Vec<String> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        asked.into_iter().map(|one| one.join().expect("no panic")).collect()
    });
    assert_eq!(ruled.iter().filter(|ruling| ruling.is_empty()).count(), 4, "{ruled:?}");
    assert_eq!(ruled.iter().filter(|ruling| *ruling == "deny").count(), 4, "{ruled:?}");
    repo.step(&["run", "--session"]);
    assert_eq!(ask(), "deny", "to begin again is no turn");
    repo.turn("c1");
    assert_eq!(ask(), "", "the next turn has its own");
}

#[test]
fn a_worker_keeps_to_its_own_tree() {
    let repo = begun(&(atom("A1", "", "") + &atom("A2", "", "")));
    repo.step(&["atom", "start", "A1"]);
    repo.step(&["atom", "start", "A2"]);
    let writes = |agent: &str, tree: &str| {
        repo.ruled(agent, "worker", "Write", json!({"file_path": repo.tree(tree).join("a")}))
    };
    assert_eq!(repo.ruled("w1", "worker", "Bash", json!({"command": "aot atom brief A1"})), "allow");
    assert_eq!((writes("w1", "A1-1"), writes("w1", "A2-1")), (String::new(), "deny".into()));
    assert_eq!(writes("w2", "A2-1"), "", "the first one that it writes in is its own");
    assert_eq!(writes("w2", "A1-1"), "deny");
    assert_eq!(writes("w3", "A9-1"), "deny", "that is nobody's");
    repo.step(&["atom", "fail", "A1", "--reason", "no"]);
    let looks = || repo.ruled("w1", "worker", "Read", json!({"file_path": "README"}));
    assert_eq!(looks(), "deny", "what it worked on was taken away");
    repo.step(&["atom", "start", "A1"]);
    assert_eq!(looks(), "deny", "another one works on it now");
}

#[test]
fn what_nobody_handed_in_is_asked_for_once_and_then_given_up() {
    let repo = begun(&(atom("A1", "", "") + &atom("A2", "", "")));
    repo.step(&["atom", "start", "A1"]);
    let before = repo.read(STATE);
    let answer = repo.turn("c1");
    assert!(reason(&answer).contains("In progress: A1."), "{answer}");
    assert_eq!(repo.read(STATE), before, "nothing is judged yet");
    repo.turn("c1");
    assert_eq!(repo.atoms(), "A1:pending A2:pending");
    assert_eq!(repo.state()["control"]["open"], Value::Null, "the turn was judged");
    // The session itself is asked, too.
    repo.step(&["atom", "start", "A2"]);
    let answer = repo.hook("stop", json!({}));
    assert!(asks_for_coordinator(&answer), "{answer}");
    assert!(repo.told_at_the_start("c3").contains("In progress: A2."));
    repo.step(&["atom", "resolve", "A2", "--summary", "done"]);
    repo.hook("stop", json!({}));
    assert_eq!(repo.atoms(), "A1:pending A2:resolved");
    // Where a stop was asked for, nobody is told to start anything.
    repo.step(&["atom", "start", "A1"]);
    repo.step(&["stop", "enough"]);
    let answer = repo.turn("c3");
    assert!(reason(&answer).contains("nothing new may start"), "{answer}");
    assert!(!reason(&answer).contains("Ready"), "{answer}");
}

#[test]
fn to_take_it_up_again_begins_nothing_anew() {
    let repo = begun(&(atom("A1", "", "") + &atom("A2", "", "")));
    repo.turn("c1");
    repo.turn("c1");
    let stalled = repo.state()["control"]["stall_count"].clone();
    assert_eq!(stalled, 1);
    repo.step(&["atom", "start", "A1"]);
    std::fs::write(repo.tree("A1-3").join("half"), "x").expect("a file");
    assert_eq!(repo.step(&["run", "--session"]).exit, 0);
    assert_eq!(repo.state()["control"]["stall_count"], stalled, "a stall is not forgotten");
    assert_eq!(repo.atoms(), "A1:in_progress A2:pending");
    assert!(repo.tree("A1-3").join("half").exists(), "and work under way stays");
    // Another one takes over: what was done is kept.
    assert_eq!(repo.step_in("another", &["run", "--session", "--take-over"]).exit, 0);
    assert_eq!(repo.atoms(), "A1:pending A2:pending");
    assert!(repo.git(&["for-each-ref", "refs/aot/kept/"]).contains("/A1/3"), "its work is kept");
}

#[test]
fn changes_of_the_plan_are_no_turn() {
    let repo = patient();
    let mut blocks = 0;
    while asks_for_coordinator(&repo.hook("stop", json!({}))) {
        blocks += 1;
        assert!(blocks < 8, "the host would have ended it");
        repo.step(&["atom", "add", &format!("More of it, {blocks}")]);
    }
    assert_eq!(repo.state()["control"]["status"], "stopped");
}

#[test]
fn a_turn_after_which_only_the_file_changes_opens_no_repository() {
    let repo = patient();
    let detach = || repo.git(&["checkout", "-q", "--detach"]);
    detach();
    assert_eq!(repo.turn("c1")["decision"], "block", "the next start says what is in the way");
    assert_eq!(repo.state()["control"]["iteration"], 1);
    repo.git(&["checkout", "-q", "main"]);
    repo.step(&["atom", "start", "A1"]);
    detach();
    assert_eq!(repo.turn("c1")["decision"], "block", "a result may still be handed in");
    let before = repo.state();
    let answer = repo.turn("c1");
    assert!(shown(&answer).contains("branch"), "its tree cannot be cleared: {answer}");
    assert_eq!(repo.state(), before);
}

#[test]
fn what_is_null_was_not_said() {
    let repo = begun(&atom("A1", "", ""));
    let stop = json!({"background_tasks": null, "agent_id": null, "prompt": null});
    assert!(asks_for_coordinator(&repo.hook("stop", stop)));
    let said = json!({
        "prompt": null, "agent_type": "aot:aot-probe", "tool_name": "Bash", "tool_input": {"command": "rm x"},
    });
    assert_eq!(repo.hook("pre-tool-use", said)["hookSpecificOutput"]["permissionDecision"], "deny");
}

#[test]
fn a_verb_that_would_find_another_loop_is_not_allowed() {
    let repo = begun(&atom("A1", "", ""));
    repo.write("sub/.claude/aot-loop-state.md", &repo.read(STATE));
    let ask = |cwd: &str| {
        let said =
            json!({"tool_name": "Bash", "tool_input": {"command": "aot verify"}, "cwd": repo.path(cwd)});
        repo.hook("pre-tool-use", said)["hookSpecificOutput"]["permissionDecision"].clone()
    };
    assert_eq!((ask("."), ask("sub")), (json!("allow"), Value::Null));
}

#[test]
fn completed_is_not_believed_without_a_note_either() {
    let repo = begun(&atom("A1", "", ""));
    let text = repo.read(STATE);
    repo.write(STATE, &text.replace("status: running", "status: completed"));
    std::fs::remove_file(repo.path(".claude/aot/session.json")).expect("it is there");
    let answer = repo.hook("stop", json!({}));
    assert!(asks_for_coordinator(&answer), "{answer}");
    assert_eq!(repo.state()["control"]["status"], "running");
}

fn worker_for(repo: &Repo, call: &str, tree: &str) -> Value {
    let prompt = format!("Solve it in {}; the brief tells more.", repo.tree(tree).display());
    let said = json!({
        "tool_name": "Agent", "tool_use_id": call, "agent_id": "c1", "agent_type": "aot:aot-coordinator",
        "tool_input": {"subagent_type": "aot:aot-worker", "prompt": prompt}, "cwd": repo.path("."),
    });
    repo.hook("pre-tool-use", said)["hookSpecificOutput"]["permissionDecision"].clone()
}

#[test]
fn one_worker_works_in_a_tree_at_a_time() {
    let repo = begun(&(atom("A1", "", "") + &atom("A2", "", "")));
    repo.step(&["atom", "start", "A1"]);
    repo.step(&["atom", "start", "A2"]);
    let returned = |call: &str, response: Value| {
        let said = json!({
            "tool_name": "Agent", "tool_use_id": call, "agent_id": "c1", "agent_type": "aot:aot-coordinator",
            "tool_response": response,
        });
        assert_eq!(repo.hook("post-tool-use", said), Value::Null);
    };
    let worker_ends = |agent: &str| {
        let good =
            json!({"success": true, "summary": "s", "artifacts": [], "reason": null, "too_large": false});
        let said = json!({"agent_type": "aot:aot-worker", "agent_id": agent, "last_assistant_message": good.to_string()});
        assert_eq!(repo.hook("subagent-stop", said), Value::Null);
    };
    assert_eq!(worker_for(&repo, "t1", "A1-1"), Value::Null);
    assert_eq!(worker_for(&repo, "t2", "A2-1"), Value::Null);
    assert_eq!(worker_for(&repo, "t3", "A1-1"), "deny", "it has one");
    assert_eq!(worker_for(&repo, "t4", "A9-1"), "deny", "that is nobody's");
    // One ran in the foreground and has answered, the other one goes on behind the coordinator.
    returned("t1", json!({"status": "completed", "agentId": "w1"}));
    returned("t2", json!({"isAsync": true, "status": "async_launched", "agentId": "w2"}));
    assert_eq!(worker_for(&repo, "t5", "A1-1"), Value::Null, "it may be sent back to mend");
    assert_eq!(worker_for(&repo, "t6", "A2-1"), "deny");
    worker_ends("w2");
    assert_eq!(worker_for(&repo, "t7", "A2-1"), Value::Null);
}

#[test]
fn a_coordinator_starts_no_coordinator() {
    let repo = begun(&atom("A1", "", ""));
    let asks = |agent: &str, role: &str| {
        let input = json!({"subagent_type": "aot:aot-coordinator", "prompt": "Go on with the loop."});
        repo.ruled(agent, role, "Agent", input)
    };
    assert_eq!((asks("c1", "coordinator"), asks("", "")), ("deny".into(), String::new()));
}

#[test]
fn the_coordinator_loads_what_the_plugin_teaches() {
    let repo = begun(&atom("A1", "", ""));
    let loads = |role: &str, skill: &str| repo.ruled("c1", role, "Skill", json!({"skill": skill}));
    assert_eq!(loads("coordinator", "aot:aot-dag"), "allow");
    assert_eq!(loads("coordinator", "other:deploy"), "deny");
    assert_eq!(loads("", "aot:aot-dag"), "");
    assert_eq!(loads("probe", "aot:aot-dag"), "deny");
}

#[test]
fn the_bound_and_the_first_look_are_shown_before_an_agent_starts() {
    let repo = begun(&atom("A1", "", ""));
    let answer = repo
        .hook("post-tool-use", json!({"tool_name": "Bash", "tool_input": {"command": "aot run --session"}}));
    assert!(
        shown(&answer).contains("at most ") && shown(&answer).contains("red now: a is there"),
        "{answer}"
    );
    assert!(context(&answer).is_empty(), "the model has read it");
    assert!(!shown(&answer).contains("shift+tab"), "{answer}");
    assert_eq!(
        repo.hook("post-tool-use", json!({"tool_name": "Bash", "tool_input": {}})),
        Value::Null,
        "once"
    );
}

#[test]
fn a_user_who_is_asked_before_edits_is_told_at_entry() {
    for (mode, told) in [("default", true), ("acceptEdits", false), ("bypassPermissions", false)] {
        let repo = begun(&atom("A1", "", ""));
        let command = json!({"command": "aot run --session"});
        let said = json!({"tool_name": "Bash", "tool_input": command, "permission_mode": mode});
        let answer = repo.hook("post-tool-use", said);
        assert_eq!(shown(&answer).contains("shift+tab accepts edits"), told, "{mode}: {answer}");
    }
}

#[test]
fn the_bound_at_the_second_entry_is_what_is_left() {
    let repo = begun(&atom("A1", "", ""));
    let runs = |said: crate::repo::Said| {
        let begun: Value = serde_json::from_str(&said.out).expect("JSON");
        begun["bound"]["agent_runs"].as_u64().expect("a number")
    };
    let first = runs(repo.step(&["run", "--session", "--json"]));
    repo.turn("c1");
    repo.turn("c1");
    repo.step(&["stop", "--now"]);
    let second = runs(repo.step(&["run", "--session", "--json"]));
    let turns = repo.state()["objective"]["constraints"]["max_iterations"].as_u64().expect("a limit");
    assert_eq!(second, first / turns * (turns - 2), "two of {turns} turns are over");
}

#[test]
fn each_iteration_is_told_once_in_a_line() {
    let ways = "  - {id: A1, description: \"One way\", status: pending, depends_on: [], or_group: way}\n  \
                - {id: A2, description: \"Another\", status: pending, depends_on: [], or_group: way}\n";
    let base = is_there("b");
    let plan = Plan {
        atoms: &(ways.to_owned() + &atom("A3", "", "")),
        or_groups: "  way: {choices: [A1, A2], selected: A1, failed: []}",
        base_case: &base,
        ..Plan::default()
    };
    let repo = Repo::with(&plan);
    repo.step(&["run", "--session"]);
    repo.hook("user-prompt-submit", json!({"prompt": "hello"}));
    repo.step(&["atom", "start", "A1"]);
    repo.step(&["atom", "start", "A3"]);
    repo.step(&["atom", "fail", "A1", "--reason", "it leads nowhere"]);
    repo.step(&["atom", "resolve", "A3", "--summary", "made"]);
    repo.turn("c1");
    let answer = repo.hook("post-tool-use", json!({"tool_name": "Agent"}));
    let line = shown(&answer);
    let told = "aot: iteration 1: A3 resolved; A1 failed; way switches to A2; 1 left, at most ";
    assert!(line.contains(told), "{told:?} is not in {line:?}");
    repo.turn("c1");
    let answer = repo.hook("stop", json!({}));
    assert!(shown(&answer).starts_with("aot: iteration 2: no progress (1 in a row); 1 left"), "{answer}");
}

#[test]
fn the_session_hears_the_verdict_with_the_answer_of_a_coordinator_in_the_foreground() {
    let repo = begun(&atom("A1", "", ""));
    repo.step(&["stop", "--now", "enough"]);
    assert_eq!(repo.turn("c1"), Value::Null);
    let answer =
        repo.hook("post-tool-use", json!({"tool_name": "Agent", "tool_response": {"status": "completed"}}));
    assert!(context(&answer).contains("is not completed: enough"), "{answer}");
    assert!(
        context(&answer).contains("/aot:enter-recursion") && !context(&answer).contains("aot run"),
        "{answer}"
    );
    assert!(shown(&answer).contains("is not completed: enough"), "{answer}");
    assert_eq!(repo.hook("stop", json!({})), Value::Null, "once");
}

#[test]
fn a_discarded_worker_delays_nothing() {
    let repo = begun(&(atom("A1", "", "") + &atom("A2", "", "")));
    repo.step(&["atom", "start", "A1"]);
    assert_eq!(repo.ruled("w1", "worker", "Bash", json!({"command": "aot atom brief A1"})), "allow");
    let running =
        json!([{"id": "w1", "type": "subagent", "status": "running", "agent_type": "aot:aot-worker"}]);
    let ends = || repo.hook("subagent-stop", coordinator(json!({"background_tasks": running})));
    assert_eq!(ends(), Value::Null, "its worker is waited for");
    repo.step(&["redirect", "--hold"]);
    repo.step(&["redirect", "--add", "One more"]);
    assert!(asks_for_coordinator(&repo.hook("stop", json!({"background_tasks": running}))));
    assert_eq!(ends()["decision"], "block", "the turn is judged");
}

#[test]
fn a_base_case_that_was_edited_is_found_at_the_next_step() {
    let repo = begun(&atom("A1", "", ""));
    let text = repo.read(STATE);
    repo.write(STATE, &text.replace("value: a}", "value: README}"));
    let said = repo.step(&["atom", "start", "A1"]);
    assert_ne!(said.exit, 0, "{}", said.out);
    let control = repo.state()["control"].clone();
    assert_eq!(control["status"], "stopped", "{control}");
    assert!(control["stop_reason"].as_str().is_some_and(|why| why.contains("tampered")), "{control}");
}

#[test]
fn time_binds_in_a_session_too() {
    let check = |limit: &str, time: &str| {
        let base = is_there("a");
        let constraints =
            format!("max_iterations: 9, max_parallel_agents: 2, max_stall_count: 3, {limit}: {time}");
        let repo = Repo::with(&Plan {
            atoms: &atom("A1", "", ""),
            base_case: &base,
            constraints: &constraints,
            ..Plan::default()
        });
        repo.step(&["run", "--session"]);
        repo.step(&["atom", "start", "A1"]);
        let asks = || repo.ruled("w1", "worker", "Bash", json!({"command": "aot atom brief A1"}));
        let began = std::time::Instant::now();
        // The time is used up while a worker works: some hook of it is the first to see it. On a busy machine it may be used
        // up before the worker begins.
        while repo.state()["control"]["status"] == "running" && asks() == "allow" {
            assert!(began.elapsed() < crate::repo::LONG, "{limit} never ends");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        (asks() == "deny", repo)
    };
    let (is_denied, repo) = check("agent_timeout", "1s");
    assert!(is_denied);
    assert_eq!(repo.atoms(), "A1:pending");
    assert!(repo.state()["trail"][0]["reason"].as_str().is_some_and(|why| why.contains("time is used up")));
    assert_eq!(repo.state()["control"]["status"], "running");
    let (_, repo) = check("max_wall_time", "4s");
    let control = repo.state()["control"].clone();
    assert_eq!(control["status"], "stopped", "{control}");
    assert!(repo.told_at_the_end().contains("/aot:redirect raise max_wall_time"));
}
