//! What must hold: checks and their nesting, in both of the contract's forms. Nothing here runs one.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use shapes::{ChecksShape, ItemShape, ScopeShape};

/// A base case, or the check of an atom: one check (the older form) or a checklist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "ChecksForm", into = "ChecksForm")]
#[schemars(with = "ChecksShape")]
pub enum Checks {
    Single(Check),
    Checklist(Vec<Item>),
}

/// One line of a checklist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "ItemForm", into = "ItemForm")]
#[schemars(with = "ItemShape")]
pub struct Item {
    pub item: String,
    pub wants: Wants,
}

/// What an item asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Wants {
    Check(Check),
    /// All of them.
    Group(Vec<Item>),
    /// At least one of them.
    AnyOf(Vec<Item>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Check {
    Command { value: String },
    NotCommand { value: String },
    File { value: String },
    NotFile { value: String },
    Assertion { value: String },
    Quality(Quality),
}

/// How a check is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckKind {
    Command,
    NotCommand,
    File,
    NotFile,
    Assertion,
    Quality,
}

/// What a judge scores from 1 to 5: a rubric, or plain criteria.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quality {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criteria: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rubric: Vec<Criterion>,
    #[schemars(range(min = 1, max = 5))]
    pub pass_threshold: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Criterion {
    pub criterion: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default = "equal_weight")]
    pub weight: f64,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub levels: IndexMap<String, String>,
}

fn equal_weight() -> f64 {
    1.0
}

/// The files that a judge looks at: one glob or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "serde_json::Value", into = "serde_json::Value")]
#[schemars(with = "ScopeShape")]
pub enum Scope {
    Glob(String),
    Globs(Vec<String>),
}

impl Checks {
    /// What the program sees without a judge or a person, if there is any of it. Alternatives stay together: with one of them
    /// less they would ask for more.
    pub fn seen_by_program(&self) -> Option<Checks> {
        match self {
            Checks::Single(check) => check.is_seen_by_program().then(|| self.clone()),
            Checks::Checklist(items) => {
                let items: Vec<Item> = items.iter().filter_map(Item::seen_by_program).collect();
                (!items.is_empty()).then_some(Checks::Checklist(items))
            }
        }
    }

    /// What differs between two of them, item by item, and how; nothing if they are the same.
    pub fn differences(before: Option<&Checks>, now: Option<&Checks>) -> Vec<(String, &'static str)> {
        let items = |checks: Option<&Checks>| match checks {
            Some(Checks::Checklist(items)) => items.clone(),
            Some(Checks::Single(check)) => {
                vec![Item { item: String::new(), wants: Wants::Check(check.clone()) }]
            }
            None => Vec::new(),
        };
        let name = |item: &str| match item {
            "" => "the check".to_owned(),
            item => format!("the check \"{item}\""),
        };
        let (before, now) = (items(before), items(now));
        let mut found = Vec::new();
        for item in before.iter().filter(|item| !now.contains(item)) {
            let is_there = now.iter().any(|other| other.item == item.item);
            found.push((name(&item.item), if is_there { "was changed" } else { "is gone" }));
        }
        for item in now.iter().filter(|item| before.iter().all(|other| other.item != item.item)) {
            found.push((name(&item.item), "is new"));
        }
        found
    }

    /// How many items a judge must score: `Q` and `q` of the bound.
    pub fn quality_items(&self) -> usize {
        self.leaves().filter(|check| matches!(check, Check::Quality(_))).count()
    }

    /// Whether any list in it is empty; such a base case proves nothing (decision D18).
    pub fn has_empty_set(&self) -> bool {
        match self {
            Checks::Single(_) => false,
            Checks::Checklist(items) => items.is_empty() || items.iter().any(Item::has_empty_set),
        }
    }

    pub fn leaves(&self) -> impl Iterator<Item = &Check> {
        let mut found = Vec::new();
        match self {
            Checks::Single(check) => found.push(check),
            Checks::Checklist(items) => items.iter().for_each(|item| item.collect_leaves(&mut found)),
        }
        found.into_iter()
    }
}

impl Check {
    pub fn kind(&self) -> CheckKind {
        match self {
            Check::Command { .. } => CheckKind::Command,
            Check::NotCommand { .. } => CheckKind::NotCommand,
            Check::File { .. } => CheckKind::File,
            Check::NotFile { .. } => CheckKind::NotFile,
            Check::Assertion { .. } => CheckKind::Assertion,
            Check::Quality(_) => CheckKind::Quality,
        }
    }

    /// Whether it starts nothing that could change the files that it looks at.
    pub fn only_looks(&self) -> bool {
        match self {
            Check::File { .. } | Check::NotFile { .. } | Check::Assertion { .. } => true,
            Check::Command { .. } | Check::NotCommand { .. } | Check::Quality(_) => false,
        }
    }

    fn is_seen_by_program(&self) -> bool {
        match self {
            Check::Command { .. } | Check::NotCommand { .. } | Check::File { .. } | Check::NotFile { .. } => {
                true
            }
            Check::Assertion { .. } | Check::Quality(_) => false,
        }
    }
}

impl CheckKind {
    /// The contract's word for it.
    pub fn word(self) -> &'static str {
        match self {
            CheckKind::Command => "command",
            CheckKind::NotCommand => "not_command",
            CheckKind::File => "file",
            CheckKind::NotFile => "not_file",
            CheckKind::Assertion => "assertion",
            CheckKind::Quality => "quality",
        }
    }
}

