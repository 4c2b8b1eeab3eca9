//! Which entries of a state's collections some edits touched, so that a text of a hundred thousand atoms need not be read
//! again because one of them changed.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use indexmap::IndexMap;

use super::document::Node;
use super::edit::{Edit, PathStep};
use crate::state::State;

/// By the section's name. What is not here is as it was.
pub(super) struct Touched(HashMap<&'static str, TouchedEntries>);

/// The collections of a state, each a list or a mapping.
const SECTIONS: [&str; 6] = ["atoms", "decompositions", "or_groups", "bindings", "trail", "corrections"];

#[derive(Default)]
struct TouchedEntries {
    /// Some went, or others moved.
    all: bool,
    places: BTreeSet<usize>,
    names: BTreeSet<String>,
}

impl Touched {
    /// By edits that led to the document with this root.
    pub fn by(edits: &[Edit], root: Node<'_>) -> Touched {
        let mut touched: HashMap<&'static str, TouchedEntries> = HashMap::new();
        let mut pushed: HashMap<&'static str, usize> = HashMap::new();
        for edit in edits {
            let Some(PathStep::Key(key)) = edit.path().first() else { continue };
            let Some(section) = SECTIONS.into_iter().find(|section| section == key) else { continue };
            let entries = touched.entry(section).or_default();
            match (edit, &edit.path()[1..]) {
                (Edit::Push { .. }, []) => *pushed.entry(section).or_default() += 1,
                (_, []) | (Edit::Remove { .. } | Edit::Insert { .. }, [_]) => entries.all = true,
                (_, [PathStep::Index(place), ..]) => drop(entries.places.insert(*place)),
                (_, [PathStep::Key(name), ..]) => drop(entries.names.insert(name.clone())),
            }
        }
        for (section, count) in pushed {
            let length = root.get(section).map_or(0, |entries| entries.len());
            let places = length.saturating_sub(count)..length;
            touched.entry(section).or_default().places.extend(places);
        }
        Touched(touched)
    }

    pub fn has_place(&self, section: &str, place: usize) -> bool {
        self.0.get(section).is_some_and(|entries| entries.all || entries.places.contains(&place))
    }

    pub fn has_name(&self, section: &str, name: &str) -> bool {
        self.0.get(section).is_some_and(|entries| entries.all || entries.names.contains(name))
    }

    /// Whether `says`, which has the touched entries only, says of them what `meant` does, and the document with this root
    /// has as many entries as it should.
    pub fn says(&self, root: Node<'_>, says: &State, meant: &State) -> bool {
        let has_all = |section: &str, count: usize| root.get(section).map_or(0, |all| all.len()) == count;
        let atom = |place: usize| meant.atoms.get_index(place).map(|(_, atom)| &**atom);
        says.objective == meant.objective
            && says.control == meant.control
            && has_all("atoms", meant.atoms.len())
            && has_all("decompositions", meant.decompositions.len())
            && has_all("or_groups", meant.or_groups.len())
            && has_all("bindings", meant.bindings.len())
            && has_all("trail", meant.trail.len())
            && has_all("corrections", meant.corrections.len())
            && self.says_in_order("atoms", says.atoms.values().map(|atom| &**atom), atom)
            && self.says_in_order("decompositions", says.decompositions.iter(), |at| {
                meant.decompositions.get(at)
            })
            && self.says_by_name("or_groups", &says.or_groups, &meant.or_groups)
            && self.says_by_name("bindings", &says.bindings, &meant.bindings)
            && self.says_in_order("trail", says.trail.iter(), |at| meant.trail.get(at))
            && self.says_in_order("corrections", says.corrections.iter(), |at| meant.corrections.get(at))
    }

    /// Of a list what was touched has been read, in the order of the text.
    fn says_in_order<'m, T: PartialEq + 'm>(
        &self,
        section: &str,
        says: impl ExactSizeIterator<Item = &'m T>,
        meant: impl Fn(usize) -> Option<&'m T>,
    ) -> bool {
        let is_meant = |(said, place): (&T, usize)| meant(place) == Some(said);
        match self.0.get(section) {
            None => says.len() == 0,
            Some(entries) if entries.all => says.zip(0..).all(is_meant),
            Some(entries) => {
                says.len() == entries.places.len() && says.zip(entries.places.iter().copied()).all(is_meant)
            }
        }
    }

    fn says_by_name<K: Hash + Eq, T: PartialEq>(
        &self,
        section: &str,
        says: &IndexMap<K, T>,
        meant: &IndexMap<K, T>,
    ) -> bool {
        let expected = match self.0.get(section) {
            None => 0,
            Some(entries) if entries.all => meant.len(),
            Some(entries) => entries.names.len(),
        };
        says.len() == expected && says.iter().all(|(name, said)| meant.get(name) == Some(said))
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::{Document, Limits};
    use super::super::{Reading, decode, edits};
    use super::*;

    const TEXT: &str = "---\nobjective: {goal: g, background_intent: b, deliverables: d, definition_of_done: d}\n\
                        control: {status: pending, iteration: 0, stall_count: 0, prev_pending_count: -1, \
                        stop_requested: false, stop_reason: null, redirect_requested: false}\natoms:\n  \
                        - {id: A, description: a, status: pending, depends_on: []}\n  \
                        - {id: B, description: b, status: pending, depends_on: []}\n---\n";

    fn reading(text: &str) -> (Document, State) {
        let reading = Reading::of(Document::parse(text.to_owned(), &Limits::default()).expect("a document"));
        (reading.document, reading.state.expect("it has no errors"))
    }

    /// Whether a document with this text is taken for what an edit of B's description to `beta` was to make.
    fn is_believed(text: &str) -> bool {
        let (_, old) = reading(TEXT);
        let mut meant = old.clone();
        meant.atom_mut(&"B".into()).expect("it is there").description = "beta".into();
        let (document, _) = reading(text);
        let touched = Touched::by(&edits(&old, &meant), document.root());
        let says = decode::touched(document.root(), &touched).expect("it has no errors");
        assert_eq!(says.atoms.len(), 1, "only what was touched is read");
        touched.says(document.root(), &says, &meant)
    }

    #[test]
    fn what_was_touched_must_say_what_was_meant() {
        assert!(is_believed(&TEXT.replace("description: b", "description: beta")));
        assert!(!is_believed(TEXT));
        assert!(!is_believed(&TEXT.replace("description: b", "description: gamma")));
    }

    #[test]
    fn an_entry_too_many_is_noticed() {
        let one_more = "depends_on: []}\n  - {id: C, description: c, status: pending, depends_on: []}\n---";
        let text =
            TEXT.replace("description: b", "description: beta").replace("depends_on: []}\n---", one_more);
        assert!(!is_believed(&text));
    }
}
