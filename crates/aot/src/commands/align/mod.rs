//! `aot align`: a wish becomes an agreement that a loop can be run on. An agreement is a text first, whether it comes
//! from flags, a file, a dialogue or an agent. It is read strictly, shown, tried once, and written when a person has
//! agreed.

mod flags;
mod talk;
mod trees;
mod trial;

use std::sync::Arc;

use std::path::{Path, PathBuf};

use aot_core::brief::{Brief, Inquiry};
use aot_core::contract::{self, Document, Reading, Severity};
use aot_core::rules::{Change, Refusal, gate};
use aot_core::state::{Agreement, Background, Clarification, State};
use aot_core::verdict::Jobs;
use aot_runner::answers::TypedAnswers;
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
pub use trees::NO_PATH;
use trees::Provided;
use trial::TrialResult;

pub use flags::atom;
pub use talk::{Answering, answered, check_in_words};

/// What a new loop is made from. `aot align` takes it, and `aot run GOAL`.
#[derive(Clone, Debug, Default, Args, Deserialize, JsonSchema)]
pub struct NewLoopArgs {
    /// What you want, in your own words; kept below the state
    #[arg(value_name = "GOAL")]
    #[serde(default, deserialize_with = "arguments::text")]
    #[schemars(with = "String")]
    request: Vec<String>,
    /// Take the agreement from a file: a whole state file or YAML with its keys; `-` for standard input. Flags add to it
    #[arg(long, value_name = "FILE", help_heading = "A new loop")]
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
    /// Accept without being asked
    #[arg(long, short, help_heading = "A new loop")]
    #[serde(skip, default = "agreed")]
    yes: bool,
    /// Replace a state file that exists; it is kept as a backup
    #[arg(long, help_heading = "A new loop")]
    #[serde(default)]
    force: bool,
}

/// Agree on a goal: what you want, what proves it, the first pieces of work
///
/// By dialogue at a terminal, or from flags or a file with `--yes`. A goal and a check suffice; the rest has defaults. The
/// checks are run once, so that you see how they stand before you agree.
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct AlignArgs {
    #[command(flatten)]
    #[serde(flatten)]
    new: NewLoopArgs,
    /// Do not run the checks to see how they stand now
    #[arg(long)]
    #[serde(default)]
    no_run: bool,
    #[command(flatten)]
    #[serde(skip)]
    dialogue_agent: DialogueAgentArgs,
}

/// In a protocol the user has agreed before the call.
fn agreed() -> bool {
    true
}

/// What can be named as an agreement, or as a part of one.
pub const FILE_HINT: &str = "name a state file, a YAML file with its keys, or `-` for standard input";

/// The answer to an agent's question where nobody can be asked and the agent suggests none.
const UNANSWERED: &str = "Not answered: decide yourself, and say what you assumed.";

/// What a person reads who leaves the dialogue.
pub const LEFT: &str = "nothing was written";

impl Verb for AlignArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let path = new_loop_file(invocation)?;
        let is_dialogue =
            invocation.format == OutputFormat::Text && terminal::is_interactive() && !self.new.yes;
        if is_dialogue { converse(invocation, self, &path) } else { take(invocation, self, &path) }
    }
}

/// Where a new loop is written; no driver may be at work there.
pub fn new_loop_file(invocation: &Invocation) -> Result<PathBuf, Failure> {
    invocation.by_person()?;
    let path = place::new_state_file(invocation.state.as_deref())?;
    place::claim(&path)?;
    match driver::holder(&Home::of(&path)?) {
        Some(holder) => Err(failure::driven(&holder)),
        None => Ok(path),
    }
}

impl NewLoopArgs {
    /// Whether anything is said of a new loop; without it `aot run` goes on with the one that exists.
    pub fn is_given(&self) -> bool {
        let NewLoopArgs { request, from, agreement, limits: _, trees: _, yes: _, force: _ } = self;
        !request.is_empty() || from.is_some() || *agreement != flags::AgreementArgs::default()
    }

