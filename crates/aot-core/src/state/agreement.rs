//! What is agreed on before a loop begins: all that an alignment writes, as plain data. Where it comes from (flags, a
//! dialogue, an agent) and how it is written are others' business.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::{AtomId, Checks, Control, GroupName, NewAtom, Objective, OrGroup, State, sequence_number};

#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// What was asked for, in the first words of whoever asked.
    pub request: String,
    pub objective: Objective,
    pub atoms: Vec<NewAtom>,
    /// OR groups whose choices are tried at once (D25).
    pub speculative: Vec<GroupName>,
    pub clarifications: Vec<Clarification>,
    pub scope: Boundaries,
}

/// A question that had to be asked, and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clarification {
    pub question: String,
    pub answer: String,
}

/// What belongs to the goal and what does not, where somebody might think otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boundaries {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub included: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<String>,
}

/// What was asked and answered when a goal was agreed on, and where it ends. People and agents write these keys as they like,
/// so what cannot be read is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Background {
    pub clarifications: Vec<Clarification>,
    pub scope: Boundaries,
}

impl Boundaries {
    pub fn is_empty(&self) -> bool {
        self.included.is_empty() && self.excluded.is_empty()
    }
}

impl Agreement {
    /// Nothing but the request.
    pub fn about(request: impl Into<String>) -> Agreement {
        Agreement {
            request: request.into(),
            objective: Objective::default(),
            atoms: Vec::new(),
            speculative: Vec::new(),
            clarifications: Vec::new(),
            scope: Boundaries::default(),
        }
    }

    /// The state that a loop begins with. Atoms without an id get the next free one; choices are tried as listed. An id
    /// that stands twice is kept once: whoever writes the text sees to it before.
    pub fn state(&self) -> State {
        let mut state = State {
            objective: self.objective.clone(),
            control: Control::fresh(),
            atoms: IndexMap::new(),
            decompositions: Vec::new(),
            or_groups: IndexMap::new(),
            bindings: IndexMap::new(),
            trail: Vec::new(),
            corrections: Vec::new(),
            background: Background { clarifications: self.clarifications.clone(), scope: self.scope.clone() },
        };
        state.plan_more(&self.atoms);
        state.race(&self.speculative);
        state
    }

    /// An id that stands for two atoms.
    pub fn taken_twice(&self) -> Option<&AtomId> {
        let mut seen = std::collections::HashSet::new();
        self.atoms.iter().filter_map(|atom| atom.id.as_ref()).find(|id| !seen.insert(*id))
    }

    /// An id that stands for two atoms, or for one that this plan has already.
    pub fn taken_beside(&self, plan: &State) -> Option<&AtomId> {
        let given = || self.atoms.iter().filter_map(|atom| atom.id.as_ref());
        self.taken_twice().or_else(|| given().find(|id| plan.atoms.contains_key(*id)))
    }
}

impl State {
    /// The check that a lone atom takes if it brings none: what of the base case the program sees by itself (D22).
    pub fn check_of_lone_atom(&self) -> Option<(&AtomId, Checks)> {
        let (Some((id, atom)), 1) = (self.atoms.first(), self.atoms.len()) else { return None };
        if atom.is_proven_when_resolved() || atom.no_check.is_some() {
            return None;
        }
        Some((id, self.objective.base_case.as_ref()?.seen_by_program()?))
    }

    /// Lets the choices of these OR groups be tried at once, as far as there are such groups.
    pub fn race(&mut self, groups: &[GroupName]) {
        for group in groups {
            if let Some(entry) = self.or_groups.get_mut(group) {
                entry.speculative = Some(true);
            }
        }
    }

    /// Adds atoms to a plan that nobody has begun to work on. Those without an id get the next free one; choices are tried
    /// as listed.
    pub fn plan_more(&mut self, more: &[NewAtom]) {
        let given = more.iter().filter_map(|atom| atom.id.as_ref());
        let choices = self.or_groups.values().flat_map(|group| &group.choices);
        let taken = self.atoms.keys().chain(choices).chain(given);
        let mut free = taken.filter_map(|id| sequence_number(id.as_str())).max().unwrap_or(0);
        for new in more {
            let id = new.id.clone().unwrap_or_else(|| {
                free += 1;
                AtomId::new(format!("A{free}"))
            });
            if let Some(group) = &new.or_group {
                let entry = self.or_groups.entry(group.clone()).or_insert_with(|| OrGroup {
                    choices: Vec::new(),
                    selected: id.clone(),
                    failed: Vec::new(),
                    speculative: None,
                });
                if !entry.choices.contains(&id) {
                    entry.choices.push(id.clone());
                }
            }
            self.add(new.clone().called(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_on_after_the_highest_that_was_given() {
        let atom = |id: Option<&str>| NewAtom {
            id: id.map(AtomId::new),
            description: "x".into(),
            ..NewAtom::default()
        };
        let mut agreement = Agreement::about("");
        agreement.atoms = vec![atom(None), atom(None)];
        let ids = |agreement: &Agreement| {
            agreement.state().atoms.keys().map(|id| id.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ids(&agreement), "A1 A2");
        agreement.atoms = vec![atom(None), atom(Some("A7")), atom(Some("build")), atom(None)];
        assert_eq!(ids(&agreement), "A8 A7 build A9");
        agreement.atoms.push(atom(Some("A7")));
        assert_eq!(agreement.taken_twice(), Some(&AtomId::new("A7")));
        let plan = agreement.state();
        agreement.atoms = vec![atom(None), atom(Some("A10"))];
        assert_eq!(agreement.taken_beside(&plan), None);
        agreement.atoms.push(atom(Some("build")));
        assert_eq!(agreement.taken_beside(&plan), Some(&AtomId::new("build")));
    }
}
