//! The cases that broke a naive reading of the rules, by their number in `docs/decisions`.

use super::world::table;

#[test]
fn smoke() {
    table(&[
        ("D1", "A4|A5; A6 <- A4", "A4- A5+", "#2 stall 0 | A6"),
        ("D14", "A", "v+", "#0 stall 0 halt completed"),
        ("D7", "A; B <- A", "A+ B+ v+", "#2 stall 0 halt completed | done A B"),
    ]);
}
