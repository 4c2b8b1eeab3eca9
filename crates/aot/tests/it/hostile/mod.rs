//! What a cloned repository brings and what a worker prints: links, pipes, forged files, commands, escapes. Nothing of it is
//! followed, believed, run or shown as such without a person.

mod clones;
mod doors;
mod limits;
mod screens;
mod trust;
