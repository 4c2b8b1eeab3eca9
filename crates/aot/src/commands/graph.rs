//! `aot graph`: the AND/OR graph as an outline.

use super::Door;
use crate::failure::{Failure, Voice};
use crate::print::{self, Stream};
use crate::screens::graph::{draw, object};
use crate::screens::ink::Ink;

pub fn run(door: &Door) -> Result<(), Failure> {
    let mut store = door.store()?;
    let (_, state) = store.load()?;
    match door.voice {
        Voice::Json => print::json(&object(state)),
        Voice::Plain => print::out(|stdout| write!(stdout, "{}", draw(state, Ink::of(Stream::Out)))),
    }
    Ok(())
}
