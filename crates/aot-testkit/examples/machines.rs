//! `machines [ROUNDS]`: a loop of forty atoms on three hosts behind a real Restate server, again and again, while hosts, server
//! and driver are killed at random. `AOT_SEED=n` chooses the kills, `AOT_BIN` names the program, which needs the feature
//! `restate`, and `AOT_RESTATE` the server.

use std::process::ExitCode;

use aot_testkit::machines::{campaign, server_program};

fn main() -> ExitCode {
    let aot = aot_testkit::project::built();
    let Some(server) = server_program(&aot) else {
        eprintln!("restate-server is not here: clients/install.sh installs it");
        return ExitCode::FAILURE;
    };
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(50);
    let seed = std::env::var("AOT_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    println!("AOT_SEED={seed}");
    let tally = campaign::campaign(&aot, &server, seed, rounds);
    println!("{tally}");
    if tally.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
