//! What is learnt of how long attempts take: a small file in the sidecar, for the loops to come, and the journal since then.
//! Only a driver writes the file, whoever wants an estimate reads it, and it can be lost without harm (D32). Decides nothing.

use std::collections::HashMap;
use std::path::PathBuf;

use aot_core::rules::Change;
use aot_core::rules::durations::{AttemptTime, Durations, Stopwatch, newest};
use aot_core::rules::estimate::{Estimate, estimate};
use aot_core::state::{AtomId, Graph, State};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::atomic_file::{self, Durability};
use crate::plain_file;
use crate::store::Store;
use crate::store::home::Home;
use crate::store::journal::{Journal, JournalEntry};

const FILE: &str = "durations.json";

/// A longer file is none of ours.
const FILE_BYTES: u64 = 1 << 20;

/// Of the journal at most so many entries are read.
const ENTRIES: usize = 5_000;

/// Another number is another format.
const VERSION: u32 = 1;

/// How the file looks.
#[derive(Serialize, Deserialize)]
struct DurationsFile {
    version: u32,
    /// The moment up to which the journal was read.
    until: Option<Timestamp>,
    times: Vec<AttemptTime>,
}

/// What is known so far.
#[derive(Clone, Debug, Default)]
pub struct Learnt {
    until: Option<Timestamp>,
    times: Vec<AttemptTime>,
    stopwatch: Stopwatch,
}

impl Learnt {
    /// What earlier runs left in the sidecar. A sidecar that came with a project is not looked into.
    pub fn of_earlier(home: &Home) -> Learnt {
        let kept = plain_file::read(&path(home), FILE_BYTES).ok();
        let kept = kept.and_then(|bytes| serde_json::from_slice::<DurationsFile>(&bytes).ok());
        let Some(DurationsFile { version: VERSION, until, times }) = kept else { return Learnt::default() };
        if until.is_some_and(|until| until > Timestamp::now()) {
            return Learnt::default();
        }
        let times = times.into_iter().filter(AttemptTime::is_sane).collect();
        Learnt { until, times: newest(times), stopwatch: Stopwatch::default() }
    }

    /// The same, with what the journal tells of since then.
    pub fn of(store: &Store, state: &State) -> Learnt {
        let mut learnt = Learnt::of_earlier(store.file().home());
        let entries = learnt.unread(store.journal());
        learnt.read_on(state, &entries);
        learnt
    }

    fn unread(&self, journal: &Journal) -> Vec<JournalEntry<Change>> {
        let read = std::cell::Cell::new(0);
        let is_known = |entry: &JournalEntry<Change>| {
            read.set(read.get() + 1);
            let at = entry.at.parse::<Timestamp>().ok();
            read.get() >= ENTRIES || at.is_some_and(|at| self.until.is_some_and(|until| at <= until))
        };
        // Without a journal there is less to learn from.
        journal.newest_where(1, is_known).map(|newest| newest.entries).unwrap_or_default()
    }

    /// What these entries tell, the oldest first. Of what was read before, only the beginnings count.
    pub fn read_on(&mut self, state: &State, entries: &[JournalEntry<Change>]) {
        if entries.is_empty() {
            return;
        }
        let graph = Graph::new(state);
        for entry in entries {
            let Ok(at) = entry.at.parse::<Timestamp>() else { continue };
            self.stopwatch.follow(state, &graph, &entry.changes, at);
            if self.until.is_some_and(|until| at <= until) {
                self.stopwatch.over.clear();
            }
        }
        self.take_over();
    }

    /// What a driver has just recorded.
    pub fn follow(&mut self, state: &State, graph: &Graph, changes: &[Change], at: Timestamp) {
        self.stopwatch.follow(state, graph, changes, at);
        self.until = Some(at);
        self.take_over();
    }

    pub fn evaluated(&mut self, state: &State, seconds: f64) {
        self.stopwatch.evaluated(state, seconds);
        self.take_over();
    }

    fn take_over(&mut self) {
        self.times.append(&mut self.stopwatch.over);
    }

