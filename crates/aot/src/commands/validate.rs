//! `aot validate`: every mistake with its place.

use aot_core::contract::{Finding, Severity};
use serde_json::json;

use super::Invocation;
use crate::failure::{Failure, draw, findings_json};
use crate::print;
use crate::print::OutputFormat;

pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let mut store = invocation.store()?;
    let answers = store.answers()?;
    let (warnings, errors): (Vec<&Finding>, Vec<&Finding>) =
        answers.findings.iter().partition(|finding| finding.severity == Severity::Warning);
    match invocation.format {
        OutputFormat::Json => print::json(&json!({
            "valid": errors.is_empty(),
            "errors": findings_json(errors.iter().copied()),
            "warnings": findings_json(warnings.iter().copied()),
        })),
        OutputFormat::Text => {
            let path = store.path().display().to_string();
            if !answers.findings.is_empty() {
                let text = store.file().read()?.bytes;
                crate::failure::complain(&draw(
                    errors.iter().chain(&warnings).copied(),
                    &path,
                    &String::from_utf8_lossy(&text),
                ));
            }
            let odd = match warnings.len() {
                0 => String::new(),
                1 => ", 1 warning".to_owned(),
                many => format!(", {many} warnings"),
            };
            match errors.len() {
                0 => print::line(&format!("{path} is valid{odd}")),
                1 => print::line(&format!("{path} is not valid: 1 mistake{odd}")),
                many => print::line(&format!("{path} is not valid: {many} mistakes{odd}")),
            }
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Failure::No) }
}
