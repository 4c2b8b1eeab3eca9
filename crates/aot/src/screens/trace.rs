//! A loop as a Chrome trace, which Perfetto and chrome://tracing draw as rows over time. Reads no journal and has no clock.
//!
//! The journal says when an attempt, an iteration, a wait and a run began and ended. It does not say when a landing or an
//! evaluation began, so these are moments. Checks come from the evidence: how long each took, and the second in which the
//! evaluation that it belongs to began.

pub mod otlp;

use std::cmp::Reverse;
#[cfg(feature = "serve")]
use std::collections::BTreeSet;
use std::collections::{BinaryHeap, HashMap};

use aot_core::rules::Change;
use aot_core::state::AtomId;
use aot_core::verdict::Source;
use aot_runner::checks::kept::EvidenceLine;
use aot_runner::store::journal::JournalEntry;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::words::sentence;
use crate::text;

/// All rows are of one process.
const PROCESS: u32 = 1;

/// What is known of a loop, in the order in which it was written.
#[derive(Debug)]
pub struct RecordedLoop<'r> {
    pub goal: &'r str,
    pub descriptions: HashMap<AtomId, String>,
    pub entries: &'r [JournalEntry<Change>],
    pub evidence: &'r [EvidenceLine],
    /// What is still open ends here.
    pub now: Timestamp,
}

/// The second in which the first entry was written, in microseconds since 1970.
fn beginning(recorded: &RecordedLoop<'_>) -> i64 {
    let moments = recorded.entries.iter().filter_map(|entry| entry.at.parse::<Timestamp>().ok());
    moments.map(Timestamp::as_second).min().unwrap_or(recorded.now.as_second()) * 1_000_000
}

/// All that took time, with what is known of it, and the moments between.
fn recorded_spans(recorded: &RecordedLoop<'_>) -> (Vec<TraceSpan>, Vec<TraceMoment>) {
    let zero = beginning(recorded);
    let Timeline { mut spans, moments } = timeline(recorded.entries, recorded.now);
    let mut described = recorded.descriptions.clone();
    for change in recorded.entries.iter().flat_map(|entry| &entry.changes) {
        if let Change::AtomAdded { atom } = change {
            described.entry(atom.id.clone()).or_insert_with(|| atom.description.clone());
        }
    }
    for span in spans.iter_mut().filter(|span| span.row == SpanRow::Attempts) {
        if let Some(description) = described.get(span.name.as_str()) {
            span.args.insert("description".into(), json!(text::plain(description)));
        }
    }
    spans.extend(
        recorded
            .evidence
            .iter()
            .filter(|line| line.evidence.at.at().as_second() * 1_000_000 >= zero)
            .filter_map(check),
    );
    (spans, moments)
}

/// The trace as JSON. Its times are microseconds since the second in which the first entry was written.
pub fn draw(recorded: &RecordedLoop<'_>) -> Value {
    let zero = beginning(recorded);
    let (spans, moments) = recorded_spans(recorded);
    let rows = Rows::new(&spans);
    let mut events = vec![rows.process(recorded.goal)];
    events.extend(rows.names());
    for (place, span) in spans.iter().enumerate() {
        events.push(json!({
            "ph": "X", "pid": PROCESS, "tid": rows.of_span[place], "name": span.name, "cat": span.row.word(),
            "ts": span.from - zero, "dur": span.to - span.from, "args": span.args,
        }));
    }
    for moment in &moments {
        let row = moment.span.map_or(rows.of_loop, |span| rows.of_span[span]);
        events.push(json!({
            "ph": "i", "s": "t", "pid": PROCESS, "tid": row, "name": moment.name, "cat": "moments",
            "ts": moment.at - zero, "args": {"told": moment.told},
        }));
    }
    let began = Timestamp::from_microsecond(zero).expect("the second of a timestamp is one");
    json!({
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"zero": began.to_string()},
    })
}