    /// Limits and trees of a loop that exists are changed elsewhere, so that nobody thinks they were taken.
    pub fn refuse_without_goal(&self) -> Result<(), Failure> {
        let is_idle = self.limits.is_empty() && self.trees.is_empty() && !self.force;
        if self.is_given() || is_idle {
            return Ok(());
        }
        Err(Failure::new(
            FailureKind::Usage,
            "no_goal",
            "these flags describe a new loop, and it has no goal",
        )
        .with_hint("add a goal, or change the loop that exists: aot redirect --set max_iterations=30"))
    }

    pub fn is_agreed(&self) -> bool {
        self.yes
    }

    /// What the flags and the file say.
    fn draft(&self) -> Result<Draft, Failure> {
        let mut given = flags::agreement(&self.request.join(" "), &self.agreement, &self.limits)?;
        if let Some(from) = &self.from {
            return Draft::from_file(from)?.with_flags(&given, &self.limits);
        }
        if given.objective.goal.is_empty() {
            given.objective.goal = flags::goal_of(&given.request);
        }
        Draft::of(&given)
    }
}

/// A new loop as a person sees it before saying yes.
#[derive(Debug)]
pub struct Proposal {
    pub state: State,
    draft: Draft,
    tried: TrialResult,
    notes: Vec<String>,
}

/// What a new loop is proposed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Agree,
    /// A dry run: nothing is written, so nobody is asked.
    Look,
}

/// A new loop that is whole, before its checks were run.
#[derive(Debug)]
pub struct Unseen {
    pub state: State,
    draft: Draft,
    notes: Vec<String>,
}

/// Reads the agreement and completes it. One that is not whole is refused.
pub fn read(
    invocation: &Invocation,
    args: &NewLoopArgs,
    (path, draft): (&Path, Option<Draft>),
    purpose: Purpose,
) -> Result<Unseen, Failure> {
    let draft = match draft {
        Some(draft) => draft,
        None => args.draft()?,
    };
    let guard = Guard::new(place::this_program()?);
    let (draft, completed) = draft.completed()?;
    let Provided { draft, mut notes } = args.trees.provide(draft, &place::project_root(path), &guard)?;
    notes.extend(completed);
    let state = draft.whole()?;
    let can_ask = invocation.format == OutputFormat::Text && terminal::is_interactive();
    if purpose == Purpose::Agree && !args.yes && !can_ask {
        return Err(Failure::new(FailureKind::Usage, "no_yes", "needs confirmation")
            .with_hint("pass `--yes`, or run it in a terminal"));
    }
    warn_of_progress(&draft);
    Ok(Unseen { state, draft, notes })
}

/// Runs the checks once, and shows the page.
pub fn propose(
    invocation: &Invocation,
    path: &Path,
    unseen: Unseen,
    no_run: bool,
) -> Result<Proposal, Failure> {
    let Unseen { state, draft, notes } = unseen;
    let tried = trial::run(invocation, path, &state, no_run)?;
    if invocation.format == OutputFormat::Text {
        let ink = Ink::of(Stream::Out);
        print::line(&ink.shown(draft.page(ink, ink.columns).trim_end()));
        print_notes(&notes);
        print_trial(&tried);
    }
    Ok(Proposal { state, draft, tried, notes })
}

/// What the person did not say, and what stands there instead.
fn defaults_note(filled: &[&str]) -> Option<String> {
    let words: Vec<&str> = filled.iter().map(|name| flags::word_of(name)).collect();
    (!words.is_empty()).then(|| format!("using defaults for: {}", words.join(", ")))
}

/// Writes what was proposed.
pub fn accept(path: &Path, proposal: Proposal, over: ExistingFile) -> Result<Answer, Failure> {
    let Proposal { state, draft, tried, notes } = proposal;
    let agreed = Agreed { draft, to_keep: tried.to_keep.clone() };
    let written = write(path, &agreed, over)?;
    let mut answer = answer(path, &state, &tried, &written);
    answer.json["notes"] = json!(notes);
    Ok(answer)
}

/// Whether a loop that exists may be replaced without asking: by `--force`.
pub fn existing(args: &NewLoopArgs, path: &Path) -> Result<ExistingFile, Failure> {
    match (path.exists(), args.force) {
        (true, false) => Err(FileError::Exists { path: Home::of(path)?.state().to_path_buf() }.into()),
        (_, true) => Ok(ExistingFile::BackUp),
        (false, false) => Ok(ExistingFile::Refuse),
    }
}

