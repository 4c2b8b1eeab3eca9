//! One snapshot of a loop for every screen and every short question. Draws nothing.

use serde::{Deserialize, Serialize};

use crate::rules::gate;
use crate::state::{AtomId, AtomStatus, Graph, LoopStatus, State};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    pub status: LoopStatus,
    pub iteration: u32,
    pub stall_count: u32,
    pub stop_reason: Option<String>,
    pub counts: Counts,
    /// What could start now, in the order in which it would. Kept apart where a view is stored: it may be long.
    #[serde(skip)]
    pub ready: Vec<AtomId>,
    pub running: Vec<AtomId>,
    /// What the alignment lacks; empty if the gate is open.
    pub missing: Vec<String>,
}

/// Atoms by status; whatever lies under a choice that takes no part is dormant, whatever its status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub pending: usize,
    pub in_progress: usize,
    pub resolved: usize,
    pub dormant: usize,
}

impl View {
    pub fn of(state: &State) -> View {
        let graph = Graph::new(state);
        let mut counts = Counts::default();
        let mut running = Vec::new();
        for (place, atom) in state.atoms.values().enumerate() {
            if graph.is_dormant(state, place) {
                counts.dormant += 1;
                continue;
            }
            match atom.status {
                AtomStatus::Pending => counts.pending += 1,
                AtomStatus::Resolved => counts.resolved += 1,
                AtomStatus::InProgress => {
                    counts.in_progress += 1;
                    running.push(atom.id.clone());
                }
            }
        }
        View {
            status: state.control.status,
            iteration: state.control.iteration,
            stall_count: state.control.stall_count,
            stop_reason: state.control.stop_reason.clone(),
            counts,
            ready: graph.ready_ids(state).into_iter().cloned().collect(),
            running,
            missing: gate::missing(state),
        }
    }
}
