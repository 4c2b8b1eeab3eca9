//! `aot run` with real processes and real git.

mod crashes;
mod halts;
mod hanging;
mod isolation;
mod stopping;
mod traps;
