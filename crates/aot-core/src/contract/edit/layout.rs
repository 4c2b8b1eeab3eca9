//! The habits of a document: its line ends and indentations. Knows text and columns; changes nothing.

use crate::contract::document::build::skip_blanks;
use crate::contract::document::{Document, Kind, Style};

/// How much of a document is looked at to learn its habits.
const SAMPLE_BYTES: usize = 64 << 10;
const SAMPLE_NODES: usize = 2_000;
const USUAL_STEP: usize = 2;

#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub newline: &'static str,
    /// Columns from a key to the keys inside its value.
    pub step: usize,
    /// Columns from a key to the dashes of its list.
    pub list_step: usize,
}

impl Layout {
    pub fn of(document: &Document) -> Layout {
        let sample = &document.text.as_bytes()[..document.text.len().min(SAMPLE_BYTES)];
        let all = sample.iter().filter(|&&byte| byte == b'\n').count();
        let crlf = sample.windows(2).filter(|pair| pair == b"\r\n").count();
        let newline = if crlf * 2 > all { "\r\n" } else { "\n" };
        let step = first_step(document, Kind::Map).filter(|&step| step > 0).unwrap_or(USUAL_STEP);
        Layout { newline, step, list_step: first_step(document, Kind::Seq).unwrap_or(step) }
    }
}

/// The columns between the first key that has a block collection of this kind as its value, and that collection.
fn first_step(document: &Document, kind: Kind) -> Option<usize> {
    let nodes = &document.nodes[..document.nodes.len().min(SAMPLE_NODES)];
    nodes.windows(2).find_map(|pair| {
        let [key, value] = pair else { return None };
        let is_key = || document.text[skip_blanks(&document.text, key.end as usize)..].starts_with(':');
        let is_child =
            value.style == Style::Block && value.kind == kind && !key.kind.is_collection() && is_key();
        let columns =
            (column(&document.text, key.start as usize), column(&document.text, value.start as usize));
        (is_child && columns.1 >= columns.0).then(|| columns.1 - columns.0)
    })
}

pub(super) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |found| found + 1)
}

/// Where the line's content ends, before its line break.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    let end = text[at..].find('\n').map_or(text.len(), |found| at + found);
    if end > at && text.as_bytes()[end - 1] == b'\r' { end - 1 } else { end }
}

pub(super) fn next_line(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |found| at + found + 1)
}

/// Bytes before `at` on its line. Before a block entry these are spaces and dashes, so that they count characters.
pub(super) fn column(text: &str, at: usize) -> usize {
    at - line_start(text, at)
}

pub(super) fn is_blank(line: &str) -> bool {
    line.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}
