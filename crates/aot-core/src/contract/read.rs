//! A small kit for reading typed fields out of a document's tree. Every mistake is noted with its place and a
//! remedy; reading goes on, so that all mistakes are told at once.

use std::fmt::Display;

use super::document::{Kind, Node};
use super::finding::{Findings, Severity};
use crate::state::{Span, Stamp};

/// What a missing or empty field means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Required,
    /// Part of the agreement: the file is legible without it, but nothing may start.
    Alignment,
    Optional,
}

/// A mapping being read, and how to speak of it.
#[derive(Clone, Copy)]
pub(super) struct Fields<'d, 'a> {
    pub node: Node<'d>,
    pub what: &'a dyn Display,
}

impl<'d, 'a> Fields<'d, 'a> {
    /// Takes a node as a mapping, noting if it is none and which of its keys look misspelt.
    pub fn of(
        node: Node<'d>,
        what: &'a dyn Display,
        known: &[&str],
        findings: &mut Findings,
    ) -> Option<Fields<'d, 'a>> {
        if node.kind() != Kind::Map {
            wrong_type(findings, node, what, "a mapping");
            return None;
        }
        for (key, _) in node.entries() {
            let Some(name) = key.scalar_text() else { continue };
            if known.contains(&&*name) {
                continue;
            }
            let alike = known.iter().find(|known| node.get(known).is_none() && is_near(known, &name));
            if let Some(known) = alike {
                findings.note(
                    Severity::Warning,
                    "unknown_key",
                    key.offset(),
                    format!("{what} has an unknown key `{name}`"),
                    format!("did you mean `{known}`?"),
                );
            }
        }
        Some(Fields { node, what })
    }

