//! The guard's own side: it runs in the process that stands between us and the program. Knows only processes.
//!
//! It serves one program after the other. The next may begin when nobody of the last is left, and no thread of ours either
//! that could signal on its behalf.
//!
//! A job in a cage of namespaces has two: this one, which the job cannot reach, and within the cage the first process,
//! which the job cannot kill. The inner one does the work, the outer one passes words in and the report out.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, wait};

#[cfg(not(target_os = "linux"))]
use super::cage::CageError;
use super::cage::{Cage, Kind};
#[cfg(target_os = "linux")]
use super::cage::{Network, bwrap, landlock, mounts};
use super::requests::{self, GuardRequest};
use super::started::StartedProgram;
use super::way_out::{self, InnerNetwork, RefusalLine};
use super::{How, Input, listing, reaper};

/// The first word on the command line of a guard.
pub const WORD: &str = "__guard";

/// Set for everybody in a tree, so that they can be told even if their guard was killed.
pub const MARK: &str = "AOT_JOB";

/// Said to a guard: ask the program to end, then make it.
pub(super) const END: u8 = b'e';
/// Said to a guard: kill everything now.
pub(super) const KILL: u8 = b'k';

/// How long a round of killing waits for those to be gone that end, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// How much longer an outer guard waits for an inner one to clear before it kills the whole cage.
const RELAYING: Duration = Duration::from_secs(2);

/// bwrap tells a signal that ended the first process within as an exit code above this.
const KILLED_INSIDE: i32 = 128;

/// How long those whose guard is gone are waited for.
const ABANDONED: Duration = Duration::from_secs(2);

/// Becomes a guard or a reaper if the words say so. The first thing a program that starts guards must do.
pub fn is_called(words: &[OsString]) -> bool {
    words.get(1).is_some_and(|word| word == WORD || word == reaper::WORD)
}

/// What the words of a guard say.
struct Order<'w> {
    grace: Duration,
    input: Fed<'w>,
    place: GuardPosition,
    program: &'w OsString,
    arguments: &'w [OsString],
}

/// Where the program's standard input comes from.
#[derive(Clone, Copy)]
enum Fed<'w> {
    Nothing,
    /// So many bytes come on the line.
    Line(u64),
    File(&'w Path),
}

/// Stands before the path of a file, so that no name can be taken for a count.
const FILE: &str = "@";

