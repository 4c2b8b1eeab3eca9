//! `aot redirect`: a person changes what was agreed on, while the loop runs or when it has stopped. Everything is
//! interrupted first; what is changed is one transaction; whoever cancels lets the loop go on as it was.

mod talk;
mod wanted;

use std::path::Path;

use aot_core::brief::Brief;
use aot_core::rules::redirect::interrupt as interrupted_state;
use aot_core::rules::{Change, Ledger, Refusal};
use aot_core::state::{Correction, State};
use aot_core::verdict::Jobs;
use aot_core::view::View;
use aot_runner::checks::seal::{Altered, Seal};
use aot_runner::driver;
use aot_runner::interrupt::{self, Interrupted, NotInterrupted};
use aot_runner::store::{Recorded, Store, StoreError};
use aot_runner::tree::Project;
use clap::Args;
use serde_json::{Value, json};

use super::Invocation;
use super::counsel::{Ask, Counsel, CounselArgs};
use super::limits::LimitArgs;
use super::workspace::{Workspace, looking, project};
use crate::dialogue::Dialogue;
use crate::failure::{self, Failure};
use crate::print::OutputFormat;
use crate::{place, print};
use talk::Talk;
use wanted::{Wanted, WantedArgs};

#[derive(Debug, Args)]
pub struct RedirectArgs {
    /// What is to be different, in your own words; beside flags it is the reason
    text: Vec<String>,
    #[command(flatten)]
    wanted: WantedArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    counsel: CounselArgs,
    /// Interrupt the loop and hold it, for a dialogue of several commands: until the next redirect, or `--cancel`
    #[arg(long, conflicts_with_all = wanted::FLAGS)]
    hold: bool,
    /// Who holds it
    #[arg(long, value_name = "ID", requires = "hold")]
    session: Option<String>,
    /// End a redirect that is held, and let the loop go on as it was
    #[arg(long, conflicts_with_all = wanted::FLAGS, conflicts_with = "hold")]
    cancel: bool,
}

pub fn run(invocation: &Invocation, args: &RedirectArgs) -> Result<(), Failure> {
    invocation.by_person()?;
    let mut store = invocation.store()?;
    if args.cancel {
        return cancel(invocation, &mut store);
    }
    if args.hold {
        return hold(invocation, &mut store, args.session.as_deref());
    }
    let wanted = wanted::read(&args.wanted, &args.limits, &args.text.join(" "))?;
    if !wanted.is_empty() {
        return take(invocation, &mut store, &wanted);
    }
    if invocation.format == OutputFormat::Text && print::is_answered() {
        return converse(invocation, args, store);
    }
    Err(Failure::Input {
        what: "redirect".into(),
        problem: "nothing is to be changed".into(),
        hint: "say what by flags (`aot redirect --help` lists them), or sit at a terminal".into(),
    })
}

/// What is told to whoever goes away.
const LEFT: &str = "the redirect is interrupted, and nothing was changed; `aot run` takes the loop up again";

/// With somebody who is asked. Everything is interrupted first, and whoever goes away has changed nothing.
fn converse(invocation: &Invocation, args: &RedirectArgs, mut store: Store) -> Result<(), Failure> {
    store.load()?;
    let path = invocation.path()?;
    let leaving = path.clone();
    let dialogue = Dialogue::open(LEFT, move || let_go(&leaving))?;
    let workspace = Workspace::open(&path, Jobs::default())?;
    let standing = interrupt::interrupt(&mut store)?;
    let told = standing.told();
    dialogue.say(&told.line);
    let talked = talk(args, &dialogue, &workspace, &mut store);
    let wanted = match talked {
        Ok(Some(wanted)) => wanted,
        Ok(None) => {
            interrupt::answer(&mut store)?;
            standing.go_on();
            dialogue.say(if told.driven { "cancelled; the loop goes on as it was" } else { "cancelled" });
            return Err(Failure::No);
        }
        Err(failure) => {
            if !told.driven {
                // There is no driver that would see that nobody is here any more.
                interrupt::answer(&mut store)?;
            }
            return Err(failure);
        }
    };
    dialogue.undisturbed(|| {
        let made = make(&mut store, &wanted, &workspace.project);
        finish(invocation, &mut store, standing, made)
    })
}

/// Where nobody drives, nobody would see that the redirect is over.
fn let_go(path: &Path) {
    let Ok(mut store) = Store::open(path, &place::build_mark()) else { return };
    if driver::holder(store.file().home()).is_none() {
        // Whoever leaves cannot be told; the next redirect finds it as it is.
        let _ = interrupt::answer(&mut store);
    }
}

