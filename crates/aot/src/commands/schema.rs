//! `aot schema`: the JSON Schema of the frontmatter.

use clap::Args;

use super::{Invocation, Verb};
use crate::failure::Failure;
use crate::print::Answer;

/// Print the JSON Schema of the frontmatter
#[derive(Debug, Args)]
pub struct SchemaArgs {}

impl Verb for SchemaArgs {
    fn run(&self, _: &Invocation) -> Result<Answer, Failure> {
        let schema = aot_core::contract::schema();
        Ok(Answer::new(format!("{schema:#}"), schema))
    }
}
