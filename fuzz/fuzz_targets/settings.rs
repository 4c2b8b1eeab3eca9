#![no_main]

#[path = "../../crates/aot-runner/tests/it/doors.rs"]
mod doors;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| doors::settings(bytes));
