//! The contract as data: each line takes a good file, spoils one thing, and says what the reader finds and where.

use aot_core::contract::{self, Severity};
use aot_core::state::StopKind;
use aot_testkit::fixtures::{COMPLETE, INITIAL_CHECKLIST, INITIAL_LEGACY, with_graph};

fn findings(text: &str) -> Vec<String> {
    let listed = match contract::read(text.as_bytes().to_vec()) {
        Ok(reading) => reading.findings,
        Err(finding) => vec![finding],
    };
    let mut lines = Vec::new();
    for finding in listed {
        let mark = match finding.severity {
            Severity::Error => "error",
            Severity::Incomplete => "incomplete",
            Severity::Warning => "warning",
        };
        assert!(!finding.message.is_empty() && !finding.hint.is_empty(), "{finding:?}");
        lines.push(format!("{mark} {} {}:{}", finding.code, finding.place.line, finding.place.column));
    }
    lines
}

/// Replaces one thing in the complete example and compares what is found, besides the example's own warning.
fn check(from: &str, to: &str, expected: &str) {
    assert_eq!(COMPLETE.matches(from).count(), 1, "`{from}` should stand once in the example");
    let mut found = findings(&COMPLETE.replacen(from, to, 1));
    found.retain(|line| !line.starts_with("warning choice_without_atom"));
    assert_eq!(found.join(", "), expected, "after `{from}` -> `{to}`");
}

#[test]
fn the_contracts_examples_are_valid() {
    assert_eq!(findings(COMPLETE), ["warning choice_without_atom 104:19"]);
    assert!(findings(INITIAL_LEGACY).is_empty());
    assert!(findings(INITIAL_CHECKLIST).is_empty());
    let plain = INITIAL_LEGACY.replace("decompositions: []\nor_groups: {}\n", "");
    assert_ne!(plain, INITIAL_LEGACY);
    assert!(findings(&plain).is_empty(), "nothing was decomposed, and nothing has alternatives");
}

#[test]
fn facts_beside_sentences_are_read_and_written() {
    let fact = "  iteration: 5\n  verdict: {kind: exhausted, group: token_method}";
    let text = COMPLETE.replacen("  iteration: 5", fact, 1);
    let reading = contract::read(text.into_bytes()).expect("it is a document");
    let old = reading.state.expect("it is valid");
    assert_eq!(old.control.verdict, Some(StopKind::Exhausted { group: "token_method".into() }));
    let mut new = old.clone();
    new.control.verdict = Some(StopKind::Deadlock { atoms: vec!["A1".into(), "A2".into()] });
    let written = contract::write(&reading.document, &old, &new).expect("it can be said");
    let again = contract::read(written.into_text().into_bytes()).expect("it is a document");
    assert_eq!(again.state, Some(new));
    // One that a newer program wrote is no mistake.
    check("  iteration: 5", "  iteration: 5\n  verdict: {kind: of_tomorrow}", "");
}

#[test]
fn mistakes_of_yaml_have_their_place() {
    check("  goal: \"Let people log in\"", "  goal: \"Let people log in", "error invalid_yaml 6:3");
    check("  iteration: 5", "  iteration: 5\n  iteration: 6", "error duplicate_key 61:3");
    check("  iteration: 5", "  iteration: &a 5", "error anchor 60:17");
    check("  iteration: 5", "  iteration: *a", "error alias 60:14");
    check("  iteration: 5", "  iteration: !!int 5", "error tag 60:20");
    check("corrections: []\n---\n", "corrections: []\n", "error no_closing_fence 1:1");
    check("# === Objective ===", "%YAML 1.2", "error directive 2:1");
}

