//! The AND/OR graph as an outline: children below their parent, ways below their group, each after what it waits for.
//! Draws an [`Outline`]; decides no order.

use std::collections::HashSet;

use aot_core::state::{Closes, Graph, GroupName, OrGroup, State, Target};
use aot_core::view::{DisplayStatus, Outline, Row, RowItem, Sibling};
use serde_json::{Value, json};

use super::ink::{Ink, Paint};
use crate::text::{self, COLUMNS};

/// Nesting deeper than this is drawn no further to the right.
const INDENTED: usize = 10;

/// What stands on the right takes no more than this of a line.
const NOTES: usize = 36;

/// So many rings are told.
const RINGS_TOLD: usize = 3;

pub fn draw(state: &State, ink: Ink) -> String {
    let picture = Picture::of(state, ink);
    let mut text = picture.head();
    for line in picture.lines_of_all() {
        text.push_str(&line);
        text.push('\n');
    }
    text.push_str(&picture.foot());
    text
}

pub(super) struct Picture<'p> {
    pub(super) state: &'p State,
    pub(super) graph: Graph,
    pub(super) outline: Outline,
    pub(super) critical: HashSet<usize>,
    pub(super) standings: Vec<DisplayStatus>,
    /// What all choices of a group wait for.
    shared: Vec<Vec<Target>>,
    ink: Ink,
}

