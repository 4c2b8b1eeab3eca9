//! Every interleaving with an editor, and a death at every step, one by one.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Mutex;

use super::*;
use crate::store::system::FileMoment;

const LIMIT: u64 = 1 << 20;

/// A folder with a state file in it.
struct StateFolder {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl StateFolder {
    fn new() -> StateFolder {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("aot-loop-state.md");
        StateFolder { _dir: dir, path }
    }

    fn with(text: &str) -> StateFolder {
        let place = StateFolder::new();
        drop(place.file().create(text.as_bytes()).expect("created"));
        place
    }

    fn file(&self) -> StateFile {
        StateFile::open(&self.path, LIMIT).expect("a state file")
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.path).expect("a text")
    }

    /// All that a killed or careless process may leave, apart from what belongs there.
    fn litter(&self) -> Vec<String> {
        let names = fs::read_dir(self.file().home().sidecar()).expect("a sidecar");
        let names =
            names.map(|entry| entry.expect("an entry").file_name().into_string().expect("plain names"));
        names.filter(|name| name.starts_with("part-") || name.starts_with("swap-")).collect()
    }
}

fn lines(text: &[u8]) -> BTreeSet<String> {
    String::from_utf8_lossy(text).lines().map(str::to_string).collect()
}

/// Adds a line, and whatever line `aot` had written that somebody's save has removed.
fn add(file: &StateFile, line: &str) -> Result<Done<()>, TransactError<Infallible>> {
    file.transact("add a line", |candidate| {
        let mut all = lines(&candidate.text.bytes);
        all.extend(candidate.ours.map(|ours| lines(&ours.bytes)).unwrap_or_default());
        all.insert(line.to_string());
        let text: String = all.into_iter().map(|line| line + "\n").collect();
        Ok(Decision::Replace(text.into_bytes(), ()))
    })
}

/// How an editor saves.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Save {
    ByRename,
    InPlace,
}

fn save(path: &Path, save: Save, text: &str) {
    match save {
        Save::InPlace => fs::write(path, text).expect("saved"),
        Save::ByRename => {
            let aside = path.with_extension("editor");
            fs::write(&aside, text).expect("written");
            fs::rename(&aside, path).expect("saved");
        }
    }
}

/// An editor saves once at the step, from the copy that it holds; then the state and the conflicts are looked at.
fn check_save(at: ReplaceStep, how: Save, method: ReplaceMethod, state: &str, conflicts: usize) {
    let place = StateFolder::with("a\n");
    let path = place.path.clone();
    let mut file = place.file();
    let saves = Mutex::new(1);
    file.method = method;
    file.at = Box::new(move |step| {
        let mut left = saves.lock().expect("one thread");
        if step == at && *left > 0 {
            *left -= 1;
            save(&path, how, "a\neditor\n");
        }
    });
    let done = add(&file, "first").expect("done");
    assert_eq!(done.rescued.len(), conflicts, "{at:?} {how:?} {method:?}");
    drop(done);
    drop(add(&file, "second").expect("done"));
    assert_eq!(place.text(), state, "{at:?} {how:?} {method:?}");
    assert_eq!(place.litter(), Vec::<String>::new(), "{at:?} {how:?} {method:?}");
}

#[test]
fn an_editors_save_at_any_step_is_in_the_state_and_so_is_ours() {
    use ReplaceStep::*;
    use Save::*;
    let all = "a\neditor\nfirst\nsecond\n";
    for how in [ByRename, InPlace] {
        for step in [HalfWritten, Written, Named, Compared, Exchanged, Recorded, Lingering] {
            check_save(step, how, ReplaceMethod::Exchange, all, 0);
        }
        for step in [HalfWritten, Written, Named, Exchanged, Recorded] {
            check_save(step, how, ReplaceMethod::Rename, all, 0);
        }
    }
    check_save(Compared, InPlace, ReplaceMethod::Rename, all, 0);
    check_save(Compared, ByRename, ReplaceMethod::Rename, all, 0);
}

