//! Lossless changes to a document. Knows paths and values; how a value is written and what a state means live
//! elsewhere.
//!
//! A change is the smallest splice that makes it. After it only the entry that holds it is parsed again and compared
//! with what was wanted; a splice that does not say exactly that is undone, and the next form of it is tried.

mod flow;
mod layout;
mod lines;
mod render;
mod splice;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::document::{Document, Kind, Node, Style};
use layout::Layout;

/// One step from a collection to a value in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    Key(String),
    Index(usize),
}

impl From<&str> for PathStep {
    fn from(key: &str) -> PathStep {
        PathStep::Key(key.to_owned())
    }
}

impl From<usize> for PathStep {
    fn from(index: usize) -> PathStep {
        PathStep::Index(index)
    }
}

/// The way from the root to a value.
pub type Path = Vec<PathStep>;

/// A change of one place of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Makes the place say `value`. A missing last key is added at the end of its mapping, with the mappings missing
    /// on the way to it.
    Set { path: Path, value: Value },
    /// Takes an entry out of its mapping or an item out of its sequence.
    Remove { path: Path },
    /// Adds an item at the end of the sequence at `path`, which is made if it is missing or null.
    Push { path: Path, value: Value },
    /// Puts an item before the one at `path`, or at the end if `path` is one past it.
    Insert { path: Path, value: Value },
}

/// Why an edit was not made. The document is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot change `{path}`: {reason}")]
pub struct EditRefused {
    pub code: &'static str,
    pub path: String,
    pub reason: String,
}

impl Document {
    /// Makes all the edits in order, each path seen in the document as the edit before it left it; or none of them.
    pub fn edit(&mut self, edits: &[Edit]) -> Result<(), EditRefused> {
        *self = self.edited(edits)?;
        Ok(())
    }

    /// A copy of the document with all the edits made, as in [`Document::edit`].
    pub fn edited(&self, edits: &[Edit]) -> Result<Document, EditRefused> {
        let mut edited = self.clone();
        let mut editor = Editor { layout: Layout::of(self), document: &mut edited };
        for edit in edits {
            editor.make(edit).map_err(|refusal| EditRefused {
                code: refusal.code,
                path: shown(edit.path()),
                reason: refusal.reason,
            })?;
        }
        edited.forget_dead_texts(self.decoded.ends.len());
        Ok(edited)
    }
}

impl Edit {
    pub fn path(&self) -> &[PathStep] {
        match self {
            Edit::Set { path, .. }
            | Edit::Remove { path }
            | Edit::Push { path, .. }
            | Edit::Insert { path, .. } => path,
        }
    }
}

/// A path as a person writes it: `atoms[3].status`.
fn shown(path: &[PathStep]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            PathStep::Key(key) if text.is_empty() => text.push_str(key),
            PathStep::Key(key) => text.extend([".", key]),
            PathStep::Index(index) => text.extend(["[", &index.to_string(), "]"]),
        }
    }
    text
}

#[derive(Debug)]
struct CannotEdit {
    code: &'static str,
    reason: String,
}

fn refuse<T>(code: &'static str, reason: impl Into<String>) -> Result<T, CannotEdit> {
    Err(CannotEdit { code, reason: reason.into() })
}

/// The nodes from the root to one node, which is the last. Edits below a node never move it, so a chain stays good
/// while its last node's insides are edited.
type Chain = Vec<usize>;

/// How far a path leads.
enum Reached {
    Whole(Chain),
    /// The last node of the chain has no such child; the number says how many steps were taken.
    Until(Chain, usize),
}

struct Editor<'d> {
    document: &'d mut Document,
    layout: Layout,
}

