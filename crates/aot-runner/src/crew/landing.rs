//! Brings done work onto the branch and takes commits back, one at a time; what blocks a landing is waited for. Does not
//! decide what is landed.

use std::ops::ControlFlow;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use aot_core::brief::Leftover;
use aot_core::coordinator::{CheckOutcome, Event, JobId};
use aot_core::state::{AtomId, Binding};

use super::attempt::{changed_protected, first_artifacts, named, protected, run_check};
use super::meter::Meter;
use super::workers::Workers;
use super::{Attempt, DoneWork};
use crate::checks::steered::steering_paths;
use crate::message::{Message, Notice};
use crate::tree::{CommitMessage, End, GroundError, Landing, Lent, Reverted, Waiting};

/// A blocked landing tries again after so long, at first and at most.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A blocked landing is reported again after so long.
const WAITING_SHOWN: Duration = Duration::from_secs(30);

/// So many characters of a commit's hash are shown.
const HASH_SHOWN: usize = 10;

impl Workers {
    pub(super) fn land(&self, attempt: &Attempt) {
        // Without its work the attempt was killed a moment ago.
        let Some(done) = attempt.take() else { return };
        let DoneWork { mut lent, assignment, summary, artifacts, ignored, is_unchanged } = done;
        let job = assignment.job.clone();
        let settled = job.clone();
        let message = CommitMessage {
            subject: assignment.atom.description.clone(),
            summary: summary.clone(),
            loop_id: self.loop_id.clone(),
            atom: assignment.atom.id.clone(),
            attempt: job.attempt,
        };
        let meter = Meter::of(&job);
        let mut blocked_by = None;
        let landing = self.wait_while_blocked(
            |on_wait| {
                let mut recheck = |lent: &mut Lent, changed: &[String]| {
                    // A merge follows files that were moved meanwhile, and may have moved the work to a protected path.
                    let touched = protected(&assignment.state.objective.protected, changed);
                    if !touched.is_empty() {
                        return Err(changed_protected(&touched));
                    }
                    match run_check(self, &assignment, lent, &attempt.switch, &meter) {
                        CheckOutcome::None | CheckOutcome::Pass => Ok(()),
                        CheckOutcome::Fail { reason }
                        | CheckOutcome::Error { reason }
                        | CheckOutcome::Pending { reason } => {
                            Err(format!("on top of what landed meanwhile, {reason}"))
                        }
                    }
                };
                self.ground.land(&mut lent, &message, &mut recheck, on_wait)
            },
            |landing| matches!(landing, Landing::GivenUp),
            |waiting| {
                blocked_by = Some(waiting.reason.clone());
                self.show_waiting(&job, waiting);
            },
        );
        let usage = meter.take();
        let is_given_up = self.give_up_blocked.load(Ordering::Acquire);
        // A session is told what is in the way, and hands the same work in again.
        let landing = match (landing, blocked_by) {
            (Ok(Landing::GivenUp), Some(reason)) if !is_given_up => Err(reason),
            (landing, _) => landing.map_err(|error| error.to_string()),
        };
        let landing = match landing {
            Ok(landing) => landing,
            Err(reason) => {
                attempt.put(DoneWork { lent, assignment, summary, artifacts, ignored, is_unchanged });
                self.discard_if_killed(attempt);
                return self.event(Event::NotLanded { job, reason, usage });
            }
        };
        let (event, end) = match landing {
            Landing::Landed { commit, paths } => {
                if commit.is_some() && assignment.atom.check.is_some() && !ignored.is_empty() {
                    let (atom, ignored) = (&assignment.atom.id, named(&ignored));
                    self.note(format!(
                        "{atom} landed without what git ignores, which its check could see: {ignored}"
                    ));
                }
                let objective = &assignment.state.objective;
                let steering = steering_paths(objective, assignment.atom.check.as_ref(), &paths);
                let artifacts = if artifacts.is_empty() { paths } else { artifacts };
                // What steers the checks is named when the loop is done, so it must not be cut off.
                let others = artifacts.into_iter().filter(|path| !steering.contains(path));
                let artifacts = first_artifacts(steering.iter().cloned().chain(others).collect());
                let binding = Binding { summary, artifacts, commit, unchanged: is_unchanged };
                (Event::Landed { job, binding, usage }, End::Landed)
            }
            Landing::Conflict { reason } => {
                (Event::Conflict { job, reason: reason.clone(), usage }, End::Failed { reason })
            }
            Landing::GivenUp => {
                let reason = "the landing waited for uncommitted edits, and the loop went on".to_owned();
                (Event::Conflict { job, reason: reason.clone(), usage }, End::Discarded { reason })
            }
        };
        self.give_back(lent, end);
        *self.waiting_shown.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.event(event);
        self.executor.settled(&settled);
    }

