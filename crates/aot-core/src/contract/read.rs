//! Reads one field of a mapping: its type, its range, its words. Every mistake is noted with its place and a remedy;
//! which fields there are is not known here.

use std::fmt::{self, Display};

use super::document::{Kind, Node};
use super::finding::{Findings, Severity};
use crate::state::{Span, Stamp};

/// What a missing or empty field means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requirement {
    Required,
    /// Part of the agreement: the file is legible without it, but nothing may start.
    Agreed,
    /// A text of the history: it must be there, but if it is empty that is only odd.
    History,
    Optional,
}

/// One field of a mapping, which may be absent.
#[derive(Clone, Copy)]
pub(super) struct Field<'d, 'a> {
    pub node: Option<Node<'d>>,
    /// Where the mapping starts, for what is missing in it.
    pub offset: usize,
    pub key: &'a str,
    /// How messages name the mapping.
    pub owner: &'a dyn Display,
}

impl Display for Field<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of {}", self.key, self.owner)
    }
}

impl<'d> Field<'d, '_> {
    /// The field's value; notes if it should be there and is not.
    pub fn value(&self, requirement: Requirement, findings: &mut Findings) -> Option<Node<'d>> {
        if let Some(node) = self.node.filter(|node| !node.is_null()) {
            return Some(node);
        }
        let severity = match requirement {
            Requirement::Required | Requirement::History => Severity::Error,
            Requirement::Agreed => Severity::Incomplete,
            Requirement::Optional => return None,
        };
        let offset = self.node.map_or(self.offset, |null| null.offset());
        let message = format!("{} has no `{}`", self.owner, self.key);
        findings.note(severity, "missing", offset, message, format!("add `{}: VALUE`", self.key));
        None
    }

    pub fn text(&self, requirement: Requirement, findings: &mut Findings) -> Option<&'d str> {
        let node = self.value(requirement, findings)?;
        let text = as_text(node, self, findings)?;
        let severity = match requirement {
            Requirement::Required => Severity::Error,
            Requirement::Agreed => Severity::Incomplete,
            Requirement::History => Severity::Warning,
            Requirement::Optional => return Some(text),
        };
        if text.trim().is_empty() {
            findings.note(
                severity,
                "empty",
                node.offset(),
                format!("{self} is empty"),
                "say it in a sentence",
            );
        }
        Some(text)
    }

    pub fn flag(&self, requirement: Requirement, findings: &mut Findings) -> Option<bool> {
        let node = self.value(requirement, findings)?;
        if node.bool().is_none() {
            wrong_type(node, self, "`true` or `false`", findings);
        }
        node.bool()
    }

    /// A whole number of at least `least`.
    pub fn number(&self, least: i64, requirement: Requirement, findings: &mut Findings) -> Option<i64> {
        let node = self.value(requirement, findings)?;
        let Some(number) = node.int() else {
            wrong_type(node, self, "a whole number", findings);
            return None;
        };
        if number < least {
            let code = if number < 0 { "negative" } else { "too_small" };
            let message = format!("{self} is {number}");
            findings.note(Severity::Error, code, node.offset(), message, format!("give at least {least}"));
            return None;
        }
        Some(number)
    }

    /// The same, for counters of at most `most`.
    pub fn count(
        &self,
        least: i64,
        most: u32,
        requirement: Requirement,
        findings: &mut Findings,
    ) -> Option<u32> {
        let number = self.number(least, requirement, findings)?;
        let fits = u32::try_from(number).ok().filter(|number| *number <= most);
        if fits.is_none() {
            let offset = self.node.map_or(0, |node| node.offset());
            let hint = format!("give at most {most}");
            findings.note(Severity::Error, "too_large", offset, format!("{self} is {number}"), hint);
        }
        fits
    }

    pub fn amount(&self, requirement: Requirement, findings: &mut Findings) -> Option<f64> {
        let node = self.value(requirement, findings)?;
        let Some(amount) = node.float().filter(|amount| amount.is_finite()) else {
            wrong_type(node, self, "a number", findings);
            return None;
        };
        if amount < 0.0 {
            let message = format!("{self} is {amount}");
            findings.note(Severity::Error, "negative", node.offset(), message, "give at least 0");
            return None;
        }
        Some(amount)
    }

    /// A span of time, as it is written.
    pub fn span(&self, requirement: Requirement, findings: &mut Findings) -> Option<&'d str> {
        let node = self.value(requirement, findings)?;
        let span = node.scalar_str().filter(|text| Span::parse(text).is_some());
        if span.is_none() {
            let hint = "write it like `90s`, `30m`, `8h` or `2d`";
            let message = format!("{self} is no span of time");
            findings.note(Severity::Error, "bad_span", node.offset(), message, hint);
        }
        span
    }

    /// A moment, as it is written.
    pub fn stamp(&self, requirement: Requirement, findings: &mut Findings) -> Option<&'d str> {
        let node = self.value(requirement, findings)?;
        let text = node.scalar_str().unwrap_or_default();
        if Stamp::parse(text).is_some() {
            return Some(text);
        }
        let message = format!("{self} is `{text}`, which is not ISO 8601");
        let hint = "write it like `2026-01-15T10:30:00Z`";
        findings.note(Severity::Error, "bad_timestamp", node.offset(), message, hint);
        None
    }

    /// One word out of a few.
    pub fn word(
        &self,
        words: &[&'static str],
        requirement: Requirement,
        findings: &mut Findings,
    ) -> Option<&'static str> {
        let node = self.value(requirement, findings)?;
        let text = node.scalar_str().unwrap_or_default();
        let known = words.iter().find(|word| **word == text);
        if known.is_none() {
            let listed = words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
            let hint = match words.iter().find(|word| is_near(word, text)) {
                Some(word) => format!("did you mean `{word}`? It is one of {listed}"),
                None => format!("use one of {listed}"),
            };
            findings.note(Severity::Error, "bad_value", node.offset(), format!("{self} is `{text}`"), hint);
        }
        known.copied()
    }

    /// The node of a list; a key with nothing behind it is the empty list.
    pub fn list(&self, requirement: Requirement, findings: &mut Findings) -> Option<Node<'d>> {
        self.collection(Kind::Seq, "a list", requirement, findings)
    }

    /// The node of a mapping; a key with nothing behind it is the empty mapping.
    pub fn mapping(&self, requirement: Requirement, findings: &mut Findings) -> Option<Node<'d>> {
        self.collection(Kind::Map, "a mapping", requirement, findings)
    }

    fn collection(
        &self,
        kind: Kind,
        wanted: &str,
        requirement: Requirement,
        findings: &mut Findings,
    ) -> Option<Node<'d>> {
        if self.node.is_some_and(|node| node.is_null()) {
            return None;
        }
        let node = self.value(requirement, findings)?;
        if node.kind() == kind {
            return Some(node);
        }
        wrong_type(node, self, wanted, findings);
        None
    }

    /// The node of a list of texts: its hint shows how a single text becomes a list.
    pub fn text_list(&self, requirement: Requirement, findings: &mut Findings) -> Option<Node<'d>> {
        match self.node {
            Some(node) if !node.is_null() && node.kind() != Kind::Seq => {
                let hint = match node.scalar_str() {
                    Some(text) => format!("write it as a list: `[{text}]`"),
                    None => "write it as a list: `[A, B]`".to_owned(),
                };
                let message = format!("{self} is {}, not a list", in_words(node.kind()));
                findings.note(Severity::Error, "wrong_type", node.offset(), message, hint);
                None
            }
            _ => self.list(requirement, findings),
        }
    }
}

