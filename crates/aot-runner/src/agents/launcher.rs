//! What any agent's run needs of this machine: a scratch folder, a cage for its role, its variables, a transcript. Asks
//! the agent, and returns its report.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use aot_core::brief::{Brief, Role};
use tempfile::TempDir;

use super::command::AgentCommand;
use super::profile::{self, Transport};
use super::question::{AgentEvent, Listener, Question, Report};
use super::redact::{Secrets, sounds_secret};
use super::transcript::Transcript;
use super::{Agent, acp, headless, instructions, private};
use crate::environment;
use crate::keys;
use crate::process::cage::{self, Cage, Network};
use crate::process::hosts::{Hosts, host_of};
use crate::process::{Ended, Environment, Guard, Input, Job, Limits, Streams};
use crate::scratch;

/// In the scratch folder: for temporary files, and for what is the agent's own. Codex does not take a folder of its own
/// among temporary files.
const TEMPORARY: &str = "tmp";
const FOLDER: &str = "agent";

/// How variables end that say where a model is.
const ADDRESSES: [&str; 2] = ["_BASE_URL", "_ENDPOINT"];

/// One for all agents of a process.
#[derive(Clone, Debug)]
pub struct AgentLauncher {
    /// Our own program, which serves `submit_result`.
    pub itself: PathBuf,
    pub guard: Guard,
    pub cage: cage::Kind,
    /// What every worker may write besides its own tree.
    pub writable: Vec<PathBuf>,
    /// What no agent may read but its own.
    pub hidden: Vec<PathBuf>,
    /// The network as the settings have it.
    pub network: Network,
    /// All variables of the user; each agent sees a few of them.
    pub variables: Vec<(OsString, OsString)>,
    /// Names of variables that the settings let through.
    pub further: Vec<String>,
    /// The user's home, where logins are.
    pub home: Option<PathBuf>,
    /// Where scratch folders and transcripts lie.
    pub sidecar: PathBuf,
    /// The project's own folder, where instructions lie that git does not track.
    pub project: PathBuf,
}

/// A conversation with one agent, which can be gone on with until it is dropped.
#[derive(Debug)]
pub struct Session {
    /// The agent may write here, and keeps its conversation here.
    scratch: TempDir,
    logins: Vec<private::BroughtLogin>,
    /// What the agent calls the conversation.
    name: Mutex<Option<String>>,
}

impl Session {
    pub(super) fn name(&self) -> Option<String> {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_name(&self, name: Option<String>) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }
}

/// A question on its way to the agent, with what the launcher has made for this one run.
pub(super) struct Launch<'l> {
    pub launcher: &'l AgentLauncher,
    pub question: &'l Question<'l>,
    pub session: &'l Session,
    /// Writes the transcript and passes each event on to the question's own listener.
    pub listener: Listener<'l>,
}

impl AgentLauncher {
    /// Asks in a conversation of its own, and saves a transcript. The second value is why the transcript or a new login
    /// could not be saved.
    pub fn ask(&self, question: &Question<'_>) -> (Report, Option<String>) {
        match self.open(question.agent) {
            Ok(session) => self.ask_in(&session, question),
            Err(report) => (report, None),
        }
    }

    /// Prepares a conversation, or reports why that is not possible.
    pub fn open(&self, agent: &Agent) -> Result<Session, Report> {
        if let Err(why) = self.network.kept_for_agents(self.cage) {
            return Err(Report::unusable(format!("{why}; {}", why.hint())));
        }
        let scratch = self
            .scratch()
            .map_err(|error| Report::not_started(format!("no scratch folder could be made: {error}")))?;
        self.make_state(agent);
        let logins = self
            .furnish(agent, scratch.path())
            .map_err(|error| Report::not_started(format!("its private folder could not be made: {error}")))?;
        Ok(Session { scratch, logins, name: Mutex::default() })
    }

