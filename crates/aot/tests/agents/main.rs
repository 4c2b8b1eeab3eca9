//! Agents: how they are asked, how they hand in what they found, and real ones at work with a model that follows a
//! script. Where the real ones are not installed, that part is left out loudly, and never with `CI=true`.

mod acp;
mod clients;
mod kit;
mod loops;
mod over_acp;
#[allow(dead_code, reason = "the kit of another target, of which only a part is needed here")]
#[path = "../run/kit.rs"]
mod repo;
mod scripted;
mod submit;
mod talks;
#[allow(dead_code, reason = "the terminal of another target, of which only a part is needed here")]
#[path = "../dialogue/terminal.rs"]
mod terminal;
mod troubles;