    /// How many attempts are known.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// The agent is that of atoms that name none.
    pub fn durations(&self, worker: Option<&str>) -> Durations {
        Durations::of(&self.times, worker)
    }

    /// How long the rest may take, if anything is known of that.
    pub fn estimate(&self, state: &State, worker: Option<&str>, now: Timestamp) -> Option<Estimate> {
        let passed = |since: Timestamp| now.duration_since(since).as_secs_f64();
        let elapsed: HashMap<AtomId, f64> =
            self.stopwatch.under_way().map(|(atom, since)| (atom.clone(), passed(since))).collect();
        estimate(state, &self.durations(worker), &elapsed)
    }

    /// Keeps it for later runs.
    pub fn keep(&mut self, home: &Home) {
        self.times = newest(std::mem::take(&mut self.times));
        let file = DurationsFile { version: VERSION, until: self.until, times: self.times.clone() };
        if home.ready().is_err() {
            return;
        }
        let Ok(bytes) = serde_json::to_vec(&file) else { return };
        // Without it the next run has less to expect.
        let _ = atomic_file::write(&path(home), &[&bytes], Durability::Unsynced);
    }
}

fn path(home: &Home) -> PathBuf {
    home.sidecar().join(FILE)
}

#[cfg(test)]
mod tests {
    use aot_core::rules::durations::KEPT_OF_A_KIND;

    use super::*;

    struct SidecarPlace {
        _dir: tempfile::TempDir,
        home: Home,
    }

    impl SidecarPlace {
        fn new() -> SidecarPlace {
            let dir = tempfile::tempdir().expect("a temporary folder");
            let home = Home::of(&dir.path().join("aot-loop-state.md")).expect("a home");
            home.ready().expect("a sidecar");
            SidecarPlace { home, _dir: dir }
        }

        fn holding(text: &str) -> usize {
            let place = SidecarPlace::new();
            std::fs::write(path(&place.home), text).expect("written");
            Learnt::of_earlier(&place.home).len()
        }
    }

    fn time(seconds: &str) -> String {
        format!(r#"{{"work":7,"kind":"work","seconds":{seconds},"ended":"resolved"}}"#)
    }

    fn file(times: &[String]) -> String {
        format!(r#"{{"version":1,"until":"2026-11-15T20:00:00Z","times":[{}],"more":true}}"#, times.join(","))
    }

    #[test]
    fn what_is_kept_is_found_again() {
        let place = SidecarPlace::new();
        assert!(Learnt::of_earlier(&place.home).is_empty());
        let mut learnt = Learnt::default();
        let state = aot_testkit::plans::blank(aot_core::state::Constraints::default());
        learnt.evaluated(&state, 3.5);
        learnt.until = "2026-11-15T20:00:00Z".parse().ok();
        learnt.keep(&place.home);
        let again = Learnt::of_earlier(&place.home);
        assert_eq!((again.times, again.until), (learnt.times, learnt.until));
    }

    #[test]
    fn what_cannot_be_true_is_not_believed() {
        assert_eq!(SidecarPlace::holding(&file(&[time("5"), time("0.25")])), 2);
        assert_eq!(SidecarPlace::holding(&file(&[time("5"), time("-5"), time("1e300"), time("604801")])), 1);
        let named = |name: &str| time("5").replace(r#""kind""#, &format!(r#""agent":"{name}","kind""#));
        assert_eq!(SidecarPlace::holding(&file(&[named("mine"), named(&"x".repeat(65))])), 1);
        let many: Vec<String> = (0..KEPT_OF_A_KIND + 9).map(|_| time("5")).collect();
        assert_eq!(SidecarPlace::holding(&file(&many)), KEPT_OF_A_KIND);
        let good = file(&[time("5")]);
        for bad in [
            String::new(),
            "[]".to_owned(),
            good[..good.len() - 2].to_owned(),
            good.replace(r#""version":1"#, r#""version":2"#),
            good.replace("2026", "3026"),
            good.replace("resolved", "another"),
            format!("{good}{}", " ".repeat(FILE_BYTES as usize)),
        ] {
            assert_eq!(SidecarPlace::holding(&bad), 0, "{}", &bad[..bad.len().min(90)]);
        }
    }
}