    /// Asks in a conversation, the first time or again.
    pub fn ask_in(&self, session: &Session, question: &Question<'_>) -> (Report, Option<String>) {
        let profile = &question.agent.profile;
        let text = instructions::with_brief(profile, question.folder, &self.project, &question.brief.text);
        match text {
            Some(text) => {
                let brief = Brief { text, ..question.brief.clone() };
                self.ask_with(session, &Question { brief: &brief, ..question.clone() })
            }
            None => self.ask_with(session, question),
        }
    }

    fn ask_with(&self, session: &Session, question: &Question<'_>) -> (Report, Option<String>) {
        let title = format!("{} by {}", question.transcript, question.agent.name);
        let asked = question.again.as_deref().unwrap_or(&question.brief.text);
        let transcript = Transcript::new(&title, asked, self.secrets(question));
        let transcript = Mutex::new(transcript);
        let listener = |event: AgentEvent<'_>| {
            transcript.lock().unwrap_or_else(PoisonError::into_inner).add_event(event);
            (question.listener)(event);
        };
        let launch = Launch { launcher: self, question, session, listener: &listener };
        let began = Instant::now();
        let report = launch.run();
        let back = private::bring_back(&session.logins);
        let transcript = transcript.into_inner().unwrap_or_else(PoisonError::into_inner);
        let name = &question.transcript;
        let saved = transcript.save(&self.sidecar, name, &report, began.elapsed().as_secs());
        let unsaved = saved.err().map(|error| format!("the transcript of {name} could not be kept: {error}"));
        (report, back.err().or(unsaved))
    }

    /// Makes the folders that the agent finds in its scratch folder, with what of the user's it is given.
    fn furnish(&self, agent: &Agent, scratch: &Path) -> io::Result<Vec<private::BroughtLogin>> {
        fs::create_dir_all(scratch.join(TEMPORARY))?;
        let folder = scratch.join(FOLDER);
        fs::create_dir_all(&folder)?;
        private::bring_in(&agent.profile, &folder.canonicalize()?, &|names| self.places(names))
    }

    /// A folder for what a question needs only while it is asked. What a crash leaves, the next run removes.
    pub(super) fn scratch(&self) -> io::Result<TempDir> {
        scratch::make(&self.sidecar, "agent")
    }

    /// Makes the state folders and files that an agent needs and does not have yet. Should one fail, the agent itself
    /// reports what it misses.
    fn make_state(&self, agent: &Agent) {
        let profile = &agent.profile;
        let folders: Vec<String> = profile.state.iter().filter(|name| name.ends_with('/')).cloned().collect();
        for folder in self.places(&folders) {
            let _ = fs::create_dir_all(folder);
        }
        for file in self.places(&profile.touch) {
            let _ = file.parent().map(fs::create_dir_all);
            let _ = fs::OpenOptions::new().create(true).append(true).open(file);
        }
    }

    fn places(&self, names: &[String]) -> Vec<PathBuf> {
        let variable = |name: &str| {
            let found = self.variables.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| PathBuf::from(value))
        };
        profile::places(names, self.home.as_deref(), &variable)
    }

    fn variables(&self, question: &Question<'_>) -> Vec<(OsString, OsString)> {
        let further: Vec<String> =
            self.further.iter().chain(&question.agent.profile.variables).cloned().collect();
        environment::allowed(self.variables.iter().cloned(), &further)
    }

    /// The values that the transcript must not hold.
    fn secrets(&self, question: &Question<'_>) -> Secrets {
        let given = self.variables(question).into_iter().chain(question.variables.iter().cloned());
        let secret = given.filter(|(name, _)| name.to_str().is_some_and(sounds_secret));
        Secrets::new(secret.map(|(_, value)| value.to_string_lossy().into_owned()))
    }
}

