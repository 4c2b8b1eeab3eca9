//! Which agent has which role: by the command line, by `aot.toml`, or the only one that is installed or logged in.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use aot_core::brief::Role;
use aot_core::contract::is_near;
use aot_core::state::{Atom, State};
use toml::Table;

use super::Agent;
use super::detect::LoginState;
use super::profile::{self, Profile, ProfileError, Transport};

/// In place of a name: the role has no agent.
const NO_AGENT: &str = "none";

/// The prefix of a name that is a command which speaks the Agent Client Protocol.
const ACP: &str = "acp:";

/// Agents that are taken without being named, if only one of them is installed.
pub const DETECTED: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

pub const ROLES: [Role; 4] = [Role::Worker, Role::Probe, Role::Judge, Role::Coordinator];

/// `--agent` of the command line: for all roles, or for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFlag {
    pub role: Option<Role>,
    pub name: String,
}

impl AgentFlag {
    /// `NAME` or `ROLE=NAME`.
    pub fn read(text: &str) -> Result<AgentFlag, String> {
        let (role, name) = match text.split_once('=') {
            Some((role, name)) if !role.contains([':', ' ']) => {
                let known = ROLES.into_iter().find(|known| known.word() == role);
                let known =
                    known.ok_or_else(|| format!("`{role}` is no role: worker, probe, judge, coordinator"))?;
                (Some(known), name)
            }
            Some(_) | None => (None, text),
        };
        if name.trim().is_empty() {
            return Err("no agent is named".into());
        }
        Ok(AgentFlag { role, name: name.trim().to_owned() })
    }

    /// What is read as this flag.
    pub fn word(&self) -> String {
        match self.role {
            Some(role) => format!("{}={}", role.word(), self.name),
            None => self.name.clone(),
        }
    }
}

/// The agents that the settings name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentSettings {
    pub default: Option<String>,
    pub roles: BTreeMap<&'static str, String>,
    pub models: BTreeMap<String, String>,
    /// The user's own profiles.
    pub own: BTreeMap<String, Table>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TeamError {
    #[error("agent `{name}` is not known")]
    Unknown { name: String, meant: Option<String> },
    #[error("agent `{name}` is not installed: no `{program}` is found")]
    NotFound { name: String, program: String },
    #[error("several agents are found: {}", .0.join(", "))]
    Several(Vec<String>),
    /// With what to do about each.
    #[error("several agents are found, and none of them is logged in: {}", named(.0))]
    NoneLoggedIn(Vec<(String, String)>),
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error(
        "agent `{0}` does not tell what it costs, and its profile has no price, but the loop has `max_cost_usd`"
    )]
    NoPrice(String),
}

impl TeamError {
    pub fn hint(&self) -> String {
        match self {
            TeamError::Unknown { meant: Some(meant), .. } => format!("did you mean `{meant}`?"),
            TeamError::Unknown { meant: None, .. } => {
                "`aot agents` lists those that are known; others need a table [agent.NAME] in aot.toml".into()
            }
            TeamError::NotFound { .. } => {
                "install it, or name another one: `aot agents` lists those that are found".into()
            }
            TeamError::Several(names) => {
                let first = names.first().map_or("NAME", String::as_str);
                format!("name one: --agent {first}; or once and for all: aot agents use {first}")
            }
            TeamError::NoneLoggedIn(found) => {
                let each = found.iter().map(|(name, login)| format!("for {name}, {login}"));
                let first = found.first().map_or("NAME", |(name, _)| name.as_str());
                format!("{}; or try one as it is: --agent {first}", each.collect::<Vec<_>>().join("; "))
            }
            TeamError::Profile(_) => "correct it in aot.toml".into(),
            TeamError::NoPrice(name) => format!(
                "add to aot.toml: [agent.{name}.price] with input and output, in US dollars for a million tokens"
            ),
        }
    }
}

fn named(found: &[(String, String)]) -> String {
    found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
}

/// The agent of each role, and those that atoms name.
#[derive(Clone, Debug, Default)]
pub struct Team {
    roles: BTreeMap<&'static str, Agent>,
    named: BTreeMap<String, Agent>,
    /// Why this one was taken although several are installed.
    choice: Option<String>,
}

