//! A text as it was read: bytes, content hash, and the identity of the file that held it. Writes nothing.

use std::fs::{self, Metadata};
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, SystemTime};

use blake3::Hash;

use crate::plain_file::{self, WrongKind};
use crate::store::error::FileError;

/// How long a file must have been left alone before its text counts as wholly saved, and before an equal stamp counts
/// as an equal text: longer than the coarsest clock of the usual file systems (10 ms).
pub(super) const QUIET: Duration = Duration::from_millis(25);

/// How often a text that changes while it is being read is read again.
const READS: usize = 5;

/// The bytes of a file at one moment.
#[derive(Debug, Clone)]
pub struct Text {
    pub bytes: Vec<u8>,
    pub hash: Hash,
    pub stamp: Stamp,
    /// The text may have changed since without a change of the stamp: it was written just before it was read.
    fresh: bool,
}

/// Which file it was, and in which state: cheap to compare, and different whenever the text is, unless it was written
/// within the same tick of the file system's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub dev: u64,
    pub ino: u64,
    pub size: u64,
    pub mtime_ns: i128,
}

impl Text {
    /// Reads a whole file of at most `limit` bytes.
    pub(super) fn read(path: &Path, limit: u64) -> Result<Text, FileError> {
        let failed = |e| FileError::of("read", path, e);
        let mut tries = 0;
        loop {
            tries += 1;
            // Asked of the path before opening it, because opening a pipe would wait for its other end.
            let before = Stamp::of(path)?;
            if before.size > limit {
                return Err(FileError::TooLarge { path: path.to_path_buf(), size: before.size, limit });
            }
            let mut file = plain_file::open_to_read(path).map_err(failed)?;
            let mut bytes = Vec::with_capacity(before.size as usize + 1);
            (&mut file).take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
            let stamp = Stamp::from(&file.metadata().map_err(failed)?);
            if tries < READS && (stamp != before || stamp.size != bytes.len() as u64) {
                continue;
            }
            if bytes.len() as u64 > limit {
                return Err(FileError::TooLarge { path: path.to_path_buf(), size: stamp.size, limit });
            }
            let fresh = stamp.is_fresh(QUIET);
            return Ok(Text { hash: blake3::hash(&bytes), bytes, stamp, fresh });
        }
    }

    /// A text that was in the file, but is not known to be there now.
    pub(super) fn gone(bytes: Vec<u8>) -> Text {
        let stamp = Stamp { dev: 0, ino: 0, size: bytes.len() as u64, mtime_ns: 0 };
        Text { hash: blake3::hash(&bytes), bytes, stamp, fresh: true }
    }

    /// Whether it was written just before it was read.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Whether the file at `path` certainly still contains this text, decided without reading it.
    pub(super) fn is_surely_at(&self, path: &Path) -> bool {
        !self.fresh && Stamp::of(path).is_ok_and(|stamp| stamp == self.stamp)
    }
}

impl Stamp {
    /// The stamp of a regular file; anything else in its place is an error.
    pub fn of(path: &Path) -> Result<Stamp, FileError> {
        let found = fs::symlink_metadata(path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => FileError::Missing { path: path.to_path_buf() },
            _ => FileError::of("read", path, e),
        })?;
        match plain_file::wrong_kind(&found) {
            None => Ok(Stamp::from(&found)),
            Some(WrongKind(what)) => Err(FileError::NotAFile { path: path.to_path_buf(), what }),
        }
    }

    /// Whether the file was written within `age` from now; a file from the future may have been, too.
    pub(super) fn is_fresh(&self, age: Duration) -> bool {
        let now =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as i128;
        (now - self.mtime_ns).unsigned_abs() < age.as_nanos()
    }
}

impl From<&Metadata> for Stamp {
    #[cfg(unix)]
    fn from(found: &Metadata) -> Stamp {
        use std::os::unix::fs::MetadataExt;
        let mtime_ns = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        Stamp { dev: found.dev(), ino: found.ino(), size: found.size(), mtime_ns }
    }

    #[cfg(not(unix))]
    fn from(found: &Metadata) -> Stamp {
        let modified = found.modified().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        let mtime_ns = modified.map_or(0, |since| since.as_nanos() as i128);
        Stamp { dev: 0, ino: 0, size: found.len(), mtime_ns }
    }
}
