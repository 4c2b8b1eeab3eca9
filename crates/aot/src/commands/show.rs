//! `aot show`: the state, for people or whole as JSON.

use std::fmt::{self, Write};
use std::num::NonZeroUsize;

use aot_core::contract::Document;
use aot_core::rules::Refusal;
use aot_core::state::{Atom, AtomId, AtomStatus, Graph, LoopStatus, State};
use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Invocation, Verb};
use crate::failure::Failure;
use crate::mcp::answers::{LONGEST, first};
use crate::print::Answer;
use crate::terminal::page_columns;
use crate::text;

/// The parts of the state that can be asked for.
const SECTIONS: [&str; 9] = [
    "objective",
    "control",
    "atoms",
    "decompositions",
    "or_groups",
    "bindings",
    "trail",
    "corrections",
    "body",
];

/// Show the state
#[derive(Debug, Default, Args, Deserialize, JsonSchema)]
pub struct ShowArgs {
    /// Only what concerns this atom: itself, its result, its failures
    #[arg(skip)]
    atom: Option<String>,
    /// Only this part of the state
    #[arg(skip)]
    #[schemars(extend("enum" = SECTIONS))]
    section: Option<String>,
    /// With `section`: begin after so many entries
    #[arg(skip)]
    from: Option<NonZeroUsize>,
}

impl Verb for ShowArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let mut store = invocation.store()?;
        let (document, state) = store.load()?;
        let text = || {
            let mut text = String::new();
            draw(&mut text, state).expect("a text takes everything");
            text
        };
        if let Some(id) = self.atom.as_ref().filter(|id| !state.atoms.contains_key(id.as_str())) {
            return Err(Refusal::UnknownAtom(AtomId::new(id)).into());
        }
        Ok(Answer::lazy(invocation.format, text, || self.part(whole(document, state))))
    }
}

impl ShowArgs {
    /// The part of the state that was asked for.
    fn part(&self, state: Value) -> Value {
        match (&self.atom, &self.section) {
            (Some(id), _) => about(&state, id),
            (None, Some(section)) => page(&state[section], section, self.from.map_or(0, NonZeroUsize::get)),
            (None, None) => state,
        }
    }
}

/// All that the state says of one atom.
fn about(state: &Value, id: &str) -> Value {
    let entries = |key: &str| state[key].as_array().into_iter().flatten();
    let atom = entries("atoms").find(|atom| atom["id"] == id);
    let group = atom.and_then(|atom| atom["or_group"].as_str());
    let concerns = |entry: &&Value| entry["atom"] == id || entry["selected"] == id;
    json!({
        "atom": atom,
        "binding": state["bindings"].get(id),
        "or_group": group.and_then(|group| state["or_groups"].get(group)),
        "decomposition": entries("decompositions").find(|entry| entry["parent"] == id),
        "trail": entries("trail").filter(concerns).collect::<Vec<_>>(),
        "needed_by": entries("atoms").filter(|other| {
            other["depends_on"].as_array().is_some_and(|needs| needs.iter().any(|need| need == id))
        }).map(|other| &other["id"]).collect::<Vec<_>>(),
    })
}

/// As many entries of a section as an agent's answer holds, and where the next begin.
fn page(section: &Value, name: &str, from: usize) -> Value {
    let total = match section {
        Value::Array(entries) => entries.len(),
        Value::Object(entries) => entries.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return json!({ name: section });
        }
    };
    let (entries, shown) = first(section, from, LONGEST - 200);
    let mut page = json!({ name: entries, "total": total });
    if from + shown < total {
        page["next_from"] = json!(from + shown);
    }
    page
}

/// All that stands in the file, unknown keys too, with the defaults that were taken, and the body.
fn whole(document: &Document, state: &State) -> Value {
    let mut value = document.root().value();
    let taken = serde_json::to_value(state).expect("the contract's nouns are plain data");
    fill(&mut value, taken);
    value["body"] = json!(document.body());
    value
}

