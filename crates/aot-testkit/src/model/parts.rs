//! The model checker over all graphs up to a size, in every setting, on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};

use aot_core::coordinator::{Dispatch, Presence};

use super::{Counterexample, Counts, Disturbances, Setting, check};
use crate::shapes::{self, Groups, ParentChecks, Shape};

/// A setting, and the largest graphs that are run in it.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub name: &'static str,
    pub size: usize,
    pub setting: Setting,
}

/// How graphs of up to `size` atoms are run: with everything that can disturb them; one atom more with a
/// crash only; one atom less for many iterations.
pub fn parts(size: usize) -> Vec<Part> {
    let nothing =
        Disturbances { crashes: 0, redirects: 0, stops: 0, conflicts: 0, logouts: 0, refusals: 0, edits: 0 };
    let strikes = Disturbances { crashes: 1, redirects: 1, ..nothing };
    let stops = Disturbances { stops: 1, conflicts: 1, ..nothing };
    let ends = Disturbances { logouts: 1, ..stops };
    let crash = Disturbances { crashes: 1, ..nothing };
    let refusals = Disturbances { refusals: 2, ..nothing };
    let refusal = Disturbances { refusals: 1, ..strikes };
    let (none, all) = (ParentChecks::None, ParentChecks::All);
    let part = |name, size, parallel, iterations, stalls, coordinator, checks, disturbances| Part {
        name,
        size,
        setting: Setting {
            dispatch: Dispatch::Rolling,
            parallel,
            iterations,
            stalls,
            coordinator,
            checks,
            groups: Groups::Fresh,
            disturbances,
        },
    };
    let hosted =
        |part: Part| Part { setting: Setting { dispatch: Dispatch::OnRequest, ..part.setting }, ..part };
    let edits = Disturbances { edits: 1, redirects: 1, ..nothing };
    let less = size.saturating_sub(1);
    let stuck = |part: Part| Part { setting: Setting { groups: Groups::Stuck, ..part.setting }, ..part };
    vec![
        part("crash and redirect, two agents", size, 2, 2, 2, Presence::Absent, all, strikes),
        part("crash and redirect, replans", size, 1, 3, 2, Presence::Available, none, strikes),
        part("stop and conflict, replans", size, 2, 3, 2, Presence::Available, none, stops),
        part("stop, conflict and logout, one agent", size, 1, 3, 2, Presence::Absent, all, ends),
        part("nothing can start, two agents, replans", size, 2, 2, 2, Presence::Available, all, refusals),
        part("nothing can start, crash and redirect", less, 2, 2, 2, Presence::Absent, all, refusal),
        part("one atom more, crash", size + 1, 2, 2, 2, Presence::Absent, all, crash),
        part("long lives, crash, replans", less, 2, 5, 3, Presence::Available, all, crash),
        stuck(part("stuck groups, crash and redirect", size, 3, 2, 2, Presence::Absent, none, strikes)),
        stuck(part("stuck groups, stop, conflict and logout", size, 2, 3, 2, Presence::Absent, none, ends)),
        hosted(part(
            "host, crash and redirect, two agents",
            less,
            2,
            2,
            2,
            Presence::Available,
            all,
            strikes,
        )),
        hosted(part("host, nothing can start", less, 2, 2, 2, Presence::Available, all, refusals)),
        hosted(part("host, stop and conflict, two agents", less, 2, 3, 2, Presence::Available, none, stops)),
        hosted(part("host, edit and redirect, one agent", less, 1, 3, 2, Presence::Available, none, edits)),
        hosted(part("host, crash, one agent", size, 1, 2, 2, Presence::Available, all, crash)),
    ]
}

/// Checks every graph of a part. Stops at the first counterexample.
pub fn check_part(part: &Part) -> Result<Counts, Box<Counterexample>> {
    let mut shapes: Vec<Shape> = (1..=part.size).flat_map(shapes::all).collect();
    if part.setting.groups == Groups::Stuck {
        shapes.retain(Shape::has_choices);
    }
    check_all(&shapes, part.setting)
}

fn check_all(shapes: &[Shape], setting: Setting) -> Result<Counts, Box<Counterexample>> {
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
