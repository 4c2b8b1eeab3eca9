use aot_core::rules::Change;
use aot_runner::store::journal::JournalEntry;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{slots, timeline};

/// An entry that was written so many microseconds after the beginning.
fn entry(at: i64, changes: Value) -> JournalEntry<Change> {
    let changes =
        serde_json::from_value(changes.clone()).unwrap_or_else(|error| panic!("{error}: {changes}"));
    JournalEntry {
        revision: 1,
        at: moment(at).to_string(),
        from: String::new(),
        hash: String::new(),
        changes,
    }
}

fn moment(at: i64) -> Timestamp {
    Timestamp::from_microsecond(1_700_000_000_000_000 + at).expect("a time")
}

fn started(atom: &str) -> Value {
    json!({"type": "atom_started", "atom": atom, "attempt": 1})
}

/// Entries, and the spans that they come to: name, beginning, end, outcome, reason.
fn check(entries: &[(i64, Value)], expected: &[&str]) {
    let entries: Vec<_> = entries.iter().map(|(at, changes)| entry(*at, changes.clone())).collect();
    let zero = moment(0).as_microsecond();
    let spans = timeline(&entries, moment(1_000)).spans;
    let told = spans.iter().map(|span| {
        let word = |key: &str| span.args.get(key).and_then(Value::as_str).map(|word| format!(" {word}"));
        let said = word("outcome").unwrap_or_default() + &word("reason").unwrap_or_default();
        format!("{} {}..{}{said}", span.name, span.from - zero, span.to - zero)
    });
    assert_eq!(told.collect::<Vec<String>>(), expected, "{entries:?}");
}

#[test]
fn attempts_end_with_what_ends_them() {
    let ends = |end: Value, expected: &str| check(&[(1, json!([started("A1")])), (8, end)], &[expected]);
    let reset = json!({"type": "atom_reset", "atom": "A1"});
    let failed = json!({"type": "failure_noted", "atom": "A1", "reason": "exit 1\n\u{1b}[31mred\u{7}"});
    let given_up = json!({"type": "choice_failed", "group": "g", "choice": "A1"});
    let cause = json!({"kind": "failed", "atom": "A1", "reason": "no"});
    let switch =
        json!({"type": "choice_selected", "group": "g", "choice": "A2", "reason": "r", "cause": cause});
    ends(
        json!([{"type": "atom_resolved", "atom": "A1", "binding": {"summary": "s", "artifacts": []}}]),
        "A1 1..8 resolved",
    );
    ends(json!([reset]), "A1 1..8 reset");
    ends(json!([failed]), "A1 1..8 failed exit 1\nred");
    ends(json!([reset, failed]), "A1 1..8 failed exit 1\nred");
    ends(json!([failed, reset]), "A1 1..8 failed exit 1\nred");
    ends(json!([reset, given_up, switch]), "A1 1..8 failed no");
    ends(json!([{"type": "atom_returned", "atom": "A1", "reason": "conflict"}]), "A1 1..8 returned conflict");
    ends(json!([{"type": "atom_not_started", "atom": "A1", "reason": "full"}]), "A1 1..8 not started full");
    ends(json!([{"type": "atom_removed", "atom": "A1"}]), "A1 1..8 removed");
    ends(json!([{"type": "completed"}]), "A1 1..8 ended with the loop");
    ends(json!([{"type": "result_counted"}]), "A1 1..1000 open");
}

#[test]
fn one_entry_may_end_an_attempt_and_begin_the_next() {
    let failed = json!({"type": "failure_noted", "atom": "A1", "reason": "no"});
    let reset = json!({"type": "atom_reset", "atom": "A1"});
    check(
        &[(1, json!([started("A1")])), (5, json!([failed, reset, started("A1")])), (7, json!([reset]))],
        &["A1 1..5 failed no", "A1 5..7 reset"],
    );
    check(
        &[(1, json!([started("A1")])), (5, json!([started("A1")]))],
        &["A1 1..5 not in the journal", "A1 5..1000 open"],
    );
    check(&[(5, json!([started("A1")])), (1, json!([reset]))], &["A1 5..5 reset"]);
}

#[test]
fn runs_iterations_and_waits() {
    let parked = json!({"type": "parked", "until": "2026-11-15T10:00:00Z", "reason": "no network"});
    check(
        &[
            (1, json!([{"type": "loop_started"}])),
            (2, json!([{"type": "iteration_opened"}, started("A1")])),
            (4, json!([parked])),
            (6, json!([{"type": "unparked"}])),
            (7, json!([{"type": "iteration_closed", "unresolved": 1, "stall_count": 0}])),
            (9, json!([{"type": "stopped", "reason": "by hand"}])),
        ],
        &[
            "run 1..9 stopped by hand",
            "iteration 1 2..7 closed",
            "A1 2..9 ended with the loop",
            "waiting 4..6 over no network",
        ],
    );
}

#[test]
fn intervals_get_the_lowest_free_slot() {
    for (intervals, expected) in [
        (vec![], vec![]),
        (vec![(0, 5), (5, 9)], vec![0, 0]),
        (vec![(0, 5), (4, 9), (5, 6), (6, 7)], vec![0, 1, 0, 0]),
        (vec![(0, 9), (1, 3), (2, 4), (3, 5), (4, 6)], vec![0, 1, 2, 1, 2]),
        (vec![(4, 9), (0, 5)], vec![1, 0]),
        (vec![(1, 1), (1, 1)], vec![0, 0]),
    ] {
        assert_eq!(slots(&intervals), expected, "{intervals:?}");
    }
}
