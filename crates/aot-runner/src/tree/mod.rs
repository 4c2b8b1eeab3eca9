//! The ground that work stands on: worktrees, commits, landings, the shadow repository, and the content of a project
//! as one hash. The only git. Does not choose when anything is lent, landed or taken back.
//!
//! In a repository each attempt has a worktree of its own ([`TreeKind::Worktrees`]), what it made lands as one commit on
//! the branch, and the user's checkout follows. Elsewhere one attempt at a time works in place ([`TreeKind::InPlace`]),
//! with a snapshot in a repository of our own to go back to. [`TreeKind::Unisolated`] is neither.

mod aside;
mod before;
mod checkout;
mod content;
mod copies;
mod delivered;
mod drivers;
mod error;
mod exchange;
pub mod filter;
mod git;
mod history;
mod ignored;
mod init;
mod intents;
mod kept;
mod landing;
mod look;
mod needs;
mod open;
mod refs;
mod setup;
mod shadow;
mod shown;
mod slots;
mod snapshot;
mod tree_folder;
mod undo;
mod unisolated;
mod walk;
mod worktrees;

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use aot_core::state::{AtomId, IsolationMode, State};
use jiff::Timestamp;
use serde::Serialize;

pub use before::{check_start, why_unopened};
pub use content::{
    KnownRepository, Project, ProjectRepository, READ_IN_ALL, Tree, WHOLE_UP_TO, author, checked_out,
    commit_hooks, default_branch, is_branch_name,
};
pub use delivered::{DeliveredCommit, DeliveredFile, Delivery, branch_at, delivered};
pub use error::GroundError;
pub use exchange::{Exchange, ExchangePlace, Handed, check_source, clone_for_work, is_commit, reference};
pub use git::GitError;
pub(crate) use git::environment as git_environment;
pub use ignored::{StateInGit, ignore_state, state_in_git, uncommitted};
pub use init::begin;
pub use kept::{KeptWork, kept};
pub use look::BranchTree;
pub use needs::{TreeNeeds, needs, not_in_trees};
pub use open::clean;
pub use open::is_outside_git;
pub use shown::shown;
pub use tree_folder::lender;
pub use undo::{Undo, UndoPlan, UndoWay, Undone, UndoneCommit};

use crate::confinement::Confinement;
use crate::ports::Ports;
use crate::process::Guard;
use aside::{BeforeWork, RepositoryWatch};
use shadow::Shadow;
use slots::Slot;
use snapshot::Snapshot;
use unisolated::Unisolated;
use worktrees::Worktrees;

/// What a loop says about its isolation.
#[derive(Clone, Debug)]
pub struct IsolationRequest {
    /// Without it: worktrees in a git repository, in place elsewhere.
    pub mode: Option<IsolationMode>,
    /// Paths of the project that every tree links to.
    pub share: Vec<String>,
    /// Paths of the project that every tree has a copy of.
    pub copy: Vec<String>,
    /// Run in every new tree.
    pub setup: Option<String>,
    /// Run in every tree that was set up, when the run is over.
    pub teardown: Option<String>,
    /// The shell of these commands.
    pub shell: Option<String>,
    /// Land here instead of on the branch that is checked out, and leave the checkout alone.
    pub branch: Option<String>,
    pub loop_id: String,
    /// What confines `setup`.
    pub confinement: Confinement,
    /// What every worker may write besides its own tree. No tree lies there.
    pub writable: Vec<PathBuf>,
}

impl IsolationRequest {
    /// What the state asks for.
    pub fn of(state: &State, confinement: Confinement) -> IsolationRequest {
        let isolation = state.objective.isolation.clone().unwrap_or_default();
        IsolationRequest {
            mode: isolation.mode,
            share: isolation.share,
            copy: isolation.copy,
            setup: isolation.setup,
            teardown: isolation.teardown,
            shell: state.objective.shell.clone(),
            branch: state.control.branch.clone(),
            loop_id: state.control.loop_id.clone().unwrap_or_default(),
            confinement,
            writable: Vec::new(),
        }
    }
}

