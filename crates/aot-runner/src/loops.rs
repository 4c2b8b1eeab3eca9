//! The loops that this user has driven on this machine: an entry for each state file, in the user's folder for what is kept
//! about projects. Nothing that comes with a clone can write there. Without the entries nothing is lost but the list (D32).

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::atomic_file::{self, Durability, UNFINISHED};
use crate::machine;
use crate::plain_file;

const FOLDER: &str = "loops";

/// A longer entry is none of ours.
const MOST_BYTES: u64 = 1 << 16;

/// So many are listed.
const MOST: usize = 1_000;

const HASH_CHARS: usize = 32;

/// A loop that was driven here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownLoop {
    pub state: PathBuf,
    /// When it was taken up last.
    pub driven: Timestamp,
}

/// Remembers that this loop is driven from now on. It is a courtesy: a loop runs without it.
pub fn remember(state: &Path) {
    let Some(folder) = folder() else { return };
    let name = &blake3::hash(state.as_os_str().as_encoded_bytes()).to_hex()[..HASH_CHARS];
    let entry = KnownLoop { state: state.to_path_buf(), driven: Timestamp::now() };
    let _ = write(&folder, name, &entry);
}

fn write(folder: &Path, name: &str, entry: &KnownLoop) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let text = serde_json::to_vec(entry)?;
    atomic_file::write(&folder.join(format!("{name}.json")), &[&text], Durability::Unsynced)
}

/// All of them whose state file is there; the entries of others are removed.
pub fn all() -> Vec<KnownLoop> {
    folder().map(|folder| all_in(&folder)).unwrap_or_default()
}

fn folder() -> Option<PathBuf> {
    Some(machine::folder()?.join(FOLDER))
}

fn all_in(folder: &Path) -> Vec<KnownLoop> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten().take(MOST) {
        let path = entry.path();
        if path.to_string_lossy().ends_with(UNFINISHED) {
            continue;
        }
        let read = plain_file::read(&path, MOST_BYTES).ok();
        let Some(known) = read.and_then(|bytes| serde_json::from_slice::<KnownLoop>(&bytes).ok()) else {
            continue;
        };
        let is_gone = known.state.metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound);
        match is_gone {
            // If it cannot be removed, it is left out again the next time.
            true => drop(fs::remove_file(&path)),
            false => found.push(known),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_without_a_state_file_are_dropped_and_what_is_none_is_left_alone() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("loops");
        assert_eq!(all_in(&folder), []);
        let (here, gone) = (dir.path().join("here.md"), dir.path().join("gone.md"));
        fs::write(&here, "").expect("written");
        let entry = |state: &Path| KnownLoop { state: state.to_path_buf(), driven: Timestamp::UNIX_EPOCH };
        write(&folder, "1", &entry(&here)).expect("written");
        write(&folder, "2", &entry(&gone)).expect("written");
        fs::write(folder.join("3.json"), "no entry").expect("written");
        assert_eq!(all_in(&folder), [entry(&here)]);
        assert!(!folder.join("2.json").exists() && folder.join("3.json").exists());
    }
}
