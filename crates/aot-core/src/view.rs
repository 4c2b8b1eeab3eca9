//! One snapshot of a loop for every screen and every short question. Draws nothing.
//!
//! A view is cached beside the state file, so its lists are short whatever the graph, each with the full count.

mod outline;

pub use outline::{Outline, Row, RowItem, Sibling};

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::rules::bound::{self, Bound};
use crate::rules::certificate::Tried;
use crate::rules::plan::Agents;
use crate::rules::{certificate, gate};
use crate::state::{
    Atom, AtomId, AtomStatus, CheckKind, Graph, GroupName, LoopStatus, SelectionCause, Spent, Stamp, State,
    StopKind, Target, TrailEntry,
};
use crate::verdict::CheckTree;

/// How many entries of a list a view keeps.
pub const LISTED: usize = 24;

/// How many characters of a text a view keeps.
pub const TEXT_KEPT: usize = 160;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    pub goal: String,
    pub status: LoopStatus,
    /// The host's session that owns the loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The work lands on this branch, and not in the checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    pub iteration: u32,
    pub max_iterations: u32,
    pub stall_count: u32,
    pub max_stall_count: u32,
    pub stop_reason: Option<String>,
    pub stop_requested: bool,
    pub redirect_requested: bool,
    pub parked_until: Option<Stamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked_reason: Option<String>,
    pub counts: Counts,
    /// How many of the atoms are decomposed.
    pub parents: usize,
    /// Ready atoms, longest remaining path first. The list may be long, so a cached view leaves it out.
    #[serde(skip)]
    pub ready: Vec<AtomId>,
    pub ready_count: usize,
    /// The first of the ready atoms.
    pub next: Vec<AtomTitle>,
    pub running: Vec<AtomId>,
    /// The running atoms again, with what is known of each.
    pub at_work: Vec<AtomInProgress>,
    /// Unresolved atoms that failed before, the latest first.
    pub failures: Few<Failing>,
    /// OR groups, the unresolved ones first.
    pub groups: Few<Alternatives>,
    /// The most that can still be spent.
    pub bound: Bound,
    /// The least agent runs that success needs; none if only commands and checks are left.
    pub least_agent_runs: u64,
    pub spent: Spent,
    /// What the alignment lacks; empty if the gate is open.
    pub missing: Vec<String>,
    /// The checks of the base case.
    pub base_case: Vec<BaseCaseCheck>,
    /// Commands to type next; empty while the loop runs.
    pub next_steps: Vec<String>,
}

/// Atoms by status. An atom under a choice that is not selected counts as dormant, whatever its status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub pending: usize,
    pub in_progress: usize,
    pub resolved: usize,
    /// Those of the resolved that are [`ResultProof::Claimed`].
    #[serde(default)]
    pub claimed: usize,
    pub dormant: usize,
}

/// What a resolved atom rests on (D33).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultProof {
    /// The program saw its check pass or its command succeed, or all its parts are proven.
    Proven,
    /// An agent says so.
    Claimed,
}

impl ResultProof {
    /// Of a resolved atom.
    pub fn of(graph: &Graph, state: &State, index: usize) -> ResultProof {
        let mut open = vec![index];
        while let Some(index) = open.pop() {
            let atom = &state.atoms[index];
            let parts = graph.children(index);
            if atom.check.is_some() || (parts.is_empty() && atom.run.is_some()) {
                continue;
            }
            if parts.is_empty() {
                return ResultProof::Claimed;
            }
            open.extend(parts.iter().filter(|part| state.atoms[**part].status == AtomStatus::Resolved));
        }
        ResultProof::Proven
    }
}

impl Counts {
    pub fn of(state: &State) -> Counts {
        Counts::in_graph(&Graph::new(state), state)
    }

    fn in_graph(graph: &Graph, state: &State) -> Counts {
        let mut counts = Counts::default();
        for (index, atom) in state.atoms.values().enumerate() {
            *match atom.status {
                _ if graph.is_dormant(state, index) => &mut counts.dormant,
                AtomStatus::Pending => &mut counts.pending,
                AtomStatus::InProgress => &mut counts.in_progress,
                AtomStatus::Resolved => {
                    counts.claimed +=
                        usize::from(ResultProof::of(graph, state, index) == ResultProof::Claimed);
                    &mut counts.resolved
                }
            } += 1;
        }
        counts
    }

