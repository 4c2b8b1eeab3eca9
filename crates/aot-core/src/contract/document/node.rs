//! Questions to one node of a document. Knows the arena; changes nothing.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Number, Value};

use super::{AS_WRITTEN, Document, Kind, Place, Raw, Style, scalar};

/// One value of the frontmatter, as a place in its document.
#[derive(Clone, Copy)]
pub struct Node<'d> {
    document: &'d Document,
    at: usize,
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({} {:?} at {})", self.at, self.kind(), self.place())
    }
}

impl<'d> Node<'d> {
    pub(in crate::contract) fn new(document: &'d Document, at: usize) -> Node<'d> {
        Node { document, at }
    }

    pub(in crate::contract) fn index(&self) -> usize {
        self.at
    }

    fn raw(&self) -> &'d Raw {
        &self.document.nodes[self.at]
    }

    pub fn kind(&self) -> Kind {
        self.raw().kind
    }

    pub fn is_null(&self) -> bool {
        self.kind() == Kind::Null
    }

    pub fn bool(&self) -> Option<bool> {
        (self.kind() == Kind::Bool).then(|| scalar::bool(self.source()))?
    }

    pub fn int(&self) -> Option<i64> {
        (self.kind() == Kind::Int).then(|| scalar::int(self.source()))?
    }

    /// The number of an `Int` or a `Float`.
    pub fn float(&self) -> Option<f64> {
        match self.kind() {
            Kind::Int => self.int().map(|int| int as f64),
            Kind::Float => scalar::float(self.source()),
            Kind::Null | Kind::Bool | Kind::Str | Kind::Seq | Kind::Map => None,
        }
    }

