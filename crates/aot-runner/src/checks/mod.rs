//! Checks -> evidence: runs what the schedule says, in the order it says, and keeps what was seen. Folds no verdicts.

pub(crate) mod command;
pub mod facts;
pub mod files;
pub mod handed_in;
pub mod judge;
pub mod kept;
mod refused;
pub mod seal;
pub mod steered;

pub use command::CHECKING;

use std::io;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use aot_core::rules::certificate::RedCheck;
use aot_core::state::{AtomId, Check, Checks, Stamp, State};
use aot_core::verdict::{
    CheckTree, Evidence, Excerpt, Jobs, Leaf, NextCheck, Outcome, Schedule, Source, Verdict,
    confirmed_outcome,
};
use jiff::Timestamp;

use crate::checks::files::{Matched, Pattern};
use crate::checks::judge::Judge;
use crate::checks::kept::Kept;
use crate::confinement::Confined;
use crate::plain_text;
use crate::process::Guard;
use crate::shell;
use crate::tree::{Project, Tree};

/// So many paths are kept of what a pattern finds.
const NAMED_FILES: usize = 20;

/// Where and how checks are run.
#[derive(Debug)]
pub struct Checker<'c> {
    pub project: &'c Project,
    pub guard: &'c Guard,
    pub judge: Option<&'c dyn Judge>,
    pub jobs: Jobs,
    /// What confines the commands.
    pub confined: &'c Confined,
}

/// Whose checks are run.
#[derive(Clone, Copy, Debug)]
pub enum Whose<'w> {
    BaseCase,
    Atom(&'w AtomId),
}

/// What the evaluation is for (D20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// Somebody wants to know; a pass on an identical tree may be believed.
    Look,
    /// Somebody wants to know, and believes nothing.
    LookAfresh,
    /// It decides whether `completed` is written, or whether an atom is resolved: nothing is believed.
    Decide,
}

/// What happens while checks run.
#[derive(Clone, Debug)]
pub enum Progress<'p> {
    /// `again`: it did not pass among others and now runs alone.
    Started {
        place: usize,
        leaf: &'p Leaf,
        again: bool,
    },
    Ended {
        place: usize,
        leaf: &'p Leaf,
        outcome: Outcome,
        evidence: &'p Evidence,
    },
}

/// All that was seen.
#[derive(Clone, Debug)]
#[must_use]
pub struct Evaluation {
    pub sheet: CheckTree,
    /// One for each leaf, in the written order.
    pub seen: Vec<(Outcome, Evidence)>,
    pub verdict: Verdict,
    pub tree: String,
    /// Paths that the checks themselves changed. Nobody asks for those of a base case that decides.
    pub changed: Vec<String>,
    pub took: Duration,
    /// The evidence could not be kept; the verdict stands all the same.
    pub not_kept: Option<String>,
}

impl Evaluation {
    pub fn fold(&self, node: &aot_core::verdict::CheckNode) -> Outcome {
        node.fold(&|place| Some(self.seen[place].0))
    }

    /// The checks because of which the verdict is not better than it is.
    pub fn in_the_way(&self) -> Vec<RedCheck> {
        let wanted = match self.verdict {
            Verdict::Passed => return Vec::new(),
            Verdict::Failed => Outcome::Fail,
            Verdict::Error => Outcome::Error,
            Verdict::Pending => Outcome::Pending,
        };
        let seen = |place: usize| Some(self.seen[place].0);
        let places = (0..self.seen.len())
            .filter(|place| self.seen[*place].0 == wanted && !self.sheet.is_decided(*place, &seen));
        places
            .map(|place| {
                let (leaf, evidence) = (&self.sheet.leaves[place], &self.seen[place].1);
                let output = evidence.output.as_ref().filter(|_| wanted == Outcome::Fail);
                RedCheck {
                    item: leaf.name.clone(),
                    kind: Some(leaf.check.kind()),
                    reason: with_ending(evidence.why.clone(), output),
                }
            })
            .collect()
    }

    /// The quality checks that nobody has judged, although nothing else is in the way.
    pub fn unjudged(&self) -> Vec<String> {
        let is_unjudged = |place: &usize| {
            let (outcome, evidence) = &self.seen[*place];
            *outcome == Outcome::Pending
                && evidence.source != Source::NotRun
                && matches!(self.sheet.leaves[*place].check, Check::Quality(_))
        };
        let places = (0..self.seen.len()).filter(is_unjudged);
        places.map(|place| self.sheet.leaves[place].name.clone()).collect()
    }

