//! An agent as a judge of quality: it reads, it may run checks in a tree that is thrown away, and it cannot change what
//! it judges.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use aot_core::brief::{Brief, JudgeAnswer};
use aot_core::verdict::Excerpt;
use serde_json::Value;

use super::station::{AgentLauncher, Question};
use super::talk::{Heard, Report, Said, Used};
use super::{Agent, ask_again};
use crate::checks::judge::{Asked, Judge, Request};
use crate::process::Switch;
use crate::tree::{Project, Tree};

/// The first wait for a limit that nobody says the end of, and the longest.
const FIRST_WAIT: Duration = Duration::from_secs(30);
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
const LOOK: Duration = Duration::from_millis(100);

/// A tree to run checks in, and what gives it back when it is dropped.
pub trait Throwaway {
    fn root(&self) -> &Path;
    fn top(&self) -> &Path;
}

/// What is heard of a judge.
#[derive(Clone, Debug)]
pub enum JudgeWord<'w> {
    Note(String),
    Doing(&'w str),
    Used(Used),
    Ended { used: Used, took: Duration },
}

pub struct AgentJudge<'j> {
    pub station: &'j AgentLauncher,
    pub agent: &'j Agent,
    pub switch: &'j Switch,
    pub project: &'j Project,
    pub wall: Duration,
    pub idle: Option<Duration>,
    /// Whether a limit is waited for.
    pub waits: bool,
    /// Of the transcripts.
    pub name: String,
    pub asked: AtomicU32,
    /// A tree that can be spoilt, if there is one for what is judged.
    pub tree: &'j (dyn Fn(&Brief) -> Option<Box<dyn Throwaway + 'j>> + Sync),
    pub hear: &'j (dyn Fn(JudgeWord<'_>) + Sync),
}

impl fmt::Debug for AgentJudge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentJudge").field("agent", &self.agent.name).finish_non_exhaustive()
    }
}

impl Judge for AgentJudge<'_> {
    fn name(&self) -> String {
        self.agent.name.clone()
    }

    fn ask(&self, request: &Request<'_>) -> Asked {
        let project = Project { root: request.folder.to_path_buf(), ..self.project.clone() };
        let before = Tree::of(&project).ok();
        let mut pause = FIRST_WAIT;
        let report = loop {
            let report = self.ask_once(request);
            let after = match &report.said {
                Said::Limited { retry_after, .. } => retry_after.unwrap_or(pause),
                Said::Unreachable { .. } => pause,
                _ => break report,
            };
            if !self.waits || !self.wait(after.min(LONGEST_WAIT), &report.said) {
                break report;
            }
            pause = (pause * 2).min(LONGEST_WAIT);
        };
        let after = Tree::of(&project).ok();
        let beside = Excerpt::default();
        if let (Some(before), Some(after)) = (before, after)
            && before.hash() != after.hash()
        {
            let changed = before.changed(&after);
            let named: Vec<String> = changed.into_iter().take(5).collect();
            let why =
                format!("while {} judged, what it judges was changed: {}", self.agent.name, named.join(", "));
            return Asked::Nothing { why, beside };
        }
        let name = &self.agent.name;
        match report.said {
            Said::Answer(answer) => Asked::Answer { text: answer.to_string(), beside },
            Said::Wrong { reason } => {
                Asked::Nothing { why: format!("{name} gave no valid answer: {reason}"), beside }
            }
            Said::Failed { reason } | Said::OutOfTime { reason } => {
                Asked::Nothing { why: format!("{name}: {reason}"), beside }
            }
            Said::Limited { reason, .. } => Asked::Unable { why: format!("{name}: {reason}"), beside },
            Said::Unreachable { reason } => {
                Asked::Unable { why: format!("{name} cannot reach its model: {reason}"), beside }
            }
            Said::Unauthenticated { reason } => {
                let why = format!("{name} is not logged in ({reason}); {}", self.agent.profile.login.hint);
                Asked::Unable { why, beside }
            }
            Said::Killed => Asked::Unable { why: format!("{name} was ended"), beside },
            Said::NotStarted { reason } => {
                Asked::Unable { why: format!("{name} was not started: {reason}"), beside }
            }
        }
    }
}

impl AgentJudge<'_> {
    fn ask_once(&self, request: &Request<'_>) -> Report {
        let tree = (self.tree)(request.brief);
        let folder: PathBuf = tree.as_ref().map_or(request.folder, |tree| tree.root()).to_path_buf();
        let writable = tree.iter().map(|tree| tree.top().to_path_buf()).collect();
        let mut brief = request.brief.clone();
        if let Some(reason) = request.refused {
            brief.text.push_str(&ask_again(reason));
        }
        let read = |value: &Value| {
            JudgeAnswer::read(request.quality, value).map(drop).map_err(|unreadable| unreadable.reason)
        };
        let hear = |heard: Heard<'_>| match heard {
            Heard::Doing(line) => (self.hear)(JudgeWord::Doing(line)),
            Heard::Used(used) => (self.hear)(JudgeWord::Used(used)),
            Heard::Said(_) => {}
        };
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        let (report, not_kept) = self.station.ask(&Question {
            agent: self.agent,
            brief: &brief,
            read: &read,
            folder: &folder,
            writable,
            spared: Vec::new(),
            variables: Vec::new(),
            wall: self.wall,
            idle: self.idle,
            // It is asked once more by whoever asked it (D19).
            again: 0,
            switch: self.switch,
            name: format!("{}.judge{number}", self.name),
            hear: &hear,
        });
        if let Some(problem) = not_kept {
            (self.hear)(JudgeWord::Note(problem));
        }
        (self.hear)(JudgeWord::Ended { used: report.used, took: began.elapsed() });
        report
    }

    /// `false` if it was ended meanwhile.
    fn wait(&self, span: Duration, said: &Said) -> bool {
        let reason = match said {
            Said::Limited { reason, .. } | Said::Unreachable { reason } => reason.as_str(),
            _ => "",
        };
        let name = &self.agent.name;
        (self.hear)(JudgeWord::Note(format!("{name} judges again in {} s: {reason}", span.as_secs())));
        let began = Instant::now();
        while began.elapsed() < span {
            if self.switch.is_off() {
                return false;
            }
            std::thread::sleep(LOOK.min(span));
        }
        !self.switch.is_off()
    }
}
