//! A state being worked on: the state, what is derived from it, and the changes made so far. Rules write into a
//! ledger; whoever opened it takes the changes and records them.

use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::durations::Durations;
use super::tally::Tally;
use super::{Change, Refusal, apply};
use crate::state::{Atom, AtomId, AtomStatus, Closes, Frontier, Graph, GroupName, OrGroup, State, Weights};

#[derive(Clone)]
pub struct Ledger {
    state: State,
    // Made when first asked for, kept in step by every change, dropped by one that reshapes.
    graph: OnceCell<Graph>,
    frontier: OnceCell<Frontier>,
    tally: Tally,
    /// What is known of how long atoms last; only the order of starts depends on it.
    durations: Arc<Durations>,
    changes: Vec<Change>,
    undone: Vec<Undone>,
    now: Timestamp,
    /// Set at the first change that can move the count without a resolution.
    mark: Option<Mark>,
}

/// A commit whose atom is no longer resolved (D23).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    pub atom: AtomId,
    pub commit: String,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    unresolved: usize,
    resolved_since: usize,
}

/// Shows what is held, not what is derived from it.
impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("state", &self.state)
            .field("changes", &self.changes)
            .field("undone", &self.undone)
            .field("now", &self.now)
            .field("mark", &self.mark)
            .finish_non_exhaustive()
    }
}

