//! Checks in words, for those who must make them pass. Runs none.

use super::page::{Entry, Page, code, one_line};
use super::{LINE_LIMIT, NAME_LIMIT};
use crate::state::{Check, Checks, Item, Quality, Scope, Wants};

/// Items nested deeper are said to be there, no more.
const MAX_DEPTH: usize = 6;

/// Of a command so much is shown.
const COMMAND_LIMIT: usize = 600;

pub(super) fn list_checks(page: &mut Page, what: &str, checks: &Checks, budget: usize) {
    match checks {
        Checks::Single(check) => page.list(what, [check], budget, |entry, check| {
            entry.line(0, &in_words(check));
        }),
        Checks::Checklist(items) => {
            page.list(what, flat(items), budget, |entry, (depth, item)| write_item(entry, depth, item));
        }
    }
}

/// The files that a judge looks at, as code.
pub(super) fn globs(quality: &Quality) -> Vec<String> {
    match &quality.scope {
        None => Vec::new(),
        Some(Scope::Glob(glob)) => vec![code(glob, LINE_LIMIT)],
        Some(Scope::Globs(globs)) => globs.iter().map(|glob| code(glob, LINE_LIMIT)).collect(),
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

fn write_item(entry: &mut Entry, depth: usize, item: &Item) {
    let name = one_line(&item.item, LINE_LIMIT);
    let wants = match &item.wants {
        Wants::Check(check) => in_words(check),
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

fn in_words(check: &Check) -> String {
    match check {
        Check::Command { value } => format!("{} exits with 0", code(value, COMMAND_LIMIT)),
        Check::NotCommand { value } => {
            format!("{} runs and exits with other than 0", code(value, COMMAND_LIMIT))
        }
        Check::File { value } => format!("{} exists", code(value, COMMAND_LIMIT)),
        Check::NotFile { value } => format!("{} does not exist", code(value, COMMAND_LIMIT)),
        Check::Assertion { value } => format!("a person confirms: {}", one_line(value, COMMAND_LIMIT)),
        Check::Quality(quality) => {
            let mut words = String::from("a judge scores");
            if let Some(criteria) = &quality.criteria {
                words.push_str(&format!(" {};", one_line(criteria, LINE_LIMIT)));
            }
            for criterion in quality.rubric.iter().take(super::MAX_CRITERIA) {
                words.push_str(&format!(" {}", one_line(&criterion.criterion, NAME_LIMIT)));
                if let Some(description) = &criterion.description {
                    words.push_str(&format!(" ({})", one_line(description, LINE_LIMIT)));
                }
                words.push(';');
            }
            let globs = globs(quality);
            if !globs.is_empty() {
                words.push_str(&format!(" in {}", globs.join(", ")));
            }
            words.trim_end_matches(';').to_owned()
        }
    }
}
