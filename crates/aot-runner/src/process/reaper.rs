//! The reaper: a process of ours that is the parent of everything that we start, guards and git. Knows only processes.
//!
//! A program that its guard can no longer end, because both the guard and we were killed, becomes the reaper's child,
//! whatever it did to its session, its group or its environment: on Linux the reaper is the subreaper of all of them.
//! Whoever is its child without having been started by it is killed. When we are gone, everybody is.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, kill_process_group, waitid,
    waitpid,
};

use super::listing;
use super::requests::{self, EarlyEnd, LaunchRequest, ReaperRequest};

/// The first word on the command line of a reaper.
pub(super) const WORD: &str = "__reaper";

/// What it is called in lists of processes, so that whoever ends all that is called `aot` does not end it as well.
pub(super) const NAME: &str = "worker-reaper";

/// Who cannot be killed within this time keeps neither the reaper nor what it holds.
pub(super) const CLEARING: Duration = Duration::from_secs(10);

/// How long a program that is asked to end may live on: git removes its lock files and is gone.
const GRACE: Duration = Duration::from_millis(500);

/// How long a round of killing waits for the killed to be gone, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_micros(500);

/// So long whoever ends by itself is left alone. To look at what it started costs more, and most of all while it ends.
const MOMENT: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// Those whom we started and have not asked yet how they ended. Nobody is started, signalled or asked without it, so that
/// a number means the same process throughout.
#[derive(Debug, Default)]
struct Children(Mutex<HashMap<i32, EarlyEnd>>);

/// The line to the driver is standard input.
pub(super) fn run() -> ExitCode {
    // Ctrl-C is for the driver.
    let _ = rustix::process::setsid();
    name_itself();
    let adopted = super::guard::adopt();
    let Ok(control) = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return ExitCode::from(2);
    };
    if adopted.is_err() {
        return ExitCode::from(2);
    }
    let children = Arc::new(Children::default());
    let mut held = Vec::new();
    loop {
        match requests::receive(&control) {
            Ok(Some(ReaperRequest::Start { launch, line, streams })) => {
                children.start(&launch, line, streams)
            }
            Ok(Some(ReaperRequest::Hold(file))) => held.push(file),
            Ok(None) | Err(_) => break,
        }
    }
    children.end_all();
    drop(held);
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
fn name_itself() {
    let name = std::ffi::CString::new(NAME).expect("the name has no zero byte");
    // A name is a courtesy.
    let _ = rustix::thread::set_name(&name);
}

#[cfg(not(target_os = "linux"))]
fn name_itself() {}

impl Children {
    fn start(self: &Arc<Self>, launch: &LaunchRequest, line: UnixStream, streams: [OwnedFd; 3]) {
        let mut started = self.lock();
        let child = match spawn(launch, streams) {
            Ok(child) => child,
            Err(error) => {
                // If nobody hears it, the line ends with this.
                tell(&line, &format!("refused {}\n", error.raw_os_error().unwrap_or(0)));
                return;
            }
        };
        let pid = child.id().cast_signed();
        started.insert(pid, launch.ending);
        drop(started);
        let heard = tell(&line, &format!("started {pid}\n"));
        let line = Arc::new(line);
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let (children, listening) = (Arc::clone(self), Arc::clone(&line));
        let listens = thread("listen").spawn(move || children.listen(pid, &listening)).is_ok();
        let (children, telling) = (Arc::clone(self), Arc::clone(&line));
        let waits = thread("wait").spawn(move || children.wait(child, &telling)).is_ok();
        if !(heard && listens && waits) {
            // Nobody knows of it, or it cannot be watched over. Without a report it counts as lost.
            self.lock().insert(pid, EarlyEnd::Killed);
            self.end(pid, Instant::now());
            let _ = line.shutdown(Shutdown::Both);
        }
    }

