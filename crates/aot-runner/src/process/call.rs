//! Runs a program that is asked something and ends by itself, like git: its answer is read whole, within limits. It and
//! all that it started die with us. Knows nothing of what is asked.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

use super::requests::{EarlyEnd, LaunchRequest};
use super::started::{ProgramExit, StartedProgram};
use super::{CHUNK, Guard};

/// How often a call looks whether the run was interrupted.
const LOOK: Duration = Duration::from_millis(50);

/// How long a killed program is waited for.
const KILLING: Duration = Duration::from_secs(5);

/// How long somebody whom the program left behind may hold its output open.
const DRAINING: Duration = Duration::from_millis(500);

#[derive(Clone, Debug)]
pub struct Call<'c> {
    pub program: &'c OsStr,
    pub arguments: &'c [OsString],
    pub folder: &'c Path,
    /// All of its variables.
    pub environment: Vec<(OsString, OsString)>,
    pub input: &'c [u8],
    pub limits: CallLimits,
}

#[derive(Clone, Copy, Debug)]
pub struct CallLimits {
    pub wall: Duration,
    /// Bytes of each of its streams.
    pub output: usize,
}

#[derive(Debug)]
pub struct Called {
    /// `None` if a signal ended it.
    pub code: Option<i32>,
    pub output: Vec<u8>,
    pub errors: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("it cannot be started")]
    NotStarted(#[source] io::Error),
    #[error("it took longer than {} s and was ended", .0.as_secs_f32())]
    OutOfTime(Duration),
    #[error("it was ended because the run was interrupted")]
    Interrupted,
    #[error("it printed more than {0} bytes and was ended")]
    TooMuch(usize),
    /// The reaper was killed from outside.
    #[error("it was killed from outside")]
    Lost,
}

/// The pipes to a program that runs; those that are done are closed.
struct CallStreams<'c> {
    output: Option<File>,
    errors: Option<File>,
    input: Option<(File, &'c [u8])>,
    called: Called,
    /// What is read goes through it.
    chunk: Vec<u8>,
}

impl Guard {
    pub fn call(&self, call: &Call<'_>) -> Result<Called, CallError> {
        let began = Instant::now();
        if self.switch.is_off() {
            return Err(CallError::Interrupted);
        }
        let (mut pipes, started) = self.begin(call).map_err(CallError::NotStarted)?;
        let mut report = Vec::new();
        let mut reported = None;
        let mut killed: Option<(Instant, CallError)> = None;
        loop {
            if reported.is_none()
                && killed.is_none()
                && let Some(cause) = self.cause_to_end(call, began, &pipes)
            {
                started.kill();
                killed = Some((Instant::now(), cause));
            }
            let gave_up = killed.as_ref().is_some_and(|(at, _)| at.elapsed() > KILLING);
            let drained = reported.is_some_and(|at: Instant| pipes.are_done() || at.elapsed() > DRAINING);
            if gave_up || drained {
                break;
            }
            let wait = call.limits.wall.saturating_sub(began.elapsed()).clamp(Duration::from_millis(1), LOOK);
            let heard = pipes.pass(&started, &mut report, wait).map_err(CallError::NotStarted)?;
            if heard == LineState::Ended && reported.is_none() {
                reported = Some(Instant::now());
            }
        }
        if let Some((_, cause)) = killed {
            if matches!(cause, CallError::Interrupted) {
                self.interrupt.found_one_that_hangs();
            }
            return Err(cause);
        }
        let CallStreams { called, .. } = pipes;
        match ProgramExit::read(&String::from_utf8_lossy(&report)) {
            ProgramExit::Code(code) => Ok(Called { code: Some(code), ..called }),
            ProgramExit::Signal(_) => Ok(called),
            ProgramExit::Unknown => {
                super::guard::kill_group(started.pid);
                Err(CallError::Lost)
            }
        }
    }

