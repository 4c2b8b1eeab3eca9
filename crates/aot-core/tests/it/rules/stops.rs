//! Stop conditions and their order (D13), evaluations of the base case (D14), limits in time and money (D12), resuming
//! (D15), and a host that dispatches by itself.

use std::sync::Arc;

use aot_core::coordinator::{CheckOutcome, Effect, Event, JobOutcome, RedirectLock, Usage};
use aot_core::rules::certificate::{Certificate, next_steps};
use aot_core::rules::evaluate::{self, BaseCase, Evaluations};
use aot_core::rules::{Change, Ledger, gate, redirect};
use aot_core::state::{AgentRun, AtomStatus, Check, Checks, Fingerprint, LoopStatus, State};
use serde_json::Value;

use super::world::{World, parse, start, table};

#[test]
fn stops_in_their_order() {
    table(&[
        // Redirect before a stop.
        ("D13", "m=2; A; B", "stop redirect", "#1 stall 0 | - | killed A B"),
        ("D13", "m=2; A; B", "stop redirect redirected", "#1 stall 0 halt stopped_by_hand"),
        // A stop lets what runs finish and land; nothing new starts, the base case is not asked.
        ("D13", "m=2; A; B; C", "stop", "#1 stall 0 | A B | killed "),
        ("D13", "m=2; A; B; C", "stop A+", "#1 stall 0 | B | done A"),
        (
            "D13",
            "m=2; A; B; C",
            "stop A+ B-",
            "#1 stall 0 halt stopped_by_hand | exit 10 | done A | trail B-",
        ),
        ("D13", "m=1; A", "stop A+", "#1 stall 0 halt stopped_by_hand | reason stopped by hand"),
        ("D13", "m=2; A; B; C", "now", "#1 stall 0 halt stopped_by_hand | killed A B | reason enough"),
        ("D13", "m=2; A; B; C", "stop now", "#1 stall 0 halt stopped_by_hand | killed A B"),
        ("D13", "m=2; A; B", "A= now", "#1 stall 0 | A^ | killed B"),
        ("D13", "m=2; A; B", "A= now A^", "#1 stall 0 halt stopped_by_hand | done A"),
        ("D13", "m=1; A", "A+ stop", "#1 stall 0 halt stopped_by_hand"),
        // Tampering kills.
        ("D13", "m=2; A; B", "tampered", "#1 stall 0 halt tampered | exit 16 | killed A B"),
        // It kills also what a stop lets finish; the stop is what is told.
        ("D13", "m=2; A; B", "stop tampered", "#1 stall 0 halt stopped_by_hand | exit 10 | killed A B"),
        // The more urgent of two reasons, whichever came first.
        ("D13", "m=2; A; B", "A/ tampered", "#1 stall 0 halt tampered | exit 16 | killed B"),
        ("D13", "m=2; A; B", "redirect tampered abandoned", "#1 stall 0 halt redirect_interrupted | exit 10"),
        // The base case before an exhausted group.
        ("D13", "m=1; each; G=A|B", "A- v- B- v+", "#2 stall 1 halt completed"),
        ("D13", "m=1; each; G=A|B", "A- v- B- v-", "#2 stall 1 halt exhausted"),
        // An exhausted group before the iteration limit, a stall before it too.
        ("D13", "m=1; N=2; G=A|B", "A- B-", "#2 stall 1 halt exhausted"),
        ("D13", "m=1; N=3; s=1; A", "A- A-", "#2 stall 1 halt stalled"),
        ("D13", "m=1; N=2; s=1; A", "A- A-", "#2 stall 1 halt stalled"),
        ("D13", "m=1; N=1; A", "A+ v-", "#1 stall 0 halt stalled"),
        // The iteration limit lets what runs finish.
        (
            "D13",
            "m=1; N=1; A; B",
            "A+",
            "#1 stall 0 halt iteration_limit | exit 12 | reason iteration limit reached: 1",
        ),
        ("D13", "m=2; N=1; L; A; B; C", "A+ B+", "#1 stall 0 | L"),
        ("D13", "m=2; N=1; L; A; B; C", "A+ B+ L+", "#1 stall 0 halt iteration_limit | done L A B | left 1"),
        ("D13", "m=2; N=1; L; A; B", "A+ B+ L+ v+", "#1 stall 0 halt completed"),
        ("D13", "agents=wc; m=1; N=1; A", "A+ v-", "#1 stall 0 halt iteration_limit | red 1"),
        // Time kills.
        ("D12", "m=1; wall=60; A", "wait30", "#1 stall 0 | A"),
        ("D12", "m=1; wall=60; A", "wait60", "#1 stall 0 halt budget | exit 15 | killed A"),
        ("D12", "m=1; wall=60; A", "stop wait60", "#1 stall 0 halt stopped_by_hand | killed A"),
        ("D12", "m=1; wall=60; A", "wait60 crash", "#1 stall 0 halt budget"),
        // Deadlock, with the atoms and the reason.
        (
            "D13",
            "A -> B; B <- A",
            "",
            "#0 stall 0 halt deadlock | reason deadlock: A waits for B; B waits for A",
        ),
        ("D13", "X; A <- B; B <- A", "X+", "#1 stall 0 halt deadlock | done X | left 2"),
        // What is resolved or sleeps is not stuck.
        (
            "D13",
            "X; A <- B; B <- A; G=C|D; C <- A",
            "X+",
            "#1 stall 0 halt deadlock | reason deadlock: A waits for B; B waits for A; C waits for A",
        ),
        ("D13", "m=9; L; A <- B; B <- A; X", "X+", "#1 stall 0 | L"),
        // No agent: before the first start.
        ("D27", "agents=; A$; B", "", "#0 stall 0 halt no_agent | exit 3 | reason no agent for B"),
        // A choice that is not selected is left until the loop comes to it.
        ("D27", "agents=; A$; G=B$|C", "", "#1 stall 0 | A B"),
        ("D27", "agents=; A$; G=B$|C", "A+ B+ v+", "#1 stall 0 halt completed"),
        (
            "D27",
            "agents=; m=2; A$; G=B$|C",
            "A+ B-",
            "#1 stall 0 halt no_agent | exit 3 | reason no agent for C | left 1",
        ),
        ("D27", "agents=; G=B$|C; C -> D", "B-", "#1 stall 0 halt no_agent | reason no agent for D"),
        ("D27", "agents=; G=B|C$", "", "#0 stall 0 halt no_agent | reason no agent for B"),
        ("D27", "agents=; A$", "", "#1 stall 0 | A"),
        ("D27", "agents=; A$", "A+ v+", "#1 stall 0 halt completed"),
        ("D27", "agents=; G=A$|:B", "A-", "#1 stall 0 halt no_agent | reason no agent for B"),
        ("D27", "agents=; P -> A$", "", "#1 stall 0 | A"),
    ]);
}