    fn get(&self, key: &str) -> Option<Node<'d>> {
        self.node.get(key).filter(|node| node.kind() != Kind::Null)
    }

    /// The node of a field that must be there.
    pub fn need(&self, key: &str, need: Need, findings: &mut Findings) -> Option<Node<'d>> {
        let found = self.get(key);
        let severity = match need {
            Need::Required => Severity::Error,
            Need::Alignment => Severity::Incomplete,
            Need::Optional => return found,
        };
        if found.is_none() {
            let offset = self.node.get(key).map_or(self.node.offset(), |null| null.offset());
            findings.note(
                severity,
                "missing",
                offset,
                format!("{} has no `{key}`", self.what),
                format!("add `{key}: …`"),
            );
        }
        found
    }

    pub fn text(&self, key: &str, need: Need, findings: &mut Findings) -> Option<String> {
        let node = self.need(key, need, findings)?;
        let text = as_text(node, &Of(key, self.what), findings)?;
        if text.trim().is_empty() && need != Need::Optional {
            let severity = if need == Need::Required { Severity::Error } else { Severity::Incomplete };
            let message = format!("`{key}` of {} is empty", self.what);
            findings.note(severity, "empty", node.offset(), message, "say it in a sentence");
        }
        Some(text)
    }

    /// A text of history: it must be there, but if it says nothing that is only odd.
    pub fn words(&self, key: &str, findings: &mut Findings) -> Option<String> {
        let node = self.need(key, Need::Required, findings)?;
        let text = as_text(node, &Of(key, self.what), findings)?;
        if text.trim().is_empty() {
            let message = format!("`{key}` of {} is empty", self.what);
            findings.note(Severity::Warning, "empty", node.offset(), message, "say it in a sentence");
        }
        Some(text)
    }

    pub fn texts(&self, key: &str, need: Need, findings: &mut Findings) -> Vec<String> {
        // A key with nothing behind it is the empty list.
        if self.node.get(key).is_some_and(|node| node.kind() == Kind::Null) {
            return Vec::new();
        }
        let Some(node) = self.need(key, need, findings) else { return Vec::new() };
        as_texts(node, &Of(key, self.what), findings)
    }

    pub fn flag(&self, key: &str, need: Need, findings: &mut Findings) -> Option<bool> {
        let node = self.need(key, need, findings)?;
        if node.bool().is_none() {
            wrong_type(findings, node, &Of(key, self.what), "`true` or `false`");
        }
        node.bool()
    }

    /// A whole number of at least `least`.
    pub fn number(&self, key: &str, least: i64, need: Need, findings: &mut Findings) -> Option<i64> {
        let node = self.need(key, need, findings)?;
        let Some(number) = node.int() else {
            wrong_type(findings, node, &Of(key, self.what), "a whole number");
            return None;
        };
        if number < least {
            let code = if number < 0 { "negative" } else { "too_small" };
            let message = format!("`{key}` of {} is {number}", self.what);
            findings.note(Severity::Error, code, node.offset(), message, format!("give at least {least}"));
            return None;
        }
        Some(number)
    }

    /// The same, for counters that fit 32 bits.
    pub fn count(&self, key: &str, least: i64, need: Need, findings: &mut Findings) -> Option<u32> {
        self.count_up_to(u32::MAX, key, least, need, findings)
    }

    /// The same, for counters with a limit of their own.
    pub fn count_up_to(
        &self,
        most: u32,
        key: &str,
        least: i64,
        need: Need,
        findings: &mut Findings,
    ) -> Option<u32> {
        let number = self.number(key, least, need, findings)?;
        let fits = u32::try_from(number).ok().filter(|number| *number <= most);
        if fits.is_none() {
            let message = format!("`{key}` of {} is {number}", self.what);
            let offset = self.node.get(key).map_or(0, |node| node.offset());
            findings.note(Severity::Error, "too_large", offset, message, format!("give at most {most}"));
        }
        fits
    }

    pub fn amount(&self, key: &str, need: Need, findings: &mut Findings) -> Option<f64> {
        let node = self.need(key, need, findings)?;
        let Some(amount) = node.float().filter(|amount| amount.is_finite()) else {
            wrong_type(findings, node, &Of(key, self.what), "a number");
            return None;
        };
        if amount < 0.0 {
            let message = format!("`{key}` of {} is {amount}", self.what);
            findings.note(Severity::Error, "negative", node.offset(), message, "give at least 0");
            return None;
        }
        Some(amount)
    }

    pub fn span(&self, key: &str, findings: &mut Findings) -> Option<Span> {
        let node = self.need(key, Need::Optional, findings)?;
        let span = node.scalar_text().and_then(|text| Span::parse(&text));
        if span.is_none() {
            let message = format!("`{key}` of {} is no span of time", self.what);
            findings.note(
                Severity::Error,
                "bad_span",
                node.offset(),
                message,
                "write it like `90s`, `30m`, `8h` or `2d`",
            );
        }
        span
    }

    pub fn stamp(&self, key: &str, need: Need, findings: &mut Findings) -> Option<Stamp> {
        let node = self.need(key, need, findings)?;
        let text = node.scalar_text().unwrap_or_default();
        let stamp = Stamp::parse(&text);
        if stamp.is_none() {
            findings.note(
                Severity::Error,
                "bad_timestamp",
                node.offset(),
                format!("`{key}` of {} is `{text}`, which is not ISO 8601", self.what),
                "write it like `2026-01-15T10:30:00Z`",
            );
        }
        stamp
    }

    /// One word out of a few.
    pub fn word<T: Copy>(
        &self,
        key: &str,
        words: &[(&str, T)],
        need: Need,
        findings: &mut Findings,
    ) -> Option<T> {
        let node = self.need(key, need, findings)?;
        let text = node.scalar_text().unwrap_or_default();
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let listed = words.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", ");
            let near = words.iter().find(|(word, _)| is_near(word, &text));
            let hint = match near {
                Some((word, _)) => format!("did you mean `{word}`? It is one of {listed}"),
                None => format!("use one of {listed}"),
            };
            let message = format!("`{key}` of {} is `{text}`", self.what);
            findings.note(Severity::Error, "bad_value", node.offset(), message, hint);
        }
        found.map(|(_, value)| *value)
    }

    /// The items of a list; a key with nothing behind it is the empty list.
    pub fn list(&self, key: &str, need: Need, findings: &mut Findings) -> Vec<Node<'d>> {
        if self.node.get(key).is_some_and(|node| node.kind() == Kind::Null) {
            return Vec::new();
        }
        let Some(node) = self.need(key, need, findings) else { return Vec::new() };
        if node.kind() != Kind::Seq {
            wrong_type(findings, node, &Of(key, self.what), "a list");
            return Vec::new();
        }
        node.items().collect()
    }

    /// The entries of a mapping; a key with nothing behind it is the empty mapping.
    pub fn entries(&self, key: &str, need: Need, findings: &mut Findings) -> Vec<(Node<'d>, Node<'d>)> {
        if self.node.get(key).is_some_and(|node| node.kind() == Kind::Null) {
            return Vec::new();
        }
        let Some(node) = self.need(key, need, findings) else { return Vec::new() };
        if node.kind() != Kind::Map {
            wrong_type(findings, node, &Of(key, self.what), "a mapping");
            return Vec::new();
        }
        node.entries().collect()
    }
}

