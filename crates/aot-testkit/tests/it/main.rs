//! Tests that need the test kit: the simulated loop, the model checker, the fuzz corpus, and the rules of the house.
//!
//! One binary with a module for each subject; `cargo test -p aot-testkit --test it tidy::` runs those of one.

mod corpus;
mod found;
mod makespan;
mod model;
mod papers;
mod proving;
mod simulation;
mod tidy;
