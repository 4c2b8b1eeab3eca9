//! Takes a loop up: one driver for each state file, the ground it works on, what a crash left, and then the shell.
//! Decides nothing.

use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use aot_core::brief::Role;
use aot_core::coordinator::{
    Agents, Dispatch, Event, Presence, RedirectLock, Settings, Trees, UnrecordedLanding,
};
use aot_core::rules::gate::gate;
use aot_core::rules::{Change, Refusal};
use aot_core::state::{AtomId, AtomStatus, Binding, LoopStatus, State};
use jiff::Timestamp;

use crate::agents::{Team, clear_transcripts};
use crate::checks::seal::Seal;
use crate::crew::{Crew, Message, RunConfig, clear_outputs, clear_scratch};
use crate::shell::{Beginning, Notice, Ran, RunError, Shell};
use crate::store::error::FileError;
use crate::store::hold;
use crate::store::home::Home;
use crate::store::lock::{Held, Lock};
use crate::store::watch::{self, Watch};
use crate::store::{Store, StoreError};
use crate::tree::{Ground, Kind, Wanted};

/// A lock that outlives its process does so for a moment; so long it is waited for.
const PASSING: Duration = Duration::from_secs(5);

/// What one run is asked for, besides what the state says.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Land on this branch, and leave the checkout alone.
    pub branch: Option<String>,
    pub ticks: Option<Duration>,
}

/// The driver's lock, held.
#[derive(Debug)]
pub struct DriverLock {
    _lock: Held,
}

