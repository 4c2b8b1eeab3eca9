//! What fails a choice (D10), the strategy ladder (D11), probes, and changes of the plan.

use aot_core::coordinator::{Event, Feasibility, JobOutcome, Usage};
use aot_core::rules::memory::{AtomMemory, Forget, Infeasible, Memory};
use aot_core::rules::order::{self, Cost, ProbeFinding};
use aot_core::rules::plan::{Agents, DispatchInputs, Presence, Slots};
use aot_core::rules::replan::PlanChange;
use aot_core::rules::{Ledger, backtrack, plan, replan, reshape};
use aot_core::state::{
    AtomId, Check, Checks, Item, NewAtom, Quality, SelectionCause, Spent, State, TrailEntry, Wants,
};

use super::world::{World, ids, parse, start, table};

#[test]
fn two_failures_that_tell_the_same_climb_the_ladder() {
    table(&[
        // Nothing is left: another try would tell the same.
        ("D34", "m=1; s=9; A", "A--", "#2 stall 0 | A"),
        ("D34", "m=1; s=9; A", "A-- A--", "#2 stall 1 halt stalled | exit 11"),
        ("D34", "m=1; s=9; A", "A-- A-", "#3 stall 1 | A"),
        ("D34", "m=1; s=9; A$", "A-- A--", "#2 stall 1 halt stalled"),
        // What else can be done is done first.
        ("D34", "m=1; s=9; A; B", "A-- A--", "#3 stall 1 | B"),
        // A probe, once; a command cannot be probed.
        ("D34", "agents=wp; m=1; s=9; A", "A-- A--", "#3 stall 1 | A?"),
        ("D34", "agents=wp; m=1; s=9; A", "A-- A-- A?+ A--", "#3 stall 2 halt stalled"),
        ("D34", "agents=wp; m=1; s=9; A$", "A-- A--", "#2 stall 1 halt stalled"),
        // Another plan at once, not after a third failure.
        ("D34", "agents=wc; m=1; s=9; A", "A- A-", "#3 stall 1 | A"),
        ("D34", "agents=wc; m=1; s=9; A", "A-- A--", "#3 stall 1 | replan | why A-"),
        // An earlier choice that it rests on.
        ("D34", "m=1; s=9; G=A|B; C <- A", "A+ C-- C--", "#4 stall 2 | B | failed G:A"),
        // Whoever takes the loop up again may have mended it.
        ("D34", "m=1; s=9; A", "A-- A-- crash v-", "#3 stall 0 | A"),
        // Another atom that tells the same is another story, and so is another plan, of this atom.
        ("D34", "m=2; s=9; A; B", "A-- B--", "#2 stall 0 | A B"),
        ("D34", "m=2; s=9; A; B", "B- A-- B-- A-", "#3 stall 1 | A B"),
        ("D34", "agents=wc; m=1; s=9; A; B", "A-- A-- r(A<-B) B+ A--", "#5 stall 1 | A"),
        ("D34", "agents=wc; m=2; s=9; A; B", "A-- B-- B-- A. r(B<-A) A--", "#4 stall 2 | replan | why A-"),
    ]);
}

#[test]
fn what_is_not_feasible_goes_to_the_plan_while_the_plan_may_change() {
    let told = Some(Infeasible::Told(None));
    let nobody = Agents { coordinator: Presence::Absent, ..Agents::ALL };
    for (graph, stall_count, iteration, agents, infeasible, expected) in [
        ("s=3; N=9; A", 0, 0, Agents::ALL, None, true),
        ("s=3; N=9; A", 2, 8, Agents::ALL, None, true),
        ("s=3; N=9; A", 3, 8, Agents::ALL, None, false),
        ("s=3; N=9; A", 2, 9, Agents::ALL, None, false),
        ("s=3; N=9; A", 0, 0, nobody, None, false),
        ("s=3; N=9; A", 0, 0, Agents::ALL, told, false),
        ("s=3; N=9; G=A|B", 0, 0, Agents::ALL, None, false),
    ] {
        let (mut state, _) = parse(graph);
        (state.control.stall_count, state.control.iteration) = (stall_count, iteration);
        let mut memory = Memory::default();
        memory.entry(&"A".into()).infeasible = infeasible;
        let (slots, spent) = (Slots { parallel: 1, taken: 0, agents: 0 }, Spent::default());
        let (running, replanned, probed): (&[AtomId], &[AtomId], &[AtomId]) = (&[], &[], &[]);
        let inputs =
            DispatchInputs { running, replanned, memory: &memory, probed, agents, slots, spent: &spent };
        let ledger = Ledger::open(state, start());
        let row = format!("D11: {graph}, stall {stall_count}, #{iteration}, {agents:?}, {memory:?}");
        assert_eq!(plan::replans_before_work(&ledger, &inputs, 0), expected, "{row}");
    }
}

#[test]
fn one_failure_since_the_plan_changed_tells_nothing_twice() {
    let id = AtomId::from("A");
    let mut memory = Memory::default();
    for (script, same) in [("A-", false), ("A- A-", true)] {
        let world = World::play("m=1; s=9; A", script);
        memory.entry(&id).fails_the_same = true;
        assert_eq!(plan::fails_the_same(world.coordinator.ledger(), &memory, &id), same, "D34: {script}");
    }
}

