//! Agreeing and changing one's mind: by scripts, at a real terminal, with agents that are scripted, while a loop runs.

mod aligning;
mod changing;
mod counselled;
mod interrupting;
mod one_line;
mod talking;
mod turning;
