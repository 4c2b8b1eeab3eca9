//! Lengths of what is still to be done one after the other. Derived from a [`Graph`] and a state; knows no rule.

use super::{AtomStatus, Graph, State};

impl Graph {
    /// How many atoms are executed one after the other, this one included, until all that waits for it is through.
    /// Dormant atoms and parents weigh nothing. What is resolved weighs as before: nothing that waits for an
    /// unresolved atom can be resolved, so for those the difference cannot be seen.
    pub fn remaining_paths(&self, state: &State) -> Vec<u32> {
        let mut longest = self.longest(state, &self.reversed());
        longest.truncate(state.atoms.len());
        longest
    }

    /// The longest chain of unresolved atoms, in the order in which they would be worked on. Rings are not on it.
    pub fn critical_path(&self, state: &State) -> Vec<usize> {
        let followers = self.reversed();
        let longest = self.longest(state, &followers);
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

    fn longest(&self, state: &State, followers: &[Vec<usize>]) -> Vec<u32> {
        let mut longest = vec![0u32; self.node_count()];
        for node in self.path_order(followers).into_iter().rev() {
            let behind = followers[node].iter().map(|next| longest[*next]).max().unwrap_or(0);
            let weighs = node < state.atoms.len() && self.weighs(state, node);
            longest[node] = behind + u32::from(weighs);
        }
        longest
    }

    fn weighs(&self, state: &State, atom: usize) -> bool {
        !self.is_decomposed(atom) && !self.is_dormant(state, atom)
    }
}