    /// Whatever is said on the line, and that it ends, means: kill it, and all that it started.
    fn listen(&self, pid: i32, mut line: &UnixStream) {
        // Without a word its driver has no use for it any more, and then a guard ends by itself.
        if !matches!(line.read(&mut [0]), Ok(1..)) {
            std::thread::sleep(MOMENT);
        }
        let (asked, mut pause) = (Instant::now(), FIRST_PAUSE);
        while self.end(pid, asked) {
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Reports how it ended. One that was killed may have left others, who are our children now.
    fn wait(&self, mut child: Child, line: &UnixStream) {
        let pid = child.id().cast_signed();
        let id = Pid::from_raw(pid).expect("a child has a number");
        while let Err(rustix::io::Errno::INTR) =
            waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        {}
        let mut started = self.lock();
        let status = child.wait();
        started.remove(&pid);
        drop(started);
        let report = match status.ok().map(|status| (status.code(), ended_by(status))) {
            Some((Some(code), _)) => format!("exit {code}\n"),
            Some((None, Some(signal))) => {
                self.sweep();
                format!("signal {signal}\n")
            }
            Some((None, None)) | None => String::new(),
        };
        tell(line, &report);
        // Nobody listens to it any more.
        let _ = line.shutdown(Shutdown::Both);
    }

    /// Asks or kills it, depending on how long ago its end was asked for. `false` if it has ended.
    fn end(&self, pid: i32, asked: Instant) -> bool {
        let started = self.lock();
        let Some(ending) = started.get(&pid) else { return false };
        match ending {
            EarlyEnd::Asked if asked.elapsed() < GRACE => {
                let group = Pid::from_raw(pid).expect("a child has a number");
                let _ = kill_process_group(group, Signal::TERM);
            }
            EarlyEnd::Asked | EarlyEnd::Killed => kill_trees(&[pid]),
        }
        true
    }

    /// Kills those whom we did not start, until there is none.
    fn sweep(&self) {
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        while self.kill_adopted() && began.elapsed() < CLEARING {
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// `false` if there are none.
    fn kill_adopted(&self) -> bool {
        let started = self.lock();
        let own = getpid().as_raw_nonzero().get();
        let is_adopted =
            |process: &listing::Process| process.parent == own && !started.contains_key(&process.pid);
        // Our first thread starts them all, and orphans are given to it.
        let processes: Vec<_> = match listing::children_of_main_thread(own) {
            Some(children) => children.into_iter().filter_map(listing::of).collect(),
            None => listing::all().collect(),
        };
        let (ended, living): (Vec<_>, Vec<_>) =
            processes.into_iter().filter(is_adopted).partition(|process| process.is_zombie);
        for process in ended {
            // Should it be gone already, so much the better.
            let _ = waitpid(Pid::from_raw(process.pid), WaitOptions::NOHANG);
        }
        let living: Vec<i32> = living.iter().map(|process| process.pid).collect();
        kill_trees(&living);
        !living.is_empty()
    }

    /// The driver is gone: everybody goes. Guards without a program end by themselves, if they are given a moment.
    fn end_all(&self) {
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            let started: Vec<i32> = self.lock().keys().copied().collect();
            if began.elapsed() > MOMENT {
                for pid in &started {
                    self.end(*pid, began);
                }
            }
            let adopted = self.kill_adopted();
            if (started.is_empty() && !adopted) || began.elapsed() > CLEARING {
                return;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// A thread that panicked in between has left nothing half done.
    fn lock(&self) -> MutexGuard<'_, HashMap<i32, EarlyEnd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parents before their children, so that nobody is missed who could start another.
fn kill_trees(roots: &[i32]) {
    if roots.is_empty() {
        return;
    }
    for pid in roots.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        // One that has ended meanwhile needs no signal, and not everybody leads a group.
        let _ = kill_process(pid, Signal::KILL);
        let _ = kill_process_group(pid, Signal::KILL);
    }
    for pid in listing::below(roots) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn spawn(launch: &LaunchRequest, [input, output, errors]: [OwnedFd; 3]) -> io::Result<Child> {
    Command::new(&launch.program)
        .arg0(&launch.name)
        .args(&launch.arguments)
        .current_dir(&launch.folder)
        .env_clear()
        .envs(launch.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .stderr(Stdio::from(errors))
        .process_group(0)
        .spawn()
}

fn ended_by(status: std::process::ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

/// `false` if nobody is there to hear it.
fn tell(mut line: &UnixStream, report: &str) -> bool {
    line.write_all(report.as_bytes()).is_ok()
}
