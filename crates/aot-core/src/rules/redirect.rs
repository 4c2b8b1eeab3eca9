//! A person changes the direction (requirements 3.4, design 8.3, D31). Four kinds, each with its own effect on the
//! trail: the alignment clears it, adjustments of the graph append to it, constraints leave it alone, and an
//! overridden binding takes the affected part out. Several corrections are one transaction, each with its own record.

use std::collections::HashSet;

use super::reshape::{self, NewAtom};
use super::{Change, Ledger, Refusal, advance, backtrack, converge, decompose};
use crate::state::{
    AtomId, AtomStatus, Checks, CorrectionKind, Fingerprint, GroupName, Limit, State, TrailEntry,
};

/// One thing that a person wants to be different.
#[derive(Clone, Debug, PartialEq)]
pub enum Correct {
    Goal(String),
    BaseCase(Checks),
    BackgroundIntent(String),
    Deliverables(String),
    DefinitionOfDone(String),

    Limit(Limit),
    Protected(Vec<String>),
    /// What was changed outside of a redirect was meant (D21). Carries the fingerprint as it is now.
    Accept(Fingerprint),

    AddAtom(NewAtom),
    RemoveAtom(AtomId),
    Decompose {
        parent: AtomId,
        children: Vec<NewAtom>,
        reason: String,
    },
    Withdraw {
        parent: AtomId,
    },
    Dependencies {
        atom: AtomId,
        depends_on: Vec<AtomId>,
    },
    /// A new last choice of a group; an exhausted group goes on with it.
    AddChoice {
        group: GroupName,
        atom: NewAtom,
    },
    ForceChoice {
        group: GroupName,
        choice: AtomId,
        reason: String,
    },

    /// Another summary for a resolved atom: it stays resolved, what rests on it is reset.
    Rebind {
        atom: AtomId,
        summary: String,
        artifacts: Option<Vec<String>>,
    },
    /// A resolved atom and what rests on it are to be done again.
    Redo {
        atom: AtomId,
    },
}

/// Makes all corrections, the alignment first. On a refusal the ledger is spoilt: try on a copy.
pub fn redirect(ledger: &mut Ledger, corrections: Vec<Correct>) -> Result<(), Refusal> {
    once_each(&corrections)?;
    side_by_side(&corrections)?;
    let wanted = corrections.clone();
    let (alignment, rest): (Vec<Correct>, Vec<Correct>) = corrections
        .into_iter()
        .partition(|correction| kind(ledger.state(), correction) == CorrectionKind::ObjectiveChange);
    for correction in alignment.into_iter().chain(rest) {
        correct(ledger, correction)?;
    }
    ledger.check_shape()?;
    wanted.iter().try_for_each(|correction| stands(ledger.state(), correction))
}

/// Interrupts a loop that nobody drives but a host: what is in progress goes back, and the iteration ends without a
/// stall (D16). A driver does the same, and kills.
pub fn interrupt(ledger: &mut Ledger) {
    if !ledger.state().control.redirect_requested {
        ledger.enter(Change::RedirectRequested);
    }
    let running: Vec<usize> = ledger.frontier().in_progress().collect();
    for place in running {
        let atom = ledger.id(place);
        ledger.enter(Change::AtomReturned { atom, reason: "interrupted by a redirect".into() });
    }
    converge::break_off(ledger);
}

/// What kind of correction it is; the contract's four.
pub fn kind(state: &State, correction: &Correct) -> CorrectionKind {
    match correction {
        Correct::Goal(_)
        | Correct::BaseCase(_)
        | Correct::BackgroundIntent(_)
        | Correct::Deliverables(_)
        | Correct::DefinitionOfDone(_) => CorrectionKind::ObjectiveChange,
        Correct::Accept(now) => {
            let agreed = state.control.fingerprint.as_ref();
            if agreed.is_some_and(|agreed| agreed.base_case == now.base_case) {
                CorrectionKind::ConstraintChange
            } else {
                CorrectionKind::ObjectiveChange
            }
        }
        Correct::Limit(_) | Correct::Protected(_) => CorrectionKind::ConstraintChange,
        Correct::AddAtom(_)
        | Correct::RemoveAtom(_)
        | Correct::Decompose { .. }
        | Correct::Withdraw { .. }
        | Correct::Dependencies { .. }
        | Correct::AddChoice { .. }
        | Correct::ForceChoice { .. } => CorrectionKind::DagAdjustment,
        Correct::Rebind { .. } | Correct::Redo { .. } => CorrectionKind::BindingsOverride,
    }
}

