//! Lands work on the branch and reverts it: merge, check again, move the user's checkout, compare and swap. An intent is
//! on disk meanwhile, so that the next run can finish or undo what a killed one had begun.

use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aot_core::state::AtomId;

use super::checkout::FollowOutcome;
use super::error::{GroundError, named};
use super::git::{GitError, LOCK_PATIENCE, records};
use super::history::{
    MergeOutcome, commit, commit_of, differences, is_reverted, one_line, three_way, tree_of,
};
use super::intents::{self, LandingIntent};
use super::kept::keep;
use super::worktrees::{CheckoutPolicy, Worktrees, locked};
use super::{CommitMessage, Landing, Lent, Loan, OnWait, Recheck, Reverted, Waiting, Work};

/// The pause before a blocked landing is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// The outcome of moving the branch by one commit.
enum BranchMove {
    Done,
    /// Another process moved the branch first; nothing has changed.
    Moved,
    GivenUp,
}

/// The outcome of one try.
enum MoveAttempt {
    Done,
    Moved,
    Blocked(Waiting),
    /// Nothing has changed.
    Failed(GroundError),
}

impl MoveAttempt {
    /// A lock of another git is waited for.
    fn refused(error: GroundError) -> Result<MoveAttempt, GroundError> {
        match error {
            GroundError::Git(GitError::Locked { message }) => {
                Ok(MoveAttempt::Blocked(Waiting { reason: message, paths: Vec::new() }))
            }
            error => Err(error),
        }
    }
}

impl Worktrees {
    pub fn land(
        &self,
        lent: &mut Lent,
        message: &CommitMessage,
        recheck: Recheck<'_>,
        on_wait: OnWait<'_>,
    ) -> Result<Landing, GroundError> {
        let _turn = locked(&self.landing);
        let (git, layout) = (&self.checkout.git, &self.checkout.layout);
        let nothing = Landing::Landed { commit: None, paths: Vec::new() };
        if matches!(&lent.loan, Loan::Tree { sealed: None, .. }) {
            // What it tells is asked of the snapshot below.
            let _ = self.seal(lent)?;
        }
        let Loan::Tree { sealed: Some(sealed), .. } = &lent.loan else { return Ok(nothing) };
        if let Some(reason) = sealed.cannot_land(layout) {
            return Ok(Landing::Conflict { reason });
        }
        if sealed.differences.is_empty() {
            return Ok(nothing);
        }
        if let Some(path) = sealed.differences.iter().find(|one| layout.holds_ours(&one.path)) {
            // It would wait for ever for this path to be free.
            let path = layout.seen(&path.path);
            let reason = format!("`{path}` is the folder of the loop's own files, and stays a folder");
            return Ok(Landing::Conflict { reason });
        }
        let mut tree = sealed.tree.clone();
        loop {
            let tip = self.tip()?;
            let Loan::Tree { slot, base, sealed: Some(sealed) } = &mut lent.loan else { return Ok(nothing) };
            if tip != *base {
                let merged = three_way(git, &tree_of(git, base)?, &tree_of(git, &tip)?, &tree)?;
                tree = match merged {
                    MergeOutcome::Clean(tree) => tree,
                    MergeOutcome::Conflicts(paths) => {
                        let paths = layout.all_seen(paths.iter().map(Vec::as_slice));
                        let reason =
                            format!("it does not merge with what landed meanwhile, in {}", named(&paths));
                        return Ok(Landing::Conflict { reason });
                    }
                };
                slot.show(&tree, &tip)?;
                base.clone_from(&tip);
                sealed.tree.clone_from(&tree);
                let changed = differences(git, &tip, &tree)?;
                let changed = layout.all_seen(changed.iter().map(|one| one.path.as_slice()));
                if let Err(reason) = recheck(lent, &changed) {
                    return Ok(Landing::Conflict { reason });
                }
            }
            if tree == tree_of(git, &tip)? {
                return Ok(nothing);
            }
            let commit = commit(git, &tree, &[&tip], &message.text())?;
            let intent = LandingIntent {
                reference: self.reference.clone(),
                old: tip.clone(),
                new: commit.clone(),
                loop_id: message.loop_id.clone(),
                atom: message.atom.to_string(),
                attempt: message.attempt,
            };
            match self.step(&intent, on_wait)? {
                BranchMove::Done => {
                    let paths = differences(git, &tip, &commit)?;
                    let paths = layout.all_seen(paths.iter().map(|one| one.path.as_slice()));
                    return Ok(Landing::Landed { commit: Some(commit), paths });
                }
                BranchMove::Moved => {}
                BranchMove::GivenUp => return Ok(Landing::GivenUp),
            }
        }
    }

