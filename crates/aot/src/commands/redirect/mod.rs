//! `aot redirect`: a person changes the agreement, while the loop runs or when it has stopped. Everything is interrupted
//! first; all changes are one transaction; a redirect that is cancelled lets the loop go on as it was.

mod changes;
mod talk;

use std::path::Path;

use aot_core::brief::Brief;
use aot_core::rules::redirect::interrupt as interrupted_state;
use aot_core::rules::{Change, Ledger, Refusal};
use aot_core::state::{AtomId, Correction, CorrectionKind, LoopStatus, State};
use aot_core::verdict::Jobs;
use aot_core::view::View;
use aot_runner::checks::seal::{Altered, Seal};
use aot_runner::driver;
use aot_runner::interrupt::{self, Interrupted, NotInterrupted};
use aot_runner::store::{Recorded, Store};
use aot_runner::tree::Project;
use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::dialogue_agent::{Ask, DialogueAgent, DialogueAgentArgs};
use super::limits::LimitArgs;
use super::workspace::{Workspace, project, tampered, unreadable_project};
use super::{Invocation, Verb, align, arguments, recorded_answer};
use crate::dialogue::Dialogue;
use crate::failure::{self, Failure, FailureKind};
use crate::place;
use crate::print::{Answer, OutputFormat};
use crate::screens::difference;
use crate::screens::ink::{Alphabet, Colour, Ink};
use crate::terminal::{self, Stream};
use crate::text::COLUMNS;
use changes::{ChangeArgs, Changes};
use talk::RedirectDialogue;

/// Change the direction: interrupt everything, make the change, go on
///
/// Flags change the goal, checks, atoms, alternatives, limits and results; without flags, a dialogue at a terminal does. Several
/// changes are made together or not at all.
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct RedirectArgs {
    /// What should be different, in your own words; with flags, the reason
    #[serde(default, rename = "reason", deserialize_with = "arguments::text")]
    #[schemars(with = "String")]
    text: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    changes: ChangeArgs,
    #[command(flatten)]
    #[serde(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    #[serde(skip)]
    dialogue_agent: DialogueAgentArgs,
    /// Without a terminal: take what the agent makes of the words, without being asked
    #[arg(long, short)]
    #[serde(skip)]
    yes: bool,
    /// Show what the flags would change, and change nothing
    #[arg(long, conflicts_with_all = ["yes", "hold", "cancel"])]
    #[serde(default)]
    preview: bool,
    /// Interrupt the loop and hold it, for a dialogue of several commands: until the next redirect, or `--cancel`
    #[arg(long, conflicts_with_all = changes::FLAGS)]
    #[serde(default)]
    hold: bool,
    /// Who holds it
    #[arg(long, value_name = "ID", requires = "hold")]
    #[serde(skip, default = "place::session")]
    session: Option<String>,
    /// End a redirect that is held, and let the loop go on as it was
    #[arg(long, conflicts_with_all = changes::FLAGS, conflicts_with = "hold")]
    #[serde(default)]
    cancel: bool,
}

impl Verb for RedirectArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        invocation.by_person()?;
        let mut store = invocation.store()?;
        if self.cancel {
            return cancel(&mut store);
        }
        if self.hold {
            return hold(&mut store, self.session.as_deref());
        }
        let changes = changes::read(&self.changes, &self.limits, &self.text.join(" "))?;
        if !changes.is_empty() {
            let mode = if self.preview { TakeMode::Preview } else { TakeMode::Make };
            return take(invocation, &mut store, &changes, mode);
        }
        if self.preview {
            let hint = "say what by flags: `aot redirect --help` lists them";
            return Err(Failure::input("--preview", "nothing to change", hint));
        }
        if invocation.format == OutputFormat::Text && terminal::is_interactive() && !self.yes {
            return converse(invocation, self, store);
        }
        let words = self.text.join(" ");
        if words.trim().is_empty() {
            let hint = "say what by flags (`aot redirect --help` lists them), or run it in a terminal";
            return Err(Failure::input("redirect", "nothing to change", hint));
        }
        if !self.yes {
            let hint = "pass `--yes` to take what an agent makes of the words; or say it by flags, or run it in a terminal";
            return Err(Failure::new(FailureKind::Usage, "no_yes", "needs confirmation").with_hint(hint));
        }
        let changes = self.proposed(invocation, &mut store, &words)?;
        take(invocation, &mut store, &changes, TakeMode::Make)
    }
}