#[test]
fn what_is_missing_or_empty_has_its_place() {
    check("objective:\n", "objectives:\n", "warning unknown_key 3:1, error missing 3:1");
    check("control:\n", "controls:\n", "error missing 3:1, warning unknown_key 58:1");
    check("# === Trail ===\ntrail:\n", "trails:\n", "error missing 3:1, warning unknown_key 117:1");
    check("corrections: []\n", "", "error missing 3:1");
    check(
        "bindings:\n",
        "results:\n",
        "error missing 3:1, warning no_binding 71:13, warning no_binding 81:13",
    );
    check("  goal: \"Let people log in\"\n", "", "incomplete missing 6:3");
    check("goal: \"Let people log in\"", "goal: \"\"", "incomplete empty 4:9");
    check("goal: \"Let people log in\"", "goal:", "incomplete missing 4:8");
    check("\"Existing users need accounts that work\"", "\" \"", "incomplete empty 49:22");
    check("  deliverables: \"A login API that hands out tokens\"\n", "", "incomplete missing 4:3");
    check("  definition_of_done: \"The login tests are green\"\n", "", "incomplete missing 4:3");
    check("  iteration: 5\n", "", "error missing 59:3");
    check("    description: \"The user model\"\n", "", "error missing 69:5");
    check("    description: \"The user model\"", "    description: \"\"", "error empty 70:18");
    check(
        "    description: \"The user model\"\n",
        "    descripton: \"The user model\"\n",
        "error missing 69:5, warning unknown_key 70:5",
    );
    check("    reason: \"Hashing and tokens are separate work\"\n", "", "error missing 97:5");
    check("    selected: A4\n    failed", "    failed", "error missing 104:5");
    check("    summary: \"There is a User model\"\n", "", "error missing 111:5");
    check("    artifacts: [\"src/models/user.ts\"]\n", "", "error missing 111:5");
    check("          pass_threshold: 3.5\n", "", "error missing 33:11");
}

#[test]
fn what_the_program_owns_may_be_missing_until_the_loop_has_begun() {
    let cut = |text: &str, from: &str, to: &str| {
        let (before, rest) = text.split_once(from).expect("it begins");
        let (_, after) = rest.split_once(to).expect("it ends");
        format!("{before}{to}{after}")
    };
    let bare = cut(INITIAL_CHECKLIST, "control:\n", "atoms:\n");
    assert_eq!(findings(&bare).len(), 1, "{:?}", findings(&bare));
    let bare = cut(&bare, "bindings:", "---\n");
    assert_eq!(findings(&bare), ["warning default_taken 2:1"]);
    let reading = contract::read(bare.into_bytes()).expect("it is a document");
    let old = reading.state.expect("it is valid");
    assert_eq!((old.control.prev_pending_count, old.control.iteration), (-1, 0));
    // What is filled in can be written.
    let mut new = old.clone();
    new.control.iteration = 1;
    new.trail.push(aot_core::state::TrailEntry::Replan {
        atom: "A1".into(),
        reason: "it grew".into(),
        timestamp: aot_core::state::Stamp::parse("2026-01-01T00:00:00Z").expect("a time"),
    });
    let written = contract::write(&reading.document, &old, &new).expect("it can be said");
    assert_eq!(
        contract::read(written.into_text().into_bytes()).expect("a document").state,
        Some(new.clone())
    );
    // All of it is written with the first change, so that the loop can begin with the next.
    new.control.status = aot_core::state::LoopStatus::Running;
    let written = contract::write(&reading.document, &old, &new).expect("it can be said").into_text();
    assert!(
        ["\nbindings:", "\ncorrections:", "\n  stall_count: 0\n"].iter().all(|key| written.contains(key)),
        "{written}"
    );
    assert_eq!(contract::read(written.into_bytes()).expect("a document").state, Some(new));
}

