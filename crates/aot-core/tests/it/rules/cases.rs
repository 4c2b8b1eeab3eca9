//! The cases that broke a naive reading of the rules, each by its number.

use aot_core::coordinator::{Event, RedirectLock, UnrecordedLanding};
use aot_core::rules::backoff::{self, Waits};
use aot_core::rules::{Ledger, Refusal, decompose};
use aot_core::state::{AtomId, AtomStatus, Binding, Closes, Graph};

use super::world::{World, parse, start, table};

#[test]
fn cases_1_to_13() {
    table(&[
        // At most 2m-1 starts in an iteration, and the bound counts them.
        ("case 1", "m=3; N=1; A; B; C; D; E; F", "", "#1 stall 0 | A B C | bound 12"),
        ("case 1", "m=3; N=1; A; B; C; D; E; F", "A+ B+", "#1 stall 0 | C D E | bound 6"),
        ("case 1", "m=3; N=1; A; B; C; D; E; F", "A+ B+ C+", "#1 stall 0 | D E | bound 4"),
        (
            "case 1",
            "m=3; N=1; A; B; C; D; E; F",
            "A+ B+ C+ D+ E+",
            "#1 stall 0 halt iteration_limit | left 1",
        ),
        ("case 1", "m=3; N=1; A; B; C; D; E", "A+ B+ C+ D+ E+ v+", "#1 stall 0 halt completed"),
        // Killed rivals are results.
        ("case 2", "m=2; N=3; A||B; C; D; E", "A+", "#2 stall 0 | C D | killed B"),
        ("case 2", "m=3; N=3; A||B||C; D; E", "A+", "#2 stall 0 | D E | killed B C"),
        ("case 2", "m=3; A||B; L; C; D; E", "A+ L+", "#2 stall 0 | C D E | killed B"),
        // Counted when it opens; the world asserts that the bound never rises.
        ("case 3", "m=2; N=3; A; B", "crash", "#2 stall 0 | A B"),
        ("case 3", "m=2; N=3; A; B", "crash crash crash", "#3 stall 0 halt iteration_limit | bound 0"),
        ("case 3", "m=2; N=3; A; B", "redirect redirected redirect redirected", "#3 stall 0 | A B"),
        (
            "case 3",
            "m=2; N=2; A; B",
            "redirect redirected redirect redirected",
            "#2 stall 0 halt iteration_limit",
        ),
        ("case 4", "agents=wc; A", "A+ v- r0", "#2 stall 0 halt stalled | exit 11 | red 1"),
        ("case 4", "A", "A+ v-", "#1 stall 0 halt stalled | exit 11"),
        ("case 4", "agents=wc; s=2; A", "A+ v- r- r-", "#3 stall 2 halt stalled"),
        // A healthy long one finishes, and brings the loop back.
        ("case 5", "m=2; L; S; T", "S- T- S- T- S- T- S- T-", "#4 stall 3 | L"),
        ("case 5", "m=2; L; S; T", "S- T- S- T- S- T- S- T- L+", "#5 stall 0 | S T | done L"),
        ("case 5", "m=2; L; S; T", "S- T- S- T- S- T- S- T- L-", "#5 stall 3 | L"),
        (
            "case 5",
            "m=2; L; S; T",
            "S- T- S- T- S- T- S- T- L- L-",
            "#5 stall 4 halt stalled | tried S:4 T:4 L:2",
        ),
        ("case 6", "m=1; F; X <- F; G", "F- F- F- F-", "#5 stall 3 | G"),
        ("case 6", "m=1; F; X <- F; G", "F- F- F- F- G+", "#6 stall 0 | F"),
        ("case 6", "m=1; F; X <- F; G", "F- F- F- F- G- G-", "#6 stall 5 halt stalled"),
        ("case 7", "m=1; A; B; C; D; E", "A- A+ B- B+ C- C+ D- D+ E- E+ v+", "#10 stall 0 halt completed"),
        ("case 7", "m=5; A; B; C; D; E", "A- B- C- D- E- A+ B+ C+ D+ E+ v+", "#2 stall 0 halt completed"),
        // Reserved, it starts next; the others wait for it.
        ("case 8", "m=2; X(a/**) <- Y; S(a/1); T(a/2); U(a/3); Y", "Y+", "#1 stall 0 | S"),
        ("case 8", "m=2; X(a/**) <- Y; S(a/1); T(a/2); U(a/3); Y", "Y+ S+", "#2 stall 0 | X"),
        ("case 8", "m=2; X(a/**) <- Y; S(a/1); T(a/2); U(a/3); Y", "Y+ S+ X+", "#3 stall 0 | T U"),
        ("case 9", "agents=wc; m=1; A", "A- A- A-", "#4 stall 2 | replan | why A- stalling"),
        ("case 9", "agents=wc; m=1; s=2; A", "A- A-", "#3 stall 1 | replan | why A- stalling"),
        ("case 9", "agents=wc; m=1; s=1; A", "A-", "#2 stall 0 | replan | why A- stalling"),
        (
            "case 10",
            "agents=wc; m=1; A",
            "A+ v- r(+B) B+ v- r(+C) C+ v- r(+D) D+ v-",
            "#4 stall 0 halt stalled | fruitless 3",
        ),
        (
            "case 10",
            "agents=wc; m=1; A",
            "A+ v-3 r(+B) B+ v-2 r(+C) C+ v-1 r(+D) D+ v-1",
            "#5 stall 0 | replan | fruitless 1",
        ),
        ("case 11", "G=A|B", "A%", "#2 stall 0 | A | sel G:A | failed "),
        ("case 12", "m=2; A; B", "A+ crash", "#2 stall 0 | B | done A"),
        ("case 12", "m=1; A", "A+ crash v+", "#1 stall 0 halt completed"),
        ("case 13", "m=1; s=1; A", "A- A-", "#2 stall 1 halt stalled"),
        ("case 13", "m=1; s=1; A", "A- A- crash", "#3 stall 0 | A | status running | reason none"),
    ]);
}

