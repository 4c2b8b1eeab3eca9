//! `aot align`: what is wanted becomes an agreement that a loop can be run on. Everything that is agreed on is a text
//! first, whoever brought it: flags, a file, a dialogue, an agent. It is read strictly, shown, tried once, and written
//! when somebody has said yes.

mod given;
mod look;
mod talk;

use std::path::{Path, PathBuf};

use aot_core::brief::Brief;
use aot_core::contract::{self, Document, Reading, Severity};
use aot_core::rules::{Change, Refusal, gate};
use aot_core::state::State;
use aot_core::verdict::Jobs;
use aot_runner::checks::seal::Seal;
use aot_runner::driver::{self, DriverLockError};
use aot_runner::habits;
use aot_runner::store::error::FileError;
use aot_runner::store::home::Home;
use aot_runner::store::{Begun, Over, Store, Unreadable};
use clap::Args;
use serde_json::json;

use super::counsel::{Ask, Counsel, CounselArgs};
use super::limits::LimitArgs;
use super::workspace::{Workspace, looking, project};
use super::{Invocation, lint};
use crate::dialogue::Dialogue;
use crate::failure::{self, Failure};
use crate::place;
use crate::print::OutputFormat;
use crate::print::{self, Stream};
use crate::screens::agreement::{self, Beside};
use crate::screens::ink::Ink;
use look::Seen;
use talk::Talk;

pub use given::{atom, read};
pub use talk::{answered, check_in_words};

#[derive(Debug, Args)]
pub struct AlignArgs {
    /// What is wanted, in your own words; it is kept below the state
    request: Vec<String>,
    /// Take the agreement from a file: a whole state file or YAML with its keys; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = given::FLAGS)]
    from: Option<String>,
    #[command(flatten)]
    given: given::GivenArgs,
    #[command(flatten)]
    limits: LimitArgs,
    /// Agree without being asked
    #[arg(long, short)]
    yes: bool,
    /// Take the place of a state file that is there; it is kept as a backup
    #[arg(long)]
    force: bool,
    /// Do not run the checks to see how they stand now
    #[arg(long)]
    no_run: bool,
    #[command(flatten)]
    counsel: CounselArgs,
}

/// What is told to whoever goes away.
const LEFT: &str = "nothing was agreed on, and nothing was written";

pub fn run(invocation: &Invocation, args: &AlignArgs) -> Result<(), Failure> {
    invocation.by_person()?;
    let path = place::new_state_file(invocation.state.as_deref())?;
    not_driven(&path)?;
    let sitting = invocation.format == OutputFormat::Text && print::is_answered() && !args.yes;
    if sitting { converse(invocation, args, &path) } else { take(invocation, args, &path) }
}

/// Without anybody to ask: what was given is whole, or refused.
fn take(invocation: &Invocation, args: &AlignArgs, path: &Path) -> Result<(), Failure> {
    let draft = given(args)?;
    if path.exists() && !args.force {
        let path = Home::of(path)?.state().to_path_buf();
        return Err(Failure::File(FileError::Exists { path }));
    }
    let state = draft.whole()?;
    if !args.yes {
        return Err(Failure::NoYes);
    }
    tell_left_out(&draft);
    let seen = look::at(invocation, path, &state, args.no_run)?;
    if invocation.format == OutputFormat::Text {
        let ink = Ink::of(Stream::Out);
        print::line(&ink.shown(draft.page(ink, print::COLUMNS).trim_end()));
        tell_seen(&seen);
    }
    let over = if args.force { Over::Another } else { Over::Nothing };
    let written = write(path, &draft, over)?;
    tell(invocation, path, &state, &seen, &written);
    Ok(())
}

