//! What differs between operating systems. Knows paths and files, not what they are for.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::plain_file;
use crate::store::error::FileError;
use crate::store::text::{QUIET, Stamp};

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(crate) fn exchange(a: &Path, b: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE)?)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(crate) fn exchange(_a: &Path, _b: &Path) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

pub(super) fn cannot_exchange(error: &io::Error) -> bool {
    // A file system without the flag answers EINVAL.
    matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput)
}

/// An empty file that only its owner may read.
pub(super) fn create_private(path: &Path) -> io::Result<File> {
    plain_file::open(path, private().truncate(true))
}

/// The same, with whatever is in it.
pub(super) fn open_private(path: &Path) -> io::Result<File> {
    plain_file::open(path, private().truncate(false))
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Gives the new file the old one's owner and mode.
#[cfg(unix)]
pub(super) fn take_after(file: &File, like: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let now = file.metadata()?;
    if (now.uid(), now.gid()) != (like.uid(), like.gid()) {
        // Only root may change the owner; for other users the file becomes theirs, as with any editor.
        let _ = fchown(file, Some(like.uid()), Some(like.gid()))
            .or_else(|_| fchown(file, None, Some(like.gid())));
    }
    file.set_permissions(like.permissions())
}

#[cfg(not(unix))]
pub(super) fn take_after(file: &File, like: &fs::Metadata) -> io::Result<()> {
    file.set_permissions(like.permissions())
}

/// Replacing a file does not need the right to write it, but a user who made it read-only meant it.
#[cfg(unix)]
pub(super) fn writable(state: &Path, _like: &fs::Metadata) -> Result<(), FileError> {
    use rustix::fs::{Access, access};
    access(state, Access::WRITE_OK).map_err(|e| FileError::of("write", state, e.into()))
}

#[cfg(not(unix))]
pub(super) fn writable(state: &Path, like: &fs::Metadata) -> Result<(), FileError> {
    match like.permissions().readonly() {
        true => Err(FileError::of("write", state, ErrorKind::PermissionDenied.into())),
        false => Ok(()),
    }
}

#[cfg(unix)]
pub(super) fn same_device(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    matches!((fs::metadata(a), fs::metadata(b)), (Ok(a), Ok(b)) if a.dev() == b.dev())
}

#[cfg(not(unix))]
pub(super) fn same_device(_a: &Path, _b: &Path) -> bool {
    true
}

#[cfg(unix)]
pub(super) fn same_file(a: &Stamp, b: &Stamp) -> bool {
    (a.dev, a.ino) == (b.dev, b.ino)
}

/// Without inode numbers a link cannot be distinguished from a copy.
#[cfg(not(unix))]
pub(super) fn same_file(a: &Stamp, b: &Stamp) -> bool {
    a == b
}

#[cfg(unix)]
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Folders cannot be synced there.
#[cfg(not(unix))]
pub(super) fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// Whether the open file is the one that is found at the path.
#[cfg(unix)]
pub(super) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    Ok(same_file(&Stamp::from(&file.metadata()?), &Stamp::from(&fs::metadata(path)?)))
}

/// An open file cannot be deleted there, so it is enough that one is there.
#[cfg(not(unix))]
pub(super) fn is_at(_file: &File, path: &Path) -> io::Result<bool> {
    path.try_exists()
}

/// A file in one state: whatever is written into it, and whoever moves it, makes this another, unless within the same tick of
/// the file system's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileMoment {
    number: u64,
    pub size: u64,
    written: i128,
    touched: i128,
}

impl FileMoment {
    /// Whether the clock has ticked since it was touched.
    pub fn is_settled(&self) -> bool {
        !self.was_touched_within(QUIET)
    }

    /// Whether it was moved or written within this time.
    pub fn was_touched_within(&self, age: Duration) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        now.as_nanos() as i128 - self.touched < age.as_nanos() as i128
    }

    /// Whether it was moved well after it was last written: a write since would have made both times the same.
    pub fn is_unwritten_since_moved(&self) -> bool {
        self.touched - self.written > QUIET.as_nanos() as i128
    }
}

#[cfg(unix)]
impl FileMoment {
    pub fn of(path: &Path) -> Option<FileMoment> {
        use std::os::unix::fs::MetadataExt;
        let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        let found = fs::symlink_metadata(path).ok()?;
        Some(FileMoment {
            number: found.ino(),
            size: found.size(),
            written: nanoseconds(found.mtime(), found.mtime_nsec()),
            touched: nanoseconds(found.ctime(), found.ctime_nsec()),
        })
    }
}

/// Unknown on this system.
#[cfg(not(unix))]
impl FileMoment {
    pub fn of(_path: &Path) -> Option<FileMoment> {
        None
    }
}
