//! What is learnt of attempts: what the stopwatch takes for one, which times an atom is like, the order of starts (D7) and
//! the estimate that follow from them.

use std::sync::Arc;

use std::collections::HashMap;

use aot_core::rules::durations::{AttemptTime, Durations, KEPT_OF_A_KIND, LONGEST, Likeness, newest};
use aot_core::rules::estimate::{Estimate, MOST_ATOMS, estimate};
use aot_core::rules::{Change, Ledger};
use aot_core::state::{AtomId, State};
use aot_testkit::audit::derived::derived_figures_are_right;
use aot_testkit::past::{self, PastAttempt};

use super::world::{parse, start};

/// Words such as `A=60` (resolved after so many seconds) and `A-60` (failed), `A=60/mine` by an agent.
fn times(state: &State, past: &str) -> Vec<AttemptTime> {
    let attempts: Vec<(AtomId, u64, bool, &str)> = past
        .split_whitespace()
        .map(|word| {
            let (word, agent) = word.split_once('/').unwrap_or((word, "some"));
            let at = word.find(['=', '-']).expect("a word says how it ended");
            let seconds: u64 = word[at + 1..].parse().expect("seconds");
            (AtomId::new(&word[..at]), seconds * 1_000, word[at..].starts_with('-'), agent)
        })
        .collect();
    let attempts: Vec<PastAttempt<'_>> = attempts
        .iter()
        .map(|(atom, took, failed, agent)| PastAttempt { atom, agent, took: *took, failed: *failed })
        .collect();
    past::times(state, &attempts)
}

fn learnt(state: &State, past: &str) -> Durations {
    Durations::of(&times(state, past), None)
}

fn order(graph: &str, past: &str) -> String {
    let (state, _) = parse(graph);
    let durations = learnt(&state, past);
    let mut ledger = Ledger::open(state, start());
    ledger.expect(durations.into());
    if let Err(violation) = derived_figures_are_right(&ledger) {
        panic!("{graph}, {past}: {violation}");
    }
    let ready: Vec<String> = ledger.frontier().ready().map(|index| ledger.id(index).to_string()).collect();
    ready.join(" ")
}

#[test]
fn the_longest_expected_time_goes_first() {
    for (graph, past, expected) in [
        ("A; B; C <- B", "", "B A"),
        // All alike: as if nothing were known.
        ("A; B; C <- B", "A=60 B=60 C=60", "B A"),
        ("A; B; C <- B", "A=60 B=10 C=10", "A B"),
        ("A; B; C <- B", "A=60 B=10 C=55", "B A"),
        // What takes less than a second weighs one.
        ("A; B; C <- B", "A=0 B=0 C=0", "B A"),
        // What was never done is like the others of its kind: a command like commands, work like work.
        ("A$; B; C$; D", "A=5 B=600", "B D A C"),
        ("A$; B!; C", "A=5 B=600", "B C A"),
        // A failed attempt is likely to be followed by another.
        ("A; B", "A=50 B=40 B-40", "B A"),
        ("A; B", "A=50 B-40", "B A"),
        // The middle of what was measured counts.
        ("A; B", "A=50 B=40 B=40 B=9000", "A B"),
        // Five and a half hours are the most that count.
        ("A; B", "A=30000 B=90000", "A B"),
        // A parent is no work, and what is dormant weighs nothing.
        ("A; P -> B; C <- P", "A=60 B=30 C=40", "B A"),
        ("A; C <- A; B; X <- B; G=Y|X", "A=10 C=10 B=15 X=900", "A B Y"),
    ] {
        assert_eq!(order(graph, past), expected, "{graph}, after {past}");
    }
}

