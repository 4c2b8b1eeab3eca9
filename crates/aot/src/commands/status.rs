//! `aot status`: where a loop stands.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use aot_core::coordinator::Agents;
use aot_core::rules::estimate::{self, Estimate};
use aot_core::rules::{Change, Ledger, bound, plan};
use aot_core::state::{AtomId, LoopStatus};
use aot_core::verdict::Outcome;
use aot_core::view::{BaseCaseCheck, View};
use aot_runner::checks::kept::{EvidenceLine, Kept};
use aot_runner::driver;
use aot_runner::durations::Learnt;
use aot_runner::live::{ChangePoll, LiveNow, LiveReader};
use aot_runner::store::Store;
use aot_runner::store::journal::JournalEntry;
use aot_runner::tree::Project;
use clap::Args;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::workspace::{self, Workspace};
use super::{Invocation, Verb};
use crate::failure::{self, Failure};
use crate::print::{self, Answer, OutputFormat};
use crate::screens::ink::Ink;
use crate::screens::report;
use crate::screens::status::{LastSeen, OutsideState, draw};
use crate::terminal::{self, Stream};

/// So many of the newest journal entries are searched for the start of what runs.
pub const SEARCHED: usize = 500;

/// The page is drawn anew after this time although nothing was written: times go on.
const REDRAWN: Duration = Duration::from_secs(1);

/// Show where the loop stands: what runs, what is next, what failed, what it can still cost
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct StatusArgs {
    /// Show it again whenever something changes, until Ctrl-C
    #[arg(long)]
    #[serde(skip)]
    watch: bool,
}

impl Verb for StatusArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        if self.watch {
            return watch(invocation);
        }
        let mut store = invocation.store()?;
        let seen = LoopNow::look(invocation, &mut store, |project| recorded(&project.sidecar))?;
        let text = || draw(&seen.view, &seen.beside, Ink::of(Stream::Out));
        Ok(Answer::lazy(invocation.format, text, || seen.object()))
    }
}

/// Shows the page, or its object, at each change. Ends with its reader.
fn watch(invocation: &Invocation) -> Result<Answer, Failure> {
    let mut store = invocation.store()?;
    let mut changes = ChangePoll::of(store.file().home());
    // A record may be long, and only what is new in it is read for the next picture.
    let (mut record, mut live) = (LiveReader::of(store.file().home().sidecar()), LiveNow::default());
    let mut shown = String::new();
    let mut is_new = true;
    while print::is_heard() {
        // Where nothing is drawn over, a clock that goes on is no news.
        if !is_new && invocation.format == OutputFormat::Text && !terminal::draws_live() {
            is_new = changes.wait(REDRAWN);
            continue;
        }
        record.update(&mut live);
        let seen = match LoopNow::look(invocation, &mut store, |_| live.clone()) {
            Ok(seen) => seen,
            // Somebody is editing the file; it is looked at again when it changes.
            Err(failure) if !shown.is_empty() => {
                failure::complain(&failure.message());
                while print::is_heard() && !changes.wait(REDRAWN) {}
                continue;
            }
            Err(failure) => return Err(failure),
        };
        match invocation.format {
            OutputFormat::Json => {
                let object = seen.object();
                let text = object.to_string();
                if shown != text {
                    print::json(&object);
                    shown = text;
                }
            }
            OutputFormat::Text => {
                terminal::page(&draw(&seen.view, &seen.beside, Ink::of(Stream::Out)), &mut shown)
            }
        }
        is_new = changes.wait(REDRAWN);
    }
    Ok(Answer::printed())
}

/// What the whole live record comes to.
pub(super) fn recorded(sidecar: &Path) -> LiveNow {
    let mut live = LiveNow::default();
    LiveReader::of(sidecar).update(&mut live);
    live
}

/// Where the loop stands, as the state file and what lies beside it tell.
#[derive(Debug)]
pub struct LoopNow {
    pub view: View,
    pub beside: OutsideState,
}

impl LoopNow {
    /// The live record is asked for if there is a driver.
    fn look(
        invocation: &Invocation,
        store: &mut Store,
        live: impl FnOnce(&Project) -> LiveNow,
    ) -> Result<LoopNow, Failure> {
        let cached = store.answers()?.view;
        // Without one, reading fails with every mistake in the file and its place.
        let view = cached.map_or_else(|| store.load().map(|(_, state)| View::of(state)), Ok)?;
        let entries = newest_entries(store);
        LoopNow::around(invocation, store, view, &entries, live)
    }

    /// What a view leaves out. These are the newest entries of the journal; the live record is asked for if there is a driver.
    pub fn around(
        invocation: &Invocation,
        store: &mut Store,
        mut view: View,
        entries: &[JournalEntry<Change>],
        live: impl FnOnce(&Project) -> LiveNow,
    ) -> Result<LoopNow, Failure> {
        let project = workspace::project(&invocation.path()?)?;
        let driver = driver::holder(store.file().home());
        // What a driver that died did last goes on no more.
        let live = driver.is_some().then(|| live(&project));
        let beside = OutsideState {
            now: Timestamp::now(),
            since: started(entries, &view.running),
            base_case: base_case(entries, &view, &project),
            estimate: estimated(store, &view, entries)?,
            driver,
            live: live.unwrap_or_default(),
        };
        // With agents for all roles the view has the bound, and the file need not be read.
        if let Some(agents) =
            agents(&invocation.path()?, store, &view)?.filter(|agents| *agents != Agents::ALL)
        {
            view.bound = bound::written(store.load()?.1, agents);
        }
        Ok(LoopNow { view, beside })
    }

