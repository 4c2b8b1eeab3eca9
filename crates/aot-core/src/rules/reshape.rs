//! Adding and removing atoms and alternatives by hand or by plan.

use super::{Change, Ledger, Refusal};
use crate::state::{Atom, AtomId, AtomStatus, GroupName, OrGroup, SelectionCause};

pub use crate::state::NewAtom;

/// Adds an atom beside the others; with a group, as its last choice.
pub fn add(ledger: &mut Ledger, new: NewAtom) -> Result<AtomId, Refusal> {
    let group = new.or_group.clone();
    if let Some(group) = &group {
        ledger.group(group)?;
    }
    let atom = make(ledger, new)?;
    let id = atom.id.clone();
    let parent = group.as_ref().and_then(|group| {
        let choices = &ledger.state().or_groups[group].choices;
        let listed =
            ledger.state().decompositions.iter().find(|d| d.children.iter().any(|c| choices.contains(c)));
        listed.map(|decomposition| decomposition.parent.clone())
    });
    ledger.record(Change::AtomAdded { atom: Box::new(atom) });
    if let Some(group) = group {
        ledger.record(Change::ChoiceAdded { group, choice: id.clone() });
    }
    if let Some(parent) = parent {
        ledger.record(Change::ChildAdded { parent, child: id.clone() });
    }
    check_references(ledger, std::slice::from_ref(&id))?;
    ledger.check_shape()?;
    Ok(id)
}

/// Removes an atom that nobody needs. A selected choice hands over to the next one that has not failed.
pub fn remove(ledger: &mut Ledger, id: &AtomId) -> Result<(), Refusal> {
    let index = ledger.index(id)?;
    ledger.wants_status(index, AtomStatus::Pending)?;
    if ledger.state().atoms.len() == 1 {
        return Err(Refusal::LastAtom(id.clone()));
    }
    let by = needed_by(ledger, index);
    if !by.is_empty() {
        return Err(Refusal::Needed { atom: id.clone(), by });
    }
    if let Some(group) = ledger.graph().group_of(index) {
        leave_group(ledger, group, id);
    }
    let listed = ledger.state().decompositions.iter().find(|d| d.children.contains(id));
    if let Some(parent) = listed.map(|decomposition| decomposition.parent.clone()) {
        ledger.record(Change::ChildRemoved { parent, child: id.clone() });
    }
    ledger.record(Change::AtomRemoved { atom: id.clone() });
    Ok(())
}

/// Lets the choices of a group be tried at once, or one after the other (D25).
pub fn set_speculative(ledger: &mut Ledger, name: &GroupName, speculative: bool) -> Result<(), Refusal> {
    let group = ledger.group(name)?;
    if ledger.group_at(group).1.is_speculative() != speculative {
        ledger.record(Change::SpeculationSet { group: name.clone(), speculative });
    }
    Ok(())
}

/// Makes an OR group of atoms that stand side by side, or adds choices to one.
pub fn add_choices(ledger: &mut Ledger, name: &GroupName, choices: &[AtomId]) -> Result<(), Refusal> {
    let Some(first) = choices.first() else { return Err(Refusal::NoChoices) };
    if !AtomId::is_usable(name.as_str()) && !ledger.state().or_groups.contains_key(name) {
        return Err(Refusal::BadId(name.to_string()));
    }
    for (turn, choice) in choices.iter().enumerate() {
        if choices[..turn].contains(choice) {
            return Err(Refusal::GivenTwice(choice.clone()));
        }
        let index = ledger.index(choice)?;
        if let Some(group) = ledger.graph().group_of(index) {
            let group = ledger.group_at(group).0.clone();
            return Err(Refusal::InGroup { atom: choice.clone(), group });
        }
    }
    if !side_by_side(ledger, name, choices) {
        return Err(Refusal::MixedParents(name.clone()));
    }
    if ledger.state().or_groups.contains_key(name) {
        for choice in choices {
            ledger.record(Change::ChoiceAdded { group: name.clone(), choice: choice.clone() });
        }
    } else {
        let started = |id: &&AtomId| ledger.state().atoms[*id].status != AtomStatus::Pending;
        let selected = choices.iter().find(started).unwrap_or(first).clone();
        let entry = OrGroup { choices: choices.to_vec(), selected, failed: Vec::new(), speculative: None };
        ledger.record(Change::GroupAdded { group: name.clone(), entry });
    }
    let group = ledger.group(name)?;
    let selected = ledger.group_at(group).1.selected.clone();
    let dormant = ledger.graph().choices(group).iter().copied().filter(|c| ledger.atom(*c).id != selected);
    let undone: Vec<usize> = dormant.flat_map(|choice| ledger.graph().subtree(choice)).collect();
    ledger.reset_all(undone);
    ledger.check_shape()
}

