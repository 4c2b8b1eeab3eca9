//! What a redirect would change: the objective, the graph, the trail and the bound, before and after. Draws two states.

use std::collections::BTreeMap;

use aot_core::coordinator::Agents;
use aot_core::rules::bound;
use aot_core::state::{Atom, AtomStatus, Checks, Item, Limit, State, Wants};

use super::agreement;
use super::ink::{Ink, Paint};
use super::run;
use crate::text;

const INDENT: usize = 11;

pub fn draw(before: &State, after: &State, ink: Ink, columns: usize) -> String {
    let mut page = DifferencePage { text: String::new(), ink, columns };
    page.objective(before, after);
    page.limits(before, after);
    page.atoms(before, after);
    page.ways(before, after);
    page.results(before, after);
    page.trail(before, after);
    let (was, is) = (bound::written(before, Agents::ALL), bound::written(after, Agents::ALL));
    if was != is {
        page.line("bound", Paint::Plain, &format!("{} (was: {})", run::bound(&is), run::bound(&was)));
    }
    page.text
}

struct DifferencePage {
    text: String,
    ink: Ink,
    columns: usize,
}

impl DifferencePage {
    fn objective(&mut self, before: &State, after: &State) {
        let (old, new) = (&before.objective, &after.objective);
        for (name, old, new) in [
            ("goal", &old.goal, &new.goal),
            ("why", &old.background_intent, &new.background_intent),
            ("result", &old.deliverables, &new.deliverables),
            ("done when", &old.definition_of_done, &new.definition_of_done),
        ] {
            if old != new {
                self.lists(name, &[old.replace('\n', "; ")], &[new.replace('\n', "; ")]);
            }
        }
        self.lists("checks", &checks(old.base_case.as_ref()), &checks(new.base_case.as_ref()));
        self.lists("protected", &old.protected, &new.protected);
    }

    fn limits(&mut self, before: &State, after: &State) {
        let (old, new) = (before.constraints(), after.constraints());
        for limit in [
            Limit::MaxIterations(0),
            Limit::MaxParallelAgents(0),
            Limit::MaxStallCount(0),
            Limit::AgentTimeout(None),
            Limit::CheckTimeout(None),
            Limit::MaxWallTime(None),
            Limit::MaxCostUsd(None),
            Limit::MaxTokens(None),
        ] {
            let (old, new) = (limit.standing(old), limit.standing(new));
            if old != new {
                self.line("limits", Paint::Plain, &format!("{}: {old} -> {new}", limit.name()));
            }
        }
    }

    fn atoms(&mut self, before: &State, after: &State) {
        let gone: Vec<String> = before
            .atoms
            .values()
            .filter(|atom| !after.atoms.contains_key(&atom.id))
            .map(|atom| atom_line(atom))
            .collect();
        let come: Vec<String> = after
            .atoms
            .values()
            .filter(|atom| !before.atoms.contains_key(&atom.id))
            .map(|atom| atom_line(atom))
            .collect();
        self.lists("atoms", &gone, &come);
        for atom in after.atoms.values() {
            let Some(was) = before.atoms.get(&atom.id) else { continue };
            if was.depends_on != atom.depends_on {
                self.lists("atoms", &[atom_line(was)], &[atom_line(atom)]);
            }
        }
        let again = after.atoms.values().filter(|atom| {
            let was = before.atoms.get(&atom.id).map(|was| was.status);
            was == Some(AtomStatus::Resolved) && atom.status != AtomStatus::Resolved
        });
        let again: Vec<&str> = again.map(|atom| atom.id.as_str()).collect();
        if !again.is_empty() {
            self.line("again", Paint::Yellow, &format!("{} will be done again", again.join(", ")));
        }
    }

    fn ways(&mut self, before: &State, after: &State) {
        for (name, group) in &after.or_groups {
            match before.or_groups.get(name) {
                Some(was) if was.selected != group.selected => {
                    self.line(
                        "ways",
                        Paint::Plain,
                        &format!("{name}: {} -> {}", was.selected, group.selected),
                    );
                }
                Some(_) | None => {}
            }
        }
    }

