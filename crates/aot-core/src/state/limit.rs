//! One limit of a loop, by the name that it has in the file. Knows how it is written, and not what it is good for.

use std::fmt;

use super::{Constraints, MAX_PARALLEL_AGENTS, Span};

/// A value for one of the `constraints`. What is optional there can be taken away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    MaxIterations(u32),
    MaxParallelAgents(u32),
    MaxStallCount(u32),
    AgentTimeout(Option<Span>),
    CheckTimeout(Option<Span>),
    MaxWallTime(Option<Span>),
    MaxCostUsd(Option<f64>),
    MaxTokens(Option<u64>),
}

/// Their names, as the contract has them.
pub const LIMITS: [&str; 8] = [
    "max_iterations",
    "max_parallel_agents",
    "max_stall_count",
    "agent_timeout",
    "check_timeout",
    "max_wall_time",
    "max_cost_usd",
    "max_tokens",
];

/// The word that takes an optional limit away.
const NONE: &str = "none";

impl Limit {
    /// Reads a value for the limit of this name; the error says what is wanted.
    pub fn read(name: &str, value: &str) -> Result<Limit, String> {
        let value = value.trim();
        let number = || {
            let number = value.parse().ok().filter(|number: &u32| *number > 0);
            number.ok_or_else(|| format!("`{name}` is a whole number from 1, not `{value}`"))
        };
        let span = || {
            let span = Span::parse(value).filter(|span| span.seconds() > 0);
            let problem =
                || format!("`{name}` is a span of time like `90s`, `30m`, `8h` or `2d`, not `{value}`");
            if value == NONE { Ok(None) } else { span.map(Some).ok_or_else(problem) }
        };
        Ok(match name.replace('-', "_").as_str() {
            "max_iterations" => Limit::MaxIterations(number()?),
            "max_parallel_agents" => match number()? {
                agents @ ..=MAX_PARALLEL_AGENTS => Limit::MaxParallelAgents(agents),
                _ => return Err(format!("`{name}` is at most {MAX_PARALLEL_AGENTS}, not `{value}`")),
            },
            "max_stall_count" => Limit::MaxStallCount(number()?),
            "agent_timeout" => Limit::AgentTimeout(span()?),
            "check_timeout" => Limit::CheckTimeout(span()?),
            "max_wall_time" => Limit::MaxWallTime(span()?),
            "max_cost_usd" if value == NONE => Limit::MaxCostUsd(None),
            "max_cost_usd" => {
                let money = value.parse().ok().filter(|usd: &f64| usd.is_finite() && *usd >= 0.0);
                Limit::MaxCostUsd(Some(money.ok_or_else(|| format!("`{name}` is an amount, not `{value}`"))?))
            }
            "max_tokens" if value == NONE => Limit::MaxTokens(None),
            "max_tokens" => {
                let tokens = value.parse().ok();
                Limit::MaxTokens(Some(
                    tokens.ok_or_else(|| format!("`{name}` is a whole number, not `{value}`"))?,
                ))
            }
            _ => return Err(format!("there is no limit `{name}`; there are {}", LIMITS.join(", "))),
        })
    }