#[test]
fn the_base_case_decides() {
    table(&[
        // Before the first iteration.
        ("D14", "A", "v+", "#0 stall 0 halt completed | exit 0 | status completed"),
        ("D14", "A", "v-", "#1 stall 0 | A"),
        ("D14", "A", "v!", "#1 stall 0 | A"),
        ("D14", "A", "v?", "#1 stall 0 | A"),
        ("D14", "A", "vx", "#1 stall 0 | A"),
        ("D14", "A", "v. wait30 v+", "#0 stall 0 halt completed"),
        // When nothing is unresolved.
        ("D14", "A", "A+", "#1 stall 0 | verify | status running"),
        ("D14", "A", "A+ v+", "#1 stall 0 halt completed | status completed | reason none"),
        ("D14", "A", "A+ v!", "#1 stall 0 halt needs_person | exit 17 | red 1"),
        ("D14", "A", "A+ v?", "#1 stall 0 halt needs_person | exit 17 | reason needs a person: C0 (red)"),
        ("D14", "A", "A+ vx", "#1 stall 0 halt needs_person | exit 17"),
        ("D14", "A", "A+ v. wait30 v+", "#1 stall 0 halt completed"),
        ("D14", "agents=wc; A", "A+ v!", "#1 stall 0 halt needs_person"),
        ("D14", "A", "A+ v? crash v+", "#1 stall 0 halt completed"),
        // A red one goes to a replan at the opening of the next iteration.
        ("D14", "agents=wc; A", "A+ v-2", "#2 stall 0 | replan | why red2"),
        ("D14", "agents=wc; s=1; A", "A+ v-", "#2 stall 0 | replan | why red1"),
        ("D14", "agents=wc; A", "A+ v- r(+B)", "#2 stall 0 | B"),
        ("D14", "agents=wc; A", "A+ v- r(+B) B+ v+", "#2 stall 0 halt completed"),
        ("D14", "agents=wc; A", "A+ v- r-", "#3 stall 1 | replan | why red1"),
        ("D14", "agents=wc; A", "A+ v- r- r-", "#4 stall 2 | replan | why red1 stalling"),
        ("D14", "agents=wc; A", "A+ v- r(A<-A)", "#3 stall 1 | replan"),
        ("D14", "agents=wc; A", "A+ v- r- r- r-", "#4 stall 3 halt stalled"),
        // Fruitless unless fewer checks are red than ever before.
        ("D14", "agents=wc; s=2; A", "A+ v-2 r(+B) B+ v-2", "#3 stall 0 | replan | fruitless 1"),
        (
            "D14",
            "agents=wc; s=2; A",
            "A+ v-2 r(+B) B+ v-2 r(+C) C+ v-2",
            "#3 stall 0 halt stalled | fruitless 2",
        ),
        ("D14", "agents=wc; s=2; A", "A+ v-2 r(+B) B+ v-2 r(+C) C+ v-1", "#4 stall 0 | replan | fruitless 0"),
        (
            "D14",
            "agents=wc; s=2; A",
            "A+ v-2 r(+B) B+ v-3 r(+C) C+ v-2",
            "#3 stall 0 halt stalled | fruitless 2",
        ),
        // The count is kept in the state.
        ("D14", "agents=wc; s=2; A", "A+ v-2 r(+B) B+ v-2 crash v_", "#3 stall 0 | verify | fruitless 1"),
        // At each close, if asked for.
        ("D14", "m=1; each; A; B", "A+", "#1 stall 0 | verify | done A"),
        ("D14", "m=1; each; A; B", "A+ v-", "#2 stall 0 | B"),
        ("D14", "m=1; each; A; B", "A+ v!", "#2 stall 0 | B"),
        ("D14", "m=1; each; A; B", "A+ v+", "#1 stall 0 halt completed | left 1"),
        ("D14", "m=1; A; B", "A+", "#2 stall 0 | B"),
        // What runs finishes; if that changes the tree, the base case is seen again.
        ("D14", "m=2; each; L; A; B; C", "A+ B+", "#1 stall 0 | L verify"),
        ("D14", "m=2; each; L; A; B; C", "A+ B+ v+", "#1 stall 0 | L"),
        ("D14", "m=2; each; L; A; B; C", "A+ B+ v+ L-", "#1 stall 0 halt completed"),
        ("D14", "m=2; each; L; A; B; C", "A+ B+ v+ L+", "#2 stall 0 | verify"),
        ("D14", "m=2; each; L; A; B; C", "A+ B+ v+ L+ v+", "#2 stall 0 halt completed"),
        ("D14", "m=2; each; L; A; B; C", "A+ B+ v+ L+ v-", "#3 stall 0 | C"),
        ("D14", "m=2; N=1; each; L; A; B; C", "A+ B+", "#1 stall 0 | L"),
        ("D14", "m=2; N=1; each; L; A; B; C", "A+ B+ L+", "#1 stall 0 | verify"),
    ]);
}

#[test]
fn an_atoms_check_that_cannot_run_or_waits() {
    table(&[
        ("D17", "m=1; s=9; A!; B", "A~", "#2 stall 0 | A | trail "),
        ("D17", "m=1; s=9; A!; B", "A~ A~", "#3 stall 1 | B | trail "),
        ("D17", "m=1; s=9; A!; B", "A~ A~ B+", "#3 stall 0 halt needs_person | exit 17"),
        ("D17", "m=1; s=9; A!; B", "A~ A- A~", "#4 stall 2 | A"),
        ("D17", "m=1; s=9; A!; B", "A& B+", "#2 stall 0 halt needs_person | reason needs a person: A: boom"),
        ("D17", "m=1; s=9; A!", "A& crash", "#2 stall 0 | A"),
    ]);
}

#[test]
fn an_unseen_check_is_no_pass() {
    let mut world = World::play("m=1; A!", "");
    let job = world.coordinator.running().remove(0);
    let outcome =
        JobOutcome::Done { summary: "trust me".into(), artifacts: Vec::new(), check: CheckOutcome::None };
    world.send(Event::Ended { job, outcome, usage: Usage::default() });
    assert_eq!(world.tell("#2 stall 0 | A | done "), "#2 stall 0 | A | done ", "D22");
}

