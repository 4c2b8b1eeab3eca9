//! A trial of the base case before a person agrees to it: what the linter finds, and how its checks end now. Leaves
//! nothing in the project but what the checks themselves leave.

use std::num::NonZeroUsize;
use std::path::Path;

use aot_core::state::State;
use aot_core::verdict::{Advice, CheckTree, Jobs, lint_loop};
use aot_runner::checks::facts;
use aot_runner::checks::kept::{EvidenceLine, Kept};
use serde_json::{Value, json};

use crate::commands::Invocation;
use crate::commands::verify::watched;
use crate::commands::workspace::{Workspace, unreadable_project};
use crate::failure::Failure;
use crate::place;
use crate::screens::agreement;

#[derive(Clone, Debug)]
pub struct TrialResult {
    /// How the checks stand, in a sentence; absent if they were not run.
    pub standing: Option<String>,
    pub checks: Vec<Value>,
    pub advice: Vec<Advice>,
    /// Evidence that the loop is to know from the beginning: checks that used up their time.
    pub to_keep: Vec<EvidenceLine>,
}

pub fn run(
    invocation: &Invocation,
    path: &Path,
    state: &State,
    no_run: bool,
) -> Result<TrialResult, Failure> {
    let mut workspace = Workspace::for_agreement(path, Jobs(NonZeroUsize::MIN))?;
    let programs = place::search_path();
    let hollow = state.objective.base_case.as_ref().is_none_or(|checks| checks.has_empty_set());
    if no_run || hollow {
        let facts = facts::still(state, &workspace.project, &programs);
        return Ok(TrialResult {
            standing: None,
            checks: Vec::new(),
            advice: lint_loop(state, &facts),
            to_keep: Vec::new(),
        });
    }
    // Evidence belongs to a loop, and there is none yet.
    let scratch = place::Scratch::make()?;
    workspace.project.state = scratch.path().join("aot-loop-state.md");
    workspace.project.sidecar = scratch.path().join("aot");
    let look = workspace.checkout();
    let confined = look.confined(state)?;
    let facts = watched(invocation.format, |on| {
        facts::moving(&look.checker(&confined), state, &programs, jiff::Timestamp::now(), on)
    })
    .map_err(unreadable_project)?;
    let sheet = state.objective.base_case.as_ref().map(CheckTree::of);
    let leaves = sheet.iter().flat_map(|sheet| &sheet.leaves);
    let checks =
        leaves.zip(&facts.seen).map(|(leaf, outcome)| json!({"item": leaf.name, "outcome": outcome}));
    Ok(TrialResult {
        standing: Some(agreement::standing(&facts.seen)),
        checks: checks.collect(),
        advice: lint_loop(state, &facts),
        to_keep: Kept::of(&workspace.project)
            .lines()
            .into_iter()
            .filter(|line| line.evidence.out_of_time)
            .collect(),
    })
}
