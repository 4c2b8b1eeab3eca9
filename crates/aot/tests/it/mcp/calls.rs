//! Each tool against a real loop: what it does, what it refuses, and what it says then.

use std::fs;

use serde_json::{Value, json};

use super::kit::Client;
use crate::repo::{Plan, Repo, STATE};
use crate::scene::{atom, file, is_there};

fn two() -> Repo {
    let atoms = atom("A1", "", &file("a")) + &atom("A2", "A1", &file("b"));
    let base = is_there("a") + &is_there("b");
    Repo::with(&Plan { atoms: &atoms, base_case: &base, ..Plan::default() })
}

fn control(repo: &Repo) -> Value {
    repo.state()["control"].clone()
}

/// Writes into the folder that a start has named.
fn work(started: &Value, path: &str) {
    let tree = started["tree"].as_str().expect("a folder");
    fs::write(format!("{tree}/{path}"), path).expect("a file");
}

#[test]
fn a_session_takes_a_loop_to_its_end() {
    let repo = two();
    let mut client = Client::of(&repo);
    let entered = client.done("enter", json!({}));
    assert!(entered["session"].as_str().is_some_and(|id| id.starts_with("mcp-")), "{entered}");
    assert!(entered["next"].as_str().is_some_and(|next| next.contains("call `turn`")), "{entered}");
    assert_eq!(control(&repo)["session"], entered["session"]);
    assert_eq!(client.done("ready", json!({}))["atoms"], json!(["A1"]));
    let started = client.done("atom_start", json!({"atom": "A1"}));
    let brief = client.done("atom_brief", json!({"atom": "A1"}));
    assert!(started["brief"].as_str().is_some_and(|brief| brief.contains("solve A1")), "{started}");
    assert!(
        started["brief"].as_str().is_some_and(|brief| brief.contains("call `atom_resolve`")),
        "{started}"
    );
    assert_eq!((&started["brief"], &started["tree"]), (&brief["brief"], &brief["tree"]));
    // A word resolves nothing.
    let (code, text) = client.refused("atom_resolve", json!({"atom": "A1", "summary": "a is made"}));
    assert_eq!(code, "check_failed");
    assert!(text.contains("A1 is not resolved: its check failed") && text.contains("2 left"), "{text}");
    work(&started, "a");
    let resolved =
        client.done("atom_resolve", json!({"atom": "A1", "summary": "--a is made", "artifacts": ["-a"]}));
    assert_eq!(resolved["resolved"], json!(["A1"]));
    assert_eq!(repo.landed("main"), "A1");
    assert_eq!(repo.state()["bindings"]["A1"]["summary"], "--a is made");
    let next = client.done("turn", json!({}));
    assert_eq!(next["halted"], Value::Null);
    assert!(next["next"].as_str().is_some_and(|next| next.contains("A2: Make A2")), "{next}");
    let started = client.done("atom_start", json!({"atom": "A2"}));
    work(&started, "b");
    client.done("atom_resolve", json!({"atom": "A2", "summary": "b is made"}));
    let end = client.done("turn", json!({}));
    assert_eq!(end["halted"]["exit"], 0, "{end}");
    assert!(end["told"].as_str().is_some_and(|told| told.contains("COMPLETED")), "{end}");
    assert_eq!(control(&repo)["status"], "completed");
    assert_eq!(repo.landed("main"), "A1 A2");
    let (code, text) = client.refused("turn", json!({}));
    assert_eq!(code, "at_rest");
    assert!(text.contains("`enter` takes it up again"), "{text}");
    assert_eq!(client.end(), 0);
    assert_eq!(repo.leftovers(), [""; 0]);
}

