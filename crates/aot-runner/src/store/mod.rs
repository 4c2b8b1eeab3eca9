//! The only hands on the state file: lock, read again, apply, replace, watch, journal. Interprets nothing.

pub mod cache;
pub mod conflicts;
pub mod error;
pub mod file;
pub mod home;
pub mod journal;
mod keep;
pub mod lock;
mod replace;
mod system;
pub mod text;
pub mod watch;

pub use keep::{Answers, Foreign, Note, Ready, Recorded, Store, StoreError, Unreadable};
pub(crate) use system::exchange;