/// Gives an asked-for atom its id, and checks what can be checked of it alone.
pub(super) fn make(ledger: &Ledger, new: NewAtom) -> Result<Atom, Refusal> {
    let id = match new.id.clone() {
        None => ledger.state().next_id(),
        Some(id) if !AtomId::is_usable(id.as_str()) => return Err(Refusal::BadId(id.to_string())),
        Some(id) if ledger.state().atoms.contains_key(&id) => return Err(Refusal::IdTaken(id)),
        Some(id) => id,
    };
    if new.description.trim().is_empty() {
        return Err(Refusal::NoDescription);
    }
    Ok(new.called(id))
}

pub(super) fn check_references(ledger: &Ledger, added: &[AtomId]) -> Result<(), Refusal> {
    for id in added {
        for wanted in &ledger.state().atoms[id].depends_on {
            ledger.index(wanted)?;
        }
    }
    Ok(())
}

/// Enters an atom as a choice; a group that does not exist yet begins with it.
pub(super) fn join_group(ledger: &mut Ledger, group: GroupName, choice: AtomId) {
    if ledger.state().or_groups.contains_key(&group) {
        ledger.record(Change::ChoiceAdded { group, choice });
        return;
    }
    let entry =
        OrGroup { choices: vec![choice.clone()], selected: choice, failed: Vec::new(), speculative: None };
    ledger.record(Change::GroupAdded { group, entry });
}

/// Groups all of whose choices are among these atoms.
pub(super) fn groups_within(ledger: &Ledger, atoms: &[AtomId]) -> Vec<GroupName> {
    let groups = ledger.state().or_groups.iter();
    groups
        .filter(|(_, entry)| {
            entry.choices.iter().any(|choice| atoms.contains(choice))
                && entry
                    .choices
                    .iter()
                    .all(|choice| atoms.contains(choice) || !ledger.state().atoms.contains_key(choice))
        })
        .map(|(name, _)| name.clone())
        .collect()
}

fn needed_by(ledger: &Ledger, index: usize) -> Vec<String> {
    let id = ledger.id(index);
    let state = ledger.state();
    let dependents = state.atoms.values().filter(|atom| atom.depends_on.contains(&id));
    let mut by: Vec<String> = dependents.map(|atom| atom.id.to_string()).collect();
    by.extend(ledger.graph().children(index).iter().map(|kid| ledger.id(*kid).to_string()));
    let last_child = state.decompositions.iter().find(|d| d.children == [id.clone()]);
    by.extend(last_child.map(|decomposition| decomposition.parent.to_string()));
    by
}

fn leave_group(ledger: &mut Ledger, group: usize, id: &AtomId) {
    let (name, entry) = ledger.group_at(group);
    let (name, entry) = (name.clone(), entry.clone());
    let heir = if entry.selected == *id {
        let existing = |choice: &&AtomId| *choice != id && ledger.state().atoms.contains_key(*choice);
        let fresh = entry.choices.iter().filter(existing).find(|choice| !entry.failed.contains(choice));
        fresh.or_else(|| entry.choices.iter().find(existing)).cloned()
    } else {
        Some(entry.selected.clone())
    };
    match heir {
        None => ledger.record(Change::GroupRemoved { group: name }),
        Some(heir) => {
            if heir != entry.selected {
                let reason = format!("{id} was removed");
                let (group, cause) = (name.clone(), Some(SelectionCause::Removed));
                ledger.record(Change::ChoiceSelected { group, choice: heir, reason, cause });
            }
            ledger.record(Change::ChoiceRemoved { group: name, choice: id.clone() });
        }
    }
}

/// Whether these atoms, and those that the group has already, lie under one parent or all under none.
fn side_by_side(ledger: &Ledger, name: &GroupName, choices: &[AtomId]) -> bool {
    let listed = ledger.state().or_groups.get(name).map(|entry| &entry.choices[..]).unwrap_or_default();
    let indices = listed.iter().chain(choices).filter_map(|id| ledger.state().atoms.get_index_of(id));
    let mut parents = indices.map(|index| ledger.graph().parent(index));
    let first = parents.next();
    parents.all(|parent| Some(parent) == first)
}
