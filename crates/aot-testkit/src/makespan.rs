//! How long a loop takes: graphs of several families with durations that nobody knows beforehand, run in virtual time
//! through the shipping coordinator, through a list scheduler in file order, and in waves with a barrier. No failures:
//! this measures the order of starts and nothing else.
//!
//! What the coordinator has learnt comes from the shipping stopwatch and is never exact. *The same work*: a past run of the
//! same atoms, in which each took a time of its own, two thirds of them between 0.6 and 1.65 times the one of now. *The same
//! kind*: a past run of other atoms, of which only the agent is known; three agents have the small, the middling and the
//! large tasks, but whoever gave them out misjudged each as much as that. Within one agent the times differ by far more.

use std::fmt;

use aot_core::coordinator::{
    Agents, CheckOutcome, Dispatch, Effect, Evaluation, Event, JobOutcome, OnRefusedStart, Presence,
    RedirectLock, Settings, Trees, Usage,
};
use aot_core::rules::durations::Durations;
use aot_core::state::{Atom, AtomId, Span, State};
use jiff::Timestamp;

use crate::audit::Violation;
use crate::behaviour::unresolved;
use crate::past::{self, PastAttempt};
use crate::plans;
use crate::random::Random;
use crate::simulation::{Crash, Simulation, Tracing};

pub const PARALLEL: [u32; 4] = [2, 3, 4, 8];
const PARETO: f64 = 1.5;
/// Durations are whole milliseconds, and the shortest has so many.
const SHORTEST: f64 = 1_000.0;
/// How much another run of the same work differs: the standard deviation of the logarithm.
const MISJUDGED: f64 = 0.5;
/// The agents that tasks are given to by their size.
const AGENTS: [&str; 3] = ["small", "middle", "large"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Layered,
    ForkJoin,
    SeriesParallel,
    RandomSparse,
    RandomDense,
    Chains,
    OutTree,
    InTree,
}

pub const FAMILIES: [Family; 8] = [
    Family::Layered,
    Family::ForkJoin,
    Family::SeriesParallel,
    Family::RandomSparse,
    Family::RandomDense,
    Family::Chains,
    Family::OutTree,
    Family::InTree,
];

impl Family {
    pub fn name(self) -> &'static str {
        match self {
            Family::Layered => "layered",
            Family::ForkJoin => "fork-join",
            Family::SeriesParallel => "series-parallel",
            Family::RandomSparse => "random sparse",
            Family::RandomDense => "random dense",
            Family::Chains => "chains",
            Family::OutTree => "out-tree",
            Family::InTree => "in-tree",
        }
    }
}

/// A graph without choices, in the order of the file: what each atom needs, how long it takes, and who does it.
#[derive(Clone, Debug)]
pub struct Task {
    pub needs: Vec<Vec<usize>>,
    pub lasts: Vec<u64>,
    agents: Vec<&'static str>,
    /// How long each took in a past run.
    lasted: Vec<u64>,
}

/// What the coordinator knows beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    Nothing,
    /// Of a past run of the same work.
    SameWork,
    /// Of a past run of other work of the same agents.
    SameKind,
}

impl Task {
    /// Twenty to sixty atoms of a family. The file's order is a random one in which nothing comes before what it
    /// needs: people write plans from the front to the back, but not by the length of paths.
    pub fn draw(family: Family, random: &mut Random) -> Task {
        let count = random.between(20, 60) as usize;
        let needs = shape(family, count, random);
        let needs = shuffled(&needs, random);
        let lasts = draw_times(count, random);
        let agents = by_size(&lasts, random);
        let lasted = lasts.iter().map(|lasts| misjudged(*lasts, random)).collect();
        Task { needs, lasts, agents, lasted }
    }

