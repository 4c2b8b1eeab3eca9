//! How work comes onto the branch, and back off it.

use std::fs;
use std::ops::ControlFlow;

use aot_runner::tree::{End, Landing, Reverted};

use crate::Test;
use crate::kit::{
    Place, atom, commit_of, git, give_up, land, landed, message, no_wait, read, try_git, work, write,
};

pub const TESTS: &[Test] = &[
    ("one_commit_with_its_trailers", one_commit_with_its_trailers),
    ("the_checkout_follows_and_keeps_what_is_unrelated", the_checkout_follows_and_keeps_what_is_unrelated),
    ("nothing_changed_makes_no_commit", nothing_changed_makes_no_commit),
    ("ours_and_shared_never_land", ours_and_shared_never_land),
    ("what_a_worker_committed_lands_too", what_a_worker_committed_lands_too),
    ("a_moved_branch_is_merged_and_checked_again", a_moved_branch_is_merged_and_checked_again),
    ("conflicts_are_named", conflicts_are_named),
    ("a_landing_waits_for_what_is_in_its_way", a_landing_waits_for_what_is_in_its_way),
    ("whoever_edits_commits_or_switches_loses_nothing", whoever_edits_commits_or_switches_loses_nothing),
    ("another_branch_leaves_the_checkout_alone", another_branch_leaves_the_checkout_alone),
    ("a_rewritten_history_does_not_come_back", a_rewritten_history_does_not_come_back),
    ("reverts", reverts),
    (
        "a_lock_on_the_branch_leaves_the_checkout_as_it_was",
        a_lock_on_the_branch_leaves_the_checkout_as_it_was,
    ),
    ("the_folder_of_the_loops_files_stays_a_folder", the_folder_of_the_loops_files_stays_a_folder),
    ("found_is_of_this_loop_atom_and_attempt", found_is_of_this_loop_atom_and_attempt),
    ("hooks_signatures_and_names_do_not_matter", hooks_signatures_and_names_do_not_matter),
    ("repositories_within_do_not_land", repositories_within_do_not_land),
];

fn one_commit_with_its_trailers() {
    let place = Place::with(&[("a.txt", "1\n")]);
    let start = place.tip("main");
    let ground = place.ground();
    let commit = landed(&ground, "A1", &[("a.txt", "2\n"), ("new/b.txt", "b\n")]);
    assert_eq!(place.tip("main"), commit);
    assert_eq!(place.git(&["rev-list", "--parents", "-1", "main"]), format!("{commit} {start}"));
    let told = place.git(&["log", "-1", "--format=%an|%s|%(trailers)", "main"]);
    assert_eq!(
        told,
        "Ann|What A1 is|Aot-Summary: A1 was done\nAot-Loop: 01loop\nAot-Atom: A1\nAot-Attempt: 1"
    );
    let second = landed(&ground, "A2", &[("a.txt", "3\n")]);
    assert_eq!(place.git(&["rev-list", "--parents", "-1", "main"]), format!("{second} {commit}"));
    ground.close().expect("closed");
    assert_eq!(place.own_worktrees(), 1);
}

fn the_checkout_follows_and_keeps_what_is_unrelated() {
    let place =
        Place::with(&[("a.txt", "1\n"), ("gone.txt", "x\n"), ("other.txt", "o\n"), ("staged.txt", "s\n")]);
    let ground = place.ground();
    let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
    write(lent.root(), "a.txt", "2\n");
    write(lent.root(), "deep/er/b.txt", "b\n");
    fs::remove_file(lent.root().join("gone.txt")).expect("removed");
    assert_eq!(ground.changed(&lent).expect("seen"), ["a.txt", "deep/er/b.txt", "gone.txt"]);
    place.write("other.txt", "edited\n");
    place.write("staged.txt", "edited\n");
    place.write("mine.txt", "untracked\n");
    place.git(&["add", "staged.txt"]);
    let landing = land(&ground, &mut lent);
    let Landing::Landed { commit: Some(_), paths } = landing else { panic!("{landing:?}") };
    assert_eq!(paths, ["a.txt", "deep/er/b.txt", "gone.txt"]);
    assert_eq!(place.status(), " M other.txt\nM  staged.txt\n?? mine.txt");
    assert_eq!((place.read("a.txt"), place.read("deep/er/b.txt")), ("2\n".into(), "b\n".into()));
    assert_eq!(place.read("gone.txt"), "(nothing)");
    assert_eq!(ground.uncommitted().expect("seen"), ["other.txt", "staged.txt"]);
    assert_eq!(ground.verify_root().expect("a folder"), place.root);
}

