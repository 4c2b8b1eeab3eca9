//! Trees in which a worker has set traps: nothing that it wrote is run or believed outside of its cage.

use std::fs;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use aot_runner::tree::{End, Ground, Landing, Tree, TreeKind};
use nix::sys::stat::Mode;

use crate::Test;
use crate::kit::{Place, commit_of, git, guard, land, landed, read, work, write};

pub const TESTS: &[Test] = &[
    (
        "a_repository_in_the_place_of_a_tree_is_not_believed",
        a_repository_in_the_place_of_a_tree_is_not_believed,
    ),
    ("a_repository_made_in_place_is_not_believed", a_repository_made_in_place_is_not_believed),
    ("git_is_not_led_into_a_submodule", git_is_not_led_into_a_submodule),
    (
        "a_repository_that_the_index_calls_a_submodule_is_seen",
        a_repository_that_the_index_calls_a_submodule_is_seen,
    ),
    ("git_does_not_wait_for_pipes", git_does_not_wait_for_pipes),
    (
        "what_is_written_after_the_work_was_sealed_never_lands",
        what_is_written_after_the_work_was_sealed_never_lands,
    ),
    ("a_merge_says_what_it_changes", a_merge_says_what_it_changes),
    ("links_in_a_tree_are_not_followed", links_in_a_tree_are_not_followed),
    ("what_a_worker_has_checked_out_does_not_matter", what_a_worker_has_checked_out_does_not_matter),
];

const ATTRIBUTES: &str = "* filter=evil merge=evil diff=evil\n";

/// Puts a repository with traps in the place of a tree's own.
type Disguise = fn(&Path, &Trap);

/// A repository whose every setting that names a program makes a file, if git ever runs it.
struct Trap {
    _folder: tempfile::TempDir,
    mark: PathBuf,
}

impl Trap {
    fn new() -> Trap {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mark = folder.path().join("sprung");
        Trap { mark, _folder: folder }
    }

    fn set(&self, folder: &Path) {
        git(folder, &["init", "-q", "."]);
        self.arm(folder);
        git(folder, &["-c", "core.fsmonitor=false", "add", "-f", ".gitattributes"]);
        self.disarm();
    }

    fn arm(&self, folder: &Path) {
        let run = format!("touch {}; cat", self.mark.display());
        for name in [
            "core.fsmonitor",
            "filter.evil.clean",
            "filter.evil.smudge",
            "merge.evil.driver",
            "diff.evil.command",
            "diff.evil.textconv",
            "diff.external",
            "core.pager",
            "core.editor",
            "core.sshCommand",
            "core.askPass",
            "core.alternateRefsCommand",
            "credential.helper",
            "gpg.program",
            "alias.ls-files",
        ] {
            let value = if name.starts_with("alias") { format!("!{run}") } else { run.clone() };
            git(folder, &["config", name, &value]);
        }
        write(folder, ".git/hooks/post-index-change", &format!("#!/bin/sh\n{run}\n"));
        write(folder, ".gitattributes", ATTRIBUTES);
    }

    /// Whatever the test itself has set off is forgotten.
    fn disarm(&self) {
        let _ = fs::remove_file(&self.mark);
    }

    fn assert_not_sprung(&self, what: &str) {
        assert!(!self.mark.exists(), "{what}: a program of the worker was run");
    }
}

/// All that is done with the work of an attempt, and a tree for the next one.
fn whole_life(ground: &Ground, place: &Place, name: &str, spoil: &dyn Fn(&Path)) -> Landing {
    let mut lent = ground.lend(&work(name, 1)).expect("a tree");
    spoil(lent.root());
    let project = ground.project_in(&lent, &place.project());
    Tree::of(&project, &guard()).expect("it can be looked at");
    ground.changed(&lent).expect("seen");
    let _ = ground.seal(&mut lent).expect("sealed");
    write(lent.root(), "by-check.txt", "x\n");
    ground.undo_since_sealed(&lent).expect("undone");
    let landing = land(ground, &mut lent);
    let end = match &landing {
        Landing::Landed { .. } => End::Landed,
        Landing::Conflict { reason } => End::Failed { reason: reason.clone() },
        Landing::GivenUp => panic!("nothing was in its way"),
    };
    ground.give_back(lent, end).expect("given back");
    let next = ground.lend(&work(name, 2)).expect("another tree");
    Tree::of(&ground.project_in(&next, &place.project()), &guard()).expect("it can be looked at");
    ground.give_back(next, End::Discarded { reason: "not needed".into() }).expect("given back");
    Tree::of(&ground.verify_in(&place.project()).expect("a folder"), &guard()).expect("it can be looked at");
    landing
}