fn talk(
    args: &RedirectArgs,
    dialogue: &Dialogue,
    workspace: &Workspace,
    store: &mut Store,
) -> Result<Option<Wanted>, Failure> {
    let state = store.load()?.1.clone();
    let counsel = Counsel::find(&args.counsel, workspace, &state, Some(dialogue))?;
    let ask = counsel.as_ref().map(|counsel| |brief: &Brief| counsel.ask(brief));
    let ask = ask.as_ref().map(|ask| ask as Ask<'_>);
    let talk = Talk { dialogue, project: &workspace.project, state: &state, ask };
    talk.agree(&args.text.join(" "))
}

/// What was asked for by flags.
fn take(invocation: &Invocation, store: &mut Store, wanted: &Wanted) -> Result<(), Failure> {
    let project = project(&invocation.path()?)?;
    // What would be refused anyway is refused before anything is killed.
    let (_, state) = store.load()?;
    let mut trial = Ledger::open(state.clone(), jiff::Timestamp::now());
    interrupted_state(&mut trial);
    decide(&mut trial, wanted, &project)?;
    let standing = interrupt::interrupt(store)?;
    let made = make(store, wanted, &project);
    finish(invocation, store, standing, made)
}

/// Lets the loop go on, with the change or as it was.
fn finish(
    invocation: &Invocation,
    store: &mut Store,
    standing: Interrupted,
    made: Result<Recorded<Made>, Failure>,
) -> Result<(), Failure> {
    let told = standing.told();
    let recorded = match made {
        Ok(recorded) => recorded,
        Err(failure) => {
            interrupt::answer(store)?;
            standing.go_on();
            return Err(failure);
        }
    };
    standing.go_on();
    tell(invocation, &recorded, &told);
    Ok(())
}

/// Makes all of it, in one write.
fn make(store: &mut Store, wanted: &Wanted, project: &Project) -> Result<Recorded<Made>, Failure> {
    let recorded = store.change("redirect the loop", jiff::Timestamp::now(), |ledger| {
        let before = ledger.state().corrections.len();
        let seal = decide(ledger, wanted, project)?;
        if ledger.state().control.redirect_requested {
            ledger.record(Change::RedirectEnded);
        }
        Ok(Made { corrections: ledger.state().corrections[before..].to_vec(), seal })
    });
    let recorded = recorded.map_err(|error: StoreError<Declined>| match error {
        StoreError::Refused(declined) => declined.into(),
        StoreError::File(error) => Failure::File(error),
        StoreError::Unreadable(unreadable) => Failure::Unreadable(unreadable),
        StoreError::Conflict { why, kept } => Failure::Conflict { why, kept },
        StoreError::NotWritten(reason) => Failure::NotWritten(reason.to_string()),
    })?;
    if let Some(seal) = &recorded.value.seal {
        seal.keep(project).map_err(looking)?;
    }
    Ok(recorded)
}

/// What was made.
#[derive(Debug)]
struct Made {
    corrections: Vec<Correction>,
    /// What was agreed on anew.
    seal: Option<Seal>,
}

/// Why a redirect is not made; the file is as it was.
#[derive(Debug)]
enum Declined {
    Refused(Refusal),
    /// Protected files were changed by somebody; another list of them would hide it (D21).
    Tampered(Vec<Altered>),
    World(std::io::Error),
}

impl From<Refusal> for Declined {
    fn from(refusal: Refusal) -> Declined {
        Declined::Refused(refusal)
    }
}

impl From<Declined> for Failure {
    fn from(declined: Declined) -> Failure {
        match declined {
            Declined::Refused(refusal) => Failure::Refused(refusal),
            Declined::Tampered(altered) => Failure::Tampered(altered),
            Declined::World(error) => looking(error),
        }
    }
}

impl From<NotInterrupted> for Failure {
    fn from(error: NotInterrupted) -> Failure {
        match error {
            NotInterrupted::Held { holder } => Failure::Redirected { holder },
            NotInterrupted::Store(error) => error.into(),
            NotInterrupted::Hangs { .. } => {
                Failure::World { doing: "interrupt the loop", problem: error.to_string() }
            }
        }
    }
}

/// All corrections on a ledger, and the seal of what is agreed on now, if that is something else.
fn decide(ledger: &mut Ledger, wanted: &Wanted, project: &Project) -> Result<Option<Seal>, Declined> {
    let before = ledger.state().objective.clone();
    let agreed = ledger.state().control.fingerprint.clone();
    let now = Seal::of(&before, &project.root).map_err(Declined::World)?;
    let corrections = wanted.corrections(ledger.state(), &now);
    aot_core::rules::redirect::redirect(ledger, corrections)?;
    let after = ledger.state().objective.clone();
    let base_case = before.base_case != after.base_case;
    let protected = before.protected != after.protected;
    if !base_case && !protected {
        return Ok(wanted.accepts().then_some(now));
    }
    let Some(mut fingerprint) = ledger.state().control.fingerprint.clone() else { return Ok(None) };
    let seal = Seal::of(&after, &project.root).map_err(Declined::World)?;
    if base_case {
        fingerprint.base_case = seal.base_case.clone();
    }
    if protected {
        let altered = agreed.filter(|agreed| !wanted.accepts() && agreed.protected != now.protected);
        if let Some(agreed) = altered {
            return Err(Declined::Tampered(now.altered(&agreed, project)));
        }
        fingerprint.protected = seal.protected.clone();
    }
    ledger.record(Change::FingerprintTaken { fingerprint });
    Ok(Some(seal))
}

/// Stops everything and leaves it so.
fn hold(invocation: &Invocation, store: &mut Store, session: Option<&str>) -> Result<(), Failure> {
    let standing = interrupt::interrupt(store)?;
    // A loop that nobody drives is held by its flag, so that no host starts anything meanwhile.
    let recorded = store.change("hold the loop", jiff::Timestamp::now(), |ledger| {
        if !ledger.state().control.redirect_requested {
            ledger.record(Change::RedirectRequested);
        }
        Ok::<State, Refusal>(ledger.state().clone())
    })?;
    let told = standing.told();
    standing.hand_over(session.unwrap_or("a host's dialogue"))?;
    let line = format!(
        "{}\nheld: `aot redirect …` makes the change, `aot redirect --cancel` lets the loop go on as it was",
        told.line
    );
    let view = View::of(&recorded.value);
    let mut object = told.object;
    object["held"] = json!(true);
    object["state"] = json!(view);
    invocation.told(&recorded, &line, object);
    Ok(())
}

fn cancel(invocation: &Invocation, store: &mut Store) -> Result<(), Failure> {
    let asked = store.load()?.1.control.redirect_requested;
    let standing = interrupt_to_cancel(store, asked)?;
    let ended = interrupt::answer(store)?;
    if let Some(standing) = standing {
        standing.go_on();
    }
    let line =
        if ended { "the loop goes on as it was" } else { "nothing to cancel: no redirect is under way" };
    match invocation.format {
        OutputFormat::Json => print::json(&json!({"success": true, "cancelled": ended})),
        OutputFormat::Text => print::line(line),
    }
    Ok(())
}

/// Takes the redirect over, if there is one.
fn interrupt_to_cancel(store: &mut Store, asked: bool) -> Result<Option<Interrupted>, Failure> {
    if asked { Ok(Some(interrupt::interrupt(store)?)) } else { Ok(None) }
}

/// What an interruption came to, for people and for programs.
#[derive(Debug)]
struct Stopped {
    line: String,
    object: Value,
    /// Somebody drives, and goes on with it.
    driven: bool,
}

trait Told {
    fn told(&self) -> Stopped;
}

impl Told for Interrupted {
    fn told(&self) -> Stopped {
        let Interrupted { driver, killed, took, .. } = self;
        let milliseconds = took.as_millis() as u64;
        let line = match (driver, killed) {
            (None, 0) => "nothing runs: nobody drives this loop".to_owned(),
            (None, 1) => "interrupted: what 1 worker of a host does comes too late; end it".to_owned(),
            (None, many) => format!("interrupted: what {many} workers of a host do comes too late; end them"),
            (Some(who), 0) => format!("interrupted after {milliseconds} ms: {who}"),
            (Some(who), 1) => format!("all stopped after {milliseconds} ms: 1 worker of {who}"),
            (Some(who), many) => format!("all stopped after {milliseconds} ms: {many} workers of {who}"),
        };
        let object = json!({"driver": driver, "killed": killed, "milliseconds": milliseconds});
        Stopped { line, object: json!({"interrupted": object}), driven: driver.is_some() }
    }
}

fn tell(invocation: &Invocation, recorded: &Recorded<Made>, told: &Stopped) {
    let Made { corrections, .. } = &recorded.value;
    let mut lines = if told.driven { vec![told.line.clone()] } else { Vec::new() };
    for correction in corrections {
        let trail = if correction.trail_cleared { " (the history of choices begins anew)" } else { "" };
        lines.push(format!("changed: {}{trail}", correction.description));
    }
    lines.push(if told.driven { "the loop goes on".into() } else { "Next: aot run".into() });
    let mut object = told.object.clone();
    object["corrections"] = json!(corrections);
    invocation.told(recorded, &lines.join("\n"), object);
    if invocation.format == OutputFormat::Text && corrections.is_empty() {
        failure::complain("warning: nothing was changed");
    }
}
