//! Inside of Claude Code: what hooks answer, the steps of a session, and whole loops on the real client with a model that
//! follows a script. Where the client is not installed, that part is left out loudly, and never with `CI=true`.

mod defects;
mod holds;
mod hooks;
mod installing;
mod kit;
mod screen;
mod screen_life;
mod sessions;
mod steps;
