//! Agents at work for the crew: who is asked, in which tree, what they may write, and what their report means for the
//! attempt. A role is a cage: whoever may only read is looked at afterwards all the same.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use aot_core::brief::{Brief, Cost, ProbeAnswer, Role, WorkerAnswer, read_plan_change};
use aot_core::coordinator::{Answer, Feasibility, JobId, Outcome, Usage};
use aot_core::state::{Atom, AtomId, Span, State};
use serde_json::Value;

use super::attempt::{PATHS_NAMED, protected};
use super::meter::{Meter, ReportedUsage};
use super::{Assignment, Attempt, Message, Workers, first_artifacts};
use crate::agents::{ASKED_AGAIN, Agent, Heard, Question, Report, Said};
use crate::process::Switch;
use crate::tree::{End, Kind, Lent, Project, Tree, Work};

/// The tree of a coordinator agent has this name instead of an atom's.
const REPLAN: &str = "replan";

/// A question of the crew.
pub(super) struct Asking<'a> {
    pub job: &'a JobId,
    pub agent: &'a Agent,
    pub brief: &'a Brief,
    pub read: &'a (dyn Fn(&Value) -> Result<(), String> + Sync),
    pub lent: &'a Lent,
    pub wall: Duration,
    pub switch: &'a Switch,
    pub meter: &'a Meter,
}