    /// The assertions that somebody has to confirm before it can pass.
    pub fn waits_for_person(&self) -> Vec<&Leaf> {
        let waits = |place: &usize| {
            self.seen[*place].0 == Outcome::Pending
                && matches!(self.sheet.leaves[*place].check, Check::Assertion { .. })
                && !self.sheet.is_decided(*place, &|place| Some(self.seen[place].0))
        };
        let places = (0..self.seen.len()).filter(waits);
        places.map(|place| &self.sheet.leaves[place]).collect()
    }
}

/// Of an output that showed a failure, so much goes to whoever works next: into the trail, the briefs and the certificate.
const ENDING_LINES: usize = 20;
const ENDING_BYTES: usize = 1_000;

/// A reason of more than one line: what happened, and below it the end of the output that showed it.
pub(crate) fn with_ending(what: String, output: Option<&Excerpt>) -> String {
    let lines = output.map(|output| output.last_lines(ENDING_LINES)).unwrap_or_default();
    let mut room = ENDING_BYTES;
    let mut ending: Vec<String> = Vec::new();
    for line in lines.into_iter().rev().map(short_line).filter(|line| !line.is_empty()) {
        let Some(left) = room.checked_sub(line.len() + 1) else { break };
        room = left;
        ending.push(line);
    }
    ending.push(what);
    ending.reverse();
    ending.join("\n")
}

/// A line of an output, plain and cut.
pub(crate) fn short_line(line: &str) -> String {
    plain_text::line(line).chars().take(LINE_CHARS).collect()
}

/// Longer lines of an output are cut.
const LINE_CHARS: usize = 300;

const NOT_NEEDED: &str = "not needed: another alternative passed";
const PANICKED: &str = "aot has a bug and could not look; standard error tells where";
const NOT_ASKED: &str = "a judge is asked when the other checks pass";