/// What is left of all that can be remembered of an atom.
#[test]
fn what_is_remembered_of_an_atom_ends_with_its_cause() {
    let (id, other) = (AtomId::from("A"), AtomId::from("B"));
    let finding = ProbeFinding { feasible: Feasibility::Feasible, cost: None, findings: "easy".into() };
    let known = AtomMemory {
        too_large: Some("too large".into()),
        infeasible: Some(Infeasible::ToBeTold("no".into())),
        return_reason: Some("it came back".into()),
        fails_the_same: true,
        check_errors: 1,
        awaiting_person: Some("look".into()),
        finding: Some(finding),
    };
    for (what, kept) in [
        (Forget::Resolved(&id), ""),
        (Forget::Failed(&id), "too_large infeasible"),
        (Forget::Replanned(&id), "infeasible returned same errors person finding"),
        (Forget::StateReplaced, "too_large returned"),
        (Forget::Failed(&other), "too_large infeasible returned same errors person finding"),
    ] {
        let mut memory = Memory::default();
        assert!(!memory.anything_awaits_person());
        *memory.entry(&id) = known.clone();
        assert!(memory.anything_awaits_person());
        memory.forget(what);
        let left = memory.of(&id).cloned().unwrap_or_default();
        let words = [
            (left.too_large.is_some(), "too_large"),
            (left.infeasible.is_some(), "infeasible"),
            (left.return_reason.is_some(), "returned"),
            (left.fails_the_same, "same"),
            (left.check_errors > 0, "errors"),
            (left.awaiting_person.is_some(), "person"),
            (left.finding.is_some(), "finding"),
        ];
        let words: Vec<&str> = words.iter().filter(|(is_left, _)| *is_left).map(|(_, word)| *word).collect();
        assert_eq!(words.join(" "), kept, "{what:?}");
        assert_eq!(memory.too_large().count(), usize::from(left.too_large.is_some()), "{what:?}");
        assert_eq!(memory.infeasible().count(), usize::from(left.infeasible.is_some()), "{what:?}");
        assert_eq!(memory.anything_awaits_person(), left.awaiting_person.is_some(), "{what:?}");
    }
}

#[test]
fn a_choice_is_beside_the_selected_one_while_it_is_left() {
    for (failed, selected, choice, expected) in [
        ("", "A", "B", true),
        ("B", "A", "B", false),
        ("B", "A", "C", true),
        ("", "B", "C", false),
        ("", "A", "D", false),
        ("", "X", "B", false),
    ] {
        let (mut state, _) = parse("G=A|B|C|:D; X");
        state.or_groups["G"].failed = failed.split_whitespace().map(AtomId::from).collect();
        let ledger = Ledger::open(state, start());
        let actual = order::is_beside(&ledger, &selected.into(), &choice.into());
        assert_eq!(actual, expected, "D10: {failed:?} {selected} {choice}");
    }
}

#[test]
fn what_a_probe_calls_infeasible_goes_to_the_plan_first() {
    table(&[
        ("D11", "agents=wpc; m=1; s=9; A?", "A?-", "#2 stall 0 | replan | why A?-"),
        // Another plan.
        ("D11", "agents=wpc; m=1; s=9; A?; B", "A?- r(A<-B)", "#2 stall 0 | B"),
        // The plan stays: it is tried with what the probe found, and nobody is asked twice.
        ("D11", "agents=wpc; m=1; s=9; A?", "A?- r0", "#2 stall 0 | A"),
        ("D11", "agents=wpc; m=1; s=9; A?", "A?- r-", "#2 stall 0 | A"),
        ("D11", "agents=wpc; m=1; s=9; A?", "A?- r0 A%", "#3 stall 1 | A"),
        ("D11", "agents=wpc; m=1; s=9; A?", "A?- r0 A+ v+", "#2 stall 0 halt completed"),
        // After two failures it is looked at again, and after another plan.
        ("D11", "agents=wpc; m=1; s=9; A?", "A?- r0 A- A-", "#4 stall 2 | A?"),
        ("D11", "agents=wpc; m=1; s=9; A?; B", "A?- r(A<-B) B+", "#3 stall 0 | A?"),
        ("D11", "agents=wpc; m=1; s=9; A?; B", "A?- r(A<-B) B+ A?-", "#3 stall 0 | A"),
        // Nobody can change the plan, no iteration is left for it, or replans have ended.
        ("D11", "agents=wp; m=1; s=9; A?", "A?-", "#1 stall 0 | A"),
        ("D11", "agents=wpc; m=1; N=1; A?", "A?-", "#1 stall 0 | A"),
    ]);
}

#[test]
fn claims_without_a_change_are_done_again() {
    table(&[
        ("D33", "m=1; A", "A+0 v-", "#2 stall 0 | A | trail A-"),
        // Once.
        ("D33", "m=1; A", "A+0 v- A+0 v-", "#2 stall 0 halt stalled"),
        ("D33", "m=1; A", "A+0 v- A+ v+", "#2 stall 0 halt completed"),
        // What changed something, what was checked, what a command did and what others rest on stays.
        ("D33", "m=1; A; B", "A+0 B+ v-", "#3 stall 0 | A | done B"),
        ("D33", "m=1; A!", "A+0 v-", "#1 stall 0 halt stalled"),
        ("D33", "m=1; A$", "A+0 v-", "#1 stall 0 halt stalled"),
        ("D33", "m=1; A; B <- A", "A+0 B+ v-", "#2 stall 0 halt stalled"),
        // Its parent is open again with it.
        ("D33", "m=1; P -> A", "A+0 v-", "#2 stall 0 | A | left 2"),
        // Whoever can change the plan is asked instead.
        ("D33", "agents=wc; m=1; A", "A+0 v-", "#2 stall 0 | replan | why red1"),
    ]);
}