/// To git nothing is untracked then, and no file differs from the index.
fn a_repository_that_the_index_calls_a_submodule_is_seen() {
    let place = Place::with(&[("a.txt", "1\n")]);
    let ground = place.open().expect("ground");
    let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
    let within = lent.root().join("within");
    fs::create_dir(&within).expect("a folder");
    git(&within, &["init", "-q", "."]);
    write(&within, "file.txt", "x\n");
    git(&within, &["add", "."]);
    git(&within, &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]);
    let entry = format!("160000,{},within", git(&within, &["rev-parse", "HEAD"]));
    git(lent.root(), &["update-index", "--add", "--cacheinfo", &entry]);
    let sealed = ground.seal(&mut lent).expect("sealed");
    assert_eq!(sealed.changed, ["within"]);
    assert!(sealed.cannot_land.is_some());
    ground.give_back(lent, End::Discarded { reason: "not needed".into() }).expect("given back");
}

fn a_repository_in_the_place_of_a_tree_is_not_believed() {
    let disguises: [(&str, Disguise); 5] = [
        ("a folder", |root, trap| {
            fs::remove_file(root.join(".git")).expect("removed");
            trap.set(root);
        }),
        ("a link", |root, trap| {
            fs::remove_file(root.join(".git")).expect("removed");
            trap.set(root);
            fs::rename(root.join(".git"), root.join("repo")).expect("moved");
            symlink("repo", root.join(".git")).expect("a link");
        }),
        ("a file", |root, trap| {
            fs::remove_file(root.join(".git")).expect("removed");
            trap.set(root);
            fs::rename(root.join(".git"), root.join("repo")).expect("moved");
            write(root, ".git", "gitdir: repo\n");
        }),
        ("a pipe", |root, trap| {
            fs::remove_file(root.join(".git")).expect("removed");
            trap.set(root);
            fs::remove_dir_all(root.join(".git")).expect("removed");
            nix::unistd::mkfifo(&root.join(".git"), Mode::S_IRWXU).expect("a pipe");
        }),
        ("a folder below", |root, trap| {
            fs::create_dir_all(root.join("src")).expect("a folder");
            trap.set(&root.join("src"));
            write(root, ".gitattributes", ATTRIBUTES);
        }),
    ];
    for (what, disguise) in disguises {
        let trap = Trap::new();
        let place = Place::with(&[("a.txt", "1\n"), ("src/b.txt", "1\n"), (".gitignore", "repo/\n")]);
        let ground = place.ground();
        let landing = whole_life(&ground, &place, "A1", &|root| {
            disguise(root, &trap);
            write(root, "a.txt", "2\n");
            write(root, "src/b.txt", "2\n");
            trap.disarm();
        });
        commit_of(landing);
        trap.assert_not_sprung(what);
        assert_eq!((place.read("a.txt"), place.read("src/b.txt")), ("2\n".into(), "2\n".into()), "{what}");
        assert_eq!(place.read("by-check.txt"), "(nothing)");
        // The attributes have landed, and name programs that the user's own configuration does not know.
        landed(&ground, "A2", &[("a.txt", "3\n")]);
        ground.close().expect("closed");
        trap.assert_not_sprung(what);
    }
}

fn a_repository_made_in_place_is_not_believed() {
    let inside = |folder: &str| Place::in_folder(folder, &[("a.txt", "1\n")]).in_place();
    for (what, place) in
        [("outside of git", Place::plain(&[("a.txt", "1\n")])), ("in a folder", inside("sub"))]
    {
        let trap = Trap::new();
        let ground = place.ground();
        let spoil = |root: &Path| {
            trap.set(root);
            write(root, "a.txt", "2\n");
            trap.disarm();
        };
        let landing = whole_life(&ground, &place, "A1", &spoil);
        let Landing::Conflict { reason } = landing else { panic!("{what}: {landing:?}") };
        assert!(reason.contains(".git"), "{what}: {reason}");
        trap.assert_not_sprung(what);
        assert!(!place.root.join(".git").exists(), "{what}");
        assert_eq!(place.read("a.txt"), "1\n");
        assert!(ground.take_notes().iter().any(|note| note.contains("set-aside")), "it is told");
        // The run dies while a worker's repository lies there.
        let lent = ground.lend(&work("A1", 3)).expect("a tree");
        spoil(lent.root());
        drop((ground, lent));
        let ground = place.ground();
        assert_eq!(ground.trees(), TreeKind::InPlace, "{what}");
        trap.assert_not_sprung(what);
        assert!(!place.root.join(".git").exists(), "{what}");
        assert_eq!(place.read("a.txt"), "1\n");
        // Not every cage keeps a worker from the shadow repository, nor from a check that makes a repository.
        let mut lent = ground.lend(&work("A1", 4)).expect("a tree");
        write(lent.root(), "a.txt", "2\n");
        let _ = ground.seal(&mut lent).expect("sealed");
        spoil(lent.root());
        ground.undo_since_sealed(&lent).expect("undone");
        let config = place.root.join(".claude/aot/shadow.git/config");
        let poison = format!(
            "[core]\n\tfsmonitor = touch {0}\n[filter \"evil\"]\n\tclean = touch {0}\n",
            trap.mark.display()
        );
        fs::write(&config, poison).expect("written");
        write(lent.root(), ".claude/aot/shadow.git/info/attributes", ATTRIBUTES);
        commit_of(land(&ground, &mut lent));
        ground.give_back(lent, End::Landed).expect("given back");
        trap.assert_not_sprung(what);
        assert!(!place.root.join(".git").exists(), "{what}");
    }
}

