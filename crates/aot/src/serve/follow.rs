//! Follows one loop by its files: what the page shows of it now, and what has changed since. Writes nothing, and reads only
//! while somebody looks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};

use aot_core::rules::{Change, Refusal};
use aot_core::state::{AtomId, Check, State};
use aot_core::verdict::CheckTree;
use aot_core::view::View;
use aot_runner::agents::transcripts_of;
use aot_runner::checks::kept::{EvidenceLine, Kept};
use aot_runner::driver;
use aot_runner::live::{ChangePoll, LiveNow, LiveReader};
use aot_runner::store::Store;
use aot_runner::store::journal::JournalEntry;
use aot_runner::tree::Project;
use serde_json::{Value, json};

use super::model::{self, Parts, SpanEnd};
use crate::commands::{base_case, estimated, newest_entries, project};
use crate::failure::Failure;
use crate::place;
use crate::screens::clock;
use crate::screens::diagram::{Detail, Diagram};
use crate::screens::log::beginning;
use crate::screens::trace::{SpanRow, Tracer};

/// So many of the newest entries of a journal are read when a page is opened.
const ENTRIES: usize = 4_000;
/// So many bars of the timeline are shown, the newest.
const BARS: usize = 2_000;
/// So many lines of the log.
const LINES: usize = 200;
/// So many attempts, transcripts and pieces of evidence of one atom.
const ATTEMPTS: usize = 20;
const TRANSCRIPTS: usize = 5;
const EVIDENCE: usize = 24;
/// So many bytes of a transcript or a reason, from its end.
const TEXT: usize = 48 << 10;

/// What no file tells, and what costs more, is looked at this often.
const SLOW: Duration = Duration::from_millis(400);

/// One loop as it was seen last.
#[derive(Debug)]
pub struct Follower {
    store: Store,
    project: Project,
    poll: ChangePoll,
    record: LiveReader,
    live: LiveNow,
    /// When what is slow was looked at, and whether something has changed since.
    slow_since: Option<Instant>,
    is_stale: bool,
    seen: ToldSoFar,
}

/// What was told already.
#[derive(Debug, Default)]
struct ToldSoFar {
    head: Value,
    /// How long the rest may take, in words.
    estimate: Option<String>,
    checks: Value,
    driver: Option<String>,
    view: Option<View>,
    diagram: Option<Diagram>,
    graph: Value,
    revision: u64,
    tracer: Tracer,
    open: BTreeSet<usize>,
    log: VecDeque<Value>,
    doing: BTreeMap<String, Value>,
    hosts: Value,
}

impl Follower {
    pub fn open(state: &Path) -> Result<Follower, Failure> {
        let store = Store::open(state, &place::build_mark())?;
        let project = project(state)?;
        let (poll, record) = (ChangePoll::of(store.file().home()), LiveReader::of(&project.sidecar));
        let (live, seen) = (LiveNow::default(), ToldSoFar::default());
        Ok(Follower { store, project, poll, record, live, slow_since: None, is_stale: true, seen })
    }

    /// What has changed since it was asked last; nothing of it is told again.
    pub fn changes(&mut self) -> Parts {
        let mut parts = Parts::new();
        let now = Instant::now();
        if self.poll.has_changed() {
            self.is_stale = true;
            self.look(&mut parts);
            self.read_journal(&mut parts);
            self.tell_doing(&mut parts);
        }
        if self.slow_since.is_none_or(|since| now.duration_since(since) > SLOW) {
            self.slow_since = Some(now);
            self.look_slowly(&mut parts);
        }
        parts.into_iter().map(|(name, part)| (name, model::plain(part))).collect()
    }

    /// Everything that is shown, for whoever begins to look.
    pub fn whole(&self) -> Parts {
        let seen = &self.seen;
        let mut parts = match &seen.diagram {
            Some(diagram) => model::statuses(diagram, None),
            None => Parts::new(),
        };
        parts.insert("graph".into(), seen.graph.clone());
        parts.insert("head".into(), seen.head.clone());
        parts.insert("checks".into(), seen.checks.clone());
        parts.insert("timeline".into(), self.timeline());
        parts.insert("log".into(), seen.log.iter().cloned().collect());
        parts.insert("doing".into(), json!(seen.doing));
        parts.insert("hosts".into(), seen.hosts.clone());
        parts.into_iter().map(|(name, part)| (name, model::plain(part))).collect()
    }

