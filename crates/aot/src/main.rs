//! The doors: the command line. No rules, no processes of its own.

fn main() {}
