//! Cages, with the real program and real processes: what a job in one can do, what it cannot, and how it ends.

mod bars;
mod checks;
mod doctor;
mod ends;
mod hidden;
mod kit;
mod network;
mod reach;
mod tools;
