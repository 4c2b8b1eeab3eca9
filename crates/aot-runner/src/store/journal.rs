//! The journal: one line of changes per transaction. Knows nothing of their meaning; only the state file is the truth.
//!
//! Appended under the lock, after the replacement, without a sync. A process killed in between leaves a text without
//! its line: a gap, which readers report. A line without its line end does not count.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::plain_file;
use crate::store::error::FileError;
use crate::store::home::Home;
use crate::store::lock::Held;

/// At this size the journal becomes the older one, and the one before is forgotten.
pub const ROTATED_AT: u64 = 8 << 20;

/// How much is read at a time, from the end.
const CHUNK: u64 = 64 << 10;

/// One transaction's changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry<C> {
    /// The revision of the resulting text.
    pub revision: u64,
    pub at: String,
    /// The content hash of the text that was changed, in hex.
    #[serde(default)]
    pub from: String,
    /// The content hash of the resulting text, in hex.
    pub hash: String,
    pub changes: Vec<C>,
}

/// The entries after a revision, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Since<C> {
    pub entries: Vec<JournalEntry<C>>,
    pub reach: Reach,
    /// Lines that are no entries, e.g. from a newer `aot`.
    pub unreadable: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Every revision after the one asked for, up to the newest entry, is there.
    Whole,
    /// The entries follow each other, but earlier ones are missing.
    Gap,
}

/// The end of a journal, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newest<C> {
    pub entries: Vec<JournalEntry<C>>,
    pub before: Before,
    /// Lines among them that are no entries, e.g. from a newer `aot`.
    pub unreadable: usize,
}

/// Whether something stands before what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    More,
    /// It was there, and is forgotten since the journal was rotated.
    Forgotten,
    Nothing,
}

#[derive(Debug, Clone)]
pub struct Journal {
    current: PathBuf,
    older: PathBuf,
    rotated_at: u64,
}

impl Journal {
    pub fn of(home: &Home) -> Journal {
        let current = home.sidecar().join("journal.jsonl");
        Journal { older: current.with_file_name("journal.older.jsonl"), current, rotated_at: ROTATED_AT }
    }

    /// Rotates at this size instead of [`ROTATED_AT`].
    pub fn rotating_at(mut self, size: u64) -> Journal {
        self.rotated_at = size;
        self
    }

