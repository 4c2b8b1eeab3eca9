//! The dialogue that makes an agreement: an agent's questions and its proposal, or prompts with what was found in the
//! project; then a page, a look at the checks, and a yes.

use std::path::Path;

use aot_core::brief::{self, AlignAnswer, AlignRequest, Inquiry};
use aot_core::contract;
use aot_core::rules::gate;
use aot_core::state::{
    Agreement, Background, Check, Checks, Clarification, Item, NewAtom, Objective, State, Wants,
};
use aot_core::verdict::Steering;
use aot_runner::checks::steered::open_steering;
use aot_runner::editor::{self, Edited};
use aot_runner::habits::Habits;

use super::trees::Provided;
use super::trial::{self, TrialResult};
use super::{Agreed, Draft, flags, print_notes, print_trial};
use crate::commands::dialogue_agent::Ask;
use crate::commands::{Invocation, limits};
use crate::dialogue::Dialogue;
use crate::failure::Failure;
use crate::place;

/// So many rounds of questions, and so many proposals that cannot be taken, before a person is asked instead.
const ROUNDS: usize = 12;

/// How many files of a tool the question about them names.
const STEERING_SHOWN: usize = 6;

/// What a person wants to do with the page.
#[derive(Clone, Copy)]
enum PageAnswer {
    Yes,
    Edit,
    Change,
    No,
}

pub struct AlignDialogue<'t> {
    pub invocation: &'t Invocation,
    pub path: &'t Path,
    pub dialogue: &'t Dialogue,
    pub habits: &'t Habits,
    pub ask: Option<Ask<'t>>,
    pub no_run: bool,
    /// Adds what the workers' trees get.
    pub provide: &'t dyn Fn(Draft) -> Result<Provided, Failure>,
}

impl std::fmt::Debug for AlignDialogue<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlignDialogue").field("path", &self.path).finish_non_exhaustive()
    }
}

