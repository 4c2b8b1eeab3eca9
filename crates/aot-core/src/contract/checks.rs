//! Checks and checklists out of the document's tree, in both of the contract's forms and their older spellings.

use std::fmt;

use super::document::{Kind, Node};
use super::finding::{Findings, Severity};
use super::read::{Field, ItemOf, Name, Requirement, as_text, note_blank_name, note_slips, wrong_type};
use crate::state::{Check, Checks, Criterion, Item, Quality, Scope, Wants};

/// Checks that prove something: nothing in them is empty (D18).
pub(super) fn proving(node: Node<'_>, owner: &dyn fmt::Display, findings: &mut Findings) -> Option<Checks> {
    if node.kind() == Kind::Map && node.is_empty() {
        let message = format!("{owner} is empty");
        let hint = "write a `checklist`, or one check with `type` and `value`";
        findings.note(Severity::Incomplete, "empty", node.offset(), message, hint);
        return None;
    }
    let checks = checks(node, owner, findings)?;
    if checks.has_empty_set() {
        let message = format!("{owner} has an empty list in it, which proves nothing");
        findings.note(Severity::Incomplete, "empty", node.offset(), message, "give each list an item");
    }
    Some(checks)
}

/// A mapping being read, and how messages name it.
#[derive(Clone, Copy)]
struct Fields<'d, 'a> {
    node: Node<'d>,
    owner: &'a dyn fmt::Display,
}

impl<'d, 'a> Fields<'d, 'a> {
    /// Takes a node as a mapping, noting if it is none and which of its keys look misspelt.
    fn of(
        node: Node<'d>,
        owner: &'a dyn fmt::Display,
        known: &[&str],
        findings: &mut Findings,
    ) -> Option<Fields<'d, 'a>> {
        if node.kind() != Kind::Map {
            wrong_type(node, owner, "a mapping", findings);
            return None;
        }
        let is_known =
            |(key, _): &(Node<'d>, Node<'d>)| key.scalar_str().is_some_and(|key| known.contains(&key));
        let unknown: Vec<Node<'d>> =
            node.entries().filter(|entry| !is_known(entry)).map(|(key, _)| key).collect();
        if !unknown.is_empty() {
            let missing: Vec<&str> = known.iter().copied().filter(|key| node.get(key).is_none()).collect();
            note_slips(owner, &unknown, &missing, findings);
        }
        Some(Fields { node, owner })
    }

    fn field<'k>(&self, key: &'k str) -> Field<'d, 'k>
    where
        'a: 'k,
    {
        Field { node: self.node.get(key), offset: self.node.offset(), key, owner: self.owner }
    }

    fn text(&self, key: &str, requirement: Requirement, findings: &mut Findings) -> Option<String> {
        self.field(key).text(requirement, findings).map(str::to_owned)
    }

    fn items(&self, key: &str, requirement: Requirement, findings: &mut Findings) -> Vec<Item> {
        let list = self.field(key).list(requirement, findings);
        list.into_iter().flat_map(|list| list.items()).filter_map(|node| item(node, findings)).collect()
    }
}

/// One check, or a checklist.
fn checks(node: Node<'_>, owner: &dyn fmt::Display, findings: &mut Findings) -> Option<Checks> {
    if node.kind() != Kind::Map {
        wrong_type(node, owner, "a mapping", findings);
        return None;
    }
    match (node.get("checklist"), node.get("type")) {
        (Some(_), Some(type_node)) => {
            let message = format!("{owner} has both `checklist` and `type`");
            findings.note(Severity::Error, "ambiguous", type_node.offset(), message, "keep one of them");
            None
        }
        (Some(_), None) => {
            let fields = Fields { node, owner };
            Some(Checks::Checklist(fields.items("checklist", Requirement::Required, findings)))
        }
        (None, Some(_)) => check(node, owner, findings).map(Checks::Single),
        (None, None) => {
            findings.note(
                Severity::Error,
                "missing",
                node.offset(),
                format!("{owner} has neither `checklist` nor `type`"),
                "write a `checklist`, or one check with `type` and `value`",
            );
            None
        }
    }
}

fn item(node: Node<'_>, findings: &mut Findings) -> Option<Item> {
    let known = ["item", "check", "group", "any_of"];
    let fields = Fields::of(node, &"a checklist item", &known, findings)?;
    let name = fields.text("item", Requirement::Required, findings).unwrap_or_default();
    let owner = Name::Named("item", &name);
    let fields = Fields { node, owner: &owner };
    let given: Vec<&str> =
        ["check", "group", "any_of"].into_iter().filter(|key| node.get(key).is_some()).collect();
    let wants = match given[..] {
        ["check"] => {
            let node = fields.field("check").value(Requirement::Required, findings)?;
            Wants::Check(check(node, &owner, findings)?)
        }
        ["group"] => Wants::Group(fields.items("group", Requirement::Required, findings)),
        ["any_of"] => Wants::AnyOf(fields.items("any_of", Requirement::Required, findings)),
        [] => {
            let hint = "add a `check`, a `group` or an `any_of`";
            findings.note(Severity::Error, "missing", node.offset(), format!("{owner} checks nothing"), hint);
            return None;
        }
        _ => {
            let message = format!("{owner} has {} at once", given.join(" and "));
            findings.note(Severity::Error, "ambiguous", node.offset(), message, "keep one of them");
            return None;
        }
    };
    Some(Item { item: name, wants })
}

