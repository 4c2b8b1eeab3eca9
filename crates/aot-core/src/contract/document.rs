//! The text of a state file as a tree of places. Knows YAML and bytes; nothing of atoms.
//!
//! The frontmatter is kept as the text itself and a flat preorder arena of nodes, each a byte span with its kind
//! and the size of its subtree. Nothing here changes a document: that is the room of `edit`.

pub(in crate::contract) mod build;
pub(in crate::contract) mod node;
mod pack;
mod plain;
pub(in crate::contract) mod scalar;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

pub use node::{Entries, Items, Node};

/// Bytes of a whole file, body included.
pub const MAX_BYTES: usize = 64 << 20;
/// Nodes of a frontmatter: an atom with its fields takes about fifteen, so 100 000 atoms fit twice over.
pub const MAX_NODES: usize = 4_000_000;
/// Collections inside one another.
pub const MAX_DEPTH: usize = 64;

/// What a document may cost before it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub bytes: usize,
    pub nodes: usize,
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: MAX_BYTES, nodes: MAX_NODES, depth: MAX_DEPTH }
    }
}

/// A place as a person counts it: both numbers start at 1, and the column counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Place {
    pub line: u32,
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Why a text is not a document: the user's error, with the place and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at {place}")]
pub struct SyntaxError {
    pub code: &'static str,
    pub message: String,
    pub place: Place,
    pub hint: String,
}

/// What a node is. Quoted and block scalars are always `Str`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    Null,
    Bool,
    Int,
    Float,
    Str,
    Seq,
    Map,
}

impl Kind {
    pub(in crate::contract) fn is_collection(self) -> bool {
        matches!(self, Kind::Seq | Kind::Map)
    }
}

/// How a node is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::contract) enum Style {
    /// A null that takes no bytes: `key:` or a lone `-`.
    Absent,
    Plain,
    Single,
    Double,
    Literal,
    Folded,
    Block,
    Flow,
    /// The one-entry mapping of `[a: b]`, which has no braces.
    Pair,
}

/// One node of the arena, 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::contract) struct Raw {
    pub start: u32,
    pub end: u32,
    /// Of a collection, the nodes of its subtree with itself. Of a scalar, the index of its decoded text, or
    /// [`AS_WRITTEN`] where the text between its quotes is its value.
    pub extent: u32,
    pub kind: Kind,
    pub style: Style,
}

pub(in crate::contract) const AS_WRITTEN: u32 = u32::MAX;

impl Raw {
    pub fn size(&self) -> usize {
        if self.kind.is_collection() { self.extent as usize } else { 1 }
    }

    pub fn span(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The values of scalars that differ from their source (escapes, folding, block scalars), end to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::contract) struct Decoded {
    pub text: String,
    pub ends: Vec<u32>,
}

impl Decoded {
    pub fn get(&self, index: u32) -> &str {
        let index = index as usize;
        let start =
            if index == 0 { 0 } else { self.ends.get(index - 1).copied().unwrap_or(u32::MAX) as usize };
        let end = self.ends.get(index).copied().unwrap_or(0) as usize;
        self.text.get(start..end).unwrap_or("")
    }

    pub fn push(&mut self, text: &str) -> u32 {
        let index = self.ends.len() as u32;
        self.text.push_str(text);
        self.ends.push(self.text.len() as u32);
        index
    }
}

/// A file's text and the tree of its frontmatter.
#[derive(Clone, Debug)]
pub struct Document {
    pub(in crate::contract) text: String,
    pub(in crate::contract) nodes: Vec<Raw>,
    pub(in crate::contract) decoded: Decoded,
    /// The bytes between the two `---` lines.
    pub(in crate::contract) front: Range<usize>,
    pub(in crate::contract) limits: Limits,
    /// Where lines start, counted when the first place is asked for.
    pub(in crate::contract) lines: OnceLock<Vec<u32>>,
}

impl Document {
    pub fn parse(text: String, limits: &Limits) -> Result<Document, SyntaxError> {
        let front = frontmatter(&text, limits).map_err(|fault| fault.locate(&text))?;
        let tree = build::frontmatter(&text[front.clone()], front.start, limits)
            .map_err(|fault| fault.locate(&text))?;
        Ok(Document {
            text,
            nodes: tree.nodes,
            decoded: tree.decoded,
            front,
            limits: *limits,
            lines: OnceLock::new(),
        })
    }

    pub fn from_bytes(bytes: Vec<u8>, limits: &Limits) -> Result<Document, SyntaxError> {
        let text = String::from_utf8(bytes).map_err(|error| {
            let good = error.utf8_error().valid_up_to();
            let valid =
                std::str::from_utf8(&error.as_bytes()[..good]).expect("valid up to here, as the error says");
            Fault::new(
                "not_utf8",
                good,
                "the file is not UTF-8 text",
                "save the file with the encoding UTF-8",
            )
            .locate(valid)
        })?;
        Document::parse(text, limits)
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn into_text(self) -> String {
        self.text
    }

    /// Everything after the closing `---` line.
    pub fn body(&self) -> &str {
        let rest = &self.text[self.front.end..];
        rest.find('\n').map_or("", |end| &rest[end + 1..])
    }

    /// The frontmatter's mapping.
    pub fn root(&self) -> Node<'_> {
        Node::new(self, 0)
    }

    pub fn place(&self, offset: usize) -> Place {
        let lines = self.lines.get_or_init(|| {
            let breaks = self.text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
            std::iter::once(0).chain(breaks.map(|(at, _)| at as u32 + 1)).collect()
        });
        let line = lines.partition_point(|&start| start as usize <= offset) - 1;
        place_in_line(&self.text, lines[line] as usize, line, offset)
    }

