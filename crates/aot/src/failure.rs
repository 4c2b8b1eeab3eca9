//! Everything that can go wrong, in words: the only place that prints errors and picks exit codes.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use aot_core::contract::{Finding, Severity};
use aot_core::rules::Refusal;
use aot_core::state::AtomId;
use aot_core::verdict::Verdict;
use aot_runner::checks::quoted;
use aot_runner::checks::seal::Altered;
use aot_runner::shell::RunError;
use aot_runner::store::error::FileError;
use aot_runner::store::{StoreError, Unreadable};
use serde_json::{Value, json};

use crate::print::{self, OutputFormat};

/// So many changes are listed in one message.
const TOLD: usize = 10;

#[derive(Debug)]
pub enum Failure {
    /// The answer is no; it has been printed.
    No,
    NotAligned,
    /// There is nothing that could be verified.
    NoBaseCase(&'static str),
    /// A person is needed; what for has been printed.
    NeedsPerson,
    /// What was agreed on was changed (D21).
    Tampered(Vec<Altered>),
    /// The check of an atom did not pass; the evidence has been shown or is in here.
    CheckFailed {
        atom: AtomId,
        verdict: Verdict,
        evidence: Value,
    },
    /// A check that asks for its own verification.
    WithinCheck,
    /// Something that `aot` started wants to decide for a person, or to write the state (D27).
    NotAPerson,
    /// The loop has halted with this exit code; why has been printed.
    Halted(u8),
    /// The person who was asked has gone away; nothing was changed.
    GoneAway,
    /// What is to be agreed on lacks something, and nobody can be asked.
    Lacking {
        missing: Vec<String>,
    },
    /// Nobody has said yes, and nobody can be asked.
    NoYes,
    /// What is to be agreed on cannot be read as a state file.
    NotAgreed(Box<Unreadable>),
    /// Another process drives the loop.
    Driven {
        holder: String,
    },
    /// The loop belongs to a session of a host.
    Owned {
        session: String,
    },
    /// The loop of this session does not run.
    AtRest,
    /// There is no session that the loop could be taken for.
    NoSession,
    /// A result that the program did not see proven; the loop stands as it was.
    Unproven {
        atom: AtomId,
        reason: String,
        left: u32,
    },
    /// A result that came to nothing; what follows has been written.
    NotLanded {
        atom: AtomId,
        reason: String,
    },
    /// Somebody else redirects.
    Redirected {
        holder: String,
    },
    /// There is no ground to work on; the reason names the remedy.
    Ground {
        problem: String,
        hint: String,
    },
    /// The agents that are wanted cannot be had.
    Team {
        problem: String,
        hint: String,
    },
    /// There is no such assertion.
    NoAssertion {
        item: String,
        problem: &'static str,
        known: Vec<String>,
    },
    /// Something in the world went wrong.
    World {
        doing: &'static str,
        problem: String,
    },
    NoFolder(String),
    NoStateFile {
        from: PathBuf,
    },
    Unreadable(Box<Unreadable>),
    Refused(Refusal),
    File(FileError),
    Conflict {
        why: String,
        kept: PathBuf,
    },
    NotWritten(String),
    /// Something that was given cannot be read.
    Input {
        what: String,
        problem: String,
        hint: String,
    },
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        Failure::File(error)
    }
}

