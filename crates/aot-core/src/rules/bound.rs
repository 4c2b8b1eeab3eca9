//! How much can still happen, at most (D8). Computed from the state and what is in flight; it only falls, unless a
//! person redirects or edits.

use std::collections::{BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use super::plan::{Agents, Presence, starts_per_iteration};
use crate::state::{AtomId, AtomStatus, Graph, State};

/// The most that a loop can still cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    pub agent_runs: u64,
    /// Of wall time.
    pub seconds: u64,
    /// Without `max_cost_usd` there is no figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

/// How often an attempt goes on after its agent has answered, because the answer cannot be read or its check is red: `M`.
/// Each time is an agent run (D34).
pub const MENDS: u64 = 2;

/// What the figure depends on besides limits and counters. It takes a walk over all atoms, so whoever asks often keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// The most quality items in any atom's check: `q`.
    judges: u64,
    /// [`MENDS`], or none where a host asks its own agents.
    mends: u64,
    /// A probe before the work, and a replan for an iteration: one, or none where nobody can be asked.
    probes: u64,
    replans: u64,
    /// The most attempts of one iteration.
    starts: u64,
    /// How many of them agents may have to make. The others are commands and checks.
    agent_atoms: u64,
}

impl Rates {
    pub fn new(state: &State, agents: Agents, mends: u64) -> Rates {
        let one_if = |presence| u64::from(presence == Presence::Available);
        let starts = starts_per_iteration(state.constraints().max_parallel_agents) as u64;
        let agent_atoms = match agents {
            Agents { worker: Presence::Absent, .. } => 0,
            // A plan may have any number of new atoms.
            Agents { coordinator: Presence::Available, .. } => u64::MAX,
            Agents { coordinator: Presence::Absent, .. } => agent_atoms(state),
        };
        Rates {
            judges: judges(state) as u64,
            mends,
            probes: one_if(agents.probe),
            replans: one_if(agents.coordinator),
            starts,
            agent_atoms,
        }
    }

    /// The judges of one check: each item is asked once more if its answer is unusable.
    fn judgements(&self) -> u64 {
        2 * self.judges
    }

    /// What may follow the first run of a worker: it goes on, and each of its results is judged.
    pub fn after_work(&self) -> u64 {
        self.mends + self.judgements() * (1 + self.mends)
    }

    /// The judges of an attempt without an agent, or of one that lands.
    pub fn after_command(&self) -> u64 {
        self.judgements()
    }

    /// An attempt by an agent: a probe, the work, and what may follow.
    fn attempt(&self) -> u64 {
        1 + self.probes + self.after_work()
    }

    /// So many attempts of one iteration, as many of them by agents as can be, while so many atoms of theirs have had their
    /// turn.
    fn attempts(&self, starts: u64, had_their_turn: u64) -> u64 {
        let by_agents = starts.min(self.agent_atoms.saturating_sub(had_their_turn));
        let by_commands = (starts - by_agents).saturating_mul(self.after_command());
        by_agents.saturating_mul(self.attempt()).saturating_add(by_commands)
    }

    /// The most agent runs that belong to one iteration: its starts, one replan, one evaluation at its close.
    fn iteration(&self, state: &State) -> u64 {
        self.attempts(self.starts, 0).saturating_add(self.replans).saturating_add(evaluation(state))
    }
}

/// What is in flight, as far as it can still lead to agent runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunsInFlight {
    /// Probes of other choices that were starts of the open iteration (D10).
    pub probed_choices: usize,
    /// Runs that attempts in flight may still begin: the work after a probe, mends, and judges.
    pub attempts: u64,
    /// Evaluations of the base case that are due or under way outside of an open iteration.
    pub evaluations: u64,
}

/// The figure before the first start, with agents for all roles: `2Q + N((2m-1)(2+M+2q(1+M)) + 1 + 2Q)`.
pub fn total(state: &State) -> Bound {
    whole(state, Rates::new(state, Agents::ALL, MENDS))
}

fn whole(state: &State, rates: Rates) -> Bound {
    let iterations = u64::from(state.constraints().max_iterations);
    Bound {
        agent_runs: evaluation(state).saturating_add(iterations.saturating_mul(rates.iteration(state))),
        seconds: state.constraints().max_wall_time().seconds(),
        cost_usd: state.constraints().max_cost_usd,
        tokens: state.constraints().max_tokens,
    }
}

/// What is left where a host's session drives: each turn may have one more agent, who looks at the checks. What its agents
/// cost is known to the host alone.
pub fn hosted(state: &State) -> Bound {
    let left = as_written(state, Rates::new(state, Agents::ALL, 0));
    let later = state.constraints().max_iterations.saturating_sub(state.control.iteration);
    let turns = u64::from(later) + u64::from(state.control.open.is_some());
    Bound { agent_runs: left.agent_runs.saturating_add(turns), cost_usd: None, tokens: None, ..left }
}

/// The most agents that a host may start between two ends of a turn: for each attempt one that looks and one that works
/// (or one that works and one that mends), one that coordinates and one that looks at the checks.
pub fn turn(state: &State) -> u64 {
    let starts = starts_per_iteration(state.constraints().max_parallel_agents) as u64;
    starts.saturating_mul(2).saturating_add(2)
}

