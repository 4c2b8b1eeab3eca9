//! What the workers' trees get besides what git tracks: as the flags say, or as it is found in the project.

use aot_core::contract;
use aot_core::state::{Check, Checks, Isolation, IsolationMode, State};
use aot_runner::confinement::is_in_repository;
use aot_runner::process::Guard;
use aot_runner::tree::{TreeNeeds, commit_hooks, needs};
use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;

use super::Draft;
use crate::failure::{self, Failure};

/// In the place of a path: no path, also none of those that are found.
pub const NO_PATH: &str = "none";

#[derive(Clone, Debug, Default, Args, Deserialize, JsonSchema)]
pub struct TreeArgs {
    /// A path that every worker's tree links to, read-only in its cage (default: dependencies that git ignores); `none` for
    /// no path; may be given several times
    #[arg(long, value_name = "PATH", help_heading = "Trees")]
    #[serde(default)]
    share: Vec<String>,
    /// A path that every worker's tree has a copy of (default: `.env` and the like if git ignores them); `none` for no path
    #[arg(long, value_name = "PATH", help_heading = "Trees")]
    #[serde(default)]
    copy: Vec<String>,
    /// A command that prepares every new tree
    #[arg(long, value_name = "COMMAND", help_heading = "Trees")]
    setup: Option<String>,
    /// A command that ends what `--setup` began, when a run is over
    #[arg(long, value_name = "COMMAND", help_heading = "Trees")]
    teardown: Option<String>,
}

/// A draft with what its trees get, and what a person should know of it.
#[derive(Debug)]
pub struct Provided {
    pub draft: Draft,
    pub notes: Vec<String>,
}

impl TreeArgs {
    pub fn is_empty(&self) -> bool {
        let TreeArgs { share, copy, setup, teardown } = self;
        share.is_empty() && copy.is_empty() && setup.is_none() && teardown.is_none()
    }

    /// What the draft says of its trees stays, what a flag says takes its place, and where neither says anything, what is
    /// found is taken.
    pub fn provide(&self, draft: Draft, root: &Path, guard: &Guard) -> Result<Provided, Failure> {
        let Ok(state) = draft.state() else { return Ok(Provided { draft, notes: Vec::new() }) };
        let said = state.objective.isolation.clone();
        let mode = said.as_ref().and_then(|isolation| isolation.mode);
        let has_trees = match mode {
            Some(IsolationMode::InPlace | IsolationMode::None) => false,
            Some(IsolationMode::Worktree) => true,
            None => is_in_repository(root),
        };
        let is_said = said.as_ref().is_some_and(|isolation| {
            let Isolation { mode: _, share, copy, setup, teardown: _ } = isolation;
            !share.is_empty() || !copy.is_empty() || setup.is_some()
        });
        let found = match has_trees && !is_said {
            true => needs(root, &commands(&state), guard),
            false => TreeNeeds::default(),
        };
        let hooks = if has_trees { commit_hooks(root, guard) } else { Vec::new() };
        if self.is_empty() && found.share.is_empty() && found.copy.is_empty() {
            let mut notes = said.map(|isolation| missing(root, &isolation)).unwrap_or_default();
            notes.extend(hooks_note(&hooks));
            return Ok(Provided { draft, notes });
        }
        let given = |flags: &[String], found: Vec<String>, said: Vec<String>| match flags {
            [] if said.is_empty() => found,
            [] => said,
            flags => flags.iter().filter(|path| *path != NO_PATH).cloned().collect(),
        };
        let said = said.unwrap_or_default();
        let isolation = Isolation {
            mode,
            share: given(&self.share, found.share, said.share),
            copy: given(&self.copy, found.copy, said.copy),
            setup: self.setup.clone().or(said.setup),
            teardown: self.teardown.clone().or(said.teardown),
        };
        let mut notes = found.notes;
        notes.retain(|note| isolation.share.iter().any(|path| note.starts_with(path.as_str())));
        notes.extend(missing(root, &isolation));
        notes.extend(hooks_note(&hooks));
        let mut new = state.clone();
        new.objective.isolation = (isolation != Isolation::default()).then_some(isolation);
        let document = contract::write(&draft.document, &state, &new).map_err(failure::not_written)?;
        Ok(Provided { draft: Draft { document, ..draft }, notes })
    }
}

/// What a person should know of hooks that do not run.
fn hooks_note(hooks: &[&str]) -> Option<String> {
    let hooks = (!hooks.is_empty()).then(|| hooks.join(", "))?;
    Some(format!("git hooks do not run on the commits of a loop ({hooks}); a check can run what they run"))
}

/// Everything that the loop is going to run.
fn commands(state: &State) -> Vec<&str> {
    let checks = state.atoms.values().filter_map(|atom| atom.check.as_ref());
    let leaves = state.objective.base_case.iter().chain(checks).flat_map(Checks::leaves);
    let checked = leaves.filter_map(|check| match check {
        Check::Command { value } | Check::NotCommand { value } => Some(value.as_str()),
        Check::File { .. } | Check::NotFile { .. } | Check::Assertion { .. } | Check::Quality(_) => None,
    });
    checked.chain(state.atoms.values().filter_map(|atom| atom.run.as_deref())).collect()
}

/// Paths that no tree can get.
fn missing(root: &Path, isolation: &Isolation) -> Vec<String> {
    let paths = isolation.share.iter().chain(&isolation.copy);
    let missing = paths.filter(|path| root.join(path).symlink_metadata().is_err());
    missing.map(|path| format!("{path} does not exist, so no worker's tree has it")).collect()
}
