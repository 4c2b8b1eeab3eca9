//! Makes a loop happen: files, processes, trees. Has no terminal and no rules of its own.

#[cfg(unix)]
pub mod checks;
#[cfg(unix)]
pub mod process;
pub mod settings;
pub mod store;
#[cfg(unix)]
pub mod tree;