impl AlignDialogue<'_> {
    /// From what the flags said to what somebody has said yes to; `None` if they said no.
    pub fn agree(&self, mut agreement: Agreement) -> Result<Option<Agreed>, Failure> {
        self.dialogue.tell(
            "Enter takes what is suggested, `back` returns to the question before, Ctrl-C leaves everything as it was.",
        );
        if agreement.request.is_empty() {
            agreement.request = self.dialogue.ask("\nWhat do you want?", None)?;
        }
        let proposed = match self.ask {
            Some(ask) => self.counselled(ask, &agreement, None)?,
            None => None,
        };
        let draft = match proposed {
            Some(draft) => draft,
            None => self.readable(self.prompted(agreement)?)?,
        };
        self.settled(draft)
    }

    /// A draft of what was typed. Only the atoms can be wrong, by what they depend on, so they are asked for again.
    fn readable(&self, mut agreement: Agreement) -> Result<Draft, Failure> {
        for _ in 0..ROUNDS {
            match Draft::of(&agreement).and_then(|draft| draft.state().map(|_| draft)) {
                Ok(draft) => return Ok(draft),
                Err(failure) => self.dialogue.tell(&format!("\n{}", failure.message())),
            }
            agreement = self.part(AgreementPart::Atoms, agreement)?;
        }
        Draft::of(&agreement)
    }

    /// A draft that came from elsewhere needs no questions but the last.
    pub fn settled(&self, draft: Draft) -> Result<Option<Agreed>, Failure> {
        let Provided { mut draft, notes } = (self.provide)(draft)?;
        let mut seen: Option<(Option<Checks>, TrialResult)> = None;
        loop {
            let state = match draft.state() {
                Ok(state) => state,
                Err(failure) => {
                    self.dialogue.tell(&failure.message());
                    let Some(edited) = self.edited(&draft)? else { return Ok(None) };
                    draft = edited;
                    continue;
                }
            };
            // The draft itself stays without the defaults: another base case, say, brings another check of a lone atom.
            let (checked, defaults) = draft.clone().completed()?;
            self.dialogue
                .say(&format!("\n{}", checked.page(self.dialogue.ink(), self.dialogue.columns()).trim_end()));
            print_notes(&notes);
            print_notes(&defaults);
            let missing = gate::missing(&checked.state()?);
            if missing.is_empty() {
                let checks = state.objective.base_case.clone();
                let whole = checked.state()?;
                let tried = match seen.take() {
                    Some((looked_at, tried)) if looked_at == checks => {
                        trial::lint_again(self.path, &whole, tried)?
                    }
                    Some(_) | None => trial::run(self.invocation, self.path, &whole, self.no_run)?,
                };
                print_trial(&tried);
                seen = Some((checks, tried));
            } else {
                self.dialogue.tell(&format!("\nStill missing: {}", missing.join(", ")));
            }
            let all = [
                ("yes", PageAnswer::Yes),
                ("edit", PageAnswer::Edit),
                ("change", PageAnswer::Change),
                ("no", PageAnswer::No),
            ];
            let words = if missing.is_empty() { &all[..] } else { &all[1..] };
            match self.dialogue.choose("\nAccept?", words)? {
                PageAnswer::Yes => {
                    let to_keep = seen.map(|(_, tried)| tried.to_keep).unwrap_or_default();
                    return Ok(Some(Agreed { draft: checked, to_keep }));
                }
                PageAnswer::No => return Ok(None),
                PageAnswer::Edit => draft = self.edited(&draft)?.unwrap_or(draft),
                PageAnswer::Change => draft = self.changed(&draft, &state)?,
            }
        }
    }

    /// The agreement in the person's own editor, until it can be read; `None` if the edit is given up.
    fn edited(&self, draft: &Draft) -> Result<Option<Draft>, Failure> {
        let Some(program) = place::editor() else {
            self.dialogue.tell("$EDITOR is not set; `change` asks for one part.");
            return Ok(None);
        };
        let scratch = place::Scratch::make()?;
        let file = scratch.path().join("agreement.md");
        let mut text = draft.document.text().to_owned();
        loop {
            let world = |error: std::io::Error| Failure::world("edit", error);
            let edited = self.dialogue.undisturbed(|| editor::edit(&program, &file, &text)).map_err(world)?;
            let Edited::Text(bytes) = edited else {
                self.dialogue.tell("The editor failed; the agreement is unchanged.");
                return Ok(None);
            };
            let again = Draft::read(draft.name.clone(), bytes.clone()).and_then(|draft| {
                draft.state()?;
                Ok(draft)
            });
            match again {
                Ok(draft) => return Ok(Some(draft)),
                Err(failure) => {
                    self.dialogue.tell(&failure.message());
                    let again = [("edit", true), ("drop", false)];
                    if !self.dialogue.choose("Edit it again, or drop this edit?", &again)? {
                        return Ok(None);
                    }
                    text = String::from_utf8_lossy(&bytes).into_owned();
                }
            }
        }
    }

    /// One part is to be different: in words to the agent, or by its name.
    fn changed(&self, draft: &Draft, state: &State) -> Result<Draft, Failure> {
        let agreement = agreement_of(draft, state);
        if let Some(ask) = self.ask {
            let words = self.dialogue.or_back(|| self.dialogue.ask("What should be different?", None))?;
            let Some(words) = words else { return Ok(draft.clone()) };
            if let Some(draft) = self.counselled(ask, &agreement, Some((draft.document.text(), &words)))? {
                return Ok(draft);
            }
        }
        let asked = self.dialogue.or_back(|| {
            let part = self.dialogue.choose("Which part? `back` leaves it as it is.", &PARTS)?;
            Ok((part, self.part(part, agreement)?))
        })?;
        let Some((part, changed)) = asked else { return Ok(draft.clone()) };
        let mut new = state.clone();
        new.objective = changed.objective.clone();
        if part == AgreementPart::Atoms {
            // The graph is another one, and so are its decompositions.
            let graph = changed.state();
            (new.atoms, new.or_groups, new.decompositions) = (graph.atoms, graph.or_groups, Vec::new());
        }
        let document = contract::revise(&draft.document, state, &new, &changed.scope);
        match document {
            Ok(document) => Ok(Draft { document, ..draft.clone() }),
            Err(reason) => {
                self.dialogue.tell(&format!("That cannot be written: {reason}"));
                Ok(draft.clone())
            }
        }
    }

    /// What the agent proposes, after its questions were answered; `None` if it has no proposal, which is told.
    fn counselled(
        &self,
        ask: Ask<'_>,
        agreement: &Agreement,
        change: Option<(&str, &str)>,
    ) -> Result<Option<Draft>, Failure> {
        let mut answer = |questions: &[Inquiry]| answered(self.dialogue, questions);
        match counselled(ask, &self.habits.describe(), agreement, change, &mut answer)? {
            Ok(draft) => Ok(Some(draft)),
            Err(problem) => {
                self.dialogue.tell(&format!("\n{problem}\nContinuing with prompts."));
                Ok(None)
            }
        }
    }

    /// Everything that the flags did not say, one part after the other, and back.
    fn prompted(&self, mut agreement: Agreement) -> Result<Agreement, Failure> {
        let parts = PARTS.iter().map(|(_, part)| *part);
        let open: Vec<AgreementPart> = parts.filter(|part| !part.is_said(&agreement)).collect();
        let mut at = 0;
        while let Some(part) = open.get(at) {
            match self.dialogue.or_back(|| self.part(*part, agreement.clone()))? {
                Some(answered) => {
                    agreement = answered;
                    at += 1;
                }
                None if at == 0 => self.dialogue.tell("  There is no question before this one."),
                None => {
                    self.dialogue.offer_again();
                    at -= 1;
                }
            }
        }
        Ok(agreement)
    }

    fn part(&self, part: AgreementPart, mut agreement: Agreement) -> Result<Agreement, Failure> {
        let dialogue = self.dialogue;
        let objective = &mut agreement.objective;
        match part {
            AgreementPart::Goal => {
                let derived = flags::goal_of(&agreement.request);
                let suggested = standing(&objective.goal).or(standing(&derived)).map(str::to_owned);
                objective.goal = dialogue.ask("\nThe goal, in a sentence", suggested.as_deref())?;
            }
            AgreementPart::Why => {
                let suggested =
                    standing(&objective.background_intent).unwrap_or(gate::DEFAULT_INTENT).to_owned();
                objective.background_intent = dialogue.ask("\nWhy do you want it?", Some(&suggested))?;
            }
            AgreementPart::Result => {
                let suggested =
                    standing(&objective.deliverables).unwrap_or(gate::DEFAULT_DELIVERABLES).to_owned();
                objective.deliverables =
                    dialogue.ask("\nWhat should exist when it's done?", Some(&suggested))?;
            }
            AgreementPart::Checks => {
                let items = self.checks()?;
                objective.base_case = Some(Checks::Checklist(items));
            }
            AgreementPart::Done => {
                let derived = in_words(objective.base_case.as_ref());
                let suggested = standing(&objective.definition_of_done).unwrap_or(&derived).to_owned();
                objective.definition_of_done =
                    dialogue.ask("\nWhen is it done, in words?", Some(&suggested))?;
            }
            AgreementPart::Protected => self.protected(objective)?,
            AgreementPart::Outside => {
                agreement.scope.excluded = dialogue
                    .ask_for_several("\nWhat is out of scope? One per line; an empty line ends it")?;
            }
            AgreementPart::Atoms => agreement.atoms = self.atoms(&agreement.objective.goal)?,
            AgreementPart::Limits => self.limits(objective)?,
        }
        Ok(agreement)
    }

    fn protected(&self, objective: &mut Objective) -> Result<(), Failure> {
        let found = if objective.protected.is_empty() { &self.habits.tests } else { &objective.protected };
        let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
        let question = "\nWhich files may no worker change? Globs with commas between them, or `none`";
        loop {
            let said = self.dialogue.ask(question, Some(&found))?;
            let globs = said.split(',').map(str::trim).filter(|glob| !glob.is_empty() && *glob != "none");
            objective.protected = globs.map(str::to_owned).collect();
            let steering = open_steering(objective);
            if steering.is_empty() {
                return Ok(());
            }
            let Some(protects) = self.dialogue.or_back(|| self.protects(&steering))? else {
                self.dialogue.offer_again();
                continue;
            };
            if protects {
                objective.protected.extend(steering.into_iter().flat_map(|one| one.globs));
                objective.protected.dedup();
            }
            return Ok(());
        }
    }

    /// Each line is a limit; one that cannot be read is told, and the others count.
    fn limits(&self, objective: &mut Objective) -> Result<(), Failure> {
        let lines = self.dialogue.ask_for_several(&format!("\n{LIMITS}"))?;
        for line in lines {
            match limits::assigned(&line) {
                Ok(limit) => objective.constraints = limit.within(objective.constraints.clone()),
                Err(failure) => self.dialogue.tell(&format!("{} ({})", failure.message(), failure.hint())),
            }
        }
        Ok(())
    }

    /// Whether files that decide how the checks run are to be protected, too.
    fn protects(&self, steering: &[Steering]) -> Result<bool, Failure> {
        self.dialogue.tell("\nA worker could also turn a check green by changing these files:");
        for Steering { tool, globs } in steering {
            let shown = globs.iter().filter(|glob| !glob.contains('{')).take(STEERING_SHOWN);
            let shown = shown.map(String::as_str).collect::<Vec<_>>().join(", ");
            let shown = if shown.is_empty() { "modules of Python's own names".to_owned() } else { shown };
            let more = if globs.len() > STEERING_SHOWN { ", …" } else { "" };
            self.dialogue.tell(&format!("  {tool}: {shown}{more}"));
        }
        let question = "Protect these, too? With `no`, changes to them are reported at the end.";
        self.dialogue.choose(question, &[("yes", true), ("no", false)])
    }

    /// What proves it: numbers of what was found, commands, and a few words for the other kinds.
    fn checks(&self) -> Result<Vec<Item>, Failure> {
        let found = &self.habits.commands;
        self.dialogue.tell("\nWhat proves that it is done? One per line; an empty line ends it.");
        for (number, habit) in found.iter().enumerate() {
            self.dialogue.say(&format!("  {:>2}  {}  ({})", number + 1, habit.command, habit.from));
        }
        let numbers = if found.is_empty() { "" } else { "A number takes one of these. " };
        let question = format!(
            "{numbers}`COMMAND` must succeed; `not COMMAND` must fail; `file GLOB` must exist; `confirm TEXT` asks a person."
        );
        let mut question = question.as_str();
        loop {
            let mut items = Vec::new();
            for line in self.dialogue.ask_for_several(question)? {
                let named = line.parse::<usize>().ok().and_then(|number| found.get(number.checked_sub(1)?));
                items.push(match named {
                    Some(habit) => flags::command(&habit.command),
                    None => check_in_words(&line),
                });
            }
            match (items.is_empty(), found.first()) {
                (false, _) => return Ok(items),
                (true, Some(first)) => {
                    let first = &first.command;
                    self.dialogue.say(&format!("  {first}"));
                    return Ok(vec![flags::command(first)]);
                }
                (true, None) => question = "Required: at least one line",
            }
        }
    }

    fn atoms(&self, goal: &str) -> Result<Vec<NewAtom>, Failure> {
        let question = "\nThe pieces of work, one per line: A1, A2 and so on in this order; `<- A1,A2` at the end says what one depends \
                        on. An empty line ends it; with none, the goal is the only piece.";
        let lines = self.dialogue.ask_for_several(question)?;
        let atoms: Vec<NewAtom> =
            lines.iter().map(|line| flags::atom("a piece of work", line)).collect::<Result<_, _>>()?;
        let whole = || vec![NewAtom { description: goal.to_owned(), ..NewAtom::default() }];
        Ok(if atoms.is_empty() { whole() } else { atoms })
    }
}

