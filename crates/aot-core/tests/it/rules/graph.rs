//! The graph: what waits for what, what is dormant, what is made and what resolves by itself (D1-D5), races (D25),
//! and what may not run at the same time (D26).

use aot_core::rules::overlap::globs_overlap;
use aot_core::rules::reshape::NewAtom;
use aot_core::rules::{Ledger, Refusal, decompose, reshape};
use aot_core::state::{AtomId, AtomStatus, GroupName};

use super::world::{World, ids, parse, start, table};

#[test]
fn a_dependency_on_a_choice_means_its_group() {
    table(&[
        ("D1", "m=9; G=A|B; C <- A", "", "#1 stall 0 | A"),
        ("D1", "m=9; G=A|B; C <- A", "A+", "#2 stall 0 | C"),
        ("D1", "m=9; G=A|B; C <- A", "A- B+", "#3 stall 0 | C"),
        ("D1", "m=9; G=A|B; C <- B", "", "#1 stall 0 | A"),
        ("D1", "m=9; G=A|B; C <- B", "A+", "#2 stall 0 | C"),
        ("D1", "m=9; G=A|B; C <- A, B", "A- B+", "#3 stall 0 | C"),
        // From outside, on something inside a choice: the group of the outermost choice.
        ("D1", "m=9; G=A|B; A -> X, Y; C <- X", "X+", "#1 stall 0 | Y"),
        ("D1", "m=9; G=A|B; A -> X, Y; C <- X", "X+ Y+", "#2 stall 0 | C"),
        ("D1", "m=9; G=A|B; A -> X, Y; C <- X", "X- Y+ X- B+", "#4 stall 0 | C"),
        ("D1", "m=9; G=A|D; A -> H=B|C; E <- B", "B+", "#2 stall 0 | E"),
        ("D1", "m=9; G=A|D; A -> H=B|C; E <- B", "B- C- D+", "#4 stall 0 | E"),
        // From inside the same choice: the thing itself.
        ("D1", "m=9; G=A|B; A -> X, Y; Y <- X", "", "#1 stall 0 | X"),
        ("D1", "m=9; G=A|B; A -> X, Y; Y <- X", "X+", "#2 stall 0 | Y"),
        ("D1", "m=9; G=A|D; A -> B|C, E; E <- B", "B+", "#2 stall 0 | E"),
        ("D1", "m=9; G=A|D; A -> B|C, E; E <- C", "B+", "#2 stall 0 | E"),
        // Through a dormant choice no ring closes; selected, it is a deadlock (D5).
        ("D5", "m=9; G=A|B; B <- A", "", "#1 stall 0 | A"),
        ("D5", "m=9; G=A|B; B <- A", "A-", "#1 stall 0 halt deadlock | exit 14"),
    ]);
}

#[test]
fn what_is_not_selected_is_dormant() {
    table(&[
        ("D2", "m=9; G=A|B; C", "", "#1 stall 0 | A C | left 2"),
        ("D2", "m=9; G=A|B; B -> C, D", "", "#1 stall 0 | A | left 1"),
        ("D2", "m=9; G=A|B; B -> C", "A+", "#1 stall 0 | verify | left 0"),
        ("D2", "m=9; G=A|B; B -> C", "A+ v+", "#1 stall 0 halt completed | done A"),
        ("D2", "m=9; G=A|D; A -> H=B|C", "", "#1 stall 0 | B | left 2"),
        ("D2", "m=9; G=D|A; A -> H=B|C", "", "#1 stall 0 | D | left 1"),
        // A switch resets what was done under the old choice, and kills what runs there.
        ("D2", "m=9; G=A|D; A -> B, C", "B- C+ B-", "#3 stall 0 | D | done "),
        (
            "D2",
            "m=3; G=A|D; A -> B, C; E; F; H",
            "B- E+ F+ B-",
            "#2 stall 0 | H D | killed C | sel G:D | done E F",
        ),
        // A dormant group cannot be exhausted.
        ("D2", "m=9; G=A|D; A -> H=B|C", "B- C-", "#3 stall 0 | D | failed G:A H:B,C"),
        ("D2", "m=9; G=A|D; A -> H=B|C", "B- C- D+ v+", "#3 stall 0 halt completed"),
    ]);
}