#[test]
fn what_fails_a_choice() {
    table(&[
        ("D10", "m=1; G=A|B", "A-", "#2 stall 0 | B | failed G:A | trail G:B"),
        ("D10", "m=1; G=A!|B", "A*", "#2 stall 0 | B | failed G:A"),
        ("D10", "m=1; G=A|B", "A#", "#2 stall 0 | B | failed G:A"),
        ("D10", "m=1; G=A|B|C", "A- B-", "#3 stall 0 | C | failed G:A,B | trail G:B G:C"),
        // These leave it selected.
        ("D10", "m=1; G=A!|B", "A%", "#2 stall 0 | A | failed "),
        ("D10", "m=1; G=A!|B", "A~", "#2 stall 0 | A | failed "),
        ("D10", "m=1; G=A!|B", "A.", "#2 stall 0 | A | failed "),
        ("D10", "m=1; G=A!|B", "A< wait30 A+ v+", "#1 stall 0 halt completed | failed "),
        ("D10", "m=1; G=A!|B", "crash", "#2 stall 0 | A | failed "),
        ("D10", "m=1; G=A!|B", "redirect redirected", "#2 stall 0 | A | failed "),
        // An atom below a choice fails the nearest one at its second failure.
        ("D10", "m=1; G=A|D; A -> B", "B-", "#2 stall 0 | B | failed  | trail B-"),
        ("D10", "m=1; G=A|D; A -> B", "B- B-", "#3 stall 0 | D | failed G:A"),
        ("D10", "m=1; G=A|D; A -> B, C", "B- B+ C- C-", "#5 stall 0 | D | failed G:A"),
        ("D10", "m=9; G=A|D; A -> B, C", "B- C- B+ C+ v+", "#2 stall 0 halt completed | failed "),
        ("D10", "m=1; G=A|D; A -> H=B|C; B -> X", "X- X-", "#3 stall 0 | C | failed H:B"),
        ("D10", "m=1; G=A|D; A -> B; B -> X", "X- X-", "#3 stall 0 | D | failed G:A"),
        ("D10", "agents=wc; m=1; s=9; G=A|D; A -> B, C", "B# r(B<-C) C+ B-", "#4 stall 1 | B | failed "),
        // An exhausted group fails the choice around it; with none, the loop halts.
        ("D10", "m=1; G=A|B", "A- B-", "#2 stall 1 halt exhausted | exit 13 | reason OR group exhausted: G"),
        ("D10", "m=1; G=A|D; A -> H=B|C", "B- C-", "#3 stall 0 | D | trail H:C C- G:D"),
        (
            "D10",
            "m=1; G=A|D; A -> H=B|C",
            "B- C- D-",
            "#3 stall 1 halt exhausted | reason OR group exhausted: G",
        ),
        (
            "D10",
            "m=1; F=Z|Y; Z -> G=A|D; A -> H=B|C",
            "B- C- D-",
            "#4 stall 0 | Y | failed F:Z G:A,D H:B,C | trail H:C C- G:D D- F:Y",
        ),
        (
            "D10",
            "m=1; A -> B|C; D <- A",
            "B- C-",
            "#2 stall 1 halt exhausted | reason OR group exhausted: B|C",
        ),
        // What runs finishes and lands, nothing new starts.
        ("D10", "m=2; G=A|B; L; M <- L", "A- B-", "#1 stall 0 | L | status running"),
        ("D10", "m=2; G=A|B; L; M <- L", "A- B- L+", "#1 stall 0 halt exhausted | done L | status stopped"),
    ]);
}

#[test]
fn probes_order_what_is_left() {
    table(&[
        ("D10", "agents=wp; m=1; s=9; G=A|B|C|D", "A-", "#2 stall 0 | B"),
        ("D10", "agents=wp; m=1; s=9; G=A|B|C|D", "A- B-", "#3 stall 0 | C?"),
        ("D10", "agents=wp; m=1; s=9; G=A|B|C|D", "A- B- C?+", "#3 stall 0 | C"),
        ("D10", "agents=wp; m=1; s=9; G=A|B|C|D", "A- B- C?.", "#3 stall 0 | C"),
        ("D10", "agents=wp; m=1; s=9; G=A|B|C|D", "A- B- C?-", "#4 stall 0 | D | sel G:D | failed G:A,B"),
        ("D10", "agents=wp; m=1; s=9; G=A|B|C|D", "A- B- C?- D-", "#5 stall 0 | C | failed G:A,B,D"),
        (
            "D10",
            "agents=wp; m=1; s=9; G=A|B|C|D|E",
            "A- B- C?- D?-",
            "#5 stall 0 | E | trail G:B G:C G:D G:E",
        ),
        ("D10", "agents=wp; m=1; s=9; G=A|B|C|D|E", "A- B- C?- D?- E-", "#6 stall 0 | C?"),
        // What another group has put off does not count here.
        ("D10", "agents=wp; m=1; G=A?|B; H=C?|D", "A?- B+ C?-", "#4 stall 0 | D | sel G:B H:D"),
        ("D10", "m=1; s=9; G=A|B|C|D", "A- B-", "#3 stall 0 | C"),
        ("D10", "agents=wp; m=1; s=9; G=A|B|C", "A- B-", "#3 stall 0 | C"),
        ("D10", "agents=wp; m=1; s=9; G=A|B|C$|D", "A- B-", "#3 stall 0 | C"),
    ]);
}

#[test]
fn probes_look_at_all_that_is_left_at_once() {
    table(&[
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D", "A-", "#2 stall 0 | B"),
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D", "A- B-", "#3 stall 0 | C? D? | runs 4 | left 1"),
        ("D10", "agents=wp; m=9; s=9; G=A|B|C|D|E", "A- B-", "#3 stall 0 | C? D? E?"),
        ("D10", "agents=wp; m=9; s=9; G=A?|B|C|D", "A?- B- C-", "#4 stall 0 | D? A?"),
        // As far as there are slots; alone, it is put off as before.
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D|E", "A- B-", "#3 stall 0 | C? D?"),
        ("D10", "agents=wp; m=2; s=9; L; K <- L; G=A|B|C|D", "A- B-", "#2 stall 0 | L C?"),
        (
            "D10",
            "agents=wp; m=2; s=9; L; K <- L; G=A|B|C|D",
            "A- B- C?-",
            "#2 stall 0 | L D | choices G:A,B,D,C",
        ),
        ("D10", "agents=wp; shared; m=3; s=9; G=A|B|C|D", "A- B-", "#3 stall 0 | C?"),
        // Each look is a start of the iteration: without it R would start.
        (
            "D8",
            "agents=wp; m=2; N=4; s=9; G=A|B|C|D; K <- A; P; Q; R",
            "A- P+ B- crash C?+1 D?. Q+",
            "#3 stall 0 | C | bound 14",
        ),
        // And needs its share of the money.
        ("D12", "agents=wp; m=3; s=9; usd=9; G=A|B|C|D|E", "cost2 A- cost2 B-", "#3 stall 0 | C? D?"),
        ("D12", "agents=wp; m=3; s=9; usd=7; G=A|B|C|D|E", "cost2 A- cost2 B-", "#3 stall 0 | C?"),
        // Commands, what is cut and what waits are not looked at, nor what has no atom.
        ("D10", "agents=wp; m=9; s=9; G=A|B|C|D$|E", "A- B-", "#3 stall 0 | C? E?"),
        ("D10", "agents=wp; m=9; s=9; G=A|B|C|D|E; D -> X", "A- B-", "#3 stall 0 | C? E?"),
        ("D10", "agents=wp; m=9; s=9; G=A|B|C|D|E; D <- Z; Z", "A- B-", "#1 stall 0 | Z C? E?"),
        ("D10", "agents=wp; m=9; s=9; G=A|B|C|:D|E", "A- B-", "#3 stall 0 | C? E?"),
        ("D10", "agents=wp; m=9; s=9; G=A|B|C|:D", "A- B- C?+", "#3 stall 0 | C"),
        // A command or a parent is tried as it is, a race anyway.
        ("D10", "agents=wp; m=9; s=9; G=A|B|C$|D|E", "A- B-", "#3 stall 0 | C"),
        ("D10", "agents=wp; m=9; s=9; G=A|B|C|D|E; C -> X", "A- B-", "#3 stall 0 | X"),
        ("D10", "agents=wp; m=9; s=9; A||B||C||D", "A- B-", "#1 stall 0 | C D"),
        ("D10", "agents=w; m=9; s=9; G=A|B|C|D", "A- B-", "#3 stall 0 | C"),
        ("D10", "agents=wp; m=9; s=9; G=A|B|C", "A- B-", "#3 stall 0 | C"),
    ]);
}

