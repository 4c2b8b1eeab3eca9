//! A note of what is about to be done to files, written before the first touch and gone after the last, so that the
//! next run can finish or undo it. Knows no git.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::GroundError;

/// A landing: the user's checkout is brought from one commit to another, and then the branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Intended {
    pub reference: String,
    pub old: String,
    pub new: String,
    #[serde(rename = "loop")]
    pub loop_id: String,
    pub atom: String,
    pub attempt: u32,
}

/// Work in place: what the project was before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UnderWay {
    /// The commit in the shadow repository to go back to.
    pub before: String,
    #[serde(rename = "loop")]
    pub loop_id: String,
    pub atom: String,
    pub attempt: u32,
}

/// On the disk before it returns.
pub(super) fn write(path: &Path, note: &impl Serialize) -> Result<(), GroundError> {
    let text = serde_json::to_vec(note).expect("a note is plain text and numbers");
    let aside = path.with_extension("new");
    let written = File::create(&aside).and_then(|mut file| {
        file.write_all(&text)?;
        file.sync_all()
    });
    written.map_err(GroundError::io("write", &aside))?;
    fs::rename(&aside, path).map_err(GroundError::io("write", path))?;
    sync_folder(path);
    Ok(())
}

/// `None` if there is none, or one that nobody can read: it was never whole.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

pub(super) fn remove(path: &Path) -> Result<(), GroundError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(GroundError::io("remove", path)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Where a folder cannot be synced, the file system keeps the order by itself or not at all.
fn sync_folder(path: &Path) {
    let _ = path.parent().map(|folder| File::open(folder).and_then(|folder| folder.sync_all()));
}
