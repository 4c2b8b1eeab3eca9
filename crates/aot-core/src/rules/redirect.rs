//! A person changes the direction (D31). Four kinds, each with its own effect on the
//! trail: the alignment clears it, adjustments of the graph append to it, constraints leave it alone, and an
//! overridden binding takes the affected part out. Several corrections are one transaction, each with its own record.

use std::collections::HashSet;

use super::reshape::{self, NewAtom};
use super::{Change, Ledger, Refusal, advance, backtrack, converge, decompose, evaluate};
use crate::state::{
    Atom, AtomId, AtomStatus, Checks, CorrectionKind, Fingerprint, GroupName, Isolation, Limit, LoopStatus,
    State, StopKind, TrailEntry,
};

/// One thing that a person wants to be different.
#[derive(Clone, Debug, PartialEq)]
pub enum CorrectionRequest {
    Goal(String),
    BaseCase(Checks),
    BackgroundIntent(String),
    Deliverables(String),
    DefinitionOfDone(String),

    Limit(Limit),
    Protected(Vec<String>),
    /// What the trees of workers get besides what git tracks.
    Isolation(Isolation),
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
    /// A resolved atom and what rests on it are to be done again. With a hint, which every brief tells from then on, it may
    /// also be an atom that is still open.
    Redo {
        atom: AtomId,
        /// Empty for none.
        hint: String,
    },
}

/// Makes all corrections, the alignment first. On a refusal the ledger is spoilt: try on a copy.
pub fn redirect(ledger: &mut Ledger, corrections: Vec<CorrectionRequest>) -> Result<(), Refusal> {
    once_each(&corrections)?;
    side_by_side(&corrections)?;
    let wanted = corrections.clone();
    let open_before = ledger.unresolved();
    let (alignment, rest): (Vec<CorrectionRequest>, Vec<CorrectionRequest>) = corrections
        .into_iter()
        .partition(|correction| kind(ledger.state(), correction) == CorrectionKind::ObjectiveChange);
    for correction in alignment.into_iter().chain(rest) {
        correct(ledger, correction)?;
    }
    ledger.check_shape()?;
    wanted.iter().try_for_each(|correction| stands(ledger.state(), correction))?;
    want_work(ledger, &wanted, &open_before);
    Ok(())
}

/// Whoever gives a completed loop new work wants it done, although all checks pass (D14): what the redirect added or
/// opened again and, with another goal, whatever was left undone.
fn want_work(ledger: &mut Ledger, corrections: &[CorrectionRequest], open_before: &[AtomId]) {
    let control = &ledger.state().control;
    if control.status != LoopStatus::Completed && !evaluate::is_more_wanted(ledger) {
        return;
    }
    let is_another_goal = corrections.iter().any(|correction| {
        matches!(
            correction,
            CorrectionRequest::Goal(_)
                | CorrectionRequest::BackgroundIntent(_)
                | CorrectionRequest::Deliverables(_)
                | CorrectionRequest::DefinitionOfDone(_)
        )
    });
    let is_wanted = |id: &AtomId| is_another_goal || !open_before.contains(id) || control.wanted.contains(id);
    let atoms: Vec<AtomId> = ledger.unresolved().into_iter().filter(is_wanted).collect();
    if atoms != control.wanted {
        ledger.record(Change::WorkWanted { atoms });
    }
}

/// Interrupts a loop that nobody drives but a host: what is in progress goes back, and the iteration ends without a
/// stall (D16). A driver does the same, and kills.
pub fn interrupt(ledger: &mut Ledger) {
    if !ledger.state().control.redirect_requested {
        ledger.record(Change::RedirectRequested);
    }
    let running: Vec<usize> = ledger.frontier().in_progress().collect();
    for index in running {
        let atom = ledger.id(index);
        ledger.record(Change::AtomReturned { atom, reason: "interrupted by a redirect".into() });
    }
    converge::break_off(ledger);
}

