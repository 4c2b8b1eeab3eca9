//! The coordinator agent before a loop: what is wanted, what is there, what was answered so far; and its answer, either
//! questions or the whole agreement. Whether that can be agreed on, the contract and the person say.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::answer::read_as;
use super::change::{AnswerReader, DESCRIPTION_LIMIT, MAX_NEW_ATOMS};
use super::dialogue::{CheckForm, Inquiry, InquiryForm, MAX_QUESTIONS, NewAtomForm, QUESTION_LIMIT, answers};
use super::shape::{RawAnswer, Unreadable, schema_of};
use super::text::BriefText;
use super::{Brief, Role, TEXT_LIMIT};
use crate::state::{Agreement, Boundaries, Clarification, DEFAULT_AGENT_TIMEOUT, MAX_PARALLEL_AGENTS};

// The budgets of the parts, in bytes.
const WORDS: usize = 6 * 1024;
const REQUEST: usize = 4 * 1024;
const FOUND: usize = 4 * 1024;
const ANSWERS: usize = 4 * 1024;
const DRAFT: usize = 4 * 1024;
const CHANGE: usize = 1024;
const REFUSED: usize = 1024;

const _: () = assert!(WORDS + REQUEST + FOUND + ANSWERS + DRAFT + CHANGE + REFUSED <= TEXT_LIMIT);

/// Of one line about the project.
const LINE: usize = 300;

/// What a person wants, and how far the dialogue about it has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlignRequest<'w> {
    /// In the person's own words.
    pub request: &'w str,
    /// What was found in the project: commands that test, lint and build it, folders, languages.
    pub found: &'w [String],
    pub answers: &'w [Clarification],
    /// The agreement as it stands, and what the person wants to be different about it.
    pub draft: Option<(&'w str, &'w str)>,
    /// Why the last proposal could not be taken.
    pub refused: Option<&'w str>,
}

/// What the agent came back with.
#[derive(Clone, Debug, PartialEq)]
pub enum AlignAnswer {
    Questions(Vec<Inquiry>),
    /// Without the request and the clarifications: those are the person's.
    Agreement(Box<Agreement>),
}

/// Make an agreement out of a request, so that agents can work on it without asking.
pub fn align(request: &AlignRequest<'_>) -> Brief {
    let mut page = BriefText::default();
    page.title("Coordinator: agree on a goal");
    page.paragraph(
        "A person wants something done in the current folder. Agents will do it in a loop, without asking again, until \
         checks that a program runs prove that it is done. Make that possible: what is to be achieved, and when it is \
         complete, may not be open; how it is done may. Read what you need, change no file: your answer is your only \
         effect.",
    );
    page.heading("What is wanted");
    page.quote("request", request.request, REQUEST);
    if !request.found.is_empty() {
        page.heading("What was found in the project");
        page.list("what was found", request.found, FOUND, |entry, line| {
            let line = entry.one_line("what was found", line, LINE);
            entry.line(0, &line);
        });
    }
    answers(&mut page, request.answers, ANSWERS);
    if let Some((draft, change)) = request.draft {
        page.heading("The agreement as it stands");
        page.quote("agreement", draft, DRAFT);
        page.paragraph("The person wants it to be different:");
        page.quote("what is to be different", change, CHANGE);
    }
    if let Some(refused) = request.refused {
        page.heading("Your last proposal could not be taken");
        page.quote("why it was refused", refused, REFUSED);
    }
    page.heading("How to go about it");
    page.paragraph(&format!(
        "If something that only the person can know is open, ask: at most {MAX_QUESTIONS} questions at once, each with \
         answers to choose from, none that the project itself answers. Otherwise propose the whole agreement. Its checks \
         are real commands that run in this folder, and at least one of them fails now and passes when it is done; a \
         check that is true already proves nothing, and a person is asked only for what no command can see. Protect the \
         files that checks rest on. Decompose the work into pieces for one agent each, with what each needs; where there are \
         several ways and it is not clear which works, give them as choices of an OR group. Each piece has a check of its own \
         that is red until it is solved, or says why there can be none. At most {MAX_NEW_ATOMS} \
         pieces.",
    ));
    Brief::close_within(DEFAULT_AGENT_TIMEOUT, Role::Coordinator, None, page, align_schema())
}

#[derive(Deserialize, JsonSchema)]
struct AlignForm {
    /// What only the person can answer; empty if nothing is open.
    questions: Vec<InquiryForm>,
    /// Exactly one proposal if there are no questions, otherwise none.
    agreement: Vec<AgreementForm>,
}