#[test]
fn wrong_types_and_words_have_their_place() {
    check("  goal: \"Let people log in\"", "  goal: 42", "error wrong_type 4:9");
    check("  goal: \"Let people log in\"", "  goal: [a]", "error wrong_type 4:9");
    check("  stop_requested: false", "  stop_requested: no", "error wrong_type 63:19");
    check("  iteration: 5", "  iteration: five", "error wrong_type 60:14");
    check("  iteration: 5", "  iteration: -5", "error negative 60:14");
    check("  iteration: 5", "  iteration: 99999999999", "error too_large 60:14");
    check("    max_iterations: 20", "    max_iterations: -1", "error negative 53:21");
    check("    max_parallel_agents: 3", "    max_parallel_agents: 0", "error too_small 54:26");
    check("    max_parallel_agents: 3", "    max_parallel_agents: 1025", "error too_large 54:26");
    check("  prev_pending_count: 3 ", "  prev_pending_count: -2 ", "error negative 62:23");
    check("status: running ", "status: runing ", "error bad_value 59:11");
    check("status: in_progress\n", "status: done\n", "error bad_value 86:13");
    check(
        "    artifacts: [\"src/models/user.ts\"]\n",
        "    artifacts: [\"src/models/user.ts\"]\n    commit: [1a2b3c4]\n",
        "error wrong_type 113:13",
    );
    check(
        "    artifacts: [\"src/models/user.ts\"]\n",
        "    artifacts: [\"src/models/user.ts\"]\n    commit: 1234567\n",
        "",
    );
    check("    depends_on: [A3, A4] ", "    depends_on: A3 ", "error wrong_type 93:17");
    check("    depends_on: [A3, A4] ", "    depends_on: [A3, 4] ", "error wrong_type 93:22");
    check("              type: not_command\n", "              type: not_comand\n", "error bad_value 28:21");
    check("timestamp: \"2025-01-15T10:00:00Z\"", "timestamp: \"yesterday\"", "error bad_timestamp 122:16");
    check("timestamp: \"2025-01-15T10:00:00Z\"", "timestamp: 2025-13-01", "error bad_timestamp 122:16");
    check("timestamp: \"2025-01-15T10:00:00Z\"", "timestamp: 2025-01-15", "");
    check(
        "    max_stall_count: 3\n",
        "    max_stall_count: 3\n    agent_timeout: soon\n",
        "error bad_span 56:20",
    );
    check(
        "    max_stall_count: 3\n",
        "    max_stall_count: 3\n    max_cost_usd: -1\n",
        "error negative 56:19",
    );
    check(
        "    max_stall_count: 3\n",
        "    max_stall_count: 3\n    max_wall_time: 8h\n    max_cost_usd: 2.5\n",
        "",
    );
    check(
        "# === Work Graph ===\natoms:\n",
        "atoms: {}\nolder_atoms:\n",
        "error wrong_type 67:8, error unknown_parent 97:13, error unknown_child 98:16, error unknown_child 98:20, error selected_without_atom 105:15, warning unknown_binding 111:5, warning unknown_binding 114:5",
    );
    check(
        "corrections: []\n",
        "corrections:\n  - {timestamp: \"2025-01-15T10:00:00Z\", type: whim, description: x, trail_cleared: maybe}\n",
        "error bad_value 126:47, error wrong_type 126:84",
    );
}

#[test]
fn references_that_lead_nowhere_have_their_place() {
    check("    depends_on: [A3, A4] ", "    depends_on: [A3, A9] ", "error unknown_dependency 93:22");
    check("  - id: A5", "  - id: A1", "error duplicate_id 90:9");
    check("  - id: A5", "  - id: A 5", "error bad_id 90:9");
    check("  - parent: A2", "  - parent: A8", "error unknown_parent 97:13");
    check("    children: [A3, A4]", "    children: [A3, A4, A8]", "error unknown_child 98:24");
    check("    children: [A3, A4]", "    children: []", "error empty 98:15");
    check(
        "    reason: \"Hashing and tokens are separate work\"\n",
        "    reason: x\n  - {parent: A5, children: [A3], reason: y}\n",
        "error two_parents 100:29",
    );
    check(
        "    selected: A4\n    failed",
        "    selected: A3\n    failed",
        "error selected_not_a_choice 105:15",
    );
    check(
        "    selected: A4\n    failed",
        "    selected: A4_alt\n    failed",
        "error selected_without_atom 105:15",
    );
    check(
        "    choices: [A4, A4_alt]",
        "    choices: [A4_alt, A3]",
        "error not_listed 88:15, warning or_group_missing 104:23, error selected_not_a_choice 105:15",
    );
    check("    choices: [A4, A4_alt]", "    choices: []", "error not_listed 88:15, error empty 104:14");
    check("    choices: [A4, A4_alt]", "    choices: [A4, A4]", "error duplicate_choice 104:15");
    check("    failed: []", "    failed: [A3]", "error failed_not_a_choice 106:14");
    check("    or_group: token_method  ", "    or_group: token_metod  ", "error unknown_group 88:15");
}

#[test]
fn statuses_that_contradict_have_their_place() {
    check(
        "    description: \"The login logic\"\n    status: pending",
        "    description: \"The login logic\"\n    status: resolved",
        "error parent_resolved_early 76:13, warning no_binding 76:13",
    );
    check(
        "    description: \"The login logic\"\n    status: pending",
        "    description: \"The login logic\"\n    status: in_progress",
        "warning parent_in_progress 76:13",
    );
    check(
        "    description: \"The login route\"\n    status: pending",
        "    description: \"The login route\"\n    status: in_progress",
        "warning started_early 92:13",
    );
    check(
        "    failed: []              # what backtracking has given up\n",
        "",
        "warning default_taken 104:5",
    );
    check("    max_stall_count: 3\n", "", "warning default_taken 53:5");
    check("  A3:\n", "  A5:\n", "warning no_binding 81:13, warning binding_unresolved 114:5");
    check("  A3:\n", "  A9:\n", "warning no_binding 81:13, warning unknown_binding 114:5");
}

