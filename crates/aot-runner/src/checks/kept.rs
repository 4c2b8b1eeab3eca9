//! The journal of evidence: what was seen, line by line, bounded. Deleted, it is made again; nothing rests on it but the
//! reuse of passes.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use aot_core::verdict::{Evidence, Outcome, Source};
use serde::{Deserialize, Serialize};

use crate::plain_file;
use crate::store::home::Home;
use crate::store::lock::{LOCK_WAIT, lock_within};
use crate::tree::Project;

/// At this size the journal becomes the older one, and the one before is forgotten.
pub const ROTATED_AT: u64 = 4 << 20;

/// A longer journal is not ours, and none of it is read.
const LONGEST: u64 = 16 * ROTATED_AT;

/// For a look at what was seen last, so much is read from the end.
const RECENT: u64 = 512 << 10;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvidenceLine {
    /// What was asked: equal for equal checks, run in the same way. Empty where a pass is never reused.
    pub key: String,
    pub item: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub outcome: Outcome,
    pub evidence: Evidence,
}

#[derive(Clone, Debug)]
pub struct Kept {
    current: PathBuf,
    older: PathBuf,
    state: PathBuf,
}

/// Passes that were seen on one tree.
#[derive(Debug, Default)]
pub struct Passes(HashMap<String, Evidence>);

impl Passes {
    pub fn of(&self, key: &str) -> Option<Evidence> {
        let mut evidence = self.0.get(key)?.clone();
        evidence.source = Source::Reused;
        Some(evidence)
    }
}

impl Kept {
    pub fn of(project: &Project) -> Kept {
        let current = project.sidecar.join("evidence.jsonl");
        let older = current.with_file_name("evidence.older.jsonl");
        Kept { current, older, state: project.state.clone() }
    }

    /// The newest word on each check counts: a pass that was followed by something else on the same tree is none.
    pub fn passes(&self, tree: &str) -> Passes {
        let mut passes = HashMap::new();
        for line in self.lines().into_iter().filter(|line| line.evidence.tree == tree && !line.key.is_empty())
        {
            match line.evidence.is_reusable(line.outcome) {
                true => passes.insert(line.key, line.evidence),
                false => passes.remove(&line.key),
            };
        }
        Passes(passes)
    }

    /// All lines that can be read, oldest first.
    pub fn lines(&self) -> Vec<EvidenceLine> {
        // A single addition may be longer than the size at which the journal is rotated, but not without end.
        let read = |path: &PathBuf| plain_file::read(path, LONGEST).unwrap_or_default();
        let (older, current) = (read(&self.older), read(&self.current));
        let lines =
            |text: Vec<u8>| text.split(|byte| *byte == b'\n').filter_map(read_line).collect::<Vec<_>>();
        lines(older).into_iter().chain(lines(current)).collect()
    }

    /// The last of them, oldest first: as many as a short question is worth.
    pub fn recent(&self) -> Vec<EvidenceLine> {
        let read = || -> io::Result<Vec<u8>> {
            let mut file = plain_file::open_to_read(&self.current)?;
            let start = file.metadata()?.len().saturating_sub(RECENT);
            file.seek(SeekFrom::Start(start))?;
            let mut bytes = Vec::new();
            file.take(RECENT).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        // The first line may be torn; then it is no JSON and left out.
        let bytes = read().unwrap_or_default();
        bytes.split(|byte| *byte == b'\n').filter_map(read_line).collect()
    }

    pub fn add(&self, lines: &[EvidenceLine]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        Home::of(&self.state).and_then(|home| home.ready()).map_err(io::Error::other)?;
        let mut text = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        let mut file = self.opened()?;
        lock_within(&file, LOCK_WAIT)?;
        let length = file.metadata()?.len();
        if is_torn(&mut file, length)? {
            // Whoever wrote it was killed; the next line must not be lost with that one.
            text.insert(0, b'\n');
        }
        if length > 0 && length + text.len() as u64 > ROTATED_AT {
            fs::rename(&self.current, &self.older)?;
            file = self.opened()?;
        }
        file.write_all(&text)
    }

    fn opened(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.append(true).read(true).create(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        plain_file::open(&self.current, &mut options)
    }
}

/// Whether the last line has no end.
fn is_torn(file: &mut File, length: u64) -> io::Result<bool> {
    let Some(last) = length.checked_sub(1) else { return Ok(false) };
    let mut byte = [0];
    file.seek(SeekFrom::Start(last))?;
    file.read_exact(&mut byte)?;
    Ok(byte != *b"\n")
}

fn read_line(line: &[u8]) -> Option<EvidenceLine> {
    serde_json::from_slice(line).ok()
}