    /// The state: its head, its graph, and the statuses.
    fn look(&mut self, parts: &mut Parts) {
        let read = self.store.load::<Refusal>();
        let (head, diagram, view) = match read {
            Ok((_, state)) => {
                let view = View::of(state);
                let mut head = model::head(state, &view, self.seen.driver.as_deref());
                head["estimate"] = json!(self.seen.estimate);
                (head, Some(Diagram::of(state, Detail::Whole)), Some(view))
            }
            Err(error) => {
                // The page keeps what it had, and says what is wrong.
                let mut head = self.seen.head.clone();
                if head.is_null() {
                    head = json!({"goal": "", "status": "unreadable"});
                }
                head["problem"] = json!(Failure::from(error).message());
                (head, None, None)
            }
        };
        if head != self.seen.head {
            parts.insert("head".into(), head.clone());
            self.seen.head = head;
        }
        self.seen.view = view.or(self.seen.view.take());
        let Some(diagram) = diagram else { return };
        let before = self.seen.diagram.as_ref().filter(|before| model::same_structure(before, &diagram));
        if before.is_none() {
            self.seen.graph = model::graph(&diagram);
            parts.insert("graph".into(), self.seen.graph.clone());
        }
        parts.extend(model::statuses(&diagram, before));
        self.seen.diagram = Some(diagram);
    }

    /// The checks, and who drives the loop.
    fn look_slowly(&mut self, parts: &mut Parts) {
        let driver = driver::holder(self.store.file().home());
        if driver != self.seen.driver {
            self.seen.driver = driver;
            self.seen.head["driver"] = json!(self.seen.driver);
            parts.insert("head".into(), self.seen.head.clone());
            self.tell_doing(parts);
        }
        let Some(view) = self.seen.view.as_ref().filter(|_| self.is_stale) else { return };
        let entries = newest_entries(&self.store);
        let checks = model::checks(view, &base_case(&entries, view, &self.project));
        self.is_stale = false;
        // What cannot be read is told with the state.
        let estimate = estimated(&mut self.store, view, &entries).ok().flatten();
        let estimate = estimate.as_ref().map(clock::estimate);
        if estimate != self.seen.estimate {
            self.seen.estimate = estimate;
            self.seen.head["estimate"] = json!(self.seen.estimate);
            parts.insert("head".into(), self.seen.head.clone());
        }
        if checks != self.seen.checks {
            parts.insert("checks".into(), checks.clone());
            self.seen.checks = checks;
        }
    }

    /// What runs, by its atom. What a driver that died did last goes on no more.
    fn tell_doing(&mut self, parts: &mut Parts) {
        if self.seen.driver.is_some() {
            self.record.update(&mut self.live);
        }
        let jobs = self.live.jobs.iter().filter(|_| self.seen.driver.is_some());
        let mut now: BTreeMap<String, Value> =
            jobs.map(|job| (job.atom.clone().unwrap_or_else(|| job.task.clone()), json!(job))).collect();
        if self.live.verifying && self.seen.driver.is_some() {
            now.insert(String::new(), json!({"task": "verify", "checks": self.live.checks}));
        }
        let changed = model::doing(&self.seen.doing, &now);
        if !changed.is_empty() {
            parts.insert("doing".into(), Value::Object(changed));
            self.seen.doing = now;
        }
        let hosts = json!(self.live.hosts.as_ref().filter(|_| self.seen.driver.is_some()));
        if hosts != self.seen.hosts {
            parts.insert("hosts".into(), hosts.clone());
            self.seen.hosts = hosts;
        }
    }

    /// The timeline and the log.
    fn read_journal(&mut self, parts: &mut Parts) {
        let journal = self.store.journal();
        let newest = journal.newest::<Change>(1).unwrap_or_default();
        let Some(newest) = newest.last() else { return };
        if newest.revision == self.seen.revision {
            return;
        }
        let mut entries: Vec<JournalEntry<Change>> = match self.seen.revision {
            0 => journal.newest(ENTRIES).unwrap_or_default(),
            // An older state was restored, or another loop begun.
            revision if newest.revision < revision => journal.newest(ENTRIES).unwrap_or_default(),
            revision => journal.since(revision).map(|since| since.entries).unwrap_or_default(),
        };
        let begins = beginning(&entries);
        let anew = begins.is_some() || self.seen.revision == 0 || newest.revision < self.seen.revision;
        self.seen.revision = newest.revision;
        if anew {
            entries.drain(..begins.unwrap_or(0));
            self.seen.tracer = Tracer::default();
            self.seen.open.clear();
            self.seen.log.clear();
        }
        let first_new = self.seen.tracer.spans().len();
        let mut told = Vec::new();
        for entry in &entries {
            self.seen.tracer.entry(entry);
            told.extend(model::told(entry));
        }
        let skipped = told.len().saturating_sub(LINES);
        told.drain(..skipped);
        self.seen.log.extend(told.iter().cloned());
        while self.seen.log.len() > LINES {
            self.seen.log.pop_front();
        }
        let open = self.seen.tracer.open();
        if anew {
            self.seen.open = open;
            parts.insert("timeline".into(), self.timeline());
            parts.insert("log".into(), self.seen.log.iter().cloned().collect());
            return;
        }
        let count = self.seen.tracer.spans().len();
        let changed = self.seen.open.iter().copied().filter(|at| *at < first_new).chain(first_new..count);
        let spans: Vec<Value> = changed
            .filter(|at| *at >= first_new || !open.contains(at))
            .map(|at| json!([at, self.bar(at, &open)]))
            .collect();
        self.seen.open = open;
        if !spans.is_empty() {
            parts.insert("spans".into(), Value::Array(spans));
        }
        if !told.is_empty() {
            parts.insert("told".into(), Value::Array(told));
        }
    }