fn git_is_not_led_into_a_submodule() {
    let trap = Trap::new();
    let library = Place::with(&[("l.txt", "1\n")]);
    let place = Place::with(&[("a.txt", "1\n")]).wanting(|wanted| {
        // What an ordinary setup would fetch.
        wanted.setup = Some(format!("git -c protocol.file.allow=always clone -q {} lib", "LIBRARY"));
    });
    let url = library.top.display().to_string();
    place.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "lib"]);
    place.git(&["commit", "-qm", "A submodule"]);
    let place = place.wanting(|wanted| {
        wanted.setup = wanted.setup.take().map(|setup| setup.replace("LIBRARY", &url));
    });
    let ground = place.ground();
    // Work beside it lands, however the submodule came into the tree.
    landed(&ground, "A1", &[("a.txt", "2\n")]);
    assert_eq!(place.git(&["ls-tree", "HEAD", "lib"]).split(' ').next(), Some("160000"));
    let landing = whole_life(&ground, &place, "A2", &|root| {
        assert_eq!(read(root, "lib/l.txt"), "1\n", "every attempt has it");
        trap.set(&root.join("lib"));
        write(root, "lib/l.txt", "changed\n");
        write(root, "a.txt", "3\n");
        trap.disarm();
    });
    trap.assert_not_sprung("a submodule");
    let Landing::Conflict { reason } = landing else { panic!("{landing:?}") };
    assert!(reason.contains("submodule") && reason.contains("lib"), "{reason}");
    assert_eq!(place.read("a.txt"), "2\n", "nothing of it has landed");
    let mut lent = ground.lend(&work("A3", 1)).expect("a tree");
    assert_eq!(read(lent.root(), "lib/l.txt"), "1\n", "and nothing of it is left");
    fs::remove_dir_all(lent.root().join("lib")).expect("removed");
    let told = ground.seal(&mut lent).expect("sealed").cannot_land.expect("it cannot land");
    assert!(told.contains("lib"), "{told}");
}

fn git_does_not_wait_for_pipes() {
    let place = Place::with(&[("a.txt", "1\n"), ("sub/.gitignore", "x\n"), ("sub/b.txt", "1\n")]);
    let pipe = |root: &Path, path: &str| {
        let path = root.join(path);
        let _ = fs::remove_file(&path);
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).expect("a pipe");
    };
    let ground = place.ground();
    for (attempt, path) in [".gitignore", ".gitattributes", "sub/.gitignore", ".gitmodules", "sub/b.txt", "x"]
        .into_iter()
        .enumerate()
    {
        let text = format!("{attempt}\n");
        let landing = whole_life(&ground, &place, &format!("A{attempt}"), &|root| {
            pipe(root, path);
            write(root, "a.txt", &format!("new {text}"));
        });
        commit_of(landing);
        assert_eq!(place.read("a.txt"), format!("new {text}"));
    }
    let place = Place::plain(&[("a.txt", "1\n")]);
    let ground = place.ground();
    commit_of(whole_life(&ground, &place, "A1", &|root| {
        pipe(root, ".gitignore");
        pipe(root, "mine");
        write(root, "a.txt", "2\n");
    }));
    assert!(place.root.join("mine").exists(), "in place it may be a person's");
}

