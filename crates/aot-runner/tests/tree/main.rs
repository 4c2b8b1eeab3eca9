//! The ground of a run, with real repositories. A program of its own instead of a test harness: it gives git an
//! environment in which no user has settings, becomes a guard when it is called as one, and can be killed as a run. Of the
//! usual harness it has `--list`, `--exact` and filters, which is what `cargo nextest` needs.

mod crashes;
mod delivered;
mod exchange;
mod filters;
mod hostile;
mod in_place;
mod kit;
mod landing;
mod lending;
mod refusing;

use std::panic::catch_unwind;
use std::process::{Command, ExitCode};
use std::sync::Mutex;

use aot_runner::process::guard;
use aot_runner::tree::filter;

pub type Test = (&'static str, fn());

/// Set in the environment in which tests run.
const HERMETIC: &str = "AOT_TREE_TESTS";

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if guard::is_called(&words) {
        return guard::run(&words);
    }
    if filter::is_called(&words) {
        return filter::run(&words);
    }
    if words.get(1).is_some_and(|word| word == crashes::RUN) {
        return crashes::run(&words);
    }
    if std::env::var_os(HERMETIC).is_none() {
        return again();
    }
    let words: Vec<&str> = words[1..].iter().filter_map(|word| word.to_str()).collect();
    let has = |option: &str| words.contains(&option);
    // `--format terse` is how nextest wants the list, and the names after `--skip` belong to other test binaries.
    let mut filters = words.clone();
    while let Some(at) = filters.iter().position(|word| ["--skip", "--format"].contains(word)) {
        filters.drain(at..filters.len().min(at + 2));
    }
    filters.retain(|word| !word.starts_with('-'));
    let wanted = |name: &str| {
        let fits = |filter: &&str| if has("--exact") { name == *filter } else { name.contains(*filter) };
        !has("--ignored") && (filters.is_empty() || filters.iter().any(fits))
    };
    let rooms = [
        landing::TESTS,
        lending::TESTS,
        refusing::TESTS,
        crashes::TESTS,
        in_place::TESTS,
        hostile::TESTS,
        filters::TESTS,
        delivered::TESTS,
        exchange::TESTS,
    ];
    let tests: Vec<&Test> = rooms.into_iter().flatten().filter(|(name, _)| wanted(name)).collect();
    if has("--list") {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let (open, failed) = (Mutex::new(tests.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some((name, test)) = open.lock().expect("nobody panics with it").next() else {
                        break;
                    };
                    let passed = catch_unwind(test).is_ok();
                    println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
                    if !passed {
                        failed.lock().expect("nobody panics with it").push(*name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("nobody panics with it");
    // As the usual harness says it, so that whoever counts results counts these.
    let word = if failed.is_empty() { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {} passed; {} failed; {failed:?}",
        tests.len() - failed.len(),
        failed.len()
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the tests where git finds no settings of the user.
fn again() -> ExitCode {
    let home = tempfile::tempdir().expect("a temporary folder");
    let status = Command::new(std::env::current_exe().expect("a test knows itself"))
        .args(std::env::args_os().skip(1))
        .env(HERMETIC, "1")
        .env("HOME", home.path())
        .env("XDG_CONFIG_HOME", home.path())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .status()
        .expect("it runs");
    ExitCode::from(status.code().map_or(1, |code| code as u8))
}
