//! The state file as a text that many processes change. Knows nothing of what the text means.
//!
//! What is guaranteed, however a process ends: the state file is wholly an old or a new text. What is guaranteed to
//! programs that know nothing of the lock:
//!
//! - *A save by rename* is never lost: it is seen before the exchange, or displaced by it and put back. In the few
//!   microseconds between, others see our text; if one of them saved in that time or the change was then not made, the
//!   text that was hidden is kept as a conflict.
//! - *A save in place* that truncates on opening is never lost either: what we would displace is already another text.
//!   One that opens first and writes later (`>>`) can hit the displaced file: it is found there by one of the next
//!   transactions and kept as a conflict. Beyond a few transactions of holding the file open it is lost.
//! - *A stale copy saved over ours* cannot be prevented. The next transaction gets both: what it found and what was
//!   written last.
//! - *A half-saved text* looks like a whole one. A text just saved by another program is given a moment of quiet, and the
//!   caller may doubt it.
//!
//! Owner (as far as permitted) and mode are kept; hard links to the state file, ACLs and extended attributes are not.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::store::conflicts;
use crate::store::error::FileError;
use crate::store::home::Home;
use crate::store::lock::{Held, LOCK_WAIT};
use crate::store::replace::{
    self, LastWritten, REPLACE_METHOD, ReplaceMethod, ReplaceStep, SeenDisplaced, WriteOutcome, Writer,
};
use crate::store::text::{QUIET, Stamp, Text};

/// How often a change is made anew because another program saved meanwhile.
pub const ROUNDS: usize = 64;

/// How long to wait for a quiet moment while other programs keep saving.
const QUIET_WAIT: Duration = Duration::from_millis(500);
/// How long a doubted text may take to become another, and a file that is being re-created to appear.
const DOUBT_WAIT: Duration = Duration::from_millis(1_000);
/// A text older than this is no longer being saved, so doubting it is final.
const DOUBT_AGE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(2);

/// The state file on disk.
pub struct StateFile {
    home: Home,
    limit: u64,
    wait: Duration,
    method: ReplaceMethod,
    at: Box<dyn Fn(ReplaceStep) + Send + Sync>,
    seen: SeenDisplaced,
}

/// The input of a decision.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The state file's text.
    pub text: &'a Text,
    /// What `aot` wrote last, if the text differs: another program has edited it since, perhaps from a stale copy.
    pub ours: Option<&'a Text>,
    /// The text of the previous round, if there was one: another program saved before the decision was written, or the
    /// text was doubted.
    pub before: Option<&'a Text>,
}

/// What becomes of the text.
#[derive(Debug)]
pub enum Decision<T, E> {
    Keep(T),
    Replace(Vec<u8>, T),
    /// The text makes no sense, but may be half-saved: look again soon, and if it stays, fail with this.
    Doubt(E),
}

/// A transaction that came to its end. The lock is held until `held` is dropped: what must be written with the text
/// (the journal) is written now.
#[must_use = "the lock is held until this is dropped"]
#[derive(Debug)]
pub struct Done<T> {
    pub value: T,
    /// The text that stands in the state file.
    pub text: Text,
    pub change: Changed,
    /// Folders under `aot/conflicts/` with texts of other programs that could not be put back; to be reported.
    pub rescued: Vec<PathBuf>,
    pub held: Held,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    No,
    Yes,
}

#[derive(Debug, thiserror::Error)]
pub enum TransactError<E> {
    #[error(transparent)]
    File(#[from] FileError),
    /// The decision was to refuse; the text is unchanged.
    #[error("{0}")]
    Refused(E),
}

impl StateFile {
    /// The state file at `path`, which need not exist yet. Texts over `limit` bytes are neither read nor written.
    pub fn open(path: &Path, limit: u64) -> Result<StateFile, FileError> {
        let home = Home::of(path)?;
        Ok(StateFile {
            home,
            limit,
            wait: LOCK_WAIT,
            method: REPLACE_METHOD,
            at: Box::new(|_| ()),
            seen: SeenDisplaced::default(),
        })
    }

    /// Waits for other processes for this long instead of [`LOCK_WAIT`].
    pub fn waiting(mut self, wait: Duration) -> StateFile {
        self.wait = wait;
        self
    }

    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The text as it stands, without the lock.
    pub fn read(&self) -> Result<Text, FileError> {
        let began = Instant::now();
        loop {
            let text = match Text::read(self.home.state(), self.limit) {
                // Some editors move the old file away before they write the new one.
                Err(FileError::Missing { .. }) if began.elapsed() < QUIET && self.was_ours() => None,
                text => Some(text?),
            };
            if let Some(text) = text {
                let whole =
                    !text.stamp.is_fresh(QUIET) || LastWritten::of(&self.home).hash() == Some(text.hash);
                if whole || began.elapsed() > QUIET_WAIT {
                    return Ok(text);
                }
            }
            std::thread::sleep(POLL);
        }
    }

    /// Brings a text that was read before up to date, and says whether it had to; cheap if not.
    pub fn refresh(&self, parsed: &mut Text) -> Result<Changed, FileError> {
        if parsed.is_surely_at(self.home.state()) {
            return Ok(Changed::No);
        }
        let text = self.read()?;
        let changed = if text.hash == parsed.hash { Changed::No } else { Changed::Yes };
        *parsed = text;
        Ok(changed)
    }