impl Item {
    fn seen_by_program(&self) -> Option<Item> {
        let mut leaves = Vec::new();
        self.collect_leaves(&mut leaves);
        match &self.wants {
            Wants::Check(_) | Wants::AnyOf(_) => {
                leaves.iter().all(|check| check.is_seen_by_program()).then(|| self.clone())
            }
            Wants::Group(items) => {
                let items: Vec<Item> = items.iter().filter_map(Item::seen_by_program).collect();
                let wants = Wants::Group(items.clone());
                (!items.is_empty()).then(|| Item { item: self.item.clone(), wants })
            }
        }
    }

    fn has_empty_set(&self) -> bool {
        match &self.wants {
            Wants::Check(_) => false,
            Wants::Group(items) | Wants::AnyOf(items) => {
                items.is_empty() || items.iter().any(Item::has_empty_set)
            }
        }
    }

    fn collect_leaves<'s>(&'s self, found: &mut Vec<&'s Check>) {
        match &self.wants {
            Wants::Check(check) => found.push(check),
            Wants::Group(items) | Wants::AnyOf(items) => {
                items.iter().for_each(|item| item.collect_leaves(found));
            }
        }
    }
}

/// How [`Checks`] stand in the file: either the keys of one check, or `checklist`.
#[derive(Serialize, Deserialize)]
struct ChecksForm {
    #[serde(flatten)]
    check: Option<Check>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checklist: Option<Vec<Item>>,
}

impl From<Checks> for ChecksForm {
    fn from(checks: Checks) -> ChecksForm {
        match checks {
            Checks::Single(check) => ChecksForm { check: Some(check), checklist: None },
            Checks::Checklist(items) => ChecksForm { check: None, checklist: Some(items) },
        }
    }
}

impl TryFrom<ChecksForm> for Checks {
    type Error = &'static str;

    fn try_from(form: ChecksForm) -> Result<Checks, &'static str> {
        match form {
            ChecksForm { check: None, checklist: Some(items) } => Ok(Checks::Checklist(items)),
            ChecksForm { check: Some(check), checklist: None } => Ok(Checks::Single(check)),
            ChecksForm { check: None, checklist: None } => Err("neither `type` nor `checklist` is given"),
            ChecksForm { check: Some(_), checklist: Some(_) } => Err("both `type` and `checklist` are given"),
        }
    }
}

/// How an [`Item`] stands in the file.
#[derive(Serialize, Deserialize)]
struct ItemForm {
    item: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    check: Option<Check>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<Vec<Item>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    any_of: Option<Vec<Item>>,
}

impl From<Item> for ItemForm {
    fn from(item: Item) -> ItemForm {
        let mut form = ItemForm { item: item.item, check: None, group: None, any_of: None };
        match item.wants {
            Wants::Check(check) => form.check = Some(check),
            Wants::Group(items) => form.group = Some(items),
            Wants::AnyOf(items) => form.any_of = Some(items),
        }
        form
    }
}

impl TryFrom<ItemForm> for Item {
    type Error = &'static str;

    fn try_from(form: ItemForm) -> Result<Item, &'static str> {
        let wants = match (form.check, form.group, form.any_of) {
            (Some(check), None, None) => Wants::Check(check),
            (None, Some(items), None) => Wants::Group(items),
            (None, None, Some(items)) => Wants::AnyOf(items),
            _ => return Err("an item has exactly one of `check`, `group` and `any_of`"),
        };
        Ok(Item { item: form.item, wants })
    }
}

/// The shapes that the JSON Schema names; nothing is ever made of them.
mod shapes {
    use super::{Check, Item, JsonSchema};

    #[derive(JsonSchema)]
    #[schemars(rename = "Checks", untagged)]
    #[expect(dead_code, reason = "only its schema is used")]
    pub enum ChecksShape {
        Single(Check),
        Checklist { checklist: Vec<Item> },
    }

    #[derive(JsonSchema)]
    #[schemars(rename = "Item", untagged)]
    #[expect(dead_code, reason = "only its schema is used")]
    pub enum ItemShape {
        Check { item: String, check: Check },
        Group { item: String, group: Vec<Item> },
        AnyOf { item: String, any_of: Vec<Item> },
    }

    #[derive(JsonSchema)]
    #[schemars(rename = "Scope", untagged)]
    #[expect(dead_code, reason = "only its schema is used")]
    pub enum ScopeShape {
        Glob(String),
        Globs(Vec<String>),
    }
}

impl From<Scope> for serde_json::Value {
    fn from(scope: Scope) -> serde_json::Value {
        match scope {
            Scope::Glob(glob) => glob.into(),
            Scope::Globs(globs) => globs.into(),
        }
    }
}

impl TryFrom<serde_json::Value> for Scope {
    type Error = &'static str;

    fn try_from(value: serde_json::Value) -> Result<Scope, &'static str> {
        match value {
            serde_json::Value::String(glob) => Ok(Scope::Glob(glob)),
            serde_json::Value::Array(globs) => globs
                .into_iter()
                .map(|glob| glob.as_str().map(str::to_owned).ok_or("a scope is a glob or a list of globs"))
                .collect::<Result<_, _>>()
                .map(Scope::Globs),
            _ => Err("a scope is a glob or a list of globs"),
        }
    }
}
