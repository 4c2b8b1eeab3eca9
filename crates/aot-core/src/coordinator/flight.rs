//! What is in flight: attempts on atoms, and at most one replan. Knows who runs and how far along, and no rule.

use super::protocol::{Job, JobId, Task};
use crate::rules::bound::Rates;
use crate::rules::order::ProbeFinding;
use crate::rules::plan::ReplanReason;
use crate::state::{AtomId, AtomStatus, State};

/// One attempt on one atom, from its start to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub atom: AtomId,
    pub number: u32,
    pub stage: Stage,
    pub findings: Option<String>,
    /// Its start or its landing was refused; that is tried again when the loop is no longer parked.
    pub parked: bool,
    /// A probe has run for it: the work is its second half.
    pub probed: bool,
    /// Agent runs so far besides its own: mends, and judges.
    pub further_runs: u64,
    /// What its own probe found, while other choices are still probed.
    pub finding: Option<ProbeFinding>,
    pub parallel_probes: Vec<ParallelProbe>,
}

/// A probe of a choice beside the selected one. Its number is that of the attempt it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParallelProbe {
    pub atom: AtomId,
    state: ProbeState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ProbeState {
    Running,
    Ended(Option<ProbeFinding>),
}

impl ParallelProbe {
    pub fn new(atom: AtomId) -> ParallelProbe {
        ParallelProbe { atom, state: ProbeState::Running }
    }

    pub fn job(&self, number: u32) -> JobId {
        JobId { task: Task::Probe(self.atom.clone()), attempt: number }
    }

    pub fn end(&mut self, finding: Option<ProbeFinding>) {
        self.state = ProbeState::Ended(finding);
    }

    pub fn is_running(&self) -> bool {
        self.state == ProbeState::Running
    }

    fn finding(&self) -> Option<&ProbeFinding> {
        match &self.state {
            ProbeState::Running => None,
            ProbeState::Ended(finding) => finding.as_ref(),
        }
    }
}

/// How far along an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Probing,
    /// Probed, while choices beside it are still being probed.
    AwaitingProbes,
    Working,
    Checking,
    /// Done, while a rival of its race is landing.
    AwaitingRival,
    Landing,
}

impl Attempt {
    pub fn new(atom: AtomId, number: u32, stage: Stage) -> Attempt {
        Attempt {
            atom,
            number,
            stage,
            findings: None,
            parked: false,
            probed: false,
            further_runs: 0,
            finding: None,
            parallel_probes: Vec::new(),
        }
    }

    pub fn job(&self) -> JobId {
        let task = match self.stage {
            Stage::Probing | Stage::AwaitingProbes => Task::Probe(self.atom.clone()),
            Stage::Working | Stage::AwaitingRival | Stage::Landing => Task::Work(self.atom.clone()),
            Stage::Checking => Task::Check(self.atom.clone()),
        };
        JobId { task, attempt: self.number }
    }

    /// All that runs for it.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> {
        let own = (self.stage != Stage::AwaitingProbes).then(|| self.job());
        own.into_iter().chain(self.running_parallel_probes())
    }

    pub fn running_parallel_probes(&self) -> impl Iterator<Item = JobId> {
        self.parallel_probes.iter().filter(|probe| probe.is_running()).map(|probe| probe.job(self.number))
    }

    /// What probes found of it and of the choices beside it.
    pub fn probe_findings(&self) -> Vec<(AtomId, ProbeFinding)> {
        let own = self.finding.iter().map(|finding| (&self.atom, finding));
        let beside = self.parallel_probes.iter().filter_map(|probe| Some((&probe.atom, probe.finding()?)));
        own.chain(beside).map(|(atom, finding)| (atom.clone(), finding.clone())).collect()
    }

    /// Whether a job is what runs for it now.
    fn is(&self, job: &JobId) -> bool {
        let atom = match (&job.task, self.stage) {
            (Task::Probe(atom), Stage::Probing)
            | (Task::Work(atom), Stage::Working | Stage::AwaitingRival | Stage::Landing)
            | (Task::Check(atom), Stage::Checking) => atom,
            (Task::Probe(_) | Task::Work(_) | Task::Check(_) | Task::Replan, _) => return false,
        };
        job.attempt == self.number && *atom == self.atom
    }

    /// Agent runs that it may still begin: the work after a probe, mends, judges.
    pub fn runs_left(&self, state: &State, rates: &Rates) -> u64 {
        let is_command = state.atoms.get(&self.atom).is_some_and(|atom| atom.run.is_some());
        let after = if is_command { rates.after_command() } else { rates.after_work() };
        let further = after.saturating_sub(self.further_runs);
        match self.stage {
            Stage::Probing | Stage::AwaitingProbes => 1 + further,
            Stage::Working => further,
            Stage::Checking | Stage::AwaitingRival | Stage::Landing => further.min(rates.after_command()),
        }
    }

    pub fn is_shown_by(&self, state: &State) -> bool {
        state.atoms.get(&self.atom).is_some_and(|atom| atom.status == AtomStatus::InProgress)
            && state.control.attempts.get(&self.atom).copied().unwrap_or(0) == self.number
    }
}

