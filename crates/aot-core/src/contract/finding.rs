//! What is wrong or odd in a state file: where it stands and what helps.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::document::{Document, Place, SyntaxError};

/// More mistakes than this are counted, not listed.
pub const MAX_FINDINGS: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The file cannot be understood as it stands.
    Error,
    /// The file can be understood, but the alignment is not complete: nothing may start yet.
    Incomplete,
    /// Odd, but legal.
    Warning,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub severity: Severity,
    pub code: Cow<'static, str>,
    pub message: String,
    #[serde(flatten)]
    pub place: Place,
    pub hint: String,
}

impl From<SyntaxError> for Finding {
    fn from(error: SyntaxError) -> Finding {
        Finding {
            severity: Severity::Error,
            code: error.code.into(),
            message: error.message,
            place: error.place,
            hint: error.hint,
        }
    }
}

/// Findings on their way: they know their byte, and get their line when all are in.
#[derive(Debug, Default)]
pub(super) struct Findings {
    noted: Vec<Noted>,
    left_out: usize,
    errors_left_out: bool,
}

#[derive(Debug)]
struct Noted {
    severity: Severity,
    code: &'static str,
    message: String,
    offset: usize,
    hint: String,
}

impl Findings {
    pub fn note(
        &mut self,
        severity: Severity,
        code: &'static str,
        offset: usize,
        message: String,
        hint: impl Into<String>,
    ) {
        // Warnings give way to errors: the file is mended by the errors.
        let room = if severity == Severity::Warning { MAX_FINDINGS / 2 } else { MAX_FINDINGS };
        if self.noted.len() >= room {
            self.left_out += 1;
            self.errors_left_out |= severity == Severity::Error;
            return;
        }
        self.noted.push(Noted { severity, code, message, offset, hint: hint.into() });
    }

    pub fn has_errors(&self) -> bool {
        self.errors_left_out || self.noted.iter().any(|noted| noted.severity == Severity::Error)
    }

    /// Whether looking for more is of no use to anybody.
    pub fn is_full(&self) -> bool {
        self.noted.len() >= MAX_FINDINGS
    }

    /// In the order of the text.
    pub fn place(mut self, document: &Document) -> Vec<Finding> {
        self.noted.sort_by_key(|noted| noted.offset);
        let mut found: Vec<Finding> = self
            .noted
            .into_iter()
            .map(|noted| Finding {
                severity: noted.severity,
                code: noted.code.into(),
                message: noted.message,
                place: document.place(noted.offset),
                hint: noted.hint,
            })
            .collect();
        if self.left_out > 0 {
            found.push(Finding {
                severity: Severity::Warning,
                code: "more".into(),
                message: format!("{} more findings are not listed", self.left_out),
                place: document.place(0),
                hint: "mend the listed ones first".into(),
            });
        }
        found
    }
}
