//! Iterations: when they open and close, how many starts they have, what counts as progress (D7, D8, D9), and the
//! bound.

use aot_core::rules::bound;
use aot_core::rules::plan::Agents;
use aot_core::state::Graph;

use super::world::{World, parse, table};

#[test]
fn an_iteration_closes_when_m_results_are_in_or_nothing_runs() {
    table(&[
        ("D7", "m=2; A; B; C; D", "", "#1 stall 0 | A B"),
        ("D7", "m=2; A; B; C; D", "A+", "#1 stall 0 | B C"),
        ("D7", "m=2; A; B; C; D", "A+ B+", "#2 stall 0 | C D"),
        ("D7", "m=3; A; B <- A", "A+", "#2 stall 0 | B"),
        ("D7", "m=3; A; B <- A", "A-", "#2 stall 0 | A"),
        // What still runs counts where it ends.
        ("D7", "m=2; L; A; B; C; D", "A+ B+", "#2 stall 0 | L C"),
        ("D7", "m=2; L; A; B; C; D", "A+ B+ L+", "#2 stall 0 | C D"),
        ("D7", "m=2; L; A; B; C; D", "A+ B+ L+ C+", "#2 stall 0 | D"),
        ("D7", "m=2; L; A; B; C; D", "A+ B+ L+ C+ D+ v+", "#2 stall 0 halt completed"),
        // With nothing to start no iteration is opened.
        ("D7", "m=2; L; A; B; C <- L", "A+ B+", "#1 stall 0 | L"),
        ("D7", "m=2; L; A; B; C <- L", "A+ B+ L+", "#2 stall 0 | C"),
        // Conflicts, lost ones and check errors are results.
        ("D7", "m=2; A; B; C", "A% B.", "#2 stall 0 | C A"),
        ("D7", "m=2; A; B; C", "A. B%", "#2 stall 0 | C A"),
        ("D7", "m=2; A!; B; C", "A~ B+", "#2 stall 0 | C A"),
        // A result is in when it has landed, not when it was said.
        ("D7", "m=2; A; B; C", "A=", "#1 stall 0 | A^ B"),
        ("D7", "m=2; A; B; C", "A= B=", "#1 stall 0 | A^ B^"),
        ("D7", "m=2; A; B; C", "A= B= A^ B^", "#1 stall 0 | C"),
        // A redirect, a crash and a stop end it.
        ("D7", "m=2; A; B", "A+ redirect redirected", "#2 stall 0 | B"),
        ("D7", "m=2; A; B", "A+ now crash", "#2 stall 0 | B"),
    ]);
}

#[test]
fn the_longest_remaining_path_goes_first() {
    table(&[
        ("D7", "m=1; A; B; C <- B", "", "#1 stall 0 | B"),
        ("D7", "m=2; A; B; C <- B; D <- C", "", "#1 stall 0 | B A"),
        ("D7", "m=3; A; X <- A; B; C <- B; D <- C; E", "", "#1 stall 0 | B A E"),
        ("D7", "m=1; A; G=B|X; C <- B", "", "#1 stall 0 | B"),
        ("D7", "m=1; A; P -> B; C <- P", "", "#1 stall 0 | B"),
        ("D7", "m=1; A; B; P -> C; P <- B", "", "#1 stall 0 | B"),
        ("D7", "m=1; A; B", "", "#1 stall 0 | A"),
        // What is dormant weighs nothing, until it is selected.
        ("D7", "m=1; A; C <- A; B; X <- B; G=Y|X", "", "#1 stall 0 | A"),
        ("D7", "m=9; A; C <- A; B; X <- B; D <- X; G=Y|X", "", "#1 stall 0 | A B Y"),
    ]);
}