impl RedirectArgs {
    /// What an agent makes of the words where nobody can be asked. The loop goes on meanwhile.
    fn proposed(&self, invocation: &Invocation, store: &mut Store, words: &str) -> Result<Changes, Failure> {
        let workspace = Workspace::open(&invocation.path()?, Jobs::default())?;
        let state = store.load()?.1.clone();
        let look = workspace.look(&state)?;
        let by_flags = "say it by flags: `aot redirect --help` lists them";
        let Some(agent) = DialogueAgent::find(&self.dialogue_agent, &workspace, &state, None)? else {
            return Err(Failure::new(
                FailureKind::NotReady,
                "no_agent",
                "no agent is named that could read the words",
            )
            .with_hint("name one with `--agent NAME`")
            .with_hint(by_flags));
        };
        let can_be_made = |changes: &Changes| {
            let mut trial = Ledger::open(state.clone(), jiff::Timestamp::now());
            interrupted_state(&mut trial);
            decide(&mut trial, changes, look.project()).map(drop).map_err(Failure::from)
        };
        let ask = |brief: &Brief| agent.ask(brief);
        let asked = (words, &mut Vec::new());
        let proposed = talk::counselled(&ask, &state, asked, &can_be_made, &mut align::as_suggested)?;
        proposed.map_err(|problem| {
            Failure::new(FailureKind::NotReady, "no_proposal", problem).with_hint(by_flags)
        })
    }
}

/// What a person reads who leaves the dialogue.
const LEFT: &str = "the redirect is interrupted, and nothing was changed; `aot run` takes the loop up again";

/// With a person at the terminal. Everything is interrupted first; a person who leaves has changed nothing.
fn converse(invocation: &Invocation, args: &RedirectArgs, mut store: Store) -> Result<Answer, Failure> {
    store.load()?;
    let path = invocation.path()?;
    let leaving = path.clone();
    let dialogue = Dialogue::open(LEFT, move || let_go(&leaving))?;
    let workspace = Workspace::open(&path, Jobs::default())?;
    // The protected files are those of the branch that the loop lands on.
    let look = workspace.look(store.load()?.1)?;
    let interrupted = interrupt::interrupt(&mut store)?;
    let driven = interrupted.driver.is_some();
    dialogue.say(&interruption(&interrupted).0);
    let talked = talk(args, &dialogue, (&workspace, look.project()), &mut store);
    let changes = match talked {
        Ok(Some(changes)) => changes,
        Ok(None) => {
            interrupt::answer(&mut store)?;
            interrupted.go_on();
            dialogue.say(if driven { "cancelled; the loop goes on as it was" } else { "cancelled" });
            return Ok(Answer::printed().with_exit(1));
        }
        Err(failure) => {
            if !driven {
                // There is no driver that would see that the person has left.
                interrupt::answer(&mut store)?;
            }
            return Err(failure);
        }
    };
    dialogue.undisturbed(|| {
        let made = make(&mut store, &changes, look.project());
        finish(&mut store, interrupted, made)
    })
}

/// Ends the redirect of a loop without a driver, because no one else would.
fn let_go(path: &Path) {
    let Ok(mut store) = Store::open(path, &place::build_mark()) else { return };
    if driver::holder(store.file().home()).is_none() {
        // The person has left and reads no error; the next redirect takes over from here.
        let _ = interrupt::answer(&mut store);
    }
}

fn talk(
    args: &RedirectArgs,
    dialogue: &Dialogue,
    (workspace, project): (&Workspace, &Project),
    store: &mut Store,
) -> Result<Option<Changes>, Failure> {
    let state = store.load()?.1.clone();
    let agent = DialogueAgent::find(&args.dialogue_agent, workspace, &state, Some(dialogue))?;
    let ask = agent.as_ref().map(|agent| |brief: &Brief| agent.ask(brief));
    let ask = ask.as_ref().map(|ask| ask as Ask<'_>);
    let talk = RedirectDialogue { dialogue, project, state: &state, ask };
    talk.agree(&args.text.join(" "))
}

/// Whether the changes that flags ask for are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TakeMode {
    Make,
    /// They are only shown.
    Preview,
}

