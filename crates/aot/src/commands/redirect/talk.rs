//! The dialogue of a redirect: where the loop stands, what is to be different, what that would change, and a yes. In words
//! to an agent, or by a menu.

use aot_core::brief::{self, Inquiry, RedirectAnswer, RedirectRequest};
use aot_core::rules::Ledger;
use aot_core::rules::redirect::CorrectionRequest;
use aot_core::state::{AtomId, Checks, Clarification, Graph, State};
use aot_runner::tree::Project;

use super::changes::{self, Changes};
use super::decide;
use crate::commands::align::{self, Answering};
use crate::commands::dialogue_agent::Ask;
use crate::dialogue::{Dialogue, PersonLeft};
use crate::failure::Failure;
use crate::screens::{agreement, difference};
use crate::text;

/// So many proposals that cannot be made, or rounds of questions, before a person is asked instead.
const ROUNDS: usize = 12;

#[derive(Clone, Copy)]
enum ChangeAnswer {
    Yes,
    Edit,
    Cancel,
}

pub struct RedirectDialogue<'t> {
    pub dialogue: &'t Dialogue,
    pub project: &'t Project,
    pub state: &'t State,
    pub ask: Option<Ask<'t>>,
}

impl std::fmt::Debug for RedirectDialogue<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedirectDialogue").field("project", &self.project).finish_non_exhaustive()
    }
}

