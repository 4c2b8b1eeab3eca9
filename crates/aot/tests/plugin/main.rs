//! Inside of Claude Code: what hooks answer, the steps of a session, and whole loops on the real client with a model that
//! follows a script. Where the client is not installed, that part is left out loudly, and never with `CI=true`.

#[allow(dead_code, reason = "the kit of another target, of which only a part is needed here")]
#[path = "../agents/kit.rs"]
mod agents;
mod defects;
mod holds;
mod hooks;
mod installing;
mod kit;
#[allow(dead_code, reason = "the kit of another target, of which only a part is needed here")]
#[path = "../run/kit.rs"]
mod repo;
mod sessions;
mod steps;