impl Ledger {
    pub fn open(state: State, now: Timestamp) -> Ledger {
        let tally = Tally::new(&state);
        Ledger {
            state,
            graph: OnceCell::new(),
            frontier: OnceCell::new(),
            tally,
            durations: Arc::default(),
            changes: Vec::new(),
            undone: Vec::new(),
            now,
            mark: None,
        }
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn graph(&self) -> &Graph {
        self.graph.get_or_init(|| Graph::new(&self.state))
    }

    pub fn frontier(&self) -> &Frontier {
        self.frontier.get_or_init(|| Frontier::new(self.graph(), &self.state, self.weights()))
    }

    /// From now on, what is ready is ordered by the expected time. Looks at every atom.
    pub fn expect(&mut self, durations: Arc<Durations>) {
        self.durations = durations;
        self.frontier.take();
    }

    pub fn durations(&self) -> &Arc<Durations> {
        &self.durations
    }

    /// How heavy each atom is in the frontier's order.
    pub fn weights(&self) -> Weights {
        self.durations.weights(&self.state)
    }

    /// The atoms that count as unresolved.
    pub fn unresolved(&self) -> Vec<AtomId> {
        let all = 0..self.state.atoms.len();
        all.filter(|index| self.frontier().counts(*index)).map(|index| self.id(index)).collect()
    }

    /// Failures and attempts, as the trail tells them.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// From now on, changes happen at this moment.
    pub fn set_now(&mut self, now: Timestamp) {
        self.now = now;
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The state with all changes made, and the changes.
    pub fn close(mut self) -> (State, Vec<Change>) {
        self.record_count_shift();
        (self.state, self.changes)
    }

    /// The changes made since they were last taken.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.record_count_shift();
        std::mem::take(&mut self.changes)
    }

    pub fn take_undone(&mut self) -> Vec<Undone> {
        std::mem::take(&mut self.undone)
    }

    /// Moves the mark from which progress is measured by what was no resolution (D9).
    pub fn record_count_shift(&mut self) {
        if let Some(mark) = self.mark.take() {
            let expected = mark.unresolved as i64 - mark.resolved_since as i64;
            let by = self.frontier().unresolved() as i64 - expected;
            if by != 0 {
                self.write(Change::CountMoved { by });
            }
        }
    }

    /// Makes a change. That it fits is the rule's duty: it has just looked at this very state.
    pub fn record(&mut self, change: Change) {
        let counted = self.state.control.prev_pending_count >= 0;
        if counted && self.mark.is_none() && moves_count(&change) {
            self.mark = Some(Mark { unresolved: self.frontier().unresolved(), resolved_since: 0 });
        }
        if let (Some(mark), Change::AtomResolved { .. }) = (&mut self.mark, &change) {
            mark.resolved_since += 1;
        }
        self.write(change);
    }

    fn write(&mut self, change: Change) {
        if let Change::AtomReset { atom } | Change::AtomRemoved { atom } = &change
            && let Some(commit) = self.state.bindings.get(atom).and_then(|binding| binding.commit.clone())
        {
            self.undone.push(Undone { atom: atom.clone(), commit });
        }
        apply(&mut self.state, &change, self.now)
            .expect("a rule enters only what fits the state it looked at");
        self.tally.follow(&self.state, &change);
        if change.reshapes() {
            self.graph.take();
            self.frontier.take();
        } else {
            self.follow(&change);
        }
        self.changes.push(change);
    }

    /// Keeps the frontier in step with a change that left the shape as it was.
    fn follow(&mut self, change: &Change) {
        let (Some(graph), Some(frontier)) = (self.graph.get(), self.frontier.get_mut()) else { return };
        match concerns(change) {
            Concern::Atom(id) => {
                if let Some(index) = self.state.atoms.get_index_of(id) {
                    frontier.status_changed(graph, &self.state, index);
                }
            }
            Concern::Group(name) => {
                if let Some(group) = self.state.or_groups.get_index_of(name) {
                    frontier.group_changed(graph, &self.state, group);
                }
            }
            Concern::Neither => {}
        }
    }

    /// Where an atom stands in the graph.
    pub fn index(&self, id: &AtomId) -> Result<usize, Refusal> {
        self.state.atoms.get_index_of(id).ok_or_else(|| Refusal::UnknownAtom(id.clone()))
    }

    pub fn atom(&self, index: usize) -> &Atom {
        &self.state.atoms[index]
    }

    pub fn id(&self, index: usize) -> AtomId {
        self.state.atoms[index].id.clone()
    }

    pub fn group(&self, name: &GroupName) -> Result<usize, Refusal> {
        self.state.or_groups.get_index_of(name).ok_or_else(|| Refusal::UnknownGroup(name.clone()))
    }

    pub fn group_at(&self, group: usize) -> (&GroupName, &OrGroup) {
        self.state.or_groups.get_index(group).expect("a graph's group stands in its state")
    }

    pub fn wants_status(&self, index: usize, wanted: AtomStatus) -> Result<(), Refusal> {
        let atom = self.atom(index);
        if atom.status == wanted {
            return Ok(());
        }
        Err(Refusal::WrongStatus { atom: atom.id.clone(), is: atom.status, wanted })
    }

    /// Resets what is not pending among these.
    pub fn reset_all(&mut self, indices: impl IntoIterator<Item = usize>) {
        for index in indices {
            let atom = self.atom(index);
            if atom.status != AtomStatus::Pending || self.state.bindings.contains_key(&atom.id) {
                let atom = atom.id.clone();
                self.record(Change::AtomReset { atom });
            }
        }
    }

    /// Refuses a graph that has got a cycle as selected now, or nests too deep.
    pub fn check_shape(&self) -> Result<(), Refusal> {
        if let Some(index) = self.graph().too_deep().first() {
            return Err(Refusal::TooDeep { atom: self.id(*index), limit: crate::state::MAX_NESTING });
        }
        let cycle = self.graph().cycles(&self.state).into_iter().find(|cycle| cycle.closes == Closes::Now);
        cycle.map_or(Ok(()), |cycle| Err(Refusal::Cycle(cycle.names)))
    }
}

/// Whether a change can move the count of unresolved atoms in a way that is no progress (decision D9).
fn moves_count(change: &Change) -> bool {
    change.reshapes()
        || matches!(
            change,
            Change::AtomReset { .. }
                | Change::ResultNotBelieved { .. }
                | Change::ChoiceSelected { .. }
                | Change::ChoiceFailed { .. }
                | Change::ChoiceForgiven { .. }
        )
}

enum Concern<'c> {
    Atom(&'c AtomId),
    Group(&'c GroupName),
    Neither,
}

/// What in the frontier a change touches. Changes that reshape never come here.
fn concerns(change: &Change) -> Concern<'_> {
    match change {
        Change::AtomStarted { atom, .. }
        | Change::AtomResolved { atom, .. }
        | Change::AtomReset { atom }
        | Change::ResultNotBelieved { atom, .. }
        | Change::AtomReturned { atom, .. }
        | Change::AtomNotStarted { atom, .. } => Concern::Atom(atom),
        Change::ChoiceFailed { group, .. }
        | Change::ChoiceForgiven { group, .. }
        | Change::ChoiceSelected { group, .. } => Concern::Group(group),
        Change::LoopNamed { .. }
        | Change::LoopStarted
        | Change::StatusRestored
        | Change::StopWithdrawn
        | Change::SessionTaken { .. }
        | Change::BranchChosen { .. }
        | Change::StopRequested { .. }
        | Change::RedirectRequested
        | Change::RedirectEnded
        | Change::Stopped { .. }
        | Change::Completed
        | Change::WorkWanted { .. }
        | Change::Parked { .. }
        | Change::Unparked
        | Change::SpentSoFar { .. }
        | Change::IterationOpened
        | Change::ResultCounted
        | Change::IterationClosed { .. }
        | Change::IterationTakenBack
        | Change::StallCleared
        | Change::CountMoved { .. }
        | Change::AtomAdded { .. }
        | Change::AtomRemoved { .. }
        | Change::DependenciesSet { .. }
        | Change::BindingSet { .. }
        | Change::FailureNoted { .. }
        | Change::ReplanNoted { .. }
        | Change::PlanRefused { .. }
        | Change::Decomposed { .. }
        | Change::ChildAdded { .. }
        | Change::ChildRemoved { .. }
        | Change::DecompositionWithdrawn { .. }
        | Change::GroupAdded { .. }
        | Change::GroupRemoved { .. }
        | Change::ChoiceAdded { .. }
        | Change::ChoiceRemoved { .. }
        | Change::SpeculationSet { .. }
        | Change::ChoicesOrdered { .. }
        | Change::GoalSet { .. }
        | Change::BaseCaseSet { .. }
        | Change::BackgroundIntentSet { .. }
        | Change::DeliverablesSet { .. }
        | Change::DefinitionOfDoneSet { .. }
        | Change::ProtectedSet { .. }
        | Change::IsolationSet { .. }
        | Change::ConstraintsSet { .. }
        | Change::TrailCleared
        | Change::TrailPruned { .. }
        | Change::UserCorrected { .. }
        | Change::CorrectionNoted { .. }
        | Change::Verified { .. }
        | Change::FingerprintTaken { .. }
        | Change::ItemConfirmed { .. }
        | Change::ConfirmationWithdrawn { .. } => Concern::Neither,
    }
}
