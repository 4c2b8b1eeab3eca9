//! `aot confirm`: a person says whether an assertion holds.

use aot_core::rules::{Change, Refusal};
use aot_core::state::{Check, Checks, Confirmation, Stamp, State};
use aot_core::verdict::{CheckTree, Jobs};
use aot_runner::checks::{Occasion, Whose, quoted};
use aot_runner::store::{Recorded, Store};
use clap::Args;
use serde_json::json;

use super::workspace::{Look, Workspace};
use super::{Invocation, Verb, recorded_answer};
use crate::failure::Failure;
use crate::place;
use crate::print::Answer;
use crate::terminal::{self, Typed};

/// Confirm an assertion, or deny it with `--no`
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

impl Verb for ConfirmArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        invocation.by_person()?;
        let mut store = invocation.store()?;
        let workspace = Workspace::open(&invocation.path()?, Jobs::default())?;
        let (_, state) = store.load()?;
        let item = find(state, &self.item)?;
        let look = workspace.look(state)?;
        look.untampered(state)?;
        let by = self.by.clone().unwrap_or_else(|| place::person(&workspace.project.root, &workspace.guard));
        let claim = if self.no { Claim::Fails } else { Claim::Holds };
        let (confirmation, recorded) = record(&look, &mut store, &item, by, claim)?;
        let Confirmation { by, at, tree, .. } = &confirmation;
        let verdict = if self.no { "denied" } else { "confirmed" };
        let text = format!(
            "{verdict} by {by}: {item}\nIt counts until the files change; `aot verify` shows where things stand."
        );
        let object = json!({"item": item, "holds": !self.no, "by": by, "at": at, "tree": tree});
        Ok(recorded_answer(&recorded, text, object))
    }
}

/// What a person says of an assertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    Holds,
    Fails,
}

fn record(
    look: &Look<'_>,
    store: &mut Store,
    item: &str,
    by: String,
    claim: Claim,
) -> Result<(Confirmation, Recorded<()>), Failure> {
    let now = jiff::Timestamp::now();
    let confirmation = Confirmation {
        item: item.to_owned(),
        by,
        at: Stamp::from(now),
        tree: look.tree()?.hash().to_owned(),
        holds: (claim == Claim::Fails).then_some(false),
    };
    let recorded = store.change("record a confirmation", now, |ledger| {
        ledger.record(Change::ItemConfirmed { confirmation: confirmation.clone() });
        Ok::<(), Refusal>(())
    })?;
    Ok((confirmation, recorded))
}

/// Asks the person at the terminal for what the base case waits for. Whether something was confirmed.
pub fn ask(workspace: &Workspace, store: &mut Store) -> Result<bool, Failure> {
    let state = store.load()?.1.clone();
    let Some(checks) = &state.objective.base_case else { return Ok(false) };
    let look = workspace.look(&state)?;
    let seen = look.evaluate(&state, checks, Whose::BaseCase, Occasion::Look, &mut |_| {})?;
    let items: Vec<(String, String)> = seen
        .waits_for_person()
        .into_iter()
        .map(|leaf| match &leaf.check {
            Check::Assertion { value } => (leaf.name.clone(), value.clone()),
            other => (leaf.name.clone(), format!("{other:?}")),
        })
        .collect();
    let mut confirmed = false;
    for (item, assertion) in items {
        let detail = if assertion == item { String::new() } else { format!(" ({assertion})") };
        let claim = match terminal::read_line(&format!("{item}{detail}\nDoes it hold? [y/n, Enter: later] "))
        {
            Typed::Line(line) => line.to_ascii_lowercase(),
            Typed::Garbled | Typed::Interrupted | Typed::End => continue,
        };
        let claim = match claim.as_str() {
            "y" | "yes" => Claim::Holds,
            "n" | "no" => Claim::Fails,
            _ => continue,
        };
        record(&look, store, &item, place::person(&workspace.project.root, &workspace.guard), claim)?;
        confirmed = true;
    }
    Ok(confirmed)
}

/// The assertion that is meant: by its name, in any case of letters, or by the beginning of it if that is clear.
fn find(state: &State, given: &str) -> Result<String, Failure> {
    let mut known: Vec<String> = Vec::new();
    let mut others: Vec<String> = Vec::new();
    let mut add = |checks: &Checks, before: &str| {
        for leaf in CheckTree::of(checks).leaves {
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
    let hint = match known.is_empty() {
        true => "there is no `assertion` in the base case or in the check of an atom".to_owned(),
        false => {
            let known: Vec<String> = known.iter().map(|item| quoted(item)).collect();
            format!("what can be confirmed: {}", known.join(", "))
        }
    };
    Err(Failure::refused("no_assertion", format!("`{given}` {problem}")).with_hint(hint))
}