#[test]
fn an_atom_starts_once_in_an_iteration() {
    table(&[
        ("D8", "m=2; A; B", "A-", "#1 stall 0 | B"),
        ("D8", "m=2; A; B", "A- B+", "#2 stall 0 | A"),
        ("D8", "m=2; A; B; C", "A-", "#1 stall 0 | B C"),
        ("D8", "m=2; A; B; C", "A- B-", "#2 stall 0 | C A"),
        ("D8", "m=2; G=A|B; C; D", "A-", "#1 stall 0 | C B"),
        // A replan is asked for at the opening, once; empty, refused or failed, it is asked again in the next.
        ("D8", "agents=wc; m=1; s=9; A", "A- A- A-", "#4 stall 2 | replan | replans 1"),
        ("D8", "agents=wc; m=1; s=9; A", "A- A- A- r-", "#4 stall 2 | A | replans 1"),
        ("D8", "agents=wc; m=1; s=9; A", "A- A- A- r0", "#4 stall 2 | A | replans 1"),
        ("D8", "agents=wc; m=1; s=9; A", "A- A- A- r(A<-A)", "#4 stall 2 | A | replans 1"),
        ("D8", "agents=wc; m=1; s=9; A", "A- A- A- r- A-", "#5 stall 3 | replan | replans 2"),
        ("D8", "agents=wc; m=1; s=9; A", "A# r0 A%", "#3 stall 1 | replan | why A# | replans 2"),
        // What it is about waits for it; the rest goes on.
        ("D8", "agents=wc; m=2; s=9; A; B; C; D; E", "A- B+ A- C+ A- D+", "#4 stall 0 | E replan | why A-"),
        ("D8", "agents=wc; m=2; s=9; A; B; C; D; E", "A- B+ A- C+ A- D+ r-", "#4 stall 0 | E A"),
        // The agent of a replan takes a slot.
        ("D8", "agents=wc; m=1; s=9; A; B", "A- A- A-", "#4 stall 2 | replan"),
    ]);
}

#[test]
fn progress_is_a_net_resolution() {
    table(&[
        ("D9", "m=1; A", "A-", "#2 stall 0 | A"),
        ("D9", "m=1; A", "A- A-", "#3 stall 1 | A"),
        ("D9", "m=1; A; B", "A- A- A+", "#4 stall 0 | B"),
        ("D9", "m=1; s=9; A", "A- A- A- A-", "#5 stall 3 | A"),
        ("D9", "m=1; A; B", "A% A% A%", "#4 stall 2 | A"),
        // An iteration in which a group moved is no stall, and breaks the row.
        ("D9", "m=1; A; G=B|C", "A+ B-", "#3 stall 0 | C"),
        ("D9", "m=2; s=9; A; D; G=B|C", "A- D- A- D-", "#3 stall 1 | B A"),
        ("D9", "m=2; s=9; A; D; G=B|C", "A- D- A- D- B- A-", "#4 stall 0 | D A"),
        // Growth moves the mark: only resolutions are progress.
        ("D9", "agents=wc; m=1; s=9; A", "A- A- A- r(A->B,C)", "#4 stall 2 | B | left 3 | prev 3"),
        ("D9", "agents=wc; m=1; s=9; A", "A- A- A- r(A->B,C) B+", "#5 stall 0 | C | left 2 | prev 2"),
        ("D9", "agents=wc; m=1; s=9; A", "A- A- A- r(A->B,C) B-", "#5 stall 3 | B | left 3 | prev 3"),
        ("D9", "agents=wc; m=1; s=9; A", "A- A- A- r(+B)", "#4 stall 2 | A | left 2 | prev 2"),
        // A switch to a larger choice is no loss.
        ("D9", "m=1; X; G=A|B; B -> C, D", "X+ A-", "#3 stall 0 | C | left 3 | prev 3"),
        ("D9", "m=1; X; G=A|B; B -> C, D", "X+ A- C+", "#4 stall 0 | D | left 2"),
        // Undoing is no loss either: what was resolved before is measured anew.
        ("D9", "m=1; s=9; G=A|B; C <- A", "A+ C- C- C-", "#5 stall 3 | B | left 2 | prev 2"),
        // A race counts once.
        ("D9", "m=3; A||B||C; D", "", "#1 stall 0 | A B C | left 2"),
        ("D9", "m=3; A||B||C; D", "A+", "#2 stall 0 | D | left 1 | prev 1"),
        // What ends a race is a resolution, though rivals are reset with it.
        ("D9", "m=2; s=9; X; A||B; A <- X; B <- X; D <- A", "X+ A+", "#3 stall 0 | D | left 1 | prev 1"),
        // In progress and parents count.
        ("D9", "m=1; A; P -> B", "", "#1 stall 0 | A | left 3"),
    ]);
}

