//! `aot align`: a wish becomes an agreement that a loop can be run on. An agreement is a text first, whether it comes
//! from flags, a file, a dialogue or an agent. It is read strictly, shown, tried once, and written when a person has
//! agreed.

mod flags;
mod talk;
mod trees;
mod trial;

use std::path::{Path, PathBuf};

use aot_core::brief::Brief;
use aot_core::contract::{self, Document, Reading, Severity};
use aot_core::rules::{Change, Refusal, gate};
use aot_core::state::{Background, State};
use aot_core::verdict::Jobs;
use aot_runner::checks::kept::{EvidenceLine, Kept};
use aot_runner::checks::seal::Seal;
use aot_runner::driver;
use aot_runner::engine;
use aot_runner::habits;
use aot_runner::process::Guard;
use aot_runner::store::error::FileError;
use aot_runner::store::home::Home;
use aot_runner::store::{Begun, ExistingFile, Store, Unreadable};
use aot_runner::tree;
use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::dialogue_agent::{Ask, DialogueAgent, DialogueAgentArgs};
use super::limits::LimitArgs;
use super::workspace::{Workspace, project, unreadable_project};
use super::{Invocation, Verb, arguments, lint};
use crate::dialogue::Dialogue;
use crate::failure::{self, Failure, FailureKind};
use crate::place;
use crate::print::{self, Answer, OutputFormat};
use crate::screens::agreement::{self, AgreementExtras};
use crate::screens::ink::Ink;
use crate::terminal::{self, Stream};
use crate::text;
use talk::AlignDialogue;
use trees::Provided;
use trial::TrialResult;

pub use flags::atom;
pub use talk::{answered, check_in_words};

/// Agree on a goal: what is wanted, what proves it, the first pieces of work
///
/// By dialogue at a terminal, or from flags or a file with `--yes`. The checks are looked at and run once, so that
/// you see how they stand before you agree.
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct AlignArgs {
    /// What is wanted, in your own words; it is kept below the state
    #[serde(default, deserialize_with = "arguments::text")]
    #[schemars(with = "String")]
    request: Vec<String>,
    /// Take the agreement from a file: a whole state file or YAML with its keys; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = flags::FLAGS)]
    #[serde(skip)]
    from: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    agreement: flags::AgreementArgs,
    #[command(flatten)]
    #[serde(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    #[serde(flatten)]
    trees: trees::TreeArgs,
    /// Agree without being asked
    #[arg(long, short)]
    #[serde(skip, default = "agreed")]
    yes: bool,
    /// Take the place of a state file that is there; it is kept as a backup
    #[arg(long)]
    #[serde(default)]
    force: bool,
    /// Do not run the checks to see how they stand now
    #[arg(long)]
    #[serde(default)]
    no_run: bool,
    #[command(flatten)]
    #[serde(skip)]
    dialogue_agent: DialogueAgentArgs,
}

/// ExistingFile a protocol the user has agreed before the call.
fn agreed() -> bool {
    true
}

/// What can be named as an agreement, or as a part of one.
pub const FILE_HINT: &str = "name a state file, a YAML file with its keys, or `-` for standard input";

/// What a person reads who leaves the dialogue.
const LEFT: &str = "nothing was agreed on, and nothing was written";

impl Verb for AlignArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        invocation.by_person()?;
        let path = place::new_state_file(invocation.state.as_deref())?;
        place::claim(&path)?;
        if let Some(holder) = driver::holder(&Home::of(&path)?) {
            return Err(failure::driven(&holder));
        }
        let is_dialogue = invocation.format == OutputFormat::Text && terminal::is_interactive() && !self.yes;
        if is_dialogue { converse(invocation, self, &path) } else { take(invocation, self, &path) }
    }
}

/// Without a dialogue: an agreement that is not whole is refused.
fn take(invocation: &Invocation, args: &AlignArgs, path: &Path) -> Result<Answer, Failure> {
    let draft = draft_of(args)?;
    if path.exists() && !args.force {
        let path = Home::of(path)?.state().to_path_buf();
        return Err(FileError::Exists { path }.into());
    }
    let guard = Guard::new(place::this_program()?);
    let (draft, check_note) = draft.with_check_of_lone_atom()?;
    let Provided { draft, mut notes } = args.trees.provide(draft, &place::project_root(path), &guard)?;
    notes.extend(check_note);
    let state = draft.whole()?;
    if !args.yes {
        let message = "the agreement needs confirmation";
        return Err(Failure::new(FailureKind::Usage, "no_yes", message)
            .with_hint("pass `--yes`, or run it in a terminal"));
    }
    warn_of_progress(&draft);
    let tried = trial::run(invocation, path, &state, args.no_run)?;
    if invocation.format == OutputFormat::Text {
        let ink = Ink::of(Stream::Out);
        print::line(&ink.shown(draft.page(ink, text::COLUMNS).trim_end()));
        print_notes(&notes);
        print_trial(&tried);
    }
    let over = if args.force { ExistingFile::BackUp } else { ExistingFile::Refuse };
    let agreed = Agreed { draft, to_keep: tried.to_keep.clone() };
    let written = write(path, &agreed, over)?;
    let mut answer = answer(path, &state, &tried, &written);
    answer.json["notes"] = json!(notes);
    Ok(answer)
}

