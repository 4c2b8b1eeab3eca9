//! How much can still happen, at most (D8). Computed from the state and what is in flight; it only falls, unless a
//! person redirects or edits.

use serde::Serialize;

/// The most that a loop can still cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bound {
    pub agent_runs: u64,
    /// Of wall time.
    pub seconds: u64,
    /// Without `max_cost_usd` there is no figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}
