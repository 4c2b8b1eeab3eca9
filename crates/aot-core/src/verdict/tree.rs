//! A base case as a tree: its checks in the written order, each with a unique name, and how they are nested.

use std::collections::HashMap;

use super::{Outcome, all_of, any_of};
use crate::state::{Check, Checks, Item, Wants};

#[derive(Clone, Debug, PartialEq)]
pub struct CheckTree {
    pub leaves: Vec<Leaf>,
    pub root: CheckNode,
}

/// One check.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    /// Its item, or where that is used twice, the way to it: `Group / Item`. Unique.
    pub name: String,
    /// The items from the outermost to its own.
    pub path: Vec<String>,
    pub check: Check,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CheckNode {
    /// The place of a check among the leaves.
    Leaf(usize),
    All {
        item: String,
        inner: Vec<CheckNode>,
    },
    Any {
        item: String,
        inner: Vec<CheckNode>,
    },
}

impl Leaf {
    /// What evidence of it says that was run; a judge has a command of its own.
    pub fn runs(&self) -> Option<&str> {
        match &self.check {
            Check::Command { value }
            | Check::NotCommand { value }
            | Check::File { value }
            | Check::NotFile { value }
            | Check::Assertion { value } => Some(value),
            Check::Quality(_) => None,
        }
    }
}

impl CheckTree {
    pub fn of(checks: &Checks) -> CheckTree {
        let mut leaves = Vec::new();
        let root = match checks {
            Checks::Single(check) => {
                let name = name_of(check);
                leaves.push(Leaf { name: name.clone(), path: vec![name], check: check.clone() });
                CheckNode::Leaf(0)
            }
            Checks::Checklist(items) => {
                let inner = items.iter().map(|item| lay_out(item, &[], &mut leaves)).collect();
                CheckNode::All { item: String::new(), inner }
            }
        };
        name_apart(&mut leaves);
        CheckTree { leaves, root }
    }

    /// What the checks come to; one that was not seen is pending.
    pub fn fold(&self, seen: impl Fn(usize) -> Option<Outcome>) -> Outcome {
        self.root.fold(&seen)
    }

    /// Whether it no longer matters how this check ends: another alternative of an `any_of` around it passed.
    pub fn is_decided(&self, place: usize, seen: &impl Fn(usize) -> Option<Outcome>) -> bool {
        self.root.is_decided(place, seen)
    }
}

impl CheckNode {
    pub fn fold(&self, seen: &impl Fn(usize) -> Option<Outcome>) -> Outcome {
        match self {
            CheckNode::Leaf(place) => seen(*place).unwrap_or(Outcome::Pending),
            CheckNode::All { inner, .. } => all_of(inner.iter().map(|node| node.fold(seen))),
            CheckNode::Any { inner, .. } => any_of(inner.iter().map(|node| node.fold(seen))),
        }
    }

    fn is_decided(&self, place: usize, seen: &impl Fn(usize) -> Option<Outcome>) -> bool {
        match self {
            CheckNode::Leaf(_) => false,
            CheckNode::All { inner, .. } => inner.iter().any(|node| node.is_decided(place, seen)),
            CheckNode::Any { inner, .. } => {
                let here = inner.iter().any(|node| node.holds(place));
                (here && self.fold(seen) == Outcome::Pass)
                    || inner.iter().any(|node| node.is_decided(place, seen))
            }
        }
    }

    fn holds(&self, place: usize) -> bool {
        match self {
            CheckNode::Leaf(own) => *own == place,
            CheckNode::All { inner, .. } | CheckNode::Any { inner, .. } => {
                inner.iter().any(|node| node.holds(place))
            }
        }
    }
}

fn lay_out(item: &Item, above: &[String], leaves: &mut Vec<Leaf>) -> CheckNode {
    let path: Vec<String> = above.iter().chain([&item.item]).cloned().collect();
    match &item.wants {
        Wants::Check(check) => {
            leaves.push(Leaf { name: item.item.clone(), path, check: check.clone() });
            CheckNode::Leaf(leaves.len() - 1)
        }
        Wants::Group(items) => CheckNode::All {
            item: item.item.clone(),
            inner: items.iter().map(|item| lay_out(item, &path, leaves)).collect(),
        },
        Wants::AnyOf(items) => CheckNode::Any {
            item: item.item.clone(),
            inner: items.iter().map(|item| lay_out(item, &path, leaves)).collect(),
        },
    }
}

/// Names that are used twice become ways; ways that are used twice are numbered.
fn name_apart(leaves: &mut [Leaf]) {
    let mut times: HashMap<String, usize> = HashMap::new();
    leaves.iter().for_each(|leaf| *times.entry(leaf.name.clone()).or_default() += 1);
    for leaf in leaves.iter_mut().filter(|leaf| times[&leaf.name] > 1) {
        leaf.name = leaf.path.join(" / ");
    }
    let mut used: HashMap<String, usize> = HashMap::new();
    for leaf in leaves {
        let count = used.entry(leaf.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            leaf.name = format!("{} #{count}", leaf.name);
        }
    }
}

/// What a check without an item is called.
fn name_of(check: &Check) -> String {
    match check {
        Check::Command { value }
        | Check::NotCommand { value }
        | Check::File { value }
        | Check::NotFile { value }
        | Check::Assertion { value } => value.clone(),
        Check::Quality(quality) => quality.criteria.clone().unwrap_or_else(|| "quality".to_owned()),
    }
}
