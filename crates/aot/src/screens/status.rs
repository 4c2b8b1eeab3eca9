//! Where a loop stands, on one screen of 80 by 24, however many atoms it has. Draws a [`View`] and what the command
//! found beside it.

use std::collections::HashMap;

use aot_core::rules::bound::Bound;
use aot_core::rules::estimate::Estimate;
use aot_core::state::{AtomId, LoopStatus, Stamp};
use aot_core::verdict::Outcome;
use aot_core::view::{Alternatives, Counts, DisplayStatus, View};
use aot_runner::live::LiveNow;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::clock;
use super::hosts;
use super::ink::{Ink, Paint};
use crate::text;

/// So many lines are shown of each list at most; the rest is counted.
const SHOWN: usize = 4;

/// Lists are cut further until the screen has no more lines than this: a prompt stands below it.
const LINES: usize = 23;

/// So many choices are named of each group.
const CHOICES_SHOWN: usize = 6;

const BAR: usize = 34;

/// A shorter bar tells nothing.
const NARROW_BAR: usize = 12;

const INDENT: usize = 14;

/// What is known besides the state, and may be missing.
#[derive(Debug)]
pub struct OutsideState {
    pub now: Timestamp,
    /// When what runs was started.
    pub since: HashMap<AtomId, Timestamp>,
    pub base_case: Vec<LastSeen>,
    /// How long the rest may take, if anything is known of that.
    pub estimate: Option<Estimate>,
    /// Who drives the loop.
    pub driver: Option<String>,
    /// What the driver does now, if there is one.
    pub live: LiveNow,
}

impl OutsideState {
    /// What the agent on an atom does now, or why its work cannot land.
    pub fn doing(&self, atom: &str) -> Option<&str> {
        let job = self.live.jobs.iter().find(|job| job.atom.as_deref() == Some(atom))?;
        job.waiting.as_deref().or(job.line.as_deref())
    }
}

/// What was last seen of a check of the base case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LastSeen {
    pub item: String,
    pub outcome: Option<Outcome>,
    pub at: Option<Stamp>,
    pub why: String,
}

pub fn draw(view: &View, beside: &OutsideState, ink: Ink) -> String {
    let mut drawn = (1..=SHOWN).rev().map(|shown| draw_some(view, beside, ink, shown));
    let short = drawn.find(|text| text.lines().count() <= LINES);
    short.unwrap_or_else(|| draw_some(view, beside, ink, 1))
}

fn draw_some(view: &View, beside: &OutsideState, ink: Ink, shown: usize) -> String {
    let mut screen = StatusPage { text: String::new(), ink, shown };
    screen.head(view, beside);
    screen.bar(&view.counts, view.parents);
    screen.running(view, beside);
    screen.hosts(beside);
    screen.ready(view);
    if view.status != LoopStatus::Completed {
        screen.failures(view);
    }
    screen.groups(view);
    screen.base_case(view, beside);
    screen.cost(view, beside);
    screen.steps(view);
    screen.text
}

struct StatusPage {
    text: String,
    ink: Ink,
    /// So many lines of each list.
    shown: usize,
}