/// Somebody else drives.
#[derive(Debug, thiserror::Error)]
pub enum DriverLockError {
    #[error("this loop is driven already, by {holder}")]
    Taken { holder: String },
    #[error(transparent)]
    File(#[from] FileError),
}

/// Becomes the driver. A driver that died has left the seat free.
pub fn acquire(home: &Home) -> Result<DriverLock, DriverLockError> {
    let purpose = format!("drives the loop since {}", Timestamp::now().strftime("%H:%M:%S UTC"));
    let wait = if Lock::Driving.taker_lives(home) { Duration::ZERO } else { PASSING };
    match Held::take_the(Lock::Driving, home, &purpose, wait) {
        Ok(held) => Ok(DriverLock { _lock: held }),
        Err(error) => match Lock::Driving.holder(home) {
            Some(holder) => Err(DriverLockError::Taken { holder }),
            None => Err(error.into()),
        },
    }
}

/// Who drives the loop, if somebody does.
pub fn holder(home: &Home) -> Option<String> {
    Lock::Driving.holder(home)
}

/// Runs the loop to a halt.
pub fn run(
    mut store: Store,
    seated: DriverLock,
    config: RunConfig,
    asked: &Asked,
    (words, inbox): (Sender<Message>, Receiver<Message>),
    tell: &mut dyn FnMut(Notice<'_>),
) -> Result<Ran, RunError> {
    clear_scratch(&config.project);
    clear_outputs(&config.project);
    clear_transcripts(&config.project.sidecar);
    let loop_id = name(&mut store, asked)?;
    let (_, state) = store.load::<Refusal>()?;
    let state = state.clone();
    let aligned = gate(state.clone())?;
    let wanted = wanted(&state, &loop_id);
    let ground = Ground::open(&config.project, wanted, &config.guard, &config.shell)?;
    let found = found(&ground, &state)?;
    let seal = Seal::of(&state.objective, &ground.verify_root()?)
        .map_err(|error| RunError::World(format!("the protected files cannot be read: {error}")))?;
    if state.control.fingerprint.is_none() {
        // They are told after the bound, by whoever reads the words.
        if state.control.status != LoopStatus::Pending {
            let text = "nobody had fingerprinted the base case; it is taken as it is now";
            let _ = words.send(Message::Note(text.into()));
        }
        if let Err(error) = seal.keep(&config.project) {
            let _ =
                words.send(Message::Note(format!("the list of protected files could not be kept: {error}")));
        }
    }
    let redirect = match hold::holder(store.file().home()) {
        Some(_) => RedirectLock::Held,
        None => RedirectLock::Free,
    };
    let settings = Settings {
        agents: seats(&config.team, &state),
        dispatch: Dispatch::Rolling,
        trees: match ground.trees() {
            Kind::Worktrees | Kind::Unisolated => Trees::Separate,
            Kind::InPlace => Trees::Shared,
        },
        on_refused_start: config.on_refused_start,
    };
    let watching = words.clone();
    let watch = Watch::new(store.file().home(), move |notice| {
        // When nobody listens any more, the run is over.
        let _ = watching.send(match notice {
            watch::Notice::Changed => Message::FileChanged,
            watch::Notice::Blind(error) => Message::Blind(error.to_string()),
        });
    });
    let watch = match watch {
        Ok(watch) => Some(watch),
        Err(error) => {
            let _ = words.send(Message::Blind(error.to_string()));
            None
        }
    };
    let begun = Event::Begun { unrecorded: found, fingerprint: Some(seal.fingerprint()), redirect };
    let beginning = Beginning { aligned, settings, begun, ticks: asked.ticks };
    let crew = Crew::new(config, ground, loop_id, words);
    let ran = Shell::run(store, crew, inbox, beginning, tell);
    drop(watch);
    drop(seated);
    ran
}

/// What the state says about its isolation.
pub(crate) fn wanted(state: &State, loop_id: &str) -> Wanted {
    let isolation = state.objective.isolation.clone();
    Wanted {
        mode: isolation.as_ref().and_then(|isolation| isolation.mode),
        share: isolation.as_ref().map(|isolation| isolation.share.clone()).unwrap_or_default(),
        setup: isolation.and_then(|isolation| isolation.setup),
        branch: state.control.branch.clone(),
        loop_id: loop_id.to_owned(),
    }
}

/// Which roles have somebody. Atoms that each want somebody of their own need nobody else.
pub fn seats(team: &Team, state: &State) -> Agents {
    let seat = |taken: bool| if taken { Presence::Available } else { Presence::Absent };
    let open = state.atoms.values().filter(|atom| atom.run.is_none() && atom.status != AtomStatus::Resolved);
    let mut open = open.peekable();
    let by_name = open.peek().is_some() && open.all(|atom| team.member(Role::Worker, Some(atom)).is_some());
    Agents {
        worker: seat(team.member(Role::Worker, None).is_some() || by_name),
        probe: seat(team.member(Role::Probe, None).is_some()),
        coordinator: seat(team.member(Role::Coordinator, None).is_some()),
    }
}

/// A loop has a name before its first commit, and a branch if one was asked for.
pub(crate) fn name(store: &mut Store, asked: &Asked) -> Result<String, RunError> {
    let recorded = store.change("name the loop", Timestamp::now(), |ledger| {
        let control = &ledger.state().control;
        let id = control.loop_id.clone();
        let branch = asked.branch.clone().filter(|branch| control.branch.as_ref() != Some(branch));
        if let Some(branch) = branch {
            ledger.record(Change::BranchChosen { branch });
        }
        let id = id.unwrap_or_else(|| {
            let id = new_id();
            ledger.record(Change::LoopNamed { id: id.clone() });
            id
        });
        Ok::<String, Refusal>(id)
    });
    Ok(recorded.map_err(|error: StoreError<Refusal>| RunError::Store(error))?.value)
}

/// Commits of this loop for what stands in progress: they landed, and the record was lost (D23).
pub(crate) fn found(ground: &Ground, state: &State) -> Result<Vec<UnrecordedLanding>, RunError> {
    let running = state.atoms.values().filter(|atom| atom.status == AtomStatus::InProgress);
    let running: Vec<(AtomId, u32)> =
        running.filter_map(|atom| Some((atom.id.clone(), *state.control.attempts.get(&atom.id)?))).collect();
    if running.is_empty() {
        return Ok(Vec::new());
    }
    let found = ground.found(&running)?.into_iter().map(|found| UnrecordedLanding {
        atom: found.atom,
        attempt: found.attempt,
        binding: Binding { summary: found.summary, artifacts: found.paths, commit: Some(found.commit) },
    });
    Ok(found.collect())
}

/// Sorts by time, and no two are the same: the milliseconds, and what no other process has at that moment.
pub fn new_id() -> String {
    const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let now = Timestamp::now();
    let unique = format!("{} {} {:?}", now.as_nanosecond(), std::process::id(), std::thread::current().id());
    let random = blake3::hash(unique.as_bytes());
    let mut value = u128::from(u64::try_from(now.as_millisecond()).unwrap_or(0)) << 80;
    value |= random.as_bytes().iter().take(10).fold(0, |value, byte| value << 8 | u128::from(*byte));
    let letters = (0..26).rev().map(|place| char::from(LETTERS[(value >> (place * 5) & 31) as usize]));
    letters.collect()
}
