//! Replaces the text of the state file, and recovers what a killed process left. Decides nothing about texts.
//!
//! The new text is written aside (`part-…`), synced, named `swap-BASE-NEW` after the two hashes, and exchanged with the
//! state file in one system call. So the state file is always wholly the old or wholly the new text, and the displaced
//! text can be examined:
//!
//! - it is the base: the change is made. The displaced file stays for a few transactions (`displaced-…`), because an
//!   editor that had opened it before may still write into it; such a late text is found and kept as a conflict.
//! - it is not the base: an editor saved meanwhile. The two are exchanged back at once, so that the editor's text (and
//!   the file that it may still be writing into) is the state again, and the change is decided anew.
//!
//! A process killed in between leaves a `swap-BASE-NEW`. If it contains the new text, it was never used; if the base, the
//! change was made; anything else is an editor's text, which goes back to its place or is kept as a conflict.
//!
//! Where the system cannot exchange, the state file is compared once more and then renamed over, with a hard link to
//! the old one to look at; a save by rename in the few microseconds between is then lost.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use blake3::Hash;

use crate::plain_file;
use crate::store::conflicts;
use crate::store::error::FileError;
use crate::store::home::Home;
use crate::store::lock::{Held, LockError};
use crate::store::system::{
    FileMoment, cannot_exchange, create_private, exchange, open_private, same_device, same_file, sync_folder,
    take_after, writable,
};
use crate::store::text::{Stamp, Text};

/// How many displaced files are watched for a late write, however old they are.
const DISPLACED_KEPT: usize = 4;
/// Younger ones are watched as well, if they are small: an editor on a busy machine may be that long between opening
/// and writing.
const DISPLACED_AGE: Duration = Duration::from_secs(3);
const SMALL: u64 = 1 << 20;
/// More than this are never watched.
const DISPLACED_LIMIT: usize = 32;

/// How many characters of a hash a name carries.
const HASH_CHARS: usize = 32;

/// Points at which tests interfere, or let the process die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplaceStep {
    HalfWritten,
    Written,
    Named,
    Compared,
    Exchanged,
    Restored,
    Recorded,
    Lingering,
}

/// The system call that replaces the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplaceMethod {
    Exchange,
    /// For systems without exchange; a file system without it is detected and treated alike.
    Rename,
}

/// The best that this system offers.
pub(super) const REPLACE_METHOD: ReplaceMethod =
    if cfg!(any(target_os = "linux", target_os = "android", target_vendor = "apple")) {
        ReplaceMethod::Exchange
    } else {
        ReplaceMethod::Rename
    };

#[must_use]
pub(super) enum WriteOutcome {
    /// The new text is in place, and no other text was lost.
    Done,
    /// Another text is in place, and ours is not.
    Moved,
}

/// Displaced files whose text was seen to be the one that was displaced, and in which state they were then.
pub(super) type SeenDisplaced = Mutex<HashMap<String, FileMoment>>;

