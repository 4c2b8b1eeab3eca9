//! Agreeing and changing one's mind: by scripts, at a real terminal, with agents that are scripted, while a loop runs.

#[path = "../run/kit.rs"]
#[allow(dead_code, reason = "the kit of another target, of which only a part is needed here")]
mod kit;

mod aligning;
mod changing;
mod counselled;
mod interrupting;
mod talking;
mod terminal;
mod turning;
