//! `performance [quick] [--keep] [--write] [SUBJECT…]`: what the program costs beside floors and rivals, measured in this run.
//! `quick` fails if a ratio is worse by half than the one that was kept (`--keep` keeps new ones). `--write` writes
//! docs/performance.md and its plots. `AOT_BIN` names the program; the full pass wants a release build.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use aot_testkit::performance::{Bench, Pass, SUBJECTS, baseline, files, page};
use aot_testkit::proving::agent::as_agent;

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    // The proving ground starts this program as its agents.
    if let Some(exit) = as_agent(&words) {
        return exit;
    }
    if let [parse, state] = &words[..]
        && parse == files::PLAIN_PARSER
    {
        println!("{}", files::count_values(Path::new(state)));
        return ExitCode::SUCCESS;
    }
    let mut asked = |word: &str| {
        let before = words.len();
        words.retain(|it| it != word);
        words.len() < before
    };
    let (quick, keep, write) = (asked("quick"), asked("--keep"), asked("--write"));
    let began = Instant::now();
    let pass = if quick { Pass::Quick } else { Pass::Full };
    let mut bench = Bench::new(&aot_testkit::project::built(), pass);
    let mut worse = Vec::new();
    for subject in SUBJECTS.iter().filter(|subject| subject.is_wanted(&words)) {
        worse.extend(subject.measure_until_good(&mut bench));
    }
    let took = began.elapsed().as_secs();
    println!("\n{} figures in {took} s", bench.rows.len());
    if write {
        page::write(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs"), &bench, took);
    }
    if keep {
        baseline::write(&bench.rows);
    }
    if !quick || keep {
        worse.clear();
    }
    for line in &worse {
        println!("worse: {line}");
    }
    if worse.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
