//! What this machine offers, found by trying: git, a shell, locks, the exchange of two files, room on the disk. Changes
//! nothing that stays, and judges nothing.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::process::{Call, CallError, CallLimits, Environment, Guard, How, Input, Job, Limits, Streams};

/// The first git that merges without a checkout.
pub const GIT_NEEDED: (u32, u32) = (2, 38);

/// A git or a shell that does not answer within this is none.
const ANSWER_TIME: Duration = Duration::from_secs(20);

/// Neither says more than this, in bytes.
const ANSWER_KEPT: usize = 1 << 10;

/// The version of git as it says it, and as two numbers.
pub fn git(guard: &Guard) -> Result<(String, (u32, u32)), String> {
    let called = guard.call(&Call {
        program: "git".as_ref(),
        arguments: &["--version".into()],
        folder: Path::new("/"),
        environment: std::env::vars_os().collect(),
        input: &[],
        limits: CallLimits { wall: ANSWER_TIME, output: ANSWER_KEPT },
    });
    let said = called.map_err(|error| match error {
        CallError::NotStarted(error) if error.kind() == io::ErrorKind::NotFound => {
            "there is none on the search path".to_owned()
        }
        CallError::NotStarted(error) => error.to_string(),
        error => error.to_string(),
    })?;
    let text = String::from_utf8_lossy(&said.output);
    let version = text.trim().trim_start_matches("git version ").to_owned();
    let mut numbers = version.split('.').map_while(|number| number.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => Ok((version, (major, minor))),
        _ => Err(format!("its version cannot be read from {:?}", text.trim())),
    }
}

/// Whether the shell runs a command.
pub fn shell(guard: &Guard, shell: &Path, folder: &Path) -> Result<(), String> {
    let ended = guard.run(&Job {
        program: shell.as_os_str().to_owned(),
        arguments: vec!["-c".into(), "echo here".into()],
        folder: folder.to_path_buf(),
        environment: Environment::OursAnd(Vec::new()),
        input: Input::None,
        streams: Streams::Apart,
        limits: Limits { wall: ANSWER_TIME, idle: None, grace: Duration::ZERO, head: ANSWER_KEPT, tail: 0 },
        cage: None,
    });
    match ended {
        Ok(ended) if ended.how == How::Exited(0) && ended.output.whole().as_deref() == Some(b"here\n") => {
            Ok(())
        }
        Ok(ended) => Err(format!("`{} -c 'echo here'` ended oddly: {:?}", shell.display(), ended.how)),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether a lock in this folder keeps a second one out.
pub fn locks(folder: &Path) -> Result<(), String> {
    let file = Passing::make(folder, "lock")?;
    let open = || File::open(&file.path).map_err(|error| error.to_string());
    let (first, second) = (open()?, open()?);
    first.try_lock().map_err(|error| error.to_string())?;
    match second.try_lock() {
        Err(TryLockError::WouldBlock) => Ok(()),
        Err(TryLockError::Error(error)) => Err(error.to_string()),
        Ok(()) => Err("two had the same lock at the same time".into()),
    }
}

/// Whether two files in this folder can change places in one step.
pub fn exchange(folder: &Path) -> Result<(), String> {
    let (one, two) = (Passing::make(folder, "one")?, Passing::make(folder, "two")?);
    crate::store::exchange(&one.path, &two.path).map_err(|error| error.to_string())?;
    match fs::read(&one.path) {
        Ok(text) if text == b"two" => Ok(()),
        Ok(_) => Err("the files did not change places".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Bytes that are left on the disk of this folder.
pub fn room(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// A file that is gone again.
struct Passing {
    path: PathBuf,
}

impl Passing {
    fn make(folder: &Path, name: &str) -> Result<Passing, String> {
        let path = folder.join(format!(".aot-doctor-{}-{name}", std::process::id()));
        fs::write(&path, name).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Passing { path })
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        // Nothing more can be done about it than to try.
        let _ = fs::remove_file(&self.path);
    }
}
