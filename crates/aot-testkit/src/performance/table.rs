//! A row of the table: one figure with its spread, what it was compared with, and its goal. Measures nothing.

use super::measure::Samples;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Times,
    Millis,
    Micros,
    Megabytes,
    Millions,
    Seconds,
}

impl Unit {
    pub fn word(self) -> &'static str {
        match self {
            Unit::Times => "times",
            Unit::Millis => "ms",
            Unit::Micros => "us",
            Unit::Megabytes => "MB",
            Unit::Millions => "M",
            Unit::Seconds => "s",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    AtMost(f64),
    AtLeast(f64),
    /// Shown beside the others.
    None,
}

#[derive(Clone, Debug)]
pub struct Row {
    /// Unique, and what the kept figures are found by.
    pub what: String,
    /// The floor or the rival of the same run.
    pub against: String,
    pub value: f64,
    /// A quarter of the samples is below, and a quarter above.
    pub spread: (f64, f64),
    pub unit: Unit,
    pub goal: Goal,
    /// Both sides as they were measured.
    pub sides: String,
}

impl Row {
    /// How many times as much as the floor: the quotient of the medians.
    pub fn ratio(
        what: impl Into<String>,
        ours: &Samples,
        against: impl Into<String>,
        floor: &Samples,
        goal: Goal,
    ) -> Row {
        let rounds = ours.against(floor);
        Row {
            what: what.into(),
            against: against.into(),
            value: ours.median() / floor.median(),
            spread: (rounds.quantile(0.25), rounds.quantile(0.75)),
            unit: Unit::Times,
            goal,
            sides: format!("{} / {}", seconds(ours.median()), seconds(floor.median())),
        }
    }

    /// A figure that stands for itself.
    pub fn figure(what: impl Into<String>, samples: &Samples, unit: Unit, goal: Goal) -> Row {
        Row {
            what: what.into(),
            against: String::new(),
            value: samples.median(),
            spread: (samples.quantile(0.25), samples.quantile(0.75)),
            unit,
            goal,
            sides: String::new(),
        }
    }

    pub fn compared_with(self, against: impl Into<String>) -> Row {
        Row { against: against.into(), ..self }
    }

    pub fn is_met(&self) -> Option<bool> {
        match self.goal {
            Goal::AtMost(most) => Some(self.value <= most),
            Goal::AtLeast(least) => Some(self.value >= least),
            Goal::None => None,
        }
    }

    pub fn figure_text(&self) -> String {
        format!("{} {}", number(self.value), self.unit.word())
    }

    pub fn spread_text(&self) -> String {
        format!("{}-{}", number(self.spread.0), number(self.spread.1))
    }

    pub fn goal_text(&self) -> String {
        match self.goal {
            Goal::AtMost(most) => format!("<= {}", number(most)),
            Goal::AtLeast(least) => format!(">= {}", number(least)),
            Goal::None => String::new(),
        }
    }

    /// For a terminal.
    pub fn line(&self) -> String {
        let met = match self.is_met() {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "",
        };
        let figure = format!("{} ({})", self.figure_text(), self.spread_text());
        format!(
            "{:<58} {figure:<26} {:<9} {met:<8} {}  {}",
            self.what,
            self.goal_text(),
            self.against,
            self.sides
        )
    }
}

/// Three digits that matter.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A time in the unit that suits it.
pub fn seconds(time: f64) -> String {
    match time {
        time if time >= 1.0 => format!("{} s", number(time)),
        time if time >= 0.001 => format!("{} ms", number(time * 1e3)),
        _ => format!("{} us", number(time * 1e6)),
    }
}
