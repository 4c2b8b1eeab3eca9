//! Lands work on the branch and reverts it: merge, check again, move the user's checkout, compare and swap. A reference
//! names the commit meanwhile, so that the next run can finish or undo what a killed one had begun. It is in the repository
//! and not among aot's own files: those may be deleted between two runs.

use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aot_core::state::AtomId;

use super::checkout::FollowOutcome;
use super::error::{GroundError, named};
use super::git::{GitError, LOCK_PATIENCE, records, text};
use super::history::{
    Difference, MergeOutcome, commit, commit_of, differences, is_reverted, one_line, three_way, tree_of,
    work_of,
};
use super::kept::keep;
use super::refs;
use super::snapshot::carry_submodules;
use super::worktrees::{CheckoutPolicy, Worktrees, locked};
use super::{CommitMessage, Landing, Lent, Loan, OnWait, Recheck, Reverted, Waiting};

/// The pause before a blocked landing is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// A landing moves the user's checkout from one commit to the next, and then the branch.
struct BegunLanding {
    reference: String,
    old: String,
    new: String,
}

/// The outcome of moving the branch by one commit.
enum BranchMove {
    Done,
    /// Another process moved the branch first; nothing has changed.
    Moved,
    GivenUp,
}

/// The outcome of one try.
pub(super) enum MoveAttempt {
    Done,
    Moved,
    Blocked(Waiting),
    /// Nothing has changed.
    Failed(GroundError),
}

