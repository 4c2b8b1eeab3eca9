//! `aot ready`: what can start now.

use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Invocation, Verb};
use crate::failure::Failure;
use crate::print::Answer;
use crate::text;

/// List the atoms that can start now, the next one first
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct ReadyArgs {}

impl Verb for ReadyArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let mut store = invocation.store()?;
        let ready = store.ready()?;
        let text = || {
            if ready.is_empty() {
                return "nothing can start now".to_owned();
            }
            let line = |(id, description): (&str, &str)| format!("{id:<8} {}\n", text::fit(description, 70));
            ready.lines().map(line).collect()
        };
        let json = || json!({"atoms": ready.lines().map(|(id, _)| json!(id)).collect::<Vec<Value>>()});
        Ok(Answer::lazy(invocation.format, text, json))
    }
}
