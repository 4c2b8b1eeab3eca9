//! Many lives, counted: how many events, which halts, which broke a rule. Knows nothing of what happens in them.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use aot_core::coordinator::Dispatch;
use aot_core::rules::certificate::StopKind;

use crate::audit::Violation;
use crate::life::{FailedLife, Past, Summary, live};

/// So many failed lives are kept; more would say nothing new.
const KEPT: usize = 20;

#[derive(Debug, Default)]
pub struct Tally {
    pub lives: u64,
    /// Those among them that went through the host's door.
    pub hosted: u64,
    pub refusals: u64,
    pub events: u64,
    pub agent_runs: u64,
    pub iterations: u64,
    pub crashes: u64,
    pub orders: u64,
    pub halts: BTreeMap<&'static str, u64>,
    pub failed: Vec<FailedLife>,
    pub failed_rules: BTreeMap<String, (u64, u64)>,
}

/// Lives the lives of these seeds, on all cores.
pub fn lives(seeds: Range<u64>) -> Tally {
    lives_knowing(seeds, Past::Unknown)
}

pub fn lives_knowing(seeds: Range<u64>, past: Past) -> Tally {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = |core: u64| seeds.clone().skip(core as usize).step_by(cores as usize);
    let mut whole = Tally::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..cores).map(|core| scope.spawn(move || Tally::of(share(core), past))).collect();
        for thread in threads {
            whole.add(thread.join().expect("a panic is caught where it happens"));
        }
    });
    whole.failed.sort_by_key(|failed| failed.trace.len());
    whole
}

impl Tally {
    fn of(seeds: impl Iterator<Item = u64>, past: Past) -> Tally {
        let mut tally = Tally::default();
        for seed in seeds {
            tally.lives += 1;
            match catch_unwind(AssertUnwindSafe(|| live(seed, past))) {
                Ok(Ok(summary)) => tally.count(&summary),
                Ok(Err(failed)) => tally.fail(*failed),
                Err(_) => tally.fail(FailedLife {
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
        self.hosted += u64::from(summary.dispatch == Dispatch::OnRequest);
        self.refusals += summary.refusals;
        for verdict in &summary.verdicts {
            *self.halts.entry(verdict_name(verdict)).or_default() += 1;
        }
    }

    fn fail(&mut self, failed: FailedLife) {
        let (count, _) =
            self.failed_rules.entry(failed.violation.rule.to_owned()).or_insert((0, failed.seed));
        *count += 1;
        if self.failed.len() < KEPT {
            self.failed.push(failed);
        }
    }

    fn add(&mut self, other: Tally) {
        self.lives += other.lives;
        self.hosted += other.hosted;
        self.refusals += other.refusals;
        self.events += other.events;
        self.agent_runs += other.agent_runs;
        self.iterations += other.iterations;
        self.crashes += other.crashes;
        self.orders += other.orders;
        for (word, count) in other.halts {
            *self.halts.entry(word).or_default() += count;
        }
        for (rule, (count, seed)) in other.failed_rules {
            self.failed_rules.entry(rule).or_insert((0, seed)).0 += count;
        }
        self.failed.extend(other.failed);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} lives (run {}, host {}), {} events, {} iterations, {} agent runs, {} crashes, {} orders by probes, {} \
             refused starts",
            self.lives,
            self.lives - self.hosted,
            self.hosted,
            self.events,
            self.iterations,
            self.agent_runs,
            self.crashes,
            self.orders,
            self.refusals
        )?;
        for (word, count) in &self.halts {
            writeln!(f, "  {count:>8} {word}")?;
        }
        for (rule, (count, seed)) in &self.failed_rules {
            writeln!(f, "  FAILED {count:>8} {rule} (seed {seed})")?;
        }
        Ok(())
    }
}

/// A verdict's kind.
pub fn verdict_name(verdict: &StopKind) -> &'static str {
    match verdict {
        StopKind::Completed => "completed",
        StopKind::StoppedByHand => "stopped by hand",
        StopKind::RedirectInterrupted => "redirect interrupted",
        StopKind::Tampered => "tampered",
        StopKind::Exhausted { .. } => "exhausted",
        StopKind::Stalled => "stalled",
        StopKind::IterationLimit => "iteration limit",
        StopKind::Budget { .. } => "budget",
        StopKind::Deadlock { .. } => "deadlock",
        StopKind::NeedsPerson => "needs a person",
        StopKind::NoAgent { .. } => "no agent",
    }
}
