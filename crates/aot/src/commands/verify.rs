//! `aot verify`: runs the base case and shows the evidence.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use aot_core::state::Check;
use aot_core::verdict::{CheckNode, Evidence, Jobs, Leaf, Outcome, Source, Verdict};
use aot_runner::checks::{Evaluation, Occasion, Progress, Whose, quoted};
use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::workspace::Workspace;
use super::{Invocation, Verb};
use crate::failure::{Failure, FailureKind};
use crate::print::{Answer, OutputFormat};
use crate::screens::ink::{Ink, Paint};
use crate::terminal;
use crate::text;

/// Of an output so many lines are shown.
const LINES_SHOWN: usize = 6;

/// How often the line that says what runs is drawn anew.
const TICK: Duration = Duration::from_millis(250);

/// How many checks run at a time, unless the user says otherwise.
const JOBS: NonZeroUsize = NonZeroUsize::new(8).expect("it is not zero");

/// Run the checks and show the evidence
///
/// If `aot run --branch` lands the work on a branch of its own, that branch is looked at, in a worktree of it.
///
/// Exits with 0 if it passed, 1 if it failed, 17 if a person is needed (something to confirm, a check that cannot
/// run), 16 if the base case or a protected file was changed.
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct VerifyArgs {
    /// Run everything, also what passed on this very tree before
    #[arg(long)]
    #[serde(default)]
    fresh: bool,
    /// Ask no judge: `quality` stays pending
    #[arg(long)]
    #[serde(default)]
    no_judge: bool,
    /// How many checks run at a time; 1 is strictly one after the other
    #[arg(long, value_name = "N", default_value_t = JOBS)]
    #[serde(skip, default = "jobs")]
    jobs: NonZeroUsize,
    /// Show all that each check printed, as far as it was kept
    #[arg(short, long)]
    #[serde(skip)]
    verbose: bool,
}

/// How much is shown of what checks printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputShown {
    /// Of those that did not pass, the last lines.
    Ending,
    /// Of all of them, whatever was kept.
    Whole,
}

fn jobs() -> NonZeroUsize {
    JOBS
}

impl Verb for VerifyArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let mut store = invocation.store()?;
        let workspace = Workspace::open(&invocation.path()?, Jobs(self.jobs))?;
        let (_, state) = store.load()?;
        let base_case = match &state.objective.base_case {
            None => return Err(no_base_case("there are no checks, so nothing can be proven")),
            Some(checks) if checks.has_empty_set() => {
                return Err(no_base_case("the checks have an empty list in them, which proves nothing"));
            }
            Some(checks) => checks,
        };
        let judge = if self.no_judge { None } else { workspace.judge(state, base_case)? };
        let look = workspace.look(state)?.with_judge(judge.as_deref());
        look.untampered(state)?;
        let occasion = if self.fresh { Occasion::LookAfresh } else { Occasion::Look };
        let seen =
            watched(invocation.format, |on| look.evaluate(state, base_case, Whose::BaseCase, occasion, on))?;
        let exit = match seen.verdict {
            Verdict::Passed => 0,
            Verdict::Failed => 1,
            Verdict::Error | Verdict::Pending => 17,
        };
        let shown = if self.verbose { OutputShown::Whole } else { OutputShown::Ending };
        let text = || {
            let branch = look.branch().map(|branch| format!("on branch {branch}\n\n")).unwrap_or_default();
            format!("{branch}{}", table(&seen, shown, terminal::Stream::Out))
        };
        let with_branch = || {
            let mut object = object(&seen);
            object["branch"] = json!(look.branch());
            object
        };
        Ok(Answer::lazy(invocation.format, text, with_branch).with_exit(exit))
    }
}

fn no_base_case(problem: &str) -> Failure {
    Failure::new(FailureKind::NotReady, "no_base_case", problem)
        .with_hint("write `objective.base_case`: a `checklist` with at least one item")
}

