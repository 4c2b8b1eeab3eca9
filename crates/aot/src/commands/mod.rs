//! The command line: one file and one struct for each verb, and what all of them share.

mod agents;
mod align;
mod arguments;
mod atom;
pub mod call;
mod clean;
mod completions;
mod confirm;
mod demo;
mod detach;
mod dialogue_agent;
mod doctor;
mod gate;
mod graph;
mod help;
pub mod hook;
#[cfg(feature = "restate")]
mod hosts;
mod judge;
mod limits;
mod lint;
mod log;
mod loops;
mod mcp;
mod or;
mod plugin;
mod pr;
mod ready;
mod redirect;
#[cfg(all(test, feature = "restate", feature = "serve", feature = "watch"))]
mod reference;
#[cfg(feature = "restate")]
mod remote;
mod report;
mod run;
mod schema;
#[cfg(feature = "serve")]
mod serve;
mod session;
mod show;
mod status;
mod statusline;
mod stop;
mod trust;
mod turn;
mod undo;
mod validate;
mod verify;
#[cfg(feature = "watch")]
mod watch;
#[cfg(feature = "restate")]
mod worker;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use aot_core::rules::{Change, Ledger, Refusal};
use aot_runner::store::{Note, Recorded, Store};
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::{Value, json};

#[cfg(feature = "serve")]
pub use status::{base_case, estimated, newest_entries};
#[cfg(feature = "serve")]
pub use workspace::project;

use crate::failure::{self, Failure};
use crate::place;
use crate::print::{self, Answer, OutputFormat};
use crate::terminal;

/// The release, and the commit that the build script found.
const VERSION: &str = env!("AOT_VERSION");

/// Run coding agents until a goal is proven done, or say exactly why it cannot be.
#[derive(Debug, Parser)]
#[command(
    name = "aot",
    version = VERSION,
    propagate_version = true,
    max_term_width = WIDEST,
    arg_required_else_help = true
)]
pub struct Cli {
    /// The state file (default: .claude/aot-loop-state.md, in CLAUDE_PROJECT_DIR or from here upward)
    #[arg(long, global = true, value_name = "PATH", help_heading = "Global options")]
    state: Option<PathBuf>,
    /// Answer with one JSON object on standard output
    #[arg(long, global = true, help_heading = "Global options")]
    json: bool,
    /// End with the process that started this one
    #[arg(long, global = true, hide = true)]
    tied: bool,
    #[command(subcommand)]
    command: Command,
}

/// A verb with its arguments, which were read from the command line or from a call over a protocol.
pub trait Verb: std::fmt::Debug {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure>;
}

#[derive(Debug, Subcommand)]
enum Command {
    Validate(validate::ValidateArgs),
    Gate(gate::GateArgs),
    Status(status::StatusArgs),
    Graph(graph::GraphArgs),
    Log(log::LogArgs),
    Loops(loops::LoopsArgs),
    #[cfg(feature = "watch")]
    Watch(watch::WatchArgs),
    #[cfg(feature = "restate")]
    Hosts(hosts::HostsArgs),
    #[cfg(feature = "restate")]
    Worker(worker::WorkerArgs),
    Show(show::ShowArgs),
    Ready(ready::ReadyArgs),
    /// Add, start, resolve, fail, decompose or remove an atom
    #[command(subcommand)]
    Atom(atom::AtomCommand),
    /// Add alternatives, or switch to another one
    #[command(subcommand)]
    Or(or::OrCommand),
    #[command(visible_alias = "align-goal")]
    Align(Box<align::AlignArgs>),
    #[command(visible_alias = "enter-recursion")]
    Run(Box<run::RunArgs>),
    #[command(visible_alias = "exit-recursion")]
    Stop(stop::StopArgs),
    Report(report::ReportArgs),
    Pr(pr::PrArgs),
    Undo(undo::UndoArgs),
    Turn(turn::TurnArgs),
    Trust(trust::TrustArgs),
    Verify(verify::VerifyArgs),
    Judge(judge::JudgeArgs),
    Lint(lint::LintArgs),
    Confirm(confirm::ConfirmArgs),
    Redirect(Box<redirect::RedirectArgs>),
    Clean(clean::CleanArgs),
    Schema(schema::SchemaArgs),
    Doctor(doctor::DoctorArgs),
    Agents(agents::AgentsArgs),
    /// Answer a hook of Claude Code: its JSON on standard input, the answer on standard output
    ///
    /// Always exits with 0; prints nothing for an event that does not concern a loop.
    Hook(hook::HookArgs),
    Statusline(statusline::StatuslineArgs),
    #[cfg(feature = "serve")]
    Serve(serve::ServeArgs),
    Mcp(mcp::McpArgs),
    #[command(hide = true)]
    Call(call::CallArgs),
    /// Install the plugin for Claude Code, or show where it is
    #[command(subcommand)]
    Plugin(plugin::PluginCommand),
    Demo(demo::DemoArgs),
    Completions(completions::CompletionsArgs),
    #[command(hide = true)]
    Man(completions::ManArgs),
}