/// What is installed here.
pub struct Installed<'i> {
    /// Finds a program by its name or path.
    pub find: &'i dyn Fn(&str) -> Option<PathBuf>,
    pub login: &'i dyn Fn(&Profile) -> LoginState,
}

impl fmt::Debug for Installed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Installed").finish_non_exhaustive()
    }
}

impl Team {
    /// The agent of a role. An atom may name a worker of its own.
    pub fn member(&self, role: Role, atom: Option<&Atom>) -> Option<&Agent> {
        let own = atom.and_then(|atom| atom.agent.as_ref()).and_then(|name| self.named.get(name));
        own.filter(|_| role == Role::Worker).or_else(|| self.roles.get(role.word()))
    }

    /// Agents whose login is not found, each once, with what to do about it.
    pub fn without_login(&self, login: &dyn Fn(&Profile) -> LoginState) -> Vec<(&str, &str)> {
        let mut found: Vec<(&str, &str)> = Vec::new();
        for agent in self.all().filter(|agent| login(&agent.profile) == LoginState::No) {
            let one = (agent.name.as_str(), agent.profile.login.hint.as_str());
            if !found.contains(&one) {
                found.push(one);
            }
        }
        found
    }

    /// The agents by name: for each role as a flag would say it, and those that atoms name.
    pub fn names(&self) -> (Vec<String>, Vec<String>) {
        let roles = self.roles.iter().map(|(role, agent)| format!("{role}={}", agent.name));
        (roles.collect(), self.named.keys().cloned().collect())
    }

    pub fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.named.is_empty()
    }

    pub fn all(&self) -> impl Iterator<Item = &Agent> {
        self.roles.values().chain(self.named.values())
    }

    /// Why an agent that nobody named was taken among several, for people.
    pub fn choice(&self) -> Option<&str> {
        self.choice.as_deref()
    }

    /// With `alone`, the only agent that is installed, or of several the only one that is logged in, may be taken without
    /// being named.
    pub fn choose(
        flags: &[AgentFlag],
        chosen: &AgentSettings,
        state: &State,
        alone: bool,
        installed: &Installed<'_>,
    ) -> Result<Team, TeamError> {
        let find_agent = |name: &str| find_agent(name, chosen, installed.find);
        let mut team = Team::default();
        let flagged = |role: Option<Role>| {
            flags.iter().rev().find(|flag| flag.role == role).map(|flag| flag.name.clone())
        };
        let mut fallback = flagged(None).or_else(|| chosen.default.clone());
        let named_worker = flagged(Some(Role::Worker)).or_else(|| chosen.roles.get("worker").cloned());
        if named_worker.is_none() && fallback.is_none() && alone {
            (fallback, team.choice) = only(chosen, installed)?;
        }
        for role in ROLES {
            let name = flagged(Some(role))
                .or_else(|| flagged(None))
                .or_else(|| chosen.roles.get(role.word()).cloned())
                .or_else(|| fallback.clone())
                .or_else(|| named_worker.clone());
            let Some(name) = name.filter(|name| name != NO_AGENT) else { continue };
            let mut agent = find_agent(&name)?;
            if let Some(model) = chosen.models.get(role.word()) {
                agent.model = Some(model.clone());
            }
            team.roles.insert(role.word(), agent);
        }
        for name in state.atoms.values().filter_map(|atom| atom.agent.as_ref()) {
            if !team.named.contains_key(name) {
                team.named.insert(name.clone(), find_agent(name)?);
            }
        }
        if state.constraints().max_cost_usd.is_some() {
            let costless =
                team.all().find(|agent| !agent.profile.tells_cost && agent.profile.price.is_none());
            if let Some(agent) = costless {
                return Err(TeamError::NoPrice(agent.name.clone()));
            }
        }
        Ok(team)
    }
}

