//! From the parser's events to the arena. Knows where each token of the source lies; nothing of files.
//!
//! The parser's spans of block collections, nulls and block scalars do not say where their indicators are, and edits
//! need to know. So a cursor follows the source and accounts for every `-`, `:` and `,` between two events. Source
//! that the parser accepts and the cursor cannot account for is refused: what is not understood is not edited.

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, StructureStyle};

use super::node::written;
use super::{AS_WRITTEN, Decoded, Fault, Kind, Limits, Raw, Style, plain, scalar};

#[derive(Debug, PartialEq)]
pub(in crate::contract) struct Tree {
    pub nodes: Vec<Raw>,
    pub decoded: Decoded,
}

impl Tree {
    fn keys<'t>(&'t self, map: usize, source: &'t str, base: u32) -> impl Iterator<Item = (usize, &'t str)> {
        let mut next = map + 1;
        std::iter::from_fn(move || {
            let key = next;
            let value = self.nodes.get(key + 1)?;
            next += 1 + value.size();
            Some((key, self.text_of(key, source, base)))
        })
    }

    fn text_of<'t>(&'t self, node: usize, source: &'t str, base: u32) -> &'t str {
        let raw = &self.nodes[node];
        if raw.extent != AS_WRITTEN {
            return self.decoded.get(raw.extent);
        }
        let at = |offset: u32| offset.wrapping_sub(base) as usize;
        written(&source[at(raw.start)..at(raw.end)], raw.style)
    }
}

/// Two equal keys of the mapping that ends with the last node.
pub(super) fn first_duplicate(
    tree: &Tree,
    source: &str,
    base: u32,
    map: usize,
    entries: usize,
) -> Option<(usize, usize)> {
    /// Up to here, comparing each with each is cheaper than a hash.
    const FEW: usize = 12;
    let mut keys = tree.keys(map, source, base);
    if entries > FEW {
        let mut seen = HashMap::with_capacity(entries);
        return keys.find_map(|(at, text)| seen.insert(text, at).map(|first| (first, at)));
    }
    let mut seen = [(0, ""); FEW];
    for (count, (at, text)) in keys.enumerate() {
        if let Some((first, _)) = seen[..count].iter().find(|(_, other)| *other == text) {
            return Some((*first, at));
        }
        seen[count] = (at, text);
    }
    None
}

/// Reads a whole frontmatter, which starts at `base` in its file.
pub(super) fn frontmatter(source: &str, base: usize, limits: &Limits) -> Result<Tree, Fault> {
    let tree = match plain::read(source, base as u32, limits) {
        Some(tree) => tree,
        None => read(source, base as u32, limits)?,
    };
    let hint = "write the frontmatter as `key: value` lines";
    match tree.nodes.first() {
        None => Err(Fault::new("empty_frontmatter", base, "the frontmatter is empty", hint)),
        Some(root) if root.kind == Kind::Map => Ok(tree),
        Some(root) => {
            let message = "the frontmatter is not a mapping of keys to values";
            Err(Fault::new("not_a_mapping", root.start as usize, message, hint))
        }
    }
}

/// Reads any one YAML document; offsets in the result are those of `source` plus `base`, modulo 2^32.
pub(in crate::contract) fn read(source: &str, base: u32, limits: &Limits) -> Result<Tree, Fault> {
    let options = granit_parser::options! {
        emit_comments: false,
        disallow_directives: true,
        flow_nesting_limit: limits.depth.saturating_add(2),
        block_nesting_limit: limits.depth.saturating_add(2),
    };
    let mut builder = Builder {
        source,
        base,
        limits,
        tree: Tree { nodes: Vec::new(), decoded: Decoded::default() },
        open: Vec::new(),
        cursor: 0,
        documents: 0,
    };
    for next in Parser::new_from_str_with_options(source, options) {
        let (event, span) = next.map_err(|error| builder.scan_fault(&error))?;
        builder.on(event, span)?;
    }
    Ok(builder.tree)
}

/// The offset of the next byte that is neither white space nor in a comment.
pub(in crate::contract) fn skip(source: &str, mut at: usize) -> usize {
    let bytes = source.as_bytes();
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            b'#' => at += source[at..].find('\n').unwrap_or(source.len() - at),
            _ => break,
        }
    }
    at
}