impl Workers {
    pub(super) fn ask(&self, asking: &Asking<'_>) -> Report {
        let Asking { job, agent, brief, lent, .. } = asking;
        let reported = ReportedUsage::default();
        let hear = |heard: Heard<'_>| match heard {
            Heard::Doing(line) => self.send(Message::Doing { job: (*job).clone(), line: line.to_owned() }),
            Heard::Used(used) => {
                let usage = reported.since_last(used);
                if usage != Usage::default() {
                    self.send(Message::Spent { usage });
                }
            }
            Heard::Said(_) => {}
        };
        let (writable, spared) = match brief.role {
            Role::Worker => (vec![lent.top().to_path_buf()], self.read_only()),
            Role::Probe | Role::Judge | Role::Coordinator => (Vec::new(), Vec::new()),
        };
        let began = Instant::now();
        let (report, not_kept) = self.config.station.ask(&Question {
            agent,
            brief,
            read: asking.read,
            folder: lent.root(),
            writable,
            spared,
            variables: self.variables(job),
            wall: asking.wall,
            idle: self.config.idle,
            again: ASKED_AGAIN,
            switch: asking.switch,
            name: self.transcript_of(job, brief.role),
            hear: &hear,
        });
        if let Some(problem) = not_kept {
            self.note(problem);
        }
        asking.meter.add(reported.since_last(report.used));
        self.send(Message::Asked {
            job: (*job).clone(),
            agent: agent.name.clone(),
            used: report.used,
            took: began.elapsed(),
        });
        report
    }

    /// The name of a transcript: whose it is, which attempt, which role.
    pub(super) fn transcript_of(&self, job: &JobId, role: Role) -> String {
        let whose = job.task.atom().map_or(REPLAN, |atom| atom.as_str());
        format!("{whose}-{}.{}", job.attempt, role.word())
    }

    fn variables(&self, job: &JobId) -> Vec<(OsString, OsString)> {
        let atom = job.task.atom().map_or(REPLAN, |atom| atom.as_str()).to_owned();
        let own = [
            ("AOT_LOOP", self.loop_id.clone()),
            ("AOT_ATOM", atom),
            ("AOT_ATTEMPT", job.attempt.to_string()),
        ];
        own.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// An agent works on an atom; what it says of itself, or why it is no success.
    pub(super) fn work(
        &self,
        attempt: &Attempt,
        assignment: &Assignment,
        lent: &Lent,
        brief: &Brief,
        meter: &Meter,
    ) -> Result<(String, Vec<String>), Outcome> {
        let agent = self.member(Role::Worker, Some(&assignment.atom))?;
        let read =
            |value: &Value| WorkerAnswer::read(value).map(drop).map_err(|unreadable| unreadable.reason);
        let report = self.ask(&Asking {
            job: &assignment.job,
            agent,
            brief,
            read: &read,
            lent,
            wall: wall(&assignment.state),
            switch: &attempt.switch,
            meter,
        });
        let answer = answered(agent, report)?;
        let answer = WorkerAnswer::read(&answer).map_err(|unreadable| failed(unreadable.reason))?;
        let changed = self.ground.changed(lent).map_err(|error| lost(error.to_string()))?;
        let touched = protected(&assignment.state.objective.protected, &changed);
        if !touched.is_empty() {
            return Err(failed(format!("it changed what is protected: {}", touched.join(", "))));
        }
        if !answer.success {
            let reason = answer.reason.unwrap_or(answer.summary);
            return Err(if answer.too_large { Outcome::TooLarge { reason } } else { failed(reason) });
        }
        let artifacts = if answer.artifacts.is_empty() { first_artifacts(changed) } else { answer.artifacts };
        Ok((answer.summary, artifacts))
    }

    /// An agent looks at an atom.
    pub(super) fn probe(
        &self,
        attempt: &Attempt,
        assignment: &Assignment,
        lent: &Lent,
        brief: &Brief,
        meter: &Meter,
    ) -> Outcome {
        let agent = match self.member(Role::Probe, Some(&assignment.atom)) {
            Ok(agent) => agent,
            Err(outcome) => return outcome,
        };
        let read = |value: &Value| ProbeAnswer::read(value).map(drop).map_err(|unreadable| unreadable.reason);
        let asking = Asking {
            job: &assignment.job,
            agent,
            brief,
            read: &read,
            lent,
            wall: wall(&assignment.state),
            switch: &attempt.switch,
            meter,
        };
        let answer = match self.ask_reader(&asking) {
            Ok(report) => answered(agent, report),
            Err(reason) => return failed(reason),
        };
        let answer = answer
            .and_then(|answer| ProbeAnswer::read(&answer).map_err(|unreadable| failed(unreadable.reason)));
        match answer {
            Ok(ProbeAnswer { feasible, findings, cost_estimate }) => Outcome::Probed {
                feasible: if feasible { Feasibility::Feasible } else { Feasibility::Infeasible },
                findings,
                cost: cost_estimate as Option<Cost>,
            },
            Err(outcome) => outcome,
        }
    }

    /// The coordinator agent is asked for another plan.
    pub(super) fn replan(&self, attempt: &Attempt, job: &JobId, brief: &Brief, state: &State) {
        let meter = Meter::default();
        let answer = {
            let _tree = self.lock_shared_tree();
            self.replanned(attempt, job, brief, state, &meter)
        };
        self.send(Message::Replanned { job: job.clone(), answer, usage: meter.take() });
    }

    fn replanned(
        &self,
        attempt: &Attempt,
        job: &JobId,
        brief: &Brief,
        state: &State,
        meter: &Meter,
    ) -> Answer {
        let no = |reason: String| Answer::Failed { reason };
        let Some(agent) = self.config.team.member(Role::Coordinator, None) else {
            return no("there is no coordinator agent".into());
        };
        let work = Work { atom: AtomId::new(REPLAN), attempt: job.attempt };
        let lent = match self.ground.lend(&work) {
            Ok(lent) => lent,
            Err(error) => return no(error.to_string()),
        };
        let read = |value: &Value| read_plan_change(value).map(drop).map_err(|unreadable| unreadable.reason);
        let asking = Asking {
            job,
            agent,
            brief,
            read: &read,
            lent: &lent,
            wall: wall(state),
            switch: &attempt.switch,
            meter,
        };
        let asked = self.ask_reader(&asking);
        self.give_back(lent, End::Discarded { reason: "a plan leaves nothing".into() });
        let report = match asked {
            Ok(report) => report,
            Err(reason) => return no(reason),
        };
        match answered(agent, report) {
            Ok(answer) => match read_plan_change(&answer) {
                Ok(change) => Answer::Plan(change),
                Err(unreadable) => no(unreadable.reason),
            },
            Err(Outcome::Refused { reason, retry_after }) => Answer::Refused { reason, retry_after },
            Err(Outcome::NotLoggedIn { reason }) => Answer::NotLoggedIn { reason },
            Err(Outcome::Failed { reason } | Outcome::TooLarge { reason } | Outcome::Lost { reason }) => {
                no(reason)
            }
            Err(Outcome::Done { .. } | Outcome::Probed { .. }) => no("it answered as somebody else".into()),
        }
    }

    /// Asks somebody who may only read, and looks whether anything was written all the same: then the answer is worth
    /// nothing. The tree is thrown away in any case.
    fn ask_reader(&self, asking: &Asking<'_>) -> Result<Report, String> {
        let before = self.whole(asking.lent);
        let report = self.ask(asking);
        let written = match self.ground.trees() {
            Kind::Worktrees | Kind::InPlace => {
                self.ground.changed(asking.lent).map_err(|error| error.to_string())?
            }
            Kind::Unisolated => match (before, self.whole(asking.lent)) {
                (Some(before), Some(after)) if before.hash() != after.hash() => before.changed(&after),
                _ => Vec::new(),
            },
        };
        if written.is_empty() {
            return Ok(report);
        }
        let named: Vec<String> = written.iter().take(PATHS_NAMED).cloned().collect();
        let role = asking.brief.role.word();
        Err(format!("the {role} wrote, although it may only read: {}", named.join(", ")))
    }

    /// Where nothing is isolated only the whole tells whether something was written.
    fn whole(&self, lent: &Lent) -> Option<Tree> {
        match self.ground.trees() {
            Kind::Unisolated => {
                let project = Project { root: lent.root().to_path_buf(), ..self.config.project.clone() };
                Tree::of(&project).ok()
            }
            Kind::Worktrees | Kind::InPlace => None,
        }
    }

    fn member(&self, role: Role, atom: Option<&Atom>) -> Result<&Agent, Outcome> {
        self.config.team.member(role, atom).ok_or_else(|| lost("it needs an agent, and there is none".into()))
    }
}