/// With somebody who is asked.
fn converse(invocation: &Invocation, args: &AlignArgs, path: &Path) -> Result<(), Failure> {
    let dialogue = Dialogue::open(LEFT, || ())?;
    let workspace = Workspace::open(path, Jobs::default())?;
    let habits = habits::look(&workspace.project.root);
    let agreement = given::agreement(&args.request.join(" "), &args.given, &args.limits)?;
    let counsel = match args.from {
        Some(_) => None,
        None => Counsel::find(&args.counsel, &workspace, &agreement.state(), Some(&dialogue))?,
    };
    let ask = counsel.as_ref().map(|counsel| |brief: &Brief| counsel.ask(brief));
    let ask = ask.as_ref().map(|ask| ask as Ask<'_>);
    let talk = Talk { invocation, path, dialogue: &dialogue, habits: &habits, ask, no_run: args.no_run };
    let agreed = match args.from {
        Some(_) => {
            let draft = given(args)?;
            tell_left_out(&draft);
            talk.settled(draft)?
        }
        None => talk.agree(agreement)?,
    };
    let Some(draft) = agreed else { return declined(&dialogue) };
    let over = if args.force { Some(Over::Another) } else { talk.may_replace()? };
    let Some(over) = over else { return declined(&dialogue) };
    let written = dialogue.undisturbed(|| write(path, &draft, over))?;
    let seen = Seen { standing: None, checks: Vec::new(), advice: Vec::new() };
    tell(invocation, path, &draft.whole()?, &seen, &written);
    Ok(())
}

fn declined(dialogue: &Dialogue) -> Result<(), Failure> {
    dialogue.say(LEFT);
    Err(Failure::No)
}

fn given(args: &AlignArgs) -> Result<Draft, Failure> {
    match &args.from {
        Some(from) => Draft::brought(from, &args.limits),
        None => {
            let mut agreement = given::agreement(&args.request.join(" "), &args.given, &args.limits)?;
            if agreement.objective.goal.is_empty() {
                agreement.objective.goal = given::goal_of(&agreement.request);
            }
            Draft::of(&agreement)
        }
    }
}

fn tell_left_out(draft: &Draft) {
    if draft.progress_left_out {
        failure::complain(
            "warning: it tells of work done; a loop that begins has done none, so that is left out",
        );
    }
}

/// What is to be agreed on, as a text, and what it is called when something is wrong with it.
#[derive(Clone, Debug)]
pub struct Draft {
    pub document: Document,
    pub name: PathBuf,
    /// It told of work done, which a loop that begins does not take over.
    pub progress_left_out: bool,
}

impl Draft {
    pub fn of(agreement: &aot_core::state::Agreement) -> Result<Draft, Failure> {
        if let Some(id) = agreement.taken_twice() {
            return Err(Failure::Refused(Refusal::IdTaken(id.clone())));
        }
        let document =
            contract::draft(agreement).map_err(|reason| Failure::NotWritten(reason.to_string()))?;
        Ok(Draft { document, name: "the agreement".into(), progress_left_out: false })
    }

    fn brought(from: &str, limits: &LimitArgs) -> Result<Draft, Failure> {
        let (name, bytes) = given::read(from)?;
        let draft = Draft::read(name, bytes)?;
        draft.with_limits(limits)
    }

    /// A text from elsewhere: a file, an editor.
    pub fn read(name: PathBuf, bytes: Vec<u8>) -> Result<Draft, Failure> {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match contract::bring(bytes) {
            Ok(brought) => {
                let progress_left_out = brought.progress_left_out;
                Ok(Draft { document: brought.document, name, progress_left_out })
            }
            Err(finding) => {
                let findings = vec![finding];
                Err(Failure::NotAgreed(Box::new(Unreadable { path: name, text, findings })))
            }
        }
    }

    fn with_limits(self, limits: &LimitArgs) -> Result<Draft, Failure> {
        if limits.is_empty() {
            return Ok(self);
        }
        let old = self.state()?;
        let mut new = old.clone();
        for limit in limits.limits()? {
            new.objective.constraints = limit.within(new.objective.constraints);
        }
        let document = contract::write(&self.document, &old, &new)
            .map_err(|reason| Failure::NotWritten(reason.to_string()))?;
        Ok(Draft { document, ..self })
    }

    /// What it says, complete or not; a text with mistakes is told with all of them.
    pub fn state(&self) -> Result<State, Failure> {
        let reading = Reading::of(self.document.clone());
        match reading.state {
            Some(state) => Ok(state),
            None => {
                let findings = reading.findings;
                let findings = findings.into_iter().filter(|finding| finding.severity == Severity::Error);
                Err(Failure::NotAgreed(Box::new(Unreadable {
                    path: self.name.clone(),
                    text: self.document.text().to_owned(),
                    findings: findings.collect(),
                })))
            }
        }
    }

    /// What it says, if nothing is missing.
    pub fn whole(&self) -> Result<State, Failure> {
        let state = self.state()?;
        let missing = gate::missing(&state);
        if missing.is_empty() {
            return Ok(state);
        }
        let missing = missing.into_iter().map(|name| match given::flag_of(&name) {
            Some(flag) => format!("{name} ({flag})"),
            None => name,
        });
        Err(Failure::Lacking { missing: missing.collect() })
    }

    pub fn page(&self, ink: Ink, columns: usize) -> String {
        let Some(state) = Reading::of(self.document.clone()).state else { return String::new() };
        let (clarifications, scope) = contract::beside(&self.document);
        agreement::page(&state, &Beside { clarifications, scope }, ink, columns)
    }
}

fn not_driven(path: &Path) -> Result<(), Failure> {
    match driver::holder(&Home::of(path)?) {
        Some(holder) => Err(Failure::Driven { holder }),
        None => Ok(()),
    }
}

/// What came of writing it.
#[derive(Debug)]
struct Written {
    loop_id: String,
    backup: Option<PathBuf>,
}

/// Names the loop, seals what was agreed on (D21, D23), and writes it.
fn write(path: &Path, draft: &Draft, over: Over) -> Result<Written, Failure> {
    let state = draft.whole()?;
    let home = Home::of(path)?;
    // Nobody may begin to drive the loop that is being replaced.
    let seat = driver::acquire(&home).map_err(|error| match error {
        DriverLockError::Taken { holder } => Failure::Driven { holder },
        DriverLockError::File(error) => Failure::File(error),
    })?;
    let project = project(path)?;
    let seal = Seal::of(&state.objective, &project.root).map_err(looking)?;
    let (loop_id, fingerprint) = (driver::new_id(), seal.fingerprint());
    let mut begun = state.clone();
    begun.control.loop_id = Some(loop_id.clone());
    begun.control.fingerprint = Some(fingerprint.clone());
    let document = contract::write(&draft.document, &state, &begun)
        .map_err(|reason| Failure::NotWritten(reason.to_string()))?;
    let told = vec![Change::LoopNamed { id: loop_id.clone() }, Change::FingerprintTaken { fingerprint }];
    let mut store = Store::open(path, &place::build_mark())?;
    let begun = Begun { document, state: begun, told };
    let backup = store.begin::<Refusal>(begun, over, jiff::Timestamp::now())?;
    seal.keep(&project).map_err(looking)?;
    drop(seat);
    Ok(Written { loop_id, backup })
}

/// How the checks stand, and what the linter thinks of them.
fn tell_seen(seen: &Seen) {
    if let Some(standing) = &seen.standing {
        print::line(&format!("\n{standing}"));
    }
    if !seen.advice.is_empty() {
        print::line("");
        seen.advice.iter().for_each(|advice| print::line(&lint::told(advice)));
    }
}

fn tell(invocation: &Invocation, path: &Path, state: &State, seen: &Seen, written: &Written) {
    let Written { loop_id, backup } = written;
    match invocation.format {
        OutputFormat::Json => print::json(&json!({
            "success": true,
            "path": path,
            "loop": loop_id,
            "goal": state.objective.goal,
            "atoms": state.atoms.len(),
            "backup": backup,
            "standing": seen.standing,
            "checks": seen.checks,
            "findings": seen.advice,
        })),
        OutputFormat::Text => {
            print::line(&format!("\nagreed: {}", path.display()));
            if let Some(backup) = backup {
                print::line(&format!("the one before is kept in {}", backup.display()));
            }
            print::line("Next: aot run");
        }
    }
}
