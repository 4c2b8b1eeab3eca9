//! Worktrees as the ground of a run: lent, looked at, given back. Landing has a file of its own.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aot_core::hook::tree_of;
use aot_core::state::AtomId;
use serde::{Deserialize, Serialize};

use super::checkout::Checkout;
use super::error::GroundError;
use super::history::{commit_of, found};
use super::kept::keep;
use super::note;
use super::setup::Provision;
use super::slots::{self, Ignored, KeptSlot, Slot};
use super::taking::Besides;
use super::{End, Ending, FoundCommit, Lent, Loan, Work};

#[derive(Debug)]
pub(super) struct Worktrees {
    pub checkout: Checkout,
    pub common_dir: PathBuf,
    /// `refs/heads/…`: what was checked out at the start, or what was asked for.
    pub reference: String,
    pub follows: Follows,
    /// The folder of all trees.
    pub trees: PathBuf,
    /// Where the note of a landing lies.
    pub note: PathBuf,
    pub loop_id: String,
    pub provision: Provision,
    pub slots: Mutex<Slots>,
    pub loans: Loans,
    /// Where loans that outlive a process are written down. A worker does not write there.
    pub kept_loans: PathBuf,
    /// The tree of the branch that is landed on, for the base case.
    pub verifying: Mutex<Option<Slot>>,
    /// Held by whoever lands.
    pub landing: Mutex<()>,
}

/// Whether the user's checkout follows what lands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    Checkout,
    Nobody,
}

/// How long a loan lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loans {
    /// As long as the run: trees are counted, and used again.
    OfTheRun,
    /// Until it is given back, by whichever process: trees are named after the work, and written down.
    OfTheWork,
}

/// A loan as it is written down.
#[derive(Debug, Serialize, Deserialize)]
struct KeptLoan {
    base: String,
    slot: KeptSlot,
}

#[derive(Debug, Default)]
pub(super) struct Slots {
    free: Vec<(Slot, Ignored)>,
    made: u32,
}

impl Worktrees {
    pub fn branch(&self) -> &str {
        self.reference.strip_prefix("refs/heads/").unwrap_or(&self.reference)
    }

    pub fn tip(&self) -> Result<String, GroundError> {
        commit_of(&self.checkout.git, &self.reference)?
            .ok_or_else(|| GroundError::BranchGone { name: self.branch().to_owned() })
    }

    pub fn lend(&self, work: &Work) -> Result<Lent, GroundError> {
        let base = self.tip()?;
        if self.loans == Loans::OfTheWork {
            slots::make_lent(&self.trees)?;
            fs::create_dir_all(&self.kept_loans)
                .map_err(GroundError::io("make the folder", &self.kept_loans))?;
        }
        let free = locked(&self.slots).free.pop();
        let slot = self.ready(free, &base, || match self.loans {
            Loans::OfTheRun => {
                let mut slots = locked(&self.slots);
                slots.made += 1;
                slots.made.to_string()
            }
            Loans::OfTheWork => name_of(work),
        })?;
        if self.loans == Loans::OfTheWork {
            note::write(&self.kept_loan(work), &KeptLoan { base: base.clone(), slot: slot.keep() })?;
        }
        Ok(self.lent(work, slot, base))
    }

    fn lent(&self, work: &Work, slot: Slot, base: String) -> Lent {
        let (top, root) = (slot.top.clone(), self.checkout.layout.root_in(&slot.top));
        let loan = Loan::Tree { slot: Box::new(slot), base, ending: Ending::Unknown };
        Lent { work: work.clone(), top, root, loan }
    }

    /// What another process lent, and nobody has given back.
    pub fn lent_before(&self, work: &Work) -> Option<Lent> {
        let KeptLoan { base, slot } = note::read(&self.kept_loan(work))?;
        let top = self.trees.join(name_of(work));
        let slot = Slot::again(&self.checkout.git, &self.common_dir, &top, slot)?;
        Some(self.lent(work, slot, base))
    }

    /// All of that, besides what is named.
    pub fn lent_besides(&self, wanted: &[Work]) -> Vec<Lent> {
        let notes = fs::read_dir(&self.kept_loans).into_iter().flatten().flatten();
        let work = |note: fs::DirEntry| {
            let name = note.file_name().into_string().ok()?;
            let (atom, attempt) = name.strip_suffix(".json")?.rsplit_once('-')?;
            Some(Work { atom: AtomId::new(atom), attempt: attempt.parse().ok()? })
        };
        let besides = notes.filter_map(work).filter(|work| !wanted.contains(work));
        besides.filter_map(|work| self.lent_before(&work)).collect()
    }

    fn kept_loan(&self, work: &Work) -> PathBuf {
        self.kept_loans.join(format!("{}.json", name_of(work)))
    }

