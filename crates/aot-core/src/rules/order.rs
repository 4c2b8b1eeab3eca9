//! What probes tell of choices, so that the rest of a stuck group can be put in order (D10). Knows no agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ordered, so that the cheapest feasible choice can go first (D10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cost {
    Tiny,
    Small,
    Medium,
    Large,
    Huge,
}
