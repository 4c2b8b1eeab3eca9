//! What is remembered of a host's session between its steps, beside the state file. If it gets lost the session begins
//! anew, and no promise breaks (D32).

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use aot_core::hook::TurnReport;
use aot_core::rules::Change;
use aot_core::rules::certificate::Certificate;
use aot_core::state::LoopStatus;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::atomic_file::{self, Durability};
use crate::plain_file;
use crate::store::lock::{LOCK_WAIT, lock_within};

/// A longer memory is not ours.
const MEMORY_BYTES: u64 = 4 << 20;

/// How many agents and attempts are remembered; the oldest are forgotten first.
const REMEMBERED: usize = 256;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionMemory {
    pub session: String,
    /// The session has taken the loop.
    pub begun: bool,
    /// The loop was running after the last step.
    pub running: bool,
    /// When the time that was spent was last written into the state.
    pub counted: Option<Timestamp>,
    /// The host's id of the agent that coordinates, if the host says which began.
    pub coordinator: Option<String>,
    /// Agents that coordinated before; their verbs are refused.
    pub replaced: Vec<String>,
    /// Turns of each coordinator.
    pub rounds: BTreeMap<String, u32>,
    /// Agents of ours that were started since the last turn ended.
    pub started: u64,
    /// The tree that each worker works in.
    pub trees: BTreeMap<String, String>,
    /// How often an agent was asked for its answer again.
    pub reasked: BTreeMap<String, u32>,
    /// How often a result was refused, by atom and attempt.
    pub refused: BTreeMap<String, u32>,
    /// The session was sent back to work, and no turn has ended since.
    pub sent_back: bool,
    /// The iteration in which the session was reminded of results that were not handed in.
    pub reminded: Option<u32>,
    /// How many turns in a row ended without a step.
    pub idle: u32,
    /// How the loop ended, until the user and the session's model have been told.
    pub end_to_show: Option<Certificate>,
    /// Files that the checks saw when it ended and no commit has.
    pub untracked: Vec<String>,
    /// What the last judgement brought to light, for the coordinator that begins next.
    pub seen: TurnReport,
    /// Lines for the user that no hook has shown yet.
    pub lines: Vec<String>,
    /// Iterations that are over, and of which the user has not been told.
    pub news: Vec<IterationNews>,
    /// What happened in the iteration that is open.
    pub open_news: Vec<Change>,
    /// The workers that were sent, by the tree of each.
    pub workers: BTreeMap<String, SentWorker>,
    /// When each attempt was begun, by its tree.
    pub began: BTreeMap<String, Timestamp>,
    /// What was wrong with the state file when the user was last told.
    pub told_broken: Option<String>,
}

/// One iteration, for a line to the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IterationNews {
    pub iteration: u32,
    pub changes: Vec<Change>,
    /// What the rest can still take, when it was over.
    pub agent_runs_left: u64,
}

/// A worker that works in a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentWorker {
    /// The host's id of the call that sent it.
    pub call: String,
    /// The host's id of the worker, where the host tells it while the worker runs.
    pub agent: Option<String>,
}

impl SessionMemory {
    /// Empty if another session was the last.
    pub fn of(sidecar: &Path, session: &str) -> SessionMemory {
        let text = plain_file::read(&path(sidecar), MEMORY_BYTES).unwrap_or_default();
        let memory: SessionMemory = serde_json::from_slice(&text).unwrap_or_default();
        if memory.session == session {
            memory
        } else {
            SessionMemory { session: session.to_owned(), ..SessionMemory::default() }
        }
    }

    /// Changes the memory under its lock. A memory that cannot be written is begun anew.
    pub fn change<T>(sidecar: &Path, session: &str, change: impl FnOnce(&mut SessionMemory) -> T) -> T {
        let mut options = File::options();
        let lock =
            plain_file::open(&sidecar.join("session.lock"), options.write(true).create(true).truncate(false))
                .and_then(|lock| lock_within(&lock, LOCK_WAIT).map(|()| lock));
        let mut memory = SessionMemory::of(sidecar, session);
        let before = memory.clone();
        let changed = change(&mut memory);
        if memory != before {
            memory.write(sidecar);
        }
        drop(lock);
        changed
    }

