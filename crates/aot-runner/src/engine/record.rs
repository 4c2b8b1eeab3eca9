//! The engine's dealings with the state file: what happened is written, what others wrote comes back as an event, and a
//! file that cannot be read or written is waited for.

use std::time::{Duration, Instant};

use aot_core::coordinator::{Event, StopMode};
use aot_core::rules::{ApplyError, Refusal};
use jiff::Timestamp;

use super::{Engine, Mode, RunError};
use crate::message::{Message, Notice};
use crate::store::error::FileError;
use crate::store::{Foreign, StoreError, Unreadable};

/// How often a state file that cannot be read or written is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// A state file that is gone is waited for so long: some programs remove it for a moment when they save.
const GONE_WAIT: Duration = Duration::from_secs(5);

/// A state file that cannot be read or written, and since when.
struct Outage {
    since: Instant,
    problem: String,
}

impl Engine<'_> {
    /// Writes what is queued. What others wrote meanwhile is added to the events.
    pub(super) fn record(&mut self, events: &mut Vec<Event>) -> Result<(), RunError> {
        let mut outage = None;
        loop {
            let forgotten = self.store.state().is_none();
            match self.store.flush(Timestamp::now()) {
                Ok(recorded) => {
                    for note in &recorded.notes {
                        self.note(note.to_string());
                    }
                    if recorded.foreign == Foreign::Edited || forgotten {
                        self.add_edit(events);
                    } else {
                        self.debug_compare();
                    }
                    return Ok(());
                }
                Err(StoreError::Conflict { why, kept }) if self.mode == Mode::Drive => {
                    self.note(format!(
                        "the state file was changed by two sides: {why}; both texts are kept in {}",
                        kept.display()
                    ));
                    self.store.load::<Refusal>()?;
                    self.add_edit(events);
                    let reason = Some(format!("conflict: {why}"));
                    events.push(Event::StopAsked { how: StopMode::Finish, reason });
                    return Ok(());
                }
                Err(error @ (StoreError::File(_) | StoreError::Unreadable(_))) => {
                    self.wait_out_store_error(error, &mut outage)?;
                }
                Err(error) => return Err(run_error(error)),
            }
        }
    }

    /// Reports the problem once and waits a moment, or fails when it has lasted too long.
    fn wait_out_store_error(
        &mut self,
        error: StoreError<ApplyError>,
        outage: &mut Option<Outage>,
    ) -> Result<(), RunError> {
        if self.mode == Mode::Step {
            return Err(run_error(error));
        }
        let problem = match &error {
            StoreError::Unreadable(unreadable) => first_finding(unreadable),
            other => other.to_string(),
        };
        let since = outage.as_ref().map_or_else(Instant::now, |outage| outage.since);
        if outage.as_ref().is_none_or(|outage| outage.problem != problem) {
            self.note(format!("{problem}; nothing new starts until that is mended"));
            *outage = Some(Outage { since, problem });
        }
        let limit = match error {
            StoreError::File(FileError::Missing { .. }) => GONE_WAIT,
            // What is left of the wall time.
            _ => Duration::from_secs(self.coordinator.bound().seconds),
        };
        match since.elapsed() > limit || self.interrupted_while_waiting() {
            true => Err(run_error(error)),
            false => Ok(()),
        }
    }

    /// Waits a moment and keeps messages for later, except an interrupt.
    fn interrupted_while_waiting(&mut self) -> bool {
        let until = Instant::now() + RETRY;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            match self.inbox.recv_timeout(left) {
                Ok(Message::Interrupt) => {
                    self.output.interrupted = true;
                    return true;
                }
                Ok(Message::FileChanged) => return false,
                Ok(message) => self.backlog.push_back(message),
                Err(_) => return false,
            }
        }
        false
    }

    /// Adds an event if another program has written the state file.
    pub(super) fn read_file(&mut self, events: &mut Vec<Event>) -> Result<(), RunError> {
        match self.store.look::<Refusal>() {
            Ok(Foreign::None) => Ok(()),
            // Recording reads the file again, and reports what is wrong with it.
            Ok(Foreign::Edited) | Err(_) => self.record(events),
        }
    }

    /// The file shows another state than the coordinator's, because another program wrote it.
    fn add_edit(&mut self, events: &mut Vec<Event>) {
        let Some(state) = self.store.state() else { return };
        (self.notify)(Notice::Edited { state });
        let state = Box::new(state.clone());
        let was_redirecting = self.is_redirecting();
        events.push(match was_redirecting && !state.control.redirect_requested {
            true => Event::Redirected { state },
            false => Event::Edited { state },
        });
    }

    /// In tests, what the store wrote equals what the coordinator believes.
    fn debug_compare(&self) {
        if cfg!(debug_assertions)
            && let Some(written) = self.store.state()
        {
            let mut believed = self.coordinator.state().clone();
            believed.control.revision = written.control.revision;
            debug_assert_eq!(
                *written, believed,
                "the file says something else than the coordinator believes"
            );
        }
    }
}

fn run_error(error: StoreError<ApplyError>) -> RunError {
    RunError::Store(match error {
        StoreError::File(error) => StoreError::File(error),
        StoreError::Unreadable(unreadable) => StoreError::Unreadable(unreadable),
        StoreError::Conflict { why, kept } => StoreError::Conflict { why, kept },
        StoreError::NotWritten(why) => return RunError::NotWritten(why.to_string()),
        StoreError::Refused(error) => return RunError::NotWritten(error.to_string()),
    })
}

fn first_finding(unreadable: &Unreadable) -> String {
    match unreadable.findings.first() {
        Some(first) => format!(
            "the state file cannot be read: {} (line {}, column {})",
            first.message, first.place.line, first.place.column
        ),
        None => "the state file cannot be read".into(),
    }
}
