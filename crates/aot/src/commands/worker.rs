//! `aot worker`: this machine does jobs of loops that are driven elsewhere.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

use aot_core::coordinator::OnRefusedStart;
use aot_core::state::{Atom, AtomId, Control, Objective, State};
use aot_core::verdict::Jobs;
use aot_restate::host::{Place, Serving, Standing};
use aot_runner::agents::{AgentFlag, Team};
use aot_runner::crew::RunConfig;
use aot_runner::process::Guard;
use aot_runner::remote::host::{HostConfig, WorkerHost};
use aot_runner::remote::keys::{self, Peers, PublicKey};
use aot_runner::remote::wire::{MOST_SLOTS, WantedAgents};
use aot_runner::tree::check_source;
use clap::Args;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::remote::{self, NamedKey};
use super::workspace::Workspace;
use super::{Invocation, Verb};
use crate::failure::{Failure, FailureKind};
use crate::place;
use crate::print::{self, Answer, OutputFormat};

/// Hosts that say nothing else are taken to have one account together: a limit of one is a limit of all.
const ACCOUNT: &str = "shared";

/// Do jobs for loops that run elsewhere: `aot run --on` gives them, a Restate server brings them
///
/// Takes orders only from machines whose key you trust (`--driver`), works in a clone of its own, and uses the agents, the
/// logins and the settings of this user on this machine. Ctrl-C ends it and what it started.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// The engine that brings jobs: restate=URL, the admin address of a Restate server
    #[arg(long, value_name = "ENGINE")]
    on: String,
    /// The repository whose loops it works for: a folder or an address. It is cloned once
    #[arg(long, value_name = "DIR|URL")]
    repo: String,
    /// Where the engine reaches it
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9080")]
    listen: SocketAddr,
    /// How many jobs at once
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_SLOTS)))]
    slots: u32,
    /// What it is called; each host has its own name (default: the machine's)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What atoms may ask for in `needs`, like gpu,macos
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    offers: Vec<String>,
    /// Whose limits its agents use up: hosts with the same account wait together when one is limited
    #[arg(long, value_name = "NAME", default_value = ACCOUNT)]
    account: String,
    /// Trust this driver from now on; `aot hosts` prints it there
    #[arg(long, value_name = "NAME=KEY", value_parser = NamedKey::read)]
    driver: Vec<NamedKey>,
    /// The URL by which the engine reaches it, if that is not the address it listens at
    #[arg(long, value_name = "URL")]
    reached_by: Option<String>,
    /// Take requests of this Restate server only: its request identity key, publickeyv1_…
    #[arg(long, value_name = "KEY")]
    identity_key: Vec<String>,
}

impl Verb for WorkerArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        invocation.by_person()?;
        let address = remote::address(&self.on)?.to_owned();
        let settings = remote::settings()?;
        let name = self.name()?;
        self.check_words()?;
        let (source, guard) = (self.source()?, Guard::new(place::this_program()?));
        check_source(&source, &guard).map_err(|error| {
            Failure::input("--repo", format!("`{}` cannot be cloned: {error}", self.repo), error.hint())
        })?;
        self.driver.iter().try_for_each(|driver| driver.remember(Peers::Drivers))?;
        if keys::known(&settings, Peers::Drivers).is_empty() {
            let message = "no driver is trusted on this machine, so there is nobody to work for";
            return Err(Failure::new(FailureKind::NotReady, "no_drivers", message).with_hint(
                "type `aot hosts` on the driver's machine, and give its key here: --driver NAME=KEY",
            ));
        }
        let identity = remote::identity()?;
        let listener = TcpListener::bind(self.listen)
            .map_err(|error| Failure::world(&format!("listen at {}", self.listen), error))?;
        let listens = listener.local_addr().unwrap_or(self.listen);
        let url = self.url(listens, &name);
        let key = identity.public();
        match invocation.format {
            OutputFormat::Json => print::json(&json!({
                "type": "listening", "name": name, "key": key.to_string(), "address": listens.to_string(),
                "url": url, "slots": self.slots, "offers": self.offers,
            })),
            OutputFormat::Text => {
                print::line(&format!("host     {name}, {} slots, at {url}", self.slots));
                print::line(&format!("key      {key}"));
                print::line(&format!("trust    on the driver's machine: aot hosts --trust {name}={key}"));
            }
        }
        let knows = move |key: &PublicKey| {
            keys::known(&settings, Peers::Drivers).iter().any(|(_, known)| known == key)
        };
        let format = invocation.format;
        let tell = move |text: String| match format {
            OutputFormat::Json => print::json(&json!({"type": "note", "text": text})),
            OutputFormat::Text => print::line(&text),
        };
        let host = WorkerHost::new(HostConfig {
            name: name.clone(),
            slots: self.slots,
            offers: self.offers.clone(),
            account: self.account.clone(),
            source,
            folder: folder(&name)?,
            guard,
            identity,
            knows: Box::new(knows),
            configure: Box::new(|root, wanted| configure(root, wanted).map_err(|failure| failure.message())),
            tell: Box::new(tell),
        });
        host.watch().map_err(|error| Failure::world("start a thread", error))?;
        let place = Place { name, engine: address, url, identity_keys: self.identity_key.clone() };
        let serving = Serving::start(place, listener, Arc::new(host.clone()), move |standing| {
            tell(word(&standing));
        });
        let serving = serving.map_err(|error| Failure::world("serve", error))?;
        wait_for_a_signal()?;
        // First those who wait for jobs are told how these end.
        host.end();
        drop(serving);
        Ok(Answer::printed())
    }
}