    fn results(&mut self, before: &State, after: &State) {
        for (atom, binding) in &after.bindings {
            if let Some(was) = before.bindings.get(atom)
                && was.summary != binding.summary
            {
                self.lists(
                    "results",
                    &[format!("{atom}  {}", was.summary)],
                    &[format!("{atom}  {}", binding.summary)],
                );
            }
        }
    }

    fn trail(&mut self, before: &State, after: &State) {
        let (old, new) = (&before.trail, &after.trail);
        let kept = new.iter().filter(|entry| old.contains(entry)).count();
        let (gone, come) = (old.len() - kept.min(old.len()), new.len() - kept);
        let entries =
            |count: usize| if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") };
        let told = match (gone, come) {
            (0, 0) => "the history of choices and failures stays".to_owned(),
            (0, come) => format!("the history stays, and gets {}", entries(come)),
            (gone, come) if kept == 0 => {
                let come = if come > 0 { format!("; it gets {}", entries(come)) } else { String::new() };
                format!("the history begins anew: {} forgotten{come}", entries(gone))
            }
            (gone, _) => format!("{} of the history forgotten, the rest stays", entries(gone)),
        };
        self.line("trail", Paint::Plain, &told);
    }

    /// What is in the one and not in the other.
    fn lists(&mut self, name: &str, old: &[String], new: &[String]) {
        let mut counts: BTreeMap<&String, i64> = BTreeMap::new();
        new.iter().for_each(|entry| *counts.entry(entry).or_default() += 1);
        old.iter().for_each(|entry| *counts.entry(entry).or_default() -= 1);
        for entry in old.iter().filter(|entry| counts[entry] < 0) {
            self.line(name, Paint::Red, &format!("- {entry}"));
        }
        for entry in new.iter().filter(|entry| counts[entry] > 0) {
            self.line(name, Paint::Green, &format!("+ {entry}"));
        }
    }

    fn line(&mut self, name: &str, paint: Paint, text: &str) {
        let text = self.ink.shown(&text::plain(&text.replace('\n', " ")));
        let mut name = name;
        for line in text::wrapped(&text, self.columns - INDENT) {
            let shown = self.ink.paint(Paint::Dim, &format!("{name:<INDENT$}"));
            self.text.push_str(format!("{shown}{}", self.ink.paint(paint, &line)).trim_end());
            self.text.push('\n');
            name = "";
        }
    }
}

fn atom_line(atom: &Atom) -> String {
    let needs: Vec<&str> = atom.depends_on.iter().map(|id| id.as_str()).collect();
    let after = if needs.is_empty() { String::new() } else { format!(", after {}", needs.join(", ")) };
    let way = atom.or_group.as_ref().map(|group| format!(", a way of {group}")).unwrap_or_default();
    format!("{}  {}{after}{way}", atom.id, atom.description)
}

/// A base case in lines.
fn checks(checks: Option<&Checks>) -> Vec<String> {
    fn add(items: &[Item], within: &str, lines: &mut Vec<String>) {
        for item in items {
            match &item.wants {
                Wants::Check(wanted) => {
                    let told = agreement::check(wanted);
                    let bare = told.strip_prefix("$ ").unwrap_or(&told);
                    let name = if bare == item.item { String::new() } else { format!("{}  ", item.item) };
                    lines.push(format!("{within}{name}{told}"));
                }
                Wants::Group(inner) => add(inner, &format!("{within}{}: ", item.item), lines),
                Wants::AnyOf(inner) => add(inner, &format!("{within}{} (one of): ", item.item), lines),
            }
        }
    }
    let mut lines = Vec::new();
    match checks {
        None => {}
        Some(Checks::Single(single)) => lines.push(agreement::check(single)),
        Some(Checks::Checklist(items)) => add(items, "", &mut lines),
    }
    lines
}
