//! Errors of the state file and its folder. A message names the thing and the path, `hint` the remedy.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::plain_file::WrongKind;
use crate::store::lock::LockError;

/// A failure of the file system, worded for users of the state file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("there is no state file at {path}")]
    Missing { path: PathBuf },
    #[error("{path} is {what}, not a file")]
    NotAFile { path: PathBuf, what: &'static str },
    #[error("{path} is a link that leads out of the project, to {to}")]
    LeavesProject { path: PathBuf, to: PathBuf },
    #[error("{path} came with the project: it was not made on this machine")]
    NotMadeHere { path: PathBuf },
    #[error("{path} is in use by another user, or by another home folder")]
    UsedByAnother { path: PathBuf },
    #[error("{path} leads through more than {limit} symbolic links")]
    LinksInCircle { path: PathBuf, limit: usize },
    #[error("the text of {path} has {size} bytes, and the limit is {limit}")]
    TooLarge { path: PathBuf, size: u64, limit: u64 },
    #[error("{path} exists already")]
    Exists { path: PathBuf },
    #[error("no permission to {doing} {path}")]
    Denied { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("no room left to {doing} {path}")]
    Full { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot {doing} {path}: its file system is mounted read-only")]
    ReadOnly { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot {doing} {path}: it is a mount point of its own")]
    Pinned { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("{path} was saved by another program {rounds} times in a row while it was being changed")]
    Contended { path: PathBuf, rounds: usize },
    #[error("{count} conflicts are kept in {path}")]
    TooManyConflicts { path: PathBuf, count: usize },
    #[error("{count} backups are kept in {path}")]
    TooManyBackups { path: PathBuf, count: usize },
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("cannot {doing} {path}")]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
}

impl FileError {
    /// Classifies an error of the system by what the user can do about it.
    pub(super) fn of(doing: &'static str, path: &Path, source: io::Error) -> FileError {
        let path = path.to_path_buf();
        if let Some(WrongKind(what)) = source.get_ref().and_then(|inner| inner.downcast_ref()) {
            return FileError::NotAFile { path, what };
        }
        match source.kind() {
            ErrorKind::PermissionDenied => FileError::Denied { doing, path, source },
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                FileError::Full { doing, path, source }
            }
            ErrorKind::ReadOnlyFilesystem => FileError::ReadOnly { doing, path, source },
            ErrorKind::ResourceBusy | ErrorKind::CrossesDevices => FileError::Pinned { doing, path, source },
            _ => FileError::Io { doing, path, source },
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> String {
        match self {
            FileError::Missing { .. } => "start with: aot run \"GOAL\" --check \"COMMAND\" (or `aot align`); `--state PATH` names another file".into(),
            FileError::NotAFile { path, .. } => {
                format!("move {} away, or name another state file with `--state PATH`", path.display())
            }
            FileError::LeavesProject { .. } => {
                "replace the link by a file, or name the file that it leads to with `--state PATH`".into()
            }
            FileError::NotMadeHere { path } => format!("move {} away; nothing in it counts here", path.display()),
            FileError::UsedByAnother { .. } => {
                "wait until that loop ends, or run with the home folder that it was started with".into()
            }
            FileError::LinksInCircle { .. } => "point the symbolic link at a file".into(),
            FileError::TooLarge { .. } => "shorten its body; logs and outputs belong elsewhere".into(),
            FileError::Exists { .. } => "`aot redirect` changes it; `--force` begins another loop and keeps this one as a backup".into(),
            FileError::Denied { path, .. } => {
                format!("look at `ls -ld` of {} and of its folder, and give yourself the right", path.display())
            }
            FileError::Full { .. } => {
                "free some space (disk, quota or file size limit) and repeat; the state is as it was".into()
            }
            FileError::ReadOnly { .. } => {
                "mount it writable, or move the project to where it can be written".into()
            }
            FileError::Pinned { .. } => "mount the folder that holds the file instead of the file".into(),
            FileError::Contended { .. } => {
                "close or pause the program that keeps saving it, and repeat; the state is as it was left by it".into()
            }
            FileError::TooManyConflicts { .. } => {
                "look at them, carry over what is missing, and delete those that are settled".into()
            }
            FileError::TooManyBackups { .. } => "look at them, and delete those that are not needed".into(),
            FileError::Lock(lock) => lock.hint(),
            FileError::Io { .. } => "see the cause; the state is the old or the new one, whole".into(),
        }
    }
}