fn fill(written: &mut Value, taken: Value) {
    match (written, taken) {
        (Value::Object(written), Value::Object(taken)) => {
            for (key, value) in taken {
                match written.get_mut(&key) {
                    Some(Value::Null) if !value.is_null() => {
                        written.insert(key, value);
                    }
                    Some(there) => fill(there, value),
                    None => {
                        written.insert(key, value);
                    }
                }
            }
        }
        (Value::Array(written), Value::Array(taken)) if written.len() == taken.len() => {
            for (there, value) in written.iter_mut().zip(taken) {
                fill(there, value);
            }
        }
        _ => {}
    }
}

fn draw(out: &mut dyn Write, state: &State) -> fmt::Result {
    let control = &state.control;
    let limits = state.constraints();
    let status = match control.status {
        LoopStatus::Pending => "pending",
        LoopStatus::Running => "running",
        LoopStatus::Stopped => "stopped",
        LoopStatus::Completed => "completed",
    };
    writeln!(out, "goal     {}", text::fit(&state.objective.goal, page_columns() - 9))?;
    writeln!(
        out,
        "loop     {status}, iteration {} of {}, stalled {} of {}",
        control.iteration, limits.max_iterations, control.stall_count, limits.max_stall_count
    )?;
    if let Some(reason) = &control.stop_reason {
        writeln!(out, "reason   {}", text::fit(reason, page_columns() - 9))?;
    }
    let graph = Graph::new(state);
    let widest = state.atoms.keys().map(|id| text::width(id.as_str())).max().unwrap_or(2).min(24);
    writeln!(out)?;
    for (place, atom) in state.atoms.values().enumerate() {
        let mark = match atom.status {
            _ if graph.is_dormant(state, place) => "dormant",
            AtomStatus::Pending if graph.is_ready(state, place) => "ready",
            AtomStatus::Pending => "pending",
            AtomStatus::InProgress => "running",
            AtomStatus::Resolved => "resolved",
        };
        let relations = relations(state, atom);
        let room = page_columns().saturating_sub(2 + widest + 2 + 8 + 2);
        let text = if relations.is_empty() {
            text::fit(&atom.description, room)
        } else {
            let relations = text::fit(&relations, room / 2);
            let left = room.saturating_sub(text::width(&relations) + 2);
            format!("{}  {relations}", text::fit(&atom.description, left))
        };
        writeln!(out, "  {:<widest$}  {mark:<8}  {text}", atom.id.as_str())?;
    }
    if !state.or_groups.is_empty() {
        writeln!(out)?;
    }
    for (name, group) in &state.or_groups {
        let choices: Vec<String> = group
            .choices
            .iter()
            .map(|choice| match choice {
                _ if group.failed.contains(choice) => format!("{choice} (failed)"),
                _ if group.selected == *choice => format!("{choice} (selected)"),
                _ => choice.to_string(),
            })
            .collect();
        let line = format!("{name}: {}", choices.join(" | "));
        writeln!(out, "  {}", text::fit(&line, page_columns() - 2))?;
    }
    Ok(())
}

fn relations(state: &State, atom: &Atom) -> String {
    let mut parts = Vec::new();
    if let Some(decomposition) = state.decomposition_of(&atom.id) {
        let children: Vec<&str> = decomposition.children.iter().map(|id| id.as_str()).collect();
        parts.push(format!("= {}", children.join(" + ")));
    }
    if !atom.depends_on.is_empty() {
        let wanted: Vec<&str> = atom.depends_on.iter().map(|id| id.as_str()).collect();
        parts.push(format!("<- {}", wanted.join(", ")));
    }
    parts.join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_one_after_the_other() {
        let atoms: Vec<Value> = (0..10_000).map(|id| json!({"id": format!("A{id}")})).collect();
        let state = json!({ "atoms": atoms });
        let (mut from, mut seen) = (0, 0);
        loop {
            let section = Some("atoms".to_owned());
            let page = ShowArgs { atom: None, section, from: NonZeroUsize::new(from) }.part(state.clone());
            assert!(page.to_string().len() <= LONGEST);
            assert_eq!(page["atoms"][0]["id"], format!("A{from}"));
            seen += page["atoms"].as_array().expect("a list").len();
            let Some(next) = page["next_from"].as_u64() else { break };
            from = next as usize;
        }
        assert_eq!(seen, 10_000);
    }
}
