//! The only module that writes the state file: locks, reads again, applies, replaces, watches, keeps the journal. Has no
//! rules.

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

pub use keep::{Answers, Begun, ExistingFile, Foreign, Note, Ready, Recorded, Store, StoreError, Unreadable};
pub(crate) use system::exchange;
