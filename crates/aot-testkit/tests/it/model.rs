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

/// Without parents and groups, these are the directed acyclic graphs without names.
#[test]
fn plain_shapes_are_counted_as_in_the_books() {
    let plain = |count| {
        let shapes = aot_testkit::shapes::all(count);
        shapes.iter().filter(|shape| !shape.has_parents() && shape.races.is_empty()).count()
    };
    assert_eq!([plain(1), plain(2), plain(3)], [1, 2, 6]);
}
