//! A night's work as one object: what was proven and how, who did what when, what it cost, what landed. Made from a state and
//! what is kept beside it; reads no file and has no clock. Its writers are below.

mod gantt;
mod html;
mod markdown;
mod style;
mod usage;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use aot_core::rules::certificate::{self, Tried};
use aot_core::rules::{Change, gate};
use aot_core::state::{
    AgentRun, AtomId, Confirmation, Constraints, Correction, Graph, LoopStatus, Spent, Stamp, State,
    TrailEntry, headline,
};
use aot_core::verdict::{CheckTree, Evidence, Leaf, Outcome};
use aot_core::view::{Counts, DisplayStatus, ResultProof, next_steps, result_of};
use aot_runner::checks::kept::EvidenceLine;
use aot_runner::checks::quoted;
use aot_runner::store::journal::JournalEntry;
use aot_runner::tree::Delivery;
use jiff::Timestamp;
use serde::Serialize;

use super::diagram::{Detail, Diagram};
use super::run::verdict_word;
use super::trace::{SpanRow, Timeline, TraceSpan, timeline};
use super::words;
use crate::text::{self, counted};
use usage::{AgentTotal, agents, not_by_run, runs_in, times_asked};

pub use html::{MARK, html};
pub use markdown::markdown;

/// So many of a list are in a report; the rest is counted.
const MOST_ATOMS: usize = 400;
const MOST_ATTEMPTS: usize = 500;
const MOST_TOLD: usize = 200;

/// Of a text of an agent so many characters are kept.
const TEXT_KEPT: usize = 2_000;

/// What a report is made from.
#[derive(Debug)]
pub struct ReportSources<'r> {
    pub state: &'r State,
    /// What the journal has of this loop, oldest first.
    pub entries: &'r [JournalEntry<Change>],
    pub evidence: &'r [EvidenceLine],
    pub delivery: Option<Delivery>,
    /// What could not be found out, in sentences.
    pub missing: Vec<String>,
    /// The name of the project's folder.
    pub project: &'r str,
    /// Who drives the loop now.
    pub driver: Option<String>,
    pub now: Timestamp,
}

#[derive(Serialize)]
pub struct LoopReport {
    pub goal: String,
    pub project: String,
    pub definition_of_done: String,
    pub deliverables: String,
    pub made_at: Stamp,
    pub made_by: String,
    #[serde(rename = "loop")]
    pub loop_id: Option<String>,
    pub branch: Option<String>,
    pub standing: Standing,
    pub counts: Counts,
    pub iterations: u32,
    pub constraints: Constraints,
    pub protected: Vec<String>,
    pub spent: Spent,
    pub checks: Vec<ReportedCheck>,
    pub atoms: Listed<ReportedAtom>,
    pub attempts: Listed<ReportedAttempt>,
    /// How often each outcome occurred, over all attempts.
    pub outcomes: BTreeMap<String, usize>,
    pub trail: Listed<ToldMoment>,
    pub mends: Listed<AgentRun>,
    pub agents: Vec<AgentTotal>,
    /// What is not in the runs that the journal tells of.
    pub not_by_run: Spent,
    pub corrections: Vec<Correction>,
    pub confirmations: Vec<Confirmation>,
    pub delivery: Option<Delivery>,
    pub missing: Vec<String>,
    #[serde(skip)]
    diagram: Diagram,
    #[serde(skip)]
    timeline: Timeline,
    #[serde(skip)]
    now: Timestamp,
}

/// The last of a list, and how many stand before them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listed<T> {
    pub left_out: usize,
    pub listed: Vec<T>,
}

impl<T> Listed<T> {
    fn last(mut all: Vec<T>, most: usize) -> Listed<T> {
        let left_out = all.len().saturating_sub(most);
        Listed { left_out, listed: all.split_off(left_out) }
    }

    fn first(mut all: Vec<T>, most: usize) -> Listed<T> {
        let left_out = all.len().saturating_sub(most);
        all.truncate(most);
        Listed { left_out, listed: all }
    }
}

/// How the loop stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    pub status: LoopStatus,
    /// `DONE`, `STALLED`, `RUNNING`.
    pub word: String,
    pub is_proven: bool,
    pub reason: String,
    pub tried: Vec<Tried>,
    /// Commands to type next.
    pub next: Vec<String>,
}

