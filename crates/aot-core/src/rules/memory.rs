//! What is remembered of atoms besides the state. It steers the next attempt and the next plan, and is lost with the
//! process: nothing that must survive a crash may live here.

use std::collections::BTreeMap;

use super::order::ProbeFinding;
use crate::state::AtomId;

/// An atom whose check could not run so often in a row waits for a person (D14, D17).
pub const MAX_CHECK_ERRORS: u32 = 2;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AtomMemory {
    /// Why a worker calls it too large for one attempt, until its plan has changed.
    pub too_large: Option<String>,
    /// A probe calls it infeasible as it is described: the plan is to change before anybody works on it (D11).
    pub infeasible: Option<Infeasible>,
    /// Why its last attempt came back without having failed; the next brief says it.
    pub return_reason: Option<String>,
    /// Its last two failures told the same: another try of the same kind would, too (D34).
    pub fails_the_same: bool,
    /// How often in a row its check could not run.
    pub check_errors: u32,
    /// Why it waits for a person.
    pub awaiting_person: Option<String>,
    /// What a probe found when the choices of its group were put in order (D10).
    pub finding: Option<ProbeFinding>,
}

/// A probe's verdict on an atom that is no choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Infeasible {
    /// With what it found.
    ToBeTold(String),
    /// Whoever can change the plan was asked. If the plan stays, the work is tried all the same, with what the probe found
    /// and without another probe. After a failure, or with another plan, the finding is out of date.
    Told(Option<String>),
}

#[derive(Clone, Debug, Default)]
pub struct Memory {
    atoms: BTreeMap<AtomId, AtomMemory>,
}

/// What happened, so that something remembered no longer counts.
#[derive(Clone, Copy, Debug)]
pub enum Forget<'a> {
    Resolved(&'a AtomId),
    Failed(&'a AtomId),
    Replanned(&'a AtomId),
    /// A person edited or redirected: what blocked an atom may be repaired, and what was probed may be another task.
    StateReplaced,
}

impl Memory {
    pub fn of(&self, atom: &AtomId) -> Option<&AtomMemory> {
        self.atoms.get(atom)
    }

    pub fn entry(&mut self, atom: &AtomId) -> &mut AtomMemory {
        self.atoms.entry(atom.clone()).or_default()
    }

    pub fn awaiting_person(&self, atom: &AtomId) -> Option<&str> {
        self.of(atom)?.awaiting_person.as_deref()
    }

    pub fn finding(&self, atom: &AtomId) -> Option<&ProbeFinding> {
        self.of(atom)?.finding.as_ref()
    }

    pub fn too_large(&self) -> impl Iterator<Item = (&AtomId, &str)> {
        self.atoms.iter().filter_map(|(atom, memory)| Some((atom, memory.too_large.as_deref()?)))
    }

    pub fn infeasible(&self) -> impl Iterator<Item = (&AtomId, &str)> {
        self.atoms.iter().filter_map(|(atom, memory)| match &memory.infeasible {
            Some(Infeasible::ToBeTold(findings)) => Some((atom, findings.as_str())),
            Some(Infeasible::Told(_)) | None => None,
        })
    }

    /// What a probe found that the next attempt is to know.
    pub fn found_by_probe(&self, atom: &AtomId) -> Option<&str> {
        let memory = self.of(atom)?;
        let told = match &memory.infeasible {
            Some(Infeasible::Told(findings)) => findings.as_deref(),
            Some(Infeasible::ToBeTold(_)) | None => None,
        };
        memory.finding.as_ref().map(|finding| finding.findings.as_str()).or(told)
    }

    pub fn anything_awaits_person(&self) -> bool {
        self.atoms.values().any(|memory| memory.awaiting_person.is_some())
    }

    pub fn forget(&mut self, what: Forget<'_>) {
        match what {
            Forget::Resolved(atom) => {
                self.atoms.remove(atom);
            }
            Forget::Failed(atom) => {
                if let Some(memory) = self.atoms.get_mut(atom) {
                    let (too_large, infeasible) =
                        (memory.too_large.take(), outdated(memory.infeasible.take()));
                    *memory = AtomMemory { too_large, infeasible, ..AtomMemory::default() };
                }
            }
            Forget::Replanned(atom) => {
                if let Some(memory) = self.atoms.get_mut(atom) {
                    memory.too_large = None;
                    memory.infeasible = outdated(memory.infeasible.take());
                }
            }
            Forget::StateReplaced => {
                for memory in self.atoms.values_mut() {
                    let (too_large, return_reason) = (memory.too_large.take(), memory.return_reason.take());
                    *memory = AtomMemory { too_large, return_reason, ..AtomMemory::default() };
                }
            }
        }
    }
}

/// A verdict that was told stays told, without what was found.
fn outdated(infeasible: Option<Infeasible>) -> Option<Infeasible> {
    infeasible.map(|known| match known {
        Infeasible::ToBeTold(findings) => Infeasible::ToBeTold(findings),
        Infeasible::Told(_) => Infeasible::Told(None),
    })
}