impl Checker<'_> {
    /// Runs checks. `on` hears what happens, from this thread.
    pub fn evaluate(
        &self,
        state: &State,
        checks: &Checks,
        whose: Whose<'_>,
        occasion: Occasion,
        now: Timestamp,
        on: &mut dyn FnMut(Progress<'_>),
    ) -> io::Result<Evaluation> {
        let tree = Tree::of(self.project, self.guard)?;
        self.evaluate_on(&tree, state, checks, (whose, occasion), now, on)
    }

    /// The same on files that were seen just now.
    pub fn evaluate_on(
        &self,
        tree: &Tree,
        state: &State,
        checks: &Checks,
        (whose, occasion): (Whose<'_>, Occasion),
        now: Timestamp,
        on: &mut dyn FnMut(Progress<'_>),
    ) -> io::Result<Evaluation> {
        let began = Instant::now();
        let mut sheet = CheckTree::of(checks);
        if let Whose::Atom(id) = whose {
            // Two atoms may have items of the same name, and so may the base case.
            sheet.leaves.iter_mut().for_each(|leaf| leaf.name = format!("{id}: {}", leaf.name));
        }
        let kept = Kept::of(self.project);
        let believed = match occasion {
            Occasion::Look => kept.passes(tree.hash()),
            Occasion::LookAfresh | Occasion::Decide => kept::Passes::default(),
        };
        let work = CheckContext { checker: self, state, whose, tree, now };
        let said: Vec<Option<(Outcome, Evidence)>> =
            sheet.leaves.iter().map(|leaf| work.said(leaf)).collect();
        let mut seen = said.clone();
        let mut schedule =
            Schedule::new(&sheet, self.jobs, |place| said[place].as_ref().map(|(outcome, _)| *outcome));
        // Looking for a file changes nothing.
        let mut may_have_changed = false;
        std::thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel::<(usize, Outcome, Evidence)>();
            loop {
                let (place, outcome, evidence) = match schedule.what_next() {
                    NextCheck::Done => break,
                    NextCheck::Start(place) => {
                        let leaf = &sheet.leaves[place];
                        let runs = schedule.runs(place);
                        on(Progress::Started { place, leaf, again: runs > 1 });
                        match believed.of(&work.key(leaf)) {
                            Some(evidence) => (place, Outcome::Pass, evidence),
                            None => {
                                may_have_changed |= !leaf.check.only_looks();
                                let (sender, work) = (sender.clone(), &work);
                                let looking = move || {
                                    let (outcome, mut evidence) = work.look_safely(leaf);
                                    evidence.runs = runs;
                                    // The receiver lives until every check that was started has ended.
                                    let _ = sender.send((place, outcome, evidence));
                                };
                                match std::thread::Builder::new().spawn_scoped(scope, looking) {
                                    Ok(_) => continue,
                                    Err(error) => {
                                        let why = format!("the system starts no more threads: {error}");
                                        let evidence = work.evidence(leaf.runs().unwrap_or_default(), &why);
                                        (place, Outcome::Error, evidence)
                                    }
                                }
                            }
                        }
                    }
                    NextCheck::Wait => receiver.recv().expect("a check that runs will answer"),
                };
                schedule.ended(place, outcome);
                on(Progress::Ended { place, leaf: &sheet.leaves[place], outcome, evidence: &evidence });
                seen[place] = Some((outcome, evidence));
            }
        });
        let verdict = Verdict::from(schedule.folded());
        let seen: Vec<(Outcome, Evidence)> = seen
            .into_iter()
            .enumerate()
            .map(|(place, seen)| seen.unwrap_or_else(|| work.not_run(&sheet, place, &schedule)))
            .collect();
        let changed = match (whose, occasion) {
            (Whose::BaseCase, Occasion::Decide) => Vec::new(),
            _ if !may_have_changed => Vec::new(),
            _ => tree.changed(&Tree::of(self.project, self.guard)?),
        };
        let lines = sheet.leaves.iter().zip(&seen).map(|(leaf, (outcome, evidence))| kept::EvidenceLine {
            key: work.key(leaf),
            item: leaf.name.clone(),
            kind: leaf.check.kind().word().to_owned(),
            outcome: *outcome,
            evidence: evidence.clone(),
        });
        let lines: Vec<kept::EvidenceLine> =
            lines.filter(|line| line.evidence.source == Source::Fresh).collect();
        let not_kept = kept.add(&lines).err().map(|error| error.to_string());
        let tree = tree.hash().to_owned();
        Ok(Evaluation { seen, verdict, tree, changed, took: began.elapsed(), not_kept, sheet })
    }
}

/// One evaluation, as its checks see it.
#[derive(Debug)]
struct CheckContext<'w> {
    checker: &'w Checker<'w>,
    state: &'w State,
    whose: Whose<'w>,
    tree: &'w Tree,
    now: Timestamp,
}

