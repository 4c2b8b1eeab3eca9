//! Turns checks and their evidence into a verdict; schedules checks; lints them; compares fingerprints. Runs nothing: what
//! the world says comes in as an argument.

mod evidence;
mod exit;
mod lint;
mod schedule;
mod score;
mod seal;
mod steering;
mod tree;

pub use evidence::{CageRefusal, Evidence, Excerpt, Judged, Source};
pub use exit::{CheckResult, CommandExit, ExpectedExit, MissingProgram, judge_exit};
pub use lint::{Advice, LintFacts, LintQuestions, TreeOutcome, WorkPhase, lint, lint_loop};
pub use schedule::{Jobs, NextCheck, Schedule};
pub use score::{HIGHEST_SCORE, LOWEST_SCORE, SCORE_TOLERANCE, Score, Scored, criteria, score};
pub use seal::{Tampered, canonical, tampered};
pub use steering::{Steering, steering, steering_of};
pub use tree::{CheckNode, CheckTree, Leaf};

use serde::{Deserialize, Serialize};

use crate::state::{Check, Confirmation};

/// How one check ended (D17).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Pass,
    Fail,
    /// It could not be found out: a missing program, a full disk, a kill from outside. Never a pass.
    Error,
    /// A judge or a person has not decided yet. Never a pass.
    Pending,
}

impl Outcome {
    pub const ALL: [Outcome; 4] = [Outcome::Pass, Outcome::Fail, Outcome::Error, Outcome::Pending];

    pub fn word(self) -> &'static str {
        match self {
            Outcome::Pass => "pass",
            Outcome::Fail => "fail",
            Outcome::Error => "error",
            Outcome::Pending => "pending",
        }
    }
}

/// What all checks come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum Verdict {
    Passed,
    Failed,
    Error,
    Pending,
}

impl From<Outcome> for Verdict {
    fn from(outcome: Outcome) -> Verdict {
        match outcome {
            Outcome::Pass => Verdict::Passed,
            Outcome::Fail => Verdict::Failed,
            Outcome::Error => Verdict::Error,
            Outcome::Pending => Verdict::Pending,
        }
    }
}

/// All of them: one that failed decides; then one that nobody could run, then one that waits. Only passes make a pass,
/// and nothing at all proves nothing (D18).
pub fn all_of(outcomes: impl IntoIterator<Item = Outcome>) -> Outcome {
    let strength = |outcome: &Outcome| match outcome {
        Outcome::Pass => 0,
        Outcome::Pending => 1,
        Outcome::Error => 2,
        Outcome::Fail => 3,
    };
    outcomes.into_iter().max_by_key(strength).unwrap_or(Outcome::Error)
}

/// One of them: a pass decides; then one that waits, since an answer can still make it a pass; then one that nobody
/// could run. It failed only if every one of them did.
pub fn any_of(outcomes: impl IntoIterator<Item = Outcome>) -> Outcome {
    let strength = |outcome: &Outcome| match outcome {
        Outcome::Fail => 0,
        Outcome::Error => 1,
        Outcome::Pending => 2,
        Outcome::Pass => 3,
    };
    outcomes.into_iter().max_by_key(strength).unwrap_or(Outcome::Error)
}

/// What a person decided about an assertion. It counts only for the tree that the person looked at (D19).
pub fn confirmed_outcome<'c>(
    confirmed: &'c [Confirmation],
    leaf: &Leaf,
    tree: &str,
) -> (Outcome, Option<&'c Confirmation>) {
    debug_assert!(matches!(leaf.check, Check::Assertion { .. }), "only assertions are confirmed");
    let Some(said) = confirmed.iter().find(|said| said.item == leaf.name) else {
        return (Outcome::Pending, None);
    };
    if said.tree != tree {
        return (Outcome::Pending, Some(said));
    }
    (if said.holds() { Outcome::Pass } else { Outcome::Fail }, Some(said))
}