impl From<StoreError<Refusal>> for Failure {
    fn from(error: StoreError<Refusal>) -> Failure {
        match error {
            StoreError::File(error) => Failure::File(error),
            StoreError::Unreadable(unreadable) => Failure::Unreadable(unreadable),
            StoreError::Refused(refusal) => Failure::Refused(refusal),
            StoreError::Conflict { why, kept } => Failure::Conflict { why, kept },
            StoreError::NotWritten(reason) => Failure::NotWritten(reason.to_string()),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        match error {
            // The gate has been asked before; somebody changed the file in between.
            RunError::NotAligned(_) => Failure::NotAligned,
            RunError::Store(error) => error.into(),
            RunError::NotWritten(reason) => Failure::NotWritten(reason),
            RunError::Ground(error) => Failure::Ground { problem: error.to_string(), hint: error.hint() },
            RunError::World(problem) => Failure::World { doing: "begin", problem },
        }
    }
}

impl Failure {
    fn exit(&self) -> u8 {
        match self {
            Failure::No
            | Failure::Refused(_)
            | Failure::NotWritten(_)
            | Failure::CheckFailed { .. }
            | Failure::WithinCheck
            | Failure::NotAPerson
            | Failure::Driven { .. }
            | Failure::Owned { .. }
            | Failure::AtRest
            | Failure::Unproven { .. }
            | Failure::NotLanded { .. }
            | Failure::Redirected { .. }
            | Failure::Ground { .. }
            | Failure::NoAssertion { .. }
            | Failure::World { .. } => 1,
            Failure::Halted(code) => *code,
            Failure::GoneAway => 130,
            Failure::Input { .. } | Failure::NoSession | Failure::NoYes | Failure::NotAgreed(_) => 2,
            Failure::NotAligned | Failure::NoBaseCase(_) | Failure::Lacking { .. } | Failure::Team { .. } => {
                3
            }
            Failure::Tampered(_) => 16,
            Failure::NeedsPerson => 17,
            Failure::NoFolder(_)
            | Failure::NoStateFile { .. }
            | Failure::Unreadable(_)
            | Failure::File(_)
            | Failure::Conflict { .. } => 4,
        }
    }

    fn code(&self) -> String {
        match self {
            Failure::No | Failure::NotAligned | Failure::NeedsPerson | Failure::Halted(_) => "no".into(),
            Failure::GoneAway => "gone_away".into(),
            Failure::Lacking { .. } => "not_aligned".into(),
            Failure::NoYes => "no_yes".into(),
            Failure::NotAgreed(_) => "input".into(),
            Failure::Driven { .. } => "driven".into(),
            Failure::Owned { .. } => "owned".into(),
            Failure::AtRest => "at_rest".into(),
            Failure::NoSession => "no_session".into(),
            Failure::Unproven { .. } => "check_failed".into(),
            Failure::NotLanded { .. } => "not_landed".into(),
            Failure::Redirected { .. } => "redirected".into(),
            Failure::Ground { .. } => "ground".into(),
            Failure::Team { .. } => "agent".into(),
            Failure::NoBaseCase(_) => "no_base_case".into(),
            Failure::Tampered(_) => "tampered".into(),
            Failure::CheckFailed { .. } => "check_failed".into(),
            Failure::WithinCheck => "within_check".into(),
            Failure::NotAPerson => "not_a_person".into(),
            Failure::NoAssertion { .. } => "no_assertion".into(),
            Failure::World { .. } => "world".into(),
            Failure::NoFolder(_) => "no_folder".into(),
            Failure::NoStateFile { .. } => "no_state_file".into(),
            Failure::Unreadable(_) => "unreadable".into(),
            Failure::Refused(refusal) => refusal.code().into(),
            Failure::File(_) => "file".into(),
            Failure::Conflict { .. } => "conflict".into(),
            Failure::NotWritten(_) => "not_written".into(),
            Failure::Input { .. } => "input".into(),
        }
    }