#[test]
fn a_third_text_over_ours_while_the_second_is_put_back_keeps_both() {
    for how in [Save::ByRename, Save::InPlace] {
        let place = StateFolder::with("a\n");
        let path = place.path.clone();
        let mut file = place.file();
        let saves = Mutex::new(0);
        file.at = Box::new(move |step| {
            let mut made = saves.lock().expect("one thread");
            match (step, *made) {
                (ReplaceStep::Compared, 0) => save(&path, how, "a\neditor one\n"),
                (ReplaceStep::Exchanged, 1) => save(&path, how, "a\neditor two\n"),
                _ => return,
            }
            *made += 1;
        });
        let done = add(&file, "first").expect("done");
        assert_eq!(place.text(), "a\neditor two\nfirst\n");
        let [folder] = &done.rescued[..] else { panic!("one conflict, not {:?}", done.rescued) };
        assert_eq!(fs::read_to_string(folder.join("theirs.md")).expect("kept"), "a\neditor one\n");
        drop(done);
        assert_eq!(place.litter(), Vec::<String>::new());
    }
}

#[test]
fn a_text_that_was_hidden_and_did_not_become_part_of_ours_is_kept() {
    let place = StateFolder::with("a\n");
    let path = place.path.clone();
    let mut file = place.file();
    file.at = Box::new(move |step| {
        if step == ReplaceStep::Compared {
            save(&path, Save::ByRename, "a\neditor\n");
        }
    });
    let done = file.transact("give up", |candidate| match candidate.before {
        None => Ok::<_, Infallible>(Decision::Replace(b"a\nours\n".to_vec(), ())),
        Some(_) => Ok(Decision::Keep(())),
    });
    let done = done.expect("done");
    let [folder] = &done.rescued[..] else { panic!("one conflict, not {:?}", done.rescued) };
    assert_eq!(fs::read_to_string(folder.join("theirs.md")).expect("kept"), "a\neditor\n");
    assert_eq!(place.text(), "a\neditor\n");
}

/// The editor reads our text in the moment in which its own is displaced, and saves that when its own is back.
#[test]
fn a_text_that_was_hidden_is_kept_when_another_is_hidden_after_it() {
    let place = StateFolder::with("a\n");
    let path = place.path.clone();
    let mut file = place.file();
    let (saves, read) = (Mutex::new(0), Mutex::new(String::new()));
    file.at = Box::new(move |step| {
        let mut saves = saves.lock().expect("one thread");
        let mut read = read.lock().expect("one thread");
        match (step, *saves) {
            (ReplaceStep::Compared, 0) => save(&path, Save::ByRename, "a\nfirst\n"),
            (ReplaceStep::Exchanged, 1) => *read = fs::read_to_string(&path).expect("ours"),
            (ReplaceStep::Compared, 2) => save(&path, Save::ByRename, &format!("{read}second\n")),
            _ => return,
        }
        *saves += 1;
    });
    let done = add(&file, "ours").expect("done");
    assert_eq!(place.text(), "a\nours\nsecond\n");
    let kept = done.rescued.iter().map(|folder| fs::read_to_string(folder.join("theirs.md")).expect("kept"));
    assert!(kept.collect::<Vec<_>>().contains(&"a\nfirst\n".to_owned()));
}

#[test]
fn a_file_removed_while_its_text_is_put_back_is_there_again() {
    let place = StateFolder::with("a\n");
    let path = place.path.clone();
    let mut file = place.file();
    let saves = Mutex::new(0);
    file.at = Box::new(move |step| {
        let mut made = saves.lock().expect("one thread");
        match (step, *made) {
            (ReplaceStep::Compared, 0) => save(&path, Save::ByRename, "a\neditor\n"),
            (ReplaceStep::Exchanged, 1) => fs::remove_file(&path).expect("removed"),
            _ => return,
        }
        *made += 1;
    });
    drop(add(&file, "ours").expect("done"));
    assert_eq!(place.text(), "a\neditor\nours\n");
    assert_eq!(place.litter(), Vec::<String>::new());
}

