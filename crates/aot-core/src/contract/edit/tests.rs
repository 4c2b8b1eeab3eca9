//! Edits as lines of data: a frontmatter, what is done to it, and what it is then.

use serde_json::{Value, json};

use super::{Edit, Path, PathStep};
use crate::contract::document::{Document, Limits};

fn path(text: &str) -> Path {
    let steps = text.split(['.', '[', ']']).filter(|step| !step.is_empty());
    steps.map(|step| step.parse().map_or_else(|_| PathStep::Key(step.to_owned()), PathStep::Index)).collect()
}

fn set(at: &str, value: Value) -> Edit {
    Edit::Set { path: path(at), value }
}

fn remove(at: &str) -> Edit {
    Edit::Remove { path: path(at) }
}

fn push(at: &str, value: Value) -> Edit {
    Edit::Push { path: path(at), value }
}

fn insert(at: &str, value: Value) -> Edit {
    Edit::Insert { path: path(at), value }
}

fn check_text(before: &str, edits: &[Edit], after: &str) {
    let mut document = Document::parse(before.to_owned(), &Limits::default()).expect(before);
    let whole = document.edit(edits);
    assert_eq!(document.text(), after, "after {edits:?} ({whole:?})");
    whole.expect("the edits are made");
    document.check_consistency().expect("the arena is that of the text");
    let again = Document::unpack(after.to_owned(), &document.pack()).expect("a pack can be read");
    assert_eq!(again.root().value(), document.root().value());
    again.check_consistency().expect("a packed arena is that of the text");
}

/// The same edits on the frontmatter alone, with LF and with CRLF.
fn check(before: &str, edits: &[Edit], after: &str) {
    let file = |front: &str| format!("---\n{front}---\n\n# Body\n\n--- not: yaml\n");
    check_text(&file(before), edits, &file(after));
    let crlf = |front: &str| file(front).replace('\n', "\r\n");
    check_text(&crlf(before), edits, &crlf(after));
}

fn check_refused(before: &str, edits: &[Edit], code: &str) {
    let text = format!("---\n{before}---\n");
    let mut document = Document::parse(text.clone(), &Limits::default()).expect(before);
    let refusal = document.edit(edits).expect_err("the edit is refused");
    assert_eq!(refusal.code, code, "{refusal}");
    assert_eq!(document.text(), text);
    document.check_consistency().expect("a refused edit leaves the arena alone");
}

#[test]
fn a_changed_scalar_keeps_its_style_and_its_comment() {
    check("a: running   # why\n", &[set("a", json!("stopped"))], "a: stopped   # why\n");
    check("a: 'it'\nb: 1\n", &[set("a", json!("it's"))], "a: 'it''s'\nb: 1\n");
    check("a: \"x\"\n", &[set("a", json!("say \"hi\"\n"))], "a: \"say \\\"hi\\\"\\n\"\n");
    check("a: some text\n", &[set("a", json!("other text, really"))], "a: other text, really\n");
    check("a: some text\n", &[set("a", json!("key: value"))], "a: \"key: value\"\n");
    check("a: some text\n", &[set("a", json!("text # no comment"))], "a: \"text # no comment\"\n");
    check("a: 5\n", &[set("a", json!(6))], "a: 6\n");
    check("a: 5\n", &[set("a", json!("6"))], "a: \"6\"\n");
    check("a: '5'\n", &[set("a", json!("6"))], "a: '6'\n");
    check("a: '5'\n", &[set("a", json!(6))], "a: 6\n");
    check("a: x\n", &[set("a", json!(null))], "a: null\n");
    check("a: x\n", &[set("a", json!(true)), set("a", json!(0.5)), set("a", json!(-1))], "a: -1\n");
    check("a: x\n", &[set("a", json!(""))], "a: \"\"\n");
    check("a: 1 \t # c\n", &[set("a", json!(2))], "a: 2 \t # c\n");
    check("a: 1 \t \nb: 2\n", &[set("a", json!(2))], "a: 2 \t \nb: 2\n");
    check("a: 0x10\n", &[set("a", json!(16))], "a: 0x10\n");
    check("a: ключ # ж\n", &[set("a", json!("δέλτα"))], "a: δέλτα # ж\n");
}

