//! Intents: what is about to be done to files, on disk before the first change and removed after the last, so that the
//! next run can finish or undo it. Knows no git.

use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::GroundError;
use crate::atomic_file::{self, Durability};
use crate::plain_file;

/// An attempt in place, and the project before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InPlaceIntent {
    /// The commit in the shadow repository to go back to.
    pub before: String,
    #[serde(rename = "loop")]
    pub loop_id: String,
    pub atom: String,
    pub attempt: u32,
    /// Whether the project's folder had a `.git`. One that appears during the attempt is a worker's.
    #[serde(default = "yes")]
    pub had_git: bool,
}

fn yes() -> bool {
    true
}

/// A longer one is not ours.
const INTENT_BYTES: u64 = 1 << 20;

/// Writes it durably.
pub(super) fn write(path: &Path, note: &impl Serialize) -> Result<(), GroundError> {
    let text = serde_json::to_vec(note).expect("a note is plain text and numbers");
    atomic_file::write(path, &[&text], Durability::Synced).map_err(GroundError::io("write", path))
}

/// `None` if there is none, or if it was never written completely. One that cannot be read is an error: what it says has
/// to be done before anything else.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, GroundError> {
    let unread = |error: std::io::Error| GroundError::io("read", path)(error);
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.is_file() => Ok(None),
        Ok(_) => Ok(serde_json::from_slice(&plain_file::read(path, INTENT_BYTES).map_err(unread)?).ok()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unread(error)),
    }
}

/// Removes the locks that killed commands left below a folder of references that are ours alone.
pub(super) fn remove_locks(folder: &Path) -> Result<(), GroundError> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "lock") {
                remove(&path)?;
            }
        }
    }
    Ok(())
}

pub(super) fn remove(path: &Path) -> Result<(), GroundError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(GroundError::io("remove", path)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
