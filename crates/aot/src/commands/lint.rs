//! `aot lint`: what is likely wrong with the base case.

use aot_core::verdict::{Advice, Jobs, lint};
use aot_runner::checks::facts;
use clap::Args;
use serde_json::json;

use super::Invocation;
use super::verify::watched;
use super::workspace::{Workspace, looking};
use crate::failure::Failure;
use crate::place;
use crate::print::OutputFormat;
use crate::print::{self, COLUMNS};

#[derive(Debug, Args)]
pub struct LintArgs {
    /// Run nothing: leaves out what is already true and what writes into the project
    #[arg(long)]
    no_run: bool,
}

pub fn run(invocation: &Invocation, args: &LintArgs) -> Result<(), Failure> {
    let mut store = invocation.store()?;
    let one = Jobs(std::num::NonZeroUsize::MIN);
    let workspace = Workspace::open(&invocation.path()?, one)?;
    let (_, state) = store.load()?;
    let path = place::search_path();
    let empty = state.objective.base_case.as_ref().is_none_or(|checks| checks.has_empty_set());
    let facts = match args.no_run || empty {
        true => facts::still(state, &workspace.project, &path),
        false => watched(invocation.format, |on| {
            let checker = workspace.checker();
            facts::moving(&checker, state, &path, jiff::Timestamp::now(), on)
        })
        .map_err(looking)?,
    };
    let found = lint(&state.objective, &facts);
    match invocation.format {
        OutputFormat::Json => print::json(&json!({"findings": found})),
        OutputFormat::Text if found.is_empty() => print::line("nothing to say about the base case"),
        OutputFormat::Text => {
            found.iter().for_each(|advice| print::line(&told(advice)));
            let count =
                if found.len() == 1 { "1 finding".to_owned() } else { format!("{} findings", found.len()) };
            print::line(&format!("\n{count}"));
        }
    }
    if found.is_empty() { Ok(()) } else { Err(Failure::No) }
}

/// One finding in a few lines.
pub fn told(advice: &Advice) -> String {
    const INDENT: usize = 17;
    let item = if advice.item.is_empty() { String::new() } else { format!("{}: ", advice.item) };
    let said = print::wrapped(&format!("{item}{}", advice.message), COLUMNS - INDENT);
    let hint = print::wrapped(&format!("hint: {}", advice.hint), COLUMNS - INDENT);
    let lines = said.iter().chain(&hint).enumerate().map(|(place, line)| {
        let code = if place == 0 { advice.code } else { "" };
        format!("{code:<INDENT$}{line}")
    });
    lines.collect::<Vec<_>>().join("\n")
}
