//! Asks the program of a host for something that only it can do to itself. Knows no loop.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs it, and answers with its last words if it fails.
pub fn ask(program: &Path, words: &[&str]) -> Result<(), String> {
    let said =
        Command::new(program).args(words).stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if said.status.success() {
        return Ok(());
    }
    let text = [said.stderr, said.stdout].concat();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    Err(text.lines().last().unwrap_or("it failed and said nothing").to_owned())
}
