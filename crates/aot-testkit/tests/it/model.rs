//! Everything that can happen on small graphs. The larger run is `--example check_model`.

use aot_testkit::model::parts::{check_part, parts};

#[test]
fn every_rule_holds_and_every_way_ends_in_a_halt() {
    let size = if cfg!(debug_assertions) { 2 } else { 3 };
    for part in parts(size) {
        let counts = check_part(&part).unwrap_or_else(|counterexample| panic!("{counterexample}"));
        println!("{}: {counts}", part.name);
        assert!(part.size == 0 || counts.halts > 0, "{}: nothing ever halts", part.name);
    }
}
