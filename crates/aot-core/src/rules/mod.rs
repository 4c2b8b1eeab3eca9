//! What may happen to a loop, one file per chapter of the contract. Knows no vendor, no text and no clock.

pub mod advance;
mod apply;
pub mod backtrack;
mod change;
pub mod decompose;
pub mod gate;
mod ledger;
mod refusal;
pub mod replan;
pub mod reshape;

pub use apply::{Misfit, apply};
pub use change::Change;
pub use ledger::Ledger;
pub use refusal::Refusal;
