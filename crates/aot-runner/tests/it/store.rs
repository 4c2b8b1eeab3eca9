//! The store among real processes: many writers, a writer that is killed, editors that know no lock, a full disk.
//!
//! The other processes are this very test binary, started again for one of the `role_` tests.

#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use aot_runner::store::error::FileError;
use aot_runner::store::file::{Candidate, Changed, Decision, Done, StateFile, TransactError};
use aot_runner::store::journal::{Journal, JournalEntry, Reach};
use aot_runner::store::lock::LOCK_WAIT;
use aot_runner::store::watch::Watch;

const LIMIT: u64 = 16 << 20;

// --- a text that shows when it is torn ---------------------------------------------------------------------------

/// Lines, and a last one that counts them: a text that was cut or mixed is no list. After it there may be lines with a
/// `+` that somebody appended.
#[derive(Debug, Clone, Default, PartialEq)]
struct List(BTreeSet<String>);

impl List {
    fn parse(text: &[u8]) -> Option<List> {
        let text = std::str::from_utf8(text).ok()?;
        let (counted, appended) = text.split_at(text.find("\n+").map_or(text.len(), |at| at + 1));
        let (lines, count) = counted.strip_suffix('\n')?.rsplit_once("end ")?;
        let mut list = List(lines.lines().map(str::to_string).collect());
        if count.parse() != Ok(list.0.len()) || list.text() != counted.as_bytes() {
            return None;
        }
        for line in appended.split_inclusive('\n') {
            list.0.insert(line.strip_prefix('+')?.strip_suffix('\n')?.to_string());
        }
        Some(list)
    }

    fn text(&self) -> Vec<u8> {
        let lines: String = self.0.iter().map(|line| format!("{line}\n")).collect();
        format!("{lines}end {}\n", self.0.len()).into_bytes()
    }

    fn own(&self, writer: &str) -> usize {
        self.0.iter().filter(|line| line.starts_with(writer)).count()
    }
}

fn torn(look: &Candidate) -> String {
    format!("torn: {:?}", String::from_utf8_lossy(&look.text.bytes))
}

/// Adds a line; lines that `aot` wrote and a stale save removed come back, as the layer above does with its journal.
fn add(file: &StateFile, line: &str) -> Result<Done<usize>, TransactError<String>> {
    file.transact("add a line", |look| {
        let Some(mut list) = List::parse(&look.text.bytes) else { return Ok(Decision::Doubt(torn(&look))) };
        if let Some(ours) = look.ours {
            list.0.extend(List::parse(&ours.bytes).expect("ours are whole").0);
        }
        list.0.insert(line.to_string());
        let count = list.0.len();
        Ok(Decision::Replace(list.text(), count))
    })
}

// --- places and processes ----------------------------------------------------------------------------------------

struct Place {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join(".claude/aot-loop-state.md");
        fs::create_dir(dir.path().join(".claude")).expect("made");
        let place = Place { _dir: dir, path };
        drop(place.file().create(&List::default().text()).expect("created"));
        place
    }

    fn file(&self) -> StateFile {
        StateFile::open(&self.path, LIMIT).expect("a state file").waiting(LOCK_WAIT * 6)
    }

    fn list(&self) -> List {
        let text = self.file().read().expect("a text").bytes;
        List::parse(&text).unwrap_or_else(|| panic!("torn: {:?}", String::from_utf8_lossy(&text)))
    }

    fn litter(&self) -> Vec<String> {
        litter(self.file().home().sidecar())
    }

    /// Every line of every text that was kept.
    fn kept(&self) -> BTreeSet<String> {
        let mut lines = BTreeSet::new();
        for folder in self.file().conflicts() {
            for name in ["ours.md", "theirs.md"] {
                let text = fs::read_to_string(folder.join(name)).expect("kept");
                lines.extend(text.lines().map(|line| line.trim_start_matches('+').to_string()));
            }
        }
        lines
    }
}

fn litter(sidecar: &Path) -> Vec<String> {
    let names = fs::read_dir(sidecar).expect("a sidecar");
    let names = names.map(|entry| entry.expect("an entry").file_name().into_string().expect("plain names"));
    names
        .filter(|name| name.starts_with("part-") || name.starts_with("swap-") || name.ends_with(".part"))
        .collect()
}