impl RedirectDialogue<'_> {
    /// What somebody has said yes to; `None` if they cancelled.
    pub fn agree(&self, words: &str) -> Result<Option<Changes>, Failure> {
        let page = agreement::now(self.state, self.dialogue.ink(), self.dialogue.columns());
        self.dialogue.say(&format!("\n{}", page.trim_end()));
        let mut words = words.trim().to_owned();
        let mut changes = Changes::default();
        let mut answers = Vec::new();
        loop {
            let proposed = match self.ask {
                Some(ask) => {
                    if words.is_empty() {
                        words = self.dialogue.ask("\nWhat should be different?", None)?;
                    }
                    self.counselled(ask, &words, &mut answers)?
                }
                None => None,
            };
            changes = match proposed {
                Some(changes) => changes,
                None => match self.menu(changes)? {
                    Some(changes) => changes,
                    None => return Ok(None),
                },
            };
            let after = self.after(&changes)?;
            let drawn = difference::draw(self.state, &after, self.dialogue.ink(), self.dialogue.columns());
            self.dialogue.say(&format!("\n{}", drawn.trim_end()));
            let choices =
                [("yes", ChangeAnswer::Yes), ("edit", ChangeAnswer::Edit), ("cancel", ChangeAnswer::Cancel)];
            match self.dialogue.choose("\nMake this change?", &choices)? {
                ChangeAnswer::Yes => return Ok(Some(changes)),
                ChangeAnswer::Cancel => return Ok(None),
                ChangeAnswer::Edit if self.ask.is_some() => {
                    let more = self.dialogue.ask("What should be different about it?", None)?;
                    let question = "What should be different about that proposal?".to_owned();
                    answers.push(Clarification { question, answer: more });
                }
                ChangeAnswer::Edit => {}
            }
        }
    }

    /// The state as it would be.
    fn after(&self, changes: &Changes) -> Result<State, Failure> {
        let mut trial = Ledger::open(self.state.clone(), jiff::Timestamp::now());
        decide(&mut trial, changes, self.project)?;
        Ok(trial.close().0)
    }

    /// What the agent proposes; `None` if it has no proposal, which is told.
    fn counselled(
        &self,
        ask: Ask<'_>,
        words: &str,
        answers: &mut Vec<Clarification>,
    ) -> Result<Option<Changes>, Failure> {
        let mut answer = |questions: &[Inquiry]| align::answered(self.dialogue, questions);
        let after = |changes: &Changes| self.after(changes).map(drop);
        match counselled(ask, self.state, (words, answers), &after, &mut answer)? {
            Ok(changes) => Ok(Some(changes)),
            Err(problem) => {
                self.dialogue.tell(&format!("\n{problem}\nContinuing with the menu."));
                Ok(None)
            }
        }
    }

    /// One correction after the other, each tried at once; `None` if the person cancelled.
    fn menu(&self, mut changes: Changes) -> Result<Option<Changes>, Failure> {
        self.show_menu();
        let words = MENU.map(|(word, entry, _)| (word, entry));
        loop {
            let so_far = changes.corrections.len() + changes.protect.len() + changes.unprotect.len();
            let question = match so_far {
                0 => "\nWhat should be different?".to_owned(),
                1 => {
                    "\n1 change so far. What else should be different? `make` shows it as a whole.".to_owned()
                }
                many => format!(
                    "\n{many} changes so far. What else should be different? `make` shows them as a whole."
                ),
            };
            let entry = self.dialogue.choose(&question, &words)?;
            match entry {
                MenuItem::Cancel => return Ok(None),
                MenuItem::Help => self.show_menu(),
                MenuItem::Make if changes.is_empty() => self.dialogue.tell("There is no change yet."),
                MenuItem::Make => return Ok(Some(changes)),
                MenuItem::Drop => {
                    let dropped = changes.protect.pop().is_some()
                        || changes.unprotect.pop().is_some()
                        || changes.corrections.pop().is_some();
                    self.dialogue.tell(if dropped {
                        "The last one is dropped."
                    } else {
                        "There is none yet."
                    });
                }
                MenuItem::Protect => {
                    let glob = || self.dialogue.ask("Which files may no worker change? A glob", None);
                    let Some(glob) = self.dialogue.or_back(glob)? else { continue };
                    let mut more = changes.clone();
                    more.protect.push(glob);
                    changes = self.tried(changes, more);
                }
                other => {
                    let mut more = changes.clone();
                    match self.dialogue.or_back(|| self.entry(other)) {
                        Ok(Some(correction)) => more.corrections.push(correction),
                        Ok(None) => continue,
                        Err(failure) if failure.error::<PersonLeft>().is_some() => return Err(failure),
                        Err(failure) => {
                            self.dialogue.tell(&failure.message());
                            continue;
                        }
                    }
                    changes = self.tried(changes, more);
                }
            }
        }
    }

    fn show_menu(&self) {
        self.dialogue.say("");
        for (word, _, help) in MENU {
            let lines = text::beside(&format!("  {word}"), 11, help, self.dialogue.columns());
            lines.iter().for_each(|line| self.dialogue.say(line));
        }
    }

    /// One more change, if it can be made; otherwise it is told why not.
    fn tried(&self, changes: Changes, more: Changes) -> Changes {
        match self.after(&more) {
            Ok(_) => more,
            Err(failure) => {
                self.dialogue.tell(&format!("{} ({})", failure.message(), failure.hint()));
                changes
            }
        }
    }

    fn entry(&self, entry: MenuItem) -> Result<CorrectionRequest, Failure> {
        let objective = &self.state.objective;
        let ask = |question: &str, standing: Option<&str>| self.dialogue.ask(question, standing);
        let atom = |question: &str| Ok::<AtomId, Failure>(AtomId::new(ask(question, None)?.trim()));
        Ok(match entry {
            MenuItem::Goal => CorrectionRequest::Goal(ask("The goal, in a sentence", Some(&objective.goal))?),
            MenuItem::Why => CorrectionRequest::BackgroundIntent(ask(
                "Why do you want it?",
                Some(&objective.background_intent),
            )?),
            MenuItem::Result => CorrectionRequest::Deliverables(ask(
                "What should exist when it's done?",
                Some(&objective.deliverables),
            )?),
            MenuItem::Done => CorrectionRequest::DefinitionOfDone(ask(
                "When is it done?",
                Some(&objective.definition_of_done),
            )?),
            MenuItem::Checks => {
                let lines = self.dialogue.ask_for_several(
                    "All the new checks, one per line; an empty line ends it. `COMMAND` must succeed; \
                     `not COMMAND` must fail; `file GLOB` must exist; `confirm TEXT` asks a person.",
                )?;
                CorrectionRequest::BaseCase(Checks::Checklist(
                    lines.iter().map(|line| align::check_in_words(line)).collect(),
                ))
            }
            MenuItem::Add => CorrectionRequest::AddAtom(align::atom(
                "add",
                &ask("What should be done? `<- A1,A2` says what it depends on", None)?,
            )?),
            MenuItem::Remove => CorrectionRequest::RemoveAtom(atom("Which pending atom?")?),
            MenuItem::Select => {
                changes::select(&ask("Which alternative of which group? GROUP=ATOM", None)?, "")?
            }
            MenuItem::Way => {
                let group = ask("Of which group?", None)?;
                changes::add_choice(&group, align::atom("way", &ask("What is the alternative?", None)?)?)
            }
            MenuItem::Depends => {
                changes::depends(&ask("Which atom depends on what from now on? A5 <- A1,A2", None)?)?
            }
            MenuItem::Rebind => {
                let atom = atom("Which resolved atom?")?;
                CorrectionRequest::Rebind {
                    atom,
                    summary: ask("What is the result?", None)?,
                    artifacts: None,
                }
            }
            MenuItem::Redo => {
                let id = ask("Which atom?", None)?;
                changes::redo(&id, &ask("A hint for the next try; Enter for none", Some(""))?)
            }
            MenuItem::Limit => changes::limit(&ask("Which limit? max_iterations=30", None)?)?,
            MenuItem::Protect | MenuItem::Drop | MenuItem::Make | MenuItem::Cancel | MenuItem::Help => {
                unreachable!("these are no corrections of their own")
            }
        })
    }
}

