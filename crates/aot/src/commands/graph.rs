//! `aot graph`: the AND/OR graph as an outline.

use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Invocation, Verb};
use crate::failure::Failure;
use crate::print::Answer;
use crate::screens::graph::{draw, object};
use crate::screens::ink::Ink;
use crate::terminal::Stream;

/// Draw the graph: what waits for what, what was decomposed into what, which alternatives there are
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct GraphArgs {}

impl Verb for GraphArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let mut store = invocation.store()?;
        let (_, state) = store.load()?;
        Ok(Answer::lazy(invocation.format, || draw(state, Ink::of(Stream::Out)), || object(state)))
    }
}
