//! What `aot run --on`, `aot worker` and `aot hosts` share: the engine as it is typed, this machine's keys, and what a driver
//! needs to give jobs to hosts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aot_core::state::Span;
use aot_restate::driver::{ConnectError, Restate};
use aot_runner::agents::Team;
use aot_runner::remote::dispatch::RemoteConfig;
use aot_runner::remote::keys::{self, MachineIdentity, Peers, PublicKey};
use aot_runner::remote::wire::WantedAgents;
use aot_runner::tree::ExchangePlace;
use clap::Args;

use crate::failure::{Failure, FailureKind};
use crate::place;

/// A host that does not answer for so long is away.
const HOST_TIMEOUT: Span = Span::from_seconds(15);

/// The engine in front of its address.
const RESTATE: &str = "restate=";

#[derive(Clone, Debug, Args)]
pub struct RemoteArgs {
    /// Have the jobs done by the hosts of this engine: restate=URL, the admin address of a Restate server (or
    /// restate=ADMIN,INGRESS). The loop's checks run on this machine, and work lands here
    #[arg(long, value_name = "ENGINE", help_heading = "Several machines")]
    on: Option<String>,
    /// Where work is handed over: a remote of the repository, or an address that all machines reach. Default: a repository
    /// beside this one
    #[arg(long, value_name = "REMOTE", requires = "on", help_heading = "Several machines")]
    hand_over: Option<String>,
    /// How hosts reach this machine's files, like ssh://me@driver
    #[arg(
        long,
        value_name = "ADDRESS",
        requires = "on",
        conflicts_with = "hand_over",
        help_heading = "Several machines"
    )]
    reached_by: Option<String>,
    /// A host that does not answer for so long loses its jobs to others (default: 15s)
    #[arg(long, value_name = "SPAN", requires = "on", value_parser = span, help_heading = "Several machines")]
    host_timeout: Option<Span>,
}

impl RemoteArgs {
    pub fn is_given(&self) -> bool {
        self.on.is_some()
    }

    /// The same for a process that goes on.
    pub fn words(&self) -> Vec<String> {
        let word = |flag: &str, value: Option<&String>| value.map(|value| format!("--{flag}={value}"));
        let timeout = self.host_timeout.map(|span| span.to_string());
        [
            word("on", self.on.as_ref()),
            word("hand-over", self.hand_over.as_ref()),
            word("reached-by", self.reached_by.as_ref()),
            word("host-timeout", timeout.as_ref()),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// What a driver needs, if the jobs are to be done elsewhere.
    pub fn config(&self, team: &Team) -> Result<Option<RemoteConfig>, Failure> {
        let Some(on) = &self.on else { return Ok(None) };
        address(on)?;
        let settings = settings()?;
        if keys::known(&settings, Peers::Hosts).is_empty() {
            let message = "no host is trusted on this machine, so none gets jobs";
            return Err(Failure::new(FailureKind::NotReady, "no_hosts", message).with_hint(
                "`aot worker` prints on each host what to type here: aot hosts --trust NAME=KEY",
            ));
        }
        let (roles, named) = team.names();
        Ok(Some(RemoteConfig {
            engine: Arc::new(engine(on)?),
            identity: identity()?,
            settings,
            agents: WantedAgents { roles, named },
            place: match &self.hand_over {
                Some(name) => ExchangePlace::Named(name.clone()),
                None => ExchangePlace::Own { reached_by: self.reached_by.clone() },
            },
            host_timeout: Duration::from_secs(self.host_timeout.unwrap_or(HOST_TIMEOUT).seconds().max(1)),
        }))
    }
}

pub fn span(text: &str) -> Result<Span, String> {
    Span::parse(text).ok_or_else(|| format!("`{text}` is not a span of time like `15s`"))
}

/// The address of the engine that is meant.
pub fn address(on: &str) -> Result<&str, Failure> {
    on.strip_prefix(RESTATE).filter(|address| !address.is_empty()).ok_or_else(|| {
        let problem = format!("`{on}` names no engine that is known");
        Failure::input("--on", problem, "give it as restate=URL, like restate=http://127.0.0.1:9070")
    })
}

pub fn engine(on: &str) -> Result<Restate, Failure> {
    Restate::connect(address(on)?).map_err(|error| {
        let hint = match &error {
            ConnectError::Engine(_) => {
                "start the server with `restate-server`, and name its admin address: restate=http://HOST:9070"
            }
            _ => "give it as restate=URL, like restate=http://127.0.0.1:9070",
        };
        Failure::new(FailureKind::NotReady, "engine", error).with_hint(hint)
    })
}

/// The user's folder in which keys are kept.
pub fn settings() -> Result<PathBuf, Failure> {
    place::user_settings().ok_or_else(|| Failure::world("keep keys", "there is no home folder"))
}

pub fn identity() -> Result<MachineIdentity, Failure> {
    MachineIdentity::of(&settings()?).map_err(|error| Failure::world("read this machine's key", error))
}

/// A machine and its key, as they are typed.
#[derive(Clone, Debug)]
pub struct NamedKey {
    pub name: String,
    pub key: PublicKey,
}

impl NamedKey {
    pub fn read(text: &str) -> Result<NamedKey, String> {
        let (name, key) = text.split_once('=').ok_or("it is written NAME=KEY")?;
        if !is_name(name) {
            return Err(format!("`{name}` is no name: letters, digits and hyphens"));
        }
        Ok(NamedKey { name: name.to_owned(), key: key.parse().map_err(|error| format!("{error}"))? })
    }

    /// Trusts it from now on.
    pub fn remember(&self, peers: Peers) -> Result<(), Failure> {
        let kept = keys::remember(&settings()?, peers, &self.name, self.key);
        kept.map_err(|error| Failure::world("keep the key", error))
    }
}

/// Names are parts of addresses and of files.
pub fn is_name(name: &str) -> bool {
    (1..=60).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !name.starts_with('-')
}

/// What this machine is called, if nothing else is said.
pub fn machine_name() -> String {
    let full = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    let name = full.split('.').next().unwrap_or_default();
    if is_name(name) { name.to_owned() } else { "machine".to_owned() }
}
