//! One lock for the processes that cooperate. Knows nothing of the text that it guards.
//!
//! The lock is the system's own on a sidecar file, so it ends with its process however that ends. Programs that know
//! nothing of it (editors) are not kept out; `replace` sees to them.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::plain_file;
use crate::store::error::FileError;
use crate::store::home::Home;
use crate::store::system::is_at;

/// How long a process waits for the others before it gives up.
pub const LOCK_WAIT: Duration = Duration::from_secs(10);

/// The longest pause between two tries; a waiter is late by at most this much.
const LONGEST_PAUSE: Duration = Duration::from_millis(4);
const SHORTEST_PAUSE: Duration = Duration::from_micros(100);

/// How much of the holder's note is read.
const NOTE_BYTES: u64 = 200;

/// The lock is held until this is dropped. A function that takes a `&Held` writes in the sidecar folder.
#[derive(Debug)]
pub struct Held {
    file: File,
    path: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("the lock {path} was not free within {} s; it is held by {holder}", waited.as_secs_f32())]
    Busy { path: PathBuf, waited: Duration, holder: String },
    #[error("the lock {path} was deleted while it was held")]
    Lost { path: PathBuf },
    #[error("the file system of {path} has no locks")]
    Unsupported { path: PathBuf, source: io::Error },
}

impl LockError {
    pub fn hint(&self) -> String {
        match self {
            LockError::Busy { .. } => {
                "wait for that process, or end it if it hangs; the lock ends with its process".into()
            }
            LockError::Lost { .. } => "repeat; delete the folder `aot` only when nothing runs".into(),
            LockError::Unsupported { .. } => "keep the state file on a local disk".into(),
        }
    }
}

/// What a lock is for; each has a file of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Held while the state file is written.
    Writing,
    /// Held by the process that drives the loop.
    Driving,
    /// Held by a process that redirects the loop.
    Redirecting,
    /// Held by a driver that has interrupted everything for a redirect, until it goes on.
    Standing,
    /// Held during one step of a host's session.
    Stepping,
}

impl Lock {
    fn path(self, home: &Home) -> PathBuf {
        home.sidecar().join(match self {
            Lock::Writing => "lock",
            Lock::Driving => "driver.lock",
            Lock::Redirecting => "redirect.lock",
            Lock::Standing => "standing.lock",
            Lock::Stepping => "step.lock",
        })
    }

    /// Whether the process that took it last still runs. A child between fork and exec may hold the lock a moment longer
    /// than that process.
    #[cfg(unix)]
    pub fn taker_lives(self, home: &Home) -> bool {
        let pid = self.taker(home).and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
        pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
    }

    /// The process that took it last.
    fn taker(self, home: &Home) -> Option<u32> {
        note_in(&self.path(home)).ok()?.split(' ').next()?.parse().ok()
    }

    /// The process that holds it, if one does and left its number.
    pub fn holder_pid(self, home: &Home) -> Option<u32> {
        self.holder(home).and_then(|_| self.taker(home))
    }

    /// A description of the process that holds it, if one does.
    pub fn holder(self, home: &Home) -> Option<String> {
        let path = self.path(home);
        let file = plain_file::open_to_read(&path).ok()?;
        match file.try_lock_shared() {
            Ok(()) => None,
            Err(TryLockError::WouldBlock) => Some(holder(&path)),
            // On a file system without locks, no process holds one.
            Err(TryLockError::Error(_)) => None,
        }
    }
}

impl Held {
    /// Waits for the writer's lock for at most `wait`. Other waiting processes can report `purpose`.
    pub fn take(home: &Home, purpose: &str, wait: Duration) -> Result<Held, FileError> {
        Held::take_the(Lock::Writing, home, purpose, wait)
    }

