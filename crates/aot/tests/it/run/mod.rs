//! `aot run` with real processes and real git.

mod crashes;
mod halts;
mod isolation;
mod stopping;