/// Without a dialogue. An agent that was named proposes what the flags leave open.
fn take(invocation: &Invocation, args: &AlignArgs, path: &Path) -> Result<Answer, Failure> {
    let over = existing(&args.new, path)?;
    let proposed = match args.new.yes && args.dialogue_agent.is_named() {
        true => Some(proposed(args, path)?),
        false => None,
    };
    let unseen = read(invocation, &args.new, (path, proposed), Purpose::Agree)?;
    let proposal = propose(invocation, path, unseen, args.no_run)?;
    accept(path, proposal, over)
}

/// What the agent proposes where nobody can be asked: its questions get the answer that it suggests itself.
fn proposed(args: &AlignArgs, path: &Path) -> Result<Draft, Failure> {
    let workspace = Workspace::for_agreement(path, Jobs::default())?;
    let new = &args.new;
    let agreement = flags::agreement(&new.request.join(" "), &new.agreement, &new.limits)?;
    let agent = DialogueAgent::find(&args.dialogue_agent, &workspace, &agreement.state(), None)?;
    let Some(agent) = agent else { return new.draft() };
    let found = habits::look(&workspace.project.root).describe();
    let ask = |brief: &Brief| agent.ask(brief);
    match talk::counselled(&ask, &found, &agreement, None, &mut as_suggested)? {
        Ok(draft) => Ok(draft),
        Err(problem) => Err(Failure::new(FailureKind::NotReady, "no_proposal", problem)
            .with_hint("say it by flags instead: `aot align GOAL --check COMMAND --yes`")),
    }
}

/// What an agent's questions are answered with where nobody can be asked: with what it suggests itself.
pub fn as_suggested(questions: &[Inquiry]) -> Result<Vec<Clarification>, Failure> {
    let answers = questions.iter().map(|Inquiry { question, suggested }| Clarification {
        question: question.clone(),
        answer: suggested.first().cloned().unwrap_or_else(|| UNANSWERED.to_owned()),
    });
    Ok(answers.collect())
}

