//! What cannot work is refused, with the remedy; and what looks odd works.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use aot_core::state::IsolationMode;
use aot_runner::tree::{End, GroundError, Landing, Tree, TreeKind};

use crate::Test;
use crate::kit::{Place, commit_of, git, give_up, guard, land, landed, message, read, try_git, work, write};

pub const TESTS: &[Test] = &[
    ("names_that_are_no_text_land", names_that_are_no_text_land),
    ("a_sparse_checkout_works", a_sparse_checkout_works),
    ("what_the_repository_refuses_is_told", what_the_repository_refuses_is_told),
    ("refusals_name_the_thing_and_the_remedy", refusals_name_the_thing_and_the_remedy),
    ("odd_places_work", odd_places_work),
    ("submodules_need_a_setup", submodules_need_a_setup),
];

fn refusals_name_the_thing_and_the_remedy() {
    fn check(name: &str, prepare: impl FnOnce(&mut Place), words: &str, hint: &str) {
        let mut place = Place::with(&[("a.txt", "1\n"), ("b.txt", "1\n")]);
        prepare(&mut place);
        let Err(error) = place.open() else { panic!("{name}: it was not refused") };
        let told = error.to_string().replace(&place.top.display().to_string(), "TOP");
        assert!(told.contains(words), "{name}: {told}");
        assert!(error.hint().contains(hint), "{name}: {}", error.hint());
    }
    let edit = |place: &mut Place| place.write("a.txt", "dirty\n");
    check("dirt", edit, "TOP has uncommitted changes: a.txt", "--branch NAME");
    check(
        "staged dirt",
        |place| {
            for number in 0..8 {
                place.write(&format!("n{number}"), "n");
            }
            place.git(&["add", "-A"]);
        },
        "n0, n1, n2, n3, n4 and 3 more",
        "git stash",
    );
    check(
        "a detached head",
        |place| drop(place.git(&["checkout", "-q", "--detach"])),
        "no branch",
        "git switch -c",
    );
    check(
        "no commit",
        |place| {
            fs::remove_dir_all(place.top.join(".git")).expect("removed");
            place.git(&["init", "-q"]);
        },
        "no commit yet",
        "git commit",
    );
    check(
        "a merge",
        |place| {
            place.git(&["switch", "-qc", "other"]);
            place.write("a.txt", "2\n");
            place.git(&["commit", "-qam", "two"]);
            place.git(&["switch", "-q", "main"]);
            place.write("a.txt", "3\n");
            place.git(&["commit", "-qam", "three"]);
            assert!(!try_git(&place.top, &["merge", "other"]).status.success());
        },
        "a merge is in progress",
        "git merge --abort",
    );
    check(
        "inside of .git",
        |place| place.root = place.top.join(".git/info"),
        "it is bare, or inside of `.git`",
        "checkout",
    );
    check(
        "a broken repository",
        |place| fs::write(place.top.join(".git/HEAD"), "nonsense").expect("written"),
        "TOP is in a repository that git does not open: fatal: not a git repository",
        "`git status` says the same",
    );
    if std::os::unix::fs::chown(Place::plain(&[]).top, Some(4711), None).is_ok() {
        check(
            "somebody else's repository",
            |place| {
                for path in [place.top.clone(), place.top.join(".git")] {
                    std::os::unix::fs::chown(path, Some(4711), None).expect("it is no longer ours");
                }
            },
            "detected dubious ownership",
            "git config --global --add safe.directory '",
        );
    }
    check(
        "worktrees outside of git",
        |place| {
            fs::remove_dir_all(place.top.join(".git")).expect("removed");
            place.wanted.mode = Some(IsolationMode::Worktree);
        },
        "not in a git repository",
        "git init",
    );
    let branch = |name: &'static str| move |place: &mut Place| place.wanted.branch = Some(name.into());
    check("no name", branch("a..b"), "`a..b` cannot be the name of a branch", "--branch");
    check("the last branch", branch("@{-1}"), "cannot be the name", "--branch");
    check("the branch that is checked out", branch("main"), "`main` is checked out in TOP", "name another");
    check(
        "a branch below a branch",
        |place| place.wanted.branch = Some("main/x".into()),
        "refs/heads/main",
        "git's words",
    );
    check(
        "a shared path outside",
        |place| place.wanted.share = vec!["../x".into()],
        "`../x` in `isolation.share`",
        "node_modules",
    );
    check(
        "an ignored project",
        |place| {
            place.write(".gitignore", "out/\n");
            place.git(&["add", ".gitignore"]);
            place.git(&["commit", "-qm", "ignore"]);
            place.root = place.top.join("out/p");
            place.write("x", "x");
            place.wanted.mode = Some(IsolationMode::Worktree);
        },
        "a folder that its repository ignores",
        "in place",
    );
}