    /// How many are resolved, of how many that have to be: what is dormant need not.
    pub fn progress(&self) -> (usize, usize) {
        (self.resolved, self.all() - self.dormant)
    }

    /// The resolved atoms in words, for people.
    pub fn proof(&self) -> String {
        match (self.resolved - self.claimed, self.claimed) {
            (proven, 0) => format!("{proven} proven"),
            (0, claimed) => format!("{claimed} claimed"),
            (proven, claimed) => format!("{proven} proven, {claimed} claimed"),
        }
    }

    pub fn all(&self) -> usize {
        self.pending + self.in_progress + self.resolved + self.dormant
    }
}

/// The first entries of a list, and its length.
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
pub struct AtomTitle {
    pub atom: AtomId,
    pub description: String,
}

/// An atom in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtomInProgress {
    pub atom: AtomId,
    pub description: String,
    /// The iteration in which it started; unknown if a person set its status.
    pub attempt: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    pub atom: AtomId,
    pub times: usize,
    /// The latest reason.
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

/// A check of the base case, without its evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseCaseCheck {
    pub item: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// What its evidence names as run.
    pub runs: Option<String>,
    /// Whether a person confirmed or denied it, and when.
    pub confirmed: Option<(bool, Stamp)>,
}

/// The status of an atom as screens show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DisplayStatus {
    Resolved,
    /// Resolved on an agent's word.
    Claimed,
    Running,
    Ready,
    Pending,
    Dormant,
    /// A choice of an OR group that failed.
    Failed,
}

impl DisplayStatus {
    pub fn of(graph: &Graph, state: &State, index: usize) -> DisplayStatus {
        let atom = &state.atoms[index];
        let failed_choice =
            graph.group_of(index).is_some_and(|g| state.or_groups[g].failed.contains(&atom.id));
        match atom.status {
            _ if failed_choice => DisplayStatus::Failed,
            _ if graph.is_dormant(state, index) => DisplayStatus::Dormant,
            AtomStatus::Pending if graph.is_ready(state, index) => DisplayStatus::Ready,
            AtomStatus::Pending => DisplayStatus::Pending,
            AtomStatus::InProgress => DisplayStatus::Running,
            AtomStatus::Resolved => match ResultProof::of(graph, state, index) {
                ResultProof::Proven => DisplayStatus::Resolved,
                ResultProof::Claimed => DisplayStatus::Claimed,
            },
        }
    }
}

impl View {
    pub fn of(state: &State) -> View {
        let graph = Graph::new(state);
        let (control, limits) = (&state.control, state.constraints());
        let is_at_work = |(index, atom): &(usize, &Arc<Atom>)| {
            atom.status == AtomStatus::InProgress && !graph.is_dormant(state, *index)
        };
        let at_work = state.atoms.values().enumerate().filter(is_at_work);
        let at_work = at_work.map(|(_, atom)| AtomInProgress {
            atom: atom.id.clone(),
            description: shortened(&atom.description),
            attempt: control.attempts.get(&atom.id).copied(),
        });
        let at_work: Vec<AtomInProgress> = at_work.collect();
        let missing = gate::missing(state);
        let ready: Vec<AtomId> = graph.ready_ids(state).into_iter().cloned().collect();
        let titled = |id: &AtomId| AtomTitle {
            atom: id.clone(),
            description: shortened(&state.atoms[id].description),
        };
        View {
            goal: shortened(&state.objective.goal),
            status: control.status,
            session: control.session.clone(),
            branch: control.branch.clone(),
            iteration: control.iteration,
            max_iterations: limits.max_iterations,
            stall_count: control.stall_count,
            max_stall_count: limits.max_stall_count,
            stop_reason: control.stop_reason.clone(),
            stop_requested: control.stop_requested,
            redirect_requested: control.redirect_requested,
            parked_until: control.parked_until.clone(),
            parked_reason: control.parked_reason.as_deref().map(shortened),
            counts: Counts::in_graph(&graph, state),
            parents: (0..state.atoms.len()).filter(|index| graph.is_decomposed(*index)).count(),
            ready_count: ready.len(),
            next: ready.iter().take(LISTED).map(titled).collect(),
            ready,
            running: at_work.iter().map(|at_work| at_work.atom.clone()).collect(),
            at_work,
            failures: failures(state),
            groups: groups(&graph, state),
            bound: bound::written(state, Agents::ALL),
            least_agent_runs: bound::least(state, &graph),
            spent: control.spent.clone().unwrap_or_default(),
            next_steps: match control.status {
                LoopStatus::Pending if missing.is_empty() => vec!["aot run".into()],
                LoopStatus::Pending => vec!["aot gate".into()],
                LoopStatus::Stopped => next_steps(state),
                LoopStatus::Running | LoopStatus::Completed => Vec::new(),
            },
            missing,
            base_case: base_case(state),
        }
    }
}

