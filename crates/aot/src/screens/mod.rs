//! What people see: pure functions from views, outlines and entries to text. Asks nothing, and speaks to no stream.

pub mod agreement;
pub mod clock;
pub mod diagram;
pub mod difference;
pub mod graph;
pub mod hosts;
pub mod ink;
pub mod log;
pub mod loops;
pub mod markup;
pub mod report;
pub mod run;
pub mod status;
pub mod trace;
#[cfg(feature = "watch")]
pub mod watch;
pub mod words;
