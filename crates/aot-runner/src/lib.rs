//! Makes a loop happen: files, processes, trees. Has no terminal and no rules of its own.

pub mod store;