#[test]
fn cases_14_to_25() {
    table(&[
        ("case 14", "G=A|C; A -> B", "B-", "#2 stall 0 | B"),
        ("case 14", "G=A|C; A -> B", "B- B-", "#3 stall 0 | C | failed G:A | trail B- B- G:C"),
        (
            "case 15",
            "G1=A|D; A -> G2=B|C",
            "B- C-",
            "#3 stall 0 | D | failed G1:A G2:B,C | trail G2:C C- G1:D",
        ),
        ("case 16", "G=A|B; B -> C", "", "#1 stall 0 | A | left 1"),
        ("case 16", "G=A|B; B -> C", "A-", "#2 stall 0 | C | left 2"),
        ("case 17", "G=A|B; B -> C; E <- C", "A+", "#2 stall 0 | E"),
        ("case 18", "A -> B; B <- A", "", "#0 stall 0 halt deadlock | exit 14"),
        ("case 19", "agents=wc; m=1; s=2; A", "A- A- r(A->)", "#3 stall 1 | A | trail A- A-"),
        ("case 20", "G=A4|A4_alt; A5 <- A4", "A4- A4_alt+", "#3 stall 0 | A5"),
        ("case 21", "m=1; A", "redirect redirected A@1+", "#2 stall 0 | A | done "),
        ("case 21", "m=1; A", "redirect redirected A@1- A+ v+", "#2 stall 0 halt completed | trail "),
        ("case 21", "m=1; A; B", "A+ A@1- A@1+", "#2 stall 0 | B | done A | trail "),
        ("case 21", "m=1; A", "redirect redirected A@1^", "#2 stall 0 | A | done  | reverted A:cA"),
        ("case 22", "A", "redirect abandoned", "#1 stall 0 halt redirect_interrupted | exit 10"),
        (
            "case 22",
            "A",
            "redirect crash",
            "#1 stall 0 halt redirect_interrupted | reason redirect interrupted",
        ),
        ("case 22", "A", "redirect crash crash", "#2 stall 0 | A"),
        ("case 23", "m=2; A; B", "crash(A)", "#2 stall 0 | B | done A"),
        ("case 23", "m=2; A", "A= crash(A) v+", "#1 stall 0 halt completed | done A"),
        ("case 25", "m=2; A||B", "A= B=", "#1 stall 0 | A^ B"),
        ("case 25", "m=2; A||B", "A= B= A^", "#1 stall 0 | verify | done A | killed B"),
        ("case 25", "m=2; A||B", "B= A= A%", "#1 stall 0 | A B^"),
        ("case 25", "m=2; A||B", "B= A= B% A^", "#1 stall 0 | verify | done A | sel A||B:A"),
    ]);
}