    pub fn str(&self) -> Option<Cow<'d, str>> {
        (self.kind() == Kind::Str).then(|| self.scalar_text())?
    }

    /// Any scalar as it is written, without quotes and escapes.
    pub fn scalar_text(&self) -> Option<Cow<'d, str>> {
        self.scalar_str().map(Cow::Borrowed)
    }

    /// As `scalar_text`, borrowed: the text of every scalar lives in the document.
    pub fn scalar_str(&self) -> Option<&'d str> {
        let raw = self.raw();
        if raw.kind.is_collection() {
            return None;
        }
        if raw.extent != AS_WRITTEN {
            return Some(self.document.decoded.get(raw.extent));
        }
        Some(written(self.source(), raw.style))
    }

    fn source(&self) -> &'d str {
        self.document.text.get(self.raw().span()).unwrap_or("")
    }

    /// A sequence's items; nothing of any other node.
    pub fn items(&self) -> Items<'d> {
        Items(self.children(Kind::Seq))
    }

    /// A mapping's keys with their values; nothing of any other node.
    pub fn entries(&self) -> Entries<'d> {
        Entries(self.children(Kind::Map))
    }

    fn children(&self, kind: Kind) -> Children<'d> {
        let size = if self.kind() == kind { self.raw().size() } else { 1 };
        Children { document: self.document, next: self.at + 1, end: self.at + size }
    }

    pub fn get(&self, key: &str) -> Option<Node<'d>> {
        self.entries().find(|(name, _)| name.scalar_str() == Some(key)).map(|(_, value)| value)
    }

    /// Items of a sequence or entries of a mapping; 0 of a scalar.
    pub fn len(&self) -> usize {
        match self.kind() {
            Kind::Seq => self.items().count(),
            Kind::Map => self.entries().count(),
            Kind::Null | Kind::Bool | Kind::Int | Kind::Float | Kind::Str => 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the node starts, in bytes.
    pub fn offset(&self) -> usize {
        self.raw().start as usize
    }

    pub fn place(&self) -> Place {
        self.document.place(self.offset())
    }

    /// The node as JSON. Keys are their texts; a float JSON has no form for (`.inf`, `.nan`) is null.
    pub fn value(&self) -> Value {
        self.value_with(|_| Value::Null)
    }

    /// As `value`, but no two different nodes become equal: what JSON cannot say is marked with a NUL, which no
    /// key of a document can hold by accident.
    pub(in crate::contract) fn exact(&self) -> Value {
        self.value_with(|source| Value::Object(Map::from_iter([("\0float".to_owned(), Value::from(source))])))
    }

    fn value_with(&self, unspeakable: fn(&str) -> Value) -> Value {
        match self.kind() {
            Kind::Null => Value::Null,
            Kind::Bool => self.bool().map_or(Value::Null, Value::Bool),
            Kind::Int => self.int().map_or(Value::Null, Value::from),
            Kind::Float => {
                let number = self.float().and_then(Number::from_f64);
                number.map_or_else(|| unspeakable(self.source()), Value::Number)
            }
            Kind::Str => Value::from(self.scalar_str().unwrap_or("")),
            Kind::Seq => self.items().map(|item| item.value_with(unspeakable)).collect(),
            Kind::Map => {
                let entry = |(key, value): (Node<'d>, Node<'d>)| {
                    (key.scalar_str().unwrap_or("").to_owned(), value.value_with(unspeakable))
                };
                Value::Object(self.entries().map(entry).collect())
            }
        }
    }

    /// Whether this node says exactly `value`; cheaper than building its JSON.
    pub(in crate::contract) fn says(&self, value: &Value) -> bool {
        match (self.kind(), value) {
            (Kind::Null, Value::Null) => true,
            (Kind::Bool, Value::Bool(wanted)) => self.bool() == Some(*wanted),
            (Kind::Int, Value::Number(wanted)) => wanted.is_i64() && self.int() == wanted.as_i64(),
            (Kind::Float, Value::Number(wanted)) => wanted.is_f64() && self.float() == wanted.as_f64(),
            (Kind::Str, Value::String(wanted)) => self.scalar_str() == Some(wanted),
            (Kind::Seq, Value::Array(wanted)) => {
                let mut wanted = wanted.iter();
                self.items().all(|item| wanted.next().is_some_and(|value| item.says(value)))
                    && wanted.next().is_none()
            }
            (Kind::Map, Value::Object(wanted)) => {
                let mut left = wanted.len();
                let all = self.entries().all(|(key, value)| {
                    left = left.wrapping_sub(1);
                    key.scalar_str().and_then(|key| wanted.get(key)).is_some_and(|wanted| value.says(wanted))
                });
                all && left == 0
            }
            _ => false,
        }
    }
}

/// The value of a scalar whose source needs no decoding.
pub(super) fn written(source: &str, style: Style) -> &str {
    match style {
        Style::Single | Style::Double => source.get(1..source.len().saturating_sub(1)).unwrap_or(""),
        Style::Absent
        | Style::Plain
        | Style::Literal
        | Style::Folded
        | Style::Block
        | Style::Flow
        | Style::Pair => source,
    }
}

#[cfg(test)]
thread_local! {
    /// How many nodes were walked over on this thread, for tests of what reading costs.
    pub(in crate::contract) static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[derive(Clone, Debug)]
struct Children<'d> {
    document: &'d Document,
    next: usize,
    end: usize,
}

impl<'d> Iterator for Children<'d> {
    type Item = Node<'d>;

    fn next(&mut self) -> Option<Node<'d>> {
        if self.next >= self.end {
            return None;
        }
        #[cfg(test)]
        STEPS.set(STEPS.get() + 1);
        let node = Node::new(self.document, self.next);
        self.next += node.raw().size();
        Some(node)
    }
}

/// The items of a sequence.
#[derive(Clone, Debug)]
pub struct Items<'d>(Children<'d>);

impl<'d> Iterator for Items<'d> {
    type Item = Node<'d>;

    fn next(&mut self) -> Option<Node<'d>> {
        self.0.next()
    }
}

/// The keys of a mapping with their values.
#[derive(Clone, Debug)]
pub struct Entries<'d>(Children<'d>);

impl<'d> Iterator for Entries<'d> {
    type Item = (Node<'d>, Node<'d>);

    fn next(&mut self) -> Option<(Node<'d>, Node<'d>)> {
        Some((self.0.next()?, self.0.next()?))
    }
}
