//! For tests only: fixtures of the contract, and generated files.

pub mod fixtures;
