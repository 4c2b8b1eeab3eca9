//! `aot log --trace`: what a run did, as rows over time.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::repo::{Plan, Repo, atom, check};

/// A1 and A2 meet, so that they run at once; A3 fails and A4 takes its place.
fn ran() -> Repo {
    let meet = |mine: &str, other: &str, folder: &str| {
        format!(
            "touch {folder}/{mine}; until test -e {folder}/{other}; do sleep 0.01; done; echo {mine} > {mine}"
        )
    };
    let there = tempfile::tempdir().expect("a folder").keep();
    let folder = there.display().to_string();
    let atoms = atom("A1", "", &meet("one", "two", &folder))
        + &atom("A2", "", &meet("two", "one", &folder))
        + "  - {id: A3, description: \"Bad\", status: pending, depends_on: [A1], or_group: way, run: \"exit 3\"}\n"
        + "  - {id: A4, description: \"Good\", status: pending, depends_on: [A1], or_group: way, run: \"echo 4 > four\"}\n";
    let or_groups = "  way: {choices: [A3, A4], selected: A3, failed: []}";
    let base_case = check("test -s four && test -s two");
    let objective = "  isolation: {mode: none}";
    let repo =
        Repo::with(&Plan { atoms: &atoms, or_groups, base_case: &base_case, objective, ..Plan::default() });
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    std::fs::remove_dir_all(there).expect("it was made");
    repo
}

fn events<'t>(trace: &'t Value, key: &str, is: &str) -> Vec<&'t Value> {
    let all = trace["traceEvents"].as_array().expect("events").iter();
    all.filter(|event| event[key] == is).collect()
}

#[test]
fn attempts_take_as_long_as_the_journal_says() {
    let repo = ran();
    let said = repo.aot(&["log", "--trace", "-"]);
    assert_eq!((said.exit, said.err.as_str()), (0, ""));
    let trace: Value = serde_json::from_str(&said.out).expect("one object");
    let log = repo.aot(&["log", "-n", "1000", "--json"]).halted();
    let micros = |entry: &Value| {
        entry["at"]
            .as_str()
            .and_then(|at| at.parse::<jiff::Timestamp>().ok())
            .expect("a time")
            .as_microsecond()
    };
    let when = |kind: &str, atom: &str| {
        let entries = log["entries"].as_array().expect("entries");
        let of_atom = |change: &Value| change["type"] == kind && change["atom"] == atom;
        let holds = |entry: &&Value| entry["changes"].as_array().expect("changes").iter().any(of_atom);
        micros(entries.iter().find(holds).unwrap_or_else(|| panic!("{kind} of {atom}: {log}")))
    };
    let attempts = events(&trace, "cat", "attempts");
    let names: Vec<&str> = attempts.iter().filter_map(|event| event["name"].as_str()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    let of = |name: &str| *attempts.iter().find(|event| event["name"] == name).expect("an attempt");
    for name in ["A1", "A2", "A4"] {
        let took = when("atom_resolved", name) - when("atom_started", name);
        assert_eq!(of(name)["dur"], json!(took), "{name}");
        assert_eq!(of(name)["args"]["outcome"], "resolved");
    }
    assert_eq!(of("A1")["args"]["description"], "Do A1");
    assert_eq!(
        (&of("A3")["args"]["outcome"], &of("A3")["args"]["description"]),
        (&json!("failed"), &json!("Bad"))
    );
    assert_ne!(of("A1")["tid"], of("A2")["tid"], "they ran at once");
    let rows = events(&trace, "name", "thread_name");
    let named: Vec<&str> = rows.iter().filter_map(|event| event["args"]["name"].as_str()).collect();
    for row in ["loop", "iterations", "slot 1", "slot 2", "checks 1"] {
        assert!(named.contains(&row), "{named:?}");
    }
    assert_eq!(events(&trace, "name", "switch").len(), 1);
    assert!(!events(&trace, "cat", "checks").is_empty());
    assert_eq!(events(&trace, "cat", "loop")[0]["args"]["outcome"], "completed");
}

/// The spans of a request to export them, each id once, and each parent among them.
pub fn spans(otlp: &Value) -> Vec<Value> {
    let spans = otlp["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone();
    let ids: BTreeSet<&str> = spans.iter().filter_map(|span| span["spanId"].as_str()).collect();
    assert_eq!(ids.len(), spans.len(), "an id is there twice");
    for span in &spans {
        let parent = span["parentSpanId"].as_str().expect("a text");
        assert!(parent.is_empty() || ids.contains(parent), "{span}");
        assert_eq!(span["traceId"].as_str().map(str::len), Some(32), "{span}");
    }
    spans
}

#[test]
fn open_telemetry_has_the_same_spans() {
    let repo = ran();
    let said = repo.aot(&["log", "--otlp", "-"]);
    let otlp: Value = serde_json::from_str(&said.out).expect("one object");
    let trace: Value = serde_json::from_str(&repo.aot(&["log", "--trace", "-"]).out).expect("one object");
    let spans = spans(&otlp);
    let nanoseconds = |span: &Value, key: &str| span[key].as_str().and_then(|text| text.parse::<i64>().ok());
    for attempt in events(&trace, "cat", "attempts") {
        let of = |span: &&Value| span["name"] == attempt["name"];
        let span = spans.iter().find(of).unwrap_or_else(|| panic!("{attempt} is no span"));
        let took = nanoseconds(span, "endTimeUnixNano").zip(nanoseconds(span, "startTimeUnixNano"));
        let took = took.map(|(end, start)| (end - start) / 1000);
        assert_eq!(took, attempt["dur"].as_i64(), "{attempt}");
        let run = spans.iter().find(|other| other["spanId"] == span["parentSpanId"]).expect("a parent");
        assert_eq!(run["name"], "aot run");
    }
    assert_eq!(spans.len(), events(&trace, "ph", "X").len(), "no agent ran");
    let failed: Vec<&Value> = spans.iter().filter(|span| span["status"]["code"] == 2).collect();
    assert!(failed.iter().any(|span| span["name"] == "A3"), "{failed:?}");
    assert!(spans.iter().any(|span| span["events"].as_array().is_some_and(|events| !events.is_empty())));
}

#[test]
fn a_trace_is_written_to_a_file_and_not_by_a_worker() {
    let repo = Repo::with(&Plan::default());
    assert_eq!(repo.run().exit, 0);
    let said = repo.aot(&["log", "--trace", "loop.json"]);
    assert!(said.exit == 0 && said.out.contains("loop.json"), "{}{}", said.out, said.err);
    let trace: Value = serde_json::from_str(&repo.read("loop.json")).expect("JSON");
    assert_eq!(events(&trace, "cat", "attempts").len(), 1);
    let refused = repo
        .start_dressed(&["log", "--trace", "no.json"], |command| {
            command.env("AOT_JOB", "1");
        })
        .end();
    assert_eq!(refused.exit, 1, "{}", refused.out);
    assert!(!repo.path("no.json").exists());
}
