//! The doors: the command line. No rules, no processes of its own.

mod commands;
mod failure;
mod place;
mod print;

use std::process::ExitCode;

fn main() -> ExitCode {
    failure::guard(commands::run)
}
