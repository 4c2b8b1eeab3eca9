//! State files of earlier loops: numbered, and never overwritten. Reads none of them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::atomic_file::{self, Durability};
use crate::store::error::FileError;
use crate::store::home::Home;

/// More backups than this are refused, because a script must be starting loops by mistake.
pub const BACKUPS_KEPT: usize = 10_000;

/// The place of the next backup; the highest number is the newest.
pub(super) fn next(home: &Home) -> Result<PathBuf, FileError> {
    let folder = home.sidecar().join("backups");
    home.ready()?;
    home.make_folder(&folder)?;
    let listed = fs::read_dir(&folder).map_err(|e| FileError::of("list", &folder, e))?;
    let numbers = listed.flatten().filter_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.strip_suffix(".md")?.parse::<usize>().ok()
    });
    let number = numbers.max().unwrap_or(0) + 1;
    if number > BACKUPS_KEPT {
        return Err(FileError::TooManyBackups { path: folder, count: BACKUPS_KEPT });
    }
    Ok(folder.join(format!("{number}.md")))
}

/// Writes a text there durably, before it is replaced.
pub(super) fn keep(place: &Path, bytes: &[u8]) -> Result<(), FileError> {
    atomic_file::write(place, &[bytes], Durability::Synced).map_err(|e| FileError::of("write", place, e))
}
