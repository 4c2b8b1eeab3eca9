//! Agents: how they are asked, and how they hand in what they found.

mod submit;
