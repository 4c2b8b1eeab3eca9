//! What is true of a loop, and what follows from it. Nothing here reads a file, a clock or the environment.

pub mod brief;
pub mod contract;
pub mod coordinator;
pub mod hook;
pub mod rules;
pub mod shell_command;
pub mod state;
pub mod verdict;
pub mod view;