impl<'p> Picture<'p> {
    pub(super) fn of(state: &'p State, ink: Ink) -> Picture<'p> {
        let graph = Graph::new(state);
        let critical = graph.critical_path(state);
        let mut picture = Picture {
            state,
            outline: Outline::of(&graph, state),
            // A path of one says nothing.
            critical: if critical.len() > 1 { critical.into_iter().collect() } else { HashSet::new() },
            standings: (0..state.atoms.len()).map(|index| DisplayStatus::of(&graph, state, index)).collect(),
            graph,
            shared: Vec::new(),
            ink,
        };
        picture.shared = (0..state.or_groups.len()).map(|group| picture.shared(group)).collect();
        picture
    }

    /// How many are resolved, of how many that have to be.
    pub(super) fn progress(&self) -> String {
        let count =
            |is: fn(&DisplayStatus) -> bool| self.standings.iter().filter(|standing| is(standing)).count();
        // What is dormant, or was given up, need not be resolved.
        let live = count(|standing| !matches!(standing, DisplayStatus::Dormant | DisplayStatus::Failed));
        let claimed = count(|standing| *standing == DisplayStatus::Claimed);
        let resolved = claimed + count(|standing| *standing == DisplayStatus::Resolved);
        match claimed {
            0 => format!("{resolved} of {live} resolved"),
            claimed => format!("{resolved} of {live} resolved, {claimed} of them claimed"),
        }
    }

    fn head(&self) -> String {
        let told = self.progress();
        let goal = self.ink.fit(&self.state.objective.goal, self.ink.columns.saturating_sub(told.len() + 2));
        let gap = self.ink.columns.saturating_sub(told.len() + text::width(&goal));
        format!("{}{:gap$}{told}\n\n", self.ink.paint(Paint::Bold, &goal), "")
    }

    pub(super) fn lines_of_all(&self) -> Vec<String> {
        let mut open: Vec<Sibling> = Vec::new();
        let line = |row: &Row| {
            open.truncate(row.depth);
            let line = self.row(row, &open);
            open.push(row.sibling);
            line
        };
        self.outline.rows.iter().map(line).collect()
    }

    fn row(&self, row: &Row, open: &[Sibling]) -> String {
        let lines = self.lines(row, open);
        let (critical, mark, name, text, notes, paint) = match &row.item {
            RowItem::Atom(index) => self.atom(*index),
            RowItem::Group(group) => self.group(*group),
            RowItem::Unmade(id) => {
                let note = "made when the group goes to it".to_owned();
                let mark = self.ink.mark(DisplayStatus::Dormant);
                (Critical::No, mark, id.to_string(), String::new(), note, Paint::Dim)
            }
        };
        let margin = match critical {
            Critical::Yes => self.ink.paint(Paint::Yellow, self.ink.sign("▸", "!")),
            Critical::No => " ".to_owned(),
        };
        let name = self.ink.fit(&name, self.ink.columns / 3);
        let taken = 2 + text::width(&lines) + 2 + text::width(&name) + 2;
        let most = NOTES.min(self.ink.columns.saturating_sub(taken + 2));
        let notes = self.ink.fit(&notes, most.min(self.ink.columns * 9 / 20));
        let aside = if notes.is_empty() { 0 } else { text::width(&notes) + 2 };
        let room = self.ink.columns.saturating_sub(taken + aside);
        let text = self.ink.fit(&text, room);
        let gap = room.saturating_sub(text::width(&text));
        let (name, text) = match paint {
            Paint::Plain => (self.ink.paint(Paint::Bold, &name), text),
            Paint::Green
            | Paint::Red
            | Paint::Yellow
            | Paint::Cyan
            | Paint::Dim
            | Paint::Bold
            | Paint::Struck => (self.ink.paint(paint, &name), self.ink.paint(paint, &text)),
        };
        let (lines, notes) = (self.ink.paint(Paint::Dim, &lines), self.ink.paint(Paint::Dim, &notes));
        format!("{margin} {lines}{mark} {name}  {text}{:gap$}  {notes}", "").trim_end().to_owned()
    }

    /// The lines that lead from the rows above.
    fn lines(&self, row: &Row, open: &[Sibling]) -> String {
        if row.depth == 0 {
            return String::new();
        }
        let mut lines = String::new();
        for last in open.iter().skip(1).take(INDENTED) {
            lines.push_str(match last {
                Sibling::Earlier => self.ink.sign("│  ", "|  "),
                Sibling::Last => "   ",
            });
        }
        lines.push_str(match row.sibling {
            Sibling::Earlier => self.ink.sign("├─ ", "|- "),
            Sibling::Last => self.ink.sign("└─ ", "`- "),
        });
        lines
    }

    fn atom(&self, index: usize) -> (Critical, String, String, String, String, Paint) {
        let atom = &self.state.atoms[index];
        let standing = self.standings[index];
        let mut notes = Vec::new();
        let group = self.graph.group_of(index);
        let shared = group.map_or(&[][..], |group| &self.shared[group]);
        if let Some(group) = group {
            let entry = &self.state.or_groups[group];
            match standing {
                DisplayStatus::Failed => notes.push("failed".to_owned()),
                DisplayStatus::Dormant => {}
                DisplayStatus::Resolved
                | DisplayStatus::Claimed
                | DisplayStatus::Running
                | DisplayStatus::Ready
                | DisplayStatus::Pending => {
                    let races = self.graph.is_racing(self.state, group) && !self.graph.is_decomposed(index);
                    let selected = entry.selected == atom.id;
                    notes.extend(selected.then(|| "selected".to_owned()));
                    notes.extend((races && !selected).then(|| "races".to_owned()));
                }
            }
        }
        if let Some(attempt) = self.state.control.attempts.get(&atom.id) {
            notes.push(format!("iteration {attempt}"));
        }
        let own = self.own(index).into_iter().filter(|target| !shared.contains(target));
        notes.extend(self.after(&own.collect::<Vec<_>>()));
        let critical = if self.critical.contains(&index) { Critical::Yes } else { Critical::No };
        let paint = match standing {
            DisplayStatus::Failed => Paint::Struck,
            DisplayStatus::Dormant => Paint::Dim,
            DisplayStatus::Resolved
            | DisplayStatus::Claimed
            | DisplayStatus::Running
            | DisplayStatus::Ready
            | DisplayStatus::Pending => Paint::Plain,
        };
        let (name, text) = (atom.id.to_string(), atom.description.clone());
        (critical, self.ink.mark(standing), name, text, notes.join(", "), paint)
    }

    fn group(&self, group: usize) -> (Critical, String, String, String, String, Paint) {
        let (name, entry) = self.named(group);
        let standing = self.group_standing(group);
        let ways = entry.choices.len();
        let text = match self.graph.is_racing(self.state, group) {
            true => format!("a race of {ways}"),
            false => format!("one of {ways}"),
        };
        let notes = self.after(&self.shared[group]).unwrap_or_default();
        let paint = if standing == DisplayStatus::Dormant { Paint::Dim } else { Paint::Plain };
        (Critical::No, self.ink.mark(standing), name.to_string(), text, notes, paint)
    }

    pub(super) fn group_standing(&self, group: usize) -> DisplayStatus {
        let entry = &self.state.or_groups[group];
        let selected = self.state.atoms.get_index_of(&entry.selected);
        match selected.map(|index| self.standings[index]) {
            Some(DisplayStatus::Claimed) => DisplayStatus::Claimed,
            _ if self.graph.is_resolved(self.state, Target::Group(group)) => DisplayStatus::Resolved,
            _ if entry.choices.iter().all(|choice| entry.failed.contains(choice)) => DisplayStatus::Failed,
            Some(DisplayStatus::Running) => DisplayStatus::Running,
            Some(DisplayStatus::Ready) => DisplayStatus::Ready,
            Some(DisplayStatus::Dormant) => DisplayStatus::Dormant,
            Some(DisplayStatus::Resolved | DisplayStatus::Pending | DisplayStatus::Failed) | None => {
                DisplayStatus::Pending
            }
        }
    }

    pub(super) fn named(&self, group: usize) -> (&GroupName, &OrGroup) {
        self.state.or_groups.get_index(group).expect("a graph's group stands in its state")
    }

    /// What an atom waits for itself: a child has what its parent waits for written down too, which is not told twice.
    fn own(&self, index: usize) -> Vec<Target> {
        let mut own: Vec<Target> = Vec::new();
        for target in self.graph.depends(index) {
            let above =
                self.graph.line(index).skip(1).any(|above| self.graph.depends(above).contains(target));
            if !above && !own.contains(target) {
                own.push(*target);
            }
        }
        own
    }

    fn shared(&self, group: usize) -> Vec<Target> {
        let mut choices = self.graph.choices(group).iter();
        let Some(first) = choices.next() else { return Vec::new() };
        let mut shared = self.own(*first);
        for choice in choices {
            shared.retain(|target| self.graph.depends(*choice).contains(target));
        }
        shared
    }

    fn after(&self, targets: &[Target]) -> Option<String> {
        let names: Vec<String> =
            targets.iter().map(|target| self.graph.name_of(self.state, *target)).collect();
        (!names.is_empty()).then(|| format!("after {}", names.join(", ")))
    }

    /// What the marks mean that were used, and what waits in a ring.
    fn foot(&self) -> String {
        let has = |wanted: &[DisplayStatus]| self.standings.iter().any(|standing| wanted.contains(standing));
        let unmade = self.outline.rows.iter().any(|row| matches!(row.item, RowItem::Unmade(_)));
        let mut legend = Vec::new();
        for (is_there, standing, word) in [
            (has(&[DisplayStatus::Resolved]), DisplayStatus::Resolved, "resolved"),
            (has(&[DisplayStatus::Running]), DisplayStatus::Running, "running"),
            (has(&[DisplayStatus::Ready, DisplayStatus::Pending]), DisplayStatus::Pending, "pending"),
            (has(&[DisplayStatus::Dormant]) || unmade, DisplayStatus::Dormant, "dormant"),
            (has(&[DisplayStatus::Failed]), DisplayStatus::Failed, "failed"),
        ] {
            if is_there {
                legend.push((self.ink.mark(standing), word));
            }
        }
        if !self.critical.is_empty() {
            let sign = self.ink.paint(Paint::Yellow, self.ink.sign("▸", "!"));
            legend.push((sign, "longest path left"));
        }
        let mut foot = "\n".to_owned();
        let mut taken = 0;
        for (mark, word) in &legend {
            let width = text::width(word) + 2;
            let gap = match taken {
                0 => "",
                _ if taken + 3 + width > self.ink.columns => "\n",
                _ => "   ",
            };
            taken = if gap == "   " { taken + 3 + width } else { width };
            foot += &format!("{gap}{mark} {word}");
        }
        foot.push('\n');
        for cycle in self.graph.cycles(self.state).into_iter().take(RINGS_TOLD) {
            let when = match cycle.closes {
                Closes::Now | Closes::SinceBacktrack => "wait for one another: nothing of it can start",
                Closes::OnSwitch => "would wait for one another with another choice",
            };
            let names =
                self.ink.fit(&cycle.names.join(", "), self.ink.columns.saturating_sub(when.len() + 1));
            foot.push_str(&self.ink.paint(Paint::Yellow, &format!("{names} {when}")));
            foot.push('\n');
        }
        foot
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Critical {
    Yes,
    No,
}

/// Nodes in the order of the outline, and edges: what an atom depends on, its children, a group's choices.
pub fn object(state: &State) -> Value {
    let ink =
        Ink { colour: super::ink::Colour::Off, alphabet: super::ink::Alphabet::Ascii, columns: COLUMNS };
    let picture = Picture::of(state, ink);
    let graph = &picture.graph;
    let mut nodes = Vec::new();
    let mut edges = Vec::new();
    for row in &picture.outline.rows {
        match &row.item {
            RowItem::Atom(index) => {
                let atom = &state.atoms[*index];
                let group = graph.group_of(*index).map(|group| picture.named(group));
                nodes.push(json!({
                    "type": "atom",
                    "id": atom.id,
                    "description": atom.description,
                    "status": atom.status,
                    "standing": picture.standings[*index],
                    "depth": row.depth,
                    "parent": graph.parent(*index).map(|parent| &state.atoms[parent].id),
                    "or_group": group.map(|(name, _)| name),
                    "selected": group.map(|(_, entry)| entry.selected == atom.id),
                    "decomposed": graph.is_decomposed(*index),
                    "critical": picture.critical.contains(index),
                    "attempt": state.control.attempts.get(&atom.id),
                }));
                let known = atom.depends_on.iter().filter(|id| state.atoms.contains_key(*id));
                for (wanted, target) in known.zip(graph.depends(*index)) {
                    let waits_for = graph.name_of(state, *target);
                    edges.push(json!({
                        "type": "depends_on", "from": atom.id, "to": wanted, "waits_for": waits_for,
                    }));
                }
                for child in graph.children(*index) {
                    edges.push(json!({"type": "child", "from": atom.id, "to": state.atoms[*child].id}));
                }
            }
            RowItem::Group(group) => {
                let (name, entry) = picture.named(*group);
                nodes.push(json!({
                    "type": "or_group",
                    "id": name,
                    "standing": picture.group_standing(*group),
                    "depth": row.depth,
                    "selected": entry.selected,
                    "failed": entry.failed,
                    "speculative": entry.is_speculative(),
                    "racing": graph.is_racing(state, *group),
                }));
                for choice in &entry.choices {
                    edges.push(json!({"type": "choice", "from": name, "to": choice}));
                }
            }
            RowItem::Unmade(id) => {
                nodes.push(json!({"type": "unmade", "id": id, "standing": "dormant", "depth": row.depth}));
            }
        }
    }
    let path: Vec<_> = graph.critical_path(state).into_iter().map(|index| &state.atoms[index].id).collect();
    let cycles: Vec<Value> = graph
        .cycles(state)
        .into_iter()
        .map(|cycle| {
            let closes = match cycle.closes {
                Closes::Now => "now",
                Closes::SinceBacktrack => "since_backtrack",
                Closes::OnSwitch => "on_switch",
            };
            json!({"names": cycle.names, "closes": closes})
        })
        .collect();
    json!({"nodes": nodes, "edges": edges, "critical_path": path, "cycles": cycles})
}
