//! What was told of a loop, in a file of the sidecar, so that a run that takes it up does not tell the same again. Knows no
//! processes. Without the file, the worst is a telling too many or too few.

use std::io;
use std::path::Path;

use aot_core::state::{State, StopKind};
use serde::{Deserialize, Serialize};

use crate::atomic_file::{self, Durability};
use crate::plain_file;

const FILE: &str = "notified.json";

/// A longer file is none of ours.
const MOST_BYTES: u64 = 1 << 16;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    #[serde(rename = "loop")]
    pub loop_id: Option<String>,
    /// A run has begun, and its end was not told yet.
    pub under_way: bool,
    /// The halt that was told last.
    pub halt: Option<String>,
    /// It is told that the loop is parked, and nothing has worked since.
    pub parked: bool,
}

impl Told {
    pub fn read(sidecar: &Path) -> Told {
        let bytes = plain_file::read(&sidecar.join(FILE), MOST_BYTES);
        bytes.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    pub fn write(&self, sidecar: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        atomic_file::write(&sidecar.join(FILE), &[&text], Durability::Synced)
    }

    pub fn has_told(&self, halt: &str) -> bool {
        self.halt.as_deref() == Some(halt)
    }
}

/// The same halt again, if nothing was done in between: the verdict, and how far the loop is.
pub fn halt_of(verdict: &StopKind, state: &State) -> String {
    let verdict = serde_json::to_string(verdict).unwrap_or_default();
    let runs = state.control.spent.as_ref().map_or(0, |spent| spent.agent_runs);
    format!(
        "{verdict} at iteration {}, {runs} agent runs, {} results, {} trail entries",
        state.control.iteration,
        state.bindings.len(),
        state.trail.len()
    )
}
