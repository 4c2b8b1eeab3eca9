//! Runs that die, at every step of a landing and at moments that nobody chose.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use aot_runner::tree::{End, GroundError};

use crate::Test;
use crate::kit::{Place, atom, contents, guard, landed, read, work, write};

pub const TESTS: &[Test] = &[
    (
        "a_landing_that_was_interrupted_is_finished_or_undone",
        a_landing_that_was_interrupted_is_finished_or_undone,
    ),
    ("what_the_user_did_after_a_crash_is_not_lost", what_the_user_did_after_a_crash_is_not_lost),
    ("locks_of_the_dead_are_cleared", locks_of_the_dead_are_cleared),
    ("what_a_dead_run_left_is_cleared", what_a_dead_run_left_is_cleared),
    ("killed_at_any_moment", killed_at_any_moment),
    ("killed_while_a_slow_filter_writes_the_checkout", killed_while_a_slow_filter_writes_the_checkout),
];

/// The first word of a run that is to be killed.
pub const RUN: &str = "__run";

const OLD: &[(&str, &str)] = &[
    ("a.txt", "old\n"),
    ("gone.txt", "gone\n"),
    ("folder/f.txt", "f\n"),
    ("file", "file\n"),
    ("unrelated.txt", "u\n"),
    ("Link", "no link yet\n"),
];

/// A landing that was noted and not begun: the commit is there, and nothing else.
struct Interrupted {
    place: Place,
    old: String,
    new: String,
}

fn interrupted() -> Interrupted {
    let place = Place::with(OLD);
    let old = place.tip("main");
    place.git(&["switch", "-qc", "next"]);
    place.write("a.txt", "new and longer\n");
    place.write("n/new.txt", "new\n");
    fs::remove_file(place.root.join("gone.txt")).expect("removed");
    fs::remove_dir_all(place.root.join("folder")).expect("removed");
    place.write("folder", "a file now\n");
    fs::remove_file(place.root.join("file")).expect("removed");
    place.write("file/in", "a folder now\n");
    fs::remove_file(place.root.join("Link")).expect("removed");
    std::os::unix::fs::symlink("a.txt", place.root.join("Link")).expect("a link");
    place.git(&["add", "-A"]);
    place.git(&["commit", "-qm", "work\n\nAot-Loop: 01loop\nAot-Atom: A1\nAot-Attempt: 4"]);
    let new = place.tip("next");
    place.git(&["switch", "-q", "main"]);
    place.git(&["branch", "-qD", "next"]);
    let record = format!("refs/aot/landing/{}/heads/main", place.project().key());
    place.git(&["update-ref", &record, &new]);
    Interrupted { place, old, new }
}

impl Interrupted {
    /// The files of the new commit are there, and the index does not know.
    fn write_files(&self) {
        let index = fs::read(self.place.top.join(".git/index")).expect("an index");
        self.read_tree();
        fs::write(self.place.top.join(".git/index"), index).expect("the old index");
    }

    fn read_tree(&self) {
        self.place.git(&["read-tree", "-m", "-u", &self.old, &self.new]);
    }

    fn update_ref(&self) {
        self.place.git(&["update-ref", "refs/heads/main", &self.new, &self.old]);
    }

