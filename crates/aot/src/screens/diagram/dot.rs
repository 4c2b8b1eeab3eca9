//! A diagram in the language of Graphviz.

use std::fmt::Write;

use aot_core::view::DisplayStatus;

use super::{ArrowKind, BoxKind, DESCRIPTION, Diagram, PathKind, mark};
use crate::screens::markup::escaped;
use crate::text;

pub fn dot(diagram: &Diagram) -> String {
    let mut page = String::from("digraph aot {\n  rankdir=LR;\n");
    let title = escaped(&diagram.goal);
    let _ = writeln!(page, "  label=<<b>{title}</b><br/>{}>; labelloc=t;", escaped(&diagram.progress));
    page += "  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\", fontsize=11];\n";
    page += "  edge [color=\"#8a919c\", arrowsize=0.7];\n";
    for (at, drawn) in diagram.boxes.iter().enumerate() {
        let (fill, line) = colours(drawn.status);
        let shape = match drawn.kind {
            BoxKind::Atom => "",
            BoxKind::Parent => ", peripheries=2",
            BoxKind::OrGroup => ", shape=diamond, style=filled",
            BoxKind::Contracted => ", shape=folder, style=filled",
        };
        let (name, text) = (escaped(&text::fit(&drawn.name, DESCRIPTION)), escaped(&drawn.text));
        let text = match (drawn.status, text.is_empty()) {
            (_, true) => String::new(),
            (DisplayStatus::Failed, false) => format!("<br/><s>{text}</s>"),
            (_, false) => format!("<br/>{text}"),
        };
        let sign = mark(drawn.status);
        let _ = writeln!(
            page,
            "  n{at} [label=<{sign} <b>{name}</b>{text}>, fillcolor=\"{fill}\", color=\"{line}\"{shape}];"
        );
    }
    for arrow in &diagram.arrows {
        let line = match arrow.kind {
            ArrowKind::Dependency => "",
            ArrowKind::Child => "style=dashed",
            ArrowKind::Choice => "style=dotted",
        };
        let weight = match arrow.path {
            PathKind::Critical => "penwidth=2.5, color=\"#c77700\"",
            PathKind::Other => "",
        };
        let both: Vec<&str> = [line, weight].into_iter().filter(|part| !part.is_empty()).collect();
        let style = if both.is_empty() { String::new() } else { format!(" [{}]", both.join(", ")) };
        let _ = writeln!(page, "  n{} -> n{}{style};", arrow.from, arrow.to);
    }
    page + "}\n"
}

/// The colours of a box: inside and its line.
pub fn colours(status: DisplayStatus) -> (&'static str, &'static str) {
    match status {
        DisplayStatus::Resolved => ("#dcf3e1", "#2f8f4e"),
        DisplayStatus::Claimed => ("#fbf1cf", "#a67c00"),
        DisplayStatus::Running => ("#d9ecfb", "#1f78b4"),
        DisplayStatus::Ready => ("#ffffff", "#3b4252"),
        DisplayStatus::Pending => ("#ffffff", "#9aa2ae"),
        DisplayStatus::Dormant => ("#f4f5f7", "#c9ced6"),
        DisplayStatus::Failed => ("#fbe3e1", "#c0392b"),
    }
}
