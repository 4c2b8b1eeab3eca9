//! Runs one program in a tree of processes of its own, bounded in time and in output, and leaves nobody behind. Knows
//! nothing of checks or agents.
//!
//! Between us and the program stands a guard: this same binary, started with a hidden word. It is the subreaper of all
//! that the program starts, so that a daemon in a session of its own is still its descendant, and it holds one end of a
//! socket whose other end is ours. When the program has ended, when we say so, or when the socket closes because we are
//! dead, the guard kills every descendant that is left. Then it can serve the next program, so that no program of ours has
//! to be loaded for each of theirs.
//!
//! Guards, and programs like git that need none because they end by themselves ([`Call`]), are started by the reaper:
//! this same binary again, once for each of our processes. It clears what is left if a guard is killed, and everything
//! if we are.

pub mod cage;
mod call;
mod captured;
mod feed;
pub mod guard;
pub mod hosts;
mod interrupt;
mod left;
mod listing;
mod proxy;
mod reaper;
mod requests;
mod started;
mod switch;
mod way_out;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, PipeReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use cage::{Cage, Kind, Network};
pub use call::{Call, CallError, CallLimits, Called};
pub use captured::Captured;
pub use feed::{Feed, UnreadFeed};
pub use guard::MARK;
use hosts::HostRefusal;
pub use interrupt::Interrupt;
pub use left::end_left_behind;
use requests::{EarlyEnd, GuardRequest, LaunchRequest};
use started::{Reaper, StartedProgram};
pub use switch::{Switch, Wire};

/// How long a guard may take to clear what it guards, once it was told to.
const CLEARING: Duration = Duration::from_secs(20);

/// So many guards stay for the next programs.
const MOST_IDLE: usize = 32;

const CHUNK: usize = 64 << 10;

/// The binary that becomes the guard: `aot` itself, wherever it lies.
#[derive(Clone, Debug)]
pub struct Guard {
    program: PathBuf,
    idle: Arc<IdleGuards>,
    reaper: Arc<Reaper>,
    switch: Switch,
    interrupt: Interrupt,
}

/// What is to run.
#[derive(Clone, Debug)]
pub struct Job {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    pub folder: PathBuf,
    pub environment: Environment,
    pub input: Input,
    pub streams: Streams,
    pub limits: Limits,
    /// Without one it writes wherever we can.
    pub cage: Option<Cage>,
}

#[derive(Clone, Debug)]
pub enum Environment {
    /// Our own, and these on top of it.
    OursAnd(Vec<(OsString, OsString)>),
    /// These, and nothing else but the mark of the tree.
    Only(Vec<(OsString, OsString)>),
}

#[derive(Clone, Debug)]
pub enum Input {
    /// Standard input is empty.
    None,
    Bytes(Vec<u8>),
    /// A file, or a FIFO that is filled while the program runs: see [`Feed`].
    File(PathBuf),
}

/// Where something was printed. Streams that are kept together are all output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Output,
    Errors,
}

/// Hears what a program prints while it runs, on the threads that read its streams: a slow one slows the program.
pub type Tap = Arc<dyn Fn(Stream, &[u8]) + Send + Sync>;

/// Whether standard output and standard error are kept as one text, in the order in which they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    Together,
    Apart,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub wall: Duration,
    /// How long it may print nothing.
    pub idle: Option<Duration>,
    /// How long it may live on after it was asked to end.
    pub grace: Duration,
    /// Bytes kept of the beginning of each stream.
    pub head: usize,
    /// Bytes kept of its end.
    pub tail: usize,
}

#[derive(Clone, Debug)]
#[must_use]
pub struct Ended {
    pub how: How,
    /// Standard output, or both streams.
    pub output: Captured,
    /// Standard error, if it was kept apart.
    pub errors: Captured,
    pub took: Duration,
    /// How many processes had to be killed after the program itself had ended.
    pub left: usize,
    /// The hosts that its cage kept it from, if its network is a list: the first of them, each once.
    pub refused: Vec<HostRefusal>,
}