impl CheckContext<'_> {
    /// Whoever waits for the outcome would wait for ever if a look that panics had none.
    fn look_safely(&self, leaf: &Leaf) -> (Outcome, Evidence) {
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.look(leaf)));
        looked.unwrap_or_else(|_| {
            let mut evidence = self.evidence(leaf.runs().unwrap_or_default(), PANICKED);
            evidence.hint = "please report it".into();
            (Outcome::Error, evidence)
        })
    }

    fn look(&self, leaf: &Leaf) -> (Outcome, Evidence) {
        match &leaf.check {
            Check::Command { value } => command::look(self, value, aot_core::verdict::ExpectedExit::Success),
            Check::NotCommand { value } => {
                command::look(self, value, aot_core::verdict::ExpectedExit::Failure)
            }
            Check::File { value } => self.look_for(value, FileExpectation::There),
            Check::NotFile { value } => self.look_for(value, FileExpectation::Absent),
            Check::Quality(quality) => judge::look(self, leaf, quality),
            Check::Assertion { .. } => {
                self.said(leaf).unwrap_or_else(|| (Outcome::Pending, self.evidence("", "not confirmed")))
            }
        }
    }

    fn look_for(&self, value: &str, wanted: FileExpectation) -> (Outcome, Evidence) {
        let began = Instant::now();
        let root = &self.checker.project.root;
        let found = Pattern::read(value).and_then(|pattern| pattern.find(root, NAMED_FILES));
        let mut evidence = self.evidence(value, "");
        evidence.milliseconds = began.elapsed().as_millis() as u64;
        let mut found = match found {
            Ok(found) => found,
            Err(why) => {
                evidence.why = format!("`{value}` cannot be looked for: {why}");
                evidence.hint = "correct the pattern; it is relative to the project's root".into();
                return (Outcome::Error, evidence);
            }
        };
        if wanted == FileExpectation::There {
            // A link that leads nowhere is no file.
            found.paths.retain(|path| root.join(path).exists());
        }
        evidence.why = match (&found.paths[..], found.reach) {
            ([], _) => format!("nothing is at `{value}`"),
            ([one], _) => format!("`{one}` is there"),
            ([first, ..], Matched::More) => format!("`{first}` and many more are there"),
            ([first, rest @ ..], Matched::All) => format!("`{first}` and {} more are there", rest.len()),
        };
        let there = !found.paths.is_empty();
        evidence.files = found.paths;
        let outcome = if there == (wanted == FileExpectation::There) { Outcome::Pass } else { Outcome::Fail };
        (outcome, evidence)
    }

    /// What a person said; `None` for what is no assertion.
    fn said(&self, leaf: &Leaf) -> Option<(Outcome, Evidence)> {
        let Check::Assertion { value } = &leaf.check else { return None };
        let (outcome, said) = confirmed_outcome(&self.state.control.confirmed, leaf, self.tree.hash());
        let mut evidence = self.evidence(value, "");
        evidence.runs = 0;
        evidence.source = Source::NotRun;
        let type_this = format!("look at it, then type `aot confirm {}`", quoted(&leaf.name));
        match (outcome, said) {
            (Outcome::Pending, None) => {
                evidence.why = "a person has to confirm it".into();
                evidence.hint = type_this;
            }
            (Outcome::Pending, Some(said)) => {
                evidence.why =
                    format!("the files have changed since {} answered at {}", said.by, said.at.as_str());
                evidence.hint = type_this;
            }
            (_, Some(said)) => {
                let word = if said.holds() { "confirmed" } else { "denied" };
                evidence.why = format!("{word} by {} at {}", said.by, said.at.as_str());
                evidence.at = said.at.clone();
                evidence.tree = said.tree.clone();
            }
            (Outcome::Pass | Outcome::Fail | Outcome::Error, None) => {}
        }
        Some((outcome, evidence))
    }

    /// Of a check that was not due: somebody else decided, or has to first.
    fn not_run(&self, sheet: &CheckTree, place: usize, schedule: &Schedule<'_>) -> (Outcome, Evidence) {
        let leaf = &sheet.leaves[place];
        let judged = matches!(leaf.check, Check::Quality(_));
        let decided = sheet.is_decided(place, &|place| schedule.outcome(place));
        let why = if judged && !decided { NOT_ASKED } else { NOT_NEEDED };
        let mut evidence = self.evidence(leaf.runs().unwrap_or_default(), why);
        evidence.source = Source::NotRun;
        evidence.runs = 0;
        (Outcome::Pending, evidence)
    }

    fn evidence(&self, ran: &str, why: &str) -> Evidence {
        let root = self.checker.project.root.to_string_lossy();
        let mut evidence = Evidence::not_run(ran, &root, self.tree.hash(), Stamp::from(self.now), why);
        evidence.source = Source::Fresh;
        evidence.runs = 1;
        evidence
    }

    /// What must be the same for a pass to be believed, besides the tree. Patterns are cheap, and what they find may be
    /// ignored by git and so no part of the tree: they have none.
    fn key(&self, leaf: &Leaf) -> String {
        let parts = match &leaf.check {
            Check::Command { value } | Check::NotCommand { value } => {
                let shell = shell::program(self.state.objective.shell.as_deref(), value);
                vec![shell.to_string_lossy().into_owned(), self.checker.confined.key()]
            }
            Check::Quality(quality) => judge::key(self, leaf, quality),
            Check::File { .. } | Check::NotFile { .. } | Check::Assertion { .. } => return String::new(),
        };
        let check = serde_json::to_string(&leaf.check).expect("checks are plain data");
        let mut hasher = blake3::Hasher::new();
        for part in parts.iter().chain([&check]) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FileExpectation {
    There,
    Absent,
}

/// As a shell takes it for one word.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '=' | '+' | ',');
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false if !word.contains(['"', '$', '`', '\\', '!']) => format!("\"{word}\""),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
