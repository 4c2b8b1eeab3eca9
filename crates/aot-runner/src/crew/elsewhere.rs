//! Jobs of the crew on other hosts: what comes back is looked at as if a worker of this process had made it, and lands in
//! the same way.

use aot_core::coordinator::{Answer, CheckOutcome, JobId, JobOutcome, Task};

use super::attempt::{NotAccepted, first_artifacts, not_accepted, not_started, obstacle};
use super::executor::Executor;
use super::meter::Meter;
use super::workers::Workers;
use super::{Assignment, Attempt, DoneWork, PlanQuestion, work_of};
use crate::agents::AgentUsage;
use crate::message::{Message, Notice};
use crate::remote::dispatch::{Dispatcher, RemoteEnd, RemoteNews};
use crate::remote::wire::{JobEnding, JobRequest, JobTold, Spent};
use crate::tree::{End, GroundError};

#[derive(Debug)]
pub(super) struct Elsewhere(pub Dispatcher);

impl Executor for Elsewhere {
    fn attempt(
        &self,
        workers: &Workers,
        attempt: &Attempt,
        assignment: Assignment,
        meter: &Meter,
    ) -> JobOutcome {
        let base = match base_of(workers) {
            Ok(base) => base,
            Err(error) => {
                let (obstacle, reason) = obstacle(error);
                return JobOutcome::NotStarted { obstacle, reason };
            }
        };
        let job = assignment.job.clone();
        let request = JobRequest::Attempt(Box::new(assignment));
        let end = self.0.run(&request, &base, &attempt.switch, &|news| pass_on(workers, &job, news));
        let RemoteEnd { ending, base, left, spent } = end;
        charge(workers, &job, meter, spent);
        let JobRequest::Attempt(assignment) = request else { unreachable!("it was made above") };
        let outcome = match ending {
            JobEnding::Attempt(outcome) => outcome,
            JobEnding::Refused { reason } => return not_started(reason),
            JobEnding::Busy => return not_started("its host has no free slot".into()),
            JobEnding::Replan(_) => return lost("it gave the answer of another job"),
        };
        let lands = matches!(
            (&outcome, &job.task),
            (JobOutcome::Done { check: CheckOutcome::None | CheckOutcome::Pass, .. }, Task::Work(_))
        );
        let JobOutcome::Done { summary, artifacts, check } = outcome else { return outcome };
        if !lands {
            return JobOutcome::Done { summary, artifacts, check };
        }
        let Some(work) = work_of(&job) else { return lost("it works on no atom") };
        let commit = left.commit.as_deref().unwrap_or(&base);
        let (lent, sealed) = match workers.ground.take_in(&work, &base, commit) {
            Ok(taken) => taken,
            Err(error) => {
                self.0.settled(&job);
                return lost(&error.to_string());
            }
        };
        // A host is trusted to work and to check, but what no worker may change is looked at here.
        if let Some(NotAccepted { reason, .. }) = not_accepted(&assignment, &sealed) {
            workers.give_back(lent, End::Failed { reason: reason.clone() });
            self.0.settled(&job);
            return JobOutcome::Failed { reason };
        }
        let is_unchanged = sealed.changed.is_empty();
        let artifacts = if artifacts.is_empty() { first_artifacts(sealed.changed) } else { artifacts };
        let (assignment, ignored) = (*assignment, left.ignored);
        let done = DoneWork {
            lent,
            assignment,
            summary: summary.clone(),
            artifacts: artifacts.clone(),
            ignored,
            is_unchanged,
        };
        attempt.put(done);
        workers.discard_if_killed(attempt);
        JobOutcome::Done { summary, artifacts, check }
    }

    fn replan(&self, workers: &Workers, attempt: &Attempt, asked: PlanQuestion, meter: &Meter) -> Answer {
        let base = match base_of(workers) {
            Ok(base) => base,
            Err(error) => {
                let (obstacle, reason) = obstacle(error);
                return Answer::NotStarted { obstacle, reason };
            }
        };
        let job = asked.job.clone();
        let request = JobRequest::Replan(Box::new(asked));
        let end = self.0.run(&request, &base, &attempt.switch, &|news| pass_on(workers, &job, news));
        charge(workers, &job, meter, end.spent);
        match end.ending {
            JobEnding::Replan(answer) => answer,
            JobEnding::Refused { reason } => Answer::Failed { reason },
            JobEnding::Busy => Answer::Failed { reason: "its host has no free slot".into() },
            JobEnding::Attempt(_) => Answer::Failed { reason: "it gave the answer of another job".into() },
        }
    }

    fn settled(&self, job: &JobId) {
        self.0.settled(job);
    }

    fn end(&self) {
        self.0.end();
    }
}

fn lost(reason: &str) -> JobOutcome {
    JobOutcome::Lost { reason: reason.to_owned() }
}

fn base_of(workers: &Workers) -> Result<String, GroundError> {
    let root = &workers.config.project.root;
    workers.ground.tip()?.ok_or_else(|| GroundError::NotARepository { root: root.clone() })
}

/// The rest of what a job has cost is charged with its end.
fn charge(workers: &Workers, job: &JobId, meter: &Meter, spent: Spent) {
    meter.add(spent.usage);
    for run in spent.runs {
        workers.send(Message::AgentRan { job: Some(job.clone()), run });
    }
}

fn pass_on(workers: &Workers, job: &JobId, news: RemoteNews) {
    let job = job.clone();
    match news {
        RemoteNews::Spent(Spent { usage, runs }) => {
            for run in runs {
                workers.send(Message::AgentRan { job: Some(job.clone()), run });
            }
            workers.send(Message::Spent { job: Some(job), usage });
        }
        RemoteNews::Doing(line) => workers.notice(Notice::Doing { job, line }),
        RemoteNews::Told(JobTold::ToolFailed { agent, line }) => {
            workers.notice(Notice::ToolFailed { job, agent, line });
        }
        RemoteNews::Told(JobTold::Mends { reason }) => workers.notice(Notice::Mends { job, reason }),
        RemoteNews::Told(JobTold::AgentEnded { agent, tokens, cost_usd, seconds }) => {
            let used = AgentUsage { tokens, cost_usd };
            let took = std::time::Duration::from_secs(seconds);
            workers.notice(Notice::AgentEnded { job: Some(job), agent, used, took });
        }
        RemoteNews::Told(JobTold::Note { text }) => workers.note(text),
    }
}
