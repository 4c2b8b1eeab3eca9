//! What the dialogues with a person have in common: questions with answers to choose from, and checks and atoms in the
//! form in which an agent writes them. The comments on the fields are what the agent reads about them.

use schemars::JsonSchema;
use serde::Deserialize;

use super::change::{AnswerReader, CHECK_LIMIT, DESCRIPTION_LIMIT, MAX_ENTRIES};
use super::text::BriefText;
use crate::state::{Check, CheckKind, Checks, Clarification, GroupName, Item, NewAtom, Quality, Wants};
use crate::verdict::{HIGHEST_SCORE, LOWEST_SCORE};

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
    /// The shell command, the path or glob, what a person confirms, or what a judge scores.
    value: String,
    /// The least that a judge's score of 1 to 5 must be, for `quality`; or null.
    pass_threshold: Option<f64>,
    /// A name that several checks share if one of them is enough, or null.
    any_of: Option<String>,
    /// A name that several checks share if they belong together, or null.
    group: Option<String>,
}

/// How checks that share a name count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Together {
    All,
    Any,
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
    /// True if somebody should look whether it can be done before it is begun, or null.
    probe: Option<bool>,
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

    /// A base case; checks that share a name are alternatives, or belong together, where the first of them stands.
    pub(super) fn base_case(&mut self, field: &str, forms: Vec<CheckForm>) -> Option<Checks> {
        self.faults.at_most(field, forms.len(), MAX_ENTRIES);
        let mut items: Vec<Item> = Vec::new();
        for (n, form) in forms.into_iter().enumerate() {
            let place = format!("{field}[{n}]");
            let said = |name: &Option<String>| name.clone().filter(|name| !name.trim().is_empty());
            let shared = match (said(&form.any_of), said(&form.group)) {
                (Some(_), Some(_)) => {
                    let found = "it has both `any_of` and `group`";
                    self.faults.note(&place, found, "one of them, or none");
                    None
                }
                (Some(name), None) => Some((name, Together::Any)),
                (None, Some(name)) => Some((name, Together::All)),
                (None, None) => None,
            };
            let item = self.check(&place, form);
            match shared {
                None => items.push(item),
                Some((name, together)) => put_together(&mut items, name, together, item),
            }
        }
        (!items.is_empty()).then_some(Checks::Checklist(items))
    }

    fn check(&mut self, place: &str, form: CheckForm) -> Item {
        let item = self.whole(&format!("{place}.item"), form.item, QUESTION_LIMIT);
        let value = self.whole(&format!("{place}.value"), form.value, CHECK_LIMIT);
        let check = match form.r#type {
            CheckKind::Command => Check::Command { value },
            CheckKind::NotCommand => Check::NotCommand { value },
            CheckKind::File => Check::File { value },
            CheckKind::NotFile => Check::NotFile { value },
            CheckKind::Assertion => Check::Assertion { value },
            CheckKind::Quality => {
                let lowest_and_highest = f64::from(LOWEST_SCORE)..=f64::from(HIGHEST_SCORE);
                let threshold =
                    form.pass_threshold.filter(|threshold| lowest_and_highest.contains(threshold));
                if threshold.is_none() {
                    let found =
                        form.pass_threshold.map_or("it is null".into(), |given| format!("found {given}"));
                    self.faults.note(&format!("{place}.pass_threshold"), found, "a number from 1 to 5");
                }
                let pass_threshold = threshold.unwrap_or_default();
                Check::Quality(Quality {
                    criteria: Some(value),
                    rubric: Vec::new(),
                    pass_threshold,
                    scope: None,
                })
            }
        };
        Item { item, wants: Wants::Check(check) }
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
            probe: form.probe.filter(|probe| *probe),
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

fn put_together(items: &mut Vec<Item>, name: String, together: Together, item: Item) {
    let known =
        items.iter_mut().filter(|known| known.item == name).find_map(|known| match &mut known.wants {
            Wants::AnyOf(inner) if together == Together::Any => Some(inner),
            Wants::Group(inner) if together == Together::All => Some(inner),
            Wants::AnyOf(_) | Wants::Group(_) | Wants::Check(_) => None,
        });
    match (known, together) {
        (Some(inner), _) => inner.push(item),
        (None, Together::Any) => items.push(Item { item: name, wants: Wants::AnyOf(vec![item]) }),
        (None, Together::All) => items.push(Item { item: name, wants: Wants::Group(vec![item]) }),
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
