//! `attacks [WORDS]`: tries every attack of the table, or those whose description holds these words, against the built
//! program: in both cages, as whoever runs it and, started by root, as an ordinary user; then those that only a cage
//! prevents once without one, to see that they are attacks. `AOT_BIN` names the program, `AOT_PLACE` one cage (`bwrap`,
//! `landlock`, `none`), `AOT_KEEP` keeps what failed.

use std::process::ExitCode;

use aot_testkit::attacks::{AttackCampaign, Extent, places};

fn main() -> ExitCode {
    let wanted = std::env::var("AOT_PLACE").unwrap_or_default();
    let places = places().into_iter().filter(|(cage, _)| wanted.is_empty() || cage.name() == wanted);
    let words: Vec<String> = std::env::args().skip(1).collect();
    let campaign = AttackCampaign {
        aot: aot_testkit::project::built(),
        extent: Extent::Whole(places.collect()),
        filter: words.join(" "),
        threads: std::env::var("AOT_THREADS").ok().and_then(|text| text.parse().ok()).unwrap_or(3),
    };
    let report = campaign.run();
    println!("{report}");
    if report.failed().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