    /// Whether the arena is what the parser makes of the text. For tests.
    #[doc(hidden)]
    pub fn check_consistency(&self) -> Result<(), String> {
        let located = |fault: Fault| fault.locate(&self.text).to_string();
        let front = frontmatter(&self.text, &self.limits).map_err(located)?;
        let tree =
            build::read(&self.text[front.clone()], front.start as u32, &self.limits).map_err(located)?;
        let (nodes, decoded, text) = (tree.nodes, tree.decoded, self.text.clone());
        let fresh = Document { text, nodes, decoded, front, limits: self.limits, lines: OnceLock::new() };
        if fresh.front != self.front {
            return Err(format!("frontmatter at {:?}, kept as {:?}", fresh.front, self.front));
        }
        if fresh.nodes.len() != self.nodes.len() {
            return Err(format!("{} nodes, kept as {}", fresh.nodes.len(), self.nodes.len()));
        }
        for (at, (new, old)) in fresh.nodes.iter().zip(&self.nodes).enumerate() {
            let comparable = |raw: &Raw| {
                let extent =
                    if raw.kind.is_collection() { raw.extent } else { (raw.extent == AS_WRITTEN).into() };
                Raw { extent, ..*raw }
            };
            let same_text = new.kind.is_collection()
                || Node::new(&fresh, at).scalar_text() == Node::new(self, at).scalar_text();
            if comparable(new) != comparable(old) || !same_text {
                return Err(format!("node {at} is {new:?}, kept as {old:?}"));
            }
        }
        Ok(())
    }
}

/// A [`SyntaxError`] whose place is still a byte offset.
#[derive(Debug)]
pub(in crate::contract) struct Fault {
    pub code: &'static str,
    pub offset: usize,
    pub message: String,
    /// An earlier place the message speaks of.
    pub other: Option<usize>,
    pub hint: &'static str,
}

impl Fault {
    pub fn new(code: &'static str, offset: usize, message: impl Into<String>, hint: &'static str) -> Fault {
        Fault { code, offset, message: message.into(), other: None, hint }
    }

    pub fn locate(self, text: &str) -> SyntaxError {
        let message = match self.other {
            Some(other) => format!("{} (first at {})", self.message, place_in(text, other)),
            None => self.message,
        };
        SyntaxError {
            code: self.code,
            message,
            place: place_in(text, self.offset),
            hint: self.hint.to_owned(),
        }
    }
}

fn place_in(text: &str, offset: usize) -> Place {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let line = before.iter().filter(|&&byte| byte == b'\n').count();
    place_in_line(text, start, line, offset)
}

fn place_in_line(text: &str, start: usize, line: usize, offset: usize) -> Place {
    let before = text.get(start..offset.min(text.len())).unwrap_or("");
    let column = before.chars().filter(|&char| char != BOM).count();
    Place { line: line as u32 + 1, column: column as u32 + 1 }
}

const BOM: char = '\u{feff}';

/// Finds the bytes between the two `---` lines.
fn frontmatter(text: &str, limits: &Limits) -> Result<Range<usize>, Fault> {
    // Spans are kept as 32-bit numbers, so no limit may allow more.
    if text.len() > limits.bytes.min(i32::MAX as usize) {
        let message = format!("the file has {} bytes, and {} are allowed", text.len(), limits.bytes);
        return Err(Fault::new("too_many_bytes", 0, message, "move long texts out of the state file"));
    }
    if let Some(at) = text.find('\0') {
        return Err(Fault::new("nul_byte", at, "the file contains a NUL byte", "remove the NUL byte"));
    }
    let opening = if text.starts_with(BOM) { BOM.len_utf8() } else { 0 };
    let first = line_at(text, opening);
    if !is_fence(&text[first.clone()]) {
        let hint = "begin the file with a line `---`, then the YAML frontmatter";
        return Err(Fault::new(
            "no_opening_fence",
            opening,
            "the file does not begin with a line `---`",
            hint,
        ));
    }
    let start = first.end;
    // The opening line's own break is looked at too: the closing line may follow at once.
    let before = start.saturating_sub(1);
    let mut breaks = text[before..].match_indices("\n---").map(|(at, _)| before + at + 1);
    let closing = breaks.find(|&at| is_fence(&text[line_at(text, at)]));
    let front = start..closing.unwrap_or(text.len());
    if let Some(lone) = lone_carriage_return(&text[front.clone()]) {
        let hint = "save the file with line ends LF or CRLF";
        let message = "a carriage return stands alone";
        return Err(Fault::new("lone_carriage_return", start + lone, message, hint));
    }
    if closing.is_some() {
        return Ok(front);
    }
    let hint = "end the frontmatter with a line `---`";
    Err(Fault::new("no_closing_fence", opening, "the frontmatter has no closing line `---`", hint))
}

fn is_fence(line: &str) -> bool {
    line.trim_end_matches([' ', '\t', '\r', '\n']) == "---"
}

/// The offset of a carriage return with more of its line behind it.
fn lone_carriage_return(text: &str) -> Option<usize> {
    let first = text.find('\r')?;
    let mut at = text[..first].rfind('\n').map_or(0, |end| end + 1);
    for line in text[at..].split_inclusive('\n') {
        let content = line.trim_end_matches('\n').trim_end_matches('\r');
        if let Some(lone) = content.find('\r') {
            return Some(at + lone);
        }
        at += line.len();
    }
    None
}

fn line_at(text: &str, start: usize) -> Range<usize> {
    start..text[start..].find('\n').map_or(text.len(), |end| start + end + 1)
}
