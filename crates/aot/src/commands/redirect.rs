//! `aot redirect`: a person changes what was agreed. So far: what was changed outside of an agreement was meant.

use std::time::{Duration, Instant};

use aot_core::rules::redirect::{Correct, redirect};
use aot_core::rules::{Change, Refusal};
use aot_core::state::AtomStatus;
use aot_core::verdict::Jobs;
use aot_runner::checks::seal::Seal;
use aot_runner::driver;
use aot_runner::store::Store;
use aot_runner::store::lock::{Held, Lock};
use clap::Args;
use serde_json::json;

use super::Door;
use super::workshop::{Workshop, looking};
use crate::failure::Failure;

/// A driver that does not interrupt its work within this time hangs; the redirect is made all the same.
const INTERRUPTED: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(10);

#[derive(Debug, Args)]
pub struct RedirectArgs {
    /// The base case and the protected files, as they are now, are what is agreed on
    #[arg(long, required = true)]
    accept: bool,
}

pub fn run(door: &Door, _: &RedirectArgs) -> Result<(), Failure> {
    door.by_person()?;
    let mut store = door.store()?;
    let home = store.file().home().clone();
    let _hold = Held::take_the(Lock::Redirecting, &home, "redirects", Duration::ZERO).map_err(|error| {
        Lock::Redirecting.holder(&home).map_or(Failure::File(error), |holder| Failure::Redirected { holder })
    })?;
    if driver::holder(&home).is_some() {
        interrupt(&mut store)?;
    }
    let workshop = Workshop::open(&door.path()?, Jobs::default())?;
    let (_, state) = store.load()?;
    let seal = Seal::of(&state.objective, &workshop.project.root).map_err(looking)?;
    let fingerprint = seal.fingerprint();
    let recorded = store.change("accept what was changed", jiff::Timestamp::now(), |ledger| {
        redirect(ledger, vec![Correct::Accept(fingerprint.clone())])?;
        if ledger.state().control.redirect_requested {
            ledger.enter(Change::RedirectEnded);
        }
        Ok::<(), Refusal>(())
    })?;
    seal.keep(&workshop.project).map_err(looking)?;
    let line = "accepted: the base case and the protected files, as they are now, are what is agreed on";
    door.told(&recorded, line, json!({"fingerprint": fingerprint}));
    Ok(())
}

/// Interrupts a loop that somebody drives: when nothing is in progress any more, what ran is dead and discarded (D16).
fn interrupt(store: &mut Store) -> Result<(), Failure> {
    store.change("interrupt the loop", jiff::Timestamp::now(), |ledger| {
        ledger.enter(Change::RedirectRequested);
        Ok::<(), Refusal>(())
    })?;
    let began = Instant::now();
    while began.elapsed() < INTERRUPTED {
        let (_, state) = store.load()?;
        if state.atoms.values().all(|atom| atom.status != AtomStatus::InProgress) {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