fn nothing_changed_makes_no_commit() {
    let place = Place::with(&[("a.txt", "1\n")]);
    let ground = place.ground();
    let start = place.tip("main");
    let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
    write(lent.root(), "a.txt", "1\n");
    write(lent.root(), ".claude/aot-loop-state.md", "a worker wrote this\n");
    assert_eq!(ground.changed(&lent).expect("seen"), Vec::<String>::new());
    assert_eq!(land(&ground, &mut lent), Landing::Landed { commit: None, paths: vec![] });
    assert_eq!(ground.give_back(lent, End::Landed).expect("given back"), None);
    // The same change landed meanwhile.
    let mut lent = ground.lend(&work("A1", 2)).expect("a tree");
    write(lent.root(), "a.txt", "2\n");
    place.write("a.txt", "2\n");
    place.git(&["commit", "-qam", "by hand"]);
    assert_eq!(land(&ground, &mut lent), Landing::Landed { commit: None, paths: vec![] });
    assert_eq!(place.git(&["rev-list", "--count", &format!("{start}..main")]), "1");
}

fn ours_and_shared_never_land() {
    let place = Place::with(&[("a.txt", "1\n"), (".gitignore", "build/\n")]).wanting(|wanted| {
        wanted.share = vec!["modules".into(), "./env/x".into(), "absent".into(), "a.txt".into()]
    });
    // The state file is tracked, and changes all the time.
    assert!(place.git(&["ls-files"]).contains("aot-loop-state.md"));
    place.write(".claude/aot-loop-state.md", "state 1\n");
    place.write("modules/m.js", "m\n");
    place.write("env/x", "secret\n");
    let ground = place.ground();
    let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
    assert_eq!(read(lent.root(), "modules/m.js"), "m\n");
    assert_eq!(read(lent.root(), "env/x"), "secret\n");
    assert!(!lent.root().join("absent").exists());
    write(lent.root(), "a.txt", "2\n");
    write(lent.root(), "build/out", "ignored\n");
    write(lent.root(), ".claude/aot-loop-state.md", "a worker wrote this\n");
    write(lent.root(), ".claude/aot/journal", "and this\n");
    git(lent.top(), &["add", "-A", "--force"]);
    git(lent.top(), &["rm", "-q", "--cached", "--force", "build/out"]);
    assert_eq!(ground.changed(&lent).expect("seen"), ["a.txt"]);
    let commit = commit_of(land(&ground, &mut lent));
    assert_eq!(place.git(&["diff", "--name-only", &format!("{commit}^"), &commit]), "a.txt");
    assert_eq!(place.read(".claude/aot-loop-state.md"), "state 1\n");
    ground.give_back(lent, End::Landed).expect("given back");
    // The tree is cleaned; what the links lead to is not.
    let again = ground.lend(&work("A2", 1)).expect("a tree");
    assert_eq!(read(again.root(), "modules/m.js"), "m\n");
    assert_eq!(place.read("modules/m.js"), "m\n");
}

fn what_a_worker_committed_lands_too() {
    let place = Place::with(&[("a.txt", "1\n"), (".gitignore", "*.log\n")]);
    let ground = place.ground();
    let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
    write(lent.root(), "a.txt", "2\n");
    write(lent.root(), "forced.log", "f\n");
    git(lent.top(), &["add", "-f", "forced.log"]);
    git(lent.top(), &["commit", "-qam", "my own"]);
    git(lent.top(), &["switch", "-qc", "worker"]);
    write(lent.root(), "b.txt", "b\n");
    // A git command of the worker's was killed.
    fs::write(lent.git_dirs()[0].join("index.lock"), "").expect("a lock");
    let commit = commit_of(land(&ground, &mut lent));
    let told = place.git(&["show", "--format=%s", "--name-only", &commit]);
    assert_eq!(told, "What A1 is\n\na.txt\nb.txt\nforced.log");
    ground.give_back(lent, End::Landed).expect("given back");
    let again = ground.lend(&work("A2", 1)).expect("a tree");
    assert_eq!(git(again.top(), &["rev-parse", "HEAD"]), commit);
    assert_eq!(git(again.top(), &["rev-parse", "--abbrev-ref", "HEAD"]), "HEAD");
    assert!(
        place.git(&["log", "--format=%s", "-1", "worker"]).contains("my own"),
        "a branch of the worker's stays"
    );
}

