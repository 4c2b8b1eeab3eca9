//! What people do to a state file: edits by hand, and redirects of all kinds. Draws valid ones only; the contract
//! refuses the others before any coordinator sees them.

use std::sync::Arc;

use aot_core::rules::redirect::{self as rules, CorrectionRequest};
use aot_core::rules::reshape::{self, NewAtom};
use aot_core::rules::{Change, Ledger, apply, backtrack};
use aot_core::state::{AtomStatus, Limit, State};
use jiff::Timestamp;

use crate::plans;
use crate::random::Random;

/// The file after somebody edited it.
pub fn edit(state: &State, random: &mut Random, now: Timestamp) -> State {
    let mut edited = state.clone();
    match random.below(4) {
        0 => limits_changed(&mut edited, random, now),
        1 => {
            let index = random.below(edited.atoms.len());
            Arc::make_mut(&mut edited.atoms[index]).description.push_str(", please");
        }
        2 => edited.objective.background_intent.push_str(", and more"),
        _ => return reshaped(edited, random, now),
    }
    edited
}

/// The file after a redirect: cancelled, or with one or two corrections of any kind. Refused ones change nothing.
pub fn redirect(state: &State, random: &mut Random, now: Timestamp) -> State {
    let mut cancelled = state.clone();
    cancelled.control.redirect_requested = false;
    if random.percent(15) {
        return cancelled;
    }
    let corrections = (0..random.between(1, 2)).map(|_| correction(state, random)).collect();
    let mut ledger = Ledger::open(cancelled.clone(), now);
    match rules::redirect(&mut ledger, corrections) {
        Ok(()) => ledger.close().0,
        Err(_) => cancelled,
    }
}

fn correction(state: &State, random: &mut Random) -> CorrectionRequest {
    let any = |random: &mut Random| state.atoms[random.below(state.atoms.len())].id.clone();
    let new = NewAtom { description: "as a person wants it".into(), ..NewAtom::default() };
    let group = |random: &mut Random| {
        state
            .or_groups
            .get_index(random.below(state.or_groups.len().max(1)))
            .map(|(name, group)| (name.clone(), random.pick(&group.choices).clone()))
    };
    match random.below(15) {
        0 => CorrectionRequest::Goal("another goal".into()),
        1 => CorrectionRequest::BaseCase(plans::judged(random.below(3))),
        2 => CorrectionRequest::BackgroundIntent("another background".into()),
        3 => CorrectionRequest::DefinitionOfDone("done differently".into()),
        4 => CorrectionRequest::Limit(another_limit(state, random)),
        5 => CorrectionRequest::AddAtom(NewAtom { depends_on: vec![any(random)], ..new }),
        6 => CorrectionRequest::RemoveAtom(any(random)),
        7 => CorrectionRequest::Decompose {
            parent: any(random),
            children: vec![new.clone(), new],
            reason: "large".into(),
        },
        8 => CorrectionRequest::Withdraw { parent: any(random) },
        9 => CorrectionRequest::Dependencies { atom: any(random), depends_on: vec![any(random)] },
        10 => match group(random) {
            Some((group, _)) => CorrectionRequest::AddChoice { group, atom: new },
            None => CorrectionRequest::AddAtom(new),
        },
        11 => match group(random) {
            Some((group, choice)) => {
                CorrectionRequest::ForceChoice { group, choice, reason: "by hand".into() }
            }
            None => CorrectionRequest::AddAtom(new),
        },
        12 => CorrectionRequest::Rebind {
            atom: any(random),
            summary: "as it really is".into(),
            artifacts: None,
        },
        13 => CorrectionRequest::Redo { atom: any(random), hint: "the other library".into() },
        _ => CorrectionRequest::Redo { atom: any(random), hint: String::new() },
    }
}

fn limits_changed(state: &mut State, random: &mut Random, now: Timestamp) {
    let constraints = another_limit(state, random).within(state.constraints().clone());
    apply(state, &Change::ConstraintsSet { constraints }, now).expect("constraints always fit");
}

fn another_limit(state: &State, random: &mut Random) -> Limit {
    match random.below(3) {
        0 => Limit::MaxIterations(state.constraints().max_iterations + random.between(1, 3) as u32),
        1 => Limit::MaxParallelAgents(random.between(1, 4) as u32),
        _ => Limit::MaxStallCount(random.between(1, 4) as u32),
    }
}

fn reshaped(state: State, random: &mut Random, now: Timestamp) -> State {
    let before = state.clone();
    let mut ledger = Ledger::open(state, now);
    let index = random.below(before.atoms.len());
    let atom = before.atoms[index].id.clone();
    let made = match random.below(3) {
        0 => {
            let new = NewAtom { description: "something more".into(), ..NewAtom::default() };
            reshape::add(&mut ledger, new).is_ok()
        }
        1 => before.atoms[index].status == AtomStatus::Pending && reshape::remove(&mut ledger, &atom).is_ok(),
        _ => {
            let group = before.or_groups.get_index(random.below(before.or_groups.len().max(1)));
            group.is_some_and(|(name, entry)| {
                let choice = random.pick(&entry.choices).clone();
                backtrack::switch(&mut ledger, name, &choice, "by hand").is_ok()
            })
        }
    };
    // A refused change leaves the file as it was.
    if made { ledger.close().0 } else { before }
}
