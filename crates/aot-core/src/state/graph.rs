//! The shape of the work: who waits for whom. Derived from a `State`, never stored, tolerant of references that
//! lead nowhere (the contract reports those).
//!
//! *Waits-for* (decision D5) has three kinds of nodes: an atom waits for its gate and for its children; a gate
//! waits for what its atom depends on and for the gate of the atom's parent; a group waits for its choices.

use std::collections::VecDeque;

use super::{AtomId, AtomStatus, GroupName, State, Weights};

/// Decompositions nested deeper than this are refused by the contract.
pub const MAX_NESTING: usize = 64;

/// What a dependency really waits for: decision D1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    Atom(usize),
    Group(usize),
}

/// Whether a cycle can be met as things are selected now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closes {
    /// As selected now: an error.
    Now,
    /// As selected now, but only since backtracking went there: the deadlock that the loop stops with.
    SinceBacktrack,
    /// Only once another choice is selected: a warning.
    OnSwitch,
}

/// Names of atoms and groups that wait for one another; the last waits for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    pub names: Vec<String>,
    pub closes: Closes,
}

#[derive(Clone, Debug)]
pub struct Graph {
    parent: Vec<Option<usize>>,
    children: Vec<Vec<usize>>,
    group_of: Vec<Option<usize>>,
    decomposed: Vec<bool>,
    /// What each atom's own dependencies mean.
    depends: Vec<Vec<Target>>,
    choices: Vec<Vec<usize>>,
    too_deep: Vec<usize>,
    /// Atoms that are, through decompositions, their own parents; each waits for the next.
    rings: Vec<Vec<usize>>,
}

impl Graph {
    pub fn new(state: &State) -> Graph {
        let count = state.atoms.len();
        let mut graph = Graph {
            parent: vec![None; count],
            children: vec![Vec::new(); count],
            group_of: vec![None; count],
            decomposed: vec![false; count],
            depends: vec![Vec::new(); count],
            choices: vec![Vec::new(); state.or_groups.len()],
            too_deep: Vec::new(),
            rings: Vec::new(),
        };
        graph.link_groups(state);
        graph.link_parents(state);
        graph.cut_endless_nesting();
        for child in 0..count {
            if let Some(parent) = graph.parent[child] {
                graph.children[parent].push(child);
            }
        }
        for atom in 0..count {
            graph.depends[atom] = state.atoms[atom]
                .depends_on
                .iter()
                .filter_map(|id| state.atoms.get_index_of(id))
                .map(|wanted| graph.target(wanted, atom))
                .collect();
        }
        graph
    }

    fn link_groups(&mut self, state: &State) {
        for (group, entry) in state.or_groups.values().enumerate() {
            for choice in entry.choices.iter().filter_map(|id| state.atoms.get_index_of(id)) {
                self.choices[group].push(choice);
                self.group_of[choice].get_or_insert(group);
            }
        }
    }

    /// The parent of a choice that no decomposition lists is that of its siblings: a group has one parent.
    fn link_parents(&mut self, state: &State) {
        for decomposition in &state.decompositions {
            let Some(parent) = state.atoms.get_index_of(&decomposition.parent) else { continue };
            self.decomposed[parent] = true;
            for child in decomposition.children.iter().filter_map(|id| state.atoms.get_index_of(id)) {
                self.parent[child].get_or_insert(parent);
            }
        }
        for choices in &self.choices {
            if let Some(parent) = choices.iter().find_map(|choice| self.parent[*choice]) {
                for choice in choices.iter().filter(|choice| **choice != parent) {
                    self.parent[*choice].get_or_insert(parent);
                }
            }
        }
    }

    fn cut_endless_nesting(&mut self) {
        for atom in 0..self.parent.len() {
            let line: Vec<usize> = self.line(atom).take(MAX_NESTING + 2).collect();
            if let Some(again) = line.iter().skip(1).position(|above| *above == atom) {
                self.rings.push(line[..=again].iter().rev().copied().collect());
                self.parent[atom] = None;
            } else if line.len() > MAX_NESTING + 1 {
                self.too_deep.push(atom);
                self.parent[atom] = None;
            }
        }
    }

