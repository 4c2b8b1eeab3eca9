//! Worktrees for the attempts of a run: leases, compares and releases them. They stay for the next run. Landing is in `landing.rs`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aot_core::hook;
use aot_core::state::AtomId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::checkout::Checkout;
use super::content::TrackedFiles;
use super::error::GroundError;
use super::git::GitError;
use super::history::{Difference, GITLINK, commit, differences, found, landed_work, tree_of};
use super::intents;
use super::kept::keep;
use super::refs;
use super::setup::TreeSetup;
use super::slots::{self, SetupState, Slot, SlotRecord};
use super::snapshot::{IgnoredFiles, NotWork, Snapshot};
use super::tree_folder::{TreeFolder, told};
use super::{End, FoundCommit, KnownRepository, LandedWork, Lent, Loan, Sealed, Tree, Work};

#[derive(Debug)]
pub(super) struct Worktrees {
    pub checkout: Checkout,
    pub common_dir: PathBuf,
    /// `refs/heads/…`: the branch checked out at the start, or the one that was asked for.
    pub reference: String,
    pub checkout_policy: CheckoutPolicy,
    /// The folder of all trees.
    pub trees: PathBuf,
    /// Where a tree of a run is made if there is no room in that folder.
    pub spare: PathBuf,
    /// That of a run, held until the end.
    pub folder: Option<TreeFolder>,
    /// That the cache's disk is full is told once.
    pub is_full_told: AtomicBool,
    /// Below this name is the reference of a landing that has begun.
    pub landings: String,
    pub loop_id: String,
    /// As they are seen from the project's folder.
    pub submodules: Vec<String>,
    pub provision: TreeSetup,
    pub slots: Mutex<SlotPool>,
    /// A free tree that was renewed before anybody wanted it. Held while that goes on.
    pub ahead: Mutex<Option<FreeSlot>>,
    /// What a person should know.
    pub notes: Mutex<Vec<String>>,
    pub lifetime: LeaseLifetime,
    /// The folder with records of leases that outlive a process. A worker cannot write there.
    pub lease_records: PathBuf,
    /// A tree of the landing branch, in which the base case is evaluated.
    pub verifying: Mutex<Option<Slot>>,
    /// Held during a landing, because only one may land at a time.
    pub landing: Mutex<()>,
}

/// Whether the user's checkout is moved along when something lands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckoutPolicy {
    Follow,
    LeaveAlone,
}

/// How long a lease lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseLifetime {
    /// As long as the run: trees are numbered, and reused by later attempts.
    Run,
    /// Until any process releases it: trees are named after the attempt, and recorded on disk.
    Attempt,
}

/// A lease as it is recorded on disk.
#[derive(Debug, Serialize, Deserialize)]
struct LeaseRecord {
    base: String,
    slot: SlotRecord,
}

#[derive(Debug, Default)]
pub(super) struct SlotPool {
    pub free: Vec<Slot>,
    /// Trees in which nobody has worked for long.
    pub old: Vec<Slot>,
    /// The highest number so far.
    pub made: u32,
}

/// A tree that nobody works in.
#[derive(Debug)]
pub(super) enum FreeSlot {
    /// Somebody has worked in it.
    Used(Slot),
    /// Nobody has, since it was made a clean tree of this commit.
    Renewed { slot: Slot, commit: String, setup: SetupState },
}

impl Worktrees {
    pub fn branch(&self) -> &str {
        self.reference.strip_prefix("refs/heads/").unwrap_or(&self.reference)
    }

    pub fn tip(&self) -> Result<String, GroundError> {
        self.commit_of(&self.reference)?
            .ok_or_else(|| GroundError::BranchGone { name: self.branch().to_owned() })
    }

    /// The commit of `HEAD` or of a branch.
    pub fn commit_of(&self, name: &str) -> Result<Option<String>, GitError> {
        refs::tip(&self.checkout.git, (&self.checkout.git_dir, &self.common_dir), name)
    }

    pub fn lend(&self, work: &Work) -> Result<Lent, GroundError> {
        self.lend_at(work, self.tip()?)
    }

