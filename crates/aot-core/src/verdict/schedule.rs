//! Which check is run when: fast where it is safe, alone where it counts. Runs none.
//!
//! `command` and `file` run together; what does not pass runs once more alone, in the written order, since one check may
//! build what the next looks for and two may fight over a folder; `not_command` and `not_file` always run alone, after
//! the others; a judge is asked only when everything else would pass. The alternatives of an `any_of` are tried in the
//! written order, and none after the first that passes.

use std::num::NonZeroUsize;

use super::{Node, Outcome, Sheet};
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
pub enum Next {
    Start(usize),
    /// Something runs whose end decides.
    Wait,
    Done,
}

#[derive(Clone, Debug)]
pub struct Schedule<'s> {
    sheet: &'s Sheet,
    jobs: Jobs,
    phase: Phase,
    leaves: Vec<Progress>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Together,
    Again,
    Alone,
    Judge,
    Over,
}

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    runs: u32,
    running: bool,
    outcome: Option<Outcome>,
}

impl<'s> Schedule<'s> {
    /// `said` is what persons have confirmed.
    pub fn new(sheet: &'s Sheet, jobs: Jobs, said: impl Fn(usize) -> Option<Outcome>) -> Schedule<'s> {
        let progress = |place| Progress { outcome: said(place), ..Progress::default() };
        let leaves = (0..sheet.leaves.len()).map(progress).collect();
        Schedule { sheet, jobs, phase: Phase::Together, leaves }
    }

    pub fn what_next(&mut self) -> Next {
        loop {
            let running = self.leaves.iter().filter(|leaf| leaf.running).count();
            let room = match self.phase {
                Phase::Together => self.jobs.0.get(),
                Phase::Again | Phase::Alone | Phase::Judge => 1,
                Phase::Over => return Next::Done,
            };
            let mut due = Vec::new();
            if self.phase != Phase::Judge || self.folded() == Outcome::Pending {
                self.collect(&self.sheet.root, &mut due);
            }
            match due.first() {
                Some(place) if running < room => {
                    let leaf = &mut self.leaves[*place];
                    leaf.running = true;
                    leaf.runs += 1;
                    return Next::Start(*place);
                }
                _ if running > 0 => return Next::Wait,
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

    fn following(&self) -> Phase {
        match self.phase {
            Phase::Together => {
                let ran = self.leaves.iter().filter(|leaf| leaf.runs > 0).count();
                // What ran alone has counted already.
                if self.jobs.0.get() > 1 && ran > 1 { Phase::Again } else { Phase::Alone }
            }
            Phase::Again => Phase::Alone,
            Phase::Alone => Phase::Judge,
            Phase::Judge | Phase::Over => Phase::Over,
        }
    }

    /// The checks that can start in this phase, in the written order. Says whether the part is still at work in it.
    fn collect(&self, node: &Node, due: &mut Vec<usize>) -> bool {
        match node {
            Node::Leaf(place) => {
                if self.leaves[*place].running {
                    return true;
                }
                let is_due = self.is_due(*place);
                if is_due {
                    due.push(*place);
                }
                is_due
            }
            Node::All { inner, .. } => inner.iter().fold(false, |open, node| self.collect(node, due) | open),
            Node::Any { inner, .. } => {
                let outcome = node.fold(&|place| self.leaves[place].outcome);
                outcome != Outcome::Pass && inner.iter().any(|node| self.collect(node, due))
            }
        }
    }

    fn is_due(&self, place: usize) -> bool {
        let leaf = self.leaves[place];
        let phase = match self.sheet.leaves[place].check {
            Check::Command { .. } | Check::File { .. } => Phase::Together,
            Check::NotCommand { .. } | Check::NotFile { .. } => Phase::Alone,
            Check::Quality(_) => Phase::Judge,
            // Only a person answers it.
            Check::Assertion { .. } => return false,
        };
        match self.phase {
            Phase::Again => phase == Phase::Together && leaf.runs == 1 && leaf.outcome != Some(Outcome::Pass),
            now => phase == now && leaf.runs == 0,
        }
    }
}
