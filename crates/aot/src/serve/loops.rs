//! The loops of a page, each followed by a thread of its own while somebody looks. Knows no protocol.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::broadcast::{self, Receiver, Sender};

use super::follow::Follower;
use super::model::Parts;
use crate::place;

/// How often the files are looked at.
const TICK: Duration = Duration::from_millis(15);

/// How long a loop that nobody looks at is kept in memory.
const REST: Duration = Duration::from_secs(5);

/// A reader that is this many changes behind gets everything anew.
const BACKLOG: usize = 512;

/// A change, as all readers get it.
#[derive(Clone, Debug)]
pub struct Update {
    /// The place of the loop.
    pub at: usize,
    /// Counts the changes of this loop.
    pub number: u64,
    pub text: Arc<str>,
}

#[derive(Debug)]
pub struct Loops {
    loops: Vec<Arc<FollowedLoop>>,
    updates: Sender<Update>,
    viewers: Arc<AtomicUsize>,
    threads: Vec<Thread>,
}

#[derive(Debug)]
pub struct FollowedLoop {
    /// By which the page names it: the same whenever the server is started.
    pub id: String,
    pub state: PathBuf,
    following: Mutex<Following>,
}

#[derive(Debug, Default)]
struct Following {
    follower: Option<Follower>,
    number: u64,
}

/// Somebody who looks; dropped when they go.
#[derive(Debug)]
pub struct Viewer {
    viewers: Arc<AtomicUsize>,
    pub updates: Receiver<Update>,
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.viewers.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Loops {
    pub fn follow(states: &[PathBuf]) -> io::Result<Loops> {
        let (updates, _) = broadcast::channel(BACKLOG);
        let viewers = Arc::new(AtomicUsize::new(0));
        let mut loops = Loops { loops: Vec::new(), updates, viewers, threads: Vec::new() };
        for (at, state) in states.iter().enumerate() {
            let watched = Arc::new(FollowedLoop {
                id: id(state),
                state: state.clone(),
                following: Mutex::new(Following::default()),
            });
            loops.loops.push(Arc::clone(&watched));
            let (updates, viewers) = (loops.updates.clone(), Arc::clone(&loops.viewers));
            let thread = std::thread::Builder::new().name("loop".into());
            let thread = thread.spawn(move || watched.keep_up(at, &updates, &viewers))?;
            loops.threads.push(thread.thread().clone());
        }
        Ok(loops)
    }

    pub fn all(&self) -> &[Arc<FollowedLoop>] {
        &self.loops
    }

    pub fn named(&self, id: &str) -> Option<&Arc<FollowedLoop>> {
        self.loops.iter().find(|watched| watched.id == id)
    }

    pub fn look(&self) -> Viewer {
        let updates = self.updates.subscribe();
        self.viewers.fetch_add(1, Ordering::AcqRel);
        self.threads.iter().for_each(Thread::unpark);
        Viewer { viewers: Arc::clone(&self.viewers), updates }
    }
}

impl FollowedLoop {
    fn keep_up(&self, at: usize, updates: &Sender<Update>, viewers: &AtomicUsize) {
        loop {
            if viewers.load(Ordering::Acquire) == 0 {
                std::thread::park_timeout(REST);
                if viewers.load(Ordering::Acquire) == 0 {
                    self.following().follower = None;
                    std::thread::park();
                }
                continue;
            }
            self.tell(at, updates);
            std::thread::sleep(TICK);
        }
    }

    /// Sends what has changed, while nobody is given the whole.
    fn tell(&self, at: usize, updates: &Sender<Update>) {
        let mut following = self.following();
        let mut parts = self.changes(&mut following);
        if parts.is_empty() {
            return;
        }
        following.number += 1;
        parts.insert("loop".into(), json!(self.id));
        let text = Value::Object(parts).to_string().into();
        // Whoever looked may just have gone.
        let _ = updates.send(Update { at, number: following.number, text });
    }

    fn changes(&self, following: &mut Following) -> Parts {
        let follower = match &mut following.follower {
            Some(follower) => follower,
            empty @ None => match Follower::open(&self.state) {
                Ok(follower) => empty.insert(follower),
                // It is tried again; until then nothing is shown.
                Err(_) => return Parts::new(),
            },
        };
        follower.changes()
    }

    /// Everything that is shown of it, and the number of the last change that is in it.
    pub fn whole(&self) -> (u64, String) {
        let mut following = self.following();
        if following.follower.is_none() {
            // The changes of somebody's first look are in the whole.
            let _ = self.changes(&mut following);
        }
        let mut parts = following.follower.as_ref().map_or_else(Parts::new, Follower::whole);
        parts.insert("loop".into(), json!(self.id));
        parts.insert("name".into(), json!(self.name()));
        parts.insert("path".into(), json!(self.state.display().to_string()));
        (following.number, Value::Object(parts).to_string())
    }

    /// What is known of one atom; nothing if there is none of that name.
    pub fn about(&self, atom: &str) -> Option<Value> {
        self.ask(|follower| follower.about(atom)).flatten()
    }

    /// The newest evidence of the base case.
    pub fn base_case(&self) -> Option<Value> {
        self.ask(|follower| follower.base_case())
    }

    fn ask<T>(&self, question: impl FnOnce(&mut Follower) -> T) -> Option<T> {
        self.following().follower.as_mut().map(question)
    }

    /// The project's folder.
    fn name(&self) -> String {
        let root = place::project_root(&self.state);
        root.file_name().unwrap_or(root.as_os_str()).to_string_lossy().into_owned()
    }

    fn following(&self) -> MutexGuard<'_, Following> {
        // A look that panicked has left nothing half written.
        self.following.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of a loop on the page.
pub fn id(state: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