    /// Writes the first text. Refuses to write over another.
    pub fn create(&self, bytes: &[u8]) -> Result<Done<()>, FileError> {
        self.fits(bytes)?;
        let held = Held::take(&self.home, "make the state file", self.wait)?;
        let mut writer = Writer::new(&self.home, &held, self.limit, self.method, &*self.at, &self.seen);
        writer.recover()?;
        writer.keep_hidden(None)?;
        let rescued = std::mem::take(&mut writer.rescued);
        replace::put_new(&self.home, bytes)?;
        let text = Text::read(self.home.state(), self.limit)?;
        Ok(Done { value: (), text, change: Changed::Yes, rescued, held })
    }

    /// Changes the text under the lock. `decide` gets the text and returns what to do with it; it is called again, with
    /// the newer text, whenever another program saved before the decision was written. Waiting processes can report
    /// `purpose`.
    pub fn transact<T, E>(
        &self,
        purpose: &str,
        mut decide: impl FnMut(Candidate) -> Result<Decision<T, E>, E>,
    ) -> Result<Done<T>, TransactError<E>> {
        let held = Held::take(&self.home, purpose, self.wait)?;
        let mut writer = Writer::new(&self.home, &held, self.limit, self.method, &*self.at, &self.seen);
        writer.recover()?;
        let ended = self.rounds(&mut writer, &mut decide);
        // Unless it is part of the new text by now, it is kept.
        writer.keep_hidden(None)?;
        let rescued = std::mem::take(&mut writer.rescued);
        let (value, text, change) = ended?;
        Ok(Done { value, text, change, rescued, held })
    }

    fn rounds<T, E>(
        &self,
        writer: &mut Writer,
        decide: &mut impl FnMut(Candidate) -> Result<Decision<T, E>, E>,
    ) -> Result<(T, Text, Changed), TransactError<E>> {
        let mut before: Option<Text> = None;
        for _ in 0..ROUNDS {
            let text = self.read()?;
            writer.keep_hidden(Some(&text))?;
            let ours = self.ours_unless(&text);
            let candidate = Candidate { text: &text, ours: ours.as_ref(), before: before.as_ref() };
            match decide(candidate).map_err(TransactError::Refused)? {
                Decision::Replace(bytes, value) if bytes != text.bytes => {
                    self.fits(&bytes)?;
                    match writer.put(&text, &bytes)? {
                        WriteOutcome::Done => return Ok((value, self.written(bytes), Changed::Yes)),
                        WriteOutcome::Moved => {}
                    }
                }
                Decision::Replace(_, value) | Decision::Keep(value) => return Ok((value, text, Changed::No)),
                Decision::Doubt(_) if self.becomes_another(&text) => {}
                Decision::Doubt(error) => return Err(TransactError::Refused(error)),
            }
            before = Some(text);
        }
        Err(FileError::Contended { path: self.home.state().to_path_buf(), rounds: ROUNDS }.into())
    }

    /// Accepts a text that another program saved as if we had written it, so that it is no longer an edit.
    pub fn accept(&self, text: &Text) -> Result<(), FileError> {
        let _held = Held::take(&self.home, "accept the state file as it stands", self.wait)?;
        let last = LastWritten::of(&self.home);
        last.write(&text.bytes, &text.hash).map_err(|e| FileError::of("write", self.home.sidecar(), e))
    }

    /// Keeps two texts that cannot be merged under `aot/conflicts/`, and returns the folder.
    pub fn keep_conflict(&self, ours: &[u8], theirs: &[u8]) -> Result<PathBuf, FileError> {
        conflicts::keep(&self.home, ours, theirs)
    }

    /// The conflicts that are kept, oldest first.
    pub fn conflicts(&self) -> Vec<PathBuf> {
        conflicts::all(&self.home)
    }

    fn ours_unless(&self, text: &Text) -> Option<Text> {
        let last = LastWritten::of(&self.home);
        last.hash().filter(|hash| *hash != text.hash).and_then(|_| last.text(self.limit))
    }

    fn was_ours(&self) -> bool {
        LastWritten::of(&self.home).hash().is_some()
    }

    fn becomes_another(&self, text: &Text) -> bool {
        let began = Instant::now();
        while text.stamp.is_fresh(DOUBT_AGE) && began.elapsed() < DOUBT_WAIT {
            if Stamp::of(self.home.state()).is_ok_and(|stamp| stamp != text.stamp) {
                return true;
            }
            std::thread::sleep(POLL);
        }
        false
    }

    /// The text just written. If another program has saved since, it gets a stamp that equals no file's.
    fn written(&self, bytes: Vec<u8>) -> Text {
        match Text::read(self.home.state(), self.limit) {
            Ok(text) if text.bytes == bytes => text,
            _ => Text::gone(bytes),
        }
    }

    fn fits(&self, bytes: &[u8]) -> Result<(), FileError> {
        let size = bytes.len() as u64;
        match size > self.limit {
            true => {
                Err(FileError::TooLarge { path: self.home.state().to_path_buf(), size, limit: self.limit })
            }
            false => Ok(()),
        }
    }
}

impl std::fmt::Debug for StateFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateFile")
            .field("home", &self.home)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, unix))]
mod tests;
