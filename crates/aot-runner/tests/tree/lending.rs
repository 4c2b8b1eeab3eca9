//! Trees are made, reused and cleaned.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use aot_runner::tree::{End, GroundError, Landing, kept};

use crate::Test;
use crate::kit::{Place, git, guard, land, landed, message, read, work, write};

pub const TESTS: &[Test] = &[
    ("trees_are_reused_and_clean", trees_are_reused_and_clean),
    ("trees_that_were_ruined_are_made_anew", trees_that_were_ruined_are_made_anew),
    ("setup_runs_once_if_nobody_touches_what_it_made", setup_runs_once_if_nobody_touches_what_it_made),
    ("what_setup_made_stays_until_it_is_touched", what_setup_made_stays_until_it_is_touched),
    ("what_setup_leaves_is_nobodys_work", what_setup_leaves_is_nobodys_work),
    ("a_setup_that_fails_is_told", a_setup_that_fails_is_told),
    ("what_did_not_land_is_kept_for_a_week", what_did_not_land_is_kept_for_a_week),
    ("many_at_once", many_at_once),
];

fn trees_are_reused_and_clean() {
    let place = Place::with(&[("a.txt", "1\n"), (".gitignore", "cache/\n")]);
    let ground = place.ground();
    let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
    let first = lent.top().to_path_buf();
    assert!(first.starts_with(place.root.join(".claude/aot/trees")));
    write(lent.root(), "a.txt", "2\n");
    write(lent.root(), "cache/c", "c\n");
    assert!(matches!(land(&ground, &mut lent), Landing::Landed { commit: Some(_), .. }));
    // A check left something.
    write(lent.root(), "a.txt", "spoiled\n");
    write(lent.root(), "rubbish/r", "r\n");
    ground.give_back(lent, End::Landed).expect("given back");
    place.write("a.txt", "by hand\n");
    place.git(&["commit", "-qam", "by hand"]);
    let lent = ground.lend(&work("A2", 1)).expect("a tree");
    assert_eq!(lent.top(), first);
    assert_eq!(read(lent.root(), "a.txt"), "by hand\n");
    // Ignored files of one attempt would make the check of another pass.
    assert!(!lent.root().join("cache").exists() && !lent.root().join("rubbish").exists());
    assert_eq!(git(lent.top(), &["status", "--short"]), "");
    // After a failure nothing is left.
    write(lent.root(), "cache/c", "broken\n");
    ground.give_back(lent, End::Failed { reason: "red".into() }).expect("given back");
    let lent = ground.lend(&work("A2", 2)).expect("a tree");
    assert_eq!(lent.top(), first);
    assert!(!lent.root().join("cache").exists());
    let other = ground.lend(&work("A3", 1)).expect("a tree");
    assert_ne!(other.top(), first);
}

fn trees_that_were_ruined_are_made_anew() {
    let place = Place::with(&[("a.txt", "1\n")]);
    let ground = place.ground();
    let ruin: [fn(&std::path::Path); 4] = [
        |top| fs::remove_file(top.join(".git")).expect("removed"),
        |top| fs::remove_dir_all(top).expect("removed"),
        |top| fs::write(top.join(".git"), "gitdir: /nowhere\n").expect("written"),
        |top| {
            write(top, "locked/x", "x");
            fs::set_permissions(top.join("locked"), fs::Permissions::from_mode(0o555)).expect("a mode");
        },
    ];
    for (attempt, ruin) in (1..).zip(ruin) {
        place.write("mine.txt", "untracked\n");
        let mut lent = ground.lend(&work("A1", attempt)).expect("a tree");
        ruin(lent.top());
        // Whatever can be said of it, it is not said of the user's checkout.
        let _ = ground.changed(&lent);
        let _ = ground.land(&mut lent, &message("A1", attempt), &mut |_, _| Ok(()), &mut crate::kit::give_up);
        let _ = ground.give_back(lent, End::Failed { reason: "red".into() });
        assert_eq!((place.read("mine.txt"), place.read("a.txt")), ("untracked\n".into(), "1\n".into()));
        let lent = ground.lend(&work("A2", attempt)).expect("a tree");
        assert_eq!(git(lent.top(), &["status", "--short"]), "");
        assert_eq!(read(lent.root(), "a.txt"), "1\n");
        ground.give_back(lent, End::Landed).expect("given back");
        place.git(&["reset", "-q", "--hard"]);
    }
    ground.close().expect("closed");
    assert_eq!(place.git(&["worktree", "list"]).lines().count(), 1);
}

