//! `aot mcp`: whose session it is, and what happens when it is over. The protocol is spoken elsewhere.

use std::time::SystemTime;

use aot_core::rules::Refusal;
use aot_runner::process::Switch;
use aot_runner::session;
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{Invocation, Verb};
use crate::failure::{self, Failure};
use crate::mcp::{self, CutAnswers, Server};
use crate::place;
use crate::print::{Answer, OutputFormat};
use crate::terminal;

/// Serve the verbs to agents over the Model Context Protocol, on standard input and output
///
/// A client starts it: Claude Code, Codex, Gemini, opencode or another one. docs/guide/mcp.md shows how each is told.
#[derive(Debug, Args)]
pub struct McpArgs {
    /// The session that drives the loop (default: the host's, or a new one that ends with the server)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

/// The session that calls belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ServerSession {
    /// The host's, which goes on when this server ends.
    Given(String),
    /// It begins and ends with this server.
    Own(String),
}

impl ServerSession {
    fn id(&self) -> &str {
        match self {
            ServerSession::Given(id) | ServerSession::Own(id) => id,
        }
    }
}

impl Verb for McpArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        if terminal::is_interactive() {
            failure::complain(
                "aot mcp speaks the Model Context Protocol with the client that starts it; docs/guide/mcp.md shows how",
            );
        }
        let given = self.session.clone().filter(|id| !id.trim().is_empty()).or_else(place::session);
        let session = given.map_or_else(|| ServerSession::Own(new_id()), ServerSession::Given);
        let switch = Switch::default();
        let server = Server {
            program: place::this_program()?,
            state: invocation.state.clone(),
            session: session.id().to_owned(),
            switch: switch.clone(),
            cut: CutAnswers::default(),
        };
        let cleanup = Cleanup { state: invocation.state.clone(), session, switch };
        listen(cleanup.clone())?;
        let served = mcp::serve(server);
        cleanup.run();
        served.map_err(|problem| Failure::world("serve", problem))?;
        Ok(Answer::printed())
    }
}

/// What is done when the server ends.
#[derive(Clone, Debug)]
struct Cleanup {
    state: Option<std::path::PathBuf>,
    session: ServerSession,
    switch: Switch,
}

impl Cleanup {
    /// Ends the calls that run, and leaves the loop if it was taken by this server's own session.
    fn run(&self) {
        self.switch.turn_off();
        let ServerSession::Own(id) = &self.session else { return };
        let Ok(path) = place::state_file(self.state.as_deref()) else { return };
        let invocation = Invocation { state: Some(path), format: OutputFormat::Json };
        let Ok(mut store) = invocation.store() else { return };
        if store.loop_facts::<Refusal>().is_ok_and(|facts| facts.belongs_to(id)) {
            // If it cannot be written now, the next session has to take it over.
            let _ = session::leave(&mut store, id);
        }
    }
}

/// A host that does not close the line says so by a signal.
fn listen(cleanup: Cleanup) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| Failure::world("listen to signals", error))?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            cleanup.run();
            std::process::exit(0);
        }
    });
    Ok(())
}

/// An id that no other server has.
fn new_id() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("mcp-{}-{}", std::process::id(), since.as_millis())
}
