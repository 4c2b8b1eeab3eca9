//! What people do to a state file: edits by hand, and redirects of all kinds. Draws valid ones only; the contract
//! refuses the others before any coordinator sees them.

use aot_core::rules::reshape::{self, NewAtom};
use aot_core::rules::{Change, Ledger, apply, backtrack};
use aot_core::state::{AtomStatus, State};
use jiff::Timestamp;

use crate::chance::Chance;

/// The file after somebody edited it.
pub fn edited(state: &State, chance: &mut Chance, now: Timestamp) -> State {
    let mut edited = state.clone();
    match chance.below(4) {
        0 => limits_changed(&mut edited, chance, now),
        1 => {
            let place = chance.below(edited.atoms.len());
            edited.atoms[place].description.push_str(", please");
        }
        2 => edited.objective.background_intent.push_str(", and more"),
        _ => return reshaped(edited, chance, now),
    }
    edited
}

/// The file after a redirect.
pub fn redirected(state: &State, chance: &mut Chance, now: Timestamp) -> State {
    let mut redirected = state.clone();
    redirected.control.redirect_requested = false;
    match chance.below(3) {
        0 => limits_changed(&mut redirected, chance, now),
        1 => return reshaped(redirected, chance, now),
        _ => {}
    }
    redirected
}

fn limits_changed(state: &mut State, chance: &mut Chance, now: Timestamp) {
    let mut constraints = state.constraints().clone();
    match chance.below(3) {
        0 => constraints.max_iterations += chance.between(1, 3) as u32,
        1 => constraints.max_parallel_agents = chance.between(1, 4) as u32,
        _ => constraints.max_stall_count = chance.between(1, 4) as u32,
    }
    apply(state, &Change::ConstraintsSet { constraints }, now).expect("constraints always fit");
}

fn reshaped(state: State, chance: &mut Chance, now: Timestamp) -> State {
    let before = state.clone();
    let mut ledger = Ledger::open(state, now);
    let place = chance.below(before.atoms.len());
    let atom = before.atoms[place].id.clone();
    let made = match chance.below(3) {
        0 => {
            let new = NewAtom { description: "something more".into(), ..NewAtom::default() };
            reshape::add(&mut ledger, new).is_ok()
        }
        1 => before.atoms[place].status == AtomStatus::Pending && reshape::remove(&mut ledger, &atom).is_ok(),
        _ => {
            let group = before.or_groups.get_index(chance.below(before.or_groups.len().max(1)));
            group.is_some_and(|(name, entry)| {
                let choice = chance.pick(&entry.choices).clone();
                backtrack::switch(&mut ledger, name, &choice, "by hand").is_ok()
            })
        }
    };
    // A refused change leaves the file as it was.
    if made { ledger.close().0 } else { before }
}
