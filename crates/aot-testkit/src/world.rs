//! Everything outside of a coordinator, without a process or a file: a clock that is set, the jobs that run, the
//! branch they land on, and the state file. It performs effects and keeps what a real world would keep. What comes of
//! a job is not decided here: whoever drives the world draws it, or tries everything.

use aot_core::coordinator::{Effect, Job, JobId, Task, UnrecordedLanding};
use aot_core::rules::certificate::Certificate;
use aot_core::rules::{Change, apply};
use aot_core::state::{Atom, AtomId, AtomStatus, Binding, Graph, State};
use jiff::Timestamp;
use std::sync::Arc;

use crate::audit::Violation;

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    Working,
    /// It has ended, and was not asked to land yet.
    Reported,
    Landing,
    /// Its start was refused; it is to begin again.
    Parked,
    /// The file shows it in progress, and the process that ran it is gone.
    Orphaned,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Flight {
    pub job: Job,
    pub phase: Phase,
}

/// What an atom left on the branch.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    pub atom: AtomId,
    pub attempt: u32,
    pub binding: Binding,
}

#[derive(Clone, Debug)]
pub struct World {
    pub now: Timestamp,
    recorded: State,
    flights: Vec<Flight>,
    verifying: Option<u32>,
    wake: Option<Timestamp>,
    branch: Vec<Commit>,
    halted: Option<Certificate>,
}

impl World {
    pub fn new(state: State, now: Timestamp) -> World {
        World {
            now,
            recorded: state,
            flights: Vec::new(),
            verifying: None,
            wake: None,
            branch: Vec::new(),
            halted: None,
        }
    }

    /// The state file: what a crash leaves.
    pub fn recorded(&self) -> &State {
        &self.recorded
    }

    pub fn flights(&self) -> &[Flight] {
        &self.flights
    }

    pub fn flight(&self, id: &JobId) -> Option<&Flight> {
        self.flights.iter().find(|flight| flight.job.id == *id)
    }

    /// The evaluation of the base case that is under way.
    pub fn verifying(&self) -> Option<u32> {
        self.verifying
    }

    pub fn wake(&self) -> Option<Timestamp> {
        self.wake
    }

    pub fn branch(&self) -> &[Commit] {
        &self.branch
    }

    pub fn halted(&self) -> Option<&Certificate> {
        self.halted.as_ref()
    }

    pub fn pass(&mut self, seconds: u64) {
        let later = self.now.as_second() + seconds as i64;
        self.now = Timestamp::from_second(later).expect("lives are shorter than calendars");
    }

    /// One change of the state file.
    pub fn write(&mut self, change: &Change) -> Result<(), Violation> {
        apply(&mut self.recorded, change, self.now)
            .map_err(|error| Violation::new("what is recorded fits", "D28", format!("{change:?}: {error}")))
    }

    /// Another process or a person wrote the state file.
    pub fn replace(&mut self, state: State) {
        self.recorded = state;
    }

    /// Performs all that is no record.
    pub fn perform(&mut self, effect: &Effect) -> Result<(), Violation> {
        match effect {
            Effect::Record(changes) => return changes.iter().try_for_each(|change| self.write(change)),
            Effect::Start(job) => {
                self.flights.retain(|flight| flight.job.id != job.id);
                self.flights.push(Flight { job: job.clone(), phase: Phase::Working });
            }
            Effect::Kill(id) => {
                let before = self.flights.len();
                self.flights.retain(|flight| flight.job.id != *id);
                if self.flights.len() == before {
                    return Err(Violation::new("only what runs is killed", "D13", format!("{id:?}")));
                }
            }
            Effect::Land(id) => {
                let asked = self.flights.iter_mut().find(|flight| flight.job.id == *id);
                match asked {
                    Some(flight) if flight.phase == Phase::Reported => flight.phase = Phase::Landing,
                    Some(_) | None => {
                        return Err(Violation::new("only what is done lands", "D23", format!("{id:?}")));
                    }
                }
            }
            Effect::Verify { number } => self.verifying = Some(*number),
            Effect::Revert { atom, commit } => {
                self.branch.retain(|kept| {
                    kept.atom != *atom || kept.binding.commit.as_deref() != Some(commit.as_str())
                });
            }
            Effect::WakeAt(at) => self.wake = Some(*at),
            Effect::Refuse(_) => {}
            Effect::Halt(certificate) => self.halted = Some((**certificate).clone()),
        }
        Ok(())
    }

