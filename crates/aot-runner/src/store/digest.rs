//! A small summary of the state file, kept under the file's stamp, so that a hook need not even read the file.
//! Knows nothing of what the bytes mean. Best effort, as the cache is.

use std::path::PathBuf;

use crate::atomic_file::{self, Durability};
use crate::plain_file;
use crate::store::home::Home;
use crate::store::text::Stamp;

/// The format of the file; another one is no digest.
const MAGIC: &str = "aot-digest 1";
/// No digest is longer than the state file may be.
const DIGEST_BYTES: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct Digest {
    home: Home,
    path: PathBuf,
    version: String,
}

impl Digest {
    pub fn of(home: &Home, version: &str) -> Digest {
        Digest { path: home.sidecar().join("digest"), home: home.clone(), version: version.to_owned() }
    }

    /// What was kept, if the state file has not been touched since.
    pub fn get(&self) -> Option<Vec<u8>> {
        let kept = plain_file::read(&self.path, DIGEST_BYTES).ok()?;
        let end = kept.iter().position(|byte| *byte == b'\n')?;
        let stamp = Stamp::of(self.home.state()).ok()?;
        let rest = kept.get(end + 1..)?;
        let (hash, bytes) = (rest.get(..32)?, rest.get(32..)?);
        let whole = kept[..end] == *self.head(&stamp).as_bytes() && blake3::hash(bytes).as_bytes() == hash;
        whole.then(|| bytes.to_vec())
    }

    /// Keeps it for a file with this stamp, which must not be fresh: a later write has another one then.
    pub fn put(&self, stamp: &Stamp, bytes: &[u8]) {
        if self.home.ready().is_err() {
            return;
        }
        let whole = [self.head(stamp).as_bytes(), b"\n", blake3::hash(bytes).as_bytes(), bytes].concat();
        // Without it the state file is read again.
        let _ = atomic_file::write(&self.path, &[&whole], Durability::Unsynced);
    }

    fn head(&self, stamp: &Stamp) -> String {
        let Stamp { dev, ino, size, mtime_ns } = stamp;
        format!("{MAGIC} {} {dev} {ino} {size} {mtime_ns}", self.version)
    }
}
