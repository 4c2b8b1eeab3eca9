//! How long the rest of a loop may take: what is left is played through many times, each atom with times that were drawn from
//! those of its like. An estimate with its spread beside the bound; no rule depends on it.
//!
//! What is not in it: another plan, other choices, a wait for a limit or a person.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use serde::{Deserialize, Serialize};

use super::durations::{AttemptEnd, Durations, Likeness, Pool, seed};
use super::overlap::conflict;
use crate::state::{AtomId, AtomStatus, Graph, IsolationMode, RemainingWork, State};

/// Loops with more left to do have no estimate: it would take too long to make.
pub const MOST_ATOMS: usize = 10_000;

/// So many atoms are played in all, whatever the size of the loop.
const PLAYED: usize = 60_000;
const FEWEST_ROUNDS: usize = 11;
const MOST_ROUNDS: usize = 101;

/// An atom is tried at most so often in one round.
const TRIES: usize = 5;

/// So many that are in the way of what runs are passed over when a slot is filled.
const PASSED_OVER: usize = 8;

/// What one time alone says of the next: two thirds of them lie between the half and the double of it, nearly. Of more times,
/// the error of their middle shrinks with the root of their number.
const ERROR_OF_ONE: f64 = 0.6;

/// In whole seconds from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// As likely to take longer as to take less.
    pub seconds: u64,
    /// In one of ten cases it takes less than this, and in one of ten more than `high`.
    pub low: u64,
    pub high: u64,
    pub rests_on: EstimateBasis,
}

/// What an estimate rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EstimateBasis {
    /// Attempts whose times are known.
    pub attempts: usize,
    /// Of the atoms that are left: those that were done before, in this loop or in an earlier one.
    pub same_work: usize,
    /// Those of which others of their kind were.
    pub same_kind: usize,
    /// Those of which nothing but other work is known.
    pub other: usize,
}

/// With the seconds that what runs has taken so far. Nothing where nothing is learnt, or nothing is left.
pub fn estimate(state: &State, durations: &Durations, elapsed: &HashMap<AtomId, f64>) -> Option<Estimate> {
    if durations.is_empty() {
        return None;
    }
    let graph = Graph::new(state);
    let work = graph.remaining_work(state);
    if work.atoms.is_empty() || work.atoms.len() > MOST_ATOMS {
        return None;
    }
    let mut basis = EstimateBasis { attempts: durations.len(), ..EstimateBasis::default() };
    let mut pools = vec![None; state.atoms.len()];
    for atom in &work.atoms {
        let (pool, likeness) = durations.like(&state.atoms[*atom], graph.is_decomposed(*atom))?;
        *match likeness {
            Likeness::SameWork => &mut basis.same_work,
            Likeness::SameKind => &mut basis.same_kind,
            Likeness::Other => &mut basis.other,
        } += 1;
        pools[*atom] = Some(pool);
    }
    let isolation = state.objective.isolation.as_ref();
    let parallel = match isolation.and_then(|isolation| isolation.mode) {
        Some(IsolationMode::InPlace) => 1,
        Some(IsolationMode::Worktree | IsolationMode::None) | None => {
            state.constraints().max_parallel_agents.max(1) as usize
        }
    };
    let rounds = (PLAYED / work.atoms.len()).clamp(FEWEST_ROUNDS, MOST_ROUNDS);
    let player = Player {
        state,
        durations,
        ranks: graph.remaining_times(state, &durations.weights(state)),
        work,
        pools,
        base_case: durations.like_base_case(state),
        parallel,
        elapsed,
    };
    let mut chance = Chance(seed(state.control.loop_id.as_deref().unwrap_or_default()));
    let mut took: Vec<u64> = (0..rounds).map(|_| player.play(&mut chance).round() as u64).collect();
    took.sort_unstable();
    let at = |share: f64| took[(share * (rounds - 1) as f64).round() as usize];
    Some(Estimate { seconds: at(0.5), low: at(0.1), high: at(0.9), rests_on: basis })
}

/// Plays what is left through, in virtual time.
struct Player<'p> {
    state: &'p State,
    durations: &'p Durations,
    work: RemainingWork,
    ranks: Vec<u32>,
    /// The times that each atom to be executed is like.
    pools: Vec<Option<usize>>,
    base_case: Option<usize>,
    parallel: usize,
    elapsed: &'p HashMap<AtomId, f64>,
}

