//! Which redirect is under way: that of a process, by a lock that ends with it, or that of a host's dialogue, by a note
//! that outlives its commands. Knows nothing of what is changed.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::plain_file;
use crate::store::error::FileError;
use crate::store::home::Home;
use crate::store::lock::Lock;

/// A host's note is ignored after this time, because the host must have died.
pub const HOLD_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// A longer note is not a host's.
const NOTE_BYTES: u64 = 4 << 10;

/// A description of who holds the redirect of this loop.
pub fn holder(home: &Home) -> Option<String> {
    Lock::Redirecting.holder(home).or_else(|| noted(home))
}

/// A host's dialogue begins.
pub fn note(home: &Home, who: &str) -> Result<(), FileError> {
    home.ready()?;
    let path = place(home);
    let who = who.replace('\n', " ");
    plain_file::write(&path, who.trim().as_bytes()).map_err(|e| FileError::of("write", &path, e))
}

/// A host's dialogue is over, if there was one.
pub fn forget(home: &Home) -> Result<(), FileError> {
    let path = place(home);
    match fs::remove_file(&path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(FileError::of("remove", &path, e)),
        _ => Ok(()),
    }
}

/// The host whose dialogue is under way.
pub fn noted(home: &Home) -> Option<String> {
    let path = place(home);
    let noted = fs::symlink_metadata(&path).and_then(|meta| meta.modified()).ok()?;
    let age = SystemTime::now().duration_since(noted).unwrap_or(Duration::ZERO);
    let who = String::from_utf8(plain_file::read(&path, NOTE_BYTES).ok()?).ok()?;
    (age < HOLD_LIMIT).then(|| if who.is_empty() { "a host".into() } else { who })
}

fn place(home: &Home) -> PathBuf {
    home.sidecar().join("redirect.held")
}
