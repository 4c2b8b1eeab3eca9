//! The lines at the top: the goal, where the loop stands, what it can still cost, and what it needs of a person.

use aot_core::state::LoopStatus;
use aot_core::verdict::Outcome;
use aot_core::view::View;
use jiff::Timestamp;

use super::Watched;
use super::panes::unasked;
use crate::screens::clock;
use crate::screens::hosts;
use crate::screens::ink::{Ink, Paint};
use crate::screens::status::{self, LastSeen};
use crate::text;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// So many lines of a reason, and so many steps, are shown.
const TOLD: usize = 2;

pub fn lines(watched: &Watched, now: Timestamp, ink: Ink) -> Vec<String> {
    let view = &watched.view;
    let mut lines = vec![ink.paint(Paint::Bold, &ink.fit(&view.goal, ink.columns)), standing(watched, ink)];
    lines.push(bar(watched, ink));
    if view.status != LoopStatus::Completed {
        lines.push(ink.paint(Paint::Dim, &cost(watched, now, ink)));
    } else if let Some(spent) = status::spent(view) {
        lines.push(ink.paint(Paint::Dim, &ink.fit(&format!("spent {spent}"), ink.columns)));
    }
    if let Some(now) = &watched.beside.live.hosts {
        let line = format!("hosts {}", hosts::summary(now));
        lines.push(ink.paint(Paint::Dim, &ink.fit(&line, ink.columns)));
    }
    for (paint, note) in notes(watched, ink) {
        lines.push(ink.paint(paint, &ink.fit(&note, ink.columns)));
    }
    lines
}

/// A bar that is too short tells nothing.
const SHORTEST_BAR: usize = 12;

/// The counts stand behind the bar where there is room.
fn bar(watched: &Watched, ink: Ink) -> String {
    let counts = &watched.view.counts;
    let short = status::resolved(counts);
    let rest = status::unresolved(counts);
    let whole = if rest.is_empty() { short.clone() } else { format!("{short}; {rest}") };
    for words in [whole, short] {
        if text::width(&words) + 2 + SHORTEST_BAR <= ink.columns {
            return format!("{}  {words}", status::bar(counts, &words, ink));
        }
    }
    ink.fit(&status::resolved(counts), ink.columns)
}

/// Who drives it is told where there is room.
fn standing(watched: &Watched, ink: Ink) -> String {
    let (word, paint) = status::standing(watched.view.status);
    let mut rest = status::progress(&watched.view);
    if text::width(word) + text::width(&rest) > ink.columns {
        rest = rest.replace(" of ", "/");
    }
    let driver = status::driver(&watched.view, &watched.beside).map(|driver| format!(", {driver}"));
    let driver =
        driver.filter(|driver| text::width(word) + text::width(&rest) + text::width(driver) <= ink.columns);
    let rest = ink.fit(&format!("{rest}{}", driver.unwrap_or_default()), ink.columns - text::width(word));
    format!("{}{rest}", ink.paint(paint, word))
}

/// The bound as it was written, less what has passed since while the loop runs; what may be expected, and what was spent, where
/// there is room.
fn cost(watched: &Watched, now: Timestamp, ink: Ink) -> String {
    let View { bound, status, .. } = &watched.view;
    let runs = *status == LoopStatus::Running && watched.beside.driver.is_some();
    let passed = watched.written.filter(|_| runs).map_or(0, |then| now.as_second() - then.as_second());
    let seconds = bound.seconds.saturating_sub(u64::try_from(passed).unwrap_or(0));
    let left = format!("left at most {}", status::left(bound, countdown(seconds)));
    let estimate = watched.beside.estimate.as_ref().map(clock::estimate);
    let spent = status::spent(&watched.view).map(|spent| format!("spent {spent}"));
    let mut line = ink.fit(&left, ink.columns);
    for more in estimate.into_iter().chain(spent) {
        let longer = format!("{line}; {more}");
        if text::width(&longer) <= ink.columns {
            line = longer;
        }
    }
    line
}