    /// Reports a landing that waits, of all that do the first, and again after a while.
    fn show_waiting(&self, job: &JobId, waiting: &Waiting) {
        let mut shown = self.waiting_shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.is_none_or(|shown| shown.elapsed() > WAITING_SHOWN) {
            *shown = Some(Instant::now());
            self.notice(Notice::Waiting { job: job.clone(), waiting: waiting.clone() });
        }
    }

    pub(super) fn revert(&self, atom: &AtomId, commit: &str) {
        let short = &commit[..commit.len().min(HASH_SHOWN)];
        let mut shown = false;
        let reverted = self.wait_while_blocked(
            |on_wait| self.ground.revert(atom, commit, on_wait),
            |reverted| matches!(reverted, Reverted::GivenUp),
            |waiting| {
                if !std::mem::replace(&mut shown, true) {
                    let reason = &waiting.reason;
                    self.note(format!("taking back the commit of {atom} waits: {reason}"));
                }
            },
        );
        match reverted {
            Ok(Reverted::Reverted { commit: by }) => {
                let by = &by[..by.len().min(HASH_SHOWN)];
                self.note(format!("{atom} is open again: its commit {short} was taken back by {by}"));
            }
            Ok(Reverted::NotClean { paths }) => {
                self.send(Message::CommitStays(Leftover { atom: atom.clone(), commit: short.to_owned() }));
                let paths = paths.join(", ");
                self.note(format!(
                    "{atom} is open again, but its commit {short} stays: later work changed {paths}"
                ));
            }
            Ok(Reverted::NotThere) => {}
            Ok(Reverted::GivenUp) => {
                self.note(format!("the commit {short} of {atom} stays: uncommitted edits are in its way"));
            }
            Err(error) => self.note(format!("the commit {short} of {atom} stays: {error}")),
        }
    }

    /// Tries until it is no longer blocked, or may not wait any longer. Others can land between two tries.
    fn wait_while_blocked<T>(
        &self,
        mut attempt: impl FnMut(&mut dyn FnMut(&Waiting) -> ControlFlow<()>) -> Result<T, GroundError>,
        is_blocked: impl Fn(&T) -> bool,
        mut on_wait: impl FnMut(&Waiting),
    ) -> Result<T, GroundError> {
        let began = Instant::now();
        let mut pause = SHORTEST_PAUSE;
        loop {
            let outcome = {
                let _branch = self.branch_lock();
                attempt(&mut |waiting| {
                    on_wait(waiting);
                    ControlFlow::Break(())
                })?
            };
            if !is_blocked(&outcome) || began.elapsed() > self.landing_wait || !self.may_wait(pause) {
                return Ok(outcome);
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Waits a moment; `false` if landings are to give up.
    fn may_wait(&self, pause: Duration) -> bool {
        let began = Instant::now();
        while began.elapsed() < pause && !self.give_up_blocked.load(Ordering::Acquire) {
            std::thread::sleep(SHORTEST_PAUSE);
        }
        !self.give_up_blocked.load(Ordering::Acquire)
    }
}
