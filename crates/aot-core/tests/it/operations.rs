//! The contract's before/after examples as operations, and the operations' refusals. Every case writes the result
//! into the text and reads it back, so that the file is tested with the rule.

use aot_core::contract;
use aot_core::rules::advance::{self, AttemptNumber, Proof};
use aot_core::rules::{Ledger, Refusal, backtrack, decompose, reshape};
use aot_core::state::{AtomId, AtomStatus, Binding, GroupName, LoopStatus, NewAtom, State, TrailEntry};
use aot_testkit::fixtures::{COMPLETE, with_graph};

fn now() -> jiff::Timestamp {
    "2026-01-15T11:00:00Z".parse().expect("a timestamp")
}

fn state_of(text: &str) -> State {
    let reading = contract::read(text.as_bytes().to_vec()).expect("legible");
    reading.state.unwrap_or_else(|| panic!("{:#?}", reading.findings))
}

/// Works on a text with rules, writes the changed state into it, and returns the new text.
fn work<T>(text: &str, with: impl FnOnce(&mut Ledger) -> Result<T, Refusal>) -> Result<(String, T), Refusal> {
    let reading = contract::read(text.as_bytes().to_vec()).expect("legible");
    let before = reading.state.unwrap_or_else(|| panic!("{:#?}", reading.findings));
    let mut ledger = Ledger::open(before.clone(), now());
    let outcome = with(&mut ledger)?;
    let (after, _) = ledger.close();
    let written = contract::write(&reading.document, &before, &after).expect("the change can be written");
    written.check_consistency().expect("the tree agrees with the text");
    assert_eq!(state_of(written.text()), after);
    Ok((written.into_text(), outcome))
}

fn start(ledger: &mut Ledger, id: &str) -> Result<(), Refusal> {
    advance::start(ledger, &AtomId::new(id), AttemptNumber::Uncounted)
}

fn resolve(ledger: &mut Ledger, id: &str, summary: &str, artifacts: &[&str]) -> Result<(), Refusal> {
    let artifacts = artifacts.iter().map(|path| path.to_string()).collect();
    let binding = Binding { summary: summary.into(), artifacts, ..Binding::default() };
    advance::resolve(ledger, &AtomId::new(id), binding, Proof::None)
}

fn fail(ledger: &mut Ledger, id: &str, reason: &str) -> Result<backtrack::FailureOutcome, Refusal> {
    backtrack::fail(ledger, &AtomId::new(id), reason)
}

fn switch(ledger: &mut Ledger, group: &str, choice: &str) -> Result<(), Refusal> {
    backtrack::switch(ledger, &GroupName::new(group), &AtomId::new(choice), "by hand")
}

fn children(descriptions: &[&str]) -> Vec<NewAtom> {
    let new = |text: &&str| NewAtom { description: text.to_string(), ..NewAtom::default() };
    descriptions.iter().map(new).collect()
}

/// Lines of `after` that are not in `before` and the other way round, in their order.
fn difference(before: &str, after: &str) -> String {
    let gone =
        before.lines().filter(|line| !after.lines().any(|other| other == *line)).map(|l| format!("- {l}"));
    let come =
        after.lines().filter(|line| !before.lines().any(|other| other == *line)).map(|l| format!("+ {l}"));
    gone.chain(come).collect::<Vec<_>>().join("\n")
}