/// This test binary, started for one of its roles.
fn role(name: &str, state: &Path, words: &[&str]) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", &format!("store::{name}"), "--ignored", "--nocapture", "--test-threads=1"]);
    command.env("AOT_TEST_STATE", state).env("AOT_TEST_WORDS", words.join(","));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a child")
}

fn told() -> (StateFile, PathBuf, Vec<String>) {
    let path = PathBuf::from(std::env::var("AOT_TEST_STATE").expect("a role is told its place"));
    let words = std::env::var("AOT_TEST_WORDS").expect("a role is told its words");
    let file = StateFile::open(&path, LIMIT).expect("a state file").waiting(LOCK_WAIT * 6);
    (file, path, words.split(',').map(str::to_string).collect())
}

/// Waits until the child has said the word, and leaves the rest of its output to be read.
fn until_said(child: &mut Child, word: &str) -> BufReader<ChildStdout> {
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    while output.read_line(&mut line).expect("readable") > 0 {
        if line.contains(word) {
            return output;
        }
        line.clear();
    }
    panic!("the child ended without {word:?}");
}

/// Everybody is started before anybody begins.
fn begin(children: &mut [Child]) -> Vec<BufReader<ChildStdout>> {
    let outputs = children.iter_mut().map(|child| until_said(child, "ready")).collect();
    for child in children {
        drop(child.stdin.take());
    }
    outputs
}

fn ready() {
    println!("ready");
    std::io::stdout().flush().expect("somebody listens");
    std::io::stdin().read_to_end(&mut Vec::new()).expect("closed by whoever begins");
}

/// Ends a role without an end of its own when the test that plays it has died.
fn still_listened_to() {
    println!(".");
    std::io::stdout().flush().expect("somebody listens");
}

fn succeed(children: Vec<Child>, outputs: Vec<BufReader<ChildStdout>>) {
    for (mut child, mut output) in children.into_iter().zip(outputs) {
        let mut said = String::new();
        output.read_to_string(&mut said).expect("readable");
        assert!(child.wait().expect("waited for").success(), "{said}");
    }
}

/// Numbers that differ from run to run; the seed is printed with a failure.
struct Dice(u64);

