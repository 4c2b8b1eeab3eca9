//! Agents at work for the crew: who is asked, in which tree, what they may write, and what their report means for the
//! attempt. The cage of a role says what it may write; the tree of an agent that may only read is
//! compared afterwards all the same.

use std::ffi::OsString;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use aot_core::brief::{Brief, Cost, ProbeAnswer, Role, Unreadable, read_plan_change};
use aot_core::coordinator::{Answer, Event, Feasibility, JobId, JobOutcome, Lack, Usage};
use aot_core::state::{AgentRun, Atom, AtomId, Span, State};
use serde_json::Value;

use super::attempt::{PATHS_NAMED, not_started, obstacle};
use super::meter::{Meter, ReportedUsage};
use super::workers::Workers;
use super::{Assignment, Attempt, PlanQuestion};
use crate::agents::{Agent, AgentEvent, AgentOutcome, AgentUsage, Question, Report, Session};
use crate::message::{Message, Notice};
use crate::tree::{End, Lent, Tree, TreeKind, Work};

/// The tree of a coordinator agent has this name instead of an atom's.
const REPLAN: &str = "replan";

/// At most so many activities and counts of one agent are passed on in a second, because a flood of them would queue up
/// in memory. Activities that are left out are in the transcript, and counts are in the next one.
const EVENTS_PER_SECOND: u32 = 50;

/// Of the reason why an agent goes on, so many characters stand in the journal.
const MEND_KEPT: usize = 300;

/// So many errors of its tools are told of one run of an agent; all of them are in the transcript.
const TOOL_ERRORS_TOLD: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Throttle(Mutex<Option<(Instant, u32)>>);

impl Throttle {
    pub fn allows_one_more(&self) -> bool {
        let mut second = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *second {
            Some((began, count)) if began.elapsed() < Duration::from_secs(1) => {
                *count += 1;
                *count <= EVENTS_PER_SECOND
            }
            second => {
                *second = Some((Instant::now(), 1));
                true
            }
        }
    }
}

