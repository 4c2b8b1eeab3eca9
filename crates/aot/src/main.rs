//! The program: the command line, and the same verbs over a protocol. No rules, no processes of its own.

mod commands;
mod dialogue;
mod failure;
#[cfg(feature = "watch")]
mod full_screen;
mod mcp;
mod place;
mod print;
mod screens;
#[cfg(feature = "serve")]
mod serve;
mod terminal;
mod text;

use std::process::ExitCode;

use aot_runner::agents::submit;
use aot_runner::notify;
use aot_runner::process::cage::trial;
use aot_runner::process::guard;
use aot_runner::tree::filter;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if guard::is_called(&words) {
        return guard::run(&words);
    }
    if trial::is_called(&words) {
        return trial::run(&words);
    }
    if filter::is_called(&words) {
        return filter::run(&words);
    }
    if notify::is_called(&words) {
        return notify::run();
    }
    if submit::is_called(&words) {
        return submit::run(&words);
    }
    if commands::hook::is_called(&words) {
        place::tell_machine();
        return commands::hook::run(&words);
    }
    place::tell_machine();
    failure::guard(commands::run)
}
