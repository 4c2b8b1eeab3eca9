//! A change of plan, as a coordinator agent proposes it: what it may hold, and why it is refused (D8, D11). A change
//! that would make a cycle, touch what is resolved or running, or grow beyond what can still be done is refused as a
//! whole; the reason goes into the next brief.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::reshape::{self, NewAtom};
use super::{Change, Ledger, Refusal, backtrack, bound, decompose, plan};
use crate::state::{AtomId, AtomStatus, GroupName, OrGroup};

/// What a coordinator agent wants to be different. It is made as a whole or refused as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanChange {
    /// Why, in a sentence; it stands in the trail.
    pub reason: String,
    /// Decompositions to take back, before anything else is done (D3).
    pub withdrawals: Vec<AtomId>,
    pub decompositions: Vec<NewDecomposition>,
    /// New atoms beside the others.
    pub atoms: Vec<NewAtom>,
    pub alternatives: Vec<Alternative>,
    pub dependencies: Vec<Rewire>,
    /// An earlier choice that stuck atoms rest on: its group goes to another branch.
    pub abandon: Vec<Abandon>,
}

/// An atom to be decomposed into new ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewDecomposition {
    pub parent: AtomId,
    pub children: Vec<NewAtom>,
    pub reason: String,
}

/// Another way to do what `to` does: a new last choice of its group. An atom without a group gets one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    pub to: AtomId,
    /// The name of the group that is made when `to` has none yet; left out, it is made from the id.
    pub group: Option<GroupName>,
    pub atom: NewAtom,
}

/// The dependencies that an unresolved atom has from now on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rewire {
    pub atom: AtomId,
    pub depends_on: Vec<AtomId>,
}

/// A group whose selected choice is given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// Makes the change in the ledger. On a refusal the ledger is spoilt: try on a copy.
pub fn replan(ledger: &mut Ledger, change: PlanChange) -> Result<(), Refusal> {
    let before = Size::of(ledger);
    let reason = if change.reason.trim().is_empty() { "replanned" } else { change.reason.trim() };
    let mut touched: Vec<AtomId> = Vec::new();
    for parent in &change.withdrawals {
        not_running_below(ledger, parent)?;
        decompose::withdraw(ledger, parent)?;
        touched.push(parent.clone());
    }
    let mut rewire: Vec<Rewire> = Vec::new();
    for mut atom in change.atoms {
        let depends_on = std::mem::take(&mut atom.depends_on);
        let id = reshape::add(ledger, atom)?;
        rewire.push(Rewire { atom: id.clone(), depends_on });
        touched.push(id);
    }
    for decomposition in change.decompositions {
        is_idle(ledger, &decomposition.parent)?;
        let why = if decomposition.reason.trim().is_empty() { reason } else { decomposition.reason.trim() };
        decompose::decompose(ledger, &decomposition.parent, decomposition.children, why)?;
        touched.push(decomposition.parent);
    }
    for alternative in change.alternatives {
        touched.push(alternative.to.clone());
        rewire.push(add_alternative(ledger, alternative)?);
    }
    for wish in rewire.into_iter().chain(change.dependencies.iter().cloned()) {
        is_idle(ledger, &wish.atom)?;
        for wanted in &wish.depends_on {
            ledger.index(wanted)?;
        }
        let index = ledger.index(&wish.atom)?;
        if ledger.atom(index).depends_on != wish.depends_on {
            ledger.record(Change::DependenciesSet { atom: wish.atom, depends_on: wish.depends_on });
        }
    }
    touched.extend(change.dependencies.into_iter().map(|wish| wish.atom));
    for given_up in &change.abandon {
        let group = ledger.group(&given_up.group)?;
        let rested = resting_on_group(ledger, group);
        let why = if given_up.reason.trim().is_empty() { reason } else { given_up.reason.trim() };
        backtrack::abandon(ledger, group, why)
            .ok_or_else(|| Refusal::NoBranchLeft(given_up.group.clone()))?;
        touched.extend(rested);
    }
    for atom in
        touched.iter().filter(|id| ledger.state().atoms.contains_key(*id)).cloned().collect::<Vec<_>>()
    {
        ledger.record(Change::ReplanNoted { atom, reason: reason.to_owned() });
    }
    ledger.check_shape()?;
    before.limits(ledger)
}

/// What a plan may not make larger.
struct Size {
    atoms: HashSet<AtomId>,
    executable: usize,
    judges: usize,
}

