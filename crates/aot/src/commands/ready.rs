//! `aot ready`: what can start now.

use super::Door;
use crate::failure::{Failure, Voice};
use crate::print;

pub fn run(door: &Door) -> Result<(), Failure> {
    let mut store = door.store()?;
    let ready = store.ready()?;
    match door.voice {
        Voice::Json => print::out(|stdout| {
            stdout.write_all(b"{\"atoms\":[")?;
            for (place, (id, _)) in ready.lines().enumerate() {
                if place > 0 {
                    stdout.write_all(b",")?;
                }
                serde_json::to_writer(&mut *stdout, id)?;
            }
            stdout.write_all(b"]}\n")
        }),
        Voice::Plain if ready.is_empty() => print::line("nothing can start now"),
        Voice::Plain => print::out(|stdout| {
            for (id, description) in ready.lines() {
                writeln!(stdout, "{id:<8} {}", print::fit(description, 70))?;
            }
            Ok(())
        }),
    }
    Ok(())
}
