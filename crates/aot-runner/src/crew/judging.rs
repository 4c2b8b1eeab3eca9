//! Judges for the crew: a command, or an agent that reads and may run checks in a tree that is thrown away. An agent
//! cannot change what it judges. Each time a judge is asked is an agent run (D8).

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use aot_core::brief::{JudgeAnswer, Role};
use aot_core::coordinator::{OnRefusedStart, Usage};
use aot_core::rules::backoff::{FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS};
use aot_core::state::{AgentRun, AtomId};
use aot_core::verdict::Excerpt;
use serde_json::Value;

use super::asking::{Throttle, run_of};
use super::attempt::PATHS_NAMED;
use super::meter::{Meter, ReportedUsage};
use super::workers::Workers;
use super::{JudgeCommand, ScoreSource};
use crate::agents::{Agent, AgentEvent, AgentLauncher, AgentOutcome, Question, Report, ask_again};
use crate::checks::handed_in::HandedInScores;
use crate::checks::judge::{self, CommandJudge, Judge, JudgeReply, Request};
use crate::message::{Message, Notice};
use crate::process::Switch;
use crate::tree::{End, Lent, Tree, TreeKind, Work};

/// The tree of a judge has this name instead of an atom's.
const JUDGE: &str = "judge";

/// The first and the longest wait for a limit whose end the agent does not report: those of a parked loop.
const FIRST_WAIT: Duration = Duration::from_secs(FIRST_WAIT_SECONDS);
const LONGEST_WAIT: Duration = Duration::from_secs(LONGEST_WAIT_SECONDS);

impl Workers {
    /// Does something with the judge, if there is one.
    pub(super) fn with_judge<T>(
        &self,
        switch: &Switch,
        meter: &Meter,
        name: String,
        wall: Duration,
        work: impl FnOnce(Option<&dyn Judge>) -> T,
    ) -> T {
        if let Some(JudgeCommand { command, time }) = self.config.judge.clone() {
            let judge = CommandJudge {
                command,
                time: time.unwrap_or(judge::TIME),
                guard: self.config.guard.under(switch),
            };
            return work(Some(&CountedJudge { judge: &judge, meter }));
        }
        let Some(agent) = self.config.team.member(Role::Judge, None) else {
            return match self.config.scores {
                ScoreSource::Nowhere => work(None),
                ScoreSource::HandedIn => {
                    let (sidecar, guard) = (self.config.project.sidecar.clone(), self.config.guard.clone());
                    work(Some(&HandedInScores { sidecar, guard }))
                }
            };
        };
        let asked = AtomicU32::new(1);
        let judge = AgentJudge { workers: self, agent, switch, meter, name, wall, asked };
        work(Some(&CountedJudge { judge: &judge, meter }))
    }

    fn throwaway(&self) -> Option<ThrowawayTree<'_>> {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let attempt = COUNT.fetch_add(1, Ordering::Relaxed);
        let lent = self.ground.lend(&Work { atom: AtomId::new(JUDGE), attempt }).ok()?;
        Some(ThrowawayTree { workers: self, lent: Some(lent) })
    }
}

struct AgentJudge<'j> {
    workers: &'j Workers,
    agent: &'j Agent,
    switch: &'j Switch,
    meter: &'j Meter,
    /// The beginning of the transcripts' names.
    name: String,
    wall: Duration,
    asked: AtomicU32,
}

impl fmt::Debug for AgentJudge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentJudge").field("agent", &self.agent.name).finish_non_exhaustive()
    }
}

impl Judge for AgentJudge<'_> {
    fn name(&self) -> String {
        self.agent.name.clone()
    }

    fn ask(&self, request: &Request<'_>) -> JudgeReply {
        let before = Tree::of(request.project, &self.workers.config.guard).ok();
        let report = self.ask_patiently(request);
        let after = Tree::of(request.project, &self.workers.config.guard).ok();
        let beside = Excerpt::default();
        if let (Some(before), Some(after)) = (before, after)
            && before.hash() != after.hash()
        {
            let changed: Vec<String> = before.changed(&after).into_iter().take(PATHS_NAMED).collect();
            let (name, changed) = (&self.agent.name, changed.join(", "));
            let why = format!("while {name} judged, what it judges was changed: {changed}");
            return JudgeReply::Nothing { why, beside };
        }
        reply_of(self.agent, report.outcome)
    }
}

fn reply_of(agent: &Agent, outcome: AgentOutcome) -> JudgeReply {
    let (why, beside) = (agent.explain(&outcome), Excerpt::default());
    match outcome {
        AgentOutcome::Answer(answer) => JudgeReply::Answer { text: answer.to_string(), beside },
        AgentOutcome::InvalidAnswer { .. } | AgentOutcome::Failed { .. } | AgentOutcome::TimedOut { .. } => {
            JudgeReply::Nothing { why, beside }
        }
        AgentOutcome::RateLimited { .. }
        | AgentOutcome::Unreachable { .. }
        | AgentOutcome::Unauthenticated { .. }
        | AgentOutcome::Unusable { .. }
        | AgentOutcome::Killed
        | AgentOutcome::Lost { .. }
        | AgentOutcome::NotStarted { .. } => JudgeReply::Unable { why, beside },
    }
}

