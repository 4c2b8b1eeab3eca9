//! `aot gate`: whether the goal is aligned.

use aot_core::contract::Severity;
use aot_core::verdict::{self, Advice};
use aot_runner::checks::facts;
use aot_runner::store::Store;
use aot_runner::store::error::FileError;
use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Invocation, Verb, lint, not_aligned, workspace};
use crate::failure::Failure;
use crate::place::{self, NoStateFile};
use crate::print::Answer;

/// Check whether the goal is aligned, and what is missing
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct GateArgs {}

impl Verb for GateArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let opened = invocation.store().and_then(|mut store| Ok((store.answers()?, store)));
        let (answers, mut store) = match opened {
            Ok(opened) => opened,
            Err(failure) if is_missing(&failure) => {
                let json = json!({"ready": false, "missing": ["state file"], "status": null});
                return Ok(Answer::new("not aligned; missing: the state file", json).with_exit(3));
            }
            Err(failure) => return Err(failure),
        };
        let Some(view) = answers.view else {
            // Fails, with every mistake in the file and its place.
            store.load()?;
            return Ok(Answer::printed().with_exit(3));
        };
        let is_ready =
            view.missing.is_empty() && answers.findings.iter().all(|f| f.severity == Severity::Warning);
        let advice = if is_ready { advice(invocation, &mut store)? } else { Vec::new() };
        let json = json!({
            "ready": is_ready, "missing": view.missing, "status": view.status, "findings": advice,
        });
        if !is_ready {
            return Ok(not_aligned(&view.missing, json));
        }
        let lines = std::iter::once("aligned: the loop can start".to_owned());
        Ok(Answer::new(lines.chain(advice.iter().map(lint::lines)).collect::<Vec<_>>().join("\n"), json))
    }
}

/// Without a file nothing is agreed on.
fn is_missing(failure: &Failure) -> bool {
    failure.error::<NoStateFile>().is_some()
        || matches!(failure.error::<FileError>(), Some(FileError::Missing { .. }))
}

/// What the linter sees without running anything.
fn advice(invocation: &Invocation, store: &mut Store) -> Result<Vec<Advice>, Failure> {
    let project = workspace::project(&invocation.path()?)?;
    let (_, state) = store.load()?;
    let facts = facts::still(state, &project, &place::search_path());
    Ok(verdict::lint_loop(state, &facts))
}
