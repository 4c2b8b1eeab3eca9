//! What a run asks after every event, kept beside the state so that it need not be looked for: what is ready, in
//! which order, what is due, how much is unresolved. Derived: [`Graph`] has the plain definitions, and a frontier
//! must always say the same. Whoever changes a status or a group says so; another shape needs a new frontier.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::{AtomStatus, Graph, State, Target, Weights};

#[derive(Clone, Debug)]
pub struct Frontier {
    /// Atoms that depend on a target themselves, by the target's node.
    dependents: Vec<Vec<usize>>,
    /// Parents that wait for a target, by the target's node.
    parents: Vec<Vec<usize>>,
    /// What each node of waits-for is waited for by, and waits for.
    followers: Vec<Vec<usize>>,
    precedents: Vec<Vec<usize>>,
    /// Nodes of a ring, and what only a ring leads to, have no remaining path.
    has_path: Vec<bool>,
    path: Vec<u32>,
    weights: Weights,
    /// Unresolved dependencies of an atom's own, and one more while its parent's gate is shut.
    gate: Vec<u32>,
    /// Unresolved children, or groups of children.
    children: Vec<u32>,
    /// How many choices on an atom's line take no part, or have failed.
    dormant_above: Vec<u32>,
    failed_above: Vec<u32>,
    is_dormant: Vec<bool>,
    failed: Vec<bool>,
    atom_done: Vec<bool>,
    group_done: Vec<bool>,
    counts: Vec<bool>,
    unresolved: usize,
    /// The path under which an atom stands in `ready`.
    listed: Vec<Option<u32>>,
    ready: BTreeSet<(Reverse<u32>, usize)>,
    due: BTreeSet<usize>,
    in_progress: BTreeSet<usize>,
    /// Unresolved groups all of whose choices have failed, dormant ones among them.
    spent: BTreeSet<usize>,
}

impl Frontier {
    pub fn new(graph: &Graph, state: &State, weights: Weights) -> Frontier {
        let atoms = state.atoms.len();
        let targets = atoms + state.or_groups.len();
        let nodes = graph.node_count();
        let mut frontier = Frontier {
            dependents: vec![Vec::new(); targets],
            parents: vec![Vec::new(); targets],
            followers: graph.reversed(),
            precedents: vec![Vec::new(); nodes],
            has_path: vec![false; nodes],
            path: vec![0; nodes],
            weights,
            gate: vec![0; atoms],
            children: vec![0; atoms],
            dormant_above: vec![0; atoms],
            failed_above: vec![0; atoms],
            is_dormant: vec![false; atoms],
            failed: vec![false; atoms],
            atom_done: state.atoms.values().map(|atom| atom.status == AtomStatus::Resolved).collect(),
            group_done: (0..state.or_groups.len())
                .map(|group| graph.is_resolved(state, Target::Group(group)))
                .collect(),
            counts: vec![false; atoms],
            unresolved: 0,
            listed: vec![None; atoms],
            ready: BTreeSet::new(),
            due: BTreeSet::new(),
            in_progress: BTreeSet::new(),
            spent: BTreeSet::new(),
        };
        frontier.link(graph, atoms);
        for atom in 0..atoms {
            if let Some(group) = graph.group_of(atom) {
                frontier.is_dormant[atom] = !graph.takes_part(state, atom, group);
                frontier.failed[atom] = state.or_groups[group].failed.contains(&state.atoms[atom].id);
            }
        }
        frontier.walk_down(graph, atoms);
        frontier.measure(graph, state);
        for atom in 0..atoms {
            frontier.refresh(graph, state, atom);
        }
        for group in 0..state.or_groups.len() {
            frontier.count_failed(state, group);
        }
        frontier
    }

    fn link(&mut self, graph: &Graph, atoms: usize) {
        let index = |target| match target {
            Target::Atom(atom) => atom,
            Target::Group(group) => atoms + group,
        };
        for atom in 0..atoms {
            for target in graph.depends(atom) {
                self.dependents[index(*target)].push(atom);
                self.gate[atom] += u32::from(!self.is_done(*target));
            }
            for target in graph.child_targets(atom) {
                self.parents[index(target)].push(atom);
                self.children[atom] += u32::from(!self.is_done(target));
            }
        }
        for (node, next) in self.followers.iter().enumerate() {
            for follower in next {
                self.precedents[*follower].push(node);
            }
        }
    }

