//! What a state file would have run, and what it says a person approved: the parts for which a person has to trust whoever
//! wrote it. Nothing here decides who is trusted.

use std::borrow::Cow;

use super::{Check, Checks, IsolationMode, State};

/// One thing that needs trust. Equal items are trusted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrustItem<'s> {
    /// What it is, in a word: `check`, `run`, `setup`, `teardown`, `shell`, `agent`, `isolation`, `confirmed`, or a key of `aot.toml`.
    pub kind: Cow<'s, str>,
    pub text: Cow<'s, str>,
}

impl<'s> TrustItem<'s> {
    pub fn new(kind: impl Into<Cow<'s, str>>, text: impl Into<Cow<'s, str>>) -> TrustItem<'s> {
        TrustItem { kind: kind.into(), text: text.into() }
    }

    pub fn into_owned(self) -> TrustItem<'static> {
        TrustItem::new(self.kind.into_owned(), self.text.into_owned())
    }
}

impl State {
    /// Everything in it that needs trust, in the order of the file.
    pub fn trust_items(&self) -> Vec<TrustItem<'_>> {
        let mut items = Vec::new();
        commands("check", self.objective.base_case.as_ref(), &mut items);
        if let Some(isolation) = &self.objective.isolation {
            items.extend(isolation.setup.as_deref().map(|setup| TrustItem::new("setup", setup)));
            items.extend(isolation.teardown.as_deref().map(|end| TrustItem::new("teardown", end)));
            if isolation.mode == Some(IsolationMode::None) {
                items.push(TrustItem::new("isolation", "none"));
            }
        }
        items.extend(self.objective.shell.as_deref().map(|shell| TrustItem::new("shell", shell)));
        for atom in self.atoms.values() {
            commands("check", atom.check.as_ref(), &mut items);
            items.extend(atom.run.as_deref().map(|run| TrustItem::new("run", run)));
            // Other names are those of agents that the user has installed or described.
            let command = atom.agent.as_deref().filter(|agent| agent.contains(':'));
            items.extend(command.map(|agent| TrustItem::new("agent", agent)));
        }
        for confirmed in &self.control.confirmed {
            let holds = if confirmed.holds == Some(false) { "no" } else { "yes" };
            let text = format!("{}: {holds}, by {}, files {}", confirmed.item, confirmed.by, confirmed.tree);
            items.push(TrustItem::new("confirmed", text));
        }
        items
    }
}

fn commands<'s>(kind: &'static str, checks: Option<&'s Checks>, items: &mut Vec<TrustItem<'s>>) {
    for check in checks.into_iter().flat_map(Checks::leaves) {
        match check {
            Check::Command { value } | Check::NotCommand { value } => items.push(TrustItem::new(kind, value)),
            // These run nothing: a path, a person, a judge.
            Check::File { .. } | Check::NotFile { .. } | Check::Assertion { .. } | Check::Quality(_) => {}
        }
    }
}
