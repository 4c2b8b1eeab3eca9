//! A real project of the proving ground: what mending saves, and how long the loop takes beside the same agents in a shell.
//! Agents are scripts that pause as a model would; `docs/proving.md` says how tokens are counted.

use std::time::Duration;

use super::table::{Goal, Row, Unit};
use super::{Bench, Pass, Samples};
use crate::proving::faults::Misdeed;
use crate::proving::{LoopReport, ProvingGround, RoundReport, cache};

/// So long is each request to a model; an agent makes about six.
const PAUSE: Duration = Duration::from_secs(2);

const PARALLEL: usize = 4;

pub fn measure(bench: &mut Bench) {
    if bench.pass == Pass::Quick {
        return;
    }
    let ground = ProvingGround {
        aot: bench.aot.clone(),
        cache: cache(),
        projects: vec!["isodate".into()],
        seed: 1,
        rounds: 1,
    };
    let done = ground.run().and_then(|table| Ok((table, ground.paced(PAUSE, PARALLEL)?)));
    let (table, times) = match done {
        Ok(done) => done,
        Err(error) => return bench.left_out(format!("the proving ground: {error}")),
    };
    let rounds: Vec<&RoundReport> = table.projects.iter().flat_map(|project| &project.rounds).collect();
    let against = "the same agents, a new conversation for each try";
    let all = ratio(&rounds, |_| true);
    bench.row(row("tokens of a resolved atom, not cached, all misdeeds", all, against, Goal::None));
    let wrong = ratio(&rounds, |first| first == Some(Misdeed::Wrong));
    bench.row(row(
        "tokens of a resolved atom, not cached, wrong at first",
        wrong,
        against,
        Goal::AtMost(0.6),
    ));
    let runs = |of: fn(&RoundReport) -> &LoopReport| {
        let work: Vec<_> = rounds.iter().map(|round| &of(round).work).collect();
        work.iter().map(|work| work.conversations).sum::<u64>() as f64
    };
    let conversations = runs(|round| &round.mending) / runs(|round| &round.declining);
    bench.row(row("conversations of a resolved atom", conversations, against, Goal::AtMost(0.6)));
    let seconds = times.looped.as_secs_f64();
    let mut beside = |time: Duration, against: &str, goal| {
        let mut row = row(
            "wall time, honest agents of ten seconds, 4 at a time",
            seconds / time.as_secs_f64(),
            against,
            goal,
        );
        row.what = format!("{}, {against}", row.what);
        row.sides = format!("{seconds:.1} s / {:.1} s", time.as_secs_f64());
        bench.row(row);
    };
    beside(times.xargs, "`xargs -P4`, then one test run", Goal::AtMost(1.1));
    match times.make {
        Some(make) => beside(make, "`make -j4` with imports and the same checks", Goal::None),
        None => bench.left_out("the proving ground under make"),
    }
}

fn row(what: &str, value: f64, against: &str, goal: Goal) -> Row {
    Row::figure(what, &Samples(vec![value]), Unit::Times, goal).compared_with(against)
}

/// Tokens with mending by those without it, for the atoms whose first misdeed is wanted.
fn ratio(rounds: &[&RoundReport], is_wanted: impl Fn(Option<Misdeed>) -> bool) -> f64 {
    let (mut with, mut without) = (0, 0);
    for round in rounds {
        for (index, plan) in round.plan.iter().enumerate() {
            if !is_wanted(plan.first().copied()) {
                continue;
            }
            let of = |report: &LoopReport| {
                report.work.tokens.get(&format!("A{}", index + 1)).map_or(0, |tokens| tokens.fresh())
            };
            with += of(&round.mending);
            without += of(&round.declining);
        }
    }
    with as f64 / without as f64
}
