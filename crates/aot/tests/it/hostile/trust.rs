//! Commands that a clone brings run only after a person has allowed them.

use std::process::Command;

use serde_json::Value;

use crate::repo::{Plan, Repo, STATE, Said, check};
use crate::terminal::Terminal;

/// A project whose every command leaves a mark outside of it.
fn clone() -> Repo {
    let mark = |what: &str| format!("touch OUTSIDE/ran-{what}; true");
    let atoms = format!(
        "  - {{id: A1, description: One, status: pending, depends_on: [], run: {:?}}}",
        format!("{}; echo one > one", mark("run"))
    );
    let objective = format!("  isolation: {{setup: {:?}}}", mark("setup"));
    let plan = Plan {
        atoms: &atoms,
        base_case: &check(&format!("{}; test -e one", mark("check"))),
        objective: &objective,
        ..Plan::default()
    };
    let repo = Repo::with(&plan);
    let outside = repo.path("..").canonicalize().expect("it exists");
    repo.write(STATE, &repo.read(STATE).replace("OUTSIDE", outside.to_str().expect("a text")));
    repo.write("evil.sh", "#!/bin/sh\ntouch \"$(dirname \"$0\")/../ran-agent\"\necho 1.0\n");
    let done = Command::new("chmod").arg("+x").arg(repo.path("evil.sh")).status();
    assert!(done.expect("chmod").success());
    let settings = "[agent.evil]\nprogram = \"./evil.sh\"\n[notify]\nbell = true\non_done = \"touch ../ran-notify\"\n[judge]\ncommand = \"touch ../ran-judge\"\n";
    repo.write("aot.toml", settings);
    repo
}

/// What ran, by the marks it left.
fn ran(repo: &Repo) -> String {
    let all = ["run", "setup", "check", "agent", "judge", "notify"];
    let ran = all.iter().filter(|what| repo.path(&format!("../ran-{what}")).exists());
    ran.copied().collect::<Vec<_>>().join(" ")
}

fn aot(repo: &Repo, words: &[&str]) -> Said {
    aot_with(repo, words, &[])
}

