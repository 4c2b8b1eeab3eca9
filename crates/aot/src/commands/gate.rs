//! `aot gate`: whether the goal is aligned.

use aot_core::contract::Severity;
use aot_core::verdict::{self, Advice};
use aot_runner::checks::facts;
use aot_runner::store::Store;
use aot_runner::store::error::FileError;
use serde_json::json;

use super::{Invocation, lint, workspace};
use crate::failure::Failure;
use crate::print::OutputFormat;
use crate::{place, print};

pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let opened = invocation.store().and_then(|mut store| Ok((store.answers()?, store)));
    let (answers, mut store) = match opened {
        Ok(opened) => opened,
        // Without a file nothing is agreed on.
        Err(Failure::NoStateFile { .. } | Failure::File(FileError::Missing { .. })) => {
            match invocation.format {
                OutputFormat::Json => {
                    print::json(&json!({"ready": false, "missing": ["state file"], "status": null}))
                }
                OutputFormat::Text => print::line("not aligned; missing: the state file"),
            }
            return Err(Failure::NotAligned);
        }
        Err(failure) => return Err(failure),
    };
    let Some(view) = answers.view else {
        // Names what is wrong, with its place.
        store.load()?;
        return Err(Failure::NotAligned);
    };
    let ready = view.missing.is_empty() && answers.findings.iter().all(|f| f.severity == Severity::Warning);
    let advice = if ready { advice(invocation, &mut store)? } else { Vec::new() };
    match invocation.format {
        OutputFormat::Json => {
            let (missing, status) = (view.missing, view.status);
            print::json(&json!({"ready": ready, "missing": missing, "status": status, "findings": advice}));
        }
        OutputFormat::Text if ready => {
            print::line("aligned: the loop can start");
            advice.iter().for_each(|advice| print::line(&lint::told(advice)));
        }
        OutputFormat::Text => print::line(&format!("not aligned; missing: {}", view.missing.join(", "))),
    }
    if ready { Ok(()) } else { Err(Failure::NotAligned) }
}

/// What the linter sees without running anything.
fn advice(invocation: &Invocation, store: &mut Store) -> Result<Vec<Advice>, Failure> {
    let project = workspace::project(&invocation.path()?)?;
    let (_, state) = store.load()?;
    let facts = facts::still(state, &project, &place::search_path());
    Ok(verdict::lint(&state.objective, &facts))
}
