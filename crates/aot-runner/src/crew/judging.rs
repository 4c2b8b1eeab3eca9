//! Judges for the crew: a command, or an agent that reads and may run checks in a tree that is thrown away. Each time
//! one is asked is an agent run (D8).

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aot_core::brief::{Brief, Role};
use aot_core::coordinator::{OnRefusedStart, Usage};
use aot_core::state::AtomId;

use super::meter::{Meter, ReportedUsage};
use super::{JudgeCommand, Message, Workers};
use crate::agents::judge::{AgentJudge, JudgeWord, Throwaway};
use crate::checks::judge::{self, Asked, CommandJudge, Judge, Request};
use crate::process::Switch;
use crate::tree::{End, Kind, Lent, Work};

/// The tree of a judge has this name instead of an atom's.
const JUDGE: &str = "judge";

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
                shell: self.config.shell.clone(),
                guard: self.config.guard.under(switch),
            };
            return work(Some(&Counting { judge: &judge, meter }));
        }
        let Some(agent) = self.config.team.member(Role::Judge, None) else { return work(None) };
        let reported = Mutex::new(ReportedUsage::default());
        let hear = |word: JudgeWord<'_>| {
            let mut reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
            match word {
                JudgeWord::Note(text) => self.note(text),
                JudgeWord::Doing(_) => {}
                JudgeWord::Used(used) => {
                    let usage = reported.since_last(used);
                    if usage != Usage::default() {
                        self.send(Message::Spent { usage });
                    }
                }
                JudgeWord::Ended { used, took } => {
                    meter.add(reported.since_last(used));
                    *reported = ReportedUsage::default();
                    self.send(Message::Judged { agent: agent.name.clone(), used, took });
                }
            }
        };
        let tree = |brief: &Brief| -> Option<Box<dyn Throwaway + '_>> {
            // What an atom's attempt made is in no commit yet; there the judge reads only.
            (brief.atom.is_none() && self.ground.trees() == Kind::Worktrees)
                .then(|| self.throwaway())
                .flatten()
                .map(|tree| Box::new(tree) as Box<dyn Throwaway>)
        };
        let judge = AgentJudge {
            station: &self.config.station,
            agent,
            switch,
            project: &self.config.project,
            wall,
            idle: self.config.idle,
            waits: self.config.on_refused_start == OnRefusedStart::Park,
            name,
            asked: AtomicU32::new(1),
            tree: &tree,
            hear: &hear,
        };
        work(Some(&Counting { judge: &judge, meter }))
    }

    fn throwaway(&self) -> Option<Thrown<'_>> {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let attempt = COUNT.fetch_add(1, Ordering::Relaxed);
        let lent = self.ground.lend(&Work { atom: AtomId::new(JUDGE), attempt }).ok()?;
        Some(Thrown { workers: self, lent: Some(lent) })
    }
}

struct Thrown<'d> {
    workers: &'d Workers,
    lent: Option<Lent>,
}

impl Throwaway for Thrown<'_> {
    fn root(&self) -> &Path {
        self.lent.as_ref().map_or(Path::new(""), Lent::root)
    }

    fn top(&self) -> &Path {
        self.lent.as_ref().map_or(Path::new(""), Lent::top)
    }
}

impl Drop for Thrown<'_> {
    fn drop(&mut self) {
        if let Some(lent) = self.lent.take() {
            self.workers.give_back(lent, End::Discarded { reason: "a judge leaves nothing".into() });
        }
    }
}

#[derive(Debug)]
struct Counting<'c> {
    judge: &'c dyn Judge,
    meter: &'c Meter,
}

impl Judge for Counting<'_> {
    fn name(&self) -> String {
        self.judge.name()
    }

    fn ask(&self, request: &Request<'_>) -> Asked {
        self.meter.add(Usage { agent_runs: 1, ..Usage::default() });
        self.judge.ask(request)
    }
}