/// Which row a stretch of time belongs to; attempts and checks have as many rows as run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanRow {
    Runs,
    Iterations,
    Waiting,
    Attempts,
    Checks,
}

impl SpanRow {
    pub fn word(self) -> &'static str {
        match self {
            SpanRow::Runs => "loop",
            SpanRow::Iterations => "iterations",
            SpanRow::Waiting => "waiting",
            SpanRow::Attempts => "attempts",
            SpanRow::Checks => "checks",
        }
    }
}

/// Something that took time, in microseconds since 1970.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSpan {
    pub row: SpanRow,
    pub name: String,
    pub from: i64,
    pub to: i64,
    pub args: Map<String, Value>,
}

/// Something of which only the moment is known.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceMoment {
    pub name: &'static str,
    pub at: i64,
    pub told: String,
    /// The place of the span on whose row it stands; without one it stands on the loop's.
    pub span: Option<usize>,
}

/// What the journal tells, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    pub spans: Vec<TraceSpan>,
    pub moments: Vec<TraceMoment>,
}

/// The spans and moments of a journal. Entries whose moment cannot be read are left out.
pub fn timeline(entries: &[JournalEntry<Change>], now: Timestamp) -> Timeline {
    let mut tracer = Tracer::default();
    entries.iter().for_each(|entry| tracer.entry(entry));
    tracer.at = tracer.at.max(now.as_microsecond());
    for place in tracer.all_open() {
        tracer.end(place, "open", None);
    }
    tracer.timeline
}

/// The lowest row that is free for each interval when it begins, from 0. An interval that ends when another begins makes
/// room for it.
pub fn slots(intervals: &[(i64, i64)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..intervals.len()).collect();
    order.sort_by_key(|place| intervals[*place].0);
    let mut slots = vec![0; intervals.len()];
    let (mut busy, mut free, mut made) = (BinaryHeap::new(), BinaryHeap::new(), 0);
    for place in order {
        let (from, to) = intervals[place];
        while let Some(Reverse((end, slot))) = busy.peek().copied()
            && end <= from
        {
            busy.pop();
            free.push(Reverse(slot));
        }
        let slot = free.pop().map_or_else(
            || {
                made += 1;
                made - 1
            },
            |Reverse(slot)| slot,
        );
        slots[place] = slot;
        busy.push(Reverse((to, slot)));
    }
    slots
}

/// What is open while the journal is read.
#[derive(Debug, Default)]
pub struct Tracer {
    timeline: Timeline,
    /// When the entry that is being read was written.
    at: i64,
    run: Option<usize>,
    iteration: Option<usize>,
    wait: Option<usize>,
    attempts: HashMap<AtomId, usize>,
    /// Attempts that ended in this entry: what follows in it may say more about how.
    ended_now: HashMap<AtomId, usize>,
}

#[cfg(feature = "serve")]
impl Tracer {
    /// All spans so far, in the order in which they began.
    pub fn spans(&self) -> &[TraceSpan] {
        &self.timeline.spans
    }

    /// The places of those that have not ended.
    pub fn open(&self) -> BTreeSet<usize> {
        let of_loop = [self.run, self.iteration, self.wait].into_iter().flatten();
        of_loop.chain(self.attempts.values().copied()).collect()
    }
}

impl Tracer {
    /// Reads one more entry. One whose moment cannot be read is left out.
    pub fn entry(&mut self, entry: &JournalEntry<Change>) {
        let Ok(at) = entry.at.parse::<Timestamp>() else { return };
        self.at = at.as_microsecond();
        self.ended_now.clear();
        for change in &entry.changes {
            self.change(change, &entry.changes);
        }
    }

