//! The coordinator agent in a redirect: the loop as it stands, contracted, and what the person wants to be different; and
//! its answer, either questions or corrections in the shape of the flags. Whether they are allowed, the rules say.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::answer::read_as;
use super::change::{AnswerReader, DESCRIPTION_LIMIT, MAX_ENTRIES, MAX_NEW_ATOMS};
use super::checks::list_checks;
use super::dialogue::{CheckForm, Inquiry, InquiryForm, MAX_QUESTIONS, NewAtomForm, QUESTION_LIMIT, answers};
use super::plan::{TrailSummary, failures, groups, resolved, unresolved};
use super::shape::{RawAnswer, Unreadable, schema_of};
use super::text::{BriefText, one_line};
use super::{Brief, NAME_LIMIT, Role, TEXT_LIMIT, short};
use crate::rules::redirect::CorrectionRequest;
use crate::state::{AtomId, Clarification, Graph, LIMITS, Limit, NewAtom, State};

// The budgets of the parts, in bytes; those of the state are the coordinator's.
const WORDS: usize = 6 * 1024;
const GOAL: usize = 512;
const BASE_CASE: usize = 1024;
const CHANGE: usize = 2 * 1024;
const ANSWERS: usize = 1536;
const REFUSED: usize = 768;
const STATE: usize = 12 * 1024;

const _: () = assert!(WORDS + GOAL + BASE_CASE + CHANGE + ANSWERS + REFUSED + STATE <= TEXT_LIMIT);

/// What a person wants to be different, and how far the dialogue about it has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedirectRequest<'t> {
    /// In the person's own words.
    pub words: &'t str,
    pub answers: &'t [Clarification],
    /// Why the last proposal could not be made.
    pub refused: Option<&'t str>,
}

/// What the agent came back with.
#[derive(Clone, Debug, PartialEq)]
pub enum RedirectAnswer {
    Questions(Vec<Inquiry>),
    Corrections { corrections: Vec<CorrectionRequest>, protect: Vec<String>, unprotect: Vec<String> },
}

/// Turns a person's words into corrections of a loop that is interrupted for them.
pub fn redirect(state: &State, graph: &Graph, turn: &RedirectRequest<'_>) -> Brief {
    let mut page = BriefText::default();
    page.title("Coordinator: change the direction");
    page.paragraph(
        "Agents solve a goal in parts called atoms. A person has interrupted them and wants something to be different. \
         Say what that means for the loop, no more and no less. Read what you need, change no file: your answer is your \
         only effect. The person sees it, and says yes or no.",
    );
    page.heading("What is to be different");
    page.quote("what is to be different", turn.words, CHANGE);
    answers(&mut page, turn.answers, ANSWERS);
    if let Some(refused) = turn.refused {
        page.heading("Your last proposal could not be made");
        page.quote("why it was refused", refused, REFUSED);
    }
    page.heading("Goal");
    page.quote("goal", &state.objective.goal, GOAL);
    if let Some(base_case) = &state.objective.base_case {
        page.paragraph("The program checks in the end:");
        list_checks(&mut page, "base case", base_case, BASE_CASE);
    }
    let control = &state.control;
    page.paragraph(&format!(
        "Iteration {} of {}, {} without progress.",
        control.iteration,
        state.constraints().max_iterations,
        control.stall_count
    ));
    let summary = TrailSummary::of(state);
    unresolved(&mut page, state, graph, &summary, &[]);
    groups(&mut page, state, graph, &summary);
    failures(&mut page, state, graph);
    resolved(&mut page, state);
    page.heading("How to go about it");
    page.paragraph(&format!(
        "If the words can be meant in several ways that differ in what is done, ask: at most {MAX_QUESTIONS} questions at \
         once, each with answers to choose from. Otherwise give the corrections; leave empty or null what stays. Another \
         goal, base case, background, deliverables or definition of done is a new agreement and clears the history of \
         choices: leave them alone unless the words change what is to be achieved. Only pending atoms can be removed, and \
         only if no other needs them; a resolved one is done again, or gets another summary, and then what rests on it \
         is done again. A way is selected, or a new one added, by the name of its group. New ids go from {} on; at most \
         {MAX_NEW_ATOMS} new atoms, each with a check that is red until it is solved, or with a reason why there can be none. \
         Nothing may wait for itself.",
        short(&state.next_id()),
    ));
    Brief::close(state, Role::Coordinator, None, page, redirect_schema())
}