/// Who comes, and what is to be done first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenedFor {
    /// A run: what a dead one left is cleared, and what is lent ends with it.
    Run,
    /// A host's session begins: cleared as well, and what is lent outlives the process.
    Session,
    /// The same session, in another process: everything is as it was left.
    Again,
    /// A host that works for drivers elsewhere: as a run, and nothing lands here.
    Host,
}

/// One per run. All of it may be called from several threads; landings take their turn.
#[derive(Debug)]
pub struct Ground {
    inner: Inner,
    watch: RepositoryWatch,
    ports: Ports,
}

#[derive(Debug)]
enum Inner {
    Worktrees(Box<Worktrees>),
    InPlace(Box<Shadow>),
    Unisolated(Box<Unisolated>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeKind {
    Worktrees,
    InPlace,
    Unisolated,
}

/// Whose work it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    pub atom: AtomId,
    pub attempt: u32,
}

/// A tree that belongs to one attempt until it is given back.
#[derive(Debug)]
#[must_use]
pub struct Lent {
    work: Work,
    /// No two that are lent at the same time have the same.
    number: u32,
    top: PathBuf,
    root: PathBuf,
    loan: Loan,
}

#[derive(Debug)]
enum Loan {
    Tree {
        slot: Box<Slot>,
        /// The commit that the work is compared with.
        base: String,
        /// The work as it was when the worker had ended. What its check writes later is not part of it.
        sealed: Option<Snapshot>,
    },
    /// It was done on another host: what came back is a commit.
    Elsewhere {
        base: String,
        made: Snapshot,
    },
    InPlace,
    Unisolated,
}

impl Loan {
    /// What was made, and what it is compared with; the tree that shows it, if that is here.
    fn made(&mut self) -> Option<(Option<&Slot>, &mut String, &mut Snapshot)> {
        match self {
            Loan::Tree { slot, base, sealed: Some(sealed) } => Some((Some(slot), base, sealed)),
            Loan::Elsewhere { base, made } => Some((None, base, made)),
            Loan::Tree { sealed: None, .. } | Loan::InPlace | Loan::Unisolated => None,
        }
    }
}

/// What a worker made, as it would land.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Sealed {
    /// All paths that differ from the base, relative to the project's root.
    pub changed: Vec<String>,
    /// Its content, if that is known: two results with the same one do not differ.
    pub content: Option<String>,
    /// Why it can never land: git cannot carry a part of it.
    pub cannot_land: Option<String>,
    /// Ignored files that were left in the tree and are not part of the work.
    pub ignored: Vec<String>,
}

/// What a commit says.
#[derive(Clone, Debug)]
pub struct CommitMessage {
    /// The atom's description.
    pub subject: String,
    /// What was done, in a line; it is found again after a crash.
    pub summary: String,
    pub loop_id: String,
    pub atom: AtomId,
    pub attempt: u32,
}

/// What a landing waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub reason: String,
    /// Relative to the project's root; empty if it is not about files.
    pub paths: Vec<String>,
}

/// Called while something is in the way, again and again, until it is free or this says `Break`.
pub type OnWait<'a> = &'a mut dyn FnMut(&Waiting) -> ControlFlow<()>;

/// Runs the checks again on a merged tree, which differs from the branch in these paths.
pub type Recheck<'a> = &'a mut dyn FnMut(&mut Lent, &[String]) -> Result<(), String>;

