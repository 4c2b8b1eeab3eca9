//! The only hands on the state file: lock, read again, apply, replace, watch, journal. Interprets nothing.

mod backups;
pub mod cache;
pub mod conflicts;
mod digest;
pub mod error;
pub mod file;
pub mod hold;
pub mod home;
pub mod journal;
mod keep;
pub mod lock;
mod replace;
mod system;
pub mod text;
pub mod watch;

pub use keep::{Answers, Begun, Foreign, Note, Over, Ready, Recorded, Store, StoreError, Unreadable};
pub(crate) use system::exchange;