    pub fn lend_at(&self, work: &Work, base: String) -> Result<Lent, GroundError> {
        if self.lifetime == LeaseLifetime::Attempt {
            slots::make_lent(&self.trees)?;
            fs::create_dir_all(&self.lease_records)
                .map_err(GroundError::io("make the folder", &self.lease_records))?;
        }
        let at_hand = locked(&self.ahead).take();
        let at_hand = at_hand.or_else(|| locked(&self.slots).free.pop().map(FreeSlot::Used));
        let slot = self.ready(at_hand, &base, || match self.lifetime {
            LeaseLifetime::Run => {
                let mut slots = locked(&self.slots);
                slots.made += 1;
                (slots.made.to_string(), slots.made)
            }
            LeaseLifetime::Attempt => (name_of(work), self.free_number()),
        })?;
        if self.lifetime == LeaseLifetime::Attempt {
            intents::write(&self.lease_record(work), &LeaseRecord { base: base.clone(), slot: slot.keep() })?;
        }
        Ok(self.lent(work, slot, base))
    }

    /// Renews a free tree for the work that may begin next. What goes wrong is met by whoever wants the tree.
    pub fn renew_ahead(&self) {
        let mut ahead = locked(&self.ahead);
        let Ok(commit) = self.tip() else { return };
        let Some(mut slot) = locked(&self.slots).free.pop() else { return };
        match slot.renew(&commit) {
            Ok(setup) => *ahead = Some(FreeSlot::Renewed { slot, commit, setup }),
            Err(_) => locked(&self.slots).free.push(slot),
        }
    }

    fn lent(&self, work: &Work, slot: Slot, base: String) -> Lent {
        let (top, root) = (slot.top.clone(), self.checkout.layout.root_in(&slot.top));
        let number = slot.number;
        let loan = Loan::Tree { slot: Box::new(slot), base, sealed: None };
        Lent { work: work.clone(), number, top, root, loan }
    }

    /// What another host made: a commit that has come here already.
    pub fn take_in(&self, work: &Work, base: &str, commit: &str) -> Result<(Lent, Sealed), GroundError> {
        let (git, layout) = (&self.checkout.git, &self.checkout.layout);
        let (tree, differences) = (tree_of(git, commit)?, differences(git, base, commit)?);
        let is_link = |one: &&Difference| {
            [&one.old, &one.new].into_iter().flatten().any(|version| version.mode == GITLINK)
        };
        let submodules = differences.iter().filter(is_link).map(|one| one.path.clone()).collect();
        let made =
            Snapshot { tree, differences, nested: Vec::new(), submodules, ignored: IgnoredFiles::Unknown };
        let ours = made.differences.iter().find(|one| layout.is_ours(&one.path));
        let ours = ours.map(|one| format!("`{}` belongs to the loop itself", layout.seen(&one.path)));
        let sealed = Sealed {
            changed: made.changed(layout),
            content: Some(made.tree.clone()),
            cannot_land: ours.or_else(|| made.cannot_land(layout)),
            ignored: Vec::new(),
        };
        let loan = Loan::Elsewhere { base: base.to_owned(), made };
        let nowhere = PathBuf::new();
        Ok((Lent { work: work.clone(), number: 0, top: nowhere.clone(), root: nowhere, loan }, sealed))
    }

    /// A tree here for work that was done on another host.
    pub(super) fn bring_here(&self, lent: &mut Lent) -> Result<(), GroundError> {
        if let Loan::Elsewhere { base, made } = &lent.loan {
            let (base, made) = (base.clone(), made.clone());
            *lent = self.lend_at(&lent.work, base)?;
            if let Loan::Tree { sealed, .. } = &mut lent.loan {
                *sealed = Some(made);
            }
        }
        Ok(())
    }

    pub fn as_commit(&self, lent: &mut Lent, message: &str) -> Result<Option<String>, GroundError> {
        let git = &self.checkout.git;
        let Some((_, base, made)) = lent.loan.made() else { return Ok(None) };
        match made.tree == tree_of(git, base)? {
            true => Ok(None),
            false => Ok(Some(commit(git, &made.tree, &[base], message)?)),
        }
    }