#[test]
fn parents_resolve_by_themselves() {
    table(&[
        ("D3", "m=9; A -> B", "", "#1 stall 0 | B | left 2"),
        ("D3", "m=9; A -> B; C <- A", "B+", "#2 stall 0 | C | done A B"),
        ("D3", "m=9; A -> B, C; D <- A", "B+", "#1 stall 0 | C | done B"),
        ("D3", "m=9; A -> B; B -> C", "C+", "#1 stall 0 | verify | done A B C"),
        ("D3", "m=9; A -> B|C; D <- A", "B+", "#2 stall 0 | D | done A B"),
        ("D3", "m=9; A -> B|C; D <- A", "B- C+", "#3 stall 0 | D | done A C"),
        // Its own dependencies hold for its children.
        ("D3", "m=9; X; A -> B; A <- X", "", "#1 stall 0 | X"),
        ("D3", "m=9; X; A -> B; A <- X", "X+", "#2 stall 0 | B"),
        ("D3", "m=9; X; A -> B; B -> C; A <- X", "X+", "#2 stall 0 | C"),
        // Its own check is run when the last child is through.
        ("D3", "m=9; A! -> B; C <- A", "", "#1 stall 0 | B"),
        ("D3", "m=9; A! -> B; C <- A", "B+", "#2 stall 0 | A! | done B"),
        ("D3", "m=9; A! -> B; C <- A", "B+ A+", "#3 stall 0 | C | done A B"),
        ("D3", "m=9; A! -> B; C <- A", "B+ A*", "#3 stall 1 | A! | trail A- | done B"),
        ("D3", "m=9; A! -> B; C <- A", "B+ A* A+", "#4 stall 0 | C"),
        ("D3", "m=9; A! -> B; C <- A", "B+ A~", "#3 stall 1 | A! | trail "),
        ("D3", "m=9; A! -> B; C <- A", "B+ A~ A~", "#3 stall 2 halt needs_person | exit 17"),
        ("D3", "m=9; P -> A; A! -> B; C <- P", "B+ A+", "#3 stall 0 | C | done P A B"),
        ("D10", "m=9; G=A!|D; A -> B", "B+ A*", "#3 stall 0 | D | failed G:A | done "),
        ("D10", "m=9; G=A|D; A -> P; P! -> B", "B+ P* P*", "#4 stall 0 | D | failed G:A | trail P- P- G:D"),
        ("D22", "m=1; s=9; A!", "A*", "#2 stall 0 | A | trail A-"),
        ("D22", "m=1; s=9; A!", "A+ v+", "#1 stall 0 halt completed"),
    ]);
}

#[test]
fn a_parents_binding_names_its_children() {
    let world = World::play("m=9; A -> B|X, C", "B- X+ C+");
    let binding = &world.file.bindings["A"];
    assert_eq!(binding.summary, "Completed via X, C resolution");
    assert_eq!(binding.artifacts, ["X.rs", "C.rs"]);
}

#[test]
fn a_choice_without_an_atom_gets_one() {
    table(&[
        ("D4", "m=9; G=A|:B", "", "#1 stall 0 | A | atoms A"),
        ("D4", "m=9; G=A|:B", "A-", "#2 stall 0 | B | atoms A,B"),
        ("D4", "m=9; G=A|:B", "A- B+ v+", "#2 stall 0 halt completed"),
        ("D4", "m=9; G=A|:B", "A- B-", "#2 stall 1 halt exhausted"),
        ("D4", "m=9; P -> A|:B; C <- P", "A- B+", "#3 stall 0 | C | done P B"),
        ("D4", "m=9; X; G=A|:B; A <- X", "X+ A-", "#3 stall 0 | B | needs B:X"),
        ("D4", "m=9; G=:B|A", "", "#1 stall 0 | B | atoms A,B"),
    ]);
    let world = World::play("m=9; G=A|:B", "A-");
    assert_eq!(world.file.atoms["B"].description, "Alternative to A (do A): boom");
}

