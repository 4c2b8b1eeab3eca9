//! Carries orders between a driver and its hosts through a Restate server: [`driver::Restate`] is the driver's end,
//! [`host::Serving`] the host's. Queues, leases, retries and what survives a crash are Restate's. Knows nothing of what an
//! order says.

pub mod address;
pub mod driver;
pub mod host;
mod http;
mod names;
mod service;