    /// A lease of an earlier process that has not been released.
    pub fn lent_before(&self, work: &Work) -> Option<Lent> {
        let LeaseRecord { base, slot } = intents::read(&self.lease_record(work)).ok()??;
        let top = self.trees.join(name_of(work));
        let slot = Slot::again(&self.checkout.git, &self.common_dir, &top, slot)?;
        Some(self.lent(work, slot, base))
    }

    /// The smallest number that no tree of the session has.
    fn free_number(&self) -> u32 {
        let taken: Vec<u32> = self.lent_besides(&[]).iter().map(|lent| lent.number).collect();
        (1..).find(|number| !taken.contains(number)).unwrap_or(u32::MAX)
    }

    /// All leases of earlier processes except these.
    pub fn lent_besides(&self, wanted: &[Work]) -> Vec<Lent> {
        let notes = fs::read_dir(&self.lease_records).into_iter().flatten().flatten();
        let work = |note: fs::DirEntry| {
            let name = note.file_name().into_string().ok()?;
            let (atom, attempt) = name.strip_suffix(".json")?.rsplit_once('-')?;
            Some(Work { atom: AtomId::new(atom), attempt: attempt.parse().ok()? })
        };
        let not_work = notes.filter_map(work).filter(|work| !wanted.contains(work));
        not_work.filter_map(|work| self.lent_before(&work)).collect()
    }

    fn lease_record(&self, work: &Work) -> PathBuf {
        self.lease_records.join(format!("{}.json", name_of(work)))
    }

    /// A clean and set-up tree of this commit: the free one, or a new one.
    fn ready(
        &self,
        at_hand: Option<FreeSlot>,
        commit: &str,
        name: impl FnOnce() -> (String, u32),
    ) -> Result<Slot, GroundError> {
        let renewed = match at_hand {
            Some(FreeSlot::Renewed { slot, commit: known, setup }) if known == commit => Some((slot, setup)),
            // A tree that cannot be cleaned is replaced.
            Some(FreeSlot::Used(mut slot) | FreeSlot::Renewed { mut slot, .. }) => match slot.renew(commit) {
                Ok(setup) => Some((slot, setup)),
                Err(_) => {
                    slot.remove()?;
                    None
                }
            },
            None => None,
        };
        let (mut slot, setup) = match renewed {
            Some(renewed) => renewed,
            None => {
                let (name, number) = name();
                (self.make(&name, number, commit)?, SetupState::Needed)
            }
        };
        match self.provide(&mut slot, commit, setup) {
            Ok(()) => Ok(slot),
            Err(error) => {
                // The next attempt makes a new tree, and the first error is the one to report.
                let _ = slot.remove();
                Err(error)
            }
        }
    }

    /// A new tree. Where the cache's disk is full it lies in the sidecar.
    fn make(&self, name: &str, number: u32, commit: &str) -> Result<Slot, GroundError> {
        let make = |top: &Path| Slot::make(&self.checkout.git, &self.common_dir, (top, number), commit);
        let top = self.trees.join(name);
        let error = match make(&top) {
            Err(error)
                if error.is_full_disk() && self.folder.as_ref().is_some_and(TreeFolder::is_outside) =>
            {
                error
            }
            made => return made,
        };
        slots::remove_folder(&top)?;
        let made = make(&self.spare.join(name))?;
        let why = format!("{} is full ({error})", self.trees.display());
        if !self.is_full_told.swap(true, Ordering::AcqRel) {
            locked(&self.notes).push(told(&self.spare, &why));
        }
        Ok(made)
    }

    fn provide(&self, slot: &mut Slot, commit: &str, setup: SetupState) -> Result<(), GroundError> {
        let layout = &self.checkout.layout;
        let root = layout.root_in(&slot.top);
        fs::create_dir_all(&root).map_err(GroundError::io("make the folder", &root))?;
        slot.not_work = NotWork { shared: self.provision.link(layout, &slot.top)?, ..NotWork::default() };
        let setup = if self.provision.makes_something() { setup } else { SetupState::StillThere };
        if setup == SetupState::Needed {
            if slot.is_set_up {
                self.provision.tear_down(layout, slot)?;
            }
            slot.is_set_up = self.provision.setup.is_some();
            self.provision.set_up(layout, slot)?;
        }
        slot.prepared(commit, layout, setup)
    }

