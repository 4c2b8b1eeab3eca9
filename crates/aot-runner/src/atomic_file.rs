//! Writes a file so that every reader sees the whole old content or the whole new one. Knows nothing of the content.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// The ending of a file that is being written. One that a killed process left can be removed.
pub const UNFINISHED: &str = ".part";

/// Whether the new content survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It is on disk when the call returns.
    Synced,
    /// It may be lost, because it can be made again.
    Unsynced,
}

/// Replaces the file at `path`, or makes it. A symbolic link at `path` is replaced and never followed.
pub fn write(path: &Path, parts: &[&[u8]], durability: Durability) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut prefix = name.to_os_string();
    prefix.push("-");
    let mut file = tempfile::Builder::new().prefix(&prefix).suffix(UNFINISHED).tempfile_in(folder)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    if durability == Durability::Synced {
        file.as_file().sync_all()?;
    }
    file.persist(path)?;
    if durability == Durability::Synced {
        // File systems on which a folder cannot be synced order renames by themselves, or not at all.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
    Ok(())
}