    /// What the shipping stopwatch learns of a past run.
    pub fn learnt(&self, knowledge: Knowledge) -> Durations {
        let (state, lasted, agents) = match knowledge {
            Knowledge::Nothing => return Durations::default(),
            Knowledge::SameWork => (self.state(1), self.lasted.clone(), self.agents.clone()),
            Knowledge::SameKind => {
                // The random numbers of another run follow from this one, so that a seed still decides all.
                let mut random = Random::new(self.lasts.iter().sum());
                let lasted = draw_times(self.lasts.len(), &mut random);
                let agents = by_size(&lasted, &mut random);
                let mut state = self.state(1);
                for atom in state.atoms_mut() {
                    atom.description.push_str(" in another loop");
                }
                (state, lasted, agents)
            }
        };
        let attempts = state.atoms.keys().zip(lasted.iter().zip(&agents));
        let past: Vec<PastAttempt<'_>> = attempts
            .map(|(atom, (took, agent))| PastAttempt { atom, agent, took: *took, failed: false })
            .collect();
        past::run(&state, &past)
    }

    pub fn critical_path(&self) -> u64 {
        let mut ends = vec![0; self.lasts.len()];
        for atom in 0..self.lasts.len() {
            let begins = self.needs[atom].iter().map(|need| ends[*need]).max().unwrap_or(0);
            ends[atom] = begins + self.lasts[atom];
        }
        ends.into_iter().max().unwrap_or(0)
    }

    /// Nobody can be faster with `m` at work.
    pub fn lower_bound(&self, m: u32) -> f64 {
        let work = self.lasts.iter().sum::<u64>() as f64 / f64::from(m);
        work.max(self.critical_path() as f64)
    }

    /// How many atoms each has on its longest way to the end, itself included.
    fn path_lengths(&self) -> Vec<u32> {
        let mut lengths = vec![1; self.lasts.len()];
        for atom in (0..self.lasts.len()).rev() {
            for need in &self.needs[atom] {
                lengths[*need] = lengths[*need].max(lengths[atom] + 1);
            }
        }
        lengths
    }

    /// Whoever is free takes the first atom of the file that is ready.
    pub fn in_file_order(&self, m: u32) -> u64 {
        self.list_schedule(m, |atom| atom)
    }

    /// Whoever is free takes the atom with the longest remaining path: what the coordinator should do.
    pub fn by_longest_path(&self, m: u32) -> u64 {
        let lengths = self.path_lengths();
        self.list_schedule(m, |atom| (std::cmp::Reverse(lengths[atom]), atom))
    }

    fn list_schedule<K: Ord>(&self, m: u32, rank: impl Fn(usize) -> K) -> u64 {
        let count = self.lasts.len();
        let mut ends: Vec<Option<u64>> = vec![None; count];
        let mut running: Vec<(u64, usize)> = Vec::new();
        let mut now = 0;
        loop {
            let over = |ends: &[Option<u64>], atom: usize| ends[atom].is_some_and(|end| end <= now);
            let mut ready: Vec<usize> = (0..count)
                .filter(|atom| {
                    ends[*atom].is_none() && self.needs[*atom].iter().all(|need| over(&ends, *need))
                })
                .collect();
            ready.sort_by_key(|atom| rank(*atom));
            for atom in ready.into_iter().take(m as usize - running.len()) {
                ends[atom] = Some(now + self.lasts[atom]);
                running.push((now + self.lasts[atom], atom));
            }
            let Some(next) = running.iter().map(|(end, _)| *end).min() else { return now };
            now = next;
            running.retain(|(end, _)| *end > now);
        }
    }

    /// Up to `m` ready atoms at once, the longest remaining path first, and all wait for the slowest.
    pub fn in_waves(&self, m: u32) -> u64 {
        let lengths = self.path_lengths();
        let count = self.lasts.len();
        let mut done = vec![false; count];
        let mut now = 0;
        while done.contains(&false) {
            let mut ready: Vec<usize> = (0..count)
                .filter(|atom| !done[*atom] && self.needs[*atom].iter().all(|need| done[*need]))
                .collect();
            ready.sort_by_key(|atom| (std::cmp::Reverse(lengths[*atom]), *atom));
            ready.truncate(m as usize);
            now += ready.iter().map(|atom| self.lasts[*atom]).max().unwrap_or(0);
            ready.iter().for_each(|atom| done[*atom] = true);
        }
        now
    }

