//! The verbs over the Model Context Protocol: what the server answers, and whole loops on real clients with a model that
//! follows a script. Where a client is not installed, that part is left out loudly, and never with `CI=true`.

#[allow(dead_code, reason = "the kit of another target, of which only a part is needed here")]
#[path = "../agents/kit.rs"]
mod agents;
mod calls;
mod clients;
mod ends;
mod kit;
mod lists;
#[allow(dead_code, reason = "the kit of another target, of which only a part is needed here")]
#[path = "../run/kit.rs"]
mod repo;
mod turns;
