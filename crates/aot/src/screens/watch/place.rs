//! Where the person is on the screen, and what a key does there. Pure: an action that concerns more than the screen is answered.

use aot_core::state::AtomId;
use aot_core::view::DisplayStatus;

use super::Watched;
use super::page::{OpenPage, Subject};
use super::panes::{self, AgentRow};
use super::rows::{DrawnRow, RowName, rows};
use crate::full_screen::Key;
use crate::screens::ink::Ink;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    Graph,
    Agents,
    Checks,
    Log,
}

impl Pane {
    pub const ALL: [Pane; 4] = [Pane::Graph, Pane::Agents, Pane::Checks, Pane::Log];
}

/// When a stop takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopWhen {
    WhatRunsFinishes,
    Now,
}

/// What is asked before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    Stop(StopWhen),
    /// What runs is interrupted by it.
    Redirect,
}

/// What a key asks of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    None,
    Leave,
    Open(Subject),
    Stop(StopWhen),
    Confirm,
    Redirect,
    Suspend,
    Redraw,
}

#[derive(Debug)]
pub struct ScreenPlace {
    pub pane: Pane,
    pub page: Option<OpenPage>,
    /// What came of the last key, until the next.
    pub note: Option<String>,
    pub question: Option<Question>,
    /// The selected row of the graph; nothing while what runs is followed.
    chosen: Option<RowName>,
    graph: usize,
    agents: usize,
    checks: usize,
    /// How many lines the log is scrolled back.
    pub log_back: usize,
    /// The first row that is shown of each pane, and how many were.
    tops: [usize; 4],
    heights: [usize; 4],
    drawn: Option<(u64, Ink, Vec<DrawnRow>)>,
}

impl ScreenPlace {
    pub fn new() -> ScreenPlace {
        ScreenPlace {
            pane: Pane::Graph,
            page: None,
            note: None,
            question: None,
            chosen: None,
            graph: 0,
            agents: 0,
            checks: 0,
            log_back: 0,
            tops: [0; 4],
            heights: [1; 4],
            drawn: None,
        }
    }

    /// The rows of the graph, drawn once for each state and width.
    pub fn rows(&mut self, watched: &Watched, ink: Ink) -> &[DrawnRow] {
        if !matches!(&self.drawn, Some((version, drawn_for, _)) if (*version, *drawn_for) == (watched.version, ink))
        {
            let rows = rows(&watched.state, ink);
            let runs = |row: &DrawnRow| {
                row.standing == DisplayStatus::Running && matches!(row.name, RowName::Atom(_))
            };
            self.graph = match &self.chosen {
                Some(chosen) => rows.iter().position(|row| row.name == *chosen).unwrap_or(self.graph),
                None => rows.iter().position(runs).unwrap_or(0),
            };
            self.graph = self.graph.min(rows.len().saturating_sub(1));
            self.drawn = Some((watched.version, ink, rows));
        }
        self.known_rows()
    }

    /// The rows as they were drawn last.
    pub fn known_rows(&self) -> &[DrawnRow] {
        self.drawn.as_ref().map_or(&[], |(_, _, rows)| rows)
    }

    /// The selected row of a list, and the first that is shown in this height: so that the selected one is among them.
    pub fn window(&mut self, pane: Pane, count: usize, height: usize) -> (usize, usize) {
        let at = pane as usize;
        let selected = self.selected(pane).min(count.saturating_sub(1));
        // What is followed is shown with what stands around it.
        if pane == Pane::Graph && self.chosen.is_none() {
            self.tops[at] = selected.saturating_sub(height / 2);
        }
        let top = self.tops[at].clamp((selected + 1).saturating_sub(height.max(1)), selected);
        self.tops[at] = top.min(count.saturating_sub(height));
        self.heights[at] = height;
        (selected, self.tops[at])
    }

    fn selected(&self, pane: Pane) -> usize {
        match pane {
            Pane::Graph => self.graph,
            Pane::Agents => self.agents,
            Pane::Checks => self.checks,
            Pane::Log => 0,
        }
    }

    /// The log of a pane of this height: how many of the newest lines are left out.
    pub fn back(&mut self, count: usize, height: usize) -> usize {
        self.heights[Pane::Log as usize] = height;
        self.log_back = self.log_back.min(count.saturating_sub(height));
        self.log_back
    }

