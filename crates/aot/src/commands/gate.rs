//! `aot gate`: whether the goal is aligned.

use aot_core::contract::Severity;
use serde_json::json;

use super::Door;
use crate::failure::{Failure, Voice};
use crate::print;

pub fn run(door: &Door) -> Result<(), Failure> {
    let mut store = match door.store() {
        Ok(store) => store,
        Err(Failure::NoStateFile { .. }) if door.voice == Voice::Json => {
            print::json(&json!({"ready": false, "missing": ["state file"], "status": null}));
            return Err(Failure::NotAligned);
        }
        Err(Failure::NoStateFile { from }) => {
            print::line(&format!("not aligned: there is no state file in {} or above it", from.display()));
            return Err(Failure::NotAligned);
        }
        Err(failure) => return Err(failure),
    };
    let answers = store.answers()?;
    let Some(view) = answers.view else {
        // Names what is wrong, with its place.
        store.load()?;
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