/// The offset of the next byte on this line that is no white space.
pub(in crate::contract) fn skip_blanks(source: &str, at: usize) -> usize {
    at + source.as_bytes()[at..].iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count()
}

fn is_spaces(text: &str) -> bool {
    text.bytes().all(|byte| byte == b' ')
}

struct Builder<'s> {
    source: &'s str,
    base: u32,
    limits: &'s Limits,
    tree: Tree,
    open: Vec<Open>,
    /// Everything before this offset is accounted for.
    cursor: usize,
    documents: usize,
}

/// A collection whose end has not come.
struct Open {
    node: usize,
    kind: Kind,
    style: Style,
    children: usize,
}

/// What the next node is to its parent.
#[derive(Clone, Copy, PartialEq)]
enum NodeRole {
    Root,
    Item,
    Key,
    Value,
}

impl<'s> Builder<'s> {
    fn on(&mut self, event: Event<'s>, span: Span) -> Result<(), Fault> {
        let range = span.byte_range().expect("a parser over a string knows byte offsets");
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_properties(anchor, tag.is_some(), range.start)?;
                self.scalar(&text, style, range, span.indent)
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.refuse_properties(anchor, tag.is_some(), range.start)?;
                self.collection(Kind::Seq, style, range)
            }
            Event::MappingStart(style, anchor, tag) => {
                self.refuse_properties(anchor, tag.is_some(), range.start)?;
                self.collection(Kind::Map, style, range)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(range.end),
            Event::Alias(_) | Event::UnresolvedAlias(_) => Err(self.alias(range.start)),
            Event::DocumentStart(explicit, _) => {
                self.documents += 1;
                if explicit || self.documents > 1 { Err(self.second_document(range.start)) } else { Ok(()) }
            }
            Event::DocumentEnd if !range.is_empty() => Err(self.second_document(range.start)),
            Event::StreamEnd => {
                let rest = skip(self.source, self.cursor);
                if rest == self.source.len() || self.tree.nodes.is_empty() {
                    Ok(())
                } else {
                    Err(self.unaccounted(rest))
                }
            }
            // The parser's enum is open. What is left carries no value.
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        range: std::ops::Range<usize>,
        indent: Option<usize>,
    ) -> Result<(), Fault> {
        let role = self.enter()?;
        let style = match style {
            ScalarStyle::Plain if range.is_empty() => Style::Absent,
            ScalarStyle::Plain => Style::Plain,
            ScalarStyle::SingleQuoted => Style::Single,
            ScalarStyle::DoubleQuoted => Style::Double,
            ScalarStyle::Literal => Style::Literal,
            ScalarStyle::Folded => Style::Folded,
        };
        let span = match style {
            Style::Absent if role == NodeRole::Key => {
                let hint = "give the key a name";
                return Err(self.fault("empty_key", self.cursor, "a mapping key is empty", hint));
            }
            Style::Absent if role == NodeRole::Root => return Ok(()),
            Style::Absent => self.cursor..self.cursor,
            Style::Literal | Style::Folded => self.block_scalar(range.end, indent)?,
            Style::Plain | Style::Single | Style::Double | Style::Block | Style::Flow | Style::Pair => {
                self.expect_start(range.start)?;
                range
            }
        };
        let kind = match style {
            Style::Absent => Kind::Null,
            Style::Plain => scalar::resolve(text),
            Style::Single | Style::Double | Style::Literal | Style::Folded => Kind::Str,
            Style::Block | Style::Flow | Style::Pair => unreachable!("a scalar's style was made above"),
        };
        let as_written = style == Style::Absent || written(&self.source[span.clone()], style) == text;
        let extent = if as_written { AS_WRITTEN } else { self.tree.decoded.push(text) };
        self.cursor = span.end;
        self.push(span, extent, kind, style)?;
        if role == NodeRole::Key {
            self.colon(style)?;
        }
        Ok(())
    }

