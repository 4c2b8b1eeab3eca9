//! `aot undo`: everything back, whatever else is on the branch, and nothing half.

use aot_runner::tree::{Project, ProjectRepository};
use serde_json::json;

use crate::repo::{Plan, Repo, STATE, atom, check};
use crate::terminal::{Terminal, plain};

/// Two atoms that landed, a file each.
fn landed(words: &[&str]) -> Repo {
    let atoms = [atom("A1", "", "echo 1 > a"), atom("A2", "A1", "echo 2 > b")].concat();
    let repo = Repo::with(&Plan { atoms: &atoms, base_case: &check("test -f b"), ..Plan::default() });
    let ran = repo.aot(&[&["run"], words].concat());
    assert_eq!(ran.exit, 0, "{}{}", ran.out, ran.err);
    repo
}

fn commit(repo: &Repo, path: &str, text: &str) {
    repo.write(path, text);
    repo.git(&["add", path]);
    repo.git(&["commit", "-qm", &format!("Write {path}")]);
}

/// The branch, the files and the state, none of which a refusal may change.
fn everything(repo: &Repo) -> String {
    let refs = repo.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
    format!("{refs}\n{}\n{}", repo.git(&["status", "--porcelain"]), repo.read(STATE))
}

fn refused(repo: &Repo, words: &[&str], told: &[&str]) {
    let before = everything(repo);
    let said = repo.aot(&[&["undo", "--yes"], words].concat());
    assert_eq!(said.exit, 1, "{}{}", said.out, said.err);
    told.iter().for_each(|told| assert!(said.err.contains(told), "{told}: {}", said.err));
    assert_eq!(everything(repo), before);
}

