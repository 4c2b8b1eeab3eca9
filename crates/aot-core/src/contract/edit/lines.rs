//! Entries of block collections as lines: replaced, added and taken out. Knows indentation, comments and blank lines;
//! whether a splice is right is for `splice` to prove.

use serde_json::Value;

use super::layout::{column, is_blank, line_end, line_start, next_line};
use super::render::{self, Under, WrittenForm, block_forms};
use super::splice::Splice;
use super::{CannotEdit, Editor, refuse};
use crate::contract::document::build::{skip, skip_blanks};
use crate::contract::document::{Document, Kind, Node, Raw, Style};

/// The offset of the dash before an item of a block sequence.
pub(super) fn dash_of(document: &Document, seq: usize, item: usize) -> usize {
    let start = document.nodes[item].start as usize;
    let before = document.text[..start].trim_end_matches([' ', '\t']);
    if before.ends_with('-') {
        return before.len() - 1;
    }
    // The item begins below its dash, behind which there may be comments: so it is looked for from the left.
    let before = Node::new(document, seq).items().take_while(|other| other.index() < item).last();
    let from = before.map_or(document.nodes[seq].start, |before| document.nodes[before.index()].end);
    skip(&document.text, from as usize)
}

/// The offset behind the `:` or the `-` that a block value follows.
fn behind_indicator(document: &Document, parent: usize, child: usize) -> usize {
    match document.nodes[parent].kind {
        Kind::Map => skip_blanks(&document.text, document.nodes[child - 1].end as usize) + 1,
        _ => dash_of(document, parent, child) + 1,
    }
}

