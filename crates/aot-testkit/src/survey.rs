//! The model checker over all graphs up to a size, in every setting, on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};

use aot_core::coordinator::Seat;

use crate::model::{Counterexample, Counts, Outside, Setting, check};
use crate::shapes::{self, ParentChecks, Shape};

/// How a graph is run: one agent and two, with a coordinator agent and without, few iterations, and everything that
/// can strike from outside.
pub fn settings() -> Vec<Setting> {
    let outside = Outside { crashes: 1, redirects: 1, stops: 0, conflicts: 0 };
    let stops = Outside { crashes: 0, redirects: 0, stops: 1, conflicts: 1 };
    let setting = |parallel, iterations, coordinator, checks, outside| Setting {
        parallel,
        iterations,
        stalls: 2,
        coordinator,
        checks,
        outside,
    };
    vec![
        setting(2, 2, Seat::Empty, ParentChecks::All, outside),
        setting(1, 3, Seat::Taken, ParentChecks::None, outside),
        setting(2, 3, Seat::Taken, ParentChecks::None, stops),
        setting(1, 3, Seat::Empty, ParentChecks::All, stops),
    ]
}

/// Checks every graph of up to `size` atoms in every setting. Stops at the first counterexample.
pub fn survey(size: usize, settings: &[Setting]) -> Result<Vec<(Setting, Counts)>, Box<Counterexample>> {
    let shapes: Vec<Shape> = (1..=size).flat_map(shapes::all).collect();
    settings.iter().map(|setting| Ok((*setting, over(&shapes, *setting)?))).collect()
}

fn over(shapes: &[Shape], setting: Setting) -> Result<Counts, Box<Counterexample>> {
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || -> Result<Counts, Box<Counterexample>> {
        let mut counts = Counts::default();
        // The largest first, so that no core is left with one at the end.
        while let Some(shape) = shapes.iter().rev().nth(next.fetch_add(1, Ordering::Relaxed)) {
            counts.add(check(shape, setting)?);
        }
        Ok(counts)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let mut whole = Counts::default();
        for thread in threads {
            whole.add(thread.join().expect("a rule that does not hold is an answer, not a panic")?);
        }
        Ok(whole)
    })
}
