//! What a probe, a worker and a verifier answer. The comments on the fields are what the agents read about them.
//!
//! Prose that is too long is cut with a mark, since asking again for a shorter one would cost a run; everything else
//! that does not fit is refused with its reason.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::shape::{Faults, RawAnswer, Unreadable, fit, schema_of};
use super::text::{clipped, one_line};
use crate::rules::order::Cost;

// Limits in bytes.
pub const SUMMARY_LIMIT: usize = 2000;
pub const REASON_LIMIT: usize = 2000;
pub const FINDINGS_LIMIT: usize = 4000;
pub const EVIDENCE_LIMIT: usize = 2000;
pub const PATH_LIMIT: usize = 1024;

// Limits in number.
pub const MAX_ARTIFACTS: usize = 256;
pub const MAX_EVIDENCE: usize = 32;
pub const MAX_FAILURES: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeAnswer {
    /// Whether the part can be done as described.
    pub feasible: bool,
    /// What you found, in a few sentences: the way to go, what stands in it, the files that matter.
    pub findings: String,
    /// The work to expect, from tiny (a few lines) to huge (must be decomposed); null if unknown.
    pub cost_estimate: Option<Cost>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerAnswer {
    /// Whether the part is solved.
    pub success: bool,
    /// What is there now that was not before, in a few sentences, for those who build on it; no logs.
    pub summary: String,
    /// Files you made or changed, relative to the current folder.
    pub artifacts: Vec<String>,
    /// If not solved: why, and what the next attempt must know; otherwise null.
    pub reason: Option<String>,
    /// True only if not solved because it is too much for one go and should be decomposed.
    #[serde(default, deserialize_with = "null_is_false")]
    #[schemars(with = "Option<bool>")]
    pub too_large: bool,
}

/// What the verifier of a host answers. It reports; what counts is what the program saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifierAnswer {
    /// Whether every check passed.
    pub passed: bool,
    /// What was run and what came of it.
    pub evidence: String,
    /// Each check that did not pass, with the reason; empty if all did.
    pub failures: Vec<String>,
}

impl ProbeAnswer {
    pub fn schema() -> Value {
        schema_of::<ProbeAnswer>()
    }

    pub fn read<'s>(said: impl Into<RawAnswer<'s>>) -> Result<ProbeAnswer, Unreadable> {
        let mut answer: ProbeAnswer = read_as(&Self::schema(), said.into())?;
        let mut faults = Faults::default();
        faults.prose("findings", &mut answer.findings, FINDINGS_LIMIT);
        faults.into_result(answer)
    }
}

impl WorkerAnswer {
    pub fn schema() -> Value {
        schema_of::<WorkerAnswer>()
    }

    pub fn read<'s>(said: impl Into<RawAnswer<'s>>) -> Result<WorkerAnswer, Unreadable> {
        let mut answer: WorkerAnswer = read_as(&Self::schema(), said.into())?;
        let mut faults = Faults::default();
        faults.paths("artifacts", &mut answer.artifacts);
        answer.reason = answer.reason.filter(|reason| !reason.trim().is_empty());
        if let Some(reason) = &mut answer.reason {
            faults.prose("reason", reason, REASON_LIMIT);
        }
        if answer.success {
            faults.prose("summary", &mut answer.summary, SUMMARY_LIMIT);
            if answer.too_large {
                faults.note("too_large", "it is true beside `success`", "false, or `success` false");
            }
        } else {
            faults.plain("summary", &mut answer.summary, SUMMARY_LIMIT);
            if answer.reason.is_none() {
                faults.note("reason", "it is empty", "why the part is not solved, since `success` is false");
            }
        }
        faults.into_result(answer)
    }
}

impl VerifierAnswer {
    pub fn schema() -> Value {
        schema_of::<VerifierAnswer>()
    }

