//! The gate before a loop: nothing starts that was not agreed on (requirements, chapter "start command").

use crate::state::State;

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
    pub missing: Vec<&'static str>,
}

pub fn gate(state: State) -> Result<Aligned, NotAligned> {
    let missing = missing(&state);
    if missing.is_empty() { Ok(Aligned { state }) } else { Err(NotAligned { missing }) }
}

pub fn missing(state: &State) -> Vec<&'static str> {
    let objective = &state.objective;
    let mut missing = Vec::new();
    let mut want = |there: bool, name| {
        if !there {
            missing.push(name);
        }
    };
    want(!objective.goal.trim().is_empty(), "objective.goal");
    want(objective.base_case.as_ref().is_some_and(|checks| !checks.has_empty_set()), "objective.base_case");
    want(!objective.background_intent.trim().is_empty(), "objective.background_intent");
    want(!objective.deliverables.trim().is_empty(), "objective.deliverables");
    want(!objective.definition_of_done.trim().is_empty(), "objective.definition_of_done");
    want(!state.atoms.is_empty(), "atoms");
    missing
}