/// All that the loop has landed was taken back: everything will be done again, and what was completed no longer is.
pub fn take_back(ledger: &mut Ledger, description: String) {
    ledger.reset_all(0..ledger.state().atoms.len());
    let kind = CorrectionKind::BindingsOverride;
    ledger.record(Change::CorrectionNoted { kind, description: description.clone(), trail_cleared: false });
    match ledger.state().control.status {
        LoopStatus::Completed | LoopStatus::Running => {
            let verdict = Some(StopKind::StoppedByHand);
            ledger.record(Change::Stopped { reason: description, verdict });
        }
        LoopStatus::Pending | LoopStatus::Stopped => {}
    }
}

/// What kind of correction it is; the contract's four.
pub fn kind(state: &State, correction: &CorrectionRequest) -> CorrectionKind {
    match correction {
        CorrectionRequest::Goal(_)
        | CorrectionRequest::BaseCase(_)
        | CorrectionRequest::BackgroundIntent(_)
        | CorrectionRequest::Deliverables(_)
        | CorrectionRequest::DefinitionOfDone(_) => CorrectionKind::ObjectiveChange,
        CorrectionRequest::Accept(now) => {
            let agreed = state.control.fingerprint.as_ref();
            if agreed.is_some_and(|agreed| agreed.base_case == now.base_case) {
                CorrectionKind::ConstraintChange
            } else {
                CorrectionKind::ObjectiveChange
            }
        }
        CorrectionRequest::Limit(_) | CorrectionRequest::Protected(_) | CorrectionRequest::Isolation(_) => {
            CorrectionKind::ConstraintChange
        }
        CorrectionRequest::AddAtom(_)
        | CorrectionRequest::RemoveAtom(_)
        | CorrectionRequest::Decompose { .. }
        | CorrectionRequest::Withdraw { .. }
        | CorrectionRequest::Dependencies { .. }
        | CorrectionRequest::AddChoice { .. }
        | CorrectionRequest::ForceChoice { .. } => CorrectionKind::DagAdjustment,
        CorrectionRequest::Redo { atom, hint } if is_hint_for_open(state, atom, hint) => {
            CorrectionKind::DagAdjustment
        }
        CorrectionRequest::Rebind { .. } | CorrectionRequest::Redo { .. } => CorrectionKind::BindingsOverride,
    }
}

/// An open atom is tried again anyway, so that the hint is all that is new.
fn is_hint_for_open(state: &State, atom: &AtomId, hint: &str) -> bool {
    let is_open = state.atoms.get(atom).is_some_and(|atom| atom.status == AtomStatus::Pending);
    is_open && !hint.trim().is_empty()
}

fn correct(ledger: &mut Ledger, correction: CorrectionRequest) -> Result<(), Refusal> {
    let kind = kind(ledger.state(), &correction);
    let trail_before = ledger.state().trail.len();
    let description = perform(ledger, correction)?;
    let trail_cleared = match kind {
        CorrectionKind::ObjectiveChange => {
            ledger.record(Change::TrailCleared);
            forgive_choices(ledger);
            true
        }
        CorrectionKind::DagAdjustment => {
            ledger.record(Change::UserCorrected { description: description.clone() });
            false
        }
        CorrectionKind::ConstraintChange => false,
        CorrectionKind::BindingsOverride => ledger.state().trail.len() < trail_before,
    };
    ledger.record(Change::CorrectionNoted { kind, description, trail_cleared });
    Ok(())
}

/// Choices failed against the agreement before: all of them may be tried again.
fn forgive_choices(ledger: &mut Ledger) {
    let groups = ledger.state().or_groups.iter();
    let failed: Vec<(GroupName, AtomId)> = groups
        .flat_map(|(name, entry)| entry.failed.iter().map(|choice| (name.clone(), choice.clone())))
        .collect();
    for (group, choice) in failed {
        ledger.record(Change::ChoiceForgiven { group, choice });
    }
}

