//! A trial of the base case before a person agrees to it: what the linter finds, and how its checks end now. Leaves
//! nothing in the project but what the checks themselves leave.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;

use aot_core::state::State;
use aot_core::verdict::{Advice, CheckTree, Jobs, LintFacts, Outcome, TreeOutcome, lint_loop};
use aot_runner::checks::facts;
use aot_runner::checks::kept::{EvidenceLine, Kept};
use aot_runner::tree::{Project, not_in_trees};
use serde_json::{Value, json};

use crate::commands::Invocation;
use crate::commands::verify::watched;
use crate::commands::workspace::{Workspace, unreadable_project};
use crate::failure::Failure;
use crate::place;
use crate::screens::agreement;
use crate::terminal;

#[derive(Clone, Debug, Default)]
pub struct TrialResult {
    /// How the checks stand, in a sentence; absent if they were not run.
    pub standing: Option<String>,
    /// The checks were run, and each passed.
    pub all_pass: bool,
    pub checks: Vec<Value>,
    /// How each check stands, a line each, with the last line that it printed.
    pub lines: Vec<String>,
    pub advice: Vec<Advice>,
    /// What the linter was told.
    facts: LintFacts,
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
        return Ok(TrialResult { advice: lint_loop(state, &facts), facts, ..TrialResult::default() });
    }
    // Evidence belongs to a loop, and there is none yet.
    let own = workspace.project.clone();
    let scratch = place::Scratch::make()?;
    workspace.project.state = scratch.path().join("aot-loop-state.md");
    workspace.project.sidecar = scratch.path().join("aot");
    let look = workspace.checkout();
    let confined = look.confined(state)?;
    let mut facts = watched(invocation.format, |on| {
        facts::moving(&look.checker(&confined), state, &programs, jiff::Timestamp::now(), on)
    })
    .map_err(unreadable_project)?;
    let sheet = state.objective.base_case.as_ref().map(CheckTree::of);
    let leaves = sheet.iter().flat_map(|sheet| &sheet.leaves);
    let kept = Kept::of(&workspace.project).lines();
    drop(look);
    workspace.project.sidecar = scratch.path().join("tree");
    facts.in_a_tree = in_a_tree(invocation, &workspace, (&own, state), (&facts, &kept));
    let seen = leaves.zip(&facts.seen).map(|(leaf, outcome)| {
        let evidence = kept.iter().rev().find(|line| line.item == leaf.name).map(|line| &line.evidence);
        let last =
            evidence.and_then(|seen| seen.output.as_ref()?.last_lines(1).first().map(|it| (*it).to_owned()));
        let why = evidence.map(|seen| seen.why.clone()).unwrap_or_default();
        let line =
            agreement::check_now(&leaf.name, *outcome, (&why, last.as_deref()), terminal::page_columns());
        (json!({"item": leaf.name, "outcome": outcome, "why": why, "last_line": last}), line)
    });
    let (checks, lines) = seen.unzip();
    Ok(TrialResult {
        standing: Some(agreement::standing(&facts.seen)),
        all_pass: facts.seen.iter().all(|outcome| *outcome == Some(Outcome::Pass)),
        checks,
        lines,
        advice: lint_loop(state, &facts),
        to_keep: kept.into_iter().filter(|line| line.evidence.out_of_time).collect(),
        facts,
    })
}

/// The same checks, where something else of the agreement has changed: only the linter looks again.
pub fn lint_again(path: &Path, state: &State, before: TrialResult) -> Result<TrialResult, Failure> {
    let workspace = Workspace::for_agreement(path, Jobs(NonZeroUsize::MIN))?;
    let LintFacts { seen, wrote, refused, out_of_time, in_a_tree, .. } = before.facts;
    let still = facts::still(state, &workspace.project, &place::search_path());
    let facts = LintFacts { seen, wrote, refused, out_of_time, in_a_tree, ..still };
    Ok(TrialResult { advice: lint_loop(state, &facts), facts, ..before })
}

/// Checks that took longer than this in the project's own folder, in milliseconds, are not tried in a tree as well.
const QUICK: u64 = 20_000;

/// What ends otherwise in a tree as a worker gets it, because git ignores what it needs. Where nothing is missing in a tree, or
/// `setup` makes what is, there is nothing to find out.
fn in_a_tree(
    invocation: &Invocation,
    workspace: &Workspace,
    (own, state): (&Project, &State),
    (facts, kept): (&LintFacts, &[EvidenceLine]),
) -> BTreeMap<usize, TreeOutcome> {
    let isolation = state.objective.isolation.clone().unwrap_or_default();
    let took: u64 = kept.iter().map(|line| line.evidence.milliseconds).sum();
    if took > QUICK || isolation.setup.is_some() {
        return BTreeMap::new();
    }
    let provided = [isolation.share, isolation.copy].concat();
    let mut missing = not_in_trees(own, &provided, &workspace.guard);
    if missing.is_empty() {
        return BTreeMap::new();
    }
    // What keeps a tree from being made is told by the run that needs one.
    let Ok(Some(look)) = workspace.look_in_a_tree(state, own) else { return BTreeMap::new() };
    missing.retain(|path| look.project().root.join(path).symlink_metadata().is_err());
    let tried = look.confined(state).ok().and_then(|confined| {
        let checker = look.checker(&confined);
        let here = (&facts.seen[..], kept);
        watched(invocation.format, |on| facts::in_a_tree(&checker, state, here, &missing, on)).ok()
    });
    tried.unwrap_or_default()
}
