//! Verification, as a user meets it: the real program, real processes, real files.

mod atoms;
mod judging;
mod kit;
mod linting;
mod people;
mod processes;
mod seals;
mod steering;
mod tables;
mod trees;
