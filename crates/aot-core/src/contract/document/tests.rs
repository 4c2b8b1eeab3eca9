//! Reading as lines of data: a file, and what it says or why it is refused.

use proptest::prelude::*;
use serde_json::json;

use super::{Document, Kind, Limits, build, plain};

fn refused(text: &str, code: &str, place: &str) {
    let error = Document::parse(text.to_owned(), &Limits::default()).expect_err(text);
    assert_eq!((error.code, error.place.to_string().as_str()), (code, place), "{text:?}: {error}");
    assert!(!error.hint.is_empty() && !error.message.is_empty());
}

#[test]
fn what_is_not_a_document_is_refused_with_its_place() {
    refused("", "no_opening_fence", "1:1");
    refused("a: 1\n---\n", "no_opening_fence", "1:1");
    refused("---\na: 1\n", "no_closing_fence", "1:1");
    refused("---\na: 1\n ---\n", "no_closing_fence", "1:1");
    refused("---\n---\n", "empty_frontmatter", "2:1");
    refused("---\n# only this\n\n---\n", "empty_frontmatter", "2:1");
    refused("---\n~\n---\n", "not_a_mapping", "2:1");
    refused("---\n- a\n---\n", "not_a_mapping", "2:1");
    refused("---\na: &x 1\n---\n", "anchor", "2:7");
    refused("---\na: [1, *x]\n---\n", "alias", "2:8");
    refused("---\na: !!str 1\n---\n", "tag", "2:10");
    refused("---\n%YAML 1.2\na: 1\n---\n", "directive", "2:1");
    refused("---\na: 1\n...\nb: 1\n---\n", "several_documents", "3:1");
    refused("---\n...\na: 1\n---\n", "several_documents", "2:1");
    refused("---\na: 1\n--- b\n---\n", "several_documents", "3:1");
    refused("---\n? a\n: 1\n---\n", "explicit_key", "2:1");
    refused("---\na: {? b : 1}\n---\n", "explicit_key", "2:5");
    refused("---\n[a, b]: 1\n---\n", "key_not_scalar", "2:1");
    refused("---\na:\n  : 1\n---\n", "empty_key", "2:3");
    refused("---\na: \"x\n---\n", "invalid_yaml", "3:1");
    refused("---\na: 1\n\tb: 2\n---\n", "invalid_yaml", "2:4");
    refused("---\na: 1\rb: 2\n---\n", "lone_carriage_return", "2:5");
    refused("---\na: x\0\n---\n", "nul_byte", "2:5");
    refused("\u{feff}---\nключ: 1\n\"ключ\": 2\n---\n", "duplicate_key", "3:1");
    refused(&format!("---\na: {}{}\n---\n", "[".repeat(64), "]".repeat(64)), "too_deep", "2:67");
    let many: String = (0..20).map(|at| format!("k{}: 1\n", at % 19)).collect();
    refused(&format!("---\n{many}---\n"), "duplicate_key", "21:1");
}

#[test]
fn messages_name_both_places_and_limits_hold() {
    let parse = |text: &str, limits: &Limits| Document::parse(text.to_owned(), limits).expect_err("refused");
    let twice = parse("---\nstatus: 1\nb: 2\nstatus: 3\n---\n", &Limits::default());
    assert_eq!(twice.to_string(), "mapping key `status` appears twice (first at 2:1) at 4:1");
    assert_eq!(twice.hint, "remove one of them");
    let few = Limits { nodes: 3, ..Limits::default() };
    assert_eq!(parse("---\na: 1\nb: 2\n---\n", &few).code, "too_many_nodes");
    let small = Limits { bytes: 5, ..Limits::default() };
    assert_eq!(parse("---\na: 1\n---\n", &small).code, "too_many_bytes");
    let flat = Limits { depth: 1, ..Limits::default() };
    assert_eq!(parse("---\na: []\n---\n", &flat).code, "too_deep");
    let bytes = Document::from_bytes(b"---\n\xd0\xb0: \xff\n---\n".to_vec(), &Limits::default())
        .expect_err("refused");
    assert_eq!((bytes.code, bytes.place.to_string().as_str()), ("not_utf8", "2:4"));
}