fn check_graph(graph: &str, expected: &str) {
    let found = contract::read(with_graph(graph).into_bytes()).expect("the graph is YAML").findings;
    let found: Vec<String> =
        found.iter().map(|finding| format!("{}: {}", finding.code, finding.message)).collect();
    assert_eq!(found.join("; "), expected, "in\n{graph}");
}

fn atoms(list: &[&str]) -> String {
    let mut text = String::from("atoms:\n");
    for atom in list {
        let (id, depends_on) = atom.split_once(" <- ").unwrap_or((atom, ""));
        text += &format!("- {{id: {id}, description: d, status: pending, depends_on: [{depends_on}]}}\n");
    }
    text
}

#[test]
fn cycles_are_found_over_waits_for_and_printed() {
    check_graph(&atoms(&["A", "B <- A", "C <- A, B"]), "");
    check_graph(&atoms(&["A <- A"]), "cycle: these wait for one another: A -> A");
    check_graph(
        &atoms(&["A <- C", "B <- A", "C <- B"]),
        "cycle: these wait for one another: A -> C -> B -> A",
    );
    // A parent waits for its children, so a child cannot wait for its parent.
    check_graph(
        &(atoms(&["A", "B <- A"]) + "decompositions: [{parent: A, children: [B], reason: r}]\n"),
        "cycle: these wait for one another: A -> B -> A",
    );
    // What a parent depends on holds for its children too.
    check_graph(
        &(atoms(&["P <- X", "C", "X <- C"]) + "decompositions: [{parent: P, children: [C], reason: r}]\n"),
        "cycle: these wait for one another: C -> X -> C",
    );
    // A ring of parents.
    check_graph(
        &(atoms(&["A", "B"])
            + "decompositions: [{parent: A, children: [B], reason: r}, {parent: B, children: [A], reason: r}]\n"),
        "cycle: these wait for one another: B -> A -> B",
    );
    // Through the selected choice it is an error, through another one a warning.
    check_graph(
        &(atoms(&["A <- X", "B", "X <- A"]) + "or_groups: {G: {choices: [A, B], selected: A, failed: []}}\n"),
        "cycle: these wait for one another: A -> X -> G -> A; or_group_missing: atom `A` is a choice of `G`, but does not name its group; or_group_missing: atom `B` is a choice of `G`, but does not name its group",
    );
    check_graph(
        &(atoms(&["A <- X", "B", "X <- A"]) + "or_groups: {G: {choices: [A, B], selected: B, failed: []}}\n"),
        "cycle_on_switch: another choice would make these wait for one another: A -> X -> G -> A; or_group_missing: atom `A` is a choice of `G`, but does not name its group; or_group_missing: atom `B` is a choice of `G`, but does not name its group",
    );
    // A dependency on a choice means its group, and two knots are both told.
    check_graph(
        &atoms(&["A <- B", "B <- A", "C <- D", "D <- C"]),
        "cycle: these wait for one another: A -> B -> A; cycle: these wait for one another: C -> D -> C",
    );
}

#[test]
fn hostile_text_is_refused_with_its_place() {
    fn check(text: &str, expected: &str) {
        let found = contract::read(text.as_bytes().to_vec()).expect_err("the text is hostile");
        assert_eq!(format!("{} {}", found.code, found.place), expected, "in {text:.40}: {found:?}");
    }
    check(&format!("---\na: {}{}\n---\n", "[".repeat(10_000), "]".repeat(10_000)), "too_deep 2:70");
    check(&format!("---\n{}\n---\n", "- ".repeat(10_000)), "too_deep 2:129");
    check("", "no_opening_fence 1:1");
    check("no frontmatter", "no_opening_fence 1:1");
    check("---\n- a\n---\n", "not_a_mapping 2:1");
    check("---\n---\n", "empty_frontmatter 2:1");
    check("---\na: 1\n", "no_closing_fence 1:1");
    check("---\na: \u{0}\n---\n", "nul_byte 2:4");
    check("---\n? [a, b]\n: c\n---\n", "key_not_scalar 2:3");
    check("---\na: 1\n...\nb: 2\n---\n", "several_documents 3:1");
    let found = contract::read(b"---\ngoal: \xff\n---\n".to_vec()).expect_err("not UTF-8");
    assert_eq!((&*found.code, found.place.line, found.place.column), ("not_utf8", 2, 7));
}
