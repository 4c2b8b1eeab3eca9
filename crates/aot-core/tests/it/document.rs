//! Random documents and random edits: what is written is what is read, and nothing else changes.

use crate::printed::{Habits, print};
use aot_core::contract::document::{Document, Limits};
use aot_core::contract::edit::{Edit, Path, PathStep};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Fewer than proptest's own default, so that the suite stays quick in debug; `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(200), failure_persistence: None, ..ProptestConfig::default() }
}

fn text() -> impl Strategy<Value = String> {
    const ODD: [&str; 30] = [
        "",
        "~",
        "null",
        "true",
        "yes",
        "No",
        "1",
        "-1",
        "0x1f",
        "1e3",
        ".5",
        ".inf",
        "2025-01-15",
        "12:30",
        "---",
        "...",
        "- a",
        "? b",
        "a: b",
        "a #b",
        "a:",
        " a",
        "a ",
        "ключ",
        "\u{1f600}",
        "=",
        "<<",
        "a\r\nb",
        "\t",
        "# c",
    ];
    prop_oneof![
        6 => "[a-zA-Z_][a-zA-Z0-9_/.-]{0,8}",
        3 => "[a-z]{1,5}( [a-z]{1,5}){0,3}",
        2 => "[a-z:# ,'\"\\[\\]{}&*!|>%@`?\\\\-]{0,10}",
        1 => "[a-z ]{0,5}(\n[ a-z#-]{0,5}){1,4}\n{0,2}",
        1 => "\\PC{0,6}",
        1 => "[\\x01-\\x20\u{85}\u{2028}\u{feff}a-z]{0,5}",
        1 => proptest::sample::select(&ODD[..]).prop_map(str::to_owned),
    ]
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        5 => text().prop_map(Value::from),
        2 => any::<i64>().prop_map(Value::from),
        2 => (0i64..100).prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => (-1e6f64..1e6).prop_map(Value::from),
        1 => proptest::num::f64::NORMAL.prop_map(Value::from),
    ]
}

fn object(value: impl Strategy<Value = Value>, size: std::ops::Range<usize>) -> impl Strategy<Value = Value> {
    proptest::collection::vec((text(), value), size)
        .prop_map(|entries| Value::Object(entries.into_iter().collect()))
}

fn anything() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 40, 5, |inner| {
        prop_oneof![proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from), object(inner, 0..5)]
    })
}

fn atom() -> impl Strategy<Value = Value> {
    let ids = proptest::collection::vec((1..9u8).prop_map(|id| format!("A{id}")), 0..3);
    let status = proptest::sample::select(vec!["pending", "in_progress", "resolved"]);
    (1..9u8, text(), status, ids).prop_map(|(id, about, status, ids)| {
        json!({"id": format!("A{id}"), "description": about, "status": status, "depends_on": ids})
    })
}

fn state() -> impl Strategy<Value = Value> {
    let atoms = proptest::collection::vec(atom(), 0..5);
    let bindings = proptest::collection::vec((1..9u8, text(), proptest::collection::vec(text(), 0..3)), 0..4);
    (text(), 0..9i64, atoms, bindings, anything()).prop_map(|(goal, iteration, atoms, bindings, extra)| {
        let bindings: Map<_, _> = bindings
            .into_iter()
            .map(|(id, summary, files)| (format!("A{id}"), json!({"summary": summary, "artifacts": files})))
            .collect();
        json!({
            "objective": {"goal": goal, "base_case": {"type": "command", "levels": {"1": "low", "5": "high"}}},
            "control": {"status": "running", "iteration": iteration, "stop_reason": null},
            "atoms": atoms,
            "bindings": bindings,
            "unknown": extra,
            "trail": [],
        })
    })
}

fn root() -> impl Strategy<Value = Value> {
    prop_oneof![state(), object(anything(), 1..5)]
}

/// A wish about a random place: the numbers choose among what is there when its turn comes.
#[derive(Clone, Debug)]
struct Wish {
    turns: Vec<usize>,
    what: usize,
    key: String,
    value: Value,
}