    pub fn state(&self, m: u32) -> State {
        let mut constraints = plans::limits(m, self.lasts.len() as u32 + 1, 3);
        constraints.max_wall_time = Some(Span::from_seconds(1 << 30));
        let mut state = plans::blank(constraints);
        let id = |atom: usize| AtomId::new(format!("A{}", atom + 1));
        for (atom, needs) in self.needs.iter().enumerate() {
            let mut made = Atom::new(id(atom), format!("do {}", atom + 1));
            made.agent = Some(self.agents[atom].to_owned());
            made.depends_on = needs.iter().map(|need| id(*need)).collect();
            state.add(made);
        }
        state
    }

    /// The same graph through the coordinator, in virtual time. Landings and evaluations take no time.
    pub fn by_coordinator(&self, m: u32, knowledge: Knowledge) -> Result<u64, Violation> {
        let agents = Agents {
            worker: Presence::Available,
            probe: Presence::Available,
            coordinator: Presence::Available,
        };
        let settings = Settings {
            agents,
            dispatch: Dispatch::Rolling,
            trees: Trees::Separate,
            on_refused_start: OnRefusedStart::Park,
        };
        let mut simulation = Simulation::new(self.state(m), settings, Timestamp::UNIX_EPOCH, Tracing::Off);
        simulation.expect(self.learnt(knowledge));
        let mut now = 0;
        let mut running: Vec<(u64, aot_core::coordinator::JobId)> = Vec::new();
        let mut effects = simulation.begin(RedirectLock::Free, Crash::Never)?;
        let usage = Usage::default();
        loop {
            let mut next = None;
            for effect in &effects {
                match effect {
                    Effect::Start(job) => {
                        let atom = job.id.task.atom().expect("nothing is replanned without a failure");
                        let index =
                            simulation.world.recorded().atoms.get_index_of(atom).expect("it is started");
                        running.push((now + self.lasts[index], job.id.clone()));
                    }
                    Effect::Land(id) => {
                        let binding = simulation.world.commit(id);
                        next = Some(Event::Landed { job: id.clone(), binding, usage });
                    }
                    Effect::Verify { number } => {
                        let evaluation = if unresolved(simulation.world.recorded()) == 0 {
                            Evaluation::Passed
                        } else {
                            Evaluation::Failed { red: Vec::new() }
                        };
                        next = Some(Event::Verified { number: *number, evaluation, usage });
                    }
                    Effect::Halt(_) => return Ok(now),
                    Effect::Record(_)
                    | Effect::Kill(_)
                    | Effect::Revert { .. }
                    | Effect::WakeAt(_)
                    | Effect::Refuse(_) => {}
                }
            }
            let event = match next {
                Some(event) => event,
                None => {
                    let first = (0..running.len()).min_by_key(|at| running[*at].0);
                    let first = first.ok_or_else(|| {
                        Violation::new("a loop without failures completes", "D7", "nothing runs")
                    })?;
                    let (end, job) = running.swap_remove(first);
                    now = end;
                    simulation.world.now = Timestamp::from_millisecond(now as i64).expect("a short life");
                    let outcome = JobOutcome::Done {
                        summary: "done".into(),
                        artifacts: Vec::new(),
                        check: CheckOutcome::None,
                    };
                    Event::Ended { job, outcome, usage }
                }
            };
            effects = simulation.send(event, Crash::Never)?;
        }
    }
}

fn draw_times(count: usize, random: &mut Random) -> Vec<u64> {
    (0..count).map(|_| (SHORTEST * random.pareto(PARETO)) as u64).collect()
}

/// A time as another run had it, or as somebody guesses it.
fn misjudged(time: u64, random: &mut Random) -> u64 {
    // A sum of twelve is near enough to a normal number.
    let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
    (time as f64 * (normal * MISJUDGED).exp()) as u64
}

/// Who gets each task: a third of them goes to each agent.
fn by_size(times: &[u64], random: &mut Random) -> Vec<&'static str> {
    let guessed: Vec<u64> = times.iter().map(|time| misjudged(*time, random)).collect();
    let smaller = |guess: &u64| guessed.iter().filter(|other| *other < guess).count();
    guessed.iter().map(|guess| AGENTS[smaller(guess) * AGENTS.len() / times.len()]).collect()
}