fn setup_runs_once_if_nobody_touches_what_it_made() {
    let place = Place::in_folder("sub", &[("a.txt", "1\n"), (".gitignore", "made\n")])
        .wanting(|wanted| wanted.setup = Some("echo x >> made; pwd".into()));
    let ground = place.ground();
    let runs = |name: &str, end: End| {
        let lent = ground.lend(&work(name, 1)).expect("a tree");
        let runs = read(lent.root(), "made");
        assert_eq!(ground.changed(&lent).expect("seen"), Vec::<String>::new());
        ground.give_back(lent, end).expect("given back");
        runs
    };
    assert_eq!(runs("A1", End::Landed), "x\n");
    assert_eq!(runs("A2", End::Failed { reason: "red".into() }), "x\n", "kept");
    assert_eq!(runs("A3", End::Landed), "x\n", "kept");
}

/// Touches what `setup` made in a tree.
type Touch = fn(&std::path::Path);

fn what_setup_made_stays_until_it_is_touched() {
    let place = Place::with(&[("a.txt", "1\n"), (".gitignore", "made/\nown/\nruns\n")])
        .wanting(|wanted| wanted.setup = Some("mkdir -p made; date +%N > made/m; ln -s m made/link".into()));
    let ground = place.ground();
    let attempt = |name: &str, touch: &dyn Fn(&std::path::Path)| {
        let mut lent = ground.lend(&work(name, 1)).expect("a tree");
        let made = read(lent.root(), "made/m");
        assert!(!lent.root().join("own").exists(), "{name} has what another left");
        touch(lent.root());
        write(lent.root(), "own/o", "o\n");
        let sealed = ground.seal(&mut lent).expect("sealed");
        assert_eq!((sealed.changed, sealed.ignored), (Vec::<String>::new(), vec!["own".to_owned()]));
        ground.give_back(lent, End::Landed).expect("given back");
        made
    };
    let first = attempt("A1", &|_| {});
    assert_eq!(attempt("A2", &|_| {}), first);
    let touches: [(&str, Touch); 4] = [
        ("written", |root| write(root, "made/m", "spoiled\n")),
        ("added", |root| write(root, "made/deep/x", "x\n")),
        ("removed", |root| fs::remove_file(root.join("made/link")).expect("removed")),
        ("a mode", |root| {
            fs::set_permissions(root.join("made/m"), fs::Permissions::from_mode(0o755)).expect("a mode");
        }),
    ];
    let mut last = first;
    for (what, touch) in touches {
        assert_eq!(attempt(what, &touch), last, "{what}");
        let again = attempt("and then", &|_| {});
        assert_ne!(again, last, "{what}");
        last = again;
    }
}

fn what_setup_leaves_is_nobodys_work() {
    let place = Place::with(&[("a.txt", "1\n"), ("lock", "1\n")])
        .wanting(|wanted| wanted.setup = Some("echo made > made.txt; echo 2 > lock".into()));
    let ground = place.ground();
    for (name, text) in [("A1", "2\n"), ("A2", "3\n")] {
        let mut lent = ground.lend(&work(name, 1)).expect("a tree");
        assert_eq!(
            (read(lent.root(), "made.txt"), read(lent.root(), "lock")),
            ("made\n".into(), "2\n".into())
        );
        write(lent.root(), "a.txt", text);
        let Landing::Landed { paths, .. } = land(&ground, &mut lent) else { panic!("it did not land") };
        assert_eq!(paths, ["a.txt"]);
        ground.give_back(lent, End::Landed).expect("given back");
    }
    // Once a worker changes it, it is the worker's.
    let mut lent = ground.lend(&work("A3", 1)).expect("a tree");
    write(lent.root(), "lock", "3\n");
    let Landing::Landed { paths, .. } = land(&ground, &mut lent) else { panic!("it did not land") };
    assert_eq!(paths, ["lock"]);
}