/// Makes one correction and says in a line what it was.
fn perform(ledger: &mut Ledger, correction: CorrectionRequest) -> Result<String, Refusal> {
    match correction {
        CorrectionRequest::Goal(goal) => {
            let goal = said("goal", goal)?;
            let description = format!("goal: {goal}");
            ledger.record(Change::GoalSet { goal });
            Ok(description)
        }
        CorrectionRequest::BackgroundIntent(background_intent) => {
            let background_intent = said("background_intent", background_intent)?;
            let description = format!("background_intent: {background_intent}");
            ledger.record(Change::BackgroundIntentSet { background_intent });
            Ok(description)
        }
        CorrectionRequest::Deliverables(deliverables) => {
            let deliverables = said("deliverables", deliverables)?;
            let description = format!("deliverables: {deliverables}");
            ledger.record(Change::DeliverablesSet { deliverables });
            Ok(description)
        }
        CorrectionRequest::DefinitionOfDone(definition_of_done) => {
            let definition_of_done = said("definition_of_done", definition_of_done)?;
            let description = format!("definition_of_done: {definition_of_done}");
            ledger.record(Change::DefinitionOfDoneSet { definition_of_done });
            Ok(description)
        }
        CorrectionRequest::BaseCase(base_case) => {
            if base_case.has_empty_set() {
                return Err(Refusal::Blank("base_case"));
            }
            let description = format!("base_case: {} checks", base_case.leaves().count());
            ledger.record(Change::BaseCaseSet { base_case });
            forget_evaluations(ledger);
            Ok(description)
        }
        CorrectionRequest::Accept(fingerprint) => {
            if kind(ledger.state(), &CorrectionRequest::Accept(fingerprint.clone()))
                == CorrectionKind::ObjectiveChange
            {
                forget_evaluations(ledger);
            }
            ledger.record(Change::FingerprintTaken { fingerprint });
            Ok("accepted the base case and the protected files as they are".into())
        }
        CorrectionRequest::Limit(limit) => constrain(ledger, limit),
        CorrectionRequest::Protected(protected) => {
            let description = format!("protected: {}", protected.join(", "));
            ledger.record(Change::ProtectedSet { protected });
            Ok(description)
        }
        CorrectionRequest::Isolation(isolation) => {
            let listed =
                |paths: &[String]| if paths.is_empty() { "nothing".into() } else { paths.join(", ") };
            let (share, copy) = (listed(&isolation.share), listed(&isolation.copy));
            let isolation = (isolation != Isolation::default()).then_some(isolation);
            ledger.record(Change::IsolationSet { isolation });
            Ok(format!("trees share {share}, and copy {copy}"))
        }
        CorrectionRequest::AddAtom(atom) => {
            let description = atom.description.clone();
            let id = reshape::add(ledger, atom)?;
            Ok(format!("added {id}: {description}"))
        }
        CorrectionRequest::RemoveAtom(id) => {
            reshape::remove(ledger, &id)?;
            Ok(format!("removed {id}"))
        }
        CorrectionRequest::Decompose { parent, children, reason } => {
            let children = decompose::decompose(ledger, &parent, children, &reason)?;
            Ok(format!("decomposed {parent} into {}", names(&children)))
        }
        CorrectionRequest::Withdraw { parent } => {
            decompose::withdraw(ledger, &parent)?;
            Ok(format!("took the decomposition of {parent} back"))
        }
        CorrectionRequest::Dependencies { atom, depends_on } => {
            let index = ledger.index(&atom)?;
            ledger.wants_status(index, AtomStatus::Pending)?;
            for wanted in &depends_on {
                ledger.index(wanted)?;
            }
            let description = format!("{atom} depends on {}", names(&depends_on));
            ledger.record(Change::DependenciesSet { atom, depends_on });
            ledger.check_shape()?;
            Ok(description)
        }
        CorrectionRequest::AddChoice { group, mut atom } => {
            atom.or_group = Some(group.clone());
            let id = reshape::add(ledger, atom)?;
            backtrack::repair(ledger);
            Ok(format!("added the choice {id} to {group}"))
        }
        CorrectionRequest::ForceChoice { group, choice, reason } => {
            let why = if reason.trim().is_empty() { "chosen by the user" } else { reason.trim() };
            backtrack::switch(ledger, &group, &choice, why)?;
            Ok(format!("{group}: {choice} ({why})"))
        }
        CorrectionRequest::Rebind { atom, summary, artifacts } => rebind(ledger, &atom, summary, artifacts),
        CorrectionRequest::Redo { atom, hint } if is_hint_for_open(ledger.state(), &atom, &hint) => {
            Ok(format!("a hint for {atom}: {}", hint.trim()))
        }
        CorrectionRequest::Redo { atom, hint } => {
            let index = ledger.index(&atom)?;
            ledger.wants_status(index, AtomStatus::Resolved)?;
            if ledger.graph().is_decomposed(index) {
                return Err(Refusal::IsDecomposed(atom));
            }
            reset(ledger, index, What::TheAtomToo);
            Ok(match hint.trim() {
                "" => format!("{atom} will be done again"),
                hint => format!("{atom} will be done again: {hint}"),
            })
        }
    }
}

