//! A graph as an outline: decompositions below their parents, choices below their groups, siblings in an order in which
//! each comes after what it waits for. Has no marks and no widths.

use std::collections::{HashMap, HashSet};

use crate::state::{AtomId, Graph, State, Target};

/// The rows of the outline, from top to bottom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    pub rows: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// How many rows above it contain it.
    pub depth: usize,
    pub sibling: Sibling,
    pub item: RowItem,
}

/// Where a row is among the rows below the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sibling {
    Earlier,
    Last,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowItem {
    Atom(usize),
    Group(usize),
    /// A choice whose atom is created when its group switches to it (D4).
    Unmade(AtomId),
}

impl Outline {
    pub fn of(graph: &Graph, state: &State) -> Outline {
        let before = before(graph, state);
        let tops = items(graph, state, None);
        let mut rows = Vec::with_capacity(state.atoms.len());
        let mut work: Vec<(Row, Option<usize>)> = Vec::new();
        lay(&mut work, 0, None, ordered(&tops, &before).into_iter().map(RowItem::from).collect());
        while let Some((row, parent)) = work.pop() {
            match &row.item {
                RowItem::Atom(atom) => {
                    let children = items(graph, state, Some(*atom));
                    let below = ordered(&children, &before).into_iter().map(RowItem::from).collect();
                    lay(&mut work, row.depth + 1, Some(*atom), below);
                }
                RowItem::Group(group) => {
                    lay(&mut work, row.depth + 1, parent, choices(graph, state, *group, parent));
                }
                RowItem::Unmade(_) => {}
            }
            rows.push(row);
        }
        Outline { rows }
    }
}

impl From<Target> for RowItem {
    fn from(target: Target) -> RowItem {
        match target {
            Target::Atom(atom) => RowItem::Atom(atom),
            Target::Group(group) => RowItem::Group(group),
        }
    }
}

/// Puts rows on a stack so that the first comes off first.
fn lay(work: &mut Vec<(Row, Option<usize>)>, depth: usize, parent: Option<usize>, items: Vec<RowItem>) {
    for (from_end, item) in items.into_iter().rev().enumerate() {
        let sibling = if from_end == 0 { Sibling::Last } else { Sibling::Earlier };
        work.push((Row { depth, sibling, item }, parent));
    }
}

/// The choices of a group in the order in which they are tried. A choice that a hand edit put under another parent is
/// shown there instead.
fn choices(graph: &Graph, state: &State, group: usize, parent: Option<usize>) -> Vec<RowItem> {
    let listed = state.or_groups[group].choices.iter();
    listed
        .filter_map(|id| match state.atoms.get_index_of(id) {
            Some(index) => (graph.group_of(index) == Some(group) && graph.parent(index) == parent)
                .then_some(RowItem::Atom(index)),
            None => Some(RowItem::Unmade(id.clone())),
        })
        .collect()
}

/// What lies directly below a parent, or at the top: atoms, and groups in the place of their first choice.
fn items(graph: &Graph, state: &State, parent: Option<usize>) -> Vec<Target> {
    match parent {
        Some(parent) => graph.child_targets(parent).collect(),
        None => (0..state.atoms.len())
            .filter(|atom| graph.parent(*atom).is_none())
            .filter_map(|atom| match graph.group_of(atom) {
                None => Some(Target::Atom(atom)),
                Some(group) => {
                    let first = graph.choices(group).iter().find(|c| graph.parent(**c).is_none());
                    (first == Some(&atom)).then_some(Target::Group(group))
                }
            })
            .collect(),
    }
}

/// For each item, its siblings that something in it waits for as things are selected now.
fn before(graph: &Graph, state: &State) -> HashMap<Target, Vec<Target>> {
    let item = |atom: usize| graph.group_of(atom).map_or(Target::Atom(atom), Target::Group);
    let mut before: HashMap<Target, Vec<Target>> = HashMap::new();
    for atom in (0..state.atoms.len()).filter(|atom| !graph.is_dormant(state, *atom)) {
        let own: Vec<usize> = graph.line(atom).collect();
        for target in graph.depends(atom) {
            let wanted = match target {
                Target::Atom(wanted) => Some(*wanted),
                Target::Group(group) => graph.choices(*group).first().copied(),
            };
            let Some(wanted) = wanted else { continue };
            let theirs: Vec<usize> = graph.line(wanted).collect();
            let shared = own.iter().rev().zip(theirs.iter().rev()).take_while(|(a, b)| a == b).count();
            let apart = |line: &[usize]| line.len().checked_sub(shared + 1).map(|at| item(line[at]));
            if let (Some(this), Some(that)) = (apart(&own), apart(&theirs))
                && this != that
            {
                before.entry(this).or_default().push(that);
            }
        }
    }
    before
}

/// The items in their written order, except that what one waits for comes before it. A cycle is broken where it is
/// entered.
fn ordered(items: &[Target], before: &HashMap<Target, Vec<Target>>) -> Vec<Target> {
    const NONE: &[Target] = &[];
    let mut unvisited: HashSet<Target> = items.iter().copied().collect();
    let mut order = Vec::with_capacity(items.len());
    let mut work: Vec<(Target, usize)> = Vec::new();
    for item in items {
        work.push((*item, 0));
        while let Some((at, next)) = work.pop() {
            if next == 0 && !unvisited.remove(&at) {
                continue;
            }
            match before.get(&at).map_or(NONE, Vec::as_slice).get(next) {
                Some(first) => {
                    work.push((at, next + 1));
                    if unvisited.contains(first) {
                        work.push((*first, 0));
                    }
                }
                None => order.push(at),
            }
        }
    }
    order
}
