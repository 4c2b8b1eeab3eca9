//! What a colleague would want to know of the agreement (D6): why the goal is wanted, what is to be delivered, when it is
//! done, where it ends, what was asked and answered, and what people corrected since.

use super::checks::list_checks;
use super::text::BriefText;
use super::{LINE_LIMIT, RedCheck};
use crate::state::State;

// The budgets of the parts, in bytes.
const INTENT: usize = 512;
const DELIVERABLES: usize = 512;
const DONE: usize = 512;
const SCOPE: usize = 512;
const ANSWERS: usize = 768;
const CORRECTIONS: usize = 768;
const CHECKS: usize = 1536;
const RED: usize = 1536;

/// Of one red check.
const REASON: usize = 640;

/// All of [`agreed`], in bytes.
pub(super) const AGREED: usize = INTENT + DELIVERABLES + DONE + SCOPE + ANSWERS + CORRECTIONS + 384;

/// All of [`base_case`], in bytes.
pub(super) const BASE_CASE: usize = CHECKS + RED + 128;

pub(super) fn agreed(page: &mut BriefText, state: &State) {
    let objective = &state.objective;
    page.heading("What was agreed");
    page.paragraph("Why:");
    page.quote("background intent", &objective.background_intent, INTENT);
    page.paragraph("To be delivered:");
    page.quote("deliverables", &objective.deliverables, DELIVERABLES);
    page.paragraph("The whole is done when:");
    page.quote("definition of done", &objective.definition_of_done, DONE);
    let scope = &state.background.scope;
    for (words, list) in [("In scope:", &scope.included), ("Not in scope:", &scope.excluded)] {
        if !list.is_empty() {
            page.paragraph(words);
            page.list("scope", list, SCOPE / 2, |entry, text| {
                entry.item("scope", text, LINE_LIMIT);
            });
        }
    }
    if !state.background.clarifications.is_empty() {
        page.paragraph("Asked and answered:");
        page.list("answers", &state.background.clarifications, ANSWERS, |entry, asked| {
            let question = entry.one_line("a question", &asked.question, LINE_LIMIT);
            entry.line(0, &question);
            entry.quote(1, "an answer", &asked.answer, LINE_LIMIT);
        });
    }
    if !state.corrections.is_empty() {
        page.paragraph("Corrected by people since, the latest first:");
        page.list("corrections", state.corrections.iter().rev(), CORRECTIONS, |entry, correction| {
            entry.item("a correction", &correction.description, LINE_LIMIT);
        });
    }
}

/// The checks of the whole, and what its last look saw.
pub(super) fn base_case(page: &mut BriefText, state: &State, red: &[RedCheck]) {
    let Some(checks) = &state.objective.base_case else { return };
    page.paragraph("The program checks the whole in the end:");
    list_checks(page, "base case", checks, CHECKS);
    if !red.is_empty() {
        page.paragraph("When it last looked, these did not pass; others may be at work on them:");
        page.list("red checks", red, RED, |entry, red| {
            let item = entry.one_line("a red check", &red.item, LINE_LIMIT);
            entry.line(0, &item);
            entry.failure(1, "what a red check said", &red.reason, REASON);
        });
    }
}