#[test]
fn a_string_that_looks_like_something_else_is_quoted() {
    let cases = [
        "true",
        "null",
        "~",
        "12",
        "0x1f",
        "1e3",
        ".5",
        "2025-01-15",
        "yes",
        "on",
        "No",
        "- a",
        "? a",
        "*a",
        "&a",
        "!a",
    ];
    for text in cases
        .into_iter()
        .chain(["a: b", "a #b", "[a]", "{a", "%a", "@a", "`a", "'a", "\"a", " a", "a ", "a:", "#a"])
    {
        check("a: 1\n", &[set("a", json!(text))], &format!("a: \"{}\"\n", text.replace('"', "\\\"")));
        check("a: []\n", &[push("a", json!(text))], &format!("a: [\"{}\"]\n", text.replace('"', "\\\"")));
    }
    for text in ["word", "src/models/user.ts", "./a.sh", "/tmp/x", "A4_alt", "a-b", "v1.2", "../up"] {
        check("a: 1\n", &[set("a", json!(text))], &format!("a: {text}\n"));
    }
    check(
        "a: 1\n",
        &[set("a", json!("tab\tbell\u{7}nel\u{85}bom\u{feff}"))],
        "a: \"tab\\tbell\\u0007nel\\u0085bom\\uFEFF\"\n",
    );
}

#[test]
fn a_null_is_filled_where_it_stands() {
    check("a:   # null\nb: 1\n", &[set("a", json!("x"))], "a: x   # null\nb: 1\n");
    check("a:\nb: 1\n", &[set("a", json!(7))], "a: 7\nb: 1\n");
    check("a: # c\nb: 1\n", &[set("a", json!({"x": 1}))], "a: # c\n  x: 1\nb: 1\n");
    check("a: ~ # c\nb: 1\n", &[set("a.x.y", json!(1))], "a: # c\n  x:\n    y: 1\nb: 1\n");
    check(
        "a:\n- # c\n-\nb: 1\n",
        &[set("a[0]", json!(1)), set("a[1]", json!({"k": 2}))],
        "a:\n- 1 # c\n- k: 2\nb: 1\n",
    );
    check(
        "a: {x, y: , z:}\n",
        &[set("a.x", json!(1)), set("a.y", json!(2)), set("a.z", json!(3))],
        "a: {x: 1, y: 2 , z: 3}\n",
    );
    check("a: null\n", &[push("a", json!("x"))], "a: [x]\n");
}

#[test]
fn multi_line_strings() {
    check(
        "a: |\n  one\n  two\n\n# next\nb: 1\n",
        &[set("a", json!("x\ny\n"))],
        "a: |\n  x\n  y\n\n# next\nb: 1\n",
    );
    check("a: |-  # why\n    one\nb: 1\n", &[set("a", json!("x\n\ny"))], "a: |-  # why\n  x\n\n  y\nb: 1\n");
    check("a: |+\n  one\n\n\nb: 1\n", &[set("b", json!(2))], "a: |+\n  one\n\n\nb: 2\n");
    check("a: |+\n  one\n\n\nb: 1\n", &[set("a", json!("x\ny\n"))], "a: |\n  x\n  y\nb: 1\n");
    check("a: |2\n    one\n  two\nb: 1\n", &[set("b", json!(2)), set("a", json!("one"))], "a: one\nb: 2\n");
    check("a: >-\n  one\n  two\nb: 1\n", &[set("a", json!("x y"))], "a: \"x y\"\nb: 1\n");
    check("a: | # c\n  one\nb: 1\n", &[set("a", json!(3))], "a: 3 # c\nb: 1\n");
    check("a: \"one\n  two\"  # c\nb: 1\n", &[set("a", json!("x"))], "a: \"x\"  # c\nb: 1\n");
    check("a: one\n  two # c\nb: 1\n", &[set("a", json!("x y"))], "a: x y # c\nb: 1\n");
    check("a: 1\n", &[set("b", json!("x\ny"))], "a: 1\nb: |-\n  x\n  y\n");
    check("a:\n  - 1\n", &[push("a", json!("x\ny\n"))], "a:\n  - 1\n  - |\n    x\n    y\n");
    check("a: 1\n", &[set("b", json!(" x\ny"))], "a: 1\nb: \" x\\ny\"\n");
    check("a: |\n  x\n\n# c\n", &[set("b", json!(1))], "a: |\n  x\nb: 1\n\n# c\n");
    check("a: |+\n  x\n\n# c\n", &[set("b", json!(1))], "a: |+\n  x\n\n# c\nb: 1\n");
    check("a: |+\n  x\n\nb: 1\n\nc: 2\n", &[remove("b")], "a: |+\n  x\n\nc: 2\n");
    check(
        "a:\n  b: |\n    x\n  # in\nc: 1\n",
        &[set("a.d", json!(2))],
        "a:\n  b: |\n    x\n  # in\n  d: 2\nc: 1\n",
    );
}

