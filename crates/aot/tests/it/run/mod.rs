//! `aot run` with real processes and real git.

mod apart;
mod crashes;
mod detached;
mod dying;
mod estimated;
mod followed;
mod halts;
mod hanging;
mod isolation;
mod looks;
mod notified;
mod pr;
mod report;
mod stopping;
mod told;
mod traces;
mod traps;
mod trees;
mod undo;
mod watched;
