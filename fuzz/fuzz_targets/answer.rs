#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| aot_testkit::fuzz::answer(bytes));
