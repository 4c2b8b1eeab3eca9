//! Checks and checklists out of the document's tree, in both of the contract's forms and their older spellings.

use std::fmt;

use super::decode::{Named, Numbered, each, named};
use super::document::{Kind, Node};
use super::finding::{Findings, Severity};
use super::read::{Fields, Need, as_text, wrong_type};
use crate::state::{Check, Checks, Criterion, Item, Quality, Scope, Wants};

/// Checks that prove something: nothing in them is empty (D18).
pub(super) fn proving(node: Node<'_>, what: &dyn fmt::Display, findings: &mut Findings) -> Option<Checks> {
    if node.kind() == Kind::Map && node.is_empty() {
        let message = format!("{what} is empty");
        let hint = "write a `checklist`, or one check with `type` and `value`";
        findings.note(Severity::Incomplete, "empty", node.offset(), message, hint);
        return None;
    }
    let checks = checks(node, what, findings)?;
    if checks.has_empty_set() {
        let message = format!("{what} has an empty list in it, which proves nothing");
        findings.note(Severity::Incomplete, "empty", node.offset(), message, "give each list an item");
    }
    Some(checks)
}

/// One check, or a checklist.
fn checks(node: Node<'_>, what: &dyn fmt::Display, findings: &mut Findings) -> Option<Checks> {
    if node.kind() != Kind::Map {
        wrong_type(findings, node, what, "a mapping");
        return None;
    }
    match (node.get("checklist"), node.get("type")) {
        (Some(_), Some(type_node)) => {
            let message = format!("{what} has both `checklist` and `type`");
            findings.note(Severity::Error, "ambiguous", type_node.offset(), message, "keep one of them");
            None
        }
        (Some(_), None) => {
            let fields = Fields { node, what };
            let items = fields.list("checklist", Need::Required, findings);
            Some(Checks::Checklist(each(items, findings, |_, node, findings| item(node, findings))))
        }
        (None, Some(_)) => check(node, what, findings).map(Checks::Single),
        (None, None) => {
            findings.note(
                Severity::Error,
                "missing",
                node.offset(),
                format!("{what} has neither `checklist` nor `type`"),
                "write a `checklist`, or one check with `type` and `value`",
            );
            None
        }
    }
}

fn item(node: Node<'_>, findings: &mut Findings) -> Option<Item> {
    let known = ["item", "check", "group", "any_of"];
    let fields = Fields::of(node, &"a checklist item", &known, findings)?;
    let name = fields.text("item", Need::Required, findings).unwrap_or_default();
    let what = Named("item", &name);
    let fields = Fields { node, what: &what };
    let given: Vec<&str> =
        ["check", "group", "any_of"].into_iter().filter(|k| node.get(k).is_some()).collect();
    let nested = |key: &str, findings: &mut Findings| {
        let items = fields.list(key, Need::Required, findings);
        each(items, findings, |_, node, findings| item(node, findings))
    };
    let wants = match given[..] {
        ["check"] => {
            let node = fields.need("check", Need::Required, findings)?;
            Wants::Check(check(node, &what, findings)?)
        }
        ["group"] => Wants::Group(nested("group", findings)),
        ["any_of"] => Wants::AnyOf(nested("any_of", findings)),
        [] => {
            let hint = "add a `check`, a `group` or an `any_of`";
            findings.note(Severity::Error, "missing", node.offset(), format!("{what} checks nothing"), hint);
            return None;
        }
        _ => {
            let message = format!("{what} has {} at once", given.join(" and "));
            findings.note(Severity::Error, "ambiguous", node.offset(), message, "keep one of them");
            return None;
        }
    };
    Some(Item { item: name, wants })
}

#[derive(Clone, Copy)]
enum CheckType {
    Command,
    NotCommand,
    File,
    NotFile,
    Assertion,
    Quality,
}

fn check(node: Node<'_>, what: &dyn fmt::Display, findings: &mut Findings) -> Option<Check> {
    let known = ["type", "value", "exists", "rubric", "criteria", "pass_threshold", "scope"];
    let fields = Fields::of(node, what, &known, findings)?;
    let types = [
        ("command", CheckType::Command),
        ("not_command", CheckType::NotCommand),
        ("file", CheckType::File),
        ("not_file", CheckType::NotFile),
        ("assertion", CheckType::Assertion),
        ("quality", CheckType::Quality),
    ];
    Some(match fields.word("type", &types, Need::Required, findings)? {
        CheckType::Command => Check::Command { value: fields.text("value", Need::Required, findings)? },
        CheckType::NotCommand => Check::NotCommand { value: fields.text("value", Need::Required, findings)? },
        CheckType::File => Check::File { value: path(&fields, findings)? },
        CheckType::NotFile => Check::NotFile { value: path(&fields, findings)? },
        CheckType::Assertion => Check::Assertion { value: fields.text("value", Need::Required, findings)? },
        CheckType::Quality => Check::Quality(quality(&fields, findings)?),
    })
}

/// The path of a `file` check: plain, or in one of the older spellings of `exists`.
fn path(fields: &Fields<'_, '_>, findings: &mut Findings) -> Option<String> {
    if fields.node.get("value").is_none() && fields.node.get("exists").is_some() {
        return fields.text("exists", Need::Required, findings);
    }
    let value = fields.need("value", Need::Required, findings)?;
    if value.kind() == Kind::Map && value.get("exists").is_some() {
        return Fields { node: value, what: fields.what }.text("exists", Need::Required, findings);
    }
    let text = fields.text("value", Need::Required, findings)?;
    Some(text.strip_prefix("exists:").map_or_else(|| text.clone(), |path| path.trim().to_owned()))
}

fn quality(fields: &Fields<'_, '_>, findings: &mut Findings) -> Option<Quality> {
    let criteria = fields.text("criteria", Need::Optional, findings).filter(|text| !text.trim().is_empty());
    let rubric = fields.list("rubric", Need::Optional, findings);
    if criteria.is_none() && rubric.is_empty() {
        let message = format!("{} names nothing to judge", fields.what);
        let hint = "give a `rubric` with criteria, or plain `criteria`";
        findings.note(Severity::Error, "missing", fields.node.offset(), message, hint);
    }
    let rubric = each(rubric, findings, criterion);
    let pass_threshold = fields.amount("pass_threshold", Need::Required, findings)?;
    let scope = fields.need("scope", Need::Optional, findings).and_then(|node| match node.kind() {
        Kind::Seq => Some(Scope::Globs(fields.texts("scope", Need::Optional, findings))),
        _ => as_text(node, &"`scope`", findings).map(Scope::Glob),
    });
    Some(Quality { criteria, rubric, pass_threshold, scope })
}

fn criterion(place: usize, node: Node<'_>, findings: &mut Findings) -> Option<Criterion> {
    let known = ["criterion", "description", "weight", "levels"];
    let what = Numbered("criterion", place);
    let fields = Fields::of(node, &what, &known, findings)?;
    let levels = fields.entries("levels", Need::Optional, findings);
    Some(Criterion {
        criterion: fields.text("criterion", Need::Required, findings)?,
        description: fields.text("description", Need::Optional, findings),
        weight: fields.amount("weight", Need::Optional, findings).unwrap_or(1.0),
        levels: named::<String, _>(levels, "level", findings, |what, node, findings| {
            as_text(node, what, findings)
        }),
    })
}