fn correct(ledger: &mut Ledger, correction: Correct) -> Result<(), Refusal> {
    let kind = kind(ledger.state(), &correction);
    let trail_before = ledger.state().trail.len();
    let description = perform(ledger, correction)?;
    let trail_cleared = match kind {
        CorrectionKind::ObjectiveChange => {
            ledger.enter(Change::TrailCleared);
            true
        }
        CorrectionKind::DagAdjustment => {
            ledger.enter(Change::UserCorrected { description: description.clone() });
            false
        }
        CorrectionKind::ConstraintChange => false,
        CorrectionKind::BindingsOverride => ledger.state().trail.len() < trail_before,
    };
    ledger.enter(Change::CorrectionNoted { kind, description, trail_cleared });
    Ok(())
}

/// Makes one correction and says in a line what it was.
fn perform(ledger: &mut Ledger, correction: Correct) -> Result<String, Refusal> {
    match correction {
        Correct::Goal(goal) => {
            let goal = said("goal", goal)?;
            let description = format!("goal: {goal}");
            ledger.enter(Change::GoalSet { goal });
            Ok(description)
        }
        Correct::BackgroundIntent(background_intent) => {
            let background_intent = said("background_intent", background_intent)?;
            let description = format!("background_intent: {background_intent}");
            ledger.enter(Change::BackgroundIntentSet { background_intent });
            Ok(description)
        }
        Correct::Deliverables(deliverables) => {
            let deliverables = said("deliverables", deliverables)?;
            let description = format!("deliverables: {deliverables}");
            ledger.enter(Change::DeliverablesSet { deliverables });
            Ok(description)
        }
        Correct::DefinitionOfDone(definition_of_done) => {
            let definition_of_done = said("definition_of_done", definition_of_done)?;
            let description = format!("definition_of_done: {definition_of_done}");
            ledger.enter(Change::DefinitionOfDoneSet { definition_of_done });
            Ok(description)
        }
        Correct::BaseCase(base_case) => {
            if base_case.has_empty_set() {
                return Err(Refusal::Blank("base_case"));
            }
            let description = format!("base_case: {} checks", base_case.leaves().count());
            ledger.enter(Change::BaseCaseSet { base_case });
            forget_evaluations(ledger);
            Ok(description)
        }
        Correct::Accept(fingerprint) => {
            if kind(ledger.state(), &Correct::Accept(fingerprint.clone())) == CorrectionKind::ObjectiveChange
            {
                forget_evaluations(ledger);
            }
            ledger.enter(Change::FingerprintTaken { fingerprint });
            Ok("accepted the base case and the protected files as they are".into())
        }
        Correct::Limit(limit) => constrain(ledger, limit),
        Correct::Protected(protected) => {
            let description = format!("protected: {}", protected.join(", "));
            ledger.enter(Change::ProtectedSet { protected });
            Ok(description)
        }
        Correct::AddAtom(atom) => {
            let description = atom.description.clone();
            let id = reshape::add(ledger, atom)?;
            Ok(format!("added {id}: {description}"))
        }
        Correct::RemoveAtom(id) => {
            reshape::remove(ledger, &id)?;
            Ok(format!("removed {id}"))
        }
        Correct::Decompose { parent, children, reason } => {
            let children = decompose::decompose(ledger, &parent, children, &reason)?;
            Ok(format!("decomposed {parent} into {}", names(&children)))
        }
        Correct::Withdraw { parent } => {
            decompose::withdraw(ledger, &parent)?;
            Ok(format!("took the decomposition of {parent} back"))
        }
        Correct::Dependencies { atom, depends_on } => {
            let place = ledger.place(&atom)?;
            ledger.wants_status(place, AtomStatus::Pending)?;
            for wanted in &depends_on {
                ledger.place(wanted)?;
            }
            let description = format!("{atom} depends on {}", names(&depends_on));
            ledger.enter(Change::DependenciesSet { atom, depends_on });
            ledger.check_shape()?;
            Ok(description)
        }
        Correct::AddChoice { group, mut atom } => {
            atom.or_group = Some(group.clone());
            let id = reshape::add(ledger, atom)?;
            backtrack::straighten(ledger);
            Ok(format!("added the choice {id} to {group}"))
        }
        Correct::ForceChoice { group, choice, reason } => {
            let why = if reason.trim().is_empty() { "chosen by the user" } else { reason.trim() };
            backtrack::switch(ledger, &group, &choice, why)?;
            Ok(format!("{group}: {choice} ({why})"))
        }
        Correct::Rebind { atom, summary, artifacts } => rebind(ledger, &atom, summary, artifacts),
        Correct::Redo { atom } => {
            let place = ledger.place(&atom)?;
            ledger.wants_status(place, AtomStatus::Resolved)?;
            if ledger.graph().is_decomposed(place) {
                return Err(Refusal::IsDecomposed(atom));
            }
            reset(ledger, place, What::TheAtomToo);
            Ok(format!("{atom} is to be done again"))
        }
    }
}