#[test]
fn cases_26_and_27_look_before_a_halt() {
    table(&[
        // A makes the base case true, B always fails.
        ("case 26", "m=1; s=1; A; B", "A+ B- B-", "#3 stall 2 | verify"),
        (
            "case 26",
            "m=1; s=1; A; B",
            "A+ B- B- v+",
            "#3 stall 2 halt completed | exit 0 | left 1 | not_needed B",
        ),
        ("case 26", "m=1; s=1; A; B", "A+ B- B- v-", "#3 stall 2 halt stalled | red 1"),
        // Nothing has changed since the last look: it is not repeated.
        (
            "case 26",
            "m=1; s=1; B",
            "B- B-",
            "#2 stall 1 halt stalled | reason stalled: 1 iteration without progress",
        ),
        // An exhausted group, the iteration limit, a deadlock, money; not the time.
        ("case 27", "m=1; G=A|B; L <- A", "A- B-", "#2 stall 1 halt exhausted"),
        ("case 27", "m=1; L; G=A|B", "L+ A- B-", "#3 stall 1 | verify"),
        ("case 27", "m=1; L; G=A|B", "L+ A- B- v+", "#3 stall 1 halt completed"),
        ("case 27", "m=1; L; G=A|B", "L+ A- B- v-", "#3 stall 1 halt exhausted"),
        ("case 27", "m=1; N=1; A; B", "A+", "#1 stall 0 | verify"),
        ("case 27", "m=1; N=1; A; B", "A+ v+", "#1 stall 0 halt completed | not_needed B"),
        ("case 27", "m=1; N=1; A; B", "A+ v-", "#1 stall 0 halt iteration_limit"),
        ("case 27", "X; A <- B; B <- A", "X+", "#1 stall 0 | verify"),
        ("case 27", "X; A <- B; B <- A", "X+ v+", "#1 stall 0 halt completed"),
        ("case 27", "m=1; usd=5; A; B", "cost5 A+", "#1 stall 0 | verify"),
        ("case 27", "m=1; usd=5; A; B", "cost5 A+ v+", "#1 stall 0 halt completed"),
        ("case 27", "m=1; usd=5; A; B", "cost5 A+ v-", "#1 stall 0 halt budget"),
        ("case 27", "m=2; wall=60; A; B", "A+ wait60", "#1 stall 0 halt budget | killed B"),
        // Made true by a person, then taken up.
        ("case 27", "m=1; G=A|B", "A- B- crash v_", "#2 stall 0 | verify"),
        ("case 27", "m=1; G=A|B", "A- B- crash v+", "#2 stall 0 halt completed"),
        ("case 27", "m=1; N=1; A; B", "A+ v- crash v+", "#1 stall 0 halt completed"),
        // Without an agent, too.
        ("case 27", "agents=; A", "v+", "#0 stall 0 halt completed | exit 0"),
        ("case 27", "agents=; A", "v-", "#0 stall 0 halt no_agent | exit 3"),
        // At a close: when a look is cheap beside the work since the last one.
        ("D14", "auto; m=1; A; B", "wait9 A+", "#1 stall 0 | verify"),
        ("D14", "auto; m=1; A; B", "wait9 A-", "#2 stall 0 | A"),
        ("D14", "auto; m=1; A; B", "A+", "#2 stall 0 | B"),
        ("D14", "auto; m=1; A; B", "wait9 A+ v+", "#1 stall 0 halt completed | not_needed B"),
        // Another goal lets every choice be tried again.
        ("D31", "m=1; G=A|B", "A- B- fix(goal) crash", "#3 stall 0 | B | failed "),
    ]);
}