const STATE: &str = "\
# === Work Graph ===
atoms:
  - id: A1
    status: resolved    # done
    depends_on: []

  # about A2
  - id: A2
    status: pending
    depends_on: [A1]    # AND

# === Bindings ===
bindings: {}
trail: []   # none
";

#[test]
fn a_state_is_edited_in_place() {
    check(
        STATE,
        &[set("atoms[1].status", json!("resolved"))],
        &STATE.replace("status: pending", "status: resolved"),
    );
    check(
        STATE,
        &[push("atoms", json!({"id": "A3", "description": "to do", "depends_on": ["A1", "A2"]}))],
        &STATE.replace(
            "[A1]    # AND\n",
            "[A1]    # AND\n\n  - id: A3\n    description: \"to do\"\n    depends_on: [A1, A2]\n",
        ),
    );
    check(
        STATE,
        &[set("bindings.A1", json!({"summary": "Made it", "artifacts": ["src/a.rs"]}))],
        &STATE
            .replace("bindings: {}", "bindings:\n  A1:\n    summary: \"Made it\"\n    artifacts: [src/a.rs]"),
    );
    check(
        STATE,
        &[push("trail", json!({"or_group": "g", "at": "2025-01-15T10:00:00Z"}))],
        &STATE.replace(
            "trail: []   # none",
            "trail:   # none\n  - or_group: g\n    at: \"2025-01-15T10:00:00Z\"",
        ),
    );
    check(STATE, &[push("atoms[1].depends_on", json!("A0"))], &STATE.replace("[A1]", "[A1, A0]"));
    check(STATE, &[push("atoms[0].depends_on", json!("A0"))], &STATE.replace("[]\n\n", "[A0]\n\n"));
    check(STATE, &[remove("atoms[1].depends_on[0]")], &STATE.replace("[A1]", "[]"));
    check(
        STATE,
        &[remove("atoms[0]")],
        &STATE.replace("  - id: A1\n    status: resolved    # done\n    depends_on: []\n", ""),
    );
    check(
        STATE,
        &[remove("atoms[1]")],
        &STATE.replace("  - id: A2\n    status: pending\n    depends_on: [A1]    # AND\n", ""),
    );
    check(STATE, &[remove("atoms[0].id")], &STATE.replace("- id: A1\n    status", "- status"));
    check(
        STATE,
        &[remove("atoms[0]"), remove("atoms[0]")],
        "# === Work Graph ===\natoms: []\n\n  # about A2\n\n# === Bindings ===\nbindings: {}\ntrail: []   # none\n",
    );
    check(STATE, &[remove("bindings")], &STATE.replace("bindings: {}\n", ""));
}

#[test]
fn entries_take_the_style_of_their_siblings() {
    check(
        "atoms:\n- id: A1\n# next\nb: 1\n",
        &[push("atoms", json!({"id": "A2"}))],
        "atoms:\n- id: A1\n- id: A2\n# next\nb: 1\n",
    );
    check(
        "a:\n- x: 1\n\n- x: 2\n\nb: 1\n",
        &[push("a", json!({"x": 3, "y": [1]}))],
        "a:\n- x: 1\n\n- x: 2\n\n- x: 3\n  y: [1]\n\nb: 1\n",
    );
    check(
        "a:\n-   x: 1\n    y: 2\n",
        &[push("a", json!({"x": 3, "y": 4}))],
        "a:\n-   x: 1\n    y: 2\n-   x: 3\n    y: 4\n",
    );
    check(
        "a:\n    b: 1\n    # own\n  # deeper than c\n\n# c's\nc: 1\n",
        &[set("a.d", json!({"e": 1}))],
        "a:\n    b: 1\n    # own\n    d:\n        e: 1\n  # deeper than c\n\n# c's\nc: 1\n",
    );
    check(
        "a:\n  - 1\n  - 2\n",
        &[insert("a[0]", json!(0)), insert("a[2]", json!(1.5)), insert("a[4]", json!(9))],
        "a:\n  - 0\n  - 1\n  - 1.5\n  - 2\n  - 9\n",
    );
    check(
        "a:\n  - - 1\n    - 2\n",
        &[insert("a[0][0]", json!(0)), remove("a[0][1]"), push("a", json!([3, 4]))],
        "a:\n  - - 0\n    - 2\n  - [3, 4]\n",
    );
    check(
        "a:\n  -\n    x: 1\n  -\n    x: 2\n",
        &[remove("a[0]"), set("a[0].y", json!(2))],
        "a:\n  -\n    x: 2\n    y: 2\n",
    );
    check(
        "a:\n  - x: 1 # c\n    # about y\n    y: 2\n",
        &[remove("a[0].x")],
        "a:\n  -\n    # about y\n    y: 2\n",
    );
    check(
        "a: 1\n",
        &[set("b.c.d", json!([{"e": []}, {}, [[{"f": 1}]]]))],
        "a: 1\nb:\n  c:\n    d:\n      - e: []\n      - {}\n      - - - f: 1\n",
    );
    check("a: 1\n", &[set("needs quoting: x", json!(1))], "a: 1\n\"needs quoting: x\": 1\n");
    check(
        "l:\n  1: a\n  3: b\n",
        &[Edit::Set { path: vec!["l".into(), PathStep::Key("5".into())], value: json!("c d") }],
        "l:\n  1: a\n  3: b\n  5: \"c d\"\n",
    );
    check("a: 1\n", &[remove("a")], "{}\n");
    check("{}\n", &[set("a", json!(1))], "{a: 1}\n");
    check("{a: 1}\n", &[set("b", json!([{"x": 1}])), remove("a")], "{b: [{x: 1}]}\n");
    check("  a: 1\n  b: 2\n", &[set("c", json!(3)), remove("a")], "  b: 2\n  c: 3\n");
}

