//! The store as a driver uses it: one process that stays, keeps the document in memory and writes in batches.

use std::convert::Infallible;
use std::fs;
use std::path::PathBuf;

use aot_core::rules::{ApplyError, Change};
use aot_core::state::{AtomId, AtomStatus, Binding};
use aot_runner::store::{Foreign, Note, Store, StoreError};
use aot_testkit::fixtures::{COMPLETE, of_size};
use jiff::Timestamp;
use tempfile::TempDir;

struct Place {
    _folder: TempDir,
    state: PathBuf,
}

fn place(text: &str) -> Place {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let state = folder.path().join("aot-loop-state.md");
    fs::write(&state, text).expect("a file can be written");
    Place { _folder: folder, state }
}

fn open(place: &Place) -> Store {
    Store::open(&place.state, "test").expect("the file can be opened")
}

fn now() -> Timestamp {
    "2026-01-15T11:00:00Z".parse().expect("a timestamp")
}

fn started(id: &str) -> Change {
    Change::AtomStarted { atom: AtomId::new(id), attempt: None }
}

fn resolved(id: &str) -> Change {
    let binding = Binding { summary: "It is done".into(), artifacts: Vec::new(), ..Binding::default() };
    Change::AtomResolved { atom: AtomId::new(id), binding }
}

#[test]
fn a_driver_reads_the_text_once_and_writes_waiting_changes_together() {
    let place = place(&of_size(200));
    let mut store = open(&place);
    store.load::<Infallible>().expect("valid");
    for round in 0..20 {
        for place in 0..5 {
            let id = format!("A{}", 102 + round * 5 + place);
            if round * 5 + place < 98 {
                store.queue(now(), [started(&id), resolved(&id)]);
            }
        }
        let recorded = store.flush(now()).expect("it fits");
        assert_eq!(recorded.foreign, Foreign::None);
    }
    assert_eq!(store.parses(), 1, "only at the beginning");
    let (_, state) = store.load::<Infallible>().expect("valid");
    assert_eq!(state.control.revision, Some(20), "one write for each batch");
    assert_eq!(state.atoms["A150"].status, AtomStatus::Resolved);
    let written = state.clone();
    // Another process sees the same, after a parse of its own.
    let mut other = open(&place);
    assert_eq!(other.load::<Infallible>().expect("valid").1, &written);
    assert_eq!(other.parses(), 1);
    assert_eq!(store.journal().newest::<Change>(100).expect("it is kept").len(), 20);
}

#[test]
fn a_foreign_edit_is_read_and_told_and_ours_comes_on_top() {
    let place = place(COMPLETE);
    let mut store = open(&place);
    store.load::<Infallible>().expect("valid");
    store.queue(now(), [resolved("A4")]);
    let text = fs::read_to_string(&place.state).expect("it is there");
    fs::write(&place.state, text.replace("Please let people log in.", "Please!")).expect("an editor saves");
    let recorded = store.flush(now()).expect("it fits");
    assert_eq!(recorded.foreign, Foreign::Edited);
    assert_eq!(store.parses(), 2);
    let (document, state) = store.load::<Infallible>().expect("valid");
    assert_eq!(document.body(), "\n# Original Prompt\n\nPlease!\n");
    assert_eq!(state.atoms["A4"].status, AtomStatus::Resolved);
}

#[test]
fn changes_that_no_longer_fit_are_a_conflict_and_both_sides_are_kept() {
    let place = place(&of_size(4));
    let mut store = open(&place);
    store.load::<Infallible>().expect("valid");
    store.queue(now(), [started("A4")]);
    let text = fs::read_to_string(&place.state).expect("it is there").replace("id: A4", "id: B4");
    fs::write(&place.state, &text).expect("an editor saves");
    let error = store.flush(now()).expect_err("A4 is gone");
    let StoreError::Conflict { kept, why } = error else { panic!("{error:?}") };
    assert_eq!(why, ApplyError::NoAtom(AtomId::new("A4")).to_string());
    assert_eq!(fs::read_to_string(kept.join("theirs.md")).expect("kept"), text);
    assert!(fs::read_to_string(kept.join("ours.md")).expect("kept").contains("atom_started"));
    assert_eq!(fs::read_to_string(&place.state).expect("it is there"), text);
}

/// A conflict that cannot be kept is told, and nothing of it is forgotten: it is one as soon as there is room again.
#[test]
fn changes_that_no_longer_fit_wait_until_the_conflict_can_be_kept() {
    let place = place(&of_size(4));
    let mut store = open(&place);
    store.load::<Infallible>().expect("valid");
    store.queue(now(), [started("A3")]);
    store.flush(now()).expect("it fits");
    store.queue(now(), [started("A4")]);
    let text = fs::read_to_string(&place.state).expect("it is there").replace("id: A4", "id: B4");
    fs::write(&place.state, &text).expect("an editor saves");
    let conflicts = store.file().home().conflicts();
    fs::write(&conflicts, "in the way").expect("a file in the place of the folder");
    for _ in 0..2 {
        let error = store.flush(now()).expect_err("there is no room for it");
        assert!(matches!(error, StoreError::File(_)), "{error:?}");
    }
    fs::remove_file(&conflicts).expect("it is ours");
    let error = store.flush(now()).expect_err("A4 is gone");
    let StoreError::Conflict { kept, .. } = error else { panic!("{error:?}") };
    assert!(fs::read_to_string(kept.join("ours.md")).expect("kept").contains("A4"));
    assert_eq!(fs::read_to_string(&place.state).expect("it is there"), text);
}

#[test]
fn what_a_driver_wrote_survives_a_stale_save_between_two_batches() {
    let place = place(COMPLETE);
    let mut store = open(&place);
    store.queue(now(), [resolved("A4")]);
    assert_eq!(store.flush(now()).expect("it fits").notes, []);
    let stale = fs::read_to_string(&place.state).expect("it is there");
    store.queue(now(), [started("A5")]);
    assert_eq!(store.flush(now()).expect("it fits").notes, []);
    fs::write(&place.state, stale.replace("Please", "Kindly")).expect("an editor saves what it had");
    store.queue(now(), [Change::StopRequested { reason: Some("enough".into()), now: false }]);
    let recorded = store.flush(now()).expect("it fits");
    assert_eq!(recorded.notes, [Note::Repaired { their_revision: 1, our_revision: 2 }]);
    let (document, state) = store.load::<Infallible>().expect("valid");
    assert!(document.body().contains("Kindly"));
    assert_eq!(state.atoms["A5"].status, AtomStatus::InProgress);
    assert!(state.control.stop_requested);
}

#[test]
fn an_unchanged_text_is_never_read_as_yaml_twice() {
    let place = place(COMPLETE);
    let mut first = open(&place);
    first.answers::<Infallible>().expect("legible");
    assert_eq!(first.parses(), 1);
    let mut second = open(&place);
    second.answers::<Infallible>().expect("legible");
    second.load::<Infallible>().expect("valid");
    second
        .change::<(), Infallible>("test", now(), |ledger| {
            ledger.record(started("A5"));
            Ok(())
        })
        .expect("it fits");
    assert_eq!(second.parses(), 0);
    let mut third = open(&place);
    third.load::<Infallible>().expect("valid");
    assert_eq!(third.parses(), 0, "what the second wrote is known");
}
