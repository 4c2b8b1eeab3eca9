//! Jobs on other hosts. An engine of its own carries orders from the driver to hosts and replies back; here is what an
//! order says, who may give one, and what a host does with it.

pub mod engine;
