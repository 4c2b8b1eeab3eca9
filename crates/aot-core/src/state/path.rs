//! Lengths of what is still to be done one after the other. Derived from a [`Graph`] and a state; knows no rule.

use super::{AtomStatus, Closes, Graph, State, Target};

/// How heavy each atom is on a path: the seconds that it is expected to take, or one where nothing is known of any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights(Vec<u32>);

impl Weights {
    /// More than these seconds, which are five and a half hours, weigh no more: the path of a graph of two hundred thousand
    /// atoms still fits its number.
    pub const HEAVIEST: u32 = 20_000;

    /// These seconds for the atoms in their order.
    pub fn of_seconds(seconds: impl Iterator<Item = f64>) -> Weights {
        // What is no number counts as one second.
        Weights(seconds.map(|seconds| (seconds.round() as u32).clamp(1, Weights::HEAVIEST)).collect())
    }

    pub fn of(&self, atom: usize) -> u32 {
        self.0.get(atom).copied().unwrap_or(1)
    }
}

/// What is left to do, as nodes that wait for each other. Nodes that are through are not in it.
#[derive(Clone, Debug)]
pub struct RemainingWork {
    /// How many nodes each waits for.
    pub waiting: Vec<u32>,
    /// The nodes that wait for each.
    pub followers: Vec<Vec<usize>>,
    /// Nodes that are atoms to be executed, or parents whose own check is still to pass.
    pub atoms: Vec<usize>,
}

impl Graph {
    /// How many atoms are executed one after the other, this one included, until all that waits for it is through.
    /// Dormant atoms and parents weigh nothing. What is resolved weighs as before: nothing that waits for an
    /// unresolved atom can be resolved, so for those the difference cannot be seen.
    pub fn remaining_paths(&self, state: &State) -> Vec<u32> {
        self.remaining_times(state, &Weights::default())
    }

    /// The same with each atom as heavy as it is expected to last.
    pub fn remaining_times(&self, state: &State, weights: &Weights) -> Vec<u32> {
        let mut longest = self.longest(state, &self.reversed(), weights);
        longest.truncate(state.atoms.len());
        longest
    }

    /// The longest chain of unresolved atoms, in the order in which they would be worked on. Rings are not on it.
    pub fn critical_path(&self, state: &State) -> Vec<usize> {
        let followers = self.reversed();
        let longest = self.longest(state, &followers, &Weights::default());
        let open =
            |atom: &usize| self.weighs(state, *atom) && state.atoms[*atom].status != AtomStatus::Resolved;
        let Some(first) = (0..state.atoms.len())
            .filter(open)
            .max_by_key(|atom| (longest[*atom], std::cmp::Reverse(*atom)))
            .filter(|atom| longest[*atom] > 0)
        else {
            return Vec::new();
        };
        let (mut path, mut node) = (Vec::new(), first);
        loop {
            let weighs = node < state.atoms.len() && self.weighs(state, node);
            if weighs {
                path.push(node);
            }
            let behind = longest[node] - u32::from(weighs);
            // Nodes of a ring have no length, so that a step to one is never taken.
            match followers[node].iter().find(|next| behind > 0 && longest[**next] == behind) {
                Some(next) => node = *next,
                None => return path,
            }
        }
    }

    fn longest(&self, state: &State, followers: &[Vec<usize>], weights: &Weights) -> Vec<u32> {
        let mut longest = vec![0u32; self.node_count()];
        for node in self.path_order(followers).into_iter().rev() {
            let behind = followers[node].iter().map(|next| longest[*next]).max().unwrap_or(0);
            let weighs = node < state.atoms.len() && self.weighs(state, node);
            longest[node] = behind.saturating_add(if weighs { weights.of(node) } else { 0 });
        }
        longest
    }

    /// What is left to do as things are selected now.
    pub fn remaining_work(&self, state: &State) -> RemainingWork {
        let (nodes, count) = (self.node_count(), state.atoms.len());
        let mut work =
            RemainingWork { waiting: vec![0; nodes], followers: vec![Vec::new(); nodes], atoms: Vec::new() };
        let is_through = |node: usize| match node {
            atom if atom < count => state.atoms[atom].status == AtomStatus::Resolved,
            gate if gate < 2 * count => false,
            group => self.is_resolved(state, Target::Group(group - 2 * count)),
        };
        for node in (0..nodes).filter(|node| !is_through(*node)) {
            for wanted in self.waits_for(state, node, Closes::SinceBacktrack) {
                if !is_through(wanted) {
                    work.waiting[node] += 1;
                    work.followers[wanted].push(node);
                }
            }
            let is_executed = node < count
                && (!self.is_decomposed(node) || state.atoms[node].check.is_some())
                && !self.is_dormant(state, node)
                && !self.under_failed_choice(state, node);
            if is_executed {
                work.atoms.push(node);
            }
        }
        work
    }

    fn weighs(&self, state: &State, atom: usize) -> bool {
        !self.is_decomposed(atom) && !self.is_dormant(state, atom)
    }
}