fn constrain(ledger: &mut Ledger, limit: Limit) -> Result<String, Refusal> {
    if let Limit::MaxIterations(0) | Limit::MaxParallelAgents(0) | Limit::MaxStallCount(0) = limit {
        return Err(Refusal::TooSmall(limit.name()));
    }
    let constraints = ledger.state().constraints().clone();
    let description = format!("{}: {} -> {limit}", limit.name(), limit.standing(&constraints));
    ledger.enter(Change::ConstraintsSet { constraints: limit.within(constraints) });
    Ok(description)
}

fn rebind(
    ledger: &mut Ledger,
    atom: &AtomId,
    summary: String,
    artifacts: Option<Vec<String>>,
) -> Result<String, Refusal> {
    let place = ledger.place(atom)?;
    ledger.wants_status(place, AtomStatus::Resolved)?;
    let summary = said("summary", summary)?;
    let description = format!("{atom}: {summary}");
    let mut binding = ledger.state().bindings.get(atom).cloned().unwrap_or_else(|| crate::state::Binding {
        summary: String::new(),
        artifacts: Vec::new(),
        commit: None,
    });
    binding.summary = summary;
    if let Some(artifacts) = artifacts {
        binding.artifacts = artifacts;
    }
    ledger.enter(Change::BindingSet { atom: atom.clone(), binding });
    reset(ledger, place, What::RestsOnIt);
    advance::resolve_parents(ledger, place);
    Ok(description)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    RestsOnIt,
    TheAtomToo,
}

/// Resets what rests on an atom, and takes the trail's entries of the groups that lie within that part out.
fn reset(ledger: &mut Ledger, place: usize, what: What) {
    let mut part: Vec<usize> = ledger.graph().resting_on(ledger.state(), &[place]);
    if what == What::TheAtomToo {
        part.push(place);
    }
    let inside: HashSet<usize> = part.iter().copied().collect();
    let graph = ledger.graph();
    let groups: Vec<GroupName> = (0..ledger.state().or_groups.len())
        .filter(|group| {
            let choices = graph.choices(*group);
            !choices.is_empty() && choices.iter().all(|choice| inside.contains(choice))
        })
        .map(|group| ledger.group_at(group).0.clone())
        .collect();
    ledger.reset_all(part);
    let told = |group: &GroupName| {
        ledger
            .state()
            .trail
            .iter()
            .any(|entry| matches!(entry, TrailEntry::Selection { or_group, .. } if or_group == group))
    };
    if groups.iter().any(told) {
        ledger.enter(Change::TrailPruned { groups });
    }
}

