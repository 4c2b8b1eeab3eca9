//! Faults: runs of the built program are killed, starved, frozen and meddled with, and afterwards every promise is checked
//! against a run that was left alone. A seed decides what is done to which loop; moments depend on the machine.

mod clock;
mod inject;
mod kinds;
mod loops;
mod round;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::random::Random;
pub use kinds::KINDS;
use loops::{LOOPS, LoopKind};
use round::Undisturbed;
pub use round::{Means, Round, means};

/// After so many faults it says how far it is.
const TOLD: usize = 500;

#[derive(Clone, Debug)]
pub struct FaultCampaign {
    /// The built program.
    pub aot: PathBuf,
    pub seed: u64,
    /// It ends when so many faults were injected, or this much time is used up.
    pub faults: usize,
    pub time: Duration,
    pub threads: usize,
}

/// What was injected, and what did not hold.
#[derive(Debug, Default)]
pub struct FaultTally {
    pub rounds: BTreeMap<&'static str, usize>,
    pub faults: BTreeMap<&'static str, usize>,
    pub broken: Vec<Round>,
    pub took: Duration,
}

impl FaultCampaign {
    pub fn run(&self) -> FaultTally {
        let means = means();
        let began = Instant::now();
        // What is compared with is made when it is needed first: a campaign that ends soon has no time for all of it.
        let normal: [OnceLock<Undisturbed>; LOOPS.len()] = Default::default();
        let tally = Mutex::new(FaultTally::default());
        let next = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| {
                    while began.elapsed() < self.time
                        && tally.lock().is_ok_and(|tally| tally.total() < self.faults)
                    {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let (kind, seed) = self.nth(number);
                        let normal = normal[kind].get_or_init(|| round::undisturbed(&self.aot, LOOPS[kind]));
                        let done = round::round(&self.aot, LOOPS[kind], seed, normal, means);
                        tally.lock().expect("no round panics").add(done);
                    }
                });
            }
        });
        let mut tally = tally.into_inner().expect("no round panics");
        tally.took = began.elapsed();
        tally
    }

    /// One round again, with what was seen of it.
    pub fn replay(&self, number: u64) -> Round {
        let (kind, seed) = self.nth(number);
        let normal = round::undisturbed(&self.aot, LOOPS[kind]);
        round::round(&self.aot, LOOPS[kind], seed, &normal, means())
    }

    fn nth(&self, number: u64) -> (usize, u64) {
        let mut random = Random::new(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (random.below(LOOPS.len()), random.next_u64())
    }
}

impl FaultTally {
    pub fn total(&self) -> usize {
        self.faults.values().sum()
    }

    fn add(&mut self, round: Round) {
        let before = self.total();
        *self.rounds.entry(LoopKind::name(round.kind)).or_default() += 1;
        for (name, count) in &round.faults {
            *self.faults.entry(name).or_default() += count;
        }
        if let Some((what, place)) = &round.broken {
            eprintln!(
                "BROKEN in {} after {:?}: {what}\n  look at {}",
                round.kind.name(),
                round.faults,
                place.display()
            );
            self.broken.push(round);
        }
        if before / TOLD < self.total() / TOLD {
            // A whole campaign takes hours.
            eprintln!("{} faults, {} broken promises", self.total(), self.broken.len());
        }
    }
}

impl fmt::Display for FaultTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (_, name, _) in KINDS {
            writeln!(f, "{:>6}  {name}", self.faults.get(name).copied().unwrap_or_default())?;
        }
        for (name, rounds) in &self.rounds {
            writeln!(f, "{rounds:>6}  rounds: {name}")?;
        }
        let rounds: usize = self.rounds.values().sum();
        let seconds = self.took.as_secs_f64();
        write!(
            f,
            "{} faults in {rounds} rounds, {} broken promises, {seconds:.0} s",
            self.total(),
            self.broken.len()
        )
    }
}
