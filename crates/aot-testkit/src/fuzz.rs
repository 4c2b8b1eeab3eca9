//! The bodies of the fuzz targets, so that the kept corpus is replayed by an ordinary test. Knows documents, states and bytes;
//! each function must return for every input.

use aot_core::brief::{
    FINDINGS_LIMIT, MAX_ARTIFACTS, ProbeAnswer, SUMMARY_LIMIT, VerifierAnswer, WorkerAnswer, read_align,
    read_plan_change, read_redirect,
};
use aot_core::contract::document::{Document, Kind, Limits, Node};
use aot_core::contract::edit::{Edit, Path, PathStep};
use aot_core::contract::{self, Reading};
use aot_core::hook::{
    Action, Caller, CallerMemory, HostRole, LoopFacts, ProjectPaths, ToolCall, claimed_tree, rule,
};
use aot_core::rules::advance::{self, AttemptNumber};
use aot_core::rules::{Ledger, backtrack};
use aot_core::shell_command::{plain_commands, simple_commands};
use aot_core::state::State;
use aot_core::view::View;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::fixtures;

/// Any bytes are read or refused with a place, and what is read can be packed.
pub fn read(bytes: &[u8]) {
    match Document::from_bytes(bytes.to_vec(), &small_limits()) {
        Ok(document) => {
            document.root().value();
            let packed = document.pack();
            let again = Document::unpack(document.text().to_owned(), &packed).expect("its own pack");
            again.check_consistency().expect("the packed arena is that of the text");
            let reading = Reading::of(document);
            assert!(reading.findings.iter().all(|found| found.place.line > 0 && !found.hint.is_empty()));
            if let Some(state) = &reading.state {
                View::of(state);
                work(&reading, state);
            }
        }
        Err(error) => {
            assert!(!error.hint.is_empty() && error.place.line > 0 && error.place.column > 0);
            // The bytes as a pack of some text: refused, or at least harmless.
            if let Some(document) = Document::unpack("---\na: [b, 1]\n---\n".to_owned(), bytes) {
                document.root().value();
            }
        }
    }
}

/// Whatever can start is started, fails, and starts again: what the rules make of it can be written and read.
fn work(reading: &Reading, state: &State) {
    let mut ledger = Ledger::open(state.clone(), Timestamp::UNIX_EPOCH);
    for id in View::of(state).ready {
        if advance::start(&mut ledger, &id, AttemptNumber::Uncounted).is_ok() {
            backtrack::fail(&mut ledger, &id, "tried").expect("it was started");
        }
    }
    let (after, _) = ledger.close();
    let written = contract::write(&reading.document, state, &after);
    // Odd styles may be refused; what is written is right.
    if let Ok(written) = written {
        assert_eq!(Reading::of(written).state.as_ref(), Some(&after));
    }
}

/// Any text as a command, a path, a prompt and a verb of an agent: the hook rules on it whoever asks, and never lets a role do
/// what the same text would not let it do a second time.
pub fn hook(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let state =
        fixtures::with_graph("atoms:\n  - {id: A1, description: One, status: in_progress, depends_on: []}\n");
    let state = contract::read(state.into_bytes()).expect("a fixture").state.expect("a state");
    let mut facts = LoopFacts::of(&state);
    facts.session = Some("s".into());
    facts.protected = vec!["tests/**".into()];
    let paths = ProjectPaths {
        root: "/p",
        state: "/p/.claude/aot-loop-state.md",
        sidecar: "/p/.claude/aot",
        trees: "/p/.aot/trees",
        program: "/usr/bin/aot",
    };
    let roles = [HostRole::Coordinator, HostRole::Probe, HostRole::Worker, HostRole::Verifier];
    let callers = roles.map(Caller::Agent).into_iter().chain([Caller::Session, Caller::OtherAgent]);
    let memory = CallerMemory::default();
    for caller in callers {
        let actions = [
            Action::WriteFile(&text),
            Action::RunCommand(&text),
            Action::StartAgent { role: Some(HostRole::Worker), prompt: &text },
            Action::CallVerb(&text),
        ];
        for action in actions {
            let call = ToolCall { session: "s", caller, action, memory: &memory };
            let ruled = || rule(&facts, &paths, &call, &|path| path.starts_with("tests/"));
            assert_eq!(ruled(), ruled());
            claimed_tree(&facts, &paths, &call);
        }
    }
    simple_commands(&text);
    plain_commands(&text);
}

/// Any text as an agent's answer, in every role: read, or refused with a reason. What was read is within its limits.
pub fn answer(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    if let Ok(worker) = WorkerAnswer::read(text) {
        assert!(worker.summary.len() <= SUMMARY_LIMIT + MARK && worker.artifacts.len() <= MAX_ARTIFACTS);
    }
    if let Ok(probe) = ProbeAnswer::read(text) {
        assert!(probe.findings.len() <= FINDINGS_LIMIT + MARK);
    }
    let refused = [
        VerifierAnswer::read(text).err(),
        read_plan_change(text).err(),
        read_align(text).err(),
        read_redirect(text).err(),
    ];
    for reason in refused.into_iter().flatten() {
        assert!(!reason.to_string().trim().is_empty());
    }
}