#[test]
fn questions_are_answered() {
    let repo = two();
    let mut client = Client::of(&repo);
    assert_eq!(client.done("status", json!({}))["status"], "pending");
    assert_eq!(client.done("gate", json!({}))["ready"], true);
    assert_eq!(client.done("validate", json!({}))["valid"], true);
    assert!(client.done("lint", json!({"no_run": true}))["findings"].is_array());
    // No is an answer.
    let seen = client.done("verify", json!({"fresh": true}));
    assert_eq!((&seen["passed"], &seen["checks"][0]["outcome"]), (&json!(false), &json!("fail")));
    let graph = client.done("graph", json!({}));
    assert!(graph["graph"].as_str().is_some_and(|text| text.contains("Make A2")), "{graph}");
    assert_eq!(client.done("show", json!({}))["atoms"][1]["id"], "A2");
    assert_eq!(client.done("show", json!({"section": "control"}))["control"]["status"], "pending");
    let page = client.done("show", json!({"section": "atoms", "from": 1}));
    assert_eq!((&page["atoms"][0]["id"], &page["total"]), (&json!("A2"), &json!(2)));
    let one = client.done("show", json!({"atom": "A1"}));
    assert_eq!((&one["atom"]["id"], &one["needed_by"]), (&json!("A1"), &json!(["A2"])));
    assert_eq!(client.refused("show", json!({"atom": "A9"})).0, "unknown_atom");
    client.done("atom_add", json!({"description": "More"}));
    let log = client.done("log", json!({"number": 1}));
    assert_eq!(log["entries"].as_array().expect("a list").len(), 1);
    assert!(client.done("log", json!({"atom": "A3"}))["entries"][0]["changes"].is_array());
    repo.write(STATE, "---\nnothing\n---\n");
    assert_eq!(client.done("validate", json!({}))["valid"], false);
    let (code, text) = client.refused("status", json!({}));
    assert_eq!(code, "unreadable");
    assert!(text.contains("validate"), "{text}");
}

#[test]
fn the_graph_is_changed_by_rules() {
    let repo = two();
    let mut client = Client::of(&repo);
    let odd = json!({
        "description": "--run nothing", "depends_on": ["A2"], "check": "-x || true", "id": "A3",
    });
    assert_eq!(client.done("atom_add", odd)["id"], "A3");
    let state = repo.state();
    assert_eq!(state["atoms"][2]["description"], "--run nothing");
    assert_eq!(state["atoms"][2]["check"]["value"], "-x || true");
    for id in ["A4", "A5"] {
        client.done("atom_add", json!({"description": id, "id": id, "or_group": null}));
    }
    assert_eq!(client.done("or_add", json!({"group": "way", "choices": ["A4", "A5"]}))["selected"], "A4");
    let switched = client.done("or_switch", json!({"group": "way", "choice": "A5", "reason": "--why not"}));
    assert_eq!(switched["selected"], "A5");
    let children = json!([
        {"description": "- one", "check": "true"},
        {"description": "two", "depends_on": ["A1"], "run": "echo two"},
    ]);
    let cut = client.done("atom_decompose", json!({"atom": "A2", "children": children, "reason": "-"}));
    assert_eq!(cut["children"].as_array().expect("a list").len(), 2);
    let first = cut["children"][0].as_str().expect("an id");
    assert_eq!(client.done("show", json!({"atom": first}))["atom"]["description"], "- one");
    assert_eq!(client.done("atom_remove", json!({"atom": "A3"}))["removed"], "A3");
    let before = repo.read(STATE);
    for (tool, arguments, code) in [
        ("atom_start", json!({"atom": "A99"}), "unknown_atom"),
        ("atom_resolve", json!({"atom": "A1", "summary": "x"}), "wrong_status"),
        ("atom_resolve", json!({"atom": "A1", "summary": " "}), "input"),
        ("atom_remove", json!({"atom": "A1"}), "needed"),
        ("or_switch", json!({"group": "none", "choice": "A5", "reason": "r"}), "unknown_group"),
        ("atom_start", json!({"atom": "--help"}), "unknown_atom"),
        ("atom_start", json!({"id": "A1"}), "usage"),
        ("atom_start", json!({"atom": 1}), "usage"),
        ("atom_start", json!({}), "usage"),
        ("atom_add", json!({"description": "a\u{0}b"}), "world"),
    ] {
        let (found, text) = client.refused(tool, arguments.clone());
        assert_eq!(found, code, "{tool} {arguments}: {text}");
    }
    assert_eq!(repo.read(STATE), before);
    assert_eq!(client.end(), 0);
}