fn odd_places_work() {
    // In a folder of the repository.
    let place = Place::in_folder("sub/dir", &[("a.txt", "1\n")]);
    write(&place.top, "above.txt", "1\n");
    place.git(&["add", "-A"]);
    place.git(&["commit", "-qm", "above"]);
    let ground = place.ground();
    let lent = ground.lend(&work("A1", 1)).expect("a tree");
    assert!(lent.root().ends_with("sub/dir") && lent.root().starts_with(lent.top()));
    write(lent.root(), "a.txt", "2\n");
    write(lent.top(), "above.txt", "2\n");
    write(lent.top(), "sub/beside.txt", "2\n");
    assert_eq!(ground.changed(&lent).expect("seen"), ["../../above.txt", "../beside.txt", "a.txt"]);
    // In a linked worktree, whose `.git` is a file.
    let place = Place::with(&[("a.txt", "1\n")]);
    let linked = place.top.with_file_name("linked");
    place.git(&["worktree", "add", "-q", "-b", "side", &linked.display().to_string()]);
    let main = place.tip("main");
    let mut beside = Place::plain(&[]);
    (beside.top, beside.root) = (linked.clone(), linked.clone());
    write(&linked, ".claude/aot/.gitignore", "*\n");
    let ground = beside.ground();
    let commit = landed(&ground, "A1", &[("a.txt", "2\n")]);
    assert_eq!((place.tip("main"), place.tip("side")), (main, commit));
    assert_eq!((read(&linked, "a.txt"), git(&linked, &["status", "--short"])), ("2\n".into(), String::new()));
    ground.close().expect("closed");
    assert_eq!(place.own_worktrees(), 2, "the user's own stays");
    // In a folder that the repository ignores: in place.
    let mut place = Place::with(&[(".gitignore", "out/\n")]);
    place.root = place.top.join("out/p");
    place.write("x", "1");
    assert_eq!(place.ground().trees(), TreeKind::InPlace);
    // Through a link, and with a variable that names another repository.
    let place = Place::with(&[("a.txt", "1\n")]);
    let mut through = Place::plain(&[]);
    let link = place.top.with_file_name("link");
    std::os::unix::fs::symlink(&place.top, &link).expect("a link");
    through.root = link;
    let ground = through.ground();
    landed(&ground, "A1", &[("a.txt", "2\n"), (".claude/aot-loop-state.md", "a worker's")]);
    assert_eq!((place.read("a.txt"), place.status()), ("2\n".into(), String::new()));
}

fn submodules_need_a_setup() {
    let library = Place::with(&[("l.txt", "l\n")]);
    let mut place = Place::with(&[("a.txt", "1\n")]);
    let from = library.top.display().to_string();
    place.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &from, "lib"]);
    place.git(&["commit", "-qm", "lib"]);
    let refused = place.open().expect_err("it is refused");
    assert!(matches!(refused, GroundError::Submodules { .. }), "{refused}");
    assert!(refused.hint().contains("share: [lib]"), "{}", refused.hint());
    place.wanted.share = vec!["lib".into()];
    let ground = place.ground();
    for (name, text) in [("A0", "0\n"), ("A1", "1\n")] {
        let mut lent = ground.lend(&work(name, 1)).expect("a tree");
        assert_eq!(read(lent.root(), "lib/l.txt"), "l\n", "it is the project's own");
        write(lent.root(), "b.txt", text);
        assert_eq!(ground.changed(&lent).expect("seen"), ["b.txt"]);
        commit_of(land(&ground, &mut lent));
        ground.give_back(lent, End::Landed).expect("given back");
    }
    ground.close().expect("closed");
    place.wanted.share.clear();
    place.wanted.setup =
        Some("git -c protocol.file.allow=always submodule --quiet update --init --recursive".into());
    let ground = place.ground();
    let lent = ground.lend(&work("A1", 1)).expect("a tree");
    assert_eq!(read(lent.root(), "lib/l.txt"), "l\n");
    ground.give_back(lent, aot_runner::tree::End::Landed).expect("given back");
    let commit = landed(&ground, "A2", &[("a.txt", "2\n")]);
    assert_eq!(place.git(&["show", "--format=", "--name-only", &commit]), "a.txt");
    assert_eq!(read(&place.top.join("lib"), "l.txt"), "l\n");
    ground.close().expect("closed");
    assert!(Path::new(&place.top).join(".git/modules/lib").is_dir());
}