    pub fn changed(&self, lent: &Lent) -> Result<Vec<String>, GroundError> {
        let Loan::Tree { slot, base, .. } = &lent.loan else { return Ok(Vec::new()) };
        let layout = &self.checkout.layout;
        Ok(slot.take(base, layout)?.changed(layout))
    }

    /// Takes the work as it is now; nothing that is written later is part of it.
    pub fn seal(&self, lent: &mut Lent) -> Result<Sealed, GroundError> {
        let layout = &self.checkout.layout;
        let Loan::Tree { slot, base, sealed } = &mut lent.loan else { return Ok(Sealed::default()) };
        let snapshot = slot.take(base, layout)?;
        let told = Sealed {
            changed: snapshot.changed(layout),
            content: Some(snapshot.tree.clone()),
            cannot_land: snapshot.cannot_land(layout),
            ignored: match snapshot.ignored {
                IgnoredFiles::None => Vec::new(),
                IgnoredFiles::Unknown => slot.left_ignored(layout)?,
            },
        };
        *sealed = Some(snapshot);
        Ok(told)
    }

    /// Takes back what was changed since the work was sealed.
    pub fn undo_since_sealed(&self, lent: &Lent) -> Result<Vec<String>, GroundError> {
        let layout = &self.checkout.layout;
        let Loan::Tree { slot, base, sealed: Some(sealed) } = &lent.loan else { return Ok(Vec::new()) };
        let undone = slot.undo_since(sealed, base, layout)?;
        Ok(layout.all_seen(undone.iter().map(|one| one.path.as_slice())))
    }

    /// Gives these paths of the sealed work the content that they had before it.
    pub fn put_back(&self, lent: &Lent, paths: &[String]) -> Result<(), GroundError> {
        let layout = &self.checkout.layout;
        let Loan::Tree { slot, sealed: Some(sealed), .. } = &lent.loan else { return Ok(()) };
        let is_meant = |one: &&Difference| {
            layout.all_seen([one.path.as_slice()]).iter().any(|seen| paths.contains(seen))
        };
        slot.put_back(&sealed.differences.iter().filter(is_meant).cloned().collect::<Vec<_>>())
    }

    pub fn give_back(&self, lent: Lent, end: End) -> Result<Option<String>, GroundError> {
        let (slot, base, sealed) = match lent.loan {
            Loan::Tree { slot, base, sealed } => (Some(slot), base, sealed),
            Loan::Elsewhere { base, made } => (None, base, Some(made)),
            Loan::InPlace | Loan::Unisolated => return Ok(None),
        };
        let put_away = |slot: Option<Box<Slot>>| slot.map_or(Ok(()), |slot| self.put_away(&lent.work, *slot));
        let reason = match end {
            End::Landed => {
                put_away(slot)?;
                return Ok(None);
            }
            End::Failed { reason } | End::Discarded { reason } => reason,
        };
        let snapshot = match (sealed, &slot) {
            (Some(sealed), _) => Ok(sealed),
            (None, Some(slot)) => slot.take(&base, &self.checkout.layout),
            (None, None) => return Ok(None),
        };
        let kept = snapshot.and_then(|snapshot| {
            if snapshot.differences.is_empty() {
                return Ok(None);
            }
            Ok(Some(keep(&self.checkout.git, &self.loop_id, &lent.work, &snapshot.tree, &base, &reason)?))
        });
        put_away(slot)?;
        kept
    }

    fn put_away(&self, work: &Work, slot: Slot) -> Result<(), GroundError> {
        match self.lifetime {
            LeaseLifetime::Run => locked(&self.slots).free.push(slot),
            LeaseLifetime::Attempt => {
                // The tree is gone in any case.
                let ended = self.provision.tear_down(&self.checkout.layout, &slot);
                locked(&self.notes).extend(ended.err().map(|error| error.to_string()));
                slot.remove()?;
                intents::remove(&self.lease_record(work))?;
            }
        }
        Ok(())
    }