/// The parts of an agreement, by the names of the page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AgreementPart {
    Goal,
    Why,
    Result,
    Checks,
    Done,
    Protected,
    Outside,
    Atoms,
    Limits,
}

const PARTS: [(&str, AgreementPart); 9] = [
    ("goal", AgreementPart::Goal),
    ("why", AgreementPart::Why),
    ("result", AgreementPart::Result),
    ("checks", AgreementPart::Checks),
    ("done", AgreementPart::Done),
    ("protected", AgreementPart::Protected),
    ("outside", AgreementPart::Outside),
    ("atoms", AgreementPart::Atoms),
    ("limits", AgreementPart::Limits),
];

/// How the limits are asked for.
const LIMITS: &str = "Which limits? One per line, like `max_iterations=30`; an empty line ends it. There are max_iterations, \
                      max_parallel_agents, max_stall_count, agent_timeout, check_timeout, max_wall_time, max_cost_usd and \
                      max_tokens; a time is written like `4h`.";

impl AgreementPart {
    /// Whether the flags said it, or it is not asked for unless somebody wants it to be different.
    fn is_said(self, agreement: &Agreement) -> bool {
        let Agreement { objective, atoms, scope, request: _, speculative: _, clarifications: _ } = agreement;
        match self {
            AgreementPart::Goal => !objective.goal.trim().is_empty(),
            AgreementPart::Why => !objective.background_intent.trim().is_empty(),
            AgreementPart::Result => !objective.deliverables.trim().is_empty(),
            AgreementPart::Checks => objective.base_case.is_some(),
            AgreementPart::Done => !objective.definition_of_done.trim().is_empty(),
            AgreementPart::Protected => !objective.protected.is_empty(),
            AgreementPart::Outside => !scope.excluded.is_empty(),
            AgreementPart::Atoms => !atoms.is_empty(),
            AgreementPart::Limits => true,
        }
    }
}