impl Command {
    fn verb(&self) -> &dyn Verb {
        match self {
            Command::Validate(verb) => verb,
            Command::Gate(verb) => verb,
            Command::Status(verb) => verb,
            Command::Graph(verb) => verb,
            Command::Log(verb) => verb,
            Command::Loops(verb) => verb,
            #[cfg(feature = "watch")]
            Command::Watch(verb) => verb,
            #[cfg(feature = "restate")]
            Command::Hosts(verb) => verb,
            #[cfg(feature = "restate")]
            Command::Worker(verb) => verb,
            Command::Show(verb) => verb,
            Command::Ready(verb) => verb,
            Command::Atom(command) => command.verb(),
            Command::Or(command) => command.verb(),
            Command::Align(verb) => &**verb,
            Command::Run(verb) => &**verb,
            Command::Stop(verb) => verb,
            Command::Report(verb) => verb,
            Command::Pr(verb) => verb,
            Command::Undo(verb) => verb,
            Command::Turn(verb) => verb,
            Command::Trust(verb) => verb,
            Command::Verify(verb) => verb,
            Command::Judge(verb) => verb,
            Command::Lint(verb) => verb,
            Command::Confirm(verb) => verb,
            Command::Redirect(verb) => &**verb,
            Command::Clean(verb) => verb,
            Command::Schema(verb) => verb,
            Command::Doctor(verb) => verb,
            Command::Agents(verb) => verb,
            Command::Statusline(verb) => verb,
            #[cfg(feature = "serve")]
            Command::Serve(verb) => verb,
            Command::Hook(verb) => verb,
            Command::Mcp(verb) => verb,
            Command::Call(verb) => verb,
            Command::Plugin(verb) => verb,
            Command::Demo(verb) => verb,
            Command::Completions(verb) => verb,
            Command::Man(verb) => verb,
        }
    }
}

/// The program: reads the command line, prints the answer, and says with which code to exit.
pub fn run() -> Result<u8, (Failure, OutputFormat)> {
    let asked_for_json = std::env::args_os().any(|word| word == "--json");
    let format = if asked_for_json { OutputFormat::Json } else { OutputFormat::Text };
    let parsed = command(terminal::columns()).try_get_matches().and_then(|matches| {
        Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command(terminal::columns())))
    });
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) if error.kind() == ErrorKind::DisplayVersion && asked_for_json => {
            print::json(&version());
            return Ok(0);
        }
        Err(error) => std::process::exit(code_of(failure::usage(&error, format))),
    };
    let answer = cli.answer().map_err(|failure| (failure, format))?;
    answer.print(format);
    Ok(answer.exit)
}

/// The widest that the help becomes.
const WIDEST: usize = 100;

/// The command line, with a first page for this window.
fn command(columns: Option<usize>) -> clap::Command {
    help::grouped(Cli::command(), columns.unwrap_or(WIDEST).min(WIDEST))
}

/// What `aot --version --json` says.
fn version() -> Value {
    let known = |text: &'static str| Some(text).filter(|text| !text.is_empty());
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "commit": known(env!("AOT_COMMIT")),
        "commit_date": known(env!("AOT_COMMIT_DATE")),
    })
}

fn code_of(code: ExitCode) -> i32 {
    if code == ExitCode::SUCCESS { 0 } else { 2 }
}

impl Cli {
    fn answer(self) -> Result<Answer, Failure> {
        if self.tied {
            aot_runner::host::end_with_parent();
        }
        let format = if self.json { OutputFormat::Json } else { OutputFormat::Text };
        self.command.verb().run(&Invocation { state: self.state, format })
    }
}

/// What every verb gets from the command line: the state file that was named, and the format of the answer.
#[derive(Debug)]
pub struct Invocation {
    state: Option<PathBuf>,
    format: OutputFormat,
}

impl Invocation {
    fn store(&self) -> Result<Store, Failure> {
        Ok(Store::open(&self.path()?, &place::build_mark())?)
    }

    /// Only a person, or a host, writes the state; what `aot` itself started does not (D27).
    fn by_person(&self) -> Result<(), Failure> {
        if !place::is_in_job() {
            return match self.path() {
                Ok(path) => place::claim(&path),
                // Whether there has to be a state file is the verb's business.
                Err(_) => Ok(()),
            };
        }
        let message = "this was started by aot as a part of a loop: it may look, but not write the state";
        Err(Failure::refused("not_a_person", message)
            .with_hint("a person types it in a terminal of their own"))
    }

    /// The state file as it was named or found; it may be a link.
    fn path(&self) -> Result<PathBuf, Failure> {
        place::state_file(self.state.as_deref())
    }

    /// One operation on the state: decided by rules under the lock, and written.
    fn operate<T>(
        &self,
        purpose: &str,
        decide: impl FnMut(&mut Ledger) -> Result<T, Refusal>,
        tell: impl FnOnce(&T, &[Change]) -> (String, Value),
    ) -> Result<Answer, Failure> {
        self.by_person()?;
        let mut store = self.store()?;
        let recorded = store.change(purpose, jiff::Timestamp::now(), decide)?;
        session::note_changes(&store, &recorded.changes);
        let (text, object) = tell(&recorded.value, &recorded.changes);
        Ok(recorded_answer(&recorded, text, object))
    }
}

/// The answer of a verb that has changed the state file.
fn recorded_answer<T>(recorded: &Recorded<T>, text: String, mut object: Value) -> Answer {
    let notes: Vec<String> = recorded.notes.iter().map(Note::to_string).collect();
    object["success"] = json!(true);
    object["changes"] = json!(recorded.changes);
    if !notes.is_empty() {
        object["notes"] = json!(notes);
    }
    let warnings = notes.iter().map(|note| format!("warning: {note}")).collect();
    Answer::new(text, object).with_warnings(warnings)
}

/// The answer of a verb that needs an aligned goal.
fn not_aligned(missing: &[String], mut object: Value) -> Answer {
    object["missing"] = json!(missing);
    Answer::new(format!("not aligned; missing: {}", missing.join(", ")), object).with_exit(3)
}

/// A summary or a reason stands in the file for people to read: it may not be blank.
fn says_something(flag: &str, text: &str) -> Result<(), Failure> {
    if text.trim().is_empty() {
        return Err(Failure::input(flag, "it is empty", "say it in a sentence"));
    }
    Ok(())
}
