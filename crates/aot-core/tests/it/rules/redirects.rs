//! Redirects: four kinds, what each does to the trail, and what is reset (requirements 3.4, design 8.3, D31).

use std::sync::Arc;

use aot_core::rules::redirect::{self, CorrectionRequest};
use aot_core::rules::{Change, Ledger, apply};
use aot_core::state::{AtomStatus, Check, Checks, Confirmation, CorrectionKind, Fingerprint, Stamp, State};

use super::world::{World, parse, start, table};

#[test]
fn the_trail_by_kind() {
    table(&[
        // Alignment: cleared.
        ("req 3.4", "m=1; s=9; A", "A- fix(goal)", "#3 stall 0 | A | trail  | corrections ObjectiveChange!"),
        ("req 3.4", "m=1; s=9; A", "A- fix(base)", "#3 stall 0 | A | trail  | corrections ObjectiveChange!"),
        (
            "req 3.4",
            "m=1; s=9; A",
            "A- fix(background)",
            "#3 stall 0 | A | trail  | corrections ObjectiveChange!",
        ),
        (
            "req 3.4",
            "m=1; s=9; A",
            "A- fix(deliverables)",
            "#3 stall 0 | A | trail  | corrections ObjectiveChange!",
        ),
        ("D31", "m=1; s=9; A", "A- fix(done)", "#3 stall 0 | A | trail  | corrections ObjectiveChange!"),
        // Graph: appended.
        (
            "req 3.4",
            "m=1; s=9; A",
            "A- fix(+B)",
            "#3 stall 0 | A | trail A- user | corrections DagAdjustment",
        ),
        ("req 3.4", "m=1; s=9; A; B", "A- fix(-B)", "#3 stall 0 | A | trail A- user | atoms A"),
        ("req 3.4", "m=1; s=9; A; G=B|C", "A- fix(G=C)", "#3 stall 0 | A | trail A- G:C user | sel G:C"),
        ("req 3.4", "m=1; s=9; A", "A- fix(A->B,C)", "#3 stall 0 | B | trail A- user | atoms A,B,C"),
        ("req 3.4", "m=1; s=9; A; B", "A- fix(A<-B)", "#3 stall 0 | B | trail A- user | needs A:B"),
        ("req 3.4", "m=1; s=9; A -> B", "B- fix(~A)", "#3 stall 0 | A | trail B- user | atoms A"),
        (
            "D31",
            "m=1; s=9; A; B",
            "A- fix(A!otherwise)",
            "#3 stall 0 | A | trail A- user | corrections DagAdjustment",
        ),
        // A child that is removed leaves its parent with the others.
        ("req 3.4", "m=1; s=9; A -> B, C", "fix(-C)", "#2 stall 0 | B | atoms A,B | left 2"),
        ("req 3.4", "m=1; s=9; A -> B, C", "fix(-C) B+", "#2 stall 0 | verify | done A B"),
        // A choice that is removed leaves its group, and what has failed there.
        ("req 3.4", "m=1; s=9; G=A|B|C", "A- fix(-A)", "#3 stall 0 | B | choices G:B,C | failed "),
        ("req 3.4", "m=1; s=9; G=A|B|C", "A- fix(-C)", "#3 stall 0 | B | choices G:A,B | failed G:A"),
        // Constraints: preserved.
        (
            "req 3.4",
            "m=1; s=9; A; B",
            "A- fix(m=2)",
            "#3 stall 0 | A B | trail A- | corrections ConstraintChange",
        ),
        (
            "req 3.4",
            "m=1; s=9; A; B",
            "A- fix(protect)",
            "#3 stall 0 | A | trail A- | corrections ConstraintChange",
        ),
        // Bindings: only the affected part.
        (
            "req 3.4",
            "m=9; s=9; A; G=B|C; B <- A; C <- A; H=X|Y",
            "X- A+ Y+ B- C+ fix(A:new)",
            "#3 stall 0 | C | done A Y | trail H:Y | corrections BindingsOverride! | summary A:new",
        ),
        ("req 3.4", "m=1; A; B", "A+ fix(A:new)", "#3 stall 0 | B | done A | corrections BindingsOverride"),
    ]);
}

