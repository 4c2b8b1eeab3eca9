//! What a clone, an editor or another program may have left in the files that are read: settings, the journal, the rest of the
//! sidecar. Each function takes any bytes; a test replays the kept ones, and a fuzz target looks for more.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aot_core::rules::Change;
use aot_core::rules::durations::KEPT_OF_A_KIND;
use aot_runner::checks::kept::Kept;
use aot_runner::durations::Learnt;
use aot_runner::session::SessionMemory;
use aot_runner::settings;
use aot_runner::store::cache::Cache;
use aot_runner::store::home::Home;
use aot_runner::store::journal::{Journal, JournalEntry};
use aot_runner::store::lock::{Held, Lock};
use aot_runner::tree::{Project, ProjectRepository};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(10);
const MOST_ENTRIES: usize = 10;

/// One for all inputs of a thread, because making it takes longer than reading most inputs.
struct Place {
    folder: TempDir,
    home: Home,
}

impl Place {
    fn new() -> Place {
        let memory = Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => tempfile::tempdir_in(memory),
            false => tempfile::tempdir(),
        };
        let folder = folder.expect("a folder");
        let home = Home::of(&folder.path().join(".claude/aot-loop-state.md")).expect("a home");
        home.ready().expect("a sidecar");
        Place { folder, home }
    }

    /// The place with these bytes in a file of its sidecar, or beside it.
    fn with<T>(file: impl Fn(&Home) -> PathBuf, bytes: &[u8], then: impl FnOnce(&Place) -> T) -> T {
        thread_local! {
            static PLACE: RefCell<Place> = RefCell::new(Place::new());
        }
        PLACE.with_borrow(|place| {
            let path = file(&place.home);
            fs::write(&path, bytes).expect("it is ours");
            let done = then(place);
            fs::remove_file(&path).expect("it is ours");
            done
        })
    }
}

/// Any bytes as `aot.toml`: read, or refused with a place. A command in it has to be trusted.
pub fn settings(bytes: &[u8]) {
    let file = |home: &Home| home.folder().parent().expect("it has one").join(settings::FILE);
    Place::with(file, bytes, |place| {
        let root = place.folder.path();
        let trusted = settings::trust_items(root);
        match settings::read(Some(root), None) {
            Ok(read) => {
                let cage = &read.settings.cage;
                let home = Path::new("/home/somebody");
                let folders = [cage.folders(Some(home)), cage.hide(Some(home)), cage.show(Some(home))];
                assert!(folders.iter().flatten().all(|folder| folder.is_absolute()));
                assert!(read.warnings.iter().all(|odd| odd.line > 0 && odd.column > 0));
                let items = trusted.expect("what can be read can be listed");
                if let Some(command) = &read.settings.judge.command {
                    assert!(items.iter().any(|item| item.text == command.as_str()), "{command:?}");
                }
            }
            Err(fault) => assert!(fault.line > 0 && fault.column > 0 && !fault.message.is_empty()),
        }
    });
}

/// Any bytes as the journal: its entries follow each other, and the next one is written after them.
pub fn journal(bytes: &[u8]) {
    Place::with(
        |home| home.sidecar().join("journal.jsonl"),
        bytes,
        |place| {
            let journal = Journal::of(&place.home);
            for revision in [0, 1, 7, u64::MAX] {
                let since = journal.since::<Change>(revision).expect("it can be read");
                assert!(since.entries.iter().all(|entry| entry.revision > revision));
                assert!(since.entries.windows(2).all(|pair| pair[0].revision + 1 == pair[1].revision));
            }
            let newest = journal.newest::<Change>(MOST_ENTRIES).expect("it can be read");
            assert!(newest.len() <= MOST_ENTRIES);
            let entry = JournalEntry {
                revision: 3,
                at: "now".to_owned(),
                from: String::new(),
                hash: "h".to_owned(),
                changes: vec![Change::LoopNamed { id: "l".to_owned() }],
            };
            let held = Held::take(&place.home, "fuzz", LONG).expect("nobody else holds it");
            journal.append(&held, &entry).expect("there is room");
            let newest = journal.newest::<Change>(1).expect("it can be read");
            assert_eq!(newest.last(), Some(&entry));
        },
    );
}

/// Any bytes as another file of the sidecar, which the first byte chooses: whatever is in it, each reader gets along.
pub fn sidecar(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let file = |name: &'static str| move |home: &Home| home.sidecar().join(name);
    match choice % 5 {
        0 => Place::with(file("evidence.jsonl"), bytes, |place| {
            let project = Project {
                root: place.folder.path().to_path_buf(),
                state: place.home.state().to_path_buf(),
                sidecar: place.home.sidecar().to_path_buf(),
                cache: None,
                repository: ProjectRepository::Outside,
            };
            let kept = Kept::of(&project);
            let (lines, recent) = (kept.lines(), kept.recent());
            assert!(recent.len() <= lines.len());
            for line in &lines {
                kept.passes(&line.evidence.tree).of(&line.key);
            }
            kept.add(&lines).expect("there is room");
            assert!(kept.lines().len() >= lines.len());
        }),
        1 => Place::with(file("cache"), bytes, |place| {
            let cache = Cache::of(&place.home, "1");
            let text = blake3::hash(b"a text");
            assert_eq!(cache.get(&text, "index"), None, "nobody can guess a hash");
            cache.put(&text, &[("index", bytes)]);
            assert_eq!(cache.get(&text, "index").as_deref(), Some(bytes));
        }),
        2 => Place::with(file("session.json"), bytes, |place| {
            let sidecar = place.home.sidecar();
            assert_eq!(SessionMemory::of(sidecar, "s").session, "s");
            SessionMemory::change(sidecar, "s", |memory| memory.idle = 7);
            assert_eq!(SessionMemory::of(sidecar, "s").idle, 7);
        }),
        4 => Place::with(file("durations.json"), bytes, |place| {
            let mut learnt = Learnt::of_earlier(&place.home);
            assert!(learnt.len() <= 5 * KEPT_OF_A_KIND);
            learnt.durations(Some("mine"));
            let known = learnt.len();
            learnt.keep(&place.home);
            assert_eq!(Learnt::of_earlier(&place.home).len(), known);
        }),
        _ => Place::with(file("driver.lock"), bytes, |place| {
            Lock::Driving.taker_lives(&place.home);
            assert_eq!(Lock::Driving.holder(&place.home), None);
            let held = Held::take_the(Lock::Driving, &place.home, "fuzz", LONG).expect("it is free");
            assert!(Lock::Driving.holder(&place.home).is_some_and(|holder| holder.contains("fuzz")));
            drop(held);
        }),
    }
}

#[cfg(test)]
mod kept {
    use super::*;

    fn replay(target: &str, run: fn(&[u8])) {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
        let mut files = 0;
        for file in fs::read_dir(&corpus).expect("the corpus is kept in the repository") {
            let path = file.expect("the corpus can be listed").path();
            run(&fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
            files += 1;
        }
        assert!(files > 0, "{} is empty", corpus.display());
    }

    #[test]
    fn every_kept_setting_is_read_or_refused() {
        replay("settings", settings);
    }

    #[test]
    fn every_kept_journal_is_gone_on_with() {
        replay("journal", journal);
    }

    #[test]
    fn every_kept_sidecar_is_got_along_with() {
        replay("sidecar", sidecar);
    }
}