fn constrain(ledger: &mut Ledger, limit: Limit) -> Result<String, Refusal> {
    if let Limit::MaxIterations(0) | Limit::MaxParallelAgents(0) | Limit::MaxStallCount(0) = limit {
        return Err(Refusal::TooSmall(limit.name()));
    }
    let constraints = ledger.state().constraints().clone();
    let description = format!("{}: {} -> {limit}", limit.name(), limit.standing(&constraints));
    ledger.record(Change::ConstraintsSet { constraints: limit.within(constraints) });
    Ok(description)
}

fn rebind(
    ledger: &mut Ledger,
    atom: &AtomId,
    summary: String,
    artifacts: Option<Vec<String>>,
) -> Result<String, Refusal> {
    let index = ledger.index(atom)?;
    ledger.wants_status(index, AtomStatus::Resolved)?;
    let summary = said("summary", summary)?;
    let description = format!("{atom}: {summary}");
    let mut binding = ledger.state().bindings.get(atom).cloned().unwrap_or_default();
    binding.summary = summary;
    if let Some(artifacts) = artifacts {
        binding.artifacts = artifacts;
    }
    ledger.record(Change::BindingSet { atom: atom.clone(), binding });
    reset(ledger, index, What::RestsOnIt);
    advance::resolve_parents(ledger, index);
    Ok(description)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    RestsOnIt,
    TheAtomToo,
}

/// Resets what rests on an atom, and takes the trail's entries of the groups that lie within that part out.
fn reset(ledger: &mut Ledger, index: usize, what: What) {
    let mut part: Vec<usize> = ledger.graph().resting_on(ledger.state(), &[index]);
    if what == What::TheAtomToo {
        part.push(index);
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
        ledger.record(Change::TrailPruned { groups });
    }
}

/// Another base case has not been evaluated yet (D14).
fn forget_evaluations(ledger: &mut Ledger) {
    let control = &ledger.state().control;
    if control.fruitless.is_some() || control.fewest_red.is_some() {
        ledger.record(Change::Verified { fruitless: 0, fewest_red: None });
    }
}

