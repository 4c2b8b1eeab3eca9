//! The next step of a loop, as facts for the agent that coordinates it in a host's session. Rules decided them.

use serde::{Deserialize, Serialize};

use crate::rules::Ledger;
use crate::rules::certificate::RedCheck;
use crate::rules::memory::Memory;
use crate::rules::plan::{self, FAILURES_FOR_A_PROBE, ReplanReason};
use crate::state::{AtomId, Checks, State, Target, TrailEntry};

/// How many ready atoms an instruction describes.
const DESCRIBED: usize = 8;

/// What a step of the session brought to light, besides its changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnReport {
    /// Checks of the base case that did not pass, if it was evaluated.
    pub red: Vec<RedCheck>,
    /// Those of them that nobody has judged, although nothing else is in the way.
    pub to_judge: Vec<String>,
    /// What else the session should know, such as a conflict or a commit that could not be reverted.
    pub notes: Vec<String>,
}

/// What to do next, as the state and the last step say.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    pub goal: String,
    /// Atoms that take part: dormant ones do not.
    pub atoms: usize,
    pub unresolved: usize,
    pub iteration: u32,
    pub max_iterations: u32,
    pub stall_count: u32,
    pub max_stall_count: u32,
    pub max_parallel_agents: u32,
    /// Red checks, if nothing but them keeps the loop from its end.
    pub red: Vec<RedCheck>,
    /// Those of them that a verifier has to judge.
    pub to_judge: Vec<String>,
    pub notes: Vec<String>,
    pub in_progress: Vec<AtomId>,
    /// Nothing new may start.
    pub stop_requested: bool,
    /// ReplanReason the plan has to change (D11).
    pub replan: Vec<ReplanReason>,
    /// The first of the ready atoms, in the order in which they should start.
    pub ready: Vec<ReadyAtom>,
    pub ready_count: usize,
}

/// An atom that can start now.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadyAtom {
    pub id: AtomId,
    pub description: String,
    /// Its children are resolved, and starting it runs only its own check.
    pub decomposed: bool,
    /// What it directly depends on, each with the summary of its binding.
    pub builds_on: Vec<(AtomId, String)>,
    pub check: Option<Checks>,
    pub failures: usize,
    pub last_failure: Option<String>,
    /// A probe should look at it before a worker starts.
    pub probe_first: bool,
    /// A command solves it, without a worker.
    pub runs_command: bool,
}

impl Instruction {
    pub fn of(ledger: &Ledger, report: &TurnReport) -> Instruction {
        let (state, frontier) = (ledger.state(), ledger.frontier());
        let (control, constraints) = (&state.control, state.constraints());
        let unresolved = frontier.unresolved();
        let red = if unresolved == 0 { report.red.clone() } else { Vec::new() };
        let due = (!red.is_empty()).then_some(red.as_slice());
        let ready: Vec<usize> = frontier.due().chain(frontier.ready()).collect();
        Instruction {
            goal: state.objective.goal.clone(),
            atoms: (0..state.atoms.len()).filter(|index| !frontier.is_dormant(*index)).count(),
            unresolved,
            iteration: control.iteration,
            max_iterations: constraints.max_iterations,
            stall_count: control.stall_count,
            max_stall_count: constraints.max_stall_count,
            max_parallel_agents: constraints.max_parallel_agents,
            to_judge: if unresolved == 0 { report.to_judge.clone() } else { Vec::new() },
            notes: report.notes.clone(),
            in_progress: frontier.in_progress().map(|index| ledger.id(index)).collect(),
            stop_requested: control.stop_requested,
            replan: plan::replan_reasons(ledger, &Memory::default(), due),
            ready: ready.iter().take(DESCRIBED).map(|index| ReadyAtom::of(ledger, *index)).collect(),
            ready_count: ready.len(),
            red,
        }
    }
}

impl ReadyAtom {
    fn of(ledger: &Ledger, index: usize) -> ReadyAtom {
        let (state, graph, atom) = (ledger.state(), ledger.graph(), ledger.atom(index));
        let depends_on = graph.depends(index).iter().map(|target| match target {
            Target::Atom(index) => ledger.id(*index),
            Target::Group(group) => ledger.group_at(*group).1.selected.clone(),
        });
        let failures = ledger.tally().failures(&atom.id);
        ReadyAtom {
            id: atom.id.clone(),
            description: atom.description.clone(),
            decomposed: graph.is_decomposed(index),
            builds_on: depends_on
                .filter_map(|id| {
                    let summary = state.bindings.get(&id)?.summary.clone();
                    Some((id, summary))
                })
                .collect(),
            check: atom.check.clone(),
            failures,
            last_failure: last_failure(state, &atom.id).filter(|_| failures > 0).map(str::to_owned),
            probe_first: failures >= FAILURES_FOR_A_PROBE || (atom.probe == Some(true) && failures == 0),
            runs_command: atom.run.is_some(),
        }
    }
}

fn last_failure<'s>(state: &'s State, id: &AtomId) -> Option<&'s str> {
    state.trail.iter().rev().find_map(|entry| match entry {
        TrailEntry::Failure { atom, reason, .. } if atom == id => Some(reason.as_str()),
        TrailEntry::Failure { .. }
        | TrailEntry::Selection { .. }
        | TrailEntry::Replan { .. }
        | TrailEntry::UserCorrection { .. } => None,
    })
}