impl StatusPage {
    fn head(&mut self, view: &View, beside: &OutsideState) {
        let goal = self.ink.fit(&view.goal, self.ink.columns);
        self.line(&self.ink.paint(Paint::Bold, &goal));
        let (word, paint) = standing(view.status);
        let rest = progress(view);
        let driver = driver(view, beside).map(|driver| format!(", {driver}"));
        let line = self.ink.shown(&text::plain(&format!("{word}{rest}{}", driver.unwrap_or_default())));
        for (place, line) in text::wrapped(&line, self.ink.columns).iter().enumerate() {
            let painted = self.ink.paint(paint, word);
            self.line(&if place == 0 { line.replacen(word, &painted, 1) } else { line.clone() });
        }
        match (view.status, &view.stop_reason) {
            (LoopStatus::Stopped, Some(reason)) => {
                let lines = text::wrapped(reason, self.ink.columns);
                let cut = lines.len() > 3;
                for line in lines.iter().take(3) {
                    self.line(&self.ink.paint(Paint::Red, line));
                }
                if cut {
                    self.line(self.ink.sign("…", "..."));
                }
            }
            (LoopStatus::Running, _) if view.redirect_requested => {
                self.line("a redirect is under way: everything is interrupted");
            }
            (LoopStatus::Running, _) if view.stop_requested => {
                self.line("stopping: what runs finishes, nothing new starts");
            }
            (LoopStatus::Pending | LoopStatus::Running | LoopStatus::Stopped | LoopStatus::Completed, _) => {}
        }
        if let Some(until) = &view.parked_until {
            let why = view.parked_reason.as_deref().unwrap_or("no agent can start");
            let until = clock::time(until.at(), &TimeZone::system());
            self.line(&self.ink.fit(&format!("parked until {until}: {why}"), self.ink.columns));
        }
        self.line("");
    }

    fn bar(&mut self, counts: &Counts, parents: usize) {
        let progress = resolved(counts);
        let bar = bar(counts, &progress, self.ink);
        // In a narrow window the bar has a line of its own.
        let gap = if bar_columns(&progress, self.ink) < NARROW_BAR { "\n" } else { "  " };
        format!("{bar}{gap}{progress}").lines().for_each(|line| self.line(line));
        let parents = match parents {
            0 => String::new(),
            1 => "; 1 is a parent".to_owned(),
            many => format!("; {many} are parents"),
        };
        let told = text::wrapped(&format!("{}{parents}", told(counts)), self.ink.columns);
        told.iter().for_each(|line| self.line(line));
        self.line("");
    }

    fn running(&mut self, view: &View, beside: &OutsideState) {
        let rows = view.at_work.iter().map(|at_work| {
            let attempt = at_work.attempt.map(|attempt| format!("iteration {attempt}"));
            let since = beside.since.get(&at_work.atom);
            let since = since.map(|since| format!("for {}", clock::since(*since, beside.now)));
            let aside: Vec<String> = attempt.into_iter().chain(since).collect();
            (
                self.ink.mark(DisplayStatus::Running),
                &at_work.atom,
                at_work.description.as_str(),
                aside.join(", "),
            )
        });
        let rows: Vec<_> = rows.take(self.shown).collect();
        self.atoms("running", &rows, view.at_work.len());
        for at_work in view.at_work.iter().take(self.shown) {
            if let Some(doing) = beside.doing(at_work.atom.as_str()) {
                let line = self.ink.fit(&format!("{}: {doing}", at_work.atom), self.room() - 2);
                self.row("", &format!("  {}", self.ink.paint(Paint::Dim, &line)));
            }
        }
        if beside.live.verifying {
            self.row("", "the checks run now");
        }
    }

    fn hosts(&mut self, beside: &OutsideState) {
        let Some(now) = &beside.live.hosts else { return };
        self.row("hosts", &self.ink.fit(&hosts::summary(now), self.room()));
        for host in now.hosts.iter().take(self.shown) {
            self.row("", &self.ink.fit(&hosts::line(host), self.room()));
        }
        self.more(now.hosts.len().min(self.shown), now.hosts.len());
    }

    fn ready(&mut self, view: &View) {
        let rows = view.next.iter().take(self.shown).map(|next| {
            (self.ink.mark(DisplayStatus::Ready), &next.atom, next.description.as_str(), String::new())
        });
        let rows: Vec<_> = rows.collect();
        self.atoms("ready", &rows, view.ready_count);
    }

    fn failures(&mut self, view: &View) {
        let rows = view.failures.first.iter().take(self.shown).map(|failing| {
            let times = text::times(failing.times);
            (self.ink.mark(DisplayStatus::Failed), &failing.atom, failing.reason.as_str(), times)
        });
        let rows: Vec<_> = rows.collect();
        self.atoms("failed", &rows, view.failures.count);
    }

