//! The limits of a loop as flags: the same words at the alignment and in a redirect.

use aot_core::state::Limit;
use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments;
use crate::failure::Failure;

#[derive(Clone, Debug, Default, Args, Deserialize, JsonSchema)]
pub struct LimitArgs {
    /// Maximum iterations
    #[arg(long, value_name = "N", help_heading = "Limits")]
    #[serde(skip)]
    max_iterations: Option<String>,
    /// Maximum agents at the same time
    #[arg(long, value_name = "N", help_heading = "Limits")]
    #[serde(skip)]
    max_parallel_agents: Option<String>,
    /// Maximum iterations in a row without progress
    #[arg(long, value_name = "N", help_heading = "Limits")]
    #[serde(skip)]
    max_stall_count: Option<String>,
    /// Time limit for one agent: 90s, 30m, 8h
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    #[serde(skip)]
    agent_timeout: Option<String>,
    /// Time limit for one check
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    #[serde(skip)]
    check_timeout: Option<String>,
    /// Time limit for the whole loop
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    #[serde(skip)]
    max_wall_time: Option<String>,
    /// Maximum cost in US dollars; `none` removes the limit
    #[arg(long, value_name = "USD", help_heading = "Limits")]
    #[serde(skip)]
    max_cost_usd: Option<String>,
    /// Maximum tokens; `none` removes the limit
    #[arg(long, value_name = "N", help_heading = "Limits")]
    #[serde(skip)]
    max_tokens: Option<String>,
    /// Any of these limits by its name in the file: max_iterations=30
    #[arg(long, value_name = "LIMIT=VALUE", help_heading = "Limits")]
    #[serde(default, deserialize_with = "arguments::limits")]
    #[schemars(schema_with = "arguments::limits_schema")]
    set: Vec<String>,
}

impl LimitArgs {
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.flags().iter().all(|(_, value)| value.is_none())
    }

    /// What was asked for, in the order of the contract; a limit that is given twice comes twice.
    pub fn limits(&self) -> Result<Vec<Limit>, Failure> {
        let mut limits = Vec::new();
        for (name, value) in self.flags() {
            if let Some(value) = value {
                limits.push(read(&format!("--{name}"), name, value)?);
            }
        }
        for given in &self.set {
            limits.push(assigned(given)?);
        }
        Ok(limits)
    }

    fn flags(&self) -> [(&'static str, Option<&String>); 8] {
        [
            ("max-iterations", self.max_iterations.as_ref()),
            ("max-parallel-agents", self.max_parallel_agents.as_ref()),
            ("max-stall-count", self.max_stall_count.as_ref()),
            ("agent-timeout", self.agent_timeout.as_ref()),
            ("check-timeout", self.check_timeout.as_ref()),
            ("max-wall-time", self.max_wall_time.as_ref()),
            ("max-cost-usd", self.max_cost_usd.as_ref()),
            ("max-tokens", self.max_tokens.as_ref()),
        ]
    }
}

/// A limit as `name=value`.
pub fn assigned(given: &str) -> Result<Limit, Failure> {
    let Some((name, value)) = given.split_once('=') else {
        return Err(unreadable("--set", format!("`{given}` has no `=`")));
    };
    read("--set", name.trim(), value)
}

fn read(flag: &str, name: &str, value: &str) -> Result<Limit, Failure> {
    Limit::read(name, value).map_err(|problem| unreadable(flag, problem))
}

fn unreadable(flag: &str, problem: String) -> Failure {
    Failure::input(flag, problem, "write it like `--set max_iterations=30` or `--max-wall-time 8h`")
}
