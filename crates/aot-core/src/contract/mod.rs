//! Text to `State` and back. Knows the file's form; decides nothing.

pub mod document;
pub mod edit;
