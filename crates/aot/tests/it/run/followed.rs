//! A run that is looked at from outside: the page that is shown again, the log that is followed, and the live record behind
//! both.

use std::fs;

use serde_json::{Value, json};

use super::traces::spans;
use crate::repo::{Plan, Repo, check};

/// A loop whose agent says what it does, something else as soon as there is a file `next`, and waits for the file `go` before
/// it is done.
pub fn with_agent() -> Repo {
    let repo = Repo::with(&Plan {
        atoms: "  - {id: A1, description: \"One\", status: pending, depends_on: []}\n",
        base_case: &check("test -f one"),
        ..Plan::default()
    });
    let (go, next) = (repo.path("go"), repo.path("next"));
    let agent = format!(
        "#!/bin/sh\ncat > /dev/null\necho '{{\"type\": \"tool\", \"name\": \"reads \\u001b[31mred.txt\"}}'\n\
         told=\nuntil test -f {go:?}; do\n\
         if test -z \"$told\" && test -f {next:?}; then told=1; echo '{{\"type\": \"tool\", \"name\": \"writes blue.txt\"}}'; fi\n\
         sleep 0.02\ndone\necho one > one\n\
         echo '{{\"type\": \"end\", \"result\": {{\"success\": true, \"summary\": \"It is there\", \"artifacts\": [\"one\"], \
         \"reason\": null, \"too_large\": false}}}}'\n"
    );
    repo.write("agent.sh", &agent);
    std::process::Command::new("chmod").arg("+x").arg(repo.path("agent.sh")).status().expect("chmod is here");
    let settings = "[agents]\nworker = \"own\"\nprobe = \"none\"\ncoordinator = \"none\"\n[agent.own]\nprogram = \"./agent.sh\"\n\
         input = \"prompt\"\nanswer = \"event\"\ntry_first = false\n[[agent.own.events]]\nwhen = { type = \"end\" }\nanswer = \"result\"\n\
         [[agent.own.events]]\nwhen = { type = \"tool\" }\ndoing = [\"name\"]\n";
    repo.write("aot.toml", settings);
    repo.git(&["add", "agent.sh", "aot.toml"]);
    repo.git(&["commit", "-qm", "An agent"]);
    repo
}

#[test]
fn what_agents_do_now_is_seen_from_another_terminal() {
    let repo = with_agent();
    let mut watched = repo.start(&["status", "--watch", "--json"]);
    watched.hear("\"pending\"");
    let mut followed = repo.start(&["log", "--follow"]);
    let mut of_atom = repo.start(&["log", "A1", "--follow", "--json"]);
    of_atom.hear("entries");
    let mut run = repo.start(&["run", "--json"]);
    run.hear("\"doing\"");
    watched.hear("reads red.txt");
    of_atom.hear("reads red.txt");
    followed.hear("A1 starts in iteration 1");
    let status = repo.aot(&["status"]).out;
    assert!(status.contains("A1: reads red.txt"), "{status}");
    let status: Value = serde_json::from_str(&repo.aot(&["status", "--json"]).out).expect("JSON");
    assert_eq!(status["at_work"][0]["doing"], json!("reads red.txt"));
    repo.write("go", "");
    assert_eq!(run.end().exit, 0);
    watched.hear("\"completed\"");
    followed.hear("A1 is resolved");
    let status: Value = serde_json::from_str(&repo.aot(&["status", "--json"]).out).expect("JSON");
    assert_eq!(status["at_work"], json!([]), "nothing is at work any more");
    // The run of the agent is a span below the attempt, named as the conventions say.
    let otlp: Value = serde_json::from_str(&repo.aot(&["log", "--otlp", "-"]).out).expect("JSON");
    let spans = spans(&otlp);
    let asked = spans.iter().find(|span| span["name"] == "invoke_agent own").expect("a span of the agent");
    let told = asked["attributes"].to_string();
    assert!(told.contains("gen_ai.operation.name") && told.contains("gen_ai.agent.name"), "{told}");
    let attempt = spans.iter().find(|span| span["spanId"] == asked["parentSpanId"]).expect("its parent");
    assert_eq!(attempt["name"], "A1");
    // The same objects as in the run's own output, between a beginning and an end.
    let record = fs::read_to_string(repo.path(".claude/aot/live.jsonl")).expect("a live record");
    let types: Vec<String> = record
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).expect("JSON")["type"].as_str().expect("a type").to_owned()
        })
        .collect();
    assert_eq!((types[0].as_str(), types[types.len() - 1].as_str()), ("began", "halted"));
    assert_eq!(types.iter().filter(|kind| *kind == "doing").count(), 1, "{types:?}");
    for mut follower in [watched, followed, of_atom] {
        follower.child.kill().expect("it follows until it is ended");
        follower.child.wait().expect("it ends");
    }
}

/// `aot log --follow | head -n 1` ends.
#[test]
fn what_follows_a_loop_ends_with_its_reader() {
    let repo = Repo::with(&Plan::default());
    for words in ["log --follow", "status --watch", "status --watch --json"] {
        let plain = repo.command(&[]);
        let mut command = std::process::Command::new("timeout");
        let line = format!("{} {words} | head -n 1", plain.get_program().display());
        command.args(["60", "sh", "-c", &line]).current_dir(repo.path(""));
        for (name, value) in plain.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let done = command.output().expect("timeout is here");
        assert!(done.status.success() && !done.stdout.is_empty(), "{words}: {done:?}");
    }
}
