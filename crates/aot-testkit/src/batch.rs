//! Many lives, counted: how many events, which halts, which were broken. Knows nothing of what happens in them.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use aot_core::rules::certificate::Verdict;

use crate::audit::Violation;
use crate::life::{FailedLife, Summary, live};

/// So many broken lives are kept; more would say nothing new.
const KEPT: usize = 20;

#[derive(Debug, Default)]
pub struct Tally {
    pub lives: u64,
    pub events: u64,
    pub agent_runs: u64,
    pub iterations: u64,
    pub crashes: u64,
    pub orders: u64,
    pub halts: BTreeMap<&'static str, u64>,
    pub broken: Vec<FailedLife>,
    pub broken_rules: BTreeMap<String, (u64, u64)>,
}

/// Lives the lives of these seeds, on all cores.
pub fn lives(seeds: Range<u64>) -> Tally {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = |core: u64| seeds.clone().skip(core as usize).step_by(cores as usize);
    let mut whole = Tally::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|core| scope.spawn(move || Tally::of(share(core)))).collect();
        for thread in threads {
            whole.add(thread.join().expect("a broken life is caught where it happens"));
        }
    });
    whole.broken.sort_by_key(|broken| broken.trace.len());
    whole
}

impl Tally {
    fn of(seeds: impl Iterator<Item = u64>) -> Tally {
        let mut tally = Tally::default();
        for seed in seeds {
            tally.lives += 1;
            match catch_unwind(AssertUnwindSafe(|| live(seed))) {
                Ok(Ok(summary)) => tally.count(&summary),
                Ok(Err(broken)) => tally.breaks(*broken),
                Err(_) => tally.breaks(FailedLife {
                    seed,
                    violation: Violation::new("the coordinator does not panic", "§4", "see above"),
                    trace: Vec::new(),
                }),
            }
        }
        tally
    }

    fn count(&mut self, summary: &Summary) {
        self.events += summary.events;
        self.agent_runs += summary.agent_runs;
        self.iterations += u64::from(summary.iterations);
        self.crashes += u64::from(summary.crashes);
        self.orders += summary.orders;
        for verdict in &summary.verdicts {
            *self.halts.entry(word(verdict)).or_default() += 1;
        }
    }

    fn breaks(&mut self, broken: FailedLife) {
        let (count, _) =
            self.broken_rules.entry(broken.violation.rule.to_owned()).or_insert((0, broken.seed));
        *count += 1;
        if self.broken.len() < KEPT {
            self.broken.push(broken);
        }
    }

    fn add(&mut self, other: Tally) {
        self.lives += other.lives;
        self.events += other.events;
        self.agent_runs += other.agent_runs;
        self.iterations += other.iterations;
        self.crashes += other.crashes;
        self.orders += other.orders;
        for (word, count) in other.halts {
            *self.halts.entry(word).or_default() += count;
        }
        for (rule, (count, seed)) in other.broken_rules {
            self.broken_rules.entry(rule).or_insert((0, seed)).0 += count;
        }
        self.broken.extend(other.broken);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} lives, {} events, {} iterations, {} agent runs, {} crashes, {} orders by probes",
            self.lives, self.events, self.iterations, self.agent_runs, self.crashes, self.orders
        )?;
        for (word, count) in &self.halts {
            writeln!(f, "  {count:>8} {word}")?;
        }
        for (rule, (count, seed)) in &self.broken_rules {
            writeln!(f, "  BROKEN {count:>8} {rule} (seed {seed})")?;
        }
        Ok(())
    }
}

/// A verdict's kind.
pub fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Completed => "completed",
        Verdict::StoppedByHand => "stopped by hand",
        Verdict::RedirectInterrupted => "redirect interrupted",
        Verdict::Tampered => "tampered",
        Verdict::Exhausted { .. } => "exhausted",
        Verdict::Stalled => "stalled",
        Verdict::IterationLimit => "iteration limit",
        Verdict::Budget { .. } => "budget",
        Verdict::Deadlock { .. } => "deadlock",
        Verdict::NeedsPerson => "needs a person",
        Verdict::NoAgent { .. } => "no agent",
    }
}