/// The changes that flags ask for.
fn take(
    invocation: &Invocation,
    store: &mut Store,
    changes: &Changes,
    mode: TakeMode,
) -> Result<Answer, Failure> {
    let path = invocation.path()?;
    let (_, state) = store.load()?;
    // The protected files are those of the branch that the loop lands on.
    let workspace = match state.control.branch {
        Some(_) => Some(Workspace::open(&path, Jobs::default())?),
        None => None,
    };
    let look = workspace.as_ref().map(|workspace| workspace.look(state)).transpose()?;
    let project = look.as_ref().map_or_else(|| project(&path), |look| Ok(look.project().clone()))?;
    // A change that the rules refuse anyway is refused before anything is killed.
    let mut trial = Ledger::open(state.clone(), jiff::Timestamp::now());
    interrupted_state(&mut trial);
    decide(&mut trial, changes, &project)?;
    if mode == TakeMode::Preview {
        let after = trial.close().0;
        let ink = match invocation.format {
            OutputFormat::Text => Ink::of(Stream::Out),
            OutputFormat::Json => Ink { colour: Colour::Off, alphabet: Alphabet::Unicode, columns: COLUMNS },
        };
        let page = difference::draw(state, &after, ink, ink.columns);
        let text =
            format!("{}\n\nNothing is changed yet: the same without --preview makes it.", page.trim_end());
        let lines: Vec<&str> = page.lines().collect();
        return Ok(Answer::new(text, json!({"success": true, "preview": lines})));
    }
    let interrupted = interrupt::interrupt(store)?;
    let made = make(store, changes, &project);
    finish(store, interrupted, made)
}

/// Lets the loop go on, with the changes or as it was.
fn finish(
    store: &mut Store,
    interrupted: Interrupted,
    made: Result<Recorded<Redirected>, Failure>,
) -> Result<Answer, Failure> {
    let (line, mut object) = interruption(&interrupted);
    let driven = interrupted.driver.is_some();
    if made.is_err() {
        interrupt::answer(store)?;
    }
    interrupted.go_on();
    let recorded = made?;
    let corrections = &recorded.value.corrections;
    let mut lines = if driven { vec![line] } else { Vec::new() };
    for correction in corrections {
        let trail = if correction.trail_cleared { " (the history of choices begins anew)" } else { "" };
        lines.push(format!("changed: {}{trail}", correction.description));
    }
    let state = &recorded.value.state;
    let wanted: Vec<&str> = state.control.wanted.iter().map(AtomId::as_str).collect();
    if !wanted.is_empty() {
        lines.push(format!("{} will be done, although the checks may pass already", wanted.join(", ")));
    }
    lines.push(if driven { "the loop goes on".into() } else { "Next: aot run".into() });
    object["corrections"] = json!(corrections);
    object["wanted"] = json!(wanted);
    let mut answer = recorded_answer(&recorded, lines.join("\n"), object);
    let is_alignment = |correction: &Correction| correction.kind == CorrectionKind::ObjectiveChange;
    let other_words = corrections.iter().any(is_alignment) && !recorded.value.is_other_base_case;
    if state.control.status == LoopStatus::Completed && wanted.is_empty() && other_words {
        answer.warnings.push(NOTHING_ASKED.into());
    }
    if corrections.is_empty() {
        answer.warnings.push("warning: nothing was changed".into());
    }
    answer.warnings.extend(recorded.value.not_kept);
    Ok(answer)
}

/// What whoever changes the goal of a completed loop is told, if nothing follows from it.
const NOTHING_ASKED: &str = "warning: the loop is completed, and no check and no atom asks for it: give it work with \
                             `--add`, or another base case with `--base-case`";

/// Makes all changes, in one write.
fn make(store: &mut Store, changes: &Changes, project: &Project) -> Result<Recorded<Redirected>, Failure> {
    let recorded = store.change("redirect the loop", jiff::Timestamp::now(), |ledger| {
        let before = ledger.state().corrections.len();
        let base_case = ledger.state().objective.base_case.clone();
        let seal = decide(ledger, changes, project)?;
        if ledger.state().control.redirect_requested {
            ledger.record(Change::RedirectEnded);
        }
        Ok::<Redirected, RedirectError>(Redirected {
            corrections: ledger.state().corrections[before..].to_vec(),
            is_other_base_case: ledger.state().objective.base_case != base_case,
            state: ledger.state().clone(),
            seal,
            not_kept: None,
        })
    });
    let mut recorded = recorded.map_err(failure::of_store)?;
    let kept = recorded.value.seal.as_ref().map_or(Ok(()), |seal| seal.keep(project));
    // The redirect stands, so that this is no failure.
    recorded.value.not_kept = kept.err().map(|error| align::not_kept("the list of protected files", &error));
    Ok(recorded)
}

/// A redirect that was written.
#[derive(Debug)]
struct Redirected {
    corrections: Vec<Correction>,
    state: State,
    is_other_base_case: bool,
    /// The base case and the protected files, if they were agreed on anew.
    seal: Option<Seal>,
    /// What could not be written beside the state.
    not_kept: Option<String>,
}

/// Why a redirect is not made; the file is as it was.
#[derive(Debug)]
enum RedirectError {
    Refused(Refusal),
    /// Protected files were changed meanwhile; another list of them would hide it (D21).
    Tampered(Vec<Altered>),
    World(std::io::Error),
}

impl From<Refusal> for RedirectError {
    fn from(refusal: Refusal) -> RedirectError {
        RedirectError::Refused(refusal)
    }
}

