//! What an agent's error texts mean: a missing login, a limit, a network that is down.

use std::sync::LazyLock;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{ToSpan, Zoned};
use regex::{Captures, Regex};

use super::profile::{ErrorPattern, ErrorPatterns};
use super::question::AgentOutcome;

/// Characters kept of a reason.
const REASON_KEPT: usize = 300;

/// A time of day that is past by so much is meant for today all the same: the agent wrote it down a moment ago.
const JUST_PAST_MINUTES: i64 = 10;

impl ErrorPatterns {
    /// A missing login comes first, because it gets the agent refused as well.
    pub(super) fn classify(&self, texts: &[String], now: &Zoned) -> Option<AgentOutcome> {
        if let Some((reason, _)) = first(&self.unauthenticated, texts) {
            return Some(AgentOutcome::Unauthenticated { reason });
        }
        if let Some((reason, found)) = first(&self.limited, texts) {
            // Another text may say when the limit ends.
            let elsewhere =
                || self.limited.iter().flat_map(|ErrorPattern(p)| texts.iter().filter_map(|t| p.captures(t)));
            let retry_after = wait(&found, now).or_else(|| elsewhere().find_map(|found| wait(&found, now)));
            return Some(AgentOutcome::RateLimited { reason, retry_after });
        }
        first(&self.unreachable, texts).map(|(reason, _)| AgentOutcome::Unreachable { reason })
    }

    /// Whether an error of a tool is one that belongs to the work. What the system forbids does not.
    pub(super) fn is_everyday(&self, text: &str) -> bool {
        !FORBIDDEN.is_match(text) && self.everyday.iter().any(|ErrorPattern(pattern)| pattern.is_match(text))
    }
}

/// How programs tell what a cage, or the rights of a user, keep them from.
static FORBIDDEN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("(?i)read-only file system|permission denied|operation not permitted|EROFS|EACCES|EPERM")
        .expect("it is well formed")
});

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

/// How long it is until an agent may be asked again.
fn wait(found: &Captures<'_>, now: &Zoned) -> Option<Duration> {
    let number = |name: &str| found.name(name).and_then(|text| text.as_str().parse::<f64>().ok());
    let seconds = match (number("epoch"), number("seconds"), number("minutes")) {
        (Some(epoch), _, _) => {
            // Some write milliseconds.
            let epoch = if epoch > 1e11 { epoch / 1000.0 } else { epoch };
            (epoch - now.timestamp().as_second() as f64).max(1.0)
        }
        (None, Some(seconds), _) => seconds,
        (None, None, Some(minutes)) => minutes * 60.0,
        (None, None, None) => {
            let until = by_clock(found.name("clock")?.as_str(), now)?;
            (until.timestamp().as_second() - now.timestamp().as_second()).max(1) as f64
        }
    };
    Duration::try_from_secs_f64(seconds.ceil()).ok()
}