#[test]
fn the_cheapest_feasible_choice_goes_first() {
    table(&[
        // All are heard before one goes on.
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D", "A- B- C?+1", "#3 stall 0 | D? | done "),
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D", "A- B- D?+1", "#3 stall 0 | C? | sel G:C"),
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D", "A- B- C?+1 D?+2", "#3 stall 0 | C | choices G:A,B,C,D"),
        (
            "D10",
            "agents=wp; m=2; s=9; G=A|B|C|D",
            "A- B- C?+2 D?+1",
            "#4 stall 0 | D | choices G:A,B,D,C | failed G:A,B | trail G:B G:C G:D",
        ),
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D", "A- B- D?+1 C?+2", "#4 stall 0 | D | runs 5"),
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D", "A- B- C?+2 D?+2", "#3 stall 0 | C"),
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D", "A- B- C?+ D?+", "#3 stall 0 | C"),
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D", "A- B- C?+ D?+5", "#4 stall 0 | D"),
        // Feasible, unknown, not feasible; one must be tried.
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D", "A- B- C?-1 D?+5", "#4 stall 0 | D | failed G:A,B"),
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D", "A- B- C?. D?+", "#4 stall 0 | D"),
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D", "A- B- C?. D?.", "#3 stall 0 | C"),
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D", "A- B- C?. D?-", "#3 stall 0 | C"),
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D", "A- B- C?+ D?.", "#3 stall 0 | C"),
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D", "A- B- C?-2 D?-1", "#3 stall 0 | C"),
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D|E", "A- B- C?- D?-", "#4 stall 0 | E | choices G:A,B,E,C,D"),
        (
            "D10",
            "agents=wp; m=3; s=9; G=A|B|C|D|E",
            "A- B- C?- D?+ E?+4",
            "#4 stall 0 | E | choices G:A,B,E,D,C",
        ),
        (
            "D10",
            "agents=wp; m=4; s=9; G=A|B|C|:D|E|F",
            "A- B- C?- E?. F?+",
            "#4 stall 0 | F | choices G:A,B,F,E,D,C",
        ),
        ("D4", "agents=wp; m=3; s=9; G=A|B|C|:D|E", "A- B- C?- E?-", "#4 stall 0 | D | atoms A,B,C,E,D"),
        // Whoever was looked at without an answer has had its turn in the iteration, and is not probed again.
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D", "A- B- C?- D?.", "#4 stall 0 | D | sel G:D"),
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D", "A- B- C?- D?. D.", "#5 stall 1 | D"),
        ("D10", "agents=wp; m=4; s=9; L; K <- L; G=A|B|C|D", "A- B- C?- D?.", "#1 stall 0 | L | sel G:D"),
        ("D10", "agents=wp; m=4; s=9; L; K <- L; G=A|B|C|D", "A- B- C?- D?. L+", "#2 stall 0 | K D"),
        // With an answer it starts at once.
        ("D10", "agents=wp; m=4; s=9; L; K <- L; G=A|B|C|D", "A- B- C?+2 D?+1", "#1 stall 0 | L D"),
        // The next in the order needs no other look; what nobody saw does.
        ("D10", "agents=wp; m=3; s=9; G=A|B|C|D|E", "A- B- C?+3 D?+2 E?+1 E-", "#5 stall 0 | D"),
        ("D10", "agents=wp; m=3; s=9; G=A|B|C|D|E", "A- B- C?+3 D?+2 E?+1 E- D-", "#6 stall 0 | C"),
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D|E|F|H", "A- B- C?+2 D?+1 D- C-", "#6 stall 0 | E? F?"),
        ("D10", "agents=wp; m=2; s=9; G=A|B|C|D", "A- B- C?+1 D?+2 C.", "#4 stall 1 | C"),
        ("D10", "agents=wp; m=2; s=9; G=A|B|C?|D?", "A- B- C?+2 D?+1", "#4 stall 0 | D"),
        // A move of the group is no stall, and what stays behind is a result.
        ("D9", "agents=wp; m=2; s=9; G=A|B|C|D", "A- B- C?+2 D?+1 D+ v+", "#4 stall 0 halt completed"),
        ("D7", "agents=wp; m=2; s=9; G=A|B|C|D; X", "A- X+ B- C?+2 D?+1 D-", "#4 stall 0 | C"),
    ]);
}

