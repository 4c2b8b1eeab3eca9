//! Agents: how they are asked, how they hand in what they found, and real ones at work with a model that follows a
//! script. Where the real ones are not installed, that part is left out loudly, and never with `CI=true`.

mod acp;
mod broken_off;
mod clients;
mod flood;
mod instructions;
mod listed;
mod logins;
mod loops;
mod over_acp;
mod scripted;
mod starting;
mod submit;
mod talks;
mod troubles;