/// Answers an agent's questions: a person does, or the agent's own suggestions.
pub type Answering<'a> = &'a mut dyn FnMut(&[Inquiry]) -> Result<Vec<Clarification>, Failure>;

/// Questions and proposals of an agent, until there is one that can be read; otherwise why there is none.
pub fn counselled(
    ask: Ask<'_>,
    found: &[String],
    agreement: &Agreement,
    change: Option<(&str, &str)>,
    answer: Answering<'_>,
) -> Result<Result<Draft, String>, Failure> {
    let mut answers = agreement.clarifications.clone();
    let mut refused: Option<String> = None;
    for _ in 0..ROUNDS {
        let brief = brief::align(&AlignRequest {
            request: &agreement.request,
            found,
            answers: &answers,
            draft: change,
            refused: refused.as_deref(),
        });
        let said = ask(&brief).and_then(|value| brief::read_align(&value).map_err(|wrong| wrong.reason));
        let proposal = match said {
            Ok(AlignAnswer::Questions(questions)) => {
                answers.extend(answer(&questions)?);
                continue;
            }
            Ok(AlignAnswer::Agreement(proposal)) => *proposal,
            Err(problem) => return Ok(Err(problem)),
        };
        let whole = Agreement {
            request: agreement.request.clone(),
            clarifications: answers.clone(),
            ..overlaid(proposal, agreement, change.is_some())
        };
        match Draft::of(&whole).and_then(|draft| draft.whole().map(|_| draft)) {
            Ok(draft) => return Ok(Ok(draft)),
            Err(failure) => refused = Some(failure.message()),
        }
    }
    Ok(Err(match refused {
        Some(refused) => format!("the agent made no proposal that can be used: {refused}"),
        None => "the agent made no proposal".to_owned(),
    }))
}

