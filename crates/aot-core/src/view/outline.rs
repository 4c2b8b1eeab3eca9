//! A graph as an outline: decompositions below their parents, choices below their groups, siblings in an order in which
//! each comes after what it waits for. Has no marks and no widths.

use std::collections::HashMap;

use crate::state::{AtomId, Graph, State, Target};

/// What is shown, line by line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    pub rows: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// How many rows it lies below.
    pub depth: usize,
    pub last: Last,
    pub what: What,
}

/// Whether another row follows below the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    Yes,
    No,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Atom(usize),
    Group(usize),
    /// A choice whose atom is made when the group goes to it (D4).
    Unmade(AtomId),
}

impl Outline {
    pub fn of(graph: &Graph, state: &State) -> Outline {
        let before = before(graph, state);
        let tops = items(graph, state, None);
        let mut rows = Vec::with_capacity(state.atoms.len());
        let mut work: Vec<(Row, Option<usize>)> = Vec::new();
        lay(&mut work, 0, None, ordered(&tops, &before).into_iter().map(What::from).collect());
        while let Some((row, parent)) = work.pop() {
            match &row.what {
                What::Atom(atom) => {
                    let children = items(graph, state, Some(*atom));
                    let below = ordered(&children, &before).into_iter().map(What::from).collect();
                    lay(&mut work, row.depth + 1, Some(*atom), below);
                }
                What::Group(group) => {
                    lay(&mut work, row.depth + 1, parent, choices(graph, state, *group, parent));
                }
                What::Unmade(_) => {}
            }
            rows.push(row);
        }
        Outline { rows }
    }
}

impl From<Target> for What {
    fn from(target: Target) -> What {
        match target {
            Target::Atom(atom) => What::Atom(atom),
            Target::Group(group) => What::Group(group),
        }
    }
}

/// Puts rows on a stack so that the first comes off first.
fn lay(work: &mut Vec<(Row, Option<usize>)>, depth: usize, parent: Option<usize>, what: Vec<What>) {
    for (from_end, what) in what.into_iter().rev().enumerate() {
        let last = if from_end == 0 { Last::Yes } else { Last::No };
        work.push((Row { depth, last, what }, parent));
    }
}

/// In the order in which they are tried. A choice with another parent, as a hand may have left it, stands there.
fn choices(graph: &Graph, state: &State, group: usize, parent: Option<usize>) -> Vec<What> {
    let listed = state.or_groups[group].choices.iter();
    listed
        .filter_map(|id| match state.atoms.get_index_of(id) {
            Some(index) => (graph.group_of(index) == Some(group) && graph.parent(index) == parent)
                .then_some(What::Atom(index)),
            None => Some(What::Unmade(id.clone())),
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

/// The items in their written order, except that what one waits for comes before it. A ring is broken where it is
/// entered.
fn ordered(items: &[Target], before: &HashMap<Target, Vec<Target>>) -> Vec<Target> {
    const NONE: &[Target] = &[];
    let mut seen: HashMap<Target, Seen> = items.iter().map(|item| (*item, Seen::No)).collect();
    let mut order = Vec::with_capacity(items.len());
    let mut work: Vec<(Target, usize)> = Vec::new();
    for item in items {
        work.push((*item, 0));
        while let Some((at, next)) = work.pop() {
            if next == 0 && seen.insert(at, Seen::Yes) != Some(Seen::No) {
                continue;
            }
            match before.get(&at).map_or(NONE, Vec::as_slice).get(next) {
                Some(first) => {
                    work.push((at, next + 1));
                    if seen.get(first) == Some(&Seen::No) {
                        work.push((*first, 0));
                    }
                }
                None => order.push(at),
            }
        }
    }
    order
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    No,
    Yes,
}
