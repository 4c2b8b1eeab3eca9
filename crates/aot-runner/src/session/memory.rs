//! What is remembered of a host's session between its steps, beside the state file. Lost, it is begun anew, and no
//! promise breaks (D32).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use aot_core::rules::certificate::Certificate;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// So many agents and attempts are remembered; the oldest are forgotten first.
const REMEMBERED: usize = 256;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionMemory {
    pub session: String,
    /// The session took the loop, and this was written then.
    pub begun: bool,
    /// The loop was running when it was left.
    pub running: bool,
    /// When the time that was spent was last written into the state.
    pub counted: Option<Timestamp>,
    /// The host's id of the agent that coordinates, if the host told who began.
    pub coordinator: Option<String>,
    /// Those who coordinated before: they have nothing to say any more.
    pub replaced: Vec<String>,
    /// Turns of each coordinator.
    pub rounds: BTreeMap<String, u32>,
    /// Agents of ours that were started since the last turn ended.
    pub started: u64,
    /// The tree that each worker settled on.
    pub trees: BTreeMap<String, String>,
    /// How often an agent was asked for its answer again.
    pub reasked: BTreeMap<String, u32>,
    /// How often a result was refused, by atom and attempt.
    pub refused: BTreeMap<String, u32>,
    /// The session was sent back to work, and no turn has ended since.
    pub sent_back: bool,
    /// The iteration in which somebody was reminded of what nobody had handed in.
    pub reminded: Option<u32>,
    /// How often in a row it came back without having done anything.
    pub idle: u32,
    /// How the loop ended, until the user has seen it.
    pub end_to_show: Option<Certificate>,
    /// A broken state file that was told about.
    pub told_broken: Option<String>,
}

impl SessionMemory {
    /// What is remembered of this session, and of no other.
    pub fn of(sidecar: &Path, session: &str) -> SessionMemory {
        let text = fs::read(path(sidecar)).unwrap_or_default();
        let note: SessionMemory = serde_json::from_slice(&text).unwrap_or_default();
        if note.session == session {
            note
        } else {
            SessionMemory { session: session.to_owned(), ..SessionMemory::default() }
        }
    }

    /// Changes what is remembered, while nobody else does. Best effort: what cannot be kept is begun anew.
    pub fn change<T>(sidecar: &Path, session: &str, change: impl FnOnce(&mut SessionMemory) -> T) -> T {
        let lock = File::create(sidecar.join("session.lock")).and_then(|lock| lock.lock().map(|()| lock));
        let mut note = SessionMemory::of(sidecar, session);
        let before = note.clone();
        let changed = change(&mut note);
        if note != before {
            note.write(sidecar);
        }
        drop(lock);
        changed
    }

    fn write(&self, sidecar: &Path) {
        let Ok(text) = serde_json::to_vec(self) else { return };
        let aside = path(sidecar).with_extension(format!("{}.part", std::process::id()));
        let written = fs::write(&aside, text).and_then(|()| fs::rename(&aside, path(sidecar)));
        if written.is_err() {
            let _ = fs::remove_file(&aside);
        }
    }

    /// Whether a loop that is shown as completed was running as far as we know: then somebody else wrote that.
    pub fn left_running(&self) -> bool {
        self.running || !self.begun
    }

    /// A new agent coordinates; whoever did before does not any more.
    pub fn seat(&mut self, agent: Option<&str>) {
        let before = std::mem::replace(&mut self.coordinator, agent.map(str::to_owned));
        self.replaced.extend(before.filter(|before| Some(before.as_str()) != agent));
        if self.replaced.len() > REMEMBERED {
            self.replaced.remove(0);
        }
    }

    /// Whether another one coordinates in the place of this agent.
    pub fn is_replaced(&self, agent: &str) -> bool {
        let other = self.coordinator.as_deref().is_some_and(|coordinator| coordinator != agent);
        other || self.replaced.iter().any(|replaced| replaced == agent)
    }

    /// A worker works in this tree, and in no other from now on.
    pub fn settle(&mut self, agent: &str, tree: String) {
        if self.trees.len() >= REMEMBERED && !self.trees.contains_key(agent) {
            self.trees.pop_first();
        }
        self.trees.entry(agent.to_owned()).or_insert(tree);
    }

    /// One more of something, and how many that makes.
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
    use super::SessionMemory;

    #[test]
    fn one_coordinates_and_the_others_are_replaced() {
        let mut note = SessionMemory::default();
        assert!(!note.is_replaced("a"), "a host that does not tell who begins");
        note.seat(Some("a"));
        assert!(!note.is_replaced("a") && note.is_replaced("b"));
        note.seat(Some("b"));
        assert!(note.is_replaced("a") && !note.is_replaced("b"));
        note.seat(None);
        assert!(note.is_replaced("a") && note.is_replaced("b") && !note.is_replaced("c"));
    }

    #[test]
    fn what_is_changed_at_the_same_time_is_all_kept() {
        let place = tempfile::tempdir().expect("a folder");
        std::thread::scope(|scope| {
            for n in 0..8 {
                let folder = place.path();
                scope.spawn(move || {
                    for _ in 0..20 {
                        SessionMemory::change(folder, "s", |note| {
                            note.started += 1;
                            SessionMemory::count(&mut note.rounds, &format!("c{n}"));
                        });
                    }
                });
            }
        });
        let note = SessionMemory::of(place.path(), "s");
        assert_eq!(note.started, 160);
        assert_eq!(note.rounds.values().copied().collect::<Vec<_>>(), [20; 8]);
        assert_eq!(SessionMemory::of(place.path(), "t").started, 0, "another session's is not ours");
    }
}