pub(super) fn as_text(node: Node<'_>, what: &dyn Display, findings: &mut Findings) -> Option<String> {
    if let Some(text) = node.str() {
        return Some(text.into_owned());
    }
    match node.scalar_text() {
        Some(text) => findings.note(
            Severity::Error,
            "wrong_type",
            node.offset(),
            format!("{what} is {}, not text", kind_word(node.kind())),
            format!("put it in quotes: `\"{text}\"`"),
        ),
        None => wrong_type(findings, node, what, "text"),
    }
    None
}

pub(super) fn as_texts(node: Node<'_>, what: &dyn Display, findings: &mut Findings) -> Vec<String> {
    if node.kind() != Kind::Seq {
        let hint = match node.scalar_text() {
            Some(text) => format!("write it as a list: `[{text}]`"),
            None => "write it as a list: `[…]`".to_owned(),
        };
        let message = format!("{what} is {}, not a list", kind_word(node.kind()));
        findings.note(Severity::Error, "wrong_type", node.offset(), message, hint);
        return Vec::new();
    }
    node.items().filter_map(|item| as_text(item, &ItemOf(what), findings)).collect()
}

pub(super) fn wrong_type(findings: &mut Findings, node: Node<'_>, what: &dyn Display, wanted: &str) {
    findings.note(
        Severity::Error,
        "wrong_type",
        node.offset(),
        format!("{what} is {}, not {wanted}", kind_word(node.kind())),
        format!("write {wanted} here"),
    );
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "empty",
        Kind::Bool => "a truth value",
        Kind::Int | Kind::Float => "a number",
        Kind::Str => "text",
        Kind::Seq => "a list",
        Kind::Map => "a mapping",
    }
}

/// `key` of something.
struct Of<'a>(&'a str, &'a dyn Display);

impl Display for Of<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` of {}", self.0, self.1)
    }
}

struct ItemOf<'a>(&'a dyn Display);

impl Display for ItemOf<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "an item of {}", self.0)
    }
}

/// Whether two words differ by a slip: a letter wrong, missing, too many or swapped, once or twice.
fn is_near(known: &str, given: &str) -> bool {
    let allowed = if known.len() <= 4 { 1 } else { 2 };
    if known.len().abs_diff(given.len()) > allowed {
        return false;
    }
    let (known, given): (Vec<char>, Vec<char>) = (known.chars().collect(), given.chars().collect());
    let mut before: Vec<usize> = (0..=given.len()).collect();
    for (row, wanted) in known.iter().enumerate() {
        let mut line = vec![row + 1];
        for (column, found) in given.iter().enumerate() {
            let replaced = before[column] + usize::from(wanted != found);
            line.push(replaced.min(before[column + 1] + 1).min(line[column] + 1));
        }
        before = line;
    }
    before[given.len()] <= allowed
}