#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Landing {
    Landed {
        /// `None` if there was nothing to commit.
        commit: Option<String>,
        paths: Vec<String>,
    },
    Conflict {
        reason: String,
    },
    GivenUp,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Landed,
    Failed { reason: String },
    Discarded { reason: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Reverted {
    Reverted {
        commit: String,
    },
    /// What came later stands on it.
    NotClean {
        paths: Vec<String>,
    },
    /// It is not on the branch, or was taken back already.
    NotThere,
    GivenUp,
}

/// A commit of this loop for an attempt that the state shows in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCommit {
    pub atom: AtomId,
    pub attempt: u32,
    pub commit: String,
    /// What the commit says was done.
    pub summary: String,
    pub paths: Vec<String>,
}

/// What a loop has landed and not taken back since. A line that two atoms changed counts twice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LandedWork {
    /// Absent in place.
    pub branch: Option<String>,
    pub commits: usize,
    pub files: usize,
    pub insertions: u64,
    pub deletions: u64,
}

impl Ground {
    /// Decides what kind of ground it is, refuses what cannot work, and clears what a crashed run left.
    pub fn open(project: &Project, wanted: IsolationRequest, guard: &Guard) -> Result<Ground, GroundError> {
        Ground::enter(project, wanted, guard, OpenedFor::Run)
    }

    /// The same for whoever comes.
    pub fn enter(
        project: &Project,
        wanted: IsolationRequest,
        guard: &Guard,
        entry: OpenedFor,
    ) -> Result<Ground, GroundError> {
        let ports = match entry {
            OpenedFor::Run | OpenedFor::Host => Ports::hold(&project.key()),
            // Every process of a session has to come to the same.
            OpenedFor::Session | OpenedFor::Again => Ports::of(&project.key()),
        };
        let inner = open::open(project, wanted, guard, &ports, entry)?;
        if entry != OpenedFor::Again {
            aside::drop_old(&project.sidecar);
        }
        let watch = RepositoryWatch::new(&project.root, &project.sidecar, BeforeWork::of(&project.root));
        Ok(Ground { inner, watch, ports })
    }

    /// The tree that another process of the session was lent for this work, if nobody has given it back.
    pub fn lent_before(&self, work: &Work) -> Option<Lent> {
        match &self.inner {
            Inner::Worktrees(trees) => trees.lent_before(work),
            Inner::InPlace(shadow) => shadow.lent_before(work),
            Inner::Unisolated(shared) => Some(shared.again(work)),
        }
    }

    /// What other processes were lent, besides what is named.
    pub fn lent_besides(&self, wanted: &[Work]) -> Vec<Lent> {
        match &self.inner {
            Inner::Worktrees(trees) => trees.lent_besides(wanted),
            Inner::InPlace(_) | Inner::Unisolated(_) => Vec::new(),
        }
    }

    pub fn trees(&self) -> TreeKind {
        match &self.inner {
            Inner::Worktrees(_) => TreeKind::Worktrees,
            Inner::InPlace(_) => TreeKind::InPlace,
            Inner::Unisolated(_) => TreeKind::Unisolated,
        }
    }

    /// The commit that the next tree begins at: the tip of the branch that is landed on.
    pub fn base(&self) -> Result<Option<String>, GroundError> {
        match &self.inner {
            Inner::Worktrees(trees) => trees.tip().map(Some),
            Inner::InPlace(shadow) => shadow.tip(),
            Inner::Unisolated(_) => Ok(None),
        }
    }

    /// The branch that is landed on.
    pub fn branch(&self) -> Option<&str> {
        match &self.inner {
            Inner::Worktrees(trees) => Some(trees.branch()),
            Inner::InPlace(_) | Inner::Unisolated(_) => None,
        }
    }

    /// What whoever works in this tree is told of it: its number, and the first of its ports.
    pub fn variables(&self, lent: &Lent) -> [(OsString, OsString); 2] {
        self.ports.variables(lent.number)
    }

    /// The same for checks in the project's own folder.
    pub fn variables_of_checkout(&self) -> [(OsString, OsString); 2] {
        self.ports.variables(0)
    }