fn names_that_are_no_text_land() {
    let odd = std::ffi::OsStr::from_bytes(b"n\xffn\n\"x.txt");
    for place in [Place::with(&[("a.txt", "1\n")]), Place::plain(&[("a.txt", "1\n")])] {
        let ground = place.ground();
        let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
        std::fs::write(lent.root().join(odd), "odd\n").expect("written");
        Tree::of(&ground.project_in(&lent, &place.project()), &guard()).expect("it can be looked at");
        let _ = ground.seal(&mut lent).expect("sealed");
        std::fs::write(lent.root().join(odd), "by its check\n").expect("written");
        ground.undo_since_sealed(&lent).expect("undone");
        commit_of(land(&ground, &mut lent));
        ground.give_back(lent, End::Landed).expect("given back");
        assert_eq!(std::fs::read(place.root.join(odd)).expect("it is there"), b"odd\n");
        let lent = ground.lend(&work("A2", 1)).expect("a tree");
        std::fs::remove_file(lent.root().join(odd)).expect("removed");
        ground.give_back(lent, End::Failed { reason: "red".into() }).expect("given back");
        assert_eq!(std::fs::read(place.root.join(odd)).expect("it is there"), b"odd\n");
    }
}

fn a_sparse_checkout_works() {
    let place = Place::with(&[("a.txt", "1\n"), ("in/i.txt", "1\n"), ("out/o.txt", "1\n")]);
    place.git(&["sparse-checkout", "set", "--cone", "in", ".claude"]);
    assert!(!place.root.join("out").exists());
    let ground = place.ground();
    let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
    for (path, text) in [("a.txt", "2\n"), ("in/i.txt", "2\n"), ("out/o.txt", "2\n"), ("new/n.txt", "n\n")] {
        write(lent.root(), path, text);
    }
    let landing = land(&ground, &mut lent);
    let Landing::Landed { commit: Some(_), paths } = landing else { panic!("{landing:?}") };
    assert_eq!(paths, ["a.txt", "in/i.txt", "new/n.txt", "out/o.txt"]);
    assert_eq!(place.status(), "");
    assert_eq!((place.read("in/i.txt"), place.git(&["show", "HEAD:out/o.txt"])), ("2\n".into(), "2".into()));
    ground.give_back(lent, End::Landed).expect("given back");
    // What lies outside of the cone and was not written is not taken for deleted.
    let mut lent = ground.lend(&work("A2", 1)).expect("a tree");
    write(lent.root(), "a.txt", "3\n");
    let landing = land(&ground, &mut lent);
    let Landing::Landed { commit: Some(_), paths } = landing else { panic!("{landing:?}") };
    assert_eq!(paths, ["a.txt"]);
}

fn what_the_repository_refuses_is_told() {
    let place = Place::with(&[("a.txt", "1\n")]);
    let ground = place.ground();
    let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
    write(lent.root(), "a.txt", "2\n");
    place.git(&["checkout", "-q", "--detach"]);
    place.git(&["branch", "-D", "main"]);
    let refused = ground.land(&mut lent, &message("A1", 1), &mut |_, _| Ok(()), &mut give_up);
    let refused = refused.expect_err("there is no branch");
    assert!(
        refused.to_string().contains("`main`") && refused.hint().contains("git branch main"),
        "{refused}"
    );
    place.git(&["branch", "main"]);
    place.git(&["checkout", "-q", "main"]);
    assert!(
        matches!(land(&ground, &mut lent), Landing::Landed { commit: Some(_), .. }),
        "it lands when it is back"
    );
}
