//! `aot lint`: what is likely wrong with the checks.

use aot_core::verdict::{Advice, Jobs, lint_loop};
use aot_runner::checks::facts;
use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::verify::watched;
use super::workspace::{Workspace, unreadable_project};
use super::{Invocation, Verb};
use crate::failure::Failure;
use crate::place;
use crate::print::Answer;
use crate::terminal::page_columns;
use crate::text;

/// Look for checks that are likely wrong, and atoms without a check; runs the checks once
///
/// Exits with 0 if there is nothing to say, and 1 otherwise.
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct LintArgs {
    /// Run nothing: leaves out what is already true and what writes into the project
    #[arg(long)]
    #[serde(default)]
    no_run: bool,
}

impl Verb for LintArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let mut store = invocation.store()?;
        let one = Jobs(std::num::NonZeroUsize::MIN);
        let path = invocation.path()?;
        // Without running anything there is nothing to trust.
        let workspace = match self.no_run {
            true => Workspace::here(Some(&path))?,
            false => Workspace::open(&path, one)?,
        };
        let (_, state) = store.load()?;
        let path = place::search_path();
        let empty = state.objective.base_case.as_ref().is_none_or(|checks| checks.has_empty_set());
        let facts = match self.no_run || empty {
            true => facts::still(state, &workspace.project, &path),
            false => watched(invocation.format, |on| {
                let look = workspace.look(state)?;
                let confined = look.confined(state)?;
                let checker = look.checker(&confined);
                facts::moving(&checker, state, &path, jiff::Timestamp::now(), on).map_err(unreadable_project)
            })?,
        };
        let found = lint_loop(state, &facts);
        let mut page: Vec<String> = found.iter().map(lines).collect();
        page.push(match found.len() {
            0 => "no findings".into(),
            1 => "\n1 finding".into(),
            many => format!("\n{many} findings"),
        });
        let answer = Answer::new(page.join("\n"), json!({"findings": found}));
        Ok(answer.with_exit(u8::from(!found.is_empty())))
    }
}

/// One finding in a few lines.
pub fn lines(advice: &Advice) -> String {
    const INDENT: usize = 17;
    let item = if advice.item.is_empty() { String::new() } else { format!("{}: ", advice.item) };
    let said = text::wrapped(&format!("{item}{}", advice.message), page_columns() - INDENT);
    let hint = text::wrapped(&format!("hint: {}", advice.hint), page_columns() - INDENT);
    let lines = said.iter().chain(&hint).enumerate().map(|(place, line)| {
        let code = if place == 0 { advice.code } else { "" };
        format!("{code:<INDENT$}{line}")
    });
    lines.collect::<Vec<_>>().join("\n")
}
