//! Spans and moments as people say them. Has no clock: now is an argument.

use aot_core::rules::estimate::Estimate;
use jiff::Timestamp;
use jiff::tz::TimeZone;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Estimates below these are told in the smaller unit.
const SECONDS_TOLD: u64 = 90;
const MINUTES_TOLD: u64 = 90 * MINUTE;
const HOURS_TOLD: u64 = 48 * HOUR;

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

/// An estimate with its spread, in one unit and not more exact than it is.
pub fn estimate(estimate: &Estimate) -> String {
    let Estimate { seconds, low, high, rests_on: _ } = estimate;
    let (unit, of_a_unit) = match *seconds {
        ..SECONDS_TOLD => ("s", 1),
        SECONDS_TOLD..MINUTES_TOLD => ("min", MINUTE),
        MINUTES_TOLD..HOURS_TOLD => ("h", HOUR),
        HOURS_TOLD.. => ("days", DAY),
    };
    let [about, low, high] = [seconds, low, high].map(|seconds| roughly(*seconds as f64 / of_a_unit as f64));
    match low == high {
        true => format!("about {about} {unit}"),
        false => format!("about {about} {unit}, likely {low} to {high}"),
    }
}

/// Halves below ten, fives from twenty on, tens from a hundred on.
fn roughly(units: f64) -> f64 {
    let step = match units {
        ..10.0 => 0.5,
        ..20.0 => 1.0,
        ..100.0 => 5.0,
        _ => 10.0,
    };
    ((units / step).round() * step).max(0.5)
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
    use aot_core::rules::estimate::{Estimate, EstimateBasis};

    use super::span;

    #[test]
    fn an_estimate_is_no_more_exact_than_it_is() {
        for ((seconds, low, high), expected) in [
            ((2_400, 1_500, 4_200), "about 40 min, likely 25 to 70"),
            ((2_377, 1_512, 4_090), "about 40 min, likely 25 to 70"),
            ((3, 1, 12), "about 3 s, likely 1 to 12"),
            ((0, 0, 0), "about 0.5 s"),
            ((89, 20, 400), "about 90 s, likely 20 to 400"),
            ((100, 20, 400), "about 1.5 min, likely 0.5 to 6.5"),
            ((7_000, 5_000, 12_000), "about 2 h, likely 1.5 to 3.5"),
            ((260_000, 200_000, 400_000), "about 3 days, likely 2.5 to 4.5"),
        ] {
            let estimate = Estimate { seconds, low, high, rests_on: EstimateBasis::default() };
            assert_eq!(super::estimate(&estimate), expected);
        }
    }

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