    /// Opens, twice, and says whether it is the old commit or the new one, and what `git status` shows.
    fn opened(&self) -> (&'static str, String) {
        // Dirt is a refusal that comes after the repair.
        for _ in 0..2 {
            match self.place.open() {
                Ok(_) | Err(GroundError::Dirty { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(self.place.git(&["for-each-ref", "refs/aot/landing"]), "");
        let tip = self.place.tip("main");
        let which = if tip == self.old {
            "old"
        } else if tip == self.new {
            "new"
        } else {
            "another"
        };
        (which, self.place.status())
    }
}

fn a_landing_that_was_interrupted_is_finished_or_undone() {
    fn check(name: &str, crash: fn(&Interrupted), which: &str) {
        check_with(name, crash, which);
        let deleting = |interrupted: &Interrupted| {
            crash(interrupted);
            fs::remove_dir_all(interrupted.place.root.join(".claude/aot")).expect("removed");
        };
        check_with(&format!("{name}, and aot's own files are deleted"), deleting, which);
    }
    fn check_with(name: &str, crash: impl Fn(&Interrupted), which: &str) {
        let interrupted = interrupted();
        crash(&interrupted);
        assert_eq!(
            interrupted.opened(),
            (if which == "new" { "new" } else { "old" }, String::new()),
            "{name}"
        );
        let place = &interrupted.place;
        let aside = place.top.with_file_name("aside");
        place.git(&["worktree", "add", "-q", "--detach", &aside.display().to_string(), "main"]);
        assert_eq!(contents(&place.root), contents(&aside), "{name}");
        let found = place.ground().found(&[(atom("A1"), 4)]).expect("an answer").len();
        let kept = place.git(&["for-each-ref", "refs/aot/kept/01loop/A1/4"]).lines().count();
        let expected = if which == "new" { (1, 0) } else { (0, 1) };
        assert_eq!((found, kept), expected, "{name}: it is on the branch, or kept");
    }
    check("only noted", |_| {}, "old");
    check("files written, index not", Interrupted::write_files, "old");
    check(
        "some files written",
        |one| {
            one.write_files();
            write(&one.place.root, "a.txt", "old\n");
            fs::remove_dir_all(one.place.root.join("n")).expect("removed");
        },
        "old",
    );
    check(
        "files half written",
        |one| {
            one.write_files();
            write(&one.place.root, "a.txt", "new and l");
            write(&one.place.root, "n/new.txt", "");
        },
        "old",
    );
    check(
        "files gone on the way",
        |one| fs::remove_file(one.place.root.join("gone.txt")).expect("removed"),
        "old",
    );
    check("files and index, the branch not", Interrupted::read_tree, "new");
    check(
        "all but the note",
        |one| {
            one.read_tree();
            one.update_ref();
        },
        "new",
    );
    check(
        "the branch, and files that did not reach the disk",
        |one| {
            one.read_tree();
            one.update_ref();
            write(&one.place.root, "n/new.txt", "");
        },
        "new",
    );
}

fn what_the_user_did_after_a_crash_is_not_lost() {
    fn check(
        name: &str,
        crash: fn(&Interrupted),
        user: fn(&Place),
        expected: (&str, &str),
        mine: &[(&str, &str)],
    ) {
        let interrupted = interrupted();
        crash(&interrupted);
        user(&interrupted.place);
        let (which, status) = interrupted.opened();
        assert_eq!((which, status.as_str()), expected, "{name}");
        for (path, text) in mine {
            assert_eq!(interrupted.place.read(path), *text, "{name}: {path}");
        }
    }
    let edit: fn(&Place) = |place| {
        place.write("unrelated.txt", "mine\n");
        place.write("a.txt", "mine\n");
        place.write("untracked.txt", "mine\n");
    };
    let mine = [("unrelated.txt", "mine\n"), ("a.txt", "mine\n"), ("untracked.txt", "mine\n")];
    let dirt = " M a.txt\n M unrelated.txt\n?? untracked.txt";
    check("edits before the files", |_| {}, edit, ("old", dirt), &mine);
    check("edits after the files", Interrupted::write_files, edit, ("old", dirt), &mine);
    check("edits after the index", Interrupted::read_tree, edit, ("new", dirt), &mine);
    check(
        "a commit of everything",
        Interrupted::read_tree,
        |place| drop(place.git(&["commit", "-qam", "all of it"])),
        ("another", ""),
        &[("a.txt", "new and longer\n")],
    );
    check(
        "a commit of one file",
        Interrupted::read_tree,
        |place| {
            place.write("unrelated.txt", "mine\n");
            place.git(&["commit", "-qm", "one file", "--", "unrelated.txt"]);
        },
        ("another", ""),
        &[
            ("unrelated.txt", "mine\n"),
            ("a.txt", "old\n"),
            ("gone.txt", "gone\n"),
            ("n/new.txt", "(nothing)"),
        ],
    );
    check(
        "another branch",
        Interrupted::read_tree,
        |place| drop(place.git(&["switch", "-qc", "aside"])),
        ("old", ""),
        &[("a.txt", "old\n"), ("folder/f.txt", "f\n")],
    );
    check(
        "a file in a folder that was to go",
        Interrupted::write_files,
        |place| place.write("file/mine", "mine\n"),
        ("old", " D file"),
        &[("file/mine", "mine\n")],
    );
}

fn locks_of_the_dead_are_cleared() {
    // Git itself was killed: its lock is younger than the note, and no git runs here.
    let one = interrupted();
    one.write_files();
    fs::write(one.place.top.join(".git/index.lock"), "half an index").expect("a lock");
    assert_eq!(one.opened(), ("old", String::new()));
    // One of a reference that is ours alone: nobody else has references there.
    let one = interrupted();
    one.write_files();
    let lock = one.place.top.join(".git/refs/aot/kept/A1/1.lock");
    fs::create_dir_all(lock.parent().expect("it has one")).expect("folders");
    fs::write(&lock, "").expect("a lock");
    assert_eq!(one.opened(), ("old", String::new()));
    assert!(!lock.exists());
    // The one that is held while a record is taken away: git died when the record was gone already.
    let place = Place::with(OLD);
    let ground = place.open().expect("opened");
    landed(&ground, "A1", &[("a.txt", "new\n")]);
    drop(ground);
    let lock = place.top.join(".git/packed-refs.lock");
    fs::write(&lock, "").expect("a lock");
    let ground = place.open().expect("opened again");
    assert!(!lock.exists());
    landed(&ground, "A2", &[("b.txt", "new\n")]);
    // It was there before: somebody else's.
    let one = interrupted();
    let lock = one.place.top.join(".git/index.lock");
    fs::write(&lock, "").expect("a lock");
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
    fs::File::options().write(true).open(&lock).and_then(|file| file.set_modified(long_ago)).expect("a time");
    let error = one.place.open().expect_err("it is held");
    assert!(matches!(&error, GroundError::StillLocked { lock: held } if *held == lock), "{error}");
    assert!(error.hint().contains("index.lock"), "{}", error.hint());
    // A git of the dead run that still lives is waited for.
    let one = interrupted();
    fs::write(one.place.top.join(".git/index.lock"), "").expect("a lock");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(500));
            fs::remove_file(one.place.top.join(".git/index.lock")).expect("removed");
        });
        assert_eq!(one.opened(), ("old", String::new()));
    });
}