#[test]
fn steps_fail_stop_and_are_redirected() {
    let repo = two();
    let mut client = Client::of(&repo);
    client.done("enter", json!({}));
    client.done("atom_start", json!({"atom": "A1"}));
    let failed = client.done("atom_fail", json!({"atom": "A1", "reason": "--cannot be done"}));
    assert_eq!(failed["fallout"], "retry");
    assert_eq!(repo.state()["trail"][0]["reason"], "--cannot be done");
    let held = client.done("redirect", json!({"hold": true}));
    assert_eq!(held["held"], true);
    let next = client.done("turn", json!({}));
    assert!(next["next"].as_str().is_some_and(|next| next.contains("held for a redirect")), "{next}");
    assert_eq!(client.done("redirect", json!({"cancel": true}))["cancelled"], true);
    let more = json!({
        "reason": "- because", "goal": "-Other numbers", "add": [{"description": "-More", "depends_on": ["A1"]}],
        "depends": [{"atom": "A2", "depends_on": []}], "set": {"max_iterations": "30", "max_wall_time": "2h"},
        "protect": ["tests/**"],
        "base_case": {"checklist": [{"item": "a: is", "check": {"type": "command", "value": "test -f a # \"x\""}}]},
    });
    let made = client.done("redirect", more);
    assert!(made["corrections"].as_array().expect("a list").len() >= 5, "{made}");
    let state = repo.state();
    assert_eq!(state["objective"]["goal"], "-Other numbers");
    assert_eq!(state["objective"]["constraints"]["max_iterations"], 30);
    assert_eq!(state["objective"]["base_case"]["checklist"][0]["check"]["value"], "test -f a # \"x\"");
    assert_eq!(
        (&state["atoms"][1]["depends_on"], &state["atoms"][2]["description"]),
        (&json!([]), &json!("-More"))
    );
    // Only a person accepts what was changed.
    assert_eq!(client.refused("redirect", json!({"accept": true})).0, "usage");
    assert_eq!(client.refused("redirect", json!({})).0, "input");
    client.done("enter", json!({}));
    let started = client.done("atom_start", json!({"atom": "A1"}));
    work(&started, "a");
    client.done("atom_resolve", json!({"atom": "A1", "summary": "made"}));
    let again = json!({"rebind": [{"atom": "A1", "summary": "-made otherwise"}]});
    client.done("redirect", again);
    assert_eq!(repo.state()["bindings"]["A1"]["summary"], "-made otherwise");
    client.done("enter", json!({}));
    let stopped = client.done("stop", json!({"reason": "--enough", "now": true}));
    assert_eq!(stopped["stopping"], true);
    assert_eq!(control(&repo)["stop_reason"], "--enough");
    assert_eq!(client.end(), 0);
}