impl<'w> Fed<'w> {
    fn read(word: &'w OsStr) -> Option<Fed<'w>> {
        if let Some(path) = word.as_bytes().strip_prefix(FILE.as_bytes()) {
            return Some(Fed::File(Path::new(OsStr::from_bytes(path))));
        }
        match word.to_str()? {
            "none" => Some(Fed::Nothing),
            count => count.parse().ok().map(Fed::Line),
        }
    }

    fn word(self) -> OsString {
        match self {
            Fed::Nothing => "none".into(),
            Fed::Line(count) => count.to_string().into(),
            Fed::File(path) => {
                let mut word = OsString::from(FILE);
                word.push(path);
                word
            }
        }
    }

    fn length(self) -> u64 {
        match self {
            Fed::Line(count) => count,
            Fed::Nothing | Fed::File(_) => 0,
        }
    }

    fn stdio(self) -> io::Result<Stdio> {
        match self {
            Fed::Nothing => Ok(Stdio::null()),
            Fed::Line(_) => Ok(Stdio::piped()),
            Fed::File(path) => open_input(path).map(Stdio::from).map_err(|error| {
                io::Error::other(format!("its input {} cannot be opened: {error}", path.display()))
            }),
        }
    }
}

/// The word that says where a program's input comes from.
pub(super) fn input_word(input: &Input) -> OsString {
    let fed = match input {
        Input::None => Fed::Nothing,
        Input::Bytes(bytes) => Fed::Line(bytes.len() as u64),
        Input::File(path) => Fed::File(path),
    };
    fed.word()
}

/// A FIFO to which nobody writes any more is at its end; to wait for a writer would be to wait forever.
fn open_input(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}

/// Where a guard stands.
enum GuardPosition {
    Free,
    /// So many bytes on the line, before the input, say which cage it is to build.
    Outside(u64),
    /// It is the first process of a cage, and its own file is open under this number.
    Inside(i32, InnerNetwork),
}

impl Order<'_> {
    /// `GRACE_MS INPUT_BYTES|none|@PATH CAGE_BYTES|none|in-FILE-NETWORK PROGRAM ARGUMENT…`
    fn read(words: &[OsString]) -> Option<Order<'_>> {
        let word = |place: usize| words.get(place).and_then(|word| word.to_str());
        let place = match word(2)? {
            "none" => GuardPosition::Free,
            other => match other.strip_prefix("in-") {
                Some(inside) => {
                    let (file, network) = inside.split_once('-')?;
                    GuardPosition::Inside(file.parse().ok()?, InnerNetwork::read(network)?)
                }
                None => GuardPosition::Outside(other.parse().ok()?),
            },
        };
        Some(Order {
            grace: Duration::from_millis(word(0)?.parse().ok()?),
            input: Fed::read(words.get(1)?)?,
            place,
            program: words.get(3)?,
            arguments: &words[4..],
        })
    }

    /// The same order for a guard within the cage.
    #[cfg(target_os = "linux")]
    fn for_inside(&self, file: i32, network: &Network) -> Vec<OsString> {
        let mut words: Vec<OsString> =
            vec![WORD.into(), self.grace.as_millis().to_string().into(), self.input.word()];
        words.push(format!("in-{file}-{}", InnerNetwork::of(network).word()).into());
        words.push(self.program.clone());
        words.extend_from_slice(self.arguments);
        words
    }
}

/// The line to the supervisor is standard input. A guard within a cage has its order on the command line.
pub fn run(words: &[OsString]) -> ExitCode {
    if words.get(1).is_some_and(|word| word == reaper::WORD) {
        return reaper::run();
    }
    let Ok(line) = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return ExitCode::from(2);
    };
    // Without a terminal nothing can ask for a password on it, and Ctrl-C reaches our supervisor only.
    let _ = rustix::process::setsid();
    let adopted = adopt();
    let Some(words) = words.get(2..).filter(|words| !words.is_empty()) else {
        return if adopted.is_ok() { serve(&line) } else { ExitCode::from(2) };
    };
    let Some(order) = Order::read(words) else { return ExitCode::from(2) };
    if let GuardPosition::Inside(file, _) = order.place {
        let_go(file);
        keep_closed();
    }
    let ended = adopted.and_then(|()| guard(&line, &order, Given::Ours));
    report(&line, ended);
    ExitCode::SUCCESS
}

/// One program after the other, until nobody asks any more.
fn serve(control: &UnixStream) -> ExitCode {
    loop {
        let Ok(received) = requests::receive_job(control) else { return ExitCode::from(2) };
        let Some((GuardRequest { words, folder, environment }, line, streams)) = received else {
            return ExitCode::SUCCESS;
        };
        let Some(order) = Order::read(&words) else { return ExitCode::from(2) };
        let ended = std::env::set_current_dir(&folder)
            .and_then(|()| guard(&line, &order, Given::These { environment, streams }));
        // The folder may be removed before the next program comes.
        let _ = std::env::set_current_dir("/");
        report(&line, ended);
    }
}

/// If nobody is there to hear it, the work is done all the same.
fn report(mut line: &UnixStream, ended: io::Result<(How, usize)>) {
    let report = match ended {
        Ok((how, left)) => write_report(&how, left),
        Err(error) => write_report(&How::NotStarted(error.to_string()), 0),
    };
    let _ = line.write_all(report.as_bytes());
}

/// The variables and the streams of a program.
enum Given {
    /// Those of this process.
    Ours,
    These {
        environment: Vec<(OsString, OsString)>,
        streams: [OwnedFd; 2],
    },
}