const CHECK_TYPES: [&str; 6] = ["command", "not_command", "file", "not_file", "assertion", "quality"];

fn check(node: Node<'_>, owner: &dyn fmt::Display, findings: &mut Findings) -> Option<Check> {
    let known = ["type", "value", "exists", "rubric", "criteria", "pass_threshold", "scope"];
    let fields = Fields::of(node, owner, &known, findings)?;
    let kind = fields.field("type").word(&CHECK_TYPES, Requirement::Required, findings)?;
    let value = |findings: &mut Findings| fields.text("value", Requirement::Required, findings);
    Some(match kind {
        "command" => Check::Command { value: value(findings)? },
        "not_command" => Check::NotCommand { value: value(findings)? },
        "file" => Check::File { value: path(&fields, findings)? },
        "not_file" => Check::NotFile { value: path(&fields, findings)? },
        "assertion" => Check::Assertion { value: value(findings)? },
        _ => Check::Quality(quality(&fields, findings)?),
    })
}

/// The path of a `file` check: plain, or in one of the older spellings of `exists`.
fn path(fields: &Fields<'_, '_>, findings: &mut Findings) -> Option<String> {
    if fields.node.get("value").is_none() && fields.node.get("exists").is_some() {
        return fields.text("exists", Requirement::Required, findings);
    }
    let value = fields.field("value").value(Requirement::Required, findings)?;
    if value.kind() == Kind::Map && value.get("exists").is_some() {
        let inner = Fields { node: value, owner: fields.owner };
        return inner.text("exists", Requirement::Required, findings);
    }
    let text = fields.text("value", Requirement::Required, findings)?;
    Some(text.strip_prefix("exists:").map_or_else(|| text.clone(), |path| path.trim().to_owned()))
}

fn quality(fields: &Fields<'_, '_>, findings: &mut Findings) -> Option<Quality> {
    let criteria = fields.text("criteria", Requirement::Optional, findings);
    let criteria = criteria.filter(|text| !text.trim().is_empty());
    let rubric = fields.field("rubric").list(Requirement::Optional, findings);
    if criteria.is_none() && rubric.is_none_or(|list| list.is_empty()) {
        let message = format!("{} names nothing to judge", fields.owner);
        let hint = "give a `rubric` with criteria, or plain `criteria`";
        findings.note(Severity::Error, "missing", fields.node.offset(), message, hint);
    }
    let rubric = rubric.into_iter().flat_map(|list| list.items()).enumerate();
    let rubric = rubric.filter_map(|(index, node)| criterion(index, node, findings)).collect();
    let pass_threshold = fields.field("pass_threshold").amount(Requirement::Required, findings)?;
    let field = fields.field("scope");
    let scope = field.value(Requirement::Optional, findings).and_then(|node| match node.kind() {
        Kind::Seq => {
            let globs = node.items().filter_map(|glob| as_text(glob, &ItemOf(&field), findings));
            Some(Scope::Globs(globs.map(str::to_owned).collect()))
        }
        _ => as_text(node, &"`scope`", findings).map(|glob| Scope::Glob(glob.to_owned())),
    });
    Some(Quality { criteria, rubric, pass_threshold, scope })
}

fn criterion(index: usize, node: Node<'_>, findings: &mut Findings) -> Option<Criterion> {
    let known = ["criterion", "description", "weight", "levels"];
    let owner = Name::Numbered("criterion", index);
    let fields = Fields::of(node, &owner, &known, findings)?;
    let levels = fields.field("levels").mapping(Requirement::Optional, findings);
    Some(Criterion {
        criterion: fields.text("criterion", Requirement::Required, findings)?,
        description: fields.text("description", Requirement::Optional, findings),
        weight: fields.field("weight").amount(Requirement::Optional, findings).unwrap_or(1.0),
        levels: (levels.into_iter().flat_map(|levels| levels.entries()))
            .filter_map(|(key, node)| {
                note_blank_name("level", key, findings);
                let score = key.scalar_str().unwrap_or_default();
                let looks = as_text(node, &Name::Named("level", score), findings)?;
                Some((score.to_owned(), looks.to_owned()))
            })
            .collect(),
    })
}
