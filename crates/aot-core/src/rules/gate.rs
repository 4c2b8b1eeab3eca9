//! The gate before a loop: nothing starts that was not agreed on (requirements, chapter "start command").

use crate::state::{Checks, State};

/// A state whose alignment is complete. Only [`gate`] makes one.
#[derive(Clone, Debug)]
pub struct Aligned {
    state: State,
}

impl Aligned {
    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn into_state(self) -> State {
        self.state
    }
}

/// What the alignment still lacks, by the contract's names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the goal is not aligned yet; missing: {}", missing.join(", "))]
pub struct NotAligned {
    pub missing: Vec<String>,
}

pub fn gate(state: State) -> Result<Aligned, NotAligned> {
    let missing = missing(&state);
    if missing.is_empty() { Ok(Aligned { state }) } else { Err(NotAligned { missing }) }
}

pub fn missing(state: &State) -> Vec<String> {
    let objective = &state.objective;
    let wanted = [
        (!objective.goal.trim().is_empty(), "objective.goal"),
        (objective.base_case.as_ref().is_some_and(|checks| !checks.has_empty_set()), "objective.base_case"),
        (!objective.background_intent.trim().is_empty(), "objective.background_intent"),
        (!objective.deliverables.trim().is_empty(), "objective.deliverables"),
        (!objective.definition_of_done.trim().is_empty(), "objective.definition_of_done"),
        (!state.atoms.is_empty(), "atoms"),
    ];
    let lacking = wanted.into_iter().filter(|(there, _)| !there).map(|(_, name)| name.to_owned());
    // A check with an empty list in it would prove an atom done by nothing (D18, D22).
    let hollow = state.atoms.values().filter(|atom| atom.check.as_ref().is_some_and(Checks::has_empty_set));
    lacking.chain(hollow.map(|atom| format!("atoms.{}.check", atom.id))).collect()
}