/// The only agent that is installed, or the only one of those that is logged in, with a sentence about that.
fn only(
    chosen: &AgentSettings,
    installed: &Installed<'_>,
) -> Result<(Option<String>, Option<String>), TeamError> {
    let own = chosen.own.keys().map(String::as_str).filter(|name| !DETECTED.contains(name));
    let found: Vec<Agent> = DETECTED
        .into_iter()
        .chain(own)
        .filter_map(|name| find_agent(name, chosen, installed.find).ok())
        .collect();
    let names = || found.iter().map(|agent| agent.name.clone()).collect::<Vec<_>>();
    let logins: Vec<LoginState> = found.iter().map(|agent| (installed.login)(&agent.profile)).collect();
    let logged_in: Vec<&Agent> = found
        .iter()
        .zip(&logins)
        .filter(|(_, login)| **login == LoginState::Yes)
        .map(|(agent, _)| agent)
        .collect();
    match (&found[..], &logged_in[..]) {
        ([], _) => Ok((None, None)),
        ([one], _) => Ok((Some(one.name.clone()), None)),
        (_, [one]) => {
            let told = format!("the only one of {} that is logged in", names().join(", "));
            Ok((Some(one.name.clone()), Some(told)))
        }
        (_, []) if logins.iter().all(|login| *login == LoginState::No) => {
            let each = found.iter().map(|agent| (agent.name.clone(), agent.profile.login.hint.clone()));
            Err(TeamError::NoneLoggedIn(each.collect()))
        }
        (_, []) => Err(TeamError::Several(names())),
        (_, several) => Err(TeamError::Several(several.iter().map(|agent| agent.name.clone()).collect())),
    }
}

/// The agent of a name, if its program is there.
pub fn find_agent(
    name: &str,
    chosen: &AgentSettings,
    find: &dyn Fn(&str) -> Option<PathBuf>,
) -> Result<Agent, TeamError> {
    if let Some(command) = name.strip_prefix(ACP) {
        return by_protocol(name, command, find);
    }
    let profile = Profile::named(name, chosen.own.get(name)).ok_or_else(|| unknown(name, chosen))??;
    let program = find(&profile.program)
        .ok_or_else(|| TeamError::NotFound { name: name.to_owned(), program: profile.program.clone() })?;
    Ok(Agent { name: name.to_owned(), model: profile.model.clone(), profile, program, before: Vec::new() })
}

fn unknown(name: &str, chosen: &AgentSettings) -> TeamError {
    let own = chosen.own.keys().cloned();
    let meant = profile::built_in().map(str::to_owned).chain(own).find(|known| is_near(known, name));
    TeamError::Unknown { name: name.to_owned(), meant }
}

