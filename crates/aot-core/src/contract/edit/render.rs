//! How a value is written. Knows YAML's styles and what is safe in each; nothing of documents and places.

use serde_json::Value;

use super::layout::Layout;
use crate::contract::document::{Kind, Style, scalar};

/// A value as text, in the form its place allows.
#[derive(Clone, Debug)]
pub(super) enum WrittenForm {
    /// Stands on the line of its key or dash.
    Inline(String),
    /// A block collection: whole lines with their indentation, the last without its line break.
    Lines(String),
    /// A block scalar: its header, and its lines as above.
    Scalar(String, String),
}

/// Where a block value stands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Under {
    /// Below a key in this column.
    Key(usize),
    /// Behind a dash; the content stands in this column.
    Dash(usize),
}

/// The forms a value may take in a block collection, best first. Others follow in case the place does not bear it.
pub(super) fn block_forms(
    value: &Value,
    was: Option<(Style, Kind)>,
    under: Under,
    layout: &Layout,
) -> Vec<WrittenForm> {
    let mut forms = vec![block(value, was, under, layout)];
    if !matches!(forms[0], WrittenForm::Inline(_)) {
        forms.push(WrittenForm::Inline(flow(value, None)));
    } else if let Value::String(text) = value {
        forms.push(WrittenForm::Inline(double(text)));
    }
    forms
}

fn block(value: &Value, was: Option<(Style, Kind)>, under: Under, layout: &Layout) -> WrittenForm {
    let content = match under {
        Under::Key(column) => column + layout.step,
        Under::Dash(column) => column,
    };
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            let entries = entries.iter().map(|(name, value)| {
                let pad = " ".repeat(content);
                pad + &entry(name, &block(value, None, Under::Key(content), layout), layout)
            });
            WrittenForm::Lines(entries.collect::<Vec<_>>().join(layout.newline))
        }
        Value::Array(items) if items.iter().any(is_collection) => {
            let dash = match under {
                Under::Key(column) => column + layout.list_step,
                Under::Dash(column) => column,
            };
            let items = items.iter().map(|value| {
                let pad = " ".repeat(dash);
                pad + &item(1, &block(value, None, Under::Dash(dash + 2), layout), layout)
            });
            WrittenForm::Lines(items.collect::<Vec<_>>().join(layout.newline))
        }
        Value::String(text) => {
            let fits_block = match was {
                Some((Style::Literal | Style::Folded, _)) | None => text.contains('\n') && fits_literal(text),
                Some(_) => false,
            };
            if fits_block {
                literal(text, content, layout)
            } else {
                WrittenForm::Inline(string(text, was, Inside::Block))
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            WrittenForm::Inline(flow(value, was))
        }
    }
}

fn is_collection(value: &Value) -> bool {
    match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// `key: value`, the first line without indentation.
pub(super) fn entry(name: &str, form: &WrittenForm, layout: &Layout) -> String {
    let name = key(name);
    match form {
        WrittenForm::Inline(text) => format!("{name}: {text}"),
        WrittenForm::Lines(lines) => format!("{name}:{}{lines}", layout.newline),
        WrittenForm::Scalar(header, lines) => format!("{name}: {header}{}{lines}", layout.newline),
    }
}

/// `- value`, the first line without indentation and `gap` spaces after the dash.
pub(super) fn item(gap: usize, form: &WrittenForm, layout: &Layout) -> String {
    let gap = " ".repeat(gap);
    match form {
        WrittenForm::Inline(text) => format!("-{gap}{text}"),
        WrittenForm::Lines(lines) => format!("-{gap}{}", lines.trim_start_matches(' ')),
        WrittenForm::Scalar(header, lines) => format!("-{gap}{header}{}{lines}", layout.newline),
    }
}

/// A value on one line.
pub(super) fn flow(value: &Value, was: Option<(Style, Kind)>) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => string(text, was, Inside::Flow),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| flow(item, None)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(entries) => {
            let entries: Vec<_> = entries.iter().map(|(name, value)| flow_entry(name, value)).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

pub(super) fn flow_entry(name: &str, value: &Value) -> String {
    format!("{}: {}", key(name), flow(value, None))
}

fn key(name: &str) -> String {
    let is_number = !name.is_empty() && name.len() < 10 && name.bytes().all(|byte| byte.is_ascii_digit());
    if is_number || is_simple_word(name) { name.to_owned() } else { double(name) }
}

#[derive(Clone, Copy, PartialEq)]
enum Inside {
    Block,
    Flow,
}

/// A string on one line, in the style it had if that bears the new text.
fn string(text: &str, was: Option<(Style, Kind)>, place: Inside) -> String {
    match was {
        Some((Style::Plain, Kind::Str)) if is_safe_plain(text, place) => text.to_owned(),
        Some((Style::Single, _)) if text.chars().all(is_printable) => {
            format!("'{}'", text.replace('\'', "''"))
        }
        Some((Style::Double, _)) => double(text),
        Some(_) | None if is_simple_word(text) => text.to_owned(),
        Some(_) | None => double(text),
    }
}

/// A word that no YAML reader, of this version or an older one, takes for anything but text.
fn is_simple_word(text: &str) -> bool {
    const TAKEN: [&str; 7] = ["yes", "no", "on", "off", "true", "false", "null"];
    let relative = text.trim_start_matches('.');
    let starts_well = text
        .starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '_' | '/'))
        || (relative.len() < text.len() && relative.starts_with('/'));
    starts_well
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./+@".contains(&byte))
        && !TAKEN.iter().any(|taken| text.eq_ignore_ascii_case(taken))
        && scalar::resolve(text) == Kind::Str
}

/// Text that may stand without quotes. Stricter than YAML: in doubt the text is quoted.
fn is_safe_plain(text: &str, place: Inside) -> bool {
    const INDICATORS: &str = "-?:,[]{}#&*!|>'\"%@`= ";
    let first_is_safe = text.chars().next().is_some_and(|first| !INDICATORS.contains(first));
    first_is_safe
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && text.chars().all(is_printable)
        && (place == Inside::Block || !text.contains([',', '[', ']', '{', '}', ':']))
        && !text.starts_with("...")
        && scalar::resolve(text) == Kind::Str
}

fn is_printable(char: char) -> bool {
    !char.is_control() && !matches!(char, '\u{feff}' | '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}')
}

fn double(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for char in text.chars() {
        match char {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            char if is_printable(char) => quoted.push(char),
            char => quoted.push_str(&format!("\\u{:04X}", char as u32)),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether a block scalar without an indentation indicator holds the text and looks right.
fn fits_literal(text: &str) -> bool {
    let content = text.strip_suffix('\n').unwrap_or(text);
    !content.is_empty()
        && !content.ends_with('\n')
        && !content.starts_with([' ', '\t', '\n'])
        && content.chars().all(|char| matches!(char, '\n' | '\t') || is_printable(char))
        && content.split('\n').all(|line| line.is_empty() || !line.trim_matches([' ', '\t']).is_empty())
}

fn literal(text: &str, column: usize, layout: &Layout) -> WrittenForm {
    let (header, content) = match text.strip_suffix('\n') {
        Some(content) => ("|", content),
        None => ("|-", text),
    };
    let pad = " ".repeat(column);
    let lines =
        content.split('\n').map(|line| if line.is_empty() { String::new() } else { format!("{pad}{line}") });
    WrittenForm::Scalar(header.to_owned(), lines.collect::<Vec<_>>().join(layout.newline))
}