/// The writer of one transaction.
pub(super) struct Writer<'a> {
    home: &'a Home,
    held: &'a Held,
    limit: u64,
    method: ReplaceMethod,
    at: &'a dyn Fn(ReplaceStep),
    seen: &'a SeenDisplaced,
    temp_folder: PathBuf,
    prefix: String,
    next_displaced: u64,
    /// A foreign text that was displaced for a moment and is in place again. In that moment another program could read
    /// ours instead, and save that over it; so it is safe only when it has become part of a text of ours.
    pub(super) hidden: Option<Text>,
    /// Foreign texts that could not be put back, each in a folder of its own.
    pub(super) rescued: Vec<PathBuf>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        home: &'a Home,
        held: &'a Held,
        limit: u64,
        method: ReplaceMethod,
        at: &'a dyn Fn(ReplaceStep),
        seen: &'a SeenDisplaced,
    ) -> Writer<'a> {
        let (temp_folder, prefix) = temp_folder(home);
        Writer {
            home,
            held,
            limit,
            method,
            at,
            seen,
            temp_folder,
            prefix,
            next_displaced: 0,
            hidden: None,
            rescued: Vec::new(),
        }
    }

    /// Recovers what a killed process left, and checks the displaced files for late writes.
    pub(super) fn recover(&mut self) -> Result<(), FileError> {
        let names = self.names()?;
        let newest = names.iter().filter_map(|name| displaced_number(name)).map(|(number, _)| number).max();
        self.next_displaced = newest.map_or(0, |number| number + 1);
        let mut has_recovered = false;
        for name in &names {
            if name.starts_with("part-") {
                remove(&self.name(name))?;
            } else if let Some((base, new)) = name.strip_prefix("swap-").and_then(|rest| rest.split_once('-'))
            {
                self.recover_swap(&self.name(name), base, new)?;
                has_recovered = true;
            }
        }
        // What was taken up may linger now.
        let mut names = if has_recovered { self.names()? } else { names };
        names.retain(|name| displaced_number(name).is_some());
        names.sort();
        let beyond = |most: usize| names.len().saturating_sub(most - 1);
        for (index, name) in names.iter().enumerate() {
            let (_, base) = displaced_number(name).expect("only these were retained");
            let path = self.name(name);
            let now = FileMoment::of(&path);
            let is_young = now.is_some_and(|now| now.size <= SMALL && now.was_touched_within(DISPLACED_AGE));
            let watch = match index {
                _ if index < beyond(DISPLACED_LIMIT) => Watching::Over,
                _ if index < beyond(DISPLACED_KEPT) && !is_young => Watching::Enough,
                _ => Watching::GoesOn,
            };
            self.check_displaced(&path, now, base, watch)?;
        }
        self.seen().retain(|seen, _| names.contains(seen));
        Ok(())
    }

    /// Replaces `base` by `new`, unless another program has saved or saves meanwhile.
    pub(super) fn put(&mut self, base: &Text, new: &[u8]) -> Result<WriteOutcome, FileError> {
        let state = self.home.state();
        let hash = blake3::hash(new);
        let Some(swap) = self.write_aside(base, new, &hash)? else { return Ok(WriteOutcome::Moved) };
        if !self.held.is_whole() {
            return Err(LockError::Lost { path: self.held.path().to_path_buf() }.into());
        }
        if !self.holds(state, base) {
            return Ok(WriteOutcome::Moved);
        }
        (self.at)(ReplaceStep::Compared);
        let done = match self.method {
            ReplaceMethod::Exchange => match exchange(&swap.path, state) {
                Err(e) if cannot_exchange(&e) => self.rename_over(swap, base, new, &hash)?,
                Err(e) if e.kind() == ErrorKind::NotFound => WriteOutcome::Moved,
                Err(e) => return Err(FileError::of("replace", state, e)),
                Ok(()) => self.check_exchanged(swap.exchanged(), base, new, &hash)?,
            },
            ReplaceMethod::Rename => self.rename_over(swap, base, new, &hash)?,
        };
        if let WriteOutcome::Done = done {
            self.hidden = None;
            sync_folder(self.home.folder())
                .map_err(|e| FileError::of("sync the folder", self.home.folder(), e))?;
        }
        Ok(done)
    }

    /// Writes the text aside and names it by the hashes; `None` if there is no state file to replace.
    fn write_aside(&self, base: &Text, new: &[u8], hash: &Hash) -> Result<Option<TempFile>, FileError> {
        let state = self.home.state();
        let like = match fs::metadata(state) {
            Ok(like) => like,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(FileError::of("read", state, e)),
        };
        writable(state, &like)?;
        let mut aside = TempFile::new(self.name(&format!("part-{}", std::process::id())));
        let failed = |e| FileError::of("write", &aside.path, e);
        let mut file = create_private(&aside.path).map_err(failed)?;
        let (first, rest) = new.split_at(new.len() / 2);
        file.write_all(first).map_err(failed)?;
        (self.at)(ReplaceStep::HalfWritten);
        file.write_all(rest).map_err(failed)?;
        take_after(&file, &like).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        drop(file);
        (self.at)(ReplaceStep::Written);
        let named = self.name(&format!("swap-{}-{}", short(&base.hash), short(hash)));
        fs::rename(&aside.path, &named).map_err(|e| FileError::of("write", &named, e))?;
        aside.path = named;
        (self.at)(ReplaceStep::Named);
        Ok(Some(aside))
    }

    /// After an exchange: the displaced text is the base, or goes back.
    fn check_exchanged(
        &mut self,
        swap: PathBuf,
        base: &Text,
        new: &[u8],
        hash: &Hash,
    ) -> Result<WriteOutcome, FileError> {
        (self.at)(ReplaceStep::Exchanged);
        if !base.is_surely_at(&swap) {
            let displaced = Text::read(&swap, u64::MAX);
            if !displaced.as_ref().is_ok_and(|displaced| displaced.hash == base.hash) {
                self.put_back(&swap, &short(hash))?;
                return displaced.map(|_| WriteOutcome::Moved);
            }
        }
        self.record(new, hash)?;
        self.keep_displaced(&swap, &short(&base.hash))?;
        Ok(WriteOutcome::Done)
    }

    /// Exchanges another program's displaced text back into its place, where our new text should be. If a third text is
    /// there by now, it stays, being the newest, and the displaced one is kept.
    fn put_back(&mut self, swap: &Path, new: &str) -> Result<(), FileError> {
        let state = self.home.state();
        let theirs = Text::read(swap, u64::MAX).ok();
        match exchange(swap, state) {
            Ok(()) => {
                (self.at)(ReplaceStep::Restored);
                if !is_hash(&Text::read(swap, u64::MAX)?.hash, new) {
                    exchange(swap, state).map_err(|e| FileError::of("put back", state, e))?;
                    // Another save may have replaced it in the moment in which it was in place.
                    self.hide(theirs)?;
                    self.keep_hidden(Text::read(swap, u64::MAX).ok().as_ref())?;
                    self.hidden = None;
                    return self.rescue(swap);
                }
            }
            // The state file was removed, so the displaced text can take its place.
            Err(e) if e.kind() == ErrorKind::NotFound => {
                if fs::hard_link(swap, state).is_err() {
                    return self.rescue(swap);
                }
            }
            Err(e) => return Err(FileError::of("put back", state, e)),
        }
        self.hide(theirs)?;
        remove(swap)
    }

    /// Without exchange: compare, then rename. A hard link, where possible, lets us examine the old file afterwards.
    fn rename_over(
        &mut self,
        swap: TempFile,
        base: &Text,
        new: &[u8],
        hash: &Hash,
    ) -> Result<WriteOutcome, FileError> {
        let state = self.home.state();
        let kept = self.name(&format!("displaced-{:010}-{}", self.next_displaced, short(&base.hash)));
        let linked = fs::hard_link(state, &kept).is_ok();
        if !self.holds(if linked { &kept } else { state }, base) {
            remove_if_there(&kept)?;
            return Ok(WriteOutcome::Moved);
        }
        fs::rename(&swap.path, state).map_err(|e| FileError::of("replace", state, e))?;
        // Its name is gone; nothing is left to be removed.
        let _ = swap.exchanged();
        (self.at)(ReplaceStep::Exchanged);
        if linked {
            let displaced = Text::read(&kept, u64::MAX)?;
            if displaced.hash != base.hash {
                fs::rename(&kept, state).map_err(|e| FileError::of("put back", state, e))?;
                self.hide(Some(displaced))?;
                return Ok(WriteOutcome::Moved);
            }
            self.next_displaced += 1;
        }
        self.record(new, hash)?;
        Ok(WriteOutcome::Done)
    }

    /// Recovers a `swap-…` file of a killed process, as the head of this file describes.
    fn recover_swap(&mut self, swap: &Path, base: &str, new: &str) -> Result<(), FileError> {
        let left = Text::read(swap, u64::MAX)?.hash;
        if is_hash(&left, new) {
            return remove(swap);
        }
        let state = Text::read(self.home.state(), u64::MAX).ok();
        let made = state.filter(|state| is_hash(&state.hash, new));
        match (is_hash(&left, base), made) {
            (true, Some(state)) => {
                self.record(&state.bytes, &state.hash)?;
                self.keep_displaced(swap, base)
            }
            (true, None) => self.keep_displaced(swap, base),
            (false, Some(_)) => self.put_back(swap, new),
            (false, None) => self.rescue(swap),
        }
    }

    /// A displaced file that holds another text than it did was written into by an editor that had it open.
    fn check_displaced(
        &mut self,
        kept: &Path,
        now: Option<FileMoment>,
        base: &str,
        watch: Watching,
    ) -> Result<(), FileError> {
        let name = kept.file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_prefix(&self.prefix).unwrap_or(&name);
        let is_unwritten = now.is_some_and(|now| now.is_unwritten_since_moved());
        let now = now.filter(FileMoment::is_settled);
        let is_as_seen = now.is_some() && self.seen().get(name).copied() == now;
        if is_as_seen || is_unwritten {
            return if watch == Watching::GoesOn { Ok(()) } else { remove(kept) };
        }
        let text = Text::read(kept, u64::MAX)?;
        let is_state = Stamp::of(self.home.state()).is_ok_and(|state| same_file(&state, &text.stamp));
        // A link to the state file itself is what a process killed before its rename left.
        match (is_state, is_hash(&text.hash, base)) {
            (true, _) => remove(kept),
            (false, true) if watch == Watching::GoesOn => {
                // Before it was read it had been left alone for a while.
                self.seen().extend(now.map(|now| (name.to_owned(), now)));
                Ok(())
            }
            (false, true) => remove(kept),
            // An editor empties a file before it writes: what is kept now would be kept without its text.
            (false, false) if watch != Watching::Over && text.bytes.is_empty() => Ok(()),
            (false, false) => self.rescue(kept),
        }
    }

    /// Remembers a text that was displaced for a moment. One that was hidden before it need not be part of it.
    fn hide(&mut self, text: Option<Text>) -> Result<(), FileError> {
        self.keep_hidden(text.as_ref())?;
        self.hidden = text;
        Ok(())
    }

    /// Keeps the text that was hidden for a moment, if it is not the one that is in place `now`.
    pub(super) fn keep_hidden(&mut self, now: Option<&Text>) -> Result<(), FileError> {
        let hidden = self.hidden.take_if(|hidden| now.is_none_or(|now| now.hash != hidden.hash));
        if let Some(hidden) = hidden {
            let ours = Text::read(self.home.state(), u64::MAX).map(|text| text.bytes).unwrap_or_default();
            self.rescued.push(conflicts::keep(self.home, &ours, &hidden.bytes)?);
        }
        Ok(())
    }

    fn keep_displaced(&mut self, swap: &Path, base: &str) -> Result<(), FileError> {
        let kept = self.name(&format!("displaced-{:010}-{base}", self.next_displaced));
        self.next_displaced += 1;
        fs::rename(swap, &kept).map_err(|e| FileError::of("put aside", swap, e))?;
        (self.at)(ReplaceStep::Lingering);
        Ok(())
    }

    /// Keeps a foreign text for which there is no place.
    fn rescue(&mut self, foreign: &Path) -> Result<(), FileError> {
        let ours = Text::read(self.home.state(), u64::MAX).map(|text| text.bytes).unwrap_or_default();
        self.rescued.push(conflicts::move_in(self.home, &ours, foreign)?);
        Ok(())
    }

    /// Remembers what we wrote last, so that another program's text is recognised, and ours is not lost when an editor
    /// saves over it. Not synced: after a power cut it may be missing.
    fn record(&self, new: &[u8], hash: &Hash) -> Result<(), FileError> {
        let last = LastWritten::of(self.home);
        if last.write(new, hash).is_err() {
            // An older record would make our own text look like an edit.
            remove_if_there(&last.path)?;
        }
        (self.at)(ReplaceStep::Recorded);
        Ok(())
    }

    /// A thread that panicked in between has left nothing half done.
    fn seen(&self) -> MutexGuard<'_, HashMap<String, FileMoment>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn holds(&self, path: &Path, text: &Text) -> bool {
        text.is_surely_at(path) || Text::read(path, self.limit).is_ok_and(|now| now.hash == text.hash)
    }

    fn name(&self, name: &str) -> PathBuf {
        self.temp_folder.join(format!("{}{name}", self.prefix))
    }

    fn names(&self) -> Result<Vec<String>, FileError> {
        let failed = |e| FileError::of("list", &self.temp_folder, e);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.temp_folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if let Some(name) = name.to_str().and_then(|name| name.strip_prefix(&self.prefix)) {
                names.push(name.to_string());
            }
        }
        Ok(names)
    }
}

