//! `faults [COUNT] [SECONDS]`: injects so many faults into runs of the built program, and checks the promises after each
//! round. `AOT_SEED=n` chooses the rounds, `AOT_ROUND=n` repeats one of them, `AOT_BIN` names the program, `AOT_THREADS`
//! how many rounds run at once.

use std::process::ExitCode;
use std::time::Duration;

use aot_testkit::faults::{FaultCampaign, means};

fn main() -> ExitCode {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let campaign = FaultCampaign {
        aot: aot_testkit::project::built(),
        seed: number("AOT_SEED").unwrap_or(15),
        faults: usize::try_from(numbers.first().copied().unwrap_or(10_000)).unwrap_or(usize::MAX),
        time: Duration::from_secs(numbers.get(1).copied().unwrap_or(24 * 3600)),
        threads: usize::try_from(number("AOT_THREADS").unwrap_or(3)).unwrap_or(3),
    };
    println!("AOT_SEED={} {:?}", campaign.seed, means());
    if let Some(round) = number("AOT_ROUND") {
        let round = campaign.replay(round);
        println!("{round:#?}");
        return if round.broken.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let tally = campaign.run();
    println!("{tally}");
    if tally.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