/// Needs of each atom, all of them earlier ones.
fn shape(family: Family, count: usize, random: &mut Random) -> Vec<Vec<usize>> {
    let mut needs: Vec<Vec<usize>> = vec![Vec::new(); count];
    match family {
        Family::Layered => {
            let mut layer_begins = 0;
            let mut before = 0..0;
            while layer_begins < count {
                let end = (layer_begins + random.between(2, 9) as usize).min(count);
                for need in needs.iter_mut().take(end).skip(layer_begins) {
                    for earlier in before.clone() {
                        if random.percent(35) {
                            need.push(earlier);
                        }
                    }
                    if need.is_empty() && !before.is_empty() {
                        need.push(before.start + random.below(before.len()));
                    }
                }
                before = layer_begins..end;
                layer_begins = end;
            }
        }
        Family::ForkJoin => {
            let mut at = 0;
            let mut join: Option<usize> = None;
            while at < count {
                let end = (at + random.between(3, 10) as usize).min(count);
                let branches: Vec<usize> = (at..end).collect();
                branches.iter().for_each(|branch| needs[*branch].extend(join));
                if end < count {
                    needs[end] = branches;
                    join = Some(end);
                }
                at = end + 1;
            }
        }
        Family::SeriesParallel => series_parallel(&mut needs, 0, count, &[], random),
        Family::RandomSparse => random_edges(&mut needs, 150 / count as u64, random),
        Family::RandomDense => random_edges(&mut needs, 600 / count as u64, random),
        Family::Chains => {
            let chains = random.between(3, 9) as usize;
            let mut last: Vec<Option<usize>> = vec![None; chains];
            for (atom, need) in needs.iter_mut().enumerate() {
                // Chains of unequal length: the first are drawn more often.
                let chain = random.below(chains).min(random.below(chains));
                need.extend(last[chain]);
                last[chain] = Some(atom);
            }
        }
        Family::OutTree => {
            for (atom, need) in needs.iter_mut().enumerate().skip(1) {
                need.push(random.below(atom));
            }
        }
        Family::InTree => {
            for atom in 0..count - 1 {
                let later = atom + 1 + random.below(count - atom - 1);
                needs[later].push(atom);
            }
        }
    }
    needs
}

fn random_edges(needs: &mut [Vec<usize>], chance_of_edge: u64, random: &mut Random) {
    for (atom, need) in needs.iter_mut().enumerate() {
        need.extend((0..atom).filter(|_| random.percent(chance_of_edge)));
    }
}

/// Fills `from..to` with a piece that begins after `entries`: parts one after the other, or side by side.
fn series_parallel(needs: &mut [Vec<usize>], from: usize, to: usize, entries: &[usize], random: &mut Random) {
    let exits = |from: usize, to: usize, needs: &[Vec<usize>]| -> Vec<usize> {
        (from..to).filter(|atom| !needs[from..to].iter().any(|need| need.contains(atom))).collect()
    };
    if to - from <= 1 {
        for need in &mut needs[from..to] {
            need.extend(entries);
        }
        return;
    }
    let middle = from + 1 + random.below(to - from - 1);
    series_parallel(needs, from, middle, entries, random);
    if random.percent(45) {
        let ends = exits(from, middle, needs);
        series_parallel(needs, middle, to, &ends, random);
    } else {
        series_parallel(needs, middle, to, entries, random);
    }
}

/// The same graph in another order of the file, still from the front to the back.
fn shuffled(needs: &[Vec<usize>], random: &mut Random) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = Vec::new();
    let mut index = vec![usize::MAX; needs.len()];
    while order.len() < needs.len() {
        let free: Vec<usize> = (0..needs.len())
            .filter(|atom| {
                index[*atom] == usize::MAX && needs[*atom].iter().all(|need| index[*need] != usize::MAX)
            })
            .collect();
        let atom = *random.pick(&free);
        index[atom] = order.len();
        order.push(atom);
    }
    order.iter().map(|atom| needs[*atom].iter().map(|need| index[*need]).collect()).collect()
}

