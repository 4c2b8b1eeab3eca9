//! How work comes onto the branch, and back off it: merge, check again, let the user's checkout follow, compare and
//! swap. A note lies beside it all the while, so that a run that dies in between leaves nothing half-done.

use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aot_core::state::AtomId;

use super::checkout::Followed;
use super::error::{GroundError, named};
use super::git::{GitError, LOCK_PATIENCE, records};
use super::history::{Merged, commit, commit_of, differences, is_reverted, one_line, three_way, tree_of};
use super::kept::keep;
use super::note::{self, Intended};
use super::worktrees::{Follows, Worktrees, locked};
use super::{Ending, Landing, Lent, Loan, Message, OnWait, Recheck, Reverted, Waiting, Work};

/// How often it is looked whether what was in the way is gone.
const PAUSE: Duration = Duration::from_millis(200);

/// What became of a step of the branch.
enum Step {
    Done,
    /// Somebody else moved the branch: all is as if nothing had been tried.
    Moved,
    GivenUp,
}

/// One try.
enum Tried {
    Done,
    Moved,
    Blocked(Waiting),
}

impl Worktrees {
    pub fn land(
        &self,
        lent: &mut Lent,
        message: &Message,
        recheck: Recheck<'_>,
        on_wait: OnWait<'_>,
    ) -> Result<Landing, GroundError> {
        let _turn = locked(&self.landing);
        let (git, layout) = (&self.checkout.git, &self.checkout.layout);
        let nothing = Landing::Landed { commit: None, paths: Vec::new() };
        let Loan::Tree { slot, base, ending } = &mut lent.loan else { return Ok(nothing) };
        *ending = Ending::Own;
        let taken = slot.take(base, layout)?;
        if !taken.nested.is_empty() {
            let paths = layout.all_seen(taken.nested.iter().map(Vec::as_slice));
            let reason = format!(
                "a commit cannot hold repositories within the repository: {}; remove their `.git`, or ignore them",
                named(&paths)
            );
            return Ok(Landing::Conflict { reason });
        }
        if taken.differences.is_empty() {
            return Ok(nothing);
        }
        let mut tree = taken.tree;
        loop {
            let tip = self.tip()?;
            let Loan::Tree { slot, base, .. } = &mut lent.loan else { return Ok(nothing) };
            if tip != *base {
                let merged = three_way(git, &tree_of(git, base)?, &tree_of(git, &tip)?, &tree)?;
                tree = match merged {
                    Merged::Clean(tree) => tree,
                    Merged::Conflicts(paths) => {
                        let paths = layout.all_seen(paths.iter().map(Vec::as_slice));
                        let reason =
                            format!("it does not merge with what landed meanwhile, in {}", named(&paths));
                        return Ok(Landing::Conflict { reason });
                    }
                };
                slot.show(&tree, &tip)?;
                base.clone_from(&tip);
                if let Err(reason) = recheck(lent) {
                    return Ok(Landing::Conflict { reason });
                }
            }
            if tree == tree_of(git, &tip)? {
                return Ok(nothing);
            }
            let commit = commit(git, &tree, &[&tip], &message.text())?;
            let intended = Intended {
                reference: self.reference.clone(),
                old: tip.clone(),
                new: commit.clone(),
                loop_id: message.loop_id.clone(),
                atom: message.atom.to_string(),
                attempt: message.attempt,
            };
            match self.step(&intended, on_wait)? {
                Step::Done => {
                    let paths = differences(git, &tip, &commit)?;
                    let paths = layout.all_seen(paths.iter().map(|one| one.path.as_slice()));
                    return Ok(Landing::Landed { commit: Some(commit), paths });
                }
                Step::Moved => {}
                Step::GivenUp => return Ok(Landing::GivenUp),
            }
        }
    }