/// Room for the mark that shows where a text was cut.
const MARK: usize = 16;

/// Edits chosen by the first bytes, on the document in the rest: each is made as wished or refused without a trace.
pub fn edit(bytes: &[u8]) {
    let Some((effects, front)) = bytes.split_at_checked(WISHES * WISH_BYTES) else { return };
    let Ok(front) = std::str::from_utf8(front) else { return };
    let text = format!("---\n{front}\n---\n");
    let Ok(mut document) = Document::parse(text, &small_limits()) else { return };
    for wish in effects.chunks_exact(WISH_BYTES) {
        let (before, was) = (document.text().to_owned(), document.root().value());
        let edit = aim(&document, wish);
        match document.edit(std::slice::from_ref(&edit)) {
            Ok(()) => made(&document, &edit, &was, &before),
            Err(_) => assert_eq!(document.text(), before, "{edit:?} was refused"),
        }
        if let Err(difference) = document.check_consistency() {
            panic!("{difference}\n{edit:?}\n{before:?}\nbecame\n{:?}", document.text());
        }
    }
}

const WISHES: usize = 2;
/// Four turns on the way down, one kind of wish, one value.
const WISH_BYTES: usize = 6;

fn small_limits() -> Limits {
    Limits { bytes: 1 << 16, nodes: 1 << 12, depth: 16 }
}

fn aim(document: &Document, wish: &[u8]) -> Edit {
    let mut path: Path = Vec::new();
    let mut node = document.root();
    for &turn in &wish[..4] {
        // A high turn stops early, so that collections are aimed at too.
        if turn > 200 || node.is_empty() {
            break;
        }
        let turn = turn as usize % node.len();
        let (step, child) = down(node, turn);
        path.push(step);
        node = child;
    }
    let value = value(wish[5]);
    match wish[4] % 5 {
        0 => Edit::Set { path, value },
        1 => Edit::Remove { path },
        2 => Edit::Push { path, value },
        3 => {
            path.push(PathStep::Key(format!("new {}", wish[4])));
            Edit::Set { path, value }
        }
        _ => {
            path.push(PathStep::Index(wish[4] as usize % (node.len() + 1)));
            Edit::Insert { path, value }
        }
    }
}

fn down(node: Node<'_>, turn: usize) -> (PathStep, Node<'_>) {
    if node.kind() == Kind::Seq {
        return (PathStep::Index(turn), node.items().nth(turn).expect("the turn is within the list"));
    }
    let (key, value) = node.entries().nth(turn).expect("the turn is within the mapping");
    (PathStep::Key(key.scalar_text().expect("keys are scalars").into_owned()), value)
}

fn value(choice: u8) -> Value {
    let values = [
        json!(null),
        json!(true),
        json!(7),
        json!(-0.5),
        json!("word"),
        json!("two words"),
        json!("it's: \"x\" # y"),
        json!("one\ntwo\n"),
        json!(" one\n\n two"),
        json!(""),
        json!("1"),
        json!("\u{7}\u{85}\u{feff}ж"),
        json!([]),
        json!({}),
        json!(["a", 1, null]),
        json!([["a"], {"b": []}]),
        json!({"a": 1, "b": {"c": "d\ne"}}),
        json!({"id": "A1", "depends_on": ["A2", "- x"], "levels": {"1": "low"}}),
        json!([{"id": "A1"}, {"id": "A2", "x": [{"y": null}]}]),
    ];
    values[choice as usize % values.len()].clone()
}

/// Checks that the document says what the edit wished for, and all else as before.
fn made(document: &Document, edit: &Edit, was: &Value, before: &str) {
    let mut wanted = was.clone();
    wish_on(&mut wanted, edit.path(), edit);
    assert_eq!(document.root().value(), wanted, "{edit:?}\n{before:?}\nbecame\n{:?}", document.text());
}

fn wish_on(place: &mut Value, path: &[PathStep], edit: &Edit) {
    match (path, edit) {
        ([], Edit::Set { value, .. }) => *place = value.clone(),
        ([], Edit::Push { value, .. }) => match place {
            Value::Array(items) => items.push(value.clone()),
            other => *other = json!([value.clone()]),
        },
        ([PathStep::Index(at)], Edit::Insert { value, .. }) => {
            place.as_array_mut().expect("an item is inserted into a list").insert(*at, value.clone());
        }
        ([PathStep::Index(at)], Edit::Remove { .. }) => {
            place.as_array_mut().expect("an index is of a list").remove(*at);
        }
        ([PathStep::Key(key)], Edit::Remove { .. }) => {
            place.as_object_mut().expect("a key is of a mapping").shift_remove(key);
        }
        ([PathStep::Key(key), rest @ ..], _) => {
            if place.is_null() {
                *place = Value::Object(Map::new());
            }
            let entries = place.as_object_mut().expect("a key is of a mapping");
            wish_on(entries.entry(key.as_str()).or_insert(Value::Null), rest, edit);
        }
        ([PathStep::Index(at), rest @ ..], _) => wish_on(&mut place[*at], rest, edit),
        ([], Edit::Remove { .. } | Edit::Insert { .. }) => {
            unreachable!("the root is neither removed nor an item")
        }
    }
}