#[test]
fn decompositions_copy_dependencies_and_make_no_ring() {
    let child = |id: Option<&str>, needs: &[&str]| NewAtom {
        id: id.map(AtomId::from),
        description: "part".into(),
        depends_on: needs.iter().map(|id| AtomId::from(*id)).collect(),
        ..NewAtom::default()
    };
    let cut = |graph: &str, parent: &str, children: Vec<NewAtom>| {
        let mut ledger = Ledger::open(parse(graph).0, start());
        let made = decompose::decompose(&mut ledger, &parent.into(), children, "smaller")?;
        let told: Vec<String> = made
            .iter()
            .map(|id| {
                let needs = &ledger.state().atoms[id].depends_on;
                format!("{id}<-{}", needs.iter().map(AtomId::as_str).collect::<Vec<_>>().join(","))
            })
            .collect();
        Ok::<String, Refusal>(told.join(" "))
    };
    type Row = (&'static str, &'static str, Vec<NewAtom>, Result<&'static str, &'static str>);
    let rows: [Row; 8] = [
        ("A1; A2; A2 <- A1", "A2", vec![child(None, &[]), child(None, &[])], Ok("A3<-A1 A4<-A1")),
        ("A1", "A1", vec![child(Some("X"), &[]), child(None, &["X"])], Ok("X<- A2<-X")),
        ("A1; A2; A2 <- A1", "A2", vec![child(None, &["A1"])], Ok("A3<-A1")),
        ("A1", "A1", vec![], Err("no_children")),
        ("A1", "A1", vec![child(Some("X"), &["A1"])], Err("cycle")),
        ("A1; A2; A2 <- A1", "A1", vec![child(None, &["A2"])], Err("cycle")),
        ("A1; A2", "A1", vec![child(Some("A2"), &[])], Err("id_taken")),
        ("A1", "A1", vec![child(None, &["A9"])], Err("unknown_atom")),
    ];
    for (graph, parent, children, expected) in rows {
        let actual = cut(graph, parent, children);
        assert_eq!(actual.as_deref().map_err(Refusal::code), expected, "D5: {graph}, {parent}");
    }
    // Dependents of the parent keep waiting for the parent.
    let mut ledger = Ledger::open(parse("A1; A2; A2 <- A1").0, start());
    decompose::decompose(&mut ledger, &"A1".into(), vec![child(None, &[])], "smaller")
        .expect("it can be cut");
    assert_eq!(ledger.state().atoms["A2"].depends_on, [AtomId::from("A1")]);
    // A decomposition without results can be withdrawn; the parent is executed again.
    assert_eq!(decompose::withdraw(&mut ledger, &"A1".into()), Ok(vec!["A3".into()]));
    assert_eq!(ledger.graph().ready_ids(ledger.state()), [&AtomId::from("A1")]);
}

#[test]
fn removing_what_others_need_names_them() {
    let (state, _) = parse("A; B <- A; C -> D");
    let mut ledger = Ledger::open(state, start());
    assert_eq!(
        reshape::remove(&mut ledger, &"A".into()),
        Err(Refusal::Needed { atom: "A".into(), by: vec!["B".into()] })
    );
    assert_eq!(
        reshape::remove(&mut ledger, &"D".into()),
        Err(Refusal::Needed { atom: "D".into(), by: vec!["C".into()] })
    );
    assert_eq!(reshape::remove(&mut ledger, &"B".into()), Ok(()));
}

