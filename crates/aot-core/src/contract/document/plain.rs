//! Reads a frontmatter that is written as most are: block mappings and lists whose values stand on one line each. It takes a
//! tenth of the parser's time. Whatever it is not sure of it leaves to `build`: `None` says nothing about a text. What it
//! reads, `build` reads the same, node for node; the tests compare the two.

use super::build::{Tree, first_duplicate};
use super::{AS_WRITTEN, Decoded, Kind, Limits, Raw, Style, scalar};

/// Longer keys are left to the parser, which has a limit of its own for them.
const MAX_KEY: usize = 128;

/// Reads a whole frontmatter, which starts at `base` in its file.
pub(super) fn read(source: &str, base: u32, limits: &Limits) -> Option<Tree> {
    let tree = Tree { nodes: Vec::with_capacity(source.len() / 12), decoded: Decoded::default() };
    let mut reader = PlainReader { source, base, limits, tree, at: 0, line: 0, column: None, end: 0 };
    reader.find_content()?;
    let column = reader.column?;
    reader.mapping(column, 0)?;
    reader.column.is_none().then_some(reader.tree)
}

struct PlainReader<'s> {
    source: &'s str,
    base: u32,
    limits: &'s Limits,
    tree: Tree,
    at: usize,
    /// Where the current line starts.
    line: usize,
    /// The column of the content that `at` has come to; none at the end.
    column: Option<usize>,
    /// Where the latest value ends, and with it all collections whose last it is.
    end: usize,
}

/// Whether a list stands deeper than the key that it belongs to.
#[derive(Clone, Copy, PartialEq)]
enum ListIndent {
    Deeper,
    AsItsKey,
}

#[derive(Clone, Copy, PartialEq)]
enum Context {
    Block,
    Flow,
}