    fn collection(
        &mut self,
        kind: Kind,
        style: StructureStyle,
        range: std::ops::Range<usize>,
    ) -> Result<(), Fault> {
        let role = self.enter()?;
        if role == NodeRole::Key {
            let message = "a mapping key is a collection";
            return Err(self.fault(
                "key_not_scalar",
                range.start,
                message,
                "use a word or a quoted text as the key",
            ));
        }
        if self.open.len() >= self.limits.depth {
            let message = format!("collections are nested deeper than {} levels", self.limits.depth);
            return Err(self.fault("too_deep", range.start, message, "flatten the nested value"));
        }
        let style = match style {
            StructureStyle::Block => Style::Block,
            StructureStyle::Flow if range.is_empty() => Style::Pair,
            StructureStyle::Flow => Style::Flow,
        };
        let start = skip(self.source, self.cursor);
        if style == Style::Flow {
            self.expect_start(range.start)?;
            self.cursor = range.end;
        }
        self.open.push(Open { node: self.tree.nodes.len(), kind, style, children: 0 });
        self.push(start..start, 0, kind, style)
    }

    fn close(&mut self, end: usize) -> Result<(), Fault> {
        let open = self.open.pop().expect("the parser closes what it opened");
        if open.style == Style::Flow {
            self.cursor = end;
        }
        let end = (self.cursor as u32).wrapping_add(self.base);
        let size = self.tree.nodes.len() - open.node;
        let raw = &mut self.tree.nodes[open.node];
        raw.end = end;
        raw.extent = size as u32;
        if open.kind == Kind::Map { self.refuse_duplicates(&open) } else { Ok(()) }
    }

    /// Steps over the indicators before the next node, and says what the node is to its parent.
    fn enter(&mut self) -> Result<NodeRole, Fault> {
        let Some(open) = self.open.last_mut() else { return Ok(NodeRole::Root) };
        let role = match open.kind {
            Kind::Map if open.children % 2 == 0 => NodeRole::Key,
            Kind::Map => NodeRole::Value,
            _ => NodeRole::Item,
        };
        let indicator = match (open.style, role) {
            (Style::Block, NodeRole::Item) => Some(b'-'),
            (Style::Flow, NodeRole::Item | NodeRole::Key) if open.children > 0 => Some(b','),
            _ => None,
        };
        open.children += 1;
        if let Some(indicator) = indicator {
            let at = skip(self.source, self.cursor);
            if self.source.as_bytes().get(at) != Some(&indicator) {
                return Err(self.unaccounted(at));
            }
            self.cursor = at + 1;
        }
        Ok(role)
    }

    /// Steps over the `:` after a key; in a flow mapping there may be none.
    fn colon(&mut self, key: Style) -> Result<(), Fault> {
        let block = self.open.last().is_some_and(|open| open.style == Style::Block);
        let at = if block { skip_blanks(self.source, self.cursor) } else { skip(self.source, self.cursor) };
        if self.source.as_bytes().get(at) == Some(&b':') && !matches!(key, Style::Literal | Style::Folded) {
            self.cursor = at + 1;
        } else if block {
            return Err(self.explicit_key(self.cursor));
        }
        Ok(())
    }

    fn expect_start(&self, start: usize) -> Result<(), Fault> {
        let at = skip(self.source, self.cursor);
        if at == start { Ok(()) } else { Err(self.unaccounted(at)) }
    }

    /// The span from the header (`|-`) to the end of the last line that is content, without its line break.
    fn block_scalar(&self, end: usize, indent: Option<usize>) -> Result<std::ops::Range<usize>, Fault> {
        let start = skip(self.source, self.cursor);
        let Some(line) = self.source.get(start..).filter(|rest| rest.starts_with(['|', '>'])) else {
            return Err(self.unaccounted(start));
        };
        let header = &line[..line.find('\n').unwrap_or(line.len())];
        let header_end = start + header.trim_end().len();
        let keeps = header.split_whitespace().next().is_some_and(|indicators| indicators.contains('+'));
        // The parser's span may run on into the indentation of the next line.
        let line_start = self.source[..end].rfind('\n').map_or(0, |at| at + 1);
        let mut end = if is_spaces(&self.source[line_start..end]) { line_start } else { end }.max(header_end);
        if keeps {
            let content = &self.source[start..end];
            let content = content.strip_suffix('\n').unwrap_or(content);
            return Ok(start..(start + content.strip_suffix('\r').unwrap_or(content).len()).max(header_end));
        }
        // White space beyond the content's indentation is content, even alone on its line.
        let indent = indent.unwrap_or(0);
        while end > header_end {
            let content = &self.source[header_end..end];
            let line_start = header_end + content.rfind('\n').map_or(0, |at| at + 1);
            let line = self.source[line_start..end].trim_end_matches('\r');
            if line_start == header_end || !is_spaces(line) || line.len() > indent {
                end = line_start + line.len();
                break;
            }
            end = line_start - 1;
        }
        Ok(start..end.max(header_end))
    }

