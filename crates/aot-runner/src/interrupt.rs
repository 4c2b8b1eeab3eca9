//! Interrupts a loop from another process, so that a person can redirect it, and lets it go on. Decides nothing about the
//! change.
//!
//! The redirecting process holds a lock, and sets a flag in the state file. The driver kills what runs, records that, and
//! takes a lock of its own when no thread of its crew is left: it stands still. It releases that lock when it has read
//! the answer, and the redirecting process waits for that. So each process sees every step of the other, and its death.

use std::time::{Duration, Instant};

use aot_core::rules::redirect;
use aot_core::rules::{Change, Refusal};
use aot_core::state::{AtomStatus, State};
use jiff::Timestamp;

use crate::driver;
use crate::session::SessionMemory;
use crate::store::error::FileError;
use crate::store::hold;
use crate::store::home::Home;
use crate::store::lock::{Held, Lock};
use crate::store::{Store, StoreError};

/// A driver that has not stopped everything within this time hangs, and the redirect fails.
const STANDS: Duration = Duration::from_secs(60);
/// A driver that has not read the answer within this time hangs; the answer is in the file all the same.
const GOES_ON: Duration = Duration::from_secs(10);
/// A process that asks who holds a lock holds it for a moment itself.
const LOCK_WAIT: Duration = Duration::from_millis(200);
const POLL: Duration = Duration::from_millis(2);

#[derive(Debug, thiserror::Error)]
pub enum NotInterrupted {
    #[error("a redirect of this loop is already under way: {holder}")]
    Held { holder: String },
    #[error(transparent)]
    Store(#[from] StoreError<Refusal>),
    #[error("{driver} has not stopped its work within {} s", STANDS.as_secs())]
    Hangs { driver: String },
}

impl From<FileError> for NotInterrupted {
    fn from(error: FileError) -> NotInterrupted {
        NotInterrupted::Store(StoreError::File(error))
    }
}

/// A loop that stands still. Dropped without an answer, it is an interrupted redirect: the driver stops and says so.
#[derive(Debug)]
pub struct Interrupted {
    home: Home,
    _hold: Held,
    /// The process that drives the loop.
    pub driver: Option<String>,
    /// How many atoms were in progress.
    pub killed: usize,
    /// From the request until everything had stopped.
    pub took: Duration,
}

/// Interrupts a loop for a redirect. Nothing runs any more when this returns.
pub fn interrupt(store: &mut Store) -> Result<Interrupted, NotInterrupted> {
    let home = store.file().home().clone();
    let hold = Held::take_the(Lock::Redirecting, &home, "redirects", LOCK_WAIT).map_err(|error| {
        match Lock::Redirecting.holder(&home) {
            Some(holder) => NotInterrupted::Held { holder },
            None => error.into(),
        }
    })?;
    let began = Instant::now();
    let driver = driver::holder(&home);
    let flagged = store.load()?.1.control.redirect_requested;
    if driver.is_some() && !flagged {
        // A driver that still stands has not read the last answer; interrupted again at once, it would miss it.
        wait(&home, Stance::Moving, GOES_ON);
    }
    let (_, state) = store.load()?;
    let killed = at_work(state);
    if driver.is_some() {
        ask(store)?;
        if !wait(&home, Stance::Still, STANDS) {
            answer(store)?;
            return Err(NotInterrupted::Hangs { driver: driver.unwrap_or_default() });
        }
    } else if let Some(session) = state.control.session.clone() {
        // A host's session takes one step at a time: results that its agents hand in from now on are refused.
        SessionMemory::change(home.sidecar(), &session, |memory| memory.set_coordinator(None));
        store.change("interrupt the loop", Timestamp::now(), |ledger| {
            redirect::interrupt(ledger);
            Ok::<(), Refusal>(())
        })?;
    }
    // A host that held the redirect before has handed it over.
    hold::forget(&home)?;
    Ok(Interrupted { home, _hold: hold, driver, killed, took: began.elapsed() })
}

impl Interrupted {
    /// The answer is in the file: waits until the driver has read it, and releases the redirect.
    pub fn go_on(self) {
        if self.driver.is_some() {
            wait(&self.home, Stance::Moving, GOES_ON);
        }
    }

    /// Leaves the loop interrupted for a host, until its next redirect.
    pub fn hand_over(self, who: &str) -> Result<(), FileError> {
        hold::note(&self.home, who)
    }
}

/// Ends a redirect that changed nothing, if one is under way.
pub fn answer(store: &mut Store) -> Result<bool, StoreError<Refusal>> {
    let recorded = store.change("end the redirect", Timestamp::now(), |ledger| {
        let asked = ledger.state().control.redirect_requested;
        if asked {
            ledger.record(Change::RedirectEnded);
        }
        Ok::<bool, Refusal>(asked)
    })?;
    Ok(recorded.value)
}

fn ask(store: &mut Store) -> Result<(), StoreError<Refusal>> {
    store.change("interrupt the loop", Timestamp::now(), |ledger| {
        if !ledger.state().control.redirect_requested {
            ledger.record(Change::RedirectRequested);
        }
        Ok::<(), Refusal>(())
    })?;
    Ok(())
}

fn at_work(state: &State) -> usize {
    state.atoms.values().filter(|atom| atom.status == AtomStatus::InProgress).count()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stance {
    Still,
    Moving,
}

/// Waits for a driver to stand still or to move; a driver that is gone counts as both. `false` if it took too long.
fn wait(home: &Home, wanted: Stance, limit: Duration) -> bool {
    let began = Instant::now();
    loop {
        let stance = if Lock::Standing.holder(home).is_some() { Stance::Still } else { Stance::Moving };
        if stance == wanted || driver::holder(home).is_none() {
            return true;
        }
        if began.elapsed() > limit {
            return false;
        }
        std::thread::sleep(POLL);
    }
}