/// The answer, or what its absence means for the attempt.
pub(super) fn answered(agent: &Agent, report: Report) -> Result<Value, Outcome> {
    let name = &agent.name;
    Err(match report.said {
        Said::Answer(answer) => return Ok(answer),
        Said::Wrong { reason } => failed(format!("{name} gave no valid answer: {reason}")),
        Said::Limited { reason, retry_after } => {
            let retry_after = retry_after.map(|after| Span::from_seconds(after.as_secs().max(1)));
            Outcome::Refused { reason: format!("{name}: {reason}"), retry_after }
        }
        Said::Unreachable { reason } => {
            Outcome::Refused { reason: format!("{name} cannot reach its model: {reason}"), retry_after: None }
        }
        Said::Unauthenticated { reason } => {
            let hint = &agent.profile.login.hint;
            let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
            Outcome::NotLoggedIn { reason: format!("{name} is not logged in ({reason}){hint}") }
        }
        Said::Failed { reason } => failed(format!("{name}: {reason}")),
        Said::OutOfTime { reason } => failed(format!("{name}: {reason}")),
        Said::Killed => lost("it was killed".into()),
        Said::NotStarted { reason } => lost(format!("{name} was not started: {reason}")),
    })
}

fn wall(state: &State) -> Duration {
    Duration::from_secs(state.constraints().agent_timeout().seconds().max(1))
}

fn failed(reason: String) -> Outcome {
    Outcome::Failed { reason }
}

fn lost(reason: String) -> Outcome {
    Outcome::Lost { reason }
}