impl Given {
    /// Our copies of the streams end with the command.
    fn give(self, command: &mut Command) {
        if let Given::These { environment, streams: [output, errors] } = self {
            command.env_clear().envs(environment).stdout(Stdio::from(output)).stderr(Stdio::from(errors));
        }
    }
}

/// The program has no use for our own file.
fn let_go(file: i32) {
    // If it is not open there is nothing to close.
    let _ = nix::unistd::close(file);
}

/// The program within the same cage cannot look into us.
#[cfg(target_os = "linux")]
fn keep_closed() {
    // Should the system not know it, the program could lie about its own end, as it can by its exit code.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

#[cfg(not(target_os = "linux"))]
fn keep_closed() {}

fn guard(line: &UnixStream, order: &Order<'_>, given: Given) -> io::Result<(How, usize)> {
    let cage = match order.place {
        GuardPosition::Free | GuardPosition::Inside(..) => None,
        GuardPosition::Outside(length) => {
            let cage = Cage::decoded(&take(line, length)?);
            Some(cage.ok_or_else(|| io::Error::other("the cage cannot be read"))?)
        }
    };
    let bytes = take(line, order.input.length())?;
    match (cage, &order.place) {
        (Some(cage), _) if cage.kind == Kind::Bwrap => relay(line, order, &cage, bytes, given),
        (Some(cage), _) if cage.kind == Kind::Landlock => {
            direct(line, order, &Restriction::Landlock(cage), bytes, given)
        }
        (None, GuardPosition::Inside(_, network)) => {
            direct(line, order, &Restriction::Namespaces(network.clone()), bytes, given)
        }
        (Some(_) | None, _) => direct(line, order, &Restriction::None, bytes, given),
    }
}

/// What a guard does to the program that it starts itself.
enum Restriction {
    None,
    /// Both stand in a cage already, which lacks a few things.
    Namespaces(InnerNetwork),
    Landlock(Cage),
}

fn take(mut line: &UnixStream, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    line.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Starts the program itself.
fn direct(
    line: &UnixStream,
    order: &Order<'_>,
    restriction: &Restriction,
    bytes: Vec<u8>,
    given: Given,
) -> io::Result<(How, usize)> {
    let mut command = Command::new(order.program);
    // A group of its own, so that a program that signals its group does not hit the guard.
    command.args(order.arguments).process_group(0);
    given.give(&mut command);
    command.stdin(order.input.stdio()?);
    if let Restriction::Namespaces(InnerNetwork::Proxied(ports)) = restriction {
        command.envs(way_out::open(line, ports)?);
    }
    let spawned = match restriction {
        Restriction::None => {
            let spawned = command.spawn();
            drop(command);
            spawned
        }
        Restriction::Namespaces(_) | Restriction::Landlock(_) => spawn_restricted(restriction, command),
    };
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) if lies_in_the_program(&error) => return Ok((How::NoProgram(why_no_program(&error)), 0)),
        Err(error) => return Err(error),
    };
    let main = Pid::from_raw(child.id().cast_signed());
    let feeding = child.stdin.take().map(|mut stdin| {
        // A program that does not want its input is no failure.
        thread(move || drop(stdin.write_all(&bytes))).map(drop)
    });
    let listening = Listening::begin(line, Asking::Signals(main), order.grace, main);
    let listening = match feeding.unwrap_or(Ok(())).and(listening) {
        Ok(listening) => listening,
        Err(error) => {
            clear();
            return Err(error);
        }
    };
    let status = wait_for(main);
    listening.program_has_ended();
    let left = clear();
    Ok((status, left))
}

/// Whether a program that could not be started cannot be started later either, unless somebody mends it.
fn lies_in_the_program(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    use rustix::io::Errno;
    matches!(code, Some(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::PERM | Errno::NOEXEC))
}

/// The same for people: the system's words alone do not tell what is wrong with a script.
fn why_no_program(error: &io::Error) -> String {
    use rustix::io::Errno;
    let advice = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOEXEC) => "; a script needs a first line like `#!/bin/sh`",
        Some(Errno::NOENT) => "; if it is a script, what its first line (`#!`) names is not there",
        Some(Errno::ACCESS) => "; if it is a script, `chmod +x` makes it executable",
        _ => "",
    };
    format!("{error}{advice}")
}