#[test]
fn money_and_tokens_run_out() {
    table(&[
        ("D12", "m=1; usd=5; A; B", "cost4.5 A-", "#2 stall 0 | A"),
        ("D12", "m=1; usd=5; A; B", "cost5 A-", "#1 stall 0 halt budget | exit 15"),
        (
            "D12",
            "m=2; usd=5; A; B",
            "cost3 A- cost2.5 B-",
            "#1 stall 0 halt budget | reason budget spent: 5.50 of 5.00 USD",
        ),
        ("D12", "m=2; usd=5; A; B", "cost6 A-", "#1 stall 0 halt budget | killed B"),
        ("D12", "m=1; tok=9; A; B", "tok8 A-", "#2 stall 0 | A"),
        (
            "D12",
            "m=1; tok=9; A; B",
            "tok9 A-",
            "#1 stall 0 halt budget | exit 15 | reason budget spent: 9 of 9 tokens",
        ),
    ]);
    let world = World::play("m=1; usd=5; A; B", "cost5.5 A-");
    assert_eq!(world.file.control.spent.as_ref().map(|spent| spent.cost_usd), Some(5.5));
}

#[test]
fn refused_starts_park_the_loop_and_waits_double() {
    table(&[
        ("D12", "m=1; A", "A<", "#1 stall 0 | A | runs 1"),
        ("D12", "m=1; A", "A< wait10", "#1 stall 0 | A"),
        ("D12", "m=1; A", "A< wait30 A+ v+", "#1 stall 0 halt completed | runs 1"),
        ("D12", "m=2; A; B; C", "A< B+", "#1 stall 0 | A | done B"),
        ("D12", "m=2; A; B; C", "A< B+ wait30", "#1 stall 0 | A C"),
        ("D12", "m=1; A", "A< stop", "#1 stall 0 halt stopped_by_hand"),
        ("D12", "m=1; A", "A< redirect redirected", "#2 stall 0 | A"),
        ("D12", "agents=wc; A", "A+ v- r< wait30 r(+B)", "#2 stall 0 | B"),
        ("D12", "m=1; wall=100; A", "A< wait100", "#1 stall 0 halt budget"),
    ]);
    let mut world = World::play("m=1; A", "A<");
    let wait = |world: &World| {
        let until = world.file.control.parked_until.as_ref().expect("it is parked").at();
        until.duration_since(world.now).as_secs_f64().ceil() as u64
    };
    assert_eq!(wait(&world), 30);
    world.word("wait30");
    world.word("A<");
    assert_eq!(wait(&world), 60);
    world.word("wait60");
    world.word("A<");
    assert_eq!(wait(&world), 120);
}

#[test]
fn an_agent_whose_program_cannot_be_started_stops_the_loop() {
    table(&[
        (
            "D12",
            "m=1; A",
            "A//",
            "#0 stall 0 halt no_agent | exit 3 | reason no agent: no such file | trail  | left 1",
        ),
        ("D12", "m=2; A; B; C", "A// B+", "#1 stall 0 halt no_agent | done B | left 2"),
        ("D12", "agents=wc; A", "A+ v- r//", "#1 stall 0 halt no_agent | exit 3 | red 1"),
        ("D12", "m=1; A", "A//", "#0 stall 0 halt no_agent | next aot agents; aot run --agent NAME"),
        ("D15", "m=1; A", "A// crash A+ v+", "#1 stall 0 halt completed"),
    ]);
}

#[test]
fn whoever_is_not_logged_in_stops_the_loop() {
    table(&[
        (
            "D12",
            "m=1; A",
            "A/",
            "#0 stall 0 halt needs_person | exit 17 | reason needs a person: nobody is logged in | trail ",
        ),
        // What runs finishes and lands, nothing new starts.
        ("D12", "m=2; A; B; C", "A/", "#1 stall 0 | B | killed "),
        ("D12", "m=2; A; B; C", "A/ B+", "#1 stall 0 halt needs_person | done B | left 2"),
        ("D12", "m=2; A; B; C", "A/ B-", "#1 stall 0 halt needs_person | trail B-"),
        ("D12", "m=2; A; B; C", "B= A/", "#1 stall 0 | B^"),
        ("D12", "m=2; A; B; C", "A/ B<", "#1 stall 0 halt needs_person | trail "),
        ("D12", "agents=wp; m=2; A?; B", "B/ A?+", "#1 stall 0 halt needs_person"),
        // It is nobody's failure.
        ("D12", "m=1; G=A|B", "A/", "#0 stall 0 halt needs_person | sel G:A | failed  | trail "),
        // Whoever it is.
        ("D12", "agents=wp; m=1; A?", "A?/", "#0 stall 0 halt needs_person | exit 17"),
        ("D12", "agents=wc; A", "A+ v- r/", "#1 stall 0 halt needs_person | exit 17 | red 1"),
        ("D12", "m=1; P! -> A", "A+ P/", "#1 stall 0 halt needs_person | done A"),
        // The base case comes first, and a stop by hand before it.
        ("D13", "m=2; each; L; A; B; C", "A+ B+ v+ L/", "#1 stall 0 halt completed"),
        ("D13", "m=2; each; L; A; B; C", "A+ B+ L/", "#1 stall 0 | verify"),
        ("D13", "m=2; each; L; A; B; C", "A+ B+ L/ v+", "#1 stall 0 halt completed"),
        ("D13", "m=2; each; L; A; B; C", "A+ B+ L/ v-", "#1 stall 0 halt needs_person"),
        ("D13", "m=2; A||B", "A/ B+ v+", "#1 stall 0 halt completed"),
        ("D13", "m=2; A||B", "A/ B+ v-", "#1 stall 0 halt needs_person | exit 17"),
        ("D13", "m=2; A; B", "A/ stop B+", "#1 stall 0 halt stopped_by_hand"),
        ("D13", "m=2; A; B", "A/ redirect redirected", "#1 stall 0 halt needs_person | killed B"),
        // Before what follows from it.
        ("D13", "m=1; N=1; A", "A/", "#0 stall 0 halt needs_person"),
        ("D13", "m=2; G=A|B; L", "A- B- L/", "#1 stall 0 halt needs_person"),
        ("D13", "m=1; s=1; A", "A. A/", "#1 stall 0 halt needs_person"),
        // The checks that are red are not why.
        ("D13", "A", "A/", "#0 stall 0 halt needs_person | red 1 | next aot run"),
        ("D15", "m=1; A", "A/ crash", "#1 stall 0 | A | reason none | status running"),
        ("D15", "m=1; A", "A/ crash A+ v+", "#1 stall 0 halt completed"),
    ]);
    let mut world = World::play("m=1; A", "A/");
    world.word("crash");
    assert_eq!(world.last_job().return_reason, None, "what is remembered is lost with the process");
}