#[test]
fn new_work_for_a_completed_loop_is_done() {
    table(&[
        ("D14", "m=1; A", "A+ v+ fix(+B) crash v+", "#2 stall 0 | B | status running"),
        ("D14", "m=1; A", "A+ v+ fix(+B) crash v+ B+ v+", "#2 stall 0 halt completed | done A B"),
        // It is looked at all the same, and nothing else completes it.
        ("D14", "m=1; A", "A+ v+ fix(+B) crash v- B+ v+", "#2 stall 0 halt completed | done A B"),
        ("D14", "m=1; s=1; A", "A+ v+ fix(+B) crash v+ B- B-", "#3 stall 1 halt stalled | left 1"),
        ("D14", "m=1; s=1; A", "A+ v+ fix(+B) crash v+ B- B- crash v+", "#4 stall 0 | B"),
        ("D14", "each; m=1; A", "A+ v+ fix(+B;+C<-B) crash v+ B+ v+", "#3 stall 0 | C"),
        // What is to be done again.
        ("D14", "m=1; A; B <- A", "A+ B+ v+ fix(B!) crash v+", "#3 stall 0 | B"),
        // In parts, or not any more.
        ("D14", "m=1; A", "A+ v+ fix(+B) crash v+ fix(B->C,D) C+", "#4 stall 0 | D"),
        ("D14", "m=1; A", "A+ v+ fix(+B) crash v+ fix(-B) v+", "#2 stall 0 halt completed"),
        // What was not needed is wanted with another goal only.
        ("D14", "m=1; A; B", "v+ crash v+", "#0 stall 0 halt completed | left 2"),
        ("D14", "each; m=3; A; B", "v+ fix(+C) crash v+ C+ A- B- v+", "#1 stall 0 halt completed | left 2"),
        ("D14", "m=1; A; B", "v+ fix(goal) crash v+", "#1 stall 0 | A"),
        ("D14", "m=1; A; B", "v+ fix(base) crash v+", "#0 stall 0 halt completed"),
        // A loop that has not been completed is done when its checks hold.
        ("D14", "m=1; A", "fix(+B) A+ stop crash v+", "#3 stall 0 halt completed | left 1"),
    ]);
}

#[test]
fn several_corrections_are_one_transaction() {
    table(&[
        (
            "req 3.4",
            "m=1; s=9; A",
            "A- fix(+B;goal;N=9)",
            "#3 stall 0 | A | trail user | corrections ObjectiveChange! DagAdjustment ConstraintChange",
        ),
        ("req 3.4", "m=1; s=9; A", "fix(+B;+C<-B)", "#2 stall 0 | B | atoms A,B,C"),
        (
            "req 3.4",
            "m=1; s=9; A",
            "fix(+B;-Z)",
            "#2 stall 0 | A | atoms A | refused unknown_atom | corrections ",
        ),
        ("req 3.4", "m=1; s=9; A; B <- A", "fix(+C;-A)", "#2 stall 0 | A | atoms A,B | refused needed"),
        ("req 3.4", "m=1; s=9; A", "fix(goal;goal)", "#2 stall 0 | A | refused given_twice | corrections "),
        ("req 3.4", "m=1; s=9; A", "fix(N=0)", "#2 stall 0 | A | refused too_small"),
        ("req 3.4", "m=1; s=9; A", "fix(blank)", "#2 stall 0 | A | refused blank"),
        ("req 3.4", "m=1; s=9; A; B <- A", "fix(A<-B)", "#2 stall 0 | A | refused cycle | needs A:"),
        ("req 3.4", "m=1; s=9; A; B", "A+ fix(-A)", "#3 stall 0 | B | refused wrong_status | done A"),
        ("req 3.4", "m=1; s=9; A", "fix(-A)", "#2 stall 0 | A | refused last_atom"),
        ("req 3.4", "m=1; s=9; G=A|B", "fix(G=A)", "#2 stall 0 | A | refused selected_already"),
        ("req 3.4", "m=1; s=9; G=A|B", "fix(G=Z)", "#2 stall 0 | A | refused not_a_choice"),
        ("req 3.4", "m=1; s=9; A; B", "fix(A:new)", "#2 stall 0 | A | refused wrong_status"),
        ("req 3.4", "m=1; s=9; A; B", "fix(A!)", "#2 stall 0 | A | refused wrong_status"),
    ]);
}