/// Whether a displaced file is still watched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watching {
    GoesOn,
    /// It was watched long enough, unless somebody is writing into it.
    Enough,
    Over,
}

/// The number and the hash in the name of a displaced file. The number has leading zeros, so that names sort by it.
fn displaced_number(name: &str) -> Option<(u64, &str)> {
    let (number, base) = name.strip_prefix("displaced-")?.split_once('-')?;
    Some((number.parse().ok()?, base))
}

/// What we wrote last: the hash in hex, a line end, the text.
pub(super) struct LastWritten {
    path: PathBuf,
}

impl LastWritten {
    pub(super) fn of(home: &Home) -> LastWritten {
        LastWritten { path: home.sidecar().join("last") }
    }

    pub(super) fn hash(&self) -> Option<Hash> {
        use std::io::Read;
        let mut head = [0; 64];
        plain_file::open_to_read(&self.path).and_then(|mut file| file.read_exact(&mut head)).ok()?;
        Hash::from_hex(head).ok()
    }

    pub(super) fn text(&self, limit: u64) -> Option<Text> {
        let mut text = Text::read(&self.path, limit.saturating_add(65)).ok()?;
        let hash = Hash::from_hex(text.bytes.get(..64)?).ok()?;
        text.bytes.drain(..text.bytes.len().min(65));
        text.hash = blake3::hash(&text.bytes);
        (text.hash == hash).then_some(text)
    }

