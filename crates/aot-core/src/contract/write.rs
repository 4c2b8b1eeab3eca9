//! A changed `State` back into its document: the fewest edits that say the difference. What did not change is not
//! touched, so comments, order and style stay.

use std::sync::Arc;

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::Value;

use super::decode;
use super::document::Document;
use super::edit::{Edit, EditRefused, Path, PathStep};
use super::touched::Touched;
use crate::state::State;

/// Why a state was not written; the document is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotWritten {
    #[error(transparent)]
    Refused(#[from] EditRefused),
    #[error("the text after the change would not say what was meant")]
    Misread,
}

/// Makes `document`, which says `old`, say `new`. What was edited is decoded again and compared before it counts.
pub fn write(document: &Document, old: &State, new: &State) -> Result<Document, NotWritten> {
    let mut edits_made = filled_in(document, old);
    edits_made.extend(edits(old, new));
    let changed = document.edited(&edits_made)?;
    let touched = Touched::by(&edits_made, changed.root());
    let says = decode::touched(changed.root(), &touched);
    if !says.is_some_and(|says| touched.says(changed.root(), &says, new)) {
        return Err(NotWritten::Misread);
    }
    debug_assert_eq!(
        decode::state(changed.root()).0.as_ref(),
        Some(new),
        "an entry that was not edited changed"
    );
    Ok(changed)
}

/// What the program owns and a person left out is written with the first change: once the loop has begun it must be there.
fn filled_in(document: &Document, old: &State) -> Vec<Edit> {
    let root = document.root();
    let control = root.get("control");
    let is_absent = |key: &&str| control.is_none_or(|control| control.get(key).is_none());
    let counters: Vec<&str> = decode::owned_by_program("Control").iter().copied().filter(is_absent).collect();
    let absent = |key: &&&str| **key != "control" && root.get(key).is_none();
    let sections: Vec<&str> = decode::owned_by_program("State").iter().filter(absent).copied().collect();
    if counters.is_empty() && sections.is_empty() {
        return Vec::new();
    }
    let whole = value(old);
    let set = |path: &[&str]| {
        let value = path.iter().try_fold(&whole, |value, key| value.get(key)).cloned().unwrap_or(Value::Null);
        Edit::Set { path: path.iter().map(|step| PathStep::from(*step)).collect(), value }
    };
    let counters = counters.into_iter().map(|key| set(&["control", key]));
    counters.chain(sections.into_iter().map(|key| set(&[key]))).collect()
}

/// The difference of two states as edits of the older one's document.
pub fn edits(old: &State, new: &State) -> Vec<Edit> {
    let mut edits = Vec::new();
    if old.objective != new.objective {
        fields(&["objective"], &old.objective, &new.objective, &mut edits);
    }
    if old.control != new.control {
        fields(&["control"], &old.control, &new.control, &mut edits);
    }
    atoms(old, new, &mut edits);
    items("decompositions", &old.decompositions, &new.decompositions, &mut edits);
    entries("or_groups", &old.or_groups, &new.or_groups, &mut edits);
    entries("bindings", &old.bindings, &new.bindings, &mut edits);
    items("trail", &old.trail, &new.trail, &mut edits);
    items("corrections", &old.corrections, &new.corrections, &mut edits);
    edits
}

/// Atoms keep their order: some go, some change in place, new ones come last.
fn atoms(old: &State, new: &State, edits: &mut Vec<Edit>) {
    for (place, id) in old.atoms.keys().enumerate().rev() {
        if !new.atoms.contains_key(id) {
            edits.push(Edit::Remove { path: vec!["atoms".into(), place.into()] });
        }
    }
    for (place, (id, atom)) in new.atoms.iter().enumerate() {
        match old.atoms.get(id) {
            Some(before) if Arc::ptr_eq(before, atom) || before == atom => {}
            Some(before) => {
                let path: Path = vec!["atoms".into(), place.into()];
                difference(&path, &value(before), &value(atom), edits);
            }
            None => edits.push(Edit::Push { path: vec!["atoms".into()], value: value(atom) }),
        }
    }
}

/// A list whose middle part changed: the rest stays as it is.
fn items<T: PartialEq + Serialize>(section: &str, old: &[T], new: &[T], edits: &mut Vec<Edit>) {
    let head = old.iter().zip(new).take_while(|(before, after)| before == after).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev());
    let tail = tail.take_while(|(before, after)| before == after).count();
    let (gone, come) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let at = |place: usize| vec![section.into(), place.into()];
    if gone.len() == come.len() {
        for (place, (before, after)) in gone.iter().zip(come).enumerate() {
            difference(&at(head + place), &value(before), &value(after), edits);
        }
        return;
    }
    for place in (head..head + gone.len()).rev() {
        edits.push(Edit::Remove { path: at(place) });
    }
    for (place, after) in come.iter().enumerate() {
        let value = value(after);
        if tail == 0 {
            edits.push(Edit::Push { path: vec![section.into()], value });
        } else {
            edits.push(Edit::Insert { path: at(head + place), value });
        }
    }
}

fn entries<K, T>(section: &str, old: &IndexMap<K, T>, new: &IndexMap<K, T>, edits: &mut Vec<Edit>)
where
    K: std::hash::Hash + Eq + ToString,
    T: PartialEq + Serialize,
{
    if old == new {
        return;
    }
    let at = |key: &K| vec![section.into(), PathStep::Key(key.to_string())];
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        edits.push(Edit::Remove { path: at(key) });
    }
    for (key, after) in new {
        match old.get(key) {
            Some(before) if before == after => {}
            Some(before) => difference(&at(key), &value(before), &value(after), edits),
            None => edits.push(Edit::Set { path: at(key), value: value(after) }),
        }
    }
}

fn fields<T: Serialize>(path: &[&str], old: &T, new: &T, edits: &mut Vec<Edit>) {
    let path: Path = path.iter().map(|step| PathStep::from(*step)).collect();
    difference(&path, &value(old), &value(new), edits);
}

/// Leaves that differ, found from the top. Checks are set whole: their older spellings do not mix with the newer.
fn difference(path: &Path, old: &Value, new: &Value, edits: &mut Vec<Edit>) {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        if old != new {
            edits.push(Edit::Set { path: path.clone(), value: new.clone() });
        }
        return;
    };
    let at = |key: &str| path.iter().cloned().chain([PathStep::from(key)]).collect::<Path>();
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        edits.push(Edit::Remove { path: at(key) });
    }
    for (key, value) in after {
        match before.get(key) {
            Some(same) if same == value => {}
            Some(other) if !matches!(key.as_str(), "base_case" | "check") => {
                difference(&at(key), other, value, edits);
            }
            Some(_) | None => edits.push(Edit::Set { path: at(key), value: value.clone() }),
        }
    }
}

fn value<T: Serialize>(of: &T) -> Value {
    serde_json::to_value(of).expect("the contract's nouns are plain data")
}