#[test]
fn corrections_that_exclude_each_other_are_refused() {
    for (graph, script) in [
        ("m=1; A; B; C", "fix(-B;C<-B)"),
        ("m=1; A; B; C", "fix(C<-B;-B)"),
        ("m=1; A; B", "fix(+C<-B;-B)"),
        ("m=1; G=A|B; D", "fix(G|C;-C)"),
        ("m=1; A; B; C", "fix(B<-A;B<-C)"),
        ("m=1; G=A|B|C", "fix(G=B;G=C)"),
        ("m=1; G=A|B", "fix(G=B;-B)"),
        ("m=1; A; B", "A+ fix(A:new;A!)"),
        ("m=1; A; B", "A+ fix(A:new;A:newer)"),
        ("m=1; A; B", "A+ fix(A!;A!)"),
        ("m=1; A; B; C", "fix(B->D;-B)"),
        // What one brings, the other undoes.
        ("m=1; A; B <- A; C", "A+ B+ fix(B:new;A!)"),
        ("m=1; A; B <- A; C", "A+ B+ fix(B:new;A:newer)"),
    ] {
        let told = World::play(graph, script).tell("# | refused | corrections");
        assert!(told.ends_with(" | refused at_odds | corrections "), "req 3.4: {graph}, {script}: {told}");
    }
    // The same effects about different things are fine.
    table(&[
        ("req 3.4", "m=1; s=9; A; B; C", "A+ fix(A:new;-C)", "#3 stall 0 | B | atoms A,B | summary A:new"),
        ("req 3.4", "m=1; G=A|B; H=C|D", "fix(G=B;H=D)", "#2 stall 0 | B"),
    ]);
}

#[test]
fn a_refusal_names_the_corrections_that_exclude_each_other() {
    for (graph, script, corrections, expected) in [
        ("G=A|B|C", "", "G=B;G=C", "G taking B and G taking C exclude each other over `G`"),
        ("A; B; C", "", "C<-B;-B", "C depending on B and removing B exclude each other over `B`"),
        ("A; B", "A+", "A:new;A!", "another result of A and doing A again exclude each other over `A`"),
        // Each is fine by itself, and one is gone when both are made.
        (
            "G=A|B; P -> A, B; C",
            "",
            "G=B;~P",
            "G taking B and another correction exclude each other over `G`",
        ),
        ("A; B; C", "A+ B+", "A:new;B:newer", ""),
        ("A; B; C", "", "B<-A;C<-A", ""),
    ] {
        let world = World::play(graph, script);
        let mut ledger = Ledger::open(world.file.clone(), world.now);
        redirect::interrupt(&mut ledger);
        let wanted = corrections.split(';').map(|text| world.correction(text)).collect();
        let refused = redirect::redirect(&mut ledger, wanted).err();
        let told = refused.map(|refusal| refusal.to_string()).unwrap_or_default();
        assert_eq!(told, expected, "req 3.4: {graph}, {corrections}");
    }
}

#[test]
fn a_loop_of_a_host_is_interrupted_without_a_stall() {
    let state = World::play("m=2; A; B; C", "A-").file;
    let stalls = state.control.stall_count;
    let mut ledger = Ledger::open(state, start());
    redirect::interrupt(&mut ledger);
    redirect::interrupt(&mut ledger);
    let asked = |change: &&Change| matches!(change, Change::RedirectRequested);
    let (state, changes) = ledger.close();
    assert_eq!(changes.iter().filter(asked).count(), 1, "D16");
    let in_progress = state.atoms.values().filter(|atom| atom.status == AtomStatus::InProgress).count();
    let control = &state.control;
    assert!(control.redirect_requested && control.open.is_none() && in_progress == 0, "D16: {control:?}");
    assert_eq!(control.stall_count, stalls, "D16");
}

