//! Who used what, from the runs of agents that the journal tells of.

use std::collections::BTreeMap;

use aot_core::rules::Change;
use aot_core::state::{AgentRun, Spent};
use serde::Serialize;

/// All runs of an agent in one role.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentTotal {
    pub agent: String,
    pub role: String,
    pub runs: usize,
    pub seconds: u64,
    pub tokens: u64,
    pub cost_usd: f64,
}

pub fn runs_in(change: &Change) -> &[AgentRun] {
    match change {
        Change::SpentSoFar { runs, .. } => runs,
        _ => &[],
    }
}

pub fn agents(runs: &[&AgentRun]) -> Vec<AgentTotal> {
    let mut totals: BTreeMap<(&str, &str), AgentTotal> = BTreeMap::new();
    for run in runs {
        let total = totals.entry((&run.agent, &run.role)).or_insert_with(|| AgentTotal {
            agent: run.agent.clone(),
            role: run.role.clone(),
            runs: 0,
            seconds: 0,
            tokens: 0,
            cost_usd: 0.0,
        });
        total.runs += times_asked(run);
        total.seconds += run.seconds;
        total.tokens += run.tokens;
        total.cost_usd += run.cost_usd.unwrap_or(0.0);
    }
    totals.into_values().collect()
}

/// Each time counts as a run where the loop counts them.
pub fn times_asked(run: &AgentRun) -> usize {
    usize::try_from(run.asked.max(1)).unwrap_or(usize::MAX)
}

/// An older program wrote no runs, and of one that was killed only what it had told is known.
pub fn not_by_run(spent: &Spent, runs: &[&AgentRun]) -> Spent {
    let told: f64 = runs.iter().filter_map(|run| run.cost_usd).sum();
    let cost_usd = (spent.cost_usd - told).max(0.0);
    Spent {
        agent_runs: 0,
        mends: 0,
        seconds: 0,
        tokens: spent.tokens.saturating_sub(runs.iter().map(|run| run.tokens).sum()),
        // Sums of what was added in another order.
        cost_usd: if cost_usd < 1e-9 { 0.0 } else { cost_usd },
    }
}