    pub fn revert(&self, atom: &AtomId, landed: &str, on_wait: OnWait<'_>) -> Result<Reverted, GroundError> {
        let _turn = locked(&self.landing);
        let (git, layout) = (&self.checkout.git, &self.checkout.layout);
        let Some(landed) = commit_of(git, landed)? else { return Ok(Reverted::NotThere) };
        loop {
            let tip = self.tip()?;
            let is_there = git.find(["merge-base", "--is-ancestor", &landed, &tip])?.is_some();
            let parent = commit_of(git, &format!("{landed}^"))?;
            let (true, Some(parent)) = (is_there, parent) else { return Ok(Reverted::NotThere) };
            if is_reverted(git, &tip, &landed)? {
                return Ok(Reverted::NotThere);
            }
            let tip_tree = tree_of(git, &tip)?;
            let tree = match three_way(git, &tree_of(git, &landed)?, &tip_tree, &tree_of(git, &parent)?)? {
                MergeOutcome::Clean(tree) if tree == tip_tree => return Ok(Reverted::NotThere),
                MergeOutcome::Clean(tree) => tree,
                MergeOutcome::Conflicts(paths) => {
                    let paths = layout.all_seen(paths.iter().map(Vec::as_slice));
                    return Ok(Reverted::NotClean { paths });
                }
            };
            let message = revert_message(
                &git.read_line(["show", "-s", "--format=%s", &landed])?,
                &landed,
                &self.loop_id,
                atom,
            );
            let commit = commit(git, &tree, &[&tip], &message)?;
            let intent = LandingIntent {
                reference: self.reference.clone(),
                old: tip,
                new: commit.clone(),
                loop_id: self.loop_id.clone(),
                atom: atom.to_string(),
                attempt: 0,
            };
            match self.step(&intent, on_wait)? {
                BranchMove::Done => return Ok(Reverted::Reverted { commit }),
                BranchMove::Moved => {}
                BranchMove::GivenUp => return Ok(Reverted::GivenUp),
            }
        }
    }

    /// Moves the branch by one commit, as soon as nothing is in the way.
    fn step(&self, intent: &LandingIntent, on_wait: OnWait<'_>) -> Result<BranchMove, GroundError> {
        loop {
            let tried = self.try_step(intent).or_else(MoveAttempt::refused)?;
            match tried {
                MoveAttempt::Done => return Ok(BranchMove::Done),
                MoveAttempt::Moved => return Ok(BranchMove::Moved),
                MoveAttempt::Failed(error) => return Err(error),
                MoveAttempt::Blocked(waiting) => match on_wait(&waiting) {
                    ControlFlow::Continue(()) => std::thread::sleep(PAUSE),
                    ControlFlow::Break(()) => return Ok(BranchMove::GivenUp),
                },
            }
        }
    }

    fn try_step(&self, intent: &LandingIntent) -> Result<MoveAttempt, GroundError> {
        let LandingIntent { reference, old, new, .. } = intent;
        if self.note.exists() {
            // A landing of this run could neither be finished nor undone: its git was ended.
            self.recover()?;
        }
        if self.tip()? != *old {
            return Ok(MoveAttempt::Moved);
        }
        if let Some(reason) = self.held_elsewhere()? {
            return Ok(MoveAttempt::Blocked(Waiting { reason, paths: Vec::new() }));
        }
        if self.checkout_policy == CheckoutPolicy::LeaveAlone
            || self.checkout.branch()?.as_ref() != Some(reference)
        {
            return Ok(if self.swap(intent)? { MoveAttempt::Done } else { MoveAttempt::Moved });
        }
        let layout = &self.checkout.layout;
        let in_the_way = self.checkout.in_the_way(&differences(&self.checkout.git, old, new)?)?;
        if !in_the_way.is_empty() {
            let paths = layout.all_seen(in_the_way.iter().map(Vec::as_slice));
            let reason = format!("uncommitted work is in the way: {}", named(&paths));
            return Ok(MoveAttempt::Blocked(Waiting { reason, paths }));
        }
        intents::write(&self.note, intent)?;
        let moved = self.checkout.follow(old, new).and_then(|followed| match followed {
            FollowOutcome::Followed => self.swap(intent).map(|swapped| match swapped {
                true => MoveAttempt::Done,
                false => MoveAttempt::Moved,
            }),
            FollowOutcome::Refused(message) => {
                Ok(MoveAttempt::Blocked(Waiting { reason: message, paths: Vec::new() }))
            }
        });
        // Whatever kept the branch from moving, the files in the checkout are taken back below.
        let tried = moved.or_else(MoveAttempt::refused).unwrap_or_else(MoveAttempt::Failed);
        // The user may have committed or switched branches at this moment: the checkout follows its own HEAD.
        let is_with_us = self.checkout.branch()?.as_ref() == Some(reference);
        if !(matches!(tried, MoveAttempt::Done) && is_with_us)
            && let Some(head) = commit_of(&self.checkout.git, "HEAD")?
        {
            self.checkout.settle(old, new, &head)?;
        }
        intents::remove(&self.note)?;
        Ok(tried)
    }