/// A judge for whoever only looks: an agent that writes nothing.
#[derive(Debug)]
pub struct LookingJudge {
    pub agent: Agent,
    pub launcher: AgentLauncher,
    pub wall: Duration,
    pub idle: Duration,
}

impl Judge for LookingJudge {
    fn name(&self) -> String {
        self.agent.name.clone()
    }

    fn ask(&self, request: &Request<'_>) -> JudgeReply {
        let read = |value: &Value| {
            JudgeAnswer::read(request.quality, value).map(drop).map_err(|unreadable| unreadable.reason)
        };
        let mut brief = request.brief.clone();
        brief.text.extend(request.refused.map(ask_again));
        let switch = Switch::default();
        let question = Question {
            idle: Some(self.idle),
            repeats: 0,
            transcript: format!("verify-{}.judge", jiff::Timestamp::now().as_millisecond()),
            ..Question::new(&self.agent, &brief, &read, &request.project.root, self.wall, &switch)
        };
        let (report, _) = self.launcher.ask(&question);
        reply_of(&self.agent, report.outcome)
    }
}

impl AgentJudge<'_> {
    /// Asks until no limit is in the way, if the loop waits for limits.
    fn ask_patiently(&self, request: &Request<'_>) -> Report {
        let mut pause = FIRST_WAIT;
        loop {
            let report = self.ask_once(request);
            let after = match &report.outcome {
                AgentOutcome::RateLimited { retry_after, .. } => retry_after.unwrap_or(pause),
                AgentOutcome::Unreachable { .. } => pause,
                _ => return report,
            };
            let why = self.agent.explain(&report.outcome);
            if self.workers.config.on_refused_start != OnRefusedStart::Park
                || self.wait(after.min(LONGEST_WAIT), &why).is_err()
            {
                return report;
            }
            pause = (pause * 2).min(LONGEST_WAIT);
        }
    }

    fn ask_once(&self, request: &Request<'_>) -> Report {
        // What an atom's attempt made is in no commit yet; there the judge reads only.
        let has_commit = request.brief.atom.is_none() && self.workers.ground.trees() == TreeKind::Worktrees;
        let tree = has_commit.then(|| self.workers.throwaway()).flatten();
        let lent = tree.as_ref().and_then(|tree| tree.lent.as_ref());
        let mut brief = request.brief.clone();
        if let Some(reason) = request.refused {
            brief.text.push_str(&ask_again(reason));
        }
        let read = |value: &Value| {
            JudgeAnswer::read(request.quality, value).map(drop).map_err(|unreadable| unreadable.reason)
        };
        let reported = ReportedUsage::default();
        let rate = Throttle::default();
        let listener = |event: AgentEvent<'_>| match event {
            AgentEvent::Usage(used) if rate.allows_one_more() => {
                self.workers.spend(self.meter, &reported, used);
            }
            AgentEvent::Usage(_)
            | AgentEvent::Activity(_)
            | AgentEvent::Text(_)
            | AgentEvent::ToolError(_) => {}
        };
        let folder = lent.map_or(request.project.root.as_path(), Lent::root);
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let question = Question {
            writable: lent.iter().map(|lent| lent.top().to_path_buf()).collect(),
            idle: Some(self.workers.config.agent_idle),
            // The checker asks once more by itself (D19).
            repeats: 0,
            transcript: format!("{}.judge{number}", self.name),
            listener: &listener,
            ..Question::new(self.agent, &brief, &read, folder, self.wall, self.switch)
        };
        let began = Instant::now();
        let report = self.workers.launch(None, &question, self.meter);
        self.meter.add(reported.since_last(report.used));
        let took = began.elapsed();
        let atom = request.brief.atom.clone();
        let run = AgentRun { atom, ..run_of(&question, &report, took) };
        self.workers.send(Message::AgentRan { job: self.meter.job.clone(), run });
        let (agent, used) = (self.agent.name.clone(), report.used);
        self.workers.notice(Notice::AgentEnded { job: None, agent, used, took });
        report
    }

    /// Fails if the switch was turned off meanwhile.
    fn wait(&self, span: Duration, reason: &str) -> Result<(), ()> {
        self.workers.note(format!("the judge is asked again in {} s: {reason}", span.as_secs()));
        let (sender, turned_off) = mpsc::channel();
        let _wire = self.switch.connect(move || {
            // The receiver lives as long as the wire.
            let _ = sender.send(());
        });
        turned_off.recv_timeout(span).map_or(Ok(()), |()| Err(()))
    }
}

/// A tree that the judge may change. It is given back on drop.
struct ThrowawayTree<'d> {
    workers: &'d Workers,
    lent: Option<Lent>,
}

impl Drop for ThrowawayTree<'_> {
    fn drop(&mut self) {
        if let Some(lent) = self.lent.take() {
            self.workers.give_back(lent, End::Discarded { reason: "the tree of a judge is not kept".into() });
        }
    }
}

#[derive(Debug)]
struct CountedJudge<'c> {
    judge: &'c dyn Judge,
    meter: &'c Meter,
}

impl Judge for CountedJudge<'_> {
    fn name(&self) -> String {
        self.judge.name()
    }

    fn ask(&self, request: &Request<'_>) -> JudgeReply {
        self.meter.add(Usage { agent_runs: 1, ..Usage::default() });
        self.judge.ask(request)
    }
}
