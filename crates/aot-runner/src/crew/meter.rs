//! What agents use, from the report of an agent to the event that charges it. Knows no limit.

use std::sync::{Mutex, MutexGuard, PoisonError};

use aot_core::coordinator::{JobId, Usage};

use crate::agents::AgentUsage;

/// What has been used and is not reported yet.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Whose it is; nothing for an evaluation of the base case.
    pub job: Option<JobId>,
    sum: Mutex<Usage>,
}

impl Meter {
    pub fn of(job: &JobId) -> Meter {
        Meter { job: Some(job.clone()), ..Meter::default() }
    }

    pub fn add(&self, usage: Usage) {
        let mut sum = self.locked();
        sum.agent_runs = sum.agent_runs.saturating_add(usage.agent_runs);
        sum.mends = sum.mends.saturating_add(usage.mends);
        sum.tokens = sum.tokens.saturating_add(usage.tokens);
        sum.cost_usd += usage.cost_usd;
    }

    pub fn take(&self) -> Usage {
        std::mem::take(&mut *self.locked())
    }

    fn locked(&self) -> MutexGuard<'_, Usage> {
        self.sum.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much of what one question has used was reported already.
#[derive(Debug, Default)]
pub(super) struct ReportedUsage(Mutex<AgentUsage>);

impl ReportedUsage {
    /// What was used since the last report.
    pub fn since_last(&self, used: AgentUsage) -> Usage {
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cost = |used: AgentUsage| used.cost_usd.unwrap_or(0.0);
        let rest = Usage {
            agent_runs: 0,
            mends: 0,
            tokens: used.tokens.saturating_sub(reported.tokens),
            cost_usd: (cost(used) - cost(*reported)).max(0.0),
        };
        // An agent that corrects itself downwards is not paid back.
        reported.tokens = reported.tokens.max(used.tokens);
        reported.cost_usd = Some(cost(*reported).max(cost(used)));
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_reported_once() {
        let reported = ReportedUsage::default();
        let used = |tokens, cost| AgentUsage { tokens, cost_usd: cost };
        assert_eq!(reported.since_last(used(100, None)), Usage { tokens: 100, ..Usage::default() });
        assert_eq!(
            reported.since_last(used(150, Some(0.5))),
            Usage { tokens: 50, cost_usd: 0.5, ..Usage::default() }
        );
        assert_eq!(reported.since_last(used(120, Some(0.25))), Usage::default());
        assert_eq!(
            reported.since_last(used(160, Some(0.75))),
            Usage { tokens: 10, cost_usd: 0.25, ..Usage::default() }
        );
    }
}
