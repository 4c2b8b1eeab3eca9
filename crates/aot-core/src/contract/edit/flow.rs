//! Items of flow collections: added and taken out. Knows commas, lines and comments between brackets; whether a
//! splice is right is for `splice` to prove.

use serde_json::{Map, Value};

use super::layout::{is_blank, line_end, line_start, next_line};
use super::render;
use super::splice::Splice;
use super::{CannotEdit, Editor};
use crate::contract::document::build::{skip, skip_blanks};
use crate::contract::document::{Kind, Style};

impl Editor<'_> {
    /// Adds a child before the `index`-th of a flow collection, or after its last. `whole` is what the collection
    /// says then.
    pub fn insert_flow(
        &mut self,
        chain: &[usize],
        index: usize,
        key: Option<&str>,
        value: &Value,
        whole: Value,
    ) -> Result<(), CannotEdit> {
        let collection = *chain.last().expect("a chain has at least the root");
        let raw = self.document.nodes[collection];
        let children = self.children(collection);
        let text = &self.document.text;
        let new = match key {
            Some(key) => render::flow_entry(key, value),
            None => render::flow(value, None),
        };
        let inside = raw.start as usize + 1..(raw.end as usize).saturating_sub(1);
        if raw.style == Style::Pair
            || (children.is_empty() && is_blank(&text[inside.clone()]) && chain.len() > 1)
        {
            return self.replace_value(chain, &whole);
        }
        let Some(&(_, last)) = children.last() else {
            return self.commit_value(chain, &[Splice::new(inside.start..inside.start, new)], &whole);
        };
        let newline = self.layout.newline;
        let splice = if let Some(&(before, _)) = children.get(index) {
            let start = self.document.nodes[before].start as usize;
            match self.own_line_indent(start) {
                Some(pad) => Splice::new(start..start, format!("{new},{newline}{pad}")),
                None => Splice::new(start..start, format!("{new}, ")),
            }
        } else {
            let end = self.document.nodes[last].end as usize;
            let start = self.document.nodes[children[children.len() - 1].0].start as usize;
            let comma = Some(skip(text, end)).filter(|&at| text[at..].starts_with(','));
            match (self.own_line_indent(start), comma) {
                (None, _) => Splice::new(end..end, format!(", {new}")),
                (Some(pad), Some(comma)) => {
                    let at = line_end(text, comma);
                    if self.is_rest_comment(comma + 1) {
                        Splice::new(at..at, format!("{newline}{pad}{new},"))
                    } else {
                        Splice::new(end..end, format!(", {new}"))
                    }
                }
                (Some(pad), None) if self.is_rest_comment(end) => {
                    let rest = end..line_end(text, end);
                    let comment = &text[rest.clone()];
                    Splice::new(rest, format!(",{comment}{newline}{pad}{new}"))
                }
                (Some(pad), None) => Splice::new(end..end, format!(",{newline}{pad}{new}")),
            }
        };
        self.commit_value(chain, &[splice], &whole)
    }

    pub fn remove_flow(&mut self, above: &[usize], child: usize) -> Result<(), CannotEdit> {
        let collection = *above.last().expect("a chain has at least the root");
        let children = self.children(collection);
        let place =
            children.iter().position(|&(_, last)| last == child).expect("a chain leads from parent to child");
        let whole = self.without(above, place);
        let text = &self.document.text;
        let raw = self.document.nodes[collection];
        let (start, end) =
            (self.document.nodes[children[place].0].start as usize, self.document.nodes[child].end as usize);
        let comma = Some(skip(text, end)).filter(|&at| text[at..].starts_with(','));
        let behind = comma.map_or(end, |comma| comma + 1);
        let mut ranges = Vec::new();
        if raw.style != Style::Pair {
            if self.own_line_indent(start).is_some()
                && self.is_rest_comment(behind)
                && !text[end..behind].contains('\n')
            {
                ranges.push(line_start(text, start)..next_line(text, behind));
            }
            if let Some(&(next, _)) = children.get(place + 1) {
                let next = self.document.nodes[next].start as usize;
                if !text[end..next].contains('#') {
                    ranges.push(start..next);
                }
                ranges.push(start..skip_blanks(text, behind));
            } else {
                if place > 0 {
                    let before = self.document.nodes[children[place - 1].1].end as usize;
                    if !text[before..start].contains('#') {
                        ranges.push(before..end);
                    }
                }
                ranges.push(start..behind);
            }
        }
        let mut splices: Vec<_> = ranges.into_iter().map(|range| Splice::new(range, "")).collect();
        if children.len() == 1 {
            let inside = &text[raw.start as usize..raw.end as usize];
            let empty = Splice::new(raw.span(), if raw.kind == Kind::Map { "{}" } else { "[]" });
            let at = if inside.contains('#') { splices.len() } else { 0 };
            splices.insert(at, empty);
        }
        self.commit_value(above, &splices, &whole)
    }

    /// What a collection says without its `place`-th child.
    fn without(&self, chain: &[usize], place: usize) -> Value {
        match self.node(chain).exact() {
            Value::Array(items) => {
                items.into_iter().enumerate().filter(|&(at, _)| at != place).map(|(_, item)| item).collect()
            }
            Value::Object(entries) => {
                let kept =
                    entries.into_iter().enumerate().filter(|&(at, _)| at != place).map(|(_, entry)| entry);
                Value::Object(kept.collect::<Map<_, _>>())
            }
            scalar => scalar,
        }
    }

    /// The indentation, if nothing but that stands before `at` on its line.
    fn own_line_indent(&self, at: usize) -> Option<String> {
        let before = &self.document.text[line_start(&self.document.text, at)..at];
        is_blank(before).then(|| before.to_owned())
    }

    /// Whether the rest of the line is blank or a comment.
    fn is_rest_comment(&self, at: usize) -> bool {
        let text = &self.document.text;
        let rest = &text[skip_blanks(text, at)..line_end(text, at).max(skip_blanks(text, at))];
        rest.is_empty() || rest.starts_with('#')
    }
}