impl Ended {
    /// It was not even started.
    fn killed() -> Ended {
        let (output, errors) = (Captured::default(), Captured::default());
        Ended { how: How::Killed, output, errors, took: Duration::ZERO, left: 0, refused: Vec::new() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    Exited(i32),
    Signalled(i32),
    /// It could not be started at all.
    NotStarted(String),
    /// It is not there, or cannot be executed.
    NoProgram(String),
    OutOfTime,
    /// It printed nothing for too long.
    Silent,
    /// We were asked to end it.
    Killed,
    /// The guard itself was killed, so that nobody knows.
    Lost,
}

/// A guard's process, which serves one program after the other.
#[derive(Debug)]
struct ServingGuard {
    /// Where it is given its next program. When this ends, so does the guard.
    control: UnixStream,
    process: StartedProgram,
    /// One that has built a cage of some kind has changed what it sees of the system, and builds no other.
    kind: Option<Kind>,
}

/// Guards whose last program and all that it started are gone.
#[derive(Debug, Default)]
struct IdleGuards(Mutex<Vec<ServingGuard>>);

impl IdleGuards {
    fn take(&self, kind: Option<Kind>) -> Option<ServingGuard> {
        let mut idle = self.all();
        let place = idle.iter().rposition(|guard| guard.kind == kind)?;
        Some(idle.remove(place))
    }

    fn keep(&self, guard: ServingGuard) {
        let mut idle = self.all();
        if idle.len() < MOST_IDLE {
            idle.push(guard);
        }
    }

    /// A thread that panicked in between has left nothing half done.
    fn all(&self) -> MutexGuard<'_, Vec<ServingGuard>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A program that runs. Dropped, it is killed.
#[derive(Debug)]
pub struct Running {
    /// `None` when it serves others again.
    guard: Option<ServingGuard>,
    /// Where the guard goes when it has cleared.
    idle: Option<Arc<IdleGuards>>,
    line: UnixStream,
    readers: Vec<JoinHandle<Captured>>,
    began: Instant,
    heard: Arc<AtomicU64>,
    limits: Limits,
    killed: Arc<AtomicBool>,
    mark: String,
}

/// Ends a program from another thread.
#[derive(Debug)]
pub struct Killer {
    line: UnixStream,
    killed: Arc<AtomicBool>,
}

impl Killer {
    /// The whole tree, at once. The guard may serve another program by now, so only its own line to this one is used.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        // If the guard is gone, so is what it guarded.
        let _ = (&self.line).write_all(&[guard::KILL]);
    }
}

impl Guard {
    pub fn new(program: PathBuf) -> Guard {
        let reaper = Arc::new(Reaper::new(program.clone()));
        let (idle, switch, interrupt) = (Arc::default(), Switch::default(), Interrupt::default());
        Guard { program, idle, reaper, switch, interrupt }
    }

    /// The same, for programs that one switch ends together.
    pub fn under(&self, switch: &Switch) -> Guard {
        Guard { switch: switch.clone(), ..self.clone() }
    }

    /// The file of the binary.
    pub fn program(&self) -> &std::path::Path {
        &self.program
    }

    /// The switch that ends what this guard runs.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// What makes all that was begun through this guard and its copies come to an end.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Keeps a file open until everything that runs has ended, even if we are killed: a lock, so that the next to take it
    /// finds nobody at work.
    pub fn hold(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        self.reaper.hold(file)
    }

    pub fn start(&self, job: &Job) -> io::Result<Running> {
        self.start_tapped(job, None)
    }

    fn start_tapped(&self, job: &Job, tap: Option<Tap>) -> io::Result<Running> {
        let cage = match &job.cage {
            None => Vec::new(),
            Some(cage) => {
                let cage = cage.resolved().and_then(|cage| cage.encoded());
                cage.map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?
            }
        };
        let (line, theirs) = UnixStream::pair()?;
        let input: &[u8] = match &job.input {
            Input::None | Input::File(_) => &[],
            Input::Bytes(bytes) => bytes,
        };
        let mark = mark();
        let mut environment: Vec<(OsString, OsString)> = match &job.environment {
            Environment::OursAnd(variables) => std::env::vars_os().chain(variables.iter().cloned()).collect(),
            Environment::Only(variables) => variables.clone(),
        };
        environment.push((guard::MARK.into(), mark.clone().into()));
        let mut words = vec![
            job.limits.grace.as_millis().to_string().into(),
            guard::input_word(&job.input),
            match job.cage {
                None => "none".into(),
                Some(_) => cage.len().to_string().into(),
            },
            job.program.clone(),
        ];
        words.extend_from_slice(&job.arguments);
        let request = GuardRequest { words, folder: job.folder.clone(), environment };
        let (output, writer) = io::pipe()?;
        let mut pipes = vec![(Stream::Output, output)];
        let error_writer = match job.streams {
            Streams::Together => writer.try_clone()?,
            Streams::Apart => {
                let (errors, error_writer) = io::pipe()?;
                pipes.push((Stream::Errors, errors));
                error_writer
            }
        };
        let began = Instant::now();
        // Our copies of the writing ends are closed by this: only the program's processes hold them now.
        let kind = job.cage.as_ref().map(|cage| cage.kind);
        let guard = self.served(kind, &request, theirs, [writer.into(), error_writer.into()])?;
        let heard = Arc::new(AtomicU64::new(0));
        let readers = pipes.into_iter().map(|(stream, pipe)| {
            let tap = tap.clone().map(|tap| (stream, tap));
            read(pipe, job.limits, began, Arc::clone(&heard), tap)
        });
        // Without a thread that reads it is not started: it is killed when what stands for it is dropped.
        let readers = readers.collect::<io::Result<_>>()?;
        let running = Running {
            guard: Some(guard),
            idle: serves_again(job.cage.as_ref()).then(|| Arc::clone(&self.idle)),
            line,
            readers,
            began,
            heard,
            limits: job.limits,
            killed: Arc::new(AtomicBool::new(false)),
            mark,
        };
        // A guard that is gone is found out by whoever waits for it. One that is there and does not get all of it would wait
        // for the rest: it is ended when `running` is dropped.
        for part in [cage.as_slice(), input] {
            match (&running.line).write_all(part) {
                Err(error) if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                    return Err(error);
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(running)
    }

    /// Gives the program to a guard that waits for one, or to a new one.
    fn served(
        &self,
        kind: Option<Kind>,
        request: &GuardRequest,
        line: UnixStream,
        streams: [OwnedFd; 2],
    ) -> io::Result<ServingGuard> {
        // One that was killed meanwhile takes nothing.
        while let Some(guard) = self.idle.take(kind) {
            if requests::send_job(&guard.control, request, line.as_fd(), &streams).is_ok() {
                return Ok(guard);
            }
        }
        let guard = self.start_guard(kind)?;
        requests::send_job(&guard.control, request, line.as_fd(), &streams)?;
        Ok(guard)
    }

    fn start_guard(&self, kind: Option<Kind>) -> io::Result<ServingGuard> {
        let (control, theirs) = UnixStream::pair()?;
        // A list of processes tells whose it is, and it must be found what it is linked to. A program could read the rest.
        let kept = |name: &str| Some((OsString::from(name), std::env::var_os(name)?));
        let environment = ["HOME", "LD_LIBRARY_PATH"].into_iter().filter_map(kept);
        let launch = LaunchRequest {
            program: self.program.clone(),
            name: "aot".into(),
            arguments: vec![guard::WORD.into()],
            folder: "/".into(),
            environment: environment.collect(),
            // Its line to us ends as well: if it can, it clears by itself.
            ending: EarlyEnd::Killed,
        };
        let nothing = || File::options().write(true).open("/dev/null").map(OwnedFd::from);
        let process = self.reaper.start(&launch, [theirs.into(), nothing()?, nothing()?])?;
        Ok(ServingGuard { control, process, kind })
    }

    /// Starts it and waits for its end, which comes at once when the switch is turned off.
    pub fn run(&self, job: &Job) -> io::Result<Ended> {
        self.run_tapped(job, None)
    }

    /// The same, and what it prints is heard as it comes. All of it has been heard when this returns.
    pub fn run_heard(&self, job: &Job, tap: Tap) -> io::Result<Ended> {
        self.run_tapped(job, Some(tap))
    }

    fn run_tapped(&self, job: &Job, tap: Option<Tap>) -> io::Result<Ended> {
        if self.switch.is_off() {
            return Ok(Ended::killed());
        }
        let running = self.start_tapped(job, tap)?;
        let killer = running.killer()?;
        let wire = self.switch.connect(move || killer.kill());
        let ended = running.wait();
        drop(wire);
        Ok(ended)
    }
}

/// What lets a program out of its cage to some hosts goes on until the guard ends.
fn serves_again(cage: Option<&Cage>) -> bool {
    cage.is_none_or(|cage| !matches!(cage.network, Network::Hosts(_)))
}

impl Running {
    pub fn killer(&self) -> io::Result<Killer> {
        Ok(Killer { line: self.line.try_clone()?, killed: Arc::clone(&self.killed) })
    }

    /// Waits until the program and all that it started are gone.
    pub fn wait(mut self) -> Ended {
        let mut lines = BufReader::new(&self.line);
        let mut cause = None;
        let mut report = String::new();
        let mut refused = Vec::new();
        loop {
            let (limit, why) = match &cause {
                None => self.next_limit(),
                Some((told, why)) => {
                    let time = self.limits.grace + CLEARING;
                    (time.saturating_sub(Instant::elapsed(told)), How::clone(why))
                }
            };
            if limit.is_zero() {
                if cause.is_some() {
                    // It was told long ago; whatever keeps it, closing the line is all that is left to us.
                    break;
                }
                let _ = (&self.line).write_all(&[guard::END]);
                cause = Some((Instant::now(), why));
                continue;
            }
            // A limit of zero is not allowed here and was dealt with above.
            let _ = self.line.set_read_timeout(Some(limit.max(Duration::from_millis(1))));
            match lines.read_line(&mut report) {
                Ok(0) => break,
                Ok(_) if report.ends_with('\n') => match HostRefusal::read(&report) {
                    None => break,
                    Some(refusal) => {
                        refused.push(refusal);
                        report.clear();
                    }
                },
                Ok(_) => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(_) => break,
            }
        }
        let took = self.began.elapsed();
        let (ended, left) = guard::read_report(&report);
        let how = match (cause, ended) {
            (Some((_, why)), _) => why,
            (None, How::Exited(code)) => How::Exited(code),
            (None, _) if self.killed.load(Ordering::Acquire) => How::Killed,
            (None, how) => how,
        };
        let _ = self.line.shutdown(Shutdown::Both);
        match (report.is_empty(), &self.idle) {
            // It reports when it has cleared.
            (false, Some(idle)) => self.guard.take().into_iter().for_each(|guard| idle.keep(guard)),
            (false, None) => self.end_guard(),
            (true, _) => {
                // No guard, or one that cannot clear.
                self.guard.iter().for_each(|guard| guard::abandon(&guard.process, &self.mark));
                self.end_guard();
            }
        }
        let mut captured =
            self.readers.drain(..).map(|reader| match report.is_empty() && !reader.is_finished() {
                // Somebody who cannot be killed holds the stream open.
                true => Captured::default(),
                false => reader.join().unwrap_or_default(),
            });
        let output = captured.next().unwrap_or_default();
        let errors = captured.next().unwrap_or_default();
        drop(captured);
        Ended { how, output, errors, took, left, refused }
    }

    fn end_guard(&mut self) {
        if let Some(guard) = self.guard.take() {
            let _ = guard.control.shutdown(Shutdown::Both);
            guard.process.wait(CLEARING);
        }
    }

    /// How long until one of the limits is reached, and which.
    fn next_limit(&self) -> (Duration, How) {
        let now = self.began.elapsed();
        let wall = self.limits.wall.saturating_sub(now);
        let Some(idle) = self.limits.idle else { return (wall, How::OutOfTime) };
        let heard = Duration::from_millis(self.heard.load(Ordering::Acquire));
        let silent = (heard + idle).saturating_sub(now);
        if silent < wall { (silent, How::Silent) } else { (wall, How::OutOfTime) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Whoever may still hold a killer: the line ends here, and the guard clears.
        let _ = self.line.shutdown(Shutdown::Both);
        self.end_guard();
    }
}

/// No two trees on one machine have the same.
fn mark() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}-{}", std::process::id(), since.as_nanos(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn read(
    mut pipe: PipeReader,
    limits: Limits,
    began: Instant,
    heard: Arc<AtomicU64>,
    tap: Option<(Stream, Tap)>,
) -> io::Result<JoinHandle<Captured>> {
    std::thread::Builder::new().name("read".into()).spawn(move || {
        let mut captured = Captured::keeping(limits.head, limits.tail);
        let mut chunk = vec![0; CHUNK];
        loop {
            match pipe.read(&mut chunk) {
                Ok(0) => return captured,
                Ok(count) => {
                    heard.store(began.elapsed().as_millis() as u64, Ordering::Release);
                    captured.take(&chunk[..count]);
                    if let Some((stream, tap)) = &tap {
                        tap(*stream, &chunk[..count]);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return captured,
            }
        }
    })
}
