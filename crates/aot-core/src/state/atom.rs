//! The smallest unit of work, in the graph and as it is asked for. When an atom may start is for `graph` to say.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AtomId, Checks, GroupName};

/// The arrow between a description and what it waits for, in words on a command line.
const WAITS_FOR: &str = "<-";

/// Atoms of the graph and atoms that are asked for have the same optional fields. Naming them once makes a new field
/// one line: it is read, written, described by the schema and taken over from the one to the other.
macro_rules! atoms_with {
    ($($(#[$about:meta])* $field:ident: $type:ty,)*) => {
        /// The smallest unit of work.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        pub struct Atom {
            pub id: AtomId,
            pub description: String,
            pub status: AtomStatus,
            pub depends_on: Vec<AtomId>,
            $(
                $(#[$about])*
                #[serde(default, skip_serializing_if = "is_default")]
                pub $field: $type,
            )*
        }

        /// An atom that is asked for: without an id it gets the next in sequence.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct NewAtom {
            #[serde(default)]
            pub id: Option<AtomId>,
            pub description: String,
            #[serde(default)]
            pub depends_on: Vec<AtomId>,
            $(#[serde(default)] pub $field: $type,)*
        }

        impl NewAtom {
            /// The same as an atom of a graph, pending.
            pub fn called(self, id: AtomId) -> Atom {
                let NewAtom { id: _, description, depends_on, $($field,)* } = self;
                Atom { id, description, status: AtomStatus::Pending, depends_on, $($field,)* }
            }
        }

        impl From<Atom> for NewAtom {
            fn from(atom: Atom) -> NewAtom {
                let Atom { id, description, status: _, depends_on, $($field,)* } = atom;
                NewAtom { id: Some(id), description, depends_on, $($field,)* }
            }
        }
    };
}

atoms_with! {
    or_group: Option<GroupName>,
    /// What the program must see pass before the atom counts as resolved.
    check: Option<Checks>,
    /// Why it has none.
    no_check: Option<String>,
    /// The command that solves it, without any agent.
    run: Option<String>,
    probe: Option<bool>,
    agent: Option<String>,
    writes: Vec<String>,
    resource: Option<String>,
    /// What the host that works on it must offer, if the loop runs on several.
    needs: Vec<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Atom {
    /// A pending atom without dependencies.
    pub fn new(id: AtomId, description: impl Into<String>) -> Atom {
        NewAtom { description: description.into(), ..NewAtom::default() }.called(id)
    }

    /// Whether the program itself sees that the atom is done, by its check or by its command. Otherwise an agent claims it
    /// (D33).
    pub fn is_proven_when_resolved(&self) -> bool {
        self.check.is_some() || self.run.is_some()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AtomStatus {
    Pending,
    InProgress,
    Resolved,
}

impl AtomStatus {
    pub fn word(self) -> &'static str {
        match self {
            AtomStatus::Pending => "pending",
            AtomStatus::InProgress => "in_progress",
            AtomStatus::Resolved => "resolved",
        }
    }
}

impl NewAtom {
    /// An atom as a person writes it in one line: `The login route <- A1, A2`.
    pub fn from_words(words: &str) -> NewAtom {
        let (description, needs) = match words.rsplit_once(WAITS_FOR) {
            Some((description, needs)) if is_list_of_ids(needs) => (description, needs),
            _ => (words, ""),
        };
        let needs = needs.split([',', ' ']).map(str::trim).filter(|id| !id.is_empty());
        NewAtom {
            description: description.trim().to_owned(),
            depends_on: needs.map(AtomId::new).collect(),
            ..NewAtom::default()
        }
    }
}

/// An arrow in a sentence (`map a <- b in the grammar`) is no list of ids.
fn is_list_of_ids(words: &str) -> bool {
    let mut ids = words.split(',').map(str::trim).peekable();
    ids.peek().is_some() && ids.all(AtomId::is_usable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_atom_in_one_line() {
        for (words, description, needs) in [
            ("The user model", "The user model", ""),
            ("The login route <- A1, A2", "The login route", "A1 A2"),
            ("  Tokens<-A1  ", "Tokens", "A1"),
            ("Let x <- y mean a move", "Let x <- y mean a move", ""),
            ("Let x <- y mean a move <- A1", "Let x <- y mean a move", "A1"),
            ("Nothing <- ", "Nothing <-", ""),
            ("<- A1", "", "A1"),
        ] {
            let atom = NewAtom::from_words(words);
            let found = atom.depends_on.iter().map(AtomId::as_str).collect::<Vec<_>>().join(" ");
            assert_eq!((atom.description.as_str(), found.as_str()), (description, needs), "{words:?}");
        }
    }
}
