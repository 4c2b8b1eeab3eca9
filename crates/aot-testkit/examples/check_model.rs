//! `check_model [SIZE]`: everything that can happen on every AND/OR graph of up to SIZE atoms (3 unless told).

use std::process::ExitCode;
use std::time::Instant;

use aot_testkit::model::Counts;
use aot_testkit::model::parts::{check_part, parts};

fn main() -> ExitCode {
    let size = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(3);
    let mut whole = Counts::default();
    let begun = Instant::now();
    for part in parts(size) {
        match check_part(&part) {
            Ok(counts) => {
                println!("{} (up to {} atoms)\n    {counts}", part.name, part.size);
                whole.add(counts);
            }
            Err(counterexample) => {
                println!("{counterexample}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("all\n    {whole}\n{:.1} s", begun.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}