    /// Submodules of the project, in which nothing can land.
    pub fn submodules(&self) -> &[String] {
        match &self.inner {
            Inner::Worktrees(trees) => &trees.submodules,
            // In place a project that holds other repositories is refused, and without isolation nothing lands at all.
            Inner::InPlace(_) | Inner::Unisolated(_) => &[],
        }
    }

    /// A tree for an attempt, on the newest base.
    pub fn lend(&self, work: &Work) -> Result<Lent, GroundError> {
        match &self.inner {
            Inner::Worktrees(trees) => trees.lend(work),
            Inner::InPlace(shadow) => shadow.lend(work),
            Inner::Unisolated(shared) => shared.lend(work),
        }
    }

    /// Prepares a tree for the next attempt, as far as that costs nothing if none comes.
    pub fn renew_ahead(&self) {
        match &self.inner {
            Inner::Worktrees(trees) => trees.renew_ahead(),
            Inner::InPlace(_) | Inner::Unisolated(_) => {}
        }
    }

    /// A tree at this commit, for whoever works for a driver on another host; only in a repository.
    pub fn lend_at(&self, work: &Work, commit: Option<&str>) -> Result<Lent, GroundError> {
        match (&self.inner, commit) {
            (Inner::Worktrees(trees), Some(commit)) => trees.lend_at(work, commit.to_owned()),
            (Inner::Worktrees(_) | Inner::InPlace(_) | Inner::Unisolated(_), _) => self.lend(work),
        }
    }

    /// The last commit that work begins at; only in a repository.
    pub fn tip(&self) -> Result<Option<String>, GroundError> {
        match &self.inner {
            Inner::Worktrees(trees) => trees.tip().map(Some),
            Inner::InPlace(_) | Inner::Unisolated(_) => Ok(None),
        }
    }

    /// What another host made of `base`, as if it had been made in a tree of ours; only in a repository.
    pub fn take_in(&self, work: &Work, base: &str, commit: &str) -> Result<(Lent, Sealed), GroundError> {
        match &self.inner {
            Inner::Worktrees(trees) => trees.take_in(work, base, commit),
            Inner::InPlace(_) | Inner::Unisolated(_) => Ok((self.lend(work)?, Sealed::default())),
        }
    }

    /// The sealed work as a commit, for other hosts: `None` if it changes nothing.
    pub fn as_commit(&self, lent: &mut Lent, message: &str) -> Result<Option<String>, GroundError> {
        match &self.inner {
            Inner::Worktrees(trees) => trees.as_commit(lent, message),
            Inner::InPlace(_) | Inner::Unisolated(_) => Ok(None),
        }
    }

    /// All paths that differ from the base, relative to the project's root.
    pub fn changed(&self, lent: &Lent) -> Result<Vec<String>, GroundError> {
        match &self.inner {
            Inner::Worktrees(trees) => trees.changed(lent),
            Inner::InPlace(shadow) => shadow.changed(),
            Inner::Unisolated(_) => Ok(Vec::new()),
        }
    }

    /// Takes the work as it is now, when the worker has ended: this lands, and nothing that is written later (D21).
    pub fn seal(&self, lent: &mut Lent) -> Result<Sealed, GroundError> {
        match &self.inner {
            Inner::Worktrees(trees) => trees.seal(lent),
            Inner::InPlace(shadow) => shadow.seal(),
            Inner::Unisolated(_) => Ok(Sealed::default()),
        }
    }

    /// Takes back what was changed since the work was sealed, and says what that was. To be called right after a check.
    pub fn undo_since_sealed(&self, lent: &Lent) -> Result<Vec<String>, GroundError> {
        match &self.inner {
            Inner::Worktrees(trees) => trees.undo_since_sealed(lent),
            Inner::InPlace(shadow) => shadow.undo_since_sealed(&lent.work),
            Inner::Unisolated(_) => Ok(Vec::new()),
        }
    }

