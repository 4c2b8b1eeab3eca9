//! Makes a loop happen: files, processes, trees. Has no terminal and no rules of its own.

#[cfg(unix)]
pub mod agents;
pub mod answers;
mod atomic_file;
#[cfg(unix)]
pub mod checks;
#[cfg(unix)]
pub mod confinement;
#[cfg(unix)]
pub mod crew;
#[cfg(unix)]
pub mod detach;
#[cfg(unix)]
pub mod driver;
pub mod durations;
#[cfg(unix)]
pub mod editor;
#[cfg(unix)]
pub mod engine;
pub mod environment;
pub mod habits;
#[cfg(unix)]
pub mod host;
#[cfg(unix)]
pub mod hosting;
#[cfg(unix)]
pub mod interrupt;
#[cfg(unix)]
pub mod keys;
#[cfg(unix)]
pub mod live;
pub mod loops;
pub mod machine;
#[cfg(unix)]
pub mod message;
#[cfg(unix)]
pub mod notify;
pub mod plain_file;
pub mod plain_text;
#[cfg(unix)]
pub mod ports;
#[cfg(unix)]
pub mod process;
#[cfg(feature = "remote")]
pub mod remote;
#[cfg(unix)]
mod scratch;
#[cfg(unix)]
pub mod session;
#[cfg(unix)]
pub mod settings;
#[cfg(unix)]
pub mod shell;
pub mod store;
#[cfg(unix)]
pub mod survey;
#[cfg(unix)]
pub mod tree;
pub mod trust;
