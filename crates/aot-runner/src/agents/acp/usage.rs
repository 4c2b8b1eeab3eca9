//! What an agent has used, as the protocol reports it in pieces.

use crate::agents::profile::Price;
use crate::agents::question::AgentUsage;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SessionUsage {
    /// Of all turns that have ended.
    input: u64,
    output: u64,
    total: u64,
    /// The size of the model's context now: some agents report nothing else.
    context: u64,
    cost_usd: Option<f64>,
}

impl SessionUsage {
    pub fn update(&mut self, context: u64, cost_usd: Option<f64>) {
        self.context = self.context.max(context);
        self.cost_usd = cost_usd.filter(|cost| cost.is_finite() && *cost >= 0.0).or(self.cost_usd);
    }

    /// Adds a turn that has ended: input, output and all tokens.
    pub fn add(&mut self, (input, output, total): (u64, u64, u64)) {
        self.input = self.input.saturating_add(input);
        self.output = self.output.saturating_add(output);
        self.total = self.total.saturating_add(total);
    }

    pub fn used(&self, price: Option<Price>) -> AgentUsage {
        let by_price = price.map(|price| price.of(self.input, self.output));
        AgentUsage { tokens: self.total.max(self.context), cost_usd: self.cost_usd.or(by_price) }
    }
}