    fn bar(&self, at: usize, open: &BTreeSet<usize>) -> Value {
        let end = if open.contains(&at) { SpanEnd::Open } else { SpanEnd::Ended };
        model::span(&self.seen.tracer.spans()[at], end)
    }

    fn timeline(&self) -> Value {
        let count = self.seen.tracer.spans().len();
        let first = count.saturating_sub(BARS);
        let bars: Vec<Value> = (first..count).map(|at| self.bar(at, &self.seen.open)).collect();
        json!({"first": first, "bars": bars})
    }

    /// What is known of one atom; nothing if the loop has no such atom.
    pub fn about(&mut self, atom: &str) -> Option<Value> {
        let id = AtomId::new(atom);
        let about = {
            let (_, state) = self.store.load::<Refusal>().ok()?;
            about(state, &id)?
        };
        let mut about = about;
        let of_atom = format!("{atom}: ");
        let evidence = self.evidence(|line| line.item.starts_with(&of_atom));
        about["evidence"] = evidence;
        about["attempts"] = self.attempts(atom);
        about["transcripts"] = self.transcripts(atom);
        Some(model::plain(about))
    }

    /// The newest evidence of the base case.
    pub fn base_case(&self) -> Value {
        let view = self.seen.view.as_ref();
        let items: BTreeSet<&str> =
            view.iter().flat_map(|view| view.base_case.iter().map(|check| check.item.as_str())).collect();
        model::plain(self.evidence(|line| items.contains(line.item.as_str())))
    }

    fn evidence(&self, is_wanted: impl Fn(&EvidenceLine) -> bool) -> Value {
        let mut lines = Kept::of(&self.project).recent();
        lines.retain(is_wanted);
        let newest = lines.iter().rev().take(EVIDENCE);
        newest.map(|line| json!({"item": line.item, "type": line.kind, "outcome": line.outcome, "evidence": line.evidence})).collect()
    }

    fn attempts(&self, atom: &str) -> Value {
        let spans = self.seen.tracer.spans().iter().enumerate().rev();
        let of_atom = spans.filter(|(_, span)| span.row == SpanRow::Attempts && span.name == atom);
        let attempts = of_atom.take(ATTEMPTS).map(|(at, span)| {
            let mut said = json!(span.args);
            said["from"] = json!(span.from / 1000);
            said["to"] = json!((!self.seen.open.contains(&at)).then_some(span.to / 1000));
            if let Some(reason) = span.args.get("reason").and_then(Value::as_str) {
                said["reason"] = json!(end_of(reason));
            }
            said
        });
        attempts.collect()
    }

    fn transcripts(&self, atom: &str) -> Value {
        let all = transcripts_of(&self.project.sidecar, atom);
        let newest = all.iter().rev().take(TRANSCRIPTS);
        newest
            .map(|one| json!({"title": one.title, "at": one.at.to_string(), "run": end_of(&one.run)}))
            .collect()
    }
}

/// What the state says of an atom.
fn about(state: &State, id: &AtomId) -> Option<Value> {
    let atom = state.atoms.get(id)?;
    let leaves = atom.check.iter().flat_map(|check| CheckTree::of(check).leaves);
    let assertions = leaves.filter(|leaf| matches!(leaf.check, Check::Assertion { .. }));
    let needed_by = state.atoms.values().filter(|other| other.depends_on.contains(id)).map(|other| &other.id);
    Some(json!({
        "atom": atom,
        "assertions": assertions.map(|leaf| format!("{id}: {}", leaf.name)).collect::<Vec<_>>(),
        "binding": state.bindings.get(id),
        "children": state.decomposition_of(id).map(|entry| &entry.children),
        "needed_by": needed_by.collect::<Vec<_>>(),
    }))
}

/// The end of a text, where it says what came of it.
fn end_of(text: &str) -> &str {
    let from = text.len().saturating_sub(TEXT);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    &text[from..]
}
