//! Pairs of texts that could not be merged, each in a numbered folder until a person deletes it. Knows nothing of their
//! cause.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::store::error::FileError;
use crate::store::home::Home;
use crate::store::system::{create_private, sync_folder};

/// How many conflicts are kept before a person must look.
pub const CONFLICTS_KEPT: usize = 1_000;

/// Keeps two texts that cannot be merged.
pub(super) fn keep(home: &Home, ours: &[u8], theirs: &[u8]) -> Result<PathBuf, FileError> {
    home.ready()?;
    let folder = new_folder(home)?;
    let written = write_synced(&folder.join("ours.md"), ours)
        .and_then(|()| write_synced(&folder.join("theirs.md"), theirs))
        .and_then(|()| sync_folder(&folder).map_err(|e| FileError::of("sync the folder", &folder, e)));
    finished(folder, written)
}

/// Moves a file with a foreign text there. The file itself is moved, so that an editor that is still writing into it
/// writes there.
pub(super) fn move_in(home: &Home, ours: &[u8], theirs: &Path) -> Result<PathBuf, FileError> {
    let folder = new_folder(home)?;
    let kept = folder.join("theirs.md");
    let moved = write_synced(&folder.join("ours.md"), ours).and_then(|()| {
        // It may come from another file system.
        fs::rename(theirs, &kept)
            .or_else(|_| fs::copy(theirs, &kept).and_then(|_| fs::remove_file(theirs)))
            .map_err(|e| FileError::of("keep", theirs, e))
    });
    let folder = finished(folder, moved)?;
    sync_folder(&folder).map_err(|e| FileError::of("sync the folder", &folder, e))?;
    Ok(folder)
}

/// Half a conflict (a full disk) is removed; the texts are still where they were.
fn finished(folder: PathBuf, written: Result<(), FileError>) -> Result<PathBuf, FileError> {
    match written {
        Ok(()) => Ok(folder),
        Err(error) => {
            // What cannot be removed is an extra copy, no more.
            let _ = fs::remove_dir_all(&folder);
            Err(error)
        }
    }
}

/// The folders of the conflicts that are kept, oldest first.
pub(super) fn all(home: &Home) -> Vec<PathBuf> {
    let folder = home.conflicts();
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut numbers: Vec<u64> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.into_iter().map(|number| folder.join(number.to_string())).collect()
}

/// An empty folder with the next number.
fn new_folder(home: &Home) -> Result<PathBuf, FileError> {
    let parent = home.conflicts();
    let failed = |e| FileError::of("make the folder", &parent, e);
    home.ready()?;
    home.make_folder(&parent)?;
    let kept = all(home);
    if kept.len() >= CONFLICTS_KEPT {
        return Err(FileError::TooManyConflicts { path: parent, count: kept.len() });
    }
    let newest =
        kept.last().and_then(|folder| folder.file_name()?.to_str()?.parse::<u64>().ok()).unwrap_or(0);
    // Another process may keep a conflict at the same time; the one that makes the folder owns the number.
    for number in newest + 1..=newest + CONFLICTS_KEPT as u64 {
        match fs::create_dir(parent.join(number.to_string())) {
            Ok(()) => return Ok(parent.join(number.to_string())),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(failed(e)),
        }
    }
    Err(FileError::TooManyConflicts { path: parent, count: CONFLICTS_KEPT })
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let failed = |e| FileError::of("write", path, e);
    let mut file = create_private(path).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)
}
