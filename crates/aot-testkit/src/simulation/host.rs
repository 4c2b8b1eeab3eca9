//! A host's session drives the loop: one process for each command, which takes the file up, handles its event and what
//! follows at once (a landing, a check, an evaluation), and ends. Between two commands only the file remembers. Mirrors
//! the runner's `session`; draws nothing.

use aot_core::coordinator::{Agents, Effect, Event, JobId, JobOutcome, Presence, StopMode, Task, Usage};
use aot_core::rules::{Ledger, redirect};
use aot_core::state::{AtomId, LoopStatus, State};

use super::{Crash, Simulation};
use crate::audit::Violation;
use crate::describe;
use crate::world::Phase;

/// The agents of a session. Whoever coordinates there decides by itself when to probe.
pub const HOST_AGENTS: Agents =
    Agents { worker: Presence::Available, probe: Presence::Absent, coordinator: Presence::Available };

/// What a host asks of the loop, in a process of its own.
#[derive(Clone, Debug)]
pub enum Command {
    Start(AtomId),
    /// A worker hands its result in, or gives up.
    HandIn(JobId, JobOutcome, Usage),
    /// The host's coordinator agent has ended its turn.
    EndTurn,
    Stop(StopMode),
    /// The turn ends while a redirect is under way that another process holds.
    Wake,
    /// The turn ends while a redirect is under way that no process holds any more.
    AbandonRedirect,
}

impl Simulation {
    /// Runs one command. Work that the process still has to do afterwards is left to the caller, who draws its outcome
    /// or tries all of them.
    pub fn command(&mut self, command: Command, crash: Crash) -> Result<Vec<Effect>, Violation> {
        self.new_process()?;
        match command {
            Command::Start(atom) => self.send(Event::StartAsked { atom }, crash),
            Command::HandIn(job, outcome, usage) => {
                self.recover_landings()?;
                if !self.coordinator.running().contains(&job) {
                    return Ok(Vec::new());
                }
                self.send(Event::Ended { job, outcome, usage }, crash)
            }
            Command::EndTurn => {
                self.recover_landings()?;
                self.end_turn(crash)
            }
            Command::Stop(how) => self.send(Event::StopAsked { how, reason: None }, crash),
            Command::Wake => self.send(Event::Woke, crash),
            Command::AbandonRedirect => self.send(Event::RedirectAbandoned, crash),
        }
    }

    /// What is in progress has lost its worker; then the turn is over. A crash comes after so many of these events,
    /// and inside the answer to the last.
    fn end_turn(&mut self, crash: Crash) -> Result<Vec<Effect>, Violation> {
        let mut crash = crash;
        for job in self.coordinator.running() {
            let outcome = JobOutcome::Lost { reason: "its worker's turn ended without a result".into() };
            let lost = Event::Ended { job, outcome, usage: Usage::default() };
            match &mut crash {
                Crash::After(0) => return self.send(lost, crash),
                Crash::After(count) => *count -= 1,
                Crash::Never => {}
            }
            self.send(lost, Crash::Never)?;
        }
        if self.world.halted().is_some() {
            return Ok(Vec::new());
        }
        self.send(Event::TurnEnded, crash)
    }

    /// A process died between a landing and its record: the commit is found on the branch (D23).
    fn recover_landings(&mut self) -> Result<(), Violation> {
        for landing in self.world.found() {
            let job = JobId { task: Task::Work(landing.atom), attempt: landing.attempt };
            let event = Event::Landed { job, binding: landing.binding, usage: Usage::default() };
            self.send(event, Crash::Never)?;
        }
        Ok(())
    }

    /// Whether the process of the last command has something to do before it ends.
    pub fn is_busy(&self) -> bool {
        let at_work = |phase, task: &Task| match phase {
            Phase::Landing => true,
            Phase::Working => matches!(task, Task::Check(_)),
            Phase::Reported | Phase::Parked | Phase::Orphaned => false,
        };
        self.world.verifying().is_some()
            || self.world.flights().iter().any(|flight| at_work(flight.phase, &flight.job.id.task))
    }

    /// A process takes the file up; the one before has ended, and remembers nothing. A `completed` that no process has
    /// written is not believed.
    fn new_process(&mut self) -> Result<(), Violation> {
        let state = self.world.recorded().clone();
        let typed = state.control.status == LoopStatus::Completed && self.world.halted().is_none();
        if typed {
            let mut before = state.clone();
            before.control.status = LoopStatus::Running;
            self.world.replace(before);
        }
        self.world.command_ended();
        self.resume();
        if typed {
            self.send(Event::Edited { state: Box::new(state) }, Crash::Never)?;
        }
        Ok(())
    }

    /// Ends the process of a command that has nothing more to do: the next one starts from the file.
    pub fn end_command(&mut self) {
        if !self.is_busy() && self.world.halted().is_none() {
            self.world.command_ended();
            self.resume();
        }
    }

    /// The process of a command is gone before its end; the host's workers are not.
    pub fn command_died(&mut self) {
        self.world.command_ended();
        self.audit.crashed(self.world.recorded());
        self.note(|| "!! the command is gone".into());
    }

    /// `aot redirect --hold`, in a process that asks no coordinator (D16).
    pub fn hold_redirect(&mut self) {
        let mut ledger = Ledger::open(self.world.recorded().clone(), self.world.now);
        redirect::interrupt(&mut ledger);
        self.write_elsewhere(ledger.close().0);
    }

    /// Another process, or a person, writes the file between two commands.
    pub fn write_elsewhere(&mut self, state: State) {
        self.note(|| format!("~~ written elsewhere: {}", describe::plan_text(&state)));
        self.world.replace(state);
        self.world.command_ended();
        self.audit.written_elsewhere(self.world.recorded());
    }
}
