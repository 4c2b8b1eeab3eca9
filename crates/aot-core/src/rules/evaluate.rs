//! The base case: what is known of it, what an event makes of that knowledge, and when it is evaluated (D8, D14). Runs
//! no check.

use jiff::Timestamp;

use super::certificate::RedCheck;
use super::{Change, Ledger};
use crate::state::{AtomId, VerifyWhen};

/// What is known of the base case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BaseCase {
    /// It was not evaluated, or something changed after an evaluation that did not pass.
    #[default]
    Unknown,
    /// It is to be evaluated before anything else starts.
    Due,
    Evaluating {
        number: u32,
    },
    Holds,
    /// It held, and something landed or was edited since: nothing starts until it was evaluated again.
    Stale,
    Red {
        checks: Vec<RedCheck>,
        plan: PlanState,
    },
    /// A person has to confirm something, or to repair a check that cannot run.
    Waiting {
        items: Vec<RedCheck>,
        blocked_by: Blocker,
    },
    /// Too many evaluations in a row got lost.
    Unevaluable {
        reason: String,
    },
}

/// What the replan for a red base case has brought so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanState {
    NotAsked,
    CameBackEmpty,
}

/// Why a loop whose base case is not red cannot complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocker {
    Checks,
    /// It holds on uncommitted work only (D20).
    UncommittedWork,
}

impl BaseCase {
    /// An atom was resolved. An evaluation under way includes it already, because nothing lands during an evaluation.
    pub fn landed(&mut self) {
        match self {
            BaseCase::Holds => *self = BaseCase::Stale,
            BaseCase::Red { .. } | BaseCase::Waiting { .. } => *self = BaseCase::Unknown,
            BaseCase::Unknown
            | BaseCase::Due
            | BaseCase::Evaluating { .. }
            | BaseCase::Stale
            | BaseCase::Unevaluable { .. } => {}
        }
    }

    /// Somebody edited the state. The base case itself is the same, or the loop stops as tampered (D21).
    pub fn edited(&mut self) {
        match self {
            BaseCase::Unevaluable { .. } => *self = BaseCase::Due,
            _ => self.landed(),
        }
    }

    /// A redirect ended the evaluation under way: it is repeated, because agents must not start without it. If nothing is
    /// unresolved, `Unknown` is enough: the evaluation starts again unless the redirect adds atoms.
    pub fn interrupted(&mut self, ledger: &Ledger) {
        match self {
            BaseCase::Evaluating { .. } => {
                let first = ledger.state().control.iteration == 0;
                let again = first || ledger.frontier().unresolved() > 0;
                *self = if again { BaseCase::Due } else { BaseCase::Unknown };
            }
            _ => self.edited(),
        }
    }

    /// An iteration closed after which it is evaluated, or somebody typed `completed` into the file.
    pub fn ask(&mut self) {
        match self {
            BaseCase::Unknown | BaseCase::Red { .. } | BaseCase::Waiting { .. } => *self = BaseCase::Due,
            BaseCase::Due
            | BaseCase::Evaluating { .. }
            | BaseCase::Holds
            | BaseCase::Stale
            | BaseCase::Unevaluable { .. } => {}
        }
    }

    pub fn is_due(&self) -> bool {
        matches!(self, BaseCase::Due | BaseCase::Stale)
    }
}

/// The evaluations so far, as far as the next one depends on them.
#[derive(Clone, Debug, Default)]
pub struct Evaluations {
    pub count: u32,
    /// The latest iteration that has had its one evaluation (D8).
    pub evaluated_in: Option<u32>,
    /// How many got lost in a row.
    pub lost: u32,
    /// Something landed or was edited since the last one began.
    pub outdated: bool,
    /// When the last one began and ended.
    pub last: Option<Look>,
    /// What the last one found red; a halt names it.
    pub red: Vec<RedCheck>,
}

/// The time that an evaluation took.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub began: Timestamp,
    pub ended: Option<Timestamp>,
}

/// A look is cheap beside the work if the time since the last one is so many times what that one took.
const WORK_PER_LOOK: i32 = 4;

/// Whether the base case is evaluated now. In the last iteration it waits for what still runs, so that each iteration
/// has one evaluation and not two (D8).
pub fn is_wanted(ledger: &Ledger, base_case: &BaseCase, running: usize) -> bool {
    let idle = running == 0;
    match base_case {
        BaseCase::Unknown => idle && ledger.frontier().unresolved() == 0,
        BaseCase::Due => idle || !is_last_iteration(ledger),
        BaseCase::Stale => idle,
        BaseCase::Evaluating { .. }
        | BaseCase::Holds
        | BaseCase::Red { .. }
        | BaseCase::Waiting { .. }
        | BaseCase::Unevaluable { .. } => false,
    }
}

/// Each iteration has one evaluation (D8). When something landed after it, the next one gets an iteration of its own,
/// so that the bound holds.
pub fn needs_own_iteration(ledger: &Ledger, evaluations: &Evaluations) -> bool {
    let control = &ledger.state().control;
    control.open.is_none()
        && evaluations.evaluated_in == Some(control.iteration)
        && !is_last_iteration(ledger)
}

/// Whether an evaluation can still come before the next iteration opens.
pub fn may_come(ledger: &Ledger, base_case: &BaseCase, evaluations: &Evaluations, running: usize) -> bool {
    let control = &ledger.state().control;
    let expected = control.iteration == 0
        || base_case.is_due()
        || running > 0
        || evaluations.outdated
        || ledger.frontier().unresolved() == 0;
    let unused = evaluations.evaluated_in != Some(control.iteration);
    let under_way = matches!(base_case, BaseCase::Evaluating { .. });
    control.open.is_none() && (under_way || (unused && expected))
}

/// Whether the base case is evaluated at the close of an iteration (D14).
pub fn is_due_at_close(ledger: &Ledger, evaluations: &Evaluations) -> bool {
    match ledger.state().objective.verify {
        Some(VerifyWhen::EachIteration) => true,
        Some(VerifyWhen::AtEnd) => false,
        Some(VerifyWhen::Auto) | None => evaluations.outdated && is_cheap(ledger.now(), evaluations.last),
    }
}

/// A process that has made no look does not know what one takes.
fn is_cheap(now: Timestamp, last: Option<Look>) -> bool {
    let Some(Look { began, ended: Some(ended) }) = last else { return false };
    ended.duration_since(began) * WORK_PER_LOOK <= now.duration_since(ended)
}

/// Whether a person asked for work that is not done, when the base case held already: then it completes nothing (D14).
pub fn is_more_wanted(ledger: &Ledger) -> bool {
    let is_open = |id: &AtomId| ledger.index(id).is_ok_and(|index| ledger.frontier().counts(index));
    ledger.state().control.wanted.iter().any(is_open)
}

/// Counts a failed evaluation with nothing unresolved: fruitless unless fewer checks are red than ever before (D14).
pub fn count_red(ledger: &mut Ledger, red: usize) {
    let control = &ledger.state().control;
    let red = u32::try_from(red).unwrap_or(u32::MAX);
    let better = control.fewest_red.is_none_or(|fewest| red < fewest);
    let fruitless = if better { 0 } else { control.fruitless.unwrap_or(0) + 1 };
    let fewest_red = control.fewest_red.map_or(red, |fewest| fewest.min(red));
    ledger.record(Change::Verified { fruitless, fewest_red: Some(fewest_red) });
}

fn is_last_iteration(ledger: &Ledger) -> bool {
    ledger.state().control.iteration >= ledger.state().constraints().max_iterations
}
