//! `aot loops`: all loops of this user on this machine.

use std::path::{Path, PathBuf};

use aot_core::rules::{Change, bound};
use aot_core::state::{LoopStatus, State, StopKind};
use aot_core::view::View;
use aot_runner::driver;
use aot_runner::loops::{self, KnownLoop};
use aot_runner::store::Store;
use aot_runner::store::journal::JournalEntry;
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Invocation, Verb, status, workspace};
use crate::failure::Failure;
use crate::place;
use crate::print::Answer;
use crate::screens::ink::Ink;
use crate::screens::loops::{LoopRow, LoopState, draw};
use crate::terminal::Stream;

/// List all your loops on this machine: where they stand, who drives them, what they can still cost
///
/// A loop is listed from its first run on, until its state file is gone.
#[derive(Debug, Args)]
pub struct LoopsArgs {}

impl Verb for LoopsArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let mut rows: Vec<LoopRow> = loops::all().iter().map(row).collect();
        rows.sort_by_key(|row| (row.state.rank(), std::cmp::Reverse(row.since), row.state_file.clone()));
        let text = || match rows.is_empty() {
            true => {
                "no loop has run here yet; start one with: aot run \"GOAL\" --check \"COMMAND\"".to_owned()
            }
            false => draw(&rows, place::home().as_deref(), Timestamp::now(), Ink::of(Stream::Out)),
        };
        let object = || json!({"success": true, "loops": rows.iter().map(object).collect::<Vec<_>>()});
        Ok(Answer::lazy(invocation.format, text, object))
    }
}

/// Where a loop stands. One whose state file cannot be read is listed with the reason.
fn row(known: &KnownLoop) -> LoopRow {
    let project = place::project_root(&known.state);
    let seen = look(&known.state).unwrap_or_else(|failure| Seen {
        state: LoopState::Unreadable { why: failure.message() },
        view: None,
        driver: None,
        changed: None,
    });
    let since = match seen.driver {
        Some(_) => known.driven,
        None => seen.changed.unwrap_or(known.driven),
    };
    let since = Some(since);
    LoopRow {
        state_file: known.state.clone(),
        project,
        state: seen.state,
        view: seen.view,
        driver: seen.driver,
        since,
    }
}

/// What is known of a loop.
struct Seen {
    state: LoopState,
    view: Option<Box<View>>,
    driver: Option<String>,
    /// When it was changed last, as far as the journal tells.
    changed: Option<Timestamp>,
}

fn look(path: &Path) -> Result<Seen, Failure> {
    let mut store = Store::open(path, &place::build_mark())?;
    let home = store.file().home().clone();
    let (driver, pid) = (driver::holder(&home), driver::holder_pid(&home));
    let project = workspace::project(path)?;
    let mut view = store.answers()?.view;
    let state = store.load()?.1.clone();
    if let Some(view) = &mut view
        && let Some(agents) = status::agents(path, &mut store, view)?
    {
        view.bound = bound::written(&state, agents);
    }
    let newest: Vec<JournalEntry<Change>> = store.journal().newest(1).unwrap_or_default();
    let changed = newest.last().and_then(|entry| entry.at.parse().ok());
    let blocked = driver.as_ref().and_then(|_| blocked(&project.sidecar));
    let state = match blocked {
        Some(why) => LoopState::NeedsPerson { pid, why },
        None => state_of(&state, driver.is_some(), pid),
    };
    Ok(Seen { state, view: view.map(Box::new), driver, changed })
}

/// A landing that waits for a person's edits, as its driver tells.
fn blocked(sidecar: &Path) -> Option<String> {
    let jobs = status::recorded(sidecar).jobs;
    jobs.into_iter().find_map(|job| {
        let waiting = job.waiting?;
        Some(format!("{} waits to land: {waiting}", job.atom.unwrap_or_default()))
    })
}

fn state_of(state: &State, is_driven: bool, pid: Option<u32>) -> LoopState {
    let control = &state.control;
    let why = || control.stop_reason.clone().unwrap_or_default();
    match (control.status, is_driven) {
        (LoopStatus::Completed, false) => LoopState::Completed,
        (LoopStatus::Pending, false) => LoopState::Pending,
        (LoopStatus::Stopped, false) if control.verdict == Some(StopKind::NeedsPerson) => {
            LoopState::NeedsPerson { pid: None, why: why() }
        }
        (LoopStatus::Stopped, false) => LoopState::Stopped { why: why() },
        (LoopStatus::Running, false) => match &control.session {
            Some(_) => LoopState::InSession,
            None => LoopState::Left,
        },
        (LoopStatus::Pending | LoopStatus::Running | LoopStatus::Stopped | LoopStatus::Completed, true) => {
            match &control.parked_until {
                Some(until) => LoopState::Parked {
                    pid,
                    until: until.at(),
                    why: control.parked_reason.clone().unwrap_or_default(),
                },
                None => LoopState::Running { pid },
            }
        }
    }
}

fn object(row: &LoopRow) -> Value {
    let path = |path: &PathBuf| path.display().to_string();
    let mut object = json!({
        "state_file": path(&row.state_file),
        "project": path(&row.project),
        "state": row.state.word(),
        "reason": row.state.why(),
        "pid": row.state.pid(),
        "driver": row.driver,
        "since": row.since.map(|at| at.to_string()),
        "parked_until": row.state.until().map(|until| until.to_string()),
    });
    if let Some(view) = &row.view {
        let (resolved, atoms) = view.counts.progress();
        object["goal"] = json!(view.goal);
        object["iteration"] = json!(view.iteration);
        object["max_iterations"] = json!(view.max_iterations);
        (object["resolved"], object["atoms"]) = (json!(resolved), json!(atoms));
        object["bound"] = status::bound_object(view);
    }
    object
}