/// What is left of it.
pub fn left(state: &State, rates: Rates, flight: RunsInFlight, seconds_spent: u64) -> Bound {
    let constraints = state.constraints();
    let spent = state.control.spent.clone().unwrap_or_default();
    let later = u64::from(constraints.max_iterations.saturating_sub(state.control.iteration));
    let mut runs = later.saturating_mul(rates.iteration(state));
    runs = runs.saturating_add(flight.evaluations.saturating_mul(evaluation(state)));
    if let Some(open) = &state.control.open {
        let started = (open.started.len() + flight.probed_choices) as u64;
        let starts = rates.starts.saturating_sub(started);
        let counts = |id: &&AtomId| state.decomposition_of(id).is_none() && may_need_agent(state, id);
        let had_their_turn = open.started.iter().filter(counts).count() as u64;
        let attempts = rates.attempts(starts, had_their_turn);
        runs = runs.saturating_add(attempts).saturating_add(evaluation(state));
    }
    Bound {
        agent_runs: runs.saturating_add(flight.attempts),
        seconds: constraints.max_wall_time().seconds().saturating_sub(seconds_spent),
        cost_usd: constraints.max_cost_usd.map(|limit| (limit - spent.cost_usd).max(0.0)),
        tokens: constraints.max_tokens.map(|limit| limit.saturating_sub(spent.tokens)),
    }
}

/// What is left as far as the file alone tells: how far along an attempt is, and whether an evaluation is still due, is
/// known only to whoever drives the loop, so the most is taken. What was started by hand has no probe before it.
pub fn written(state: &State, agents: Agents) -> Bound {
    let mends = if state.control.session.is_some() { 0 } else { MENDS };
    as_written(state, Rates::new(state, agents, mends))
}

fn as_written(state: &State, rates: Rates) -> Bound {
    let running = state.atoms.values().filter(|atom| atom.status == AtomStatus::InProgress);
    let attempts = running
        .map(|atom| match rates.agent_atoms {
            // Without an agent only a command can be at work.
            0 => rates.after_command(),
            _ => rates.after_work() + u64::from(state.control.attempts.contains_key(&atom.id)),
        })
        .fold(0, u64::saturating_add);
    let flight =
        RunsInFlight { probed_choices: 0, attempts, evaluations: u64::from(state.control.open.is_none()) };
    left(state, rates, flight, state.control.spent.as_ref().map_or(0, |spent| spent.seconds))
}

/// The least that success needs if every atom that is needed now is solved at the first try, and one judge is enough for
/// each item.
pub fn least(state: &State, graph: &Graph) -> u64 {
    let counts = |index: &usize| {
        let atom = &state.atoms[*index];
        atom.status != AtomStatus::Resolved
            && atom.run.is_none()
            && !graph.is_decomposed(*index)
            && !graph.is_dormant(state, *index)
            && !graph.under_failed_choice(state, *index)
    };
    let atoms: Vec<usize> = (0..state.atoms.len()).filter(counts).collect();
    let racing = |index: &usize| graph.group_of(*index).filter(|group| graph.is_racing(state, *group));
    let groups: BTreeSet<usize> = atoms.iter().filter_map(racing).collect();
    let alone = atoms.iter().filter(|index| racing(index).is_none()).count();
    (alone + groups.len()) as u64 + evaluation(state) / 2
}

/// The most quality items in any atom's check: `q`.
pub fn judges(state: &State) -> usize {
    let checks = state.atoms.values().filter_map(|atom| atom.check.as_ref());
    checks.map(|check| check.quality_items()).max().unwrap_or(0)
}

/// Attempts that agents may have to make in one iteration while nobody changes the plan: one for each atom, those that a
/// group lists and that have no atom yet among them. A choice can be probed beside another and then be worked on.
fn agent_atoms(state: &State) -> u64 {
    let choices: Vec<&AtomId> = state.or_groups.values().flat_map(|group| &group.choices).collect();
    let missing = choices.iter().filter(|choice| !state.atoms.contains_key(**choice)).count();
    let parents: HashSet<&AtomId> = state.decompositions.iter().map(|entry| &entry.parent).collect();
    let atoms = state.atoms.keys().filter(|id| !parents.contains(id) && may_need_agent(state, id)).count();
    (atoms + missing + choices.len()) as u64
}

/// Whether an agent may have to work on an atom that has no children. With groups a switch can undo what is resolved, and choices that are commands are probed too.
fn may_need_agent(state: &State, id: &AtomId) -> bool {
    let Some(atom) = state.atoms.get(id) else { return false };
    if !state.or_groups.is_empty() {
        return atom.run.is_none() || atom.or_group.is_some();
    }
    let may_be_redone =
        || !atom.is_proven_when_resolved() && state.bindings.get(id).is_some_and(|binding| binding.unchanged);
    atom.run.is_none() && (atom.status != AtomStatus::Resolved || may_be_redone())
}

/// The judges of one evaluation of the base case: `2Q`.
fn evaluation(state: &State) -> u64 {
    state.objective.base_case.as_ref().map_or(0, |checks| 2 * checks.quality_items() as u64)
}

/// Whether more atoms are unresolved than can be worked off in the iterations left; the gate warns then.
pub fn too_tight(state: &State, unresolved: usize) -> bool {
    let constraints = state.constraints();
    let left = constraints.max_iterations.saturating_sub(state.control.iteration) as usize;
    unresolved > left.saturating_mul(constraints.max_parallel_agents as usize)
}
