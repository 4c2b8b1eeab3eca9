//! `aot or …`: alternatives.

use aot_core::rules::{Change, backtrack, reshape};
use aot_core::state::{AtomId, GroupName};
use clap::Subcommand;
use serde_json::json;

use super::{Invocation, says_something};
use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub enum OrVerb {
    /// Make an OR group of existing atoms, or add choices to one
    Add {
        group: String,
        /// Atoms, in the order in which they are tried
        #[arg(long, value_delimiter = ',', required = true, value_name = "A4,A5")]
        choices: Vec<String>,
    },
    /// Select another choice; what was done under the old one, or rests on it, is undone
    Switch {
        group: String,
        choice: String,
        #[arg(long)]
        reason: String,
    },
}

pub fn run(invocation: &Invocation, verb: OrVerb) -> Result<(), Failure> {
    match verb {
        OrVerb::Add { group, choices } => {
            let group = GroupName::new(group);
            let choices: Vec<AtomId> = choices.iter().map(|id| AtomId::new(id.trim())).collect();
            invocation.operate(
                "add choices",
                |ledger| {
                    reshape::add_choices(ledger, &group, &choices)?;
                    Ok(ledger.state().or_groups[&group].clone())
                },
                |entry, _| {
                    let listed = entry.choices.iter().map(AtomId::as_str).collect::<Vec<_>>().join(", ");
                    (
                        format!("{group}: {listed}; {} is selected", entry.selected),
                        json!({"group": group, "choices": entry.choices, "selected": entry.selected}),
                    )
                },
            )
        }
        OrVerb::Switch { group, choice, reason } => {
            says_something("--reason", &reason)?;
            let (group, choice) = (GroupName::new(group), AtomId::new(choice));
            invocation.operate(
                "switch a choice",
                |ledger| backtrack::switch(ledger, &group, &choice, &reason),
                |(), changes| {
                    let reset = undone(changes);
                    let also = match &reset[..] {
                        [] => String::new(),
                        atoms => format!("; pending again: {}", atoms.join(", ")),
                    };
                    (
                        format!("{group} has selected {choice}{also}"),
                        json!({"group": group, "selected": choice, "reset": reset}),
                    )
                },
            )
        }
    }
}

fn undone(changes: &[Change]) -> Vec<&str> {
    let mut reset = Vec::new();
    for change in changes {
        if let Change::AtomReset { atom } = change {
            reset.push(atom.as_str());
        }
    }
    reset
}