    fn push(
        &mut self,
        span: std::ops::Range<usize>,
        extent: u32,
        kind: Kind,
        style: Style,
    ) -> Result<(), Fault> {
        if self.tree.nodes.len() >= self.limits.nodes {
            let message = format!("the frontmatter has more than {} values", self.limits.nodes);
            return Err(self.fault(
                "too_many_nodes",
                span.start,
                message,
                "split the work into several state files",
            ));
        }
        let at = |offset: usize| (offset as u32).wrapping_add(self.base);
        self.tree.nodes.push(Raw { start: at(span.start), end: at(span.end), extent, kind, style });
        Ok(())
    }

    fn refuse_duplicates(&self, open: &Open) -> Result<(), Fault> {
        let pair = first_duplicate(&self.tree, self.source, self.base, open.node, open.children / 2);
        let Some((first, second)) = pair else { return Ok(()) };
        let offset = |node: usize| self.tree.nodes[node].start.wrapping_sub(self.base) as usize;
        let message =
            format!("mapping key `{}` appears twice", self.tree.text_of(second, self.source, self.base));
        let fault = self.fault("duplicate_key", offset(second), message, "remove one of them");
        Err(Fault { other: Some(offset(first) + self.base as usize), ..fault })
    }

    fn refuse_properties(&self, anchor: usize, tag: bool, at: usize) -> Result<(), Fault> {
        if anchor != 0 {
            let hint = "remove the `&name` and repeat the value where it is needed";
            return Err(self.fault("anchor", at, "anchors (`&name`) are not allowed", hint));
        }
        if tag {
            let hint = "remove the tag; quote the value if it must be text";
            return Err(self.fault("tag", at, "tags (`!name`) are not allowed", hint));
        }
        Ok(())
    }

    fn alias(&self, at: usize) -> Fault {
        let hint = "write the value itself, or quote it if it is text that begins with `*`";
        self.fault("alias", at, "aliases (`*name`) are not allowed", hint)
    }

    fn second_document(&self, at: usize) -> Fault {
        let hint = "keep one YAML document between the two `---` lines";
        self.fault("several_documents", at, "the frontmatter has a document marker inside", hint)
    }

    fn explicit_key(&self, at: usize) -> Fault {
        self.fault("explicit_key", at, "a key is written with `?`", "write it as `key: value` on one line")
    }

    fn unaccounted(&self, at: usize) -> Fault {
        match self.source.as_bytes().get(at) {
            Some(b'?') => self.explicit_key(at),
            Some(b'.' | b'-') if self.tree.nodes.len() <= 1 => self.second_document(at),
            Some(_) | None => {
                let message = "this form of YAML is not supported here";
                self.fault("unsupported_yaml", at, message, "write it in a plainer form, or quote the text")
            }
        }
    }

    fn scan_fault(&self, error: &ScanError) -> Fault {
        let at = error.marker().byte_offset().unwrap_or(self.cursor).min(self.source.len());
        match error.kind() {
            ErrorKind::UnknownAnchor => self.alias(at),
            ErrorKind::DirectiveDisallowed => {
                let message = "directives (`%YAML`, `%TAG`) are not allowed";
                self.fault("directive", at, message, "remove the line that begins with `%`")
            }
            ErrorKind::RecursionLimitExceeded => {
                let message = format!("collections are nested deeper than {} levels", self.limits.depth);
                self.fault("too_deep", at, message, "nest less deeply")
            }
            _ => {
                let hint = "correct the YAML at this place; a text with special characters needs quotes";
                self.fault("invalid_yaml", at, error.info(), hint)
            }
        }
    }

    fn fault(&self, code: &'static str, at: usize, message: impl Into<String>, hint: &'static str) -> Fault {
        Fault::new(code, (at as u32).wrapping_add(self.base) as usize, message, hint)
    }
}
