//! Where work happens and how it gets into the project.

use std::process::Command;

use crate::repo::{LONG, Plan, Repo, STATE, atom, check};

fn three() -> String {
    [
        atom("A1", "", "echo 1 > one; echo noise > ignored.log"),
        atom("A2", "", "echo 2 > two"),
        atom("A3", "A1, A2", "cat one two > three"),
    ]
    .concat()
}

fn plan<'p>(atoms: &'p str, base_case: &'p str, objective: &'p str) -> Plan<'p> {
    Plan { atoms, base_case, objective, ..Plan::default() }
}

#[test]
fn one_commit_for_each_atom_on_the_branch_with_trailers() {
    let (atoms, holds) = (three(), check("test \"$(cat three | tr -d '\\n')\" = 12"));
    let repo = Repo::with(&plan(&atoms, &holds, ""));
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let landed = repo.landed("main");
    assert!(landed == "A1 A2 A3" || landed == "A2 A1 A3", "{landed}");
    let last =
        repo.git(&["log", "-1", "--format=%an|%s|%(trailers:key=Aot-Attempt,valueonly,separator=%x2C)"]);
    assert!(last.starts_with("Ada|"), "{last}");
    assert!(last.contains("Do A3"), "{last}");
    // The checkout has followed, and what was ignored or ours is not in it.
    assert_eq!(repo.read("three"), "1\n2\n");
    assert_eq!(repo.git(&["status", "--porcelain"]), "");
    let state = repo.state();
    let commit = state["bindings"]["A3"]["commit"].as_str().expect("a commit").to_owned();
    assert_eq!(commit, repo.git(&["rev-parse", "HEAD"]));
    assert_eq!(repo.leftovers(), Vec::<String>::new());
}