#[test]
fn whoever_does_not_wait_stops_at_a_limit() {
    table(&[
        (
            "D12",
            "impatient; m=1; A",
            "A<",
            "#1 stall 0 halt budget | exit 15 | reason limited: boom | next aot run, when the limit has lifted",
        ),
        ("D12", "impatient; m=1; G=A|B", "A<", "#1 stall 0 halt budget | sel G:A | failed  | trail "),
        ("D12", "impatient; m=2; A; B; C", "A<", "#1 stall 0 | B | killed "),
        ("D12", "impatient; m=2; A; B; C", "A< B+", "#1 stall 0 halt budget | done B | left 2"),
        // The first that is told is told.
        ("D12", "impatient; m=2; A; B", "A< B/", "#1 stall 0 halt budget | exit 15"),
        ("D12", "impatient; m=2; A; B", "A/ B<", "#1 stall 0 halt needs_person | exit 17"),
        (
            "D12",
            "impatient; agents=wp; m=1; A?",
            "A?<",
            "#1 stall 0 halt budget | reason limited: rate limit",
        ),
        ("D12", "impatient; agents=wc; A", "A+ v- r<", "#2 stall 1 halt budget | reason limited: rate limit"),
        ("D15", "impatient; m=1; A", "A< crash", "#2 stall 0 | A | reason none"),
        ("D15", "impatient; m=1; A", "A< crash A<", "#2 stall 0 halt budget"),
        // Other ends are what they were.
        ("D12", "impatient; m=1; A", "A.", "#2 stall 0 | A"),
    ]);
    // Who waited has gone, and somebody who does not wait takes the loop up: it is tried at once.
    let waiting = World::play("m=1; A", "A<");
    let mut world = World::new("impatient; m=1; A");
    let mut parked = waiting.file.clone();
    parked.control.status = LoopStatus::Stopped;
    world.take_up(parked);
    world.red_unless_said();
    assert_eq!(world.tell("#2 stall 0 | A"), "#2 stall 0 | A", "D12");
    assert!(!world.is_parked(), "D12");
}

#[test]
fn what_is_spent_counts_at_once() {
    table(&[
        ("D12", "m=1; usd=5; A", "cost4 spent", "#1 stall 0 | A"),
        (
            "D12",
            "m=2; usd=5; A; B",
            "cost4 spent cost1 spent",
            "#1 stall 0 halt budget | exit 15 | killed A B | reason budget spent: 5.00 of 5.00 USD | trail ",
        ),
        ("D12", "m=1; tok=9; A", "tok9 spent", "#1 stall 0 halt budget | exit 15 | killed A"),
        ("D12", "m=1; usd=5; G=A|B", "cost5 spent", "#1 stall 0 halt budget | sel G:A | failed "),
        // What had been told is not told again at the end.
        ("D12", "m=1; usd=5; A; B", "cost3 spent cost1 A+", "#2 stall 0 | B"),
        ("D12", "m=1; usd=5; A; B", "cost3 spent cost2 A+", "#1 stall 0 halt budget | done A"),
        // A landing is let through.
        ("D12", "m=2; usd=5; A; B", "A= cost5 spent", "#1 stall 0 | A^ | killed B"),
        ("D12", "m=2; usd=5; A; B", "A= cost5 spent A^", "#1 stall 0 halt budget | done A"),
        // An evaluation under way costs no more than time, and may show that the loop is done.
        ("D14", "usd=5; A", "A+ cost5 spent", "#1 stall 0 | verify"),
        ("D14", "usd=5; A", "A+ cost5 spent v+", "#1 stall 0 halt completed"),
        ("D14", "m=2; each; usd=5; A; B; C", "A+ B+ cost5 spent", "#1 stall 0 | verify | killed C"),
        ("D14", "m=2; each; usd=5; A; B; C", "A+ B+ cost5 spent v-", "#1 stall 0 halt budget"),
        ("D12", "agents=wc; usd=5; A", "A+ v- cost5 spent", "#2 stall 0 halt budget | killed replan"),
        ("D12", "usd=5; A", "stop cost5 spent", "#1 stall 0 halt stopped_by_hand | killed A"),
        // Without a limit it is only written down.
        ("D12", "m=1; A", "cost50 spent", "#1 stall 0 | A | runs 1"),
    ]);
    let mut world = World::play("m=1; A", "cost2.5 spent tok7 spent cost1 A+");
    let spent = world.file.control.spent.clone().expect("something was spent");
    assert_eq!((spent.cost_usd, spent.tokens), (3.5, 7));
    // Judges are told with the end of what they judged.
    world.send(Event::Spent { usage: Usage { agent_runs: 3, ..Usage::default() } });
    assert_eq!(world.tell("#1 stall 0 | runs 1"), "#1 stall 0 | runs 1");
}

