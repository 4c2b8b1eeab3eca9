//! Who ran when: bars over time, as SVG and in the language of Mermaid. Draws a timeline, reads nothing.

use std::collections::BTreeMap;
use std::fmt::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::said;
use crate::screens::markup::escaped;
use crate::screens::trace::{SpanRow, Timeline, TraceSpan, slots};
use crate::text;

/// With more names than this, rows are what ran at once and no longer a name each.
const MOST_NAMES: usize = 48;

/// More rows are not drawn.
const MOST_ROWS: usize = 64;

/// Bars that Mermaid gets, the longest.
const MOST_BARS: usize = 60;

const LEFT: f64 = 132.0;
const WIDTH: f64 = 868.0;
const ROW: f64 = 22.0;
const BAR: f64 = 14.0;
const HEAD: f64 = 26.0;
/// Columns of a name at the left.
const NAME: usize = 17;

/// Steps between the lines of the axis, in seconds.
const STEPS: [i64; 17] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400];

/// A row with its bars.
struct GanttRow<'t> {
    name: String,
    spans: Vec<&'t TraceSpan>,
}

/// The picture; nothing where nothing ran.
pub fn gantt(timeline: &Timeline, zone: &TimeZone) -> Option<String> {
    let (from, to) = extent(timeline)?;
    let rows = rows(timeline);
    let shown = &rows[..rows.len().min(MOST_ROWS)];
    let height = HEAD + ROW * shown.len() as f64 + 10.0;
    let full = LEFT + WIDTH + 12.0;
    let mut page = format!(
        "<svg class=\"gantt\" viewBox=\"0 0 {full:.0} {height:.0}\" width=\"{full:.0}\" height=\"{height:.0}\" role=\"img\">\n\
         <title>Who ran when</title>\n"
    );
    let x = |at: i64| LEFT + WIDTH * (at - from) as f64 / (to - from) as f64;
    for (at, label) in ticks(from, to, zone) {
        let _ = writeln!(
            page,
            "<line class=\"tick\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{HEAD}\" y2=\"{1:.0}\"/>\
             <text class=\"hour\" x=\"{0:.1}\" y=\"16\">{2}</text>",
            x(at),
            height - 6.0,
            escaped(&label)
        );
    }
    for (place, row) in shown.iter().enumerate() {
        let y = HEAD + ROW * place as f64;
        let _ = writeln!(
            page,
            "<text class=\"who\" x=\"{:.0}\" y=\"{:.1}\">{}</text>",
            LEFT - 10.0,
            y + 15.0,
            escaped(&text::fit(&row.name, NAME))
        );
        for bar in bars(&row.spans, x) {
            let _ = writeln!(
                page,
                "<rect class=\"bar {}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\"><title>{}</title></rect>",
                class(bar.first),
                bar.from,
                y + 4.0,
                (bar.to - bar.from).max(1.5),
                escaped(&bar.told())
            );
        }
    }
    if rows.len() > shown.len() {
        let _ = writeln!(page, "<!-- {} rows more -->", rows.len() - shown.len());
    }
    Some(page + "</svg>\n")
}

/// The same for Markdown; nothing where nothing ran. Of many bars the longest are in it, and how many are not.
pub fn mermaid(timeline: &Timeline) -> Option<(String, usize)> {
    extent(timeline)?;
    let mut spans: Vec<&TraceSpan> =
        timeline.spans.iter().filter(|span| span.row == SpanRow::Attempts).collect();
    let left_out = spans.len().saturating_sub(MOST_BARS);
    spans.sort_by_key(|span| std::cmp::Reverse(span.to - span.from));
    spans.truncate(MOST_BARS);
    spans.sort_by_key(|span| span.from);
    let mut page = String::from("gantt\n  dateFormat x\n  axisFormat %H:%M:%S\n");
    let mut named: BTreeMap<usize, (&str, Vec<&TraceSpan>)> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for span in spans {
        let place = order.iter().position(|name| *name == span.name).unwrap_or_else(|| {
            order.push(&span.name);
            order.len() - 1
        });
        named.entry(place).or_insert_with(|| (&span.name, Vec::new())).1.push(span);
    }
    for (name, spans) in named.values() {
        let _ = writeln!(page, "  section {}", word(name));
        for span in spans {
            let tag = match class(span) {
                "good" => "done",
                "bad" => "crit",
                _ => "active",
            };
            let number = span.args.get("attempt").and_then(serde_json::Value::as_u64);
            let number = number.map(|number| format!(" {number}")).unwrap_or_default();
            let (from, to) = (span.from / 1_000, (span.to / 1_000).max(span.from / 1_000 + 1));
            let _ = writeln!(page, "  {}{number} :{tag}, {from}, {to}", word(&said(span, "outcome")));
        }
    }
    Some((page, left_out))
}

