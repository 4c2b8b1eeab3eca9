//! Judges for the crew: a command, or an agent that reads and may run checks in a tree that is thrown away. Each time
//! one is asked is an agent run (D8).

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aot_core::brief::{Brief, Role};
use aot_core::coordinator::{OnRefusedStart, Usage};
use aot_core::state::AtomId;

use super::meter::{Meter, Told};
use super::{Desk, JudgeCommand, Word};
use crate::agents::judge::{AgentJudge, JudgeWord, Throwaway};
use crate::checks::judge::{self, Asked, CommandJudge, Judge, Request};
use crate::process::Switch;
use crate::tree::{End, Kind, Lent, Work};

/// The tree of a judge has this name instead of an atom's.
const JUDGE: &str = "judge";

impl Desk {
    /// Does something with the judge, if there is one.
    pub(super) fn with_judge<T>(
        &self,
        switch: &Switch,
        meter: &Meter,
        name: String,
        wall: Duration,
        work: impl FnOnce(Option<&dyn Judge>) -> T,
    ) -> T {
        if let Some(JudgeCommand { command, time }) = self.kit.judge.clone() {
            let judge = CommandJudge {
                command,
                time: time.unwrap_or(judge::TIME),
                shell: self.kit.shell.clone(),
                guard: self.kit.guard.under(switch),
            };
            return work(Some(&Counting { judge: &judge, meter }));
        }
        let Some(agent) = self.kit.team.member(Role::Judge, None) else { return work(None) };
        let told = Mutex::new(Told::default());
        let hear = |word: JudgeWord<'_>| {
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            match word {
                JudgeWord::Note(text) => self.note(text),
                JudgeWord::Doing(_) => {}
                JudgeWord::Used(used) => {
                    let usage = told.rest(used);
                    if usage != Usage::default() {
                        self.say(Word::Spent { usage });
                    }
                }
                JudgeWord::Ended { used, took } => {
                    meter.add(told.rest(used));
                    *told = Told::default();
                    self.say(Word::Judged { agent: agent.name.clone(), used, took });
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
            station: &self.kit.station,
            agent,
            switch,
            project: &self.kit.project,
            wall,
            idle: self.kit.idle,
            waits: self.kit.on_refused_start == OnRefusedStart::Park,
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
        Some(Thrown { desk: self, lent: Some(lent) })
    }
}

struct Thrown<'d> {
    desk: &'d Desk,
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
            self.desk.give_back(lent, End::Discarded { reason: "a judge leaves nothing".into() });
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