/// One round.
struct Round {
    waiting: Vec<u32>,
    /// The longest remaining path first, then in the order of the file.
    ready: BTreeSet<(Reverse<u32>, usize)>,
    /// Ends in microseconds.
    running: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Player<'_> {
    fn play(&self, chance: &mut Chance) -> f64 {
        // What is wrong with the times of a kind is wrong for all atoms of the kind.
        let errors: Vec<f64> = (0..self.durations.pools())
            .map(|pool| {
                let known = self.durations.pool(pool).attempts.len().max(1) as f64;
                (chance.normal() * ERROR_OF_ONE / known.sqrt()).exp()
            })
            .collect();
        let mut round =
            Round { waiting: self.work.waiting.clone(), ready: BTreeSet::new(), running: BinaryHeap::new() };
        let mut now = 0;
        for node in (0..round.waiting.len()).filter(|node| self.work.waiting[*node] == 0) {
            self.free(&mut round, node);
        }
        for atom in &self.work.atoms {
            if self.state.atoms[*atom].status == AtomStatus::InProgress
                && round.ready.remove(&self.place(*atom))
            {
                let passed = self.elapsed.get(&self.state.atoms[*atom].id).copied().unwrap_or(0.0);
                self.start(&mut round, *atom, now, passed, &errors, chance);
            }
        }
        loop {
            while round.running.len() < self.parallel
                && let Some(atom) = self.next(&round)
            {
                round.ready.remove(&self.place(atom));
                self.start(&mut round, atom, now, 0.0, &errors, chance);
            }
            let Some(Reverse((end, atom))) = round.running.pop() else { break };
            now = end;
            self.finish(&mut round, atom);
        }
        let evaluation =
            self.base_case.map_or(0.0, |pool| draw(self.durations.pool(pool), 0.0, chance) * errors[pool]);
        now as f64 / 1e6 + evaluation
    }

    fn place(&self, atom: usize) -> (Reverse<u32>, usize) {
        (Reverse(self.ranks[atom]), atom)
    }

    /// The first that is in no one's way, of those that are looked at.
    fn next(&self, round: &Round) -> Option<usize> {
        let atoms = &self.state.atoms;
        let is_free = |atom: &usize| {
            !round.running.iter().any(|Reverse((_, other))| conflict(&atoms[*atom], &atoms[*other]))
        };
        round.ready.iter().map(|(_, atom)| *atom).take(PASSED_OVER).find(is_free)
    }

    fn start(
        &self,
        round: &mut Round,
        atom: usize,
        now: u64,
        passed: f64,
        errors: &[f64],
        chance: &mut Chance,
    ) {
        let pool = self.pools[atom].expect("what is executed has times");
        let seconds = draw(self.durations.pool(pool), passed / errors[pool], chance) * errors[pool];
        round.running.push(Reverse((now + (seconds * 1e6) as u64, atom)));
    }

    /// All that waits for a node no longer waits for it.
    fn finish(&self, round: &mut Round, node: usize) {
        let mut through = vec![node];
        while let Some(node) = through.pop() {
            for follower in &self.work.followers[node] {
                round.waiting[*follower] -= 1;
                if round.waiting[*follower] == 0 && !self.takes_time(round, *follower) {
                    through.push(*follower);
                }
            }
        }
    }

    /// A node that waited for nothing from the beginning.
    fn free(&self, round: &mut Round, node: usize) {
        if !self.takes_time(round, node) {
            self.finish(round, node);
        }
    }

    /// Whether it is executed, and so stands among the ready ones from now on.
    fn takes_time(&self, round: &mut Round, node: usize) -> bool {
        let is_executed = self.pools.get(node).is_some_and(Option::is_some);
        if is_executed {
            round.ready.insert(self.place(node));
        }
        is_executed
    }
}

/// Until it succeeds, in seconds from now on, for one that has run so long already.
fn draw(pool: &Pool, passed: f64, chance: &mut Chance) -> f64 {
    let longer = pool.attempts.partition_point(|(seconds, _)| *seconds <= passed);
    let mut total = 0.0;
    let mut candidates = &pool.attempts[if passed > 0.0 { longer } else { 0 }..];
    if candidates.is_empty() {
        // It runs longer than any before, and nobody knows for how long.
        return passed / 2.0;
    }
    let mut done = passed;
    for _ in 0..TRIES {
        let (seconds, ended) = candidates[chance.below(candidates.len())];
        total += (seconds - done).max(0.0);
        if ended == AttemptEnd::Resolved {
            break;
        }
        (candidates, done) = (&pool.attempts, 0.0);
    }
    total
}

/// Numbers that look random and are the same for the same loop (SplitMix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// A sum of twelve is near enough to a normal number.
    fn normal(&mut self) -> f64 {
        let unit = |number: u64| (number >> 11) as f64 / (1_u64 << 53) as f64;
        (0..12).map(|_| unit(self.next())).sum::<f64>() - 6.0
    }
}