/// A name in which Mermaid finds nothing but a name.
fn word(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ') { c } else { '_' };
    let name: String = text::fit(name, 40).chars().map(plain).collect();
    if name.trim().is_empty() { "-".to_owned() } else { name }
}

/// When the first bar begins and the last one ends.
fn extent(timeline: &Timeline) -> Option<(i64, i64)> {
    let ran = || timeline.spans.iter().filter(|span| span.row == SpanRow::Attempts);
    let from = ran().map(|span| span.from).min()?;
    let to = ran().map(|span| span.to).max()?;
    Some((from, to.max(from + 1_000)))
}

fn rows(timeline: &Timeline) -> Vec<GanttRow<'_>> {
    let of = |row: SpanRow| timeline.spans.iter().filter(move |span| span.row == row);
    let mut rows = Vec::new();
    let waits: Vec<&TraceSpan> = of(SpanRow::Waiting).collect();
    if !waits.is_empty() {
        rows.push(GanttRow { name: "waiting".into(), spans: waits });
    }
    let mut named: Vec<GanttRow<'_>> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for span in of(SpanRow::Attempts) {
        let place = *places.entry(&span.name).or_insert_with(|| {
            named.push(GanttRow { name: span.name.clone(), spans: Vec::new() });
            named.len() - 1
        });
        named[place].spans.push(span);
    }
    if named.len() <= MOST_NAMES {
        rows.extend(named);
        return rows;
    }
    let attempts: Vec<&TraceSpan> = of(SpanRow::Attempts).collect();
    let intervals: Vec<(i64, i64)> = attempts.iter().map(|span| (span.from, span.to)).collect();
    let slots = slots(&intervals);
    let count = slots.iter().max().map_or(0, |slot| slot + 1);
    let mut by_slot: Vec<GanttRow<'_>> =
        (1..=count).map(|number| GanttRow { name: format!("slot {number}"), spans: Vec::new() }).collect();
    for (span, slot) in attempts.into_iter().zip(slots) {
        by_slot[slot].spans.push(span);
    }
    rows.extend(by_slot);
    rows
}

/// One attempt, or several that are too close together to be told apart.
struct GanttBar<'t> {
    from: f64,
    to: f64,
    first: &'t TraceSpan,
    count: usize,
}

impl GanttBar<'_> {
    fn told(&self) -> String {
        let number = self.first.args.get("attempt").and_then(serde_json::Value::as_u64);
        let number = number.map(|number| format!(", iteration {number}")).unwrap_or_default();
        let outcome = said(self.first, "outcome");
        let took = super::took((self.first.to - self.first.from) as f64 / 1e6);
        match self.count {
            1 => format!("{}{number}: {outcome}, {took}", self.first.name),
            many => format!("{many} attempts: {outcome}"),
        }
    }
}

fn bars<'t>(spans: &[&'t TraceSpan], x: impl Fn(i64) -> f64) -> Vec<GanttBar<'t>> {
    let mut bars: Vec<GanttBar<'t>> = Vec::new();
    for span in spans {
        let (from, to) = (x(span.from), x(span.to));
        match bars.last_mut() {
            Some(last) if to - last.from < 1.5 && class(last.first) == class(span) => {
                last.to = last.to.max(to);
                last.count += 1;
            }
            _ => bars.push(GanttBar { from, to, first: span, count: 1 }),
        }
    }
    bars
}

fn class(span: &TraceSpan) -> &'static str {
    match said(span, "outcome").as_str() {
        _ if span.row == SpanRow::Waiting => "wait",
        "resolved" | "decomposed" => "good",
        "failed" => "bad",
        "open" => "live",
        _ => "back",
    }
}

/// The lines of the axis with their words, not more than ten.
fn ticks(from: i64, to: i64, zone: &TimeZone) -> Vec<(i64, String)> {
    let seconds = (to - from) / 1_000_000;
    let step = STEPS.into_iter().find(|step| seconds / step <= 9).unwrap_or(seconds / 9 + 1) * 1_000_000;
    let form = if step >= 86_400_000_000 {
        "%b %d"
    } else if step >= 60_000_000 {
        "%H:%M"
    } else {
        "%H:%M:%S"
    };
    let first = (from + step - 1).div_euclid(step) * step;
    let mut ticks = Vec::new();
    let mut at = first;
    while at <= to {
        if let Ok(moment) = Timestamp::from_microsecond(at) {
            ticks.push((at, moment.to_zoned(zone.clone()).strftime(form).to_string()));
        }
        at += step;
    }
    ticks
}