    /// Adds a line. Either it is there wholly, or the journal is as it was.
    pub fn append<C: Serialize>(&self, _held: &Held, entry: &JournalEntry<C>) -> Result<(), FileError> {
        let failed = |e| FileError::of("write", &self.current, e);
        let mut line = serde_json::to_vec(entry).map_err(|e| failed(e.into()))?;
        line.push(b'\n');
        let mut file = self.opened().map_err(failed)?;
        let mut end = whole_lines(&mut file).map_err(failed)?;
        if end > 0 && end + line.len() as u64 > self.rotated_at {
            drop(file);
            fs::rename(&self.current, &self.older).map_err(failed)?;
            file = self.opened().map_err(failed)?;
            end = 0;
        }
        file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end))).map_err(failed)?;
        file.write_all(&line).map_err(|e| {
            // If this fails, too, the torn line is ignored by readers and repaired by the next append.
            let _ = file.set_len(end);
            failed(e)
        })
    }

    /// The entries after `revision` that follow each other without a gap up to the newest. Where revisions were used
    /// twice, because an older state was restored, the later use counts.
    pub fn since<C: DeserializeOwned>(&self, revision: u64) -> Result<Since<C>, FileError> {
        let next = revision.saturating_add(1);
        let mut since = Since { entries: Vec::new(), reach: Reach::Whole, unreadable: 0 };
        let mut lines = Backwards::over(&self.current, &self.older);
        while let Some(line) = lines.next_line().map_err(|e| FileError::of("read", &self.current, e))? {
            let Ok(entry) = serde_json::from_slice::<JournalEntry<C>>(&line) else {
                since.unreadable += 1;
                continue;
            };
            let oldest: Option<u64> = since.entries.last().map(|later: &JournalEntry<C>| later.revision);
            match oldest {
                _ if entry.revision <= revision => break,
                Some(later) if entry.revision >= later => continue,
                Some(later) if entry.revision < later - 1 => break,
                _ => since.entries.push(entry),
            }
            if since.entries.last().is_some_and(|entry| entry.revision == next) {
                break;
            }
        }
        if since.entries.last().is_some_and(|oldest| oldest.revision != next) {
            since.reach = Reach::Gap;
        }
        since.entries.reverse();
        Ok(since)
    }

    /// The newest entries, at most `count`, oldest first, whatever their revisions.
    pub fn newest<C: DeserializeOwned>(&self, count: usize) -> Result<Vec<JournalEntry<C>>, FileError> {
        Ok(self.newest_where(count, |_| true)?.entries)
    }

    /// All entries from the newest back to the one with which `count` of those that are wanted are there.
    pub fn newest_where<C: DeserializeOwned>(
        &self,
        count: usize,
        is_wanted: impl Fn(&JournalEntry<C>) -> bool,
    ) -> Result<Newest<C>, FileError> {
        let mut newest = Newest { entries: Vec::new(), before: Before::Nothing, unreadable: 0 };
        let mut wanted = 0;
        let mut lines = Backwards::over(&self.current, &self.older);
        while let Some(line) = lines.next_line().map_err(|e| FileError::of("read", &self.current, e))? {
            if wanted >= count {
                newest.before = Before::More;
                break;
            }
            match serde_json::from_slice::<JournalEntry<C>>(&line) {
                Ok(entry) => {
                    wanted += usize::from(is_wanted(&entry));
                    newest.entries.push(entry);
                }
                Err(_) => newest.unreadable += 1,
            }
        }
        newest.entries.reverse();
        let begins_later = newest.entries.first().is_some_and(|oldest| oldest.revision > 1);
        if newest.before == Before::Nothing && begins_later && self.older.exists() {
            newest.before = Before::Forgotten;
        }
        Ok(newest)
    }

    /// Whether anything was ever written down, as far as it was not deleted.
    pub fn is_there(&self) -> bool {
        self.current.exists() || self.older.exists()
    }

    fn opened(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        plain_file::open(&self.current, options.read(true).write(true).create(true).truncate(false))
    }
}

/// The length of the file without a torn last line.
fn whole_lines(file: &mut File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut chunk = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(CHUNK);
        read_at(file, start, end, &mut chunk)?;
        match chunk.iter().rposition(|&byte| byte == b'\n') {
            Some(position) => return Ok(start + position as u64 + 1),
            None => end = start,
        }
    }
    Ok(0)
}

fn read_at(file: &mut File, start: u64, end: u64, chunk: &mut Vec<u8>) -> io::Result<()> {
    chunk.clear();
    file.seek(SeekFrom::Start(start))?;
    let wanted = end - start;
    if file.take(wanted).read_to_end(chunk)? as u64 == wanted {
        Ok(())
    } else {
        Err(ErrorKind::UnexpectedEof.into())
    }
}

/// Whole lines from the last to the first, over the current and then the older file.
struct Backwards {
    files: Vec<PathBuf>,
    file: Option<File>,
    /// Where the part not yet read ends.
    end: u64,
    /// What was read before and not yet given out; it ends with a line end.
    held: Vec<u8>,
    /// Files already read: a rotation meanwhile shows the same file twice.
    seen: Vec<crate::store::text::Stamp>,
}

impl Backwards {
    fn over(current: &Path, older: &Path) -> Backwards {
        let files = vec![older.to_path_buf(), current.to_path_buf()];
        Backwards { files, file: None, end: 0, held: Vec::new(), seen: Vec::new() }
    }

