//! What an agent's error texts mean: a missing login, a limit, a network that is down.

use std::time::Duration;

use jiff::Timestamp;
use regex::Captures;

use super::profile::{ErrorPattern, ErrorPatterns};
use super::question::AgentOutcome;

/// Characters kept of a reason.
const REASON_KEPT: usize = 300;

impl ErrorPatterns {
    /// A missing login comes first, because it gets the agent refused as well.
    pub(super) fn classify(&self, texts: &[String], now: Timestamp) -> Option<AgentOutcome> {
        if let Some((reason, _)) = first(&self.unauthenticated, texts) {
            return Some(AgentOutcome::Unauthenticated { reason });
        }
        if let Some((reason, found)) = first(&self.limited, texts) {
            // Another text may say when the limit ends.
            let elsewhere =
                || self.limited.iter().flat_map(|ErrorPattern(p)| texts.iter().filter_map(|t| p.captures(t)));
            let retry_after =
                moment(&found, now).or_else(|| elsewhere().find_map(|found| moment(&found, now)));
            return Some(AgentOutcome::RateLimited { reason, retry_after });
        }
        first(&self.unreachable, texts).map(|(reason, _)| AgentOutcome::Unreachable { reason })
    }
}

/// The latest text that one of the patterns fits, as a reason.
fn first<'t>(patterns: &[ErrorPattern], texts: &'t [String]) -> Option<(String, Captures<'t>)> {
    texts.iter().rev().find_map(|text| {
        let found = patterns.iter().find_map(|ErrorPattern(pattern)| pattern.captures(text))?;
        let at = found.get(0).map_or(0, |whole| whole.start());
        Some((around(text, at), found))
    })
}

/// The line of a match.
fn around(text: &str, at: usize) -> String {
    let begin = text[..at].rfind('\n').map_or(0, |before| before + 1);
    let line = text[begin..].lines().next().unwrap_or_default();
    let plain: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let plain = plain.trim();
    match plain.char_indices().nth(REASON_KEPT) {
        Some((end, _)) => format!("{}…", &plain[..end]),
        None => plain.to_owned(),
    }
}

fn moment(found: &Captures<'_>, now: Timestamp) -> Option<Duration> {
    let number = |name: &str| found.name(name).and_then(|text| text.as_str().parse::<f64>().ok());
    let seconds = match (number("epoch"), number("seconds"), number("minutes")) {
        (Some(epoch), _, _) => {
            // Some write milliseconds.
            let epoch = if epoch > 1e11 { epoch / 1000.0 } else { epoch };
            (epoch - now.as_second() as f64).max(1.0)
        }
        (None, Some(seconds), _) => seconds,
        (None, None, Some(minutes)) => minutes * 60.0,
        (None, None, None) => return None,
    };
    Duration::try_from_secs_f64(seconds.ceil()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns() -> ErrorPatterns {
        toml::from_str(
            "limited = ['(?i)rate.?limit', 'limit reached\\|(?<epoch>\\d+)', '(?i)retry.after: (?<seconds>\\d+)']\n\
             unauthenticated = ['\\b401\\b', '(?i)please log in']\nunreachable = ['ECONNREFUSED']",
        )
        .expect("patterns")
    }

    fn check(texts: &[&str], expected: &str) {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let now = Timestamp::from_second(1_000_000).expect("a time");
        let shown = match patterns().classify(&texts, now) {
            None => "nothing".to_owned(),
            Some(AgentOutcome::RateLimited { reason, retry_after }) => {
                format!("limited {} ({reason})", retry_after.map_or(0, |after| after.as_secs()))
            }
            Some(AgentOutcome::Unauthenticated { reason }) => format!("unauthenticated ({reason})"),
            Some(AgentOutcome::Unreachable { reason }) => format!("unreachable ({reason})"),
            Some(other) => format!("{other:?}"),
        };
        assert_eq!(shown, expected, "{texts:?}");
    }

    #[test]
    fn errors_are_classified() {
        check(&[], "nothing");
        check(&["all is well"], "nothing");
        check(&["HTTP 429: Rate limit"], "limited 0 (HTTP 429: Rate limit)");
        check(&["usage limit reached|1000060"], "limited 60 (usage limit reached|1000060)");
        check(&["limit reached|1000060000000"], "limited 999060000 (limit reached|1000060000000)");
        check(&["rate limit", "Retry-After: 7"], "limited 7 (Retry-After: 7)");
        check(&["Retry-After: 7", "rate limit"], "limited 7 (rate limit)");
        check(&["a\nHTTP 401 x\nb", "rate limit"], "unauthenticated (HTTP 401 x)");
        check(&["connect ECONNREFUSED 127.0.0.1"], "unreachable (connect ECONNREFUSED 127.0.0.1)");
    }
}
