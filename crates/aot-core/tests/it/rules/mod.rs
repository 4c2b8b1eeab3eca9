//! The loop's rules as tables: a graph, what happens, what stands at the end. Each line names the decision it guards.

mod world;

mod cases;
mod derived;
mod durations;
mod graph;
mod iterations;
mod redirects;
mod stops;
mod strategy;
