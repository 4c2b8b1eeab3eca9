//! A small real task for an agent, in its cage: does it start, is it logged in, do its tools work? Which program in which
//! cage has passed is remembered for this user. Decides nothing.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant, UNIX_EPOCH};

use aot_core::brief::{Brief, Role, WorkerAnswer};
use serde_json::Value;

use super::Agent;
use super::launcher::AgentLauncher;
use super::question::{AgentEvent, AgentOutcome, AgentUsage, Question};
use crate::machine;
use crate::plain_file;
use crate::process::Switch;

/// An agent that has not done it by then does not work.
const TIME: Duration = Duration::from_secs(5 * 60);

/// What the command of the task writes, and where.
const FILE: &str = "tried.txt";
const WORD: &str = "works";

/// Where it is remembered, in the folder of this user. A longer list is begun anew, at the cost of a trial.
const MEMORY: &str = "tried-agents";
const MEMORY_BYTES: u64 = 256 << 10;

/// How a trial went.
#[derive(Clone, Debug)]
#[must_use]
pub struct AgentTrial {
    pub verdict: TrialVerdict,
    pub used: AgentUsage,
    pub took: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TrialVerdict {
    Works,
    /// It answered, and its tools did not do the task.
    ToolsFail {
        why: String,
    },
    /// It gave no answer, for this reason.
    NoAnswer(AgentOutcome),
}

/// Lets the agent do the task as a worker, in a folder of its own.
pub fn run(launcher: &AgentLauncher, agent: &Agent, idle: Duration, switch: &Switch) -> AgentTrial {
    let began = Instant::now();
    let ended = |verdict, used| AgentTrial { verdict, used, took: began.elapsed() };
    let folder = match launcher.scratch() {
        Ok(folder) => folder,
        Err(error) => {
            let reason = format!("no scratch folder could be made: {error}");
            return ended(TrialVerdict::NoAnswer(AgentOutcome::NotStarted { reason }), AgentUsage::default());
        }
    };
    let place = folder.path().canonicalize().unwrap_or_else(|_| folder.path().to_path_buf());
    let brief = brief();
    let read = |value: &Value| WorkerAnswer::read(value).map(drop).map_err(|unreadable| unreadable.reason);
    let tool_error = Mutex::new(None);
    let listener = |event: AgentEvent<'_>| {
        if let (AgentEvent::ToolError(line), Ok(mut last)) = (event, tool_error.lock()) {
            *last = Some(line.to_owned());
        }
    };
    let (report, _) = launcher.ask(&Question {
        writable: vec![place.clone()],
        idle: Some(idle.min(TIME)),
        repeats: 1,
        transcript: format!("try-{}", agent.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")),
        listener: &listener,
        ..Question::new(agent, &brief, &read, &place, TIME, switch)
    });
    let answer = match report.outcome {
        AgentOutcome::Answer(answer) => WorkerAnswer::read(&answer).ok(),
        outcome => return ended(TrialVerdict::NoAnswer(outcome), report.used),
    };
    let is_done = fs::read_to_string(place.join(FILE)).is_ok_and(|text| text.trim() == WORD);
    if is_done {
        return ended(TrialVerdict::Works, report.used);
    }
    let said = answer.and_then(|answer| answer.reason.or(Some(answer.summary)));
    let why = tool_error.into_inner().ok().flatten().or(said.filter(|said| !said.trim().is_empty()));
    let why = why.unwrap_or_else(|| format!("the file that its command writes, {FILE}, is not there"));
    ended(TrialVerdict::ToolsFail { why }, report.used)
}

fn brief() -> Brief {
    let text = format!(
        "# Try whether your tools work\n\n\
         This is no part of a project: the current folder is empty, and is removed afterwards. Run exactly this command \
         with the tool that runs commands, and nothing else:\n\n    echo {WORD} > {FILE}\n\n\
         If that works, answer with `success` true and the `summary` \"{WORD}\". If it does not, do not look for another \
         way: answer with `success` false, and as the `reason` what the tool said.\n"
    );
    Brief { role: Role::Worker, atom: None, text, schema: WorkerAnswer::schema(), cut: Vec::new() }
}

/// Whether this program, as it is now, has passed in the cage that it would get.
pub fn is_known(launcher: &AgentLauncher, agent: &Agent) -> bool {
    let Some((memory, line)) = memory().zip(line(launcher, agent)) else { return false };
    let known = plain_file::read(&memory, MEMORY_BYTES).unwrap_or_default();
    String::from_utf8_lossy(&known).lines().any(|known| known == line)
}

/// Remembers that it has. Should that fail, it is tried again the next time.
pub fn remember(launcher: &AgentLauncher, agent: &Agent) {
    let Some((memory, line)) = memory().zip(line(launcher, agent)) else { return };
    let is_long = fs::symlink_metadata(&memory).is_ok_and(|found| found.len() > MEMORY_BYTES / 2);
    let mut options = OpenOptions::new();
    match is_long {
        true => options.create(true).write(true).truncate(true),
        false => options.create(true).append(true),
    };
    let _ = memory.parent().map(fs::create_dir_all);
    let _ = plain_file::open(&memory, &mut options)
        .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
}

fn memory() -> Option<PathBuf> {
    Some(machine::folder()?.join(MEMORY))
}

/// The program and its cage. A new version of a program is another file.
fn line(launcher: &AgentLauncher, agent: &Agent) -> Option<String> {
    let program = agent.program.canonicalize().ok()?;
    let found = program.metadata().ok()?;
    let changed = found.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_secs();
    Some(format!("{} {} {changed} {}", launcher.cage, found.len(), program.display()))
}