    pub fn read<'s>(said: impl Into<RawAnswer<'s>>) -> Result<VerifierAnswer, Unreadable> {
        let mut answer: VerifierAnswer = read_as(&Self::schema(), said.into())?;
        let mut faults = Faults::default();
        faults.prose("evidence", &mut answer.evidence, EVIDENCE_LIMIT);
        faults.at_most("failures", answer.failures.len(), MAX_FAILURES);
        faults.each_prose("failures", &mut answer.failures, REASON_LIMIT);
        match (answer.passed, answer.failures.is_empty()) {
            (true, false) => faults.note("passed", "it is true beside `failures`", "false, or no failures"),
            (false, true) => {
                faults.note("failures", "it is empty", "what did not pass, since `passed` is false")
            }
            (true, true) | (false, false) => {}
        }
        faults.into_result(answer)
    }
}

/// An answer of this schema; what it says is still to be looked at.
pub(super) fn read_as<T: serde::de::DeserializeOwned>(
    schema: &Value,
    said: RawAnswer<'_>,
) -> Result<T, Unreadable> {
    let fitted = fit(schema, said)?;
    serde_json::from_value(fitted).map_err(|error| Unreadable { reason: format!("the answer: {error}") })
}

/// What text and paths in any answer must be.
impl Faults {
    /// Text that says something.
    pub(super) fn prose(&mut self, field: &str, text: &mut String, limit: usize) {
        self.plain(field, text, limit);
        if text.is_empty() {
            self.note(field, "it is empty", "a text");
        }
    }

    pub(super) fn each_prose(&mut self, field: &str, texts: &mut [String], limit: usize) {
        for (n, text) in texts.iter_mut().enumerate() {
            self.prose(&format!("{field}[{n}]"), text, limit);
        }
    }

    /// Text without control characters, trimmed; too long is cut.
    pub(super) fn plain(&mut self, field: &str, text: &mut String, limit: usize) {
        *text = clipped(text.replace("\r\n", "\n").trim(), limit);
        if let Some(c) = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
            self.note(
                field,
                format!("it has the control character U+{:04X} in it", u32::from(c)),
                "plain text",
            );
        }
    }

    pub(super) fn at_most(&mut self, field: &str, found: usize, limit: usize) {
        if found > limit {
            self.note(field, format!("it has {found} entries"), format!("at most {limit}"));
        }
    }

    /// Paths below the current folder, each once.
    fn paths(&mut self, field: &str, paths: &mut Vec<String>) {
        if paths.len() > MAX_ARTIFACTS {
            let found = format!("it has {} entries", paths.len());
            self.note(field, found, format!("at most {MAX_ARTIFACTS}; name folders instead of files"));
            return;
        }
        for (n, path) in paths.iter_mut().enumerate() {
            let plain = path.trim().trim_start_matches("./");
            if let Some(fault) = path_fault(plain) {
                let found = format!("\"{}\" {fault}", one_line(path, 100));
                self.note(
                    &format!("{field}[{n}]"),
                    found,
                    "a path relative to the current folder, inside it",
                );
            }
            *path = plain.to_owned();
        }
        let mut seen = std::collections::HashSet::new();
        paths.retain(|path| seen.insert(path.clone()));
    }
}

fn path_fault(path: &str) -> Option<&'static str> {
    let drive = path.as_bytes().get(1) == Some(&b':') && path.as_bytes()[0].is_ascii_alphabetic();
    if path.is_empty() || path == "." {
        return Some("names no file");
    }
    if path.len() > PATH_LIMIT {
        return Some("is too long");
    }
    if path.chars().any(char::is_control) {
        return Some("has a control character in it");
    }
    if path.starts_with(['/', '\\']) || path.starts_with("~/") || path == "~" || drive || path.contains("://")
    {
        return Some("is absolute");
    }
    path.split(['/', '\\']).any(|step| step == "..").then_some("leads out of its folder with `..`")
}

fn null_is_false<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Option::<bool>::deserialize(deserializer).map(Option::unwrap_or_default)
}
