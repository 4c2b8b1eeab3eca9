//! For tests only: fixtures of the contract, generated files, the bodies of the fuzz targets, a simulation that drives
//! the shipping coordinator, a browser, and four campaigns against the built program: faults, attacks, several machines
//! and the proving ground.

pub mod attacks;
pub mod audit;
pub mod batch;
pub mod behaviour;
pub mod browser;
pub mod describe;
pub mod edits;
pub mod faults;
pub mod fixtures;
pub mod fuzz;
pub mod life;
pub mod machines;
pub mod makespan;
pub mod model;
pub mod past;
pub mod performance;
pub mod plans;
pub mod project;
pub mod proving;
pub mod random;
pub mod shapes;
pub mod simulation;
pub mod world;