#[test]
fn decomposing_copies_dependencies_and_keeps_the_parent() {
    let before = with_graph(
        "atoms:\n  - id: A1\n    description: \"The user model\"\n    status: pending\n    depends_on: []\n  \
         - id: A2\n    description: \"The login logic\"\n    status: pending\n    depends_on: [A1]\n",
    );
    let (after, added) = work(&before, |ledger| {
        let new = children(&["Hashing of passwords", "Making of tokens"]);
        decompose::decompose(ledger, &AtomId::new("A2"), new, "Hashing and tokens are separate work")
    })
    .expect("allowed");
    assert_eq!(added, [AtomId::new("A3"), AtomId::new("A4")]);
    insta::assert_snapshot!(difference(&before, &after), @r#"
    - decompositions: []
    +   - id: A3
    +     description: "Hashing of passwords"
    +   - id: A4
    +     description: "Making of tokens"
    + decompositions:
    +   - parent: A2
    +     children: [A3, A4]
    +     reason: "Hashing and tokens are separate work"
    "#);
    let state = state_of(&after);
    assert_eq!(state.atoms["A2"].status, AtomStatus::Pending);
    assert_eq!(state.atoms["A3"].depends_on, [AtomId::new("A1")]);
    assert_eq!(state.atoms["A4"].depends_on, [AtomId::new("A1")]);
}

#[test]
fn resolving_binds() {
    let before =
        with_graph("atoms:\n  - id: A1\n    description: d\n    status: in_progress\n    depends_on: []\n");
    let (after, ()) =
        work(&before, |ledger| resolve(ledger, "A1", "There is a User model", &["src/models/user.ts"]))
            .expect("allowed");
    insta::assert_snapshot!(difference(&before, &after), @r#"
    -     status: in_progress
    - bindings: {}
    +     status: resolved
    + bindings:
    +   A1:
    +     summary: "There is a User model"
    +     artifacts: [src/models/user.ts]
    "#);
}

#[test]
fn failing_a_choice_goes_to_the_next_one_and_starting_is_another_step() {
    let before = COMPLETE
        .replace("bindings:\n", "bindings:\n  A4:\n    summary: \"Tried with JWT\"\n    artifacts: []\n");
    let (failed, fallout) = work(&before, |ledger| fail(ledger, "A4", "JWT failed")).expect("allowed");
    assert_eq!(
        fallout,
        backtrack::FailureOutcome::Switched {
            group: GroupName::new("token_method"),
            to: AtomId::new("A4_alt")
        }
    );
    insta::assert_snapshot!(difference(&before, &failed), @r#"
    -     status: in_progress
    -     children: [A3, A4]
    -     failed: []              # what backtracking has given up
    -   A4:
    -     summary: "Tried with JWT"
    -     artifacts: []
    +   - id: A4_alt
    +     description: "Alternative to A4 (Making of tokens): JWT failed"
    +     or_group: token_method
    +     children: [A3, A4, A4_alt]
    +     selected: A4_alt
    +     failed: [A4]              # what backtracking has given up
    +     selected: A4_alt
    +     reason: "Auto-backtrack: A4 failed (JWT failed)"
    +     cause:
    +       kind: failed
    +       atom: A4
    +       reason: "JWT failed"
    +     timestamp: "2026-01-15T11:00:00Z"
    "#);
    let (after, ()) = work(&failed, |ledger| start(ledger, "A4_alt")).expect("allowed");
    let state = state_of(&after);
    assert_eq!(state.atoms["A4"].status, AtomStatus::Pending);
    assert_eq!(state.atoms["A4_alt"].status, AtomStatus::InProgress);
    assert!(!state.bindings.contains_key("A4"));
    let selected: Vec<String> = state
        .trail
        .iter()
        .map(|entry| match entry {
            TrailEntry::Selection { selected, .. } => selected.to_string(),
            other => panic!("only selections belong here: {other:?}"),
        })
        .collect();
    assert_eq!(selected, ["A4", "A4_alt"]);
}

#[test]
fn a_parent_resolves_with_its_last_child() {
    let (after, ()) = work(COMPLETE, |ledger| resolve(ledger, "A4", "Tokens are made", &["src/token.ts"]))
        .expect("allowed");
    insta::assert_snapshot!(difference(COMPLETE, &after), @r#"
    -     status: in_progress
    +   A4:
    +     summary: "Tokens are made"
    +     artifacts: [src/token.ts]
    +   A2:
    +     summary: "Completed via A3, A4 resolution"
    +     artifacts: [src/utils/auth.ts, src/token.ts]
    "#);
}

#[test]
fn a_parent_with_a_check_resolves_when_it_is_seen_to_pass() {
    let before = with_graph(
        "atoms:\n\
         - {id: P, description: d, status: pending, depends_on: []}\n\
         - {id: Q, description: d, status: pending, depends_on: [], check: {type: command, value: make}}\n\
         - {id: M, description: d, status: pending, depends_on: []}\n\
         - {id: A, description: d, status: in_progress, depends_on: []}\n\
         - {id: B, description: d, status: in_progress, depends_on: []}\n\
         decompositions:\n\
         - {parent: P, children: [Q], reason: r}\n\
         - {parent: Q, children: [M, B], reason: r}\n\
         - {parent: M, children: [A], reason: r}\n",
    );
    let waits = |text: &str| {
        let (_, waits) =
            work(text, |ledger| Ok(advance::waits_for_check(ledger, &AtomId::new("A")))).expect("a question");
        waits.map(|id| id.to_string())
    };
    let seen = |ledger: &mut Ledger, id: &str| {
        let binding = Binding { summary: "looked at".into(), artifacts: Vec::new(), ..Binding::default() };
        advance::resolve(ledger, &AtomId::new(id), binding, Proof::Seen)
    };
    // D3: nothing waits for its check yet, and a parent does not resolve before its children.
    assert_eq!(waits(&before), None);
    let refused = work(&before, |ledger| seen(ledger, "Q")).expect_err("A is still being worked on");
    assert_eq!(refused.code(), "decomposed");
    let (half, ()) = work(&before, |ledger| resolve(ledger, "A", "made", &["a.rs"])).expect("allowed");
    assert_eq!(state_of(&half).atoms["M"].status, AtomStatus::Resolved);
    assert_eq!(waits(&half), None);
    let (done, ()) = work(&half, |ledger| resolve(ledger, "B", "made", &["b.rs"])).expect("allowed");
    assert_eq!(state_of(&done).atoms["Q"].status, AtomStatus::Pending);
    assert_eq!(waits(&done).as_deref(), Some("Q"));
    // D22: a word is not enough.
    let refused = work(&done, |ledger| resolve(ledger, "Q", "looked at", &[])).expect_err("not seen");
    assert_eq!(refused.code(), "decomposed");
    let (passed, ()) = work(&done, |ledger| seen(ledger, "Q")).expect("allowed");
    let state = state_of(&passed);
    assert_eq!(state.bindings["Q"].summary, "Completed via M, B resolution");
    assert_eq!(state.atoms["P"].status, AtomStatus::Resolved);
    assert_eq!(waits(&passed), None);
}

#[test]
fn exhausting_the_last_group_stops_the_loop() {
    let (once, _) = work(COMPLETE, |ledger| fail(ledger, "A4", "no library")).expect("allowed");
    let (twice, fallout) = work(&once, |ledger| {
        start(ledger, "A4_alt")?;
        fail(ledger, "A4_alt", "no store")
    })
    .expect("allowed");
    assert_eq!(fallout, backtrack::FailureOutcome::Exhausted { group: GroupName::new("token_method") });
    let state = state_of(&twice);
    assert_eq!(state.control.status, LoopStatus::Stopped);
    assert_eq!(state.control.stop_reason.as_deref(), Some("OR group exhausted: token_method"));
    let refused = work(&twice, |ledger| start(ledger, "A4_alt")).expect_err("a failed choice does not start");
    assert_eq!(refused.code(), "choice_failed");
    // A person may insist.
    let (forced, ()) = work(&twice, |ledger| switch(ledger, "token_method", "A4")).expect("allowed");
    assert_eq!(state_of(&forced).or_groups["token_method"].failed, [AtomId::new("A4_alt")]);
}

#[test]
fn a_rival_that_fails_last_exhausts_the_group() {
    let race = |failed: &str| {
        with_graph(&format!(
            "atoms:\n\
             - {{id: A, description: d, status: pending, depends_on: [], or_group: G}}\n\
             - {{id: B, description: d, status: in_progress, depends_on: [], or_group: G}}\n\
             or_groups:\n  \
               G: {{choices: [A, B], selected: A, failed: [{failed}], speculative: true}}\n"
        ))
    };
    // D25: A still races, so nothing is given up.
    let (_, fallout) = work(&race(""), |ledger| fail(ledger, "B", "no")).expect("allowed");
    assert_eq!(fallout, backtrack::FailureOutcome::Retry);
    // An older program left A selected although it had failed.
    let (after, fallout) = work(&race("A"), |ledger| fail(ledger, "B", "no")).expect("allowed");
    assert_eq!(fallout, backtrack::FailureOutcome::Exhausted { group: GroupName::new("G") });
    assert_eq!(state_of(&after).control.status, LoopStatus::Stopped);
}

/// `P` in a nest: G1 = {A | D}, A cut into B1, where G2 = {B1 | C1} lies under A.
fn nested() -> String {
    with_graph(
        "atoms:\n\
         - {id: A, description: d, status: pending, depends_on: [], or_group: G1}\n\
         - {id: D, description: d, status: pending, depends_on: [], or_group: G1}\n\
         - {id: B, description: d, status: in_progress, depends_on: [], or_group: G2}\n\
         - {id: C, description: d, status: pending, depends_on: [], or_group: G2}\n\
         - {id: E, description: d, status: pending, depends_on: [C]}\n\
         decompositions:\n\
         - {parent: A, children: [B, C], reason: r}\n\
         or_groups:\n  \
           G1: {choices: [A, D], selected: A, failed: []}\n  \
           G2: {choices: [B, C], selected: B, failed: []}\n",
    )
}

#[test]
fn an_exhausted_inner_group_fails_the_choice_around_it() {
    let (after, fallout) = work(&nested(), |ledger| {
        fail(ledger, "B", "one")?;
        start(ledger, "C")?;
        fail(ledger, "C", "two")
    })
    .expect("allowed");
    assert_eq!(
        fallout,
        backtrack::FailureOutcome::Switched { group: GroupName::new("G1"), to: AtomId::new("D") }
    );
    let state = state_of(&after);
    assert_eq!(state.control.status, LoopStatus::Pending);
    assert_eq!(state.or_groups["G1"].failed, [AtomId::new("A")]);
    // What waited for something inside A waits for the outer group now.
    let (resolved, ()) = work(&after, |ledger| {
        start(ledger, "D")?;
        resolve(ledger, "D", "done another way", &[])
    })
    .expect("allowed");
    work(&resolved, |ledger| start(ledger, "E")).expect("E is ready");
}

#[test]
fn a_refusal_says_what_is_in_the_way_and_what_to_do() {
    fn check(text: &str, with: impl FnOnce(&mut Ledger) -> Result<(), Refusal>, words: &str, hint: &str) {
        let refusal = work(text, with).expect_err(words);
        assert_eq!((refusal.to_string(), refusal.hint()), (words.into(), hint.into()));
    }
    check(
        COMPLETE,
        |l| start(l, "A5"),
        "atom `A5` waits for `token_method`",
        "`aot ready` lists what can start now",
    );
    check(
        &with_graph(
            "atoms:\n\
             - {id: A, description: d, status: pending, depends_on: []}\n\
             - {id: B, description: d, status: pending, depends_on: [A]}\n\
             - {id: C, description: d, status: pending, depends_on: [A]}\n",
        ),
        |l| reshape::remove(l, &AtomId::new("A")),
        "atom `A` is needed by `B`, `C`",
        "remove those first, or change what they depend on",
    );
    check(
        &nested(),
        |l| start(l, "D"),
        "atom `D` lies under `D`, which OR group `G1` has not selected",
        "select it with `aot or switch G1 D --reason \"WHY\"`",
    );
}

#[test]
fn what_is_not_allowed_is_refused_by_name() {
    fn check(text: &str, with: impl FnOnce(&mut Ledger) -> Result<(), Refusal>, code: &str) {
        let refusal = work(text, with).expect_err(code);
        assert_eq!(refusal.code(), code, "{refusal}");
        assert!(!refusal.hint().is_empty());
    }
    let id = AtomId::new;
    let new = |description: &str| NewAtom { description: description.into(), ..NewAtom::default() };
    check(COMPLETE, |l| start(l, "A9"), "unknown_atom");
    check(COMPLETE, |l| start(l, "A1"), "wrong_status");
    check(COMPLETE, |l| start(l, "A4"), "wrong_status");
    check(COMPLETE, |l| start(l, "A2"), "decomposed");
    check(COMPLETE, |l| start(l, "A5"), "waiting");
    check(COMPLETE, |l| resolve(l, "A5", "s", &[]), "waiting");
    check(COMPLETE, |l| resolve(l, "A1", "s", &[]), "wrong_status");
    check(COMPLETE, |l| resolve(l, "A2", "s", &[]), "decomposed");
    check(COMPLETE, |l| fail(l, "A5", "r").map(drop), "wrong_status");
    check(COMPLETE, |l| fail(l, "A2", "r").map(drop), "decomposed");
    check(COMPLETE, |l| switch(l, "nothing", "A4"), "unknown_group");
    check(COMPLETE, |l| switch(l, "token_method", "A5"), "not_a_choice");
    check(COMPLETE, |l| switch(l, "token_method", "A4"), "selected_already");
    check(COMPLETE, |l| reshape::remove(l, &id("A1")), "wrong_status");
    check(
        COMPLETE,
        |l| reshape::add(l, NewAtom { depends_on: vec![id("A9")], ..new("d") }).map(drop),
        "unknown_atom",
    );
    check(COMPLETE, |l| reshape::add(l, NewAtom { id: Some(id("A1")), ..new("d") }).map(drop), "id_taken");
    check(COMPLETE, |l| reshape::add(l, NewAtom { id: Some(id("a b")), ..new("d") }).map(drop), "bad_id");
    check(COMPLETE, |l| reshape::add(l, new(" ")).map(drop), "no_description");
    check(
        COMPLETE,
        |l| reshape::add(l, NewAtom { or_group: Some(GroupName::new("g")), ..new("d") }).map(drop),
        "unknown_group",
    );
    check(COMPLETE, |l| reshape::add_choices(l, &GroupName::new("g"), &[]), "no_choices");
    check(COMPLETE, |l| reshape::add_choices(l, &GroupName::new("g"), &[id("A4")]), "in_group");
    check(COMPLETE, |l| decompose::decompose(l, &id("A1"), vec![new("d")], "r").map(drop), "wrong_status");
    check(COMPLETE, |l| decompose::decompose(l, &id("A2"), vec![new("d")], "r").map(drop), "decomposed");
    check(COMPLETE, |l| decompose::decompose(l, &id("A5"), vec![], "r").map(drop), "no_children");
    check(
        COMPLETE,
        |l| {
            decompose::decompose(l, &id("A5"), vec![NewAtom { depends_on: vec![id("A5")], ..new("d") }], "r")
                .map(drop)
        },
        "cycle",
    );
    check(COMPLETE, |l| decompose::withdraw(l, &id("A5")).map(drop), "not_decomposed");
    check(COMPLETE, |l| decompose::withdraw(l, &id("A2")).map(drop), "children_resolved");
    check(&nested(), |l| start(l, "D"), "dormant");
    check(&nested(), |l| start(l, "C"), "dormant");
    check(&nested(), |l| reshape::remove(l, &id("C")), "needed");
    check(&nested(), |l| decompose::withdraw(l, &id("A")).map(drop), "needed");
    let stopped = COMPLETE.replace("stop_requested: false", "stop_requested: true");
    check(&stopped, |l| start(l, "A5"), "stop_requested");
    let redirected = COMPLETE.replace("redirect_requested: false", "redirect_requested: true");
    check(&redirected, |l| start(l, "A5"), "redirect_requested");
    let checked = COMPLETE.replace(
        "    or_group: token_method  ",
        "    check: {type: command, value: make}\n    or_group: token_method  ",
    );
    check(&checked, |l| resolve(l, "A4", "s", &[]), "check_not_seen");
    let single = with_graph("atoms:\n- {id: A1, description: d, status: pending, depends_on: []}\n");
    check(&single, |l| reshape::remove(l, &id("A1")), "last_atom");
}
