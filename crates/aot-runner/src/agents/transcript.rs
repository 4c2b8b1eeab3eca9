//! A transcript of each agent's run, for people: what it did and wrote, bounded, without secrets. Nothing depends on it
//! (D32).

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::question::{AgentEvent, AgentOutcome, Report};
use super::redact::Secrets;
use crate::plain_file::{self, keep_newest};

/// Bytes kept of the beginning and of the end.
const HEAD: usize = 32 << 10;
const TAIL: usize = 96 << 10;

/// A longer file is no transcript.
const LONGEST: u64 = 8 << 20;

/// The newest transcripts that are kept.
const TRANSCRIPTS_KEPT: usize = 400;

/// So many more may be there before old ones are removed, so that it is done seldom.
const SPARE: usize = 40;

const FOLDER: &str = "agents";

/// Between the brief and what the agent did.
const RUN: &str = "---------------- what it did ----------------";

/// A transcript that was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedTranscript {
    pub path: PathBuf,
    pub title: String,
    pub brief: String,
    pub run: String,
    /// When it was saved.
    pub at: Timestamp,
}

/// A transcript that is being written.
#[derive(Debug)]
pub(super) struct Transcript {
    head: String,
    tail: VecDeque<String>,
    tail_bytes: usize,
    omitted: usize,
    secrets: Secrets,
}

impl Transcript {
    pub fn new(title: &str, brief: &str, secrets: Secrets) -> Transcript {
        let head = secrets.redact(&format!("{title}\n\n{}\n\n{RUN}\n", brief.trim_end())).into_owned();
        Transcript { head, tail: VecDeque::new(), tail_bytes: 0, omitted: 0, secrets }
    }

    pub fn add_event(&mut self, event: AgentEvent<'_>) {
        let now = Timestamp::now().strftime("%H:%M:%S");
        let text = match event {
            AgentEvent::Activity(line) => format!("{now} - {line}\n"),
            AgentEvent::Text(text) => format!("{now} {}\n", text.trim_end()),
            AgentEvent::ToolError(line) => format!("{now} a tool failed: {line}\n"),
            AgentEvent::Usage(_) => return,
        };
        self.add(&text);
    }

    fn add(&mut self, text: &str) {
        let text = self.secrets.redact(text).into_owned();
        if self.tail.is_empty() && self.head.len() + text.len() <= HEAD {
            self.head.push_str(&text);
            return;
        }
        self.tail_bytes += text.len();
        self.tail.push_back(text);
        while self.tail_bytes > TAIL
            && let Some(gone) = self.tail.pop_front()
        {
            self.tail_bytes -= gone.len();
            self.omitted += gone.len();
        }
    }

    /// Writes it, with how it ended.
    pub fn save(mut self, sidecar: &Path, name: &str, report: &Report, seconds: u64) -> io::Result<()> {
        let ending = ending(report, seconds);
        self.add(&ending);
        let mut text = self.head;
        if self.omitted > 0 {
            let _ = writeln!(text, "[… {} bytes left out …]", self.omitted);
        }
        self.tail.iter().for_each(|piece| text.push_str(piece));
        let folder = sidecar.join(FOLDER);
        plain_file::folder(sidecar, &folder)?;
        plain_file::write(&folder.join(format!("{name}.txt")), text.as_bytes())?;
        keep_newest(&folder, TRANSCRIPTS_KEPT, SPARE);
        Ok(())
    }
}

fn ending(report: &Report, seconds: u64) -> String {
    let how = match &report.outcome {
        AgentOutcome::Answer(answer) => format!("answered: {answer}"),
        AgentOutcome::InvalidAnswer { reason } => format!("gave no valid answer: {reason}"),
        AgentOutcome::RateLimited { reason, .. } => format!("was refused by a limit: {reason}"),
        AgentOutcome::Unauthenticated { reason } => format!("is not logged in: {reason}"),
        AgentOutcome::Unreachable { reason } => format!("could not reach its model: {reason}"),
        AgentOutcome::Failed { reason } => format!("failed: {reason}"),
        AgentOutcome::TimedOut { reason } => format!("took too long: {reason}"),
        AgentOutcome::Killed => "was ended".into(),
        AgentOutcome::Unusable { reason } => format!("cannot be used: {reason}"),
        AgentOutcome::NotStarted { reason } => format!("was not started: {reason}"),
        AgentOutcome::Lost { reason } => format!("was lost: {reason}"),
    };
    let used = report.used;
    let cost = used.cost_usd.map(|cost| format!(", {cost:.4} USD")).unwrap_or_default();
    let times = if report.asked > 1 { format!(", asked {} times", report.asked) } else { String::new() };
    format!("\n{how}\n{seconds} s, {} tokens{cost}{times}\n", used.tokens)
}

/// The transcripts of an atom (or of what stands in its place: `replan`, `base-case`), the oldest first.
pub fn of_atom(sidecar: &Path, atom: &str) -> Vec<SavedTranscript> {
    let entries = fs::read_dir(sidecar.join(FOLDER)).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| is_of(name, atom)))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    found.sort();
    found.into_iter().filter_map(|(at, path)| read(path, Timestamp::try_from(at).ok()?)).collect()
}

fn read(path: PathBuf, at: Timestamp) -> Option<SavedTranscript> {
    let text = String::from_utf8(plain_file::read(&path, LONGEST).ok()?).ok()?;
    let (told, run) = text.split_once(RUN).unwrap_or((&text, ""));
    let (title, brief) = told.split_once('\n').unwrap_or((told, ""));
    let (title, brief, run) = (title.to_owned(), brief.trim().to_owned(), run.trim().to_owned());
    Some(SavedTranscript { path, title, brief, run, at })
}

/// `A1-2.worker.txt` is of `A1`, and of no `A`.
fn is_of(name: &str, atom: &str) -> bool {
    let attempt = name.strip_prefix(atom).and_then(|rest| rest.strip_prefix('-'));
    attempt.and_then(|rest| rest.split('.').next()).is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Removes all but the newest.
pub fn clear(sidecar: &Path) {
    keep_newest(&sidecar.join(FOLDER), TRANSCRIPTS_KEPT, 0);
}
