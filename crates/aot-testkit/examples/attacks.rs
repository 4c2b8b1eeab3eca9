//! `attacks [WORDS]`: tries every attack of the table, or those whose description holds these words, against the built
//! program: in both cages, as whoever runs it and, started by root, as an ordinary user; then those that only a cage
//! prevents once without one, to see that they are attacks. `AOT_BIN` names the program, `AOT_PLACE` one cage (`bwrap`,
//! `landlock`, `none`), `AOT_KEEP` keeps what failed. With `AOT_SECONDS` it tries a sample of those that end by themselves,
//! each in one cage as one user, as far as that time goes; `AOT_SEED` chooses which.

use std::process::ExitCode;
use std::time::Duration;

use aot_testkit::attacks::{AttackCampaign, Cage, Extent, places};

fn main() -> ExitCode {
    let wanted = std::env::var("AOT_PLACE").unwrap_or_default();
    let places: Vec<_> =
        places().into_iter().filter(|(cage, _)| wanted.is_empty() || cage.name() == wanted).collect();
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let extent = match number("AOT_SECONDS").map(Duration::from_secs) {
        None => Extent::Whole(places),
        Some(time) => {
            let caged = places.into_iter().filter(|(cage, _)| *cage != Cage::None).collect();
            Extent::Sample { places: caged, time, seed: number("AOT_SEED").unwrap_or(15) }
        }
    };
    let words: Vec<String> = std::env::args().skip(1).collect();
    let campaign = AttackCampaign {
        aot: aot_testkit::project::built(),
        extent,
        filter: words.join(" "),
        threads: number("AOT_THREADS").and_then(|number| usize::try_from(number).ok()).unwrap_or(3),
    };
    let report = campaign.run();
    println!("{report}");
    if report.failed().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