fn a_moved_branch_is_merged_and_checked_again() {
    let place = Place::with(&[("a.txt", "1\n2\n3\n4\n5\n"), (".gitignore", "cache\n")]);
    let ground = place.ground();
    let mut first = ground.lend(&work("A1", 1)).expect("a tree");
    let mut second = ground.lend(&work("A2", 1)).expect("a tree");
    let mut third = ground.lend(&work("A3", 1)).expect("a tree");
    write(first.root(), "a.txt", "one\n2\n3\n4\n5\n");
    write(second.root(), "a.txt", "1\n2\n3\n4\nfive\n");
    write(second.root(), "cache", "kept\n");
    write(third.root(), "c.txt", "c\n");
    let one = commit_of(land(&ground, &mut first));
    let mut seen = Vec::new();
    let two = ground.land(
        &mut second,
        &message("A2", 1),
        &mut |lent, _| {
            seen.push((
                read(lent.root(), "a.txt"),
                read(lent.root(), "cache"),
                git(lent.top(), &["status", "--short"]),
            ));
            Ok(())
        },
        &mut no_wait,
    );
    let two = commit_of(two.expect("it lands"));
    assert_eq!(seen, [("one\n2\n3\n4\nfive\n".to_owned(), "kept\n".to_owned(), "M  a.txt".to_owned())]);
    assert_eq!(place.tip("main^"), one);
    assert_eq!(place.read("a.txt"), "one\n2\n3\n4\nfive\n");
    let refused = ground.land(
        &mut third,
        &message("A3", 1),
        &mut |_, _| Err("red on the merged tree".into()),
        &mut no_wait,
    );
    assert_eq!(refused.expect("an answer"), Landing::Conflict { reason: "red on the merged tree".into() });
    assert_eq!((place.tip("main"), place.status()), (two, String::new()));
}

fn conflicts_are_named() {
    let place = Place::in_folder("sub", &[("a.txt", "1\n"), ("b.txt", "1\n")]);
    write(&place.top, "outside.txt", "1\n");
    place.git(&["add", "outside.txt"]);
    place.git(&["commit", "-qm", "outside"]);
    let ground = place.ground();
    let mut first = ground.lend(&work("A1", 1)).expect("a tree");
    let mut second = ground.lend(&work("A2", 1)).expect("a tree");
    for (lent, text) in [(&first, "x\n"), (&second, "y\n")] {
        write(lent.root(), "a.txt", text);
        write(lent.top(), "outside.txt", text);
    }
    let one = commit_of(land(&ground, &mut first));
    let landing =
        ground.land(&mut second, &message("A2", 1), &mut |_, _| panic!("nothing to check"), &mut no_wait);
    let reason = "it does not merge with what landed meanwhile, in ../outside.txt, a.txt".to_owned();
    assert_eq!(landing.expect("an answer"), Landing::Conflict { reason });
    assert_eq!(place.tip("main"), one);
    let kept = ground.give_back(second, End::Discarded { reason: "a conflict".into() }).expect("given back");
    assert_eq!(place.git(&["show", &format!("{}:sub/a.txt", kept.expect("it is kept"))]), "y");
}

