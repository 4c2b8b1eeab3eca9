//! Our side of the reaper: starts it when it is needed first, has it start programs, and hears how they end.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::reaper;
use super::requests::{self, LaunchRequest};

/// The reaper of this process. It ends with the last that it started and the last that could ask it.
#[derive(Debug)]
pub(super) struct Reaper {
    program: PathBuf,
    line: Mutex<Option<ReaperLine>>,
    /// What each reaper is to keep open.
    held: Mutex<Vec<OwnedFd>>,
}

#[derive(Debug)]
struct ReaperLine {
    control: UnixStream,
    process: Child,
}

/// A program that the reaper started. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct StartedProgram {
    pub line: UnixStream,
    pub pid: i32,
    /// The reaper ends what runs when nobody needs it any more.
    _reaper: Arc<Reaper>,
}

/// How a program that the reaper started ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramExit {
    Code(i32),
    Signal(i32),
    /// The reaper was killed, or does not answer.
    Unknown,
}

impl Reaper {
    pub fn new(program: PathBuf) -> Reaper {
        Reaper { program, line: Mutex::new(None), held: Mutex::default() }
    }

    pub fn start(
        self: &Arc<Self>,
        launch: &LaunchRequest,
        streams: [OwnedFd; 3],
    ) -> io::Result<StartedProgram> {
        let (ours, theirs) = UnixStream::pair()?;
        self.ask(|control| requests::send_start(control, launch, theirs.as_fd(), &streams))?;
        drop((theirs, streams));
        let mut said = String::new();
        // One word at a time is said, so that nothing is read that belongs to the next.
        BufReader::with_capacity(1, &ours).read_line(&mut said)?;
        let number = |word: &str| said.strip_prefix(word)?.trim_end().parse::<i32>().ok();
        if let Some(pid) = number("started ") {
            return Ok(StartedProgram { line: ours, pid, _reaper: Arc::clone(self) });
        }
        Err(match number("refused ") {
            Some(code) if code > 0 => io::Error::from_raw_os_error(code),
            Some(_) => io::Error::other("it cannot be started"),
            None => {
                io::Error::new(ErrorKind::ConnectionAborted, "the process that starts programs was killed")
            }
        })
    }

    /// Keeps a file open until everything that was started has ended, even if we are killed.
    pub fn hold(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        let file = file.try_clone_to_owned()?;
        self.ask(|control| requests::send_hold(control, file.as_fd()))?;
        locked(&self.held).push(file);
        Ok(())
    }

    /// A reaper that was killed is replaced.
    fn ask(&self, request: impl Fn(&UnixStream) -> io::Result<()>) -> io::Result<()> {
        let mut line = locked(&self.line);
        if let Some(there) = line.as_ref()
            && request(&there.control).is_ok()
        {
            return Ok(());
        }
        *line = None;
        let there = line.insert(ReaperLine::begin(&self.program)?);
        for file in locked(&self.held).iter() {
            requests::send_hold(&there.control, file.as_fd())?;
        }
        request(&there.control)
    }
}

/// A thread that panicked in between has left nothing half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ReaperLine {
    fn begin(program: &std::path::Path) -> io::Result<ReaperLine> {
        let (control, theirs) = UnixStream::pair()?;
        let process = Command::new(program)
            .arg0(reaper::NAME)
            .arg(reaper::WORD)
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| match error.kind() {
                // What is missing is not the program that was asked for.
                ErrorKind::NotFound => io::Error::other(format!("{} is gone", program.display())),
                _ => error,
            })?;
        Ok(ReaperLine { control, process })
    }
}

impl Drop for ReaperLine {
    fn drop(&mut self) {
        let _ = self.control.shutdown(Shutdown::Both);
        // It has nothing to do any more, or is dead.
        let _ = self.process.wait();
    }
}

impl StartedProgram {
    /// The program and all that it started.
    pub fn kill(&self) {
        // If the reaper is gone, whoever waits is told so.
        let _ = (&self.line).write_all(b"k");
    }

    /// Waits for its end, for so long at most.
    pub fn wait(&self, limit: Duration) -> ProgramExit {
        let mut said = String::new();
        let _ = self.line.set_read_timeout(Some(limit.max(Duration::from_millis(1))));
        match BufReader::new(&self.line).read_line(&mut said) {
            Ok(_) => ProgramExit::read(&said),
            Err(_) => ProgramExit::Unknown,
        }
    }
}

impl ProgramExit {
    pub fn read(report: &str) -> ProgramExit {
        let number = |word: &str| report.strip_prefix(word)?.trim_end().parse::<i32>().ok();
        match (number("exit "), number("signal ")) {
            (Some(code), _) => ProgramExit::Code(code),
            (None, Some(signal)) => ProgramExit::Signal(signal),
            (None, None) => ProgramExit::Unknown,
        }
    }
}