#[test]
fn the_bound_is_the_formula() {
    // 2Q + N((2m-1)(2+M+2q(1+M)) + 1 + 2Q), and M is 2
    let rows = [
        ("m=1; N=1; A", 5),
        ("m=2; N=1; A", 13),
        ("m=3; N=1; A", 21),
        ("m=3; N=20; A", 420),
        ("m=1; N=1; Q=1; A", 2 + (4 + 1 + 2)),
        ("m=2; N=3; Q=2; A", 4 + 3 * (12 + 1 + 4)),
        ("m=2; N=3; A; B -> C; G=D|E", 39),
        // q: the most that any one atom asks.
        ("m=1; N=1; A%", 4 + 6 + 1),
        ("m=2; N=3; A%; B%; C!; D", 3 * (3 * (4 + 6) + 1)),
        ("m=2; N=3; Q=2; A%", 4 + 3 * (3 * (4 + 6) + 1 + 4)),
    ];
    for (graph, expected) in rows {
        assert_eq!(bound::total(&parse(graph).0).agent_runs, expected, "D8: {graph}");
    }
    table(&[
        ("D8", "m=1; N=2; A; B", "v-", "#1 stall 0 | A | bound 5"),
        ("D8", "m=1; N=2; A; B", "A+", "#2 stall 0 | B | bound 2"),
        // A worker whose answer cannot be read is asked again, and that is an agent run.
        ("D8", "m=1; N=1; A", "", "#1 stall 0 | A | bound 2 | runs 1"),
        ("D8", "m=1; N=1; A", "again2 A+ v+", "#1 stall 0 halt completed | runs 3"),
        ("D8", "m=1; N=1; A", "again2 A=", "#1 stall 0 | A^ | bound 0 | runs 3"),
        ("D8", "m=1; N=1; A", "again1 A=", "#1 stall 0 | A^ | bound 0 | runs 2"),
        ("D8", "m=1; N=1; A", "again2 A-", "#1 stall 0 halt iteration_limit | bound 0 | runs 3"),
        ("D8", "m=1; N=1; A%", "again2 A=", "#1 stall 0 | A^ | bound 2 | runs 3"),
        ("D8", "m=2; N=3; Q=1; A", "", "#1 stall 0 | A | bound 14"),
        ("D8", "m=2; N=3; Q=1; A; B", "A+ B+", "#1 stall 0 | verify | bound 6"),
        ("D8", "m=2; N=3; Q=1; A; B", "A+ B+ v+", "#1 stall 0 halt completed"),
        ("D8", "agents=wp; m=1; N=9; s=9; A?", "", "#1 stall 0 | A? | bound 35"),
        ("D8", "agents=wp; m=1; N=9; s=9; A?", "A?+", "#1 stall 0 | A | bound 34 | runs 2"),
        ("D8", "m=1; N=9; A$", "A+ v+", "#1 stall 0 halt completed | runs 0"),
        // Commands cost no agent; one that can change the plan may make atoms that do.
        ("D8", "m=3; N=9; A$; B$", "", "#1 stall 0 | A B | bound 0"),
        ("D8", "m=3; N=2; A$; B", "", "#1 stall 0 | A B | bound 5"),
        ("D8", "agents=wc; m=2; N=2; A$", "", "#1 stall 0 | A | bound 16"),
        // What can be undone may have to be done again.
        ("D8", "m=1; N=3; A; G=B|C", "A+", "#2 stall 0 | B | bound 5"),
        // A judge of the attempt in flight may still be asked, and asked again, after each mend.
        ("D8", "m=1; N=1; A%", "", "#1 stall 0 | A | bound 8"),
        ("D8", "m=1; N=2; A%; B", "", "#1 stall 0 | A | bound 17"),
        // Each of A and a choice that has no atom yet may be worked on, and each choice beside another.
        ("D8", "m=9; N=1; G=A|:B", "", "#1 stall 0 | A | bound 11"),
    ]);
}