    fn change(&mut self, change: &Change, step: &[Change]) {
        match change {
            Change::LoopStarted => {
                self.end_of(self.run, "taken up again", None);
                self.run = Some(self.begin(SpanRow::Runs, "run"));
            }
            Change::Completed => self.halt("completed", None),
            Change::Stopped { reason, .. } => self.halt("stopped", Some(reason)),
            Change::Parked { until, reason } => {
                self.end_of(self.wait, "parked again", None);
                let place = self.begin(SpanRow::Waiting, "waiting");
                self.wait = Some(place);
                self.note(place, "until", json!(until.as_str()));
                self.note_text(place, "reason", reason.as_deref());
            }
            Change::Unparked => {
                self.end_of(self.wait, "over", None);
                self.wait = None;
            }
            Change::IterationOpened => {
                self.end_of(self.iteration, "followed by another", None);
                self.iteration = Some(self.begin(SpanRow::Iterations, "iteration"));
            }
            Change::IterationClosed { unresolved, stall_count } => {
                if let Some(place) = self.iteration {
                    self.note(place, "unresolved", json!(unresolved));
                    self.note(place, "stall_count", json!(stall_count));
                }
                self.end_of(self.iteration, "closed", None);
                self.iteration = None;
            }
            Change::IterationTakenBack => {
                self.end_of(self.iteration, "taken back", None);
                self.iteration = None;
            }
            Change::AtomStarted { atom, attempt } => self.start(atom, *attempt),
            Change::AtomResolved { atom, binding } => {
                let Some(place) = self.end_attempt(atom, "resolved", None) else { return };
                self.note_text(place, "summary", Some(&binding.summary));
                if let Some(commit) = &binding.commit {
                    self.note_text(place, "commit", Some(commit));
                    self.moment("landed", text::plain(commit), Some(place));
                }
            }
            Change::FailureNoted { atom, reason } => self.close(atom, "failed", Some(reason)),
            Change::ChoiceFailed { choice, .. } => self.close(choice, "failed", None),
            Change::AtomReturned { atom, reason } => self.close(atom, "returned", Some(reason)),
            Change::AtomNotStarted { atom, reason } => {
                self.close(atom, "not started", Some(reason));
            }
            Change::AtomReset { atom } => self.close(atom, RESET, None),
            Change::AtomRemoved { atom } => self.close(atom, "removed", None),
            Change::Decomposed { parent, reason, .. } => {
                self.close(parent, "decomposed", Some(reason));
                self.told("decomposed", change, step);
            }
            Change::ChoiceSelected { cause, .. } => {
                if let Some(failed) = cause.as_ref().and_then(|cause| cause.failure()) {
                    self.close(failed.atom, "failed", failed.reason);
                }
                self.told("switch", change, step);
            }
            Change::Verified { .. } => self.told("evaluation", change, step),
            Change::CorrectionNoted { .. } => self.told("correction", change, step),
            Change::ReplanNoted { .. } => self.told("plan", change, step),
            Change::PlanRefused { .. } => self.told("plan refused", change, step),
            Change::StopRequested { .. } => self.told("stop requested", change, step),
            Change::RedirectRequested | Change::RedirectEnded => self.told("redirect", change, step),
            Change::ItemConfirmed { .. } | Change::ConfirmationWithdrawn { .. } => {
                self.told("confirmation", change, step);
            }
            Change::LoopNamed { .. }
            | Change::StatusRestored
            | Change::StopWithdrawn
            | Change::SessionTaken { .. }
            | Change::BranchChosen { .. }
            | Change::WorkWanted { .. }
            | Change::SpentSoFar { .. }
            | Change::ResultCounted
            | Change::StallCleared
            | Change::CountMoved { .. }
            | Change::AtomAdded { .. }
            | Change::ResultNotBelieved { .. }
            | Change::DependenciesSet { .. }
            | Change::BindingSet { .. }
            | Change::ChildAdded { .. }
            | Change::ChildRemoved { .. }
            | Change::DecompositionWithdrawn { .. }
            | Change::GroupAdded { .. }
            | Change::GroupRemoved { .. }
            | Change::ChoiceAdded { .. }
            | Change::ChoiceRemoved { .. }
            | Change::SpeculationSet { .. }
            | Change::ChoicesOrdered { .. }
            | Change::ChoiceForgiven { .. }
            | Change::GoalSet { .. }
            | Change::BaseCaseSet { .. }
            | Change::BackgroundIntentSet { .. }
            | Change::DeliverablesSet { .. }
            | Change::DefinitionOfDoneSet { .. }
            | Change::ProtectedSet { .. }
            | Change::IsolationSet { .. }
            | Change::ConstraintsSet { .. }
            | Change::TrailCleared
            | Change::TrailPruned { .. }
            | Change::UserCorrected { .. }
            | Change::FingerprintTaken { .. } => {}
        }
    }