fn wish() -> impl Strategy<Value = Wish> {
    let value = prop_oneof![3 => scalar(), 1 => atom(), 2 => anything()];
    (proptest::collection::vec(0..60usize, 0..5), 0..8usize, text(), value)
        .prop_map(|(turns, what, key, value)| Wish { turns, what, key, value })
}

impl Wish {
    /// The edit in the document that says `now`, which is changed to what it must say then.
    fn aim(&self, now: &mut Value) -> Option<Edit> {
        let mut path: Path = Vec::new();
        let mut place = &mut *now;
        for &turn in &self.turns {
            let Some(step) = step(place, turn) else { break };
            place = child(place, &step);
            path.push(step);
        }
        let value = self.value.clone();
        match (self.what, place) {
            (0 | 1, place) if !path.is_empty() => {
                *place = value.clone();
                Some(Edit::Set { path, value })
            }
            // A neighbour of what is there: some of it kept, some of it new.
            (2, place) if !path.is_empty() => {
                match &mut *place {
                    Value::Object(entries) => {
                        entries.retain(|key, _| key.len() % 3 != 0);
                        entries.insert(self.key.clone(), value);
                    }
                    Value::Array(items) => {
                        items.insert(items.len() / 2, value);
                        items.truncate(6);
                    }
                    scalar => *scalar = value,
                }
                Some(Edit::Set { path, value: place.clone() })
            }
            (3, _) => {
                let last = path.pop()?;
                remove(now, &path, &last);
                path.push(last);
                Some(Edit::Remove { path })
            }
            (4 | 5, Value::Array(items)) => {
                items.push(value.clone());
                Some(Edit::Push { path, value })
            }
            (4 | 5, place @ Value::Null) => {
                *place = json!([value.clone()]);
                Some(Edit::Push { path, value })
            }
            (4 | 5, Value::Object(entries)) => {
                entries.insert(self.key.clone(), value.clone());
                path.push(PathStep::Key(self.key.clone()));
                Some(Edit::Set { path, value })
            }
            (6, Value::Array(items)) => {
                let at = self.turns.first().copied().unwrap_or(0) % (items.len() + 1);
                items.insert(at, value.clone());
                path.push(PathStep::Index(at));
                Some(Edit::Insert { path, value })
            }
            (7, Value::Object(entries)) if !entries.contains_key(&self.key) => {
                entries.insert(self.key.clone(), json!({"nested": value.clone()}));
                path.extend([PathStep::Key(self.key.clone()), PathStep::Key("nested".to_owned())]);
                Some(Edit::Set { path, value })
            }
            _ => None,
        }
    }
}

fn step(place: &Value, turn: usize) -> Option<PathStep> {
    match place {
        Value::Array(items) => Some(PathStep::Index(turn.checked_rem(items.len())?)),
        Value::Object(entries) => {
            entries.keys().nth(turn.checked_rem(entries.len())?).map(|key| PathStep::Key(key.clone()))
        }
        _ => None,
    }
}

fn child<'v>(place: &'v mut Value, step: &PathStep) -> &'v mut Value {
    match step {
        PathStep::Key(key) => &mut place[key.as_str()],
        PathStep::Index(at) => &mut place[*at],
    }
}

fn remove(now: &mut Value, path: &[PathStep], last: &PathStep) {
    let parent = path.iter().fold(now, child);
    match (parent, last) {
        (Value::Object(entries), PathStep::Key(key)) => drop(entries.shift_remove(key)),
        (Value::Array(items), PathStep::Index(at)) => drop(items.remove(*at)),
        _ => unreachable!("a step fits its parent"),
    }
}

/// Printed comments carry numbers, so each can be told from the others.
fn comments(text: &str) -> Vec<String> {
    text.split("#~").skip(1).map(|rest| rest.chars().take_while(char::is_ascii_digit).collect()).collect()
}

fn is_subsequence(part: &[String], whole: &[String]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|wanted| whole.any(|found| found == wanted))
}

/// A new item or entry, and a scalar in place of a scalar, leave every comment where it was.
fn costs_no_comment(edit: &Edit, was: &Value) -> bool {
    let is_scalar = |value: &Value| !value.is_array() && !value.is_object();
    match edit {
        Edit::Push { .. } | Edit::Insert { .. } => true,
        Edit::Remove { .. } => false,
        Edit::Set { path, value } => {
            let old = path.iter().try_fold(was, |place, step| match step {
                PathStep::Key(key) => place.get(key.as_str()),
                PathStep::Index(at) => place.get(at),
            });
            old.is_none_or(|old| is_scalar(old) && is_scalar(value))
        }
    }
}