    pub fn message(&self) -> String {
        match self {
            Failure::No | Failure::Halted(_) => "no".into(),
            Failure::GoneAway => "nobody answers any more; nothing was changed".into(),
            Failure::Lacking { missing } => {
                format!("the goal is not aligned yet; missing: {}", missing.join(", "))
            }
            Failure::NoYes => "nobody has said yes to it, and nobody can be asked here".into(),
            Failure::NotAgreed(unreadable) => {
                let first = unreadable.findings.iter().find(|finding| finding.severity == Severity::Error);
                let first = first.map(|finding| format!(": {}", finding.message)).unwrap_or_default();
                format!("{} cannot be agreed on{first}", unreadable.path.display())
            }
            Failure::Driven { holder } => format!("this loop is driven already, by {holder}"),
            Failure::Owned { session } => format!("this loop belongs to the session {session} of a host"),
            Failure::AtRest => "the loop of this session is not running".into(),
            Failure::NoSession => "there is no session of a host here".into(),
            Failure::Unproven { atom, reason, .. } => format!("{atom} is not resolved: {reason}"),
            Failure::NotLanded { atom, reason } => format!("{atom} is not resolved: {reason}"),
            Failure::Redirected { holder } => format!("somebody redirects this loop already: {holder}"),
            Failure::Ground { problem, .. } | Failure::Team { problem, .. } => problem.clone(),
            Failure::NeedsPerson => "a person is needed".into(),
            Failure::NoBaseCase(problem) => (*problem).into(),
            Failure::Tampered(altered) => {
                let told = altered.iter().take(TOLD).map(|altered| format!("\n  {}", altered.told()));
                let more = altered.len().saturating_sub(TOLD);
                let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
                format!(
                    "what was agreed on at the alignment is no longer the same:{}{more}",
                    told.collect::<String>()
                )
            }
            Failure::CheckFailed { atom, verdict, .. } => {
                let how = match verdict {
                    Verdict::Passed => "passed",
                    Verdict::Failed => "failed",
                    Verdict::Error => "could not be run",
                    Verdict::Pending => "waits for a judge or a person",
                };
                format!("the check of atom `{atom}` {how}, so the atom is not resolved")
            }
            Failure::WithinCheck => "this is a check of the same state file; it cannot ask for itself".into(),
            Failure::NotAPerson => {
                "this was started by aot as a part of a loop: it may look, but not write the state".into()
            }
            Failure::NoAssertion { item, problem, .. } => format!("`{item}` {problem}"),
            Failure::World { doing, problem } => format!("cannot {doing}: {problem}"),
            Failure::NotAligned => "the goal is not aligned yet".into(),
            Failure::NoFolder(error) => format!("the current folder cannot be told: {error}"),
            Failure::NoStateFile { from } => {
                format!("there is no {} in {} or above it", crate::place::STATE_FILE, from.display())
            }
            Failure::Unreadable(unreadable) => {
                let errors = unreadable.findings.iter().filter(|f| f.severity == Severity::Error).count();
                let mistakes =
                    if errors == 1 { "1 mistake".to_owned() } else { format!("{errors} mistakes") };
                format!("{} has {mistakes} in it", unreadable.path.display())
            }
            Failure::Refused(refusal) => refusal.to_string(),
            Failure::File(error) => error.to_string(),
            Failure::Conflict { why, .. } => {
                format!("the state file was changed by two sides in ways that exclude each other: {why}")
            }
            Failure::NotWritten(reason) => format!("the change cannot be written into this file: {reason}"),
            Failure::Input { what, problem, .. } => format!("{what}: {problem}"),
        }
    }