/// A question to the coordinator agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replan {
    pub number: u32,
    pub why: Vec<ReplanReason>,
    pub atoms: Vec<AtomId>,
    pub parked: bool,
}

impl Replan {
    pub fn job(&self) -> JobId {
        JobId { task: Task::Replan, attempt: self.number }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flight {
    pub attempts: Vec<Attempt>,
    pub replan: Option<Replan>,
}

impl Flight {
    /// What stands in progress, taken for attempts under way.
    pub fn of(state: &State, decomposed: impl Fn(usize) -> bool) -> Flight {
        let running = state.atoms.values().enumerate().filter(|(_, a)| a.status == AtomStatus::InProgress);
        let attempts = running
            .map(|(index, atom)| {
                let number = state.control.attempts.get(&atom.id).copied().unwrap_or(0);
                let stage = if decomposed(index) { Stage::Checking } else { Stage::Working };
                Attempt::new(atom.id.clone(), number, stage)
            })
            .collect();
        Flight { attempts, replan: None }
    }

    /// What takes a slot: attempts, probes beside them, a replan.
    pub fn len(&self) -> usize {
        self.attempts.len() + self.running_parallel_probes() + usize::from(self.replan.is_some())
    }

    fn running_parallel_probes(&self) -> usize {
        self.attempts.iter().map(|attempt| attempt.running_parallel_probes().count()).sum()
    }

    /// The agents among them: a command, a check or a landing is none.
    pub fn agents(&self, state: &State) -> usize {
        let by_agent = |attempt: &&Attempt| match attempt.stage {
            Stage::Probing => true,
            Stage::Working => state.atoms.get(&attempt.atom).is_some_and(|atom| atom.run.is_none()),
            Stage::AwaitingProbes | Stage::Checking | Stage::AwaitingRival | Stage::Landing => false,
        };
        let attempts = self.attempts.iter().filter(by_agent).count();
        attempts + self.running_parallel_probes() + usize::from(self.replan.is_some())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn atoms(&self) -> Vec<AtomId> {
        self.attempts.iter().map(|attempt| attempt.atom.clone()).collect()
    }

    pub fn jobs(&self) -> Vec<JobId> {
        let attempts = self.attempts.iter().flat_map(Attempt::jobs);
        attempts.chain(self.replan.as_ref().map(Replan::job)).collect()
    }

    /// The attempt that a job belongs to; none if it was killed.
    pub fn find(&self, job: &JobId) -> Option<usize> {
        self.attempts.iter().position(|attempt| attempt.is(job))
    }

    /// The attempt that a parallel probe belongs to, and which of its probes it is.
    pub fn find_parallel_probe(&self, job: &JobId) -> Option<(usize, usize)> {
        self.attempts.iter().enumerate().find_map(|(at, attempt)| {
            let is = |probe: &ParallelProbe| probe.is_running() && probe.job(attempt.number) == *job;
            attempt.parallel_probes.iter().position(is).map(|probe| (at, probe))
        })
    }
}

pub(super) fn blank_job(id: JobId) -> Job {
    Job { id, findings: None, return_reason: None, why: Vec::new(), refusals: Vec::new() }
}
