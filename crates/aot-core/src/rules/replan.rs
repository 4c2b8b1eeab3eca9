//! A change of plan, as a coordinator agent proposes it: what it may hold, and why it is refused.

use crate::rules::reshape::NewAtom;
use crate::state::{AtomId, GroupName};

/// What a coordinator agent wants to be different. It is made as a whole or refused as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanChange {
    /// Why, in a sentence; it stands in the trail.
    pub reason: String,
    /// Decompositions to take back, before anything else is done (D3).
    pub withdrawals: Vec<AtomId>,
    pub decompositions: Vec<Cut>,
    /// New atoms beside the others.
    pub atoms: Vec<NewAtom>,
    pub alternatives: Vec<Alternative>,
    pub dependencies: Vec<Rewire>,
    /// An earlier choice that stuck atoms rest on: its group goes to another branch.
    pub abandon: Vec<Abandon>,
}

/// An atom to be cut into new ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    pub parent: AtomId,
    pub children: Vec<NewAtom>,
    pub reason: String,
}

/// Another way to do what `to` does: a new last choice of its group. An atom without a group gets one.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    pub to: AtomId,
    /// The name of the group that is made when `to` has none yet; left out, it is made from the id.
    pub group: Option<GroupName>,
    pub atom: NewAtom,
}

/// The dependencies that an unresolved atom has from now on.
#[derive(Clone, Debug, PartialEq)]
pub struct Rewire {
    pub atom: AtomId,
    pub depends_on: Vec<AtomId>,
}

/// A group whose selected choice is given up.
#[derive(Clone, Debug, PartialEq)]
pub struct Abandon {
    pub group: GroupName,
    pub reason: String,
}

impl PlanChange {
    /// Whether nothing would be different.
    pub fn is_empty(&self) -> bool {
        self.withdrawals.is_empty()
            && self.decompositions.is_empty()
            && self.atoms.is_empty()
            && self.alternatives.is_empty()
            && self.dependencies.is_empty()
            && self.abandon.is_empty()
    }
}