#[test]
fn bindings_reset_what_rests_on_them() {
    table(&[
        ("D31", "m=1; A; B <- A; C <- B", "A+ B+ fix(A:new)", "#4 stall 0 | B | done A | reverted B:cB"),
        ("D31", "m=1; A; B <- A; C <- B", "A+ B+ fix(A!)", "#4 stall 0 | A | done  | reverted A:cA B:cB"),
        ("D31", "m=1; A; B; C <- A", "A+ B+ C+ v- fix(A!) crash", "#4 stall 0 | A | done B"),
        ("D31", "m=1; A; B; C <- A; D <- C", "A+ C+ fix(A!)", "#4 stall 0 | A | done "),
        ("D31", "m=2; A; B; C <- A; D <- C", "A+ C+ B+ fix(A!)", "#3 stall 0 | A | done B | killed D"),
        // Through parents and groups.
        ("D31", "m=1; P -> A; B <- P; C <- B", "A+ B+ fix(A:new)", "#4 stall 0 | B | done P A"),
        ("D31", "m=1; P -> A; B <- P; C <- B", "A+ B+ fix(A!)", "#4 stall 0 | A | done "),
        ("D31", "m=1; P! -> A; B <- P", "A+ P+ fix(A:new)", "#4 stall 0 | P! | done A"),
        ("D31", "m=1; G=A|X; B <- X; C <- B", "A+ B+ fix(A!)", "#4 stall 0 | A | done "),
        // The selection of the redone choice itself stays in the trail.
        (
            "D31",
            "m=1; G=A|B|C; D",
            "A- B+ fix(B!)",
            "#4 stall 0 | B | trail G:B | corrections BindingsOverride",
        ),
        // The mark of progress moves with it.
        ("D9", "m=1; A; B <- A; C <- B", "A+ B+ fix(A!)", "#4 stall 0 | A | left 3 | prev 3"),
    ]);
}

#[test]
fn forcing_a_choice_forgives_it() {
    table(&[
        ("D31", "m=1; G=A|B", "A- fix(G=A)", "#3 stall 0 | A | failed  | sel G:A"),
        ("D31", "m=1; G=A|D; A -> H=B|C", "B- C- fix(G=A)", "#4 stall 0 | C | failed "),
        ("D31", "m=1; G=A|D; A -> B", "B- B- fix(G=A)", "#4 stall 0 | B | failed "),
        ("D31", "m=1; G=A|D; A -> B", "B- B- fix(G=A) B-", "#5 stall 1 | B | failed "),
        ("D31", "m=1; G=A|B; C <- A; D <- C", "A+ C+ fix(G=B)", "#4 stall 0 | B | done "),
        ("D31", "m=2; G=A|B; L; C <- A; E <- C", "A+ fix(G=B)", "#2 stall 0 | B L | killed L C | done "),
        // Nobody is sent into a deadlock, also not where backtracking was before.
        ("D5", "m=1; G=A|B; B <- A", "fix(G=B)", "#2 stall 0 | A | refused cycle | sel G:A"),
        ("D5", "m=1; G=A|B|C; C <- A", "A- fix(G=C)", "#3 stall 0 | B | refused cycle | sel G:B"),
        // A ring that another choice would close is no hindrance, nor is one in another group.
        ("D5", "m=1; G=A|B|C; C <- A", "fix(G=B)", "#2 stall 0 | B | refused  | sel G:B"),
        ("D5", "m=1; H=X|Y; Y <- X; G=A|B", "X- fix(G=B)", "#3 stall 0 | B | refused  | sel G:B H:Y"),
    ]);
}

