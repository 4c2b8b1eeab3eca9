//! Checks in words, for those who must make them pass. Runs none.

use super::text::{BriefText, ListEntry, one_line};
use super::{LINE_LIMIT, NAME_LIMIT};
use crate::state::{Check, Checks, Item, Quality, Scope, Wants};

/// Items nested deeper are said to be there, no more.
const MAX_DEPTH: usize = 6;

/// Of a judge's scope so many globs are shown.
const MAX_GLOBS: usize = 8;

/// Of a command so much is shown.
const COMMAND_LIMIT: usize = 600;

pub(super) fn list_checks(page: &mut BriefText, what: &str, checks: &Checks, budget: usize) {
    match checks {
        Checks::Single(check) => page.list(what, [check], budget, |entry, check| {
            let words = in_words(entry, check);
            entry.line(0, &words);
        }),
        Checks::Checklist(items) => {
            page.list(what, flat(items), budget, |entry, (depth, item)| write_item(entry, depth, item));
        }
    }
}

/// The files that a judge looks at.
pub(super) fn globs(quality: &Quality) -> &[String] {
    match &quality.scope {
        None => &[],
        Some(Scope::Glob(glob)) => std::slice::from_ref(glob),
        Some(Scope::Globs(globs)) => globs,
    }
}

/// Items in reading order, each with its depth.
fn flat(items: &[Item]) -> Vec<(usize, &Item)> {
    let mut found = Vec::new();
    let mut open: Vec<(usize, &Item)> = items.iter().rev().map(|item| (0, item)).collect();
    while let Some((depth, item)) = open.pop() {
        found.push((depth, item));
        match &item.wants {
            Wants::Check(_) => {}
            Wants::Group(inner) | Wants::AnyOf(inner) if depth < MAX_DEPTH => {
                open.extend(inner.iter().rev().map(|item| (depth + 1, item)));
            }
            Wants::Group(_) | Wants::AnyOf(_) => {}
        }
    }
    found
}

fn write_item(entry: &mut ListEntry, depth: usize, item: &Item) {
    let name = entry.one_line("name of a check", &item.item, LINE_LIMIT);
    let wants = match &item.wants {
        Wants::Check(check) => in_words(entry, check),
        Wants::Group(inner) | Wants::AnyOf(inner) if depth >= MAX_DEPTH => {
            entry.note_cut(format!(
                "check `{}`: {} items inside it",
                one_line(&name, NAME_LIMIT),
                inner.len()
            ));
            format!("{} more checks", inner.len())
        }
        Wants::Group(_) => "all of".to_owned(),
        Wants::AnyOf(_) => "at least one of".to_owned(),
    };
    entry.line(depth, &format!("{name}: {wants}"));
}

fn in_words(entry: &mut ListEntry, check: &Check) -> String {
    let mut shown = |value: &str| entry.code("a check", value, COMMAND_LIMIT);
    match check {
        Check::Command { value } => format!("{} exits with 0", shown(value)),
        Check::NotCommand { value } => format!("{} runs and exits with other than 0", shown(value)),
        Check::File { value } => format!("{} exists", shown(value)),
        Check::NotFile { value } => format!("{} does not exist", shown(value)),
        Check::Assertion { value } => {
            format!("a person confirms: {}", entry.one_line("an assertion", value, COMMAND_LIMIT))
        }
        Check::Quality(quality) => {
            let mut parts = Vec::new();
            if let Some(criteria) = &quality.criteria {
                parts.push(entry.one_line("criteria", criteria, COMMAND_LIMIT));
            }
            for criterion in quality.rubric.iter().take(super::MAX_CRITERIA) {
                let name = one_line(&criterion.criterion, NAME_LIMIT);
                let description = criterion.description.as_deref().unwrap_or_default();
                parts.push(match entry.one_line(&format!("criterion `{name}`"), description, LINE_LIMIT) {
                    none if none.is_empty() => name,
                    description => format!("{name} ({description})"),
                });
            }
            let files: Vec<String> = globs(quality)
                .iter()
                .take(MAX_GLOBS)
                .map(|glob| entry.code("a scope", glob, LINE_LIMIT))
                .collect();
            let place = if files.is_empty() { String::new() } else { format!(", in {}", files.join(", ")) };
            format!("a judge scores {}{place}", parts.join("; "))
        }
    }
}
