//! `proving [PROJECT]…`: brings emptied public projects back with agents that misbehave, and prints the tables of
//! docs/proving.md; `proving client [PROJECT]…` does so once with the real Claude Code. `AOT_SEED=n` is the first seed, `AOT_ROUNDS` how many there are, `AOT_PROVING_CACHE` where downloads
//! are kept, `AOT_BIN` names the program. With `agent` as its first word it is one of the agents.

use std::process::ExitCode;

use aot_testkit::proving::ProvingGround;
use aot_testkit::proving::agent::as_agent;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(exit) = as_agent(&words) {
        return exit;
    }
    let with_client = words.first().is_some_and(|word| word == "client");
    let projects = words.into_iter().skip(usize::from(with_client)).collect();
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let ground = ProvingGround {
        aot: aot_testkit::project::built(),
        cache: aot_testkit::proving::cache(),
        projects,
        seed: number("AOT_SEED").unwrap_or(1),
        rounds: number("AOT_ROUNDS").unwrap_or(3),
    };
    let done = match with_client {
        true => ground.run_with_client(),
        false => ground.run().map(|table| (table.to_string(), table.broken())),
    };
    match done {
        Ok((table, broken)) => {
            println!("{table}");
            broken.iter().for_each(|line| eprintln!("BROKEN {line}"));
            if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