impl Editor<'_> {
    fn make(&mut self, edit: &Edit) -> Result<(), CannotEdit> {
        match edit {
            Edit::Set { path, value } => self.set(path, value),
            Edit::Remove { path } => self.remove(path),
            Edit::Push { path, value } => match self.find(path)? {
                Reached::Whole(chain) => match self.node(&chain).kind() {
                    Kind::Seq => self.insert_item(&chain, usize::MAX, value),
                    Kind::Null => self.assign(&chain, &Value::Array(vec![value.clone()])),
                    Kind::Bool | Kind::Int | Kind::Float | Kind::Str | Kind::Map => {
                        refuse("not_a_sequence", "it is not a list")
                    }
                },
                Reached::Until(..) => self.set(path, &Value::Array(vec![value.clone()])),
            },
            Edit::Insert { path, value } => {
                let Some((PathStep::Index(index), above)) = path.split_last() else {
                    return refuse("not_a_sequence", "an item is inserted at an index of a list");
                };
                let Reached::Whole(chain) = self.find(above)? else {
                    return refuse("no_such_place", "there is no such list");
                };
                let node = self.node(&chain);
                if node.kind() != Kind::Seq {
                    return refuse("not_a_sequence", "it is not in a list");
                }
                if *index > node.len() {
                    return refuse("no_such_place", format!("the list has only {} items", node.len()));
                }
                self.insert_item(&chain, *index, value)
            }
        }
    }

    fn set(&mut self, path: &[PathStep], value: &Value) -> Result<(), CannotEdit> {
        let (chain, taken) = match self.find(path)? {
            Reached::Whole(chain) => return self.assign(&chain, value),
            Reached::Until(chain, taken) => (chain, taken),
        };
        let Some(PathStep::Key(key)) = path.get(taken) else {
            return refuse("no_such_place", "the list has no such item");
        };
        let mut value = value.clone();
        for step in path[taken + 1..].iter().rev() {
            let PathStep::Key(key) = step else { return refuse("no_such_place", "there is no such list") };
            value = Value::Object(Map::from_iter([(key.clone(), value)]));
        }
        match self.node(&chain).kind() {
            Kind::Map => self.insert_entry(&chain, key, &value),
            Kind::Null => self.assign(&chain, &Value::Object(Map::from_iter([(key.clone(), value)]))),
            Kind::Bool | Kind::Int | Kind::Float | Kind::Str | Kind::Seq => {
                refuse("not_a_mapping", format!("`{}` is not a mapping", shown(&path[..taken])))
            }
        }
    }

    fn remove(&mut self, path: &[PathStep]) -> Result<(), CannotEdit> {
        let Reached::Whole(chain) = self.find(path)? else {
            return refuse("no_such_place", "there is no such place");
        };
        if chain.len() == 1 {
            return refuse("no_such_place", "the whole frontmatter cannot be removed");
        }
        self.remove_child(&chain)
    }

    /// Makes the last node of the chain say `value` with the fewest changes: a collection stays where it is, and only
    /// what differs inside it is spliced.
    fn assign(&mut self, chain: &[usize], value: &Value) -> Result<(), CannotEdit> {
        let node = self.node(chain);
        if node.says(value) {
            return Ok(());
        }
        match (node.kind(), value) {
            (Kind::Map, Value::Object(wanted)) if !node.is_empty() || chain.len() == 1 => {
                self.assign_map(chain, wanted)
            }
            (Kind::Seq, Value::Array(wanted)) if !node.is_empty() && !wanted.is_empty() => {
                self.assign_seq(chain, wanted)
            }
            _ if chain.len() > 1 => self.replace_value(chain, value),
            _ => refuse("not_a_mapping", "the frontmatter must be a mapping"),
        }
    }

    fn assign_map(&mut self, chain: &[usize], wanted: &Map<String, Value>) -> Result<(), CannotEdit> {
        let map = *chain.last().expect("a chain has at least the root");
        let inline = self.document.nodes[map].style != Style::Block;
        let kept = self
            .node(chain)
            .entries()
            .any(|(key, _)| key.scalar_str().is_some_and(|key| wanted.contains_key(key)));
        if !kept && (chain.len() > 1) && (inline || wanted.is_empty()) {
            return self.replace_value(chain, &Value::Object(wanted.clone()));
        }
        // New entries come before removals, so that the mapping never empties and loses its style on the way.
        let node = self.node(chain);
        let present: HashSet<&str> = node.entries().filter_map(|(key, _)| key.scalar_str()).collect();
        let missing: Vec<_> = wanted.iter().filter(|(key, _)| !present.contains(key.as_str())).collect();
        let surplus: Vec<String> = (node.entries().filter_map(|(key, _)| key.scalar_str()))
            .filter(|key| !wanted.contains_key(*key))
            .map(str::to_owned)
            .collect();
        let mut at = map + 1;
        while at < map + self.document.nodes[map].size() {
            let key = Node::new(self.document, at).scalar_str().unwrap_or("").to_owned();
            at += 1;
            if let Some(value) = wanted.get(&key) {
                self.assign(&[chain, &[at]].concat(), value)?;
            }
            at += self.document.nodes[at].size();
        }
        for (key, value) in missing {
            self.insert_entry(chain, key, value)?;
        }
        for key in surplus {
            let Some(child) = self.node(chain).get(&key).map(|child| child.index()) else { continue };
            self.remove_child(&[chain, &[child]].concat())?;
        }
        Ok(())
    }

    fn assign_seq(&mut self, chain: &[usize], wanted: &[Value]) -> Result<(), CannotEdit> {
        let seq = *chain.last().expect("a chain has at least the root");
        let items: Vec<usize> = self.node(chain).items().map(|item| item.index()).collect();
        let same = |(at, value): (&usize, &Value)| Node::new(self.document, *at).says(value);
        let head = items.iter().zip(wanted).take_while(|&pair| same(pair)).count();
        let left = items.len().min(wanted.len()) - head;
        let tail =
            items.iter().rev().zip(wanted.iter().rev()).take(left).take_while(|&pair| same(pair)).count();
        let (old, new) = (items.len() - head - tail, &wanted[head..wanted.len() - tail]);
        let mut at = items.get(head).copied().unwrap_or(seq + self.document.nodes[seq].size());
        for value in &new[..old.min(new.len())] {
            self.assign(&[chain, &[at]].concat(), value)?;
            at += self.document.nodes[at].size();
        }
        for (extra, value) in new.iter().enumerate().skip(old) {
            self.insert_item(chain, head + extra, value)?;
        }
        for _ in new.len()..old {
            self.remove_child(&[chain, &[at]].concat())?;
        }
        Ok(())
    }

    fn insert_entry(&mut self, chain: &[usize], key: &str, value: &Value) -> Result<(), CannotEdit> {
        let map = self.node(chain);
        let collection = &self.document.nodes[map.index()];
        if collection.style == Style::Block {
            return self.insert_lines(chain, usize::MAX, Some(key), value);
        }
        let mut whole = map.exact();
        if let Value::Object(entries) = &mut whole {
            entries.insert(key.to_owned(), value.clone());
        }
        self.insert_flow(chain, usize::MAX, Some(key), value, whole)
    }

    /// Puts an item before the `index`-th, or at the end if there is none.
    fn insert_item(&mut self, chain: &[usize], index: usize, value: &Value) -> Result<(), CannotEdit> {
        let seq = self.node(chain);
        if self.document.nodes[seq.index()].style == Style::Block {
            return self.insert_lines(chain, index, None, value);
        }
        let mut whole = seq.exact();
        if let Value::Array(items) = &mut whole {
            items.insert(index.min(items.len()), value.clone());
        }
        self.insert_flow(chain, index, None, value, whole)
    }

    /// Removes the last node of the chain, with its key if it has one.
    fn remove_child(&mut self, chain: &[usize]) -> Result<(), CannotEdit> {
        let (&child, above) = chain.split_last().expect("a chain has at least the root");
        let parent = self.node(above);
        if self.document.nodes[parent.index()].style != Style::Block {
            return self.remove_flow(above, child);
        }
        if parent.len() > 1 {
            return self.remove_lines(above, child);
        }
        let empty =
            if parent.kind() == Kind::Map { Value::Object(Map::new()) } else { Value::Array(Vec::new()) };
        if above.len() > 1 { self.replace_value(above, &empty) } else { self.empty_root() }
    }

    fn find(&self, path: &[PathStep]) -> Result<Reached, CannotEdit> {
        let mut chain = vec![0];
        for (taken, step) in path.iter().enumerate() {
            let node = self.node(&chain);
            let child = match (step, node.kind()) {
                (PathStep::Key(key), Kind::Map) => node.get(key),
                (PathStep::Index(index), Kind::Seq) => node.items().nth(*index),
                (_, Kind::Null) => None,
                (PathStep::Key(_), _) => {
                    return refuse("not_a_mapping", format!("`{}` is not a mapping", shown(&path[..taken])));
                }
                (PathStep::Index(_), _) => {
                    return refuse("not_a_sequence", format!("`{}` is not a list", shown(&path[..taken])));
                }
            };
            match child {
                Some(child) => chain.push(child.index()),
                None => return Ok(Reached::Until(chain, taken)),
            }
        }
        Ok(Reached::Whole(chain))
    }

    fn node(&self, chain: &[usize]) -> Node<'_> {
        Node::new(self.document, *chain.last().expect("a chain has at least the root"))
    }
}
