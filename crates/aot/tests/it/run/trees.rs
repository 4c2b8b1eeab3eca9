//! What the workers' trees have besides what git tracks, how long they stay, and which shell works in them.

use std::fs;

use crate::repo::{Plan, Repo, STATE, atom, check};

fn plan<'p>(atoms: &'p str, base_case: &'p str, objective: &'p str) -> Plan<'p> {
    Plan { atoms, base_case, objective, ..Plan::default() }
}

/// Eight workers serve at the same time, each on a port of its own.
#[test]
fn eight_servers_run_side_by_side() {
    let serve = "python3 -c \"import os, socket, time; s = socket.socket(); s.bind(('127.0.0.1', int(os.environ['AOT_PORT']))); \
                 s.listen(); open(os.environ['HOME'] + '/bound/' + os.environ['AOT_SLOT'], 'w'); \
                 [time.sleep(0.02) for _ in iter(lambda: len(os.listdir(os.environ['HOME'] + '/bound')) < 8, False)]\"";
    let atoms: String =
        (1..9).map(|n| atom(&format!("A{n}"), "", &format!("{serve} && echo > f{n}"))).collect();
    let holds = check("test $(ls f? | wc -l) = 8");
    let plan = Plan {
        constraints: "max_iterations: 3, max_parallel_agents: 8, max_stall_count: 1",
        ..plan(&atoms, &holds, "")
    };
    let repo = Repo::with(&plan);
    let home = repo.path("../home");
    fs::create_dir_all(home.join("bound")).expect("folders");
    let output = repo.command(&["run", "--json"]).env("HOME", &home).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(repo.landed("main").split(' ').count(), 8);
}

/// The end is told when it is known, and cleaning up comes after it.
#[test]
fn done_is_told_before_the_trees_are_ended() {
    let atoms = atom("A1", "", "echo 1 > one");
    let holds = check("test -e one");
    let repo = Repo::with(&plan(&atoms, &holds, ""));
    let (go, ended) = (repo.path("../go"), repo.path("../ended"));
    let teardown = format!("while [ ! -e {} ]; do sleep 0.02; done; touch {}", go.display(), ended.display());
    let objective = format!("  isolation: {{setup: \"true\", teardown: {teardown:?}}}");
    repo.plan(&plan(&atoms, &holds, &objective));
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"halted\"");
    assert!(!ended.exists(), "nothing has let it end");
    fs::write(&go, "").expect("written");
    let said = live.end();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(ended.exists());
}

#[test]
fn a_teardown_that_fails_is_told_and_changes_nothing_of_the_end() {
    let (atoms, holds) = (atom("A1", "", "echo 1 > one"), check("test -e one"));
    let objective = "  isolation: {setup: \"true\", teardown: \"echo why; exit 4\"}";
    let repo = Repo::with(&plan(&atoms, &holds, objective));
    let said = repo.run();
    assert_eq!((said.exit, said.halted()["status"].as_str()), (0, Some("completed")), "{}", said.err);
    assert!(said.err.contains("`isolation.teardown` ended with 4"), "{}", said.err);
}

#[test]
fn trees_stay_until_they_are_cleaned() {
    let (atoms, holds) = (atom("A1", "", "echo 1 > one"), check("test -e one"));
    let repo = Repo::with(&plan(&atoms, &holds, ""));
    assert_eq!(repo.run().exit, 0);
    let trees = || repo.git(&["worktree", "list"]).lines().count() - 1;
    assert_eq!(trees(), 1);
    let said = repo.aot(&["clean"]);
    assert_eq!((said.exit, said.out.trim()), (0, "removed 1 tree"), "{}", said.err);
    assert_eq!(trees(), 0);
    assert_eq!(fs::read_dir(repo.path("../.cache/aot/trees")).expect("it stays").count(), 0);
    let said = repo.aot(&["clean", "--json"]);
    assert_eq!(said.halted()["trees"], 0);
    // Nothing is taken away from a loop that runs.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let go = elsewhere.path().join("go");
    let waits =
        atom("A1", "", &format!("while [ ! -e {} ]; do sleep 0.02; done; echo 2 > two", go.display()));
    let holds = check("test -e two");
    let repo = Repo::with(&plan(&waits, &holds, ""));
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    let said = repo.aot(&["clean"]);
    assert_ne!(said.exit, 0);
    assert!(said.err.contains("driven already"), "{}", said.err);
    fs::write(&go, "").expect("written");
    assert_eq!(live.end().exit, 0);
}