/// With a person at the terminal.
fn converse(invocation: &Invocation, args: &AlignArgs, path: &Path) -> Result<Answer, Failure> {
    let dialogue = Dialogue::open(LEFT, || ())?;
    let workspace = Workspace::for_agreement(path, Jobs::default())?;
    let habits = habits::look(&workspace.project.root);
    let agreement = flags::agreement(&args.request.join(" "), &args.agreement, &args.limits)?;
    let agent = match args.from {
        Some(_) => None,
        None => DialogueAgent::find(&args.dialogue_agent, &workspace, &agreement.state(), Some(&dialogue))?,
    };
    let ask = agent.as_ref().map(|agent| |brief: &Brief| agent.ask(brief));
    let ask = ask.as_ref().map(|ask| ask as Ask<'_>);
    let provide = |draft: Draft| args.trees.provide(draft, &workspace.project.root, &workspace.guard);
    let talk = AlignDialogue {
        invocation,
        path,
        dialogue: &dialogue,
        habits: &habits,
        ask,
        no_run: args.no_run,
        provide: &provide,
    };
    let agreed = match args.from {
        Some(_) => {
            let draft = draft_of(args)?;
            warn_of_progress(&draft);
            talk.settled(draft)?
        }
        None => talk.agree(agreement)?,
    };
    let Some(agreed) = agreed else { return Ok(declined(&dialogue)) };
    let over = if args.force { Some(ExistingFile::BackUp) } else { talk.may_replace()? };
    let Some(over) = over else { return Ok(declined(&dialogue)) };
    let written = dialogue.undisturbed(|| write(path, &agreed, over))?;
    // The person has seen it before saying yes.
    let tried = TrialResult { standing: None, checks: Vec::new(), advice: Vec::new(), to_keep: Vec::new() };
    Ok(answer(path, &agreed.draft.whole()?, &tried, &written))
}

fn declined(dialogue: &Dialogue) -> Answer {
    dialogue.say(LEFT);
    Answer::printed().with_exit(1)
}

fn draft_of(args: &AlignArgs) -> Result<Draft, Failure> {
    match &args.from {
        Some(from) => Draft::from_file(from, &args.limits),
        None => {
            let mut agreement = flags::agreement(&args.request.join(" "), &args.agreement, &args.limits)?;
            if agreement.objective.goal.is_empty() {
                agreement.objective.goal = flags::goal_of(&agreement.request);
            }
            Draft::of(&agreement)
        }
    }
}

fn warn_of_progress(draft: &Draft) {
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
    /// The text has work done in it, which a loop that begins does not take over.
    pub progress_left_out: bool,
}

impl Draft {
    pub fn of(agreement: &aot_core::state::Agreement) -> Result<Draft, Failure> {
        if let Some(id) = agreement.taken_twice() {
            return Err(Refusal::IdTaken(id.clone()).into());
        }
        let document = contract::draft(agreement).map_err(failure::not_written)?;
        Ok(Draft { document, name: "the agreement".into(), progress_left_out: false })
    }

    fn from_file(from: &str, limits: &LimitArgs) -> Result<Draft, Failure> {
        let (name, bytes) = arguments::read_file(from, FILE_HINT)?;
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
                Err(not_agreed(&Unreadable { path: name, text, findings }))
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
        let document = contract::write(&self.document, &old, &new).map_err(failure::not_written)?;
        Ok(Draft { document, ..self })
    }

    /// With the check of the base case for an atom that stands alone and has none (D22), and what a person is told of it.
    pub fn with_check_of_lone_atom(self) -> Result<(Draft, Option<String>), Failure> {
        let Ok(old) = self.state() else { return Ok((self, None)) };
        let Some((id, check)) = old.check_of_lone_atom() else { return Ok((self, None)) };
        let note = format!("{id} has no check of its own, so it takes the checks of the base case");
        let mut new = old.clone();
        if let Some(atom) = new.atoms.get_mut(id) {
            atom.check = Some(check);
        }
        let document = contract::write(&self.document, &old, &new).map_err(failure::not_written)?;
        Ok((Draft { document, ..self }, Some(note)))
    }

    /// The state, complete or not; fails with all mistakes in the text.
    pub fn state(&self) -> Result<State, Failure> {
        let reading = Reading::of(self.document.clone());
        match reading.state {
            Some(state) => Ok(state),
            None => {
                let findings = reading.findings;
                let findings = findings.into_iter().filter(|finding| finding.severity == Severity::Error);
                Err(not_agreed(&Unreadable {
                    path: self.name.clone(),
                    text: self.document.text().to_owned(),
                    findings: findings.collect(),
                }))
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
        let missing = missing.into_iter().map(|name| match flags::flag_of(&name) {
            Some(flag) => format!("{name} ({flag})"),
            None => name,
        });
        let missing: Vec<String> = missing.collect();
        let message = format!("the goal is not aligned yet; missing: {}", missing.join(", "));
        Err(Failure::new(FailureKind::NotReady, "not_aligned", message)
            .with_hint("say it by flags (`aot align --help`) or `--from FILE`, or sit at a terminal")
            .with_detail("missing", missing))
    }

    pub fn page(&self, ink: Ink, columns: usize) -> String {
        let Some(state) = Reading::of(self.document.clone()).state else { return String::new() };
        let Background { clarifications, scope } = contract::background(&self.document);
        agreement::page(&state, &AgreementExtras { clarifications, scope }, ink, columns)
    }
}

/// What is to be agreed on cannot be read as a state file.
pub fn not_agreed(unreadable: &Unreadable) -> Failure {
    let first = unreadable.findings.iter().find(|finding| finding.severity == Severity::Error);
    let first = first.map(|finding| format!(": {}", finding.message)).unwrap_or_default();
    let message = format!("{} cannot be agreed on{first}", unreadable.path.display());
    Failure::unreadable(FailureKind::Usage, "input", message, unreadable)
        .with_hint("correct it and give the command again; nothing was changed")
}

/// What somebody has said yes to.
#[derive(Debug)]
struct Agreed {
    draft: Draft,
    /// Evidence of the trial that the loop is to know.
    to_keep: Vec<EvidenceLine>,
}

/// A loop that was written.
#[derive(Debug)]
struct Written {
    loop_id: String,
    backup: Option<PathBuf>,
    /// The list in which git was told to ignore the state file, if it was not told before.
    ignored_in: Option<PathBuf>,
    /// What could not be kept beside it.
    warnings: Vec<String>,
}

/// Something beside the state could not be written, which was.
pub fn not_kept(what: &str, error: &std::io::Error) -> String {
    format!("warning: {what} could not be kept: {error}")
}

/// Names the loop, seals what was agreed on (D21, D23), and writes it.
fn write(path: &Path, agreed: &Agreed, over: ExistingFile) -> Result<Written, Failure> {
    let Agreed { draft, to_keep } = agreed;
    let state = draft.whole()?;
    let home = Home::of(path)?;
    // No driver may start on the loop that is being replaced.
    let lock = driver::acquire(&home)?;
    let project = project(path)?;
    let seal = Seal::of(&state.objective, &project.root).map_err(unreadable_project)?;
    let (loop_id, fingerprint) = (engine::new_id(), seal.fingerprint());
    let mut begun = state.clone();
    begun.control.loop_id = Some(loop_id.clone());
    begun.control.fingerprint = Some(fingerprint.clone());
    let document = contract::write(&draft.document, &state, &begun).map_err(failure::not_written)?;
    let told = vec![Change::LoopNamed { id: loop_id.clone() }, Change::FingerprintTaken { fingerprint }];
    let mut store = Store::open(path, &place::build_mark())?;
    let begun = Begun { document, state: begun, told };
    let backup = store.begin::<Refusal>(begun, over, jiff::Timestamp::now())?;
    // The loop is agreed on from here on, so that what else cannot be kept is no failure.
    let warnings = [seal.keep(&project).err(), Kept::of(&project).add(to_keep).err()];
    let warnings = ["the list of protected files", "how the checks stand"].into_iter().zip(warnings);
    let mut warnings: Vec<String> =
        warnings.filter_map(|(what, error)| Some(not_kept(what, &error?))).collect();
    drop(lock);
    let ignored_in = tree::ignore_state(&project, &Guard::new(place::this_program()?));
    let ignored_in = ignored_in.unwrap_or_else(|why| {
        warnings.push(format!("warning: git could not be told to ignore the state file: {why}"));
        None
    });
    Ok(Written { loop_id, backup, ignored_in, warnings })
}

/// What a person should know of the trees.
fn print_notes(notes: &[String]) {
    for note in notes {
        print::line(&format!("note       {note}"));
    }
}

/// How the checks end now, and what the linter finds.
fn print_trial(tried: &TrialResult) {
    if let Some(standing) = &tried.standing {
        print::line(&format!("\n{standing}"));
    }
    if !tried.advice.is_empty() {
        print::line("");
        tried.advice.iter().for_each(|advice| print::line(&lint::lines(advice)));
    }
}

fn answer(path: &Path, state: &State, tried: &TrialResult, written: &Written) -> Answer {
    let Written { loop_id, backup, ignored_in, warnings } = written;
    let mut lines = vec![format!("\nagreed: {}", path.display())];
    if let Some(backup) = backup {
        lines.push(format!("the one before is kept in {}", backup.display()));
    }
    if ignored_in.is_some() {
        lines.push("git ignores it from now on (info/exclude); `git add -f` shares it".into());
    }
    lines.push("Next: aot run".into());
    let json = json!({
        "success": true,
        "path": path,
        "loop": loop_id,
        "goal": state.objective.goal,
        "atoms": state.atoms.len(),
        "backup": backup,
        "ignored_in": ignored_in,
        "standing": tried.standing,
        "checks": tried.checks,
        "findings": tried.advice,
    });
    let mut answer = Answer::new(lines.join("\n"), json);
    answer.warnings.extend(warnings.iter().cloned());
    answer
}
