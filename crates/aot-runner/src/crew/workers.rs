//! What the crew's threads share: the configuration, the ground, the locks, and what confines a job.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aot_core::coordinator::Event;

use super::RunConfig;
use super::executor::Executor;
use crate::confinement::{Area, own_paths};
use crate::message::{Message, Notice};
use crate::process::cage::Cage;
use crate::scratch::{LentScratch, ScratchFolders};
use crate::tree::{End, Ground, Lent, TreeKind};

#[derive(Debug)]
pub(super) struct Workers {
    pub config: RunConfig,
    pub ground: Ground,
    pub loop_id: String,
    pub messages: Sender<Message>,
    pub executor: Box<dyn Executor>,
    /// Held by a thread that changes the branch or evaluates it: one landing or one evaluation at a time (D20).
    branch: Mutex<()>,
    /// Held by a thread that works in the project's own folder, where there is one tree for all.
    shared_tree: Mutex<()>,
    /// Blocked landings give up after so long, and at once if the flag is set.
    pub landing_wait: Duration,
    pub give_up_blocked: AtomicBool,
    /// When a blocked landing was last reported.
    pub waiting_shown: Mutex<Option<Instant>>,
    /// The agents that have done their small task in this run.
    pub tried: Mutex<HashSet<String>>,
    scratch: ScratchFolders,
}

impl Workers {
    pub fn new(
        config: RunConfig,
        ground: Ground,
        loop_id: String,
        (messages, landing_wait): (Sender<Message>, Duration),
        executor: Box<dyn Executor>,
    ) -> Workers {
        // From here on git is not asked where the repository is: workers could have made another.
        let config = RunConfig { project: ground.known(&config.project), ..config };
        Workers {
            config,
            ground,
            loop_id,
            messages,
            executor,
            branch: Mutex::default(),
            shared_tree: Mutex::default(),
            landing_wait,
            give_up_blocked: AtomicBool::new(false),
            waiting_shown: Mutex::default(),
            tried: Mutex::default(),
            scratch: ScratchFolders::default(),
        }
    }

    pub fn send(&self, message: Message) {
        // Without a receiver the run is over.
        let _ = self.messages.send(message);
    }

    pub fn event(&self, event: Event) {
        self.send(Message::Event(event));
    }

    pub fn notice(&self, notice: Notice<'static>) {
        self.send(Message::Notice(notice));
    }

    pub fn note(&self, text: String) {
        self.notice(Notice::Note { text });
    }

    pub fn branch_lock(&self) -> MutexGuard<'_, ()> {
        self.branch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn lock_shared_tree(&self) -> Option<MutexGuard<'_, ()>> {
        match self.ground.trees() {
            TreeKind::InPlace => Some(self.shared_tree.lock().unwrap_or_else(PoisonError::into_inner)),
            TreeKind::Worktrees | TreeKind::Unisolated => None,
        }
    }

    pub fn give_back(&self, lent: Lent, end: End) {
        let atom = lent.work().atom.clone();
        if let Err(error) = self.ground.give_back(lent, end) {
            self.note(format!("the tree of {atom} could not be given back: {error}"));
        }
        self.pass_on_notes();
    }

    /// Reports what happened to a person's files.
    pub fn pass_on_notes(&self) {
        self.ground.take_notes().into_iter().for_each(|note| self.note(note));
    }

    /// What confines a worker: it can write its tree, its scratch folder and what the settings name.
    pub fn cage(&self, lent: &Lent, scratch: &Path) -> Option<Cage> {
        let own = vec![lent.top().to_path_buf(), scratch.to_path_buf()];
        self.config.cage.cage(own, self.read_only(lent))
    }

    /// What no worker may write although it lies in the folder that it works in: submodules, because nothing of them can
    /// land; and in the project's own folder the state, its sidecar, the repository.
    pub fn read_only(&self, lent: &Lent) -> Vec<PathBuf> {
        match self.ground.trees() {
            TreeKind::Worktrees => lent.submodules(),
            TreeKind::InPlace | TreeKind::Unisolated => own_paths(&self.config.project),
        }
    }

    /// Where the check of an attempt runs.
    pub fn area<'l>(&self, lent: &'l Lent) -> Area<'l> {
        match self.ground.trees() {
            TreeKind::Worktrees => Area::Tree(lent.top()),
            TreeKind::InPlace | TreeKind::Unisolated => Area::InPlace,
        }
    }

    /// Where the base case runs: this folder is the project's own, or a tree of another branch.
    pub fn area_of_base_case<'r>(&self, root: &'r Path) -> Area<'r> {
        match self.ground.trees() {
            _ if root != self.config.project.root => Area::Tree(root),
            TreeKind::Worktrees => Area::Checkout,
            TreeKind::InPlace | TreeKind::Unisolated => Area::InPlace,
        }
    }

    pub fn scratch(&self) -> std::io::Result<LentScratch<'_>> {
        self.scratch.lend(&self.config.project.sidecar, "work")
    }
}
