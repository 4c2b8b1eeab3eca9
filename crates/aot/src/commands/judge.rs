//! `aot judge`: the brief of a `quality` check for an agent of a host's session, and the scores that it hands in.

use aot_core::brief::{self, JudgeAnswer};
use aot_core::hook::tree_of;
use aot_core::state::{AtomId, AtomStatus, Check, Checks, Quality, State};
use aot_core::verdict::{CheckTree, score};
use aot_runner::checks::quoted;
use aot_runner::session::hand_in_scores;
use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Invocation, Verb, arguments, session};
use crate::failure::Failure;
use crate::print::Answer;

/// Score a `quality` check for a host's session
///
/// Without `--scores` it prints what to score and the form of the answer. Scores count for the files as they are now, where
/// no judge is set in aot.toml; whoever did the work does not judge it.
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct JudgeArgs {
    /// The item of the check; without it the items are listed
    item: Option<String>,
    /// The scores, as the JSON object that the brief asks for
    #[arg(long, value_name = "JSON", requires = "item")]
    #[serde(default, deserialize_with = "arguments::scores")]
    #[schemars(with = "Vec<arguments::ScoreObject>")]
    scores: Option<String>,
}

/// A quality check that can be scored now.
struct ToScore {
    item: String,
    quality: Quality,
    /// Whose check it is, if it is not the base case's.
    atom: Option<AtomId>,
}

impl Verb for JudgeArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let mut store = invocation.store()?;
        let state = store.load()?.1.clone();
        let all = to_score(&state);
        let Some(item) = &self.item else {
            let items: Vec<&str> = all.iter().map(|check| check.item.as_str()).collect();
            return Ok(Answer::new(items.join("\n"), json!({"items": items})));
        };
        let Some(check) = all.iter().find(|check| check.item == *item) else {
            let message = format!("`{item}` is no quality check of the base case or of an atom in progress");
            return Err(Failure::refused("unknown_item", message).with_hint("`aot judge` lists them"));
        };
        match &self.scores {
            None => Ok(brief_of(&state, check)),
            Some(scores) => hand_in(invocation, &state, check, scores),
        }
    }
}

fn brief_of(state: &State, check: &ToScore) -> Answer {
    let ToScore { item, quality, atom } = check;
    let brief = brief::judge(state, atom.as_ref(), item, quality, &[]);
    let attempt = |atom: &AtomId| state.control.attempts.get(atom).copied().unwrap_or(0);
    let place = atom.as_ref().map(|atom| format!(".aot/trees/{}", tree_of(atom, attempt(atom))));
    let place = place.map(|place| format!("\nThe files are below {place}.")).unwrap_or_default();
    let text = format!(
        "{}\n{place}\nHand the object in with `aot judge {} --scores 'JSON'`, and nothing else.",
        brief.text.trim_end(),
        quoted(item)
    );
    Answer::new(text, json!({"item": item, "brief": brief.text, "schema": brief.schema}))
}

fn hand_in(invocation: &Invocation, state: &State, check: &ToScore, scores: &str) -> Result<Answer, Failure> {
    if !session::owns(invocation)? {
        return Err(session::not_running());
    }
    let ToScore { item, quality, atom } = check;
    let answer = JudgeAnswer::read(quality, scores).map_err(|unreadable| {
        Failure::refused("not_scored", format!("these scores do not count: {}", unreadable.reason))
            .with_hint(format!("`aot judge {}` shows the form", quoted(item)))
    })?;
    let run_config = session::run_config(invocation, state)?;
    let mut store = invocation.store()?;
    hand_in_scores(&mut store, &run_config, atom.as_ref(), (item.as_str(), quality), &answer)?;
    let scored = score(quality, answer.scores());
    let relation = if scored.passes { "at least" } else { "below" };
    let text = format!("{item}: scored {:.2}, {relation} {}", scored.average, quality.pass_threshold);
    let object = json!({"success": true, "item": item, "average": scored.average, "passes": scored.passes});
    Ok(Answer::new(text, object))
}

/// The quality checks of the base case and of what is in progress, by the names that evaluations give them.
fn to_score(state: &State) -> Vec<ToScore> {
    let mut found = Vec::new();
    let mut add = |checks: &Checks, atom: Option<&AtomId>| {
        for leaf in CheckTree::of(checks).leaves {
            if let Check::Quality(quality) = leaf.check {
                let item = atom.map_or(leaf.name.clone(), |atom| format!("{atom}: {}", leaf.name));
                found.push(ToScore { item, quality, atom: atom.cloned() });
            }
        }
    };
    state.objective.base_case.iter().for_each(|checks| add(checks, None));
    for atom in state.atoms.values().filter(|atom| atom.status == AtomStatus::InProgress) {
        atom.check.iter().for_each(|checks| add(checks, Some(&atom.id)));
    }
    found
}
