//! `aot run GOAL --check COMMAND`: a new loop in one line.

use super::aligning::unaligned;
use crate::repo::{Plan, Repo, STATE, atom};
use crate::terminal::{Terminal, plain};

const ATOM: &str = r#"{"description": "Write the answer", "run": "echo 42 > answer"}"#;
const RUN: [&str; 6] = ["run", "The answer is there", "--check", "test -e answer", "--atom", ATOM];

fn run(repo: &Repo, more: &[&str]) -> crate::repo::Said {
    repo.aot(&[&RUN[..], more].concat())
}

#[test]
fn a_goal_and_a_check_are_enough() {
    let repo = unaligned();
    let said = run(&repo, &["--yes"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    for line in [
        "goal       The answer is there",
        "now        red        test -e answer: exit 1",
        "note       using defaults for: why, result, done when, the time limit\n",
        "branch     main, the default branch (--branch NAME for another)",
        "DONE",
    ] {
        assert!(said.out.contains(line), "{line}: {}", said.out);
    }
    let state = repo.state();
    assert_eq!(state["objective"]["definition_of_done"], "All checks pass.");
    assert_eq!(state["objective"]["constraints"]["max_wall_time"], "2h");
    assert_eq!(repo.landed("main"), "A1");
    assert!(repo.read(STATE).ends_with("# Original Prompt\n\nThe answer is there\n"));
}

#[test]
fn a_lone_goal_is_its_own_atom() {
    let repo = unaligned();
    let said = repo.aot(&["align", "Fix it", "--check", "test -e fixed", "--yes"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("goal is one atom)"), "{}", said.out);
    assert_eq!(repo.state()["atoms"][0]["description"], "Fix it");
}

#[test]
fn a_dry_run_of_a_new_loop_writes_nothing() {
    let repo = unaligned();
    // Nothing is agreed on, so nobody has to say yes.
    let said = run(&repo, &["--dry-run"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(
        said.out.contains("goal       The answer is there") && said.out.contains("bound    "),
        "{}",
        said.out
    );
    assert!(!repo.path(STATE).exists());
}

#[test]
fn a_branch_needs_a_repository() {
    let repo = unaligned();
    std::fs::remove_dir_all(repo.path(".git")).expect("it was one");
    let said = run(&repo, &["--yes", "--branch", "night"]);
    assert_eq!(said.exit, 2, "{}{}", said.out, said.err);
    assert!(said.err.contains("`--branch` needs a git repository"), "{}", said.err);
    assert!(!repo.path(STATE).exists());
    assert_eq!(run(&repo, &["--yes"]).exit, 0);
}

#[test]
fn a_file_written_by_hand_needs_only_what_a_person_knows() {
    let repo = unaligned();
    let text = "---\nobjective:\n  goal: The answer is there\n  base_case:\n    checklist:\n      - item: It is there\n        \
                check: {type: file, value: answer}\n  background_intent: w\n  deliverables: d\n  definition_of_done: e\n\
                atoms:\n  - {id: A1, description: Write it, status: pending, depends_on: [], run: echo 42 > answer}\n---\n";
    std::fs::create_dir_all(repo.path(".claude")).expect("made");
    std::fs::write(repo.path(STATE), text).expect("written");
    assert_eq!(repo.aot(&["trust", "--yes"]).exit, 0);
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(repo.read(STATE).contains("\ntrail: []\n"), "{}", repo.read(STATE));
}

#[test]
fn a_completed_loop_makes_room_and_another_does_not() {
    let repo = unaligned();
    assert_eq!(run(&repo, &["--yes"]).exit, 0);
    let said = repo.aot(&[
        "run",
        "More",
        "--check",
        "test -e more",
        "--atom",
        "{\"description\": \"No\", \"run\": \"false\"}",
        "--yes",
    ]);
    assert_eq!(said.exit, 11, "{}{}", said.out, said.err);
    let said = run(&repo, &["--yes"]);
    assert_eq!(said.exit, 4, "{}{}", said.out, said.err);
    assert!(
        said.err.contains("`--force` begins another loop and keeps this one as a backup"),
        "{}",
        said.err
    );
    assert_eq!(run(&repo, &["--yes", "--force"]).exit, 0);
    // Nothing was done yet, so that the next line may say it better.
    let repo = unaligned();
    assert_eq!(repo.aot(&["align", "The answer", "--check", "test -e answer", "--yes"]).exit, 0);
    assert_eq!(run(&repo, &["--yes"]).exit, 0);
}

#[test]
fn flags_of_a_new_loop_need_a_goal() {
    let repo = unaligned();
    assert_eq!(run(&repo, &["--yes"]).exit, 0);
    let said = repo.aot(&["run", "--max-iterations", "3"]);
    assert_eq!(said.exit, 2, "{}{}", said.out, said.err);
    assert!(said.err.contains("aot redirect --set max_iterations=30"), "{}", said.err);
}

#[test]
fn a_file_says_a_part_and_flags_say_the_rest() {
    let repo = unaligned();
    repo.write("loop.yml", "goal: The answer is there\nbase_case:\n  checklist:\n    - {item: It is there, check: {type: file, value: answer}}\n");
    let said = repo.aot(&[
        "run",
        "--from",
        "loop.yml",
        "--atom",
        ATOM,
        "--check",
        "grep 42 answer",
        "--max-iterations",
        "4",
        "--yes",
    ]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let state = repo.state();
    assert_eq!(state["objective"]["base_case"]["checklist"].as_array().map(Vec::len), Some(2), "{state}");
    assert_eq!(state["objective"]["constraints"]["max_iterations"], 4);
    assert_eq!(repo.atoms(), "A1:resolved");
}

#[test]
fn a_flag_does_not_replace_an_atom_of_the_file() {
    let repo = unaligned();
    let file =
        "goal: The answer is there\natoms: [{id: A1, description: Think, run: \"echo 41 > thought\"}]\n";
    repo.write("loop.yml", file);
    let also = |id: &str| format!(r#"{{"id": "{id}", "description": "Write", "run": "echo 42 > answer"}}"#);
    let from = ["--from", "loop.yml", "--check", "test -e answer", "--yes", "--atom"];
    for verb in ["run", "align"] {
        let said = repo.aot(&[&[verb], &from[..], &[&also("A1")]].concat());
        assert_eq!(said.exit, 1, "{verb}: {}{}", said.out, said.err);
        assert!(said.err.contains("atom id `A1` is taken"), "{verb}: {}", said.err);
        assert!(!repo.path(STATE).exists(), "{verb}");
    }
    let said = repo.aot(&[&["run"], &from[..], &[&also("A2")]].concat());
    assert_eq!(
        (said.exit, repo.atoms().as_str()),
        (0, "A1:resolved A2:resolved"),
        "{}{}",
        said.out,
        said.err
    );
}

#[test]
fn without_an_agent_nothing_is_agreed_on() {
    let repo = unaligned();
    let words = ["run", "The answer is there", "--check", "test -e answer"];
    let said = repo.aot(&[&words[..], &["--yes"]].concat());
    assert_eq!(said.exit, 3, "{}{}", said.out, said.err);
    assert!(said.err.contains("no agent for A1") && said.err.contains("--agent NAME"), "{}", said.err);
    assert!(!repo.path(STATE).exists());
    // A dry run is a look before the start.
    let said = repo.aot(&[&words[..], &["--yes", "--dry-run"]].concat());
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("agents     missing: no agent for A1"), "{}", said.out);
    assert!(said.out.contains("branch     main, the default branch"), "{}", said.out);
    // At a terminal it is said instead of the question.
    let (code, seen) = Terminal::open(&repo, &words).end();
    assert_eq!(code, Some(3), "{}", plain(&seen));
    assert!(!plain(&seen).contains("Start?") && !repo.path(STATE).exists(), "{}", plain(&seen));
}

/// Whoever cannot start learns it before the checks run, and finds no loop afterwards.
#[test]
fn what_prevents_a_start_is_said_before_anything_runs() {
    type Spoil = fn(&Repo);
    let atom = ["--atom", ATOM];
    let rows: [(&str, Spoil, &[&str], i32, &str); 7] = [
        ("no agent", |_| {}, &[], 3, "no agent for A1"),
        ("unknown", |_| {}, &["--agent", "claud"], 3, "did you mean `claude`?"),
        (
            "no commit",
            |repo| drop(repo.git(&["update-ref", "-d", "HEAD"])),
            &atom,
            1,
            "git add -A && git commit",
        ),
        ("detached", |repo| drop(repo.git(&["checkout", "-q", "--detach"])), &atom, 1, "git switch -c NAME"),
        ("edits", |repo| repo.write("README", "Mine\n"), &atom, 1, "uncommitted changes: README"),
        ("merge", |repo| repo.write(".git/MERGE_HEAD", ""), &atom, 1, "git merge --abort"),
        ("branch", |_| {}, &["--branch", "main", "--atom", ATOM], 1, "the branch `main` is checked out in"),
    ];
    for (what, spoil, more, exit, told) in rows {
        let repo = unaligned();
        spoil(&repo);
        let check = format!("echo ran >> {}; false", repo.path("../ran").display());
        let said = repo.aot(&[&["run", "The answer is there", "--check", &check, "--yes"], more].concat());
        assert_eq!(said.exit, exit, "{what}: {}{}", said.out, said.err);
        assert!(said.err.contains(told), "{what}: {}", said.err);
        assert!(said.out.is_empty() && !repo.path("../ran").exists(), "{what}: {}", said.out);
        assert!(!repo.path(STATE).exists(), "{what}");
    }
    // A look before the start tells the same, and goes on.
    let repo = unaligned();
    repo.git(&["checkout", "-q", "--detach"]);
    let said = run(&repo, &["--dry-run"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("start      not yet: no branch is checked out"), "{}", said.out);
    // Edits are left alone where the work lands elsewhere.
    repo.write("README", "Mine\n");
    let said = run(&repo, &["--yes", "--branch", "night"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
}

/// Programs of these names, none of which is logged in.
fn agents(repo: &Repo, names: &[&str]) -> String {
    use std::os::unix::fs::PermissionsExt;
    for name in names {
        repo.write(&format!("../bin/{name}"), "#!/bin/sh\nexit 1\n");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(repo.path(&format!("../bin/{name}")), mode).expect("ours");
    }
    format!("{}:/usr/bin:/bin", repo.path("../bin").display())
}

fn said(mut command: std::process::Command) -> (Option<i32>, String, String) {
    let output = command.output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn of_several_agents_without_a_login_none_is_to_be_named() {
    let repo = unaligned();
    let with = |names: &[&str], more: &[&str]| {
        let path = agents(&repo, names);
        let mut command =
            repo.command(&[&["run", "The answer is there", "--check", "test -e answer"], more].concat());
        command.env("PATH", path);
        said(command)
    };
    let (exit, out, _) = with(&["claude"], &["--dry-run"]);
    assert_eq!(exit, Some(0));
    assert!(out.contains("note       no login of claude is found; if it has none, run `claude`"), "{out}");
    let (exit, out, err) = with(&["claude", "codex"], &["--yes"]);
    assert_eq!((exit, out.as_str()), (Some(3), ""), "{err}");
    for part in [
        "none of them is logged in: claude, codex",
        "/login",
        "run `codex login`",
        "as it is: --agent claude",
    ] {
        assert!(err.contains(part), "{part}: {err}");
    }
    assert!(!repo.path(STATE).exists());
    // A loop of commands does not need any of them.
    assert_eq!(with(&[], &["--yes", "--atom", ATOM]).0, Some(0));
}

#[test]
fn checks_that_pass_before_any_work_are_called_too_weak() {
    let repo = unaligned();
    let said = repo.aot(&["run", "Anything", "--check", "true", "--atom", ATOM, "--yes"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let flat = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "the check passes already",
        "add one that fails now, with --check \"COMMAND\"",
        "the checks passed before any work was done, so nothing was started",
        "next aot run \"GOAL\" --check \"COMMAND\", with a command that fails now",
    ] {
        assert!(flat.contains(part), "{part}: {}", said.out);
    }
    assert!(!run(&repo, &["--yes", "--force"]).out.contains("nothing was started"));
}

#[test]
fn an_alternative_without_an_agent_does_not_keep_the_others_from_starting() {
    let atoms = |first: &str| {
        format!(
            "goal: The answer is there\natoms:\n  - {{id: A1, description: One, or_group: way, run: {first:?}}}\n  - {{id: A2, description: Two, or_group: way}}\n"
        )
    };
    let words = ["run", "--from", "loop.yml", "--check", "test -e answer", "--yes", "--force"];
    let repo = unaligned();
    for (first, exit, end) in [("echo 42 > answer", 0, "DONE"), ("false", 3, "NO AGENT  no agent for A2")] {
        repo.write("loop.yml", &atoms(first));
        repo.git(&["rm", "-q", "--ignore-unmatch", "answer"]);
        let _ = repo.git(&["commit", "-q", "--allow-empty", "-m", "Again"]);
        let said = repo.aot(&words);
        assert_eq!(said.exit, exit, "{}{}", said.out, said.err);
        let flat = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
        let note =
            "note A2 needs an agent, and there is none: the loop halts if it comes to that (--agent NAME)";
        assert!(flat.contains(note) && said.out.contains(end), "{}", said.out);
    }
    // Named is an agent only where it is needed at once.
    repo.write("loop.yml", &atoms("true"));
    let mut command = repo.command(&words);
    command.env("PATH", agents(&repo, &["claude", "codex"]));
    let (_, out, err) = self::said(command);
    assert!(out.contains("A2 needs an agent"), "{out}{err}");
}

#[test]
fn of_commands_no_agent_run_is_said() {
    let repo = unaligned();
    let said = repo.aot(&[&["align"], &RUN[1..], &["--yes", "--no-run"]].concat());
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let status = repo.aot(&["status"]);
    assert!(status.out.contains("left at most  no agent run, 2h\n"), "{}", status.out);
    assert_eq!(repo.aot(&["status", "--json"]).halted()["bound"]["agent_runs"], 0);
    // Settings that name an agent let it change the plan.
    repo.write("../config/aot/aot.toml", "[cage]\nkind = \"none\"\n[agents]\ndefault = \"claude\"\n");
    let status = repo.aot(&["status"]);
    assert!(status.out.contains(" agent runs, 2h\n"), "{}", status.out);
    repo.write("../config/aot/aot.toml", "[cage]\nkind = \"none\"\n");
    let ran = repo.aot(&["run"]);
    assert!(ran.out.contains("plan     1 atom, 3 at a time, at most 20 iterations\n"), "{}", ran.out);
}

/// The driver knows its command line, and whoever looks does not.
#[test]
fn status_says_the_bound_of_the_run_that_goes_on() {
    let repo = Repo::with(&Plan { atoms: &atom("A1", "", "sleep 60"), ..Plan::default() });
    let bound = |repo: &Repo| repo.aot(&["status", "--json"]).halted()["bound"]["agent_runs"].clone();
    repo.write("../config/aot/aot.toml", "[cage]\nkind = \"none\"\n");
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    // Settings that are changed meanwhile do not count for it.
    repo.write("../config/aot/aot.toml", "[cage]\nkind = \"none\"\n[agents]\ndefault = \"claude\"\n");
    assert_eq!(bound(&repo), 0);
    live.signal("-INT");
    live.end();
    repo.write("../config/aot/aot.toml", "[cage]\nkind = \"none\"\n");
    assert_eq!(bound(&repo), 0);
    let mut live = repo.start(&["run", "--json", "--agent", "acp:/bin/cat"]);
    live.hear("\"type\":\"started\"");
    assert_ne!(bound(&repo), 0);
    live.signal("-INT");
    live.end();
}

#[test]
fn without_a_state_file_every_verb_says_how_to_start() {
    let repo = unaligned();
    for verb in ["run", "status", "graph", "log", "stop", "verify", "redirect", "ready", "validate", "lint"] {
        let said = repo.aot(&[verb]);
        assert_eq!(said.exit, 4, "{verb}: {}{}", said.out, said.err);
        let hint = "start with: aot run \"GOAL\" --check \"COMMAND\" (or `aot align`)";
        assert!(said.err.contains(hint), "{verb}: {}", said.err);
    }
}

#[test]
fn without_a_terminal_a_yes_is_needed() {
    let repo = unaligned();
    let said = run(&repo, &[]);
    assert_eq!(said.exit, 2, "{}{}", said.out, said.err);
    assert!(said.err.contains("needs confirmation") && said.err.contains("--yes"), "{}", said.err);
    assert!(!repo.path(STATE).exists());
}

#[test]
fn at_a_terminal_enter_starts_it_and_no_leaves_nothing() {
    let repo = unaligned();
    let mut terminal = Terminal::open(&repo, &RUN);
    terminal.answer("The work lands on main, the default branch.", "");
    terminal.answer("Start? [Y/n] ", "n");
    terminal.see("nothing was written");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(1), "{}", plain(&seen));
    assert!(!repo.path(STATE).exists());
    let mut terminal = Terminal::open(&repo, &RUN);
    terminal.answer("Start? [Y/n] ", "");
    terminal.see("DONE");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{}", plain(&seen));
    assert_eq!(repo.landed("main"), "A1");
}

#[test]
fn the_default_branch_is_asked_for_once() {
    let repo = unaligned();
    let mut terminal = Terminal::open(&repo, &RUN);
    terminal.answer("another branch: ", "no");
    terminal.answer("Name another branch", "two words");
    terminal.answer("`two words` cannot be the name of a branch", "night");
    terminal.answer("Start? [Y/n] ", "");
    terminal.see("DONE");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!((repo.landed("night").as_str(), repo.landed("main").as_str()), ("A1", ""));
    // Where the answer was yes, it is known.
    let mut terminal = Terminal::open(&repo, &[&RUN[..], &["--force"]].concat());
    terminal.answer("The work lands on main, the default branch.", "y");
    terminal.answer("Start? [Y/n] ", "n");
    terminal.end();
    let mut terminal = Terminal::open(&repo, &[&RUN[..], &["--force"]].concat());
    terminal.answer("Start? [Y/n] ", "n");
    let (_, seen) = terminal.end();
    assert!(!plain(&seen).contains("The work lands on"), "{}", plain(&seen));
    // Another branch is not asked for.
    repo.git(&["switch", "-q", "-c", "mine"]);
    let mut terminal = Terminal::open(&repo, &[&RUN[..], &["--force"]].concat());
    terminal.see("branch     mine, which is checked out");
    terminal.answer("Start? [Y/n] ", "n");
    let (_, seen) = terminal.end();
    assert!(!plain(&seen).contains("The work lands on"), "{}", plain(&seen));
    // The remote says which one it is.
    repo.git(&["update-ref", "refs/remotes/origin/mine", "HEAD"]);
    repo.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/mine"]);
    let said = run(&repo, &["--force", "--yes"]);
    assert!(said.out.contains("branch     mine, the default branch (--branch NAME"), "{}", said.out);
}

#[test]
fn hooks_that_do_not_run_are_said() {
    use std::os::unix::fs::PermissionsExt;
    let hook = |repo: &Repo, path: &str, mode: u32| {
        repo.write(path, "#!/bin/sh\nexit 1\n");
        std::fs::set_permissions(repo.path(path), std::fs::Permissions::from_mode(mode)).expect("ours");
    };
    let page = |repo: &Repo| {
        let said = run(repo, &["--yes", "--dry-run"]);
        assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
        said.out.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let repo = unaligned();
    hook(&repo, ".git/hooks/pre-push", 0o755);
    hook(&repo, ".git/hooks/commit-msg", 0o644);
    assert!(!page(&repo).contains("git hooks"), "{}", page(&repo));
    hook(&repo, ".git/hooks/pre-commit", 0o755);
    let told = "git hooks do not run on the commits of a loop (pre-commit); a check can run what they run";
    assert!(page(&repo).contains(told), "{}", page(&repo));
    // As the project's own tools set it up.
    hook(&repo, ".husky/commit-msg", 0o755);
    repo.git(&["config", "core.hooksPath", ".husky"]);
    assert!(page(&repo).contains("(commit-msg);"), "{}", page(&repo));
    assert_eq!(run(&repo, &["--yes"]).exit, 0, "and they do not");
}
