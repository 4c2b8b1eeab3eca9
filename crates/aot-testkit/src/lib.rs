//! For tests only: fixtures of the contract, generated files, and the bodies of the fuzz targets.

pub mod fixtures;
pub mod fuzz;