    pub fn hint(&self) -> String {
        match self {
            Failure::No | Failure::NotAligned | Failure::NeedsPerson | Failure::Halted(_) => String::new(),
            Failure::GoneAway => "give the command again".into(),
            Failure::Lacking { .. } => {
                "say it by flags (`aot align --help`) or `--from FILE`, or sit at a terminal".into()
            }
            Failure::NoYes => "add `--yes`, or sit at a terminal".into(),
            Failure::NotAgreed(_) => "correct it and give the command again; nothing was changed".into(),
            Failure::Driven { .. } => {
                "`aot status` shows where it stands, `aot stop` ends it; a driver that died is taken over"
                    .into()
            }
            Failure::Owned { .. } => {
                "leave it to that session; if it is gone: `/aot:enter-recursion take over` in a new one, or \
                 `aot run --take-over` here"
                    .into()
            }
            Failure::AtRest => "`aot status` says why; `aot run --session` takes it up again".into(),
            Failure::NoSession => "name it: `aot run --session ID`".into(),
            Failure::Unproven { atom, left, .. } => format!(
                "its tree is as it was: let the worker mend it and resolve it again ({left} left), or give it up with \
                 `aot atom fail {atom} --reason …`"
            ),
            Failure::NotLanded { atom, .. } => {
                format!("it is pending again; its work is kept, `aot log {atom}` tells where")
            }
            Failure::Redirected { .. } => "wait until that redirect is made".into(),
            Failure::Ground { hint, .. } | Failure::Team { hint, .. } => hint.clone(),
            Failure::NoBaseCase(_) => {
                "write `objective.base_case`: a `checklist` with at least one item".into()
            }
            Failure::Tampered(_) => {
                "put it back; or, if a person meant it, accept it with `aot redirect --accept`".into()
            }
            Failure::CheckFailed { atom, .. } => {
                format!(
                    "make the check pass and try again, or give up with `aot atom fail {atom} --reason …`"
                )
            }
            Failure::NotAPerson => "a person types it in a terminal of their own".into(),
            Failure::WithinCheck => "let the check look at the work itself".into(),
            Failure::NoAssertion { known, .. } if known.is_empty() => {
                "there is no `assertion` in the base case or in the check of an atom".into()
            }
            Failure::NoAssertion { known, .. } => {
                let known: Vec<String> = known.iter().map(|item| quoted(item)).collect();
                format!("what can be confirmed: {}", known.join(", "))
            }
            Failure::World { .. } => "see the cause; nothing was changed".into(),
            Failure::NoFolder(_) => "go to a folder that exists".into(),
            Failure::NoStateFile { .. } => "go to the project, or name the file with `--state PATH`".into(),
            Failure::Unreadable(_) => "`aot validate` shows every mistake with its place".into(),
            Failure::Refused(refusal) => refusal.hint(),
            Failure::File(error) => error.hint(),
            Failure::Conflict { kept, .. } => format!(
                "both texts are kept in {}; the file stands as the other side saved it, and the command can be given again",
                kept.display()
            ),
            Failure::NotWritten(_) => "write the place by hand in plain block style, then try again".into(),
            Failure::Input { hint, .. } => hint.clone(),
        }
    }

    fn object(&self) -> Value {
        let mut error = json!({"code": self.code(), "message": self.message(), "hint": self.hint()});
        if let Failure::Unreadable(unreadable) | Failure::NotAgreed(unreadable) = self {
            error["errors"] =
                findings_json(unreadable.findings.iter().filter(|f| f.severity != Severity::Warning));
            error["path"] = json!(unreadable.path);
        }
        if let Failure::Lacking { missing } = self {
            error["missing"] = json!(missing);
        }
        if let Failure::Tampered(altered) = self {
            error["changed"] = json!(altered);
        }
        if let Failure::CheckFailed { evidence, .. } = self {
            error["evidence"] = evidence.clone();
        }
        json!({ "error": error })
    }

