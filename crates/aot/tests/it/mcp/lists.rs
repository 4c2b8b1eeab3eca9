//! What the server offers: tools, resources, prompts.

use std::path::Path;

use serde_json::{Value, json};

use super::kit::Client;
use crate::repo::{Plan, Repo, STATE};
use crate::schemas::check_tool_schema;

fn names(all: &Value) -> Vec<&str> {
    all.as_array().expect("a list").iter().map(|one| one["name"].as_str().expect("a name")).collect()
}

#[test]
fn tools_say_what_they_are_and_what_they_take() {
    let repo = Repo::with(&Plan::default());
    let mut client = Client::silent(&repo, |_| {});
    let hello = client.greet();
    assert_eq!(hello["serverInfo"]["name"], "aot");
    assert_eq!(hello["protocolVersion"], "2025-06-18");
    for capability in ["tools", "resources", "prompts"] {
        assert!(hello["capabilities"][capability].is_object(), "{hello}");
    }
    assert!(hello["instructions"].as_str().is_some_and(|text| text.contains("`enter`")), "{hello}");
    let tools = client.ask("tools/list", json!({}))["tools"].clone();
    let tools_of = |hint: &str, value: bool| -> Vec<&str> {
        let all = tools.as_array().expect("a list").iter();
        let wanted = all.filter(|tool| tool["annotations"][hint] == value);
        wanted.map(|tool| tool["name"].as_str().expect("a name")).collect()
    };
    let looks = ["status", "ready", "show", "graph", "log", "validate", "gate", "atom_brief", "rest"];
    let undoes = ["align", "stop", "redirect", "atom_fail", "atom_withdraw", "atom_remove", "or_switch"];
    let steps =
        ["judge", "enter", "turn", "atom_add", "atom_start", "atom_resolve", "atom_decompose", "or_add"];
    let runs = ["lint", "verify"];
    assert_eq!(names(&tools).len(), looks.len() + undoes.len() + steps.len() + runs.len());
    assert_eq!(tools_of("readOnlyHint", true), looks);
    assert_eq!(tools_of("destructiveHint", true), undoes);
    assert_eq!(tools_of("openWorldHint", true), [""; 0]);
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/mcp.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    for name in names(&tools) {
        assert!(guide.contains(&format!("`{name}`")), "the guide does not know {name}");
    }
    for (name, tool) in names(&tools).iter().zip(tools.as_array().expect("a list")) {
        for key in ["title", "description"] {
            assert!(tool[key].as_str().is_some_and(|text| !text.is_empty()), "{name} has no {key}");
        }
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{name}: {hint}");
        }
        let schema = &tool["inputSchema"];
        assert_eq!(check_tool_schema(schema, name), Ok(()), "{schema}");
        assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)));
        for (field, shape) in schema["properties"].as_object().expect("an object") {
            assert!(shape["description"].is_string(), "{name}: {field} has no description");
        }
    }
    assert_eq!(client.end(), 0);
}

#[test]
fn the_state_and_the_graph_can_be_read() {
    let repo = Repo::with(&Plan::default());
    let mut client = Client::of(&repo);
    let all = client.ask("resources/list", json!({}))["resources"].clone();
    assert_eq!(names(&all), ["state", "graph", "status"]);
    let mut read = |uri: &str| client.ask("resources/read", json!({ "uri": uri }))["contents"][0].clone();
    let state = read("aot://state");
    assert_eq!((&state["mimeType"], &state["text"]), (&json!("text/markdown"), &json!(repo.read(STATE))));
    let graph = read("aot://graph");
    assert!(graph["text"].as_str().is_some_and(|text| text.contains("A1")), "{graph}");
    let status = read("aot://status");
    let status: Value = serde_json::from_str(status["text"].as_str().expect("a text")).expect("JSON");
    assert_eq!(status["status"], "pending");
    let id = client.send("resources/read", json!({"uri": "aot://nothing"}));
    let answer = client.answer(id);
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("aot://state")), "{answer}");
}

#[test]
fn the_four_commands_are_prompts() {
    let repo = Repo::with(&Plan::default());
    let mut client = Client::of(&repo);
    let all = client.ask("prompts/list", json!({}))["prompts"].clone();
    assert_eq!(names(&all), ["align-goal", "enter-recursion", "exit-recursion", "redirect"]);
    let tools = client.ask("tools/list", json!({}))["tools"].clone();
    for prompt in all.as_array().expect("a list") {
        let argument = &prompt["arguments"][0];
        assert_eq!(argument["required"], false);
        let said = json!({(argument["name"].as_str().expect("a name")): "something of mine"});
        let wanted = json!({"name": prompt["name"], "arguments": said});
        let got = client.ask("prompts/get", wanted);
        let text = got["messages"][0]["content"]["text"].as_str().expect("a text").to_owned();
        assert!(text.starts_with("The user said: something of mine"), "{text}");
        let bare = client.ask("prompts/get", json!({"name": prompt["name"]}));
        let bare = bare["messages"][0]["content"]["text"].as_str().expect("a text");
        assert!(text.ends_with(bare), "{bare}");
        assert!(names(&tools).iter().any(|tool| text.contains(&format!("`{tool}`"))), "{text}");
    }
    let id = client.send("prompts/get", json!({"name": "help"}));
    let answer = client.answer(id);
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("align-goal")), "{answer}");
}

#[test]
fn nonsense_ends_nothing() {
    let repo = Repo::with(&Plan::default());
    let mut client = Client::silent(&repo, |_| {});
    let odd = [
        "",
        "nonsense",
        "[]",
        "{}",
        r#"{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}"#,
        r#"{"jsonrpc": "2.0", "id": 77, "result": {}}"#,
        "\u{0}\u{ff}",
    ];
    odd.iter().for_each(|line| client.say(line));
    client.greet();
    odd.iter().for_each(|line| client.say(line));
    let id = client.send("no/such/thing", json!({}));
    assert!(client.answer(id)["error"].is_object());
    let id = client.call_later("no_such_tool", json!({}));
    let answer = client.answer(id);
    assert!(
        answer["error"]["message"].as_str().is_some_and(|text| text.contains("no_such_tool")),
        "{answer}"
    );
    assert_eq!(client.done("status", json!({}))["status"], "pending");
    assert_eq!(client.end(), 0);
}
