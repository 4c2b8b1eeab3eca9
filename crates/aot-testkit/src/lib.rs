//! For tests only: fixtures of the contract, generated files, the bodies of the fuzz targets, and simulated worlds that
//! drive the shipping coordinator.

pub mod audit;
pub mod batch;
pub mod chance;
pub mod fixtures;
pub mod fuzz;
pub mod hands;
pub mod life;
mod looks;
pub mod makespan;
pub mod model;
pub mod plans;
pub mod shapes;
pub mod stage;
pub mod survey;
pub mod temper;
pub mod words;
pub mod world;