    /// Rows of atoms: mark, id, text, and something on the right.
    fn atoms(&mut self, label: &str, rows: &[(String, &AtomId, &str, String)], count: usize) {
        let widest = rows.iter().map(|(_, id, ..)| text::width(id.as_str())).max().unwrap_or(0).min(16);
        for (place, (mark, id, text, aside)) in rows.iter().enumerate() {
            let id = self.ink.fit(id.as_str(), widest);
            let aside_width = if aside.is_empty() { 0 } else { text::width(aside) + 2 };
            let room = self.room().saturating_sub(2 + widest + 2 + aside_width);
            let text = self.ink.fit(text, room);
            let gap = room.saturating_sub(text::width(&text));
            let aside = self.ink.paint(Paint::Dim, aside);
            let line = format!("{mark} {id:<widest$}  {text}{:gap$}  {aside}", "");
            self.row(if place == 0 { label } else { "" }, &line);
        }
        self.more(rows.len(), count);
    }

    fn more(&mut self, shown: usize, count: usize) {
        if count > shown {
            let more = format!("and {} more", count - shown);
            self.row("", &self.ink.paint(Paint::Dim, &more));
        }
    }

    fn groups(&mut self, view: &View) {
        for (place, group) in view.groups.first.iter().take(self.shown).enumerate() {
            let line = self.group(group);
            self.row(if place == 0 { "choices" } else { "" }, &line);
        }
        self.more(view.groups.first.len().min(self.shown), view.groups.count);
    }