#[test]
fn cases_28_to_32() {
    table(&[
        // A pass that was seen is checked again before any other stop.
        ("case 28", "m=2; each; s=9; H!; L; A", "H& A+ v+", "#1 stall 0 | L"),
        ("case 28", "m=2; each; s=9; H!; L; A", "H& A+ v+ L+", "#2 stall 0 | verify"),
        ("case 28", "m=2; each; s=9; H!; L; A", "H& A+ v+ L+ v+", "#2 stall 0 halt completed"),
        ("case 28", "m=2; each; s=9; H!; L; A", "H& A+ v+ L+ v-", "#2 stall 0 halt needs_person"),
        ("case 28", "m=2; each; L; G=A|B", "A- B- v+ L+", "#2 stall 0 | verify"),
        ("case 28", "m=2; each; L; G=A|B", "A- B- v+ L+ v+", "#2 stall 0 halt completed"),
        ("case 28", "m=2; each; L; G=A|B", "A- B- v+ L+ v-", "#2 stall 0 halt exhausted"),
        // A start that is refused meanwhile is not waited for.
        ("case 28", "m=3; each; L; K; A; B; C", "A+ B+ C+ v+ L+ K<", "#2 stall 0 | verify"),
        // An evaluation that a redirect ended is repeated before anything starts.
        ("case 29", "A", "v_ redirect redirected", "#0 stall 0 | verify"),
        ("case 29", "A", "v_ redirect redirected v+", "#0 stall 0 halt completed"),
        ("case 29", "A", "v_ redirect redirected v-", "#1 stall 0 | A"),
        ("case 29", "A", "v_ fix(N=3)", "#0 stall 0 | verify"),
        ("case 29", "m=1; each; A; B", "A+ redirect redirected", "#1 stall 0 | verify"),
        (
            "case 29",
            "m=2; each; L; A; B; C",
            "A+ B+ v+ redirect redirected",
            "#1 stall 0 | verify | killed L",
        ),
        ("case 29", "m=2; each; L; A; B; C", "A+ B+ v+ edit", "#1 stall 0 | L"),
        ("case 29", "m=2; each; L; A; B; C", "A+ B+ v+ edit L-", "#1 stall 0 | verify"),
        // A refused start changes nothing.
        (
            "case 31",
            "host; m=2; A; B; Z <- B",
            "ask(A) A- ask(B) B- ask(Z)",
            "#1 stall 0 | - | refused waiting",
        ),
        (
            "case 31",
            "host; m=2; A; B; Z <- B",
            "ask(A) A- ask(B) B- turn ask(A) A- ask(B) B- ask(Z) ask(Z)",
            "#2 stall 0 | - | refused waiting waiting",
        ),
        ("case 31", "host; m=2; A; B; Z <- B", "ask(A) A- ask(B) B- ask(Z) ask(A)", "#2 stall 0 | A"),
        // A lost evaluation is repeated after a wait, and not for ever.
        ("case 32", "A", "v.", "#0 stall 0 | -"),
        ("case 32", "A", "v. wait1", "#0 stall 0 | verify"),
        ("case 32", "A", "v. wait1 v. wait1", "#0 stall 0 | -"),
        ("case 32", "A", "v. wait1 v. wait2", "#0 stall 0 | verify"),
        ("case 32", "A", lost_and(17, ""), "#0 stall 0 | -"),
        (
            "case 32",
            "A",
            lost_and(18, ""),
            "#0 stall 0 halt needs_person | exit 17 | reason needs a person: the base case could not be evaluated: lost",
        ),
        ("case 32", "A", lost_and(17, "wait30 v- A+ v."), "#1 stall 0 | -"),
        // While it waits it is still to come, and counted.
        ("case 32", "m=1; Q=1; each; A; B", "A- v. wait30", "#1 stall 0 | verify"),
        ("case 32", "m=1; Q=1; N=3; A", "A- A>", "#1 stall 0 | - | bound 10"),
        // An edit may have mended what could not be evaluated.
        ("case 32", "m=2; each; L; A; B; C", lost_after("A+ B+", 18, ""), "#1 stall 0 | L"),
        ("case 32", "m=2; each; L; A; B; C", lost_after("A+ B+", 18, "edit"), "#1 stall 0 | L verify"),
        (
            "case 32",
            "m=2; each; L; A; B; C",
            lost_after("A+ B+", 18, "redirect redirected"),
            "#1 stall 0 | verify",
        ),
        ("case 32", "impatient; A", "v.", "#0 stall 0 halt needs_person | exit 17"),
        ("case 32", "wall=60; A", "v. wait60", "#0 stall 0 halt budget | exit 15"),
    ]);
}

/// An evaluation that gets lost, so many times again, and then the rest. Tables take texts that live on.
fn lost_and(times: usize, rest: &str) -> &'static str {
    lost_after("", times, rest)
}

fn lost_after(before: &str, times: usize, rest: &str) -> &'static str {
    format!("{before} v. {}{rest}", "wait30 v. ".repeat(times)).leak()
}

