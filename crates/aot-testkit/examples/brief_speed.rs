//! What a brief costs in files of growing size. Prints; judges nothing.

use std::time::Instant;

use aot_core::brief::{self, AttemptContext, ReplanReason, ReplanRequest};
use aot_core::contract;
use aot_core::state::{AtomId, Graph};
use aot_testkit::fixtures::of_size;

fn main() {
    for count in [1_000, 10_000, 100_000] {
        let text = of_size(count);
        let state = contract::read(text.into_bytes()).expect("legible").state.expect("valid");
        let graph = Graph::new(&state);
        let atom = AtomId::new(format!("A{}", count / 2 + 1));
        let asked =
            ReplanRequest { why: vec![ReplanReason::Failing { atom: atom.clone() }], refusals: Vec::new() };
        let began = Instant::now();
        let worker =
            brief::worker(&state, &graph, &atom, AttemptContext::default()).expect("the atom is there");
        let told = began.elapsed();
        let began = Instant::now();
        let coordinator = brief::coordinator(&state, &graph, &asked);
        println!(
            "{count:>7} atoms: worker {told:>10.1?} ({} bytes), coordinator {:>10.1?} ({} bytes)",
            worker.text.len(),
            began.elapsed(),
            coordinator.text.len()
        );
    }
}
