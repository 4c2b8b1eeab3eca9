//! `check_model [SIZE]`: everything that can happen on every AND/OR graph of up to SIZE atoms (3 unless told).

use std::process::ExitCode;
use std::time::Instant;

use aot_testkit::model::Counts;
use aot_testkit::survey::{settings, survey};

fn main() -> ExitCode {
    let size = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(3);
    let mut whole = Counts::default();
    for setting in settings() {
        let begun = Instant::now();
        match survey(size, &[setting]) {
            Ok(rows) => {
                for (setting, counts) in rows {
                    println!("{setting:?}\n  {counts}, {:.1} s", begun.elapsed().as_secs_f64());
                    whole.add(counts);
                }
            }
            Err(counterexample) => {
                println!("{counterexample}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("up to {size} atoms, all settings: {whole}");
    ExitCode::SUCCESS
}