fn a_landing_waits_for_what_is_in_its_way() {
    /// What the user has, what is named as in the way, and how the user gets it out of it.
    fn check(name: &str, prepare: fn(&Place), named: &[&str], free: fn(&Place)) {
        let place = Place::with(&[
            ("a.txt", "1\n"),
            ("b.txt", "1\n"),
            ("folder/f.txt", "1\n"),
            (".gitignore", "*.log\n"),
        ]);
        let ground = place.ground();
        let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
        write(lent.root(), "a.txt", "2\n");
        write(lent.root(), "new/n.txt", "n\n");
        fs::remove_dir_all(lent.root().join("folder")).expect("removed");
        write(lent.root(), "folder", "a file now\n");
        write(lent.root(), "out.log", "log\n");
        git(lent.top(), &["add", "-f", "out.log"]);
        prepare(&place);
        let before = crate::kit::contents(&place.root);
        let start = place.tip("main");
        let given_up = ground.land(&mut lent, &message("A1", 1), &mut |_, _| Ok(()), &mut give_up);
        assert_eq!(given_up.expect("an answer"), Landing::GivenUp, "{name}");
        assert_eq!(crate::kit::contents(&place.root), before, "{name}: nothing is touched");
        assert_eq!(place.tip("main"), start, "{name}");
        let mut told = Vec::new();
        let landing = ground.land(&mut lent, &message("A1", 1), &mut |_, _| Ok(()), &mut |waiting| {
            told.push(waiting.clone());
            if told.len() == 2 {
                free(&place);
            }
            assert!(told.len() < 50, "{name}: {told:?}");
            ControlFlow::Continue(())
        });
        let commit = commit_of(landing.expect("it lands"));
        assert_eq!(told.len(), 2, "{name}: {told:?}");
        assert_eq!(told[0].paths, named, "{name}");
        assert_eq!(place.tip("main"), commit, "{name}");
        assert_eq!(place.read("folder"), "a file now\n", "{name}");
        assert_eq!(place.git(&["for-each-ref", "refs/aot/landing"]), "", "{name}");
    }
    let edit: fn(&Place) = |place| place.write("a.txt", "mine\n");
    let back: fn(&Place) = |place| drop(place.git(&["checkout", "-q", "a.txt"]));
    check("an edit", edit, &["a.txt"], back);
    check(
        "a staged edit",
        |place| {
            place.write("a.txt", "mine\n");
            place.git(&["add", "a.txt"]);
        },
        &["a.txt"],
        |place| drop(place.git(&["reset", "-q", "--hard"])),
    );
    check(
        "an edit that git was told not to see",
        |place| {
            place.git(&["update-index", "--assume-unchanged", "a.txt"]);
            place.write("a.txt", "mine\n");
        },
        &["a.txt"],
        |place| place.write("a.txt", "1\n"),
    );
    check(
        "a file that nobody tracks",
        |place| place.write("new/n.txt", "mine\n"),
        &["new/n.txt"],
        |place| fs::remove_file(place.root.join("new/n.txt")).expect("removed"),
    );
    check(
        "an ignored file",
        |place| place.write("out.log", "mine\n"),
        &["out.log"],
        |place| fs::remove_file(place.root.join("out.log")).expect("removed"),
    );
    check(
        "a file where a folder is to be",
        |place| place.write("new", "mine\n"),
        &["new"],
        |place| fs::remove_file(place.root.join("new")).expect("removed"),
    );
    check(
        "an ignored file in a folder that is to be a file",
        |place| place.write("folder/deep/x.log", "mine\n"),
        &["folder/deep/x.log"],
        |place| fs::remove_dir_all(place.root.join("folder/deep")).expect("removed"),
    );
    check(
        "a lock",
        |place| fs::write(place.top.join(".git/index.lock"), "").expect("a lock"),
        &[],
        |place| fs::remove_file(place.top.join(".git/index.lock")).expect("removed"),
    );
    check(
        "a rebase",
        |place| {
            write(&place.top, ".git/rebase-merge/head-name", "refs/heads/main\n");
            place.git(&["checkout", "-q", "--detach"]);
        },
        &[],
        |place| {
            fs::remove_dir_all(place.top.join(".git/rebase-merge")).expect("removed");
            place.git(&["switch", "-q", "main"]);
        },
    );
}

