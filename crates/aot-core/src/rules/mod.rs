//! What may happen to a loop, one file per subject. Knows no vendor, no text and no clock.

pub mod advance;
mod apply;
pub mod backoff;
pub mod backtrack;
pub mod bound;
pub mod certificate;
mod change;
pub mod converge;
pub mod decompose;
pub mod durations;
pub mod estimate;
pub mod evaluate;
pub mod gate;
mod ledger;
pub mod memory;
pub mod order;
pub mod overlap;
pub mod plan;
pub mod redirect;
mod refusal;
pub mod replan;
pub mod reshape;
mod tally;

pub use apply::{ApplyError, apply};
pub use change::Change;
pub use ledger::{Ledger, Undone};
pub use refusal::Refusal;
pub use tally::{FAILURES_FOR_A_REPLAN, Tally};