    fn write(&self, sidecar: &Path) {
        let Ok(text) = serde_json::to_vec(self) else { return };
        // Without it the session begins anew.
        let _ = atomic_file::write(&path(sidecar), &[&text], Durability::Unsynced);
    }

    /// Whether the loop was running as far as is known. Then a `completed` in the file is not the program's.
    pub fn left_running(&self) -> bool {
        self.running || !self.begun
    }

    /// The session takes the loop. The count of starts goes on as long as the same turn does.
    pub fn begin(&mut self, session: &str, status: LoopStatus) {
        self.set_coordinator(None);
        let same_turn = status == LoopStatus::Running && self.running;
        *self = SessionMemory {
            session: session.to_owned(),
            begun: true,
            replaced: std::mem::take(&mut self.replaced),
            trees: std::mem::take(&mut self.trees),
            lines: std::mem::take(&mut self.lines),
            news: std::mem::take(&mut self.news),
            started: if same_turn { self.started } else { 0 },
            ..SessionMemory::default()
        };
    }

    /// A turn was judged, and what was begun in it is over.
    pub fn turn_ended(&mut self) {
        self.started = 0;
        self.sent_back = false;
        self.workers.clear();
        self.began.clear();
    }

    /// Another agent coordinates from now on.
    pub fn set_coordinator(&mut self, agent: Option<&str>) {
        let before = std::mem::replace(&mut self.coordinator, agent.map(str::to_owned));
        self.replaced.extend(before.filter(|before| Some(before.as_str()) != agent));
        if self.replaced.len() > REMEMBERED {
            self.replaced.remove(0);
        }
    }

    /// Whether another agent coordinates instead of this one.
    pub fn is_replaced(&self, agent: &str) -> bool {
        let other = self.coordinator.as_deref().is_some_and(|coordinator| coordinator != agent);
        other || self.replaced.iter().any(|replaced| replaced == agent)
    }

    /// Whether an agent coordinated before, and does not any more.
    pub fn is_replaced_coordinator(&self, agent: &str) -> bool {
        self.replaced.iter().any(|replaced| replaced == agent)
    }

    /// A worker works in this tree, and in no other from now on.
    pub fn set_tree(&mut self, agent: &str, tree: String) {
        if self.trees.len() >= REMEMBERED && !self.trees.contains_key(agent) {
            self.trees.pop_first();
        }
        self.trees.entry(agent.to_owned()).or_insert(tree);
    }

    /// The tree of a worker: the one that it claimed, or the one that it was sent to.
    pub fn tree_of(&self, agent: &str) -> Option<&str> {
        let sent = || self.workers.iter().find(|(_, sent)| sent.agent.as_deref() == Some(agent));
        self.trees.get(agent).or_else(|| sent().map(|(tree, _)| tree)).map(String::as_str)
    }

    /// A call that sent a worker has returned. If the worker goes on behind it, the host has told its id.
    pub fn call_returned(&mut self, call: &str, still_runs: Option<&str>) {
        match still_runs {
            None => self.workers.retain(|_, sent| sent.call != call),
            Some(agent) => {
                let of_call = |sent: &&mut SentWorker| sent.call == call;
                if let Some(sent) = self.workers.values_mut().find(of_call) {
                    sent.agent = Some(agent.to_owned());
                }
            }
        }
    }

    /// A worker has ended, and its tree is free for another one.
    pub fn worker_ended(&mut self, agent: &str) {
        if let Some(tree) = self.tree_of(agent).map(str::to_owned) {
            self.workers.remove(&tree);
        }
    }