    /// A job has said its last word. What is done stays until it is landed or killed.
    pub fn report(&mut self, id: &JobId) {
        if let Some(flight) = self.flights.iter_mut().find(|flight| flight.job.id == *id) {
            flight.phase = Phase::Reported;
        }
    }

    /// What a host handed in could not be landed: it has it still.
    pub fn hand_back(&mut self, id: &JobId) {
        if let Some(flight) = self.flights.iter_mut().find(|flight| flight.job.id == *id) {
            flight.phase = Phase::Working;
        }
    }

    /// A job could not be started, and waits.
    pub fn park(&mut self, id: &JobId) {
        if let Some(flight) = self.flights.iter_mut().find(|flight| flight.job.id == *id) {
            flight.phase = Phase::Parked;
        }
    }

    /// A job has ended without anything to land.
    pub fn end(&mut self, id: &JobId) {
        self.flights.retain(|flight| flight.job.id != *id);
    }

    /// The change of a job comes onto the branch.
    pub fn commit(&mut self, id: &JobId) -> Binding {
        let atom = id.task.atom().expect("only atoms land").clone();
        let commit = format!("{atom}.{}", id.attempt);
        let binding = Binding {
            summary: format!("{atom} done"),
            artifacts: Vec::new(),
            commit: Some(commit),
            unchanged: false,
        };
        self.branch.push(Commit { atom, attempt: id.attempt, binding: binding.clone() });
        binding
    }

    /// A job lands that changed nothing.
    pub fn land_unchanged(id: &JobId) -> Binding {
        let atom = id.task.atom().expect("only atoms land");
        Binding { summary: format!("{atom} looks done"), unchanged: true, ..Binding::default() }
    }

    pub fn verified(&mut self) {
        self.verifying = None;
    }

    /// A wake that comes earlier than asked for leaves the other standing.
    pub fn woke(&mut self) {
        self.wake = self.wake.filter(|at| *at > self.now);
    }

    /// The process dies with all that it had in hand. What was on the branch and in the file stays.
    pub fn crash(&mut self) {
        self.flights.clear();
        self.verifying = None;
        self.wake = None;
        self.halted = None;
    }

    /// The process of a host's command is gone, with its landing, check and evaluation. In flight is what the file shows
    /// in progress: the host's workers outlive the command.
    pub fn command_ended(&mut self) {
        let graph = Graph::new(&self.recorded);
        let in_progress = |atom: &&Arc<Atom>| atom.status == AtomStatus::InProgress;
        let flights = self.recorded.atoms.values().filter(in_progress).map(|atom| {
            let attempt = self.recorded.control.attempts.get(&atom.id).copied().unwrap_or(0);
            let index = self.recorded.atoms.get_index_of(&atom.id).expect("it is one of them");
            let (task, phase) = if graph.is_decomposed(index) {
                (Task::Check(atom.id.clone()), Phase::Orphaned)
            } else {
                (Task::Work(atom.id.clone()), Phase::Working)
            };
            let id = JobId { task, attempt };
            let job = Job { id, findings: None, return_reason: None, why: Vec::new(), refusals: Vec::new() };
            Flight { job, phase }
        });
        self.flights = flights.collect();
        self.verifying = None;
        self.wake = None;
    }

    /// What a new process finds on the branch for atoms that the file shows in progress (decision D23).
    pub fn found(&self) -> Vec<UnrecordedLanding> {
        let in_progress = |commit: &&Commit| {
            let atom = self.recorded.atoms.get(&commit.atom);
            atom.is_some_and(|atom| atom.status == AtomStatus::InProgress)
                && self.recorded.control.attempts.get(&commit.atom) == Some(&commit.attempt)
        };
        self.branch
            .iter()
            .filter(in_progress)
            .map(|commit| UnrecordedLanding {
                atom: commit.atom.clone(),
                attempt: commit.attempt,
                binding: commit.binding.clone(),
            })
            .collect()
    }
}

/// Whether a job occupies an agent: commands and checks do not.
pub fn is_agent(state: &State, task: &Task) -> bool {
    match task {
        Task::Probe(_) | Task::Replan => true,
        Task::Work(atom) => state.atoms.get(atom).is_none_or(|atom| atom.run.is_none()),
        Task::Check(_) => false,
    }
}