#[test]
fn money_is_reserved_before_a_start() {
    table(&[
        // Nothing is known at first.
        ("D12", "m=3; usd=9; A; B; C", "", "#1 stall 0 | A B C"),
        // Four each on average: one more fits beside the one that runs, then none.
        ("D12", "m=1; usd=9; A; B; C", "cost4 A+", "#2 stall 0 | B"),
        ("D12", "m=2; usd=12; A; B; C <- A; D <- A", "cost4 A+", "#1 stall 0 | B C"),
        ("D12", "m=2; usd=11; A; B; C <- A; D <- A", "cost4 A+", "#1 stall 0 | B"),
        ("D12", "m=9; usd=13; A; B <- A; C <- A; D <- A", "cost4 A+", "#2 stall 0 | B C"),
        ("D12", "m=9; usd=17; A; B <- A; C <- A; D <- A", "cost4 A+", "#2 stall 0 | B C D"),
        ("D12", "m=9; tok=13; A; B <- A; C <- A; D <- A", "tok4 A+", "#2 stall 0 | B C"),
        // What costs less than was thought makes room.
        ("D12", "m=9; usd=13; A; B <- A; C <- A; D <- A", "cost4 A+ B+", "#2 stall 0 | C D"),
        ("D12", "m=9; usd=13; A; B <- A; C <- A; D <- A", "cost4 A+ cost4 B+", "#2 stall 0 | C"),
        // With nobody running one is started, whatever it may cost.
        ("D12", "m=2; usd=9; A; B <- A; C <- A", "cost8 A+", "#2 stall 0 | B"),
        ("D12", "m=2; usd=9; A; B <- A; C <- A", "cost8 A+ B+", "#2 stall 0 | C | done A B"),
        ("D12", "m=2; usd=9; A; B <- A; C <- A", "cost8 A+ B+ C+ v+", "#2 stall 0 halt completed"),
        ("D12", "m=2; usd=9; A; B <- A; C <- A", "cost8 A+ cost1 B+", "#2 stall 0 halt budget | killed "),
        // Commands, checks and landings cost nothing.
        ("D12", "m=3; usd=9; A; B$ <- A; C <- A; D <- A", "cost8 A+", "#2 stall 0 | B C"),
        ("D12", "m=3; usd=9; A; B <- A; C <- A", "cost8 A+ B=", "#2 stall 0 | B^ C"),
        // A replan needs its share too, and waits for it.
        (
            "D12",
            "agents=wc; m=2; s=9; usd=20; L; X <- L; A; B; C; D; E",
            "A- B+ A- C+ cost9 A- cost9 D+",
            "#3 stall 0 | L | replans 0",
        ),
        (
            "D12",
            "agents=wc; m=2; s=9; usd=20; L; X <- L; A; B; C; D; E",
            "A- B+ A- C+ cost9 A- cost9 D+ L+",
            "#4 stall 0 | replan | why A-",
        ),
        // Without a limit nothing is reserved.
        ("D12", "m=9; A; B <- A; C <- A; D <- A", "cost4 A+", "#2 stall 0 | B C D"),
    ]);
}

#[test]
fn a_stopped_loop_is_taken_up() {
    table(&[
        (
            "D15",
            "m=1; A; B",
            "A- A- stop A- crash",
            "#4 stall 0 | A | prev -1 | reason none | status running",
        ),
        ("D15", "m=1; N=1; A; B", "A+ crash", "#1 stall 0 halt iteration_limit | status stopped"),
        ("D15", "m=1; G=A|B", "A- B- crash", "#2 stall 0 halt exhausted"),
        ("D15", "X; A <- B; B <- A", "X+ crash", "#1 stall 0 halt deadlock"),
        ("D15", "m=1; N=1; A; B", "A+ fix(N=3) crash", "#2 stall 0 | B"),
        ("D15", "A", "v+ crash v+", "#0 stall 0 halt completed"),
        ("D15", "A", "v+ crash v-", "#1 stall 0 | A"),
        ("D15", "m=1; each; A; B", "A+ v+ crash v_", "#1 stall 0 | verify | status running"),
        ("D15", "m=1; each; A; B", "A+ v+ crash v-", "#2 stall 0 | B"),
        ("D15", "m=1; A", "A+ v+ crash v-", "#1 stall 0 halt stalled"),
        ("D15", "m=2; A; B", "A- crash", "#2 stall 0 | A B | trail A-"),
        // Orphans are reset (coordinator-agent, step 2).
        ("D15", "m=2; A; B <- A", "A+ crash", "#3 stall 0 | B | done A"),
    ]);
}

#[test]
fn a_redirect_interrupts_everything_and_closes_without_a_stall() {
    table(&[
        ("D16", "m=2; A; B", "redirect", "#1 stall 0 | - | killed A B"),
        ("D16", "m=2; A; B", "redirect redirected", "#2 stall 0 | A B"),
        ("D16", "m=1; s=9; A", "A- A- redirect redirected", "#4 stall 0 | A"),
        ("D16", "m=1; A", "A+ redirect", "#1 stall 0 | -"),
        ("D16", "m=1; A", "A+ redirect redirected", "#1 stall 0 | verify"),
        ("D16", "agents=wc; A", "A+ v- redirect", "#2 stall 0 | - | killed replan"),
        ("D16", "m=2; A; B", "A= redirect", "#1 stall 0 | A^ | killed B"),
        ("D16", "m=2; A; B", "A= redirect A^", "#1 stall 0 | - | done A"),
        ("D16", "m=2; A; B", "A= redirect A^ redirected", "#2 stall 0 | B | done A"),
        ("D16", "m=2; A; B", "A= redirect redirected A^", "#2 stall 0 | B | done A"),
        ("D16", "m=2; A; B", "redirect A@1+ B@1-", "#1 stall 0 | - | done  | trail "),
        ("D16", "m=2; A; B", "redirect abandoned", "#1 stall 0 halt redirect_interrupted | exit 10"),
        ("D16", "m=2; A; B", "redirect abandoned crash", "#2 stall 0 | A B"),
    ]);
}

