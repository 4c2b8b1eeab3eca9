//! What the coordinator costs per atom: whole runs of large graphs, without processes and without briefs.

use std::sync::Arc;

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use aot_core::coordinator::*;
use aot_core::rules::gate;
use aot_core::state::*;
use jiff::Timestamp;

use super::{Bench, Curve, Goal, Row, Samples, Unit, in_turns};
use crate::plans;
use crate::random::Random;

/// A graph of any size, and what fails in its run.
#[derive(Clone, Copy, Debug)]
pub struct GraphShape {
    pub name: &'static str,
    graph: fn(usize) -> State,
    fails: Fails,
}

pub const SHAPES: [GraphShape; 7] = [
    GraphShape { name: "wide", graph: wide, fails: Fails::None },
    GraphShape { name: "chains", graph: chains, fails: Fails::None },
    GraphShape { name: "layered", graph: layered, fails: Fails::None },
    GraphShape { name: "layered, 1 in 10 fails", graph: layered, fails: Fails::OneInTen },
    GraphShape { name: "one parent", graph: one_parent, fails: Fails::None },
    GraphShape { name: "groups, first choice fails", graph: groups, fails: Fails::FirstChoices },
    GraphShape { name: "one resource for 1 in 10", graph: with_resource, fails: Fails::None },
];

pub fn measure(bench: &mut Bench) {
    let (few, many) = bench.of((5_000, 20_000), (50_000, 200_000));
    let rounds = bench.of(3, 7);
    for shape in SHAPES {
        let side = |size: usize| move || shape.run(size).per_atom(size);
        let [at_few, at_many] = in_turns(rounds, [&mut side(few), &mut side(many)]);
        let what = format!("coordinator, {}", shape.name);
        let (few, many) = (with_spaces(few), with_spaces(many));
        let grown = format!("{what}: an atom of {many}");
        bench.row(Row::ratio(grown, &at_many, format!("one of {few}"), &at_few, Goal::AtMost(1.1)));
        // The build that the gate measures is another one on every machine: there only the growth is judged.
        if bench.of(false, true) {
            let micros = Samples(at_many.0.iter().map(|seconds| seconds * 1e6).collect());
            let figure =
                Row::figure(format!("{what}: {many} atoms"), &micros, Unit::Micros, Goal::AtMost(2.0));
            bench.row(figure.compared_with("an atom"));
        }
    }
    let sizes = bench.of(&[10, 1_000][..], &[10, 100, 1_000, 10_000, 50_000, 100_000, 200_000]);
    let lines = SHAPES.map(|shape| {
        let least = |size: usize| {
            let runs = if size <= 1_000 { 20 } else { 3 };
            let micros = (0..runs).map(|_| shape.run(size).per_atom(size) * 1e6);
            micros.fold(f64::MAX, f64::min)
        };
        (shape.name.to_owned(), sizes.iter().map(|size| (*size as f64, least(*size))).collect())
    });
    bench.curves.push(Curve {
        name: "coordinator",
        title: "What the coordinator costs for each atom of a whole run".into(),
        x: "atoms",
        y: "us an atom",
        lines: lines.into(),
    });
}

fn with_spaces(number: usize) -> String {
    format!("{} {:03}", number / 1_000, number % 1_000)
}

#[derive(Clone, Copy, Debug)]
enum Fails {
    None,
    OneInTen,
    FirstChoices,
}

/// A whole run.
#[derive(Clone, Copy, Debug)]
pub struct WholeRun {
    pub spent: Duration,
    pub events: usize,
}

impl WholeRun {
    /// Seconds.
    pub fn per_atom(&self, atoms: usize) -> f64 {
        self.spent.as_secs_f64() / atoms as f64
    }
}

impl GraphShape {
    /// Drives a loop with so many atoms to its end.
    pub fn run(&self, atoms: usize) -> WholeRun {
        run((self.graph)(atoms), self.fails)
    }
}

