//! What an atom rests on, contracted: the work it depends on itself, and what lies behind that. Knows no text.

use std::collections::VecDeque;

use crate::state::{Graph, State, Target};

#[derive(Debug)]
pub(super) struct Dependencies {
    /// Its own dependencies and those of the atoms it is a part of, each as what it really waits for (D1): of a group
    /// the selected choice, of a decomposed atom the atom itself.
    pub(super) direct: Vec<usize>,
    /// What those rest on in turn, the nearest first.
    pub(super) behind: Vec<usize>,
}

pub(super) fn dependencies(state: &State, graph: &Graph, atom: usize) -> Dependencies {
    let mut seen = vec![false; state.atoms.len()];
    graph.line(atom).for_each(|above| seen[above] = true);
    let direct = unseen(needs(state, graph, atom), &mut seen);
    let mut behind = Vec::new();
    let mut queue = VecDeque::from(direct.clone());
    while let Some(next) = queue.pop_front() {
        let children = graph.child_targets(next).filter_map(|target| selected(state, target));
        let found = unseen(children.chain(needs(state, graph, next)), &mut seen);
        queue.extend(&found);
        behind.extend(found);
    }
    Dependencies { direct, behind }
}

/// Parents' dependencies hold for their children too.
fn needs<'s>(state: &'s State, graph: &'s Graph, atom: usize) -> impl Iterator<Item = usize> + 's {
    let targets = graph.line(atom).flat_map(|above| graph.depends(above));
    targets.filter_map(|target| selected(state, *target))
}

/// The atom that stands for a target now; a choice may be listed without an atom (D4).
fn selected(state: &State, target: Target) -> Option<usize> {
    match target {
        Target::Atom(atom) => Some(atom),
        Target::Group(group) => state.atoms.get_index_of(&state.or_groups[group].selected),
    }
}

fn unseen(indices: impl Iterator<Item = usize>, seen: &mut [bool]) -> Vec<usize> {
    indices.filter(|index| !std::mem::replace(&mut seen[*index], true)).collect()
}