#[derive(Deserialize, JsonSchema)]
struct AgreementForm {
    /// The aim in one sentence.
    goal: String,
    /// Why it is wanted.
    background_intent: String,
    /// What is there in the end that was not before.
    deliverables: String,
    /// When it is done, in words that the checks prove.
    definition_of_done: String,
    /// What proves it.
    checks: Vec<CheckForm>,
    /// Globs of files that no agent may change: tests and scripts that the checks rest on, and that are right already.
    protected: Vec<String>,
    /// What belongs to it, where somebody might think otherwise.
    included: Vec<String>,
    /// What does not belong to it.
    excluded: Vec<String>,
    /// The work, in pieces.
    atoms: Vec<NewAtomForm>,
    /// Names of OR groups whose ways are tried at the same time, or null.
    speculative: Option<Vec<String>>,
    /// How often the loop may go round, if 20 is wrong; or null.
    max_iterations: Option<u32>,
    /// How many agents at a time, if 3 is wrong; or null.
    max_parallel_agents: Option<u32>,
}

pub(super) fn align_schema() -> Value {
    schema_of::<AlignForm>()
}

/// Reads the answer to [`align`].
pub fn read_align<'s>(said: impl Into<RawAnswer<'s>>) -> Result<AlignAnswer, Unreadable> {
    let form: AlignForm = read_as(&align_schema(), said.into())?;
    let mut reader = AnswerReader::new();
    let questions = reader.inquiries(form.questions);
    let mut proposed = form.agreement;
    match (questions.is_empty(), proposed.len()) {
        (true, 1) | (false, 0) => {}
        (true, count) => reader.faults.note(
            "agreement",
            format!("it has {count} proposals, and there are no questions"),
            "exactly one proposal, or questions",
        ),
        (false, _) => reader.faults.note("agreement", "it stands beside questions", "one or the other"),
    }
    let answer = match proposed.pop() {
        Some(form) => AlignAnswer::Agreement(Box::new(agreement(&mut reader, form))),
        None => AlignAnswer::Questions(questions),
    };
    reader.faults.into_result(answer)
}

fn agreement(reader: &mut AnswerReader, form: AgreementForm) -> Agreement {
    let mut agreement = Agreement::about("");
    let within = |name: &str| format!("agreement[0].{name}");
    let mut text = |name: &str, text: String| reader.whole(&within(name), text, DESCRIPTION_LIMIT);
    agreement.objective.goal = text("goal", form.goal);
    agreement.objective.background_intent = text("background_intent", form.background_intent);
    agreement.objective.deliverables = text("deliverables", form.deliverables);
    agreement.objective.definition_of_done = text("definition_of_done", form.definition_of_done);
    agreement.objective.base_case = reader.base_case(&within("checks"), form.checks);
    if agreement.objective.base_case.is_none() {
        reader.faults.note(&within("checks"), "it is empty", "at least one check");
    }
    agreement.objective.protected = reader.lines(&within("protected"), form.protected, QUESTION_LIMIT);
    agreement.scope = Boundaries {
        included: reader.lines(&within("included"), form.included, QUESTION_LIMIT),
        excluded: reader.lines(&within("excluded"), form.excluded, QUESTION_LIMIT),
    };
    reader.faults.at_most(&within("atoms"), form.atoms.len(), MAX_NEW_ATOMS);
    if form.atoms.is_empty() {
        reader.faults.note(&within("atoms"), "it is empty", "at least one piece of work");
    }
    agreement.atoms = reader.each(&within("atoms"), form.atoms, AnswerReader::new_atom);
    let speculative = form.speculative.unwrap_or_default();
    agreement.speculative = reader.each(&within("speculative"), speculative, AnswerReader::group_name);
    for group in &agreement.speculative {
        if !agreement.atoms.iter().any(|atom| atom.or_group.as_ref() == Some(group)) {
            let found = format!("no atom is in `{group}`");
            reader.faults.note(&within("speculative"), found, "the name of an OR group of this answer");
        }
    }
    let constraints = &mut agreement.objective.constraints;
    for (name, given, most, limit) in [
        ("max_iterations", form.max_iterations, u32::MAX, &mut constraints.max_iterations),
        (
            "max_parallel_agents",
            form.max_parallel_agents,
            MAX_PARALLEL_AGENTS,
            &mut constraints.max_parallel_agents,
        ),
    ] {
        match given {
            Some(0) => reader.faults.note(&within(name), "found 0", "at least 1, or null"),
            Some(given) if given > most => {
                reader.faults.note(
                    &within(name),
                    format!("found {given}"),
                    format!("at most {most}, or null"),
                );
            }
            Some(given) => *limit = given,
            None => {}
        }
    }
    agreement
}
