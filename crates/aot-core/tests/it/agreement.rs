//! An agreement as a text, and texts that people bring, completed to the beginning of a loop.

use aot_core::contract::{self, Brought};
use aot_core::rules::gate;
use aot_core::state::{
    Agreement, Background, Boundaries, Check, Checks, Clarification, Item, LoopStatus, NewAtom, State, Wants,
};

fn whole() -> Agreement {
    let mut agreement = Agreement::about("Please let people log in.\n\nAnd --- soon.");
    agreement.objective.goal = "Let people log in: \"soon\"".into();
    agreement.objective.background_intent = "# Users\nneed accounts".into();
    agreement.objective.deliverables = "A login API".into();
    agreement.objective.definition_of_done = "yes".into();
    agreement.objective.protected = vec!["tests/**".into()];
    agreement.objective.base_case = Some(Checks::Checklist(vec![
        Item {
            item: "Tests".into(),
            wants: Wants::Check(Check::Command { value: "cargo test 'a: b' # c".into() }),
        },
        Item {
            item: "Docs".into(),
            wants: Wants::AnyOf(vec![Item {
                item: "A page".into(),
                wants: Wants::Check(Check::File { value: "docs/*.md".into() }),
            }]),
        },
    ]));
    let atom = |words: &str, group: Option<&str>| NewAtom {
        or_group: group.map(Into::into),
        ..NewAtom::from_words(words)
    };
    agreement.atoms = vec![
        atom("The user model", None),
        atom("Tokens by JWT <- A1", Some("tokens")),
        atom("Tokens by sessions <- A1", Some("tokens")),
        atom("The route <- A2", None),
    ];
    agreement.clarifications =
        vec![Clarification { question: "Who?".into(), answer: "Those who\nhave accounts".into() }];
    agreement.scope = Boundaries { included: vec![], excluded: vec!["Single sign-on".into()] };
    agreement
}

fn read(text: &str) -> State {
    let reading = contract::read(text.into()).expect("a document");
    let errors: Vec<_> = reading.errors().map(|finding| finding.message.clone()).collect();
    reading.state.unwrap_or_else(|| panic!("{errors:#?}\n{text}"))
}

#[test]
fn an_agreement_says_in_its_text_what_was_meant() {
    let agreement = whole();
    let document = contract::draft(&agreement).expect("it can be written");
    let state = read(document.text());
    assert_eq!(state, agreement.state());
    assert_eq!(gate::missing(&state), Vec::<String>::new());
    assert_eq!(state.or_groups["tokens"].selected.as_str(), "A2");
    assert_eq!(contract::request(&document), agreement.request);
    let Background { clarifications, scope } = contract::background(&document);
    assert_eq!((clarifications, scope), (agreement.clarifications, agreement.scope));
    // What was drafted can be brought again, and is the same text.
    let again = contract::bring(document.text().into()).expect("it is whole");
    assert_eq!(again.document.text(), document.text());
    assert!(!again.progress_left_out);
}

#[test]
fn an_agreement_that_lacks_something_is_a_text_all_the_same() {
    let document = contract::draft(&Agreement::about("x")).expect("it can be written");
    let state = read(document.text());
    let missing = gate::missing(&state);
    assert_eq!(missing.len(), 6, "{missing:?}");
    let limits = &state.objective.constraints;
    assert_eq!((limits.max_iterations, limits.max_parallel_agents, limits.max_stall_count), (20, 3, 3));
    let control = &state.control;
    assert_eq!((control.iteration, control.stall_count, control.prev_pending_count), (0, 0, -1));
    assert_eq!((control.status, control.stop_reason.as_deref()), (LoopStatus::Pending, None));
    assert!(!control.stop_requested && !control.redirect_requested);
    assert!(!document.text().contains("clarifications"), "{}", document.text());
}

fn brought(text: &str) -> Brought {
    contract::bring(text.into()).unwrap_or_else(|finding| panic!("{finding:?}\n{text}"))
}

const SHORT: &str = r#"
# Ours.
goal: Log in
background_intent: Because
deliverables: An API
definition_of_done: It works
base_case: {type: command, value: make test}
constraints: {max_iterations: 7}
request: "Let us in"
atoms:
  - The model
  - {description: By JWT, depends_on: [A1], or_group: tokens}
  - {description: By cookies, depends_on: [A1], or_group: tokens}   # the old way
  - "The route <- A2"