/// `7:20 AM`, `3pm (Europe/Berlin)`, `Nov 20th, 2026 7:20 AM`.
static CLOCK: LazyLock<Regex> = LazyLock::new(|| {
    let date =
        r"(?:(?<month>[a-z]{3})[a-z]*\.? (?<day>\d{1,2})(?:st|nd|rd|th)?,? (?:(?<year>\d{4}),? )?(?:at )?)?";
    let time = r"(?<hour>\d{1,2})(?::(?<minute>\d{2}))?\s?(?<half>[ap]m)?(?: \((?<zone>[\w/+-]+)\))?";
    Regex::new(&format!("(?i)^{date}{time}")).expect("it is well formed")
});

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// The moment that a time of day means: on the day that is named, else today or tomorrow. It is told in the time of this
/// machine, unless it names a zone.
fn by_clock(text: &str, now: &Zoned) -> Option<Zoned> {
    let found = CLOCK.captures(text.trim())?;
    let part = |name: &str| found.name(name).map(|part| part.as_str());
    let number = |name: &str| part(name).map_or(Some(0), |part| part.parse::<i8>().ok());
    let zone = part("zone").map_or(Some(now.time_zone().clone()), |name| TimeZone::get(name).ok())?;
    let now = now.with_time_zone(zone.clone());
    let hour = match (number("hour")?, part("half").map(str::to_ascii_lowercase).as_deref()) {
        (hour @ 1..=12, Some(half)) => hour % 12 + if half == "pm" { 12 } else { 0 },
        // A bare number is no time of day.
        (hour, None) if part("minute").is_some() => hour,
        _ => return None,
    };
    let on = |date: Date| {
        date.at(0, 0, 0, 0)
            .with()
            .hour(hour)
            .minute(number("minute")?)
            .build()
            .ok()?
            .to_zoned(zone.clone())
            .ok()
    };
    let Some(month) = part("month").map(str::to_ascii_lowercase) else {
        let today = on(now.date())?;
        let is_over = now.timestamp().as_second() - today.timestamp().as_second() > JUST_PAST_MINUTES * 60;
        return if is_over { on(now.date().checked_add(1.day()).ok()?) } else { Some(today) };
    };
    let month = MONTHS.iter().position(|known| *known == month)?;
    let year = part("year").map_or(Some(now.year()), |year| year.parse().ok())?;
    on(Date::new(year, i8::try_from(month + 1).ok()?, number("day")?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns() -> ErrorPatterns {
        toml::from_str(
            "limited = ['(?i)rate.?limit', 'limit reached\\|(?<epoch>\\d+)', '(?i)retry.after: (?<seconds>\\d+)', \
             'try again at (?<clock>[^.]+)', 'resets (?<clock>.*)']\n\
             unauthenticated = ['\\b401\\b', '(?i)please log in']\nunreachable = ['ECONNREFUSED']",
        )
        .expect("patterns")
    }

    fn check(texts: &[&str], expected: &str) {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        // 1970-01-12 13:46:40 UTC
        let now = jiff::Timestamp::from_second(1_000_000).expect("a time").to_zoned(TimeZone::UTC);
        let shown = match patterns().classify(&texts, &now) {
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

    /// The wait until a time of day, in minutes, at 13:46:40 UTC in winter.
    #[test]
    fn times_of_day_are_read_as_the_agents_tell_them() {
        let minutes = |text: &str| {
            let now = jiff::Timestamp::from_second(1_000_000).expect("a time").to_zoned(TimeZone::UTC);
            by_clock(text, &now).map(|until| (until.timestamp().as_second() - 1_000_000).div_euclid(60))
        };
        const DAY: i64 = 24 * 60;
        for (text, expected) in [
            ("2:20 PM", Some(33)),
            ("2:20 pm or later", Some(33)),
            ("7:20 AM", Some(DAY - 387)),
            ("12:00 AM", Some(613)),
            ("12:30 PM", Some(DAY - 77)),
            // A moment ago, so it is over.
            ("1:40 PM", Some(-7)),
            ("15:00", Some(73)),
            ("3pm", Some(73)),
            ("3pm (UTC)", Some(73)),
            ("Jan 13th, 1970 1:46 PM", Some(DAY - 1)),
            ("Jan 13, 3pm", Some(DAY + 73)),
            ("3pm (Nowhere/Land)", None),
            ("25:00", None),
            ("13 PM", None),
            ("5", None),
            ("the end of the month", None),
        ] {
            assert_eq!(minutes(text), expected, "{text}");
        }
        let here = TimeZone::fixed(jiff::tz::offset(5));
        let now = jiff::Timestamp::from_second(1_000_000).expect("a time").to_zoned(here);
        let at = |text: &str| by_clock(text, &now).expect("a time").timestamp().to_string();
        assert_eq!(at("3pm (UTC)"), "1970-01-12T15:00:00Z");
        assert_eq!(at("8:30 PM"), "1970-01-12T15:30:00Z");
    }

    #[test]
    fn errors_are_classified() {
        check(&["usage limit, try again at 1:48 PM."], "limited 80 (usage limit, try again at 1:48 PM.)");
        check(&["limit, try again at 1:45 PM"], "limited 1 (limit, try again at 1:45 PM)");
        check(&["limit, try again later", "rate limit"], "limited 0 (rate limit)");
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