/// Another base case has not been evaluated yet (D14).
fn forget_evaluations(ledger: &mut Ledger) {
    let control = &ledger.state().control;
    if control.fruitless.is_some() || control.fewest_red.is_some() {
        ledger.enter(Change::Verified { fruitless: 0, fewest_red: None });
    }
}

/// Two values for one thing cannot both be meant.
fn once_each(corrections: &[Correct]) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    for correction in corrections {
        let name = match correction {
            Correct::Goal(_) => "goal",
            Correct::BaseCase(_) => "base_case",
            Correct::BackgroundIntent(_) => "background_intent",
            Correct::Deliverables(_) => "deliverables",
            Correct::DefinitionOfDone(_) => "definition_of_done",
            Correct::Limit(limit) => limit.name(),
            Correct::Protected(_) => "protected",
            Correct::Accept(_) => "accept",
            Correct::AddAtom(_)
            | Correct::RemoveAtom(_)
            | Correct::Decompose { .. }
            | Correct::Withdraw { .. }
            | Correct::Dependencies { .. }
            | Correct::AddChoice { .. }
            | Correct::ForceChoice { .. }
            | Correct::Rebind { .. }
            | Correct::Redo { .. } => continue,
        };
        if !seen.insert(name) {
            return Err(Refusal::Twice(name));
        }
    }
    Ok(())
}

/// What is wanted of one atom or group cannot be wanted otherwise beside it.
fn side_by_side(corrections: &[Correct]) -> Result<(), Refusal> {
    for (place, one) in corrections.iter().enumerate() {
        for other in &corrections[..place] {
            if let Some(over) = at_odds(one, other).or_else(|| at_odds(other, one)) {
                return Err(Refusal::AtOdds { over, one: named(other), other: named(one) });
            }
        }
    }
    Ok(())
}

/// What two corrections cannot agree on, seen from the first.
fn at_odds(one: &Correct, other: &Correct) -> Option<String> {
    let atom = |of: &Correct| match of {
        Correct::RemoveAtom(atom)
        | Correct::Withdraw { parent: atom }
        | Correct::Decompose { parent: atom, .. }
        | Correct::Dependencies { atom, .. }
        | Correct::ForceChoice { choice: atom, .. }
        | Correct::Rebind { atom, .. }
        | Correct::Redo { atom } => Some(atom.clone()),
        Correct::AddAtom(new) | Correct::AddChoice { atom: new, .. } => new.id.clone(),
        Correct::Goal(_)
        | Correct::BaseCase(_)
        | Correct::BackgroundIntent(_)
        | Correct::Deliverables(_)
        | Correct::DefinitionOfDone(_)
        | Correct::Limit(_)
        | Correct::Protected(_)
        | Correct::Accept(_) => None,
    };
    let needs = |of: &Correct| match of {
        Correct::AddAtom(new) | Correct::AddChoice { atom: new, .. } => new.depends_on.clone(),
        Correct::Dependencies { depends_on, .. } => depends_on.clone(),
        _ => Vec::new(),
    };
    match (one, other) {
        (Correct::RemoveAtom(gone), other)
            if atom(other).as_ref() == Some(gone) || needs(other).contains(gone) =>
        {
            Some(gone.to_string())
        }
        (Correct::Rebind { atom: kept, .. }, Correct::Redo { atom } | Correct::Rebind { atom, .. })
        | (Correct::Redo { atom: kept }, Correct::Redo { atom })
        | (Correct::Dependencies { atom: kept, .. }, Correct::Dependencies { atom, .. })
            if atom == kept =>
        {
            Some(kept.to_string())
        }
        (Correct::ForceChoice { group, .. }, Correct::ForceChoice { group: same, .. }) if group == same => {
            Some(group.to_string())
        }
        _ => None,
    }
}