impl MoveAttempt {
    /// A lock of another git is waited for.
    pub(super) fn refused(error: GroundError) -> Result<MoveAttempt, GroundError> {
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
        let Some((_, _, sealed)) = lent.loan.made() else { return Ok(nothing) };
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
        let (mut tree, mut between) = (sealed.tree.clone(), sealed.differences.clone());
        loop {
            let tip = self.tip()?;
            let Some((_, base, _)) = lent.loan.made() else { return Ok(nothing) };
            if tip != *base {
                // The check is run once more, and here.
                self.bring_here(lent)?;
                let Some((slot, base, sealed)) = lent.loan.made() else { return Ok(nothing) };
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
                slot.map_or(Ok(()), |slot| slot.show(&tree, &tip))?;
                base.clone_from(&tip);
                sealed.tree.clone_from(&tree);
                between = differences(git, &tip, &tree)?;
                let changed = layout.all_seen(between.iter().map(|one| one.path.as_slice()));
                if let Err(reason) = recheck(lent, &changed) {
                    return Ok(Landing::Conflict { reason });
                }
            }
            if tree == tree_of(git, &tip)? {
                return Ok(nothing);
            }
            let commit = commit(git, &tree, &[&tip], &message.text())?;
            match self.step(&tip, &commit, &between, &message.atom, on_wait)? {
                BranchMove::Done => {
                    carry_submodules(&tip, &commit, &between);
                    let paths = layout.all_seen(between.iter().map(|one| one.path.as_slice()));
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
            let between = differences(git, &tip, &commit)?;
            match self.step(&tip, &commit, &between, atom, on_wait)? {
                BranchMove::Done => return Ok(Reverted::Reverted { commit }),
                BranchMove::Moved => {}
                BranchMove::GivenUp => return Ok(Reverted::GivenUp),
            }
        }
    }

    /// Moves the branch by one commit, as soon as nothing is in the way.
    fn step(
        &self,
        old: &str,
        new: &str,
        between: &[Difference],
        atom: &AtomId,
        on_wait: OnWait<'_>,
    ) -> Result<BranchMove, GroundError> {
        loop {
            let why = format!("aot: {atom}");
            let tried = self.try_move((old, new), between, new, &why).or_else(MoveAttempt::refused)?;
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

    /// Moves the branch from one commit to another, which differs from it so, and the checkout with it. `noted` is a commit on the old one with the files
    /// of the new one: what a recovery finishes with, or takes back.
    pub(super) fn try_move(
        &self,
        (old, new): (&str, &str),
        between: &[Difference],
        noted: &str,
        why: &str,
    ) -> Result<MoveAttempt, GroundError> {
        let reference = &self.reference;
        // A landing of this run may have been neither finished nor undone, because its git was ended.
        self.recover()?;
        if self.tip()? != old {
            return Ok(MoveAttempt::Moved);
        }
        if let Some(reason) = self.held_elsewhere()? {
            return Ok(MoveAttempt::Blocked(Waiting { reason, paths: Vec::new() }));
        }
        if self.checkout_policy == CheckoutPolicy::LeaveAlone
            || self.checkout.branch()?.as_ref() != Some(reference)
        {
            let swapped = self.swap(old, new, why)?;
            return Ok(if swapped { MoveAttempt::Done } else { MoveAttempt::Moved });
        }
        let layout = &self.checkout.layout;
        let in_the_way = self.checkout.in_the_way(between)?;
        if !in_the_way.is_empty() {
            let paths = layout.all_seen(in_the_way.iter().map(Vec::as_slice));
            let reason = format!("uncommitted work is in the way: {}", named(&paths));
            return Ok(MoveAttempt::Blocked(Waiting { reason, paths }));
        }
        let record = self.record_of(reference);
        self.checkout.git.write(["update-ref", &record, noted])?;
        let moved = self.checkout.follow(old, new).and_then(|followed| match followed {
            FollowOutcome::Followed => self.swap(old, new, why).map(|swapped| match swapped {
                true => MoveAttempt::Done,
                false => MoveAttempt::Moved,
            }),
            FollowOutcome::Refused(message) => {
                Ok(MoveAttempt::Blocked(Waiting { reason: message, paths: Vec::new() }))
            }
        });
        // Whatever kept the branch from moving, the files in the checkout are taken back below.
        let tried = moved.or_else(MoveAttempt::refused).unwrap_or_else(MoveAttempt::Failed);
        if matches!(&tried, MoveAttempt::Failed(GroundError::Git(error)) if error.is_death()) {
            // It leaves its locks, and only now are they known for ours.
            let (old, new) = (old.to_owned(), noted.to_owned());
            self.wait_for_locks(&BegunLanding { reference: reference.clone(), old, new })?;
        }
        // The user may have committed or switched branches at this moment: the checkout follows its own HEAD.
        let is_with_us = self.checkout.branch()?.as_ref() == Some(reference);
        if !(matches!(tried, MoveAttempt::Done) && is_with_us)
            && let Some(head) = self.commit_of("HEAD")?
        {
            self.checkout.settle(old, new, &head)?;
        }
        self.checkout.git.write(["update-ref", "-d", &record])?;
        Ok(tried)
    }

    /// The reference that names the commit while it lands on this branch.
    fn record_of(&self, reference: &str) -> String {
        format!("{}/{}", self.landings, reference.strip_prefix("refs/").unwrap_or(reference))
    }

    /// The landing that has begun and not ended.
    fn begun(&self) -> Result<Option<BegunLanding>, GroundError> {
        if refs::are_none_below(&self.common_dir, &self.landings) {
            return Ok(None);
        }
        let git = &self.checkout.git;
        let listed = git.read(["for-each-ref", "--format=%(refname) %(objectname)", &self.landings])?;
        let listed = text(&listed);
        let Some((name, new)) = listed.lines().next().and_then(|line| line.rsplit_once(' ')) else {
            return Ok(None);
        };
        let branch = name.strip_prefix(&self.landings).unwrap_or(name);
        let (reference, new) = (format!("refs{branch}"), new.to_owned());
        match commit_of(git, &format!("{new}^"))? {
            Some(old) => Ok(Some(BegunLanding { reference, old, new })),
            None => {
                // No landing of ours: each has a commit before it.
                git.write(["update-ref", "-d", name])?;
                Ok(None)
            }
        }
    }

    /// Moves the branch if it still is at the old commit, and says whether it did.
    fn swap(&self, old: &str, new: &str, why: &str) -> Result<bool, GroundError> {
        let swapped = self.checkout.git.write(["update-ref", "-m", why, &self.reference, new, old]);
        match swapped {
            Ok(_) => Ok(true),
            Err(error) => match self.tip()? == old {
                true => Err(error.into()),
                false => Ok(false),
            },
        }
    }

    /// Why the branch must not move now: a rebase, or another worktree that has it checked out.
    pub(super) fn held_elsewhere(&self) -> Result<Option<String>, GroundError> {
        if self.checkout.is_rebasing(&self.reference) {
            return Ok(Some(format!("the branch `{}` is being rebased", self.branch())));
        }
        let own = (self.checkout_policy == CheckoutPolicy::Follow).then_some(self.checkout.git_dir.as_path());
        if refs::is_in_no_tree(&self.common_dir, &self.reference, own) {
            return Ok(None);
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
        // Taking the record of a landing away locks all references; a git that dies then leaves no record, only the lock.
        let packed = self.common_dir.join("packed-refs.lock");
        if packed.exists()
            && let Some(tip) = self.commit_of("HEAD")?
        {
            self.wait_for_lock(&packed, &tip)?;
        }
        let Some(begun) = self.begun()? else { return Ok(()) };
        self.wait_for_locks(&begun)?;
        let (git, BegunLanding { reference, old, new }) = (&self.checkout.git, &begun);
        let is_here = self.checkout.branch()?.as_ref() == Some(reference);
        let tip = self.commit_of(reference)?;
        let between = differences(git, old, new)?;
        let mut has_landed = tip.as_ref() == Some(new);
        if is_here && tip.as_ref() == Some(old) && self.checkout.has_arrived(&between)? {
            git.write(["update-ref", "-m", "aot: a landing that was interrupted", reference, new, old])?;
            has_landed = true;
        }
        if let Some(head) = self.commit_of("HEAD")? {
            self.checkout.settle(old, new, &head)?;
        }
        if !has_landed && let Some((loop_id, work)) = work_of(git, new)? {
            keep(git, &loop_id, &work, &tree_of(git, new)?, old, "its landing was interrupted")?;
        }
        git.write(["update-ref", "-d", &self.record_of(reference)])?;
        Ok(())
    }

    /// Waits for git children that outlive a killed run; a git that was killed itself leaves its lock.
    fn wait_for_locks(&self, begun: &BegunLanding) -> Result<(), GroundError> {
        let own = self.checkout.git_dir.join("index.lock");
        let reference = self.common_dir.join(format!("{}.lock", begun.reference));
        for lock in [own, self.checkout.git_dir.join("HEAD.lock"), reference] {
            self.wait_for_lock(&lock, &begun.new)?;
        }
        Ok(())
    }

    fn wait_for_lock(&self, lock: &Path, commit: &str) -> Result<(), GroundError> {
        let began = Instant::now();
        while lock.exists() {
            let interrupted = self.checkout.git.guard().interrupt().is_asked();
            if began.elapsed() > LOCK_PATIENCE || interrupted {
                if interrupted || !self.is_stale(lock, commit)? {
                    return Err(GroundError::StillLocked { lock: lock.to_path_buf() });
                }
                fs::remove_file(lock).map_err(GroundError::io("remove", lock))?;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// A lock younger than the commit that was to land or has landed, while no git runs in the repository, was ours, and its holder is
    /// dead.
    fn is_stale(&self, lock: &Path, commit: &str) -> Result<bool, GroundError> {
        let made = self.checkout.git.read_line(["show", "-s", "--format=%ct", commit])?;
        let (Ok(locked), Ok(made)) = (fs::metadata(lock).map(|meta| meta.mtime()), made.parse::<i64>())
        else {
            return Ok(false);
        };
        let top = &self.checkout.layout.top;
        let is_git_here = |process: PathBuf| {
            let is_git = fs::read_to_string(process.join("comm")).is_ok_and(|name| name.starts_with("git"));
            is_git && fs::read_link(process.join("cwd")).is_ok_and(|folder| folder.starts_with(top))
        };
        let Ok(processes) = fs::read_dir("/proc") else { return Ok(false) };
        Ok(locked >= made && !processes.flatten().any(|entry| is_git_here(entry.path())))
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