/// Drives a loop to its end.
fn run(state: State, fails: Fails) -> WholeRun {
    let now: Timestamp = "2025-01-15T10:00:00Z".parse().expect("a moment");
    let agents =
        Agents { worker: Presence::Available, probe: Presence::Absent, coordinator: Presence::Absent };
    let settings = Settings {
        agents,
        dispatch: Dispatch::Rolling,
        trees: Trees::Separate,
        on_refused_start: OnRefusedStart::Park,
    };
    let atoms = state.atoms.len();
    let aligned = gate::gate(state).expect("it is aligned");
    let mut queue = VecDeque::from([Event::Begun {
        unrecorded: Vec::new(),
        fingerprint: None,
        altered: None,
        redirect: RedirectLock::Free,
    }]);
    let (mut events, mut number) = (0, 0u32);
    let begin = cpu_time();
    let mut coordinator = Coordinator::resume(aligned, settings, now);
    while let Some(event) = queue.pop_front() {
        events += 1;
        for effect in coordinator.on(event, now) {
            match effect {
                Effect::Start(job) => {
                    number += 1;
                    let id = job.id.task.atom().expect("nobody replans").as_str();
                    let failed = match fails {
                        Fails::None => false,
                        Fails::OneInTen => number.is_multiple_of(10),
                        Fails::FirstChoices => id.ends_with('a'),
                    };
                    let outcome = if failed {
                        JobOutcome::Failed { reason: "boom".into() }
                    } else {
                        JobOutcome::Done {
                            summary: String::new(),
                            artifacts: Vec::new(),
                            check: CheckOutcome::None,
                        }
                    };
                    queue.push_back(Event::Ended { job: job.id, outcome, usage: Usage::default() });
                }
                Effect::Land(job) => {
                    let binding = Binding {
                        summary: "done".into(),
                        artifacts: vec!["src/lib.rs".into()],
                        commit: Some("1a2b3c4".into()),
                        unchanged: false,
                    };
                    queue.push_back(Event::Landed { job, binding, usage: Usage::default() });
                }
                Effect::Verify { number } => {
                    let evaluation =
                        if number == 1 { Evaluation::Failed { red: Vec::new() } } else { Evaluation::Passed };
                    queue.push_back(Event::Verified { number, evaluation, usage: Usage::default() });
                }
                Effect::Halt(certificate) => assert_eq!(certificate.exit, 0, "{}", certificate.reason),
                Effect::Record(_)
                | Effect::Kill(_)
                | Effect::Revert { .. }
                | Effect::WakeAt(_)
                | Effect::Refuse(_) => {}
            }
        }
    }
    let spent = cpu_time() - begin;
    assert!(coordinator.is_halted(), "it ended without a halt");
    let left = coordinator.ledger().frontier().unresolved();
    assert!(left == 0 && events >= atoms, "{left} of {atoms} are left after {events} events");
    WholeRun { spent, events }
}

/// Time on the processor, where the system tells it: other work on the machine does not count. The driver's own part
/// is in it.
fn cpu_time() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.as_deref().and_then(|told| told.split(' ').next()?.parse().ok());
    nanos.map_or_else(
        || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
        Duration::from_nanos,
    )
}

fn blank() -> State {
    let mut state = plans::blank(plans::limits(8, 10_000_000, 1000));
    // The base case of this world holds at once: seen before the end, it would be the end.
    state.objective.verify = Some(VerifyWhen::AtEnd);
    state
}

fn add(state: &mut State, id: String, depends_on: Vec<String>) -> AtomId {
    let id = AtomId::new(id);
    let mut atom = Atom::new(id.clone(), "do it");
    atom.depends_on = depends_on.iter().map(AtomId::new).collect();
    state.add(atom);
    id
}

fn wide(size: usize) -> State {
    let mut state = blank();
    (0..size).for_each(|n| {
        add(&mut state, format!("A{n}"), Vec::new());
    });
    state
}

fn chains(size: usize) -> State {
    let mut state = blank();
    let width = 100;
    for n in 0..size {
        let before = if n < width { Vec::new() } else { vec![format!("A{}", n - width)] };
        add(&mut state, format!("A{n}"), before);
    }
    state
}

fn layered(size: usize) -> State {
    let mut state = blank();
    let (width, mut random) = (200, Random::new(1));
    for n in 0..size {
        let layer = n / width;
        let mut before = Vec::new();
        for _ in 0..if layer == 0 { 0 } else { 3 } {
            before.push(format!("A{}", (layer - 1) * width + random.below(width)));
        }
        add(&mut state, format!("A{n}"), before);
    }
    state
}

fn one_parent(size: usize) -> State {
    let mut state = wide(size);
    let parent = AtomId::new("A0");
    let children = state.atoms.keys().skip(1).cloned().collect();
    state.decompositions.push(Decomposition { parent, children, reason: "smaller".into() });
    state
}

/// Every third atom is a group whose first choice fails; the next waits for the group.
fn groups(size: usize) -> State {
    let mut state = blank();
    for n in 0..size / 2 {
        let before = if n < 50 { Vec::new() } else { vec![format!("A{}a", n - 50)] };
        let first = add(&mut state, format!("A{n}a"), before.clone());
        let second = add(&mut state, format!("A{n}b"), before);
        let (name, choices) = (GroupName::new(format!("G{n}")), vec![first.clone(), second]);
        for choice in &choices {
            Arc::make_mut(&mut state.atoms[choice]).or_group = Some(name.clone());
        }
        let group = OrGroup { choices, selected: first, failed: Vec::new(), speculative: None };
        state.or_groups.insert(name, group);
    }
    state
}

fn with_resource(size: usize) -> State {
    let mut state = wide(size);
    for atom in state.atoms_mut().step_by(10) {
        atom.resource = Some("db".into());
    }
    state
}
