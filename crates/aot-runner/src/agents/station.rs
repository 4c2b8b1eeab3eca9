//! What any agent's run needs of this machine: a scratch folder, a cage for its role, its variables, a transcript. Asks
//! the agent, and returns its report.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use aot_core::brief::{Brief, Role};
use serde_json::Value;

use super::redact::{Secrets, sounds_secret};
use super::talk::{Ask, Heard, Report, Said, Used};
use super::transcript::Transcript;
use super::{Agent, profile};
use crate::environment;
use crate::process::cage::{self, Cage, Network};
use crate::process::{Guard, Switch};

/// One for all agents of a process.
#[derive(Clone, Debug)]
pub struct AgentLauncher {
    /// Our own program.
    pub itself: PathBuf,
    pub guard: Guard,
    pub cage: cage::Kind,
    /// What all may write besides their own.
    pub writable: Vec<PathBuf>,
    /// All variables of the user; each agent sees a few of them.
    pub variables: Vec<(OsString, OsString)>,
    /// Names that the settings let through.
    pub further: Vec<String>,
    pub home: Option<PathBuf>,
    /// Where scratch folders and transcripts are kept.
    pub sidecar: PathBuf,
}

/// What is asked, of whom, and where.
pub struct Question<'q> {
    pub agent: &'q Agent,
    pub brief: &'q Brief,
    pub read: &'q (dyn Fn(&Value) -> Result<(), String> + Sync),
    pub folder: &'q Path,
    /// What it may write besides its scratch folder and its own state: for a worker its tree, for all others nothing.
    pub writable: Vec<PathBuf>,
    /// What lies in that and is not to be written.
    pub spared: Vec<PathBuf>,
    /// Variables of the job.
    pub variables: Vec<(OsString, OsString)>,
    pub wall: Duration,
    pub idle: Option<Duration>,
    pub again: u32,
    pub switch: &'q Switch,
    /// The transcript's.
    pub name: String,
    pub hear: &'q (dyn Fn(Heard<'_>) + Sync),
}

impl std::fmt::Debug for Question<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Question")
            .field("name", &self.name)
            .field("agent", &self.agent.name)
            .finish_non_exhaustive()
    }
}

impl AgentLauncher {
    /// Asks, and keeps what was said. The second is why that could not be kept.
    pub fn ask(&self, question: &Question<'_>) -> (Report, Option<String>) {
        let scratch = match Scratch::new(&self.sidecar) {
            Ok(scratch) => scratch,
            Err(error) => {
                let reason = format!("no scratch folder could be made: {error}");
                return (Report { said: Said::NotStarted { reason }, used: Used::default(), asked: 0 }, None);
            }
        };
        self.prepare(question.agent);
        let environment = self.environment(question, &scratch.folder);
        let secret = |(name, _): &&(OsString, OsString)| name.to_str().is_some_and(sounds_secret);
        let secrets =
            environment.iter().filter(secret).map(|(_, value)| value.to_string_lossy().into_owned());
        let title = format!("{} by {}", question.name, question.agent.name);
        let transcript = Mutex::new(Transcript::new(&title, &question.brief.text, Secrets::new(secrets)));
        let hear = |heard: Heard<'_>| {
            transcript.lock().unwrap_or_else(PoisonError::into_inner).hear(heard);
            (question.hear)(heard);
        };
        let guard = self.guard.under(question.switch);
        let began = Instant::now();
        let report = question.agent.ask(&Ask {
            role: question.brief.role,
            text: &question.brief.text,
            schema: &question.brief.schema,
            read: question.read,
            folder: question.folder,
            scratch: &scratch.folder,
            environment,
            cage: self.caged(question, &scratch.folder),
            wall: question.wall,
            idle: question.idle,
            again: question.again,
            guard: &guard,
            home: self.home.as_deref(),
            itself: &self.itself,
            hear: &hear,
        });
        let transcript = transcript.into_inner().unwrap_or_else(PoisonError::into_inner);
        let kept = transcript.keep(&self.sidecar, &question.name, &report, began.elapsed().as_secs());
        (
            report,
            kept.err().map(|error| format!("the transcript of {} could not be kept: {error}", question.name)),
        )
    }

    /// Makes what an agent needs of its own and does not have yet. What cannot be made it will say itself.
    fn prepare(&self, agent: &Agent) {
        let variable = |name: &str| {
            let found = self.variables.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| PathBuf::from(value))
        };
        let profile = &agent.profile;
        let folders: Vec<String> = profile.state.iter().filter(|name| name.ends_with('/')).cloned().collect();
        for folder in profile::places(&folders, self.home.as_deref(), &variable) {
            let _ = fs::create_dir_all(folder);
        }
        for file in profile::places(&profile.touch, self.home.as_deref(), &variable) {
            let _ = file.parent().map(fs::create_dir_all);
            let _ = fs::OpenOptions::new().create(true).append(true).open(file);
        }
    }

    /// Only what its role may write; agents need the network for their model.
    fn caged(&self, question: &Question<'_>, scratch: &Path) -> Option<Cage> {
        if self.cage == cage::Kind::None {
            return None;
        }
        let profile = &question.agent.profile;
        let variable = |name: &str| {
            let found = self.variables.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| PathBuf::from(value))
        };
        let places = |names: &[String]| profile::places(names, self.home.as_deref(), &variable);
        let writable = [scratch.to_path_buf()].into_iter().chain(question.writable.iter().cloned());
        let further = match question.brief.role {
            Role::Worker => self.writable.as_slice(),
            Role::Probe | Role::Judge | Role::Coordinator => &[],
        };
        let state = places(&profile.state).into_iter().filter(|place| place.exists());
        let writable = writable.chain(state).chain(further.iter().cloned()).collect();
        let spared = question
            .spared
            .iter()
            .cloned()
            .chain(places(&profile.spared).into_iter().filter(|place| place.exists()))
            .collect();
        Some(Cage { kind: self.cage, writable, spared, network: Network::On })
    }

    fn environment(&self, question: &Question<'_>, scratch: &Path) -> Vec<(OsString, OsString)> {
        let further: Vec<String> =
            self.further.iter().chain(&question.agent.profile.variables).cloned().collect();
        let folder = scratch.as_os_str().to_owned();
        let own = ["TMPDIR", "TMP", "TEMP"].map(|name| (OsString::from(name), folder.clone()));
        let all = environment::allowed(self.variables.iter().cloned(), &further);
        all.into_iter().chain(own).chain(question.variables.iter().cloned()).collect()
    }
}

/// A folder for what a question needs only while it is asked.
#[derive(Debug)]
struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    fn new(sidecar: &Path) -> std::io::Result<Scratch> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = sidecar.join("scratch").join(format!("agent-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Scratch { folder })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next run.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