#[test]
fn a_save_from_a_stale_copy_shows_what_was_written_last() {
    let place = StateFolder::with("a\n");
    drop(add(&place.file(), "ours").expect("done"));
    save(&place.path, Save::InPlace, "a\nstale\n");
    let done = place.file().transact("look", |candidate| {
        assert_eq!(candidate.text.bytes, b"a\nstale\n");
        assert_eq!(candidate.ours.expect("what was written last").bytes, b"a\nours\n");
        Ok::<_, Infallible>(Decision::Keep(()))
    });
    assert_eq!(done.expect("done").change, Changed::No);
}

#[test]
fn a_late_write_into_the_displaced_file_is_found_and_kept() {
    let place = StateFolder::with("a\n");
    let mut editor = fs::OpenOptions::new().append(true).open(&place.path).expect("opened");
    drop(add(&place.file(), "first").expect("done"));
    drop(add(&place.file(), "second").expect("done"));
    editor.write_all(b"late\n").expect("written");
    let done = add(&place.file(), "third").expect("done");
    let [folder] = &done.rescued[..] else { panic!("one conflict, not {:?}", done.rescued) };
    assert_eq!(fs::read_to_string(folder.join("theirs.md")).expect("kept"), "a\nlate\n");
    assert_eq!(fs::read_to_string(folder.join("ours.md")).expect("kept"), "a\nfirst\nsecond\n");
    drop(done);
    assert_eq!(place.file().conflicts().len(), 1);
    assert!(add(&place.file(), "fourth").expect("done").rescued.is_empty(), "reported once");
}

/// A process that writes often does not read every displaced file each time, and finds such a write all the same.
#[test]
fn a_late_write_is_found_in_a_displaced_file_that_was_seen_before() {
    let place = StateFolder::with("a\n");
    let file = place.file();
    let mut editor = fs::OpenOptions::new().append(true).open(&place.path).expect("opened");
    drop(add(&file, "first").expect("done"));
    let displaced = || {
        let names =
            fs::read_dir(file.home().sidecar()).expect("a sidecar").flatten().map(|entry| entry.path());
        let mut paths: Vec<_> = names.filter(|path| path.to_string_lossy().contains("displaced")).collect();
        paths.sort();
        paths.into_iter().next().expect("there is one")
    };
    while !FileMoment::of(&displaced()).is_some_and(|moment| moment.is_settled()) {
        std::thread::yield_now();
    }
    for line in ["second", "third"] {
        assert!(add(&file, line).expect("done").rescued.is_empty(), "nothing was written yet");
    }
    editor.write_all(b"late\n").expect("written");
    let done = add(&file, "fourth").expect("done");
    let [folder] = &done.rescued[..] else { panic!("one conflict, not {:?}", done.rescued) };
    assert_eq!(fs::read_to_string(folder.join("theirs.md")).expect("kept"), "a\nlate\n");
}

#[test]
fn displaced_files_do_not_pile_up() {
    let place = StateFolder::with("a\n");
    for number in 0..50 {
        drop(add(&place.file(), &format!("line {number:02}")).expect("done"));
    }
    let names = fs::read_dir(place.file().home().sidecar()).expect("a sidecar");
    let displaced_number =
        names.filter(|e| e.as_ref().is_ok_and(|e| e.file_name().to_string_lossy().starts_with("displaced")));
    assert_eq!(displaced_number.count(), 32);
}

#[test]
fn a_doubted_text_is_looked_at_again_and_then_refused() {
    let place = StateFolder::with("a\n");
    save(&place.path, Save::InPlace, "");
    let path = place.path.clone();
    let done = place.file().transact("wait", |candidate| match candidate.text.bytes.is_empty() {
        true => {
            save(&path, Save::InPlace, "whole\n");
            Ok(Decision::Doubt("empty"))
        }
        false => Ok(Decision::Keep(candidate.before.is_some())),
    });
    assert!(done.expect("the whole text").value, "the round before is shown");
    let refused = place.file().transact("wait", |_| Ok(Decision::<(), _>::Doubt("makes no sense")));
    assert!(matches!(refused, Err(TransactError::Refused("makes no sense"))));
}