/// A batch of questions, each with answers to choose from by their number.
pub fn answered(dialogue: &Dialogue, questions: &[Inquiry]) -> Result<Vec<Clarification>, Failure> {
    let mut answers = Vec::new();
    for (number, Inquiry { question, suggested }) in questions.iter().enumerate() {
        dialogue.tell(&format!("\n{} of {}  {question}", number + 1, questions.len()));
        for (number, suggestion) in suggested.iter().enumerate() {
            dialogue.tell(&format!("  {}  {suggestion}", number + 1));
        }
        let hint = if suggested.is_empty() { "In your own words:" } else { "A number, or your own words:" };
        let said = dialogue.ask_about(question, hint, suggested.first().map(String::as_str))?;
        let chosen = said.parse::<usize>().ok().and_then(|number| suggested.get(number.checked_sub(1)?));
        let answer = chosen.cloned().unwrap_or(said);
        answers.push(Clarification { question: question.clone(), answer });
    }
    Ok(answers)
}

/// What the flags said stands over what the agent proposed, unless the person has seen it and wants another.
fn overlaid(mut proposal: Agreement, given: &Agreement, seen: bool) -> Agreement {
    if seen {
        return proposal;
    }
    let (ours, theirs) = (&given.objective, &mut proposal.objective);
    flags::texts_over(theirs, ours);
    if ours.base_case.is_some() {
        theirs.base_case.clone_from(&ours.base_case);
    }
    if !ours.protected.is_empty() {
        theirs.protected.clone_from(&ours.protected);
    }
    if ours.constraints != aot_core::state::Constraints::default() {
        theirs.constraints = ours.constraints.clone();
    }
    if !given.atoms.is_empty() {
        proposal.atoms.clone_from(&given.atoms);
        proposal.speculative.clear();
    }
    proposal.speculative.extend(given.speculative.iter().cloned());
    proposal.scope.included.extend(given.scope.included.iter().cloned());
    proposal.scope.excluded.extend(given.scope.excluded.iter().cloned());
    proposal
}