/// A command that speaks the protocol. If a built-in profile is for its program, that profile is used.
fn by_protocol(
    name: &str,
    command: &str,
    find: &dyn Fn(&str) -> Option<PathBuf>,
) -> Result<Agent, TeamError> {
    let mut words = command.split_whitespace().map(str::to_owned);
    let first = words.next().ok_or_else(|| TeamError::Unknown { name: name.to_owned(), meant: None })?;
    let program =
        find(&first).ok_or_else(|| TeamError::NotFound { name: name.to_owned(), program: first.clone() })?;
    let base = first.rsplit('/').next().unwrap_or(&first);
    let known = profile::built_in().filter_map(|known| Profile::named(known, None)?.ok());
    let known = known.into_iter().find(|known| known.transport == Transport::Acp && known.program == base);
    let plain = || {
        let text = |text: &str| toml::Value::String(text.to_owned());
        let table =
            Table::from_iter([("kind".to_owned(), text("acp")), ("program".to_owned(), text(&first))]);
        Profile::named(name, Some(&table)).expect("there is a table").expect("it is whole")
    };
    let mut profile = known.unwrap_or_else(plain);
    profile.arguments.clear();
    Ok(Agent { name: name.to_owned(), model: None, profile, program, before: words.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read() {
        let read = |text: &str| AgentFlag::read(text).map(|flag| (flag.role.map(Role::word), flag.name));
        assert_eq!(read("claude"), Ok((None, "claude".into())));
        assert_eq!(read("probe=codex"), Ok((Some("probe"), "codex".into())));
        assert_eq!(read("acp:x --flag=1"), Ok((None, "acp:x --flag=1".into())));
        assert_eq!(read("worker=acp:x --a=b"), Ok((Some("worker"), "acp:x --a=b".into())));
        assert!(read("boss=codex").is_err());
        assert!(read("").is_err());
        assert!(read("worker=").is_err());
    }

    fn state() -> State {
        let text = aot_testkit::fixtures::with_graph("atoms: []\n");
        let reading = aot_core::contract::read(text.into_bytes()).expect("a file");
        reading.state.expect("a state")
    }

    fn gathered(flags: &[&str], chosen: &str, there: &[&str], alone: bool) -> String {
        let flags: Vec<AgentFlag> = flags.iter().map(|flag| AgentFlag::read(flag).expect("a flag")).collect();
        let mut settings = AgentSettings::default();
        for pair in chosen.split_whitespace() {
            let (role, name) = pair.split_once('=').expect("a pair");
            match ROLES.into_iter().find(|known| known.word() == role) {
                Some(role) => {
                    settings.roles.insert(role.word(), name.to_owned());
                }
                None => settings.default = Some(name.to_owned()),
            }
        }
        // `codex+` is there and logged in.
        let name_of = |there: &&str| there.trim_end_matches('+').to_owned();
        let find =
            |program: &str| there.iter().map(name_of).find(|there| there == program).map(PathBuf::from);
        let login = |profile: &Profile| match there.contains(&format!("{}+", profile.program).as_str()) {
            true => LoginState::Yes,
            false => LoginState::No,
        };
        match Team::choose(&flags, &settings, &state(), alone, &Installed { find: &find, login: &login }) {
            Ok(team) => ROLES
                .into_iter()
                .map(|role| team.member(role, None).map_or("-", |agent| agent.name.as_str()).to_owned())
                .chain(team.choice().map(|why| format!("({why})")))
                .collect::<Vec<_>>()
                .join(" "),
            Err(error) => format!("! {error}; {}", error.hint()),
        }
    }

    #[test]
    fn roles_are_filled_in_order() {
        let all = ["claude", "codex", "gemini", "opencode"];
        // worker, probe, judge, coordinator
        assert_eq!(gathered(&["claude"], "", &all, true), "claude claude claude claude");
        assert_eq!(gathered(&["claude", "probe=codex"], "", &all, true), "claude codex claude claude");
        assert_eq!(gathered(&["claude"], "worker=codex", &all, true), "claude claude claude claude");
        assert_eq!(gathered(&["probe=codex"], "worker=gemini", &all, true), "gemini codex gemini gemini");
        assert_eq!(gathered(&[], "default=codex judge=claude", &all, true), "codex codex claude codex");
        assert_eq!(gathered(&["claude", "coordinator=none"], "", &all, true), "claude claude claude -");
        assert_eq!(gathered(&[], "", &["codex"], true), "codex codex codex codex");
        assert_eq!(gathered(&[], "", &["codex"], false), "- - - -");
        assert_eq!(gathered(&[], "", &[], true), "- - - -");
        assert_eq!(
            gathered(&[], "", &["claude", "codex"], true),
            "! several agents are found, and none of them is logged in: claude, codex; \
             for claude, run `claude` and log in with /login, or set ANTHROPIC_API_KEY; \
             for codex, run `codex login`, or set CODEX_API_KEY; or try one as it is: --agent claude"
        );
        assert_eq!(
            gathered(&["nobody"], "", &all, true),
            "! agent `nobody` is not known; \
             `aot agents` lists those that are known; others need a table [agent.NAME] in aot.toml"
        );
        assert_eq!(
            gathered(&["claud"], "", &all, true),
            "! agent `claud` is not known; did you mean `claude`?"
        );
        assert_eq!(
            gathered(&["codex"], "", &["claude"], true),
            "! agent `codex` is not installed: no `codex` is found; \
             install it, or name another one: `aot agents` lists those that are found"
        );
    }

    #[test]
    fn of_several_the_one_that_is_logged_in_is_taken() {
        assert_eq!(
            gathered(&[], "", &["claude", "codex+", "gemini"], true),
            "codex codex codex codex (the only one of claude, codex, gemini that is logged in)"
        );
        assert_eq!(gathered(&[], "", &["codex+"], true), "codex codex codex codex");
        assert_eq!(
            gathered(&[], "", &["claude+", "codex+", "gemini"], true),
            "! several agents are found: claude, codex; \
             name one: --agent claude; or once and for all: aot agents use claude"
        );
        assert_eq!(gathered(&["claude"], "", &["claude", "codex+"], true), "claude claude claude claude");
    }
}
