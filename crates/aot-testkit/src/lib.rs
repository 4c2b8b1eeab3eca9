//! Simulated worlds and measurements that drive the shipping coordinator. For tests only.

pub mod audit;
pub mod batch;
pub mod chance;
pub mod hands;
pub mod life;
pub mod makespan;
pub mod model;
pub mod plans;
pub mod shapes;
pub mod stage;
pub mod survey;
pub mod temper;
pub mod words;
pub mod world;