/// The shell that somebody logs in with has no say.
#[test]
fn commands_mean_the_same_whatever_shell_the_user_has() {
    let run = |run: &str, holds: &str, objective: &str| {
        let (atoms, holds) = (atom("A1", "", run), check(holds));
        let repo = Repo::with(&plan(&atoms, &holds, objective));
        repo.write("../fish", "#!/bin/sh\nexit 1\n");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(repo.path("../fish"), mode).expect("it is ours");
        let output = repo.command(&["run", "--json"]).env("SHELL", repo.path("../fish")).output();
        let output = output.expect("it starts");
        (output.status.code(), format!("{}", String::from_utf8_lossy(&output.stdout)))
    };
    let plain = "for i in 1; do x=$i; done; test \"$x\" = 1 && echo > one";
    let bash = "[[ abc == a* ]] && diff <(echo 1) <(echo 1) && echo > one";
    for (command, holds) in [(plain, "test -e one"), (bash, "[[ -e one ]] && a=(1 2) && [[ ${a[1]} == 2 ]]")]
    {
        let (exit, out) = run(command, holds, "");
        assert_eq!(exit, Some(0), "{command}: {out}");
    }
    let (exit, out) = run("test -n \"$BASH_VERSION\" && echo > one", "test -e one", "  shell: bash");
    assert_eq!(exit, Some(0), "{out}");
}

fn project() -> Repo {
    let repo = Repo::with(&Plan::default());
    fs::remove_file(repo.path(STATE)).expect("it was there");
    repo.write(".gitignore", ".claude/\nnode_modules/\n.venv/\n.env\n.env.local\nbuild/\ndata.bin\ntools/\n");
    repo.git(&["commit", "-qam", "Ignore"]);
    for path in [
        "node_modules/.bin/jest",
        ".venv/bin/python",
        ".env",
        ".env.local",
        "build/out",
        "data.bin",
        "tools/t",
    ] {
        repo.write(path, "x\n");
    }
    repo
}

fn align(repo: &Repo, words: &[&str]) -> crate::repo::Said {
    let said = ["--goal", "g", "--intent", "i", "--deliverable", "d", "--done", "w", "--atom", "a"];
    let check =
        ["--check", ".venv/bin/python -m pytest && tools/t build/out", "--no-run", "--yes", "--force"];
    let said = repo.aot(&[&["align"][..], &said, &check, words].concat());
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    said
}

#[test]
fn what_the_checks_need_and_git_ignores_is_found_at_alignment() {
    let repo = project();
    let said = align(&repo, &[]);
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let page: Vec<String> = said.out.lines().map(line).collect();
    for expected in ["trees share .venv, node_modules, tools", "copy .env, .env.local"] {
        assert!(page.iter().any(|line| line == expected), "{expected}: {}", said.out);
    }
    let isolation = repo.state()["objective"]["isolation"].clone();
    assert_eq!(isolation["share"], serde_json::json!([".venv", "node_modules", "tools"]));
    assert_eq!(isolation["copy"], serde_json::json!([".env", ".env.local"]));

    let words =
        ["--share", "tools", "--share", "gone", "--copy", "none", "--setup", "npm ci", "--teardown", "true"];
    let said = align(&repo, &words);
    let isolation = repo.state()["objective"]["isolation"].clone();
    let expected = serde_json::json!({"share": ["tools", "gone"], "setup": "npm ci", "teardown": "true"});
    assert_eq!(isolation, expected);
    assert!(said.out.contains("gone does not exist, so no worker's tree has it"), "{}", said.out);

    align(&repo, &["--share", "none", "--copy", "none"]);
    assert!(repo.state()["objective"]["isolation"].is_null());
}