#[test]
fn a_confirmation_belongs_to_the_base_case_it_was_given_for() {
    let said = |item: &str, by: &str| Confirmation {
        item: item.into(),
        by: by.into(),
        at: Stamp::from(start()),
        tree: "t".into(),
        holds: None,
    };
    let confirmed = |changes: &[Change]| {
        let (mut state, _) = parse("A");
        state.control.confirmed = vec![said("one", "Ann"), said("two", "Ann")];
        for change in changes {
            apply(&mut state, change, start()).expect("it fits");
        }
        let told = state.control.confirmed.iter().map(|kept| format!("{} {}", kept.item, kept.by));
        told.collect::<Vec<_>>().join(", ")
    };
    let base_case = |value: &str| Change::BaseCaseSet {
        base_case: Checks::Single(Check::Command { value: value.into() }),
    };
    let confirm = |item, by| Change::ItemConfirmed { confirmation: said(item, by) };
    let rows = [
        (vec![base_case("true")], "one Ann, two Ann"),
        (vec![base_case("make")], ""),
        (vec![confirm("three", "Bob")], "one Ann, two Ann, three Bob"),
        (vec![confirm("one", "Bob")], "two Ann, one Bob"),
        (vec![Change::ConfirmationWithdrawn { item: "one".into() }], "two Ann"),
    ];
    for (changes, expected) in rows {
        assert_eq!(confirmed(&changes), expected, "D14: {changes:?}");
    }
}

#[test]
fn new_choices_bring_an_exhausted_group_back() {
    table(&[
        ("D15", "m=1; G=A|B; L", "A- B- fix(G|C) crash", "#3 stall 0 | L | sel G:C"),
        ("D10", "m=2; G=A|B; L; M", "A- B- fix(G|C)", "#2 stall 0 | L M | sel G:C | failed G:A,B"),
        ("D21", "m=1; A", "tampered", "#1 stall 0 halt tampered"),
        ("D21", "m=1; A", "redirect tampered fix(accept)", "#2 stall 0 | A | corrections ObjectiveChange!"),
        ("D14", "agents=wc; m=1; A", "A+ v-2 fix(base)", "#2 stall 0 | verify | fruitless 0 | verified None"),
    ]);
}

#[test]
fn an_edit_by_hand_is_recorded_by_its_kind() {
    type Spoil = fn(&mut State);
    let rows: [(Spoil, &str); 13] = [
        (|_| {}, ""),
        (|state| state.objective.goal.push('x'), "ObjectiveChange"),
        (|state| state.objective.background_intent.push('x'), "ObjectiveChange"),
        (|state| state.objective.deliverables.push('x'), "ObjectiveChange"),
        (|state| state.objective.definition_of_done.push('x'), "ObjectiveChange"),
        (|state| Arc::make_mut(&mut state.atoms["B"]).description.push('x'), "DagAdjustment"),
        (|state| state.decompositions[0].reason.push('x'), "DagAdjustment"),
        (|state| state.or_groups["G"].choices.reverse(), "DagAdjustment"),
        (|state| state.objective.constraints.max_iterations += 1, "ConstraintChange"),
        (|state| state.bindings["X"].summary.push('x'), "BindingsOverride"),
        // Not a correction: the loop's own, and what is tampering.
        (|state| state.control.iteration += 1, ""),
        (|state| state.trail.clear(), ""),
        (|state| state.objective.protected.push("x".into()), ""),
    ];
    let before = World::play("m=3; X; A -> B; G=C|D", "X+ C-").file;
    for (turn, (spoil, expected)) in rows.into_iter().enumerate() {
        let mut after = before.clone();
        spoil(&mut after);
        let kinds = redirect::by_hand(&before, &after).into_iter().map(|change| match change {
            Change::CorrectionNoted { kind, trail_cleared: false, .. } => format!("{kind:?}"),
            other => panic!("{other:?}"),
        });
        assert_eq!(kinds.collect::<Vec<_>>().join(" "), expected, "D21: row {turn}");
    }
}

