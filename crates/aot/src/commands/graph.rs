//! `aot graph`: the AND/OR graph as an outline.

use super::Invocation;
use crate::failure::Failure;
use crate::print::OutputFormat;
use crate::print::{self, Stream};
use crate::screens::graph::{draw, object};
use crate::screens::ink::Ink;

pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let mut store = invocation.store()?;
    let (_, state) = store.load()?;
    match invocation.format {
        OutputFormat::Json => print::json(&object(state)),
        OutputFormat::Text => print::out(|stdout| write!(stdout, "{}", draw(state, Ink::of(Stream::Out)))),
    }
    Ok(())
}