impl Workers {
    /// Asks an agent for this job, in a conversation that may have begun before or in one of its own. What it does and uses is
    /// reported meanwhile; usage that was not goes to the meter.
    pub(super) fn ask(
        &self,
        session: Option<&Session>,
        job: &JobId,
        lent: &Lent,
        meter: &Meter,
        question: Question<'_>,
    ) -> Report {
        let reported = ReportedUsage::default();
        let rate = Throttle::default();
        let tool_errors = AtomicUsize::new(0);
        let agent = question.agent.name.clone();
        let listener = |event: AgentEvent<'_>| match event {
            AgentEvent::Text(_) => {}
            AgentEvent::ToolError(line) => {
                if tool_errors.fetch_add(1, Ordering::Relaxed) < TOOL_ERRORS_TOLD {
                    let (job, agent, line) = (job.clone(), agent.clone(), line.to_owned());
                    self.notice(Notice::ToolFailed { job, agent, line });
                }
            }
            _ if !rate.allows_one_more() => {}
            AgentEvent::Activity(line) => {
                self.notice(Notice::Doing { job: job.clone(), line: line.to_owned() });
            }
            AgentEvent::Usage(used) => self.spend(meter, &reported, used),
        };
        let (writable, read_only) = match question.role() {
            Role::Worker => (vec![lent.top().to_path_buf()], self.read_only(lent)),
            Role::Probe | Role::Judge | Role::Coordinator => (Vec::new(), Vec::new()),
        };
        let question = Question {
            writable,
            read_only,
            variables: self.variables(job, lent),
            idle: Some(self.config.agent_idle),
            listener: &listener,
            ..question
        };
        let began = Instant::now();
        let report = self.launch(session, &question, meter);
        // The first run of a job is counted when it is asked for.
        let mends = match question.again {
            Some(_) => u64::from(report.asked),
            None => u64::from(report.asked.saturating_sub(1)),
        };
        meter.add(Usage { agent_runs: mends, mends, ..reported.since_last(report.used) });
        let took = began.elapsed();
        let (atom, attempt) = (job.task.atom().cloned(), Some(job.attempt));
        let run = AgentRun { atom, attempt, ..run_of(&question, &report, took) };
        self.send(Message::AgentRan { job: Some(job.clone()), run });
        let (agent, used) = (question.agent.name.clone(), report.used);
        self.notice(Notice::AgentEnded { job: Some(job.clone()), agent, used, took });
        report
    }

    /// Asks, after the agent has shown that it works here; without a session in a conversation of its own.
    pub(super) fn launch(&self, session: Option<&Session>, question: &Question<'_>, meter: &Meter) -> Report {
        if let Some(report) = self.try_first(question, meter) {
            return report;
        }
        let launcher = &self.config.launcher;
        let (report, not_saved) = match session {
            Some(session) => launcher.ask_in(session, question),
            None => launcher.ask(question),
        };
        not_saved.into_iter().for_each(|problem| self.note(problem));
        report
    }

    /// Reports what an agent has used since the last time.
    pub(super) fn spend(&self, meter: &Meter, reported: &ReportedUsage, used: AgentUsage) {
        let usage = reported.since_last(used);
        if usage != Usage::default() {
            self.send(Message::Spent { job: meter.job.clone(), usage });
        }
    }

    fn variables(&self, job: &JobId, lent: &Lent) -> Vec<(OsString, OsString)> {
        let atom = job.task.atom().map_or(REPLAN, |atom| atom.as_str()).to_owned();
        let own = [
            ("AOT_LOOP", self.loop_id.clone()),
            ("AOT_ATOM", atom),
            ("AOT_ATTEMPT", job.attempt.to_string()),
        ];
        let own = own.into_iter().map(|(name, value)| (name.into(), value.into()));
        own.chain(self.ground.variables(lent)).collect()
    }

    /// An agent looks into an atom before it is worked on.
    pub(super) fn probe(
        &self,
        attempt: &Attempt,
        assignment: &Assignment,
        lent: &Lent,
        brief: &Brief,
        meter: &Meter,
    ) -> JobOutcome {
        let probed = || {
            let agent = self.member(Role::Probe, Some(&assignment.atom))?;
            let parse = |value: &Value| ProbeAnswer::read(value);
            let read = validator(parse);
            let question = Question {
                repeats: 0,
                transcript: transcript_of(&assignment.job, Role::Probe),
                ..Question::new(agent, brief, &read, lent.root(), wall(&assignment.state), &attempt.switch)
            };
            // The work goes on without a probe's answer, so it is not asked again.
            let report = self.ask_read_only(&assignment.job, lent, meter, question).map_err(failed)?;
            let ProbeAnswer { feasible, findings, cost_estimate } = answer(agent, report, parse)?;
            Ok(JobOutcome::Probed {
                feasible: if feasible { Feasibility::Feasible } else { Feasibility::Infeasible },
                findings,
                cost: cost_estimate as Option<Cost>,
            })
        };
        probed().unwrap_or_else(|outcome| outcome)
    }

    /// The coordinator agent is asked for another plan.
    pub(super) fn replan(&self, attempt: &Attempt, asked: PlanQuestion) {
        let (meter, job) = (Meter::of(&asked.job), asked.job.clone());
        let answer = self.executor.replan(self, attempt, asked, &meter);
        self.event(Event::Replanned { job, answer, usage: meter.take() });
    }

    /// The same in this process.
    pub(super) fn replanned(&self, attempt: &Attempt, asked: &PlanQuestion, meter: &Meter) -> Answer {
        let PlanQuestion { job, brief, state, base } = asked;
        let no = |reason: String| Answer::Failed { reason };
        let Some(agent) = self.config.team.member(Role::Coordinator, None) else {
            return no("there is no coordinator agent".into());
        };
        let work = Work { atom: AtomId::new(REPLAN), attempt: job.attempt };
        let lent = match self.ground.lend_at(&work, base.as_deref()) {
            Ok(lent) => lent,
            Err(error) => {
                let (obstacle, reason) = obstacle(error);
                return Answer::NotStarted { obstacle, reason };
            }
        };
        let parse = |value: &Value| read_plan_change(value);
        let read = validator(parse);
        let question = Question {
            // A plan is asked for again in the next iteration (D8).
            repeats: 0,
            transcript: transcript_of(job, Role::Coordinator),
            ..Question::new(agent, brief, &read, lent.root(), wall(state), &attempt.switch)
        };
        let asked = self.ask_read_only(job, &lent, meter, question);
        self.give_back(lent, End::Discarded { reason: "the tree of a coordinator is not kept".into() });
        let report = match asked {
            Ok(report) => report,
            Err(reason) => return no(reason),
        };
        match answer(agent, report, parse) {
            Ok(change) => Answer::Plan(change),
            Err(JobOutcome::Refused { reason, retry_after }) => Answer::Refused { reason, retry_after },
            Err(JobOutcome::Unable { lack, reason }) => Answer::Unable { lack, reason },
            Err(JobOutcome::NotStarted { obstacle, reason }) => Answer::NotStarted { obstacle, reason },
            Err(
                JobOutcome::Failed { reason } | JobOutcome::TooLarge { reason } | JobOutcome::Lost { reason },
            ) => no(reason),
            Err(JobOutcome::Done { .. } | JobOutcome::Probed { .. }) => {
                no("it gave the answer of another role".into())
            }
        }
    }

    /// Asks an agent that may only read. If anything was written all the same its answer is refused; the tree is thrown
    /// away in any case.
    fn ask_read_only(
        &self,
        job: &JobId,
        lent: &Lent,
        meter: &Meter,
        question: Question<'_>,
    ) -> Result<Report, String> {
        let role = question.role().word();
        let before = self.hash_if_unisolated(lent);
        let report = self.ask(None, job, lent, meter, question);
        let written = match self.ground.trees() {
            TreeKind::Worktrees | TreeKind::InPlace => {
                self.ground.changed(lent).map_err(|error| error.to_string())?
            }
            TreeKind::Unisolated => match (before, self.hash_if_unisolated(lent)) {
                (Some(before), Some(after)) if before.hash() != after.hash() => before.changed(&after),
                _ => Vec::new(),
            },
        };
        if written.is_empty() {
            return Ok(report);
        }
        let named: Vec<String> = written.into_iter().take(PATHS_NAMED).collect();
        Err(format!("the {role} wrote, although it may only read: {}", named.join(", ")))
    }

    /// Without isolation git cannot tell who wrote, so the whole tree is hashed before and after.
    fn hash_if_unisolated(&self, lent: &Lent) -> Option<Tree> {
        match self.ground.trees() {
            TreeKind::Unisolated => {
                let project = self.ground.project_in(lent, &self.config.project);
                Tree::of(&project, &self.config.guard).ok()
            }
            TreeKind::Worktrees | TreeKind::InPlace => None,
        }
    }

    pub(super) fn member(&self, role: Role, atom: Option<&Atom>) -> Result<&Agent, JobOutcome> {
        self.config.team.member(role, atom).ok_or_else(|| lost("it needs an agent, and there is none".into()))
    }
}

