//! `aot serve`: which loops are shown on a page, and where it is. The page is served elsewhere.

use std::path::PathBuf;

use aot_runner::{loops as known, machine};
use clap::Args;
use serde_json::{Value, json};

use super::{Invocation, Verb};
use crate::failure::Failure;
use crate::place;
use crate::print::{self, Answer, OutputFormat};
use crate::serve::{self, Page};

/// Where stamps of the tokens of ports are kept, below the user's data.
const FOLDER: &str = "serve";

/// Of all loops, those that were driven last are shown.
const MOST_LOOPS: usize = 50;

/// Show loops on a page in the browser: graph, timeline, evidence; stop, redirect and confirm there
///
/// Only this machine reaches it, and only with the token in the address that is printed. Ctrl-C ends it; the loops go on.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Another loop on the same page, by its folder or its state file
    #[arg(long = "loop", value_name = "PATH")]
    loops: Vec<PathBuf>,
    /// All loops that `aot loops` lists, too
    #[arg(long)]
    all: bool,
    /// The port (default: a free one); with the same port, pages that are open go on when this is started again
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
}

impl Verb for ServeArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        if place::is_in_job() {
            let message = "this was started by aot as a part of a loop: the page is for a person";
            return Err(Failure::refused("not_a_person", message)
                .with_hint("a person types it in a terminal of their own"));
        }
        let states = self.states(invocation)?;
        let kept = machine::folder().map(|folder| folder.join(FOLDER));
        let bound = serve::bind(self.port, kept.as_deref(), jiff::Timestamp::now().as_second())
            .map_err(|error| Failure::world("listen on 127.0.0.1", error))?;
        let address = bound.address();
        match invocation.format {
            OutputFormat::Json => {
                let loops = states.iter().map(|state| json!({"id": serve::id(state), "state": state}));
                let loops: Vec<Value> = loops.collect();
                print::json(&json!({"address": address, "port": bound.port(), "loops": loops}));
            }
            OutputFormat::Text => {
                print::line(&format!("open     {address}"));
                print::line(
                    "         The address is a key: whoever has it can stop and redirect. Ctrl-C ends the page.",
                );
            }
        }
        bound
            .serve(Page { program: place::this_program()?, states })
            .map_err(|error| Failure::world("serve", error))?;
        Ok(Answer::printed())
    }
}

impl ServeArgs {
    /// The loop of this folder and those that are named, each once.
    fn states(&self, invocation: &Invocation) -> Result<Vec<PathBuf>, Failure> {
        let mut states = Vec::new();
        match invocation.path() {
            Ok(here) => states.push(here),
            // Those that are named are enough.
            Err(_) if !self.loops.is_empty() || self.all => {}
            Err(failure) => return Err(failure),
        }
        for named in &self.loops {
            let state = if named.is_dir() { named.join(place::STATE_FILE) } else { named.clone() };
            if !state.is_file() {
                let problem = format!("there is no state file {}", state.display());
                return Err(Failure::input(
                    "--loop",
                    problem,
                    "name the folder of a loop, or its state file",
                ));
            }
            states.push(state);
        }
        if self.all {
            let mut all = known::all();
            all.sort_by_key(|known| std::cmp::Reverse(known.driven));
            states.extend(all.into_iter().take(MOST_LOOPS).map(|known| known.state));
        }
        let mut found: Vec<PathBuf> = Vec::new();
        for state in states {
            let state = state.canonicalize().map_err(|error| Failure::world("find the state file", error))?;
            if !found.contains(&state) {
                found.push(state);
            }
        }
        if found.is_empty() {
            let message = "no loop has run here yet";
            return Err(Failure::refused("no_loop", message)
                .with_hint("start one with: aot run \"GOAL\" --check \"COMMAND\""));
        }
        Ok(found)
    }
}