    pub fn revert(&self, atom: &AtomId, landed: &str, on_wait: OnWait<'_>) -> Result<Reverted, GroundError> {
        let _turn = locked(&self.landing);
        let (git, layout) = (&self.checkout.git, &self.checkout.layout);
        let Some(landed) = commit_of(git, landed)? else { return Ok(Reverted::NotThere) };
        loop {
            let tip = self.tip()?;
            let is_there = git.ask(["merge-base", "--is-ancestor", &landed, &tip])?.code == 0;
            let parent = commit_of(git, &format!("{landed}^"))?;
            let (true, Some(parent)) = (is_there, parent) else { return Ok(Reverted::NotThere) };
            if is_reverted(git, &tip, &landed)? {
                return Ok(Reverted::NotThere);
            }
            let tip_tree = tree_of(git, &tip)?;
            let tree = match three_way(git, &tree_of(git, &landed)?, &tip_tree, &tree_of(git, &parent)?)? {
                Merged::Clean(tree) if tree == tip_tree => return Ok(Reverted::NotThere),
                Merged::Clean(tree) => tree,
                Merged::Conflicts(paths) => {
                    let paths = layout.all_seen(paths.iter().map(Vec::as_slice));
                    return Ok(Reverted::NotClean { paths });
                }
            };
            let message = revert_message(
                &git.line(["show", "-s", "--format=%s", &landed])?,
                &landed,
                &self.loop_id,
                atom,
            );
            let commit = commit(git, &tree, &[&tip], &message)?;
            let intended = Intended {
                reference: self.reference.clone(),
                old: tip,
                new: commit.clone(),
                loop_id: self.loop_id.clone(),
                atom: atom.to_string(),
                attempt: 0,
            };
            match self.step(&intended, on_wait)? {
                Step::Done => return Ok(Reverted::Reverted { commit }),
                Step::Moved => {}
                Step::GivenUp => return Ok(Reverted::GivenUp),
            }
        }
    }

    /// Moves the branch by one commit, as soon as nothing is in the way.
    fn step(&self, intended: &Intended, on_wait: OnWait<'_>) -> Result<Step, GroundError> {
        loop {
            let tried = match self.try_step(intended) {
                Err(GroundError::Git(GitError::Locked { words })) => {
                    Tried::Blocked(Waiting { reason: words, paths: Vec::new() })
                }
                other => other?,
            };
            match tried {
                Tried::Done => return Ok(Step::Done),
                Tried::Moved => return Ok(Step::Moved),
                Tried::Blocked(waiting) => match on_wait(&waiting) {
                    ControlFlow::Continue(()) => std::thread::sleep(PAUSE),
                    ControlFlow::Break(()) => return Ok(Step::GivenUp),
                },
            }
        }
    }

    fn try_step(&self, intended: &Intended) -> Result<Tried, GroundError> {
        let Intended { reference, old, new, .. } = intended;
        if self.tip()? != *old {
            return Ok(Tried::Moved);
        }
        if let Some(reason) = self.held_elsewhere()? {
            return Ok(Tried::Blocked(Waiting { reason, paths: Vec::new() }));
        }
        if self.follows == Follows::Nobody || self.checkout.branch()?.as_ref() != Some(reference) {
            return Ok(if self.swap(intended)? { Tried::Done } else { Tried::Moved });
        }
        let layout = &self.checkout.layout;
        let in_the_way = self.checkout.in_the_way(&differences(&self.checkout.git, old, new)?)?;
        if !in_the_way.is_empty() {
            let paths = layout.all_seen(in_the_way.iter().map(Vec::as_slice));
            let reason = format!("uncommitted work is in the way: {}", named(&paths));
            return Ok(Tried::Blocked(Waiting { reason, paths }));
        }
        note::write(&self.note, intended)?;
        let tried = match self.checkout.follow(old, new) {
            Ok(Followed::Yes) => match self.swap(intended)? {
                true => Tried::Done,
                false => Tried::Moved,
            },
            Ok(Followed::No(words)) => Tried::Blocked(Waiting { reason: words, paths: Vec::new() }),
            Err(GroundError::Git(GitError::Locked { words })) => {
                Tried::Blocked(Waiting { reason: words, paths: Vec::new() })
            }
            Err(error) => return Err(error),
        };
        // Somebody committed, or went to another branch, at this very moment: the checkout belongs to where it is now.
        let is_with_us = self.checkout.branch()?.as_ref() == Some(reference);
        if !(matches!(tried, Tried::Done) && is_with_us)
            && let Some(head) = commit_of(&self.checkout.git, "HEAD")?
        {
            self.checkout.settle(old, new, &head)?;
        }
        note::remove(&self.note)?;
        Ok(tried)
    }

    /// Whether the branch was where it was thought to be, and moved.
    fn swap(&self, intended: &Intended) -> Result<bool, GroundError> {
        let Intended { reference, old, new, atom, .. } = intended;
        let why = format!("aot: {atom}");
        let swapped = self.checkout.git.change(["update-ref", "-m", &why, reference, new, old]);
        match swapped {
            Ok(_) => Ok(true),
            Err(error) => match self.tip()? == *old {
                true => Err(error.into()),
                false => Ok(false),
            },
        }
    }