/// A draft as plain data again, to change a part of it.
fn agreement_of(draft: &Draft, state: &State) -> Agreement {
    let Background { clarifications, scope } = contract::background(&draft.document);
    let atoms = state.atoms.values().map(|atom| NewAtom::from((**atom).clone()));
    let racing = state.or_groups.iter().filter(|(_, entry)| entry.is_speculative());
    Agreement {
        request: contract::request(&draft.document).to_owned(),
        objective: state.objective.clone(),
        atoms: atoms.collect(),
        speculative: racing.map(|(name, _)| name.clone()).collect(),
        clarifications,
        scope,
    }
}

pub fn check_in_words(line: &str) -> Item {
    let after = |word: &str| {
        line.strip_prefix(word).map(str::trim).filter(|rest| !rest.is_empty()).map(str::to_owned)
    };
    let named = |name: String, check: Check| Item { item: name, wants: Wants::Check(check) };
    if let Some(value) = after("not ") {
        return named(format!("fails: {value}"), Check::NotCommand { value });
    }
    if let Some(value) = after("file ") {
        return named(format!("{value} exists"), Check::File { value });
    }
    if let Some(value) = after("confirm ") {
        return named(value.clone(), Check::Assertion { value });
    }
    flags::command(line)
}

/// A base case in words for people.
fn in_words(checks: Option<&Checks>) -> String {
    let Some(Checks::Checklist(items)) = checks else { return "The check passes".into() };
    let named: Vec<&str> = items.iter().map(|item| item.item.as_str()).collect();
    match &named[..] {
        [one] => format!("This holds: {one}"),
        several => format!("All of this holds: {}", several.join("; ")),
    }
}

fn standing(text: &str) -> Option<&str> {
    (!text.trim().is_empty()).then_some(text)
}
