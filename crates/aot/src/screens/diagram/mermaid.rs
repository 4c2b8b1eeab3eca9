//! A diagram in the language of Mermaid, which code hosts draw in Markdown.

use std::fmt::Write;

use aot_core::view::DisplayStatus;

use super::dot::colours;
use super::{ArrowKind, BoxKind, DESCRIPTION, Diagram, PathKind, mark, word};
use crate::text;

pub fn mermaid(diagram: &Diagram) -> String {
    let mut page = String::from("flowchart LR\n");
    for (at, drawn) in diagram.boxes.iter().enumerate() {
        let text = match drawn.text.is_empty() {
            true => String::new(),
            false => format!("<br/>{}", entities(&drawn.text)),
        };
        let label =
            format!("{} <b>{}</b>{text}", mark(drawn.status), entities(&text::fit(&drawn.name, DESCRIPTION)));
        let (open, close) = match drawn.kind {
            BoxKind::Atom => ("(", ")"),
            BoxKind::Parent => ("[[", "]]"),
            BoxKind::OrGroup => ("{{", "}}"),
            BoxKind::Contracted => ("[(", ")]"),
        };
        let _ = writeln!(page, "  n{at}{open}\"{label}\"{close}:::{}", word(drawn.status));
    }
    let mut critical = Vec::new();
    for (at, arrow) in diagram.arrows.iter().enumerate() {
        let line = match arrow.kind {
            ArrowKind::Dependency => "-->",
            ArrowKind::Child | ArrowKind::Choice => "-.->",
        };
        let _ = writeln!(page, "  n{} {line} n{}", arrow.from, arrow.to);
        if arrow.path == PathKind::Critical {
            critical.push(at.to_string());
        }
    }
    for (status, word) in diagram.statuses() {
        let (fill, line) = colours(status);
        let more = match status {
            DisplayStatus::Failed => ",text-decoration:line-through",
            DisplayStatus::Dormant => ",stroke-dasharray:4",
            DisplayStatus::Resolved
            | DisplayStatus::Claimed
            | DisplayStatus::Running
            | DisplayStatus::Ready
            | DisplayStatus::Pending => "",
        };
        let _ = writeln!(page, "  classDef {word} fill:{fill},stroke:{line},color:#1d2129{more}");
    }
    if !critical.is_empty() {
        let _ = writeln!(page, "  linkStyle {} stroke:#c77700,stroke-width:3px", critical.join(","));
    }
    page
}

/// A text in which Mermaid finds neither markup nor the end of a label.
pub fn entities(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '#' | '<' | '>' | '&' | '`' | '\\' | ';' | '{' | '}' | '[' | ']' | '(' | ')' | '|'
            | '*' | '_' | '%' | '@' => {
                let _ = write!(safe, "#{};", u32::from(c));
            }
            c => safe.push(c),
        }
    }
    safe
}
