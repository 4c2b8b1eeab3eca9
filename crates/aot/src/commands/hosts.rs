//! `aot hosts`: the machines that this one works with, whose keys are trusted, and how the hosts of the loop are.

use aot_runner::driver;
use aot_runner::live::HostsNow;
use aot_runner::remote::engine::OrderEngine;
use aot_runner::remote::keys::{self, Peers};
use aot_runner::store::home::Home;
use clap::Args;
use serde_json::json;

use super::remote::{self, NamedKey};
use super::status::recorded;
use super::{Invocation, Verb};
use crate::failure::Failure;
use crate::print::Answer;
use crate::screens::hosts as screen;

/// Show this machine's key, the hosts and drivers that it trusts, and how the loop's hosts are; trust a host
#[derive(Debug, Args)]
pub struct HostsArgs {
    /// Give jobs to this host from now on; `aot worker` prints it there
    #[arg(long, value_name = "NAME=KEY", value_parser = NamedKey::read)]
    trust: Vec<NamedKey>,
    /// List the hosts that are registered at this engine: restate=URL
    #[arg(long, value_name = "ENGINE")]
    on: Option<String>,
}

impl Verb for HostsArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        if !self.trust.is_empty() {
            invocation.by_person()?;
        }
        self.trust.iter().try_for_each(|host| host.remember(Peers::Hosts))?;
        let settings = remote::settings()?;
        let key = remote::identity()?.public();
        let (hosts, drivers) = (keys::known(&settings, Peers::Hosts), keys::known(&settings, Peers::Drivers));
        let registered = match &self.on {
            Some(on) => {
                let found = remote::engine(on)?.hosts();
                Some(found.map_err(|error| Failure::world("ask the engine", error))?)
            }
            None => None,
        };
        // Without a loop here, or without a driver, there is only this machine to tell of.
        let home = invocation.path().ok().and_then(|state| Home::of(&state).ok());
        let driven = home.filter(|home| driver::holder(home).is_some());
        let now: Option<HostsNow> = driven.and_then(|home| recorded(home.sidecar()).hosts);
        let text = || {
            let mut lines = vec![
                format!("key      {key}"),
                format!(
                    "         on each host: aot worker --on ENGINE --repo REPOSITORY --driver {}={key}",
                    remote::machine_name()
                ),
            ];
            let trusted = |peers: &[(String, keys::PublicKey)]| {
                peers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
            };
            if !hosts.is_empty() {
                lines.push(format!("hosts    {}", trusted(&hosts)));
            }
            if !drivers.is_empty() {
                lines.push(format!("drivers  {}", trusted(&drivers)));
            }
            for host in registered.iter().flatten() {
                let known = hosts.iter().any(|(name, _)| *name == host.name);
                let word = if known { "trusted" } else { "not trusted" };
                lines.push(format!("engine   {} is registered, {word}", host.name));
            }
            if let Some(now) = &now {
                lines.push(format!("hosts    {}", screen::summary(now)));
                lines.extend(now.hosts.iter().map(|host| format!("         {}", screen::line(host))));
            }
            lines.join("\n")
        };
        let object = || {
            let named = |peers: &[(String, keys::PublicKey)]| {
                let one =
                    |(name, key): &(String, keys::PublicKey)| json!({"name": name, "key": key.to_string()});
                peers.iter().map(one).collect::<Vec<_>>()
            };
            json!({
                "success": true,
                "key": key.to_string(),
                "hosts": named(&hosts),
                "drivers": named(&drivers),
                "registered": registered.as_ref().map(|all| all.iter().map(|host| &host.name).collect::<Vec<_>>()),
                "loop": now,
            })
        };
        Ok(Answer::lazy(invocation.format, text, object))
    }
}