    /// Writes over the record before, which is cheaper than a new file. A record that is cut short by a death is no
    /// record, because its hash is wrong.
    pub(super) fn write(&self, bytes: &[u8], hash: &Hash) -> io::Result<()> {
        let mut file = open_private(&self.path)?;
        file.write_all(format!("{}\n", hash.to_hex()).as_bytes())?;
        file.write_all(bytes)?;
        file.set_len(65 + bytes.len() as u64)
    }
}

/// Puts a first text in place; never over another.
pub(super) fn put_new(home: &Home, bytes: &[u8]) -> Result<(), FileError> {
    let state = home.state();
    let aside = TempFile::new(temp_path(home, &format!("part-{}", std::process::id())));
    let failed = |e| FileError::of("write", &aside.path, e);
    let mut options = File::options();
    let mut file =
        plain_file::open(&aside.path, options.write(true).create(true).truncate(true)).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    drop(file);
    match fs::hard_link(&aside.path, state) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            return Err(FileError::Exists { path: state.to_path_buf() });
        }
        // A file system without hard links.
        Err(_) if fs::symlink_metadata(state).is_err() => {
            fs::rename(&aside.path, state).map_err(|e| FileError::of("write", state, e))?;
        }
        Err(_) => return Err(FileError::Exists { path: state.to_path_buf() }),
    }
    // Without this record, or with an older one, the next transaction would take this text for a foreign edit.
    let last = LastWritten::of(home);
    if last.write(bytes, &blake3::hash(bytes)).is_err() {
        remove_if_there(&last.path)?;
    }
    sync_folder(home.folder()).map_err(|e| FileError::of("sync the folder", home.folder(), e))
}