impl Dice {
    fn new() -> Dice {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let seed = std::env::var("AOT_SEED").ok().and_then(|seed| seed.parse().ok());
        let dice = Dice(seed.unwrap_or(now.as_nanos() as u64) | 1);
        println!("AOT_SEED={}", dice.0);
        dice
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

// --- many writers ------------------------------------------------------------------------------------------------

#[test]
fn four_processes_with_250_updates_each_lose_none() {
    let place = Place::new();
    let writers = ["a", "b", "c", "d"];
    let mut children: Vec<Child> =
        writers.iter().map(|name| role("role_writer", &place.path, &[name, "250"])).collect();
    let outputs = begin(&mut children);
    succeed(children, outputs);
    let list = place.list();
    assert_eq!(list.0.len(), 1_000);
    assert!(writers.iter().all(|name| list.own(name) == 250));
    assert_eq!(place.litter(), Vec::<String>::new());
    assert!(place.file().conflicts().is_empty());
    let since = Journal::of(place.file().home()).since::<String>(0).expect("read");
    assert_eq!((since.entries.len(), since.reach, since.unreadable), (1_000, Reach::Whole, 0));
    let hash = place.file().read().expect("a text").hash.to_hex().to_string();
    assert_eq!(since.entries.last().map(|entry| &entry.hash), Some(&hash));
}

#[test]
#[ignore = "a process of its own for other tests"]
fn role_writer() {
    let (file, _, words) = told();
    ready();
    for number in 0..words[1].parse().expect("a count") {
        add_with_journal(&file, format!("{} {number:04}", words[0]));
    }
}

/// On a slow machine an editor may save in every one of many rounds; then the error is right, and one tries again.
const TRIES: usize = 50;

fn add_with_journal(file: &StateFile, line: String) {
    let contended =
        |done: &Result<_, _>| matches!(done, Err(TransactError::File(FileError::Contended { .. })));
    let mut tries = (0..TRIES).map(|_| add(file, &line)).skip_while(contended);
    let done = tries.next().expect("the editor rests at times").expect("added");
    let hash = done.text.hash.to_hex().to_string();
    let entry = JournalEntry {
        revision: done.value as u64,
        at: String::new(),
        from: String::new(),
        hash,
        changes: vec![line],
    };
    Journal::of(file.home()).append(&done.held, &entry).expect("appended");
}

// --- a writer that is killed -------------------------------------------------------------------------------------

/// As many as take a few seconds; `AOT_KILLS=500` for the whole.
const KILLS: u64 = 100;

#[test]
fn a_writer_killed_at_any_moment_leaves_a_whole_text() {
    let kills = std::env::var("AOT_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let place = Place::new();
    let mut dice = Dice::new();
    let mut known = List::default();
    let mut left_something = 0;
    for kill in 0..kills {
        let mut child = role("role_endless_writer", &place.path, &[&kill.to_string()]);
        let mut output = until_said(&mut child, "ready");
        drop(child.stdin.take());
        if kill % 2 == 1 {
            // However slow the machine is, half of them have written something.
            output.read_line(&mut String::new()).expect("a dot");
        }
        // Not to wait for anything, but to kill at another moment each time.
        let end = Instant::now() + Duration::from_micros(dice.below(12_000));
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        child.kill().expect("killed");
        child.wait().expect("waited for");
        drop(output);
        left_something += usize::from(!place.litter().is_empty());
        // Read as it was left, before anything is taken up.
        let list = List::parse(&fs::read(&place.path).expect("there")).expect("whole");
        assert!(known.0.is_subset(&list.0), "nothing that was there is gone");
        let mine = list.own(&format!("w{kill} "));
        assert!((0..mine).all(|n| list.0.contains(&format!("w{kill} {n:06}"))), "no hole");
        drop(add(&place.file(), &format!("parent {kill:04}")).expect("taken up"));
        assert_eq!(place.litter(), Vec::<String>::new());
        known = place.list();
        assert_eq!(known.own(&format!("w{kill} ")), mine, "the same after taking up");
    }
    assert_eq!(known.own("parent"), kills as usize);
    assert!(place.file().conflicts().is_empty());
    println!(
        "{kills} kills: {} lines by the killed, {left_something} left files",
        known.0.len() - kills as usize
    );
    assert!(known.0.len() > kills as usize, "some were killed after they had written");
    let journal = Journal::of(place.file().home()).since::<String>(0).expect("readable after all this");
    assert_eq!(journal.unreadable, 0);
}

#[test]
#[ignore = "a process of its own for other tests"]
fn role_endless_writer() {
    let (file, _, words) = told();
    ready();
    for number in 0.. {
        add_with_journal(&file, format!("w{} {number:06}", words[0]));
        still_listened_to();
    }
}

// --- editors that know no lock -----------------------------------------------------------------------------------

/// Two writers of ours and, until they are done, an editor of that style, all at once. Whatever anybody wrote is in the text or, where it
/// could not be merged, among the kept texts.
fn check_editor(style: &str) {
    let place = Place::new();
    let stop = place.path.with_file_name("stop");
    let mut children =
        vec![role("role_writer", &place.path, &["a", "60"]), role("role_writer", &place.path, &["b", "60"])];
    children.push(role("role_editor", &place.path, &["e", style]));
    let mut outputs = begin(&mut children);
    let (editor, output) = (children.pop().expect("pushed"), outputs.pop().expect("its output"));
    succeed(children, outputs);
    fs::write(&stop, "").expect("written");
    succeed(vec![editor], vec![output]);
    let saved: usize = fs::read_to_string(&stop).expect("there").parse().expect("the editor wrote its count");
    drop(add(&place.file(), "z last").expect("added"));
    let list = place.list();
    let (kept, conflicts) = (place.kept(), place.file().conflicts().len());
    println!("{style}: {} of the editor's {saved} lines in the text, {conflicts} conflicts", list.own("e"));
    for (name, count) in [("a", 60), ("b", 60), ("e", saved)] {
        for number in 0..count {
            let line = format!("{name} {number:04}");
            assert!(list.0.contains(&line) || kept.contains(&line), "{style}: {line} is lost");
        }
    }
    assert_eq!((list.own("a"), list.own("b")), (60, 60), "{style}: ours are all in the text");
    assert_eq!(place.litter(), Vec::<String>::new());
}

#[test]
fn an_editor_that_saves_by_rename_loses_nothing() {
    check_editor("rename");
}

#[test]
fn an_editor_that_saves_in_place_loses_nothing() {
    check_editor("in place");
}

#[test]
fn a_program_that_appends_loses_nothing() {
    check_editor("append");
}

/// Reads, adds a line, saves; again and again, without any lock and without remembering what it saved.
#[test]
#[ignore = "a process of its own for other tests"]
fn role_editor() {
    let (_, path, words) = told();
    let (stop, mut dice) = (path.with_file_name("stop"), Dice::new());
    ready();
    let mut number = 0;
    while !stop.exists() {
        let line = format!("{} {number:04}", words[0]);
        if words[1] == "append" {
            let mut file = fs::OpenOptions::new().append(true).open(&path).expect("opened");
            file.write_all(format!("+{line}\n").as_bytes()).expect("appended");
        } else {
            let mut list = List::parse(&fs::read(&path).expect("there")).expect("whole");
            list.0.insert(line);
            save(&path, &words[1], &list.text());
        }
        number += 1;
        still_listened_to();
        // Not to wait for anything: an editor that never rests is an error by itself.
        std::thread::sleep(Duration::from_micros(dice.below(2) * dice.below(80_000)));
    }
    fs::write(&stop, number.to_string()).expect("written");
}

fn save(path: &Path, style: &str, text: &[u8]) {
    match style {
        "in place" => fs::write(path, text).expect("saved"),
        _ => {
            let aside = path.with_extension("editor");
            fs::write(&aside, text).expect("written");
            fs::rename(&aside, path).expect("saved");
        }
    }
}

// --- a full disk -------------------------------------------------------------------------------------------------

fn check_full(error: &TransactError<String>) {
    let TransactError::File(error @ FileError::Full { path, .. }) = error else { panic!("not {error:?}") };
    assert!(error.to_string().contains(&path.display().to_string()));
    assert!(error.hint().contains("free some space"));
}

#[test]
fn a_full_disk_leaves_the_old_text_and_no_litter() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let Some(_mounted) = Mounted::new(&["-t", "tmpfs", "-o", "size=256k", "tmpfs"], dir.path()) else {
        return eprintln!("SKIPPED a_full_disk_leaves_the_old_text_and_no_litter: mounting needs root");
    };
    let path = dir.path().join("aot-loop-state.md");
    let file = StateFile::open(&path, LIMIT).expect("a state file");
    drop(file.create(&List::default().text()).expect("created"));
    for number in 0..5 {
        drop(add(&file, &format!("line {number}")).expect("added"));
    }
    let before = fs::read(&path).expect("there");
    let ballast = dir.path().join("ballast");
    let mut filling = fs::File::create(&ballast).expect("made");
    while filling.write_all(&[0; 4_096]).is_ok() {}
    drop(filling);
    for _ in 0..8 {
        // What lingers is dropped by and by, which makes room; so the text is a large one.
        check_full(&add(&file, &"x".repeat(64 << 10)).expect_err("the disk is full"));
        assert_eq!(fs::read(&path).expect("there"), before);
        assert_eq!(litter(file.home().sidecar()), Vec::<String>::new());
    }
    fs::remove_file(&ballast).expect("removed");
    remount(dir.path(), "ro");
    let error = add(&file, "x").expect_err("read-only");
    assert!(matches!(error, TransactError::File(FileError::ReadOnly { .. })), "{error}");
    assert_eq!(file.read().expect("readable").bytes, before);
    remount(dir.path(), "rw");
    drop(add(&file, "room again").expect("added"));
    assert_eq!(List::parse(&fs::read(&path).expect("there")).expect("whole").0.len(), 6);
}

fn remount(folder: &Path, mode: &str) {
    let done = Command::new("mount").args(["-o", &format!("remount,{mode}")]).arg(folder).status();
    assert!(done.is_ok_and(|status| status.success()), "remounted {mode}");
}

struct Mounted<'a>(&'a Path);

impl Mounted<'_> {
    fn new<'a>(options: &[&str], at: &'a Path) -> Option<Mounted<'a>> {
        let mounted = Command::new("mount").args(options).arg(at).stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then_some(Mounted(at))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "unmounted");
    }
}

