//! What was once worked out of a text, kept under the text's hash. Knows nothing of what is in a section.
//!
//! Best effort: whatever goes wrong while writing or reading, it is as if nothing had been kept.
//!
//! ```text
//! "aot-cache" 0x01 | head length u32 | head hash [32] | head | sections
//! head: version (u16 length, bytes) | content hash [32] | count u16 | count * entry
//! entry: name (u16 length, bytes) | offset u64 | length u64 | section hash [32]
//! ```
//! Numbers are little-endian; offsets count from the start of the file.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use blake3::Hash;

use crate::atomic_file::{self, Durability, UNFINISHED};
use crate::plain_file;
use crate::store::home::Home;

/// The format of the file; a cache in another one is no cache.
const MAGIC: &[u8; 10] = b"aot-cache\x01";
const FIXED: usize = MAGIC.len() + 4 + 32;

/// A head over this length is not believed.
const HEAD_BYTES: usize = 64 << 10;
/// Read at once in the hope that it is the whole head.
const FIRST_READ: u64 = 1 << 10;
/// Files aside that a killed process left are removed after this long.
const ABANDONED: Duration = Duration::from_secs(60);

/// The one cache file of a state file.
#[derive(Debug, Clone)]
pub struct Cache {
    home: Home,
    path: PathBuf,
    version: String,
}

impl Cache {
    /// `version` is the caller's: sections written under another one are not found.
    pub fn of(home: &Home, version: &str) -> Cache {
        Cache { path: home.sidecar().join("cache"), home: home.clone(), version: version.into() }
    }

    /// Keeps the sections for the text with this hash, instead of whatever was kept.
    pub fn put(&self, content: &Hash, sections: &[(&str, &[u8])]) {
        // Best effort: without a cache everything is worked out again.
        let _ = self.try_put(content, sections);
    }

    /// The section, if it was kept for exactly this text and is unharmed. Reads the head and that section only.
    pub fn get(&self, content: &Hash, section: &str) -> Option<Vec<u8>> {
        let mut file = plain_file::open_to_read(&self.path).ok()?;
        let head = read_head(&mut file)?;
        let mut head = Cursor(&head);
        if head.name()? != self.version.as_bytes() || head.take(32)? != content.as_bytes() {
            return None;
        }
        for _ in 0..head.u16()? {
            let (name, offset, length, hash) = (head.name()?, head.u64()?, head.u64()?, head.take(32)?);
            if name == section.as_bytes() {
                let bytes = read_section(&mut file, offset, length)?;
                return (blake3::hash(&bytes).as_bytes() == hash).then_some(bytes);
            }
        }
        None
    }

    fn try_put(&self, content: &Hash, sections: &[(&str, &[u8])]) -> Option<()> {
        let head = head(&self.version, content, sections)?;
        self.home.ready().ok()?;
        self.sweep();
        let mut parts = vec![head.as_slice()];
        parts.extend(sections.iter().map(|(_, bytes)| *bytes));
        atomic_file::write(&self.path, &parts, Durability::Unsynced).ok()
    }