#[test]
fn a_document_says_what_yaml_says() {
    let check = |front: &str, value: serde_json::Value| {
        for newline in ["\n", "\r\n"] {
            let text = format!("---\n{front}---\nbody\n").replace('\n', newline);
            let document = Document::parse(text, &Limits::default()).expect(front);
            assert_eq!(document.root().value(), value, "{front}");
            assert_eq!(document.body(), format!("body{newline}"));
        }
    };
    check("a: yes\nb: on\nc: true\nd: False\n", json!({"a": "yes", "b": "on", "c": true, "d": false}));
    check(
        "a: 1\nb: '1'\nc: 0x1F\nd: 1.0\ne: 1_0\n",
        json!({"a": 1, "b": "1", "c": 31, "d": 1.0, "e": "1_0"}),
    );
    check(
        "a:\nb: ~\nc: null\nd: ''\ne: [~, {f}]\n",
        json!({"a": null, "b": null, "c": null, "d": "", "e": [null, {"f": null}]}),
    );
    check("l: {1: a, 3: b}\ntrue: x\n", json!({"l": {"1": "a", "3": "b"}, "true": "x"}));
    check(
        "a: \"x\\n\\u00e9\\\n  y\"\nb: 'it''s'\nc: one\n  two\n",
        json!({"a": "x\néy", "b": "it's", "c": "one two"}),
    );
    check(
        "a: |\n  x\n   y\n\nb: >-\n  x\n  y\nc: |+\n  x\n\nd: |2\n    x\n",
        json!({"a": "x\n y\n", "b": "x y", "c": "x\n\n", "d": "  x\n"}),
    );
    check("a: [x: 1, {y: 2}, [z]]\n", json!({"a": [{"x": 1}, {"y": 2}, ["z"]]}));
    check("a:\n- x\n-\n- - y\n-\n  k: v\n", json!({"a": ["x", null, ["y"], {"k": "v"}]}));
    check("a: .inf\n", json!({"a": null}));
}

#[test]
fn a_node_knows_its_kind_and_place() {
    let text = "\u{feff}---\nключ: [1, 2.5]  # ж\nb:\n  - \"ю\": ~\n---\n";
    let document = Document::parse(text.to_owned(), &Limits::default()).expect(text);
    let list = document.root().get("ключ").expect("there");
    assert_eq!((list.kind(), list.len(), list.place().to_string()), (Kind::Seq, 2, "2:7".to_owned()));
    let item = list.items().nth(1).expect("there");
    assert_eq!((item.float(), item.int(), item.place().to_string()), (Some(2.5), None, "2:11".to_owned()));
    let map = document.root().get("b").and_then(|list| list.items().next()).expect("there");
    let (key, value) = map.entries().next().expect("there");
    assert_eq!(
        (key.str().as_deref(), value.is_null(), value.place().to_string()),
        (Some("ю"), true, "4:10".to_owned())
    );
    assert!(text[key.offset()..].starts_with("\"ю\""));
}

#[test]
fn a_pack_is_read_or_refused_but_never_wrong() {
    let text = "---\na: [1, {b: \"x\\ty\"}]\nc: |\n  z\n---\nbody\n";
    let document = Document::parse(text.to_owned(), &Limits::default()).expect(text);
    let packed = document.pack();
    let again = Document::unpack(text.to_owned(), &packed).expect("its own pack");
    again.check_consistency().expect("the same arena");
    assert_eq!((again.root().value(), again.body()), (document.root().value(), document.body()));
    assert!(Document::unpack(format!("{text} "), &packed).is_none());
    for cut in 0..packed.len() {
        assert!(Document::unpack(text.to_owned(), &packed[..cut]).is_none());
    }
    for at in 0..packed.len() {
        for flip in [1u8, 0x80, 0xff] {
            let mut garbage = packed.clone();
            garbage[at] ^= flip;
            if let Some(document) = Document::unpack(text.to_owned(), &garbage) {
                let _any = (document.root().value(), document.body().len());
            }
        }
    }
}

/// Whether both readers agree on the frontmatter, and whether the quick one reads it at all.
fn is_read_quickly(front: &str) -> bool {
    let limits = Limits { depth: 8, nodes: 5_000, ..Limits::default() };
    let Some(quick) = plain::read(front, 4, &limits) else { return false };
    match build::read(front, 4, &limits) {
        Ok(tree) => assert_eq!(quick, tree, "{front}"),
        Err(fault) => panic!("the parser refuses it: {fault:?}\n{front}"),
    }
    true
}