/// Questions and proposals of an agent, until there is one that can be made; otherwise why there is none.
pub fn counselled(
    ask: Ask<'_>,
    state: &State,
    (words, answers): (&str, &mut Vec<Clarification>),
    can_be_made: &dyn Fn(&Changes) -> Result<(), Failure>,
    answer: Answering<'_>,
) -> Result<Result<Changes, String>, Failure> {
    let graph = Graph::new(state);
    let mut refused: Option<String> = None;
    for _ in 0..ROUNDS {
        let turn = RedirectRequest { words, answers, refused: refused.as_deref() };
        let brief = brief::redirect(state, &graph, &turn);
        let said = ask(&brief).and_then(|value| brief::read_redirect(&value).map_err(|wrong| wrong.reason));
        match said {
            Ok(RedirectAnswer::Questions(questions)) => answers.extend(answer(&questions)?),
            Ok(RedirectAnswer::Corrections { corrections, protect, unprotect }) => {
                let changes = Changes { corrections, protect, unprotect, ..Changes::default() };
                match can_be_made(&changes) {
                    Ok(()) => return Ok(Ok(changes)),
                    Err(failure) => refused = Some(failure.message()),
                }
            }
            Err(problem) => return Ok(Err(problem)),
        }
    }
    Ok(Err(match refused {
        Some(refused) => format!("the agent made no proposal that can be used: {refused}"),
        None => "the agent made no proposal".to_owned(),
    }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MenuItem {
    Goal,
    Why,
    Result,
    Done,
    Checks,
    Add,
    Remove,
    Select,
    Way,
    Depends,
    Rebind,
    Redo,
    Limit,
    Protect,
    Drop,
    Make,
    Cancel,
    Help,
}

/// The words of the menu, and what each does.
const MENU: [(&str, MenuItem, &str); 18] = [
    ("add", MenuItem::Add, "add a piece of work"),
    ("remove", MenuItem::Remove, "remove an atom that is not done"),
    ("select", MenuItem::Select, "take another alternative of a group now"),
    ("way", MenuItem::Way, "add an alternative to a group, tried last"),
    ("depends", MenuItem::Depends, "say what an atom has to wait for"),
    ("redo", MenuItem::Redo, "do an atom again, with a hint if you like"),
    ("rebind", MenuItem::Rebind, "correct the summary of an atom; what depends on it is done again"),
    ("limit", MenuItem::Limit, "change a limit: iterations, time, money"),
    ("protect", MenuItem::Protect, "forbid workers to change some files"),
    ("goal", MenuItem::Goal, "change the goal"),
    ("why", MenuItem::Why, "change why it is wanted"),
    ("result", MenuItem::Result, "change what should exist in the end"),
    ("done", MenuItem::Done, "change when it is done, in words"),
    ("checks", MenuItem::Checks, "replace the checks"),
    ("drop", MenuItem::Drop, "drop the last change"),
    ("make", MenuItem::Make, "show all changes, and make them"),
    ("cancel", MenuItem::Cancel, "change nothing; the loop goes on as it was"),
    ("help", MenuItem::Help, "show this list; at a question, how to answer it"),
];