/// The rights are a thread's own: this one gives them up and starts the program, and the guard keeps its own.
#[cfg(target_os = "linux")]
fn spawn_restricted(restriction: &Restriction, mut command: Command) -> io::Result<Child> {
    let folder = std::env::current_dir()?;
    std::thread::scope(|scope| {
        let spawning = std::thread::Builder::new().spawn_scoped(scope, || {
            let restricted = match restriction {
                Restriction::None => Ok(()),
                Restriction::Namespaces(network) => landlock::complete_namespaces(network),
                Restriction::Landlock(cage) => landlock::restrict_this_thread(cage, &folder),
            };
            restricted.map_err(io::Error::other)?;
            command.spawn()
        })?;
        spawning.join().unwrap_or_else(|_| Err(io::Error::other("the cage could not be built")))
    })
}

/// Starts a second guard within a cage, which starts the program.
#[cfg(target_os = "linux")]
fn relay(
    line: &UnixStream,
    order: &Order<'_>,
    cage: &Cage,
    bytes: Vec<u8>,
    given: Given,
) -> io::Result<(How, usize)> {
    protect_devices()?;
    let (inner, theirs) = UnixStream::pair()?;
    let mut caged =
        bwrap::caged(cage, &std::env::current_dir()?, |file| order.for_inside(file, &cage.network))?;
    given.give(&mut caged.command);
    caged.command.stdin(Stdio::from(OwnedFd::from(theirs))).process_group(0);
    let child = caged.command.spawn()?;
    // Closes our copy of the inner end, so that the line ends when the cage does.
    drop(caged);
    let main = Pid::from_raw(child.id().cast_signed());
    let refusals = Arc::new(RefusalLine::new(line.try_clone()?));
    // A cage that does not come about needs no input, and a word before the input would be taken for a part of it.
    let asking = Asking::Words(inner.try_clone()?, bytes);
    let listening = Listening::begin(line, asking, order.grace + RELAYING, main);
    let served = listening.and_then(|listening| match &cage.network {
        Network::Hosts(hosts) => way_out::serve(&inner, hosts, &refusals).map(|said| (listening, said)),
        Network::On | Network::Off => Ok((listening, Vec::new())),
    });
    let (listening, mut report) = match served {
        Ok(served) => served,
        Err(error) => {
            clear();
            return Err(error);
        }
    };
    // That nothing can be read any more is as good as the end.
    let _ = BufReader::new(&inner).read_until(b'\n', &mut report);
    let report = String::from_utf8_lossy(&report);
    let status = wait_for(main);
    // Nothing within is left that could take our words.
    let _ = inner.shutdown(Shutdown::Both);
    listening.program_has_ended();
    let left = clear();
    drop(listening);
    refusals.close();
    let told = match (report.is_empty(), status) {
        (false, _) => read_report(&report),
        (true, How::Exited(code)) if code <= KILLED_INSIDE => {
            (How::NotStarted(format!("bwrap could not build the cage (exit code {code})")), left)
        }
        // The inner guard was killed from outside.
        (true, How::Exited(_)) => (How::Lost, left),
        (true, how) => (how, left),
    };
    Ok(told)
}

/// Once for all programs in cages of this kind: no guard builds cages of two kinds.
#[cfg(target_os = "linux")]
fn protect_devices() -> io::Result<()> {
    static ARE_PROTECTED: AtomicBool = AtomicBool::new(false);
    if mounts::can_mount() && !ARE_PROTECTED.load(Ordering::Acquire) {
        mounts::protect_devices()?;
        ARE_PROTECTED.store(true, Ordering::Release);
    }
    Ok(())
}

/// A system without room for a thread refuses the job; that is no fault of ours.
fn thread(work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().spawn(work)
}