    pub fn press(&mut self, key: Key, watched: &Watched, agents: &[AgentRow]) -> Action {
        self.note = None;
        if let Some(question) = self.question.take() {
            return match (key, question) {
                (Key::Letter('y' | 'Y'), Question::Stop(when)) => Action::Stop(when),
                (Key::Letter('y' | 'Y'), Question::Redirect) => Action::Redirect,
                _ => Action::None,
            };
        }
        match key {
            Key::Interrupt => return Action::Leave,
            Key::Suspend => return Action::Suspend,
            Key::Redraw => return Action::Redraw,
            Key::Letter('?') => return Action::Open(Subject::Keys),
            Key::Letter('l') => return Action::Open(Subject::Log),
            Key::Letter('c') => return Action::Confirm,
            Key::Letter('r') if watched.beside.driver.is_none() => return Action::Redirect,
            Key::Letter('r') => self.question = Some(Question::Redirect),
            Key::Letter('s' | 'S') if watched.beside.driver.is_none() => {
                self.note = Some("nothing to stop: the loop does not run".into());
            }
            Key::Letter('s') => self.question = Some(Question::Stop(StopWhen::WhatRunsFinishes)),
            Key::Letter('S') => self.question = Some(Question::Stop(StopWhen::Now)),
            Key::Letter('d') => return self.difference(watched, agents),
            _ if self.page.is_some() => self.press_on_page(key),
            Key::Letter('q') => return Action::Leave,
            Key::Tab => self.pane = Pane::ALL[(self.pane as usize + 1) % 4],
            Key::BackTab => self.pane = Pane::ALL[(self.pane as usize + 3) % 4],
            Key::Enter => return self.open(watched, agents),
            Key::Escape => self.chosen = None,
            key => self.go(key, watched, agents),
        }
        if key == Key::Escape {
            self.drawn = None;
        }
        Action::None
    }

    fn press_on_page(&mut self, key: Key) {
        let Some(page) = &mut self.page else { return };
        match key {
            Key::Escape | Key::Enter | Key::Letter('q') => self.page = None,
            key => {
                if let Some(by) = distance(key, page.height) {
                    page.scroll(by);
                }
            }
        }
    }

    fn go(&mut self, key: Key, watched: &Watched, agents: &[AgentRow]) {
        let Some(by) = distance(key, self.heights[self.pane as usize]) else { return };
        let moved = |at: usize, count: usize| at.saturating_add_signed(by).min(count.saturating_sub(1));
        match self.pane {
            Pane::Graph => {
                self.graph = moved(self.graph, self.known_rows().len());
                self.chosen = self.known_rows().get(self.graph).map(|row| row.name.clone());
            }
            Pane::Agents => self.agents = moved(self.agents, agents.len()),
            Pane::Checks => self.checks = moved(self.checks, watched.beside.base_case.len()),
            Pane::Log => self.log_back = self.log_back.saturating_add_signed(by.saturating_neg()),
        }
    }

    fn open(&self, watched: &Watched, agents: &[AgentRow]) -> Action {
        let subject = match self.pane {
            Pane::Graph => self.known_rows().get(self.graph).map(|row| match &row.name {
                RowName::Atom(atom) => Subject::Atom(atom.to_string()),
                RowName::Group(group) => Subject::Group(group.clone()),
            }),
            Pane::Agents => agents.get(self.agents).map(|row| Subject::Atom(row.about.clone())),
            Pane::Checks => {
                panes::order(watched).get(self.checks).map(|(check, _)| Subject::Check(check.item.clone()))
            }
            Pane::Log => Some(Subject::Log),
        };
        subject.map_or(Action::None, Action::Open)
    }

    fn difference(&mut self, watched: &Watched, agents: &[AgentRow]) -> Action {
        let selected: Option<AtomId> = match (&self.page, self.pane) {
            (Some(OpenPage { subject: Subject::Atom(name), .. }), _) => Some(AtomId::new(name)),
            (Some(_), _) | (None, Pane::Checks | Pane::Log) => None,
            (None, Pane::Graph) => self.known_rows().get(self.graph).and_then(|row| match &row.name {
                RowName::Atom(atom) => Some(atom.clone()),
                RowName::Group(group) => {
                    watched.state.or_groups.get(group).map(|group| group.selected.clone())
                }
            }),
            (None, Pane::Agents) => agents.get(self.agents).map(|row| AtomId::new(&row.about)),
        };
        match selected {
            Some(atom) => Action::Open(Subject::Difference(atom)),
            None => {
                self.note = Some("select an atom first: d shows what it changed".into());
                Action::None
            }
        }
    }
}

/// How far a key goes in a list of which so many rows are shown.
fn distance(key: Key, height: usize) -> Option<isize> {
    let page = isize::try_from(height.saturating_sub(1).max(1)).unwrap_or(1);
    Some(match key {
        Key::Up | Key::Letter('k') => -1,
        Key::Down | Key::Letter('j') => 1,
        Key::PageUp | Key::Letter('b') => -page,
        Key::PageDown | Key::Letter(' ') => page,
        Key::Home | Key::Letter('g') => isize::MIN,
        Key::End | Key::Letter('G') => isize::MAX,
        Key::Letter(_)
        | Key::Tab
        | Key::BackTab
        | Key::Enter
        | Key::Escape
        | Key::Interrupt
        | Key::Suspend
        | Key::Redraw => return None,
    })
}