/// A temporary file, removed on drop unless it was exchanged: then it contains another text.
struct TempFile {
    path: PathBuf,
    used: bool,
}

impl TempFile {
    fn new(path: PathBuf) -> TempFile {
        TempFile { path, used: false }
    }

    fn exchanged(mut self) -> PathBuf {
        self.used = true;
        self.path.clone()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.used {
            // What cannot be removed now is removed by the next transaction.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Files aside must be on the state file's file system: usually the sidecar is, else they are beside the state file.
fn temp_folder(home: &Home) -> (PathBuf, String) {
    match same_device(home.folder(), home.sidecar()) {
        true => (home.sidecar().to_path_buf(), String::new()),
        false => {
            let name = home.state().file_name().unwrap_or_default().to_string_lossy();
            (home.folder().to_path_buf(), format!(".{name}.aot-"))
        }
    }
}

fn temp_path(home: &Home, name: &str) -> PathBuf {
    let (folder, prefix) = temp_folder(home);
    folder.join(format!("{prefix}{name}"))
}

fn short(hash: &Hash) -> String {
    hash.to_hex()[..HASH_CHARS].to_string()
}

fn is_hash(hash: &Hash, short: &str) -> bool {
    hash.to_hex()[..HASH_CHARS] == *short
}

fn remove(path: &Path) -> Result<(), FileError> {
    fs::remove_file(path).map_err(|e| FileError::of("remove", path, e))
}

fn remove_if_there(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(FileError::of("remove", path, e)),
        _ => Ok(()),
    }
}
