//! `aot ready`: what can start now.

use super::Invocation;
use crate::failure::Failure;
use crate::print;
use crate::print::OutputFormat;

pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let mut store = invocation.store()?;
    let ready = store.ready()?;
    match invocation.format {
        OutputFormat::Json => print::out(|stdout| {
            stdout.write_all(b"{\"atoms\":[")?;
            for (place, (id, _)) in ready.lines().enumerate() {
                if place > 0 {
                    stdout.write_all(b",")?;
                }
                serde_json::to_writer(&mut *stdout, id)?;
            }
            stdout.write_all(b"]}\n")
        }),
        OutputFormat::Text if ready.is_empty() => print::line("nothing can start now"),
        OutputFormat::Text => print::out(|stdout| {
            for (id, description) in ready.lines() {
                writeln!(stdout, "{id:<8} {}", print::fit(description, 70))?;
            }
            Ok(())
        }),
    }
    Ok(())
}
