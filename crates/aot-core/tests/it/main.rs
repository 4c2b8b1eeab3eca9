//! Tests of the core through its public interface: tables, random documents and random operations.
//!
//! One binary with a module for each subject; `cargo test -p aot-core --test it rules::` runs those of one.

mod agreement;
mod brief;
mod contract;
mod dialogues;
mod document;
mod hook;
mod lives;
mod operations;
mod rules;
mod verdict;
mod view;

mod printed;
