//! Intents: what is about to be done to files, on disk before the first change and removed after the last, so that the
//! next run can finish or undo it. Knows no git.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::GroundError;

/// A landing moves the user's checkout from one commit to another, and then the branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LandingIntent {
    pub reference: String,
    pub old: String,
    pub new: String,
    #[serde(rename = "loop")]
    pub loop_id: String,
    pub atom: String,
    pub attempt: u32,
}

/// An attempt in place, and the project before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InPlaceIntent {
    /// The commit in the shadow repository to go back to.
    pub before: String,
    #[serde(rename = "loop")]
    pub loop_id: String,
    pub atom: String,
    pub attempt: u32,
}

/// Writes it durably.
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

/// `None` if there is none, or if it was never written completely.
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

/// File systems on which a folder cannot be synced order renames by themselves, or not at all.
fn sync_folder(path: &Path) {
    let _ = path.parent().map(|folder| File::open(folder).and_then(|folder| folder.sync_all()));
}