    pub fn take_the(lock: Lock, home: &Home, purpose: &str, wait: Duration) -> Result<Held, FileError> {
        home.ready()?;
        let path = lock.path(home);
        let began = Instant::now();
        let mut pause = SHORTEST_PAUSE;
        loop {
            if let Some(held) = try_take(home, &path)? {
                held.note(purpose);
                return Ok(held);
            }
            if began.elapsed() >= wait {
                let holder = holder(&path);
                return Err(LockError::Busy { path, waited: wait, holder }.into());
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Whether the lock file is still at its path. After the sidecar folder was deleted the next process locks a new file,
    /// and two processes would hold the lock.
    pub(super) fn is_whole(&self) -> bool {
        is_at(&self.file, &self.path).unwrap_or(false)
    }

    /// The open file that holds the lock; a copy of it holds the lock as well.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes into the lock file which process holds it, and for what.
    fn note(&self, purpose: &str) {
        let mut file = &self.file;
        let note = format!("{} {}\n", std::process::id(), purpose.replace('\n', " "));
        // A courtesy only: without the note (a full disk) the lock holds as well.
        let _ = file
            .set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| file.write_all(note.as_bytes()));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Explicit, because a child between fork and exec holds a copy of the descriptor for a moment. If it fails,
        // closing the file unlocks it.
        let _ = self.file.unlock();
    }
}

/// Waits for the lock of a file that is no [`Lock`] of ours, for at most so long.
pub fn lock_within(file: &File, wait: Duration) -> io::Result<()> {
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if began.elapsed() < wait => std::thread::sleep(LONGEST_PAUSE),
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::TimedOut.into()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

fn try_take(home: &Home, path: &Path) -> Result<Option<Held>, FileError> {
    let mut options = OpenOptions::new();
    let file = plain_file::open(path, options.read(true).write(true).create(true).truncate(false));
    let file = match file {
        Ok(file) => file,
        // The folder was deleted a moment ago; the next try makes it again.
        Err(e) if e.kind() == io::ErrorKind::NotFound && home.ready().is_ok() => return Ok(None),
        Err(e) => return Err(FileError::of("open the lock", path, e)),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => {
            return Err(LockError::Unsupported { path: path.to_path_buf(), source: e }.into());
        }
        Err(TryLockError::Error(e)) => return Err(FileError::of("lock", path, e)),
    }
    let held = Held { file, path: path.to_path_buf() };
    Ok(held.is_whole().then_some(held))
}

fn holder(path: &Path) -> String {
    let note = note_in(path).unwrap_or_default();
    match note.trim().split_once(' ') {
        Some((pid, purpose)) if pid == std::process::id().to_string() => {
            format!("this very process, pid {pid} ({purpose})")
        }
        Some((pid, purpose)) => format!("pid {pid} ({purpose})"),
        None => "a process that left no note".into(),
    }
}

fn note_in(path: &Path) -> io::Result<String> {
    let mut note = String::new();
    plain_file::open_to_read(path)?.take(NOTE_BYTES).read_to_string(&mut note)?;
    Ok(note)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(dir: &tempfile::TempDir) -> Home {
        Home::of(&dir.path().join("aot-loop-state.md")).expect("a home")
    }

    #[test]
    fn a_timeout_names_the_holder_and_its_purpose() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let held = Held::take(&home(&dir), "to test\nthe lock", LOCK_WAIT).expect("free");
        let error = Held::take(&home(&dir), "", Duration::from_millis(20)).expect_err("it is held");
        let message = error.to_string();
        assert!(message.contains(&format!("pid {} (to test the lock)", std::process::id())), "{message}");
        drop(held);
        Held::take(&home(&dir), "again", Duration::ZERO).expect("free again");
    }

    #[cfg(unix)]
    #[test]
    fn a_deleted_sidecar_is_noticed_by_its_holder_and_made_again_by_the_next() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let held = Held::take(&home(&dir), "first", LOCK_WAIT).expect("free");
        assert!(held.is_whole());
        std::fs::remove_dir_all(home(&dir).sidecar()).expect("deleted");
        assert!(!held.is_whole());
        assert!(Held::take(&home(&dir), "second", LOCK_WAIT).expect("a new lock").is_whole());
    }
}