    /// Moves the branch if it still is at the old commit, and says whether it did.
    fn swap(&self, intent: &LandingIntent) -> Result<bool, GroundError> {
        let LandingIntent { reference, old, new, atom, .. } = intent;
        let why = format!("aot: {atom}");
        let swapped = self.checkout.git.write(["update-ref", "-m", &why, reference, new, old]);
        match swapped {
            Ok(_) => Ok(true),
            Err(error) => match self.tip()? == *old {
                true => Err(error.into()),
                false => Ok(false),
            },
        }
    }

    /// Why the branch must not move now: a rebase, or another worktree that has it checked out.
    fn held_elsewhere(&self) -> Result<Option<String>, GroundError> {
        if self.checkout.is_rebasing(&self.reference) {
            return Ok(Some(format!("the branch `{}` is being rebased", self.branch())));
        }
        let own = &self.checkout.layout.top;
        let others = checked_out(&self.checkout.git.read(["worktree", "list", "--porcelain", "-z"])?);
        Ok(others
            .get(&self.reference)
            .filter(|at| self.checkout_policy == CheckoutPolicy::LeaveAlone || *at != own)
            .map(|at| format!("the branch `{}` is checked out in {}", self.branch(), at.display())))
    }

    /// Finishes or undoes the landing that a run left when it died.
    pub fn recover(&self) -> Result<(), GroundError> {
        let Some(intent) = intents::read::<LandingIntent>(&self.note)? else {
            return intents::remove(&self.note);
        };
        self.wait_for_locks(&intent)?;
        let (git, LandingIntent { reference, old, new, .. }) = (&self.checkout.git, &intent);
        let is_here = self.checkout.branch()?.as_ref() == Some(reference);
        let tip = commit_of(git, reference)?;
        let between = differences(git, old, new)?;
        let mut has_landed = tip.as_ref() == Some(new);
        if is_here && tip.as_ref() == Some(old) && self.checkout.has_arrived(&between)? {
            let why = format!("aot: {}", intent.atom);
            git.write(["update-ref", "-m", &why, reference, new, old])?;
            has_landed = true;
        }
        if let Some(head) = commit_of(git, "HEAD")? {
            self.checkout.settle(old, new, &head)?;
        }
        if !has_landed && intent.attempt > 0 {
            let work = Work { atom: AtomId::new(&intent.atom), attempt: intent.attempt };
            keep(git, &intent.loop_id, &work, &tree_of(git, new)?, old, "its landing was interrupted")?;
        }
        intents::remove(&self.note)
    }

    /// Waits for git children that outlive a killed run; a git that was killed itself leaves its lock.
    fn wait_for_locks(&self, intent: &LandingIntent) -> Result<(), GroundError> {
        let own = self.checkout.git_dir.join("index.lock");
        let reference = self.common_dir.join(format!("{}.lock", intent.reference));
        for lock in [own, self.checkout.git_dir.join("HEAD.lock"), reference] {
            let began = Instant::now();
            while lock.exists() {
                let interrupted = self.checkout.git.guard().interrupt().is_asked();
                if began.elapsed() > LOCK_PATIENCE || interrupted {
                    if interrupted || !self.is_stale(&lock) {
                        return Err(GroundError::StillLocked { lock });
                    }
                    fs::remove_file(&lock).map_err(GroundError::io("remove", &lock))?;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// A lock younger than the intent while no git runs in the repository was ours, and its holder is dead.
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

/// Where each branch is checked out, from `git worktree list --porcelain -z`.
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

/// Worded as `git revert` does, for tools that read it. It names no attempt, so that it is never taken for one's work.
pub(super) fn revert_message(subject: &str, commit: &str, loop_id: &str, atom: &AtomId) -> String {
    format!(
        "Revert \"{}\"\n\nThis reverts commit {commit}.\n\nAot-Loop: {loop_id}\nAot-Atom: {atom}\n",
        one_line(subject)
    )
}