#[test]
fn what_is_left_where_a_host_drives() {
    // A turn: two agents for each of 2m-1 attempts, one that coordinates, one that looks at the checks.
    for (graph, agents) in [("m=1; A", 4), ("m=2; A", 8), ("m=3; A", 12)] {
        assert_eq!(bound::turn(&parse(graph).0), agents, "D8: {graph}");
    }
    // N((2m-1)2 + 1 + 2Q), one agent more for each turn, and what an attempt in flight may still begin.
    for (graph, script, agent_runs) in
        [("m=1; N=2; usd=5; tok=9; A", "v-", 3 + 1 + 2), ("m=1; N=9; usd=5; tok=9; A", "v-", 24 + 1 + 9)]
    {
        let left = bound::hosted(&World::play(graph, script).file);
        assert_eq!((left.agent_runs, left.cost_usd, left.tokens), (agent_runs, None, None), "D8: {graph}");
    }
}

#[test]
fn the_least_that_success_needs() {
    for (graph, script, least) in [
        ("A; B", "v_", 2),
        ("m=1; A; B", "A+", 1),
        // A command needs no agent, a parent is its children, and a choice that sleeps is not needed.
        ("A; B$", "v_", 1),
        ("A -> B, C", "v_", 2),
        ("G=A|B|C; D", "v_", 2),
        // One of a race is enough, and one judge for each item.
        ("Q=2; A||B||C; D; E", "v_", 3 + 2),
    ] {
        let state = World::play(graph, script).file;
        assert_eq!(bound::least(&state, &Graph::new(&state)), least, "D12: {graph}");
    }
    let (mut state, _) = parse("G=A|B; A -> C, D; E");
    assert_eq!(bound::least(&state, &Graph::new(&state)), 3, "D12");
    state.or_groups["G"].failed = vec!["A".into(), "B".into()];
    assert_eq!(
        bound::least(&state, &Graph::new(&state)),
        1,
        "D12: what lies under a failed choice is not done"
    );
}

#[test]
fn what_is_left_of_money_and_tokens_and_time() {
    let world = World::play("m=1; usd=5; tok=9; wall=600; A", "wait99 cost1.5 tok2 A-");
    let left = bound::written(&world.file, Agents::ALL);
    assert_eq!((left.cost_usd, left.tokens, left.seconds), (Some(3.5), Some(7), 501), "D12");
    let world = World::play("m=1; usd=5; tok=9; A", "cost6 tok10 A-");
    let left = bound::written(&world.file, Agents::ALL);
    assert_eq!((left.cost_usd, left.tokens), (Some(0.0), Some(0)), "D12: nothing is left, and no less");
}

#[test]
fn the_gate_warns_when_the_iterations_are_too_few() {
    let rows =
        [("m=1; N=2; A; B", 2, false), ("m=1; N=2; A; B; C", 3, true), ("m=2; N=2; A; B; C", 3, false)];
    for (graph, unresolved, expected) in rows {
        assert_eq!(bound::too_tight(&parse(graph).0, unresolved), expected, "D8: {graph}");
    }
}