/// Whether a correction still holds when all of them are made: one may have undone what another brought.
fn stands(state: &State, correction: &Correct) -> Result<(), Refusal> {
    let undone = |over: &str| {
        Err(Refusal::AtOdds {
            over: over.to_owned(),
            one: named(correction),
            other: "another correction".into(),
        })
    };
    match correction {
        Correct::ForceChoice { group, choice, .. }
            if state.or_groups.get(group).is_none_or(|entry| entry.selected != *choice) =>
        {
            undone(group.as_str())
        }
        Correct::Rebind { atom, summary, .. }
            if state.bindings.get(atom).is_none_or(|binding| binding.summary != *summary) =>
        {
            undone(atom.as_str())
        }
        Correct::Redo { atom }
            if state.atoms.get(atom).is_some_and(|atom| atom.status == AtomStatus::Resolved) =>
        {
            undone(atom.as_str())
        }
        _ => Ok(()),
    }
}

/// A correction in two or three words, as a person asked for it.
fn named(correction: &Correct) -> String {
    match correction {
        Correct::Goal(_) => "another goal".into(),
        Correct::BaseCase(_) => "another base case".into(),
        Correct::BackgroundIntent(_) => "another background".into(),
        Correct::Deliverables(_) => "other deliverables".into(),
        Correct::DefinitionOfDone(_) => "another definition of done".into(),
        Correct::Limit(limit) => format!("another {}", limit.name()),
        Correct::Protected(_) => "other protected files".into(),
        Correct::Accept(_) => "accepting what was changed".into(),
        Correct::AddAtom(atom) => format!("adding \"{}\"", atom.description),
        Correct::RemoveAtom(atom) => format!("removing {atom}"),
        Correct::Decompose { parent, .. } => format!("cutting {parent}"),
        Correct::Withdraw { parent } => format!("making {parent} whole again"),
        Correct::Dependencies { atom, depends_on } => format!("{atom} depending on {}", names(depends_on)),
        Correct::AddChoice { group, atom } => format!("adding \"{}\" to {group}", atom.description),
        Correct::ForceChoice { group, choice, .. } => format!("{group} taking {choice}"),
        Correct::Rebind { atom, .. } => format!("another result of {atom}"),
        Correct::Redo { atom } => format!("doing {atom} again"),
    }
}

fn said(name: &'static str, text: String) -> Result<String, Refusal> {
    if text.trim().is_empty() { Err(Refusal::Blank(name)) } else { Ok(text) }
}

fn names(ids: &[AtomId]) -> String {
    if ids.is_empty() {
        return "nothing".into();
    }
    ids.iter().map(AtomId::as_str).collect::<Vec<_>>().join(", ")
}

/// What an edit of the file changed that only an alignment or a redirect may (D21).
pub fn tampering(old: &State, new: &State) -> Option<String> {
    let what = if old.objective.base_case != new.objective.base_case {
        "the base case"
    } else if old.objective.protected != new.objective.protected {
        "the list of protected files"
    } else {
        return None;
    };
    Some(format!("tampered: {what} changed outside of a redirect"))
}

/// The records of an edit by hand, which is kept (D21).
pub fn by_hand(old: &State, new: &State) -> Vec<Change> {
    let mut notes = Vec::new();
    let mut note = |differs: bool, kind, what: &str| {
        if differs {
            let description = format!("edited by hand: {what}");
            notes.push(Change::CorrectionNoted { kind, description, trail_cleared: false });
        }
    };
    let (before, after) = (&old.objective, &new.objective);
    let aligned = before.goal == after.goal
        && before.background_intent == after.background_intent
        && before.deliverables == after.deliverables
        && before.definition_of_done == after.definition_of_done;
    note(!aligned, CorrectionKind::ObjectiveChange, "the objective");
    let plan_differs =
        old.atoms != new.atoms || old.decompositions != new.decompositions || old.or_groups != new.or_groups;
    note(plan_differs, CorrectionKind::DagAdjustment, "the work graph");
    note(before.constraints != after.constraints, CorrectionKind::ConstraintChange, "the constraints");
    note(old.bindings != new.bindings, CorrectionKind::BindingsOverride, "the bindings");
    notes
}
