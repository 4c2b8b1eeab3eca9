//! What the coordinator costs per atom: whole runs of large graphs, without processes and without briefs.
//!
//! `cargo run --release -p aot-testkit --example coordinator_speed`

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use aot_core::coordinator::*;
use aot_core::rules::gate;
use aot_core::state::*;
use aot_testkit::plans;
use aot_testkit::random::Random;
use jiff::Timestamp;

const SIZES: [usize; 3] = [50_000, 100_000, 200_000];

type Shape = fn(usize) -> State;

fn main() {
    let shapes: [(&str, Shape); 7] = [
        ("wide", wide),
        ("chains", chains),
        ("layered", layered),
        ("layered, 1 in 10 fails", layered),
        ("one parent", one_parent),
        ("groups, first choice fails", groups),
        ("one resource for 1 in 10", with_resource),
    ];
    println!("{:28} {:>8} {:>10} {:>12}", "shape", "atoms", "µs/atom", "events");
    for (name, shape) in shapes {
        let mut before: Option<Duration> = None;
        for size in SIZES {
            let fails = if name.starts_with("groups") {
                Fails::FirstChoices
            } else if name.contains("fails") {
                Fails::OneInTen
            } else {
                Fails::None
            };
            // The best of three: the machine has other work too.
            let lives = (0..3).map(|_| run(shape(size), fails));
            let life = lives.min_by_key(|life| life.spent).expect("there were three");
            let per_atom = life.spent.as_secs_f64() * 1e6 / size as f64;
            let growth = before.map_or(String::new(), |before| {
                format!("   {:.2} times the half", life.spent.as_secs_f64() / before.as_secs_f64())
            });
            println!("{name:28} {size:>8} {per_atom:>10.2} {:>12}{growth}", life.events);
            before = Some(life.spent);
        }
    }
}

#[derive(Clone, Copy)]
enum Fails {
    None,
    OneInTen,
    FirstChoices,
}

struct Life {
    spent: Duration,
    events: usize,
}

/// Drives a loop to its end.
fn run(state: State, fails: Fails) -> Life {
    let now: Timestamp = "2025-01-15T10:00:00Z".parse().expect("a moment");
    let agents =
        Agents { worker: Presence::Available, probe: Presence::Absent, coordinator: Presence::Absent };
    let settings = Settings {
        agents,
        dispatch: Dispatch::Rolling,
        trees: Trees::Separate,
        on_refused_start: OnRefusedStart::Park,
    };
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
    Life { spent, events }
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
    plans::blank(plans::limits(8, 10_000_000, 1000))
}

fn add(state: &mut State, id: String, depends_on: Vec<String>) -> AtomId {
    let id = AtomId::new(id);
    let mut atom = Atom::new(id.clone(), "do it");
    atom.depends_on = depends_on.iter().map(AtomId::new).collect();
    state.atoms.insert(id.clone(), atom);
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
            state.atoms[choice].or_group = Some(name.clone());
        }
        let group = OrGroup { choices, selected: first, failed: Vec::new(), speculative: None };
        state.or_groups.insert(name, group);
    }
    state
}

fn with_resource(size: usize) -> State {
    let mut state = wide(size);
    for atom in state.atoms.values_mut().step_by(10) {
        atom.resource = Some("db".into());
    }
    state
}
