//! The rows of the graph, each with what it is about, so that one can be selected.

use aot_core::state::{AtomId, GroupName, State};
use aot_core::view::{DisplayStatus, Row, RowItem};

use crate::screens::graph::Picture;
use crate::screens::ink::Ink;

/// A row of the outline, as it is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawnRow {
    pub name: RowName,
    pub standing: DisplayStatus,
    pub line: String,
}

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowName {
    /// An atom, made or not.
    Atom(AtomId),
    Group(GroupName),
}

/// All rows of a graph.
pub fn rows(state: &State, ink: Ink) -> Vec<DrawnRow> {
    let picture = Picture::of(state, ink);
    let lines = picture.lines_of_all();
    let drawn = |(row, line): (&Row, String)| {
        let (name, standing) = match &row.item {
            RowItem::Atom(index) => {
                (RowName::Atom(state.atoms[*index].id.clone()), picture.standings[*index])
            }
            RowItem::Group(group) => {
                (RowName::Group(picture.named(*group).0.clone()), picture.group_standing(*group))
            }
            RowItem::Unmade(id) => (RowName::Atom(id.clone()), DisplayStatus::Dormant),
        };
        DrawnRow { name, standing, line }
    };
    picture.outline.rows.iter().zip(lines).map(drawn).collect()
}