#[test]
fn a_sidecar_on_another_file_system_serves_as_well() {
    let place = Place::new();
    let file = place.file();
    let Some(_mounted) = Mounted::new(&["-t", "tmpfs", "tmpfs"], file.home().sidecar()) else {
        return eprintln!("SKIPPED a_sidecar_on_another_file_system_serves_as_well: mounting needs root");
    };
    let mut late = fs::OpenOptions::new().append(true).open(&place.path).expect("opened");
    drop(add(&file, "first").expect("added"));
    late.write_all(b"+late\n").expect("appended");
    let done = add(&file, "second").expect("added");
    assert_eq!(done.rescued.len(), 1);
    drop(done);
    assert!(place.kept().contains("late"));
    assert_eq!(place.list().0.len(), 2);
    let beside =
        fs::read_dir(file.home().folder()).expect("a folder").map(|it| it.expect("an entry").file_name());
    let beside: Vec<_> = beside.filter(|name| name.to_string_lossy().contains("aot-swap")).collect();
    assert!(beside.is_empty(), "{beside:?}");
}

#[test]
fn a_state_file_that_is_a_mount_point_is_named() {
    let place = Place::new();
    let source = place.path.with_file_name("elsewhere.md");
    fs::copy(&place.path, &source).expect("copied");
    let Some(_mounted) = Mounted::new(&["--bind", source.to_str().expect("plain")], &place.path) else {
        return eprintln!("SKIPPED a_state_file_that_is_a_mount_point_is_named: mounting needs root");
    };
    let error = add(&place.file(), "x").expect_err("it cannot be replaced");
    assert!(matches!(error, TransactError::File(FileError::Pinned { .. })), "{error:?}");
    assert_eq!(place.list(), List::default());
    assert_eq!(place.litter(), Vec::<String>::new());
}