    fn begin<'c>(&self, call: &Call<'c>) -> io::Result<(CallStreams<'c>, StartedProgram)> {
        let (output, output_writer) = io::pipe()?;
        let (errors, errors_writer) = io::pipe()?;
        let (input, input_writer) = match call.input {
            [] => (OwnedFd::from(File::open("/dev/null")?), None),
            bytes => {
                let (reader, writer) = io::pipe()?;
                (OwnedFd::from(reader), Some((without_waiting(writer.into())?, bytes)))
            }
        };
        let launch = LaunchRequest {
            program: find(call.program, &call.environment)?,
            name: call.program.to_owned(),
            arguments: call.arguments.to_vec(),
            folder: call.folder.to_path_buf(),
            environment: call.environment.clone(),
            ending: EarlyEnd::Asked,
        };
        let started = self.reaper.start(&launch, [input, output_writer.into(), errors_writer.into()])?;
        started.line.set_nonblocking(true)?;
        let pipes = CallStreams {
            output: Some(without_waiting(output.into())?),
            errors: Some(without_waiting(errors.into())?),
            input: input_writer,
            called: Called { code: None, output: Vec::new(), errors: Vec::new() },
            chunk: vec![0; CHUNK],
        };
        Ok((pipes, started))
    }

    fn cause_to_end(&self, call: &Call<'_>, began: Instant, pipes: &CallStreams<'_>) -> Option<CallError> {
        let CallLimits { wall, output } = call.limits;
        let Called { output: printed, errors, .. } = &pipes.called;
        if printed.len() > output || errors.len() > output {
            return Some(CallError::TooMuch(output));
        }
        if began.elapsed() >= wall {
            return Some(CallError::OutOfTime(wall));
        }
        let is_over = self.interrupt.ends(began).is_some_and(|end| end <= Instant::now());
        (is_over || self.switch.is_off()).then_some(CallError::Interrupted)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineState {
    Open,
    /// The report is whole, or there will be none.
    Ended,
}

impl CallStreams<'_> {
    fn are_done(&self) -> bool {
        self.output.is_none() && self.errors.is_none()
    }

    /// Waits until something can be passed on, and passes it on.
    fn pass(
        &mut self,
        started: &StartedProgram,
        report: &mut Vec<u8>,
        wait: Duration,
    ) -> io::Result<LineState> {
        let mut ready = Vec::with_capacity(4);
        let readers = [self.output.as_ref(), self.errors.as_ref()];
        ready.extend(readers.into_iter().flatten().map(|file| PollFd::new(file, PollFlags::IN)));
        ready.extend(self.input.as_ref().map(|(file, _)| PollFd::new(file, PollFlags::OUT)));
        ready.push(PollFd::new(&started.line, PollFlags::IN));
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
        match poll(&mut ready, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        drop(ready);
        // None of these waits: what is not ready says so.
        let chunk = &mut self.chunk;
        take_in(&mut self.output, chunk, &mut self.called.output);
        take_in(&mut self.errors, chunk, &mut self.called.errors);
        if let Some((file, rest)) = &mut self.input {
            match file.write(rest) {
                Ok(count) => *rest = &rest[count..],
                Err(error) if is_for_later(&error) => {}
                // If it stops reading early, its exit code says why.
                Err(_) => *rest = &[],
            }
            if rest.is_empty() {
                self.input = None;
            }
        }
        let mut line = Some(&started.line);
        take_in(&mut line, &mut self.chunk, report);
        let whole = line.is_none() || report.ends_with(b"\n");
        Ok(if whole { LineState::Ended } else { LineState::Open })
    }
}

/// Reads what is there, a bounded part of it; what is at its end is closed.
fn take_in<R: Read>(from: &mut Option<R>, chunk: &mut [u8], into: &mut Vec<u8>) {
    let Some(reader) = from else { return };
    match reader.read(chunk) {
        Ok(0) => *from = None,
        Ok(count) => into.extend_from_slice(&chunk[..count]),
        Err(error) if is_for_later(&error) => {}
        Err(_) => *from = None,
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn without_waiting(pipe: OwnedFd) -> io::Result<File> {
    let flags = rustix::fs::fcntl_getfl(pipe.as_fd())?;
    rustix::fs::fcntl_setfl(pipe.as_fd(), flags | OFlags::NONBLOCK)?;
    Ok(File::from(pipe))
}

/// The program on the PATH that it is given; a name with a slash is a path already.
fn find(program: &OsStr, environment: &[(OsString, OsString)]) -> io::Result<PathBuf> {
    let name = Path::new(program);
    if name.components().count() > 1 {
        return Ok(name.to_path_buf());
    }
    let path = environment.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value);
    let folders = std::env::split_paths(path.map_or(OsStr::new("/usr/bin:/bin"), |path| path));
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    let mut found = folders.map(|folder| folder.join(name)).filter(is_program);
    found.next().ok_or_else(|| ErrorKind::NotFound.into())
}