fn whoever_edits_commits_or_switches_loses_nothing() {
    // Commits while it waits: it is merged with that.
    let place = Place::with(&[("a.txt", "1\n"), ("b.txt", "1\n")]);
    let ground = place.ground();
    let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
    write(lent.root(), "a.txt", "2\n");
    place.write("a.txt", "mine\n");
    let mut checked = 0;
    let landing = ground.land(
        &mut lent,
        &message("A1", 1),
        &mut |lent, _| {
            assert_eq!(read(lent.root(), "b.txt"), "mine\n");
            checked += 1;
            Ok(())
        },
        &mut |_| {
            place.git(&["checkout", "-q", "a.txt"]);
            place.write("b.txt", "mine\n");
            place.git(&["commit", "-qam", "by hand"]);
            ControlFlow::Continue(())
        },
    );
    let commit = commit_of(landing.expect("it lands"));
    assert_eq!((checked, place.tip("main")), (1, commit.clone()));
    assert_eq!(place.git(&["log", "-1", "--format=%s", "main^"]), "by hand");
    assert_eq!(place.status(), "");
    // Is on another branch: only the branch moves, and the base case is evaluated in a tree of it.
    place.git(&["switch", "-qc", "aside"]);
    place.write("a.txt", "aside\n");
    let two = landed(&ground, "A2", &[("a.txt", "3\n")]);
    assert_eq!((place.tip("main"), place.tip("aside")), (two.clone(), commit));
    assert_eq!((place.read("a.txt"), place.status()), ("aside\n".into(), " M a.txt".into()));
    let verified = ground.verify_root().expect("a folder");
    assert_ne!(verified, place.root);
    assert_eq!(read(&verified, "a.txt"), "3\n");
    assert_eq!(ground.uncommitted().expect("seen"), Vec::<String>::new());
    // Has the branch in another worktree: it is waited for.
    let beside = place.top.with_file_name("beside");
    place.git(&["worktree", "add", "-q", &beside.display().to_string(), "main"]);
    let mut lent = ground.lend(&work("A3", 1)).expect("a tree");
    write(lent.root(), "a.txt", "4\n");
    let mut told = Vec::new();
    let landing = ground.land(&mut lent, &message("A3", 1), &mut |_, _| Ok(()), &mut |waiting| {
        told.push(waiting.reason.clone());
        ControlFlow::Break(())
    });
    assert_eq!(landing.expect("an answer"), Landing::GivenUp);
    assert_eq!(told, [format!("the branch `main` is checked out in {}", beside.display())]);
    assert_eq!(place.tip("main"), two);
}

fn another_branch_leaves_the_checkout_alone() {
    let place = Place::with(&[("a.txt", "1\n")]).wanting(|wanted| wanted.branch = Some("work/x".into()));
    place.write("a.txt", "dirty\n");
    let start = place.tip("main");
    let ground = place.ground();
    assert_eq!(ground.branch(), Some("work/x"));
    let commit = landed(&ground, "A1", &[("a.txt", "2\n")]);
    assert_eq!((place.tip("main"), place.tip("work/x")), (start, commit));
    assert_eq!((place.read("a.txt"), place.status()), ("dirty\n".into(), " M a.txt".into()));
    let root = ground.verify_root().expect("a folder");
    assert_eq!(read(&root, "a.txt"), "2\n");
    landed(&ground, "A2", &[("a.txt", "3\n")]);
    assert_eq!(ground.verify_root().expect("a folder"), root);
    assert_eq!(read(&root, "a.txt"), "3\n");
    assert_eq!(ground.uncommitted().expect("seen"), Vec::<String>::new());
    ground.close().expect("closed");
    // It is taken up again where it was.
    let ground = place.ground();
    assert_eq!(ground.base().expect("a tip"), Some(place.tip("work/x")));
}

fn a_rewritten_history_does_not_come_back() {
    let place = Place::with(&[("a.txt", "1\n")]);
    place.write("dropped.txt", "d\n");
    place.git(&["add", "-A"]);
    place.git(&["commit", "-qm", "to be dropped"]);
    let ground = place.ground();
    let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
    write(lent.root(), "b.txt", "b\n");
    place.git(&["reset", "-q", "--hard", "HEAD^"]);
    commit_of(land(&ground, &mut lent));
    assert_eq!(place.read("dropped.txt"), "(nothing)");
    assert_eq!(place.read("b.txt"), "b\n");
}

