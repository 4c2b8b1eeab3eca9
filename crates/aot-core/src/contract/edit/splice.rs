//! Makes one splice and proves it. Knows bytes, entries and what they must say; nothing of how values are written.

use std::ops::Range;
use std::sync::OnceLock;

use serde_json::Value;

use super::layout::{column as column_of, line_start, next_line};
use super::lines::dash_of;
use super::{CannotEdit, Editor, refuse};
use crate::contract::document::build::{read, skip};
use crate::contract::document::{AS_WRITTEN, Decoded, Document, Kind, Limits, Node, Raw, Style};

/// Bytes to be replaced, and by what.
#[derive(Debug)]
pub(super) struct Splice {
    pub range: Range<usize>,
    pub text: String,
}

impl Splice {
    pub fn new(range: Range<usize>, text: impl Into<String>) -> Splice {
        Splice { range, text: text.into() }
    }
}

/// Consecutive entries of a block collection: the part of a document that is parsed again after a splice in it.
#[derive(Debug)]
pub(super) struct ReadAgain<'c> {
    /// The chain to the collection.
    pub above: &'c [usize],
    pub nodes: Range<usize>,
    /// From the first key or dash to the line of the next token, so that everything the entries' values could depend
    /// on is inside.
    pub bytes: Range<usize>,
}

/// What an entry must say: its key, if it is in a mapping, and its value.
pub(super) type ExpectedEntry = (Option<String>, Value);

