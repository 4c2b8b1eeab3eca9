//! Calls that run side by side, are cancelled, or end with their server; and what becomes of the loop then.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::kit::Client;
use crate::repo::{Plan, Repo, check};
use crate::scene::{atom, file, wait_until};

/// A base case that never ends by itself, and leaves somebody in a session of their own.
fn endless() -> Repo {
    let atoms = atom("A1", "", &file("a"));
    Repo::with(&Plan {
        atoms: &atoms,
        base_case: &check("setsid -f sleep 4711; sleep 4711"),
        ..Plan::default()
    })
}

fn sleepers(repo: &Repo) -> usize {
    repo.processes().iter().filter(|(_, words)| words.contains("sleep 4711")).count()
}

/// A verification that runs, and its number.
fn verifying(client: &mut Client, repo: &Repo) -> u64 {
    let id = client.call_later("verify", json!({}));
    wait_until("the check runs", || sleepers(repo) >= 2);
    id
}

fn session(repo: &Repo) -> Value {
    repo.state()["control"]["session"].clone()
}

/// A loop that goes on, with an atom of which nobody has handed anything in.
fn entered(dress: impl FnOnce(&mut Command)) -> (Repo, Client) {
    let repo = Repo::with(&Plan { atoms: &atom("A1", "", &file("a")), ..Plan::default() });
    let mut client = Client::with(&repo, dress);
    client.done("enter", json!({}));
    client.done("atom_start", json!({"atom": "A1"}));
    (repo, client)
}

#[test]
fn calls_run_side_by_side_and_a_cancelled_one_is_ended() {
    let repo = endless();
    let mut client = Client::of(&repo);
    let long = verifying(&mut client, &repo);
    let asked: Vec<u64> = (0..8).map(|_| client.call_later("status", json!({}))).collect();
    for id in asked.into_iter().rev() {
        assert_eq!(client.answer(id)["result"]["structuredContent"]["status"], "pending");
    }
    let cancel = json!({"requestId": long, "reason": "the user"});
    client.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}).to_string());
    wait_until("nobody is left", || sleepers(&repo) == 0);
    assert_eq!(client.done("status", json!({}))["status"], "pending");
    assert!(!client.is_answered(long, Duration::from_millis(200)), "nobody waits for it any more");
    assert_eq!(client.end(), 0);
}

#[test]
fn what_runs_ends_with_its_server() {
    for how in ["end", "-TERM", "-KILL"] {
        let repo = endless();
        let mut client = Client::of(&repo);
        verifying(&mut client, &repo);
        match how {
            "end" => drop(client.child.stdin.take()),
            signal => {
                let pid = client.child.id().to_string();
                assert!(Command::new("kill").args([signal, &pid]).status().expect("kill is here").success());
            }
        }
        assert_eq!(client.gone(), if how == "-KILL" { -1 } else { 0 }, "{how}");
        wait_until("nobody is left", || sleepers(&repo) == 0 && repo.processes().is_empty());
    }
}

#[test]
fn a_session_of_its_own_leaves_the_loop() {
    let (repo, client) = entered(|_| {});
    assert!(session(&repo).is_string());
    assert_eq!(client.end(), 0);
    assert_eq!((session(&repo), &repo.state()["control"]["status"]), (Value::Null, &json!("running")));
    // The next one goes on, and begins anew what was in progress.
    let mut next = Client::of(&repo);
    next.done("enter", json!({}));
    assert_eq!(next.done("ready", json!({}))["atoms"], json!(["A1"]));
    let pid = next.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill is here").success());
    assert_eq!(next.gone(), 0);
    assert_eq!(session(&repo), Value::Null);
}

#[test]
fn a_session_of_somebody_else_keeps_it() {
    for name in ["AOT_SESSION", "CLAUDE_CODE_SESSION_ID"] {
        let (repo, client) = entered(|command| {
            command.env(name, "theirs");
        });
        assert_eq!(session(&repo), "theirs");
        assert_eq!(client.end(), 0);
        assert_eq!(session(&repo), "theirs");
    }
    let (repo, client) = entered(|command| {
        command.args(["--session", "named"]).env("AOT_SESSION", "theirs");
    });
    assert_eq!(client.end(), 0);
    assert_eq!(session(&repo), "named");
}

#[test]
fn a_server_that_is_killed_leaves_a_loop_to_be_taken_over() {
    let (repo, mut client) = entered(|_| {});
    client.child.kill().expect("it lives");
    client.gone();
    let mut next = Client::of(&repo);
    assert_eq!(next.refused("enter", json!({})).0, "owned");
    next.done("enter", json!({"take_over": true}));
    assert_eq!(next.end(), 0);
    assert_eq!(session(&repo), Value::Null);
}

#[test]
fn another_state_file_is_another_loop() {
    let repo = Repo::with(&Plan::default());
    let text = repo.read(crate::repo::STATE).replace("Let the numbers be there", "Something else");
    repo.write("elsewhere/state.md", &text);
    let mut client = Client::with(&repo, |command| {
        command.args(["--state", "elsewhere/state.md"]);
    });
    assert_eq!(client.done("show", json!({"section": "objective"}))["objective"]["goal"], "Something else");
    let state = client.ask("resources/read", json!({"uri": "aot://state"}));
    assert_eq!(state["contents"][0]["text"], text);
    assert_eq!(client.end(), 0);
}
