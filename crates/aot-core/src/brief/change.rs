//! The coordinator's answer: a change of plan in the form in which an agent writes it. The comments on the fields are
//! what the agent reads about them. Bounds how much one answer may ask for; whether it fits the graph, the rules say.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::answer::{REASON_LIMIT, read_as};
use super::shape::{Faults, RawAnswer, Unreadable, schema_of};
use super::text::one_line;
use crate::rules::replan::{Abandon, Alternative, NewDecomposition, PlanChange, Rewire};
use crate::rules::reshape::NewAtom;
use crate::state::{AtomId, Check, Checks, GroupName};

/// Atoms that one answer may add, children and alternatives included.
pub const MAX_NEW_ATOMS: usize = 32;
/// Children of one atom.
pub const MAX_CHILDREN: usize = 12;
/// Entries of any other list in the answer.
pub const MAX_ENTRIES: usize = 64;
/// A task or a command is not cut, since the rest of it would be another one: longer, in bytes, is refused.
pub const DESCRIPTION_LIMIT: usize = 4000;
pub const CHECK_LIMIT: usize = 2000;

#[derive(Deserialize, JsonSchema)]
struct PlanForm {
    /// Why, in a sentence.
    reason: String,
    /// Atoms whose decomposition is taken back, so that they are solved whole; possible while none of their parts is resolved.
    withdrawals: Vec<String>,
    /// Atoms to decompose into parts. The atom is then resolved by its parts.
    decompositions: Vec<DecompositionForm>,
    /// New atoms beside the others.
    atoms: Vec<AtomForm>,
    /// Other ways to do what an atom does, tried when it fails.
    alternatives: Vec<AlternativeForm>,
    /// Atoms whose dependencies are wrong.
    dependencies: Vec<RewireForm>,
    /// OR groups whose selected choice is given up for the next; what rests on it is done again.
    abandon: Vec<AbandonForm>,
}

#[derive(Deserialize, JsonSchema)]
struct DecompositionForm {
    /// The id of the atom to decompose.
    parent: String,
    /// Why it is decomposed.
    reason: String,
    /// Its parts; each needs what the parent needs, without saying so.
    children: Vec<AtomForm>,
}

#[derive(Deserialize, JsonSchema)]
struct AlternativeForm {
    /// The id of the atom it stands in for.
    to: String,
    /// A name for their OR group if there is none yet, or null.
    group: Option<String>,
    /// The other way.
    atom: AtomForm,
}

#[derive(Deserialize, JsonSchema)]
struct RewireForm {
    /// The id of the atom.
    atom: String,
    /// All ids it needs from now on.
    depends_on: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
struct AbandonForm {
    /// The name of the group.
    group: String,
    /// Why.
    reason: String,
}

#[derive(Deserialize, JsonSchema)]
struct AtomForm {
    /// A new id if others in this answer need it, or null.
    id: Option<String>,
    /// The task, complete in itself: who solves it sees no more of this answer.
    description: String,
    /// Ids it needs.
    depends_on: Vec<String>,
    /// A shell command that exits with 0 only when it is solved, and fails before; or null.
    check: Option<String>,
    /// Why there is no check, or null.
    no_check: Option<String>,
    /// True if somebody should look whether it can be done before it is begun, or null.
    probe: Option<bool>,
}

pub fn plan_change_schema() -> Value {
    schema_of::<PlanForm>()
}

/// Reads a coordinator's answer. An empty plan is an answer too.
pub fn read_plan_change<'s>(said: impl Into<RawAnswer<'s>>) -> Result<PlanChange, Unreadable> {
    let form: PlanForm = read_as(&plan_change_schema(), said.into())?;
    let mut reader = AnswerReader::new();
    within_limits(&form, &mut reader.faults);
    let change = reader.plan(form);
    reader.faults.into_result(change)
}

fn within_limits(form: &PlanForm, faults: &mut Faults) {
    faults.at_most("withdrawals", form.withdrawals.len(), MAX_ENTRIES);
    faults.at_most("dependencies", form.dependencies.len(), MAX_ENTRIES);
    faults.at_most("abandon", form.abandon.len(), MAX_ENTRIES);
    for (n, decomposition) in form.decompositions.iter().enumerate() {
        let field = format!("decompositions[{n}].children");
        faults.at_most(&field, decomposition.children.len(), MAX_CHILDREN);
        if decomposition.children.is_empty() {
            faults.note(&field, "it is empty", "at least one part");
        }
    }
    let children: usize = form.decompositions.iter().map(|form| form.children.len()).sum();
    let new = children + form.atoms.len() + form.alternatives.len();
    if new > MAX_NEW_ATOMS {
        faults.note("the answer", format!("it adds {new} atoms"), format!("at most {MAX_NEW_ATOMS}"));
    }
}

pub(super) struct AnswerReader {
    pub(super) faults: Faults,
    /// Ids that the answer has given to new atoms so far.
    new: HashSet<String>,
}

impl AnswerReader {
    pub(super) fn new() -> AnswerReader {
        AnswerReader { faults: Faults::default(), new: HashSet::new() }
    }