    fn start(&mut self, atom: &AtomId, attempt: Option<u32>) {
        // The journal has a gap where the end of the one before would stand.
        if let Some(before) = self.attempts.remove(atom) {
            self.end(before, "not in the journal", None);
        }
        self.ended_now.remove(atom);
        let place = self.begin(SpanRow::Attempts, &text::plain(atom.as_str()));
        self.attempts.insert(atom.clone(), place);
        let Some(attempt) = attempt else { return };
        self.note(place, "attempt", json!(attempt));
        // Attempts are numbered by the iteration in which they start.
        if let Some(iteration) = self.iteration {
            self.timeline.spans[iteration].name = format!("iteration {attempt}");
        }
    }

    fn close(&mut self, atom: &AtomId, outcome: &str, reason: Option<&str>) {
        self.end_attempt(atom, outcome, reason);
    }

    /// Ends what runs on an atom. One that was only reset in this entry is told what else the entry says of its end.
    fn end_attempt(&mut self, atom: &AtomId, outcome: &str, reason: Option<&str>) -> Option<usize> {
        if let Some(place) = self.attempts.remove(atom) {
            self.end(place, outcome, reason);
            self.ended_now.insert(atom.clone(), place);
            return Some(place);
        }
        let place = *self.ended_now.get(atom)?;
        if self.timeline.spans[place].args["outcome"] == RESET {
            self.note(place, "outcome", json!(outcome));
        }
        if !self.timeline.spans[place].args.contains_key("reason") {
            self.note_text(place, "reason", reason);
        }
        Some(place)
    }

    /// A loop that has halted runs nothing, even if the journal does not say how each attempt ended.
    fn halt(&mut self, outcome: &str, reason: Option<&str>) {
        self.end_of(self.run, outcome, reason);
        self.run = None;
        for place in self.all_open() {
            self.end(place, "ended with the loop", None);
        }
    }

    /// Closes everything, in the order in which it began.
    fn all_open(&mut self) -> Vec<usize> {
        let of_loop = [self.run.take(), self.iteration.take(), self.wait.take()];
        let mut open: Vec<usize> = of_loop.into_iter().flatten().collect();
        open.extend(self.attempts.drain().map(|(_, place)| place));
        open.sort_unstable();
        open
    }

    fn begin(&mut self, row: SpanRow, name: &str) -> usize {
        let span = TraceSpan { row, name: name.to_owned(), from: self.at, to: self.at, args: Map::new() };
        self.timeline.spans.push(span);
        self.timeline.spans.len() - 1
    }

    fn end_of(&mut self, place: Option<usize>, outcome: &str, reason: Option<&str>) {
        if let Some(place) = place {
            self.end(place, outcome, reason);
        }
    }

    fn end(&mut self, place: usize, outcome: &str, reason: Option<&str>) {
        let span = &mut self.timeline.spans[place];
        // A clock that was set back makes no time less than nothing.
        span.to = self.at.max(span.from);
        self.note(place, "outcome", json!(outcome));
        self.note_text(place, "reason", reason);
    }

    fn note(&mut self, place: usize, key: &str, value: Value) {
        self.timeline.spans[place].args.insert(key.to_owned(), value);
    }