/// Sums over graphs of one family and one `m`.
#[derive(Clone, Debug, Default)]
pub struct MakespanRow {
    pub graphs: u32,
    /// Of the makespan to the lower bound.
    pub ratio: f64,
    pub worst: f64,
    /// The same with what was learnt of a past run of the same work.
    pub learnt: f64,
    pub worst_learnt: f64,
    pub file_order: f64,
    pub longest_path: f64,
    /// Of the waves' makespan to the coordinator's.
    pub speedup: f64,
}

impl MakespanRow {
    pub fn measure(&mut self, task: &Task, m: u32) -> Result<(), Violation> {
        let bound = task.lower_bound(m);
        let took = task.by_coordinator(m, Knowledge::Nothing)? as f64;
        let learnt = task.by_coordinator(m, Knowledge::SameWork)? as f64;
        self.graphs += 1;
        self.ratio += took / bound;
        self.worst = self.worst.max(took / bound);
        self.learnt += learnt / bound;
        self.worst_learnt = self.worst_learnt.max(learnt / bound);
        self.file_order += task.in_file_order(m) as f64 / bound;
        self.longest_path += task.by_longest_path(m) as f64 / bound;
        self.speedup += task.in_waves(m) as f64 / took;
        Ok(())
    }

    pub fn add(&mut self, other: &MakespanRow) {
        self.graphs += other.graphs;
        self.ratio += other.ratio;
        self.worst = self.worst.max(other.worst);
        self.learnt += other.learnt;
        self.worst_learnt = self.worst_learnt.max(other.worst_learnt);
        self.file_order += other.file_order;
        self.longest_path += other.longest_path;
        self.speedup += other.speedup;
    }

    pub fn mean(&self, sum: f64) -> f64 {
        sum / f64::from(self.graphs.max(1))
    }
}

impl fmt::Display for MakespanRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>6}  {:>7.4}  {:>7.4}  {:>7.4}  {:>7.4}  {:>10.4}  {:>12.4}  {:>7.3}",
            self.graphs,
            self.mean(self.ratio),
            self.worst,
            self.mean(self.learnt),
            self.worst_learnt,
            self.mean(self.file_order),
            self.mean(self.longest_path),
            self.mean(self.speedup)
        )
    }
}

/// All families and all `m` over so many graphs.
#[derive(Clone, Debug, Default)]
pub struct MakespanTable {
    pub rows: Vec<(Family, u32, MakespanRow)>,
}

impl MakespanTable {
    pub fn measure(graphs: u64, seed: u64) -> Result<MakespanTable, Violation> {
        let mut rows: Vec<(Family, u32, MakespanRow)> = FAMILIES
            .iter()
            .flat_map(|family| PARALLEL.iter().map(|m| (*family, *m, MakespanRow::default())))
            .collect();
        for number in 0..graphs {
            let family = FAMILIES[number as usize % FAMILIES.len()];
            let task = Task::draw(family, &mut Random::new(seed + number));
            for (_, m, row) in rows.iter_mut().filter(|(of, _, _)| *of == family) {
                row.measure(&task, *m)?;
            }
        }
        Ok(MakespanTable { rows })
    }

    pub fn whole(&self) -> MakespanRow {
        self.sum(|_, _| true)
    }

    pub fn sum(&self, wanted: impl Fn(Family, u32) -> bool) -> MakespanRow {
        let mut sum = MakespanRow::default();
        for (family, m, row) in &self.rows {
            if wanted(*family, *m) {
                sum.add(row);
            }
        }
        sum
    }
}

impl fmt::Display for MakespanTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "                     graphs    ratio    worst   learnt    worst  file order  path lengths  vs waves"
        )?;
        for family in FAMILIES {
            writeln!(f, "{:<19}{}", family.name(), self.sum(|of, _| of == family))?;
        }
        for parallel in PARALLEL {
            writeln!(f, "m = {parallel:<15}{}", self.sum(|_, m| m == parallel))?;
        }
        write!(f, "{:<19}{}", "all", self.whole())
    }
}
