//! Drives a loop in this process to its halt; there is one driver for each state file. Decides nothing.

use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use aot_core::brief::Role;
use aot_core::coordinator::{Agents, Coordinator, Dispatch, Presence, Settings};
use aot_core::rules::certificate::{Certificate, StopKind};
use aot_core::state::{AtomStatus, State};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::agents::{Team, clear_transcripts};
use crate::checks::seal::Altered;
use crate::crew::{Crew, RunConfig, clear_outputs};
use crate::durations::Learnt;
use crate::engine::{self, Clock, Engine, Learning, Mode, Opening, Owner, RunError};
use crate::live::LiveRecord;
use crate::message::{Message, Notice};
use crate::notify::{Notifier, NotifyPlace, NotifySettings};
use crate::plain_file;
use crate::process::end_left_behind;
#[cfg(feature = "remote")]
use crate::remote::dispatch::RemoteConfig;
use crate::scratch;
use crate::store::Store;
use crate::store::error::FileError;
use crate::store::home::Home;
use crate::store::lock::{Held, Lock};
use crate::store::watch::{self, Watch};
use crate::tree::{LandedWork, OpenedFor};

/// The lock of a driver that was killed is held until what it had started is gone.
const LOCK_WAIT: Duration = Duration::from_secs(15);

/// What one run is asked for, besides what the state says.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Land on this branch, and leave the checkout alone.
    pub branch: Option<String>,
    /// How often [`Notice::Tick`] is wanted.
    pub ticks: Option<Duration>,
    /// Who is told what the loop comes to.
    pub notify: NotifySettings,
}

/// How a run ended.
#[derive(Debug)]
pub struct RunEnd {
    pub certificate: Certificate,
    /// A person at the keyboard ended it.
    pub interrupted: bool,
    pub altered: Vec<Altered>,
    /// What the loop has landed so far; absent if that cannot be told.
    pub landed: Option<LandedWork>,
    pub cleanup: Cleanup,
}

/// What is left to do when the end has been told. Nobody else drives the loop meanwhile.
#[derive(Debug)]
#[must_use]
pub struct Cleanup {
    crew: Crew,
    lock: DriverLock,
    notifier: Notifier,
}

impl Cleanup {
    /// Ends trees that were set up, and removes old ones; waits a moment for what tells the user of the end. Returns what
    /// went wrong, which changes nothing of the end.
    pub fn finish(self) -> Vec<String> {
        let Cleanup { crew, lock, mut notifier } = self;
        let problem = crew.close().err().map(|error| format!("the trees could not be closed: {error}"));
        drop(lock);
        problem.into_iter().chain(notifier.finish()).collect()
    }
}

/// Held by the one process that drives a loop.
#[derive(Debug)]
pub struct DriverLock {
    held: Held,
}

