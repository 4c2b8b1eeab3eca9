//! The words of the command line, and which file answers each verb.

mod agents;
mod align;
mod atom;
mod confirm;
mod counsel;
mod demo;
mod doctor;
mod gate;
mod graph;
pub mod hook;
mod limits;
mod lint;
mod log;
mod mcp;
mod or;
mod plugin;
mod ready;
mod redirect;
mod run;
mod schema;
mod session;
mod show;
mod status;
mod stop;
mod turn;
mod validate;
mod verify;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use aot_core::rules::{Change, Ledger, Refusal};
use aot_runner::store::{Note, Recorded, Store};
use clap::{Parser, Subcommand};
use serde_json::{Value, json};

use crate::failure::{self, Failure};
use crate::print::OutputFormat;
use crate::{place, print};

/// Gives a goal to coding agents and stops when the goal is proven done, or says exactly why it cannot be.
#[derive(Debug, Parser)]
#[command(
    name = "aot",
    version,
    propagate_version = true,
    max_term_width = 100,
    arg_required_else_help = true
)]
pub struct Cli {
    /// The state file (default: .claude/aot-loop-state.md, in CLAUDE_PROJECT_DIR or from here upward)
    #[arg(long, global = true, value_name = "PATH")]
    state: Option<PathBuf>,
    /// Answer with one JSON object on standard output
    #[arg(long, global = true)]
    json: bool,
    /// End with the process that started this one
    #[arg(long, global = true, hide = true)]
    tied: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Read the state file strictly and list every mistake with its place
    Validate,
    /// Tell whether the goal is aligned, and what is missing
    Gate,
    /// Tell where the loop stands: what runs, what is next, what failed, what it can still cost
    Status,
    /// Draw the graph: what waits for what, what was cut into what, which ways there are
    Graph,
    /// Tell what happened, newest last
    Log(log::LogArgs),
    /// Show the state
    Show,
    /// List the atoms that can start now, in the order in which they would
    Ready,
    /// Add, start, resolve, fail, decompose or remove an atom
    #[command(subcommand)]
    Atom(atom::AtomVerb),
    /// Add alternatives, or switch to another one
    #[command(subcommand)]
    Or(or::OrVerb),
    /// Agree on a goal: what is wanted, what proves it, the first pieces of work
    ///
    /// By dialogue at a terminal, or from flags or a file with `--yes`. The checks are looked at and run once, so that
    /// you see how they stand before you agree.
    #[command(visible_alias = "align-goal")]
    Align(Box<align::AlignArgs>),
    /// Drive the loop until the goal is proven done, or say exactly why not
    ///
    /// Exits with 0 if it is done; 3 not aligned or no agent; 10 stopped; 11 stalled; 12 iteration limit; 13 no
    /// alternative left; 14 deadlock; 15 budget; 16 tampered; 17 needs a person; 130 interrupted.
    #[command(visible_alias = "enter-recursion")]
    Run(run::RunArgs),
    /// Ask the driver of a loop to stop
    #[command(visible_alias = "exit-recursion")]
    Stop(stop::StopArgs),
    /// End a turn of a session: the iteration is judged, and the loop halts or says what is next
    ///
    /// For hosts without hooks. The session is AOT_SESSION; where the plugin is installed, the host does it.
    Turn,
    /// Run the base case and show the evidence
    ///
    /// Exits with 0 if it passed, 1 if it failed, 17 if a person is needed (something to confirm, a check that cannot
    /// run), 16 if the base case or a protected file was changed.
    Verify(verify::VerifyArgs),
    /// Look for what is likely wrong with the base case; runs its checks once
    ///
    /// Exits with 0 if there is nothing to say, and 1 otherwise.
    Lint(lint::LintArgs),
    /// Say that an assertion holds, or with `--no` that it does not
    Confirm(confirm::ConfirmArgs),
    /// Change the direction: everything is interrupted, changed at once, and the loop goes on
    ///
    /// Goal, base case, atoms, ways, limits and results are changed by flags, or in a dialogue at a terminal. Several
    /// changes are made together or not at all.
    Redirect(Box<redirect::RedirectArgs>),
    /// Print the JSON Schema of the frontmatter
    Schema,
    /// Tell what is here and what holds, by trying it: git, locks, processes, the cage of workers
    ///
    /// Exits with 0 if nothing essential is missing, and 1 otherwise.
    Doctor,
    /// List the agents that can be asked: found, version, logged in, how they answer, how they are caged
    Agents,
    /// Answer a hook of Claude Code: its JSON on standard input, the answer on standard output
    ///
    /// Always exits with 0; says nothing when the event is none of our business.
    Hook(hook::HookArgs),
    /// Serve the verbs to agents over the Model Context Protocol, on standard input and output
    ///
    /// A client starts it: Claude Code, Codex, Gemini, opencode or another one. docs/guide/mcp.md shows how each is told.
    Mcp(mcp::McpArgs),
    /// Install the plugin for Claude Code, or tell where it is
    #[command(subcommand)]
    Plugin(plugin::PluginVerb),
    /// Watch a whole loop in a temporary folder: no model, no network, seconds
    Demo(demo::DemoArgs),
}