/// A thread that does to one program what the supervisor says. Once this is dropped, it signals nobody any more.
struct Listening {
    line: UnixStream,
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    fn begin(line: &UnixStream, asking: Asking, grace: Duration, main: Option<Pid>) -> io::Result<Listening> {
        let (line, heard) = (line.try_clone()?, line.try_clone()?);
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&has_ended);
        let thread = Some(thread(move || obey(heard, &asking, grace, main, &ended))?);
        Ok(Listening { line, has_ended, thread })
    }

    fn program_has_ended(&self) {
        self.has_ended.store(true, Ordering::Release);
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.program_has_ended();
        let _ = self.line.shutdown(Shutdown::Read);
        // One that panicked has ended as well.
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

#[cfg(not(target_os = "linux"))]
fn spawn_restricted(_: &Restriction, _: Command) -> io::Result<Child> {
    Err(io::Error::other(CageError::NoLandlock))
}

#[cfg(not(target_os = "linux"))]
fn relay(_: &UnixStream, _: &Order<'_>, _: &Cage, _: Vec<u8>, _: Given) -> io::Result<(How, usize)> {
    Err(io::Error::other(CageError::NoBwrap))
}

#[cfg(target_os = "linux")]
pub(super) fn adopt() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(getpid()))?)
}

/// Elsewhere orphans go to the first process of the system; only those that stay in the program's group are found.
#[cfg(not(target_os = "linux"))]
pub(super) fn adopt() -> io::Result<()> {
    Ok(())
}

/// How the program is asked to end.
enum Asking {
    Signals(Option<Pid>),
    /// By a guard of its own, which gets its input first.
    Words(UnixStream, Vec<u8>),
}

/// Hears what the supervisor says; that it hangs up is its last word. Returns when the program has ended.
fn obey(mut line: UnixStream, asking: &Asking, grace: Duration, main: Option<Pid>, has_ended: &AtomicBool) {
    if let Asking::Words(inner, input) = asking {
        let _ = (&mut &*inner).write_all(input);
    }
    let mut word = [0];
    if matches!(line.read(&mut word), Ok(1)) && word[0] == END {
        match asking {
            Asking::Signals(main) => {
                signal_group(*main, Signal::TERM);
                signal_all(Signal::TERM);
                // What is stopped cannot end.
                signal_all(Signal::CONT);
            }
            Asking::Words(inner, _) => {
                // If it is gone already there is nobody to ask.
                let _ = (&mut &*inner).write_all(&[END]);
            }
        }
        // Whatever comes first, another word, the end of the line or the end of the grace: the rest is killed.
        let _ = line.set_read_timeout(Some(grace.max(Duration::from_millis(1))));
        let _ = line.read(&mut word);
    }
    while !has_ended.load(Ordering::Acquire) {
        signal_group(main, Signal::KILL);
        signal_all(Signal::KILL);
        std::thread::sleep(LONGEST_PAUSE);
    }
}

fn wait_for(main: Option<Pid>) -> How {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if Some(pid) == main => return ended(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return How::NotStarted(format!("it cannot be waited for: {error}")),
        }
    }
}

fn ended(status: WaitStatus) -> How {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => How::Exited(code),
        (None, Some(signal)) => How::Signalled(signal),
        (None, None) => How::Lost,
    }
}

