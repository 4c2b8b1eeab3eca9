//! The doors: the command line. No rules, no processes of its own.

mod commands;
mod failure;
mod place;
mod print;

use std::process::ExitCode;

use aot_runner::process::guard;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if guard::is_called(&words) {
        return guard::run(&words);
    }
    failure::guard(commands::run)
}
