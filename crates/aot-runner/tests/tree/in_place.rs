//! Work in place: snapshots, rollbacks, landings in the shadow repository.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use aot_core::state::IsolationMode;
use aot_runner::tree::{End, GroundError, Landing, Reverted, TreeKind, kept};

use crate::Test;
use crate::kit::{Place, atom, commit_of, contents, git, guard, land, landed, no_wait, read, work, write};

pub const TESTS: &[Test] = &[
    ("a_failure_is_rolled_back_exactly", a_failure_is_rolled_back_exactly),
    ("permissions_of_what_landed_are_restored_too", permissions_of_what_landed_are_restored_too),
    ("in_place_the_users_repository_is_not_touched", in_place_the_users_repository_is_not_touched),
    ("edits_of_a_person_are_kept_or_left", edits_of_a_person_are_kept_or_left),
    ("landings_in_place_are_found_again", landings_in_place_are_found_again),
    ("an_interrupted_attempt_is_rolled_back_and_kept", an_interrupted_attempt_is_rolled_back_and_kept),
    ("reverts_in_place", reverts_in_place),
    ("one_worker_at_a_time", one_worker_at_a_time),
    ("repositories_within_are_refused_and_unharmed", repositories_within_are_refused_and_unharmed),
    ("without_isolation_nothing_is_made", without_isolation_nothing_is_made),
    ("a_lost_shadow_is_made_again", a_lost_shadow_is_made_again),
    ("an_object_that_git_lost_is_written_again", an_object_that_git_lost_is_written_again),
];

const FILES: &[(&str, &str)] = &[
    ("a.txt", "1\n"),
    ("crlf.txt", "1\r\n2\r\n"),
    (".gitattributes", "* text=auto eol=lf\n*.id ident\n"),
    ("x.id", "$Id$\n"),
    ("deep/er/b.txt", "b\n"),
    ("secret", "s\n"),
    ("run.sh", "#!/bin/sh\n"),
    ("name with\nnewline", "n\n"),
    ("ignored/cache", "c\n"),
    (".env", "mine\n"),
    (".gitignore", "ignored/\n.env\n"),
];

fn filled(place: Place) -> Place {
    let mode = |path: &str, mode| {
        fs::set_permissions(place.root.join(path), fs::Permissions::from_mode(mode)).expect("a mode");
    };
    mode("secret", 0o600);
    mode("run.sh", 0o755);
    symlink("a.txt", place.root.join("link")).expect("a link");
    symlink("nowhere", place.root.join("dangling")).expect("a link");
    place
}

/// Everything that an attempt may do to files.
fn havoc(root: &Path) {
    write(root, "a.txt", "2\n");
    write(root, "crlf.txt", "changed\n");
    write(root, "x.id", "changed\n");
    fs::remove_dir_all(root.join("deep")).expect("removed");
    write(root, "deep", "a file now\n");
    write(root, "new/er/c.txt", "c\n");
    write(root, "secret", "leaked\n");
    for (path, mode) in [("secret", 0o644), ("run.sh", 0o644), (".gitattributes", 0o640)] {
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).expect("a mode");
    }
    fs::remove_file(root.join("link")).expect("removed");
    symlink("run.sh", root.join("link")).expect("a link");
    fs::remove_file(root.join("dangling")).expect("removed");
    write(root, "dangling", "a file now\n");
    fs::remove_file(root.join("name with\nnewline")).expect("removed");
    // It hides what is new, and shows what was ignored.
    write(root, ".gitignore", "hidden\n!.env\n");
    write(root, "hidden", "h\n");
    git(root, &["init", "-q", "vendor"]);
    write(root, "vendor/v.txt", "v\n");
}

fn a_failure_is_rolled_back_exactly() {
    for place in
        [Place::plain(FILES), Place::with(FILES).in_place(), Place::in_folder("sub/dir", FILES).in_place()]
    {
        let place = filled(place);
        let before = contents(&place.root);
        let ground = place.ground();
        assert_eq!(ground.trees(), TreeKind::InPlace);
        for attempt in 1..=2 {
            let lent = ground.lend(&work("A1", attempt)).expect("a tree");
            assert_eq!((lent.root(), lent.top()), (place.root.as_path(), place.root.as_path()));
            havoc(lent.root());
            place.write(".claude/aot-loop-state.md", &format!("state {attempt}\n"));
            let changed = ground.changed(&lent).expect("seen");
            assert!(
                changed.contains(&"a.txt".to_owned()) && changed.contains(&"vendor".to_owned()),
                "{changed:?}"
            );
            assert!(!changed.contains(&".env".to_owned()), "{changed:?}");
            let kept = ground.give_back(lent, End::Failed { reason: "red".into() }).expect("given back");
            assert_eq!(kept, Some(format!("refs/aot/kept/01loop/A1/{attempt}")));
            assert_eq!(contents(&place.root), before);
            assert_eq!(place.read(".claude/aot-loop-state.md"), format!("state {attempt}\n"));
        }
        let told = kept(&place.project(), Some("01loop"), &guard()).expect("listed");
        let told: Vec<_> =
            told.iter().map(|kept| (kept.atom.as_str(), kept.attempt, kept.reason.as_str())).collect();
        assert_eq!(told, [("A1", 1, "red"), ("A1", 2, "red")]);
        ground.close().expect("closed");
    }
}