/// A check of the base case, with the last that was seen of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReportedCheck {
    pub item: String,
    pub path: Vec<String>,
    #[serde(rename = "type")]
    pub kind: String,
    /// Nothing if it was never looked at.
    pub outcome: Option<Outcome>,
    pub evidence: Option<Evidence>,
    pub confirmed: Option<Confirmation>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReportedAtom {
    pub atom: AtomId,
    pub description: String,
    pub status: DisplayStatus,
    /// What its result rests on, where it has one.
    pub proof: Option<ResultProof>,
    pub summary: String,
    pub artifacts: Vec<String>,
    pub commit: Option<String>,
    pub attempts: usize,
    pub agent_runs: usize,
    pub seconds: f64,
    pub tokens: u64,
    pub cost_usd: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReportedAttempt {
    pub atom: String,
    pub attempt: Option<u64>,
    pub began: Stamp,
    pub seconds: f64,
    pub outcome: String,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToldMoment {
    pub at: Stamp,
    pub told: String,
}

impl LoopReport {
    pub fn of(sources: ReportSources<'_>) -> LoopReport {
        let ReportSources { state, entries, evidence, delivery, missing, project, driver, now } = sources;
        let timeline = timeline(entries, now);
        let runs: Vec<&AgentRun> =
            entries.iter().flat_map(|entry| &entry.changes).flat_map(runs_in).collect();
        let attempts: Vec<&TraceSpan> =
            timeline.spans.iter().filter(|span| span.row == SpanRow::Attempts).collect();
        let spent = state.control.spent.clone().unwrap_or_default();
        let mends: Vec<AgentRun> =
            runs.iter().filter(|run| run.mends.is_some()).map(|run| (*run).clone()).collect();
        let mut outcomes = BTreeMap::new();
        for attempt in &attempts {
            *outcomes.entry(said(attempt, "outcome")).or_insert(0) += 1;
        }
        let checks = checks(state, entries, evidence);
        let mut missing = missing;
        if state.control.status == LoopStatus::Completed && !holds(state, &checks) {
            missing.push(
                "The checks were seen to pass when the loop was completed, but that evidence is not here any more, or \
                 something else was seen since: `aot verify` looks again."
                    .to_owned(),
            );
        }
        LoopReport {
            goal: state.objective.goal.clone(),
            project: project.to_owned(),
            definition_of_done: state.objective.definition_of_done.clone(),
            deliverables: state.objective.deliverables.clone(),
            made_at: Stamp::from(now),
            made_by: format!("aot {}", env!("CARGO_PKG_VERSION")),
            loop_id: state.control.loop_id.clone(),
            branch: delivery
                .as_ref()
                .map(|delivery| delivery.branch.clone())
                .or(state.control.branch.clone()),
            standing: standing(state, driver.as_deref()),
            counts: Counts::of(state),
            iterations: state.control.iteration,
            constraints: state.constraints().clone(),
            protected: state.objective.protected.clone(),
            atoms: Listed::first(atoms(state, &attempts, &runs), MOST_ATOMS),
            attempts: Listed::last(attempts.iter().filter_map(|span| attempt(span)).collect(), MOST_ATTEMPTS),
            trail: Listed::last(state.trail.iter().map(told).collect(), MOST_TOLD),
            mends: Listed::last(mends, MOST_TOLD),
            agents: agents(&runs),
            not_by_run: not_by_run(&spent, &runs),
            corrections: state.corrections.clone(),
            confirmations: state.control.confirmed.clone(),
            // The goal stands above it already.
            diagram: Diagram { goal: String::new(), ..Diagram::of(state, Detail::Contracted) },
            checks,
            outcomes,
            spent,
            delivery,
            missing,
            timeline,
            now,
        }
    }

    /// Passed and all checks of the base case, as they were last seen.
    pub fn passed(&self) -> (usize, usize) {
        let passed = self.checks.iter().filter(|check| check.outcome == Some(Outcome::Pass));
        (passed.count(), self.checks.len())
    }

    /// The title of a pull request.
    pub fn title(&self) -> String {
        text::fit(self.goal.lines().next().unwrap_or_default().trim(), 72)
    }

    /// How the work is taken off the branch again.
    pub fn undo(&self) -> Option<String> {
        self.delivery.as_ref().map(|delivery| format!("aot undo --branch {}", quoted(&delivery.branch)))
    }

    /// The figures at the top of a report: what they count, and the figures.
    fn figures(&self) -> Vec<(&'static str, String)> {
        let (passed, all) = self.passed();
        let (resolved, wanted) = self.counts.progress();
        let mut figures = vec![
            ("checks pass", format!("{passed} of {all}")),
            ("atoms resolved", format!("{resolved} of {wanted}")),
        ];
        if self.counts.claimed > 0 {
            figures.push(("only claimed", self.counts.claimed.to_string()));
        }
        if let Some(delivery) = &self.delivery {
            figures.push(("commits", delivery.count.to_string()));
            figures.push(("lines", format!("+{} −{}", delivery.insertions, delivery.deletions)));
        }
        figures.push(("iterations", self.iterations.to_string()));
        figures.push(("time", super::clock::span(self.spent.seconds)));
        if self.spent.agent_runs > 0 {
            figures.push(("agent runs", self.spent.agent_runs.to_string()));
        }
        if self.spent.tokens > 0 {
            figures.push(("tokens", thousands(self.spent.tokens)));
        }
        if self.spent.cost_usd > 0.0 {
            figures.push(("cost", dollars(self.spent.cost_usd)));
        }
        figures
    }

    /// How many attempts there were, and how they ended.
    fn told_outcomes(&self) -> String {
        let all: usize = self.outcomes.values().sum();
        let each: Vec<String> =
            self.outcomes.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
        format!("{}: {}", counted(all as u64, "attempt"), each.join(", "))
    }
}

fn standing(state: &State, driver: Option<&str>) -> Standing {
    let control = &state.control;
    let (word, reason) = match control.status {
        LoopStatus::Completed => ("DONE", "all checks pass".to_owned()),
        LoopStatus::Stopped => {
            let reason = control.stop_reason.clone().unwrap_or_default();
            match &control.verdict {
                Some(kind) => (verdict_word(kind).1, kind.below_headline(&reason).to_owned()),
                None => ("STOPPED", reason),
            }
        }
        LoopStatus::Running => {
            let who =
                driver.map_or_else(|| "nobody drives it now".to_owned(), |who| format!("driven by {who}"));
            ("RUNNING", format!("{who}; what follows is how it stands now"))
        }
        LoopStatus::Pending => ("NOT STARTED", "no run has begun".to_owned()),
    };
    let is_proven = control.status == LoopStatus::Completed;
    let next = match control.status {
        LoopStatus::Completed => Vec::new(),
        LoopStatus::Stopped => next_steps(state),
        LoopStatus::Running if driver.is_some() => vec!["aot status".into()],
        LoopStatus::Pending if !gate::missing(state).is_empty() => vec!["aot gate".into()],
        LoopStatus::Running | LoopStatus::Pending => vec!["aot run".into()],
    };
    let mut tried = if is_proven { Vec::new() } else { certificate::tried(state) };
    tried.truncate(MOST_TOLD);
    for reason in tried.iter_mut().flat_map(|tried| &mut tried.reasons) {
        *reason = kept(reason);
    }
    Standing { status: control.status, word: word.to_owned(), is_proven, reason, tried, next }
}

/// The newest word on each check of the base case. What was seen before work was taken back does not count.
fn checks(state: &State, entries: &[JournalEntry<Change>], evidence: &[EvidenceLine]) -> Vec<ReportedCheck> {
    let Some(base_case) = &state.objective.base_case else { return Vec::new() };
    let taken_back = last_reset(entries);
    let is_about = |line: &EvidenceLine, leaf: &Leaf| {
        line.item == leaf.name
            && line.kind == leaf.check.kind().word()
            && leaf.runs().is_none_or(|runs| runs == line.evidence.ran)
            && taken_back.is_none_or(|at| line.evidence.at.at() > at)
    };
    let one = |leaf: Leaf| {
        let seen = evidence.iter().rev().find(|line| is_about(line, &leaf));
        let confirmed = state.control.confirmed.iter().find(|entry| entry.item == leaf.name);
        let outcome = match confirmed {
            Some(entry) => Some(if entry.holds() { Outcome::Pass } else { Outcome::Fail }),
            None => seen.map(|line| line.outcome),
        };
        ReportedCheck {
            kind: leaf.check.kind().word().to_owned(),
            outcome,
            evidence: seen.map(|line| line.evidence.clone()),
            confirmed: confirmed.cloned(),
            item: leaf.name,
            path: leaf.path,
        }
    };
    CheckTree::of(base_case).leaves.into_iter().map(one).collect()
}

/// Whether what is known of the checks makes the base case hold.
fn holds(state: &State, checks: &[ReportedCheck]) -> bool {
    let Some(base_case) = &state.objective.base_case else { return false };
    let seen = |place: usize| checks.get(place).and_then(|check| check.outcome);
    CheckTree::of(base_case).fold(seen) == Outcome::Pass
}

/// When results were last taken back, as far as the journal tells.
pub fn last_reset(entries: &[JournalEntry<Change>]) -> Option<Timestamp> {
    let resets = |entry: &&JournalEntry<Change>| {
        entry.changes.iter().any(|change| matches!(change, Change::CorrectionNoted { .. }))
            && entry.changes.iter().any(|change| matches!(change, Change::AtomReset { .. }))
    };
    entries.iter().rev().find(resets)?.at.parse().ok()
}

fn atoms(state: &State, attempts: &[&TraceSpan], runs: &[&AgentRun]) -> Vec<ReportedAtom> {
    let graph = Graph::new(state);
    let mut tries: HashMap<&str, (usize, u64)> = HashMap::new();
    for span in attempts {
        let (count, micros) = tries.entry(&span.name).or_default();
        *count += 1;
        *micros += u64::try_from(span.to - span.from).unwrap_or(0);
    }
    let mut used: HashMap<&AtomId, (usize, u64, f64)> = HashMap::new();
    for run in runs {
        let Some(atom) = &run.atom else { continue };
        let (count, tokens, cost) = used.entry(atom).or_default();
        *count += times_asked(run);
        *tokens += run.tokens;
        *cost += run.cost_usd.unwrap_or(0.0);
    }
    let one = |(index, atom): (usize, &Arc<aot_core::state::Atom>)| {
        let status = DisplayStatus::of(&graph, state, index);
        let binding = state.bindings.get(&atom.id);
        let (attempts, micros) = tries.get(atom.id.as_str()).copied().unwrap_or_default();
        let (agent_runs, tokens, cost_usd) = used.get(&atom.id).copied().unwrap_or_default();
        ReportedAtom {
            atom: atom.id.clone(),
            description: kept(&atom.description),
            status,
            proof: match status {
                DisplayStatus::Resolved => Some(ResultProof::Proven),
                DisplayStatus::Claimed => Some(ResultProof::Claimed),
                DisplayStatus::Running
                | DisplayStatus::Ready
                | DisplayStatus::Pending
                | DisplayStatus::Dormant
                | DisplayStatus::Failed => None,
            },
            summary: binding.map(|_| kept(&result_of(&graph, state, index))).unwrap_or_default(),
            artifacts: binding.map(|binding| binding.artifacts.clone()).unwrap_or_default(),
            commit: binding.and_then(|binding| binding.commit.clone()),
            attempts,
            agent_runs,
            seconds: micros as f64 / 1e6,
            tokens,
            cost_usd,
        }
    };
    state.atoms.values().enumerate().map(one).collect()
}

fn said(span: &TraceSpan, key: &str) -> String {
    span.args.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
}

fn attempt(span: &TraceSpan) -> Option<ReportedAttempt> {
    let began = Timestamp::from_microsecond(span.from).ok()?;
    let outcome = said(span, "outcome");
    let reason = if outcome == "resolved" { said(span, "summary") } else { said(span, "reason") };
    Some(ReportedAttempt {
        atom: span.name.clone(),
        attempt: span.args.get("attempt").and_then(|number| number.as_u64()),
        began: Stamp::from(began),
        seconds: (span.to - span.from) as f64 / 1e6,
        outcome,
        reason: kept(&reason),
    })
}

fn told(entry: &TrailEntry) -> ToldMoment {
    let (at, told) = match entry {
        TrailEntry::Selection { or_group, selected, reason, timestamp, .. } => {
            (timestamp, words::with(&format!("{or_group} switches to {selected}"), Some(headline(reason))))
        }
        TrailEntry::Failure { atom, reason, timestamp } => {
            (timestamp, words::with(&format!("{atom} failed"), Some(headline(reason))))
        }
        TrailEntry::Replan { atom, reason, timestamp } => {
            (timestamp, words::with(&format!("{atom} has another plan"), Some(headline(reason))))
        }
        TrailEntry::UserCorrection { description, timestamp } => {
            (timestamp, words::with("a person changed something", Some(description)))
        }
    };
    ToldMoment { at: at.clone(), told: kept(&told) }
}

fn kept(said: &str) -> String {
    match said.char_indices().nth(TEXT_KEPT) {
        None => said.to_owned(),
        Some((end, _)) => format!("{}…", &said[..end]),
    }
}

/// `1 234 567`, as all countries read it.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

fn dollars(cost: f64) -> String {
    if cost >= 0.1 || cost == 0.0 { format!("{cost:.2} USD") } else { format!("{cost:.4} USD") }
}

/// How long something took.
fn took(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.1}s") } else { super::clock::span(seconds.round() as u64) }
}

/// The word of an outcome, for a check that may not have been looked at.
fn outcome_word(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Pass) => "pass",
        Some(Outcome::Fail) => "fail",
        Some(Outcome::Error) => "error",
        Some(Outcome::Pending) => "waits",
        None => "not seen",
    }
}

/// How a check ended: its exit, a signal, or a time limit.
fn ending(evidence: &Evidence) -> String {
    match (evidence.exit, evidence.signal, evidence.out_of_time) {
        (_, _, true) => "out of time".to_owned(),
        (Some(code), ..) => format!("exit {code}"),
        (None, Some(signal), _) => format!("signal {signal}"),
        (None, None, false) => String::new(),
    }
}

#[cfg(test)]
mod tests;
