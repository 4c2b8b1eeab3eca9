//! For tests only.

pub mod fuzz;
