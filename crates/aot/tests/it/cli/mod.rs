//! The command line as people and scripts meet it: the real binary, in folders of its own, in a hermetic environment.

mod project;

mod among_others;
mod guide;
mod installed;
mod loops;
mod operations;
mod questions;
mod screens;
mod tutorial;
mod widths;
