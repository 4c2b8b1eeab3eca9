//! `aot or …`: alternatives.

use aot_core::rules::{Change, backtrack, reshape};
use aot_core::state::{AtomId, GroupName};
use clap::{Args, Subcommand};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Invocation, Verb, says_something};
use crate::failure::Failure;
use crate::print::Answer;

#[derive(Debug, Subcommand)]
pub enum OrCommand {
    Add(OrAddArgs),
    Switch(OrSwitchArgs),
}

impl OrCommand {
    pub fn verb(&self) -> &dyn Verb {
        match self {
            OrCommand::Add(verb) => verb,
            OrCommand::Switch(verb) => verb,
        }
    }
}

/// Make an OR group of existing atoms, or add choices to one
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct OrAddArgs {
    /// The group's name
    group: String,
    /// Atoms, in the order in which they are tried
    #[arg(long, value_delimiter = ',', required_unless_present = "speculative", value_name = "A4,A5")]
    #[serde(default)]
    choices: Vec<String>,
    /// Try all choices at once, each in a tree of its own; the first whose check passes lands. `--speculative=false` tries
    /// them one after the other again
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    speculative: Option<bool>,
}

impl Verb for OrAddArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let group = GroupName::new(&self.group);
        let choices: Vec<AtomId> = self.choices.iter().map(|id| AtomId::new(id.trim())).collect();
        invocation.operate(
            "add choices",
            |ledger| {
                if !choices.is_empty() || self.speculative.is_none() {
                    reshape::add_choices(ledger, &group, &choices)?;
                }
                if let Some(speculative) = self.speculative {
                    reshape::set_speculative(ledger, &group, speculative)?;
                }
                Ok(ledger.state().or_groups[&group].clone())
            },
            |entry, _| {
                let listed = entry.choices.iter().map(AtomId::as_str).collect::<Vec<_>>().join(", ");
                let how = match entry.is_speculative() {
                    true => "all are tried at once".to_owned(),
                    false => format!("{} is selected", entry.selected),
                };
                let (choices, selected) = (&entry.choices, &entry.selected);
                let speculative = entry.is_speculative();
                (
                    format!("{group}: {listed}; {how}"),
                    json!({"group": group, "choices": choices, "selected": selected, "speculative": speculative}),
                )
            },
        )
    }
}

/// Select another choice; what was done under the old one, or rests on it, is undone
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct OrSwitchArgs {
    /// The group's name
    group: String,
    /// The atom to take
    choice: String,
    /// Why
    #[arg(long)]
    reason: String,
}

impl Verb for OrSwitchArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        says_something("--reason", &self.reason)?;
        let (group, choice) = (GroupName::new(&self.group), AtomId::new(&self.choice));
        invocation.operate(
            "switch a choice",
            |ledger| backtrack::switch(ledger, &group, &choice, &self.reason),
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

fn undone(changes: &[Change]) -> Vec<&str> {
    let mut reset = Vec::new();
    for change in changes {
        if let Change::AtomReset { atom } = change {
            reset.push(atom.as_str());
        }
    }
    reset
}