#[test]
fn an_atom_is_like_the_same_work_or_else_its_kind() {
    let (state, _) = parse("A; B; C$; D!; P -> E; P!");
    let like = |past: &str, atom: &str| {
        let durations = learnt(&state, past);
        let (pool, likeness) = durations.like(&state.atoms[&AtomId::new(atom)], atom == "P")?;
        let seconds: Vec<u64> = durations.pool(pool).attempts.iter().map(|(s, _)| *s as u64).collect();
        Some((seconds, likeness))
    };
    assert_eq!(like("", "A"), None);
    assert_eq!(like("A=7 B=9 C=1", "A"), Some((vec![7], Likeness::SameWork)));
    assert_eq!(like("B=9 E=3 C=1", "A"), Some((vec![3, 9], Likeness::SameKind)));
    assert_eq!(like("C=1 D=4", "A"), Some((vec![1, 4], Likeness::Other)));
    assert_eq!(like("D=4", "P"), Some((vec![4], Likeness::Other)));

    // Of the agent that is going to do it, if enough is known of that one.
    let times = times(&state, "B=1/quick B=2/quick B=3/quick E=90/slow");
    let of = |worker| {
        let durations = Durations::of(&times, worker);
        let (pool, _) = durations.like(&state.atoms[&AtomId::new("A")], false).expect("it is known");
        durations.pool(pool).attempts.len()
    };
    assert_eq!([of(Some("quick")), of(Some("slow")), of(None)], [3, 4, 4]);
}

#[test]
fn the_stopwatch_takes_nothing_else_for_work() {
    use aot_core::rules::durations::Stopwatch;
    use aot_core::state::{Binding, Graph, Stamp};
    use jiff::SignedDuration;

    let (state, _) = parse("A; B");
    let graph = Graph::new(&state);
    let atom = AtomId::new("A");
    let started = || Change::AtomStarted { atom: AtomId::new("A"), attempt: Some(1) };
    let resolved = || Change::AtomResolved { atom: AtomId::new("A"), binding: Binding::default() };
    let took = |between: Vec<Change>, seconds: i64| {
        let mut stopwatch = Stopwatch::default();
        stopwatch.follow(&state, &graph, &[started()], start());
        stopwatch.follow(&state, &graph, &between, start() + SignedDuration::from_secs(1));
        stopwatch.follow(&state, &graph, &[resolved()], start() + SignedDuration::from_secs(seconds));
        stopwatch.over.iter().map(|time| time.seconds).collect::<Vec<f64>>()
    };
    assert_eq!(took(vec![], 5), [5.0]);
    assert_eq!(took(vec![Change::IterationOpened], 5), [5.0]);
    // Killed, parked, or begun in a process that is gone.
    let reason = String::new();
    assert!(took(vec![Change::AtomReturned { atom: atom.clone(), reason: reason.clone() }], 5).is_empty());
    assert!(took(vec![Change::AtomReset { atom: atom.clone() }], 5).is_empty());
    assert!(took(vec![Change::Parked { until: Stamp::from(start()), reason: None }], 5).is_empty());
    assert!(took(vec![Change::LoopStarted], 5).is_empty());
    assert!(took(vec![Change::RedirectRequested], 5).is_empty());
    // A clock that was set back, and one that stood for weeks.
    assert!(took(vec![], -5).is_empty());
    assert!(took(vec![], LONGEST as i64 + 1).is_empty());
    // Another loop: of its atoms nothing is known.
    let mut stopwatch = Stopwatch::default();
    stopwatch.follow(&state, &graph, &[started()], start());
    stopwatch.follow(&state, &graph, &[resolved()], start() + SignedDuration::from_secs(9));
    stopwatch.follow(&state, &graph, &[Change::LoopNamed { id: "l2".into() }], start());
    assert!(stopwatch.over.is_empty());
}

#[test]
fn the_newest_times_of_each_kind_are_kept() {
    let (state, _) = parse("A; B$");
    let mut all = times(&state, "A=1");
    for seconds in 0..KEPT_OF_A_KIND + 10 {
        all.extend(times(&state, &format!("B={seconds}")));
    }
    let kept = newest(all);
    assert_eq!(kept.len(), KEPT_OF_A_KIND + 1);
    assert_eq!((kept[0].seconds, kept[1].seconds), (1.0, 10.0));
}

