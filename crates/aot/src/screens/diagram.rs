//! The AND/OR graph as boxes and arrows: what every picture of it draws, whatever the language. Has no colours and no places.
//!
//! An arrow leads to what becomes possible by it: from a dependency to its dependent, from a child to its parent, from a
//! choice to its group.

mod dot;
mod layout;
mod mermaid;
mod svg;

use std::collections::{HashMap, HashSet};

use aot_core::state::{State, Target};
use aot_core::view::{DisplayStatus, RowItem};

use super::graph::Picture;
use super::ink::{Alphabet, Colour, Ink};
use crate::text::{self, COLUMNS};

pub use dot::dot;
#[cfg(feature = "serve")]
pub use layout::Layout;
pub use mermaid::mermaid;
pub use svg::lines;
pub use svg::svg;

/// With more boxes than this, what is resolved and no longer needed becomes one box.
const MOST_BOXES: usize = 60;

/// Columns of a name or a description in a box, over all its lines.
const DESCRIPTION: usize = 58;

/// Whether a large graph is drawn whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Resolved atoms become one box where the graph is large.
    Contracted,
    Whole,
}

#[derive(Debug)]
pub struct Diagram {
    pub goal: String,
    /// How far the loop is.
    pub progress: String,
    pub boxes: Vec<DiagramBox>,
    pub arrows: Vec<Arrow>,
}

#[derive(Debug)]
pub struct DiagramBox {
    pub kind: BoxKind,
    /// As the state calls it, however long that is.
    pub name: String,
    pub text: String,
    pub status: DisplayStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoxKind {
    Atom,
    /// A decomposed atom, resolved by its children.
    Parent,
    OrGroup,
    /// Resolved atoms that nothing unresolved depends on.
    Contracted,
}

#[derive(Debug)]
pub struct Arrow {
    pub from: usize,
    pub to: usize,
    pub kind: ArrowKind,
    pub path: PathKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrowKind {
    Dependency,
    Child,
    Choice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// On the longest path left.
    Critical,
    Other,
}

impl Diagram {
    pub fn of(state: &State, detail: Detail) -> Diagram {
        let ink = Ink { colour: Colour::Off, alphabet: Alphabet::Unicode, columns: COLUMNS };
        let picture = Picture::of(state, ink);
        let diagram = Drawing::new(&picture).whole();
        if detail == Detail::Contracted && diagram.boxes.len() > MOST_BOXES {
            return diagram.contracted();
        }
        diagram
    }

    /// The statuses that occur, for a legend.
    fn statuses(&self) -> Vec<(DisplayStatus, &'static str)> {
        [
            DisplayStatus::Resolved,
            DisplayStatus::Claimed,
            DisplayStatus::Running,
            DisplayStatus::Ready,
            DisplayStatus::Pending,
            DisplayStatus::Dormant,
            DisplayStatus::Failed,
        ]
        .into_iter()
        .filter(|status| self.boxes.iter().any(|drawn| drawn.status == *status))
        .map(|status| (status, word(status)))
        .collect()
    }

    /// Resolved boxes on which nothing unresolved depends become one, and alternatives that were not needed go with them.
    fn contracted(self) -> Diagram {
        let mut after = vec![Vec::new(); self.boxes.len()];
        for arrow in &self.arrows {
            after[arrow.from].push(arrow.to);
        }
        let is_resolved =
            |at: usize| matches!(self.boxes[at].status, DisplayStatus::Resolved | DisplayStatus::Claimed);
        let is_off =
            |at: usize| matches!(self.boxes[at].status, DisplayStatus::Dormant | DisplayStatus::Failed);
        let is_live = |at: usize| !is_resolved(at) && !is_off(at);
        let mut gone: HashSet<usize> = (0..self.boxes.len())
            .filter(|at| is_resolved(*at) && !after[*at].iter().any(|next| is_live(*next)))
            .collect();
        loop {
            let unneeded = |at: &usize| {
                is_off(*at)
                    && !gone.contains(at)
                    && !after[*at].is_empty()
                    && after[*at].iter().all(|next| gone.contains(next))
            };
            let found: Vec<usize> = (0..self.boxes.len()).filter(unneeded).collect();
            if found.is_empty() {
                break;
            }
            gone.extend(found);
        }
        let count =
            gone.iter().filter(|at| is_resolved(**at) && self.boxes[**at].kind != BoxKind::OrGroup).count();
        if count < 2 {
            return self;
        }
        let claimed = gone.iter().any(|at| self.boxes[*at].status == DisplayStatus::Claimed);
        let mut boxes = vec![DiagramBox {
            kind: BoxKind::Contracted,
            name: format!("{count} resolved"),
            text: String::new(),
            status: if claimed { DisplayStatus::Claimed } else { DisplayStatus::Resolved },
        }];
        let mut places = vec![0; self.boxes.len()];
        for (at, drawn) in self.boxes.into_iter().enumerate() {
            if !gone.contains(&at) {
                places[at] = boxes.len();
                boxes.push(drawn);
            }
        }
        let mut seen = HashSet::new();
        let arrows = self.arrows.into_iter().filter_map(|arrow| {
            let (from, to) = (places[arrow.from], places[arrow.to]);
            // Arrows into the one box would close cycles.
            (to != 0 && seen.insert((from, to))).then_some(Arrow { from, to, ..arrow })
        });
        Diagram { goal: self.goal, progress: self.progress, arrows: arrows.collect(), boxes }
    }
}

/// The word of a status in pictures.
pub fn word(status: DisplayStatus) -> &'static str {
    match status {
        DisplayStatus::Resolved => "resolved",
        DisplayStatus::Claimed => "claimed",
        DisplayStatus::Running => "running",
        DisplayStatus::Ready => "ready",
        DisplayStatus::Pending => "pending",
        DisplayStatus::Dormant => "dormant",
        DisplayStatus::Failed => "failed",
    }
}

fn mark(status: DisplayStatus) -> &'static str {
    match status {
        DisplayStatus::Resolved => "✓",
        DisplayStatus::Claimed => "~",
        DisplayStatus::Running => "◐",
        DisplayStatus::Ready | DisplayStatus::Pending => "○",
        DisplayStatus::Dormant => "◌",
        DisplayStatus::Failed => "✗",
    }
}

