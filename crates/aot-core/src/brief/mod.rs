//! The brief of each role, the shape of its answer, and the strict reading of the answer. Names no vendor, starts no
//! agent and decides nothing: a brief is a function of the state, an answer a value for the rules.
//!
//! A brief is contracted (D6): the goal, what was agreed, the atom, the bindings of what it depends on, its checks and its
//! failures with the end of the output that showed them; no history, no other logs. Its size has a limit, each part has its own, and what was cut is said.

mod agreed;
mod align;
mod answer;
mod change;
mod checks;
mod dependencies;
mod dialogue;
mod judge;
mod plan;
mod redirect;
mod shape;
mod text;
mod work;

pub use align::{AlignAnswer, AlignRequest, align, read_align};
pub use answer::{
    EVIDENCE_LIMIT, FINDINGS_LIMIT, MAX_ARTIFACTS, MAX_EVIDENCE, MAX_FAILURES, PATH_LIMIT, ProbeAnswer,
    REASON_LIMIT, SUMMARY_LIMIT, VerifierAnswer, WorkerAnswer,
};
pub use change::{
    CHECK_LIMIT, DESCRIPTION_LIMIT, MAX_CHILDREN, MAX_ENTRIES, MAX_NEW_ATOMS, plan_change_schema,
    read_plan_change,
};
pub use dialogue::{Inquiry, MAX_QUESTIONS, MAX_SUGGESTIONS};
pub use judge::{JudgeAnswer, MAX_CRITERIA, judge};
pub use plan::{ReplanRequest, coordinator};
pub use redirect::{RedirectAnswer, RedirectRequest, read_redirect, redirect};

pub use crate::rules::certificate::RedCheck;
pub use crate::rules::order::Cost;
pub use crate::rules::plan::ReplanReason;
pub use shape::{ANSWER_LIMIT, MAX_FAULTS, RawAnswer, Unreadable};
pub use work::{AttemptContext, Leftover, PutBack, explain_no_change, mend, not_accepted, probe, worker};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::state::{Atom, AtomId, Span, State};

/// No brief is longer, in bytes, whatever the state holds.
pub const TEXT_LIMIT: usize = 32 * 1024;

/// Ids and names are shown up to this.
const NAME_LIMIT: usize = 96;

/// A line that stands for something longer: a reference to a binding, an atom among others.
const LINE_LIMIT: usize = 240;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    Probe,
    Worker,
    Judge,
    Coordinator,
}

impl Role {
    pub const ALL: [Role; 4] = [Role::Probe, Role::Worker, Role::Judge, Role::Coordinator];

    pub fn parse(word: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.word() == word)
    }

    pub fn word(self) -> &'static str {
        match self {
            Role::Probe => "probe",
            Role::Worker => "worker",
            Role::Judge => "judge",
            Role::Coordinator => "coordinator",
        }
    }
}

/// The prompt of one agent, with the shape of its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[must_use]
pub struct Brief {
    pub role: Role,
    /// The atom it is about; a coordinator, and a judge of the base case, have none.
    pub atom: Option<AtomId>,
    /// The prompt, in Markdown.
    pub text: String,
    /// The JSON Schema of the answer.
    pub schema: Value,
    /// What was left out for size.
    pub cut: Vec<String>,
}

impl Brief {
    /// Every brief ends with the time there is and the answer that is wanted.
    fn close(state: &State, role: Role, atom: Option<AtomId>, page: text::BriefText, schema: Value) -> Brief {
        Brief::close_within(state.constraints().agent_timeout(), role, atom, page, schema)
    }

    fn close_within(
        time: Span,
        role: Role,
        atom: Option<AtomId>,
        mut page: text::BriefText,
        schema: Value,
    ) -> Brief {
        page.heading("Answer");
        page.paragraph(&format!(
            "Within {time}, end with exactly one JSON object and nothing else. All fields are required:"
        ));
        page.paragraph(shape::fields_in_words(&schema).trim_end());
        let (text, cut) = page.into_parts();
        debug_assert!(text.len() <= TEXT_LIMIT, "{} bytes for a {}", text.len(), role.word());
        Brief { role, atom, text, schema, cut }
    }
}

/// Checks an answer against its schema and against what its role demands besides. Optional fields that were left out come
/// back as null.
pub fn validate<'s>(
    role: Option<Role>,
    schema: &Value,
    said: impl Into<RawAnswer<'s>>,
) -> Result<Value, Unreadable> {
    let answer = shape::fit(schema, said.into())?;
    let held = match role {
        Some(Role::Probe) => ProbeAnswer::read(&answer).map(drop),
        Some(Role::Worker) => WorkerAnswer::read(&answer).map(drop),
        Some(Role::Judge) => JudgeAnswer::read_by(schema, RawAnswer::Json(&answer)).map(drop),
        // A coordinator answers three kinds of questions, and the schema tells which one this is.
        Some(Role::Coordinator) if *schema == align::align_schema() => read_align(&answer).map(drop),
        Some(Role::Coordinator) if *schema == redirect::redirect_schema() => read_redirect(&answer).map(drop),
        Some(Role::Coordinator) => read_plan_change(&answer).map(drop),
        None => Ok(()),
    };
    held.map(|()| answer)
}

fn short(id: &AtomId) -> String {
    text::one_line(id.as_str(), NAME_LIMIT)
}

/// An atom in one line.
fn titled(atom: &Atom) -> String {
    format!("{}: {}", short(&atom.id), text::one_line(&atom.description, LINE_LIMIT))
}