    /// What holds for a parent holds for all below it.
    fn walk_down(&mut self, graph: &Graph, atoms: usize) {
        let mut order: Vec<usize> = (0..atoms).filter(|atom| graph.parent(*atom).is_none()).collect();
        let mut next = 0;
        while let Some(atom) = order.get(next).copied() {
            next += 1;
            order.extend(graph.children(atom));
            self.dormant_above[atom] = u32::from(self.is_dormant[atom]);
            self.failed_above[atom] = u32::from(self.failed[atom]);
            if let Some(parent) = graph.parent(atom) {
                self.dormant_above[atom] += self.dormant_above[parent];
                self.failed_above[atom] += self.failed_above[parent];
                self.gate[atom] += u32::from(self.gate[parent] > 0);
            }
        }
    }

    fn measure(&mut self, graph: &Graph, state: &State) {
        let order = graph.path_order(&self.followers);
        for node in order.into_iter().rev() {
            self.has_path[node] = true;
            self.path[node] = self.path_through(graph, state, node);
        }
    }

    fn path_through(&self, graph: &Graph, state: &State, node: usize) -> u32 {
        let behind = self.followers[node].iter().map(|next| self.path[*next]).max().unwrap_or(0);
        let weighs = node < state.atoms.len() && !graph.is_decomposed(node) && self.dormant_above[node] == 0;
        behind.saturating_add(if weighs { self.weights.of(node) } else { 0 })
    }

    fn is_done(&self, target: Target) -> bool {
        match target {
            Target::Atom(atom) => self.atom_done[atom],
            Target::Group(group) => self.group_done[group],
        }
    }

