//! Errors as the user sees them: a kind that picks the exit code, the error itself, and hints. The only place that prints
//! errors; what can go wrong is said where it arises.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use aot_core::contract::{Finding, Severity};
use aot_core::rules::Refusal;
use aot_runner::driver::DriverLockError;
use aot_runner::engine::RunError;
use aot_runner::hosting::HostingError;
use aot_runner::store::error::FileError;
use aot_runner::store::{StoreError, Unreadable};
use aot_runner::tree::GroundError;
use serde::Serialize;
use serde_json::{Value, json};

use crate::print::{self, OutputFormat};
use crate::terminal;
use crate::text;

/// Why a verb failed, as far as a script can act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// A rule, or the world, does not let it be done.
    Refused,
    /// The command line, or a file that it names, cannot be understood.
    Usage,
    /// Something has to be agreed on or installed first.
    NotReady,
    /// The state file cannot be read or written.
    StateFile,
    /// The base case or a protected file is not as it was agreed on.
    Tampered,
    /// A person has to allow it first.
    NeedsPerson,
    /// The person at the terminal has left.
    Interrupted,
}

impl FailureKind {
    fn exit(self) -> u8 {
        match self {
            FailureKind::Refused => 1,
            FailureKind::Usage => 2,
            FailureKind::NotReady => 3,
            FailureKind::StateFile => 4,
            FailureKind::Tampered => 16,
            FailureKind::NeedsPerson => 17,
            FailureKind::Interrupted => 130,
        }
    }
}

#[derive(Debug)]
pub struct Failure {
    kind: FailureKind,
    /// The name by which scripts know it.
    code: &'static str,
    error: Box<dyn Error + Send + Sync>,
    hints: Vec<String>,
    /// Further keys of the JSON object.
    details: Vec<(&'static str, Value)>,
    /// Lines of a file with what is wrong in them, shown above the message.
    excerpt: Option<String>,
}

impl Failure {
    pub fn new(
        kind: FailureKind,
        code: &'static str,
        error: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Failure {
        let error = error.into();
        Failure { kind, code, error, hints: Vec::new(), details: Vec::new(), excerpt: None }
    }

    pub fn refused(code: &'static str, error: impl Into<Box<dyn Error + Send + Sync>>) -> Failure {
        Failure::new(FailureKind::Refused, code, error)
    }

    /// A flag, a field or a file of the user's that cannot be understood.
    pub fn input(what: impl Display, problem: impl Display, hint: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Usage, "input", format!("{what}: {problem}")).with_hint(hint)
    }

    /// The system did not let us do something.
    pub fn world(doing: &str, problem: impl Display) -> Failure {
        Failure::refused("world", format!("cannot {doing}: {problem}"))
            .with_hint("see the cause; nothing was changed")
    }

    /// A file that does not follow the contract, whatever the reader wanted it for.
    pub fn unreadable(
        kind: FailureKind,
        code: &'static str,
        message: String,
        unreadable: &Unreadable,
    ) -> Failure {
        let Unreadable { path, text, findings } = unreadable;
        let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
        let listed = findings_json(findings.iter().filter(|finding| finding.severity != Severity::Warning));
        let mut failure =
            Failure::new(kind, code, message).with_detail("errors", listed).with_detail("path", path);
        failure.excerpt = Some(draw(errors, &path.display().to_string(), text));
        failure
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Failure {
        self.hints.push(hint.into());
        self
    }

    pub fn with_detail(mut self, key: &'static str, value: impl Serialize) -> Failure {
        self.details.push((key, json!(value)));
        self
    }

    /// The error, if it is of this type.
    pub fn error<E: Error + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }

    pub fn message(&self) -> String {
        self.error.to_string()
    }

    pub fn hint(&self) -> String {
        self.hints.join("; ")
    }

    fn object(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message(), "hint": self.hint()});
        for (key, value) in &self.details {
            error[key] = value.clone();
        }
        json!({ "error": error })
    }

    /// With `--json` standard output holds exactly one object, whatever happened, and standard error nothing.
    fn print(&self, format: OutputFormat) {
        if format == OutputFormat::Json {
            return print::json(&self.object());
        }
        self.excerpt.iter().for_each(|excerpt| complain(excerpt));
        complain(&format!("error: {}", self.message()));
        self.hints.iter().for_each(|hint| complain(&format!("hint: {hint}")));
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        let (code, hint) = (refusal.code(), refusal.hint());
        Failure::refused(code, refusal).with_hint(hint)
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        let hint = error.hint();
        Failure::new(FailureKind::StateFile, "file", error).with_hint(hint)
    }
}

impl From<StoreError<Refusal>> for Failure {
    fn from(error: StoreError<Refusal>) -> Failure {
        of_store(error)
    }
}

/// A transaction that failed, whatever type its refusals have.
pub fn of_store<E: Into<Failure>>(error: StoreError<E>) -> Failure {
    match error {
        StoreError::File(error) => error.into(),
        StoreError::Unreadable(unreadable) => {
            let errors = unreadable.findings.iter().filter(|f| f.severity == Severity::Error).count();
            let mistakes = if errors == 1 { "1 mistake".to_owned() } else { format!("{errors} mistakes") };
            let message = format!("{} has {mistakes} in it", unreadable.path.display());
            Failure::unreadable(FailureKind::StateFile, "unreadable", message, &unreadable)
                .with_hint("`aot validate` shows every mistake with its place")
        }
        StoreError::Refused(refusal) => refusal.into(),
        StoreError::Conflict { why, kept } => {
            let message =
                format!("the state file was changed by two sides in ways that exclude each other: {why}");
            Failure::new(FailureKind::StateFile, "conflict", message).with_hint(format!(
                "both texts are kept in {}; the file stands as the other side saved it, and the command can be \
                 given again",
                kept.display()
            ))
        }
        StoreError::NotWritten(reason) => not_written(reason),
    }
}