/// With a person at the terminal.
fn converse(invocation: &Invocation, args: &AlignArgs, path: &Path) -> Result<Answer, Failure> {
    let dialogue = Dialogue::open(LEFT, || ())?;
    let workspace = Workspace::for_agreement(path, Jobs::default())?;
    let habits = habits::look(&workspace.project.root);
    let new = &args.new;
    let agreement = flags::agreement(&new.request.join(" "), &new.agreement, &new.limits)?;
    dialogue.remember(TypedAnswers::of(path, &agreement.request));
    let agent = match new.from {
        Some(_) => None,
        None => DialogueAgent::find(&args.dialogue_agent, &workspace, &agreement.state(), Some(&dialogue))?,
    };
    let ask = agent.as_ref().map(|agent| |brief: &Brief| agent.ask(brief));
    let ask = ask.as_ref().map(|ask| ask as Ask<'_>);
    let provide = |draft: Draft| new.trees.provide(draft, &workspace.project.root, &workspace.guard);
    let talk = AlignDialogue {
        invocation,
        path,
        dialogue: &dialogue,
        habits: &habits,
        ask,
        no_run: args.no_run,
        provide: &provide,
    };
    let agreed = match new.from {
        Some(_) => {
            let draft = new.draft()?;
            warn_of_progress(&draft);
            talk.settled(draft)?
        }
        None => talk.agree(agreement)?,
    };
    let Some(agreed) = agreed else { return Ok(declined(&dialogue)) };
    let over = if new.force { Some(ExistingFile::BackUp) } else { may_replace(&dialogue, path)? };
    let Some(over) = over else { return Ok(declined(&dialogue)) };
    let written = dialogue.undisturbed(|| write(path, &agreed, over))?;
    dialogue.forget();
    // The person has seen it before saying yes.
    let tried = TrialResult::default();
    Ok(answer(path, &agreed.draft.whole()?, &tried, &written))
}

pub fn declined(dialogue: &Dialogue) -> Answer {
    dialogue.say(LEFT);
    Answer::printed().with_exit(1)
}

/// Asks whether a loop that exists may be replaced; `None` if not.
pub fn may_replace(dialogue: &Dialogue, path: &Path) -> Result<Option<ExistingFile>, Failure> {
    if !path.exists() {
        return Ok(Some(ExistingFile::Refuse));
    }
    let question =
        format!("\n{} exists. Replace it with a new loop? The old one is kept as a backup.", path.display());
    let yes = dialogue.choose(&question, &[("no", false), ("yes", true)])?;
    Ok(yes.then_some(ExistingFile::BackUp))
}

fn warn_of_progress(draft: &Draft) {
    if draft.progress_left_out {
        failure::complain("warning: the work done in this file is left out; a new loop begins with none");
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

/// Refuses to race in a group that there is not.
fn knows_groups(state: &State, agreement: &Agreement) -> Result<(), Failure> {
    let unknown = agreement.speculative.iter().find(|group| !state.or_groups.contains_key(*group));
    unknown.map_or(Ok(()), |group| Err(Refusal::UnknownGroup(group.clone()).into()))
}

impl Draft {
    pub fn of(agreement: &Agreement) -> Result<Draft, Failure> {
        if let Some(id) = agreement.taken_twice() {
            return Err(Refusal::IdTaken(id.clone()).into());
        }
        knows_groups(&agreement.state(), agreement)?;
        let document = contract::draft(agreement).map_err(failure::not_written)?;
        Ok(Draft { document, name: "the agreement".into(), progress_left_out: false })
    }

    fn from_file(from: &str) -> Result<Draft, Failure> {
        let (name, bytes) = arguments::read_file(from, FILE_HINT)?;
        Draft::read(name, bytes)
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

    /// What the flags say besides.
    fn with_flags(self, given: &Agreement, limits: &LimitArgs) -> Result<Draft, Failure> {
        let old = self.state()?;
        if let Some(id) = given.taken_beside(&old) {
            return Err(Refusal::IdTaken(id.clone()).into());
        }
        let mut new = flags::over(&old, given);
        knows_groups(&new, given)?;
        for limit in limits.limits()? {
            new.objective.constraints = limit.within(new.objective.constraints);
        }
        let mut scope = contract::background(&self.document).scope;
        scope.included.extend(given.scope.included.iter().cloned());
        scope.excluded.extend(given.scope.excluded.iter().cloned());
        let document = contract::revise(&self.document, &old, &new, &scope).map_err(failure::not_written)?;
        Ok(Draft { document, ..self })
    }

    /// With the defaults for what was left out (D22, D39), and what a person is told of them. A draft that cannot be read stays
    /// as it is.
    fn completed(self) -> Result<(Draft, Vec<String>), Failure> {
        let Ok(old) = self.state() else { return Ok((self, Vec::new())) };
        let (mut new, filled) = gate::completed(old.clone());
        let mut notes: Vec<String> = defaults_note(&filled).into_iter().collect();
        if let Some((id, check)) = new.check_of_lone_atom() {
            let id = id.clone();
            notes.push(format!("{id} has no check of its own, so it takes the checks of the loop"));
            Arc::make_mut(&mut new.atoms[&id]).check = Some(check);
        }
        let document = contract::write(&self.document, &old, &new).map_err(failure::not_written)?;
        Ok((Draft { document, ..self }, notes))
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
            .with_hint("pass it by flags (`aot align --help`) or `--from FILE`, or run it in a terminal")
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
    let message = format!("{} is not a valid agreement{first}", unreadable.path.display());
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

/// A line of the page.
pub fn on_page(name: &str, text: &str) {
    agreement::row(name, text, terminal::page_columns()).iter().for_each(|line| print::line(line));
}

/// What a person should know of the trees.
fn print_notes(notes: &[String]) {
    notes.iter().for_each(|note| on_page("note", note));
}

/// Under checks that are green before any work.
const PROVES_NOTHING: &str = "Nothing is left to do for a loop with these checks. If there is, they prove too little: add one that \
                              fails now, with --check \"COMMAND\".";

/// How the checks end now, and what the linter finds.
fn print_trial(tried: &TrialResult) {
    tried.lines.iter().for_each(|line| print::line(line));
    if let Some(standing) = &tried.standing {
        print::line(&format!("\n{standing}"));
    }
    if tried.all_pass {
        text::wrapped(PROVES_NOTHING, terminal::page_columns()).iter().for_each(|line| print::line(line));
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
        lines.push(format!("the previous loop is kept in {}", backup.display()));
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