#[test]
fn another_branch_leaves_the_checkout_alone() {
    let (atoms, holds) = (three(), check("test -e three"));
    let repo = Repo::with(&plan(&atoms, &holds, ""));
    repo.write("README", "edited and not committed\n");
    let said = repo.aot(&["run", "--branch", "night", "--json"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(repo.landed("main"), "");
    assert_eq!(repo.landed("night").split(' ').count(), 3);
    assert_eq!(repo.read("README"), "edited and not committed\n");
    assert!(!repo.path("three").exists());
    // A resumed run goes on there without being told, and the end says where the work is.
    assert_eq!(repo.state()["control"]["branch"], "night");
    assert_eq!(said.halted()["branch"], "night");
    let again = repo.aot(&["run"]).out;
    assert!(again.contains("merge    git merge night"), "{again}");
}

#[test]
fn whoever_looks_sees_the_branch_that_the_work_lands_on() {
    let holds = [check("test -e three && test -e made && test -e kept.env"), asserted()].concat();
    let objective = "  isolation: {setup: \"echo made > made\", copy: [kept.env]}";
    let repo = Repo::with(&plan(&three(), &holds, objective));
    repo.write("kept.env", "KEY=1\n");
    repo.git(&["commit", "-q", "--allow-empty", "-m", "Two"]);
    let verify = |exit: i32| {
        let said = repo.aot(&["verify", "--json"]);
        assert_eq!(said.exit, exit, "{}{}", said.out, said.err);
        said.halted()["branch"].clone()
    };
    // Before the first run it is the checkout.
    assert_eq!(verify(1), serde_json::Value::Null);
    assert_eq!(repo.aot(&["run", "--branch", "night", "--json"]).exit, 17);
    assert!(!repo.path("three").exists());
    assert_eq!(verify(17), "night");
    let confirmed = repo.aot(&["confirm", "Looks good"]);
    assert_eq!(confirmed.exit, 0, "{}{}", confirmed.out, confirmed.err);
    assert_eq!(verify(0), "night");
    // What a person confirmed of the branch counts for the run.
    let run = repo.run();
    assert_eq!(run.exit, 0, "{}{}", run.out, run.err);
    let shown = repo.aot(&["verify"]).out;
    assert!(shown.starts_with("on branch night\n"), "{shown}");
    let status = repo.aot(&["status"]).out;
    assert!(status.contains("2 of 2 green on branch night"), "{status}");
    assert!(status.contains("next") && status.contains("git merge night"), "{status}");
    assert_eq!(repo.aot(&["lint", "--json"]).exit, 0);
    assert_eq!(repo.git(&["worktree", "list", "--porcelain"]).matches("/looks/").count(), 0);
    // Checked out, or merged and deleted, there is only the checkout to look at.
    repo.git(&["switch", "-q", "night"]);
    assert_eq!(verify(1), serde_json::Value::Null);
    repo.git(&["switch", "-q", "main"]);
    repo.git(&["merge", "-q", "night"]);
    repo.git(&["branch", "-q", "-d", "night"]);
    assert_eq!(verify(1), serde_json::Value::Null);
}

#[test]
fn protected_files_are_those_of_the_branch_that_the_work_lands_on() {
    let repo = Repo::with(&plan(&three(), &check("test -e three"), "  protected: [README]"));
    assert_eq!(repo.aot(&["run", "--branch", "night", "--json"]).exit, 0);
    // The checkout goes on with other work meanwhile.
    repo.write("README", "Another text.\n");
    let said = repo.aot(&["verify", "--json"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    // A person changes it on the branch, and accepts it.
    repo.git(&["commit", "-qam", "Another text"]);
    repo.git(&["update-ref", "refs/heads/night", &repo.git(&["rev-parse", "main"])]);
    assert_eq!(repo.aot(&["verify", "--json"]).exit, 16);
    repo.write("README", "A third text.\n");
    let accepted = repo.aot(&["redirect", "--accept"]);
    assert_eq!(accepted.exit, 0, "{}{}", accepted.out, accepted.err);
    assert_eq!(repo.aot(&["verify", "--json"]).exit, 1);
}

fn asserted() -> String {
    "      - {item: \"Looks good\", check: {type: assertion, value: \"It looks good\"}}\n".to_owned()
}

#[test]
fn in_place_and_outside_of_git_a_failure_is_rolled_back() {
    let atoms = [
        "  - {id: A1, description: \"Bad\", status: pending, depends_on: [], or_group: way, run: \"echo bad > one; echo bad > kept; exit 1\"}\n"
            .to_owned(),
        "  - {id: A2, description: \"Good\", status: pending, depends_on: [], or_group: way, run: \"cat kept > one\"}\n".to_owned(),
        atom("A3", "A1", "cat one > three"),
    ]
    .concat();
    for (git, objective) in [(true, "  isolation: {mode: in_place}"), (false, "")] {
        let plan = Plan {
            atoms: &atoms,
            or_groups: "  way: {choices: [A1, A2], selected: A1, failed: []}",
            base_case: &check("test \"$(cat three)\" = kept"),
            objective,
            ..Plan::default()
        };
        let repo = if git { Repo::with(&plan) } else { Repo::bare(&plan) };
        repo.write("kept", "kept\n");
        if git {
            repo.git(&["add", "kept"]);
            repo.git(&["commit", "-qm", "Kept"]);
        }
        let said = repo.run();
        assert_eq!(said.exit, 0, "git {git}: {}{}", said.out, said.err);
        assert_eq!(repo.read("kept"), "kept\n");
        assert_eq!(repo.read("one"), "kept\n");
        if git {
            assert_eq!(repo.git(&["log", "--format=%s"]), "Kept\nBegin");
        } else {
            assert!(!repo.path(".git").exists());
        }
    }
}

#[test]
fn no_isolation_works_in_place_and_side_by_side() {
    let (atoms, holds) = (three(), check("test -e three"));
    let repo = Repo::with(&plan(&atoms, &holds, "  isolation: {mode: none}"));
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(repo.landed("main"), "");
    assert_eq!(repo.read("three"), "1\n2\n");
}

#[test]
fn a_conflict_is_named_and_tried_again_on_the_new_base() {
    // Both change the same line; whoever lands second conflicts, and succeeds on top of the first. A1 ends when A2 has its
    // tree, and A2 when A1 has landed.
    let atoms = [
        atom("A1", "", "while [ ! -e $GO ]; do sleep 0.02; done; echo A1 >> log; cat log > mine-1"),
        atom(
            "A2",
            "",
            "pwd > $BEGUN; while [ ! -e $LANDED ]; do sleep 0.02; done; echo A2 >> log; cat log > mine-2",
        ),
    ]
    .concat();
    let holds = check("test \"$(cat log | tr '\\n' ' ')\" = 'begin A1 A2 '");
    let repo = Repo::with(&plan(&atoms, &holds, ""));
    repo.write("log", "begin\n");
    repo.git(&["add", "log"]);
    repo.git(&["commit", "-qm", "A log"]);
    let (go, begun, landed) = (repo.path("../go"), repo.path("../begun"), repo.path("mine-1"));
    let mut text = repo.read(STATE);
    for (name, path) in [("$GO", &go), ("$BEGUN", &begun), ("$LANDED", &landed)] {
        text = text.replace(name, path.to_str().expect("a text"));
    }
    repo.write(STATE, &text);
    let live = repo.start(&["run", "--json"]);
    let began = std::time::Instant::now();
    while !begun.exists() {
        assert!(began.elapsed() < LONG, "A2 never began");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::fs::write(&go, "").expect("a file");
    let said = live.end();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("atom_returned") && said.out.contains("log"), "{}", said.out);
    assert_eq!(repo.landed("main"), "A1 A2");
    assert_eq!(repo.leftovers(), Vec::<String>::new());
}

#[test]
fn edits_that_a_person_makes_meanwhile_are_never_overwritten() {
    let atoms = atom("A1", "", "echo done > README; echo 1 > one");
    let holds = check("test -e one");
    let repo = Repo::with(&plan(&atoms, &holds, ""));
    let text = repo
        .read(STATE)
        .replace("echo done > README", "while [ ! -e $GO ]; do sleep 0.02; done; echo done > README");
    let go = repo.path("../go");
    repo.write(STATE, &text.replace("$GO", go.to_str().expect("a text")));
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    repo.write("README", "mine\n");
    repo.write("elsewhere", "mine too\n");
    std::fs::write(&go, "").expect("a file");
    live.hear("\"type\":\"waiting\"");
    assert_eq!(repo.read("README"), "mine\n");
    assert_eq!(repo.landed("main"), "");
    repo.git(&["checkout", "README"]);
    let said = live.end();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(repo.read("README"), "done\n");
    assert_eq!(repo.read("elsewhere"), "mine too\n");
}

#[test]
fn a_landing_that_waits_holds_up_no_other_and_no_stop() {
    let atoms = [
        atom("A1", "", "echo done > README"),
        atom("A2", "", "echo 2 > two"),
        atom("A3", "A2", "echo 3 > three"),
    ];
    let repo = Repo::with(&plan(&atoms.concat(), &check("test -e nothing"), ""));
    let text = repo
        .read(STATE)
        .replace("echo done > README", "while [ ! -e $GO ]; do sleep 0.02; done; echo done > README");
    let text =
        text.replace("echo 2 > two", "while [ ! -e $GO ]; do sleep 0.02; done; sleep 0.5; echo 2 > two");
    let go = repo.path("../go");
    repo.write(STATE, &text.replace("$GO", go.to_str().expect("a text")));
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    live.hear("\"type\":\"started\"");
    repo.write("README", "mine\n");
    std::fs::write(&go, "").expect("a file");
    live.hear("\"type\":\"waiting\"");
    live.hear("\"atom_resolved\",\"atom\":\"A3\"");
    assert_eq!(repo.landed("main"), "A2 A3");
    assert_eq!(repo.aot(&["stop", "enough"]).exit, 0);
    let said = live.end();
    assert_eq!(said.exit, 10, "{}{}", said.out, said.err);
    assert_eq!(repo.read("README"), "mine\n");
    assert_eq!(repo.atoms(), "A1:pending A2:resolved A3:resolved");
}

#[test]
fn what_is_shared_and_set_up_is_there_and_does_not_land() {
    let atoms = atom("A1", "", "cat shared/lib made > one");
    let holds = check("test \"$(cat one | tr '\\n' ' ')\" = 'library made '");
    let objective = "  isolation: {mode: worktree, share: [shared], setup: \"echo made > made; echo made >> .git-excluded\"}";
    let repo = Repo::with(&plan(&atoms, &holds, objective));
    repo.write(".gitignore", ".claude/\nshared/\nmade\n.git-excluded\n");
    repo.git(&["commit", "-qam", "Ignore"]);
    repo.write("shared/lib", "library\n");
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(repo.git(&["show", "--name-only", "--format=", "HEAD"]), "one");
    assert_eq!(repo.read("shared/lib"), "library\n");
}

#[test]
fn a_state_file_that_is_tracked_is_never_part_of_a_commit() {
    let (atoms, holds) = (three(), check("test -e three"));
    let repo = Repo::with(&plan(&atoms, &holds, ""));
    repo.git(&["add", "-f", STATE]);
    repo.git(&["commit", "-qm", "The state, too"]);
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let touched = repo.git(&["log", "--format=", "--name-only", "main~3..main"]);
    assert!(!touched.contains("aot-loop-state"), "{touched}");
}

#[test]
fn a_folder_of_a_repository_and_a_linked_worktree_work() {
    let (atoms, holds) = (three(), check("test -e three"));
    let sub = Repo::with(&Plan::default()).at("below/here");
    sub.plan(&plan(&atoms, &holds, ""));
    let said = sub.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(sub.git(&["show", "--name-only", "--format=", "HEAD"]), "below/here/three");

    let linked = Repo::with(&Plan::default());
    linked.git(&["worktree", "add", "-q", "-b", "side", "../linked"]);
    let linked = linked.at("../linked");
    linked.plan(&plan(&atoms, &holds, ""));
    let said = linked.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(linked.landed("side").split(' ').count(), 3);
    assert_eq!(linked.landed("main"), "");
}

#[test]
fn what_cannot_work_is_refused_with_the_reason() {
    let refused = |repo: &Repo, words: &[&str]| {
        let said = repo.aot(&["run"]);
        assert_eq!(said.exit, 1, "{}{}", said.out, said.err);
        for word in words {
            assert!(said.err.contains(word), "{:?} does not say {word:?}", said.err);
        }
    };
    let dirty = Repo::with(&Plan::default());
    dirty.write("README", "edited\n");
    refused(&dirty, &["README", "hint:", "commit"]);

    let detached = Repo::with(&Plan::default());
    detached.git(&["checkout", "-q", "--detach"]);
    refused(&detached, &["branch", "--branch"]);

    let empty = Repo::bare(&Plan::default());
    empty.git(&["init", "-q"]);
    refused(&empty, &["commit"]);
}

#[test]
fn the_work_of_a_failed_attempt_is_kept_and_shown() {
    let atoms = "  - {id: A1, description: \"Bad\", status: pending, depends_on: [], or_group: way, run: \"echo half > half; exit 1\"}\n  - {id: A2, description: \"Good\", status: pending, depends_on: [], or_group: way, run: \"echo one > one\"}";
    let plan =
        Plan { atoms, or_groups: "  way: {choices: [A1, A2], selected: A1, failed: []}", ..Plan::default() };
    let repo = Repo::with(&plan);
    assert_eq!(repo.run().exit, 0);
    let kept = repo.git(&["for-each-ref", "--format=%(refname)", "refs/aot/kept/"]);
    assert!(kept.contains("/A1/"), "{kept}");
    assert_eq!(repo.git(&["show", &format!("{kept}:half")]), "half");
    let log = repo.aot(&["log"]);
    assert!(log.out.contains("refs/aot/kept/"), "{}{}", log.out, log.err);
}

#[test]
fn variables_and_folders_of_a_worker() {
    let atoms = atom("A1", "", "env > one; echo x > $TMPDIR/x; pwd >> one");
    let holds = check("grep -q '^AOT_ATOM=A1' one && grep -q '^AOT_ATTEMPT=1' one && ! grep -q SECRET one");
    let repo = Repo::with(&plan(&atoms, &holds, ""));
    let mut command: Command = repo.command(&["run", "--json"]);
    let output = command.env("MY_SECRET_TOKEN", "SECRET").output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_commit_of_an_abandoned_choice_is_taken_back() {
    // The first way lands, but nothing can be built on it: after three failures the loop goes back to the other way.
    let atoms = [
        "  - {id: A1, description: \"A way that misleads\", status: pending, depends_on: [], or_group: way, run: \"echo wrong > base\"}\n"
            .to_owned(),
        "  - {id: A2, description: \"A way that leads\", status: pending, depends_on: [], or_group: way, run: \"echo right > base\"}\n"
            .to_owned(),
        atom("A3", "A1", "grep -q right base && echo 3 > three"),
    ]
    .concat();
    let plan = Plan {
        atoms: &atoms,
        or_groups: "  way: {choices: [A1, A2], selected: A1, failed: []}",
        base_case: &check("test -e three"),
        constraints: "max_iterations: 30, max_parallel_agents: 3, max_stall_count: 6",
        ..Plan::default()
    };
    let repo = Repo::with(&plan);
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(repo.read("base"), "right\n");
    let subjects = repo.git(&["log", "--reverse", "--format=%s", "main"]);
    let subjects: Vec<&str> = subjects.lines().collect();
    assert_eq!(subjects.len(), 5, "{subjects:?}");
    assert!(subjects[2].to_lowercase().contains("revert"), "{subjects:?}");
    assert_eq!(repo.leftovers(), Vec::<String>::new());
}

#[test]
fn a_worker_that_is_silent_or_slow_for_too_long_has_failed() {
    let silent = Repo::with(&plan(&atom("A1", "", "sleep 60"), &check("test -e one"), ""));
    silent.write("../config/aot/aot.toml", "[cage]\nkind = \"none\"\n[work]\nidle_timeout = \"1s\"\n");
    let said = silent.run();
    assert_eq!(said.exit, 11, "{}{}", said.out, said.err);
    assert!(said.out.contains("it printed nothing for 1 s"), "{}", said.out);
    let slow = Plan {
        atoms: &atom("A1", "", "while :; do echo busy; sleep 0.1; done"),
        constraints: "max_iterations: 20, max_parallel_agents: 3, max_stall_count: 1, agent_timeout: 1s",
        ..Plan::default()
    };
    let slow = Repo::with(&slow);
    let said = slow.run();
    assert_eq!(said.exit, 11, "{}{}", said.out, said.err);
    assert!(said.out.contains("its time was over after 1 s"), "{}", said.out);
    assert_eq!(slow.leftovers(), Vec::<String>::new());
}

#[test]
fn a_flood_of_output_is_bounded_and_its_end_is_kept() {
    let flood = "head -c 300000000 /dev/zero | tr '\\\\0' x; echo; echo the end; echo one > one";
    let repo = Repo::with(&plan(&atom("A1", "", flood), &check("test -e one"), ""));
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(repo.state()["bindings"]["A1"]["summary"], "the end");
    let kept = std::fs::metadata(repo.path(".claude/aot/output/A1-1.txt")).expect("it is kept").len();
    assert!(kept < 100_000, "{kept}");
}

/// In the project's own folder a cage that can spare parts of it keeps the state and the repository.
#[test]
fn in_place_a_caged_worker_cannot_write_the_state_or_the_repository() {
    let caged = Command::new("bwrap").args(["--ro-bind", "/", "/", "true"]).output();
    if !caged.is_ok_and(|output| output.status.success()) {
        return eprintln!(
            "SKIPPED in_place_a_caged_worker_cannot_write_the_state_or_the_repository: no bwrap"
        );
    }
    let tries = "for f in .claude/aot-loop-state.md .claude/aot/journal.jsonl .git/config .git/hooks/x; do (echo hack >> $f) 2>/dev/null && echo $f; done > wrote; rm -rf .git .claude 2>/dev/null; echo x > $TMPDIR/x && echo one > one";
    for mode in ["in_place", "none"] {
        let objective = format!("  isolation: {{mode: {mode}}}");
        let repo =
            Repo::with(&plan(&atom("A1", "", tries), &check("test -e one && ! test -s wrote"), &objective));
        repo.write("../config/aot/aot.toml", "[cage]\nkind = \"bwrap\"\n");
        let said = repo.run();
        assert_eq!(said.exit, 0, "{mode}: {}{}\n{}", said.out, said.err, repo.read("wrote"));
        assert_eq!(repo.git(&["log", "--format=%s"]), "Begin");
    }
}

#[test]
fn two_loops_in_one_repository_do_not_disturb_each_other() {
    let first = [
        atom("A1", "", "echo 1 > one"),
        atom("A2", "A1", "echo 2 > two"),
        atom("A3", "A2", "echo 3 > three"),
    ];
    let repo = Repo::with(&plan(&first.concat(), &check("test -e three"), ""));
    let other =
        repo.read(STATE).replace("> one", "> uno").replace("> two", "> due").replace(" three", " tre");
    repo.write(".claude/other.md", &other);
    let mut second = repo.start(&["--state", ".claude/other.md", "run", "--json"]);
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    second.hear("\"type\":\"halted\"");
    let said = second.end();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    for path in ["one", "two", "three", "uno", "due", "tre"] {
        assert!(repo.path(path).exists(), "{path}");
    }
    assert_eq!(repo.landed("main").split(' ').count(), 6);
}
