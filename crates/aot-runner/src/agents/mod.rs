//! Agents: a brief becomes a running agent, and what it prints becomes a report. Does not retry what failed, does not
//! judge, and knows nothing of the graph.

mod talk;

pub use talk::{ASKED_AGAIN, Ask, Heard, Report, Said, Used};
