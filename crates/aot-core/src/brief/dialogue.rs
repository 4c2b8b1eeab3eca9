//! What the dialogues with a person have in common: questions with answers to choose from, and checks and atoms in the
//! form in which an agent writes them. The comments on the fields are what the agent reads about them.

use schemars::JsonSchema;
use serde::Deserialize;

use super::change::{AnswerReader, CHECK_LIMIT, DESCRIPTION_LIMIT, MAX_ENTRIES};
use super::text::BriefText;
use crate::state::{Check, Checks, Clarification, GroupName, Item, NewAtom, Wants};

/// So many questions are asked at once.
pub const MAX_QUESTIONS: usize = 4;
/// So many answers are suggested to one.
pub const MAX_SUGGESTIONS: usize = 4;

pub(super) const QUESTION_LIMIT: usize = 600;
pub(super) const ANSWER_SHOWN: usize = 400;

/// A question to the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inquiry {
    pub question: String,
    /// Answers to choose from, the likeliest first.
    pub suggested: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct InquiryForm {
    /// One question that only the person can answer.
    question: String,
    /// Up to four answers to choose from, the likeliest first.
    suggested: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct CheckForm {
    /// What holds when it passes, in a few words.
    item: String,
    /// How it is seen.
    r#type: CheckKind,
    /// The shell command, the path or glob, or what a person confirms.
    value: String,
    /// A name that several checks share if one of them is enough, or null.
    any_of: Option<String>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CheckKind {
    Command,
    NotCommand,
    File,
    NotFile,
    Assertion,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct NewAtomForm {
    /// An id like A1 if others in this answer need it, or null.
    id: Option<String>,
    /// The task, complete in itself: who solves it sees no more of this answer.
    description: String,
    /// Ids it needs.
    depends_on: Vec<String>,
    /// The name of an OR group if it is one of several ways to the same thing, tried in this order; or null.
    or_group: Option<String>,
    /// A shell command that exits with 0 only when it is solved, and fails before; or null.
    check: Option<String>,
    /// Why there is no check, or null.
    no_check: Option<String>,
    /// A shell command that solves it without an agent, or null.
    run: Option<String>,
}

impl AnswerReader {
    pub(super) fn inquiries(&mut self, forms: Vec<InquiryForm>) -> Vec<Inquiry> {
        self.faults.at_most("questions", forms.len(), MAX_QUESTIONS);
        self.each("questions", forms, |reader, field, form: InquiryForm| {
            let suggested = format!("{field}.suggested");
            reader.faults.at_most(&suggested, form.suggested.len(), MAX_SUGGESTIONS);
            Inquiry {
                question: reader.whole(&format!("{field}.question"), form.question, QUESTION_LIMIT),
                suggested: reader.each(&suggested, form.suggested, |reader, field, text| {
                    reader.whole(field, text, QUESTION_LIMIT)
                }),
            }
        })
    }

    /// A base case; checks that share a name are alternatives, where the first of them stands.
    pub(super) fn base_case(&mut self, field: &str, forms: Vec<CheckForm>) -> Option<Checks> {
        self.faults.at_most(field, forms.len(), MAX_ENTRIES);
        let mut items: Vec<Item> = Vec::new();
        for (n, form) in forms.into_iter().enumerate() {
            let place = format!("{field}[{n}]");
            let name = self.whole(&format!("{place}.item"), form.item, QUESTION_LIMIT);
            let value = self.whole(&format!("{place}.value"), form.value, CHECK_LIMIT);
            let check = match form.r#type {
                CheckKind::Command => Check::Command { value },
                CheckKind::NotCommand => Check::NotCommand { value },
                CheckKind::File => Check::File { value },
                CheckKind::NotFile => Check::NotFile { value },
                CheckKind::Assertion => Check::Assertion { value },
            };
            let item = Item { item: name, wants: Wants::Check(check) };
            let Some(shared) = form.any_of.filter(|shared| !shared.trim().is_empty()) else {
                items.push(item);
                continue;
            };
            let known = items.iter_mut().find_map(|known| match &mut known.wants {
                Wants::AnyOf(inner) if known.item == shared => Some(inner),
                _ => None,
            });
            match known {
                Some(inner) => inner.push(item),
                None => items.push(Item { item: shared, wants: Wants::AnyOf(vec![item]) }),
            }
        }
        (!items.is_empty()).then_some(Checks::Checklist(items))
    }

    pub(super) fn new_atom(&mut self, field: &str, form: NewAtomForm) -> NewAtom {
        let id = self.new_id(field, form.id);
        let said = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let check = said(form.check).map(|value| {
            let value = self.whole(&format!("{field}.check"), value, CHECK_LIMIT);
            Checks::Single(Check::Command { value })
        });
        NewAtom {
            id,
            description: self.whole(&format!("{field}.description"), form.description, DESCRIPTION_LIMIT),
            depends_on: self.needs(field, form.depends_on),
            or_group: said(form.or_group).map(|group| self.group(&format!("{field}.or_group"), group)),
            check,
            no_check: self.no_check(field, form.no_check),
            run: said(form.run).map(|run| self.whole(&format!("{field}.run"), run, CHECK_LIMIT)),
            ..NewAtom::default()
        }
    }

    /// Patterns of files, or lines of words.
    pub(super) fn lines(&mut self, field: &str, lines: Vec<String>, limit: usize) -> Vec<String> {
        self.faults.at_most(field, lines.len(), MAX_ENTRIES);
        self.each(field, lines, |reader, field, line| reader.whole(field, line, limit))
    }

    pub(super) fn group_name(&mut self, field: &str, name: String) -> GroupName {
        self.group(field, name)
    }
}

/// What was asked before, and what the person said to it.
pub(super) fn answers(page: &mut BriefText, answers: &[Clarification], budget: usize) {
    if answers.is_empty() {
        return;
    }
    page.heading("What you asked, and what the person answered");
    page.list("questions and answers", answers, budget, |entry, asked| {
        let question = entry.one_line("a question", &asked.question, ANSWER_SHOWN);
        entry.line(0, &question);
        entry.quote(1, "an answer", &asked.answer, ANSWER_SHOWN);
    });
}