impl Size {
    fn of(ledger: &Ledger) -> Size {
        let executable =
            |index: &usize| ledger.frontier().counts(*index) && !ledger.graph().is_decomposed(*index);
        Size {
            atoms: ledger.state().atoms.keys().cloned().collect(),
            executable: (0..ledger.state().atoms.len()).filter(executable).count(),
            judges: bound::judges(ledger.state()),
        }
    }

    /// The bound that was shown must hold, and a plan that cannot be finished any more is none.
    fn limits(&self, ledger: &Ledger) -> Result<(), Refusal> {
        let constraints = ledger.state().constraints();
        for atom in ledger.state().atoms.values().filter(|atom| !self.atoms.contains(&atom.id)) {
            let Some(check) = &atom.check else { continue };
            if check.has_empty_set() {
                return Err(Refusal::EmptyCheck(atom.id.clone()));
            }
            let wanted = check.quality_items();
            if wanted > self.judges {
                return Err(Refusal::TooManyJudges { atom: atom.id.clone(), wanted, limit: self.judges });
            }
        }
        let now = Size::of(ledger);
        // The iteration that the replan opened is counted already, and can still be used.
        let left = (constraints.max_iterations + 1).saturating_sub(ledger.state().control.iteration) as usize;
        let limit = left.saturating_mul(plan::starts_per_iteration(constraints.max_parallel_agents));
        if now.executable > self.executable && now.executable > limit {
            return Err(Refusal::TooMany { unresolved: now.executable, limit });
        }
        Ok(())
    }
}

fn is_idle(ledger: &Ledger, id: &AtomId) -> Result<(), Refusal> {
    let index = ledger.index(id)?;
    ledger.wants_status(index, AtomStatus::Pending)
}

fn not_running_below(ledger: &Ledger, parent: &AtomId) -> Result<(), Refusal> {
    let index = ledger.index(parent)?;
    for below in ledger.graph().subtree(index) {
        let atom = ledger.atom(below);
        if atom.status == AtomStatus::InProgress {
            return Err(Refusal::WrongStatus {
                atom: atom.id.clone(),
                is: AtomStatus::InProgress,
                wanted: AtomStatus::Pending,
            });
        }
    }
    Ok(())
}

/// Adds a choice beside an atom. One that has failed already has had its turn: the group goes on to the new choice.
fn add_alternative(ledger: &mut Ledger, alternative: Alternative) -> Result<Rewire, Refusal> {
    let Alternative { to, group, mut atom } = alternative;
    is_idle(ledger, &to)?;
    let index = ledger.index(&to)?;
    let name = match ledger.graph().group_of(index) {
        Some(group) => ledger.group_at(group).0.clone(),
        None => {
            let name = group.unwrap_or_else(|| GroupName::new(format!("{to}_or")));
            if ledger.state().or_groups.contains_key(&name) {
                return Err(Refusal::InGroup { atom: to, group: name });
            }
            let entry = OrGroup {
                choices: vec![to.clone()],
                selected: to.clone(),
                failed: Vec::new(),
                speculative: None,
            };
            ledger.record(Change::GroupAdded { group: name.clone(), entry });
            name
        }
    };
    let mut depends_on = std::mem::take(&mut atom.depends_on);
    if depends_on.is_empty() {
        depends_on = ledger.state().atoms[&to].depends_on.clone();
    }
    atom.or_group = Some(name.clone());
    let id = reshape::add(ledger, atom)?;
    let has_failed = ledger.tally().failures(&to) > 0 || ledger.state().or_groups[&name].failed.contains(&to);
    if has_failed && ledger.state().or_groups[&name].selected == to {
        let group = ledger.group(&name)?;
        backtrack::abandon(ledger, group, "there is another way now");
    }
    Ok(Rewire { atom: id, depends_on })
}

/// Unresolved atoms that rest on a group: giving its choice up changes their plan.
fn resting_on_group(ledger: &Ledger, group: usize) -> Vec<AtomId> {
    let graph = ledger.graph();
    let under: Vec<usize> = graph.choices(group).to_vec();
    let resting = graph.resting_on(ledger.state(), &under);
    let failed = |index: &usize| ledger.tally().failures(&ledger.atom(*index).id) > 0;
    resting.into_iter().filter(failed).map(|index| ledger.id(index)).collect()
}