impl Launch<'_> {
    /// Runs the agent on this thread, which waits for it.
    fn run(&self) -> Report {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => runtime,
            Err(error) => return Report::not_started(error.to_string()),
        };
        runtime.block_on(async {
            match self.question.agent.profile.transport {
                Transport::Command => headless::ask(self).await,
                Transport::Acp => acp::ask(self).await,
            }
        })
    }

    fn scratch(&self) -> &Path {
        self.session.scratch.path()
    }

    /// Whether the agent keeps the conversation. Without a cage it would do so in the user's own folder, among theirs; and
    /// only workers are asked again.
    pub fn keeps_session(&self) -> bool {
        let question = self.question;
        self.launcher.cage != cage::Kind::None
            && question.role() == Role::Worker
            && !question.agent.profile.session.resume.is_empty()
    }

    /// Whether there is a conversation that the agent can go on with.
    pub fn can_go_on(&self) -> bool {
        self.keeps_session() && self.session.name().is_some()
    }

    /// Where the files of the question and the agent's private folder lie.
    pub fn folder(&self) -> PathBuf {
        self.scratch().join(FOLDER)
    }

    /// The variables of the run, before those of the agent's profile.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let temporary = self.scratch().join(TEMPORARY);
        let scratch = ["TMPDIR", "TMP", "TEMP"].map(|name| (name.into(), temporary.clone().into()));
        let all = self.launcher.variables(self.question).into_iter().chain(scratch);
        all.chain(self.question.variables.iter().cloned()).collect()
    }

    pub fn job(&self, command: &AgentCommand, input: Input, limits: Limits) -> Job {
        Job {
            program: command.program.clone(),
            arguments: command.arguments.clone(),
            folder: self.question.folder.to_path_buf(),
            environment: Environment::Only(command.environment.clone()),
            input,
            streams: Streams::Apart,
            limits,
            cage: self.cage(),
        }
    }

    /// The hosts of its models: those that its profile knows, and those that the user's variables name.
    fn model_hosts(&self) -> Vec<String> {
        let profile = &self.question.agent.profile;
        let names_one = |name: &OsString| {
            let is_address =
                name.to_str().is_some_and(|name| ADDRESSES.iter().any(|end| name.ends_with(end)));
            is_address && profile.variables.iter().any(|wanted| environment::fits(name, wanted))
        };
        let named = self.environment().into_iter().filter(|(name, _)| names_one(name));
        let named = named.filter_map(|(_, value)| host_of(value.to_str()?));
        profile.hosts.iter().cloned().chain(named).collect()
    }

    /// Writes into the transcript which hosts the cage kept the agent from.
    pub fn tell_refused(&self, ended: &Ended) {
        let listed = match &self.launcher.network {
            Network::On => return,
            Network::Off => Hosts::default(),
            Network::Hosts(listed) => listed.clone(),
        };
        for refusal in &ended.refused {
            (self.listener)(AgentEvent::Text(&refusal.describe(&listed)));
        }
    }

    /// Only what its role may write, and where the network is not on, no hosts but those of its models and of the list.
    fn cage(&self) -> Option<Cage> {
        let Launch { launcher, question, .. } = self;
        if launcher.cage == cage::Kind::None {
            return None;
        }
        let profile = &question.agent.profile;
        let existing = |names: &[String]| launcher.places(names).into_iter().filter(|place| place.exists());
        let further = match question.role() {
            Role::Worker => launcher.writable.as_slice(),
            Role::Probe | Role::Judge | Role::Coordinator => &[],
        };
        let own = [self.scratch().to_path_buf()].into_iter().chain(question.writable.iter().cloned());
        let writable = own.chain(existing(&profile.state)).chain(further.iter().cloned()).collect();
        let read_only = question.read_only.iter().cloned().chain(existing(&profile.read_only)).collect();
        let linked: Vec<String> = profile.links.values().cloned().collect();
        let program = keys::around(&launcher.hidden, &question.agent.program);
        let own: Vec<PathBuf> = existing(&profile.state).chain(existing(&linked)).chain(program).collect();
        let hidden = keys::open_to(&launcher.hidden, &own);
        let network = launcher.network.with_models(self.model_hosts());
        let covered = Vec::new();
        Some(Cage { kind: launcher.cage, writable, read_only, hidden, covered, network })
    }
}
