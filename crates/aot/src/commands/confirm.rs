//! `aot confirm`: a person's word on an assertion.

use aot_core::rules::{Change, Refusal};
use aot_core::state::{Check, Checks, Confirmation, Stamp, State};
use aot_core::verdict::{Jobs, Sheet};
use clap::Args;
use serde_json::json;

use super::Door;
use super::workshop::Workshop;
use crate::failure::Failure;
use crate::place;

#[derive(Debug, Args)]
pub struct ConfirmArgs {
    /// The item of the assertion, as `aot verify` shows it
    item: String,
    /// It is not so: the check fails until the files change
    #[arg(long)]
    no: bool,
    /// Who says so (default: as git or the system knows you)
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

pub fn run(door: &Door, args: &ConfirmArgs) -> Result<(), Failure> {
    if place::is_in_job() {
        return Err(Failure::NotAPerson);
    }
    let mut store = door.store()?;
    let workshop = Workshop::open(&door.path()?, Jobs::default())?;
    let (_, state) = store.load()?;
    let item = find(state, &args.item)?;
    workshop.untampered(state)?;
    let now = jiff::Timestamp::now();
    let by = args.by.clone().unwrap_or_else(|| place::person(&workshop.project.root));
    let confirmation = Confirmation {
        item: item.clone(),
        by,
        at: Stamp::from(now),
        tree: workshop.tree()?.hash().to_owned(),
        holds: args.no.then_some(false),
    };
    let recorded = store.change("record a confirmation", now, |ledger| {
        ledger.enter(Change::ItemConfirmed { confirmation: confirmation.clone() });
        Ok::<(), Refusal>(())
    })?;
    let Confirmation { by, at, tree, .. } = &confirmation;
    let word = if args.no { "denied" } else { "confirmed" };
    let line = format!(
        "{word} by {by}: {item}\nIt counts until the files change; `aot verify` shows where things stand."
    );
    let object = json!({"item": item, "holds": !args.no, "by": by, "at": at, "tree": tree});
    door.told(&recorded, &line, object);
    Ok(())
}

/// The assertion that is meant: by its name, in any case of letters, or by the beginning of it if that is clear.
fn find(state: &State, given: &str) -> Result<String, Failure> {
    let mut known: Vec<String> = Vec::new();
    let mut others: Vec<String> = Vec::new();
    let mut add = |checks: &Checks, before: &str| {
        for leaf in Sheet::of(checks).leaves {
            let name = format!("{before}{}", leaf.name);
            if matches!(leaf.check, Check::Assertion { .. }) { known.push(name) } else { others.push(name) }
        }
    };
    state.objective.base_case.iter().for_each(|checks| add(checks, ""));
    for atom in state.atoms.values() {
        atom.check.iter().for_each(|checks| add(checks, &format!("{}: ", atom.id)));
    }
    if known.iter().any(|name| name == given) {
        return Ok(given.to_owned());
    }
    let wanted = given.trim().to_lowercase();
    let same: Vec<&String> = known.iter().filter(|name| name.to_lowercase() == wanted).collect();
    let begins: Vec<&String> = known.iter().filter(|name| name.to_lowercase().starts_with(&wanted)).collect();
    match (&same[..], &begins[..]) {
        ([name], _) | ([], [name]) if !wanted.is_empty() => return Ok((*name).clone()),
        _ => {}
    }
    let problem = match others.iter().any(|name| name == given) {
        true => "is no assertion; the program looks for itself",
        false if begins.len() > 1 => "is the beginning of several assertions",
        false => "is no assertion of this state file",
    };
    Err(Failure::NoAssertion { item: given.to_owned(), problem, known })
}