/// What came of a resolved atom, in words for people. The contract has words of its own for a parent.
pub fn result_of(graph: &Graph, state: &State, index: usize) -> String {
    let is_resolved = |part: &&usize| state.atoms[**part].status == AtomStatus::Resolved;
    let parts = graph.children(index).iter().filter(is_resolved);
    let parts: Vec<&str> = parts.map(|part| state.atoms[*part].id.as_str()).collect();
    match &parts[..] {
        [] => state
            .bindings
            .get(&state.atoms[index].id)
            .map_or_else(String::new, |binding| binding.summary.clone()),
        [one] => format!("{one} finished"),
        [first @ .., last] => format!("{} and {last} finished", first.join(", ")),
    }
}

/// What to type next in a loop that stopped. What a person has to confirm is named, and what is confirmed is not asked again.
pub fn next_steps(state: &State) -> Vec<String> {
    let mut steps = certificate::next_steps(state);
    let assertions: Vec<BaseCaseCheck> =
        base_case(state).into_iter().filter(|check| check.kind == CheckKind::Assertion.word()).collect();
    if state.control.verdict == Some(StopKind::NeedsPerson) && !assertions.is_empty() {
        let open = assertions.iter().filter(|check| check.confirmed.is_none());
        steps.splice(..1, open.map(|check| format!("aot confirm \"{}\"", check.item)));
    }
    steps
}

fn failures(state: &State) -> Few<Failing> {
    let tried = certificate::tried(state);
    Few::of(tried.into_iter().rev().map(|tried| {
        let reason = last_reason(state, &tried).unwrap_or_default();
        Failing { times: tried.attempts, reason: shortened(reason), atom: tried.atom }
    }))
}

/// Why an atom failed last. A choice that failed is noted with the selection of the next one.
fn last_reason<'s>(state: &'s State, tried: &'s Tried) -> Option<&'s str> {
    let last = state.trail.iter().rev().find_map(|entry| match entry {
        TrailEntry::Failure { atom, reason, .. } if *atom == tried.atom => Some(reason.as_str()),
        TrailEntry::Selection { cause: Some(SelectionCause::Failed { atom, reason }), .. }
            if *atom == tried.atom =>
        {
            reason.as_deref()
        }
        _ => None,
    });
    last.or(tried.reasons.last().map(String::as_str))
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

fn base_case(state: &State) -> Vec<BaseCaseCheck> {
    let Some(checks) = &state.objective.base_case else { return Vec::new() };
    let leaves = CheckTree::of(checks).leaves;
    leaves
        .into_iter()
        .map(|leaf| {
            let confirmation = state.control.confirmed.iter().find(|entry| entry.item == leaf.name);
            BaseCaseCheck {
                kind: leaf.check.kind().word().to_owned(),
                runs: leaf.runs().map(str::to_owned),
                confirmed: confirmation.map(|entry| (entry.holds(), entry.at.clone())),
                item: leaf.name,
            }
        })
        .collect()
}

fn shortened(text: &str) -> String {
    text.char_indices().nth(TEXT_KEPT).map_or(text, |(at, _)| &text[..at]).to_owned()
}