pub(super) fn as_text<'d>(node: Node<'d>, what: &dyn Display, findings: &mut Findings) -> Option<&'d str> {
    if node.kind() == Kind::Str {
        return node.scalar_str();
    }
    match node.scalar_str() {
        Some(text) => findings.note(
            Severity::Error,
            "wrong_type",
            node.offset(),
            format!("{what} is {}, not text", in_words(node.kind())),
            format!("put it in quotes: `\"{text}\"`"),
        ),
        None => wrong_type(node, what, "text", findings),
    }
    None
}

pub(super) fn wrong_type(node: Node<'_>, what: &dyn Display, wanted: &str, findings: &mut Findings) {
    findings.note(
        Severity::Error,
        "wrong_type",
        node.offset(),
        format!("{what} is {}, not {wanted}", in_words(node.kind())),
        format!("write {wanted} here"),
    );
}

fn in_words(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "empty",
        Kind::Bool => "a truth value",
        Kind::Int | Kind::Float => "a number",
        Kind::Str => "text",
        Kind::Seq => "a list",
        Kind::Map => "a mapping",
    }
}

/// How messages name a mapping.
#[derive(Clone, Copy)]
pub(super) enum Name<'a> {
    State,
    /// The mapping behind a key: `control`.
    Key(&'a str),
    /// By its number in a list, counted from 1: trail entry 3.
    Numbered(&'a str, usize),
    /// By its own name: atom `A1`.
    Named(&'a str, &'a str),
}

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::State => f.write_str("the state"),
            Name::Key(key) => write!(f, "`{key}`"),
            Name::Numbered(noun, index) => write!(f, "{noun} {}", index + 1),
            Name::Named(noun, name) => write!(f, "{noun} `{name}`"),
        }
    }
}

/// An item of the list in a field.
pub(super) struct ItemOf<'a>(pub &'a dyn Display);

impl Display for ItemOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an item of {}", self.0)
    }
}

/// Notes that the key of an entry is blank.
pub(super) fn note_blank_name(noun: &str, key: Node<'_>, findings: &mut Findings) {
    let name = key.scalar_str().unwrap_or_default();
    if name.trim().is_empty() {
        let message = format!("{noun} `{name}` has no name");
        findings.note(Severity::Error, "bad_name", key.offset(), message, "give it a name");
    }
}

/// Points out the unknown keys of a mapping that look like a slip of a known key which is missing in it.
pub(super) fn note_slips(
    owner: &dyn Display,
    unknown: &[Node<'_>],
    missing: &[&str],
    findings: &mut Findings,
) {
    for key in unknown {
        let name = key.scalar_str().unwrap_or_default();
        if let Some(meant) = missing.iter().find(|missing| is_near(missing, name)) {
            let message = format!("{owner} has an unknown key `{name}`");
            let hint = format!("did you mean `{meant}`?");
            findings.note(Severity::Warning, "unknown_key", key.offset(), message, hint);
        }
    }
}

/// Whether two words differ by a slip: a letter wrong, missing, too many or swapped, once or twice.
pub fn is_near(known: &str, given: &str) -> bool {
    let allowed = if known.len() <= 4 { 1 } else { 2 };
    if known.len().abs_diff(given.len()) > allowed {
        return false;
    }
    let (known, given): (Vec<char>, Vec<char>) = (known.chars().collect(), given.chars().collect());
    let mut before: Vec<usize> = (0..=given.len()).collect();
    for (row, wanted) in known.iter().enumerate() {
        let mut line = vec![row + 1];
        for (column, letter) in given.iter().enumerate() {
            let replaced = before[column] + usize::from(wanted != letter);
            line.push(replaced.min(before[column + 1] + 1).min(line[column] + 1));
        }
        before = line;
    }
    before[given.len()] <= allowed
}
