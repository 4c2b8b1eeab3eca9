//! One snapshot of a loop for every screen and every short question. Draws nothing.
//!
//! A view is kept beside the text it was made of, so what it lists is cut where a graph can make it long; how much there
//! is in all stands beside.

mod outline;

pub use outline::{Last, Outline, Row, What};

use serde::{Deserialize, Serialize};

use crate::rules::bound::{self, Bound};
use crate::rules::{certificate, gate};
use crate::state::{AtomId, AtomStatus, Graph, GroupName, LoopStatus, Spent, Stamp, State, Target};
use crate::verdict::Sheet;

/// So many of each list are kept.
pub const LISTED: usize = 24;

/// So many characters of a text are kept.
pub const TEXT_KEPT: usize = 160;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    pub goal: String,
    pub status: LoopStatus,
    /// The host's session that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    pub iteration: u32,
    pub max_iterations: u32,
    pub stall_count: u32,
    pub max_stall_count: u32,
    pub stop_reason: Option<String>,
    pub stop_requested: bool,
    pub redirect_requested: bool,
    pub parked_until: Option<Stamp>,
    pub counts: Counts,
    /// How many of the atoms were cut into others.
    pub parents: usize,
    /// What could start now, in the order in which it would. Kept apart where a view is stored: it may be long.
    #[serde(skip)]
    pub ready: Vec<AtomId>,
    pub ready_count: usize,
    /// The first of what is ready.
    pub next: Vec<Named>,
    pub running: Vec<AtomId>,
    /// The same, with what is known of each.
    pub at_work: Vec<AtWork>,
    /// What is unresolved and failed before, the latest first.
    pub failures: Few<Failing>,
    /// Those that are still open first.
    pub groups: Few<Alternatives>,
    /// The most that can still happen.
    pub bound: Bound,
    pub spent: Spent,
    /// What the alignment lacks; empty if the gate is open.
    pub missing: Vec<String>,
    /// What the base case asks.
    pub base_case: Vec<Asked>,
    /// What to type next, if nothing goes on by itself.
    pub next_steps: Vec<String>,
}

/// Atoms by status; whatever lies under a choice that takes no part is dormant, whatever its status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub pending: usize,
    pub in_progress: usize,
    pub resolved: usize,
    pub dormant: usize,
}

impl Counts {
    pub fn all(&self) -> usize {
        self.pending + self.in_progress + self.resolved + self.dormant
    }
}

/// The first of something, and how many there are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Few<T> {
    pub count: usize,
    pub first: Vec<T>,
}

impl<T> Few<T> {
    fn of(all: impl ExactSizeIterator<Item = T>) -> Few<T> {
        Few { count: all.len(), first: all.take(LISTED).collect() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    pub atom: AtomId,
    pub description: String,
}

/// An atom in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtWork {
    pub atom: AtomId,
    pub description: String,
    /// The iteration in which it was started; unknown if it was started by hand.
    pub attempt: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    pub atom: AtomId,
    pub times: usize,
    /// The latest.
    pub reason: String,
}

/// An OR group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alternatives {
    pub group: GroupName,
    pub selected: AtomId,
    pub failed: Vec<AtomId>,
    /// Neither selected nor failed.
    pub untried: Vec<AtomId>,
    pub resolved: bool,
    /// Its choices run side by side.
    pub races: bool,
}

/// A check of the base case, without what was seen of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    pub item: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// What evidence of it says that was run.
    pub runs: Option<String>,
    /// What a person said, and when.
    pub said: Option<(bool, Stamp)>,
}

/// How an atom stands, for whoever draws it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    Resolved,
    Running,
    Ready,
    Pending,
    Dormant,
    /// A choice that was given up.
    Failed,
}

impl Standing {
    pub fn of(graph: &Graph, state: &State, index: usize) -> Standing {
        let atom = &state.atoms[index];
        let given_up = graph.group_of(index).is_some_and(|g| state.or_groups[g].failed.contains(&atom.id));
        match atom.status {
            _ if given_up => Standing::Failed,
            _ if graph.is_dormant(state, index) => Standing::Dormant,
            AtomStatus::Pending if graph.is_ready(state, index) => Standing::Ready,
            AtomStatus::Pending => Standing::Pending,
            AtomStatus::InProgress => Standing::Running,
            AtomStatus::Resolved => Standing::Resolved,
        }
    }
}