#[test]
fn a_file_size_limit_leaves_the_old_text_and_no_litter() {
    let place = Place::new();
    let binary = std::env::current_exe().expect("this test");
    // The shell ignores the signal, and so does what it becomes; then a write over the limit is an error.
    let child = Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact store::role_limited --ignored --nocapture",
        ])
        .arg(binary)
        .env("AOT_TEST_STATE", &place.path)
        .env("AOT_TEST_WORDS", "")
        .output()
        .expect("a shell");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    assert_eq!(place.list().0.len(), 1);
    assert_eq!(place.litter(), Vec::<String>::new());
}

#[test]
#[ignore = "a process of its own for other tests"]
fn role_limited() {
    let (file, path, _) = told();
    drop(add(&file, "short").expect("short enough"));
    let before = fs::read(&path).expect("there");
    for _ in 0..3 {
        check_full(&add(&file, &"long ".repeat(10_000)).expect_err("over the limit"));
        assert_eq!(fs::read(&path).expect("there"), before);
        assert_eq!(litter(file.home().sidecar()), Vec::<String>::new());
    }
}

// --- missing rights ----------------------------------------------------------------------------------------------

#[test]
fn missing_rights_are_named_and_nothing_is_left() {
    let place = Place::new();
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "store::role_without_rights", "--ignored", "--nocapture"]);
    command.env("AOT_TEST_STATE", &place.path).env("AOT_TEST_WORDS", "").stdin(Stdio::null());
    if rustix::process::getuid().is_root() {
        // Root has every right, so the role is played by nobody, in a home and with a sidecar of its own.
        let nobody = 65_534;
        let root = place._dir.path();
        fs::set_permissions(root, fs::Permissions::from_mode(0o755)).expect("permitted");
        fs::remove_dir_all(place.file().home().sidecar()).expect("removed");
        fs::create_dir(root.join("home")).expect("a home");
        for path in [&root.join(".claude"), &root.join("home"), &place.path] {
            std::os::unix::fs::chown(path, Some(nobody), Some(nobody)).expect("given away");
        }
        command.uid(nobody).gid(nobody).env("HOME", root.join("home"));
        for name in ["XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
            command.env_remove(name);
        }
    }
    match command.output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(e) => eprintln!(
            "SKIPPED missing_rights_are_named_and_nothing_is_left: nobody may not run this test: {e}"
        ),
    }
}