/// The run of an agent for the journal, without what it was asked about.
pub(super) fn run_of(question: &Question<'_>, report: &Report, took: Duration) -> AgentRun {
    let asked_again = (report.asked > 1).then_some("it broke off, or its answer could not be read");
    AgentRun {
        atom: None,
        attempt: None,
        role: question.role().word().to_owned(),
        agent: question.agent.name.clone(),
        seconds: took.as_secs(),
        tokens: report.used.tokens,
        cost_usd: report.used.cost_usd,
        asked: report.asked,
        mends: question
            .mends
            .as_deref()
            .or(asked_again)
            .map(|reason| reason.chars().take(MEND_KEPT).collect()),
    }
}

/// The name of a transcript: whose it is, which attempt, which role.
pub(super) fn transcript_of(job: &JobId, role: Role) -> String {
    let whose = job.task.atom().map_or(REPLAN, |atom| atom.as_str());
    format!("{whose}-{}.{}", job.attempt, role.word())
}

/// What decides whether an agent is asked again: parses the answer, keeps the reason of a refusal and drops the value.
pub(super) fn validator<T>(
    parse: impl Fn(&Value) -> Result<T, Unreadable> + Sync,
) -> impl Fn(&Value) -> Result<(), String> + Sync {
    move |value| parse(value).map(drop).map_err(|unreadable| unreadable.reason)
}

/// The answer, or what its absence means for the attempt.
pub(super) fn answer<T>(
    agent: &Agent,
    report: Report,
    parse: impl Fn(&Value) -> Result<T, Unreadable>,
) -> Result<T, JobOutcome> {
    let reason = agent.explain(&report.outcome);
    Err(match report.outcome {
        AgentOutcome::Answer(answer) => {
            return parse(&answer).map_err(|unreadable| failed(unreadable.reason));
        }
        // An agent that has run already was not refused its start.
        AgentOutcome::RateLimited { .. } | AgentOutcome::Unreachable { .. } if report.asked > 1 => {
            lost(reason)
        }
        AgentOutcome::RateLimited { retry_after, .. } => {
            let retry_after = retry_after.map(|after| Span::from_seconds(after.as_secs().max(1)));
            JobOutcome::Refused { reason, retry_after }
        }
        AgentOutcome::Unreachable { .. } => JobOutcome::Refused { reason, retry_after: None },
        AgentOutcome::Unauthenticated { .. } => JobOutcome::Unable { lack: Lack::Login, reason },
        AgentOutcome::Unusable { .. } => JobOutcome::Unable { lack: Lack::Program, reason },
        AgentOutcome::InvalidAnswer { .. } | AgentOutcome::Failed { .. } | AgentOutcome::TimedOut { .. } => {
            failed(reason)
        }
        AgentOutcome::Killed => lost("it was killed".into()),
        // An agent that ran before it was to be asked again has begun.
        AgentOutcome::NotStarted { .. } if report.asked <= 1 => not_started(reason),
        AgentOutcome::NotStarted { .. } | AgentOutcome::Lost { .. } => lost(reason),
    })
}

pub(super) fn wall(state: &State) -> Duration {
    Duration::from_secs(state.constraints().agent_timeout().seconds().max(1))
}

pub(super) fn failed(reason: String) -> JobOutcome {
    JobOutcome::Failed { reason }
}

pub(super) fn lost(reason: String) -> JobOutcome {
    JobOutcome::Lost { reason }
}
