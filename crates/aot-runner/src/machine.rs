//! What only this user on this machine knows: a key. A stamp made with it says that this machine wrote something, which
//! nothing that comes with a clone can say. Knows nothing of what is stamped.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::plain_file;

const KEY_FILE: &str = "machine.key";
const KEY_BYTES: usize = 32;

type Key = [u8; KEY_BYTES];

/// The user's folder for what is kept about projects, set once by the program before anything else.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();
static KEY: OnceLock<Key> = OnceLock::new();

/// Whether a key is made if there is none yet. Looking at a project makes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfNone {
    Make,
    DoWithout,
}

/// Says where the user's data is kept. Without it, or where it cannot be written, the machine's own id serves as the key.
pub fn keep_in(folder: PathBuf) {
    // A second call would come from the same environment.
    let _ = FOLDER.set(folder);
}

/// The user's folder for what is kept about projects.
pub fn folder() -> Option<&'static Path> {
    FOLDER.get().map(PathBuf::as_path)
}

/// A text that only this machine can make of these words.
pub fn stamp(words: &[&[u8]], if_none: IfNone) -> String {
    let mut hasher = blake3::Hasher::new_keyed(&key(if_none));
    for word in words {
        hasher.update(&(word.len() as u64).to_le_bytes()).update(word);
    }
    hasher.finalize().to_hex()[..KEY_BYTES].to_owned()
}

fn key(if_none: IfNone) -> Key {
    if let Some(key) = KEY.get() {
        return *key;
    }
    let Some(folder) = FOLDER.get() else { return of_the_system() };
    let path = folder.join(KEY_FILE);
    let kept = kept_key(&path).or_else(|_| match if_none {
        IfNone::Make => make(folder, &path),
        IfNone::DoWithout => Err(io::ErrorKind::NotFound.into()),
    });
    match kept {
        Ok(key) => *KEY.get_or_init(|| key),
        Err(_) => of_the_system(),
    }
}

fn kept_key(path: &Path) -> io::Result<Key> {
    let bytes = plain_file::read(path, KEY_BYTES as u64)?;
    Key::try_from(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Makes the key, unless another process is quicker: then its key is taken.
fn make(folder: &Path, path: &Path) -> io::Result<Key> {
    fs::create_dir_all(folder)?;
    let mut key = Key::default();
    File::open("/dev/urandom")?.read_exact(&mut key)?;
    let mut file = tempfile::Builder::new().prefix(KEY_FILE).tempfile_in(folder)?;
    file.write_all(&key)?;
    file.as_file().sync_all()?;
    // Fails if the other process was quicker.
    let _ = file.persist_noclobber(path);
    kept_key(path)
}

/// For users without a writable home: something that whoever wrote a clone does not know.
fn of_the_system() -> Key {
    let read = |path: &str| fs::read_to_string(path).ok().filter(|text| !text.trim().is_empty());
    let id = read("/etc/machine-id").or_else(|| read("/proc/sys/kernel/random/boot_id"));
    #[cfg(unix)]
    let user = rustix::process::geteuid().as_raw();
    #[cfg(not(unix))]
    let user = 0_u32;
    blake3::derive_key("aot 2026 machine", format!("{user} {}", id.unwrap_or_default().trim()).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_others_find_it() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (folder, path) = (dir.path().join("new"), dir.path().join("new").join(KEY_FILE));
        kept_key(&path).expect_err("there is none");
        let first = make(&folder, &path).expect("made");
        assert_eq!(make(&folder, &path).expect("found"), first);
        assert_eq!(kept_key(&path).expect("kept"), first);
        assert_eq!(fs::read_dir(&folder).expect("there").count(), 1, "nothing else is left");
        assert_ne!(first, Key::default());
    }
}
