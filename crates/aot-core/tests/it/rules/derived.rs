//! Random lives of the simulation: its audit compares what is derived with the plain definitions after every event. The
//! seeds are fixed, so that the mutants that only this catches are caught each time.

use aot_testkit::batch;
use aot_testkit::life::Past;

#[test]
fn what_is_derived_equals_its_definition_in_random_lives() {
    let lives = std::env::var("LIVES").ok().and_then(|lives| lives.parse().ok()).unwrap_or(3000);
    let tally = batch::lives(0..lives);
    if let Some(failed) = tally.failed.first() {
        panic!("{}", failed.report());
    }
}

#[test]
fn so_it_does_where_the_expected_times_order_the_starts() {
    let tally = batch::lives_knowing(0..1_000, Past::Known);
    if let Some(failed) = tally.failed.first() {
        panic!("{}", failed.report());
    }
}
