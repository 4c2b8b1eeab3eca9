//! How long attempts took, and how long one may be expected to take: an atom like those of the same work, else of the same
//! kind of work by the same agent, else of the same kind, else like any. Only the order of starts (D7) and the estimate rest
//! on it; without it, everything is decided as well.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Change;
use crate::state::{AgentRun, Atom, AtomId, Checks, Graph, State, Weights};

/// A longer time was no work: the machine slept, or somebody typed a moment into a file.
pub const LONGEST: f64 = 7.0 * 24.0 * 3600.0;

/// The newest times of each kind are kept, at most so many.
pub const KEPT_OF_A_KIND: usize = 500;

/// The name of an agent is no longer than this.
const NAME: usize = 64;

/// From so many on, the times of one agent say more than those of all agents.
const ENOUGH: usize = 3;

/// More attempts than this are not expected of an atom.
const MOST_ATTEMPTS: f64 = 3.0;

/// What had to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    Command,
    /// The work of an agent that nothing checks.
    Work,
    CheckedWork,
    /// A parent's own check.
    Check,
    BaseCase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    Resolved,
    Failed,
}

/// What one attempt took, from its start until its atom was resolved or had failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptTime {
    /// A hash of what was to be done: atoms of another loop may have the same names.
    pub work: u64,
    pub kind: WorkKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    pub seconds: f64,
    pub ended: AttemptEnd,
}

impl AttemptTime {
    /// Whether it can be true: it may come from a file.
    pub fn is_sane(&self) -> bool {
        let named = self.agent.as_ref().is_none_or(|agent| agent.len() <= NAME);
        (0.0..=LONGEST).contains(&self.seconds) && named
    }
}

/// Attempts as they begin and end, read from changes and the moments at which they were made.
#[derive(Clone, Debug, Default)]
pub struct Stopwatch {
    under_way: HashMap<AtomId, Underway>,
    /// What is over, in the order of the ends.
    pub over: Vec<AttemptTime>,
}

#[derive(Clone, Debug)]
struct Underway {
    since: Timestamp,
    agent: Option<String>,
}

impl Stopwatch {
    /// What one transaction says. The state tells what the atoms are, and may be a later one.
    pub fn follow(&mut self, state: &State, graph: &Graph, changes: &[Change], at: Timestamp) {
        // In one transaction the failure may be noted behind the reset that it led to, and the agent behind the result.
        for run in changes.iter().flat_map(worker_runs) {
            let under_way = run.atom.as_ref().and_then(|atom| self.under_way.get_mut(atom));
            if let Some(under_way) = under_way {
                under_way.agent = Some(run.agent.clone());
            }
        }
        for change in changes {
            if let Change::FailureNoted { atom, .. } | Change::ChoiceFailed { choice: atom, .. } = change {
                self.ended(state, graph, atom, at, AttemptEnd::Failed);
            }
        }
        for change in changes {
            if let Change::AtomStarted { atom, .. } = change {
                self.under_way.insert(atom.clone(), Underway { since: at, agent: None });
            } else if let Change::AtomResolved { atom, .. } = change {
                self.ended(state, graph, atom, at, AttemptEnd::Resolved);
            } else if let Change::AtomReset { atom }
            | Change::AtomReturned { atom, .. }
            | Change::AtomNotStarted { atom, .. }
            | Change::ResultNotBelieved { atom, .. } = change
            {
                self.under_way.remove(atom);
            } else if let Change::LoopNamed { .. } = change {
                // Of the loop before, the state knows nothing.
                *self = Stopwatch::default();
            } else if let Change::Parked { .. } | Change::LoopStarted | Change::RedirectRequested = change {
                // Waiting for a limit is no work, and neither is the time without a process.
                self.under_way.clear();
            }
        }
    }

    /// When each attempt that is under way began.
    pub fn under_way(&self) -> impl Iterator<Item = (&AtomId, Timestamp)> {
        self.under_way.iter().map(|(atom, under_way)| (atom, under_way.since))
    }

