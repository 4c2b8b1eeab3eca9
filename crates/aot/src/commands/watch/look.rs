//! What the screen of `aot watch` shows, read from the files of a loop: at first all of it, then what was added. Draws nothing.

use std::collections::VecDeque;

use aot_core::rules::Change;
use aot_core::rules::bound::Bound;
use aot_core::rules::certificate::Certificate;
use aot_core::state::AtomId;
use aot_core::view::View;
use aot_runner::agents::transcripts_of;
use aot_runner::checks::kept::{EvidenceLine, Kept};
use aot_runner::live::{LiveNow, LiveReader};
use aot_runner::store::Store;
use aot_runner::store::journal::JournalEntry;
use aot_runner::tree::{self, Project};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::Value;

use crate::commands::status::{LoopNow, SEARCHED, newest_entries};
use crate::commands::{Invocation, workspace};
use crate::failure::Failure;
use crate::place;
use crate::screens::log::{beginning, is_about};
use crate::screens::watch::Watched;
use crate::screens::watch::page::AtomHistory;
use crate::screens::watch::panes::{LogSentence, is_at_work};
use crate::screens::words::sentence;

/// So many things that agents did lately are remembered.
const DOINGS: usize = 2000;

/// Something that an agent did.
#[derive(Debug)]
struct AgentDoing {
    /// The atom, or the task where the whole is asked about.
    about: String,
    at: Option<Timestamp>,
    line: String,
}

#[derive(Debug)]
pub struct LoopReader<'i> {
    invocation: &'i Invocation,
    pub store: Store,
    pub project: Project,
    live: LiveReader,
    now: LiveNow,
    doings: VecDeque<AgentDoing>,
    /// What the driver said last of what is left, and when.
    bound: Option<(Bound, Timestamp)>,
    /// What the driver said when it halted.
    pub certificate: Option<Certificate>,
    entries: Vec<JournalEntry<Change>>,
    version: u64,
}