    /// A clean tree of this commit, with what it needs besides: the one at hand, or a new one.
    fn ready(
        &self,
        at_hand: Option<(Slot, Ignored)>,
        commit: &str,
        name: impl FnOnce() -> String,
    ) -> Result<Slot, GroundError> {
        let at_hand = match at_hand {
            // One that cannot be made clean is not worth to find out why.
            Some((slot, ignored)) => match slot.renew(commit, ignored) {
                Ok(()) => Some((slot, ignored)),
                Err(_) => {
                    slot.remove()?;
                    None
                }
            },
            None => None,
        };
        let (mut slot, is_set_up) = match at_hand {
            Some((slot, ignored)) => {
                // What `setup` left beside the ignored files was cleaned away with the rest.
                let is_set_up = ignored == Ignored::Stay && slot.besides.litter.is_empty();
                (slot, is_set_up)
            }
            None => {
                let top = self.trees.join(name());
                (Slot::make(&self.checkout.git, &self.common_dir, &top, commit)?, false)
            }
        };
        match self.provide(&mut slot, commit, is_set_up) {
            Ok(()) => Ok(slot),
            Err(error) => {
                // The next one begins anew; the first error is the one to tell.
                let _ = slot.remove();
                Err(error)
            }
        }
    }

    fn provide(&self, slot: &mut Slot, commit: &str, is_set_up: bool) -> Result<(), GroundError> {
        let layout = &self.checkout.layout;
        let root = layout.root_in(&slot.top);
        fs::create_dir_all(&root).map_err(GroundError::io("make the folder", &root))?;
        slot.besides = Besides { shared: self.provision.link(layout, &slot.top)?, litter: Vec::new() };
        if self.provision.setup.is_some() && !is_set_up {
            self.provision.set_up(&root)?;
            slot.besides.litter = slot.take(commit, layout)?.differences;
        }
        Ok(())
    }

    pub fn changed(&self, lent: &Lent) -> Result<Vec<String>, GroundError> {
        let Loan::Tree { slot, base, .. } = &lent.loan else { return Ok(Vec::new()) };
        let layout = &self.checkout.layout;
        let taken = slot.take(base, layout)?;
        let paths = taken.differences.iter().map(|one| one.path.as_slice());
        let mut paths = layout.all_seen(paths.chain(taken.nested.iter().map(Vec::as_slice)));
        paths.sort();
        Ok(paths)
    }

    pub fn give_back(&self, lent: Lent, end: End) -> Result<Option<String>, GroundError> {
        let Loan::Tree { slot, base, ending } = lent.loan else { return Ok(None) };
        let reason = match end {
            End::Landed => {
                self.put_away(&lent.work, *slot, Ignored::Stay)?;
                return Ok(None);
            }
            End::Failed { reason } | End::Discarded { reason } => reason,
        };
        let kept = slot.take(&base, &self.checkout.layout).and_then(|taken| {
            if taken.differences.is_empty() {
                return Ok(None);
            }
            Ok(Some(keep(&self.checkout.git, &self.loop_id, &lent.work, &taken.tree, &base, &reason)?))
        });
        // A worker that came to its end and only did not land left whole files.
        let ignored = match ending {
            Ending::Own => Ignored::Stay,
            Ending::Unknown => Ignored::Go,
        };
        self.put_away(&lent.work, *slot, ignored)?;
        kept
    }

    fn put_away(&self, work: &Work, slot: Slot, ignored: Ignored) -> Result<(), GroundError> {
        match self.loans {
            Loans::OfTheRun => locked(&self.slots).free.push((slot, ignored)),
            Loans::OfTheWork => {
                slot.remove()?;
                note::remove(&self.kept_loan(work))?;
            }
        }
        Ok(())
    }

    pub fn found(&self, in_progress: &[(AtomId, u32)]) -> Result<Vec<FoundCommit>, GroundError> {
        let found = found(&self.checkout.git, &self.reference, &self.loop_id, in_progress)?;
        Ok(found.into_iter().map(|one| one.seen(&self.checkout.layout)).collect())
    }

    pub fn verify_root(&self) -> Result<PathBuf, GroundError> {
        if self.is_checked_out()? {
            return Ok(self.provision.root.clone());
        }
        let mut verifying = locked(&self.verifying);
        let at_hand = verifying.take().map(|slot| (slot, Ignored::Stay));
        let slot = self.ready(at_hand, &self.tip()?, || "verify".to_owned())?;
        let root = self.checkout.layout.root_in(&slot.top);
        *verifying = Some(slot);
        Ok(root)
    }

    pub fn uncommitted(&self) -> Result<Vec<String>, GroundError> {
        if !self.is_checked_out()? {
            return Ok(Vec::new());
        }
        let paths = self.checkout.uncommitted()?;
        Ok(self.checkout.layout.all_seen(paths.iter().map(Vec::as_slice)))
    }

    fn is_checked_out(&self) -> Result<bool, GroundError> {
        Ok(self.follows == Follows::Checkout && self.checkout.branch()?.as_ref() == Some(&self.reference))
    }

    pub fn close(&self) -> Result<(), GroundError> {
        match self.loans {
            Loans::OfTheRun => slots::clear(&self.common_dir, &self.trees),
            Loans::OfTheWork => slots::clear_lent(&self.common_dir, &self.trees, &self.kept_loans),
        }
    }
}

/// Ids of atoms are words that can stand in a path.
fn name_of(work: &Work) -> String {
    tree_of(&work.atom, work.attempt)
}

/// A thread that panicked while it held it left nothing half-done.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