    /// Removes what processes killed while writing left.
    fn sweep(&self) {
        for entry in fs::read_dir(self.home.sidecar()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_aside = name.to_str().is_some_and(|name| name.ends_with(UNFINISHED));
            let written = || -> io::Result<SystemTime> { entry.metadata()?.modified() };
            if is_aside && written().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED)) {
                // Another process may have removed it, and a cache may fail on a full or read-only disk.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// The head with everything before it, or `None` if it would be too long.
fn head(version: &str, content: &Hash, sections: &[(&str, &[u8])]) -> Option<Vec<u8>> {
    let names: usize = sections.iter().map(|(name, _)| 2 + name.len() + 8 + 8 + 32).sum();
    let length = 2 + version.len() + 32 + 2 + names;
    if length > HEAD_BYTES {
        return None;
    }
    let mut head = Vec::with_capacity(length);
    let put_name = |head: &mut Vec<u8>, name: &str| {
        head.extend((name.len() as u16).to_le_bytes());
        head.extend(name.as_bytes());
    };
    put_name(&mut head, version);
    head.extend(content.as_bytes());
    head.extend((sections.len() as u16).to_le_bytes());
    let mut offset = (FIXED + length) as u64;
    for (name, bytes) in sections {
        put_name(&mut head, name);
        head.extend(offset.to_le_bytes());
        head.extend((bytes.len() as u64).to_le_bytes());
        head.extend(blake3::hash(bytes).as_bytes());
        offset += bytes.len() as u64;
    }
    let mut whole = MAGIC.to_vec();
    whole.extend((length as u32).to_le_bytes());
    whole.extend(blake3::hash(&head).as_bytes());
    whole.extend(head);
    Some(whole)
}

fn read_head(file: &mut File) -> Option<Vec<u8>> {
    let mut first = Vec::new();
    file.take(FIRST_READ).read_to_end(&mut first).ok()?;
    let mut fixed = Cursor(&first);
    if fixed.take(MAGIC.len())? != MAGIC {
        return None;
    }
    let length = fixed.u32()? as usize;
    let hash: [u8; 32] = fixed.take(32)?.try_into().ok()?;
    if length > HEAD_BYTES {
        return None;
    }
    let missing = (FIXED + length).saturating_sub(first.len());
    file.take(missing as u64).read_to_end(&mut first).ok()?;
    let head = first.get(FIXED..FIXED + length)?;
    (*blake3::hash(head).as_bytes() == hash).then(|| head.to_vec())
}

fn read_section(file: &mut File, offset: u64, length: u64) -> Option<Vec<u8>> {
    // Compared first, so that a lie about the length allocates nothing.
    if offset.checked_add(length)? > file.metadata().ok()?.len() {
        return None;
    }
    let mut bytes = Vec::with_capacity(length as usize);
    file.seek(SeekFrom::Start(offset)).ok()?;
    file.take(length).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Takes things from the front while there are any.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn name(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(length.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct CacheFolder {
        _dir: tempfile::TempDir,
        home: Home,
    }

    impl CacheFolder {
        fn new() -> CacheFolder {
            let dir = tempfile::tempdir().expect("a temporary folder");
            let home = Home::of(&dir.path().join("aot-loop-state.md")).expect("a home");
            CacheFolder { home, _dir: dir }
        }

        fn cache(&self, version: &str) -> Cache {
            Cache::of(&self.home, version)
        }
    }

    const SECTIONS: &[(&str, &[u8])] = &[("hook", b"small"), ("empty", b""), ("state", &[7; 9_000])];

    #[test]
    fn what_was_put_is_got() {
        let place = CacheFolder::new();
        let (cache, text) = (place.cache("1.0"), blake3::hash(b"text"));
        assert_eq!(cache.get(&text, "hook"), None);
        cache.put(&text, SECTIONS);
        for (name, bytes) in SECTIONS {
            assert_eq!(cache.get(&text, name).as_deref(), Some(*bytes), "{name}");
        }
        assert_eq!(cache.get(&text, "other"), None);
        assert_eq!(cache.get(&blake3::hash(b"other text"), "hook"), None);
        assert_eq!(place.cache("1.1").get(&text, "hook"), None);
        place.cache("1.1").put(&text, &[("hook", b"newer")]);
        assert_eq!(place.cache("1.1").get(&text, "hook").as_deref(), Some(&b"newer"[..]));
        assert_eq!(cache.get(&text, "hook"), None);
    }

    #[test]
    fn a_head_longer_than_the_first_read_is_read_and_an_endless_one_is_not_written() {
        let place = CacheFolder::new();
        let (cache, text) = (place.cache("1"), blake3::hash(b"text"));
        let names: Vec<String> = (0..100).map(|number| format!("section number {number}")).collect();
        let sections: Vec<(&str, &[u8])> =
            names.iter().map(|name| (name.as_str(), name.as_bytes())).collect();
        cache.put(&text, &sections);
        assert_eq!(cache.get(&text, "section number 99").as_deref(), Some(&b"section number 99"[..]));
        let name = "x".repeat(HEAD_BYTES);
        cache.put(&text, &[(&name, b"")]);
        assert!(cache.get(&text, &name).is_none());
        assert!(cache.get(&text, "section number 0").is_some(), "the older one stays");
    }

    /// Whatever was done to the file, a section is either what was put or absent.
    fn check_harmed(harm: impl Fn(&mut Vec<u8>)) {
        let place = CacheFolder::new();
        let (cache, text) = (place.cache("1.0"), blake3::hash(b"text"));
        cache.put(&text, SECTIONS);
        let mut bytes = fs::read(&cache.path).expect("a cache");
        harm(&mut bytes);
        fs::write(&cache.path, &bytes).expect("written");
        for (name, put) in SECTIONS {
            let got = cache.get(&text, name);
            assert!(got.is_none() || got.as_deref() == Some(put), "{name}");
        }
        cache.put(&text, SECTIONS);
        assert!(cache.get(&text, "state").is_some(), "it is written anew");
    }

    #[test]
    fn garbage_is_no_cache() {
        let place = CacheFolder::new();
        let (cache, text) = (place.cache("1.0"), blake3::hash(b"text"));
        cache.put(&text, SECTIONS);
        let length = fs::metadata(&cache.path).expect("a cache").len() as usize;
        let (head, whole) = (length - 9_005, length);
        for cut in (0..head + 8).chain([whole - 1]) {
            check_harmed(|bytes| bytes.truncate(cut));
        }
        for at in (0..head + 8).chain([whole - 1]) {
            check_harmed(|bytes| bytes[at] ^= 0xff);
            check_harmed(|bytes| bytes[at] = bytes[at].wrapping_add(1));
        }
        for noise in 0..200_u64 {
            check_harmed(|bytes| {
                let mut random = vec![0; (noise * 7) as usize];
                blake3::Hasher::new().update(&noise.to_le_bytes()).finalize_xof().fill(&mut random);
                match noise % 2 {
                    0 => *bytes = random,
                    _ => bytes.splice(MAGIC.len().., random).for_each(drop),
                }
            });
        }
        check_harmed(|bytes| bytes.extend([0; 100]));
        check_harmed(|bytes| bytes.fill(0));
    }

    #[test]
    fn a_checksummed_lie_about_a_length_is_absent() {
        let place = CacheFolder::new();
        let (cache, text) = (place.cache("1.0"), blake3::hash(b"text"));
        let mut whole = head("1.0", &text, &[("hook", b"small")]).expect("short");
        let at = whole.len() - 32 - 8;
        whole[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        let hash = blake3::hash(&whole[FIXED..]);
        whole[MAGIC.len() + 4..FIXED].copy_from_slice(hash.as_bytes());
        place.home.ready().expect("a sidecar");
        fs::write(&cache.path, whole).expect("written");
        assert_eq!(cache.get(&text, "hook"), None);
    }

    #[test]
    fn a_folder_in_its_place_or_no_place_is_silence() {
        let place = CacheFolder::new();
        let (cache, text) = (place.cache("1.0"), blake3::hash(b"text"));
        place.home.ready().expect("a sidecar");
        fs::create_dir(&cache.path).expect("made");
        cache.put(&text, SECTIONS);
        assert_eq!(cache.get(&text, "hook"), None);
        let names = fs::read_dir(place.home.sidecar()).expect("a sidecar");
        assert_eq!(names.filter(|e| e.as_ref().is_ok_and(|e| e.path().extension().is_some())).count(), 0);
        let nowhere = Home::of(std::path::Path::new("/dev/null/aot-loop-state.md")).expect("a home");
        Cache::of(&nowhere, "1").put(&text, SECTIONS);
        assert_eq!(Cache::of(&nowhere, "1").get(&text, "hook"), None);
    }
}