    /// The next line without its line end.
    fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut chunk = Vec::new();
        loop {
            let text = self.held.strip_suffix(b"\n").unwrap_or(&[]);
            if let Some(position) = text.iter().rposition(|&byte| byte == b'\n') {
                let line = text[position + 1..].to_vec();
                self.held.truncate(position + 1);
                return Ok(Some(line));
            }
            match &mut self.file {
                Some(file) if self.end > 0 => {
                    // Doubling keeps a line of many chunks from being copied once per chunk.
                    let start = self.end.saturating_sub(CHUNK.max(self.held.len() as u64));
                    read_at(file, start, self.end, &mut chunk)?;
                    chunk.append(&mut self.held);
                    self.held = std::mem::take(&mut chunk);
                    self.end = start;
                }
                _ if !self.held.is_empty() => {
                    self.held.pop();
                    return Ok(Some(std::mem::take(&mut self.held)));
                }
                _ => match self.files.pop() {
                    Some(path) => self.open(&path)?,
                    None => return Ok(None),
                },
            }
        }
    }

    fn open(&mut self, path: &Path) -> io::Result<()> {
        self.file = None;
        let mut file = match plain_file::open_to_read(path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
        };
        let stamp = crate::store::text::Stamp::from(&file.metadata()?);
        if self.seen.iter().any(|seen| stamp.ino != 0 && (seen.dev, seen.ino) == (stamp.dev, stamp.ino)) {
            return Ok(());
        }
        self.seen.push(stamp);
        self.end = whole_lines(&mut file)?;
        self.file = Some(file);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::lock::LOCK_WAIT;

    struct JournalFolder {
        _dir: tempfile::TempDir,
        home: Home,
        journal: Journal,
    }

    impl JournalFolder {
        fn new() -> JournalFolder {
            let dir = tempfile::tempdir().expect("a temporary folder");
            let home = Home::of(&dir.path().join("aot-loop-state.md")).expect("a home");
            home.ready().expect("a sidecar");
            JournalFolder { journal: Journal::of(&home).rotating_at(ROTATED_AT), home, _dir: dir }
        }

        fn append(&self, revision: u64, change: &str) {
            let held = Held::take(&self.home, "append", LOCK_WAIT).expect("free");
            let changes = vec![change.to_string()];
            let entry = JournalEntry {
                revision,
                at: "2026-11-15T20:00:00Z".into(),
                from: String::new(),
                hash: "00".into(),
                changes,
            };
            self.journal.append(&held, &entry).expect("appended");
        }

        fn since(&self, revision: u64) -> String {
            let since = self.journal.since::<String>(revision).expect("read");
            let entries: Vec<String> = since
                .entries
                .iter()
                .map(|entry| format!("{}{}", entry.revision, entry.changes.concat()))
                .collect();
            let reach = if since.reach == Reach::Gap { " gap" } else { "" };
            let unreadable =
                if since.unreadable > 0 { format!(" ?{}", since.unreadable) } else { String::new() };
            format!("{}{reach}{unreadable}", entries.join(" "))
        }
    }

    /// Words of the script: a number is a revision, `!` a line of a newer aot, `~` a torn line, `x` a blank file.
    fn check(script: &str, since: u64, expected: &str) {
        let place = JournalFolder::new();
        for word in script.split_whitespace() {
            let raw = |bytes: &[u8]| {
                let mut file =
                    OpenOptions::new().append(true).create(true).open(&place.journal.current).expect("there");
                file.write_all(bytes).expect("written");
            };
            match word {
                "!" => raw(b"{\"revision\":3,\"kind\":\"from the future\"}\n"),
                "~" => raw(b"{\"revision\":9,\"at\":\"x\",\"hash\":\"\",\"changes\":[]}"),
                "\\0" => raw(&[0; 100]),
                "\\n" => raw(b"\n"),
                "delete" => fs::remove_file(&place.journal.current).expect("deleted"),
                "rotate" => fs::rename(&place.journal.current, &place.journal.older).expect("rotated"),
                _ => {
                    let digits = word.trim_end_matches(|c: char| !c.is_ascii_digit());
                    place.append(digits.parse().expect("a revision"), &word[digits.len()..]);
                }
            }
        }
        assert_eq!(place.since(since), expected, "{script}, since {since}");
    }

    #[test]
    fn entries_since_a_revision() {
        check("", 0, "");
        check("1a 2b 3c", 0, "1a 2b 3c");
        check("1a 2b 3c", 2, "3c");
        check("1a 2b 3c", 3, "");
        check("1a 2b 3c", 7, "");
        check("2b 3c", 0, "2b 3c gap");
        check("1a 3c 4d", 0, "3c 4d gap");
        check("1a 3c 4d", 2, "3c 4d");
        check("1a 2b delete 3c", 0, "3c gap");
        check("1a 2b rotate 3c 4d", 0, "1a 2b 3c 4d");
        check("1a 2b rotate 3c 4d", 1, "2b 3c 4d");
        check("1a 2b rotate", 1, "2b");
    }

    #[test]
    fn torn_and_unreadable_lines() {
        check("1a 2b ~", 0, "1a 2b");
        check("1a 2b ~ 3c", 0, "1a 2b 3c");
        check("~", 0, "");
        check("~ 1a", 0, "1a");
        check("1a \\0 2b", 0, "1a 2b");
        check("1a 2b ! 4d", 0, "4d gap ?1");
        check("1a 2b ! 3c", 0, "1a 2b 3c ?1");
        check("1a \\n \\n 2b", 0, "1a 2b ?2");
    }

    #[test]
    fn a_revision_used_twice_counts_as_used_last() {
        check("1a 2b 3c 2x 3y", 0, "1a 2x 3y");
        check("1a 2b 3c 2x 3y", 1, "2x 3y");
        check("7a 8b 1x 2y", 0, "1x 2y");
        check("7a 8b 1x 2y", 1, "2y");
    }

    /// What is said to stand before the newest entries.
    fn check_before(script: &str, count: usize, expected: Before) {
        let place = JournalFolder::new();
        for word in script.split_whitespace() {
            match word {
                "rotate" => fs::rename(&place.journal.current, &place.journal.older).expect("rotated"),
                _ => place.append(word.parse().expect("a revision"), "x"),
            }
        }
        let newest = place.journal.newest_where::<String>(count, |_| true).expect("read");
        assert_eq!(newest.before, expected, "{script}, {count}");
    }

    #[test]
    fn what_was_forgotten_is_known() {
        check_before("", 5, Before::Nothing);
        check_before("1 2 3", 5, Before::Nothing);
        check_before("1 2 3", 2, Before::More);
        check_before("1 2 rotate 3 4", 5, Before::Nothing);
        check_before("1 2 rotate 3 4 rotate 5", 2, Before::More);
        check_before("1 2 rotate 3 4 rotate 5", 5, Before::Forgotten);
        // It was deleted, or the loop is younger than its state file.
        check_before("7 8", 5, Before::Nothing);
    }

    #[test]
    fn it_is_rotated_and_bounded() {
        let place = JournalFolder::new();
        let journal = place.journal.clone().rotating_at(2_000);
        let place = JournalFolder { journal, ..place };
        for revision in 1..=200 {
            place.append(revision, "x");
        }
        let size = |path: &Path| fs::metadata(path).expect("there").len();
        assert!(size(&place.journal.current) <= 2_000 && size(&place.journal.older) <= 2_000);
        let since = place.journal.since::<String>(0).expect("read");
        assert_eq!(since.reach, Reach::Gap);
        assert_eq!(since.entries.last().map(|entry| entry.revision), Some(200));
        assert!(since.entries.len() > 25, "both files are read: {}", since.entries.len());
        assert!(since.entries.windows(2).all(|two| two[0].revision + 1 == two[1].revision));
        assert_eq!(place.since(198), "199x 200x");
        let newest = place.journal.newest::<String>(3).expect("read");
        assert_eq!(newest.iter().map(|entry| entry.revision).collect::<Vec<_>>(), [198, 199, 200]);
        let even = place.journal.newest_where::<String>(2, |entry| entry.revision % 2 == 0).expect("read");
        assert_eq!(even.entries.iter().map(|entry| entry.revision).collect::<Vec<_>>(), [198, 199, 200]);
        assert_eq!((even.before, even.unreadable), (Before::More, 0));
        let all = place.journal.newest_where::<String>(1_000, |_| true).expect("read");
        assert_eq!(all.before, Before::Forgotten);
    }

    #[test]
    fn lines_longer_than_a_chunk_are_whole() {
        let place = JournalFolder::new();
        for (revision, length) in [(1, 10), (2, CHUNK as usize * 5), (3, CHUNK as usize - 60), (4, 1)] {
            place.append(revision, &"y".repeat(length));
        }
        let since = place.journal.since::<String>(0).expect("read");
        let lengths: Vec<usize> = since.entries.iter().map(|entry| entry.changes[0].len()).collect();
        assert_eq!(lengths, [10, CHUNK as usize * 5, CHUNK as usize - 60, 1]);
    }
}