/// A span to the second: what counts down is seen to go on.
fn countdown(seconds: u64) -> String {
    match seconds {
        0..HOUR => clock::span(seconds),
        HOUR..DAY => format!("{} {}s", clock::span(seconds - seconds % MINUTE), seconds % MINUTE),
        DAY.. => {
            let (days, hours, minutes) = (seconds / DAY, seconds % DAY / HOUR, seconds % HOUR / MINUTE);
            format!("{days}d {hours}h {minutes}m {}s", seconds % MINUTE)
        }
    }
}

/// What is out of the ordinary, and what a person can do.
fn notes(watched: &Watched, ink: Ink) -> Vec<(Paint, String)> {
    let view = &watched.view;
    let mut notes = Vec::new();
    if let Some(problem) = &watched.problem {
        notes.push((Paint::Yellow, format!("shown as it was: {problem}")));
    }
    match (view.status, &view.stop_reason) {
        (LoopStatus::Stopped, Some(reason)) => {
            let lines = text::wrapped(&text::plain(reason), ink.columns);
            notes.extend(lines.into_iter().take(TOLD).map(|line| (Paint::Red, line)));
        }
        (LoopStatus::Running, _) if view.redirect_requested => {
            notes.push((Paint::Yellow, "a redirect is under way: everything is interrupted".to_owned()));
        }
        (LoopStatus::Running, _) if view.stop_requested => {
            notes.push((Paint::Yellow, "stopping: what runs finishes, nothing new starts".to_owned()));
        }
        (LoopStatus::Pending | LoopStatus::Running | LoopStatus::Stopped | LoopStatus::Completed, _) => {}
    }
    if let Some(until) = &view.parked_until {
        let why = view.parked_reason.as_deref().unwrap_or("no agent can start");
        let until = clock::time(until.at(), &watched.zone);
        notes.push((Paint::Yellow, format!("parked until {until}: {why}")));
    }
    let hosts = watched.beside.live.hosts.iter().flat_map(|now| &now.hosts);
    for host in hosts.filter(|host| !["up", "new"].contains(&host.state.as_str())) {
        notes.push((Paint::Yellow, hosts::line(host)));
    }
    for job in &watched.beside.live.jobs {
        if let Some(waiting) = &job.waiting {
            let who = job.atom.as_deref().unwrap_or(&job.task);
            notes.push((Paint::Yellow, format!("{who} is done, and waits to land: {waiting}")));
        }
    }
    notes.extend(
        unconfirmed(watched).map(|item| (Paint::Yellow, format!("needs your word: {item} (press c)"))),
    );
    if view.status == LoopStatus::Pending && !view.missing.is_empty() {
        notes.push((Paint::Yellow, format!("not aligned; missing: {}", view.missing.join(", "))));
    }
    for step in view.next_steps.iter().take(TOLD) {
        notes.push((Paint::Bold, format!("next: {step}")));
    }
    if let (LoopStatus::Completed, Some(branch)) = (view.status, &view.branch) {
        notes.push((Paint::Bold, format!("next: git merge {branch}")));
    }
    notes
}

/// Assertions for which nothing else has to be done first, as far as is known.
fn unconfirmed(watched: &Watched) -> impl Iterator<Item = &str> {
    let is_stopped = watched.view.status == LoopStatus::Stopped;
    let is_due = move |seen: &LastSeen| is_stopped || seen.outcome == Some(Outcome::Pending);
    let is_open = watched.view.status != LoopStatus::Completed;
    let waits = unasked(watched).filter(move |seen| is_open && is_due(seen));
    waits.map(|seen| seen.item.as_str())
}

#[cfg(test)]
mod tests {
    use super::countdown;

    #[test]
    fn a_countdown_shows_each_second() {
        for (seconds, expected) in [
            (7, "7s"),
            (61, "1m 1s"),
            (3_600, "1h 0s"),
            (11_130, "3h 5m 30s"),
            (86_399, "23h 59m 59s"),
            (86_400, "1d 0h 0m 0s"),
        ] {
            assert_eq!(countdown(seconds), expected);
        }
    }
}
