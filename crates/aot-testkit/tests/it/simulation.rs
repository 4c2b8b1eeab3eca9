//! Random lives of the shipping coordinator. `AOT_SEED=n` replays one with its trace; `AOT_LIVES=n` lives so many.

use aot_testkit::batch;
use aot_testkit::life;

/// In a debug build a life takes about twenty times as long.
const LIVES: u64 = if cfg!(debug_assertions) { 4_000 } else { 100_000 };

#[test]
fn every_rule_holds_in_every_life() {
    if let Some(seed) = number("AOT_SEED") {
        let (result, trace) = life::trace(seed);
        println!("{}\n{result:?}", trace.join("\n"));
        result.unwrap_or_else(|violation| panic!("{violation}"));
        return;
    }
    let tally = batch::lives(0..number("AOT_LIVES").unwrap_or(LIVES));
    if let Some(failed) = tally.failed.first() {
        panic!("{}", failed.report());
    }
}

/// The lives are worth living: every kind of halt is among them.
#[test]
fn lives_end_in_every_way() {
    let tally = batch::lives(0..1_500);
    for word in [
        "completed",
        "stopped by hand",
        "redirect interrupted",
        "tampered",
        "exhausted",
        "stalled",
        "iteration limit",
        "budget",
        "deadlock",
        "needs a person",
        "no agent",
    ] {
        assert!(tally.halts.contains_key(word), "no life ends as {word}: {:?}", tally.halts);
    }
    assert!(tally.orders > 0, "probes put no group in order");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}
