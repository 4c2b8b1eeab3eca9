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
    ("trees_stay_for_the_next_run", trees_stay_for_the_next_run),
    ("a_tree_is_renewed_before_it_is_wanted", a_tree_is_renewed_before_it_is_wanted),
    ("old_and_strange_trees_are_removed", old_and_strange_trees_are_removed),
    ("what_is_copied_is_each_trees_own", what_is_copied_is_each_trees_own),
    ("worktreeinclude_is_honoured", worktreeinclude_is_honoured),
    ("nothing_is_put_through_a_link_of_the_branch", nothing_is_put_through_a_link_of_the_branch),
    ("what_is_missing_is_told", what_is_missing_is_told),
    ("each_tree_has_a_number_and_ports", each_tree_has_a_number_and_ports),
    ("teardown_ends_what_setup_began", teardown_ends_what_setup_began),
];

fn trees_are_reused_and_clean() {
    let place = Place::with(&[("a.txt", "1\n"), (".gitignore", "cache/\n")]);
    let ground = place.ground();
    let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
    let first = lent.top().to_path_buf();
    assert!(first.starts_with(place.top.with_file_name("cache").join("trees")));
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

fn a_tree_is_renewed_before_it_is_wanted() {
    let place = Place::with(&[("a.txt", "1\n"), (".gitignore", "made\ncache\n")])
        .wanting(|wanted| wanted.setup = Some("echo x >> made".into()));
    let ground = place.ground();
    ground.renew_ahead();
    let lent = ground.lend(&work("A1", 1)).expect("there was none to renew");
    let top = lent.top().to_path_buf();
    let spoil = || write(&top, "cache", "left\n");
    spoil();
    ground.give_back(lent, End::Landed).expect("given back");
    let commit = |text: &str| {
        place.write("a.txt", text);
        place.git(&["commit", "-qam", text]);
    };
    commit("2\n");
    let ground = {
        ground.close().expect("closed");
        place.ground()
    };
    ground.renew_ahead();
    assert_eq!((read(&top, "a.txt"), top.join("cache").exists()), ("2\n".into(), false));
    let lent = ground.lend(&work("A1", 2)).expect("a tree");
    assert_eq!((lent.top(), read(&top, "made")), (top.as_path(), "x\n".into()), "setup is for whoever works");
    spoil();
    ground.give_back(lent, End::Landed).expect("given back");
    // The branch moves once more before the tree is wanted.
    ground.renew_ahead();
    commit("3\n");
    spoil();
    let lent = ground.lend(&work("A2", 1)).expect("a tree");
    assert_eq!((lent.top(), read(&top, "a.txt")), (top.as_path(), "3\n".into()));
    assert!(!top.join("cache").exists());
    ground.renew_ahead();
    let other = ground.lend(&work("A3", 1)).expect("another tree");
    assert_ne!(other.top(), top);
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
    assert_eq!(place.own_worktrees(), 1);
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
    assert!(place.git(&["worktree", "list"]).lines().count() <= 5);
}

fn trees_stay_for_the_next_run() {
    let place = Place::with(&[("a.txt", "1\n"), (".gitignore", "build/\n")]);
    let ground = place.ground();
    let lent = [1, 2].map(|attempt| ground.lend(&work("A1", attempt)).expect("a tree"));
    let tops = [0, 1].map(|one: usize| lent[one].top().to_path_buf());
    for lent in lent {
        write(lent.root(), "build/out", "of an earlier run\n");
        write(lent.root(), "a.txt", "not landed\n");
        ground.give_back(lent, End::Discarded { reason: "killed".into() }).expect("given back");
    }
    ground.close().expect("closed");
    assert!(tops.iter().all(|top| top.join("a.txt").is_file()));
    place.write("a.txt", "2\n");
    place.git(&["commit", "-qam", "by hand"]);
    let ground = place.ground();
    for (attempt, top) in (3..).zip(&tops) {
        let lent = ground.lend(&work("A1", attempt)).expect("a tree");
        assert_eq!(lent.top(), top);
        assert_eq!((read(lent.root(), "a.txt"), lent.root().join("build").exists()), ("2\n".into(), false));
        assert_eq!(git(lent.top(), &["status", "--short", "--ignored"]), "");
    }
    let third = ground.lend(&work("A1", 5)).expect("a tree");
    assert!(!tops.contains(&third.top().to_path_buf()), "{tops:?}");
    drop((ground, third));
    assert_eq!(aot_runner::tree::clean(&place.project(), &guard()).expect("cleaned"), 3);
    assert_eq!(place.git(&["worktree", "list"]).lines().count(), 1);
    let all = place.top.with_file_name("cache").join("trees");
    assert_eq!(fs::read_dir(all).expect("it stays").count(), 0);
}

fn old_and_strange_trees_are_removed() {
    let place = Place::with(&[("a.txt", "1\n")]);
    let ground = place.ground();
    let lent = [1, 2, 3].map(|attempt| ground.lend(&work("A1", attempt)).expect("a tree"));
    let tops = [0, 1, 2].map(|one: usize| lent[one].top().to_path_buf());
    let head = fs::File::open(lent[0].git_dirs()[0].join("HEAD")).expect("it is there");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(8 * 24 * 60 * 60);
    head.set_times(fs::FileTimes::new().set_modified(old)).expect("it is ours");
    // A worker has replaced the second one's `.git`, and a stranger lies beside them.
    fs::remove_file(tops[1].join(".git")).expect("removed");
    git(&tops[1], &["init", "-q"]);
    write(&tops[0].with_file_name("stranger"), "x", "x\n");
    drop((ground, lent));
    let ground = place.ground();
    assert!(!tops[1].exists() && !tops[0].with_file_name("stranger").exists());
    let lent = ground.lend(&work("A2", 1)).expect("a tree");
    assert_eq!(lent.top(), tops[2]);
    assert!(tops[0].exists(), "the end is told before it is removed");
    ground.give_back(lent, End::Landed).expect("given back");
    ground.close().expect("closed");
    assert!(!tops[0].exists() && tops[2].exists());
    assert_eq!(place.git(&["worktree", "list"]).lines().count(), 2);
}

fn what_is_copied_is_each_trees_own() {
    let place = Place::with(&[("a.txt", "1\n"), (".gitignore", ".env\nsecrets/\n")])
        .wanting(|wanted| wanted.copy = vec![".env".into(), "secrets".into()]);
    place.write(".env", "PORT=1\n");
    place.write("secrets/deep/key", "k\n");
    fs::set_permissions(place.root.join("secrets/deep/key"), fs::Permissions::from_mode(0o600))
        .expect("ours");
    let ground = place.ground();
    for attempt in 1..3 {
        let mut lent = ground.lend(&work("A1", attempt)).expect("a tree");
        assert_eq!(
            (read(lent.root(), ".env"), read(lent.root(), "secrets/deep/key")),
            ("PORT=1\n".into(), "k\n".into())
        );
        let mode =
            fs::metadata(lent.root().join("secrets/deep/key")).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        write(lent.root(), ".env", "PORT=2\n");
        write(lent.root(), "a.txt", &format!("{attempt}0\n"));
        assert_eq!(ground.seal(&mut lent).expect("sealed").changed, ["a.txt"]);
        assert!(matches!(land(&ground, &mut lent), Landing::Landed { commit: Some(_), .. }));
        ground.give_back(lent, End::Landed).expect("given back");
        assert_eq!(place.read(".env"), "PORT=1\n");
    }
}

fn worktreeinclude_is_honoured() {
    let ignored = ".env*\nconfig/*.local\nbuild/\n";
    let place = Place::with(&[
        ("a.txt", "1\n"),
        (".gitignore", ignored),
        (".worktreeinclude", ".env\n*.local\na.txt\nloose\n"),
    ]);
    for path in [".env", ".env.other", "config/x.local", "build/out", "loose"] {
        place.write(path, "1\n");
    }
    let ground = place.ground();
    let lent = ground.lend(&work("A1", 1)).expect("a tree");
    for (path, is_there) in
        [(".env", true), ("config/x.local", true), (".env.other", false), ("build", false), ("loose", false)]
    {
        assert_eq!(lent.root().join(path).exists(), is_there, "{path}");
    }
    assert_eq!(ground.changed(&lent).expect("seen"), [""; 0]);
}

/// What a worker landed could lead a copy or a link to the user's own folders, or from there into the tree.
fn nothing_is_put_through_a_link_of_the_branch() {
    let place = Place::with(&[("a.txt", "1\n"), (".gitignore", "node_modules\n.env\n")]).wanting(|wanted| {
        wanted.share = vec!["web/node_modules".into(), "node_modules".into()];
        wanted.copy = vec!["web/.env".into(), "keys/.env".into()];
    });
    let outside = tempfile::tempdir().expect("a folder");
    place.write("node_modules/x", "x\n");
    write(outside.path(), ".env", "secret\n");
    let ground = place.ground();
    let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
    for link in ["web", "keys"] {
        std::os::unix::fs::symlink(outside.path(), lent.root().join(link)).expect("a link");
    }
    assert!(matches!(land(&ground, &mut lent), Landing::Landed { commit: Some(_), .. }));
    ground.give_back(lent, End::Landed).expect("given back");
    let lent = ground.lend(&work("A2", 1)).expect("a tree");
    assert_eq!(read(lent.root(), "node_modules/x"), "x\n");
    assert!(lent.root().join("web").is_symlink() && lent.root().join("keys").is_symlink());
    let names: Vec<_> =
        fs::read_dir(outside.path()).expect("it is there").flatten().map(|one| one.file_name()).collect();
    assert_eq!(names, [".env"]);
    assert_eq!(read(outside.path(), ".env"), "secret\n");
}

fn what_is_missing_is_told() {
    let place = Place::with(&[("a.txt", "1\n")]).wanting(|wanted| {
        wanted.share = vec!["node_modules".into(), "a.txt".into()];
        wanted.copy = vec!["deep/.env".into()];
    });
    let notes = place.ground().take_notes();
    assert_eq!(
        notes,
        [
            "`isolation.share` names node_modules, which does not exist: no tree has it",
            "`isolation.copy` names deep/.env, which does not exist: no tree has it",
        ]
    );
}

fn each_tree_has_a_number_and_ports() {
    let place = Place::with(&[("a.txt", "1\n"), (".gitignore", "made\n")])
        .wanting(|wanted| wanted.setup = Some("echo $AOT_SLOT $AOT_PORT > made".into()));
    let ground = place.ground();
    let lent: Vec<_> = (1..9).map(|attempt| ground.lend(&work("A1", attempt)).expect("a tree")).collect();
    let mut ports = std::collections::BTreeSet::new();
    for lent in &lent {
        let [slot, port] = ground.variables(lent).map(|(_, value)| value.into_string().expect("a text"));
        assert_eq!(read(lent.root(), "made"), format!("{slot} {port}\n"));
        ports.insert(port.parse::<u16>().expect("a number"));
    }
    assert_eq!(ports.len(), 8);
    assert!(ports.iter().zip(ports.iter().skip(1)).all(|(one, next)| next - one >= 10), "{ports:?}");
    lent.into_iter().for_each(|lent| drop(ground.give_back(lent, End::Landed).expect("given back")));
    for kind in [
        Place::with(&[]).in_place(),
        Place::with(&[]).wanting(|wanted| wanted.mode = Some(aot_core::state::IsolationMode::None)),
    ] {
        let ground = kind.ground();
        let lent = ground.lend(&work("A1", 1)).expect("a tree");
        assert_eq!(ground.variables(&lent)[0].1, "1");
        ground.give_back(lent, End::Landed).expect("given back");
    }
}

fn teardown_ends_what_setup_began() {
    let place = Place::with(&[("a.txt", "1\n"), (".gitignore", "made\n")]);
    let log = place.top.with_file_name("log");
    let say = |what: &str| Some(format!("echo {what} $AOT_SLOT >> {}; touch made", log.display()));
    let place = place.wanting(|wanted| (wanted.setup, wanted.teardown) = (say("up"), say("down")));
    let told = || fs::read_to_string(&log).unwrap_or_default().replace('\n', ", ");
    let ground = place.ground();
    let one = ground.lend(&work("A1", 1)).expect("a tree");
    let two = ground.lend(&work("A2", 1)).expect("a tree");
    write(two.root(), "made", "spoiled\n");
    for lent in [one, two] {
        ground.give_back(lent, End::Landed).expect("given back");
    }
    assert_eq!(told(), "up 1, up 2, ");
    // Spoiled, it is ended before it is begun again.
    let two = ground.lend(&work("A2", 2)).expect("a tree");
    assert_eq!(told(), "up 1, up 2, down 2, up 2, ");
    ground.give_back(two, End::Landed).expect("given back");
    ground.close().expect("closed");
    let told = told();
    let ended = told.strip_prefix("up 1, up 2, down 2, up 2, ").expect("as before");
    assert!(["down 1, down 2, ", "down 2, down 1, "].contains(&ended), "{ended}");
}
