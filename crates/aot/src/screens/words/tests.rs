use aot_core::rules::Change;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::{concerns, sentence};
use crate::screens::clock;

/// Changes as the journal writes them, recorded in one step, and the lines that people are told.
fn check(changes: Value, expected: &[&str]) {
    let changes: Vec<Change> = serde_json::from_value(changes.clone()).unwrap_or_else(|error| {
        panic!("{error}: {changes}");
    });
    let lines: Vec<String> = changes.iter().filter_map(|change| sentence(change, &changes)).collect();
    assert_eq!(lines, expected, "{changes:?}");
}

#[test]
fn every_change_in_plain_words() {
    let binding = json!({"summary": "There is\na user model", "artifacts": []});
    let entry = json!({"choices": ["A3", "A4"], "selected": "A3", "failed": []});
    let atom = json!({"id": "A6", "description": "The route", "status": "pending", "depends_on": []});
    let said = json!({"item": "It reads well", "by": "Ada", "at": "2026-11-15T10:00:00Z", "tree": "t"});
    let denied = json!({"item": "It reads well", "by": "Ada", "at": "2026-11-15T10:00:00Z", "tree": "t", "holds": false});
    let until = "2026-11-15T10:00:00Z";
    // As clocks show it where the test runs.
    let then = clock::time(until.parse().expect("a time"), &TimeZone::system());
    let parked = format!("nothing can start; the next try is at {then}");
    let parked_by_disk = format!("{parked}: no space left on device");
    for (change, expected) in [
        (json!({"type": "loop_named", "id": "01k"}), ""),
        (json!({"type": "loop_started"}), "the loop starts"),
        (json!({"type": "status_restored"}), "a status typed into the file was not believed"),
        (json!({"type": "session_taken", "session": "s"}), "a host's session took the loop"),
        (json!({"type": "session_taken", "session": null}), "the host's session let the loop go"),
        (json!({"type": "stop_requested", "reason": "lunch"}), "a stop was asked for: lunch"),
        (json!({"type": "stop_requested", "reason": null}), "a stop was asked for"),
        (json!({"type": "redirect_requested"}), "a redirect begins: everything is interrupted"),
        (json!({"type": "redirect_ended"}), "the redirect is over"),
        (
            json!({"type": "stopped", "reason": "time is up: 8h of wall time"}),
            "the loop stopped: time is up: 8h of wall time",
        ),
        (json!({"type": "completed"}), "the goal is proven done"),
        (json!({"type": "parked", "until": until}), parked.as_str()),
        (
            json!({"type": "parked", "until": until, "reason": "no space left on device"}),
            parked_by_disk.as_str(),
        ),
        (json!({"type": "unparked"}), "starts are tried again"),
        (json!({"type": "iteration_taken_back"}), ""),
        (
            json!({"type": "atom_not_started", "atom": "A1", "reason": "no space left on device"}),
            "A1 could not be started: no space left on device",
        ),
        (json!({"type": "spent_so_far", "spent": {}}), ""),
        (json!({"type": "iteration_opened"}), "the next iteration begins"),
        (json!({"type": "result_counted"}), ""),
        (
            json!({"type": "iteration_closed", "unresolved": 4, "stall_count": 0}),
            "the iteration ends: 4 unresolved",
        ),
        (
            json!({"type": "iteration_closed", "unresolved": 4, "stall_count": 1}),
            "the iteration ends: 4 unresolved, stalled once",
        ),
        (
            json!({"type": "iteration_closed", "unresolved": 4, "stall_count": 2}),
            "the iteration ends: 4 unresolved, stalled 2 times in a row",
        ),
        (json!({"type": "stall_cleared"}), "something was resolved: the stalls are forgotten"),
        (json!({"type": "count_moved", "by": 2}), ""),
        (json!({"type": "atom_added", "atom": atom}), "A6 is new: The route"),
        (json!({"type": "atom_removed", "atom": "A6"}), "A6 is removed"),
        (json!({"type": "atom_started", "atom": "A6", "attempt": 3}), "A6 starts in iteration 3"),
        (json!({"type": "atom_started", "atom": "A6", "attempt": null}), "A6 starts"),
        (
            json!({"type": "atom_resolved", "atom": "A1", "binding": binding}),
            "A1 is resolved: There is a user model",
        ),
        (json!({"type": "atom_reset", "atom": "A1"}), "A1 will be done again"),
        (
            json!({"type": "result_not_believed", "atom": "A1", "status": "in_progress"}),
            "A1 was typed into the file as resolved, and was not believed",
        ),
        (
            json!({"type": "atom_returned", "atom": "A1", "reason": "a conflict"}),
            "A1 is returned without a failure: a conflict",
        ),
        (json!({"type": "dependencies_set", "atom": "A1", "depends_on": []}), "A1 waits for nothing now"),
        (
            json!({"type": "dependencies_set", "atom": "A1", "depends_on": ["A2", "A3"]}),
            "A1 waits for A2, A3 now",
        ),
        (
            json!({"type": "binding_set", "atom": "A1", "binding": binding}),
            "A1 has another result: There is a user model",
        ),
        (json!({"type": "failure_noted", "atom": "A1", "reason": "tests red"}), "A1 failed: tests red"),
        (
            json!({"type": "replan_noted", "atom": "A1", "reason": "too large"}),
            "A1 has another plan: too large",
        ),
        (
            json!({"type": "decomposed", "parent": "A2", "children": ["A3", "A4"], "reason": "too large"}),
            "A2 is decomposed into A3, A4: too large",
        ),
        (json!({"type": "child_added", "parent": "A2", "child": "A5"}), "A2 has one more part, A5"),
        (json!({"type": "child_removed", "parent": "A2", "child": "A5"}), "A5 is no longer part of A2"),
        (json!({"type": "decomposition_withdrawn", "parent": "A2"}), "A2 is whole again"),
        (
            json!({"type": "group_added", "group": "g", "entry": entry}),
            "g has 2 ways, A3, A4; A3 comes first",
        ),
        (json!({"type": "group_removed", "group": "g"}), "g is no longer a group"),
        (json!({"type": "choice_added", "group": "g", "choice": "A5"}), "g has one more way, A5"),
        (json!({"type": "choice_removed", "group": "g", "choice": "A5"}), "A5 is no longer a way of g"),
        (
            json!({"type": "speculation_set", "group": "g", "speculative": true}),
            "the choices of g are tried at once",
        ),
        (
            json!({"type": "speculation_set", "group": "g", "speculative": false}),
            "the choices of g are tried one after the other",
        ),
        (
            json!({"type": "choices_ordered", "group": "g", "choices": ["A4", "A3"]}),
            "g tries its ways in the order A4, A3",
        ),
        (json!({"type": "choice_failed", "group": "g", "choice": "A3"}), "g gives A3 up"),
        (json!({"type": "choice_forgiven", "group": "g", "choice": "A3"}), "g may try A3 again"),
        (
            json!({"type": "choice_selected", "group": "g", "choice": "A4", "reason": "JWT is simpler"}),
            "g switches to A4: JWT is simpler",
        ),
        (
            json!({"type": "choice_selected", "group": "g", "choice": "A4", "reason": "Auto-backtrack: A3 failed", "cause": {"kind": "failed", "atom": "A3"}}),
            "A3 failed; g switches to A4",
        ),
        (
            json!({"type": "choice_selected", "group": "g", "choice": "A4", "reason": "Auto-backtrack: A3 was given up (A9 rests on it and keeps failing)", "cause": {"kind": "abandoned", "atom": "A3", "reason": "A9 rests on it and keeps failing"}}),
            "A3 was given up: A9 rests on it and keeps failing; g switches to A4",
        ),
        (
            json!({"type": "choice_selected", "group": "g", "choice": "A4", "reason": "Auto-backtrack: A3 failed"}),
            "g switches to A4: Auto-backtrack: A3 failed",
        ),
        (json!({"type": "goal_set", "goal": "Ship it"}), "the goal is another one: Ship it"),
        (
            json!({"type": "base_case_set", "base_case": {"type": "command", "value": "true"}}),
            "the checks were changed",
        ),
        (json!({"type": "background_intent_set", "background_intent": "x"}), "the background is another one"),
        (json!({"type": "deliverables_set", "deliverables": "x"}), "the deliverables are others: x"),
        (
            json!({"type": "definition_of_done_set", "definition_of_done": "x"}),
            "done means something else: x",
        ),
        (json!({"type": "protected_set", "protected": []}), "no file is protected any more"),
        (json!({"type": "protected_set", "protected": ["tests/**"]}), "protected are tests/**"),
        (
            json!({"type": "constraints_set", "constraints": {"max_iterations": 1, "max_parallel_agents": 1, "max_stall_count": 1}}),
            "the limits are others",
        ),
        (json!({"type": "trail_cleared"}), "the history of failures is forgotten"),
        (json!({"type": "trail_pruned", "groups": ["g", "h"]}), "the history of g, h is forgotten"),
        (json!({"type": "user_corrected", "description": "x"}), ""),
        (
            json!({"type": "correction_noted", "kind": "dag_adjustment", "description": "A7 removed", "trail_cleared": false}),
            "a person changed the graph: A7 removed",
        ),
        (json!({"type": "verified", "fruitless": 0, "fewest_red": 2}), "the checks are red"),
        (
            json!({"type": "verified", "fruitless": 2, "fewest_red": 2}),
            "the checks are red, no better than before 2 times in a row",
        ),
        (
            json!({"type": "fingerprint_taken", "fingerprint": {"base_case": "a", "protected": "b"}}),
            "recorded fingerprints of the checks and protected files",
        ),
        (json!({"type": "item_confirmed", "confirmation": said}), "Ada confirmed: It reads well"),
        (json!({"type": "item_confirmed", "confirmation": denied}), "Ada denied: It reads well"),
        (
            json!({"type": "confirmation_withdrawn", "item": "It reads well"}),
            "no longer confirmed: It reads well",
        ),
    ] {
        let expected: Vec<&str> = [expected].into_iter().filter(|line| !line.is_empty()).collect();
        check(json!([change]), &expected);
    }
}