#[test]
fn each_commit_is_reverted_and_others_stay() {
    let repo = landed(&[]);
    commit(&repo, "mine", "mine\n");
    let said = repo.aot(&["undo", "--yes", "--json"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let atoms = |value: &serde_json::Value| {
        let commits = value["undo"]["commits"].as_array().cloned().unwrap_or_default();
        commits.iter().map(|one| one["atom"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (atoms(&said.halted()), &said.halted()["undo"]["way"]),
        (vec!["A2".into(), "A1".into()], &json!("revert"))
    );
    let log = repo.git(&["log", "--format=%s", "-4"]);
    assert_eq!(log, "Revert \"Do A1\"\nRevert \"Do A2\"\nWrite mine\nDo A2");
    assert!(!repo.path("a").exists() && !repo.path("b").exists());
    assert_eq!((repo.read("mine").as_str(), repo.git(&["status", "--porcelain"]).as_str()), ("mine\n", ""));
    assert_eq!(repo.atoms(), "A1:pending A2:pending");
    let state = repo.state();
    assert_eq!(state["control"]["status"], "stopped");
    assert_eq!(state["corrections"][0]["description"], "undone: 2 commits on main");
    assert_eq!(repo.leftovers(), Vec::<String>::new());
    // What the checks found before is no longer told.
    let said = repo.aot(&["status"]);
    assert!(said.out.contains("not seen yet"), "{}", said.out);
    // There is nothing left to take back, and the loop can do it all again.
    refused(&repo, &[], &["no commit of this loop to take back on main"]);
    assert_eq!(repo.run().exit, 0);
    assert_eq!(repo.read("a"), "1\n");
    // What is reverted counts no more.
    let said = repo.aot(&["undo", "--yes"]);
    assert!(
        said.out.contains("undone: 2 commits on main; before it, main was at "),
        "{}{}",
        said.out,
        said.err
    );
}

#[test]
fn a_branch_of_its_own_goes_back_to_where_it_began() {
    let undo = |repo: &Repo| {
        let said = repo.aot(&["undo", "--yes", "--json"]);
        assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
        said.halted()["undo"]["way"].as_str().unwrap_or_default().to_owned()
    };
    let tip = |repo: &Repo, branch: &str| repo.git(&["rev-parse", branch]);
    let is_empty =
        |repo: &Repo, branch: &str| repo.git(&["ls-tree", "--name-only", branch, "a", "b"]).is_empty();
    let repo = landed(&["--branch", "night"]);
    let before = tip(&repo, "night");
    let said = repo.aot(&["undo", "--yes"]);
    assert_eq!(tip(&repo, "night"), tip(&repo, "main"), "{}{}", said.out, said.err);
    assert!(said.out.contains("by moving night back: nothing else is on it"), "{}", said.out);
    assert!(
        said.out.contains(&format!("`git branch -f night {}` brings it back", &before[..7])),
        "{}",
        said.out
    );
    // Somebody has it.
    let repo = landed(&["--branch", "night"]);
    repo.git(&["update-ref", "refs/remotes/origin/night", "night"]);
    assert_eq!((undo(&repo).as_str(), is_empty(&repo, "night")), ("revert", true));
    // Somebody else's commit is on it; it is checked out by now.
    let repo = landed(&["--branch", "night"]);
    repo.git(&["switch", "-q", "night"]);
    commit(&repo, "mine", "mine\n");
    assert_eq!((undo(&repo).as_str(), is_empty(&repo, "night")), ("revert", true));
    assert_eq!(repo.read("mine"), "mine\n");
    assert!(!repo.path("a").exists());
    // A commit that somebody amended keeps its trailers, and is not dropped.
    let repo = landed(&["--branch", "night"]);
    repo.git(&["switch", "-q", "night"]);
    repo.write("b", "mine\n");
    repo.git(&["commit", "-qa", "--amend", "--no-edit"]);
    let mine = tip(&repo, "night");
    assert_eq!((undo(&repo).as_str(), is_empty(&repo, "night")), ("revert", true));
    repo.git(&["merge-base", "--is-ancestor", &mine, "night"]);
    // It was merged: what is checked out is what a person means.
    let repo = landed(&["--branch", "night"]);
    repo.git(&["merge", "-q", "--no-ff", "-m", "Merge", "night"]);
    assert_eq!(
        (undo(&repo).as_str(), is_empty(&repo, "main"), is_empty(&repo, "night")),
        ("revert", true, false)
    );
    assert!(!repo.path("a").exists());
}

#[test]
fn what_is_in_the_way_leaves_everything_as_it_was() {
    // Uncommitted edits, where the work would be taken back; elsewhere they stay.
    let repo = landed(&[]);
    repo.write("a", "1\nmine\n");
    refused(&repo, &[], &["uncommitted work is in the way: a", "nothing was changed"]);
    repo.git(&["checkout", "-q", "a"]);
    repo.write("README", "mine\n");
    assert_eq!(repo.aot(&["undo", "--yes"]).exit, 0);
    assert_eq!(
        (repo.read("README").as_str(), repo.git(&["status", "--porcelain"]).as_str()),
        ("mine\n", " M README")
    );
    // A commit that stands on it; the first revert would be clean.
    let repo = landed(&[]);
    commit(&repo, "a", "one\n");
    let first = repo.git(&["log", "--format=%h", "--abbrev=7", "-1", "--grep", "Aot-Atom: A1"]);
    refused(&repo, &[], &[&format!("commit {first} (Do A1) cannot be taken back"), "in a", "git revert"]);
    // The person is in the middle of something.
    let repo = landed(&[]);
    repo.write(".git/MERGE_HEAD", &repo.git(&["rev-parse", "HEAD"]));
    refused(&repo, &[], &["a merge is in progress"]);
    // The branch is checked out elsewhere, is not there, or has nothing of the loop.
    let repo = landed(&["--branch", "night"]);
    repo.git(&["worktree", "add", "-q", "../other", "night"]);
    refused(&repo, &[], &["the branch `night` is checked out in "]);
    refused(&repo, &["--branch", "nowhere"], &["no commit of this loop to take back on nowhere"]);
    refused(&repo, &["--branch", "main"], &["no commit of this loop to take back on main"]);
    // Where nothing is isolated nothing is recorded.
    let repo = Repo::bare(&Plan { objective: "  isolation: {mode: none}", ..Plan::default() });
    assert_eq!(repo.run().exit, 0);
    let said = repo.aot(&["undo", "--yes"]);
    assert_eq!(said.exit, 1, "{}{}", said.out, said.err);
    assert!(said.err.contains("nothing was recorded from which it could be taken back"), "{}", said.err);
    // Somebody drives the loop.
    let repo = landed(&[]);
    assert_eq!(repo.aot(&["redirect", "--add", r#"{"description": "Long", "run": "sleep 600"}"#]).exit, 0);
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    let said = repo.aot(&["undo", "--yes"]);
    assert!(said.exit == 1 && said.err.contains("driven already"), "{}{}", said.out, said.err);
    assert_eq!(repo.aot(&["stop", "--now"]).exit, 0);
    assert_eq!(live.end().exit, 10);
}

#[test]
fn it_is_asked_first() {
    let repo = landed(&[]);
    let before = everything(&repo);
    let said = repo.aot(&["undo"]);
    assert_eq!(said.exit, 2, "{}{}", said.out, said.err);
    assert!(said.err.contains("needs confirmation"), "{}", said.err);
    let mut terminal = Terminal::open(&repo, &["undo"]);
    terminal.see("takes back 2 commits on main, with a revert commit for each\n");
    terminal.see("  A2  Do A2\n");
    terminal.answer("Take it back? [Y/n] ", "n");
    let (code, seen) = terminal.end();
    assert_eq!((code, everything(&repo)), (Some(1), before), "{}", plain(&seen));
    let mut terminal = Terminal::open(&repo, &["undo"]);
    terminal.answer("Take it back? [Y/n] ", "");
    terminal.see("undone: 2 commits on main");
    assert_eq!(terminal.end().0, Some(0));
    assert!(!repo.path("a").exists());
}

/// Killed after the checkout moved and before the branch did.
#[test]
fn an_undo_that_was_killed_is_finished() {
    let repo = landed(&[]);
    let id = |name: &str| repo.git(&["rev-parse", name]);
    let (first, second) = (id("HEAD~1"), id("HEAD"));
    let message = format!("Undo the loop\n\nThis reverts commit {second}.\nThis reverts commit {first}.\n");
    let noted = repo.git(&["commit-tree", "-p", "HEAD", "-m", &message, "HEAD~2^{tree}"]);
    let (root, state) = (repo.path(""), repo.path(STATE));
    let sidecar = repo.path(".claude/aot");
    let key = Project { root, state, sidecar, cache: None, repository: ProjectRepository::Searched }.key();
    repo.git(&["update-ref", &format!("refs/aot/landing/{key}/heads/main"), &noted]);
    repo.git(&["read-tree", "-m", "-u", "HEAD", &noted]);
    let said = repo.aot(&["undo", "--yes"]);
    assert!(said.exit == 1 && said.err.contains("no commit of this loop"), "{}{}", said.out, said.err);
    assert_eq!((id("main"), repo.path("a").exists()), (noted, false));
    assert_eq!(repo.leftovers(), Vec::<String>::new());
}

/// A folder without git, in which two atoms changed files and made one.
fn in_place() -> Repo {
    let atoms =
        [atom("A1", "", "echo 1 >> list; echo 1 > a"), atom("A2", "A1", "echo 2 > b; rm old")].concat();
    let repo = Repo::bare(&Plan { atoms: &atoms, base_case: &check("test -f b"), ..Plan::default() });
    repo.write("list", "0\n");
    repo.write("old", "old\n");
    let ran = repo.run();
    assert_eq!(ran.exit, 0, "{}{}", ran.out, ran.err);
    assert_eq!(ran.halted()["undo"], "aot undo");
    repo
}

#[test]
fn in_place_the_files_are_as_they_were_and_edits_elsewhere_stay() {
    let repo = in_place();
    repo.write("mine", "mine\n");
    let said = repo.aot(&["undo", "--yes", "--json"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let undo = &said.halted()["undo"];
    assert_eq!((&undo["way"], &undo["branch"]), (&json!("in_place"), &json!(null)));
    assert_eq!((repo.read("list").as_str(), repo.read("old").as_str()), ("0\n", "old\n"));
    assert_eq!((repo.path("a").exists(), repo.path("b").exists()), (false, false));
    assert_eq!((repo.read("mine").as_str(), repo.atoms().as_str()), ("mine\n", "A1:pending A2:pending"));
    assert_eq!(repo.state()["corrections"][0]["description"], "undone: 2 changes in place");
    let again = repo.aot(&["undo", "--yes"]);
    assert!(again.exit == 1 && again.err.contains("nothing that this loop did is left"), "{}", again.err);
    // The loop can do it anew.
    assert_eq!(repo.run().exit, 0);
    assert_eq!(repo.read("list"), "0\n1\n");
}

#[test]
fn in_place_what_was_changed_since_leaves_everything_as_it_was() {
    let check = |edit: &dyn Fn(&Repo), words: &[&str], told: &str| {
        let repo = in_place();
        edit(&repo);
        let files = |repo: &Repo| ["list", "a", "b", "old"].map(|path| repo.read(path));
        let before = files(&repo);
        let said = repo.aot(&[&["undo", "--yes"], words].concat());
        assert!(said.exit == 1 && said.err.contains(told), "{told}: {}{}", said.out, said.err);
        assert_eq!((files(&repo), repo.atoms().as_str()), (before, "A1:resolved A2:resolved"));
    };
    check(
        &|repo| repo.write("list", "0\n1\n2\n"),
        &[],
        "what A1 did cannot be taken back: it was changed since, in list",
    );
    check(&|repo| repo.write("a", "mine\n"), &[], "in a");
    check(&|_| {}, &["--branch", "main"], "no commit of this loop to take back on main");
    let gone = |repo: &Repo| std::fs::remove_dir_all(repo.path(".claude/aot/shadow.git")).expect("removed");
    check(&gone, &[], "nothing was recorded");
}
