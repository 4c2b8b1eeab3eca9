//! `aot confirm`: a person says whether an assertion holds.

use aot_core::rules::{Change, Refusal};
use aot_core::state::{Check, Checks, Confirmation, Stamp, State};
use aot_core::verdict::{CheckTree, Jobs};
use aot_runner::checks::{Occasion, Whose, quoted};
use aot_runner::store::{Recorded, Store};
use clap::Args;
use serde_json::{Value, json};

use super::workspace::{Look, Workspace};
use super::{Invocation, Verb, recorded_answer};
use crate::failure::Failure;
use crate::place;
use crate::print::{Answer, OutputFormat};
use crate::terminal::{self, Typed};

/// Confirm an assertion, or deny it with `--no`
///
/// Without an item, a terminal asks for each that waits for your word.
#[derive(Debug, Args)]
pub struct ConfirmArgs {
    /// The item of the assertion, as `aot verify` shows it
    item: Option<String>,
    /// It is not so: the check fails until the files change
    #[arg(long, requires = "item")]
    no: bool,
    /// Who says so (default: as git or the system knows you)
    #[arg(long, value_name = "NAME", requires = "item")]
    by: Option<String>,
}

impl Verb for ConfirmArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        invocation.by_person()?;
        let mut store = invocation.store()?;
        let workspace = Workspace::open(&invocation.path()?, Jobs::default())?;
        let (_, state) = store.load()?;
        let Some(item) = &self.item else { return ask_for_all(invocation, &workspace, &mut store) };
        let item = find(state, item)?;
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

/// Asks for each assertion of the base case that waits.
fn ask_for_all(invocation: &Invocation, workspace: &Workspace, store: &mut Store) -> Result<Answer, Failure> {
    if invocation.format == OutputFormat::Json || !terminal::is_interactive() {
        let (_, state) = store.load()?;
        return Err(Failure::input("confirm", "no item is named", what_can_be(&assertions(state).0)));
    }
    let text = match ask(workspace, store)? {
        Asked::Nothing => "no assertion waits for your word",
        Asked::Later => "nothing was confirmed",
        Asked::Confirmed => "It counts until the files change; `aot verify` shows where things stand.",
    };
    Ok(Answer::new(text, Value::Null))
}

/// What came of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing waits for a person.
    Nothing,
    Later,
    Confirmed,
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

/// Asks the person at the terminal for what the base case waits for.
pub fn ask(workspace: &Workspace, store: &mut Store) -> Result<Asked, Failure> {
    let state = store.load()?.1.clone();
    let Some(checks) = &state.objective.base_case else { return Ok(Asked::Nothing) };
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
    let mut asked = if items.is_empty() { Asked::Nothing } else { Asked::Later };
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
        asked = Asked::Confirmed;
    }
    Ok(asked)
}

/// The assertion that is meant: by its name, in any case of letters, or by the beginning of it if that is clear.
fn find(state: &State, given: &str) -> Result<String, Failure> {
    let (known, others) = assertions(state);
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
    let hint = what_can_be(&known);
    Err(Failure::refused("no_assertion", format!("`{given}` {problem}")).with_hint(hint))
}

/// The names of all assertions, and of all other checks.
fn assertions(state: &State) -> (Vec<String>, Vec<String>) {
    let (mut known, mut others) = (Vec::new(), Vec::new());
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
    (known, others)
}

fn what_can_be(known: &[String]) -> String {
    if known.is_empty() {
        return "there is no `assertion` in the base case or in the check of an atom".to_owned();
    }
    let known: Vec<String> = known.iter().map(|item| quoted(item)).collect();
    format!("what can be confirmed: {}", known.join(", "))
}