/// A form each, from what people and the program write.
const ORDINARY: [&str; 14] = [
    "a: 1\n",
    "# first\n\na: one two # three\n\n  # four\nb:\nc: ~\n",
    "a:\n  b:\n    c: true\n  d: -1.5\ne:\n",
    "a:\n  - id: A1\n    needs: [A2, \"A 3\", 'it''s']\n\n  - id: A2\n    of: {x: 1, \"y\": [[]]}\nb: []\n",
    "a:\n- 1\n- b: 2\n  c:\n  - 3\n-\n  - 4\n-\nd: {}\n",
    "a: \"says \\\"so\\\", then\\n\\tgoes \\\\ on\" # it\nb: 'don''t'\nc: it's \\ \"so\"\n",
    "a: http://x.y/z#part?q=[1,2]\nb: 12:30\nc: a#b\nd: (x) -> y\ne: -flag\nf: ./a\n",
    "\"1.5\": x\nк: y\n",
    "a: грüße 你好，世界 🙂\nb: \"—\u{a0}…\"\n",
    "- a\n",
    "a:\n  -   b: 1\n      c: 2\n  -   - 1\n",
    "a: [ ]\nb: { }\nc: [ 1 , 2 ]\nd: [a b, -1]\n",
    "a-b.c/d: 1\n_e: 2\n0: 3\n",
    "a: \"\"\nb: ''\nc: \"#\"\nd: \": \"\n",
];

#[test]
fn ordinary_forms_are_read_without_the_parser_and_the_same() {
    for front in ORDINARY {
        let is_for_the_parser = ["к: ", "- a\n", "  -   - 1"].iter().any(|odd| front.contains(odd));
        assert_eq!(is_read_quickly(front), !is_for_the_parser, "{front}");
    }
}

#[test]
fn what_is_in_doubt_is_left_to_the_parser() {
    for front in [
        "",
        "\n",
        "a: 1",
        "a: 1\r\n",
        "a:\t1\n",
        "a: 1\n  b: 2\n",
        "a: b: c\n",
        "a: b\n  c\n",
        "a: b # c\n  d\n",
        "a: \"b\n  c\"\n",
        "a: \"\\x41\"\n",
        "a: \"b\" c\n",
        "a: \"b\"#c\n",
        "a: |\n  b\n",
        "a: >-\n  b\n",
        "a: &b c\n",
        "a: *b\n",
        "a: !b c\n",
        "a: @b\n",
        "a: %b\n",
        "a: `b\n",
        "a: [1,\n  2]\n",
        "a: [1, ]\n",
        "a: [b: c]\n",
        "a: [\"b\": c]\n",
        "a: {b}\n",
        "a: {b: }\n",
        "a: {b:c}\n",
        "a: [b #c]\n",
        "a: ]\n",
        "a: - b\n",
        "a: -\n",
        "a: ?\n",
        "? a\n: b\n",
        "a : b\n",
        "a:b\n",
        "a: 1\na: 2\n",
        "a: {b: 1, b: 2}\n",
        "a:\n  - 1\n  b: 2\n",
        "a:\n  b: 1\n - c\n",
        "a:\n    b: 1\n  c: 2\n",
        "a:\n  b\n",
        "a:\n  [b]\n",
        "a: \u{7f}\n",
        "a: \u{85}\n",
        "a: \u{2028}\n",
        "a: \u{feff}\n",
        "a: \u{ffff}\n",
        "# \u{1}\na: 1\n",
        "a: [[[[[[[[1]]]]]]]]\n",
        "...\na: 1\n",
        "a: 1\n...\n",
        "a: 1\n--- b\n",
    ] {
        assert!(!is_read_quickly(front), "{front}");
    }
}

/// Ordinary lines with something odd in them.
fn odd_fronts() -> impl Strategy<Value = String> {
    let pieces = proptest::sample::select(vec![
        " ", "  ", "   ", "\n", "\n  ", "\n    ", "\n- ", "\n  - ", "-", "- ", ":", ": ", "a: ", "b: 1",
        "\nc: ", "\n  d: ", "#", " #", " # e", "\"", "'", "''", "\\\"", "\\", "\\n", "[", "]", "{", "}",
        ", ", ",", "[f, g]", "{h: 1}", "i", "j k", "|", ">-", "&", "*", "!", "?", "? ", "~", "null", "-1",
        "0x1F", ".5", "\t", "\r\n", "é", "🙂", "\u{a0}", "\u{85}", "\u{feff}", "\u{2028}", "\u{ffff}", "...",
        "---", "%", "@", "`", "=", "<<", "\"l\": ", "'m': ", "\"n o\"",
    ]);
    let inserted = (any::<prop::sample::Index>(), proptest::collection::vec(pieces, 0..4), 0..4usize);
    let start = proptest::sample::select(ORDINARY.to_vec());
    (proptest::collection::vec(start, 1..3), proptest::collection::vec(inserted, 0..4)).prop_map(
        |(starts, changes)| {
            let mut chars: Vec<char> = starts.concat().chars().collect();
            for (at, pieces, gone) in changes {
                let at = at.index(chars.len() + 1);
                let end = (at + gone).min(chars.len());
                chars.splice(at..end, pieces.concat().chars());
            }
            chars.into_iter().collect()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_readers_agree(front in odd_fronts()) {
        is_read_quickly(&front);
    }
}