struct Drawing<'p> {
    picture: &'p Picture<'p>,
    boxes: Vec<DiagramBox>,
    arrows: Vec<Arrow>,
    places: HashMap<Target, usize>,
    /// The atoms of the critical path, and those that contain one of them.
    critical: HashSet<usize>,
}

impl<'p> Drawing<'p> {
    fn new(picture: &'p Picture<'p>) -> Drawing<'p> {
        let critical = picture.critical.iter().flat_map(|index| picture.graph.line(*index)).collect();
        Drawing { picture, boxes: Vec::new(), arrows: Vec::new(), places: HashMap::new(), critical }
    }

    fn whole(mut self) -> Diagram {
        let mut unmade = Vec::new();
        let mut group = None;
        for row in &self.picture.outline.rows {
            match &row.item {
                RowItem::Atom(index) => self.atom(*index),
                RowItem::Group(index) => {
                    group = Some(*index);
                    self.group(*index);
                }
                RowItem::Unmade(id) => {
                    let text = "made on a switch to it".to_owned();
                    // Several groups may name it; the outline has it below the one drawn last that lists it.
                    let of = (0..self.picture.state.or_groups.len())
                        .filter(|group| self.picture.state.or_groups[*group].choices.contains(id))
                        .find(|at| Some(*at) == group)
                        .or(group);
                    unmade.extend(of.map(|group| (self.boxes.len(), group)));
                    self.boxes.push(DiagramBox {
                        kind: BoxKind::Atom,
                        name: id.to_string(),
                        text,
                        status: DisplayStatus::Dormant,
                    });
                }
            }
        }
        self.join();
        for (from, group) in unmade {
            if let Some(to) = self.places.get(&Target::Group(group)) {
                self.arrows.push(Arrow { from, to: *to, kind: ArrowKind::Choice, path: PathKind::Other });
            }
        }
        Diagram {
            goal: text::fit(&self.picture.state.objective.goal, 120),
            progress: self.picture.progress(),
            boxes: self.boxes,
            arrows: self.arrows,
        }
    }

    fn atom(&mut self, index: usize) {
        let atom = &self.picture.state.atoms[index];
        self.places.insert(Target::Atom(index), self.boxes.len());
        let decomposed = self.picture.graph.is_decomposed(index);
        self.boxes.push(DiagramBox {
            kind: if decomposed { BoxKind::Parent } else { BoxKind::Atom },
            name: atom.id.to_string(),
            text: text::fit(&atom.description, DESCRIPTION),
            status: self.picture.standings[index],
        });
    }

    fn group(&mut self, group: usize) {
        let (name, entry) = self.picture.named(group);
        let choices = entry.choices.len();
        let racing = self.picture.graph.is_racing(self.picture.state, group);
        self.places.insert(Target::Group(group), self.boxes.len());
        self.boxes.push(DiagramBox {
            kind: BoxKind::OrGroup,
            name: name.to_string(),
            text: if racing { format!("a race of {choices}") } else { format!("one of {choices}") },
            status: self.picture.group_standing(group),
        });
    }

    fn join(&mut self) {
        let (state, graph) = (self.picture.state, &self.picture.graph);
        // What a parent depends on is drawn at the children that depend on it too.
        let mut covered: HashSet<(usize, Target)> = HashSet::new();
        for index in 0..state.atoms.len() {
            for above in graph.line(index).skip(1) {
                covered.extend(graph.depends(index).iter().map(|target| (above, *target)));
            }
        }
        for index in 0..state.atoms.len() {
            let to = Target::Atom(index);
            for target in graph.depends(index) {
                if !covered.contains(&(index, *target)) {
                    self.arrow(*target, to, ArrowKind::Dependency);
                }
            }
            for child in graph.child_targets(index) {
                self.arrow(child, to, ArrowKind::Child);
            }
        }
        for group in 0..state.or_groups.len() {
            for choice in graph.choices(group) {
                self.arrow(Target::Atom(*choice), Target::Group(group), ArrowKind::Choice);
            }
        }
    }

    fn arrow(&mut self, from: Target, to: Target, kind: ArrowKind) {
        let (Some(start), Some(end)) = (self.places.get(&from), self.places.get(&to)) else { return };
        let is_critical = self.is_critical(from) && self.is_critical(to);
        let path = if is_critical { PathKind::Critical } else { PathKind::Other };
        let (from, to) = (*start, *end);
        if from != to && !self.arrows.iter().rev().take(64).any(|a| (a.from, a.to) == (from, to)) {
            self.arrows.push(Arrow { from, to, kind, path });
        }
    }

    /// A group is on the path if its selected choice is, or what stands below that one.
    fn is_critical(&self, target: Target) -> bool {
        let state = self.picture.state;
        let index = match target {
            Target::Atom(index) => Some(index),
            Target::Group(group) => state.atoms.get_index_of(&state.or_groups[group].selected),
        };
        index.is_some_and(|index| self.critical.contains(&index))
    }
}