#[test]
fn only_the_base_case_and_the_protected_files_can_be_tampered_with() {
    let before = parse("A").0;
    let tampered = |spoil: fn(&mut State)| {
        let mut after = before.clone();
        spoil(&mut after);
        redirect::tampering(&before, &after).unwrap_or_default()
    };
    let with = |what: &str| format!("tampered: {what} outside of a redirect");
    assert_eq!(tampered(|state| state.objective.base_case = None), with("the check is gone"), "D21");
    assert_eq!(
        tampered(|state| state.objective.protected.push("x".into())),
        with("the list of protected files was changed"),
        "D21"
    );
    assert_eq!(tampered(|state| state.objective.goal.push('x')), "", "D21");
}

#[test]
fn a_correction_says_what_it_was() {
    let rows = [
        ("A", "fix(goal)", "goal: another goal"),
        ("A", "fix(background)", "background_intent: why"),
        ("A", "fix(deliverables)", "deliverables: what"),
        ("A", "fix(done)", "definition_of_done: when"),
        ("A", "fix(base)", "base_case: 1 checks"),
        ("A", "fix(accept)", "accepted the base case and the protected files as they are"),
        ("A", "fix(N=9)", "max_iterations: 20 -> 9"),
        ("A", "fix(protect)", "protected: tests/**"),
        ("A", "fix(+B)", "added B: do B"),
        ("A; B", "fix(-B)", "removed B"),
        ("A", "fix(A->B,C)", "decomposed A into B, C"),
        ("A -> B", "fix(~A)", "took the decomposition of A back"),
        ("A; B", "fix(A<-B)", "A depends on B"),
        ("A; B <- A", "fix(B<-)", "B depends on nothing"),
        ("G=A|B", "fix(G|C)", "added the choice C to G"),
        ("G=A|B", "fix(G=B)", "G: B (chosen by the user)"),
        ("A; B", "A+ fix(A:new)", "A: new"),
        ("A; B", "A+ fix(A!)", "A will be done again"),
    ];
    for (graph, script, expected) in rows {
        let world = World::play(graph, script);
        let told: Vec<&str> = world.file.corrections.iter().map(|c| c.description.as_str()).collect();
        assert_eq!(told, [expected], "D31: {graph}, {script}");
    }
}

#[test]
fn what_is_accepted_is_judged_by_what_changed() {
    let print = |base_case: &str, protected: &str| Fingerprint {
        base_case: base_case.into(),
        protected: protected.into(),
    };
    let base_case = || CorrectionRequest::BaseCase(Checks::Single(Check::File { value: "x".into() }));
    // What was agreed on, the correction, its kind, and the fewest red checks that are remembered.
    let rows = [
        (
            Some(print("b", "p")),
            CorrectionRequest::Accept(print("b", "q")),
            CorrectionKind::ConstraintChange,
            Some(2),
        ),
        (
            Some(print("b", "p")),
            CorrectionRequest::Accept(print("c", "p")),
            CorrectionKind::ObjectiveChange,
            None,
        ),
        (None, CorrectionRequest::Accept(print("b", "p")), CorrectionKind::ObjectiveChange, None),
        (None, base_case(), CorrectionKind::ObjectiveChange, None),
        (None, CorrectionRequest::Goal("another".into()), CorrectionKind::ObjectiveChange, Some(2)),
    ];
    for (agreed, correction, kind, fewest_red) in rows {
        let mut state = parse("A").0;
        state.control.fingerprint = agreed;
        state.control.fewest_red = Some(2);
        assert_eq!(redirect::kind(&state, &correction), kind, "D21: {correction:?}");
        let mut ledger = Ledger::open(state, start());
        redirect::redirect(&mut ledger, vec![correction.clone()]).expect("it is allowed");
        assert_eq!(ledger.state().corrections[0].kind, kind, "D21: {correction:?}");
        assert_eq!(ledger.state().control.fewest_red, fewest_red, "D14: {correction:?}");
    }
}