#[derive(Debug, thiserror::Error)]
pub enum DriverLockError {
    #[error("this loop is driven already, by {holder}")]
    Taken { holder: String },
    #[error(transparent)]
    File(#[from] FileError),
}

/// Becomes the driver. The lock of a driver that died is free.
pub fn acquire(home: &Home) -> Result<DriverLock, DriverLockError> {
    let purpose = format!("drives the loop since {}", Timestamp::now().strftime("%H:%M:%S UTC"));
    let wait = if Lock::Driving.taker_lives(home) { Duration::ZERO } else { LOCK_WAIT };
    match Held::take_the(Lock::Driving, home, &purpose, wait) {
        Ok(held) => Ok(DriverLock { held }),
        Err(error) => match holder(home) {
            Some(holder) => Err(DriverLockError::Taken { holder }),
            None => Err(error.into()),
        },
    }
}

/// The process that drives the loop now.
pub fn holder(home: &Home) -> Option<String> {
    Lock::Driving.holder(home)
}

/// Its number.
pub fn holder_pid(home: &Home) -> Option<u32> {
    Lock::Driving.holder_pid(home)
}

/// In the sidecar: which roles have an agent in the run that goes on, or went on last.
const AGENTS: &str = "driver.json";

const AGENTS_BYTES: u64 = 1 << 10;

/// The roles that have an agent in the run that goes on. Whoever looks does not know its command line.
pub fn agents_at_work(home: &Home) -> Option<Agents> {
    holder(home)?;
    let kept = plain_file::read(&home.sidecar().join(AGENTS), AGENTS_BYTES).ok()?;
    let kept: Value = serde_json::from_slice(&kept).ok()?;
    let presence = |role: Role| match kept[role.word()].as_bool() {
        Some(true) => Some(Presence::Available),
        Some(false) => Some(Presence::Absent),
        None => None,
    };
    Some(Agents {
        worker: presence(Role::Worker)?,
        probe: presence(Role::Probe)?,
        coordinator: presence(Role::Coordinator)?,
    })
}

fn keep_agents(home: &Home, agents: Agents) -> std::io::Result<()> {
    let Agents { worker, probe, coordinator } = agents;
    let roles = [(Role::Worker, worker), (Role::Probe, probe), (Role::Coordinator, coordinator)];
    let kept: Map<String, Value> = roles
        .into_iter()
        .map(|(role, presence)| (role.word().to_owned(), json!(presence == Presence::Available)))
        .collect();
    plain_file::write(&home.sidecar().join(AGENTS), Value::Object(kept).to_string().as_bytes())
}

/// Where jobs are done. What lands and what is evaluated is so here in any case.
#[derive(Debug)]
pub enum WorkPlace {
    Here,
    #[cfg(feature = "remote")]
    Hosts(Box<RemoteConfig>),
}

/// Runs the loop to a halt.
pub fn run(
    mut store: Store,
    lock: DriverLock,
    config: RunConfig,
    options: &RunOptions,
    place: WorkPlace,
    (sender, inbox): (Sender<Message>, Receiver<Message>),
    notify: &mut dyn FnMut(Notice<'_>),
) -> Result<RunEnd, RunError> {
    // Whoever drives next finds nothing of this run at work, even if this process is killed.
    config
        .guard
        .hold(lock.held.file())
        .map_err(|error| RunError::World(format!("nothing can be started: {error}")))?;
    scratch::clear(&config.project.sidecar);
    clear_outputs(&config.project);
    clear_transcripts(&config.project.sidecar);
    let edits = engine::claim(&mut store, Owner::Driver { branch: options.branch.as_deref() })?;
    let loop_id = store.state().and_then(|state| state.control.loop_id.clone()).unwrap_or_default();
    let ended = end_left_behind(format!("AOT_LOOP={loop_id}").as_bytes(), &config.project.root);
    if ended > 0 {
        let text = format!("processes that outlived the last run were ended: {ended}");
        // It is shown after the bound, when the engine reads its inbox.
        let _ = sender.send(Message::Notice(Notice::Note { text }));
    }
    let Opening { aligned, ground, begun, altered, notes } =
        Opening::of(&mut store, &config, OpenedFor::Run)?;
    for text in edits.iter().map(ToString::to_string).chain(notes) {
        // The notes are shown after the bound, when the engine reads its inbox.
        let _ = sender.send(Message::Notice(Notice::Note { text }));
    }
    let settings = Settings {
        agents: available_agents(&config.team, aligned.state()),
        dispatch: Dispatch::Rolling,
        trees: engine::trees(&ground),
        on_refused_start: config.on_refused_start,
    };
    let notified = NotifyPlace {
        program: config.guard.program().to_path_buf(),
        root: config.project.root.clone(),
        state: config.project.state.clone(),
        sidecar: config.project.sidecar.clone(),
    };
    let mut notifier = Notifier::new(options.notify.clone(), notified, sender.clone());
    if let Some(missed) = notifier.begin(aligned.state()) {
        let _ = sender.send(Message::Notice(missed));
    }
    if let Err(error) = keep_agents(store.file().home(), settings.agents) {
        let text = format!("`aot status` shows too large a bound: {error}");
        let _ = sender.send(Message::Notice(Notice::Note { text }));
    }
    let watch = watch(&store, sender.clone());
    let clock = Clock::start();
    let learning = {
        let worker = config.team.member(Role::Worker, None).map(|agent| agent.name.clone());
        Learning::on(Learnt::of(&store, aligned.state()), worker)
    };
    let coordinator = Coordinator::resume(aligned, settings, clock.now());
    let state = coordinator.state();
    let crew = match place {
        WorkPlace::Here => Crew::new(config, ground, state, sender, Duration::MAX),
        #[cfg(feature = "remote")]
        WorkPlace::Hosts(remote) => {
            Crew::on_hosts(config, ground, state, sender, *remote).map_err(RunError::World)?
        }
    };
    let mut live = LiveRecord::begin(crew.project().sidecar.as_path());
    let mut tell = |notice: Notice<'_>| {
        live.tell(&notice);
        notify(notice);
    };
    let mut hear = |notice: Notice<'_>| {
        notifier.hear(&notice).into_iter().for_each(&mut tell);
        tell(notice);
    };
    let mut engine = Engine::new(store, coordinator, crew, inbox, (Mode::Drive, clock), &mut hear);
    engine.output.altered = altered;
    engine.learn_with(learning);
    let certificate = engine.run_until_halted(begun, options.ticks);
    engine.keep_learnt();
    let (output, crew) = engine.end();
    if let Ok(certificate) = &certificate {
        live.end(certificate);
    }
    drop(watch);
    match certificate {
        Ok(certificate) => {
            let cleanup = Cleanup { crew, lock, notifier };
            let (interrupted, mut altered) = (output.interrupted, output.altered);
            if certificate.verdict != StopKind::Tampered {
                altered.clear();
            }
            // The end is told with it or without it.
            let landed = cleanup.crew.ground().landed_work(engine::made_at(&loop_id)).ok().flatten();
            Ok(RunEnd { certificate, interrupted, altered, landed, cleanup })
        }
        Err(error) => {
            notifier.broken(&error.to_string()).into_iter().for_each(&mut *notify);
            for text in (Cleanup { crew, lock, notifier }).finish() {
                notify(Notice::Note { text });
            }
            Err(error)
        }
    }
}

/// Tells the engine when the state file changes; without a watch the engine polls.
fn watch(store: &Store, sender: Sender<Message>) -> Option<Watch> {
    let watching = sender.clone();
    let watch = Watch::new(store.file().home(), move |notice| {
        // Without a receiver the run is over.
        let _ = watching.send(match notice {
            watch::FileNotice::Changed => Message::FileChanged,
            watch::FileNotice::Blind(error) => Message::Unwatched(error.to_string()),
        });
    });
    watch
        .map_err(|error| {
            let _ = sender.send(Message::Unwatched(error.to_string()));
        })
        .ok()
}

/// The roles that have an agent. If each open atom names an agent of its own, no other worker is needed.
pub fn available_agents(team: &Team, state: &State) -> Agents {
    let presence = |there: bool| if there { Presence::Available } else { Presence::Absent };
    let open = state.atoms.values().filter(|atom| atom.run.is_none() && atom.status != AtomStatus::Resolved);
    let mut open = open.peekable();
    let by_name = open.peek().is_some() && open.all(|atom| team.member(Role::Worker, Some(atom)).is_some());
    Agents {
        worker: presence(team.member(Role::Worker, None).is_some() || by_name),
        probe: presence(team.member(Role::Probe, None).is_some()),
        coordinator: presence(team.member(Role::Coordinator, None).is_some()),
    }
}