fn permissions_of_what_landed_are_restored_too() {
    let place = Place::plain(&[("a.txt", "1\n"), ("gone.txt", "1\n")]).in_place();
    let ground = place.ground();
    let mode =
        |path: &str| fs::metadata(place.root.join(path)).expect("it is there").permissions().mode() & 0o7777;
    let set = |path: &str, mode: u32| {
        fs::set_permissions(place.root.join(path), fs::Permissions::from_mode(mode)).expect("a mode");
    };
    let mut lent = ground.lend(&work("A1", 1)).expect("the project");
    write(lent.root(), "d/new.txt", "1\n");
    fs::remove_file(lent.root().join("gone.txt")).expect("removed");
    set("d/new.txt", 0o640);
    commit_of(land(&ground, &mut lent));
    ground.give_back(lent, End::Landed).expect("given back");
    let lent = ground.lend(&work("A2", 1)).expect("the project");
    for path in ["a.txt", "d/new.txt"] {
        set(path, 0o600);
        write(lent.root(), path, "spoilt\n");
    }
    write(lent.root(), "gone.txt", "again\n");
    ground.give_back(lent, End::Failed { reason: "red".into() }).expect("given back");
    assert_eq!((mode("d/new.txt"), mode("a.txt")), (0o640, 0o644));
    assert_eq!(place.read("d/new.txt"), "1\n");
    assert!(!place.root.join("gone.txt").exists());
}

fn in_place_the_users_repository_is_not_touched() {
    let place = filled(Place::with(FILES).in_place());
    place.write("a.txt", "staged\n");
    place.git(&["add", "a.txt"]);
    place.write("a.txt", "dirty\n");
    let seen =
        || (place.git(&["for-each-ref"]), place.git(&["rev-parse", "HEAD"]), place.git(&["ls-files", "-s"]));
    let before = seen();
    let ground = place.ground();
    landed(&ground, "A1", &[("b.txt", "b\n")]);
    let lent = ground.lend(&work("A2", 1)).expect("a tree");
    write(lent.root(), "a.txt", "2\n");
    ground.give_back(lent, End::Failed { reason: "red".into() }).expect("given back");
    assert_eq!((place.read("a.txt"), place.read("b.txt")), ("dirty\n".into(), "b\n".into()));
    assert_eq!(seen(), before);
    assert_eq!(ground.uncommitted().expect("seen"), Vec::<String>::new());
    assert_eq!(ground.verify_root().expect("a folder"), place.root);
}

fn edits_of_a_person_are_kept_or_left() {
    let place = Place::plain(&[("a.txt", "1\n"), ("b.txt", "1\n"), ("c.txt", "1\n"), ("d.txt", "1\n")]);
    let ground = place.ground();
    let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
    write(lent.root(), "a.txt", "by the worker\n");
    place.write("b.txt", "by a person, while the worker works\n");
    let _ = ground.seal(&mut lent).expect("sealed");
    place.write("c.txt", "by a person, while the check runs\n");
    assert_eq!(ground.undo_since_sealed(&lent).expect("undone"), ["c.txt"]);
    place.write("a.txt", "by a person, after the worker\n");
    place.write("new.txt", "by a person\n");
    fs::remove_file(place.root.join("d.txt")).expect("removed");
    let kept = ground.give_back(lent, End::Failed { reason: "red".into() }).expect("given back");
    let kept = kept.expect("it is kept");
    let now = |path: &str| place.read(path);
    assert_eq!(
        (now("a.txt"), now("new.txt")),
        ("by a person, after the worker\n".into(), "by a person\n".into())
    );
    assert_eq!((now("b.txt"), now("c.txt"), now("d.txt")), ("1\n".into(), "1\n".into(), "(nothing)".into()));
    let notes = ground.take_notes().join("\n");
    let (shadow, show) = (place.root.join(".claude/aot/shadow.git"), |version: &str| {
        git(&place.root, &["--git-dir=.claude/aot/shadow.git", "show", version])
    });
    assert_eq!(show(&format!("{kept}:b.txt")), "by a person, while the worker works");
    assert_eq!(show(&format!("{kept}^2:c.txt")), "by a person, while the check runs");
    for told in [
        "c.txt changed while the check of A1 ran",
        "rolled back with A1: b.txt;",
        "left as you edited it after A1 had ended: a.txt, d.txt, new.txt",
    ] {
        assert!(notes.contains(told), "{told:?} is not in {notes}");
    }
    assert!(notes.contains(&format!("git --git-dir={} show {kept}:PATH", shadow.display())), "{notes}");
}