fn what_a_dead_run_left_is_cleared() {
    let place = Place::with(&[("a.txt", "1\n")]);
    let ground = place.ground();
    let (one, two) =
        (ground.lend(&work("A1", 1)).expect("a tree"), ground.lend(&work("A2", 1)).expect("a tree"));
    write(one.root(), "a.txt", "2\n");
    let locked = two.git_dirs()[0].join("locked");
    fs::write(locked, "by somebody\n").expect("locked");
    fs::remove_dir_all(two.top()).expect("removed");
    drop((ground, one, two));
    assert_eq!(place.git(&["worktree", "list"]).lines().count(), 3);
    let own = place.top.with_file_name("own");
    place.git(&["worktree", "add", "-q", "--detach", &own.display().to_string()]);
    let gone = place.top.with_file_name("gone");
    place.git(&["worktree", "add", "-q", "--detach", &gone.display().to_string()]);
    fs::remove_dir_all(&gone).expect("on a disk that is not there");
    let ground = place.ground();
    assert_eq!(place.own_worktrees(), 3, "the user's own stay");
    landed(&ground, "A1", &[("a.txt", "3\n")]);
    ground.close().expect("closed");
    // And if the whole folder was deleted between two runs.
    let ground = place.ground();
    let lent = ground.lend(&work("A1", 2)).expect("a tree");
    drop((ground, lent));
    fs::remove_dir_all(place.root.join(".claude/aot")).expect("removed");
    let ground = place.ground();
    assert_eq!(place.own_worktrees(), 3);
    let lent = ground.lend(&work("A1", 3)).expect("a tree");
    ground.give_back(lent, End::Landed).expect("given back");
}

