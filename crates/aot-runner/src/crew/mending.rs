//! An agent at work on an atom: it answers, its check runs, and while that is red, or its work cannot be accepted, it goes
//! on in the same conversation and the same tree (D34). Between its turns the agent does not run, so nobody writes while
//! the check looks.

use std::time::{Duration, Instant};

use aot_core::brief::{self, Brief, PutBack, Role, WorkerAnswer};
use aot_core::coordinator::{CheckOutcome, JobOutcome};
use aot_core::rules::bound;
use aot_core::state::{headline, is_same_failure};
use serde_json::Value;

use super::asking::{answer, failed, lost, transcript_of, validator, wall};
use super::attempt::{NotAccepted, WorkDone, first_artifacts, not_accepted, run_check};
use super::meter::Meter;
use super::workers::Workers;
use super::{Assignment, Attempt};
use crate::agents::{Agent, Question, Session};
use crate::message::Notice;
use crate::tree::{Lent, Sealed, TreeKind};

/// With less time than this left, an agent is not asked to go on.
const LEAST_TIME: Duration = Duration::from_secs(5);

/// What an agent answered and did in one turn.
struct WorkerTurn {
    done: WorkDone,
    content: Option<String>,
    not_accepted: Option<NotAccepted>,
}

/// A result that is not good enough, and what the agent is told about it.
struct Unfinished {
    done: WorkDone,
    check: CheckOutcome,
    content: Option<String>,
    text: String,
}

/// The conversation with a worker.
struct Dialogue<'d> {
    attempt: &'d Attempt,
    assignment: &'d Assignment,
    brief: &'d Brief,
    agent: &'d Agent,
    session: Session,
    deadline: Instant,
    turns: u32,
}

impl Workers {
    /// Returns what the agent did and what its check came to, or why it is no success.
    pub(super) fn work(
        &self,
        attempt: &Attempt,
        assignment: &Assignment,
        lent: &mut Lent,
        brief: &Brief,
        meter: &Meter,
    ) -> Result<(WorkDone, CheckOutcome), JobOutcome> {
        let agent = self.member(Role::Worker, Some(&assignment.atom))?;
        let parse = |value: &Value| WorkerAnswer::read(value);
        let session = match self.config.launcher.open(agent) {
            Ok(session) => session,
            Err(report) => {
                answer(agent, report, parse)?;
                return Err(lost("it was not asked".into()));
            }
        };
        let deadline = Instant::now() + wall(&assignment.state);
        let mut dialogue = Dialogue { attempt, assignment, brief, agent, session, deadline, turns: 0 };
        let mut before: Option<Unfinished> = None;
        loop {
            let turn = self.turn(&mut dialogue, lent, meter, before.as_ref());
            let (WorkerTurn { done, content, not_accepted }, last) = match (turn, before.take()) {
                // The check would say the same; what the agent says now explains why nothing was changed.
                (Ok(turn), Some(before)) if turn.content.is_some() && turn.content == before.content => {
                    return Ok((turn.done, before.check));
                }
                (Ok(turn), last) => (turn, last),
                (Err(outcome @ (JobOutcome::Lost { .. } | JobOutcome::TooLarge { .. })), _)
                | (Err(outcome), None) => return Err(outcome),
                (Err(outcome), Some(before)) => match before.check {
                    CheckOutcome::Fail { .. } => return Ok((before.done, before.check)),
                    _ => return Err(outcome),
                },
            };
            let (check, put_back) = match not_accepted {
                None => (run_check(self, assignment, lent, &attempt.switch, meter), None),
                Some(NotAccepted { reason, protected }) => {
                    self.ground.put_back(lent, &protected).map_err(|error| lost(error.to_string()))?;
                    let in_worktree = self.ground.trees() == TreeKind::Worktrees;
                    let put_back =
                        if in_worktree && !protected.is_empty() { PutBack::Yes } else { PutBack::No };
                    (CheckOutcome::Fail { reason }, Some(put_back))
                }
            };
            let Some(text) = missing(&done, &check, put_back, last.as_ref()) else {
                return Ok((done, check));
            };
            let turns_left = u64::from(dialogue.turns) <= bound::MENDS;
            let has_time = dialogue.deadline.saturating_duration_since(Instant::now()) >= LEAST_TIME;
            if attempt.switch.is_off() || !turns_left || !has_time {
                return Ok((done, check));
            }
            self.notice(Notice::Mends { job: assignment.job.clone(), reason: lacking(&check) });
            before = Some(Unfinished { done, check, content, text });
        }
    }

    /// One turn of the agent, up to its sealed work.
    fn turn(
        &self,
        dialogue: &mut Dialogue<'_>,
        lent: &mut Lent,
        meter: &Meter,
        before: Option<&Unfinished>,
    ) -> Result<WorkerTurn, JobOutcome> {
        let Dialogue { assignment, agent, .. } = *dialogue;
        let parse = |value: &Value| WorkerAnswer::read(value);
        let read = validator(parse);
        let left = dialogue.deadline.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
        let name = transcript_of(&assignment.job, Role::Worker);
        let question = Question {
            repeats: u32::try_from(bound::MENDS).unwrap_or(u32::MAX).saturating_sub(dialogue.turns),
            again: before.map(|before| before.text.clone()),
            mends: before.map(|before| lacking(&before.check)),
            transcript: if dialogue.turns == 0 { name } else { format!("{name}{}", dialogue.turns + 1) },
            ..Question::new(agent, dialogue.brief, &read, lent.root(), left, &dialogue.attempt.switch)
        };
        let report = self.ask(Some(&dialogue.session), &assignment.job, lent, meter, question);
        dialogue.turns += report.asked.max(1);
        let answer = answer(agent, report, parse)?;
        let sealed = self.seal(lent)?;
        let not_accepted = not_accepted(assignment, &sealed);
        let Sealed { changed, ignored, content, .. } = sealed;
        if !answer.success {
            let reason = answer.reason.unwrap_or(answer.summary);
            return Err(if answer.too_large { JobOutcome::TooLarge { reason } } else { failed(reason) });
        }
        let is_unchanged = changed.is_empty() && content.is_some();
        let artifacts = if answer.artifacts.is_empty() { first_artifacts(changed) } else { answer.artifacts };
        let done = WorkDone { summary: answer.summary, artifacts, ignored, is_unchanged };
        Ok(WorkerTurn { done, content, not_accepted })
    }
}

/// What another turn is for, in a line.
fn lacking(check: &CheckOutcome) -> String {
    match check {
        CheckOutcome::Fail { reason } => headline(reason).to_owned(),
        _ => "it changed nothing".to_owned(),
    }
}

/// What the agent is told if its result is not good enough and another turn may help.
fn missing(
    done: &WorkDone,
    check: &CheckOutcome,
    put_back: Option<PutBack>,
    last: Option<&Unfinished>,
) -> Option<String> {
    match (check, last.map(|last| &last.check)) {
        (CheckOutcome::Fail { reason }, Some(CheckOutcome::Fail { reason: before }))
            if is_same_failure(before, reason) =>
        {
            None
        }
        (CheckOutcome::Fail { reason }, _) => Some(match put_back {
            None => brief::mend(reason),
            Some(put_back) => brief::not_accepted(reason, put_back),
        }),
        // A claim that changed nothing is asked once what it did (D33).
        (CheckOutcome::None, None) if done.is_unchanged => Some(brief::explain_no_change()),
        (CheckOutcome::None | CheckOutcome::Pass, _)
        | (CheckOutcome::Error { .. } | CheckOutcome::Pending { .. }, _) => None,
    }
}
