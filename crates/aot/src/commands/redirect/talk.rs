//! The dialogue of a redirect: where the loop stands, what is to be different, what that would change, and a yes. In words
//! to an agent, or by a menu.

use aot_core::brief::{self, RedirectAnswer, RedirectRequest};
use aot_core::rules::Ledger;
use aot_core::rules::redirect::CorrectionRequest;
use aot_core::state::{AtomId, Checks, Clarification, Graph, State};
use aot_runner::tree::Project;

use super::changes::{self, Changes};
use super::decide;
use crate::commands::align;
use crate::commands::dialogue_agent::Ask;
use crate::dialogue::{Dialogue, PersonLeft};
use crate::failure::Failure;
use crate::screens::{agreement, difference};

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
                        words = self.dialogue.ask("\nWhat is to be different?", None)?;
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
                    let more = self.dialogue.ask("What is to be different about it?", None)?;
                    let question = "What is to be different about that proposal?".to_owned();
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

    /// Questions and proposals of the agent, until one can be made; `None` if it has none.
    fn counselled(
        &self,
        ask: Ask<'_>,
        words: &str,
        answers: &mut Vec<Clarification>,
    ) -> Result<Option<Changes>, Failure> {
        let graph = Graph::new(self.state);
        let mut refused: Option<String> = None;
        for _ in 0..ROUNDS {
            let turn = RedirectRequest { words, answers, refused: refused.as_deref() };
            let brief = brief::redirect(self.state, &graph, &turn);
            let said =
                ask(&brief).and_then(|value| brief::read_redirect(&value).map_err(|wrong| wrong.reason));
            match said {
                Ok(RedirectAnswer::Questions(questions)) => {
                    answers.extend(align::answered(self.dialogue, &questions)?);
                }
                Ok(RedirectAnswer::Corrections { corrections, protect, unprotect }) => {
                    let changes = Changes { corrections, protect, unprotect, accept: false };
                    match self.after(&changes) {
                        Ok(_) => return Ok(Some(changes)),
                        Err(failure) => refused = Some(failure.message()),
                    }
                }
                Err(problem) => {
                    self.dialogue.tell(&format!("\n{problem}\nContinuing with the menu."));
                    return Ok(None);
                }
            }
        }
        self.dialogue.tell("\nThe agent made no proposal. Continuing with the menu.");
        Ok(None)
    }

    /// One correction after the other, each tried at once; `None` if the person cancelled.
    fn menu(&self, mut changes: Changes) -> Result<Option<Changes>, Failure> {
        loop {
            let so_far = changes.corrections.len() + changes.protect.len() + changes.unprotect.len();
            let question = match so_far {
                0 => "\nWhat is to be different?".to_owned(),
                1 => {
                    "\n1 change so far. What else is to be different? `make` shows it as a whole.".to_owned()
                }
                many => format!(
                    "\n{many} changes so far. What else is to be different? `make` shows them as a whole."
                ),
            };
            let entry = self.dialogue.choose(&question, &MENU)?;
            match entry {
                MenuItem::Cancel => return Ok(None),
                MenuItem::Make if changes.is_empty() => self.dialogue.tell("Nothing is to be different yet."),
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
                    let mut more = changes.clone();
                    more.protect.push(self.dialogue.ask("Which files may no worker change? A glob", None)?);
                    changes = self.tried(changes, more);
                }
                other => {
                    let mut more = changes.clone();
                    match self.entry(other) {
                        Ok(correction) => more.corrections.push(correction),
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
                    "All checks of the new base case, a line each; an empty line ends it. A command has to succeed; \
                     `not COMMAND` has to fail; `file GLOB` has to exist; `confirm TEXT` is asked of a person.",
                )?;
                CorrectionRequest::BaseCase(Checks::Checklist(
                    lines.iter().map(|line| align::check_in_words(line)).collect(),
                ))
            }
            MenuItem::Add => CorrectionRequest::AddAtom(align::atom(
                "add",
                &ask("What is to be done? `<- A1,A2` says what it needs", None)?,
            )?),
            MenuItem::Remove => CorrectionRequest::RemoveAtom(atom("Which pending atom?")?),
            MenuItem::Select => changes::select(&ask("Which way of which group? GROUP=ATOM", None)?, "")?,
            MenuItem::Way => {
                let group = ask("Of which group?", None)?;
                changes::add_choice(&group, align::atom("way", &ask("What is the other way?", None)?)?)
            }
            MenuItem::Depends => {
                changes::depends(&ask("Which atom needs what from now on? A5 <- A1,A2", None)?)?
            }
            MenuItem::Rebind => {
                let atom = atom("Which resolved atom?")?;
                CorrectionRequest::Rebind {
                    atom,
                    summary: ask("What did it come to?", None)?,
                    artifacts: None,
                }
            }
            MenuItem::Redo => CorrectionRequest::Redo { atom: atom("Which resolved atom?")? },
            MenuItem::Limit => changes::limit(&ask("Which limit? max_iterations=30", None)?)?,
            MenuItem::Protect | MenuItem::Drop | MenuItem::Make | MenuItem::Cancel => {
                unreachable!("these are no corrections of their own")
            }
        })
    }
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
}

const MENU: [(&str, MenuItem); 17] = [
    ("add", MenuItem::Add),
    ("remove", MenuItem::Remove),
    ("select", MenuItem::Select),
    ("way", MenuItem::Way),
    ("depends", MenuItem::Depends),
    ("redo", MenuItem::Redo),
    ("rebind", MenuItem::Rebind),
    ("limit", MenuItem::Limit),
    ("protect", MenuItem::Protect),
    ("goal", MenuItem::Goal),
    ("why", MenuItem::Why),
    ("result", MenuItem::Result),
    ("done", MenuItem::Done),
    ("checks", MenuItem::Checks),
    ("drop", MenuItem::Drop),
    ("make", MenuItem::Make),
    ("cancel", MenuItem::Cancel),
];
