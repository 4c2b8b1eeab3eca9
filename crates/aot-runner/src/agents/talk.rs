//! What is asked of an agent, and what comes back. Names no vendor.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use aot_core::brief::Role;
use serde_json::Value;

use crate::process::Guard;
use crate::process::cage::Cage;

/// An answer that cannot be read is asked for again so often, with the reason.
pub const ASKED_AGAIN: u32 = 2;

/// One question to one agent, with all that its run needs.
pub struct Ask<'a> {
    pub role: Role,
    /// The brief.
    pub text: &'a str,
    /// The JSON Schema of the answer.
    pub schema: &'a Value,
    /// The strict reader of the answer; its error is the reason to ask again.
    pub read: &'a (dyn Fn(&Value) -> Result<(), String> + Sync),
    /// Where it works.
    pub folder: &'a Path,
    /// It may write here, and what it writes is gone afterwards.
    pub scratch: &'a Path,
    pub environment: Vec<(OsString, OsString)>,
    pub cage: Option<Cage>,
    /// For the question and its repetitions together.
    pub wall: Duration,
    /// How long it may say nothing.
    pub idle: Option<Duration>,
    /// How often it is asked again while its answer is not valid; [`ASKED_AGAIN`] at most.
    pub again: u32,
    /// Under the switch that ends it.
    pub guard: &'a Guard,
    /// The user's home, where its login is.
    pub home: Option<&'a Path>,
    /// Our own program, which serves `submit_result`.
    pub itself: &'a Path,
    pub hear: &'a (dyn Fn(Heard<'_>) + Sync),
}

impl fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("role", &self.role).field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// What is heard of an agent while it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Heard<'h> {
    /// What it does now, in one line.
    Doing(&'h str),
    /// A piece of its transcript, as it came.
    Said(&'h str),
    /// What it has used so far in this question, all repetitions together.
    Used(Used),
}

/// What one question has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    pub tokens: u64,
    /// Absent where the agent does not tell and has no price.
    pub cost_usd: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Report {
    pub said: Said,
    pub used: Used,
    /// How often it was asked.
    pub asked: u32,
}

/// How a question ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// It was read by the question's reader, and is valid.
    Answer(Value),
    /// There was no valid answer, although it was asked again.
    Wrong { reason: String },
    /// A rate limit or a usage limit.
    Limited { reason: String, retry_after: Option<Duration> },
    /// It is not logged in.
    Unauthenticated { reason: String },
    /// Its model cannot be reached.
    Unreachable { reason: String },
    /// It broke, or gave up.
    Failed { reason: String },
    /// It took too long, or said nothing for too long.
    OutOfTime { reason: String },
    /// We were asked to end it.
    Killed,
    /// It could not even be started.
    NotStarted { reason: String },
}
