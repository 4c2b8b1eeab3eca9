//! `aot gate`: whether the goal is aligned.

use aot_core::contract::Severity;
use aot_runner::store::error::FileError;
use serde_json::json;

use super::Door;
use crate::failure::{Failure, Voice};
use crate::print;

pub fn run(door: &Door) -> Result<(), Failure> {
    let answers = match door.store().and_then(|mut store| Ok(store.answers()?)) {
        Ok(answers) => answers,
        // Without a file nothing is agreed on.
        Err(Failure::NoStateFile { .. } | Failure::File(FileError::Missing { .. })) => {
            match door.voice {
                Voice::Json => {
                    print::json(&json!({"ready": false, "missing": ["state file"], "status": null}))
                }
                Voice::Plain => print::line("not aligned; missing: the state file"),
            }
            return Err(Failure::NotAligned);
        }
        Err(failure) => return Err(failure),
    };
    let Some(view) = answers.view else {
        // Names what is wrong, with its place.
        door.store()?.load()?;
        return Err(Failure::NotAligned);
    };
    let ready = view.missing.is_empty() && answers.findings.iter().all(|f| f.severity == Severity::Warning);
    match door.voice {
        Voice::Json => {
            print::json(&json!({"ready": ready, "missing": view.missing, "status": view.status}));
        }
        Voice::Plain if ready => print::line("aligned: the loop can start"),
        Voice::Plain => print::line(&format!("not aligned; missing: {}", view.missing.join(", "))),
    }
    if ready { Ok(()) } else { Err(Failure::NotAligned) }
}
