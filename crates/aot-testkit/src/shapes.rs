//! All AND/OR graphs of a size: decompositions, groups and races nested in every way, every set of dependencies that
//! closes no cycle as selected at first. Graphs that differ in names only come once. Knows nothing of coordinators.

use std::collections::HashSet;

use aot_core::state::{Atom, AtomId, Closes, Constraints, Decomposition, Graph, GroupName, OrGroup, State};

use crate::plans;

/// A graph over atoms `0..`, in the fewest words.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    pub parent: Vec<Option<usize>>,
    /// Choices of one group carry the same number and come in the order of the atoms.
    pub group: Vec<Option<usize>>,
    /// Groups whose choices run side by side.
    pub races: Vec<bool>,
    /// A bit for each atom that an atom depends on.
    pub needs: Vec<u32>,
}

/// Whether decomposed atoms have a check of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentChecks {
    None,
    All,
}

/// How far the groups are when a loop begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    Fresh,
    /// Two choices, which are no atoms of the shape, have failed.
    Stuck,
}

/// All shapes with exactly so many atoms.
pub fn all(count: usize) -> Vec<Shape> {
    let orders = permutations(count);
    let mut seen: HashSet<Shape> = HashSet::new();
    let mut found = Vec::new();
    for frame in frames(count) {
        for bits in 0u64..1 << (count * (count - 1)) {
            let mut shape = frame.clone();
            shape.needs = spread(bits, count);
            if is_sound(&shape) && seen.insert(canonical(&shape, &orders)) {
                found.push(shape);
            }
        }
    }
    found
}

impl Shape {
    pub fn state(&self, constraints: Constraints, checks: ParentChecks, groups: Groups) -> State {
        let mut state = plans::blank(constraints);
        let id = |atom: usize| AtomId::new(format!("A{}", atom + 1));
        let name = |group: usize| GroupName::new(format!("g{group}"));
        let count = self.parent.len();
        for atom in 0..count {
            let mut made = Atom::new(id(atom), "do it");
            made.depends_on = (0..count).filter(|on| self.needs[atom] >> on & 1 == 1).map(id).collect();
            made.or_group = self.group[atom].map(name);
            if checks == ParentChecks::All && self.parent.contains(&Some(atom)) {
                made.check = Some(plans::judged(0));
            }
            state.add(made);
        }
        for parent in 0..count {
            let children: Vec<AtomId> =
                (0..count).filter(|child| self.parent[*child] == Some(parent)).map(id).collect();
            if !children.is_empty() {
                let reason = "too large".into();
                state.decompositions.push(Decomposition { parent: id(parent), children, reason });
            }
        }
        for (group, race) in self.races.iter().enumerate() {
            let mut choices: Vec<AtomId> =
                (0..count).filter(|atom| self.group[*atom] == Some(group)).map(id).collect();
            let selected = choices[0].clone();
            let failed: Vec<AtomId> = match groups {
                Groups::Fresh => Vec::new(),
                Groups::Stuck => ["first", "second"].map(AtomId::from).into(),
            };
            choices.splice(..0, failed.iter().cloned());
            let speculative = race.then_some(true);
            state.or_groups.insert(name(group), OrGroup { choices, selected, failed, speculative });
        }
        state
    }

    /// Whether choices are tried one after the other somewhere.
    pub fn has_choices(&self) -> bool {
        self.races.contains(&false)
    }

    pub fn has_parents(&self) -> bool {
        self.parent.iter().any(Option::is_some)
    }
}

/// Parents and groups, without dependencies. A parent comes before its children: every forest can be numbered so.
fn frames(count: usize) -> Vec<Shape> {
    let mut partial = vec![Shape { parent: vec![], group: vec![], races: vec![], needs: vec![0; count] }];
    for atom in 0..count {
        let mut longer = Vec::new();
        for shape in partial {
            for parent in std::iter::once(None).chain((0..atom).map(Some)) {
                let beside = |group: &usize| {
                    (0..atom).any(|other| shape.group[other] == Some(*group) && shape.parent[other] == parent)
                };
                let joinable: Vec<usize> = (0..shape.races.len()).filter(beside).collect();
                for group in std::iter::once(None).chain(joinable.into_iter().map(Some)) {
                    let mut next = shape.clone();
                    next.parent.push(parent);
                    next.group.push(group);
                    longer.push(next);
                }
                // The first choice of a new group.
                for race in [false, true] {
                    let mut next = shape.clone();
                    next.parent.push(parent);
                    next.group.push(Some(next.races.len()));
                    next.races.push(race);
                    longer.push(next);
                }
            }
        }
        partial = longer;
    }
    let has_a_choice = |shape: &Shape| {
        (0..shape.races.len()).all(|group| shape.group.iter().filter(|of| **of == Some(group)).count() > 1)
    };
    partial.retain(has_a_choice);
    partial
}

fn spread(bits: u64, count: usize) -> Vec<u32> {
    let mut needs = vec![0; count];
    let mut bit = 0;
    for (atom, mask) in needs.iter_mut().enumerate() {
        for on in (0..count).filter(|on| *on != atom) {
            *mask |= ((bits >> bit & 1) as u32) << on;
            bit += 1;
        }
    }
    needs
}

fn is_sound(shape: &Shape) -> bool {
    let state = shape.state(Constraints::default(), ParentChecks::None, Groups::Fresh);
    Graph::new(&state).cycles(&state).iter().all(|cycle| cycle.closes == Closes::OnSwitch)
}

/// The least of all shapes that differ from this one in the atoms' numbers only. The order of a group's choices is
/// part of the graph, and is kept.
fn canonical(shape: &Shape, orders: &[Vec<usize>]) -> Shape {
    orders.iter().filter_map(|order| renumbered(shape, order)).min().expect("the order as it is, is one")
}

/// The same shape with atom `a` called `order[a]`; none if that would turn a group's choices around.
fn renumbered(shape: &Shape, order: &[usize]) -> Option<Shape> {
    let count = order.len();
    for a in 0..count {
        for b in a + 1..count {
            if shape.group[a].is_some() && shape.group[a] == shape.group[b] && order[a] > order[b] {
                return None;
            }
        }
    }
    let mut parent = vec![None; count];
    let mut old_group = vec![None; count];
    let mut needs = vec![0; count];
    for atom in 0..count {
        parent[order[atom]] = shape.parent[atom].map(|parent| order[parent]);
        old_group[order[atom]] = shape.group[atom];
        needs[order[atom]] =
            (0..count).filter(|on| shape.needs[atom] >> on & 1 == 1).map(|on| 1 << order[on]).sum();
    }
    // Groups are numbered in the order of their first choices.
    let mut names: Vec<usize> = Vec::new();
    let group = old_group
        .iter()
        .map(|group| {
            group.map(|group| {
                names.iter().position(|name| *name == group).unwrap_or_else(|| {
                    names.push(group);
                    names.len() - 1
                })
            })
        })
        .collect();
    let races = names.iter().map(|name| shape.races[*name]).collect();
    Some(Shape { parent, group, races, needs })
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    let mut found = vec![Vec::new()];
    for next in 0..count {
        found = found
            .into_iter()
            .flat_map(|order: Vec<usize>| {
                (0..=next).map(move |at| {
                    let mut longer = order.clone();
                    longer.insert(at, next);
                    longer
                })
            })
            .collect();
    }
    found
}
