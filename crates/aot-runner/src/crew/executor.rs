//! Who does a job: threads of this process, or hosts elsewhere. The engine does not know which; what it is told and what
//! it lands are the same.

use std::fmt::Debug;

use aot_core::coordinator::{Answer, JobId, JobOutcome};

use super::meter::Meter;
use super::workers::Workers;
use super::{Assignment, Attempt, PlanQuestion};

/// Called on a thread of the job's own, which waits for the end. What is to land is put into the attempt.
pub(super) trait Executor: Debug + Send + Sync {
    fn attempt(
        &self,
        workers: &Workers,
        attempt: &Attempt,
        assignment: Assignment,
        meter: &Meter,
    ) -> JobOutcome;

    fn replan(&self, workers: &Workers, attempt: &Attempt, asked: PlanQuestion, meter: &Meter) -> Answer;

    /// What the job left has landed, or was given back.
    fn settled(&self, job: &JobId);

    /// The run is over: ends what no job waits for.
    fn end(&self);
}

/// This process.
#[derive(Debug)]
pub(super) struct Here;

impl Executor for Here {
    fn attempt(
        &self,
        workers: &Workers,
        attempt: &Attempt,
        assignment: Assignment,
        meter: &Meter,
    ) -> JobOutcome {
        let _tree = workers.lock_shared_tree();
        workers.attempted(attempt, assignment, meter)
    }

    fn replan(&self, workers: &Workers, attempt: &Attempt, asked: PlanQuestion, meter: &Meter) -> Answer {
        let _tree = workers.lock_shared_tree();
        workers.replanned(attempt, &asked, meter)
    }

    fn settled(&self, _job: &JobId) {}

    fn end(&self) {}
}