fn aot_with(repo: &Repo, words: &[&str], variables: &[(&str, &str)]) -> Said {
    let mut command = repo.command(words);
    let output = command.env_remove("AOT_TRUST").envs(variables.iter().copied()).output().expect("it starts");
    Said {
        exit: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn looking_at_a_clone_runs_nothing_of_it() {
    let repo = clone();
    for words in [
        &["status"][..],
        &["graph"],
        &["show"],
        &["ready"],
        &["log"],
        &["validate"],
        &["gate"],
        &["agents"],
        &["doctor"],
        &["lint", "--no-run"],
        &["trust"],
    ] {
        let said = aot(&repo, words);
        assert_eq!(ran(&repo), "", "{words:?} ran something: {}{}", said.out, said.err);
        assert!(!said.err.contains("a bug"), "{words:?}: {}", said.err);
    }
    assert!(aot(&repo, &["agents"]).err.contains("aot.toml is not used"));
    // A host with the plugin asks at each of these moments.
    for event in
        ["session-start", "pre-tool-use", "user-prompt-submit", "subagent-stop", "stop", "session-end"]
    {
        let mut hook = repo.command(&["hook", event]);
        hook.env_remove("AOT_TRUST").stdin(std::process::Stdio::piped());
        let mut child = hook.stdout(std::process::Stdio::null()).spawn().expect("it starts");
        let input = r#"{"session_id": "s", "tool_name": "Bash", "tool_input": {"command": "aot run"}}"#;
        std::io::Write::write_all(&mut child.stdin.take().expect("piped"), input.as_bytes())
            .expect("written");
        assert!(child.wait().expect("it ends").success());
        assert_eq!(ran(&repo), "", "{event} ran something");
    }
}

#[test]
fn what_a_clone_brings_is_refused_without_a_person_and_named() {
    let repo = clone();
    for words in [&["run"][..], &["verify"], &["lint"], &["run", "--session", "s"]] {
        let said = aot(&repo, &[words, &["--json"]].concat());
        let object: Value = serde_json::from_str(&said.out).unwrap_or_default();
        assert_eq!(
            (said.exit, object["error"]["code"].as_str()),
            (17, Some("not_trusted")),
            "{words:?}: {said:?}"
        );
        assert!(object["error"]["hint"].as_str().unwrap_or_default().contains("aot trust"), "{said:?}");
        let items = object["error"]["items"].as_array().cloned().unwrap_or_default();
        let kinds: Vec<&str> = items.iter().filter_map(|item| item["kind"].as_str()).collect();
        let expected = ["agent.evil.program", "judge.command", "notify.on_done", "check", "setup", "run"];
        assert_eq!(kinds, expected, "{words:?}");
        assert_eq!(ran(&repo), "", "{words:?}");
    }
    let session = aot_with(&repo, &["trust", "--yes"], &[("CLAUDE_CODE_SESSION_ID", "s")]);
    assert_eq!(session.exit, 1, "an agent's session is no person: {}", session.err);
    let said = aot(&repo, &["trust"]);
    assert_eq!(said.exit, 1, "nobody said yes");
    assert!(said.out.contains("agent.evil.program: ./evil.sh"), "{}", said.out);
    let said = aot(&repo, &["trust", "--yes", "--json"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(aot(&repo, &["run"]).exit, 0);
    assert_eq!(ran(&repo), "run setup check notify");
}

#[test]
fn trust_is_remembered_by_content_and_place() {
    let repo = clone();
    assert_eq!(aot(&repo, &["trust", "--yes"]).exit, 0);
    assert_eq!(aot(&repo, &["verify"]).exit, 1, "it runs, and is red");
    // Deleted between runs, the sidecar is made again and nothing is asked again.
    std::fs::remove_dir_all(repo.path(".claude/aot")).expect("removed");
    assert_eq!(aot(&repo, &["verify"]).exit, 1);
    // What changes nothing that runs is not asked for.
    repo.write("aot.toml", &(repo.read("aot.toml") + "timeout = \"3m\"\n"));
    repo.write(STATE, &repo.read(STATE).replace("Let the numbers be there", "Another goal"));
    assert_eq!(aot(&repo, &["verify"]).exit, 1);
    // A pull brings another command.
    let changed = repo.read(STATE).replace("ran-run", "ran-agent");
    repo.write(STATE, &changed);
    let said = aot(&repo, &["verify"]);
    assert_eq!(said.exit, 17, "{said:?}");
    assert!(
        said.err.contains("ran-agent") && !said.err.contains("ran-setup"),
        "only what is new: {}",
        said.err
    );
    let folder = repo.path("..");
    let folder = folder.to_str().expect("a text");
    assert_eq!(aot_with(&repo, &["verify"], &[("AOT_TRUST", folder)]).exit, 1);
    assert_eq!(aot_with(&repo, &["verify"], &[("AOT_TRUST", ".")]).exit, 17, "relative folders do not count");
}

#[test]
fn what_a_person_gave_through_the_program_is_not_asked_for() {
    let repo = Repo::with(&Plan::default());
    std::fs::remove_file(repo.path(STATE)).expect("removed");
    let agree = "align One --check true --atom One --intent x --deliverable y --done z --yes --no-run";
    let agree: Vec<&str> = agree.split(' ').collect();
    let said = aot(&repo, &agree);
    assert_eq!(said.exit, 0, "{said:?}");
    let said = aot(&repo, &["atom", "add", "do it", "--run", "echo one > one"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(aot(&repo, &["verify"]).exit, 0);
    // In somebody else's file only what is added here is trusted.
    let repo = clone();
    assert_eq!(aot(&repo, &["atom", "add", "mine", "--run", "true"]).exit, 0);
    let said = aot(&repo, &["verify", "--json"]);
    assert!(said.exit == 17 && said.out.contains("ran-check"), "{said:?}");
}

#[test]
fn a_confirmation_of_a_clone_counts_only_after_a_person_has_seen_it() {
    let plan = Plan {
        atoms: "  - {id: A1, description: One, status: pending, depends_on: []}",
        base_case: "      - {item: \"It is nice\", check: {type: assertion, value: \"It is nice\"}}\n",
        ..Plan::default()
    };
    let repo = Repo::with(&plan);
    assert!(aot(&repo, &["verify"]).out.contains("WAIT"), "nobody has confirmed it");
    let tree =
        serde_json::from_str::<Value>(&aot(&repo, &["verify", "--json"]).out).expect("an object")["tree"]
            .as_str()
            .expect("a hash")
            .to_owned();
    let confirmed = format!(
        "  redirect_requested: false\n  confirmed: [{{item: \"It is nice\", by: mallory, at: 2026-01-15T10:30:00Z, tree: {tree:?}}}]\n"
    );
    repo.write(STATE, &repo.read(STATE).replace("  redirect_requested: false\n", &confirmed));
    let said = aot(&repo, &["verify"]);
    assert!(said.exit == 17 && said.err.contains("mallory"), "{said:?}");
}

#[test]
fn at_a_terminal_it_is_asked_once() {
    let repo = clone();
    let mut terminal = Terminal::with(&repo, &["verify"], &[("AOT_TRUST", "")]);
    terminal.see("agent.evil.program: ./evil.sh");
    terminal.see("Type yes or no:");
    assert_eq!(ran(&repo), "");
    terminal.press(b"yes\r");
    assert_eq!(terminal.end().0, Some(1));
    assert_eq!(ran(&repo), "check");
    assert_eq!(aot(&repo, &["verify"]).exit, 1, "and never again");
    let repo = clone();
    let mut terminal = Terminal::with(&repo, &["verify"], &[("AOT_TRUST", "")]);
    terminal.answer("Type yes or no:", "no");
    assert_eq!(terminal.end().0, Some(17));
    assert_eq!(ran(&repo), "");
}