#[test]
fn flow_collections_stay_flow() {
    check(
        "a: {x: 1, y: [1, 2]}  # c\n",
        &[set("a.z", json!({"k": "v w"})), push("a.y", json!(3)), remove("a.x")],
        "a: {y: [1, 2, 3], z: {k: \"v w\"}}  # c\n",
    );
    check(
        "a: [\n  x, # one\n  y, # two\n  # three\n]\nb: 1\n",
        &[push("a", json!("z"))],
        "a: [\n  x, # one\n  y, # two\n  z,\n  # three\n]\nb: 1\n",
    );
    check(
        "a: [\n  x, # one\n  y # two\n]\n",
        &[push("a", json!("z"))],
        "a: [\n  x, # one\n  y, # two\n  z\n]\n",
    );
    check("a: [\n  x, # one\n  y, # two\n  z\n]\n", &[remove("a[1]")], "a: [\n  x, # one\n  z\n]\n");
    check("a: [\n  x, # one\n  y # two\n]\n", &[remove("a[1]")], "a: [\n  x, # one\n]\n");
    check("a: [x, # one\n  y]\n", &[remove("a[1]")], "a: [x, # one\n  ]\n");
    check(
        "a: {\n  x: 1, # one\n  y: 2\n}\n",
        &[set("a.x", json!(5)), set("a.z", json!(3))],
        "a: {\n  x: 5, # one\n  y: 2,\n  z: 3\n}\n",
    );
    check("a: [ # c\n]\n", &[push("a", json!(1))], "a: [1 # c\n]\n");
    check("a: [x: 1, y]\n", &[set("a[0].z", json!(2)), set("a[1]", json!("w"))], "a: [{x: 1, z: 2}, w]\n");
    check("a: [x: 1]\n", &[remove("a[0].x")], "a: [{}]\n");
    check("a: {\"x\":1}\n", &[set("a.x", json!("k"))], "a: {\"x\":k}\n");
    check("a: [a b, c]\n", &[set("a[0]", json!("a, b")), set("a[1]", json!("c d"))], "a: [\"a, b\", c d]\n");
    check("a: [1, 2, 3]\n", &[insert("a[0]", json!(0)), insert("a[2]", json!("x"))], "a: [0, 1, x, 2, 3]\n");
}