impl From<RedirectError> for Failure {
    fn from(error: RedirectError) -> Failure {
        match error {
            RedirectError::Refused(refusal) => refusal.into(),
            RedirectError::Tampered(altered) => tampered(&altered),
            RedirectError::World(error) => unreadable_project(error),
        }
    }
}

impl From<NotInterrupted> for Failure {
    fn from(error: NotInterrupted) -> Failure {
        match error {
            NotInterrupted::Held { .. } => {
                Failure::refused("redirected", error).with_hint("wait until that redirect is made")
            }
            NotInterrupted::Store(error) => error.into(),
            NotInterrupted::Hangs { .. } => Failure::world("interrupt the loop", error),
        }
    }
}

/// All corrections on a ledger, and the seal of what is agreed on now, if that is something else.
fn decide(ledger: &mut Ledger, changes: &Changes, project: &Project) -> Result<Option<Seal>, RedirectError> {
    let before = ledger.state().objective.clone();
    let agreed = ledger.state().control.fingerprint.clone();
    let now = Seal::of(&before, &project.root).map_err(RedirectError::World)?;
    let corrections = changes.corrections(ledger.state(), &now);
    aot_core::rules::redirect::redirect(ledger, corrections)?;
    let after = ledger.state().objective.clone();
    let base_case = before.base_case != after.base_case;
    let protected = before.protected != after.protected;
    if !base_case && !protected {
        return Ok(changes.accepts().then_some(now));
    }
    let Some(mut fingerprint) = ledger.state().control.fingerprint.clone() else { return Ok(None) };
    let seal = Seal::of(&after, &project.root).map_err(RedirectError::World)?;
    if base_case {
        fingerprint.base_case = seal.base_case.clone();
    }
    if protected {
        let altered = agreed.filter(|agreed| !changes.accepts() && agreed.protected != now.protected);
        if let Some(agreed) = altered {
            return Err(RedirectError::Tampered(now.altered(&agreed, project)));
        }
        fingerprint.protected = seal.protected.clone();
    }
    ledger.record(Change::FingerprintTaken { fingerprint });
    Ok(Some(seal))
}

/// Stops everything and leaves it so.
fn hold(store: &mut Store, session: Option<&str>) -> Result<Answer, Failure> {
    let interrupted = interrupt::interrupt(store)?;
    // A loop without a driver is held by its flag, so that no host starts anything meanwhile.
    let recorded = store.change("hold the loop", jiff::Timestamp::now(), |ledger| {
        if !ledger.state().control.redirect_requested {
            ledger.record(Change::RedirectRequested);
        }
        Ok::<State, Refusal>(ledger.state().clone())
    })?;
    let (line, mut object) = interruption(&interrupted);
    interrupted.hand_over(session.unwrap_or("a host's dialogue"))?;
    let text = format!(
        "{line}\nheld: `aot redirect FLAGS` makes the change, `aot redirect --cancel` lets the loop go on as it was"
    );
    object["held"] = json!(true);
    object["state"] = json!(View::of(&recorded.value));
    Ok(recorded_answer(&recorded, text, object))
}

fn cancel(store: &mut Store) -> Result<Answer, Failure> {
    let interrupted = match store.load::<Refusal>()?.1.control.redirect_requested {
        true => Some(interrupt::interrupt(store)?),
        false => None,
    };
    let ended = interrupt::answer(store)?;
    if let Some(interrupted) = interrupted {
        interrupted.go_on();
    }
    let text =
        if ended { "the loop goes on as it was" } else { "nothing to cancel: no redirect is under way" };
    Ok(Answer::new(text, json!({"success": true, "cancelled": ended})))
}

/// What an interruption came to, for people and for programs.
fn interruption(interrupted: &Interrupted) -> (String, Value) {
    let Interrupted { driver, killed, took, .. } = interrupted;
    let milliseconds = took.as_millis() as u64;
    let line = match (driver, killed) {
        (None, 0) => "nothing runs: this loop has no driver".to_owned(),
        (None, 1) => "interrupted: the result of 1 worker of a host no longer counts; end it".to_owned(),
        (None, many) => {
            format!("interrupted: the results of {many} workers of a host no longer count; end them")
        }
        (Some(who), 0) => format!("interrupted after {milliseconds} ms: {who}"),
        (Some(who), 1) => format!("all stopped after {milliseconds} ms: 1 worker of {who}"),
        (Some(who), many) => format!("all stopped after {milliseconds} ms: {many} workers of {who}"),
    };
    let object = json!({"driver": driver, "killed": killed, "milliseconds": milliseconds});
    (line, json!({"interrupted": object}))
}