impl PlainReader<'_> {
    fn mapping(&mut self, column: usize, depth: usize) -> Option<()> {
        let node = self.open(Kind::Map, Style::Block, depth)?;
        let mut entries = 0;
        while self.column == Some(column) || entries == 0 {
            entries += 1;
            self.key()?;
            let colon = self.at;
            self.skip_spaces();
            if !self.is_line_over() {
                self.value(depth + 1)?;
                self.next_line()?;
                continue;
            }
            self.next_line()?;
            match self.column {
                Some(deeper) if deeper > column => self.block(deeper, depth + 1)?,
                Some(same) if same == column && self.is_dash() => {
                    self.list(column, ListIndent::AsItsKey, depth + 1)?;
                }
                _ => self.absent(colon)?,
            }
        }
        self.close(node, entries)?;
        self.is_closed_by_indent(column)
    }

    fn list(&mut self, column: usize, indent: ListIndent, depth: usize) -> Option<()> {
        let node = self.open(Kind::Seq, Style::Block, depth)?;
        while self.column == Some(column) {
            if !self.is_dash() {
                return if indent == ListIndent::AsItsKey { self.close(node, 0) } else { None };
            }
            self.at += 1;
            let dash = self.at;
            self.skip_spaces();
            if self.is_line_over() {
                self.next_line()?;
                match self.column {
                    Some(deeper) if deeper > column => self.block(deeper, depth + 1)?,
                    _ => self.absent(dash)?,
                }
            } else if self.is_key() {
                let inner = self.at - self.line;
                self.column = Some(inner);
                self.mapping(inner, depth + 1)?;
            } else {
                self.value(depth + 1)?;
                self.next_line()?;
            }
        }
        self.close(node, 0)?;
        self.is_closed_by_indent(column)
    }

    fn block(&mut self, column: usize, depth: usize) -> Option<()> {
        if self.is_dash() {
            self.list(column, ListIndent::Deeper, depth)
        } else {
            self.mapping(column, depth)
        }
    }

    /// A deeper line after a whole collection goes on with its last value, or is a mistake.
    fn is_closed_by_indent(&self, column: usize) -> Option<()> {
        self.column.is_none_or(|next| next <= column).then_some(())
    }

    /// A value on the line of its key or dash.
    fn value(&mut self, depth: usize) -> Option<()> {
        match self.byte() {
            b'"' | b'\'' => self.quoted(),
            b'[' | b'{' => self.flow(depth),
            _ => self.plain(Context::Block),
        }
    }

    fn flow(&mut self, depth: usize) -> Option<()> {
        let (kind, closing) = if self.byte() == b'[' { (Kind::Seq, b']') } else { (Kind::Map, b'}') };
        let node = self.open(kind, Style::Flow, depth)?;
        let mut items = 0;
        self.at += 1;
        self.skip_spaces();
        while self.byte() != closing || items > 0 {
            items += 1;
            if kind == Kind::Map {
                self.key()?;
                self.skip_spaces();
            }
            match self.byte() {
                b'"' | b'\'' => self.quoted()?,
                b'[' | b'{' => self.flow(depth + 1)?,
                _ => self.plain(Context::Flow)?,
            }
            self.skip_spaces();
            match self.byte() {
                b',' => self.at += 1,
                byte if byte == closing => break,
                _ => return None,
            }
            self.skip_spaces();
        }
        self.at += 1;
        self.end = self.at;
        self.close(node, items)
    }

    /// Reads a key with its colon.
    fn key(&mut self) -> Option<()> {
        let start = self.at;
        match self.byte() {
            b'"' | b'\'' => self.quoted()?,
            _ => {
                let end = self.end_of_plain_key()?;
                self.at = end;
                let kind = scalar::resolve(&self.source[start..end]);
                self.push(start, end, AS_WRITTEN, kind, Style::Plain)?;
            }
        }
        let fits = self.at - start <= MAX_KEY && self.is_colon(self.at);
        self.at += 1;
        fits.then_some(())
    }

    /// Whether a key stands here, after a dash.
    fn is_key(&self) -> bool {
        let quote = self.byte();
        if !matches!(quote, b'"' | b'\'') {
            return self.end_of_plain_key().is_some_and(|end| self.is_colon(end));
        }
        // With an escape in it the end is found too early, and the colon missed: then it is read as a value, and refused.
        let rest = &self.source.as_bytes()[self.at + 1..];
        let length = rest.iter().position(|byte| *byte == quote || *byte == b'\n');
        length.is_some_and(|length| self.is_colon(self.at + length + 2))
    }

    fn end_of_plain_key(&self) -> Option<usize> {
        let rest = &self.source.as_bytes()[self.at..];
        let length = rest.iter().position(|byte| CLASS[*byte as usize] & KEY == 0)?;
        let begins_well = rest[0].is_ascii_alphanumeric() || rest[0] == b'_';
        (length > 0 && begins_well).then_some(self.at + length)
    }

    fn plain(&mut self, context: Context) -> Option<()> {
        let bytes = self.source.as_bytes();
        let start = self.at;
        let first = self.byte();
        let begins_well = CLASS[first as usize] & BEGINS != 0
            || (first == b'-' && bytes.get(start + 1).is_some_and(u8::is_ascii_alphanumeric));
        if !begins_well {
            return None;
        }
        let mut at = start;
        loop {
            let byte = *bytes.get(at)?;
            let class = CLASS[byte as usize];
            if class & TEXT == 0 {
                match byte {
                    b'\n' if context == Context::Block => break,
                    b',' | b'[' | b']' | b'{' | b'}' if context == Context::Flow => break,
                    b',' | b'[' | b']' | b'{' | b'}' | b'"' | b'\'' | b'\\' => {}
                    b'#' if bytes[at - 1] != b' ' => {}
                    b'#' if context == Context::Block => break,
                    b':' if !self.ends_plain(at + 1, context) => {}
                    0x80.. if is_ordinary(bytes, at) => {}
                    _ => return None,
                }
            }
            at += 1;
        }
        self.at = at;
        let end = start + self.source[start..at].trim_end_matches(' ').len();
        let kind = scalar::resolve(&self.source[start..end]);
        self.push(start, end, AS_WRITTEN, kind, Style::Plain)
    }

    /// Whether a colon before this offset is no part of a plain text.
    fn ends_plain(&self, at: usize, context: Context) -> bool {
        match self.source.as_bytes().get(at) {
            None | Some(b' ' | b'\n' | b'\t' | b'\r') => true,
            Some(b',' | b'[' | b']' | b'{' | b'}') => context == Context::Flow,
            Some(_) => false,
        }
    }

    fn quoted(&mut self) -> Option<()> {
        let bytes = self.source.as_bytes();
        let (start, quote) = (self.at, self.byte());
        let style = if quote == b'"' { Style::Double } else { Style::Single };
        let mut at = start + 1;
        // What comes before is in the decoded text already.
        let mut rest = at;
        loop {
            let byte = *bytes.get(at)?;
            if CLASS[byte as usize] & (TEXT | QUOTED) == 0 {
                let next = bytes.get(at + 1).copied().unwrap_or(0);
                let decoded = match byte {
                    b'\'' if style == Style::Single && next == b'\'' => Some('\''),
                    b'\\' if style == Style::Double => Some(unescaped(next)?),
                    b'"' | b'\'' if byte == quote => break,
                    b'"' | b'\'' | b'\\' => None,
                    0x80.. if is_ordinary(bytes, at) => None,
                    _ => return None,
                };
                if let Some(decoded) = decoded {
                    self.tree.decoded.text.push_str(&self.source[rest..at]);
                    self.tree.decoded.text.push(decoded);
                    at += 1;
                    rest = at + 1;
                }
            }
            at += 1;
        }
        let extent =
            if rest == start + 1 { AS_WRITTEN } else { self.tree.decoded.push(&self.source[rest..at]) };
        self.at = at + 1;
        self.push(start, self.at, extent, Kind::Str, style)
    }

    fn absent(&mut self, at: usize) -> Option<()> {
        self.push(at, at, AS_WRITTEN, Kind::Null, Style::Absent)
    }

    fn open(&mut self, kind: Kind, style: Style, depth: usize) -> Option<usize> {
        if depth >= self.limits.depth {
            return None;
        }
        let node = self.tree.nodes.len();
        self.push(self.at, self.at, 0, kind, style)?;
        Some(node)
    }

    fn close(&mut self, node: usize, entries: usize) -> Option<()> {
        let size = self.tree.nodes.len() - node;
        let raw = &mut self.tree.nodes[node];
        raw.end = (self.end as u32).wrapping_add(self.base);
        raw.extent = size as u32;
        let is_map = raw.kind == Kind::Map;
        let twice = is_map && first_duplicate(&self.tree, self.source, self.base, node, entries).is_some();
        (!twice).then_some(())
    }

    fn push(&mut self, start: usize, end: usize, extent: u32, kind: Kind, style: Style) -> Option<()> {
        if self.tree.nodes.len() >= self.limits.nodes {
            return None;
        }
        let at = |offset: usize| (offset as u32).wrapping_add(self.base);
        self.tree.nodes.push(Raw { start: at(start), end: at(end), extent, kind, style });
        self.end = end;
        Some(())
    }

    /// From behind a value, a colon or a dash to the next content.
    fn next_line(&mut self) -> Option<()> {
        self.skip_spaces();
        if self.byte() == b'#' {
            let is_comment = self.source.as_bytes()[self.at - 1] == b' ';
            is_comment.then_some(())?;
            self.skip_comment()?;
        }
        (self.byte() == b'\n').then_some(())?;
        self.at += 1;
        self.find_content()
    }

    /// From the start of a line over empty lines and comments.
    fn find_content(&mut self) -> Option<()> {
        loop {
            self.line = self.at;
            self.skip_spaces();
            if self.byte() == b'#' {
                self.skip_comment()?;
            }
            if self.at >= self.source.len() {
                self.column = None;
                // The last line must be whole.
                return (self.line == self.at).then_some(());
            }
            if self.byte() != b'\n' {
                self.column = Some(self.at - self.line);
                return Some(());
            }
            self.at += 1;
        }
    }

    fn skip_comment(&mut self) -> Option<()> {
        let bytes = self.source.as_bytes();
        let mut at = self.at;
        loop {
            match *bytes.get(at)? {
                b'\n' => break,
                b' '..=b'~' => {}
                0x80.. if is_ordinary(bytes, at) => {}
                _ => return None,
            }
            at += 1;
        }
        self.at = at;
        Some(())
    }

    fn skip_spaces(&mut self) {
        while self.byte() == b' ' {
            self.at += 1;
        }
    }

    fn is_line_over(&self) -> bool {
        matches!(self.byte(), b'\n' | b'#')
    }

    fn is_dash(&self) -> bool {
        self.byte() == b'-' && matches!(self.source.as_bytes().get(self.at + 1), Some(b' ' | b'\n'))
    }

    fn is_colon(&self, at: usize) -> bool {
        let bytes = self.source.as_bytes();
        bytes.get(at) == Some(&b':') && matches!(bytes.get(at + 1), Some(b' ' | b'\n'))
    }

    /// The next byte; NUL at the end, which no rule accepts.
    fn byte(&self) -> u8 {
        self.source.as_bytes().get(self.at).copied().unwrap_or(0)
    }
}