fn a_setup_that_fails_is_told() {
    let place = Place::with(&[("a.txt", "1\n")])
        .wanting(|wanted| wanted.setup = Some("echo first; echo the cause >&2; exit 3".into()));
    let ground = place.ground();
    let error = ground.lend(&work("A1", 1)).expect_err("it fails");
    assert!(
        matches!(&error, GroundError::Setup { how, tail, .. } if how == "ended with 3" && tail == "first\nthe cause"),
        "{error}"
    );
    assert_eq!(place.git(&["worktree", "list"]).lines().count(), 1, "nothing is left of it");
}

fn what_did_not_land_is_kept_for_a_week() {
    let place = Place::with(&[("a.txt", "1\n")]);
    let ground = place.ground();
    let give_back = |name: &str, attempt: u32, text: &str, end: End| {
        let lent = ground.lend(&work(name, attempt)).expect("a tree");
        write(lent.root(), "a.txt", text);
        ground.give_back(lent, end).expect("given back")
    };
    let failed = |reason: &str| End::Failed { reason: reason.into() };
    assert_eq!(give_back("A1", 1, "1\n", failed("nothing changed")), None);
    let reference = give_back("A1", 2, "2\n", failed("the tests are red:\n  a long story\n\nAot-Atom: A9"))
        .expect("kept");
    assert_eq!(reference, "refs/aot/kept/01loop/A1/2");
    assert_eq!(place.git(&["show", &format!("{reference}:a.txt")]), "2");
    let odd = give_back("Ä.lock..", 7, "3\n", End::Discarded { reason: String::new() }).expect("kept");
    assert!(odd.starts_with("refs/aot/kept/01loop/%C3%84%2Elock"), "{odd}");
    let told = |loop_id| {
        let kept = kept(&place.project(), loop_id, &guard()).expect("listed");
        let one = |one: &aot_runner::tree::KeptWork| (one.atom.to_string(), one.attempt, one.reason.clone());
        let mut told: Vec<_> = kept.iter().map(one).collect();
        told.sort();
        told
    };
    let both = [
        ("A1".to_owned(), 2, "the tests are red: a long story Aot-Atom: A9".to_owned()),
        ("Ä.lock..".to_owned(), 7, "-".to_owned()),
    ];
    assert_eq!(told(None), both);
    assert_eq!(told(Some("01loop")), both);
    assert_eq!(told(Some("01")), []);
    // An old one is let go at the next opening.
    let old = std::process::Command::new("git")
        .arg("-C")
        .arg(&place.top)
        .args(["commit-tree", "-m", "kept: old\n\nold\n\nAot-Atom: A0", "HEAD^{tree}"])
        .env("GIT_COMMITTER_DATE", "2020-01-01T00:00:00Z")
        .output()
        .expect("git runs");
    let old = String::from_utf8_lossy(&old.stdout).trim().to_owned();
    place.git(&["update-ref", "refs/aot/kept/gone/A0/1", &old]);
    assert_eq!(told(None).len(), 3);
    drop(ground);
    let ground = place.ground();
    assert_eq!(told(None), both);
    ground.close().expect("closed");
    assert_eq!(told(None), both);
}

fn many_at_once() {
    let place = Place::with(&[("a.txt", "1\n")]);
    let ground = place.ground();
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let ground = &ground;
            scope.spawn(move || {
                for round in 0..3 {
                    let name = format!("A{worker}_{round}");
                    landed(ground, &name, &[(&format!("{name}.txt"), &name)]);
                }
            });
        }
    });
    assert_eq!(place.git(&["rev-list", "--count", "main"]), "13");
    assert_eq!(place.git(&["rev-list", "--merges", "main"]), "");
    assert_eq!(place.git(&["ls-files", "A*"]).lines().count(), 12);
    assert_eq!(place.status(), "");
    assert!(fs::read_dir(place.root.join(".claude/aot/trees")).expect("trees").count() <= 4);
}
