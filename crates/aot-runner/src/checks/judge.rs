//! Judging `quality`: the files in scope, the rubric and the answer's schema go to a judge, and the scores come back.
//! The judge is a trait: an agent, or here a command that reads the request on standard input and answers JSON.

use std::fmt::Debug;
use std::fs;
use std::time::{Duration, Instant};

use aot_core::brief::{self, ANSWER_LIMIT, Brief, JudgeAnswer};
use aot_core::state::{Quality, Scope};
use aot_core::verdict::{Evidence, Excerpt, HIGHEST_SCORE, Judged, LOWEST_SCORE, Leaf, Outcome, score};
use serde_json::{Value, json};

use super::command::{GRACE, excerpt};
use super::files::Pattern;
use super::{CheckContext, Whose};
use crate::confinement::Confined;
use crate::process::{Guard, How, Input, Job, Limits, Streams};
use crate::shell;
use crate::tree::Project;

/// So many files are listed to a judge.
pub const MOST_FILES: usize = 500;
/// So much of one file, and of all of them, is sent along.
pub const MOST_OF_ONE: u64 = 64 << 10;
pub const MOST_OF_ALL: u64 = 512 << 10;

/// How long a judge may take by default.
pub const TIME: Duration = Duration::from_secs(10 * 60);

/// How often a judge is asked: an answer that cannot be read is asked for once more (D19).
const ASKED: usize = 2;

/// Somebody who scores.
pub trait Judge: Debug + Send + Sync {
    /// Who it is, for the evidence.
    fn name(&self) -> String;

    /// Asks once.
    fn ask(&self, request: &Request<'_>) -> JudgeReply;
}

/// What a judge is given.
#[derive(Debug)]
pub struct Request<'r> {
    pub item: &'r str,
    pub quality: &'r Quality,
    pub brief: &'r Brief,
    pub files: &'r [Listed],
    /// Files in scope that were not listed.
    pub more_files: usize,
    pub project: &'r Project,
    /// What confines a judge that is a command.
    pub confined: &'r Confined,
    /// Why the answer before was refused.
    pub refused: Option<&'r str>,
}

#[derive(Clone, Debug)]
pub struct Listed {
    pub path: String,
    pub bytes: u64,
    /// Absent if it is no text, or if there was no room for it.
    pub content: Option<String>,
}

#[derive(Clone, Debug)]
pub enum JudgeReply {
    /// Whatever it said; it is not read yet.
    Answer { text: String, beside: Excerpt },
    /// It said nothing usable, for a reason that asking again may cure.
    Nothing { why: String, beside: Excerpt },
    /// It cannot be asked.
    Unable { why: String, beside: Excerpt },
    /// Whoever judges hands scores in, and has not done so for these files.
    NotJudged,
}

impl Request<'_> {
    /// As one JSON object. The weights and the threshold are not in it: a judge scores what it sees.
    pub fn json(&self) -> Value {
        let rubric: Vec<Value> = self
            .quality
            .rubric
            .iter()
            .map(|criterion| {
                json!({
                    "criterion": criterion.criterion,
                    "description": criterion.description,
                    "levels": criterion.levels,
                })
            })
            .collect();
        let files: Vec<Value> = self
            .files
            .iter()
            .map(|file| json!({"path": file.path, "bytes": file.bytes, "content": file.content}))
            .collect();
        json!({
            "version": 1,
            "item": self.item,
            "brief": self.brief.text,
            "schema": self.brief.schema,
            "criteria": self.quality.criteria,
            "rubric": rubric,
            "files": files,
            "more_files": self.more_files,
            "refused": self.refused,
        })
    }
}

/// A judge given as a command in `aot.toml`.
#[derive(Debug)]
pub struct CommandJudge {
    pub command: String,
    pub time: Duration,
    pub guard: Guard,
}

impl Judge for CommandJudge {
    fn name(&self) -> String {
        self.command.clone()
    }