#[test]
fn an_editor_that_never_stops_saving_is_an_error_after_many_rounds() {
    let place = StateFolder::with("a\n");
    let path = place.path.clone();
    let mut file = place.file();
    let saves = Mutex::new(0);
    file.at = Box::new(move |step| {
        if step == ReplaceStep::Named {
            let mut saves = saves.lock().expect("one thread");
            *saves += 1;
            save(&path, Save::ByRename, &format!("save {saves}\n"));
        }
    });
    let error = add(&file, "ours").expect_err("contended");
    assert!(matches!(error, TransactError::File(FileError::Contended { rounds: ROUNDS, .. })), "{error}");
    assert_eq!(place.text(), format!("save {ROUNDS}\n"));
    assert_eq!(place.litter(), Vec::<String>::new());
}

#[test]
fn an_unchanged_text_is_not_written_and_a_refusal_changes_nothing() {
    let place = StateFolder::with("a\n");
    let before = Stamp::of(&place.path).expect("a stamp");
    let same = place.file().transact("same", |candidate| {
        Ok::<_, Infallible>(Decision::Replace(candidate.text.bytes.clone(), ()))
    });
    assert_eq!(same.expect("done").change, Changed::No);
    let refused = place.file().transact("no", |_| Err::<Decision<(), _>, _>("no"));
    assert!(matches!(refused, Err(TransactError::Refused("no"))));
    assert_eq!(Stamp::of(&place.path).expect("a stamp"), before);
}

#[test]
fn the_mode_of_the_file_is_kept() {
    let place = StateFolder::with("a\n");
    fs::set_permissions(&place.path, fs::Permissions::from_mode(0o640)).expect("permitted");
    drop(add(&place.file(), "b").expect("done"));
    assert_eq!(fs::metadata(&place.path).expect("there").permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_link_to_the_state_file_stays_a_link() {
    let place = StateFolder::with("a\n");
    let link = place.path.with_file_name("link.md");
    std::os::unix::fs::symlink(&place.path, &link).expect("linked");
    drop(add(&StateFile::open(&link, LIMIT).expect("a state file"), "b").expect("done"));
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    assert_eq!(place.text(), "a\nb\n");
}

#[test]
fn what_is_not_a_readable_text_is_named() {
    let check = |prepare: &dyn Fn(&Path), told: &str| {
        let place = StateFolder::new();
        prepare(&place.path);
        let told = told.replace("PATH", &place.file().home().state().display().to_string());
        let error = place.file().read().expect_err("refused");
        assert_eq!(error.to_string(), told);
        assert!(!error.hint().is_empty());
        let error = add(&place.file(), "x").expect_err("refused");
        assert_eq!(error.to_string(), told);
        assert_eq!(place.litter(), Vec::<String>::new());
    };
    check(&|_| (), "there is no state file at PATH");
    check(&|path| fs::create_dir(path).expect("made"), "PATH is a folder, not a file");
    check(
        &|path| assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success()),
        "PATH is a device, a pipe or a socket, not a file",
    );
    check(
        &|path| fs::File::create(path).and_then(|file| file.set_len(LIMIT + 1)).expect("made"),
        "the text of PATH has 1048577 bytes, and the limit is 1048576",
    );
}

#[test]
fn a_text_over_the_limit_is_not_written() {
    let place = StateFolder::with("a\n");
    let done = place
        .file()
        .transact("grow", |_| Ok::<_, Infallible>(Decision::Replace(vec![b'x'; LIMIT as usize + 1], ())));
    assert!(matches!(done, Err(TransactError::File(FileError::TooLarge { .. }))));
    assert_eq!(place.text(), "a\n");
}

#[test]
fn creating_refuses_to_overwrite() {
    let place = StateFolder::with("a\n");
    let error = place.file().create(b"b\n").expect_err("refused");
    assert!(matches!(error, FileError::Exists { .. }));
    assert_eq!(place.text(), "a\n");
    assert_eq!(place.litter(), Vec::<String>::new());
}

#[test]
fn a_reader_skips_a_text_that_it_knows() {
    let place = StateFolder::with("a\n");
    let mut parsed = place.file().read().expect("a text");
    assert_eq!(place.file().refresh(&mut parsed).expect("read"), Changed::No);
    save(&place.path, Save::InPlace, "b\n");
    assert_eq!(
        place.file().refresh(&mut parsed).expect("read"),
        Changed::Yes,
        "although the size is the same"
    );
    assert_eq!(parsed.bytes, b"b\n");
}

#[test]
fn a_sidecar_deleted_meanwhile_leaves_the_old_text() {
    let place = StateFolder::with("a\n");
    let sidecar = place.file().home().sidecar().to_path_buf();
    let mut file = place.file();
    file.at = Box::new(move |step| {
        if step == ReplaceStep::Named {
            fs::remove_dir_all(&sidecar).expect("deleted");
        }
    });
    let error = add(&file, "b").expect_err("the lock is gone");
    assert!(error.to_string().contains("was deleted while it was held"), "{error}");
    assert_eq!(place.text(), "a\n");
    drop(add(&place.file(), "c").expect("made again"));
    assert_eq!(place.text(), "a\nc\n");
}

/// Dies at the step, perhaps after an editor's save at another one; then the next transaction takes it up.
fn check_death(at: &str, method: &str, editor: &str, states: &[&str]) {
    let place = StateFolder::with("a\n");
    let child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "store::file::tests::dies_at_a_step", "--ignored", "--nocapture"])
        .env("AOT_TEST_DEATH", format!("{at},{method},{editor},{}", place.path.display()))
        .output()
        .expect("a child");
    assert!(!child.status.success(), "the child died at {at}: {}", String::from_utf8_lossy(&child.stdout));
    let left = place.text();
    assert!(
        ["a\n", "a\neditor\n", "a\nchild\n"].contains(&left.as_str()),
        "{at} {method} {editor} left {left:?}"
    );
    let done = add(&place.file(), "next").expect("taken up");
    assert_eq!(done.rescued.len(), 0, "{at} {method} {editor}");
    drop(done);
    assert!(states.contains(&place.text().as_str()), "{at} {method} {editor}: {:?}", place.text());
    assert_eq!(place.litter(), Vec::<String>::new(), "{at} {method} {editor}");
}