#[test]
fn setting_a_collection_changes_only_what_differs() {
    let before = "a: # head\n  x: 1 # one\n  # about y\n  y: [1, 2] # two\n  z: {k: v}\nb: 1\n";
    check(
        before,
        &[set("a", json!({"x": 1, "y": [1, 3], "z": {"k": "v"}}))],
        &before.replace("[1, 2]", "[1, 3]"),
    );
    check(
        before,
        &[set("a", json!({"y": [1, 2], "z": {"k": "v"}, "w": null}))],
        "a: # head\n  # about y\n  y: [1, 2] # two\n  z: {k: v}\n  w: null\nb: 1\n",
    );
    check(before, &[set("a", json!(5))], "a: 5 # head\nb: 1\n");
    check(before, &[set("a", json!({}))], "a: {} # head\nb: 1\n");
    check(before, &[set("a", json!([{"p": 1}]))], "a: # head\n  - p: 1\nb: 1\n");
    check(before, &[set("a", json!({"q": 1}))], "a: # head\n  # about y\n  q: 1\nb: 1\n");
    check(
        "a:\n  - id: 1 # c\n  - id: 2 # d\n  - id: 3 # e\n",
        &[set("a", json!([{"id": 1}, {"id": 3}]))],
        "a:\n  - id: 1 # c\n  - id: 3 # e\n",
    );
    check(
        "a:\n  - id: 1 # c\n  - id: 3 # e\n",
        &[set("a", json!([{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}]))],
        "a:\n  - id: 1 # c\n  - id: 2 # e\n  - id: 3\n  - id: 4\n",
    );
    check("a: 1\nb: 2\n", &[Edit::Set { path: vec![], value: json!({"b": 3, "c": 4}) }], "b: 3\nc: 4\n");
    check(
        "a:\n- 1\n- 2\n",
        &[set("a[0]", json!({"x": {"y": 1}})), set("a[1]", json!([{"z": 1}]))],
        "a:\n- x:\n    y: 1\n- - z: 1\n",
    );
}

#[test]
fn the_ends_of_a_file_survive() {
    let edits = [set("a", json!(2)), set("b", json!("x\ny"))];
    check_text("---\na: 1\n---", &edits, "---\na: 2\nb: |-\n  x\n  y\n---");
    check_text("---\na: 1\n---\nbody", &edits, "---\na: 2\nb: |-\n  x\n  y\n---\nbody");
    check_text(
        "\u{feff}---\r\na: 1\r\n--- \t\r\nbody\rlone\nmixed\r\n",
        &edits,
        "\u{feff}---\r\na: 2\r\nb: |-\r\n  x\r\n  y\r\n--- \t\r\nbody\rlone\nmixed\r\n",
    );
    let long = "x".repeat(100_000);
    check_text(
        &format!("---\na: 1 # {long}\n---\n"),
        &[set("b", json!(long))],
        &format!("---\na: 1 # {long}\nb: {long}\n---\n"),
    );
}

#[test]
fn what_cannot_be_done_changes_nothing() {
    check_refused("a: 1\n", &[set("a", json!(2)), remove("b")], "no_such_place");
    check_refused("a: [1]\n", &[set("a[0]", json!(2)), set("a[1]", json!(2))], "no_such_place");
    check_refused(
        "a: {x: 1}\nb: [1]\n",
        &[push("b", json!(2)), remove("b[0]"), set("a.y", json!(1)), push("a", json!(2))],
        "not_a_sequence",
    );
    check_refused("a: x\n", &[set("a.b", json!(2))], "not_a_mapping");
    check_refused("a: x\n", &[Edit::Set { path: vec![], value: json!(1) }], "not_a_mapping");
    check_refused("a: x\n", &[set("a", json!(u64::MAX))], "cannot_write");
    check_refused("a: x\n", &[remove("a"), set("b", json!(1)), set("b[0]", json!(1))], "not_a_sequence");
    let deep = (0..70).fold(json!(1), |inner, _| json!([inner]));
    check_refused("a: x\n", &[set("b", deep)], "cannot_write");
    check_refused("a: .inf\nb: [x: .nan]\n", &[set("b[0].y", json!(1))], "cannot_write");
}

#[test]
fn long_texts_fit_everywhere() {
    let long = "long text, ".repeat(1_000);
    check("a: [1]\n", &[push("a", json!(long))], &format!("a: [1, \"{long}\"]\n"));
    check("a: {b: 1}\n", &[set("a.b", json!(long))], &format!("a: {{b: \"{long}\"}}\n"));
    check("a:\n- x\n", &[push("a", json!({"k": long}))], &format!("a:\n- x\n- k: \"{long}\"\n"));
    check_refused("a: 1\n", &[set(&"k".repeat(2_000), json!(1))], "cannot_write");
}

#[test]
fn a_document_may_live_long() {
    let text = "---\na: \"x\\ty\"\nb: |\n  z\nc: \"u\\tv\"\n---\n";
    let mut document = Document::parse(text.to_owned(), &Limits::default()).expect(text);
    for turn in 0..5_000 {
        document.edit(&[set("a", json!(format!("{turn}\t{turn}")))]).expect("a scalar is set");
    }
    document.check_consistency().expect("the arena is that of the text");
    assert!(document.decoded.ends.len() < 3_000, "{} texts are kept for three", document.decoded.ends.len());
}