    pub fn found(&self, in_progress: &[(AtomId, u32)]) -> Result<Vec<FoundCommit>, GroundError> {
        let found = found(&self.checkout.git, &self.reference, &self.loop_id, in_progress)?;
        Ok(found.into_iter().map(|one| one.seen(&self.checkout.layout)).collect())
    }

    pub fn landed_work(&self, since: Option<Timestamp>) -> Result<LandedWork, GroundError> {
        let work = landed_work(&self.checkout.git, &self.reference, &self.loop_id, since)?;
        Ok(LandedWork { branch: Some(self.branch().to_owned()), ..work })
    }

    /// The project's folder in which the base case is evaluated, and its repository.
    pub fn verify_root(&self) -> Result<(PathBuf, KnownRepository), GroundError> {
        if self.is_checked_out()? {
            return Ok((self.provision.root.clone(), self.known()));
        }
        let mut verifying = locked(&self.verifying);
        let at_hand = verifying.take().map(FreeSlot::Used);
        let slot = self.ready(at_hand, &self.tip()?, || ("verify".to_owned(), 0))?;
        let found = (self.checkout.layout.root_in(&slot.top), slot.repository());
        *verifying = Some(slot);
        Ok(found)
    }

    pub fn uncommitted(&self) -> Result<Vec<String>, GroundError> {
        if !self.is_checked_out()? {
            return Ok(Vec::new());
        }
        let paths = self.checkout.uncommitted()?;
        Ok(self.checkout.layout.all_seen(paths.iter().map(Vec::as_slice)))
    }

    pub fn is_surely_committed(&self, tree: &Tree) -> Result<bool, GroundError> {
        if !self.is_checked_out()? {
            return Ok(true);
        }
        // Of a project in a folder of its repository it does not show the rest.
        let is_whole = self.checkout.layout.prefix.is_empty();
        Ok(is_whole && tree.tracked() == TrackedFiles::AsInIndex && self.checkout.has_nothing_staged()?)
    }

    pub fn untracked(&self, tree: &Tree) -> Result<Vec<String>, GroundError> {
        if !self.is_checked_out()? {
            return Ok(Vec::new());
        }
        if self.checkout.layout.prefix.is_empty() {
            return Ok(tree.untracked());
        }
        let paths = self.checkout.untracked()?;
        Ok(self.checkout.layout.all_seen(paths.iter().map(Vec::as_slice)))
    }

    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut locked(&self.notes))
    }

    /// The repository as whoever looks at the checkout asks it.
    pub fn known(&self) -> KnownRepository {
        KnownRepository(self.checkout.git.without_filters())
    }

    fn is_checked_out(&self) -> Result<bool, GroundError> {
        Ok(self.checkout_policy == CheckoutPolicy::Follow
            && self.checkout.branch()?.as_ref() == Some(&self.reference))
    }

    pub fn close(&self) -> Result<(), GroundError> {
        match self.lifetime {
            LeaseLifetime::Run => {
                let mut slots = locked(&self.slots);
                let mut ended = Ok(());
                for slot in slots.free.iter_mut().chain(locked(&self.verifying).iter_mut()) {
                    if std::mem::take(&mut slot.is_set_up) {
                        ended = ended.and(self.provision.tear_down(&self.checkout.layout, slot));
                    }
                }
                slots.old.drain(..).try_for_each(Slot::remove)?;
                if let Some(all) = self.folder.as_ref().and_then(TreeFolder::sweep) {
                    slots::forget_gone(&self.common_dir, all)?;
                }
                ended
            }
            LeaseLifetime::Attempt => slots::clear_lent(&self.common_dir, &self.trees, &self.lease_records),
        }
    }
}

/// The folder name of an attempt's tree; ids of atoms are safe in a path.
fn name_of(work: &Work) -> String {
    hook::tree_of(&work.atom, work.attempt)
}

/// Locks a mutex; a thread that panicked while it held it left consistent data.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