#[test]
#[ignore = "a process of its own for other tests"]
fn role_without_rights() {
    let (file, path, _) = told();
    let mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permitted");
    let denied = |named: &Path| {
        let error = add(&file, "x").expect_err("denied");
        let TransactError::File(error @ FileError::Denied { path, .. }) = &error else {
            panic!("not {error:?}")
        };
        assert!(path.starts_with(named), "{error}");
        assert!(error.hint().contains("ls -ld"));
        assert_eq!(litter(file.home().sidecar()), Vec::<String>::new());
    };
    let (state, folder, sidecar) = (file.home().state(), file.home().folder(), file.home().sidecar());
    drop(add(&file, "at first").expect("permitted"));
    mode(&path, 0o000);
    assert!(matches!(file.read(), Err(FileError::Denied { .. })));
    denied(state);
    mode(&path, 0o444);
    file.read().expect("readable");
    denied(state);
    mode(&path, 0o644);
    mode(sidecar, 0o555);
    denied(sidecar);
    mode(sidecar, 0o755);
    mode(folder, 0o555);
    denied(state);
    mode(folder, 0o755);
    drop(add(&file, "at last").expect("permitted again"));
}

// --- figures, not assertions -------------------------------------------------------------------------------------

#[test]
#[ignore = "prints figures: cargo test --release --test it figures -- --ignored --nocapture"]
fn figures_of_the_watch() {
    let place = Place::new();
    let (told, heard) = std::sync::mpsc::channel();
    let home = place.file().home().clone();
    let _watch = Watch::new(&home, move |_| told.send(Instant::now()).expect("heard")).expect("watching");
    for style in ["in place", "rename", "exchange"] {
        let mut latencies: Vec<Duration> = (0..200)
            .map(|number| {
                while heard.recv_timeout(Duration::from_millis(30)).is_ok() {}
                match style {
                    "exchange" => {
                        // Until it is in place, not until it is synced.
                        let line = format!("{style} {number}");
                        let began = Instant::now();
                        drop(add(&place.file(), &line).expect("added"));
                        heard.recv_timeout(LOCK_WAIT).expect("told").saturating_duration_since(began)
                    }
                    _ => {
                        let list = List([format!("{style} {number}")].into());
                        let began = Instant::now();
                        save(&place.path, style, &list.text());
                        heard.recv_timeout(LOCK_WAIT).expect("told").duration_since(began)
                    }
                }
            })
            .collect();
        latencies.sort();
        println!("{style}: median {:?}, 99% {:?}, max {:?}", latencies[100], latencies[197], latencies[199]);
    }
}

fn now_ns() -> i128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos() as i128
}

#[test]
#[ignore = "prints figures: cargo test --release --test it figures -- --ignored --nocapture"]
fn figures_of_a_transaction() {
    for size in [10 << 10, 100 << 10, 1 << 20] {
        let place = Place::new();
        let file = place.file();
        let text = |number: u32| format!("{number:08}{}", "x".repeat(size)).into_bytes();
        let count = 100;
        let began = Instant::now();
        for number in 0..count {
            let done = file.transact("measure", |_| Ok::<_, String>(Decision::Replace(text(number), ())));
            drop(done.expect("done"));
        }
        let ours = began.elapsed() / count;
        let aside = place.path.with_extension("plain");
        let began = Instant::now();
        for number in 0..count {
            let mut plain = fs::File::create(&aside).expect("made");
            plain.write_all(&text(number)).and_then(|()| plain.sync_all()).expect("written");
            fs::rename(&aside, &place.path).expect("renamed");
            fs::File::open(place.path.parent().expect("a folder"))
                .and_then(|it| it.sync_all())
                .expect("synced");
        }
        let plain = began.elapsed() / count;
        let began = Instant::now();
        for _ in 0..count {
            file.read().expect("read");
        }
        let read = began.elapsed() / count;
        // The file's clock must have ticked before an equal stamp is believed.
        while file.read().expect("read").stamp.mtime_ns + 50_000_000 > now_ns() {
            std::hint::spin_loop();
        }
        let mut known = file.read().expect("read");
        let began = Instant::now();
        for _ in 0..count {
            assert_eq!(file.refresh(&mut known).expect("read"), Changed::No);
        }
        let unchanged = began.elapsed() / count;
        let ratio = ours.as_secs_f64() / plain.as_secs_f64();
        println!(
            "{size} bytes: transaction {ours:?} = {ratio:.2} of write+sync+rename+sync ({plain:?}); \
             read {read:?}, unchanged {unchanged:?}"
        );
    }
}