fn reverts() {
    let place = Place::with(&[("a.txt", "1\n"), ("b.txt", "1\n")]);
    let ground = place.ground();
    let one = landed(&ground, "A1", &[("a.txt", "2\n"), ("new.txt", "n\n")]);
    let two = landed(&ground, "A2", &[("b.txt", "2\n")]);
    let revert =
        |name: &str, commit: &str| ground.revert(&atom(name), commit, &mut no_wait).expect("an answer");
    let Reverted::Reverted { commit } = revert("A1", &one) else { panic!("it is clean") };
    assert_eq!(place.tip("main"), commit);
    assert_eq!(
        (place.read("a.txt"), place.read("new.txt"), place.read("b.txt")),
        ("1\n".into(), "(nothing)".into(), "2\n".into())
    );
    assert_eq!(place.status(), "");
    let told = place.git(&["log", "-1", "--format=%B"]);
    assert!(told.starts_with("Revert \"What A1 is\"\n\nThis reverts commit "), "{told}");
    assert_eq!(revert("A1", &one), Reverted::NotThere, "twice");
    assert_eq!(revert("A1", &"0".repeat(40)), Reverted::NotThere, "unknown");
    let three = landed(&ground, "A3", &[("b.txt", "3\n")]);
    assert_eq!(revert("A2", &two), Reverted::NotClean { paths: vec!["b.txt".into()] });
    assert_eq!(place.tip("main"), three);
    place.write("b.txt", "edited\n");
    assert_eq!(ground.revert(&atom("A3"), &three, &mut give_up).expect("an answer"), Reverted::GivenUp);
    assert_eq!(place.read("b.txt"), "edited\n");
    let aside =
        place.git(&["commit-tree", "-m", "not on the branch", "-p", &one, &format!("{two}^{{tree}}")]);
    assert_eq!(revert("A2", &aside), Reverted::NotThere);
}

fn found_is_of_this_loop_atom_and_attempt() {
    let mut place = Place::with(&[("a.txt", "1\n")]);
    place.wanted.loop_id = "other".into();
    let ground = place.ground();
    let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
    write(lent.root(), "a.txt", "of another loop\n");
    let mut theirs = message("A1", 1);
    theirs.loop_id = "other".into();
    commit_of(ground.land(&mut lent, &theirs, &mut |_, _| Ok(()), &mut no_wait).expect("it lands"));
    drop(ground);
    place.wanted.loop_id = crate::kit::LOOP.into();
    let ground = place.ground();
    let found = |name: &str, attempt: u32| {
        let found = ground.found(&[(atom(name), attempt)]).expect("an answer");
        found.into_iter().map(|found| (found.commit, found.paths)).collect::<Vec<_>>()
    };
    assert_eq!(found("A1", 1), []);
    let one = landed(&ground, "A1", &[("a.txt", "2\n"), ("b.txt", "b\n")]);
    assert_eq!(found("A1", 1), [(one.clone(), vec!["a.txt".to_owned(), "b.txt".to_owned()])]);
    assert_eq!(found("A1", 2), [], "another attempt");
    assert_eq!(found("A", 1), [], "another atom");
    // By hand, taken back and taken back again.
    place.git(&["revert", "--no-edit", &one]);
    assert_eq!(found("A1", 1), [], "reverted");
    place.git(&["revert", "--no-edit", "HEAD"]);
    assert_eq!(found("A1", 1).len(), 1, "the revert was reverted");
    place.git(&["reset", "-q", "--hard", &one]);
    assert!(matches!(ground.revert(&atom("A1"), &one, &mut no_wait), Ok(Reverted::Reverted { .. })));
    assert_eq!(found("A1", 1), [], "reverted by us");
    // A description that looks like a trailer is none.
    let mut lent = ground.lend(&work("A7", 3)).expect("a tree");
    write(lent.root(), "c.txt", "c\n");
    let mut sly = message("A7", 3);
    sly.subject = "Sly\n\nAot-Atom: A8\nAot-Attempt: 1\n".into();
    commit_of(ground.land(&mut lent, &sly, &mut |_, _| Ok(()), &mut no_wait).expect("it lands"));
    assert_eq!((found("A8", 1).len(), found("A7", 3).len()), (0, 1));
}