fn estimated(graph: &str, past: &str, running: &[(&str, f64)]) -> Option<Estimate> {
    let (state, _) = parse(graph);
    let elapsed: HashMap<AtomId, f64> =
        running.iter().map(|(atom, seconds)| (AtomId::new(*atom), *seconds)).collect();
    estimate(&state, &learnt(&state, past), &elapsed)
}

#[test]
fn nothing_is_estimated_where_nothing_is_learnt_or_left() {
    assert_eq!(estimated("A; B <- A", "", &[]), None);
    let (mut state, _) = parse("A; B <- A");
    let durations = learnt(&state, "A=60");
    assert!(estimate(&state, &durations, &HashMap::new()).is_some());
    for atom in state.atoms_mut() {
        atom.status = aot_core::state::AtomStatus::Resolved;
    }
    assert_eq!(estimate(&state, &durations, &HashMap::new()), None);
    let (state, _) = parse(&(0..=MOST_ATOMS).map(|atom| format!("A{atom}; ")).collect::<String>());
    assert_eq!(estimate(&state, &durations, &HashMap::new()), None);
}

#[test]
fn an_estimate_plays_the_rest_of_the_graph() {
    let about = |graph: &str, past: &str| estimated(graph, past, &[]).expect("something is learnt").seconds;
    let near = |seconds: u64, expected: u64| {
        assert!((expected * 8 / 10..=expected * 12 / 10).contains(&seconds), "{seconds}, not {expected}");
    };
    let known = "A=100 A=100 A=100 A=100 A=100 A=100 A=100 A=100 A=100 A=100";
    near(about("m=1; A", known), 100);
    near(about("m=1; A; B; C; D", known), 400);
    near(about("m=2; A; B; C; D", known), 200);
    near(about("m=4; A; B <- A; C <- B; D <- C", known), 400);
    // One tree is worked in by one agent; so is one resource.
    near(about("m=4; A@db; B@db; C", known), 200);
    // What is dormant is not done, and a parent is no work.
    near(about("m=1; P -> A; G=B|C; D <- C", known), 300);
    // Half of the attempts fail.
    near(about("m=1; A; B; C; D; E; F", &known.replace("A=100 A=100", "A=100 A-100")), 1_200);
}

#[test]
fn what_runs_already_takes_less_from_now_on() {
    let (mut state, _) = parse("m=1; A");
    Arc::make_mut(&mut state.atoms[0]).status = aot_core::state::AtomStatus::InProgress;
    let durations = learnt(&state, &"A=100 ".repeat(20));
    let left = |passed: f64| {
        let elapsed = HashMap::from([(AtomId::new("A"), passed)]);
        estimate(&state, &durations, &elapsed).expect("something is learnt").seconds
    };
    assert!((85..=115).contains(&left(0.0)), "{}", left(0.0));
    assert!((5..=35).contains(&left(80.0)), "{}", left(80.0));
    // Nobody knows for how long what never took so long.
    assert!((100..=200).contains(&left(300.0)), "{}", left(300.0));
}

#[test]
fn an_estimate_is_wider_the_less_is_known() {
    let spread = |past: &str| {
        let estimate = estimated("m=1; A; B; C", past, &[]).expect("something is learnt");
        assert!(estimate.low <= estimate.seconds && estimate.seconds <= estimate.high, "{estimate:?}");
        estimate.high as f64 / estimate.low as f64
    };
    let (one, many) = (spread("A=600"), spread(&"A=600 ".repeat(30)));
    assert!(one > 2.0 && many < one / 1.4, "{one} {many}");
    let again = || estimated("m=1; A; B; C", "A=600 B=300", &[]);
    assert_eq!(again(), again(), "the same loop has the same estimate");
    let basis = again().expect("something is learnt").rests_on;
    assert_eq!((basis.attempts, basis.same_work, basis.same_kind, basis.other), (2, 2, 1, 0));
}