    /// Takes in what a step changed. `iteration` is the one that stands after it.
    pub fn note_changes(&mut self, changes: &[Change], iteration: u32, agent_runs_left: u64) {
        let opened = changes.iter().filter(|change| matches!(change, Change::IterationOpened)).count();
        let mut iteration = iteration.saturating_sub(u32::try_from(opened).unwrap_or(u32::MAX));
        for change in changes {
            if matches!(change, Change::IterationOpened) {
                iteration += 1;
            }
            if self.open_news.len() < REMEMBERED {
                self.open_news.push(change.clone());
            }
            if matches!(change, Change::IterationClosed { .. }) {
                let changes = std::mem::take(&mut self.open_news);
                self.news.push(IterationNews { iteration, changes, agent_runs_left });
            }
        }
        if self.news.len() > REMEMBERED {
            self.news.remove(0);
        }
    }

    /// Adds one to a count, and returns it.
    pub fn count(counts: &mut BTreeMap<String, u32>, name: &str) -> u32 {
        if counts.len() >= REMEMBERED && !counts.contains_key(name) {
            counts.pop_first();
        }
        let count = counts.entry(name.to_owned()).or_default();
        *count += 1;
        *count
    }
}

fn path(sidecar: &Path) -> PathBuf {
    sidecar.join("session.json")
}

#[cfg(test)]
mod tests {
    use aot_core::rules::Change;

    use super::{SentWorker, SessionMemory};

    #[test]
    fn one_coordinates_and_the_others_are_replaced() {
        let mut memory = SessionMemory::default();
        assert!(!memory.is_replaced("a"), "a host that does not tell who begins");
        memory.set_coordinator(Some("a"));
        assert!(!memory.is_replaced("a") && memory.is_replaced("b"));
        memory.set_coordinator(Some("b"));
        assert!(memory.is_replaced("a") && !memory.is_replaced("b"));
        memory.set_coordinator(None);
        assert!(memory.is_replaced("a") && memory.is_replaced("b") && !memory.is_replaced("c"));
    }

    #[test]
    fn a_tree_is_free_when_its_worker_has_ended() {
        let sent = |call: &str| SentWorker { call: call.into(), agent: None };
        let mut memory = SessionMemory::default();
        memory.workers.insert("A1-1".into(), sent("t1"));
        memory.workers.insert("A2-1".into(), sent("t2"));
        memory.workers.insert("A3-1".into(), sent("t3"));
        memory.call_returned("t1", None);
        memory.call_returned("t2", Some("w2"));
        assert_eq!(memory.workers.keys().collect::<Vec<_>>(), ["A2-1", "A3-1"]);
        memory.worker_ended("w2");
        memory.set_tree("w3", "A3-1".into());
        memory.worker_ended("w3");
        memory.worker_ended("nobody");
        assert!(memory.workers.is_empty(), "{:?}", memory.workers);
    }

    #[test]
    fn iterations_are_told_with_their_numbers() {
        let closed = || Change::IterationClosed { unresolved: 1, stall_count: 0 };
        let mut memory = SessionMemory::default();
        memory.note_changes(&[Change::IterationOpened, Change::ResultCounted], 1, 9);
        assert!(memory.news.is_empty());
        // The next start closes what is over, and opens another one.
        memory.note_changes(&[closed(), Change::IterationOpened], 2, 8);
        memory.note_changes(&[closed()], 2, 7);
        let told: Vec<(u32, usize, u64)> = memory
            .news
            .iter()
            .map(|news| (news.iteration, news.changes.len(), news.agent_runs_left))
            .collect();
        assert_eq!(told, [(1, 3, 8), (2, 2, 7)]);
    }

    #[test]
    fn what_is_changed_at_the_same_time_is_all_kept() {
        let place = tempfile::tempdir().expect("a folder");
        std::thread::scope(|scope| {
            for n in 0..8 {
                let folder = place.path();
                scope.spawn(move || {
                    for _ in 0..20 {
                        SessionMemory::change(folder, "s", |memory| {
                            memory.started += 1;
                            SessionMemory::count(&mut memory.rounds, &format!("c{n}"));
                        });
                    }
                });
            }
        });
        let memory = SessionMemory::of(place.path(), "s");
        assert_eq!(memory.started, 160);
        assert_eq!(memory.rounds.values().copied().collect::<Vec<_>>(), [20; 8]);
        assert_eq!(SessionMemory::of(place.path(), "t").started, 0, "another session's is not ours");
    }
}