    fn ended(&mut self, state: &State, graph: &Graph, atom: &AtomId, at: Timestamp, ended: AttemptEnd) {
        let Some(Underway { since, agent }) = self.under_way.remove(atom) else { return };
        let Some((index, _, atom)) = state.atoms.get_full(atom) else { return };
        let kind = kind_of(atom, graph.is_decomposed(index));
        let seconds = at.duration_since(since).as_secs_f64();
        self.add(AttemptTime { work: work_of(atom, kind), kind, agent, seconds, ended });
    }

    /// An evaluation of the base case is over.
    pub fn evaluated(&mut self, state: &State, seconds: f64) {
        let work = work_of_base_case(state);
        let (kind, ended) = (WorkKind::BaseCase, AttemptEnd::Resolved);
        self.add(AttemptTime { work, kind, agent: None, seconds, ended });
    }

    fn add(&mut self, time: AttemptTime) {
        if time.is_sane() {
            self.over.push(time);
        }
    }
}

fn worker_runs(change: &Change) -> impl Iterator<Item = &AgentRun> {
    let runs = if let Change::SpentSoFar { runs, .. } = change { runs.as_slice() } else { &[] };
    runs.iter().filter(|run| run.role == "worker")
}

/// The times that are worth keeping: the newest of each kind, in their order.
pub fn newest(mut times: Vec<AttemptTime>) -> Vec<AttemptTime> {
    let mut kept: HashMap<WorkKind, usize> = HashMap::new();
    times.reverse();
    times.retain(|time| {
        let kept = kept.entry(time.kind).or_default();
        *kept += 1;
        *kept <= KEPT_OF_A_KIND
    });
    times.reverse();
    times
}

/// What is learnt of attempts.
#[derive(Clone, Debug, Default)]
pub struct Durations {
    times: usize,
    by_work: HashMap<u64, usize>,
    by_agent: HashMap<(WorkKind, String), usize>,
    by_kind: HashMap<WorkKind, usize>,
    any: Option<usize>,
    pools: Vec<Pool>,
    /// The agent of atoms that name none.
    worker: Option<String>,
}

/// Times that are taken together.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// Of each attempt: its seconds, and how it ended. The shortest first.
    pub attempts: Vec<(f64, AttemptEnd)>,
    /// Until it succeeds.
    expected: f64,
}

/// How near an atom is to what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    SameWork,
    SameKind,
    Other,
}

impl Durations {
    /// The agent is that of atoms that name none.
    pub fn of(times: &[AttemptTime], worker: Option<&str>) -> Durations {
        let worker = worker.map(str::to_owned);
        let mut durations = Durations { times: times.len(), worker, ..Durations::default() };
        for time in times {
            durations.add(time);
        }
        for pool in &mut durations.pools {
            pool.close();
        }
        durations.by_agent.retain(|_, pool| durations.pools[*pool].attempts.len() >= ENOUGH);
        durations
    }

    fn add(&mut self, time: &AttemptTime) {
        let pools = &mut self.pools;
        let mut fresh = || {
            pools.push(Pool::default());
            pools.len() - 1
        };
        let mut found = vec![
            *self.by_work.entry(time.work).or_insert_with(&mut fresh),
            *self.by_kind.entry(time.kind).or_insert_with(&mut fresh),
        ];
        if let Some(agent) = &time.agent {
            found.push(*self.by_agent.entry((time.kind, agent.clone())).or_insert_with(&mut fresh));
        }
        // Evaluations say nothing of atoms.
        if time.kind != WorkKind::BaseCase {
            found.push(*self.any.get_or_insert_with(&mut fresh));
        }
        for pool in found {
            pools[pool].attempts.push((time.seconds, time.ended));
        }
    }

    /// Whether nothing is known of any atom.
    pub fn is_empty(&self) -> bool {
        self.any.is_none()
    }

