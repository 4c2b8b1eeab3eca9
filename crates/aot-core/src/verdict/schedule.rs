//! Which check is run when: fast where it is safe, alone where it counts. Runs none.
//!
//! `command` and `file` run together; what does not pass runs once more alone, in the written order, since one check may
//! build what the next looks for and two may fight over a folder; `not_command` and `not_file` always run alone, after
//! the others; a judge is asked only when everything else would pass. The alternatives of an `any_of` are tried in the
//! written order, and none after the first that passes.

use std::num::NonZeroUsize;

use super::{CheckNode, CheckTree, Outcome};
use crate::state::Check;

/// How many may run at a time. One is strictly sequential: then everything ran alone, and nothing runs twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jobs(pub NonZeroUsize);

impl Default for Jobs {
    fn default() -> Jobs {
        Jobs(NonZeroUsize::new(8).expect("eight is not zero"))
    }
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum NextCheck {
    Start(usize),
    /// Something runs whose end decides.
    Wait,
    Done,
}

#[derive(Clone, Debug)]
pub struct Schedule<'s> {
    sheet: &'s CheckTree,
    jobs: Jobs,
    phase: SchedulePhase,
    leaves: Vec<CheckProgress>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SchedulePhase {
    Together,
    Again,
    Alone,
    Judge,
    Over,
}

#[derive(Clone, Copy, Debug, Default)]
struct CheckProgress {
    runs: u32,
    running: bool,
    outcome: Option<Outcome>,
}

impl<'s> Schedule<'s> {
    /// `confirmed` gives the outcomes of assertions that a person decided.
    pub fn new(
        sheet: &'s CheckTree,
        jobs: Jobs,
        confirmed: impl Fn(usize) -> Option<Outcome>,
    ) -> Schedule<'s> {
        let progress = |place| CheckProgress { outcome: confirmed(place), ..CheckProgress::default() };
        let leaves = (0..sheet.leaves.len()).map(progress).collect();
        Schedule { sheet, jobs, phase: SchedulePhase::Together, leaves }
    }

    pub fn what_next(&mut self) -> NextCheck {
        loop {
            let running = self.leaves.iter().filter(|leaf| leaf.running).count();
            let room = match self.phase {
                SchedulePhase::Together => self.jobs.0.get(),
                SchedulePhase::Again | SchedulePhase::Alone | SchedulePhase::Judge => 1,
                SchedulePhase::Over => return NextCheck::Done,
            };
            let mut due = Vec::new();
            if self.phase != SchedulePhase::Judge || self.folded() == Outcome::Pending {
                self.collect(&self.sheet.root, &mut due);
            }
            match due.first() {
                Some(place) if running < room => {
                    let leaf = &mut self.leaves[*place];
                    leaf.running = true;
                    leaf.runs += 1;
                    return NextCheck::Start(*place);
                }
                _ if running > 0 => return NextCheck::Wait,
                _ => self.phase = self.following(),
            }
        }
    }

    pub fn ended(&mut self, place: usize, outcome: Outcome) {
        let leaf = &mut self.leaves[place];
        leaf.running = false;
        leaf.outcome = Some(outcome);
    }

    /// How often a check has been started.
    pub fn runs(&self, place: usize) -> u32 {
        self.leaves[place].runs
    }

    pub fn outcome(&self, place: usize) -> Option<Outcome> {
        self.leaves[place].outcome
    }

    pub fn folded(&self) -> Outcome {
        self.sheet.fold(|place| self.leaves[place].outcome)
    }

    fn following(&self) -> SchedulePhase {
        match self.phase {
            SchedulePhase::Together => {
                let ran = self.leaves.iter().filter(|leaf| leaf.runs > 0).count();
                // What ran alone has counted already.
                if self.jobs.0.get() > 1 && ran > 1 { SchedulePhase::Again } else { SchedulePhase::Alone }
            }
            SchedulePhase::Again => SchedulePhase::Alone,
            SchedulePhase::Alone => SchedulePhase::Judge,
            SchedulePhase::Judge | SchedulePhase::Over => SchedulePhase::Over,
        }
    }

    /// The checks that can start in this phase, in the written order. Says whether the part is still at work in it.
    fn collect(&self, node: &CheckNode, due: &mut Vec<usize>) -> bool {
        match node {
            CheckNode::Leaf(place) => {
                if self.leaves[*place].running {
                    return true;
                }
                let is_due = self.is_due(*place);
                if is_due {
                    due.push(*place);
                }
                is_due
            }
            CheckNode::All { inner, .. } => {
                inner.iter().fold(false, |open, node| self.collect(node, due) | open)
            }
            CheckNode::Any { inner, .. } => {
                let outcome = node.fold(&|place| self.leaves[place].outcome);
                outcome != Outcome::Pass && inner.iter().any(|node| self.collect(node, due))
            }
        }
    }

    fn is_due(&self, place: usize) -> bool {
        let leaf = self.leaves[place];
        let phase = match self.sheet.leaves[place].check {
            Check::Command { .. } | Check::File { .. } => SchedulePhase::Together,
            Check::NotCommand { .. } | Check::NotFile { .. } => SchedulePhase::Alone,
            Check::Quality(_) => SchedulePhase::Judge,
            // Only a person answers it.
            Check::Assertion { .. } => return false,
        };
        match self.phase {
            SchedulePhase::Again => {
                phase == SchedulePhase::Together && leaf.runs == 1 && leaf.outcome != Some(Outcome::Pass)
            }
            now => phase == now && leaf.runs == 0,
        }
    }
}