const FILES: usize = 40;
const SLOW_FILES: usize = 6;

/// Lands again and again, until it is killed: every landing writes the same number into all files.
pub fn run(words: &[OsString]) -> ExitCode {
    let place = Place::at(Path::new(&words[2]));
    let count: usize = words[3].to_str().and_then(|count| count.parse().ok()).expect("a number of files");
    let guard = guard();
    let lock = lock(&place);
    lock.lock().expect("the run before is gone");
    guard.hold(lock.as_fd()).expect("it is held");
    let ground = place.open_with(&guard).unwrap_or_else(|error| panic!("no ground: {error}"));
    println!("up");
    // Other numbers than those of the runs before.
    for number in (u64::from(std::process::id()) << 32).. {
        let text = format!("{number} {}\n", "x".repeat(2000));
        let files: Vec<(String, &str)> =
            (0..count).map(|file| (format!("f{file}/x.txt"), text.as_str())).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        landed(&ground, "A1", &files);
        println!("landed");
    }
    ExitCode::SUCCESS
}

/// As a driver's lock: it is held until nothing of a run is at work any more.
fn lock(place: &Place) -> fs::File {
    let path = place.top.with_file_name("lock");
    fs::File::options().create(true).truncate(false).write(true).open(path).expect("a file")
}

/// Kills a run at many moments; each time the next one finds a clean checkout of one landing.
fn kill_runs(place: &Place, files: usize, moments: impl Iterator<Item = Duration>) {
    for (round, moment) in moments.enumerate() {
        let mut child = Command::new(std::env::current_exe().expect("a test knows itself"))
            .arg(RUN)
            .arg(&place.root)
            .arg(files.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let said = BufReader::new(child.stdout.take().expect("it was asked for"));
        // Every other run is killed in its first landing, the rest in the second.
        let word = if round % 2 == 0 { "up" } else { "landed" };
        said.lines().map_while(Result::ok).find(|line| line == word).expect("it gets there");
        // Any moment will do: none of them may do harm.
        std::thread::sleep(moment);
        child.kill().expect("it is killed");
        child.wait().expect("it is gone");
        let lock = lock(place);
        lock.lock().expect("what it had started is gone");
        let ground = place.ground();
        let status = place.git(&["status", "--porcelain"]);
        assert_eq!(status, "", "after {moment:?}");
        let texts: std::collections::BTreeSet<String> =
            (0..files).map(|file| read(&place.root, &format!("f{file}/x.txt"))).collect();
        assert_eq!(texts.len(), 1, "after {moment:?}: all files are of one landing");
        assert_eq!(place.own_worktrees(), 1);
        ground.close().expect("closed");
    }
    assert_ne!(place.git(&["rev-list", "--count", "main"]), "1", "something landed");
}

fn killed_at_any_moment() {
    let place = Place::with(&[("a.txt", "1\n")]);
    kill_runs(&place, FILES, (0..12).map(|round| Duration::from_millis(round * 40)));
}

/// Git removes a file before its filter has made the next version of it, so that most moments are in between.
fn killed_while_a_slow_filter_writes_the_checkout() {
    let place = Place::with(&[("a.txt", "1\n"), (".gitattributes", "*.txt filter=slow\n")]);
    // What is on disk is not what is in the repository, and can be told from it.
    place.git(&["config", "filter.slow.clean", "sed s/^disk://"]);
    place.git(&["config", "filter.slow.smudge", "sleep 0.05; sed s/^/disk:/"]);
    place.git(&["config", "filter.slow.required", "true"]);
    place.write("a.txt", "disk:1\n");
    place.git(&["add", "a.txt"]);
    kill_runs(&place, SLOW_FILES, (0..10).map(|round| Duration::from_millis(round * 130)));
}