#[test]
fn hand_edits_are_kept_and_recorded() {
    // Somebody takes an atom out, adds a constraint, and types `completed`.
    let mut world = World::play("m=2; A; B; C", "");
    let mut state = world.file.clone();
    state.atoms.shift_remove("C");
    state.objective.constraints.max_stall_count = 7;
    state.control.status = LoopStatus::Completed;
    world.edit(state);
    assert_eq!(world.file.control.status, LoopStatus::Running, "promise 1: it is not believed");
    let kinds = world.tell("| | corrections x");
    assert!(kinds.ends_with("corrections DagAdjustment ConstraintChange"), "{kinds}");

    // A running atom is marked resolved by hand: its agent is killed.
    let mut world = World::play("m=2; A; B; C <- A", "");
    let mut state = world.file.clone();
    Arc::make_mut(&mut state.atoms["A"]).status = AtomStatus::Resolved;
    world.edit(state);
    assert_eq!(world.tell("#1 stall 0 | B C | killed A"), "#1 stall 0 | B C | killed A");

    // A child is marked resolved by hand: its parent resolves with it, unless it lies under a choice that sleeps.
    let mut world = World::play("m=1; L; A -> B; C <- A", "");
    let mut state = world.file.clone();
    Arc::make_mut(&mut state.atoms["B"]).status = AtomStatus::Resolved;
    world.edit(state);
    assert_eq!(world.tell("#2 stall 0 | L | done A B"), "#2 stall 0 | L | done A B", "D3");
    let mut world = World::play("m=1; L; G=A|B; B -> C", "");
    let mut state = world.file.clone();
    Arc::make_mut(&mut state.atoms["C"]).status = AtomStatus::Resolved;
    world.edit(state);
    assert_eq!(world.tell("#1 stall 0 | L | done C"), "#1 stall 0 | L | done C", "D2");

    // A result that the program proves, or that follows from other results, is not a person's to write.
    let wrote = World::play("m=2; A; B; C; D -> E", "").file;
    let not_believed = |wrote: &State, edit: fn(&mut State)| {
        let mut edited = wrote.clone();
        edit(&mut edited);
        for atom in ["A", "B", "D", "E"] {
            Arc::make_mut(&mut edited.atoms[atom]).status = AtomStatus::Resolved;
        }
        let told = redirect::unproven_results(wrote, &edited).into_iter().map(|change| match change {
            Change::ResultNotBelieved { atom, status } => format!("{atom} {}", status.word()),
            other => panic!("{other:?}"),
        });
        told.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(not_believed(&wrote, |_| ()), "D pending", "D3: a parent resolves by itself");
    let mut proven = wrote.clone();
    Arc::make_mut(&mut proven.atoms["A"]).check =
        Some(Checks::Single(Check::Command { value: "true".into() }));
    assert_eq!(not_believed(&proven, |_| ()), "A in_progress, D pending", "D22");
    let unchecked = |state: &mut State| Arc::make_mut(&mut state.atoms["A"]).check = None;
    assert_eq!(
        not_believed(&proven, unchecked),
        "A in_progress, D pending",
        "D22: not without its check either"
    );
    let mut hosted = wrote.clone();
    hosted.control.session = Some("s".into());
    assert_eq!(
        not_believed(&hosted, |_| ()),
        "A in_progress, B in_progress, D pending, E pending",
        "a session"
    );

    // The base case is not to be touched.
    let mut world = World::play("m=2; A; B", "");
    let mut state = world.file.clone();
    state.objective.protected = vec!["x".into()];
    world.edit(state);
    assert_eq!(world.tell("#1 stall 0 halt tampered | killed A B"), "#1 stall 0 halt tampered | killed A B");

    // A stop asked for in the file is a stop.
    let mut world = World::play("m=2; A; B", "");
    let mut state = world.file.clone();
    state.control.stop_requested = true;
    world.edit(state);
    assert_eq!(world.tell("#1 stall 0 | A B"), "#1 stall 0 | A B");
    world.word("A+");
    world.word("B+");
    assert_eq!(world.tell("#1 stall 0 halt stopped_by_hand"), "#1 stall 0 halt stopped_by_hand");
}

#[test]
fn the_fingerprint_is_compared_when_a_run_begins() {
    let print = |base_case: &str| Fingerprint { base_case: base_case.into(), protected: "p".into() };
    let begun = |fingerprint| Event::Begun {
        unrecorded: Vec::new(),
        fingerprint,
        altered: None,
        redirect: RedirectLock::Free,
    };
    let mut world = World::new("A");
    world.send(begun(Some(print("b"))));
    assert_eq!(world.file.control.fingerprint, Some(print("b")), "D21: a missing one is written");
    world.send(begun(Some(print("b"))));
    assert!(!world.is_halted(), "D21: the same one is fine");
    world.send(begun(Some(print("x"))));
    assert_eq!(world.tell("#0 stall 0 halt tampered | exit 16"), "#0 stall 0 halt tampered | exit 16", "D21");
}

#[test]
fn a_redirect_that_somebody_holds_is_waited_for() {
    let mut world = World::play("A", "redirect");
    world.send(Event::Begun {
        unrecorded: Vec::new(),
        fingerprint: None,
        altered: None,
        redirect: RedirectLock::Held,
    });
    assert_eq!(world.tell("#1 stall 0 | -"), "#1 stall 0 | -", "D16");
    world.word("redirected");
    world.red_unless_said();
    assert_eq!(world.tell("#2 stall 0 | A | status running"), "#2 stall 0 | A | status running", "D16");
}

#[test]
fn the_gate_names_what_is_missing() {
    let missing = |spoil: fn(&mut State)| {
        let (mut state, _) = parse("A");
        spoil(&mut state);
        gate::gate(state).map_err(|not| not.missing).err().unwrap_or_default()
    };
    let empty = || Some(Checks::Checklist(Vec::new()));
    assert!(missing(|_| {}).is_empty());
    assert_eq!(missing(|state| state.objective.goal = " ".into()), ["objective.goal"]);
    assert_eq!(missing(|state| state.objective.base_case = None), ["objective.base_case"]);
    assert_eq!(missing(|state| state.objective.background_intent.clear()), ["objective.background_intent"]);
    assert_eq!(missing(|state| state.objective.deliverables.clear()), ["objective.deliverables"]);
    assert_eq!(missing(|state| state.objective.definition_of_done.clear()), ["objective.definition_of_done"]);
    assert_eq!(missing(|state| state.atoms.clear()), ["atoms"]);
    let (mut state, _) = parse("A");
    state.objective.base_case = empty();
    assert!(gate::gate(state).is_err(), "D18: an empty checklist proves nothing");
}

#[test]
fn an_evaluation_may_come_before_the_next_iteration() {
    let (done, open) = (AtomStatus::Resolved, AtomStatus::Pending);
    let used = Some(1);
    for (iteration, base_case, status, outdated, evaluated_in, running, expected) in [
        (1, BaseCase::Unknown, open, false, None, 0, false),
        (0, BaseCase::Unknown, open, false, None, 0, true),
        (1, BaseCase::Due, open, false, None, 0, true),
        (1, BaseCase::Unknown, open, false, None, 1, true),
        (1, BaseCase::Unknown, open, true, None, 0, true),
        (1, BaseCase::Unknown, done, false, None, 0, true),
        // Each iteration has one.
        (1, BaseCase::Due, done, true, used, 1, false),
        (1, BaseCase::Evaluating { number: 1 }, open, false, used, 0, true),
    ] {
        let (mut state, _) = parse("A");
        state.control.iteration = iteration;
        Arc::make_mut(&mut state.atoms["A"]).status = status;
        let evaluations = Evaluations { outdated, evaluated_in, ..Evaluations::default() };
        let ledger = Ledger::open(state, start());
        let row = format!("D8: #{iteration} {base_case:?} {status:?} {evaluations:?} {running}");
        assert_eq!(evaluate::may_come(&ledger, &base_case, &evaluations, running), expected, "{row}");
    }
}

#[test]
fn what_nobody_said_is_filled_in() {
    type Spoil = fn(&mut State);
    let rows: [(Spoil, &str); 6] = [
        (|_| {}, ""),
        (|state| state.objective.background_intent = " ".into(), "objective.background_intent"),
        (|state| state.objective.deliverables.clear(), "objective.deliverables"),
        (|state| state.objective.definition_of_done.clear(), "objective.definition_of_done"),
        (|state| state.objective.constraints.max_wall_time = None, "objective.constraints.max_wall_time"),
        (|state| state.atoms.clear(), "atoms"),
    ];
    for (spoil, expected) in rows {
        let (mut state, _) = parse("wall=60; A");
        spoil(&mut state);
        let (filled, names) = gate::completed(state);
        assert_eq!(names.join(" "), expected, "D18");
        assert!(gate::gate(filled).is_ok(), "D18: {expected}");
    }
    let (mut state, _) = parse("A");
    state.objective.constraints.max_wall_time = None;
    state.objective.goal = " Let it be ".into();
    state.atoms.clear();
    let (mut filled, _) = gate::completed(state);
    assert_eq!(filled.constraints().max_wall_time().seconds(), 7200, "D12");
    assert_eq!(filled.atoms["A1"].description, "Let it be");
    filled.objective.goal = " ".into();
    filled.atoms.clear();
    assert_eq!(gate::completed(filled).1, [""; 0], "nothing is made of a goal that was not said");
}

#[test]
fn the_json_of_a_certificate_names_its_verdict() {
    for (graph, script, json) in [
        ("A", "A+ v?", r#"{"verdict":"needs_person"}"#),
        ("m=1; G=A|B", "A- B-", r#"{"group":"G","verdict":"exhausted"}"#),
        ("usd=5; A", "cost5 A-", r#"{"verdict":"budget","what":"money"}"#),
    ] {
        let world = World::play(graph, script);
        let certificate = world.certificate();
        let written = serde_json::to_value(certificate).expect("it can be written");
        let expected: Value = serde_json::from_str(json).expect("it is JSON");
        for (key, value) in expected.as_object().expect("it is an object") {
            assert_eq!(&written[key], value, "D13: {graph}");
        }
        assert_eq!(written.get("kind"), None, "D13: {graph}");
        assert_eq!(serde_json::from_value::<Certificate>(written).as_ref().ok(), Some(certificate));
    }
}

#[test]
fn a_certificate_says_what_to_do_next() {
    table(&[
        (
            "D13",
            "m=1; s=1; G=A|B|C; D",
            "A- B- C-",
            "#3 stall 1 halt exhausted | tried A:1 B:1 C:1 | branches ",
        ),
        ("D13", "m=1; s=1; D; G=A|B", "D- D- A+", "#4 stall 0 | D"),
        (
            "D13",
            "m=1; s=1; D; E <- D; G=A|B",
            "D- D- A+ D-",
            "#4 stall 1 halt stalled | tried D:3 | branches G:B | red 1",
        ),
        ("D13", "A", "v+", "#0 stall 0 halt completed | next "),
        ("D13", "A", "stop A+", "#1 stall 0 halt stopped_by_hand | next aot run"),
        // A person's own words are no verdict.
        (
            "D13",
            "A",
            "stop(deadlock:wait) A+",
            "#1 stall 0 halt stopped_by_hand | reason deadlock: wait for the deploy | next aot run",
        ),
        ("D13", "A", "redirect abandoned", "#1 stall 0 halt redirect_interrupted | next aot run"),
        (
            "D13",
            "A",
            "tampered",
            "#1 stall 0 halt tampered | next undo the change, then aot run; aot redirect --accept",
        ),
        (
            "D13",
            "m=1; G=A|B",
            "A- B-",
            "#2 stall 1 halt exhausted | next aot redirect --add-choice G \"DESCRIPTION\"; aot or switch G A --reason \"WHY\"",
        ),
        (
            "D13",
            "m=1; s=1; D; E <- D; G=A|B; H=X|Y",
            "D- D- A+ D- X+ D-",
            "#6 stall 1 halt stalled | next aot or switch G B --reason \"WHY\"; aot or switch H Y --reason \"WHY\"; aot redirect --redo D \"HINT\"; aot run",
        ),
        (
            "D13",
            "m=1; N=3; A; B; C; D",
            "A+ B+ C+",
            "#3 stall 0 halt iteration_limit | next aot redirect --set max_iterations=6",
        ),
        (
            "D13",
            "usd=5; A",
            "cost5 A-",
            "#1 stall 0 halt budget | next aot redirect --set max_cost_usd=LIMIT",
        ),
        ("D13", "tok=5; A", "tok5 A-", "#1 stall 0 halt budget | next aot redirect --set max_tokens=LIMIT"),
        (
            "D13",
            "wall=60; A",
            "wait60",
            "#1 stall 0 halt budget | next aot redirect --set max_wall_time=LIMIT",
        ),
        (
            "D13",
            "A <- B; B <- A",
            "",
            "#0 stall 0 halt deadlock | next aot graph; aot redirect --depends \"A <-\"",
        ),
        (
            "D13",
            "X; G=A$|B; B <- X, C; C <- A",
            "X+ A-",
            "#1 stall 0 halt deadlock | next aot graph; aot redirect --depends \"B <- X\"",
        ),
        (
            "D13",
            "s=1; A$",
            "A- A-",
            "#2 stall 1 halt stalled | next aot log A; change `run` of A in the state file, or what it needs; aot run",
        ),
        ("D13", "A", "A+ v?", "#1 stall 0 halt needs_person | next aot confirm \"C0\"; aot run"),
        (
            "D13",
            "A",
            "A+ v?%",
            "#1 stall 0 halt needs_person | next name an agent as `judge` in aot.toml; aot confirm \"C1\"; aot run",
        ),
        ("D13", "A", "A+ v!", "#1 stall 0 halt needs_person | next aot verify; aot run"),
        (
            "D13",
            "A",
            "A+ vx",
            "#1 stall 0 halt needs_person | next commit or undo what is uncommitted; aot run",
        ),
        ("D13", "agents=; A", "", "#0 stall 0 halt no_agent | next aot agents; aot run --agent NAME"),
    ]);
    // What an older program stopped has no verdict: the graph shows what holds until a redirect (D15).
    for (graph, script, expected) in [
        (
            "m=1; G=A|B",
            "A- B-",
            ["aot redirect --add-choice G \"DESCRIPTION\"", "aot or switch G A --reason \"WHY\""].as_slice(),
        ),
        ("m=1; N=3; A; B; C; D", "A+ B+ C+", &["aot redirect --set max_iterations=6"]),
        ("A <- B; B <- A", "", &["aot graph", "aot redirect --depends \"A <-\""]),
        ("A", "stop(deadlock:wait) A+", &["aot run"]),
        ("m=1; s=1; A", "A- A-", &["aot run"]),
    ] {
        let mut file = World::play(graph, script).file;
        file.control.verdict = None;
        assert_eq!(next_steps(&file), expected, "{graph}");
    }
    // The file does not name what waits for a person: an evaluation does.
    let world = World::play("A", "A+ v?");
    assert_eq!(next_steps(&world.file), ["aot verify", "aot run"], "D13");
}

#[test]
fn a_host_asks_for_each_start() {
    table(&[
        ("host", "host; m=2; A; B <- A; C", "", "#0 stall 0 | -"),
        ("host", "host; m=2; A; B <- A; C", "ask(A)", "#1 stall 0 | A"),
        ("host", "host; m=2; A; B <- A; C", "ask(B)", "#0 stall 0 | - | refused waiting"),
        ("host", "host; m=2; A; B <- A; C", "ask(A) ask(A)", "#1 stall 0 | A | refused wrong_status"),
        ("host", "host; m=2; A; B <- A; C", "ask(A) A-", "#1 stall 0 | - | trail A-"),
        ("host", "host; m=2; A; B <- A; C", "ask(A) A- ask(A)", "#1 stall 0 | - | refused started_already"),
        ("host", "host; m=2; A; B <- A; C", "ask(A) A+ ask(B)", "#1 stall 0 | B"),
        ("host", "host; m=1; A; B; C", "ask(A) ask(B)", "#1 stall 0 | A | refused slots_full"),
        ("host", "host; m=1; A; B; C", "ask(A) A+ ask(B)", "#2 stall 0 | B"),
        ("host", "host; m=2; A@db; B@db", "ask(A) ask(B)", "#1 stall 0 | A | refused in_the_way"),
        ("host", "host; m=1; N=1; A; B", "ask(A) A+ ask(B)", "#1 stall 0 | - | refused iteration_limit"),
        ("host", "host; m=2; A; B", "ask(A) A+ turn", "#1 stall 0 | - | left 1"),
        ("host", "host; m=2; A; B", "ask(A) A+ turn ask(B)", "#2 stall 0 | B"),
        // An empty turn is an iteration, and a stall.
        ("host", "host; m=2; A; B", "ask(A) A+ turn turn", "#2 stall 1 | -"),
        ("host", "host; m=2; s=2; A; B", "ask(A) A- turn ask(A) A- turn turn", "#3 stall 2 | -"),
        ("host", "host; m=2; s=2; A", "ask(A) A- turn ask(A) A- turn turn", "#3 stall 2 halt stalled"),
        ("D11", "host; m=2; s=2; A; B", "ask(A) A- turn ask(A) A- turn turn turn", "#4 stall 3 halt stalled"),
        (
            "D11",
            "host; m=2; s=2; A; B",
            "ask(A) A- turn ask(A) A- turn turn ask(B) B- turn",
            "#4 stall 3 | -",
        ),
        ("D11", "host; m=2; s=1; A; B", "turn turn turn", "#3 stall 2 halt stalled"),
        ("D24", "host; shared; m=2; A; B", "ask(A) ask(B)", "#1 stall 0 | A | refused slots_full"),
        ("host", "host; m=2; A", "ask(A) A+ turn", "#1 stall 0 | verify"),
        ("host", "host; m=2; A", "ask(A) A+ turn v+", "#1 stall 0 halt completed"),
        ("host", "host; agents=wc; m=2; A", "ask(A) A+ turn v-", "#1 stall 0 | - | fruitless 0"),
        ("host", "host; m=2; G=A|B", "ask(A) A- ask(B)", "#1 stall 0 | B"),
        ("host", "host; m=2; G=A|B", "ask(A) A- ask(B) B- turn", "#1 stall 0 halt exhausted"),
        ("host", "host; m=2; A; B", "ask(A) stop", "#1 stall 0 | A"),
        ("host", "host; m=2; A; B", "ask(A) stop ask(B)", "#1 stall 0 | A | refused stop_requested"),
        ("host", "host; m=2; A; B", "ask(A) stop A+", "#1 stall 0 halt stopped_by_hand | done A"),
        ("host", "host; m=2; N=1; A; B", "ask(A) A+ turn", "#1 stall 0 halt iteration_limit"),
    ]);
}

#[test]
fn a_run_of_an_agent_is_recorded_with_the_next_result() {
    let mut world = World::play("m=1; A", "");
    let run = AgentRun { role: "worker".into(), agent: "mine".into(), tokens: 7, ..AgentRun::default() };
    let now = world.now;
    assert_eq!(world.coordinator.on(Event::AgentRan { run: run.clone() }, now), Vec::new());
    let recorded = |effects: Vec<Effect>| {
        let changes = effects.into_iter().find_map(|effect| match effect {
            Effect::Record(changes) => Some(changes),
            _ => None,
        });
        let runs = changes.into_iter().flatten().find_map(|change| match change {
            Change::SpentSoFar { runs, .. } => Some(runs),
            _ => None,
        });
        runs.unwrap_or_default()
    };
    // It is written although the event itself brings nothing that would be charged.
    let spent = Event::Spent { usage: Usage::default() };
    assert_eq!(recorded(world.coordinator.on(spent.clone(), now)), [run]);
    assert_eq!(recorded(world.coordinator.on(spent, now)), []);
    // An older program wrote no runs, and a newer one may write more of each.
    for (line, runs) in [
        (r#"{"type":"spent_so_far","spent":{"tokens":7}}"#, 0),
        (r#"{"type":"spent_so_far","spent":{},"runs":[{"role":"x","agent":"y","colour":"red"}]}"#, 1),
    ] {
        let Ok(Change::SpentSoFar { runs: read, .. }) = serde_json::from_str(line) else { panic!("{line}") };
        assert_eq!(read.len(), runs, "{line}");
    }
}