    /// Gives these paths of the sealed work the content that they had before it. In place a person may have edited them, so
    /// they stay as they are there.
    pub fn put_back(&self, lent: &Lent, paths: &[String]) -> Result<(), GroundError> {
        match &self.inner {
            Inner::Worktrees(trees) => trees.put_back(lent, paths),
            Inner::InPlace(_) | Inner::Unisolated(_) => Ok(()),
        }
    }

    /// The same project, with the repository that it had before the first worker was started.
    pub fn known(&self, project: &Project) -> Project {
        let repository = match &self.inner {
            Inner::Worktrees(trees) => ProjectRepository::Known(trees.known()),
            Inner::InPlace(shadow) => shadow.around(),
            Inner::Unisolated(shared) => shared.repository.clone(),
        };
        Project { repository, ..project.clone() }
    }

    /// The project as it is in a lent tree.
    pub fn project_in(&self, lent: &Lent, project: &Project) -> Project {
        let repository = match &lent.loan {
            Loan::Tree { slot, .. } => ProjectRepository::Known(slot.repository()),
            Loan::Elsewhere { .. } | Loan::InPlace | Loan::Unisolated => self.known(project).repository,
        };
        Project { root: lent.root.clone(), repository, ..project.clone() }
    }

    /// What happened to files of the project that a person should know of; each is told once.
    pub fn take_notes(&self) -> Vec<String> {
        let mut notes = match &self.inner {
            Inner::InPlace(shadow) => shadow.take_notes(),
            Inner::Unisolated(shared) => shared.watch.take_notes(),
            Inner::Worktrees(trees) => trees.take_notes(),
        };
        notes.extend(self.watch.take_notes());
        notes
    }

    /// To be called when checks have run in the project's own folder: a repository that they made there is taken away.
    pub fn after_checks(&self) -> Result<(), GroundError> {
        self.watch.take_away("a check")
    }

    /// Merges, checks again if the branch moved, compares and swaps, and lets the user's checkout follow.
    pub fn land(
        &self,
        lent: &mut Lent,
        message: &CommitMessage,
        recheck: Recheck<'_>,
        on_wait: OnWait<'_>,
    ) -> Result<Landing, GroundError> {
        match &self.inner {
            Inner::Worktrees(trees) => trees.land(lent, message, recheck, on_wait),
            Inner::InPlace(shadow) => shadow.land(message),
            Inner::Unisolated(_) => Ok(Landing::Landed { commit: None, paths: Vec::new() }),
        }
    }

    /// The attempt is over. What did not land but changed something is kept for a week, under the name that is
    /// returned; in place it is rolled back.
    pub fn give_back(&self, lent: Lent, end: End) -> Result<Option<String>, GroundError> {
        match &self.inner {
            Inner::Worktrees(trees) => trees.give_back(lent, end),
            Inner::InPlace(shadow) => shadow.give_back(&lent.work, end),
            Inner::Unisolated(shared) => shared.give_back(&lent.work).map(|()| None),
        }
    }

    /// Takes the commit of an atom back, as a commit of its own, if that is clean.
    pub fn revert(&self, atom: &AtomId, commit: &str, on_wait: OnWait<'_>) -> Result<Reverted, GroundError> {
        match &self.inner {
            Inner::Worktrees(trees) => trees.revert(atom, commit, on_wait),
            Inner::InPlace(shadow) => shadow.revert(atom, commit),
            Inner::Unisolated(_) => Ok(Reverted::NotThere),
        }
    }

    /// Commits of this loop for these atoms and attempts that landed and were not reverted since (D23).
    pub fn found(&self, in_progress: &[(AtomId, u32)]) -> Result<Vec<FoundCommit>, GroundError> {
        match &self.inner {
            Inner::Worktrees(trees) => trees.found(in_progress),
            Inner::InPlace(shadow) => shadow.found(in_progress),
            Inner::Unisolated(_) => Ok(Vec::new()),
        }
    }

