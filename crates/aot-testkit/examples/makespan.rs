//! `makespan [GRAPHS]`: the coordinator's makespan against the lower bound, file order and waves with a barrier.

use std::process::ExitCode;

use aot_testkit::makespan::MakespanTable;

fn main() -> ExitCode {
    let graphs = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000);
    match MakespanTable::measure(graphs, 0) {
        Ok(table) => {
            println!("{table}");
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("{violation}");
            ExitCode::FAILURE
        }
    }
}
