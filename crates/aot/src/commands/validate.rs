//! `aot validate`: every mistake with its place.

use aot_core::contract::{Finding, Severity};
use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Invocation, Verb};
use crate::failure::{Failure, draw, findings_json};
use crate::print::Answer;

/// Read the state file strictly and list every mistake with its place
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct ValidateArgs {}

impl Verb for ValidateArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let mut store = invocation.store()?;
        let answers = store.answers()?;
        let (warnings, errors): (Vec<&Finding>, Vec<&Finding>) =
            answers.findings.iter().partition(|finding| finding.severity == Severity::Warning);
        let path = store.path().display().to_string();
        let drawn = match answers.findings.is_empty() {
            true => Vec::new(),
            false => {
                let text = store.file().read()?.bytes;
                let all = errors.iter().chain(&warnings).copied();
                vec![draw(all, &path, &String::from_utf8_lossy(&text))]
            }
        };
        let odd = match warnings.len() {
            0 => String::new(),
            1 => ", 1 warning".to_owned(),
            many => format!(", {many} warnings"),
        };
        let text = match errors.len() {
            0 => format!("{path} is valid{odd}"),
            1 => format!("{path} is not valid: 1 mistake{odd}"),
            many => format!("{path} is not valid: {many} mistakes{odd}"),
        };
        let json = json!({
            "valid": errors.is_empty(),
            "errors": findings_json(errors.iter().copied()),
            "warnings": findings_json(warnings.iter().copied()),
        });
        Ok(Answer::new(text, json).with_warnings(drawn).with_exit(u8::from(!errors.is_empty())))
    }
}
