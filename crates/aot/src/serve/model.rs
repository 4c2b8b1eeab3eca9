//! A loop as the page shows it: JSON in parts, and what is different between two moments. Reads nothing.

use std::collections::BTreeMap;

use aot_core::rules::Change;
use aot_core::state::{LoopStatus, State};
use aot_core::view::View;
use aot_runner::plain_text;
use aot_runner::store::journal::JournalEntry;
use serde_json::{Map, Value, json};

use crate::screens::diagram::{Arrow, ArrowKind, BoxKind, Diagram, Layout, PathKind, lines, word};
use crate::screens::status::LastSeen;
use crate::screens::trace::TraceSpan;
use crate::screens::words::sentence;
use crate::text;

/// So many characters of a text that stands in a list.
const SHORT: usize = 400;

/// Columns of a name in a box.
const NAME: usize = 27;

/// Lists of the view that the page does not show in its head.
const NOT_IN_HEAD: [&str; 5] = ["at_work", "next", "failures", "base_case", "groups"];

/// Parts that have changed, by name.
pub type Parts = Map<String, Value>;

/// Where the loop stands.
pub fn head(state: &State, view: &View, driver: Option<&str>) -> Value {
    let mut head = json!(view);
    let object = head.as_object_mut().expect("a view is an object");
    NOT_IN_HEAD.iter().for_each(|key| {
        object.remove(*key);
    });
    let objective = &state.objective;
    head["goal"] = json!(objective.goal);
    head["done"] = json!(objective.definition_of_done);
    head["driver"] = json!(driver);
    head["corrections"] = json!(state.corrections.len());
    head["limits"] = json!(state.constraints());
    let groups: Map<String, Value> = state
        .or_groups
        .iter()
        .map(|(name, group)| {
            let said = json!({"selected": group.selected, "choices": group.choices, "failed": group.failed});
            (name.to_string(), said)
        })
        .collect();
    head["groups"] = Value::Object(groups);
    head["over"] = json!(matches!(view.status, LoopStatus::Stopped | LoopStatus::Completed));
    head
}

/// The checks of the base case, with what was last seen of each.
pub fn checks(view: &View, seen: &[LastSeen]) -> Value {
    let rows = view.base_case.iter().zip(seen).map(|(check, seen)| {
        json!({
            "item": check.item, "type": check.kind, "runs": check.runs, "outcome": seen.outcome, "at": seen.at,
            "why": seen.why, "confirmed": check.confirmed.as_ref().map(|(holds, _)| holds),
        })
    });
    rows.collect()
}

/// The boxes with their places, and the arrows; without what changes from moment to moment.
pub fn graph(diagram: &Diagram) -> Value {
    let Layout { places, ways, width, height } = Layout::of(diagram);
    let boxes = diagram.boxes.iter().zip(&places).map(|(drawn, place)| {
        let kind = match drawn.kind {
            BoxKind::Atom => "atom",
            BoxKind::Parent => "parent",
            BoxKind::OrGroup => "group",
            BoxKind::Contracted => "many",
        };
        let left = (place.x - place.width / 2.0).round();
        let top = (place.y - place.height / 2.0).round();
        json!({
            "id": drawn.name, "kind": kind, "name": text::fit(&drawn.name, NAME), "lines": lines(drawn), "x": left, "y": top,
            "w": place.width, "h": place.height,
        })
    });
    let arrows = diagram.arrows.iter().zip(&ways).map(|(arrow, way)| {
        let kind = match arrow.kind {
            ArrowKind::Dependency => "dependency",
            ArrowKind::Child => "child",
            ArrowKind::Choice => "choice",
        };
        let way: Vec<[f64; 2]> = way.iter().map(|(x, y)| [x.round(), y.round()]).collect();
        json!([arrow.from, arrow.to, kind, way])
    });
    json!({
        "boxes": boxes.collect::<Vec<_>>(), "arrows": arrows.collect::<Vec<_>>(), "w": width.round(),
        "h": height.round(),
    })
}

