//! `aot redirect`: a person changes what was agreed. So far: what was changed outside of an agreement was meant.

use aot_core::rules::redirect::{Correct, redirect};
use aot_core::verdict::Jobs;
use aot_runner::checks::seal::Seal;
use clap::Args;
use serde_json::json;

use super::Door;
use super::workshop::{Workshop, looking};
use crate::failure::Failure;
use crate::place;

#[derive(Debug, Args)]
pub struct RedirectArgs {
    /// The base case and the protected files, as they are now, are what is agreed on
    #[arg(long, required = true)]
    accept: bool,
}

pub fn run(door: &Door, _: &RedirectArgs) -> Result<(), Failure> {
    if place::is_in_job() {
        return Err(Failure::NotAPerson);
    }
    let mut store = door.store()?;
    let workshop = Workshop::open(&door.path()?, Jobs::default())?;
    let (_, state) = store.load()?;
    let seal = Seal::of(&state.objective, &workshop.project.root).map_err(looking)?;
    let fingerprint = seal.fingerprint();
    let recorded = store.change("accept what was changed", jiff::Timestamp::now(), |ledger| {
        redirect(ledger, vec![Correct::Accept(fingerprint.clone())])
    })?;
    seal.keep(&workshop.project).map_err(looking)?;
    let line = "accepted: the base case and the protected files, as they are now, are what is agreed on";
    door.told(&recorded, line, json!({"fingerprint": fingerprint}));
    Ok(())
}
