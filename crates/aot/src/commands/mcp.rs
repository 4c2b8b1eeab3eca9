//! `aot mcp`: whose session it is, and what happens when it is over. The protocol is spoken elsewhere.

use std::time::SystemTime;

use aot_core::rules::Refusal;
use aot_runner::process::Switch;
use aot_runner::session;
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::Invocation;
use crate::failure::{self, Failure};
use crate::mcp::{self, Server};
use crate::{place, print};

#[derive(Debug, Args)]
pub struct McpArgs {
    /// The session that drives the loop (default: the host's, or a new one that ends with the server)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

/// Whose a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Session {
    /// Somebody else's, who goes on when this server ends.
    Given(String),
    /// It begins and ends with this server.
    Own(String),
}

impl Session {
    fn id(&self) -> &str {
        match self {
            Session::Given(id) | Session::Own(id) => id,
        }
    }
}

pub fn run(invocation: &Invocation, args: &McpArgs) -> Result<(), Failure> {
    if print::is_answered() {
        failure::complain(
            "aot mcp speaks the Model Context Protocol with the client that starts it; docs/guide/mcp.md shows how",
        );
    }
    let given = args.session.clone().filter(|id| !id.trim().is_empty()).or_else(place::session);
    let session = given.map_or_else(|| Session::Own(new_id()), Session::Given);
    let switch = Switch::default();
    let server = Server {
        program: place::this_program()?,
        state: invocation.state.clone(),
        session: session.id().to_owned(),
        switch: switch.clone(),
    };
    let ending = Ending { state: invocation.state.clone(), session, switch };
    listen(ending.clone())?;
    let served = mcp::serve(server);
    ending.end();
    served.map_err(|problem| Failure::World { doing: "serve", problem })
}

/// What is to be done when nobody is served any more.
#[derive(Clone, Debug)]
struct Ending {
    state: Option<std::path::PathBuf>,
    session: Session,
    switch: Switch,
}

impl Ending {
    /// What runs is ended; the loop is left if it was taken by this server's own session.
    fn end(&self) {
        self.switch.turn_off();
        let Session::Own(id) = &self.session else { return };
        let Ok(path) = place::state_file(self.state.as_deref()) else { return };
        let invocation = Invocation { state: Some(path), format: print::OutputFormat::Json };
        let Ok(mut store) = invocation.store() else { return };
        if store.loop_facts::<Refusal>().is_ok_and(|facts| facts.belongs_to(id)) {
            // If it cannot be written now, the next session has to take it over.
            let _ = session::leave(&mut store, id);
        }
    }
}

/// A host that does not close the line says so by a signal.
fn listen(ending: Ending) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| Failure::World { doing: "listen to signals", problem: error.to_string() })?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            ending.end();
            std::process::exit(0);
        }
    });
    Ok(())
}

/// No two servers have the same.
fn new_id() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("mcp-{}-{}", std::process::id(), since.as_millis())
}
