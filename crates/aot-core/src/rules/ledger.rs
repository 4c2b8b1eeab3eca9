//! A state being worked on: the state, its graph, and the changes made so far. Rules write into a ledger; whoever
//! opened it takes the changes and records them.

use jiff::Timestamp;

use super::{Change, Refusal, apply};
use crate::state::{Atom, AtomId, AtomStatus, Closes, Graph, GroupName, OrGroup, State};

#[derive(Clone, Debug)]
pub struct Ledger {
    state: State,
    graph: Graph,
    changes: Vec<Change>,
    now: Timestamp,
    /// Set at the first change that can move the count without a resolution.
    mark: Option<Mark>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    unresolved: usize,
    resolved_since: usize,
}

impl Ledger {
    pub fn open(state: State, now: Timestamp) -> Ledger {
        let graph = Graph::new(&state);
        Ledger { state, graph, changes: Vec::new(), now, mark: None }
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The state with all changes made, and the changes.
    pub fn close(mut self) -> (State, Vec<Change>) {
        if let Some(mark) = self.mark {
            let expected = mark.unresolved as i64 - mark.resolved_since as i64;
            let by = self.graph.unresolved(&self.state) as i64 - expected;
            if by != 0 {
                self.write(Change::CountMoved { by });
            }
        }
        (self.state, self.changes)
    }

    /// Makes a change. That it fits is the rule's duty: it has just looked at this very state.
    pub fn enter(&mut self, change: Change) {
        let counted = self.state.control.prev_pending_count >= 0;
        if counted && self.mark.is_none() && moves_count(&change) {
            self.mark = Some(Mark { unresolved: self.graph.unresolved(&self.state), resolved_since: 0 });
        }
        if let (Some(mark), Change::AtomResolved { .. }) = (&mut self.mark, &change) {
            mark.resolved_since += 1;
        }
        self.write(change);
    }

    fn write(&mut self, change: Change) {
        apply(&mut self.state, &change, self.now)
            .expect("a rule enters only what fits the state it looked at");
        if change.reshapes() {
            self.graph = Graph::new(&self.state);
        }
        self.changes.push(change);
    }

    /// Where an atom stands in the graph.
    pub fn place(&self, id: &AtomId) -> Result<usize, Refusal> {
        self.state.atoms.get_index_of(id).ok_or_else(|| Refusal::UnknownAtom(id.clone()))
    }

    pub fn atom(&self, place: usize) -> &Atom {
        &self.state.atoms[place]
    }

    pub fn id(&self, place: usize) -> AtomId {
        self.state.atoms[place].id.clone()
    }

    pub fn group(&self, name: &GroupName) -> Result<usize, Refusal> {
        self.state.or_groups.get_index_of(name).ok_or_else(|| Refusal::UnknownGroup(name.clone()))
    }

    pub fn group_at(&self, group: usize) -> (&GroupName, &OrGroup) {
        self.state.or_groups.get_index(group).expect("a graph's group stands in its state")
    }

    pub fn wants_status(&self, place: usize, wanted: AtomStatus) -> Result<(), Refusal> {
        let atom = self.atom(place);
        if atom.status == wanted {
            return Ok(());
        }
        Err(Refusal::WrongStatus { atom: atom.id.clone(), is: atom.status, wanted })
    }

    /// Resets what is not pending among these.
    pub fn reset_all(&mut self, places: impl IntoIterator<Item = usize>) {
        for place in places {
            let atom = self.atom(place);
            if atom.status != AtomStatus::Pending || self.state.bindings.contains_key(&atom.id) {
                let atom = atom.id.clone();
                self.enter(Change::AtomReset { atom });
            }
        }
    }

    /// Refuses a graph that has got a cycle as selected now, or nests too deep.
    pub fn check_shape(&self) -> Result<(), Refusal> {
        if let Some(place) = self.graph.too_deep().first() {
            return Err(Refusal::TooDeep { atom: self.id(*place), limit: crate::state::MAX_NESTING });
        }
        let cycle = self.graph.cycles(&self.state).into_iter().find(|cycle| cycle.closes == Closes::Now);
        cycle.map_or(Ok(()), |cycle| Err(Refusal::Cycle(cycle.names)))
    }
}

/// Whether a change can move the count of unresolved atoms in a way that is no progress (decision D9).
fn moves_count(change: &Change) -> bool {
    change.reshapes()
        || matches!(
            change,
            Change::AtomReset { .. }
                | Change::ChoiceSelected { .. }
                | Change::ChoiceFailed { .. }
                | Change::ChoiceForgiven { .. }
        )
}
