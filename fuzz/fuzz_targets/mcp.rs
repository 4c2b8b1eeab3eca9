//! The program without its start: only what reads requests is called.
#![no_main]
#![expect(dead_code, reason = "most of the program is not reached from here")]

#[path = "../../crates/aot/src/commands/mod.rs"]
mod commands;
#[path = "../../crates/aot/src/dialogue.rs"]
mod dialogue;
#[path = "../../crates/aot/src/failure.rs"]
mod failure;
#[path = "../../crates/aot/src/mcp/mod.rs"]
mod mcp;
#[path = "../../crates/aot/src/place.rs"]
mod place;
#[path = "../../crates/aot/src/print.rs"]
mod print;
#[path = "../../crates/aot/src/screens/mod.rs"]
mod screens;
#[path = "../../crates/aot/src/terminal.rs"]
mod terminal;
#[path = "../../crates/aot/src/text.rs"]
mod text;
#[path = "../../crates/aot/src/mcp/requests.rs"]
mod requests;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| requests::read(bytes));