    fn plan(&mut self, form: PlanForm) -> PlanChange {
        PlanChange {
            reason: self.reason("reason", form.reason),
            withdrawals: self.each("withdrawals", form.withdrawals, AnswerReader::id),
            decompositions: self.each("decompositions", form.decompositions, AnswerReader::decomposition),
            atoms: self.each("atoms", form.atoms, AnswerReader::atom),
            alternatives: self.each("alternatives", form.alternatives, AnswerReader::alternative),
            dependencies: self.each("dependencies", form.dependencies, AnswerReader::rewire),
            abandon: self.each("abandon", form.abandon, AnswerReader::abandon),
        }
    }

    pub(super) fn each<F, T>(
        &mut self,
        field: &str,
        forms: Vec<F>,
        read: impl Fn(&mut AnswerReader, &str, F) -> T,
    ) -> Vec<T> {
        forms.into_iter().enumerate().map(|(n, form)| read(self, &format!("{field}[{n}]"), form)).collect()
    }

    fn decomposition(&mut self, field: &str, form: DecompositionForm) -> NewDecomposition {
        NewDecomposition {
            parent: self.id(&format!("{field}.parent"), form.parent),
            reason: self.reason(&format!("{field}.reason"), form.reason),
            children: self.each(&format!("{field}.children"), form.children, AnswerReader::atom),
        }
    }

    fn alternative(&mut self, field: &str, form: AlternativeForm) -> Alternative {
        Alternative {
            to: self.id(&format!("{field}.to"), form.to),
            group: form.group.map(|group| self.group(&format!("{field}.group"), group)),
            atom: self.atom(&format!("{field}.atom"), form.atom),
        }
    }

    fn rewire(&mut self, field: &str, form: RewireForm) -> Rewire {
        Rewire {
            atom: self.id(&format!("{field}.atom"), form.atom),
            depends_on: self.needs(field, form.depends_on),
        }
    }

    fn abandon(&mut self, field: &str, form: AbandonForm) -> Abandon {
        Abandon {
            group: self.group(&format!("{field}.group"), form.group),
            reason: self.reason(&format!("{field}.reason"), form.reason),
        }
    }

    fn atom(&mut self, field: &str, form: AtomForm) -> NewAtom {
        let id = self.new_id(field, form.id);
        let check = form.check.map(|value| {
            let value = self.whole(&format!("{field}.check"), value, CHECK_LIMIT);
            Checks::Single(Check::Command { value })
        });
        NewAtom {
            id,
            description: self.whole(&format!("{field}.description"), form.description, DESCRIPTION_LIMIT),
            depends_on: self.needs(field, form.depends_on),
            check,
            no_check: self.no_check(field, form.no_check),
            probe: form.probe.filter(|probe| *probe),
            ..NewAtom::default()
        }
    }

    /// Why an atom has no check.
    pub(super) fn no_check(&mut self, field: &str, why: Option<String>) -> Option<String> {
        let why = why.filter(|why| !why.trim().is_empty())?;
        Some(self.reason(&format!("{field}.no_check"), why))
    }

    /// The id that an answer gives to a new atom: one of its own.
    pub(super) fn new_id(&mut self, field: &str, id: Option<String>) -> Option<AtomId> {
        let id = id?;
        if !self.new.insert(id.clone()) {
            let found = format!("`{}` is given twice", one_line(&id, super::NAME_LIMIT));
            self.faults.note(&format!("{field}.id"), found, "an id of its own for each new atom");
        }
        Some(self.id(&format!("{field}.id"), id))
    }

    pub(super) fn needs(&mut self, field: &str, ids: Vec<String>) -> Vec<AtomId> {
        let field = format!("{field}.depends_on");
        self.faults.at_most(&field, ids.len(), MAX_ENTRIES);
        let mut seen = HashSet::new();
        let once = ids.into_iter().filter(|id| seen.insert(id.clone())).collect();
        self.each(&field, once, AnswerReader::id)
    }

    pub(super) fn id(&mut self, field: &str, id: String) -> AtomId {
        AtomId::new(self.name(field, id))
    }

    pub(super) fn group(&mut self, field: &str, group: String) -> GroupName {
        GroupName::new(self.name(field, group))
    }

    pub(super) fn name(&mut self, field: &str, name: String) -> String {
        if !AtomId::is_usable(&name) {
            let found = format!("found \"{}\"", one_line(&name, super::NAME_LIMIT));
            self.faults.note(field, found, "one word of letters, digits, `_`, `-` and `.`");
        }
        name
    }

    pub(super) fn reason(&mut self, field: &str, mut reason: String) -> String {
        self.faults.prose(field, &mut reason, REASON_LIMIT);
        reason
    }

    /// Text that must come whole or not at all.
    pub(super) fn whole(&mut self, field: &str, mut text: String, limit: usize) -> String {
        if text.trim().len() > limit {
            self.faults.note(field, format!("it has {} bytes", text.len()), format!("at most {limit}"));
            return text;
        }
        self.faults.prose(field, &mut text, limit);
        text
    }
}
