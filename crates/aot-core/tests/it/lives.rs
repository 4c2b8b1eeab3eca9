//! Random files and random operations: a state printed in any style is read as meant, every operation leaves the text
//! saying exactly what the rules made of it, and no comment that it does not concern is lost.

use crate::printed::{Habits, print};
use aot_core::contract::{self, Document};
use aot_core::rules::advance::{self, AttemptNumber, Proof};
use aot_core::rules::{Change, Ledger, Refusal, apply, backtrack, decompose, reshape};
use aot_core::state::{AtomId, Binding, GroupName, NewAtom, State};
use aot_testkit::fixtures::{COMPLETE, INITIAL_CHECKLIST, INITIAL_LEGACY, of_size, with_graph};
use proptest::prelude::*;

fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(150), failure_persistence: None, ..ProptestConfig::default() }
}

const NESTED: &str = "atoms:\n\
    - {id: A, description: d, status: pending, depends_on: [], or_group: G1}\n\
    - {id: D, description: d, status: pending, depends_on: [], or_group: G1}\n\
    - {id: B, description: d, status: in_progress, depends_on: [], or_group: G2}\n\
    - {id: C, description: d, status: pending, depends_on: [], or_group: G2}\n\
    - {id: E, description: d, status: pending, depends_on: [C]}\n\
    - {id: R1, description: d, status: in_progress, depends_on: [], or_group: race}\n\
    - {id: R2, description: d, status: in_progress, depends_on: [], or_group: race}\n\
    decompositions:\n- {parent: A, children: [B, C], reason: r}\n\
    or_groups:\n  G1: {choices: [A, D, phantom], selected: A, failed: []}\n  \
    G2: {choices: [B, C], selected: B, failed: []}\n  \
    race: {choices: [R1, R2], selected: R1, failed: [], speculative: true}\n";

fn examples() -> Vec<String> {
    let legacy = INITIAL_LEGACY.to_owned();
    vec![COMPLETE.to_owned(), legacy, INITIAL_CHECKLIST.to_owned(), with_graph(NESTED), of_size(12)]
}

fn read(text: &str) -> (Document, State) {
    let reading = contract::read(text.as_bytes().to_vec()).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let state = reading.state.unwrap_or_else(|| panic!("{:#?}\n{text}", reading.findings));
    (reading.document, state)
}

fn now() -> jiff::Timestamp {
    "2026-01-15T11:00:00Z".parse().expect("a timestamp")
}

/// An operation, drawn: which one, on which atom or group, with which text.
type Wish = (u8, usize, usize, String);

fn wish() -> impl Strategy<Value = Wish> {
    let text = prop_oneof![
        4 => "[a-z]{1,6}( [a-z]{1,6}){0,4}",
        2 => "[a-z:# ,'\"\\[\\]{}&*!|>%@`?\\\\-]{1,14}",
        1 => "[a-z]{1,5}(\n[ a-z#-]{0,6}){1,3}",
        1 => "\\PC{1,8}",
    ];
    (0u8..16, any::<usize>(), any::<usize>(), text)
}

fn operate(ledger: &mut Ledger, (verb, first, second, text): &Wish) -> Result<(), Refusal> {
    let state = ledger.state();
    let atom = |pick: usize| state.atoms.get_index(pick % state.atoms.len()).expect("in range").0.clone();
    let (one, other) = (atom(*first), atom(*second));
    let groups = state.or_groups.len();
    let group = state.or_groups.get_index(first % groups.max(1)).map(|(name, _)| name.clone());
    let group = group.unwrap_or_else(|| GroupName::new("G"));
    let choices = state.or_groups.get(&group).map(|entry| entry.choices.clone()).unwrap_or_default();
    let choice = choices.get(second % choices.len().max(1)).cloned().unwrap_or(other.clone());
    let new = || NewAtom { description: format!("x{text}"), ..NewAtom::default() };
    match verb {
        0..=3 => advance::start(ledger, &one, AttemptNumber::Uncounted),
        4..=6 => {
            let binding =
                Binding { summary: format!("x{text}"), artifacts: vec![text.clone()], ..Binding::default() };
            advance::resolve(ledger, &one, binding, Proof::Seen)
        }
        7..=9 => backtrack::fail(ledger, &one, text).map(drop),
        10 => reshape::add(ledger, NewAtom { depends_on: vec![one], ..new() }).map(drop),
        11 => decompose::decompose(ledger, &one, vec![new(), new()], text).map(drop),
        12 => reshape::remove(ledger, &one),
        13 => backtrack::switch(ledger, &group, &choice, text),
        14 => reshape::add_choices(ledger, &GroupName::new(format!("g{}", first % 7)), &[one, other]),
        _ => decompose::withdraw(ledger, &one).map(drop),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_state_in_any_style_is_read_as_meant(example in 0usize..5, seed: u64) {
        let (document, state) = read(&examples()[example]);
        let printed = print(&document.root().value(), &mut Habits::new(seed));
        let (_, again) = read(&printed);
        prop_assert_eq!(again, state);
    }

    #[test]
    fn operations_leave_the_text_saying_what_the_rules_made_of_it(
        example in 0usize..5,
        seed: u64,
        effects in proptest::collection::vec(wish(), 1..14),
    ) {
        let value = read(&examples()[example]).0.root().value();
        let (mut document, mut state) = read(&print(&value, &mut Habits::new(seed)));
        for wish in &effects {
            let mut ledger = Ledger::open(state.clone(), now());
            if operate(&mut ledger, wish).is_err() {
                continue;
            }
            let (after, changes) = ledger.close();
            // The changes alone say the same: that is what a journal is for.
            let mut replayed = state.clone();
            for change in &changes {
                let line = serde_json::to_string(change).expect("plain data");
                let kept: Change = serde_json::from_str(&line).expect("what was kept is read");
                prop_assert_eq!(&kept, change);
                apply(&mut replayed, &kept, now()).expect("it fitted once");
            }
            prop_assert_eq!(&replayed, &after);
            let written = contract::write(&document, &state, &after)
                .unwrap_or_else(|error| panic!("{error}: {wish:?}\n{}", document.text()));
            prop_assert_eq!(written.check_consistency(), Ok(()));
            let (_, again) = read(written.text());
            prop_assert_eq!(&again, &after);
            prop_assert_eq!(written.body(), document.body());
            if !changes.iter().any(removes) {
                prop_assert_eq!(comments(&document), comments(&written), "{:?}\n{}\n{}", wish, document.text(), written.text());
            }
            (document, state) = (written, after);
        }
    }
}

/// Whether a change takes lines away, and so the comments in them.
fn removes(change: &Change) -> bool {
    matches!(
        change,
        Change::AtomRemoved { .. }
            | Change::AtomReset { .. }
            | Change::GroupRemoved { .. }
            | Change::ChoiceRemoved { .. }
            | Change::ChoiceForgiven { .. }
            | Change::DecompositionWithdrawn { .. }
            | Change::ChildRemoved { .. }
    )
}

/// The printed comments, which are numbered in their order.
fn comments(document: &Document) -> Vec<String> {
    let marks = document.text().match_indices("#~");
    marks.map(|(at, _)| document.text()[at..].chars().take_while(|c| *c != ' ').collect()).collect()
}

#[test]
fn ids_are_usable_words() {
    for (id, usable) in
        [("A1", true), ("A4_alt", true), ("ä.b-c", true), ("", false), ("a b", false), ("a,b", false)]
    {
        assert_eq!(AtomId::is_usable(id), usable, "{id:?}");
    }
    assert!(!AtomId::is_usable(&"a".repeat(AtomId::MAX_LENGTH + 1)));
}