#[test]
fn groups_are_made_joined_and_left() {
    enum Do {
        Add(&'static str, &'static [&'static str]),
        Remove(&'static str),
    }
    use Do::{Add, Remove};
    let told = |ledger: &Ledger| {
        let state = ledger.state();
        let groups = state.or_groups.iter().map(|(name, group)| {
            format!(
                "{name}={} selected {} failed {}",
                ids(&group.choices),
                group.selected,
                ids(&group.failed)
            )
        });
        let busy = state.atoms.values().filter(|atom| atom.status != AtomStatus::Pending);
        let of =
            state.atoms.values().filter_map(|atom| Some(format!("{}:{}", atom.id, atom.or_group.as_ref()?)));
        let lines =
            [groups.collect::<Vec<_>>(), of.collect(), busy.map(|atom| atom.id.to_string()).collect()];
        lines.map(|line| line.join(" ")).join("; ")
    };
    // A graph, the script that led here, what is done, and: groups; who is in which; what is not pending.
    let rows = [
        ("A; B", "", Add("G", &["A", "B"]), "G=A,B selected A failed ; A:G B:G; A"),
        ("A; B", "", Add("G", &["B", "A"]), "G=B,A selected A failed ; A:G B:G; A"),
        ("X; A; B", "", Add("G", &["B", "A"]), "G=B,A selected B failed ; A:G B:G; X"),
        ("A; B", "A+", Add("G", &["B", "A"]), "G=B,A selected B failed ; A:G B:G; B"),
        ("G=A|B; C", "", Add("G", &["C"]), "G=A,B,C selected A failed ; A:G B:G C:G; A"),
        ("C; G=A|B; X <- A", "A+", Add("G", &["C"]), "G=A,B,C selected A failed ; C:G A:G B:G; A"),
        ("P -> A, B, C", "", Add("G", &["A", "B"]), "G=A,B selected A failed ; A:G B:G; A"),
        ("P -> A, B; C", "", Add("G", &["A", "C"]), "mixed_parents"),
        ("P -> G=A|B; C", "", Add("G", &["C"]), "mixed_parents"),
        ("A; B", "", Add("G", &["A", "A"]), "given_twice"),
        ("A; B", "", Add("a b", &["A"]), "bad_id"),
        ("a b=A|B; C", "", Add("a b", &["C"]), "a b=A,B,C selected A failed ; A:a b B:a b C:a b; A"),
        ("X; B <- C; C <- X", "", Add("G", &["B", "C"]), "cycle"),
        // What goes is succeeded by the next that has not failed, then by one that has, then by none.
        ("X; G=A|B|C", "", Remove("B"), "G=A,C selected A failed ; A:G C:G; X"),
        ("X; G=A|B|C", "", Remove("A"), "G=B,C selected B failed ; B:G C:G; X"),
        ("G=A|B|C; X", "A-", Remove("A"), "G=B,C selected B failed ; B:G C:G; B"),
        ("X <- Y; Y; G=A|B|C", "Y+ X+ A-", Remove("B"), "wrong_status"),
        ("G=A|B|C; X", "A- now", Remove("B"), "G=A,C selected C failed A; A:G C:G; "),
        ("G=A|B; X", "A- now", Remove("B"), "G=A selected A failed A; A:G; "),
        ("X; G=A|:B", "", Remove("A"), "; ; X"),
        ("X; G=A|", "", Remove("A"), "; ; X"),
    ];
    for (graph, script, operation, expected) in rows {
        let mut ledger = Ledger::open(World::play(&format!("m=1; {graph}"), script).file, start());
        let outcome = match operation {
            Add(name, choices) => {
                let choices: Vec<AtomId> = choices.iter().map(|id| AtomId::from(*id)).collect();
                reshape::add_choices(&mut ledger, &name.into(), &choices)
            }
            Remove(id) => reshape::remove(&mut ledger, &id.into()),
        };
        let actual = outcome.map_or_else(|refusal| refusal.code().to_owned(), |()| told(&ledger));
        assert_eq!(actual, expected, "D4, req 3.4: {graph}");
    }
}

#[test]
fn children_that_are_alternatives_come_and_go_with_their_group() {
    let child = |id: &str, group: Option<&str>| NewAtom {
        id: Some(id.into()),
        description: "part".into(),
        or_group: group.map(GroupName::from),
        ..NewAtom::default()
    };
    let mut ledger = Ledger::open(parse("A; G=X|Y").0, start());
    let children = vec![child("B", Some("H")), child("C", Some("H")), child("D", None)];
    decompose::decompose(&mut ledger, &"A".into(), children, "smaller").expect("it can be cut");
    let group = &ledger.state().or_groups["H"];
    assert_eq!((ids(&group.choices), group.selected.as_str()), ("B,C".into(), "B"), "D3");
    let groups_after = |mut ledger: Ledger| {
        decompose::withdraw(&mut ledger, &"A".into()).expect("nothing is resolved yet");
        ledger.state().or_groups.keys().map(GroupName::to_string).collect::<Vec<_>>()
    };
    assert_eq!(groups_after(ledger), ["G"], "D3: the group goes, and no other");
    // Choices that are only listed go with it, and groups of nothing else stay.
    let listed = Ledger::open(parse("A -> H=B|:C; G=:X|:Y").0, start());
    assert_eq!(groups_after(listed), ["G"], "D4");
}

#[test]
fn speculative_groups_race() {
    table(&[
        ("D25", "m=3; A||B; C <- A", "", "#1 stall 0 | A B | left 2"),
        ("D25", "m=3; A||B||C", "", "#1 stall 0 | A B C | left 1"),
        ("D25", "m=1; A||B", "", "#1 stall 0 | A"),
        ("D25", "m=3; A||B; C <- A", "A+", "#2 stall 0 | C | killed B | done A | failed "),
        ("D25", "m=3; A||B; C <- A", "B+", "#2 stall 0 | C | killed A | done B | sel A||B:B"),
        ("D25", "m=3; A||B", "A-", "#1 stall 0 | B | sel A||B:B | failed A||B:A | trail A||B:B"),
        ("D25", "m=3; A||B", "B-", "#1 stall 0 | A | sel A||B:A | failed A||B:B | trail B-"),
        // All failed: all are in the trail.
        ("D25", "m=3; A||B", "A- B-", "#1 stall 0 halt exhausted | trail A||B:B B-"),
        ("D25", "m=3; A||B", "B- A-", "#1 stall 0 halt exhausted | trail B- A-"),
        ("D25", "m=3; A||B||C", "B- A- C-", "#1 stall 0 halt exhausted | trail B- A||B||C:C C-"),
        // Only choices that are not cut run at once.
        ("D25", "m=3; A||B; B -> C", "", "#1 stall 0 | A"),
        ("D25", "m=3; A||B; A -> C", "", "#1 stall 0 | B C"),
        ("D25", "m=3; A||B; A -> C", "B+", "#1 stall 0 | verify | killed C | done B"),
        ("D25", "m=3; A||B; A -> C", "C+", "#1 stall 0 | verify | killed B | done A C"),
        // A conflict at landing is nobody's failure: the race goes on.
        ("D25", "m=3; A||B", "A%", "#1 stall 0 | B | failed "),
        ("D25", "m=3; A||B", "A% B+ v+", "#1 stall 0 halt completed | done B"),
        ("D25", "m=3; A!||B!", "A* B+ v+", "#1 stall 0 halt completed | done B | trail A!||B!:B"),
        ("D25", "m=3; A||B", "crash", "#2 stall 0 | A B"),
        ("D25", "m=3; A||B", "A= crash(A) v+", "#1 stall 0 halt completed | done A"),
    ]);
}

#[test]
fn what_overlaps_does_not_run_together() {
    table(&[
        ("D26", "m=3; A@db; B@db; C", "", "#1 stall 0 | A C"),
        ("D26", "m=3; A@db; B@web", "", "#1 stall 0 | A B"),
        ("D26", "m=3; A@db; B@db; C", "A+", "#1 stall 0 | C B"),
        ("D26", "m=3; A(src/**); B(src/a); C(docs/x)", "", "#1 stall 0 | A C"),
        ("D26", "m=3; A(src/a); B(src/b)", "", "#1 stall 0 | A B"),
        ("D26", "m=3; A(src/a x/y); B(src/b x/*)", "", "#1 stall 0 | A"),
        ("D26", "m=3; A@db||B@db", "", "#1 stall 0 | A"),
        // A reservation holds only while it is a conflict that keeps the atom from starting.
        ("D26", "m=2; X(a/**) <- Y; S(a/1); T(b/1); Y", "Y+", "#1 stall 0 | S T"),
        ("D26", "m=2; X!(a/**) <- Y; S(a/1); T(a/2); Y", "Y+ S+ X~", "#3 stall 1 | T"),
        // What has failed had its turn: it is not reserved again, and others pass it.
        (
            "D26",
            "m=2; s=9; X(a/**); Z <- X; W <- Z; S(a/1); V(a/4) <- S; T(a/2); U(a/3)",
            "X- S+ T+",
            "#3 stall 0 | U V",
        ),
        ("D24", "m=3; shared; A; B", "", "#1 stall 0 | A"),
        ("D24", "m=3; shared; A; B", "A+", "#2 stall 0 | B"),
    ]);
}

#[test]
fn globs_overlap_when_one_path_could_match_both() {
    let rows = [
        ("src/a.rs", "src/a.rs", true),
        ("src/a.rs", "src/b.rs", false),
        ("src/*", "src/a.rs", true),
        ("src/*.rs", "src/*.toml", false),
        ("src/*.rs", "src/lib.*", true),
        ("src/a*", "src/*b", true),
        ("src/a*c", "src/b*c", false),
        ("src/?.rs", "src/a.rs", true),
        ("src/?.rs", "src/ab.rs", false),
        ("src/**", "src/a/b/c", true),
        ("src/**", "docs/**", false),
        ("**/x.rs", "src/deep/x.rs", true),
        ("**/x.rs", "src/deep/y.rs", false),
        ("**", "anything", true),
        ("src", "src/a/b", true),
        ("src/a", "src/ab", false),
        ("./src/a", "src/a", true),
        ("src/{a,b}.rs", "src/c.rs", true),
        ("src/[ab].rs", "docs/a.rs", false),
        ("a/**/c", "a/c", true),
        ("a/**/c", "a/b/d/c", true),
        ("a/**/c/d", "a/b/x", true),
        ("a/*/c", "a/b/d", false),
        // A name with a dot may be a folder.
        (".github", ".github/workflows/ci.yml", true),
        (".github", "**/ci.yml", true),
        ("etc/conf.d", "etc/conf.d/a.conf", true),
        ("etc/conf.d", "etc/*/b", true),
        ("vendor/x.app", "vendor/**/y.rs", true),
        ("etc/conf.d", "etc/conf.rs", false),
    ];
    for (one, other, expected) in rows {
        assert_eq!(globs_overlap(one, other), expected, "D26: {one} and {other}");
        assert_eq!(globs_overlap(other, one), expected, "D26: {other} and {one}");
    }
}