    /// What this loop has landed so far; nothing where nothing is isolated. The loop began at `since`, if that is known.
    pub fn landed_work(&self, since: Option<Timestamp>) -> Result<Option<LandedWork>, GroundError> {
        match &self.inner {
            Inner::Worktrees(trees) => trees.landed_work(since).map(Some),
            Inner::InPlace(shadow) => shadow.landed_work(since).map(Some),
            Inner::Unisolated(_) => Ok(None),
        }
    }

    /// Where the base case is evaluated: the project's root. If the branch that is landed on is not the one that is
    /// checked out there: the project's folder in a worktree of that branch, brought to its tip.
    pub fn verify_in(&self, project: &Project) -> Result<Project, GroundError> {
        match &self.inner {
            Inner::Worktrees(trees) => {
                let (root, repository) = trees.verify_root()?;
                Ok(Project { root, repository: ProjectRepository::Known(repository), ..project.clone() })
            }
            Inner::InPlace(shadow) => {
                Ok(Project { root: shadow.root().to_path_buf(), ..self.known(project) })
            }
            Inner::Unisolated(shared) => Ok(Project { root: shared.root.clone(), ..self.known(project) }),
        }
    }

    /// The folder of [`Ground::verify_in`].
    pub fn verify_root(&self) -> Result<PathBuf, GroundError> {
        match &self.inner {
            Inner::Worktrees(trees) => Ok(trees.verify_root()?.0),
            Inner::InPlace(shadow) => Ok(shadow.root().to_path_buf()),
            Inner::Unisolated(shared) => Ok(shared.root.clone()),
        }
    }

    /// Uncommitted edits of tracked files where the base case is evaluated, ours excepted; empty in place.
    pub fn uncommitted(&self) -> Result<Vec<String>, GroundError> {
        match &self.inner {
            Inner::Worktrees(trees) => trees.uncommitted(),
            Inner::InPlace(_) | Inner::Unisolated(_) => Ok(Vec::new()),
        }
    }

    /// Whether these files of where the base case is evaluated, seen just now, are surely as they are committed. If not,
    /// [`Ground::uncommitted`] looks.
    pub fn is_surely_committed(&self, tree: &Tree) -> Result<bool, GroundError> {
        match &self.inner {
            Inner::Worktrees(trees) => trees.is_surely_committed(tree),
            Inner::InPlace(_) | Inner::Unisolated(_) => Ok(true),
        }
    }

    /// Files where the base case is evaluated, seen just now, that no commit has and that git does not ignore, ours excepted;
    /// empty in place, where the program commits nothing.
    pub fn untracked(&self, tree: &Tree) -> Result<Vec<String>, GroundError> {
        match &self.inner {
            Inner::Worktrees(trees) => trees.untracked(tree),
            Inner::InPlace(_) | Inner::Unisolated(_) => Ok(Vec::new()),
        }
    }

    /// The end of the run, after it was told: trees that were set up are ended, old ones are removed, the others stay for the
    /// next run.
    pub fn close(self) -> Result<(), GroundError> {
        match self.inner {
            Inner::Worktrees(trees) => trees.close(),
            Inner::InPlace(shadow) => shadow.close(),
            Inner::Unisolated(_) => Ok(()),
        }
    }
}

impl Lent {
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// The project's folder in the tree.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The tree's own top.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Folders of the tree in which nothing can land, so that there is no use in writing there.
    pub fn submodules(&self) -> Vec<PathBuf> {
        match &self.loan {
            Loan::Tree { slot, .. } => slot.submodules(),
            Loan::Elsewhere { .. } | Loan::InPlace | Loan::Unisolated => Vec::new(),
        }
    }

    /// The git folder of the tree, and what it needs of the repository: a cage must let git read them.
    pub fn git_dirs(&self) -> Vec<PathBuf> {
        match &self.loan {
            Loan::Tree { slot, .. } => slot.git_dirs(),
            Loan::Elsewhere { .. } | Loan::InPlace | Loan::Unisolated => Vec::new(),
        }
    }
}
