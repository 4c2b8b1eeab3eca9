//! `check_model [SIZE]`: everything that can happen on every AND/OR graph of up to SIZE atoms, and a crash on those with
//! one more. Without a SIZE, as in the gate: up to 3 atoms, and none with one more.

use std::process::ExitCode;
use std::time::Instant;

use aot_testkit::model::Counts;
use aot_testkit::model::parts::{check_part, parts};

/// The atoms of the largest graphs in the gate.
const GATE_SIZE: usize = 3;

fn main() -> ExitCode {
    let asked: Option<usize> = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let size = asked.unwrap_or(GATE_SIZE);
    let largest = asked.map_or(GATE_SIZE, |size| size + 1);
    let mut whole = Counts::default();
    let begun = Instant::now();
    for part in parts(size).into_iter().filter(|part| part.size <= largest) {
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
