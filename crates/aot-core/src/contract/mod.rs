//! Text to `State` and back. Knows the file's form; decides nothing.

mod checks;
mod decode;
pub mod document;
mod draft;
pub mod edit;
mod finding;
mod invariants;
mod read;
mod touched;
mod write;

pub use document::{Document, Limits, Place};
pub use draft::{Brought, background, bring, bring_checks, draft, request, revise};
pub use finding::{Finding, MAX_FINDINGS, Severity};
pub use read::is_near;
pub use write::{NotWritten, edits, write};

use crate::state::State;

/// What a text says, and what is wrong or odd about it.
#[derive(Clone, Debug)]
pub struct Reading {
    pub document: Document,
    /// There if no error was found; an incomplete alignment is no error here, but the gate's business.
    pub state: Option<State>,
    pub findings: Vec<Finding>,
}

impl Reading {
    pub fn of(document: Document) -> Reading {
        let (state, mut findings) = decode::state(document.root());
        if let Some(state) = &state {
            invariants::check(document.root(), state, &mut findings);
        }
        let state = state.filter(|_| !findings.has_errors());
        let findings = findings.place(&document);
        Reading { document, state, findings }
    }

    /// Errors and what is incomplete: what makes a file invalid.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity != Severity::Warning)
    }

    pub fn warnings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Warning)
    }
}

/// Reads a state file's bytes strictly.
pub fn read(bytes: Vec<u8>) -> Result<Reading, Finding> {
    Ok(Reading::of(Document::from_bytes(bytes, &Limits::default())?))
}

/// The JSON Schema of the frontmatter.
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(State).to_value();
    schema["title"] = "The state file of an aot loop, contract v1.3".into();
    schema
}
