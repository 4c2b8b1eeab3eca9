//! The loop's rules as tables: a graph, what happens, what stands at the end. Each line names the decision it guards.

#[path = "rules/world.rs"]
mod world;

#[path = "rules/cases.rs"]
mod cases;
#[path = "rules/derived.rs"]
mod derived;
#[path = "rules/graph.rs"]
mod graph;
#[path = "rules/iterations.rs"]
mod iterations;
#[path = "rules/redirects.rs"]
mod redirects;
#[path = "rules/stops.rs"]
mod stops;
#[path = "rules/strategy.rs"]
mod strategy;
