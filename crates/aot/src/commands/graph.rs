//! `aot graph`: the AND/OR graph as an outline, or as a picture in one of three languages.

use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Invocation, Verb};
use crate::failure::Failure;
use crate::print::Answer;
use crate::screens::diagram::{Detail, Diagram, dot, mermaid, svg};
use crate::screens::graph::{draw, object};
use crate::screens::ink::Ink;
use crate::terminal::Stream;

/// Draw the graph: what waits for what, what was decomposed into what, which alternatives there are
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct GraphArgs {
    /// Print a picture as SVG: `aot graph --svg > graph.svg`
    #[arg(long, group = "picture")]
    #[serde(default)]
    svg: bool,
    /// Print it in the language of Graphviz
    #[arg(long, group = "picture")]
    #[serde(default)]
    dot: bool,
    /// Print it in the language of Mermaid, for Markdown
    #[arg(long, group = "picture")]
    #[serde(default)]
    mermaid: bool,
    /// Draw all resolved atoms in a large picture, instead of one box for those that nothing waits for
    #[arg(long, requires = "picture")]
    #[serde(default)]
    whole: bool,
}

impl GraphArgs {
    fn writer(&self) -> Option<fn(&Diagram) -> String> {
        match self {
            GraphArgs { svg: true, .. } => Some(svg),
            GraphArgs { dot: true, .. } => Some(dot),
            GraphArgs { mermaid: true, .. } => Some(mermaid),
            GraphArgs { svg: false, dot: false, mermaid: false, .. } => None,
        }
    }
}

impl Verb for GraphArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let mut store = invocation.store()?;
        let (_, state) = store.load()?;
        let Some(writer) = self.writer() else {
            return Ok(Answer::lazy(
                invocation.format,
                || draw(state, Ink::of(Stream::Out)),
                || object(state),
            ));
        };
        let detail = if self.whole { Detail::Whole } else { Detail::Contracted };
        let picture = writer(&Diagram::of(state, detail));
        Ok(Answer::lazy(invocation.format, || picture.clone(), || json!({"picture": picture})))
    }
}