/// Whether JSON cannot say what this value stands for; see [`Node::exact`].
fn is_unspeakable(value: &Value) -> bool {
    match value {
        Value::Object(entries) => {
            entries.iter().any(|(key, value)| key.starts_with('\0') || is_unspeakable(value))
        }
        Value::Array(items) => items.iter().any(is_unspeakable),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

impl Editor<'_> {
    /// Writes `value` in place of the last node of the chain, whatever that was.
    pub fn replace_value(&mut self, chain: &[usize], value: &Value) -> Result<(), CannotEdit> {
        if is_unspeakable(value) {
            return refuse("cannot_write", "a key begins with a NUL character, or a number is not finite");
        }
        let (&at, above) = chain.split_last().expect("a chain has at least the root");
        let parent = *above.last().expect("the root is never replaced");
        let old = self.document.nodes[at];
        let was = (!old.kind.is_collection())
            .then_some((old.style, old.kind))
            .filter(|(style, _)| *style != Style::Absent);
        let splices = if self.document.nodes[parent].style == Style::Block {
            let text = &self.document.text;
            let behind = behind_indicator(self.document, parent, at);
            let under = match self.document.nodes[parent].kind {
                Kind::Map => Under::Key(column(text, self.document.nodes[at - 1].start as usize)),
                _ => Under::Dash(column(text, behind) + self.gap(parent, at)),
            };
            let forms = block_forms(value, was, under, &self.layout);
            forms.iter().map(|form| self.replacement(&old, behind, form, under)).collect()
        } else {
            let text = render::flow(value, was);
            let text = match old.style {
                Style::Absent if self.document.text[..old.start as usize].ends_with(':') => {
                    format!(" {text}")
                }
                Style::Absent => format!(": {text}"),
                _ => text,
            };
            vec![Splice::new(old.span(), text)]
        };
        self.commit_value(chain, &splices, value)
    }

    /// The spaces between a dash and what follows it.
    fn gap(&self, seq: usize, item: usize) -> usize {
        let dash = dash_of(self.document, seq, item);
        let start = self.document.nodes[item].start as usize;
        let between = &self.document.text[dash + 1..start.max(dash + 1)];
        if !between.is_empty() && between.bytes().all(|byte| byte == b' ') { between.len() } else { 1 }
    }

    /// The splice that puts a form behind its indicator and keeps the comment of the line.
    fn replacement(&self, old: &Raw, behind: usize, form: &WrittenForm, under: Under) -> Splice {
        let text = &self.document.text;
        let (start, end) = (old.start as usize, old.end as usize);
        let is_scalar_block = matches!(old.style, Style::Literal | Style::Folded);
        let is_inline = !matches!(old.style, Style::Absent | Style::Block) && !is_scalar_block;
        if let (WrittenForm::Inline(new), true) = (form, is_inline) {
            return Splice::new(start..end, new.as_str());
        }
        let on_line = old.style != Style::Absent && line_start(text, start) == line_start(text, behind);
        let mut comment = String::new();
        if !on_line {
            comment.push_str(text[behind..line_end(text, behind)].trim_end());
        }
        if is_inline {
            comment.push_str(text[end..line_end(text, end)].trim_end());
        } else if is_scalar_block {
            let header = &text[start..line_end(text, start)];
            comment.push_str(header.find([' ', '\t']).map_or("", |at| header[at..].trim_end()));
        }
        let tail = match old.style {
            Style::Absent => line_end(text, behind),
            Style::Literal | Style::Folded => end,
            _ => line_end(text, end),
        };
        let newline = self.layout.newline;
        // Comments above a block collection's first entry are nobody's but the key's, and stay.
        let above = match old.style {
            Style::Block if !on_line => text[line_end(text, behind)..line_start(text, start)].trim_end(),
            _ => "",
        };
        let new = match (form, under) {
            (WrittenForm::Inline(new), _) => format!(" {new}{comment}{above}"),
            (WrittenForm::Scalar(header, lines), _) => format!(" {header}{comment}{newline}{lines}"),
            (WrittenForm::Lines(lines), Under::Key(_)) => format!("{comment}{above}{newline}{lines}"),
            (WrittenForm::Lines(lines), Under::Dash(content)) => {
                let (first, rest) = lines.split_once('\n').unwrap_or((lines, ""));
                let gap = " ".repeat(content - column(text, behind));
                let rest = if rest.is_empty() { String::new() } else { format!("{newline}{rest}") };
                format!("{gap}{}{comment}{rest}", first.trim_matches([' ', '\r']))
            }
        };
        Splice::new(behind..tail, new)
    }

    /// Adds an entry to a block collection: before its `index`-th, or after the last.
    pub fn insert_lines(
        &mut self,
        chain: &[usize],
        index: usize,
        key: Option<&str>,
        value: &Value,
    ) -> Result<(), CannotEdit> {
        if is_unspeakable(value) || key.is_some_and(|key| key.starts_with('\0')) {
            return refuse("cannot_write", "a key begins with a NUL character");
        }
        let collection = *chain.last().expect("a chain has at least the root");
        let children = self.children(collection);
        let text = &self.document.text;
        let indent = column(text, self.document.nodes[collection].start as usize);
        let (under, gap) = match (key, children.get(index.saturating_sub(1)).or(children.last())) {
            (None, Some(&(_, sibling))) => {
                let gap = self.gap(collection, sibling);
                (Under::Dash(indent + 1 + gap), gap)
            }
            _ => (Under::Key(indent), 1),
        };
        let newline = self.layout.newline;
        let forms = block_forms(value, None, under, &self.layout);
        let texts = forms.iter().map(|form| match key {
            Some(key) => render::entry(key, form, &self.layout),
            None => render::item(gap, form, &self.layout),
        });
        let added = (key.map(str::to_owned), value.clone());
        let pad = " ".repeat(indent);
        if index == 0 {
            let (first, last) = children[0];
            let separator = self.separator(&children, 1);
            let start = self.document.nodes[collection].start as usize;
            let splices: Vec<_> = texts
                .map(|text| Splice::new(start..start, format!("{text}{newline}{separator}{pad}")))
                .collect();
            let wanted = [added, self.entry(first, last)];
            let scope = self.scope(chain, first, last);
            return self.commit(&scope, &splices, &wanted);
        }
        let place = index.min(children.len()) - 1;
        let (first, last) = children[place];
        let separator = self.separator(&children, place.max(1));
        let end = next_line(text, self.document.nodes[last].end as usize);
        let mut after_comments = end;
        let own_comments = self.own_comments(collection, chain);
        while is_comment(&text[after_comments..next_line(text, after_comments)], own_comments)
            && next_line(text, after_comments) <= self.document.front.end
        {
            after_comments = next_line(text, after_comments);
        }
        let texts: Vec<_> = texts.collect();
        // A block scalar before may take in a blank line or a comment; then the entry stands right behind it.
        let mut places = vec![(after_comments, separator), (end, separator), (end, "")];
        places.dedup();
        let splices: Vec<_> = (places.iter())
            .flat_map(|place| texts.iter().map(move |text| (place, text)))
            .map(|(&(at, separator), text)| Splice::new(at..at, format!("{separator}{pad}{text}{newline}")))
            .collect();
        let wanted = [self.entry(first, last), added];
        let scope = self.scope(chain, first, last);
        self.commit(&scope, &splices, &wanted)
    }

    /// The least column of comments that belong to this collection and not to what follows it.
    fn own_comments(&self, collection: usize, chain: &[usize]) -> usize {
        let text = &self.document.text;
        let indent = column(text, self.document.nodes[collection].start as usize);
        // A list whose dashes stand under its key shares its column with the next key's comments.
        let key = (chain.len() > 1 && collection > 0).then(|| &self.document.nodes[collection - 1]);
        let is_under_key = self.document.nodes[collection].kind == Kind::Seq
            && key.is_some_and(|key| !key.kind.is_collection() && column(text, key.start as usize) == indent);
        if is_under_key { indent + 1 } else { indent }
    }

    /// A line break, if a blank line stands before the child at `place`.
    fn separator(&self, children: &[(usize, usize)], place: usize) -> &'static str {
        let (Some(before), Some(child)) = (children.get(place.wrapping_sub(1)), children.get(place)) else {
            return "";
        };
        let text = &self.document.text;
        let between = next_line(text, self.document.nodes[before.1].end as usize)
            ..line_start(text, self.document.nodes[child.0].start as usize);
        let is_separated = text.get(between).is_some_and(|between| between.lines().any(is_blank));
        if is_separated { self.layout.newline } else { "" }
    }

    /// The first and the last direct node of each entry: key and value, or twice the item.
    pub fn children(&self, collection: usize) -> Vec<(usize, usize)> {
        let node = Node::new(self.document, collection);
        match node.kind() {
            Kind::Map => node.entries().map(|(key, value)| (key.index(), value.index())).collect(),
            _ => node.items().map(|item| (item.index(), item.index())).collect(),
        }
    }

    /// Takes out one of several entries of a block collection with its own lines; comments above it stay.
    pub fn remove_lines(&mut self, above: &[usize], child: usize) -> Result<(), CannotEdit> {
        let collection = *above.last().expect("a chain has at least the root");
        let children = self.children(collection);
        let place =
            children.iter().position(|&(_, last)| last == child).expect("a chain leads from parent to child");
        let text = &self.document.text;
        let start_of = |(first, last): (usize, usize)| {
            if first == last {
                dash_of(self.document, collection, first)
            } else {
                self.document.nodes[first].start as usize
            }
        };
        let start = start_of(children[place]);
        let line = line_start(text, start);
        let last_line = self.document.nodes[child].end as usize;
        let end = next_line(text, last_line).min(self.document.front.end);
        let mut splices = Vec::new();
        let mut followed = None;
        let mut from = start;
        if text[line..start].bytes().all(|byte| byte == b' ') {
            let blank_after =
                |at: usize| is_blank(&text[at..next_line(text, at)]) && at < self.document.front.end;
            let blank_before =
                line > self.document.front.start && is_blank(&text[line_start(text, line - 1)..line]);
            if blank_before && blank_after(end) {
                splices.push(line..next_line(text, end));
            }
            splices.push(line..end);
            let mut blanks = end;
            while blank_after(blanks) {
                blanks = next_line(text, blanks);
            }
            splices.push(line..blanks);
            followed = Some(line);
        } else if let Some(&next) = children.get(place + 1) {
            let next = start_of(next);
            if !text[end..next].contains('#') {
                splices.push(start..next);
            }
            // The comments above the next entry stay, and the dash stands alone on its line.
            let dash = text[..start].trim_end_matches([' ', '\t']).len();
            splices.push(dash..line_end(text, last_line));
            from = dash;
        }
        let mut splices: Vec<_> = splices.into_iter().map(|range| Splice::new(range, "")).collect();
        if let Some(line) = followed {
            // A block scalar before the entry would take in the comments after it; left of it they stay comments.
            let next = line_start(text, skip(text, last_line).min(self.document.front.end)).max(end);
            let pad = " ".repeat(start - line);
            let comments = text[end..next].lines().filter(|line| !is_blank(line));
            let comments = comments.map(|line| format!("{pad}{}{}", line.trim(), self.layout.newline));
            splices.push(Splice::new(line..next, comments.collect::<String>()));
        }
        let (mut scope, kept) = if place > 0 {
            (self.scope(above, children[place - 1].0, child), children[place - 1])
        } else {
            (self.scope(above, children[0].0, children[1].1), children[1])
        };
        // The first entry goes with the indentation of its line.
        let from = followed.unwrap_or(from);
        scope.bytes.start = scope.bytes.start.min(from);
        let wanted = [self.entry(kept.0, kept.1)];
        self.commit(&scope, &splices, &wanted)
    }
}

fn is_comment(line: &str, least_column: usize) -> bool {
    let content = line.trim_start_matches(' ');
    content.starts_with('#') && line.len() - content.len() >= least_column
}
