//! A loop as OpenTelemetry spans, in the JSON of its protocol (OTLP), which collectors take from a file or a request. Runs of
//! agents are named as its conventions for generative AI say. Reads no journal and has no clock.

use std::collections::HashMap;

use aot_core::rules::Change;
use aot_core::state::AgentRun;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{RecordedLoop, SpanRow, TraceMoment, TraceSpan, plain, recorded_spans};
use crate::text;

/// No span: what has no parent.
const ROOT: usize = 0;

/// In hexadecimal digits.
const TRACE_ID_LENGTH: usize = 32;

/// Spans as a request to export them.
pub fn draw(recorded: &RecordedLoop<'_>, version: &str) -> Value {
    let (spans, moments) = recorded_spans(recorded);
    let trace = trace_id(recorded);
    let number = |place: usize| place + 1;
    let mut runs: Vec<usize> = (0..spans.len()).filter(|place| spans[*place].row == SpanRow::Runs).collect();
    runs.sort_by_key(|place| spans[*place].from);
    // The run that goes on at a moment, or the last one before it.
    let run_at = |at: i64| runs[..runs.partition_point(|place| spans[*place].from <= at)].last().copied();
    let mut events: Vec<Vec<Value>> = vec![Vec::new(); spans.len()];
    for moment in &moments {
        if let Some(place) = moment.span.or_else(|| run_at(moment.at)) {
            events[place].push(event(moment));
        }
    }
    let mut attempts: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, span) in spans.iter().enumerate().filter(|(_, span)| span.row == SpanRow::Attempts) {
        attempts.entry(&span.name).or_default().push(place);
    }
    let mut written: Vec<Value> = Vec::new();
    for (place, span) in spans.iter().enumerate() {
        let is_run = span.row == SpanRow::Runs;
        let parent = if is_run { ROOT } else { run_at(span.from).map_or(ROOT, number) };
        written.push(json!({
            "traceId": trace,
            "spanId": span_id(number(place)),
            "parentSpanId": parent_id(parent),
            "name": if is_run { "aot run" } else { &span.name },
            "kind": 1,
            "startTimeUnixNano": nanoseconds(span.from),
            "endTimeUnixNano": nanoseconds(span.to),
            "attributes": attributes(&with_row(span)),
            "events": std::mem::take(&mut events[place]),
            "status": status(&span.args),
        }));
    }
    let mut next = spans.len();
    for (run, until) in agent_runs(recorded) {
        next += 1;
        let from = until - i64::try_from(run.seconds).unwrap_or(0) * 1_000_000;
        let tries = run.atom.as_ref().and_then(|atom| attempts.get(atom.as_str()));
        let attempt = tries.and_then(|tries| tries.iter().rev().find(|place| spans[**place].from <= until));
        let parent = attempt.copied().or_else(|| run_at(from)).map_or(ROOT, number);
        written.push(json!({
            "traceId": trace,
            "spanId": span_id(next),
            "parentSpanId": parent_id(parent),
            "name": text::plain(&format!("invoke_agent {}", run.agent)),
            "kind": 1,
            "startTimeUnixNano": nanoseconds(from),
            "endTimeUnixNano": nanoseconds(until),
            "attributes": attributes(&of_agent(run)),
        }));
    }
    json!({"resourceSpans": [{
        "resource": {"attributes": attributes(&Map::from_iter([
            ("service.name".to_owned(), json!("aot")),
            ("service.version".to_owned(), json!(version)),
            ("aot.goal".to_owned(), json!(plain(recorded.goal))),
        ]))},
        "scopeSpans": [{"scope": {"name": "aot", "version": version}, "spans": written}],
    }]})
}

/// Runs of agents that are over, each with the moment at which that was written.
fn agent_runs<'r>(recorded: &RecordedLoop<'r>) -> impl Iterator<Item = (&'r AgentRun, i64)> {
    recorded.entries.iter().flat_map(|entry| {
        let at = entry.at.parse::<Timestamp>().ok().map(Timestamp::as_microsecond);
        let runs = entry.changes.iter().filter_map(|change| match change {
            Change::SpentSoFar { runs, .. } => Some(runs),
            _ => None,
        });
        runs.flatten().filter_map(move |run| Some((run, at?)))
    })
}

/// The same whenever the same loop is written: the beginning of the hash of the text that it began with.
fn trace_id(recorded: &RecordedLoop<'_>) -> String {
    let hash = recorded.entries.first().map_or("", |entry| entry.hash.as_str());
    let hex: String = hash.chars().filter(char::is_ascii_hexdigit).take(TRACE_ID_LENGTH).collect();
    // Without a hash it is still no zero, which would be no id.
    format!("{hex:1<TRACE_ID_LENGTH$}")
}

fn span_id(number: usize) -> String {
    format!("{number:016x}")
}

fn parent_id(number: usize) -> String {
    if number == ROOT { String::new() } else { span_id(number) }
}

fn nanoseconds(microseconds: i64) -> String {
    (i128::from(microseconds) * 1_000).to_string()
}

fn with_row(span: &TraceSpan) -> Map<String, Value> {
    let told = span.args.iter().map(|(key, value)| (format!("aot.{key}"), value.clone()));
    std::iter::once(("aot.kind".to_owned(), json!(span.row.word()))).chain(told).collect()
}

fn of_agent(run: &AgentRun) -> Map<String, Value> {
    let mut told = Map::from_iter([
        ("gen_ai.operation.name".to_owned(), json!("invoke_agent")),
        ("gen_ai.agent.name".to_owned(), json!(plain(&run.agent))),
        ("aot.role".to_owned(), json!(run.role)),
        // The conventions count what goes in and what comes out; clients tell the sum.
        ("aot.tokens".to_owned(), json!(run.tokens)),
    ]);
    let optional = [
        ("aot.atom", run.atom.as_ref().map(|atom| json!(plain(atom.as_str())))),
        ("aot.attempt", run.attempt.map(|attempt| json!(attempt))),
        ("aot.cost_usd", run.cost_usd.map(|cost| json!(cost))),
        ("aot.mends", run.mends.as_ref().map(|reason| json!(plain(reason)))),
    ];
    told.extend(optional.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    told
}

fn event(moment: &TraceMoment) -> Value {
    let told = Map::from_iter([("aot.told".to_owned(), json!(moment.told))]);
    json!({"name": moment.name, "timeUnixNano": nanoseconds(moment.at), "attributes": attributes(&told)})
}

/// 1 is well, 2 an error, and 0 says nothing.
fn status(args: &Map<String, Value>) -> Value {
    match args.get("outcome").and_then(Value::as_str) {
        Some("resolved" | "completed" | "pass") => json!({"code": 1}),
        Some(failed @ ("failed" | "fail" | "error")) => {
            json!({"code": 2, "message": args.get("reason").and_then(Value::as_str).unwrap_or(failed)})
        }
        _ => json!({"code": 0}),
    }
}

fn attributes(told: &Map<String, Value>) -> Vec<Value> {
    let value = |value: &Value| match value {
        Value::Bool(is) => json!({"boolValue": is}),
        Value::Number(number) if number.is_f64() => json!({"doubleValue": number}),
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::String(text) => json!({"stringValue": text}),
        other => json!({"stringValue": other.to_string()}),
    };
    told.iter().map(|(key, told)| json!({"key": key, "value": value(told)})).collect()
}