#[derive(Deserialize, JsonSchema)]
struct RedirectForm {
    /// What only the person can answer; empty if the words are clear. Beside questions nothing else is read.
    questions: Vec<InquiryForm>,
    /// Another goal, or null.
    goal: Option<String>,
    /// Another reason why it is wanted, or null.
    background_intent: Option<String>,
    /// Something else that is to be there in the end, or null.
    deliverables: Option<String>,
    /// Another meaning of done, or null.
    definition_of_done: Option<String>,
    /// All checks of another base case; empty if it stays.
    base_case: Vec<CheckForm>,
    /// Limits to change.
    limits: Vec<LimitForm>,
    /// New atoms; with `or_group`, a further choice of that group.
    add: Vec<NewAtomForm>,
    /// Ids of pending atoms to take out.
    remove: Vec<String>,
    /// Choices to take.
    select: Vec<SelectForm>,
    /// Atoms that depend on something else from now on.
    depends: Vec<DependsForm>,
    /// Resolved atoms that came to something else than their summary says.
    rebind: Vec<RebindForm>,
    /// Ids of resolved atoms to do again, with all that rests on them.
    redo: Vec<String>,
    /// Globs of files that no agent may change from now on.
    protect: Vec<String>,
    /// Globs that are no longer protected.
    unprotect: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
struct LimitForm {
    /// max_iterations, max_parallel_agents, max_stall_count, agent_timeout, check_timeout, max_wall_time, max_cost_usd or
    /// max_tokens.
    limit: String,
    /// Its value, like 30 or 8h.
    value: String,
}

#[derive(Deserialize, JsonSchema)]
struct SelectForm {
    /// The name of the group.
    group: String,
    /// The id of the choice.
    atom: String,
    /// Why.
    reason: String,
}

#[derive(Deserialize, JsonSchema)]
struct DependsForm {
    /// The id of the atom.
    atom: String,
    /// All ids it needs from now on.
    depends_on: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
struct RebindForm {
    /// The id of the atom.
    atom: String,
    /// What it came to, in a sentence.
    summary: String,
}

pub(super) fn redirect_schema() -> Value {
    schema_of::<RedirectForm>()
}

/// Reads the answer to [`redirect`].
pub fn read_redirect<'s>(said: impl Into<RawAnswer<'s>>) -> Result<RedirectAnswer, Unreadable> {
    let form: RedirectForm = read_as(&redirect_schema(), said.into())?;
    let mut reader = AnswerReader::new();
    if !form.questions.is_empty() {
        let questions = reader.inquiries(form.questions);
        return reader.faults.into_result(RedirectAnswer::Questions(questions));
    }
    let answer = corrections(&mut reader, form);
    if let RedirectAnswer::Corrections { corrections, protect, unprotect } = &answer
        && corrections.is_empty()
        && protect.is_empty()
        && unprotect.is_empty()
    {
        reader.faults.note(
            "the answer",
            "it changes nothing and asks nothing",
            "a correction, or a question",
        );
    }
    reader.faults.into_result(answer)
}

fn corrections(reader: &mut AnswerReader, form: RedirectForm) -> RedirectAnswer {
    let mut corrections = Vec::new();
    let mut text = |name: &str, text: Option<String>, correct: fn(String) -> CorrectionRequest| {
        let text = text.filter(|text| !text.trim().is_empty());
        corrections.extend(text.map(|text| correct(reader.whole(name, text, DESCRIPTION_LIMIT))));
    };
    text("goal", form.goal, CorrectionRequest::Goal);
    text("background_intent", form.background_intent, CorrectionRequest::BackgroundIntent);
    text("deliverables", form.deliverables, CorrectionRequest::Deliverables);
    text("definition_of_done", form.definition_of_done, CorrectionRequest::DefinitionOfDone);
    corrections.extend(reader.base_case("base_case", form.base_case).map(CorrectionRequest::BaseCase));
    reader.faults.at_most("limits", form.limits.len(), LIMITS.len());
    for (n, form) in form.limits.into_iter().enumerate() {
        match Limit::read(form.limit.trim(), &form.value) {
            Ok(limit) => corrections.push(CorrectionRequest::Limit(limit)),
            Err(problem) => {
                let problem = one_line(&problem, 4 * NAME_LIMIT);
                reader.faults.note(&format!("limits[{n}]"), problem, "a limit by its name");
            }
        }
    }
    reader.faults.at_most("add", form.add.len(), MAX_NEW_ATOMS);
    for atom in reader.each("add", form.add, AnswerReader::new_atom) {
        corrections.push(match atom.or_group.clone() {
            Some(group) => CorrectionRequest::AddChoice { group, atom: NewAtom { or_group: None, ..atom } },
            None => CorrectionRequest::AddAtom(atom),
        });
    }
    for (name, count) in [
        ("remove", form.remove.len()),
        ("select", form.select.len()),
        ("depends", form.depends.len()),
        ("rebind", form.rebind.len()),
        ("redo", form.redo.len()),
    ] {
        reader.faults.at_most(name, count, MAX_ENTRIES);
    }
    corrections.extend(reader.each("select", form.select, |reader, field, form: SelectForm| {
        CorrectionRequest::ForceChoice {
            group: reader.group_name(&format!("{field}.group"), form.group),
            choice: reader.id(&format!("{field}.atom"), form.atom),
            reason: reader.reason(&format!("{field}.reason"), form.reason),
        }
    }));
    corrections.extend(reader.each("depends", form.depends, |reader, field, form: DependsForm| {
        CorrectionRequest::Dependencies {
            atom: reader.id(&format!("{field}.atom"), form.atom),
            depends_on: reader.needs(field, form.depends_on),
        }
    }));
    corrections.extend(reader.each("rebind", form.rebind, |reader, field, form: RebindForm| {
        CorrectionRequest::Rebind {
            atom: reader.id(&format!("{field}.atom"), form.atom),
            summary: reader.whole(&format!("{field}.summary"), form.summary, super::SUMMARY_LIMIT),
            artifacts: None,
        }
    }));
    let ids = |reader: &mut AnswerReader, name: &str, ids: Vec<String>| -> Vec<AtomId> {
        reader.each(name, ids, AnswerReader::id)
    };
    corrections.extend(
        ids(reader, "redo", form.redo)
            .into_iter()
            .map(|atom| CorrectionRequest::Redo { atom, hint: String::new() }),
    );
    corrections.extend(ids(reader, "remove", form.remove).into_iter().map(CorrectionRequest::RemoveAtom));
    RedirectAnswer::Corrections {
        corrections,
        protect: reader.lines("protect", form.protect, QUESTION_LIMIT),
        unprotect: reader.lines("unprotect", form.unprotect, QUESTION_LIMIT),
    }
}
