//! `aot show`: the state, for people or whole as JSON.

use std::io::{self, Write};

use aot_core::contract::Document;
use aot_core::state::{Atom, AtomStatus, Graph, LoopStatus, State};
use serde_json::{Value, json};

use super::Invocation;
use crate::failure::Failure;
use crate::print;
use crate::print::OutputFormat;

const COLUMNS: usize = 80;

pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let mut store = invocation.store()?;
    let (document, state) = store.load()?;
    match invocation.format {
        OutputFormat::Json => print::json(&whole(document, state)),
        OutputFormat::Text => print::out(|stdout| draw(stdout, state)),
    }
    Ok(())
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

fn draw(out: &mut dyn Write, state: &State) -> io::Result<()> {
    let control = &state.control;
    let limits = state.constraints();
    let status = match control.status {
        LoopStatus::Pending => "pending",
        LoopStatus::Running => "running",
        LoopStatus::Stopped => "stopped",
        LoopStatus::Completed => "completed",
    };
    writeln!(out, "goal     {}", print::fit(&state.objective.goal, COLUMNS - 9))?;
    writeln!(
        out,
        "loop     {status}, iteration {} of {}, stalled {} of {}",
        control.iteration, limits.max_iterations, control.stall_count, limits.max_stall_count
    )?;
    if let Some(reason) = &control.stop_reason {
        writeln!(out, "reason   {}", print::fit(reason, COLUMNS - 9))?;
    }
    let graph = Graph::new(state);
    let widest = state.atoms.keys().map(|id| id.as_str().chars().count()).max().unwrap_or(2).min(24);
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
        let room = COLUMNS.saturating_sub(2 + widest + 2 + 8 + 2);
        let text = if relations.is_empty() {
            print::fit(&atom.description, room)
        } else {
            let relations = print::fit(&relations, room / 2);
            let left = room.saturating_sub(relations.chars().count() + 2);
            format!("{}  {relations}", print::fit(&atom.description, left))
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
        writeln!(out, "  {}", print::fit(&line, COLUMNS - 2))?;
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