#[test]
fn without_a_loop_a_goal_is_agreed_on() {
    let repo = Repo::with(&Plan::default());
    fs::remove_file(repo.path(STATE)).expect("it was there");
    let mut client = Client::of(&repo);
    for tool in ["status", "ready", "show", "graph", "log", "validate", "verify", "enter", "turn", "stop"] {
        let (code, text) = client.refused(tool, json!({}));
        assert_eq!(code, "no_state_file", "{tool}: {text}");
        assert!(text.contains("call `align`"), "{tool}: {text}");
    }
    assert_eq!(client.done("gate", json!({}))["ready"], false);
    for uri in ["aot://state", "aot://graph", "aot://status"] {
        let id = client.send("resources/read", json!({ "uri": uri }));
        let answer = client.answer(id);
        assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("`align`")), "{answer}");
    }
    let mut agreement = json!({
        "request": "--a thing, please", "goal": "-There is a thing", "intent": "-why", "deliverable": ["-one", "two"],
        "done": "-done", "check": ["test -f a"], "not_file": ["b"], "assert": ["-It is good"],
        "atom": [{"description": "-Make a", "check": "test -f a"}, {"description": "Look at it", "depends_on": ["A1"]}],
        "protect": ["tests/**"], "exclude": ["-all else"], "set": {"max_iterations": 7},
    });
    client.done("align", agreement.clone());
    let state = repo.state();
    assert_eq!(state["objective"]["goal"], "-There is a thing");
    assert_eq!(state["objective"]["constraints"]["max_iterations"], 7);
    assert_eq!(state["atoms"][0]["description"], "-Make a");
    assert_eq!(state["atoms"][1]["depends_on"], json!(["A1"]));
    assert!(repo.read(STATE).contains("--a thing, please"));
    assert_eq!(client.done("gate", json!({}))["ready"], true);
    assert_eq!(client.refused("align", agreement.clone()).0, "file");
    agreement["force"] = json!(true);
    assert!(client.done("align", agreement)["backup"].is_string());
    assert_eq!(client.end(), 0);
}

#[test]
fn another_sessions_loop_is_left_alone() {
    let repo = two();
    assert_eq!(repo.aot(&["run", "--session", "other"]).exit, 0);
    let mut client = Client::of(&repo);
    for (tool, arguments) in
        [("enter", json!({})), ("turn", json!({})), ("atom_start", json!({"atom": "A1"}))]
    {
        let (code, text) = client.refused(tool, arguments);
        assert_eq!(code, "owned");
        assert!(text.contains("`take_over`"), "{text}");
    }
    client.done("enter", json!({"take_over": true}));
    assert_eq!(control(&repo)["session"].as_str().map(|id| &id[..4]), Some("mcp-"));
    assert_eq!(client.end(), 0);
}

#[test]
fn a_part_of_a_loop_may_only_look() {
    let repo = two();
    let mut client = Client::with(&repo, |command| {
        command.env("AOT_JOB", "1-2-3");
    });
    assert_eq!(client.done("status", json!({}))["status"], "pending");
    for (tool, arguments) in [
        ("atom_add", json!({"description": "More"})),
        ("enter", json!({})),
        ("turn", json!({})),
        ("stop", json!({})),
        ("redirect", json!({"goal": "x"})),
        ("atom_resolve", json!({"atom": "A1", "summary": "x"})),
    ] {
        assert_eq!(client.refused(tool, arguments).0, "not_a_person", "{tool}");
    }
    assert_eq!(client.end(), 0);
}

#[test]
fn a_large_state_does_not_drown_whoever_asks() {
    let atoms: String = (1..=10_000).map(|id| atom(&format!("A{id}"), "", "")).collect();
    let repo = Repo::bare(&Plan { atoms: &atoms, ..Plan::default() });
    let mut client = Client::of(&repo);
    for (tool, arguments) in [
        ("show", json!({})),
        ("show", json!({"section": "atoms"})),
        ("show", json!({"section": "atoms", "from": 9_990})),
        ("show", json!({"atom": "A777"})),
        ("ready", json!({})),
        ("graph", json!({})),
        ("status", json!({})),
    ] {
        let result = client.call(tool, arguments.clone());
        assert_eq!(result["isError"], false, "{result}");
        let (text, object) = (&result["content"][0]["text"], &result["structuredContent"]);
        let lengths = (text.as_str().expect("a text").len(), object.to_string().len());
        assert!(lengths.0 <= 41_000 && lengths.1 <= 41_000, "{tool} {arguments}: {lengths:?}");
    }
    let whole = client.done("show", json!({}));
    assert_eq!(whole["cut"]["atoms"]["of"], 10_000);
    assert_eq!(whole["objective"]["goal"], "Let the numbers be there");
    let last = client.done("show", json!({"section": "atoms", "from": 9_990}));
    assert_eq!((last["atoms"].as_array().map(Vec::len), &last["next_from"]), (Some(10), &Value::Null));
    assert_eq!(client.end(), 0);
}

