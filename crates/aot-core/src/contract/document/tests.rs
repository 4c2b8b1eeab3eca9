//! Reading as lines of data: a file, and what it says or why it is refused.

use serde_json::json;

use super::{Document, Kind, Limits};

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