    fn ask(&self, request: &Request<'_>) -> JudgeReply {
        let ran = self.guard.run(&Job {
            program: shell::program(None, &self.command),
            arguments: vec!["-c".into(), self.command.clone().into()],
            folder: request.project.root.clone(),
            environment: request.confined.environment(Vec::new()),
            input: Input::Bytes(request.json().to_string().into_bytes()),
            streams: Streams::Apart,
            limits: Limits { wall: self.time, idle: None, grace: GRACE, head: ANSWER_LIMIT, tail: 1 << 10 },
            cage: request.confined.cage().cloned(),
        });
        let ended = match ran {
            Ok(ended) => ended,
            Err(error) => {
                let why = format!("the judge could not be started: {error}");
                return JudgeReply::Unable { why, beside: Excerpt::default() };
            }
        };
        let beside = excerpt(&ended.errors);
        let why = match ended.how {
            How::Exited(0) => match ended.output.whole().map(String::from_utf8) {
                Some(Ok(text)) => return JudgeReply::Answer { text, beside },
                Some(Err(_)) => "the judge's answer is no UTF-8 text".to_owned(),
                None => format!("the judge's answer is longer than {ANSWER_LIMIT} bytes"),
            },
            How::OutOfTime | How::Silent => {
                let why = format!("the judge did not answer within {} s", self.time.as_secs());
                return JudgeReply::Unable { why, beside };
            }
            How::NotStarted(why) | How::NoProgram(why) => {
                return JudgeReply::Unable { why: format!("the judge could not be started: {why}"), beside };
            }
            How::Exited(code @ (126 | 127)) => {
                let why = format!("the judge's program was not found or cannot be run (exit {code})");
                return JudgeReply::Unable { why, beside };
            }
            How::Exited(code) => format!("the judge exited with {code}"),
            How::Signalled(signal) => format!("the judge was killed by signal {signal}"),
            How::Killed | How::Lost => "the judge was killed".to_owned(),
        };
        JudgeReply::Nothing { why, beside }
    }
}

pub(super) fn look(work: &CheckContext<'_>, leaf: &Leaf, quality: &Quality) -> (Outcome, Evidence) {
    let began = Instant::now();
    let mut evidence = work.evidence("", "");
    let Some(judge) = work.checker.judge else {
        evidence.why = "it waits for a judge, and none is set".into();
        evidence.hint = "set one in aot.toml: `[judge]` with `command = \"COMMAND\"`".into();
        return (Outcome::Pending, evidence);
    };
    evidence.ran = judge.name();
    if !(f64::from(LOWEST_SCORE)..=f64::from(HIGHEST_SCORE)).contains(&quality.pass_threshold) {
        evidence.why = format!("`pass_threshold` is {}, outside 1 to 5", quality.pass_threshold);
        evidence.hint = "choose it between 1 and 5".into();
        return (Outcome::Error, evidence);
    }
    let (files, more_files) = match in_scope(work, quality) {
        Ok(found) => found,
        Err(why) => {
            evidence.why = why;
            evidence.hint = "correct `scope`; it is relative to the project's root".into();
            return (Outcome::Error, evidence);
        }
    };
    let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
    let atom = match work.whose {
        Whose::BaseCase => None,
        Whose::Atom(id) => Some(id),
    };
    let brief = brief::judge(work.state, atom, &leaf.name, quality, &paths);
    evidence.files = paths.into_iter().take(super::NAMED_FILES).collect();
    let mut refused: Option<String> = None;
    for _ in 0..ASKED {
        let request = Request {
            item: &leaf.name,
            quality,
            brief: &brief,
            files: &files,
            more_files,
            project: work.checker.project,
            confined: work.checker.confined,
            refused: refused.as_deref(),
        };
        let asked = judge.ask(&request);
        evidence.milliseconds = began.elapsed().as_millis() as u64;
        let why = match asked {
            JudgeReply::Answer { text, beside } => {
                evidence.output = Some(beside);
                match JudgeAnswer::read(quality, text.as_str()) {
                    Ok(answer) => return scored(quality, &answer, evidence),
                    Err(unreadable) => format!("the judge's answer is not valid: {}", unreadable.reason),
                }
            }
            JudgeReply::Nothing { why, beside } => {
                evidence.output = Some(beside);
                why
            }
            JudgeReply::NotJudged => {
                evidence.why = "not judged yet on these files".into();
                evidence.hint = format!("`aot judge {}` says what to score", super::quoted(&leaf.name));
                return (Outcome::Pending, evidence);
            }
            JudgeReply::Unable { why, beside } => {
                evidence.output = Some(beside);
                evidence.why = why;
                evidence.hint = "see `[judge]` in aot.toml".into();
                return (Outcome::Error, evidence);
            }
        };
        refused = Some(why);
    }
    evidence.why = format!("{} (asked twice)", refused.unwrap_or_default());
    evidence.hint =
        "see what the judge of `[judge]` in aot.toml answers; its request holds the schema".into();
    (Outcome::Error, evidence)
}