    /// A dependency on a choice, or on something inside one, means the group of the outermost choice that encloses
    /// the target but not the dependent.
    fn target(&self, wanted: usize, dependent: usize) -> Target {
        let mut found = Target::Atom(wanted);
        for enclosing in self.line(wanted) {
            if let Some(group) = self.group_of[enclosing]
                && !self.line(dependent).any(|above| above == enclosing)
            {
                found = Target::Group(group);
            }
        }
        found
    }

    /// The atom itself, its parent, and so on upward.
    pub fn line(&self, atom: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(atom), |atom| self.parent[*atom])
    }

    pub fn parent(&self, atom: usize) -> Option<usize> {
        self.parent[atom]
    }

    /// Atoms whose parent this is, choices that are not selected included.
    pub fn children(&self, atom: usize) -> &[usize] {
        &self.children[atom]
    }

    pub fn is_decomposed(&self, atom: usize) -> bool {
        self.decomposed[atom]
    }

    pub fn group_of(&self, atom: usize) -> Option<usize> {
        self.group_of[atom]
    }

    pub fn choices(&self, group: usize) -> &[usize] {
        &self.choices[group]
    }

    /// What the atom's own dependencies mean; those of its parents hold for it too.
    pub fn depends(&self, atom: usize) -> &[Target] {
        &self.depends[atom]
    }

    /// Atoms nested deeper than [`MAX_NESTING`].
    pub fn too_deep(&self) -> &[usize] {
        &self.too_deep
    }

    /// The children a parent waits for: a child, or the group of a child that is a choice.
    pub fn child_targets(&self, parent: usize) -> impl Iterator<Item = Target> + '_ {
        self.children[parent].iter().filter_map(move |kid| match self.group_of[*kid] {
            None => Some(Target::Atom(*kid)),
            Some(group) => {
                let first = self.choices[group].iter().find(|choice| self.parent[**choice] == Some(parent));
                (first == Some(kid)).then_some(Target::Group(group))
            }
        })
    }

    /// The atom itself or the nearest one above it that is a choice, with its group.
    pub fn enclosing_choice(&self, atom: usize) -> Option<(usize, usize)> {
        self.line(atom).find_map(|above| Some((above, self.group_of[above]?)))
    }

    /// The nearest choice above a group's own choices.
    pub fn choice_around(&self, group: usize) -> Option<(usize, usize)> {
        let parent = self.choices[group].iter().find_map(|choice| self.parent[*choice])?;
        self.enclosing_choice(parent)
    }

    /// The atom and all below it.
    pub fn subtree(&self, atom: usize) -> Vec<usize> {
        let mut found = vec![atom];
        let mut next = 0;
        while let Some(at) = found.get(next).copied() {
            found.extend(&self.children[at]);
            next += 1;
        }
        found
    }

    pub fn is_resolved(&self, state: &State, target: Target) -> bool {
        match target {
            Target::Atom(atom) => state.atoms[atom].status == AtomStatus::Resolved,
            Target::Group(group) => state
                .atoms
                .get(&state.or_groups[group].selected)
                .is_some_and(|atom| atom.status == AtomStatus::Resolved),
        }
    }

    /// Whether a group's choices run side by side: it is speculative and none of them is resolved yet.
    pub fn is_racing(&self, state: &State, group: usize) -> bool {
        state.or_groups[group].is_speculative() && !self.is_resolved(state, Target::Group(group))
    }

    /// Whether a choice takes part: it is selected, or it races (decision D25).
    pub(super) fn takes_part(&self, state: &State, choice: usize, group: usize) -> bool {
        let entry = &state.or_groups[group];
        let id = &state.atoms[choice].id;
        entry.selected == *id
            || (self.is_racing(state, group) && !self.decomposed[choice] && !entry.failed.contains(id))
    }

    /// Under a choice that takes no part: neither ready nor unresolved (decision D2).
    pub fn is_dormant(&self, state: &State, atom: usize) -> bool {
        self.line(atom)
            .any(|above| self.group_of[above].is_some_and(|group| !self.takes_part(state, above, group)))
    }

    /// Below, or itself, a choice that has failed.
    pub fn under_failed_choice(&self, state: &State, atom: usize) -> bool {
        self.line(atom).any(|above| {
            self.group_of[above]
                .is_some_and(|group| state.or_groups[group].failed.contains(&state.atoms[above].id))
        })
    }

    /// The first thing that an atom still waits for, its own dependencies first.
    pub fn waits_on(&self, state: &State, atom: usize) -> Option<Target> {
        self.line(atom)
            .flat_map(|above| self.depends[above].iter().copied())
            .find(|target| !self.is_resolved(state, *target))
    }

    pub fn is_ready(&self, state: &State, atom: usize) -> bool {
        state.atoms[atom].status == AtomStatus::Pending
            && !self.decomposed[atom]
            && self.waits_on(state, atom).is_none()
            && !self.is_dormant(state, atom)
            && !self.under_failed_choice(state, atom)
    }

    /// All that could start now, longest remaining path first, then in the written order (decision D7).
    pub fn ready(&self, state: &State) -> Vec<usize> {
        self.ready_by(state, &Weights::default())
    }

    /// The same with each atom as heavy as it is expected to last: longest remaining expected time first.
    pub fn ready_by(&self, state: &State, weights: &Weights) -> Vec<usize> {
        let mut ready: Vec<usize> =
            (0..state.atoms.len()).filter(|atom| self.is_ready(state, *atom)).collect();
        if ready.len() > 1 {
            let remaining = self.remaining_times(state, weights);
            ready.sort_by_key(|atom| std::cmp::Reverse(remaining[*atom]));
        }
        ready
    }

    /// Whether the atom counts as unresolved: neither resolved nor dormant (decision D9). Of the choices of a racing
    /// group only one counts.
    pub fn is_unresolved(&self, state: &State, atom: usize) -> bool {
        if state.atoms[atom].status == AtomStatus::Resolved || self.is_dormant(state, atom) {
            return false;
        }
        match self.group_of[atom] {
            Some(group) if self.is_racing(state, group) => {
                self.choices[group].iter().find(|choice| self.takes_part(state, **choice, group))
                    == Some(&atom)
            }
            _ => true,
        }
    }

    pub fn unresolved(&self, state: &State) -> usize {
        (0..state.atoms.len()).filter(|atom| self.is_unresolved(state, *atom)).count()
    }

    pub fn name_of(&self, state: &State, target: Target) -> String {
        match target {
            Target::Atom(atom) => state.atoms[atom].id.to_string(),
            Target::Group(group) => group_name(state, group).to_string(),
        }
    }

    /// Parents whose children are all resolved and whose own check is still to pass (decision D3).
    pub fn is_due(&self, state: &State, atom: usize) -> bool {
        let entry = &state.atoms[atom];
        entry.status == AtomStatus::Pending
            && entry.check.is_some()
            && self.decomposed[atom]
            && self.child_targets(atom).all(|target| self.is_resolved(state, target))
            && self.waits_on(state, atom).is_none()
            && !self.is_dormant(state, atom)
            && !self.under_failed_choice(state, atom)
    }

    /// A live group whose choices have all failed (decision D10).
    pub fn exhausted(&self, state: &State) -> Option<usize> {
        (0..self.choices.len()).find(|group| self.is_exhausted(state, *group))
    }

    pub fn is_exhausted(&self, state: &State, group: usize) -> bool {
        let entry = &state.or_groups[group];
        let around = self.choices[group].iter().find_map(|choice| self.parent[*choice]);
        entry.choices.iter().all(|choice| entry.failed.contains(choice))
            && !self.is_resolved(state, Target::Group(group))
            && around.is_none_or(|parent| {
                !self.is_dormant(state, parent) && !self.under_failed_choice(state, parent)
            })
    }

    /// All nodes, each before what waits for it. Rings, and what only they lead to, are left out.
    pub(super) fn path_order(&self, followers: &[Vec<usize>]) -> Vec<usize> {
        let mut waiting = vec![0u32; self.node_count()];
        for node in followers.iter().flatten() {
            waiting[*node] += 1;
        }
        let mut order: Vec<usize> = (0..self.node_count()).filter(|node| waiting[*node] == 0).collect();
        let mut next = 0;
        while let Some(node) = order.get(next).copied() {
            next += 1;
            for follower in &followers[node] {
                waiting[*follower] -= 1;
                if waiting[*follower] == 0 {
                    order.push(*follower);
                }
            }
        }
        order
    }

    /// The groups that an atom rests on as things are selected now: what it waits for, and what it lies in.
    pub fn groups_under(&self, state: &State, atom: usize) -> Vec<usize> {
        let first_group = 2 * self.parent.len();
        let mut seen = vec![false; self.node_count()];
        let mut work: Vec<usize> = vec![self.parent.len() + atom];
        let mut found: Vec<usize> = self.line(atom).filter_map(|above| self.group_of[above]).collect();
        while let Some(node) = work.pop() {
            for next in self.waits_for(state, node, Closes::Now) {
                if !std::mem::replace(&mut seen[next], true) {
                    work.push(next);
                    if next >= first_group {
                        found.push(next - first_group);
                    }
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Everything that rests on these atoms: what waits for them, directly or not, through dependencies, parents and
    /// groups (decision D31). A group rests on its selected choice, not on those that sleep; on the atoms given it
    /// rests in any case. The atoms themselves are not in it, unless they wait for one another.
    pub fn resting_on(&self, state: &State, atoms: &[usize]) -> Vec<usize> {
        let count = self.parent.len();
        let followers = self.reversed();
        let mut seen = vec![false; self.node_count()];
        let given: std::collections::HashSet<usize> = atoms.iter().copied().collect();
        let mut queue: VecDeque<usize> = atoms.iter().copied().collect();
        let mut found = Vec::new();
        let sleeps = |node: usize, next: usize| {
            next >= 2 * count
                && !given.contains(&node)
                && state.or_groups[next - 2 * count].selected != state.atoms[node].id
        };
        while let Some(node) = queue.pop_front() {
            for next in followers[node].iter().filter(|next| !sleeps(node, **next)) {
                if !std::mem::replace(&mut seen[*next], true) {
                    queue.push_back(*next);
                    if *next < count && !given.contains(next) {
                        found.push(*next);
                    }
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// One cycle for each knot of waits-for.
    pub fn cycles(&self, state: &State) -> Vec<Cycle> {
        let rings = self.rings.iter().map(|ring| self.names_along(state, ring));
        let mut found: Vec<Cycle> = rings.map(|names| Cycle { names, closes: Closes::Now }).collect();
        for closes in [Closes::Now, Closes::SinceBacktrack, Closes::OnSwitch] {
            if closes != Closes::Now && self.choices.is_empty() {
                break;
            }
            for cycle in self.cycles_among(state, closes) {
                let known =
                    found.iter().any(|other| other.names.iter().any(|name| cycle.names.contains(name)));
                if closes == Closes::Now || !known {
                    found.push(cycle);
                }
            }
        }
        found
    }

    fn cycles_among(&self, state: &State, closes: Closes) -> Vec<Cycle> {
        let edges: Vec<Vec<usize>> =
            (0..self.node_count()).map(|node| self.waits_for(state, node, closes)).collect();
        knots(&edges)
            .into_iter()
            .map(|knot| Cycle { names: self.names_along(state, &ring(&edges, &knot)), closes })
            .filter(|cycle| !cycle.names.is_empty())
            .collect()
    }

    fn names_along(&self, state: &State, nodes: &[usize]) -> Vec<String> {
        let count = self.parent.len();
        let mut names = Vec::new();
        for node in nodes {
            if *node < count {
                names.push(state.atoms[*node].id.to_string());
            } else if *node >= 2 * count {
                names.push(group_name(state, *node - 2 * count).to_string());
            }
        }
        names
    }

    pub(super) fn node_count(&self) -> usize {
        2 * self.parent.len() + self.choices.len()
    }

    fn node(&self, target: Target) -> usize {
        match target {
            Target::Atom(atom) => atom,
            Target::Group(group) => 2 * self.parent.len() + group,
        }
    }

    pub(super) fn waits_for(&self, state: &State, node: usize, closes: Closes) -> Vec<usize> {
        let count = self.parent.len();
        if node < count {
            let children = self.child_targets(node).map(|target| self.node(target));
            return std::iter::once(count + node).chain(children).collect();
        }
        if node < 2 * count {
            let atom = node - count;
            let own = self.depends[atom].iter().map(|target| self.node(*target));
            return own.chain(self.parent[atom].map(|parent| count + parent)).collect();
        }
        let group = node - 2 * count;
        let entry = &state.or_groups[group];
        let is_selected = |choice: &usize| state.atoms[*choice].id == entry.selected;
        let choices = self.choices[group].iter().copied();
        match closes {
            Closes::Now if !entry.failed.is_empty() => Vec::new(),
            Closes::Now | Closes::SinceBacktrack => choices.filter(is_selected).collect(),
            Closes::OnSwitch => choices.collect(),
        }
    }

    /// For every node, the nodes that wait for it.
    pub(super) fn reversed(&self) -> Vec<Vec<usize>> {
        let count = self.parent.len();
        let mut followers = vec![Vec::new(); self.node_count()];
        for atom in 0..count {
            followers[count + atom].push(atom);
            if let Some(parent) = self.parent[atom] {
                followers[count + parent].push(count + atom);
            }
            for target in &self.depends[atom] {
                followers[self.node(*target)].push(count + atom);
            }
            for target in self.child_targets(atom) {
                followers[self.node(target)].push(atom);
            }
        }
        for (group, choices) in self.choices.iter().enumerate() {
            for choice in choices {
                followers[*choice].push(2 * count + group);
            }
        }
        followers
    }
}

fn group_name(state: &State, group: usize) -> &GroupName {
    state.or_groups.get_index(group).expect("a graph's group stands in its state").0
}

/// Strongly connected parts with more than one node, or with an edge to itself (Tarjan, without recursion).
fn knots(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let mut number = vec![UNSEEN; edges.len()];
    let mut low = vec![0; edges.len()];
    let mut on_path = vec![false; edges.len()];
    let (mut path, mut knots, mut next_number) = (Vec::new(), Vec::new(), 0);
    let mut work: Vec<(usize, usize)> = Vec::new();
    for start in 0..edges.len() {
        if number[start] != UNSEEN {
            continue;
        }
        work.push((start, 0));
        while let Some((node, edge)) = work.pop() {
            if edge == 0 {
                number[node] = next_number;
                low[node] = next_number;
                next_number += 1;
                path.push(node);
                on_path[node] = true;
            } else {
                low[node] = low[node].min(low[edges[node][edge - 1]]);
            }
            let step = edges[node][edge..].iter().position(|to| {
                if number[*to] != UNSEEN && on_path[*to] {
                    low[node] = low[node].min(number[*to]);
                }
                number[*to] == UNSEEN
            });
            if let Some(skipped) = step {
                let taken = edge + skipped;
                work.push((node, taken + 1));
                work.push((edges[node][taken], 0));
                continue;
            }
            if low[node] == number[node] {
                let from = path.iter().rposition(|other| *other == node).expect("a root is on its own path");
                let knot: Vec<usize> = path.split_off(from);
                knot.iter().for_each(|member| on_path[*member] = false);
                if knot.len() > 1 || edges[node].contains(&node) {
                    knots.push(knot);
                }
            }
        }
    }
    knots
}

/// A shortest ring inside a knot, through its first node.
fn ring(edges: &[Vec<usize>], knot: &[usize]) -> Vec<usize> {
    let inside: std::collections::HashSet<usize> = knot.iter().copied().collect();
    let start = *knot.iter().min().expect("a knot has a node");
    let mut came_from = std::collections::HashMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for next in edges[node].iter().filter(|next| inside.contains(next)) {
            if *next == start {
                let mut ring = vec![node];
                while let Some(before) = came_from.get(ring.last().expect("never empty")) {
                    ring.push(*before);
                }
                ring.reverse();
                return ring;
            }
            if !came_from.contains_key(next) && *next != start {
                came_from.insert(*next, node);
                queue.push_back(*next);
            }
        }
    }
    knot.to_vec()
}

/// What a verb or a view asks by name rather than by place.
impl Graph {
    pub fn ready_ids<'s>(&self, state: &'s State) -> Vec<&'s AtomId> {
        self.ready(state).into_iter().map(|atom| &state.atoms[atom].id).collect()
    }
}