#[test]
fn what_belongs_together_is_one_line() {
    check(
        json!([
            {"type": "atom_reset", "atom": "A3"},
            {"type": "choice_failed", "group": "tokens", "choice": "A3"},
            {"type": "choice_selected", "group": "tokens", "choice": "A4", "reason": "Auto-backtrack: A3 failed (tests red (2 of 9))", "cause": {"kind": "failed", "atom": "A3", "reason": "tests red (2 of 9)"}},
        ]),
        &["A3 failed: tests red (2 of 9); tokens switches to A4"],
    );
    // A failure below a choice, which fails the choice; the work of another atom is undone with it.
    check(
        json!([
            {"type": "atom_reset", "atom": "A7"},
            {"type": "failure_noted", "atom": "A7", "reason": "tests red"},
            {"type": "choice_failed", "group": "g", "choice": "A4"},
            {"type": "choice_selected", "group": "g", "choice": "A5", "reason": "Auto-backtrack: A4 failed (tests red)", "cause": {"kind": "failed", "atom": "A4", "reason": "tests red"}},
            {"type": "atom_reset", "atom": "A6"},
        ]),
        &["A7 failed: tests red", "A4 failed: tests red; g switches to A5", "A6 will be done again"],
    );
    // The last choice.
    check(
        json!([
            {"type": "atom_reset", "atom": "A4"},
            {"type": "choice_failed", "group": "g", "choice": "A4"},
            {"type": "failure_noted", "atom": "A4", "reason": "tests red"},
            {"type": "stopped", "reason": "OR group exhausted: g"},
        ]),
        &["A4 failed: tests red", "the loop stopped: OR group exhausted: g"],
    );
    check(
        json!([{"type": "iteration_opened"}, {"type": "atom_started", "atom": "A1", "attempt": 4}]),
        &["iteration 4 begins", "A1 starts in iteration 4"],
    );
}

#[test]
fn a_selection_is_about_the_choice_it_gives_up_too() {
    let changes = json!([
        {"type": "choice_failed", "group": "tokens", "choice": "A3"},
        {"type": "choice_failed", "group": "other", "choice": "B1"},
        {"type": "choice_selected", "group": "tokens", "choice": "A4", "reason": "r"},
    ]);
    let changes: Vec<Change> = serde_json::from_value(changes).expect("changes");
    let about: Vec<&str> = concerns(&changes[2], &changes).into_iter().map(|id| id.as_str()).collect();
    assert_eq!(about, ["A4", "A3"]);
}