/// A change for which the file, as it is written, has no room.
pub fn not_written(reason: impl Display) -> Failure {
    Failure::refused("not_written", format!("the change cannot be written into this file: {reason}"))
        .with_hint("write the place by hand in plain block style, then try again")
}

impl From<GroundError> for Failure {
    fn from(error: GroundError) -> Failure {
        let hint = error.hint();
        Failure::refused("ground", error).with_hint(hint)
    }
}

impl From<HostingError> for Failure {
    fn from(error: HostingError) -> Failure {
        let hint = error.hint();
        Failure::refused("hosting", error).with_hint(hint)
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        match error {
            // The gate was asked before; the file was changed in between.
            RunError::NotAligned(error) => Failure::new(FailureKind::NotReady, "not_aligned", error),
            RunError::Store(error) => error.into(),
            RunError::NotWritten(reason) => not_written(reason),
            RunError::Ground(error) => error.into(),
            RunError::World(problem) => Failure::world("begin", problem),
        }
    }
}

impl From<DriverLockError> for Failure {
    fn from(error: DriverLockError) -> Failure {
        match error {
            DriverLockError::Taken { holder } => driven(&holder),
            DriverLockError::File(error) => error.into(),
        }
    }
}

/// Another process drives the loop.
pub fn driven(holder: &str) -> Failure {
    Failure::refused("driven", format!("this loop is driven already, by {holder}"))
        .with_hint("`aot status` shows where it stands, `aot stop` ends it; a driver that died is taken over")
}

/// Runs the program and turns whatever happens into an exit code; a bug of ours becomes one line, not a stack trace.
pub fn guard(run: impl FnOnce() -> Result<u8, (Failure, OutputFormat)> + std::panic::UnwindSafe) -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        let place =
            panic.location().map(|place| format!("{}:{}", place.file(), place.line())).unwrap_or_default();
        let text = panic.payload_as_str().unwrap_or("no message").to_owned();
        if is_lack_of_threads(&text) {
            let message = format!("the system lets no further thread or process be started: {text}");
            return Failure::refused("no_threads", message).with_hint(MORE_THREADS).print(asked_format());
        }
        complain(&format!(
            "error: aot has a bug: {text} ({place})\nhint: the state file is as it was; please report this line"
        ));
    }));
    match std::panic::catch_unwind(run) {
        Ok(Ok(code)) => ExitCode::from(code),
        Ok(Err((failure, format))) => {
            failure.print(format);
            ExitCode::from(failure.kind.exit())
        }
        Err(payload) => {
            let text = payload.downcast_ref::<String>().map_or("", String::as_str);
            if is_lack_of_threads(text) {
                return ExitCode::from(FailureKind::Refused.exit());
            }
            if asked_format() == OutputFormat::Json {
                let message = "aot has a bug; standard error tells where";
                print::json(
                    &json!({"error": {"code": "bug", "message": message, "hint": "please report it"}}),
                );
            }
            ExitCode::from(70)
        }
    }
}

const MORE_THREADS: &str = "end other programs, or raise the limit: `ulimit -u`; the state file is as it was";

/// What the standard library and the runtime panic with where the system refuses a thread. No thread is started that could be
/// done without, so every such refusal ends the verb; it is no bug of ours.
fn is_lack_of_threads(panic: &str) -> bool {
    panic.contains("failed to spawn thread") || panic.contains("OS can't spawn worker thread")
}

/// The format of the answer, for errors that come before or after the command line is known.
fn asked_format() -> OutputFormat {
    match std::env::args_os().any(|word| word == "--json") {
        true => OutputFormat::Json,
        false => OutputFormat::Text,
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
            print::json(&json!({"error": {"code": "usage", "message": message, "hint": hint}}));
        }
    }
    ExitCode::from(2)
}

pub fn complain(text: &str) {
    // Without standard error there is no place left for the message.
    let _ = writeln!(io::stderr(), "{}", text::harmless(text));
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

/// The part of a long line around a column, and the column within it. The whole would cost time for each finding in it.
fn part_around(line: &str, column: usize) -> (&str, usize) {
    if line.len() <= DRAWN_CHARS {
        return (line, column);
    }
    let first = (column - 1).saturating_sub(DRAWN_CHARS / 2);
    let at = |index: usize| line.char_indices().nth(index).map_or(line.len(), |(at, _)| at);
    (&line[at(first)..at(first + DRAWN_CHARS)], column - first)
}

/// How many findings are drawn; the object has all of them.
const MAX_DRAWN: usize = 50;
/// How much of a line is drawn.
const DRAWN_CHARS: usize = 400;

/// Findings with the lines they are about.
pub fn draw<'f>(findings: impl Iterator<Item = &'f Finding>, path: &str, text: &str) -> String {
    let renderer =
        if terminal::colourful(terminal::Stream::Err) { Renderer::styled() } else { Renderer::plain() };
    let lines: Vec<&str> = text.lines().collect();
    let mut drawn = Vec::new();
    for finding in findings.take(MAX_DRAWN) {
        let level = match finding.severity {
            Severity::Error | Severity::Incomplete => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let (line, column) = (finding.place.line as usize, finding.place.column as usize);
        let source = lines.get(line - 1).copied().unwrap_or_default();
        let (source, column) = part_around(source, column);
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