#[test]
fn scouts_end_with_the_attempt_they_belong_to() {
    let graph = "agents=wp; m=2; s=9; G=A|B|C|D";
    table(&[
        ("D16", graph, "A- B- redirect", "#3 stall 0 | - | killed C? D?"),
        ("D16", graph, "A- B- C?+ redirect", "#3 stall 0 | - | killed D?"),
        ("D16", graph, "A- B- C?+ redirect D@3?+ redirected", "#4 stall 0 | C? D? | killed D?"),
        ("D13", graph, "A- B- now", "#3 stall 0 halt stopped_by_hand | killed C? D?"),
        ("D13", graph, "A- B- stop", "#3 stall 0 | C? | killed D?"),
        ("D13", graph, "A- B- stop C?+", "#3 stall 0 halt stopped_by_hand | sel G:C"),
        ("D13", graph, "A- B- C?+ stop", "#3 stall 0 halt stopped_by_hand | killed D? | failed G:A,B"),
        ("D13", graph, "A- B- D?+1 stop C?+2", "#3 stall 0 halt stopped_by_hand | sel G:D"),
        ("D13", graph, "A- B- tampered", "#3 stall 0 halt tampered | killed C? D?"),
        (
            "D12",
            "agents=wp; m=2; usd=5; G=A|B|C|D",
            "A- B- cost5 spent",
            "#3 stall 0 halt budget | killed C? D?",
        ),
        ("D31", graph, "A- B- fix(G=D)", "#4 stall 0 | D | killed C? D?"),
        ("D31", graph, "A- B- C?+ fix(G=D)", "#4 stall 0 | D | killed D?"),
        // Late words change nothing.
        ("D7", graph, "A- B- fix(G=D) D@3?- C@3?+", "#4 stall 0 | D | sel G:D"),
        // A crash loses what was seen, and keeps the order.
        ("D10", graph, "A- B- crash", "#4 stall 0 | C? D?"),
        ("D10", graph, "A- B- C?+2 crash", "#4 stall 0 | C? D?"),
        ("D10", graph, "A- B- C?+2 D?+1 crash", "#5 stall 0 | D | sel G:D | choices G:A,B,D,C"),
        // Refused, logged out or lost, a choice stays unknown; the loop is parked or stops as it would.
        ("D12", graph, "A- B- C?+ D?<", "#3 stall 0 | C | choices G:A,B,C,D"),
        ("D12", graph, "A- B- C?- D?<", "#3 stall 0 | - | sel G:D"),
        ("D12", graph, "A- B- C?- D?< wait30", "#4 stall 0 | D"),
        ("D12", graph, "A- B- C?< D?+1 wait30", "#3 stall 0 | C?"),
        ("D12", graph, "A- B- C?< D?+1 wait30 C?+2", "#4 stall 0 | D"),
        ("D12", graph, "A- B- D?/", "#3 stall 0 | C? | sel G:C"),
        ("D12", graph, "A- B- D?/ C?-", "#3 stall 0 halt needs_person | exit 17 | sel G:D"),
        ("D12", graph, "A- B- C?+ D?/", "#3 stall 1 halt needs_person | exit 17 | sel G:C | failed G:A,B"),
        ("D12", graph, "A- B- C?/", "#3 stall 1 halt needs_person | killed D? | failed G:A,B"),
        (
            "D12",
            "impatient; agents=wp; m=2; G=A|B|C|D",
            "A- B- C?+ D?<",
            "#3 stall 1 halt budget | exit 15 | reason limited: rate limit",
        ),
        // What a person took is tried.
        ("D31", graph, "A- B- C?+1 D?+2 fix(G=D)", "#4 stall 0 | D | killed C"),
        ("D31", graph, "A- B- fix(G=D) D-", "#5 stall 0 | C"),
    ]);
}

#[test]
fn a_hand_on_the_file_calls_scouts_back() {
    // The group is at another choice now.
    let switched = |graph: &str| {
        let mut world = World::play(graph, "A- B-");
        let mut ledger = Ledger::open(world.file.clone(), world.now);
        backtrack::switch(&mut ledger, &"G".into(), &"D".into(), "by hand").expect("D is a choice");
        world.edit(ledger.close().0);
        world
    };
    let told = "#4 stall 0 | D | killed C? D?";
    assert_eq!(switched("agents=wp; m=2; s=9; G=A|B|C|D").tell(told), told);
    let told = "#1 stall 0 | L | killed C? D?";
    let world = switched("agents=wp; m=4; s=9; L; K <- L; G=A|B|C|D");
    assert_eq!(world.tell(told), told, "D had its turn in this iteration");
    // A choice that is looked at is taken away.
    let without = |world: &World, atom: &str| {
        let mut ledger = Ledger::open(world.file.clone(), world.now);
        reshape::remove(&mut ledger, &atom.into()).expect("it can be removed");
        ledger.close().0
    };
    let mut world = World::play("agents=wp; m=3; s=9; G=A|B|C|D|E", "A- B-");
    let state = without(&world, "D");
    world.edit(state);
    let told = "#3 stall 0 | C? E? | killed D?";
    assert_eq!(world.tell(told), told);
    // It was the last that was awaited.
    let mut world = World::play("agents=wp; m=3; s=9; G=A|B|C|D|E", "A- B- E?+1 C?+2");
    let state = without(&world, "D");
    world.edit(state);
    let told = "#4 stall 0 | E | killed D?";
    assert_eq!(world.tell(told), told);
    // Another one is selected, and the one that is probed left as it was: nobody waits for an order.
    let mut world = World::play("agents=wp; m=3; s=9; G=A|B|C|D|E", "A- B-");
    let mut state = world.file.clone();
    state.or_groups["G"].selected = "D".into();
    world.edit(state);
    let told = "#3 stall 0 | C? | killed D? E?";
    assert_eq!(world.tell(told), told);
}

