//! Tests of the whole program: the real binary, real processes, real git and, where they are installed, real agents.
//!
//! One binary with a module for each subject; `cargo test -p aot --test it run::` runs those of one.

mod agents;
mod cages;
mod cli;
mod dialogue;
mod documents;
mod examples;
mod hostile;
#[cfg(feature = "restate")]
mod machines;
mod mcp;
mod page;
mod plugin;
mod run;
mod verification;

/// A repository with a state file, and `aot` started in it.
mod repo;
/// The same with a scripted model behind it, for real agents.
mod scene;
mod schemas;
mod terminal;
