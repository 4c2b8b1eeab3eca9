//! Jobs on other hosts. An engine of its own carries orders from the driver to hosts and replies back; here is what an
//! order says, who may give one, and what a host does with it.

pub mod dispatch;
pub mod engine;
pub mod host;
mod hosted;
pub mod hosts;
pub mod keys;
mod records;
mod texts;
pub mod wire;
