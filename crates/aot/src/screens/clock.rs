//! Spans and moments as people say them. Has no clock: now is an argument.

use jiff::Timestamp;
use jiff::tz::TimeZone;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// `42s`, `4m 10s`, `3h 5m`, `2d 3h`.
pub fn span(seconds: u64) -> String {
    let two = |large: u64, large_unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit} {small}{small_unit}"),
    };
    match seconds {
        0..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => two(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        HOUR..DAY => two(seconds / HOUR, "h", seconds % HOUR / MINUTE, "m"),
        DAY.. => two(seconds / DAY, "d", seconds % DAY / HOUR, "h"),
    }
}

/// How long it is since a moment; nothing if it lies ahead.
pub fn since(then: Timestamp, now: Timestamp) -> String {
    span(u64::try_from(now.as_second() - then.as_second()).unwrap_or(0))
}

/// The time of day.
pub fn time(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string()
}

/// The day.
pub fn day(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn spans_in_two_units_at_most() {
        for (seconds, expected) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (250, "4m 10s"),
            (3_600, "1h"),
            (11_130, "3h 5m"),
            (86_400, "1d"),
            (183_600, "2d 3h"),
        ] {
            assert_eq!(span(seconds), expected);
        }
    }
}