/// Runs checks while a line on the terminal says what runs.
pub fn watched<T>(format: OutputFormat, run: impl FnOnce(&mut dyn FnMut(Progress<'_>)) -> T) -> T {
    if format == OutputFormat::Json || !terminal::draws_live() {
        return run(&mut |_| ());
    }
    let (sender, receiver) = mpsc::channel::<(usize, Option<String>)>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut running: BTreeMap<usize, String> = BTreeMap::new();
            let (began, mut done) = (Instant::now(), 0);
            loop {
                match receiver.recv_timeout(TICK) {
                    Ok((place, Some(name))) => {
                        running.insert(place, name);
                    }
                    Ok((place, None)) => {
                        running.remove(&place);
                        done += 1;
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                let names: Vec<&str> = running.values().map(String::as_str).collect();
                let line =
                    format!("{} s, {done} done, running: {}", began.elapsed().as_secs(), names.join(", "));
                terminal::live(&[text::fit(&line, terminal::live_columns())]);
            }
            terminal::live(&[]);
        });
        run(&mut move |progress| {
            let word = match progress {
                Progress::Started { place, leaf, again: false } => (place, Some(leaf.name.clone())),
                Progress::Started { place, leaf, again: true } => {
                    (place, Some(format!("{} (again, alone)", leaf.name)))
                }
                Progress::Ended { place, .. } => (place, None),
            };
            let _ = sender.send(word);
        })
    })
}

/// All of it, under the contract's names.
pub fn object(seen: &Evaluation) -> Value {
    let checks: Vec<Value> = seen
        .sheet
        .leaves
        .iter()
        .zip(&seen.seen)
        .map(|(leaf, (outcome, evidence))| {
            json!({
                "item": leaf.name,
                "path": leaf.path,
                "type": leaf.check.kind(),
                "outcome": outcome,
                "evidence": evidence,
            })
        })
        .collect();
    let waits: Vec<&str> = seen.waits_for_person().into_iter().map(|leaf| leaf.name.as_str()).collect();
    json!({
        "passed": seen.verdict == Verdict::Passed,
        "verdict": seen.verdict,
        "tree": seen.tree,
        "milliseconds": seen.took.as_millis() as u64,
        "checks": checks,
        "items": nested(seen, &seen.sheet.root),
        "to_confirm": waits,
        "changed": seen.changed,
    })
}

fn nested(seen: &Evaluation, node: &CheckNode) -> Value {
    let inner = |nodes: &[CheckNode]| nodes.iter().map(|node| nested(seen, node)).collect::<Vec<Value>>();
    match node {
        CheckNode::Leaf(place) => json!({
            "item": seen.sheet.leaves[*place].name,
            "check": place,
            "outcome": seen.seen[*place].0,
        }),
        CheckNode::All { item, inner: nodes } => {
            json!({"item": item, "outcome": seen.fold(node), "group": inner(nodes)})
        }
        CheckNode::Any { item, inner: nodes } => {
            json!({"item": item, "outcome": seen.fold(node), "any_of": inner(nodes)})
        }
    }
}

/// What passed, what not, and why.
pub fn table(seen: &Evaluation, shown: OutputShown, stream: terminal::Stream) -> String {
    let mut table = Table { seen, shown, text: String::new(), ink: Ink::of(stream), counts: [0; 4] };
    match &seen.sheet.root {
        CheckNode::Leaf(place) => table.leaf(*place, 0, Weight::Counts),
        CheckNode::All { inner, .. } | CheckNode::Any { inner, .. } => {
            inner.iter().for_each(|node| table.node(node, 0, Weight::Counts));
        }
    }
    table.closing();
    table.text.trim_end().to_owned()
}

struct Table<'t> {
    seen: &'t Evaluation,
    shown: OutputShown,
    text: String,
    ink: Ink,
    /// Of those that count: passed, failed, could not be run, waiting.
    counts: [usize; 4],
}

/// Whether it matters how a check ended: where another alternative passed, it does not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    Counts,
    None,
}