    fn group(&self, group: &Alternatives) -> String {
        let selected_failed = group.failed.contains(&group.selected);
        let mut parts = Vec::new();
        let named = |ids: &[AtomId]| {
            let names: Vec<&str> = ids.iter().take(CHOICES_SHOWN).map(AtomId::as_str).collect();
            let more = ids.len().saturating_sub(CHOICES_SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{}{more}", names.join(", "))
        };
        let racing: Vec<AtomId> =
            std::iter::once(&group.selected).chain(&group.untried).filter(|_| group.races).cloned().collect();
        if group.races && !selected_failed {
            parts.push((Paint::Plain, format!("{} race", named(&racing))));
        } else if !selected_failed {
            let word = if group.resolved { "resolved" } else { "selected" };
            parts.push((Paint::Plain, format!("{} {word}", group.selected)));
        }
        if !group.failed.is_empty() {
            parts.push((Paint::Red, format!("{} failed", named(&group.failed))));
        }
        if !group.untried.is_empty() && !group.resolved && !group.races {
            parts.push((Paint::Dim, format!("{} untried", named(&group.untried))));
        }
        let mut line = String::new();
        let mut room = self.room();
        for (place, (paint, part)) in parts.iter().enumerate() {
            if room == 0 {
                break;
            }
            let before = if place == 0 { format!("{}: ", group.group) } else { "; ".to_owned() };
            let before = self.ink.fit(&before, room);
            room -= text::width(&before).min(room);
            let part = self.ink.fit(part, room);
            room -= text::width(&part).min(room);
            line.push_str(&before);
            line.push_str(&self.ink.paint(*paint, &part));
        }
        line
    }

    fn base_case(&mut self, view: &View, beside: &OutsideState) {
        let seen: Vec<&LastSeen> = beside.base_case.iter().filter(|seen| seen.outcome.is_some()).collect();
        let count = beside.base_case.len();
        if seen.is_empty() {
            let never = "not seen yet";
            return self.row("checks", &self.ink.paint(Paint::Dim, never));
        }
        let green = seen.iter().filter(|seen| seen.outcome == Some(Outcome::Pass)).count();
        let latest = seen.iter().filter_map(|seen| seen.at.as_ref()).map(Stamp::at).max();
        let ago = latest.map(|at| format!(", last looked at {} ago", clock::since(at, beside.now)));
        let paint = if green == count { Paint::Green } else { Paint::Plain };
        let branch = view.branch.as_ref().map(|branch| format!(" on branch {branch}")).unwrap_or_default();
        let line = self
            .ink
            .fit(&format!("{green} of {count} green{branch}{}", ago.unwrap_or_default()), self.room());
        self.row("checks", &self.ink.paint(paint, &line));
        if view.status == LoopStatus::Completed {
            return;
        }
        let red: Vec<&&LastSeen> = seen.iter().filter(|seen| seen.outcome != Some(Outcome::Pass)).collect();
        for seen in red.iter().take(self.shown) {
            let mark = self.ink.mark(DisplayStatus::Failed);
            self.row(
                "",
                &format!("{mark} {}", self.ink.fit(&format!("{}: {}", seen.item, seen.why), self.room() - 2)),
            );
        }
        self.more(red.len().min(self.shown), red.len());
    }

    fn cost(&mut self, view: &View, beside: &OutsideState) {
        if let Some(spent) = spent(view) {
            self.rows("spent", Paint::Plain, &spent);
        }
        if view.status != LoopStatus::Completed {
            self.rows("left at most", Paint::Plain, &left(&view.bound, clock::span(view.bound.seconds)));
            if let Some(estimate) = &beside.estimate {
                self.rows("estimate", Paint::Plain, &clock::estimate(estimate));
            }
        }
    }

    fn steps(&mut self, view: &View) {
        if view.status == LoopStatus::Pending && !view.missing.is_empty() {
            let missing = format!("missing: {}", view.missing.join(", "));
            self.row("not aligned", &self.ink.fit(&missing, self.room()));
        }
        for (place, step) in view.next_steps.iter().take(self.shown).enumerate() {
            self.rows(if place == 0 { "next" } else { "" }, Paint::Bold, step);
        }
        if let (LoopStatus::Completed, Some(branch)) = (view.status, &view.branch) {
            let step = self.ink.fit(&format!("git merge {branch}"), self.room());
            self.row("next", &self.ink.paint(Paint::Bold, &step));
        }
    }

    fn room(&self) -> usize {
        self.ink.columns - INDENT
    }

    /// A text that is read or typed as a whole, and so is not cut.
    fn rows(&mut self, label: &str, paint: Paint, text: &str) {
        for (place, line) in text::wrapped(text, self.room()).iter().enumerate() {
            let line = self.ink.paint(paint, &self.ink.shown(line));
            self.row(if place == 0 { label } else { "" }, &line);
        }
    }

    fn row(&mut self, label: &str, text: &str) {
        let label = self.ink.paint(Paint::Dim, &format!("{label:<INDENT$}"));
        self.line(&format!("{label}{text}"));
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}

/// The status in a word.
pub fn standing(status: LoopStatus) -> (&'static str, Paint) {
    match status {
        LoopStatus::Pending => ("pending", Paint::Plain),
        LoopStatus::Running => ("running", Paint::Cyan),
        LoopStatus::Stopped => ("stopped", Paint::Red),
        LoopStatus::Completed => ("completed", Paint::Green),
    }
}

/// What stands behind that word.
pub fn progress(view: &View) -> String {
    let View { iteration, max_iterations, stall_count, max_stall_count, .. } = view;
    format!(", iteration {iteration} of {max_iterations}, stalled {stall_count} of {max_stall_count}")
}

pub fn driver(view: &View, beside: &OutsideState) -> Option<String> {
    match (&beside.driver, view.status) {
        (Some(driver), _) => Some(format!("driven by {driver}")),
        (None, LoopStatus::Running) if view.session.is_some() => Some("a host's session drives it".into()),
        (None, LoopStatus::Running) => Some("no driver: aot run".into()),
        (None, LoopStatus::Pending | LoopStatus::Stopped | LoopStatus::Completed) => None,
    }
}

/// How far it is, in words.
pub fn resolved(counts: &Counts) -> String {
    let (resolved, all) = counts.progress();
    let claimed = if counts.claimed > 0 { format!(": {}", counts.proof()) } else { String::new() };
    format!("{resolved} of {} resolved{claimed}", text::counted(all as u64, "atom"))
}

/// The atoms as a bar with these words behind it, or on a line of its own.
pub fn bar(counts: &Counts, beside: &str, ink: Ink) -> String {
    let parts = [
        (counts.resolved, ink.sign("█", "#"), Paint::Green),
        (counts.in_progress, ink.sign("▓", ">"), Paint::Cyan),
        (counts.pending, ink.sign("░", "-"), Paint::Plain),
        (counts.dormant, ink.sign("·", "."), Paint::Dim),
    ];
    let columns = bar_columns(beside, ink);
    let columns = if columns < NARROW_BAR { BAR } else { columns };
    let widths = shares(parts.map(|(count, ..)| count), columns);
    let part =
        |((_, sign, paint), width): (&(usize, &str, Paint), usize)| ink.paint(*paint, &sign.repeat(width));
    parts.iter().zip(widths).map(part).collect()
}

/// The room for a bar with these words behind it.
fn bar_columns(beside: &str, ink: Ink) -> usize {
    ink.columns.saturating_sub(text::width(beside) + 2).min(BAR)
}

/// How many atoms there are of each kind.
fn told(counts: &Counts) -> String {
    let resolved = (counts.resolved > 0).then(|| format!("{} resolved", counts.resolved));
    resolved
        .into_iter()
        .chain(Some(unresolved(counts)).filter(|rest| !rest.is_empty()))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The same of those that are not resolved.
pub fn unresolved(counts: &Counts) -> String {
    let parts = [(counts.in_progress, "running"), (counts.pending, "pending"), (counts.dormant, "dormant")];
    let told = parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    told.collect::<Vec<_>>().join(", ")
}

/// What was spent, if anything was.
pub fn spent(view: &View) -> Option<String> {
    let spent = &view.spent;
    let mut parts = vec![runs(spent.agent_runs), clock::span(spent.seconds)];
    parts.extend((spent.cost_usd > 0.0).then(|| money(spent.cost_usd)));
    parts.extend((spent.tokens > 0).then(|| tokens(spent.tokens)));
    (*spent != aot_core::state::Spent::default()).then(|| parts.join(", "))
}

/// The most that is left, with the time in words.
pub fn left(bound: &Bound, time: String) -> String {
    let mut parts = vec![runs(bound.agent_runs), time];
    parts.extend(bound.cost_usd.map(money));
    parts.extend(bound.tokens.map(tokens));
    parts.join(", ")
}

fn runs(count: u64) -> String {
    if count == 0 { "no agent run".to_owned() } else { text::counted(count, "agent run") }
}

fn money(usd: f64) -> String {
    format!("{usd:.2} USD")
}

fn tokens(count: u64) -> String {
    format!("{count} tokens")
}

/// Cells of the bar: in proportion, and at least one for whatever there is.
fn shares(counts: [usize; 4], bar: usize) -> [usize; 4] {
    let all: usize = counts.iter().sum();
    let mut widths = counts.map(|count| match count {
        0 => 0,
        _ => (count * bar / all.max(1)).max(1),
    });
    while widths.iter().sum::<usize>() != bar && all > 0 {
        let widest = (0..widths.len()).max_by_key(|at| widths[*at]).expect("there are four");
        match widths.iter().sum::<usize>() > bar {
            true => widths[widest] -= 1,
            false => widths[widest] += 1,
        }
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::{BAR, shares};

    #[test]
    fn the_bar_is_always_full_and_shows_whatever_there_is() {
        for counts in [[1, 0, 0, 0], [999, 1, 0, 0], [1, 1, 1, 1], [0, 1, 10_000, 3], [7, 7, 7, 0]] {
            let widths = shares(counts, BAR);
            assert_eq!(widths.iter().sum::<usize>(), BAR, "{counts:?}");
            for (count, width) in counts.iter().zip(widths) {
                assert_eq!(*count > 0, width > 0, "{counts:?}");
            }
        }
    }
}
