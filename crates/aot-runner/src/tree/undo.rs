//! Takes back all that a loop has landed on a branch: by a revert commit for each of its commits or, where the branch was made
//! for the loop and has nothing else on it, by moving it back. All or nothing: what cannot be taken back is found before
//! anything moves, and the branch moves once. Asks nobody.

use aot_core::state::AtomId;
use serde::Serialize;

use super::error::{GroundError, named};
use super::git::{Git, text};
use super::history::{
    LoopCommit, MergeOutcome, commit, commit_of, differences, standing, three_way, tree_of,
};
use super::landing::{MoveAttempt, revert_message};
use super::open;
use super::shadow::Shadow;
use super::snapshot::Layout;
use super::worktrees::{CheckoutPolicy, Worktrees};
use super::{IsolationRequest, Project};
use crate::process::Guard;

/// What is going to be taken back, worked out and not yet done.
#[derive(Debug)]
#[must_use]
pub struct Undo {
    ground: UndoGround,
    plan: UndoPlan,
    /// Where the branch is, and where it goes.
    tip: String,
    target: String,
}

/// Where the loop has worked.
#[derive(Debug)]
pub(super) enum UndoGround {
    Branch(Box<Worktrees>),
    InPlace(Box<Shadow>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UndoPlan {
    /// Absent in place.
    pub branch: Option<String>,
    /// The newest first.
    pub commits: Vec<UndoneCommit>,
    pub way: UndoWay,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UndoneCommit {
    pub commit: String,
    pub atom: AtomId,
    pub subject: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoWay {
    /// A commit on top for each of them: others may have the branch, or there is more on it.
    Revert,
    /// The branch goes back to where the loop began it.
    Reset,
    /// The files of the project, where there is no branch.
    InPlace,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Undone {
    /// The tip of the branch before, for whoever wants it back.
    pub before: String,
    pub now: String,
}

impl Undo {
    /// Finds the commits of the loop on this branch; without a name on the one that is checked out, or else on the one that the
    /// loop lands on. `recorded` are the commits that the loop's state knows. No driver may be at work.
    pub fn open(
        project: &Project,
        wanted: IsolationRequest,
        branch: Option<&str>,
        recorded: &[String],
        guard: &Guard,
    ) -> Result<Undo, GroundError> {
        let own = wanted.branch.as_deref().map(reference_of);
        let mut trees = match open::for_undo(project, wanted, guard)? {
            UndoGround::Branch(trees) => trees,
            UndoGround::InPlace(shadow) => return Undo::in_place(shadow, branch),
        };
        let here = trees.checkout.branch()?;
        let candidates: Vec<String> = match branch {
            Some(name) => vec![reference_of(name)],
            None => here.iter().chain(&own).cloned().collect(),
        };
        let Some((reference, commits)) = trees.landed_on(&candidates)? else {
            let branches = candidates.iter().map(|one| short(one).to_owned()).collect();
            return Err(GroundError::NothingLanded { branches });
        };
        if here.as_ref() == Some(&reference) {
            open::check_operations(&trees.checkout)?;
        } else {
            trees.checkout_policy = CheckoutPolicy::LeaveAlone;
        }
        let is_own = own.as_ref() == Some(&reference);
        trees.reference = reference;
        let tip = trees.tip()?;
        let start = if is_own { trees.start_of(&commits, recorded)? } else { None };
        let (way, target) = match start {
            Some(start) => (UndoWay::Reset, start),
            None => (UndoWay::Revert, trees.reverting(&tip, &commits)?),
        };
        let branch = trees.branch().to_owned();
        if target == tip {
            return Err(GroundError::NothingLanded { branches: vec![branch] });
        }
        check_way(&trees, &tip, &target)?;
        let plan = UndoPlan { branch: Some(branch), commits: commits.iter().map(told).collect(), way };
        Ok(Undo { ground: UndoGround::Branch(trees), plan, tip, target })
    }

    /// The same where the loop worked in the project's own folder.
    fn in_place(shadow: Box<Shadow>, branch: Option<&str>) -> Result<Undo, GroundError> {
        if let Some(name) = branch {
            return Err(GroundError::NothingLanded { branches: vec![name.to_owned()] });
        }
        let Undoing { commits, tip, target } = shadow.undoing()?;
        let commits = commits.iter().map(told).collect();
        let plan = UndoPlan { branch: None, commits, way: UndoWay::InPlace };
        Ok(Undo { ground: UndoGround::InPlace(shadow), plan, tip, target })
    }

    pub fn plan(&self) -> &UndoPlan {
        &self.plan
    }

    /// Moves the branch, and the checkout if it shows the branch.
    pub fn perform(self) -> Result<Undone, GroundError> {
        let Undo { ground, plan, tip, target } = self;
        let trees = match ground {
            UndoGround::Branch(trees) => trees,
            UndoGround::InPlace(shadow) => {
                shadow.undo(&tip, &target)?;
                return Ok(Undone { before: tip, now: target });
            }
        };
        let git = &trees.checkout.git;
        // While the checkout moves, a commit on the tip stands for the whole: if this process dies, the next run finishes with
        // it, or takes it back.
        let reverts: String =
            plan.commits.iter().map(|one| format!("This reverts commit {}.\n", one.commit)).collect();
        let message = format!("Undo the loop\n\n{reverts}\nAot-Loop: {}\n", trees.loop_id);
        let noted = commit(git, &tree_of(git, &target)?, &[&tip], &message)?;
        let between = differences(git, &tip, &target)?;
        match trees.try_move((&tip, &target), &between, &noted, "aot: undo").or_else(MoveAttempt::refused)? {
            MoveAttempt::Done => Ok(Undone { before: tip, now: target }),
            MoveAttempt::Moved => Err(GroundError::NotUndone {
                reason: format!("the branch `{}` has moved meanwhile", trees.branch()),
            }),
            MoveAttempt::Blocked(waiting) => Err(GroundError::NotUndone { reason: waiting.reason }),
            MoveAttempt::Failed(error) => Err(error),
        }
    }
}

/// Refuses before anybody is asked what could not be done afterwards.
fn check_way(trees: &Worktrees, tip: &str, target: &str) -> Result<(), GroundError> {
    if let Some(reason) = trees.held_elsewhere()? {
        return Err(GroundError::NotUndone { reason });
    }
    if trees.checkout_policy == CheckoutPolicy::LeaveAlone {
        return Ok(());
    }
    let changes = differences(&trees.checkout.git, tip, target)?;
    let in_the_way = trees.checkout.in_the_way(&changes)?;
    if in_the_way.is_empty() {
        return Ok(());
    }
    let paths = trees.checkout.layout.all_seen(in_the_way.iter().map(Vec::as_slice));
    Err(GroundError::NotUndone { reason: format!("uncommitted work is in the way: {}", named(&paths)) })
}

impl Worktrees {
    /// The first of these branches that has commits of the loop, and those.
    fn landed_on(&self, references: &[String]) -> Result<Option<(String, Vec<LoopCommit>)>, GroundError> {
        let git = &self.checkout.git;
        for reference in references {
            if commit_of(git, reference)?.is_none() {
                continue;
            }
            let commits = standing(git, reference, &self.loop_id, None)?;
            if !commits.is_empty() {
                return Ok(Some((reference.clone(), commits)));
            }
        }
        Ok(None)
    }

    /// The commit that the loop began its branch at, if nothing but commits of the loop as it made them is above it, and no
    /// remote has any of them.
    fn start_of(&self, commits: &[LoopCommit], recorded: &[String]) -> Result<Option<String>, GroundError> {
        let git = &self.checkout.git;
        let Some(oldest) = commits.last().map(|one| one.commit.as_str()) else { return Ok(None) };
        let Some(start) = commit_of(git, &format!("{oldest}^"))? else { return Ok(None) };
        let above = text(&git.read(["rev-list", &format!("{start}..{}", self.reference)])?);
        // A commit that somebody amended keeps its trailers, but not its id.
        let is_ours = |id: &str| recorded.iter().any(|known| !known.is_empty() && id.starts_with(known));
        let remotes =
            git.read(["for-each-ref", "--contains", oldest, "--format=%(refname)", "refs/remotes"])?;
        Ok((above.lines().all(is_ours) && remotes.is_empty()).then_some(start))
    }

    fn reverting(&self, tip: &str, commits: &[LoopCommit]) -> Result<String, GroundError> {
        let (git, layout) = (&self.checkout.git, &self.checkout.layout);
        reverting(git, layout, (&self.loop_id, tip), commits)?.map_err(|(one, paths)| {
            let commit = one.commit.clone();
            GroundError::UndoConflict { commit, subject: subject(&one), paths }
        })
    }
}

/// What takes back all that a loop did in the project's own folder: its commits in the shadow repository, the newest first, and
/// the commit there before and after.
pub(super) struct Undoing {
    pub commits: Vec<LoopCommit>,
    pub tip: String,
    pub target: String,
}

/// The commit that came out, or the one that later work stands on, with the paths.
type Reverted = Result<String, (LoopCommit, Vec<String>)>;

/// A revert on top of this commit for each of these, the newest first. Only objects are written.
pub(super) fn reverting(
    git: &Git,
    layout: &Layout,
    (loop_id, tip): (&str, &str),
    commits: &[LoopCommit],
) -> Result<Reverted, GroundError> {
    let mut top = tip.to_owned();
    for one in commits {
        let Some(parent) = commit_of(git, &format!("{}^", one.commit))? else { continue };
        let now = tree_of(git, &top)?;
        match three_way(git, &tree_of(git, &one.commit)?, &now, &tree_of(git, &parent)?)? {
            // Somebody has taken it back in another way.
            MergeOutcome::Clean(tree) if tree == now => {}
            MergeOutcome::Clean(tree) => {
                let message = revert_message(&subject(one), &one.commit, loop_id, &AtomId::new(atom(one)));
                top = commit(git, &tree, &[&top], &message)?;
            }
            MergeOutcome::Conflicts(paths) => {
                let paths = layout.all_seen(paths.iter().map(Vec::as_slice));
                return Ok(Err((one.clone(), paths)));
            }
        }
    }
    Ok(Ok(top))
}

fn told(one: &LoopCommit) -> UndoneCommit {
    UndoneCommit { commit: one.commit.clone(), atom: AtomId::new(atom(one)), subject: subject(one) }
}

fn reference_of(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

fn short(reference: &str) -> &str {
    reference.strip_prefix("refs/heads/").unwrap_or(reference)
}

pub(super) fn subject(one: &LoopCommit) -> String {
    one.body.lines().next().unwrap_or_default().to_owned()
}

pub(super) fn atom(one: &LoopCommit) -> &str {
    one.of.as_ref().map_or("", |of| of.atom.as_str())
}