    pub fn name(self) -> &'static str {
        let index = match self {
            Limit::MaxIterations(_) => 0,
            Limit::MaxParallelAgents(_) => 1,
            Limit::MaxStallCount(_) => 2,
            Limit::AgentTimeout(_) => 3,
            Limit::CheckTimeout(_) => 4,
            Limit::MaxWallTime(_) => 5,
            Limit::MaxCostUsd(_) => 6,
            Limit::MaxTokens(_) => 7,
        };
        LIMITS[index]
    }

    /// The constraints with this limit instead of theirs.
    pub fn within(self, mut constraints: Constraints) -> Constraints {
        match self {
            Limit::MaxIterations(number) => constraints.max_iterations = number,
            Limit::MaxParallelAgents(number) => constraints.max_parallel_agents = number,
            Limit::MaxStallCount(number) => constraints.max_stall_count = number,
            Limit::AgentTimeout(span) => constraints.agent_timeout = span,
            Limit::CheckTimeout(span) => constraints.check_timeout = span,
            Limit::MaxWallTime(span) => constraints.max_wall_time = span,
            Limit::MaxCostUsd(usd) => constraints.max_cost_usd = usd,
            Limit::MaxTokens(tokens) => constraints.max_tokens = tokens,
        }
        constraints
    }

    /// The limit of the same name, as it stands.
    pub fn standing(self, constraints: &Constraints) -> Limit {
        match self {
            Limit::MaxIterations(_) => Limit::MaxIterations(constraints.max_iterations),
            Limit::MaxParallelAgents(_) => Limit::MaxParallelAgents(constraints.max_parallel_agents),
            Limit::MaxStallCount(_) => Limit::MaxStallCount(constraints.max_stall_count),
            Limit::AgentTimeout(_) => Limit::AgentTimeout(Some(constraints.agent_timeout())),
            Limit::CheckTimeout(_) => Limit::CheckTimeout(Some(constraints.check_timeout())),
            Limit::MaxWallTime(_) => Limit::MaxWallTime(Some(constraints.max_wall_time())),
            Limit::MaxCostUsd(_) => Limit::MaxCostUsd(constraints.max_cost_usd),
            Limit::MaxTokens(_) => Limit::MaxTokens(constraints.max_tokens),
        }
    }
}

/// The value alone.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::MaxIterations(number)
            | Limit::MaxParallelAgents(number)
            | Limit::MaxStallCount(number) => {
                write!(f, "{number}")
            }
            Limit::AgentTimeout(Some(span))
            | Limit::CheckTimeout(Some(span))
            | Limit::MaxWallTime(Some(span)) => {
                write!(f, "{span}")
            }
            Limit::MaxCostUsd(Some(usd)) => write!(f, "{usd}"),
            Limit::MaxTokens(Some(tokens)) => write!(f, "{tokens}"),
            Limit::AgentTimeout(None)
            | Limit::CheckTimeout(None)
            | Limit::MaxWallTime(None)
            | Limit::MaxCostUsd(None)
            | Limit::MaxTokens(None) => f.write_str(NONE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_by_name_and_kept() {
        for (name, value, shown) in [
            ("max_iterations", "30", "30"),
            ("max-iterations", " 30 ", "30"),
            ("max_parallel_agents", "8", "8"),
            ("max_parallel_agents", "1024", "1024"),
            ("max_stall_count", "1", "1"),
            ("agent_timeout", "90s", "90s"),
            ("check_timeout", "none", "none"),
            ("max_wall_time", "8h", "8h"),
            ("max_cost_usd", "2.5", "2.5"),
            ("max_cost_usd", "none", "none"),
            ("max_tokens", "5000000", "5000000"),
        ] {
            let limit = Limit::read(name, value).expect("it is fine");
            assert_eq!(limit.to_string(), shown, "{name}");
            assert_eq!(limit.name(), name.replace('-', "_"));
            let constraints = limit.within(Constraints::default());
            if shown != NONE {
                assert_eq!(limit.standing(&constraints), limit, "{name}");
            }
        }
    }

    #[test]
    fn what_is_no_limit_is_told() {
        for (name, value, told) in [
            ("max_iterations", "0", "from 1"),
            ("max_iterations", "none", "from 1"),
            ("max_iterations", "-3", "from 1"),
            ("max_parallel_agents", "1025", "at most 1024"),
            ("max_stall_count", "many", "`many`"),
            ("agent_timeout", "30", "`30m`"),
            ("agent_timeout", "0s", "span"),
            ("max_cost_usd", "-1", "amount"),
            ("max_cost_usd", "inf", "amount"),
            ("max_tokens", "1.5", "whole"),
            ("goal", "x", "there are max_iterations"),
        ] {
            let problem = Limit::read(name, value).expect_err("it is not fine");
            assert!(problem.contains(told), "{name}={value}: {problem}");
        }
    }
}
