//! The screen of `aot watch`: the view, the graph, what agents do, the checks and the log, for any window. Pure functions from
//! what was read to cells; reads nothing and decides nothing.

mod head;
pub mod page;
mod painted;
pub mod panes;
pub mod place;
mod rows;
#[cfg(test)]
mod tests;

use aot_core::state::State;
use aot_core::view::View;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use self::painted::painted;
use self::panes::{AgentRow, LogSentence, agent_line, agent_lines};
use self::place::{Pane, Question, ScreenPlace, StopWhen};
use super::ink::{Colour, Ink, Paint};
use super::status::OutsideState;
use crate::text;

/// A smaller window shows a line that says so.
const SMALLEST: (u16, u16) = (40, 10);

/// From this width on, the graph has the left half for itself.
const TWO_COLUMNS: u16 = 110;

/// With fewer lines for them, one pane is shown at a time.
const ALL_PANES: u16 = 14;

/// The graph gets no less, if it has so much.
const GRAPH_ROWS: u16 = 5;

/// What is known of a loop at a moment.
#[derive(Debug)]
pub struct Watched {
    /// Another number with each look.
    pub version: u64,
    pub view: View,
    pub beside: OutsideState,
    pub state: State,
    /// The newest sentences of the journal.
    pub log: Vec<LogSentence>,
    /// When the state was last written.
    pub written: Option<Timestamp>,
    /// Why it could not be read since.
    pub problem: Option<String>,
    pub zone: TimeZone,
}

/// Draws everything for the window of the frame.
pub fn draw(frame: &mut Frame<'_>, watched: &Watched, place: &mut ScreenPlace, now: Timestamp, ink: Ink) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let small = format!("too small: {} by {} is needed; q leaves", SMALLEST.0, SMALLEST.1);
        return Canvas { frame, ink }.lines(area, &text::wrapped(&small, area.width.into()));
    }
    let ink = Ink { columns: area.width.into(), ..ink };
    let mut canvas = Canvas { frame, ink };
    let mut head = head::lines(watched, now, ink);
    head.truncate(usize::from(area.height / 2));
    let [top, rest] = split(area, rows_of(head.len()));
    let [body, foot] = split(rest, rest.height.saturating_sub(1));
    canvas.lines(top, &head);
    // The graph is drawn even if it is not shown: what is selected in it has a name.
    let agents = panes::agents(watched, now);
    if place.page.is_some() {
        place.rows(watched, ink);
        canvas.page(body, place);
    } else if body.height < ALL_PANES {
        place.rows(watched, ink);
        canvas.pane(place.pane, body, watched, place, (&agents, now));
    } else {
        for (pane, area) in laid_out(body, watched, &agents) {
            canvas.pane(pane, area, watched, place, (&agents, now));
        }
    }
    canvas.foot(foot, place);
}