#[test]
fn a_death_at_any_step_leaves_the_old_or_the_new_text() {
    let (old, new) = (["a\nnext\n"], ["a\nchild\nnext\n"]);
    for step in ["HalfWritten", "Written", "Named", "Compared"] {
        check_death(step, "Exchange", "", &old);
        check_death(step, "Rename", "", &old);
    }
    for step in ["Exchanged", "Recorded", "Lingering"] {
        check_death(step, "Exchange", "", &new);
    }
    for step in ["Exchanged", "Recorded"] {
        check_death(step, "Rename", "", &new);
    }
    for editor in ["ByRename", "InPlace"] {
        check_death("Exchanged", "Exchange", editor, &["a\neditor\nnext\n"]);
        check_death("Restored", "Exchange", editor, &["a\neditor\nnext\n"]);
    }
}

#[test]
#[ignore = "a process of its own for `a_death_at_any_step_leaves_the_old_or_the_new_text`"]
fn dies_at_a_step() {
    let told = std::env::var("AOT_TEST_DEATH").expect("told where to die");
    let [at, method, editor, path] = told.splitn(4, ',').collect::<Vec<_>>()[..] else {
        panic!("four words")
    };
    let (at, editor, state) = (at.to_string(), editor.to_string(), PathBuf::from(path));
    let mut file = StateFile::open(&state, LIMIT).expect("a state file");
    file.method = if method == "Rename" { ReplaceMethod::Rename } else { ReplaceMethod::Exchange };
    file.at = Box::new(move |step| {
        if step == ReplaceStep::Compared && !editor.is_empty() {
            let how = if editor == "InPlace" { Save::InPlace } else { Save::ByRename };
            save(&state, how, "a\neditor\n");
        }
        if format!("{step:?}") == at {
            std::process::abort();
        }
    });
    drop(add(&file, "child").expect("not reached"));
}