/// A request that is too long is answered, and so is the next one.
#[test]
fn a_request_that_is_too_long_is_answered_with_an_error() {
    let repo = Repo::with(&Plan::default());
    let mut client = Client::of(&repo);
    for length in [9 << 20, 30 << 20] {
        let arguments = json!({"description": "x".repeat(length)});
        let id = client.send("tools/call", json!({"name": "atom_add", "arguments": arguments}));
        let answer = client.answer(id);
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("longer than 8388608 bytes"), "{length}: {answer}");
    }
    assert!(client.ask("tools/list", json!({}))["tools"].is_array());
    assert!(!repo.read(".claude/aot-loop-state.md").contains("xxx"));
}

#[test]
fn a_long_call_tells_that_it_is_under_way() {
    let check = "      - {item: \"It comes\", check: {type: command, value: \"until test -e go; do sleep 0.05; done\"}}\n";
    let repo = Repo::with(&Plan { base_case: check, ..Plan::default() });
    let mut client = Client::of(&repo);
    let meta = json!({"progressToken": "t1"});
    let call = client.send("tools/call", json!({"name": "verify", "arguments": {}, "_meta": meta}));
    let told = client.notification("notifications/progress");
    assert_eq!(told["params"]["progressToken"], "t1", "{told}");
    let message = told["params"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.starts_with("verify has been running for "), "{told}");
    assert!(
        client.notification("notifications/progress")["params"]["progress"].as_f64()
            > told["params"]["progress"].as_f64()
    );
    repo.write("go", "");
    assert_eq!(client.answer(call)["result"]["structuredContent"]["passed"], true);
    // Nobody is told who did not ask.
    fs::remove_file(repo.path("go")).expect("it was there");
    let call = client.call_later("verify", json!({"fresh": true}));
    assert!(!client.is_answered(call, std::time::Duration::from_secs(3)));
    assert!(!client.has_heard("notifications/progress"));
    repo.write("go", "");
    client.answer(call);
}

#[test]
fn the_rest_of_a_long_answer_is_had_in_parts() {
    let atoms: String = (1..=900).map(|n| atom(&format!("A{n}"), "", &file("a"))).collect();
    let base = is_there("a");
    let repo = Repo::with(&Plan { atoms: &atoms, base_case: &base, ..Plan::default() });
    let mut client = Client::of(&repo);
    let shown = client.done("show", json!({}));
    let cut = &shown["cut"]["atoms"];
    assert!(cut["shown"].as_u64() < cut["of"].as_u64() && cut["of"] == 900, "{}", shown["cut"]);
    let hint = shown["cut"]["hint"].as_str().expect("a hint").to_owned();
    let number: u64 = hint
        .split("`answer` ")
        .nth(1)
        .and_then(|rest| rest.split(',').next()?.parse().ok())
        .expect("a number");
    let mut ids: Vec<Value> =
        shown["atoms"].as_array().expect("a list").iter().map(|one| one["id"].clone()).collect();
    let mut from = cut["shown"].clone();
    while !from.is_null() {
        let part = client.done("rest", json!({"answer": number, "field": "atoms", "from": from}));
        ids.extend(part["atoms"].as_array().expect("a list").iter().map(|one| one["id"].clone()));
        from = part["next"].clone();
    }
    let all: Vec<Value> = (1..=900).map(|n| json!(format!("A{n}"))).collect();
    assert_eq!(ids, all);
    assert_eq!(client.refused("rest", json!({"answer": 99, "field": "atoms", "from": 0})).0, "no_rest");
}
