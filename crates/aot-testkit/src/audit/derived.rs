//! What the ledger keeps in step with the state equals its plain definition: frontier, paths, counts and failures.

use std::fmt::Debug;

use aot_core::rules::{Ledger, Tally, backtrack};
use aot_core::state::{AtomStatus, Graph};

use super::{Checked, ensure};

pub fn derived_figures_are_right(ledger: &Ledger) -> Checked {
    let state = ledger.state();
    let (graph, frontier) = (Graph::new(state), ledger.frontier());
    let atoms = 0..state.atoms.len();
    let due: Vec<usize> = atoms.clone().filter(|atom| graph.is_due(state, *atom)).collect();
    let in_progress = |atom: &usize| state.atoms[*atom].status == AtomStatus::InProgress;
    let weights = ledger.weights();
    same("ready", &frontier.ready().collect::<Vec<_>>(), &graph.ready_by(state, &weights))?;
    same("unresolved", &frontier.unresolved(), &graph.unresolved(state))?;
    same("due", &frontier.due().collect::<Vec<_>>(), &due)?;
    let running: Vec<usize> = atoms.clone().filter(in_progress).collect();
    same("in progress", &frontier.in_progress().collect::<Vec<_>>(), &running)?;
    same("exhausted", &frontier.exhausted(&graph, state), &graph.exhausted(state))?;
    same("tally", ledger.tally(), &Tally::new(state))?;
    let paths = graph.remaining_times(state, &weights);
    for atom in atoms {
        let id = &state.atoms[atom].id;
        same("path", &frontier.path(atom), &paths[atom])?;
        same("dormant", &frontier.is_dormant(atom), &graph.is_dormant(state, atom))?;
        same("counted", &frontier.counts(atom), &graph.is_unresolved(state, atom))?;
        same("failures", &ledger.tally().failures(id), &backtrack::failures(state, id))?;
    }
    Ok(())
}

fn same<T: Debug + PartialEq>(what: &str, kept: &T, defined: &T) -> Checked {
    ensure(kept == defined, "what is derived equals its definition", "§4", || {
        format!("{what}: {kept:?}, not {defined:?}")
    })
}