/// The lines that are needed for a title and so many rows.
fn rows_of(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// So many lines, and what is below them.
fn split(area: Rect, height: u16) -> [Rect; 2] {
    let height = height.min(area.height);
    [Rect { height, ..area }, Rect { y: area.y + height, height: area.height - height, ..area }]
}

/// How many rows the outline of a graph has.
fn graph_rows(state: &State) -> usize {
    let choices = state.or_groups.values().flat_map(|group| &group.choices);
    let unmade = choices.filter(|choice| !state.atoms.contains_key(*choice)).count();
    state.atoms.len() + state.or_groups.len() + unmade
}

/// The areas of the panes: beside one another or below.
fn laid_out(body: Rect, watched: &Watched, agents: &[AgentRow]) -> [(Pane, Rect); 4] {
    let side_by_side = body.width >= TWO_COLUMNS;
    let graph_rows = rows_of(graph_rows(&watched.state));
    let few = (body.height / 5).max(2).min(body.height.saturating_sub(GRAPH_ROWS + 4) / 3).max(1);
    let most = if side_by_side { body.height / 3 } else { few };
    let agent_rows =
        if side_by_side { rows_of(agents.len()).saturating_mul(2) } else { rows_of(agents.len()) };
    let agent_height = 1 + agent_rows.clamp(1, most);
    let check_height = 1 + rows_of(watched.beside.base_case.len()).clamp(1, most);
    let (left, right) = if side_by_side {
        let width = body.width * 11 / 20;
        let left = Rect { width: width - 2, ..body };
        (left, Rect { x: body.x + width, width: body.width - width, ..body })
    } else {
        let below = agent_height + check_height + 1 + few;
        let most = body.height.saturating_sub(below).max(GRAPH_ROWS + 1);
        let [left, right] = split(body, (1 + graph_rows).clamp(2, most));
        (left, right)
    };
    let [agents_area, rest] = split(right, agent_height);
    let [checks_area, log_area] = split(rest, check_height);
    [(Pane::Graph, left), (Pane::Agents, agents_area), (Pane::Checks, checks_area), (Pane::Log, log_area)]
}

/// A frame that is drawn on.
struct Canvas<'c, 'f> {
    frame: &'c mut Frame<'f>,
    ink: Ink,
}

impl Canvas<'_, '_> {
    fn pane(
        &mut self,
        pane: Pane,
        area: Rect,
        watched: &Watched,
        place: &mut ScreenPlace,
        (agents, now): (&[AgentRow], Timestamp),
    ) {
        let [head, body] = split(area, 1);
        let is_active = place.pane == pane;
        let height = usize::from(body.height);
        // What is selected is marked before the row.
        let ink = Ink { columns: usize::from(area.width).saturating_sub(2), ..self.ink };
        let title = match pane {
            Pane::Graph => "graph".to_owned(),
            Pane::Agents => panes::agents_title(watched).to_owned(),
            Pane::Checks => panes::checks_title(watched),
            Pane::Log => "log".to_owned(),
        };
        let count;
        let (mut lines, selected, hidden): (Vec<String>, Option<usize>, usize) = match pane {
            Pane::Graph => {
                count = place.rows(watched, ink).len();
                let (selected, top) = place.window(pane, count, height);
                let shown = place.known_rows().iter().skip(top).take(height);
                (shown.map(|row| row.line.clone()).collect(), Some(selected - top), top)
            }
            Pane::Agents => {
                count = agents.len();
                let per_row = if height >= 2 * count { 2 } else { 1 };
                let (selected, top) = place.window(pane, count, height / per_row);
                let shown = agents.iter().skip(top).take(height / per_row);
                let lines = match per_row {
                    2 => shown.flat_map(|row| agent_lines(row, ink)).collect(),
                    _ => shown.map(|row| agent_line(row, ink)).collect(),
                };
                (lines, (count > 0).then_some((selected - top) * per_row), top)
            }
            Pane::Checks => {
                let rows = panes::checks(watched, now, ink);
                count = rows.len();
                let (selected, top) = place.window(pane, count, height);
                let shown = rows.into_iter().skip(top).take(height);
                (shown.collect(), (count > 0).then_some(selected - top), top)
            }
            Pane::Log => {
                count = watched.log.len();
                let back = place.back(count, height);
                let end = count - back;
                let begin = end.saturating_sub(height);
                let shown = watched.log[begin..end].iter();
                (shown.map(|line| panes::log_line(line, &watched.zone, ink)).collect(), None, begin)
            }
        };
        if lines.is_empty() {
            let nothing = match pane {
                Pane::Graph => "no atoms yet",
                Pane::Agents => "none",
                Pane::Checks => "none are agreed on yet",
                Pane::Log => "the journal tells nothing yet",
            };
            lines.push(ink.paint(Paint::Dim, nothing));
        }
        let more = count.saturating_sub(hidden + height.min(count));
        self.title(head, &title, is_active, (hidden, more));
        let selected = selected.filter(|_| is_active);
        for (place, line) in lines.iter().take(height).enumerate() {
            let at = Rect { y: body.y + rows_of(place), height: 1, ..body };
            let is_selected = selected == Some(place);
            self.row(at, line, is_selected);
        }
    }

    fn row(&mut self, area: Rect, line: &str, is_selected: bool) {
        let mark = if is_selected { "> " } else { "  " };
        let shown = painted(&format!("{mark}{line}"), self.ink);
        self.frame.render_widget(shown, area);
        if is_selected && self.ink.colour == Colour::On {
            self.frame.buffer_mut().set_style(area, Style::new().add_modifier(Modifier::REVERSED));
        }
    }

    /// A rule with the name of what is below it, and how much of it is not shown.
    fn title(&mut self, area: Rect, title: &str, is_active: bool, (before, after): (usize, usize)) {
        let ink = self.ink;
        let rule = ink.sign("─", "-");
        let title = if is_active { format!("[{title}]") } else { format!(" {title} ") };
        let beyond = match (before, after) {
            (0, 0) => String::new(),
            (before, 0) => format!(" {before} above "),
            (0, after) => format!(" {after} below "),
            (before, after) => format!(" {before} above, {after} below "),
        };
        let width = usize::from(area.width);
        let title = ink.fit(&title, width.saturating_sub(3 + text::width(&beyond)));
        let rest = width.saturating_sub(2 + text::width(&title) + text::width(&beyond) + 1);
        let paint = if is_active { Paint::Bold } else { Paint::Plain };
        let line = format!(
            "{}{}{}{}{}",
            ink.paint(Paint::Dim, &rule.repeat(2)),
            ink.paint(paint, &title),
            ink.paint(Paint::Dim, &rule.repeat(rest)),
            ink.paint(Paint::Dim, &beyond),
            ink.paint(Paint::Dim, rule)
        );
        self.lines(area, &[line]);
    }

    fn page(&mut self, area: Rect, place: &mut ScreenPlace) {
        let Some(page) = &mut place.page else { return };
        let [head, body] = split(area, 1);
        let height = usize::from(body.height);
        let lines = page.shown(height).to_vec();
        let (before, after) = (page.top, page.lines.len().saturating_sub(page.top + height));
        let title = page.title.clone();
        self.title(head, &title, true, (before, after));
        self.lines(body, &lines);
    }

    /// The keys, a question, or what came of the last key.
    fn foot(&mut self, area: Rect, place: &ScreenPlace) {
        let ink = self.ink;
        let line = match (&place.question, &place.note, &place.page) {
            (Some(question), ..) => {
                let asked = match question {
                    Question::Stop(StopWhen::WhatRunsFinishes) => {
                        "Stop the loop? [y/n] What runs finishes, nothing new starts."
                    }
                    Question::Stop(StopWhen::Now) => "Stop the loop now? [y/n] What runs is killed.",
                    Question::Redirect => "Redirect? [y/n] What runs is interrupted, and begins again.",
                };
                ink.paint(Paint::Yellow, &ink.fit(asked, ink.columns))
            }
            (None, Some(note), _) => ink.paint(Paint::Yellow, &ink.fit(note, ink.columns)),
            (None, None, Some(_)) => {
                keys(&[("Esc", "back"), ("Up Down", "scroll"), ("d", "diff"), ("?", "keys")], ink)
            }
            (None, None, None) => keys(
                &[
                    ("q", "leave"),
                    ("?", "keys"),
                    ("Tab", "pane"),
                    ("Enter", "open"),
                    ("d", "diff"),
                    ("s", "stop"),
                    ("r", "redirect"),
                    ("c", "confirm"),
                    ("l", "log"),
                ],
                ink,
            ),
        };
        self.lines(area, &[line]);
    }

    fn lines(&mut self, area: Rect, lines: &[String]) {
        for (place, line) in lines.iter().take(area.height.into()).enumerate() {
            let at = Rect { y: area.y + rows_of(place), height: 1, ..area };
            self.frame.render_widget(painted(line, self.ink), at);
        }
    }
}

/// As many keys as there is room for.
fn keys(keys: &[(&str, &str)], ink: Ink) -> String {
    let (mut line, mut taken) = (String::new(), 0);
    for (key, what) in keys {
        let gap = if taken == 0 { 0 } else { 2 };
        let width = gap + key.len() + 1 + what.len();
        if taken + width > ink.columns {
            break;
        }
        line += &format!("{:gap$}{} {}", "", ink.paint(Paint::Bold, key), ink.paint(Paint::Dim, what));
        taken += width;
    }
    line
}