/// Two values for one thing cannot both be meant.
fn once_each(corrections: &[CorrectionRequest]) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    for correction in corrections {
        let name = match correction {
            CorrectionRequest::Goal(_) => "goal",
            CorrectionRequest::BaseCase(_) => "base_case",
            CorrectionRequest::BackgroundIntent(_) => "background_intent",
            CorrectionRequest::Deliverables(_) => "deliverables",
            CorrectionRequest::DefinitionOfDone(_) => "definition_of_done",
            CorrectionRequest::Limit(limit) => limit.name(),
            CorrectionRequest::Protected(_) => "protected",
            CorrectionRequest::Isolation(_) => "isolation",
            CorrectionRequest::Accept(_) => "accept",
            CorrectionRequest::AddAtom(_)
            | CorrectionRequest::RemoveAtom(_)
            | CorrectionRequest::Decompose { .. }
            | CorrectionRequest::Withdraw { .. }
            | CorrectionRequest::Dependencies { .. }
            | CorrectionRequest::AddChoice { .. }
            | CorrectionRequest::ForceChoice { .. }
            | CorrectionRequest::Rebind { .. }
            | CorrectionRequest::Redo { .. } => continue,
        };
        if !seen.insert(name) {
            return Err(Refusal::Twice(name));
        }
    }
    Ok(())
}

/// What is wanted of one atom or group cannot be wanted otherwise beside it.
fn side_by_side(corrections: &[CorrectionRequest]) -> Result<(), Refusal> {
    for (index, one) in corrections.iter().enumerate() {
        for other in &corrections[..index] {
            if let Some(over) = at_odds(one, other).or_else(|| at_odds(other, one)) {
                return Err(Refusal::AtOdds { over, one: named(other), other: named(one) });
            }
        }
    }
    Ok(())
}

/// What two corrections cannot agree on, seen from the first.
fn at_odds(one: &CorrectionRequest, other: &CorrectionRequest) -> Option<String> {
    let atom = |of: &CorrectionRequest| match of {
        CorrectionRequest::RemoveAtom(atom)
        | CorrectionRequest::Withdraw { parent: atom }
        | CorrectionRequest::Decompose { parent: atom, .. }
        | CorrectionRequest::Dependencies { atom, .. }
        | CorrectionRequest::ForceChoice { choice: atom, .. }
        | CorrectionRequest::Rebind { atom, .. }
        | CorrectionRequest::Redo { atom, .. } => Some(atom.clone()),
        CorrectionRequest::AddAtom(new) | CorrectionRequest::AddChoice { atom: new, .. } => new.id.clone(),
        CorrectionRequest::Goal(_)
        | CorrectionRequest::BaseCase(_)
        | CorrectionRequest::BackgroundIntent(_)
        | CorrectionRequest::Deliverables(_)
        | CorrectionRequest::DefinitionOfDone(_)
        | CorrectionRequest::Limit(_)
        | CorrectionRequest::Protected(_)
        | CorrectionRequest::Isolation(_)
        | CorrectionRequest::Accept(_) => None,
    };
    let needs = |of: &CorrectionRequest| match of {
        CorrectionRequest::AddAtom(new) | CorrectionRequest::AddChoice { atom: new, .. } => {
            new.depends_on.clone()
        }
        CorrectionRequest::Dependencies { depends_on, .. } => depends_on.clone(),
        _ => Vec::new(),
    };
    match (one, other) {
        (CorrectionRequest::RemoveAtom(gone), other)
            if atom(other).as_ref() == Some(gone) || needs(other).contains(gone) =>
        {
            Some(gone.to_string())
        }
        (
            CorrectionRequest::Rebind { atom: kept, .. },
            CorrectionRequest::Redo { atom, .. } | CorrectionRequest::Rebind { atom, .. },
        )
        | (CorrectionRequest::Redo { atom: kept, .. }, CorrectionRequest::Redo { atom, .. })
        | (
            CorrectionRequest::Dependencies { atom: kept, .. },
            CorrectionRequest::Dependencies { atom, .. },
        ) if atom == kept => Some(kept.to_string()),
        (
            CorrectionRequest::ForceChoice { group, .. },
            CorrectionRequest::ForceChoice { group: same, .. },
        ) if group == same => Some(group.to_string()),
        _ => None,
    }
}