/// The start of the line on which a removed value of a block collection begins; comments above that line stay.
fn removed_at(document: &Document, edit: &Edit) -> Option<usize> {
    let Edit::Remove { path } = edit else { return None };
    let mut node = document.root();
    let mut start = node.offset();
    for step in path {
        (start, node) = match step {
            PathStep::Key(key) => {
                let (name, value) =
                    node.entries().find(|(name, _)| name.scalar_text().as_deref() == Some(key))?;
                (name.offset(), value)
            }
            PathStep::Index(at) => {
                let item = node.items().nth(*at)?;
                (item.offset(), item)
            }
        };
    }
    let line = document.text()[..start].rfind('\n').map_or(0, |at| at + 1);
    // An item whose dash stands on a line above takes the comments in between with it.
    let is_behind_dash =
        document.text()[line..start].contains('-') || matches!(path.last(), Some(PathStep::Key(_)));
    is_behind_dash.then_some(line)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_printed_is_what_is_read(value in root(), seed in any::<u64>()) {
        let text = print(&value, &mut Habits::new(seed));
        let document = Document::parse(text.clone(), &Limits::default())
            .map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(document.root().value(), value, "{}", text);
        prop_assert_eq!(document.text(), &text);
        let again = Document::unpack(text.clone(), &document.pack()).expect("its own pack");
        prop_assert_eq!(again.check_consistency(), Ok(()));
        prop_assert_eq!(again.pack(), document.pack());
    }

    #[test]
    fn an_edit_changes_what_it_says_and_nothing_else(
        value in root(), seed in any::<u64>(), effects in proptest::collection::vec(wish(), 1..5)
    ) {
        let text = print(&value, &mut Habits::new(seed));
        let mut document = Document::parse(text.clone(), &Limits::default())
            .map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        let mut now = value;
        for wish in effects {
            let was = now.clone();
            let Some(edit) = wish.aim(&mut now) else { continue };
            let before = document.text().to_owned();
            let removed = removed_at(&document, &edit);
            if let Err(refusal) = document.edit(std::slice::from_ref(&edit)) {
                return Err(TestCaseError::fail(format!("{refusal}\n{edit:?}\n{before}")));
            }
            let story = format!("{edit:?}\n{before}\nbecame\n{}", document.text());
            prop_assert_eq!(document.root().value(), now.clone(), "{}", story);
            prop_assert_eq!(document.check_consistency(), Ok(()), "{}", story);
            let (old, new) = (comments(&before), comments(document.text()));
            prop_assert!(is_subsequence(&new, &old), "comments moved: {}", story);
            if costs_no_comment(&edit, &was) {
                prop_assert_eq!(new.len(), old.len(), "comments lost: {}", story);
            }
            if let Some(removed) = removed {
                let above = comments(&before[..removed]);
                prop_assert_eq!(&new[..above.len()], &above[..], "comments above lost: {}", story);
            }
        }
    }

    #[test]
    fn several_edits_are_made_together_or_not_at_all(
        value in root(), seed in any::<u64>(), effects in proptest::collection::vec(wish(), 1..5)
    ) {
        let text = print(&value, &mut Habits::new(seed));
        let mut document = Document::parse(text.clone(), &Limits::default())
            .map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        let mut now = value;
        let mut edits: Vec<Edit> = effects.iter().filter_map(|wish| wish.aim(&mut now)).collect();
        edits.push(Edit::Remove { path: vec![PathStep::Key("no such key".to_owned()), PathStep::Index(7)] });
        prop_assert!(document.edit(&edits).is_err());
        prop_assert_eq!(document.text(), &text);
        prop_assert_eq!(document.check_consistency(), Ok(()));
        edits.pop();
        prop_assert_eq!(document.edit(&edits), Ok(()), "{:?}\n{}", edits, text);
        prop_assert_eq!(document.root().value(), now, "{:?}\n{}", edits, text);
    }
}