budget: mine
"#;

#[test]
fn a_short_file_is_completed() {
    let Brought { document, progress_left_out } = brought(SHORT);
    let state = read(document.text());
    assert!(!progress_left_out);
    assert_eq!(gate::missing(&state), Vec::<String>::new());
    assert_eq!(state.objective.constraints.max_iterations, 7);
    assert_eq!(state.objective.constraints.max_stall_count, 3);
    assert_eq!(state.atoms.keys().map(|id| id.as_str()).collect::<Vec<_>>(), ["A1", "A2", "A3", "A4"]);
    assert_eq!(state.atoms["A4"].depends_on.len(), 1);
    assert_eq!(state.or_groups["tokens"].choices.len(), 2);
    assert_eq!(contract::request(&document), "Let us in");
    for kept in ["# Ours.", "# the old way", "budget: mine"] {
        assert!(document.text().contains(kept), "{kept}\n{}", document.text());
    }
}

#[test]
fn a_plain_line_does_not_take_the_id_of_a_choice_to_come() {
    let text = SHORT
        .replace("{description: By JWT", "{id: A2, description: By JWT")
        .replace("{description: By cookies", "{id: A3, description: By cookies")
        .replace("budget: mine", "or_groups: {tokens: {choices: [A2, A3, A4], selected: A2, failed: []}}")
        .replace("depends_on: [A1]", "depends_on: []");
    let state = read(brought(&text).document.text());
    assert_eq!(state.atoms.keys().map(|id| id.as_str()).collect::<Vec<_>>(), ["A5", "A2", "A3", "A6"]);
    assert_eq!(state.or_groups["tokens"].choices.len(), 3);
}

#[test]
fn a_whole_file_of_an_older_loop_begins_anew() {
    let drafted = contract::draft(&whole()).expect("it can be written");
    let old = drafted
        .text()
        .replace("status: pending\n  iteration: 0", "status: stopped # why?\n  iteration: 9")
        .replacen("status: pending\n    depends_on: []", "status: resolved\n    depends_on: []", 1)
        .replace("bindings: {}", "bindings: {A1: {summary: \"done\", artifacts: []}}")
        .replace("goal:", "# the aim\n  goal:");
    assert_ne!(old, drafted.text());
    let Brought { document, progress_left_out } = brought(&old);
    assert!(progress_left_out);
    let state = read(document.text());
    assert_eq!(state, whole().state());
    assert_eq!(state.control.status, LoopStatus::Pending);
    assert!(document.text().contains("# the aim"), "{}", document.text());
}

#[test]
fn what_makes_no_sense_is_told_with_its_place() {
    for text in ["[1, 2]", "goal: [", "a: &x 1\nb: *x", "---\n- a\n---\n", "goal: \"", "\u{0}"] {
        let told = match contract::bring(text.into()) {
            Err(finding) => finding.message,
            // A text without an agreement is incomplete.
            Ok(brought) => contract::read(brought.document.text().into())
                .expect("a document")
                .errors()
                .map(|finding| finding.message.clone())
                .collect(),
        };
        assert!(!told.is_empty(), "{text:?}");
    }
    assert!(contract::bring(vec![0xff, 0xfe]).is_err());
    assert!(contract::bring(Vec::new()).is_err());
}

#[test]
fn a_base_case_is_brought_in_any_of_its_forms() {
    let single = "{type: command, value: make}";
    for text in [
        "type: command\nvalue: make\n".to_owned(),
        format!("base_case: {single}"),
        format!("objective:\n  base_case: {single}\n"),
        format!("---\nobjective: {{base_case: {single}}}\n---\nwords"),
    ] {
        let checks = contract::bring_checks(text.clone().into());
        assert_eq!(checks, Ok(Checks::Single(Check::Command { value: "make".into() })), "{text}");
    }
    for (text, told) in [
        ("checklist: []", "1: "),
        ("type: comand\nvalue: x", "1: "),
        ("a: 1", "1: "),
        ("checklist:\n  - {item: x, check: {type: comand, value: y}}", "2: "),
        ("checklist: [", "1: "),
        ("", "1: "),
    ] {
        let findings = contract::bring_checks(text.into()).expect_err("it proves nothing");
        let first = findings.first().map(|finding| format!("{}: {}", finding.place.line, finding.message));
        assert!(first.as_ref().is_some_and(|first| first.starts_with(told)), "{text:?}: {first:?}");
    }
}
