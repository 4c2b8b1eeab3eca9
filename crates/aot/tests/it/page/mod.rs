//! The page of `aot serve`: over plain connections, and in a real browser.

pub use kit::browser;

mod doors;
mod kit;
mod seen;
mod steered;