impl WorkerArgs {
    fn name(&self) -> Result<String, Failure> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => remote::machine_name(),
        };
        match remote::is_name(&name) {
            true => Ok(name),
            false => Err(Failure::input(
                "--name",
                format!("`{name}` is no name of a host"),
                "use small letters, digits and hyphens: --name build1",
            )),
        }
    }

    /// What atoms ask for is compared word by word.
    fn check_words(&self) -> Result<(), Failure> {
        let is_word = |word: &&String| {
            !word.is_empty() && word.chars().all(|one| one.is_alphanumeric() || "-_.".contains(one))
        };
        match self.offers.iter().chain([&self.account]).find(|word| !is_word(word)) {
            None => Ok(()),
            Some(word) => Err(Failure::input(
                "--offers, --account",
                format!("`{word}` is no word"),
                "use letters, digits, hyphens, dots and underscores: --offers gpu,big-disk",
            )),
        }
    }

    fn url(&self, listens: SocketAddr, name: &str) -> String {
        match &self.reached_by {
            Some(url) => url.clone(),
            None if listens.ip().is_unspecified() => format!("http://{name}:{}", listens.port()),
            None => format!("http://{listens}"),
        }
    }

    /// A folder is named from the root: the clone is made elsewhere.
    fn source(&self) -> Result<String, Failure> {
        let folder = Path::new(&self.repo);
        if !folder.is_dir() {
            return Ok(self.repo.clone());
        }
        let folder = folder.canonicalize().map_err(|error| Failure::world("find the repository", error))?;
        Ok(folder.to_string_lossy().into_owned())
    }
}

fn folder(name: &str) -> Result<std::path::PathBuf, Failure> {
    let cache =
        place::user_cache().ok_or_else(|| Failure::world("keep clones", "there is no home folder"))?;
    Ok(cache.join("hosts").join(name))
}

/// What a run in a clone needs. The settings are those of this machine's user: a repository opens no cage here.
fn configure(root: &Path, wanted: &WantedAgents) -> Result<RunConfig, Failure> {
    let workspace = Workspace::on_host(&root.join(place::STATE_FILE), Jobs::default())?;
    let team = team(&workspace, wanted)?;
    workspace.run_config(team, OnRefusedStart::Park)
}

/// The agents that the driver wants, as far as they are here. A job that needs another one goes to another host.
fn team(workspace: &Workspace, wanted: &WantedAgents) -> Result<Team, Failure> {
    let flags =
        |words: &[String]| words.iter().filter_map(|word| AgentFlag::read(word).ok()).collect::<Vec<_>>();
    let naming = |names: &[String]| {
        let atoms = names.iter().enumerate().map(|(number, name)| {
            let id = AtomId::new(format!("A{number}"));
            (id.clone(), Arc::new(Atom { agent: Some(name.clone()), ..Atom::new(id, String::new()) }))
        });
        State {
            objective: Objective::default(),
            control: Control::fresh(),
            atoms: atoms.collect(),
            decompositions: Vec::new(),
            or_groups: Default::default(),
            bindings: Default::default(),
            trail: Vec::new(),
            corrections: Vec::new(),
            background: Default::default(),
        }
    };
    let is_here =
        |words: &[String], names: &[String]| workspace.team(&flags(words), &naming(names), false).is_ok();
    let roles: Vec<String> =
        wanted.roles.iter().filter(|word| is_here(&[(*word).clone()], &[])).cloned().collect();
    let named: Vec<String> =
        wanted.named.iter().filter(|name| is_here(&[], &[(*name).clone()])).cloned().collect();
    workspace.team(&flags(&roles), &naming(&named), false)
}

fn word(standing: &Standing) -> String {
    match standing {
        Standing::Registered => "ready    registered at the engine".into(),
        Standing::EngineAway { why } => format!("waiting  for the engine: {why}"),
        Standing::Refused { why } => format!("waiting  the engine does not take this host: {why}"),
        Standing::Replaced { by } => format!("replaced another host has this name now, at {by}"),
    }
}

/// Ctrl-C, or what ends services. The second time at once; guards clear what runs.
fn wait_for_a_signal() -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| Failure::world("listen to signals", error))?;
    let (sender, first) = channel();
    let thread = std::thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            if sender.send(()).is_err() {
                std::process::exit(super::run::INTERRUPTED.into());
            }
        }
    });
    thread.map_err(|error| Failure::world("start a thread", error))?;
    // Without a sender the thread is gone, and this process ends as well.
    let _ = first.recv();
    Ok(())
}