/// Kills until no descendant is left. As their subreaper we are the parent of every orphan, so that having no child at
/// all means having no descendant. To look for them costs more than a moment, in which most end that were signalled before.
fn clear() -> usize {
    let mut killed = std::collections::HashSet::new();
    let mut pause = FIRST_PAUSE;
    while reap() {
        std::thread::sleep(pause);
        if reap() {
            killed.extend(signal_all(Signal::KILL));
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    killed.len()
}

/// Asks all that have ended how they did. Whether there are others.
fn reap() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Signals every living descendant, parents before their children.
fn signal_all(signal: Signal) -> Vec<Pid> {
    let found = descendants();
    for pid in &found {
        // One that has ended meanwhile needs no signal.
        let _ = kill_process(*pid, signal);
    }
    found
}

/// Where there is no `/proc` this is all that can be reached.
fn signal_group(main: Option<Pid>, signal: Signal) {
    if let Some(main) = main {
        // A group without anybody in it needs no signal.
        let _ = kill_process_group(main, signal);
    }
}

fn descendants() -> Vec<Pid> {
    listing::below(&[getpid().as_raw_nonzero().get()])
}

/// The reaper that would have done it is gone.
pub(super) fn kill_group(pid: i32) {
    signal_group(Pid::from_raw(pid), Signal::KILL);
}

fn write_report(how: &How, left: usize) -> String {
    match how {
        How::Exited(code) => format!("exit {code} {left}\n"),
        How::Signalled(signal) => format!("signal {signal} {left}\n"),
        How::NotStarted(why) => format!("not-started {}\n", why.replace(['\n', '\r'], " ")),
        How::NoProgram(why) => format!("no-program {}\n", why.replace(['\n', '\r'], " ")),
        How::OutOfTime | How::Silent | How::Killed | How::Lost => "lost\n".to_owned(),
    }
}

/// Ends a guard that does not answer, and what it guarded as far as it can still be told: by the session, which had the
/// guard's number, and by the mark in the environment.
pub(super) fn abandon(guard: &StartedProgram, mark: &str) {
    let session = guard.pid;
    // It may be gone already.
    guard.kill();
    let mark = format!("{MARK}={mark}").into_bytes();
    let (began, mut quiet) = (Instant::now(), 0);
    // Somebody may be born while we look, so that one look is not enough.
    while began.elapsed() < ABANDONED && quiet < 2 {
        let own = |process: &listing::Process| process.session == session || process.has_mark(&mark);
        let left: Vec<Pid> =
            listing::living().filter(own).filter_map(|process| Pid::from_raw(process.pid)).collect();
        quiet = if left.is_empty() { quiet + 1 } else { 0 };
        for pid in left {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(FIRST_PAUSE);
    }
}

pub(super) fn read_report(report: &str) -> (How, usize) {
    let (word, rest) = report.trim_end().split_once(' ').unwrap_or((report.trim_end(), ""));
    let mut numbers = rest.split(' ').map_while(|number| number.parse::<i32>().ok());
    let (code, left) = (numbers.next(), numbers.next().unwrap_or(0));
    let how = match (word, code) {
        ("exit", Some(code)) => How::Exited(code),
        ("signal", Some(signal)) => How::Signalled(signal),
        ("not-started", _) => How::NotStarted(rest.to_owned()),
        ("no-program", _) => How::NoProgram(rest.to_owned()),
        _ => How::Lost,
    };
    (how, usize::try_from(left).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_read_as_it_was_written() {
        let odd = Path::new(OsStr::from_bytes(b"/a \xff\nnone"));
        let inputs =
            [Input::None, Input::Bytes(vec![0; 12]), Input::File(odd.into()), Input::File("7".into())];
        for input in inputs {
            let word = input_word(&input);
            let read = Fed::read(&word).expect("it can be read");
            assert_eq!(read.word(), word, "{input:?}");
            match (&input, read) {
                (Input::None, Fed::Nothing) => {}
                (Input::Bytes(_), Fed::Line(12)) => {}
                (Input::File(path), Fed::File(other)) => assert_eq!(path, other),
                (Input::None | Input::Bytes(_) | Input::File(_), _) => panic!("{input:?} became another"),
            }
        }
        assert!(Fed::read(OsStr::new("a file")).is_none());
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        for (how, left) in [
            (How::Exited(0), 0),
            (How::Exited(255), 3),
            (How::Signalled(9), 1),
            (How::NotStarted("no room: x".into()), 0),
            (How::NoProgram("no such file: x".into()), 0),
            (How::Lost, 0),
        ] {
            assert_eq!(read_report(&write_report(&how, left)), (how, left));
        }
        assert_eq!(read_report(""), (How::Lost, 0));
        assert_eq!(read_report("exit"), (How::Lost, 0));
    }
}