    pub fn object(&self) -> Value {
        object(&self.view, &self.beside)
    }
}

/// The roles that have an agent in the run that goes on, or would have one in a run that begins now without further words.
/// `None` where that cannot be told, or where a host drives.
pub(super) fn agents(path: &Path, store: &mut Store, view: &View) -> Result<Option<Agents>, Failure> {
    let home = store.file().home().clone();
    if driver::holder(&home).is_some() {
        return Ok(driver::agents_at_work(&home));
    }
    if view.least_agent_runs > 0 {
        return Ok(None);
    }
    let state = store.load()?.1;
    if state.control.session.is_some() {
        return Ok(None);
    }
    // Settings that cannot be read or trusted may name some.
    let Ok(workspace) = Workspace::quiet(path) else { return Ok(None) };
    let needs = !plan::lacking_ever(&Ledger::open(state.clone(), Timestamp::now()), Agents::NONE).is_empty();
    let team = workspace.team(&[], state, needs).ok().filter(|team| !needs || !team.is_empty());
    Ok(team.map(|team| driver::available_agents(&team, state)))
}

/// So much of the journal as the short questions need; without one they are left open (D32).
pub fn newest_entries(store: &Store) -> Vec<JournalEntry<Change>> {
    store.journal().newest(SEARCHED).unwrap_or_default()
}

/// What was last seen of each check of the base case. These are the newest entries of the journal.
pub fn base_case(entries: &[JournalEntry<Change>], view: &View, project: &Project) -> Vec<LastSeen> {
    let mut lines = Kept::of(project).recent();
    // Work that was taken back changes what the checks find.
    if let Some(reset) = report::last_reset(entries) {
        lines.retain(|line| line.evidence.at.at() > reset);
    }
    last_seen(&view.base_case, &lines)
}

/// How long the rest may take. The file is read only where something is known of that.
pub fn estimated(
    store: &mut Store,
    view: &View,
    entries: &[JournalEntry<Change>],
) -> Result<Option<Estimate>, Failure> {
    let left = view.counts.pending + view.counts.in_progress;
    if view.status == LoopStatus::Completed || left == 0 || left > estimate::MOST_ATOMS {
        return Ok(None);
    }
    let mut learnt = Learnt::of_earlier(store.file().home());
    let is_end =
        |change: &Change| matches!(change, Change::AtomResolved { .. } | Change::FailureNoted { .. });
    if learnt.is_empty() && !entries.iter().any(|entry| entry.changes.iter().any(is_end)) {
        return Ok(None);
    }
    let state = store.load()?.1;
    learnt.read_on(state, entries);
    Ok(learnt.estimate(state, None, Timestamp::now()))
}

/// When each of these was last started, as far as the journal tells.
fn started(entries: &[JournalEntry<Change>], running: &[AtomId]) -> HashMap<AtomId, Timestamp> {
    let mut since = HashMap::new();
    for entry in entries.iter().filter(|_| !running.is_empty()) {
        let Ok(at) = entry.at.parse::<Timestamp>() else { continue };
        for change in &entry.changes {
            if let Change::AtomStarted { atom, .. } = change
                && running.contains(atom)
            {
                since.insert(atom.clone(), at);
            }
        }
    }
    since
}

/// The newest word on each check of the base case. Evidence of a check that was another one then does not count.
fn last_seen(asked: &[BaseCaseCheck], lines: &[EvidenceLine]) -> Vec<LastSeen> {
    let about = |asked: &BaseCaseCheck, line: &&EvidenceLine| {
        line.item == asked.item
            && line.kind == asked.kind
            && asked.runs.as_ref().is_none_or(|runs| *runs == line.evidence.ran)
    };
    asked
        .iter()
        .map(|asked| match (&asked.confirmed, lines.iter().rev().find(|line| about(asked, line))) {
            (Some((holds, at)), _) => LastSeen {
                item: asked.item.clone(),
                outcome: Some(if *holds { Outcome::Pass } else { Outcome::Fail }),
                at: Some(at.clone()),
                why: if *holds { "confirmed".into() } else { "denied by a person".into() },
            },
            (None, Some(line)) => LastSeen {
                item: asked.item.clone(),
                outcome: Some(line.outcome),
                at: Some(line.evidence.at.clone()),
                why: line.evidence.why.clone(),
            },
            (None, None) => {
                LastSeen { item: asked.item.clone(), outcome: None, at: None, why: String::new() }
            }
        })
        .collect()
}

/// Scripts find every key, known or not.
pub(super) fn bound_object(view: &View) -> Value {
    let mut object = json!(view.bound);
    let bound = object.as_object_mut().expect("a bound is an object");
    for key in ["cost_usd", "tokens"] {
        bound.entry(key).or_insert(Value::Null);
    }
    object
}

fn object(view: &View, beside: &OutsideState) -> Value {
    let mut object = json!(view);
    object["bound"] = bound_object(view);
    for at_work in object["at_work"].as_array_mut().expect("a list") {
        let since = at_work["atom"].as_str().and_then(|atom| beside.since.get(atom));
        at_work["since"] = json!(since.map(Timestamp::to_string));
        let doing = at_work["atom"].as_str().and_then(|atom| beside.doing(atom));
        at_work["doing"] = json!(doing);
    }
    object["base_case"] = json!(beside.base_case);
    object["estimate"] = json!(beside.estimate);
    object["driver"] = json!(beside.driver);
    object["verifying"] = json!(beside.live.verifying);
    object["hosts"] = json!(beside.live.hosts);
    object
}