fn scored(quality: &Quality, answer: &JudgeAnswer, mut evidence: Evidence) -> (Outcome, Evidence) {
    let scored = score(quality, answer.scores());
    let threshold = quality.pass_threshold;
    let relation = if scored.passes { "at least" } else { "below" };
    evidence.why = format!("scored {:.2}, {relation} {threshold}", scored.average);
    if !scored.passes {
        let lowest = answer.scores().iter().min_by_key(|score| score.score);
        evidence.hint = lowest
            .map(|score| format!("{}: {} ({})", score.criterion, score.reason, score.score))
            .unwrap_or_default();
    }
    // Sums of weights such as 0.1 are off by a hair that nobody wants to read.
    let average = (scored.average * 1e6).round() / 1e6;
    evidence.judged = Some(Judged { average, threshold, scores: answer.scores().to_vec() });
    (if scored.passes { Outcome::Pass } else { Outcome::Fail }, evidence)
}

/// What must be the same for a judge's pass to be believed, besides the tree and the check.
pub(super) fn key(work: &CheckContext<'_>, leaf: &Leaf, _quality: &Quality) -> Vec<String> {
    let judge = work.checker.judge.map(Judge::name).unwrap_or_default();
    vec![judge, leaf.name.clone(), work.state.objective.goal.clone()]
}

/// The files that a judge is given, and how many more there are: those of the tree that the scope means, or all.
fn in_scope(work: &CheckContext<'_>, quality: &Quality) -> Result<(Vec<Listed>, usize), String> {
    let globs: &[String] = match &quality.scope {
        None => &[],
        Some(Scope::Glob(glob)) => std::slice::from_ref(glob),
        Some(Scope::Globs(globs)) => globs,
    };
    let mut patterns = Vec::new();
    for glob in globs {
        patterns
            .push(Pattern::read(glob).map_err(|why| format!("scope `{glob}` cannot be looked for: {why}"))?);
    }
    let wanted = |path: &&str| patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(path));
    let paths: Vec<&str> = work.tree.paths().filter(wanted).collect();
    if paths.is_empty() && !globs.is_empty() {
        return Err(format!("no file is in scope: {}", globs.join(", ")));
    }
    let more = paths.len().saturating_sub(MOST_FILES);
    let mut left = MOST_OF_ALL;
    let listed = paths.into_iter().take(MOST_FILES).map(|path| {
        let full = work.checker.project.root.join(path);
        // A pipe or a device is not opened: it may never end.
        let bytes = full.metadata().ok().filter(std::fs::Metadata::is_file).map(|meta| meta.len());
        let fits = bytes.is_some_and(|bytes| bytes <= MOST_OF_ONE && bytes <= left);
        let content =
            if fits { fs::read(&full).ok().and_then(|read| String::from_utf8(read).ok()) } else { None };
        let bytes = bytes.unwrap_or(0);
        left -= content.as_ref().map_or(0, |content| content.len() as u64).min(left);
        Listed { path: path.to_owned(), bytes, content }
    });
    Ok((listed.collect(), more))
}