impl<'i> LoopReader<'i> {
    pub fn open(invocation: &'i Invocation) -> Result<LoopReader<'i>, Failure> {
        let store = invocation.store()?;
        let project = workspace::project(&invocation.path()?)?;
        let live = LiveReader::of(&project.sidecar);
        let entries = newest_entries(&store);
        let (now, doings) = (LiveNow::default(), VecDeque::new());
        Ok(LoopReader {
            invocation,
            store,
            project,
            live,
            now,
            doings,
            bound: None,
            certificate: None,
            entries,
            version: 0,
        })
    }

    /// The loop as it is now.
    pub fn look(&mut self) -> Result<Watched, Failure> {
        for object in self.live.read_new() {
            self.now.see(&object);
            self.remember(&object);
        }
        self.read_entries();
        let state = self.store.load()?.1.clone();
        let LoopReader { invocation, store, entries, now, .. } = self;
        let mut seen = LoopNow::around(invocation, store, View::of(&state), entries, |_| now.clone())?;
        self.version += 1;
        let at = |entry: &JournalEntry<Change>| entry.at.parse::<Timestamp>().ok();
        let mut written = self.entries.last().and_then(at);
        // The driver knows its agents, and what is in flight.
        if let (Some((bound, at)), Some(_)) = (&self.bound, &seen.beside.driver) {
            (seen.view.bound, written) = (bound.clone(), Some(*at));
        }
        let told = self.entries.iter().flat_map(|entry| {
            let told = entry.changes.iter().filter_map(|change| sentence(change, &entry.changes));
            told.map(move |text| LogSentence { at: at(entry), text })
        });
        Ok(Watched {
            version: self.version,
            view: seen.view,
            beside: seen.beside,
            state,
            log: told.collect(),
            written,
            problem: None,
            zone: TimeZone::system(),
        })
    }

    fn remember(&mut self, object: &Value) {
        let at = object["at"].as_str().and_then(|at| at.parse().ok());
        match object["type"].as_str() {
            Some("began") => {
                (self.bound, self.certificate) = (None, None);
                self.doings.clear();
            }
            Some("halted") => self.certificate = Certificate::deserialize(object).ok(),
            Some("bound") => self.bound = Bound::deserialize(object).ok().zip(at),
            _ => {}
        }
        let Some(line) = object["line"].as_str() else { return };
        let about = object["atom"].as_str().or(object["task"].as_str()).unwrap_or_default().to_owned();
        self.doings.push_back(AgentDoing { about, at, line: line.to_owned() });
        if self.doings.len() > DOINGS {
            self.doings.pop_front();
        }
    }

    /// When the run began that is recorded.
    pub fn began(&self) -> Option<Timestamp> {
        self.now.began.as_deref()?.parse().ok()
    }

    /// What was added to the journal. A new loop, or an older state that was restored, counts from an earlier revision again.
    fn read_entries(&mut self) {
        let newest = self.store.journal().newest::<Change>(1).unwrap_or_default();
        let last = self.entries.last().map(|entry| entry.revision);
        match (newest.last().map(|entry| entry.revision), last) {
            (newest, last) if newest == last => {}
            (Some(newest), Some(last)) if newest > last => {
                if let Ok(since) = self.store.journal().since(last) {
                    self.entries.extend(since.entries);
                    let older = self.entries.len().saturating_sub(SEARCHED);
                    self.entries.drain(..older);
                }
            }
            _ => self.entries = newest_entries(&self.store),
        }
    }

    /// What is known of an atom, or of what stands in the place of one.
    pub fn history(&self, name: &str, watched: &Watched) -> Result<AtomHistory, Failure> {
        let atom = AtomId::new(name);
        let mut newest = self.store.journal().newest_where(usize::MAX, |entry| is_about(entry, &atom))?;
        let mut begun = None;
        // An atom of the loop before may have had the same name.
        if let Some(place) = beginning(&newest.entries) {
            newest.entries.drain(..place);
            begun = newest.entries[0].at.parse::<Timestamp>().ok();
        }
        let mut transcripts = transcripts_of(&self.project.sidecar, name);
        transcripts.retain(|transcript| begun.is_none_or(|begun| transcript.at >= begun));
        let is_at_work = is_at_work(watched, name);
        let doings = self.doings.iter().filter(|doing| doing.about == name);
        let doings = doings.map(|doing| (doing.at, doing.line.clone())).collect();
        Ok(AtomHistory { newest, transcripts, doings, is_at_work })
    }

    /// What was seen of a check, the newest last.
    pub fn evidence(&self, item: &str) -> Vec<EvidenceLine> {
        let mut lines = Kept::of(&self.project).recent();
        lines.retain(|line| line.item == item);
        lines
    }

    pub fn invocation(&self) -> &'i Invocation {
        self.invocation
    }
}

/// What an atom changed: its commit, or the newest of its work that is kept. In words, if there is nothing.
pub fn difference(
    project: &Project,
    atom: &AtomId,
    commit: Option<String>,
) -> Result<(String, String), Failure> {
    let guard = aot_runner::process::Guard::new(place::this_program()?);
    let named = match commit {
        Some(commit) => Some((commit, format!("{atom}: what landed"))),
        None => {
            let kept = tree::kept(project, None, &guard)?;
            let newest = kept.into_iter().rev().find(|work| work.atom == *atom);
            newest.map(|work| {
                let title = format!("{atom}: work of iteration {} that did not land", work.attempt);
                (work.reference, title)
            })
        }
    };
    let nothing =
        || Failure::refused("no_difference", format!("{atom} has landed nothing, and no work of it is kept"));
    let (name, title) = named.ok_or_else(nothing)?;
    let told = tree::shown(project, &name, &guard)?;
    told.map(|told| (title, told))
        .ok_or_else(|| Failure::refused("no_commit", format!("git has no commit {name}")))
}