#[test]
fn case_33_what_the_world_refuses_is_no_attempt() {
    table(&[
        (
            "case 33",
            "m=1; N=1; A",
            "A>",
            "#0 stall 0 | - | runs 0 | left 1 | trail  | parked 1s no space left",
        ),
        ("case 33", "m=1; N=1; A", "A> wait1", "#1 stall 0 | A | runs 1 | parked no"),
        ("case 33", "m=1; N=1; A", "A> wait1 A>", "#0 stall 0 | - | runs 0 | parked 2s no space left"),
        ("case 33", "m=1; N=1; A", "A> wait1 A> wait2 A>", "#0 stall 0 | - | parked 4s no space left"),
        ("case 33", "m=1; N=1; A", "A> wait1 A> wait2 A+ v+", "#1 stall 0 halt completed | runs 1"),
        // The waits double, up to half a minute.
        (
            "case 33",
            "m=1; N=1; A",
            "A> wait1 A> wait2 A> wait4 A> wait8 A> wait16 A> wait30 A>",
            "#0 stall 0 | - | parked 30s no space left",
        ),
        // All that was started at once waits once.
        ("case 33", "m=3; N=1; A; B; C", "A> B>", "#1 stall 0 | C | parked 1s no space left"),
        // The longest wait counts.
        ("case 33", "m=3; N=1; A; B; C", "A> B<", "#1 stall 0 | B C | parked 30s boom"),
        ("case 33", "m=3; N=1; A; B; C", "A< B>", "#1 stall 0 | A C | parked 30s boom"),
        ("case 33", "m=3; N=1; A; B; C", "A> B> C>", "#0 stall 0 | - | runs 0"),
        // What runs goes on, and what could not be started is tried again in the same iteration.
        ("case 33", "m=2; N=1; A; B; C", "A> B+", "#1 stall 0 | - | done B | runs 1"),
        ("case 33", "m=2; N=1; A; B; C", "A> B+ wait1", "#1 stall 0 | A C"),
        ("case 33", "m=2; N=1; A; B; C", "A> B+ wait1 A+ C+ v+", "#1 stall 0 halt completed | runs 3"),
        // It is nobody's failure.
        ("case 33", "m=1; G=A|B", "A> wait1", "#1 stall 0 | A | sel G:A | failed  | trail "),
        ("case 33", "m=1; P! -> A", "A+ P> wait1", "#2 stall 0 | P!"),
        // It ends with the wall time, and says why; the loop goes on when there is room.
        (
            "case 33",
            "m=1; N=1; wall=100; A",
            "A> wait1 A> wait99",
            "#0 stall 0 halt budget | exit 15 | parked no | reason time is up: 100s of wall time; nothing could start: no space left",
        ),
        ("case 33", "m=1; N=1; A", "A> stop crash v-", "#1 stall 0 | A | parked no"),
        ("case 33", "m=1; N=1; A", "A> crash v-", "#0 stall 0 | - | parked 1s no space left"),
        // A clock that was set back by hours makes nobody wait for hours.
        ("case 33", "m=1; N=1; A", "A> wait-7200", "#1 stall 0 | A | parked no"),
        ("case 33", "m=1; N=1; A", "A> redirect redirected", "#1 stall 0 | A"),
        (
            "case 33",
            "impatient; m=1; A",
            "A>",
            "#0 stall 0 halt needs_person | reason needs a person: nothing can start: no space left",
        ),
        // A probe, and the work behind it.
        ("case 33", "agents=wp; m=1; N=1; A?", "A?>", "#0 stall 0 | - | runs 0"),
        ("case 33", "agents=wp; m=1; N=1; A?", "A?+ A>", "#1 stall 0 | A | runs 2"),
        ("case 33", "agents=wp; m=1; N=1; A?", "A?+ A> wait1 A+ v+", "#1 stall 0 halt completed | runs 2"),
        // A replan.
        ("case 33", "agents=wc; N=2; A", "A+ v- r>", "#1 stall 0 | - | runs 1"),
        ("case 33", "agents=wc; N=2; A", "A+ v- r> wait1 r(+B)", "#2 stall 0 | B | replans 2 | runs 3"),
        // A landing keeps the work.
        ("case 33", "m=1; N=1; A", "A= A^>", "#1 stall 0 | A | done  | parked 1s no space left"),
        ("case 33", "m=1; N=1; A", "A= A^> wait1", "#1 stall 0 | A^ | runs 1"),
        ("case 33", "m=1; N=1; A", "A= A^> wait1 A^ v+", "#1 stall 0 halt completed | runs 1"),
        ("case 33", "m=1; N=1; A", "A= A^> stop", "#1 stall 0 halt stopped_by_hand | killed A | left 1"),
        ("case 33", "m=1; N=2; A", "A= A^> redirect redirected", "#2 stall 0 | A | killed A"),
        // A host asks again when it wants to.
        ("case 33", "host; m=1; N=2; A", "ask(A) A>", "#0 stall 0 | - | parked no | left 1"),
        ("case 33", "host; m=1; N=2; A", "ask(A) A> ask(A) A+ turn v+", "#1 stall 0 halt completed"),
        ("case 33", "host; m=2; N=2; A; B", "ask(A) ask(B) B> ask(B)", "#1 stall 0 | A B"),
        ("case 33", "host; m=1; N=2; A", "ask(A) A= A^>", "#1 stall 0 | A | parked no | done "),
        ("case 33", "host; m=1; N=2; A", "ask(A) A= A^> A+ turn v+", "#1 stall 0 halt completed"),
        // A setup that fails in the same way before and after a wait stops the loop, with the end of its output.
        (
            "case 33",
            "m=1; N=1; A",
            "A>>",
            "#0 stall 0 | - | runs 0 | left 1 | trail  | parked 1s setup ended with 1",
        ),
        (
            "case 33",
            "m=1; N=1; A",
            "A>> wait1 A>>",
            "#0 stall 0 halt needs_person | exit 17 | runs 0 | trail  | reason needs a person: setup ended with 1\nno such package",
        ),
        ("case 33", "m=1; N=1; A", "A>> wait1 A>>2", "#0 stall 0 | - | parked 2s setup ended with 2"),
        ("case 33", "m=1; N=1; A", "A>> wait1 A>>2 wait2 A>>2", "#0 stall 0 halt needs_person | exit 17"),
        ("case 33", "m=1; N=1; A", "A>> wait1 A+ v+", "#1 stall 0 halt completed | runs 1"),
        ("case 33", "m=2; N=1; A; B", "A>> B>>", "#0 stall 0 | - | runs 0 | parked 1s setup ended with 1"),
        ("case 33", "m=2; N=1; A; B", "A>> B>> wait1 A>>", "#1 stall 0 | B"),
        (
            "case 33",
            "m=2; N=1; A; B",
            "A>> B>> wait1 A>> B+",
            "#1 stall 0 halt needs_person | exit 17 | done B",
        ),
        ("case 33", "agents=wc; N=2; A", "A+ v- r>> wait1 r>>", "#1 stall 0 halt needs_person | exit 17"),
        ("case 33", "impatient; m=1; A", "A>>", "#0 stall 0 halt needs_person | exit 17"),
    ]);
}

