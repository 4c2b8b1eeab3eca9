//! A parse result as bytes, so that a cache need not parse again. Knows the arena's layout; nothing of caches.

use std::ops::Range;
use std::sync::OnceLock;

use super::{AS_WRITTEN, Decoded, Document, Kind, Limits, MAX_DEPTH, Raw, Style};

/// Changes whenever the meaning of the packed bytes does, so that another version's cache reads as garbage.
const MAGIC: &[u8; 8] = b"aotdoc01";
const HEADER: usize = 8 + 6 * 4;
const NODE: usize = 14;

impl Document {
    pub fn pack(&self) -> Vec<u8> {
        let size = HEADER + self.nodes.len() * NODE + self.decoded.ends.len() * 4 + self.decoded.text.len();
        let mut packed = Vec::with_capacity(size);
        packed.extend_from_slice(MAGIC);
        let counts = [
            self.text.len(),
            self.front.start,
            self.front.end,
            self.nodes.len(),
            self.decoded.ends.len(),
            self.decoded.text.len(),
        ];
        for count in counts {
            packed.extend_from_slice(&(count as u32).to_le_bytes());
        }
        for raw in &self.nodes {
            packed.extend_from_slice(&raw.start.to_le_bytes());
            packed.extend_from_slice(&raw.end.to_le_bytes());
            packed.extend_from_slice(&raw.extent.to_le_bytes());
            packed.extend_from_slice(&[raw.kind as u8, raw.style as u8]);
        }
        for end in &self.decoded.ends {
            packed.extend_from_slice(&end.to_le_bytes());
        }
        packed.extend_from_slice(self.decoded.text.as_bytes());
        packed
    }

    /// The document whose `pack` this is. Bytes that no `pack` could have made for a text of this length give
    /// `None`; that they belong to this very text is for the caller to know.
    pub fn unpack(text: String, packed: &[u8]) -> Option<Document> {
        let (magic, rest) = packed.split_at_checked(MAGIC.len())?;
        let (counts, rest) = rest.split_at_checked(HEADER - MAGIC.len())?;
        let count = |at: usize| number(&counts[at * 4..]) as usize;
        let (front, nodes, ends, decoded) = (count(1)..count(2), count(3), count(4), count(5));
        if magic != MAGIC || count(0) != text.len() || text.get(front.clone()).is_none() {
            return None;
        }
        let (nodes, rest) = rest.split_at_checked(nodes.checked_mul(NODE)?)?;
        let (ends, decoded) =
            rest.split_at_checked(ends.checked_mul(4)?).filter(|(_, rest)| rest.len() == decoded)?;
        let decoded = Decoded {
            text: std::str::from_utf8(decoded).ok()?.to_owned(),
            ends: ends.chunks_exact(4).map(number).collect(),
        };
        let mut tree = Vec::with_capacity(nodes.len() / NODE);
        for bytes in nodes.chunks_exact(NODE) {
            tree.push(raw(bytes)?);
        }
        let nodes = tree;
        is_tree(&nodes, &text, &front, &decoded)?;
        Some(Document { text, nodes, decoded, front, limits: Limits::default(), lines: OnceLock::new() })
    }
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn raw(bytes: &[u8]) -> Option<Raw> {
    const KINDS: [Kind; 7] =
        [Kind::Null, Kind::Bool, Kind::Int, Kind::Float, Kind::Str, Kind::Seq, Kind::Map];
    const STYLES: [Style; 9] = [
        Style::Absent,
        Style::Plain,
        Style::Single,
        Style::Double,
        Style::Literal,
        Style::Folded,
        Style::Block,
        Style::Flow,
        Style::Pair,
    ];
    Some(Raw {
        start: number(bytes),
        end: number(&bytes[4..]),
        extent: number(&bytes[8..]),
        kind: *KINDS.get(bytes[12] as usize)?,
        style: *STYLES.get(bytes[13] as usize)?,
    })
}

/// Every span lies in the text, every subtree in its parent, and a mapping holds scalar keys in pairs.
fn is_tree(nodes: &[Raw], text: &str, front: &Range<usize>, decoded: &Decoded) -> Option<()> {
    let root = nodes.first().filter(|root| root.kind == Kind::Map && root.size() == nodes.len())?;
    let mut open = vec![(root, nodes.len(), 0usize)];
    for (at, node) in nodes.iter().enumerate() {
        let (start, end) = (node.start as usize, node.end as usize);
        if start > end || !text.is_char_boundary(start) || !text.is_char_boundary(end) {
            return None;
        }
        let collection = node.kind.is_collection();
        if !collection && node.extent != AS_WRITTEN && node.extent as usize >= decoded.ends.len() {
            return None;
        }
        if at == 0 {
            if start < front.start || end > front.end {
                return None;
            }
            continue;
        }
        while open.last().is_some_and(|&(_, end, _)| end == at) {
            close(open.pop()?)?;
        }
        let (parent, parent_end, children) = open.last_mut()?;
        let is_key = parent.kind == Kind::Map && *children % 2 == 0;
        *children += 1;
        if (is_key || node.extent == 0) && collection || at + node.size() > *parent_end {
            return None;
        }
        if node.start < parent.start.max(nodes[at - 1].start)
            || node.end > parent.end
            || open.len() > MAX_DEPTH
        {
            return None;
        }
        if collection {
            open.push((node, at + node.size(), 0));
        }
    }
    open.into_iter().try_for_each(close)
}

fn close((node, _, children): (&Raw, usize, usize)) -> Option<()> {
    (node.kind == Kind::Seq || children % 2 == 0).then_some(())
}