impl View {
    pub fn of(state: &State) -> View {
        let graph = Graph::new(state);
        let (control, limits) = (&state.control, state.constraints());
        let mut counts = Counts::default();
        let mut at_work = Vec::new();
        for (index, atom) in state.atoms.values().enumerate() {
            if graph.is_dormant(state, index) {
                counts.dormant += 1;
                continue;
            }
            match atom.status {
                AtomStatus::Pending => counts.pending += 1,
                AtomStatus::Resolved => counts.resolved += 1,
                AtomStatus::InProgress => {
                    counts.in_progress += 1;
                    at_work.push(AtWork {
                        atom: atom.id.clone(),
                        description: cut(&atom.description),
                        attempt: control.attempts.get(&atom.id).copied(),
                    });
                }
            }
        }
        let missing = gate::missing(state);
        let ready: Vec<AtomId> = graph.ready_ids(state).into_iter().cloned().collect();
        let named = |id: &AtomId| Named { atom: id.clone(), description: cut(&state.atoms[id].description) };
        View {
            goal: cut(&state.objective.goal),
            status: control.status,
            session: control.session.clone(),
            iteration: control.iteration,
            max_iterations: limits.max_iterations,
            stall_count: control.stall_count,
            max_stall_count: limits.max_stall_count,
            stop_reason: control.stop_reason.clone(),
            stop_requested: control.stop_requested,
            redirect_requested: control.redirect_requested,
            parked_until: control.parked_until.clone(),
            counts,
            parents: (0..state.atoms.len()).filter(|index| graph.is_decomposed(*index)).count(),
            ready_count: ready.len(),
            next: ready.iter().take(LISTED).map(named).collect(),
            ready,
            running: at_work.iter().map(|at_work| at_work.atom.clone()).collect(),
            at_work,
            failures: failures(state),
            groups: groups(&graph, state),
            bound: bound::written(state),
            spent: control.spent.clone().unwrap_or_default(),
            next_steps: match control.status {
                LoopStatus::Pending if missing.is_empty() => vec!["aot run".into()],
                LoopStatus::Pending => vec!["aot gate".into()],
                LoopStatus::Stopped => certificate::next_steps(state),
                LoopStatus::Running | LoopStatus::Completed => Vec::new(),
            },
            missing,
            base_case: base_case(state),
        }
    }
}

fn failures(state: &State) -> Few<Failing> {
    let tried = certificate::tried(state);
    Few::of(tried.into_iter().rev().map(|tried| {
        let told = tried.reasons.last().map_or("", String::as_str);
        // A choice that was given up is told by the next selection: `failed (why)`.
        let inner = told.strip_prefix("failed (").and_then(|told| told.strip_suffix(')'));
        Failing { atom: tried.atom, times: tried.attempts, reason: cut(inner.unwrap_or(told)) }
    }))
}

fn groups(graph: &Graph, state: &State) -> Few<Alternatives> {
    let resolved = |group: &usize| graph.is_resolved(state, Target::Group(*group));
    let mut order: Vec<usize> = (0..state.or_groups.len()).collect();
    order.sort_by_key(resolved);
    Few::of(order.into_iter().map(|group| {
        let (name, entry) = state.or_groups.get_index(group).expect("a graph's group stands in its state");
        let untried = |choice: &&AtomId| **choice != entry.selected && !entry.failed.contains(choice);
        Alternatives {
            group: name.clone(),
            selected: entry.selected.clone(),
            failed: entry.failed.clone(),
            untried: entry.choices.iter().filter(untried).cloned().collect(),
            resolved: resolved(&group),
            races: graph.is_racing(state, group),
        }
    }))
}

fn base_case(state: &State) -> Vec<Asked> {
    let Some(checks) = &state.objective.base_case else { return Vec::new() };
    let leaves = Sheet::of(checks).leaves;
    leaves
        .into_iter()
        .map(|leaf| {
            let said = state.control.confirmed.iter().find(|said| said.item == leaf.name);
            Asked {
                kind: leaf.kind().to_owned(),
                runs: leaf.runs().map(str::to_owned),
                said: said.map(|said| (said.holds(), said.at.clone())),
                item: leaf.name,
            }
        })
        .collect()
}

fn cut(text: &str) -> String {
    text.char_indices().nth(TEXT_KEPT).map_or(text, |(at, _)| &text[..at]).to_owned()
}
