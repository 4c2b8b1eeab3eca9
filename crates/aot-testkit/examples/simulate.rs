//! `simulate [LIVES] [FIRST_SEED]`: random lives of the shipping coordinator, counted. `AOT_SEED=n simulate` shows the
//! trace of one.

use std::process::ExitCode;
use std::time::Instant;

use aot_testkit::batch;
use aot_testkit::life;

fn main() -> ExitCode {
    if let Some(seed) = std::env::var("AOT_SEED").ok().and_then(|text| text.parse().ok()) {
        let (result, trace) = life::trace(seed);
        println!("{}\n{result:?}", trace.join("\n"));
        return if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let lives = numbers.first().copied().unwrap_or(100_000);
    let first = numbers.get(1).copied().unwrap_or(0);
    let begun = Instant::now();
    let tally = batch::lives(first..first + lives);
    let seconds = begun.elapsed().as_secs_f64();
    println!("{tally}");
    println!("{seconds:.1} s, {:.0} µs a life", seconds * 1e6 / lives as f64);
    for failed in tally.failed.iter().take(1) {
        println!("{}", failed.report());
    }
    if tally.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