impl Editor<'_> {
    /// The entries from the one that begins at node `first` to the one whose last node (item or value) is `last`.
    pub fn scope<'c>(&self, above: &'c [usize], first: usize, last: usize) -> ReadAgain<'c> {
        let document = &*self.document;
        let collection = &document.nodes[*above.last().expect("a scope is in a collection")];
        let start = match collection.kind {
            Kind::Map => document.nodes[first].start as usize,
            _ => dash_of(document, *above.last().expect("as above"), first),
        };
        let next = skip(&document.text, document.nodes[last].end as usize).min(document.front.end);
        let end = line_start(&document.text, next);
        // Entries that do not end with their line cannot be cut out; the empty range makes the whole be parsed.
        let end = if end < document.nodes[last].end as usize { start } else { end };
        ReadAgain { above, nodes: first..last + document.nodes[last].size(), bytes: start..end }
    }

    /// Tries the splices in turn until one leaves the last node of the chain saying `value`, and all else unchanged.
    pub fn commit_value(
        &mut self,
        chain: &[usize],
        splices: &[Splice],
        value: &Value,
    ) -> Result<(), CannotEdit> {
        let block =
            (0..chain.len() - 1).rev().find(|&at| self.document.nodes[chain[at]].style == Style::Block);
        let Some(at) = block else {
            let wanted = value_after(self.document, chain, value);
            return self.first_that_works(splices, |editor, splice| editor.splice_whole(splice, &wanted));
        };
        let entry = chain[at + 1];
        let is_map = self.document.nodes[chain[at]].kind == Kind::Map;
        let first = if is_map { entry - 1 } else { entry };
        let wanted = [(self.key_of(first, is_map), value_after(self.document, &chain[at + 1..], value))];
        let scope = self.scope(&chain[..=at], first, entry);
        self.commit(&scope, splices, &wanted)
    }

    /// Tries the splices in turn until one leaves the scope's entries saying what is wanted.
    pub fn commit(
        &mut self,
        scope: &ReadAgain<'_>,
        splices: &[Splice],
        wanted: &[ExpectedEntry],
    ) -> Result<(), CannotEdit> {
        self.first_that_works(splices, |editor, splice| editor.splice(scope, splice, wanted))
    }

    pub fn entry(&self, first: usize, last: usize) -> ExpectedEntry {
        (self.key_of(first, first != last), Node::new(self.document, last).exact())
    }

    fn key_of(&self, node: usize, is_map: bool) -> Option<String> {
        is_map.then(|| Node::new(self.document, node).scalar_str().unwrap_or("").to_owned())
    }

    fn first_that_works(
        &mut self,
        splices: &[Splice],
        mut attempt: impl FnMut(&mut Self, &Splice) -> Result<(), CannotEdit>,
    ) -> Result<(), CannotEdit> {
        let mut outcome = refuse("cannot_write", "there is no way to write it here");
        for splice in splices {
            outcome = attempt(self, splice);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn splice(
        &mut self,
        scope: &ReadAgain<'_>,
        splice: &Splice,
        wanted: &[ExpectedEntry],
    ) -> Result<(), CannotEdit> {
        let document = &mut *self.document;
        let Splice { range, text } = splice;
        let column = scope.bytes.start - line_start(&document.text, scope.bytes.start);
        let before = &document.text[scope.bytes.start - column..scope.bytes.start];
        let inside = scope.bytes.start <= range.start && range.end <= scope.bytes.end;
        if !inside || !before.bytes().all(|byte| matches!(byte, b' ' | b'-')) {
            let wanted = root_after(document, scope, wanted);
            return self.splice_whole(splice, &wanted);
        }
        let grown = text.len() as i64 - range.len() as i64;
        let limits = document.limits;
        if document.text.len() as i64 + grown > limits.bytes as i64 {
            return refuse("too_large", format!("the file would have more than {} bytes", limits.bytes));
        }
        let fragment = [
            &" ".repeat(column),
            &document.text[scope.bytes.start..range.start],
            text,
            &document.text[range.end..scope.bytes.end],
        ]
        .concat();
        let limits = Limits {
            depth: limits.depth.saturating_sub(scope.above.len() - 1),
            nodes: (limits.nodes + scope.nodes.len() + 1).saturating_sub(document.nodes.len()),
            bytes: limits.bytes,
        };
        let fragment = match as_document(fragment, &limits) {
            Ok(fragment) => fragment,
            Err(reason) => return refuse("cannot_write", reason),
        };
        let collection = *scope.above.last().expect("a scope is in a collection");
        let root = fragment.nodes[0];
        let same_column = column_of(&fragment.text, root.start as usize)
            == column_of(&document.text, document.nodes[collection].start as usize);
        if root.kind != document.nodes[collection].kind || root.style != Style::Block || !same_column {
            return refuse("cannot_write", "the change would break the entry it is in");
        }
        if !says(&fragment, wanted) {
            return refuse("cannot_write", "the changed text would not be read back as the wanted value");
        }
        patch(document, scope, splice, fragment, (scope.bytes.start - column) as u32);
        Ok(())
    }

    /// For the few places where no block entry holds the change: parses the whole frontmatter.
    pub fn splice_whole(&mut self, splice: &Splice, wanted: &Value) -> Result<(), CannotEdit> {
        let document = &mut *self.document;
        let Splice { range, text } = splice;
        let whole = [&document.text[..range.start], text, &document.text[range.end..]].concat();
        match Document::parse(whole, &document.limits) {
            Ok(fresh) if fresh.root().exact() == *wanted && fresh.body() == document.body() => {
                *document = fresh;
                Ok(())
            }
            Ok(_) => refuse("cannot_write", "the changed text would not be read back as the wanted value"),
            Err(error) => refuse("cannot_write", error.message),
        }
    }

    /// Removes the frontmatter's only entry.
    pub fn empty_root(&mut self) -> Result<(), CannotEdit> {
        let root = self.document.nodes[0].span();
        let (start, end) =
            (line_start(&self.document.text, root.start), next_line(&self.document.text, root.end));
        let splice = Splice::new(start..end, format!("{{}}{}", self.layout.newline));
        self.splice_whole(&splice, &Value::Object(serde_json::Map::new()))
    }
}

/// A fragment as a document of its own, whose root is the collection of its entries.
fn as_document(text: String, limits: &Limits) -> Result<Document, String> {
    let tree = read(&text, 0, limits).map_err(|fault| fault.message)?;
    if tree.nodes.is_empty() {
        return Err("nothing would be left".to_owned());
    }
    let front = 0..text.len();
    Ok(Document {
        text,
        nodes: tree.nodes,
        decoded: tree.decoded,
        front,
        limits: *limits,
        lines: OnceLock::new(),
    })
}

fn says(fragment: &Document, wanted: &[ExpectedEntry]) -> bool {
    let root = fragment.root();
    match root.kind() {
        Kind::Map => {
            let entries =
                root.entries().map(|(key, value)| (key.scalar_str().map(str::to_owned), value.exact()));
            entries.eq(wanted.iter().cloned())
        }
        _ => root.items().map(|item| (None, item.exact())).eq(wanted.iter().cloned()),
    }
}

/// What the first node of the chain says once its last says `value`.
fn value_after(document: &Document, chain: &[usize], value: &Value) -> Value {
    let mut whole = Node::new(document, chain[0]).exact();
    let mut place = &mut whole;
    for pair in chain.windows(2) {
        let (parent, child) = (Node::new(document, pair[0]), pair[1]);
        let inner = match place {
            Value::Object(entries) => {
                entries.get_mut(Node::new(document, child - 1).scalar_str().unwrap_or(""))
            }
            Value::Array(items) => {
                items.get_mut(parent.items().take_while(|item| item.index() < child).count())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        };
        place = inner.expect("a chain leads from parent to child");
    }
    *place = value.clone();
    whole
}

/// What the root says once the scope's entries say what is wanted.
fn root_after(document: &Document, scope: &ReadAgain<'_>, wanted: &[ExpectedEntry]) -> Value {
    let collection = Node::new(document, *scope.above.last().expect("a scope is in a collection"));
    let inside = |node: Node<'_>| scope.nodes.contains(&node.index());
    let said = match collection.kind() {
        Kind::Map => {
            let kept = collection.entries().filter(|(key, _)| !inside(*key));
            let kept = kept.map(|(key, value)| (key.scalar_str().unwrap_or("").to_owned(), value.exact()));
            let new = wanted.iter().map(|(key, value)| (key.clone().unwrap_or_default(), value.clone()));
            Value::Object(kept.chain(new).collect())
        }
        _ => {
            let before = collection.items().filter(|item| item.index() < scope.nodes.start);
            let after = collection.items().filter(|item| item.index() >= scope.nodes.end);
            let new = wanted.iter().map(|(_, value)| value.clone());
            before.map(|item| item.exact()).chain(new).chain(after.map(|item| item.exact())).collect()
        }
    };
    value_after(document, scope.above, &said)
}

/// Puts the proven fragment in its place: its nodes for the scope's, later offsets shifted, ancestors' sizes and ends
/// put right. No other node is touched.
fn patch(document: &mut Document, scope: &ReadAgain<'_>, splice: &Splice, fragment: Document, base: u32) {
    let Splice { range, text } = splice;
    let grown = text.len() as i64 - range.len() as i64;
    let root = fragment.nodes[0];
    let texts = document.decoded.ends.len() as u32;
    for index in 0..fragment.decoded.ends.len() {
        document.decoded.push(fragment.decoded.get(index as u32));
    }
    let rebase = |raw: &Raw| {
        let extent = if raw.kind.is_collection() || raw.extent == AS_WRITTEN {
            raw.extent
        } else {
            raw.extent + texts
        };
        Raw { start: raw.start + base, end: raw.end + base, extent, ..*raw }
    };
    let nodes: Vec<Raw> = fragment.nodes[1..].iter().map(rebase).collect();
    let new_nodes = nodes.len();
    let more_nodes = new_nodes as i64 - scope.nodes.len() as i64;
    let above: Vec<_> = scope.above.iter().map(|&at| (at, document.nodes[at])).collect();
    replace(document, range.clone(), text, scope.nodes.clone(), nodes, grown);

    let collection = *scope.above.last().expect("a scope is in a collection");
    for &(at, old) in &above {
        let raw = &mut document.nodes[at];
        let was_last = at + old.extent as usize == scope.nodes.end;
        raw.extent = (i64::from(old.extent) + more_nodes) as u32;
        raw.end = if was_last { root.end + base } else { (i64::from(old.end) + grown) as u32 };
        if at == collection && scope.nodes.start == collection + 1 {
            raw.start = root.start + base;
        }
    }
}

/// Replaces bytes and nodes, and shifts all that comes after.
fn replace(
    document: &mut Document,
    range: Range<usize>,
    text: &str,
    at: Range<usize>,
    nodes: Vec<Raw>,
    grown: i64,
) {
    let after = at.start + nodes.len();
    document.text.replace_range(range, text);
    document.nodes.splice(at, nodes);
    // Offsets stay below 2^31, so adding the two's complement is the signed sum.
    let grown = grown as u32;
    for raw in &mut document.nodes[after..] {
        raw.start = raw.start.wrapping_add(grown);
        raw.end = raw.end.wrapping_add(grown);
    }
    document.front.end = (document.front.end as u32).wrapping_add(grown) as usize;
    document.lines = OnceLock::new();
}

impl Document {
    /// Edits leave the decoded texts of replaced scalars behind. They are swept whenever the table has doubled, so
    /// that a document may live long and an edit need not look.
    pub(super) fn forget_dead_texts(&mut self, before: usize) {
        const WORTH_SWEEPING: usize = 1_024;
        let now = self.decoded.ends.len();
        if now < WORTH_SWEEPING || before.next_power_of_two() == now.next_power_of_two() {
            return;
        }
        let mut live = Decoded::default();
        for raw in &mut self.nodes {
            if !raw.kind.is_collection() && raw.extent != AS_WRITTEN {
                raw.extent = live.push(self.decoded.get(raw.extent));
            }
        }
        self.decoded = live;
    }
}