#[test]
fn case_33_the_longest_wait_counts_and_the_first_of_equals() {
    for (first, second, expected) in [
        (Waits::World, Waits::World, "1s first"),
        (Waits::World, Waits::Provider, "30s second"),
        (Waits::Provider, Waits::World, "30s first"),
    ] {
        let mut ledger = Ledger::open(parse("A").0, start());
        backoff::park(&mut ledger, first, 0, "first", None);
        backoff::park(&mut ledger, second, 0, "second", None);
        let control = &ledger.state().control;
        let until = control.parked_until.as_ref().expect("it is parked").at();
        let why = control.parked_reason.as_deref().unwrap_or_default();
        assert_eq!(format!("{}s {why}", until.duration_since(start()).as_secs()), expected, "D12");
    }
}

#[test]
fn case_18_a_ring_through_a_parent_is_a_cycle() {
    let (state, _) = parse("A -> B; B <- A");
    let cycles = Graph::new(&state).cycles(&state);
    assert_eq!(cycles.len(), 1);
    assert_eq!(cycles[0].closes, Closes::Now);
    let (state, _) = parse("G=A|B; B -> C; C <- D; D <- B");
    let cycles = Graph::new(&state).cycles(&state);
    assert!(cycles.iter().all(|cycle| cycle.closes == Closes::OnSwitch), "{cycles:?}");
}

#[test]
fn case_19_an_empty_decomposition_is_refused() {
    let (state, _) = parse("A");
    let mut ledger = Ledger::open(state, start());
    let refusal = decompose::decompose(&mut ledger, &AtomId::from("A"), Vec::new(), "smaller");
    assert_eq!(refusal, Err(Refusal::NoChildren));
}

#[test]
fn case_24_a_commit_of_another_attempt_is_not_ours() {
    let mut world = World::play("A", "");
    let binding = Binding {
        summary: "old".into(),
        artifacts: Vec::new(),
        commit: Some("c0".into()),
        ..Binding::default()
    };
    let found = vec![UnrecordedLanding { atom: "A".into(), attempt: 7, binding }];
    world.send(Event::Begun {
        unrecorded: found,
        fingerprint: None,
        altered: None,
        redirect: RedirectLock::Free,
    });
    world.red_unless_said();
    assert_eq!(world.file.atoms["A"].status, AtomStatus::InProgress);
    assert_eq!(world.file.control.attempts["A"], 2, "it was started again, as attempt 2");
}