/// Whether a correction still holds when all of them are made: one may have undone what another brought.
fn stands(state: &State, correction: &CorrectionRequest) -> Result<(), Refusal> {
    let undone = |over: &str| {
        Err(Refusal::AtOdds {
            over: over.to_owned(),
            one: named(correction),
            other: "another correction".into(),
        })
    };
    match correction {
        CorrectionRequest::ForceChoice { group, choice, .. }
            if state.or_groups.get(group).is_none_or(|entry| entry.selected != *choice) =>
        {
            undone(group.as_str())
        }
        CorrectionRequest::Rebind { atom, summary, .. }
            if state.bindings.get(atom).is_none_or(|binding| binding.summary != *summary) =>
        {
            undone(atom.as_str())
        }
        _ => Ok(()),
    }
}

/// A correction in two or three words, as a person asked for it.
fn named(correction: &CorrectionRequest) -> String {
    match correction {
        CorrectionRequest::Goal(_) => "another goal".into(),
        CorrectionRequest::BaseCase(_) => "another base case".into(),
        CorrectionRequest::BackgroundIntent(_) => "another background".into(),
        CorrectionRequest::Deliverables(_) => "other deliverables".into(),
        CorrectionRequest::DefinitionOfDone(_) => "another definition of done".into(),
        CorrectionRequest::Limit(limit) => format!("another {}", limit.name()),
        CorrectionRequest::Protected(_) => "other protected files".into(),
        CorrectionRequest::Isolation(_) => "other trees".into(),
        CorrectionRequest::Accept(_) => "accepting what was changed".into(),
        CorrectionRequest::AddAtom(atom) => format!("adding \"{}\"", atom.description),
        CorrectionRequest::RemoveAtom(atom) => format!("removing {atom}"),
        CorrectionRequest::Decompose { parent, .. } => format!("decomposing {parent}"),
        CorrectionRequest::Withdraw { parent } => format!("making {parent} whole again"),
        CorrectionRequest::Dependencies { atom, depends_on } => {
            format!("{atom} depending on {}", names(depends_on))
        }
        CorrectionRequest::AddChoice { group, atom } => format!("adding \"{}\" to {group}", atom.description),
        CorrectionRequest::ForceChoice { group, choice, .. } => format!("{group} taking {choice}"),
        CorrectionRequest::Rebind { atom, .. } => format!("another result of {atom}"),
        CorrectionRequest::Redo { atom, .. } => format!("doing {atom} again"),
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
    let (before, now) = (old.objective.base_case.as_ref(), new.objective.base_case.as_ref());
    let what = if before != now {
        let items = Checks::differences(before, now).into_iter().map(|(what, how)| format!("{what} {how}"));
        let items: Vec<String> = items.collect();
        // The same items in another order.
        if items.is_empty() { "the base case was changed".to_owned() } else { items.join(", ") }
    } else if old.objective.protected != new.objective.protected {
        "the list of protected files was changed".to_owned()
    } else {
        return None;
    };
    Some(format!("tampered: {what} outside of a redirect"))
}

/// Results that an edit of the file claims and that are not believed: those that the program proves by a check or a command
/// (D22), parents, which resolve by themselves (D3), and in a host's session all of them, because its agents have no cage
/// that would keep them from the file. `wrote` is what the program wrote last.
pub fn unproven_results(wrote: &State, edited: &State) -> Vec<Change> {
    let hosted = wrote.control.session.is_some() && wrote.control.status == LoopStatus::Running;
    let is_proven = |atom: &Atom| atom.is_proven_when_resolved();
    let mut changes = Vec::new();
    for atom in edited.atoms.values().filter(|atom| atom.status == AtomStatus::Resolved) {
        let before = wrote.atoms.get(&atom.id);
        let status = before.map_or(AtomStatus::Pending, |before| before.status);
        let is_parent = edited.decomposition_of(&atom.id).is_some();
        let needs_proof =
            hosted || is_parent || is_proven(atom) || before.is_some_and(|before| is_proven(before));
        if status != AtomStatus::Resolved && needs_proof {
            changes.push(Change::ResultNotBelieved { atom: atom.id.clone(), status });
        }
    }
    changes
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
