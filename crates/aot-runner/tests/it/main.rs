//! Tests of the store: as a driver uses it, and among many processes; and of all files that are read.
//!
//! One binary with a module for each subject; `cargo test -p aot-runner --test it store::` runs those of one. The tests of
//! `tree` are a program of their own, because they need an environment of their own.

mod doors;
mod keep;
mod store;