#[test]
fn the_brief_and_the_trail_hold_what_probes_found() {
    let findings = |script: &str| {
        let world = World::play("agents=wp; m=2; s=9; G=A|B|C|D", script);
        let job = world.last_job().clone();
        (job.id.task.atom().map(|atom| atom.to_string()).expect("an atom"), job.findings)
    };
    assert_eq!(findings("A- B-"), ("D".into(), None), "a probe looks with fresh eyes");
    assert_eq!(findings("A- B- C?+1 D?+2"), ("C".into(), Some("fine".into())));
    assert_eq!(findings("A- B- C?+2 D?+1"), ("D".into(), Some("fine".into())));
    assert_eq!(findings("A- B- C?- D?+1 D-"), ("C".into(), Some("too hard".into())));
    assert_eq!(findings("A- B- C?+1 D?+2 C."), ("C".into(), Some("fine".into())), "also the second time");
    assert_eq!(findings("A- B- C?- D?."), ("D".into(), None));
    assert_eq!(findings("A- B- C?+2 D?+1 crash"), ("D".into(), None), "a process forgets");
    let reason = |graph: &str, script: &str| {
        let world = World::play(graph, script);
        match world.file.trail.last() {
            Some(TrailEntry::Selection { reason, .. }) => reason.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        reason("agents=wp; m=3; s=9; G=A|B|C|D|E|F", "A- B- C?- D?+ E?+4"),
        "Probes: E is feasible, large (fine); D is feasible (fine); F is unknown; C is not feasible (too hard)"
    );
    let by_order = reason("agents=wp; m=2; s=9; G=A|B|C|D", "A- B- C?+3 D?+1");
    assert_eq!(by_order, "Probes: D is feasible, tiny (fine); C is feasible, medium (fine)");
    let cause = |graph: &str, script: &str| match World::play(graph, script).file.trail.last() {
        Some(TrailEntry::Selection { cause, .. }) => cause.clone(),
        other => panic!("{other:?}"),
    };
    let by_order = cause("agents=wp; m=2; s=9; G=A|B|C|D", "A- B- C?+3 D?+1");
    assert_eq!(by_order, Some(SelectionCause::ProbeOrder));
    let put_off = cause("agents=wp; m=1; G=A?|B", "A?-");
    assert_eq!(put_off, Some(SelectionCause::ProbedInfeasible), "one probe has put it off");
    let failed = SelectionCause::Failed { atom: "A".into(), reason: Some("boom".into()) };
    assert_eq!(cause("m=1; G=A|B", "A-"), Some(failed));
}

#[test]
fn findings_in_the_trail_are_one_short_line() {
    let mut world = World::play("agents=wp; m=2; s=9; G=A|B|C|D", "A- B- C?-");
    let job = world.coordinator.running().remove(0);
    let findings = format!("first\n\n  second {}", "é".repeat(400));
    let outcome = JobOutcome::Probed { feasible: Feasibility::Feasible, findings, cost: None };
    world.send(Event::Ended { job, outcome, usage: Usage::default() });
    let Some(TrailEntry::Selection { reason, .. }) = world.file.trail.last() else { panic!("a selection") };
    let cut = format!("first second {}…", "é".repeat(200 - "first second ".len()));
    assert_eq!(*reason, format!("Probes: D is feasible ({cut}); C is not feasible (too hard)"));
}

#[test]
fn among_equals_the_selected_choice_goes_first() {
    // Somebody wrote the file so: a choice is selected that does not stand first.
    let (mut state, _) = parse("G=A|B|C|D|E");
    state.or_groups["G"].failed = vec!["A".into(), "C".into()];
    state.or_groups["G"].selected = "E".into();
    let arrange = |state: &State, seen: &[(&str, Feasibility, Option<Cost>)]| {
        let mut memory = Memory::default();
        for (atom, feasible, cost) in seen {
            let (feasible, cost, findings) = (*feasible, *cost, String::new());
            memory.entry(&AtomId::from(*atom)).finding = Some(ProbeFinding { feasible, cost, findings });
        }
        let mut ledger = Ledger::open(state.clone(), start());
        let index = ledger.index(&"E".into()).expect("it is there");
        order::arrange(&mut ledger, index, &memory);
        let group = &ledger.state().or_groups["G"];
        (ids(&group.choices), group.selected.to_string())
    };
    let told = |choices: &str, selected: &str| (choices.to_owned(), selected.to_owned());
    let (yes, no) = (Feasibility::Feasible, Feasibility::Infeasible);
    assert_eq!(arrange(&state, &[]), told("A,E,C,B,D", "E"), "what has failed keeps its place");
    assert_eq!(arrange(&state, &[("D", yes, None)]), told("A,D,C,E,B", "D"));
    assert_eq!(arrange(&state, &[("E", no, Some(Cost::Tiny))]), told("A,B,C,D,E", "B"));
    let all = [("B", yes, Some(Cost::Huge)), ("D", yes, Some(Cost::Small)), ("E", yes, None)];
    assert_eq!(arrange(&state, &all), told("A,D,C,B,E", "D"));
    // Of a choice that is not selected, or races, nothing is arranged.
    state.or_groups["G"].selected = "B".into();
    assert_eq!(arrange(&state, &[("E", no, None)]), told("A,B,C,D,E", "B"));
    state.or_groups["G"].selected = "E".into();
    state.or_groups["G"].speculative = Some(true);
    assert_eq!(arrange(&state, &[("E", no, None)]), told("A,B,C,D,E", "E"));
}

#[test]
fn the_ladder() {
    table(&[
        // 1: again, with the failure in the brief.
        ("D11", "agents=wpc; m=1; s=9; A", "A-", "#2 stall 0 | A"),
        // 2: probe and then work, in the same iteration.
        ("D11", "agents=wpc; m=1; s=9; A", "A- A-", "#3 stall 1 | A?"),
        ("D11", "agents=wpc; m=1; s=9; A", "A- A- A?+", "#3 stall 1 | A"),
        ("D11", "agents=wpc; m=1; s=9; A", "A- A- A?-", "#4 stall 2 | replan | why A?-"),
        ("D11", "agents=wpc; m=1; s=9; A", "A- A- A?.", "#3 stall 1 | A"),
        ("D11", "agents=w; m=1; s=9; A", "A- A-", "#3 stall 1 | A"),
        ("D11", "agents=wp; m=1; s=9; A$", "A- A-", "#3 stall 1 | A"),
        // 3: the plan changes.
        ("D11", "agents=wpc; m=1; s=9; A", "A- A- A?+ A-", "#4 stall 2 | replan | why A-"),
        (
            "D11",
            "agents=wc; m=1; s=9; A",
            "A- A- A- r(A->B,C)",
            "#4 stall 2 | B | atoms A,B,C | trail A- A- A- A~",
        ),
        ("D11", "agents=wc; m=1; s=9; A", "A- A- A- r(A->B,C) B+ C+ v+", "#5 stall 0 halt completed"),
        ("D11", "agents=wc; m=1; s=9; A; B", "A- A- A- r(A<-B)", "#4 stall 2 | B | trail A- A- A- A~"),
        ("D11", "agents=wc; m=1; s=9; A; B", "A- A- A- r(A<-B) B+", "#5 stall 0 | A"),
        // The ladder begins anew after a change of the plan.
        ("D11", "agents=wc; m=1; s=9; A; B", "A- A- A- r(A<-B) B+ A-", "#6 stall 1 | A"),
        ("D11", "agents=wc; m=1; s=9; A; B", "A- A- A- r(A<-B) B+ A- A- A-", "#8 stall 3 | replan"),
        (
            "D11",
            "agents=wc; m=1; s=9; A; C <- A",
            "A- A- A- r(A|B)",
            "#4 stall 2 | B | sel A_or:B | failed A_or:A",
        ),
        ("D11", "agents=wc; m=1; s=9; A; C <- A", "A- A- A- r(A|B) B+", "#5 stall 0 | C"),
        ("D11", "agents=wc; m=1; s=9; A; C <- A", "A- A- A- r(A|B) B-", "#4 stall 0 halt exhausted"),
        (
            "D11",
            "agents=wc; m=1; s=9; G=A|B; C <- A",
            "A+ C- C- C- r(^G)",
            "#5 stall 3 | B | failed G:A | done ",
        ),
        (
            "D11",
            "agents=wc; m=1; s=9; G=A|B; C <- A",
            "A+ C- C- C- r(^G) B+ C+ v+",
            "#6 stall 0 halt completed",
        ),
        // A worker may call it too large.
        ("D11", "agents=wc; m=1; s=9; A", "A#", "#2 stall 0 | replan | why A#"),
        ("D11", "agents=wc; m=1; s=9; A", "A# r(A->B)", "#2 stall 0 | B"),
        ("D11", "m=1; s=9; A", "A#", "#2 stall 0 | A"),
        // One below the limit, whatever has failed is asked about.
        ("D11", "agents=wc; m=1; s=2; A; B", "A- A-", "#3 stall 1 | replan | why A- stalling"),
        ("D11", "agents=wc; m=2; s=2; A; B", "A- B- A- B-", "#3 stall 1 | replan | why A- B- stalling"),
        ("D11", "agents=wc; m=1; s=2; A; B", "A% A%", "#3 stall 1 | replan | why stalling"),
        // What sleeps is not asked about.
        (
            "D11",
            "agents=wc; m=1; s=2; G=A|D; A -> B; C",
            "B- B- D+ C-",
            "#5 stall 1 | replan | why C- stalling",
        ),
        ("D11", "agents=wc; m=2; s=2; A; B", "A% B% A% B%", "#3 stall 1 | A replan | why stalling"),
    ]);
}

#[test]
fn without_a_coordinator_agent_an_earlier_choice_is_given_up() {
    table(&[
        ("D11", "m=1; s=9; G=A|B; C <- A", "A+ C- C-", "#4 stall 2 | C"),
        (
            "D11",
            "m=1; s=9; G=A|B; C <- A",
            "A+ C- C- C-",
            "#5 stall 3 | B | failed G:A | done  | trail C- C- C- G:B C~ | reverted A:cA",
        ),
        ("D11", "m=1; s=9; G=A|B; C <- A", "A+ C- C- C- B+", "#6 stall 0 | C"),
        ("D11", "m=1; s=9; G=A|B; C <- A", "A+ C- C- C- B+ C- C- C-", "#9 stall 3 | C"),
        // The latest choice in the trail first.
        (
            "D11",
            "m=1; s=9; G=A|B|X; H=D|E|Y; C <- A, D",
            "A- B+ D- E+ C- C- C-",
            "#8 stall 3 | Y | sel G:B H:Y | done B",
        ),
        // Then an earlier one.
        (
            "D11",
            "m=1; s=9; G=A|B|X; H=D|E; C <- A, D",
            "A- B+ D- E+ C- C- C-",
            "#8 stall 3 | X | sel G:X H:E | done E",
        ),
        // Only what the atom rests on.
        ("D11", "m=1; s=9; C; G=A|B; D <- C", "C- C- C-", "#4 stall 2 | C | sel G:A"),
        ("D11", "m=1; s=9; G=A|B; P -> C; P <- A", "A+ C- C- C-", "#5 stall 3 | B | sel G:B"),
        ("D11", "m=1; s=9; G=A|B; X <- A; C <- X", "A+ X+ C- C- C-", "#6 stall 3 | B | done "),
        // Also when the loop is about to stall.
        ("D11", "m=1; s=2; G=A|B; C <- A", "A+ C-", "#3 stall 1 | B | sel G:B"),
    ]);
}

#[test]
fn at_the_stall_limit() {
    table(&[
        // Replans end; what has failed less than twice is still tried.
        ("D11", "agents=wc; m=1; s=1; A", "A- r0 A-", "#2 stall 1 halt stalled | exit 11"),
        ("D11", "agents=wc; m=1; s=1; A; B", "A- r0 A-", "#3 stall 1 | B"),
        ("D11", "agents=wc; m=1; s=1; A; B", "A- r0 A- B-", "#4 stall 2 | B"),
        ("D11", "agents=wc; m=1; s=1; A; B", "A- r0 A- B- B-", "#4 stall 3 halt stalled | tried A:2 B:2"),
        ("D11", "agents=wc; m=1; A; X <- A; B", "A- A- A- r- A-", "#5 stall 3 | B | replans 1"),
        // Any resolution brings it back.
        ("D11", "agents=wc; m=1; s=1; A; B", "A- r0 A- B+", "#4 stall 0 | replan | why A- stalling"),
        ("D11", "m=2; s=1; L; A; B <- L", "A- L-", "#2 stall 0 | L A"),
        // What has never failed, only come back, is tried until the iterations are used up.
        ("D11", "m=1; s=1; N=4; A", "A% A% A% A%", "#4 stall 3 halt iteration_limit"),
    ]);
}

#[test]
fn unknown_territory_is_probed_first() {
    table(&[
        ("req 7.3.1", "agents=wp; m=1; A?", "", "#1 stall 0 | A?"),
        ("req 7.3.1", "agents=wp; m=1; A?", "A?+", "#1 stall 0 | A"),
        ("req 7.3.1", "agents=wp; m=1; A?", "A?+ A+ v+", "#1 stall 0 halt completed"),
        ("req 7.3.1", "agents=wp; m=1; A?", "A?+ A-", "#2 stall 0 | A"),
        ("req 7.3.1", "agents=wp; m=1; A?; B", "A?-", "#1 stall 0 | A"),
        ("req 7.3.1", "agents=w; m=1; A?", "", "#1 stall 0 | A"),
        ("req 7.3.1", "agents=wp; m=1; G=A?|B", "A?-", "#2 stall 0 | B | failed  | sel G:B"),
        ("req 7.3.1", "agents=wp; m=1; G=A?|B", "A?- B-", "#3 stall 0 | A? | failed G:B"),
        ("req 7.3.1", "agents=wp; m=1; G=A?|B", "A?- B- A?-", "#3 stall 0 | A"),
        ("req 7.3.1", "agents=wp; m=2; A?||B", "A?-", "#1 stall 0 | A B"),
        // A loop that stops starts no work after a probe.
        ("D13", "agents=wp; m=1; A?", "stop A?+", "#1 stall 0 halt stopped_by_hand"),
        ("D13", "agents=wp; m=2; A?; B", "stop A?+", "#1 stall 0 | B"),
    ]);
}

#[test]
fn plans_are_refused_with_their_reason() {
    table(&[
        // A cycle, an unknown atom, nothing inside, an id that is taken.
        ("D8", "agents=wc; m=1; s=9; A; B <- A", "A- A- A- r(A<-B)", "#4 stall 2 | A | trail A- A- A-"),
        ("D8", "agents=wc; m=1; s=9; A", "A- A- A- r(A<-Z)", "#4 stall 2 | A"),
        ("D8", "agents=wc; m=1; s=9; A", "A- A- A- r(A->)", "#4 stall 2 | A"),
        ("D8", "agents=wc; m=1; s=9; A; B", "A- A- A- r(A->B)", "#4 stall 2 | A | atoms A,B"),
        // What is resolved or running stays as it is.
        ("D8", "agents=wc; m=1; s=9; B; X <- B; A", "B+ X- X- X- r(B->C)", "#5 stall 3 | X | atoms B,X,A"),
        (
            "D8",
            "agents=wc; m=2; s=9; L; X <- L; A; B; C; D; E",
            "A- B+ A- C+ A- D+ r(L->M)",
            "#4 stall 0 | L A",
        ),
        // One part that cannot be refuses the whole.
        ("D8", "agents=wc; m=1; s=9; A", "A- A- A- r(+B;A<-Z)", "#4 stall 2 | A | atoms A"),
        ("D8", "agents=wc; m=1; s=9; A", "A- A- A- r(^G)", "#4 stall 2 | A"),
        ("D8", "agents=wc; m=1; s=9; G=A|B; C <- A", "A- B+ C- C- C- r(^G)", "#6 stall 3 | C | sel G:B"),
        // A decomposition is not taken back while a child is being worked on.
        (
            "D8",
            "agents=wc; m=2; s=9; P -> L; X <- P; A; B; C; D; E",
            "A- B+ A- C+ A- D+ r(~P)",
            "#4 stall 0 | L A | atoms P,L,X,A,B,C,D,E",
        ),
        // More than the iterations left can start.
        ("D8", "agents=wc; m=1; s=9; N=5; A", "A- A- A- r(A->B,C)", "#4 stall 2 | B"),
        ("D8", "agents=wc; m=1; s=9; N=5; A", "A- A- A- r(A->B,C,D)", "#4 stall 2 | A | atoms A"),
        ("D8", "agents=wc; m=2; s=9; N=4; A", "A- A- A- r(A->B,C,D)", "#4 stall 2 | B C"),
        // What is too much already may be changed, as long as it does not grow.
        ("D8", "agents=wc; m=1; s=9; N=4; A; B; C; D", "A- A- A- r(A<-B)", "#4 stall 2 | B | needs A:B"),
        // Withdrawn, the parent is executed as a whole again.
        ("D3", "agents=wc; m=1; s=9; A -> B", "B- B- B- r(~A)", "#4 stall 2 | A | atoms A"),
        ("D3", "agents=wc; m=1; s=9; A -> B, C; C <- B", "B+ C- C- C- r(~A)", "#5 stall 3 | C | atoms A,B,C"),
    ]);
    let world = World::play("agents=wc; m=1; s=9; A; B <- A", "A- A- A- r(A<-B) A-");
    assert_eq!(
        world.refusals(),
        ["the change would make a cycle: A -> B -> A"],
        "it goes into the next brief"
    );
}

#[test]
fn a_way_beside_another_is_taken_only_by_what_has_failed() {
    table(&[
        ("D11", "agents=wc; m=1; s=9; A; B", "A- A- A- r(B|X)", "#4 stall 2 | A | sel B_or:B | failed "),
        (
            "D11",
            "agents=wc; m=1; s=9; G=A|B; D <- A",
            "A- B+ D- D- D- r(A|C)",
            "#6 stall 3 | D | sel G:B | choices G:A,B,C | failed G:A",
        ),
        // Giving a choice up changes the plan of what rests on it and has failed, of nothing else.
        (
            "D11",
            "agents=wc; m=1; s=9; G=A|B; C <- A; D <- A",
            "A+ C- C- C- r(^G)",
            "#5 stall 3 | B | trail C- C- C- G:B C~",
        ),
    ]);
}

#[test]
fn a_plan_keeps_the_bound_that_was_shown() {
    let quality = || {
        Check::Quality(Quality {
            criteria: Some("good".into()),
            rubric: Vec::new(),
            pass_threshold: 3.0,
            scope: None,
        })
    };
    let judged = |times: usize| {
        let item = || Item { item: "good".into(), wants: Wants::Check(quality()) };
        Checks::Checklist((0..times).map(|_| item()).collect())
    };
    let machine = Checks::Single(Check::Command { value: "true".into() });
    let rows = [
        ("A", machine, "fits"),
        ("A", judged(0), "empty_check"),
        ("A", judged(1), "too_many_judges"),
        ("A%", judged(1), "fits"),
        ("A%", judged(2), "too_many_judges"),
    ];
    for (graph, check, expected) in rows {
        let atom = NewAtom { description: "more".into(), check: Some(check), ..NewAtom::default() };
        let change = PlanChange { atoms: vec![atom], ..PlanChange::default() };
        let mut ledger = Ledger::open(parse(graph).0, start());
        let outcome = replan::replan(&mut ledger, change);
        let told = outcome.as_ref().map_or_else(|refusal| refusal.code(), |()| "fits");
        assert_eq!(told, expected, "D8: {graph}, {outcome:?}");
    }
}

#[test]
fn a_brief_is_told_why_the_last_attempt_came_back() {
    let mut world = World::play("m=1; A", "");
    let job = world.coordinator.running().remove(0);
    let outcome = JobOutcome::Lost { reason: "the machine slept".into() };
    world.send(Event::Ended { job, outcome, usage: Usage::default() });
    assert_eq!(world.last_job().return_reason.as_deref(), Some("the machine slept"));
    let world = World::play("agents=wp; m=1; A?", "A?+");
    assert_eq!(world.last_job().findings.as_deref(), Some("fine"));
}
