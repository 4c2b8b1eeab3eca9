//! Decomposing an atom into smaller ones, and taking that back (D3, D5).

use super::{Change, Ledger, Refusal, reshape};
use crate::state::{Atom, AtomId, AtomStatus};

/// Decomposes `parent` into new atoms. Children without an id get the next in sequence; each takes over what the parent
/// depends on, and may name its siblings.
pub fn decompose(
    ledger: &mut Ledger,
    parent: &AtomId,
    children: Vec<reshape::NewAtom>,
    reason: &str,
) -> Result<Vec<AtomId>, Refusal> {
    let index = ledger.index(parent)?;
    if ledger.graph().is_decomposed(index) {
        return Err(Refusal::IsDecomposed(parent.clone()));
    }
    if ledger.atom(index).status == AtomStatus::Resolved {
        return Err(Refusal::WrongStatus {
            atom: parent.clone(),
            is: AtomStatus::Resolved,
            wanted: AtomStatus::Pending,
        });
    }
    if children.is_empty() {
        return Err(Refusal::NoChildren);
    }
    // The attempt on the whole ends here: a decomposed atom is never executed itself.
    ledger.reset_all([index]);
    let inherited = ledger.atom(index).depends_on.clone();
    let mut added = Vec::new();
    for child in children {
        let mut atom = reshape::make(ledger, child)?;
        let mut depends_on = inherited.clone();
        depends_on.extend(atom.depends_on.into_iter().filter(|id| !inherited.contains(id)));
        atom.depends_on = depends_on;
        added.push(atom.id.clone());
        enter_child(ledger, atom);
    }
    ledger.record(Change::Decomposed {
        parent: parent.clone(),
        children: added.clone(),
        reason: reason.to_owned(),
    });
    reshape::check_references(ledger, &added)?;
    ledger.check_shape()?;
    Ok(added)
}

/// Takes a decomposition back: its children go, and the parent is executed as a whole again (re-integration).
pub fn withdraw(ledger: &mut Ledger, parent: &AtomId) -> Result<Vec<AtomId>, Refusal> {
    let index = ledger.index(parent)?;
    if !ledger.graph().is_decomposed(index) {
        return Err(Refusal::NotDecomposed(parent.clone()));
    }
    let below: Vec<usize> = ledger.graph().subtree(index).into_iter().filter(|p| *p != index).collect();
    if below.iter().any(|p| ledger.atom(*p).status == AtomStatus::Resolved) {
        return Err(Refusal::ChildrenResolved(parent.clone()));
    }
    let gone: Vec<AtomId> = below.iter().map(|index| ledger.id(*index)).collect();
    let needed_by: Vec<String> = ledger
        .state()
        .atoms
        .values()
        .filter(|atom| !gone.contains(&atom.id) && atom.depends_on.iter().any(|id| gone.contains(id)))
        .map(|atom| atom.id.to_string())
        .collect();
    if !needed_by.is_empty() {
        return Err(Refusal::Needed { atom: parent.clone(), by: needed_by });
    }
    for parent in std::iter::once(parent).chain(&gone) {
        if ledger.state().decomposition_of(parent).is_some() {
            ledger.record(Change::DecompositionWithdrawn { parent: parent.clone() });
        }
    }
    for group in reshape::groups_within(ledger, &gone) {
        ledger.record(Change::GroupRemoved { group });
    }
    for atom in &gone {
        ledger.record(Change::AtomRemoved { atom: atom.clone() });
    }
    Ok(gone)
}

fn enter_child(ledger: &mut Ledger, atom: Atom) {
    let (id, group) = (atom.id.clone(), atom.or_group.clone());
    ledger.record(Change::AtomAdded { atom: Box::new(atom) });
    if let Some(group) = group {
        reshape::join_group(ledger, group, id);
    }
}