/// Whether two diagrams have the same boxes and arrows, whatever their statuses.
pub fn same_structure(one: &Diagram, other: &Diagram) -> bool {
    let same_ends = |(a, b): (&Arrow, &Arrow)| (a.from, a.to, a.kind as u8) == (b.from, b.to, b.kind as u8);
    one.boxes.len() == other.boxes.len()
        && one.arrows.len() == other.arrows.len()
        && one
            .boxes
            .iter()
            .zip(&other.boxes)
            .all(|(a, b)| a.kind == b.kind && a.name == b.name && a.text == b.text)
        && one.arrows.iter().zip(&other.arrows).all(same_ends)
}

/// The statuses of boxes and the critical arrows, each with its place; those that differ from an earlier diagram of the
/// same structure, or all.
pub fn statuses(diagram: &Diagram, before: Option<&Diagram>) -> Parts {
    let mut parts = Parts::new();
    let boxes = diagram
        .boxes
        .iter()
        .enumerate()
        .filter(|(at, drawn)| before.is_none_or(|before| before.boxes[*at].status != drawn.status));
    let boxes: Vec<Value> = boxes.map(|(at, drawn)| json!([at, word(drawn.status)])).collect();
    if !boxes.is_empty() {
        parts.insert("statuses".into(), Value::Array(boxes));
    }
    let is_critical = |arrow: &Arrow| arrow.path == PathKind::Critical;
    let arrows = diagram.arrows.iter().enumerate().filter(|(at, arrow)| {
        before.map_or(is_critical(arrow), |before| before.arrows[*at].path != arrow.path)
    });
    let arrows: Vec<Value> = arrows.map(|(at, arrow)| json!([at, is_critical(arrow)])).collect();
    if !arrows.is_empty() || before.is_none() {
        parts.insert("critical".into(), Value::Array(arrows));
    }
    parts
}

/// Whether a span goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanEnd {
    Open,
    Ended,
}

/// A bar of the timeline, in milliseconds since 1970.
pub fn span(span: &TraceSpan, end: SpanEnd) -> Value {
    let to = (end == SpanEnd::Ended).then_some(span.to / 1000);
    let said = |key: &str| span.args.get(key).and_then(Value::as_str).map(short);
    json!({
        "row": span.row.word(), "name": span.name, "from": span.from / 1000, "to": to, "outcome": said("outcome"),
        "why": said("reason").or_else(|| said("summary")),
    })
}

/// What an entry of the journal tells, a line each.
pub fn told(entry: &JournalEntry<Change>) -> Vec<Value> {
    let sentences = entry.changes.iter().filter_map(|change| sentence(change, &entry.changes));
    sentences.map(|told| json!({"at": entry.at, "told": short(&told)})).collect()
}

/// What is different between two maps of what goes on; what is over is null.
pub fn doing(before: &BTreeMap<String, Value>, now: &BTreeMap<String, Value>) -> Parts {
    let gone = before.keys().filter(|key| !now.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let new = now.iter().filter(|(key, value)| before.get(*key) != Some(value));
    gone.chain(new.map(|(key, value)| (key.clone(), value.clone()))).collect()
}

/// The beginning of a text, in one line.
pub fn short(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(SHORT) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

/// Every text in it without what a terminal or a browser obeys: agents and files wrote some of them.
pub fn plain(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(plain_text::text(&text)),
        Value::Array(values) => values.into_iter().map(plain).collect(),
        Value::Object(fields) => Value::Object(
            fields.into_iter().map(|(key, value)| (plain_text::text(&key), plain(value))).collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_are_plain() {
        let given = json!({"a\u{202e}": ["\x1b[31mred\x1b[0m", 1, null], "b": "<script>\n\u{2066}x"});
        assert_eq!(plain(given), json!({"a": ["red", 1, null], "b": "<script>\nx"}));
    }

    #[test]
    fn what_goes_on_is_told_once() {
        let map = |entries: &[(&str, &str)]| -> BTreeMap<String, Value> {
            entries.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect()
        };
        let (before, now) = (map(&[("A1", "reads"), ("A2", "x")]), map(&[("A2", "x"), ("A3", "new")]));
        assert_eq!(Value::Object(doing(&before, &now)), json!({"A1": null, "A3": "new"}));
        assert_eq!(doing(&now, &now), Parts::new());
    }
}