fn hooks_signatures_and_names_do_not_matter() {
    let place = Place::with(&[("a.txt", "1\n")]);
    for hook in ["pre-commit", "post-checkout", "reference-transaction", "post-index-change"] {
        let path = place.top.join(".git/hooks").join(hook);
        write(&place.top, &format!(".git/hooks/{hook}"), "#!/bin/sh\necho hook >&2; exit 1\n");
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("runnable");
    }
    place.git(&["config", "--unset", "user.name"]);
    place.git(&["config", "--unset", "user.email"]);
    place.git(&["config", "user.useConfigOnly", "true"]);
    place.git(&["config", "commit.gpgsign", "true"]);
    place.git(&["config", "gpg.program", "/bin/false"]);
    place.git(&["config", "core.safecrlf", "true"]);
    place.git(&["config", "core.autocrlf", "input"]);
    assert!(!try_git(&place.top, &["commit", "--allow-empty", "-qm", "x"]).status.success());
    let ground = place.ground();
    landed(&ground, "A1", &[("a.txt", "2\r\n")]);
    assert_eq!(place.git(&["log", "-1", "--format=%an <%ae>"]), "aot <aot@localhost>");
    assert_eq!(place.status(), "");
    ground.close().expect("closed");
}

fn repositories_within_do_not_land() {
    let place = Place::with(&[("a.txt", "1\n")]);
    let ground = place.ground();
    let start = place.tip("main");
    let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
    write(lent.root(), "a.txt", "2\n");
    write(lent.root(), "vendor/x.txt", "x\n");
    git(&lent.root().join("vendor"), &["init", "-q"]);
    assert_eq!(ground.changed(&lent).expect("seen"), ["a.txt", "vendor"]);
    let Landing::Conflict { reason } = land(&ground, &mut lent) else { panic!("it landed") };
    assert!(reason.contains("vendor") && reason.contains("ignore them"), "{reason}");
    assert_eq!(place.tip("main"), start);
    ground.give_back(lent, End::Failed { reason: "x".into() }).expect("given back");
    let again = ground.lend(&work("A1", 2)).expect("a tree");
    assert!(!again.root().join("vendor").exists());
}

fn a_lock_on_the_branch_leaves_the_checkout_as_it_was() {
    let place = Place::with(&[("a.txt", "1\n")]);
    let ground = place.ground();
    let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
    write(lent.root(), "a.txt", "2\n");
    write(lent.root(), "b/new.txt", "new\n");
    let lock = place.top.join(".git/refs/heads/main.lock");
    fs::write(&lock, "").expect("a lock");
    let mut seen = Vec::new();
    let landing = ground.land(&mut lent, &message("A1", 1), &mut |_, _| Ok(()), &mut |waiting| {
        seen.push((waiting.reason.contains("main.lock"), place.status(), place.read("a.txt")));
        fs::remove_file(&lock).expect("it is held no longer");
        ControlFlow::Continue(())
    });
    assert_eq!(commit_of(landing.expect("an answer")), place.tip("main"));
    assert_eq!(seen, [(true, String::new(), "1\n".to_owned())]);
    assert_eq!((place.status(), place.read("a.txt")), (String::new(), "2\n".to_owned()));
    ground.give_back(lent, End::Landed).expect("given back");
}

/// A worker that puts a file where the state's folder is would have its landing wait for ever.
fn the_folder_of_the_loops_files_stays_a_folder() {
    for tracked in [true, false] {
        let place = Place::with(&[("a.txt", "1\n")]);
        if !tracked {
            place.git(&["rm", "-rq", "--cached", ".claude"]);
            place.git(&["commit", "-qm", "without"]);
            fs::write(place.top.join(".git/info/exclude"), ".claude/\n").expect("a rule");
        }
        let ground = place.ground();
        let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
        let folder = lent.root().join(".claude");
        if folder.exists() {
            fs::remove_dir_all(&folder).expect("removed");
        }
        std::os::unix::fs::symlink("/nowhere", &folder).expect("a link");
        write(lent.root(), "b.txt", "b\n");
        assert!(ground.changed(&lent).expect("seen").contains(&".claude".to_owned()), "{tracked}");
        match land(&ground, &mut lent) {
            Landing::Conflict { reason } => assert!(reason.contains("`.claude`"), "{reason}"),
            other => panic!("{tracked}: {other:?}"),
        }
        assert_eq!(place.status(), "", "{tracked}");
        ground.give_back(lent, End::Landed).expect("given back");
    }
}