/// What an escape stands for; the rarer ones are left to the parser.
fn unescaped(letter: u8) -> Option<char> {
    match letter {
        b'"' => Some('"'),
        b'\\' => Some('\\'),
        b'n' => Some('\n'),
        b't' => Some('\t'),
        _ => None,
    }
}

/// Whether the character that this byte beyond ASCII belongs to is an ordinary one: no control, no line break of its own, no
/// mark of byte order.
fn is_ordinary(bytes: &[u8], at: usize) -> bool {
    let next = |further: usize| bytes.get(at + further).copied().unwrap_or(0);
    match bytes[at] {
        0xc2 => next(1) >= 0xa0,
        0xe2 => next(1) != 0x80 || !matches!(next(2), 0xa8 | 0xa9),
        0xef => (next(1), next(2)) != (0xbb, 0xbf) && !(next(1) == 0xbf && next(2) >= 0xbe),
        _ => true,
    }
}

/// Text wherever it stands.
const TEXT: u8 = 1;
/// Text between quotes.
const QUOTED: u8 = 2;
const KEY: u8 = 4;
/// A plain text may begin with it.
const BEGINS: u8 = 8;

const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let each = byte as u8;
        class[byte] = match each {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' => TEXT | KEY | BEGINS,
            b'.' | b'/' => TEXT | KEY | BEGINS,
            b'-' => TEXT | KEY,
            b'(' | b'~' | b'+' | b'$' | b'<' | b'=' | b'^' | b';' => TEXT | BEGINS,
            b'#' | b':' | b',' | b'[' | b']' | b'{' | b'}' => QUOTED,
            b'"' | b'\'' | b'\\' => 0,
            b' '..=b'~' => TEXT,
            0x80.. => BEGINS,
            _ => 0,
        };
        byte += 1;
    }
    class
};
