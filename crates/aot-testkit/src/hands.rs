//! What people do to a state file: edits by hand, and redirects of all kinds. Draws valid ones only; the contract
//! refuses the others before any coordinator sees them.

use aot_core::rules::redirect::{self, CorrectionRequest};
use aot_core::rules::reshape::{self, NewAtom};
use aot_core::rules::{Change, Ledger, apply, backtrack};
use aot_core::state::{AtomStatus, Limit, State};
use jiff::Timestamp;

use crate::chance::Chance;
use crate::plans;

/// The file after somebody edited it.
pub fn edited(state: &State, chance: &mut Chance, now: Timestamp) -> State {
    let mut edited = state.clone();
    match chance.below(4) {
        0 => limits_changed(&mut edited, chance, now),
        1 => {
            let index = chance.below(edited.atoms.len());
            edited.atoms[index].description.push_str(", please");
        }
        2 => edited.objective.background_intent.push_str(", and more"),
        _ => return reshaped(edited, chance, now),
    }
    edited
}

/// The file after a redirect: cancelled, or with one or two corrections of any kind. Refused ones change nothing.
pub fn redirected(state: &State, chance: &mut Chance, now: Timestamp) -> State {
    let mut cancelled = state.clone();
    cancelled.control.redirect_requested = false;
    if chance.percent(15) {
        return cancelled;
    }
    let corrections = (0..chance.between(1, 2)).map(|_| correction(state, chance)).collect();
    let mut ledger = Ledger::open(cancelled.clone(), now);
    match redirect::redirect(&mut ledger, corrections) {
        Ok(()) => ledger.close().0,
        Err(_) => cancelled,
    }
}

fn correction(state: &State, chance: &mut Chance) -> CorrectionRequest {
    let any = |chance: &mut Chance| state.atoms[chance.below(state.atoms.len())].id.clone();
    let new = NewAtom { description: "as a person wants it".into(), ..NewAtom::default() };
    let group = |chance: &mut Chance| {
        state
            .or_groups
            .get_index(chance.below(state.or_groups.len().max(1)))
            .map(|(name, group)| (name.clone(), chance.pick(&group.choices).clone()))
    };
    match chance.below(14) {
        0 => CorrectionRequest::Goal("another goal".into()),
        1 => CorrectionRequest::BaseCase(plans::judged(chance.below(3))),
        2 => CorrectionRequest::BackgroundIntent("another background".into()),
        3 => CorrectionRequest::DefinitionOfDone("done differently".into()),
        4 => CorrectionRequest::Limit(another_limit(state, chance)),
        5 => CorrectionRequest::AddAtom(NewAtom { depends_on: vec![any(chance)], ..new }),
        6 => CorrectionRequest::RemoveAtom(any(chance)),
        7 => CorrectionRequest::Decompose {
            parent: any(chance),
            children: vec![new.clone(), new],
            reason: "large".into(),
        },
        8 => CorrectionRequest::Withdraw { parent: any(chance) },
        9 => CorrectionRequest::Dependencies { atom: any(chance), depends_on: vec![any(chance)] },
        10 => match group(chance) {
            Some((group, _)) => CorrectionRequest::AddChoice { group, atom: new },
            None => CorrectionRequest::AddAtom(new),
        },
        11 => match group(chance) {
            Some((group, choice)) => {
                CorrectionRequest::ForceChoice { group, choice, reason: "by hand".into() }
            }
            None => CorrectionRequest::AddAtom(new),
        },
        12 => CorrectionRequest::Rebind {
            atom: any(chance),
            summary: "as it really is".into(),
            artifacts: None,
        },
        _ => CorrectionRequest::Redo { atom: any(chance) },
    }
}

fn limits_changed(state: &mut State, chance: &mut Chance, now: Timestamp) {
    let constraints = another_limit(state, chance).within(state.constraints().clone());
    apply(state, &Change::ConstraintsSet { constraints }, now).expect("constraints always fit");
}

fn another_limit(state: &State, chance: &mut Chance) -> Limit {
    match chance.below(3) {
        0 => Limit::MaxIterations(state.constraints().max_iterations + chance.between(1, 3) as u32),
        1 => Limit::MaxParallelAgents(chance.between(1, 4) as u32),
        _ => Limit::MaxStallCount(chance.between(1, 4) as u32),
    }
}

fn reshaped(state: State, chance: &mut Chance, now: Timestamp) -> State {
    let before = state.clone();
    let mut ledger = Ledger::open(state, now);
    let index = chance.below(before.atoms.len());
    let atom = before.atoms[index].id.clone();
    let made = match chance.below(3) {
        0 => {
            let new = NewAtom { description: "something more".into(), ..NewAtom::default() };
            reshape::add(&mut ledger, new).is_ok()
        }
        1 => before.atoms[index].status == AtomStatus::Pending && reshape::remove(&mut ledger, &atom).is_ok(),
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