impl Table<'_> {
    fn node(&mut self, node: &CheckNode, depth: usize, weight: Weight) {
        let (item, inner, words) = match node {
            CheckNode::Leaf(place) => return self.leaf(*place, depth, weight),
            CheckNode::All { item, inner } => (item, inner, "all of"),
            CheckNode::Any { item, inner } => (item, inner, "one of"),
        };
        let outcome = self.seen.fold(node);
        let (mark, paint) = mark(outcome, weight);
        self.row(mark, paint, depth, item, words);
        let decided = matches!(node, CheckNode::Any { .. }) && outcome == Outcome::Pass;
        let weight = if decided { Weight::None } else { weight };
        inner.iter().for_each(|node| self.node(node, depth + 1, weight));
    }

    fn leaf(&mut self, place: usize, depth: usize, weight: Weight) {
        let leaf = &self.seen.sheet.leaves[place];
        let (outcome, evidence) = &self.seen.seen[place];
        let skipped = evidence.source == Source::NotRun
            && (!matches!(leaf.check, Check::Assertion { .. }) || weight == Weight::None);
        let name = leaf.path.last().map_or(leaf.name.as_str(), String::as_str);
        if skipped && *outcome == Outcome::Pending {
            self.row("skip", Paint::Dim, depth, name, "");
            let why =
                if weight == Weight::None { "not needed: another alternative passed" } else { &evidence.why };
            return self.detail(depth, Paint::Dim, why);
        }
        if weight == Weight::Counts || *outcome == Outcome::Pass {
            self.counts[*outcome as usize] += 1;
        }
        let (mark, paint) = mark(*outcome, weight);
        let aside = match evidence.source {
            Source::Fresh if matches!(leaf.check, Check::File { .. } | Check::NotFile { .. }) => {
                String::new()
            }
            Source::Fresh => seconds(evidence.milliseconds),
            Source::Reused => "seen before".to_owned(),
            Source::NotRun => String::new(),
        };
        self.row(mark, paint, depth, name, &aside);
        match (outcome, weight) {
            (Outcome::Pass, _) => self.of_pass(depth, evidence),
            (_, Weight::None) => self.detail(depth, Paint::Dim, &evidence.why),
            (_, Weight::Counts) => self.explain(depth, leaf, *outcome, evidence),
        }
    }

    /// Of a pass only what a person would not expect.
    fn of_pass(&mut self, depth: usize, evidence: &Evidence) {
        if evidence.judged.is_some() || evidence.source == Source::NotRun {
            self.detail(depth, Paint::Dim, &evidence.why);
        }
        if self.shown == OutputShown::Whole {
            self.whole_output(depth, evidence);
        }
        self.left_running(depth, evidence);
    }

    /// All that was kept of what a check printed, each line as long as it is.
    fn whole_output(&mut self, depth: usize, evidence: &Evidence) {
        let Some(output) = &evidence.output else { return };
        let left_out = format!("… {} bytes left out", output.omitted);
        let left_out = (output.omitted > 0).then_some(left_out.as_str());
        let indent = 11 + 2 * depth.min(10);
        for line in output.head.lines().chain(left_out).chain(output.tail.lines()) {
            let line = self.ink.paint(Paint::Dim, &format!("| {}", text::fit(line, usize::MAX)));
            self.line(format!("{:indent$}{line}", "").trim_end());
        }
    }

    fn left_running(&mut self, depth: usize, evidence: &Evidence) {
        match evidence.left_running {
            0 => {}
            1 => self.detail(depth, Paint::Dim, "it left a process running, which was killed"),
            many => self.detail(
                depth,
                Paint::Dim,
                &format!("it left {many} processes running, which were killed"),
            ),
        }
    }

    fn explain(&mut self, depth: usize, leaf: &Leaf, outcome: Outcome, evidence: &Evidence) {
        let again = match leaf.check {
            Check::Command { .. } if evidence.runs > 1 && outcome == Outcome::Fail => {
                ", also when run again alone"
            }
            _ => "",
        };
        self.detail(depth, Paint::Bold, &format!("{}{again}", evidence.why));
        match &leaf.check {
            Check::Command { value } | Check::NotCommand { value } => {
                self.detail(depth, Paint::Dim, &format!("$ {value}"));
            }
            Check::Assertion { value } if *value != leaf.name => {
                self.detail(depth, Paint::Dim, &format!("\"{value}\""));
            }
            Check::File { .. } | Check::NotFile { .. } | Check::Assertion { .. } | Check::Quality(_) => {}
        }
        for score in evidence.judged.iter().flat_map(|judged| &judged.scores) {
            self.detail(
                depth,
                Paint::Dim,
                &format!("{} of 5  {}: {}", score.score, score.criterion, score.reason),
            );
        }
        if self.shown == OutputShown::Whole {
            self.whole_output(depth, evidence);
        } else if let Some(output) = &evidence.output {
            let lines = output.last_lines(LINES_SHOWN);
            let shown: usize = lines.iter().map(|line| line.len() + 1).sum();
            if (shown as u64) < output.bytes && !lines.is_empty() {
                self.detail(depth, Paint::Dim, &format!("| … the last lines of {} bytes", output.bytes));
            }
            for line in lines {
                self.detail(depth, Paint::Dim, &format!("| {line}"));
            }
        }
        self.left_running(depth, evidence);
        if !evidence.hint.is_empty() && evidence.judged.is_none() {
            self.detail(depth, Paint::Yellow, &format!("hint: {}", evidence.hint));
        }
    }

    fn row(&mut self, mark: &str, paint: Paint, depth: usize, item: &str, aside: &str) {
        let indent = 2 * depth.min(10);
        let room =
            terminal::page_columns() - 9 - indent - if aside.is_empty() { 0 } else { text::width(aside) + 2 };
        let item = text::fit(item, room);
        let gap = room - text::width(&item);
        let (mark, aside) = (self.ink.paint(paint, &format!("{mark:<7}")), self.ink.paint(Paint::Dim, aside));
        let line = format!("{mark}  {:indent$}{item}{:gap$}  {aside}", "", "");
        self.line(line.trim_end());
    }

    fn detail(&mut self, depth: usize, paint: Paint, text: &str) {
        let indent = 11 + 2 * depth.min(10);
        let flat = text::plain(text);
        // What others printed keeps its lines; what we say is read whole.
        let parts = match flat.starts_with("| ") || flat.starts_with("$ ") {
            true => vec![text::fit(&flat, terminal::page_columns() - indent)],
            false => text::wrapped(&flat, terminal::page_columns() - indent),
        };
        for part in parts {
            let part = self.ink.paint(paint, &part);
            self.line(&format!("{:indent$}{part}", ""));
        }
    }

    fn closing(&mut self) {
        let seen = self.seen;
        let (paint, word) = match seen.verdict {
            Verdict::Passed => (Paint::Green, "PASSED"),
            Verdict::Failed => (Paint::Red, "FAILED"),
            Verdict::Error => (Paint::Yellow, "INCONCLUSIVE"),
            Verdict::Pending => (Paint::Yellow, "WAITS"),
        };
        let words = ["passed", "failed", "could not be run", "waiting"];
        let parts = self.counts.iter().zip(words).filter(|(count, _)| **count > 0);
        let parts: Vec<String> = parts.map(|(count, word)| format!("{count} {word}")).collect();
        self.line("");
        let word = self.ink.paint(paint, word);
        self.line(&format!("{word}  {} in {}", parts.join(", "), seconds(seen.took.as_millis() as u64)));
        if !seen.changed.is_empty() {
            let named: Vec<&str> = seen.changed.iter().take(5).map(String::as_str).collect();
            let more = if seen.changed.len() > 5 { ", …" } else { "" };
            self.line(&text::fit(
                &format!("The checks changed files: {}{more}", named.join(", ")),
                terminal::page_columns(),
            ));
        }
        for leaf in seen.waits_for_person() {
            if seen.verdict == Verdict::Pending {
                self.line(&format!("Next: aot confirm {}", quoted(&leaf.name)));
            }
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

fn mark(outcome: Outcome, weight: Weight) -> (&'static str, Paint) {
    match (outcome, weight) {
        (Outcome::Pass, _) => ("pass", Paint::Green),
        (_, Weight::None) => ("no", Paint::Dim),
        (Outcome::Fail, Weight::Counts) => ("FAIL", Paint::Red),
        (Outcome::Error, Weight::Counts) => ("ERROR", Paint::Yellow),
        (Outcome::Pending, Weight::Counts) => ("waits", Paint::Yellow),
    }
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{} s", milliseconds / 1_000, milliseconds % 1_000 / 100)
}