/// The program.
pub fn run() -> Result<(), (Failure, OutputFormat)> {
    let asked_for_json = std::env::args_os().any(|word| word == "--json");
    let format = if asked_for_json { OutputFormat::Json } else { OutputFormat::Text };
    match Cli::try_parse() {
        Ok(cli) => cli.answer().map_err(|failure| (failure, format)),
        Err(error) => std::process::exit(code_of(failure::usage(&error, format))),
    }
}

fn code_of(code: ExitCode) -> i32 {
    if code == ExitCode::SUCCESS { 0 } else { 2 }
}

impl Cli {
    fn answer(self) -> Result<(), Failure> {
        if self.tied {
            aot_runner::host::end_with_parent();
        }
        let invocation = Invocation {
            state: self.state,
            format: if self.json { OutputFormat::Json } else { OutputFormat::Text },
        };
        match self.verb {
            Verb::Validate => validate::run(&invocation),
            Verb::Gate => gate::run(&invocation),
            Verb::Status => status::run(&invocation),
            Verb::Graph => graph::run(&invocation),
            Verb::Log(args) => log::run(&invocation, &args),
            Verb::Show => show::run(&invocation),
            Verb::Ready => ready::run(&invocation),
            Verb::Atom(verb) => atom::run(&invocation, verb),
            Verb::Or(verb) => or::run(&invocation, verb),
            Verb::Align(args) => align::run(&invocation, &args),
            Verb::Run(args) => run::run(&invocation, &args),
            Verb::Stop(args) => stop::run(&invocation, &args),
            Verb::Turn => turn::run(&invocation),
            Verb::Verify(args) => verify::run(&invocation, &args),
            Verb::Lint(args) => lint::run(&invocation, &args),
            Verb::Confirm(args) => confirm::run(&invocation, &args),
            Verb::Redirect(args) => redirect::run(&invocation, &args),
            Verb::Schema => schema::run(),
            Verb::Doctor => doctor::run(&invocation),
            Verb::Agents => agents::run(&invocation),
            Verb::Hook(args) => hook::by_name(&args),
            Verb::Mcp(args) => mcp::run(&invocation, &args),
            Verb::Plugin(verb) => plugin::run(&invocation, &verb),
            Verb::Demo(args) => demo::run(&args),
        }
    }
}

/// What every verb gets from the command line: the state file that was named, and the format of the answer.
#[derive(Debug)]
struct Invocation {
    state: Option<PathBuf>,
    format: OutputFormat,
}

impl Invocation {
    fn store(&self) -> Result<Store, Failure> {
        Ok(Store::open(&self.path()?, &place::build_mark())?)
    }

    /// Only a person, or a host, writes the state; what `aot` itself started does not (D27).
    fn by_person(&self) -> Result<(), Failure> {
        if place::is_in_job() { Err(Failure::NotAPerson) } else { Ok(()) }
    }

    /// The state file as it was named or found; it may be a link.
    fn path(&self) -> Result<PathBuf, Failure> {
        place::state_file(self.state.as_deref())
    }

    /// One operation on the state: decided by rules under the lock, written, and told.
    fn operate<T>(
        &self,
        purpose: &str,
        decide: impl FnMut(&mut Ledger) -> Result<T, Refusal>,
        tell: impl FnOnce(&T, &[Change]) -> (String, Value),
    ) -> Result<(), Failure> {
        self.by_person()?;
        let recorded = self.store()?.change(purpose, jiff::Timestamp::now(), decide)?;
        let (line, object) = tell(&recorded.value, &recorded.changes);
        self.told(&recorded, &line, object);
        Ok(())
    }

    fn told<T>(&self, recorded: &Recorded<T>, line: &str, mut object: Value) {
        let notes: Vec<String> = recorded.notes.iter().map(Note::to_string).collect();
        match self.format {
            OutputFormat::Json => {
                object["success"] = json!(true);
                object["changes"] = json!(recorded.changes);
                if !notes.is_empty() {
                    object["notes"] = json!(notes);
                }
                print::json(&object);
            }
            OutputFormat::Text => {
                notes.iter().for_each(|note| failure::complain(&format!("warning: {note}")));
                print::line(line);
            }
        }
    }
}

/// A summary or a reason stands in the file for people to read: it may not be blank.
fn says_something(flag: &str, text: &str) -> Result<(), Failure> {
    if !text.trim().is_empty() {
        return Ok(());
    }
    let hint = "say it in a sentence".into();
    Err(Failure::Input { what: flag.into(), problem: "it is empty".into(), hint })
}
