//! The gate before a loop: nothing starts that was not agreed on.

use crate::state::{AtomId, Checks, NewAtom, Span, State};

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

/// What an agreement says of itself where the person said only the goal and the checks.
pub const DEFAULT_INTENT: &str = "Not stated beyond the goal.";
pub const DEFAULT_DELIVERABLES: &str = "The changes to the project that the goal needs.";
pub const DEFAULT_DONE: &str = "All checks pass.";

/// Two hours: how long a new loop may take if nobody says otherwise. A file without the key keeps the contract's own default.
const WALL_TIME: Span = Span::from_seconds(7_200);

/// A state in which the goal and the checks suffice: the rest is filled in, and named by the contract's names. An agreement
/// goes through here before anybody is asked to accept it, never a loop that has begun.
pub fn completed(mut state: State) -> (State, Vec<&'static str>) {
    let mut filled = Vec::new();
    let objective = &mut state.objective;
    for (text, default, name) in [
        (&mut objective.background_intent, DEFAULT_INTENT, "objective.background_intent"),
        (&mut objective.deliverables, DEFAULT_DELIVERABLES, "objective.deliverables"),
        (&mut objective.definition_of_done, DEFAULT_DONE, "objective.definition_of_done"),
    ] {
        if text.trim().is_empty() {
            default.clone_into(text);
            filled.push(name);
        }
    }
    if objective.constraints.max_wall_time.is_none() {
        objective.constraints.max_wall_time = Some(WALL_TIME);
        filled.push("objective.constraints.max_wall_time");
    }
    if state.atoms.is_empty() && !objective.goal.trim().is_empty() {
        let id = AtomId::new("A1");
        let whole = NewAtom { description: objective.goal.trim().to_owned(), ..NewAtom::default() };
        state.add(whole.called(id));
        filled.push("atoms");
    }
    (state, filled)
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