fn landings_in_place_are_found_again() {
    let place = Place::plain(&[("a.txt", "1\n")]);
    let ground = place.ground();
    let mut lent = ground.lend(&work("A1", 3)).expect("a tree");
    assert_eq!(land(&ground, &mut lent), Landing::Landed { commit: None, paths: vec![] });
    write(lent.root(), "a.txt", "2\n");
    write(lent.root(), "b.txt", "b\n");
    let landing = land(&ground, &mut lent);
    let Landing::Landed { commit: Some(commit), paths } = landing else { panic!("{landing:?}") };
    assert_eq!(paths, ["a.txt", "b.txt"]);
    // The run dies before anything is given back or recorded.
    drop((ground, lent));
    let ground = place.ground();
    assert_eq!((place.read("a.txt"), place.read("b.txt")), ("2\n".into(), "b\n".into()));
    let found = ground.found(&[(atom("A1"), 3), (atom("A2"), 1)]).expect("an answer");
    assert_eq!(found.iter().map(|one| one.commit.as_str()).collect::<Vec<_>>(), [commit]);
    assert_eq!(ground.found(&[(atom("A1"), 1)]).expect("an answer"), []);
    assert_eq!(kept(&place.project(), None, &guard()).expect("listed"), []);
}

/// Locks every reference, as a killed git does, and says how many there are.
fn lock_references(folder: &Path) -> usize {
    let entries: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    let locked = entries.into_iter().map(|path| match path.is_dir() {
        true => lock_references(&path),
        false => fs::write(path.with_added_extension("lock"), "").map(|()| 1).expect("a lock"),
    });
    locked.sum()
}

fn an_interrupted_attempt_is_rolled_back_and_kept() {
    let place = filled(Place::plain(FILES));
    let before = contents(&place.root);
    let ground = place.ground();
    let lent = ground.lend(&work("A1", 1)).expect("a tree");
    havoc(lent.root());
    drop((ground, lent));
    let shadow = place.root.join(".claude/aot/shadow.git");
    fs::write(shadow.join("index.lock"), "").expect("a lock");
    let locks = lock_references(&shadow.join("refs"));
    assert!(locks > 0, "it has references");
    let ground = place.ground();
    assert_eq!(contents(&place.root), before);
    assert_eq!(ground.found(&[(atom("A1"), 1)]).expect("an answer"), []);
    let kept = kept(&place.project(), None, &guard()).expect("listed");
    assert_eq!(kept.iter().map(|kept| kept.reason.as_str()).collect::<Vec<_>>(), ["the run was interrupted"]);
    // What the user does between runs is the user's.
    place.write("a.txt", "by hand\n");
    drop(ground);
    let ground = place.ground();
    let lent = ground.lend(&work("A1", 2)).expect("a tree");
    write(lent.root(), "a.txt", "2\n");
    ground.give_back(lent, End::Discarded { reason: "killed".into() }).expect("given back");
    assert_eq!(place.read("a.txt"), "by hand\n");
}

fn reverts_in_place() {
    let place = Place::plain(&[("a.txt", "1\n"), ("b.txt", "1\n"), (".gitignore", "*.log\n")]);
    let ground = place.ground();
    let one = landed(&ground, "A1", &[("a.txt", "2\n"), ("new.txt", "n\n")]);
    let two = landed(&ground, "A2", &[("b.txt", "2\n")]);
    place.write("mine.txt", "m\n");
    let revert =
        |name: &str, commit: &str| ground.revert(&atom(name), commit, &mut no_wait).expect("an answer");
    assert!(matches!(revert("A1", &one), Reverted::Reverted { .. }));
    assert_eq!((place.read("a.txt"), place.read("new.txt")), ("1\n".into(), "(nothing)".into()));
    assert_eq!((place.read("b.txt"), place.read("mine.txt")), ("2\n".into(), "m\n".into()));
    assert_eq!(revert("A1", &one), Reverted::NotThere);
    assert_eq!(ground.found(&[(atom("A1"), 1)]).expect("an answer"), []);
    place.write("b.txt", "by hand\n");
    assert_eq!(revert("A2", &two), Reverted::NotClean { paths: vec!["b.txt".into()] });
    assert_eq!(place.read("b.txt"), "by hand\n");
}