fn what_is_written_after_the_work_was_sealed_never_lands() {
    for place in [Place::with(FILES), Place::with(FILES).in_place(), Place::plain(FILES)] {
        let ground = place.ground();
        let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
        write(lent.root(), "a.txt", "2\n");
        write(lent.root(), "new/n.txt", "n\n");
        let sealed = ground.seal(&mut lent).expect("sealed");
        assert_eq!(sealed.changed, ["a.txt", "new/n.txt"]);
        // Its check runs what the worker wrote.
        write(lent.root(), "tests/t.txt", "no tests\n");
        write(lent.root(), "aot.toml", "[cage]\nkind = \"none\"\n");
        write(lent.root(), "a.txt", "3\n");
        fs::remove_file(lent.root().join("gone.txt")).expect("removed");
        fs::remove_dir_all(lent.root().join("new")).expect("removed");
        symlink("/", lent.root().join("new")).expect("a link");
        let undone = ground.undo_since_sealed(&lent).expect("undone");
        assert_eq!(undone, ["a.txt", "aot.toml", "gone.txt", "new", "new/n.txt", "tests/t.txt"]);
        let there = |path: &str| read(lent.root(), path);
        assert_eq!((there("a.txt"), there("new/n.txt")), ("2\n".into(), "n\n".into()));
        assert_eq!((there("tests/t.txt"), there("gone.txt")), ("t\n".into(), "g\n".into()));
        assert_eq!(there("aot.toml"), "(nothing)");
        // Even if nobody takes it back, only what was sealed lands.
        write(lent.root(), "tests/t.txt", "no tests\n");
        let landing = land(&ground, &mut lent);
        let Landing::Landed { commit: Some(_), paths } = landing else { panic!("{landing:?}") };
        assert_eq!(paths, ["a.txt", "new/n.txt"]);
    }
}

const FILES: &[(&str, &str)] = &[("a.txt", "1\n"), ("tests/t.txt", "t\n"), ("gone.txt", "g\n")];

/// A merge follows a file that was moved meanwhile, to a place where the worker had no business.
fn a_merge_says_what_it_changes() {
    let long = "one\ntwo\nthree\nfour\nfive\nsix\n";
    let place = Place::with(&[("src/x.txt", long)]);
    let ground = place.ground();
    let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
    write(lent.root(), "src/x.txt", &long.replace("six", "sixth"));
    let _ = ground.seal(&mut lent).expect("sealed");
    fs::create_dir_all(place.root.join("tests")).expect("a folder");
    place.git(&["mv", "src/x.txt", "tests/x.txt"]);
    place.git(&["commit", "-qm", "Moved"]);
    let mut seen = Vec::new();
    let message = crate::kit::message("A1", 1);
    let landing = ground.land(
        &mut lent,
        &message,
        &mut |_, changed| {
            seen = changed.to_vec();
            Err("protected".to_owned())
        },
        &mut crate::kit::no_wait,
    );
    assert_eq!(landing.expect("an answer"), Landing::Conflict { reason: "protected".into() });
    assert_eq!(seen, ["tests/x.txt"]);
}

fn what_a_worker_has_checked_out_does_not_matter() {
    let place = Place::with(&[("a.txt", "1\n"), ("b.txt", "1\n")]);
    let ground = place.ground();
    let ways: [fn(&Path, &Path); 4] = [
        |_, git_dir| fs::write(git_dir.join("HEAD"), "ab".repeat(20)).expect("written"),
        |_, git_dir| fs::write(git_dir.join("HEAD"), "ref: refs/heads/none\n").expect("written"),
        |top, _| drop(git(top, &["checkout", "-q", "--orphan", "mine"])),
        |top, _| drop(git(top, &["commit", "-qam", "by a worker"])),
    ];
    for (attempt, way) in (2..).zip(ways) {
        let mut lent = ground.lend(&work("A1", attempt)).expect("a tree");
        write(lent.root(), "a.txt", &format!("{attempt}\n"));
        write(lent.root(), "new.txt", &format!("{attempt}\n"));
        way(lent.top(), &lent.git_dirs()[0]);
        let sealed = ground.seal(&mut lent).expect("sealed");
        assert_eq!(sealed.changed, ["a.txt", "new.txt"], "{attempt}");
        commit_of(land(&ground, &mut lent));
        assert_eq!(place.read("a.txt"), format!("{attempt}\n"));
        ground.give_back(lent, End::Landed).expect("given back");
    }
}

fn links_in_a_tree_are_not_followed() {
    let outside = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir_all(outside.path().join("deep")).expect("folders");
    fs::write(outside.path().join("deep/b.txt"), "mine\n").expect("a file");
    let place = Place::with(&[("a.txt", "1\n"), ("d/deep/b.txt", "1\n")]);
    let ground = place.ground();
    let to_outside = |root: &Path| {
        fs::remove_dir_all(root.join("d")).expect("removed");
        symlink(outside.path(), root.join("d")).expect("a link");
    };
    let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
    write(lent.root(), "a.txt", "2\n");
    let _ = ground.seal(&mut lent).expect("sealed");
    to_outside(lent.root());
    ground.undo_since_sealed(&lent).expect("undone");
    assert_eq!(read(lent.root(), "d/deep/b.txt"), "1\n");
    to_outside(lent.root());
    commit_of(land(&ground, &mut lent));
    ground.give_back(lent, End::Landed).expect("given back");
    let lent = ground.lend(&work("A2", 1)).expect("a tree");
    assert_eq!(read(lent.root(), "d/deep/b.txt"), "1\n");
    assert_eq!(fs::read(outside.path().join("deep/b.txt")).expect("it is there"), b"mine\n");
}