/// Dependencies that lead back to the checkout would let a check in a tree look at the wrong code.
#[test]
fn dependencies_that_lead_back_to_the_checkout_are_named() {
    let repo = project();
    let root = repo.path(".").canonicalize().expect("it is there");
    repo.write("packages/own/index.js", "1\n");
    std::os::unix::fs::symlink("../packages/own", repo.path("node_modules/own")).expect("a link");
    let site = ".venv/lib/python3.11/site-packages";
    repo.write(&format!("{site}/__editable__.own-1.0.pth"), &format!("{}/src\n", root.display()));
    let said = align(&repo, &[]);
    for expected in ["node_modules leads back to packages/own", ".venv leads back to src"] {
        assert!(said.out.contains(expected), "{expected}: {}", said.out);
    }
}

/// Submodules are shared, so that workers can read them, and it is said that nothing in them lands.
#[test]
fn submodules_are_named_at_alignment() {
    let repo = project();
    let library = Repo::with(&Plan::default());
    let url = library.path(".").display().to_string();
    repo.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "lib"]);
    repo.git(&["commit", "-qm", "A library"]);
    let said = align(&repo, &[]);
    assert!(
        said.out.contains("lib is a submodule: workers read it, and no change in it can land"),
        "{}",
        said.out
    );
    assert_eq!(repo.state()["objective"]["isolation"]["share"][0], "lib");
}

/// What `aot align` finds in a worker's tree other than in the root, for these checks: a message for each.
fn differences(repo: &Repo, checks: &[&str], words: &[&str]) -> Vec<String> {
    let said = ["--goal", "g", "--intent", "i", "--deliverable", "d", "--done", "w", "--atom", "a"];
    let checks = checks.iter().flat_map(|check| ["--check", check]).collect::<Vec<_>>();
    let said = repo.aot(&[&["align"][..], &said, &checks, words, &["--yes", "--force", "--json"]].concat());
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let answer = said.halted();
    let findings = answer["findings"].as_array().expect("a list").clone();
    let in_trees = findings.iter().filter(|finding| finding["code"] == "in_a_tree");
    in_trees.map(|finding| format!("{} | {}", finding["message"], finding["hint"]).replace('"', "")).collect()
}

/// The checks are tried in a tree as workers get them, before an agent is blamed for a file that git ignores.
#[test]
fn a_file_that_a_check_needs_and_no_tree_has_is_named_at_alignment() {
    let repo = Repo::with(&Plan::default());
    fs::remove_file(repo.path(STATE)).expect("it was there");
    repo.write(".gitignore", ".claude/\nversion.py\ntarget/\n__pycache__/\nnotes.txt\n");
    repo.write("src/pkg/__init__.py", "from pkg.version import V\n");
    repo.git(&["add", "-A"]);
    repo.git(&["commit", "-qm", "A package"]);
    repo.write("target/out", "x\n");
    let code = "PYTHONPATH=src python3 -c";
    let (whole, wanting) = (format!("{code} 'import pkg'"), format!("{code} 'import pkg; pkg.more()'"));
    // Nothing but what builds make is ignored: no tree is made.
    assert_eq!(differences(&repo, &["test -e target/out"], &[]), Vec::<String>::new());

    repo.write("src/pkg/version.py", "V = 1\n");
    repo.write("notes.txt", "mine\n");
    let found = differences(&repo, &[&whole, &wanting, "test -e README", "test -e nothing"], &[]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("it passes here and fails in a worker's tree"), "{found:?}");
    assert!(found[1].starts_with("it fails in another way in a worker's tree"), "{found:?}");
    for message in &found {
        assert!(message.contains("which does not have `src/pkg/version.py`"), "{message}");
        assert!(message.contains("No module named 'pkg.version'"), "{message}");
        assert!(message.contains("--copy src/pkg/version.py"), "{message}");
    }
    assert_eq!(repo.git(&["worktree", "list"]).lines().count(), 1);
    assert!(repo.leftovers().is_empty(), "{:?}", repo.leftovers());
    let left = fs::read_dir(repo.path("../.cache/aot/trees")).expect("it stays").count();
    assert_eq!(left, 0);

    for words in [&["--copy", "src/pkg/version.py"][..], &["--no-run"], &["--setup", "true"]] {
        assert_eq!(differences(&repo, &[&whole, &wanting], words), Vec::<String>::new(), "{words:?}");
    }
}