fn one_worker_at_a_time() {
    let place = Place::plain(&[("a.txt", "1\n")]);
    let ground = place.ground();
    let lent = ground.lend(&work("A1", 1)).expect("a tree");
    assert!(matches!(ground.lend(&work("A2", 1)), Err(GroundError::Lent { holder, .. }) if holder == "A1"));
    assert_eq!(ground.give_back(lent, End::Landed).expect("given back"), None);
    let lent = ground.lend(&work("A2", 1)).expect("a tree");
    ground.give_back(lent, End::Landed).expect("given back");
}

fn repositories_within_are_refused_and_unharmed() {
    let place = Place::plain(&[("a.txt", "1\n"), ("repo/r.txt", "1\n")]);
    let repo = place.root.join("repo");
    git(&repo, &["init", "-q"]);
    let refused = place.open().expect_err("it is refused");
    assert!(matches!(&refused, GroundError::Nested { paths, .. } if paths == &["repo"]), "{refused}");
    assert!(refused.hint().contains(".gitignore"), "{}", refused.hint());
    place.write(".gitignore", "repo/\n");
    let ground = place.ground();
    let lent = ground.lend(&work("A1", 1)).expect("a tree");
    write(lent.root(), "a.txt", "2\n");
    write(&repo, "r.txt", "2\n");
    ground.give_back(lent, End::Failed { reason: "red".into() }).expect("given back");
    assert_eq!((place.read("a.txt"), read(&repo, "r.txt")), ("1\n".into(), "2\n".into()));
    assert_eq!(git(&repo, &["status", "--short"]), "?? r.txt");
}

fn without_isolation_nothing_is_made() {
    let place = Place::with(&[("a.txt", "1\n")]).wanting(|wanted| wanted.mode = Some(IsolationMode::None));
    place.write("a.txt", "dirty\n");
    let start = place.tip("main");
    let ground = place.ground();
    assert_eq!((ground.trees(), ground.base().expect("an answer")), (TreeKind::Unisolated, None));
    let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
    let other = ground.lend(&work("A2", 1)).expect("side by side");
    write(lent.root(), "a.txt", "2\n");
    assert_eq!(land(&ground, &mut lent), Landing::Landed { commit: None, paths: vec![] });
    assert_eq!(ground.give_back(lent, End::Landed).expect("given back"), None);
    assert_eq!(ground.give_back(other, End::Failed { reason: "red".into() }).expect("given back"), None);
    assert_eq!((place.read("a.txt"), place.tip("main")), ("2\n".into(), start));
    ground.close().expect("closed");
    let left: Vec<_> = fs::read_dir(place.root.join(".claude/aot")).expect("a folder").collect();
    assert_eq!(left.len(), 1, "only the .gitignore");
}

fn a_lost_shadow_is_made_again() {
    let place = Place::plain(&[("a.txt", "1\n")]);
    landed(&place.ground(), "A1", &[("a.txt", "2\n")]);
    fs::remove_dir_all(place.root.join(".claude/aot/shadow.git/objects")).expect("removed");
    let ground = place.ground();
    assert_eq!(ground.found(&[(atom("A1"), 1)]).expect("an answer"), []);
    let mut lent = ground.lend(&work("A2", 1)).expect("a tree");
    write(lent.root(), "a.txt", "3\n");
    commit_of(land(&ground, &mut lent));
    assert_eq!(place.read("a.txt"), "3\n");
}

/// A git without descriptors may say that it has added a file, and its index names an object that is not there.
fn an_object_that_git_lost_is_written_again() {
    let place = Place::plain(&[("a.txt", "1\n")]);
    // Git reads a file again that is as new as its index.
    let file = fs::File::options().append(true).open(place.root.join("a.txt")).expect("a file");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).expect("a time");
    let ground = place.ground();
    let object = git(&place.root, &["hash-object", "a.txt"]);
    let (folder, rest) = object.trim().split_at(2);
    let path = place.root.join(".claude/aot/shadow.git/objects").join(folder).join(rest);
    fs::remove_file(path).expect("it was written");
    landed(&ground, "A1", &[("b.txt", "2\n")]);
    assert_eq!((place.read("a.txt"), place.read("b.txt")), ("1\n".into(), "2\n".into()));
}