    /// How many times are known.
    pub fn len(&self) -> usize {
        self.times
    }

    pub fn pool(&self, pool: usize) -> &Pool {
        &self.pools[pool]
    }

    pub fn pools(&self) -> usize {
        self.pools.len()
    }

    /// The times that an atom is like.
    pub fn like(&self, atom: &Atom, is_parent: bool) -> Option<(usize, Likeness)> {
        let kind = kind_of(atom, is_parent);
        if let Some(pool) = self.by_work.get(&work_of(atom, kind)) {
            return Some((*pool, Likeness::SameWork));
        }
        let agent = atom.agent.as_ref().or(self.worker.as_ref());
        let of_agent = agent.and_then(|agent| self.by_agent.get(&(kind, agent.clone())));
        if let Some(pool) = of_agent.or_else(|| self.by_kind.get(&kind)) {
            return Some((*pool, Likeness::SameKind));
        }
        self.any.map(|pool| (pool, Likeness::Other))
    }

    /// The same for the base case.
    pub fn like_base_case(&self, state: &State) -> Option<usize> {
        self.by_work.get(&work_of_base_case(state)).or_else(|| self.by_kind.get(&WorkKind::BaseCase)).copied()
    }

    /// What each atom of a state is expected to take. A parent is not executed.
    pub fn weights(&self, state: &State) -> Weights {
        if self.is_empty() {
            return Weights::default();
        }
        let expected =
            |atom: &Arc<Atom>| self.like(atom, false).map_or(1.0, |(pool, _)| self.pools[pool].expected);
        Weights::of_seconds(state.atoms.values().map(expected))
    }
}

impl Pool {
    fn close(&mut self) {
        self.attempts.sort_by(|a, b| a.0.total_cmp(&b.0));
        let resolved: Vec<f64> =
            self.attempts.iter().filter(|a| a.1 == AttemptEnd::Resolved).map(|a| a.0).collect();
        let median = |sorted: &[f64]| sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
        self.expected = match resolved.len() {
            0 => median(&self.attempts.iter().map(|attempt| attempt.0).collect::<Vec<_>>()) * MOST_ATTEMPTS,
            count => median(&resolved) * (self.attempts.len() as f64 / count as f64).min(MOST_ATTEMPTS),
        };
    }
}

fn kind_of(atom: &Atom, is_parent: bool) -> WorkKind {
    match (is_parent, &atom.run, &atom.check) {
        (true, _, _) => WorkKind::Check,
        (false, Some(_), _) => WorkKind::Command,
        (false, None, Some(_)) => WorkKind::CheckedWork,
        (false, None, None) => WorkKind::Work,
    }
}

/// A command is the same work whatever it is called, and a check whatever it is the check of.
fn work_of(atom: &Atom, kind: WorkKind) -> u64 {
    let mut hash = Fnv::default();
    match (&atom.run, kind) {
        (Some(run), WorkKind::Command) => hash.text("run", run),
        _ => hash.text("do", &atom.description),
    }
    if let Some(checks) = &atom.check {
        hash.checks(checks);
    }
    hash.0
}

fn work_of_base_case(state: &State) -> u64 {
    let mut hash = Fnv::default();
    hash.text("base case", "");
    if let Some(checks) = &state.objective.base_case {
        hash.checks(checks);
    }
    hash.0
}

/// FNV-1a: the same on every machine and in every version.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn text(&mut self, what: &str, text: &str) {
        for part in [what, text] {
            self.bytes(part.as_bytes());
            self.bytes(&[0]);
        }
    }

    fn checks(&mut self, checks: &Checks) {
        // What cannot be written down is taken for no check.
        self.bytes(&serde_json::to_vec(checks).unwrap_or_default());
    }
}

/// A number that is the same for the same text.
pub(super) fn seed(text: &str) -> u64 {
    let mut hash = Fnv::default();
    hash.text("seed", text);
    hash.0
}