    fn tell(&self, format: OutputFormat) {
        match (self, format) {
            (Failure::No | Failure::NotAligned | Failure::NeedsPerson | Failure::Halted(_), _) => {}
            // Whoever asked for JSON finds exactly one object on standard output, whatever happened.
            (_, OutputFormat::Json) => {
                print::json(&self.object());
                complain(&self.object().to_string());
            }
            (Failure::Unreadable(unreadable) | Failure::NotAgreed(unreadable), OutputFormat::Text) => {
                let errors = unreadable.findings.iter().filter(|f| f.severity == Severity::Error);
                complain(&draw(errors, &unreadable.path.display().to_string(), &unreadable.text));
                complain(&format!("error: {}\nhint: {}", self.message(), self.hint()));
            }
            (_, OutputFormat::Text) => complain(&format!("error: {}\nhint: {}", self.message(), self.hint())),
        }
    }
}

/// Runs the program and turns whatever happens into an exit code; a bug of ours becomes one line, not a stack trace.
pub fn guard(run: impl FnOnce() -> Result<(), (Failure, OutputFormat)> + std::panic::UnwindSafe) -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        let place =
            panic.location().map(|place| format!("{}:{}", place.file(), place.line())).unwrap_or_default();
        let text = panic.payload_as_str().unwrap_or("no message").to_owned();
        complain(&format!(
            "error: aot has a bug: {text} ({place})\nhint: the state file is as it was; please report this line"
        ));
    }));
    match std::panic::catch_unwind(run) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err((failure, format))) => {
            failure.tell(format);
            ExitCode::from(failure.exit())
        }
        Err(_) => {
            if std::env::args_os().any(|word| word == "--json") {
                let message = "aot has a bug; standard error tells where";
                print::json(
                    &json!({"error": {"code": "bug", "message": message, "hint": "please report it"}}),
                );
            }
            ExitCode::from(70)
        }
    }
}

/// Wrong words on the command line: clap's own text, or its first sentence as an object.
pub fn usage(error: &clap::Error, format: OutputFormat) -> ExitCode {
    if !error.use_stderr() {
        print::out(|stdout| write!(stdout, "{}", error.render()));
        return ExitCode::SUCCESS;
    }
    match format {
        OutputFormat::Text => {
            // Colour is clap's business, and so is a terminal that has gone away.
            let _ = error.print();
        }
        OutputFormat::Json => {
            let text = error.render().to_string();
            let said = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect::<Vec<_>>();
            let message = said.join(" ").trim_start_matches("error: ").to_owned();
            let hint = "see `aot --help`";
            let object = json!({"error": {"code": "usage", "message": message, "hint": hint}});
            print::json(&object);
            complain(&object.to_string());
        }
    }
    ExitCode::from(2)
}

pub fn complain(text: &str) {
    // If standard error is gone there is nobody to tell.
    let _ = writeln!(io::stderr(), "{text}");
}

pub fn findings_json<'f>(findings: impl Iterator<Item = &'f Finding>) -> Value {
    findings
        .map(|finding| {
            json!({
                "severity": finding.severity,
                "code": finding.code,
                "message": finding.message,
                "line": finding.place.line,
                "column": finding.place.column,
                "hint": finding.hint,
            })
        })
        .collect()
}

/// Findings with the lines they are about.
pub fn draw<'f>(findings: impl Iterator<Item = &'f Finding>, path: &str, text: &str) -> String {
    let renderer = if print::colourful(print::Stream::Err) { Renderer::styled() } else { Renderer::plain() };
    let lines: Vec<&str> = text.lines().collect();
    let mut drawn = Vec::new();
    for finding in findings {
        let level = match finding.severity {
            Severity::Error | Severity::Incomplete => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let (line, column) = (finding.place.line as usize, finding.place.column as usize);
        let source = lines.get(line - 1).copied().unwrap_or_default();
        let start = source.char_indices().nth(column - 1).map_or(source.len(), |(at, _)| at);
        let length = source[start..].find([',', ']', '}', '#']).unwrap_or(source.len() - start);
        let end =
            start + source[start..start + length].trim_end().len().max(usize::from(start < source.len()));
        let span = start..end.max(start);
        let snippet = Snippet::source(source)
            .line_start(line)
            .path(path)
            .annotation(AnnotationKind::Primary.span(span));
        let title = level.primary_title(&*finding.message).element(snippet);
        let help = Group::with_title(Level::HELP.with_name("hint").secondary_title(&*finding.hint));
        drawn.push(renderer.render(&[title, help]).to_string());
    }
    drawn.join("\n\n")
}
