//! The verbs over the Model Context Protocol: what the server answers, and whole loops on real clients with a model that
//! follows a script. Where a client is not installed, that part is left out loudly, and never with `CI=true`.

mod calls;
mod clients;
mod ends;
mod kit;
mod lists;
mod turns;