    /// All that could start now, longest remaining path first: in atoms, or in expected seconds where those are known.
    pub fn ready(&self) -> impl Iterator<Item = usize> + '_ {
        self.ready.iter().map(|(_, atom)| *atom)
    }

    pub fn is_ready(&self, atom: usize) -> bool {
        self.listed[atom].is_some()
    }

    pub fn is_due(&self, atom: usize) -> bool {
        self.due.contains(&atom)
    }

    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Parents whose own check can be run now (D3).
    pub fn due(&self) -> impl Iterator<Item = usize> + '_ {
        self.due.iter().copied()
    }

    pub fn in_progress(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.in_progress.iter().copied()
    }

    /// A live group whose choices have all failed.
    pub fn exhausted(&self, graph: &Graph, state: &State) -> Option<usize> {
        self.spent.iter().copied().find(|group| graph.is_exhausted(state, *group))
    }

    pub fn unresolved(&self) -> usize {
        self.unresolved
    }

    pub fn is_dormant(&self, atom: usize) -> bool {
        self.dormant_above[atom] > 0
    }

    pub fn counts(&self, atom: usize) -> bool {
        self.counts[atom]
    }

    /// Whether all children of a parent are resolved.
    pub fn children_done(&self, parent: usize) -> bool {
        self.children[parent] == 0
    }

    /// The longest remaining path from each atom on.
    pub fn path(&self, atom: usize) -> u32 {
        self.path[atom]
    }

    /// An atom has another status.
    pub fn status_changed(&mut self, graph: &Graph, state: &State, atom: usize) {
        let done = state.atoms[atom].status == AtomStatus::Resolved;
        if std::mem::replace(&mut self.atom_done[atom], done) != done {
            self.flip(graph, state, atom, done);
        }
        if let Some(group) = graph.group_of(atom) {
            self.group_changed(graph, state, group);
        }
        self.refresh(graph, state, atom);
    }

    /// A group has another selection or other failures, or one of its choices another status.
    pub fn group_changed(&mut self, graph: &Graph, state: &State, group: usize) {
        let done = graph.is_resolved(state, Target::Group(group));
        if std::mem::replace(&mut self.group_done[group], done) != done {
            self.flip(graph, state, state.atoms.len() + group, done);
        }
        let mut touched = Vec::new();
        for choice in graph.choices(group).iter().copied().filter(|c| graph.group_of(*c) == Some(group)) {
            let is_dormant = !graph.takes_part(state, choice, group);
            let failed = state.or_groups[group].failed.contains(&state.atoms[choice].id);
            let was_dormant = std::mem::replace(&mut self.is_dormant[choice], is_dormant);
            let was_failed = std::mem::replace(&mut self.failed[choice], failed);
            if (is_dormant, failed) == (was_dormant, was_failed) {
                touched.push(choice);
                continue;
            }
            for below in graph.subtree(choice) {
                move_by(&mut self.dormant_above[below], was_dormant, is_dormant);
                move_by(&mut self.failed_above[below], was_failed, failed);
                touched.push(below);
            }
        }
        self.count_failed(state, group);
        self.remeasure(graph, state, &touched);
        for atom in touched {
            self.refresh(graph, state, atom);
        }
    }

    fn count_failed(&mut self, state: &State, group: usize) {
        let entry = &state.or_groups[group];
        let spent = !self.group_done[group] && entry.choices.iter().all(|c| entry.failed.contains(c));
        set(&mut self.spent, group, spent);
    }

    /// A target got resolved, or lost that.
    fn flip(&mut self, graph: &Graph, state: &State, target: usize, done: bool) {
        let mut gates: Vec<usize> = self.dependents[target].clone();
        while let Some(atom) = gates.pop() {
            let shut = self.gate[atom] > 0;
            if done {
                self.gate[atom] -= 1;
            } else {
                self.gate[atom] += 1;
            }
            if shut != (self.gate[atom] > 0) {
                self.refresh(graph, state, atom);
                gates.extend(graph.children(atom));
            }
        }
        for parent in self.parents[target].clone() {
            if done {
                self.children[parent] -= 1;
            } else {
                self.children[parent] += 1;
            }
            self.refresh(graph, state, parent);
        }
    }

    fn remeasure(&mut self, graph: &Graph, state: &State, atoms: &[usize]) {
        let mut work: Vec<usize> = atoms.to_vec();
        while let Some(node) = work.pop() {
            let path = self.path_through(graph, state, node);
            if !self.has_path[node] || path == self.path[node] {
                continue;
            }
            self.path[node] = path;
            work.extend(&self.precedents[node]);
            if node < state.atoms.len() && self.listed[node].is_some() {
                self.refresh(graph, state, node);
            }
        }
    }

    fn refresh(&mut self, graph: &Graph, state: &State, atom: usize) {
        let status = state.atoms[atom].status;
        let open = status == AtomStatus::Pending
            && self.gate[atom] == 0
            && self.dormant_above[atom] == 0
            && self.failed_above[atom] == 0;
        let ready = (open && !graph.is_decomposed(atom)).then_some(self.path[atom]);
        if self.listed[atom] != ready {
            if let Some(path) = self.listed[atom] {
                self.ready.remove(&(Reverse(path), atom));
            }
            if let Some(path) = ready {
                self.ready.insert((Reverse(path), atom));
            }
            self.listed[atom] = ready;
        }
        if graph.is_decomposed(atom) {
            let due = open && self.children[atom] == 0 && state.atoms[atom].check.is_some();
            set(&mut self.due, atom, due);
        }
        set(&mut self.in_progress, atom, status == AtomStatus::InProgress);
        let counts = self.should_count(graph, state, atom);
        if std::mem::replace(&mut self.counts[atom], counts) != counts {
            if counts {
                self.unresolved += 1;
            } else {
                self.unresolved -= 1;
            }
        }
    }

    fn should_count(&self, graph: &Graph, state: &State, atom: usize) -> bool {
        if self.atom_done[atom] || self.dormant_above[atom] > 0 {
            return false;
        }
        match graph.group_of(atom) {
            Some(group) if graph.is_racing(state, group) => {
                graph.choices(group).iter().find(|choice| graph.takes_part(state, **choice, group))
                    == Some(&atom)
            }
            Some(_) | None => true,
        }
    }
}

fn move_by(count: &mut u32, was: bool, is: bool) {
    match (was, is) {
        (false, true) => *count += 1,
        (true, false) => *count -= 1,
        (false, false) | (true, true) => {}
    }
}

fn set(members: &mut BTreeSet<usize>, atom: usize, belongs: bool) {
    if belongs {
        members.insert(atom);
    } else {
        members.remove(&atom);
    }
}