    /// Why the branch must not move under somebody's feet, other than the project's own checkout.
    fn held_elsewhere(&self) -> Result<Option<String>, GroundError> {
        if self.checkout.is_rebasing(&self.reference) {
            return Ok(Some(format!("the branch `{}` is being rebased", self.branch())));
        }
        let own = &self.checkout.layout.top;
        let others = checked_out(&self.checkout.git.look(["worktree", "list", "--porcelain", "-z"])?);
        Ok(others
            .get(&self.reference)
            .filter(|at| self.follows == Follows::Nobody || *at != own)
            .map(|at| format!("the branch `{}` is checked out in {}", self.branch(), at.display())))
    }

    /// Finishes or undoes the landing that a run left when it died.
    pub fn recover(&self) -> Result<(), GroundError> {
        let Some(intended) = note::read::<Intended>(&self.note) else { return note::remove(&self.note) };
        self.wait_for_locks(&intended)?;
        let (git, Intended { reference, old, new, .. }) = (&self.checkout.git, &intended);
        let is_here = self.checkout.branch()?.as_ref() == Some(reference);
        let tip = commit_of(git, reference)?;
        let between = differences(git, old, new)?;
        let mut has_landed = tip.as_ref() == Some(new);
        if is_here && tip.as_ref() == Some(old) && self.checkout.has_arrived(&between)? {
            let why = format!("aot: {}", intended.atom);
            git.change(["update-ref", "-m", &why, reference, new, old])?;
            has_landed = true;
        }
        if let Some(head) = commit_of(git, "HEAD")? {
            self.checkout.settle(old, new, &head)?;
        }
        if !has_landed && intended.attempt > 0 {
            let work = Work { atom: AtomId::new(&intended.atom), attempt: intended.attempt };
            keep(git, &intended.loop_id, &work, &tree_of(git, new)?, old, "its landing was interrupted")?;
        }
        note::remove(&self.note)
    }

    /// Git children of a run that was killed live on for a moment; one that was killed itself leaves its lock.
    fn wait_for_locks(&self, intended: &Intended) -> Result<(), GroundError> {
        let own = self.checkout.git_dir.join("index.lock");
        let reference = self.common_dir.join(format!("{}.lock", intended.reference));
        for lock in [own, self.checkout.git_dir.join("HEAD.lock"), reference] {
            let began = Instant::now();
            while lock.exists() {
                if began.elapsed() > LOCK_PATIENCE {
                    if !self.is_stale(&lock) {
                        return Err(GroundError::StillLocked { lock });
                    }
                    fs::remove_file(&lock).map_err(GroundError::io("remove", &lock))?;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Younger than the note, and no git runs in the repository: it was our own, and its holder is dead.
    fn is_stale(&self, lock: &Path) -> bool {
        let time = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
        let (Some(locked), Some(noted)) = (time(lock), time(&self.note)) else { return false };
        let top = &self.checkout.layout.top;
        let is_git_here = |process: PathBuf| {
            let is_git = fs::read_to_string(process.join("comm")).is_ok_and(|name| name.starts_with("git"));
            is_git && fs::read_link(process.join("cwd")).is_ok_and(|folder| folder.starts_with(top))
        };
        let Ok(processes) = fs::read_dir("/proc") else { return false };
        locked >= noted && !processes.flatten().any(|entry| is_git_here(entry.path()))
    }
}

/// Which branch is checked out where, of `git worktree list --porcelain -z`.
pub(super) fn checked_out(list: &[u8]) -> HashMap<String, PathBuf> {
    let mut found = HashMap::new();
    let mut at = PathBuf::new();
    for line in records(list).map(|line| String::from_utf8_lossy(line).into_owned()) {
        if let Some(path) = line.strip_prefix("worktree ") {
            at = PathBuf::from(path);
        } else if let Some(reference) = line.strip_prefix("branch ") {
            found.insert(reference.to_owned(), at.clone());
        }
    }
    found
}

/// In the words of `git revert`, so that its readers know it; and without an attempt, so that it is nobody's work.
pub(super) fn revert_message(subject: &str, commit: &str, loop_id: &str, atom: &AtomId) -> String {
    format!(
        "Revert \"{}\"\n\nThis reverts commit {commit}.\n\nAot-Loop: {loop_id}\nAot-Atom: {atom}\n",
        one_line(subject)
    )
}