    fn note_text(&mut self, place: usize, key: &str, said: Option<&str>) {
        if let Some(said) = said {
            self.note(place, key, json!(plain(said)));
        }
    }

    fn told(&mut self, name: &'static str, change: &Change, step: &[Change]) {
        let told = sentence(change, step).map(|told| text::plain(&told)).unwrap_or_default();
        self.moment(name, told, None);
    }

    fn moment(&mut self, name: &'static str, told: String, span: Option<usize>) {
        self.timeline.moments.push(TraceMoment { name, at: self.at, told, span });
    }
}

/// The outcome of an attempt of which the entry says nothing more.
const RESET: &str = "reset";

/// What agents and commands say, line by line.
fn plain(said: &str) -> String {
    said.lines().map(text::plain).collect::<Vec<String>>().join("\n")
}

/// A check that ran; what was reused or passed over took no time.
fn check(line: &EvidenceLine) -> Option<TraceSpan> {
    let evidence = &line.evidence;
    match evidence.source {
        Source::Fresh => {}
        Source::Reused | Source::NotRun => return None,
    }
    let from = evidence.at.at().as_second() * 1_000_000;
    let took = i64::try_from(evidence.milliseconds).ok()?.checked_mul(1_000)?;
    let args = json!({
        "outcome": line.outcome, "type": plain(&line.kind), "ran": plain(&evidence.ran), "why": plain(&evidence.why),
        "runs": evidence.runs, "begins": "in this second",
    });
    let Value::Object(args) = args else { return None };
    Some(TraceSpan {
        row: SpanRow::Checks,
        name: text::plain(&line.item),
        from,
        to: from.checked_add(took)?,
        args,
    })
}

/// The numbers of the rows, from the top of the screen.
struct Rows {
    /// The row of each span.
    of_span: Vec<usize>,
    of_loop: usize,
    names: Vec<String>,
}

impl Rows {
    fn new(spans: &[TraceSpan]) -> Rows {
        let mut names = vec![String::new()];
        let mut of_span = vec![0; spans.len()];
        for row in [SpanRow::Runs, SpanRow::Iterations, SpanRow::Waiting, SpanRow::Attempts, SpanRow::Checks]
        {
            let places: Vec<usize> = (0..spans.len()).filter(|place| spans[*place].row == row).collect();
            let intervals: Vec<(i64, i64)> =
                places.iter().map(|at| (spans[*at].from, spans[*at].to)).collect();
            let slots = slots(&intervals);
            let first = names.len();
            for (place, slot) in places.iter().zip(&slots) {
                of_span[*place] = first + slot;
            }
            let count = slots.iter().max().map_or(usize::from(row == SpanRow::Runs), |slot| slot + 1);
            names.extend((1..=count).map(|number| match row {
                SpanRow::Attempts => format!("slot {number}"),
                SpanRow::Checks => format!("checks {number}"),
                SpanRow::Runs | SpanRow::Iterations | SpanRow::Waiting => row.word().to_owned(),
            }));
        }
        Rows { of_span, of_loop: 1, names }
    }

    fn process(&self, goal: &str) -> Value {
        let name = format!("aot: {}", text::plain(goal)).trim_end_matches([' ', ':']).to_owned();
        json!({"ph": "M", "pid": PROCESS, "name": "process_name", "args": {"name": name}})
    }

    /// The names of the rows, and that they stand in this order.
    fn names(&self) -> Vec<Value> {
        let rows = self.names.iter().enumerate().skip(1);
        rows.flat_map(|(row, name)| {
            let about = |what: &str, args: Value| json!({"ph": "M", "pid": PROCESS, "tid": row, "name": what, "args": args});
            [about("thread_name", json!({"name": name})), about("thread_sort_index", json!({"sort_index": row}))]
        })
        .collect()
    }
}

#[cfg(test)]
mod tests;
